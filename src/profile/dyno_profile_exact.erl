%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_exact).
-moduledoc false.
%% The parts of the kinds `time`, `count` and `memory`: each call of the functions, counted by the
%% runtime (dyno_agent_calls), by function and kind of process.
%%
%% Counting takes time: the reported time of an empty function's call is subtracted from the own
%% time. If a row's share of counting is large, the rest is a small difference of large numbers, and
%% samples are more reliable.

-export([parts/2, spec/0]).

%% A row with a larger share of counting is unreliable.
-define(MUCH, 0.2).
%% The total share of unreliable rows worth a warning.
-define(WORTH, 0.05).

-spec parts(dyno_target_results:parts(), time | count | memory) -> dyno_target_results:parts().
parts(#{tables := Tables, warnings := Warnings} = Parts, Kind) ->
    {Functions, Others} = lists:partition(fun(#{name := N}) -> N =:= ~"functions" end, Tables),
    Made = [{Table, items(Table)} || Table <- Functions],
    Parts#{
        tables := [profile(Table, Items, Kind) || {Table, Items} <- Made] ++ Others,
        warnings := Warnings ++ lists:append([biased(Items) || {_, Items} <- Made])
    }.

items(#{columns := Columns, rows := Rows}) ->
    Names = [Name || #{name := Name} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

profile(#{columns := Columns, rows := Rows} = Table, Items, Kind) ->
    {Key, Title} = maps:get(Kind, #{
        time => {~"own_time", ~"Own time: functions"},
        count => {~"calls", ~"Calls: functions"},
        memory => {~"words", ~"Allocated words: functions"}
    }),
    All = lists:sum([map_get(Key, Item) || Item <- Items]),
    Added = [[Cell({Item, Key, All}) || {_, _, _, _, Cell} <- added()] || Item <- Items],
    Sorted = lists:sort(fun({[A | _], _}, {[B | _], _}) -> A >= B end, lists:zip(Added, Rows)),
    [Function | Others] = Columns,
    Table#{
        name := ~"profile",
        title := Title,
        sort := #{column => ~"own", order => descending},
        columns := [Function | dyno_recording_table:columns(#{columns => added()})] ++ Others,
        rows := [[Name | More ++ Row] || {More, [Name | Row]} <- Sorted]
    }.

added() ->
    Counting = ~"Taken out. If it is more than a fifth, trust samples more.",
    Own = fun({Item, Key, All}) -> map_get(Key, Item) / max(1, All) end,
    Bound = fun(Key) -> fun({Item, _, _}) -> maps:get(Key, Item, undefined) end end,
    [
        {~"own", ~"Own", ratio, [lower, ~"The share of the function itself."], Own},
        {~"own_low", ~"Own, from", ratio, {low, ~"own"}, Bound(~"share_low")},
        {~"own_high", ~"Own, to", ratio, {high, ~"own"}, Bound(~"share_high")},
        {~"bias", ~"Of its time counting took", ratio, [note, Counting], fun({Item, _, _}) ->
            bias(Item)
        end}
    ].

bias(#{~"raw_time" := Raw, ~"own_time" := Own}) when Raw > 0 -> max(0, Raw - Own) / Raw;
bias(_Item) -> undefined.

-spec spec() -> #{name := binary(), columns := [tuple()], _ => _}.
spec() ->
    [Functions] = [T || #{name := ~"functions"} = T <- dyno_agent_call_parts:tables()],
    #{columns := Columns} = Functions,
    Functions#{name := ~"profile", columns := Columns ++ added()}.

biased(Items) ->
    All = lists:sum([maps:get(~"own_time", Item, 0) || Item <- Items]),
    Much = [Item || Item <- Items, is_number(bias(Item)), bias(Item) > ?MUCH],
    OfMuch = lists:sum([maps:get(~"own_time", Item, 0) || Item <- Much]),
    [
        {
            ~"bias",
            dyno_recording_part:text(
                "counting took more than ~ts of the time of ~b functions, which have ~ts of the "
                "own time: the rest of theirs is uncertain; compare with --kind sample",
                [
                    dyno_unit:format(?MUCH, ~"ratio"),
                    length(Much),
                    dyno_unit:format(OfMuch / All, ~"ratio")
                ]
            )
        }
     || All > 0, OfMuch > ?WORTH * All
    ].
