%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_histogram_SUITE).
-moduledoc false.

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-import(proper_types, [float/2, integer/2, list/1, non_empty/1, oneof/1]).

-compile([export_all, nowarn_export_all]).

-define(OVERFLOW, 4608).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        doctest,
        buckets_are_contiguous,
        bounds_hold_their_values,
        quantiles_are_within_one_percent,
        quantiles_of_few,
        extremes_sum_and_mean_are_exact,
        empty,
        merge_is_concatenation,
        subtract_is_what_came_later,
        subtract_refuses_what_is_not_contained,
        overflow,
        recording_has_every_value,
        bad_values,
        many_processes_lose_nothing,
        extremes_within_a_bucket,
        racing_extremes,
        snapshots_while_recording,
        cost
    ].

doctest(_) ->
    dyno_stats_SUITE:doctest_of(dyno_histogram).

buckets_are_contiguous(_) ->
    {0, _} = dyno_histogram:bounds(0),
    lists:foreach(
        fun(Index) ->
            {Low, High} = dyno_histogram:bounds(Index),
            {Next, _} = dyno_histogram:bounds(Index + 1),
            ?assertEqual(High, Next),
            ?assertEqual(Index, dyno_histogram:index(Low)),
            ?assertEqual(Index, dyno_histogram:index(High - 1)),
            ?assert(High - Low =:= 1 orelse 128 * (High - Low) =< Low)
        end,
        lists:seq(0, ?OVERFLOW - 1)
    ),
    ?assertEqual(1 bsl 42, element(1, dyno_histogram:bounds(?OVERFLOW))).

bounds_hold_their_values(_) ->
    check(
        ?FORALL(Value, value(), begin
            {Low, High} = dyno_histogram:bounds(dyno_histogram:index(Value)),
            Low =< Value andalso Value < High
        end)
    ).

quantiles_are_within_one_percent(_) ->
    check(
        ?FORALL({Values, Q}, {non_empty(list(value())), quantile()}, begin
            Rank = max(1, ceil(round(Q * length(Values) * 1.0e9) / 1.0e9)),
            Exact = lists:nth(Rank, lists:sort(Values)),
            Got = dyno_histogram:quantile(recorded(Values), Q),
            %% Beyond the last bucket nothing is promised but the maximum.
            Exact >= 1 bsl 42 orelse abs(Got - Exact) =< 0.004 * Exact
        end)
    ).

quantiles_of_few(_) ->
    Hundred = recorded(lists:seq(1, 100)),
    [?assertEqual(N, dyno_histogram:quantile(Hundred, N / 100)) || N <- lists:seq(1, 100)],
    ?assertEqual(1, dyno_histogram:quantile(Hundred, 0)),
    ?assertEqual(100, dyno_histogram:quantile(Hundred, 1)),
    One = recorded([123_456_789]),
    [?assertEqual(123_456_789, dyno_histogram:quantile(One, Q)) || Q <- [0, 0.5, 0.999, 1]],
    ?assertError(function_clause, dyno_histogram:quantile(One, 1.01)).

extremes_sum_and_mean_are_exact(_) ->
    check(
        ?FORALL(Values, non_empty(list(value())), begin
            #{count := Count, sum := Sum, min := Min, max := Max} = Snapshot = recorded(Values),
            Count =:= length(Values) andalso Sum =:= lists:sum(Values) andalso
                Min =:= lists:min(Values) andalso Max =:= lists:max(Values) andalso
                dyno_histogram:mean(Snapshot) == lists:sum(Values) / length(Values)
        end)
    ).

empty(_) ->
    Empty = dyno_histogram:empty(),
    ?assertEqual(Empty, recorded([])),
    ?assertEqual(undefined, dyno_histogram:quantile(Empty, 0.5)),
    ?assertEqual(undefined, dyno_histogram:mean(Empty)),
    ?assertEqual([], dyno_histogram:to_recording(Empty)),
    Some = recorded([1, 2, 3]),
    ?assertEqual(Some, dyno_histogram:merge(Empty, Some)),
    ?assertEqual(Some, dyno_histogram:merge(Some, Empty)),
    ?assertEqual(Some, dyno_histogram:subtract(Some, Empty)),
    ?assertEqual(Empty, dyno_histogram:subtract(Some, Some)),
    ?assertEqual(Empty, dyno_histogram:subtract(Empty, Empty)),
    %% Zero is a value as any other.
    ?assertMatch(#{count := 1, min := 0, max := 0, sum := 0}, recorded([0])).

merge_is_concatenation(_) ->
    check(
        ?FORALL({As, Bs}, {list(value()), list(value())}, begin
            Merged = dyno_histogram:merge(recorded(As), recorded(Bs)),
            Merged =:= recorded(As ++ Bs)
        end)
    ).

subtract_is_what_came_later(_) ->
    check(
        ?FORALL({As, Bs}, {list(value()), list(value())}, begin
            Histogram = dyno_histogram:new(),
            record_all(Histogram, As),
            Earlier = dyno_histogram:snapshot(Histogram),
            record_all(Histogram, Bs),
            Later = dyno_histogram:snapshot(Histogram),
            Got = dyno_histogram:subtract(Later, Earlier),
            Want = recorded(Bs),
            Same = [count, sum, buckets],
            maps:with(Same, Got) =:= maps:with(Same, Want) andalso
                near(maps:get(min, Got), maps:get(min, Want)) andalso
                near(maps:get(max, Got), maps:get(max, Want))
        end)
    ).

subtract_refuses_what_is_not_contained(_) ->
    ?assertError(badarg, dyno_histogram:subtract(recorded([1, 2]), recorded([1, 3]))),
    ?assertError(badarg, dyno_histogram:subtract(recorded([1]), recorded([1, 1]))),
    ?assertError(badarg, dyno_histogram:subtract(recorded([5, 6]), recorded([4]))).

overflow(_) ->
    Last = (1 bsl 42) - 1,
    ?assertEqual(?OVERFLOW - 1, dyno_histogram:index(Last)),
    Huge = 1 bsl 50,
    Snapshot = recorded([10, Last + 1, Huge]),
    ?assertMatch(#{max := Huge, buckets := [{10, 1}, {?OVERFLOW, 2}]}, Snapshot),
    ?assertEqual(Huge, dyno_histogram:quantile(Snapshot, 0.6)),
    ?assertEqual([{10, 11, 1}, {Last + 1, Huge + 1, 2}], dyno_histogram:to_recording(Snapshot)),
    Largest = (1 bsl 63) - 1,
    ?assertMatch(#{min := Largest, max := Largest}, recorded([Largest])).

recording_has_every_value(_) ->
    check(
        ?FORALL(Values, list(value()), begin
            Buckets = dyno_histogram:to_recording(recorded(Values)),
            Counted = [length([V || V <- Values, V >= L, V < H]) || {L, H, _} <- Buckets],
            Counted =:= [Count || {_, _, Count} <- Buckets] andalso
                lists:sum(Counted) =:= length(Values) andalso
                Buckets =:= lists:usort(Buckets)
        end)
    ),
    ?assertEqual(~"dyno-log-linear-7", dyno_histogram:scheme()).

bad_values(_) ->
    Histogram = dyno_histogram:new(),
    [
        ?assertError(function_clause, dyno_histogram:record(Histogram, Bad))
     || Bad <- [-1, 1.5, undefined, 1 bsl 63]
    ],
    ?assertEqual(dyno_histogram:empty(), dyno_histogram:snapshot(Histogram)).

many_processes_lose_nothing(_) ->
    Histogram = dyno_histogram:new(),
    %% Each process has values of its own, with a new extreme again and again.
    Lists = [values(Seed, 3000) || Seed <- lists:seq(1, 40)],
    Writers = [
        spawn_monitor(fun() ->
            receive
                go -> record_all(Histogram, Values)
            end
        end)
     || Values <- Lists
    ],
    [Writer ! go || {Writer, _} <- Writers],
    wait(Writers),
    ?assertEqual(recorded(lists:append(Lists)), dyno_histogram:snapshot(Histogram)).

extremes_within_a_bucket(_) ->
    ?assertEqual(dyno_histogram:index(1_000_000), dyno_histogram:index(1_000_020)),
    [
        ?assertMatch(#{min := 1_000_000, max := 1_000_020}, recorded(Order))
     || Order <- [
            [1_000_000, 1_000_010, 1_000_020],
            [1_000_020, 1_000_010, 1_000_000],
            [1_000_010, 1_000_000, 1_000_020]
        ]
    ],
    ?assertMatch(#{min := 1_000_000}, recorded([9_000_000, 1_000_010, 1_000_000])),
    ?assertMatch(#{max := 1_000_020}, recorded([9, 1_000_010, 1_000_020])).

%% Two processes meet at each histogram and record into it at the same moment: now and then one
%% moves an extreme under the other's hands.
racing_extremes(_) ->
    Histograms = [dyno_histogram:new() || _ <- lists:seq(1, 300)],
    Barrier = atomics:new(1, []),
    Racers = [
        spawn_monitor(fun() -> race(Histograms, Values, Barrier, 2) end)
     || Values <- [[10, 5000], [20, 6000]]
    ],
    wait(Racers),
    [
        ?assertMatch(#{min := 10, max := 6000, count := 4}, dyno_histogram:snapshot(Histogram))
     || Histogram <- Histograms
    ].

race([Histogram | Histograms], Values, Barrier, Arrivals) ->
    ok = atomics:add(Barrier, 1, 1),
    spin(Barrier, Arrivals),
    record_all(Histogram, Values),
    race(Histograms, Values, Barrier, Arrivals + 2);
race([], _, _, _) ->
    ok.

spin(Barrier, Arrivals) ->
    case atomics:get(Barrier, 1) < Arrivals of
        true -> spin(Barrier, Arrivals);
        false -> ok
    end.

snapshots_while_recording(_) ->
    Histogram = dyno_histogram:new(),
    Values = values(77, 50_000),
    Writers = [spawn_monitor(fun() -> record_all(Histogram, Values) end) || _ <- [1, 2]],
    Last = watch(Histogram, Writers, dyno_histogram:empty(), dyno_histogram:empty()),
    Expected = recorded(Values),
    ?assertEqual(dyno_histogram:merge(Expected, Expected), Last).

%% Takes snapshots until the writers are done; the differences must add up to the last one.
watch(Histogram, Writers, Before, Total0) ->
    Now = dyno_histogram:snapshot(Histogram),
    Difference = dyno_histogram:subtract(Now, Before),
    Total = dyno_histogram:merge(Total0, Difference),
    ?assertEqual(maps:with([count, buckets], Now), maps:with([count, buckets], Total)),
    Q = dyno_histogram:quantile(Now, 0.5),
    ?assert(Q =:= undefined orelse (Q >= maps:get(min, Now) andalso Q =< maps:get(max, Now))),
    receive
        {'DOWN', _, process, Writer, Reason} ->
            ?assertEqual(normal, Reason),
            watch(Histogram, lists:keydelete(Writer, 1, Writers), Now, Total)
    after 0 ->
        case Writers of
            [] -> dyno_histogram:snapshot(Histogram);
            _ -> watch(Histogram, Writers, Now, Total)
        end
    end.

%% No assertion on the time: the machine may be busy. The number in the documentation is from here.
cost(_) ->
    Histogram = dyno_histogram:new(),
    Values = values(5, 100_000),
    Times = [
        begin
            Start = erlang:monotonic_time(),
            record_all(Histogram, Values),
            erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond)
        end
     || _ <- lists:seq(1, 10)
    ],
    Best = lists:min(Times) / length(Values),
    ct:pal("dyno_histogram:record/2: ~.1f ns, the loop with it", [Best]),
    ?assertMatch(#{count := 1_000_000}, dyno_histogram:snapshot(Histogram)),
    {comment, io_lib:format("~.1f ns a record", [Best])}.

%% As many small values as large ones, and some beyond the last bucket.
value() ->
    ?LET(Bits, integer(0, 44), integer(0, 1 bsl Bits)).

quantile() ->
    oneof([0, 0.5, 0.9, 0.99, 0.999, 1, float(0.0, 1.0)]).

values(Seed, Count) ->
    {Values, _} = lists:mapfoldl(
        fun(_, State0) ->
            {X, State} = rand:uniform_s(State0),
            {trunc(math:exp(X * 25)), State}
        end,
        rand:seed_s(exsss, Seed),
        lists:seq(1, Count)
    ),
    Values.

recorded(Values) ->
    Histogram = dyno_histogram:new(),
    record_all(Histogram, Values),
    dyno_histogram:snapshot(Histogram).

record_all(Histogram, [Value | Values]) ->
    ok = dyno_histogram:record(Histogram, Value),
    record_all(Histogram, Values);
record_all(_, []) ->
    ok.

near(undefined, undefined) -> true;
near(Got, Want) -> Want >= 1 bsl 42 orelse abs(Got - Want) =< 0.008 * Want.

wait(Writers) ->
    [
        receive
            {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason)
        end
     || {_, Monitor} <- Writers
    ].

check(Property) ->
    dyno_property:holds(Property, 300).
