%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_concurrency).
-moduledoc false.
%% Measures a code at one concurrency after the other, as dyno_bench_concurrency_search decides.

-export([run/3]).
-export_type([result/0]).

-type result() :: #{
    status := complete | interrupted,
    candidates := [dyno_bench_prepared:description()],
    outcome := dyno_bench_concurrency_search:outcome(),
    %% Ends of the samples, since the start.
    ends_ms := #{pos_integer() => [non_neg_integer()]},
    duration_ms := non_neg_integer()
}.

%% Fewer give no interval for the median at the level of a look.
-define(MIN_SAMPLES, 7).

-spec run(dyno_bench_code:code(), dyno_bench_mode:settings(), dyno_bench_engine:options()) ->
    dyno_error:result(result()).
run(Code, #{min := Min} = Settings, Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    dyno_bench_prepared:with([Code], Options#{concurrency := Min}, fun(Prepared) ->
        searched(Prepared, Settings, Options, StartMs)
    end).

searched(Prepared, Settings, #{level := Level}, StartMs) ->
    #{min := Min, samples := Samples, warmup := Warmup, sample_ms := Ms} = Settings,
    Now = fun() -> erlang:monotonic_time(millisecond) - StartMs end,
    Measure = fun(Concurrency) ->
        PerSecond = dyno_bench_prepared:with_workers(Concurrency, Prepared, fun(Workers) ->
            per_second(dyno_bench_prepared:epochs(1, {ms, Ms}, Workers))
        end),
        {PerSecond, Now()}
    end,
    Search = dyno_bench_concurrency_search:new(
        (maps:with([min, max, step, threshold], Settings))#{
            samples => max(?MIN_SAMPLES, Samples), level => Level
        }
    ),
    _ = [Measure(Min) || _ <- lists:seq(1, Warmup)],
    {Done, Status, EndsMs} = rounds(Search, Measure, #{}),
    #{
        status => Status,
        candidates => [dyno_bench_prepared:description(1, Prepared)],
        outcome => dyno_bench_concurrency_search:outcome(Done),
        ends_ms => EndsMs,
        duration_ms => Now()
    }.

%% Throughput of all workers, from the first begin to the last end, including the time of other
%% programs: that is unknown for workers that share a scheduler, and these are compared with workers
%% that do not.
per_second(Epochs) ->
    BeginNs = lists:min([End - Wall || #{end_ns := End, wall_ns := Wall} <- Epochs]),
    EndNs = lists:max([End || #{end_ns := End} <- Epochs]),
    lists:sum([N || #{iterations := N} <- Epochs]) * 1.0e9 / max(1, EndNs - BeginNs).

rounds(Search, Measure, EndsMs) ->
    case dyno_bench_concurrency_search:next(Search) of
        done ->
            {Search, complete, EndsMs};
        {round, Concurrencies} ->
            try #{C => Measure(C) || C <- Concurrencies} of
                Round ->
                    Values = #{C => PerSecond || C := {PerSecond, _} <- Round},
                    Ends = #{C => maps:get(C, EndsMs, []) ++ [Ms] || C := {_, Ms} <- Round},
                    Next = dyno_bench_concurrency_search:add(Values, Search),
                    rounds(Next, Measure, maps:merge(EndsMs, Ends))
            catch
                throw:{_Module, {dyno_error, interrupted}} when EndsMs =/= #{} ->
                    {Search, interrupted, EndsMs}
            end
    end.
