%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_readings).
-moduledoc """
Reads one number at an interval by a function, and keeps at most 2,000 readings: then every second
one is dropped, and the interval doubles until the next `restart/1`.
""".

-behaviour(gen_server).

-export([start_link/2, restart/1, read/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([readings/0]).

-doc "Oldest first. Times count from the last `restart/1`.".
-type readings() :: [{TimeMs :: non_neg_integer(), number() | undefined}].

-type state() :: #{
    read := fun(() -> number() | undefined),
    interval_ms := pos_integer(),
    %% In milliseconds: the restart, and the current interval.
    start := integer(),
    step := pos_integer(),
    timer := reference(),
    %% Newest first.
    readings := readings(),
    count := non_neg_integer()
}.

-define(MOST, 2000).

-doc "Starts to read; `undefined` is a reading without a value.".
-spec start_link(pos_integer(), fun(() -> number() | undefined)) -> gen_server:start_ret().
start_link(IntervalMs, Read) ->
    gen_server:start_link(?MODULE, {IntervalMs, Read}, []).

-doc "Drops the readings; takes a new one at once.".
-spec restart(pid()) -> ok.
restart(Pid) -> gen_server:call(Pid, restart, infinity).

-doc "Reads once more and returns all readings.".
-spec read(pid()) -> readings().
read(Pid) -> gen_server:call(Pid, read, infinity).

-spec init({pos_integer(), fun(() -> number() | undefined)}) -> {ok, state()}.
init({IntervalMs, Read}) ->
    proc_lib:set_label(?MODULE),
    {ok, restarted(#{read => Read, interval_ms => IntervalMs, timer => make_ref()})}.

restarted(#{interval_ms := IntervalMs} = State) ->
    Start = erlang:monotonic_time(millisecond),
    taken(State#{start => Start, step => IntervalMs, readings => [], count => 0}).

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, restarted(State)};
handle_call(read, _From, State) ->
    #{readings := Readings} = Last = taken(State),
    {reply, lists:reverse(Readings), Last}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({timeout, Timer, take}, #{timer := Timer} = State) ->
    {noreply, taken(State)};
handle_info(_Other, State) ->
    {noreply, State}.

taken(#{count := ?MOST, step := Step, readings := Readings} = State) ->
    Kept = [Reading || {N, Reading} <- lists:enumerate(Readings), N rem 2 =:= 1],
    taken(State#{count := length(Kept), step := 2 * Step, readings := Kept});
taken(#{read := Read, start := Start, step := Step, timer := Timer} = State) ->
    #{readings := Readings, count := Count} = State,
    TimeMs = erlang:monotonic_time(millisecond) - Start,
    _ = erlang:cancel_timer(Timer),
    State#{
        timer := erlang:start_timer(Step, self(), take),
        readings := [{TimeMs, Read()} | Readings],
        count := Count + 1
    }.
