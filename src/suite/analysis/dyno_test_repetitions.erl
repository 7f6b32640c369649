%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_repetitions).
-moduledoc """
Sums up the repetitions of each size: what a figure is, and between what it lies. Pure.

A run is one value, however many operations it had: what differs from run to run (which memory the
node got, what else the machine did) does not show within one.
""".

-export([tables/1]).

-import(dyno_recording_part, [table/5, column/4]).

-define(LEVEL, 0.95).
-define(METRICS, [
    ~"throughput",
    ~"latency.p50",
    ~"latency.p90",
    ~"latency.p99",
    ~"service.p50",
    ~"service.p99",
    ~"errors.rate",
    ~"instrument.response_ratio",
    ~"instrument.throughput_ratio"
]).

-doc "The table `repetitions` of a document; none where no size was repeated.".
-spec tables(dyno_recording:document()) -> [#{atom() => term()}].
tables(Document) ->
    Runs = [Run || #{~"status" := ~"complete"} = Run <- dyno_recording:runs(Document)],
    BySize = maps:groups_from_list(fun(#{~"size" := Size}) -> Size end, Runs),
    case [Size || Size := [_, _ | _] <- BySize] of
        [] ->
            [];
        Repeated ->
            Rows = lists:append([
                row(Size, Name, map_get(Size, BySize))
             || Size <- lists:sort(Repeated), Name <- ?METRICS
            ]),
            [of_rows(Rows)]
    end.

-spec row(pos_integer(), binary(), [dyno_recording:run()]) -> [[term()]].
row(Size, Name, Runs) ->
    Found = [
        {Value, Unit}
     || Run <- Runs,
        {ok, #{~"value" := Value, ~"unit" := Unit}} <- [dyno_recording:metric(Run, Name)],
        is_number(Value)
    ],
    case Found of
        [{_, Unit} | _] ->
            {Low, Middle, High} = interval([Value || {Value, _} <- Found]),
            [[Size, Name, Unit, length(Found), Middle, Low, High]];
        [] ->
            []
    end.

%% What can be 0, such as a rate of errors, has no logarithm: then its median and its range.
-spec interval([number(), ...]) -> {number() | undefined, number(), number() | undefined}.
interval(Values) ->
    case dyno_stats_welch:mean(Values, ?LEVEL) of
        {ok, #{mean := Mean, low := Low, high := High}} -> {Low, Mean, High};
        {error, too_few} -> {undefined, hd(Values), undefined};
        {error, not_positive} -> {lists:min(Values), dyno_stats:median(Values), lists:max(Values)}
    end.

-spec of_rows([[term()]]) -> #{atom() => term()}.
of_rows(Rows) ->
    Help = ~"Of the repetitions: geometric mean with Student's 95 % interval of the logarithms.",
    table(
        ~"repetitions",
        ~"Over the repetitions",
        undefined,
        [
            column(~"size", ~"Size", integer, undefined),
            column(~"metric", ~"Figure", string, undefined),
            column(~"unit", ~"Unit", string, undefined),
            column(~"repetitions", ~"Repetitions", integer, ~"count"),
            (column(~"mean", ~"Mean", number, undefined))#{help => Help},
            column(~"low", ~"Low", number, undefined),
            column(~"high", ~"High", number, undefined)
        ],
        Rows
    ).
