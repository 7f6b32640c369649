%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sizes).
-moduledoc false.
%% The complete runs of a test by size, and their values, for findings about sizes. Pure.

-export([runs/1, metric/2, series/3]).
-export([values/2, of_metric/2, of_rows/4, means/3, points/2, names/3, roles/1]).
-export_type([sizes/0]).

-doc "Each size with its repetitions, sorted by size.".
-type sizes() :: [{Size :: number(), [dyno_recording:run(), ...]}].

-spec runs(dyno_recording:document()) -> sizes().
runs(Document) ->
    Complete = [
        {Size, Run}
     || #{~"status" := ~"complete", ~"size" := Size} = Run <- dyno_recording:runs(Document),
        is_number(Size)
    ],
    BySize = maps:groups_from_list(fun({Size, _}) -> Size end, fun({_, Run}) -> Run end, Complete),
    lists:sort(maps:to_list(BySize)).

-spec metric(binary(), dyno_recording:run()) -> [{number(), binary()}].
metric(Name, Run) ->
    case dyno_recording:metric(Run, Name) of
        {ok, #{~"value" := Value, ~"unit" := Unit}} when is_number(Value) -> [{Value, Unit}];
        _ -> []
    end.

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
summary(mean, Numbers) -> dyno_stats:mean(Numbers).

-spec values(binary(), dyno_recording:run()) -> [number()].
values(Name, Run) ->
    [Value || {Value, _Unit} <- metric(Name, Run)].

-doc "The median of a value over the repetitions of each size that has one.".
-spec points(fun((dyno_recording:run()) -> [number()]), sizes()) -> [{Size :: number(), number()}].
points(Value, Sizes) ->
    [
        {Size, dyno_stats:median(Values)}
     || {Size, Runs} <- Sizes, [_ | _] = Values <- [lists:flatmap(Value, Runs)]
    ].

-spec of_metric(binary(), sizes()) -> [{Size :: number(), number()}].
of_metric(Name, Sizes) ->
    points(fun(Run) -> values(Name, Run) end, Sizes).

-spec of_rows(binary(), {Key :: binary(), Name :: binary()}, Column :: binary(), sizes()) ->
    [{Size :: number(), number()}].
of_rows(Table, {Key, Name}, Column, Sizes) ->
    Cells = fun(Run) ->
        [
            Value
         || #{Key := Of, Column := Value} <- dyno_recording:rows(Run, Table),
            Of =:= Name,
            is_number(Value)
        ]
    end,
    points(Cells, Sizes).

-spec means([binary()], Node :: binary(), sizes()) -> [{Size :: number(), number()}].
means(Names, Node, Sizes) ->
    points(
        fun(Run) ->
            Means = [
                Mean
             || Name <- Names, {Of, Mean, _} <- series(mean, Name, Run), Of =:= Node
            ],
            [lists:sum(Means) || length(Means) =:= length(Names)]
        end,
        Sizes
    ).

-spec names(binary(), Key :: binary(), sizes()) -> [binary()].
names(Table, Key, Sizes) ->
    lists:uniq([
        Name
     || {_, Runs} <- Sizes, Run <- Runs, #{Key := Name} <- dyno_recording:rows(Run, Table)
    ]).

-doc "The nodes' roles, equal in all runs.".
-spec roles(sizes()) -> [binary()].
roles(Sizes) ->
    lists:uniq([
        Role
     || {_, Runs} <- Sizes, #{~"nodes" := Nodes} <- Runs, #{~"role" := Role} <- Nodes
    ]).
