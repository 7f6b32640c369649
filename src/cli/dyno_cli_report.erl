%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_report).
-moduledoc """
`dyno report`: shows a recording.
""".

-behaviour(dyno_cli_command).

-compile(warn_missing_spec_all).

-export([spec/0, examples/0, run/1]).

-doc "Its arguments.".
-spec spec() -> argparse:command().
spec() ->
    #{
        help => "show a recording in another format: text, HTML, CSV, Markdown and more",
        arguments => [
            #{
                name => recording,
                type => binary,
                help => {"RECORDING", ["the .json file that dyno wrote"]}
            },
            #{
                name => format,
                long => "-format",
                type => binary,
                required => false,
                help =>
                    {"--format FORMAT", [
                        "what standard output gets: " ++ dyno_report:format_names() ++
                            "; console where neither it nor -o is given"
                    ]}
            },
            #{
                name => output,
                short => $o,
                long => "-output",
                type => binary,
                action => append,
                required => false,
                help =>
                    {"-o, --output FILE", [
                        "also write FILE; its ending says the format: " ++
                            dyno_report:file_endings() ++ "; may be given more than once"
                    ]}
            }
        ]
    }.

-doc "Its uses.".
-spec examples() -> [dyno_cli_command:example()].
examples() ->
    [
        {~"dyno report dyno-http-20260301T100000.json", ~"shows the recording as text"},
        {~"dyno report before.json -o before.html", ~"makes a report to open in a browser"}
    ].

-doc "Shows the recording, and writes it to the files asked for.".
-spec run(argparse:arg_map()) -> dyno_cli_command:exit_status().
run(#{recording := Path} = Values) ->
    Files = maps:get(output, Values, []),
    maybe
        {ok, Outputs} ?= tagged(dyno_cli_value, dyno_cli_value:outputs(Files)),
        {ok, Format} ?= format(Values, Files),
        {ok, Document} ?= tagged(dyno_recording_file, dyno_recording_file:read(Path)),
        dyno_cli_output:deliver(Document, Format, Outputs)
    else
        {error, Module, Reason} ->
            dyno_cli_terminal:complain(Module:format_error(Reason)),
            2
    end.

-spec format(argparse:arg_map(), [binary()]) ->
    {ok, dyno_report:format() | none} | {error, module(), term()}.
format(#{format := Text}, _Files) ->
    tagged(dyno_cli_value, dyno_cli_value:choice(~"--format", Text, dyno_report:formats()));
format(_Values, []) ->
    {ok, console};
format(_Values, _Files) ->
    {ok, none}.

-spec tagged(module(), {ok, Value} | {error, Reason}) -> {ok, Value} | {error, module(), Reason}.
tagged(_Module, {ok, Value}) -> {ok, Value};
tagged(Module, {error, Reason}) -> {error, Module, Reason}.
