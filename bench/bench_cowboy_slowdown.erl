%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_cowboy_slowdown).
-moduledoc false.
%% By what factor Cowboy's median response time grows while dyno, or one of OTP's profilers,
%% measures all its functions and processes.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

%% A level of dyno's, or a profiler of OTP's.
-type tool() :: count | discovery | time | memory | all | eprof | fprof.

-define(GOAL, 1.5).
%% So many requests to one server, then as many to the other.
-define(TURN, 250).
%% As `dyno test` has it by default.
-define(INTERVAL_MS, 1000).

describe() ->
    """
    By what factor the median response time of Cowboy grows while dyno measures the calls, own time
    and callers of all functions of cowboy, ranch and cowlib, discovers every process that calls
    them (one for each connection and one for each request), and samples the VM and the system:
    what `dyno test examples/http_demo.erl` does. For each pair two fresh nodes serve, one with dyno
    and one without, and the client asks them in turn, 250 requests at a time, without and with,
    with and without, so that whatever else the machine does falls on both. It sends one request
    after another on each connection (1 by default) and keeps the connections. The figure is the
    median of the pairs' ratios of median response times.

    Where there is no Cowboy, OTP's httpd serves, and the figure's name says so.

    Arguments: CONNECTIONS, or TOOL:CONNECTIONS. The tool is a level of dyno's, count, discovery,
    time (the default), memory or all, or for comparison one of OTP's profilers, eprof or fprof,
    with all processes.
    """.

argument(none) ->
    {ok, {time, 1}};
argument(Text) ->
    {Tool, Number} =
        case string:split(Text, ":") of
            [One] -> {"time", One};
            [Given, Other] -> {Given, Other}
        end,
    Tools = ["count", "discovery", "time", "memory", "all", "eprof", "fprof"],
    case {lists:member(Tool, Tools), string:to_integer(Number)} of
        {true, {Connections, ""}} when Connections > 0 ->
            {ok, {list_to_atom(Tool), Connections}};
        _ ->
            {error, ["give CONNECTIONS or TOOL:CONNECTIONS, such as 16 or eprof:1; not ", Text]}
    end.

measure({Tool, Connections}, Effort) ->
    #{pairs := Pairs, turns := Turns} = extent(Effort, Tool),
    #{patterns := Given, name := Suite} = http_demo:suite(),
    {ok, #{patterns := Patterns}} = dyno_suite:options(#{sizes => [1], patterns => Given}),
    Medians = [pair(N, Tool, Connections, Turns, Patterns) || N <- lists:seq(1, Pairs)],
    {Without, With} = lists:unzip(Medians),
    bench_program:say("server    ~ts, connections: ~b", [Suite, Connections]),
    bench_program:say("runs      ~b pairs of twice ~b requests", [
        Pairs, Turns * each(Connections) * Connections
    ]),
    bench_program:say("median    without ~ts us, with ~w ~ts us", [
        bench_program:number(dyno_stats:median(Without) / 1000),
        Tool,
        bench_program:number(dyno_stats:median(With) / 1000)
    ]),
    bench_program:say("ratios    ~ts", [
        lists:join(" ", [bench_program:number(R) || R <- lists:sort([B / A || {A, B} <- Medians])])
    ]),
    figure(Tool, Connections, Without, With).

extent(quick, fprof) -> #{pairs => 1, turns => 2};
extent(quick, _) -> #{pairs => 2, turns => 4};
extent(full, fprof) -> #{pairs => 6, turns => 4};
extent(full, _) -> #{pairs => 25, turns => 12}.

%% Requests in a turn, on each connection.
each(Connections) -> max(1, ?TURN div Connections).

figure(Tool, Connections, Without, With) ->
    {Ratio, Interval} =
        case dyno_stats_ratio:compare(Without, With, 0.95) of
            {ok, #{ratio := R, low := Low, high := High, level := Level}} ->
                {R, {Low, High, Level}};
            {error, too_few} ->
                {dyno_stats:median([B / A || {A, B} <- lists:zip(Without, With)]), none}
        end,
    Figure = #{
        name => lists:concat([server_name(), "_slowdown_", prefix(Tool), Connections]),
        value => Ratio,
        unit => "times",
        interval => Interval
    },
    case {Tool, server_name()} of
        {time, cowboy} -> Figure#{goal => ?GOAL};
        _ -> Figure
    end.

%% As http_demo chooses it.
server_name() ->
    case code:which(cowboy) of
        non_existing -> httpd;
        _ -> cowboy
    end.

prefix(time) -> "";
prefix(Tool) -> lists:concat([Tool, "_"]).

%% The median response times of two fresh nodes, in nanoseconds: without and with the tool.
pair(Number, Tool, Connections, Turns, Patterns) ->
    Without = server(Connections),
    #{node := Node} = With = server(Connections),
    Each = each(Connections),
    %% Code is loaded, heaps get their size.
    warm_up([Without, With], Each),
    Measuring = begin_with(Tool, Node, Patterns),
    warm_up([Without, With], Each),
    ok = restart(Tool, Measuring),
    Order =
        case Number rem 2 of
            0 -> [With, Without];
            1 -> [Without, With]
        end,
    Times = turns(Turns, Order, Each, []),
    ok = end_with(Tool, Measuring, Turns * Each * Connections),
    lists:foreach(fun stop/1, [Without, With]),
    {median_of(Without, Times), median_of(With, Times)}.

server(Connections) ->
    {ok, [Node], State} = http_demo:init_run(Connections, undefined),
    Clients = [client(Id, State) || Id <- lists:seq(1, Connections)],
    #{node => Node, state => State, clients => Clients}.

stop(#{clients := Clients, state := State}) ->
    lists:foreach(fun(Client) -> Client ! stop end, Clients),
    ok = http_demo:end_run(State).

warm_up(Servers, Each) ->
    lists:foreach(
        fun(#{clients := Clients}) -> _ = requests(Clients, 4 * Each) end,
        Servers
    ).

%% The one that ended a round begins the next.
turns(0, _Order, _Each, Times) ->
    Times;
turns(Left, Order, Each, Times) ->
    Round = [{Node, requests(Clients, Each)} || #{node := Node, clients := Clients} <- Order],
    turns(Left - 1, lists:reverse(Order), Each, Round ++ Times).

median_of(#{node := Node}, Times) ->
    dyno_stats:median(lists:append([lists:append(T) || {N, T} <- Times, N =:= Node])).

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
begin_with(Profiler, Node, _Patterns) when Profiler =:= eprof; Profiler =:= fprof ->
    ok = erpc:call(Node, bench_profilers, start, [Profiler]),
    {Node, Profiler};
begin_with(Level, Node, Patterns) ->
    {ok, Targets} = dyno_test_targets:attach([Node], #{
        patterns => Patterns, level => Level, interval_ms => ?INTERVAL_MS
    }),
    Targets.

restart(_Profiler, {_Node, _}) -> ok;
restart(_Level, Targets) -> dyno_test_targets:restart(Targets).

%% Everything must have been measured, or the comparison means nothing.
end_with(_Profiler, {Node, Profiler}, _Requests) ->
    erpc:call(Node, bench_profilers, stop, [Profiler]);
end_with(Level, Targets, Requests) ->
    [#{functions := Functions, processes := Processes}] = dyno_test_targets:read(Targets),
    ok = dyno_test_targets:detach(Targets),
    _ = [check_calls(Functions, Requests) || dyno_suite:measures(Level) =/= []],
    _ = [check_processes(Processes, Requests) || dyno_suite:discovers(Level)],
    ok.

%% What is called once for each request.
once(cowboy) -> {cowboy_req, reply, 4};
once(httpd) -> {httpd_response, generate_and_send_response, 1}.

check_calls(#{functions := Functions, off_by := OffBy}, Requests) ->
    Once = once(server_name()),
    Calls = lists:sum([N || #{mfa := MFA, calls := N} <- Functions, MFA =:= Once]),
    abs(Calls - Requests) =< ceil(Requests * OffBy) orelse
        error({calls, Calls, of_requests, Requests, off_by, OffBy}).

%% Cowboy has a process for each request, httpd one for each connection.
check_processes(#{discovered := Discovered}, Requests) ->
    Least =
        case server_name() of
            cowboy -> Requests;
            httpd -> 1
        end,
    Discovered >= Least orelse error({processes, Discovered, of_at_least, Least}).
