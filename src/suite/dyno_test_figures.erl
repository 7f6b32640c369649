%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_figures).
-moduledoc false.
%% Makes one run of the recording out of what was measured. Pure.

-export([run/1]).
-export_type([measured/0]).

-type measured() :: #{
    size := pos_integer(),
    id := binary(),
    status := complete | failed | interrupted | partial,
    started_at := binary(),
    duration_ns := non_neg_integer(),
    load := dyno_suite:load() | undefined,
    interval_ms := pos_integer(),
    targets := [dyno_test_targets:target()],
    intervals := [dyno_load:interval()],
    samples := [{node(), TimeMs :: integer(), #{binary() => number()}, CostUs :: non_neg_integer()}],
    snapshot := dyno_load_meter:snapshot() | undefined,
    errors := [{binary(), pos_integer()}],
    in_flight := non_neg_integer(),
    %% What workers could not end.
    not_ended := [binary()],
    figures := [dyno_test_targets:figures()],
    error := {Code :: binary(), Text :: binary()} | undefined
}.

%% More rows than a person reads, fewer than make the page slow.
-define(MAX_ROWS, 5000).
-define(QUANTILES, [{~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}, {~"p99.9", 0.999}]).
%% A generator that is later than this share of the median spoils it.
-define(LATE_SHARE, 0.1).
%% Counts that may be off by more than this share are said to be.
-define(INEXACT, 0.002).
%% Below so many operations a 99th percentile is one or two operations.
-define(FEW_OPERATIONS, 1000).

-doc "The run, as doc/recording.md has it.".
-spec run(measured()) -> #{atom() => term()}.
run(Measured) ->
    #{
        id => map_get(id, Measured),
        size => map_get(size, Measured),
        repetition => 1,
        status => map_get(status, Measured),
        started_at => map_get(started_at, Measured),
        duration_ns => map_get(duration_ns, Measured),
        nodes => [Facts || #{facts := Facts} <- map_get(targets, Measured)],
        metrics => load_metrics(Measured) ++ inside_metrics(Measured),
        histograms => histograms(Measured),
        series => load_series(Measured) ++ sampled_series(Measured),
        tables => errors_table(Measured) ++ inside_tables(Measured),
        warnings => [#{code => C, text => T} || {C, T} <- warnings(Measured)],
        error => note(map_get(error, Measured))
    }.

note(undefined) -> undefined;
note({Code, Text}) -> #{code => Code, text => Text}.

%% Load

load_metrics(#{snapshot := undefined}) ->
    [];
load_metrics(#{duration_ns := DurationNs, snapshot := Snapshot} = Measured) ->
    #{response := Response, successes := Ok, in_time := InTime, failures := Failed} = Snapshot,
    Seconds = max(DurationNs, 1) / 1.0e9,
    All = Ok + Failed,
    [
        metric(~"throughput", ~"Throughput", InTime / Seconds, ~"1/s", InTime),
        metric(~"operations.count", ~"Operations", Ok, ~"count", Ok),
        metric(~"errors.count", ~"Errors", Failed, ~"count", All),
        metric(~"errors.rate", ~"Share of errors", Failed / max(1, All), ~"ratio", All)
    ] ++
        time_metrics(~"latency", ~"Response time", Response) ++
        open_metrics(Measured).

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

open_metrics(#{load := #{model := open, rate_per_s := Rate}, snapshot := Snapshot} = Measured) ->
    #{service := Service, lateness := Lateness} = Snapshot,
    [
        metric(~"load.offered", ~"Offered load", Rate, ~"1/s", 1),
        metric(~"load.dropped", ~"Arrivals that never started", dropped(Measured), ~"count", 1)
    ] ++
        time_metrics(~"service", ~"Service time", Service) ++
        case Lateness of
            #{count := 0} ->
                [];
            #{count := Count} ->
                P99 = dyno_histogram:quantile(Lateness, 0.99),
                [metric(~"load.lateness.p99", ~"Lateness of the generator, p99", P99, ~"ns", Count)]
        end;
open_metrics(_Measured) ->
    [].

%% What was due in the measured part and neither ended nor is under way.
dropped(#{load := #{rate_per_s := Rate}, duration_ns := DurationNs, snapshot := Snapshot} = M) ->
    #{successes := Ok, failures := Failed} = Snapshot,
    Due = floor(Rate * DurationNs / 1.0e9),
    max(0, Due - Ok - Failed - map_get(in_flight, M)).

metric(Name, Title, Value, Unit, Count) ->
    metric(Name, Title, Value, Unit, Count, ~"load").

metric(Name, Title, Value, Unit, Count, Group) ->
    #{name => Name, title => Title, value => Value, unit => Unit, count => Count, group => Group}.

histograms(#{snapshot := undefined}) ->
    [];
histograms(#{snapshot := Snapshot}) ->
    [
        histogram(Name, Title, map_get(Key, Snapshot))
     || {Key, Name, Title} <- [
            {response, ~"latency", ~"Response time"},
            {service, ~"service", ~"Service time"},
            {lateness, ~"load.lateness", ~"Lateness of the generator"}
        ],
        has_values(map_get(Key, Snapshot))
    ].

has_values(undefined) -> false;
has_values(#{count := Count}) -> Count > 0.

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

load_series(#{intervals := Intervals}) ->
    Times = [T || #{time_ms := T} <- Intervals],
    [
        series(Name, Unit, ~"load", Title, undefined, Times, [map_get(Key, I) || I <- Intervals])
     || {Key, Name, Unit, Title} <- [
            {throughput_per_s, ~"load.throughput", ~"1/s", ~"Throughput"},
            {errors_per_s, ~"load.errors", ~"count/s", ~"Errors"},
            {p50_ns, ~"load.latency.p50", ~"ns", ~"Response time, p50"},
            {p99_ns, ~"load.latency.p99", ~"ns", ~"Response time, p99"},
            {max_ns, ~"load.latency.max", ~"ns", ~"Response time, max"}
        ],
        Intervals =/= []
    ].

series(Name, Unit, Group, Title, Node, Times, Values) ->
    #{
        name => Name,
        unit => Unit,
        group => Group,
        title => Title,
        node => Node,
        labels => #{},
        times_ms => Times,
        values => Values
    }.

%% VM and system

sampled_series(#{targets := Targets, samples := Samples}) ->
    lists:append([
        node_series(Node, Metrics, [{T, F} || {N, T, F, _} <- Samples, N =:= Node])
     || #{node := Node, metrics := Metrics} <- Targets
    ]).

node_series(_Node, _Metrics, []) ->
    [];
node_series(Node, Metrics, Samples) ->
    Times = [T || {T, _} <- Samples],
    [
        series(Name, Unit, Group, Title, Node, Times, [
            maps:get(Name, Figures, undefined)
         || {_, Figures} <- Samples
        ])
     || #{name := Name, unit := Unit, title := Title, group := Group} <- Metrics
    ].

%% Inside

inside_metrics(#{samples := Samples, figures := Figures}) ->
    Discovered = [N || #{processes := #{discovered := N}} <- Figures],
    Charges = [C || #{functions := #{self_charge_ns := C}} <- Figures, is_float(C)],
    Costs = [C || {_, _, _, C} <- Samples],
    [
        metric(
            ~"processes.discovered",
            ~"Processes that called a measured function",
            lists:sum(Discovered),
            ~"count",
            1,
            ~"processes"
        )
     || Discovered =/= []
    ] ++
        [
            metric(
                ~"instrument.charge",
                ~"What measuring adds to the own time of one call",
                lists:max(Charges),
                ~"ns/call",
                length(Charges),
                ~"instrument"
            )
         || Charges =/= []
        ] ++
        [
            metric(
                ~"instrument.sample",
                ~"What one look at the VM and the system takes",
                lists:sum(Costs) * 1000 / length(Costs),
                ~"ns",
                length(Costs),
                ~"instrument"
            )
         || Costs =/= []
        ].

errors_table(#{errors := []}) ->
    [];
errors_table(#{errors := Errors}) ->
    [
        table(
            ~"errors",
            ~"Errors",
            undefined,
            [
                column(~"reason", ~"Reason", string, undefined),
                column(~"count", ~"Count", integer, ~"count")
            ],
            [[Reason, Count] || {Reason, Count} <- Errors]
        )
    ].

inside_tables(#{figures := Figures}) ->
    lists:append([
        functions_table(Node, Functions) ++ callers_table(Node, Functions) ++
            processes_table(Node, Processes)
     || #{node := Node, functions := Functions, processes := Processes} <- Figures
    ]).

functions_table(_Node, undefined) ->
    [];
functions_table(_Node, #{measured_functions := 0}) ->
    %% Only processes were asked for.
    [];
functions_table(Node, #{functions := []}) ->
    [table(~"functions", ~"Functions", Node, [column(~"function", ~"Function", string, undefined)], [])];
functions_table(Node, #{functions := [First | _] = Functions}) ->
    Total = sum_of(own_time_ns, Functions),
    HasTime = is_map_key(own_time_ns, First),
    HasWords = is_map_key(words, First),
    Columns =
        [
            column(~"function", ~"Function", string, undefined),
            column(~"calls", ~"Calls", integer, ~"count")
        ] ++
            [C || C <- time_columns(), HasTime] ++
            [C || C <- word_columns(), HasWords],
    Rows = [
        [mfa(MFA), Calls] ++ [V || V <- time_values(F, Total), HasTime] ++
            [V || V <- word_values(F), HasWords]
     || #{mfa := MFA, calls := Calls} = F <- lists:sort(fun heavier/2, Functions)
    ],
    [table(~"functions", ~"Functions", Node, Columns, Rows)].

heavier(A, B) -> weight(A) >= weight(B).

weight(F) -> {maps:get(own_time_ns, F, 0), maps:get(words, F, 0), map_get(calls, F)}.

time_columns() ->
    [
        (column(~"own_time", ~"Own time", integer, ~"ns"))#{
            help => ~"Without the measured functions it called; with what measuring it cost."
        },
        (column(~"own_time_uncertainty", <<"Own time, ±"/utf8>>, integer, ~"ns"))#{
            help => ~"The runtime cuts each process's time in a function to whole microseconds."
        },
        column(~"time_per_call", ~"Time per call", number, ~"ns/call"),
        (column(~"share", ~"Share", number, ~"ratio"))#{
            help => ~"Of the own time of all measured functions."
        }
    ].

time_values(#{own_time_ns := Ns, uncertain_ns := Uncertain, calls := Calls}, Total) ->
    [Ns, Uncertain, Ns / max(1, Calls), Ns / max(1, Total)];
time_values(_Function, _Total) ->
    [].

word_columns() ->
    [
        column(~"words", ~"Words", integer, ~"words"),
        column(~"words_per_call", ~"Words per call", number, ~"words/call")
    ].

word_values(#{words := Words, calls := Calls}) -> [Words, Words / max(1, Calls)];
word_values(_Function) -> [].

callers_table(_Node, undefined) ->
    [];
callers_table(_Node, #{callers := []}) ->
    [];
callers_table(Node, #{callers := Callers}) ->
    [
        table(
            ~"callers",
            ~"Who calls what",
            Node,
            [
                column(~"function", ~"Function", string, undefined),
                column(~"processes", ~"Processes", string, undefined),
                column(~"calls", ~"Calls", integer, ~"count"),
                column(~"own_time", ~"Own time", integer, ~"ns")
            ],
            [[mfa(MFA), element(2, group(G)), Calls, Ns] || {MFA, G, Calls, Ns} <- Callers]
        )
    ].

processes_table(_Node, undefined) ->
    [];
processes_table(Node, #{groups := Groups}) ->
    Rows = [
        begin
            {Kind, Name} = group(Group),
            {Reductions, [Name, Kind, Discovered, Alive | looked_at(Figures)]}
        end
     || #{
            group := Group,
            discovered := Discovered,
            alive := Alive,
            reductions := Reductions
        } = Figures <- Groups
    ],
    [
        table(
            ~"processes",
            ~"Processes",
            Node,
            [
                column(~"group", ~"Group", string, undefined),
                column(~"kind", ~"Grouped by", string, undefined),
                column(~"discovered", ~"Discovered", integer, ~"count"),
                column(~"alive", ~"Alive at the end", integer, ~"count"),
                column(~"memory", ~"Memory", integer, ~"B"),
                column(~"memory_max", ~"Memory, max", integer, ~"B"),
                column(~"reductions", ~"Reductions", integer, ~"count"),
                column(~"message_queue_max", ~"Message queue, max", integer, ~"count")
            ],
            [Row || {_, Row} <- lists:reverse(lists:keysort(1, Rows))]
        )
    ].

%% Every process has memory: a group without any lived too shortly to be looked at.
looked_at(#{memory_max_bytes := 0}) ->
    [undefined, undefined, undefined, undefined];
looked_at(#{
    memory_bytes := Memory,
    memory_max_bytes := MemoryMax,
    reductions := Reductions,
    message_queue_max := Queue
}) ->
    [Memory, MemoryMax, Reductions, Queue].

group({registered, Name}) -> {~"registered", text("~tw", [Name])};
group({label, Label}) when is_binary(Label) -> {~"label", Label};
group({label, Label}) -> {~"label", binary:replace(text("~0tp", [Label]), ~"'_'", ~"_", [global])};
group({initial_call, MFA}) -> {~"initial_call", mfa(MFA)};
group({first_call, MFA}) -> {~"first_call", mfa(MFA)};
group(other) -> {~"other", ~"(others)"}.

mfa({M, F, A}) -> text("~tw:~tw/~b", [M, F, A]).

text(Format, Arguments) ->
    unicode:characters_to_binary(io_lib:format(Format, Arguments)).

column(Name, Title, Type, Unit) ->
    #{name => Name, title => Title, type => Type, unit => Unit}.

table(Name, Title, Node, Columns, Rows) ->
    #{
        name => Name,
        title => Title,
        node => Node,
        columns => Columns,
        rows => lists:sublist(Rows, ?MAX_ROWS),
        truncated => max(0, length(Rows) - ?MAX_ROWS)
    }.

%% What makes the numbers less believable

warnings(Measured) ->
    lists:append([
        few_operations(Measured),
        saturated(Measured),
        late_generator(Measured),
        unfinished(Measured),
        not_ended(Measured),
        noisy_machine(Measured),
        lists:flatmap(fun inside_warnings/1, map_get(figures, Measured))
    ]).

few_operations(#{snapshot := #{successes := Ok}, status := complete}) when
    Ok < ?FEW_OPERATIONS
->
    [{~"few_operations", text("~b operations: too few for the high percentiles", [Ok])}];
few_operations(_Measured) ->
    [].

saturated(#{load := #{model := open, rate_per_s := Rate}, snapshot := #{}} = Measured) ->
    case dropped(Measured) of
        Dropped when Dropped > Rate * 0.01 ->
            Text = "saturated: ~b of the offered operations never started; the response times "
                "say how long the load lasted, not how fast the target is",
            [{~"saturated", text(Text, [Dropped])}];
        _ ->
            []
    end;
saturated(_Measured) ->
    [].

late_generator(#{snapshot := #{lateness := #{count := Count} = Late, response := R}}) when
    Count > 0
->
    LateNs = dyno_histogram:quantile(Late, 0.99),
    case dyno_histogram:quantile(R, 0.5) of
        P50 when is_number(P50), LateNs > P50 * ?LATE_SHARE, LateNs > 1_000_000 ->
            Text = "the generator started operations up to ~ts late (p99): "
                "it had too little processor time to keep the pace",
            [{~"late_generator", text(Text, [dyno_unit:format(LateNs, ~"ns")])}];
        _ ->
            []
    end;
late_generator(_Measured) ->
    [].

unfinished(#{in_flight := 0}) ->
    [];
unfinished(#{in_flight := N}) ->
    [{~"unfinished", text("~b operations had not ended when the run did; they are not in it", [N])}].

%% They are mostly the same: the first one stands for all.
not_ended(#{not_ended := []}) ->
    [];
not_ended(#{not_ended := [Text]}) ->
    [{~"end_worker", Text}];
not_ended(#{not_ended := [Text | Others]}) ->
    [{~"end_worker", text("~ts (and ~b more workers)", [Text, length(Others)])}].

noisy_machine(#{samples := Samples}) ->
    Steal = [S || {_, _, #{~"os.cpu.steal" := S}, _} <- Samples],
    case Steal of
        [_ | _] ->
            case lists:sum(Steal) / length(Steal) of
                Mean when Mean > 0.02 ->
                    Text = "the hypervisor took ~ts of the processor time: "
                        "compare with other runs with care",
                    [{~"steal", text(Text, [dyno_unit:format(Mean, ~"ratio")])}];
                _ ->
                    []
            end;
        [] ->
            []
    end.

inside_warnings(#{node := Node, functions := Functions, processes := Processes}) ->
    [
        {~"lost_figures",
            text("~ts of ~ts: replaced before its figures could be read; some calls are missing", [
                M, Node
            ])}
     || #{lost := Lost} <- [Functions], M <- Lost
    ] ++
        [
            {~"reloaded", text(
                    "~ts of ~ts was loaded again during the run; its calls within the milliseconds "
                    "around it may be missing or count twice",
                    [M, Node]
                )}
         || #{reloaded := Reloaded} <- [Functions], M <- Reloaded
        ] ++
        [
            {~"cut_times",
                text(
                    "own times of ~ts may be off by ~ts of ~ts: the runtime cuts each process's "
                    "time in a function to whole microseconds, and these processes are short-lived",
                    [Node, dyno_unit:format(Uncertain, ~"ns"), dyno_unit:format(Own, ~"ns")]
                )}
         || #{functions := All} <- [Functions],
            {Uncertain, Own} <- [{sum_of(uncertain_ns, All), sum_of(own_time_ns, All)}],
            Uncertain * 10 > Own
        ] ++
        [
            {~"inexact_counts",
                text(
                    "calls in ~ts may be off by ~ts: it starts so many processes that the figures "
                    "had to be taken in while they were counted",
                    [Node, dyno_unit:format(OffBy, ~"ratio")]
                )}
         || #{off_by := OffBy} <- [Functions], OffBy > ?INEXACT
        ] ++
        [
            {~"processes_truncated",
                text("more processes in ~ts than are followed: the later ones are missing", [Node])}
         || #{truncated := true} <- [Processes]
        ].

sum_of(Key, Functions) ->
    lists:sum([maps:get(Key, F, 0) || F <- Functions]).
