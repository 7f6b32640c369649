%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_top).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(INTERVAL_MS, 2000).
-define(GOAL_PERCENT, 5.0).

describe() ->
    """
    What `dyno top` costs a node of many idle processes (the argument; 10,000 by default): a minute
    without it, then a minute of readings, one every two seconds. The result is the processor time
    of all threads of the node in the second minute without that of the first, as a percentage of
    one scheduler. Beside it: what top's last line says, by how much a timer at priority high was
    late at most in each minute, and the node's memory after 10 readings and after 30. Then the same
    of `dyno doctor`, and of its last line.
    """.

argument(Text) -> bench_program:whole(Text, 10_000, {1, "processes"}).

measure(Count, Effort) ->
    Readings = readings(Effort),
    {ok, Node} = dyno_peer:start(#{
        name => "watched",
        arguments => ["+P", integer_to_list(max(262_144, 2 * Count)), "+sbwt", "none"] ++
            ["+sbwtdcpu", "none", "+sbwtdio", "none"]
    }),
    ok = erpc:call(Node, bench_visit, crowd, [Count]),
    timer:sleep(?INTERVAL_MS),
    {RestNs, RestLate} = during(Node, fun() -> timer:sleep(Readings * ?INTERVAL_MS) end),
    {ok, Looking} = dyno_top:open([Node], #{}),
    %% The first reading meets each process for the first time.
    {_, First} = read(Node, Looking),
    %% Until the first findings top says that it costs more than it tells.
    _ = [
        receive
            {findings, Node, {_, Share}} -> put(looks, Share)
        end
     || dyno_top:is_examined(Count)
    ],
    Read = fun() -> put(read, readings(Node, First, Readings)) end,
    {WatchedNs, WatchedLate} = during(Node, Read),
    {Shares, Memory, Last} = get(read),
    _ = dyno_top:close(Last),
    RestShare = RestNs / (Readings * ?INTERVAL_MS * 1.0e6),
    ok = doctor(Node, RestShare),
    ok = dyno_peer:stop(Node),
    Percent = 100 * (WatchedNs / (Readings * ?INTERVAL_MS * 1.0e6) - RestShare),
    Said = 100 * lists:sum(Shares) / length(Shares),
    bench_program:say(
        "threads ~.2f % of a scheduler, top says ~.2f %; a timer is late by ~b us at most, ~b at "
        "rest; memory ~.1f MB after a third of the readings, ~.1f in the end",
        [Percent, Said, WatchedLate, RestLate] ++
            [lists:nth(N, Memory) / 1.0e6 || N <- [Readings div 3, Readings]]
    ),
    #{
        name => "top_" ++ integer_to_list(Count),
        value => Percent,
        unit => "%",
        goal => ?GOAL_PERCENT
    }.

doctor(Node, RestShare) ->
    Began = erlang:monotonic_time(nanosecond),
    {UsedNs, Late} = during(Node, fun() -> put(run, dyno_doctor:run([Node], #{})) end),
    TookNs = erlang:monotonic_time(nanosecond) - Began,
    {ok, #{~"runs" := [#{~"duration_ns" := DurationNs} = Run | _]}} = get(run),
    [LookingNs, VisitNs] = [
        Ns
     || Name <- [~"instrument.looking", ~"instrument.visit"],
        {ok, #{~"value" := Ns}} <- [dyno_recording:metric(Run, Name)]
    ],
    bench_program:say(
        "doctor: threads ~b ms, looking ~b ms (~.2f % of a scheduler), visit ~b ms; a timer late "
        "by ~b us at most",
        [
            round((UsedNs - RestShare * TookNs) / 1.0e6),
            round(LookingNs / 1.0e6),
            100 * LookingNs / DurationNs,
            round(VisitNs / 1.0e6),
            Late
        ]
    ).

during(Node, Fun) ->
    _ = erpc:call(Node, bench_visit, latest_us, []),
    Before = used_ns(Node),
    _ = Fun(),
    {used_ns(Node) - Before, erpc:call(Node, bench_visit, latest_us, [])}.

%% The processor time of all of the node's threads.
used_ns(Node) ->
    Tasks = "/proc/" ++ erpc:call(Node, os, getpid, []) ++ "/task/",
    {ok, Names} = file:list_dir(Tasks),
    lists:sum([
        binary_to_integer(hd(binary:split(Text, ~" ")))
     || Name <- Names, {ok, Text} <- [file:read_file(Tasks ++ Name ++ "/schedstat")]
    ]).

readings(full) -> 30;
readings(quick) -> 3.

readings(Node, Looking, Count) ->
    {Read, Last} = lists:mapfoldl(
        fun(_, L) ->
            timer:sleep(?INTERVAL_MS),
            {#{values := Values} = Reading, Next} = read(Node, L),
            {{dyno_top:cost(Reading, looks(Node)), map_get(~"vm.memory.total", Values)}, Next}
        end,
        Looking,
        lists:seq(1, Count)
    ),
    {Shares, Memory} = lists:unzip(Read),
    {Shares, Memory, Last}.

read(Node, Looking) ->
    dyno_top:reading(
        Node, #{view => processes, sort => reductions, most => 100, filter => ~""}, Looking
    ).

%% The share that the last looks of doctor took.
looks(Node) ->
    receive
        {findings, Node, {_, Share}} ->
            _ = put(looks, Share),
            looks(Node)
    after 0 ->
        case get(looks) of
            undefined -> 0.0;
            Share -> Share
        end
    end.
