%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_arrival_SUITE).
-moduledoc """
How long dyno takes to come to a node whose processes all compute, in turns of its run queue: what
one process of normal priority waits for.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(PROCESSES, 500).
-define(CROWD, """
-module(crowd).
-export([start/1, compute/0]).
start(N) -> [spawn(crowd, compute, []) || _ <- lists:seq(1, N)], ok.
compute() -> _ = lists:sum(lists:seq(1, 1000)), crowd:compute().

""").

suite() -> [{timetrap, {minutes, 3}}].

all() -> [discovery_takes_few_turns, calls_take_no_turn].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

%% One of normal priority waits for a turn with each process that it asks.
discovery_takes_few_turns(_Config) ->
    crowded(fun(Node) ->
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        Turn = turn_ms(Node),
        {Ms, ok} = timer:tc(
            fun() ->
                {ok, Pid} = dyno_agent:start(Agent, dyno_agent_processes, #{
                    patterns => [{crowd, '_', '_'}], interval_ms => 60_000
                }),
                ?assertEqual(
                    {priority, high}, erpc:call(Node, erlang, process_info, [Pid, priority])
                ),
                until_discovered(Pid)
            end,
            millisecond
        ),
        _ = dyno_agent:detach(Agent),
        Turns = Ms / (Turn + turn_ms(Node)) * 2,
        ct:log("~b ms, a turn takes ~.1f ms: ~.1f turns", [Ms, Turn, Turns]),
        ?assert(Turns < ?PROCESSES, Turns)
    end).

until_discovered(Pid) ->
    case dyno_agent_instrument:read(Pid) of
        #{discovered := N} when N >= ?PROCESSES -> ok;
        #{} -> until_discovered(Pid)
    end.

calls_take_no_turn(_Config) ->
    crowded(fun(Node) ->
        Ms = median_ms(fun() -> dyno_remote:call(Node, erlang, node, []) end),
        Turn = turn_ms(Node),
        ct:log("a call takes ~.1f ms, a turn ~.1f ms", [Ms, Turn]),
        ?assert(Ms < 0.75 * Turn, {Ms, Turn})
    end).

crowded(Run) ->
    dyno_truth:in_node(?CROWD, fun(Node) ->
        ok = erpc:call(Node, crowd, start, [?PROCESSES]),
        Run(Node)
    end).

turn_ms(Node) -> median_ms(fun() -> erpc:call(Node, erlang, node, []) end).

median_ms(Call) ->
    Times = [element(1, timer:tc(Call, microsecond)) || _ <- lists:seq(1, 15)],
    lists:nth(8, lists:sort(Times)) / 1000.
