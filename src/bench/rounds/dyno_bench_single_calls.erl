%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_single_calls).
-moduledoc false.
%% Times single calls of a code, because epochs hide the one call in a hundred that a collection or
%% another process delays. Runs after the rounds in one worker. The clock's own time, some tens of
%% nanoseconds, is subtracted; calls that are hardly longer are not timed.

-export([is_worth/1, run/1, of_times/1]).
-export_type([single_calls/0]).

-type single_calls() :: #{
    calls := pos_integer(),
    min_ns := non_neg_integer(),
    median_ns := non_neg_integer(),
    p99_ns := non_neg_integer(),
    max_ns := non_neg_integer(),
    deviation := float()
}.

%% Reading the clock twice takes a tenth of it.
-define(SHORTEST_NS, 500).
-define(FOR_NS, 50_000_000).
-define(MOST, 20_000).
-define(CLOCK_READINGS, 1000).

-spec is_worth(TimeNs :: float()) -> boolean().
is_worth(TimeNs) -> TimeNs >= ?SHORTEST_NS.

-doc "For some milliseconds; at least one call.".
-spec run(fun(() -> term())) -> single_calls().
run(Call) ->
    {min_heap_size, Words} = erlang:system_info(min_heap_size),
    _ = process_flag(min_heap_size, Words),
    ClockNs = lists:min([timed(fun() -> ok end) || _ <- lists:seq(1, ?CLOCK_READINGS)]),
    Histogram = dyno_histogram:new(),
    true = garbage_collect(),
    EndNs = erlang:monotonic_time(nanosecond) + ?FOR_NS,
    Squares = each(?MOST, {Call, ClockNs, Histogram, EndNs}, 0),
    summary(dyno_histogram:snapshot(Histogram), Squares).

timed(Call) ->
    StartNs = erlang:monotonic_time(nanosecond),
    _ = Call(),
    erlang:monotonic_time(nanosecond) - StartNs.

each(0, _How, Squares) ->
    Squares;
each(Left, {Call, ClockNs, Histogram, EndNs} = How, Squares) ->
    Ns = max(0, timed(Call) - ClockNs),
    ok = dyno_histogram:record(Histogram, Ns),
    case erlang:monotonic_time(nanosecond) < EndNs of
        true -> each(Left - 1, How, Squares + Ns * Ns);
        false -> Squares + Ns * Ns
    end.

-spec of_times([number(), ...]) -> single_calls().
of_times(TimesNs) ->
    Histogram = dyno_histogram:new(),
    Rounded = [round(Ns) || Ns <- TimesNs],
    lists:foreach(fun(Ns) -> dyno_histogram:record(Histogram, Ns) end, Rounded),
    summary(dyno_histogram:snapshot(Histogram), lists:sum([Ns * Ns || Ns <- Rounded])).

summary(#{count := Count, sum := Sum, min := Min, max := Max} = Snapshot, Squares) ->
    Mean = Sum / Count,
    #{
        calls => Count,
        min_ns => Min,
        median_ns => dyno_histogram:quantile(Snapshot, 0.5),
        p99_ns => dyno_histogram:quantile(Snapshot, 0.99),
        max_ns => Max,
        deviation => math:sqrt(max(0.0, Squares / Count - Mean * Mean)) / max(1.0, Mean)
    }.
