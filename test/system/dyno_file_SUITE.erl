%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_file_SUITE).
-moduledoc "Files that are written whole, and those that grow: who may read them, links, full disks.".

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() ->
    [
        private_files,
        links_stay,
        links_of_others,
        what_is_no_file,
        new_files,
        a_stream,
        a_stream_without_entries,
        a_stream_on_a_disk_that_fills,
        a_stream_whose_owner_ends
    ].

init_per_testcase(Case, Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = filelib:ensure_path(Folder),
    [{folder, Folder} | Config].

end_per_testcase(_Case, Config) ->
    dyno_disk:unmount(in(Config, "disk")).

in(Config, Name) -> filename:join(proplists:get_value(folder, Config), Name).

mode(Path) ->
    {ok, #file_info{mode = Mode}} = file:read_link_info(Path),
    Mode band 8#777.

says(Reason, Part) ->
    Text = unicode:characters_to_binary(dyno_file:format_error(Reason)),
    ?assertMatch({_, _}, binary:match(Text, Part), Text).

%% Whatever the umask, and whatever was there.
private_files(Config) ->
    Path = in(Config, "events"),
    ok = file:write_file(Path, ~"former"),
    ok = file:change_mode(Path, 8#666),
    ok = dyno_file:write(Path, private, ~"arguments"),
    ?assertEqual({ok, ~"arguments"}, file:read_file(Path)),
    ?assertEqual(8#600, mode(Path)),
    %% Others are as they were, and new ones as the umask wants it.
    ok = dyno_file:write(Path, ~"report"),
    ?assertEqual({{ok, ~"report"}, 8#600}, {file:read_file(Path), mode(Path)}),
    ok = dyno_file:write(in(Config, "report"), ~"report"),
    ok = file:write_file(in(Config, "usual"), ~""),
    ?assertEqual(mode(in(Config, "usual")), mode(in(Config, "report"))),
    ?assertEqual(["events", "report", "usual"], listed(Config)).

listed(Config) ->
    {ok, Names} = file:list_dir_all(proplists:get_value(folder, Config)),
    lists:sort(Names).

links_stay(Config) ->
    [ok = file:make_dir(in(Config, Name)) || Name <- ["here", "there"]],
    Target = in(Config, "there/report"),
    ok = file:write_file(Target, ~"former"),
    ok = file:make_symlink("../there/report", in(Config, "here/one")),
    ok = file:make_symlink(in(Config, "here/one"), in(Config, "here/two")),
    ok = dyno_file:writable(in(Config, "here/two")),
    ok = dyno_file:write(in(Config, "here/two"), ~"new"),
    ?assertEqual({ok, ~"new"}, file:read_file(Target)),
    ?assertEqual({ok, "../there/report"}, file:read_link(in(Config, "here/one"))),
    ?assertEqual({ok, in(Config, "here/one")}, file:read_link(in(Config, "here/two"))),
    %% To nothing as yet.
    ok = file:make_symlink("../there/new", in(Config, "here/new")),
    ok = dyno_file:write(in(Config, "here/new"), private, ~"1"),
    ?assertEqual({ok, ~"1"}, file:read_file(in(Config, "there/new"))),
    ok = file:make_symlink("nowhere/new", in(Config, "here/lost")),
    {error, Lost} = dyno_file:writable(in(Config, "here/lost")),
    ?assertEqual({write, in(Config, "here/lost"), enoent}, Lost),
    ok = file:make_symlink("round", in(Config, "here/round")),
    {error, Round} = dyno_file:write(in(Config, "here/round"), ~""),
    ?assertEqual({caller, eloop}, {dyno_file:fault(Round), element(3, Round)}),
    ?assertEqual({ok, ["new", "report"]}, sorted(file:list_dir_all(in(Config, "there")))).

sorted({ok, Names}) -> {ok, lists:sort(Names)}.

%% In a folder for all, such as /tmp, a link is trusted that the user or the folder's owner made.
links_of_others(Config) ->
    Common = in(Config, "common"),
    ok = file:make_dir(Common),
    Target = in(Config, "target"),
    ok = file:write_file(Target, ~"former"),
    [ok = file:make_symlink(Target, filename:join(Common, Name)) || Name <- ["own", "theirs"]],
    "" = os:cmd("chmod 1777 '" ++ Common ++ "'"),
    case os:cmd("chown -h 65534 '" ++ filename:join(Common, "theirs") ++ "'") of
        "" ->
            {error, Reason} = dyno_file:write(filename:join(Common, "theirs"), ~"new"),
            says(Reason, ~"a link of another user"),
            ?assertEqual(caller, dyno_file:fault(Reason)),
            ?assertEqual({ok, ~"former"}, file:read_file(Target)),
            ok = dyno_file:write(filename:join(Common, "own"), ~"new"),
            ?assertEqual({ok, ~"new"}, file:read_file(Target));
        Refused ->
            {skip, "only root can make a link of another user: " ++ Refused}
    end.

what_is_no_file(Config) ->
    "" = os:cmd("mkfifo '" ++ in(Config, "pipe") ++ "'"),
    [
        begin
            {error, Reason} = Write(Path),
            ?assertEqual({not_a_file, Path}, Reason),
            says(Reason, ~"not a regular file")
        end
     || Path <- [
            "/dev/null", "/dev/stdout", in(Config, "pipe"), proplists:get_value(folder, Config)
        ],
        Write <- [
            fun dyno_file:writable/1,
            fun(P) -> dyno_file:write(P, ~"") end,
            fun(P) -> dyno_stream:open(P, #{}) end
        ]
    ],
    Missing = in(Config, "none/x"),
    {error, {write, Missing, enoent} = Reason} = dyno_stream:open(Missing, #{}),
    says(Reason, ~"there is no folder"),
    ?assertEqual(caller, dyno_file:fault(Reason)).

new_files(Config) ->
    Path = in(Config, "new"),
    ok = dyno_file:create(Path, ~"1"),
    ?assertEqual({error, {write, Path, eexist}}, dyno_file:create(Path, ~"2")),
    ?assertEqual({ok, ~"1"}, file:read_file(Path)),
    Cookie = in(Config, "cookie"),
    ok = dyno_file:first(Cookie, ~"1"),
    ?assertEqual({error, {write, Cookie, eexist}}, dyno_file:first(Cookie, ~"2")),
    ?assertEqual({{ok, ~"1"}, 8#400}, {file:read_file(Cookie), mode(Cookie)}),
    %% Also a link that leads nowhere yet.
    ok = file:make_symlink("target", in(Config, "link")),
    ?assertMatch({error, {write, _, eexist}}, dyno_file:create(in(Config, "link"), ~"2")),
    ?assertEqual(["cookie", "link", "new"], listed(Config)).

a_stream(Config) ->
    Path = in(Config, "lines"),
    ok = file:write_file(in(Config, "real"), ~"former\n"),
    ok = file:make_symlink("real", Path),
    {ok, Stream} = dyno_stream:open(Path, #{}),
    Lines = [[integer_to_binary(N), $\n] || N <- lists:seq(1, 20_000)],
    [ok = dyno_stream:write(Stream, Line) || Line <- Lines],
    ok = dyno_stream:close(Stream),
    ?assertEqual({ok, iolist_to_binary(Lines)}, file:read_file(in(Config, "real"))),
    ?assertEqual({ok, "real"}, file:read_link(Path)),
    ?assertEqual(8#600, mode(in(Config, "real"))),
    ?assertEqual(["lines", "real"], listed(Config)).

%% What fails at its beginning leaves the files as they were.
a_stream_without_entries(Config) ->
    Former = in(Config, "former"),
    ok = file:write_file(Former, ~"former\n"),
    [
        begin
            {ok, Stream} = dyno_stream:open(Path, #{header => ~"header\n"}),
            ?assertEqual(ok, dyno_stream:close(Stream))
        end
     || Path <- [Former, in(Config, "new")]
    ],
    ?assertEqual({ok, ~"former\n"}, file:read_file(Former)),
    ?assertEqual(["former"], listed(Config)),
    {ok, Stream} = dyno_stream:open(Former, #{header => ~"header\n"}),
    ok = dyno_stream:write(Stream, ~"one\n"),
    ok = dyno_stream:close(Stream),
    ?assertEqual({ok, ~"header\none\n"}, file:read_file(Former)).

a_stream_on_a_disk_that_fills(Config) ->
    Disk = in(Config, "disk"),
    case dyno_disk:mount(Disk, 256) of
        ok ->
            Path = filename:join(Disk, "lines"),
            {ok, Stream} = dyno_stream:open(Path, #{}),
            Line = [binary:copy(~"x", 99), $\n],
            Results = [dyno_stream:write(Stream, Line) || _ <- lists:seq(1, 5000)],
            ?assertEqual(ok, hd(Results)),
            ?assertMatch({error, {cut, Path, enospc, _, 5000}}, lists:last(Results)),
            {error, {cut, Path, enospc, Kept, 5000} = Reason} = dyno_stream:close(Stream),
            ?assert(Kept > 1000),
            ?assertEqual({ok, binary:copy(iolist_to_binary(Line), Kept)}, file:read_file(Path)),
            says(Reason, ~"the disk is full"),
            says(Reason, <<"; ", (integer_to_binary(Kept))/binary, " of 5000 entries">>),
            ?assertEqual(dyno, dyno_file:fault(Reason)),
            %% Now it is full from the beginning.
            ok = dyno_disk:fill(Disk),
            Other = filename:join(Disk, "other"),
            ?assertEqual({error, {write, Other, enospc}}, dyno_stream:open(Other, #{})),
            {error, {write, Path, enospc}} = dyno_file:write(Path, ~"new"),
            {error, {write, Other, enospc}} = dyno_file:create(Other, ~"new"),
            ?assertEqual({ok, ["ballast", "lines"]}, sorted(file:list_dir_all(Disk))),
            ?assertEqual(dyno, dyno_file:fault({write, Path, enospc}));
        Skip ->
            Skip
    end.

a_stream_whose_owner_ends(Config) ->
    Path = in(Config, "lines"),
    Test = self(),
    {Owner, _} = spawn_monitor(fun() ->
        {ok, Stream} = dyno_stream:open(Path, #{}),
        ok = dyno_stream:write(Stream, ~"one\n"),
        Test ! {stream, Stream},
        receive
            never -> ok
        end
    end),
    Stream =
        receive
            {stream, Pid} -> Pid
        end,
    Ref = monitor(process, Stream),
    exit(Owner, kill),
    receive
        {'DOWN', Ref, process, Stream, Why} -> ?assertEqual(normal, Why)
    end,
    ?assertEqual({ok, ~"one\n"}, file:read_file(Path)).
