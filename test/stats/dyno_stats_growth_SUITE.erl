%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_growth_SUITE).
-moduledoc false.

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-import(proper_types, [float/2, integer/2, oneof/1, vector/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        exact_powers,
        one_wild_point,
        exponent_is_naive,
        order_and_units_do_not_matter,
        levels,
        two_sizes,
        too_few_sizes,
        points_left_out,
        interval_holds_exponent,
        coverage,
        coverage_of_many_points,
        texts
    ].

exact_powers(_) ->
    check(
        ?FORALL({Scale, Exponent}, {float(0.001, 1000.0), float(-3.0, 3.0)}, begin
            Points = [{N, Scale * math:pow(N, Exponent)} || N <- [1, 10, 50, 100, 1000]],
            {ok, Fit} = dyno_stats_growth:fit(Points),
            lists:all(
                fun(Key) -> abs(maps:get(Key, Fit) - Exponent) < 1.0e-9 end, [exponent, low, high]
            )
        end)
    ).

%% Least squares would give 2.95 here.
one_wild_point(_) ->
    Points = [{1, 1}, {2, 4}, {4, 16}, {8, 64}, {16, 256}, {32, 102_400}],
    {ok, #{exponent := Exponent}} = dyno_stats_growth:fit(Points),
    ?assert(abs(Exponent - 2) < 1.0e-9).

exponent_is_naive(_) ->
    check(
        ?FORALL(Points, points(), begin
            Slopes = lists:sort([
                (math:log(V) - math:log(W)) / (math:log(M) - math:log(N))
             || {I, {M, V}} <- lists:enumerate(Points),
                {J, {N, W}} <- lists:enumerate(Points),
                I < J,
                M =/= N
            ]),
            case dyno_stats_growth:fit(Points) of
                {ok, #{exponent := Exponent}} -> near(Exponent, dyno_stats:median(Slopes));
                {error, {too_few_sizes, _, 0}} -> Slopes =:= []
            end
        end)
    ).

order_and_units_do_not_matter(_) ->
    check(
        ?FORALL(Points, points(), begin
            Other = [{N, 1000 * V} || {N, V} <- lists:reverse(Points)],
            case {dyno_stats_growth:fit(Points), dyno_stats_growth:fit(Other)} of
                {{ok, #{low := undefined} = A}, {ok, #{low := undefined} = B}} ->
                    near(maps:get(exponent, A), maps:get(exponent, B));
                {{ok, A}, {ok, B}} ->
                    lists:all(
                        fun(Key) -> near(maps:get(Key, A), maps:get(Key, B)) end,
                        [exponent, low, high, level]
                    );
                {Error, Error} ->
                    true
            end
        end)
    ).

%% 1 - 2 / n! with the widest interval; see the module's documentation.
levels(_) ->
    [
        begin
            Points = [{N, 2 + math:sin(I * N)} || N <- lists:seq(1, Sizes), I <- seq(Each)],
            {ok, #{level := Level, low := Low, high := High}} = dyno_stats_growth:fit(Points),
            ?assert(abs(Level - Want) < 1.0e-12),
            ?assert(Low =< High)
        end
     || {Sizes, Each, Want} <- [
            {3, 1, 1 - 2 / 6}, {4, 1, 1 - 2 / 24}, {5, 1, 1 - 2 / 120}, {3, 2, 1 - 2 / 90}
        ]
    ],
    %% From ten points on, the interval is narrower than all the slopes: Kendall's 0.023 for 23.
    {ok, #{level := Level}} = dyno_stats_growth:fit([{N, N} || N <- lists:seq(1, 10)]),
    ?assertEqual(0.953, round(1000 * Level) / 1000).

two_sizes(_) ->
    {ok, Fit} = dyno_stats_growth:fit([{10, 5}, {100, 500}, {10, 5}]),
    ?assertMatch(
        #{
            low := undefined,
            high := undefined,
            level := undefined,
            points := 3,
            sizes := 2,
            smallest := 10,
            largest := 100
        },
        Fit
    ),
    ?assert(abs(maps:get(exponent, Fit) - 2) < 1.0e-12),
    ?assertEqual(~"grows as n^2.0", dyno_stats_growth:describe(Fit)).

too_few_sizes(_) ->
    [
        ?assertEqual({error, Reason}, dyno_stats_growth:fit(Points))
     || {Points, Reason} <- [
            {[], {too_few_sizes, 0, 0}},
            {[{5, 1}, {5, 2}], {too_few_sizes, 1, 0}},
            {[{5, 1}, {5.0, 2}], {too_few_sizes, 1, 0}},
            {[{1, 0}, {2, 0}, {3, 7}], {too_few_sizes, 1, 2}}
        ]
    ].

points_left_out(_) ->
    Good = [{N, N} || N <- [1, 2, 4, 8, 16]],
    {ok, Fit} = dyno_stats_growth:fit(Good),
    {ok, Mixed} = dyno_stats_growth:fit([{32, 0}, {64, -1}, {0, 5} | Good]),
    ?assertEqual(Fit#{left_out := 3}, Mixed).

interval_holds_exponent(_) ->
    check(
        ?FORALL(Points, points(), begin
            case dyno_stats_growth:fit(Points) of
                {ok, #{low := undefined, sizes := Sizes}} ->
                    Sizes =:= 2;
                {ok, #{low := Low, exponent := Exponent, high := High, sizes := Sizes}} ->
                    Sizes >= 3 andalso Low =< Exponent andalso Exponent =< High;
                {error, _} ->
                    true
            end
        end)
    ).

%% With noise of heavy tails, the share of intervals with the true exponent is the level stated.
coverage(_) ->
    Sizes = [10, 100, 1000, 10, 100, 1000, 10, 100, 1000],
    {Covered, Level} = covered(21, 2000, Sizes),
    ct:pal("covered ~p, level ~p", [Covered, Level]),
    ?assert(Level >= 0.95),
    ?assert(abs(Covered - Level) < 0.012).

%% Above 30 points by the normal approximation.
coverage_of_many_points(_) ->
    {Covered, Level} = covered(22, 300, [N || N <- lists:seq(1, 12), _ <- [1, 2, 3]]),
    ct:pal("covered ~p, level ~p", [Covered, Level]),
    ?assert(Level >= 0.95),
    ?assert(abs(Covered - Level) < 0.035).

texts(_) ->
    [
        ?assertEqual(
            Want,
            dyno_stats_growth:describe(#{
                exponent => Exponent,
                low => Low,
                high => High,
                level => Level,
                points => 5,
                sizes => 5,
                left_out => 0,
                smallest => 1,
                largest => 9
            })
        )
     || {Exponent, Low, High, Level, Want} <- [
            {1.9, 1.7, 2.1, 0.98, ~"grows as n^1.9 (1.7 to 2.1)"},
            {1.9, 1.7, 2.1, 2 / 3, ~"grows as n^1.9 (1.7 to 2.1, 67 % sure)"},
            {0.12, 0.06, 0.2, 0.98, ~"grows as n^0.1 (0.1 to 0.2)"},
            {-1.04, -1.1, -0.9, 0.98, ~"falls as n^-1.0 (-1.1 to -0.9)"},
            {-0.01, -0.04, 0.03, 0.98, ~"does not grow (n^0.0)"},
            {0.03, 0.02, 0.04, 0.98, ~"does not grow (n^0.0)"},
            {0.3, -0.4, 1.0, 0.98, ~"no clear growth: n^0.3 (-0.4 to 1.0)"},
            {2.0, undefined, undefined, undefined, ~"grows as n^2.0"},
            {-2.0, undefined, undefined, undefined, ~"falls as n^-2.0"},
            {-0.02, undefined, undefined, undefined, ~"does not grow (n^0.0)"}
        ]
    ].

points() ->
    ?LET(
        N,
        integer(0, 15),
        vector(N, {oneof([1, 10, 100, 1000, integer(1, 5000)]), float(0.001, 1.0e6)})
    ).

covered(Seed, Trials, Sizes) ->
    {Results, _} = lists:mapfoldl(
        fun(_, State0) ->
            {Points, State} = lists:mapfoldl(fun noisy_point/2, State0, Sizes),
            {ok, #{low := Low, high := High, level := Level}} = dyno_stats_growth:fit(Points),
            {{Low =< 1.5 andalso 1.5 =< High, Level}, State}
        end,
        rand:seed_s(exsss, Seed),
        lists:seq(1, Trials)
    ),
    [{_, Level} | _] = Results,
    {length([x || {true, _} <- Results]) / Trials, Level}.

noisy_point(Size, State0) ->
    {U, State} = rand:uniform_real_s(State0),
    Noise = math:tan(math:pi() * (U - 0.5) * 0.99),
    {{Size, math:exp(0.2 * Noise) * math:pow(Size, 1.5)}, State}.

seq(N) ->
    lists:seq(1, N).

near(A, B) ->
    abs(A - B) =< 1.0e-6 * max(1, abs(A)).

check(Property) ->
    dyno_property:holds(Property, 300).
