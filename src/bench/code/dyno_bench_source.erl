%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_source).
-moduledoc false.
%% Reads Erlang source, also without a final full stop; shows an error's line with a caret below.

-export([read/2, called/1, place/3, in_part/1, format_error/1]).
-export_type([part/0, reason/0]).

-define(SELF, 'dyno self').

-type part() :: {forms, arity(), erl_parse:abstract_clause()}.

-type reason() ::
    placed()
    | {several_functions, Part :: atom(), binary()}
    | {not_code, Part :: atom(), binary()}.

-spec read(Part :: atom(), binary()) -> {ok, part()} | {error, {?MODULE, reason()}}.
read(Name, Text) ->
    case erl_scan:string(unicode:characters_to_list(Text), {1, 1}) of
        {ok, [], _} ->
            {error, {?MODULE, {not_code, Name, Text}}};
        {ok, Tokens, End} ->
            {Ended, Added} = ended(Tokens, End),
            case parsed({Name, Text, Added}, Ended) of
                {ok, Part} -> {ok, Part};
                {error, Reason} -> {error, {?MODULE, Reason}}
            end;
        {error, {Where, Module, Reason}, _} ->
            {error, {?MODULE, syntax({Name, Text, none}, {Where, Module, Reason})}}
    end.

-type placed() ::
    {syntax, Part :: atom(), Text :: binary(), Line :: pos_integer(), Column :: pos_integer(),
        Message :: binary()}.

ended(Tokens, End) ->
    case lists:last(Tokens) of
        {dot, _} -> {Tokens, none};
        _ -> {Tokens ++ [{dot, End}], End}
    end.

parsed({Name, Text, _} = Source, Tokens) ->
    case erl_parse:parse_exprs(Tokens) of
        {ok, Expressions} ->
            {ok, {forms, 0, {clause, 1, [], [], Expressions}}};
        {error, AsExpressions} ->
            case erl_parse:parse_form(Tokens) of
                {ok, {function, _, _, Arity, _} = Function} ->
                    {ok, {forms, Arity, function(Function)}};
                {ok, _} ->
                    {error, {not_code, Name, Text}};
                {error, AsFunction} ->
                    {error, later_error(Source, Tokens, AsExpressions, AsFunction)}
            end
    end.

-doc "Source that is only a fun means its function: making the fun is hardly ever meant.".
-spec called(part()) -> part().
called({forms, 0, {clause, _, [], [], [Fun]}} = Part) ->
    case Fun of
        {'fun', Anno, {clauses, Clauses}} ->
            called(Anno, arity(Clauses), Clauses);
        {named_fun, Anno, _, Clauses} ->
            applied(Anno, arity(Clauses), Fun);
        {'fun', Anno, {function, M, F, {integer, _, Arity}}} ->
            applied(Anno, Arity, {remote, Anno, M, F});
        _ ->
            Part
    end;
called(Part) ->
    Part.

called(_Anno, Arity, [Clause]) -> {forms, Arity, Clause};
called(Anno, Arity, Clauses) -> {forms, Arity, dyno_bench_forms:joined(Anno, Arity, Clauses)}.

applied(Anno, Arity, Fun) ->
    Variables = dyno_bench_forms:variables(Anno, Arity),
    {forms, Arity, {clause, Anno, Variables, [], [{call, Anno, Fun, Variables}]}}.

arity([{clause, _, Patterns, _, _} | _]) -> length(Patterns).

%% Inline code has no name, so a function that calls itself becomes a named fun.
function({function, Anno, Name, Arity, Clauses}) ->
    case {renamed(Clauses, {Name, Arity}), Clauses} of
        {Clauses, [Clause]} ->
            Clause;
        {Clauses, _} ->
            dyno_bench_forms:joined(Anno, Arity, Clauses);
        {Recursive, _} ->
            Variables = dyno_bench_forms:variables(Anno, Arity),
            Call = {call, Anno, {named_fun, Anno, ?SELF, Recursive}, Variables},
            {clause, Anno, Variables, [], [Call]}
    end.

renamed({call, Anno, {atom, _, Name}, Arguments}, {Name, Arity} = Function) when
    length(Arguments) =:= Arity
->
    {call, Anno, {var, Anno, ?SELF}, renamed(Arguments, Function)};
renamed({'fun', Anno, {function, Name, Arity}}, {Name, Arity}) ->
    {var, Anno, ?SELF};
renamed(Form, Function) when is_tuple(Form) ->
    list_to_tuple(renamed(tuple_to_list(Form), Function));
renamed([Head | Tail], Function) ->
    [renamed(Head, Function) | renamed(Tail, Function)];
renamed(Other, _Function) ->
    Other.

%% Two dots make two functions. Otherwise the later error belongs to the intended form.
later_error({Name, Text, _} = Source, Tokens, {WhereE, _, _} = AsE, {WhereF, _, _} = AsF) ->
    case [T || {dot, _} = T <- lists:droplast(Tokens)] of
        [_ | _] -> {several_functions, Name, Text};
        [] when WhereF > WhereE -> syntax(Source, AsF);
        [] -> syntax(Source, AsE)
    end.

syntax({Name, Text, {Line, Column}}, {{Line, Column}, _Module, _Reason}) ->
    Why = ~"the code is not complete: something is missing at its end",
    {syntax, Name, Text, Line, Column, Why};
syntax({Name, Text, _}, {{Line, Column}, Module, Reason}) ->
    {syntax, Name, Text, Line, Column, unicode:characters_to_binary(Module:format_error(Reason))};
syntax(Source, {Line, Module, Reason}) when is_integer(Line) ->
    syntax(Source, {{Line, 1}, Module, Reason}).

-doc "The first compiler error with a place in one of the texts.".
-spec place(
    [{Part :: file:filename(), [{term(), module(), term()}]}],
    Names :: [atom()],
    Texts :: #{atom() => binary()}
) -> {ok, {?MODULE, placed()}} | none.
place(Errors, Names, Texts) ->
    Placed = [
        {Where, Module, Reason, Name}
     || {File, Details} <- Errors,
        Name <- Names,
        atom_to_list(Name) =:= File,
        is_map_key(Name, Texts),
        {{_, _} = Where, Module, Reason} <- Details
    ],
    case lists:sort(Placed) of
        [] ->
            none;
        [{Where, Module, Reason, Name} | _] ->
            Source = {Name, map_get(Name, Texts), none},
            {ok, {?MODULE, syntax(Source, {Where, Module, without_guess(Reason)})}}
    end.

%% The guess would be one of the loop's own functions.
without_guess({undefined_function, {Name, Arity}, _Guessed}) ->
    {undefined_function, {Name, Arity}};
without_guess(Reason) ->
    Reason.

-spec format_error(reason()) -> unicode:chardata().
format_error({syntax, Name, Text, Line, Column, Message}) ->
    Lines = string:split(unicode:characters_to_list(Text), "\n", all),
    Shown = lists:nth(min(Line, length(Lines)), Lines),
    {Excerpt, Caret} = excerpt(Shown, Column),
    io_lib:format("~tsline ~b, column ~b: ~ts~n  ~ts~n  ~ts^", [
        in_part(Name), Line, Column, Message, Excerpt, lists:duplicate(Caret, $\s)
    ]);
format_error({several_functions, Name, Text}) ->
    io_lib:format(
        "~ts\"~ts\" has more than one full stop; one function, or expressions, are accepted",
        [in_part(Name), string:slice(Text, 0, 60)]
    );
format_error({not_code, Name, Text}) ->
    io_lib:format("~ts\"~ts\" is no code; expressions, or one function, are accepted", [
        in_part(Name), string:slice(Text, 0, 60)
    ]).

-spec in_part(Part :: atom()) -> unicode:chardata().
in_part(runner) -> "";
in_part(Part) -> [atom_to_binary(Part), ": "].

excerpt(Line, Column) when Column =< 60 ->
    {string:slice(Line, 0, 76), Column - 1};
excerpt(Line, Column) ->
    {["...", string:slice(Line, Column - 41, 76)], 43}.
