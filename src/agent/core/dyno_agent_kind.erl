%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_kind).
-moduledoc false.
%% The kind of a process: groups thousands of like processes. Pure.

-export([of_process/2, by_stack/2, named/1, is_own/1, print/1]).
-export_type([kind/0]).

-type kind() ::
    {registered, atom()}
    | {label, term()}
    | {initial_call, mfa()}
    | {first_call, mfa()}.

-doc "The kind by items of `process_info/2`; `MFA`: the function at which it was discovered.".
-spec of_process([{term(), term()}], mfa()) -> kind().
of_process(Info, MFA) ->
    case {named(Info), proplists:get_value({dictionary, '$initial_call'}, Info)} of
        {{ok, Kind}, _} -> Kind;
        {none, {_, _, _} = ProcLib} -> {initial_call, ProcLib};
        {none, _} -> initial(proplists:get_value(initial_call, Info), MFA)
    end.

-doc "The kind, or `own`, of a process with a stack: a fun counts by the outermost function.".
-spec by_stack([{term(), term()}], [tuple()] | undefined) -> kind() | own.
by_stack(Info, Frames) ->
    First =
        case Frames of
            [_ | _] -> erlang:delete_element(4, lists:last(Frames));
            _ -> {erlang, apply, 2}
        end,
    Kind = of_process(Info, First),
    case is_own(Kind) of
        true -> own;
        false -> Kind
    end.

%% Common to all spawned funs.
initial({erlang, apply, 2}, MFA) -> {first_call, MFA};
initial(InitialCall, _MFA) -> {initial_call, InitialCall}.

-spec named([{term(), term()}]) -> {ok, kind()} | none.
named(Info) ->
    case {proplists:get_value(registered_name, Info), proplists:get_value(label, Info)} of
        {Name, _} when is_atom(Name), Name =/= [], Name =/= undefined -> {ok, {registered, Name}};
        {_, undefined} -> none;
        {_, Label} -> {ok, {label, shape(Label)}}
    end.

-doc "Whether it is dyno's own, by the label of all long-lived agent processes, or the name.".
-spec is_own(kind()) -> boolean().
is_own({Kind, Name}) when (Kind =:= label orelse Kind =:= registered), is_atom(Name) ->
    lists:prefix("dyno_agent", atom_to_list(Name));
is_own({_InitialOrFirstCall, {M, _, _}}) ->
    lists:prefix("dyno_agent", atom_to_list(M));
is_own(_Kind) ->
    false.

-doc "The name, and the property that groups the processes.".
-spec print(kind() | other) -> {Name :: binary(), GroupedBy :: binary()}.
print({registered, Name}) ->
    {dyno_agent_name:module(Name), ~"registered"};
print({label, Label}) when is_binary(Label) -> {Label, ~"label"};
print({label, Label}) when is_atom(Label) -> {dyno_agent_name:module(Label), ~"label"};
print({label, Label}) ->
    <<Text/binary>> = unicode:characters_to_binary(io_lib:format("~0tp", [Label])),
    {binary:replace(Text, ~"'_'", ~"_", [global]), ~"label"};
print({initial_call, MFA}) ->
    {dyno_agent_name:mfa(MFA), ~"initial_call"};
print({first_call, MFA}) ->
    {dyno_agent_name:mfa(MFA), ~"first_call"};
print(other) ->
    {~"(others)", ~"other"}.

%% {connection, 17} and {connection, 18} have one kind.
shape(Label) when is_atom(Label) -> Label;
shape(Label) when is_tuple(Label) -> list_to_tuple([shape(Part) || Part <- tuple_to_list(Label)]);
shape(Label) when is_list(Label); is_binary(Label) ->
    try
        re:replace(Label, "[0-9]+", "_", [global, unicode, {return, binary}])
    catch
        error:badarg -> '_'
    end;
shape(_Label) ->
    '_'.
