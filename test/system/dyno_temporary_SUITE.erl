%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_temporary_SUITE).
-moduledoc "Temporary folders: who can enter, what a killed dyno leaves, what is not ours.".

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-compile([export_all, nowarn_export_all]).

-define(HEAD, "dyno temporary 1\n").

suite() -> [{timetrap, {minutes, 1}}].

all() ->
    [
        nobody_else_enters,
        what_a_killed_dyno_left_is_removed,
        what_is_not_ours_stays,
        of_another_user,
        in_a_folder_without_a_sticky_bit,
        no_second_way
    ].

init_per_testcase(Case, Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = filelib:ensure_path(Folder),
    Remembered = dyno_suites:with_temporary(Config),
    true = os:putenv("TMPDIR", Folder),
    [{folder, Folder} | Remembered].

end_per_testcase(_Case, Config) ->
    dyno_suites:without_temporary(Config).

in(Config, Name) -> filename:join(proplists:get_value(folder, Config), Name).

nobody_else_enters(Config) ->
    {ok, One} = dyno_temporary:make(),
    {ok, Other} = dyno_temporary:make(),
    ?assertNotEqual(One, Other),
    ?assertEqual(proplists:get_value(folder, Config), filename:dirname(One)),
    {ok, #file_info{mode = Mode, type = directory}} = file:read_link_info(One),
    ?assertEqual(8#700, Mode band 8#777),
    {ok, Mark} = file:read_file(filename:join(One, ".dyno")),
    ?assertMatch({_, _}, binary:match(Mark, list_to_binary([$\n, os:getpid(), $\s]))),
    ok = dyno_temporary:remove(One),
    ok = dyno_temporary:remove(Other),
    ?assertEqual({ok, []}, file:list_dir(proplists:get_value(folder, Config))),
    true = os:putenv("TMPDIR", in(Config, "none")),
    {error, Reason} = dyno_temporary:make(),
    ?assertMatch(
        {_, _},
        binary:match(
            unicode:characters_to_binary(dyno_temporary:format_error(Reason)), ~"set TMPDIR"
        )
    ).

what_a_killed_dyno_left_is_removed(Config) ->
    {Peer, OsPid, Folder} = of_a_peer(Config),
    {ok, Beside} = peer:call(Peer, dyno_temporary, make, [proplists:get_value(folder, Config)]),
    ok = file:make_symlink("/", filename:join(Folder, "root")),
    {ok, Own} = dyno_temporary:make(),
    ?assert(filelib:is_dir(Folder)),
    Ref = monitor(process, Peer),
    "" = os:cmd("kill -KILL " ++ OsPid),
    receive
        {'DOWN', Ref, process, Peer, _} -> ok
    end,
    ok = dyno_leftovers:until(fun() -> not filelib:is_file("/proc/" ++ OsPid ++ "/stat") end),
    {ok, Last} = dyno_temporary:make(),
    ?assertNot(filelib:is_dir(Folder)),
    ?assertNot(filelib:is_dir(Beside)),
    ?assert(filelib:is_dir(Own)),
    ok = dyno_temporary:remove(Own),
    ok = dyno_temporary:remove(Last).

of_a_peer(Config) ->
    process_flag(trap_exit, true),
    {ok, Peer, _} = peer:start(#{
        connection => standard_io,
        args => ["-pa", filename:join(code:lib_dir(dyno), "ebin")]
    }),
    true = peer:call(Peer, os, putenv, ["TMPDIR", proplists:get_value(folder, Config)]),
    {ok, Folder} = peer:call(Peer, dyno_temporary, make, []),
    {Peer, peer:call(Peer, os, getpid, []), Folder}.

%% Pid 1 did not begin at x; a pid above the largest is no process's.
what_is_not_ours_stays(Config) ->
    Place = place(),
    Gone = [?HEAD, "1 x\n", Place],
    Stays = #{
        "dyno-2026-results" => none,
        "dyno-4194999-bench" => Gone,
        "dyno-00000000000000" => Gone,
        "dyno-000000000000000g" => Gone,
        "dyno-0000000000000001" => none,
        "dyno-0000000000000002" => [?HEAD, "1 x\n", "another-boot pid:[1]\n"],
        "dyno-0000000000000003" => [?HEAD, own(), $\n, Place],
        "dyno-0000000000000004" => [?HEAD, "not known\n"],
        "dyno-0000000000000005" => [?HEAD, "../1 x\n", Place],
        "dyno-0000000000000006" => ["something else 1\n", "1 x\n", Place],
        "elsewhere" => Gone
    },
    maps:foreach(fun(Name, Mark) -> planted(in(Config, Name), Mark) end, Stays),
    planted(in(Config, "dyno-00000000000000a0"), Gone),
    planted(in(Config, ".dyno-00000000000000a1"), [?HEAD, "99999999 5\n", Place]),
    %% Links: to a folder that would go, and of the mark.
    ok = file:make_symlink("elsewhere", in(Config, "dyno-0000000000000007")),
    planted(in(Config, "dyno-0000000000000008"), none),
    ok = file:make_symlink("../elsewhere/.dyno", in(Config, "dyno-0000000000000008/.dyno")),
    %% A file.
    ok = file:write_file(in(Config, "dyno-0000000000000009"), Gone),
    {ok, Folder} = dyno_temporary:make(),
    ok = dyno_temporary:remove(Folder),
    {ok, Left} = file:list_dir_all(proplists:get_value(folder, Config)),
    More = ["dyno-000000000000000" ++ [N] || N <- "789"],
    ?assertEqual(lists:sort(maps:keys(Stays) ++ More), lists:sort(Left)),
    [?assert(filelib:is_regular(in(Config, Name ++ "/theirs"))) || Name <- maps:keys(Stays)].

planted(Folder, Mark) ->
    ok = file:make_dir(Folder),
    ok = file:write_file(filename:join(Folder, in_it(filename:basename(Folder))), ~"1"),
    _ = [ok = file:write_file(filename:join(Folder, ".dyno"), Mark) || Mark =/= none].

in_it("." ++ _) -> "new";
in_it(_) -> "theirs".

%% As this emulator writes them.
place() -> lists:nth(3, mark()) ++ "\n".

own() -> lists:nth(2, mark()).

mark() ->
    {ok, Folder} = dyno_temporary:make(),
    {ok, Mark} = file:read_file(filename:join(Folder, ".dyno")),
    ok = dyno_temporary:remove(Folder),
    string:split(binary_to_list(Mark), "\n", all).

of_another_user(Config) ->
    Theirs = in(Config, "dyno-0000000000000001"),
    planted(Theirs, [?HEAD, "1 x\n", place()]),
    case file:change_owner(Theirs, 65534) of
        ok ->
            {ok, Folder} = dyno_temporary:make(),
            ok = dyno_temporary:remove(Folder),
            ?assert(filelib:is_regular(filename:join(Theirs, "theirs")));
        {error, eperm} ->
            {skip, "only root can make a folder of another user"}
    end.

%% Somebody else may exchange what is looked at for a link before it is removed.
in_a_folder_without_a_sticky_bit(Config) ->
    Gone = [?HEAD, "1 x\n", place()],
    Kept = in(Config, "dyno-0000000000000001"),
    planted(Kept, Gone),
    %% Of a hidden one only what dyno has put there is removed.
    Hidden = in(Config, ".dyno-0000000000000002"),
    planted(Hidden, Gone),
    Changed = in(Config, ".dyno-0000000000000003"),
    planted(Changed, Gone),
    ok = file:write_file(filename:join(Changed, "theirs"), ~"1"),
    Folder = proplists:get_value(folder, Config),
    ok = file:change_mode(Folder, 8#775),
    {ok, Made} = dyno_temporary:make(),
    ?assert(filelib:is_dir(Kept)),
    ok = dyno_temporary:remove(Made),
    %% Everybody could exchange what dyno puts there.
    ok = file:change_mode(Folder, 8#777),
    {error, {no_sticky, Folder} = Reason} = dyno_temporary:make(),
    Sentence = unicode:characters_to_binary(dyno_temporary:format_error(Reason)),
    ?assertMatch({_, _}, binary:match(Sentence, ~"no sticky bit"), Sentence),
    ?assertEqual(
        lists:sort([Kept, Changed, Hidden]) -- [Hidden],
        lists:sort([in(Config, Name) || Name <- element(2, file:list_dir_all(Folder))])
    ),
    ?assertNot(filelib:is_dir(Hidden)),
    ?assert(filelib:is_regular(filename:join(Changed, "theirs"))),
    "" = os:cmd("chmod 1777 '" ++ Folder ++ "'"),
    {ok, Last} = dyno_temporary:make(),
    ?assertNot(filelib:is_dir(Kept)),
    ok = dyno_temporary:remove(Last).

%% Nothing else in src/ asks for the folder of temporary files, makes a folder by itself, removes
%% one, or writes a file.
no_second_way(_Config) ->
    Root = filename:join(dyno_project:root(), "src"),
    Files = filelib:wildcard("**/*.{erl,sh}", Root),
    ?assertMatch([_, _ | _], Files),
    Ours = ["system/dyno_temporary.erl", "system/dyno_file.erl", "system/dyno_stream.erl"],
    Pattern =
        "TMPDIR\\\"|TMPDIR:-|file:make_dir\\(|del_dir|mktemp|rm -r|file:write_file\\(|"
        "file:open\\([^\\n]*\\[(write|append|exclusive)",
    Found = [
        {File, Line}
     || File <- Files -- Ours,
        {ok, Text} <- [file:read_file(filename:join(Root, File))],
        Line <- binary:split(Text, ~"\n", [global]),
        re:run(Line, Pattern, [{capture, none}]) =:= match
    ],
    %% Nothing is kept in /dev/null; the shell that starts dyno has a pipe in a folder of mktemp's.
    %% The agent has no code but its own: in a target it makes a folder for the sampler's library.
    ?assertEqual(
        [
            "agent/stacks/dyno_agent_cpu_nif.erl",
            "bench/code/dyno_bench_elixir.erl",
            "cli/launcher.sh"
        ],
        lists:usort([File || {File, _} <- Found]),
        Found
    ).
