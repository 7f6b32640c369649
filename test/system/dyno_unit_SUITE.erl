%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_unit_SUITE).
-moduledoc false.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-import(proper_types, [
    float/2, oneof/1, range/2
]).

suite() -> [{timetrap, {minutes, 5}}].

newest_release_only() -> all.

all() ->
    [
        formats,
        keeps_digits_whole_when_counted,
        parses,
        refuses,
        exact,
        base_of_every_unit,
        parse_reads_format
    ].

formats(_) ->
    Expected = [
        {13_201_920, ~"ns", ~"13.2 ms"},
        {0, ~"ns", ~"0 ns"},
        {999.96, ~"ns", ~"1 us"},
        {1.5, ~"ms", ~"1.5 ms"},
        {350.0e9, ~"ns", ~"5.83 min"},
        {-5.5, ~"ms", ~"-5.5 ms"},
        {45_210, ~"B", ~"45.2 kB"},
        {999_999, ~"B", ~"1 MB"},
        {12, ~"B", ~"12 B"},
        {0.032, ~"ratio", ~"3.2 %"},
        {1, ~"ratio", ~"100 %"},
        {0.00001, ~"ratio", ~"0.001 %"},
        {1.9, ~"1", ~"1.9"},
        {20_000, ~"ns/call", ~"20 us/call"},
        {7, ~"words/call", ~"7 words/call"},
        {2_500_000, ~"B/s", ~"2.5 MB/s"},
        {5, ~"furlongs", ~"5 furlongs"}
    ],
    [?assertEqual({Text, V, U}, {dyno_unit:format(V, U), V, U}) || {V, U, Text} <- Expected].

keeps_digits_whole_when_counted(_) ->
    ?assertEqual(~"6172", dyno_unit:format(6172, ~"count")),
    ?assertEqual(~"9999", dyno_unit:format(9999, ~"count")),
    ?assertEqual(~"10 k", dyno_unit:format(10_000, ~"count")),
    ?assertEqual(~"1235 /s", dyno_unit:format(1234.5, ~"1/s")),
    ?assertEqual(~"12.3 k/s", dyno_unit:format(12_345, ~"1/s")).

parses(_) ->
    Expected = [
        {"20 ms", {20_000_000, ~"ns"}},
        {"20ms", {20_000_000, ~"ns"}},
        {"0.1 %", {0.001, ~"ratio"}},
        {"512 MB", {512_000_000, ~"B"}},
        {"1 KiB", {1024, ~"B"}},
        {" 10 k/s ", {10_000, ~"1/s"}},
        {"20 \x{b5}s", {20_000, ~"ns"}},
        {"20 \x{3bc}s", {20_000, ~"ns"}},
        {"2 m", {120_000_000_000, ~"ns"}},
        {"2 M", {2_000_000, ~"1"}},
        {"1.5e3", {1500, ~"1"}},
        {"1e-3 s", {1_000_000, ~"ns"}},
        {"-3", {-3, ~"1"}},
        {"3 us/call", {3_000, ~"ns/call"}},
        {"4 MB/s", {4_000_000, ~"B/s"}}
    ],
    [?assertEqual({Text, {ok, Value}}, {Text, dyno_unit:parse(Text)}) || {Text, Value} <- Expected].

refuses(_) ->
    ?assertEqual({error, {number_expected, 0}}, dyno_unit:parse("")),
    ?assertEqual({error, {number_expected, 2}}, dyno_unit:parse("  fast")),
    ?assertEqual({error, {unknown_unit, 3, ~"MBB"}}, dyno_unit:parse("20 MBB")),
    ?assertEqual({error, {unknown_unit, 3, ~".2"}}, dyno_unit:parse("1.5.2")),
    ?assertEqual({error, {number_out_of_range, 0}}, dyno_unit:parse("1e99")),
    ?assertEqual({error, {number_out_of_range, 0}}, dyno_unit:parse("1e-999999999")).

%% 0.1 + 0.2 style errors must not turn a limit into 300000000.00000006.
exact(_) ->
    ?assertEqual({ok, {300_000_000, ~"ns"}}, dyno_unit:parse("0.3 s")),
    ?assertEqual({ok, {1_100_000, ~"ns"}}, dyno_unit:parse("1.1 ms")),
    ?assertEqual({ok, {3.3e-7, ~"ratio"}}, dyno_unit:parse("0.000033 %")).

base_of_every_unit(_) ->
    [
        begin
            {ok, Dimension} = dyno_unit:dimension(Unit),
            {ok, {_, Base}} = dyno_unit:to_base(1, Unit),
            ?assertEqual({Unit, dyno_unit:base(Dimension)}, {Unit, Base})
        end
     || Unit <- dyno_unit:units()
    ],
    ?assertEqual({ok, {12_000_000, ~"ns"}}, dyno_unit:to_base(12, ~"ms")),
    ?assertEqual(error, dyno_unit:to_base(1, ~"furlongs")).

%% What is written for people is read back to within its three digits.
parse_reads_format(_) ->
    dyno_property:holds(prop_parse_reads_format(), 500).

prop_parse_reads_format() ->
    Written = [
        ~"ns", ~"us", ~"ms", ~"s", ~"B", ~"1/s", ~"B/s", ~"ratio", ~"1", ~"count", ~"ns/call"
    ],
    ?FORALL(
        {Mantissa, Power, Unit},
        {float(-10.0, 10.0), range(-3, 15), oneof(Written)},
        begin
            {ok, {Base, BaseUnit}} = dyno_unit:to_base(Mantissa * math:pow(10, Power), Unit),
            {ok, {Read, ReadUnit}} = dyno_unit:parse(dyno_unit:format(Base, BaseUnit)),
            ?WHENFAIL(
                ct:pal("~p ~ts: ~ts", [Base, BaseUnit, dyno_unit:format(Base, BaseUnit)]),
                dyno_unit:dimension(BaseUnit) =:= dyno_unit:dimension(ReadUnit) andalso
                    abs(Read - Base) =< abs(Base) * 0.0051
            )
        end
    ).
