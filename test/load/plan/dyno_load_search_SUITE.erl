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
        rates_are_doubled_at_most,
        a_search_ends_where_the_limit_is,
        a_stall_decides_nothing,
        a_search_is_seldom_wrong,
        disturbed_probes_are_counted
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

%% Nobody is overrun by a rate that is far above all that held.
rates_are_doubled_at_most(_Config) ->
    Rates = fun Rates(Search, Holds) ->
        case dyno_load_search:next(Search) of
            {done, _} -> [];
            {probe, Rate} -> [Rate | Rates(probed(Rate, Holds(Rate), Search), Holds)]
        end
    end,
    Tried = Rates(new(#{}), fun(Rate) -> Rate =< 3000 end),
    ?assertEqual(10, hd(Tried)),
    %% Steps of the grid are rounded.
    ?assert(lists:max(Tried) =< 6000 * 1.01, Tried),
    Highest = lists:foldl(
        fun(Rate, Most) ->
            ?assert(Rate =< 2.02 * Most, {Rate, Most}),
            max(Most, min(Rate, 3000))
        end,
        10,
        Tried
    ),
    ?assert(Highest > 2700).

%% Against a target with a sharp limit, and against those without any or above it.
a_search_ends_where_the_limit_is(_Config) ->
    [
        begin
            Result = searched(new(Options), fun(Rate) -> Rate =< Limit end),
            #{rate_per_s := Rate, low_per_s := Low, high_per_s := High} = Result,
            ?assertMatch(#{stopped := objective, disturbed := 0}, Result),
            ?assert(Rate =< Limit andalso Limit < High, Result),
            ?assert(Low =< Rate andalso High =< Low * 1.17, Result)
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

%% Three probes in a row meet a machine that stands still, at 80 of 41,000 a second: that made the
%% answer 73.
a_stall_decides_nothing(_Config) ->
    Stalls = counters:new(1, []),
    #{rate_per_s := Rate} = searched(new(#{}), fun(Now) ->
        case Now > 70 andalso counters:get(Stalls, 1) < 3 of
            true ->
                counters:add(Stalls, 1, 1),
                false;
            false ->
                Now =< 41_000
        end
    end),
    ?assert(Rate > 36_000 andalso Rate =< 41_000, Rate).

%% A fifth of all probes meets a stall, and one in 20 is lucky.
a_search_is_seldom_wrong(_Config) ->
    Limit = 1000,
    _ = rand:seed(exsss, 17),
    Results = [
        searched(new(#{}), fun
            (Rate) when Rate =< Limit -> rand:uniform() > 0.2;
            (_) -> rand:uniform() < 0.05
        end)
     || _ <- lists:seq(1, 100)
    ],
    Right = length([R || #{rate_per_s := R} <- Results, R > 850, R =< 1150]),
    Held = length([
        L
     || #{low_per_s := L, high_per_s := H} <- Results,
        L =< Limit,
        H =:= undefined orelse H > Limit
    ]),
    ct:pal("~b of 100 are near the limit, ~b intervals have it", [Right, Held]),
    ?assert(Right >= 90, Right),
    ?assert(Held >= 85, Held).

%% Those that failed far below what was found say that the machine was busy, or the target stalled.
disturbed_probes_are_counted(_Config) ->
    Twice = counters:new(1, []),
    Result = searched(new(#{}), fun(Now) ->
        case Now > 30 andalso Now < 100 andalso counters:get(Twice, 1) < 2 of
            true ->
                counters:add(Twice, 1, 1),
                false;
            false ->
                Now =< 5000
        end
    end),
    ?assertMatch(#{disturbed := 2}, Result).

probed(Rate, true, Search) -> dyno_load_search:record(Rate, held, 1, Search);
probed(Rate, false, Search) -> dyno_load_search:record(Rate, objective, 1, Search).

searched(Search, Holds) ->
    case dyno_load_search:next(Search) of
        {done, Result} -> Result;
        {probe, Rate} -> searched(probed(Rate, Holds(Rate), Search), Holds)
    end.
