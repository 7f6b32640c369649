%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_member).
-moduledoc false.
%% A node's part of a cluster (dyno_bench_cluster): runs a code in a number of workers that may
%% change, and reports at an interval. The remote guard interrupts this process in the end.

-export([run/2, set_concurrency/2, format_error/1]).
-export_type([order/0, report/0, reason/0]).

-type order() :: #{
    %% Default: only monitor the node.
    code => dyno_bench_code:code(),
    concurrency => non_neg_integer(),
    interval_ms := pos_integer(),
    timeout_ms := pos_integer(),
    compiler => dyno_bench_code:compiler()
}.

-type report() :: #{
    duration_ns := pos_integer(),
    iterations := non_neg_integer(),
    concurrency := non_neg_integer(),
    values := dyno_agent_vm:values()
}.

-type reason() :: no_code | ended.

-type state() :: #{
    sink := pid(),
    interval_ms := pos_integer(),
    prepared := dyno_bench_prepared:t() | none,
    counter := counters:counters_ref()
}.

-define(MAX, 10_000).

-doc "Sends `{dyno_bench_member, node(), Report}`; the caller holds the run's slot until it ends.".
-spec run(order(), pid()) -> dyno_error:result().
run(#{interval_ms := IntervalMs} = Order, Sink) ->
    ok = dyno_agent_vm:enable(),
    State = #{
        sink => Sink,
        interval_ms => IntervalMs,
        prepared => none,
        counter => counters:new(1, [write_concurrency])
    },
    case Order of
        #{code := Code} -> with_code(Code, Order, State);
        #{} -> begun(State)
    end.

with_code(Code, Order, State) ->
    Workers = maps:get(concurrency, Order, 1),
    maybe
        {ok, Slot} ?= dyno_bench_slots:acquire_run(),
        Options = (maps:with([timeout_ms, compiler], Order))#{
            concurrency => 0, run => dyno_bench_slots:run_number(Slot)
        },
        {ok, Ended} ?=
            dyno_bench_prepared:with([Code], Options, fun(Idle) ->
                begun(dyno_error:ok(resized(Workers, State#{prepared := Idle})))
            end),
        Ended
    end.

begun(#{sink := Sink, interval_ms := IntervalMs} = State) ->
    Sink ! {?MODULE, node(), {started, self()}},
    reporting(State, read(State), erlang:monotonic_time(millisecond) + IntervalMs).

read(#{counter := Counter}) ->
    {erlang:monotonic_time(nanosecond), counters:get(Counter, 1), dyno_agent_vm:read()}.

%% Absolute times, so that reports do not drift.
-spec reporting(state(), term(), integer()) -> dyno_error:result().
reporting(#{sink := Sink, interval_ms := IntervalMs} = State, Before, DueMs) ->
    receive
        dyno_interrupt ->
            ended(ok, State);
        {{set_concurrency, Count}, From, Ref} ->
            case resized(Count, State) of
                {ok, Resized} ->
                    From ! {Ref, ok},
                    reporting(Resized, Before, DueMs);
                {error, {?MODULE, no_code}} = Error ->
                    From ! {Ref, Error},
                    reporting(State, Before, DueMs);
                {error, _} = Error ->
                    From ! {Ref, Error},
                    ended(Error, State)
            end;
        {_Run, Pid, {error, Failure}} when is_pid(Pid) ->
            failed(Pid, Failure, State, Before, DueMs);
        {'EXIT', Pid, Reason} ->
            failed(Pid, dyno_bench_worker:failure(Reason), State, Before, DueMs)
    after max(0, DueMs - erlang:monotonic_time(millisecond)) ->
        Now = read(State),
        Sink ! {?MODULE, node(), {report, report(State, Before, Now)}},
        %% After a long delay, skipped reports are not made up.
        NextMs = max(DueMs, erlang:monotonic_time(millisecond) - IntervalMs) + IntervalMs,
        reporting(State, Now, NextMs)
    end.

%% A message of a worker that was ended on purpose says nothing.
failed(Pid, Failure, State, Before, DueMs) ->
    case lists:member(Pid, workers(State)) of
        true ->
            #{label := Label} = dyno_bench_prepared:description(1, map_get(prepared, State)),
            ended({error, dyno_bench_failure:error(Label, run, Failure)}, State);
        false ->
            reporting(State, Before, DueMs)
    end.

%% Workers end before `done` runs.
ended(Result, #{prepared := none}) ->
    Result;
ended(Result, #{prepared := Prepared}) ->
    _ = dyno_bench_prepared:resized(0, Prepared),
    Result.

workers(#{prepared := none}) -> [];
workers(#{prepared := Prepared}) -> dyno_bench_prepared:workers(Prepared).

report(State, {Time0, Iterations0, Raw0}, {Time1, Iterations1, Raw1}) ->
    #{
        duration_ns => max(1, Time1 - Time0),
        iterations => Iterations1 - Iterations0,
        concurrency => length(workers(State)),
        values => dyno_agent_vm:difference(Raw0, Raw1)
    }.

resized(_Count, #{prepared := none}) ->
    {error, {?MODULE, no_code}};
resized(Count, #{prepared := Prepared, counter := Counter} = State) ->
    maybe
        Resize = fun() -> dyno_bench_prepared:resized(Count, Prepared) end,
        {ok, Resized} ?= dyno_error:attempt(Resize),
        New = dyno_bench_prepared:workers(Resized) -- dyno_bench_prepared:workers(Prepared),
        Run = #{number => 1, heap => default, place => 1, counter => Counter},
        _ = dyno_bench_worker:run_on(New, Run),
        {ok, State#{prepared := Resized}}
    end.

-doc """
Sets the number of workers; returns when new workers run. Surplus workers are killed: iterations
since their last batch are not counted. If the code fails then, the run ends.
""".
-spec set_concurrency(pid(), non_neg_integer()) -> dyno_error:result().
set_concurrency(Pid, Count) when is_integer(Count), Count >= 0, Count =< ?MAX ->
    try
        dyno_agent_process:ask(Pid, {set_concurrency, Count})
    catch
        exit:{dyno_agent, _} -> {error, {?MODULE, ended}}
    end;
set_concurrency(_Pid, Count) ->
    dyno_option:error(concurrency, Count, ~"an integer from 0 to 10000").

-spec format_error(reason()) -> unicode:chardata().
format_error(no_code) ->
    "no code runs there: the node is only monitored";
format_error(ended) ->
    "the code does not run any more".
