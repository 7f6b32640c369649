%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_metrics).
-moduledoc false.
%% The metrics that sinks send: their names, units and labels, and how sums become points of them.
%% A sink writes each point in its receiver's form and knows nothing of sums. Pure.

-export([metrics/0, points/1, labels/1, label_order/0, bounds/1, counts/2]).
-export_type([metric/0, point/0, labels/0, unit/0]).

-type metric() :: #{
    %% Its name where dots divide names.
    id := binary(),
    kind := counter | gauge | histogram,
    %% Nanoseconds become what a receiver wants; others are as OpenTelemetry writes them.
    unit := unit(),
    %% Its name in Prometheus, that of a counter without _total.
    prometheus := binary(),
    help := binary()
}.
-type unit() :: ns | binary().

%% What tells points of one metric apart.
-type labels() :: #{
    node | application | module | name | behaviour | callback | direction => binary()
}.

%% The value of a histogram is that of its window.
-type point() :: {Id :: binary(), labels(), number() | dyno_histogram:snapshot()}.

%% Of a label: all seven fit a datagram together.
-define(MOST_BYTES, 120).

-doc "All metrics, in the order in which they are sent.".
-spec metrics() -> [metric()].
metrics() ->
    [
        #{id => Id, kind => Kind, unit => Unit, prometheus => Prometheus, help => Help}
     || {Id, Kind, Unit, Prometheus, Help} <- [
            {~"callback.calls", counter, ~"{call}", ~"otp_callbacks", ~"Callbacks that ran."},
            {~"callback.duration", histogram, ns, ~"otp_callback_duration_seconds",
                ~"Time from the beginning of a callback to its end."},
            {~"callback.duration.max", gauge, ns, ~"otp_callback_duration_max_seconds",
                ~"The longest callback of the last window."},
            {~"callback.cpu", counter, ns, ~"otp_callback_cpu_seconds",
                ~"Processor time of callbacks."},
            {~"callback.allocated", counter, ~"{word}", ~"otp_callback_allocated_words",
                ~"Words that callbacks allocated."},
            {~"callback.exceptions", counter, ~"{exception}", ~"otp_callback_exceptions",
                ~"Callbacks that ended with an exception."},
            {~"callback.stops", counter, ~"{stop}", ~"otp_callback_stops",
                ~"Callbacks that stopped their process."},
            {~"process.count", gauge, ~"{process}", ~"otp_processes",
                ~"Processes with these labels."},
            {~"process.crashes", counter, ~"{crash}", ~"otp_process_crashes",
                ~"Processes that crashed."},
            {~"process.busy", gauge, ~"1", ~"otp_process_busy_ratio",
                ~"Share of the last window that was spent in callbacks."},
            {~"process.message_queue.length", gauge, ~"{message}",
                ~"otp_process_message_queue_length", ~"Messages that wait."},
            {~"process.message_queue.max", gauge, ~"{message}",
                ~"otp_process_message_queue_length_max",
                ~"The longest message queue of the last window."},
            {~"process.message_queue.delay", histogram, ns, ~"otp_message_queue_delay_seconds",
                ~"Time that messages waited before their callback."},
            {~"gen_stage.demand", counter, ~"{event}", ~"gen_stage_demand",
                ~"Events that a stage asked for (out) or was asked for (in)."},
            {~"gen_stage.events", counter, ~"{event}", ~"gen_stage_events",
                ~"Events that a stage received (in) or sent (out)."},
            {~"gen_stage.discarded", counter, ~"{event}", ~"gen_stage_discarded_events",
                ~"Events that a full buffer lost."},
            {~"gen_stage.buffered", gauge, ~"{event}", ~"gen_stage_buffered_events",
                ~"Events in a stage's buffer."},
            {~"gen_stage.outstanding", gauge, ~"{event}", ~"gen_stage_outstanding_demand",
                ~"Events that were asked for and have not come yet."},
            {~"gen_stage.batch", histogram, ~"{event}", ~"gen_stage_batch_events",
                ~"Events in a batch."},
            {~"gen_stage.demand_to_event", histogram, ns, ~"gen_stage_demand_to_event_seconds",
                ~"Time from asking for events to getting them."}
        ]
    ].

-doc "In what order labels are written.".
-spec label_order() -> [atom()].
label_order() ->
    [node, application, module, name, behaviour, callback, direction].

-doc "The labels that all points of a sum have. A process is never one of them.".
-spec labels(dyno_servers_sink:sum()) -> labels().
labels(#{labels := Labels}) ->
    Taken = maps:with([node, application, module, name, behaviour], Labels),
    #{Key => text(Value) || Key := Value <- Taken, is_binary(Value)}.

%% Cut, and in UTF-8 whatever a process is called.
text(Text) ->
    Short = binary:part(Text, 0, min(byte_size(Text), ?MOST_BYTES)),
    case unicode:characters_to_binary(Short) of
        Good when is_binary(Good) -> Good;
        {incomplete, Good, _} when Good =/= ~"" -> Good;
        _ -> unicode:characters_to_binary(binary:part(Short, 0, byte_size(Short) div 2), latin1)
    end.

-doc "What a sum says, as points; what is not known makes none.".
-spec points(dyno_servers_sink:sum()) -> [point()].
points(#{callbacks := Callbacks, stage := Stage} = Sum) ->
    Labels = labels(Sum),
    [
        {Id, maps:merge(Labels, Extra), Value}
     || {Id, Extra, Value} <- lists:append([
            lists:flatmap(fun callback/1, Callbacks), process(Sum), stage(Stage)
        ]),
        is_known(Value)
    ].

is_known(undefined) -> false;
is_known(none) -> false;
is_known(#{count := 0}) -> false;
is_known(_) -> true.

callback(#{name := Name, count := Count, exceptions := Exceptions, stops := Stops} = Callback) ->
    #{wall := Wall, cpu_ns := CpuNs, words := Words} = Callback,
    Label = #{callback => text(Name)},
    [
        {~"callback.calls", Label, Count},
        {~"callback.duration", Label, Wall},
        {~"callback.duration.max", Label, longest(Wall)},
        {~"callback.cpu", Label, CpuNs},
        {~"callback.allocated", Label, Words},
        {~"callback.exceptions", Label, Exceptions},
        {~"callback.stops", Label, Stops}
    ].

longest(#{max := Max}) -> Max;
longest(none) -> none.

process(#{processes := Processes, crashes := Crashes, busy := Busy, delay := Delay} = Sum) ->
    #{queue_now := QueueNow, queue_max := QueueMax} = Sum,
    [
        {~"process.count", #{}, Processes},
        {~"process.crashes", #{}, Crashes},
        {~"process.busy", #{}, Busy},
        {~"process.message_queue.length", #{}, QueueNow},
        {~"process.message_queue.max", #{}, QueueMax},
        {~"process.message_queue.delay", #{}, Delay}
    ].

stage(none) ->
    [];
stage(Stage) ->
    In = #{direction => ~"in"},
    Out = #{direction => ~"out"},
    [
        {Id, Label, maps:get(Key, Stage, undefined)}
     || {Id, Label, Key} <- [
            {~"gen_stage.demand", In, demand_received},
            {~"gen_stage.demand", Out, demand_asked},
            {~"gen_stage.events", In, events_in},
            {~"gen_stage.events", Out, events_out},
            {~"gen_stage.discarded", #{}, discarded},
            {~"gen_stage.buffered", #{}, buffered},
            {~"gen_stage.outstanding", #{}, outstanding},
            {~"gen_stage.batch", #{}, batches},
            {~"gen_stage.demand_to_event", #{}, demand_to_event}
        ]
    ].

-doc """
The upper bounds of the buckets in which receivers keep a histogram, and how they are written: from
1 us to 10 s, or from 1 to 10,000.
""".
-spec bounds(unit()) -> [{pos_integer(), binary()}].
bounds(ns) ->
    [
        {1_000, ~"1e-06"}, {2_000, ~"2e-06"}, {5_000, ~"5e-06"},
        {10_000, ~"1e-05"}, {20_000, ~"2e-05"}, {50_000, ~"5e-05"},
        {100_000, ~"0.0001"}, {200_000, ~"0.0002"}, {500_000, ~"0.0005"},
        {1_000_000, ~"0.001"}, {2_000_000, ~"0.002"}, {5_000_000, ~"0.005"},
        {10_000_000, ~"0.01"}, {20_000_000, ~"0.02"}, {50_000_000, ~"0.05"},
        {100_000_000, ~"0.1"}, {200_000_000, ~"0.2"}, {500_000_000, ~"0.5"},
        {1_000_000_000, ~"1.0"}, {2_000_000_000, ~"2.0"}, {5_000_000_000, ~"5.0"},
        {10_000_000_000, ~"10.0"}
    ];
bounds(_Events) ->
    [
        {1, ~"1.0"}, {2, ~"2.0"}, {5, ~"5.0"},
        {10, ~"10.0"}, {20, ~"20.0"}, {50, ~"50.0"},
        {100, ~"100.0"}, {200, ~"200.0"}, {500, ~"500.0"},
        {1_000, ~"1000.0"}, {2_000, ~"2000.0"}, {5_000, ~"5000.0"}, {10_000, ~"10000.0"}
    ].

-doc """
How many values of a snapshot lie in each of these buckets, and above the last. A bucket of the
snapshot counts where its middle lies: values within 0.4 % of a bound may be on its other side.
""".
-spec counts(dyno_histogram:snapshot(), unit()) -> [non_neg_integer(), ...].
counts(Snapshot, Unit) ->
    counts(dyno_histogram:to_recording(Snapshot), bounds(Unit), 0).

counts([{Low, High, N} | Buckets], [{Bound, _} | _] = Bounds, Count) when
    Low + High - 1 =< 2 * Bound
->
    counts(Buckets, Bounds, Count + N);
counts(Buckets, [_ | Bounds], Count) ->
    [Count | counts(Buckets, Bounds, 0)];
counts(Buckets, [], _) ->
    [lists:sum([N || {_, _, N} <- Buckets])].
