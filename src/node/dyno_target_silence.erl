%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_silence).
-moduledoc false.
%% Gives up silent nodes after the requested time.
%%
%% A connection notices a suspended or unreachable node only after a minute. So after a measurement
%% each node gets a question that its emulator answers without a process, even if thousands wait for
%% a scheduler. Without an answer in two seconds the connection is cut: every call that waits for
%% the node fails at once, and the agent there ends when the node continues.

-export([watch/2, during/2, ends_in/2, add/2, stop/1, is_connected/1, answers/1]).
-export([ask/1, unanswered/1]).
-export_type([watch/0, asked/0]).

-opaque watch() :: pid().
-opaque asked() :: #{reference() => node()}.

-define(PATIENCE_MS, 2000).
%% The interval of questions while results are read.
-define(AGAIN_MS, 500).
-define(LATE_MS, 500).
%% An answer has come, but this node stood still and has not read it yet.
-define(UNREAD_MS, 20).

-doc "Watches these nodes from the end of this time until `stop/1`, or the caller's end.".
-spec watch([node()], AfterMs :: non_neg_integer() | infinity) -> watch().
watch(Nodes, AfterMs) ->
    Caller = self(),
    spawn(fun() ->
        proc_lib:set_label(?MODULE),
        asleep(monitor(process, Caller), ends_ms(AfterMs), Nodes)
    end).

ends_ms(infinity) -> infinity;
ends_ms(AfterMs) -> erlang:monotonic_time(millisecond) + AfterMs.

-doc "Calls a function with many questions to nodes, and gives silent ones up.".
-spec during([node()], fun(() -> Result)) -> Result.
during(Nodes, Fun) ->
    Watch = watch(Nodes, 0),
    try
        Fun()
    after
        stop(Watch)
    end.

-spec ends_in(watch(), AfterMs :: non_neg_integer()) -> ok.
ends_in(Watch, AfterMs) ->
    Watch ! {ends_in, AfterMs},
    ok.

-spec add(watch(), node()) -> ok.
add(Watch, Node) ->
    Watch ! {add, Node},
    ok.

-spec stop(watch()) -> ok.
stop(Watch) ->
    true = exit(Watch, kill),
    ok.

-doc "Whether a node is connected; without, a call would open a connection.".
-spec is_connected(node()) -> boolean().
is_connected(Node) -> Node =:= node() orelse lists:member(Node, nodes(connected)).

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

-spec ask([node()]) -> asked().
ask(Nodes) ->
    %% No process can be registered as `undefined`, so the answer is `noproc`.
    #{monitor(process, {undefined, Node}) => Node || Node <- Nodes, Node =/= node()}.

-doc "The nodes of `ask/1` that have not answered until now, or whose connection was cut.".
-spec unanswered(asked()) -> [node()].
unanswered(Asked) ->
    [
        Node
     || Ref := Node <- Asked,
        receive
            {'DOWN', Ref, process, _, Reason} -> Reason =/= noproc
        after ?UNREAD_MS -> demonitor(Ref, [flush])
        end
    ].

asked(Nodes) ->
    Asked = ask(Nodes),
    EndMs = ends_ms(?PATIENCE_MS),
    Silent = silent(Asked, EndMs),
    lists:foreach(fun(Ref) -> demonitor(Ref, [flush]) end, maps:keys(Asked)),
    case ends_ms(0) - EndMs > ?LATE_MS of
        true ->
            %% This node itself stood still, and has not read the answers.
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
