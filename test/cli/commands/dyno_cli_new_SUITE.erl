%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_new_SUITE).
-moduledoc "`dyno new`: what it writes runs, and nothing that is there is lost.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        lists_what_there_is,
        suite_runs,
        suite_of_project,
        benchmark_runs,
        elixir_runs,
        mistakes,
        overwrites_nothing
    ].

file(Name, Config) ->
    filename:join(proplists:get_value(priv_dir, Config), Name).

new(Arguments) ->
    dyno_command:run(["new" | Arguments]).

contains(Output, Text) ->
    ?assertMatch({_, _}, binary:match(Output, Text), {Text, Output}).

lists_what_there_is(_Config) ->
    {0, Output} = new([]),
    contains(Output, ~"dyno new suite "),
    contains(Output, ~"dyno new benchmark ").

suite_runs(Config) ->
    Root = file("new_suites/shop_perf", Config),
    {0, Output} = new(["suite", Root]),
    contains(Output, ~"run it: dyno test "),
    runs_as_suite(Root ++ ".erl", ~"shop_perf").

%% It measures something, and what it promises can be evaluated.
runs_as_suite(File, Name) ->
    dyno_tries:hold(3, fun() -> runs_once(File, Name) end).

runs_once(File, Name) ->
    {ok, Recording} = dyno_test:run(File, #{
        sizes => [1, 2], duration_ms => 600, warmup_ms => 50, control => false
    }),
    #{~"status" := ~"complete", ~"name" := Name, ~"runs" := Runs, ~"verdicts" := Verdicts} =
        Recording,
    [
        begin
            [#{~"rows" := Rows}] = dyno_recording:tables(Run, ~"functions"),
            ?assertNotEqual([], Rows),
            ?assertEqual([], dyno_recording:tables(Run, ~"errors"))
        end
     || Run <- Runs
    ],
    ?assertEqual([], [V || #{~"result" := ~"unknown"} = V <- Verdicts]),
    ?assertEqual([], filelib:wildcard(binary_to_list(Name) ++ "*.log")).

%% In a project it is of the project's application: it starts it, names its functions and some to
%% call.
suite_of_project(Config) ->
    Folder = file("project", Config),
    Ebin = filename:join(Folder, "ebin"),
    [ok = filelib:ensure_path(filename:join(Folder, Of)) || Of <- ["src", "ebin"]],
    Resource = {application, shop, [{vsn, "1"}, {modules, [shop_price]}, {applications, [kernel]}]},
    Texts = [
        {"rebar.config", "{erl_opts, [debug_info]}."},
        {"src/shop.app.src", io_lib:format("~p.~n", [Resource])},
        {"ebin/shop.app", io_lib:format("~p.~n", [Resource])},
        {"src/shop_price.erl",
            "-module(shop_price). -export([price/1, start_link/0, x/0]).\n"
            "price(N) -> N. start_link() -> ignore. x() -> ok.\n"}
    ],
    [ok = file:write_file(filename:join(Folder, Name), Text) || {Name, Text} <- Texts],
    {ok, shop_price} = compile:file(filename:join(Folder, "src/shop_price"), [{outdir, Ebin}]),
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Folder),
    try
        {0, _} = dyno_command:run(["new", "suite", "perf/shop_perf"], [{"ERL_FLAGS", "-pa ebin"}]),
        {ok, Text} = file:read_file("perf/shop_perf.erl"),
        contains(Text, ~"applications => [shop]"),
        contains(Text, ~"place of this one, such as shop_price:price/1.\n"),
        {0, Output} = dyno_command:run(
            ["test", "perf/shop_perf.erl", "--pa", "ebin", "--sizes", "1", "--for", "300ms"]
        ),
        contains(Output, ~"no measured function was called"),
        %% Where it could not be started, the example is one that runs anywhere.
        {0, _} = new(["suite", "perf/other_perf"]),
        {ok, Other} = file:read_file("perf/other_perf.erl"),
        contains(Other, ~"logger"),
        %% So it is in a clone of dyno: the program `dyno` has the application in its archive, which
        %% no other node has.
        Beam = filename:join(Ebin, "shop_price.beam"),
        {ok, Code} = file:read_file(Beam),
        {ok, Archive} = zip:create("shop.ez", [
            {"shop/ebin/shop.app", list_to_binary(io_lib:format("~p.~n", [Resource]))},
            {"shop/ebin/shop_price.beam", Code}
        ]),
        InArchive = "-pa " ++ Archive ++ "/shop/ebin",
        {0, _} = dyno_command:run(["new", "suite", "perf/third_perf"], [{"ERL_FLAGS", InArchive}]),
        {ok, Third} = file:read_file("perf/third_perf.erl"),
        contains(Third, ~"logger")
    after
        ok = file:set_cwd(Before)
    end.

benchmark_runs(Config) ->
    %% An ending that is given is not doubled.
    File = file("find_bench.erl", Config),
    {0, Output} = new(["benchmark", File]),
    contains(Output, ~"run it: dyno bench "),
    {0, Bench} = dyno_command:run(["bench", File, "--for", "100ms"]),
    contains(Bench, ~"find_bench.erl: complete, 3 runs").

elixir_runs(Config) ->
    case os:find_executable("elixir") of
        false ->
            {skip, "Elixir is not installed"};
        _ ->
            Root = file("cart_perf", Config),
            {0, _} = new(["suite", Root, "--elixir"]),
            runs_as_suite(Root ++ ".exs", ~"cart_perf"),
            Benchmark = file("look_bench", Config),
            {0, _} = new(["benchmark", Benchmark, "--elixir"]),
            Options = #{budget_ms => 60},
            {ok, #{~"status" := ~"complete", ~"runs" := [_, _, _]}} =
                dyno_bench:run_file(Benchmark ++ ".exs", Options),
            ok = file:write_file(Benchmark ++ ".exs", "defmodule A do\n  def a, do: b\nend\n"),
            {error, Broken} = dyno_bench:run_file(Benchmark ++ ".exs", Options),
            contains(dyno:format_error(Broken), ~"look_bench.exs:2: undefined variable"),
            ok = file:write_file(Benchmark ++ ".exs", "defmodule A do\nend\n"),
            {error, Empty} = dyno_bench:run_file(Benchmark ++ ".exs", Options),
            contains(dyno:format_error(Empty), ~"does not export benchmarks/0")
    end.

mistakes(Config) ->
    [
        begin
            {2, Output} = new(Arguments),
            contains(Output, Part),
            ?assertEqual(1, length(binary:matches(Output, ~"\n")), Output)
        end
     || {Arguments, Part} <- [
            {["suite"], ~"give a name: dyno new suite NAME"},
            {["suit", "x"], ~"writes a suite or benchmark, not a suit; did you mean suite?"},
            {["suite", file("Shop", Config)], ~"\"Shop\" is no module's name"},
            {["suite", file("lists", Config)], ~"there is a module lists"}
        ]
    ],
    {2, Output} = new(["suite", "/dev/null/x"]),
    contains(Output, ~"/dev/null/x.erl: cannot be written: /dev/null is not a folder").

overwrites_nothing(Config) ->
    File = file("kept.erl", Config),
    ok = file:write_file(File, "kept"),
    {2, Output} = new(["suite", file("kept", Config)]),
    contains(Output, ~"kept.erl is there already"),
    ?assertEqual({ok, ~"kept"}, file:read_file(File)).
