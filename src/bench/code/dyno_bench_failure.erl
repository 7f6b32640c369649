%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_failure).
-moduledoc false.
%% How user code failed: an exception, the end of its process, a timeout, or an undefined function.
%%
%% The sentence for an undefined function is made at once, because the VM that shows the sentence
%% may have other modules.

-export([error/3, place/2, format_error/1, fault/1]).
-export_type([stage/0, failure/0, reason/0]).

-type stage() :: run | init | init_runner | setup | teardown | 'benchmarks/0' | none.

-type failure() ::
    dyno_sandbox:failure()
    %% With many workers.
    | {late, Workers :: pos_integer(), All :: pos_integer(), TimeoutMs :: pos_integer()}.

-type reason() ::
    {failed, Label :: unicode:chardata(), stage(), failure()}
    | {undefined, Label :: unicode:chardata(), Sentence :: binary()}.

-define(MOST_FRAMES, 8).

-spec error(Label :: unicode:chardata(), stage(), failure()) ->
    {?MODULE, reason()} | {dyno_error, interrupted}.
error(_Label, _Stage, interrupted) ->
    {dyno_error, interrupted};
error(Label, Stage, {late, _, 1, TimeoutMs}) ->
    {?MODULE, {failed, Label, Stage, {timeout, TimeoutMs}}};
error(Label, Stage, {raised, error, undef, [{M, F, A, _}, {Caller, _, _, _} | _]} = Failure) ->
    case lists:prefix("dyno_bench_", atom_to_list(Caller)) of
        %% Only for functions named in the code's own text. A function missing deeper is a defect of
        %% the called function, not a mistake in the text.
        true ->
            Sentence = unicode:characters_to_binary(sentence({M, F, arity(A)})),
            {?MODULE, {undefined, Label, Sentence}};
        false ->
            {?MODULE, {failed, Label, Stage, Failure}}
    end;
error(Label, Stage, Failure) ->
    {?MODULE, {failed, Label, Stage, Failure}}.

arity(Arguments) when is_list(Arguments) -> length(Arguments);
arity(Arity) -> Arity.

sentence({M, F, A}) ->
    Function = dyno_agent_name:mfa({M, F, A}),
    maybe
        {module, M} ?= code:ensure_loaded(M),
        false ?= lists:member({F, A}, M:module_info(functions)),
        Exported = [E || {Name, _} = E <- M:module_info(exports), Name =/= module_info],
        ["there is no function ", Function, instead(M, F, A, Exported)]
    else
        true ->
            [Function, " is not exported: it cannot be called"];
        {error, _} ->
            Modules = [Name || {Name, _, _} <- code:all_available()],
            Name = dyno_agent_name:module(M),
            ["there is no module ", Name, did_you_mean(atom_to_list(M), Modules)]
    end.

instead(M, F, A, Exported) ->
    case lists:usort([Arity || {Name, Arity} <- Exported, Name =:= F]) of
        [] ->
            %% The same arity is better evidence than a similar name.
            SameArity = [atom_to_list(N) || {N, Arity} <- Exported, Arity =:= A],
            case dyno_similar:nearest(atom_to_list(F), SameArity) of
                {ok, Name} ->
                    dyno_similar:meant({ok, dyno_agent_name:mfa({M, list_to_atom(Name), A})});
                none ->
                    Names = lists:usort([atom_to_list(N) || {N, _} <- Exported]),
                    did_you_mean(atom_to_list(F), Names)
            end;
        Arities ->
            Functions = [dyno_agent_name:mfa({M, F, Arity}) || Arity <- Arities],
            ["; there is ", lists:join(", ", Functions)]
    end.

did_you_mean(Text, Names) -> dyno_similar:meant(dyno_similar:nearest(Text, Names)).

-spec place(module(), dyno_error:error()) -> {file:filename(), pos_integer()} | undefined.
place(Module, {?MODULE, {failed, _, _, {raised, _, _, Stack}}}) ->
    Places = [
        {Path, Line}
     || {M, _, _, At} <- Stack, M =:= Module, {file, Path} <- At, {line, Line} <- At
    ],
    hd(Places ++ [undefined]);
place(Module, {dyno_bench_inputs, {in_run, _, Error}}) ->
    place(Module, Error);
place(_Module, _Error) ->
    undefined.

-spec format_error(reason()) -> unicode:chardata().
format_error({undefined, Label, Sentence}) ->
    [Label, ": ", Sentence];
format_error({failed, Label, none, {died, Reason}}) ->
    io_lib:format("~ts: its process died: ~0tP", [Label, Reason, 12]);
format_error({failed, Label, Stage, {died, Reason}}) ->
    io_lib:format("~ts: its process died in ~ts: ~0tP", [Label, stage(Stage), Reason, 12]);
format_error({failed, Label, Stage, {late, Workers, All, TimeoutMs}}) ->
    dyno_recording_part:text(
        "~ts had not ended after ~ts in ~b of ~b processes; use fewer processes (--concurrency), "
        "or give them more time (--timeout)",
        [subject(Label, Stage), dyno_unit:format(TimeoutMs, ~"ms"), Workers, All]
    );
format_error({failed, Label, run, {timeout, TimeoutMs}}) ->
    io_lib:format("~ts: had not ended after ~ts", [Label, dyno_unit:format(TimeoutMs, ~"ms")]);
format_error({failed, Label, Stage, {timeout, TimeoutMs}}) ->
    io_lib:format("~ts had not ended after ~ts", [
        subject(Label, Stage), dyno_unit:format(TimeoutMs, ~"ms")
    ]);
format_error({failed, Label, Stage, {raised, error, undef, [{M, F, A, _} | Stack]}}) ->
    io_lib:format("~ts raised error:undef: there is no ~ts~ts", [
        subject(Label, Stage), dyno_agent_name:mfa({M, F, A}), frames(Stack)
    ]);
format_error({failed, Label, Stage, {raised, Class, Reason, Stack}}) ->
    io_lib:format("~ts raised ~ts:~0tP~ts", [
        subject(Label, Stage), Class, Reason, 12, frames(Stack)
    ]).

%% Down to the loop that calls the code.
frames(Stack) ->
    Users = lists:takewhile(fun({M, _, _, _}) -> not is_own(M) end, Stack),
    [["\n  in ", frame(Frame)] || Frame <- lists:sublist(Users, ?MOST_FRAMES)] ++
        ["\n  ..." || length(Users) > ?MOST_FRAMES].

is_own(dyno_sandbox) -> true;
is_own(Module) -> lists:prefix("dyno_bench_", atom_to_list(Module)).

frame({M, F, A, Where}) ->
    [called(M, F, A), [[" (", File, line(Where), ")"] || {file, File} <- Where]].

called(M, F, Arguments) when is_list(Arguments) ->
    Shown = [io_lib:format("~0tP", [Argument, 8]) || Argument <- Arguments],
    [dyno_agent_name:call(M, F), $(, lists:join(", ", Shown), $)];
called(M, F, Arity) ->
    dyno_agent_name:mfa({M, F, Arity}).

line(Where) ->
    [io_lib:format(", line ~b", [Line]) || {line, Line} <- Where].

subject(Label, none) -> Label;
subject(Label, Stage) -> [Label, ": ", stage(Stage)].

stage(run) -> "the code";
stage(Stage) -> atom_to_list(Stage).

-spec fault(reason()) -> dyno_error:fault().
fault({undefined, _, _}) -> caller;
fault({failed, _, _, _}) -> code.
