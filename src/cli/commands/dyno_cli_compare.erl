%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_compare).
-moduledoc """
`dyno compare`: says what became slower, faster, more or less from one recording to another.
""".

-behaviour(dyno_cli_command).

-import(dyno_cli_command, [option/3, repeated/3]).

-export([spec/0, examples/0, run/1]).

-doc "Its arguments.".
-spec spec() -> argparse:command().
spec() ->
    #{
        help => "compare two recordings: what became slower or faster, by how much",
        arguments => [
            #{name => old, type => binary, help => {"OLD", ["the .json file of the earlier one"]}},
            #{name => new, type => binary, help => {"NEW", ["the .json file of the later one"]}},
            option(
                threshold, "--threshold SHARE", "smaller differences do not matter (default: 3%)"
            ),
            (repeated(
                fail_if,
                "--fail-if CONDITION",
                "exit with 1 where it holds: slower > 5%, faster > 5%, words > 0.1%, or worse > "
                "5% of what decided (--metric); may be given more than once"
            ))#{long => "-fail-if"},
            (option(force, "--force", "compare also what was measured under other conditions"))#{
                type => boolean, action => {store, true}
            }
            | dyno_cli_output:arguments()
        ]
    }.

-doc "Its uses.".
-spec examples() -> [dyno_cli_command:example()].
examples() ->
    [
        {~"dyno bench 'lists:seq(1, 9)' -o before.json", ~"makes a recording; later after.json"},
        {~"dyno compare before.json after.json", ~"shows the differences"},
        {~"dyno compare before.json after.json --fail-if 'slower > 5%' -o pr.md",
            ~"exits with 1 on a regression, and writes what a pull request shows"},
        {~"dyno compare before.json after.json -o both.html",
            ~"makes a report with both in the same charts"}
    ].

-doc "Compares, shows, and fails where a condition holds.".
-spec run(argparse:arg_map()) -> dyno_cli_command:exit_status().
run(#{old := OldPath, new := NewPath} = Values) ->
    maybe
        {ok, Threshold} ?= threshold(Values),
        {ok, Given} ?= dyno_cli_value:tagged(
            dyno_compare_gate, dyno_compare_gate:parse_all(maps:get(fail_if, Values, []))
        ),
        {ok, Format, Outputs} ?= dyno_cli_output:asked(Values),
        {ok, Old} ?= dyno_cli_value:tagged(dyno_recording_file, dyno_recording_file:read(OldPath)),
        {ok, New} ?= dyno_cli_value:tagged(dyno_recording_file, dyno_recording_file:read(NewPath)),
        Options = maps:merge(Threshold, force(Values)),
        Metric = dyno_report_document:text(
            ~"metric", dyno_report_document:get(~"parameters", New, #{}), ~"time"
        ),
        Conditions = [dyno_compare_gate:of_metric(Condition, Metric) || Condition <- Given],
        {ok, Compared} ?= compared(Old, New, Options),
        Changes = dyno_compare:changes({Old, New}, Options),
        Verdicts = [
            dyno_compare_gate:verdict(C, Changes, dyno_compare_gate:failing(C, Changes))
         || C <- Conditions
        ],
        Document = dyno_recording:add_verdicts(Compared, Verdicts),
        status(dyno_cli_output:deliver(Document, Format, Outputs), Verdicts)
    else
        Error -> dyno_cli_command:refused(Error)
    end.

-spec compared(dyno_recording:document(), dyno_recording:document(), dyno_compare:options()) ->
    {ok, dyno_recording:document()} | {error, unicode:chardata()} | {error, module(), term()}.
compared(Old, New, Options) ->
    case dyno_compare:compare(Old, New, Options) of
        {error, {environments, _} = Reason} ->
            {error, [dyno_compare:format_error(Reason), ", or compare all the same with --force"]};
        Other ->
            dyno_cli_value:tagged(dyno_compare, Other)
    end.

%% What could not be written is worse than a condition that holds: nobody sees the result.
-spec status(0 | 3, [#{atom() => term()}]) -> dyno_cli_command:exit_status().
status(0, Verdicts) ->
    case [Result || #{result := Result} <- Verdicts, Result =/= pass] of
        [] -> 0;
        _ -> 1
    end;
status(Status, _) ->
    Status.

-spec threshold(argparse:arg_map()) -> {ok, dyno_compare:options()} | {error, unicode:chardata()}.
threshold(#{threshold := Text}) ->
    case dyno_unit:parse(Text) of
        {ok, {Share, Unit}} when
            Share > 0, Share < 1, (Unit =:= ~"ratio" orelse Unit =:= ~"1")
        ->
            {ok, #{threshold => float(Share)}};
        _ ->
            {error, [
                "--threshold is \"", dyno_report_text:clean(Text),
                "\"; a share above 0 % and below 100 %, such as 3%, is accepted"
            ]}
    end;
threshold(_) ->
    {ok, #{}}.

-spec force(argparse:arg_map()) -> dyno_compare:options().
force(#{force := true}) -> #{incomparable => warn};
force(_) -> #{}.
