%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_forms).
-moduledoc false.
%% The abstract code of the module that repeats a code; dyno_bench_code says why.
%%
%%   loop(0, _, _, Last) -> Last;
%%   loop(N, C, S, _) -> loop(N - 1, C, S, begin Code end).
%%
%% The last result is an argument and is returned in the end, so the compiler cannot remove any
%% iteration. Arguments of calls come from variables, so the compiler cannot fold calls. No source
%% text can have the names of the variables.
%%
%% The module has several copies of the loop with gaps of different sizes, because the place of code
%% changes a loop's speed by up to some tens of per cent: an empty loop that begins 56 bytes before
%% the end of a page is 17 % faster than its copies (AMD EPYC).

-export([gaps/1, module/3, source/2, constants/1, constant/2, joined/3, variables/2]).

-define(A, erl_anno:new(0)).

-type parts() :: #{runner := term(), init => term(), init_runner => term(), done => term()}.

%% Calls that the loop contains one by one.
-define(MOST_INLINE, 20).

%% Copies of the loop, and the words of source for all: long code compiles slowly.
-define(MOST_PLACES, 8).
-define(MOST_WORDS, 20_000).
%% The gap before a place has fewer calls than this prime number.
-define(FILLINGS, 13).

-doc """
Distinct gaps before the copies of a code's loop, at least one. All codes get the same gaps, so that
identical codes lie alike: with random gaps, one could get more of the slow places.
""".
-spec gaps(parts()) -> [non_neg_integer(), ...].
gaps(#{runner := Runner}) ->
    Places = max(1, min(?MOST_PLACES, ?MOST_WORDS div (erts_debug:flat_size(Runner) + 1))),
    [5 * Place rem ?FILLINGS || Place <- lists:seq(1, Places)].

-spec module(module(), parts(), Gaps :: [non_neg_integer(), ...]) -> [erl_parse:abstract_form()].
module(Module, #{runner := Runner} = Parts, Gaps) ->
    {_Leaves, Constants} = split(Parts),
    Exported =
        [
            {Name, Arity}
         || {function, _, Name, Arity, _} <- lists:sublist(Constants, 1)
        ] ++ [{init, 1}, {init_runner, 2}, {loop, 3}, {loop, 4}, {resume, 5}, {done, 2}],
    %% Or the compiler removes the fillings.
    Fillings = [{gap_name(Place), 0} || {Place, Gap} <- lists:enumerate(Gaps), Gap > 0],
    [
        {attribute, ?A, module, Module},
        {attribute, ?A, export, Exported ++ Fillings}
    ] ++
        once(init, "Constants", "undefined", Parts) ++
        once(init_runner, "Constants, Init", "Init", Parts) ++
        once(done, "Constants, Init", "Init", Parts) ++
        [file(runner) | loop(Runner, Gaps)] ++
        [file(evaluated) | Constants].

%% So that the compiler's errors name the part.
file(Name) ->
    {attribute, ?A, file, {atom_to_list(Name), 1}}.

%% A form with the user's code in place of the variable `Code`.
form(Format, Arguments) ->
    form(Format, Arguments, none).

form(Format, Arguments, Code) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(io_lib:format(Format, Arguments))),
    {ok, Form} = erl_parse:parse_form(Tokens),
    named(erl_parse:map_anno(fun(_) -> ?A end, Form), Code).

named({var, _, 'Code'}, Code) -> Code;
named({var, _, '_'} = Any, _Code) -> Any;
named({var, _, Name}, _Code) -> {var, ?A, list_to_atom("dyno " ++ atom_to_list(Name))};
named(Form, Code) when is_tuple(Form) -> list_to_tuple(named(tuple_to_list(Form), Code));
named([Head | Tail], Code) -> [named(Head, Code) | named(Tail, Code)];
named(Other, _Code) -> Other.

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
        _ ->
            {var, Anno, Name}
    end;
readable({named_fun, Anno, Name, Clauses}) ->
    {var, _, Readable} = readable({var, Anno, Name}),
    {named_fun, Anno, Readable, readable(Clauses)};
readable(Form) when is_tuple(Form) -> list_to_tuple(readable(tuple_to_list(Form)));
readable([Head | Tail]) ->
    [readable(Head) | readable(Tail)];
readable(Other) ->
    Other.

-doc "The code stays inline.".
-spec joined(erl_anno:anno(), arity(), [erl_parse:abstract_clause()]) ->
    erl_parse:abstract_clause().
joined(Anno, Arity, Clauses) ->
    Variables = variables(Anno, Arity),
    Cases = [
        {clause, A, [{tuple, A, Patterns}], Guards, Body}
     || {clause, A, Patterns, Guards, Body} <- Clauses
    ],
    {clause, Anno, Variables, [], [{'case', Anno, {tuple, Anno, Variables}, Cases}]}.

-spec variables(erl_anno:anno(), arity()) -> [erl_parse:abstract_expr()].
variables(Anno, Arity) ->
    [{var, Anno, list_to_atom("dyno " ++ integer_to_list(N))} || N <- lists:seq(1, Arity)].

%% A function that evaluates a part, or without one returns the argument.
once(Name, Parameters, Argument, Parts) ->
    {Text, Code} = evaluated(Name, maps:get(Name, Parts, none), Argument),
    [file(Name), form("~s(~s) -> ~ts.", [Name, Parameters, Text], Code)].

evaluated(_Name, none, Argument) ->
    {Argument, none};
evaluated(_Name, {forms, 0, {clause, _, [], _, Body}}, _Argument) ->
    {"Code", {block, ?A, Body}};
evaluated(_Name, {forms, _, Clause}, Argument) ->
    {["Code(", Argument, ")"], {'fun', ?A, {clauses, [Clause]}}};
evaluated(Name, {function, 0, _}, _Argument) ->
    {["(", constant(Name), ")()"], none};
evaluated(Name, {function, _, _}, Argument) ->
    {["(", constant(Name), ")(", Argument, ")"], none};
evaluated(Name, {calls, Calls}, _Argument) ->
    Applied = [
        io_lib:format("erlang:apply(~tw, ~tw, element(~b, ~s))", [M, F, N, constant(Name)])
     || {N, {M, F, _}} <- lists:enumerate(Calls)
    ],
    {["begin ", lists:join(", ", Applied), " end"], none}.

constant(Name) -> io_lib:format("map_get(~s, Constants)", [Name]).

%% loop and resume take the constants apart once; the inner loop has them as arguments.
loop(Runner, Gaps) ->
    {Own, Variables, Values, Text, Code} = repeated(Runner),
    Places = lists:enumerate(Gaps),
    At = fun(Last) ->
        Arguments = lists:join(", ", ["N" | Values] ++ [Last]),
        Each = [io_lib:format("~b -> ~s(~ts)", [P, repeat_name(P), Arguments]) || {P, _} <- Places],
        lists:join("; ", Each)
    end,
    Own ++
        [
            form("loop(N, Constants, Start) -> loop(N, Constants, Start, 1).", []),
            form("loop(N, Constants, Start, Place) -> case Place of ~ts end.", [At("Start")]),
            %% Like loop, but continues from an earlier result.
            form("resume(N, Constants, Start, Last, Place) -> case Place of ~ts end.", [At("Last")])
        ] ++
        lists:append([
            filling(Place, Gap) ++ [repeat(repeat_name(Place), Variables, Text, Code)]
         || {Place, Gap} <- Places
        ]).

%% Further forms, the loop's variables, their values, and the body of the loop.
repeated({forms, 0, {clause, _, [], _, Body}}) ->
    {[], [], [], "Code", {block, ?A, Body}};
repeated({forms, Arity, Clause}) ->
    Inlined = [
        {attribute, ?A, compile, {inline, [{runner, Arity}]}},
        {function, ?A, runner, Arity, [Clause]}
    ],
    {Inlined, ["Start"], ["Start"], ["runner(", taken(Arity), ")"], none};
repeated({function, Arity, _}) ->
    Start = ["Start" || Arity > 0],
    {[], ["Fun" | Start], [constant(runner) | Start], ["Fun(", taken(Arity), ")"], none};
repeated({calls, Calls}) when length(Calls) > ?MOST_INLINE ->
    %% A function has at most 255 arguments, and each call would cost atoms and compile time.
    Replay = form(
        "replay([{M, F, A} | Calls], _) -> replay(Calls, erlang:apply(M, F, A)); "
        "replay([], Last) -> Last.",
        []
    ),
    {[Replay], ["List"], [constant(runner)], "replay(List, undefined)", none};
repeated({calls, Calls}) ->
    Name = fun(N, K) -> io_lib:format("Argument_~b_~b", [N, K]) end,
    Arguments = [{N, K} || {N, {_, _, A}} <- lists:enumerate(Calls), {K, _} <- lists:enumerate(A)],
    Values = [
        io_lib:format("lists:nth(~b, element(~b, ~s))", [K, N, constant(runner)])
     || {N, K} <- Arguments
    ],
    Each = [
        io_lib:format("~tw:~tw(~s)", [
            M, F, lists:join(", ", [Name(N, K) || {Of, K} <- Arguments, Of =:= N])
        ])
     || {N, {M, F, _}} <- lists:enumerate(Calls)
    ],
    Text = ["begin ", lists:join(", ", Each), " end"],
    {[], [Name(N, K) || {N, K} <- Arguments], Values, Text, none}.

taken(Arity) -> lists:join(", ", lists:sublist(["Start", "Last"], Arity)).

repeat(Name, Variables, Text, Code) ->
    Ignored = lists:join(", ", ["0" | ["_" || _ <- Variables]]),
    Own = lists:join(", ", ["N" | Variables]),
    Next = lists:join(", ", ["N - 1" | Variables]),
    Format = "~s(~s, Last) -> Last; ~s(~s, Last) -> ~s(~s, ~ts).",
    form(Format, [Name, Ignored, Name, Own, Name, Next, Text], Code).

%% Never called; only takes room.
filling(_Place, 0) ->
    [];
filling(Place, Gap) ->
    Calls = lists:join(", ", lists:duplicate(Gap, "erlang:put(gap, gap)")),
    [form("~s() -> ~s.", [gap_name(Place), Calls])].

repeat_name(1) -> repeat;
repeat_name(Place) -> list_to_atom("repeat_" ++ integer_to_list(Place)).

gap_name(Place) -> list_to_atom("gap_" ++ integer_to_list(Place)).

-spec constants(parts()) -> term().
constants(Parts) ->
    {Leaves, _Functions} = split(Parts),
    Leaves.

split(Parts) ->
    dyno_bench_evaluated:split(
        constants,
        #{
            Name => constant_of(Name, Part)
         || Name := Part <- Parts, element(1, Part) =/= forms
        }
    ).

constant_of(_Name, {function, _, Fun}) -> Fun;
constant_of(runner, {calls, Calls}) when length(Calls) > ?MOST_INLINE -> Calls;
constant_of(_Name, {calls, Calls}) -> list_to_tuple([A || {_, _, A} <- Calls]).

-doc "Whether the compiler leaves no work: of the code, or of the only function that it calls.".
-spec constant(module(), term()) -> no | inline | {called, mfa()}.
constant(Module, {forms, Arity, Clause}) ->
    Forms = [
        {attribute, ?A, module, Module},
        {attribute, ?A, export, [{f, Arity}]},
        {function, ?A, f, Arity, [Clause]}
    ],
    case compile:forms(Forms, [to_asm, binary, no_spawn_compiler_process]) of
        {ok, Module, Assembly} ->
            %% Compilers of different releases put more elements before the functions.
            Functions = element(tuple_size(Assembly) - 1, Assembly),
            [Code] = [Code || {function, f, _, _, Code} <- Functions],
            case lists:all(fun is_trivial/1, Code) of
                true -> inline;
                false -> called(dyno_bench_folded:calls(Code))
            end;
        _ ->
            no
    end;
constant(Module, {function, Arity, Fun}) ->
    case dyno_bench_evaluated:forms(Fun) of
        none ->
            Of = maps:from_list([erlang:fun_info(Fun, Key) || Key <- [module, name, env]]),
            #{module := M, name := F, env := Env} = Of,
            called([{M, F, Arity + length(Env)}]);
        Forms ->
            constant(Module, Forms)
    end;
constant(_Module, {calls, Calls}) ->
    called(lists:usort([{M, F, length(A)} || {M, F, A} <- Calls])).

called([MFA]) ->
    case dyno_bench_folded:is_folded(MFA) of
        true -> {called, MFA};
        false -> no
    end;
called(_NoneOrMore) ->
    no.

is_trivial({label, _}) -> true;
is_trivial({line, _}) -> true;
is_trivial({func_info, _, _, _}) -> true;
is_trivial({move, {Kind, _}, {x, 0}}) -> lists:member(Kind, [literal, integer, atom, float, x]);
is_trivial({move, nil, {x, 0}}) -> true;
is_trivial(return) -> true;
is_trivial(_) -> false.
