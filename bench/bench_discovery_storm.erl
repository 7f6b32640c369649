%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_discovery_storm).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(PATTERN, {bench_calls, leaf, 1}).
-define(EVERY_MS, 10).
%% As a test has it where nothing else is said.
-define(INTERVAL_MS, 1000).
-define(GOAL_S, 1).

describe() ->
    """
    How long dyno takes to discover processes that live long (4,000 of them by default), each of
    which calls the traced function every 10 ms. The time goes from before the agent is sent to the
    node until all processes are in the instrument's table, so sending the agent and the 10 ms in
    which each process makes its next call are in it. The result is the median of the repetitions,
    between which the agent is taken out.
    """.

argument(Text) -> bench_program:whole(Text, 4000, {1, "processes"}).

measure(Processes, Effort) ->
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    ok = erpc:call(Node, bench_calls, start_calling, [Processes, ?EVERY_MS]),
    Storms = [storm(Node, Processes) || _ <- lists:seq(1, repetitions(Effort))],
    ok = dyno_peer:stop(Node),
    {Seconds, Attached} = lists:unzip(Storms),
    {Value, Interval} = bench_program:median(Seconds),
    bench_program:say("processes ~b, all discovered in each repetition", [Processes]),
    bench_program:say("repeated  ~b times, slowest ~ts s; of it sending the agent ~ts s", [
        length(Seconds),
        bench_program:number(lists:max(Seconds)),
        bench_program:number(dyno_stats:median(Attached))
    ]),
    #{
        name => "discovery_storm_" ++ integer_to_list(Processes),
        value => Value,
        unit => "s",
        interval => Interval,
        goal => ?GOAL_S
    }.

repetitions(full) -> 15;
repetitions(quick) -> 6.

storm(Node, Processes) ->
    Start = erlang:monotonic_time(),
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    Attached = erlang:monotonic_time(),
    {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => [?PATTERN], interval_ms => ?INTERVAL_MS
    }),
    Table = erpc:call(Node, dyno_agent_processes, table, [Discovery], infinity),
    Processes = erpc:call(Node, bench_calls, wait_for, [Table, Processes], infinity),
    End = erlang:monotonic_time(),
    _ = dyno_agent:detach(Agent),
    {seconds(End - Start), seconds(Attached - Start)}.

seconds(Native) ->
    erlang:convert_time_unit(Native, native, nanosecond) / 1.0e9.
