%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_unread_SUITE).
-moduledoc """
Each command where nobody reads what it prints: `| head -1`, a full device, outputs that are closed.
It ends by itself, says nothing of its own insides, and leaves no crash dump.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

each_release() -> [into_a_full_device, no_dump].

all() -> [into_head, into_a_full_device, closed_outputs, no_dump, a_dump_that_is_wanted].

init_per_suite(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    Looping = "F = fun F() -> lists:seq(1, 3), receive after 20 -> F() end end, spawn(F).",
    _ = dyno_peers:eval(Node, Looping),
    Folder = filename:join(proplists:get_value(priv_dir, Config), "unread"),
    ok = filelib:ensure_path(Folder),
    [{peer, Peer}, {folder, Folder} | Config].

end_per_suite(Config) ->
    dyno_peers:stop(proplists:get_value(peer, Config)).

init_per_testcase(_Case, Config) -> Config.

end_per_testcase(_Case, _Config) -> ok.

%% Those that print while they measure would go on for ever.
into_head(Config) ->
    Commands = commands(Config),
    ?assertEqual(
        [], [Name || {Name, _, _} <- dyno_commands:all()] -- [Name || {Name, _, _} <- Commands]
    ),
    %% One dyno at a time is attached to a node.
    {OnNode, Others} = lists:partition(
        fun({_, Arguments, _}) -> lists:member("--cookie", Arguments) end, Commands
    ),
    dyno_parallel:each(
        fun(Several) -> [ends_quietly(Config, Command) || Command <- Several] end,
        [OnNode, Others],
        2
    ).

ends_quietly(Config, {Name, Arguments, Statuses}) ->
    {Status, Error} = run(Config, "| head -n 1", [Name | Arguments]),
    ?assert(lists:member(Status, Statuses), {Name, Status, Error}),
    ?assertEqual(nomatch, re:run(Error, "rror|rash|DOWN|terminat"), {Name, Error}).

into_a_full_device(Config) ->
    [
        begin
            {Status, Error} = run(Config, ">/dev/full", [Name | Arguments]),
            ?assertEqual({Name, 3}, {Name, Status}),
            ?assertMatch([_], said("no space left on device", Error), {Name, Error})
        end
     || {ok, _} <- [file:read_file_info("/dev/full")],
        {Name, Arguments, _} <- commands(Config),
        lists:member(Name, ["servers", "trace", "--help"])
    ].

closed_outputs(Config) ->
    [
        ?assertMatch({0, _}, run(Config, Closed, Arguments), {Closed, Arguments})
     || Closed <- [">&-", ">/dev/null 2>&-", ">&- 2>&-"],
        Arguments <- [["--help"], ["bench", "lists:seq(1, 9)", "--for", "20ms", "-v"]]
    ].

%% What kills dyno's emulator leaves nothing in the folder, nor does what kills a node of its own.
no_dump(Config) ->
    Folder = proplists:get_value(folder, Config),
    _ = run(Config, "", ["bench", "erlang:halt(\"crash\")", "--for", "20ms"]),
    _ = run(Config, "", ["bench", "-i", "erlang:halt(\"crash\")", "--for", "20ms"]),
    ?assertEqual([], filelib:wildcard("**/erl_crash.dump", Folder)).

a_dump_that_is_wanted(Config) ->
    Dump = filename:join(proplists:get_value(folder, Config), "wanted"),
    true = os:putenv("ERL_CRASH_DUMP", Dump),
    try
        _ = run(Config, "", ["bench", "erlang:halt(\"crash\")", "--for", "20ms"]),
        ?assert(filelib:is_file(Dump))
    after
        os:unsetenv("ERL_CRASH_DUMP")
    end.

commands(Config) ->
    {_, Peer} = proplists:get_value(peer, Config),
    Node = atom_to_list(Peer),
    Cookie = ["--cookie", atom_to_list(erlang:get_cookie())],
    Root = dyno_project:root(),
    Verify = filename:join(Root, "examples/verify/no_message_after_stop.dyno"),
    Recording = dyno_project:data(dyno_cli_SUITE, "recording.json"),
    Suite = dyno_project:data(?MODULE, "unread_perf.erl"),
    [
        {"bench", ["lists:seq(1, 9)", "--for", "20ms"], [0]},
        {"test", [Suite, "-v"], [0]},
        {"doctor", [Node, "--for", "5s" | Cookie], [0]},
        {"record", [Node, "--for", "500ms" | Cookie], [0]},
        {"servers", [Node, "kernel_safe_sup" | Cookie], [130]},
        %% Nothing that it is about is seen.
        {"verify", [Verify, Node, "--for", "300ms" | Cookie], [1]},
        {"profile", [Node, "--for", "500ms" | Cookie], [0]},
        {"trace", [Node, "lists:seq/2", "--count", "1000000", "--for", "1min" | Cookie], [130]},
        {"workload", ["pulse", "--workers", "50", "--for", "100ms"], [0]},
        {"new", [], [0]},
        {"compare", [Recording, Recording], [0]},
        {"report", [Recording], [0]},
        {"leave", [Node | Cookie], [0]},
        {"top", [Node, "--interval", "200ms", "--count", "2" | Cookie], [0]},
        {"demo", ["unread", "--for", "1s"], [0]},
        {"--help", [], [0]},
        {"man", [], [0]}
    ].

said(Part, Text) ->
    [Line || Line <- binary:split(Text, ~"\n", [global]), string:find(Line, Part) =/= nomatch].

%% The status and standard error.
run(Config, Redirection, Arguments) ->
    Folder = proplists:get_value(folder, Config),
    Name = filename:join(Folder, integer_to_list(erlang:unique_integer([positive]))),
    {Program, All} = dyno_command:program(Arguments),
    Line = [
        "cd '",
        Folder,
        "'; { { \"$0\" \"$@\"; echo $? >'",
        Name,
        ".status'; } ",
        Redirection,
        "; } 2>'",
        Name,
        ".error'"
    ],
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", lists:flatten(Line), Program | All]}, exit_status, binary
    ]),
    {_, _} = dyno_command:output(Port),
    {ok, Status} = file:read_file(Name ++ ".status"),
    {ok, Error} = file:read_file(Name ++ ".error"),
    {binary_to_integer(string:trim(Status)), Error}.
