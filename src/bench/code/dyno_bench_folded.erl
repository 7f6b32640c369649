%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_folded).
-moduledoc false.
%% Finds functions whose result the compiler has computed: they only return a literal, so a
%% benchmark measures the call alone. The function's instructions, read from the module's file, show
%% this. OTP's modules are not checked.

-export([calls/1, is_folded/1]).

%% Larger files take long to read.
-define(MOST_BYTES, 500_000).
%% Depth of functions that only call another.
-define(DEEPEST, 5).

-doc "The called function, if these instructions only call one with literals.".
-spec calls([tuple() | atom()]) -> [mfa()].
calls(Code) ->
    case [Instruction || Instruction <- Code, not is_around(Instruction)] of
        [Call] -> called(Call);
        _ -> []
    end.

called({call_ext_only, _, Function}) -> extfunc(Function);
called({call_ext_last, _, Function, _}) -> extfunc(Function);
called({call_ext, _, Function}) -> extfunc(Function);
called({Only, _, {M, F, A}}) when Only =:= call_only; Only =:= call -> [{M, F, A}];
called({call_last, _, {M, F, A}, _}) -> [{M, F, A}];
called(_Other) -> [].

extfunc({extfunc, M, F, A}) -> [{M, F, A}];
extfunc(_Other) -> [].

is_around({move, Source, {x, _}}) ->
    is_literal(Source);
is_around(return) ->
    true;
is_around(Instruction) when is_tuple(Instruction) ->
    lists:member(element(1, Instruction), [
        label, line, func_info, allocate, deallocate, debug_line, executable_line
    ]);
is_around(_) ->
    false.

is_literal(nil) -> true;
is_literal({Kind, _}) -> lists:member(Kind, [literal, integer, atom, float]);
is_literal(_) -> false.

-spec is_folded(mfa()) -> boolean().
is_folded({Module, _, _} = MFA) ->
    try functions(Module) of
        Functions -> is_folded(MFA, Functions, ?DEEPEST)
    catch
        _:_ -> false
    end.

is_folded({Module, F, A}, #{} = Functions, Left) ->
    case Functions of
        #{{F, A} := Code} ->
            case {lists:all(fun is_around/1, Code), calls(Code)} of
                {true, _} ->
                    [x || {move, _, {x, 0}} <- Code] =/= [];
                {false, [{Module, _, _} = Next]} when Left > 0 ->
                    is_folded(Next, Functions, Left - 1);
                {false, [Next]} when Left > 0 -> is_folded(Next);
                _ ->
                    false
            end;
        #{} ->
            false
    end.

%% Records of the disassembler; no header of the compiler has them.
functions(Module) ->
    {Module, Binary, File} = code:get_object_code(Module),
    maybe
        false ?= lists:prefix(code:lib_dir(), File),
        true ?= byte_size(Binary) =< ?MOST_BYTES,
        {ok, {Module, Md5}} = beam_lib:md5(Binary),
        true ?= Md5 =:= Module:module_info(md5),
        {beam_file, Module, _, _, _, Functions} = beam_disasm:file(Binary),
        #{{F, A} => Code || {function, F, A, _, Code} <- Functions}
    else
        _ -> #{}
    end.
