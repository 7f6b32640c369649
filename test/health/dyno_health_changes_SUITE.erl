%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_changes_SUITE).
-moduledoc "What `dyno doctor --watch` tells of findings that come, stay, flap and go.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [critical_at_once, warnings_at_the_second_time, flapping_is_told_once, nodes_are_apart].

critical_at_once(_Config) ->
    Queue = finding(queue, critical),
    ?assertEqual(
        [[{found, a, Queue}], [], [], [{gone, a, Queue, 30_000}], []],
        told([[Queue], [Queue], [], [], []])
    ).

warnings_at_the_second_time(_Config) ->
    Heap = finding(heap_grows, warning),
    Note = finding(steal, note),
    ?assertEqual([[], [{found, a, Heap}], []], told([[Heap, Note], [Heap, Note], [Heap]])),
    %% Once is chance: neither found nor gone.
    ?assertEqual([[], [], [], []], told([[Heap], [], [], []])).

flapping_is_told_once(_Config) ->
    Queue = finding(queue, critical),
    Heap = finding(heap_grows, warning),
    ?assertEqual(
        [[{found, a, Queue}], [], [], [], []], told([[Queue], [], [Queue], [], [Queue]])
    ),
    ?assertEqual([[], [], [], [], []], told([[Heap], [], [Heap], [], [Heap]])).

nodes_are_apart(_Config) ->
    Queue = finding(queue, critical),
    {_, Known} = dyno_health_changes:changes(
        0, #{a => [Queue], b => [Queue]}, dyno_health_changes:new()
    ),
    %% Without a window of b nothing is known of it.
    {[], Once} = dyno_health_changes:changes(1, #{a => []}, Known),
    ?assertMatch({[{gone, a, _, 2}], _}, dyno_health_changes:changes(2, #{a => []}, Once)),
    ?assertMatch({[], _}, dyno_health_changes:changes(3, #{b => [Queue]}, Once)).

told(Windows) ->
    {Told, _} = lists:mapfoldl(
        fun({N, Findings}, Known) ->
            dyno_health_changes:changes(10_000 * N, #{a => Findings}, Known)
        end,
        dyno_health_changes:new(),
        lists:enumerate(0, Windows)
    ),
    Told.

finding(Check, Severity) ->
    dyno_finding:new(Check, none, #{subject => ~"orders", severity => Severity, text => ~"ill"}).
