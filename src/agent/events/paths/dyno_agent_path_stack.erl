%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_stack).
-moduledoc false.
%% The stack of a process, from `call` with the function that it returns to, and `return_to`. Pure.
%%
%% Frames of a chain of tail calls are left together. An exception leaves all frames inside the
%% function that catches it. Untraced functions have no frames: their calls stand under the last
%% traced function.
%%
%% Direct recursion counts in one frame, and a repeating chain of tail calls goes on in its frame:
%% endless loops do not grow the stack.

-export([new/2, base/2, known/1, call/3, push/4, return/2, node/2]).
-export_type([t/0, node_id/0]).

-type node_id() :: pos_integer().

-doc """
`base`: the call came before tracing, or seems so; its return is unknown. `known`: the process
reported it. `outside` of an extent.
""".
-type returns_to() :: mfa() | undefined | base | known | outside.

-type frame() :: {
    mfa(), returns_to(), node_id(), plain | last_call, Times :: pos_integer()
}.

-type t() :: [frame()].

-spec new(mfa(), node_id()) -> t().
new(MFA, Node) -> [{MFA, outside, Node, plain, 1}].

-spec base(mfa(), node_id()) -> t().
base(MFA, Node) -> [{MFA, base, Node, plain, 1}].

-doc "A stack of the functions that the process reported, innermost first.".
-spec known([{mfa(), node_id()}]) -> t().
known(Frames) -> [{MFA, known, Node, plain, 1} || {MFA, Node} <- Frames].

-spec node(t(), Root :: node_id()) -> node_id().
node([{_, _, Node, _, _} | _], _Root) -> Node;
node([], Root) -> Root.

-doc """
A call with its return target: `{base, MFA}` if the target must first become the base, `{at, Stack}`
if the call has a frame, else the arguments of `push/4`.
""".
-spec call(mfa(), mfa() | undefined, t()) ->
    {base, mfa()}
    | {at, t()}
    | {push, returns_to(), plain | last_call, t()}.
call({erlang, Name, Arity}, _ReturnsTo, [_ | _] = Stack) when
    Name =:= error;
    Name =:= throw;
    Name =:= raise;
    Name =:= nif_error;
    Name =:= exit, Arity =:= 1
->
    %% The function does not return: its target is the next function of the file.
    {push, undefined, plain, Stack};
call(_MFA, undefined, []) ->
    {push, undefined, plain, []};
call(_MFA, ReturnsTo, []) ->
    {base, ReturnsTo};
call(MFA, MFA, [{MFA, MFA, Node, plain, Times} | Outer]) ->
    {at, [{MFA, MFA, Node, plain, Times + 1} | Outer]};
call(_MFA, ReturnsTo, [{ReturnsTo, _, _, _, _} | _] = Stack) ->
    {push, ReturnsTo, plain, Stack};
call(MFA, ReturnsTo, [{_, ReturnsTo, _, _, _} | _] = Stack) ->
    case in_chain(MFA, Stack) of
        {ok, Found} -> {at, Found};
        none -> {push, ReturnsTo, last_call, Stack}
    end;
call(_MFA, {_, _, _} = ReturnsTo, [{_, base, _, _, _}]) ->
    {base, ReturnsTo};
call(_MFA, ReturnsTo, [{_, known, _, _, _} | _] = Stack) ->
    case at(ReturnsTo, Stack) of
        [] -> {push, ReturnsTo, plain, Stack};
        Left -> {push, ReturnsTo, plain, Left}
    end;
call(_MFA, ReturnsTo, Stack) ->
    {push, ReturnsTo, plain, Stack}.

at(MFA, Stack) -> lists:dropwhile(fun({Of, _, _, _, _}) -> Of =/= MFA end, Stack).

in_chain(MFA, [{MFA, _, _, _, _} | _] = Stack) -> {ok, Stack};
in_chain(MFA, [{_, _, _, last_call, _} | Outer]) -> in_chain(MFA, Outer);
in_chain(_MFA, _Stack) -> none.

-spec push(mfa(), returns_to(), plain | last_call, {node_id(), t()}) -> t().
push(MFA, ReturnsTo, How, {Node, Stack}) -> [{MFA, ReturnsTo, Node, How, 1} | Stack].

-doc "Leaves frames, back to a function; `{base, MFA}` if that function is new.".
-spec return(mfa() | undefined, t()) -> t() | {base, mfa()}.
return(undefined, _Stack) ->
    [];
return(MFA, [{MFA, MFA, Node, plain, Times} | Outer]) when Times > 1 ->
    [{MFA, MFA, Node, plain, Times - 1} | Outer];
return(MFA, Stack) ->
    case left(MFA, Stack) of
        [{_, outside, _, _, _}] = Extent -> Extent;
        [{Of, base, _, _, _}] when Of =/= MFA -> {base, MFA};
        [] -> {base, MFA};
        Outer -> Outer
    end.

left(MFA, Stack) ->
    case lists:dropwhile(fun({_, ReturnsTo, _, _, _}) -> ReturnsTo =/= MFA end, Stack) of
        [{_, _, _, How, _} | Outer] ->
            still(MFA, chain(How, Outer));
        [] ->
            case at(MFA, Stack) of
                [] -> unknown(Stack);
                Outer -> Outer
            end
    end.

%% Frames of exceptions caught further out may remain; untraced functions have none.
still(MFA, Stack) ->
    case at(MFA, Stack) of
        [] -> Stack;
        Outer -> Outer
    end.

%% The frame of a tail call's caller is gone.
chain(last_call, [{_, _, _, How, _} | Outer]) -> chain(How, Outer);
chain(plain, Outer) -> Outer.

%% Caught without a known call.
unknown([{_, Kind, _, _, _}] = Stack) when Kind =:= base; Kind =:= outside -> Stack;
unknown([{_, known, _, _, _} | _] = Stack) -> Stack;
unknown([{_, _, _, How, _} | Outer]) -> chain(How, Outer);
unknown([]) -> [].
