%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_metrics).
-moduledoc false.
%% The metrics, histograms and series of a load in the recording: of the whole load, of each kind of
%% operation, and of each phase. Pure.

-export([metrics/1, histograms/1, series/1, outcome/2]).

-type part() :: #{atom() => term()}.

-define(QUANTILES, [{~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}, {~"p99.9", 0.999}]).

-doc "The load's single numbers.".
-spec metrics(dyno_load_result:t()) -> [part()].
metrics(#{total := Total, parts := Parts, workers := Workers} = Result) ->
    DurationNs = loaded_ns(Result),
    lists:append([
        of_operations(~"", ~"", DurationNs, Total),
        of_open_loads(Total, Parts),
        [metric(~"workers.max", ~"Workers, at most", Workers, ~"count", 1)],
        of_load_nodes(Result),
        of_search(Result),
        of_kinds(DurationNs, Result),
        lists:append([of_phase(Part) || Part <- Parts, length(Parts) > 1])
    ]).

%% A search's metrics are those of the probes at the rate that was found.
loaded_ns(#{search := _, parts := Parts}) ->
    lists:sum([LengthNs || #{duration_ns := LengthNs} <- Parts]);
loaded_ns(#{duration_ns := DurationNs}) ->
    DurationNs.

%% The prefix of the names, and the end of the titles, say which operations they are.
of_operations(Prefix, Suffix, DurationNs, Snapshot) ->
    #{response := Response, successes := Ok, in_time := InTime, failures := Failed} = Snapshot,
    All = Ok + Failed,
    [
        metric(<<Prefix/binary, Name/binary>>, <<Title/binary, Suffix/binary>>, Value, Unit, Count)
     || {Name, Title, Value, Unit, Count} <- [
            {~"throughput", ~"Throughput", InTime * 1.0e9 / max(DurationNs, 1), ~"1/s", InTime},
            {~"operations.count", ~"Operations", Ok, ~"count", Ok},
            {~"errors.count", ~"Errors", Failed, ~"count", All},
            {~"errors.rate", ~"Share of errors", Failed / max(1, All), ~"ratio", All}
            | times(~"latency", ~"Response time", Response) ++
                times(~"service", ~"Service time", map_get(service, Snapshot))
        ]
    ].

times(_Name, _Title, undefined) ->
    [];
times(_Name, _Title, #{count := 0}) ->
    [];
times(Name, Title, #{count := Count, max := Max} = Histogram) ->
    Values =
        [{Key, dyno_histogram:quantile(Histogram, Q)} || {Key, Q} <- ?QUANTILES] ++
            [{~"max", Max}, {~"mean", dyno_histogram:mean(Histogram)}],
    [
        {<<Name/binary, $., Key/binary>>, <<Title/binary, ", ", Key/binary>>, Ns, ~"ns", Count}
     || {Key, Ns} <- Values
    ].

of_kinds(DurationNs, Result) ->
    lists:append([
        of_operations(prefix(~"operation", Kind), <<" of ", Kind/binary>>, DurationNs, Snapshot)
     || {Kind, Snapshot} <- dyno_load_result:named_kinds(Result)
    ]).

of_phase(#{name := Name, duration_ns := LengthNs, total := Total}) ->
    of_operations(prefix(~"phase", plain(Name)), <<" in ", Name/binary>>, LengthNs, Total).

prefix(Group, Name) -> <<Group/binary, $., Name/binary, $.>>.

%% A phase's name within a metric's: words of a threshold have no spaces.
plain(Name) ->
    iolist_to_binary(re:replace(Name, ~"[^[:alnum:]_-]+", ~"_", [global, unicode, ucp])).

of_open_loads(Total, Parts) ->
    case [Part || #{arrivals := Arrivals} = Part <- Parts, Arrivals =/= undefined] of
        [] -> [];
        Open -> open_metrics(Total, Open)
    end.

open_metrics(#{queued := Queued, lagged := Lagged, schedule_lag := Lag}, Parts) ->
    %% Of the time in which arrivals came.
    Seconds = lists:sum([LengthNs || #{duration_ns := LengthNs} <- Parts]) / 1.0e9,
    Arrivals = lists:sum([N || #{arrivals := N} <- Parts]),
    Started = lists:sum([N || #{total := #{started := N}} <- Parts]),
    Offered =
        case Parts of
            [#{rate_per_s := Rate}] when is_number(Rate) -> Rate;
            _ -> Arrivals / Seconds
        end,
    Count = fun(Is) -> length(lists:filter(Is, Parts)) end,
    [
        metric(<<"load.", Name/binary>>, Title, Value, Unit, Samples)
     || {Name, Title, Value, Unit, Samples} <- [
            {~"offered", ~"Offered load", Offered, ~"1/s", 1},
            {~"achieved", ~"Achieved load", Started / Seconds, ~"1/s", Started},
            {~"achieved_share", ~"Achieved share of the offered load",
                min(1.0, Started / max(1, Arrivals)), ~"ratio", Started},
            {~"dropped", ~"Arrivals that never started",
                lists:sum([dyno_load_result:dropped(Part) || Part <- Parts]), ~"count", 1},
            {~"queued", ~"Arrivals that were due while all workers were busy", Queued, ~"count",
                Started},
            {~"lagged", ~"Arrivals that the generator began over 1 ms late", Lagged, ~"count",
                Started},
            {~"saturated", ~"Phases in which the load was saturated",
                Count(fun(Part) -> not dyno_load_verdict:is_kept(Part) end), ~"count", 1},
            {~"generator_limited", ~"Phases in which the generator was the bottleneck",
                Count(fun(Part) -> dyno_load_verdict:of_part(Part) =:= generator end), ~"count", 1}
            | [
                {~"schedule_lag.p99", ~"Schedule lag of the generator, p99",
                    dyno_histogram:quantile(Lag, 0.99), ~"ns", N}
             || #{count := N} <- [Lag], N > 0
            ]
        ]
    ].

of_load_nodes(#{nodes := [#{node := Node}]}) when Node =:= node() ->
    [];
of_load_nodes(#{nodes := Nodes}) ->
    Lost = [Node || #{lost_at_ms := AtMs} = Node <- Nodes, AtMs =/= undefined],
    [
        metric(~"load.nodes", ~"Load nodes", length(Nodes), ~"count", 1),
        metric(~"load.nodes_lost", ~"Load nodes that went down", length(Lost), ~"count", 1)
    ].

of_search(#{search := #{rate_per_s := Rate, high_per_s := High, tried := Tried}}) ->
    Probes = lists:sum([Held + Failed || #{held := Held, failed := Failed} <- Tried]),
    [
        metric(Name, Title, Value, ~"1/s", Probes)
     || {Name, Title, Value} <- [
            {~"load.search.rate", ~"Highest rate at which the objective holds", Rate},
            {~"load.search.high", ~"Lowest rate at which it does not", High}
        ],
        is_number(Value)
    ];
of_search(_Result) ->
    [].

metric(Name, Title, Value, Unit, Count) ->
    dyno_recording_part:metric(Name, Title, Value, Unit, Count, ~"load").

-doc "Its distributions.".
-spec histograms(dyno_load_result:t()) -> [part()].
histograms(#{total := #{response := Response, service := Service, schedule_lag := Lag}} = Result) ->
    [
        histogram(Name, Title, Histogram)
     || {Name, Title, #{count := Count} = Histogram} <- [
            {~"latency", ~"Response time", Response},
            {~"service", ~"Service time", Service},
            {~"load.schedule_lag", ~"Schedule lag of the generator", Lag}
            | [
                {<<(prefix(~"operation", Kind))/binary, "latency">>, ~"Response time", OfKind}
             || {Kind, #{response := OfKind}} <- dyno_load_result:named_kinds(Result)
            ]
        ],
        Count > 0
    ].

histogram(Name, Title, #{count := Count, sum := Sum, min := Min, max := Max} = Histogram) ->
    #{
        name => Name,
        title => Title,
        unit => ~"ns",
        group => ~"load",
        labels => #{},
        count => Count,
        sum => Sum,
        min => Min,
        max => Max,
        scheme => dyno_histogram:scheme(),
        buckets => [tuple_to_list(B) || B <- dyno_histogram:to_recording(Histogram)]
    }.

-doc "Its course.".
-spec series([dyno_load_source:interval()]) -> [part()].
series(Intervals) ->
    Times = [T || #{time_ms := T} <- Intervals],
    [
        dyno_recording_part:series(Name, Unit, ~"load", Title, undefined, Times, Values)
     || {Key, Name, Unit, Title} <- [
            {offered_per_s, ~"load.offered", ~"1/s", ~"Offered load"},
            {throughput_per_s, ~"load.throughput", ~"1/s", ~"Throughput"},
            {errors_per_s, ~"load.errors", ~"count/s", ~"Errors"},
            {p50_ns, ~"load.latency.p50", ~"ns", ~"Response time, p50"},
            {p99_ns, ~"load.latency.p99", ~"ns", ~"Response time, p99"},
            {max_ns, ~"load.latency.max", ~"ns", ~"Response time, max"}
        ],
        Values <- [[map_get(Key, Interval) || Interval <- Intervals]],
        Values =/= [],
        Key =/= offered_per_s orelse lists:any(fun is_number/1, Values)
    ].

-doc "What a probe of a search shows of its objective.".
-spec outcome([dyno_threshold:t()], dyno_load_result:part()) -> dyno_load_search:outcome().
outcome(Objective, #{duration_ns := LengthNs, total := Total} = Part) ->
    Metrics =
        of_operations(~"", ~"", LengthNs, Total) ++ of_open_loads(Total, [Part]) ++
            of_kinds(LengthNs, Part),
    Document = dyno_recording:document(#{
        runs => [#{id => ~"probe", size => 0, status => complete, metrics => Metrics}], tables => []
    }),
    Verdicts = lists:append([dyno_threshold:evaluate(T, Document) || T <- Objective]),
    Holds = lists:all(fun passes/1, Verdicts),
    case {dyno_load_verdict:is_kept(Part) andalso Holds, dyno_load_verdict:of_part(Part)} of
        {true, _} -> held;
        {false, kept} -> objective;
        {false, Why} -> Why
    end.

passes(#{result := Result}) -> Result =:= pass;
passes(#{~"result" := Result}) -> Result =:= ~"pass".
