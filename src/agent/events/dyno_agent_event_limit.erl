%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_limit).
-moduledoc false.
%% Keeps the waiting events of a tracer within limits: checks its backlog each 2 ms, with priority
%% max.
%%
%% A tracer cannot slow traced processes: its backlog waits in its mailbox. From half of a limit on,
%% the tracer is to cut off a share of the processes, chosen by identifier and so stable under load.
%% Their partitions end with a gap; the others stay whole. Behind hundreds of busy processes, or in
%% a slow monitor, a tracer does that too late:
%%
%%   at the limit      tracing of all running processes ends; {gap_all, TimeNs} follows the backlog
%%   a quarter more    the same for processes started since
%%   twice the memory  the session is closed; the parent gets {dyno_agent_event_limit, Pid}

-export([start_link/1, defaults/0]).
%% For the tracer
-export([new/0, came/3, is_cut/2]).
-export([init/1]).
-export_type([config/0, limits/0, flow/0]).

-type limits() :: #{
    %% Waiting events, and their memory.
    queue => pos_integer(),
    bytes => pos_integer(),
    %% Events a second.
    rate => pos_integer() | infinity
}.

-doc "An event's mean size (words / 100), the events that came, and processes to cut of 1,024.".
-opaque flow() :: atomics:atomics_ref().

-type config() :: #{
    parent := pid(),
    tracer := pid(),
    session := dyno_agent_event_session:t(),
    flow := flow(),
    limits := limits()
}.

-define(WORDS, 1).
-define(CAME, 2).
-define(CUT, 3).
-define(LOOK_MS, 2).
-define(MORE, 0.25).
-define(RATE_NS, 100_000_000).
-define(FIRST_WORDS, 4000).
%% The overhead of a message beside its term.
-define(MESSAGE_WORDS, 12).

-spec defaults() -> limits().
defaults() ->
    #{queue => 1_000_000, bytes => 536_870_912, rate => infinity}.

-spec start_link(config()) -> pid().
start_link(Config) ->
    Pid = proc_lib:spawn_opt(?MODULE, init, [Config], [link, {priority, max}]),
    true = is_pid(Pid),
    Pid.

-spec new() -> flow().
new() ->
    Flow = atomics:new(3, []),
    ok = atomics:put(Flow, ?WORDS, ?FIRST_WORDS),
    Flow.

-doc "So many events came since the last call; this is one of them.".
-spec came(pos_integer(), term(), flow()) -> ok.
came(Count, Event, Flow) ->
    Words = 0.9 * atomics:get(Flow, ?WORDS) + 10 * (erts_debug:flat_size(Event) + ?MESSAGE_WORDS),
    ok = atomics:put(Flow, ?WORDS, round(Words)),
    atomics:add(Flow, ?CAME, Count).

-spec is_cut(pid(), flow()) -> boolean().
is_cut(Pid, Flow) ->
    case atomics:get(Flow, ?CUT) of
        0 -> false;
        Cut -> (erlang:phash2(Pid) bsr 12) band 1023 < Cut
    end.

-spec init(config()) -> no_return().
init(Config) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    look(Config, {0, erlang:monotonic_time(nanosecond)}, 1.0).

%% `Next`: the filled share of the limits at which processes are cut off next.
look(#{tracer := Tracer, flow := Flow, limits := Limits} = Config, Since, Next) ->
    timer:sleep(?LOOK_MS),
    #{queue := Queue, bytes := Bytes, rate := Rate} = Limits,
    Waiting = lists:sum([N || {_, N} <- [process_info(Tracer, message_queue_len)]]),
    EventBytes = atomics:get(Flow, ?WORDS) * erlang:system_info(wordsize) / 100,
    Memory = Waiting * EventBytes / Bytes,
    Fill = max(Waiting / Queue, Memory),
    {Over, Then} = rate(Rate, atomics:get(Flow, ?CAME), Since),
    ok = atomics:put(Flow, ?CUT, max(0, min(1024, round((max(Fill, Over) - 0.5) * 2048)))),
    case Fill >= Next of
        true when Next > 1.0, Memory >= 2.0 -> over(Config);
        true -> look(Config, Then, cut(Config, Fill));
        false when Fill < 1.0 -> look(Config, Then, 1.0);
        false -> look(Config, Then, Next)
    end.

%% The share of the rate in the last tenth of a second.
rate(infinity, _Came, Since) ->
    {0, Since};
rate(Rate, Came, {Before, Then}) ->
    Now = erlang:monotonic_time(nanosecond),
    Over = (Came - Before) * 1.0e9 / (Rate * max(Now - Then, ?RATE_NS)),
    case Now - Then > ?RATE_NS of
        true -> {Over, {Came, Now}};
        false -> {Over, {Before, Then}}
    end.

cut(#{session := Session, tracer := Tracer}, Fill) ->
    ok = dyno_agent_event_session:ignore(existing, Session),
    Tracer ! {gap_all, erlang:monotonic_time(nanosecond)},
    Fill + ?MORE.

%% The parent ends this process.
-spec over(config()) -> no_return().
over(#{session := Session, parent := Parent}) ->
    ok = dyno_agent_event_session:close(Session),
    Parent ! {?MODULE, self()},
    receive
    after infinity -> ok
    end.
