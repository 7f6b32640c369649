%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_baseline_run).
-moduledoc """
Measures the cost of measuring: half a run without instruments precedes and follows each run, with
the same load on the same targets.

The halves' difference widens the interval, so a drift cannot pass for a cost. Throughputs are all
operations by all of the time; a slice without any end counts as one. The ratio has no value if its
interval is wider than a doubling or data is too little. If a half is missing, because the run was
interrupted or the load failed, there is no ratio.

A half takes a fifth of the run's duration, 200 ms at least and 5 s at most, besides its warm-up.
Loads that change over time or make a fixed number of operations have halves only if the suite's
option `control` asks for them. Searches for a rate have none, nor do suites that give their load
themselves.
""".

-export([is_wanted/3, adds_ms/2, interval_ms/2, half/2]).
-export([metrics/2, known/0, warnings/1]).
-export([format_error/1, fault/1]).

-export_type([half/0, reason/0]).

-type half() :: [dyno_load_source:interval()].

-type reason() :: {load_died, term()}.

-define(SHARE, 5).
-define(LEAST_MS, 200).
-define(MOST_MS, 5000).
%% For the second half only the workers are cold.
-define(SECOND_WARMUP_MS, 250).
%% Enough slices for an interval in which one disturbed slice does not count.
-define(SLICES, 16).
-define(LEAST_SLICE_MS, 20).
-define(LEVEL, (dyno_stats_interval:level())).
%% Above, response times and throughput are mostly dyno's.
-define(HEAVY, 1.5).
%% An interval with ends further apart is useless.
-define(TELLS, 2).

-doc "Whether halves without instruments surround a run: by default if calls are traced.".
-spec is_wanted(dyno_suite:options(), #{model := atom(), _ => _}, Traced :: boolean()) -> boolean().
is_wanted(#{control := auto}, Load, Traced) -> Traced andalso is_steady(Load);
is_wanted(#{control := Control}, Load, _Traced) -> Control andalso is_repeatable(Load).

is_repeatable(#{model := Model}) -> lists:member(Model, [closed, open, phases]).

%% All parts of a steady load are alike, and more load does no harm. A suite with a fixed number of
%% operations may need it because each changes the target.
is_steady(#{iterations := _}) -> false;
is_steady(#{model := closed}) -> true;
is_steady(#{model := open, rate_per_s := Rate}) -> is_number(Rate);
is_steady(_) -> false.

-doc "The approximate time that both halves add to a run.".
-spec adds_ms(dyno_suite:options(), #{model := atom(), _ => _}) -> non_neg_integer().
adds_ms(#{duration_ms := DurationMs, warmup_ms := WarmupMs} = Options, Load) ->
    #{patterns := Patterns, level := Level} = Options,
    case is_wanted(Options, Load, Patterns =/= [] andalso Level =/= off) of
        true -> 2 * half_ms(DurationMs) + WarmupMs + second_warmup_ms(WarmupMs);
        false -> 0
    end.

-spec half_ms(pos_integer()) -> pos_integer().
half_ms(DurationMs) ->
    max(?LEAST_MS, min(?MOST_MS, DurationMs div ?SHARE)).

-spec second_warmup_ms(non_neg_integer()) -> non_neg_integer().
second_warmup_ms(WarmupMs) -> min(WarmupMs, ?SECOND_WARMUP_MS).

-doc "The interval of a run's load: the option's, or a fraction with enough intervals.".
-spec interval_ms(pos_integer(), pos_integer()) -> pos_integer().
interval_ms(IntervalMs, DurationMs) ->
    Parts = max(1, (?SLICES * IntervalMs + DurationMs - 1) div DurationMs),
    max(min(IntervalMs, ?LEAST_SLICE_MS), IntervalMs div Parts).

-doc "Loads the targets for one half; called by the interruptible process, without an agent.".
-spec half(first | second, dyno_load:options()) -> dyno_error:result(half()).
half(Which, #{duration_ms := DurationMs, warmup_ms := WarmupMs} = Options) ->
    HalfMs = half_ms(DurationMs),
    {ok, Load} = dyno_load:start_link(Options#{
        duration_ms := HalfMs,
        interval_ms := max(1, HalfMs div ?SLICES),
        warmup_ms :=
            case Which of
                first -> WarmupMs;
                second -> second_warmup_ms(WarmupMs)
            end
    }),
    Result = loaded(Load, []),
    ok = dyno_load_source:stop(Load),
    Result.

loaded(Load, Intervals) ->
    receive
        {dyno_load, Load, warm} ->
            ok = dyno_load_source:measure(Load),
            loaded(Load, Intervals);
        {dyno_load, Load, {interval, Interval}} ->
            loaded(Load, [Interval | Intervals]);
        {dyno_load, Load, {finished, _}} ->
            ok = dyno_load_source:close(Load),
            loaded(Load, Intervals);
        {dyno_load, Load, {ended, _}} ->
            {ok, lists:reverse(Intervals)};
        {dyno_load, Load, {failed, Error}} ->
            {error, Error};
        {dyno_load, Load, _Other} ->
            loaded(Load, Intervals);
        {'EXIT', Load, Reason} when Reason =/= normal ->
            {error, {?MODULE, {load_died, Reason}}};
        dyno_interrupt ->
            {error, {dyno_error, interrupted}}
    end.

values(p50s_ns, Intervals) ->
    [P || #{p50_ns := P} <- Intervals, is_number(P)];
values(slices, Intervals) ->
    {Slices, _} = lists:mapfoldl(
        fun(#{time_ms := TimeMs, throughput_per_s := PerS}, BeforeMs) ->
            Seconds = (TimeMs - BeforeMs) / 1000,
            {{PerS * Seconds, Seconds}, TimeMs}
        end,
        0,
        Intervals
    ),
    Slices.

-doc """
The cost of measuring as metrics of a run: response time and throughput without instruments, and the
ratios with intervals; empty unless both halves exist. `Intervals` are those of the measured part.
""".
-spec metrics([half()], [dyno_load_source:interval()]) -> [#{atom() => term()}].
metrics([_, _] = Halves, Intervals) ->
    {Operations, _} = sums(lists:append([values(slices, Half) || Half <- Halves])),
    {Name, Title, Unit} = operations(),
    [metric(Name, Title, round(Operations), Unit, 1)] ++
        lists:append([compared(What, Halves, Intervals) || What <- comparisons()]);
metrics(_Missing, _Intervals) ->
    [].

operations() ->
    {~"uninstrumented.operations", ~"Operations without measuring", ~"count"}.

%% The comparisons and their metrics: the value without instruments, and the ratio.
comparisons() ->
    [
        {p50s_ns, {~"uninstrumented.latency.p50", ~"Response time without measuring, p50", ~"ns"}, {
                ~"instrument.response_ratio", ~"Response time, with measuring by without", ~"ratio"
            }},
        {slices, {~"uninstrumented.throughput", ~"Throughput without measuring", ~"1/s"}, {
            ~"instrument.throughput_ratio", ~"Throughput, with measuring by without", ~"ratio"
        }}
    ].

-doc "All possible metrics.".
-spec known() -> dyno_threshold:known().
known() ->
    Compared = lists:append([[Without, Ratio] || {_, Without, Ratio} <- comparisons()]),
    #{metrics => [#{name => Name, unit => Unit} || {Name, _, Unit} <- [operations() | Compared]]}.

compared({Key, {Name, Title, Unit}, Ratio}, Halves, Intervals) ->
    case {[values(Key, Half) || Half <- Halves], values(Key, Intervals)} of
        {[[_ | _], [_ | _]] = Parts, [_ | _] = With} ->
            Without = lists:append(Parts),
            [
                metric(Name, Title, middle(Key, Without), Unit, length(Without)),
                ratio(Key, Ratio, Parts, With)
            ];
        _ ->
            []
    end.

middle(p50s_ns, P50s) ->
    dyno_stats:median(P50s);
middle(slices, Slices) ->
    {Operations, Seconds} = sums(Slices),
    Operations / Seconds.

sums(Slices) ->
    {Counts, Seconds} = lists:unzip(Slices),
    {lists:sum(Counts), lists:sum(Seconds)}.

ratio(Key, {Name, Title, Unit}, Parts, With) ->
    Metric = metric(Name, Title, null, Unit, length(With)),
    case interval(Key, Parts, With) of
        {ok, #{ratio := Ratio, low := Low, high := High}} when High =< ?TELLS * Low ->
            Metric#{value := Ratio, low => Low, high => High};
        {ok, #{low := Low, high := High}} ->
            Metric#{low => Low, high => High};
        {error, _} ->
            Metric
    end.

interval(slices, [First, Second] = Parts, With) ->
    maybe
        {ok, #{low := Low, high := High} = Ratio} ?=
            dyno_stats_welch:ratio_of_rates(lists:append(Parts), With, ?LEVEL),
        {ok, #{ratio := Halves}} ?= dyno_stats_welch:ratio_of_rates(First, Second, ?LEVEL),
        %% Half of the change from the first half to the second.
        Drift = math:sqrt(max(Halves, 1 / Halves)),
        {ok, Ratio#{low := Low / Drift, high := High * Drift}}
    end;
interval(p50s_ns, Parts, With) ->
    %% Both medians must lie in their intervals. The median of both halves spans a drift.
    Level = math:sqrt(?LEVEL),
    Without = lists:append(Parts),
    maybe
        {ok, {FromWithout, ToWithout, _}} ?= dyno_stats_interval:median(Without, Level),
        {ok, {FromWith, ToWith, _}} ?= dyno_stats_interval:median(With, Level),
        {ok, #{
            ratio => dyno_stats:median(With) / dyno_stats:median(Without),
            low => FromWith / ToWithout,
            high => ToWith / FromWithout
        }}
    end.

metric(Name, Title, Value, Unit, Count) ->
    #{
        name => Name,
        title => Title,
        value => Value,
        unit => Unit,
        count => Count,
        group => ~"instrument"
    }.

-doc "Warnings of a high cost, from a run's metrics.".
-spec warnings([#{atom() => term()}]) -> [{Code :: binary(), Text :: binary()}].
warnings(Metrics) ->
    Text =
        "with measuring, responses take ~ts~.1f times as long as without: response times, "
        "throughput and the times of functions are those of a slower system; ~ts",
    [
        {
            ~"heavy_instrument",
            dyno_recording_part:text(Text, factor(Ratio, Low) ++ [cheaper(Metrics)])
        }
     || #{name := ~"instrument.response_ratio", value := Ratio, low := Low} <- Metrics,
        Low > ?HEAVY
    ].

%% Only the level budget has a budget.
cheaper(Metrics) ->
    case [x || #{name := ~"instrument.spent"} <- Metrics] of
        [_ | _] ->
            "a smaller --budget or fewer functions (--pattern) cost less";
        [] ->
            "--level budget keeps within a share of the target's time, --level count only counts "
            "calls, and --pattern names fewer functions"
    end.

%% The cost is certain, its amount is not.
factor(null, Low) -> ["at least ", Low];
factor(Ratio, _Low) -> ["", Ratio].

-spec format_error(reason()) -> unicode:chardata().
format_error({load_died, Reason}) -> io_lib:format("the load generator died: ~0tP", [Reason, 12]).

-spec fault(reason()) -> dyno_error:fault().
fault({load_died, _}) -> dyno.
