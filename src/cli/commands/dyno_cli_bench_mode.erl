%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_mode).
-moduledoc """
The measuring options of `dyno bench`, which are erlperf's: their form, valid combinations, and the
resulting mode.
""".

-import(dyno_cli_command, [contradiction/1]).

-export([decisions/0, samples/0, mode/2]).

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
        {"-c, --concurrency N", "the number of processes that run a code at once (default: 1)",
            {whole, 1, 10_000}},
        {"--threshold SHARE",
            "ignores smaller differences (default: 3%, of exact metrics 0.1%)",
            {custom, fun threshold/1, "a share above 0 % and below 100 %, such as 3%"}},
        {"--metric NAME",
            "the deciding metric: time, wall, cpu, gc, memory, reductions, words, messages or "
            "whole (default: time)",
            {one_of, dyno_bench_metric:names()}},
        {"--heap default|WORDS",
            "the smallest heap for a code (default: drawn in each round of a comparison, else the "
            "runtime's own)",
            {custom, fun heap/1, "default, or a number of words, such as 10000"}},
        {"--whole", "also measures other processes that work for the code",
            {flag, side_effects}}
    ].

-doc "erlperf's options.".
-spec samples() -> [dyno_cli_option:row()].
samples() ->
    Positive = {whole, 1, infinity},
    [
        {"-d, --duration MS",
            "takes samples of MS milliseconds, of each code in turn (default: 1000, with -q 100)",
            {whole, 1, 720_000_000}, sample_ms},
        {"-s, --samples N", "the number of samples (default: 3, with -q 8)", {whole, 1, 1_000_000}},
        {"-w, --warmup N", "throws the first N samples away (default: 0)",
            {whole, 0, 1_000_000}},
        {"-l, --loop N", "takes samples of N iterations: 100, 10K, 2M, 1G",
            {custom, fun iterations/1, "a positive integer, or one with K, M or G, such as 10M"},
            iterations},
        {"--cv X",
            "continues until the samples' standard deviation, divided by their mean, is below X, "
            "such as 0.05",
            {custom, fun above_zero/1, "a number above 0, such as 0.05"}},
        {"-r, --report basic|extended|full", "shows erlperf's columns",
            {one_of, dyno_report_columns:kinds()}},
        {"-q, --squeeze", "finds the number of processes with the highest throughput"},
        {"--min N", "with -q: the first number of processes (default: 1)", {whole, 1, 10_000}},
        {"--step N",
            "with -q: the step from one number to the next (default: 1)", {whole, 1, 10_000}},
        {"--max N", "with -q: the last number of processes (default: 10000)", {whole, 1, 10_000}},
        {"-t, --patience N",
            "with -q: ends after N numbers without a gain (default: 3)",
            Positive}
    ].

heap(~"default") -> {ok, default};
heap(Text) -> dyno_cli_option:value({whole, 1, 100_000_000}, Text).

%% A share; with -q erlperf's --threshold is the patience.
threshold(Text) ->
    case dyno_cli_option:value({whole, 1, infinity}, Text) of
        {ok, N} -> {ok, {patience, N}};
        error -> dyno_cli_option:value(share, Text)
    end.

iterations(Text) ->
    case dyno_unit:parse(Text) of
        {ok, {N, ~"1"}} when is_integer(N), N >= 1 -> {ok, N};
        _ -> error
    end.

above_zero(Text) ->
    case dyno_unit:parse(Text) of
        {ok, {Number, Unit}} when Number > 0, Unit =:= ~"1"; Number > 0, Unit =:= ~"ratio" ->
            {ok, Number};
        _ ->
            error
    end.

-doc "The options of m:dyno_bench for a number of codes.".
-spec mode(dyno_cli_command:values(), Codes :: pos_integer()) ->
    {ok, dyno_bench:options()} | {error, dyno_error:error()}.
mode(Given, Codes) ->
    Values = patience(Given),
    maybe
        {ok, Name} ?= name(Values),
        ok ?= fits(Name, Values, Codes),
        Options = maps:merge(common(Values), settings(Name, Values)),
        {ok, _} ?= dyno_bench_mode:check(maps:get(mode, Options, compare), Codes),
        {ok, Options}
    end.

patience(#{squeeze := true, threshold := {patience, N}} = Values) when
    not is_map_key(patience, Values)
->
    maps:remove(threshold, Values#{patience => N});
patience(Values) ->
    Values.

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
            {Name =:= squeeze andalso Codes > 1,
                io_lib:format("-q takes one code, not ~b; run it once for each", [Codes])},
            {Name =:= squeeze andalso Has([concurrency]),
                "-q finds the concurrency itself; give --min and --max in place of --concurrency"},
            {Name =:= squeeze andalso Has([cv]),
                "-q decides by intervals, so --cv has no meaning; leave one of them out"},
            {is_tuple(maps:get(threshold, Values, none)),
                "--threshold takes a share above 0 % and below 100 %, such as 3%"},
            {Name =:= squeeze andalso Has([threshold]),
                "-q has no --threshold but erlperf's, a whole number from 1 up, which is also -t"},
            {Name =:= timed andalso Has(?CONTINUOUS),
                "--loop counts iterations; --duration and --cv do not go with --loop"},
            {Name =/= squeeze andalso Has([patience]),
                "-t is for -q, which is not given; the share of a difference is --threshold 3%"},
            {Name =:= squeeze andalso Metric =/= time,
                "-q looks for the highest throughput; for --metric leave it out, and give -c N"},
            {Name =:= squeeze andalso Has([whole]),
                "-q looks for the highest throughput; for --whole leave it out, and give -c N"},
            {Has([report]) andalso not Has([output]) andalso Has([metric, whole]),
                "--report has erlperf's columns, which have none for --metric and --whole; leave "
                "it out, or add -o FILE"},
            {Name =/= compare andalso Has([budget_ms]),
                "--time is for a comparison that ends by itself; samples take as long as they say"},
            {Has([format]) andalso Has([report]),
                "--report and --format both say what is shown; give one of them"},
            {Name =/= squeeze andalso OfSqueeze =/= [],
                ["--", lists:sublist(OfSqueeze, 1), " is for -q, which is not given"]}
        ]
    ],
    case Refused of
        [] -> ok;
        [Text | _] -> contradiction(Text)
    end.
