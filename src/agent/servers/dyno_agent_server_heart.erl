%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_heart).
-moduledoc false.
%% Keeps hooks alive and looks at their processes from outside. Runs in processes of its own, since
%% the instrument may be listing and asking thousands of processes. They end with the instrument.
%%
%% While a callback runs, the looks at the queue tell when messages came. If messages wait and no
%% callback runs, the process waits for a processor or is in a collection. Its hook takes that for a
%% pause, so the looks are left in its counters. A process in a collection does not answer, so the
%% question is recorded too. The asking process waits too, and another one goes on looking.
%%
%% A wait that begins and ends between two looks is not seen: beside each delay the hook counts how
%% long ago the queue was seen without the message.
%%
%% Another process asks those in a long callback whether they are in a dirty scheduler: there the
%% runtime counts a wait for the system as running. Only this process waits for their answers.

-export([start/1, took/2, took_ns/1, beats/2, looks/2, asks/1]).

%% Numbers in `control` of the hooks.
-define(TOOK, 3).
-define(DUE, 4).
-define(TURN, 5).
-define(TICK_NS, 1_000_000_000).
%% Hooks end this long after this process.
-define(DEADLINE_NS, 5_000_000_000).
-define(LOOK_MS, 5).
%% Looking takes at most 1/SHARE of a scheduler's time.
-define(SHARE, 100).
%% A looker that is later than this waits for an answer.
-define(LATE_MS, 40).
-define(PAUSE_NS, 2_000_000).
-define(ASK_MS, 20).
-define(ASKED, 8).

-spec start(dyno_agent_server_hook:shared()) -> pid().
start(Shared) ->
    ok = prolong(Shared),
    spawn_link(?MODULE, beats, [self(), Shared]).

-doc "Counts the time of a helper.".
-spec took(non_neg_integer(), dyno_agent_server_hook:shared()) -> ok.
took(Ns, #{control := Control}) -> atomics:add(Control, ?TOOK, Ns).

-spec took_ns(dyno_agent_server_hook:shared()) -> non_neg_integer().
took_ns(#{control := Control}) -> atomics:exchange(Control, ?TOOK, 0).

-spec beats(pid(), dyno_agent_server_hook:shared()) -> no_return().
beats(Agent, Shared) ->
    _ = spawn_link(?MODULE, asks, [Shared]),
    _ = spawn_link(dyno_agent_server_wakes, watches, [Agent, Shared]),
    ok = begin_turn(Shared),
    beat(now_ns(), Shared).

beat(DueNs, #{control := Control} = Shared) ->
    timer:sleep(?LATE_MS),
    Now = now_ns(),
    IsLate = since_clock(Shared) > atomics:get(Control, ?DUE) + 1_000_000 * ?LATE_MS,
    _ = [ok = begin_turn(Shared) || IsLate],
    case Now >= DueNs of
        true ->
            ok = prolong(Shared),
            beat(Now + ?TICK_NS, Shared);
        false ->
            beat(DueNs, Shared)
    end.

prolong(#{control := Control} = Shared) ->
    atomics:put(Control, 1, since_clock(Shared) + ?DEADLINE_NS).

%% Looking

begin_turn(#{control := Control} = Shared) ->
    ok = atomics:put(Control, ?DUE, since_clock(Shared)),
    _ = spawn_link(?MODULE, looks, [atomics:add_get(Control, ?TURN, 1), Shared]),
    ok.

-spec looks(Turn :: pos_integer(), dyno_agent_server_hook:shared()) -> ok.
looks(Turn, Shared) ->
    process_flag(priority, high),
    looks(Turn, now_ns(), [], Shared).

looks(Turn, AgainNs, Before, #{control := Control} = Shared) ->
    Begun = now_ns(),
    {Hooked, Next} =
        case Begun >= AgainNs of
            true -> {dyno_agent_server_names:hooked(Shared), Begun + ?TICK_NS};
            false -> {Before, AgainNs}
        end,
    lists:foreach(fun(One) -> look(One, Shared) end, Hooked),
    %% If this looker had to wait, another one may have its turn by now.
    case atomics:get(Control, ?TURN) of
        Turn ->
            TookNs = now_ns() - Begun,
            ok = took(TookNs, Shared),
            PauseMs = max(?LOOK_MS, ?SHARE * TookNs div 1_000_000),
            ok = atomics:put(Control, ?DUE, since_clock(Shared) + 1_000_000 * PauseMs),
            timer:sleep(PauseMs),
            looks(Turn, Next, Hooked, Shared);
        _Later ->
            ok
    end.

look({Pid, Counters}, Shared) ->
    State = dyno_agent_server_counters:state(Counters),
    maybe
        true ?= State =/= 0,
        Now = since_clock(Shared),
        true ?= Now - abs(State) > ?PAUSE_NS,
        ok ?= dyno_agent_server_counters:ask(Counters, State, Now),
        {message_queue_len, Queue} ?= process_info(Pid, message_queue_len),
        dyno_agent_server_counters:see(Counters, State, seen(Queue, Now, Shared))
    else
        _ -> ok
    end.

%% The queue was empty when asked, and has this length at the answer.
seen(0, Asked, _Shared) -> {Asked, 0};
seen(Queue, _Asked, Shared) -> {since_clock(Shared), Queue}.

%% Asking

-spec asks(dyno_agent_server_hook:shared()) -> no_return().
asks(Shared) ->
    process_flag(priority, high),
    asks_again(Shared).

asks_again(Shared) ->
    Begun = now_ns(),
    Long = [
        {rand:uniform(), Pid, Counters}
     || {Pid, Counters} <- dyno_agent_server_names:hooked(Shared),
        {begun, Since, _} <- [dyno_agent_server_counters:under_way(Counters)],
        since_clock(Shared) - Since > ?PAUSE_NS
    ],
    TookNs = now_ns() - Begun,
    ok = took(TookNs, Shared),
    lists:foreach(fun ask_dirty/1, lists:sublist(lists:sort(Long), ?ASKED)),
    timer:sleep(max(?ASK_MS, ?SHARE * TookNs div 1_000_000)),
    asks_again(Shared).

ask_dirty({_, Pid, Counters}) ->
    Reductions = process_info(Pid, reductions),
    Before = {process_info(Pid, status), Reductions},
    Answer = dyno_agent_stack_question:ask(Pid, []),
    case dyno_agent_stack_question:where(Answer, Pid, Before) of
        {ran, dirty, _, _} -> dyno_agent_server_counters:add(Counters, dirty, 1);
        _ -> ok
    end.

since_clock(#{clock := Clock}) -> now_ns() - Clock.

now_ns() -> erlang:monotonic_time(nanosecond).
