%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_mode).
-moduledoc """
The options of `dyno bench` that decide what is measured and how (`m:dyno_cli_bench_erlperf`): valid
combinations, and the resulting mode.
""".

-import(dyno_cli_command, [contradiction/1]).

-export([decisions/0, mode/2]).

-define(CONTINUOUS, [sample_ms, cv]).
-define(SQUEEZE, [min, step, max]).
-define(SHARED, [samples, warmup, report]).
-define(SETTINGS, [sample_ms, samples, warmup, cv, iterations, min, max, step]).

%% Fixed iterations may take long: the user chose the number.
-define(TIMED_TIMEOUT_MS, 300_000).

-doc "The options for the measured value and the decision.".
-spec decisions() -> [dyno_cli_option:row()].
decisions() ->
    [
        {"-c, --concurrency N", "processes that run a code at once (default: 1)",
            {whole, 1, 10_000}},
        {"--tolerance SHARE", "ignores smaller differences (default: 3%, of exact metrics 0.1%)",
            share, threshold},
        {"--metric NAME",
            "the deciding metric: time, wall, cpu, gc, memory, reductions, words, messages or "
            "whole (default: time)", {one_of, dyno_bench_metric:names()}},
        {"--heap default|WORDS",
            "the smallest heap for a code (default: drawn in each round of a comparison, else the "
            "runtime's own)", {custom, fun heap/1, "default, or a number of words, such as 10000"}},
        {"--whole", "also measures other processes that work for the code", {flag, side_effects}}
    ].

heap(~"default") -> {ok, default};
heap(Text) -> dyno_cli_option:value({whole, 1, 100_000_000}, Text).

-doc "The options of m:dyno_bench for a number of codes.".
-spec mode(dyno_cli_command:values(), Codes :: pos_integer()) ->
    {ok, dyno_bench:options()} | {error, dyno_error:error()}.
mode(Values, Codes) ->
    maybe
        {ok, Name} ?= name(Values),
        ok ?= fits(Name, Values, Codes),
        Options = maps:merge(common(Values), settings(Name, Values)),
        {ok, _} ?= dyno_bench_mode:check(maps:get(mode, Options, compare), Codes),
        {ok, Options}
    end.

common(Values) ->
    Common = maps:with([concurrency, heap, threshold, metric], Values),
    case maps:values(maps:with([whole], Values)) of
        [] -> Common;
        Extras -> Common#{extras => Extras}
    end.

settings(compare, _Values) ->
    #{};
settings(Name, Values) ->
    Settings = maps:with(?SETTINGS, Values),
    case {Name, Values} of
        {squeeze, #{patience := N}} -> #{mode => {squeeze, Settings#{threshold => N}}};
        {timed, _} -> #{mode => {timed, Settings}, timeout_ms => ?TIMED_TIMEOUT_MS};
        _ -> #{mode => {Name, Settings}}
    end.

name(#{squeeze := true, iterations := _}) ->
    contradiction("-q and --loop do not go together; -q takes samples of a --duration");
name(#{squeeze := true}) ->
    {ok, squeeze};
name(#{iterations := _}) ->
    {ok, timed};
name(Values) ->
    case map_size(maps:with(?CONTINUOUS ++ ?SHARED, Values)) of
        0 -> {ok, compare};
        _ -> {ok, continuous}
    end.

fits(Name, Values, Codes) ->
    Has = fun(Keys) -> map_size(maps:with(Keys, Values)) > 0 end,
    Metric = maps:get(metric, Values, time),
    OfSqueeze = [atom_to_list(Key) || Key <- ?SQUEEZE, is_map_key(Key, Values)],
    Refused = [
        Text
     || {true, Text} <- [
            {
                Name =:= squeeze andalso Codes > 1,
                io_lib:format("-q takes one code, not ~b; run it once for each", [Codes])
            },
            {
                Name =:= squeeze andalso Has([concurrency]),
                "-q finds the concurrency itself; give --min and --max in place of --concurrency"
            },
            {
                Name =:= squeeze andalso Has([cv]),
                "-q decides by intervals, so --cv has no meaning; leave one of them out"
            },
            {
                Name =:= squeeze andalso Has([threshold]),
                "-q compares nothing; leave out --tolerance, or -q"
            },
            {
                Name =:= timed andalso Has(?CONTINUOUS),
                "--loop counts iterations; --duration and --cv do not go with --loop"
            },
            {
                Name =/= squeeze andalso Has([patience]),
                "--threshold is for -q, which is not given; --tolerance 3% ignores differences"
            },
            {
                Name =:= squeeze andalso Metric =/= time,
                "-q looks for the highest throughput; for --metric leave it out, and give -c N"
            },
            {
                Name =:= squeeze andalso Has([whole]),
                "-q looks for the highest throughput; for --whole leave it out, and give -c N"
            },
            {
                Has([report]) andalso not Has([output]) andalso Has([metric, whole]),
                "--report has erlperf's columns, which have none for --metric and --whole; leave "
                "it out, or add -o FILE"
            },
            {
                Name =/= compare andalso Has([budget_ms]),
                "--for is for a comparison that ends by itself; samples take as long as they say"
            },
            {
                Has([format]) andalso Has([report]),
                "--report and --format both say what is shown; give one of them"
            },
            {Name =/= squeeze andalso OfSqueeze =/= [], [
                "--", lists:sublist(OfSqueeze, 1), " is for -q, which is not given"
            ]}
        ]
    ],
    case Refused of
        [] -> ok;
        [Text | _] -> contradiction(Text)
    end.
