%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_report).
-moduledoc "`dyno report`: shows a recording.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand("RECORDING", "the .json file of an earlier command")
        ],
        options => [
            {"",
                dyno_cli_output:options(" (default: console, with -o nothing)", "") ++
                    [dyno_cli_output:view()]}
        ],
        examples =>
            """
            dyno bench 'lists:seq(1, 9)' -o before.json
                makes a recording
            dyno report before.json
                shows the recording as text
            dyno report before.json -o before.html
                writes a page
            dyno report before.json --format csv
                prints the metrics for a spreadsheet
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{recording := Path} = Values) ->
    case dyno_error:tagged(dyno_recording_file, dyno_recording_file:read(Path)) of
        {ok, Document} -> dyno_cli_output:deliver(Document, Values);
        Error -> Error
    end.
