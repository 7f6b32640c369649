%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_formula).
-moduledoc false.
%% Runs a formula of the linear-time logic with necessities, possibilities and fixed points: sHML
%% and maxHML, and the regular expressions that were translated to it.
%%
%% What is left of a formula after some events is a boolean combination of modal clauses, each with
%% the values of the variables that are in scope there. An event takes each clause a step further;
%% then the combination is simplified. Clauses that are alike are one, so what repeats does not
%% grow.
%%
%%   [Event] F    if the next event matches, F holds of what follows
%%   <Event> F    the next event matches, and F holds of what follows
%%
%% After the last event, every [Event] F holds and no <Event> F does.

-behaviour(dyno_agent_property).

-export([start/2, step/4, expire/3, deadline/2, finish/2, explain/2]).
-export_type([code/0, node_of/0]).

-type index() :: pos_integer().

-doc "A formula whose subformulas are named by their place. `Within` counts from the step before.".
-type code() :: {Root :: index(), tuple()}.

-type node_of() ::
    true
    | false
    | {'and' | 'or', index(), index()}
    | {possible | necessary, Match :: index(), index(), Within :: integer() | infinity, Text ::
        binary(), Names :: [atom()]}
    | {max | min, index()}
    %% Back to a fixed point, without the variables that were bound since.
    | {again, index(), Forget :: non_neg_integer()}
    %% The variables at these places of the environment.
    | {keep, [index()], index()}
    %% Nothing follows.
    | stop.

-spec start(code(), dyno_agent_property:time()) -> dyno_agent_property:instance().
start({Root, Nodes}, Time) ->
    enter(Root, [], Time, [], Nodes).

-spec step(code(), dyno_agent_property:match(), dyno_agent_property:time(), State) -> State when
    State :: dyno_agent_property:instance().
step({_, Nodes}, Match, Time, State) ->
    each_clause(
        fun(Clause) ->
            Index = element(1, Clause),
            Env = element(2, Clause),
            case element(Index, Nodes) of
                stop ->
                    {false, [{Index, Env}]};
                {Kind, Pattern, Next, _Within, _Text, _Names} ->
                    case Match(Pattern, Env) of
                        nomatch -> {Kind =:= necessary, [{Index, Env}]};
                        Env1 -> because(enter(Next, Env1, Time, [], Nodes), {Index, Env1})
                    end
            end
        end,
        State
    ).

because({Truth, []}, Reason) when is_boolean(Truth) -> {Truth, [Reason]};
because(State, _Reason) -> State.

-spec expire(code(), dyno_agent_property:time(), dyno_agent_property:instance()) ->
    dyno_agent_property:instance().
expire({_, Nodes}, Time, State) ->
    each_clause(
        fun
            ({Index, Env, Deadline}) when Deadline < Time ->
                {element(1, element(Index, Nodes)) =:= necessary, [{Index, Env}]};
            (Clause) ->
                Clause
        end,
        State
    ).

-spec finish(code(), dyno_agent_property:instance()) -> {boolean(), dyno_agent_property:reasons()}.
finish({_, Nodes}, State) ->
    each_clause(
        fun(Clause) ->
            Index = element(1, Clause),
            Node = element(Index, Nodes),
            IsPossible = is_tuple(Node) andalso element(1, Node) =:= possible,
            {not IsPossible, [{Index, element(2, Clause)}]}
        end,
        State
    ).

-spec deadline(code(), dyno_agent_property:instance()) -> dyno_agent_property:time() | infinity.
deadline(_Code, {_Index, _Env, Deadline}) -> Deadline;
deadline(Code, {Of, Parts}) when is_atom(Of) -> lists:min([deadline(Code, Part) || Part <- Parts]);
deadline(_Code, {_Index, _Env}) -> infinity.

-spec explain(code(), dyno_agent_property:reasons()) -> {binary(), #{atom() => term()}}.
explain({_, Nodes}, Reasons) ->
    Explained = [explained(element(Index, Nodes), Env) || {Index, Env} <- Reasons],
    {
        iolist_to_binary(lists:join(" or ", lists:uniq([Text || {Text, _} <- Explained]))),
        maps:from_list(lists:append([Bindings || {_, Bindings} <- Explained]))
    }.

%% The clause may have bound its own variables or not; those from before come last.
explained({_, _, _, _, Text, Names}, Env) ->
    {Text, lists:zip(lists:nthtail(length(Names) - length(Env), Names), Env)};
explained(stop, _Env) ->
    {~"nothing more", []}.

%% The clauses that a formula begins with. `Seen` are the fixed points since the last event: one
%% that comes back to itself without an event between is its neutral value.
enter(Index, Env, Time, Seen, Nodes) ->
    case element(Index, Nodes) of
        Truth when is_boolean(Truth) ->
            {Truth, []};
        stop ->
            {Index, Env};
        {Of, A, B} when Of =:= 'and'; Of =:= 'or' ->
            joined(Of, enter(A, Env, Time, Seen, Nodes), enter(B, Env, Time, Seen, Nodes));
        {_Kind, Body} ->
            enter(Body, Env, Time, [Index | Seen], Nodes);
        {again, To, Forget} ->
            case lists:member(To, Seen) of
                true -> {element(1, element(To, Nodes)) =:= max, []};
                false -> enter(To, lists:nthtail(Forget, Env), Time, Seen, Nodes)
            end;
        {keep, Places, Next} ->
            enter(Next, [lists:nth(Place, Env) || Place <- Places], Time, Seen, Nodes);
        {_Kind, _Match, _Next, infinity, _Text, _Names} ->
            {Index, Env};
        {_Kind, _Match, _Next, Within, _Text, _Names} ->
            {Index, Env, Time + Within}
    end.

each_clause(Fun, {Of, Parts}) when is_atom(Of) -> each_of(Fun, Of, Parts, {Of =:= 'and', []});
each_clause(Fun, Clause) -> Fun(Clause).

%% Of a conjunction true is the neutral value, of a disjunction false.
each_of(_Fun, Of, _Parts, {Truth, _} = Decided) when is_boolean(Truth), Truth =/= (Of =:= 'and') ->
    Decided;
each_of(_Fun, _Of, [], State) ->
    State;
each_of(Fun, Of, [Part | Parts], State) ->
    each_of(Fun, Of, Parts, joined(Of, State, each_clause(Fun, Part))).

joined(Of, A, B) ->
    Neutral = Of =:= 'and',
    case {A, B} of
        {{Neutral, Why}, {Neutral, More}} -> {Neutral, Why ++ More};
        {{Neutral, _}, _} -> B;
        {_, {Neutral, _}} -> A;
        {{Truth, _}, _} when is_boolean(Truth) -> A;
        {_, {Truth, _}} when is_boolean(Truth) -> B;
        {Same, Same} -> Same;
        _ -> {Of, ordsets:union(parts(Of, A), parts(Of, B))}
    end.

parts(Of, {Of, Parts}) -> Parts;
parts(_Of, State) -> [State].
