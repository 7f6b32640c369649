%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_ratio).
-moduledoc """
Say by what factor B differs from A, when both were measured in the same rounds.

Each round gives the logarithm of its own ratio b/a, in which whatever disturbed both alike
cancels. The estimate is the exponential of the median of these logarithms; the interval is that
of the sign test, by order statistics (`m:dyno_stats_interval`). So one disturbed round counts no
more than another, and nothing is assumed of the noise but that rounds are independent.

Wilcoxon's signed ranks would need symmetric, the t test normal differences; measured on identical
code both gave more false differences without a narrower interval.

## Examples

```erlang
1> dyno_stats_ratio:compare([10, 20, 10, 10, 30, 10], [20, 40, 20, 20, 60, 20], 0.95).
{ok,#{low => 2.0,high => 2.0,level => 0.96875,ratio => 2.0,rounds => 6}}
```
""".

-export([compare/3]).

-doc """
* `ratio`: the estimate of B / A: above 1 where B's values are greater.
* `low`, `high`: its interval.
* `level`: the exact probability with which the interval was to hold the true ratio.
* `rounds`: how many pairs it rests on.
""".
-type comparison() :: #{
    ratio := float(),
    low := float(),
    high := float(),
    level := dyno_stats_interval:level(),
    rounds := pos_integer()
}.

-doc """
* `too_few`: fewer rounds than the level needs.
* `{unpaired, As, Bs}`: the two sides have different numbers of values.
* `{not_positive, Round}`: a value of this round, from 1, is zero or negative.
""".
-type reason() ::
    too_few
    | {unpaired, As :: non_neg_integer(), Bs :: non_neg_integer()}
    | {not_positive, Round :: pos_integer()}.

-export_type([comparison/0, reason/0]).

-doc """
The ratio B / A of values measured in rounds: the first of `As` with the first of `Bs`, and so on.
""".
-spec compare(As :: [number()], Bs :: [number()], dyno_stats_interval:level()) ->
    {ok, comparison()} | {error, reason()}.
compare(As, Bs, Level) ->
    maybe
        {ok, Logs} ?= log_ratios(As, Bs),
        {ok, {Low, High, Achieved}} ?= dyno_stats_interval:median(Logs, Level),
        {ok, #{
            ratio => math:exp(dyno_stats:median(Logs)),
            low => math:exp(Low),
            high => math:exp(High),
            level => Achieved,
            rounds => length(Logs)
        }}
    end.

log_ratios(As, Bs) when length(As) =/= length(Bs) ->
    {error, {unpaired, length(As), length(Bs)}};
log_ratios(As, Bs) ->
    log_ratios(As, Bs, 1, []).

log_ratios([A | As], [B | Bs], Round, Logs) when A > 0, B > 0 ->
    log_ratios(As, Bs, Round + 1, [math:log(B / A) | Logs]);
log_ratios([], [], _, Logs) ->
    {ok, lists:reverse(Logs)};
log_ratios(_, _, Round, _) ->
    {error, {not_positive, Round}}.
