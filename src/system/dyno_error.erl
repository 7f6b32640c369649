%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_error).
-moduledoc false.
%% What goes wrong passes from one folder to the next as `{Module, Reason}`: the module that says
%% so knows what its reason means, and nobody above needs to. It exports `format_error/1`, which
%% words the reason, and, where its reasons are not all of the same kind, `fault/1`, which says who
%% can do something about them:
%%
%%   caller       what was asked for is wrong; exit status 2
%%   code         the measured code or system failed; exit status 1
%%   dyno         dyno or the target could not do it; exit status 3
%%   interrupted  somebody stopped it; exit status 130

-export([format/1, format_error/1, fault/1, exit_status/1, each/2, each/3, tagged/2]).
-export([attempt/1, fail/1, ok/1]).
-export_type([error/0, fault/0, exit_status/0]).

-doc "A reason with the module that words it.".
-type error() :: {module(), Reason :: term()}.

-doc "Who can do something about it.".
-type fault() :: caller | code | dyno | interrupted.

-doc "0: done; the others are in the list above.".
-type exit_status() :: 0 | 1 | 2 | 3 | 130.

-doc "One sentence that says what is wrong and what to do.".
-spec format(error()) -> unicode:chardata().
format({Module, Reason}) ->
    Module:format_error(Reason).

-doc "Words the one reason that every module may have: `{dyno_error, interrupted}`.".
-spec format_error(interrupted) -> unicode:chardata().
format_error(interrupted) ->
    "interrupted".

-doc "Whose fault it is; the caller's where the module does not tell.".
-spec fault(error() | interrupted) -> fault().
fault(interrupted) ->
    interrupted;
fault({Module, Reason}) ->
    {module, Module} = code:ensure_loaded(Module),
    case erlang:function_exported(Module, fault, 1) of
        true -> Module:fault(Reason);
        false -> caller
    end.

-doc "What a function gives for each of a list, or the first error.".
-spec each(fun((Item) -> {ok, Value} | Error), [Item]) -> {ok, [Value]} | Error.
each(Function, Items) ->
    each(Function, fun(_) -> ok end, Items).

-doc "The same; where there is an error, what was given before is undone.".
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

-doc "What a module's function has given, with the module to an error.".
-spec tagged(module(), Good | {error, Reason}) -> Good | {error, {module(), Reason}}.
tagged(Module, {error, Reason}) -> {error, {Module, Reason}};
tagged(_Module, Good) -> Good.

-doc "What a function gives, or the error that it ends with by `fail/1`.".
-spec attempt(fun(() -> Value)) -> {ok, Value} | {error, error()}.
attempt(Fun) ->
    try
        {ok, Fun()}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

-doc "Ends what `attempt/1` calls.".
-spec fail(error()) -> no_return().
fail(Error) ->
    throw({?MODULE, Error}).

-doc "The value of a result; ends what `attempt/1` calls where it is an error.".
-spec ok(ok | {ok, Value} | {error, error()}) -> ok | Value.
ok(ok) -> ok;
ok({ok, Value}) -> Value;
ok({error, Error}) -> fail(Error).

-doc "The exit status of a command that fails for this reason.".
-spec exit_status(error()) -> 1 | 2 | 3 | 130.
exit_status(Error) ->
    map_get(fault(Error), #{caller => 2, code => 1, dyno => 3, interrupted => 130}).
