%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_concurrency).
-moduledoc false.
%% Measures a code at one concurrency after the other, as dyno_bench_concurrency_search says: one
%% job, whose workers are added and taken away while it runs.

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
    status := complete | interrupted,
    candidates := [dyno_bench_job:description()],
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
    {ok, result()} | {error, dyno_error:error()}.
run(Code, Settings, Options) ->
    dyno_bench_sample:promptly(fun() -> run_promptly(Code, Settings, Options) end).

run_promptly(Code, #{min := Min, max := Max} = Settings, Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    Own = Options#{concurrency := Min, max_concurrency => Max},
    case dyno_bench_sample:start(Code, 1, Own) of
        {ok, Monitored} ->
            try
                searched(Monitored, Settings, Options, StartMs)
            after
                dyno_bench_sample:stop(Monitored)
            end;
        {error, _} = Error ->
            Error
    end.

searched({Job, _} = Monitored, Settings, #{timeout_ms := TimeoutMs, level := Level}, StartMs) ->
    #{min := Min, max := Max, samples := Samples, warmup := Warmup, sample_ms := Ms} = Settings,
    #{label := Label} = Description = dyno_bench_job:description(Job),
    Measure = fun(Concurrency) ->
        maybe
            ok ?= dyno_bench_sample:explained(
                dyno_bench_job:set_concurrency(Job, Concurrency), Monitored
            ),
            dyno_bench_sample:measure(Monitored, Ms, {Label, TimeoutMs})
        end
    end,
    Search = dyno_bench_concurrency_search:new(
        (maps:with([min, max, step, threshold], Settings))#{
            samples => max(?MIN_SAMPLES, Samples), level => Level
        }
    ),
    maybe
        ok ?= dyno_bench_sample:resume(Monitored),
        {ok, _} ?= round(lists:duplicate(Warmup, Min), Measure, #{}),
        {ok, {Done, Status}, Ends} ?= search_rounds(Search, Measure, #{}),
        {ok, #{
            status => Status,
            candidates => [Description],
            outcome => dyno_bench_concurrency_search:outcome(Done),
            ends_ms => #{C => [EndMs - StartMs || EndMs <- lists:reverse(Of)] || C := Of <- Ends},
            max => Max,
            duration_ms => erlang:monotonic_time(millisecond) - StartMs
        }}
    end.

search_rounds(Search, Measure, Ends) ->
    case dyno_bench_concurrency_search:next(Search) of
        done ->
            {ok, {Search, complete}, Ends};
        {round, Concurrencies} ->
            case round(Concurrencies, Measure, #{}) of
                {ok, Round} ->
                    Values = #{C => PerSecond || C := {PerSecond, _} <- Round},
                    Now = #{C => [Ms | maps:get(C, Ends, [])] || C := {_, Ms} <- Round},
                    Next = dyno_bench_concurrency_search:add(Values, Search),
                    search_rounds(Next, Measure, maps:merge(Ends, Now));
                {error, {dyno_error, interrupted}} when Ends =/= #{} ->
                    {ok, {Search, interrupted}, Ends};
                {error, _} = Error ->
                    Error
            end
    end.

round([], _Measure, Round) ->
    {ok, Round};
round([Concurrency | Rest], Measure, Round) ->
    maybe
        {ok, #{per_second := PerSecond}} ?= Measure(Concurrency),
        EndMs = erlang:monotonic_time(millisecond),
        round(Rest, Measure, Round#{Concurrency => {PerSecond, EndMs}})
    end.
