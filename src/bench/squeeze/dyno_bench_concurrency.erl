%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_concurrency).
-moduledoc false.
%% Measures a code at one concurrency after the other, as dyno_bench_concurrency_search says: one
%% job, whose workers are added and taken away while it runs.

-export([run/3]).
-export_type([result/0]).

-type result() :: #{
    status := complete | interrupted,
    candidates := [dyno_bench_job:description()],
    outcome := dyno_bench_concurrency_search:outcome(),
    %% When each sample ended, since the start.
    ends_ms := #{pos_integer() => [non_neg_integer()]},
    duration_ms := non_neg_integer()
}.

%% Fewer give no interval for the median at the level of a look.
-define(MIN_SAMPLES, 7).

-doc "Searches; see dyno_bench_concurrency_search.".
-spec run(dyno_bench_code:code(), dyno_bench_mode:settings(), dyno_bench_engine:options()) ->
    {ok, result()} | {error, dyno_error:error()}.
run(Code, #{min := Min, max := Max} = Settings, Options) ->
    dyno_bench_sample:promptly(fun() ->
        StartMs = erlang:monotonic_time(millisecond),
        Own = Options#{concurrency := Min, max_concurrency => Max},
        Monitored = dyno_bench_sample:start(Code, 1, Own),
        try
            searched(Monitored, Settings, Options, StartMs)
        after
            dyno_bench_sample:stop(Monitored)
        end
    end).

searched({Job, _} = Monitored, Settings, #{timeout_ms := TimeoutMs, level := Level}, StartMs) ->
    #{min := Min, samples := Samples, warmup := Warmup, sample_ms := Ms} = Settings,
    Now = fun() -> erlang:monotonic_time(millisecond) - StartMs end,
    Measure = fun(Concurrency) ->
        Set = fun(Of) -> dyno_bench_job:set_concurrency(Of, Concurrency) end,
        ok = dyno_bench_sample:call(Set, Monitored),
        #{per_second := PerSecond} = dyno_bench_sample:measure(Monitored, Ms, TimeoutMs),
        {PerSecond, Now()}
    end,
    Search = dyno_bench_concurrency_search:new(
        (maps:with([min, max, step, threshold], Settings))#{
            samples => max(?MIN_SAMPLES, Samples), level => Level
        }
    ),
    ok = dyno_bench_sample:call(fun dyno_bench_job:resume/1, Monitored),
    _ = [Measure(Min) || _ <- lists:seq(1, Warmup)],
    {Done, Status, EndsMs} = rounds(Search, Measure, #{}),
    #{
        status => Status,
        candidates => [dyno_bench_job:description(Job)],
        outcome => dyno_bench_concurrency_search:outcome(Done),
        ends_ms => EndsMs,
        duration_ms => Now()
    }.

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
                throw:{dyno_error, {dyno_error, interrupted}} when EndsMs =/= #{} ->
                    {Search, interrupted, EndsMs}
            end
    end.
