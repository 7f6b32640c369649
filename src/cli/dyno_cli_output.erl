%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_output).
-moduledoc """
Brings a recording to where the command line asked for it: standard output and files.
""".

-export([arguments/0, arguments/2, asked/1, deliver/3]).

-doc "`--format` and `-o` of a command that shows a recording.".
-spec arguments() -> [argparse:argument()].
arguments() ->
    arguments(" (default: console, with -o nothing)", "may be given more than once").

-doc "The same, with what the help says of their absence.".
-spec arguments(Format :: string(), Output :: string()) -> [argparse:argument()].
arguments(Format, Output) ->
    [
        dyno_cli_command:option(
            format,
            "--format FORMAT",
            "what standard output gets: " ++ dyno_report:format_names() ++ Format
        ),
        (dyno_cli_command:repeated(
            output,
            "-o, --output FILE",
            "write FILE, in the format that its ending says: " ++ dyno_report:file_endings() ++
                "; " ++ Output
        ))#{short => $o}
    ].

-doc "What these ask for.".
-spec asked(argparse:arg_map()) ->
    {ok, dyno_report:format() | none, [dyno_cli_value:output()]}
    | {error, module(), dyno_cli_value:reason()}.
asked(Values) ->
    Files = maps:get(output, Values, []),
    maybe
        {ok, Outputs} ?= dyno_cli_value:outputs(Files),
        {ok, Format} ?= format(Values, Files),
        {ok, Format, Outputs}
    else
        {error, Reason} -> {error, dyno_cli_value, Reason}
    end.

-spec format(argparse:arg_map(), [binary()]) ->
    {ok, dyno_report:format() | none} | {error, dyno_cli_value:reason()}.
format(#{format := Text}, _Files) ->
    dyno_cli_value:choice(~"--format", Text, dyno_report:formats());
format(_Values, []) ->
    {ok, console};
format(_Values, _Files) ->
    {ok, none}.

-doc """
Writes the files, then standard output. Every output is tried, whatever becomes of the others;
each failure is one sentence, and the status then 3.
""".
-spec deliver(dyno_report:document(), dyno_report:format() | none, [dyno_cli_value:output()]) ->
    0 | 3.
deliver(Document, Format, Outputs) ->
    Files = [to_file(Document, Output) || Output <- Outputs],
    lists:max([to_stdout(Document, Format) | Files]).

-spec to_file(dyno_report:document(), dyno_cli_value:output()) -> 0 | 3.
to_file(Document, {Format, Path}) ->
    maybe
        {ok, Report} ?= dyno_report:render(Format, Document, dyno_cli_terminal:file_look()),
        status(dyno_report:write(Path, Report))
    else
        Error -> status(Error)
    end.

-spec to_stdout(dyno_report:document(), dyno_report:format() | none) -> 0 | 3.
to_stdout(_Document, none) ->
    0;
to_stdout(Document, Format) ->
    case dyno_report:render(Format, Document, dyno_cli_terminal:look()) of
        {ok, Report} -> dyno_cli_terminal:print(Report);
        Error -> status(Error)
    end.

-spec status(ok | {error, dyno_report:reason()}) -> 0 | 3.
status(ok) ->
    0;
status({error, Reason}) ->
    dyno_cli_terminal:complain(dyno_report:format_error(Reason)),
    3.
