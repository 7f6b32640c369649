%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_discovery_call_cost).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(PATTERN, {bench_calls, leaf, 1}).
-define(EPOCH_NS, 1_000_000).
%% The instrument also samples the processes' memory and reductions from time to time; that is
%% no cost of a call, and would be an epoch's noise.
-define(NO_SCAN_MS, 3_600_000).
-define(GOAL_NS, 4).

describe() ->
    """
    What a call of a function costs a process that dyno's discovery knows already, above an
    untraced call. In a node with the given number of processes (64 by default) all of them call a
    function that does nothing; some of them are timed, each for an epoch of a millisecond or more.
    Each round has a block of epochs without dyno and one with its agent and discovery, freshly
    attached, all processes discovered; every second round the other way round. The result is the
    median over the rounds of the difference of the two blocks' medians. For comparison a third
    block has a breakpoint on the function but no traced process: what the runtime itself takes.
    """.

argument(Text) -> bench_program:whole(Text, 64, {1, "processes"}).

measure(Processes, Effort) ->
    #{rounds := Rounds, epochs := Epochs} = settings(Effort),
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    ok = erpc:call(Node, bench_calls, start, [Processes]),
    ok = erpc:call(Node, bench_calls, call_all, []),
    Calls = erpc:call(Node, bench_calls, calls_per_epoch, [?EPOCH_NS]),
    Block = {Node, Epochs, Calls},
    %% The first one warms up.
    _ = round_of(1, Processes, Block),
    Times = [round_of(Round, Processes, Block) || Round <- lists:seq(1, Rounds)],
    ok = dyno_peer:stop(Node),
    bench_program:say("processes ~b, all discovered in each round", [Processes]),
    bench_program:say("rounds    ~b of blocks of ~b epochs of ~b calls", [
        Rounds, Epochs, Calls
    ]),
    report(Times, Processes).

settings(full) -> #{rounds => 20, epochs => 100};
settings(quick) -> #{rounds => 6, epochs => 10}.

round_of(Round, Processes, Block) when Round rem 2 =:= 1 ->
    Untraced = block(epochs, Block),
    Breakpoint = block(epochs_with_breakpoint, Block),
    {Untraced, Breakpoint, traced(Processes, Block)};
round_of(_Round, Processes, Block) ->
    Traced = traced(Processes, Block),
    Breakpoint = block(epochs_with_breakpoint, Block),
    {block(epochs, Block), Breakpoint, Traced}.

block(Function, {Node, Epochs, Calls}) ->
    dyno_stats:median(erpc:call(Node, bench_calls, Function, [Epochs, Calls], infinity)).

traced(Processes, {Node, _, _} = Block) ->
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => [?PATTERN], interval_ms => ?NO_SCAN_MS
    }),
    Table = erpc:call(Node, dyno_agent_processes, table, [Discovery]),
    ok = erpc:call(Node, bench_calls, call_all, [], infinity),
    Processes = erpc:call(Node, bench_calls, wait_for, [Table, Processes], infinity),
    Ns = block(epochs, Block),
    %% No process has been seen twice, and none but ours called.
    Processes = map_size(erpc:call(Node, dyno_agent_process_table, groups, [Table])),
    _ = dyno_agent:detach(Agent),
    Ns.

report(Times, Processes) ->
    {Untraced, Breakpoint, Traced} = lists:unzip3(Times),
    bench_program:say("a call    untraced ~ts ns, with a breakpoint ~ts ns, discovered ~ts ns", [
        bench_program:number(dyno_stats:median(Ns))
     || Ns <- [Untraced, Breakpoint, Traced]
    ]),
    {OfRuntime, _} = bench_program:median(differences(Untraced, Breakpoint)),
    {OfDyno, Of} = bench_program:median(differences(Breakpoint, Traced)),
    bench_program:say("of these  the runtime's breakpoint ~ts ns, discovery ~ts ns, ~ts", [
        bench_program:number(OfRuntime),
        bench_program:number(OfDyno),
        bench_program:interval_text(Of, "ns")
    ]),
    {Value, Interval} = bench_program:median(differences(Untraced, Traced)),
    #{
        name => "discovery_call_cost_" ++ integer_to_list(Processes),
        value => Value,
        unit => "ns",
        interval => Interval,
        goal => ?GOAL_NS
    }.

differences(As, Bs) ->
    lists:zipwith(fun(A, B) -> B - A end, As, Bs).
