%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_elixir).
-moduledoc false.
%% The arguments and guards of a pattern in Elixir's syntax, for Erlang's parser:
%%
%%   (_, %Shop{id: id}) when id > 5 and id not in [7, 8]
%%
%% `tokens/2` writes them as Erlang's tokens, with `in` as `++` and `not in` as `--`; `erlang/2`
%% then says in the parsed forms what these operators and Elixir's functions mean. Mistakes are
%% thrown as {Column, Sentence}, for dyno_trace_pattern.

-export([tokens/2, erlang/2]).

-type form() :: erl_parse:abstract_expr().

-define(RULES, [
    {string, ~B'^"(?:\\.|#(?!\{)|[^"\\#])*"'},
    {charlist, ~B"^'(?:\\.|#(?!\{)|[^'\\#])*'"},
    {atom, ~B'^:(?:"(?:\\.|[^"\\])*"|[\p{L}_][\w@]*[?!]?)'},
    {char, ~B'^\?\\?.'},
    {key, ~B'^[\p{L}_][\w@]*[?!]?:(?!:)'},
    {alias, ~B'^[A-Z]\w*(?:\.[A-Z]\w*)*'},
    {member, ~B'^[\p{Ll}_]\w*(?:\.[\p{Ll}_]\w*)+'},
    {not_in, ~B'^not\s+in\b'},
    {name, ~B'^[\p{Ll}_]\w*[?!]?'},
    {range, ~B'^\d+\.\.\d+'},
    {number, ~B'^0[xob][0-9a-fA-F]+'},
    {number, ~B'^\d[\d_]*(?:\.\d[\d_]*(?:[eE][-+]?\d+)?)?'},
    {operator, ~B'^(?:===|!==|==|!=|<=|>=|=>|<>|[<>+*/|,(){}\[\]%-])'}
]).

-doc "The tokens up to the arrow `->`; the text from there on, and its column.".
-spec tokens(string(), pos_integer()) -> {[erl_scan:token()], string(), pos_integer()}.
tokens(Text, Column) ->
    {Scanned, Behind, At} = scan(Text, Column, []),
    {written(Scanned, []), Behind, At}.

scan("->" ++ _ = Arrow, At, Tokens) ->
    {lists:reverse(Tokens), Arrow, At};
scan([], At, Tokens) ->
    {lists:reverse(Tokens), [], At};
scan([Space | Rest], At, Tokens) when Space =< $\s ->
    scan(Rest, At + 1, Tokens);
scan(Text, At, Tokens) ->
    Found = [
        {Category, Of}
     || {Category, Rule} <- ?RULES,
        {match, [Of]} <- [re:run(Text, Rule, [unicode, ucp, {capture, first, list}])]
    ],
    case Found of
        [{Category, Of} | _] ->
            scan(lists:nthtail(length(Of), Text), At + length(Of), [{Category, At, Of} | Tokens]);
        [] ->
            not_understood(At)
    end.

-spec not_understood(pos_integer()) -> no_return().
not_understood(At) -> throw({At, "not understood from here on"}).

%% With the open brackets, innermost first; `pair` is a list with an open pair of a key and a value.
written([{key, At, Key} | Rest], [map | _] = Open) ->
    [atom(At, lists:droplast(Key)), {':=', {1, At}} | written(Rest, Open)];
written([{key, At, Key} | Rest], [list | Open]) ->
    A = {1, At},
    [{'{', A}, atom(At, lists:droplast(Key)), {',', A} | written(Rest, [pair | Open])];
written([{operator, At, ","} | Rest], [pair | Open]) ->
    [{'}', {1, At}}, {',', {1, At}} | written(Rest, [list | Open])];
written([{operator, At, "]"} | Rest], [pair | Open]) ->
    [{'}', {1, At}}, {']', {1, At}} | written(Rest, Open)];
written([{operator, At, "%"}, {operator, _, "{"} | Rest], Open) ->
    [{'#', {1, At}}, {'{', {1, At}} | written(Rest, [map | Open])];
written([{operator, At, "%"}, {Category, _, _} = Struct, {operator, _, "{"} | Rest], Open) when
    Category =:= alias; Category =:= name
->
    A = {1, At},
    Comma = [{',', A} || {_, _, Of} <- lists:sublist(Rest, 1), Of =/= "}"],
    [{'#', A}, {'{', A}, {atom, A, '__struct__'}, {':=', A}] ++
        written([Struct], []) ++ Comma ++ written(Rest, [map | Open]);
written([{operator, At, Of} | Rest], Open) ->
    [{operator(Of), {1, At}} | written(Rest, opened(Of, Open))];
written([{string, At, _} | _] = Tokens, Open) ->
    A = {1, At},
    {Texts, Rest} = texts(Tokens),
    [{'<<', A} | Texts] ++ [{'/', A}, {atom, A, utf8} | rest_of_text(A, Rest, Open)];
written([{name, At, "when"} | Rest], Open) ->
    Again = fun
        ({name, Of, "when"}) -> {operator, Of, ";"};
        (Token) -> Token
    end,
    [{'when', {1, At}} | written(lists:map(Again, Rest), Open)];
written([{name, At, Name}, {operator, _, "("} = Bracket | Rest], Open) when
    Name =/= "and", Name =/= "or", Name =/= "not", Name =/= "in"
->
    [atom(At, Name) | written([Bracket | Rest], Open)];
written([{Category, At, Of} | Rest], Open) ->
    token(Category, At, Of) ++ written(Rest, Open);
written([], _Open) ->
    [].

opened("[", Open) -> [list | Open];
opened(Of, Open) when Of =:= "("; Of =:= "{" -> [other | Open];
opened(Of, [_ | Open]) when Of =:= ")"; Of =:= "}"; Of =:= "]" -> Open;
opened(_Of, Open) -> Open.

operator(Of) ->
    Written = #{"===" => '=:=', "!==" => '=/=', "!=" => '/=', "<=" => '=<', "=>" => ':='},
    maps:get(Of, Written, list_to_atom(Of)).

%% Erlang's parser joins strings that follow one another.
texts([{string, _, _} = Text, {operator, _, "<>"}, {string, _, _} = Next | Rest]) ->
    {Texts, Behind} = texts([Next | Rest]),
    {[read(Text) | Texts], Behind};
texts([Text | Rest]) ->
    {[read(Text)], Rest}.

rest_of_text(A, [{operator, _, "<>"}, {name, _, _} = Name | Rest], Open) ->
    [{',', A}] ++ written([Name], []) ++
        [{'/', A}, {atom, A, binary}, {'>>', A} | written(Rest, Open)];
rest_of_text(A, Rest, Open) ->
    [{'>>', A} | written(Rest, Open)].

token(name, At, Name) when Name =:= "nil"; Name =:= "true"; Name =:= "false" ->
    [atom(At, Name)];
token(name, At, Word) ->
    Words = #{"and" => 'andalso', "or" => 'orelse', "not" => 'not', "in" => '++'},
    case Words of
        #{Word := Erlang} -> [{Erlang, {1, At}}];
        #{} -> [{var, {1, At}, list_to_atom(Word)}]
    end;
token(not_in, At, _) ->
    [{'--', {1, At}}];
token(alias, At, "Elixir." ++ _ = Name) ->
    [atom(At, Name)];
token(alias, At, Name) ->
    [atom(At, "Elixir." ++ Name)];
token(atom, At, ":" ++ ([$" | _] = Quoted)) ->
    {string, A, Name} = read({string, At, Quoted}),
    [{atom, A, list_to_atom(Name)}];
token(atom, At, ":" ++ Name) ->
    [atom(At, Name)];
token(member, At, Path) ->
    A = {1, At},
    [Name | Fields] = string:lexemes(Path, "."),
    lists:foldl(
        fun(Field, Of) ->
            [{atom, A, map_get}, {'(', A}, atom(At, Field), {',', A}] ++ Of ++ [{')', A}]
        end,
        [{var, A, list_to_atom(Name)}],
        Fields
    );
token(range, At, Range) ->
    A = {1, At},
    [First, Last] = [{integer, A, list_to_integer(Of)} || Of <- string:split(Range, "..")],
    [{'{', A}, First, {',', A}, Last, {'}', A}];
token(key, At, _) ->
    not_understood(At);
token(Category, At, Text) ->
    [read({Category, At, Text})].

atom(At, Name) -> {atom, {1, At}, list_to_atom(Name)}.

%% Erlang's scanner reads literals that are written alike.
read({Category, At, Text}) ->
    Erlang =
        case {Category, Text} of
            {charlist, [_ | Inside]} ->
                Quoted = string:replace(lists:droplast(Inside), "\"", "\\\"", all),
                lists:flatten([$", Quoted, $"]);
            {char, [_ | Char]} ->
                [$$ | Char];
            {number, [$0, Base | Digits]} when Base >= $b ->
                map_get(Base, #{$x => "16#", $o => "8#", $b => "2#"}) ++ Digits;
            _ ->
                Text
        end,
    case erl_scan:string(Erlang) of
        {ok, [{Of, _, Value}], _} -> {Of, {1, At}, Value};
        _ -> not_understood(At)
    end.

-doc "The parsed arguments and guards in Erlang's meaning.".
-spec erlang([form()], [[form()]]) -> {[form()], [[form()]]}.
erlang(Arguments, Guards) ->
    {Whole, Prefixes} = without_prefixes(Arguments, []),
    case {meant(Guards), Prefixes} of
        {[], []} -> {Whole, []};
        {[], _} -> {Whole, [Prefixes]};
        {Meant, _} -> {Whole, [Prefixes ++ Guard || Guard <- Meant]}
    end.

%% Match specifications cannot express a text's rest: the whole gets a name, and a guard.
without_prefixes(
    {bin, {_, At} = A, [Text, {bin_element, _, {var, _, _}, default, [binary]}]}, Guards
) ->
    {bin_element, _, {string, _, Characters}, default, [utf8]} = Text,
    Name = {var, A, list_to_atom("text " ++ integer_to_list(At))},
    Size = byte_size(unicode:characters_to_binary(Characters)),
    Part = call(A, binary_part, [Name, {integer, A, 0}, {integer, A, Size}]),
    {Name, Guards ++ [{op, A, '=:=', Part, {bin, A, [Text]}}]};
without_prefixes(Form, Guards) when is_tuple(Form) ->
    {Elements, More} = without_prefixes(tuple_to_list(Form), Guards),
    {list_to_tuple(Elements), More};
without_prefixes(Forms, Guards) when is_list(Forms) ->
    lists:mapfoldl(fun without_prefixes/2, Guards, Forms);
without_prefixes(Form, Guards) ->
    {Form, Guards}.

meant({op, A, '++', {op, _, 'not', Value}, Values}) ->
    {op, A, 'not', is_in(A, meant(Value), Values)};
meant({op, A, '++', Value, Values}) ->
    is_in(A, meant(Value), Values);
meant({op, A, '--', Value, Values}) ->
    {op, A, 'not', is_in(A, meant(Value), Values)};
meant({op, A, Operator, Left, Right}) ->
    _ = [variable(Of) || Operator =/= '==', Operator =/= '=:=', Of <- [Left, Right]],
    {op, A, Operator, meant(Left), meant(Right)};
meant({call, A, {atom, _, Name}, Arguments}) ->
    called(A, Name, meant(Arguments));
meant(Form) when is_tuple(Form) -> list_to_tuple(meant(tuple_to_list(Form)));
meant(Forms) when is_list(Forms) -> [meant(Form) || Form <- Forms];
meant(Form) ->
    Form.

%% Erlang's syntax.
variable({atom, {_, At}, Atom}) ->
    case atom_to_list(Atom) of
        "Elixir." ++ Name ->
            throw(
                {At, [Name, " is a module here: the name of a variable begins with a small letter"]}
            );
        _ ->
            ok
    end;
variable(_) ->
    ok.

is_in(A, Left, {tuple, _, [First, Last]}) ->
    Between = {op, A, 'andalso', {op, A, '>=', Left, First}, {op, A, '=<', Left, Last}},
    {op, A, 'andalso', call(A, is_integer, [Left]), Between};
is_in(A, _Left, {nil, _}) ->
    {atom, A, false};
is_in(A, Left, {cons, _, Value, {nil, _}}) ->
    {op, A, '=:=', Left, Value};
is_in(A, Left, {cons, _, Value, Values}) ->
    {op, A, 'orelse', {op, A, '=:=', Left, Value}, is_in(A, Left, Values)};
is_in({_, At}, _Left, _Right) ->
    throw({At, "in takes a list of values or a range, such as [1, 2] or 1..9"}).

%% Functions with another name or order of arguments than in Erlang.
called(A, is_nil, [X]) ->
    {op, A, '=:=', X, {atom, A, nil}};
called(A, is_struct, [X]) ->
    {op, A, 'andalso', call(A, is_map, [X]), call(A, is_map_key, [{atom, A, '__struct__'}, X])};
called(A, is_struct, [X, Name]) ->
    Of = call(A, map_get, [{atom, A, '__struct__'}, X]),
    {op, A, 'andalso', called(A, is_struct, [X]), {op, A, '=:=', Of, Name}};
called(A, is_map_key, [Map, Key]) ->
    call(A, is_map_key, [Key, Map]);
called(A, elem, [Tuple, {integer, _, N}]) ->
    call(A, element, [{integer, A, N + 1}, Tuple]);
called(A, Operator, [X, Y]) when Operator =:= 'div'; Operator =:= 'rem' ->
    {op, A, Operator, X, Y};
called(A, Name, Arguments) ->
    call(A, Name, Arguments).

call(A, Name, Arguments) -> {call, A, {atom, A, Name}, Arguments}.
