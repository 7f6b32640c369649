%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_undefined).
-moduledoc false.
%% Functions that are not there: whether that is what a code failed of, and what was meant instead.

-export([find/1, failed/3, sentence/1, said/1]).

-doc """
The function that a code's own text names and that is not there. One that is missing deeper, in a
function that the code calls, is that function's defect, not a mistake in the text.
""".
-spec find(dyno_bench_worker:failure() | dyno_sandbox:failure()) -> {ok, mfa()} | none.
find({raised, error, undef, [{M, F, A, _}, {Caller, _, _, _} | _]}) ->
    case atom_to_list(Caller) of
        "dyno_bench_" ++ _ -> {ok, {M, F, arity(A)}};
        _ -> none
    end;
find(_) ->
    none.

-doc "The reason for a failure of a code.".
-spec failed(Label, Stage, Failure) ->
    {unknown, Label, mfa()} | {failed, Label, Stage, Failure}
when
    Label :: binary(),
    Stage :: init | init_runner | run,
    Failure :: dyno_bench_worker:failure() | dyno_sandbox:failure().
failed(Label, Stage, Failure) ->
    case find(Failure) of
        {ok, Function} -> {unknown, Label, Function};
        none -> {failed, Label, Stage, Failure}
    end.

-spec arity([term()] | arity()) -> arity().
arity(Arguments) when is_list(Arguments) -> length(Arguments);
arity(Arity) -> Arity.

-doc "What is not there, and what has almost the same name.".
-spec sentence(mfa() | binary()) -> unicode:chardata().
sentence(Said) when is_binary(Said) ->
    Said;
sentence({M, F, A}) ->
    case code:ensure_loaded(M) of
        {module, M} ->
            Exported = [E || {Name, _} = E <- M:module_info(exports), Name =/= module_info],
            [
                io_lib:format("there is no function ~tw:~tw/~b", [M, F, A]),
                function(M, F, A, Exported)
            ];
        {error, _} ->
            Modules = [Name || {Name, _, _} <- code:all_available()],
            [io_lib:format("there is no module ~tw", [M]), meant(atom_to_list(M), Modules)]
    end.

-doc """
A reason with the sentence in place of the function: what there is in one VM is not what there is in
the other, where the reason is shown.
""".
-spec said(Reason) -> Reason when Reason :: term().
said({unknown, Label, {_, _, _} = Function}) ->
    {unknown, Label, unicode:characters_to_binary(sentence(Function))};
said({in_run, Id, Reason}) ->
    {in_run, Id, said(Reason)};
said(Reason) ->
    Reason.

-spec function(module(), atom(), arity(), [{atom(), arity()}]) -> unicode:chardata().
function(M, F, A, Exported) ->
    case lists:usort([Arity || {Name, Arity} <- Exported, Name =:= F]) of
        [] ->
            %% The same number of arguments tells more than a letter.
            Alike = [atom_to_list(N) || {N, Arity} <- Exported, Arity =:= A],
            case dyno_similar:nearest(atom_to_list(F), Alike) of
                {ok, Name} -> io_lib:format("; did you mean ~tw:~ts/~b?", [M, Name, A]);
                none -> meant(atom_to_list(F), lists:usort([atom_to_list(N) || {N, _} <- Exported]))
            end;
        Arities ->
            Known = [io_lib:format("~tw:~tw/~b", [M, F, Arity]) || Arity <- Arities],
            ["; there is ", lists:join(", ", Known)]
    end.

-spec meant(string(), [string()]) -> unicode:chardata().
meant(Text, Names) ->
    case dyno_similar:nearest(Text, Names) of
        {ok, Name} -> ["; did you mean ", Name, "?"];
        none -> ""
    end.
