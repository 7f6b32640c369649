%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_code_SUITE).
-moduledoc "The forms of code that can be measured, and what is wrong with others.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).
%% What the codes call.
-export([note/1]).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() -> all.

slow() -> [keeps_every_result].

all() ->
    [
        repeats_each_form,
        passes_values_on,
        keeps_every_result,
        calls_a_fun,
        finds_constant_results,
        tells_what_the_compiler_warns_of,
        takes_any_unicode,
        takes_names_of_its_own,
        a_full_stop_may_be_left_out,
        functions_that_call_themselves,
        says_what_is_wrong,
        places_of_what_the_compiler_finds,
        writes_no_files
    ].

%% Counts its calls in a counter that the test made.
note(Value) ->
    ok = counters:add(persistent_term:get(?MODULE), 1, 1),
    Value.

calls(Code, N) ->
    Counter = counters:new(1, []),
    persistent_term:put(?MODULE, Counter),
    Result = loop(Code, N),
    {counters:get(Counter, 1), Result}.

loop(Code, N) ->
    {ok, Parsed} = dyno_bench_code:read(Code),
    {ok, #{module := Module, binary := Binary, constants := Constants}} =
        dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
    {module, Module} = code:load_binary(Module, "test", Binary),
    Init = Module:init(Constants),
    Start = Module:init_runner(Constants, Init),
    Result = Module:loop(N, Constants, Start),
    _ = Module:done(Constants, Init),
    _ = code:purge(Module),
    Result.

repeats_each_form(_Config) ->
    Note = atom_to_list(?MODULE) ++ ":note",
    Forms = [
        Note ++ "(1).",
        unicode:characters_to_binary(Note ++ "(1)."),
        "X = " ++ Note ++ "(1), X + 0.",
        "r() -> " ++ Note ++ "(1).",
        {?MODULE, note, [1]},
        [{?MODULE, note, [1]}],
        [{erlang, abs, [-1]}, {?MODULE, note, [1]}],
        fun() -> note(1) end,
        #{runner => "r(X) -> " ++ Note ++ "(X).", init_runner => "1."},
        #{runner => "r(0) -> 0; r(X) -> " ++ Note ++ "(X).", init_runner => "1."},
        #{runner => fun(X) -> note(X) end, init_runner => fun() -> 1 end},
        #{runner => fun(X, _) -> note(X) end, init_runner => {erlang, abs, [-1]}}
    ],
    [
        ?assertEqual({N, 1}, calls(Form, N), Form)
     || Form <- Forms, N <- [1, 2, 1000]
    ],
    %% No iteration at all, and the start is the result.
    ?assertMatch({0, _}, calls(Note ++ "(1).", 0)).

passes_values_on(_Config) ->
    %% init -> init_runner -> runner/2: the value, and the state.
    Code = #{
        init => "10.",
        init_runner => "i(Init) -> Init * 2.",
        runner => "r(_Start, State) -> State + 1.",
        done => "d(Init) -> persistent_term:put(dyno_bench_done, Init)."
    },
    ?assertEqual(25, loop(Code, 5)),
    ?assertEqual(10, persistent_term:get(dyno_bench_done)),
    ?assertEqual(20, loop(Code#{runner := "r(Start, _) -> Start."}, 5)),
    ?assertEqual(21, loop(Code#{runner := fun(Start) -> Start + 1 end}, 5)).

%% The compiler may not leave out work whose result nobody uses.
keeps_every_result(_Config) ->
    {ok, Parsed} = dyno_bench_code:read("length(lists:seq(1, 3))."),
    {ok, #{constant := false}} = dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
    %% A hundred thousand iterations of a sum of 1000 take longer than as many of nothing.
    %% The shortest of some, for another process may have had the processor.
    Once = fun(Code) -> element(1, timer:tc(fun() -> loop(Code, 100_000) end)) end,
    Time = fun(Code) -> lists:min([Once(Code) || _ <- lists:seq(1, 5)]) end,
    ?assert(Time("lists:sum(lists:seq(1, 1000)).") > 10 * Time("ok.")).

%% A code that is nothing but a fun: what is measured is its call, not that it is made.
calls_a_fun(_Config) ->
    Note = atom_to_list(?MODULE) ++ ":note",
    One = #{runner => "", init_runner => "1."},
    [
        ?assertEqual({3, 1}, calls(Code, 3), Code)
     || Code <- [
            "fun() -> " ++ Note ++ "(1) end",
            "fun Loop() -> case " ++ Note ++ "(1) of 1 -> 1; _ -> Loop() end end",
            One#{runner := "fun(X) -> " ++ Note ++ "(X) end."},
            One#{runner := "fun(0) -> 0; (X) -> " ++ Note ++ "(X) end."},
            One#{runner := "fun " ++ Note ++ "/1"},
            One#{runner := "fun(_, X) -> " ++ Note ++ "(X) end."}
        ]
    ],
    %% What gives an argument may give a fun.
    ?assertEqual(
        {1, 1},
        calls(
            One#{
                runner := "r(F) -> F(1)",
                init_runner := "fun " ++ Note ++
                    "/1"
            },
            1
        )
    ),
    {error, Error} = dyno_bench_code:read("fun(A, B, C) -> ok end."),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Error), "arity 3; arity 0, 1 or 2 is accepted")
    ),
    {ok, #{constants := #{}}} = dyno_bench_code:load_value(
        dyno_bench_loop_1, "fun(A, B, C) -> {A, B, C} end", #{}
    ),
    ?assertMatch(F when is_function(F, 3), dyno_bench_loop_1:loop(1, #{}, undefined)),
    dyno_code:unload(dyno_bench_loop_1).

finds_constant_results(_Config) ->
    Constant = fun(Code) ->
        {ok, Parsed} = dyno_bench_code:read(Code),
        {ok, #{constant := Is}} = dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
        Is
    end,
    [?assert(Constant(C), C) || C <- ["ok.", "length([1, 2, 3]).", "{a, 1 + 1}.", "[].", "<<1>>."]],
    WithStart = fun(Text) -> Constant(#{runner => Text, init_runner => "1."}) end,
    [?assert(WithStart(C), C) || C <- ["r(_) -> 1+1.", "r(X) -> X.", "r(_, Last) -> Last."]],
    [?assertNot(WithStart(C), C) || C <- ["r(X) -> X + 1.", "r(X) -> {X, X}."]],
    [?assertNot(Constant(C), C) || C <- ["self().", "rand:uniform().", "lists:seq(1, 3)."]].

tells_what_the_compiler_warns_of(_Config) ->
    {ok, Parsed} = dyno_bench_code:read("self(), ok."),
    {ok, #{warnings := [Warning]}} = dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
    ?assertMatch({match, _}, re:run(Warning, "no effect")).

takes_any_unicode(_Config) ->
    ?assertEqual(4, loop("string:length(\"żółw\").", 1)),
    ?assertEqual(2, loop(~"string:length(\"日本\").", 1)),
    {ok, Parsed} = dyno_bench_code:read("string:length(\"żółw\")."),
    {ok, #{label := Label}} = dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
    ?assertEqual(~"string:length(\"żółw\").", Label).

%% The loop has variables of its own, none of which a code can see or take.
takes_names_of_its_own(_Config) ->
    ?assertEqual(3, loop("N = 1, Last = 2, Start = N + Last, Constants = Start, Constants.", 10)),
    ?assertMatch({error, {_, {syntax, runner, _, 1, 1, _}}}, compile_only("N + 1.")).

compile_only(Code) ->
    {ok, Parsed} = dyno_bench_code:read(Code),
    dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}).

says_what_is_wrong(_Config) ->
    Cases = [
        {"", "is no code"},
        {"lists:sort([1, 2", "column 17: the code is not complete"},
        {"ok,", "line 1, column 4: the code is not complete"},
        {"% nothing", "\"% nothing\" is no code; expressions"},
        {"r(X) -> X; q(Y) -> Y", "line 1, column 12: head mismatch"},
        {"foo(.", "line 1, column 5: syntax error before: '\\.'\n  foo\\(\\.\n      \\^"},
        {"ok,\n  X = (1.", "line 2, column 9"},
        {"\"\\x{xyz}\".", "column"},
        {"a() -> b(). b() -> ok.", "more than one full stop"},
        {"r(A, B, C) -> {A, B, C}.", "arity 0, 1 or 2"},
        {"r(X) -> X.", "init_runner must give"},
        {#{runner => "ok.", init_runner => "i(X) -> X."}, "init must give"},
        {#{runner => "ok.", done => "d(X) -> X."}, "init must give"},
        {#{runner => "ok.", init => "i(X) -> X."}, "arity 0 is accepted"},
        {#{runner => "ok.", start => "ok."}, "is no part of a code"},
        {#{init => "ok."}, "has no runner"},
        {fun(_, _, _) -> ok end, "arity 3"},
        {{rand, uniform}, "is no code"},
        {[a, b], "is no code"},
        {17, "is no code"}
    ],
    lists:foreach(
        fun({Code, Expected}) ->
            {error, Reason} = dyno_bench_code:read(Code),
            Text = unicode:characters_to_list(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Text, Expected), {Code, Text})
        end,
        Cases
    ),
    %% A long line is shown around the place.
    {error, Long} = dyno_bench_code:read(lists:duplicate(500, $\s) ++ "foo(."),
    Shown = unicode:characters_to_list(dyno_error:format(Long)),
    ?assert(lists:all(fun(Line) -> length(Line) < 100 end, string:split(Shown, "\n", all))).

a_full_stop_may_be_left_out(_Config) ->
    Runner = fun(Text) ->
        {ok, #{runner := Runner}} = dyno_bench_code:read(#{runner => Text, init_runner => "[1.5]"}),
        Runner
    end,
    [
        ?assertEqual(Runner(Text ++ "."), Runner(Of), Of)
     || Text <- ["r(X) -> lists:sort(X)", "lists:seq(1, 3)", "X = 1.5,\nX"],
        Of <- [Text, Text ++ " % and a comment", unicode:characters_to_binary(Text)]
    ],
    Code = #{
        init => "1", init_runner => "i(I) -> I + 5", runner => "r(_, S) -> S + 1", done => "ok"
    },
    ?assertEqual(7, loop(Code, 1)).

functions_that_call_themselves(_Config) ->
    Fib = "fib(0) -> 0; fib(1) -> 1; fib(N) when N > 1 -> fib(N - 1) + fib(N - 2)",
    ?assertEqual(55, loop(#{runner => Fib, init_runner => "10"}, 3)),
    Mapped = "f(L) when is_list(L) -> lists:map(fun f/1, L); f(X) -> X * 2",
    ?assertEqual([2, [4]], loop(#{runner => Mapped, init_runner => "[1, [2]]"}, 1)),
    Sum = "s(0) -> 0; s(N) -> N + s(N - 1)",
    ?assertEqual(6, loop(#{runner => "ok", init => "3", init_runner => Sum}, 0)),
    %% Another arity is another function.
    ?assertMatch(
        {error, {_, {syntax, init, _, 1, 8, _}}},
        compile_only(#{runner => "ok", init => "r() -> r(1)"})
    ).

%% Unbound variables, functions that are not there: the place in the part that has the error.
places_of_what_the_compiler_finds(_Config) ->
    [
        begin
            {error, Reason} = compile_only(Code),
            Text = unicode:characters_to_list(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Text, Expected), {Code, Text})
        end
     || {Code, Expected} <- [
            {"X", "^line 1, column 1: variable 'X' is unbound\n  X\n  \\^$"},
            {"ok,\n  self() + Y.",
                "^line 2, column 12: variable 'Y' is unbound\n  .* Y.\n {13}\\^$"},
            %% No guess that is a function of the loop.
            {"lop(1, 2, 3)", "line 1, column 1: function lop/3 undefined\n"},
            {#{runner => "r(A) -> A", init_runner => "Z"}, "^init_runner: line 1, column 1: .*'Z'"},
            {#{runner => "ok", init => "r() -> f(1)"}, "^init: line 1, column 8: function f/1 und"},
            {#{runner => "ok", done => "ok, ok, Q"}, "^done: line 1, column 9: "},
            {#{runner => "ok", done => "d() -> lists:map(fun q/0, [])"}, "^done: line 1, column 18"}
        ]
    ].

%% Not even the assembler code that tells a constant result.
writes_no_files(_Config) ->
    Before = file:list_dir("."),
    {ok, Parsed} = dyno_bench_code:read("1 + 1."),
    {ok, #{constant := true}} = dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
    ?assertEqual(Before, file:list_dir(".")).
