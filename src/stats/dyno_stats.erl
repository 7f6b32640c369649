%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats).
-moduledoc """
Centre and quantiles of a sample.

All functions are pure, take the values in any order and return a float, or `undefined` for an empty
list. Integers become floats, so above 2^53 they are rounded.

Use `median/1` if up to half of the values may be disturbed, `mean/1` only for sums.

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

-export([median/1, mean/1, quantile/2, variation/1]).

-doc "The middle value, or the mean of the two middle values.".
-spec median([number()]) -> float() | undefined.
median(Values) ->
    quantile(Values, 0.5).

-doc """
The quantile `Q` (0 to 1), interpolated linearly between the order statistics at `(n - 1) * Q`:
definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996).
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

-doc "The coefficient of variation of a sample: its standard deviation as a share of the mean.".
-spec variation([number(), ...]) -> float() | undefined.
variation([_]) ->
    undefined;
variation(Values) ->
    Mean = mean(Values),
    Squares = lists:sum([(Value - Mean) * (Value - Mean) || Value <- Values]),
    math:sqrt(Squares / (length(Values) - 1)) / Mean.
