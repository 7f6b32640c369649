%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_runs).
-moduledoc """
The ratio of two sides, each a few runs of many blocks of time.

The unit of replication is the run. Three runs give a poor estimate of the variance between runs,
and may agree far too well by chance; the blocks within the runs give a lower bound. The interval is
Student's over the runs, with the larger variance. Blocks do not show how two runs of the same code
differ, so they add no degrees of freedom.

Sides of equal length share one variance (Student). Sides of unequal length have Welch's degrees of
freedom, because a shared variance is not robust there. Values are compared by logarithms.

## Examples

```erlang
1> Run = fun(V) -> {V, none} end,
   {ok, #{ratio := Ratio}} =
       dyno_stats_runs:ratio(lists:map(Run, [1.0, 1.1, 0.9]), lists:map(Run, [2.0, 2.2, 1.8]), 0.9).
2> round(Ratio).
2
```
""".

-export([error_of/1, ratio/3, paired/3, needed/3]).
-export_type([run/0, error/0]).

-doc "The squared relative standard error of a run's value.".
-type error() :: float() | none.

-type run() :: {Value :: number(), error()}.

%% Each end of an interval holds at 95 %.
-define(LEVEL, 0.9).
-define(MOST_RUNS, 100).
%% Fewer blocks give no error.
-define(LEAST_BLOCKS, 4).

-doc "The error of the mean over a run's blocks, from their variance.".
-spec error_of(Blocks :: [number()]) -> error().
error_of(Blocks) when length(Blocks) < ?LEAST_BLOCKS ->
    none;
error_of(Blocks) ->
    Count = length(Blocks),
    case lists:sum(Blocks) / Count of
        Mean when Mean > 0 ->
            Squares = lists:sum([(B - Mean) * (B - Mean) || B <- Blocks]),
            Squares / (Mean * Mean * (Count - 1) * Count);
        _ ->
            none
    end.

-doc "The ratio B / A of the geometric means of the runs, and its interval.".
-spec ratio(As :: [run()], Bs :: [run()], Level :: float()) ->
    {ok, dyno_stats_welch:ratio()} | {error, dyno_stats_welch:reason()}.
ratio(As, Bs, Level) ->
    Values = fun(Runs) -> [Value || {Value, _} <- Runs] end,
    case dyno_stats_welch:ratio(Values(As), Values(Bs), Level) of
        {ok, #{ratio := Ratio}} when length(As) =:= length(Bs) ->
            {ok, around(Ratio, half(As, Bs, Level))};
        Other ->
            Other
    end.

around(Ratio, Half) ->
    #{ratio => Ratio, low => Ratio * math:exp(-Half), high => Ratio * math:exp(Half)}.

half(As, Bs, Level) ->
    Count = length(As),
    Freedom = 2 * Count - 2,
    Squared = larger((squares(As) + squares(Bs)) / Freedom, 1, As ++ Bs),
    dyno_stats_welch:t_quantile((1 + Level) / 2, Freedom) * math:sqrt(2 * Squared / Count).

-doc "The same of runs in pairs measured together: a drift of the machine cancels out.".
-spec paired(As :: [run()], Bs :: [run()], Level :: float()) ->
    {ok, dyno_stats_welch:ratio()} | {error, dyno_stats_welch:reason()}.
paired(As, Bs, Level) when length(As) =:= length(Bs) ->
    Values = [{A, B} || {{A, _}, {B, _}} <- lists:zip(As, Bs)],
    case lists:all(fun({A, B}) -> A > 0 andalso B > 0 end, Values) of
        true when length(As) >= 2 ->
            Ratios = [{B / A, none} || {A, B} <- Values],
            Count = length(Ratios),
            Ratio = math:exp(lists:sum([math:log(R) || {R, _} <- Ratios]) / Count),
            Squared = larger(squares(Ratios) / (Count - 1), 2, As ++ Bs),
            T = dyno_stats_welch:t_quantile((1 + Level) / 2, Count - 1),
            {ok, around(Ratio, T * math:sqrt(Squared / Count))};
        true ->
            {error, too_few};
        false ->
            {error, not_positive}
    end;
paired(As, Bs, Level) ->
    ratio(As, Bs, Level).

-doc """
The runs a side for an interval that reaches at most `Want` to each side, if `Count` runs gave one
that reaches `Half` (logarithms), and further ones vary as much. `none` if more than 100.

```erlang
1> dyno_stats_runs:needed(3, 0.2, 0.05).
30
```
""".
-spec needed(Count :: pos_integer(), Half :: float(), Want :: float()) ->
    pos_integer() | none.
needed(Count, Half, Want) when Count >= 2, Want > 0 ->
    Reach = fun(N) ->
        dyno_stats_welch:t_quantile((1 + ?LEVEL) / 2, 2 * N - 2) / math:sqrt(N)
    end,
    Most = Want * Reach(Count),
    case lists:dropwhile(fun(N) -> Half * Reach(N) > Most end, lists:seq(Count, ?MOST_RUNS)) of
        [Least | _] -> Least;
        [] -> none
    end;
needed(_Count, _Half, _Want) ->
    none.

squares(Runs) ->
    Logs = [math:log(Value) || {Value, _} <- Runs],
    Mean = lists:sum(Logs) / length(Logs),
    lists:sum([(Log - Mean) * (Log - Mean) || Log <- Logs]).

%% The variance between runs, or its lower bound if larger; `Times`: of so many runs together.
larger(Between, Times, Runs) ->
    Errors = [Error || {_, Error} <- Runs],
    case lists:member(none, Errors) of
        true -> Between;
        false -> max(Between, Times * lists:sum(Errors) / length(Errors))
    end.
