%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_jackknife_SUITE).
-moduledoc "Intervals of figures made of sums: where known; how often they hold the truth.".

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([a_mean/1, holds_the_ratio/1, refused/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [a_mean, holds_the_ratio, refused].

ratio([A, B]) -> A / B.

%% Of a mean it is Student's: 2, 4, 6 have 4 +- 4.303 * 2 / sqrt 3.
a_mean(_Config) ->
    {ok, {Mean, Low, High}} =
        dyno_stats_jackknife:interval([[2, 1], [4, 1], [6, 1]], fun ratio/1, 0.95),
    ?assert(abs(Mean - 4) < 1.0e-9),
    ?assert(abs(High - 4 - 4.9687) < 0.001, High),
    ?assert(abs(4 - Low - 4.9687) < 0.001, Low).

%% Numerator and denominator vary together, and not alike: 95 of 100 intervals hold 3.
holds_the_ratio(_Config) ->
    _ = rand:seed(exsss, 5),
    Group = fun() ->
        B = -math:log(rand:uniform()) + 1,
        [B * (3 + rand:normal()), B]
    end,
    Held = [
        x
     || _ <- lists:seq(1, 1000),
        {ok, {_, Low, High}} <- [
            dyno_stats_jackknife:interval([Group() || _ <- lists:seq(1, 20)], fun ratio/1, 0.95)
        ],
        Low =< 3,
        High >= 3
    ],
    ?assert(length(Held) >= 920, length(Held)),
    ?assert(length(Held) =< 980, length(Held)).

refused(_Config) ->
    ?assertEqual({error, too_few}, dyno_stats_jackknife:interval([[1, 2]], fun ratio/1, 0.95)),
    ?assertEqual({error, too_few}, dyno_stats_jackknife:interval([], fun ratio/1, 0.95)),
    ?assertMatch([_ | _], lists:flatten(dyno_stats_jackknife:format_error(too_few))).
