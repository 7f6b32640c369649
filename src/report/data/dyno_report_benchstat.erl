%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_benchstat).
-moduledoc """
The measurements in the text form of Go's benchmarks, for `benchstat OLD NEW`
(golang.org/design/14313-benchmark-format).

One line for each code and round of a benchmark, with `/input=NAME` for several runs; each sample
and number of workers of a squeeze; each watched node and second; each run of a test. The number
after a name's last `-` is that of online schedulers, as in Go; spaces in names become `_`.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1]).

-import(dyno_report_document, [get/2, get/3, metric_value/2, name/2]).

-doc "The lines; an error for a comparison, which has no measurements.".
-spec format(dyno_report:document(), dyno_report:options()) -> dyno_error:result(iodata()).
format(Document, _Options) ->
    Environment = get(~"environment", Document, #{}),
    Suffix = suffix(get(~"schedulers_online", Environment)),
    Lines = lists:append([
        lines(get(~"command", Document), Document, Run, Suffix)
     || Run <- dyno_recording:runs(Document)
    ]),
    case Lines of
        [] -> {error, {?MODULE, no_measurements}};
        _ -> {ok, dyno_report_text:encode([keys(Document, Environment), Lines])}
    end.

-spec format_error(no_measurements) -> unicode:chardata().
format_error(no_measurements) ->
    "there are no measurements for benchstat; give a recording of dyno bench or dyno test, "
    "and let benchstat compare two of them".

%% benchstat compares results with equal keys, so the OTP release is excluded.
keys(Document, Environment) ->
    [
        [Key, ": ", Value, "\n"]
     || {Key, Value} <- [
            {"goos", string:lowercase(dyno_report_document:text(~"os", Environment, ~""))},
            {"pkg", name(~"name", Document)},
            {"cpu", dyno_report_document:text(~"cpu_model", Environment, ~"")}
        ],
        Value =/= ~"",
        %% A benchmark's package must not depend on its number of codes.
        not (Key =:= "pkg" andalso get(~"command", Document) =:= ~"bench")
    ].

suffix(Schedulers) when is_integer(Schedulers) -> ["-", integer_to_list(Schedulers)];
suffix(_) -> "".

lines(~"bench", Document, Run, Suffix) ->
    codes(Document, Run, Suffix) ++ throughputs(Document, Run, Suffix);
lines(_Test, Document, Run, Suffix) ->
    Size = get(~"size", Run, 0),
    Name = [name(~"name", Document), "/size=", integer_to_list(Size), Suffix],
    Measures = [
        {Value, Unit}
     || {Metric, Unit} <- [
            {~"latency.mean", "ns/op"},
            {~"latency.p50", "p50-ns"},
            {~"latency.p99", "p99-ns"},
            {~"throughput", "op/s"}
        ],
        Value <- [metric_value(Metric, Run)],
        is_number(Value)
    ],
    case {Measures, metric_value(~"operations.count", Run)} of
        {[], _} -> [];
        {_, Count} when is_integer(Count), Count > 0 -> [line(Name, Count, Measures)];
        _ -> [line(Name, 1, Measures)]
    end.

codes(Document, Run, Suffix) ->
    Input = [["/input=", name(~"id", Run)] || [_, _ | _] <- [dyno_recording:runs(Document)]],
    Rows = [{get(~"code", Row), Row} || Row <- dyno_recording:rows(Run, ~"codes")],
    [
        line([Code, Input, Suffix], iterations(Row), [{Time, "ns/op"} | exact(Row)])
     || #{~"name" := ~"bench.time", ~"labels" := #{~"code" := Code}} = Series <-
            get(~"series", Run, []),
        {_, Row} <- [lists:keyfind(Code, 1, Rows)],
        Time <- get(~"values", Series, []),
        is_number(Time)
    ].

throughputs(Document, Run, Suffix) ->
    [
        line([name(~"name", Document), Of, Suffix], 1, [{Value, "op/s"}])
     || #{~"name" := ~"bench.throughput", ~"labels" := Labels} = Series <- get(~"series", Run, []),
        Of <- [of_series(Labels, get(~"node", Series))],
        Value <- get(~"values", Series, []),
        is_number(Value)
    ].

of_series(#{~"concurrency" := Workers}, _Node) -> ["/workers=", Workers];
of_series(_Labels, Node) when is_binary(Node) -> ["/node=", Node];
of_series(_Labels, _Node) -> "".

iterations(Row) ->
    case get(~"iterations", Row) of
        N when is_integer(N), N > 0 -> N;
        _ -> 1
    end.

exact(Row) ->
    [
        {Value, Unit}
     || {Column, Unit} <- [
            {~"reductions_per_call", "reductions/op"}, {~"words_per_call", "words/op"}
        ],
        Value <- [get(Column, Row)],
        is_number(Value)
    ].

line(Name, Count, Measures) ->
    [
        "Benchmark",
        benchmark(dyno_text:clean(dyno_report_text:encode(Name))),
        "\t",
        integer_to_list(Count),
        [["\t", number(Value), " ", Unit] || {Value, Unit} <- Measures],
        "\n"
    ].

%% A small letter after "Benchmark" would make it another word, and the line no result.
benchmark(Name) ->
    Word = re:replace(string:trim(Name), "\\s+", "_", [global, unicode, {return, binary}]),
    case re:run(Word, "^\\p{Ll}", [unicode, {capture, none}]) of
        match -> [$_, Word];
        nomatch -> Word
    end.

number(Value) when is_integer(Value) -> integer_to_binary(Value);
number(Value) -> float_to_binary(Value, [{decimals, 4}, compact]).
