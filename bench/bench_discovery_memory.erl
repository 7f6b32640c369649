%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_discovery_memory).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(PATTERN, {bench_calls, leaf, 1}).
%% PerformERL's, by its paper: 14.8 words a process, and 15 more with each sample.
-define(GOAL_WORDS, 14.8).
-define(THEIRS, "theirs, by their paper: 14.8 a process, and 15 more a process and sample").

%% The fewest that give an interval.
-define(REPETITIONS, 6).

-type settings() :: #{interval_ms := pos_integer(), samples := pos_integer()}.

describe() ->
    """
    The memory that dyno's agent takes in the target for each process that it has discovered: real
    processes (100,000 by default) live in a node of their own, each has called the measured
    function, and the agent measures at the level `time`. Its processes and tables are added up
    (after a collection of garbage) before any process is known, when all are, and after a minute
    of samples, one a second. The result is words a process when all are known, the median of six
    times; growth is said for a minute of samples. What the runtime keeps by itself for traced processes is in the growth of
    the whole node, which is said as well.
    """.

argument(Text) -> bench_program:whole(Text, 100_000, {1, "processes"}).

measure(Given, Effort) ->
    Processes =
        case Effort of
            full -> Given;
            quick -> min(Given, 2000)
        end,
    #{interval_ms := IntervalMs, samples := Samples} = Extent = settings(Effort),
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    ok = erpc:call(Node, bench_calls, start, [Processes], infinity),
    %% Code is loaded, and heaps have their size.
    ok = erpc:call(Node, bench_calls, call_all, [], infinity),
    Runs = [
        run(Node, Processes, Extent#{samples := S})
     || S <- [Samples | lists:duplicate(?REPETITIONS - 1, 0)]
    ],
    ok = dyno_peer:stop(Node),
    [#{empty := Empty, known := Known, later := Later, whole := Whole, scans_ms := Scans} | _] =
        Runs,
    {Words, Interval} = bench_program:median([
        words(K - E, Processes)
     || #{empty := E, known := K} <- Runs
    ]),
    bench_program:say("processes ~b, all discovered and alive; ~b times", [
        Processes, ?REPETITIONS
    ]),
    bench_program:say("agent     ~b kB before any was known, ~b kB with all", [
        Empty div 1000, Known div 1000
    ]),
    bench_program:say("a process ~ts words of 8 bytes (~ts)", [
        bench_program:number(Words), ?THEIRS
    ]),
    bench_program:say("growth    ~ts words a process in ~b samples, one every ~b ms", [
        bench_program:number(words(Later - Known, Processes)), Samples, IntervalMs
    ]),
    bench_program:say("the node  ~ts words a process more than untraced, the runtime's in it", [
        bench_program:number(words(Whole, Processes))
    ]),
    bench_program:say("a scan    of all of them takes ~ts ms", [
        bench_program:number(dyno_stats:median(Scans))
    ]),
    #{
        name => "discovery_memory_" ++ integer_to_list(Processes),
        value => Words,
        unit => "words",
        interval => Interval,
        goal => ?GOAL_WORDS
    }.

run(Node, Processes, #{interval_ms := IntervalMs} = Extent) ->
    Before = whole(Node),
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => [?PATTERN], interval_ms => IntervalMs
    }),
    {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => [?PATTERN], measures => [call_time], processes => Discovery
    }),
    %% Otherwise so many at once are an estimate.
    ok = dyno_agent_processes:limit(Discovery, 2 * Processes),
    Empty = memory(Agent),
    ok = erpc:call(Node, bench_calls, call_all, [], infinity),
    %% The call figures show the processes that sent no message, because they were so many at once.
    _ = dyno_agent_calls:peek(Calls),
    FirstMs = all_known(Discovery, Processes),
    Known = memory(Agent),
    Whole = whole(Node) - Before,
    ScansMs = sample(Extent, Discovery, Processes),
    Later = memory(Agent),
    _ = dyno_agent:detach(Agent),
    #{
        empty => Empty,
        known => Known,
        later => Later,
        whole => Whole,
        scans_ms => [FirstMs | ScansMs]
    }.

-spec settings(bench_program:effort()) -> settings().
settings(full) -> #{interval_ms => 1000, samples => 60};
settings(quick) -> #{interval_ms => 50, samples => 10}.

%% A reading samples every process; all of them are there. How long it took.
all_known(Discovery, Processes) ->
    {Us, Figures} = timer:tc(fun() ->
        dyno_agent_process_parts:result(dyno_agent_instrument:read(Discovery))
    end),
    #{discovered := Processes, groups := Groups} = Figures,
    Processes = lists:sum([N || #{alive := N} <- Groups]),
    Us / 1000.

sample(#{samples := Samples, interval_ms := IntervalMs}, Discovery, Processes) ->
    [
        receive
        after IntervalMs -> all_known(Discovery, Processes)
        end
     || _ <- lists:seq(1, Samples)
    ].

memory(Agent) ->
    Guard = dyno_agent:guard(Agent),
    {OfProcesses, OfTables} =
        erpc:call(node(Guard), bench_agent_memory, collected, [Guard], infinity),
    OfProcesses + OfTables.

%% Without what the load on this node left.
whole(Node) ->
    erpc:call(Node, bench_agent_memory, whole, [], infinity).

words(Bytes, Processes) -> Bytes / 8 / Processes.
