%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_report).
-moduledoc """
`dyno report`: shows a recording.
""".

-behaviour(dyno_cli_command).

-export([spec/0, examples/0, run/1]).

-doc "Its arguments.".
-spec spec() -> argparse:command().
spec() ->
    #{
        help => "show a recording as text, HTML, CSV, Markdown and more",
        arguments => [
            #{
                name => recording,
                type => binary,
                help => {"RECORDING", ["the .json file that dyno test or dyno bench wrote"]}
            }
            | dyno_cli_output:arguments()
        ]
    }.

-doc "Its uses.".
-spec examples() -> [dyno_cli_command:example()].
examples() ->
    [
        {~"dyno bench 'lists:seq(1, 9)' -o before.json", ~"makes a recording, as dyno test does"},
        {~"dyno report before.json", ~"shows it as text"},
        {~"dyno report before.json -o before.html", ~"makes a report to open in a browser"},
        {~"dyno report before.json --format csv", ~"prints its figures for a spreadsheet"}
    ].

-doc "Shows the recording, and writes it to the files asked for.".
-spec run(argparse:arg_map()) -> dyno_cli_command:exit_status().
run(#{recording := Path} = Values) ->
    maybe
        {ok, Format, Outputs} ?= dyno_cli_output:asked(Values),
        {ok, Document} ?= dyno_cli_value:tagged(
            dyno_recording_file, dyno_recording_file:read(Path)
        ),
        dyno_cli_output:deliver(Document, Format, Outputs)
    else
        Error -> dyno_cli_command:refused(Error)
    end.
