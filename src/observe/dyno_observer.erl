%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_observer).
-moduledoc """
Observes running nodes for a while: the one process in which `dyno profile`, `servers`, `verify` and
`doctor` wait, lose nodes, are interrupted and leave.

Each command is a consumer, a module of this behaviour. The observer's process calls all its
functions and gets the messages of the agents. Messages that arrive after the end are dropped with
the process.

```
dyno_observation    decides, without a side effect
  dyno_observer     turns messages into events, carries out effects, keeps time
    a consumer      starts agents in the nodes, handles their messages, makes the result
```
""".

-export([run/3]).
-export_type([plan/0]).

-doc """
The nodes, and the time to observe: until an interrupt if none is given. The observer watches and
leaves `targets`. A tick is a second by default. If nodes may return, the loss of all does not end
the observation.
""".
-type plan() :: #{
    nodes := [node()],
    targets := [dyno_target:t()],
    for_ms => pos_integer(),
    tick_ms => pos_integer(),
    return => boolean()
}.

-doc "Attaches to the nodes. Any result but `{ok, Plan, State}` is the result of `run/3`.".
-callback attach([node()], Options :: map()) ->
    {ok, plan(), State :: term()} | {error, dyno_error:error()} | term().

-doc """
Handles one of these:

* `begun`: the time begins when the callback returns.
* `{tick, Ms}`: `Ms` of the time have passed.
* `{leave, Target, lost | unobserved, Why}`: the node is lost, or nothing measures it any more. The
  observer leaves the node when the callback returns.
* `finish`: observation has ended; read the measurements.
* `{message, Message}`: another message came.

The event `{again, Target}` is a lost node that the consumer has attached to again.
""".
-callback handle(What, [dyno_target:t()], State) ->
    {[dyno_observation:event() | {again, dyno_target:t()}], State}
when
    What ::
        begun
        | {tick, non_neg_integer()}
        | {leave, dyno_target:t(), lost | unobserved, unicode:chardata()}
        | finish
        | {message, term()},
    State :: term().

-doc "Makes the parts of the recording after the observer has left the nodes.".
-callback made(dyno_observation:ended(), State :: term()) -> dyno_observed:parts().

-type state() :: #{
    module := module(),
    consumer := term(),
    targets := [dyno_target:t()],
    observation := dyno_observation:t(),
    tick_ms := pos_integer(),
    return := boolean(),
    started_ns := integer(),
    visits := [dyno_target_visit:t()],
    finished := boolean()
}.

-define(TICK_MS, 1000).

-doc """
Observes, and returns a recording of the consumer's measurements. Ends early, with the measurements
until then, if the calling process gets `dyno_interrupt`, or `stop` from a process that has seen
enough.
""".
-spec run(module(), [node()], Options :: map()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()} | term().
run(Module, Nodes, Options) ->
    Observe = fun() ->
        proc_lib:set_label({?MODULE, Module}),
        observed(Module, Nodes, Options)
    end,
    case dyno_interruptible:call(kill, Observe) of
        {ok, Result} -> Result;
        {crashed, Reason} -> exit(Reason)
    end.

observed(Module, Asked, Options) ->
    Environment = dyno_environment:collect(),
    maybe
        {ok, #{nodes := Nodes, targets := Targets} = Plan, Consumer} ?=
            Module:attach(Asked, Options),
        Silence = dyno_target_silence:watch(Nodes, 0),
        Facts = facts(Nodes, Targets),
        Begun = handle(begun, #{
            module => Module,
            consumer => Consumer,
            targets => Targets,
            observation => dyno_observation:new(Nodes, maps:get(for_ms, Plan, undefined)),
            tick_ms => maps:get(tick_ms, Plan, ?TICK_MS),
            return => maps:get(return, Plan, false),
            started_ns => 0,
            visits => [],
            finished => false
        }),
        ok = dyno_target_silence:ends_in(Silence, maps:get(for_ms, Plan, infinity)),
        _ = [erlang:send_after(Ms, self(), {?MODULE, time}) || #{for_ms := Ms} <- [Plan]],
        #{started_ns := StartedNs} = Started = Begun#{started_ns := now_ns()},
        Ended = loop(next_tick(Started)),
        DurationNs = now_ns() - StartedNs,
        ok = dyno_target_silence:ends_in(Silence, 0),
        #{consumer := Last, visits := Before, targets := Rest, observation := Observation} =
            handle(finish, Ended),
        ok = dyno_target_silence:stop(Silence),
        Visits = Before ++ dyno_target:leave(Rest),
        How = dyno_observation:ended(DurationNs, Observation),
        Parts = #{nodes => Nodes, environment => Environment, facts => Facts, visits => Visits},
        {ok, dyno_observed:document(How, maps:merge(Parts, Module:made(How, Last)))}
    end.

facts(Nodes, Targets) ->
    case [Facts || #{facts := Facts} <- Targets] of
        [] -> dyno_target_node:facts_of(Nodes);
        Facts -> Facts
    end.

now_ns() -> erlang:monotonic_time(nanosecond).

next_tick(#{tick_ms := TickMs} = State) ->
    _ = erlang:send_after(TickMs, self(), {?MODULE, tick}),
    State.

-spec loop(state()) -> state().
loop(#{finished := true} = State) ->
    State;
loop(#{targets := Targets, started_ns := StartedNs} = State) ->
    receive
        {?MODULE, tick} ->
            PassedMs = (now_ns() - StartedNs) div 1_000_000,
            %% A sign of life, from the emulator: no process can be registered as `undefined`.
            _ = [monitor(process, {undefined, Node}) || #{node := Node} <- Targets],
            loop(next_tick(handle({tick, PassedMs}, State)));
        {'DOWN', _, process, {undefined, Node}, noproc} ->
            loop(happened([{seen, Node, now_ns() - StartedNs}], State));
        {'DOWN', _, process, {undefined, _}, _} ->
            loop(State);
        {?MODULE, time} ->
            loop(happened([time], State));
        stop ->
            loop(happened([stop], State));
        dyno_interrupt ->
            loop(happened([interrupted], State));
        Message ->
            case dyno_target:event(Message, Targets) of
                none -> loop(handle({message, Message}, State));
                Event -> loop(happened([of_node(Event)], State))
            end
    end.

of_node({lost, #{node := Node}, _Reason}) -> {lost, Node};
of_node({gave_up, #{node := Node}, Reason}) -> {gave_up, Node, printed(Reason)};
of_node({without, #{node := Node}, Is, Reason}) -> {without, Node, Is, printed(Reason)}.

printed(Reason) -> io_lib:format("~0tP", [Reason, 10]).

handle(What, #{module := Module, targets := Targets, consumer := Consumer} = State) ->
    {Events, Next} = Module:handle(What, Targets, Consumer),
    happened(Events, State#{consumer := Next}).

happened(Events, State) -> lists:foldl(fun event/2, State, Events).

event({again, #{node := Node} = Target}, #{targets := Targets, started_ns := Ns} = State) ->
    event({present, Node, now_ns() - Ns}, State#{targets := [Target | Targets]});
event(Event, #{observation := Observation} = State) ->
    {Next, Effects} = dyno_observation:event(Event, Observation),
    lists:foldl(fun effect/2, State#{observation := Next}, Effects).

effect(finish, State) ->
    State#{finished := true};
effect({leave, Node, How, Why}, #{targets := Targets, return := Return} = State) ->
    case lists:partition(fun(#{node := Of}) -> Of =:= Node end, Targets) of
        {[Target], Others} ->
            Without = State#{targets := Others},
            #{visits := Visits} = Told = handle({leave, Target, How, Why}, Without),
            Left = Told#{visits := Visits ++ dyno_target:leave([Target])},
            happened([{left, [Of || #{node := Of} <- Others]} || not Return], Left);
        {[], _} ->
            State
    end.
