%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_sampling).
-moduledoc false.
%% The continuous mode: samples of a given time, each with its own duration. Every code has its
%% job; all are paused but the one that is sampled, so that codes never disturb each other. The
%% first samples may be thrown away, and sampling may go on until the last ones agree.

-export([run/3]).

%% Where thousands of workers share the schedulers a sample takes as long as each of them needs to
%% have its turn: no more samples are taken when so many times the time for all is over.
-define(OVER, 2).
%% A machine can be too noisy for any --cv.
-define(MOST, 10).
-define(LOOP_MS, 50).
%% Workers of a scheduler, for whom it takes long to end their batches.
-define(MANY, 20).
%% Calls whose reductions are counted alone, at most, and how long they may take.
-define(COUNTED, 100).
-define(COUNTED_NS, 20_000_000).

-doc "Samples codes; a sample of each is a round of the result.".
-spec run([dyno_bench_code:code(), ...], dyno_bench_mode:settings(), dyno_bench_engine:options()) ->
    {ok, dyno_bench_engine:result()} | {error, dyno_error:error()}.
run(Codes, Settings, Options) ->
    dyno_bench_sample:promptly(fun() ->
        StartMs = erlang:monotonic_time(millisecond),
        LoopNs = loop_ns(Options),
        Result = with_jobs(Codes, Options, fun(Jobs) -> sample(Jobs, Settings, Options) end),
        DurationMs = erlang:monotonic_time(millisecond) - StartMs,
        Result#{loop_ns => LoopNs, duration_ms => DurationMs}
    end).

%% The empty loop, an iteration of one worker.
loop_ns(Options) ->
    Alone = Options#{concurrency := 1},
    with_jobs(["ok."], Alone, fun([Job]) -> time_ns(measure(Job, ?LOOP_MS, Alone), Alone) end).

with_jobs(Codes, Options, Use) -> with_jobs(lists:enumerate(Codes), [], Options, Use).

with_jobs([], Jobs, _Options, Use) ->
    Use(lists:reverse(Jobs));
with_jobs([{Number, Code} | Rest], Jobs, Options, Use) ->
    Job = dyno_bench_sample:start(Code, Number, Options),
    try
        with_jobs(Rest, [Job | Jobs], Options, Use)
    after
        dyno_bench_sample:stop(Job)
    end.

measure(Job, Ms, #{timeout_ms := TimeoutMs}) ->
    ok = dyno_bench_sample:call(fun dyno_bench_job:resume/1, Job),
    dyno_bench_sample:measure(Job, Ms, TimeoutMs).

sample(Jobs, #{warmup := Warmup, samples := Count, sample_ms := Ms} = Settings, Options) ->
    Measure = fun(Number, _Round) ->
        Sample = measure_alone(lists:nth(Number, Jobs), Jobs, Ms, Options),
        {time_ns(Sample, Options), Sample}
    end,
    New = dyno_bench_rounds:new(length(Jobs), Options),
    {_, Warm} = dyno_bench_rounds:measure(Measure, {rounds, Warmup}, New),
    ok = dyno_bench_rounds:completed(Warm),
    OverMs = erlang:monotonic_time(millisecond) + ?OVER * Count * length(Jobs) * Ms,
    IsOver = fun(Done) ->
        Done > 0 andalso are_many(Options) andalso erlang:monotonic_time(millisecond) > OverMs
    end,
    {First, Next} = dyno_bench_rounds:measure(Measure, {rounds, Count, IsOver}, New),
    _ = [dyno_bench_rounds:completed(Next) || First =:= []],
    {Rounds, Agreed, Last} =
        case length(First) < Count of
            true -> {First, true, Next};
            false -> agreed(?MOST * Count, First, {Measure, Next}, Settings)
        end,
    ok = finished(Jobs, Options),
    (result(Rounds, Agreed, Jobs, Options))#{
        status => dyno_bench_rounds:status(Last),
        samples => #{asked => Count, sample_ms => Ms}
    }.

%% Before anything else: while thousands of workers go on, a module that is not loaded yet takes
%% seconds to come.
finished(Jobs, Options) ->
    Finish =
        case are_many(Options) of
            true -> fun dyno_bench_sample:stop/1;
            false -> fun pause/1
        end,
    lists:foreach(Finish, Jobs).

are_many(#{concurrency := Concurrency}) ->
    Concurrency > ?MANY * erlang:system_info(schedulers_online).

%% One code alone runs on from sample to sample.
measure_alone(Job, [_Only], Ms, Options) ->
    measure(Job, Ms, Options);
measure_alone(Job, _Jobs, Ms, Options) ->
    Sample = measure(Job, Ms, Options),
    ok = pause(Job),
    ok = renewed(Job, Options),
    Sample.

%% Where a worker's heap comes to lie makes it faster or slower for as long as it lives, by up to a
%% quarter where a call allocates a few words: identical codes would differ.
renewed(Job, #{concurrency := Concurrency} = Options) ->
    Counts = [0, Concurrency],
    _ = [
        dyno_bench_sample:call(fun(J) -> dyno_bench_job:set_concurrency(J, Count) end, Job)
     || not are_many(Options), Count <- Counts
    ],
    ok.

pause(Job) -> dyno_bench_sample:call(fun dyno_bench_job:pause/1, Job).

%% Each new sample takes the place of the oldest until all codes' samples agree.
agreed(Left, Rounds, {Measure, State}, #{cv := Cv} = Settings) ->
    case {is_below(Cv, Rounds), dyno_bench_rounds:status(State)} of
        {false, complete} when Left > 0 ->
            Count = length(dyno_bench_rounds:values(1, State)) + 1,
            case dyno_bench_rounds:measure(Measure, {rounds, Count}, State) of
                {[New], Next} -> agreed(Left - 1, tl(Rounds) ++ [New], {Measure, Next}, Settings);
                {[], Next} -> {Rounds, false, Next}
            end;
        {Agreed, _} ->
            {Rounds, Agreed, State}
    end;
agreed(_Left, Rounds, {_Measure, State}, _Settings) ->
    {Rounds, true, State}.

is_below(Cv, [First | _] = Rounds) ->
    Of = fun(N) -> variation([map_get(per_second, map_get(N, Round)) || Round <- Rounds]) end,
    lists:all(fun(N) -> Of(N) < Cv end, maps:keys(First)).

%% The coefficient of variation.
variation(Values) ->
    Mean = dyno_stats:mean(Values),
    Squares = lists:sum([(Value - Mean) * (Value - Mean) || Value <- Values]),
    math:sqrt(Squares / (length(Values) - 1)) / Mean.

result(Rounds, Agreed, Jobs, Options) ->
    Samples = [[map_get(N, Round) || Round <- Rounds] || N <- lists:seq(1, length(Jobs))],
    Times = [[time_ns(Sample, Options) || Sample <- Of] || Of <- Samples],
    #{
        candidates => [
            candidate(Job, Of, TimesNs, Options)
         || {Job, Of, TimesNs} <- lists:zip3(Jobs, Samples, Times)
        ],
        %% Nobody looks before the last sample.
        pairs => dyno_bench_comparison:pairs(Times, Options),
        heap => maps:get(heap, Options, runtime),
        concurrency => map_get(concurrency, Options),
        fixed => true,
        rounds => length(Rounds),
        agreed => Agreed
    }.

%% A call's time, as one of the workers sees it.
time_ns(#{per_second := PerSecond}, #{concurrency := Concurrency}) ->
    Concurrency * 1.0e9 / PerSecond.

candidate({Job, _}, Samples, Times, Options) ->
    Sum = fun(Key) -> lists:sum([map_get(Key, Sample) || Sample <- Samples]) end,
    Total = Sum(iterations),
    (dyno_bench_job:description(Job))#{
        iterations => round(Total / length(Samples)),
        times_ns => Times,
        durations_ns => [Ns || #{duration_ns := Ns} <- Samples],
        reductions =>
            case are_many(Options) of
                true -> Sum(reductions) / Total;
                false -> reductions(Job, dyno_stats:median(Times), Sum(reductions) / Total)
            end,
        garbage_collections => Sum(collections) / Total,
        %% The workers do not read the clocks that would tell.
        waiting => undefined
    }.

%% Those of the samples have collections' in them.
reductions(Job, TimeNs, Sampled) ->
    maybe
        Count = min(?COUNTED, trunc(?COUNTED_NS / TimeNs)),
        true ?= Count > 0,
        {ok, Reductions} ?= dyno_bench_job:reductions(Job, Count),
        Reductions
    else
        _ -> Sampled
    end.
