%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_limit).
-moduledoc false.
%% Checks the backlog of a tracer each 2 ms, with priority max. The tracer cuts processes off itself
%% (dyno_agent_event_flow), but only when scheduled: behind hundreds of busy processes, or in a slow
%% monitor, that is too late.
%%
%%   at the limit      tracing of all running processes ends; {gap_all, TimeNs} follows the backlog
%%   a quarter more    the same for processes started since
%%   twice the memory  the session is closed; the parent gets {dyno_agent_event_limit, Pid}

-export([start_link/1, words/0]).
-export([init/1]).
-export_type([config/0, words/0]).

-doc "The mean size of an event in words, set by the tracer.".
-type words() :: atomics:atomics_ref().

-type config() :: #{
    parent := pid(),
    tracer := pid(),
    session := dyno_agent_event_session:t(),
    words := words(),
    limits := dyno_agent_event_flow:limits()
}.

-define(LOOK_MS, 2).
-define(MORE, 0.25).

-spec start_link(config()) -> pid().
start_link(Config) ->
    Pid = proc_lib:spawn_opt(?MODULE, init, [Config], [link, {priority, max}]),
    true = is_pid(Pid),
    Pid.

-spec words() -> words().
words() ->
    Words = atomics:new(1, []),
    ok = atomics:put(Words, 1, dyno_agent_event_flow:words(dyno_agent_event_flow:new(#{}))),
    Words.

-spec init(config()) -> no_return().
init(Config) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    look(Config, 1.0).

%% `Next`: the filled share of the limits at which processes are cut off next.
look(#{tracer := Tracer, words := Words, limits := Limits} = Config, Next) ->
    timer:sleep(?LOOK_MS),
    Waiting = lists:sum([N || {_, N} <- [process_info(Tracer, message_queue_len)]]),
    {Events, Memory} = dyno_agent_event_flow:fill(Waiting, atomics:get(Words, 1), Limits),
    Fill = max(Events, Memory),
    case Fill >= Next of
        true when Next > 1.0, Memory >= 2.0 -> over(Config);
        true -> cut(Config, Fill);
        false when Fill < 1.0 -> look(Config, 1.0);
        false -> look(Config, Next)
    end.

cut(#{session := Session, tracer := Tracer} = Config, Fill) ->
    ok = dyno_agent_event_session:ignore(existing, Session),
    Tracer ! {gap_all, erlang:monotonic_time(nanosecond)},
    look(Config, Fill + ?MORE).

%% The parent ends this process.
-spec over(config()) -> no_return().
over(#{session := Session, parent := Parent}) ->
    ok = dyno_agent_event_session:close(Session),
    Parent ! {?MODULE, self()},
    receive
    after infinity -> ok
    end.
