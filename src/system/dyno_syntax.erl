%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_syntax).
-moduledoc false.
%% Errors of Erlang's scanner and parser, without what was put behind the user's text. Pure.

-export([error/3]).

-type location() :: erl_anno:location().

-doc "The place and reason of an error: an open bracket, or something missing at the end.".
-spec error([erl_scan:token()], End :: location(), {location(), module(), term()}) ->
    {location(), unicode:chardata()}.
error(Tokens, End, {At, _, _}) when At >= End ->
    case open(Tokens, []) of
        [{Bracket, Where} | _] -> {Where, ["this ", atom_to_list(Bracket), " is not closed"]};
        [] -> {End, "not complete: something is missing at the end"}
    end;
error(_Tokens, _End, {At, Module, Why}) ->
    {At, string:trim(Module:format_error(Why))}.

%% The brackets that are open at the end, the innermost first.
open([{Bracket, Anno} | Tokens], Open) when
    Bracket =:= '('; Bracket =:= '['; Bracket =:= '{'; Bracket =:= '<<'
->
    open(Tokens, [{Bracket, erl_anno:location(Anno)} | Open]);
open([{Bracket, _} | Tokens], [_ | Outer]) when
    Bracket =:= ')'; Bracket =:= ']'; Bracket =:= '}'; Bracket =:= '>>'
->
    open(Tokens, Outer);
open([_ | Tokens], Open) ->
    open(Tokens, Open);
open([], Open) ->
    Open.
