%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_code).
-moduledoc false.
%% Translates a property to its engine's code; lists patterns with the variables in scope at each.
%%
%% A regular expression becomes a formula: a step is a modal clause before its continuation,
%% alternatives are combined, and a repetition is a fixed point. `follows` requires that the trace
%% is in the language (possibilities, `or`); `never` that no part of the trace is (necessities,
%% `and`), from each event on.

-export([body/2]).
-export_type([match/0]).

-type match() :: {dyno_specification_parser:event() | anything, Scope :: [atom()], New :: [atom()]}.

-record(code, {
    nodes = #{} :: #{pos_integer() => dyno_agent_formula:node_of()},
    matches = [] :: [match()],
    %% Variables of `each`, which no event binds.
    keys :: [atom()]
}).

-spec body(dyno_specification_parser:body(), Keys :: [atom()]) ->
    {dyno_agent_property:engine(), Code :: term(), [match()]}.
body({follows, Regexp}, Keys) ->
    {Stop, Code} = node(stop, #code{keys = Keys}),
    formula_code(regexp(Regexp, [], possible, Stop, Code));
body({never, Regexp}, Keys) ->
    nullable(Regexp) andalso throw({location(Regexp), matches_nothing}),
    {Start, Code} = reserve(#code{keys = Keys}),
    {False, Code1} = node(false, Code),
    {Here, Code2} = regexp(Regexp, [], necessary, False, Code1),
    {Again, Code3} = node({again, Start, 0}, Code2),
    {Any, Code4} = match(anything, [], [], Code3),
    {Later, Code5} = node({necessary, Any, Again, infinity, ~"any", []}, Code4),
    {Both, Code6} = node({'and', Here, Later}, Code5),
    formula_code({Start, set(Start, {max, Both}, Code6)});
body({satisfies, Formula}, Keys) ->
    formula_code(formula(Formula, [], #{}, #code{keys = Keys}));
body({always, Past, Text}, Keys) ->
    {_, {Subformulas, Matches}} = past(Past, {[], []}, Keys),
    {dyno_agent_past, {Text, lists:reverse(Subformulas)}, lists:reverse(Matches)};
body({Bound, Count, Event, Within, Text}, Keys) ->
    {dyno_agent_rate, {Bound, Count, 1, Within, Text}, [{Event, [], new(Event, Keys)}]}.

formula_code({Root, #code{nodes = Nodes, matches = Matches}}) ->
    Tuple = list_to_tuple([map_get(I, Nodes) || I <- lists:seq(1, map_size(Nodes))]),
    {dyno_agent_formula, {Root, Tuple}, lists:reverse(Matches)}.

%% Regular expressions. `Next` is the continuation, in the scope of scope/3.

regexp({step, Event, Within, Text}, Scope, Modality, Next, Code) ->
    modal(Modality, {Event, Within, Text}, Scope, Next, Code);
regexp({later, Event, Within, Text}, Scope, Modality, Next, Code) ->
    {Index, Modal} = modal(Modality, {Event, Within, Text}, Scope, Next, Code),
    #code{nodes = #{Index := Node}} = Modal,
    {Index, set(Index, erlang:append_element(Node, later), Modal)};
regexp({then, A, B}, Scope, Modality, Next, Code) ->
    {Then, Code1} = regexp(B, scope(A, Scope, Code), Modality, Next, Code),
    regexp(A, Scope, Modality, Then, Code1);
regexp({'or', A, B} = Either, Scope, Modality, Next, Code) ->
    After = scope(Either, Scope, Code),
    {Left, Code1} = branch(A, Scope, After, Modality, Next, Code),
    {Right, Code2} = branch(B, Scope, After, Modality, Next, Code1),
    node(choice(Modality, Left, Right), Code2);
regexp({optional, A}, Scope, Modality, Next, Code) ->
    {Once, Code1} = branch(A, Scope, Scope, Modality, Next, Code),
    node(choice(Modality, Once, Next), Code1);
regexp({star, A}, Scope, Modality, Next, Code) ->
    regexp({optional, {plus, A}}, Scope, Modality, Next, Code);
regexp({plus, A}, Scope, Modality, Next, Code) ->
    {Loop, Code1} = reserve(Code),
    After = scope(A, Scope, Code),
    {Back, Code2} = node({again, Loop, length(After) - length(Scope)}, Code1),
    {Out, Code3} = keep(After, Scope, Next, Code2),
    {Choice, Code4} = node(choice(Modality, Out, Back), Code3),
    {Once, Code5} = regexp(A, Scope, Modality, Choice, Code4),
    {Loop, set(Loop, {fixed_point(Modality), Once}, Code5)}.

branch(A, Scope, After, Modality, Next, Code) ->
    {Then, Code1} = keep(scope(A, Scope, Code), After, Next, Code),
    regexp(A, Scope, Modality, Then, Code1).

keep(Same, Same, Next, Code) ->
    {Next, Code};
keep(Scope, After, Next, Code) ->
    Places = #{Name => Place || {Place, Name} <- lists:enumerate(Scope)},
    node({keep, [map_get(Name, Places) || Name <- After], Next}, Code).

%% After alternatives, variables bound by both are in scope; a repetition's variables are local.
scope({_Step, Event, _, _}, Scope, #code{keys = Keys}) ->
    (new(Event, Keys) -- Scope) ++ Scope;
scope({then, A, B}, Scope, Code) ->
    scope(B, scope(A, Scope, Code), Code);
scope({'or', A, B}, Scope, Code) ->
    Right = scope(B, Scope, Code),
    [Name || Name <- scope(A, Scope, Code) -- Scope, lists:member(Name, Right)] ++ Scope;
scope({_Repeated, _}, Scope, _Code) ->
    Scope.

choice(possible, A, B) -> {'or', A, B};
choice(necessary, A, B) -> {'and', A, B}.

fixed_point(possible) -> min;
fixed_point(necessary) -> max.

nullable({_Step, _, _, _}) -> false;
nullable({then, A, B}) -> nullable(A) andalso nullable(B);
nullable({'or', A, B}) -> nullable(A) orelse nullable(B);
nullable({plus, A}) -> nullable(A);
nullable({_, _}) -> true.

location({_Step, #{location := Location}, _, _}) -> Location;
location(Regexp) -> location(element(2, Regexp)).

%% Formulas

formula(Truth, _Scope, _Fixed, Code) when is_boolean(Truth) ->
    node(Truth, Code);
formula({Modality, {step, Event, Within, Text}, Next}, Scope, Fixed, Code) when
    Modality =:= necessary; Modality =:= possible
->
    After = (new(Event, Code#code.keys) -- Scope) ++ Scope,
    {Then, Code1} = formula(Next, After, Fixed, Code),
    modal(Modality, {Event, Within, bracket(Modality, Text)}, Scope, Then, Code1);
formula({Operator, A, B}, Scope, Fixed, Code) when Operator =:= 'and'; Operator =:= 'or' ->
    {Left, Code1} = formula(A, Scope, Fixed, Code),
    {Right, Code2} = formula(B, Scope, Fixed, Code1),
    node({Operator, Left, Right}, Code2);
formula({variable, Location, Name}, Scope, Fixed, Code) ->
    case Fixed of
        #{Name := {To, Depth}} -> node({again, To, length(Scope) - Depth}, Code);
        #{} -> throw({Location, {no_fixed_point, Name}})
    end;
formula({Extremum, Name, Body}, Scope, Fixed, Code) ->
    ok = guarded(Name, Body, Extremum),
    {Index, Code1} = reserve(Code),
    {Inside, Code2} = formula(Body, Scope, Fixed#{Name => {Index, length(Scope)}}, Code1),
    {Index, set(Index, {Extremum, Inside}, Code2)}.

%% A fixed point that returns to itself without an event says nothing about the trace.
guarded(Name, {variable, Location, Name}, Fixed) ->
    throw({Location, {unguarded, Fixed, Name}});
guarded(Name, {Of, A, B}, Fixed) when Of =:= 'and'; Of =:= 'or' ->
    ok = guarded(Name, A, Fixed),
    guarded(Name, B, Fixed);
guarded(Name, {Extremum, Other, Body}, Fixed) when
    (Extremum =:= max orelse Extremum =:= min), Other =/= Name
->
    guarded(Name, Body, Fixed);
guarded(_Name, _Formula, _Fixed) ->
    ok.

bracket(necessary, Text) -> <<"[", Text/binary, "]">>;
bracket(possible, Text) -> <<"<", Text/binary, ">">>.

modal(Modality, {Event, Within, Text}, Scope, Next, #code{keys = Keys} = Code) ->
    New = new(Event, Keys) -- Scope,
    {Match, Code1} = match(Event, Scope, New, Code),
    node({Modality, Match, Next, Within, Text, New ++ Scope}, Code1).

new(Event, Keys) -> dyno_specification_event:variables(Event) -- Keys.

match(Event, Scope, New, #code{matches = Matches} = Code) ->
    {length(Matches) + 1, Code#code{matches = [{Event, Scope, New} | Matches]}}.

node(Node, Code) ->
    {Index, Code1} = reserve(Code),
    {Index, set(Index, Node, Code1)}.

reserve(#code{nodes = Nodes} = Code) ->
    Index = map_size(Nodes) + 1,
    {Index, set(Index, false, Code)}.

set(Index, Node, #code{nodes = Nodes} = Code) ->
    Code#code{nodes = Nodes#{Index => Node}}.

%% Past-time logic: a variable outside of `each` has no meaning between two events.

past(Truth, Done, _Keys) when is_boolean(Truth) ->
    subformula(Truth, Done);
past({event, Event}, {Subformulas, Matches}, Keys) ->
    New = new(Event, Keys),
    Others = lists:append([Names || {_, _, Names} <- Matches]),
    case [Name || Name <- New, lists:member(Name, Others), hd(atom_to_list(Name)) =/= $_] of
        [] -> ok;
        [Twice | _] -> throw({map_get(location, Event), {not_a_key, Twice}})
    end,
    Match = {event, length(Matches) + 1},
    subformula(Match, {Subformulas, [{Event, [], New} | Matches]});
past({once, A, Within}, Done, Keys) ->
    {Place, Done1} = past(A, Done, Keys),
    subformula({once, Place, Within}, Done1);
past({Operator, A}, Done, Keys) ->
    {Place, Done1} = past(A, Done, Keys),
    subformula({Operator, Place}, Done1);
past({Operator, A, B}, Done, Keys) ->
    {Left, Done1} = past(A, Done, Keys),
    {Right, Done2} = past(B, Done1, Keys),
    subformula({Operator, Left, Right}, Done2).

subformula(Subformula, {Subformulas, Matches}) ->
    {length(Subformulas) + 1, {[Subformula | Subformulas], Matches}}.
