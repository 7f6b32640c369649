%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_sampler).
-moduledoc """
Reads the VM and the operating system at an interval and sends the figures to the caller.

Sends `{dyno_sample, Sampler, TimeMs, Figures, CostUs}` where `TimeMs` counts from the last
`restart/1` by the target's own clock, `Figures` is what happened since the sample before, and
`CostUs` is what taking it cost.
""".

-behaviour(gen_server).

-export([start_link/1, restart/1, last/1, describe/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0]).

-type config() :: #{
    sink := pid(),
    interval_ms := pos_integer()
}.

-type state() :: #{
    sink := pid(),
    interval_ms := pos_integer(),
    start := integer(),
    timer := reference(),
    raw := {dyno_agent_vm:raw(), dyno_agent_os:raw()}
}.

-doc "Starts sampling; the first sample comes after one interval.".
-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-doc "Takes a sample, and counts time from now on.".
-spec restart(pid()) -> ok.
restart(Pid) ->
    gen_server:call(Pid, restart).

-doc "Takes a sample now, so that the last moments are covered.".
-spec last(pid()) -> ok.
last(Pid) ->
    gen_server:call(Pid, last).

-doc "The values that this node has, with their units and titles.".
-spec describe(pid()) -> [dyno_agent_vm:metric()].
describe(Pid) ->
    gen_server:call(Pid, describe).

-spec init(config()) -> {ok, state()}.
init(#{sink := Sink, interval_ms := IntervalMs}) ->
    proc_lib:set_label(?MODULE),
    %% An urgent reader: on an overloaded node it is the one that must still see.
    process_flag(priority, high),
    ok = dyno_agent_vm:enable(),
    State = #{
        sink => Sink,
        interval_ms => IntervalMs,
        start => erlang:monotonic_time(),
        timer => make_ref(),
        raw => read()
    },
    {ok, schedule(State)}.

read() ->
    {dyno_agent_vm:read(), dyno_agent_os:read()}.

schedule(#{interval_ms := IntervalMs, timer := Old} = State) ->
    _ = erlang:cancel_timer(Old),
    State#{timer := erlang:start_timer(IntervalMs, self(), sample)}.

-spec handle_call(restart | last | describe, gen_server:from(), state()) ->
    {reply, ok | [dyno_agent_vm:metric()], state()}.
handle_call(describe, _From, State) ->
    {reply, dyno_agent_vm:describe() ++ dyno_agent_os:describe(), State};
handle_call(restart, _From, State) ->
    {reply, ok, schedule(State#{start := erlang:monotonic_time(), raw := read()})};
handle_call(last, _From, State) ->
    {reply, ok, sample(State)}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({timeout, Timer, sample}, #{timer := Timer} = State) ->
    {noreply, schedule(sample(State))};
handle_info(_Other, State) ->
    {noreply, State}.

sample(#{sink := Sink, start := Start, raw := {Vm0, Os0}} = State) ->
    Before = erlang:monotonic_time(),
    {Vm, Os} = Raw = read(),
    Figures = maps:merge(dyno_agent_vm:difference(Vm0, Vm), dyno_agent_os:difference(Os0, Os)),
    After = erlang:monotonic_time(),
    TimeMs = erlang:convert_time_unit(Before - Start, native, millisecond),
    CostUs = erlang:convert_time_unit(After - Before, native, microsecond),
    Sink ! {dyno_sample, self(), TimeMs, Figures, CostUs},
    State#{raw := Raw}.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, _State) ->
    ok.
