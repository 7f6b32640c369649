%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_SUITE).
-moduledoc """
Loads without a target: do operations come when they should, and is what is counted what was done?

This module is also the suite whose operations are made. The state of a run is a fun that gives a
worker its operation, a fun, and that one's state.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(SOME, 12).

suite() ->
    [{timetrap, {minutes, 5}}].

all() -> [{group, waiting}, {group, working}].

%% Those that mostly wait run side by side; those that keep a processor busy would be in their way.
groups() ->
    [
        {waiting, [parallel], [
            open_load_keeps_its_rate,
            open_load_of_a_fraction,
            waits_count_in_open_loads,
            dropped_when_saturated,
            closed_load_runs_all_workers_at_once,
            closed_load_waits_for_the_last_answer,
            an_operation_longer_than_the_warm_up,
            intervals_add_up,
            errors_by_reason,
            a_worker_that_finds_nobody,
            a_worker_that_dies,
            workers_that_are_not_ready,
            stop_ends_the_workers
        ]},
        {working, [], [
            a_stalled_worker_stalls_no_arrivals,
            schedule_lag_is_recorded,
            warm_up_is_not_counted,
            too_many_reasons,
            an_exception_renews_the_worker,
            bad_returns,
            operations_that_do_not_end,
            a_worker_that_cannot_end,
            sentences
        ]}
    ].

%% The suite's callbacks

init_worker(Id, Make) -> Make(Id).

operation({Operation, State}) ->
    case Operation(State) of
        {ok, Next} -> {ok, {Operation, Next}};
        {error, Reason, Next} -> {error, Reason, {Operation, Next}};
        Other -> Other
    end.

end_worker({Operation, State}) ->
    case State of
        {ending, End} -> End();
        _ -> {ended, Operation}
    end.

%% Every worker does the same.
same(Operation) ->
    fun(_Id) -> {ok, {Operation, 0}} end.

pausing(Ms) ->
    same(fun(N) ->
        receive
        after Ms -> {ok, N + 1}
        end
    end).

quick() ->
    same(fun(N) -> {ok, N + 1} end).

start(Load, Options, RunState) ->
    {ok, Pid} = dyno_load:start_link(
        maps:merge(
            #{
                sink => self(),
                module => ?MODULE,
                run_state => RunState,
                load => Load,
                duration_ms => 100,
                warmup_ms => 0,
                interval_ms => 50,
                timeout_ms => 5000
            },
            Options
        )
    ),
    Pid.

%% All events until the end, with the answers that a load waits for. Where the time does not matter
%% a busy machine gets more of it, until some operations were made.
run(Load, #{duration_ms := _} = Options, RunState) ->
    events(start(Load, Options, RunState));
run(Load, Options, RunState) ->
    run(Load, Options, RunState, 100).

run(Load, Options, RunState, DurationMs) ->
    Events = run(Load, Options#{duration_ms => DurationMs}, RunState),
    case lists:last(Events) of
        {ended, #{total := #{started := Started}}} when Started < ?SOME, DurationMs < 5000 ->
            run(Load, Options, RunState, DurationMs * 5);
        _ ->
            Events
    end.

events(Pid) ->
    receive
        {dyno_load, Pid, warm = Event} ->
            ok = dyno_load_source:measure(Pid),
            [Event | events(Pid)];
        {dyno_load, Pid, {finished, _} = Event} ->
            ok = dyno_load_source:close(Pid),
            [Event | events(Pid)];
        {dyno_load, Pid, {ended, _} = Event} ->
            [Event];
        {dyno_load, Pid, {failed, Reason}} ->
            ok = dyno_load_source:stop(Pid),
            [{failed, unicode:characters_to_binary(dyno_error:format(Reason))}];
        {dyno_load, Pid, Event} ->
            [Event | events(Pid)]
    end.

ended(Events) ->
    {ended, #{total := Total, errors := Errors, under_way := UnderWay}} = lists:last(Events),
    {Total, Errors, UnderWay}.

closed(Workers) -> #{model => closed, workers => Workers}.

open(Rate, Workers) -> #{model => open, rate_per_s => Rate, workers => Workers}.

%% Open loads

%% 500 operations are due. What a busy machine holds up is caught up with, but for what it holds
%% up at the very end: one run of three must be as it should.
open_load_keeps_its_rate(_Config) ->
    dyno_suites:one_of(3, fun() ->
        Events = run(open(1000, 20), #{duration_ms => 500, interval_ms => 100}, quick()),
        {#{successes := Done, failures := 0, started := Started}, [], 0} = ended(Events),
        ct:pal("~b of 500", [Done]),
        ?assertEqual(Started, Done),
        ?assert(Done =< 500),
        %% Not all at once.
        Rates = [T || {interval, #{throughput_per_s := T}} <- Events],
        Even = length([T || T <- Rates, T > 500, T < 1500]),
        Done >= 490 andalso Even * 2 > length(Rates)
    end).

%% At 0, 80 and 160 ms.
open_load_of_a_fraction(_Config) ->
    {#{successes := 3}, [], 0} = ended(run(open(12.5, 2), #{duration_ms => 230}, quick())).

a_stalled_worker_stalls_no_arrivals(_Config) ->
    dyno_suites:one_of(3, fun one_stalls/0).

one_stalls() ->
    Stalls = counters:new(2, []),
    Operation = fun(N) ->
        %% Counted while the stall lasts.
        Stall = counters:get(Stalls, 1),
        case Stall of
            1 -> counters:add(Stalls, 2, 1);
            _ -> ok
        end,
        {ok, N + 1}
    end,
    Stalling = fun(N) ->
        counters:put(Stalls, 1, 1),
        receive
        after 200 -> counters:put(Stalls, 1, 2)
        end,
        {ok, N + 1}
    end,
    Make = fun
        (1) -> {ok, {fun(N) -> stall_once(Stalling, Operation, N) end, 0}};
        (_) -> {ok, {Operation, 0}}
    end,
    {#{successes := Done}, [], 0} = ended(run(open(200, 4), #{duration_ms => 400}, Make)),
    During = counters:get(Stalls, 2),
    ct:pal("~b operations during the stall, ~b in all", [During, Done]),
    %% 40 are due in that time.
    Done >= 75 andalso During >= 20.

stall_once(Stalling, _Operation, 0) -> Stalling(0);
stall_once(_Stalling, Operation, N) -> Operation(N).

%% One worker: twenty wait behind an operation of 200 ms.
waits_count_in_open_loads(_Config) ->
    Operation = fun
        (5) ->
            receive
            after 200 -> {ok, 6}
            end;
        (N) ->
            {ok, N + 1}
    end,
    {#{response := Response, service := Service}, [], 0} =
        ended(run(open(100, 1), #{duration_ms => 400}, same(Operation))),
    Waited = fun(Snapshot) ->
        #{buckets := Buckets} = Snapshot,
        lists:sum([N || {I, N} <- Buckets, element(1, dyno_histogram:bounds(I)) >= 100_000_000])
    end,
    ?assert(Waited(Response) >= 8),
    ?assert(Waited(Service) >= 1),
    ?assert(Waited(Service) =< 4).

%% Twenty a second can be done of two hundred, by one worker.
dropped_when_saturated(_Config) ->
    {ended, Result} = lists:last(run(open(200, 1), #{duration_ms => 400}, pausing(50))),
    #{metrics := Metrics, warnings := Warnings} = dyno_load_result:to_recording(Result, []),
    [Done, Dropped] = [
        V
     || Name <- [~"operations.count", ~"load.dropped"],
        #{name := N, value := V} <- Metrics,
        N =:= Name
    ],
    ?assert(Done =< 9),
    ?assertEqual(80, Done + Dropped),
    [Text] = [T || #{code := ~"generator_limited", text := T} <- Warnings],
    contains(Text, [integer_to_binary(Dropped), ~"too few workers", ~"max_workers"]).

schedule_lag_is_recorded(_Config) ->
    {#{schedule_lag := Lag, service := Service}, [], 0} = ended(run(open(100, 5), #{}, quick())),
    #{count := Count, min := Min} = Lag,
    ?assert(Count > 0),
    ?assert(Min >= 0),
    ?assertMatch(#{count := N} when N >= Count, Service),
    %% A closed load has no time at which an operation should begin.
    {Closed, [], 0} = ended(run(closed(2), #{}, quick())),
    ?assertMatch(#{schedule_lag := undefined, service := undefined}, Closed).

%% Closed loads

closed_load_runs_all_workers_at_once(_Config) ->
    Running = counters:new(1, []),
    Most = atomics:new(1, []),
    Operation = fun(N) ->
        counters:add(Running, 1, 1),
        highest(Most, counters:get(Running, 1)),
        receive
        after 20 -> counters:sub(Running, 1, 1)
        end,
        {ok, N + 1}
    end,
    lists:foreach(
        fun(Workers) ->
            atomics:put(Most, 1, 0),
            at_once(Workers, Operation, Most, 100)
        end,
        [1, 2, 8, 64]
    ).

at_once(Workers, Operation, Most, DurationMs) ->
    {#{successes := Done}, [], 0} = ended(
        run(closed(Workers), #{duration_ms => DurationMs}, same(Operation))
    ),
    %% Each worker one after the other.
    ?assert(Done =< Workers * (DurationMs div 20 + 1)),
    case atomics:get(Most, 1) of
        Workers ->
            ok;
        Fewer when Fewer < Workers, DurationMs < 5000 ->
            at_once(Workers, Operation, Most, DurationMs * 4)
    end.

highest(Most, Now) ->
    case atomics:get(Most, 1) of
        Before when Now > Before ->
            case atomics:compare_exchange(Most, 1, Before, Now) of
                ok -> ok;
                _ -> highest(Most, Now)
            end;
        _ ->
            ok
    end.

closed_load_waits_for_the_last_answer(_Config) ->
    last_answer(50).

last_answer(Ms) ->
    case ended(run(closed(1), #{duration_ms => Ms}, pausing(2 * Ms))) of
        %% On a busy machine the worker had no turn in that time.
        {#{started := 0}, [], 0} when Ms < 5000 -> last_answer(4 * Ms);
        {#{successes := 1, response := #{min := Min}}, [], 0} -> ?assert(Min >= 2_000_000 * Ms)
    end.

warm_up_is_not_counted(_Config) ->
    Calls = counters:new(1, []),
    Operation = fun(N) ->
        counters:add(Calls, 1, 1),
        receive
        after 1 -> {ok, N + 1}
        end
    end,
    Pid = start(closed(2), #{warmup_ms => 500}, same(Operation)),
    Before =
        receive
            {dyno_load, Pid, warm} -> counters:get(Calls, 1)
        end,
    ?assert(Before > 0),
    %% Nobody works until the measured part begins.
    receive
    after 50 -> ?assertEqual(Before, counters:get(Calls, 1))
    end,
    ok = dyno_load_source:measure(Pid),
    {#{successes := Done, started := Done}, [], 0} = ended(events(Pid)),
    ?assertEqual(counters:get(Calls, 1), Before + Done).

intervals_add_up(_Config) ->
    Events = run(closed(2), #{duration_ms => 200, interval_ms => 20}, pausing(2)),
    ?assertMatch([warm, started | _], Events),
    {#{successes := Done}, [], 0} = ended(Events),
    Intervals = [I || {interval, I} <- Events],
    Times = [T || #{time_ms := T} <- Intervals],
    ?assertEqual(lists:usort(Times), Times),
    Lengths = [B - A || {A, B} <- lists:zip([0 | lists:droplast(Times)], Times)],
    Sum = lists:sum([
        T * L / 1000
     || {#{throughput_per_s := T}, L} <- lists:zip(Intervals, Lengths)
    ]),
    ?assert(abs(Sum - Done) =< Done * 0.1 + 5),
    [
        ?assert(P50 =< P99 andalso P99 =< Max)
     || #{p50_ns := P50, p99_ns := P99, max_ns := Max} <- Intervals,
        is_number(P50)
    ].

%% An operation that is still under way when the measured part begins, and fails in it, is none of
%% its operations, and not its end.
an_operation_longer_than_the_warm_up(_Config) ->
    Self = self(),
    Operation = fun
        (0) ->
            Self ! {slow, self()},
            receive
                go_on -> {error, took_long, 1}
            end;
        (N) ->
            receive
            after 5 -> {ok, N + 1}
            end
    end,
    %% Long enough for the worker to begin, also on a busy machine.
    Pid = start(closed(1), #{warmup_ms => 500, duration_ms => 300}, same(Operation)),
    Worker =
        receive
            {slow, W} -> W
        end,
    receive
        {dyno_load, Pid, warm} -> ok = dyno_load_source:measure(Pid)
    end,
    receive
        {dyno_load, Pid, {interval, _}} -> Worker ! go_on
    end,
    {ended, Result} = lists:last(events(Pid)),
    ?assertMatch(
        #{duration_ns := 300_000_000, errors := [], total := #{successes := N}} when N > 0, Result
    ).

%% Errors

errors_by_reason(_Config) ->
    Operation = fun
        (N) when N rem 4 =:= 0 -> {error, {busy, 503}, N + 1};
        (N) when N rem 4 =:= 1 -> {error, timeout, N + 1};
        (N) when N > 40 -> {error, late, N + 1};
        (N) -> {ok, N + 1}
    end,
    Slow = fun(N) ->
        receive
        after 1 -> Operation(N)
        end
    end,
    {#{successes := Done, failures := Failed, response := #{count := Timed}}, Errors, 0} =
        ended(run(closed(1), #{}, same(Slow))),
    ?assertEqual(Failed, lists:sum([N || {_, N, undefined} <- Errors])),
    %% The most frequent first.
    Counts = [N || {_, N, undefined} <- Errors],
    ?assertEqual(Counts, lists:reverse(lists:sort(Counts))),
    ?assert(lists:keymember(~"{busy,503}", 1, Errors)),
    ?assert(lists:keymember(~"timeout", 1, Errors)),
    ?assertEqual(Done, Timed).

%% Reasons with an identifier in each must not fill the memory.
too_many_reasons(_Config) ->
    {#{failures := Failed}, Errors, 0} = ended(
        run(closed(4), #{}, same(fun(N) -> {error, {make_ref(), N}, N + 1} end))
    ),
    ?assert(Failed > 200),
    %% Workers that come at the same time may each add one.
    ?assert(length(Errors) =< 110),
    ?assertEqual(Failed, lists:sum([N || {_, N, undefined} <- Errors])),
    ?assert(lists:keymember(~"(other reasons)", 1, Errors)).

an_exception_renews_the_worker(_Config) ->
    Made = counters:new(1, []),
    Operation = fun
        (3) -> error(broken);
        (N) -> {ok, N + 1}
    end,
    Make = fun(_Id) ->
        counters:add(Made, 1, 1),
        {ok, {Operation, 0}}
    end,
    {#{successes := Done, failures := Failed}, [{~"{error,broken}", Failed, Stack}], 0} =
        ended(run(closed(1), #{}, Make)),
    %% Where it was raised, without what is below the operation.
    [First | _] = Frames = string:split(Stack, "\n", all),
    ?assertMatch({match, _}, re:run(First, ~"an_exception_renews_the_worker.*SUITE.erl:[0-9]+")),
    ?assertEqual([], [F || F <- Frames, string:prefix(F, "dyno_load_worker") =/= nomatch]),
    ?assert(Failed > 0),
    ?assertEqual(Failed + 1, counters:get(Made, 1)),
    ?assert(Done >= 3 * Failed).

%% What it returns is the reason, not that dyno expected something else.
a_worker_that_finds_nobody(_Config) ->
    Made = counters:new(1, []),
    Operation = fun
        (0) -> {ok, 1};
        (1) -> exit(closed)
    end,
    Make = fun(_Id) ->
        counters:add(Made, 1, 1),
        case counters:get(Made, 1) of
            1 -> {ok, {Operation, 0}};
            _ -> {error, econnrefused}
        end
    end,
    {Total, Errors, 0} = ended(run(closed(1), #{duration_ms => 300}, Make)),
    %% Only operations are counted as failed; the others of which no operation came make their share
    %% a lower bound.
    #{successes := 1, failures := 1, not_prepared := N} = Total,
    ?assertMatch({_, 1, _}, lists:keyfind(~"{exit,closed}", 1, Errors)),
    ?assertMatch(
        {_, N, undefined} when N > 0,
        lists:keyfind(~"init_worker/2: {error,econnrefused}", 1, Errors)
    ).

a_worker_that_dies(_Config) ->
    [{failed, Text}] = tails(
        run(
            closed(2),
            #{},
            same(fun(N) ->
                ok = pull_down(N),
                receive
                after 1 -> {ok, N + 1}
                end
            end)
        )
    ),
    contains(Text, [~"a worker of dyno_load_SUITE died", ~"pulled_down"]).

pull_down(10) ->
    _ = spawn_link(fun() -> exit(pulled_down) end),
    ok;
pull_down(_N) ->
    ok.

tails(Events) -> [E || {failed, _} = E <- Events].

contains(Text, Parts) ->
    [?assertNotEqual(nomatch, binary:match(Text, Part), {Text, Part}) || Part <- Parts].

workers_that_are_not_ready(_Config) ->
    Never = fun
        (3) ->
            receive
            after infinity -> ok
            end;
        (_) ->
            {ok, {fun(N) -> {ok, N} end, 0}}
    end,
    [{failed, Text}] = run(closed(5), #{timeout_ms => 100}, Never),
    contains(Text, [~"init_worker/2", ~"4 of 5", ~"100 ms", ~"timeout_ms"]),
    [{failed, Raised}] = run(closed(2), #{}, fun(_) -> throw(no_connection) end),
    contains(Raised, [~"init_worker/2", ~"throw:no_connection"]).

bad_returns(_Config) ->
    [{failed, Worker}] = run(closed(2), #{}, fun(_) -> sorry end),
    contains(Worker, [~"init_worker/2", ~"sorry", ~"{ok, WorkerState}"]),
    [{failed, Operation}] = tails(run(closed(2), #{}, same(fun(_) -> sorry end))),
    contains(Operation, [~"operation/1", ~"sorry", ~"{error, Reason, WorkerState}"]).

%% The end

operations_that_do_not_end(_Config) ->
    Make = fun
        (1) ->
            {ok, {
                fun(_) ->
                    receive
                    after infinity -> ok
                    end
                end,
                0
            }};
        (_) ->
            {ok, {fun(N) -> {ok, N + 1} end, 0}}
    end,
    {#{successes := Done}, [], 1} = ended(run(closed(3), #{timeout_ms => 100}, Make)),
    ?assert(Done > 0).

a_worker_that_cannot_end(_Config) ->
    Make = fun(_) ->
        {ok, {fun(S) -> {ok, S} end, {ending, fun() -> error(cannot_close) end}}}
    end,
    Events = run(closed(2), #{}, Make),
    {#{successes := Done}, [], 0} = ended(Events),
    ?assert(Done > 0),
    {ended, #{not_ended := [Text, _]}} = lists:last(Events),
    contains(Text, [~"end_worker/1", ~"cannot_close"]).

stop_ends_the_workers(_Config) ->
    Self = self(),
    Stuck = fun(_) ->
        Self ! {worker, self()},
        receive
        after infinity -> ok
        end
    end,
    Pid = start(closed(3), #{duration_ms => 60_000}, same(Stuck)),
    receive
        {dyno_load, Pid, warm} -> dyno_load_source:measure(Pid)
    end,
    Workers = [
        receive
            {worker, W} -> {W, monitor(process, W)}
        end
     || _ <- lists:seq(1, 3)
    ],
    ok = dyno_load_source:stop(Pid),
    [
        receive
            {'DOWN', Monitor, process, Worker, killed} -> ok
        end
     || {Worker, Monitor} <- Workers
    ],
    ?assertNot(is_process_alive(Pid)).

%% Reasons that take long to bring about, in words.
sentences(_Config) ->
    Down = 'load@host',
    [
        contains(unicode:characters_to_binary(dyno_error:format({Module, Reason})), Parts)
     || {Module, Reason, Parts} <- [
            {dyno_load, {worker_died, s, killed}, [~"a worker of s died: killed"]},
            {dyno_load, {not_ready, s, 1, 5, 200}, [~"s:init_worker/2", ~"1 of 5", ~"200 ms"]},
            {dyno_load, {node_lost, Down}, [~"load@host went down before"]},
            {dyno_load, {no_node_left, Down}, [~"load@host went down", ~"no other is left"]},
            {dyno_load, {pool_failed, Down, badarg}, [~"load@host", ~"badarg"]},
            {dyno_load_worker, {end_worker_timeout, s, 2, 200}, [~"s:end_worker/1", ~"2 workers"]},
            {dyno_load_worker, {bad_return, s, {operation, buy}, no}, [~"s:operation/2 of buy"]},
            {dyno_load_worker, {raised, {s, init_worker, 2}, error, no, []}, [~"s:init_worker/2"]}
        ]
    ],
    ?assertEqual(caller, dyno_error:fault({dyno_load_worker, {bad_return, s, operation, no}})),
    %% A worker that says why it could not be prepared has failed: the suite is right.
    Away = {dyno_load_worker, {bad_return, s, init_worker, {error, away}}},
    ?assertEqual({dyno, 3}, {dyno_error:fault(Away), dyno_error:exit_status(Away)}),
    ?assertEqual(code, dyno_error:fault({dyno_load, {worker_died, s, killed}})),
    ?assertEqual(dyno, dyno_error:fault({dyno_load, {node_lost, Down}})).
