%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_job).
-moduledoc """
Runs a code repeatedly in a number of processes that can change at run time, and counts iterations.

```erlang
1> {ok, Job} = dyno_bench_job:start(#{code => "rand:uniform().", concurrency => 2}).
2> dyno_bench_job:sample(Job).
170411920
3> ok = dyno_bench_job:set_concurrency(Job, 4).
4> ok = dyno_bench_job:stop(Job).
```

A job ends with the process that started it, with the first worker that fails, or by `stop/1`; its
code is then unloaded. `monitor/1` reports the end and its reason.

## Cost
Workers count iterations about once a millisecond: a thousandth of their time. Reading the counter
disturbs no worker.
""".

-export([start/1, start_link/1, stop/1, request_stop/1, monitor/1, end_of/1]).
-export([concurrency/1, set_concurrency/2, sample/1, measure/2, source/1, set_priority/2]).
-export([format_error/1]).
-export_type([job/0, options/0, reason/0]).

-type options() :: #{
    code := dyno_bench_code:code(),
    %% Workers. Default: 1.
    concurrency => non_neg_integer(),
    %% The least heap size of workers in words. Default: the runtime's.
    heap => dyno_bench_worker:heap(),
    %% Limit of init, init_runner and a measurement. Default: 30000.
    timeout_ms => pos_integer(),
    %% The compiler's node if this node has no compiler. Default: this node.
    compiler => dyno_bench_code:compiler()
}.

-doc "A job.".
-opaque job() :: #{pid := pid(), counter := counters:counters_ref()}.

%% The job had ended before the call.
-type reason() :: ended.

-type state() :: #{
    %% The code without workers, and with workers.
    idle := dyno_bench_prepared:t(),
    prepared := dyno_bench_prepared:t(),
    parsed := dyno_bench_code:parsed(),
    counter := counters:counters_ref(),
    owner := reference()
}.

-define(MAX, 10_000).

-doc "Starts a job; returns when all its workers are ready.".
-spec start(options()) -> {ok, job()} | {error, dyno_error:error()}.
start(Options) ->
    start_as(alone, Options).

-doc "The same, linked to the caller: a failing job ends the caller.".
-spec start_link(options()) -> {ok, job()} | {error, dyno_error:error()}.
start_link(Options) ->
    start_as(linked, Options).

start_as(How, #{code := Code} = Options) ->
    Merged = maps:merge(#{concurrency => 1, timeout_ms => 30_000}, Options),
    IsPositive = fun(N) -> is_integer(N) andalso N >= 1 end,
    Checks = [
        {concurrency, fun is_count/1, ~"an integer from 0 to 10000"},
        {timeout_ms, IsPositive, ~"a positive integer"}
    ],
    maybe
        ok ?= dyno_option:check(Checks, [code, compiler, heap], Merged),
        {ok, Parsed} ?= dyno_bench_code:read(Code),
        Counter = counters:new(1, [write_concurrency]),
        Owner = self(),
        {Pid, Monitor} = spawn_monitor(fun() -> init({How, Owner}, Counter, Parsed, Merged) end),
        receive
            {Pid, ready} ->
                true = demonitor(Monitor, [flush]),
                {ok, #{pid => Pid, counter => Counter}};
            {'DOWN', Monitor, process, Pid, Reason} ->
                {error, end_of(Reason)}
        end
    end.

is_count(Count) -> is_integer(Count) andalso Count >= 0 andalso Count =< ?MAX.

-doc "Ends a job and runs its `done`.".
-spec stop(job()) -> ok.
stop(#{pid := Pid} = Job) ->
    Monitor = monitor(Job),
    ok = request_stop(Job),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    end.

-doc "Ends a job without waiting; see `monitor/1`.".
-spec request_stop(job()) -> ok.
request_stop(#{pid := Pid}) ->
    Pid ! {?MODULE, stop},
    ok.

-doc """
Monitors a job: if the code failed, the reason in the `'DOWN'` message is `{shutdown, Reason}`.
""".
-spec monitor(job()) -> reference().
monitor(#{pid := Pid}) ->
    erlang:monitor(process, Pid).

-doc "Why a job ended, from its exit reason.".
-spec end_of(term()) -> dyno_error:error().
end_of({shutdown, Error}) when is_tuple(Error) -> Error;
end_of(Reason) -> dyno_bench_failure:error(~"the job", run, {died, Reason}).

-doc "The number of workers of a job.".
-spec concurrency(job()) -> {ok, non_neg_integer()} | {error, dyno_error:error()}.
concurrency(Job) ->
    call(Job, concurrency).

-doc """
Sets the number of workers; returns when new workers run. Surplus workers are killed, and iterations
since their last batch are not counted. If the code fails then, the job ends.
""".
-spec set_concurrency(job(), non_neg_integer()) -> ok | {error, dyno_error:error()}.
set_concurrency(Job, Count) ->
    case is_count(Count) of
        true -> call(Job, {set_concurrency, Count});
        false -> dyno_option:error(concurrency, Count, ~"an integer from 0 to 10000")
    end.

-doc "All iterations of a job so far, including those of former workers.".
-spec sample(job()) -> non_neg_integer().
sample(#{counter := Counter}) ->
    counters:get(Counter, 1).

-doc """
The time of a number of iterations in nanoseconds, in a separate process with its own `init_runner`.
The job's workers continue meanwhile. Measurements run one after the other.
""".
-spec measure(job(), Iterations :: pos_integer()) ->
    {ok, Nanoseconds :: non_neg_integer()} | {error, dyno_error:error()}.
measure(Job, Iterations) when is_integer(Iterations), Iterations >= 1 ->
    call(Job, {measure, Iterations}).

-doc "The loop of a job or a code, as source text.".
-spec source(job() | dyno_bench_code:code()) ->
    {ok, unicode:chardata()} | {error, dyno_error:error()}.
source(#{pid := _, counter := _} = Job) ->
    call(Job, source);
source(Code) ->
    maybe
        {ok, Parsed} ?= dyno_bench_code:read(Code),
        {ok, dyno_bench_code:source(Parsed)}
    end.

-doc """
Sets the priority of the process that starts and stops a job's workers; returns the old priority.
With far more workers than schedulers, `high` gives that process its turn.
""".
-spec set_priority(job(), low | normal | high) ->
    {ok, low | normal | high} | {error, dyno_error:error()}.
set_priority(Job, Level) when Level =:= low; Level =:= normal; Level =:= high ->
    call(Job, {set_priority, Level}).

call(#{pid := Pid}, Request) ->
    try
        dyno_agent_process:ask(Pid, {?MODULE, Request})
    catch
        exit:{dyno_agent, {shutdown, Error}} when is_tuple(Error) -> {error, Error};
        exit:{dyno_agent, _} -> {error, {?MODULE, ended}}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error(ended) ->
    "the job has ended; start another one".

init({How, Owner}, Counter, Parsed, #{code := Code, concurrency := Count} = Options) ->
    _ = process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    OwnerMonitor = erlang:monitor(process, Owner),
    Served =
        maybe
            {ok, Slot} ?= dyno_bench_slots:acquire_run(),
            Own = Options#{concurrency := 0, run => dyno_bench_slots:run_number(Slot)},
            {ok, Ended} ?=
                dyno_bench_prepared:with([Code], Own, fun(Idle) ->
                    State = #{
                        idle => Idle,
                        prepared => Idle,
                        parsed => Parsed,
                        counter => Counter,
                        owner => OwnerMonitor
                    },
                    Begun = dyno_error:ok(resized(Count, State)),
                    _ = [link(Owner) || How =:= linked],
                    Owner ! {self(), ready},
                    serve(Begun)
                end),
            Ended
        end,
    case Served of
        normal -> ok;
        {shutdown, _} = Reason -> exit(Reason);
        {error, Error} -> exit({shutdown, Error})
    end.

-spec serve(state()) -> normal | {shutdown, term()}.
serve(#{owner := Owner} = State) ->
    receive
        {?MODULE, stop} ->
            ended(normal, State);
        {'DOWN', Owner, process, _, _} ->
            ended({shutdown, owner_ended}, State);
        {{?MODULE, {set_concurrency, Count}}, From, Ref} ->
            case resized(Count, State) of
                {ok, Resized} ->
                    From ! {Ref, ok},
                    serve(Resized);
                {error, Error} ->
                    ended({shutdown, Error}, State)
            end;
        {{?MODULE, Request}, From, Ref} ->
            From ! {Ref, answer(Request, State)},
            serve(State);
        {_Run, Pid, {error, Failure}} when is_pid(Pid) ->
            failed(Pid, Failure, State);
        {'EXIT', Pid, Reason} ->
            failed(Pid, dyno_bench_worker:failure(Reason), State);
        _Other ->
            serve(State)
    end.

failed(Pid, Failure, #{prepared := Prepared} = State) ->
    case lists:member(Pid, dyno_bench_prepared:workers(Prepared)) of
        true ->
            #{label := Label} = dyno_bench_prepared:description(1, Prepared),
            ended({shutdown, dyno_bench_failure:error(Label, run, Failure)}, State);
        false ->
            serve(State)
    end.

%% Workers end before `done` runs.
ended(Reason, #{prepared := Prepared}) ->
    _ = dyno_bench_prepared:resized(0, Prepared),
    Reason.

answer(concurrency, #{prepared := Prepared}) ->
    {ok, length(dyno_bench_prepared:workers(Prepared))};
answer(source, #{parsed := Parsed}) ->
    {ok, dyno_bench_code:source(Parsed)};
answer({set_priority, Level}, _State) ->
    {ok, process_flag(priority, Level)};
answer({measure, Iterations}, #{idle := Idle}) ->
    dyno_error:attempt(fun() ->
        dyno_bench_prepared:with_workers(1, Idle, fun(Alone) ->
            [#{wall_ns := Ns}] = dyno_bench_prepared:epochs(1, Iterations, Alone),
            Ns
        end)
    end).

resized(Count, #{prepared := Prepared, counter := Counter} = State) ->
    maybe
        Resize = fun() -> dyno_bench_prepared:resized(Count, Prepared) end,
        {ok, Resized} ?= dyno_error:attempt(Resize),
        New = dyno_bench_prepared:workers(Resized) -- dyno_bench_prepared:workers(Prepared),
        Heap = maps:get(heap, dyno_bench_prepared:options(Resized), default),
        Run = #{number => 1, heap => Heap, place => 1, counter => Counter},
        _ = dyno_bench_worker:run_on(New, Run),
        {ok, State#{prepared := Resized}}
    end.
