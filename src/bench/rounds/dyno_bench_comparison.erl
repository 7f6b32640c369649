%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_comparison).
-moduledoc false.
%% Says for each pair of candidates which is faster, by how much, and whether that is decided. Pure.
%%
%% The ratio within a round cancels disturbances of the whole round. Its interval is that of the
%% sign test, by order statistics: Wilcoxon's signed ranks and the t test gave more false
%% differences and no narrower interval. Pairs and repeated looks share the level (Bonferroni).

-export([pairs/2, candidates/1, level/2, judge/3, is_decided/1, least_rounds/2, more_rounds/2]).
-export_type([candidate/0, pair/0]).

-doc "The number of a candidate: a code, or a code in a variant.".
-type candidate() :: pos_integer().

-type pair() :: #{
    a := candidate(),
    b := candidate(),
    %% b divided by a: the median over the rounds, and its interval.
    ratio := float() | undefined,
    low := float() | undefined,
    high := float() | undefined,
    %% Of b compared with a.
    verdict := slower | faster | same | undecided
}.

-spec candidates(non_neg_integer()) -> [{candidate(), candidate()}].
candidates(Count) ->
    [{A, B} || A <- lists:seq(1, Count), B <- lists:seq(A + 1, Count)].

-doc "Keeps the requested level for all pairs together.".
-spec level(Pairs :: non_neg_integer(), #{level := float(), looks => pos_integer(), _ => _}) ->
    float().
level(Pairs, #{level := Level} = Options) ->
    1 - (1 - Level) / (maps:get(looks, Options, 1) * max(1, Pairs)).

-doc """
All pairs, from each candidate's values by round. `looks` is the number of looks before the end. One
look at a fixed number of rounds has narrower intervals than a look after every round
(m:dyno_bench_rounds).
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

%% A difference: wholly on one side of 1, and not wholly within the threshold.
verdict(Low, High, Delta) ->
    case dyno_stats_verdict:verdict({Low, High}, Delta) of
        higher -> slower;
        lower -> faster;
        Verdict -> Verdict
    end.

-spec is_decided([pair()]) -> boolean().
is_decided(Pairs) ->
    lists:all(fun(#{verdict := Verdict}) -> Verdict =/= undecided end, Pairs).

-doc "Rounds that give each pair an interval: n values miss the median with probability 2^(1-n).".
-spec least_rounds(Candidates :: pos_integer(), Level :: float()) -> pos_integer().
least_rounds(Candidates, Level) ->
    ceil(1 + math:log2(max(1, Candidates * (Candidates - 1) div 2) / (1 - Level))).

-doc """
The factor by which an undecided pair needs more rounds: the interval narrows with the root of their
number. At most 100: the true difference is then about the threshold, and more rounds do not help.
""".
-spec more_rounds(pair(), Threshold :: float()) -> float() | undefined.
more_rounds(#{ratio := Ratio, low := Low, high := High}, Threshold) when
    is_float(Ratio), is_float(Low), is_float(High)
->
    Half = (math:log(High) - math:log(Low)) / 2,
    Distance = abs(abs(math:log(Ratio)) - math:log(1 + Threshold)),
    min(100.0, max(1.5, math:pow(Half / max(1.0e-6, Distance), 2)));
more_rounds(_Pair, _Threshold) ->
    undefined.
