%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_name).
-moduledoc false.
%% Prints modules and functions in their own language, by the module's name: lists:sort/1, and
%% Shop.price/1 for 'Elixir.Shop':price/1. dyno_agent_patterns reads such names.

-export([mfa/1, call/2, module/1]).

-doc "A function with its arity, or with a call's arguments in its place.".
-spec mfa({module(), atom(), arity() | [term()]}) -> binary().
mfa({M, F, Arguments}) when is_list(Arguments) -> mfa({M, F, length(Arguments)});
mfa({M, F, A}) -> <<(call(M, F))/binary, $/, (integer_to_binary(A))/binary>>.

-doc "The same without an arity, to put before arguments.".
-spec call(module(), atom()) -> binary().
call(M, F) ->
    case elixir(M) of
        {ok, Name} -> text([Name, $., elixir_function(atom_to_list(F))]);
        no -> text(io_lib:format("~tw:~tw", [M, F]))
    end.

-spec module(atom()) -> binary().
module(M) ->
    case elixir(M) of
        {ok, Name} -> text(Name);
        no -> text(io_lib:format("~tw", [M]))
    end.

elixir(M) ->
    case atom_to_list(M) of
        "Elixir." ++ [C | _] = Name when C >= $A, C =< $Z -> {ok, lists:nthtail(7, Name)};
        _ -> no
    end.

%% Quoted as Elixir quotes: "-price/1-fun-0-" of an anonymous function.
elixir_function(Name) ->
    case re:run(Name, "^([\\p{Ll}_]\\w*[?!]?\\*?|[-+*/<>=!&|^~.@]+)$", [unicode, ucp]) of
        {match, _} -> Name;
        nomatch -> [$", Name, $"]
    end.

text(Chars) ->
    <<_/binary>> = unicode:characters_to_binary(Chars).
