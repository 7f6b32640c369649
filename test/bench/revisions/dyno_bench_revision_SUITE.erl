%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_revision_SUITE).
-moduledoc "Revisions of a project: in a git repository that is made here, built with real tools.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        revisions,
        slips_are_refused,
        two_revisions_are_compared,
        words_gate,
        words_that_pass_the_gate,
        the_working_tree,
        submodules,
        a_submodule_without_its_commit,
        a_command_of_its_own,
        a_project_in_a_subfolder,
        rebar3_project,
        what_was_fetched_is_copied,
        mistakes,
        ends_with_its_caller,
        ends_when_interrupted
    ].

slow() -> [words_that_pass_the_gate, submodules, words_gate, a_submodule_without_its_commit].

init_per_suite(Config) ->
    case os:find_executable("git") of
        false -> {skip, "there is no git"};
        _ -> Config
    end.

end_per_suite(_Config) ->
    ok.

%% A repository with the tags one and two.
init_per_testcase(Case, Config) ->
    {ok, Before} = file:get_cwd(),
    Temporary = filename:join([proplists:get_value(priv_dir, Config), Case, "tmp"]),
    %% A user's, with a name such as ours once had.
    ok = filelib:ensure_path(filename:join(Temporary, "dyno-2026-results")),
    Outside = dyno_temporary:folder(),
    Remembered = dyno_suites:with_temporary([{outside, Outside} | Config]),
    true = os:putenv("TMPDIR", Temporary),
    Folder = filename:join([proplists:get_value(priv_dir, Config), Case, "project"]),
    ok = filelib:ensure_path(filename:join(Folder, "src")),
    ok = file:set_cwd(Folder),
    {0, _} = sh("git init -q . && git config user.email a@b && git config user.name a"),
    commit(10, "one"),
    commit(200, "two"),
    [{before, Before}, {folder, Folder} | Remembered].

end_per_testcase(_Case, Config) ->
    _ = dyno_suites:without_temporary(Config),
    file:set_cwd(proplists:get_value(before, Config)).

commit(Length, Tag) ->
    write(Length),
    {0, _} = sh("git add -A && git commit -qm " ++ Tag ++ " && git tag " ++ Tag).

write(Length) ->
    ok = file:write_file(
        "src/revised.erl",
        io_lib:format(
            "-module(revised).\n-export([list/0]).\nlist() -> lists:seq(1, ~b).\n", [Length]
        )
    ).

sh(Command) ->
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", Command]}, exit_status, stderr_to_stdout, binary
    ]),
    dyno_command:output(Port).

open(Texts) ->
    open(Texts, #{}).

open(Texts, Options) ->
    {ok, Revisions} = dyno_bench_revision:parse(Texts),
    dyno_bench_revision:open(Options#{revisions => Revisions}, #{}).

%% How long the list is that the built project makes.
length_in(#{code_paths := Paths}) ->
    [File] = [F || P <- Paths, F <- [filename:join(P, "revised.beam")], filelib:is_regular(F)],
    {ok, Binary} = file:read_file(File),
    {module, revised} = code:load_binary(revised, File, Binary),
    Length = length(revised:list()),
    true = code:delete(revised),
    _ = code:purge(revised),
    Length.

revisions(_Config) ->
    Parse = fun dyno_bench_revision:parse/1,
    ?assertEqual({ok, [{revision, ~"a"}, {revision, ~"b"}]}, Parse([~"a..b"])),
    ?assertEqual({ok, [{revision, ~"a"}, {revision, ~"HEAD"}]}, Parse([~"a.."])),
    ?assertEqual({ok, [{revision, ~"HEAD"}, {revision, ~"b"}]}, Parse([~"..b"])),
    ?assertEqual({ok, [{revision, ~"HEAD~1"}, working_tree]}, Parse([~"HEAD~1"])),
    ?assertEqual({ok, [{revision, ~"a"}, {revision, ~"b"}]}, Parse([~"a", ~"b"])),
    [?assertMatch({error, _}, Parse([Text])) || Text <- [~"..", ~"a...b", ~"", ~"--all"]].

slips_are_refused(_Config) ->
    [
        begin
            {error, Reason} = dyno_bench:run(["ok."], #{revisions => Settings}),
            ?assertMatch({match, _}, re:run(dyno_error:format(Reason), Said))
        end
     || {Settings, Said} <- [
            {#{revisions => [working_tree], biuld => "make"}, "biuld; did you mean build\\?"},
            {#{revisoins => [working_tree]}, "no option revisoins; did you mean revisions\\?"},
            {#{build => "make"}, "revisions is \\[\\]; a list of revisions"}
        ]
    ].

two_revisions_are_compared(Config) ->
    {ok, Revisions} = dyno_bench_revision:parse([~"one..two"]),
    Before = sh("git status --porcelain; git worktree list; git stash list; ls -a"),
    %% One VM for each gives no interval; that is the affair of dyno_bench_isolated_SUITE.
    {ok, Document} = dyno_bench:run(["revised:list()."], #{
        revisions => #{revisions => Revisions}, isolated => #{vms => 1}
    }),
    [Run] = dyno_recording:runs(Document),
    [#{~"a" := ~"revised:list(). [two]", ~"b" := ~"revised:list(). [one]", ~"ratio" := Ratio}] =
        dyno_recording:rows(Run, ~"comparisons"),
    ?assert(Ratio > 2),
    ?assertEqual(Before, sh("git status --porcelain; git worktree list; git stash list; ls -a")),
    nothing_left(Config).

%% The project's list is that of a submodule, which has a submodule of its own.
with_submodule(Config) ->
    Base = filename:dirname(proplists:get_value(folder, Config)),
    New = fun(Name, Text) ->
        Folder = filename:join(Base, Name),
        ok = filelib:ensure_path(Folder),
        ok = file:write_file(filename:join(Folder, "length.hrl"), Text),
        {0, _} = sh(
            "cd " ++ Folder ++
                " && git init -q . && git config user.email a@b && "
                "git config user.name a && git add -A && git commit -qm 1"
        ),
        Folder
    end,
    Inner = New("inner", "-define(MORE, 1).\n"),
    Outer = New("outer", "-define(LENGTH, 30).\n"),
    Add = "git -c protocol.file.allow=always submodule --quiet add ",
    {0, _} = sh("cd " ++ Outer ++ " && " ++ Add ++ Inner ++ " deep && git commit -qm 2"),
    {0, _} = sh(Add ++ Outer ++ " sub"),
    {0, _} = sh("git -c protocol.file.allow=always submodule --quiet update --init --recursive"),
    ok = file:write_file("src/revised.erl", [
        "-module(revised).\n-export([list/0]).\n-include(\"../sub/length.hrl\").\n"
        "-include(\"../sub/deep/length.hrl\").\nlist() -> lists:seq(1, ?LENGTH + ?MORE).\n"
    ]),
    {0, _} = sh("git add -A && git commit -qm three && git tag three").

in_submodule(Text) ->
    ok = file:write_file("sub/length.hrl", Text).

submodules(Config) ->
    _ = with_submodule(Config),
    in_submodule("-define(LENGTH, 40).\n"),
    Commit = "git -c user.email=a@b -c user.name=a commit -qam ",
    {0, _} = sh("cd sub && " ++ Commit ++ "3"),
    {0, _} = sh(Commit ++ "four && git tag four"),
    %% Neither in a commit of the submodule nor of the project.
    in_submodule("-define(LENGTH, 50).\n"),
    Before = sh("git status --porcelain; git submodule status --recursive"),
    {ok, #{variants := Variants} = Built} = open([~"three..four", ~"one..two"]),
    ?assertEqual([31, 41, 10, 200], [length_in(V) || V <- Variants]),
    ok = dyno_bench_revision:close(Built),
    {ok, #{variants := [_, Working]} = Of} = open([~"four"]),
    ?assertEqual(51, length_in(Working)),
    ok = dyno_bench_revision:close(Of),
    ?assertEqual(Before, sh("git status --porcelain; git submodule status --recursive")),
    %% One that the files have no longer.
    {0, _} = sh("git checkout -qf one && rm -rf sub"),
    {ok, #{variants := [Old, _]} = Kept} = open([~"three..two"]),
    ?assertEqual(31, length_in(Old)),
    ok = dyno_bench_revision:close(Kept),
    nothing_left(Config).

%% As after a pull without an update of the submodules.
a_submodule_without_its_commit(Config) ->
    _ = with_submodule(Config),
    Absent = "1234567890123456789012345678901234567890",
    {0, _} = sh("git update-index --cacheinfo 160000," ++ Absent ++ ",sub && git commit -qm five"),
    {error, {_, {no_commit, ~"sub", _}} = Reason} = open([~"one..HEAD"]),
    Sentence = unicode:characters_to_binary(dyno_error:format(Reason)),
    ?assertMatch({_, _}, binary:match(Sentence, list_to_binary(Absent))),
    ?assertEqual(2, dyno_error:exit_status(Reason)),
    nothing_left(Config).

%% What a CI job runs: no baseline, and one metric that does not depend on the machine.
gate(Code, Condition) ->
    gate(Code, Condition, []).

gate(Code, Condition, More) ->
    dyno_command:run([
        "bench",
        Code,
        "--rev",
        "one..two",
        "--metric",
        "words",
        "--vms",
        "6",
        "--fail-if",
        Condition,
        "--format",
        "json"
        | More
    ]).

words_gate(Config) ->
    {1, Worse} = gate("revised:list()", "worse > 0.1%"),
    ?assertMatch({match, _}, re:run(Worse, ~"words was 20 and is 400")),
    nothing_left(Config).

words_that_pass_the_gate(Config) ->
    {0, _} = gate("revised:list()", "worse > 2000%"),
    File = filename:join(proplists:get_value(priv_dir, Config), "same.json"),
    %% Not from the command's output, in which a warning of the emulator may be.
    {0, _} = gate("lists:seq(1, 5)", "worse > 0.1%", ["-o", File]),
    {ok, Same} = file:read_file(File),
    ?assertMatch(
        #{
            ~"verdicts" := [#{~"result" := ~"pass"}],
            ~"tables" := [#{~"name" := ~"changes", ~"rows" := [_ | _]}]
        },
        json:decode(Same)
    ),
    nothing_left(Config).

nothing_left(_Config) ->
    nothing_left_in(file:list_dir(dyno_temporary:folder()), 100).

nothing_left_in({ok, ["dyno-2026-results"]}, _Tries) ->
    ok;
nothing_left_in(Left, 0) ->
    ct:fail({left, Left});
nothing_left_in(_Left, Tries) ->
    receive
    after 50 -> nothing_left_in(file:list_dir(dyno_temporary:folder()), Tries - 1)
    end.

%% What is not committed counts, new files too; what is ignored does not.
the_working_tree(_Config) ->
    write(77),
    ok = file:write_file("src/new_one.erl", "-module(new_one).\n"),
    ok = file:write_file("src/ignored.erl", "-module(does not compile).\n"),
    ok = file:write_file(".gitignore", "src/ignored.erl\n"),
    {ok, #{variants := [One, Tree]} = Built} = open([~"one"]),
    ?assertMatch(#{label := ~"one"}, One),
    ?assertMatch(#{label := ~"working tree"}, Tree),
    ?assertEqual([10, 77], [length_in(V) || V <- [One, Tree]]),
    #{code_paths := [Ebin]} = Tree,
    ?assert(filelib:is_regular(filename:join(Ebin, "new_one.beam"))),
    ok = file:delete("src/new_one.erl"),
    ok = dyno_bench_revision:close(Built),
    nothing_left([]).

a_command_of_its_own(_Config) ->
    {ok, #{variants := [One, Two]} = Built} = open([~"one..two"], #{
        build => "mkdir -p lib/app/ebin && erlc -o lib/app/ebin src/*.erl"
    }),
    ?assertEqual([10, 200], [length_in(V) || V <- [One, Two]]),
    ok = dyno_bench_revision:close(Built).

a_project_in_a_subfolder(_Config) ->
    ok = filelib:ensure_path("sub/src"),
    {ok, _} = file:copy("src/revised.erl", "sub/src/revised.erl"),
    ok = file:write_file("sub/Makefile", "all:\n\tmkdir -p ebin && erlc -o ebin src/*.erl\n"),
    {0, _} = sh("git add -A && git commit -qm three && git tag three"),
    ok = file:set_cwd("sub"),
    write(5),
    {ok, #{variants := Variants} = Built} = open([~"three"]),
    ?assertEqual([200, 5], [length_in(V) || V <- Variants]),
    ok = dyno_bench_revision:close(Built).

%% What the working tree has built must not be taken for a revision's.
rebar3_project(_Config) ->
    case os:find_executable("rebar3") of
        false ->
            {skip, "there is no rebar3"};
        _ ->
            ok = file:write_file("rebar.config", "{erl_opts, [debug_info]}.\n"),
            ok = file:write_file(
                "src/revised.app.src", "{application, revised, [{vsn, \"1\"}]}.\n"
            ),
            ok = file:write_file(".gitignore", "_build\n"),
            commit(33, "three"),
            write(44),
            {0, _} = sh("unset REBAR_BASE_DIR; rebar3 compile"),
            {ok, #{variants := Variants} = Built} = open([~"three"]),
            ?assertEqual([33, 44], [length_in(V) || V <- Variants]),
            ok = dyno_bench_revision:close(Built)
    end.

%% Dependencies; never the project's own modules, whose sources rebar3 links.
what_was_fetched_is_copied(Config) ->
    To = filename:join(proplists:get_value(priv_dir, Config), "copy"),
    ok = filelib:ensure_path(To),
    Lib = filename:join(["_build", "default", "lib"]),
    Write = fun(Parts) ->
        File = filename:join(Parts),
        ok = filelib:ensure_dir(File),
        ok = file:write_file(File, "x")
    end,
    Write([Lib, "fetched", "src", "fetched.erl"]),
    Write([Lib, "own", "ebin", "own.beam"]),
    ok = file:make_symlink("../../../../src", filename:join([Lib, "own", "src"])),
    Write(["deps", "dep", "mix.exs"]),
    Write([To, "deps", "kept"]),
    ok = dyno_bench_project:fetched(".", To),
    ?assert(filelib:is_regular(filename:join([To, Lib, "fetched", "src", "fetched.erl"]))),
    ?assertNot(filelib:is_file(filename:join([To, Lib, "own"]))),
    %% What the revision has itself is not replaced.
    ?assertNot(filelib:is_file(filename:join([To, "deps", "dep"]))),
    %% Mix: the profile that was built last is the one that counts.
    Now = erlang:system_time(second),
    Write([To, "_build", "dev", "lib", "app", "ebin", "app.beam"]),
    Write([To, "_build", "dev", "lib", "app", "consolidated", "p.beam"]),
    Old = filename:join([To, "_build", "test", "lib", "app", "ebin", "app.beam"]),
    Write([Old]),
    ok = file:change_time(Old, {{2020, 1, 1}, {0, 0, 0}}),
    Paths = dyno_bench_project:code_paths(To, Now - 10),
    ?assertEqual(
        [["app", "consolidated"], ["app", "ebin"]],
        [lists:nthtail(length(filename:split(P)) - 2, filename:split(P)) || P <- Paths]
    ),
    ?assertEqual([], [P || P <- Paths, string:find(P, "/_build/test/lib/app") =/= nomatch]),
    {ok, {"mix", ["compile"]}} = builder("mix.exs"),
    {ok, {"make", []}} = builder("Makefile"),
    {ok, {"rebar3", ["compile"]}} = builder("rebar.config").

builder(Name) ->
    Folder = "with-" ++ Name,
    ok = filelib:ensure_path(Folder),
    ok = file:write_file(filename:join(Folder, Name), ""),
    dyno_bench_project:builder(Folder).

mistakes(Config) ->
    commit(1, "three"),
    ok = file:write_file("src/revised.erl", "-module(revised).\nlist( -> ok.\n"),
    {0, _} = sh("git add -A && git commit -qm broken && git tag broken && git tag again"),
    Check = fun(Texts, Options, Status, Expected) ->
        {ok, Revisions} = dyno_bench_revision:parse(Texts),
        {error, Reason} = dyno_bench:run(["ok."], #{
            revisions => Options#{revisions => Revisions}
        }),
        Sentence = unicode:characters_to_binary(dyno_error:format(Reason)),
        ?assertMatch({match, _}, re:run(Sentence, Expected, [dotall]), Sentence),
        ?assertEqual(Status, dyno_error:exit_status(Reason))
    end,
    Check([~"one..nowhere"], #{}, 2, "git knows no revision nowhere here"),
    Check([~"broken..again"], #{}, 2, "broken and again are the same commit"),
    Check(
        [~"one..broken"],
        #{},
        1,
        "^broken does not build: erlc .* ended with status 1; its last lines:\n"
        ".*revised.erl.*syntax error"
    ),
    Check(
        [~"one..two"], #{build => "echo some; echo words; exit 7"}, 1, "status 7; .*some\n  words"
    ),
    Check([~"one..two"], #{build => "true"}, 2, "left no beam files"),
    Check(
        [~"one..two"],
        #{build => "sleep 100", timeout_ms => 300},
        1,
        "sleep 100 had not ended after 300 ms; --timeout allows more"
    ),
    {0, _} = sh(
        "git rm -rqf src && echo x > x && git add x && git commit -qm empty && git tag empty"
    ),
    Check([~"empty..one"], #{}, 2, "neither rebar.config, mix.exs, Makefile nor src"),
    %% Outside of any repository, also of the one that the tests may run in.
    Outside = filename:join(proplists:get_value(outside, Config), "outside-" ++ os:getpid()),
    ok = filelib:ensure_path(Outside),
    ok = file:set_cwd(Outside),
    Check([~"one..two"], #{}, 2, "is in no git repository"),
    ok = file:set_cwd(proplists:get_value(folder, Config)),
    ok = file:del_dir_r(Outside),
    nothing_left(Config).

%% A build that never ends: its processes end, and the folder goes.
ends_with_its_caller(Config) ->
    {Caller, File} = building(Config),
    exit(Caller, kill),
    stopped(File),
    nothing_left(Config).

ends_when_interrupted(Config) ->
    {Caller, File} = building(Config),
    Ref = monitor(process, Caller),
    Caller ! dyno_interrupt,
    receive
        {'DOWN', Ref, process, Caller, Reason} ->
            ?assertEqual({result, {error, {dyno_error, interrupted}}}, Reason)
    end,
    stopped(File),
    nothing_left(Config).

building(Config) ->
    File = filename:join(proplists:get_value(folder, Config), "pid"),
    Build = "echo $$ > " ++ File ++ ".new; mv " ++ File ++ ".new " ++ File ++ "; sleep 600; true",
    {ok, Revisions} = dyno_bench_revision:parse([~"one..two"]),
    Caller = spawn(fun() ->
        exit(
            {
                result,
                dyno_bench:run(["ok."], #{revisions => #{revisions => Revisions, build => Build}})
            }
        )
    end),
    there(File),
    {Caller, File}.

there(File) ->
    case filelib:is_regular(File) of
        true ->
            ok;
        false ->
            receive
            after 20 -> there(File)
            end
    end.

stopped(File) ->
    {ok, Text} = file:read_file(File),
    stopped(string:trim(Text), 200).

stopped(Pid, Tries) ->
    case file:read_file(filename:join([~"/proc", Pid, ~"stat"])) of
        {ok, Stat} when Tries > 0 ->
            case binary:match(Stat, ~") Z ") of
                nomatch ->
                    receive
                    after 50 -> stopped(Pid, Tries - 1)
                    end;
                _ ->
                    ok
            end;
        {ok, _} ->
            ct:fail({still_running, Pid});
        {error, _} ->
            ok
    end.
