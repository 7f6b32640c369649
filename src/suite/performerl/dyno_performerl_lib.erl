%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_performerl_lib).
-moduledoc """
The helpers that PerformERL suites call as `performerl_lib`.

While such a suite runs, a module of that name calls these functions; an existing one on the code
path (PerformERL's own) is left alone. Names and arguments are PerformERL's.
""".

-export([install/0, remove/1]).
-export([inject_mod/2, inject_module/2, inject_binary/3, rpc/2]).
-export([sleep_progress/1, get_timestamp/0, format_date/1]).

-define(NAME, performerl_lib).
%% Without functions: the runtime hands all calls over.
-define(FORMS, [
    "-module(performerl_lib).",
    "-export(['$handle_undefined_function'/2]).",
    "'$handle_undefined_function'(Name, Arguments) -> apply(dyno_performerl_lib, Name, Arguments)."
]).

-doc "Makes the module `performerl_lib`; returns whether to remove it later.".
-spec install() -> installed | there.
install() ->
    case code:ensure_loaded(?NAME) of
        {module, ?NAME} ->
            there;
        {error, _} ->
            {ok, ?NAME, Binary} = compile:forms([form(Text) || Text <- ?FORMS], []),
            ok = dyno_code:load(?NAME, "performerl_lib.erl", Binary),
            installed
    end.

-doc "Removes the module that `install/0` made.".
-spec remove(installed | there) -> ok.
remove(there) ->
    ok;
remove(installed) ->
    dyno_code:unload(?NAME).

form(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

-doc "Loads a module of this node in another.".
-spec inject_module(module(), node()) -> ok | {error, term()}.
inject_module(Module, Node) ->
    case code:get_object_code(Module) of
        {Module, Binary, _File} -> inject_binary(Module, Binary, Node);
        error -> {error, {no_object_code, Module}}
    end.

-doc "The same as `inject_module/2`.".
-spec inject_mod(module(), node()) -> ok | {error, term()}.
inject_mod(Module, Node) ->
    inject_module(Module, Node).

-doc "Loads a compiled module in a node.".
-spec inject_binary(module(), binary(), node()) -> ok | {error, term()}.
inject_binary(Module, Binary, Node) ->
    File = atom_to_list(Module) ++ ".erl",
    case rpc:call(Node, code, load_binary, [Module, File, Binary]) of
        {module, Module} -> ok;
        {error, _} = Error -> Error;
        {badrpc, Reason} -> {error, Reason}
    end.

-doc "Evaluates text in a node; returns the last value.".
-spec rpc(node(), string()) -> term().
rpc(Node, Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Value, _} = rpc:call(Node, erl_eval, exprs, [Expressions, []]),
    Value.

-doc "Waits. PerformERL draws a bar meanwhile; dyno shows its own progress.".
-spec sleep_progress(non_neg_integer()) -> ok.
sleep_progress(Ms) ->
    receive
    after Ms -> ok
    end.

-doc "The local time.".
-spec get_timestamp() -> calendar:datetime().
get_timestamp() ->
    calendar:local_time().

-doc "A time as `DD-MM-YYYY.hh:mm:ss`.".
-spec format_date(calendar:datetime()) -> iolist().
format_date({{Year, Month, Day}, {Hour, Minute, Second}}) ->
    io_lib:format(
        "~2..0b-~2..0b-~4..0b.~2..0b:~2..0b:~2..0b", [Day, Month, Year, Hour, Minute, Second]
    ).
