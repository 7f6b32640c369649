%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_evaluated_SUITE).
-moduledoc """
Funs that were typed in a shell take what the same funs in a module take. Compared are reductions
and words, which do not depend on the machine; the interpreter needs many times as many.
""".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% A call through a fun that the loop knows, or does not know, differs by a reduction or two.
-define(ALIKE, 4).

suite() ->
    [{timetrap, {minutes, 2}}].

each_release() -> [typed_in_erl].

all() ->
    [typed_in_erl, typed_in_iex, examples_of_erl, examples_of_iex, assertions, refused, isolated].

%% Labels, and funs of this module; the shells get the same.
compiled() ->
    List = lists:seq(1, 100),
    Add = fun(X, Sum) -> X + Sum end,
    In = #{add => {[Add, Add], List}},
    Point = {point, 1, 2},
    [
        #{label => ~"sum", runner => fun() -> lists:sum(List) end},
        #{label => ~"fold", runner => fun() -> lists:foldl(fun(X, A) -> X + A end, 0, List) end},
        #{label => ~"bound", runner => fun() -> lists:foldl(Add, 0, List) end},
        #{label => ~"call", runner => {lists, foldl, [Add, 0, List]}},
        #{
            label => ~"in terms",
            runner => fun() ->
                #{add := {[F | _], _}} = In,
                F(1, 2)
            end
        },
        #{
            label => ~"named",
            runner => fun
                Count(0) -> 0;
                Count(N) -> Count(N - 1)
            end,
            init_runner => fun() -> 50 end
        },
        #{
            label => ~"two",
            runner => fun(Start, _) when Start > 0 -> Start end,
            init => fun() -> 3 end,
            init_runner => fun(Init) -> Init + 1 end
        },
        #{label => ~"record", runner => fun() -> element(2, Point) + length(List) end}
    ].

typed_in_erl(Config) ->
    Lines = [
        "List = lists:seq(1, 100).\n",
        "Add = fun(X, Sum) -> X + Sum end.\n",
        "In = #{add => {[Add, Add], List}}.\n",
        "rd(point, {x, y}).\n",
        "Point = #point{x = 1, y = 2}.\n",
        "dyno_bench:run([",
        "#{label => \"sum\", runner => fun() -> lists:sum(List) end},"
        "#{label => \"fold\", runner => fun() -> lists:foldl(fun(X, A) -> X + A end, 0, List) end},"
        "#{label => \"bound\", runner => fun() -> lists:foldl(Add, 0, List) end},"
        "#{label => \"call\", runner => {lists, foldl, [Add, 0, List]}},"
        "#{label => \"in terms\", runner => fun() -> #{add := {[F | _], _}} = In, F(1, 2) end},"
        "#{label => \"named\", runner => fun C(0) -> 0; C(N) -> C(N - 1) end,"
        "  init_runner => fun() -> 50 end},"
        "#{label => \"two\", runner => fun(Start, _) when Start > 0 -> Start end,"
        "  init => fun() -> 3 end, init_runner => fun(Init) -> Init + 1 end},"
        "#{label => \"record\", runner => fun() -> Point#point.x + length(List) end}",
        "], #{budget_ms => 100}).\n"
    ],
    {_, [Typed]} = shell(erl, [Lines], Config),
    as_compiled(8, Typed).

typed_in_iex(Config) ->
    with_elixir(fun() ->
        Lines = [
            "list = Enum.to_list(1..100)\n",
            "add = fn x, sum -> x + sum end\n",
            "Dyno.bench(%{\"sum\" => fn -> :lists.sum(list) end, ",
            "\"fold\" => fn -> :lists.foldl(fn x, a -> x + a end, 0, list) end, ",
            "\"bound\" => fn -> :lists.foldl(add, 0, list) end, ",
            "\"call\" => {:lists, :foldl, [add, 0, list]}}, budget_ms: 100)\n"
        ],
        {_, [Typed]} = shell(iex, [Lines], Config),
        as_compiled(4, Typed)
    end).

as_compiled(Count, Typed) ->
    ?assertEqual(Count, map_size(Typed)),
    alike(Typed, [Code || #{label := Label} = Code <- compiled(), is_map_key(Label, Typed)]).

%% These codes take what was told.
alike(Typed, Codes) ->
    Compiled = figures(dyno_bench:run(Codes, #{budget_ms => 100})),
    ?assertEqual(lists:sort(maps:keys(Compiled)), lists:sort(maps:keys(Typed))),
    _ = [
        ?assert(abs(R1 - R2) < ?ALIKE andalso abs(W1 - W2) < ?ALIKE, {Label, Typed, Compiled})
     || Label := {R1, W1} <- Compiled, {R2, W2} <- [map_get(Label, Typed)]
    ],
    ok.

figures({ok, Document}) ->
    [Run | _] = dyno_recording:runs(Document),
    {ok, Table} = dyno_recording:table(Run, ~"codes"),
    #{
        Code => {Reductions, Words}
     || #{~"code" := Code, ~"reductions_per_call" := Reductions, ~"words_per_call" := Words} <-
            dyno_recording:rows(Table)
    }.

%% The documentation's examples, as printed.

examples_of_erl(Config) ->
    #{{bench, 2} := Text} = functions(dyno),
    {match, [[Code]]} = re:run(Text, "```erlang\n(.*?)```", [
        global, dotall, {capture, all_but_first, binary}
    ]),
    Examples = [[Line, $\n] || Line <- binary:split(Code, ~"\n", [global, trim])],
    {Output, Told} = shell(erl, Examples, Config),
    ?assertEqual(nomatch, re:run(Output, "\\*\\* exception"), Output),
    Lists = fun(Label) -> string:find(Label, "lists") =/= nomatch end,
    [Typed] = [Figures || Figures <- Told, lists:any(Lists, maps:keys(Figures))],
    alike(Typed, [
        #{label => ~"fun() -> lists:seq(1, 9) end", runner => fun() -> lists:seq(1, 9) end},
        {lists, seq, [1, 9]}
    ]).

examples_of_iex(Config) ->
    with_elixir(fun() ->
        {ok, {docs_v1, _, _, _, #{~"en" := Text}, _, _}} = code:get_doc('Elixir.Dyno'),
        {match, [Example]} = re:run(Text, "^iex> (Dyno.bench.*\n)", [
            multiline, {capture, all_but_first, binary}
        ]),
        {_, [Typed]} = shell(iex, [Example], Config),
        alike(Typed, [
            #{label => ~"map", runner => {elixir, ~"Enum.map(1..9, & &1)"}},
            #{label => ~"for", runner => {elixir, ~"for x <- 1..9, do: x"}}
        ])
    end).

functions(Module) ->
    {ok, {docs_v1, _, _, _, _, _, Docs}} = code:get_doc(Module),
    #{{Name, Arity} => Text || {{function, Name, Arity}, _, _, #{~"en" := Text}, _} <- Docs}.

%% Reductions are judged: the interpreter makes more than 10,000 of it.
assertions(Config) ->
    with_elixir(fun() ->
        Lines = [
            "list = Enum.to_list(1..100)\n",
            "passed = Dyno.assert_performance(fn -> Enum.reduce(list, 0, fn x, a -> x + a end) end,"
            " \"reductions < 1000\", budget_ms: 100)\n",
            "{:ok, passed}\n"
        ],
        {_, [Figures]} = shell(iex, [Lines], Config),
        ?assertEqual([~"code"], maps:keys(Figures))
    end).

%% What cannot be compiled is not measured: commands of the shell, and funs that are hidden.
refused(Config) ->
    Lines = [
        "Refused = fun(Code) -> {error, Error} = dyno:bench([Code], #{budget_ms => 10}),"
        " io:format(\"~n~ts~n\", [dyno:format_error(Error)]) end.\n",
        "inc(X) -> X + 1.\n",
        "Refused(fun() -> v(1) end).\n",
        "Refused(fun() -> inc(1) end).\n",
        "Refused(dyno_bench_evaluated_SUITE:around(fun() -> ok end)).\n",
        "Refused({lists, map, [fun inc/1, [1]]}).\n"
    ],
    {Output, _} = shell(erl, [Lines], Config),
    Sentence = "its interpreter would be measured; give source text, or a function of a module",
    {match, Found} = re:run(Output, Sentence, [global]),
    ?assertEqual(4, length(Found), Output),
    ?assertMatch({match, _}, re:run(Output, "function v/1 undefined"), Output).

around(Fun) -> fun() -> Fun() end.

%% The VM that measures compiles them, too.
isolated(Config) ->
    Lines = [
        "Add = fun(X, Sum) -> X + Sum end.\n",
        "dyno_bench:run(["
        "#{label => \"call\", runner => {lists, foldl, [Add, 0, lists:seq(1, 100)]}},"
        " #{label => \"bound\", runner => fun() -> lists:foldl(Add, 0, lists:seq(1, 100)) end}],"
        " #{budget_ms => 100, isolated => #{}}).\n"
    ],
    {Output, Told} = shell(erl, [Lines], Config),
    ?assertMatch([#{~"bound" := {R, _}}] when R < 1000, Told, Output).

%% The shells

with_elixir(Test) ->
    case dyno_elixir:start() of
        ok -> Test();
        {error, _} -> {skip, "Elixir is not installed"}
    end.

%% What a shell prints that reads these lines, and the figures of what each example returned.
shell(Shell, Examples, Config) ->
    {Program, Tell} =
        case Shell of
            erl -> {"erl", "dyno_bench_evaluated_SUITE:tell(v(-1)).\n"};
            iex -> {"iex", ":dyno_bench_evaluated_SUITE.tell(v())\n"}
        end,
    File = filename:join(?config(priv_dir, Config), Program ++ ".lines"),
    ok = file:write_file(File, [[Example, Tell] || Example <- Examples]),
    Paths = [filename:dirname(code:which(Module)) || Module <- [dyno, ?MODULE]],
    Arguments = lists:append([["-pa", Path] || Path <- Paths]),
    Bin = filename:join(code:root_dir(), "bin"),
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", "file=$1; shift; exec \"$@\" <\"$file\"", "sh", File, Program | Arguments]},
        {env, [{"PATH", Bin ++ ":" ++ os:getenv("PATH")}]},
        {cd, ?config(priv_dir, Config)},
        exit_status,
        stderr_to_stdout,
        binary
    ]),
    {_, Output} = dyno_command:output(Port),
    {Output, figures_in(Output)}.

%% Called in the shell.
tell({ok, #{~"runs" := _}} = Result) ->
    io:format("~n<~s>~n", [base64:encode(term_to_binary(figures(Result)))]);
tell(_Other) ->
    ok.

figures_in(Output) ->
    case re:run(Output, "^<(\\S+)>\\s*$", [global, multiline, {capture, all_but_first, binary}]) of
        {match, Found} -> [binary_to_term(base64:decode(Text)) || [Text] <- Found];
        nomatch -> []
    end.
