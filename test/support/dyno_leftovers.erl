%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_leftovers).
-moduledoc """
What dyno has left in a node: trace sessions, processes, names, modules, links to the caller.
""".

-include_lib("stdlib/include/assert.hrl").

-export([in_node/2, snapshot/1, check/2, in/1, nothing_after/2, until/1]).

-doc "Runs a test in a node of its own with these modules, in which nothing of dyno is left then.".
in_node(Sources, Test) ->
    {_, Node} = Peer = dyno_peers:start(["+S", "2"]),
    try
        _ = [dyno_peers:load(Node, Source) || Source <- Sources],
        Before = snapshot(Node),
        Test(Node),
        check(Node, Before)
    after
        dyno_peers:stop(Peer)
    end.

-doc "The state of a node before dyno comes to it.".
snapshot(Node) ->
    #{
        node => Node,
        modules => modules(Node),
        tables => tables(Node),
        flags => flags(Node)
    }.

-doc "Fails the test where the node is not as it was; waits for what ends by itself.".
check(Node, Before) ->
    wait(Node, Before, 400).

wait(Node, Before, Tries) ->
    case {in(Node), snapshot(Node)} of
        {[], Before} ->
            ok;
        {_, _} when Tries > 0 ->
            receive
            after 50 -> wait(Node, Before, Tries - 1)
            end;
        {Left, After} ->
            ct:fail("left in ~p: ~p~nbefore ~p~nafter ~p", [Node, Left, Before, After])
    end.

-doc "Fails where this node has more atoms, modules or processes after many runs than after one.".
nothing_after(Run, Times) ->
    Run(),
    Count = fun() -> {erlang:system_info(atom_count), length(dyno_agent_patterns:loaded())} end,
    %% The first count loads the module that counts.
    _ = Count(),
    Before = Count(),
    Processes = length(processes()),
    _ = [Run() || _ <- lists:seq(1, Times)],
    ?assertEqual(Before, Count()),
    until(fun() -> length(processes()) =< Processes end).

-doc "Waits for what no event tells; the case's timetrap ends it.".
until(Reached) ->
    case Reached() of
        true ->
            ok;
        false ->
            receive
            after 5 -> until(Reached)
            end
    end.

-doc "What is dyno's in a node.".
in(Node) ->
    Sessions = [
        {session, Name}
     || {session, Name} <- sessions(Node), lists:prefix("dyno", atom_to_list(Name))
    ],
    Processes = [{process, P, L} || {P, L} <- labels(Node), is_ours(L)],
    Names = [
        {name, N}
     || N <- erpc:call(Node, erlang, registered, []),
        N =:= dyno_agent orelse N =:= dyno_agent_leaving
    ],
    Sessions ++ Processes ++ Names.

%% session_info(all) gives {Name, Id} pairs.
sessions(Node) ->
    [{session, Name} || {Name, _Id} <- erpc:call(Node, trace, session_info, [all])].

labels(Node) ->
    Pids = erpc:call(Node, erlang, processes, []),
    lists:zip(Pids, about(Node, Pids, [label, current_stacktrace, initial_call])).

%% In one call: a saturated node takes a second for each.
about(Node, Pids, Items) ->
    erpc:call(Node, lists, zipwith, [fun erlang:process_info/2, Pids, [Items || _ <- Pids]]).

is_ours(undefined) ->
    false;
is_ours([{label, Label} | _]) when is_atom(Label) ->
    lists:prefix("dyno_agent", atom_to_list(Label));
is_ours(_) ->
    false.

modules(Node) ->
    lists:sort([
        M
     || {M, _} <- erpc:call(Node, code, all_loaded, []), lists:prefix("dyno", atom_to_list(M))
    ]).

%% By name and owner, so that a failure says whose they are. A table may go while it is looked at.
%% OTP starts its resolver where it answers a node that has just died: erpc's reply, for one.
tables(Node) ->
    try erpc:call(Node, lists, map, [fun ets:info/1, erpc:call(Node, ets, all, [])]) of
        Infos ->
            There = [Info || Info <- Infos, Info =/= undefined],
            Names = [proplists:get_value(name, Info) || Info <- There],
            Pids = [proplists:get_value(owner, Info) || Info <- There],
            Owners = about(Node, Pids, [registered_name, initial_call, label]),
            lists:sort([
                {Name, Owner}
             || {Name, About} <- lists:zip(Names, Owners),
                Owner <- [owner(About)],
                Owner =/= inet_gethost_native
            ])
    catch
        %% The identifier of a table that has gone is none when it comes back to its node.
        error:{exception, badarg, _} -> tables(Node)
    end.

owner([{registered_name, Name} | _]) when is_atom(Name) -> Name;
owner(Other) -> Other.

%% scheduler_wall_time costs a little: it must be off again.
flags(Node) ->
    erpc:call(Node, erlang, statistics, [scheduler_wall_time]) =:= undefined.
