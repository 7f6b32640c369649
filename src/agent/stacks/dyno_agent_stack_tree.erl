%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_tree).
-moduledoc false.
%% Weighted paths with shared beginnings: samples of call stacks. Pure. The number of nodes is
%% bounded; the weight of further paths is in `other/1`. Weights of a tree are numbers, or lists of
%% the same length.

-export([new/1, add/3, paths/1, other/1, plus/2]).
-export_type([t/0, frame/0, weight/0]).

-type frame() :: term().
-type weight() :: number() | [number()].
-type id() :: non_neg_integer().

-opaque t() :: #{
    ids := #{{Parent :: id(), frame()} => id()},
    weights := #{id() => weight()},
    most := pos_integer(),
    other := weight()
}.

-define(ROOT, 0).

-spec new(pos_integer()) -> t().
new(Most) ->
    #{ids => #{}, weights => #{}, most => Most, other => 0}.

-spec add([frame(), ...], weight(), t()) -> t().
add(Path, Weight, #{ids := Ids, most := Most} = Tree) ->
    case find(Path, ?ROOT, Ids, Most) of
        {ok, Id, Next} ->
            #{weights := Weights} = Tree,
            Tree#{ids := Next, weights := Weights#{Id => plus(maps:get(Id, Weights, 0), Weight)}};
        full ->
            Tree#{other := plus(map_get(other, Tree), Weight)}
    end.

-doc "The sum of two weights; 0 is none of either form.".
-spec plus(weight(), weight()) -> weight().
plus(0, Weight) -> Weight;
plus(A, B) when is_list(A) -> lists:zipwith(fun erlang:'+'/2, A, B);
plus(A, B) -> A + B.

find([], Id, Ids, _Most) ->
    {ok, Id, Ids};
find([Frame | Inner], Parent, Ids, Most) ->
    Key = {Parent, Frame},
    case Ids of
        #{Key := Id} ->
            find(Inner, Id, Ids, Most);
        #{} when map_size(Ids) < Most ->
            New = map_size(Ids) + 1,
            find(Inner, New, Ids#{Key => New}, Most);
        #{} ->
            full
    end.

-spec paths(t()) -> [{[frame(), ...], weight()}].
paths(#{ids := Ids, weights := Weights}) ->
    Nodes = #{Id => Key || Key := Id <- Ids},
    [{path(Id, Nodes, []), Weight} || Id := Weight <- Weights].

path(?ROOT, _Nodes, Path) ->
    Path;
path(Id, Nodes, Path) ->
    #{Id := {Parent, Frame}} = Nodes,
    path(Parent, Nodes, [Frame | Path]).

-spec other(t()) -> weight().
other(#{other := Other}) -> Other.
