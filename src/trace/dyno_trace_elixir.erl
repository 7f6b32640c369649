%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_elixir).
-moduledoc false.
%% The arguments and guards of a pattern in Elixir's syntax, as the forms of an Erlang clause:
%%
%%   (_, %Shop{id: id}) when id > 5 and id not in [7, 8]
%%
%% Lower-case names are variables, :n and the n of n: are atoms, "abc" is a binary. Syntax beyond
%% match specifications throws {Column, Sentence} for dyno_trace_pattern.

-export([clause/3]).

-type form() :: erl_parse:abstract_expr().

-spec clause(string(), pos_integer(), pos_integer()) ->
    {[form()], [[form()]], string(), pos_integer()}.
clause(Text, Column, End) ->
    {[{'(', _, _} | Tokens], Behind, At} = dyno_trace_elixir_scan:tokens(Text, Column),
    {Written, Rest} = parts(Tokens ++ [{'end', min(End, At), "its end"}], ')', fun pattern/1),
    {Arguments, Prefixes} = without_prefixes(Written, []),
    case {guards(Rest), Prefixes} of
        {[], []} -> {Arguments, [], Behind, At};
        {[], _} -> {Arguments, [Prefixes], Behind, At};
        {Guards, _} -> {Arguments, [Prefixes ++ [Guard] || Guard <- Guards], Behind, At}
    end.

guards([{'end', _, _}]) ->
    [];
guards([{'when', _, _} | Tokens]) ->
    {Guard, Rest} = guard(Tokens, 0),
    [Guard | guards(Rest)];
guards([{_, At, _} | _]) ->
    throw({At, "when with a guard, -> or nothing follows the arguments"}).

-spec wrong(dyno_trace_elixir_scan:token()) -> no_return().
wrong({'end', At, _}) ->
    throw({At, "the text ends too early"});
wrong({'^', At, _}) ->
    throw({At, "nothing is pinned here: write the value"});
wrong({'<<', At, _}) ->
    throw(
        {At,
            "a binary can't be taken apart here: write \"abc\" <> _, or name it and look at it "
            "in a guard"}
    );
wrong({'=', At, _}) ->
    throw(
        {At, "a name and a pattern of one argument can't stand here together: write one of them"}
    );
wrong({Operator, At, _}) when Operator =:= '&&'; Operator =:= '||'; Operator =:= '!' ->
    throw({At, "a guard takes and, or, not"});
wrong({Kind, At, _}) when
    Kind =:= '++'; Kind =:= '--'; Kind =:= '|>'; Kind =:= '=~'; Kind =:= '&'
->
    throw({At, [atom_to_list(Kind), " is nothing for a guard or a pattern"]});
wrong({key, At, Name}) ->
    throw({At, [atom_to_list(Name), ": stands in a map or a list of keywords only"]});
wrong({_, At, _}) ->
    throw({At, "not understood from here on"}).

%% Patterns in an argument; a text may have a rest.
pattern(Tokens) ->
    case value(Tokens, fun pattern/1) of
        {{bin, A, [{bin_element, _, {string, _, Text}, _, _}]}, [{'<>', _, _} | Rest]} ->
            {Tail, Last} = pattern(Rest),
            {prefixed(A, Text, Tail), Last};
        Value ->
            Value
    end.

%% Match specifications cannot express a text's rest: the whole gets a name, and a guard.
prefixed(A, Text, {var, _, _} = Rest) -> {prefix, A, Text, Rest};
prefixed(A, Text, {bin, _, [{bin_element, _, {string, _, More}, _, _}]}) -> text(A, Text ++ More);
prefixed(A, Text, {prefix, _, More, Rest}) -> {prefix, A, Text ++ More, Rest};
prefixed({_, At}, _Text, _) -> throw({At, "a text, <> and a name is what can be read here"}).

without_prefixes({prefix, {_, At} = A, Text, _Rest}, Guards) ->
    Name = {var, A, list_to_atom("text " ++ integer_to_list(At))},
    Binary = text(A, Text),
    Size = byte_size(unicode:characters_to_binary(Text)),
    Part = call(A, binary_part, [Name, {integer, A, 0}, {integer, A, Size}]),
    {Name, Guards ++ [{op, A, '=:=', Part, Binary}]};
without_prefixes(Form, Guards) when is_tuple(Form) ->
    {Elements, More} = without_prefixes(tuple_to_list(Form), Guards),
    {list_to_tuple(Elements), More};
without_prefixes([First | Rest], Guards) ->
    {Head, Some} = without_prefixes(First, Guards),
    {Tail, All} = without_prefixes(Rest, Some),
    {[Head | Tail], All};
without_prefixes(Form, Guards) ->
    {Form, Guards}.

text(A, Text) ->
    {bin, A, [{bin_element, A, {string, A, Text}, default, [utf8]}]}.

%% Values, with parts read by `Part`.
value([{name, At, "nil"} | Rest], _Part) ->
    {{atom, {1, At}, nil}, Rest};
value([{name, At, "true"} | Rest], _Part) ->
    {{atom, {1, At}, true}, Rest};
value([{name, At, "false"} | Rest], _Part) ->
    {{atom, {1, At}, false}, Rest};
value([{name, At, Name} | Rest], _Part) ->
    {{var, {1, At}, list_to_atom(Name)}, Rest};
value([{atom, At, Atom} | Rest], _Part) ->
    {{atom, {1, At}, Atom}, Rest};
value([{string, At, Text} | Rest], _Part) ->
    {text({1, At}, unicode:characters_to_list(Text)), Rest};
value([{charlist, At, Text} | Rest], _Part) ->
    {{string, {1, At}, Text}, Rest};
value([{Kind, At, Number} | Rest], _Part) when Kind =:= integer; Kind =:= float ->
    {{Kind, {1, At}, Number}, Rest};
value([{'-', At, _}, {Kind, _, Number} | Rest], _Part) when Kind =:= integer; Kind =:= float ->
    {{op, {1, At}, '-', {Kind, {1, At}, Number}}, Rest};
value([{'{', At, _} | Tokens], Part) ->
    {Elements, Rest} = parts(Tokens, '}', Part),
    {{tuple, {1, At}, Elements}, Rest};
value([{'[', At, _} | Tokens], Part) ->
    list(Tokens, {1, At}, Part);
value([{'%', At, _}, {'{', _, _} | Tokens], Part) ->
    fields(Tokens, {1, At}, [], Part);
value([{'%', At, _}, {Kind, _, _} = Struct, {'{', _, _} | Tokens], Part) when
    Kind =:= atom; Kind =:= name
->
    {Name, []} = value([Struct], Part),
    fields(Tokens, {1, At}, [field({1, At}, {atom, {1, At}, '__struct__'}, Name)], Part);
value([Token | _], _Part) ->
    wrong(Token).

parts([{End, _, _} | Rest], End, _Part) ->
    {[], Rest};
parts(Tokens, End, Part) ->
    {First, Rest} = Part(Tokens),
    case Rest of
        [{',', _, _} | More] ->
            {Others, Last} = parts(More, End, Part),
            {[First | Others], Last};
        [{End, _, _} | Last] ->
            {[First], Last};
        [Token | _] ->
            wrong(Token)
    end.

list([{']', _, _} | Rest], A, _Part) ->
    {{nil, A}, Rest};
list(Tokens, A, Part) ->
    {First, Rest} = element_of(Tokens, Part),
    case Rest of
        [{',', _, _} | More] ->
            {Tail, Last} = list(More, A, Part),
            {{cons, A, First, Tail}, Last};
        [{'|', _, _} | More] ->
            case Part(More) of
                {Tail, [{']', _, _} | Last]} -> {{cons, A, First, Tail}, Last};
                {_, [Token | _]} -> wrong(Token)
            end;
        [{']', _, _} | Last] ->
            {{cons, A, First, {nil, A}}, Last};
        [Token | _] ->
            wrong(Token)
    end.

element_of([{key, At, Key} | Tokens], Part) ->
    {Value, Rest} = Part(Tokens),
    {{tuple, {1, At}, [{atom, {1, At}, Key}, Value]}, Rest};
element_of(Tokens, Part) ->
    Part(Tokens).

fields([{'}', _, _} | Rest], A, Fields, _Part) ->
    {{map, A, lists:reverse(Fields)}, Rest};
fields(Tokens, A, Fields, Part) ->
    {Field, Rest} = key_and_value(Tokens, Part),
    case Rest of
        [{',', _, _} | More] -> fields(More, A, [Field | Fields], Part);
        [{'}', _, _} | _] -> fields(Rest, A, [Field | Fields], Part);
        [Token | _] -> wrong(Token)
    end.

key_and_value([{key, At, Key} | Tokens], Part) ->
    {Value, Rest} = Part(Tokens),
    {field({1, At}, {atom, {1, At}, Key}, Value), Rest};
key_and_value([{_, At, _} | _] = Tokens, Part) ->
    case Part(Tokens) of
        {Key, [{'=>', _, _} | More]} ->
            {Value, Rest} = Part(More),
            {field({1, At}, Key, Value), Rest};
        {_, [Token | _]} ->
            wrong(Token)
    end.

field(A, Key, Value) -> {map_field_exact, A, Key, Value}.

%% Guards: operators of higher precedence bind first, as in Elixir, from `or` to `*`.
binary('or') -> {1, 'orelse'};
binary('and') -> {2, 'andalso'};
binary('==') -> {3, '=='};
binary('!=') -> {3, '/='};
binary('===') -> {3, '=:='};
binary('!==') -> {3, '=/='};
binary('<') -> {4, '<'};
binary('>') -> {4, '>'};
binary('<=') -> {4, '=<'};
binary('>=') -> {4, '>='};
binary('+') -> {6, '+'};
binary('-') -> {6, '-'};
binary('*') -> {7, '*'};
binary('/') -> {7, '/'};
binary(_) -> none.

-define(IN, 5).

guard(Tokens, Least) ->
    {Left, Rest} = operand(Tokens),
    operators(Left, Rest, Least).

operators(Left, [{in, At, _} | Tokens], Least) when ?IN > Least ->
    {In, Rest} = is_in(Left, {1, At}, Tokens),
    operators(In, Rest, Least);
operators(Left, [{'not', At, _}, {in, _, _} | Tokens], Least) when ?IN > Least ->
    {In, Rest} = is_in(Left, {1, At}, Tokens),
    operators({op, {1, At}, 'not', In}, Rest, Least);
operators(Left, [{Operator, At, _} | Tokens] = All, Least) ->
    case binary(Operator) of
        {Precedence, Erlang} when Precedence > Least ->
            {Right, Rest} = guard(Tokens, Precedence),
            _ = [no_module(Operand) || Precedence > 3, Operand <- [Left, Right]],
            operators({op, {1, At}, Erlang, Left, Right}, Rest, Least);
        {_, _} ->
            {Left, All};
        none when
            Operator =:= 'end';
            Operator =:= 'when';
            Operator =:= ')';
            Operator =:= ',';
            Operator =:= in;
            Operator =:= ']';
            Operator =:= '}';
            Operator =:= '..';
            Operator =:= '=>';
            Operator =:= '|';
            Operator =:= 'not'
        ->
            {Left, All};
        none ->
            wrong(hd(All))
    end.

%% Erlang's syntax.
no_module({atom, {_, At}, Atom}) ->
    case atom_to_list(Atom) of
        "Elixir." ++ Name ->
            throw(
                {At, [Name, " is a module here: the name of a variable begins with a small letter"]}
            );
        _ ->
            ok
    end;
no_module(_) ->
    ok.

operand([{'not', At, _} | Tokens]) ->
    {Of, Rest} = guard(Tokens, ?IN - 1),
    {{op, {1, At}, 'not', Of}, Rest};
operand([{'(', _, _} | Tokens]) ->
    case guard(Tokens, 0) of
        {Inner, [{')', _, _} | Rest]} -> member(Inner, Rest);
        {_, [Token | _]} -> wrong(Token)
    end;
operand([{name, At, Name}, {'(', _, _} | Tokens]) ->
    {Arguments, Rest} = parts(Tokens, ')', fun(Of) -> guard(Of, 0) end),
    member(called({1, At}, Name, Arguments), Rest);
operand([{'-', At, _}, {Kind, _, _} = Token | Tokens]) when Kind =/= integer, Kind =/= float ->
    {Of, Rest} = operand([Token | Tokens]),
    {{op, {1, At}, '-', Of}, Rest};
operand(Tokens) ->
    {Value, Rest} = value(Tokens, fun(Of) -> guard(Of, 0) end),
    member(Value, Rest).

%% map.field
member(Of, [{'.', At, _}, {name, _, Field} | Rest]) ->
    A = {1, At},
    member(call(A, map_get, [{atom, A, list_to_atom(Field)}, Of]), Rest);
member(Of, Rest) ->
    {Of, Rest}.

is_in(Left, A, Tokens) ->
    {Right, Rest} = guard(Tokens, ?IN),
    case {Right, Rest} of
        {First, [{'..', _, _} | More]} ->
            {Last, Behind} = guard(More, ?IN),
            Parts = [
                call(A, is_integer, [Left]), {op, A, '>=', Left, First}, {op, A, '=<', Left, Last}
            ],
            {joined('andalso', A, Parts), Behind};
        {{nil, _}, _} ->
            {{atom, A, false}, Rest};
        {{cons, _, _, _}, _} ->
            {joined('orelse', A, [{op, A, '=:=', Left, Value} || Value <- values(Right)]), Rest};
        _ ->
            {_, At} = A,
            throw({At, "in takes a list of values or a range, such as [1, 2] or 1..9"})
    end.

values({cons, _, First, Rest}) -> [First | values(Rest)];
values({nil, _}) -> [].

joined(_Operator, _A, [Only]) -> Only;
joined(Operator, A, [First | Rest]) -> {op, A, Operator, First, joined(Operator, A, Rest)}.

%% Functions with another name or order of arguments than in Erlang.
called(A, "is_nil", [X]) ->
    {op, A, '=:=', X, {atom, A, nil}};
called(A, "is_struct", [X]) ->
    Key = {atom, A, '__struct__'},
    {op, A, 'andalso', call(A, is_map, [X]), call(A, is_map_key, [Key, X])};
called(A, "is_exception", [X]) ->
    {op, A, 'andalso', called(A, "is_struct", [X]),
        call(A, is_map_key, [{atom, A, '__exception__'}, X])};
called(A, "is_struct", [X, Name]) ->
    Of = call(A, map_get, [{atom, A, '__struct__'}, X]),
    {op, A, 'andalso', called(A, "is_struct", [X]), {op, A, '=:=', Of, Name}};
called(A, "is_map_key", [Map, Key]) ->
    call(A, is_map_key, [Key, Map]);
called(A, "elem", [Tuple, {integer, _, N}]) ->
    call(A, element, [{integer, A, N + 1}, Tuple]);
called(A, "elem", [Tuple, N]) ->
    call(A, element, [{op, A, '+', N, {integer, A, 1}}, Tuple]);
called(A, Operator, [X, Y]) when Operator =:= "div"; Operator =:= "rem" ->
    {op, A, list_to_atom(Operator), X, Y};
called(A, Name, Arguments) ->
    call(A, list_to_atom(Name), Arguments).

call(A, Name, Arguments) -> {call, A, {atom, A, Name}, Arguments}.
