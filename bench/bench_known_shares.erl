%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_known_shares).
-moduledoc false.
%% How far the sampled shares of the time are from the true ones, and how much sampling slows.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(GOAL_POINTS, 4).
-define(GOAL_SLOWED, 1.02).

describe() ->
    """
    A node with the given number of schedulers (2 by default) runs a program of five phases, over
    and over: a tight loop, crypto:hash/2, tiny calls, a quicksort by comprehensions, building a
    list. The program reads its clock between the phases: these are the true shares of the time.
    Half of the time dyno's sampler of stacks is there, by turns. The result is the largest
    difference between a sampled and a true share, in percentage points; besides, the processor time
    that the node takes for a turn with the sampler by that without, the median over the rounds.
    """.

argument(none) ->
    {ok, 2};
argument(Text) ->
    case string:to_integer(Text) of
        {Count, ""} when Count > 0 -> {ok, Count};
        _ -> {error, ["the number of schedulers is a positive integer, not ", Text]}
    end.

measure(Schedulers, Effort) ->
    #{rounds := Rounds, parts := Parts, part_ms := PartMs} = settings(Effort),
    {ok, Node} = dyno_peer:start(#{
        name => "bench", arguments => [
            "+S", integer_to_list(Schedulers),
            "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"
        ]
    }),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
    Pid = erpc:call(Node, bench_phases, start, []),
    Idle = dyno_agent:new_idle(),
    Measured = {Node, Pid, Idle, Parts, PartMs},
    %% The first one warms up, and sends the agent.
    _ = round_of(Measured),
    All = [round_of(Measured) || _ <- lists:seq(1, Rounds)],
    ok = dyno_agent:release(Idle),
    ok = dyno_peer:stop(Node),
    bench_program:say("rounds    ~b of ~b times ~b ms with the sampler and as long without", [
        Rounds, Parts, PartMs
    ]),
    report(All, Schedulers).

settings(full) -> #{rounds => 12, parts => 8, part_ms => 500};
settings(quick) -> #{rounds => 2, parts => 2, part_ms => 500}.

%% The sampler is there all the time, and does nothing half of it.
round_of({Node, Pid, Idle, Parts, PartMs}) ->
    {ok, Agent} = dyno_agent:attach(Node, #{idle => Idle}),
    {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_stacks, #{}),
    ok = dyno_agent_stacks:restart(Sampler),
    Turns = lists:append([
        [
            {How, part(How, Sampler, {Node, Pid, PartMs})}
         || How <- lists:nth(1 + N rem 2, [[with, without], [without, with]])
        ]
     || N <- lists:seq(1, Parts)
    ]),
    Result = dyno_agent_stacks:read(Sampler),
    ok = dyno_agent:detach(Agent),
    #{
        result => Result,
        times => [Times || {with, {Times, _}} <- Turns],
        slowed => lists:zipwith(
            fun(With, Without) -> With / Without end,
            [Ms || {with, {_, Ms}} <- Turns],
            [Ms || {without, {_, Ms}} <- Turns]
        ),
        without => [Ms || {without, {_, Ms}} <- Turns]
    }.

part(with, _Sampler, Measured) ->
    part(Measured);
part(without, Sampler, Measured) ->
    ok = sys:suspend(Sampler),
    Part = part(Measured),
    ok = sys:resume(Sampler),
    Part.

part({Node, Pid, PartMs}) ->
    _ = erpc:call(Node, bench_phases, measured, [Pid]),
    timer:sleep(PartMs),
    {Times, _, Ms} = erpc:call(Node, bench_phases, measured, [Pid]),
    {Times, Ms}.

report(Rounds, Schedulers) ->
    Truth = bench_phases:in_percent([
        maps:to_list(Times)
     || #{times := Parts} <- Rounds, Times <- Parts
    ]),
    Sampled = bench_phases:in_percent([
        [{bench_phases:phase(Stack), Weight} || {_, Stack, Weight} <- Stacks]
     || #{result := #{stacks := Stacks}} <- Rounds
    ]),
    Sum = fun(Key) -> lists:sum([map_get(Key, Result) || #{result := Result} <- Rounds]) end,
    bench_program:say("instants  ~b, ~ts ms apart in the mean", [
        Sum(instants), bench_program:number(Sum(duration_ns) / 2 / Sum(instants) / 1.0e6)
    ]),
    bench_program:say("cost      ~.2f % of one scheduler, as the sampler measures itself", [
        2 * 100 * Sum(cost_ns) / Sum(duration_ns)
    ]),
    Errors = [
        begin
            Found = maps:get(Phase, Sampled, 0.0),
            bench_program:say("~-9s truth ~5.1f %, sampled ~5.1f %", [Phase, Share, Found]),
            abs(Found - Share)
        end
     || Phase := Share <- Truth
    ],
    {Slowed, Interval} = bench_program:median(
        lists:append([Slowed || #{slowed := Slowed} <- Rounds]), 0.95
    ),
    bench_program:say("a turn    ~ts ms of processor time without the sampler", [
        bench_program:number(dyno_stats:median(lists:append([Ms || #{without := Ms} <- Rounds])))
    ]),
    bench_program:say("slowed    ~.3f times, ~ts; at most ~.2f: ~ts", [
        Slowed, bench_program:interval_text(Interval, "times"), ?GOAL_SLOWED,
        bench_program:goal(Slowed, Interval, {goal, ?GOAL_SLOWED})
    ]),
    #{
        name => "known_shares_" ++ integer_to_list(Schedulers),
        value => lists:max(Errors),
        unit => "%",
        interval => none,
        goal => ?GOAL_POINTS
    }.
