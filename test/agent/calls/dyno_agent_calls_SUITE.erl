%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_calls_SUITE).
-moduledoc "Each call timed, in a node of which the answers are known.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 3}}].

slow() -> [shares_of_what_never_returns, births_leave_no_garbage].

all() ->
    [
        shares_of_what_never_returns,
        births_leave_no_garbage,
        a_reload_is_noticed_where_all_is_measured
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

%% Each product takes the same time, and is counted: so the shares are known. It is made by an
%% operator, so that nothing is called.
-define(FOREVER, """
-module(forever).

-export([start/0, products/1, loop/3, now_and_then/2, wait/0, wake/1]).

start() ->
    Counter = counters:new(2, []),
    Number = (1 bsl 4000) - 1,
    _ = spawn(forever, loop, [Number, Counter, 100]),
    _ = spawn(forever, now_and_then, [Number, Counter]),
    Waits = spawn(forever, wait, []),
    _ = spawn(forever, wake, [Waits]),
    Counter.

products(Counter) -> [counters:get(Counter, Ix) || Ix <- [1, 2]].

loop(Number, Counter, 0) ->
    counters:add(Counter, 1, 100),
    loop(Number, Counter, 100);
loop(Number, Counter, N) when Number * Number > Number ->
    loop(Number, Counter, N - 1).

now_and_then(Number, Counter) ->
    ok = many(2000, Number),
    counters:add(Counter, 2, 2000),
    timer:sleep(7),
    now_and_then(Number, Counter).

many(0, _Number) ->
    ok;
many(N, Number) when Number * Number > Number ->
    many(N - 1, Number).

wait() ->
    receive
        again -> wait()
    end.

wake(Waits) ->
    Waits ! again,
    timer:sleep(5),
    wake(Waits).

""").

%% One process loops for ever, one works now and then, one waits; two others have the machine.
shares_of_what_never_returns(_Config) ->
    dyno_tries:hold(3, fun shares_of_what_never_returns_once/0).

%% On one scheduler both have as much of the processor taken away by others.
shares_of_what_never_returns_once() ->
    {_, Node} = Started = dyno_peers:start(["+S", "1"]),
    Busy = [busy() || _ <- [1, 2]],
    try
        forever = dyno_peers:load(Node, ?FOREVER),
        Counter = erpc:call(Node, forever, start, []),
        {Agent, Calls} = counting(Node, [{'_', '_', '_'}]),
        ok = dyno_agent_calls:restart(Calls),
        Before = erpc:call(Node, forever, products, [Counter]),
        timer:sleep(6000),
        After = erpc:call(Node, forever, products, [Counter]),
        #{functions := Functions, measured_functions := Measured} = dyno_agent_calls:read(Calls),
        _ = dyno_agent:detach(Agent),
        Shares = shares(Functions),
        [Loop, Many] = lists:zipwith(fun erlang:'-'/2, After, Before),
        Truth = Loop / (Loop + Many),
        Largest = lists:sublist(lists:reverse(lists:keysort(2, maps:to_list(Shares))), 8),
        ct:pal("~b functions; loop ~b, many ~b: ~p~n~tp", [
            Measured, Loop, Many, Truth, Largest
        ]),
        Share = fun(F, A) -> maps:get({forever, F, A}, Shares, 0.0) end,
        Rest = 1 - Share(loop, 3) - Share(many, 2),
        %% The others take the processor for milliseconds, which are whose turn it was: these two
        %% are right in the mean only. Who does nothing and is always there gets nothing.
        ?assert(abs(Share(loop, 3) - Truth) < 0.08, {Truth, Largest}),
        ?assert(abs(Share(many, 2) - (1 - Truth)) < 0.08, {Truth, Largest}),
        ?assert(Rest < 0.01, Largest)
    after
        lists:foreach(fun stop/1, Busy),
        dyno_peers:stop(Started)
    end.

%% Ends with this node at the latest.
busy() ->
    Loop = "while kill -0 $PPID; do :; done",
    open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", Loop]}]).

stop(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    os:cmd("kill " ++ integer_to_list(Pid)).

shares(Functions) ->
    All = lists:sum([Ns || #{own_time_ns := Ns} <- Functions]),
    #{MFA => Ns / All || #{mfa := MFA, own_time_ns := Ns} <- Functions}.

counting(Node, Patterns) ->
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    Config = #{patterns => Patterns, measures => [call_time]},
    {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, Config),
    {Agent, Calls}.

%% What tells of a load is itself measured, and everything is paused and reset at once.
a_reload_is_noticed_where_all_is_measured(_Config) ->
    dyno_tries:hold(3, fun a_reload_is_noticed_once/0).

a_reload_is_noticed_once() ->
    {_, Node} = Started = dyno_peers:start(),
    try
        Source = "-module(again).\n -export([f/0]).\n f() -> ok.\n",
        again = dyno_peers:load(Node, Source),
        {Agent, Calls} = counting(Node, [{'_', '_', '_'}]),
        ok = dyno_agent_calls:restart(Calls),
        _ = dyno_agent_calls:peek(Calls),
        _ = erpc:call(Node, code, purge, [again]),
        again = dyno_peers:load(Node, Source),
        %% Calls within the milliseconds of a load may count wrongly.
        ok = await_load(Calls, 5000),
        ok = erpc:call(Node, again, f, []),
        #{reloaded := Reloaded, functions := Functions} = dyno_agent_calls:read(Calls),
        _ = dyno_agent:detach(Agent),
        ?assertEqual([again], Reloaded),
        ?assertEqual([1], [C || #{mfa := {again, f, 0}, calls := C} <- Functions])
    after
        dyno_peers:stop(Started)
    end.

await_load(Calls, LeftMs) when LeftMs > 0 ->
    case dyno_agent_calls:loads(Calls) of
        0 ->
            timer:sleep(20),
            await_load(Calls, LeftMs - 20);
        _ ->
            ok
    end.

%% Thousands of processes a second begin and end, and each of their rows was on a heap once.
births_leave_no_garbage(_Config) ->
    Measured = #{measures => [call_time, call_memory]},
    [born(How) || How <- [Measured, #{budget => 0.05}]].

born(How) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        bench_birth_storm = dyno_peers:load_bench(Node, bench_birth_storm),
        ok = erpc:call(Node, bench_birth_storm, start, [50]),
        Patterns = [{bench_birth_storm, '_', '_'}],
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Processes} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => Patterns, interval_ms => 1000
        }),
        Config = How#{patterns => Patterns, processes => Processes},
        {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, Config),
        ok = dyno_agent_calls:restart(Calls),
        ok = dyno_agent_processes:restart(Processes),
        timer:sleep(4000),
        Memory = [memory_of(Node, [Calls, Processes]) || _ <- lists:seq(1, 100)],
        #{functions := Functions} = dyno_agent_calls:read(Calls),
        _ = dyno_agent:detach(Agent),
        [Requests] = [N || #{mfa := {_, request, 0}, calls := N} <- Functions],
        Medians = [lists:nth(50, lists:sort(Bytes)) || Bytes <- transposed(Memory)],
        ct:pal("~tp: ~b requests; bytes ~p", [How, Requests, Medians]),
        ?assert(Requests > 10_000),
        [?assert(Bytes < 4_000_000, Medians) || Bytes <- Medians]
    after
        dyno_peers:stop(Started)
    end.

memory_of(Node, Pids) ->
    timer:sleep(50),
    [element(2, erpc:call(Node, erlang, process_info, [Pid, memory])) || Pid <- Pids].

transposed([[] | _]) -> [];
transposed(Rows) -> [[hd(Row) || Row <- Rows] | transposed([tl(Row) || Row <- Rows])].
