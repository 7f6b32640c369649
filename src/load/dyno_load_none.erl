%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_none).
-moduledoc """
The source of a load that dyno does not give: the targets do their own work while dyno measures.
Keeps the time, and has no result.
""".

-behaviour(dyno_load_source).
-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-type state() :: #{
    options := dyno_load_source:options(),
    started_ns := not_yet | integer() | over
}.

-spec start_link(dyno_load_source:options()) -> {ok, pid()}.
start_link(Options) ->
    {ok, _} = gen_server:start_link(?MODULE, Options, []).

%% Instruments need a warm-up too: they learn which functions are called, and how often.
-spec init(dyno_load_source:options()) -> {ok, state()}.
init(#{warmup_ms := WarmupMs} = Options) ->
    _ = erlang:send_after(WarmupMs, self(), warm),
    {ok, #{options => Options, started_ns => not_yet}}.

-spec handle_call(result, gen_server:from(), state()) -> {reply, none, state()}.
handle_call(result, _From, State) ->
    {reply, none, State}.

-spec handle_cast(measure | close, state()) -> {noreply, state()} | {stop, normal, state()}.
handle_cast(measure, #{options := #{duration_ms := DurationMs}} = State) ->
    notify(started, State),
    _ = erlang:send_after(DurationMs, self(), over),
    {noreply, tick(State#{started_ns := erlang:monotonic_time(nanosecond)})};
handle_cast(close, State) ->
    notify({ended, none}, State),
    {stop, normal, State}.

-spec handle_info(warm | tick | over, state()) -> {noreply, state()}.
handle_info(warm, State) ->
    notify(warm, State),
    {noreply, State};
handle_info(tick, #{started_ns := over} = State) ->
    {noreply, State};
handle_info(tick, State) ->
    notify({interval, unknown}, State),
    {noreply, tick(State)};
handle_info(over, #{started_ns := StartedNs} = State) ->
    NowNs = erlang:monotonic_time(nanosecond),
    notify({ending, NowNs}, State),
    notify({finished, NowNs - StartedNs}, State),
    {noreply, State#{started_ns := over}}.

tick(#{options := #{interval_ms := IntervalMs}} = State) ->
    _ = erlang:send_after(IntervalMs, self(), tick),
    State.

notify(Event, #{options := #{sink := Sink}}) ->
    Sink ! {dyno_load, self(), Event},
    ok.
