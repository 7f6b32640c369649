%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_sampling).
-moduledoc false.
%% The continuous mode: samples of a given time, each with its own duration. Every code has its
%% job; all are paused but the one that is sampled, so that codes never disturb each other. The
%% first samples may be thrown away, and sampling may go on until the last ones agree.

-export([run/3]).
-export_type([settings/0]).

-type settings() :: #{
    sample_ms := pos_integer(),
    samples := pos_integer(),
    warmup := non_neg_integer(),
    %% Goes on until the standard deviation of the last samples, by their mean, is below.
    cv => float()
}.

-type arm() :: #{
    job := dyno_bench_sample:watched(),
    description := dyno_bench_job:description()
}.

-type round() :: #{pos_integer() => dyno_bench_sample:sample()}.

%% A machine can be too noisy for any --cv.
-define(MOST, 10).
-define(LOOP_MS, 50).

-doc "Samples codes; a sample of each is a round of the result.".
-spec run([dyno_bench_code:code(), ...], settings(), dyno_bench_engine:options()) ->
    {ok, dyno_bench_engine:result()} | {error, dyno_bench_engine:reason()}.
run(Codes, Settings, Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    try
        LoopNs = loop_ns(Options),
        Arms = started(Codes, Options),
        try
            Result = sampled(Arms, Settings, Options),
            DurationMs = erlang:monotonic_time(millisecond) - StartMs,
            {ok, Result#{loop_ns => LoopNs, duration_ms => DurationMs}}
        after
            maps:foreach(fun(_, Arm) -> stop(Arm) end, Arms)
        end
    catch
        throw:{?MODULE, Reason} -> {error, Reason}
    end.

-spec ok({ok, Value} | {error, term()}) -> Value.
ok({ok, Value}) -> Value;
ok({error, Reason}) -> throw({?MODULE, Reason}).

%% The empty loop, an iteration of one worker.
-spec loop_ns(dyno_bench_engine:options()) -> float().
loop_ns(Options) ->
    Arm = ok(start("ok.", 1, Options#{concurrency := 1})),
    try
        time_ns(measured(Arm, ?LOOP_MS, Options), 1)
    after
        stop(Arm)
    end.

-spec started([dyno_bench_code:code()], dyno_bench_engine:options()) ->
    #{pos_integer() => arm()}.
started(Codes, Options) ->
    lists:foldl(
        fun({Number, Code}, Arms) ->
            case start(Code, Number, Options) of
                {ok, Arm} ->
                    Arms#{Number => Arm};
                {error, Reason} ->
                    maps:foreach(fun(_, Arm) -> stop(Arm) end, Arms),
                    throw({?MODULE, Reason})
            end
        end,
        #{},
        lists:enumerate(Codes)
    ).

-spec start(dyno_bench_code:code(), pos_integer(), dyno_bench_engine:options()) ->
    {ok, arm()} | {error, term()}.
start(Code, Number, #{concurrency := Concurrency, timeout_ms := TimeoutMs} = Options) ->
    Started = dyno_bench_job:start((maps:with([compiler], Options))#{
        code => Code,
        concurrency => Concurrency,
        max_concurrency => max(1, Concurrency),
        state => paused,
        timeout_ms => TimeoutMs
    }),
    case Started of
        {ok, Job} ->
            {ok, #{
                job => {Job, dyno_bench_job:monitor(Job)},
                description => dyno_bench_job:description(Job)
            }};
        {error, Reason} ->
            {error, of_code(Number, Reason)}
    end.

%% What a job says of its only code, said of one of several.
-spec of_code(pos_integer(), dyno_bench_job:reason()) -> term().
of_code(_Number, {failed, _, _, _} = Reason) -> Reason;
of_code(_Number, {endless, _, _} = Reason) -> Reason;
of_code(_Number, {unknown, _, _} = Reason) -> Reason;
of_code(_Number, {too_many_jobs, _} = Reason) -> Reason;
of_code(Number, Reason) -> {code, Number, Reason}.

-spec stop(arm()) -> ok.
stop(#{job := {Job, Monitor}}) ->
    true = demonitor(Monitor, [flush]),
    dyno_bench_job:stop(Job).

-spec measured(arm(), pos_integer(), dyno_bench_engine:options()) -> dyno_bench_sample:sample().
measured(#{job := {Job, _} = Watched, description := #{label := Label}}, Ms, Options) ->
    #{timeout_ms := TimeoutMs} = Options,
    %% Does nothing where it runs already.
    done(dyno_bench_sample:explained(dyno_bench_job:resume(Job), Watched)),
    ok(dyno_bench_sample:measure(Watched, Ms, {Label, TimeoutMs})).

-spec done(ok | {error, term()}) -> ok.
done(ok) -> ok;
done({error, Reason}) -> throw({?MODULE, Reason}).

-spec sampled(#{pos_integer() => arm()}, settings(), dyno_bench_engine:options()) -> map().
sampled(Arms, #{warmup := Warmup, samples := Count} = Settings, Options) ->
    Planner = planner(Arms, Options),
    {_, Warm} = rounds(Warmup, Planner, Arms, Settings, Options),
    {First, Next} = rounds(Count, Warm, Arms, Settings, Options),
    {Rounds, Agreed} = agreed(First, Next, Arms, Settings, Options),
    result(Rounds, Agreed, Arms, Options).

-spec planner(#{pos_integer() => arm()}, dyno_bench_engine:options()) -> dyno_bench_rounds:t().
planner(Arms, Options) ->
    dyno_bench_rounds:new((maps:with([threshold, level, seed], Options))#{arms => map_size(Arms)}).

-spec rounds(
    non_neg_integer(), dyno_bench_rounds:t(), #{pos_integer() => arm()}, settings(),
    dyno_bench_engine:options()
) -> {[round()], dyno_bench_rounds:t()}.
rounds(Count, Planner, Arms, #{sample_ms := Ms}, Options) ->
    lists:mapfoldl(
        fun(_, Before) ->
            {Order, After} = dyno_bench_rounds:order(Before),
            {#{N => alone(map_get(N, Arms), map_size(Arms), Ms, Options) || N <- Order}, After}
        end,
        Planner,
        lists:seq(1, Count)
    ).

%% One code alone runs on from sample to sample.
-spec alone(arm(), pos_integer(), pos_integer(), dyno_bench_engine:options()) ->
    dyno_bench_sample:sample().
alone(Arm, 1, Ms, Options) ->
    measured(Arm, Ms, Options);
alone(#{job := {Job, _} = Watched} = Arm, _Several, Ms, Options) ->
    Sample = measured(Arm, Ms, Options),
    done(dyno_bench_sample:explained(dyno_bench_job:pause(Job), Watched)),
    Sample.

%% Each new sample takes the place of the oldest until all codes' samples agree.
-spec agreed(
    [round()], dyno_bench_rounds:t(), #{pos_integer() => arm()}, settings(),
    dyno_bench_engine:options()
) -> {[round()], boolean()}.
agreed(Rounds, Planner, Arms, #{cv := _, samples := Count} = Settings, Options) ->
    agreed(?MOST * Count, Rounds, Planner, Arms, Settings, Options);
agreed(Rounds, _Planner, _Arms, _Settings, _Options) ->
    {Rounds, true}.

-spec agreed(
    non_neg_integer(), [round()], dyno_bench_rounds:t(), #{pos_integer() => arm()}, settings(),
    dyno_bench_engine:options()
) -> {[round()], boolean()}.
agreed(Left, Rounds, Planner, Arms, #{cv := Cv} = Settings, Options) ->
    Highest = lists:max([
        variation([map_get(per_second, map_get(N, Round)) || Round <- Rounds])
     || N <- maps:keys(Arms)
    ]),
    case Highest < Cv of
        true ->
            {Rounds, true};
        false when Left =:= 0 ->
            {Rounds, false};
        false ->
            {New, Next} = rounds(1, Planner, Arms, Settings, Options),
            agreed(Left - 1, tl(Rounds) ++ New, Next, Arms, Settings, Options)
    end.

%% The coefficient of variation.
-spec variation([float(), ...]) -> float().
variation(Values) ->
    Mean = dyno_stats:mean(Values),
    Squares = lists:sum([(Value - Mean) * (Value - Mean) || Value <- Values]),
    math:sqrt(Squares / (length(Values) - 1)) / Mean.

-spec result([round()], boolean(), #{pos_integer() => arm()}, dyno_bench_engine:options()) ->
    map().
result(Rounds, Agreed, Arms, #{concurrency := Concurrency} = Options) ->
    Times = [#{N => time_ns(Sample, Concurrency) || N := Sample <- Round} || Round <- Rounds],
    Compared = lists:foldl(fun dyno_bench_rounds:add/2, planner(Arms, Options), Times),
    %% Nobody looks before the last sample.
    Pairs = dyno_bench_rounds:fixed_pairs(Compared),
    #{
        arms => [
            figures(Arm, [map_get(N, Round) || Round <- Rounds], [map_get(N, T) || T <- Times])
         || {N, Arm} <- lists:sort(maps:to_list(Arms))
        ],
        pairs => Pairs,
        fixed => true,
        rounds => length(Rounds),
        decided => lists:all(fun(#{verdict := V}) -> V =/= undecided end, Pairs),
        agreed => Agreed
    }.

%% A call's time, as one of the workers sees it.
-spec time_ns(dyno_bench_sample:sample(), pos_integer()) -> float().
time_ns(#{per_second := PerSecond}, Concurrency) ->
    Concurrency * 1.0e9 / PerSecond.

-spec figures(arm(), [dyno_bench_sample:sample(), ...], [float(), ...]) -> map().
figures(#{description := Description}, Samples, Times) ->
    Sum = fun(Key) -> lists:sum([map_get(Key, Sample) || Sample <- Samples]) end,
    Total = Sum(iterations),
    Description#{
        iterations => round(Total / length(Samples)),
        times_ns => Times,
        durations_ns => [Ns || #{duration_ns := Ns} <- Samples],
        reductions => Sum(reductions) / Total,
        garbage_collections => Sum(collections) / Total,
        %% The workers do not read the clocks that would tell.
        waiting => undefined
    }.
