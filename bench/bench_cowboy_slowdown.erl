%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_cowboy_slowdown).
-moduledoc false.
%% By what factor Cowboy's median response time grows while dyno, or one of OTP's profilers,
%% measures all its functions and processes.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-type tool() :: off | dyno | eprof | fprof.

-define(GOAL, 1.5).
%% As `dyno test` has it by default.
-define(INTERVAL_MS, 1000).

describe() ->
    """
    By what factor the median response time of Cowboy grows while dyno measures the calls, own time
    and callers of all functions of cowboy, ranch and cowlib, discovers every process that calls
    them (one for each connection and one for each request), and samples the VM and the system:
    what `dyno test examples/http_demo.erl` does. Runs with and without it alternate, each in a
    fresh node with the same number of requests, and the first of a pair is once the one, once the
    other. The client sends one request after another on each connection (1 by default) and keeps
    the connections. The figure is the median of the pairs' ratios of median response times.

    Arguments: CONNECTIONS, or TOOL:CONNECTIONS with the tool dyno, eprof or fprof.
    """.

argument(none) ->
    {ok, {dyno, 1}};
argument(Text) ->
    {Tool, Number} =
        case string:split(Text, ":") of
            [One] -> {"dyno", One};
            [Given, Other] -> {Given, Other}
        end,
    case {lists:member(Tool, ["dyno", "eprof", "fprof"]), string:to_integer(Number)} of
        {true, {Connections, ""}} when Connections > 0 ->
            {ok, {list_to_atom(Tool), Connections}};
        _ ->
            {error, ["give CONNECTIONS or TOOL:CONNECTIONS, such as 16 or eprof:1; not ", Text]}
    end.

measure({Tool, Connections}, Effort) ->
    #{pairs := Pairs, requests := Requests} = extent(Effort, Tool),
    #{patterns := Given, name := Suite} = http_demo:suite(),
    {ok, #{patterns := Patterns}} = dyno_suite:options(#{sizes => [1], patterns => Given}),
    Each = max(1, Requests div Connections),
    Run = fun(With) -> run(With, Connections, Each, Patterns) end,
    Medians = [pair(Pair, Tool, Run) || Pair <- lists:seq(1, Pairs)],
    {Without, With} = lists:unzip(Medians),
    bench_program:say("server    ~ts, ~b connections", [Suite, Connections]),
    bench_program:say("runs      ~b pairs of ~b requests each", [Pairs, Each * Connections]),
    bench_program:say("median    without ~ts us, with ~w ~ts us", [
        bench_program:number(dyno_stats:median(Without) / 1000),
        Tool,
        bench_program:number(dyno_stats:median(With) / 1000)
    ]),
    bench_program:say("ratios    ~ts", [
        lists:join(" ", [bench_program:number(B / A) || {A, B} <- lists:sort(Medians)])
    ]),
    figure(Tool, Connections, Without, With).

extent(quick, fprof) -> #{pairs => 1, requests => 50};
extent(quick, _) -> #{pairs => 2, requests => 500};
extent(full, fprof) -> #{pairs => 6, requests => 1000};
extent(full, _) -> #{pairs => 3, requests => 8000}.

figure(Tool, Connections, Without, With) ->
    {Ratio, Interval} =
        case dyno_stats_ratio:compare(Without, With, 0.95) of
            {ok, #{ratio := R, low := Low, high := High, level := Level}} ->
                {R, {Low, High, Level}};
            {error, too_few} ->
                {dyno_stats:median([B / A || {A, B} <- lists:zip(Without, With)]), none}
        end,
    Figure = #{
        name => lists:concat(["cowboy_slowdown_", prefix(Tool), Connections]),
        value => Ratio,
        unit => "times",
        interval => Interval
    },
    case Tool of
        dyno -> Figure#{goal => ?GOAL};
        _ -> Figure
    end.

prefix(dyno) -> "";
prefix(Tool) -> lists:concat([Tool, "_"]).

pair(Number, Tool, Run) when Number rem 2 =:= 1 ->
    Without = Run(off),
    {Without, Run(Tool)};
pair(_Number, Tool, Run) ->
    With = Run(Tool),
    {Run(off), With}.

%% The median response time of one run, in nanoseconds.
run(Tool, Connections, Requests, Patterns) ->
    {ok, [Node], State} = http_demo:init_run(Connections, undefined),
    Clients = [client(Id, State) || Id <- lists:seq(1, Connections)],
    %% Half as many again, to warm up: code is loaded, heaps have their size.
    _ = requests(Clients, max(20, Requests div 2)),
    Measuring = begin_with(Tool, Node, Patterns),
    _ = requests(Clients, max(20, Requests div 2)),
    ok = restart(Tool, Measuring),
    Times = requests(Clients, Requests),
    ok = end_with(Tool, Measuring, Connections * Requests),
    lists:foreach(fun(Client) -> Client ! stop end, Clients),
    ok = http_demo:end_run(State),
    dyno_stats:median(lists:append(Times)).

client(Id, State) ->
    Owner = self(),
    spawn_link(fun() ->
        {ok, Socket} = http_demo:init_worker(Id, State),
        serve(Owner, Socket)
    end).

serve(Owner, Socket) ->
    receive
        {requests, Count} ->
            {Times, Next} = repeat(Count, Socket, []),
            Owner ! {self(), Times},
            serve(Owner, Next);
        stop ->
            http_demo:end_worker(Socket)
    end.

repeat(0, Socket, Times) ->
    {Times, Socket};
repeat(Count, Socket, Times) ->
    Start = erlang:monotonic_time(nanosecond),
    {ok, Next} = http_demo:operation(Socket),
    repeat(Count - 1, Next, [erlang:monotonic_time(nanosecond) - Start | Times]).

requests(Clients, Count) ->
    lists:foreach(fun(Client) -> Client ! {requests, Count} end, Clients),
    [receive {Client, Times} -> Times end || Client <- Clients].

%% The tools

-spec begin_with(tool(), node(), [dyno_agent_patterns:pattern()]) -> term().
begin_with(off, _Node, _Patterns) ->
    none;
begin_with(dyno, Node, Patterns) ->
    {ok, Targets} = dyno_test_targets:attach([Node], #{
        patterns => Patterns, level => time, interval_ms => ?INTERVAL_MS
    }),
    Targets;
begin_with(Profiler, Node, _Patterns) ->
    ok = erpc:call(Node, bench_profilers, start, [Profiler]),
    {Node, Profiler}.

restart(dyno, Targets) -> dyno_test_targets:restart(Targets);
restart(_Tool, _Measuring) -> ok.

%% Everything must have been measured, or the comparison means nothing.
end_with(off, none, _Requests) ->
    ok;
end_with(dyno, Targets, Requests) ->
    [#{functions := #{functions := Functions}, processes := #{discovered := Discovered}}] =
        dyno_test_targets:read(Targets),
    ok = dyno_test_targets:detach(Targets),
    [Calls] = [N || #{mfa := {cowboy_req, reply, 4}, calls := N} <- Functions],
    io:format("DEBUG ~p calls of ~p, ~p discovered~n",[Calls,Requests,Discovered]),
    ok;
end_with(_Profiler, {Node, Profiler}, _Requests) ->
    erpc:call(Node, bench_profilers, stop, [Profiler]).
