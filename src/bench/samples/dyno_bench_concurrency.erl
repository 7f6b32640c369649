%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_concurrency).
-moduledoc false.
%% Measures a code at one concurrency after the other, as dyno_bench_concurrency_search wants it: one job, whose
%% workers are added and taken away while it runs.

-export([run/3]).
-export_type([settings/0, result/0]).

-type settings() :: #{
    sample_ms := pos_integer(),
    samples := pos_integer(),
    warmup := non_neg_integer(),
    min := pos_integer(),
    max := pos_integer(),
    step := pos_integer(),
    threshold := pos_integer()
}.

-type result() :: #{
    arms := [dyno_bench_job:description()],
    outcome := dyno_bench_concurrency_search:outcome(),
    %% When each sample ended, since the start.
    ends_ms := #{pos_integer() => [non_neg_integer()]},
    max := pos_integer(),
    duration_ms := non_neg_integer()
}.

%% Fewer give no interval for the median at the level of a look.
-define(MIN_SAMPLES, 7).

-doc "Searches; see dyno_bench_concurrency_search.".
-spec run(dyno_bench_code:code(), settings(), dyno_bench_engine:options()) ->
    {ok, result()} | {error, dyno_bench_engine:reason()}.
run(Code, #{min := Min, max := Max} = Settings, #{timeout_ms := TimeoutMs} = Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    Started = dyno_bench_job:start((maps:with([compiler], Options))#{
        code => Code,
        concurrency => Min,
        max_concurrency => Max,
        state => paused,
        timeout_ms => TimeoutMs
    }),
    case Started of
        {ok, Job} ->
            Watched = {Job, dyno_bench_job:monitor(Job)},
            try
                searched(Watched, Settings, Options, StartMs)
            after
                ended(Watched)
            end;
        {error, {Tag, _, _, _}} = Error when Tag =:= failed ->
            Error;
        {error, {Tag, _, _}} = Error when Tag =:= endless; Tag =:= unknown ->
            Error;
        {error, {too_many_jobs, _}} = Error ->
            Error;
        {error, Reason} ->
            {error, {code, 1, Reason}}
    end.

-spec ended(dyno_bench_sample:watched()) -> ok.
ended({Job, Monitor}) ->
    true = demonitor(Monitor, [flush]),
    dyno_bench_job:stop(Job).

-spec searched(
    dyno_bench_sample:watched(), settings(), dyno_bench_engine:options(), integer()
) -> {ok, result()} | {error, dyno_bench_engine:reason()}.
searched({Job, _} = Watched, Settings, #{timeout_ms := TimeoutMs, level := Level}, StartMs) ->
    #{min := Min, max := Max, samples := Samples, warmup := Warmup, sample_ms := Ms} = Settings,
    #{label := Label} = Description = dyno_bench_job:description(Job),
    Measure = fun(Concurrency) ->
        maybe
            ok ?= dyno_bench_sample:explained(
                dyno_bench_job:set_concurrency(Job, Concurrency), Watched
            ),
            dyno_bench_sample:measure(Watched, Ms, {Label, TimeoutMs})
        end
    end,
    Climb = dyno_bench_concurrency_search:new(
        (maps:with([min, max, step, threshold], Settings))#{
            samples => max(?MIN_SAMPLES, Samples), level => Level
        }
    ),
    maybe
        ok ?= dyno_bench_sample:explained(dyno_bench_job:resume(Job), Watched),
        {ok, _} ?= round(lists:duplicate(Warmup, Min), Measure, #{}),
        {ok, Done, Ends} ?= climbed(Climb, Measure, #{}),
        {ok, #{
            arms => [Description],
            outcome => dyno_bench_concurrency_search:outcome(Done),
            ends_ms => #{C => [EndMs - StartMs || EndMs <- lists:reverse(Of)] || C := Of <- Ends},
            max => Max,
            duration_ms => erlang:monotonic_time(millisecond) - StartMs
        }}
    end.

-type measure() :: fun((pos_integer()) -> {ok, dyno_bench_sample:sample()} | {error, term()}).

%% Newest first.
-type ends() :: #{pos_integer() => [integer()]}.

-spec climbed(dyno_bench_concurrency_search:t(), measure(), ends()) ->
    {ok, dyno_bench_concurrency_search:t(), ends()} | {error, term()}.
climbed(Climb, Measure, Ends) ->
    case dyno_bench_concurrency_search:next(Climb) of
        done ->
            {ok, Climb, Ends};
        {round, Concurrencies} ->
            maybe
                {ok, Round} ?= round(Concurrencies, Measure, #{}),
                Values = #{C => PerSecond || C := {PerSecond, _} <- Round},
                Now = #{C => [Ms | maps:get(C, Ends, [])] || C := {_, Ms} <- Round},
                climbed(dyno_bench_concurrency_search:add(Values, Climb), Measure, maps:merge(Ends, Now))
            end
    end.

-type measured() :: #{pos_integer() => {PerSecond :: float(), EndMs :: integer()}}.

-spec round([pos_integer()], measure(), measured()) -> {ok, measured()} | {error, term()}.
round([], _Measure, Round) ->
    {ok, Round};
round([Concurrency | Rest], Measure, Round) ->
    maybe
        {ok, #{per_second := PerSecond}} ?= Measure(Concurrency),
        EndMs = erlang:monotonic_time(millisecond),
        round(Rest, Measure, Round#{Concurrency => {PerSecond, EndMs}})
    end.
