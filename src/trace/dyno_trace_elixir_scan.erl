%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_elixir_scan).
-moduledoc false.
%% The tokens of a pattern in Elixir's syntax, each with its column, up to the arrow `->`. Mistakes
%% are thrown as {Column, Sentence}, for dyno_trace_pattern.

-export([tokens/2]).
-export_type([token/0]).

-type token() :: {Kind :: atom(), Column :: pos_integer(), Value :: term()}.

-define(OPERATORS, [
    "===",
    "!==",
    "==",
    "!=",
    "<=",
    ">=",
    "=>",
    "<>",
    "<<",
    ">>",
    "..",
    "++",
    "--",
    "&&",
    "||",
    "|>",
    "=~",
    "<",
    ">",
    "=",
    "+",
    "-",
    "*",
    "/",
    "|",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "%",
    ".",
    "^",
    "!",
    "&"
]).
-define(WORDS, ["when", "and", "or", "not", "in"]).

-spec tokens(string(), pos_integer()) -> {[token()], string(), pos_integer()}.
tokens(Text, Column) -> scan(Text, Column, []).

scan("->" ++ _ = Arrow, At, Tokens) ->
    {lists:reverse(Tokens), Arrow, At};
scan([], At, Tokens) ->
    {lists:reverse(Tokens), [], At};
scan([Space | Rest], At, Tokens) when Space =< $\s ->
    scan(Rest, At + 1, Tokens);
scan(Text, At, Tokens) ->
    {Kind, Value, Rest} = token(Text, At),
    scan(Rest, At + length(Text) - length(Rest), [{Kind, At, Value} | Tokens]).

token([$" | Rest], At) ->
    {Content, Behind} = quoted(Rest, $", At, []),
    key_or({string, unicode:characters_to_binary(Content)}, Content, Behind);
token([$' | Rest], At) ->
    {Content, Behind} = quoted(Rest, $', At, []),
    {charlist, Content, Behind};
token([$:, $" | Rest], At) ->
    {Name, Behind} = quoted(Rest, $", At, []),
    {atom, list_to_atom(Name), Behind};
token([$:, C | _] = Text, _At) when C =/= $: ->
    case run(tl(Text), "^[\\p{L}_][\\w@]*[?!]?") of
        {Name, Rest} -> {atom, list_to_atom(Name), Rest};
        nomatch -> operator_atom(tl(Text))
    end;
token([$?, $\\, C | Rest], _At) ->
    {integer, escape(C), Rest};
token([$?, C | Rest], _At) ->
    {integer, C, Rest};
token([C | _] = Text, _At) when C >= $0, C =< $9 ->
    number(Text);
token(Text, At) ->
    Kinds = [
        {alias, "^[A-Z]\\w*(\\.[A-Z]\\w*)*"},
        {name, "^[\\p{Ll}_]\\w*[?!]?"}
    ],
    case [{Kind, Found} || {Kind, Regexp} <- Kinds, {_, _} = Found <- [run(Text, Regexp)]] of
        [{Kind, {Word, Rest}} | _] -> key_or(word(Kind, Word), Word, Rest);
        [] -> operator(Text, At)
    end.

run(Text, Regexp) ->
    case re:run(Text, Regexp, [unicode, ucp, {capture, first, list}]) of
        {match, [Found]} -> {Found, lists:nthtail(length(Found), Text)};
        nomatch -> nomatch
    end.

word(name, Word) ->
    case lists:member(Word, ?WORDS) of
        true -> {list_to_existing_atom(Word), Word};
        false -> {name, Word}
    end;
word(alias, "Elixir." ++ _ = Word) ->
    {atom, list_to_atom(Word)};
word(alias, Word) ->
    {atom, list_to_atom("Elixir." ++ Word)}.

%% `id: value`, with one colon.
key_or({Kind, Value}, _Name, [$:, $: | _] = Rest) -> {Kind, Value, Rest};
key_or(_Token, Name, [$: | Rest]) -> {key, list_to_atom(Name), Rest};
key_or({Kind, Value}, _Name, Rest) -> {Kind, Value, Rest}.

operator_atom(Text) ->
    case [Op || Op <- ?OPERATORS, lists:prefix(Op, Text)] of
        [Op | _] -> {atom, list_to_atom(Op), lists:nthtail(length(Op), Text)};
        [] -> {atom, '', Text}
    end.

operator(Text, At) ->
    case [Op || Op <- ?OPERATORS, lists:prefix(Op, Text)] of
        [Op | _] -> {list_to_atom(Op), Op, lists:nthtail(length(Op), Text)};
        [] -> throw({At, "not understood from here on"})
    end.

quoted([Quote | Rest], Quote, _At, Content) ->
    {lists:reverse(Content), Rest};
quoted("#{" ++ _, _Quote, At, _Content) ->
    throw({At, "a text stands as it is here: nothing is put into it by #{}"});
quoted([$\\, C | Rest], Quote, At, Content) ->
    quoted(Rest, Quote, At, [escape(C) | Content]);
quoted([C | Rest], Quote, At, Content) ->
    quoted(Rest, Quote, At, [C | Content]);
quoted([], Quote, At, _Content) ->
    throw({At, ["the text that begins here has no end: add ", Quote]}).

escape(C) ->
    maps:get(C, #{$n => $\n, $t => $\t, $r => $\r, $e => $\e, $s => $\s, $0 => 0}, C).

number(Text) ->
    Forms = [
        {"^0x[0-9a-fA-F]+", fun([_, _ | Digits]) -> {integer, list_to_integer(Digits, 16)} end},
        {"^0b[01]+", fun([_, _ | Digits]) -> {integer, list_to_integer(Digits, 2)} end},
        {"^0o[0-7]+", fun([_, _ | Digits]) -> {integer, list_to_integer(Digits, 8)} end},
        {"^[0-9][0-9_]*\\.[0-9][0-9_]*([eE][-+]?[0-9]+)?", fun(Digits) ->
            {float, list_to_float(Digits)}
        end},
        {"^[0-9][0-9_]*", fun(Digits) -> {integer, list_to_integer(Digits)} end}
    ],
    [{Kind, Value, Rest} | _] = [
        begin
            {Kind, Value} = Read([C || C <- Found, C =/= $_]),
            {Kind, Value, Rest}
        end
     || {Regexp, Read} <- Forms, {Found, Rest} <- [run(Text, Regexp)]
    ],
    {Kind, Value, Rest}.
