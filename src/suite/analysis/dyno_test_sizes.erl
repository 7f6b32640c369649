%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_sizes).
-moduledoc false.
%% The complete runs of a test by their size, and the values in them, for those who analyse how a
%% system changes with the size. Pure.

-export([runs/1, points/2, metric/2, series/3, names/3, cells/4, text/1]).
-export_type([sizes/0, point/0]).

-doc "Each size with its repetitions, in the order of the sizes.".
-type sizes() :: [{Size :: number(), [dyno_recording:run(), ...]}].

-type point() :: {Size :: number(), Value :: number()}.

-doc "The complete runs.".
-spec runs(dyno_recording:document()) -> sizes().
runs(Document) ->
    Complete = [
        {Size, Run}
     || #{~"status" := ~"complete", ~"size" := Size} = Run <- dyno_recording:runs(Document),
        is_number(Size)
    ],
    lists:sort(
        maps:to_list(
            maps:groups_from_list(fun({Size, _}) -> Size end, fun({_, Run}) -> Run end, Complete)
        )
    ).

-doc "The median of a value over the repetitions, where a size has it.".
-spec points(fun((dyno_recording:run()) -> [number()]), sizes()) -> [point()].
points(Value, Sizes) ->
    [
        {Size, dyno_stats:median(Values)}
     || {Size, Runs} <- Sizes, [_ | _] = Values <- [lists:flatmap(Value, Runs)]
    ].

-doc "A metric's value with its unit, where the run has it.".
-spec metric(binary(), dyno_recording:run()) -> [{number(), binary()}].
metric(Name, Run) ->
    case dyno_recording:metric(Run, Name) of
        {ok, #{~"value" := Value, ~"unit" := Unit}} when is_number(Value) -> [{Value, Unit}];
        _ -> []
    end.

-doc "The mean or the maximum of a series with its unit, of each node that has it.".
-spec series(mean | max, binary(), dyno_recording:run()) ->
    [{Node :: binary() | null, number(), Unit :: binary()}].
series(Of, Name, Run) ->
    [
        {Node, summary(Of, Numbers), Unit}
     || #{~"values" := Values, ~"unit" := Unit} = Series <- dyno_recording:series(Run, Name),
        Node <- [maps:get(~"node", Series, null)],
        [_ | _] = Numbers <- [[V || V <- Values, is_number(V)]]
    ].

summary(max, Numbers) -> lists:max(Numbers);
summary(mean, Numbers) -> lists:sum(Numbers) / length(Numbers).

-doc "What the rows of a table are called, over all runs.".
-spec names(Table :: binary(), Key :: binary(), sizes()) -> [binary()].
names(Table, Key, Sizes) ->
    lists:uniq([
        Name
     || {_, Runs} <- Sizes, Run <- Runs, #{Key := Name} <- dyno_recording:rows(Run, Table)
    ]).

-doc "The numbers in a column of a table's rows of that name.".
-spec cells(Table :: binary(), {Key :: binary(), Name :: binary()}, Column :: binary(),
    dyno_recording:run()) -> [number()].
cells(Table, {Key, Name}, Column, Run) ->
    [
        Value
     || #{Key := Of, Column := Value} <- dyno_recording:rows(Run, Table),
        Of =:= Name,
        is_number(Value)
    ].

-doc "A size or a count for a sentence.".
-spec text(number()) -> binary().
text(Number) ->
    dyno_recording_part:text("~ts", [dyno_unit:format(Number, ~"count")]).
