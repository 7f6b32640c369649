%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_files_SUITE).
-moduledoc """
Every command that writes a file, with a path where it cannot: all say so alike, and before they
measure. No node of the name in the command lines runs, so a command that looked at its node first
would say that.
""".

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-compile([export_all, nowarn_export_all]).

-define(NODE, "dyno-nobody@localhost").

suite() -> [{timetrap, {seconds, 30}}].

all() -> [missing_folder, no_regular_file, full_disk, read_only_disk, through_links, crash_report].

init_per_suite(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Spec =
        "property \"p\"\nof module worker\nfollows (receive {request, N} then send {reply, N})*.\n",
    ok = file:write_file(filename:join(Folder, "p.dyno"), Spec),
    {ok, _} = file:copy(
        dyno_project:data(dyno_cli_SUITE, "recording.json"), filename:join(Folder, "old.json")
    ),
    Options = #{folder => Folder, environment => [{"DYNO_DEBUG", false}]},
    [{server, dyno_command:start(Options)} | Config].

end_per_suite(Config) ->
    dyno_command:stop(proplists:get_value(server, Config)).

init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, Config) ->
    dyno_disk:unmount(in(Config, "disk")).

in(Config, Name) -> filename:join(proplists:get_value(priv_dir, Config), Name).

served(Config, Arguments) ->
    ct:log("~tp", [Arguments]),
    dyno_command:ask(
        proplists:get_value(server, Config), proplists:get_value(priv_dir, Config), Arguments
    ).

%% Each with the file to add.
commands() ->
    [
        {["trace", ?NODE, "lists:seq/2", "-o"], "x.jsonl"},
        {["verify", "p.dyno", ?NODE, "-o"], "x.json"},
        {["verify", "p.dyno", ?NODE, "-o"], "x.html"},
        {["profile", ?NODE, "-o"], "x.json"},
        {["profile", ?NODE, "-o"], "x.html"},
        {["record", ?NODE, "-o"], "x.jsonl"},
        {["servers", ?NODE, "-o"], "x.jsonl"},
        {["workload", "steady", "-o"], "x.json"},
        {["test", "none.erl", "-o"], "x.json"},
        {["bench", "ok", "-o"], "x.json"},
        {["bench", "ok", "-o"], "x.csv"},
        {["compare", "old.json", "old.json", "-o"], "x.md"},
        {["report", "old.json", "-o"], "x.html"}
    ].

missing_folder(Config) ->
    all_say(Config, commands(), "none", 2, ~": cannot be written: there is no folder none; create").

no_regular_file(Config) ->
    Files = ["x." ++ E || E <- ["jsonl", "json", "html", "csv", "md"]],
    [ok = file:make_symlink("/dev/null", in(Config, File)) || File <- Files],
    all_say(Config, commands(), ".", 2, ~": this is not a regular file; give the path of a file"),
    [ok = file:delete(in(Config, File)) || File <- Files],
    {2, ~"", New} = served(Config, ["new", "benchmark", "/dev/null/x_bench"]),
    ?assertMatch({_, _}, binary:match(New, ~"/dev/null is not a folder"), New).

full_disk(Config) ->
    on_disk(Config, fun(Disk) ->
        ok = dyno_disk:fill(Disk),
        all_say(
            Config, commands(), "disk", 3, ~": the disk is full; make room, or give another path"
        ),
        {3, ~"", New} = served(Config, ["new", "benchmark", "disk/x_bench"]),
        ?assertMatch({_, _}, binary:match(New, ~"disk/x_bench.erl: the disk is full"), New)
    end).

read_only_disk(Config) ->
    on_disk(Config, fun(Disk) ->
        "" = os:cmd("mount -o remount,ro '" ++ Disk ++ "'"),
        Said = ~": cannot be written: read-only file system; give a path in a folder you may",
        all_say(Config, commands(), "disk", 2, Said),
        {2, ~"", New} = served(Config, ["new", "benchmark", "disk/x_bench"]),
        ?assertMatch({_, _}, binary:match(New, ~"disk/x_bench.erl: cannot be written"), New)
    end).

on_disk(Config, Do) ->
    Disk = in(Config, "disk"),
    case dyno_disk:mount(Disk, 64) of
        ok -> Do(Disk);
        Skip -> Skip
    end.

all_say(Config, Commands, Folder, Status, Sentence) ->
    [
        begin
            Path = filename:join(Folder, File),
            {Got, Out, Error} = served(Config, Arguments ++ [Path]),
            ?assertEqual({Arguments, Status, ~""}, {Arguments, Got, Out}, Error),
            Said = <<(list_to_binary(File))/binary, Sentence/binary>>,
            ?assertMatch({_, _}, binary:match(Error, Said), {Arguments, Error}),
            ?assertEqual(1, length(binary:matches(Error, ~"\n")), Error)
        end
     || {Arguments, File} <- Commands
    ].

through_links(Config) ->
    ok = filelib:ensure_path(in(Config, "real")),
    [
        begin
            Link = in(Config, Name),
            ok = file:make_symlink(filename:join("real", Name), Link),
            {0, _, _} = served(Config, Arguments ++ ["-o", Name]),
            ?assertEqual({ok, "real/" ++ Name}, file:read_link(Link)),
            {ok, #file_info{type = regular, size = Size}} = file:read_link_info(
                in(Config, "real/" ++ Name)
            ),
            ?assert(Size > 100)
        end
     || {Arguments, Name} <- [
            {["report", "old.json"], "report.html"},
            {["bench", "ok", "--samples", "2", "--duration", "10"], "bench.json"},
            {["workload", "steady", "--workers", "2", "--for", "10ms"], "workload.jsonl"},
            {["compare", "old.json", "old.json"], "both.md"}
        ]
    ].

crash_report(Config) ->
    Folder = in(Config, "crash"),
    ok = filelib:ensure_path(Folder),
    %% What it once was called, planted for whoever might take it.
    ok = file:write_file(in(Config, "theirs"), ~"theirs"),
    Remembered = dyno_suites:with_temporary([]),
    true = os:putenv("TMPDIR", Folder),
    Planted = filename:join(Folder, "dyno-crash-" ++ os:getpid() ++ ".txt"),
    ok = file:make_symlink("../theirs", Planted),
    true = os:putenv("DYNO_COOKIE", "a secret"),
    3 = dyno_cli_crash:report(error, #{cookie => 'a secret', reason => why}, []),
    true = os:unsetenv("DYNO_COOKIE"),
    _ = dyno_suites:without_temporary(Remembered),
    [Path] = filelib:wildcard("dyno-crash-*.txt", Folder) -- [filename:basename(Planted)],
    {ok, #file_info{mode = Mode}} = file:read_link_info(filename:join(Folder, Path)),
    ?assertEqual(8#600, Mode band 8#777),
    {ok, Details} = file:read_file(filename:join(Folder, Path)),
    ?assertEqual(
        {nomatch, match}, {has(Details, ~"secret"), has(Details, ~"reason => why")}, Details
    ),
    ?assertEqual({ok, "../theirs"}, file:read_link(Planted)),
    ?assertEqual({ok, ~"theirs"}, file:read_file(in(Config, "theirs"))).

has(Text, Part) -> re:run(Text, Part, [{capture, none}]).
