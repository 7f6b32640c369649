%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_room).
-moduledoc false.
%% Checks whether a node has room for dyno. A node without atoms, processes or ports ends or refuses
%% its own work, so dyno avoids nodes near these limits.
%%
%% The first attach makes some 1,600 atoms; an agent has up to 40 processes, and a port.

-export([check/1, format_error/1, fault/1]).
-export_type([reason/0]).

-type resource() :: atoms | processes | ports.

-type reason() :: {short, node(), resource(), Left :: integer(), Needed :: pos_integer()}.

-doc "The node's number of processes. Reads six numbers in the node, in one call.".
-spec check(node()) -> dyno_error:result(Processes :: pos_integer()).
check(Node) ->
    Items = lists:append([[Count, Limit] || {_, Count, Limit, _} <- resources()]),
    try dyno_remote:call(Node, lists, map, [fun erlang:system_info/1, Items]) of
        [_, _, Processes | _] = Values ->
            case short(resources(), Values) of
                none ->
                    {ok, Processes};
                {Resource, Left, Needed} ->
                    {error, {?MODULE, {short, Node, Resource, Left, Needed}}}
            end
    catch
        error:{erpc, noconnection} -> {error, {dyno_agent, {node_down, Node}}};
        error:{erpc, timeout} -> {error, {dyno_agent, {failed, Node, timeout}}};
        Class:Reason -> {error, {dyno_agent, {failed, Node, {Class, Reason}}}}
    end.

resources() ->
    [
        {atoms, atom_count, atom_limit, 10_000},
        {processes, process_count, process_limit, 50},
        {ports, port_count, port_limit, 5}
    ].

short([], []) ->
    none;
short([{Resource, _, _, Needed} | Resources], [Count, Limit | Values]) ->
    case Limit - Count of
        Left when Left < Needed -> {Resource, Left, Needed};
        _ -> short(Resources, Values)
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({short, Node, Resource, Left, Needed}) ->
    io_lib:format(
        "~ts has room for ~b more ~ts; dyno does not attach to a node that has fewer than ~b left. "
        "Raise its limit (erl ~ts) and start it again",
        [Node, Left, Resource, Needed, flag(Resource)]
    ).

flag(atoms) -> "+t";
flag(processes) -> "+P";
flag(ports) -> "+Q".

-spec fault(reason()) -> dyno_error:fault().
fault({short, _, _, _, _}) -> dyno.
