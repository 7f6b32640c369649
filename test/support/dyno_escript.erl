%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_escript).
-moduledoc "The program dyno, as rebar3 makes it, for tests; and what processes of the system do.".

-export([build/1, start/3, kill/2, descendants/1, is_running/1]).

-doc "Makes the program of what was compiled for the tests, at this path.".
build(Path) ->
    Rebar = os:find_executable("rebar3"),
    true = is_list(Rebar),
    %% In the folder and the profile in which dyno was compiled: elsewhere rebar3 would compile all
    %% again while other tests run.
    Folder = filename:dirname(filename:dirname(code:lib_dir(dyno))),
    Made = filename:join(Folder, "bin/dyno"),
    Profile = filename:basename(Folder),
    ok = filelib:ensure_dir(Path),
    %% Suites run side by side: one makes it, the others wait and copy.
    Line =
        "exec 9>\"$2.lock\"; flock 9; "
        "[ -n \"$(find \"$2\" -newer src/cli/launcher.sh -newer rebar.config "
        "-mmin -60 2>/dev/null)\" ] && "
        "[ -z \"$(find \"${3%/*}\" -name '*.beam' -newer \"$2\")\" ] || "
        "\"$1\" as \"$5\" escriptize; cp \"$2\" \"$4\"",
    ok = filelib:ensure_dir(Made),
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-ec", Line, "sh", Rebar, Made, code:which(dyno_cli), Path, Profile]},
        {cd, dyno_project:root()},
        {env, [
            {"REBAR_BASE_DIR", filename:dirname(Folder)},
            {"REBAR_PROFILE", false},
            {"DYNO_OTP_PATH", filename:join(code:root_dir(), "bin")}
        ]},
        exit_status,
        binary,
        stderr_to_stdout
    ]),
    {0, _} = dyno_command:output(Port),
    Path.

-doc "Starts it in a folder; its standard error goes to the file `stderr` there.".
start(Escript, Arguments, Options) ->
    #{folder := Folder} = Options,
    open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", "exec \"$0\" \"$@\" 2>stderr </dev/null", Escript | Arguments]},
        {cd, Folder},
        {env, maps:get(environment, Options, [])},
        exit_status,
        binary
    ]).

-doc """
Sends a signal to a process of the system.

After STOP it waits until all threads have stopped: the first must get a processor, and until then the
others run and answer.
""".
kill(Signal, Pid) ->
    _ = os:cmd("kill -" ++ Signal ++ " " ++ integer_to_list(Pid)),
    case Signal of
        "STOP" -> dyno_suites:await(fun() -> has_stopped(Pid) end);
        _ -> ok
    end.

has_stopped(Pid) ->
    lists:all(
        fun(File) ->
            {ok, Stat} = file:read_file(File),
            [_Name, State] = string:split(Stat, ") ", trailing),
            binary:first(State) =:= $T
        end,
        filelib:wildcard(lists:concat(["/proc/", Pid, "/task/*/stat"]))
    ).

-doc "The processes that a process of the system has started, and theirs.".
descendants(Pid) ->
    Children = [
        binary_to_integer(Child)
     || Tasks <- [filelib:wildcard(lists:concat(["/proc/", Pid, "/task/*/children"]))],
        File <- Tasks,
        {ok, Text} <- [file:read_file(File)],
        Child <- string:lexemes(Text, " \n")
    ],
    lists:append([[Child | descendants(Child)] || Child <- Children]).

-doc "Whether it runs, and has not only its status left for somebody to ask for.".
is_running(Pid) ->
    case file:read_file(lists:concat(["/proc/", Pid, "/stat"])) of
        {ok, Stat} ->
            [_, <<State, _/binary>>] = string:split(Stat, ~") ", trailing),
            not lists:member(State, "ZX");
        {error, _} ->
            false
    end.
