%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_budget_phases).
-moduledoc false.
%% How far the shares of the time that the level `budget` tells are from the true ones, and how much
%% it slows what it measures.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(GOAL_POINTS, 4).
-define(GOAL_SLOWED, 1.05).
-define(WARMUP_MS, 1000).

describe() ->
    """
    A node runs the program of five phases of known_shares, over and over. The program reads its
    clock between the phases: these are the true shares of the time. The level budget of `dyno test`
    measures it, for half of the time, by turns. The result is the largest difference between a
    share as the level budget tells it and the true one, in percentage points; besides, how long a
    turn of the program takes with the level budget by how long without, by the clock and in
    processor time of the node: the median over pairs of turns.
    """.

argument(none) -> {ok, none};
argument(Other) -> {error, ["there is no argument ", Other]}.

measure(none, Effort) ->
    {Rounds, Parts, Ms} = effort(Effort),
    {ok, Node} = dyno_peer:start(#{
        name => "bench",
        arguments => ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"]
    }),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
    Pid = erpc:call(Node, bench_phases, start, []),
    All = [round_of({Node, Pid, Ms}, Parts) || _ <- lists:seq(1, Rounds)],
    ok = dyno_peer:stop(Node),
    bench_program:say("rounds    ~b of ~b times ~b ms with the level budget and as long without", [
        Rounds, Parts, Ms
    ]),
    Truth = bench_phases:in_percent([
        maps:to_list(Times)
     || #{truth := Parted} <- All, Times <- Parted
    ]),
    Told = bench_phases:in_percent([Of || #{told := Of} <- All]),
    Errors = [
        begin
            bench_program:say("~-9s truth ~5.1f %, told ~5.1f %", [
                Phase, Share, maps:get(Phase, Told, 0.0)
            ]),
            abs(Share - maps:get(Phase, Told, 0.0))
        end
     || Phase := Share <- Truth
    ],
    slowed("slowed   ", [Ratio || #{slowed := Of} <- All, {Ratio, _} <- Of]),
    slowed("processor", [Ratio || #{slowed := Of} <- All, {_, Ratio} <- Of]),
    #{
        name => "budget_phases",
        value => lists:max(Errors),
        unit => "points",
        interval => none,
        goal => ?GOAL_POINTS
    }.

effort(full) -> {5, 40, 500};
effort(quick) -> {1, 4, 500}.

%% The level is there all the time, and does nothing half of it: machines change their speed from
%% one second to the next, so the turns are short.
round_of({Node, _, _} = Measured, Parts) ->
    {ok, [#{instruments := Instruments}] = Targets} = dyno_targets:attach([Node], #{
        patterns => [{bench_phases, '_', '_'}],
        level => budget,
        budget => 0.05,
        interval_ms => 1000,
        without => []
    }),
    timer:sleep(?WARMUP_MS),
    ok = dyno_targets:restart(Targets),
    Pids = [Pid || {_, Pid} <- Instruments],
    Turns = lists:append([
        [
            {How, part(How, Pids, Measured)}
         || How <- lists:nth(1 + N rem 2, [[with, without], [without, with]])
        ]
     || N <- lists:seq(1, Parts)
    ]),
    [#{results := #{dyno_agent_calls := #{functions := Functions}}}] = dyno_targets:read(Targets),
    ok = dyno_targets:detach(Targets),
    #{
        truth => [Times || {with, {Times, _, _}} <- Turns],
        told => [{phase(MFA), Ns} || #{mfa := MFA, own_time_ns := Ns} <- Functions],
        slowed => lists:zipwith(
            fun({_, With, WithMs}, {_, Without, WithoutMs}) ->
                {With / Without, WithMs / WithoutMs}
            end,
            [Part || {with, Part} <- Turns],
            [Part || {without, Part} <- Turns]
        )
    }.

part(with, _Pids, Measured) ->
    part(Measured);
part(without, Pids, Measured) ->
    lists:foreach(fun sys:suspend/1, Pids),
    Part = part(Measured),
    lists:foreach(fun sys:resume/1, Pids),
    Part.

part({Node, Pid, Ms}) ->
    _ = erpc:call(Node, bench_phases, measured, [Pid]),
    timer:sleep(Ms),
    {Times, Turns, ProcessorMs} = erpc:call(Node, bench_phases, measured, [Pid]),
    {Times, lists:sum(maps:values(Times)) / Turns, ProcessorMs}.

%% What tiny calls, and funs of the comprehensions, belong to.
phase({bench_phases, Name, _}) ->
    case atom_to_list(Name) of
        "one" -> tiny;
        "two" -> tiny;
        "three" -> tiny;
        "-sort/1-" ++ _ -> sort;
        Other when Other =:= "loop"; Other =:= "digest"; Other =:= "tiny" -> Name;
        Other when Other =:= "sort"; Other =:= "build" -> Name;
        _ -> none
    end.

slowed(Name, Ratios) ->
    {Median, Interval} = bench_program:median(Ratios, 0.95),
    bench_program:say("~ts ~.3f times, ~ts; at most ~.2f: ~ts", [
        Name, Median, bench_program:interval_text(Interval, "times"), ?GOAL_SLOWED,
        bench_program:goal(Median, Interval, {goal, ?GOAL_SLOWED})
    ]).
