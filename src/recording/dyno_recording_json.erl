%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_json).
-moduledoc false.
%% A recording's text: JSON for people and line-based tools. Fields come in the schema's order, and
%% each flat value (a metric, series, row or bucket) takes one line, so that a diff of two
%% recordings is short.

-export([encode/1, decode/1]).

-export_type([reason/0]).

-doc "The error of a text; positions are bytes, from 0.".
-type reason() ::
    {not_utf8, Position :: non_neg_integer()}
    | {unexpected_end, Position :: non_neg_integer()}
    | {unexpected | too_large, Position :: non_neg_integer(), Found :: binary()}.

-define(INDENT, 1).

-spec encode(dyno_recording_check:json()) -> iolist().
encode(Value) ->
    Order = [{Field, Index} || {Index, Field} <- lists:enumerate(dyno_recording_check:fields())],
    [layout(Value, 0, maps:from_list(Order)), $\n].

-spec decode(binary()) -> {ok, dyno_recording_check:json()} | {error, reason()}.
decode(Text) ->
    case unicode:characters_to_binary(Text) of
        Text -> decode_utf8(Text);
        {_, Good, _} -> {error, {not_utf8, byte_size(Good)}}
    end.

%% json:decode/1 counts positions from the value's end; positions here count from the start.
decode_utf8(Text) ->
    try json:decode(Text, ok, #{}) of
        {Value, ok, Rest} ->
            case string:trim(Rest, leading, " \t\r\n") of
                <<>> -> {ok, Value};
                More -> unexpected(Text, byte_size(Text) - byte_size(More))
            end
    catch
        error:unexpected_end ->
            {error, {unexpected_end, byte_size(Text)}};
        error:{invalid_byte, _}:Stack ->
            unexpected(Text, position(Stack));
        error:{unexpected_sequence, _}:Stack ->
            unexpected(Text, position(Stack))
    end.

unexpected(Text, Position) ->
    <<_:Position/binary, Rest/binary>> = Text,
    Found = string:slice(whole(Rest), 0, 10),
    case re:run(Found, ~"^-?[0-9.]+[eE]\\+?[0-9]{3,}", [{capture, first, binary}]) of
        {match, [Number]} -> {error, {too_large, Position, Number}};
        nomatch -> {error, {unexpected, Position, Found}}
    end.

%% A position can be inside of a character.
whole(<<2#10:2, _:6, Rest/binary>>) -> whole(Rest);
whole(Rest) -> Rest.

position([{_, _, _, Info} | Rest]) ->
    case proplists:get_value(error_info, Info) of
        #{cause := #{position := Position}} -> Position;
        _ -> position(Rest)
    end;
position(_) ->
    0.

layout(Value, Depth, Order) when is_map(Value) ->
    Pairs = sorted(Value, Order),
    case lists:all(fun({_, V}) -> is_flat(V) end, Pairs) of
        true when Depth > 1; map_size(Value) =:= 0 ->
            line(Value, Order);
        _ ->
            Lines = [[dyno_text:json(Key), ": ", layout(V, Depth + 1, Order)] || {Key, V} <- Pairs],
            block(${, $}, Lines, Depth)
    end;
layout(Value, Depth, Order) when is_list(Value) ->
    case lists:all(fun is_scalar/1, Value) of
        true -> line(Value, Order);
        false -> block($[, $], [layout(V, Depth + 1, Order) || V <- Value], Depth)
    end;
layout(Value, _, _) ->
    dyno_text:json(Value).

block(Open, Close, [], _) ->
    [Open, Close];
block(Open, Close, Lines, Depth) ->
    Inner = [$\n, lists:duplicate((Depth + 1) * ?INDENT, $\s)],
    Outer = [$\n, lists:duplicate(Depth * ?INDENT, $\s)],
    [Open, Inner, lists:join([$,, Inner], Lines), Outer, Close].

line(Value, Order) when is_map(Value) ->
    Fields = [[dyno_text:json(Key), ": ", line(V, Order)] || {Key, V} <- sorted(Value, Order)],
    [${, lists:join(", ", Fields), $}];
line(Value, Order) when is_list(Value) ->
    [$[, lists:join(", ", [line(V, Order) || V <- Value]), $]];
line(Value, _) ->
    dyno_text:json(Value).

%% Flat: fits on its container's line.
is_flat(Value) when is_map(Value) -> lists:all(fun is_scalar/1, maps:values(Value));
is_flat(Value) when is_list(Value) -> lists:all(fun is_scalar/1, Value);
is_flat(_) -> true.

is_scalar(Value) ->
    not is_map(Value) andalso not is_list(Value).

sorted(Object, Order) ->
    Last = map_size(Order) + 1,
    Keyed = [{maps:get(Key, Order, Last), Key, Value} || {Key, Value} <- maps:to_list(Object)],
    [{Key, Value} || {_, Key, Value} <- lists:sort(Keyed)].
