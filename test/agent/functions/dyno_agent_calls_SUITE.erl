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
        a_server_that_does_little,
        counts_what_was_not_timed,
        what_does_not_fit_is_left_to_samples,
        nothing_is_timed_where_it_may_not_be,
        nothing_is_left_when_killed
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
        ok = dyno_agent_instrument:restart(Calls),
        Before = erpc:call(Node, forever, products, [Counter]),
        timer:sleep(6000),
        After = erpc:call(Node, forever, products, [Counter]),
        #{functions := Functions, measured_functions := Measured} = dyno_counted:read(Calls),
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

%% Two functions of at least 700 and 300 us, and one that is called so often in both that it can't be
%% timed. The server takes the time of each call itself: others may have the processor meanwhile.
-define(BURSTS, """
-module(bursts).

-export([start/1, took/0, serve/1, client/1, one/1, two/1, spin/2, tiny/1]).

start(How) ->
    persistent_term:put(bursts, counters:new(3, [])),
    Server = spawn(bursts, serve, [How]),
    spawn(bursts, client, [Server]).

client(Server) ->
    Server ! {work, self()},
    receive done -> ok end,
    timer:sleep(20),
    client(Server).

serve(How) ->
    receive {work, From} ->
        T0 = erlang:monotonic_time(nanosecond),
        one(How),
        T1 = erlang:monotonic_time(nanosecond),
        two(How),
        T2 = erlang:monotonic_time(nanosecond),
        Took = persistent_term:get(bursts),
        [counters:add(Took, Ix, N) || {Ix, N} <- [{1, 1}, {2, T1 - T0}, {3, T2 - T1}]],
        From ! done,
        serve(How)
    end.

took() -> [counters:get(persistent_term:get(bursts), Ix) || Ix <- [1, 2, 3]].

one(How) -> spin(How, erlang:monotonic_time(nanosecond) + 700000), ok.

two(How) -> spin(How, erlang:monotonic_time(nanosecond) + 300000), ok.

spin(How, Until) ->
    case erlang:monotonic_time(nanosecond) > Until of
        true -> ok;
        false when How =:= often -> tiny(How), spin(How, Until);
        false -> spin(How, Until)
    end.

tiny(N) -> N.

""").

%% Fifty requests a second: each call is timed at the default, and says so.
a_server_that_does_little(_Config) ->
    dyno_tries:hold(3, fun a_server_that_does_little_once/0).

a_server_that_does_little_once() ->
    Patterns = [{bursts, F, '_'} || F <- [one, two, serve, client]],
    within_budget(seldom, Patterns, #{}, fun(Node, Calls, Before) ->
        #{functions := Functions, timed := Timed, budget := #{spent := Spent}} =
            dyno_counted:read(Calls),
        [Served, OneTook, TwoTook] = lists:zipwith(fun erlang:'-'/2, took(Node), Before),
        ct:log("~p ~p ~tp", [Timed, {Served, OneTook, TwoTook}, Functions]),
        #{one := #{own_time_ns := OneNs, calls := Count} = One, two := #{own_time_ns := TwoNs}} =
            #{F => Of || #{mfa := {_, F, _}} = Of <- Functions},
        ?assertMatch(#{counted := exact, time_from := calls}, One),
        %% On a busy machine its interval is wider.
        #{own_time_low_ns := Low, own_time_high_ns := High} = One,
        Off = (High - Low) / 2 / OneNs,
        Share = OneTook / (OneTook + TwoTook),
        ?assert(abs(OneNs / (OneNs + TwoNs) - Share) < 0.03 + Share * Off, {OneNs, TwoNs, Off}),
        %% A few more or less were served when the counts began and ended.
        True = OneTook / Served,
        ?assert(abs(OneNs / Count / True - 1) < 0.1 + Off, {OneNs / Count, True, Off}),
        ?assert(Timed > 0.5, Timed),
        ?assert(Spent < 0.02, Spent)
    end).

%% Also those before the window opened are counted.
counts_what_was_not_timed(_Config) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        bursts = dyno_peers:load(Node, ?BURSTS),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => [{bursts, tiny, 1}], budget => 0.05
        }),
        ok = dyno_agent_instrument:restart(Calls),
        Call = fun() -> [erpc:call(Node, bursts, tiny, [1]) || _ <- lists:seq(1, 50)] end,
        _ = Call(),
        dyno_suites:await(fun() -> map_get(timed, dyno_counted:peek(Calls)) > 0 end),
        _ = Call(),
        ?assertMatch(#{functions := [#{calls := 100}]}, dyno_counted:read(Calls)),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Started)
    end.

%% A function that is called a million times a second is neither counted nor timed for long.
what_does_not_fit_is_left_to_samples(_Config) ->
    within_budget(often, [{bursts, '_', '_'}], #{}, fun(Node, Calls, _Before) ->
        #{functions := Functions, budget := #{left_out := LeftOut}} = dyno_counted:read(Calls),
        ?assertEqual([], [{bursts, tiny, 1}, {bursts, spin, 2}] -- LeftOut),
        [Tiny] = [F || #{mfa := {_, tiny, _}} = F <- Functions],
        ?assertNot(maps:get(counted, Tiny) =:= exact),
        Sessions = erpc:call(Node, trace, session_info, [{bursts, tiny, 1}]),
        ?assertEqual([], [Name || {Name, _} <- Sessions, Name =:= dyno_calls])
    end).

%% A node that dyno did not start.
nothing_is_timed_where_it_may_not_be(_Config) ->
    within_budget(seldom, [{bursts, '_', '_'}], #{may_time => false}, fun(Node, Calls, _Before) ->
        #{timed := Timed} = dyno_counted:read(Calls),
        ?assertEqual(0.0, Timed),
        %% No process is known to the session that would time.
        Pids = erpc:call(Node, erlang, processes, []),
        Known = [Of || P <- Pids, Of <- [erpc:call(Node, trace, session_info, [P])], is_list(Of)],
        ?assertEqual([], [Name || {Name, _} <- lists:append(Known), Name =:= dyno_calls])
    end).

nothing_is_left_when_killed(_Config) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        bursts = dyno_peers:load(Node, ?BURSTS),
        Pid = erpc:call(Node, bursts, start, [seldom]),
        Before = length(erpc:call(Node, trace, session_info, [all])),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => [{bursts, '_', '_'}], budget => 0.05
        }),
        timer:sleep(800),
        ?assert(length(erpc:call(Node, trace, session_info, [all])) > Before),
        exit(Calls, kill),
        _ = dyno_agent:detach(Agent),
        ?assertEqual(Before, length(erpc:call(Node, trace, session_info, [all]))),
        ?assertEqual([], erpc:call(Node, trace, session_info, [{bursts, one, 1}])),
        ?assertEqual(false, erpc:call(Node, code, is_loaded, [dyno_agent_call_budget])),
        ?assert(erpc:call(Node, erlang, is_process_alive, [Pid]))
    after
        dyno_peers:stop(Started)
    end.

within_budget(How, Patterns, More, Test) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        bursts = dyno_peers:load(Node, ?BURSTS),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Processes} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => Patterns, interval_ms => 1000
        }),
        {ok, Stacks} = dyno_agent:start(Agent, dyno_agent_stacks, #{processes => Processes}),
        {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, More#{
            patterns => Patterns, budget => 0.05, processes => Processes, stacks => Stacks
        }),
        _ = erpc:call(Node, bursts, start, [How]),
        timer:sleep(1200),
        ok = dyno_agent_instrument:restart(Calls),
        Before = took(Node),
        ok = dyno_agent_instrument:restart(Stacks),
        timer:sleep(2000),
        Test(Node, Calls, Before),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Started)
    end.

took(Node) -> erpc:call(Node, bursts, took, []).

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
        ok = dyno_agent_instrument:restart(Calls),
        ok = dyno_agent_instrument:restart(Processes),
        timer:sleep(4000),
        Memory = [memory_of(Node, [Calls, Processes]) || _ <- lists:seq(1, 100)],
        #{functions := Functions} = dyno_counted:read(Calls),
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
