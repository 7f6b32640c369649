%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_environment_SUITE).
-moduledoc false.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        is_what_recordings_carry,
        tells_of_this_runtime,
        tells_of_emulator_flags,
        tells_of_git,
        git_absent,
        git_hangs,
        differences_of_environments
    ].

init_per_testcase(Case, Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Folder),
    {ok, Before} = file:get_cwd(),
    [{folder, Folder}, {before, Before}, {path, os:getenv("PATH")} | Config].

end_per_testcase(_, Config) ->
    ok = file:set_cwd(proplists:get_value(before, Config)),
    os:putenv("PATH", proplists:get_value(path, Config)).

is_what_recordings_carry(_) ->
    Environment = dyno_environment:collect(),
    Document = dyno_recording:new(test, ~"echo", #{}, Environment),
    ?assertEqual(Environment, maps:get(~"environment", Document)),
    ?assertEqual(maps:get(~"time", Environment), maps:get(~"started_at", Document)),
    ?assertEqual({messages, []}, process_info(self(), messages)).

tells_of_this_runtime(_) ->
    #{~"otp" := Otp, ~"schedulers_online" := Online, ~"jit" := Jit, ~"time" := Time} =
        Environment = dyno_environment:collect(),
    ?assertEqual(nomatch, re:run(Otp, "\\s")),
    Release = list_to_binary(erlang:system_info(otp_release)),
    ?assertEqual(Release, hd(binary:split(Otp, ~"."))),
    ?assertEqual(erlang:system_info(schedulers_online), Online),
    ?assertEqual(erlang:system_info(emu_flavor) =:= jit, Jit),
    ?assert(calendar:rfc3339_to_system_time(binary_to_list(Time)) > 1_700_000_000),
    case os:type() of
        {unix, linux} ->
            #{~"os" := ~"Linux", ~"kernel" := Kernel, ~"memory_bytes" := Bytes} = Environment,
            ?assertEqual(string:trim(list_to_binary(os:cmd("uname -r"))), Kernel),
            ?assert(is_integer(Bytes) andalso Bytes > 1_000_000);
        _ ->
            ok
    end.

tells_of_emulator_flags(_) ->
    Ebin = filename:join(code:lib_dir(dyno), "ebin"),
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io, args => ["+S", "1:1", "+sbwt", "none", "-pa", Ebin]
    }),
    #{~"emulator_flags" := Flags, ~"schedulers" := 1} =
        peer:call(Peer, dyno_environment, collect, []),
    ok = peer:stop(Peer),
    Text = iolist_to_binary(lists:join(" ", Flags)),
    ?assertNotEqual(nomatch, string:find(Text, ~"+S 1:1")),
    ?assertNotEqual(nomatch, string:find(Text, ~"+sbwt none")),
    ?assertNot(lists:member(~"-pa", Flags)).

tells_of_git(Config) ->
    case os:find_executable("git") of
        false -> {skip, "git is not installed"};
        _ -> tells_of_git_in(proplists:get_value(folder, Config))
    end.

tells_of_git_in(Folder) ->
    ok = file:set_cwd(Folder),
    "" = os:cmd("git init -q . 2>/dev/null"),
    ?assertEqual(null, git()),
    ok = file:write_file("a", ~"1"),
    os:cmd("git add a && git -c user.name=t -c user.email=t@localhost commit -q -m one"),
    Revision = string:trim(list_to_binary(os:cmd("git rev-parse HEAD"))),
    ?assertEqual(#{~"revision" => Revision, ~"dirty" => false}, git()),
    ok = file:write_file("a", ~"22"),
    ?assertEqual(#{~"revision" => Revision, ~"dirty" => true}, git()).

git_absent(Config) ->
    os:putenv("PATH", proplists:get_value(folder, Config)),
    ?assertEqual(null, git()).

%% The command is ended, not only left alone: its process, which wrote its id, is gone.
git_hangs(Config) ->
    Folder = proplists:get_value(folder, Config),
    Script = filename:join(Folder, "git"),
    PidFile = filename:join(Folder, "pid"),
    ok = file:write_file(Script, ["#!/bin/sh\necho $$ >'", PidFile, "'\nexec sleep 600\n"]),
    ok = file:change_mode(Script, 8#755),
    os:putenv("PATH", Folder ++ ":" ++ proplists:get_value(path, Config)),
    ?assertEqual(null, git()),
    {ok, Pid} = file:read_file(PidFile),
    ?assertNotEqual("", os:cmd("kill -0 " ++ string:trim(binary_to_list(Pid)) ++ " 2>&1")),
    ?assertEqual({messages, []}, process_info(self(), messages)).

git() ->
    maps:get(~"git", dyno_environment:collect()).

differences_of_environments(_) ->
    One = dyno_environment:collect(),
    ?assertEqual([], dyno_environment:differences(One, One#{~"time" := ~"later"})),
    Other = maps:remove(~"hostname", One#{~"cores" := 1_000, ~"otp" := ~"26"}),
    ?assertEqual(
        [
            {~"cores", maps:get(~"cores", One), 1_000},
            {~"hostname", maps:get(~"hostname", One), null},
            {~"otp", maps:get(~"otp", One), ~"26"}
        ],
        dyno_environment:differences(One, Other)
    ).
