%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_repetitions).
-moduledoc """
Judges metrics with one value for each run: the repetitions of a size on both sides. Pure.

Few runs can judge throughput and median response time, which conditions on all times ask, of whole
runs or of their best parts. Each end of their ratio's interval holds at 95 % for all sizes together
(`m:dyno_stats_runs`). The verdicts hold for these four metrics together, too.

If response times change within a run, the interval reaches by the same factor further to both
sides: a ratio is known that holds at any time.

Other metrics have Welch's interval (dyno_stats_welch): two repetitions a side give an interval,
five make it narrow. Intervals that decide one condition (high percentiles of all sizes, or the
memory of all sizes and nodes) hold together at 95 % (Bonferroni). Intervals of functions hold each
alone. A side with one run has no interval and no verdict. Nor have times if other programs took
far more of the processors on one side than on the other, unless the runs are paired. If they took
about as much on both, the interval reaches further by the difference that does not count: runs of
one side are nearer in time, so they do not show how other programs change.
""".

-export([changes/3, in_words/3, ratio/2, mean/1]).

-type metric() :: dyno_compare_metrics:metric().

-define(LEVEL, (dyno_stats_interval:level())).

-doc "The change of each pair; within `Threshold` there is none. Runs may be paired in order.".
-spec changes([{Old :: metric(), New :: metric()}], Threshold :: float(), apart | paired) ->
    [dyno_compare:change()].
changes(Pairs, Threshold, How) ->
    Families = [family(Old) || {Old, _} <- Pairs],
    Groups = maps:groups_from_list(fun(Family) -> Family end, Families),
    Levels = #{Family => level(Family, length(Of)) || Family := Of <- Groups},
    [
        change(Pair, Threshold, {map_get(Family, Levels), How})
     || {Family, Pair} <- lists:zip(Families, Pairs)
    ].

%% Each end of an asked interval may make a different error. Each size has two asked metrics.
level(Of, Count) when Of =:= asked; Of =:= calm -> 1 - 2 * (1 - ?LEVEL) / max(1, Count / 2);
level(_Family, Count) -> 1 - (1 - ?LEVEL) / Count.

family(#{kind := time} = Metric) ->
    case {dyno_compare_metrics:is_asked(Metric), dyno_compare_metrics:is_calm(Metric)} of
        {true, _} -> asked;
        {_, true} -> calm;
        _ -> time
    end;
family(#{kind := other_time, item := Item, metric := ~"time per call"}) ->
    Item;
family(#{metric := Metric}) ->
    Metric.

change({#{others := Old} = Metric, #{others := New} = NewMetric}, Threshold, {_, apart} = How) ->
    Without = {maps:remove(others, Metric), NewMetric},
    IsBeyond = fun dyno_finding_machine:is_beyond/1,
    Most = max(Old, New),
    case IsBeyond(abs(New - Old)) of
        true ->
            maps:merge(change(Without, Threshold, How), #{
                low => undefined,
                high => undefined,
                verdict => undecided,
                others => {Old, New}
            });
        false when Most < 1 ->
            Left = 1 - Most,
            Spread = (Left + dyno_finding_limits:value(others_busy)) / Left,
            case IsBeyond(Most) andalso change(Without, Threshold, How, Spread) of
                false -> change(Without, Threshold, How);
                #{verdict := undecided} = Change -> Change#{others => {Old, New}};
                Change -> Change
            end;
        false ->
            change(Without, Threshold, How)
    end;
change(Pair, Threshold, How) ->
    change(Pair, Threshold, How, 1.0).

change({#{values := Olds} = Metric, NewMetric}, Threshold, {Level, How}, Spread) ->
    #{values := News} = NewMetric,
    #{kind := Kind, better := Better} = Metric,
    Factor = drift(Metric) * drift(NewMetric),
    {Old, New} = {mean(Olds), mean(News)},
    Alone = {ratio(Old, New), undefined, undefined},
    {Ratio, Verdict} =
        case interval(How, Metric, NewMetric, Level) of
            {ok, #{ratio := R} = Interval} ->
                {Low, High} = wider(Interval, Spread * Factor),
                Judged = dyno_stats_verdict:ratio(
                    wider(judging(Interval, How, {Metric, NewMetric}, Level), Spread * Factor),
                    least(Metric, Threshold)
                ),
                {{R, Low, High}, in_words(Judged, Kind, Better)};
            {error, too_few} ->
                {Alone, one_run};
            {error, not_positive} ->
                {Alone, in_words(in_order(Olds, News, Level), Kind, Better)}
        end,
    Change = dyno_compare_metrics:change(maps:remove(drifts, Metric), {Old, New}, Ratio, Verdict),
    Runs = Change#{runs => min(length(Olds), length(News))},
    case Factor > 1 of
        true -> Runs#{drifts => true};
        false -> Runs
    end.

drift(Metric) -> maps:get(drifts, Metric, 1.0).

wider(#{low := Low, high := High}, Factor) -> {Low / Factor, High * Factor}.

%% A condition holds if one of four metrics is judged, so each may err a quarter as often. A
%% condition passes only if both intervals are within the share: that needs no more.
judging(Interval, How, {Old, New}, Level) ->
    case lists:member(family(Old), [asked, calm]) of
        true ->
            {ok, Wide} = interval(How, Old, New, (3 + Level) / 4),
            Wide;
        false ->
            Interval
    end.

%% Reductions do not depend on the machine.
least(#{metric := Name}, Threshold) ->
    case dyno_compare_metrics:work() of
        Name -> dyno_stats_verdict:exact();
        _ -> Threshold
    end.

interval(How, #{errors := _} = Old, #{errors := _} = New, Level) ->
    case How of
        apart -> dyno_stats_runs:ratio(runs(Old), runs(New), Level);
        paired -> dyno_stats_runs:paired(runs(Old), runs(New), Level)
    end;
interval(paired, #{values := Olds} = Old, #{values := News} = New, Level) when
    length(Olds) =:= length(News)
->
    dyno_stats_runs:paired(runs(Old), runs(New), Level);
interval(_How, #{values := Olds}, #{values := News}, Level) ->
    dyno_stats_welch:ratio(Olds, News, Level).

runs(#{values := Values, errors := Errors}) -> lists:zip(Values, Errors);
runs(#{values := Values}) -> [{Value, none} || Value <- Values].

-doc "The geometric mean of runs; the arithmetic mean if one is 0.".
-spec mean([number(), ...]) -> number() | undefined.
mean(Values) ->
    case lists:all(fun(V) -> V > 0 end, Values) of
        true ->
            Mean = math:exp(dyno_stats:mean([math:log(V) || V <- Values])),
            %% No rounding leads out of the values: a recording holds no number beyond a limit.
            min(lists:max(Values), max(lists:min(Values), Mean));
        false ->
            dyno_stats:mean(Values)
    end.

-doc "The ratio; undefined if the old value is 0.".
-spec ratio(number(), number()) -> float() | undefined.
ratio(Old, New) when Old > 0 -> New / Old;
ratio(Old, New) when Old == New -> 1.0;
ratio(_, _) -> undefined.

%% Values that can be 0, such as error rates, have no logarithm. All values of one side are above
%% all of the other by chance in 2 of as many cases as there are ways to distribute them.
in_order(Olds, News, Level) ->
    Least = lists:min(News) - lists:max(Olds),
    Most = lists:max(News) - lists:min(Olds),
    IsRare = 2 / ways(length(Olds), length(News)) =< 1 - Level,
    if
        Least == 0, Most == 0 -> same;
        Least > 0, IsRare -> higher;
        Most < 0, IsRare -> lower;
        true -> undecided
    end.

ways(Some, Others) ->
    lists:foldl(fun(N, Ways) -> Ways * (Others + N) / N end, 1.0, lists:seq(1, Some)).

-doc "A verdict in words for a metric's kind.".
-spec in_words(dyno_stats_verdict:verdict(), Kind, Better :: lower | higher) ->
    slower | faster | more | less | same | undecided
when
    Kind :: time | other_time | exact | amount.
in_words(same, _, _) -> same;
in_words(undecided, _, _) -> undecided;
in_words(higher, Kind, lower) when Kind =:= time; Kind =:= other_time -> slower;
in_words(lower, Kind, lower) when Kind =:= time; Kind =:= other_time -> faster;
in_words(higher, time, higher) -> faster;
in_words(lower, time, higher) -> slower;
in_words(higher, _, _) -> more;
in_words(lower, _, _) -> less.
