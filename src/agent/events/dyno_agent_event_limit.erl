%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_limit).
-moduledoc false.
%% Checks the backlog of a tracer and its shards each 2 ms, with priority max. Tracer and shards cut
%% processes off themselves (dyno_agent_event_flow), but only when scheduled: behind hundreds of
%% busy processes, or in a slow monitor, that is too late.
%%
%%   at the limit      tracing of all running processes ends; {gap_all, TimeNs} follows the backlog
%%   a quarter more    the same for processes started since
%%   twice the memory  the session is closed; the parent gets {dyno_agent_event_limit, Pid}

-export([start_link/1, watch/2, words/0]).
-export([init/1]).
-export_type([config/0, words/0]).

-doc "The mean size of an event in words, set by the tracer.".
-type words() :: atomics:atomics_ref().

-type config() :: #{
    parent := pid(),
    tracer := pid(),
    session := dyno_agent_event_session:t(),
    %% Including the tracer.
    pids := [pid()],
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

-spec watch(pid(), [pid()]) -> ok.
watch(Limit, Pids) ->
    Limit ! {pids, Pids},
    ok.

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
look(#{pids := Pids, words := Words, limits := Limits} = Config, Next) ->
    receive
        {pids, Others} -> look(Config#{pids := Others}, Next)
    after ?LOOK_MS ->
        Waiting = lists:sum([
            N
         || Pid <- Pids, {message_queue_len, N} <- [process_info(Pid, message_queue_len)]
        ]),
        {Events, Memory} = dyno_agent_event_flow:fill(Waiting, atomics:get(Words, 1), Limits),
        Fill = max(Events, Memory),
        case Fill >= Next of
            true when Next > 1.0, Memory >= 2.0 -> over(Config);
            true -> cut(Config, Fill);
            false when Fill < 1.0 -> look(Config, 1.0);
            false -> look(Config, Next)
        end
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
