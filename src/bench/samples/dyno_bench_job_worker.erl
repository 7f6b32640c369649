%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_job_worker).
-moduledoc false.
%% A process that repeats a job's code until it is told to stop. It counts on the counters, once a
%% batch; a batch is as many iterations as take about a millisecond, so that counting costs a
%% thousandth. Between two batches it looks whether the counters is closed, and then waits. The
%% reductions of a batch are those of the calls: neither the loop's, one an iteration, nor those of
%% counting.
%%
%% Where workers share a scheduler a batch is shorter: thousands that each take a millisecond have
%% their turn for seconds, and for as long nobody could count or pause them. Counting then costs
%% some hundredths.

-export([start_link/3, go/2]).
-export_type([code/0]).

-type code() :: #{
    module := module(),
    constants := #{atom() => term()},
    places := pos_integer(),
    init := term(),
    heap := dyno_bench_worker:heap(),
    label := binary(),
    counters := dyno_bench_job_counters:t()
}.

-define(BATCH_NS, 1_000_000).
-define(LEAST_BATCH_NS, 100_000).
-define(MAX_BATCH, 1_000_000_000).

-doc """
Starts a worker for a row of the counters, linked. It sends `{Ref, Pid, ready}` when its
`init_runner` is done, waits for `go/2`, sends `{Ref, Pid, started}`, and `{Ref, Pid, paused}` when
it found the counters closed. Where the code fails it ends with the reason `{shutdown, Error}`.
""".
-spec start_link(code(), pos_integer(), reference()) -> pid().
start_link(#{heap := Heap} = Code, Row, Ref) ->
    Job = self(),
    Scheduler = (Row - 1) rem erlang:system_info(schedulers_online) + 1,
    Init = fun() -> init(Code, Row, Job, Ref) end,
    %% `scheduler` is an option that the documentation, and so dialyzer, does not know.
    apply(erlang, spawn_opt, [Init, [link, {scheduler, Scheduler} | heap(Heap)]]).

heap(default) -> [];
heap(Words) -> [{min_heap_size, Words}].

-doc "Has a worker that waits work.".
-spec go(pid(), reference()) -> ok.
go(Pid, Ref) ->
    Pid ! {Ref, go},
    ok.

init(#{module := Module, constants := Constants, init := Init} = Code, Row, Job, Ref) ->
    proc_lib:set_label(?MODULE),
    Start = attempt(fun() -> Module:init_runner(Constants, Init) end, Code, init_runner),
    State = #{code => Code, job => Job, ref => Ref, row => Row, start => Start, place => 1},
    ok = dyno_bench_job_counters:set_time(map_get(counters, Code), Row),
    %% No iteration.
    {_, Overhead} = counted(0, Start, 1, State),
    Job ! {Ref, self(), ready},
    wait(1, Start, State#{overhead => Overhead}).

wait(N, Last, #{code := #{counters := Counters}, row := Row, job := Job, ref := Ref} = State) ->
    receive
        {Ref, go} ->
            %% What it was given room for before is no part of what it does from now on.
            true = garbage_collect(),
            ok = dyno_bench_job_counters:set_time(Counters, Row),
            Job ! {Ref, self(), started},
            %% All begin before one of them works.
            true = erlang:yield(),
            Now = erlang:monotonic_time(nanosecond),
            work(N, Last, Now, State#{collections => dyno_bench_worker:collections()})
    end.

%% The last result goes on into the next batch: a state goes on for as long as its worker lives.
%% Each batch has the loop in another place.
work(N, Last, BeforeNs, #{code := Code, row := Row, place := Place} = State) ->
    #{counters := Counters, places := Places} = Code,
    #{overhead := Overhead} = State,
    ok = dyno_bench_job_counters:set_batch(Counters, Row, N),
    {Next, Reductions} = counted(N, Last, Place, State),
    Collections = dyno_bench_worker:collections(),
    AfterNs = dyno_bench_job_counters:add(Counters, Row, #{
        iterations => N,
        reductions => max(0, Reductions - Overhead - N),
        collections => dyno_bench_worker:grown(map_get(collections, State), Collections)
    }),
    NewState = State#{place := Place rem Places + 1, collections := Collections},
    case dyno_bench_job_counters:is_open(Counters) of
        true ->
            Sharing = dyno_bench_job_counters:sharing(Counters),
            work(batch(N, AfterNs - BeforeNs, Sharing), Next, AfterNs, NewState);
        false ->
            #{job := Job, ref := Ref} = State,
            Job ! {Ref, self(), paused},
            wait(N, Next, NewState)
    end.

%% Whether other workers had the scheduler meanwhile is not known. So a batch is too long only where
%% it is so with its share of the time, and too short where it is so with all of it.
batch(N, Ns, Sharing) ->
    WantedNs = max(?LEAST_BATCH_NS, ?BATCH_NS div Sharing),
    OwnNs = Ns div Sharing,
    if
        Ns < WantedNs div 2 -> min(?MAX_BATCH, min(N * WantedNs div max(1, Ns), N * 10));
        OwnNs > 2 * WantedNs -> max(1, N * WantedNs div OwnNs);
        true -> N
    end.

counted(N, Last, Place, #{code := Code, start := Start}) ->
    #{module := Module, constants := Constants} = Code,
    Resume = fun() -> Module:resume(N, Constants, Start, Last, Place) end,
    {reductions, Before} = process_info(self(), reductions),
    Next = attempt(Resume, Code, run),
    {reductions, After} = process_info(self(), reductions),
    {Next, After - Before}.

attempt(Fun, #{label := Label}, Stage) ->
    try
        Fun()
    catch
        Class:Reason:Stack ->
            Failure = {raised, Class, Reason, Stack},
            exit({shutdown, dyno_bench_failure:error(Label, Stage, Failure)})
    end.
