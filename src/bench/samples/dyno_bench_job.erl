%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_job).
-moduledoc """
Runs a code again and again in any number of processes, which can be changed while it runs, and says
how often it has run.

```erlang
1> {ok, Job} = dyno_bench_job:start(#{code => "rand:uniform().", concurrency => 2}).
2> dyno_bench_job:sample(Job).
170411920
3> ok = dyno_bench_job:set_concurrency(Job, 4).
4> ok = dyno_bench_job:stop(Job).
```

A job ends with the process that started it, with the first of its workers that fails, or with
`stop/1`; its code is then taken away. `monitor/1` says that it has ended, and why. There are at
most 64 at a time.

Iterations are counted when the batch ends that they are in, about each millisecond. Where a code
has become so slow that its batch goes on for seconds, its worker is ended and begins anew, with one
iteration, an `init_runner` and a state of its own: what it did in that batch is not counted.

## Cost
The workers count in shared atomics, each in words of its own, once a millisecond: a thousandth of
their time. Reading the counters disturbs nobody.
""".

-behaviour(gen_server).

-export([start/1, start_link/1, stop/1, request_stop/1, monitor/1]).
-export([concurrency/1, set_concurrency/2, pause/1, resume/1]).
-export([sample/1, measure/2, reductions/2, rows/1, description/1, source/1, set_priority/2]).
-export([format_error/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([job/0, options/0, description/0, reason/0]).

-type options() :: #{
    code := dyno_bench_code:code(),
    %% Of several codes, in errors.
    number => pos_integer(),
    %% Workers; 1.
    concurrency => non_neg_integer(),
    %% Whether the workers begin at once; running.
    state => running | paused,
    %% The most workers it can have; 10000.
    max_concurrency => pos_integer(),
    %% The least size of the workers' heap in words; the runtime's default.
    heap => dyno_bench_worker:heap(),
    %% The longest that init, init_runner, and a batch may take that is waited for; 30000.
    timeout_ms => pos_integer(),
    %% The node whose compiler is used, where this one has none; here.
    compiler => dyno_bench_code:compiler()
}.

-doc "A job.".
-opaque job() :: #{
    pid := pid(),
    counters := dyno_bench_job_counters:t(),
    max := pos_integer(),
    description := description()
}.

-doc "What is known of a code before it runs; see dyno_bench_code.".
-type description() :: #{
    label := binary(),
    form := inline | call | apply,
    constant := boolean(),
    warnings := [binary()]
}.

%% The job had ended before the call.
-type reason() :: ended.

-type state() :: #{
    code := dyno_bench_job_worker:code(),
    description := description(),
    owner := reference(),
    ref := reference(),
    timeout_ms := pos_integer(),
    %% By their rows on the counters: the first is the last of the list.
    workers := [pid()],
    parsed := dyno_bench_code:parsed(),
    looked_ms := integer(),
    %% A timed measurement, and who waits for it.
    measuring := none | {pid(), gen_server:from()}
}.

-type arguments() :: #{
    parsed := dyno_bench_code:parsed(),
    counters := dyno_bench_job_counters:t(),
    owner := pid(),
    concurrency := non_neg_integer(),
    state := running | paused,
    heap := dyno_bench_worker:heap(),
    timeout_ms := pos_integer(),
    _ => _
}.

-define(MAX, 10_000).
%% How often it is looked for batches that do not end, and how long they may take; with more
%% workers than schedulers also so much for each worker of a scheduler.
-define(LOOK_MS, 500).
-define(BATCH_MS, 2000).
-define(TURN_MS, 20).
%% 8 MB; see dyno_bench_deterministic.
-define(UNCOLLECTED_WORDS, 1_000_000).

-doc "Starts a job; returns when all its workers are ready.".
-spec start(options()) -> {ok, job()} | {error, dyno_error:error()}.
start(Options) ->
    start_as(start, Options).

-doc "The same, linked to the caller: it ends with a job that fails.".
-spec start_link(options()) -> {ok, job()} | {error, dyno_error:error()}.
start_link(Options) ->
    start_as(start_link, Options).

start_as(How, #{code := Code} = Options) ->
    Max = maps:get(max_concurrency, Options, ?MAX),
    Merged = maps:merge(
        #{
            concurrency => 1,
            heap => default,
            state => running,
            timeout_ms => 30_000,
            max_concurrency => Max
        },
        Options
    ),
    maybe
        ok ?= checked(Merged),
        {ok, Parsed} ?= in_code(dyno_bench_code:read(Code, Options), Options),
        Counters = dyno_bench_job_counters:new(Max),
        {ok, Pid} ?= started(How, Parsed, Counters, Merged),
        Job = #{pid => Pid, counters => Counters, max => Max},
        {ok, Description} ?= call(Job, description),
        {ok, Job#{description => Description}}
    end.

checked(#{max_concurrency := Max} = Options) ->
    IsPositive = fun(N) -> is_integer(N) andalso N >= 1 end,
    Checks = [
        {max_concurrency, IsPositive, ~"a positive integer"},
        {concurrency, fun(N) -> is_count(N, Max) end, accepted(Max)},
        {timeout_ms, IsPositive, ~"a positive integer"},
        {state, fun(State) -> lists:member(State, [running, paused]) end, ~"running or paused"}
    ],
    dyno_option:check(Checks, [code, number, compiler, heap], Options).

in_code({error, Error}, #{number := Number}) -> {error, dyno_bench_code:in_code(Number, Error)};
in_code(Result, _Options) -> Result.

is_count(Count, Max) ->
    is_integer(Count) andalso is_integer(Max) andalso Count >= 0 andalso Count =< Max.

accepted(Max) ->
    iolist_to_binary(io_lib:format("an integer from 0 to ~0p", [Max])).

started(How, Parsed, Counters, #{timeout_ms := TimeoutMs} = Options) ->
    Arguments = Options#{parsed => Parsed, counters => Counters, owner => self()},
    case gen_server:How(?MODULE, Arguments, [{timeout, 2 * TimeoutMs}]) of
        {ok, Pid} -> {ok, Pid};
        {error, {shutdown, Error}} -> {error, Error};
        {error, timeout} -> {error, job_failed({timeout, 2 * TimeoutMs})};
        {error, Reason} -> {error, job_failed({died, Reason})}
    end.

job_failed(Failure) ->
    dyno_bench_failure:error(~"the job", init, Failure).

-doc "Ends a job; its `done` is run.".
-spec stop(job()) -> ok.
stop(#{pid := Pid}) ->
    try
        gen_server:stop(Pid)
    catch
        exit:_ -> ok
    end.

-doc "Has a job end, and does not wait for that; see `monitor/1`.".
-spec request_stop(job()) -> ok.
request_stop(#{pid := Pid}) ->
    gen_server:cast(Pid, stop).

-doc """
Monitors a job: its `'DOWN'` message has the reason `{shutdown, Reason}` where the code failed.
""".
-spec monitor(job()) -> reference().
monitor(#{pid := Pid}) ->
    erlang:monitor(process, Pid).

-doc "How many workers a job has.".
-spec concurrency(job()) -> {ok, non_neg_integer()} | {error, dyno_error:error()}.
concurrency(Job) ->
    call(Job, concurrency).

-doc """
Gives a job so many workers; returns when the new ones work. Those that are too many are killed, and
what they did since their last batch is not counted.
""".
-spec set_concurrency(job(), non_neg_integer()) -> ok | {error, dyno_error:error()}.
set_concurrency(#{max := Max} = Job, Count) ->
    case is_count(Count, Max) of
        true -> call(Job, {set_concurrency, Count});
        false -> dyno_option:error(concurrency, Count, accepted(Max))
    end.

-doc "Returns when every worker has ended its batch and waits.".
-spec pause(job()) -> ok | {error, dyno_error:error()}.
pause(Job) ->
    call(Job, pause).

-doc "Returns when every worker works again.".
-spec resume(job()) -> ok | {error, dyno_error:error()}.
resume(Job) ->
    call(Job, resume).

-doc "The iterations of a job so far, those of workers that it no longer has included.".
-spec sample(job()) -> non_neg_integer().
sample(#{counters := Counters}) ->
    dyno_bench_job_counters:total(Counters).

-doc """
How long so many iterations take, in nanoseconds, in a process of its own with an `init_runner` of
its own; the job's workers go on beside it, if there are any. One measurement at a time: `busy`
otherwise.
""".
-spec measure(job(), Iterations :: pos_integer()) ->
    {ok, Nanoseconds :: non_neg_integer()} | {error, busy | dyno_error:error()}.
measure(Job, Iterations) when is_integer(Iterations), Iterations >= 1 ->
    call(Job, {measure, Iterations}).

-doc """
The reductions of a call, in so many iterations during which nothing is collected; otherwise as
`measure/2`.
""".
-spec reductions(job(), Iterations :: pos_integer()) ->
    {ok, float()} | {error, busy | dyno_error:error()}.
reductions(Job, Iterations) when is_integer(Iterations), Iterations >= 1 ->
    call(Job, {reductions, Iterations}).

-doc "The loop that a job or a code runs, as source text.".
-spec source(job() | dyno_bench_code:code()) ->
    {ok, unicode:chardata()} | {error, dyno_error:error()}.
source(#{pid := _, counters := _} = Job) ->
    call(Job, source);
source(Code) ->
    maybe
        {ok, Parsed} ?= dyno_bench_code:read(Code),
        {ok, dyno_bench_code:source(Parsed)}
    end.

-doc """
Sets the priority of the process that starts and stops a job's workers; gives the one before. `high`
lets it have its turn where there are far more workers than schedulers.
""".
-spec set_priority(job(), low | normal | high) ->
    {ok, low | normal | high} | {error, dyno_error:error()}.
set_priority(Job, Level) when Level =:= low; Level =:= normal; Level =:= high ->
    call(Job, {set_priority, Level}).

-doc "What each worker had done at the end of its last batch, and when that was.".
-spec rows(job()) -> {ok, [dyno_bench_job_counters:row()]} | {error, dyno_error:error()}.
rows(#{counters := Counters} = Job) ->
    maybe
        {ok, Count} ?= concurrency(Job),
        {ok, dyno_bench_job_counters:rows(Counters, Count)}
    end.

-doc "What is known of a job's code.".
-spec description(job()) -> description().
description(#{description := Description}) ->
    Description.

%% It waits no longer than the job does, which gives up at its time.
call(#{pid := Pid}, Request) ->
    try
        gen_server:call(Pid, Request, infinity)
    catch
        exit:{{shutdown, Error}, _} when is_tuple(Error) -> {error, Error};
        exit:_ -> {error, {?MODULE, ended}}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error(ended) ->
    "the job has ended; start another one".

%% The job's process: it runs init and done, so that tables that init makes are its own.

%% Not {stop, ...}, which would take a linked caller along.
-spec init(arguments()) -> {ok, state()} | {error, {shutdown, dyno_error:error()}}.
init(#{parsed := Parsed, counters := Counters, owner := Owner} = Options) ->
    _ = process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    maybe
        {ok, Module} ?= dyno_bench_slots:acquire_job(),
        How = maps:with([compiler, timeout_ms], Options),
        {ok, #{constants := Constants, label := Label} = Compiled} ?=
            in_code(dyno_bench_code:load_parsed(Module, Parsed, How), Options),
        {ok, Init} ?= attempt({Label, init}, fun() -> Module:init(Constants) end),
        Code = (maps:with([module, constants, places, label], Compiled))#{
            heap => map_get(heap, Options), init => Init, counters => Counters
        },
        State = #{
            code => Code,
            description => maps:with([label, form, constant, warnings], Compiled),
            owner => erlang:monitor(process, Owner),
            ref => make_ref(),
            timeout_ms => map_get(timeout_ms, Options),
            workers => [],
            parsed => Parsed,
            looked_ms => erlang:monotonic_time(millisecond),
            measuring => none
        },
        _ = erlang:send_after(?LOOK_MS, self(), look),
        add_workers(State, Options)
    else
        {error, Reason} -> {error, {shutdown, Reason}}
    end.

attempt({Label, Stage}, Fun) ->
    try
        {ok, Fun()}
    catch
        Class:Reason:Stack ->
            {error, dyno_bench_failure:error(Label, Stage, {raised, Class, Reason, Stack})}
    end.

add_workers(#{code := #{counters := Counters}} = State, Options) ->
    #{concurrency := Count, state := Initial} = Options,
    _ = [dyno_bench_job_counters:open(Counters) || Initial =:= running],
    case resized(Count, State) of
        {ok, NewState} ->
            {ok, NewState};
        {error, Reason} ->
            terminate(Reason, State),
            {error, {shutdown, Reason}}
    end.

-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, term(), state()} | {noreply, state()} | {
        stop, {shutdown, dyno_error:error()}, {error, dyno_error:error()}, state()
    }.
handle_call(concurrency, _From, #{workers := Workers} = State) ->
    {reply, {ok, length(Workers)}, State};
handle_call(source, _From, #{parsed := Parsed} = State) ->
    {reply, {ok, dyno_bench_code:source(Parsed)}, State};
handle_call({set_priority, Level}, _From, State) ->
    {reply, {ok, process_flag(priority, Level)}, State};
handle_call({What, Iterations}, From, #{measuring := none, code := Code} = State) when
    What =:= measure; What =:= reductions
->
    Job = self(),
    Measure = fun() -> Job ! {measured, self(), alone(What, Code, Iterations)} end,
    Pid = spawn_opt(Measure, [link | [{min_heap_size, ?UNCOLLECTED_WORDS} || What =:= reductions]]),
    {noreply, State#{measuring := {Pid, From}}};
handle_call({What, _Iterations}, _From, State) when What =:= measure; What =:= reductions ->
    {reply, {error, busy}, State};
handle_call(description, _From, #{description := Description} = State) ->
    {reply, {ok, Description}, State};
handle_call({set_concurrency, Count}, _From, State) ->
    answer(resized(Count, State), State);
handle_call(pause, _From, #{code := #{counters := Counters}, workers := Workers} = State) ->
    case dyno_bench_job_counters:is_open(Counters) of
        true ->
            dyno_bench_job_counters:close(Counters),
            answer(collected(Workers, paused, State), State);
        false ->
            {reply, ok, State}
    end;
handle_call(resume, _From, #{code := #{counters := Counters}, workers := Workers} = State) ->
    case dyno_bench_job_counters:is_open(Counters) of
        true ->
            {reply, ok, State};
        false ->
            dyno_bench_job_counters:open(Counters),
            answer(begun(Workers, State), State)
    end.

answer({ok, State}, _Old) -> {reply, ok, State};
answer({error, Reason}, Old) -> {stop, {shutdown, Reason}, {error, Reason}, Old}.

-spec handle_cast(stop, state()) -> {stop, normal, state()}.
handle_cast(stop, State) ->
    {stop, normal, State}.

alone(What, #{module := Module, constants := Constants, init := Init, label := Label}, N) ->
    maybe
        {ok, Start} ?=
            attempt({Label, init_runner}, fun() -> Module:init_runner(Constants, Init) end),
        Iterate = fun(Count) -> Module:loop(Count, Constants, Start) end,
        attempt({Label, run}, fun() -> taken(What, N, Iterate) end)
    end.

taken(measure, N, Iterate) ->
    BeginNs = erlang:monotonic_time(nanosecond),
    _ = Iterate(N),
    erlang:monotonic_time(nanosecond) - BeginNs;
taken(reductions, N, Iterate) ->
    Around = counted(0, Iterate),
    %% The loop takes one an iteration.
    (counted(N, Iterate) - Around - N) / N.

counted(N, Iterate) ->
    {reductions, Before} = process_info(self(), reductions),
    _ = Iterate(N),
    {reductions, After} = process_info(self(), reductions),
    After - Before.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({'DOWN', Owner, process, _, _}, #{owner := Owner} = State) ->
    {stop, {shutdown, owner_ended}, State};
handle_info({'EXIT', Pid, Reason}, #{measuring := {Pid, From}} = State) ->
    gen_server:reply(From, {error, failure(Reason, State)}),
    {noreply, State#{measuring := none}};
handle_info({measured, Pid, Measured}, #{measuring := {Pid, From}} = State) ->
    gen_server:reply(From, Measured),
    {noreply, State#{measuring := none}};
handle_info({'EXIT', Pid, Reason}, #{workers := Workers} = State) ->
    case lists:member(Pid, Workers) of
        true -> {stop, {shutdown, failure(Reason, State)}, State};
        false -> {noreply, State}
    end;
handle_info(look, State) ->
    NowMs = erlang:monotonic_time(millisecond),
    _ = erlang:send_after(?LOOK_MS, self(), look),
    case begun_anew(stuck(NowMs, State), State#{looked_ms := NowMs}) of
        {ok, NewState} -> {noreply, NewState};
        {error, Reason} -> {stop, {shutdown, Reason}, State}
    end;
%% What the code under test sends to the process that ran its init.
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{workers := Workers, code := Code, measuring := Measuring}) ->
    killed(Workers ++ [Pid || {Pid, _} <- [Measuring]]),
    #{module := Module, constants := Constants, init := Init} = Code,
    %% What a tear-down does is the code's affair.
    _ = dyno_sandbox:attempt(fun() -> Module:done(Constants, Init) end),
    ok.

%% Workers

%% Those whose batch has many iterations and does not end, with their rows. Where it is looked too
%% late, all have stood still.
stuck(NowMs, #{looked_ms := LookedMs}) when NowMs - LookedMs > 2 * ?LOOK_MS ->
    [];
stuck(NowMs, #{workers := Workers, code := #{counters := Counters}}) ->
    Count = length(Workers),
    PerScheduler = Count div erlang:system_info(schedulers_online),
    LatestNs = (NowMs - max(?BATCH_MS, ?TURN_MS * PerScheduler)) * 1_000_000,
    Rows = dyno_bench_job_counters:rows(Counters, Count),
    [
        {Row, Pid}
     || dyno_bench_job_counters:is_open(Counters),
        {Row, #{time_ns := Ns, batch := N}, Pid} <-
            lists:zip3(lists:seq(1, Count), Rows, lists:reverse(Workers)),
        N > 1,
        Ns < LatestNs
    ].

begun_anew([], State) ->
    {ok, State};
begun_anew(Stuck, #{workers := Workers, code := Code, ref := Ref} = State) ->
    killed([Pid || {_, Pid} <- Stuck]),
    New = #{Pid => dyno_bench_job_worker:start_link(Code, Row, Ref) || {Row, Pid} <- Stuck},
    NewState = State#{workers := [maps:get(Pid, New, Pid) || Pid <- Workers]},
    maybe
        {ok, _} ?= collected(maps:values(New), ready, NewState),
        begun(maps:values(New), NewState)
    end.

resized(Count, #{workers := Workers, code := Code} = State) when Count =< length(Workers) ->
    {Surplus, Rest} = lists:split(length(Workers) - Count, Workers),
    killed(Surplus),
    dyno_bench_job_counters:use(map_get(counters, Code), Count),
    {ok, State#{workers := Rest}};
resized(Count, #{workers := Workers, code := #{counters := Counters} = Code, ref := Ref} = State) ->
    dyno_bench_job_counters:use(Counters, Count),
    Added = [
        dyno_bench_job_worker:start_link(Code, Row, Ref)
     || Row <- lists:seq(length(Workers) + 1, Count)
    ],
    NewState = State#{workers := lists:reverse(Added, Workers)},
    maybe
        {ok, _} ?= collected(Added, ready, NewState),
        true ?= dyno_bench_job_counters:is_open(Counters),
        begun(Added, NewState)
    else
        false ->
            {ok, NewState};
        {error, _} = Error ->
            killed(Added),
            Error
    end.

begun(Workers, #{ref := Ref} = State) ->
    lists:foreach(fun(Pid) -> dyno_bench_job_worker:go(Pid, Ref) end, Workers),
    collected(Workers, started, State).

collected(Workers, What, #{timeout_ms := TimeoutMs} = State) ->
    EndMs = erlang:monotonic_time(millisecond) + TimeoutMs,
    collected(maps:from_keys(Workers, What), What, EndMs, State).

%% In whatever order they come: to look for each of thousands in turn takes longer than they do.
collected(Missing, _What, _EndMs, State) when map_size(Missing) =:= 0 ->
    {ok, State};
collected(Missing, What, EndMs, #{ref := Ref, code := Code, timeout_ms := TimeoutMs} = State) ->
    Left = max(0, EndMs - erlang:monotonic_time(millisecond)),
    receive
        {Ref, Pid, What} when is_map_key(Pid, Missing) ->
            collected(maps:remove(Pid, Missing), What, EndMs, State);
        {'EXIT', Pid, Reason} when is_map_key(Pid, Missing) ->
            {error, failure(Reason, State)}
    after Left ->
        #{workers := Workers} = State,
        Failure = {late, map_size(Missing), length(Workers), TimeoutMs},
        {error, dyno_bench_failure:error(map_get(label, Code), stage(What), Failure)}
    end.

stage(ready) -> init_runner;
stage(_) -> run.

failure({shutdown, {dyno_bench_failure, _} = Error}, _State) ->
    Error;
failure(Reason, #{code := #{label := Label}}) ->
    dyno_bench_failure:error(Label, run, {died, Reason}).

killed(Workers) ->
    Monitors = #{erlang:monitor(process, Pid) => Pid || Pid <- Workers},
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, Workers),
    ended(Monitors).

ended(Monitors) when map_size(Monitors) =:= 0 ->
    ok;
ended(Monitors) ->
    receive
        {'DOWN', Monitor, process, _, _} when is_map_key(Monitor, Monitors) ->
            ended(maps:remove(Monitor, Monitors))
    end.
