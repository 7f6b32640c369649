%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_formula).
-moduledoc false.
%% Runs a formula of linear-time logic with necessities, possibilities and fixed points: sHML,
%% maxHML, and translated regular expressions.
%%
%% The state is a boolean combination of modal clauses, each with its variables. An event advances
%% each clause; then the combination is simplified. Equal clauses are merged, so that repetition
%% does not grow the state.
%%
%%   [Event] F    if the next event matches, F holds of the rest
%%   <Event> F    the next event matches, and F holds of the rest
%%
%% After the last event, every [Event] F holds and no <Event> F does.

-behaviour(dyno_agent_property).

-export([start/2, unknown/3, doubts/3, reachable/2]).
-export([step/4, expire/3, deadline/2, finish/2, explain/2]).
-export_type([code/0, node_of/0]).

-type index() :: pos_integer().

-doc "A formula; places name subformulas. `Within` counts from the previous step.".
-type code() :: {Root :: index(), tuple()}.

-type node_of() ::
    true
    | false
    | {'and' | 'or', index(), index()}
    | {
        possible | necessary,
        Match :: index(),
        index(),
        Within :: integer() | infinity,
        Text :: binary(),
        Names :: [atom()]
    }
    %% The same at any later event, with the deadline of the first.
    | {
        possible | necessary,
        Match :: index(),
        index(),
        Within :: integer() | infinity,
        Text :: binary(),
        Names :: [atom()],
        later
    }
    | {max | min, index()}
    %% Back to a fixed point, without the variables bound since.
    | {again, index(), Forget :: non_neg_integer()}
    | {keep, [index()], index()}
    | stop.

%% The most patterns that one event may match together, and the most states.
-define(MOST_TOGETHER, 7).
-define(MOST_REACHED, 100).

-spec start(code(), dyno_agent_property:time()) -> dyno_agent_property:instance().
start({Root, Nodes}, Time) ->
    enter(Root, [], Time, [], Nodes).

-doc """
All states reachable from the start. Any subset of a group of patterns may match one event, for
`some` also none. Variables are unknown, and time stands still. With too many states, or none
observable, `true` is one of them: the formula is then never broken.
""".
-spec reachable(code(), [{some | one, [Match :: pos_integer()], Always :: [pos_integer()]}]) ->
    [dyno_agent_property:instance(), ...].
reachable({_, _} = Code, Groups) ->
    Sets = lists:usort([
        {Set, Always}
     || {Least, Group, Always} <- Groups,
        Set <- subsets(lists:sublist(Group, ?MOST_TOGETHER)),
        Set =/= [] orelse Least =:= some
    ]),
    IsWide = lists:any(fun({_, Group, _}) -> length(Group) > ?MOST_TOGETHER end, Groups),
    Start = start(Code, 0),
    case IsWide orelse explore(Code, Sets, [Start], [Start]) of
        Reached when is_list(Reached) -> Reached;
        true -> [Start, {true, []}]
    end.

subsets([]) ->
    [[]];
subsets([Head | Tail]) ->
    Of = subsets(Tail),
    Of ++ [[Head | Set] || Set <- Of].

explore(_Code, _Sets, [], Reached) ->
    Reached;
explore(_Code, _Sets, _New, Reached) when length(Reached) > ?MOST_REACHED ->
    true;
explore({_, Nodes} = Code, Sets, [{Truth, _} | Rest], Reached) when is_boolean(Truth) ->
    true = tuple_size(Nodes) > 0,
    explore(Code, Sets, Rest, Reached);
explore(Code, Sets, [State | Rest], Reached) ->
    Next = lists:usort([
        plain(
            stepped(
                Code,
                fun(Pattern, Env, New) ->
                    case lists:member(Pattern, Set ++ Always) of
                        true -> lists:duplicate(New, '$unknown') ++ Env;
                        false -> nomatch
                    end
                end,
                0,
                State
            )
        )
     || {Set, Always} <- Sets
    ]),
    New = [Of || Of <- Next, not is_broken(Of), not lists:member(Of, Reached)],
    explore(Code, Sets, Rest ++ New, Reached ++ New).

plain({true, _}) -> {true, []};
plain(State) -> State.

is_broken({false, _}) -> true;
is_broken(_State) -> false.

%% A deadline may have begun just now; that of a necessity may be over.
-spec unknown(code(), [dyno_agent_property:instance()], dyno_agent_property:time()) ->
    [dyno_agent_property:instance(), ...].
unknown({_, Nodes}, Reachable, Time) ->
    Begun = fun({Index, Env, Within}, _) -> {Index, Env, Time + Within} end,
    Over = fun
        (_Clause, necessary) -> {true, []};
        (Clause, possible) -> Begun(Clause, possible)
    end,
    [
        each_clause(
            fun
                ({Index, _, _} = Clause) -> How(Clause, element(1, element(Index, Nodes)));
                (Clause) -> Clause
            end,
            State
        )
     || State <- Reachable,
        How <- [Over, Begun]
    ].

%% `never A then B`: A may have come before. `follows A then B`: the first event was not A.
-spec doubts(code(), dyno_agent_property:key(), dyno_agent_property:instance()) -> boolean().
doubts({_, Nodes} = Code, Key, World) ->
    lists:keymember(necessary, 1, [Node || Node <- tuple_to_list(Nodes), is_tuple(Node)]) orelse
        (Key =:= [] andalso timeless(World) =:= timeless(start(Code, 0))).

timeless(State) ->
    each_clause(
        fun
            ({Index, Env, _Deadline}) -> {Index, Env};
            (Clause) -> Clause
        end,
        State
    ).

-spec step(code(), dyno_agent_property:match(), dyno_agent_property:time(), State) -> State when
    State :: dyno_agent_property:instance().
step(Code, Match, Time, State) ->
    stepped(Code, fun(Pattern, Env, New) -> match(Match, Pattern, Env, New) end, Time, State).

%% With an unknown value the event may match.
match(Match, Pattern, Env, New) ->
    case Match(Pattern, Env) of
        nomatch ->
            case lists:member('$unknown', Env) andalso Match(-Pattern, Env) =/= nomatch of
                true -> {maybe_so, lists:duplicate(New, '$unknown') ++ Env};
                false -> nomatch
            end;
        Env1 ->
            Env1
    end.

stepped({_, Nodes}, Match, Time, State) ->
    each_clause(
        fun
            ({true, []}) ->
                {true, []};
            (Clause) ->
                Index = element(1, Clause),
                Env = element(2, Clause),
                case element(Index, Nodes) of
                    stop ->
                        {false, [{Index, Env}]};
                    {Kind, Pattern, Next, _Within, _Text, Names} ->
                        case Match(Pattern, Env, length(Names) - length(Env)) of
                            nomatch ->
                                {Kind =:= necessary, [{Index, Env}]};
                            {maybe_so, _} when Kind =:= necessary ->
                                {true, [{Index, Env}]};
                            {maybe_so, Env1} ->
                                because(enter(Next, Env1, Time, [], Nodes), {Index, Env1});
                            Env1 ->
                                because(enter(Next, Env1, Time, [], Nodes), {Index, Env1})
                        end;
                    {Kind, Pattern, Next, _Within, _Text, Names, later} ->
                        case Match(Pattern, Env, length(Names) - length(Env)) of
                            nomatch ->
                                Clause;
                            Matched ->
                                Env1 = bound(Matched),
                                Now = because(enter(Next, Env1, Time, [], Nodes), {Index, Env1}),
                                joined(choice(Kind), Now, Clause)
                        end
                end
        end,
        State
    ).

bound({maybe_so, Env}) -> Env;
bound(Env) -> Env.

choice(possible) -> 'or';
choice(necessary) -> 'and'.

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

%% The clause may have bound variables of its own; earlier ones come last.
explained({_, _, _, _, Text, Names}, Env) ->
    {Text, lists:zip(lists:nthtail(length(Names) - length(Env), Names), Env)};
explained({Kind, Match, Next, Within, Text, Names, later}, Env) ->
    explained({Kind, Match, Next, Within, Text, Names}, Env);
explained(stop, _Env) ->
    {~"nothing more", []}.

%% A formula's first clauses. `Seen`: fixed points since the last event; one that recurs is neutral.
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
        Modal ->
            case element(4, Modal) of
                infinity -> {Index, Env};
                Within -> {Index, Env, Time + Within}
            end
    end.

each_clause(Fun, {Of, Parts}) when is_atom(Of) -> each_of(Fun, Of, Parts, {Of =:= 'and', []});
each_clause(Fun, Clause) -> Fun(Clause).

%% The neutral value is true for a conjunction, false for a disjunction.
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
