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
    A node runs the program of five phases of known_shares, over and over, on the machine's
    processors. By turns the level budget of `dyno test` measures it for some seconds, and nothing
    does. The program reads its clock between the phases: these are the true shares of the time. The
    result is the largest difference between a share as the level budget tells it and the true one,
    in percentage points; besides, how long a turn of the program takes with the level budget by
    how long without, by the clock and in processor time of the node: the median over the pairs.
    """.

argument(none) -> {ok, none};
argument(Other) -> {error, ["there is no argument ", Other]}.

measure(none, Effort) ->
    {Pairs, Ms} = effort(Effort),
    {ok, Node} = dyno_peer:start(#{
        name => "bench",
        arguments => ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"]
    }),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
    Measured = {Node, erpc:call(Node, bench_phases, start, []), Ms},
    All = [pair(Measured, N) || N <- lists:seq(1, Pairs)],
    ok = dyno_peer:stop(Node),
    bench_program:say("pairs     ~b, each of ~b s with the level budget and as long without", [
        Pairs, Ms div 1000
    ]),
    #{with := With} = lists:foldl(fun added/2, #{with => #{}}, All),
    Truth = shares(maps:from_list([{P, Ns} || {{truth, P}, Ns} <- maps:to_list(With)])),
    Told = shares(maps:from_list([{P, Ns} || {{told, P}, Ns} <- maps:to_list(With)])),
    Errors = [
        begin
            bench_program:say("~-9s truth ~5.1f %, told ~5.1f %", [
                Phase, Share, maps:get(Phase, Told, 0.0)
            ]),
            abs(Share - maps:get(Phase, Told, 0.0))
        end
     || Phase := Share <- Truth
    ],
    slowed("slowed   ", clock_ms, All),
    slowed("processor", processor_ms, All),
    #{
        name => "budget_phases",
        value => lists:max(Errors),
        unit => "points",
        interval => none,
        goal => ?GOAL_POINTS
    }.

effort(full) -> {20, 5000};
effort(quick) -> {2, 2000}.

pair(Measured, N) ->
    Order =
        case N rem 2 of
            0 -> [with, without];
            1 -> [without, with]
        end,
    #{How => part(How, Measured) || How <- Order}.

part(without, Measured) ->
    turn(Measured);
part(with, {Node, _, _} = Measured) ->
    {ok, Targets} = dyno_targets:attach([Node], #{
        patterns => [{bench_phases, '_', '_'}],
        level => budget,
        budget => 0.05,
        interval_ms => 1000,
        without => []
    }),
    timer:sleep(?WARMUP_MS),
    ok = dyno_targets:restart(Targets),
    #{truth := Truth} = Turn = turn(Measured),
    [#{results := #{dyno_agent_calls := #{functions := Functions}}}] = dyno_targets:read(Targets),
    ok = dyno_targets:detach(Targets),
    Told = maps:groups_from_list(
        fun({Phase, _}) -> Phase end,
        fun({_, Ns}) -> Ns end,
        [{phase(MFA), Ns} || #{mfa := MFA, own_time_ns := Ns} <- Functions]
    ),
    Turn#{
        phases => maps:from_list(
            [{{truth, Phase}, Ns} || {Phase, Ns} <- maps:to_list(Truth)] ++
                [{{told, P}, lists:sum(Ns)} || {P, Ns} <- maps:to_list(Told), P =/= none]
        )
    }.

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

turn({Node, Pid, Ms}) ->
    _ = erpc:call(Node, bench_phases, measured, [Pid]),
    timer:sleep(Ms),
    {Times, Turns, ProcessorMs} = erpc:call(Node, bench_phases, measured, [Pid]),
    #{
        truth => Times,
        clock_ms => lists:sum(maps:values(Times)) / Turns,
        processor_ms => ProcessorMs
    }.

added(#{with := #{phases := Phases}}, #{with := Sum} = Acc) ->
    Acc#{with := maps:merge_with(fun(_, A, B) -> A + B end, Sum, Phases)}.

shares(Times) ->
    All = max(1, lists:sum(maps:values(Times))),
    #{Phase => 100 * Time / All || Phase := Time <- Times}.

slowed(Name, Key, All) ->
    Ratios = [
        map_get(Key, With) / map_get(Key, Without)
     || #{with := With, without := Without} <- All
    ],
    {Median, Interval} = bench_program:median(Ratios, 0.95),
    bench_program:say("~ts ~.3f times, ~ts; at most ~.2f: ~ts", [
        Name, Median, bench_program:interval_text(Interval, "times"), ?GOAL_SLOWED,
        bench_program:goal(Median, Interval, {goal, ?GOAL_SLOWED})
    ]).
