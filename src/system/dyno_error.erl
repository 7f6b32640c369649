%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_error).
-moduledoc false.
%% Errors between folders are `{Module, Reason}`: only the module that reports a reason knows its
%% meaning. The module exports `format_error/1`, which words the reason, and, if its reasons are of
%% different kinds, `fault/1`, which tells who can fix them:
%%
%%   caller       the request is wrong; exit status 2
%%   code         the measured code or system failed; exit status 1
%%   dyno         dyno or the target failed; exit status 3
%%   interrupted  a user stopped the run; exit status 130

-export([format/1, format_error/1, fault/1, exit_status/1, each/2, each/3, tagged/2]).
-export([attempt/1, fail/1, ok/1]).
-export_type([error/0, result/0, result/1, fault/0, exit_status/0]).

-type error() :: {module(), Reason :: term()}.

-type result() :: ok | {error, error()}.
-type result(Value) :: {ok, Value} | {error, error()}.

-type fault() :: caller | code | dyno | interrupted.

-doc "0: done; for the others see the list above.".
-type exit_status() :: 0 | 1 | 2 | 3 | 130.

-doc "One sentence with the error and the remedy.".
-spec format(error()) -> unicode:chardata().
format({Module, Reason}) ->
    Module:format_error(Reason).

-doc "Words the reason that every module may have: `{dyno_error, interrupted}`.".
-spec format_error(interrupted) -> unicode:chardata().
format_error(interrupted) ->
    "interrupted".

-doc "By default the caller's.".
-spec fault(error() | interrupted) -> fault().
fault(interrupted) ->
    interrupted;
fault({Module, Reason}) ->
    {module, Module} = code:ensure_loaded(Module),
    case erlang:function_exported(Module, fault, 1) of
        true -> Module:fault(Reason);
        false -> caller
    end.

-doc "Maps a function over a list, up to the first error.".
-spec each(fun((Item) -> {ok, Value} | Error), [Item]) -> {ok, [Value]} | Error.
each(Function, Items) ->
    each(Function, fun(_) -> ok end, Items).

-doc "The same; undoes earlier results after an error.".
-spec each(fun((Item) -> {ok, Value} | Error), Undo :: fun((Value) -> term()), [Item]) ->
    {ok, [Value]} | Error.
each(_Function, _Undo, []) ->
    {ok, []};
each(Function, Undo, [Item | Items]) ->
    maybe
        {ok, Value} ?= Function(Item),
        case each(Function, Undo, Items) of
            {ok, Values} ->
                {ok, [Value | Values]};
            Error ->
                _ = Undo(Value),
                Error
        end
    end.

-doc "Adds the module to an error in the result of its function.".
-spec tagged(module(), Good | {error, Reason}) -> Good | {error, {module(), Reason}}.
tagged(Module, {error, Reason}) -> {error, {Module, Reason}};
tagged(_Module, Good) -> Good.

-doc "A function's result, or the error of a `fail/1` inside.".
-spec attempt(fun(() -> Value)) -> {ok, Value} | {error, error()}.
attempt(Fun) ->
    try
        {ok, Fun()}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

-spec fail(error()) -> no_return().
fail(Error) ->
    throw({?MODULE, Error}).

-doc "The value of a result; an error ends the surrounding `attempt/1`.".
-spec ok(ok | {ok, Value} | {error, error()}) -> ok | Value.
ok(ok) -> ok;
ok({ok, Value}) -> Value;
ok({error, Error}) -> fail(Error).

-spec exit_status(error()) -> 1 | 2 | 3 | 130.
exit_status(Error) ->
    map_get(fault(Error), #{caller => 2, code => 1, dyno => 3, interrupted => 130}).
