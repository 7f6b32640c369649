%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_erlperf).
-moduledoc "erlperf's options in `dyno bench`: samples, columns, squeeze, code for all codes.".

-export([options/0]).

-doc "The options.".
-spec options() -> [dyno_cli_option:row()].
options() ->
    [
        {"-d, --duration MS",
            "takes samples of MS milliseconds, of each code in turn (default: 1000, with -q 100)",
            {whole, 1, 720_000_000}, sample_ms},
        {"-s, --samples N", "the number of samples (default: 3, with -q 8)", {whole, 1, 1_000_000}},
        {"-w, --warmup N", "throws the first N samples away (default: 0)", {whole, 0, 1_000_000}},
        {"-l, --loop N", "takes samples of N iterations: 100, 10K, 2M, 1G",
            {custom, fun iterations/1, "a positive integer, or one with K, M or G, such as 10M"},
            iterations},
        {"--cv X",
            "continues until the samples' standard deviation, divided by their mean, is below X, "
            "such as 0.05", {custom, fun above_zero/1, "a number above 0, such as 0.05"}},
        {"-r, --report basic|extended|full", "shows erlperf's columns",
            {one_of, dyno_report_erlperf:names()}},
        {"-q, --squeeze", "finds the number of processes with the highest throughput"},
        {"--min N", "with -q: the first number of processes (default: 1)", {whole, 1, 10_000}},
        {"--step N", "with -q: the step from one number to the next (default: 1)",
            {whole, 1, 10_000}},
        {"--max N", "with -q: the last number of processes (default: 10000)", {whole, 1, 10_000}},
        {"-t, --threshold N", "with -q: ends after N numbers without a gain (default: 3)",
            {custom, fun threshold/1,
                "a whole number from 1 up, with -q; --tolerance 3% ignores small differences"},
            patience},
        {"--init_all CODE", "as --init, for all codes without their own"},
        {"--init_runner_all CODE", "as --init_runner, for all codes without their own"},
        {"--done_all CODE", "as --done, for all codes without their own"}
    ].

threshold(Text) -> dyno_cli_option:value({whole, 1, infinity}, Text).

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
