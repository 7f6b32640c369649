%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_schedulers).
-moduledoc """
Counts running and ready processes, and measures each scheduler: shows idle processors and waiting
processes.

At random instants some 3 ms apart it reads the tasks of the normal schedulers, in a microsecond,
without stopping or tracing. For each scheduler it gives the busy share, the runtime's activities
(microstate accounting), and the thread's processor time.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, tables/0, metrics/0, series/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([result/0]).

-type result() :: #{
    duration_ns := pos_integer(),
    schedulers := pos_integer(),
    %% The number of instants by the number of running or ready processes.
    runnable := #{non_neg_integer() => pos_integer()},
    %% The mean and maximum of intervals, by their start after the restart.
    points := [{Ms :: non_neg_integer(), Mean :: float(), Most :: non_neg_integer()}],
    threads := [thread()],
    cost_ns := non_neg_integer()
}.

-type thread() :: #{
    type := atom(),
    id := pos_integer(),
    %% Shares of the time.
    busy := float() | undefined,
    cpu := float() | undefined,
    states := #{atom() => float()}
}.

-type state() :: #{
    accounting := boolean(),
    since := integer(),
    before := #{atom() => term()},
    runnable := #{non_neg_integer() => pos_integer()},
    %% Newest first, and the current one: start, sum, count, maximum.
    points := [{non_neg_integer(), float(), non_neg_integer()}],
    point := {integer(), non_neg_integer(), non_neg_integer(), non_neg_integer()},
    point_ms := pos_integer(),
    cost := non_neg_integer()
}.

-define(EVERY_MS, 3).
-define(POINT_MS, 100).
%% At twice as many, pairs are merged.
-define(POINTS, 600).
-define(TYPES, [scheduler, dirty_cpu_scheduler, dirty_io_scheduler]).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [schedulers]}.

-spec config(dyno_agent_instrument:options()) -> #{}.
config(_Options) -> #{}.

-spec init(#{}) -> {ok, state()}.
init(_Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    _ = erlang:system_flag(scheduler_wall_time, true),
    Accounting = erlang:system_flag(microstate_accounting, true),
    ok = schedule(),
    {ok, restarted(#{accounting => Accounting})}.

restarted(State) ->
    Now = erlang:monotonic_time(),
    State#{
        since => Now,
        before => counters(),
        runnable => #{},
        points => [],
        point => {Now, 0, 0, 0},
        point_ms => ?POINT_MS,
        cost => 0
    }.

counters() ->
    #{
        wall => #{Id => {A, T} || {Id, A, T} <- erlang:statistics(scheduler_wall_time_all)},
        states =>
            #{
                {Type, Id} => Counters
             || #{type := Type, id := Id, counters := Counters} <-
                    erlang:statistics(microstate_accounting)
            },
        cpu => dyno_agent_threads:cpu_ns(dyno_agent_threads:read(dyno_agent_threads:find()))
    }.

schedule() ->
    _ = erlang:send_after(rand:uniform(2 * ?EVERY_MS - 1), self(), instant),
    ok.

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok | result(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, restarted(State)};
handle_call(read, _From, #{since := Since, before := Before, cost := Cost} = State) ->
    DurationNs = nanoseconds(erlang:monotonic_time() - Since),
    {reply,
        #{
            duration_ns => max(1, DurationNs),
            schedulers => erlang:system_info(schedulers_online),
            runnable => map_get(runnable, State),
            points => lists:reverse(map_get(points, State)),
            threads => threads(Before, counters(), max(1, DurationNs)),
            cost_ns => nanoseconds(Cost)
        },
        State}.

threads(#{wall := Wall, states := States, cpu := Cpu}, After, DurationNs) ->
    #{wall := WallNow, states := StatesNow, cpu := CpuNow} = After,
    [
        #{
            type => Type,
            id => Id,
            busy => busy(Number, Wall, WallNow),
            cpu =>
                case {Cpu, CpuNow} of
                    {#{Number := A}, #{Number := B}} -> (B - A) / DurationNs;
                    _ -> undefined
                end,
            states => shares(maps:get(Thread, States, #{}), Counters)
        }
     || {Type, Id} = Thread := Counters <- maps:iterator(StatesNow, ordered),
        lists:member(Type, ?TYPES),
        Number <- [number(Type, Id)]
    ].

%% scheduler_wall_time numbers the dirty schedulers after the normal ones.
number(scheduler, Id) ->
    Id;
number(dirty_cpu_scheduler, Id) ->
    erlang:system_info(schedulers) + Id;
number(dirty_io_scheduler, Id) ->
    erlang:system_info(schedulers) + erlang:system_info(dirty_cpu_schedulers) + Id.

busy(Number, Before, Now) ->
    case {Before, Now} of
        {#{Number := {A0, T0}}, #{Number := {A1, T1}}} when T1 > T0 -> (A1 - A0) / (T1 - T0);
        _ -> undefined
    end.

shares(Before, Now) ->
    Took = #{State => Count - maps:get(State, Before, 0) || State := Count <- Now},
    All = max(1, lists:sum(maps:values(Took))),
    #{State => Count / All || State := Count <- Took}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) -> {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(instant, #{runnable := Runnable, cost := Cost} = State) ->
    Start = erlang:monotonic_time(),
    Normal = erlang:system_info(schedulers),
    Tasks = lists:sum(lists:sublist(erlang:statistics(active_tasks_all), Normal)),
    %% Without this process.
    N = max(0, Tasks - 1),
    Counted = State#{runnable := Runnable#{N => maps:get(N, Runnable, 0) + 1}},
    Next = in_point(N, Start, Counted),
    ok = schedule(),
    {noreply, Next#{cost := Cost + erlang:monotonic_time() - Start}};
handle_info(_Other, State) ->
    {noreply, State}.

in_point(N, Now, #{point := {Begun, Sum, Count, Most}, point_ms := Ms} = State) ->
    case nanoseconds(Now - Begun) >= Ms * 1_000_000 of
        false ->
            State#{point := {Begun, Sum + N, Count + 1, max(Most, N)}};
        true ->
            #{points := Points, since := Since} = State,
            At = nanoseconds(Begun - Since) div 1_000_000,
            thinned(State#{
                points := [{At, Sum / max(1, Count), Most} | Points],
                point := {Now, N, 1, N}
            })
    end.

thinned(#{points := Points, point_ms := Ms} = State) when length(Points) >= 2 * ?POINTS ->
    State#{points := pairs(Points), point_ms := 2 * Ms};
thinned(State) ->
    State.

pairs([{_, MeanB, MostB}, {At, MeanA, MostA} | Rest]) ->
    [{At, (MeanA + MeanB) / 2, max(MostA, MostB)} | pairs(Rest)];
pairs(Rest) ->
    Rest.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{accounting := Before}) ->
    _ = erlang:system_flag(microstate_accounting, Before),
    ok.

nanoseconds(Native) -> erlang:convert_time_unit(Native, native, nanosecond).

%% On the caller's side

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Busy = ~"As the runtime has it: running processes, ports and its own work.",
    Cpu =
        <<
            "The processor time of its thread. More than busy: it waits actively; less: others had "
            "the processor."
        >>,
    [
        #{
            name => ~"runnable",
            title => ~"Processes that run or are ready to, at a time",
            items => fun runnable/1,
            columns => [
                {~"processes", ~"Processes", string, key, 1},
                {~"share", ~"Of the time", ratio, 2},
                {~"waiting", ~"At least this number waits for a scheduler", count, 3}
            ]
        },
        #{
            name => ~"schedulers",
            title => ~"Schedulers, in shares of the time",
            items => fun schedulers/1,
            columns =>
                [
                    {~"scheduler", ~"Scheduler", string, fun(#{type := Type, id := Id}) ->
                        <<(kind(Type))/binary, (integer_to_binary(Id))/binary>>
                    end},
                    {~"busy", ~"Busy", ratio, Busy, busy},
                    {~"cpu", ~"On a processor", ratio, Cpu, cpu}
                ] ++
                [
                    {atom_to_binary(State), Title, ratio, fun(#{states := States}) ->
                        maps:get(State, States, undefined)
                    end}
                 || {State, Title} <- [
                        {emulator, ~"Processes"},
                        {gc, ~"Collections"},
                        {port, ~"Ports"},
                        {check_io, ~"Polling"},
                        {aux, ~"Auxiliary"},
                        {other, ~"Other, as waiting actively"},
                        {sleep, ~"Asleep"}
                    ]
                ]
        }
    ].

%% 0, 1, 2, 3-4, 5-8, ...
runnable(#{runnable := Runnable}) when map_size(Runnable) =:= 0 ->
    none;
runnable(#{runnable := Runnable, schedulers := Schedulers}) ->
    All = lists:sum(maps:values(Runnable)),
    Sums = maps:groups_from_list(
        fun({N, _}) -> range(N) end, fun({_, Count}) -> Count end, maps:to_list(Runnable)
    ),
    [
        {name(Range), lists:sum(Counts) / All, max(0, element(1, Range) - Schedulers)}
     || {Range, Counts} <- lists:sort(maps:to_list(Sums))
    ].

range(N) when N =< 2 -> {N, N};
range(N) -> range(N, 3, 4).

range(N, Low, High) when N =< High -> {Low, High};
range(N, _Low, High) -> range(N, High + 1, 2 * High).

name({N, N}) -> integer_to_binary(N);
name({Low, High}) -> <<(integer_to_binary(Low))/binary, "-", (integer_to_binary(High))/binary>>.

%% Dirty schedulers are many and mostly asleep.
schedulers(#{threads := Threads}) ->
    [
        Thread
     || #{type := Type, busy := Busy} = Thread <- Threads,
        Type =:= scheduler orelse (is_number(Busy) andalso Busy > 0.001)
    ].

kind(scheduler) -> ~"normal ";
kind(dirty_cpu_scheduler) -> ~"dirty CPU ";
kind(dirty_io_scheduler) -> ~"dirty I/O ".

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        metric(
            ~"schedulers.runnable",
            ~"Processes that run or are ready to, mean",
            ~"count",
            fun(N, _) -> N end
        ),
        metric(
            ~"schedulers.queued",
            ~"Of the time more are ready than there are schedulers",
            ~"ratio",
            fun
                (N, Schedulers) when N > Schedulers -> 1;
                (_, _) -> 0
            end
        )
    ].

metric(Name, Title, Unit, Value) ->
    #{
        name => Name,
        title => Title,
        unit => Unit,
        group => ~"schedulers",
        value => fun(Results) ->
            Values = [
                {Value(N, Schedulers) * Count, Count}
             || #{runnable := Runnable, schedulers := Schedulers} <- Results,
                N := Count <- Runnable
            ],
            case lists:sum([Count || {_, Count} <- Values]) of
                0 -> none;
                All -> {lists:sum([V || {V, _} <- Values]) / All, All}
            end
        end
    }.

-spec series() -> [dyno_agent_instrument:series()].
series() ->
    [
        #{
            name => Name,
            title => Title,
            unit => ~"count",
            group => ~"schedulers",
            points => fun(#{points := Points}) ->
                [{element(1, P), element(At, P)} || P <- Points]
            end
        }
     || {Name, Title, At} <- [
            {~"schedulers.runnable", ~"Runnable processes, mean", 2},
            {~"schedulers.runnable_max", ~"Runnable processes, most", 3}
        ]
    ].
