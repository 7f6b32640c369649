%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_result).
-moduledoc false.
%% A load's result, merged from all pools by part, its histograms bucket by bucket. Pure.

%% Building
-export([merge/2, of_search/3, node_of/3]).
%% Intervals
-export([offered/3, interval/5]).
%% Reading
-export([named_operations/1, dropped/1, to_recording/2, known/0]).
-export_type([t/0, note/0, merged/0, part/0, load_node/0]).

-type part() :: #{
    name := binary(),
    model := closed | open,
    %% From the measured part's begin.
    start_ns := non_neg_integer(),
    duration_ns := pos_integer(),
    %% Arrivals due, of open loads.
    arrivals := number() | undefined,
    rate_per_s := number() | undefined,
    schedule := dyno_load_schedule:schedule() | undefined,
    %% The largest number of workers.
    workers := non_neg_integer(),
    operations := #{atom() => dyno_load_recorder:snapshot()},
    total := dyno_load_recorder:snapshot()
}.

-doc "A result without the generator's own facts: length, nodes, notes.".
-type merged() :: #{parts := [part()], total := dyno_load_recorder:snapshot(), atom() => term()}.

-type load_node() :: #{
    node := node(),
    offset_ns := integer(),
    uncertain_ns := non_neg_integer(),
    successes := non_neg_integer(),
    failures := non_neg_integer(),
    workers := non_neg_integer(),
    lost_at_ms := integer() | undefined
}.

-type note() :: {feed_ended, atom()} | {not_grown, binary()}.

-doc "The whole result of a load. An interrupted load has no parts.".
-type t() :: #{
    parts := [part()],
    operations := #{atom() => dyno_load_recorder:snapshot()},
    total := dyno_load_recorder:snapshot(),
    errors := [dyno_load_recorder:failed()],
    workers := non_neg_integer(),
    under_way := non_neg_integer(),
    run_queue := float(),
    %% Of the load's nodes on dyno's machine.
    cpu_ms => non_neg_integer(),
    duration_ns := non_neg_integer(),
    seed := integer(),
    nodes := [load_node()],
    notes := [note()],
    not_ended := [binary()],
    search => dyno_load_search:result(),
    %% The machine's load in probes too slow to cause it.
    busy_below => float() | undefined
}.

%% A rate lower by this factor uses little of the machine.
-define(MUCH_SLOWER, 16).

-spec merge([dyno_load_part:t()], [dyno_load_pool:snapshot()]) -> merged().
merge(Round, Snapshots) ->
    {Parts, _} = lists:mapfoldl(
        fun({Nth, #{duration_ns := Length} = Part}, Start) ->
            {part(Nth, Part, Start, Snapshots), Start + Length}
        end,
        0,
        lists:enumerate(Round)
    ),
    Cpu = [Ms || #{cpu_ms := Ms} <- Snapshots],
    #{cpu_ms => lists:sum(Cpu) || Cpu =/= []}#{
        parts => Parts,
        operations => operations([Operations || #{operations := Operations} <- Parts]),
        total => total([Total || #{total := Total} <- Parts]),
        errors => dyno_load_recorder:merge_errors([Errors || #{errors := Errors} <- Snapshots]),
        workers => lists:sum([Workers || #{workers := Workers} <- Snapshots]),
        under_way => lists:sum([UnderWay || #{under_way := UnderWay} <- Snapshots]),
        run_queue => lists:max([0.0 | [Q || #{run_queue := Q} <- Snapshots]]),
        busy => lists:max([0.0 | [Busy || #{busy := Busy} <- Snapshots]])
    }.

part(Nth, #{name := Name, model := Model, duration_ns := Length} = Part, Start, Snapshots) ->
    Operations = operations([
        lists:nth(Nth, Parts)
     || #{parts := Parts} <- Snapshots, length(Parts) >= Nth
    ]),
    Drawn = [
        Count
     || #{arrivals := All} <- Snapshots,
        length(All) >= Nth,
        Count <- [lists:nth(Nth, All)],
        is_integer(Count)
    ],
    #{
        name => Name,
        model => Model,
        start_ns => Start,
        duration_ns => Length,
        arrivals => due(Part, Drawn),
        rate_per_s => maps:get(rate_per_s, Part, undefined),
        schedule => maps:get(schedule, Part, undefined),
        workers => min(
            map_get(max_workers, Part), lists:sum([Workers || #{workers := Workers} <- Snapshots])
        ),
        operations => Operations,
        total => total(maps:values(Operations))
    }.

%% Every node draws all random times, so each node's count is the total.
due(#{schedule := _}, [Count | _]) ->
    Count;
due(#{schedule := Schedule, duration_ns := Length}, []) ->
    dyno_load_schedule:count(Schedule, Length);
due(_Closed, _Drawn) ->
    undefined.

operations(Maps) ->
    lists:foldl(
        fun(Operations, All) ->
            maps:merge_with(fun(_, A, B) -> dyno_load_recorder:merge(A, B) end, All, Operations)
        end,
        #{},
        Maps
    ).

total(Snapshots) ->
    lists:foldl(fun dyno_load_recorder:merge/2, dyno_load_recorder:empty(), Snapshots).

-doc "Arrivals due a second between two times; null for closed loads.".
-spec offered([part()], integer(), integer()) -> float() | null.
offered(Parts, FromNs, ToNs) when ToNs > FromNs ->
    Due = [
        dyno_load_schedule:count(Schedule, clip(ToNs - Start, Length)) -
            dyno_load_schedule:count(Schedule, clip(FromNs - Start, Length))
     || #{schedule := Schedule, start_ns := Start, duration_ns := Length} <- Parts,
        Schedule =/= undefined
    ],
    case Due of
        [] -> null;
        _ -> lists:sum(Due) * 1.0e9 / (ToNs - FromNs)
    end;
offered(_Parts, _FromNs, _ToNs) ->
    null.

clip(Ns, Length) -> max(0, min(Ns, Length)).

-spec interval(
    TimeNs :: integer(),
    LengthNs :: pos_integer(),
    Last :: dyno_load_recorder:snapshot(),
    Now :: dyno_load_recorder:snapshot(),
    Offered :: float() | null
) -> dyno_load_source:interval().
interval(TimeNs, LengthNs, Last, Now, Offered) ->
    Between = dyno_histogram:subtract(map_get(response, Now), map_get(response, Last)),
    PerSecond = fun(Key) ->
        (map_get(Key, Now) - map_get(Key, Last)) * 1_000_000_000 / LengthNs
    end,
    #{
        time_ms => TimeNs div 1_000_000,
        throughput_per_s => PerSecond(in_time),
        errors_per_s => PerSecond(failures),
        offered_per_s => Offered,
        p50_ns => quantile(Between, 0.5),
        p99_ns => quantile(Between, 0.99),
        max_ns => quantile(Between, 1.0)
    }.

quantile(Snapshot, Q) ->
    case dyno_histogram:quantile(Snapshot, Q) of
        undefined -> null;
        Value -> Value
    end.

-doc "A search's result: of the probes at the rate found, or else of the last probes.".
-spec of_search(dyno_load_search:result(), [{number(), merged()}], merged()) -> merged().
of_search(#{rate_per_s := Found} = Result, [{Last, _} | _] = Probes, Merged) ->
    Rate =
        case Found of
            0 -> Last;
            _ -> Found
        end,
    Chosen = [Probe || {At, Probe} <- Probes, At =:= Rate],
    Parts = [Part || #{parts := [Part]} <- Chosen],
    [First | _] = Parts,
    Operations = operations([K || #{operations := K} <- Parts]),
    Total = total(maps:values(Operations)),
    Part = First#{
        duration_ns := lists:sum([D || #{duration_ns := D} <- Parts]),
        arrivals := lists:sum([N || #{arrivals := N} <- Parts]),
        schedule := undefined,
        operations := Operations,
        total := Total
    },
    Busy = busy_below(Found, Probes),
    Merged#{
        parts := [Part],
        operations := Operations,
        total := Total,
        errors := dyno_load_recorder:merge_errors([Errors || #{errors := Errors} <- Chosen]),
        workers := lists:max([Workers || #{workers := Workers} <- [Merged | Chosen]]),
        %% Programs that keep the processors fail probes at rates that hold without them.
        search =>
            case dyno_load_verdict:is_busy(Busy) of
                true -> Result#{high_per_s := undefined};
                false -> Result
            end,
        busy_below => Busy
    }.

%% If no rate held, the slowest probes should leave the machine idle.
busy_below(0, Probes) ->
    Slowest = lists:min([At || {At, _} <- Probes]),
    dyno_stats:median([Busy || {At, #{busy := Busy}} <- Probes, At =:= Slowest]);
busy_below(Found, Probes) ->
    dyno_stats:median([Busy || {At, #{busy := Busy}} <- Probes, At * ?MUCH_SLOWER =< Found]).

-spec node_of(
    dyno_load_core:pool(), dyno_load_pool:snapshot() | undefined, LostAtMs :: integer() | undefined
) -> load_node().
node_of(#{node := Node, offset_ns := Offset, uncertain_ns := Uncertain}, Last, LostAtMs) ->
    {Total, Workers} =
        case Last of
            undefined ->
                {dyno_load_recorder:empty(), 0};
            #{parts := Parts, workers := Count} ->
                {total(lists:append([maps:values(Operations) || Operations <- Parts])), Count}
        end,
    #{
        node => Node,
        offset_ns => Offset,
        uncertain_ns => Uncertain,
        successes => map_get(successes, Total),
        failures => map_get(failures, Total),
        workers => Workers,
        lost_at_ms => LostAtMs
    }.

-doc "Results by operation; empty for a suite with only one.".
-spec named_operations(t() | part()) -> [{binary(), dyno_load_recorder:snapshot()}].
named_operations(#{operations := Operations}) ->
    [
        {atom_to_binary(Operation), Snapshot}
     || Operation := Snapshot <- maps:iterator(Operations, ordered), Operation =/= undefined
    ].

-spec dropped(part()) -> non_neg_integer() | undefined.
dropped(#{arrivals := undefined}) ->
    undefined;
dropped(#{arrivals := Arrivals, total := #{started := Started}}) ->
    max(0, round(Arrivals - Started)).

-spec to_recording(t() | none, [dyno_load_source:interval()]) ->
    #{metrics | histograms | series | tables | warnings := [#{atom() => term()}]}.
to_recording(none, Intervals) ->
    #{
        metrics => [],
        histograms => [],
        series => dyno_load_metrics:series(Intervals),
        tables => [],
        warnings => []
    };
to_recording(Result, Intervals) ->
    #{
        metrics => dyno_load_metrics:metrics(Result),
        histograms => dyno_load_metrics:histograms(Result),
        series => dyno_load_metrics:series(Intervals),
        tables => dyno_load_tables:tables(Result),
        warnings => [#{code => C, text => T} || {C, T} <- dyno_load_verdict:warnings(Result)]
    }.

-spec known() -> dyno_threshold:known().
known() ->
    (dyno_load_metrics:known())#{tables => dyno_load_tables:specs()}.
