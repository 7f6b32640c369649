%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_inline).
-moduledoc """
Inlines monitors into a module: `-compile({parse_transform, dyno_inline}).`, in Elixir
`@compile {:parse_transform, :dyno_inline}`.

Instrumented are `!` and erlang:send, the clauses and timeout of each receive, all functions of
erlang and proc_lib that spawn, and the callbacks of gen_server (GenServer) and gen_statem. The
called functions are added to the module: its node needs nothing of dyno, and continues when dyno
leaves. Not instrumented are OTP's own actions, such as gen_server:call, gen_server:reply and
gen_event; replies returned by callbacks are.

An instrumented process starts in a function of its module, `'-dyno_run-'/2`, its initial call. Its
last call is no tail call, to see its exit.
""".

-export([parse_transform/2]).

-type forms() :: [erl_parse:abstract_form() | erl_parse:form_info()].

-define(CALLBACKS, [
    {init, 1}, {handle_call, 3}, {handle_cast, 2}, {handle_info, 2}, {terminate, 2}
]).
%% State functions may be the exported functions with three arguments.
-define(OF_A_STATEM, [{init, 1}, {handle_event, 4}, {terminate, 3}]).
-define(SPAWNS, [
    spawn, spawn_link, spawn_monitor, spawn_opt, spawn_request, start, start_link, start_monitor
]).

-doc "The instrumented forms.".
-spec parse_transform(forms(), [compile:option()]) -> forms().
parse_transform(Forms, _Options) ->
    case [woven || {attribute, _, ?MODULE, woven} <- Forms] of
        [] -> weave(Forms);
        %% Elixir transforms twice.
        [_ | _] -> Forms
    end.

weave(Forms) ->
    [Module] = [M || {attribute, _, module, M} <- Forms],
    Behaviours = [
        B
     || {attribute, _, Kind, B} <- Forms, Kind =:= behaviour orelse Kind =:= behavior
    ],
    Callbacks = lists:append([callbacks(Behaviour, Forms) || Behaviour <- Behaviours]),
    Local = [{Name, Arity} || {function, _, Name, Arity, _} <- Forms],
    {Attributes, Functions} = dyno_inline_stub:forms(Module),
    {Program, End} = lists:splitwith(fun(Form) -> element(1, Form) =/= eof end, Forms),
    lists:append([form(Form, Module, Attributes, Callbacks, Local) || Form <- Program]) ++
        Functions ++ End.

callbacks(Behaviour, _Forms) when Behaviour =:= gen_server; Behaviour =:= 'Elixir.GenServer' ->
    ?CALLBACKS;
callbacks(gen_statem, Forms) ->
    Exported = lists:append([Functions || {attribute, _, export, Functions} <- Forms]),
    lists:usort(?OF_A_STATEM ++ [{Name, 3} || {Name, 3} <- Exported]);
callbacks(_Behaviour, _Forms) ->
    [].

form({attribute, Line, module, _} = Form, _Module, Attributes, _Callbacks, _Local) ->
    [Form, {attribute, Line, ?MODULE, woven} | Attributes];
form({function, Line, Name, Arity, Clauses}, Module, _Attributes, Callbacks, Local) ->
    Woven = woven(Clauses, Local),
    case lists:member({Name, Arity}, Callbacks) of
        false -> [{function, Line, Name, Arity, Woven}];
        true -> callback(Line, Module, Name, Arity, Woven)
    end;
form(Form, _Module, _Attributes, _Callbacks, _Local) ->
    [Form].

%% The original callback gets another name.
callback(Line, Module, Name, Arity, Clauses) ->
    Inner = list_to_atom("-" ++ atom_to_list(Name) ++ "-"),
    Variables = [
        {var, Line, list_to_atom("Dyno" ++ integer_to_list(N))}
     || N <- lists:seq(1, Arity)
    ],
    Fun = {'fun', Line, {function, Inner, Arity}},
    Enter = calling(Line, enter, Module, Name, Variables, [Fun]),
    [
        {function, Line, Name, Arity, [{clause, Line, Variables, [], [Enter]}]},
        {function, Line, Inner, Arity, Clauses}
    ].

%% In any expression: an abstract form consists of tuples and lists.
woven({op, Line, '!', To, Message}, Local) ->
    call(Line, send, [woven(To, Local), woven(Message, Local)]);
woven({'receive', Line, Clauses}, Local) ->
    {'receive', Line, [received(Clause, Local) || Clause <- Clauses]};
woven({'receive', Line, Clauses, Time, After}, Local) ->
    Timeout = call(Line, received, [{atom, Line, timeout}]),
    {'receive', Line, [received(Clause, Local) || Clause <- Clauses], woven(Time, Local), [
        Timeout | woven(After, Local)
    ]};
woven({call, Line, {remote, _, {atom, _, Module}, {atom, _, Name}} = Called, Arguments}, Local) ->
    Args = woven(Arguments, Local),
    case kind(Module, Name, length(Args)) of
        send -> call(Line, send, Args);
        spawn -> calling(Line, spawned, Module, Name, Args, []);
        other -> {call, Line, Called, Args}
    end;
woven({call, Line, {atom, _, Name} = Called, Arguments}, Local) ->
    Args = woven(Arguments, Local),
    Own = lists:member({Name, length(Args)}, Local),
    case Own orelse kind(erlang, Name, length(Args)) of
        spawn -> calling(Line, spawned, erlang, Name, Args, []);
        _ -> {call, Line, Called, Args}
    end;
woven(Tuple, Local) when is_tuple(Tuple) ->
    list_to_tuple([woven(Element, Local) || Element <- tuple_to_list(Tuple)]);
woven([Head | Tail], Local) ->
    [woven(Head, Local) | woven(Tail, Local)];
woven(Other, _Local) ->
    Other.

kind(erlang, send, Arity) when Arity =:= 2; Arity =:= 3 ->
    send;
kind(Module, Name, Arity) when Arity > 0 ->
    Spawns = #{erlang => lists:sublist(?SPAWNS, 5), proc_lib => ?SPAWNS},
    case lists:member(Name, maps:get(Module, Spawns, [])) of
        true -> spawn;
        false -> other
    end;
kind(_Module, _Name, _Arity) ->
    other.

calling(Line, Function, Module, Name, Args, More) ->
    List = lists:foldr(fun(Arg, Tail) -> {cons, Line, Arg, Tail} end, {nil, Line}, Args),
    call(Line, Function, [{atom, Line, Module}, {atom, Line, Name}, List | More]).

%% Its pattern gets a second, unique name.
received({clause, Line, [Pattern], Guards, Body}, Local) ->
    Number = erlang:unique_integer([positive]),
    Variable = {var, Line, list_to_atom("DynoReceived" ++ integer_to_list(Number))},
    {clause, Line, [{match, Line, Pattern, Variable}], Guards, [
        call(Line, received, [Variable]) | woven(Body, Local)
    ]}.

call(Line, Function, Arguments) ->
    {call, Line, {atom, Line, dyno_inline_stub:name(Function)}, Arguments}.
