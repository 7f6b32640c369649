%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_elixir).
-moduledoc false.
%% Elixir's maps and structs, `%{id: N, "name" => Name}` and `%My.App.User{id: N}`, in a text of
%% Erlang tokens: they become Erlang's map patterns. Pure.
%%
%% For Erlang's scanner a `%` begins a comment, so another character replaces it first.

-export([marked/1, tokens/1]).

-type token() :: erl_scan:token().

-define(MARK, $!).

-spec marked(string()) -> string().
marked([$$, $\\, Char | Rest]) ->
    [$$, $\\, Char | marked(Rest)];
marked([$$, Char | Rest]) ->
    [$$, Char | marked(Rest)];
marked([Quote | Rest]) when Quote =:= $"; Quote =:= $' -> [Quote | quoted(Rest, Quote)];
marked([$% | Rest]) ->
    case is_map_or_struct(Rest) of
        true -> [?MARK | marked(Rest)];
        false -> comment([$% | Rest])
    end;
marked([Char | Rest]) ->
    [Char | marked(Rest)];
marked([]) ->
    [].

quoted([$\\, Char | Rest], Quote) -> [$\\, Char | quoted(Rest, Quote)];
quoted([Quote | Rest], Quote) -> [Quote | marked(Rest)];
quoted([Char | Rest], Quote) -> [Char | quoted(Rest, Quote)];
quoted([], _Quote) -> [].

comment([$\n | Rest]) -> [$\n | marked(Rest)];
comment([Char | Rest]) -> [Char | comment(Rest)];
comment([]) -> [].

is_map_or_struct(Text) ->
    re:run(Text, ~"\\A([A-Z][A-Za-z0-9_.]*)?{", [unicode, {capture, none}]) =:= match.

-spec tokens([token()]) -> [token()].
tokens(Tokens) -> tokens(Tokens, 0).

tokens([{'!', Anno} | Rest] = All, Depth) ->
    case name(Rest) of
        {[], [{'{', _} = Open | Inside]} ->
            [{'#', erl_anno:set_text("%", Anno)}, Open | tokens(Inside, Depth + 1)];
        {Words, [{'{', _} = Open | Inside]} ->
            Text = lists:flatten(["%", lists:join(".", Words)]),
            Struct = struct(Words, behind(Open), Inside),
            [{'#', erl_anno:set_text(Text, Anno)}, Open] ++ Struct ++ tokens(Inside, Depth + 1);
        _ ->
            [hd(All) | tokens(Rest, Depth)]
    end;
tokens([Token | Rest], 0) ->
    [Token | tokens(Rest, 0)];
tokens([{Bracket, _} = Token | Rest], Depth) when
    Bracket =:= '{'; Bracket =:= '['; Bracket =:= '('; Bracket =:= '<<'
->
    [Token | tokens(Rest, Depth + 1)];
tokens([{Bracket, _} = Token | Rest], Depth) when
    Bracket =:= '}'; Bracket =:= ']'; Bracket =:= ')'; Bracket =:= '>>'
->
    [Token | tokens(Rest, Depth - 1)];
tokens([{atom, _, _} = Key, {':', Anno} | Rest], Depth) ->
    [Key, {':=', Anno} | tokens(Rest, Depth)];
tokens([{Word, Anno}, {':', Colon} | Rest], Depth) ->
    case erl_scan:reserved_word(Word) of
        true -> [{atom, Anno, Word}, {':=', Colon} | tokens(Rest, Depth)];
        false -> [{Word, Anno} | tokens([{':', Colon} | Rest], Depth)]
    end;
tokens([{':', Anno}, {atom, _, Name} | Rest], Depth) ->
    [{atom, erl_anno:set_text(":" ++ atom_to_list(Name), Anno), Name} | tokens(Rest, Depth)];
tokens([{'=>', Anno} | Rest], Depth) ->
    [{':=', Anno} | tokens(Rest, Depth)];
tokens([{string, Anno, _} = String | Rest], Depth) ->
    After = behind(String),
    Before = erl_anno:set_text("", Anno),
    [
        {'<<', Before},
        String,
        {'/', After},
        {atom, After, utf8},
        {'>>', After}
        | tokens(Rest, Depth)
    ];
tokens([{var, Anno, _}, {'.', _} | _] = Tokens, Depth) ->
    {Words, Rest} = name(Tokens),
    Text = lists:flatten(lists:join(".", Words)),
    [{atom, erl_anno:set_text(Text, Anno), module(Words)} | tokens(Rest, Depth)];
tokens([Token | Rest], Depth) ->
    [Token | tokens(Rest, Depth)];
tokens([], _Depth) ->
    [].

%% My.App.User
name([{var, _, Word}, {'.', _} | Rest]) ->
    {Words, After} = name(Rest),
    {[atom_to_list(Word) | Words], After};
name([{var, _, Word} | Rest]) ->
    {[atom_to_list(Word)], Rest};
name(Rest) ->
    {[], Rest}.

module(Words) -> list_to_atom(lists:flatten(lists:join(".", ["Elixir" | Words]))).

struct(Words, Anno, Inside) ->
    Comma =
        case Inside of
            [{'}', _} | _] -> [];
            _ -> [{',', Anno}]
        end,
    [{atom, Anno, '__struct__'}, {':=', Anno}, {atom, Anno, module(Words)}] ++ Comma.

%% The end of a token, for tokens without text.
behind(Token) ->
    Anno = element(2, Token),
    {Line, Column} = erl_anno:location(Anno),
    At = {Line, Column + string:length(erl_anno:text(Anno))},
    erl_anno:set_text("", erl_anno:set_location(At, Anno)).
