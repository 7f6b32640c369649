%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_search_SUITE).
-moduledoc "Searches for the highest rate, against targets whose limit is known.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        a_search_needs_agreement,
        a_search_ends_where_the_limit_is,
        a_search_is_seldom_wrong
    ].

new(Options) ->
    dyno_load_search:new(
        maps:merge(
            #{
                from_per_s => 10,
                to_per_s => 1_000_000,
                confidence => 0.9,
                precision => 0.1,
                limit_ns => 1 bsl 60
            },
            Options
        )
    ).

%% One probe that fails among many that hold decides nothing.
a_search_needs_agreement(_Config) ->
    Search = new(#{}),
    {probe, 10} = dyno_load_search:next(Search),
    Once = dyno_load_search:record(10, objective, 1, Search),
    ?assertEqual({probe, 10}, dyno_load_search:next(Once)),
    Twice = dyno_load_search:record(10, held, 1, Once),
    ?assertEqual({probe, 10}, dyno_load_search:next(Twice)),
    Decided = lists:foldl(fun(_, S) -> dyno_load_search:record(10, held, 1, S) end, Twice, [1, 2]),
    ?assertEqual({probe, 20}, dyno_load_search:next(Decided)).

%% Against a target with a sharp limit, and against those without any or above it.
a_search_ends_where_the_limit_is(_Config) ->
    [
        begin
            Result = searched(new(Options), fun(Rate) -> Rate =< Limit end),
            #{rate_per_s := Rate, high_per_s := High, stopped := objective} = Result,
            ?assert(Rate =< Limit andalso Limit < High, Result),
            ?assert(High =< Rate * 1.1001, Result)
        end
     || Limit <- [10, 11, 77, 1000, 12_345, 800_000], Options <- [#{}, #{confidence => 0.99}]
    ],
    ?assertMatch(
        #{rate_per_s := 500, high_per_s := undefined, stopped := highest},
        searched(new(#{to_per_s => 500}), fun(_) -> true end)
    ),
    ?assertMatch(
        #{rate_per_s := 0, stopped := lowest}, searched(new(#{}), fun(_) -> false end)
    ),
    %% Below the first rate it looks as well.
    ?assertMatch(
        #{rate_per_s := R, high_per_s := H} when R =< 4 andalso H > 4,
        searched(new(#{}), fun(Rate) -> Rate =< 4 end)
    ),
    ?assertMatch(#{stopped := time}, searched(new(#{limit_ns => 5}), fun(_) -> true end)).

%% Probes that are wrong one time in ten, either way.
a_search_is_seldom_wrong(_Config) ->
    Limit = 1000,
    _ = rand:seed(exsss, 17),
    Rates = [
        map_get(
            rate_per_s,
            searched(new(#{confidence => 0.95}), fun(Rate) ->
                (Rate =< Limit) xor (rand:uniform() < 0.1)
            end)
        )
     || _ <- lists:seq(1, 200)
    ],
    Right = length([R || R <- Rates, R > 850, R =< 1100]),
    ct:pal("~b of 200 within the limit", [Right]),
    ?assert(Right >= 180).

searched(Search, Holds) ->
    case dyno_load_search:next(Search) of
        {done, Result} ->
            Result;
        {probe, Rate} ->
            Outcome =
                case Holds(Rate) of
                    true -> held;
                    false -> objective
                end,
            searched(dyno_load_search:record(Rate, Outcome, 1, Search), Holds)
    end.
