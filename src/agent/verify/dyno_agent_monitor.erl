%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_monitor).
-moduledoc """
The behaviour of monitors, which `dyno verify` runs for each watched process.

A monitor has a state for each process. It gets the process's events one by one, in order, and ends
with `yes` or `no`. Then it gets no more events of that process.

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

Monitors run in the target, several in one process: they may call only kernel and stdlib, must not
receive messages, and should take microseconds. A crash is counted, and ends the monitor
inconclusive for that process. A monitor that never returns is stopped for good.

A monitor with a key (`key => true`) has a state for each key instead, across processes: `c:key/2`
gives an event's key, and `c:init/1` gets the process of the first event with the key.
""".

-export([
    needs/1, table/2, has_key/1, init/2, step/4, timeout/3, ended/2, deadline/2, key/3, names/2
]).
-export([step/5, decided/6]).
-export_type([process/0, verdict/0, explanation/0, needs/0, selector/0, event_filter/0]).
-export_type([state/0, decision/0, outcome/0, report/0, trace_state/0]).

-define(CRASHED, Class:Reason:Stack -> {crashed, {Class, Reason, Stack}}).

-type state() :: term().
-type process() :: dyno_agent_event:process().
-type verdict() :: yes | no | inconclusive.

-type explanation() :: #{
    property => unicode:chardata(),
    step => unicode:chardata(),
    bindings => #{atom() => term()},
    atom() => term()
}.

-doc """
Selects processes. `function`: the function that the process runs, seen through proc_lib, gen and
funs; `module`: any function of the module; `application`: functions of its modules. A name or label
that a process takes later starts its trace there: the trace is partial.
""".
-type selector() ::
    {function, module(), atom(), arity() | '_'}
    | {module, module()}
    | {registered, atom()}
    | {label, term()}
    | {application, atom()}
    | {pid, pid()}.

-doc """
Selects events. `{send, Heads}` and `{'receive', Heads}` filter at the source: a head `{Arguments,
Guards}` is as in `trace:send/3` and `trace:recv/3`, with the arguments `[To, Message]` or `[Node,
From, Message]`. `{call, M, F, A, Guards}` filters calls likewise, with `undefined` for all calls.
The first event, `spawned`, and `exit` always come.
""".
-type event_filter() ::
    send
    | 'receive'
    | spawn
    | exit
    | {send | 'receive', [{Arguments :: [term()] | '_', Guards :: [term()]}]}
    | {call, module(), atom(), arity() | '_', undefined | {Arguments :: [term()] | '_', [term()]}}
    %% Calls with their returns and exceptions. Prevents tail calls.
    | {return, module(), atom(), arity() | '_'}
    | register.

-type needs() :: #{
    %% The property's name for people; default: the module's.
    property => unicode:chardata(),
    select := [selector()],
    events := [event_filter()],
    %% One state for each key, over several processes; default: false.
    key => boolean(),
    %% Warnings for the user of this monitor; default: none.
    warnings => [unicode:chardata()]
}.

-type decision() ::
    {next, state()}
    | {verdict(), explanation(), state()}
    | {report, verdict(), explanation(), state()}.

-type crashed() :: {crashed, {Class :: atom(), Reason :: term(), Stack :: list()}}.

-doc "The result of a step; `crashed` after an exception.".
-type outcome() :: decision() | crashed().

-doc "`complete`: from `spawned` on; `partial`: from the middle; `gap`: cut off.".
-type trace_state() :: complete | partial | gap.

-type report() :: #{
    property := unicode:chardata(),
    monitor := module(),
    verdict := verdict(),
    process := process(),
    node := node(),
    %% Monotonic time of the node.
    time_ns := integer(),
    %% The last events, newest last.
    events := [
        {TimeNs :: integer(), dyno_agent_event:event()}
        | {TimeNs :: integer(), pid(), dyno_agent_event:event()}
    ],
    %% For a monitor with a key.
    key => term(),
    explanation := explanation(),
    trace := trace_state()
}.

-callback needs() -> needs().
-callback init(process()) -> state().
-doc "Like `c:event/3`, with the event's process, for a monitor with a key.".
-callback event(dyno_agent_event:event(), TimeNs :: integer(), pid(), state()) -> decision().
-doc "After `report` the verdict is reported, and the monitor goes on.".
-callback event(dyno_agent_event:event(), TimeNs :: integer(), state()) -> decision().
-doc "The process has ended, after its event `exit`, without a decision.".
-callback ended(state()) -> {verdict(), explanation()} | none.
-doc "The monotonic time of the next `c:timeout/2`.".
-callback deadline(state()) -> infinity | TimeNs :: integer().
-doc "The time follows the events, behind the clock: none from before the deadline still comes.".
-callback timeout(TimeNs :: integer(), state()) -> decision().
-doc "The key of an event, or `none`.".
-callback key(dyno_agent_event:event(), process()) -> {ok, term()} | none.

-doc "Whether it names this event, by default of `c:needs/0`; without one nothing is proven.".
-callback names(dyno_agent_event:event()) -> boolean().

-optional_callbacks([event/4, ended/1, deadline/1, timeout/2, key/2, names/1]).

-doc "A monitor's needs, with defaults.".
-spec needs(module()) -> needs().
needs(Module) ->
    Defaults = #{property => atom_to_binary(Module), key => false, warnings => []},
    maps:merge(Defaults, Module:needs()).

-doc "Maps processes to monitors by selectors; modules of applications are this node's.".
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
    try
        {next, Module:init(Process)}
    catch
        ?CRASHED
    end.

-doc "Gives an event to a monitor.".
-spec step(module(), dyno_agent_event:event(), integer(), state()) -> outcome().
step(Module, Event, TimeNs, State) ->
    try Module:event(Event, TimeNs, State) of
        {next, _} = Next -> Next;
        Decision -> checked(Decision)
    catch
        ?CRASHED
    end.

-doc "Gives an event of this process to a monitor with a key.".
-spec step(module(), pid(), dyno_agent_event:event(), integer(), state()) -> outcome().
step(Module, Pid, Event, TimeNs, State) ->
    case erlang:function_exported(Module, event, 4) of
        true ->
            try
                checked(Module:event(Event, TimeNs, Pid, State))
            catch
                ?CRASHED
            end;
        false ->
            step(Module, Event, TimeNs, State)
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
    bad(Other).

bad(Value) -> {crashed, {error, {bad_return_value, Value}, []}}.

-doc "Reports a passed deadline to a monitor.".
-spec timeout(module(), integer(), state()) -> outcome().
timeout(Module, TimeNs, State) ->
    try
        checked(Module:timeout(TimeNs, State))
    catch
        ?CRASHED
    end.

-doc "Reports the end of its process to a monitor.".
-spec ended(module(), state()) -> outcome().
ended(Module, State) ->
    case erlang:function_exported(Module, ended, 1) of
        true ->
            try Module:ended(State) of
                none -> {next, State};
                {Verdict, Explanation} -> checked({Verdict, Explanation, State});
                Other -> bad(Other)
            catch
                ?CRASHED
            end;
        false ->
            {next, State}
    end.

-doc "The next timeout of a monitor; for a module that exports `c:deadline/1`.".
-spec deadline(module(), state()) -> infinity | integer() | crashed().
deadline(Module, State) ->
    try Module:deadline(State) of
        Deadline when is_integer(Deadline); Deadline =:= infinity -> Deadline;
        Other -> bad(Other)
    catch
        ?CRASHED
    end.

-doc "The key of an event.".
-spec key(module(), dyno_agent_event:event(), process()) -> {ok, term()} | none | crashed().
key(Module, Event, Process) ->
    try Module:key(Event, Process) of
        {ok, _} = Key -> Key;
        none -> none;
        Other -> bad(Other)
    catch
        ?CRASHED
    end.

-doc "Whether the property names this event; for a module that exports `c:names/1`.".
-spec names(module(), dyno_agent_event:event()) -> boolean() | crashed().
names(Module, Event) ->
    try Module:names(Event) of
        Is when is_boolean(Is) -> Is;
        Other -> bad(Other)
    catch
        ?CRASHED
    end.

-doc "After an outcome: whether the monitor goes on, its state, the report; newest events first.".
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
