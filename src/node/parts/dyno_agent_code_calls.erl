%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_code_calls).
-moduledoc false.
%% The calls and the tail calls of a module's functions, read from its instructions, which exist
%% also without debug information.

-export([read/2, exporting/3, decoded/1, arities/0]).
-export_type([functions/0, target/0]).

-doc "`'_'`: a module known at run time. `unknown`: a fun, or a function without a name.".
-type target() :: mfa() | {'_', atom(), arity()} | unknown.

-type functions() :: #{mfa() => #{calls := [target()], tail_calls := [target()]}}.

%% The number of arguments of each instruction, from the first on (genop.tab in OTP's compiler).
-define(ARITIES, <<
    "130232232452323211000021124444444444433333332222222222222333121233333211011322255542112255"
    "521012244443121112635122357775322562222134086265454543333301171552334002223432243121116301"
    "53246243635"
>>).
-define(LABEL, 1).
-define(FUNC_INFO, 2).
-define(END, 3).
-define(CALL, 4).
-define(CALL_LAST, 5).
-define(CALL_ONLY, 6).
-define(CALL_EXT, 7).
-define(CALL_EXT_LAST, 8).
-define(DEALLOCATE, 18).
-define(RETURN, 19).
-define(MOVE, 64).
-define(CALL_FUN, 75).
-define(CALL_EXT_ONLY, 78).
-define(APPLY, 112).
-define(APPLY_LAST, 113).
-define(TRIM, 136).
-define(LINE_OP, 153).
-define(SWAP, 169).
-define(CALL_FUN2, 178).

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
    case beam_lib:chunks(Beam, [atoms, "ImpT", "Code"]) of
        {ok, {_, [{atoms, Numbered}, {_, <<_:32, Imports/binary>>}, {_, Code}]}} ->
            Atoms = maps:from_list(Numbered),
            <<Size:32, _:Size/binary, Instructions/binary>> = Code,
            Imported = [
                {map_get(M, Atoms), map_get(F, Atoms), A}
             || <<M:32, F:32, A:32>> <= Imports
            ],
            Names = #{atoms => Atoms, imports => maps:from_list(lists:enumerate(0, Imported))},
            calls(Instructions, Names, none, #{}, {#{}, []});
        {error, beam_lib, _} ->
            unknown
    end.

-spec arities() -> [0..9].
arities() -> [C - $0 || <<C>> <= ?ARITIES].

%% `Last`: the names that the instructions just before put into registers.
calls(<<?END, _/binary>>, _Names, _Function, _Last, {Labels, Calls}) ->
    Resolved = [{Of, How, resolved(Target, Labels)} || {Of, How, Target} <- Calls],
    None = #{Of => #{calls => [], tail_calls => []} || _ := Of <- Labels},
    lists:foldl(
        fun({Of, How, Target}, Acc) ->
            #{Of := #{How := Before} = Function} = Acc,
            Acc#{Of := Function#{How := lists:umerge([Target], Before)}}
        end,
        None,
        Resolved
    );
calls(<<Op, Rest/binary>>, Names, Function, Last, Found) when Op =< byte_size(?ARITIES) ->
    {Arguments, Next} = arguments(binary:at(?ARITIES, Op - 1) - $0, Rest, []),
    case Op of
        ?FUNC_INFO ->
            [{_, M}, {_, F}, {_, A}] = Arguments,
            #{atoms := #{M := Module, F := Name}} = Names,
            calls(Next, Names, {Module, Name, A}, #{}, Found);
        ?LABEL when Function =/= none ->
            [{_, Label}] = Arguments,
            {Labels, Calls} = Found,
            calls(Next, Names, Function, #{}, {Labels#{Label => Function}, Calls});
        ?MOVE ->
            calls(Next, Names, Function, moved(Arguments, Last), Found);
        _ when Op =:= ?SWAP; Op =:= ?LINE_OP; Op =:= ?DEALLOCATE; Op =:= ?TRIM ->
            calls(Next, Names, Function, Last, Found);
        _ ->
            {Labels, Calls} = Found,
            New = [{Function, How, To} || {How, To} <- call(Op, Arguments, Names, Last, Next)],
            calls(Next, Names, Function, #{}, {Labels, New ++ Calls})
    end;
calls(_LaterOrCut, _Names, _Function, _Last, _Found) ->
    unknown.

resolved({label, Label}, Labels) -> map_get(Label, Labels);
resolved(Target, _Labels) -> Target.

moved([{2, Atom}, {3, Register}], Last) -> Last#{Register => Atom};
moved([_, {3, Register}], Last) -> maps:remove(Register, Last);
moved(_Arguments, Last) -> Last.

call(?CALL, [_, {_, Label}], _Names, _Last, _Next) ->
    [{calls, {label, Label}}];
call(Op, [_, {_, Label} | _], _Names, _Last, _Next) when Op =:= ?CALL_LAST; Op =:= ?CALL_ONLY ->
    [{tail_calls, {label, Label}}];
call(?CALL_EXT, [_, {_, Import}], #{imports := Imports}, _Last, _Next) ->
    [{calls, map_get(Import, Imports)}];
call(Op, [_, {_, Import} | _], #{imports := Imports}, _Last, _Next) when
    Op =:= ?CALL_EXT_LAST; Op =:= ?CALL_EXT_ONLY
->
    [{tail_calls, map_get(Import, Imports)}];
call(?APPLY, [{_, Arity}], Names, Last, _Next) ->
    [{calls, applied(Arity, Names, Last)}];
call(?APPLY_LAST, [{_, Arity}, _], Names, Last, _Next) ->
    [{tail_calls, applied(Arity, Names, Last)}];
call(Op, _Arguments, _Names, _Last, Next) when Op =:= ?CALL_FUN; Op =:= ?CALL_FUN2 ->
    case Next of
        <<?RETURN, _/binary>> -> [{tail_calls, unknown}];
        <<?DEALLOCATE, _, ?RETURN, _/binary>> -> [{tail_calls, unknown}];
        _ -> [{calls, unknown}]
    end;
call(_Op, _Arguments, _Names, _Last, _Next) ->
    [].

%% The module and the function come after the arguments.
applied(Arity, #{atoms := Atoms}, Last) ->
    Register = Arity + 1,
    case Last of
        #{Register := Atom} -> {'_', map_get(Atom, Atoms), Arity};
        #{} -> unknown
    end.

%% Compact terms: {Tag, Value}, or `other`.

arguments(0, Rest, Arguments) ->
    {lists:reverse(Arguments), Rest};
arguments(N, Bytes, Arguments) ->
    {Argument, Rest} = argument(Bytes),
    arguments(N - 1, Rest, [Argument | Arguments]).

%% Lists, floating point registers, allocation lists, literals, typed registers.
argument(<<1:4, _:1, 7:3, Bytes/binary>>) ->
    {{_, Count}, Rest} = argument(Bytes),
    {other, element(2, arguments(Count, Rest, []))};
argument(<<3:4, _:1, 7:3, Bytes/binary>>) ->
    {{_, Count}, Rest} = argument(Bytes),
    {other, element(2, arguments(2 * Count, Rest, []))};
argument(<<5:4, _:1, 7:3, Bytes/binary>>) ->
    {[Register, _], Rest} = arguments(2, Bytes, []),
    {Register, Rest};
argument(<<_:4, _:1, 7:3, Bytes/binary>>) ->
    {_, Rest} = argument(Bytes),
    {other, Rest};
argument(<<Value:4, 0:1, Tag:3, Rest/binary>>) ->
    {{Tag, Value}, Rest};
argument(<<High:3, 0:1, 1:1, Tag:3, Low, Rest/binary>>) ->
    {{Tag, High bsl 8 bor Low}, Rest};
argument(<<7:3, 1:1, 1:1, _:3, Bytes/binary>>) ->
    {{_, More}, Rest} = argument(Bytes),
    {other, binary:part(Rest, More + 9, byte_size(Rest) - More - 9)};
argument(<<More:3, 1:1, 1:1, Tag:3, Bytes/binary>>) ->
    Size = (More + 2) * 8,
    <<Value:Size, Rest/binary>> = Bytes,
    {{Tag, Value}, Rest}.
