%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_tree).
-moduledoc false.
%% The paths by which functions were called, as a tree, with counters at each node.
%%
%% A function that calls itself stays in its node, and so does a circle of functions from its
%% second round on: a path never has the same call twice. What finds no place is counted where it
%% is called. The counters are changed in place, which makes a tree a thing of one process.

-export([new/1, child/3, root/2, add/3, calls/2, nodes/2, functions/2, full/1]).
-export([paths/1]).
-export_type([t/0, counter/0, costs/0, node_/0, path/0, sums/0]).

-type id() :: dyno_agent_path_stack:node_id().

-doc """
`own` and `off`: native time on a scheduler in it, and off it. `near` and `far`: how many times were
added up, by what tracing takes of them (`t:costs/0`).
""".
-type counter() :: calls | own | off | {near | far, Pair :: 0..3}.

-doc """
Natively, what tracing takes of the time between two events: a call and a call, a call and a
return, a return and a call, two returns; and the same for events that are far from one another.
""".
-type costs() :: {number(), number(), number(), number(), number(), number(), number(), number()}.

-type sums() :: #{
    calls := non_neg_integer(),
    own := non_neg_integer(),
    %% Of the own time.
    taken := non_neg_integer(),
    off := non_neg_integer()
}.

-type node_() :: {id(), Parent :: id() | 0, Name :: term(), sums()}.

-type path() :: {Group :: term(), [mfa()], sums()}.

-opaque t() :: #{
    ids := #{{id() | 0, term()} => id()},
    %% What it is, below what.
    names := #{id() => {id() | 0, term()}},
    counters := counters:counters_ref(),
    most := pos_integer(),
    full := non_neg_integer()
}.

%% Calls, own, off, and each pair near and far.
-define(COUNTERS, 11).
-define(PAIRS, 4).

-doc "An empty tree, which will have so many nodes at most.".
-spec new(pos_integer()) -> t().
new(Most) ->
    #{
        ids => #{},
        names => #{},
        %% One more, for what there is no root for.
        counters => counters:new((Most + 1) * ?COUNTERS, []),
        most => Most,
        full => 0
    }.

-doc "The root of a group of processes.".
-spec root(term(), t()) -> {id(), t()}.
root(Group, Tree) -> child(0, {group, Group}, Tree).

-doc "The node of a function that is called at another.".
-spec child(id() | 0, term(), t()) -> {id(), t()}.
child(Parent, Name, #{ids := Ids} = Tree) ->
    case Ids of
        #{{Parent, Name} := Id} -> {Id, Tree};
        #{} -> added(Parent, Name, Tree)
    end.

added(Parent, Name, #{ids := Ids, names := Names, most := Most, full := Full} = Tree) ->
    case known(Parent, Name, Names) of
        {ok, Id} ->
            {Id, Tree#{ids := Ids#{{Parent, Name} => Id}}};
        none when map_size(Names) < Most ->
            Id = map_size(Names) + 1,
            {Id, Tree#{
                ids := Ids#{{Parent, Name} => Id}, names := Names#{Id => {Parent, Name}}
            }};
        none when Parent =:= 0 ->
            {Most + 1, Tree#{full := Full + 1}};
        none ->
            {Parent, Tree#{full := Full + 1}}
    end.

%% Where the same call is on the path already.
known(Parent, Name, Names) ->
    case Names of
        #{Parent := {_, Name}} -> {ok, Parent};
        #{Parent := {Above, Caller}} -> known(Above, {Parent, Names}, Caller, Name);
        #{} -> none
    end.

known(0, _Below, _Caller, _Name) ->
    none;
known(Id, {Below, Names}, Caller, Name) ->
    case Names of
        #{Id := {_, Caller}, Below := {_, Name}} -> {ok, Below};
        #{Id := {Above, _}} -> known(Above, {Id, Names}, Caller, Name)
    end.

-doc "Adds to a counter.".
-spec add(id(), {counter(), integer()}, t()) -> ok.
add(Id, {Counter, Value}, #{counters := Counters}) ->
    counters:add(Counters, (Id - 1) * ?COUNTERS + place(Counter), Value).

place(calls) -> 1;
place(own) -> 2;
place(off) -> 3;
place({near, Pair}) -> 4 + Pair;
place({far, Pair}) -> 4 + ?PAIRS + Pair.

-doc "One more call.".
-spec calls(id(), t()) -> ok.
calls(Id, Tree) -> add(Id, {calls, 1}, Tree).

sums(Id, Costs, Counters) ->
    At = fun(Place) -> counters:get(Counters, (Id - 1) * ?COUNTERS + Place) end,
    Taken = [At(3 + N) * element(N, Costs) || N <- lists:seq(1, tuple_size(Costs))],
    #{calls => At(1), own => At(2), taken => round(lists:sum(Taken)), off => At(3)}.

-doc "All nodes, with what was counted there, in nanoseconds.".
-spec nodes(costs(), t()) -> [node_()].
nodes(Costs, #{names := Names, counters := Counters}) ->
    [{Id, Parent, Name, ns(sums(Id, Costs, Counters))} || Id := {Parent, Name} <- Names].

ns(#{own := Own, taken := Taken, off := Off} = Sums) ->
    Sums#{own := ns_of(Own), taken := ns_of(Taken), off := ns_of(Off)}.

ns_of(Native) -> erlang:convert_time_unit(Native, native, nanosecond).

-doc "The paths of nodes: the group, and the functions from the outermost on.".
-spec paths([node_()]) -> [path()].
paths(Nodes) ->
    Names = #{Id => {Parent, Name} || {Id, Parent, Name, _} <- Nodes},
    [path(Id, Names, [], Sums) || {Id, _, _, Sums} <- Nodes].

path(Id, Names, Path, Sums) ->
    case map_get(Id, Names) of
        {0, {group, Group}} -> {Group, Path, Sums};
        {Parent, MFA} -> path(Parent, Names, [MFA | Path], Sums)
    end.

-doc "The functions, each with what was counted at all of its nodes, and its calls by caller.".
-spec functions(costs(), t()) -> #{mfa() => {sums(), #{term() => non_neg_integer()}}}.
functions(Costs, #{names := Names, counters := Counters}) ->
    maps:fold(
        fun
            (_Id, {0, _}, Functions) ->
                Functions;
            (Id, {Parent, MFA}, Functions) ->
                {_, Caller} = map_get(Parent, Names),
                #{calls := Calls} = Of = sums(Id, Costs, Counters),
                {Sums, By} = maps:get(MFA, Functions, {none, #{}}),
                Functions#{
                    MFA => {plus(Sums, Of), By#{Caller => Calls + maps:get(Caller, By, 0)}}
                }
        end,
        #{},
        Names
    ).

plus(none, Sums) -> Sums;
plus(A, B) -> maps:merge_with(fun(_, X, Y) -> X + Y end, A, B).

-doc "How many calls found no place of their own.".
-spec full(t()) -> non_neg_integer().
full(#{full := Full}) -> Full.
