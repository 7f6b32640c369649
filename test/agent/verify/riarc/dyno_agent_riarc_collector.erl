%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_riarc_collector).
-moduledoc false.
%% Assigns events of processes to RIARC's tracers. A trace session for each tracer would slow every
%% spawn, so a few sessions, each with a collector, serve all tracers. Pure;
%% dyno_agent_riarc_session runs it.
%%
%% Taking a process over (PREEMPT) within a session changes the map. Between sessions the change is
%% at a mark in the process's own events, at the same place in both sessions: a helper links the
%% process, and unlinks it. Nothing is lost or duplicated, and no process waits.
%%
%%   former session   e1 e2 e3 MARK | e4 e5      before the mark: the former tracer's; then detach
%%   new session         e2 e3 MARK | e4 e5      after the mark: the new tracer's
%%
%% Both sessions trace children spawned in between. The parent's spawn event, before or after the
%% mark, decides their tracer: their events wait for it.
%%
%% One session traces all new processes, because those that other nodes start (erpc) have no traced
%% parent: they are children of `outside`, the root tracer's. Other processes there with a parent of
%% another session are foreign: known after all earlier events, if the parent has a place by then or
%% has ended; otherwise its first event is on its way.

-export([new/1, new/3, handle/2]).
-export_type([t/0, tracer/0, message/0, effect/0]).

-type process() :: term().
-type tracer() :: {dyno_agent_riarc:tracer(), Where :: term()}.

-type place() ::
    {mine, tracer()}
    %% Until this helper's mark.
    | {leaving, tracer(), New :: tracer(), Helper :: term()}
    | {arriving, tracer(), Helper :: term()}
    %% Of another session, but perhaps still traced by this one.
    | foreign.

-type message() ::
    {event, process(), Event :: term(), TimeNs :: integer()}
    %% This helper linked the process.
    | {mark, process(), Helper :: term()}
    %% Taken over from a tracer of this session, by one of this or another session.
    | {preempt, process(), New :: tracer(), Former :: tracer()}
    | {leave, process(), New :: tracer(), Former :: tracer(), Helper :: term()}
    %% Taken over from another session; also traced by this session from now on.
    | {arrive, process(), New :: tracer(), Helper :: term()}
    | {ended, process()}
    %% Started by another node; before its first event.
    | {from_outside, process(), Signature :: term(), TimeNs :: integer()}
    | {settle, process(), Parent :: process(), IsAlive :: boolean()}.

-type effect() ::
    {tell, tracer(), dyno_agent_riarc:message()}
    %% Send `settle` after all that waits now.
    | {settle, process(), Parent :: process(), now | later}
    %% Stop tracing the process in this session, and report its end.
    | {off, process()}.

-opaque t() :: #{
    places := #{process() => place()},
    waiting := #{process() => [tuple()]},
    %% The tracer of processes started by other nodes; `none` in a session that does not trace all
    %% new ones.
    outside := tracer() | none
}.

-spec new(#{process() => tracer()}) -> t().
new(Tracers) ->
    new(Tracers, [], none).

-doc "The same for a session that traces all new processes, with dyno's own.".
-spec new(#{process() => tracer()}, [process()], tracer() | none) -> t().
new(Tracers, Own, Outside) ->
    Mine = #{Process => {mine, T} || Process := T <- Tracers},
    #{
        places => maps:merge(Mine, maps:from_keys(Own, foreign)),
        waiting => #{},
        outside => Outside
    }.

-spec handle(message(), t()) -> {t(), [effect()]}.
handle({event, Process, _, _} = Event, #{places := Places} = State) ->
    case Places of
        #{Process := Place} -> placed(Place, Event, State);
        #{} -> {wait(Event, State), unsettled(Event, State)}
    end;
handle({from_outside, Process, Signature, TimeNs}, #{outside := Tracer} = State) ->
    told(Tracer, none, {event, outside, {spawn, Process, Signature}, TimeNs}, State);
handle({settle, Process, _, _}, #{places := Places} = State) when is_map_key(Process, Places) ->
    {State, []};
handle({settle, Process, Parent, IsAlive}, #{places := Places, waiting := Waiting} = State) ->
    case Places of
        #{Parent := foreign} -> strange(Process, State);
        #{Parent := _} -> {State, []};
        %% The parent's events, this spawn among them, wait for its own place.
        #{} when IsAlive; is_map_key(Parent, Waiting) -> {State, [{settle, Process, Parent, later}]};
        #{} -> strange(Process, State)
    end;
handle({mark, Process, Helper} = Mark, #{places := Places} = State) ->
    case Places of
        #{Process := {leaving, Former, New, Helper}} ->
            {put_place(Process, foreign, State), [detach(Process, Former, New), {off, Process}]};
        #{Process := {arriving, New, Helper}} ->
            {put_place(Process, {mine, New}, State), []};
        #{Process := _} ->
            {State, []};
        #{} ->
            {wait(Mark, State), []}
    end;
handle({preempt, Process, New, Former}, #{places := Places} = State) ->
    case Places of
        #{Process := {mine, Former}} ->
            {put_place(Process, {mine, New}, State), [detach(Process, Former, New)]};
        %% The process has ended, and all its events were sent.
        #{} ->
            {State, [detach(Process, Former, New)]}
    end;
handle({leave, Process, New, Former, Helper}, #{places := Places} = State) ->
    case Places of
        #{Process := {mine, Former}} ->
            {put_place(Process, {leaving, Former, New, Helper}, State), []};
        #{} ->
            {State, [detach(Process, Former, New)]}
    end;
handle({arrive, Process, New, Helper}, State) ->
    %% Earlier events and children are the former tracer's.
    settled(Process, {arriving, New, Helper}, State);
handle({ended, Process}, #{places := Places, waiting := Waiting} = State) ->
    case Places of
        #{Process := foreign} ->
            {
                State#{
                    places := maps:remove(Process, Places), waiting := maps:remove(Process, Waiting)
                },
                []
            };
        #{} ->
            {State, []}
    end.

unsettled({event, _, {spawned, _, _}, _}, #{outside := none}) ->
    [];
unsettled({event, Process, {spawned, Parent, _}, _}, #{places := Places}) ->
    case Places of
        #{Parent := Place} when Place =/= foreign -> [];
        #{} -> [{settle, Process, Parent, now}]
    end;
unsettled(_Event, _State) ->
    [].

strange(Process, State) ->
    {Next, Effects} = settled(Process, foreign, State),
    {Next, [{off, Process} | Effects]}.

detach(Process, Former, {New, _}) ->
    {tell, Former, {detach, New, Process}}.

put_place(Process, Place, #{places := Places} = State) ->
    State#{places := Places#{Process => Place}}.

%% Only a process with its first event is new: the rest of an ended one is dropped.
wait(Message, #{waiting := Waiting} = State) ->
    Process = element(2, Message),
    case {Waiting, Message} of
        {#{Process := Messages}, _} -> State#{waiting := Waiting#{Process := [Message | Messages]}};
        {#{}, {event, _, {spawned, _, _}, _}} -> State#{waiting := Waiting#{Process => [Message]}};
        {#{}, _} -> State
    end.

placed({mine, Tracer}, Event, State) ->
    told(Tracer, none, Event, State);
placed({leaving, Former, New, _Helper}, Event, State) ->
    told(Former, New, Event, State);
placed(_NotMine, {event, Process, {exit, _}, _}, #{places := Places} = State) ->
    {State#{places := maps:remove(Process, Places)}, []};
%% Except a child taken over before this session knew it.
placed(_NotMine, {event, _, {spawn, Child, _}, _}, #{places := Places} = State) when
    not is_map_key(Child, Places)
->
    strange(Child, State);
placed(_NotMine, _Event, State) ->
    {State, []}.

told(Tracer, New, {event, Process, {exit, _}, _} = Event, #{places := Places} = State) ->
    Detach = [detach(Process, Tracer, New) || New =/= none],
    {State#{places := maps:remove(Process, Places)}, [{tell, Tracer, Event} | Detach]};
told(Tracer, _New, {event, _, {spawn, Child, _}, _} = Event, #{places := Places} = State) when
    not is_map_key(Child, Places)
->
    {Next, Effects} = settled(Child, {mine, Tracer}, State),
    {Next, [{tell, Tracer, Event} | Effects]};
told(Tracer, _New, Event, State) ->
    {State, [{tell, Tracer, Event}]}.

%% The tracer of a new process is known: its waiting events go there.
settled(Process, Place, #{waiting := Waiting} = State) ->
    Placed = put_place(Process, Place, State#{waiting := maps:remove(Process, Waiting)}),
    lists:foldl(
        fun(Message, {Before, Effects}) ->
            {After, More} = handle(Message, Before),
            {After, Effects ++ More}
        end,
        {Placed, []},
        lists:reverse(maps:get(Process, Waiting, []))
    ).
