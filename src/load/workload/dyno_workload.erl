%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_workload).
-moduledoc """
Runs a synthetic system of a master and workers in this node, to test a machine, a release or an
instrumentation: response times, memory, use of the schedulers.

```erlang
{ok, Document} = dyno_workload:run(#{shape => burst, workers => 10_000, requests => 100}).
```
The same seed gives the same starts, numbers of requests and choices of the master. Runs repeat
until the coefficient of variation of the mean response time settles.
""".

-export([run/1, once/1, options/1, settled/1, draw/1]).
-export_type([options/0, result/0, sample/0]).

-type options() :: #{
    shape => steady | pulse | burst,
    workers => pos_integer(),
    %% Mean number for each worker.
    requests => pos_integer(),
    %% All workers start within this time.
    time_ms => pos_integer(),
    %% The standard deviation of `pulse`; the default is a quarter of the time.
    spread_ms => pos_integer(),
    %% How pinched `burst` is; the default is the whole time.
    pinch_ms => pos_integer(),
    %% The probabilities to continue sending, or taking answers.
    send => float(),
    recv => float(),
    seed => integer(),
    %% The largest number of repetitions.
    repetitions => pos_integer(),
    worker => module(),
    progress => fun((Text :: iodata()) -> ok)
}.

-type sample() :: #{
    at_ms := number(),
    alive := non_neg_integer(),
    requests := non_neg_integer(),
    memory := non_neg_integer(),
    utilisation := float(),
    %% Of the answers since the last sample.
    response_ns => float()
}.

-type result() :: #{
    status := complete | interrupted,
    started_at := binary(),
    duration_ns := pos_integer(),
    workers := non_neg_integer(),
    requests := non_neg_integer(),
    responses := dyno_histogram:snapshot(),
    memory := float(),
    memory_peak := non_neg_integer(),
    utilisation := float(),
    samples := [sample()]
}.

-define(INTERVAL_MS, 100).
%% The approximate number of requests with a measured response time.
-define(SAMPLED, 50_000).
%% It has settled if below the first, or if it changed by less than the second.
-define(SMALL, 0.05).
-define(CHANGE, 0.02).
-define(LEAST_REPETITIONS, 3).
%% BenchCRV's standard deviation of a worker's number of requests, relative to the mean.
-define(BATCH_DEVIATION, 0.02).

-doc "The options with defaults.".
-spec options(options()) -> options().
options(Options) ->
    Time = maps:get(time_ms, Options, 10_000),
    Defaults = #{
        shape => steady,
        workers => 1000,
        requests => 100,
        time_ms => Time,
        spread_ms => max(1, Time div 4),
        pinch_ms => Time,
        send => 0.9,
        recv => 0.9,
        seed => 1,
        repetitions => 1,
        worker => dyno_workload_worker,
        progress => fun(_) -> ok end
    },
    maps:merge(Defaults, Options).

-doc "Runs the system repeatedly and returns the recording.".
-spec run(options()) ->
    {ok, dyno_recording:document()} | {error, {dyno_option, dyno_option:reason()}}.
run(Given) ->
    Options = options(Given),
    maybe
        ok ?= dyno_option:known(maps:keys(options(#{})), Given),
        ok ?= dyno_option:check(checks(), Given),
        Environment = dyno_environment:collect(),
        Results = repeat(Options, []),
        {ok, dyno_workload_recording:document(Options, Environment, Results)}
    end.

checks() ->
    Count = fun(N) -> is_integer(N) andalso N > 0 end,
    Probability = fun(P) -> is_number(P) andalso P >= 0 andalso P =< 1 end,
    [
        {shape, fun(S) -> lists:member(S, [steady, pulse, burst]) end, ~"steady, pulse or burst"}
        | [
            {Key, Count, ~"a positive integer"}
         || Key <- [workers, requests, time_ms, spread_ms, pinch_ms, repetitions]
        ]
    ] ++ [{Key, Probability, ~"a number from 0 to 1"} || Key <- [send, recv]].

repeat(#{repetitions := Most, progress := Progress} = Options, Results) ->
    Progress(io_lib:format("repetition ~b", [length(Results) + 1])),
    #{status := Status} = Result = once(Options),
    All = Results ++ [Result],
    case Status =:= interrupted orelse length(All) >= Most orelse settled(All) of
        true -> All;
        false -> repeat(Options, All)
    end.

-doc "Whether repetitions add little: three or more, and the mean times' variation is small.".
-spec settled([result()]) -> boolean().
settled(Results) when length(Results) < ?LEAST_REPETITIONS ->
    false;
settled(Results) ->
    Means = [dyno_histogram:mean(Responses) || #{responses := Responses} <- Results],
    case lists:member(undefined, Means) of
        true ->
            true;
        false ->
            Now = dyno_stats:variation(Means),
            Now =< ?SMALL orelse abs(Now - dyno_stats:variation(lists:droplast(Means))) =< ?CHANGE
    end.

-doc "Runs the system once. Ends early when this process receives `dyno_interrupt`.".
-spec once(options()) -> result().
once(Given) ->
    #{workers := Workers, requests := Requests, worker := Worker} = Options = options(Given),
    ok = dyno_agent_vm:enable(),
    %% Otherwise the first workers call the code server, which is not part of the system.
    {module, Worker} = code:ensure_loaded(Worker),
    Counters = counters:new(2, [write_concurrency]),
    Responses = dyno_histogram:new(),
    Plan = draw(Options),
    StartedAt = dyno_environment:now_utc(),
    Start = erlang:monotonic_time(nanosecond),
    Master = dyno_workload_master:start_link(self(), #{
        plan => Plan,
        send => map_get(send, Options),
        recv => map_get(recv, Options),
        seed => map_get(seed, Options),
        worker => Worker,
        sampled => min(1.0, ?SAMPLED / (Workers * Requests)),
        responses => Responses,
        counters => Counters
    }),
    {Status, Samples} = sample(Master, #{
        start => Start,
        counters => Counters,
        responses => Responses,
        last => dyno_agent_vm:read(),
        seen => dyno_histogram:empty()
    }),
    Memories = [Memory || #{memory := Memory} <- Samples],
    #{
        status => Status,
        started_at => StartedAt,
        duration_ns => erlang:monotonic_time(nanosecond) - Start,
        workers => length(Plan),
        requests => counters:get(Counters, 2),
        responses => dyno_histogram:snapshot(Responses),
        memory => dyno_stats:mean(Memories),
        memory_peak => lists:max(Memories),
        utilisation => dyno_stats:mean([Busy || #{utilisation := Busy} <- Samples]),
        samples => Samples
    }.

sample(Master, State) ->
    receive
        {workload_done, Master} ->
            {Sample, _} = one(State),
            {complete, [Sample]};
        dyno_interrupt ->
            unlink(Master),
            exit(Master, kill),
            {Sample, _} = one(State),
            {interrupted, [Sample]}
    after ?INTERVAL_MS ->
        {Sample, Next} = one(State),
        {Status, Samples} = sample(Master, Next),
        {Status, [Sample | Samples]}
    end.

one(#{start := Start, counters := Counters, responses := Responses} = State) ->
    #{last := Last, seen := Seen} = State,
    Now = dyno_agent_vm:read(),
    Values = dyno_agent_vm:difference(Last, Now),
    Answered = dyno_histogram:snapshot(Responses),
    Response =
        case dyno_histogram:mean(dyno_histogram:subtract(Answered, Seen)) of
            undefined -> #{};
            Mean -> #{response_ns => Mean}
        end,
    {
        Response#{
            at_ms => (erlang:monotonic_time(nanosecond) - Start) / 1.0e6,
            alive => counters:get(Counters, 1),
            requests => counters:get(Counters, 2),
            memory => map_get(~"vm.memory.total", Values),
            utilisation => maps:get(~"vm.scheduler_utilisation.normal", Values, 0.0)
        },
        State#{last := Now, seen := Answered}
    }.

%% BenchCRV's models (Aceto, Attard, Francalanza, Ingolfsdottir: "On Benchmarking for Concurrent
%% Runtime Verification", FASE 2021), drawn from a seed; times outside the loading time again.
%%
%%   steady   a homogeneous Poisson process, given that all workers start within the time: uniform
%%   pulse    normal, the mean at half of the time, spread by `spread_ms`
%%   burst    log-normal, its mean at half of the time, pinched by `pinch_ms`
-doc "Each worker's start after the first possible start, in order, and its requests.".
-spec draw(options()) -> [{StartNs :: non_neg_integer(), Requests :: pos_integer()}].
draw(#{workers := Workers, requests := Requests, seed := Seed} = Options) ->
    One = time(Options),
    {Times, Random} = lists:mapfoldl(
        fun(_, State) -> One(State) end, rand:seed_s(exsss, Seed), lists:seq(1, Workers)
    ),
    {Drawn, _} = lists:mapfoldl(
        fun(TimeMs, State) ->
            {Normal, Next} = rand:normal_s(State),
            Batch = max(1, round(Requests * (1 + ?BATCH_DEVIATION * Normal))),
            {{round(TimeMs * 1.0e6), Batch}, Next}
        end,
        Random,
        lists:sort(Times)
    ),
    Drawn.

time(#{shape := steady, time_ms := Time}) ->
    fun(State) ->
        {Uniform, Next} = rand:uniform_s(State),
        {Uniform * Time, Next}
    end;
time(#{shape := pulse, time_ms := Time, spread_ms := Spread}) ->
    within(Time, fun(Normal) -> Time / 2 + Spread * Normal end);
time(#{shape := burst, time_ms := Time, pinch_ms := Pinch}) ->
    Mean = Time / 2,
    Mu = math:log(Mean * Mean / math:sqrt(Pinch * Pinch + Mean * Mean)),
    Sigma = math:sqrt(math:log(1 + Pinch * Pinch / (Mean * Mean))),
    within(Time, fun(Normal) -> math:exp(min(700.0, Mu + Sigma * Normal)) end).

within(Time, Of) ->
    fun(State) -> within(Time, Of, rand:normal_s(State)) end.

within(Time, Of, {Normal, State}) ->
    case Of(Normal) of
        Drawn when Drawn >= 0, Drawn =< Time -> {Drawn, State};
        _ -> within(Time, Of, rand:normal_s(State))
    end.
