%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_riarc).
-moduledoc false.
%% RIARC's tracer: Algorithms 1 to 4 of "Runtime Instrumentation for Reactive Components" (Aceto,
%% Attard, Francalanza, Ingolfsdottir; ECOOP 2024). Pure: dyno_agent_riarc_tracer runs it in a node.
%%
%%   root --- P, and all processes below P without a tracer of their own
%%     +----- T(Q): a tracer of its own for Q, because Q's signature is instrumented
%%              +----- T(R) ...
%%
%% A tracer gathers the events of its processes (`direct`), and routes those of processes that got a
%% tracer since; it knows the next hop only. A tracer starts in the mode `priority`: it holds its
%% own events until the former tracers of its processes have sent all older ones.
%%
%% Differences from the paper (a mutant in the tests proves the need of each):
%% * Events of a process that is neither traced nor routed are stashed until its parent's spawn
%%   event was handled: since OTP 19 a child's event may arrive before it.
%% * An acknowledgement for a process whose exit was handled already is ignored (Algorithm 1, line
%%   51, fails there), and does not add the process again (Algorithm 3, line 46).
%% * An acknowledgement forwarded in the mode `priority` ends the route, too (lines 49-51).
%% * Direct events are held in a queue, not in the mailbox: a selective receive would scan it for
%%   each routed message.
%%
%% Of the paper's 24 invariants, those are checked that the clauses below do not guarantee; a
%% violation is counted and reported. I1 to I12: choreography, I13 to I24: routing, in the paper's
%% order.

-export([root/2, tracer/4, handle/2, is_direct/1, broken/1]).
-export_type([t/0, tracer/0, message/0, effect/0, invariant/0, select/0]).

-type process() :: term().

-doc "A tracer's name: `root`, or its first process.".
-type tracer() :: root | process().

-type event() ::
    {spawn, Child :: process(), Signature :: term()} | {exit, Reason :: term()} | term().

-type request() ::
    {event, process(), event(), TimeNs :: integer()}
    %% Sent to the former tracer of a process's events: no more of them will come.
    | {detach, NewTracer :: tracer(), process()}.

-type message() :: request() | {routed, Dispatcher :: tracer(), request()}.

-type effect() ::
    {analyse, process(), event(), TimeNs :: integer()}
    | {send, tracer(), message()}
    %% Named after the process; it traces what its parent gives it: `tracer/4`.
    | {start, tracer(), From :: tracer()}
    %% Gather the events of this process from now on; then send the former tracer `detach`.
    | {preempt, process(), FormerTracer :: tracer()}
    | stop.

-doc "The instrumented signatures: the map that each tracer hands to those below it.".
-type select() :: fun((Signature :: term()) -> boolean()).

-type invariant() :: 1..24.

-opaque t() :: #{
    name := tracer(),
    mode := direct | priority,
    select := select(),
    routes := #{process() => NextHop :: tracer()},
    traced := #{process() => direct | priority},
    %% The number of `priority` processes: their former tracers have not detached yet.
    owed := non_neg_integer(),
    held := [request()],
    stash := #{process() => [request()]},
    %% For I16: processes taken over or found, and those that ended.
    added := non_neg_integer(),
    ended := non_neg_integer(),
    broken := #{invariant() => pos_integer()}
}.

-spec root([process()], select()) -> t().
root(Processes, Select) ->
    #{
        name => root,
        mode => direct,
        select => Select,
        routes => #{},
        traced => maps:from_keys(Processes, direct),
        owed => 0,
        held => [],
        stash => #{},
        added => length(Processes),
        ended => 0,
        broken => #{}
    }.

-doc "A tracer for a process whose events another tracer gathers.".
-spec tracer(tracer(), process(), From :: tracer(), select()) -> {t(), [effect()]}.
tracer(Name, Process, From, Select) ->
    State = root([Process], Select),
    Starting = State#{name := Name, mode := priority, traced := #{Process => priority}, owed := 1},
    {Starting, [{preempt, Process, From}]}.

-spec broken(t()) -> #{invariant() => pos_integer()}.
broken(#{broken := Broken}) -> Broken.

-spec is_direct(t()) -> boolean().
is_direct(#{mode := Mode}) -> Mode =:= direct.

-spec handle(message(), t()) -> {t(), [effect()]}.
handle(Message, State) ->
    {#{traced := Traced, added := Added, ended := Ended} = Next, Effects} = take(Message, State),
    {check(16, Added =:= map_size(Traced) + Ended, Next), Effects}.

%% Routed messages are for other tracers, except in the mode `priority`.
take({routed, From, {event, Process, _, _} = Event} = Routed, #{mode := Mode} = State) ->
    case place(Process, State) of
        {route, Next} -> pass(Routed, Next, State);
        traced -> analyse(Event, From, check(19, Mode =:= priority, State));
        unknown when Mode =:= direct -> {check(19, false, State), []};
        unknown -> {check(21, false, State), []}
    end;
take({routed, _, {detach, To, Process}} = Routed, #{name := Name, mode := Mode} = State) ->
    case {place(Process, State), Mode} of
        {{route, Next}, direct} -> pass(Routed, Next, State);
        {{route, Next}, priority} -> pass(Routed, Next, check(23, To =/= Name, State));
        {_, direct} -> {check(20, To =:= Name, State), []};
        {_, priority} -> acknowledged(Process, check(23, To =:= Name, State))
    end;
take(Request, #{mode := priority, held := Held} = State) ->
    {State#{held := [Request | Held]}, []};
take({event, Process, _, _} = Event, #{name := Name} = State) ->
    case place(Process, State) of
        traced -> analyse(Event, self, State);
        {route, Next} -> pass({routed, Name, Event}, Next, State);
        unknown -> {stash(Event, State), []}
    end;
take({detach, _, Process} = Detach, #{name := Name} = State) ->
    case place(Process, State) of
        {route, Next} -> pass({routed, Name, Detach}, Next, State);
        _ -> {check(17, false, State), []}
    end.

acknowledged(Process, #{traced := Traced} = State) ->
    Now =
        case Traced of
            #{Process := _} -> (paid(Process, State))#{traced := Traced#{Process := direct}};
            #{} -> State
        end,
    case Now of
        #{owed := 0} -> direct(Now);
        #{} -> {Now, []}
    end.

direct(#{held := Held, traced := Traced} = State) ->
    AllDirect = lists:all(fun(Mode) -> Mode =:= direct end, maps:values(Traced)),
    Direct = State#{mode := direct, held := []},
    take_all(lists:reverse(Held), check(15, AllDirect, Direct)).

take_all(Requests, State) ->
    {Next, Effects} = lists:foldl(
        fun(Request, {Before, Effects}) ->
            {After, More} = take(Request, Before),
            {After, [More | Effects]}
        end,
        {State, []},
        Requests
    ),
    {Next, lists:append(lists:reverse(Effects))}.

place(Process, #{traced := Traced}) when is_map_key(Process, Traced) -> traced;
place(Process, #{routes := Routes}) when is_map_key(Process, Routes) ->
    {route, map_get(Process, Routes)};
place(_Process, _State) ->
    unknown.

stash({event, Process, _, _} = Event, #{stash := Stash} = State) ->
    Events = maps:get(Process, Stash, []),
    State#{stash := Stash#{Process => [Event | Events]}}.

%% Its parent's spawn event was handled: its own events can be, too.
unstash(Process, #{stash := Stash} = State) ->
    case maps:take(Process, Stash) of
        {Events, Rest} -> take_all(lists:reverse(Events), State#{stash := Rest});
        error -> {State, []}
    end.

%% Of our own process. From: the gatherer of its events, `self` or the tracer that dispatched this
%% one.
analyse({event, Process, Event, Time}, From, State) ->
    {Next, Effects} = analysed(Event, Process, From, State),
    {Next, [{analyse, Process, Event, Time} | Effects]}.

analysed({spawn, Child, Signature}, _Process, From, #{select := Select} = State) ->
    case Select(Signature) of
        true -> instrument(Child, From, State);
        false -> adopt(Child, From, State)
    end;
analysed({exit, _}, Process, _From, #{traced := Traced, ended := Ended} = State) ->
    Left = maps:remove(Process, Traced),
    collect((paid(Process, State))#{traced := Left, ended := Ended + 1});
analysed(_Event, _Process, _From, State) ->
    {State, []}.

paid(Process, #{traced := Traced, owed := Owed} = State) ->
    case Traced of
        #{Process := priority} -> State#{owed := Owed - 1};
        #{} -> State
    end.

%% A tracer of its own takes the child from the gatherer of its events.
instrument(Child, From, #{name := Name} = State) ->
    Gathers =
        case From of
            self -> Name;
            _ -> From
        end,
    {Next, Effects} = unstash(Child, add_route(Child, Child, State)),
    {Next, [{start, Child, Gathers} | Effects]}.

%% The child is ours, gathered by us already, or still by the tracer that dispatched the event.
adopt(Child, self, State) ->
    unstash(Child, add_traced(Child, direct, State));
adopt(Child, From, State) ->
    #{owed := Owed} = Next = add_traced(Child, priority, State),
    {Next#{owed := Owed + 1}, [{preempt, Child, From}]}.

add_traced(Child, Mode, #{traced := Traced, added := Added} = State) ->
    Checked = check(2, not is_map_key(Child, Traced), State),
    Checked#{traced := Traced#{Child => Mode}, added := Added + 1}.

add_route(Process, Next, #{routes := Routes} = State) ->
    Checked = check(6, not is_map_key(Process, Routes), State),
    Checked#{routes := Routes#{Process => Next}}.

pass({routed, _, Request} = Routed, Next, State) ->
    {After, Effects} = passed(Request, Next, State),
    {After, [{send, Next, Routed} | Effects]}.

%% The child's tracer is behind the same hop; a detached process sends nothing more this way.
passed({event, _, {spawn, Child, _}, _}, Next, State) ->
    unstash(Child, add_route(Child, Next, State));
passed({event, _, _, _}, _Next, State) ->
    {State, []};
passed({detach, _, Process}, _Next, #{routes := Routes} = State) ->
    Left = maps:remove(Process, Routes),
    collect(State#{routes := Left}).

collect(#{traced := Traced, routes := Routes} = State) when
    map_size(Traced) =:= 0, map_size(Routes) =:= 0
->
    {check(1, maps:get(stash, State) =:= #{} andalso maps:get(held, State) =:= [], State), [stop]};
collect(State) ->
    {State, []}.

check(_Invariant, true, State) ->
    State;
check(Invariant, false, #{broken := Broken} = State) ->
    State#{broken := Broken#{Invariant => maps:get(Invariant, Broken, 0) + 1}}.
