%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_comparison).
-moduledoc false.
%% Says of each pair of candidates which is faster, by how much, and whether that is decided, from
%% one value of each candidate in each round. Pure.
%%
%% What counts is the ratio of the two values within a round, so that what disturbed a whole round
%% disturbs no ratio: the interval is that of the sign test, by order statistics. Wilcoxon's signed
%% ranks would need symmetric, the t test normal differences; measured on identical code both gave
%% more false differences without a narrower interval. The level is shared between the pairs, and
%% between the looks of who looks more than once (Bonferroni).

-export([pairs/2, candidates/1, level/2, judge/3, is_decided/1, least_rounds/2, more_rounds/2]).
-export_type([candidate/0, pair/0]).

-doc "The number of a candidate: a code, or a code in a variant.".
-type candidate() :: pos_integer().

-type pair() :: #{
    a := candidate(),
    b := candidate(),
    %% The value of b by that of a: the median over the rounds, and its interval.
    ratio := float() | undefined,
    low := float() | undefined,
    high := float() | undefined,
    %% Of b against a.
    verdict := slower | faster | same | undecided
}.

-doc "Every pair of so many candidates.".
-spec candidates(non_neg_integer()) -> [{candidate(), candidate()}].
candidates(Count) ->
    [{A, B} || A <- lists:seq(1, Count), B <- lists:seq(A + 1, Count)].

-doc "The level of each pair, so that that of all together is the one that was asked for.".
-spec level(Pairs :: non_neg_integer(), #{level := float(), looks => pos_integer(), _ => _}) ->
    float().
level(Pairs, #{level := Level} = Options) ->
    1 - (1 - Level) / (maps:get(looks, Options, 1) * max(1, Pairs)).

-doc """
Every pair, from each candidate's values by round. `looks` is how often it may be looked at before
it ends; who looks only once, at a number of rounds that was fixed beforehand, has narrower
intervals than who looks after every round (m:dyno_bench_rounds).
""".
-spec pairs([[float()]], #{
    level := float(), threshold := float(), looks => pos_integer(), _ => _
}) -> [pair()].
pairs(Values, #{threshold := Threshold} = Options) ->
    Pairs = candidates(length(Values)),
    Level = level(length(Pairs), Options),
    [
        judge({A, B}, {dyno_stats:median(Logs), interval(Logs, Level)}, Threshold)
     || {A, B} <- Pairs, Logs <- [logs(lists:nth(A, Values), lists:nth(B, Values))]
    ].

logs(As, Bs) -> lists:zipwith(fun(A, B) -> math:log(B / A) end, As, Bs).

interval(Logs, Level) ->
    case dyno_stats_interval:median(Logs, Level) of
        {ok, {Low, High, _}} -> {ok, {Low, High}};
        {error, too_few} -> {error, too_few}
    end.

-doc "A pair, from the median of the logarithms of its ratios and their interval.".
-spec judge(
    {candidate(), candidate()},
    {Median :: float() | undefined, {ok, {Low :: number(), High :: number()}} | {error, too_few}},
    Threshold :: float()
) -> pair().
judge({A, B}, {Median, Interval}, Threshold) ->
    {Low, High, Verdict} =
        case Interval of
            {ok, {L, H}} -> {L, H, verdict(L, H, math:log(1 + Threshold))};
            {error, too_few} -> {undefined, undefined, undecided}
        end,
    [Ratio, RatioLow, RatioHigh] = [factor(Log) || Log <- [Median, Low, High]],
    #{a => A, b => B, ratio => Ratio, low => RatioLow, high => RatioHigh, verdict => Verdict}.

factor(undefined) -> undefined;
factor(Log) -> math:exp(Log).

%% What lies wholly on one side of no difference, and is not wholly within the threshold, is a
%% difference.
verdict(Low, High, Delta) ->
    case dyno_stats_verdict:verdict({Low, High}, Delta) of
        higher -> slower;
        lower -> faster;
        Verdict -> Verdict
    end.

-doc "Whether every pair has its verdict.".
-spec is_decided([pair()]) -> boolean().
is_decided(Pairs) ->
    lists:all(fun(#{verdict := Verdict}) -> Verdict =/= undecided end, Pairs).

-doc """
How few rounds, fixed beforehand, give an interval for every pair of so many candidates, or for the
median of one: the extremes of n values hold the median with 1 - 2^(1-n).
""".
-spec least_rounds(Candidates :: pos_integer(), Level :: float()) -> pos_integer().
least_rounds(Candidates, Level) ->
    ceil(1 + math:log2(max(1, Candidates * (Candidates - 1) div 2) / (1 - Level))).

-doc """
By what factor there should be more rounds for a pair that is not decided: an interval's width goes
with their root. At most 100: then the true difference is about the threshold, and nothing helps.
""".
-spec more_rounds(pair(), Threshold :: float()) -> float() | undefined.
more_rounds(#{ratio := Ratio, low := Low, high := High}, Threshold) when
    is_float(Ratio), is_float(Low), is_float(High)
->
    Half = (math:log(High) - math:log(Low)) / 2,
    %% From the estimate to the nearer edge of the threshold.
    Distance = abs(abs(math:log(Ratio)) - math:log(1 + Threshold)),
    min(100.0, max(1.5, math:pow(Half / max(1.0e-6, Distance), 2)));
more_rounds(_Pair, _Threshold) ->
    undefined.
