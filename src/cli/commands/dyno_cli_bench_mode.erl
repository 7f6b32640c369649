%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_mode).
-moduledoc "The options of `dyno bench` that decide what is measured, and how.".

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
    dyno_error:result(dyno_bench:options()).
mode(Values, Codes) ->
    maybe
        {ok, Name} ?= name(Values),
        ok ?= fits(Name, Values),
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

fits(Name, Values) ->
    case refused(Name, Values) of
        none -> ok;
        Sentence -> contradiction(Sentence)
    end.

refused(squeeze, #{concurrency := _}) ->
    "-q finds the concurrency itself; give --min and --max in place of --concurrency";
refused(squeeze, #{cv := _}) ->
    "-q decides by intervals, so --cv has no meaning; leave one of them out";
refused(squeeze, #{threshold := _}) ->
    "-q compares nothing; leave out --tolerance, or -q";
refused(timed, Values) when is_map_key(sample_ms, Values); is_map_key(cv, Values) ->
    "--loop counts iterations; --duration and --cv do not go with --loop";
refused(Name, #{patience := _}) when Name =/= squeeze ->
    "--threshold is for -q, which is not given; --tolerance 3% ignores differences";
refused(squeeze, #{metric := Metric}) when Metric =/= time ->
    "-q looks for the highest throughput; for --metric leave out -q, and give -c N";
refused(squeeze, #{whole := _}) ->
    "-q looks for the highest throughput; for --whole leave out -q, and give -c N";
refused(_Name, #{report := _} = Values) when
    not is_map_key(output, Values), (is_map_key(metric, Values) orelse is_map_key(whole, Values))
->
    "--report has erlperf's columns, which have none for --metric and --whole; leave --report "
    "out, or add -o FILE";
refused(Name, #{budget_ms := _}) when Name =/= compare ->
    "--for is for a comparison that ends by itself; samples take as long as they say";
refused(_Name, #{format := _, report := _}) ->
    "--report and --format both say what is shown; give one of them";
refused(squeeze, _Values) ->
    none;
refused(_Name, Values) ->
    case [Key || Key <- ?SQUEEZE, is_map_key(Key, Values)] of
        [] -> none;
        [Key | _] -> ["--", atom_to_list(Key), " is for -q, which is not given"]
    end.
