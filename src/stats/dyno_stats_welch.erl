%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_welch).
-moduledoc """
Intervals from very few repetitions, where order statistics cannot give one: 3 runs a side.

Times, rates and sizes of whole runs differ by factors, so their logarithms are looked at: the
estimate is the geometric mean, the interval Student's, and for the ratio of two sides Welch's (B.
L. Welch, "The generalization of Student's problem when several different population variances are
involved", 1947). It assumes that the logarithms of repeated runs are about normal, which means of
thousands of operations are; what is skewed or has wild values (a single operation's time) belongs
to `dyno_stats_interval`.

## Examples

```erlang
1> {ok, #{ratio := Ratio}} = dyno_stats_welch:ratio([1.0, 1.1, 0.9], [2.0, 2.2, 1.8], 0.95).
2> round(Ratio).
2
```
""".

-export([mean/2, ratio/3, log_difference/3, t_quantile/2]).

-export_type([reason/0]).

-doc """
* `too_few`: an interval needs two values a side at least.
* `not_positive`: a value is zero or negative, and has no logarithm.
""".
-type reason() :: too_few | not_positive.

-define(HALVINGS, 200).
%% No variance at all is a coarse clock, not certainty; no quantile of t is above this.
-define(FARTHEST, 1.0e6).

-doc "The geometric mean and its interval.".
-spec mean([number()], Level :: float()) ->
    {ok, #{mean := float(), low := float(), high := float()}} | {error, reason()}.
mean(Values, Level) ->
    maybe
        {ok, {Mean, SquaredError, Count}} ?= side(Values),
        Half = t_quantile((1 + Level) / 2, Count - 1) * math:sqrt(SquaredError),
        {ok, #{
            mean => math:exp(Mean), low => math:exp(Mean - Half), high => math:exp(Mean + Half)
        }}
    end.

-doc "The ratio B / A of independent values and its interval.".
-spec ratio(As :: [number()], Bs :: [number()], Level :: float()) ->
    {ok, #{ratio := float(), low := float(), high := float()}} | {error, reason()}.
ratio(As, Bs, Level) ->
    maybe
        {ok, {Difference, Half}} ?= log_difference([As], Bs, Level),
        {ok, #{
            ratio => math:exp(Difference),
            low => math:exp(Difference - Half),
            high => math:exp(Difference + Half)
        }}
    end.

-doc """
The logarithm of B / A and half its interval's width, where A was measured in several parts: A is
the mean of the parts' means, so that parts of different lengths count the same.
""".
-spec log_difference(Parts :: [[number()], ...], Bs :: [number()], Level :: float()) ->
    {ok, {float(), float()}} | {error, reason()}.
log_difference(Parts, Bs, Level) ->
    maybe
        {ok, {B, SquaredB, CountB}} ?= side(Bs),
        {ok, Sides} ?= sides(Parts),
        N = length(Sides),
        A = lists:sum([Mean || {Mean, _, _} <- Sides]) / N,
        Errors =
            [{SquaredB, CountB - 1} | [{S / (N * N), Count - 1} || {_, S, Count} <- Sides]],
        Squared = lists:sum([S || {S, _} <- Errors]),
        Weights = lists:sum([S * S / Freedom || {S, Freedom} <- Errors]),
        Half =
            case Weights > 0 of
                true -> t_quantile((1 + Level) / 2, Squared * Squared / Weights);
                false -> 0.0
            end * math:sqrt(Squared),
        {ok, {B - A, Half}}
    end.

sides([]) ->
    {ok, []};
sides([Values | Rest]) ->
    maybe
        {ok, Side} ?= side(Values),
        {ok, Sides} ?= sides(Rest),
        {ok, [Side | Sides]}
    end.

%% The mean of the logarithms, its squared standard error, and how many.
side(Values) when length(Values) < 2 ->
    {error, too_few};
side(Values) ->
    case lists:all(fun(V) -> V > 0 end, Values) of
        true ->
            Logs = [math:log(V) || V <- Values],
            Count = length(Logs),
            Mean = lists:sum(Logs) / Count,
            Squares = lists:sum([(L - Mean) * (L - Mean) || L <- Logs]),
            {ok, {Mean, Squares / (Count - 1) / Count, Count}};
        false ->
            {error, not_positive}
    end.

-doc "Student's t that a variable of so many degrees of freedom exceeds with probability 1 - P.".
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

