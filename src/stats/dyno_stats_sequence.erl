%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_sequence).
-moduledoc """
An interval of the median that is valid after every value, to stop as soon as it gives the answer.

An ordinary 95 % interval is wrong 5 % of the time at a fixed number of values, and far more often
with looks until it excludes zero. The intervals of this confidence sequence hold the true median at
*all* times together with the probability `level`: any stopping rule is allowed. The price against a
fixed number is about twice the values.

If `m` is the median, the number `S` of values below it is a fair coin's, and the mixture of
likelihood ratios over all biased coins, with a Beta(a, a) prior,

    E(n, S) = 2^n * B(S + a, n - S + a) / B(a, a)

is a martingale that starts at 1, and ever reaches 1/alpha with a probability of at most alpha
(Ville, 1939; Robbins, 1970; Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", 2021). The interval at `n` keeps every `m` that this does not
reject, for any distribution.

## Examples

```erlang
1> dyno_stats_sequence:rank(100, 0.95).
35
2> S = lists:foldl(fun dyno_stats_sequence:add/2, dyno_stats_sequence:new(0.95), lists:seq(1, 100)).
3> dyno_stats_sequence:interval(S).
{ok,{35,66}}
```
""".

-export([new/1, add/2, median/1, interval/1, rank/2]).

%% The prior's weight of small differences, best at some 20 to 200 rounds.
-define(PRIOR, 4).
%% Evidence reached except for rounding of logarithms is reached.
-define(ROUNDING, 1.0e-9).

-opaque t() :: #{
    level := dyno_stats_interval:level(),
    count := non_neg_integer(),
    sorted := [number()]
}.

-doc "Even the widest interval is not sure enough yet.".
-type reason() :: too_few.

-export_type([t/0, reason/0]).

-doc "No values yet; `Level` is the probability that all intervals hold the true median.".
-spec new(dyno_stats_interval:level()) -> t().
new(Level) when Level > 0, Level < 1 ->
    #{level => Level, count => 0, sorted => []}.

-doc "Adds a value.".
-spec add(Value :: number(), t()) -> t().
add(Value, #{count := Count, sorted := Sorted} = Sequence) ->
    Sequence#{count := Count + 1, sorted := insert(Value, Sorted)}.

-doc "The median: the estimate of the interval.".
-spec median(t()) -> float() | undefined.
median(#{sorted := Sorted}) ->
    dyno_stats:median(Sorted).

-doc "The current interval of the true median after each value, valid alone; they usually shrink.".
-spec interval(t()) -> {ok, {Low :: number(), High :: number()}} | {error, reason()}.
interval(#{level := Level, count := Count, sorted := Sorted}) ->
    case rank(Count, Level) of
        0 ->
            {error, too_few};
        Rank ->
            [Low | _] = FromLow = lists:nthtail(Rank - 1, Sorted),
            {ok, {Low, lists:nth(Count + 2 - 2 * Rank, FromLow)}}
    end.

-doc "The rank `k` of the interval's ends, from both ends of the values; 0 if these are too few.".
-spec rank(Count :: non_neg_integer(), dyno_stats_interval:level()) -> non_neg_integer().
rank(Count, Level) ->
    Needed = -math:log(1 - Level) - ?ROUNDING,
    %% E falls in S up to n/2, and is below 1 there.
    Holds = fun(Rank) -> log_evidence(Count, Rank - 1) >= Needed end,
    dyno_stats_distribution:largest_rank(Holds, 1, (Count + 1) div 2).

log_evidence(Count, Below) ->
    Count * math:log(2) +
        dyno_stats_distribution:log_beta(Below + ?PRIOR, Count - Below + ?PRIOR) -
        dyno_stats_distribution:log_beta(?PRIOR, ?PRIOR).

insert(Value, [Head | Tail]) when Head < Value -> [Head | insert(Value, Tail)];
insert(Value, Sorted) -> [Value | Sorted].
