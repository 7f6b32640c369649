%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verifier).
-moduledoc false.
%% Runs monitors in a target: sends verdicts and faults to its sink as `{dyno_verify, node(),
%% Message}`, with `t:message/0`, and returns the counts. An instrumentation, a module of this
%% behaviour, brings the events to the monitors: dyno_agent_verify, or one that is compared with it.

-behaviour(gen_server).

-export([start_link/1, peek/1, finish/1]).
-export([fault/2, gave_up/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, state/0, message/0, summary/0]).

-type config() :: #{
    instrumentation := module(),
    monitors := [module(), ...],
    sink := pid(),
    %% In place of the monitors' own.
    select => [dyno_agent_monitor:selector()],
    %% The most waiting events, their memory, and the rate.
    limits => dyno_agent_event_limit:limits(),
    %% The last events shown with a verdict.
    events => non_neg_integer(),
    atom() => term()
}.

-type state() :: #{
    config := config(),
    monitors := [module()],
    choice := dyno_agent_process_filter:table(module()),
    verdicts := dyno_agent_verdicts:t(),
    %% Newest first.
    faults := [unicode:chardata()],
    started := integer(),
    atom() => term()
}.

-type message() ::
    {verdict, dyno_agent_monitor:report()}
    | {crashed, module(), dyno_agent_event:process(), {atom(), term(), list()}}
    | {fault, unicode:chardata()}
    %% Monitoring has ended; the fault before tells why.
    | gave_up.

-type summary() :: #{
    node := node(),
    duration_ns := non_neg_integer(),
    %% Faults of dyno's own processes.
    faults := [unicode:chardata()],
    verdicts := dyno_agent_verdicts:summary(),
    properties := #{module() => unicode:chardata()}
}.

-callback start(state()) -> state().
-doc "Stops tracing; returns after all earlier events.".
-callback stop(state()) -> state().
-doc "Each second `tick`, and messages that are not from monitors.".
-callback info(term(), state()) -> state().
-callback terminate(state()) -> term().

-define(TICK_MS, 1000).
-define(CALL_MS, 120_000).

-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-spec peek(pid()) -> summary().
peek(Pid) -> gen_server:call(Pid, peek, ?CALL_MS).

-doc "Stops monitoring, and returns the counts after all earlier events.".
-spec finish(pid()) -> summary().
finish(Pid) -> gen_server:call(Pid, finish, ?CALL_MS).

-spec init(config()) -> {ok, state()}.
init(#{instrumentation := By, monitors := Monitors} = Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(By),
    ok = dyno_agent_process:unlimited(),
    _ = erlang:send_after(?TICK_MS, self(), tick),
    {ok,
        By:start(#{
            config => Config,
            monitors => Monitors,
            choice => dyno_agent_monitor:table(Monitors, Config),
            verdicts => dyno_agent_verdicts:new(Monitors, self()),
            faults => [],
            started => erlang:monotonic_time(nanosecond)
        })}.

-spec handle_call(peek | finish, gen_server:from(), state()) -> {reply, summary(), state()}.
handle_call(peek, _From, State) ->
    {reply, summary(erlang:monotonic_time(nanosecond), State), State};
handle_call(finish, _From, #{config := #{instrumentation := By}} = State) ->
    %% No event is later; those that wait take their time.
    Until = erlang:monotonic_time(nanosecond),
    Finished = flushed(By:stop(State)),
    {reply, summary(Until, Finished), Finished}.

flushed(State) ->
    receive
        {dyno_agent_verdicts, What} -> flushed(told(What, State))
    after 0 -> State
    end.

summary(Until, #{verdicts := Verdicts, faults := Faults, started := Started, config := Config}) ->
    #{
        node => node(),
        duration_ns => Until - Started,
        faults => lists:reverse(Faults),
        verdicts => dyno_agent_verdicts:read(Verdicts),
        properties =>
            #{
                Module => map_get(property, dyno_agent_monitor:needs(Module))
             || Module <- map_get(monitors, Config)
            }
    }.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({dyno_agent_verdicts, What}, State) ->
    {noreply, told(What, State)};
handle_info(Message, #{config := #{instrumentation := By}, verdicts := Verdicts} = State) ->
    case Message of
        tick ->
            _ = erlang:send_after(?TICK_MS, self(), tick),
            dyno_agent_verdicts:tick(Verdicts);
        _ ->
            ok
    end,
    {noreply, By:info(Message, State)}.

told({verdict, #{process := Process} = Report}, State) ->
    send({verdict, Report#{process := named(Process)}}, State);
told({crashed, Module, Process, Why}, State) ->
    send({crashed, Module, named(Process), Why}, State);
told({fault, Text}, State) ->
    fault(Text, State).

%% While the process lives: the runtime drops the name of an ended one.
named(#{pid := Pid} = Process) ->
    case dyno_agent_event:describe(Pid) of
        gone -> Process;
        Known -> maps:merge(maps:with([name, label], Known), Process)
    end.

send(What, #{config := #{sink := Sink}} = State) ->
    _ = erlang:send(Sink, {dyno_verify, node(), What}, [noconnect]),
    State.

-spec fault(unicode:chardata(), state()) -> state().
fault(Text, #{faults := Faults} = State) ->
    send({fault, Text}, State#{faults := [Text | Faults]}).

-doc "Ends monitoring. The sink is informed after the last verdicts.".
-spec gave_up(state()) -> state().
gave_up(State) -> send(gave_up, flushed(State)).

-spec terminate(term(), state()) -> term().
terminate(_Reason, #{config := #{instrumentation := By}} = State) ->
    By:terminate(State).
