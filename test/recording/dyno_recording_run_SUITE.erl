%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_run_SUITE).
-moduledoc false.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

suite() -> [{timetrap, {seconds, 20}}].

all() -> [{group, all}].

groups() ->
    [
        {all, [parallel], [
            ids_are_made_of_labels,
            roles_are_names_that_stay,
            no_two_nodes_share_a_role,
            parts_name_nodes_by_role,
            refuses_a_role_twice
        ]}
    ].

ids_are_made_of_labels(_) ->
    Expected = [
        {#{}, 1, ~"1"},
        {#{~"size" => 100}, 1, ~"100"},
        {#{~"size" => 100}, 2, ~"100#2"},
        {#{~"input" => ~"large", ~"case" => ~"sort"}, 1, ~"sort/large"},
        {#{~"zone" => ~"eu", ~"size" => 2.5, ~"case" => ~"a b"}, 1, ~"a b/2.5/eu"}
    ],
    [
        ?assertEqual(Id, dyno_recording_run:id(Labels, Repetition))
     || {Labels, Repetition, Id} <- Expected
    ],
    New = dyno_recording:new(test, ~"echo", #{}, #{}),
    Run = #{labels => #{input => large}, repetition => 3, status => complete},
    {ok, _} = dyno_recording:run(dyno_recording:add_run(New, Run), ~"large#3").

roles_are_names_that_stay(_) ->
    Expected = [
        {[], []},
        {[~"shop@host"], [~"shop"]},
        {[~"shop-3-4711@host", ~"db@host"], [~"shop", ~"db"]},
        {[~"shop@a", ~"shop@b"], [~"shop@a", ~"shop@b"]},
        {[~"shop-3-4711@a", ~"shop-4-4711@a"], [~"shop#1", ~"shop#2"]},
        {[~"w-1-2@a", ~"w-3-2@a", ~"w@b"], [~"w@a#1", ~"w@a#2", ~"w@b"]},
        {[~"nonode@nohost", ~"a-1@h"], [~"nonode", ~"a-1"]}
    ],
    [
        ?assertEqual(maps:from_list(lists:zip(Names, Roles)), dyno_recording_run:roles(Names))
     || {Names, Roles} <- Expected
    ].

no_two_nodes_share_a_role(_) ->
    Part = proper_types:oneof([~"a", ~"b", ~"a-1-2", ~"a-3-2", ~"b-1-1"]),
    Name = ?LET({Short, Host}, {Part, proper_types:oneof([~"@h", ~"@i", ~""])}, <<
        Short/binary, Host/binary
    >>),
    Property = ?FORALL(Names, proper_types:list(Name), begin
        Roles = dyno_recording_run:roles(Names),
        lists:sort(maps:keys(Roles)) =:= lists:usort(Names) andalso
            length(lists:usort(maps:values(Roles))) =:= map_size(Roles)
    end),
    dyno_property:holds(Property, 300).

parts_name_nodes_by_role(_) ->
    Node = ~"shop-3-4711@host",
    Series = #{name => s, unit => ~"B", times_ms => [], values => []},
    Run = #{
        labels => #{size => 1},
        status => complete,
        nodes => [#{name => Node}],
        series => [Series#{node => Node}, Series#{node => ~"other@host"}, Series],
        tables => [#{name => t, node => Node, columns => [], rows => []}],
        events => #{items => [#{time_ms => 1, node => Node, kind => k, text => t}]},
        profiles => [#{name => p, node => Node, values => [], frames => [], samples => []}]
    },
    New = dyno_recording:add_run(dyno_recording:new(test, ~"echo", #{}, #{}), Run),
    ?assertMatch(
        [
            #{
                ~"nodes" := [#{~"name" := Node, ~"role" := ~"shop"}],
                ~"series" := [
                    #{~"node" := ~"shop"}, #{~"node" := ~"other@host"}, #{~"node" := null}
                ],
                ~"tables" := [#{~"node" := ~"shop"}],
                ~"events" := #{~"dropped" := 0, ~"items" := [#{~"node" := ~"shop"}]},
                ~"profiles" := [#{~"node" := ~"shop"}]
            }
        ],
        dyno_recording:runs(New)
    ),
    Verdict = #{kind => monitor, name => v, result => pass, text => t, node => Node},
    ?assertMatch(
        #{~"verdicts" := [#{~"node" := ~"shop"}]}, dyno_recording:add_verdicts(New, [Verdict])
    ).

refuses_a_role_twice(_) ->
    Nodes = [#{name => ~"a@h", role => ~"a"}, #{name => ~"b@h", role => ~"a"}],
    ?assertError(
        {invalid_recording, {shape, [~"nodes", 1, ~"role"], _, ~"a"}},
        dyno_recording:add_run(
            dyno_recording:new(test, ~"echo", #{}, #{}), #{status => complete, nodes => Nodes}
        )
    ).
