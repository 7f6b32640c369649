%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_gen).
-moduledoc false.
%% Generators of recordings in the form a file has, written from doc/recording.md and not from the
%% schema, so that each checks the other.

-export([document/0, run/0, text/0]).

-include("../support/dyno_proper.hrl").

-import(proper_types, [
    boolean/0,
    float/0,
    frequency/1,
    integer/0,
    list/1,
    non_neg_integer/0,
    number/0,
    oneof/1,
    pos_integer/0,
    range/2,
    vector/2
]).

document() ->
    ?LET(
        Runs,
        short(run()),
        object([
            {~"format", ~"dyno-recording"},
            {~"version", 2},
            {~"status", oneof([~"partial", ~"complete", ~"failed", ~"interrupted"])},
            {~"command", ~"test"},
            {~"name", text()},
            {~"parameters", parameters()},
            {~"environment", environment()},
            {~"started_at", ~"2026-11-21T08:00:00Z"},
            {~"duration_ns", nullable(non_neg_integer())},
            {~"runs", told_apart(~"id", Runs)},
            {~"tables", short(table())},
            {~"verdicts", short(verdict())},
            {~"warnings", short(note())},
            {~"error", nullable(note())}
        ])
    ).

parameters() ->
    object([
        {~"suite", text()},
        {~"sizes", list(pos_integer())},
        {~"patterns", list(text())},
        {~"load", object([{~"kind", text()}, {~"deep", object([{~"list", list(number())}])}])}
    ]).

environment() ->
    object([
        {~"dyno_version", text()},
        {~"otp", text()},
        {~"erts", text()},
        {~"jit", nullable(boolean())},
        {~"emulator_flags", nullable(list(text()))},
        {~"schedulers_online", nullable(non_neg_integer())},
        {~"schedulers", non_neg_integer()},
        {~"dirty_cpu_schedulers", non_neg_integer()},
        {~"dirty_io_schedulers", non_neg_integer()},
        {~"os", text()},
        {~"kernel", nullable(text())},
        {~"cpu_model", nullable(text())},
        {~"cores", nullable(pos_integer())},
        {~"memory_bytes", nullable(large())},
        {~"hostname", text()},
        {~"git", nullable(object([{~"revision", text()}, {~"dirty", boolean()}]))},
        {~"time", text()}
    ]).

run() ->
    object([
        {~"id", text()},
        {~"labels", labels()},
        {~"size", nullable(non_neg_integer())},
        {~"repetition", pos_integer()},
        {~"status", oneof([~"complete", ~"failed", ~"interrupted", ~"partial"])},
        {~"started_at", nullable(text())},
        {~"duration_ns", nullable(large())},
        {~"nodes", ?LET(Nodes, short(target()), told_apart(~"role", Nodes))},
        {~"metrics", short(metric())},
        {~"histograms", short(histogram())},
        {~"series", short(series())},
        {~"tables", short(table())},
        {~"events", events()},
        {~"profiles", short(profile())},
        {~"warnings", short(note())},
        {~"error", nullable(note())}
    ]).

target() ->
    object([
        {~"name", text()},
        {~"role", text()},
        {~"otp", nullable(text())},
        {~"erts", nullable(text())},
        {~"schedulers_online", nullable(pos_integer())},
        {~"os_pid", nullable(oneof([text(), pos_integer()]))}
    ]).

metric() ->
    object([
        {~"name", text()},
        {~"value", nullable(value())},
        {~"unit", unit()},
        {~"count", nullable(non_neg_integer())},
        {~"group", nullable(text())},
        {~"title", nullable(text())}
    ]).

histogram() ->
    ?LET(
        Buckets,
        list({non_neg_integer(), pos_integer(), pos_integer()}),
        object([
            {~"name", text()},
            {~"unit", unit()},
            {~"title", nullable(text())},
            {~"group", nullable(text())},
            {~"labels", labels()},
            {~"count", lists:sum([Count || {_, _, Count} <- Buckets])},
            {~"sum", nullable(value())},
            {~"min", nullable(value())},
            {~"max", nullable(value())},
            {~"scheme", nullable(text())},
            {~"buckets", ascending(Buckets, 0)}
        ])
    ).

ascending([{Gap, Width, Count} | Rest], From) ->
    Low = From + Gap,
    [[Low, Low + Width, Count] | ascending(Rest, Low + Width)];
ascending([], _) ->
    [].

series() ->
    ?LET(
        Points,
        list({integer(), nullable(value())}),
        object([
            {~"name", text()},
            {~"unit", unit()},
            {~"title", nullable(text())},
            {~"group", nullable(text())},
            {~"node", nullable(text())},
            {~"labels", #{}},
            {~"times_ms", [Time || {Time, _} <- Points]},
            {~"values", [Value || {_, Value} <- Points]}
        ])
    ).

table() ->
    ?LET(
        Types,
        short(oneof([~"string", ~"integer", ~"number", ~"something else"])),
        object([
            {~"name", text()},
            {~"title", nullable(text())},
            {~"node", nullable(text())},
            {~"labels", labels()},
            {~"derived", boolean()},
            {
                ~"sort",
                nullable(
                    object([
                        {~"column", text()}, {~"order", oneof([~"ascending", ~"descending"])}
                    ])
                )
            },
            {~"columns", [column(Type) || Type <- Types]},
            {~"rows", list([nullable(cell(Type)) || Type <- Types])},
            {~"truncated", non_neg_integer()}
        ])
    ).

column(Type) ->
    object([
        {~"name", text()},
        {~"type", Type},
        {~"unit", nullable(unit())},
        {~"title", nullable(text())},
        {~"help", nullable(text())},
        {~"role", oneof([~"key", ~"value", ~"low", ~"high", ~"note", text()])},
        {~"of", nullable(text())},
        {~"better", nullable(oneof([~"lower", ~"higher"]))}
    ]).

cell(~"string") -> text();
cell(~"integer") -> large();
cell(~"number") -> value();
cell(_) -> oneof([text(), boolean(), value(), list(value()), object([{~"a", value()}])]).

events() ->
    object([{~"dropped", non_neg_integer()}, {~"items", short(event())}]).

event() ->
    object([
        {~"time_ms", value()},
        {~"node", nullable(text())},
        {~"process", nullable(text())},
        {~"kind", text()},
        {~"labels", labels()},
        {~"text", text()},
        {~"data", oneof([null, value(), text(), list(boolean()), object([{~"a", list(text())}])])}
    ]).

profile() ->
    ?LET(
        {Values, [_ | _] = Frames},
        {short(object([{~"name", text()}, {~"unit", unit()}])), [text() | list(text())]},
        object([
            {~"name", text()},
            {~"title", nullable(text())},
            {~"node", nullable(text())},
            {~"labels", labels()},
            {~"values", Values},
            {~"frames", Frames},
            {~"samples", short(sample(length(Values), length(Frames)))}
        ])
    ).

sample(Values, Frames) ->
    object([
        {~"stack", list(range(0, Frames - 1))},
        {~"values", vector(Values, nullable(value()))},
        {~"labels", labels()}
    ]).

labels() ->
    object([{~"a", text()}, {~"b", value()}]).

verdict() ->
    object([
        {~"kind", oneof([~"threshold", ~"invariant", ~"change", text()])},
        {~"name", text()},
        {~"subject", nullable(text())},
        {~"run", nullable(text())},
        {~"node", nullable(text())},
        {~"result", oneof([~"pass", ~"fail", ~"unknown"])},
        {~"text", text()},
        {~"threshold", nullable(threshold())},
        {~"evidence", nullable(object([{~"a", value()}, {~"b", list(text())}]))}
    ]).

threshold() ->
    object([
        {~"metric", text()},
        {~"operator", oneof([~"<", ~"<=", ~">", ~">=", ~"==", text()])},
        {~"limit", value()},
        {~"unit", unit()},
        {~"value", nullable(value())},
        {~"bound", nullable(oneof([~"at_least", ~"at_most", text()]))}
    ]).

note() ->
    object([{~"code", text()}, {~"text", text()}]).

unit() ->
    oneof([
        ~"ns",
        ~"us",
        ~"ms",
        ~"s",
        ~"1/s",
        ~"B",
        ~"words",
        ~"count",
        ~"ratio",
        ~"1",
        ~"ns/call",
        ~"words/call",
        ~"count/s",
        ~"B/s",
        text()
    ]).

text() ->
    ?LET(Chars, list(char_in_text()), unicode:characters_to_binary(Chars)).

char_in_text() ->
    frequency([
        {8, range($a, $z)},
        {2, oneof("\"\\/\n\t\0 .:'<")},
        {1, oneof("\e\r\x{7F}\x{9B}\x{61C}\x{200B}\x{200F}\x{2028}\x{202E}\x{2066}\x{FEFF}=+-@")},
        {1, range(16#80, 16#D7FF)},
        {1, range(16#E000, 16#10FFFF)}
    ]).

value() ->
    frequency([
        {9, oneof([integer(), large(), float()])},
        {1, oneof([-1, 1.0, 1.0e100, -1.0e100, 5.0e-324, round(1.0e99), 0.0, -0.0])}
    ]).

large() ->
    ?LET({N, Shift}, {non_neg_integer(), range(0, 80)}, N bsl Shift).

nullable(Type) ->
    frequency([{1, null}, {4, Type}]).

short(Type) ->
    ?LET(N, range(0, 3), vector(N, Type)).

told_apart(Key, Items) ->
    [
        case Item of
            #{Key := null} -> Item;
            #{Key := Id} -> Item#{Key := <<(integer_to_binary(Index))/binary, "#", Id/binary>>}
        end
     || {Index, Item} <- lists:enumerate(Items)
    ].

object(Fields) ->
    ?LET(Pairs, Fields, maps:from_list(Pairs)).
