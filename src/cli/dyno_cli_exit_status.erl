%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_exit_status).
-moduledoc false.
%% The exit statuses of all commands, from the recording that a command made.

-export([meanings/0, of_recording/1, of_verdicts/1, after_output/2, not_passed/1]).

-doc "The exit statuses, for the help.".
-spec meanings() -> [{0..255, binary()}, ...].
meanings() ->
    [
        {0, ~"done"},
        {1, <<
            "the measured system failed; a condition of --fail-if holds; a threshold, an "
            "invariant or a property does not hold or is unknown"
        >>},
        {2, ~"wrong arguments, or a wrong file that one names"},
        {3, ~"dyno or the target could not do the work"},
        {130, ~"interrupted; or standard output was closed. The measurements are kept"}
    ].

-spec of_recording(dyno_recording:document()) -> dyno_error:exit_status().
of_recording(#{~"status" := ~"interrupted"}) -> 130;
of_recording(#{~"status" := ~"complete"} = Document) -> of_verdicts(Document);
of_recording(_Document) -> 3.

-doc "A gate that could not be evaluated must not pass.".
-spec of_verdicts(dyno_recording:document()) -> 0 | 1.
of_verdicts(Document) ->
    case not_passed(Document) of
        [] -> 0;
        [_ | _] -> 1
    end.

-doc "The status after output: failed output is dyno's failure, unless the status is worse.".
-spec after_output(dyno_error:exit_status(), Output :: 0 | 3) -> dyno_error:exit_status().
after_output(0, Output) -> Output;
after_output(Status, _Output) -> Status.

-doc "The verdicts of a recording that did not pass.".
-spec not_passed(dyno_recording:document()) -> [#{binary() => term()}].
not_passed(Document) ->
    case Document of
        #{~"verdicts" := Verdicts} when is_list(Verdicts) ->
            [V || #{~"result" := Result} = V <- Verdicts, Result =/= ~"pass"];
        #{} ->
            []
    end.
