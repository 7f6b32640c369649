%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_sizes).
-moduledoc false.
%% The complete runs of a test by their size, and the values in them, for those who analyse how a
%% system changes with the size. Pure.

-export([runs/1, metric/2, series/3]).
-export_type([sizes/0]).

-doc "Each size with its repetitions, in the order of the sizes.".
-type sizes() :: [{Size :: number(), [dyno_recording:run(), ...]}].

-doc "The complete runs.".
-spec runs(dyno_recording:document()) -> sizes().
runs(Document) ->
    Complete = [
        {Size, Run}
     || #{~"status" := ~"complete", ~"size" := Size} = Run <- dyno_recording:runs(Document),
        is_number(Size)
    ],
    BySize = maps:groups_from_list(fun({Size, _}) -> Size end, fun({_, Run}) -> Run end, Complete),
    lists:sort(maps:to_list(BySize)).

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
summary(mean, Numbers) -> dyno_stats:mean(Numbers).
