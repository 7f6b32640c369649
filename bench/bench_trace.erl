%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_trace).
-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% In the node.
-export([spin/2, busy/0, hot/1]).

-define(RATE, 500_000).

describe() ->
    """
    What `dyno trace` does to a node that calls functions as fast as it can.

    Argument: flood (the default), how many messages come of _:_, every function of the node, while two
    processes sort, before it has stopped by itself, the most of all rounds; time, how long these come,
    from the first one until nothing is sent any more, the longest of all rounds; or throughput, how often a function is
    called that is to be called 500,000 times a second, while its next ten calls are shown, by how
    often it is called otherwise.
    """.

argument(Text) when Text =:= none; Text =:= "flood" -> {ok, flood};
argument("time") -> {ok, time};
argument("throughput") -> {ok, throughput};
argument(Text) -> {error, ["give flood, time or throughput, not ", Text]}.

measure(What, Effort) ->
    {ok, Node} = dyno_peer:start(#{name => "bench_trace"}),
    {module, _} = erpc:call(Node, code, ensure_loaded, [?MODULE]),
    try
        Result = measure(What, Node, Effort),
        [] = [S || {S, _} <- erpc:call(Node, trace, session_info, [all]), S =/= legacy],
        Result
    after
        ok = dyno_peer:stop(Node)
    end.

measure(What, Node, Effort) when What =:= flood; What =:= time ->
    Floods = [flood(Node) || _ <- lists:seq(1, maps:get(Effort, #{full => 10, quick => 2}))],
    {Messages, Ms} = lists:unzip(Floods),
    bench_program:say("messages  ~w", [Messages]),
    bench_program:say("from the first to the last, in ms  ~0p", [[round(T) || T <- Ms]]),
    case What of
        flood ->
            #{
                name => "trace_flood",
                value => lists:max(Messages),
                unit => "messages",
                goal => 20_000
            };
        time ->
            #{name => "trace_flood_time", value => lists:max(Ms), unit => "ms", goal => 20}
    end;
measure(throughput, Node, Effort) ->
    Rounds = [throughput(Node) || _ <- lists:seq(1, maps:get(Effort, #{full => 7, quick => 2}))],
    Ratio = dyno_stats:median([With / Without || {Without, With} <- Rounds]),
    bench_program:say("calls a second without and with  ~0p", [Rounds]),
    #{name => "trace_throughput", value => Ratio, unit => "ratio", least => 0.95}.

flood(Node) ->
    Busy = [erpc:call(Node, erlang, spawn, [?MODULE, busy, []]) || _ <- [1, 2]],
    Self = self(),
    {ok, Trace} = dyno_trace:start([Node], ["_:_ -> return"], #{
        count => 10_000_000, show => fun(Item) -> Self ! Item end
    }),
    {ok, [#{count := Count, dropped := Dropped, at := End}]} = dyno_trace:await(Trace),
    [true = erpc:call(Node, erlang, exit, [Pid, kill]) || Pid <- Busy],
    {First, Returns} = items(infinity, 0),
    {Count + Dropped + Returns, (End - First) / 1.0e6}.

items(First, Returns) ->
    receive
        #{event := call, at := At} -> items(min(First, At), Returns);
        #{event := return} -> items(First, Returns + 1);
        #{event := _} -> items(First, Returns)
    after 0 -> {First, Returns}
    end.

%% Three seconds each, in which the first ten calls are traced; what is printed comes off.
throughput(Node) ->
    Without = erpc:call(Node, ?MODULE, spin, [3000, ?RATE], infinity),
    Self = self(),
    _ = spawn_link(fun() ->
        Self ! {spun, erpc:call(Node, ?MODULE, spin, [3000, ?RATE], infinity)}
    end),
    timer:sleep(300),
    {ok, Trace} = dyno_trace:start([Node], ["bench_trace:hot/1 -> return"], #{
        show => fun(_) -> ok end
    }),
    {ok, _} = dyno_trace:await(Trace),
    receive
        {spun, With} -> {Without, With}
    end.

%% Calls of hot/1 in so many milliseconds, at most so many a second.
spin(Ms, Rate) ->
    Start = erlang:monotonic_time(microsecond),
    spin(Start, Start + Ms * 1000, Rate, 0).

spin(Start, End, Rate, Calls) ->
    Now = erlang:monotonic_time(microsecond),
    case (Now - Start) * Rate div 1_000_000 of
        _ when Now >= End -> Calls * 1_000_000 / (Now - Start);
        Due when Due > Calls -> spin(Start, End, Rate, calls(min(Due - Calls, 100), Calls));
        _ -> spin(Start, End, Rate, Calls)
    end.

calls(0, Calls) ->
    Calls;
calls(N, Calls) ->
    _ = ?MODULE:hot(N),
    calls(N - 1, Calls + 1).

hot(N) -> N + 1.

busy() ->
    _ = lists:sort(lists:seq(1, 100)),
    busy().
