%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_monitor).
-moduledoc """
The behaviour of monitors: what `dyno verify` runs for each process that it watches.

A monitor has a state for each process, gets what the process does, one event at a time and in
order, and says `yes` or `no` when it is decided. From then on it gets nothing of that process.

```erlang
-module(no_message_after_stop).
-behaviour(dyno_agent_monitor).
-export([needs/0, init/1, event/3]).

needs() -> #{select => [{module, worker}], events => [send, exit]}.

init(_Process) -> running.

event({send, stopped, _To}, _TimeNs, running) -> {next, stopped};
event({send, Message, _To}, _TimeNs, stopped) ->
    {no, #{property => ~"no message after stop", step => ~"send", bindings => #{'M' => Message}},
        stopped};
event(_Event, _TimeNs, State) -> {next, State}.
```

Monitors run in the target, in the process of a shard with others: they may call kernel and stdlib
only, must not receive messages, and should take microseconds. One that crashes is counted and ends
inconclusive for that process; one that never returns is stopped, and not used any more.

A monitor with a key (`key => true`) has a state for each key instead, across processes: `c:key/2`
says which key an event has, and `c:init/1` gets the process of the first event with it.
""".

-export([needs/1, table/2, has_key/1, init/2, step/4, timeout/3, ended/2, deadline/2, key/3, names/2]).
-export([step/5, decided/6]).
-export_type([process/0, verdict/0, explanation/0, needs/0, selector/0, event_filter/0]).
-export_type([state/0, decision/0, outcome/0, report/0, trace_state/0]).

-type state() :: term().
-type process() :: dyno_agent_event:process().
-type verdict() :: yes | no | inconclusive.

-doc "Why a monitor decided: the clause, and what its variables were bound to.".
-type explanation() :: #{
    property => unicode:chardata(),
    step => unicode:chardata(),
    bindings => #{atom() => term()},
    atom() => term()
}.

-doc """
Which processes. `function` is what the process runs, seen through proc_lib, gen and funs; `module`
is any function of one; `application` the functions of its modules. A name or label that a process
takes while it runs opens its trace from there: it is then partial.
""".
-type selector() ::
    {function, module(), atom(), arity() | '_'}
    | {module, module()}
    | {registered, atom()}
    | {label, term()}
    | {application, atom()}
    | {pid, pid()}.

-doc """
Which events. `{send, Heads}` and `{'receive', Heads}` filter at the source: each head is what
`trace:send/3` and `trace:recv/3` match, `{Arguments, Guards}`, of `[To, Message]` for send and of
`[Node, From, Message]` for receive. `{call, M, F, A, Guards}` filters calls likewise, with
`undefined` for all calls. The first event, `spawned`, always comes, and so does `exit`.
""".
-type event_filter() ::
    send
    | 'receive'
    | spawn
    | exit
    | {send | 'receive', [{Arguments :: [term()] | '_', Guards :: [term()]}]}
    | {call, module(), atom(), arity() | '_', undefined | {Arguments :: [term()] | '_', [term()]}}
    %% Calls with their returns and exceptions. It keeps calls from being tail calls.
    | {return, module(), atom(), arity() | '_'}
    | register.

-type needs() :: #{
    %% The property's name, for people; the module's by default.
    property => unicode:chardata(),
    select := [selector()],
    events := [event_filter()],
    %% One state for each key, over several processes; default: false.
    key => boolean(),
    %% What whoever gives this monitor should know; none by default.
    warnings => [unicode:chardata()]
}.

-doc "What a monitor returns.".
-type decision() ::
    {next, state()}
    | {verdict(), explanation(), state()}
    | {report, verdict(), explanation(), state()}.

-doc "What became of a step; `crashed` where the monitor raised an exception.".
-type outcome() ::
    decision() | {crashed, {Class :: atom(), Reason :: term(), Stack :: list()}}.

-doc """
How whole the trace was: `complete` from `spawned` on, `partial` from the middle, with a `gap` where
it was cut off because of a limit or a fault.
""".
-type trace_state() :: complete | partial | gap.

-doc "A verdict as it is told.".
-type report() :: #{
    property := unicode:chardata(),
    monitor := module(),
    verdict := verdict(),
    process := process(),
    node := node(),
    %% Monotonic, by the node's clock.
    time_ns := integer(),
    %% The last ones, the newest last.
    events := [
        {TimeNs :: integer(), dyno_agent_event:event()}
        | {TimeNs :: integer(), pid(), dyno_agent_event:event()}
    ],
    %% Of a monitor with a key.
    key => term(),
    explanation := explanation(),
    trace := trace_state()
}.

-callback needs() -> needs().
-callback init(process()) -> state().
-doc "The same with who did it, for a monitor with a key, in place of `c:event/3`.".
-callback event(dyno_agent_event:event(), TimeNs :: integer(), pid(), state()) -> decision().
-doc "After `report` the verdict is told, and the monitor goes on.".
-callback event(dyno_agent_event:event(), TimeNs :: integer(), state()) -> decision().
-doc "The process has ended, after its event `exit`, and the monitor had not decided.".
-callback ended(state()) -> {verdict(), explanation()} | none.
-doc "When `c:timeout/2` is to be called, by monotonic time.".
-callback deadline(state()) -> infinity | TimeNs :: integer().
-doc """
The time is that of the events seen so far, which may be a little behind the clock: no event of
before the deadline comes any more.
""".
-callback timeout(TimeNs :: integer(), state()) -> decision().
-doc "The key of an event; `none` where it has none.".
-callback key(dyno_agent_event:event(), process()) -> {ok, term()} | none.

-doc """
Whether the property is about such an event. Without it each event is that `c:needs/0` asks for. Of
a process that did nothing of the kind nothing is known.
""".
-callback names(dyno_agent_event:event()) -> boolean().

-optional_callbacks([event/4, ended/1, deadline/1, timeout/2, key/2, names/1]).

-doc "What a monitor needs, complete.".
-spec needs(module()) -> needs().
needs(Module) ->
    Defaults = #{property => atom_to_binary(Module), key => false, warnings => []},
    maps:merge(Defaults, Module:needs()).

-doc """
Which processes monitors are for: by themselves, or by the configuration. The modules of applications
are those of this node.
""".
-spec table([module()], #{select => [selector()], atom() => term()}) ->
    dyno_agent_process_filter:table(module()).
table(Monitors, Config) ->
    dyno_agent_process_filter:table([
        {Resolved, Monitor}
     || Monitor <- Monitors,
        #{select := Own} <- [needs(Monitor)],
        Selector <- maps:get(select, Config, Own),
        Resolved <- resolved(Selector)
    ]).

resolved({application, App}) ->
    _ = application:load(App),
    case application:get_key(App, modules) of
        {ok, Modules} -> [{module, Module} || Module <- Modules];
        undefined -> []
    end;
resolved(Selector) ->
    [Selector].

-doc "Whether a monitor has a state for each key, over several processes.".
-spec has_key(module()) -> boolean().
has_key(Module) -> map_get(key, needs(Module)).

-doc "The state for a process.".
-spec init(module(), process()) -> outcome().
init(Module, Process) ->
    safely(fun() -> {next, Module:init(Process)} end).

safely(Call) ->
    try
        Call()
    catch
        Class:Reason:Stack -> {crashed, {Class, Reason, Stack}}
    end.

-doc "Gives an event to a monitor.".
-spec step(module(), dyno_agent_event:event(), integer(), state()) -> outcome().
step(Module, Event, TimeNs, State) ->
    try Module:event(Event, TimeNs, State) of
        {next, _} = Next -> Next;
        Decision -> checked(Decision)
    catch
        Class:Reason:Stack -> {crashed, {Class, Reason, Stack}}
    end.

-doc "Gives an event of this process to a monitor with a key, which gets those of several.".
-spec step(module(), pid(), dyno_agent_event:event(), integer(), state()) -> outcome().
step(Module, Pid, Event, TimeNs, State) ->
    case erlang:function_exported(Module, event, 4) of
        true -> safely(fun() -> checked(Module:event(Event, TimeNs, Pid, State)) end);
        false -> step(Module, Event, TimeNs, State)
    end.

checked({next, _} = Next) ->
    Next;
checked({Verdict, #{}, _} = Decided) when
    Verdict =:= yes; Verdict =:= no; Verdict =:= inconclusive
->
    Decided;
checked({report, Verdict, #{}, _} = Report) when
    Verdict =:= yes; Verdict =:= no; Verdict =:= inconclusive
->
    Report;
checked(Other) ->
    {crashed, {error, {bad_return_value, Other}, []}}.

-doc "Tells a monitor that its deadline is over.".
-spec timeout(module(), integer(), state()) -> outcome().
timeout(Module, TimeNs, State) ->
    safely(fun() -> checked(Module:timeout(TimeNs, State)) end).

-doc "Tells a monitor that its process has ended.".
-spec ended(module(), state()) -> outcome().
ended(Module, State) ->
    case erlang:function_exported(Module, ended, 1) of
        true ->
            safely(fun() ->
                case Module:ended(State) of
                    none -> {next, State};
                    {Verdict, Explanation} -> checked({Verdict, Explanation, State})
                end
            end);
        false ->
            {next, State}
    end.

-doc "When the monitor is to be told the time; of a module that exports it.".
-spec deadline(module(), state()) -> infinity | integer().
deadline(Module, State) ->
    try
        Module:deadline(State)
    catch
        _:_ -> infinity
    end.

-doc "The key of an event.".
-spec key(module(), dyno_agent_event:event(), process()) -> {ok, term()} | none.
key(Module, Event, Process) ->
    try
        Module:key(Event, Process)
    catch
        _:_ -> none
    end.

-doc "Whether the property is about such an event; of a module that exports it.".
-spec names(module(), dyno_agent_event:event()) -> boolean().
names(Module, Event) ->
    try
        Module:names(Event)
    catch
        _:_ -> false
    end.

-doc """
Whether the monitor goes on after this outcome, with which state, and what is told; of the events
the last one comes first.
""".
-spec decided(outcome(), module(), process(), integer(), Events, trace_state()) ->
    {{on, state()} | off, [{verdict, report()} | {crashed, module(), process(), term()}]}
when
    Events :: [tuple()].
decided({next, State}, _Module, _Process, _TimeNs, _Events, _Trace) ->
    {{on, State}, []};
decided({crashed, Why}, Module, Process, _TimeNs, _Events, _Trace) ->
    {off, [{crashed, Module, Process, Why}]};
decided({report, Verdict, Explanation, State}, Module, Process, TimeNs, Events, Trace) ->
    {off, Told} = decided({Verdict, Explanation, State}, Module, Process, TimeNs, Events, Trace),
    {{on, State}, Told};
decided({Verdict, Explained, _State}, Module, Process, TimeNs, Last, Trace) ->
    {Explanation, Events} = dyno_agent_key_events:of_report(Module, Explained, Last),
    Report = #{
        property => map_get(property, maps:merge(needs(Module), Explanation)),
        monitor => Module,
        verdict => Verdict,
        process => Process,
        node => node(),
        time_ns => TimeNs,
        events => lists:reverse(Events),
        explanation => Explanation,
        trace => Trace
    },
    {off, [{verdict, Report}]}.
