%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_tracer).
-moduledoc false.
%% Receives trace messages, and defines the behaviour of their consumers.
%%
%% A consumer is a pure core: `event/2` gets each trace message, `info/2` each other message, and
%% the answer controls tracing. The loop enforces the rate, and drops the backlog if the watchdog
%% (dyno_agent_event_watchdog) stopped tracing at a limit.
%%
%% Filtered calls would still be sent: to see fewer calls, a consumer pauses, which removes the
%% breakpoints, or stops, which destroys the session.

-export([spawn_link/1, go/2, change/3, stop/3, destroy/1]).
-export([init/1]).
-export_type([config/0, consumer/0, answer/0, breakpoint/0, match_spec/0, ended/0]).

-type consumer() :: {module(), term()}.

-type state() :: term().

-doc "`pause` removes breakpoints, `resume` sets them again; returns of open calls are still seen.".
-type answer() :: {ok | pause | resume | {stop, Reason :: term()}, state()}.

-doc "As in `trace:function/4`, which exports no type.".
-type match_spec() :: [{'_' | [term()], [term()], [term()]}].

-type breakpoint() ::
    {mfa() | {module(), atom(), '_'} | on_load, match_spec() | boolean(), list()}.

-type config() :: #{
    consumer := consumer(),
    %% At most, a second.
    rate := pos_integer() | infinity,
    %% Gets the reason when tracing ends.
    watchdog := pid(),
    %% Set by the watchdog at a limit.
    stopped := atomics:atomics_ref()
}.

-record(tracer, {
    module :: module(),
    state :: state(),
    rate :: pos_integer() | infinity,
    watchdog :: pid(),
    stopped :: atomics:atomics_ref(),
    session = none :: trace:session() | none,
    functions = [] :: [breakpoint()],
    paused = false :: boolean(),
    %% Messages since this time.
    since = 0 :: integer(),
    count = 0 :: non_neg_integer()
}).

-doc "The reason and native time of the end, and the number of earlier messages dropped.".
-type ended() :: #{reason := term(), at := integer(), dropped := non_neg_integer()}.

-callback init(term()) -> state().
-callback event(TraceMessage :: tuple(), state()) -> answer().
-doc "`{traces, Session}` before the first event.".
-callback info(Message :: term(), state()) -> answer().
-callback stopped(ended(), state()) -> term().

-define(SECOND_NS, 1_000_000_000).

-spec spawn_link(config()) -> pid().
spawn_link(Config) ->
    %% The consumer is ready before the first message.
    {ok, Pid} = proc_lib:start_link(?MODULE, init, [Config], infinity, [
        {priority, high},
        {message_queue_data, off_heap},
        {min_heap_size, 10_000},
        {fullsweep_after, 100}
    ]),
    Pid.

-spec go(pid(), {trace:session(), [breakpoint()]}) -> ok.
go(Pid, Traced) ->
    Pid ! {?MODULE, go, Traced},
    ok.

-spec change(pid(), {[breakpoint()], term()}, gen_server:from()) -> ok.
change(Pid, Change, From) ->
    Pid ! {?MODULE, change, Change, From},
    ok.

-doc "Reports the end of the session: the tracer handles the backlog, or drops it after a limit.".
-spec stop(pid(), Reason :: term(), At :: integer()) -> ok.
stop(Pid, Reason, At) ->
    Pid ! {?MODULE, stop, Reason, At},
    ok.

-doc "Destroys a session, if it still exists, and returns the time of its last message.".
-spec destroy(trace:session() | none) -> integer().
destroy(none) ->
    erlang:monotonic_time();
destroy(Session) ->
    %% Removing breakpoints takes up to 100 ms; removing the flags first stops the messages.
    try dyno_agent_flags:all(Session, false, [all]) of
        _ ->
            At = erlang:monotonic_time(),
            _ = trace:session_destroy(Session),
            At
    catch
        error:badarg -> erlang:monotonic_time()
    end.

-spec init(config()) -> ok.
init(#{consumer := {Module, Argument}, rate := Rate, watchdog := Watchdog, stopped := Stopped}) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    State = Module:init(Argument),
    ok = proc_lib:init_ack({ok, self()}),
    loop(#tracer{
        module = Module,
        state = State,
        rate = Rate,
        watchdog = Watchdog,
        stopped = Stopped,
        since = now_ns()
    }).

loop(#tracer{module = Module, state = State} = Tracer) ->
    receive
        {?MODULE, go, {Session, Functions}} ->
            Ready = Tracer#tracer{session = Session, functions = Functions},
            answer(Module:info({traces, Session}, State), Ready);
        {?MODULE, change, {Functions, Told}, From} ->
            Changed = Tracer#tracer{functions = Functions, paused = false},
            ok = breakpoints(off, Tracer),
            ok = breakpoints(on, Changed),
            ok = gen_server:reply(From, ok),
            answer(Module:info(Told, State), Changed);
        {?MODULE, stop, Reason, At} ->
            ended(#{reason => Reason, at => At, dropped => 0}, Tracer);
        Message when element(1, Message) =:= trace_ts ->
            traced(Message, Tracer);
        Message ->
            answer(Module:info(Message, State), Tracer)
    end.

traced(Message, #tracer{stopped = Stopped} = Tracer) ->
    case atomics:get(Stopped, 1) of
        0 -> in_rate(Message, Tracer);
        _ -> crossed(Tracer)
    end.

%% The backlog is skipped: the watchdog's message comes behind it.
crossed(Tracer) ->
    receive
        {?MODULE, stop, Reason, At} ->
            {message_queue_len, Waiting} = process_info(self(), message_queue_len),
            ended(#{reason => Reason, at => At, dropped => 1 + Waiting}, Tracer)
    end.

in_rate(Message, #tracer{rate = Rate, count = Count, since = Since} = Tracer) when Count >= Rate ->
    Now = now_ns(),
    case Now - Since < ?SECOND_NS of
        true -> stop_here({rate, Rate}, Tracer);
        false -> in_rate(Message, Tracer#tracer{count = 0, since = Now})
    end;
in_rate(Message, #tracer{module = Module, state = State, count = Count} = Tracer) ->
    answer(Module:event(Message, State), Tracer#tracer{count = Count + 1}).

now_ns() -> erlang:monotonic_time(nanosecond).

answer({pause, State}, #tracer{paused = false} = Tracer) ->
    ok = breakpoints(off, Tracer),
    loop(Tracer#tracer{state = State, paused = true});
answer({resume, State}, #tracer{paused = true} = Tracer) ->
    ok = breakpoints(on, Tracer),
    loop(Tracer#tracer{state = State, paused = false});
answer({{stop, Reason}, State}, Tracer) ->
    stop_here(Reason, Tracer#tracer{state = State});
answer({_AsItIs, State}, Tracer) ->
    loop(Tracer#tracer{state = State}).

%% No session yet, or the watchdog has destroyed it.
breakpoints(Turn, #tracer{session = Session, functions = Functions}) ->
    Set = fun
        ({MFA, Spec, Flags}) when Turn =:= on -> trace:function(Session, MFA, Spec, Flags);
        ({MFA, _Spec, Flags}) -> trace:function(Session, MFA, false, Flags)
    end,
    try
        lists:foreach(Set, Functions)
    catch
        error:badarg -> ok
    end.

%% Not through the watchdog, which may have to wait for a scheduler.
stop_here(Reason, #tracer{session = Session, watchdog = Watchdog} = Tracer) ->
    At = destroy(Session),
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    Watchdog ! {?MODULE, self(), stopped},
    ended(#{reason => Reason, at => At, dropped => Waiting}, Tracer).

ended(Ended, #tracer{module = Module, state = State}) ->
    _ = Module:stopped(Ended, State),
    ok.
