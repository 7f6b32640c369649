%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sizes_words).
-moduledoc false.
%% The words of sentences about a test's sizes. Pure.

-export([label/1, with/2, preposition/1, with_workers/3, times/1, number/1]).

-spec label(dyno_recording:document()) -> binary().
label(#{~"parameters" := #{~"size_label" := Label}}) when is_binary(Label) -> Label;
label(_Document) -> ~"size".

%% With 4 connections; at 4 requests/s; at size 4.
-spec with(Size :: number(), Label :: binary()) -> iolist().
with(Size, Label) ->
    [preposition(Label), " ", dyno_recording_run:place(Label, number(Size))].

-spec preposition(Label :: binary()) -> string().
preposition(Label) ->
    case Label =:= ~"size" orelse binary:match(Label, ~"/") =/= nomatch of
        true -> "at";
        false -> "with"
    end.

%% Usually the size is the number of workers.
-spec with_workers(Workers :: number(), Size :: number(), Label :: binary()) ->
    {unicode:chardata(), Counted :: binary()}.
with_workers(Workers, Size, Label) when Workers == Size, Label =/= ~"size" ->
    {with(Size, Label), Label};
with_workers(Workers, Size, _Label) when Workers == Size ->
    {with(Workers, ~"workers"), ~"workers"};
with_workers(Workers, Size, Label) ->
    Place = dyno_recording_run:place(Label, number(Size)),
    {[with(Workers, ~"workers"), " (", Place, ")"], ~"workers"}.

-spec times(number()) -> binary().
times(Factor) -> float_to_binary(float(Factor), [{decimals, 1}]).

-spec number(number()) -> unicode:chardata().
number(Value) -> dyno_unit:format(Value, ~"count").
