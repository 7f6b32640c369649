%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_elixir_SUITE).
-moduledoc "Elixir source as code, where Elixir is installed.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [a_mix_project].

all() ->
    [{group, with_elixir}, without_elixir].

groups() ->
    [
        {with_elixir, [], [
            expressions_and_functions,
            is_inline,
            parts_and_inputs,
            mistakes,
            at_the_same_time,
            modules_by_name,
            in_fresh_vms,
            in_another_node,
            a_mix_project,
            at_the_command_line
        ]}
    ].

init_per_group(with_elixir, Config) ->
    case dyno_elixir:start() of
        ok -> Config;
        {error, no_elixir} -> {skip, "Elixir is not installed"}
    end.

end_per_group(_, _Config) ->
    ok.

rows(Codes, Options) ->
    {ok, Document} = dyno_bench:run(Codes, Options#{budget_ms => 50}),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)),
    [Run | _] = dyno_recording:runs(Document),
    {ok, Table} = dyno_recording:table(Run, ~"codes"),
    dyno_recording:rows(Table).

%% What a call of the code returns.
value(Text, Start) ->
    {ok, Parsed} = dyno_bench_code:read(#{
        runner => {elixir, Text}, init_runner => fun() -> Start end
    }),
    {ok, #{module := Module, binary := Binary, constants := Constants}} =
        dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
    {module, Module} = code:load_binary(Module, "x", Binary),
    try
        Module:loop(1, Constants, Start)
    after
        code:purge(Module),
        code:delete(Module),
        code:purge(Module)
    end.

expressions_and_functions(_Config) ->
    ?assertEqual([1, 2, 3], value(~"Enum.sort([3, 1, 2])", none)),
    ?assertEqual(7, value(~"x = 3\ny = 4\nx + y", none)),
    ?assertEqual(~"olleh", value(~"\"hello\" |> String.reverse()", none)),
    ?assertEqual(6, value(~"fn x -> x * 2 end", 3)),
    ?assertEqual([1, 2], value(~"&Enum.sort/1", [2, 1])),
    ?assertEqual(4, value(~"&(&1 + 1)", 3)),
    ?assertEqual(none, value(~"fn [h | _] -> h; [] -> :none end", [])),
    ?assertEqual(5, value(~"fn [h | _] when h > 3 -> h; _ -> 0 end", [5])),
    ?assertEqual({3, 3}, value(~"fn start, last -> {start, last} end", 3)),
    ?assertEqual(ok, value(~"fn -> :ok end", none)),
    ?assertEqual(#{a => 1}, value(~"for {k, v} <- [a: 1], into: %{}, do: {k, v}", none)).

is_inline(_Config) ->
    ?assertMatch(
        [#{~"form" := ~"inline", ~"words_per_call" := 18.0}, _],
        lists:sort(rows([{elixir, ~"Enum.to_list(:lists.seq(1, 9))"}, "lists:seq(1, 9)."], #{}))
    ).

parts_and_inputs(_Config) ->
    Code = #{
        runner => {elixir, ~"fn {t, k} -> :ets.lookup(t, k) end"},
        init => {elixir, ~":ets.new(:t, [:public])"},
        init_runner => {elixir, ~"fn t -> {t, :key} end"},
        done => {elixir, ~"fn t -> :ets.delete(t) end"}
    },
    [#{~"code" := ~"fn {t, k} -> :ets.lookup(t, k) end"}] = rows([Code], #{}),
    [_] = rows([{elixir, ~"fn l -> Enum.sum(l) end"}], #{inputs => [{10, {elixir, ~"1..10"}}]}).

mistakes(_Config) ->
    [
        begin
            {error, Reason} = dyno_bench:run([{elixir, Text}], #{}),
            Sentence = unicode:characters_to_binary(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Sentence, Pattern), Sentence),
            ?assertEqual(Status, dyno_error:exit_status(Reason)),
            ?assertNotMatch({match, _}, re:run(Sentence, "dyno_bench_elixir"), Sentence)
        end
     || {Status, Pattern, Text} <- [
            {2, "line 1, column 4: missing terminator: \\).*\n  foo\\(1\n     \\^", ~"foo(1"},
            {2, "line 2, column 5: .*\n  1 \\+ \\)", ~"x = 1\n1 + )"},
            {2, "the code is not complete", ~"1 +"},
            {2, "line 1, column 1: undefined variable \"x\"", ~"x + 1"},
            {2, "undefined function foo/1", ~"foo(1)"},
            {
                2,
                "column 6: Enum.sortt/1 is undefined or private. Did you mean: sort/1",
                ~"Enum.sortt([])"
            },
            {2, "a module is no code", ~"defmodule A do\nend"},
            {2, "arity 3", ~"fn a, b, c -> {a, b, c} end"},
            {2, "init_runner must give", ~"fn x -> x end"},
            {1, "raised error:.*boom", ~"raise \"boom\""}
        ]
    ].

%% Elixir itself refuses to compile one module in two processes at once.
at_the_same_time(_Config) ->
    Read = fun() -> exit(dyno_bench_code:read({elixir, ~"Enum.sort([3, 1, 2])"})) end,
    Readers = [spawn_monitor(Read) || _ <- lists:seq(1, 8)],
    [
        receive
            {'DOWN', Ref, process, Pid, Result} -> ?assertMatch({ok, _}, Result)
        end
     || {Pid, Ref} <- Readers
    ].

modules_by_name(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "ebin"),
    ok = filelib:ensure_path(Folder),
    {ok, 'Elixir.MyApp', Beam} = compile:forms([
        {attribute, 1, module, 'Elixir.MyApp'},
        {attribute, 1, export, [{run, 1}]},
        {function, 1, run, 1, [{clause, 1, [{var, 1, 'X'}], [], [{tuple, 1, [{var, 1, 'X'}]}]}]}
    ]),
    ok = file:write_file(filename:join(Folder, "Elixir.MyApp.beam"), Beam),
    [_] = rows([{elixir, ~"MyApp.run(1)"}], #{code_paths => [Folder]}),
    [_] = rows([{elixir, ~"fn n -> MyApp.run(n) end"}], #{
        code_paths => [Folder], inputs => [{1, {elixir, ~"1"}}]
    }).

%% Where standard input and output are another VM's, Elixir does not start by itself.
in_fresh_vms(_Config) ->
    Codes = [{elixir, ~"Enum.to_list(:lists.seq(1, 9))"}, {elixir, ~"Enum.nosuch(1)"}],
    [#{~"words_per_call" := 18.0}] = rows([hd(Codes)], #{isolated => #{vms => 1}}),
    {error, {_, {code, 2, Reason}}} = dyno_bench:run(Codes, #{isolated => #{vms => 1}}),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Reason), "Enum.nosuch/1 is undef")
    ).

%% Elixir is read here: the node has nothing of it then, and nothing afterwards.
in_another_node(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        Before = erpc:call(Node, application, which_applications, []),
        [#{~"words_per_call" := 18.0}] = rows([{elixir, ~":lists.seq(1, 9)"}], #{
            node => Node, code_paths => [proplists:get_value(priv_dir, Config)]
        }),
        {error, {_, {undefined, _, ~"there is no module Enum"}}} =
            dyno_bench:run([{elixir, ~"Enum.sort([3, 1, 2])"}], #{node => Node}),
        [_] = rows([{elixir, ~"fn l -> :lists.sum(l) end"}], #{
            node => Node, inputs => [{"n", {elixir, ~"[1, 2]"}}]
        }),
        {error, {_, {code, 1, {_, {syntax, _, _, 1, 1, _}}}}} =
            dyno_bench:run([{elixir, ~"x + 1"}], #{node => Node}),
        ?assertEqual(Before, erpc:call(Node, application, which_applications, [])),
        ?assertNot(erpc:call(Node, erlang, module_loaded, ['Elixir.Code']))
    after
        dyno_peers:stop(Peer)
    end.

%% Its modules are known only once it is built, and Elixir's own are on the VMs' path.
a_mix_project(Config) ->
    case os:find_executable("mix") of
        false -> {skip, "there is no mix"};
        _ -> a_mix_project(Config, filename:join(proplists:get_value(priv_dir, Config), "mixed"))
    end.

a_mix_project(_Config, Folder) ->
    {ok, Before} = file:get_cwd(),
    ok = filelib:ensure_path(filename:join(Folder, "lib")),
    ok = file:set_cwd(Folder),
    ok = file:write_file(
        "mix.exs",
        ~"""
    defmodule Mixed.MixProject do
      use Mix.Project
      def project, do: [app: :mixed, version: "0.1.0"]
    end

    """
    ),
    ok = file:write_file(".gitignore", "_build\n"),
    Commit = fun(Length, Tag) ->
        Text = [
            "defmodule Mixed do\n  def list, do: Enum.map(:lists.seq(1, ", Length, "), & &1)\nend\n"
        ],
        ok = file:write_file("lib/mixed.ex", Text),
        "ok" = os:cmd(
            "git init -q . && git add -A && git -c user.email=a@b -c user.name=a commit -qm " ++
                Tag ++ " && git tag " ++ Tag ++ " && printf ok"
        )
    end,
    try
        Commit("10", "one"),
        Commit("20", "two"),
        {ok, Revisions} = dyno_bench_revision:parse([~"one..two"]),
        Options = #{revisions => #{revisions => Revisions}, isolated => #{vms => 1}},
        Rows = rows(
            [{elixir, ~"Mixed.list()"}, "'Elixir.Mixed':list()"], Options#{metric => words}
        ),
        ?assertEqual([40.0, 40.0, 80.0, 80.0], lists:sort([V || #{~"value" := V} <- Rows])),
        {error, {_, {code, 1, Reason}}} = dyno_bench:run([{elixir, ~"Mixed.nosuch()"}], Options),
        ?assertMatch(
            {match, _}, re:run(dyno_error:format(Reason), "nosuch/0 is undefined")
        )
    after
        file:set_cwd(Before)
    end.

at_the_command_line(_Config) ->
    {0, Out} = dyno_command:run([
        "bench",
        "--elixir",
        "fn l -> Enum.sort(l) end",
        "&:lists.sort/1",
        "--input",
        "n=Enum.to_list(1..10)",
        "--for",
        "100ms"
    ]),
    ?assertMatch({match, _}, re:run(Out, ~"fn l -> Enum\\.sort\\(l\\) end")),
    ?assertNotMatch({match, _}, re:run(Out, ~"redefining")),
    {2, Wrong} = dyno_command:run(["bench", "--elixir", "foo(1"]),
    ?assertMatch(<<"dyno: ", _/binary>>, Wrong).

%% An Erlang that has none beside it, and a PATH without it: the same function by hand.
without_elixir(_Config) ->
    Sentence = unicode:characters_to_binary(dyno_error:format({dyno_bench_elixir, no_elixir})),
    ?assertMatch({match, _}, re:run(Sentence, "^Elixir is not installed.*; install Elixir")),
    ?assertEqual(
        3,
        dyno_error:exit_status(
            dyno_bench_code:in_code(1, {dyno_bench_elixir, no_elixir})
        )
    ).
