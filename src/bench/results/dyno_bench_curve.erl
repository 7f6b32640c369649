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
            ))#{
                labels := #{concurrency => integer_to_binary(Workers)}
            }
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
            _ when Workers =:= Best -> ~"best";
            [#{verdict := Of}] -> atom_to_binary(Of);
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
    Get = fun(Key) -> fun(Item) -> map_get(Key, Item) end end,
    Interval = fun(N) -> fun(#{interval := Interval}) -> element(N, Interval) end end,
    TimeNs = fun(#{workers := Workers, throughput := Throughput}) ->
        Workers * 1.0e9 / Throughput
    end,
    Low = #{role => low, 'of' => ~"throughput"},
    High = #{role => high, 'of' => ~"throughput"},
    #{
        name => ~"concurrencies",
        title => <<"Throughput by concurrency: ", Label/binary>>,
        columns => [
            {~"concurrency", ~"Workers", count, #{role => key}, Get(workers)},
            {~"throughput", ~"Throughput", {number, ~"1/s"}, #{better => higher}, Get(throughput)},
            {~"low", ~"Low", {number, ~"1/s"}, Low, Interval(1)},
            {~"high", ~"High", {number, ~"1/s"}, High, Interval(2)},
            {~"time_per_call", ~"Time per call", {number, ~"ns/call"}, #{better => lower}, TimeNs},
            {~"against", ~"Compared with", count, #{role => note}, Get(against)},
            {~"ratio", ~"Ratio of the throughputs", {number, ~"1"}, Get(ratio)},
            {
                ~"ratio_low",
                ~"Ratio, low",
                {number, ~"1"},
                #{role => low, 'of' => ~"ratio"},
                Get(low)
            },
            {
                ~"ratio_high",
                ~"Ratio, high",
                {number, ~"1"},
                #{role => high, 'of' => ~"ratio"},
                Get(high)
            },
            {~"verdict", ~"Verdict", string, Get(verdict)},
            {~"samples", ~"Samples", count, #{role => note}, Get(samples)}
        ]
    }.
