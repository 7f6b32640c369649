%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_silence).
-moduledoc """
Gives up nodes that say nothing once the time that was asked for is over.

A node that is suspended, or out of reach, answers no call, and a connection notices it only after a
minute. So as soon as a measurement is over, each node is asked something that its emulator answers
by itself, without a process: it says so also if thousands of processes wait for a scheduler. If
there is no answer within two seconds the connection is cut. Every call that waits for the node then
fails at once, and the agent there ends when the node goes on.
""".

-export([watch/2, during/2, ends_in/2, add/2, stop/1, is_connected/1, answers/1]).
-export_type([watch/0]).

-opaque watch() :: pid().

-define(PATIENCE_MS, 2000).
%% How often a node is asked while its results are read.
-define(AGAIN_MS, 500).
-define(LATE_MS, 500).

-doc """
Watches these nodes from when this time is over until `stop/1`, or until the calling process ends.
""".
-spec watch([node()], AfterMs :: non_neg_integer() | infinity) -> watch().
watch(Nodes, AfterMs) ->
    Caller = self(),
    spawn(fun() ->
        proc_lib:set_label(?MODULE),
        asleep(monitor(process, Caller), ends_ms(AfterMs), Nodes)
    end).

ends_ms(infinity) -> infinity;
ends_ms(AfterMs) -> erlang:monotonic_time(millisecond) + AfterMs.

-doc "Calls a function, which asks a node many things, and gives the node up if it is silent.".
-spec during(node(), fun(() -> Result)) -> Result.
during(Node, Fun) ->
    Watch = watch([Node], 0),
    try
        Fun()
    after
        stop(Watch)
    end.

-doc "Sets the time anew.".
-spec ends_in(watch(), AfterMs :: non_neg_integer()) -> ok.
ends_in(Watch, AfterMs) ->
    Watch ! {ends_in, AfterMs},
    ok.

-doc "Watches another node as well.".
-spec add(watch(), node()) -> ok.
add(Watch, Node) ->
    Watch ! {add, Node},
    ok.

-doc "Watches no more.".
-spec stop(watch()) -> ok.
stop(Watch) ->
    true = exit(Watch, kill),
    ok.

-doc "Whether there is a connection to a node; without one, a call would wait for a new one.".
-spec is_connected(node()) -> boolean().
is_connected(Node) -> Node =:= node() orelse lists:member(Node, nodes(connected)).

-doc "Whether a node to which there is a connection answers; if not, the connection is cut.".
-spec answers(node()) -> boolean().
answers(Node) -> asked([Node]) =:= [].

asleep(Caller, EndsMs, Nodes) ->
    receive
        {'DOWN', Caller, process, _, _} -> ok;
        {ends_in, AfterMs} -> asleep(Caller, ends_ms(AfterMs), Nodes);
        {add, Node} -> asleep(Caller, EndsMs, [Node | Nodes])
    after left_ms(EndsMs) ->
        _ = asked([Node || Node <- Nodes, is_connected(Node)]),
        asleep(Caller, ends_ms(?AGAIN_MS), Nodes)
    end.

%% Those that are silent. No process can be registered as `undefined`, so the answer is `noproc`.
asked(Nodes) ->
    Asked = #{monitor(process, {undefined, Node}) => Node || Node <- Nodes, Node =/= node()},
    EndMs = ends_ms(?PATIENCE_MS),
    Silent = silent(Asked, EndMs),
    lists:foreach(fun(Ref) -> demonitor(Ref, [flush]) end, maps:keys(Asked)),
    case ends_ms(0) - EndMs > ?LATE_MS of
        true ->
            %% This node stood still itself, and has not read the answers.
            asked(Silent);
        false ->
            lists:foreach(fun erlang:disconnect_node/1, Silent),
            Silent
    end.

silent(Asked, _EndMs) when map_size(Asked) =:= 0 ->
    [];
silent(Asked, EndMs) ->
    receive
        {'DOWN', Ref, process, _, _} when is_map_key(Ref, Asked) ->
            silent(maps:remove(Ref, Asked), EndMs)
    after left_ms(EndMs) ->
        maps:values(Asked)
    end.

left_ms(infinity) -> infinity;
left_ms(EndMs) -> max(0, EndMs - erlang:monotonic_time(millisecond)).
