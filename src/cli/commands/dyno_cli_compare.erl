%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_compare).
-moduledoc "`dyno compare`: reports changes between two recordings.".

-behaviour(dyno_cli_command).

-import(dyno_cli_command, [operand/2]).

-export([command/0, run/1]).

-spec command() -> dyno_cli_command:t().
command() ->
    [_Baseline, FailIf] = dyno_cli_baseline:options(
        "",
        "exits with 1 if the condition holds or is unknown: slower > 5%, faster > 5%, memory > 5%, "
        "words > 0.1%, or worse > 5% of the --metric"
    ),
    #{
        operands => [
            operand("OLD", "the earlier recording (.json)"),
            operand("NEW", "the later recording (.json)")
        ],
        options => [
            {"",
                [
                    {"--tolerance SHARE", "ignores smaller differences (default: 3%)", share,
                        threshold},
                    FailIf,
                    {"--force", "also compares recordings made under other conditions",
                        {flag, warn}, incomparable}
                    | dyno_cli_output:options(" (default: console, with -o nothing)", "")
                ] ++
                    [{"-q, --quiet", "only the requested report; see the exit status"}]}
        ],
        examples =>
            """
            dyno bench 'lists:seq(1, 9)' -o before.json
                makes a recording; repeat later for after.json
            dyno compare before.json after.json
                shows the differences
            dyno compare before.json after.json --fail-if 'slower > 5%' -o pr.md
                exits with 1 on a regression, and writes Markdown for a pull request
            dyno compare before.json after.json -o both.html
                writes a page with both in the same charts
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{old := OldPath, new := NewPath} = Values) ->
    Conditions = maps:get(fail_if, Values, []),
    Options = (maps:with([threshold, incomparable], Values))#{
        names => dyno_compare_gate:names(Conditions)
    },
    maybe
        {ok, Old} ?= recording(OldPath),
        {ok, New} ?= recording(NewPath),
        ok ?= dyno_cli_baseline:checked(Conditions, [Old, New]),
        {ok, Compared} ?= compared(Old, New, Options),
        Changes = dyno_compare:changes({Old, New}, Options),
        Metric = dyno_report_document:text(
            ~"metric", dyno_report_document:get(~"parameters", New, #{}), ~"time"
        ),
        Verdicts = [
            dyno_compare_gate:verdict(C, Changes, dyno_compare_gate:failing(C, Changes))
         || Condition <- Conditions,
            C <- [dyno_compare_gate:of_metric(Condition, Metric)]
        ],
        Document = dyno_recording:add_verdicts(Compared, Verdicts),
        dyno_cli_exit_status:after_output(
            dyno_cli_exit_status:of_verdicts(Document), dyno_cli_output:deliver(Document, Values)
        )
    end.

recording(Path) ->
    dyno_error:tagged(dyno_recording_file, dyno_recording_file:read(Path)).

compared(Old, New, Options) ->
    case dyno_compare:compare(Old, New, Options) of
        {error, {environments, _} = Reason} ->
            dyno_cli_command:contradiction(
                [dyno_compare:format_error(Reason), ", or compare all the same with --force"]
            );
        Other ->
            dyno_error:tagged(dyno_compare, Other)
    end.
