%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_riarc_explorer).
-moduledoc """
Runs small systems under RIARC in every order there is: the next step of a process, the delivery of
the oldest event of one process, the next message of a tracer. Each state is looked at once.

A system is a program for each process: `{spawn, Child}`, `{send, To}`, 'receive', `exit`.
What must hold: every process's events are analysed completely, in its order, by the tracer of the
nearest instrumented process above it; no invariant is broken; nothing that arrives at a tracer that
has ended is missed; all tracers have ended when all is over.

Guarantees of the runtime, `order`: `global` (an event is delivered after all that happened before:
the paper's A4), or `process` (only the order of one process's events). And of the hand-over,
`hand_over`: `ideal` (all that the former tracer gathers of the process has arrived there), `none`,
or
`marked`: what dyno_agent_riarc_collector does with two sessions, whose tracers alternate. There
only
the order of one process's events in one session is kept, and a mark is an event like others.
""".

-export([explore/2, random/3, systems/0, instrumentations/1]).

-doc "The systems whose orders are all tried. The first process is the root.".
systems() ->
    #{
        chain => chain([p, q, r]),
        chain_with_message => #{
            p => [{spawn, q}, {send, q}, exit], q => ['receive', {spawn, r}, exit], r => [exit]
        },
        fan_out => #{p => [{spawn, q}, {spawn, r}, exit], q => [exit], r => [exit]},
        chain_of_four => chain([p, q, r, s])
    }.

chain([Last]) -> #{Last => [exit]};
chain([First, Second | Rest]) -> (chain([Second | Rest]))#{First => [{spawn, Second}, exit]}.

-doc "Every choice of instrumented processes.".
instrumentations(System) ->
    lists:foldl(
        fun(Process, Choices) -> Choices ++ [[Process | Choice] || Choice <- Choices] end,
        [[]],
        maps:keys(System) -- [p]
    ).

-doc "All orders: the number of states, or what goes wrong, and after which steps.".
explore(System, Options) ->
    Seen = ets:new(seen, []),
    try
        Number = search([{start(System, Options), []}], Seen, System, Options, 0),
        {ok, Number}
    catch
        throw:{wrong, What, Steps} -> {wrong, What, lists:reverse(Steps)}
    after
        ets:delete(Seen)
    end.

search([], _Seen, _System, _Options, Number) ->
    Number;
search([{State, Path} | Rest], Seen, System, Options, Number) ->
    case ets:insert_new(Seen, {erlang:md5(term_to_binary(State))}) of
        false ->
            search(Rest, Seen, System, Options, Number);
        true ->
            Steps = steps(State, System, Options),
            Next = [{step(Step, State, System, Options, Path), [Step | Path]} || Step <- Steps],
            ok = finished(Steps, State, System, Path),
            search(Next ++ Rest, Seen, System, Options, Number + 1)
    end.

-doc "One order, which the numbers choose.".
random(System, Options, Numbers) ->
    try
        walk(start(System, Options), System, Options, Numbers, [])
    catch
        throw:{wrong, What, Steps} -> {wrong, What, lists:reverse(Steps)}
    end.

walk(State, System, Options, Numbers, Path) ->
    case {steps(State, System, Options), Numbers} of
        {[], _} ->
            finished([], State, System, Path);
        {Steps, []} ->
            walk_by(hd(Steps), State, System, Options, [], Path);
        {Steps, [Number | Rest]} ->
            Step = lists:nth(1 + Number rem length(Steps), Steps),
            walk_by(Step, State, System, Options, Rest, Path)
    end.

walk_by(Step, State, System, Options, Numbers, Path) ->
    walk(step(Step, State, System, Options, Path), System, Options, Numbers, [Step | Path]).

start(_System, #{module := Module, instrumented := Instrumented} = Options) ->
    #{
        %% How far each process is in its program, and its messages.
        alive => #{p => {0, 0}},
        tracer_of => #{p => root},
        %% Events on their way, the oldest first.
        %% Of a process; where processes are taken over at a mark, of a process in a session.
        way => [],
        tracers => #{root => {Module:root([p], select(Instrumented)), []}},
        analysed => #{},
        instrumented => Instrumented,
        sessions => sessions(Options)
    }.

%% Collectors, who is traced by which, what was asked of collectors, who is linked next, who is off.
sessions(#{hand_over := marked} = Options) ->
    Collector = collector(Options),
    #{
        collectors => #{1 => Collector:new(#{p => {root, 1}}), 2 => Collector:new(#{})},
        traced_by => #{p => [1]},
        asked => [],
        links => [],
        off => []
    };
sessions(_Options) ->
    none.

collector(Options) -> maps:get(collector, Options, dyno_agent_riarc_collector).

%% Each tracer's session is not that of its parent's.
home(Name, Options) ->
    Homes = maps:get(homes, Options, #{q => 2, r => 1, s => 2}),
    maps:get(Name, Homes, 1).

select(Instrumented) ->
    fun(Signature) -> lists:member(Signature, Instrumented) end.

%% What can happen next.

steps(#{alive := Alive, way := Way, tracers := Tracers} = State, System, Options) ->
    session_steps(State) ++
        [
            {process, Process}
         || Process := {Position, Messages} <- Alive,
            Instruction <- [instruction(Process, Position, System)],
            Instruction =/= 'receive' orelse Messages > 0
        ] ++
        deliveries(Way, Options) ++
        [{tracer, Name} || Name := {_, [_ | _]} <- Tracers].

session_steps(#{sessions := none}) ->
    [];
session_steps(#{sessions := #{asked := Asked, links := Links, off := Off}} = State) ->
    #{alive := Alive, way := Way} = State,
    [{asked, One} || One <- Asked] ++ [{link, One} || One <- Links] ++
        [
            {ended, {Process, Session}}
         || {Process, Session} = Key <- Off,
            not is_map_key(Process, Alive),
            not lists:keymember(Key, 1, Way)
        ].

deliveries([], _Options) ->
    [];
deliveries(_Way, #{order := global}) ->
    [{deliver, any}];
deliveries(Way, #{order := process}) ->
    [{deliver, Process} || Process <- lists:usort([P || {P, _, _} <- Way])].

%% Each process but the root begins with its own event of being spawned.
instruction(p, Position, #{p := Program}) -> lists:nth(Position + 1, Program);
instruction(_Process, 0, _System) -> spawned;
instruction(Process, Position, System) -> lists:nth(Position, map_get(Process, System)).

%% Steps

step({process, Process}, State, System, Options, _Path) ->
    #{alive := Alive, tracer_of := TracerOf} = State,
    #{Process := {Position, Messages}} = Alive,
    Instruction = instruction(Process, Position, System),
    Now = Alive#{Process := {Position + 1, Messages}},
    #{Process := Tracer} = TracerOf,
    After = inherited(
        Instruction,
        Process,
        emitted(
            Process, {Position, event(Instruction)}, State, Options
        )
    ),
    case Instruction of
        {spawn, Child} ->
            After#{alive := Now#{Child => {0, 0}}, tracer_of := TracerOf#{Child => Tracer}};
        {send, To} when is_map_key(To, Now) ->
            #{To := {ToPosition, ToMessages}} = Now,
            After#{alive := Now#{To := {ToPosition, ToMessages + 1}}};
        'receive' ->
            After#{alive := Now#{Process := {Position + 1, Messages - 1}}};
        exit ->
            After#{alive := maps:remove(Process, Now)};
        _ ->
            After#{alive := Now}
    end;
step({deliver, Key}, #{sessions := #{}, way := Way} = State, _System, Options, Path) ->
    {value, {{Process, Session}, _, {Position, Event}}, Rest} = lists:keytake(Key, 1, Way),
    Message =
        case Event of
            {mark, Helper} -> {mark, Process, Helper};
            _ -> {event, Process, Event, Position}
        end,
    collect(Session, Message, State#{way := Rest}, Options, Path);
step({asked, {Session, Message} = One}, State, _System, Options, Path) ->
    #{sessions := #{asked := Asked, links := Links, traced_by := By} = Sessions} = State,
    Rest = Sessions#{asked := Asked -- [One]},
    case Message of
        {take_over, Process, New, Former, Of} when is_map_key(Process, map_get(alive, State)) ->
            Helper = {helper, Process},
            Traced = Rest#{
                traced_by := By#{Process => lists:usort([Session | map_get(Process, By)])},
                asked := [{Of, {leave, Process, New, Former, Helper}} | Asked -- [One]]
            },
            Arrive = {arrive, Process, New, Helper},
            collect(Session, Arrive, State#{sessions := Traced}, Options, Path);
        {take_over, Process, New, Former, Of} ->
            Leave = {Of, {leave, Process, New, Former, none}},
            State#{sessions := Rest#{asked := [Leave | Asked -- [One]]}};
        {leave, Process, _, _, {helper, Process}} ->
            Linking = State#{sessions := Rest#{links := [Process | Links]}},
            collect(Session, Message, Linking, Options, Path);
        _ ->
            collect(Session, Message, State#{sessions := Rest}, Options, Path)
    end;
step({link, Process}, #{alive := Alive, sessions := Sessions} = State, _System, Options, _Path) ->
    #{links := Links} = Sessions,
    Linked = State#{sessions := Sessions#{links := Links -- [Process]}},
    case is_map_key(Process, Alive) of
        true -> emitted(Process, {0, {mark, {helper, Process}}}, Linked, Options);
        false -> Linked
    end;
step({ended, {Process, Session} = Key}, #{sessions := Sessions} = State, _System, Options, Path) ->
    #{off := Off} = Sessions,
    Known = State#{sessions := Sessions#{off := Off -- [Key]}},
    collect(Session, {ended, Process}, Known, Options, Path);
step({deliver, Which}, #{way := Way} = State, _System, _Options, Path) ->
    {value, {Process, Tracer, {Position, Event}} = First} =
        lists:search(fun({P, _, _}) -> Which =:= any orelse P =:= Which end, Way),
    put_message(Tracer, {event, Process, Event, Position}, State#{way := Way -- [First]}, Path);
step({tracer, Name}, #{tracers := Tracers} = State, System, #{module := Module} = Options, Path) ->
    #{Name := {Core, [Message | Messages]}} = Tracers,
    {Next, Effects} = Module:handle(Message, Core),
    Module:broken(Next) =:= #{} orelse wrong({broken, Module:broken(Next), Name, Message}, Path),
    After = State#{tracers := Tracers#{Name := {Next, Messages}}},
    effects(Effects, Name, After, System, Options, Path).

emitted(Process, Event, #{sessions := none} = State, Options) ->
    #{way := Way, tracer_of := #{Process := Tracer}} = State,
    State#{way := on_its_way({Process, Tracer, Event}, Way, Options)};
emitted(Process, Event, #{sessions := #{traced_by := Traced}} = State, Options) ->
    lists:foldl(
        fun(Session, #{way := Way} = Before) ->
            Before#{way := on_its_way({{Process, Session}, Session, Event}, Way, Options)}
        end,
        State,
        map_get(Process, Traced)
    ).

inherited({spawn, Child}, Process, #{sessions := #{traced_by := By} = Sessions} = State) ->
    State#{sessions := Sessions#{traced_by := By#{Child => map_get(Process, By)}}};
inherited(_Instruction, _Process, State) ->
    State.

collect(Session, Message, State, Options, Path) ->
    #{sessions := #{collectors := #{Session := Core} = Collectors} = Sessions} = State,
    {Next, Effects} = (collector(Options)):handle(Message, Core),
    lists:foldl(
        fun
            ({tell, {Name, _}, Told}, Before) ->
                put_message(Name, Told, Before, Path);
            ({off, Process}, #{sessions := #{traced_by := By, off := Off} = Of} = Before) ->
                #{Process := Sessions1} = By,
                Before#{
                    sessions := Of#{
                        traced_by := By#{Process := Sessions1 -- [Session]},
                        off := lists:usort([{Process, Session} | Off])
                    }
                }
        end,
        State#{sessions := Sessions#{collectors := Collectors#{Session := Next}}},
        Effects
    ).

%% Where only each process's order counts, the others' is no part of the state.
on_its_way(Event, Way, #{order := global}) -> Way ++ [Event];
on_its_way(Event, Way, #{order := process}) -> lists:keysort(1, Way ++ [Event]).

event({spawn, Child}) -> {spawn, Child, Child};
event(exit) -> {exit, normal};
event(spawned) -> {spawned, parent, signature};
event(Other) -> Other.

put_message(To, Message, #{tracers := Tracers} = State, Path) ->
    case Tracers of
        #{To := {Core, Messages}} ->
            State#{tracers := Tracers#{To := {Core, Messages ++ [Message]}}};
        #{} ->
            %% Ended. Only what tells of a process that has ended may come late.
            case Message of
                {routed, _, {detach, To, _}} -> State;
                _ -> wrong({sent_to_ended_tracer, To, Message}, Path)
            end
    end.

effects(Effects, Name, State, System, Options, Path) ->
    lists:foldl(
        fun(Effect, Before) -> effect(Effect, Name, Before, System, Options, Path) end,
        State,
        Effects
    ).

effect({analyse, Process, _Event, Position}, Name, State, System, _Options, Path) ->
    #{analysed := Analysed, instrumented := Instrumented} = State,
    Expected = maps:get(Process, Analysed, 0),
    Position =:= Expected orelse wrong({out_of_order, Process, Position, Expected}, Path),
    Owner = owner(Process, Instrumented, System),
    Owner =:= Name orelse wrong({wrong_tracer, Process, Name, Owner}, Path),
    State#{analysed := Analysed#{Process => Expected + 1}};
effect({send, To, Message}, _Name, State, _System, _Options, Path) ->
    put_message(To, Message, State, Path);
effect({start, Child, From}, _Name, State, System, Options, Path) ->
    #{tracers := Tracers, instrumented := Instrumented} = State,
    #{module := Module} = Options,
    {Core, Effects} = Module:tracer(Child, Child, From, select(Instrumented)),
    After = State#{tracers := Tracers#{Child => {Core, []}}},
    effects(Effects, Child, After, System, Options, Path);
effect({preempt, Process, From}, Name, #{sessions := #{}} = State, _System, Options, _Path) ->
    #{sessions := #{asked := Asked} = Sessions} = State,
    {New, Former} = {home(Name, Options), home(From, Options)},
    Message =
        case New of
            Former -> {preempt, Process, {Name, New}, {From, Former}};
            _ -> {take_over, Process, {Name, New}, {From, Former}, Former}
        end,
    State#{sessions := Sessions#{asked := lists:sort([{New, Message} | Asked])}};
effect({preempt, Process, From}, Name, State, _System, #{hand_over := HandOver}, Path) ->
    #{way := Way, tracer_of := TracerOf} = State,
    From =:= map_get(Process, TracerOf) orelse wrong({not_gathered_by, From, Process}, Path),
    {Arrive, Stay} =
        case HandOver of
            ideal -> lists:partition(fun({P, _, _}) -> P =:= Process end, Way);
            none -> {[], Way}
        end,
    Delivered = lists:foldl(
        fun({P, Tracer, {Position, Event}}, Before) ->
            put_message(Tracer, {event, P, Event, Position}, Before, Path)
        end,
        State#{way := Stay, tracer_of := TracerOf#{Process := Name}},
        Arrive
    ),
    put_message(From, {detach, Name, Process}, Delivered, Path);
effect(stop, Name, #{tracers := Tracers} = State, _System, _Options, Path) ->
    {_, Messages} = map_get(Name, Tracers),
    Left = [M || M <- Messages, not late(Name, M)],
    Left =:= [] orelse wrong({ended_with, Name, Left}, Path),
    State#{tracers := maps:remove(Name, Tracers)}.

late(Name, {routed, _, {detach, Name, _}}) -> true;
late(_Name, _Message) -> false.

%% The nearest instrumented process above, or itself.
owner(p, _Instrumented, _System) ->
    root;
owner(Process, Instrumented, System) ->
    case lists:member(Process, Instrumented) of
        true -> Process;
        false -> owner(parent(Process, System), Instrumented, System)
    end.

parent(Process, System) ->
    [Parent] = [P || P := Program <- System, lists:member({spawn, Process}, Program)],
    Parent.

%% Nothing more can happen.
finished([], #{tracers := Tracers, analysed := Analysed, sessions := Sessions}, System, Path) ->
    nothing_left(Sessions, Path),
    Whole =
        #{
            Process => length(Program) + length([spawned || Process =/= p])
         || Process := Program <- System
        },
    Analysed =:= Whole orelse wrong({incomplete, Analysed, Whole}, Path),
    Tracers =:= #{} orelse wrong({tracers_left, Tracers}, Path),
    ok;
finished(_Steps, _State, _System, _Path) ->
    ok.

nothing_left(none, _Path) ->
    ok;
nothing_left(#{collectors := Collectors}, Path) ->
    Empty = dyno_agent_riarc_collector:new(#{}),
    [Empty] =:= lists:usort(maps:values(Collectors)) orelse wrong({collected, Collectors}, Path),
    ok.

-spec wrong(term(), list()) -> no_return().
wrong(What, Path) ->
    throw({wrong, What, Path}).
