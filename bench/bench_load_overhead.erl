%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_load_overhead).

-behaviour(bench_program).

-export([describe/0, measure/2]).

describe() ->
    """
    What dyno's load generator takes for one operation: one worker of a closed load repeats an
    operation that does nothing, and the wall time is divided by the number of operations. Both
    readings of the clock and the recording in the histogram are in it.
    """.

measure(none, Effort) ->
    {Runs, DurationMs} = settings(Effort),
    Ns = [operation_ns(DurationMs) || _ <- lists:seq(1, Runs)],
    {Value, Interval} = bench_program:median(Ns),
    bench_program:say("runs      ~b of ~b ms, fastest ~ts ns", [
        Runs, DurationMs, bench_program:number(lists:min(Ns))
    ]),
    #{name => "load_overhead", value => Value, unit => "ns", interval => Interval}.

settings(full) -> {15, 500};
settings(quick) -> {6, 100}.

operation_ns(DurationMs) ->
    #{successes := Count} = bench_load:run(#{model => closed, workers => 1}, DurationMs),
    DurationMs * 1_000_000 / Count.
