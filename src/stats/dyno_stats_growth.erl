%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_growth).
-moduledoc """
Estimates growth with size: the exponent b of value = c * size^b.

On logarithmic axes the law is a line with the exponent as slope. The slope is Theil and Sen's: the
median of the slopes of all pairs of points of different sizes (Theil, 1950; Sen, "Estimates of the
regression coefficient based on Kendall's tau", 1968), robust against 29 % of outliers. Two of those
slopes are its interval, by the distribution of Kendall's statistic, exact up to 30 points, also
with repeated sizes.

If no interval reaches 95 %, the result is the widest one with its level. Without repetitions 3
sizes reach 67 %, 4 sizes 92 %, 5 sizes 98 %; with two repetitions 3 sizes reach 98 %.

## Examples

```erlang
1> {ok, Fit} = dyno_stats_growth:fit([{N, 3 * N * N} || N <- [10, 20, 40, 80, 160]]).
2> dyno_stats_growth:describe(Fit).
<<"grows as n^2.0 (2.0 to 2.0)">>
```
""".

-export([fit/1, describe/1]).

-define(LEVEL, (dyno_stats_interval:level())).
%% Less than a quarter more at ten times the size is no growth.
-define(PRACTICALLY_FLAT, 0.1).
%% An interval needs slopes that could contradict each other.
-define(SIZES_FOR_INTERVAL, 3).

-type point() :: {Size :: number(), Value :: number()}.

-doc """
* `exponent`: the estimate.
* `low`, `high`: its interval, `undefined` with only two sizes.
* `level`: the probability that the interval holds the true exponent: at least 0.95, or less with
  too few points.
* `points`, `sizes`: the number of points, and of different sizes.
* `left_out`: points without a logarithm, because size or value is zero or negative.
* `smallest`, `largest`: the sizes used.
""".
-type growth() :: #{
    exponent := float(),
    low := float() | undefined,
    high := float() | undefined,
    level := float() | undefined,
    points := pos_integer(),
    sizes := pos_integer(),
    left_out := non_neg_integer(),
    smallest := number(),
    largest := number()
}.

-doc "Positive values exist for fewer than two different sizes.".
-type reason() :: {too_few_sizes, Sizes :: 0..1, LeftOut :: non_neg_integer()}.

-export_type([point/0, growth/0, reason/0]).

-doc "Estimates the exponent of growth.".
-spec fit([point()]) -> {ok, growth()} | {error, reason()}.
fit(Points) ->
    Usable = [{Size, Value} || {Size, Value} <- Points, Size > 0, Value > 0],
    LeftOut = length(Points) - length(Usable),
    Groups = groups(Usable),
    case length(Groups) of
        Sizes when Sizes < 2 ->
            {error, {too_few_sizes, Sizes, LeftOut}};
        Sizes ->
            Slopes = slopes(Usable),
            {Low, High, Level} = interval(Slopes, Groups),
            {ok, #{
                exponent => dyno_stats:median(Slopes),
                low => Low,
                high => High,
                level => Level,
                points => length(Usable),
                sizes => Sizes,
                left_out => LeftOut,
                smallest => lists:min([Size || {Size, _} <- Usable]),
                largest => lists:max([Size || {Size, _} <- Usable])
            }}
    end.

-doc """
The growth in words: `grows as n^1.9 (1.7 to 2.1)`. An interval of less than 95 % says so, and one
within 0.1 of zero (ten times the size, a quarter more) does not count as growth.
""".
-spec describe(growth()) -> binary().
describe(#{exponent := Exponent} = Growth) ->
    Power = ["n^", decimal(Exponent)],
    Range = range(Growth),
    Text =
        case kind(Growth) of
            flat -> ["does not grow (", Power, ")"];
            higher -> ["grows as ", Power, Range];
            lower -> ["falls as ", Power, Range];
            open -> ["no clear growth: ", Power, Range]
        end,
    iolist_to_binary(Text).

groups(Points) ->
    Counts = maps:groups_from_list(fun({Size, _}) -> math:log(Size) end, Points),
    [length(Group) || Group <- maps:values(Counts)].

slopes(Points) ->
    Logs = lists:sort([{math:log(Size), math:log(Value)} || {Size, Value} <- Points]),
    lists:sort(slopes(Logs, [])).

slopes([], Slopes) ->
    Slopes;
slopes([{X, Y} | Later], Slopes) ->
    slopes(Later, [(Y2 - Y) / (X2 - X) || {X2, Y2} <- Later, X2 > X] ++ Slopes).

%% The number of slopes below the true one has the distribution of Kendall's statistic. So the k-th
%% slope and the k-th from the end miss it with twice the probability of at most k - 1 below.
interval(_, Groups) when length(Groups) < ?SIZES_FOR_INTERVAL ->
    {undefined, undefined, undefined};
interval(Slopes, Groups) ->
    Below = fun(Rank) -> dyno_stats_distribution:count_cdf(Rank - 1, Groups) end,
    Holds = fun(Rank) -> 2 * Below(Rank) =< 1 - ?LEVEL end,
    Count = length(Slopes),
    Rank = max(1, dyno_stats_distribution:largest_rank(Holds, 1, Count div 2)),
    {lists:nth(Rank, Slopes), lists:nth(Count + 1 - Rank, Slopes), 1 - 2 * Below(Rank)}.

kind(#{exponent := Exponent, low := undefined}) ->
    if
        abs(Exponent) =< ?PRACTICALLY_FLAT -> flat;
        Exponent > 0 -> higher;
        true -> lower
    end;
kind(#{low := Low, high := High}) ->
    case dyno_stats_verdict:verdict({Low, High}, ?PRACTICALLY_FLAT) of
        same -> flat;
        undecided when Low > 0 -> higher;
        undecided when High < 0 -> lower;
        undecided -> open;
        Clear -> Clear
    end.

range(#{low := undefined}) ->
    [];
range(#{low := Low, high := High, level := Level}) ->
    [" (", decimal(Low), " to ", decimal(High), at_level(Level), ")"].

at_level(Level) ->
    [[", ", integer_to_list(round(100 * Level)), " % sure"] || Level < ?LEVEL].

decimal(Number) ->
    float_to_binary(round(10 * Number) / 10, [{decimals, 1}]).
