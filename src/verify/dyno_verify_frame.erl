%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_frame).
-moduledoc false.
%% Reads terms in the external format, from untrusted files: without new atoms (dyno_verify_name),
%% and without code. The runtime reads terms of known atoms; others are read here, tag by tag
%% (erts, "External Term Format"). Compressed terms, maybe a thousand times larger, are refused.

-export([term/1]).

-spec term(binary()) -> {ok, term()} | error.
term(<<131, 80, _/binary>>) ->
    error;
term(<<131, Rest/binary>> = Binary) ->
    try
        {ok, binary_to_term(Binary, [safe])}
    catch
        error:badarg -> of_unknown(Rest)
    end;
term(_Binary) ->
    error.

of_unknown(Rest) ->
    try
        {Term, _} = read(Rest),
        {ok, Term}
    catch
        error:_ -> error
    end.

read(<<97, N, Rest/binary>>) ->
    {N, Rest};
read(<<98, N:32/signed, Rest/binary>>) ->
    {N, Rest};
read(<<70, Float/float, Rest/binary>>) ->
    {Float, Rest};
read(<<110, Size, Sign, N:Size/unit:8-little, Rest/binary>>) ->
    {signed(Sign, N), Rest};
read(<<111, Size:32, Sign, N:Size/unit:8-little, Rest/binary>>) ->
    {signed(Sign, N), Rest};
read(<<106, Rest/binary>>) ->
    {[], Rest};
read(<<107, Size:16, Bytes:Size/binary, Rest/binary>>) ->
    {binary_to_list(Bytes), Rest};
read(<<108, Count:32, Rest/binary>>) ->
    {Elements, Behind} = read(Count, Rest, []),
    {Tail, Last} = read(Behind),
    {lists:reverse(Elements, Tail), Last};
read(<<109, Size:32, Bytes:Size/binary, Rest/binary>>) ->
    {Bytes, Rest};
read(<<77, Size:32, Last, Bytes:Size/binary, Rest/binary>>) when Size > 0, Last > 0, Last =< 8 ->
    Bits = 8 * (Size - 1) + Last,
    <<Bitstring:Bits/bitstring, _/bitstring>> = Bytes,
    {Bitstring, Rest};
read(<<104, Arity, Rest/binary>>) ->
    tuple(read(Arity, Rest, []));
read(<<105, Arity:32, Rest/binary>>) ->
    tuple(read(Arity, Rest, []));
read(<<116, Count:32, Rest/binary>>) ->
    {Elements, Behind} = read(2 * Count, Rest, []),
    {map(Elements, #{}), Behind};
read(<<88, Rest/binary>>) ->
    identifier(88, Rest, 12);
read(<<103, Rest/binary>>) ->
    identifier(103, Rest, 9);
read(<<89, Rest/binary>>) ->
    identifier(89, Rest, 8);
read(<<120, Rest/binary>>) ->
    identifier(120, Rest, 12);
read(<<102, Rest/binary>>) ->
    identifier(102, Rest, 5);
read(<<90, Count:16, Rest/binary>>) ->
    identifier(<<90, Count:16>>, Rest, 4 + 4 * Count);
read(<<114, Count:16, Rest/binary>>) ->
    identifier(<<114, Count:16>>, Rest, 1 + 4 * Count);
read(<<112, Size:32, Fun:(Size - 4)/binary, Rest/binary>>) ->
    <<_Arity, _Unique:16/binary, _Index:32, _Free:32, Named/binary>> = Fun,
    {Module, _} = name(Named),
    {{'$dyno', <<"a fun of ", Module/binary>>}, Rest};
read(<<113, Rest/binary>>) ->
    {Module, Behind} = name(Rest),
    {Function, <<97, Arity, Last/binary>>} = name(Behind),
    Text = [~"fun ", Module, $:, Function, $/, integer_to_binary(Arity)],
    {{'$dyno', iolist_to_binary(Text)}, Last};
read(Atom) ->
    {Name, Rest} = name(Atom),
    {dyno_verify_name:atom(Name), Rest}.

read(0, Rest, Terms) ->
    {Terms, Rest};
read(Count, Binary, Terms) ->
    {Term, Rest} = read(Binary),
    read(Count - 1, Rest, [Term | Terms]).

signed(0, N) -> N;
signed(1, N) -> -N.

tuple({Elements, Rest}) ->
    {list_to_tuple(lists:reverse(Elements)), Rest}.

map([Value, Key | Pairs], Map) -> map(Pairs, Map#{Key => Value});
map([], Map) -> Map.

name(<<119, Size, Name:Size/binary, Rest/binary>>) -> {Name, Rest};
name(<<118, Size:16, Name:Size/binary, Rest/binary>>) -> {Name, Rest};
name(<<115, Size, Name:Size/binary, Rest/binary>>) -> {from_latin1(Name), Rest};
name(<<100, Size:16, Name:Size/binary, Rest/binary>>) -> {from_latin1(Name), Rest}.

from_latin1(Name) ->
    <<_/binary>> = unicode:characters_to_binary(Name, latin1).

%% A pid, port or reference: a node's name, and numbers.
identifier(Tag, Binary, Size) when is_integer(Tag) ->
    identifier(<<Tag>>, Binary, Size);
identifier(Tag, Binary, Size) ->
    {Name, Behind} = name(Binary),
    <<Numbers:Size/binary, Rest/binary>> = Behind,
    <<131, Node/binary>> = term_to_binary(dyno_verify_name:node(Name)),
    {binary_to_term(<<131, Tag/binary, Node/binary, Numbers/binary>>), Rest}.
