%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_observer).
-moduledoc """
Observes running nodes for a while: the one process in which `dyno profile`, `servers`, `verify`,
`doctor`, `record` and `test` wait, lose nodes, are interrupted and leave.

Each command is a consumer, a module of this behaviour. The observer's process calls all its
functions and gets the messages of the agents.

```
dyno_observation    decides, without a side effect
  dyno_observer     turns messages into events, carries out effects, keeps time
    a consumer      starts agents in the nodes, handles their messages, makes the result
```
""".

-export([run/3, observe/3]).
-export_type([plan/0, observed/0]).

-doc """
The nodes, and the time to observe: until an interrupt if none is given. The observer watches and
leaves `targets`. A tick is a second by default. If nodes may return, the loss of all does not end
the observation. A time that begins later begins at the consumer's event `begins`; if the consumer
ends it, `for_ms` is an estimate. Of many instruments one may end: the consumer gets `without`, and
the node still counts as observed.
""".
-type plan() :: #{
    nodes := [node()],
    targets := [dyno_target:t()],
    for_ms => pos_integer(),
    begins => later,
    ends => by_consumer,
    instruments => many,
    tick_ms => pos_integer(),
    return => boolean()
}.

-type observed() :: #{
    ended := dyno_observation:ended(),
    facts := [map()],
    visits := [dyno_target_visit:t()],
    consumer := State :: term()
}.

-doc "Attaches to the nodes. Any result but `{ok, Plan, State}` is the result of `run/3`.".
-callback attach([node()], Options :: map()) ->
    {ok, plan(), State :: term()} | {error, dyno_error:error()} | term().

-doc """
Handles one of these:

* `begun`: the time begins when the callback returns.
* `{tick, Ms}`: `Ms` of the time have passed.
* `{leave, Target, {lost | unobserved, ObservedNs}, Why}`: the node is lost, or nothing measures it
  any more. The observer leaves the node when the callback returns.
* `{without, Target, Instruments, Reason}`: some of many instruments have ended.
* `finish`: observation has ended; read the measurements.
* `{message, Message}`: another message came, also those that were sent before the end and not yet
  handled.

The event `{attached, Target}` is another node, or a lost one that the consumer has attached to
again.
""".
-callback handle(What, [dyno_target:t()], State) ->
    {[dyno_observation:event() | {attached, dyno_target:t()} | begins], State}
when
    What ::
        begun
        | {tick, non_neg_integer()}
        | {leave, dyno_target:t(), {lost | unobserved, non_neg_integer()}, unicode:chardata()}
        | {without, dyno_target:t(), [module()], Reason :: term()}
        | finish
        | {message, term()},
    State :: term().

-doc "Makes the parts of the recording after the observer has left the nodes.".
-callback made(dyno_observation:ended(), State :: term()) -> dyno_observed:parts().
-optional_callbacks([attach/2, made/2]).

-type state() :: #{
    module := module(),
    consumer := term(),
    targets := [dyno_target:t()],
    observation := dyno_observation:t(),
    plan := plan(),
    %% Of this observation's timers; the process may observe more than once.
    mark := reference(),
    silence := dyno_target_silence:watch(),
    started_ns := integer() | not_yet,
    visits := [dyno_target_visit:t()],
    finished := boolean()
}.

-define(TICK_MS, 1000).

-doc """
Observes, and returns a recording. Ends early, with the measurements until then, at the messages
`dyno_interrupt`, or `stop` from a process that has seen enough.
""".
-spec run(module(), [node()], Options :: map()) ->
    dyno_error:result(dyno_recording:document()) | term().
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
        {ok, #{nodes := Nodes} = Plan, Consumer} ?= Module:attach(Asked, Options),
        #{ended := Ended, consumer := Last} = Observed = observe(Module, Plan, Consumer),
        Parts = (maps:with([facts, visits], Observed))#{
            nodes => Nodes, environment => Environment
        },
        {ok, dyno_observed:document(Ended, maps:merge(Parts, Module:made(Ended, Last)))}
    end.

-doc "Observes in the caller, which owns the targets; keeps a `dyno_interrupt` after the end.".
-spec observe(module(), plan(), State :: term()) -> observed().
observe(Module, #{nodes := Nodes, targets := Targets} = Plan, Consumer) ->
    Silence = dyno_target_silence:watch(Nodes, 0),
    Facts = facts(Nodes, Targets),
    Mark = make_ref(),
    Begun = handle(begun, #{
        module => Module,
        consumer => Consumer,
        targets => Targets,
        observation => dyno_observation:new(Nodes, maps:get(for_ms, Plan, undefined)),
        plan => Plan,
        mark => Mark,
        silence => Silence,
        started_ns => not_yet,
        visits => [],
        finished => false
    }),
    Ended = loop(next_tick(happened([begins || not is_map_key(begins, Plan)], Begun))),
    DurationNs = passed_ns(Ended),
    ok = dyno_target_silence:ends_in(Silence, 0),
    #{consumer := Last, visits := Before, targets := Rest, observation := Observation} =
        sent_before(handle(finish, Ended)),
    ok = dyno_target_silence:stop(Silence),
    #{
        ended => dyno_observation:ended(DurationNs, Observation),
        facts => Facts,
        visits => Before ++ dyno_target:leave(Rest),
        consumer => Last
    }.

passed_ns(#{started_ns := not_yet}) -> 0;
passed_ns(#{started_ns := Ns}) -> now_ns() - Ns.

%% Messages sent before the end.
sent_before(#{targets := Targets, plan := Plan} = State) ->
    receive
        Message when Message =/= dyno_interrupt, Message =/= stop ->
            case {dyno_target:event(Message, Targets), Plan} of
                {{without, _, _, _} = Event, #{instruments := many}} ->
                    sent_before(handle(Event, State));
                _ ->
                    sent_before(handle({message, Message}, State))
            end
    after 0 -> State
    end.

facts(Nodes, Targets) ->
    case [Facts || #{facts := Facts} <- Targets] of
        [] -> dyno_target_node:facts_of(Nodes);
        Facts -> Facts
    end.

now_ns() -> erlang:monotonic_time(nanosecond).

next_tick(#{plan := Plan, mark := Mark} = State) ->
    _ = erlang:send_after(maps:get(tick_ms, Plan, ?TICK_MS), self(), {Mark, tick}),
    State.

-spec loop(state()) -> state().
loop(#{finished := true} = State) ->
    State;
loop(#{targets := Targets, mark := Mark} = State) ->
    receive
        {Mark, tick} ->
            %% A sign of life, from the emulator: no process can be registered as `undefined`.
            _ = [monitor(process, {undefined, Node}) || #{node := Node} <- Targets],
            loop(next_tick(handle({tick, passed_ns(State) div 1_000_000}, State)));
        {'DOWN', _, process, {undefined, Node}, noproc} ->
            loop(happened([{seen, Node, passed_ns(State)}], State));
        {'DOWN', _, process, {undefined, _}, _} ->
            loop(State);
        {Mark, time} ->
            loop(happened([time], State));
        stop ->
            loop(happened([stop], State));
        dyno_interrupt ->
            loop(happened([interrupted], State));
        Message ->
            case {dyno_target:event(Message, Targets), State} of
                {none, _} ->
                    loop(handle({message, Message}, State));
                {{without, _, _, _} = Event, #{plan := #{instruments := many}}} ->
                    loop(handle(Event, State));
                {Event, _} ->
                    loop(happened([of_node(Event)], State))
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

event(begins, #{plan := Plan, mark := Mark, silence := Silence} = State) ->
    ok = dyno_target_silence:ends_in(Silence, maps:get(for_ms, Plan, infinity)),
    _ = [
        erlang:send_after(Ms, self(), {Mark, time})
     || #{for_ms := Ms} <- [Plan], not is_map_key(ends, Plan)
    ],
    State#{started_ns := now_ns()};
event({attached, #{node := Node} = Target}, #{targets := Targets, silence := Silence} = State) ->
    ok = dyno_target_silence:add(Silence, Node),
    event({present, Node, passed_ns(State)}, State#{targets := Targets ++ [Target]});
event(Event, #{observation := Observation} = State) ->
    {Next, Effects} = dyno_observation:event(Event, Observation),
    lists:foldl(fun effect/2, State#{observation := Next}, Effects).

effect(finish, State) ->
    State#{finished := true};
effect({leave, Node, How, Why}, #{targets := Targets, plan := Plan} = State) ->
    case lists:partition(fun(#{node := Of}) -> Of =:= Node end, Targets) of
        {[Target], Others} ->
            Without = State#{targets := Others},
            #{visits := Visits} = Told = handle({leave, Target, How, Why}, Without),
            Left = Told#{visits := Visits ++ dyno_target:leave([Target])},
            Remaining = [Of || #{node := Of} <- Others],
            happened([{left, Remaining} || not maps:get(return, Plan, false)], Left);
        {[], _} ->
            State
    end.
