%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_endings_SUITE).
-moduledoc """
The program is interrupted, or its first process is killed, while it measures real nodes: it ends,
and so does all that it has started.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% dyno's own limit is 5 s; a machine under all tests at once is late.
-define(MOST_MS, 8000).
-define(FOR, "6s").
-define(FOR_MS, 6000).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [
        target_suspended,
        target_silent,
        data_for_a_suspended_target,
        launcher_killed,
        programs_of_a_killed_launcher,
        terminal_closed,
        disk_fills
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Folder = proplists:get_value(priv_dir, Config),
    [{escript, dyno_escript:build(filename:join(Folder, "dyno"))} | Config].

end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Work = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Work),
    ok = file:write_file(filename:join(Work, "asks.erl"), suite_source()),
    [{work, Work} | Config].

end_per_testcase(_Case, Config) ->
    dyno_disk:unmount(filename:join(work(Config), "disk")).

%% The cases

%% What was measured until then is shown, or kept, also if the node says nothing any more.
target_suspended(Config) ->
    Some = commands(["servers", "trace", "test"], "60s"),
    with_commands(Some, fun begun/1, Config, fun(Runs) ->
        [dyno_escript:kill("STOP", Target) || #{target_pid := Target} <- Runs],
        [dyno_escript:kill("TERM", launcher(Run)) || Run <- Runs],
        Start = erlang:monotonic_time(millisecond),
        [
            begin
                {Status, Out} = dyno_command:output(Port),
                Ms = erlang:monotonic_time(millisecond) - Start,
                ct:log("~ts: ~b ms~n~ts", [Command, Ms, Out]),
                ?assertEqual({Command, 130}, {Command, Status}),
                ?assert(Ms < ?MOST_MS, {Command, Ms}),
                ?assert(has_result(Run, Out), {Command, Out})
            end
         || #{command := Command, port := Port} = Run <- Runs
        ],
        [dyno_escript:kill("CONT", Target) || #{target_pid := Target} <- Runs],
        ok = all_left(Runs)
    end).

%% Nobody interrupts: the time that was asked for passes, and the node says nothing.
target_silent(Config) ->
    Suspend = fun(#{target_pid := Target} = Run) ->
        ok = begun(Run),
        dyno_escript:kill("STOP", Target)
    end,
    All = ["servers", "record", "trace", "verify", "test"],
    with_commands(commands(All, ?FOR), Suspend, Config, fun(Runs) ->
        Start = erlang:monotonic_time(millisecond),
        [
            begin
                {Status, Out} = dyno_command:output(Port),
                Ms = erlang:monotonic_time(millisecond) - Start,
                ct:log("~ts: ~b ms~n~ts", [Command, Ms, Out]),
                ?assertEqual({Command, 3}, {Command, Status}),
                ?assert(Ms < ?FOR_MS + ?MOST_MS + own_ms(Command), {Command, Ms}),
                %% trace says so on standard error.
                ?assert(
                    Command =:= "trace" orelse
                        binary:match(Out, [~"was lost", ~"went silent"]) =/= nomatch,
                    {Command, Out}
                )
            end
         || #{command := Command, port := Port} <- Runs
        ],
        [dyno_escript:kill("CONT", Target) || #{target_pid := Target} <- Runs],
        ok = all_left(Runs)
    end).

%% The suite's own tear-down calls the node, which is tried for 7 s.
own_ms("test") -> 8000;
own_ms(_Command) -> 0.

%% The VM would wait for ever until it has sent them.
data_for_a_suspended_target(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    Target = list_to_integer(erpc:call(Node, os, getpid, [])),
    Source = io_lib:format(
        "-module(busy_bench). -export([benchmarks/0]).~n"
        "benchmarks() ->~n"
        "    {ok, _} = net_kernel:start(dyno_busy, #{name_domain => shortnames}),~n"
        "    erlang:set_cookie(~p), pong = net_adm:ping(~p), os:cmd(\"kill -STOP ~b\"),~n"
        "    Send = fun() -> erlang:send({x, ~p}, <<0:8000000>>, [nosuspend]) end,~n"
        "    [Send() || _ <- lists:seq(1, 50)], nothing.~n",
        [erlang:get_cookie(), Node, Target, Node]
    ),
    ok = file:write_file(filename:join(work(Config), "busy_bench.erl"), Source),
    Port = dyno_escript:start(escript(Config), ["bench", "busy_bench.erl"], #{
        folder => work(Config)
    }),
    try
        {2, _} = dyno_command:output(Port)
    after
        dyno_escript:kill("CONT", Target),
        dyno_peers:stop(Peer)
    end.

%% By a supervisor of containers, or for lack of memory: nobody else knows dyno's emulator.
launcher_killed(Config) ->
    Some = commands(["servers", "verify", "test"], "60s"),
    with_commands(Some, fun(_Run) -> ok end, Config, fun(Runs) ->
        Started = [dyno_escript:descendants(launcher(Run)) || Run <- Runs],
        [
            no_cookie_in_arguments(Pid)
         || Run <- Runs, Pid <- dyno_escript:descendants(launcher(Run))
        ],
        [dyno_escript:kill("KILL", launcher(Run)) || Run <- Runs],
        [
            dyno_suites:await(fun() -> not dyno_escript:is_running(Pid) end)
         || Pids <- Started, Pid <- Pids
        ],
        ok = all_left(Runs)
    end).

no_cookie_in_arguments(Pid) ->
    {ok, Arguments} = file:read_file(lists:concat(["/proc/", Pid, "/cmdline"])),
    ?assertEqual(nomatch, binary:match(Arguments, atom_to_binary(erlang:get_cookie())), Arguments).

%% VMs and programs that dyno has started end with it.
programs_of_a_killed_launcher(Config) ->
    Marks = [
        begin
            Mark = filename:join(work(Config), "mark" ++ integer_to_list(N)),
            {Mark, Arguments ++ [lists:flatten(io_lib:format(Code, [Mark]))]}
        end
     || {N, Arguments, Code} <- [
            {1, ["bench", "-i", "--for", "60s"], "file:write_file(\"~ts.\" ++ os:getpid(), [])."},
            {2, ["profile", "--eval"],
                "file:write_file(\"~ts.\" ++ os:getpid(), []), timer:sleep(60000)"}
        ]
    ],
    Ports = [
        dyno_escript:start(escript(Config), Arguments, #{folder => work(Config)})
     || {_, Arguments} <- Marks
    ],
    Others = [
        begin
            dyno_suites:await(fun() -> filelib:wildcard(Mark ++ ".*") =/= [] end),
            "." ++ Pid = filename:extension(hd(filelib:wildcard(Mark ++ ".*"))),
            list_to_integer(Pid)
        end
     || {Mark, _} <- Marks
    ],
    Own = lists:append([dyno_escript:descendants(launcher(#{port => Port})) || Port <- Ports]),
    [dyno_escript:kill("KILL", launcher(#{port => Port})) || Port <- Ports],
    [dyno_suites:await(fun() -> not dyno_escript:is_running(Pid) end) || Pid <- Others ++ Own].

%% The window is closed, the line to the machine breaks: the terminal is gone, and SIGHUP comes.
terminal_closed(Config) ->
    Script = os:find_executable("script"),
    true = is_list(Script),
    {Peer, Node} = dyno_peers:start(),
    Line = lists:flatten(io_lib:format("'~ts' servers ~ts -o kept.json", [escript(Config), Node])),
    Port = open_port({spawn_executable, Script}, [
        {args, ["-qec", Line, "/dev/null"]},
        {cd, work(Config)},
        {env, [{"DYNO_COOKIE", atom_to_list(erlang:get_cookie())}, {"TERM", "xterm"}]},
        exit_status,
        binary
    ]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    dyno_suites:await(fun() -> is_attached(Node) end),
    Started = dyno_escript:descendants(Pid),
    dyno_escript:kill("KILL", Pid),
    [dyno_suites:await(fun() -> not dyno_escript:is_running(P) end) || P <- Started],
    dyno_suites:await(fun() -> not is_attached(Node) end),
    Kept = filename:join(work(Config), "kept.json"),
    ?assertMatch({ok, #{~"status" := ~"interrupted"}}, dyno_recording_file:read(Kept)),
    dyno_peers:stop({Peer, Node}).

%% While they measure: the result is shown, and that it could not be kept.
disk_fills(Config) ->
    Disk = filename:join(work(Config), "disk"),
    case dyno_disk:mount(Disk, 512) of
        ok -> disk_fills(Disk, Config);
        Skip -> Skip
    end.

disk_fills(Disk, Config) ->
    For = ["--for", ?FOR],
    Runs = [
        begin
            {_, Node} = Peer = dyno_peers:start(),
            Folder = filename:join(work(Config), Command),
            ok = filelib:ensure_path(Folder),
            File = filename:join(Disk, Command ++ ".json"),
            Port = dyno_escript:start(
                escript(Config), [Command | Arguments(atom_to_list(Node))] ++ ["-o", File], #{
                    folder => Folder,
                    environment => [{"DYNO_COOKIE", atom_to_list(erlang:get_cookie())}]
                }
            ),
            {Peer, Folder, Port}
        end
     || {Command, Arguments} <- [
            {"servers", fun(Node) -> [Node | For] end},
            {"record", fun(Node) -> [Node | For] end}
        ]
    ],
    timer:sleep(4000),
    ok = dyno_disk:fill(Disk),
    [
        begin
            {Status, Out} = dyno_command:output(Port),
            {ok, Error} = file:read_file(filename:join(Folder, "stderr")),
            ct:log("~ts~n~ts~n~ts", [Folder, Out, Error]),
            ?assertEqual({Folder, 3}, {Folder, Status}),
            %% record keeps each part as it comes, and ends with what it has.
            Said = re:run([Error, Out], "\\.json:\\s+the disk is full"),
            ?assertMatch({match, _}, Said, {Error, Out}),
            ?assertMatch({_, _}, binary:match(Out, [~"Metrics", ~"utilisation"]), Out)
        end
     || {_, Folder, Port} <- Runs
    ],
    [dyno_peers:stop(Peer) || {Peer, _, _} <- Runs].

%% Helpers

%% Each command in a node of its own, all at the same time. Each is given to the second argument as
%% soon as it has put its agent there.
with_commands(Commands, Attached, Config, Use) ->
    Runs = [run(Command, Arguments, Config) || {Command, Arguments} <- Commands],
    try
        Waits = [
            spawn_monitor(fun() ->
                dyno_suites:await(fun() -> is_attached(Node) end),
                Attached(Run)
            end)
         || #{peer := {_, Node}} = Run <- Runs
        ],
        [
            receive
                {'DOWN', Ref, process, _, Why} -> ?assertEqual(normal, Why)
            end
         || {_, Ref} <- Waits
        ],
        Use(Runs)
    after
        [
            begin
                dyno_escript:kill("CONT", Target),
                [dyno_escript:kill("KILL", Pid) || Pid <- [launcher(Run)], is_integer(Pid)],
                dyno_peers:stop(Peer)
            end
         || #{peer := Peer, target_pid := Target} = Run <- Runs
        ]
    end.

commands(Names, For) ->
    All = [
        {"servers", fun(Node) -> ["servers", Node, "--for", For] end},
        {"record", fun(Node) -> ["record", Node, "--for", For] end},
        {"trace", fun(Node) ->
            ["trace", Node, "lists:seq/2", "--for", For, "--count", "100000"]
        end},
        {"verify", fun(Node) ->
            ["verify", example("verify/shop_answers.dyno"), Node, "--for", For]
        end},
        {"test", fun(_Node) -> ["test", "asks.erl", "--for", For] end}
    ],
    [Command || {Name, _} = Command <- All, lists:member(Name, Names)].

%% Nothing tells when the measured part begins: soon after the agent has come.
begun(#{command := "test", peer := {_, Node}}) ->
    dyno_suites:await(fun() -> erpc:call(Node, persistent_term, get, [asked, false]) end);
begun(_Run) ->
    timer:sleep(3000).

run(Command, Arguments, Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    Port = dyno_escript:start(escript(Config), Arguments(atom_to_list(Node)), #{
        folder => work(Config),
        environment => [
            {"DYNO_COOKIE", atom_to_list(erlang:get_cookie())}, {"TARGET", atom_to_list(Node)}
        ]
    }),
    #{
        command => Command,
        port => Port,
        peer => Peer,
        target_pid => list_to_integer(erpc:call(Node, os, getpid, []))
    }.

has_result(#{command := "trace"}, _Out) -> true;
has_result(_Run, Out) -> binary:match(Out, ~"interrupted") =/= nomatch.

all_left(Runs) ->
    [dyno_suites:await(fun() -> not is_attached(Node) end) || #{peer := {_, Node}} <- Runs],
    [
        dyno_suites:await(fun() -> length(erpc:call(Node, trace, session_info, [all])) =:= 1 end)
     || #{peer := {_, Node}} <- Runs
    ],
    ok.

is_attached(Node) ->
    erpc:call(Node, erlang, whereis, [dyno_agent]) =/= undefined.

launcher(#{port := Port}) ->
    case erlang:port_info(Port, os_pid) of
        {os_pid, Pid} -> Pid;
        undefined -> undefined
    end.

escript(Config) -> proplists:get_value(escript, Config).

work(Config) -> proplists:get_value(work, Config).

example(Name) -> filename:join([dyno_project:root(), "examples", Name]).

suite_source() ->
    ~"""
    -module(asks).
    -behaviour(dyno_suite).
    -export([suite/0, init_run/2, init_worker/2, operation/1, end_run/1]).
    suite() -> #{name => "asks", sizes => [1], duration_ms => 60000, control => false, patterns => ["lists"]}.
    init_run(_, _) ->
        Node = list_to_atom(os:getenv("TARGET")),
        {ok, [Node], Node}.
    init_worker(_Id, Node) -> {ok, Node}.
    operation(Node) ->
        ok = erpc:call(Node, persistent_term, put, [asked, true]),
        _ = erpc:call(Node, lists, seq, [1, 10]),
        {ok, Node}.
    end_run(Node) -> erpc:call(Node, erlang, node, []).
    """.
