%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_birth_storm).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% In the measured node
-export([start/1, request/0, parse/1, route/1, handle/1, reply/1, memory/1]).

-define(LEVELS, [budget, count, time, memory, all]).
-define(EVERY_MS, 5).
-define(MOST_AT_ONCE, 20_000).
%% The agent gives up at 512 MiB.
-define(GOAL_MB, 256).

describe() ->
    """
    The memory that dyno takes in a node that starts 20,000 processes a second (by default), each of
    which calls five measured functions and ends, for a minute at each of the levels budget, count,
    time, memory and all. Once a second the memory of the agent's processes and tables, garbage in
    it, and by how much that of the whole node has grown since before the agent came are read. The
    result is the most that either was; of both the medians of the first and of the last third
    are told, by which one sees whether it grows.
    """.

argument(Text) -> bench_program:whole(Text, 20_000, {1, "processes a second"}).

measure(PerSecond, Effort) ->
    Runs = [run(Level, PerSecond, seconds(Effort)) || Level <- ?LEVELS],
    #{
        name => "birth_storm_" ++ integer_to_list(PerSecond),
        value => lists:max(Runs),
        unit => "MB",
        goal => ?GOAL_MB
    }.

seconds(full) -> 60;
seconds(quick) -> 2.

run(Level, PerSecond, Seconds) ->
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    ok = erpc:call(Node, ?MODULE, start, [max(1, PerSecond * ?EVERY_MS div 1000)]),
    timer:sleep(500),
    {ok, [#{agent := Agent}] = Targets} = dyno_targets:attach([Node], #{
        patterns => [{?MODULE, '_', '_'}], level => Level, interval_ms => 1000, without => []
    }),
    ok = dyno_targets:restart(Targets),
    Guard = dyno_agent:guard(Agent),
    {_, Before} = erpc:call(Node, ?MODULE, memory, [Guard]),
    Seen = [
        begin
            timer:sleep(1000),
            erpc:call(Node, ?MODULE, memory, [Guard], 60_000)
        end
     || _ <- lists:seq(1, Seconds)
    ],
    [#{results := Results}] = dyno_targets:read(Targets),
    #{dyno_agent_calls := #{functions := Functions}} = Results,
    ok = bench_program:detach(Targets),
    ok = dyno_peer:stop(Node),
    [Born] = [N || #{mfa := {_, request, 0}, calls := N} <- Functions],
    {Agents, Wholes} = lists:unzip(Seen),
    bench_program:say(
        "~-9s ~b processes a second; the agent at most ~ts MB, first ~ts and last ~ts; the node at "
        "most ~ts more, first ~ts and last ~ts",
        [
            Level,
            Born div Seconds
            | lists:append([
                [mb(Bytes) || Bytes <- [lists:max(Of), third(Of), third(lists:reverse(Of))]]
             || Of <- [Agents, [Whole - Before || Whole <- Wholes]]
            ])
        ]
    ),
    max(lists:max(Agents), lists:max(Wholes) - Before) / 1.0e6.

third(Seen) -> dyno_stats:median(lists:sublist(Seen, max(1, length(Seen) div 3))).

mb(Bytes) -> bench_program:number(Bytes / 1.0e6).

-doc "What the agent takes and what the whole node does, in bytes.".
-spec memory(pid()) -> {pos_integer(), pos_integer()}.
memory(Guard) ->
    {Processes, Tables} = bench_agent_memory:of_agent(Guard),
    {Processes + Tables, erlang:memory(total)}.

-doc "Starts so many processes every five milliseconds, or as many as the machine can.".
-spec start(pos_integer()) -> ok.
start(Count) ->
    _ = spawn(fun() -> storm(Count, erlang:monotonic_time(millisecond)) end),
    ok.

storm(Count, AtMs) ->
    %% On a busy machine those that wait for a processor would become millions.
    _ = [
        spawn(?MODULE, request, [])
     || erlang:system_info(process_count) < ?MOST_AT_ONCE, _ <- lists:seq(1, Count)
    ],
    receive
    after max(0, AtMs + ?EVERY_MS - erlang:monotonic_time(millisecond)) ->
        storm(Count, AtMs + ?EVERY_MS)
    end.

%% What each of them does.
request() -> ?MODULE:reply(?MODULE:handle(?MODULE:route(?MODULE:parse(lists:seq(1, 20))))).

parse(Text) -> lists:reverse(Text).

route(Path) -> {length(Path), Path}.

handle({Length, Path}) -> Length + lists:sum(Path).

reply(_Sum) -> ok.
