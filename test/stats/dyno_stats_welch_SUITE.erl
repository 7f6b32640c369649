%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_welch_SUITE).
-moduledoc "Intervals of few repetitions: against tables, and by how often they hold the truth.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() -> [quantiles, known_mean, exact_values, refused, coverage, rates, next].

%% As tables have them.
quantiles(_Config) ->
    lists:foreach(
        fun({P, Freedom, T}) ->
            ?assert(abs(dyno_stats_welch:t_quantile(P, Freedom) - T) < 0.0006 * max(1, T))
        end,
        [
            {0.975, 1, 12.706},
            {0.975, 2, 4.303},
            {0.975, 4, 2.776},
            {0.975, 9, 2.262},
            {0.975, 30, 2.042},
            {0.95, 5, 2.015},
            {0.995, 10, 3.169},
            {0.5, 3, 0.0}
        ]
    ).

known_mean(_Config) ->
    {ok, #{mean := Mean, low := Low, high := High}} = dyno_stats_welch:mean([1, 2, 4], 0.95),
    ?assert(abs(Mean - 2) < 1.0e-9),
    %% ln 2 * 4.303 / sqrt 3 to each side.
    ?assert(abs(math:log(High / 2) - 1.722) < 0.001),
    ?assert(abs(math:log(2 / Low) - 1.722) < 0.001).

exact_values(_Config) ->
    ?assertMatch(
        {ok, #{ratio := R, low := R, high := R}}, dyno_stats_welch:ratio([2, 2], [2, 2], 0.95)
    ).

refused(_Config) ->
    ?assertEqual({error, too_few}, dyno_stats_welch:mean([1], 0.95)),
    %% As far apart as a float can tell.
    Apart = [1.0e-60, 1.0e60],
    {ok, #{low := Low, high := High}} = dyno_stats_welch:ratio(Apart, [1, 2], 0.95),
    ?assert(Low > 0 andalso Low < 1.0e-100 andalso High > 1.0e100, {Low, High}),
    ?assertMatch({ok, #{}}, dyno_stats_welch:mean(Apart, 0.95)),
    ?assertMatch({ok, #{}}, dyno_stats_welch:next(Apart, 1, 0.95)),
    ?assertEqual({error, too_few}, dyno_stats_welch:ratio([1], [1, 2], 0.95)),
    ?assertEqual({error, not_positive}, dyno_stats_welch:ratio([1, 2], [0, 2], 0.95)).

%% Two sides of 3 and 5 values, whose noise differs: 95 of 100 intervals hold the true ratio.
coverage(_Config) ->
    _ = rand:seed(exsss, 11),
    Draw = fun(Median, Sigma, N) ->
        [Median * math:exp(Sigma * rand:normal()) || _ <- lists:seq(1, N)]
    end,
    Held = [
        x
     || _ <- lists:seq(1, 2000),
        {ok, #{low := Low, high := High}} <- [
            dyno_stats_welch:ratio(Draw(100, 0.05, 3), Draw(130, 0.1, 5), 0.95)
        ],
        Low =< 1.3,
        High >= 1.3
    ],
    ?assert(length(Held) > 1840),
    ?assert(length(Held) < 1980).

%% All operations by all of the time, also where a slice has none or lasts longer.
rates(_Config) ->
    {ok, #{ratio := Ratio, low := Low, high := High}} = dyno_stats_welch:ratio_of_rates(
        [{10, 1}, {0, 1}, {20, 1}, {10, 1}], [{0, 2}, {10, 1}, {5, 1}, {5, 0.5}, {2.5, 0}], 0.95
    ),
    ?assert(abs(Ratio - 0.5) < 1.0e-9),
    ?assert(Low < Ratio andalso Ratio < High),
    ?assertEqual(
        {error, not_positive},
        dyno_stats_welch:ratio_of_rates([{0, 1}, {0, 1}], [{1, 1}, {2, 1}], 0.95)
    ),
    ?assertEqual(
        {error, too_few}, dyno_stats_welch:ratio_of_rates([{1, 1}, {2, 1}], [{1, 1}], 0.95)
    ),
    %% 95 of 100 intervals hold the true ratio.
    _ = rand:seed(exsss, 12),
    Draw = fun(Rate, N) ->
        [
            {Time * Rate * (0.5 + rand:uniform()), Time}
         || _ <- lists:seq(1, N), Time <- [0.5 + rand:uniform()]
        ]
    end,
    Held = [
        x
     || _ <- lists:seq(1, 2000),
        {ok, #{low := L, high := H}} <- [
            dyno_stats_welch:ratio_of_rates(Draw(100, 20), Draw(80, 10), 0.95)
        ],
        L =< 0.8,
        H >= 0.8
    ],
    ?assert(length(Held) > 1840 andalso length(Held) < 1980, length(Held)).

%% One more value of the same noise: 95 of 100 intervals hold 1, with three earlier values as with
%% ten; and one that is twice as large is found.
next(_Config) ->
    _ = rand:seed(exsss, 12),
    Draw = fun() -> 100 * math:exp(0.2 * rand:normal()) end,
    [
        begin
            Held = [
                x
             || _ <- lists:seq(1, 2000),
                {ok, #{low := Low, high := High}} <- [
                    dyno_stats_welch:next([Draw() || _ <- lists:seq(1, N)], Draw(), 0.95)
                ],
                Low =< 1,
                High >= 1
            ],
            ?assert(abs(length(Held) - 1900) < 35, {N, length(Held)})
        end
     || N <- [3, 10]
    ],
    {ok, #{ratio := Ratio, low := Least}} = dyno_stats_welch:next([99, 100, 101], 200, 0.95),
    ?assert(abs(Ratio - 2) < 0.001),
    ?assert(Least > 1.8),
    ?assertEqual({error, too_few}, dyno_stats_welch:next([1], 1, 0.95)),
    ?assertEqual({error, not_positive}, dyno_stats_welch:next([1, 2], 0, 0.95)).
