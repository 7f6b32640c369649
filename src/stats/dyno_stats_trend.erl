%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_trend).
-moduledoc """
Whether values in order of time rise, fall or stay at levels more than chance explains (M. G.
Kendall, "A new measure of rank correlation", 1938).

## Examples

```erlang
1> dyno_stats_trend:of_values([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1.3).
{up,2,9}
2> dyno_stats_trend:of_values([4, 5, 4, 5, 4, 5, 4, 5], 1.3).
{none,4.5,4.5}
```
""".

-export([of_values/2, levels/2]).

%% Chance exceeds this deviate once in a hundred times.
-define(DEVIATE, 2.58).
-define(FEWEST, 6).

-doc "The direction and both medians, if the first and last third differ by the factor.".
-spec of_values([number()], Factor :: float()) ->
    {up | down | none, Early :: number(), Late :: number()}.
of_values(Values, _Factor) when length(Values) < ?FEWEST ->
    {none, 0, 0};
of_values(Values, Factor) ->
    Count = length(Values),
    Third = Count div 3,
    Early = dyno_stats:median(lists:sublist(Values, Third)),
    Late = dyno_stats:median(lists:nthtail(Count - Third, Values)),
    Deviation = math:sqrt(Count * (Count - 1) * (2 * Count + 5) / 18),
    Deviate = kendall(Values) / Deviation,
    if
        Deviate > ?DEVIATE, Late > Factor * Early -> {up, Early, Late};
        Deviate < -?DEVIATE, Early > Factor * Late -> {down, Early, Late};
        true -> {none, Early, Late}
    end.

-doc """
A low and a high level, the outer tenths, if they differ by the factor, and whether values stay at
one of them for longer than chance explains (A. Wald and J. Wolfowitz, "On a test whether two
samples are from the same population", 1940).

```erlang
1> dyno_stats_trend:levels([1, 1, 1, 1, 1, 9, 9, 9, 9, 9, 1, 1, 1, 1, 1], 1.3).
{1,9,true}
2> dyno_stats_trend:levels([1, 1.1, 1, 1.2, 1, 1.1, 1.2, 1, 1.1], 1.3).
none
```
""".
-spec levels([number()], Factor :: float()) ->
    {Low :: number(), High :: number(), IsInTurn :: boolean()} | none.
levels(Values, _Factor) when length(Values) < ?FEWEST ->
    none;
levels(Values, Factor) ->
    Sorted = lists:sort(Values),
    Place = 1 + length(Values) div 10,
    Low = lists:nth(Place, Sorted),
    case lists:nth(length(Values) + 1 - Place, Sorted) of
        High when High > Factor * Low -> {Low, High, is_in_turn(Values, (Low + High) / 2)};
        _ -> none
    end.

is_in_turn(Values, Middle) ->
    Sides = [Value > Middle || Value <- Values],
    Above = length([x || true <- Sides]),
    Count = length(Values),
    Expected = 2 * Above * (Count - Above) / Count,
    Changes = length([x || {A, B} <- lists:zip(lists:droplast(Sides), tl(Sides)), A =/= B]),
    Variance = Expected * (Expected - 1) / (Count - 1),
    Variance > 0 andalso Expected - Changes > ?DEVIATE * math:sqrt(Variance).

kendall([]) -> 0;
kendall([First | Rest]) -> lists:sum([sign(Value - First) || Value <- Rest]) + kendall(Rest).

sign(Difference) when Difference > 0 -> 1;
sign(Difference) when Difference < 0 -> -1;
sign(_) -> 0.
