%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_table_SUITE).
-moduledoc false.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").

suite() -> [{timetrap, {seconds, 20}}].

all() -> [{group, all}].

groups() ->
    [
        {all, [parallel], [
            a_row_for_each_item,
            cells_and_properties_are_short,
            kinds_are_types_and_units,
            roles_follow_from_types,
            sorts,
            keeps_the_first_rows,
            leaves_out_optional_columns,
            tells_its_columns,
            is_a_table_of_a_recording
        ]}
    ].

queues() ->
    [{~"a", 3}, {~"b", undefined}, {~"c", 7}, {~"d", 3}].

spec() ->
    #{
        name => ~"queues",
        title => ~"Message queues",
        columns => [
            {~"process", ~"Process", string, fun({Name, _}) -> Name end},
            {~"longest", ~"Longest", count, #{better => lower, help => ~"Seen."}, fun({_, N}) ->
                N
            end}
        ]
    }.

optional() ->
    #{columns := [Process, {Name, Title, Kind, Properties, Cell}]} = Spec = spec(),
    Spec#{columns := [Process, {Name, Title, Kind, Properties#{optional => true}, Cell}]}.

%% Where no item has a value; that it is optional is nothing for a reader.
leaves_out_optional_columns(_) ->
    #{columns := [_, Longest], rows := Rows} = dyno_recording_table:make(optional(), queues()),
    ?assertNot(is_map_key(optional, Longest)),
    ?assertEqual([~"b", undefined], lists:nth(2, Rows)),
    ?assertMatch(
        #{columns := [#{name := ~"process", role := key}], rows := [[~"b"]]},
        dyno_recording_table:make(optional(), [{~"b", undefined}])
    ).

tells_its_columns(_) ->
    ?assertMatch(
        [
            #{name := ~"process", type := string, role := key},
            #{name := ~"longest", type := integer, unit := ~"count", role := value}
        ],
        dyno_recording_table:columns(optional())
    ).

a_row_for_each_item(_) ->
    ?assertMatch(
        #{
            name := ~"queues",
            title := ~"Message queues",
            node := undefined,
            labels := #{},
            derived := false,
            sort := undefined,
            columns := [
                #{name := ~"process", title := ~"Process", type := string, unit := undefined},
                #{name := ~"longest", better := lower, help := ~"Seen."}
            ],
            rows := [[~"a", 3], [~"b", undefined], [~"c", 7], [~"d", 3]],
            truncated := 0
        },
        dyno_recording_table:make(spec(), queues())
    ),
    ?assertMatch(#{rows := [], columns := [_, _]}, dyno_recording_table:make(spec(), [])),
    %% Larger than a recording may hold.
    ?assertMatch(
        #{rows := [[~"a", undefined], [~"b", 3]]},
        dyno_recording_table:make(spec(), [{~"a", 1.00000000001e100}, {~"b", 2.5}])
    ).

%% Cells by key, position and path; atoms as text; properties by their values.
cells_and_properties_are_short(_) ->
    Columns = [
        {~"name", ~"Name", string, key, name},
        {~"size", ~"Size", count, [lower, ~"In all."], [of_it, 2]},
        {~"size_low", ~"Size, from", count, [optional, {low, ~"size"}], low}
    ],
    Spec = #{name => ~"t", title => ~"T", columns => Columns},
    Items = [#{name => one, of_it => {x, 3}}, #{name => undefined, of_it => {x, unknown}}],
    ?assertMatch(
        #{
            columns := [
                #{name := ~"name", role := key},
                #{name := ~"size", role := value, better := lower, help := ~"In all."}
            ],
            rows := [[~"one", 3], [undefined, undefined]]
        },
        dyno_recording_table:make(Spec, Items)
    ),
    ?assertMatch(
        #{columns := [_, _, #{role := low, 'of' := ~"size"}], rows := [[~"one", 3, 1]]},
        dyno_recording_table:make(Spec, [(hd(Items))#{low => 1}])
    ),
    ?assertError({badkey, name}, dyno_recording_table:make(Spec, [#{of_it => {x, 1}}])).

kinds_are_types_and_units(_) ->
    Expected = [
        {string, string, undefined},
        {integer, integer, undefined},
        {number, number, undefined},
        {count, integer, ~"count"},
        {bytes, integer, ~"B"},
        {ns, integer, ~"ns"},
        {ratio, number, ~"ratio"},
        {{number, ~"ns/call"}, number, ~"ns/call"},
        {{integer, ~"words"}, integer, ~"words"}
    ],
    Columns = [{~"c", ~"C", Kind, fun(Item) -> Item end} || {Kind, _, _} <- Expected],
    #{columns := Made} = made(Columns),
    ?assertEqual(
        [{Type, Unit} || {_, Type, Unit} <- Expected],
        [{Type, Unit} || #{type := Type, unit := Unit} <- Made]
    ).

roles_follow_from_types(_) ->
    Cell = fun(Item) -> Item end,
    String = {~"s", ~"S", string, Cell},
    Number = {~"n", ~"N", number, Cell},
    Key = {~"k", ~"K", integer, #{role => key}, Cell},
    Low = {~"l", ~"L", number, #{role => low, 'of' => ~"n"}, Cell},
    ?assertEqual([key, value, note, low], roles([String, Number, String, Low])),
    ?assertEqual([value, note], roles([Number, String])),
    ?assertEqual([note, value, key], roles([String, Number, Key])),
    ?assertEqual([key, note, value], roles([Key, String, Number])),
    ?assertEqual([note], roles([{~"s", ~"S", string, #{role => note}, Cell}])),
    ?assertEqual([], roles([])).

roles(Columns) ->
    #{columns := Made} = made(Columns),
    [Role || #{role := Role} <- Made].

made(Columns) ->
    dyno_recording_table:make(#{name => ~"t", title => ~"T", columns => Columns}, []).

sorts(_) ->
    Ascending = dyno_recording_table:make((spec())#{sort => {~"longest", ascending}}, queues()),
    ?assertMatch(#{sort := #{column := ~"longest", order := ascending}}, Ascending),
    ?assertEqual([~"a", ~"d", ~"c", ~"b"], processes(Ascending)),
    Descending = dyno_recording_table:make((spec())#{sort => {~"longest", descending}}, queues()),
    ?assertEqual([~"c", ~"a", ~"d", ~"b"], processes(Descending)),
    ?assertError(_, dyno_recording_table:make((spec())#{sort => {~"none", ascending}}, queues())).

keeps_the_first_rows(_) ->
    Spec = (spec())#{sort => {~"longest", descending}},
    Two = dyno_recording_table:make(Spec, queues(), #{most => 2}),
    ?assertEqual([~"c", ~"a"], processes(Two)),
    ?assertMatch(#{truncated := 2}, Two),
    ?assertMatch(
        #{truncated := 0}, dyno_recording_table:make(Spec, queues(), #{most => 4})
    ),
    Many = [{integer_to_binary(N), N} || N <- lists:seq(1, 5001)],
    #{rows := Rows, truncated := 1} = dyno_recording_table:make(spec(), Many),
    ?assertEqual(5000, length(Rows)).

processes(#{rows := Rows}) ->
    [Process || [Process | _] <- Rows].

is_a_table_of_a_recording(_) ->
    Spec = (spec())#{
        sort => {~"longest", descending}, labels => #{pool => ~"large"}, derived => true
    },
    Table = dyno_recording_table:make(Spec, queues(), #{node => node()}),
    Document = dyno_recording:add_tables(dyno_recording:new(test, ~"t", #{}, #{}), [Table]),
    {ok, Recorded} = dyno_recording:table(Document, ~"queues"),
    Node = atom_to_binary(node()),
    ?assertMatch(
        #{
            ~"node" := Node,
            ~"labels" := #{~"pool" := ~"large"},
            ~"derived" := true,
            ~"sort" := #{~"column" := ~"longest", ~"order" := ~"descending"},
            ~"columns" := [
                #{~"role" := ~"key", ~"better" := null}, #{~"role" := ~"value", ~"of" := null}
            ],
            ~"rows" := [[~"c", 7], [~"a", 3], [~"d", 3], [~"b", null]]
        },
        Recorded
    ).
