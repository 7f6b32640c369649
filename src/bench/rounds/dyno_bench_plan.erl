%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_plan).
-moduledoc false.
%% Plans the number of rounds of a comparison from a round's time and the time available. Pure.
%%
%% If many rounds fit, checking verdicts after each round ends early. Such a verdict needs more
%% rounds than a number fixed beforehand (11 for two codes at 95 %, not 6). If few rounds fit, their
%% number is fixed, and at least enough to give every pair an interval. These rounds may exceed the
%% measuring time. If they would exceed the limit, measuring ends without a verdict.

-export([plan/2, is_over/3]).
-export_type([plan/0, time/0]).

-type time() :: #{
    budget_ms := pos_integer(),
    limit_ms := number() | infinity,
    _ => _
}.

-type plan() ::
    {until_decided, BudgetMs :: pos_integer(), Least :: pos_integer()}
    | {fixed, Rounds :: pos_integer()}.

%% Looking after each round pays off from this multiple of its least rounds.
-define(WORTH, 2).

-spec plan(
    {Candidates :: pos_integer(), Level :: float()}, {RoundMs :: float(), BudgetMs :: pos_integer()}
) -> plan().
plan({Candidates, Level}, {RoundMs, BudgetMs}) ->
    Fitting = trunc(BudgetMs / max(1.0e-3, RoundMs)),
    case least_sequential(Candidates, Level) of
        Sequential when Fitting >= ?WORTH * Sequential -> {until_decided, BudgetMs, Sequential};
        _ -> {fixed, max(Fitting, dyno_bench_comparison:least_rounds(Candidates, Level))}
    end.

-doc "Whether to end after these rounds: enough, or too long; never before the time is over.".
-spec is_over(
    {Rounds :: non_neg_integer(), ElapsedMs :: integer()}, Needed :: pos_integer(), time()
) -> boolean().
is_over({0, _ElapsedMs}, _Needed, _Time) ->
    false;
is_over({_Rounds, ElapsedMs}, _Needed, #{budget_ms := BudgetMs}) when ElapsedMs < BudgetMs ->
    false;
is_over({Rounds, ElapsedMs}, Needed, #{limit_ms := LimitMs}) ->
    Rounds >= Needed orelse ElapsedMs / Rounds * Needed > LimitMs.

least_sequential(Candidates, Level) ->
    Pairs = length(dyno_bench_comparison:candidates(Candidates)),
    OfPair = dyno_bench_comparison:level(Pairs, #{level => Level}),
    hd([N || N <- lists:seq(1, 100), dyno_stats_sequence:rank(N, OfPair) > 0]).
