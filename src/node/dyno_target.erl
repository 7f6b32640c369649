%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target).
-moduledoc false.
%% A held node: the agent there, and facts of the node.
%%
%% The agent leaves the node at `leave/1`, or when the holding process ends.

-export([hold/3, all/2, event/2, leave/1]).
-export_type([t/0, event/0]).

-doc "The holder adds the processes that it runs in the node.".
-type t() :: #{
    node := node(),
    agent := dyno_agent:agent(),
    %% The monitor of its guard, and the mark of its messages.
    monitor := reference(),
    ref := reference(),
    %% Called here at leaving.
    undo => fun(() -> ok),
    atom() => term()
}.

-doc """
`lost`: the connection to the node, or the node. `gave_up`: nothing in it measures any more.
`without`: the agent continues without these instruments.
""".
-type event() ::
    {lost, t(), Reason :: term()}
    | {gave_up, t(), Reason :: term()}
    | {without, t(), [module()], Reason :: term()}.

-doc "Attaches to a node, and starts processes there; leaves the node if this fails.".
-spec hold(node(), dyno_agent:options(), fun((t()) -> dyno_error:result(t()))) ->
    dyno_error:result(t()).
hold(Node, Options, Equip) ->
    maybe
        {ok, Agent} ?= dyno_agent:attach(Node, Options),
        Bare = #{
            node => Node,
            agent => Agent,
            monitor => monitor(process, dyno_agent:guard(Agent)),
            ref => dyno_agent:ref(Agent)
        },
        {error, _} = Error ?= equipped(Bare, Equip),
        _ = leave([Bare]),
        Error
    end.

equipped(#{node := Node} = Bare, Equip) ->
    try
        dyno_target_silence:during([Node], fun() -> Equip(Bare) end)
    catch
        %% The node went down meanwhile.
        Class:Reason when Class =:= exit; Reason =:= {erpc, noconnection} ->
            {error, {dyno_agent, {node_down, Node}}}
    end.

-spec all([node()], fun((node()) -> {ok, t()} | Error)) -> {ok, [t()]} | Error.
all(Nodes, Hold) ->
    dyno_error:each(Hold, fun(Target) -> _ = leave([Target]) end, Nodes).

-spec event(Message :: term(), [t()]) -> event() | none.
event({'DOWN', Monitor, process, _, Reason}, Targets) ->
    How =
        case Reason of
            noconnection -> lost;
            _ -> gave_up
        end,
    of_target([{How, T, Reason} || #{monitor := Of} = T <- Targets, Of =:= Monitor]);
event({dyno_agent, Ref, {gave_up, Reason}}, Targets) ->
    of_target([{gave_up, T, Reason} || #{ref := Of} = T <- Targets, Of =:= Ref]);
event({dyno_agent, Ref, {without, Instruments, Reason}}, Targets) ->
    of_target([{without, T, Instruments, Reason} || #{ref := Of} = T <- Targets, Of =:= Ref]);
event(_Message, _Targets) ->
    none.

of_target([Event]) -> Event;
of_target([]) -> none.

-doc "Ends all agents; also those of lost nodes.".
-spec leave([t()]) -> [dyno_target_visit:t()].
leave(Targets) ->
    lists:foreach(fun(#{monitor := Monitor}) -> demonitor(Monitor, [flush]) end, Targets),
    Visits = dyno_agent:detach_all([Agent || #{agent := Agent} <- Targets]),
    lists:foreach(fun(Undo) -> ok = Undo() end, [Undo || #{undo := Undo} <- Targets]),
    Visits.
