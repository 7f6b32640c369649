%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_jackknife).
-moduledoc """
Say between what a figure lies that is made of sums, such as a ratio of two of them.

A mean of ratios is not the ratio of the means, and has no textbook interval where what is divided
varies as well. So the sums are kept in groups that do not depend on each other, say by time, and
the figure is computed as often as there are groups, each time without one of them: by how much it
changes says how sure it is (J. W. Tukey, 1958; Shao and Tu, "The jackknife and bootstrap", section
2.1).

## Examples

```erlang
1> Ratio = fun([A, B]) -> A / B end.
2> dyno_stats_jackknife:interval([[10, 1], [20, 2], [30, 3]], Ratio, 0.95).
{ok,{10.0,10.0,10.0}}
3> dyno_stats_jackknife:interval([[10, 1]], Ratio, 0.95).
{error,too_few}
```
""".

-export([interval/3, format_error/1]).

-export_type([reason/0]).

-doc "An interval needs two groups at least.".
-type reason() :: too_few.

-doc """
The figure, and its interval by Student's t with one degree of freedom less than there are groups.
`Figure` gets the sums of each column, and must be able to do without any one of the groups.
""".
-spec interval(Groups :: [[number()]], Figure :: fun(([number()]) -> number()), Level :: float()) ->
    {ok, {number(), Low :: number(), High :: number()}} | {error, reason()}.
interval(Groups, Figure, Level) when length(Groups) >= 2 ->
    Count = length(Groups),
    Add = fun(Group, Sums) -> columns(fun erlang:'+'/2, Group, Sums) end,
    All = lists:foldl(Add, hd(Groups), tl(Groups)),
    Whole = Figure(All),
    Without = [Figure(columns(fun erlang:'-'/2, All, Group)) || Group <- Groups],
    Mean = lists:sum(Without) / Count,
    Squares = lists:sum([(W - Mean) * (W - Mean) || W <- Without]),
    Error = math:sqrt(Squares * (Count - 1) / Count),
    Half = dyno_stats_welch:t_quantile((1 + Level) / 2, Count - 1) * Error,
    {ok, {Whole, Whole - Half, Whole + Half}};
interval(_Groups, _Figure, _Level) ->
    {error, too_few}.

-spec columns(fun((number(), number()) -> number()), [number()], [number()]) -> [number()].
columns(Fun, As, Bs) ->
    lists:zipwith(Fun, As, Bs).

-doc "One sentence for people.".
-spec format_error(reason()) -> unicode:chardata().
format_error(too_few) ->
    "there are fewer than two groups of values; measure for longer".
