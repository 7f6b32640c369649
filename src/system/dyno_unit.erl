%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_unit).
-moduledoc """
Writes a value with its unit for people, and reads their spelling. The only table of units: for
recordings, options, thresholds, specifications and output.

A recording has units in a fixed spelling (`t:unit/0`). `format/2` makes a short text, `parse/1`
reads a text into the base unit of its dimension, and `to_base/2` converts to that unit, for
comparison. Prefixes are decimal (1 kB is 1,000 B) unless written as KiB, MiB or GiB.
""".

%% For people
-export([format/2, format/3]).
%% From people
-export([parse/1, accepted/0, usual/1]).
%% Arithmetic
-export([to_base/2, dimension/1, base/1, units/0]).

-export_type([unit/0, dimension/0, reason/0]).

-doc "A recording's spelling: one of `units/0`.".
-type unit() :: binary().

-doc "Only values of the same dimension can be compared.".
-type dimension() ::
    time
    | size
    | words
    | number
    | ratio
    | rate
    | byte_rate
    | time_per_call
    | words_per_call.

-doc "Why a text is no value; the offset is in characters, from 0.".
-type reason() ::
    {number_expected, Offset :: non_neg_integer()}
    | {number_out_of_range, Offset :: non_neg_integer()}
    | {unknown_unit, Offset :: non_neg_integer(), Unit :: binary()}.

%% A larger exponent is a typing error, and its power of ten would only cost memory.
-define(MAX_EXPONENT, 30).
-define(MAX_DIGITS, 40).
-define(DIGITS, 3).
-define(MAX_DECIMALS, 12).
%% Below the range of floats, with room for factors.
-define(MAX_READABLE, 1.0e290).

%% Unit in a recording, dimension, factor to the base unit as a fraction.
-define(UNITS, [
    {~"ns", time, {1, 1}},
    {~"us", time, {1_000, 1}},
    {~"ms", time, {1_000_000, 1}},
    {~"s", time, {1_000_000_000, 1}},
    {~"B", size, {1, 1}},
    {~"words", words, {1, 1}},
    {~"1", number, {1, 1}},
    {~"count", number, {1, 1}},
    {~"ratio", ratio, {1, 1}},
    {~"1/s", rate, {1, 1}},
    {~"count/s", rate, {1, 1}},
    {~"B/s", byte_rate, {1, 1}},
    {~"ns/call", time_per_call, {1, 1}},
    {~"words/call", words_per_call, {1, 1}}
]).

-doc "All units of recordings.".
-spec units() -> [unit()].
units() ->
    [Unit || {Unit, _, _} <- ?UNITS].

-doc "The dimension of a unit.".
-spec dimension(unit()) -> {ok, dimension()} | error.
dimension(Unit) ->
    case lists:keyfind(Unit, 1, ?UNITS) of
        {Unit, Dimension, _} -> {ok, Dimension};
        false -> error
    end.

-doc "The base unit of a dimension.".
-spec base(dimension()) -> unit().
base(Dimension) ->
    {Unit, Dimension, {1, 1}} = lists:keyfind(Dimension, 2, ?UNITS),
    Unit.

-doc "Converts to the dimension's base unit, `{12, ~\"ms\"}` to `{12000000, ~\"ns\"}`; any unit.".
-spec to_base(number(), unit()) -> {ok, {number(), unit()}} | error.
to_base(Value, Unit) ->
    case row(Unit) of
        {_, Dimension, Factor} -> {ok, {scale(Value, Factor), base(Dimension)}};
        false -> error
    end.

row(Unit) ->
    lists:keyfind(Unit, 1, ?UNITS ++ written()).

-doc """
A short text with three significant digits: `13.2 ms`, `45.2 kB`, `12.3 k/s`, `3.2 %`.

Counts and rates below 10,000 keep all integer digits. Unknown units stay as they are.
""".
-spec format(number(), unit()) -> binary().
format(Value, Unit) ->
    format(Value, Unit, ?DIGITS).

-doc "As `format/2`, with a number of significant digits.".
-spec format(number(), unit(), pos_integer()) -> binary().
format(Value, Unit, _Digits) when abs(Value) > ?MAX_READABLE ->
    iolist_to_binary([io_lib:write(Value), " ", Unit]);
format(Value, Unit, Digits) ->
    %% Only a recording's units: in a user's metric `m` is a metre, not a minute.
    case lists:keyfind(Unit, 1, ?UNITS) of
        {Unit, Dimension, Of} ->
            Base = scale(Value, Of),
            %% Rounding comes before the prefix: 999.96 ns is 1 us, not 1000 ns.
            Shown = max(Digits, whole_digits(Dimension)),
            {Factor, Suffix} = prefix(abs(rounded(Base, Shown)), prefixes(Dimension)),
            iolist_to_binary([digits(scale(Base, Factor), Digits), Suffix]);
        false ->
            iolist_to_binary([digits(Value, Digits), " ", Unit])
    end.

-doc """
Reads a number with an optional unit: `20 ms`, `0.1 %`, `512MB`, `10 k/s`, `1.5e3`.

The result is in the base unit of its dimension; a whole number stays an exact integer.
""".
-spec parse(unicode:chardata()) -> {ok, {number(), unit()}} | {error, reason()}.
parse(Chars) ->
    Text = unicode:characters_to_binary(Chars),
    Pattern = "^\\s*([+-]?)(\\d+)(?:\\.(\\d+))?(?:[eE]([+-]?\\d+))?\\s*((?:\\S.*)?)$",
    case re:run(Text, Pattern, [{capture, all_but_first, index}, unicode, dotall]) of
        {match, [Sign, Whole, Fraction, Exponent, {UnitAt, UnitLength}]} ->
            Name = string:trim(binary:part(Text, UnitAt, UnitLength)),
            [S, W, F, E] = [part(Text, Part) || Part <- [Sign, Whole, Fraction, Exponent]],
            %% The text before the unit is ASCII: bytes are characters.
            case {lists:keyfind(Name, 1, written()), decimal(S, W, F, E)} of
                {_, error} ->
                    {error, {number_out_of_range, element(1, Sign)}};
                {false, _} ->
                    {error, {unknown_unit, UnitAt, Name}};
                {{Name, Dimension, {Up, Down}}, {ok, {Above, Below}}} ->
                    {ok, {fraction(Above * Up, Below * Down), base(Dimension)}}
            end;
        nomatch ->
            Trimmed = string:trim(Text, leading),
            {error, {number_expected, string:length(Text) - string:length(Trimmed)}}
    end.

-doc "All units that `parse/1` accepts.".
-spec accepted() -> [binary()].
accepted() ->
    [Name || {Name, _, _} <- written(), Name =/= <<>>].

-doc "The most usual units of a dimension, in words.".
-spec usual(dimension()) -> string().
usual(time) -> "ns, us, ms, s, min or h";
usual(size) -> "B, kB, MB, GB, KiB, MiB or GiB";
usual(words) -> "words, or no unit";
usual(number) -> "no unit, or k or M";
usual(ratio) -> "%, or no unit";
usual(rate) -> "/s, k/s or M/s";
usual(byte_rate) -> "B/s, kB/s, MB/s or GB/s";
usual(time_per_call) -> "ns, us, ms or s";
usual(words_per_call) -> "words, or no unit".

written() ->
    Times = [
        {~"ns", 1},
        {~"us", 1_000},
        %% micro sign, and the Greek letter
        {<<"\x{b5}s"/utf8>>, 1_000},
        {<<"\x{3bc}s"/utf8>>, 1_000},
        {~"ms", 1_000_000},
        {~"s", 1_000_000_000},
        {~"m", 60_000_000_000},
        {~"min", 60_000_000_000},
        {~"h", 3_600_000_000_000}
    ],
    Binary = [{~"KiB", 1 bsl 10}, {~"MiB", 1 bsl 20}, {~"GiB", 1 bsl 30}, {~"TiB", 1 bsl 40}],
    Sizes = [{<<Prefix/binary, "B">>, Factor} || {Prefix, Factor} <- thousands()] ++ Binary,
    Multipliers = [{~"K", 1_000} | thousands()],
    lists:append([
        [{Name, time, {Factor, 1}} || {Name, Factor} <- Times],
        [{Name, size, {Factor, 1}} || {Name, Factor} <- Sizes],
        [{~"%", ratio, {1, 100}}, {~"ratio", ratio, {1, 1}}],
        [{Name, number, {Factor, 1}} || {Name, Factor} <- Multipliers],
        [{~"count", number, {1, 1}}],
        [{<<Name/binary, "/s">>, rate, {Factor, 1}} || {Name, Factor} <- Multipliers],
        [{~"1/s", rate, {1, 1}}, {~"count/s", rate, {1, 1}}],
        [{<<Name/binary, "/s">>, byte_rate, {Factor, 1}} || {Name, Factor} <- Sizes],
        [{<<Name/binary, "/call">>, time_per_call, {Factor, 1}} || {Name, Factor} <- Times],
        [{~"words", words, {1, 1}}, {~"words/call", words_per_call, {1, 1}}]
    ]).

%% From a value in the base unit: factor and suffix; ascending.
prefixes(time) -> times("");
prefixes(time_per_call) -> times("/call");
prefixes(size) -> prefixed(thousands(), 1, "B");
prefixes(byte_rate) -> prefixed(thousands(), 1, "B/s");
prefixes(ratio) -> [{0, {100, 1}, " %"}];
prefixes(number) -> counted("", "");
prefixes(rate) -> counted(" /s", "/s");
prefixes(words) -> counted(" words", " words");
prefixes(words_per_call) -> counted(" words/call", " words/call").

whole_digits(Dimension) ->
    case lists:member(Dimension, [number, rate, words, words_per_call]) of
        true -> 4;
        false -> 1
    end.

%% Counts stay whole up to 10,000: 6172, not 6.17 k.
counted(Plain, Prefixed) ->
    [{0, {1, 1}, Plain} | prefixed(tl(thousands()), 10_000, Prefixed)].

prefixed(Prefixes, Least, Suffix) ->
    [{max(Least, Factor), {1, Factor}, [" ", P, Suffix]} || {P, Factor} <- Prefixes].

times(Per) ->
    [
        {From, {1, Factor}, [" ", Name, Per]}
     || {From, Factor, Name} <- [
            {0, 1, "ns"},
            {1_000, 1_000, "us"},
            {1_000_000, 1_000_000, "ms"},
            {1_000_000_000, 1_000_000_000, "s"},
            {120_000_000_000, 60_000_000_000, "min"},
            {7_200_000_000_000, 3_600_000_000_000, "h"}
        ]
    ].

thousands() ->
    [
        {~"", 1},
        {~"k", 1_000},
        {~"M", 1_000_000},
        {~"G", 1_000_000_000},
        {~"T", 1_000_000_000_000}
    ].

prefix(Size, [_, {From, _, _} = Next | Rest]) when Size >= From -> prefix(Size, [Next | Rest]);
prefix(_Size, [{_, Factor, Suffix} | _]) -> {Factor, Suffix}.

rounded(Value, _) when Value == 0 -> 0;
rounded(Value, Digits) ->
    binary_to_float(float_to_binary(float(Value), [{scientific, Digits - 1}])).

digits(Value, _) when Value == 0 ->
    ~"0";
digits(Value, Digits) ->
    Exponent = floor(math:log10(abs(rounded(Value, Digits)))),
    case Digits - 1 - Exponent of
        Decimals when Decimals =< 0, Exponent < 16 ->
            integer_to_binary(round(Value));
        Decimals when Decimals > 0, Decimals =< ?MAX_DECIMALS ->
            without_zeros(float_to_binary(float(Value), [{decimals, Decimals}]));
        _ ->
            float_to_binary(float(Value), [{scientific, Digits - 1}])
    end.

%% 1.50 is 1.5, and 1.00 is 1.
without_zeros(Text) ->
    Shorter = binary:part(Text, 0, byte_size(Text) - 1),
    case binary:last(Text) of
        $0 -> without_zeros(Shorter);
        $. -> Shorter;
        _ -> Text
    end.

scale(Value, {Up, 1}) -> Value * Up;
scale(Value, {Up, Down}) -> Value * Up / Down.

part(_, {-1, 0}) -> <<>>;
part(Text, {At, Length}) -> binary:part(Text, At, Length).

decimal(Sign, Whole, Fraction, Exponent) ->
    Power =
        case Exponent of
            <<>> -> 0;
            _ when byte_size(Exponent) > 3 -> ?MAX_EXPONENT + 1;
            _ -> binary_to_integer(Exponent)
        end,
    Digits = byte_size(Whole) + byte_size(Fraction),
    if
        abs(Power) > ?MAX_EXPONENT; Digits > ?MAX_DIGITS ->
            error;
        true ->
            Above = binary_to_integer(<<Sign/binary, Whole/binary, Fraction/binary>>),
            Below = power_of_ten(byte_size(Fraction)),
            case Power >= 0 of
                true -> {ok, {Above * power_of_ten(Power), Below}};
                false -> {ok, {Above, Below * power_of_ten(-Power)}}
            end
    end.

power_of_ten(0) -> 1;
power_of_ten(N) -> 10 * power_of_ten(N - 1).

fraction(Above, Below) when Above rem Below =:= 0 -> Above div Below;
fraction(Above, Below) -> Above / Below.
