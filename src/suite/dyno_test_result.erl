%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_result).
-moduledoc false.
%% Gathers what is measured in one run, while it goes on, and makes a run of the recording of it.
%% Whoever measures something adds it here; nobody else knows how it is kept. Pure.

-export([new/1]).
%% What the load tells
-export([interval/2, load/2]).
%% What the targets tell
-export([sample/2, targets/2, read/3, baseline/2]).
%% Parts of the recording that somebody else has made
-export([metrics/2, series/2, tables/2, warning/2, warnings/2, verdicts/2]).
-export([duration_ns/2, problem/2, run/2]).

-export_type([t/0, sample/0, status/0]).

-import(dyno_recording_part, [series/7, text/2]).

-type part() :: #{atom() => term()}.

-doc "What an agent's sampler saw, and what it took to see it.".
-type sample() :: {
    node(), TimeMs :: integer(), Values :: #{binary() => number()}, CostUs :: non_neg_integer()
}.

-doc "How the run stands or ended.".
-type status() :: complete | interrupted | partial | failed | {failed, binary(), binary()}.

-opaque t() :: #{
    about := about(),
    duration_ns := non_neg_integer(),
    %% The load's, the last interval first.
    intervals := [dyno_load_source:interval()],
    load := dyno_load_result:t() | none,
    targets := [dyno_targets:target()],
    %% The last sample first.
    samples := [sample()],
    figures := [dyno_targets:figures()],
    %% Of the run without instruments: none, the half before, or both.
    baseline := [dyno_test_baseline_run:half()],
    parts := #{metrics | series | tables | warnings := [part()]},
    verdicts := [part()]
}.

-type about() :: #{
    id := binary(),
    size := non_neg_integer(),
    repetition := pos_integer(),
    started_at := binary()
}.

%% Counts that may be off by more than this share are said to be.
-define(INEXACT, 0.002).
%% From here on the hypervisor takes too much of the processor time.
-define(STEAL, 0.02).

-doc "Nothing is measured yet.".
-spec new(about()) -> t().
new(About) ->
    #{
        about => About,
        duration_ns => 0,
        intervals => [],
        load => none,
        targets => [],
        samples => [],
        figures => [],
        baseline => [],
        parts => maps:from_keys([metrics, series, tables, warnings], []),
        verdicts => []
    }.

-doc "How long the measured part is, or was until now.".
-spec duration_ns(non_neg_integer(), t()) -> t().
duration_ns(Ns, Result) -> Result#{duration_ns := Ns}.

-doc "One interval of the load.".
-spec interval(dyno_load_source:interval() | unknown, t()) -> t().
interval(unknown, Result) ->
    Result;
interval(Interval, #{intervals := Intervals} = Result) ->
    Result#{intervals := [Interval | Intervals]}.

-doc "What came of the load; none of one that tells nothing of its operations.".
-spec load(dyno_load_result:t() | none, t()) -> t().
load(none, Result) ->
    Result;
load(#{duration_ns := Ns} = Load, Result) ->
    Result#{load := Load, duration_ns := Ns}.

-doc "One sample of a target's virtual machine and system.".
-spec sample(sample(), t()) -> t().
sample(Sample, #{samples := Samples} = Result) ->
    Result#{samples := [Sample | Samples]}.

-doc "The targets, those that have left among them.".
-spec targets([dyno_targets:target()], t()) -> t().
targets(Targets, Result) -> Result#{targets := Targets}.

-doc "What the instruments had measured after so many nanoseconds.".
-spec read([dyno_targets:figures()], non_neg_integer(), t()) -> t().
read(Figures, DurationNs, Result) ->
    Result#{figures := Figures, duration_ns := DurationNs}.

-doc "A half of the run without instruments.".
-spec baseline(dyno_test_baseline_run:half(), t()) -> t().
baseline(Half, #{baseline := Halves} = Result) ->
    Result#{baseline := Halves ++ [Half]}.

-spec metrics([part()], t()) -> t().
metrics(Metrics, Result) -> add(metrics, Metrics, Result).

-spec series([part()], t()) -> t().
series(Series, Result) -> add(series, Series, Result).

-spec tables([part()], t()) -> t().
tables(Tables, Result) -> add(tables, Tables, Result).

-spec warning({Code :: binary(), Text :: binary()}, t()) -> t().
warning(Warning, Result) -> warnings([Warning], Result).

-spec warnings([{Code :: binary(), Text :: binary()}], t()) -> t().
warnings(Warnings, Result) ->
    add(warnings, [#{code => Code, text => Text} || {Code, Text} <- Warnings], Result).

-doc "Verdicts are the recording's: `run/2` gives them beside the run.".
-spec verdicts([part()], t()) -> t().
verdicts(Verdicts, #{verdicts := Before} = Result) ->
    Result#{verdicts := Before ++ Verdicts}.

add(Key, New, #{parts := Parts} = Result) ->
    #{Key := Before} = Parts,
    Result#{parts := Parts#{Key := Before ++ New}}.

-doc """
Why a run that came to its end has measured nothing: no operation succeeded, or, where nobody counts
operations, none of the functions was called that were to be measured.
""".
-spec problem(module(), t()) -> none | {Code :: binary(), Text :: binary()}.
problem(Module, #{load := none, figures := Figures}) ->
    Counts = [N || #{functions := #{functions := [], measured_functions := N}} <- Figures, N > 0],
    Called = [F || #{functions := #{functions := Functions}} <- Figures, F <- Functions],
    case {Called, Counts} of
        {[], [_ | _]} ->
            Text =
                "none of the ~b functions of ~ts:get_trace_patterns/0 was called between "
                "start_load and stop_load: the load missed the targets, or was over before",
            {~"no_operations", text(Text, [lists:sum(Counts), Module])};
        _ ->
            none
    end;
problem(Module, #{load := #{total := #{successes := 0, failures := 0}} = Load} = Result) ->
    #{duration_ns := DurationNs} = Result,
    #{under_way := UnderWay} = Load,
    Text =
        "no operation ended within the run: ~ts had not returned after ~ts (calls under way: "
        "~b); give it a longer duration_ms",
    Duration = dyno_unit:format(round(DurationNs / 1.0e6), ~"ms"),
    {~"no_operations", text(Text, [operation(Module), Duration, UnderWay])};
problem(Module, #{load := #{total := #{successes := 0, failures := N}} = Load}) ->
    #{errors := [{Reason, _} | _]} = Load,
    Text = "all ~b operations failed; what ~ts raised or returned most often is ~ts",
    {~"no_operations", text(Text, [N, operation(Module), Reason])};
problem(_Module, _Result) ->
    none.

operation(Module) ->
    Arity =
        case erlang:function_exported(Module, operation, 1) of
            true -> 1;
            false -> 2
        end,
    text("~ts:operation/~b", [Module, Arity]).

-doc "The run, as doc/recording.md has it, and its verdicts.".
-spec run(status(), t()) -> {Run :: part(), Verdicts :: [part()]}.
run(Status, #{about := About, parts := Parts, verdicts := Verdicts} = Result) ->
    #{load := LoadResult, samples := Samples, baseline := Halves} = Result,
    Intervals = lists:reverse(map_get(intervals, Result)),
    Measured = Result#{samples := lists:reverse(Samples)},
    Load = dyno_load_result:to_recording(LoadResult, Intervals),
    Cost = dyno_test_baseline_run:metrics(Halves, Intervals),
    Own = #{
        metrics =>
            map_get(metrics, Load) ++ dyno_test_inside:metrics(Measured) ++ Cost,
        series => map_get(series, Load) ++ sampled_series(Measured),
        tables => map_get(tables, Load) ++ dyno_test_inside:tables(Measured),
        warnings => map_get(warnings, Load) ++ [
            #{code => Code, text => Text}
         || {Code, Text} <- own_warnings(Measured) ++ dyno_test_baseline_run:warnings(Cost)
        ]
    },
    Run = maps:merge_with(fun(_, First, Others) -> First ++ Others end, Own, Parts),
    {
        (maps:merge(About, Run))#{
            status => name(Status),
            error => error_of(Status),
            duration_ns => map_get(duration_ns, Result),
            nodes => [Facts || #{facts := Facts} <- map_get(targets, Result)],
            histograms =>
                map_get(histograms, Load) ++ dyno_test_inside:histograms(Measured)
        },
        Verdicts
    }.

name({failed, _, _}) -> failed;
name(Status) -> Status.

error_of({failed, Code, Text}) -> #{code => Code, text => Text};
error_of(_Status) -> undefined.

%% VM and system

sampled_series(#{targets := Targets, samples := Samples}) ->
    lists:append([
        node_series(Node, Metrics, [{T, V} || {N, T, V, _} <- Samples, N =:= Node])
     || #{node := Node, metrics := Metrics} <- Targets
    ]).

node_series(_Node, _Metrics, []) ->
    [];
node_series(Node, Metrics, Samples) ->
    Times = [T || {T, _} <- Samples],
    [
        series(Name, Unit, Group, Title, Node, Times, [
            maps:get(Name, Values, undefined)
         || {_, Values} <- Samples
        ])
     || #{name := Name, unit := Unit, title := Title, group := Group} <- Metrics
    ].

%% What makes the numbers less believable

own_warnings(#{samples := Samples, figures := Figures}) ->
    stolen_time(Samples) ++
        lists:flatmap(fun instrument_warnings/1, Figures).

stolen_time(Samples) ->
    case [S || {_, _, #{~"os.cpu.steal" := S}, _} <- Samples] of
        [_ | _] = Steal ->
            Mean = lists:sum(Steal) / length(Steal),
            Text = "the hypervisor took ~ts of the processor time: compare with other runs with "
                "care",
            [{~"steal", text(Text, [dyno_unit:format(Mean, ~"ratio")])} || Mean > ?STEAL];
        [] ->
            []
    end.

instrument_warnings(#{node := Node, functions := Functions, processes := Processes}) ->
    [
        {~"lost_figures",
            text("~ts of ~ts: replaced before its figures could be read; some calls are missing", [
                M, Node
            ])}
     || #{lost := Lost} <- [Functions], M <- Lost
    ] ++
        [
            {~"reloaded", text(
                    "~ts of ~ts was loaded again during the run; its calls within the milliseconds "
                    "around it may be missing or count twice; do not load it once more before the "
                    "processes that ran it have ended: to trace them then can crash the emulator "
                    "(doc/architecture.md, Traps of the runtime)",
                    [M, Node]
                )}
         || #{reloaded := Reloaded} <- [Functions], M <- Reloaded
        ] ++
        [
            {~"cut_times",
                text(
                    "own times of ~ts may be off by ~ts of ~ts: the runtime cuts each process's "
                    "time in a function to whole microseconds, and these processes are short-lived",
                    [Node, dyno_unit:format(Uncertain, ~"ns"), dyno_unit:format(Own, ~"ns")]
                )}
         || #{functions := All} <- [Functions],
            {Uncertain, Own} <- [{sum_of(uncertain_ns, All), sum_of(own_time_ns, All)}],
            Uncertain * 10 > Own
        ] ++
        [
            {~"inexact_counts",
                text(
                    "calls in ~ts may be off by ~ts: it starts so many processes that the figures "
                    "had to be taken in while they were counted",
                    [Node, dyno_unit:format(OffBy, ~"ratio")]
                )}
         || #{off_by := OffBy} <- [Functions], OffBy > ?INEXACT
        ] ++
        [
            {~"processes_truncated",
                text("more processes in ~ts than are followed: the later ones are missing", [Node])}
         || #{truncated := true} <- [Processes]
        ].

sum_of(Key, Functions) ->
    lists:sum([maps:get(Key, F, 0) || F <- Functions]).
