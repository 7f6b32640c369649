%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_metrics).
-moduledoc false.
%% The metrics of sinks: names, units, labels, and the points of sums. A sink writes points in its
%% receiver's form and does not see sums. Pure.

-export([metrics/0, points/1, labels/1, ordered/1, bounds/1, counts/2]).
-export_type([metric/0, point/0, labels/0, label/0, unit/0]).

-type metric() :: #{
    %% Its name in dotted form.
    id := binary(),
    type := counter | gauge | histogram,
    %% A sink converts nanoseconds for its receiver; other units are in OpenTelemetry's notation.
    unit := unit(),
    %% Its Prometheus name; that of a counter without _total.
    prometheus := binary(),
    help := binary()
}.
-type unit() :: ns | binary().

%% The labels of a server, and those of points within a server.
-type labels() :: #{node | application | module | name | behaviour => binary()}.
-type label() :: none | {callback | direction, binary()}.

%% The value of a histogram is that of its window.
-type point() :: {metric(), label(), number() | dyno_histogram:snapshot()}.

-define(LABELS, [node, application, module, name, behaviour]).
%% Of a label: all seven fit a datagram together.
-define(MOST_BYTES, 120).

%% The source (a callback, the processes, a stage) and the place there: a key, the keys of two
%% directions, or the maximum of a histogram; then as in metric().
rows() ->
    [
        {callback, count, ~"callback.calls", counter, ~"{call}", ~"otp_callbacks",
            ~"Callbacks that ran."},
        {callback, wall, ~"callback.duration", histogram, ns, ~"otp_callback_duration_seconds",
            ~"Time from the beginning of a callback to its end."},
        {callback, {max, wall}, ~"callback.duration.max", gauge, ns,
            ~"otp_callback_duration_max_seconds", ~"The longest callback of the last window."},
        {callback, cpu_ns, ~"callback.cpu", counter, ns, ~"otp_callback_cpu_seconds",
            ~"Processor time of callbacks."},
        {callback, words, ~"callback.allocated", counter, ~"{word}",
            ~"otp_callback_allocated_words", ~"Words that callbacks allocated."},
        {callback, exceptions, ~"callback.exceptions", counter, ~"{exception}",
            ~"otp_callback_exceptions", ~"Callbacks that ended with an exception."},
        {callback, stops, ~"callback.stops", counter, ~"{stop}", ~"otp_callback_stops",
            ~"Callbacks that stopped their process."},
        {process, processes, ~"process.count", gauge, ~"{process}", ~"otp_processes",
            ~"Processes with these labels."},
        {process, crashes, ~"process.crashes", counter, ~"{crash}", ~"otp_process_crashes",
            ~"Processes that crashed."},
        {process, busy, ~"process.busy", gauge, ~"1", ~"otp_process_busy_ratio",
            ~"Share of the last window that was spent in callbacks."},
        {process, queue_now, ~"process.message_queue.length", gauge, ~"{message}",
            ~"otp_process_message_queue_length", ~"Messages that wait."},
        {process, queue_max, ~"process.message_queue.max", gauge, ~"{message}",
            ~"otp_process_message_queue_length_max",
            ~"The longest message queue of the last window."},
        {process, delay, ~"process.message_queue.delay", histogram, ns,
            ~"otp_message_queue_delay_seconds",
            ~"Time that messages waited before their callback."},
        {stage, {both, demand_received, demand_asked}, ~"gen_stage.demand", counter, ~"{event}",
            ~"gen_stage_demand", ~"Events that a stage asked for (out) or was asked for (in)."},
        {stage, {both, events_in, events_out}, ~"gen_stage.events", counter, ~"{event}",
            ~"gen_stage_events", ~"Events that a stage received (in) or sent (out)."},
        {stage, discarded, ~"gen_stage.discarded", counter, ~"{event}",
            ~"gen_stage_discarded_events", ~"Events that a full buffer lost."},
        {stage, buffered, ~"gen_stage.buffered", gauge, ~"{event}", ~"gen_stage_buffered_events",
            ~"Events in a stage's buffer."},
        {stage, outstanding, ~"gen_stage.outstanding", gauge, ~"{event}",
            ~"gen_stage_outstanding_demand", ~"Events that were asked for and have not come yet."},
        {stage, batches, ~"gen_stage.batch", histogram, ~"{event}", ~"gen_stage_batch_events",
            ~"Events in a batch."},
        {stage, demand_to_event, ~"gen_stage.demand_to_event", histogram, ns,
            ~"gen_stage_demand_to_event_seconds", ~"Time from asking for events to getting them."}
    ].

-spec metrics() -> [metric()].
metrics() -> [metric(Row) || Row <- rows()].

metric({_, _, Id, Type, Unit, Prometheus, Help}) ->
    #{id => Id, type => Type, unit => Unit, prometheus => Prometheus, help => Help}.

-spec ordered(labels()) -> [{atom(), binary()}].
ordered(Labels) ->
    [{Key, map_get(Key, Labels)} || Key <- ?LABELS, is_map_key(Key, Labels)].

-doc "The labels of all points of a sum: never a process.".
-spec labels(dyno_servers_window:sum()) -> labels().
labels(#{labels := Labels}) ->
    #{Key => text(Value) || Key := Value <- maps:with(?LABELS, Labels)}.

%% Cut, and valid UTF-8 for any name.
text(Text) ->
    Short = binary:part(Text, 0, min(byte_size(Text), ?MOST_BYTES)),
    case unicode:characters_to_binary(Short) of
        Good when is_binary(Good) -> Good;
        {incomplete, Good, _} when Good =/= ~"" -> Good;
        _ -> unicode:characters_to_binary(binary:part(Short, 0, byte_size(Short) div 2), latin1)
    end.

-spec points(dyno_servers_window:sum()) -> [point()].
points(#{callbacks := Callbacks, stage := Stage} = Sum) ->
    lists:append(
        [points(callback, {callback, text(Name)}, Of) || #{name := Name} = Of <- Callbacks] ++
            [points(process, none, Sum)] ++
            [points(stage, none, Stage) || Stage =/= none]
    ).

points(Group, Label, Values) ->
    [
        {metric(Row), Of, Value}
     || {In, Key, _, _, _, _, _} = Row <- rows(),
        In =:= Group,
        {Of, Value} <- values(Key, Label, Values),
        is_known(Value)
    ].

values({max, Key}, Label, Values) ->
    [{Label, Max} || #{Key := #{max := Max}} <- [Values]];
values({both, In, Out}, _Label, Values) ->
    [
        {{direction, Name}, maps:get(Key, Values, none)}
     || {Name, Key} <- [{~"in", In}, {~"out", Out}]
    ];
values(Key, Label, Values) ->
    [{Label, maps:get(Key, Values, none)}].

is_known(Number) when is_number(Number) -> true;
is_known(#{count := Count}) -> Count > 0;
is_known(_) -> false.

-doc "The upper bounds of receivers' histogram buckets, with their text; times from 1 us to 10 s.".
-spec bounds(unit()) -> [{pos_integer(), binary()}].
bounds(ns) ->
    Texts =
        ~"""
        1e-06 2e-06 5e-06 1e-05 2e-05 5e-05 0.0001 0.0002 0.0005 0.001 0.002 0.005
        0.01 0.02 0.05 0.1 0.2 0.5 1.0 2.0 5.0 10.0
        """,
    lists:zip(ones_twos_fives(1_000, 10_000_000_000), re:split(Texts, "[ \n]"));
bounds(_Events) ->
    [{N, <<(integer_to_binary(N))/binary, ".0">>} || N <- ones_twos_fives(1, 10_000)].

ones_twos_fives(Most, Most) -> [Most];
ones_twos_fives(N, Most) -> [N, 2 * N, 5 * N | ones_twos_fives(10 * N, Most)].

-doc "A snapshot's values in each bucket, and above the last, by the middles of its buckets.".
-spec counts(dyno_histogram:snapshot(), unit()) -> [non_neg_integer(), ...].
counts(#{buckets := Buckets}, Unit) ->
    counts(Buckets, [last_bucket(Bound) || {Bound, _} <- bounds(Unit)], 0).

last_bucket(Bound) ->
    Index = dyno_histogram:index(Bound),
    case dyno_histogram:bounds(Index) of
        {Low, High} when Low + High - 1 =< 2 * Bound -> Index;
        _ -> Index - 1
    end.

counts([{Index, N} | Buckets], [Last | _] = Limits, Count) when Index =< Last ->
    counts(Buckets, Limits, Count + N);
counts(Buckets, [_ | Limits], Count) ->
    [Count | counts(Buckets, Limits, 0)];
counts(Buckets, [], _) ->
    [lists:sum([N || {_, N} <- Buckets])].
