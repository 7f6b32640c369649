%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_trace_functions).
-moduledoc false.
%% Checks whether functions can be traced, and what exists instead.

-export([check/1]).
-export_type([pattern/0, answer/0]).

-type pattern() :: {module() | '_', atom(), arity() | '_'}.

-doc """
* `not_loaded`: the module is neither loaded nor on the code path; with the loaded modules.
* `no_function`: with the functions of the module.
* `untraceable`: the compiler replaces the call by an instruction.
""".
-type answer() ::
    ok | {not_loaded, [module()]} | {no_function, [{atom(), arity()}]} | untraceable.

-doc "Loads the module, as its first call would do: only then it can have breakpoints.".
-spec check(pattern()) -> answer().
check({'_', '_', '_'}) ->
    ok;
check({Module, Function, Arity}) ->
    case code:ensure_loaded(Module) of
        {module, Module} ->
            Functions = erlang:get_module_info(Module, functions),
            Meant = [
                {Module, F, A}
             || {F, A} <- Functions,
                Function =:= '_' orelse F =:= Function,
                Arity =:= '_' orelse A =:= Arity
            ],
            case {Meant, lists:all(fun is_instruction/1, Meant)} of
                {[], _} -> {no_function, Functions};
                {_, true} -> untraceable;
                {_, false} -> ok
            end;
        {error, _} ->
            {not_loaded, dyno_agent_patterns:loaded()}
    end.

is_instruction({erlang, F, A}) ->
    lists:any(fun(Is) -> erl_internal:Is(F, A) end, [guard_bif, arith_op, bool_op, comp_op]);
is_instruction(_Function) ->
    false.
