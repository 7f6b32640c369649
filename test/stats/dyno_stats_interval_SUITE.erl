%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_interval_SUITE).
-moduledoc "Intervals of order statistics, and what rests on them: ratios and verdicts.".

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-import(proper_types, [float/2, integer/2, list/1, vector/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        published_median_intervals,
        too_few_values,
        ranks_are_naive,
        order_does_not_matter,
        median_coverage,
        ratio_known,
        ratio_swapped,
        ratio_ignores_what_disturbs_both,
        ratio_false_alarms,
        ratio_sees_a_slowdown,
        verdict_table,
        verdict_mirrored,
        ratio_verdict_mirrored
    ].

%% As printed in tables of the sign test's intervals, for at least 95 %.
published_median_intervals(_) ->
    [
        begin
            {ok, {Low, High, Achieved}} = dyno_stats_interval:median(lists:seq(1, N), 0.95),
            ?assertEqual({N, K, N + 1 - K, Percent}, {N, Low, High, round(1000 * Achieved) / 10})
        end
     || {N, K, Percent} <- [
            {6, 1, 96.9},
            {7, 1, 98.4},
            {8, 1, 99.2},
            {9, 2, 96.1},
            {10, 2, 97.9},
            {15, 4, 96.5},
            {20, 6, 95.9},
            {25, 8, 95.7},
            {30, 10, 95.7},
            {50, 18, 96.7}
        ]
    ],
    [
        ?assertEqual(K, dyno_stats_interval:median_rank(N, 0.95))
     || {N, K} <- [{52, 19}, {100, 40}, {200, 86}, {400, 180}]
    ].

too_few_values(_) ->
    [
        ?assertEqual({error, too_few}, dyno_stats_interval:median(lists:seq(1, N), 0.95))
     || N <- lists:seq(0, 5)
    ],
    [
        begin
            ?assert(dyno_stats_interval:median_rank(N, Level) >= 1),
            ?assertEqual(0, dyno_stats_interval:median_rank(N - 1, Level))
        end
     || {Level, N} <- [{0.5, 2}, {0.9, 5}, {0.95, 6}, {0.96875, 6}, {0.99, 8}, {0.999, 11}]
    ],
    ?assertError(function_clause, dyno_stats_interval:median([1, 2], 1.0)).

%% Counted in integers: the largest K with 2 * sum(choose(N, I), I < K) =< 2^N * (1 - Level).
ranks_are_naive(_) ->
    check(
        ?FORALL({N, Percent}, {integer(0, 200), integer(50, 99)}, begin
            Fits = [
                K
             || {K, Below} <- lists:zip(lists:seq(1, N), lists:droplast(sums(N))),
                200 * Below =< (1 bsl N) * (100 - Percent)
            ],
            dyno_stats_interval:median_rank(N, Percent / 100) =:= lists:max([0 | Fits])
        end)
    ).

order_does_not_matter(_) ->
    check(
        ?FORALL(Values, list(float(-1.0, 1.0)), begin
            dyno_stats_interval:median(Values, 0.95) =:=
                dyno_stats_interval:median(lists:reverse(lists:sort(Values)), 0.95)
        end)
    ).

%% Skewed values, the true median known: the share of intervals that hold it is the level achieved.
median_coverage(_) ->
    Median = math:log(2),
    Covered = simulate(1, 4000, 20, fun exponential/1, fun(Values) ->
        {ok, {Low, High, _}} = dyno_stats_interval:median(Values, 0.95),
        Low =< Median andalso Median =< High
    end),
    within(Covered, 0.9586, 0.01).

%% Ratios

ratio_known(_) ->
    As = [10, 20, 10, 10, 30, 10, 10],
    #{ratio := Ratio, low := Low, high := High} = ratio(As, [12, 22, 11, 40, 33, 11, 5]),
    within(Ratio, 1.1, 1.0e-12),
    within(Low, 0.5, 1.0e-12),
    within(High, 4.0, 1.0e-12),
    Five = [1, 2, 3, 4, 5],
    ?assertMatch(#{low := undefined, verdict := undecided}, ratio(Five, Five)).

ratio(As, Bs) ->
    [Pair] = dyno_bench_comparison:pairs([As, Bs], #{level => 0.95, threshold => 0.03}),
    Pair.

ratio_swapped(_) ->
    check(
        ?FORALL(Pairs, pairs(), begin
            {As, Bs} = lists:unzip(Pairs),
            Up = ratio(As, Bs),
            Down = ratio(Bs, As),
            equal(maps:get(ratio, Up), 1 / maps:get(ratio, Down)) andalso
                equal(maps:get(low, Up), 1 / maps:get(high, Down)) andalso
                equal(maps:get(high, Up), 1 / maps:get(low, Down)) andalso
                maps:get(low, Up) =< maps:get(ratio, Up) andalso
                maps:get(ratio, Up) =< maps:get(high, Up)
        end)
    ).

%% A factor common to both sides of a round changes nothing.
ratio_ignores_what_disturbs_both(_) ->
    check(
        ?FORALL({Pairs, Noise}, {pairs(), vector(40, float(0.01, 100.0))}, begin
            {As, Bs} = lists:unzip(Pairs),
            Factors = lists:sublist(Noise, length(Pairs)),
            Calm = ratio(As, Bs),
            Wild = ratio(times(Factors, As), times(Factors, Bs)),
            lists:all(
                fun(Key) -> equal(maps:get(Key, Calm), maps:get(Key, Wild)) end,
                [ratio, low, high]
            )
        end)
    ).

%% Identical code on a machine that drifts and stumbles: at most 5 % are called different.
ratio_false_alarms(_) ->
    Alarms = simulate(3, 2000, 40, fun(S) -> noisy_pair(1.0, S) end, fun excludes_one/1),
    ct:pal("false alarms: ~p", [Alarms]),
    ?assert(Alarms =< 0.05).

ratio_sees_a_slowdown(_) ->
    Found = simulate(4, 500, 40, fun(S) -> noisy_pair(1.05, S) end, fun excludes_one/1),
    ct:pal("5 % seen: ~p", [Found]),
    ?assert(Found >= 0.8).

%% Verdicts

verdict_table(_) ->
    [
        ?assertEqual({Interval, Want}, {Interval, dyno_stats_verdict:verdict(Interval, 3)})
     || {Interval, Want} <- [
            {{-9, -4}, lower},
            {{-9, -3}, undecided},
            {{-9, -2}, undecided},
            {{-3, 3}, same},
            {{-2, 1}, same},
            {{0, 0}, same},
            {{1, 2}, same},
            {{2, 4}, undecided},
            {{-4, 4}, undecided},
            {{3, 5}, undecided},
            {{3.1, 5}, higher}
        ]
    ],
    ?assertEqual(undecided, dyno_stats_verdict:verdict({-1, 1}, 0)),
    ?assertEqual(higher, dyno_stats_verdict:verdict({1, 2}, 0)),
    ?assertError(function_clause, dyno_stats_verdict:verdict({2, 1}, 3)),
    ?assertError(function_clause, dyno_stats_verdict:verdict({1, 2}, -1)),
    ?assertError(function_clause, dyno_stats_verdict:ratio({0, 2}, 0.1)).

verdict_mirrored(_) ->
    check(
        ?FORALL({A, B, T}, {integer(-9, 9), integer(-9, 9), integer(0, 9)}, begin
            {Low, High} = {min(A, B), max(A, B)},
            dyno_stats_verdict:verdict({-High, -Low}, T) =:=
                mirrored(dyno_stats_verdict:verdict({Low, High}, T))
        end)
    ).

ratio_verdict_mirrored(_) ->
    check(
        ?FORALL({A, B}, {float(0.8, 1.25), float(0.8, 1.25)}, begin
            {Low, High} = {min(A, B), max(A, B)},
            dyno_stats_verdict:ratio({1 / High, 1 / Low}, 0.05) =:=
                mirrored(dyno_stats_verdict:ratio({Low, High}, 0.05))
        end)
    ).

%% Generators, simulations and naive versions

pairs() ->
    ?LET(N, integer(6, 40), vector(N, {float(0.1, 1.0e6), float(0.1, 1.0e6)})).

%% The share of Trials in which Check holds for Count values drawn by Draw.
simulate(Seed, Trials, Count, Draw, Check) ->
    {Held, _} = lists:mapfoldl(
        fun(_, State0) ->
            {Values, State} = lists:mapfoldl(fun(_, S) -> Draw(S) end, State0, lists:seq(1, Count)),
            {Check(Values), State}
        end,
        rand:seed_s(exsss, Seed),
        lists:seq(1, Trials)
    ),
    length([x || true <- Held]) / Trials.

exponential(State0) ->
    {U, State} = rand:uniform_real_s(State0),
    {-math:log(U), State}.

%% Half of the noise is common to both; one round in ten is disturbed on one side or the other.
noisy_pair(Factor, State0) ->
    {Common, State1} = rand:normal_s(State0),
    {OfA, State2} = rand:normal_s(State1),
    {OfB, State3} = rand:normal_s(State2),
    {Hit, State} = rand:uniform_s(20, State3),
    A = math:exp(0.3 * Common + 0.03 * OfA) * disturbed(Hit, 1),
    B = Factor * math:exp(0.3 * Common + 0.03 * OfB) * disturbed(Hit, 2),
    {{A, B}, State}.

disturbed(Side, Side) -> 3.0;
disturbed(_, _) -> 1.0.

excludes_one(Pairs) ->
    {As, Bs} = lists:unzip(Pairs),
    #{low := Low, high := High} = ratio(As, Bs),
    Low > 1 orelse High < 1.

mirrored(lower) -> higher;
mirrored(higher) -> lower;
mirrored(Verdict) -> Verdict.

times(Factors, Values) ->
    [F * V || {F, V} <- lists:zip(Factors, Values)].

%% Of the first 1, 2, ... N + 1 of choose(N, 0), choose(N, 1), ... choose(N, N).
sums(N) ->
    {Sums, _} = lists:mapfoldl(
        fun(I, Sum) -> {Sum + choose(N, I), Sum + choose(N, I)} end, 0, lists:seq(0, N)
    ),
    Sums.

choose(N, K) -> factorial(N) div (factorial(K) * factorial(N - K)).

factorial(N) -> lists:foldl(fun erlang:'*'/2, 1, lists:seq(1, N)).

equal(A, B) -> abs(A - B) =< 1.0e-9 * max(abs(A), abs(B)).

within(Got, Want, Tolerance) ->
    ?assert(abs(Got - Want) =< Tolerance, {Got, Want}).

check(Property) ->
    dyno_property:holds(Property, 300).
