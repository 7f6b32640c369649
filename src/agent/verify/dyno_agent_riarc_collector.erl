%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_riarc_collector).
-moduledoc false.
%% Which tracer of RIARC gathers the events of a process. A trace session for each tracer would make
%% every spawn on the node slower, so that a few sessions, each with a collector, serve all tracers.
%% Pure; dyno_agent_riarc_session does it.
%%
%% Taking a process over (PREEMPT) from a tracer of the same session is a change of the map: what
%% has arrived went to the former tracer, the rest goes to the new one. From another session it is
%% done at a mark in the process's own events, which both sessions show at the same place: a helper
%% links the process, and unlinks it. Nothing is lost, nothing comes twice, nobody waits.
%%
%%   former session   e1 e2 e3 MARK | e4 e5      before the mark: the former tracer's; then detach
%%   new session         e2 e3 MARK | e4 e5      after the mark: the new tracer's
%%
%% Children that are spawned in between are traced by both sessions. Whose they are is decided in
%% each session by the place of their parent's spawn event before or after the mark: so the events
%% of a new process wait until that one has come.
%%
%% One session traces each new process of the node, since those that other nodes start (erpc) have no
%% parent that is traced: they are children of `outside`, which is the root tracer's. All others
%% there whose parent is not this session's are foreign. That is known when what came before is
%% done, if the parent has a place by then or has ended; else its own first event is on its way.

-export([new/1, new/3, handle/2]).
-export_type([t/0, tracer/0, message/0, effect/0]).

-type process() :: term().
-doc "A tracer's name, and where it is reached.".
-type tracer() :: {dyno_agent_riarc:tracer(), Where :: term()}.

-type place() ::
    {mine, tracer()}
    %% Until the mark of this helper.
    | {leaving, tracer(), New :: tracer(), Helper :: term()}
    | {arriving, tracer(), Helper :: term()}
    %% Another session's, though this one may trace it still.
    | foreign.

-type message() ::
    {event, process(), Event :: term(), TimeNs :: integer()}
    %% A process was linked by this one.
    | {mark, process(), Helper :: term()}
    %% Taken over from a tracer of this session, by one of it or of another.
    | {preempt, process(), New :: tracer(), Former :: tracer()}
    | {leave, process(), New :: tracer(), Former :: tracer(), Helper :: term()}
    %% Taken over from another session; it is traced by this one, too, from now on.
    | {arrive, process(), New :: tracer(), Helper :: term()}
    | {ended, process()}
    %% Another node started it; before its first event.
    | {from_outside, process(), Signature :: term(), TimeNs :: integer()}
    | {settle, process(), Parent :: process(), IsAlive :: boolean()}.

-type effect() ::
    {tell, tracer(), dyno_agent_riarc:message()}
    %% Come with `settle` when all that waits now is done.
    | {settle, process(), Parent :: process(), now | later}
    %% Trace it no longer in this session, and say when it has ended.
    | {off, process()}.

-opaque t() :: #{
    places := #{process() => place()},
    waiting := #{process() => [tuple()]},
    %% Who gathers what other nodes start; `none` in a session that does not trace all new ones.
    outside := tracer() | none
}.

-doc "The processes that are gathered from the beginning, and for whom.".
-spec new(#{process() => tracer()}) -> t().
new(Tracers) ->
    new(Tracers, [], none).

-doc "The same of a session that traces all new processes, and which others are dyno's own.".
-spec new(#{process() => tracer()}, [process()], tracer() | none) -> t().
new(Tracers, Own, Outside) ->
    Mine = #{Process => {mine, T} || Process := T <- Tracers},
    #{
        places => maps:merge(Mine, maps:from_keys(Own, foreign)),
        waiting => #{},
        outside => Outside
    }.

-doc "Takes a message.".
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
handle({settle, Process, Parent, IsAlive}, #{places := Places} = State) ->
    case Places of
        #{Parent := foreign} -> strange(Process, State);
        #{Parent := _} -> {State, []};
        #{} when IsAlive -> {State, [{settle, Process, Parent, later}]};
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
        %% It has ended, and all its events were told.
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
    %% What this session has of it from before is the former tracer's, and so are its children.
    settled(Process, {arriving, New, Helper}, State);
handle({ended, Process}, #{places := Places, waiting := Waiting} = State) ->
    case Places of
        #{Process := foreign} ->
            {State#{
                places := maps:remove(Process, Places), waiting := maps:remove(Process, Waiting)
            }, []};
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

%% Only what begins with its first event is a new process: the rest of one that has ended is
%% dropped.
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
%% But a child that was taken over before this session came to know of it.
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

%% Whose a new process is is known: so are its events.
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
