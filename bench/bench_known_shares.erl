%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_known_shares).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(GOAL_POINTS, 4).
-define(WARMUP_MS, 1000).

describe() ->
    """
    A node with the given number of schedulers (2 by default) runs a program of five phases, over
    and over: a tight loop, crypto:hash/2, tiny calls, a quicksort by comprehensions, building a
    list. The program reads its clock between the phases: these are the true shares of the time.
    Half of the time dyno's sampler of stacks is there, by turns; with the argument budget, all that
    the level budget of `dyno test` has. The result is the largest difference between a share as
    dyno tells it and a true one, in percentage points; besides, how long a turn of the program
    takes with dyno by how long without, by the clock and in processor time of the node: the median
    over pairs of parts. With the argument low, a server answers 50 requests of 0.2 ms a second, at
    the level budget (bench_low).
    """.

argument("budget") ->
    {ok, budget};
argument("low") ->
    {ok, low};
argument(Text) ->
    bench_program:whole(Text, 2, {1, "schedulers, budget or low"}).

measure(low, Effort) ->
    bench_low:measure(Effort);
measure(What, Effort) ->
    #{rounds := Rounds, parts := Parts, part_ms := PartMs} = settings(What, Effort),
    {ok, Node} = dyno_peer:start(#{name => "bench", arguments => arguments(What)}),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
    Pid = erpc:call(Node, bench_phases, start, []),
    Measured = {Node, Pid, PartMs},
    %% The first one warms up.
    _ = round_of(What, Measured, 1),
    All = [round_of(What, Measured, Parts) || _ <- lists:seq(1, Rounds)],
    ok = dyno_peer:stop(Node),
    bench_program:say("rounds    ~b of ~b times ~b ms with dyno and as long without", [
        Rounds, Parts, PartMs
    ]),
    cost(What, [Of || #{results := Of} <- All]),
    bench_program:say("a turn    ~ts ms of processor time without dyno", [
        bench_program:number(
            dyno_stats:median([Ms || #{parts := Of} <- All, {_, {_, _, Ms}} <- Of])
        )
    ]),
    Truth = bench_phases:in_percent([
        maps:to_list(Times)
     || #{parts := Of} <- All, {{Times, _, _}, _} <- Of
    ]),
    Told = bench_phases:in_percent([told(What, Of) || #{results := Of} <- All]),
    Off = bench_program:shares("told", Truth, Told),
    Pairs = [Pair || #{parts := Of} <- All, Pair <- Of],
    slowed(What, "slowed   ", [With / Without || {{_, With, _}, {_, Without, _}} <- Pairs]),
    slowed(What, "processor", [With / Without || {{_, _, With}, {_, _, Without}} <- Pairs]),
    #{
        name => lists:concat(["known_shares_", What]),
        value => Off,
        unit => "points",
        goal => ?GOAL_POINTS
    }.

settings(budget, full) -> #{rounds => 5, parts => 40, part_ms => 500};
settings(_Stacks, full) -> #{rounds => 12, parts => 8, part_ms => 500};
settings(_What, quick) -> #{rounds => 1, parts => 4, part_ms => 500}.

arguments(What) ->
    lists:append([["+S", integer_to_list(What)] || is_integer(What)]) ++
        ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"].

%% dyno is there all the time, and does nothing half of it: machines change their speed from one
%% second to the next, so the turns are short.
round_of(What, {Node, _, _} = Measured, Parts) ->
    {ok, [#{instruments := Instruments}] = Targets} =
        dyno_targets:attach([Node], (options(What))#{interval_ms => 1000}),
    timer:sleep(?WARMUP_MS),
    ok = dyno_targets:restart(Targets),
    Pids = [Pid || {_, Pid} <- Instruments],
    Pairs = [pair(N rem 2, Pids, Measured) || N <- lists:seq(1, Parts)],
    [#{results := Results}] = dyno_targets:read(Targets),
    ok = bench_program:detach(Targets),
    #{results => Results, parts => Pairs}.

options(budget) ->
    %% With samples of the processor, as `dyno test` in nodes that it starts.
    #{
        patterns => [{bench_phases, '_', '_'}],
        level => budget,
        budget => 0.05,
        without => [],
        own_cpu => true
    };
options(_Stacks) ->
    All = dyno_agent_instrument:names(dyno_agent_instrument:all()),
    %% Of which instants take a fifth: as much as in a profile.
    #{patterns => [], level => budget, budget => 0.075, without => All -- [stacks]}.

%% With dyno and without.
pair(0, Pids, Measured) ->
    With = part(Measured),
    {With, without(Pids, Measured)};
pair(1, Pids, Measured) ->
    Without = without(Pids, Measured),
    {part(Measured), Without}.

without(Pids, Measured) ->
    lists:foreach(fun sys:suspend/1, Pids),
    Part = part(Measured),
    lists:foreach(fun sys:resume/1, Pids),
    Part.

%% What the phases took, and what a turn did, by the clock and in processor time.
part({Node, Pid, Ms}) ->
    _ = erpc:call(Node, bench_phases, measured, [Pid]),
    timer:sleep(Ms),
    {Times, Turns, ProcessorMs} = erpc:call(Node, bench_phases, measured, [Pid]),
    {Times, lists:sum(maps:values(Times)) / Turns, ProcessorMs}.

told(budget, #{dyno_agent_calls := #{functions := Functions}}) ->
    [{bench_phases:phase([MFA]), Ns} || #{mfa := MFA, own_time_ns := Ns} <- Functions];
told(_Stacks, #{dyno_agent_stacks := #{stacks := Stacks}}) ->
    [{bench_phases:phase(Stack), Weight} || {_, Stack, Weight} <- Stacks].

cost(budget, _Results) ->
    ok;
cost(_Stacks, Results) ->
    Sum = fun(Key) -> lists:sum([map_get(Key, Of) || #{dyno_agent_stacks := Of} <- Results]) end,
    bench_program:say("instants  ~b, ~ts ms apart in the mean", [
        Sum(instants), bench_program:number(Sum(duration_ns) / 2 / Sum(instants) / 1.0e6)
    ]),
    bench_program:say("cost      ~.2f % of one scheduler, as the sampler measures itself", [
        2 * 100 * Sum(cost_ns) / Sum(duration_ns)
    ]).

slowed(What, Name, Ratios) ->
    Goal = maps:get(What, #{budget => 1.05}, 1.02),
    {Median, Interval} = bench_program:median(Ratios),
    bench_program:say("~ts ~.3f times, ~ts; at most ~.2f: ~ts", [
        Name,
        Median,
        bench_program:interval_text(Interval, "times"),
        Goal,
        bench_program:goal(Median, Interval, {goal, Goal})
    ]).
