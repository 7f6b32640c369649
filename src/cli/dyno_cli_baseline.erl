%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_baseline).
-moduledoc """
`--baseline` and `--fail-if` of `dyno bench`: what was measured now against an earlier recording.

A condition that holds is measured once more, because two runs differ by chance; it fails only on
the figures on which it held both times.
""".

-compile(warn_missing_spec_all).

-export([arguments/0, parse/1, judge/4]).

-export_type([plan/0]).

-doc "The earlier recording and the conditions; or none.".
-opaque plan() ::
    none | {dyno_recording:document(), [dyno_compare_gate:t()], dyno_compare:options()}.

-type measure() :: fun(
    () -> {ok, dyno_recording:document()} | {error, dyno_cli_command:exit_status()}
).

-doc "The options.".
-spec arguments() -> [argparse:argument()].
arguments() ->
    [
        #{
            name => baseline,
            long => "-baseline",
            type => binary,
            required => false,
            help =>
                {"--baseline FILE", ["compare with an earlier recording, of the same place (-o)"]}
        },
        #{
            name => fail_if,
            long => "-fail-if",
            type => binary,
            action => append,
            required => false,
            help =>
                {"--fail-if CONDITION", [
                    "with --baseline, exit with 1 where it holds, twice: slower > 5%, faster > 5% "
                    "or reductions > 0.1%; may be given more than once"
                ]}
        }
    ].

-doc "Reads the baseline and the conditions, before anything is measured.".
-spec parse(argparse:arg_map()) ->
    {ok, plan()} | {error, unicode:chardata()} | {error, module(), term()}.
parse(#{baseline := Path} = Values) ->
    maybe
        {ok, Conditions} ?= conditions(maps:get(fail_if, Values, [])),
        {ok, Baseline} ?= tagged(dyno_recording_file, dyno_recording_file:read(Path)),
        ok ?= same_place(Baseline),
        {ok, {Baseline, Conditions, threshold(Values)}}
    end;
parse(#{fail_if := _}) ->
    {error, "--fail-if compares with a recording; give it with --baseline FILE"};
parse(_) ->
    {ok, none}.

-spec conditions([binary()]) ->
    {ok, [dyno_compare_gate:t()]} | {error, module(), dyno_compare_gate:reason()}.
conditions([]) ->
    {ok, []};
conditions([Text | Texts]) ->
    maybe
        {ok, Condition} ?= tagged(dyno_compare_gate, dyno_compare_gate:parse(Text)),
        {ok, Conditions} ?= conditions(Texts),
        {ok, [Condition | Conditions]}
    end.

%% What the environment and the command rule out is known before the measurement.
-spec same_place(dyno_recording:document()) -> ok | {error, module(), dyno_compare:reason()}.
same_place(#{~"parameters" := Parameters} = Baseline) ->
    Now = dyno_recording:new(bench, ~"now", Parameters, dyno_environment:collect()),
    case dyno_compare:comparable(Baseline, dyno_recording:put(Now, status, complete)) of
        ok -> ok;
        {error, Reason} -> {error, dyno_compare, Reason}
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

-spec tagged(module(), {ok, Value} | {error, Reason}) -> {ok, Value} | {error, module(), Reason}.
tagged(_Module, {ok, Value}) -> {ok, Value};
tagged(Module, {error, Reason}) -> {error, Module, Reason}.

-doc """
Compares, measures once more where a condition holds, and hands what is to be shown to `Show`.
""".
-spec judge(plan(), dyno_recording:document(), measure(), Show) ->
    dyno_cli_command:exit_status()
when
    Show :: fun((dyno_recording:document()) -> dyno_cli_command:exit_status()).
judge(none, Document, _Measure, Show) ->
    Show(Document);
judge({Baseline, Conditions, Options}, Document, Measure, Show) ->
    case changes(Baseline, Document, Options) of
        {ok, Changes} ->
            Failing = [dyno_compare_gate:failing(C, Changes) || C <- Conditions],
            case lists:append(Failing) of
                [] ->
                    Verdicts = verdicts(Conditions, Changes, Failing),
                    shown(Baseline, Document, Changes, Verdicts, Show);
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
        shown(Baseline, Warned, Changes, verdicts(Conditions, Changes, Failing), Show)
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
    case dyno_compare:comparable(Baseline, Document) of
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
    dyno_recording:document(),
    [dyno_compare:change()],
    [#{atom() => term()}],
    fun((dyno_recording:document()) -> dyno_cli_command:exit_status())
) -> dyno_cli_command:exit_status().
shown(Baseline, Document0, Changes, Verdicts, Show) ->
    Document1 = dyno_recording:add_tables(Document0, [dyno_compare:table(Changes)]),
    Document2 = dyno_recording:add_verdicts(Document1, Verdicts),
    Warnings = dyno_compare:warnings(Baseline, Changes, []),
    Failed = [
        [Name, ": ", Text]
     || #{name := Name, result := Result, text := Text} <- Verdicts, Result =/= pass
    ],
    lists:foreach(
        fun(Line) -> dyno_cli_terminal:note(["dyno: --fail-if ", dyno_report_text:encode(Line)]) end,
        Failed
    ),
    case {Show(dyno_recording:add_warnings(Document2, Warnings)), Failed} of
        {0, [_ | _]} -> 1;
        {Status, _} -> Status
    end.
