%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_patterns).
-moduledoc """
Reads and prints patterns of functions, and finds matching functions on a node.

A pattern is `{Module, Function, Arity}`, each possibly `'_'`; module and function may end in `*`
(`'cowboy_*'`). `{application, App}` means all modules of an application. As text: `"lists:sort/1"`,
`"lists:sort"`, `"lists"`, `"cowboy_*"`, `"app:cowboy"`; in Elixir's form `"MyApp.Cache.get/1"`,
`"MyApp.Cache"`, `"MyApp.*"` (`MyApp` and all below), `":lists.sort/1"`; in the form of stack traces
`"Elixir.MyApp.Cache:get/1"`.
""".

-export([parse/1, elixir/1, module/1, print/1, validate/1, format_error/1]).
-export([resolve/1, matches_module/2, matches/2, functions/2, specs/2, unmatched/1, nearest/2]).
-export([loaded/0, base/0, measured/1]).
-export_type([pattern/0, reason/0]).

%% A module, and a function if present: unquoted Erlang module names do not look like this. A
%% leading colon makes an atom in Elixir. Stack traces have the full module name and a colon.
-define(FUNCTION,
    "([\\p{Ll}_]\\w*[?!]?\\*?|[-+*/<>=!&|^~.@]+(?=/[\\d_]|[\\s(]|$)|\"[^\"]+\"|'[^']+')"
).
-define(ELIXIR,
    "(?|(Elixir(?:\\.[A-Z]\\w*)+):"
    ?FUNCTION
    "|"
    "((?:[A-Z]\\w*\\.)*(?:[A-Z]\\w*\\*?|\\*)|:\\w+\\*?)(?:\\."
    ?FUNCTION
    ")?)"
).
-define(LISTS, [unicode, ucp, {capture, all_but_first, list}]).

-type pattern() ::
    {module() | '_', atom(), arity() | '_'}
    | {application, atom()}.

-type reason() :: {bad_pattern, term()}.

-doc """
Reads the text form of a pattern.

```
1> dyno_agent_patterns:parse("lists:sort/1").
{ok, {lists, sort, 1}}
2> dyno_agent_patterns:parse("app:cowboy").
{ok, {application, cowboy}}
3> dyno_agent_patterns:parse("cowboy_*").
{ok, {'cowboy_*', '_', '_'}}
```

Creates the named atoms: for a user's input only.
""".
-spec parse(unicode:chardata()) -> {ok, pattern()} | {error, reason()}.
parse(Text) ->
    String = string:trim(unicode:characters_to_list(Text)),
    case re:run(String, ["^", ?ELIXIR, "(?:/(\\d{1,3}|_))?$"], ?LISTS) of
        {match, [M]} when M =/= "*" -> from_parts([elixir_name(M)], Text);
        {match, [M, [_ | _] = F | A]} when M =/= "*" -> from_parts([elixir_name(M), F | A], Text);
        _ -> parse_erlang(String, Text)
    end.

-doc "The module and function (or `_`) that begin a text in Elixir's spelling, and the rest.".
-spec elixir(string()) -> {ok, module(), atom(), string()} | no.
elixir(Text) ->
    case re:run(Text, ["^\\s*", ?ELIXIR, "((?s).*)$"], ?LISTS) of
        {match, ["*" | _]} -> no;
        {match, [M, F, Rest]} -> {ok, module(M), list_to_atom(unquote(named(F))), Rest};
        nomatch -> no
    end.

named("") -> "_";
named(Function) -> Function.

-doc "The module in a text, in Erlang's or Elixir's spelling.".
-spec module(unicode:chardata()) -> module().
module(Text) ->
    list_to_atom(unquote(module_name(unicode:characters_to_list(Text)))).

module_name([C | _] = Module) when C >= $A, C =< $Z -> elixir_name(Module);
module_name([$: | _] = Module) -> elixir_name(Module);
module_name(Module) -> Module.

elixir_name("Elixir." ++ _ = Module) -> Module;
elixir_name(":" ++ Module) -> Module;
elixir_name(Module) -> "Elixir." ++ Module.

parse_erlang(String, Text) ->
    %% Elixir's modules have dots, operators have colons and slashes: quoted atoms take them all.
    Quoted = "('(?:[^'\\\\]|\\\\.)*'|[^:/'\\s]+)",
    Regexp = "^" ++ Quoted ++ "(?::" ++ Quoted ++ "(?:/(\\d{1,3}|_))?)?$",
    case re:run(String, Regexp, [unicode, {capture, all_but_first, list}]) of
        {match, ["app", App]} -> {ok, {application, list_to_atom(unquote(App))}};
        {match, Parts} -> from_parts(Parts, Text);
        nomatch -> {error, {bad_pattern, unicode:characters_to_binary(Text)}}
    end.

%% Omitted parts match any.
from_parts(Parts, Text) ->
    [M, F, A] = lists:sublist(Parts ++ ["_", "_"], 3),
    Pattern = {list_to_atom(unquote(M)), list_to_atom(unquote(F)), arity(A)},
    case validate(Pattern) of
        ok -> {ok, Pattern};
        {error, _} -> {error, {bad_pattern, unicode:characters_to_binary(Text)}}
    end.

arity("_") -> '_';
arity(Digits) -> list_to_integer(Digits).

unquote([Quote | Rest]) when Quote =:= $'; Quote =:= $" -> lists:droplast(Rest);
unquote(Text) -> Text.

-doc "Whether a term is a pattern.".
-spec validate(term()) -> ok | {error, reason()}.
validate({application, App}) when is_atom(App) -> ok;
validate({M, F, '_'}) when is_atom(M), is_atom(F) -> ok;
validate({M, F, A}) when is_atom(M), is_atom(F), is_integer(A), A >= 0, A =< 255 -> ok;
validate(Other) -> {error, {bad_pattern, Other}}.

-doc "The text form of a pattern, for `parse/1`.".
-spec print(pattern()) -> binary().
print(Pattern) ->
    %% Every atom can be encoded.
    <<_/binary>> = unicode:characters_to_binary(printed(Pattern)).

printed({application, App}) -> ["app:", atom_text(App)];
printed({M, '_', '_'}) -> module_text(M);
printed({M, F, '_'}) -> function_text(M, F);
printed({M, F, A}) -> [function_text(M, F), $/, integer_to_list(A)].

module_text(M) ->
    case is_elixir(M) of
        true -> dyno_agent_name:module(M);
        false -> atom_text(M)
    end.

function_text(M, F) ->
    case is_elixir(M) of
        true -> dyno_agent_name:call(M, F);
        false -> [atom_text(M), $:, atom_text(F)]
    end.

%% Elixir's spelling, for modules with Elixir's names.
is_elixir(M) ->
    re:run(atom_to_list(M), "^Elixir(\\.[A-Z]\\w*)+(\\.?\\*)?$", [unicode, ucp]) =/= nomatch.

%% ~tw would quote stars, which the text form has plain.
atom_text(Atom) ->
    Text = atom_to_list(Atom),
    case re:run(Text, "^[a-z0-9_*@][a-zA-Z0-9_*@]*$", [unicode, dollar_endonly]) of
        {match, _} -> Text;
        nomatch -> io_lib:format("~tw", [Atom])
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_pattern, Pattern}) when is_binary(Pattern) ->
    io_lib:format(
        "\"~ts\" is not a pattern: write module:function/arity, module:function, module, "
        "a prefix such as cowboy_*, app:application, or in Elixir's way Shop.price/1, Shop or "
        "Shop.*",
        [Pattern]
    );
format_error({bad_pattern, Pattern}) ->
    io_lib:format(
        "~tP is not a pattern: write {Module, Function, Arity} with '_' for any, "
        "or {application, Name}",
        [Pattern, 12]
    ).

-doc """
Replaces applications by their modules on this node; removes duplicates.

An application that this node lacks stays: `unmatched/1` reports it.
""".
-spec resolve([pattern()]) -> [pattern()].
resolve(Patterns) ->
    lists:usort(lists:flatmap(fun resolve_one/1, Patterns)).

resolve_one({application, App} = Pattern) ->
    _ = application:load(App),
    case application:get_key(App, modules) of
        {ok, [_ | _] = Modules} -> [{M, '_', '_'} || M <- Modules];
        _ -> [Pattern]
    end;
resolve_one(Pattern) ->
    [Pattern].

-doc "Whether a module may have matching functions.".
-spec matches_module(module(), [pattern()]) -> boolean().
matches_module(Module, Patterns) ->
    lists:any(
        fun
            ({application, _}) -> false;
            ({M, _, _}) -> matches_name(M, Module)
        end,
        Patterns
    ).

-doc "Whether a function matches.".
-spec matches(mfa(), [pattern()]) -> boolean().
matches({Module, Function, Arity}, Patterns) ->
    lists:any(
        fun
            ({application, _}) ->
                false;
            ({M, F, A}) ->
                matches_name(M, Module) andalso matches_name(F, Function) andalso
                    (A =:= '_' orelse A =:= Arity)
        end,
        Patterns
    ).

matches_name('_', _Name) ->
    true;
matches_name(Name, Name) ->
    true;
matches_name(Pattern, Name) ->
    matches_text(atom_to_list(Pattern), atom_to_list(Name)).

matches_text(Pattern, Name) ->
    lists:suffix("*", Pattern) andalso
        %% Shop.* includes Shop.
        (lists:prefix(lists:droplast(Pattern), Name) orelse Pattern =:= Name ++ ".*").

-doc "The matching functions of a loaded module.".
-spec functions(module(), [pattern()]) -> [mfa()].
functions(Module, Patterns) ->
    IsAll = means_all(Module, Patterns),
    [
        MFA
     || matches_module(Module, Patterns),
        MFA <- all_functions(Module),
        IsAll orelse matches(MFA, Patterns)
    ].

means_all(Module, Patterns) ->
    lists:any(
        fun
            ({M, '_', '_'}) -> matches_name(M, Module);
            (_) -> false
        end,
        Patterns
    ).

-doc "The same for `trace:function/4`: `{Module, '_', '_'}` means all.".
-spec specs(module(), [pattern()]) -> [{module(), atom(), arity() | '_'}].
specs(Module, Patterns) ->
    case means_all(Module, Patterns) of
        true -> [{Module, '_', '_'}];
        false -> functions(Module, Patterns)
    end.

-doc """
The loaded modules, in 50 us for 1,000.

`erlang:loaded/0` crashes the emulator if another process loads a module meanwhile (27, 29;
doc/architecture.md, "Traps of the runtime"). Any process may read the code server's table; a call
to the server takes 4 ms, because it sends all paths.
""".
-spec loaded() -> [module()].
loaded() ->
    try
        ets:select(code_server, [{{'$1', '_'}, [{is_atom, '$1'}], ['$1']}])
    catch
        error:badarg -> [Module || {Module, _} <- code:all_loaded()]
    end.

-doc "The modules of Erlang's base, which dyno's processes call, too.".
-spec base() -> [module()].
base() ->
    lists:append([
        erlang:pre_loaded()
        | [M || App <- [kernel, stdlib], {ok, M} <- [application:get_key(App, modules)]]
    ]).

%% A module can be deleted at any time.
all_functions(Module) ->
    try
        [{Module, F, A} || {F, A} <- erlang:get_module_info(Module, functions)]
    catch
        error:badarg -> []
    end.

-doc "The loaded matching modules that may be measured: not the agent's and not tracing itself.".
-spec measured([pattern()]) -> [module()].
measured(Patterns) -> [M || M <- loaded(), is_measured(M, Patterns)].

is_measured(Module, Patterns) ->
    not lists:prefix("dyno_agent", atom_to_list(Module)) andalso
        not lists:member(Module, [trace, erts_internal, erl_tracer]) andalso
        matches_module(Module, Patterns).

-doc "The patterns with neither a loaded function nor a loadable module, with the nearest name.".
-spec unmatched([pattern()]) -> [{pattern(), {ok, string()} | none}].
unmatched(Patterns) ->
    Loaded = loaded(),
    [{P, suggestion(P, Loaded)} || P <- Patterns, not can_match(P, Loaded)].

suggestion({application, App}, _Loaded) ->
    nearest(atom_to_list(App), [atom_to_list(A) || {A, _, _} <- application:loaded_applications()]);
suggestion({M, F, A}, Loaded) ->
    case lists:member(M, Loaded) of
        true ->
            Names = [with_arity(Name, Arity) || {_, Name, Arity} <- all_functions(M)],
            nearest(with_arity(F, A), Names);
        false ->
            Names = [binary_to_list(dyno_agent_name:module(L)) || L <- Loaded],
            nearest(binary_to_list(dyno_agent_name:module(M)), Names)
    end.

with_arity(Name, '_') -> atom_to_list(Name);
with_arity(Name, Arity) -> lists:flatten(io_lib:format("~tw/~b", [Name, Arity])).

can_match({application, App}, _Loaded) ->
    resolve_one({application, App}) =/= [{application, App}];
can_match({M, F, A}, Loaded) ->
    case [L || L <- Loaded, matches_name(M, L)] of
        [] ->
            %% On the code path, and measured after loading.
            code:which(M) =/= non_existing orelse is_available(atom_to_list(M));
        _ when F =:= '_', A =:= '_' ->
            true;
        Modules ->
            lists:any(fun(Module) -> functions(Module, [{M, F, A}]) =/= [] end, Modules)
    end.

%% Unloaded names stay texts: the node must not get an atom for each file on its path.
is_available(Pattern) ->
    lists:suffix("*", Pattern) andalso
        lists:any(fun({Name, _, _}) -> matches_text(Pattern, Name) end, code:all_available()).

-doc "The name nearest to the written one, as a suggestion.".
-spec nearest(string(), [string()]) -> {ok, string()} | none.
nearest(Written, Names) ->
    Scored = [{string:jaro_similarity(Written, Name), Name} || Name <- Names],
    case lists:max([{0.0, ""} | Scored]) of
        {Score, Name} when Score > 0.8 -> {ok, Name};
        _ -> none
    end.
