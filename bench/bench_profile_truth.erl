%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_profile_truth).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2, truth_and_found/3]).

-define(GOAL_POINTS, 3).
-define(RING, 10).
-define(IDLE, 990).
%% The turns of some 30 ms.
-define(TIMES, 30).

describe() ->
    """
    A node with two schedulers runs a program of seven phases in a ring of ten processes, of which
    one runs at a time and none for about a third of it, beside 990 that are idle (bench_ring). The
    program reads its clock between the phases; the true shares are those meanwhile, and for calls,
    which slow it, those before and after. The result is the largest difference between a share of the profile and the
    true one, in percentage points. The argument is the kind of profile, sample (the default) or
    calls. A turn of the program takes some 30 ms, with sample:short or calls:short one: most
    phases are shorter then than a process runs without a break.
    """.

argument(none) -> {ok, {sample, ?TIMES}};
argument("sample") -> {ok, {sample, ?TIMES}};
argument("sample:short") -> {ok, {sample, 1}};
argument("calls") -> {ok, {calls, ?TIMES}};
argument("calls:short") -> {ok, {calls, 1}};
argument(Text) -> {error, ["the kind is sample or calls, perhaps with :short, not ", Text]}.

measure({Kind, Times}, Effort) ->
    ForMs =
        case Effort of
            full -> 10_000;
            quick -> 2000
        end,
    {Truth, Found, Waiting, FoundWaiting} = truth_and_found(Kind, Times, ForMs),
    Off = bench_program:shares("found", Truth, Found),
    bench_program:say("waiting truth ~5.1f %, found ~5.1f %", [Waiting, FoundWaiting]),
    #{
        name => lists:append(["profile_truth_", atom_to_list(Kind)] ++ ["_short" || Times =:= 1]),
        value => Off,
        unit => "%",
        goal => ?GOAL_POINTS
    }.

-doc """
The true and the found shares of the phases in the time that the program runs, and those of the
waiting in the whole time; the last one is 0 for samples.
""".
-spec truth_and_found(sample | calls, Times :: pos_integer(), ForMs :: pos_integer()) ->
    {Truth, Found, Waiting :: float(), Off :: float()}
when
    Truth :: #{atom() => float()}, Found :: #{atom() => float()}.
truth_and_found(Kind, Times, ForMs) ->
    {ok, Node} = dyno_peer:start(#{name => "truth", arguments => ["+S", "2"]}),
    try
        {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
        Ring = erpc:call(Node, bench_ring, start, [?RING, ?IDLE, Times]),
        timer:sleep(1500),
        _ = erpc:call(Node, bench_ring, shares, [Ring]),
        timer:sleep(3000),
        {Before, WaitingBefore, _} = erpc:call(Node, bench_ring, shares, [Ring]),
        {ok, Recording} = dyno_profile:run([Node], #{
            kind => Kind, for_ms => ForMs, targets => [{name, ~"bench_ring"}]
        }),
        {During, WaitingDuring, _} = erpc:call(Node, bench_ring, shares, [Ring]),
        timer:sleep(3000),
        {After, WaitingAfter, _} = erpc:call(Node, bench_ring, shares, [Ring]),
        {Truth, Waiting} =
            case Kind of
                sample ->
                    {During, WaitingDuring};
                calls ->
                    Mean = fun(Phase, Share) -> (Share + map_get(Phase, After)) / 2 end,
                    {maps:map(Mean, Before), (WaitingBefore + WaitingAfter) / 2}
            end,
        {Found, Off} = found(Recording),
        {Truth, Found, Waiting, Off}
    after
        dyno_peer:stop(Node)
    end.

found(Recording) ->
    [#{~"profiles" := Profiles}] = dyno_recording:runs(Recording),
    [Times | _] = [by_phase(Profile) || Profile <- Profiles],
    Running = lists:sum(maps:values(Times)),
    Sum = Running - maps:get(none, Times, 0),
    Off = lists:sum([
        Value
     || #{~"name" := ~"off_paths", ~"samples" := Samples} = Profile <- Profiles,
        #{~"stack" := Stack, ~"values" := [Value]} <- Samples,
        bench_ring:is_waiting(names(Stack, Profile))
    ]),
    {
        maps:map(fun(_, Value) -> 100 * Value / max(1, Sum) end, maps:remove(none, Times)),
        100 * Off / max(1, Off + Running)
    }.

by_phase(#{~"samples" := Samples} = Profile) ->
    maps:map(
        fun(_, Values) -> lists:sum(Values) end,
        maps:groups_from_list(
            fun(#{~"stack" := Stack}) -> bench_ring:phase(names(Stack, Profile)) end,
            fun(#{~"values" := [Value | _]}) -> Value end,
            Samples
        )
    ).

names(Stack, #{~"frames" := Frames}) ->
    Names = list_to_tuple(Frames),
    [element(Number + 1, Names) || Number <- Stack].
