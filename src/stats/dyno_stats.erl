%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats).
-moduledoc """
Describe a sample by its centre, its spread and its quantiles.

All functions take the values in any order and give a float, or `undefined` for an empty list.
They are pure. Integers are converted to floats, so above 2^53 they are rounded.

Which to take: `median/1` where half of the values may be disturbed, `hodges_lehmann/1` where the
noise is nearer to normal (95 % of the mean's efficiency there, and it bears 29 % of outliers),
`mean/1` only for sums. For the spread `mad/1` goes with the median and `shamos/1` with
Hodges-Lehmann.

## Examples

```erlang
1> dyno_stats:median([3, 1, 2]).
2.0
2> dyno_stats:quantile([1, 2, 3, 4], 0.25).
1.75
3> dyno_stats:mean([]).
undefined
```
""".

%% Centre
-export([median/1, mean/1, hodges_lehmann/1]).
%% Spread
-export([mad/1, shamos/1]).
%% Quantiles
-export([quantile/2]).

%% How many of the pairs are at most a limit.
-type at_most() :: fun((float()) -> non_neg_integer()).

-doc "The middle value, or the mean of the two middle values.".
-spec median([number()]) -> float() | undefined.
median(Values) ->
    quantile(Values, 0.5).

-doc """
The quantile `Q` (0 to 1) by linear interpolation between the order statistics at
`(n - 1) * Q`: definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996).
""".
-spec quantile([number()], Q :: number()) -> float() | undefined.
quantile([], Q) when Q >= 0, Q =< 1 ->
    undefined;
quantile(Values, Q) when Q >= 0, Q =< 1 ->
    Position = (length(Values) - 1) * Q,
    Below = trunc(Position),
    case lists:nthtail(Below, lists:sort(Values)) of
        [Low, High | _] when Position > Below -> float(Low + (Position - Below) * (High - Low));
        [Low | _] -> float(Low)
    end.

-doc "The arithmetic mean.".
-spec mean([number()]) -> float() | undefined.
mean([]) ->
    undefined;
mean(Values) ->
    lists:sum(Values) / length(Values).

-doc """
The Hodges-Lehmann estimate of the centre: the median of the means of all pairs, each value paired
with itself too (Hodges and Lehmann, "Estimates of location based on rank tests", 1963).

## Cost

The n(n+1)/2 pairs are never written down. The rank is selected in the implicit, sorted
matrix of pairs (the idea of Monahan, "Algorithm 616", 1984), here by bisection over the 64 bits
of the floating-point numbers: at most 64 passes over the sorted values for each of the two
middle ranks. 1,000 values take about 5 ms.
""".
-spec hodges_lehmann([number()]) -> float() | undefined.
hodges_lehmann([]) ->
    undefined;
hodges_lehmann(Values) ->
    Sorted = sorted_floats(Values),
    Count = tuple_size(Sorted),
    Pairs = Count * (Count + 1) div 2,
    AtMost = fun(Limit) -> means_at_most(Sorted, Limit, 1, Count, 0) end,
    middle_of(Pairs, AtMost, element(1, Sorted), element(Count, Sorted)).

-doc """
The median of the absolute deviations from the median (Hampel, 1974). Not scaled: of normal values
it is the standard deviation divided by 1.4826.
""".
-spec mad([number()]) -> float() | undefined.
mad([]) ->
    undefined;
mad(Values) ->
    Median = median(Values),
    median([abs(Value - Median) || Value <- Values]).

-doc """
Shamos's estimate of the spread: the median of the absolute differences of all pairs of different
members (Shamos, "Geometry and statistics: problems at the interface", 1976). Not scaled: of
normal values it is the standard deviation divided by 1.0484. A single value has the spread 0.

Selected as in `hodges_lehmann/1`, at the same cost.
""".
-spec shamos([number()]) -> float() | undefined.
shamos([]) ->
    undefined;
shamos([_]) ->
    0.0;
shamos(Values) ->
    Sorted = sorted_floats(Values),
    Count = tuple_size(Sorted),
    Pairs = Count * (Count - 1) div 2,
    AtMost = fun(Limit) -> differences_at_most(Sorted, Limit, 1, 2, 0) end,
    middle_of(Pairs, AtMost, 0.0, element(Count, Sorted) - element(1, Sorted)).

-spec sorted_floats([number()]) -> tuple().
sorted_floats(Values) ->
    %% + 0.0 makes a positive zero of the negative one, so that equal numbers have equal bits.
    list_to_tuple(lists:sort([float(Value) + 0.0 || Value <- Values])).

%% How many pairs I =< J have a mean of at most Limit. As I grows, the last J that fits only falls.
-spec means_at_most(tuple(), float(), pos_integer(), integer(), integer()) -> integer().
means_at_most(Sorted, Limit, I, J, Count) when I =< J ->
    case 0.5 * element(I, Sorted) + 0.5 * element(J, Sorted) =< Limit of
        true -> means_at_most(Sorted, Limit, I + 1, J, Count + J - I + 1);
        false -> means_at_most(Sorted, Limit, I, J - 1, Count)
    end;
means_at_most(_, _, _, _, Count) ->
    Count.

%% How many pairs I < J differ by at most Limit. As J grows, the first I that fits only grows.
-spec differences_at_most(tuple(), float(), integer(), integer(), integer()) -> integer().
differences_at_most(Sorted, Limit, I, J, Count) when J =< tuple_size(Sorted) ->
    case element(J, Sorted) - element(I, Sorted) =< Limit of
        true -> differences_at_most(Sorted, Limit, I, J + 1, Count + J - I);
        false -> differences_at_most(Sorted, Limit, I + 1, J, Count)
    end;
differences_at_most(_, _, _, _, Count) ->
    Count.

-spec middle_of(pos_integer(), at_most(), float(), float()) -> float().
middle_of(Count, AtMost, Least, Greatest) when Count rem 2 =:= 1 ->
    select(Count div 2 + 1, AtMost, Least, Greatest);
middle_of(Count, AtMost, Least, Greatest) ->
    Low = select(Count div 2, AtMost, Least, Greatest),
    %% The next rank is often the same number, as values repeat.
    High =
        case AtMost(Low) > Count div 2 of
            true -> Low;
            false -> select(Count div 2 + 1, AtMost, Low, Greatest)
        end,
    0.5 * Low + 0.5 * High.

%% The least number L for which at least Rank pairs are at most L: one of the pairs' own, exactly,
%% since the bisection ends between two neighbouring floating-point numbers.
-spec select(pos_integer(), at_most(), float(), float()) -> float().
select(Rank, AtMost, Least, Greatest) ->
    bisect(Rank, AtMost, to_ordered(Least), to_ordered(Greatest)).

-spec bisect(pos_integer(), at_most(), integer(), integer()) -> float().
bisect(_, _, Found, Found) ->
    from_ordered(Found);
bisect(Rank, AtMost, Low, High) ->
    Middle = (Low + High) bsr 1,
    case AtMost(from_ordered(Middle)) >= Rank of
        true -> bisect(Rank, AtMost, Low, Middle);
        false -> bisect(Rank, AtMost, Middle + 1, High)
    end.

%% The bits of a non-negative floating-point number, read as an integer, are in the order of the
%% numbers; those of a negative one in the reverse order.
-spec to_ordered(float()) -> integer().
to_ordered(Float) ->
    case <<Float/float>> of
        <<0:1, Bits:63>> -> Bits;
        <<1:1, Bits:63>> -> -Bits
    end.

-spec from_ordered(integer()) -> float().
from_ordered(Bits) when Bits >= 0 ->
    <<Float/float>> = <<Bits:64>>,
    Float;
from_ordered(Bits) ->
    <<Float/float>> = <<1:1, (-Bits):63>>,
    Float.
