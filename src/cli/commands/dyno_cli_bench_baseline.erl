%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_baseline).
-moduledoc """
`--baseline` and `--fail-if` of `dyno bench`: what was measured now against an earlier recording.

A condition that holds is measured once more, because two runs differ by chance; it fails only on
the figures on which it held both times.

Without a baseline, `--fail-if` compares what one measurement has: the revisions of `--rev`, or
several `--erl` or `--erl-flags`, with the first of them. Each was measured in many VMs: once is
enough.
""".

-export([arguments/0, arguments/2, parse/1, judge/4]).

-export_type([plan/0]).

-doc "The earlier recording, or the first variant, and the conditions; or none.".
-opaque plan() ::
    none
    | {dyno_recording:document() | first_variant, [dyno_compare_gate:t()], dyno_compare:options()}.

-type measure() :: fun(
    () -> {ok, dyno_recording:document()} | {error, dyno_cli_command:exit_status()}
).

-doc "The options.".
-spec arguments() -> [argparse:argument()].
arguments() ->
    arguments(
        "an earlier recording (.json), made at the same place, to compare with",
        "with --baseline or --rev: exit with 1 where it holds: slower > 5%, faster > 5%, words > "
        "0.1%, or worse > 5% of what --metric says; may be given more than once"
    ).

-doc "The same with what the help says of them.".
-spec arguments(Baseline :: string(), FailIf :: string()) -> [argparse:argument()].
arguments(Baseline, FailIf) ->
    [
        dyno_cli_command:option(baseline, "--baseline FILE", Baseline),
        (dyno_cli_command:repeated(fail_if, "--fail-if CONDITION", FailIf))#{long => "-fail-if"}
    ].

-doc "Reads the baseline and the conditions, before anything is measured.".
-spec parse(argparse:arg_map()) ->
    {ok, plan()} | {error, unicode:chardata()} | {error, module(), term()}.
parse(#{baseline := Path} = Values) ->
    maybe
        {ok, Meant} ?= conditions(Values),
        {ok, Baseline} ?= dyno_cli_value:tagged(
            dyno_recording_file, dyno_recording_file:read(Path)
        ),
        {ok, Figures} ?= same_place(Baseline, Meant),
        {ok, {Baseline, Meant, (threshold(Values))#{figures => Figures}}}
    end;
parse(#{fail_if := _} = Values) ->
    Several = [x || Key <- [erl, 'erl-flags'], length(maps:get(Key, Values, [])) > 1],
    case is_map_key(rev, Values) orelse Several =/= [] of
        true ->
            case conditions(Values) of
                {ok, Meant} -> {ok, {first_variant, Meant, threshold(Values)}};
                Error -> Error
            end;
        false ->
            {error,
                "--fail-if compares with a recording or a revision; give it with --baseline FILE "
                "or --rev"}
    end;
parse(_) ->
    {ok, none}.

-spec conditions(argparse:arg_map()) ->
    {ok, [dyno_compare_gate:t()]} | {error, module(), dyno_compare_gate:reason()}.
conditions(Values) ->
    case dyno_compare_gate:parse_all(maps:get(fail_if, Values, [])) of
        {ok, Conditions} ->
            Metric = maps:get(metric, Values, ~"time"),
            {ok, [dyno_compare_gate:of_metric(Condition, Metric) || Condition <- Conditions]};
        {error, Reason} ->
            {error, dyno_compare_gate, Reason}
    end.

%% What the environment and the command rule out is known before the measurement.
%% Conditions on exact figures alone hold on any machine.
-spec same_place(dyno_recording:document(), [dyno_compare_gate:t()]) ->
    {ok, all | exact} | {error, module(), dyno_compare:reason()}.
same_place(#{~"parameters" := Parameters} = Baseline, Conditions) ->
    Now0 = dyno_recording:new(bench, ~"now", Parameters, dyno_environment:collect()),
    Now = dyno_recording:put(Now0, status, complete),
    OnlyExact = Conditions =/= [] andalso lists:all(fun dyno_compare_gate:is_exact/1, Conditions),
    case dyno_compare:comparable(Baseline, Now) of
        ok ->
            {ok, all};
        {error, {environments, _}} when OnlyExact ->
            case dyno_compare:comparable(Baseline, Now, exact) of
                ok -> {ok, exact};
                {error, Reason} -> {error, dyno_compare, Reason}
            end;
        {error, Reason} ->
            {error, dyno_compare, Reason}
    end.

-spec threshold(argparse:arg_map()) -> dyno_compare:options().
threshold(#{threshold := Text}) ->
    case dyno_unit:parse(Text) of
        {ok, {Share, _}} -> #{threshold => float(Share)};
        %% The command itself refuses it.
        {error, _} -> #{}
    end;
threshold(_) ->
    #{}.

-doc """
Compares, measures once more where a condition holds, and hands what is to be shown to `Show`.
""".
-spec judge(plan(), dyno_recording:document(), measure(), Show) ->
    dyno_cli_command:exit_status()
when
    Show :: fun((dyno_recording:document()) -> dyno_cli_command:exit_status()).
judge(none, Document, _Measure, Show) ->
    Show(Document);
judge({first_variant, Conditions, Options}, Document, _Measure, Show) ->
    case dyno_compare_variants:changes(Document, Options) of
        {ok, Changes} ->
            Failing = [dyno_compare_gate:failing(C, Changes) || C <- Conditions],
            shown(Document, Changes, verdicts(Conditions, Changes, Failing), [], Show);
        {error, nothing_in_common} ->
            dyno_cli_terminal:complain(
                "no code is known to be the same one in both; give each a --label of its own"
            ),
            2
    end;
judge({Baseline, Conditions, Options}, Document, Measure, Show) ->
    case changes(Baseline, Document, Options) of
        {ok, Changes} ->
            Failing = [dyno_compare_gate:failing(C, Changes) || C <- Conditions],
            case lists:append(Failing) of
                [] ->
                    Verdicts = verdicts(Conditions, Changes, Failing),
                    Warnings = dyno_compare:warnings(Baseline, Changes, []),
                    shown(Document, Changes, Verdicts, Warnings, Show);
                _ ->
                    confirm({Baseline, Conditions, Options}, Failing, Measure, Show)
            end;
        {error, Reason} ->
            refused(Reason)
    end.

-spec confirm(
    {dyno_recording:document(), [dyno_compare_gate:t()], dyno_compare:options()},
    [[dyno_compare:change()]],
    measure(),
    fun((dyno_recording:document()) -> dyno_cli_command:exit_status())
) -> dyno_cli_command:exit_status().
confirm({Baseline, Conditions, Options}, First, Measure, Show) ->
    dyno_cli_terminal:note(
        "dyno: a condition of --fail-if holds; measuring once more to confirm it"
    ),
    maybe
        {ok, Document} ?= Measure(),
        {ok, Changes} ?= changes(Baseline, Document, Options),
        Failing = [
            [Change || Change <- dyno_compare_gate:failing(C, Changes), is_among(Change, Earlier)]
         || {C, Earlier} <- lists:zip(Conditions, First)
        ],
        Warning =
            {~"confirmed",
                dyno_report_text:encode([
                    "a condition held at the first measurement; what is shown is the second, ",
                    "and only what held in both fails"
                ])},
        Warned = dyno_recording:add_warnings(Document, [Warning]),
        Warnings = dyno_compare:warnings(Baseline, Changes, []),
        shown(Warned, Changes, verdicts(Conditions, Changes, Failing), Warnings, Show)
    else
        {error, Status} when is_integer(Status) -> Status;
        {error, Reason} -> refused(Reason)
    end.

-spec is_among(dyno_compare:change(), [dyno_compare:change()]) -> boolean().
is_among(#{item := Item, figure := Figure}, Changes) ->
    [] =/= [x || #{item := I, figure := F} <- Changes, I =:= Item, F =:= Figure].

-spec changes(dyno_recording:document(), dyno_recording:document(), dyno_compare:options()) ->
    {ok, [dyno_compare:change(), ...]} | {error, dyno_compare:reason()}.
changes(Baseline, Document, Options) ->
    case dyno_compare:comparable(Baseline, Document, maps:get(figures, Options, all)) of
        ok ->
            case dyno_compare:changes({Baseline, Document}, Options) of
                [] -> {error, nothing_in_common};
                Changes -> {ok, Changes}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

-spec refused(dyno_compare:reason()) -> 2.
refused(Reason) ->
    dyno_cli_terminal:complain(dyno_compare:format_error(Reason)),
    2.

-spec verdicts([dyno_compare_gate:t()], [dyno_compare:change()], [[dyno_compare:change()]]) ->
    [#{atom() => term()}].
verdicts(Conditions, Changes, Failing) ->
    [
        dyno_compare_gate:verdict(Condition, Changes, Of)
     || {Condition, Of} <- lists:zip(Conditions, Failing)
    ].

-spec shown(
    dyno_recording:document(),
    [dyno_compare:change()],
    [#{atom() => term()}],
    [{binary(), binary()}],
    fun((dyno_recording:document()) -> dyno_cli_command:exit_status())
) -> dyno_cli_command:exit_status().
shown(Document0, Changes, Verdicts, Warnings, Show) ->
    Document1 = dyno_recording:add_tables(Document0, [dyno_compare:table(Changes)]),
    Document2 = dyno_recording:add_verdicts(Document1, Verdicts),
    Failed = [
        [Name, ": ", Text]
     || #{name := Name, result := Result, text := Text} <- Verdicts, Result =/= pass
    ],
    lists:foreach(
        fun(Line) ->
            dyno_cli_terminal:note(["dyno: --fail-if ", dyno_report_text:encode(Line)])
        end,
        Failed
    ),
    case {Show(dyno_recording:add_warnings(Document2, Warnings)), Failed} of
        {0, [_ | _]} -> 1;
        {Status, _} -> Status
    end.
