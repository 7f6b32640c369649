%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_plugin_SUITE).
-moduledoc "dyno in real projects of the real rebar3 and Mix, and where it finds their suites.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

%% What the build tools do with an ending, an interrupt and a new file: not on each commit.
slow() ->
    [
        rebar3_fails,
        rebar3_bench,
        rebar3_interrupted,
        rebar3_ends,
        mix_test,
        mix_new,
        mix_bench,
        mix_fails,
        mix_interrupted,
        rebar3_help,
        rebar3_ci,
        mix_ci,
        rebar3_new
    ].

all() ->
    [
        arguments_are_kept,
        suites_are_found,
        several_need_no_output,
        new_files_are_found,
        settings_of_mix,
        tasks_of_mix,
        environments_are_texts,
        {group, rebar3},
        {group, mix}
    ].

groups() ->
    [
        {rebar3, [sequence], [
            rebar3_help,
            rebar3_new,
            rebar3_test,
            rebar3_fails,
            rebar3_mistakes,
            rebar3_bench,
            rebar3_interrupted,
            rebar3_ends,
            rebar3_ci
        ]},
        {mix, [sequence], [mix_test, mix_new, mix_bench, mix_fails, mix_interrupted, mix_ci]}
    ].

init_per_group(rebar3, Config) ->
    case os:find_executable("rebar3") of
        false -> {skip, "there is no rebar3 on the PATH"};
        Rebar3 -> [{program, Rebar3}, {project, rebar3_project(Config)} | Config]
    end;
init_per_group(mix, Config) ->
    case {os:find_executable("mix"), os:find_executable("rebar3")} of
        {false, _} -> {skip, "there is no mix on the PATH: Elixir is not installed"};
        {_, false} -> {skip, "there is no rebar3 on the PATH, with which Mix compiles dyno"};
        {Mix, _} -> [{program, Mix}, {project, mix_project(Config)} | Config]
    end.

end_per_group(_Group, _Config) ->
    ok.

%% What is run, without a project

in_folder(Files, Config, Do) ->
    Name = integer_to_list(erlang:unique_integer([positive])),
    Folder = filename:join([proplists:get_value(priv_dir, Config), "plans", Name]),
    ok = filelib:ensure_path(Folder),
    ok = write(Folder, Files),
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Folder),
    try
        Do()
    after
        file:set_cwd(Before)
    end.

rebar3_settings() -> #{program => "rebar3 dyno ", extensions => [".erl"]}.

-define(SUITE_TEXT, ~"-behaviour(dyno_suite).").
-define(BENCH_TEXT, ~"-behaviour(dyno_bench_file).").

arguments_are_kept(_Config) ->
    Plan = fun(Arguments) -> dyno_cli_project:plan(Arguments, rebar3_settings()) end,
    [
        ?assertEqual({ok, [Arguments]}, Plan(Arguments))
     || Arguments <- [
            [],
            ["report", "a.json"],
            ["compare", "a", "b"],
            ["test", "--help"],
            ["test", "a.erl", "--sizes", "1,2"],
            ["test", "--nonsense"],
            ["bench", "ok.", "-c", "2"],
            ["nonsense"]
        ]
    ].

suites_are_found(Config) ->
    Files = [
        {"perf/shop.erl", ?SUITE_TEXT},
        {"perf/sort_bench.erl", ?BENCH_TEXT},
        {"perf/data.erl", ~"-module(data)."},
        {"test/cart_perf.erl", ?SUITE_TEXT}
    ],
    in_folder(Files, Config, fun suites_are_found_here/0).

suites_are_found_here() ->
    Settings = rebar3_settings(),
    Plan = fun(Arguments, With) ->
        dyno_cli_project:plan(Arguments, maps:merge(Settings, With))
    end,
    ?assertEqual(
        {ok, [["test", "perf/shop.erl", "-q"], ["test", "test/cart_perf.erl", "-q"]]},
        Plan(["test", "-q"], #{})
    ),
    ?assertEqual({ok, [["test", "test/cart_perf.erl"]]}, Plan(["test", "cart_perf"], #{})),
    ?assertEqual({ok, [["bench", "perf/sort_bench.erl"]]}, Plan(["bench"], #{})),
    ?assertEqual({ok, [["bench", "sort_bench."]]}, Plan(["bench", "sort_bench."], #{})),
    %% A value is no name.
    ?assertEqual(
        {ok, [["test", "perf/shop.erl", "--cookie", "cart_perf"]]},
        Plan(["test", "shop", "--cookie", "cart_perf"], #{})
    ),
    %% The project's own places and options.
    ?assertEqual(
        {ok, [["test", "perf/data.erl", "--level", "off"]]},
        Plan(["test"], #{suites => ["perf/d*.erl"], test => ["--level", "off"]})
    ),
    {error, Sentence} = Plan(["bench"], #{benchmarks => ["bench/*.erl"]}),
    ?assertEqual(
        "there is nothing to bench: no file bench/*.erl is a benchmark; "
        "rebar3 dyno new benchmark NAME writes one to start from",
        lists:flatten(io_lib:format("~ts", [Sentence]))
    ).

several_need_no_output(Config) ->
    Files = [{"perf/a.erl", ?SUITE_TEXT}, {"perf/b.erl", ?SUITE_TEXT}],
    in_folder(Files, Config, fun several_need_no_output_here/0).

several_need_no_output_here() ->
    [
        begin
            {error, Sentence} = dyno_cli_project:plan(["test" | Output], rebar3_settings()),
            ?assertMatch({_, _}, binary:match(iolist_to_binary(Sentence), ~"one file for the 2"))
        end
     || Output <- [["-o", "x.html"], ["--output", "x.html"], ["--output=x.html"]]
    ],
    {ok, [_]} = dyno_cli_project:plan(["test", "a", "-o", "x.html"], rebar3_settings()).

new_files_are_found(_Config) ->
    Plan = fun(Arguments, Extensions) ->
        Settings = #{program => "x", extensions => Extensions},
        {ok, [Line]} = dyno_cli_project:plan(Arguments, Settings),
        Line
    end,
    ?assertEqual(["new", "suite", "perf/a"], Plan(["new", "suite", "a"], [".erl"])),
    ?assertEqual(["new", "suite", "x/a"], Plan(["new", "suite", "x/a"], [".erl"])),
    ?assertEqual(["new", "benchmark", "perf/a_bench"], Plan(["new", "benchmark", "a"], [".erl"])),
    ?assertEqual(["new", "suite", "perf/a", "--elixir"], Plan(["new", "suite", "a"], [".exs"])),
    ?assertEqual(
        ["new", "suite", "perf/a", "--elixir"], Plan(["new", "suite", "a", "--elixir"], [".exs"])
    ),
    ?assertEqual(
        ["new", "benchmark", "perf/a_bench", "--elixir"], Plan(["new", "benchmark", "a"], [".exs"])
    ),
    ?assertEqual(["new"], Plan(["new"], [".exs"])),
    %% What is typed under Mix is Elixir.
    ?assertEqual(
        ["bench", "--elixir", "Shop.price(3)"], Plan(["bench", "Shop.price(3)"], [".exs"])
    ),
    ?assertEqual(["bench", "--erlang", "ok"], Plan(["bench", "--erlang", "ok"], [".exs"])),
    ?assertEqual(["bench", "ok"], Plan(["bench", "ok"], [".erl"])).

settings_of_mix(_Config) ->
    ?assertMatch(
        {ok, #{suites := ["x/*.exs"], test := ["-q"], program := "mix dyno."}},
        dyno_mix:settings([{suites, [~"x/*.exs"]}, {test, [~"-q"]}])
    ),
    [
        ?assertMatch({error, _}, dyno_mix:settings(Bad))
     || Bad <- [[{suites, ~"x"}], [{nonsense, []}], x, [{suites, ["x"]}]]
    ].

environments_are_texts(_Config) ->
    Kept = [{a, [1, ~"b", {c, #{d => 1.5}}]}, {b, fun lists:sort/1}],
    Lost = [{c, self()}, {d, #{e => make_ref()}}, {f, fun() -> ok end}, {g, [1 | self()]}],
    ?assertEqual([{shop, Kept}], dyno_mix:environment([{shop, Kept ++ Lost}, {cart, Lost}])).

%% rebar3

rebar3_project(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "rebar3_project"),
    %% Not in _checkouts: rebar3 compiles what is there twice.
    Package = filename:join(proplists:get_value(priv_dir, Config), "package"),
    ok = packaged(Package),
    ok = write(Folder, [
        {"rebar.config", [
            io_lib:format("{plugins, [{dyno, {git, ~0p, {branch, \"main\"}}}]}.~n", [
                "file://" ++ Package
            ]),
            "{dyno, [{test, [\"--for\", \"200ms\", \"--warmup\", \"50ms\","
            " \"--without\", \"control\"]},"
            " {config, \"config/sys.config\"}]}.\n"
        ]},
        {"config/sys.config", "[{shop, [{currency, \"EUR\"}]}].\n"},
        {"src/shop.app.src",
            "{application, shop, [{description, \"A shop\"}, {vsn, \"1\"},"
            " {applications, [kernel, stdlib]}]}.\n"},
        {"src/shop.erl",
            "-module(shop).\n-export([price/1]).\n"
            "price(N) ->\n"
            "    Configured = {application:get_env(shop, currency), application:get_key(shop, vsn)},\n"
            "    true = lists:member(Configured, [{{ok, \"EUR\"}, {ok, \"1\"}}, {undefined, undefined}]),\n"
            "    lists:sum(lists:seq(1, N)).\n"}
    ]),
    Folder.

%% What rebar3's plugin for Hex packs where the application's file names nothing else, so that dyno
%% is built here from what its package holds, without a network.
packaged(To) ->
    Root = dyno_project:root(),
    Packed = [
        "src/**",
        "c_src/**",
        "include/**",
        "priv/**",
        "rebar.config",
        "rebar.lock",
        "CHANGELOG*",
        "README*",
        "LICENSE*",
        "NOTICE"
    ],
    lists:foreach(
        fun(Name) ->
            File = filename:join(To, Name),
            ok = filelib:ensure_dir(File),
            {ok, _} = file:copy(filename:join(Root, Name), File)
        end,
        [
            Name
         || Wildcard <- Packed,
            Name <- filelib:wildcard(Wildcard, Root),
            filelib:is_regular(filename:join(Root, Name)),
            not lists:member(filename:extension(Name), [".so", ".o"])
        ]
    ),
    Git =
        "git init -q -b main . && git add -A -f . && "
        "git -c user.name=a -c user.email=a@b commit -q -m Package",
    {0, _} = shell(Git, [{project, To}, {priv_dir, To}]),
    ok.

rebar3_help(Config) ->
    {0, Output} = run(["help", "dyno"], Config),
    Commands = [
        iolist_to_binary(["rebar3 dyno ", string:pad(Name, 16), Help])
     || {Name, _, Help} <- dyno_commands:all()
    ],
    contains(Output, [~"perf/*.erl" | Commands]).

%% Mix finds the command by the module that `make format` has written.
tasks_of_mix(_Config) ->
    [
        begin
            Module = list_to_atom("Elixir.Mix.Tasks.Dyno." ++ string:titlecase(Name)),
            ?assertEqual(
                [iolist_to_binary(["dyno: ", Help])],
                proplists:get_value(shortdoc, Module:module_info(attributes))
            ),
            ?assert(erlang:function_exported(Module, run, 1)),
            ?assertEqual(Module, Module:'__info__'(module))
        end
     || {Name, _, Help} <- dyno_commands:all()
    ].

%% The lines and the suite of doc/start.md, one after the other in these cases.
rebar3_new(Config) ->
    [New] = dyno_documents:commands("doc/start.md", "rebar3 dyno new"),
    {0, Output} = run(arguments(New), Config),
    contains(Output, [~"perf/shop_perf.erl is written; run it: rebar3 dyno test"]),
    {0, _} = run(["dyno", "new", "benchmark", "sort"], Config),
    %% shop is a module of the project, on the code path.
    {2, Refused} = run(["dyno", "new", "suite", "shop"], Config),
    contains(Refused, [~"there is a module shop ("]).

%% The project's code is measured, with its configuration, by a suite that is found.
rebar3_test(Config) ->
    Folder = proplists:get_value(project, Config),
    ok = suite_of_start(~"erlang", Config),
    [Test] = dyno_documents:commands("doc/start.md", "rebar3 dyno test"),
    {0, Output} = run(arguments(Test), Config),
    contains(Output, [~"shop_perf: complete, 3 runs", ~"shop:price/1", ~"PASSED: all 2 thresholds"]),
    %% The page with its charts, and the clock NIF where there is a C compiler.
    {ok, Page} = file:read_file(filename:join(Folder, "shop.html")),
    contains(Page, [~"<script"]),
    Priv = filename:join(Folder, "_build/default/plugins/dyno/priv"),
    Nif = filelib:wildcard(filename:join(Priv, "nif-*/dyno_clock_nif.so")),
    ?assertEqual(os:find_executable("cc") =/= false, Nif =/= []).

%% The line of doc/ci.md, where it shuts the gate: as an annotation, in a file of JUnit's, by its
%% status.
rebar3_fails(Config) ->
    Folder = proplists:get_value(project, Config),
    ok = suite_of_start(~"erlang", Config),
    [Gate | _] = dyno_documents:commands("doc/ci.md", "rebar3 dyno test"),
    {1, Output} = run(arguments(Gate) ++ ["--threshold", "latency.p99 < 1 ns"], Config),
    contains(Output, [~"::error"]),
    {ok, Junit} = file:read_file(filename:join(Folder, "perf.xml")),
    contains(Junit, [~"<failure"]),
    {ok, _} = dyno_recording_file:read(filename:join(Folder, "perf.json")).

rebar3_mistakes(Config) ->
    {2, Output} = run(["dyno", "test", "--sizs", "1"], Config),
    contains(Output, [~"dyno: dyno test has no option --sizs; did you mean --sizes?"]).

%% The file that `new` wrote, and code of the project with options that rebar3 does not know.
rebar3_bench(Config) ->
    Written = filename:join(proplists:get_value(project, Config), "perf/sort_bench.erl"),
    New = ["dyno", "new", "benchmark", "sort"],
    _ = [{0, _} = run(New, Config) || not filelib:is_regular(Written)],
    {0, Files} = run(["dyno", "bench", "--for", "100ms"], Config),
    contains(Files, [~"sort_bench.erl: complete, 3 runs"]),
    [Bench] = dyno_documents:commands("doc/start.md", "rebar3 dyno bench"),
    {0, _} = run(arguments(Bench), Config),
    {0, Code} = run(
        ["dyno", "bench", "lists:seq(1, 3).", "-d", "50", "-s", "2", "-pa", "."], Config
    ),
    contains(Code, [~"lists:seq(1, 3)."]),
    {3, Ended} = run(["dyno", "bench", "halt(0)."], Config),
    contains(Ended, [~"dyno: its Erlang VM ended before dyno was done", ~"(status 0)"]).

rebar3_interrupted(Config) ->
    ok = suite_of_start(~"erlang", Config),
    interrupted("dyno test shop_perf", Config).

%% Where rebar3's emulator is killed dyno's must take down its test, and end, too.
rebar3_ends(Config) ->
    ok = suite_of_start(~"erlang", Config),
    Recording = filename:join(proplists:get_value(project, Config), "ended.json"),
    Port = start(["dyno", "test", "shop_perf", "--for", "120s", "-v", "-o", "ended.json"], Config),
    {os_pid, OsPid} = erlang:port_info(Port, os_pid),
    ok = wait_for(Port, ~"measuring"),
    %% rebar3 is a script that became the emulator.
    "" = os:cmd("kill -9 " ++ integer_to_list(OsPid)),
    %% The standard streams are closed when the last emulator has ended.
    _ = rest(Port, <<>>),
    {ok, #{~"status" := ~"interrupted"}} = dyno_recording_file:read(Recording).

%% What a runner would run, of the files of doc/ci.md. The branch that a pull request is for is
%% there as on a runner; dyno, which a runner brings, is in the repository.
rebar3_ci(Config) ->
    ok = suite_of_start(~"erlang", Config),
    {0, _} = shell(
        "git init -q -b main . && git add -A -f . && "
        "git -c user.name=a -c user.email=a@b commit -q -m Begin && "
        "git update-ref refs/remotes/origin/main HEAD",
        Config
    ),
    Lines = ci_lines(~"rebar3 "),
    ?assertMatch([_, _, _], Lines),
    [runs_in_ci(Line, Config) || Line <- Lines].

mix_ci(Config) ->
    ok = suite_of_start(~"elixir", Config),
    %% That of another case: one file is for one suite.
    _ = file:delete(filename:join(proplists:get_value(project, Config), "perf/log.exs")),
    Lines = ci_lines(~"mix "),
    ?assertMatch([_, _], Lines),
    [runs_in_ci(Line, Config) || Line <- Lines].

ci_lines(Program) ->
    Pattern = ["(?m)^ *- (?:run: )?(", Program, ".*)$"],
    lists:append([
        Lines
     || Block <- dyno_documents:blocks("doc/ci.md"),
        {match, Found} <- [re:run(Block, Pattern, [global, {capture, [1], binary}])],
        Lines <- [lists:append(Found)]
    ]).

runs_in_ci(Line, Config) ->
    Branch = binary:replace(Line, ~"${{ github.base_ref }}", ~"main"),
    {Status, Output} = shell(Branch, Config),
    ?assertEqual(0, Status, {Line, Output}),
    Project = proplists:get_value(project, Config),
    [
        begin
            File = filename:join(Project, Name),
            ?assert(filelib:file_size(File) > 0, {Line, Name}),
            ok = file:delete(File)
        end
     || {match, Names} <- [re:run(Line, "-o (\\S+)", [global, {capture, [1], list}])],
        [Name] <- Names
    ].

shell(Line, Config) ->
    run(["-c", unicode:characters_to_list(Line)], [{program, "/bin/sh"} | Config]).

%% Mix

mix_project(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "mix_project"),
    ok = write(Folder, [
        {"mix.exs", [
            "defmodule Shop.MixProject do\n  use Mix.Project\n"
            "  def project, do: [app: :shop, version: \"0.1.0\", deps: deps(),"
            " dyno: [test: [\"--for\", \"200ms\", \"--warmup\", \"50ms\","
            " \"--without\", \"control\"]]]\n"
            "  defp deps, do: [{:dyno, path: ",
            io_lib:format("~0tp", [dyno_project:root()]),
            ", runtime: false}]\nend\n"
        ]},
        {"config/config.exs", "import Config\nconfig :shop, currency: \"EUR\"\n"},
        {"lib/shop.ex",
            "defmodule Shop do\n  def price(n) do\n    \"EUR\" = currency()\n    Enum.sum(1..n)\n  end\n"
            "  def currency, do: Application.fetch_env!(:shop, :currency)\nend\n"}
    ]),
    Folder.

%% The lines, the suite and the assertion of doc/start.md.
mix_test(Config) ->
    Folder = proplists:get_value(project, Config),
    [New] = dyno_documents:commands("doc/start.md", "mix dyno.new"),
    {0, Written} = run(arguments(New), Config),
    contains(Written, [~"perf/shop_perf.exs is written; run it: mix dyno.test"]),
    [Assertion] = [B || <<"import Dyno", _/binary>> = B <- dyno_documents:blocks("doc/start.md")],
    ok = suite_of_start(~"elixir", Config),
    ok = write(Folder, [
        {"test/test_helper.exs", "ExUnit.start()\n"},
        {"test/shop_test.exs", ["defmodule ShopTest do\n  use ExUnit.Case\n", Assertion, "\nend\n"]}
    ]),
    [Test] = dyno_documents:commands("doc/start.md", "mix dyno.test"),
    {0, Output} = run(arguments(Test), Config),
    contains(Output, [~"complete, 3 runs", ~"Shop.price/1", ~"PASSED: all 2 thresholds hold"]),
    {0, _} = run(["test"], Config),
    Costly = binary:replace(Assertion, ~"words < 500", ~"words < 0"),
    ok = write(Folder, [
        {"test/shop_test.exs", ["defmodule ShopTest do\n  use ExUnit.Case\n", Costly, "\nend\n"]}
    ]),
    {Failed, Why} = run(["test"], Config),
    ?assert(Failed > 0),
    contains(Why, [~"words_per_call is "]).

%% What `new` writes runs at once.
mix_new(Config) ->
    {0, Output} = run(["dyno.new", "suite", "log"], Config),
    contains(Output, [~"perf/log.exs is written"]),
    {0, Test} = run(["dyno.test", "log", "--sizes", "1", "-o", "log.json"], Config),
    contains(Test, [~"log: complete, 1 run", ~"no measured function was called"]),
    {ok, Text} = file:read_file(
        filename:join(proplists:get_value(project, Config), "perf/log.exs")
    ),
    contains(Text, [~"applications: [:shop]", ~"such as Shop.price/1"]).

mix_bench(Config) ->
    {0, Output} = run(["dyno.bench", "Shop.currency()", "--for", "100ms"], Config),
    contains(Output, [~"Shop.currency(): complete"]),
    {3, Ended} = run(["dyno.bench", "--erlang", "halt(0)."], Config),
    contains(Ended, [~"dyno: its Erlang VM ended before dyno was done", ~"(status 0)"]).

mix_fails(Config) ->
    ok = suite_of_start(~"elixir", Config),
    {1, Output} =
        run(
            ["dyno.test", "shop_perf", "--threshold", "latency.p99 < 1 ns", "-o", "p.json"], Config
        ),
    contains(Output, [~"FAILED"]).

mix_interrupted(Config) ->
    ok = suite_of_start(~"elixir", Config),
    interrupted("dyno.test shop_perf", Config).

%% Ctrl-C on a terminal: no menu, the test is taken down, what was measured is kept, and the key
%% means afterwards what it did before.
interrupted(Command, Config) ->
    Recording = filename:join(proplists:get_value(project, Config), "interrupted.json"),
    %% A shell that is used by hand lives on when the key's signal comes; one with a script does
    %% not.
    Line = lists:flatten([
        "trap : QUIT; '",
        proplists:get_value(program, Config),
        "' ",
        Command,
        " --for 120s -o interrupted.json; Status=$?; stty -a; exit $Status"
    ]),
    Script = os:find_executable("script"),
    Port = start(["-qec", Line, "/dev/null"], [{program, Script} | Config]),
    ok = wait_for(Port, ~"measuring"),
    true = port_command(Port, <<3>>),
    {130, Output} = rest(Port, <<>>),
    contains(Output, [~"dyno: stopping", ~"INTERRUPTED", ~"intr = ^C"]),
    ?assertEqual(nomatch, binary:match(Output, ~"BREAK")),
    {ok, #{~"status" := ~"interrupted"}} = dyno_recording_file:read(Recording).

%% Of a line in a document: after the name of the build tool.
arguments(Line) ->
    tl(dyno_documents:words(Line)).

%% Writes the suite of doc/start.md; each case that needs it does, as it may run without the others.
suite_of_start(Language, Config) ->
    [Suite] = [
        Block
     || Block <- dyno_documents:blocks("doc/start.md", Language),
        string:find(Block, "dyno_suite") =/= nomatch
    ],
    File =
        case Language of
            ~"erlang" -> "perf/shop_perf.erl";
            ~"elixir" -> "perf/shop_perf.exs"
        end,
    write(proplists:get_value(project, Config), [{File, Suite}]).

%% Projects and programs

write(Folder, Files) ->
    lists:foreach(
        fun({Name, Text}) ->
            File = filename:join(Folder, Name),
            ok = filelib:ensure_dir(File),
            ok = file:write_file(File, Text)
        end,
        Files
    ).

run(Arguments, Config) ->
    rest(start(Arguments, Config), <<>>).

start(Arguments, Config) ->
    Home = proplists:get_value(priv_dir, Config),
    open_port({spawn_executable, proplists:get_value(program, Config)}, [
        {args, Arguments},
        {cd, proplists:get_value(project, Config)},
        {env, [
            %% Nobody's own folders are touched, and nothing of this build is seen.
            {"HOME", Home},
            {"MIX_HOME", filename:join(Home, "mix")},
            {"HEX_HOME", filename:join(Home, "hex")},
            {"MIX_REBAR3", os:find_executable("rebar3")},
            {"REBAR_CACHE_DIR", filename:join(Home, "rebar3")},
            {"REBAR_OFFLINE", "1"},
            {"REBAR_BASE_DIR", false},
            {"REBAR_PROFILE", false},
            {"DYNO_OTP_PATH", false},
            {"ERL_LIBS", false},
            {"ERL_FLAGS", false},
            %% Nothing is measured, and dyno compiles in half the time.
            {"ERL_COMPILER_OPTIONS", "[no_copt,no_ssa_opt]"}
        ]},
        exit_status,
        stderr_to_stdout,
        binary
    ]).

rest(Port, Output) ->
    receive
        {Port, {data, More}} ->
            rest(Port, <<Output/binary, More/binary>>);
        {Port, {exit_status, Status}} ->
            ct:log("~ts~nstatus ~b", [Output, Status]),
            {Status, Output}
    end.

wait_for(Port, Text) ->
    wait_for(Port, Text, <<>>).

wait_for(Port, Text, Before) ->
    receive
        {Port, {data, More}} ->
            Output = <<Before/binary, More/binary>>,
            case binary:match(Output, Text) of
                nomatch -> wait_for(Port, Text, Output);
                _ -> ok
            end;
        {Port, {exit_status, Status}} ->
            ct:fail({ended, Status, Before})
    end.

contains(Output, Texts) ->
    [?assertMatch({_, _}, binary:match(Output, Text), {Text, Output}) || Text <- Texts],
    ok.
