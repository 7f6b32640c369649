%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_observation_SUITE).
-moduledoc "What happens in an observation, with simulated nodes and times, in any order.".

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

-define(SECOND, 1_000_000_000).

suite() -> [{timetrap, {minutes, 1}}].

all() ->
    [
        it_ends_with_its_time,
        a_lost_node_was_observed_until_it_was_seen_last,
        the_others_go_on,
        what_gives_up_is_no_lost_node,
        an_instrument_that_ends_leaves_the_node_there,
        an_interrupt_keeps_its_status,
        enough_needs_no_time,
        a_consumer_may_know_better,
        it_ends_once_and_forgets_no_node
    ].

it_ends_with_its_time(_Config) ->
    {Effects, Ended} = run([a, b], 10, [{seen, a, ?SECOND}, time]),
    ?assertEqual([finish], Effects),
    ?assertMatch(#{ending := #{status := complete}, lost := Lost} when Lost =:= #{}, Ended).

a_lost_node_was_observed_until_it_was_seen_last(_Config) ->
    {Effects, #{ending := Ending, lost := Lost}} =
        run([a], 10, [{seen, a, ?SECOND}, {seen, a, 4 * ?SECOND}, {lost, a}]),
    ?assertMatch([{leave, a, {lost, 4_000_000_000}, _}, finish], Effects),
    ?assertEqual(#{a => {lost, 4 * ?SECOND}}, Lost),
    ?assertMatch(
        #{status := failed, error := #{text := ~"node a was lost: 4 s of 10 s were observed"}},
        Ending
    ).

the_others_go_on(_Config) ->
    {Effects, #{ending := Ending}} = run([a, b], 10, [{seen, a, ?SECOND}, {lost, a}]),
    ?assertMatch([{leave, a, {lost, _}, _}], Effects),
    ?assertMatch(#{status := failed}, Ending),
    {_, #{ending := Partial}} = run([a, b], 10, [{seen, a, ?SECOND}, {lost, a}, time]),
    ?assertMatch(#{status := partial}, Partial).

what_gives_up_is_no_lost_node(_Config) ->
    {Effects, #{ending := Ending, warnings := Warnings}} =
        run([a, b], 10, [{gave_up, a, "too many faults"}, time]),
    ?assertMatch([{leave, a, {unobserved, _}, _}, finish], Effects),
    ?assertMatch(#{status := partial}, Ending),
    ?assertEqual([{~"gave_up", ~"what measured node a gave up: too many faults"}], Warnings).

an_instrument_that_ends_leaves_the_node_there(_Config) ->
    {Effects, #{ending := Ending, warnings := [{~"without", _}]}} =
        run([a], 10, [{without, a, [m], "it crashed"}, time]),
    ?assertEqual([finish], Effects),
    ?assertMatch(#{status := failed}, Ending).

an_interrupt_keeps_its_status(_Config) ->
    lists:foreach(
        fun(Later) ->
            {_, #{ending := Ending}} = run([a], 10, [interrupted | Later]),
            ?assertEqual(#{status => interrupted}, Ending)
        end,
        [[], [time], [stop], [{lost, a}], [failed]]
    ),
    {_, #{warnings := Warnings}} =
        run([a, b], 10, [{seen, a, 2 * ?SECOND}, {lost, a}, interrupted]),
    ?assertEqual([{~"node_lost", ~"node a was lost after 2 s"}], Warnings).

enough_needs_no_time(_Config) ->
    {[finish], #{ending := Ending}} = run([a], 100, [stop]),
    ?assertEqual(#{status => complete}, Ending),
    {[finish], #{ending := TooLate}} = run([a], 100, [time, stop]),
    ?assertMatch(#{status := partial}, TooLate).

%% As of a node that comes back: what was lost is how long it was away.
a_consumer_may_know_better(_Config) ->
    {_, #{ending := Ending, lost := Lost}} =
        run([a, b], 10, [time, {present, a, 10 * ?SECOND}, {lost, b, 2 * ?SECOND}]),
    ?assertMatch(#{status := partial}, Ending),
    ?assertEqual(#{b => {lost, 2 * ?SECOND}}, Lost).

it_ends_once_and_forgets_no_node(_Config) ->
    Node = proper_types:oneof([a, b, c]),
    Event = proper_types:oneof([
        {seen, Node, proper_types:non_neg_integer()},
        {lost, Node},
        {gave_up, Node, "why"},
        {without, Node, [m], "why"},
        {warning, ~"code", "text"},
        time,
        stop,
        interrupted,
        failed
    ]),
    dyno_property:holds(
        ?FORALL(Events, proper_types:list(Event), begin
            {Effects, #{ending := #{status := Status} = Ending, lost := Lost}} =
                run([a, b, c], 10, Events),
            Unwell = lists:usort([
                element(2, E)
             || E <- Events,
                is_tuple(E),
                lists:member(element(1, E), [lost, gave_up, without])
            ]),
            First = [E || E <- Events, lists:member(E, [time, stop, interrupted, failed])],
            length([finish || finish <- Effects]) =< 1 andalso
                lists:sort(maps:keys(Lost)) =:= Unwell andalso
                is_map_key(error, Ending) =:= lists:member(Status, [partial, failed]) andalso
                (length(Unwell) =:= 3 orelse hd(First ++ [none]) =/= interrupted orelse
                    Status =:= interrupted)
        end),
        {200, 2000}
    ).

%% Drives it as dyno_observer does: a node that is to be left is left, if it is there. Ten seconds
%% are over in the end.
run(Nodes, Seconds, Events) ->
    New = dyno_observation:new(Nodes, Seconds * 1000),
    {Effects, _, Last} = lists:foldl(fun event/2, {[], Nodes, New}, Events),
    {lists:reverse(Effects), dyno_observation:ended(10 * ?SECOND, Last)}.

event(Event, {Effects, Here, State}) ->
    {Next, New} = dyno_observation:event(Event, State),
    lists:foldl(fun effect/2, {Effects, Here, Next}, New).

effect({leave, Node, _, _} = Leave, {Effects, Here, State}) ->
    case lists:member(Node, Here) of
        true ->
            Others = lists:delete(Node, Here),
            event({left, Others}, {[Leave | Effects], Others, State});
        false ->
            {Effects, Here, State}
    end;
effect(finish, {Effects, Here, State}) ->
    {[finish | Effects], Here, State}.
