%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_sequence_SUITE).
-moduledoc false.

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-import(proper_types, [float/2, integer/2, list/1]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [peeking_is_allowed, peeking_with_ties_is_allowed].

all() ->
    [
        rank_table,
        rank_is_naive,
        rank_only_grows,
        evidence_is_a_martingale,
        interval_is_the_ranked_values,
        order_does_not_matter,
        too_few,
        levels,
        peeking_is_allowed,
        peeking_with_ties_is_allowed,
        finds_a_shift
    ].

%% Computed by an independent program, in Python, for alpha 0.05 and a = 4.
rank_table(_) ->
    [
        ?assertEqual({N, K}, {N, dyno_stats_sequence:rank(N, 0.95)})
     || {N, K} <- [{20, 4}, {52, 16}, {100, 35}, {200, 79}, {400, 169}]
    ].

%% In integers: 2^n * B(S + a, n - S + a) >= B(a, a) / alpha, with B(x, y) = (x-1)!(y-1)!/(x+y-1)!.
rank_is_naive(_) ->
    check(
        ?FORALL({N, Percent}, {integer(0, 150), integer(60, 99)}, begin
            Ranks = [K || K <- lists:seq(1, (N + 1) div 2), rejects(N, K - 1, 4, 100 - Percent)],
            dyno_stats_sequence:rank(N, Percent / 100) =:= lists:max([0 | Ranks])
        end)
    ).

rank_only_grows(_) ->
    Ranks = [dyno_stats_sequence:rank(N, 0.95) || N <- lists:seq(0, 2000)],
    ?assertEqual(Ranks, lists:sort(Ranks)),
    %% Wider than the interval for a number of values fixed beforehand, always.
    [
        ?assert(K =< dyno_stats_interval:median_rank(N, 0.95))
     || {N, K} <- lists:enumerate(0, Ranks)
    ].

%% The mean of the evidence over all outcomes of fair coins is 1: that is why 1/alpha is rare.
evidence_is_a_martingale(_) ->
    [
        begin
            Mean = lists:sum([
                choose(N, S) * beta(S + A, N - S + A) / beta(A, A)
             || S <- lists:seq(0, N)
            ]),
            ?assert(abs(Mean - 1) < 1.0e-9)
        end
     || N <- [1, 2, 10, 50], A <- [1, 4, 7]
    ].

interval_is_the_ranked_values(_) ->
    check(
        ?FORALL(Values, list(integer(-100, 100)), begin
            N = length(Values),
            Sequence = fed(Values, 0.8),
            Sorted = lists:sort(Values),
            Want =
                case dyno_stats_sequence:rank(N, 0.8) of
                    0 -> {error, too_few};
                    K -> {ok, {lists:nth(K, Sorted), lists:nth(N + 1 - K, Sorted)}}
                end,
            dyno_stats_sequence:interval(Sequence) =:= Want andalso
                dyno_stats_sequence:median(Sequence) =:= dyno_stats:median(Values)
        end)
    ).

order_does_not_matter(_) ->
    check(
        ?FORALL(Values, list(float(-1.0, 1.0)), begin
            dyno_stats_sequence:interval(fed(Values, 0.95)) =:=
                dyno_stats_sequence:interval(fed(lists:reverse(Values), 0.95))
        end)
    ).

too_few(_) ->
    First = 11,
    ?assertEqual({error, too_few}, dyno_stats_sequence:interval(dyno_stats_sequence:new(0.95))),
    Before = fed(lists:seq(2, First), 0.95),
    ?assertEqual({error, too_few}, dyno_stats_sequence:interval(Before)),
    After = dyno_stats_sequence:add(1, Before),
    ?assertEqual({ok, {1, First}}, dyno_stats_sequence:interval(After)).

levels(_) ->
    [?assertError(function_clause, dyno_stats_sequence:new(Bad)) || Bad <- [1, 0.0, 1.5]].

%% No difference, heavy tails, and a look after every value up to 200. The sequence is wrong in at
%% most 5 % of the runs; the interval for a fixed number is not made for this, and far worse.
peeking_is_allowed(_) ->
    {Sequence, Fixed} = alarms(11, 400, 200, fun heavy_tailed/1),
    ct:pal("false alarms: sequence ~p, fixed ~p", [Sequence, Fixed]),
    ?assert(Sequence =< 0.05),
    ?assert(Fixed >= 0.2),
    {comment, io_lib:format("sequence ~p, fixed ~p", [Sequence, Fixed])}.

peeking_with_ties_is_allowed(_) ->
    %% -1, 0 and 1: a clock that hardly moves.
    {Sequence, _} = alarms(12, 300, 150, fun(State0) ->
        {X, State} = rand:uniform_s(3, State0),
        {X - 2, State}
    end),
    ?assert(Sequence =< 0.05).

%% Half a standard deviation: found in nearly every run, within 400 values.
finds_a_shift(_) ->
    Draw = fun(State0) ->
        {X, State} = rand:normal_s(State0),
        {X + 0.5, State}
    end,
    {Stops, _} = lists:mapfoldl(
        fun(_, State) -> stop(dyno_stats_sequence:new(0.95), Draw, 1, State) end,
        rand:seed_s(exsss, 13),
        lists:seq(1, 60)
    ),
    Found = [N || N <- Stops, is_integer(N)],
    ct:pal("stopped after ~p (median)", [dyno_stats:median(Found)]),
    ?assert(length(Found) >= 57),
    ?assert(dyno_stats:median(Found) < 200).

stop(_, _, 401, State) ->
    {never, State};
stop(Sequence0, Draw, Count, State0) ->
    {X, State} = Draw(State0),
    Sequence = dyno_stats_sequence:add(X, Sequence0),
    case excludes_zero(dyno_stats_sequence:interval(Sequence)) of
        true -> {Count, State};
        false -> stop(Sequence, Draw, Count + 1, State)
    end.

%% The shares of runs in which zero, the true median, was ever excluded.
alarms(Seed, Runs, Length, Draw) ->
    {Results, _} = lists:mapfoldl(
        fun(_, State) ->
            run(Length, Draw, State, dyno_stats_sequence:new(0.95), [], {false, false})
        end,
        rand:seed_s(exsss, Seed),
        lists:seq(1, Runs)
    ),
    {length([x || {true, _} <- Results]) / Runs, length([x || {_, true} <- Results]) / Runs}.

run(0, _, State, _, _, Alarms) ->
    {Alarms, State};
run(Left, Draw, State0, Sequence0, Values0, {InSequence, InFixed}) ->
    {X, State} = Draw(State0),
    Sequence = dyno_stats_sequence:add(X, Sequence0),
    Values = [X | Values0],
    Alarms = {
        InSequence orelse excludes_zero(dyno_stats_sequence:interval(Sequence)),
        InFixed orelse excludes_zero(dyno_stats_interval:median(Values, 0.95))
    },
    run(Left - 1, Draw, State, Sequence, Values, Alarms).

excludes_zero({ok, {Low, High}}) -> Low > 0 orelse High < 0;
excludes_zero({ok, {Low, High, _}}) -> Low > 0 orelse High < 0;
excludes_zero({error, too_few}) -> false.

%% Cauchy's distribution: no mean, no variance, median 0.
heavy_tailed(State0) ->
    {U, State} = rand:uniform_real_s(State0),
    {math:tan(math:pi() * (U - 0.5)), State}.

fed(Values, Level) ->
    lists:foldl(fun dyno_stats_sequence:add/2, dyno_stats_sequence:new(Level), Values).

rejects(N, S, A, AlphaPercent) ->
    Left = (1 bsl N) * factorial(S + A - 1) * factorial(N - S + A - 1) * factorial(2 * A - 1),
    Right = factorial(N + 2 * A - 1) * factorial(A - 1) * factorial(A - 1),
    Left * AlphaPercent >= Right * 100.

beta(X, Y) ->
    factorial(X - 1) * factorial(Y - 1) / factorial(X + Y - 1).

choose(N, K) -> factorial(N) div (factorial(K) * factorial(N - K)).

factorial(N) -> lists:foldl(fun erlang:'*'/2, 1, lists:seq(1, N)).

check(Property) ->
    dyno_property:holds(Property, 300).
