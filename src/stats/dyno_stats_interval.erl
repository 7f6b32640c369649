%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_interval).
-moduledoc """
Say between which two measured values the true median, or another quantile, lies.

The bounds are order statistics: of `n` values the number below the true median is binomial with
probability 1/2, whatever their distribution, so that the chance of each pair of ranks is known
exactly (W. R. Thompson, 1936; Conover, "Practical nonparametric statistics", section 3.2). Nothing
is assumed but independence: no normal distribution, no symmetry. Equal values only raise the level.

The levels are those of a look at a number of values chosen beforehand. Whoever looks after every
value and stops when it pleases needs `m:dyno_stats_sequence`.

## Examples

```erlang
1> dyno_stats_interval:median([5, 3, 9, 1, 7, 4], 0.95).
{ok,{1,9,0.96875}}
2> dyno_stats_interval:median([5, 3, 9, 1, 7], 0.95).
{error,too_few}
```
""".

%% Intervals
-export([median/2, quantile/3]).
%% Planning
-export([median_rank/2, quantile_ranks/3, min_count/1, min_count/2]).
-export([format_error/1]).

%% A level that is reached but for the rounding of floating-point numbers is reached.
-define(ROUNDING, 1.0e-12).

-doc "The probability that the interval holds the true value: above 0, below 1.".
-type level() :: float().

-doc "The two values, and the probability with which they were to have the true value between.".
-type interval() :: {Low :: number(), High :: number(), Achieved :: level()}.

-doc "Even the least and the greatest value do not reach the level.".
-type reason() :: too_few.

-export_type([level/0, interval/0, reason/0]).

-doc """
The narrowest symmetric interval of order statistics that holds the true median with at least the
probability `Level`, and the probability achieved, which is exact.
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

-doc """
The same for the true quantile `Q`, above 0 and below 1. The chance of missing it is split evenly
between the two sides.
""".
-spec quantile([number()], Q :: float(), level()) -> {ok, interval()} | {error, reason()}.
quantile(Values, Q, Level) ->
    Count = length(Values),
    case quantile_ranks(Count, Q, Level) of
        {Low, High} when Low >= 1, High =< Count ->
            Sorted = list_to_tuple(lists:sort(Values)),
            Achieved =
                dyno_stats_distribution:binomial_cdf(High - 1, Count, Q) -
                    dyno_stats_distribution:binomial_cdf(Low - 1, Count, Q),
            {ok, {element(Low, Sorted), element(High, Sorted), Achieved}};
        _ ->
            {error, too_few}
    end.

-doc """
The rank `K` for `Count` values: the interval reaches from the `K`-th value to the `K`-th from the
end. 0 if there are too few.
""".
-spec median_rank(Count :: non_neg_integer(), level()) -> non_neg_integer().
median_rank(Count, Level) ->
    {Low, _} = quantile_ranks(Count, 0.5, Level),
    Low.

-doc "The ranks of the two bounds for the quantile `Q`: 0 or `Count + 1` where there are too few.".
-spec quantile_ranks(Count :: non_neg_integer(), Q :: float(), level()) ->
    {Low :: non_neg_integer(), High :: pos_integer()}.
quantile_ranks(Count, Q, Level) when Q > 0, Q < 1, Level > 0, Level < 1 ->
    {tail_rank(Count, Q, Level), Count + 1 - tail_rank(Count, 1 - Q, Level)}.

-doc "How many values an interval for the median needs at this level: 6 for 0.95.".
-spec min_count(level()) -> pos_integer().
min_count(Level) ->
    min_count(0.5, Level).

-doc "How many values an interval for the quantile `Q` needs at this level.".
-spec min_count(Q :: float(), level()) -> pos_integer().
min_count(Q, Level) when Q > 0, Q < 1, Level > 0, Level < 1 ->
    %% All values on one side of the quantile: max(Q, 1 - Q)^n is at most half of 1 - Level.
    max(1, ceil(math:log(tail(Level)) / math:log(max(Q, 1 - Q)))).

-doc "One sentence for people.".
-spec format_error(reason()) -> unicode:chardata().
format_error(too_few) ->
    "there are too few values for an interval at this level; measure more of them "
    "(6 for the median at 95 %).".

%% The largest rank that is above the quantile with at most half of the chance of missing it.
-spec tail_rank(non_neg_integer(), float(), level()) -> non_neg_integer().
tail_rank(Count, Q, Level) ->
    Tail = tail(Level),
    Holds = fun(Rank) -> dyno_stats_distribution:binomial_cdf(Rank - 1, Count, Q) =< Tail end,
    dyno_stats_distribution:largest_rank(Holds, 1, Count).

-spec tail(level()) -> float().
tail(Level) ->
    (1 - Level) / 2 * (1 + ?ROUNDING) + ?ROUNDING * ?ROUNDING.
