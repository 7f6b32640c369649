%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_metrics).
-moduledoc false.
%% The metrics, histograms and series of a load in a recording. Pure.

-export([metrics/1, histograms/1, series/1, outcome/2, operations/0]).
-export([known/0, known_of_probe/0]).

-type part() :: #{atom() => term()}.

-type description() ::
    {Name :: binary(), Title :: binary(), Unit :: binary(), fun(
        (term()) -> {Value :: number() | null, Samples :: non_neg_integer()} | none
    )}.

-define(LAG, ~"load.schedule_lag").
-define(QUANTILES, [
    {~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}, {~"p99.9", 0.999}, {~"max", 1.0}
]).

-spec metrics(dyno_load_result:t()) -> [part()].
metrics(#{total := Total, parts := Parts} = Result) ->
    DurationNs = loaded_ns(Result),
    lists:append([
        described(operations(), {DurationNs, Total}),
        of_open_loads(Total, Parts),
        described(of_all(), Result),
        by_operation(DurationNs, Result),
        lists:append([of_phase(Part) || Part <- Parts, length(Parts) > 1])
    ]).

-doc "All metrics and series of a load; `*` stands for a name from a suite.".
-spec known() -> dyno_threshold:known().
known() ->
    #{metrics := OfProbe} = Known = known_of_probe(),
    Known#{
        metrics := OfProbe ++ named(of_all() ++ of_each(~"phase")),
        series => [#{name => Name, unit => Unit} || {_, Name, Unit, _} <- courses()]
    }.

-spec known_of_probe() -> dyno_threshold:known().
known_of_probe() ->
    Histograms = [~"latency", ~"service", ?LAG, <<(prefix(~"operation", ~"*"))/binary, "latency">>],
    #{
        metrics => named(operations() ++ open_loads() ++ of_each(~"operation")),
        histograms => [#{name => Name, unit => ~"ns"} || Name <- Histograms]
    }.

named(Descriptions) -> [#{name => Name, unit => Unit} || {Name, _, Unit, _} <- Descriptions].

of_each(Group) -> of_operations(prefix(Group, ~"*"), ~"").

described(Descriptions, Measured) ->
    [
        maps:merge(metric(Name, Title, Value, Unit, Samples), interval(Name, Measured))
     || {Name, Title, Unit, Of} <- Descriptions, {Value, Samples} <- [Of(Measured)]
    ].

interval(~"load.search.rate", #{search := #{low_per_s := Low, high_per_s := High}}) when
    is_number(High)
->
    #{low => Low, high => High};
interval(~"load.search.rate", #{search := #{low_per_s := Low}}) ->
    #{low => Low, high => null};
interval(Name, {_Ns, #{successes := Ok, failures := Failed} = Of}) ->
    %% What never ended may have failed. A closed load begins nothing while its workers are not
    %% prepared again, so more would have failed.
    #{not_prepared := NotPrepared, service := Service} = Of,
    case {dyno_load_recorder:endless(Of), lists:last(string:split(Name, ~"errors."))} of
        {Endless, ~"rate"} when NotPrepared > 0, Service =:= undefined ->
            #{low => Failed / max(1, Ok + Failed + Endless), high => null};
        {0, _} -> #{};
        {Endless, ~"rate"} -> ends(Failed, Endless, Ok + Failed + Endless);
        {Endless, ~"count"} -> ends(Failed, Endless, 1);
        _ -> #{}
    end;
interval(_Name, _Measured) ->
    #{}.

ends(Failed, Endless, All) -> #{low => Failed / All, high => (Failed + Endless) / All}.

%% A search's metrics are those of the probes at the rate found.
loaded_ns(#{search := _, parts := Parts}) ->
    lists:sum([LengthNs || #{duration_ns := LengthNs} <- Parts]);
loaded_ns(#{duration_ns := DurationNs}) ->
    DurationNs.

of_operations(Prefix, Suffix) ->
    [
        {<<Prefix/binary, Name/binary>>, <<Title/binary, Suffix/binary>>, Unit, Value}
     || {Name, Title, Unit, Value} <- operations()
    ].

-spec operations() -> [description()].
operations() ->
    [
        {~"throughput", ~"Throughput", ~"1/s", fun({Ns, #{successes := Ok} = Of}) ->
            {dyno_load_recorder:per_s(Of, Ns), Ok}
        end},
        {~"operations.count", ~"Operations", ~"count", fun({_, #{successes := Ok}}) ->
            {Ok, Ok}
        end},
        {~"errors.count", ~"Errors", ~"count", fun({_, #{successes := Ok, failures := Failed}}) ->
            {Failed, Ok + Failed}
        end},
        {~"errors.rate", ~"Share of errors", ~"ratio", fun(
            {_, #{successes := Ok, failures := Failed}}
        ) ->
            {Failed / max(1, Ok + Failed), Ok + Failed}
        end}
    ] ++ times(~"latency", ~"Response time", response) ++
        times(~"service", ~"Service time", service).

times(Name, Title, Key) ->
    [
        {<<Name/binary, $., Of/binary>>, <<Title/binary, ", ", Of/binary>>, ~"ns", fun
            ({_, #{Key := #{count := Count} = Histogram} = All}) when Count > 0 ->
                {Value(Histogram, dyno_load_recorder:endless(All)), Count};
            (_) ->
                none
        end}
     || {Of, Value} <-
            [{Of, fun(H, Endless) -> quantile(H, Endless, Q) end} || {Of, Q} <- ?QUANTILES] ++
                [{~"mean", fun mean/2}]
    ].

%% What never ended took longer than what did. If the rank is among it, the value is not known.
quantile(#{count := Count} = Histogram, Endless, Q) ->
    case Q * (Count + Endless) / Count of
        Share when Share =< 1 -> dyno_histogram:quantile(Histogram, Share);
        _ -> null
    end.

mean(Histogram, 0) -> dyno_histogram:mean(Histogram);
mean(_Histogram, _Endless) -> null.

by_operation(DurationNs, Result) ->
    lists:append([
        described(
            of_operations(prefix(~"operation", Operation), <<" of ", Operation/binary>>),
            {DurationNs, Snapshot}
        )
     || {Operation, Snapshot} <- dyno_load_result:named_operations(Result)
    ]).

of_phase(#{name := Name, duration_ns := LengthNs, total := Total}) ->
    Prefix = prefix(~"phase", dyno_recording_part:word(Name)),
    Descriptions = of_operations(Prefix, <<" in ", Name/binary>>),
    described(Descriptions, {LengthNs, Total}).

prefix(Group, Name) -> <<Group/binary, $., Name/binary, $.>>.

of_open_loads(Total, Parts) ->
    case [Part || #{arrivals := Arrivals} = Part <- Parts, Arrivals =/= undefined] of
        [] -> [];
        Open -> described(open_loads(), arrived(Total, Open))
    end.

arrived(Total, Parts) ->
    %% The time in which arrivals came.
    Seconds = lists:sum([LengthNs || #{duration_ns := LengthNs} <- Parts]) / 1.0e9,
    Arrivals = lists:sum([N || #{arrivals := N} <- Parts]),
    Offered =
        case Parts of
            [#{rate_per_s := Rate}] when is_number(Rate) -> Rate;
            _ -> Arrivals / Seconds
        end,
    (maps:with([queued, lagged, schedule_lag], Total))#{
        parts => Parts,
        seconds => Seconds,
        arrivals => Arrivals,
        offered => Offered,
        started => lists:sum([N || #{total := #{started := N}} <- Parts])
    }.

-spec open_loads() -> [description()].
open_loads() ->
    Phases = fun(Is) -> fun(#{parts := Parts}) -> {length(lists:filter(Is, Parts)), 1} end end,
    IsSaturated = fun(Part) -> not dyno_load_verdict:is_kept(Part) end,
    IsLimited = fun(Part) -> dyno_load_verdict:of_part(Part) =:= generator end,
    Started = fun(Key) -> fun(#{Key := Count, started := N}) -> {Count, N} end end,
    [
        {<<"load.", Name/binary>>, Title, Unit, Of}
     || {Name, Title, Unit, Of} <- [
            {~"offered", ~"Offered load", ~"1/s", fun(#{offered := Rate}) -> {Rate, 1} end},
            {~"achieved", ~"Achieved load", ~"1/s", fun(#{started := N, seconds := Seconds}) ->
                {N / Seconds, N}
            end},
            {~"achieved_share", ~"Achieved share of the offered load", ~"ratio", fun(
                #{started := N, arrivals := Arrivals}
            ) ->
                {min(1.0, N / max(1, Arrivals)), N}
            end},
            {~"dropped", ~"Arrivals that never started", ~"count", fun(#{parts := Parts}) ->
                {lists:sum([dyno_load_result:dropped(Part) || Part <- Parts]), 1}
            end},
            {~"queued", ~"Arrivals that were due while all workers were busy", ~"count",
                Started(queued)},
            {~"lagged", ~"Arrivals that the generator began over 1 ms late", ~"count",
                Started(lagged)},
            {~"saturated", ~"Phases in which the load was saturated", ~"count",
                Phases(IsSaturated)},
            {~"generator_limited", ~"Phases in which the generator was the bottleneck", ~"count",
                Phases(IsLimited)},
            {~"schedule_lag.p99", ~"Schedule lag of the generator, p99", ~"ns", fun
                (#{schedule_lag := #{count := N} = Lag}) when N > 0 ->
                    {dyno_histogram:quantile(Lag, 0.99), N};
                (_) ->
                    none
            end}
        ]
    ].

-spec of_all() -> [description()].
of_all() ->
    [
        {~"workers.max", ~"Workers, at most", ~"count", fun(#{workers := N}) -> {N, 1} end},
        {~"generator.cpu", ~"CPU of the generator (1.0 is one core)", ~"ratio", fun
            (#{cpu_ms := Ms, duration_ns := Ns} = Result) when
                Ns > 0, not is_map_key(search, Result)
            ->
                {Ms * 1.0e6 / Ns, 1};
            (_Result) ->
                none
        end},
        {~"load.nodes", ~"Load nodes", ~"count", fun(Result) ->
            apart(fun(Nodes) -> length(Nodes) end, Result)
        end},
        {~"load.nodes_lost", ~"Load nodes that went down", ~"count", fun(Result) ->
            apart(
                fun(Nodes) ->
                    length([AtMs || #{lost_at_ms := AtMs} <- Nodes, AtMs =/= undefined])
                end,
                Result
            )
        end},
        {~"load.search.rate", ~"Highest rate at which the objective holds", ~"1/s", fun(Result) ->
            searched(rate_per_s, Result)
        end},
        {~"load.search.high", ~"The highest rate is below", ~"1/s", fun(Result) ->
            searched(high_per_s, Result)
        end}
    ].

apart(_Count, #{nodes := [#{node := Node}]}) when Node =:= node() -> none;
apart(Count, #{nodes := Nodes}) -> {Count(Nodes), 1}.

searched(Key, #{search := #{tried := Tried} = Search}) ->
    case Search of
        #{Key := Rate} when is_number(Rate) ->
            {Rate, lists:sum([Held + Failed || #{held := Held, failed := Failed} <- Tried])};
        #{} ->
            none
    end;
searched(_Key, _Result) ->
    none.

metric(Name, Title, Value, Unit, Count) ->
    dyno_recording_part:metric(Name, Title, Value, Unit, Count, ~"load").

-spec histograms(dyno_load_result:t() | dyno_load_result:part()) -> [part()].
histograms(#{total := Total} = Result) ->
    #{response := Response, service := Service, schedule_lag := Lag} = Total,
    Endless = dyno_load_recorder:endless(Total),
    [
        maps:merge(
            #{beyond => N || N <- [Beyond], N > 0},
            dyno_recording_part:histogram(Name, ~"ns", ~"load", Title, #{}, Histogram)
        )
     || {Name, Title, #{count := Count} = Histogram, Beyond} <- [
            {~"latency", ~"Response time", Response, Endless},
            {~"service", ~"Service time", Service, Endless},
            {?LAG, ~"Schedule lag of the generator", Lag, 0}
            | [
                {
                    <<(prefix(~"operation", Name))/binary, "latency">>,
                    ~"Response time",
                    Times,
                    dyno_load_recorder:endless(Of)
                }
             || {Name, #{response := Times} = Of} <- dyno_load_result:named_operations(Result)
            ]
        ],
        Count > 0
    ].

-spec series([dyno_load_source:interval()]) -> [part()].
series(Intervals) ->
    Times = [T || #{time_ms := T} <- Intervals],
    [
        dyno_recording_part:series(Name, Unit, ~"load", Title, undefined, Times, Values)
     || {Key, Name, Unit, Title} <- courses(),
        Values <- [[map_get(Key, Interval) || Interval <- Intervals]],
        Values =/= [],
        Key =/= offered_per_s orelse lists:any(fun is_number/1, Values)
    ].

courses() ->
    [
        {offered_per_s, ~"load.offered", ~"1/s", ~"Offered load"},
        {throughput_per_s, ~"load.throughput", ~"1/s", ~"Throughput"},
        {errors_per_s, ~"load.errors", ~"count/s", ~"Errors"},
        {p50_ns, ~"load.latency.p50", ~"ns", ~"Response time, p50"},
        {p99_ns, ~"load.latency.p99", ~"ns", ~"Response time, p99"},
        {max_ns, ~"load.latency.max", ~"ns", ~"Response time, max"}
    ].

-spec outcome([dyno_threshold:t()], dyno_load_result:part()) -> dyno_load_search:outcome().
outcome(Objective, #{duration_ns := LengthNs, total := Total} = Part) ->
    Metrics =
        described(operations(), {LengthNs, Total}) ++ of_open_loads(Total, [Part]) ++
            by_operation(LengthNs, Part),
    Probe = #{
        id => ~"probe",
        size => 0,
        status => complete,
        %% A probe does not wait for long operations: their end is no failure.
        metrics => [maps:without([low, high], Metric) || Metric <- Metrics],
        histograms => histograms(Part)
    },
    Document = dyno_recording:document(#{runs => [Probe], tables => []}),
    Verdicts = lists:append([dyno_threshold:evaluate(T, Document) || T <- Objective]),
    Holds = lists:all(fun(#{~"result" := Result}) -> Result =:= ~"pass" end, Verdicts),
    %% A probe is too short for a slowly growing queue to break the objective.
    IsGrowing = dyno_load_recorder:is_growing(Total, LengthNs),
    case {dyno_load_verdict:is_kept(Part) andalso Holds, dyno_load_verdict:of_part(Part)} of
        {true, _} when IsGrowing -> saturated;
        {true, _} -> held;
        {false, kept} -> objective;
        {false, Why} -> Why
    end.
