%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_cowboy_slowdown).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

%% A level of dyno's, `dyno profile`, a profiler of OTP's, or the runtime's own part.
-define(TOOLS, [
    budget, count, discovery, time, memory, all, sample, cpu, eprof, fprof, tprof, call_time
]).
-define(GOAL, 1.1).
%% At most so many requests to one server, then as many to the other.
-define(TURN, 250).
%% As `dyno test` has it by default.
-define(INTERVAL_MS, 1000).
-define(WARMUP_MS, 1000).
-define(CONNECTIONS, [1, 16]).
-define(REQUESTS, 3000).
%% It is stopped before.
-define(MOST_MS, 3_600_000).
%% Of each node before it is measured.
-define(CALLS, 100).

%% How a pair is measured: `repetitions` times, in `turns` of `each` requests a connection.
-type shape() :: #{
    connections := pos_integer(),
    requests := pos_integer(),
    repetitions := pos_integer(),
    turns := pos_integer(),
    each := pos_integer()
}.

describe() ->
    """
    By what factor the median response time of Cowboy grows while dyno measures the calls, own time
    and callers of all functions of cowboy, ranch and cowlib within its budget, discovers the
    processes that call them (one for each connection and one for each request), and samples stacks,
    the VM and the system: what `dyno test examples/http_demo.erl` does. For each pair two fresh
    nodes serve, one with dyno and one without, and the client asks them in turn, at most 250
    requests at a time, without and with, with and without, so that whatever else the machine does
    falls on both. Both nodes have just been called by others: that alone, without dyno, makes the
    next few hundred
    requests over one connection take up to twice as long, while a second scheduler is awake. It
    sends one request after another on each connection and keeps the connections. Where a run is of
    few requests it is repeated, dyno attached anew each time. The result is the median of the
    pairs' ratios of median response times. The ratio of the processor time a request, of the whole
    node, is said beside it (on Linux): it is less noisy.

    Where there is no Cowboy, OTP's httpd serves, and the name of the result says so.

    Arguments: `all` (the default) runs 10, 100, 1,000 and 10,000 requests with 1 connection and
    with 16; the result is the largest of the eight. CONNECTIONS or CONNECTIONSxREQUESTS runs one
    (3,000 requests), with TOOL: before it measured by another tool: a level of dyno's, budget
    (the default), count, discovery, time, memory or all; sample and cpu, kinds of `dyno
    profile`; one of OTP's profilers, eprof, tprof or fprof, with all processes; or call_time,
    what the runtime itself takes: its breakpoints in the same functions, for all processes, and
    nobody reads them. Less than that dyno cannot take.
    """.

argument(Text) when Text =:= none; Text =:= "all" ->
    {ok, all};
argument(Text) ->
    {Tool, Numbers} =
        case string:split(Text, ":") of
            [One] -> {"budget", One};
            [Given, Other] -> {Given, Other}
        end,
    Read = [string:to_integer(N) || N <- string:split(Numbers, "x")],
    case {[Of || Of <- ?TOOLS, atom_to_list(Of) =:= Tool], Read} of
        {[Of], [{Connections, ""}]} when Connections > 0 ->
            {ok, {Of, Connections, ?REQUESTS}};
        {[Of], [{Connections, ""}, {Requests, ""}]} when Connections > 0, Requests > 0 ->
            {ok, {Of, Connections, Requests}};
        _ ->
            {error, [
                "give all, CONNECTIONS, CONNECTIONSxREQUESTS or one of these after TOOL:, such as "
                "16x1000, eprof:1 or call_time:16; not ",
                Text
            ]}
    end.

measure(all, Effort) ->
    Figures = [
        begin
            Figure = one({budget, Connections, Requests}, Effort),
            #{value := Ratio, interval := Interval} = Figure,
            bench_program:say("ratio     ~ts~n", [bench_program:times({Ratio, Interval}, ?GOAL)]),
            {Ratio, Figure}
        end
     || Requests <- sizes(Effort), Connections <- ?CONNECTIONS
    ],
    {_, Largest} = lists:last(lists:keysort(1, Figures)),
    bench_program:say("largest   ~ts", [map_get(name, Largest)]),
    Largest#{name := lists:concat([server_name(), "_slowdown"])};
measure(One, Effort) ->
    one(One, Effort).

sizes(full) -> [10, 100, 1000, 10_000];
sizes(quick) -> [10, 100].

one({Tool, Connections, Requests}, Effort) ->
    {Pairs, Most, Repetitions} = settings(Effort, Tool),
    Shape = shape(Connections, min(Requests, Most), Repetitions),
    #{patterns := Given, name := Suite} = http_demo:suite(),
    {ok, #{patterns := Patterns}} = dyno_suite:options(#{sizes => [1], patterns => Given}),
    Measured = [pair(N, Tool, Shape, Patterns) || N <- lists:seq(1, Pairs)],
    Medians = [Pair || {Pair, _} <- Measured],
    {Without, With} = lists:unzip(Medians),
    bench_program:say("server    ~ts, connections: ~b", [Suite, Connections]),
    bench_program:say("runs      ~b pairs of ~b times twice ~b requests", [
        Pairs, map_get(repetitions, Shape), asked(Shape)
    ]),
    bench_program:say("median    without ~ts us, with ~w ~ts us", [
        bench_program:number(dyno_stats:median(Without) / 1000),
        Tool,
        bench_program:number(dyno_stats:median(With) / 1000)
    ]),
    bench_program:say("ratios    ~ts", [
        lists:join(" ", [bench_program:number(R) || R <- lists:sort([B / A || {A, B} <- Medians])])
    ]),
    processor([Pair || {_, Pair} <- Measured], Tool),
    result({Tool, Connections, Requests}, Without, With).

%% Of the whole node, for each request.
processor(Pairs, Tool) ->
    case lists:unzip([{A / 1000, B / 1000} || {A, B} <- Pairs, A > 0]) of
        {[], []} ->
            ok;
        {Without, With} ->
            Ratios = lists:sort([B / A || {A, B} <- lists:zip(Without, With)]),
            bench_program:say("processor ~ts us a request, with ~w ~ts us: ~ts times (~ts)", [
                bench_program:number(dyno_stats:median(Without)),
                Tool,
                bench_program:number(dyno_stats:median(With)),
                bench_program:number(dyno_stats:median(Ratios)),
                lists:join(" ", [bench_program:number(R) || R <- Ratios])
            ])
    end.

%% Pairs, the most requests, the most repetitions. fprof is slow, and what it keeps grows with the
%% requests.
settings(full, fprof) -> {6, 1000, 10};
settings(quick, fprof) -> {1, 500, 2};
settings(full, _) -> {15, 1_000_000, 10};
settings(quick, _) -> {2, 1000, 2}.

-spec shape(pos_integer(), pos_integer(), pos_integer()) -> shape().
shape(Connections, Requests, Most) ->
    Used = min(Connections, Requests),
    Turn = min(?TURN, max(Used, Requests div 2)),
    Each = max(1, Turn div Used),
    #{
        connections => Used,
        requests => Requests,
        repetitions => max(1, min(Most, 1000 div Requests)),
        turns => max(1, round(Requests / (Each * Used))),
        each => Each
    }.

%% Of one server in one repetition: as many as there are whole turns.
asked(#{connections := Connections, turns := Turns, each := Each}) ->
    Connections * Turns * Each.

result({Tool, Connections, Requests}, Without, With) ->
    Logs = [math:log(B / A) || {A, B} <- lists:zip(Without, With)],
    Interval =
        case dyno_stats_interval:median(Logs, 0.95) of
            {ok, {Low, High, Level}} -> {math:exp(Low), math:exp(High), Level};
            {error, too_few} -> none
        end,
    Size =
        case Requests of
            ?REQUESTS -> "";
            _ -> lists:concat(["x", Requests])
        end,
    Figure = #{
        name => lists:concat([server_name(), "_slowdown_", prefix(Tool), Connections, Size]),
        value => math:exp(dyno_stats:median(Logs)),
        unit => "times",
        interval => Interval
    },
    case {Tool, server_name()} of
        {budget, cowboy} -> Figure#{goal => ?GOAL};
        _ -> Figure
    end.

%% As http_demo chooses it.
server_name() ->
    case code:which(cowboy) of
        non_existing -> httpd;
        _ -> cowboy
    end.

prefix(budget) -> "";
prefix(Tool) -> lists:concat([Tool, "_"]).

%% The median response times of two fresh nodes, in nanoseconds: without and with the tool.
pair(Number, Tool, #{connections := Connections, repetitions := Repetitions} = Shape, Patterns) ->
    Without = server(Connections),
    With = server(Connections),
    %% Code is loaded, heaps get their size.
    warm_up([Without, With], 1000 div Connections),
    Order =
        case Number rem 2 of
            0 -> [With, Without];
            1 -> [Without, With]
        end,
    Times = lists:append([
        measured(Tool, Shape, Order, With, Patterns)
     || _ <- lists:seq(1, Repetitions)
    ]),
    lists:foreach(fun stop/1, [Without, With]),
    {
        {median_of(Without, Times), median_of(With, Times)},
        {processor_ns(Without, Times), processor_ns(With, Times)}
    }.

measured(Tool, #{turns := Turns, each := Each} = Shape, Order, #{node := Node}, Patterns) ->
    Measuring = begin_with(Tool, Node, Patterns),
    warm_up_for(Tool, Order, 4 * Each),
    ok = restart(Tool, Measuring),
    stir(Order),
    Times = turns(Turns, Order, Each, []),
    ok = end_with(Tool, Measuring, asked(Shape)),
    Times.

server(Connections) ->
    {ok, [Node], State} = http_demo:init_run(Connections, undefined),
    Clients = [client(Id, State) || Id <- lists:seq(1, Connections)],
    #{node => Node, state => State, clients => Clients, os => erpc:call(Node, os, getpid, [])}.

%% Attaching and restarting are calls of the node. After some of these its processes go from
%% scheduler to scheduler for a while; with 60 calls and nothing else the ratio was 1.65 where it
%% was 0.99.
stir(Servers) ->
    lists:foreach(
        fun(#{node := Node}) ->
            _ = [erpc:call(Node, lists, seq, [1, 1000]) || _ <- lists:seq(1, ?CALLS)]
        end,
        Servers
    ).

stop(#{clients := Clients, state := State}) ->
    lists:foreach(fun(Client) -> Client ! stop end, Clients),
    ok = http_demo:end_run(State).

warm_up(Servers, Each) ->
    lists:foreach(fun(#{clients := Clients}) -> _ = requests(Clients, Each) end, Servers).

%% What keeps to a budget learns in the warm-up.
warm_up_for(budget, Order, Each) ->
    End = erlang:monotonic_time(millisecond) + ?WARMUP_MS,
    warm_up_until(End, Order, Each);
warm_up_for(_Tool, Order, Each) ->
    warm_up(Order, Each).

warm_up_until(End, Order, Each) ->
    warm_up(Order, Each),
    case erlang:monotonic_time(millisecond) < End of
        true -> warm_up_until(End, Order, Each);
        false -> ok
    end.

%% The one that ended a round begins the next.
turns(0, _Order, _Each, Times) ->
    Times;
turns(Left, Order, Each, Times) ->
    Round = [
        begin
            Before = bench_program:processor_ns(Os),
            Took = requests(Clients, Each),
            {Node, Took, bench_program:processor_ns(Os) - Before}
        end
     || #{node := Node, clients := Clients, os := Os} <- Order
    ],
    turns(Left - 1, lists:reverse(Order), Each, Round ++ Times).

median_of(#{node := Node}, Times) ->
    dyno_stats:median(lists:append([lists:append(T) || {N, T, _} <- Times, N =:= Node])).

processor_ns(#{node := Node}, Times) ->
    Requests = lists:sum([length(Of) || {N, T, _} <- Times, N =:= Node, Of <- T]),
    lists:sum([Ns || {N, _, Ns} <- Times, N =:= Node]) / Requests.

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
    [
        receive
            {Client, Times} -> Times
        end
     || Client <- Clients
    ].

%% The tools

begin_with(Profiler, Node, Patterns) when
    Profiler =:= eprof; Profiler =:= fprof; Profiler =:= tprof; Profiler =:= call_time
->
    What =
        case Profiler of
            call_time -> Patterns;
            _ -> all
        end,
    ok = erpc:call(Node, bench_profilers, start, [Profiler, What]),
    {Node, Profiler};
begin_with(Kind, Node, _Patterns) when Kind =:= sample; Kind =:= cpu ->
    Self = self(),
    Pid = spawn_link(fun() ->
        Show = fun(Ms) ->
            Self ! {self(), shown, Ms},
            ok
        end,
        Self ! {self(), dyno_profile:run([Node], #{kind => Kind, for_ms => ?MOST_MS, show => Show})}
    end),
    receive
        {Pid, shown, _} -> Pid
    end;
begin_with(Level, Node, Patterns) ->
    {ok, Targets} = dyno_targets:attach([Node], #{
        patterns => Patterns,
        level => Level,
        interval_ms => ?INTERVAL_MS,
        without => [],
        %% As `dyno test` does in nodes that it starts.
        own_cpu => Level =:= budget
    }),
    Targets.

restart(_Profiler, {_Node, _}) -> ok;
restart(_Kind, Pid) when is_pid(Pid) -> ok;
restart(_Level, Targets) -> dyno_targets:restart(Targets).

%% Everything must have been measured, or the comparison means nothing.
end_with(_Profiler, {Node, Profiler}, _Requests) ->
    _ = erpc:call(Node, bench_profilers, stop, [Profiler]),
    ok;
end_with(_Kind, Pid, _Requests) when is_pid(Pid) ->
    Pid ! stop,
    receive
        {Pid, {ok, Recording}} -> [#{~"profiles" := [_ | _]}] = dyno_recording:runs(Recording)
    end,
    shown(Pid);
end_with(Level, Targets, Requests) ->
    [#{results := Results}] = dyno_targets:read(Targets),
    ok = bench_program:detach(Targets),
    _ = [
        check_calls(Calls, Requests)
     || #{dyno_agent_calls := Calls} <- [Results], Level =/= discovery, Level =/= budget
    ],
    _ = [check_known(Calls) || #{dyno_agent_calls := #{budget := _} = Calls} <- [Results]],
    _ = [
        check_processes(Processes, Requests)
     || #{dyno_agent_processes := Processes} <- [Results], Level =/= budget
    ],
    ok.

shown(Pid) ->
    receive
        {Pid, shown, _} -> shown(Pid)
    after 0 -> ok
    end.

%% What is called once for each request.
once(cowboy) -> {cowboy_req, reply, 4};
once(httpd) -> {httpd_response, generate_and_send_response, 1}.

check_calls(#{functions := Functions, off_by := OffBy}, Requests) ->
    Once = once(server_name()),
    Calls = lists:sum([N || #{mfa := MFA, calls := N} <- Functions, MFA =:= Once]),
    %% The gaps' share of the time; but this server is asked for half of the time only.
    abs(Calls - Requests) =< ceil(2 * Requests * OffBy) orelse
        error({calls, Calls, of_requests, Requests, off_by, OffBy}).

%% Its calls may be unknown: a short run has too few counted ones to estimate them by.
check_known(#{functions := Functions}) ->
    Once = once(server_name()),
    [ok || #{mfa := MFA} <- Functions, MFA =:= Once] =/= [] orelse error({not_measured, Once}).

%% Cowboy has a process for each request, httpd one for each connection.
check_processes(#{discovered := Discovered}, Requests) ->
    Least =
        case server_name() of
            cowboy -> Requests;
            httpd -> 1
        end,
    Discovered >= Least orelse error({processes, Discovered, of_at_least, Least}).
