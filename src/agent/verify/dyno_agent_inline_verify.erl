%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_inline_verify).
-moduledoc """
Runs monitors in the processes themselves, where their modules were woven with `m:dyno_inline`. With
`stop => true` a process that is about to break a property exits instead.

Nothing is traced and nothing waits. A monitor that is slow slows its process, one that never
returns
stops it; a process that is killed has no `exit`. Deadlines are not watched.
""".

-behaviour(dyno_agent_verifier).
-behaviour(gen_server).

-export([start_link/1, peek/1, finish/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-type state() :: #{
    sink := pid(), verdicts := dyno_agent_verdicts:t(), started := integer(), faults := [binary()]
}.

-define(TICK_MS, 1000).

-spec start_link(dyno_agent_verifier:config()) -> gen_server:start_ret().
start_link(Config) -> gen_server:start_link(?MODULE, Config, []).

-spec peek(pid()) -> dyno_agent_verifier:summary().
peek(Pid) -> gen_server:call(Pid, peek, infinity).

-spec finish(pid()) -> dyno_agent_verifier:summary().
finish(Pid) -> gen_server:call(Pid, finish, infinity).

-doc false.
-spec init(dyno_agent_verifier:config()) -> {ok, state()}.
init(#{monitors := Monitors, sink := Sink} = Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    Verdicts = dyno_agent_verdicts:new(1, Monitors, self()),
    Needs = [{Monitor, dyno_agent_monitor:needs(Monitor)} || Monitor <- Monitors],
    Choice = dyno_agent_event_choice:new([
        {Monitor, maps:get(select, Config, Select)}
     || {Monitor, #{select := Select}} <- Needs
    ]),
    Options = maps:with([events], Config),
    ok = dyno_agent_inline:start(#{
        partitions => dyno_agent_partition:new(Monitors, Options#{choice => Choice}),
        verdicts => Verdicts,
        stop => maps:get(stop, Config, false)
    }),
    _ = erlang:send_after(?TICK_MS, self(), tick),
    {ok, #{
        sink => Sink,
        verdicts => Verdicts,
        started => erlang:monotonic_time(nanosecond),
        faults => [
            ~"inline has no monitors with keys; use partition"
         || {_, #{key := true}} <- Needs
        ]
    }}.

-doc false.
-spec handle_call(peek | finish, gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(peek, _From, State) ->
    {reply, summary(State), State};
handle_call(finish, _From, State) ->
    ok = dyno_agent_inline:stop(),
    {reply, summary(State), State}.

summary(#{verdicts := Verdicts, started := Started, faults := Faults}) ->
    #{
        node => node(),
        duration_ns => erlang:monotonic_time(nanosecond) - Started,
        faults => Faults,
        verdicts => dyno_agent_verdicts:read(Verdicts)
    }.

-doc false.
-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) -> {noreply, State}.

-doc false.
-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(tick, #{verdicts := Verdicts} = State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    ok = dyno_agent_verdicts:tick(Verdicts),
    {noreply, State};
handle_info({dyno_agent_verdicts, What}, #{sink := Sink} = State) ->
    _ = erlang:send(Sink, {dyno_verify, node(), What}, [noconnect]),
    {noreply, State};
handle_info(_Other, State) ->
    {noreply, State}.

-doc false.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, _State) -> dyno_agent_inline:stop().
