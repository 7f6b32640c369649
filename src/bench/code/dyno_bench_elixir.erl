%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_elixir).
-moduledoc false.
%% Elixir source as code: Elixir compiles it to Erlang's abstract code, which then is inline in the
%% loop like Erlang's. An expression is what it is; `fn x -> ... end`, `&...` is a function.
%%
%% Elixir is where the machine has it; dyno calls it by name only, and needs it for this alone.

%% Elixir is not there when dyno is built.
-ignore_xref([
    {'Elixir.Code', compile_quoted, 2},
    {'Elixir.Code', string_to_quoted, 2},
    {'Elixir.Code', with_diagnostics, 1},
    {'Elixir.Exception', message, 1}
]).

-export([start/0, part/2, is_of_build/1, format_error/1]).
-export_type([reason/0]).

-type part() :: {forms, Arity :: arity(), erl_parse:abstract_clause()}.

-type reason() ::
    no_elixir
    | {elixir_syntax, Text :: binary(), Line :: pos_integer(), Column :: pos_integer(),
        Message :: binary()}
    | {elixir_raised, term()}.

%% Of the module that the compiler makes and that is never loaded for long. Elixir compiles a module
%% once at a time, so each process that does has its own name, which it is registered by meanwhile.
-define(NAME, "dyno_bench_elixir_code").
-define(MOST, 64).

-doc "Brings Elixir's modules, from the code path or from where it is installed.".
-spec start() -> ok | {error, no_elixir}.
start() ->
    case dyno_elixir:start() of
        ok -> ok;
        {error, _} -> {error, no_elixir}
    end.

-doc "Reads Elixir source; in as many milliseconds, because macros run.".
-spec part(binary(), TimeoutMs :: pos_integer()) ->
    {ok, part()} | {error, reason() | {timeout, pos_integer()} | interrupted}.
part(Text, TimeoutMs) ->
    maybe
        ok ?= start(),
        {ok, Result} ?= dyno_sandbox:once(fun() -> compiled(Text) end, TimeoutMs),
        Result
    else
        {error, {raised, _, Reason, _}} -> {error, {elixir_raised, Reason}};
        {error, {died, Reason}} -> {error, {elixir_raised, Reason}};
        {error, _} = Error -> Error
    end.

-spec compiled(binary()) -> {ok, part()} | {error, reason()}.
compiled(Text) ->
    %% What the compiler prints is in the diagnostics as well.
    true = group_leader(quiet(), self()),
    Options = [{columns, true}, {file, ~"code"}],
    case apply('Elixir.Code', string_to_quoted, [Text, Options]) of
        {ok, Quoted} -> checked(Text, Quoted);
        {error, {Where, Before, Token}} -> {error, syntax(Text, Where, message(Before, Token))}
    end.

-spec message(binary() | {binary(), binary()}, binary()) -> unicode:chardata().
message({Before, After}, Token) -> [Before, Token, After];
message(Before, Token) -> [Before, Token].

-spec syntax(binary(), [{atom(), term()}], unicode:chardata()) ->
    {elixir_syntax, binary(), pos_integer(), pos_integer(), binary()}.
syntax(Text, Where, Message) ->
    Line = proplists:get_value(line, Where, 1),
    Column = proplists:get_value(column, Where, 1),
    {elixir_syntax, Text, Line, Column, one_line(Message)}.

%% Elixir's messages have lists in them.
-spec one_line(unicode:chardata()) -> binary().
one_line(Message) ->
    Words = re:replace(
        unicode:characters_to_binary(Message), "\\s+", " ", [global, unicode, {return, binary}]
    ),
    %% It would name the module that dyno makes.
    Own = re:replace(Words, " \\(expected :dyno_bench_elixir_code.*", "", [{return, binary}]),
    Plain = string:trim(binary:replace(iolist_to_binary([Own]), ~" * ", ~" ", [global])),
    true = is_binary(Plain),
    Plain.

-spec checked(binary(), term()) -> {ok, part()} | {error, reason()}.
checked(Text, {defmodule, Where, _}) ->
    {error, syntax(Text, Where, "a module is no code; compile it, give -pa, and call it")};
checked(Text, Quoted) ->
    compiled(Text, Quoted, named(1)).

-spec compiled(binary(), term(), module()) -> {ok, part()} | {error, reason()}.
compiled(Text, Quoted, Name) ->
    Function = {def, [], [{runner, [], []}, [{do, Quoted}]]},
    Module = {defmodule, [], [Name, [{do, Function}]]},
    Compile = fun() ->
        try
            apply('Elixir.Code', compile_quoted, [Module, ~"code"])
        catch
            _:Reason -> {raised, Reason}
        after
            dyno_code:unload(Name)
        end
    end,
    {Result, Diagnostics} = apply('Elixir.Code', with_diagnostics, [Compile]),
    case {[D || D <- Diagnostics, is_error(D)], Result} of
        {[#{position := Position, message := Message} | _], _} ->
            {error, syntax(Text, where(Position), Message)};
        {[], [{Name, Binary}]} ->
            {ok, part(forms(Name, Binary))};
        {[], {raised, #{'__exception__' := true} = Exception}} ->
            Message = apply('Elixir.Exception', message, [Exception]),
            {error, syntax(Text, [{line, max(1, maps:get(line, Exception, 1))}], Message)};
        {[], _} ->
            {error, syntax(Text, [], "modules cannot be defined in it; compile them, and give -pa")}
    end.

%% A function that is not there is only a warning of Elixir's.
-spec is_error(map()) -> boolean().
is_error(#{severity := error}) -> true;
is_error(#{message := Message}) -> is_undefined(Message);
is_error(_) -> false.

-spec is_undefined(unicode:chardata()) -> boolean().
is_undefined(Message) -> string:find(Message, "is undefined") =/= nomatch.

-doc "Whether what is wrong may be right with the modules of a project that is not built yet.".
-spec is_of_build(term()) -> boolean().
is_of_build({syntax, _Part, _Text, _Line, _Column, Message}) ->
    is_undefined(Message) orelse string:find(Message, "is not loaded") =/= nomatch;
is_of_build(_Reason) ->
    false.

-spec where({pos_integer(), pos_integer()} | integer()) -> [{atom(), pos_integer()}].
where({Line, Column}) -> [{line, Line}, {column, Column}];
where(Line) when is_integer(Line) -> [{line, max(1, Line)}].

-spec named(pos_integer()) -> module().
named(N) when N =< ?MOST ->
    Name = list_to_atom(?NAME ++ integer_to_list(N)),
    try register(Name, self()) of
        true -> Name
    catch
        error:badarg -> named(N + 1)
    end.

-spec forms(module(), binary()) -> [erl_parse:abstract_form()].
forms(Name, Binary) ->
    {ok, {_, [{debug_info, {debug_info_v1, Backend, Data}}]}} =
        beam_lib:chunks(Binary, [debug_info]),
    {ok, Forms} = Backend:debug_info(erlang_v1, Name, Data, []),
    Forms.

-spec part([erl_parse:abstract_form()]) -> part().
part(Forms) ->
    [Clause] = [C || {function, _, runner, 0, [C]} <- Forms],
    case Clause of
        {clause, Anno, [], [], [{'fun', _, {clauses, Clauses}}]} ->
            function(Anno, Clauses);
        {clause, Anno, [], [], [{'fun', _, {function, M, F, {integer, _, Arity}}}]} ->
            Variables = dyno_bench_forms:variables(Anno, Arity),
            {forms, Arity,
                {clause, Anno, Variables, [], [{call, Anno, {remote, Anno, M, F}, Variables}]}};
        _ ->
            {forms, 0, Clause}
    end.

-spec function(erl_anno:anno(), [erl_parse:abstract_clause(), ...]) -> part().
function(_Anno, [{clause, _, Patterns, _, _} = Only]) ->
    {forms, length(Patterns), Only};
function(Anno, [{clause, _, Patterns, _, _} | _] = Clauses) ->
    {forms, length(Patterns), dyno_bench_forms:joined(Anno, length(Patterns), Clauses)}.

%% Swallows what is printed.
-spec quiet() -> pid().
quiet() ->
    spawn_link(fun() -> swallow() end).

-spec swallow() -> no_return().
swallow() ->
    receive
        {io_request, From, Ref, _} -> From ! {io_reply, Ref, ok};
        _ -> ok
    end,
    swallow().

-doc "One sentence, and the place where there is one.".
-spec format_error(reason()) -> unicode:chardata().
format_error(no_elixir) ->
    "Elixir is not installed here, or not found; install it, or give its ebin folders with -pa";
format_error({elixir_raised, Reason}) ->
    io_lib:format("Elixir's compiler failed: ~0tP", [Reason, 10]);
format_error({elixir_syntax, _Text, Line, Column, Message}) ->
    io_lib:format("line ~b, column ~b: ~ts", [Line, Column, Message]).
