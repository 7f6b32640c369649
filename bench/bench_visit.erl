%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_visit).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% Called in the visited node
-export([crowd/1, idle/0, latest_us/0]).

-define(FOR_MS, 2000).
-define(GOAL_MS, 1000).
-define(TICK_MS, 5).

describe() ->
    """
    What a visit costs a node of many idle processes (the argument; 1000 by default): `servers`,
    `record` and `profile` for two seconds each. Of each: how long it takes from the last
    sample to the end, what attaching and leaving together took of the node's processors, how many
    modules stayed, and by how much a timer at priority high was late at most. The result is the
    processor time of `servers`, in ms.
    """.

argument(Text) -> bench_program:whole(Text, 1000, {1, "processes"}).

measure(Count, _Effort) ->
    {ok, Node} = dyno_peer:start(#{
        name => "visited", arguments => ["+P", integer_to_list(max(262_144, 2 * Count))]
    }),
    ok = erpc:call(Node, ?MODULE, crowd, [Count]),
    timer:sleep(?FOR_MS),
    bench_program:say("at rest   a timer is late by ~b us at most", [latest(Node)]),
    [First | _] = [visited(Name, Node, Run) || {Name, Run} <- visits(Node)],
    ok = dyno_peer:stop(Node),
    #{
        name => "visit_" ++ integer_to_list(Count),
        value => First,
        unit => "ms",
        goal => ?GOAL_MS
    }.

visits(Node) ->
    [
        {"servers", fun() -> dyno_servers_run:run([Node], #{for_ms => ?FOR_MS}) end},
        {"record", fun() -> dyno_record:run([Node], #{duration_ms => ?FOR_MS}) end},
        {"profile", fun() -> dyno_profile:run([Node], #{for_ms => ?FOR_MS}) end}
    ].

visited(Name, Node, Run) ->
    _ = latest(Node),
    Began = erlang:monotonic_time(millisecond),
    {ok, #{~"runs" := [#{~"metrics" := Metrics, ~"duration_ns" := DurationNs} | _]}} = Run(),
    TookMs = erlang:monotonic_time(millisecond) - Began,
    Late = latest(Node),
    [CpuNs] = [Value || #{~"name" := ~"instrument.visit", ~"value" := Value} <- Metrics],
    {ok, Stayed} = dyno_code:sent(Node),
    bench_program:say(
        "~-9ts ~b ms besides the ~b ms measured; processors ~b ms; ~b modules stayed; a timer late "
        "by ~b us at most",
        [
            Name,
            TookMs - round(DurationNs / 1.0e6),
            round(DurationNs / 1.0e6),
            round(CpuNs / 1.0e6),
            length(Stayed),
            Late
        ]
    ),
    round(CpuNs / 1.0e6).

latest(Node) -> erpc:call(Node, ?MODULE, latest_us, []).

%% In the node

crowd(Count) ->
    Counter = counters:new(1, []),
    ok = persistent_term:put(?MODULE, Counter),
    spawn(fun() ->
        process_flag(priority, high),
        ticks(erlang:monotonic_time(microsecond), Counter)
    end),
    lists:foreach(fun(_) -> spawn(?MODULE, idle, []) end, lists:seq(1, Count)).

idle() ->
    receive
        never -> ok
    end.

ticks(Before, Counter) ->
    receive
    after ?TICK_MS -> ok
    end,
    Now = erlang:monotonic_time(microsecond),
    Late = Now - Before - 1000 * ?TICK_MS,
    ok =
        case counters:get(Counter, 1) < Late of
            true -> counters:put(Counter, 1, Late);
            false -> ok
        end,
    ticks(Now, Counter).

latest_us() ->
    Counter = persistent_term:get(?MODULE),
    Late = counters:get(Counter, 1),
    ok = counters:put(Counter, 1, 0),
    Late.
