%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_elixir).
-moduledoc false.
%% Elixir source as code. Elixir compiles the source to Erlang's abstract code, which is then inline
%% in the loop. `fn x -> ... end` and `&...` are functions; other source is an expression. dyno
%% calls Elixir by name only, and needs Elixir only for this.

%% Elixir is absent when dyno is built.
-ignore_xref([
    {'Elixir.Code', compile_quoted, 2},
    {'Elixir.Code', string_to_quoted, 2},
    {'Elixir.Code', with_diagnostics, 1},
    {'Elixir.Exception', message, 1}
]).

-export([part/3, may_lack_modules/1, format_error/1, fault/1]).
-export_type([reason/0]).

-type reason() :: no_elixir | {elixir_raised, term()}.

%% Name of the short-lived module that the compiler makes. Elixir compiles a module only once at a
%% time, so each compiling process registers a name of its own.
-define(NAME, "dyno_bench_elixir_code").
-define(MOST, 64).

-doc "Within a time limit, because macros run.".
-spec part(Name :: atom(), binary(), TimeoutMs :: pos_integer()) ->
    dyno_error:result(dyno_bench_source:part()).
part(Name, Text, TimeoutMs) ->
    maybe
        {elixir, ok} ?= {elixir, dyno_elixir:start()},
        {sandbox, {ok, Compiled}} ?=
            {sandbox, dyno_sandbox:once(fun() -> compiled(Text) end, TimeoutMs)},
        {syntax, {ok, Part}} ?= {syntax, Compiled},
        {ok, Part}
    else
        {elixir, {error, _}} ->
            {error, {?MODULE, no_elixir}};
        {syntax, {error, {{Line, Column}, Message}}} ->
            {error, {dyno_bench_source, {syntax, Name, Text, Line, Column, Message}}};
        {sandbox, {error, interrupted}} ->
            {error, {dyno_error, interrupted}};
        {sandbox, {error, {timeout, _}}} ->
            {error, {dyno_bench_code, {endless_compilation, Text, TimeoutMs}}};
        {sandbox, {error, {raised, _, Reason, _}}} ->
            {error, {?MODULE, {elixir_raised, Reason}}};
        {sandbox, {error, {died, Reason}}} ->
            {error, {?MODULE, {elixir_raised, Reason}}}
    end.

compiled(Text) ->
    %% The diagnostics contain the compiler's output as well.
    {ok, Nowhere} = file:open("/dev/null", [write, {encoding, utf8}]),
    true = group_leader(Nowhere, self()),
    Options = [{columns, true}, {file, ~"code"}],
    case apply('Elixir.Code', string_to_quoted, [Text, Options]) of
        {ok, Quoted} -> checked(Quoted);
        {error, {Where, Before, Token}} -> {error, syntax(Where, message(Before, Token))}
    end.

message(Before, ~"") when Before =:= ~"syntax error before: "; Before =:= "syntax error before: " ->
    ~"the code is not complete: something is missing at its end";
message({Before, After}, Token) ->
    [Before, Token, After];
message(Before, Token) ->
    [Before, Token].

syntax(Where, Message) ->
    Line = proplists:get_value(line, Where, 1),
    Column = proplists:get_value(column, Where, 1),
    {{Line, Column}, one_line(Message)}.

one_line(Message) ->
    Words = re:replace(
        unicode:characters_to_binary(Message), "\\s+", " ", [global, unicode, {return, binary}]
    ),
    %% It would name dyno's own module.
    Own = re:replace(Words, " \\(expected :dyno_bench_elixir_code.*", "", [{return, binary}]),
    Plain = string:trim(binary:replace(iolist_to_binary([Own]), ~" * ", ~" ", [global])),
    true = is_binary(Plain),
    Plain.

checked({defmodule, Where, _}) ->
    {error, syntax(Where, "a module is no code; compile the module, and call a function (--pa)")};
checked(Quoted) ->
    compiled(Quoted, free_name(1)).

compiled(Quoted, Name) ->
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
            {error, syntax(where(Position), Message)};
        {[], [{Name, Binary}]} ->
            {ok, part(forms(Name, Binary))};
        {[], {raised, #{'__exception__' := true} = Exception}} ->
            Message = apply('Elixir.Exception', message, [Exception]),
            {error, syntax([{line, max(1, maps:get(line, Exception, 1))}], Message)};
        {[], _} ->
            {error, syntax([], "code cannot define modules; compile them, and give --pa")}
    end.

%% Elixir only warns of undefined functions.
is_error(#{severity := error}) -> true;
is_error(#{message := Message}) -> is_undefined(Message);
is_error(_) -> false.

is_undefined(Message) -> string:find(Message, "is undefined") =/= nomatch.

-doc "Whether the code may fail only because a project's modules are not built yet.".
-spec may_lack_modules(dyno_error:error()) -> boolean().
may_lack_modules({dyno_bench_source, {syntax, _Part, _Text, _Line, _Column, Message}}) ->
    is_undefined(Message) orelse string:find(Message, "is not loaded") =/= nomatch;
may_lack_modules(_Error) ->
    false.

where({Line, Column}) -> [{line, Line}, {column, Column}];
where(Line) when is_integer(Line) -> [{line, max(1, Line)}].

free_name(N) when N =< ?MOST ->
    Name = list_to_atom(?NAME ++ integer_to_list(N)),
    try register(Name, self()) of
        true -> Name
    catch
        error:badarg -> free_name(N + 1)
    end.

forms(Name, Binary) ->
    {ok, {_, [{debug_info, {debug_info_v1, Backend, Data}}]}} =
        beam_lib:chunks(Binary, [debug_info]),
    {ok, Forms} = Backend:debug_info(erlang_v1, Name, Data, []),
    Forms.

part(Forms) ->
    [Clause] = [C || {function, _, runner, 0, [C]} <- Forms],
    dyno_bench_source:called({forms, 0, Clause}).

-spec format_error(reason()) -> unicode:chardata().
format_error(no_elixir) ->
    "Elixir is not installed here, or not found; install Elixir, or give its ebin folders (--pa)";
format_error({elixir_raised, Reason}) ->
    io_lib:format("Elixir's compiler failed: ~0tP", [Reason, 10]).

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
