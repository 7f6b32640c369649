%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_cpu_shares).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(GOAL_POINTS, 3).
-define(IDLE, 10_000).

describe() ->
    """
    A node runs a program of which the shares of the processor time are known: five, long
    phases; short, a process for each request; bif, built-in functions; ping, a server and four
    clients; dirty, dirty schedulers (bench_cases). dyno samples the processor for 8 s. The
    result is by how many points a phase is off, at most, beyond what its own interval allows
    for. With the argument idle it is what sampling takes of one processor on a node of 10,000
    idle processes, in percent; with idle_stacks, without the sampler of the processor.
    """.

argument(none) ->
    argument("five");
argument("idle") ->
    {ok, {idle, cpu}};
argument("idle_stacks") ->
    {ok, {idle, sample}};
argument(Text) ->
    case [Kind || Kind <- bench_cases:kinds(), atom_to_list(Kind) =:= Text] of
        [Kind] -> {ok, Kind};
        [] -> {error, "five, short, bif, ping, dirty, idle or idle_stacks?"}
    end.

measure({idle, Kind}, Effort) ->
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    ok = erpc:call(Node, bench_cases, idle, [?IDLE]),
    Ms = 2 * ms(Effort),
    Without = spent_ms(Node, Ms),
    {Targets, Stacks} = attached(Node, Kind),
    timer:sleep(1000),
    _ = samples_us(),
    ok = dyno_agent_instrument:restart(Stacks),
    With = spent_ms(Node, Ms),
    SamplesUs = samples_us(),
    #{instants := Instants, cost_ns := CostNs} = dyno_agent_stack_parts:result(
        dyno_agent_instrument:read(Stacks)
    ),
    ok = bench_program:detach(Targets),
    ok = dyno_peer:stop(Node),
    bench_program:say(
        "without ~b ms of processor in ~b, with ~b, told ~.1f for ~b instants, ~.1f for ~b samples",
        [
            Without,
            Ms,
            With,
            CostNs / 1.0e6,
            Instants,
            lists:sum(SamplesUs) / 1000,
            length(SamplesUs)
        ]
    ),
    #{
        name => "cpu_shares_idle",
        value => max(0.0, 100 * (With - Without) / Ms),
        unit => "%",
        goal => goal(Kind)
    };
measure(Kind, Effort) ->
    {ok, Node} = dyno_peer:start(#{name => "bench", arguments => arguments(Kind)}),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
    _ = erpc:call(Node, bench_cases, start, [Kind]),
    {Targets, Stacks} = attached(Node, cpu),
    timer:sleep(1000),
    ok = dyno_agent_instrument:restart(Stacks),
    _ = erpc:call(Node, bench_cases, times, []),
    timer:sleep(ms(Effort)),
    Times = erpc:call(Node, bench_cases, times, []),
    #{stacks := Found, cpu := Cpu, seen := {Seen, _}, cost_ns := CostNs} =
        dyno_agent_stack_parts:result(dyno_agent_instrument:read(Stacks)),
    ok = bench_program:detach(Targets),
    ok = dyno_peer:stop(Node),
    #{samples := Count, scheduler := Scheduler} = Cpu,
    {Worst, Shares} = bench_cases:differences(Times, Found),
    bench_program:say(
        "~b samples of ~.1f % of the processor time, (scheduler) ~.1f %, cost ~.2f %", [
            Count, 100 * Seen, 100 * Scheduler, 100 * CostNs / 1.0e6 / ms(Effort)
        ]
    ),
    Beyond = [beyond(Of, Count) || Of <- Shares],
    bench_program:say("worst     ~.1f points", [Worst]),
    #{
        name => lists:concat(["cpu_shares_", Kind]),
        value => lists:max(Beyond),
        unit => "points",
        goal => ?GOAL_POINTS
    }.

arguments(Kind) when Kind =:= five; Kind =:= dirty -> bench_cases:quiet();
arguments(_Kind) -> [].

ms(full) -> 8000;
ms(quick) -> 1000.

%% By how many points a phase is off; none within its own interval.
beyond({Phase, Truth, Told}, Count) ->
    {Low, High} = dyno_stats_interval:share(Told / 100, Count),
    bench_program:say("~-9ts ~5.1f % by its clock, ~5.1f told (~.1f to ~.1f)", [
        Phase, Truth, Told, 100 * Low, 100 * High
    ]),
    case Truth >= 100 * Low andalso Truth =< 100 * High of
        true -> 0.0;
        false -> abs(Truth - Told)
    end.

%% Of one processor: the share that the sampler of stacks takes for itself is 1.5 %.
goal(cpu) -> 0.1;
goal(sample) -> 1.5.

attached(Node, Kind) ->
    {ok, Instruments} = dyno_profile_kind:instruments(#{kind => Kind}),
    %% As `dyno profile` does, of all processes.
    {ok, [#{instruments := Started}] = Targets} = dyno_targets:attach([Node], Instruments#{
        processes => []
    }),
    {dyno_agent_stacks, Stacks} = lists:keyfind(dyno_agent_stacks, 1, Started),
    {Targets, Stacks}.

%% What samples of the VM and the system took since the last time.
samples_us() ->
    receive
        {dyno_sample, _, _, _, CostUs} -> [CostUs | samples_us()]
    after 0 -> []
    end.

spent_ms(Node, Ms) ->
    timer:sleep(1000),
    {Before, _} = erpc:call(Node, erlang, statistics, [runtime]),
    timer:sleep(Ms),
    {After, _} = erpc:call(Node, erlang, statistics, [runtime]),
    After - Before.
