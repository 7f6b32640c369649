%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_budget_SUITE).
-moduledoc "Calls and times within a budget, in a node: what they say, and that nothing is left.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 3}}].

newest_release_only() ->
    [
        nothing_is_left_between_windows, a_module_that_comes, a_module_that_is_loaded_again
    ].

all() ->
    [
        shares_of_a_server_that_bursts,
        a_loop_is_no_slower,
        a_module_that_comes,
        a_module_that_is_loaded_again,
        nothing_is_left_between_windows,
        nothing_is_left_when_killed
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

-define(BURSTS, """
-module(bursts).

-export([start/0, serve/0, client/1, one/0, two/0]).

start() ->
    Server = spawn(bursts, serve, []),
    spawn(bursts, client, [Server]).

client(Server) ->
    Server ! {work, self()},
    receive done -> ok end,
    timer:sleep(1),
    client(Server).

serve() ->
    receive {work, From} ->
        one(),
        two(),
        From ! done,
        serve()
    end.

one() -> spin(erlang:monotonic_time(nanosecond) + 70000), ok.

two() -> spin(erlang:monotonic_time(nanosecond) + 30000), ok.

spin(Until) ->
    case tiny(erlang:monotonic_time(nanosecond)) > Until of
        true -> ok;
        false -> spin(Until)
    end.

tiny(N) -> N bxor 0.

""").

%% Each request takes 70 us and 30 us, by the clock. Tiny functions are all that is done in it; their
%% time is in their callers'.
shares_of_a_server_that_bursts(_Config) ->
    dyno_tries:hold(3, fun shares_of_a_server_that_bursts_once/0).

shares_of_a_server_that_bursts_once() ->
    in_node([bursts], fun(Node, Calls, Restart) ->
        bursts = dyno_peers:load(Node, ?BURSTS),
        _ = erpc:call(Node, bursts, start, []),
        timer:sleep(2000),
        ok = Restart(),
        #{functions := Functions, budget := Budget} = windows(Calls, 10, 20_000),
        ct:log("~tp~n~tp", [Budget, Functions]),
        #{left_out := LeftOut, spent := Spent} = Budget,
        ?assertEqual([], [{bursts, tiny, 1}, {bursts, spin, 1}] -- LeftOut),
        #{
            {bursts, one, 0} := #{own_time_ns := OneNs} = One,
            {bursts, two, 0} := #{own_time_ns := TwoNs}
        } = by_mfa(Functions),
        ?assert(abs(OneNs / (OneNs + TwoNs) - 0.7) < 0.1, {OneNs, TwoNs}),
        ?assertMatch(#{time_from := windows, calls := _}, One),
        ?assert(Spent < 0.1, Spent)
    end).

%% A loop of tiny calls is met by stacks, and neither counted nor timed for long.
a_loop_is_no_slower(_Config) ->
    dyno_tries:hold(3, fun a_loop_is_no_slower_once/0).

a_loop_is_no_slower_once() ->
    in_node([bench_phases], fun(Node, Calls, Restart) ->
        bench_phases = dyno_peers:load_bench(Node, bench_phases),
        {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
        Pid = erpc:call(Node, bench_phases, start, []),
        timer:sleep(2000),
        ok = Restart(),
        _ = erpc:call(Node, bench_phases, shares, [Pid]),
        timer:sleep(3000),
        #{functions := Functions, budget := #{left_out := LeftOut}} = windows(Calls, 2, 20_000),
        Truth = erpc:call(Node, bench_phases, shares, [Pid]),
        #{{bench_phases, loop, 1} := Loop} = by_mfa(Functions),
        ct:log("~tp~n~tp", [Truth, Functions]),
        ?assertMatch(#{counted := no, time_from := stacks}, Loop),
        ?assert(lists:member({bench_phases, loop, 1}, LeftOut)),
        AllNs = lists:sum([Ns || #{own_time_ns := Ns} <- Functions]),
        #{own_time_ns := LoopNs} = Loop,
        ?assert(abs(LoopNs / AllNs - map_get(loop, Truth)) < 0.15, {LoopNs / AllNs, Truth}),
        %% With one breakpoint more it would be three times as long.
        ?assert(map_get(loop, Truth) < 0.75, Truth)
    end).

a_module_that_comes(_Config) ->
    in_node([late], fun(Node, Calls, Restart) ->
        ok = Restart(),
        late = dyno_peers:load(Node, late(1)),
        _ = erpc:call(Node, erlang, spawn, [late, run, []]),
        #{functions := Functions, measured_functions := Measured} = windows(Calls, 3, 20_000),
        ?assert(Measured >= 2),
        %% It was not counted from the beginning.
        ?assertMatch(
            #{{late, f, 0} := #{counted := estimated, time_from := windows}}, by_mfa(Functions)
        )
    end).

a_module_that_is_loaded_again(_Config) ->
    in_node([late], fun(Node, Calls, Restart) ->
        late = dyno_peers:load(Node, late(1)),
        Pid = erpc:call(Node, erlang, spawn, [late, run, []]),
        timer:sleep(1000),
        ok = Restart(),
        _ = windows(Calls, 1, 20_000),
        late = dyno_peers:load(Node, late(2)),
        #{functions := Functions, reloaded := Reloaded} = windows(Calls, 4, 20_000),
        ?assertEqual([late], Reloaded),
        ?assertMatch(#{{late, f, 0} := #{counted := estimated}}, by_mfa(Functions)),
        exit(Pid, kill)
    end).

late(N) ->
    lists:concat([
        "-module(late).\n\n-export([run/0, f/0]).\n\n"
        "run() -> late:f(), timer:sleep(1), late:run().\n\n"
        "f() -> lists:sum(lists:seq(", N, ", 1000)).\n\n"
    ]).

%% Between two windows a function is known to two sessions, which count and discover, and for a
%% while to the one of dyno_agent_call_sample. A process stays known to the one of the windows, so
%% that a return puts right what the runtime remembers of a call.
nothing_is_left_between_windows(_Config) ->
    in_node([late], fun(Node, Calls, _Restart) ->
        late = dyno_peers:load(Node, late(1)),
        Pid = erpc:call(Node, erlang, spawn, [late, run, []]),
        _ = windows(Calls, 2, 20_000),
        ok = sys:suspend(Calls),
        Names = fun(Of) ->
            Sessions = erpc:call(Node, trace, session_info, [Of]),
            lists:sort([Name || {Name, _} <- Sessions, Name =/= dyno_outgoing])
        end,
        ?assertEqual([dyno_budget_counter, dyno_first_calls], Names({late, f, 0})),
        ?assertEqual([dyno_call_windows, dyno_first_calls], Names(Pid)),
        ok = sys:resume(Calls)
    end).

nothing_is_left_when_killed(_Config) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        late = dyno_peers:load(Node, late(1)),
        Pid = erpc:call(Node, erlang, spawn, [late, run, []]),
        Before = length(erpc:call(Node, trace, session_info, [all])),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, config([late])),
        _ = windows(Calls, 1, 20_000),
        ?assert(length(erpc:call(Node, trace, session_info, [all])) > Before),
        exit(Calls, kill),
        _ = dyno_agent:detach(Agent),
        ?assertEqual(Before, length(erpc:call(Node, trace, session_info, [all]))),
        ?assertEqual([], erpc:call(Node, trace, session_info, [{late, f, 0}])),
        ?assertEqual(false, erpc:call(Node, code, is_loaded, [dyno_agent_budget])),
        ?assert(erpc:call(Node, erlang, is_process_alive, [Pid]))
    after
        dyno_peers:stop(Started)
    end.

windows(Calls, Count, LeftMs) ->
    #{budget := #{windows := Windows}} = Result = dyno_agent_calls:peek(Calls),
    case Windows >= Count orelse LeftMs =< 0 of
        true ->
            Result;
        false ->
            timer:sleep(200),
            windows(Calls, Count, LeftMs - 200)
    end.

by_mfa(Functions) -> #{MFA => F || #{mfa := MFA} = F <- Functions}.

config(Modules) -> #{patterns => [{M, '_', '_'} || M <- Modules], budget => 0.05}.

in_node(Modules, Test) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        Patterns = [{M, '_', '_'} || M <- Modules],
        %% A pattern must mean something: each is there before.
        [dyno_peers:load(Node, lists:concat(["-module(", M, ").\n\n"])) || M <- Modules],
        {ok, Processes} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => Patterns, interval_ms => 1000
        }),
        {ok, Stacks} = dyno_agent:start(Agent, dyno_agent_stacks, #{processes => Processes}),
        {ok, Calls} = dyno_agent:start(
            Agent, dyno_agent_calls, (config(Modules))#{processes => Processes, stacks => Stacks}
        ),
        Restart = fun() ->
            ok = dyno_agent_calls:restart(Calls),
            ok = dyno_agent_stacks:restart(Stacks),
            dyno_agent_processes:restart(Processes)
        end,
        Test(Node, Calls, Restart),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Started)
    end.
