%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_unit).
-moduledoc """
Shows a value with its unit as people read it: `13.2 ms` for 13201920 nanoseconds.
""".

-compile(warn_missing_spec_all).

-export([format/2]).

-define(TIMES, [{3.6e12, ~" h"}, {6.0e10, ~" min"}, {1.0e9, ~" s"}, {1.0e6, ~" ms"}, {1.0e3, ~" us"}]).
-define(BYTES, [{1 bsl 40, ~" TB"}, {1 bsl 30, ~" GB"}, {1 bsl 20, ~" MB"}, {1 bsl 10, ~" kB"}]).
-define(COUNTS, [{1.0e9, ~" G"}, {1.0e6, ~" M"}, {1.0e4, ~" k"}]).

-doc "The value in a human scale; `null` is `-`.".
-spec format(number() | null, binary()) -> binary().
format(null, _Unit) -> ~"-";
format(Value, ~"ns") -> scaled(Value, ?TIMES, ~" ns");
format(Value, ~"us") -> format(Value * 1000, ~"ns");
format(Value, ~"ms") -> format(Value * 1000000, ~"ns");
format(Value, ~"s") -> format(Value * 1000000000, ~"ns");
format(Value, ~"B") -> scaled(Value, ?BYTES, ~" B");
format(Value, ~"B/s") -> <<(format(Value, ~"B"))/binary, "/s">>;
format(Value, ~"ratio") -> <<(digits(Value * 100))/binary, " %">>;
format(Value, ~"ns/call") -> <<(format(Value, ~"ns"))/binary, "/call">>;
format(Value, ~"1/s") -> <<(scaled(Value, ?COUNTS, ~" "))/binary, "/s">>;
format(Value, ~"count/s") -> <<(scaled(Value, ?COUNTS, ~" "))/binary, "/s">>;
format(Value, ~"words") -> scaled(Value, ?COUNTS, ~" words");
format(Value, ~"words/call") -> scaled(Value, ?COUNTS, ~" words/call");
format(Value, ~"count") when is_integer(Value) -> integer_to_binary(Value);
format(Value, _) -> digits(Value).

-spec scaled(number(), [{number(), binary()}], binary()) -> binary().
scaled(Value, [{Scale, Unit} | _], _) when abs(Value) >= Scale ->
    <<(digits(Value / Scale))/binary, Unit/binary>>;
scaled(Value, [_ | Scales], Unit) ->
    scaled(Value, Scales, Unit);
scaled(Value, [], Unit) ->
    <<(digits(Value))/binary, Unit/binary>>.

-spec digits(number()) -> binary().
digits(Value) when is_integer(Value) -> integer_to_binary(Value);
digits(Value) when abs(Value) >= 100 -> float_to_binary(Value, [{decimals, 0}]);
digits(Value) when abs(Value) >= 10 -> float_to_binary(Value, [{decimals, 1}]);
digits(Value) -> float_to_binary(Value * 1.0, [{decimals, 2}]).
