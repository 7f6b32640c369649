%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_plan).
-moduledoc false.
%% How many rounds a comparison makes, from how long one takes and the time that there is. Pure.
%%
%% Where many rounds fit, one looks after each and stops when all is decided; a verdict that may
%% come at any time needs more rounds than one at a number that was fixed beforehand (11 for two
%% codes at 95 %, not 6). So where few fit, their number is fixed: as many as fit, but as many at
%% least as give every pair an interval. That may take longer than the time for measuring; where it
%% would pass a limit, it ends without a verdict as soon as that is seen.

-export([plan/2, is_over/3]).
-export_type([plan/0, time/0]).

-type time() :: #{
    %% For measuring.
    budget_ms := pos_integer(),
    %% It may be so long to come to a verdict.
    limit_ms := number() | infinity,
    _ => _
}.

-type plan() ::
    %% Until all is decided or this time is over, but not before so many rounds.
    {until_decided, BudgetMs :: pos_integer(), Least :: pos_integer()}
    | {fixed, Rounds :: pos_integer()}.

%% So many times the rounds that a look after each needs at least, or it is not worth its price.
-define(WORTH, 2).

-doc "The plan for so many candidates, a round of which takes so long.".
-spec plan(
    {Candidates :: pos_integer(), Level :: float()}, {RoundMs :: float(), BudgetMs :: pos_integer()}
) -> plan().
plan({Candidates, Level}, {RoundMs, BudgetMs}) ->
    Fitting = trunc(BudgetMs / max(1.0e-3, RoundMs)),
    case least_sequential(Candidates, Level) of
        Sequential when Fitting >= ?WORTH * Sequential -> {until_decided, BudgetMs, Sequential};
        _ -> {fixed, max(Fitting, dyno_bench_comparison:least_rounds(Candidates, Level))}
    end.

-doc """
Whether so many rounds in so long a time are all: not before there are so many as are needed, unless
these would take longer than the limit.
""".
-spec is_over(
    {Rounds :: non_neg_integer(), ElapsedMs :: integer()}, Needed :: pos_integer(), time()
) -> boolean().
is_over({0, _ElapsedMs}, _Needed, _Time) ->
    false;
is_over({_Rounds, ElapsedMs}, _Needed, #{budget_ms := BudgetMs}) when ElapsedMs < BudgetMs ->
    false;
is_over({Rounds, ElapsedMs}, Needed, #{limit_ms := LimitMs}) ->
    %% `infinity` is more than any number.
    Rounds >= Needed orelse ElapsedMs / Rounds * Needed > LimitMs.

least_sequential(Candidates, Level) ->
    Pairs = length(dyno_bench_comparison:candidates(Candidates)),
    OfPair = dyno_bench_comparison:level(Pairs, #{level => Level}),
    hd([N || N <- lists:seq(1, 100), dyno_stats_sequence:rank(N, OfPair) > 0]).
