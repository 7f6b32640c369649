%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_sample).
-moduledoc false.
%% One sample of a job: what its workers do within a time. Each worker's part lasts from the end of
%% one of its batches to the end of another, so that the rate is that of whole iterations, however
%% late the process is that asks. Where a worker ends no batch in the time, it is waited for.

%%
%% What goes wrong ends what `promptly/1` calls.

-export([promptly/1, start/3, stop/1, call/2, measure/3, end_of/1]).
-export_type([monitored/0, sample/0]).

-doc "A job and the monitor that says when it ended.".
-type monitored() :: {dyno_bench_job:job(), reference()}.

-type sample() :: #{
    iterations := pos_integer(),
    %% The longest part of a worker.
    duration_ns := pos_integer(),
    %% Of all workers.
    per_second := float(),
    reductions := non_neg_integer(),
    collections := non_neg_integer()
}.

%% How often it looks whether the last worker has ended its batch; with very many, a
%% millisecond for so many of them, because to look at 10,000 takes 40 ms.
-define(LOOK_MS, 2).
-define(LOOKED_IN_MS, 20).

-doc """
Samples, with a priority that lets the caller have its turn before thousands of workers; see
`start/3`.
""".
-spec promptly(fun(() -> Value)) -> {ok, Value} | {error, dyno_error:error()}.
promptly(Sample) ->
    Usual = process_flag(priority, high),
    try
        dyno_error:attempt(Sample)
    after
        process_flag(priority, Usual)
    end.

-doc "Starts a paused job for one of several codes.".
-spec start(dyno_bench_code:code(), Number :: pos_integer(), #{
    concurrency := pos_integer(),
    number => pos_integer(),
    max_concurrency => pos_integer(),
    _ => _
}) -> monitored().
start(Code, Number, #{concurrency := Concurrency} = Options) ->
    Own = maps:with([compiler, concurrency, heap, max_concurrency, timeout_ms], Options),
    Started = dyno_bench_job:start((maps:merge(#{max_concurrency => Concurrency}, Own))#{
        code => Code, number => Number + maps:get(number, Options, 1) - 1, state => paused
    }),
    Job = dyno_error:ok(Started),
    _ = dyno_bench_job:set_priority(Job, high),
    {Job, dyno_bench_job:monitor(Job)}.

-doc "Ends a job.".
-spec stop(monitored()) -> ok.
stop({Job, Monitor}) ->
    true = demonitor(Monitor, [flush]),
    dyno_bench_job:stop(Job).

-doc "Calls a function with a job; where that is gone, it fails for the reason that it ended with.".
-spec call(
    fun((dyno_bench_job:job()) -> ok | {ok, Value} | {error, dyno_error:error()}), monitored()
) -> ok | Value.
call(Function, {Job, Monitor}) ->
    case Function(Job) of
        {error, {dyno_bench_job, ended}} ->
            receive
                {'DOWN', Monitor, process, _, Reason} -> dyno_error:fail(end_of(Reason))
            end;
        Answer ->
            dyno_error:ok(Answer)
    end.

-doc "Measures for so many milliseconds, or until each worker has ended a batch.".
-spec measure(monitored(), Ms :: pos_integer(), TimeoutMs :: pos_integer()) -> sample().
measure(Monitored, Ms, TimeoutMs) ->
    Before = call(fun dyno_bench_job:rows/1, Monitored),
    ok = wait(Monitored, Ms),
    finish(Monitored, Before, erlang:monotonic_time(millisecond) + TimeoutMs, TimeoutMs).

-doc "Why a job ended, from the reason that its process ended with.".
-spec end_of(term()) -> dyno_error:error().
end_of({shutdown, Error}) when is_tuple(Error) -> Error;
end_of(Reason) -> dyno_bench_failure:error(~"the job", run, {died, Reason}).

wait({_, Monitor}, Ms) ->
    receive
        dyno_interrupt -> dyno_error:fail({dyno_error, interrupted});
        {'DOWN', Monitor, process, _, Reason} -> dyno_error:fail(end_of(Reason))
    after Ms -> ok
    end.

finish({Job, _} = Monitored, Before, EndMs, TimeoutMs) ->
    Now = call(fun dyno_bench_job:rows/1, Monitored),
    Parts = lists:zipwith(fun difference/2, Before, Now),
    Workers = length(Parts),
    NowMs = erlang:monotonic_time(millisecond),
    case length([none || #{iterations := N, ns := Ns} <- Parts, N =:= 0 orelse Ns =:= 0]) of
        0 ->
            sample(Parts);
        Late when NowMs >= EndMs ->
            #{label := Label} = dyno_bench_job:description(Job),
            Failure = {late, Late, Workers, TimeoutMs},
            dyno_error:fail(dyno_bench_failure:error(Label, run, Failure));
        _ ->
            ok = wait(Monitored, max(?LOOK_MS, Workers div ?LOOKED_IN_MS)),
            finish(Monitored, Before, EndMs, TimeoutMs)
    end.

difference(
    #{iterations := N0, time_ns := T0, reductions := R0, collections := C0},
    #{iterations := N1, time_ns := T1, reductions := R1, collections := C1}
) ->
    #{iterations => N1 - N0, ns => T1 - T0, reductions => R1 - R0, collections => C1 - C0}.

sample(Parts) ->
    Sum = fun(Key) -> lists:sum([map_get(Key, Part) || Part <- Parts]) end,
    #{
        iterations => Sum(iterations),
        duration_ns => lists:max([Ns || #{ns := Ns} <- Parts]),
        per_second => lists:sum([N * 1.0e9 / Ns || #{iterations := N, ns := Ns} <- Parts]),
        reductions => Sum(reductions),
        collections => Sum(collections)
    }.
