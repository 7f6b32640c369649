%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sums_SUITE).
-moduledoc "The sums of what the counters read.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(MFA, {m, f, 1}).

suite() ->
    [{timetrap, {minutes, 5}}].

newest_release_only() -> all.

all() ->
    [
        adds_calls_times_and_words,
        groups_by_process,
        cut_times_are_right_in_the_mean,
        a_time_of_zero_is_between_its_bounds,
        short_times_that_are_alike_are_uncertain,
        overhead_by_how_many_call,
        keeps_the_heaviest_callers
    ].

%% What the sums hold of the one function.
sums_of_one(Sums) ->
    [Function] = dyno_agent_call_sums:functions([call_time, call_memory], Sums),
    Function.

add(Reading, Sums) ->
    add(Reading, none, 50, Sums).

add(Reading, GroupOf, Overhead, Sums) ->
    With = #{group_of => GroupOf, least_ns => Overhead},
    dyno_agent_call_sums:add(?MFA, Reading, With, Sums).

reading(Calls, Words, Time) ->
    #{calls => Calls, words => Words, time => Time}.

adds_calls_times_and_words(_Config) ->
    One = add(reading(3, 20, [{self(), 3, 1, 7}]), dyno_agent_call_sums:new()),
    Two = add(reading(2, 5, [{self(), 2, 0, 10}]), One),
    ?assertMatch(
        #{mfa := ?MFA, calls := 5, words := 25, own_time_ns := 1_000_018_000, uncertain_ns := 0},
        sums_of_one(Two)
    ),
    %% Nothing is no function.
    Nothing = add(reading(0, 0, []), dyno_agent_call_sums:new()),
    ?assertEqual([], dyno_agent_call_sums:functions([call_time], Nothing)).

pids(N) ->
    [spawn(fun() -> ok end) || _ <- lists:seq(1, N)].

groups_by_process(_Config) ->
    [A, B, C] = pids(3),
    GroupOf = fun(P) -> maps:get(P, #{A => x, B => x, C => y}) end,
    Time = [{A, 1, 0, 1}, {B, 2, 0, 2}, {C, 3, 0, 3}],
    Sums = add(reading(6, 0, Time), GroupOf, 50, dyno_agent_call_sums:new()),
    ?assertEqual(
        [{?MFA, x, 3, 4000}, {?MFA, y, 3, 3500}],
        dyno_agent_call_sums:callers(10, Sums)
    ).

%% 20,000 processes with times between 0.2 and 40 us, cut as the runtime cuts them.
cut_times_are_right_in_the_mean(_Config) ->
    _ = rand:seed(exsss, {1, 2, 3}),
    True = [200 + rand:uniform(39_800) || _ <- lists:seq(1, 20_000)],
    Time = [{self(), 1, 0, Ns div 1000} || Ns <- True],
    #{own_time_ns := Own} = sums_of_one(add(reading(20_000, 0, Time), dyno_agent_call_sums:new())),
    Ratio = Own / lists:sum(True),
    ?assert(abs(Ratio - 1) < 0.01, Ratio).

a_time_of_zero_is_between_its_bounds(_Config) ->
    lists:foreach(
        fun({Calls, Overhead}) ->
            Time = [{self(), Calls, 0, 0}],
            Sums = add(reading(Calls, 0, Time), none, Overhead, dyno_agent_call_sums:new()),
            #{own_time_ns := Own, uncertain_ns := Uncertain} = sums_of_one(Sums),
            Least = min(1000, Calls * Overhead),
            ?assert(Own >= min(Least, 900), {Calls, Overhead, Own}),
            ?assert(Own =< 1000),
            ?assert(Own + Uncertain >= 999),
            ?assert(Own - Uncertain =< Least)
        end,
        [{1, 50}, {1, 80.5}, {5, 60}, {19, 50}, {100, 50}]
    ),
    %% Where the overhead is not known it is no less uncertain.
    Sums = add(reading(1, 0, [{self(), 1, 0, 0}]), none, undefined, dyno_agent_call_sums:new()),
    #{uncertain_ns := Uncertain} = sums_of_one(Sums),
    ?assert(Uncertain > 500).

%% Cut, they are all off in the same way; what they may be off by is said. Different ones are not.
short_times_that_are_alike_are_uncertain(_Config) ->
    _ = rand:seed(exsss, {1, 2, 3}),
    lists:foreach(
        fun({Mean, Sigma}) ->
            True = [max(1001, round(rand:normal(Mean, Sigma * Sigma))) || _ <- lists:seq(1, 5000)],
            Time = [{self(), 1, 0, Ns div 1000} || Ns <- True],
            #{own_time_ns := Own, uncertain_ns := Uncertain} =
                sums_of_one(add(reading(5000, 0, Time), dyno_agent_call_sums:new())),
            Each = {Mean, Sigma, (Own - lists:sum(True)) / 5000, Uncertain / 5000},
            ct:pal("mean, sigma, off, uncertain: ~p", [Each]),
            ?assert(abs(Own - lists:sum(True)) =< Uncertain + 5000 * 10, Each),
            ?assert(Sigma > 0 orelse Uncertain =:= 5000 * 500, Each),
            ?assert(Sigma < 500 orelse Uncertain < 5000 * 5, Each)
        end,
        [{Mean, Sigma} || Mean <- [3020, 4300, 5800], Sigma <- [0, 100, 200, 300, 500]]
    ),
    %% Half a microsecond of a long time is little.
    Long = add(reading(1, 0, [{self(), 1, 0, 10}]), dyno_agent_call_sums:new()),
    ?assertMatch(#{uncertain_ns := 0}, sums_of_one(Long)).

overhead_by_how_many_call(_Config) ->
    Overhead = fun(Each) ->
        With = #{group_of => none, least_ns => 50, call_ns => fun(N) -> N end},
        Reading = reading(0, 0, [{self(), N, 0, 30} || N <- Each]),
        Sums = dyno_agent_call_sums:add(?MFA, Reading, With, dyno_agent_call_sums:new()),
        #{calls := Calls, total_overhead_ns := Ns} = sums_of_one(Sums),
        {Calls, Ns / Calls}
    end,
    ?assertEqual({7, 1.0}, Overhead([7])),
    ?assertEqual({15, 3.0}, Overhead([5, 0, 5, 5])),
    {1_001_000, Nearly} = Overhead([1_000_000 | lists:duplicate(1000, 1)]),
    ?assert(Nearly < 1.01).

keeps_the_heaviest_callers(_Config) ->
    Pids = pids(100),
    GroupOf = fun(P) -> P end,
    Time = [{P, 1, 0, N} || {N, P} <- lists:enumerate(Pids)],
    Sums = add(reading(100, 0, Time), GroupOf, 50, dyno_agent_call_sums:new()),
    Rows = dyno_agent_call_sums:callers(3, Sums),
    ?assertEqual([100_500, 99_500, 98_500], [Ns || {_, _, _, Ns} <- Rows]).
