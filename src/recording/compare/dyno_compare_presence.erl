%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_presence).
-moduledoc "Finds functions, sizes and codes in only one of two recordings. Pure.".

-export([changes/2]).

%% Functions with a smaller share of the time are not reported.
-define(LEAST_SHARE, 0.01).

-doc "New and gone functions by their share of the time, the largest first, then other items.".
-spec changes(Old, New) -> [dyno_compare:change()] when
    Old :: dyno_recording:document(), New :: dyno_recording:document().
changes(Old, New) ->
    Sides = [dyno_compare_metrics:functions(Of) || Of <- [Old, New]],
    Functions = functions(Sides, gone) ++ functions(lists:reverse(Sides), new),
    Share = fun(#{old := A, new := B}) -> lists:max([N || N <- [A, B], is_number(N)]) end,
    [C || {_, C} <- lists:reverse(lists:keysort(1, [{Share(C), C} || C <- Functions]))] ++
        items(Old, New, gone) ++ items(New, Old, new).

functions([Having, Lacking], Verdict) ->
    [
        change(Metric, other_value(Is), Verdict)
     || Place := #{functions := Of} <- maps:iterator(Having, ordered),
        #{Place := #{functions := Others, whole := Is}} <- [Lacking],
        Name := #{unit := Unit} = Metric <- maps:iterator(Of, ordered),
        not is_map_key(Name, Others),
        value(Metric) >= least(Unit)
    ].

least(~"ratio") -> ?LEAST_SHARE;
least(_Calls) -> 1.

%% A cut table may have had the function.
other_value(true) -> 0;
other_value(false) -> undefined.

items(Having, Lacking, Verdict) ->
    There = #{Item => [] || #{item := Item} <- dyno_compare_metrics:metrics(Lacking, [])},
    First = lists:uniq(fun(#{item := Item}) -> Item end, dyno_compare_metrics:metrics(Having, [])),
    [
        change(Metric, undefined, Verdict)
     || #{item := Item, metric := Name} = Metric <- First,
        Name =/= ~"time per call",
        not is_map_key(Item, There)
    ].

%% Of the kind of the other rows.
value(#{of_each := round, values := Values}) -> dyno_stats:median(Values);
value(#{values := Values}) -> dyno_compare_repetitions:mean(Values).

change(Metric, Other, Verdict) ->
    Values =
        case Verdict of
            new -> {Other, value(Metric)};
            gone -> {value(Metric), Other}
        end,
    NoRatio = {undefined, undefined, undefined},
    (dyno_compare_metrics:change(Metric, Values, NoRatio, Verdict))#{kind := presence}.
