%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sizes_repetitions).
-moduledoc """
The mean of a metric over the repetitions of each size, with its interval; a run is one value, since
differences between runs do not show within one. Pure.
""".

-export([tables/1, spec/0]).

-define(LEVEL, (dyno_stats_interval:level())).
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

-doc "The table `repetitions` of a document; none if no size was repeated.".
-spec tables(dyno_recording:document()) -> [dyno_recording_table:table()].
tables(Document) ->
    case [Repeated || {_, [_, _ | _]} = Repeated <- dyno_sizes:runs(Document)] of
        [] ->
            [];
        Sizes ->
            [
                dyno_recording_table:make(spec(), [
                    summary(Size, Name, Values)
                 || {Size, Runs} <- Sizes,
                    Name <- ?METRICS,
                    [_ | _] = Values <- [
                        [Value || Run <- Runs, Value <- dyno_sizes:metric(Name, Run)]
                    ]
                ])
            ]
    end.

summary(Size, Name, [{_, Unit} | _] = Values) ->
    {Low, Middle, High} = interval([Value || {Value, _} <- Values]),
    #{
        size => Size,
        metric => Name,
        unit => Unit,
        repetitions => length(Values),
        mean => Middle,
        low => Low,
        high => High
    }.

%% Values that can be 0, such as error rates, have no logarithm: median and range.
interval(Values) ->
    case dyno_stats_welch:mean(Values, ?LEVEL) of
        {ok, #{mean := Mean, low := Low, high := High}} -> {Low, Mean, High};
        {error, too_few} -> {undefined, hd(Values), undefined};
        {error, not_positive} -> {lists:min(Values), dyno_stats:median(Values), lists:max(Values)}
    end.

-doc "The description of this table.".
-spec spec() -> dyno_recording_table:spec().
spec() ->
    Help = ~"Of the repetitions: geometric mean with Student's 95 % interval of the logarithms.",
    #{
        name => ~"repetitions",
        title => ~"Over the repetitions",
        derived => true,
        columns => [
            {~"size", ~"Size", integer, key, size},
            {~"metric", ~"Metric", string, key, metric},
            {~"unit", ~"Unit", string, unit},
            {~"repetitions", ~"Repetitions", count, note, repetitions},
            {~"mean", ~"Mean", number, Help, mean},
            {~"low", ~"Low", number, {low, ~"mean"}, low},
            {~"high", ~"High", number, {high, ~"mean"}, high}
        ]
    }.
