%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_figures).
-moduledoc false.
%% The load's part of a run in the recording: of the whole load, of each kind of operation and of
%% each phase. Pure.

-export([metrics/1, histograms/1, series/1, outcome/2]).

-import(dyno_recording_part, [series/7]).

-define(QUANTILES, [{~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}, {~"p99.9", 0.999}]).

-type part() :: #{atom() => term()}.

-doc "The load's single numbers.".
-spec metrics(dyno_load_result:t()) -> [part()].
metrics(#{total := Total} = Result) ->
    DurationNs = loaded_ns(Result),
    of_snapshot(~"", ~"", DurationNs, Total) ++ open_metrics(Total, Result) ++
        others(DurationNs, Result).

%% A search's figures are those of the probes at the rate that was found.
loaded_ns(#{search := _, parts := Parts}) ->
    lists:sum([Length || #{duration_ns := Length} <- Parts]);
loaded_ns(#{duration_ns := DurationNs}) ->
    DurationNs.

%% A prefix says of which kind of operation or phase they are.
of_snapshot(Prefix, Whose, DurationNs, Snapshot) ->
    #{response := Response, successes := Ok, in_time := InTime, failures := Failed} = Snapshot,
    Seconds = max(DurationNs, 1) / 1.0e9,
    All = Ok + Failed,
    Name = fun(Text) -> <<Prefix/binary, Text/binary>> end,
    Title = fun(Text) -> <<Text/binary, Whose/binary>> end,
    [
        metric(Name(~"throughput"), Title(~"Throughput"), InTime / Seconds, ~"1/s", InTime),
        metric(Name(~"operations.count"), Title(~"Operations"), Ok, ~"count", Ok),
        metric(Name(~"errors.count"), Title(~"Errors"), Failed, ~"count", All),
        metric(Name(~"errors.rate"), Title(~"Share of errors"), Failed / max(1, All), ~"ratio", All)
    ] ++
        time_metrics(Name(~"latency"), Title(~"Response time"), Response) ++
        case Snapshot of
            #{service := undefined} -> [];
            #{service := Service} -> time_metrics(Name(~"service"), Title(~"Service time"), Service)
        end.

time_metrics(_Prefix, _Title, #{count := 0}) ->
    [];
time_metrics(Prefix, Title, #{count := Count, max := Max} = Histogram) ->
    [
        metric(
            <<Prefix/binary, ".", Name/binary>>,
            <<Title/binary, ", ", Name/binary>>,
            dyno_histogram:quantile(Histogram, Q),
            ~"ns",
            Count
        )
     || {Name, Q} <- ?QUANTILES
    ] ++
        [
            metric(<<Prefix/binary, ".max">>, <<Title/binary, ", max">>, Max, ~"ns", Count),
            metric(
                <<Prefix/binary, ".mean">>,
                <<Title/binary, ", mean">>,
                dyno_histogram:mean(Histogram),
                ~"ns",
                Count
            )
        ].

open_metrics(Snapshot, #{parts := All}) ->
    case [Part || #{asked := Asked} = Part <- All, Asked =/= undefined] of
        [] ->
            [];
        Parts ->
            %% Of the time in which arrivals came.
            Seconds = lists:sum([Length || #{duration_ns := Length} <- Parts]) / 1.0e9,
            Asked = lists:sum([A || #{asked := A} <- Parts]),
            Begun = lists:sum([begun(Part) || Part <- Parts]),
            Offered =
                case Parts of
                    [#{rate_per_s := Rate}] when is_number(Rate) -> Rate;
                    _ -> Asked / Seconds
                end,
            [
                metric(~"load.offered", ~"Offered load", Offered, ~"1/s", 1),
                metric(~"load.achieved", ~"Achieved load", Begun / Seconds, ~"1/s", Begun),
                metric(
                    ~"load.achieved_share", ~"Achieved share of the offered load",
                    min(1.0, Begun / max(1, Asked)), ~"ratio", Begun
                ),
                metric(
                    ~"load.dropped", ~"Arrivals that never started", dropped(Parts), ~"count", 1
                ),
                metric(
                    ~"load.waited", ~"Arrivals that were due while all workers were busy",
                    map_get(waited, Snapshot), ~"count", Begun
                ),
                metric(
                    ~"load.late", ~"Arrivals that the generator began over 1 ms late",
                    map_get(late, Snapshot), ~"count", Begun
                ),
                metric(
                    ~"load.saturated", ~"Phases in which the load was saturated",
                    length([P || P <- Parts, not dyno_load_verdict:is_kept(P)]), ~"count", 1
                ),
                metric(
                    ~"load.generator_limited", ~"Phases in which the generator was the bottleneck",
                    length([P || P <- Parts, dyno_load_verdict:of_part(P) =:= generator]),
                    ~"count", 1
                )
            ] ++ lateness(Snapshot)
    end.

lateness(#{lateness := #{count := Count} = Lateness}) when Count > 0 ->
    P99 = dyno_histogram:quantile(Lateness, 0.99),
    [metric(~"load.lateness.p99", ~"Lateness of the generator, p99", P99, ~"ns", Count)];
lateness(_Snapshot) ->
    [].

begun(#{total := #{started := Started}}) -> Started.

dropped(Parts) ->
    lists:sum([max(0, round(Asked) - begun(Part)) || #{asked := Asked} = Part <- Parts]).

others(DurationNs, #{parts := Parts, workers := Workers, nodes := Nodes} = Report) ->
    [metric(~"workers.max", ~"Workers, at most", Workers, ~"count", 1)] ++
        [
            metric(Name, Title, length(Which), ~"count", 1)
         || {Name, Title, Which} <- [
                {~"load.nodes", ~"Load nodes", Nodes},
                {~"load.nodes_lost", ~"Load nodes that went down", [
                    N
                 || #{lost_at_ms := At} = N <- Nodes, At =/= undefined
                ]}
            ],
            is_apart(Nodes)
        ] ++
        searched(Report) ++
        kind_metrics(DurationNs, Report) ++
        lists:append([
            of_snapshot(
                <<"phase.", (plain(Name))/binary, ".">>, <<" in ", Name/binary>>, PartNs, Total
            )
         || #{name := Name, duration_ns := PartNs, total := Total} <- Parts, length(Parts) > 1
        ]).

kind_metrics(DurationNs, Of) ->
    lists:append([
        of_snapshot(
            <<"operation.", (name(Kind))/binary, ".">>,
            <<" of ", (name(Kind))/binary>>,
            DurationNs,
            Snapshot
        )
     || {Kind, Snapshot} <- kinds(Of)
    ]).

is_apart([#{node := Node}]) -> Node =/= node();
is_apart(_Nodes) -> true.

searched(#{search := #{rate_per_s := Rate, high_per_s := High, tried := Tried}}) ->
    Probes = lists:sum([Held + Failed || #{held := Held, failed := Failed} <- Tried]),
    [
        metric(
            ~"load.search.rate", ~"Highest rate at which the objective holds", Rate, ~"1/s", Probes
        )
    ] ++
        [
            metric(~"load.search.high", ~"Lowest rate at which it does not", High, ~"1/s", Probes)
         || is_number(High)
        ];
searched(_Report) ->
    [].

%% A suite with one kind of operation has no figures apart.
kinds(#{kinds := Kinds}) ->
    [KS || {Kind, _} = KS <- lists:sort(maps:to_list(Kinds)), Kind =/= undefined].

name(Kind) -> atom_to_binary(Kind).

%% A phase's name in a metric's: words of a threshold have no spaces.
plain(Name) ->
    iolist_to_binary(re:replace(Name, ~"[^[:alnum:]_-]+", ~"_", [global, unicode, ucp])).

metric(Name, Title, Value, Unit, Count) ->
    dyno_recording_part:metric(Name, Title, Value, Unit, Count, ~"load").

-doc "Its distributions.".
-spec histograms(dyno_load_result:t()) -> [part()].
histograms(#{total := Total} = Result) ->
    of_all(~"", Total) ++
        [
            histogram(<<"operation.", (name(Kind))/binary, ".">>, ~"latency", ~"Response time", R)
         || {Kind, #{response := R}} <- kinds(Result), has_values(R)
        ].

of_all(Prefix, Snapshot) ->
    [
        histogram(Prefix, Name, Title, map_get(Key, Snapshot))
     || {Key, Name, Title} <- [
            {response, ~"latency", ~"Response time"},
            {service, ~"service", ~"Service time"},
            {lateness, ~"load.lateness", ~"Lateness of the generator"}
        ],
        has_values(map_get(Key, Snapshot))
    ].

has_values(undefined) -> false;
has_values(#{count := Count}) -> Count > 0.

histogram(Prefix, Name, Title, #{count := Count, sum := Sum, min := Min, max := Max} = Histogram) ->
    #{
        name => <<Prefix/binary, Name/binary>>,
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
        series(Name, Unit, ~"load", Title, undefined, Times, [map_get(Key, I) || I <- Intervals])
     || {Key, Name, Unit, Title} <- [
            {offered_per_s, ~"load.offered", ~"1/s", ~"Offered load"},
            {throughput_per_s, ~"load.throughput", ~"1/s", ~"Throughput"},
            {errors_per_s, ~"load.errors", ~"count/s", ~"Errors"},
            {p50_ns, ~"load.latency.p50", ~"ns", ~"Response time, p50"},
            {p99_ns, ~"load.latency.p99", ~"ns", ~"Response time, p99"},
            {max_ns, ~"load.latency.max", ~"ns", ~"Response time, max"}
        ],
        Intervals =/= [],
        Key =/= offered_per_s orelse
            lists:any(fun(#{offered_per_s := Rate}) -> Rate =/= null end, Intervals)
    ].

-doc "What a probe of a search shows of its objective.".
-spec outcome([dyno_threshold:t()], dyno_load_result:part()) -> dyno_load_search:outcome().
outcome(Objective, #{duration_ns := DurationNs, total := Total} = Part) ->
    Metrics =
        of_snapshot(~"", ~"", DurationNs, Total) ++
            open_metrics(Total, #{parts => [Part]}) ++ kind_metrics(DurationNs, Part),
    Document = dyno_recording:document(#{
        runs => [#{id => ~"probe", size => 0, status => complete, metrics => Metrics}], tables => []
    }),
    Holds = lists:all(
        fun(#{result := Result}) -> Result =:= pass;
           (#{~"result" := Result}) -> Result =:= ~"pass"
        end,
        lists:append([dyno_threshold:evaluate(T, Document) || T <- Objective])
    ),
    case {dyno_load_verdict:is_kept(Part) andalso Holds, dyno_load_verdict:of_part(Part)} of
        {true, _} -> held;
        {false, kept} -> objective;
        {false, Why} -> Why
    end.
