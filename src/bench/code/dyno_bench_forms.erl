%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_forms).
-moduledoc false.
%% The abstract code of the module that repeats a code: see dyno_bench_code for what it does.
%%
%%   loop(0, _, _, Last) -> Last;
%%   loop(N, C, S, _) -> loop(N - 1, C, S, begin Code end).
%%
%% The last result is an argument that is returned in the end: no iteration's result may be left
%% out. Arguments of calls come from variables, so that the compiler can't fold them.
%%
%% The same loop is there several times, with gaps of different sizes between the copies, because
%% where its code lies makes a loop up to some tens of per cent faster or slower: an empty one
%% that begins 56 bytes before the end of a page is 17 % faster than its copies (AMD EPYC).

%% Variables have names that no source text can have.

-export([gaps/1, module/3, source/2, constants/1, is_constant/2, joined/3, variables/2]).

-define(A, erl_anno:new(0)).

-type parts() :: #{runner := term(), init => term(), init_runner => term(), done => term()}.

%% Calls that stand in the loop one by one.
-define(MOST_INLINE, 20).

%% Places of the loop, and the words that all of them may take as source: long code takes the
%% compiler long, and where it lies matters less.
-define(MOST_PLACES, 8).
-define(MOST_WORDS, 20_000).
%% Calls that fill the gap before a place: fewer than this, which is a prime number.
-define(FILLINGS, 13).

-doc """
The gaps before the places that a code's loop is to have, at least one; each is another. They are
the same for all codes, so that identical codes lie alike: drawn for each by itself, one of two
would have more of the slow places, and half of them or more decides a median.
""".
-spec gaps(parts()) -> [non_neg_integer(), ...].
gaps(#{runner := Runner}) ->
    Places = max(1, min(?MOST_PLACES, ?MOST_WORDS div (erts_debug:flat_size(Runner) + 1))),
    [5 * Place rem ?FILLINGS || Place <- lists:seq(1, Places)].

-doc "The module, with the loop behind each of these gaps.".
-spec module(module(), parts(), Gaps :: [non_neg_integer(), ...]) -> [erl_parse:abstract_form()].
module(Module, #{runner := Runner} = Parts, Gaps) ->
    Exported = [{init, 1}, {init_runner, 2}, {loop, 3}, {loop, 4}, {resume, 5}, {done, 2}],
    Fillings = [{gap_name(Place), 0} || {Place, [_ | _]} <- lists:enumerate(fillings(Gaps))],
    [
        {attribute, ?A, module, Module},
        {attribute, ?A, export, Exported ++ Fillings},
        file("init"),
        once(init, ['dyno Constants'], [], maps:get(init, Parts, none)),
        file("init_runner"),
        once(
            init_runner,
            ['dyno Constants', 'dyno Init'],
            [var('dyno Init')],
            maps:get(init_runner, Parts, none)
        ),
        file("done"),
        once(
            done, ['dyno Constants', 'dyno Init'], [var('dyno Init')], maps:get(done, Parts, none)
        ),
        file("runner")
        | loop(Runner, Gaps)
    ].

%% So that the compiler's errors say which part they are in.
file(Name) ->
    {attribute, ?A, file, {Name, 1}}.

-doc "The module as text, with names that text can have.".
-spec source(module(), parts()) -> unicode:chardata().
source(Module, Parts) ->
    [
        erl_pp:form(readable(Form), [{encoding, unicode}])
     || Form <- module(Module, Parts, [0]), not is_file(Form)
    ].

is_file({attribute, _, file, _}) -> true;
is_file(_Form) -> false.

readable({var, Anno, Name}) ->
    case atom_to_list(Name) of
        "dyno " ++ Rest ->
            Readable = ["Dyno_" | string:replace(Rest, " ", "_", all)],
            {var, Anno, list_to_atom(lists:flatten(Readable))};
        _ -> {var, Anno, Name}
    end;
readable({named_fun, Anno, Name, Clauses}) ->
    {var, _, Readable} = readable({var, Anno, Name}),
    {named_fun, Anno, Readable, readable(Clauses)};
readable(Form) when is_tuple(Form) -> list_to_tuple(readable(tuple_to_list(Form)));
readable([Head | Tail]) -> [readable(Head) | readable(Tail)];
readable(Other) -> Other.

var(Name) -> {var, ?A, Name}.

-doc "Several clauses as one with a case, so that the code stays inline.".
-spec joined(erl_anno:anno(), arity(), [erl_parse:abstract_clause()]) ->
    erl_parse:abstract_clause().
joined(Anno, Arity, Clauses) ->
    Variables = variables(Anno, Arity),
    Cases = [
        {clause, A, [{tuple, A, Patterns}], Guards, Body}
     || {clause, A, Patterns, Guards, Body} <- Clauses
    ],
    {clause, Anno, Variables, [], [{'case', Anno, {tuple, Anno, Variables}, Cases}]}.

-doc "Variables for so many arguments.".
-spec variables(erl_anno:anno(), arity()) -> [erl_parse:abstract_expr()].
variables(Anno, Arity) ->
    [{var, Anno, list_to_atom("dyno " ++ integer_to_list(N))} || N <- lists:seq(1, Arity)].

%% A function that evaluates a part.
once(Name, Parameters, Arguments, Part) ->
    Body =
        case {Part, Arguments} of
            {none, []} -> [{atom, ?A, undefined}];
            {none, [Argument]} -> [Argument];
            {_, _} -> [evaluated(Name, Part, Arguments)]
        end,
    {function, ?A, Name, length(Parameters), [
        {clause, ?A, [var(P) || P <- Parameters], [], Body}
    ]}.

evaluated(_Name, {forms, 0, {clause, _, [], _, Body}}, _Arguments) ->
    {block, ?A, Body};
evaluated(_Name, {forms, _, Clause}, Arguments) ->
    {call, ?A, {'fun', ?A, {clauses, [Clause]}}, Arguments};
evaluated(Name, {function, Arity, _}, Arguments) ->
    {call, ?A, constant(Name), lists:sublist(Arguments, Arity)};
evaluated(Name, {calls, Calls}, _Arguments) ->
    %% Its arguments are one list among the constants.
    {block, ?A, [
        {call, ?A, {remote, ?A, {atom, ?A, erlang}, {atom, ?A, apply}}, [
            {atom, ?A, M}, {atom, ?A, F}, element_of(constant(Name), N)
        ]}
     || {N, {M, F, _}} <- lists:enumerate(Calls)
    ]}.

%% maps:get(Name, Constants)
constant(Name) ->
    {call, ?A, {atom, ?A, map_get}, [{atom, ?A, Name}, var('dyno Constants')]}.

element_of(Tuple, N) ->
    {call, ?A, {atom, ?A, element}, [{integer, ?A, N}, Tuple]}.

loop({forms, 0, {clause, _, [], _, Body}}, Gaps) ->
    loop_of([], [], {block, ?A, Body}, Gaps);
loop({forms, 1, Clause}, Gaps) ->
    inlined(1, Clause, fun(Call) ->
        loop_of(['dyno Start'], [], Call([var('dyno Start')]), Gaps)
    end);
loop({forms, 2, Clause}, Gaps) ->
    inlined(2, Clause, fun(Call) ->
        loop_of(['dyno Start'], [], Call([var('dyno Start'), var('dyno Last')]), Gaps)
    end);
loop({function, 0, _}, Gaps) ->
    loop_of(['dyno Fun'], [constant(runner)], {call, ?A, var('dyno Fun'), []}, Gaps);
loop({function, 1, _}, Gaps) ->
    Call = {call, ?A, var('dyno Fun'), [var('dyno Start')]},
    loop_of(['dyno Fun', 'dyno Start'], [constant(runner)], Call, Gaps);
loop({function, 2, _}, Gaps) ->
    Call = {call, ?A, var('dyno Fun'), [var('dyno Start'), var('dyno Last')]},
    loop_of(['dyno Fun', 'dyno Start'], [constant(runner)], Call, Gaps);
loop({calls, Calls}, Gaps) when length(Calls) > ?MOST_INLINE ->
    %% A function has 255 arguments at most, and each call would cost atoms and the compiler's time.
    Replay = fun(Arguments) -> {call, ?A, {atom, ?A, replay}, Arguments} end,
    Names = ['dyno Calls', 'dyno Result', 'dyno M', 'dyno F', 'dyno A'],
    [Calls_, Last, M, F, A] = [var(N) || N <- Names],
    Apply = {call, ?A, {remote, ?A, {atom, ?A, erlang}, {atom, ?A, apply}}, [M, F, A]},
    [
        {function, ?A, replay, 2, [
            {clause, ?A, [{cons, ?A, {tuple, ?A, [M, F, A]}, Calls_}, var('_')], [], [
                Replay([Calls_, Apply])
            ]},
            {clause, ?A, [{nil, ?A}, Last], [], [Last]}
        ]}
        | loop_of(
            ['dyno List'],
            [constant(runner)],
            Replay([var('dyno List'), {atom, ?A, undefined}]),
            Gaps
        )
    ];
loop({calls, Calls}, Gaps) ->
    WithVariables = [
        {M, F, [name("Argument", N, K) || {K, _} <- lists:enumerate(A)]}
     || {N, {M, F, A}} <- lists:enumerate(Calls)
    ],
    Names = lists:append([Vs || {_, _, Vs} <- WithVariables]),
    Values = [
        list_element(element_of(constant(runner), N), K)
     || {N, {_, _, A}} <- lists:enumerate(Calls), {K, _} <- lists:enumerate(A)
    ],
    Body = [
        {call, ?A, {remote, ?A, {atom, ?A, M}, {atom, ?A, F}}, [var(V) || V <- Vs]}
     || {M, F, Vs} <- WithVariables
    ],
    loop_of(Names, Values, {block, ?A, Body}, Gaps).

name(Prefix, N, K) ->
    list_to_atom(lists:flatten(io_lib:format("dyno ~s ~b ~b", [Prefix, N, K]))).

list_element(List, K) ->
    {call, ?A, {remote, ?A, {atom, ?A, lists}, {atom, ?A, nth}}, [{integer, ?A, K}, List]}.

inlined(Arity, Clause, Make) ->
    Call = fun(Arguments) -> {call, ?A, {atom, ?A, runner}, Arguments} end,
    [
        {attribute, ?A, compile, {inline, [{runner, Arity}]}},
        {function, ?A, runner, Arity, [Clause]}
        | Make(Call)
    ].

%% loop and resume take the constants apart once; the loop itself has them in its arguments. The
%% variables that are not among the values are passed as they are: Start.
loop_of(Variables, Values, Body, Gaps) ->
    {_, Passed} = lists:split(length(Values), Variables),
    Arguments = Values ++ [var(V) || V <- Passed],
    Begin = fun(Last) -> at_place(Gaps, [var('dyno N') | Arguments] ++ [Last]) end,
    Given = [var('dyno N'), var('dyno Constants'), var('dyno Start')],
    Places = [
        filling(Place, Calls) ++ [repeat(repeat_name(Place), Variables, Body)]
     || {Place, Calls} <- lists:enumerate(fillings(Gaps))
    ],
    [
        {function, ?A, loop, 3, [
            {clause, ?A, Given, [], [
                {call, ?A, {atom, ?A, loop}, Given ++ [{integer, ?A, 1}]}
            ]}
        ]},
        {function, ?A, loop, 4, [
            {clause, ?A, Given ++ [var('dyno Place')], [], [Begin(var('dyno Start'))]}
        ]},
        %% The same, but that it goes on from the result that an earlier one ended with.
        {function, ?A, resume, 5, [
            {clause, ?A, Given ++ [var('dyno Last'), var('dyno Place')], [], [
                Begin(var('dyno Last'))
            ]}
        ]}
        | lists:append(Places)
    ].

at_place(Gaps, Arguments) ->
    {'case', ?A, var('dyno Place'), [
        {clause, ?A, [{integer, ?A, Place}], [], [
            {call, ?A, {atom, ?A, repeat_name(Place)}, Arguments}
        ]}
     || {Place, _} <- lists:enumerate(Gaps)
    ]}.

repeat(Name, Variables, Body) ->
    Last = var('dyno Last'),
    Ignored = [var('_') || _ <- Variables],
    Next = [{op, ?A, '-', var('dyno N'), {integer, ?A, 1}} | [var(V) || V <- Variables]] ++ [Body],
    {function, ?A, Name, length(Variables) + 2, [
        {clause, ?A, [{integer, ?A, 0} | Ignored] ++ [Last], [], [Last]},
        {clause, ?A, [var('dyno N') | [var(V) || V <- Variables]] ++ [Last], [], [
            {call, ?A, {atom, ?A, Name}, Next}
        ]}
    ]}.

%% What nobody calls, but takes room. Exported, or the compiler leaves it out.
fillings(Gaps) ->
    Put = {call, ?A, {remote, ?A, {atom, ?A, erlang}, {atom, ?A, put}}, [
        {atom, ?A, gap}, {atom, ?A, gap}
    ]},
    [lists:duplicate(Gap, Put) || Gap <- Gaps].

filling(_Place, []) -> [];
filling(Place, Calls) -> [{function, ?A, gap_name(Place), 0, [{clause, ?A, [], [], Calls}]}].

repeat_name(1) -> repeat;
repeat_name(Place) -> list_to_atom("repeat_" ++ integer_to_list(Place)).

gap_name(Place) -> list_to_atom("gap_" ++ integer_to_list(Place)).

-doc "What the module can't have in its source.".
-spec constants(parts()) -> #{atom() => term()}.
constants(Parts) ->
    #{
        Name => constant_of(Name, Part)
     || Name := Part <- Parts, element(1, Part) =/= forms
    }.

constant_of(_Name, {function, _, Fun}) -> Fun;
constant_of(runner, {calls, Calls}) when length(Calls) > ?MOST_INLINE -> Calls;
constant_of(_Name, {calls, Calls}) -> list_to_tuple([A || {_, _, A} <- Calls]).

-doc "Whether the compiler leaves nothing to do: it works the result out, or takes an argument.".
-spec is_constant(module(), term()) -> boolean().
is_constant(Module, {forms, Arity, Clause}) ->
    Forms = [
        {attribute, ?A, module, Module},
        {attribute, ?A, export, [{f, Arity}]},
        {function, ?A, f, Arity, [Clause]}
    ],
    case compile:forms(Forms, [to_asm, binary, no_spawn_compiler_process]) of
        {ok, Module, Assembly} ->
            %% The compiler has put more before the functions over the years.
            Functions = element(tuple_size(Assembly) - 1, Assembly),
            [Code] = [Code || {function, f, _, _, Code} <- Functions],
            lists:all(fun is_trivial/1, Code);
        _ ->
            false
    end;
is_constant(_Module, _Runner) ->
    false.

is_trivial({label, _}) -> true;
is_trivial({line, _}) -> true;
is_trivial({func_info, _, _, _}) -> true;
is_trivial({move, {Kind, _}, {x, 0}}) -> lists:member(Kind, [literal, integer, atom, float, x]);
is_trivial({move, nil, {x, 0}}) -> true;
is_trivial(return) -> true;
is_trivial(_) -> false.
