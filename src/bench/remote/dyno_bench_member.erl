%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_member).
-moduledoc false.
%% A node's part of a cluster (dyno_bench_cluster): runs a job, and reports iterations and the VM
%% state at an interval. The remote guard interrupts this process in the end.

-export([run/2, set_concurrency/2]).
-export_type([order/0, report/0]).

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

-doc "Sends `{dyno_bench_member, node(), {started | report, ...}}` to `Sink`.".
-spec run(order(), pid()) -> ok | {error, dyno_error:error()}.
run(Order, Sink) ->
    ok = dyno_agent_vm:enable(),
    maybe
        {ok, Job} ?= job(Order),
        try
            reporting_of(Job, Order, Sink)
        after
            stopped(Job)
        end
    end.

job(#{code := _} = Order) ->
    dyno_bench_job:start((maps:with([code, timeout_ms, compiler], Order))#{concurrency => 0});
job(_Order) ->
    {ok, none}.

%% Monitors the job before the job starts working, so as not to miss the reason of its end.
reporting_of(Job, #{interval_ms := IntervalMs} = Order, Sink) ->
    {Monitor, Begun} =
        case Job of
            none ->
                {make_ref(), ok};
            _ ->
                Workers = maps:get(concurrency, Order, 1),
                {dyno_bench_job:monitor(Job), dyno_bench_job:set_concurrency(Job, Workers)}
        end,
    _ = [Sink ! {?MODULE, node(), {started, self()}} || Begun =:= ok],
    State = #{job => Job, monitor => Monitor, sink => Sink, interval_ms => IntervalMs},
    reporting(State, read(Job), erlang:monotonic_time(millisecond) + IntervalMs).

stopped(none) -> ok;
stopped(Job) -> dyno_bench_job:stop(Job).

iterations(none) -> 0;
iterations(Job) -> dyno_bench_job:sample(Job).

read(Job) -> {erlang:monotonic_time(nanosecond), iterations(Job), dyno_agent_vm:read()}.

%% Absolute times, so that reports do not drift.
reporting(#{job := Job, monitor := Monitor, interval_ms := IntervalMs} = State, Before, DueMs) ->
    receive
        dyno_interrupt ->
            ok;
        {{set_concurrency, Count}, From, Ref} ->
            From ! {Ref, changed(Job, Count)},
            reporting(State, Before, DueMs);
        {'DOWN', Monitor, process, _, Reason} ->
            {error, dyno_bench_job:end_of(Reason)}
    after max(0, DueMs - erlang:monotonic_time(millisecond)) ->
        Now = read(Job),
        map_get(sink, State) ! {?MODULE, node(), {report, report(Job, Before, Now)}},
        %% After a long delay, skipped reports are not made up.
        NextMs = max(DueMs, erlang:monotonic_time(millisecond) - IntervalMs) + IntervalMs,
        reporting(State, Now, NextMs)
    end.

changed(none, _Count) -> {error, {dyno_bench_job, ended}};
changed(Job, Count) -> dyno_bench_job:set_concurrency(Job, Count).

report(Job, {Time0, Iterations0, Raw0}, {Time1, Iterations1, Raw1}) ->
    #{
        duration_ns => max(1, Time1 - Time0),
        iterations => Iterations1 - Iterations0,
        concurrency =>
            case Job =/= none andalso dyno_bench_job:concurrency(Job) of
                {ok, Count} -> Count;
                _ -> 0
            end,
        values => dyno_agent_vm:difference(Raw0, Raw1)
    }.

-spec set_concurrency(pid(), non_neg_integer()) -> ok | {error, dyno_error:error()}.
set_concurrency(Pid, Count) ->
    try
        dyno_agent_process:ask(Pid, {set_concurrency, Count})
    catch
        exit:{dyno_agent, _} -> {error, {dyno_bench_job, ended}}
    end.
