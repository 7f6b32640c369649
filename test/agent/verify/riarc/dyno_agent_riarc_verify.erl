%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_riarc_verify).
-moduledoc """
Runs monitors as RIARC does: a tracer for each process with monitors and its descendants without
any, and one for the rest. For comparison with dyno_agent_verify, which gives the same verdicts,
costs less, and is bounded.

```
session 1 --> collector 1 --> root, T(P), ...      each tracer: dyno_agent_riarc, monitors
session 2 --> collector 2 --> T(Q), T(R), ...
```

All processes are traced, because a parent's tracer traces its children; those that other nodes
start (by erpc) are the root's. Processes are selected by start function: names and labels are
unknown at spawn, and running processes get no tracer of their own. Monitors with keys or deadlines
need dyno_agent_verify. The backlog is unbounded.
""".

-behaviour(dyno_agent_verifier).

-export([start/1, stop/1, info/2, terminate/1]).

-define(QUIET_MS, 20).
-define(DRAIN_MS, 20_000).

-spec start(dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
start(#{config := Config, monitors := Monitors, choice := Choice} = State) ->
    Needs = [dyno_agent_monitor:needs(Monitor) || Monitor <- Monitors],
    Table = ets:new(?MODULE, [public, {read_concurrency, true}]),
    Collectors = [
        dyno_agent_riarc_session:start_link()
     || _ <- lists:seq(1, maps:get(shards, Config, erlang:system_info(schedulers_online)))
    ],
    Sessions = [dyno_agent_event_session:open(Pid, Needs, Choice) || Pid <- Collectors],
    Own = [self() | Collectors],
    Before = existing(hd(Sessions), Own, []),
    ok = dyno_agent_event_session:new(hd(Sessions)),
    %% Started by another node meanwhile.
    Existing = existing(hd(Sessions), Own, Before),
    Root = dyno_agent_riarc_tracer:start_root(Existing, #{
        table => Table,
        homes => list_to_tuple(Collectors),
        owner => self(),
        choice => Choice,
        %% A tracer sees the events of a part of the processes: no conversation is whole.
        monitors => Monitors -- with_keys(Monitors),
        options => maps:with([events], Config),
        verdicts => map_get(verdicts, State)
    }),
    Outside = {root, Root},
    First = {#{Pid => Outside || Pid <- [outside | Existing]}, [Root | Own], Outside},
    lists:foreach(
        fun({Pid, Session, Begin}) -> dyno_agent_riarc_session:traces(Pid, Session, Begin) end,
        lists:zip3(Collectors, Sessions, [First | [{#{}, [], none} || _ <- tl(Collectors)]])
    ),
    Started = State#{table => Table, collectors => Collectors, sessions => Sessions},
    Missed = [
        Monitor
     || Pid <- Existing,
        #{} = Process <- [dyno_agent_event:describe(Pid)],
        Monitor <- dyno_agent_process_filter:of_process(Process, Choice)
    ],
    ok = undecided(Missed ++ with_keys(Monitors) ++ by_name(Needs, Monitors), State),
    lists:foldl(fun dyno_agent_verifier:fault/2, Started, unsupported(Monitors, Choice, Missed)).

%% Their processes are not all monitored: nothing passes.
undecided(Monitors, #{verdicts := Verdicts}) ->
    dyno_agent_verdicts:count([{unsure, M, unsupported} || M <- lists:uniq(Monitors)], Verdicts).

with_keys(Monitors) -> [M || M <- Monitors, dyno_agent_monitor:has_key(M)].

by_name(Needs, Monitors) ->
    [
        Monitor
     || {#{select := Select}, Monitor} <- lists:zip(Needs, Monitors),
        lists:keymember(registered, 1, Select) orelse lists:keymember(label, 1, Select)
    ].

%% An untraced process was started by an untraced process: it is the root's. Others are seen,
%% because their parents were traced.
existing(Session, Not, Found) ->
    New = [Pid || Pid <- processes() -- Not, not dyno_agent_event_session:is_traced(Pid, Session)],
    case [Pid || Pid <- New, dyno_agent_riarc_session:follow_tree(Pid, Session)] of
        [] -> Found;
        Traced -> existing(Session, Not, Traced ++ Found)
    end.

unsupported(Monitors, Choice, Missed) ->
    [
        ~"riarc has no monitors with keys; use partition"
     || with_keys(Monitors) =/= []
    ] ++
        [
            ~"riarc does not monitor processes that ran before; use partition"
         || Missed =/= []
        ] ++
        [
            ~"riarc chooses no processes by name or label; use partition"
         || dyno_agent_process_filter:has([registered, label], Choice)
        ].

-spec stop(dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
stop(#{sessions := Sessions} = State) ->
    lists:foreach(fun dyno_agent_event_session:close/1, Sessions),
    Until = erlang:monotonic_time(millisecond) + ?DRAIN_MS,
    Stopped = State#{sessions := []},
    case Sessions =:= [] orelse drained(none, Until, State) of
        true ->
            Stopped;
        false ->
            _ = dyno_agent_verdicts:lost(map_get(verdicts, State)),
            dyno_agent_verifier:fault(~"not all events were done when time was over", Stopped)
    end.

%% No messages wait, and none was handled since the last check.
drained(Before, Until, #{verdicts := Verdicts, collectors := Collectors, table := Table} = State) ->
    Tracers = tracers(Table),
    All = Collectors ++ Tracers,
    Waiting = lists:sum([N || Pid <- All, {_, N} <- [process_info(Pid, message_queue_len)]]),
    %% The operating system may have interrupted the last message.
    Busy = [Pid || Pid <- All, {_, Is} <- [process_info(Pid, status)], Is =/= waiting],
    #{events := Events} = dyno_agent_verdicts:read(Verdicts),
    Now = {Events, length(Tracers), Waiting + length(Busy)},
    case Now of
        {_, _, 0} when Now =:= Before ->
            true;
        _ ->
            timer:sleep(?QUIET_MS),
            erlang:monotonic_time(millisecond) < Until andalso drained(Now, Until, State)
    end.

tracers(Table) ->
    ets:select(Table, [{{'_', '$1', '_'}, [], ['$1']}]).

-spec info(term(), dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
info({'EXIT', Pid, Reason}, #{collectors := Collectors} = State) when Reason =/= normal ->
    lists:member(Pid, Collectors) andalso exit({shutdown, {collector, Reason}}),
    %% The tracer's processes are unknown now: no open partition is whole.
    _ = dyno_agent_verdicts:lost(map_get(verdicts, State)),
    dyno_agent_verifier:fault(~"a tracer was killed: its processes are not monitored", State);
info(_Other, State) ->
    State.

%% Links do not end the tracers if this process ends normally.
-spec terminate(dyno_agent_verifier:state()) -> ok.
terminate(#{collectors := Collectors, table := Table}) ->
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, Collectors ++ tracers(Table)).
