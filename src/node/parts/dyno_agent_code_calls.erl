%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_code_calls).
-moduledoc false.
%% A module's calls and tail calls, read from its instructions, also without debug information.

-export([read/2, exporting/3, decoded/1]).
-export_type([functions/0, target/0]).

-doc "`'_'`: a module known at run time. `unknown`: a fun, or a function without a name.".
-type target() :: mfa() | {'_', atom(), arity()} | unknown.

-type functions() :: #{mfa() => #{calls := [target()], tail_calls := [target()]}}.

-doc "The calls of the functions of a node's module, if its file exists and is the loaded one.".
-spec read(node(), module()) -> functions() | unknown.
read(Node, Module) ->
    Calls = [{erlang, get_module_info, [Module, md5]}, {code, get_object_code, [Module]}],
    maybe
        [Loaded, {Module, Beam, _File}] ?= answers(Node, Calls),
        {ok, {Module, Loaded}} ?= beam_lib:md5(Beam),
        decoded(Beam)
    else
        _ -> unknown
    end.

-doc "The functions of a name that a node's loaded modules export.".
-spec exporting(node(), atom(), arity()) -> [mfa()].
exporting(Node, F, A) ->
    Modules = [M || [Loaded] <- [answers(Node, [{code, all_loaded, []}])], {M, _} <- Loaded],
    Calls = [{erlang, function_exported, [M, F, A]} || M <- Modules],
    [{M, F, A} || {M, true} <- lists:zip(Modules, answers(Node, Calls), trim)].

%% None of a module that is not loaded, and of a lost node.
answers(Node, Calls) ->
    try
        dyno_remote:each(Node, Calls)
    catch
        _:_ -> []
    end.

-doc "The same for a module's binary; `unknown` if it has instructions of a later release.".
-spec decoded(binary()) -> functions() | unknown.
decoded(Beam) ->
    try beam_disasm:file(Beam) of
        {beam_file, Module, _, _, _, Functions} ->
            #{{Module, F, A} => called(Code) || {function, F, A, _, Code} <- Functions};
        {error, beam_lib, _} ->
            unknown
    catch
        _:_ -> unknown
    end.

called(Code) ->
    All = calls(Code, #{}),
    #{How => lists:usort([To || {Of, To} <- All, Of =:= How]) || How <- [calls, tail_calls]}.

%% `Last`: the names that the instructions just before put into registers.
calls([{move, {atom, Atom}, {x, Register}} | Code], Last) ->
    calls(Code, Last#{Register => Atom});
calls([{move, _, {x, Register}} | Code], Last) ->
    calls(Code, maps:remove(Register, Last));
calls([Kept | Code], Last) when
    element(1, Kept) =:= move;
    element(1, Kept) =:= swap;
    element(1, Kept) =:= line;
    element(1, Kept) =:= deallocate;
    element(1, Kept) =:= trim
->
    calls(Code, Last);
calls([Instruction | Code], Last) ->
    call(Instruction, Last, Code) ++ calls(Code, #{});
calls([], _Last) ->
    [].

call({call, _, To}, _Last, _Code) ->
    [{calls, To}];
call({call_only, _, To}, _Last, _Code) ->
    [{tail_calls, To}];
call({call_last, _, To, _}, _Last, _Code) ->
    [{tail_calls, To}];
call({call_ext, _, {extfunc, M, F, A}}, _Last, _Code) ->
    [{calls, {M, F, A}}];
call({call_ext_only, _, {extfunc, M, F, A}}, _Last, _Code) ->
    [{tail_calls, {M, F, A}}];
call({call_ext_last, _, {extfunc, M, F, A}, _}, _Last, _Code) ->
    [{tail_calls, {M, F, A}}];
call({apply, Arity}, Last, _Code) ->
    [{calls, applied(Arity, Last)}];
call({apply_last, Arity, _}, Last, _Code) ->
    [{tail_calls, applied(Arity, Last)}];
call(Fun, _Last, [return | _]) when element(1, Fun) =:= call_fun; element(1, Fun) =:= call_fun2 ->
    [{tail_calls, unknown}];
call(Fun, Last, [{deallocate, _}, return | _] = Code) ->
    call(Fun, Last, tl(Code));
call(Fun, _Last, _Code) when element(1, Fun) =:= call_fun; element(1, Fun) =:= call_fun2 ->
    [{calls, unknown}];
call(_Instruction, _Last, _Code) ->
    [].

%% The module and the function come after the arguments.
applied(Arity, Last) ->
    case maps:find(Arity + 1, Last) of
        {ok, Atom} -> {'_', Atom, Arity};
        error -> unknown
    end.
