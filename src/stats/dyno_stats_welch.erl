%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_welch).
-moduledoc """
Intervals from very few repetitions, too few for order statistics: 3 runs a side, or one run after
3.

Times, rates and sizes of whole runs differ by factors, so the logarithms are compared: the estimate
is the geometric mean, the interval Student's, and for the ratio of two sides Welch's (B. L. Welch,
"The generalization of Student's problem when several different population variances are involved",
1947). Logarithms of repeated runs must be about normal, as means of thousands of operations are.
Skewed data or data with outliers (times of single operations) need `dyno_stats_interval`.

## Examples

```erlang
1> {ok, #{ratio := Ratio}} = dyno_stats_welch:ratio([1.0, 1.1, 0.9], [2.0, 2.2, 1.8], 0.95).
2> round(Ratio).
2
```
""".

-export([mean/2, ratio/3, ratio_of_rates/3, next/3, t_quantile/2]).

-export_type([slice/0, ratio/0, reason/0]).

-type slice() :: {Count :: number(), Time :: number()}.

-type ratio() :: #{ratio := float(), low := float(), high := float()}.

-define(MOST_LOG, 300).

-doc """
* `too_few`: an interval needs at least two values a side.
* `not_positive`: a value is zero or negative, and has no logarithm.
""".
-type reason() :: too_few | not_positive.

-define(HALVINGS, 200).
%% Zero variance is a coarse clock, not certainty; no quantile of t is above this.
-define(FARTHEST, 1.0e6).

-doc "The geometric mean and its interval.".
-spec mean([number()], Level :: float()) ->
    {ok, #{mean := float(), low := float(), high := float()}} | {error, reason()}.
mean(Values, Level) ->
    maybe
        {ok, {Mean, SquaredError, Count}} ?= side(Values),
        Half = t_quantile((1 + Level) / 2, Count - 1) * math:sqrt(SquaredError),
        {ok, #{
            mean => exp(Mean), low => exp(Mean - Half), high => exp(Mean + Half)
        }}
    end.

-doc "The ratio B / A of the geometric means of independent values, and its interval.".
-spec ratio(As :: [number()], Bs :: [number()], Level :: float()) ->
    {ok, ratio()} | {error, reason()}.
ratio(As, Bs, Level) ->
    maybe
        {ok, A} ?= side(As),
        {ok, B} ?= side(Bs),
        {ok, ratio_of(A, B, Level)}
    end.

-doc """
A further value's ratio to the geometric mean of earlier ones, and its interval: of one distribution
it holds 1 with the level's probability (Student's prediction interval).
""".
-spec next(Earlier :: [number()], Value :: number(), Level :: float()) ->
    {ok, ratio()} | {error, reason()}.
next(_Earlier, Value, _Level) when Value =< 0 ->
    {error, not_positive};
next(Earlier, Value, Level) ->
    maybe
        {ok, {Mean, SquaredError, Count}} ?= side(Earlier),
        Log = math:log(Value) - Mean,
        Half = t_quantile((1 + Level) / 2, Count - 1) * math:sqrt(SquaredError * (Count + 1)),
        {ok, #{
            ratio => exp(Log), low => exp(Log - Half), high => exp(Log + Half)
        }}
    end.

-doc """
The ratio B / A of two rates and its interval, from time slices: events in a slice, and its length.
A rate is all events by all of the time; a slice may have no event.
""".
-spec ratio_of_rates(As :: [slice()], Bs :: [slice()], Level :: float()) ->
    {ok, ratio()} | {error, reason()}.
ratio_of_rates(As, Bs, Level) ->
    maybe
        {ok, A} ?= rate(As),
        {ok, B} ?= rate(Bs),
        {ok, ratio_of(A, B, Level)}
    end.

ratio_of({A, SquaredA, CountA}, {B, SquaredB, CountB}, Level) ->
    Squared = SquaredA + SquaredB,
    Weights = SquaredA * SquaredA / (CountA - 1) + SquaredB * SquaredB / (CountB - 1),
    Half =
        case Weights > 0 of
            true -> t_quantile((1 + Level) / 2, Squared * Squared / Weights);
            false -> 0.0
        end * math:sqrt(Squared),
    #{ratio => exp(B - A), low => exp(B - A - Half), high => exp(B - A + Half)}.

%% Of few values that differ by powers of ten, the interval is wider than a float can tell.
exp(Log) -> math:exp(max(-?MOST_LOG, min(?MOST_LOG, Log))).

side(Values) when length(Values) < 2 ->
    {error, too_few};
side(Values) ->
    case lists:all(fun(V) -> V > 0 end, Values) of
        true -> {ok, mean_of([math:log(V) || V <- Values])};
        false -> {error, not_positive}
    end.

%% The same of a rate: its relative error is that of its logarithm.
rate(Slices) when length(Slices) < 2 ->
    {error, too_few};
rate(Slices) ->
    Sum = lists:sum([N || {N, _} <- Slices]),
    Rate = Sum / lists:sum([Time || {_, Time} <- Slices]),
    case Sum > 0 of
        true ->
            {_, Squared, Count} = mean_of([N - Rate * Time || {N, Time} <- Slices]),
            {ok, {math:log(Rate), Squared * Count * Count / (Sum * Sum), Count}};
        false ->
            {error, not_positive}
    end.

mean_of(Values) ->
    Count = length(Values),
    Mean = lists:sum(Values) / Count,
    Squares = lists:sum([(V - Mean) * (V - Mean) || V <- Values]),
    {Mean, Squares / (Count - 1) / Count, Count}.

-doc "The t that Student's variable with these degrees of freedom exceeds with probability 1 - P.".
-spec t_quantile(P :: float(), Freedom :: number()) -> float().
t_quantile(P, Freedom) when P >= 0.5, P < 1, Freedom > 0 ->
    t_quantile(P, Freedom, 0.0, ?FARTHEST, ?HALVINGS).

t_quantile(_P, _Freedom, Low, High, 0) ->
    (Low + High) / 2;
t_quantile(P, Freedom, Low, High, Left) ->
    Middle = (Low + High) / 2,
    case t_cdf(Middle, Freedom) < P of
        true when High - Low > 1.0e-9 -> t_quantile(P, Freedom, Middle, High, Left - 1);
        false when High - Low > 1.0e-9 -> t_quantile(P, Freedom, Low, Middle, Left - 1);
        _ -> Middle
    end.

%% Abramowitz and Stegun, 26.7.1.
t_cdf(T, Freedom) ->
    1 - dyno_stats_distribution:incomplete_beta(Freedom / (Freedom + T * T), Freedom / 2, 0.5) / 2.
