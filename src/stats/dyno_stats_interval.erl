%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_interval).
-moduledoc """
Confidence intervals of a median and of a share.

The bounds of a median are order statistics: of `n` values the number below the true median is
binomial with probability 1/2 for any distribution, so the probability of each pair of ranks is
exact (W. R. Thompson, 1936; Conover, "Practical nonparametric statistics", section 3.2). Values
must only be independent; equal values raise the level.

The interval of a share is E. B. Wilson's score interval (1927), valid also for few samples.

The levels hold for one look at a number of values chosen beforehand. To look after every value and
stop at any time, use `m:dyno_stats_sequence`.

## Examples

```erlang
1> dyno_stats_interval:median([5, 3, 9, 1, 7, 4], 0.95).
{ok,{1,9,0.96875}}
2> dyno_stats_interval:median([5, 3, 9, 1, 7], 0.95).
{error,too_few}
```
""".

-export([median/2, median_rank/2, share/2, level/0]).

%% Of a normal distribution, for 95 %.
-define(Z, 1.96).
%% A level reached except for floating-point rounding is reached.
-define(ROUNDING, 1.0e-12).

-doc "The probability that the interval holds the true value: above 0, below 1.".
-type level() :: float().

-doc "Two values, and the probability that the true value is between.".
-type interval() :: {Low :: number(), High :: number(), Achieved :: level()}.

-doc "Even the extremes do not reach the level.".
-type reason() :: too_few.

-export_type([level/0, interval/0, reason/0]).

-doc "dyno's default level of intervals and verdicts.".
-spec level() -> level().
level() -> 0.95.

-doc """
The narrowest symmetric interval of order statistics that holds the true median with at least the
probability `Level`, and the exact probability.
""".
-spec median([number()], level()) -> {ok, interval()} | {error, reason()}.
median(Values, Level) ->
    Count = length(Values),
    case median_rank(Count, Level) of
        0 ->
            {error, too_few};
        Rank ->
            Sorted = list_to_tuple(lists:sort(Values)),
            Below = dyno_stats_distribution:binomial_cdf(Rank - 1, Count, 0.5),
            {ok, {element(Rank, Sorted), element(Count + 1 - Rank, Sorted), 1 - 2 * Below}}
    end.

-doc "The rank `K` of the interval's ends, from both ends of the values; 0 if these are too few.".
-spec median_rank(Count :: non_neg_integer(), level()) -> non_neg_integer().
median_rank(Count, Level) when Level > 0, Level < 1 ->
    Tail = tail(Level),
    Holds = fun(Rank) -> dyno_stats_distribution:binomial_cdf(Rank - 1, Count, 0.5) =< Tail end,
    dyno_stats_distribution:largest_rank(Holds, 1, Count).

tail(Level) ->
    (1 - Level) / 2 * (1 + ?ROUNDING) + ?ROUNDING * ?ROUNDING.

-doc """
The bounds of an observed share of a number of samples, with a probability of 95 %.

```erlang
1> {Low, High} = dyno_stats_interval:share(0.5, 100), {round(100 * Low), round(100 * High)}.
{40,60}
```
""".
-spec share(Share :: float(), Samples :: number()) -> {Low :: float(), High :: float()}.
share(Share, Samples) ->
    Z2 = ?Z * ?Z / Samples,
    Middle = (Share + Z2 / 2) / (1 + Z2),
    Off = ?Z * math:sqrt(Share * (1 - Share) / Samples + Z2 / Samples / 4) / (1 + Z2),
    {max(0.0, Middle - Off), min(1.0, Middle + Off)}.
