%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_curve).
-moduledoc false.
%% Makes a recording of a search for the best concurrency: the table `concurrencies`, the curve,
%% with the best as a metric, and the samples as series. Pure.

-export([document/3]).

-define(LEVEL, 0.95).

-doc "The recording of a result.".
-spec document(#{atom() => term()}, dyno_bench_concurrency:result(), Environment :: term()) ->
    dyno_recording:document().
document(Parameters, #{arms := [Arm], duration_ms := DurationMs} = Result, Environment) ->
    #{label := Label} = Arm,
    Name = string:slice(Label, 0, 60),
    Document0 = dyno_recording:new(bench, Name, Parameters, Environment),
    Document1 = dyno_recording:add_run(Document0, run(Label, Result)),
    Document2 = dyno_recording:put(Document1, duration_ns, DurationMs * 1_000_000),
    Document3 = dyno_recording:add_warnings(Document2, warnings(Name, Arm)),
    dyno_recording:put(Document3, status, complete).

-spec warnings(binary(), dyno_bench_job:description()) -> [{binary(), binary()}].
warnings(Name, #{constant := Constant, warnings := Warnings}) ->
    [
        {~"constant",
            <<Name/binary,
                ": the compiler works the result out; an empty loop was measured. Take the "
                "values from init_runner">>}
     || Constant
    ] ++ [{~"compiler", <<Name/binary, ": ", Warning/binary>>} || Warning <- Warnings].

-spec run(binary(), dyno_bench_concurrency:result()) -> #{atom() => term()}.
run(Label, #{outcome := Outcome, duration_ms := DurationMs, ends_ms := EndsMs}) ->
    #{best := Best, values := Values} = Outcome,
    #{
        status => complete,
        duration_ns => DurationMs * 1_000_000,
        metrics => [
            metric(~"bench.concurrency", ~"Best concurrency", Best, ~"count"),
            metric(
                ~"bench.throughput",
                ~"Throughput at the best concurrency",
                dyno_stats:median(map_get(Best, Values)),
                ~"1/s"
            )
        ],
        series => [
            #{
                name => ~"bench.throughput",
                title => <<"Throughput with ", (integer_to_binary(C))/binary>>,
                unit => ~"1/s",
                group => ~"bench",
                node => undefined,
                labels => #{concurrency => integer_to_binary(C)},
                times_ms => map_get(C, EndsMs),
                values => Samples
            }
         || {C, Samples} <- lists:sort(maps:to_list(Values))
        ],
        tables => [table(Label, Outcome)]
    }.

-spec metric(binary(), binary(), number(), binary()) -> #{atom() => term()}.
metric(Name, Title, Value, Unit) ->
    #{name => Name, title => Title, value => Value, unit => Unit, count => 1, group => ~"bench"}.

-spec table(binary(), dyno_bench_concurrency_search:outcome()) -> #{atom() => term()}.
table(Label, #{values := Values} = Outcome) ->
    dyno_recording_table:new(
        ~"concurrencies",
        <<"Throughput by concurrency: ", Label/binary>>,
        [
            {~"concurrency", ~"Workers", integer, ~"count"},
            {~"throughput", ~"Throughput", number, ~"1/s"},
            {~"low", ~"Low", number, ~"1/s"},
            {~"high", ~"High", number, ~"1/s"},
            {~"time_per_call", ~"Time per call", number, ~"ns/call"},
            {~"against", ~"Compared with", integer, ~"count"},
            {~"ratio", ~"Ratio of the throughputs", number, ~"1"},
            {~"ratio_low", ~"Ratio, low", number, ~"1"},
            {~"ratio_high", ~"Ratio, high", number, ~"1"},
            {~"verdict", ~"Verdict", string, undefined},
            {~"samples", ~"Samples", integer, ~"count"}
        ],
        [row(C, Samples, Outcome) || {C, Samples} <- lists:sort(maps:to_list(Values))]
    ).

-spec row(pos_integer(), [float()], dyno_bench_concurrency_search:outcome()) -> [term()].
row(Concurrency, Samples, #{best := Best, steps := Steps}) ->
    Throughput = dyno_stats:median(Samples),
    {Low, High} =
        case dyno_stats_interval:median(Samples, ?LEVEL) of
            {ok, {L, H, _}} -> {L, H};
            {error, too_few} -> {undefined, undefined}
        end,
    {Against, Ratio, RatioLow, RatioHigh, Verdict} =
        case [S || #{concurrency := C} = S <- Steps, C =:= Concurrency] of
            [] ->
                {undefined, undefined, undefined, undefined, undefined};
            [#{against := A, ratio := R, low := RL, high := RH, verdict := V}] ->
                {A, R, RL, RH, atom_to_binary(V)}
        end,
    Shown =
        case Concurrency of
            Best -> ~"best";
            _ -> Verdict
        end,
    [
        Concurrency, Throughput, Low, High, Concurrency * 1.0e9 / Throughput, Against, Ratio,
        RatioLow, RatioHigh, Shown, length(Samples)
    ].
