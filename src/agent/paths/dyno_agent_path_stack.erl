%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_stack).
-moduledoc false.
%% The functions that a process is in, by what the runtime tells of its calls: `call` with the
%% function that it will return to, and `return_to`. Pure.
%%
%% A call that is the last thing a function does returns to that function's caller: the frames of
%% such a chain are left together. An exception leaves all frames within the function that catches
%% it. Functions that are not traced are not seen: what they call stands under the last one that
%% is.
%%
%% Frames stand for as many calls of a function by itself, and a chain of last calls that comes
%% around again goes on in the frame that it has: so endless loops stay as they are.

-export([new/2, base/2, known/1, call/3, push/4, return/2, node/2]).
-export_type([t/0, node_id/0]).

-type node_id() :: pos_integer().

-doc """
`base`: it was there before, or so it seems; how it is left is not told. `known`: it was there
before, by the process's own word. `outside` of an extent.
""".
-type returns_to() :: mfa() | undefined | base | known | outside.

-type frame() :: {
    mfa(), returns_to(), node_id(), plain | last_call, Times :: pos_integer()
}.

-doc "The innermost first.".
-type t() :: [frame()].

-doc "Of an extent, which ends by itself.".
-spec new(mfa(), node_id()) -> t().
new(MFA, Node) -> [{MFA, outside, Node, plain, 1}].

-doc "With a function that was called before it could be seen.".
-spec base(mfa(), node_id()) -> t().
base(MFA, Node) -> [{MFA, base, Node, plain, 1}].

-doc "With the functions that the process says it is in, the innermost first.".
-spec known([{mfa(), node_id()}]) -> t().
known(Frames) -> [{MFA, known, Node, plain, 1} || {MFA, Node} <- Frames].

-doc "Where the process is; at its root where it is in no function.".
-spec node(t(), Root :: node_id()) -> node_id().
node([{_, _, Node, _, _} | _], _Root) -> Node;
node([], Root) -> Root.

-doc """
A function is called, which will return to another: `{base, MFA}` where that one is to be the base
first, `{at, Stack}` where there is a frame for it, or what `push/4` takes.
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
    %% It does not return, and where it would is the next function of the file.
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

%% Where a function is, the innermost one.
at(MFA, Stack) -> lists:dropwhile(fun({Of, _, _, _, _}) -> Of =/= MFA end, Stack).

%% A frame of the chain of last calls that the innermost one is in.
in_chain(MFA, [{MFA, _, _, _, _} | _] = Stack) -> {ok, Stack};
in_chain(MFA, [{_, _, _, last_call, _} | Outer]) -> in_chain(MFA, Outer);
in_chain(_MFA, _Stack) -> none.

-doc "With one more frame.".
-spec push(mfa(), returns_to(), plain | last_call, {node_id(), t()}) -> t().
push(MFA, ReturnsTo, How, {Node, Stack}) -> [{MFA, ReturnsTo, Node, How, 1} | Stack].

-doc "Frames are left, for a function; `{base, MFA}` where that one was not seen before.".
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

%% Frames of calls whose exceptions were caught further out may still be there. What is not traced
%% has none.
still(MFA, Stack) ->
    case at(MFA, Stack) of
        [] -> Stack;
        Outer -> Outer
    end.

%% What made the last call has gone with it.
chain(last_call, [{_, _, _, How, _} | Outer]) -> chain(How, Outer);
chain(plain, Outer) -> Outer.

%% Caught where nothing was seen to be called.
unknown([{_, Kind, _, _, _}] = Stack) when Kind =:= base; Kind =:= outside -> Stack;
unknown([{_, known, _, _, _} | _] = Stack) -> Stack;
unknown([{_, _, _, How, _} | Outer]) -> chain(How, Outer);
unknown([]) -> [].
