%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_workload_recording).
-moduledoc false.
%% The recording of a synthetic system: a run for each repetition, and a table over all.

-export([document/3]).

-define(GROUP, ~"workload").

-spec document(dyno_workload:options(), term(), [dyno_workload:result(), ...]) ->
    dyno_recording:document().
document(#{shape := Shape} = Options, Environment, Results) ->
    Parameters = maps:without([progress], Options),
    New = dyno_recording:new(workload, Shape, Parameters, Environment),
    WithRuns = lists:foldl(
        fun({Number, Result}, Document) ->
            dyno_recording:add_run(Document, run(Shape, Number, Result))
        end,
        New,
        lists:enumerate(Results)
    ),
    Tables = [dyno_recording_table:make(spec(), lists:enumerate(Results))],
    Whole = dyno_recording:add_tables(WithRuns, Tables),
    #{status := Status} = lists:last(Results),
    dyno_recording:put(
        dyno_recording:put(Whole, status, Status),
        duration_ns,
        lists:sum([Ns || #{duration_ns := Ns} <- Results])
    ).

run(Shape, Number, #{status := Status, duration_ns := DurationNs, samples := Samples} = Result) ->
    #{started_at := StartedAt, responses := Responses} = Result,
    #{
        status => Status,
        labels => #{variant => Shape},
        repetition => Number,
        started_at => StartedAt,
        duration_ns => DurationNs,
        metrics => [
            dyno_recording_part:metric(Name, Title, Value, Unit, Count, ?GROUP)
         || {Name, Title, Unit, Of} <- figures(),
            {Value, Count} <- [Of(Result)],
            Value =/= undefined
        ],
        histograms => [histogram(Responses) || map_get(count, Responses) > 0],
        series => [
            dyno_recording_part:series(
                Name, Unit, ?GROUP, Title, undefined, [At || #{at_ms := At} <- With], Values
            )
         || {Name, Title, Unit, Key} <- [
                {~"workload.response_time", ~"Mean response time", ~"ns", response_ns},
                {~"workload.memory", ~"Memory", ~"B", memory},
                {~"workload.utilisation", ~"Scheduler utilisation", ~"ratio", utilisation},
                {~"workload.workers", ~"Workers alive", ~"count", alive}
            ],
            With <- [[Sample || Sample <- Samples, is_map_key(Key, Sample)]],
            Values <- [[map_get(Key, Sample) || Sample <- With]],
            Values =/= []
        ]
    }.

figures() ->
    Responses = fun(Of) ->
        fun(#{responses := #{count := Count} = Snapshot}) -> {Of(Snapshot), Count} end
    end,
    Quantile = fun(Share) -> Responses(fun(S) -> dyno_histogram:quantile(S, Share) end) end,
    Sampled = fun(Key) -> fun(#{Key := V, samples := Samples}) -> {V, length(Samples)} end end,
    One = fun(Key) -> fun(#{Key := V}) -> {V, 1} end end,
    [
        {
            ~"workload.response_time.mean",
            ~"Mean response time",
            ~"ns",
            Responses(fun dyno_histogram:mean/1)
        },
        {~"workload.response_time.p50", ~"p50 of the response time", ~"ns", Quantile(0.5)},
        {~"workload.response_time.p99", ~"p99 of the response time", ~"ns", Quantile(0.99)},
        {~"workload.memory.mean", ~"Mean memory", ~"B", Sampled(memory)},
        {~"workload.memory.peak", ~"Peak of the memory", ~"B", Sampled(memory_peak)},
        {
            ~"workload.utilisation.mean",
            ~"Mean scheduler utilisation",
            ~"ratio",
            Sampled(utilisation)
        },
        {~"workload.duration", ~"Duration", ~"ns", One(duration_ns)},
        {~"workload.workers", ~"Workers", ~"count", One(workers)},
        {~"workload.requests", ~"Requests answered", ~"count", One(requests)}
    ].

histogram(Snapshot) ->
    dyno_recording_part:histogram(
        ~"workload.response_time", ~"ns", ?GROUP, ~"Response time", #{}, Snapshot
    ).

spec() ->
    Response = fun(Fun) -> fun({_, #{responses := Responses}}) -> Fun(Responses) end end,
    Mean = Response(fun dyno_histogram:mean/1),
    P99 = Response(fun(Responses) -> dyno_histogram:quantile(Responses, 0.99) end),
    Lower = [lower, optional],
    #{
        name => ~"workload_repetitions",
        title => ~"Repetitions",
        columns => [
            {~"repetition", ~"Repetition", integer, key, 1},
            {~"response_mean", ~"Mean response", ns, Lower, Mean},
            {~"response_p99", ~"p99", ns, Lower, P99},
            {~"memory", ~"Mean memory", bytes, Lower, [2, memory]},
            {~"memory_peak", ~"Peak", bytes, Lower, [2, memory_peak]},
            {~"utilisation", ~"Schedulers busy", ratio, Lower, [2, utilisation]},
            {~"duration", ~"Duration", ns, [2, duration_ns]},
            {~"requests", ~"Requests", count, [2, requests]}
        ]
    }.
