%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_sample).
-moduledoc false.
%% One sample of a job: what its workers do within a time. Each worker's part lasts from the end of
%% one of its batches to the end of another, so that the rate is that of whole iterations, however
%% late the process is that asks. Where a worker ends no batch in the time, it is waited for.

-export([measure/3, explained/2, end_of/1]).
-export_type([watched/0, sample/0]).

-doc "A job and the monitor that says when it ended.".
-type watched() :: {dyno_bench_job:job(), reference()}.

-type sample() :: #{
    iterations := pos_integer(),
    %% The longest part of a worker.
    duration_ns := pos_integer(),
    %% Of all workers.
    per_second := float(),
    reductions := non_neg_integer(),
    collections := non_neg_integer()
}.

%% How often it looks whether the last worker has ended its batch.
-define(LOOK_MS, 2).

-doc "Measures for so many milliseconds, or until each worker has ended a batch.".
-spec measure(watched(), Ms :: pos_integer(), {Label :: binary(), TimeoutMs :: pos_integer()}) ->
    {ok, sample()} | {error, dyno_bench_job:reason() | interrupted}.
measure({Job, _} = Watched, Ms, {Label, TimeoutMs}) ->
    maybe
        {ok, Before} ?= dyno_bench_job:rows(Job),
        ok ?= wait(Watched, Ms),
        EndMs = erlang:monotonic_time(millisecond) + TimeoutMs,
        {ok, _} ?= finish(Watched, Before, EndMs, {Label, TimeoutMs})
    else
        Error -> explained(Error, Watched)
    end.

-doc "An answer of a job; of one that is gone, why it ended.".
-spec explained(Answer | {error, dyno_bench_job:reason()}, watched()) ->
    Answer | {error, dyno_bench_job:reason() | interrupted}.
explained({error, ended}, {_, Monitor}) ->
    receive
        {'DOWN', Monitor, process, _, Reason} -> {error, end_of(Reason)}
    end;
explained(Answer, _Watched) ->
    Answer.

-doc "Why a job ended, from the reason that its process ended with.".
-spec end_of(term()) -> dyno_bench_job:reason().
end_of({shutdown, Reason}) when is_tuple(Reason) -> Reason;
end_of(Reason) -> {failed, ~"the job", run, {died, Reason}}.

-spec wait(watched(), non_neg_integer()) -> ok | {error, term()}.
wait({_, Monitor}, Ms) ->
    receive
        dyno_interrupt -> {error, interrupted};
        {'DOWN', Monitor, process, _, Reason} -> {error, end_of(Reason)}
    after Ms -> ok
    end.

-spec finish(watched(), [dyno_bench_job_counters:row()], integer(), {binary(), pos_integer()}) ->
    {ok, sample()} | {error, term()}.
finish({Job, _} = Watched, Before, EndMs, Limit) ->
    maybe
        {ok, After} ?= dyno_bench_job:rows(Job),
        Parts = lists:zipwith(fun difference/2, Before, After),
        case lists:all(fun(#{iterations := N, ns := Ns}) -> N > 0 andalso Ns > 0 end, Parts) of
            true ->
                {ok, sample(Parts)};
            false ->
                case later(Watched, EndMs, Limit) of
                    ok -> finish(Watched, Before, EndMs, Limit);
                    Error -> Error
                end
        end
    end.

-spec later(watched(), integer(), {binary(), pos_integer()}) -> ok | {error, term()}.
later(Watched, EndMs, {Label, TimeoutMs}) ->
    case erlang:monotonic_time(millisecond) >= EndMs of
        true -> {error, {endless, Label, TimeoutMs}};
        false -> wait(Watched, ?LOOK_MS)
    end.

-type part() :: #{
    iterations := non_neg_integer(),
    ns := integer(),
    reductions := non_neg_integer(),
    collections := non_neg_integer()
}.

-spec difference(dyno_bench_job_counters:row(), dyno_bench_job_counters:row()) -> part().
difference(
    #{iterations := N0, time_ns := T0, reductions := R0, collections := C0},
    #{iterations := N1, time_ns := T1, reductions := R1, collections := C1}
) ->
    #{iterations => N1 - N0, ns => T1 - T0, reductions => R1 - R0, collections => C1 - C0}.

-spec sample([part()]) -> sample().
sample(Parts) ->
    Sum = fun(Key) -> lists:sum([map_get(Key, Part) || Part <- Parts]) end,
    #{
        iterations => Sum(iterations),
        duration_ns => lists:max([Ns || #{ns := Ns} <- Parts]),
        per_second => lists:sum([N * 1.0e9 / Ns || #{iterations := N, ns := Ns} <- Parts]),
        reductions => Sum(reductions),
        collections => Sum(collections)
    }.
