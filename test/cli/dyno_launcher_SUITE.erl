%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_launcher_SUITE).
-moduledoc """
Which Erlang/OTP the program takes, and what an installation needs. The Erlangs are folders with
programs that note that they were started and pass on to the real one.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% Builds all from its sources.
slow() -> [installed].

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [
        first_on_the_path,
        behind_links,
        a_shim_is_asked,
        too_old,
        none,
        flags_that_name_it,
        named,
        named_wrongly,
        several_are_compared,
        long_folders,
        no_tools_on_the_path,
        installed
    ].

init_per_suite(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Tools = filename:join(Folder, "tools"),
    ok = filelib:ensure_path(Tools),
    Needed = [
        "sh",
        "tail",
        "mktemp",
        "mkfifo",
        "rm",
        "readlink",
        "dirname",
        "basename",
        "sed",
        "cat",
        "kill"
    ],
    _ = [
        ok = file:make_symlink(os:find_executable(Name), filename:join(Tools, Name))
     || Name <- Needed
    ],
    Escript = dyno_escript:build(filename:join(Folder, "dyno")),
    [{escript, Escript}, {tools, Tools} | Config].

end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Work = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Work),
    [{work, Work} | Config].

end_per_testcase(_Case, _Config) -> ok.

%% The user's comes before the one that the build brought, and is not started to be asked.
first_on_the_path(Config) ->
    Bin = erlang(Config, "own", "30"),
    {0, <<"dyno ", _/binary>>} = dyno(Config, [Bin], ["version"]),
    ?assertEqual(1, starts(Bin)).

behind_links(Config) ->
    Bin = erlang(Config, "own", "30"),
    Links = filename:join(work(Config), "links"),
    ok = filelib:ensure_path(Links),
    ok = file:make_symlink("../own/bin/erl", filename:join(Links, "erl")),
    {0, _} = dyno(Config, [Links], ["version"]),
    ?assertEqual(1, starts(Bin)).

%% Nothing around it says its release.
a_shim_is_asked(Config) ->
    Bin = erlang(Config, "shims", none),
    {0, _} = dyno(Config, [Bin], ["version"]),
    ?assertEqual(2, starts(Bin)).

%% Then the one that was brought serves; if there is none, the sentence says what to do.
too_old(Config) ->
    Bin = erlang(Config, "old", "26"),
    {0, _} = dyno(Config, [Bin], ["version"]),
    ?assertEqual(0, starts(Bin)),
    {3, Sentence} = dyno(with_folders(Config, ""), [Bin], ["version"]),
    ?assertEqual(
        ~"dyno: the erl on the PATH is Erlang/OTP 26; put 27 or later first, or give --otp PATH\n",
        Sentence
    ).

none(Config) ->
    {0, _} = dyno(Config, [], ["version"]),
    [
        ?assertEqual(
            {3, <<
                "dyno: there is no erl on the PATH; install Erlang/OTP 27 or later, or give "
                "--otp PATH\n"
            >>},
            dyno(with_folders(Config, Folders), [], ["version"])
        )
     || Folders <- ["", filename:join(work(Config), "gone")]
    ].

flags_that_name_it(Config) ->
    true = os:putenv("ERL_AFLAGS", "+fnu -sname somebody"),
    try
        {2, Sentence} = dyno(Config, [], ["version"]),
        ?assertMatch({match, _}, re:run(Sentence, "^dyno: ERL_AFLAGS, .*name dyno with --name\n$"))
    after
        os:unsetenv("ERL_AFLAGS")
    end.

named(Config) ->
    Bin = erlang(Config, "named", "30"),
    Root = filename:dirname(Bin),
    [
        {0, <<"dyno ", _/binary>>} = dyno(Config, [], Arguments)
     || Path <- [Root, Bin, filename:join(Bin, "erl")],
        Arguments <- [["--otp", Path, "version"], ["version", "--otp=" ++ Path]]
    ],
    ?assertEqual(6, starts(Bin)).

named_wrongly(Config) ->
    Old = filename:dirname(erlang(Config, "old", "26")),
    [
        begin
            {Status, Out} = dyno(Config, [], Arguments),
            ?assertEqual(2, Status, Out),
            ?assertMatch({_, _}, binary:match(Out, Part), Out)
        end
     || {Arguments, Part} <- [
            {["version", "--otp", work(Config)], ~"there is no erl at "},
            {["version", "--otp", Old], ~"is Erlang/OTP 26; dyno needs 27 or later"},
            {["version", "--otp"], ~"--otp needs a value"},
            {
                ["report", "x.json", "--otp", code:root_dir(), "--otp", code:root_dir()],
                ~"only dyno bench compares several"
            }
        ]
    ],
    %% Behind -- it is no option.
    {2, NoFile} = dyno(Config, [], ["report", "--", "--otp"]),
    ?assertEqual(nomatch, binary:match(NoFile, ~"needs a value")).

several_are_compared(Config) ->
    Roots = [filename:dirname(erlang(Config, Name, Name)) || Name <- ["28", "30"]],
    {0, Out} = dyno(Config, [], [
        "bench",
        "lists:seq(1, 3).",
        "--vms",
        "1",
        "--for",
        "20ms"
        | lists:append([["--otp", Root] || Root <- Roots])
    ]),
    [?assertMatch({_, _}, binary:match(Out, <<"OTP ", N/binary>>), Out) || N <- [~"28.0", ~"30.0"]].

%% Of a clone that lies deep.
long_folders(Config) ->
    Deep = filename:join([work(Config) | lists:duplicate(12, lists:duplicate(50, $d))]),
    ok = filelib:ensure_path(Deep),
    Bin = filename:join(Deep, "bin"),
    ok = file:make_symlink(filename:join(code:root_dir(), "bin"), Bin),
    {0, <<"dyno ", _/binary>>} = dyno(with_folders(Config, Bin), [], ["version"]).

%% As from a service's unit or cron.
no_tools_on_the_path(Config) ->
    Empty = filename:join(work(Config), "empty"),
    ok = filelib:ensure_path(Empty),
    {0, <<"dyno ", _/binary>>} = run(escript(Config), ["version"], Empty, Config).

%% From a deep folder, which is gone then.
installed(Config) ->
    Name = lists:duplicate(150, $c),
    Clone = filename:join(work(Config), Name),
    Prefix = filename:join(work(Config), "it's here"),
    ok = filelib:ensure_path(Clone),
    Line =
        "cd \"$1\" && for f in *; do case $f in _build|dyno|dyno-results) ;; *) cp -R \"$f\" \"$2\" "
        ";; esac; done && cd \"$2\" && make install PREFIX=\"$3\" 2>&1",
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", Line, "sh", dyno_project:root(), Clone, Prefix]},
        {env, [{"REBAR_BASE_DIR", false}, {"DYNO_OTP_PATH", false}, {"MAKEFLAGS", false}]},
        exit_status,
        binary,
        stderr_to_stdout
    ]),
    {0, _} = dyno_command:output(Port),
    ok = file:del_dir_r(Clone),
    Program = filename:join(Prefix, "bin/dyno"),
    Own = filelib:is_dir(filename:join(Prefix, "lib/dyno/otp")),
    Path = lists:join($:, [
        proplists:get_value(tools, Config) | [filename:join(code:root_dir(), "bin") || not Own]
    ]),
    [
        ?assertMatch({0, _}, run(Program, Arguments, lists:flatten(Path), Config))
     || Arguments <- [
            ["version"], ["bench", "lists:seq(1, 3).", "-i", "--vms", "1", "--for", "20ms"]
        ]
    ],
    {ok, Text} = file:read_file(Program),
    Size = byte_size(Text) - 8192,
    <<_:Size/binary, Launcher/binary>> = Text,
    ?assertEqual(nomatch, binary:match(Launcher, list_to_binary(Name))).

%% Helpers

%% Its folder bin; with a release it looks like an installation.
erlang(Config, Name, Release) ->
    Root = filename:join(work(Config), Name),
    Bin = filename:join(Root, "bin"),
    ok = filelib:ensure_path(Bin),
    [
        begin
            File = filename:join(Bin, Program),
            ok = file:write_file(File, [
                "#!/bin/sh\n",
                Notes,
                "exec '",
                filename:join([code:root_dir(), "bin", Program]),
                "' \"$@\"\n"
            ]),
            ok = file:change_mode(File, 8#755)
        end
     || {Program, Notes} <- [
            {"erl", ["echo erl >>'", Root, "/starts'\n"]},
            {"escript", ["ESCRIPT_EMULATOR='", Bin, "/erl'\nexport ESCRIPT_EMULATOR\n"]}
        ]
    ],
    case Release of
        none ->
            ok;
        _ ->
            File = filename:join([Root, "releases", Release, "OTP_VERSION"]),
            ok = filelib:ensure_dir(File),
            ok = file:write_file(File, [Release, ".0\n"])
    end,
    Bin.

starts(Bin) ->
    case file:read_file(filename:join(filename:dirname(Bin), "starts")) of
        {ok, Lines} -> length(binary:matches(Lines, ~"\n"));
        {error, enoent} -> 0
    end.

%% The program with other folders of an OTP that was brought.
with_folders(Config, Folders) ->
    Program = filename:join(work(Config), "dyno"),
    {ok, _} = file:copy(escript(Config), Program),
    Script = filename:join(dyno_project:root(), "scripts/launcher.escript"),
    Port = open_port({spawn_executable, filename:join([code:root_dir(), "bin", "escript"])}, [
        {args, [Script, Program, Folders]}, exit_status, binary
    ]),
    {0, ~""} = dyno_command:output(Port),
    lists:keystore(escript, 1, Config, {escript, Program}).

dyno(Config, Folders, Arguments) ->
    Path = lists:join($:, Folders ++ [proplists:get_value(tools, Config)]),
    run(escript(Config), Arguments, lists:flatten(Path), Config).

run(Program, Arguments, Path, Config) ->
    Port = open_port({spawn_executable, Program}, [
        {args, Arguments},
        {cd, work(Config)},
        {env, [{"PATH", Path}]},
        exit_status,
        binary,
        stderr_to_stdout
    ]),
    {Status, Out} = dyno_command:output(Port),
    ct:log("~ts ~tp: ~b~n~ts", [Program, Arguments, Status, Out]),
    {Status, Out}.

escript(Config) -> proplists:get_value(escript, Config).

work(Config) -> proplists:get_value(work, Config).
