%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_tree).
-moduledoc false.
%% The tree of call paths, with counters at each node.
%%
%% Recursion, also by a circle of functions, stays in its nodes: a path never has a call twice.
%% Calls beyond the limit count at their caller. Counters are updated in place, by one process.

-export([new/1, child/3, root/2, add/3, calls/2, nodes/2, functions/2, full/1]).
-export([paths/1]).
-export_type([t/0, counter/0, costs/0, node_/0, path/0, sums/0]).

-type id() :: dyno_agent_path_stack:node_id().

-doc """
`own` and `off`: native time on and off a scheduler. `near` and `far`: the number of intervals, by
their cost of tracing (`t:costs/0`).
""".
-type counter() :: calls | own | off | {near | far, Pair :: 0..3}.

-doc "Native costs between near events: call-call, call-return, return-call, return-return; far.".
-type costs() :: {number(), number(), number(), number(), number(), number(), number(), number()}.

-type sums() :: #{
    calls := non_neg_integer(),
    own := non_neg_integer(),
    %% Part of the own time.
    taken := non_neg_integer(),
    off := non_neg_integer()
}.

-type node_() :: {id(), Parent :: id() | 0, Name :: term(), sums()}.

-type path() :: {Group :: term(), [mfa()], sums()}.

-opaque t() :: #{
    ids := #{{id() | 0, term()} => id()},
    %% The name of each node, and its parent.
    names := #{id() => {id() | 0, term()}},
    counters := counters:counters_ref(),
    most := pos_integer(),
    full := non_neg_integer()
}.

%% Calls, own, off, and each pair near and far.
-define(COUNTERS, 11).
-define(PAIRS, 4).

-spec new(pos_integer()) -> t().
new(Most) ->
    #{
        ids => #{},
        names => #{},
        %% One more, for calls without a root.
        counters => counters:new((Most + 1) * ?COUNTERS, []),
        most => Most,
        full => 0
    }.

-spec root(term(), t()) -> {id(), t()}.
root(Group, Tree) -> child(0, {group, Group}, Tree).

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

-spec add(id(), {counter(), integer()}, t()) -> ok.
add(Id, {Counter, Value}, #{counters := Counters}) ->
    counters:add(Counters, (Id - 1) * ?COUNTERS + place(Counter), Value).

place(calls) -> 1;
place(own) -> 2;
place(off) -> 3;
place({near, Pair}) -> 4 + Pair;
place({far, Pair}) -> 4 + ?PAIRS + Pair.

-spec calls(id(), t()) -> ok.
calls(Id, Tree) -> add(Id, {calls, 1}, Tree).

sums(Id, Costs, Counters) ->
    At = fun(Place) -> counters:get(Counters, (Id - 1) * ?COUNTERS + Place) end,
    Taken = [At(3 + N) * element(N, Costs) || N <- lists:seq(1, tuple_size(Costs))],
    #{calls => At(1), own => At(2), taken => round(lists:sum(Taken)), off => At(3)}.

-spec nodes(costs(), t()) -> [node_()].
nodes(Costs, #{names := Names, counters := Counters}) ->
    [{Id, Parent, Name, ns(sums(Id, Costs, Counters))} || Id := {Parent, Name} <- Names].

ns(#{own := Own, taken := Taken, off := Off} = Sums) ->
    Sums#{own := ns_of(Own), taken := ns_of(Taken), off := ns_of(Off)}.

ns_of(Native) -> erlang:convert_time_unit(Native, native, nanosecond).

-doc "The paths of nodes: the group, then functions from the outermost on.".
-spec paths([node_()]) -> [path()].
paths(Nodes) ->
    Names = #{Id => {Parent, Name} || {Id, Parent, Name, _} <- Nodes},
    [path(Id, Names, [], Sums) || {Id, _, _, Sums} <- Nodes].

path(Id, Names, Path, Sums) ->
    case map_get(Id, Names) of
        {0, {group, Group}} -> {Group, Path, Sums};
        {Parent, MFA} -> path(Parent, Names, [MFA | Path], Sums)
    end.

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

-spec full(t()) -> non_neg_integer().
full(#{full := Full}) -> Full.
