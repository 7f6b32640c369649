%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_code_SUITE).
-moduledoc "What a project has built is on the code path of the program, without an option.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        commands_find_it,
        last_built_is_taken,
        protocols_come_first,
        nearest,
        others_code_is_not_run,
        one_option
    ].

init_per_suite(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    [{server, dyno_command:start(#{folder => Folder, environment => []})} | Config].

end_per_suite(Config) ->
    dyno_command:stop(proplists:get_value(server, Config)).

init_per_testcase(Case, Config) ->
    Work = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Work),
    [{work, Work} | Config].

end_per_testcase(_Case, _Config) -> ok.

%% From a folder below as well; a test's target has it, too.
commands_find_it(Config) ->
    Root = project(Config, "rebar.config"),
    built(Root, "_build/default/lib/shop/ebin", 1),
    ok = file:write_file(
        filename:join(Root, "calls.erl"),
        ~"""
    -module(calls).
    -behaviour(dyno_suite).
    -export([suite/0, init_run/2, init_worker/2, operation/1]).
    suite() -> #{sizes => [1], warmup_ms => 0, duration_ms => 300, level => off}.
    init_run(_, _) ->
        {ok, Node} = dyno_peer:start(#{}),
        {ok, [Node], Node}.
    init_worker(_, Node) -> {ok, Node}.
    operation(Node) ->
        1 = erpc:call(Node, built_for_test, built, []),
        {ok, Node}.
    """
    ),
    Below = filename:join(Root, "perf/deep"),
    ok = filelib:ensure_path(Below),
    [
        begin
            {Status, Out, Errors} = ask(Config, Below, Arguments),
            ?assertEqual({hd(Arguments), 0}, {hd(Arguments), Status}, {Out, Errors})
        end
     || Arguments <- [
            ["bench", "1 = built_for_test:built().", "--for", "20ms"],
            ["bench", "1 = built_for_test:built().", "-i", "--vms", "1", "--for", "20ms"],
            ["profile", "--eval", "1 = built_for_test:built()", "--for", "300ms"],
            ["test", "../../calls.erl", "--without", "control"]
        ]
    ].

last_built_is_taken(Config) ->
    Root = project(Config, "rebar.config"),
    Files = [
        built(Root, "_build/" ++ P ++ "/lib/shop/ebin", N)
     || {P, N} <- [{"default", 1}, {"test", 2}]
    ],
    [
        begin
            [ok = file:change_time(File, {{2026, 1, 1}, {0, 0, 0}}) || File <- Files],
            ok = file:change_time(Last, {{2026, 1, 2}, {0, 0, 0}}),
            {0, _, Note} = ask(Config, Root, [
                "bench",
                lists:concat([N, " = built_for_test:built()."]),
                "-i",
                "--vms",
                "1",
                "--for",
                "20ms",
                "-v"
            ]),
            ?assertMatch({_, _}, binary:match(Note, Profile), Note)
        end
     || {N, Last, Profile} <- lists:zip3([1, 2], Files, [~"_build/default", ~"_build/test"])
    ].

%% Without them Elixir asks at each call which implementation there is.
protocols_come_first(Config) ->
    Root = project(Config, "mix.exs"),
    [built(Root, "_build/dev/lib/shop/" ++ Kind, 1) || Kind <- ["ebin", "consolidated"]],
    {"_build/dev", Folders} = dyno_built:folders(Root, fun length/1),
    ?assertEqual(["consolidated", "ebin"], [filename:basename(F) || F <- Folders]).

%% An application of an umbrella has a build file, too, but no builds.
nearest(Config) ->
    Root = project(Config, "mix.exs"),
    built(Root, "_build/dev/lib/shop/ebin", 1),
    Application = filename:join(Root, "apps/shop/lib"),
    ok = filelib:ensure_path(Application),
    ok = file:write_file(filename:join(Root, "apps/shop/mix.exs"), ~""),
    ?assertEqual({ok, Root}, dyno_cli_code:project(Application)),
    Inner = filename:join(Root, "apps/shop"),
    built(Inner, "_build/dev/lib/shop/ebin", 1),
    ?assertEqual({ok, Inner}, dyno_cli_code:project(Application)).

%% Whoever may write to a folder above would have code run with another's rights.
others_code_is_not_run(Config) ->
    Root = project(Config, "rebar.config"),
    built(Root, "_build/default/lib/shop/ebin", 1),
    Mine = filename:join(Root, "mine"),
    ok = filelib:ensure_path(Mine),
    ?assertEqual({ok, Root}, dyno_cli_code:project(Mine)),
    Build = filename:join(Root, "_build"),
    case file:change_owner(Build, 65534) of
        ok -> ?assertNotEqual({ok, Root}, dyno_cli_code:project(Mine));
        {error, eperm} -> {skip, "only root can give a folder to another user"}
    end.

one_option(Config) ->
    Root = project(Config, "none"),
    built(Root, "here", 1),
    Bench = ["bench", "1 = built_for_test:built().", "--for", "20ms"],
    Profile = ["profile", "--eval", "1 = built_for_test:built()", "--for", "300ms"],
    [
        {0, _, _} = ask(Config, Root, Line ++ Option)
     || {Line, Option} <- [
            {Bench, ["-pa", "here"]},
            {Bench, ["--pa", "here"]},
            {Bench, ["-pa=here"]},
            {Profile, ["-pa", "here"]}
        ]
    ],
    [
        {2, _, _} = ask(Config, Root, [Command | Arguments])
     || {Command, Arguments} <- [
            {"test", ["missing", "-pa", "nowhere"]}, {"verify", ["missing", "-pa", "nowhere"]}
        ]
    ].

%% Helpers

ask(Config, Folder, Arguments) ->
    dyno_command:ask(proplists:get_value(server, Config), Folder, Arguments).

project(Config, BuildFile) ->
    Root = filename:join(proplists:get_value(work, Config), "project"),
    ok = filelib:ensure_path(Root),
    ok = file:write_file(filename:join(Root, BuildFile), ~""),
    Root.

built(Root, Folder, Value) ->
    Path = filename:join(Root, Folder),
    ok = filelib:ensure_path(Path),
    ok = dyno_peers:save(
        Path,
        lists:concat([
            "-module(built_for_test). -export([built/0]). built() -> ", Value, ". "
        ])
    ),
    filename:join(Path, "built_for_test.beam").
