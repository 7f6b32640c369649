%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_name).
-moduledoc false.
%% Prints modules and functions in their own language, by the module's name: lists:sort/1, and
%% Shop.price/1 for 'Elixir.Shop':price/1. dyno_agent_patterns reads such names. A name from a file
%% whose atom this node lacks is a text, {'$dyno', Name}.

-export([mfa/1, call/2, module/1, in_elixir/1]).
-export_type([text/0]).

-type text() :: {'$dyno', binary()}.

-doc "A function with its arity, or with a call's arguments in its place.".
-spec mfa({module() | text(), atom() | text(), arity() | [term()]}) -> binary().
mfa({M, F, Arguments}) when is_list(Arguments) -> mfa({M, F, length(Arguments)});
mfa({M, F, A}) -> <<(call(M, F))/binary, $/, (integer_to_binary(A))/binary>>.

-doc "The same without an arity, to put before arguments.".
-spec call(module() | text(), atom() | text()) -> binary().
call(M, F) ->
    case elixir(M) of
        {ok, Name} -> text([Name, $., elixir_function(name(F))]);
        no -> text([erlang(M), $:, erlang(F)])
    end.

-spec module(atom() | text()) -> binary().
module(M) ->
    case elixir(M) of
        {ok, Name} -> text(Name);
        no -> text(erlang(M))
    end.

-doc "A printed term as Elixir writes it, if it names a module of Elixir's.".
-spec in_elixir(binary()) -> binary().
in_elixir(Printed) ->
    case binary:match(Printed, ~"'Elixir.") of
        nomatch ->
            Printed;
        _ ->
            Modules = re:replace(Printed, "'Elixir\\.([A-Z][\\w.]*)'", "\\1", [global, unicode]),
            text(re:replace(Modules, "<<(\"[^\"]*\")(/utf8)?>>", "\\1", [global, unicode]))
    end.

name({'$dyno', Text}) -> unicode:characters_to_list(Text);
name(Atom) -> atom_to_list(Atom).

erlang({'$dyno', Text}) -> Text;
erlang(Atom) -> io_lib:format("~tw", [Atom]).

elixir(M) ->
    case name(M) of
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
