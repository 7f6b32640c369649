%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_servers).

-behaviour(bench_program).
-behaviour(gen_server).

-export([describe/0, argument/1, measure/2]).
%% In the measured node
-export([round/3, per_second/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, handle_demand/2, handle_events/3]).
-compile({no_auto_import, [round/1]}).

%% What the programs of GenMetrics measure, by their names.
-define(SEED, #{
    "bench_cluster" => {call, 1, [rate]},
    "bench_cluster_sync" => {call, 1, [time, distribution]},
    "bench_cluster_flow" => flow,
    "bench_pipeline" => {pipeline, cast, 1},
    "bench_pipelinex1000" => {pipeline, cast, 1000},
    "bench_pipeline_sync" => {pipeline, call, 1},
    "bench_pipeline_syncx1000" => {pipeline, call, 1000}
}).
-define(KINDS, #{"call" => call, "cast" => cast, "info" => info}).
-define(FLOORS, [hook, clock_hook, flag, call_time, call_memory]).
-define(IS_OF_DYNO(Level), (Level =:= rate orelse Level =:= time orelse Level =:= distribution)).
-define(A_SECOND, 80_000).

describe() ->
    """
    What measuring costs a server whose callbacks do nothing, the worst case: the processor time of
    the whole node for a message with dyno servers by that without, by turns in one node, until the
    last message is done, the quickest of some turns. The median over the rounds.

    The floors of level distribution are `hook`, a debug function of sys that does nothing, and
    `clock_hook`, one that reads the clock twice and adds to a counter. Those of level time are
    `flag`, the flag of a trace session that traces nothing, `call_time`, with that breakpoint, and
    `call_memory`, with both: it is the runtime that takes these, not dyno.

    Argument: call (the default), cast or info, with xSIZE for a state of so many integers; one of
    GenMetrics' bench_cluster, bench_cluster_sync and bench_cluster_flow (1,000 messages a second),
    bench_pipeline and bench_pipeline_sync (three stages with a demand of 1, x1000 with so much;
    DYNO_GEN_STAGE names the folder of GenStage's modules); idle for 100 servers that get nothing,
    in a second; flood for 80,000 calls a second for a minute: how late the latest window is.
    """.

argument(none) ->
    argument("call");
argument("flood") ->
    {ok, flood};
argument("idle") ->
    {ok, idle};
argument("bench_pipeline" ++ _ = Text) when is_map_key(Text, ?SEED) ->
    case os:getenv("DYNO_GEN_STAGE") of
        false -> {skip, "DYNO_GEN_STAGE does not name the folder of GenStage's modules"};
        Folder -> {ok, {map_get(Text, ?SEED), Folder}}
    end;
argument(Text) ->
    [Name | Size] = string:split(Text, "x"),
    case {?SEED, ?KINDS, [string:to_integer(Of) || Of <- Size]} of
        {#{Text := Of}, _, _} -> {ok, Of};
        {_, #{Name := Kind}, []} -> {ok, {Kind, 1, [time, distribution]}};
        {_, #{Name := Kind}, [{N, ""}]} when N > 0 -> {ok, {Kind, N, [time, distribution]}};
        _ -> {error, ["give call, cast, info, flood or a program of GenMetrics; not ", Text]}
    end.

measure(What, Effort) ->
    {ok, Node} = dyno_peer:start(#{
        name => "bench",
        arguments => ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"]
    }),
    {module, _} = erpc:call(Node, code, ensure_loaded, [?MODULE]),
    try
        measure(What, Node, Effort)
    after
        ok = dyno_peer:stop(Node)
    end.

measure(flood, Node, Effort) ->
    Seconds = maps:get(Effort, #{full => 60, quick => 5}),
    {ok, Monitor} = start(Node, distribution),
    Driver = spawn_link(fun() -> erpc:call(Node, ?MODULE, per_second, [?A_SECOND, Seconds]) end),
    Windows = [window(Monitor) || _ <- seq(Seconds)],
    true = unlink(Driver),
    true = exit(Driver, kill),
    ok = dyno_servers:stop(Monitor),
    [{_, _, First} | _] = Windows,
    {Late, Rates, Memories} = lists:unzip3(Windows),
    bench_program:say("windows   ~b; ~ts to ~ts calls a second were counted", [
        length(Windows),
        bench_program:number(lists:min(Rates)),
        bench_program:number(lists:max(Rates))
    ]),
    bench_program:say("memory    the monitor's: first ~b kB, last ~b kB, most ~b kB", [
        Kb div 1024
     || Kb <- [First, lists:last(Memories), lists:max(Memories)]
    ]),
    #{
        name => "servers_flood",
        value => lists:max(Late),
        unit => "ms",
        goal => 100
    };
measure(flow, Node, Effort) ->
    Messages = maps:get(Effort, #{full => 1000, quick => 300}),
    Loads = [{{Kind, 1, flow}, Messages, [distribution]} || Kind <- [call, cast, info]],
    %% Each round takes seconds.
    result("flow", Loads, Node, maps:get(Effort, #{full => 6, quick => 2}));
measure(idle, Node, Effort) ->
    Seconds = maps:get(Effort, #{full => 5, quick => 1}),
    Rounds = maps:get(Effort, #{full => 3, quick => 1}),
    Of = [idle(turn(N, [none, rate, time, distribution]), Seconds, Node) || N <- seq(Rounds)],
    Value = dyno_stats:median([Ms || #{distribution := Ms} <- Of]),
    #{name => "servers_idle", value => Value, unit => "ms"};
measure({{pipeline, How, Demand}, Folder}, Node, Effort) ->
    ok = dyno_elixir:start(),
    ok = erpc:call(Node, code, add_pathsz, [[Folder | code:get_path()]]),
    Messages = maps:get(Effort, #{full => 20_000, quick => 5000}),
    Rounds = maps:get(Effort, #{full => 9, quick => 2}),
    Load = {{How, Demand, pipeline}, Messages, ?FLOORS ++ [time, distribution]},
    Name = lists:concat(["pipeline_", How, "_", Demand]),
    result(Name, [Load], Node, Rounds);
measure({Kind, Size, Levels}, Node, Effort) ->
    Messages =
        case {Kind, Effort} of
            {_, quick} -> 20_000;
            {call, full} -> 40_000;
            {_, full} -> 120_000
        end,
    Rounds = maps:get(Effort, #{full => 9, quick => 2}),
    Name = lists:concat([Kind | ["_" ++ integer_to_list(Size) || Size > 1]]),
    result(Name, [{{Kind, Size, flood}, Messages, ?FLOORS ++ Levels}], Node, Rounds).

seq(N) -> lists:seq(1, N).

%% Milliseconds of processor time a second, by level.
idle(Levels, Seconds, Node) ->
    Ms = #{L => cpu_ns(L, {idle, 100, idle}, Seconds, Node) / 1.0e6 || L <- Levels},
    bench_program:say("a second  ~ts of processor time", [
        lists:join(", ", [
            io_lib:format("~w ~ts ms", [L, bench_program:number(map_get(L, Ms))])
         || L <- [none, rate, time, distribution]
        ])
    ]),
    Ms.

result(Name, Loads, Node, Rounds) ->
    Ratios = lists:append([ratios(Load, Node, Rounds) || Load <- Loads]),
    {Goal, {Value, Interval}} = lists:last(Ratios),
    #{
        name => "servers_" ++ Name,
        value => Value,
        unit => "times",
        interval => Interval,
        goal => Goal
    }.

ratios({{Kind, Size, Way} = Load, Messages, Levels}, Node, Rounds) ->
    How =
        case Way of
            pipeline -> {pipeline, Size};
            _ -> Way
        end,
    Times = [
        maps:from_list([{L, cpu_ns(L, Load, Messages, Node)} || L <- turn(N, [none | Levels])])
     || N <- lists:seq(1, Rounds)
    ],
    bench_program:say("~-9w ~ts ns of processor time a message without dyno", [
        Kind, bench_program:number(dyno_stats:median([Ns || #{none := Ns} <- Times]))
    ]),
    _ = [ratio({Kind, Floor, none}, none, Times) || Floor <- ?FLOORS, lists:member(Floor, Levels)],
    Ratios = [
        {Goal, ratio({Kind, Level, none}, Goal, Times)}
     || Level <- Levels -- ?FLOORS, Goal <- [goal(Kind, Level, How)]
    ],
    _ = [
        ratio({Kind, Level, Floor}, none, Times)
     || {Level, Floor} <- [{time, call_memory}, {distribution, clock_hook}],
        lists:member(Level, Levels),
        lists:member(Floor, Levels)
    ],
    Ratios.

%% The processor time at one level by that at another.
ratio({Kind, Level, By}, Goal, Times) ->
    Median = bench_program:median([map_get(Level, Of) / map_get(By, Of) || Of <- Times]),
    Name =
        case By of
            none -> atom_to_list(Level);
            _ -> lists:concat([Level, " by ", By])
        end,
    bench_program:say("~-9w ~-26ts ~ts", [Kind, Name, bench_program:times(Median, Goal)]),
    Median.

turn(N, Levels) ->
    {Before, After} = lists:split(N rem length(Levels), Levels),
    After ++ Before.

goal(_Kind, _Level, flow) -> 1.1;
goal(_Kind, _Level, {pipeline, 1}) -> 1.2;
goal(_Kind, _Level, {pipeline, _}) -> 1.1;
goal(_Kind, rate, _How) -> 1.05;
goal(call, distribution, _How) -> 1.25;
goal(call, _Level, _How) -> 1.2;
goal(_Kind, _Level, _How) -> 2.

%% A message's processor time, once what is measured has been found out in a window or two.
cpu_ns(Level, Load, Messages, Node) when ?IS_OF_DYNO(Level) ->
    {ok, Monitor} = start(Node, Level),
    Ns = erpc:call(Node, ?MODULE, round, [Level, Load, Messages], infinity),
    ok = dyno_servers:stop(Monitor),
    Ns;
cpu_ns(Level, Load, Messages, Node) ->
    erpc:call(Node, ?MODULE, round, [Level, Load, Messages], infinity).

start(Node, Level) ->
    Options = #{servers => [~"module:bench_servers"], level => Level},
    {ok, Monitor} = dyno_servers:start([Node], Options),
    ok = dyno_servers:subscribe(Monitor),
    {ok, Monitor}.

window(Monitor) ->
    receive
        {dyno_servers, Monitor, #{start_ns := Start, duration_ns := Ns} = Window, _Dropped} ->
            LateMs = (erlang:system_time(nanosecond) - Start - Ns) / 1.0e6,
            Sums = dyno_servers_window:sums(module, Window),
            Rows = [dyno_servers_row:row(Sum, Ns) || Sum <- Sums],
            ok = dyno_servers:ready(Monitor),
            {memory, Memory} = process_info(Monitor, memory),
            {LateMs, lists:sum([Rate || #{rate := Rate} <- Rows]), Memory}
    end.

%% In the measured node

-doc "The processor time of a message, in nanoseconds; of a second, where there are none.".
-spec round(atom(), {call | cast | info | idle, pos_integer(), How}, pos_integer()) -> float() when
    How :: flood | flow | idle | pipeline.
round(Level, {Kind, Size, How}, Messages) ->
    [Pid | _] = Pids = servers(How, Size),
    Session = trace:session_create(?MODULE, self(), []),
    ok = lists:foreach(fun(P) -> put_into(Level, P, Session) end, Pids),
    %% The instrument finds it within a second, and knows after the next that it is busy.
    ok = for(2500, Level, fun() -> send(How, Kind, Pid, warm_up(How)) end),
    Ns = [message_ns(How, Kind, Pid, Messages) || _ <- seq(times(How))],
    true = trace:session_destroy(Session),
    lists:foreach(fun gen_server:stop/1, lists:reverse(Pids)),
    %% Other programs of the machine only add.
    lists:min(Ns).

put_into(hook, Pid, _Session) ->
    ok = sys:install(Pid, {?MODULE, fun(H, _, _) -> H end, none});
put_into(clock_hook, Pid, _Session) ->
    Counter = atomics:new(1, []),
    ok = sys:install(Pid, {?MODULE, fun(Begun, Event, _) -> clock(Begun, Event, Counter) end, 0});
put_into(flag, Pid, Session) ->
    1 = trace:process(Session, Pid, true, [call]);
put_into(call_time, Pid, Session) ->
    breakpoints([call_time], Pid, Session);
put_into(call_memory, Pid, Session) ->
    breakpoints([call_time, call_memory], Pid, Session);
put_into(_Level, _Pid, _Session) ->
    ok.

clock(_Begun, Event, _Counter) when element(1, Event) =:= in ->
    erlang:monotonic_time();
clock(Begun, _Event, Counter) ->
    ok = atomics:add(Counter, 1, erlang:monotonic_time() - Begun),
    Begun.

breakpoints(Measures, Pid, Session) ->
    [
        trace:function(Session, {gen_server, Function, '_'}, true, Measures)
     || Function <- [try_handle_call, try_handle_cast, try_handle_info]
    ],
    put_into(flag, Pid, Session).

%% Of servers that get nothing the number is that of seconds.
warm_up(idle) -> 1;
warm_up(_How) -> 100.

times(How) when How =:= flood; How =:= pipeline -> 9;
times(_How) -> 1.

message_ns(How, Kind, Pid, Messages) ->
    Before = bench_program:processor_ns(),
    ok = send(How, Kind, Pid, Messages),
    (bench_program:processor_ns() - Before) / Messages.

%% The first one gets the messages.
servers(idle, Count) ->
    [Pid || _ <- seq(Count), {ok, Pid} <- [gen_server:start(?MODULE, 1, [])]];
servers(pipeline, Demand) ->
    lists:foldl(
        fun(Type, Before) ->
            Options = [{max_demand, Demand}, {min_demand, Demand div 2}],
            From = [{Pid, Options} || Pid <- lists:sublist(lists:reverse(Before), 1)],
            {ok, Pid} = 'Elixir.GenStage':start(?MODULE, {Type, From}, []),
            Before ++ [Pid]
        end,
        [],
        [producer, producer_consumer, consumer]
    );
servers(_How, Size) ->
    {ok, Pid} = gen_server:start(?MODULE, Size, []),
    [Pid].

for(Ms, Level, Do) when ?IS_OF_DYNO(Level) ->
    until(erlang:monotonic_time(millisecond) + Ms, Do);
for(_Ms, _NotMeasured, _Do) ->
    ok.

until(End, Do) ->
    _ = Do(),
    case erlang:monotonic_time(millisecond) < End of
        true -> until(End, Do);
        false -> ok
    end.

%% Sent by a process of its own, and done.
send(idle, idle, _Pid, Seconds) ->
    timer:sleep(Seconds * 1000);
send(pipeline, Kind, Pid, Messages) ->
    {_, Monitor} = spawn_monitor(fun() ->
        send_all(pipeline, Kind, Pid, Messages),
        ok = gen_server:cast(Pid, {done, self()}),
        receive
            done -> ok
        end
    end),
    receive
        {'DOWN', Monitor, process, _, normal} -> ok
    end;
send(How, Kind, Pid, Messages) ->
    {_, Monitor} = spawn_monitor(fun() ->
        send_all(How, Kind, Pid, Messages),
        ok = gen_server:call(Pid, done, infinity)
    end),
    receive
        {'DOWN', Monitor, process, _, normal} -> ok
    end.

send_all(_How, _Kind, _Pid, 0) ->
    ok;
send_all(How, Kind, Pid, Messages) ->
    _ =
        case Kind of
            call -> gen_server:call(Pid, {message, Messages}, infinity);
            cast -> gen_server:cast(Pid, {message, Messages});
            info -> Pid ! {message, Messages}
        end,
    case How of
        flow -> timer:sleep(1);
        _ -> ok
    end,
    send_all(How, Kind, Pid, Messages - 1).

-doc "Calls a server so often a second, for so many seconds.".
-spec per_second(pos_integer(), pos_integer()) -> ok.
per_second(Rate, Seconds) ->
    {ok, Pid} = gen_server:start(?MODULE, 1, []),
    Begun = erlang:monotonic_time(millisecond),
    paced(Pid, Rate, 0, Begun, Begun + 1000 * (Seconds + 2)).

paced(Pid, Rate, Sent, Begun, End) ->
    Now = erlang:monotonic_time(millisecond),
    Due = (Now - Begun) * Rate div 1000,
    send_all(flood, call, Pid, max(0, Due - Sent)),
    case Now < End of
        true ->
            timer:sleep(1),
            paced(Pid, Rate, max(Due, Sent), Begun, End);
        false ->
            gen_server:stop(Pid)
    end.

-spec init(pos_integer() | {Type, [term()]}) -> tuple() when
    Type :: producer | producer_consumer | consumer.
%% A full buffer is logged, event by event, which would be most of what is measured.
init({producer, []}) -> {producer, producer, [{buffer_size, infinity}]};
init({Type, From}) -> {Type, Type, [{subscribe_to, From}]};
init(Size) -> {ok, lists:seq(1, Size)}.

-spec handle_call(term(), gen_server:from(), [integer()] | producer) -> tuple().
handle_call(Event, _From, producer) -> {reply, ok, [Event], producer};
handle_call(_Request, _From, State) -> {reply, ok, State}.

-spec handle_cast(term(), [integer()] | producer) -> tuple().
handle_cast(Event, producer) -> {noreply, [Event], producer};
handle_cast(_Request, State) -> {noreply, State}.

-spec handle_info(term(), [integer()]) -> {noreply, [integer()]}.
handle_info(_Message, State) -> {noreply, State}.

-spec handle_demand(pos_integer(), producer) -> {noreply, [], producer}.
handle_demand(_Demand, producer) -> {noreply, [], producer}.

-spec handle_events([term()], term(), Type) -> {noreply, [term()], Type} when Type :: atom().
handle_events(Events, _From, producer_consumer) ->
    {noreply, Events, producer_consumer};
handle_events(Events, _From, consumer) ->
    _ = [Pid ! done || {done, Pid} <- Events],
    {noreply, [], consumer}.
