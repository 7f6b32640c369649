%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_evaluated).
-moduledoc false.
%% Funs typed in a shell (erl, IEx). erl_eval interprets such funs: 10 to 100 times slower than
%% compiled code, and the factor differs from code to code. So the loop's module makes the same funs
%% from their clauses and the values of their free variables. This includes funs in these values and
%% in arguments of calls. A fun that calls a function defined in the shell is refused.
%%
%% A value is split into an expression in the module, and the leaves that the module gets.

-export([check/1, split/2, forms/1, text/1, format_error/1]).
-export_type([reason/0]).

-type reason() ::
    {not_compiled, [binary()]}
    %% A compiled fun with an evaluated fun among the values of its variables.
    | {hidden, fun()}.

-define(A, erl_anno:new(0)).
%% No source text has a variable of this name.
-define(LEAVES, 'dyno leaves').
%% The shell keeps its own functions as functions of this module.
-define(SHELL, shell_default).

-doc "A hidden evaluated fun would be interpreted.".
-spec check(term()) -> ok | {error, {?MODULE, reason()}}.
check(Value) ->
    case hiding(Value) of
        [] -> ok;
        [Fun | _] -> {error, {?MODULE, {hidden, Fun}}}
    end.

hiding(Fun) when is_function(Fun) ->
    Values = variables(Fun),
    case is_evaluated(Fun) of
        false -> [Fun || is_of_shell(Fun) orelse contains(Values)] ++ hiding(Values);
        true -> hiding(Values)
    end;
hiding(Value) ->
    [Fun || Inner <- inner(Value), Fun <- hiding(Inner)].

%% `fun foo/1` of a function defined in the shell.
is_of_shell(Fun) ->
    case erlang:fun_info(Fun, module) of
        {module, ?SHELL} ->
            {name, Name} = erlang:fun_info(Fun, name),
            {arity, Arity} = erlang:fun_info(Fun, arity),
            not erlang:function_exported(?SHELL, Name, Arity);
        {module, _} ->
            false
    end.

variables(Fun) ->
    case erl_eval:fun_data(Fun) of
        {fun_data, Bindings, _Clauses} -> values(Bindings);
        {named_fun_data, Bindings, _Name, _Clauses} -> values(Bindings);
        false -> element(2, erlang:fun_info(Fun, env))
    end.

values(Bindings) -> [Value || {_, Value} <- erl_eval:bindings(Bindings)].

contains(Fun) when is_function(Fun) -> is_evaluated(Fun);
contains(Value) -> lists:any(fun contains/1, inner(Value)).

is_evaluated(Fun) -> erl_eval:fun_data(Fun) =/= false.

inner([Head | Tail]) when is_list(Tail) -> [Head | Tail];
inner([Head | Tail]) -> [Head, Tail];
inner(Tuple) when is_tuple(Tuple) -> tuple_to_list(Tuple);
inner(Map) when is_map(Map) -> maps:keys(Map) ++ maps:values(Map);
inner(_) -> [].

-doc "A value's leaves, and functions that make it of them (call the first); maybe none.".
-spec split(Name :: atom(), term()) -> {Leaves :: term(), [erl_parse:abstract_form()]}.
split(Name, Value) ->
    case contains(Value) of
        false ->
            {Value, []};
        true ->
            State = #{prefix => Name, leaves => [], functions => #{}},
            {Expression, #{leaves := Leaves, functions := Functions}} = made(Value, State),
            {
                list_to_tuple(lists:reverse(Leaves)),
                [function(Name, [{var, ?A, ?LEAVES}], Expression) | maps:values(Functions)]
            }
    end.

function(Name, Variables, Expression) ->
    {function, ?A, Name, length(Variables), [{clause, ?A, Variables, [], [Expression]}]}.

made(Value, #{leaves := Leaves} = State) ->
    case contains(Value) of
        true ->
            made_of(Value, State);
        false ->
            Number = {integer, ?A, length(Leaves) + 1},
            {
                remote(erlang, element, [Number, {var, ?A, ?LEAVES}]),
                State#{leaves := [Value | Leaves]}
            }
    end.

made_of(Fun, State) when is_function(Fun) ->
    {Bindings, Expression} = data(Fun),
    {Names, Bound} = lists:unzip(Bindings),
    {Values, WithValues} = lists:mapfoldl(fun made/2, State, Bound),
    Variables = [{var, ?A, Name} || Name <- Names],
    #{prefix := Prefix, functions := Functions} = WithValues,
    Function = list_to_atom(lists:concat([Prefix, " fun ", map_size(Functions) + 1])),
    Maker = function(Function, Variables, Expression),
    {
        {call, ?A, {atom, ?A, Function}, Values},
        WithValues#{functions := Functions#{Function => Maker}}
    };
made_of(List, State) when length(List) > 0 ->
    {Elements, With} = lists:mapfoldl(fun made/2, State, List),
    {lists:foldr(fun(Head, Tail) -> {cons, ?A, Head, Tail} end, {nil, ?A}, Elements), With};
made_of([Head | Tail], State) ->
    {First, WithFirst} = made(Head, State),
    {Rest, With} = made(Tail, WithFirst),
    {{cons, ?A, First, Rest}, With};
made_of(Tuple, State) when is_tuple(Tuple) ->
    {Elements, With} = lists:mapfoldl(fun made/2, State, tuple_to_list(Tuple)),
    {{tuple, ?A, Elements}, With};
made_of(Map, State) when is_map(Map) ->
    {Pairs, With} = made(maps:to_list(Map), State),
    {remote(maps, from_list, [Pairs]), With}.

remote(Module, Function, Arguments) ->
    {call, ?A, {remote, ?A, {atom, ?A, Module}, {atom, ?A, Function}}, Arguments}.

data(Fun) ->
    {Bindings, Expression} =
        case erl_eval:fun_data(Fun) of
            {fun_data, Of, Clauses} -> {Of, {'fun', ?A, {clauses, Clauses}}};
            {named_fun_data, Of, Name, Clauses} -> {Of, {named_fun, ?A, Name, Clauses}}
        end,
    %% Elixir's variables have names of unused ones.
    Generated = fun(Anno) -> erl_anno:set_generated(true, Anno) end,
    {erl_eval:bindings(Bindings), erl_parse:map_anno(Generated, Expression)}.

-doc "For inspection only: free variables are arguments.".
-spec forms(fun()) -> {forms, arity(), erl_parse:abstract_clause()} | none.
forms(Fun) ->
    case is_evaluated(Fun) of
        true ->
            {Bindings, Expression} = data(Fun),
            {arity, Arity} = erlang:fun_info(Fun, arity),
            Arguments = dyno_bench_forms:variables(?A, Arity),
            Variables = [{var, ?A, Name} || {Name, _} <- Bindings] ++ Arguments,
            Body = [{call, ?A, Expression, Arguments}],
            {forms, length(Variables), {clause, ?A, Variables, [], Body}};
        false ->
            none
    end.

-spec text(term()) -> {ok, unicode:chardata()} | none.
text(Fun) when is_function(Fun) ->
    case is_evaluated(Fun) of
        true ->
            {_, Expression} = data(Fun),
            Lines = erl_pp:expr(Expression, [{encoding, unicode}]),
            {ok, re:replace(Lines, "\\s*\\n\\s*", " ", [global, unicode])};
        false ->
            none
    end;
text(_Other) ->
    none.

-spec format_error(reason()) -> unicode:chardata().
format_error({not_compiled, Texts}) ->
    [instead("a fun that was typed in a shell cannot be compiled"), ": ", lists:join("; ", Texts)];
format_error({hidden, Fun}) ->
    instead(io_lib:format("~0tp calls a fun that was typed in a shell", [Fun])).

instead(Why) ->
    [Why, "; its interpreter would be measured; give source text, or a function of a module"].
