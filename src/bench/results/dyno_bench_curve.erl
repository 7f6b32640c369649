%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_curve).
-moduledoc false.
%% Makes a recording of a search for the best concurrency: the curve as table `concurrencies`, the
%% best as a metric, and the samples as series. Pure.

-export([document/3]).

-define(LEVEL, (dyno_stats_interval:level())).

-spec document(#{atom() => term()}, dyno_bench_concurrency:result(), Environment :: term()) ->
    dyno_recording:document().
document(Parameters, #{candidates := [Candidate]} = Result, Environment) ->
    #{label := Label} = Candidate,
    #{duration_ms := DurationMs} = Result,
    Name = string:slice(Label, 0, 60),
    dyno_bench_result:ended(
        dyno_recording:new(bench, Name, Parameters, Environment),
        [run(Label, Result)],
        DurationMs * 1_000_000,
        dyno_bench_findings:described(Name, Candidate)
    ).

run(Label, #{status := Status, outcome := Outcome, duration_ms := DurationMs} = Result) ->
    #{ends_ms := EndsMs} = Result,
    #{best := Best, values := Values, steps := Steps} = Outcome,
    Throughput = dyno_stats:median(map_get(Best, Values)),
    Levels = levels(Best, Throughput, Steps),
    Title = ~"Throughput at the best concurrency",
    #{
        status => Status,
        duration_ns => DurationMs * 1_000_000,
        metrics => [
            dyno_recording_part:metric(
                ~"bench.concurrency", ~"Best concurrency", Best, ~"count", 1, ~"bench"
            ),
            dyno_recording_part:metric(~"bench.throughput", Title, Throughput, ~"1/s", 1, ~"bench")
        ],
        series => [
            (dyno_recording_part:series(
                ~"bench.throughput",
                ~"1/s",
                ~"bench",
                dyno_recording_part:text("Throughput with ~b", [Workers]),
                undefined,
                map_get(Workers, EndsMs),
                Samples
            ))#{labels := #{concurrency => integer_to_binary(Workers)}}
         || {Workers, Samples} <- lists:sort(maps:to_list(Values))
        ],
        tables => [
            dyno_recording_table:make(spec(Label), [
                item(
                    Workers,
                    {Samples, maps:get(Workers, Levels, dyno_stats:median(Samples))},
                    Best,
                    [S || #{concurrency := C} = S <- Steps, C =:= Workers]
                )
             || {Workers, Samples} <- lists:sort(maps:to_list(Values))
            ])
        ]
    }.

%% The throughput of each concurrency, scaled to the time at which the best was measured. On a
%% machine that became slower, plain medians can show another concurrency above the best, although
%% the rounds that compared both do not.
levels(Best, Throughput, Steps) ->
    Down = fun Down(Of, Level, Levels) ->
        case [S || #{concurrency := C} = S <- Steps, C =:= Of] of
            [#{against := Lower, ratio := Ratio}] ->
                Down(Lower, Level / Ratio, Levels#{Of => Level});
            [] ->
                Levels#{Of => Level}
        end
    end,
    Bests = Down(Best, Throughput, #{}),
    lists:foldl(
        fun
            (#{concurrency := C}, Levels) when is_map_key(C, Levels) -> Levels;
            (#{concurrency := C, against := Of, ratio := Ratio}, Levels) ->
                Levels#{C => map_get(Of, Levels) * Ratio}
        end,
        Bests,
        Steps
    ).

%% The first concurrency was compared with none.
item(Workers, {Samples, Throughput}, Best, Steps) ->
    Factor = Throughput / dyno_stats:median(Samples),
    Interval =
        case dyno_stats_interval:median(Samples, ?LEVEL) of
            {ok, {Low, High, _}} -> {Low * Factor, High * Factor};
            {error, too_few} -> {undefined, undefined}
        end,
    Verdict =
        case Steps of
            _ when Workers =:= Best -> best;
            [#{verdict := Of}] -> Of;
            [] -> undefined
        end,
    [Compared | _] = Steps ++ [maps:from_keys([against, ratio, low, high], undefined)],
    Compared#{
        verdict => Verdict,
        workers => Workers,
        throughput => Throughput,
        interval => Interval,
        samples => length(Samples)
    }.

spec(Label) ->
    TimeNs = fun(#{workers := Workers, throughput := Throughput}) ->
        Workers * 1.0e9 / Throughput
    end,
    Rate = {number, ~"1/s"},
    Factor = {number, ~"1"},
    #{
        name => ~"concurrencies",
        title => <<"Throughput by concurrency: ", Label/binary>>,
        columns => [
            {~"concurrency", ~"Workers", count, key, workers},
            {~"throughput", ~"Throughput", Rate, higher, throughput},
            {~"low", ~"Low", Rate, {low, ~"throughput"}, [interval, 1]},
            {~"high", ~"High", Rate, {high, ~"throughput"}, [interval, 2]},
            {~"time_per_call", ~"Time per call", {number, ~"ns/call"}, lower, TimeNs},
            {~"against", ~"Compared with", count, note, against},
            {~"ratio", ~"Ratio of the throughputs", Factor, ratio},
            {~"ratio_low", ~"Ratio, low", Factor, {low, ~"ratio"}, low},
            {~"ratio_high", ~"Ratio, high", Factor, {high, ~"ratio"}, high},
            {~"verdict", ~"Verdict", string, verdict},
            {~"samples", ~"Samples", count, note, samples}
        ]
    }.
