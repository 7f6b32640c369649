%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_remote_SUITE).
-moduledoc "Measuring in another node: a real one, without dyno, which must be as before.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() -> [the_time_is_over].

all() ->
    [
        compares_there,
        the_clocks_of_this_machine,
        the_wall_clock_of_others,
        all_modes,
        a_node_without_a_compiler,
        inputs_and_files,
        errors,
        a_code_that_ends_the_node,
        interrupted,
        the_caller_is_killed,
        the_caller_is_killed_while_a_code_hangs,
        dyno_is_killed,
        the_time_is_over,
        too_much_memory
    ].

%% It takes the five seconds in which a code may end by itself.
slow() ->
    [the_caller_is_killed_while_a_code_hangs].

init_per_testcase(Case, Config) when
    Case =:= a_node_without_a_compiler; Case =:= inputs_and_files
->
    case dyno_peers:needs_own_funs(Config) of
        {skip, _} = Skip -> Skip;
        _ -> prepared(Config)
    end;
init_per_testcase(_Case, Config) ->
    prepared(Config).

prepared(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    [{peer, Peer}, {node, Node}, {before, dyno_leftovers:snapshot(Node)} | Config].

end_per_testcase(_Case, Config) ->
    dyno_peers:stop(proplists:get_value(peer, Config)).

run(Codes, Config) ->
    run(Codes, #{}, Config).

run(Codes, Options, Config) ->
    dyno_bench:run(Codes, Options#{node => proplists:get_value(node, Config)}).

as_before(Config) ->
    Node = proplists:get_value(node, Config),
    dyno_leftovers:check(Node, proplists:get_value(before, Config)),
    ?assertEqual(
        [],
        [N || N <- erpc:call(Node, erlang, registered, []), lists:prefix("dyno", atom_to_list(N))]
    ).

compares_there(Config) ->
    Node = proplists:get_value(node, Config),
    Self = self(),
    Code = #{runner => "lists:seq(1, 10).", init => fun() -> Self ! {ran_in, node()} end},
    %% A fun of this module does not exist there.
    {error, _} = run([Code], Config),
    {ok, Document} = run(
        [
            #{runner => "lists:seq(1, 10).", init => {erlang, send, [Self, there]}},
            "lists:seq(1, 200)."
        ],
        %% It ends when it is decided.
        #{budget_ms => 60_000},
        Config
    ),
    receive
        there -> ok
    after 0 -> ct:fail(not_run)
    end,
    [#{~"nodes" := [#{~"name" := Name, ~"os_pid" := Pid}]} = Run] = dyno_recording:runs(Document),
    ?assertEqual(atom_to_binary(Node), Name),
    ?assertNotEqual(list_to_binary(os:getpid()), Pid),
    %% Times that drift on a busy machine give no verdict.
    {ok, #{~"rows" := [[_, _, _, _, _, Verdict]]}} = dyno_recording:table(Run, ~"comparisons"),
    ?assert(lists:member(Verdict, [~"slower", ~"unknown", ~"undecided"]), Verdict),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)),
    as_before(Config).

%% The library is loaded from where this dyno has it, and goes with the module.
the_clocks_of_this_machine(Config) ->
    case dyno_clock:available() of
        false ->
            {skip, "the NIF that reads a thread's clocks is not built"};
        true ->
            {ok, Document} = run(["lists:seq(1, 10)."], #{metric => cpu, budget_ms => 50}, Config),
            ?assertEqual([], [C || #{~"code" := ~"clock" = C} <- map_get(~"warnings", Document)]),
            as_before(Config),
            Node = proplists:get_value(node, Config),
            Maps = filename:join(["/proc", erpc:call(Node, os, getpid, []), "maps"]),
            [
                ?assertEqual(nomatch, binary:match(Text, ~"dyno_clock"))
             || {ok, Text} <- [file:read_file(Maps)]
            ]
    end.

%% Here they are not: the folders are those of a machine that has no dyno.
the_wall_clock_of_others(Config) ->
    Node = proplists:get_value(node, Config),
    {ok, Target} = dyno_bench_remote:attach(Node, [], #{}),
    ?assertNot(erpc:call(Node, dyno_clock, load_from, [["/no/such/folder"]])),
    ?assertMatch(#{cpu_ns := undefined}, erpc:call(Node, dyno_clock, thread, [])),
    _ = dyno_target:leave([Target]),
    as_before(Config).

all_modes(Config) ->
    [
        begin
            {ok, #{~"status" := ~"complete"}} = run(["lists:seq(1, 10)."], #{mode => Mode}, Config),
            as_before(Config)
        end
     || Mode <- [
            {continuous, #{samples => 2, sample_ms => 5}},
            {timed, #{samples => 2, iterations => 100}},
            {squeeze, #{max => 2, sample_ms => 5}}
        ]
    ].

a_node_without_a_compiler(Config) ->
    Node = proplists:get_value(node, Config),
    Folder = erpc:call(Node, code, lib_dir, [compiler]),
    true = erpc:call(Node, code, del_path, [filename:join(Folder, "ebin")]),
    Purge = fun(Module) ->
        _ = erpc:call(Node, code, delete, [Module]),
        erpc:call(Node, code, purge, [Module])
    end,
    Purge(compile),
    ?assertMatch({error, _}, erpc:call(Node, code, ensure_loaded, [compile])),
    {ok, _} = run(["r(X) -> X + 1."], #{inputs => [{"1", "1."}], budget_ms => 20}, Config),
    {ok, _} = run(
        ["rand:uniform()."], #{mode => {continuous, #{samples => 1, sample_ms => 5}}}, Config
    ).

inputs_and_files(Config) ->
    {ok, Document} = run(
        ["r(N) -> lists:seq(1, N)."],
        #{
            budget_ms => 20, inputs => [{"1", "1."}, {"9", "9."}]
        },
        Config
    ),
    ?assertMatch([#{~"id" := ~"1"}, #{~"id" := ~"9"}], dyno_recording:runs(Document)),
    File = filename:join(proplists:get_value(priv_dir, Config), "remote_bench.erl"),
    ok = file:write_file(File, [
        "-module(remote_bench).\n-export([benchmarks/0]).\n"
        "benchmarks() -> [#{name => a, setup => fun() -> helped() end, "
        "codes => [{x, fun(L) -> hd(L) end}, {y, \"r([H | _]) -> H.\"}], check => same}].\n"
        "helped() -> [1].\n"
    ]),
    Options = #{node => proplists:get_value(node, Config), budget_ms => 20},
    {ok, _} = dyno_bench:run_file(File, Options),
    as_before(Config),
    Node = proplists:get_value(node, Config),
    ?assertEqual(non_existing, erpc:call(Node, code, which, [remote_bench])),
    %% The node's own module of that name is not replaced.
    remote_bench = dyno_peers:load(Node, "-module(remote_bench). -export([own/0]). own() -> yes."),
    {error, {_, {taken_module, Node, remote_bench}} = Error} = dyno_bench:run_file(File, Options),
    ?assertEqual(2, dyno_error:exit_status(Error)),
    ?assertEqual(yes, erpc:call(Node, remote_bench, own, [])).

errors(Config) ->
    [
        begin
            {error, Reason} = run([Code], Config),
            Sentence = unicode:characters_to_binary(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Sentence, Expected), Sentence),
            ?assertEqual(Status, dyno_error:exit_status(Reason)),
            as_before(Config)
        end
     || {Code, Status, Expected} <- [
            {"ok(.", 2, "line 1, column 4"},
            {"error(boom).", 1, "the code raised error:boom"},
            {"exit(self(), kill), receive after 1000 -> ok end.", 1, "died"}
        ]
    ].

a_code_that_ends_the_node(Config) ->
    Node = proplists:get_value(node, Config),
    {error, {_, {node_lost, Node}} = Reason} = run(["halt(0)."], Config),
    ?assertEqual(3, dyno_error:exit_status(Reason)),
    ?assertMatch({match, _}, re:run(dyno_error:format(Reason), "was lost")).

%% A process that measures, once the code runs.
measuring(Code, Options, Config) ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        Init = {erlang, send, [Self, {running, self()}]},
        exit({result, run([#{runner => Code, init => Init}], Options, Config)})
    end),
    receive
        {running, Pid} -> ok
    end,
    {Pid, Ref}.

interrupted(Config) ->
    {Pid, Ref} = measuring("timer:sleep(1).", #{budget_ms => 60_000}, Config),
    dyno_bench:interrupt(Pid),
    receive
        {'DOWN', Ref, process, Pid, {result, Result}} ->
            ?assertEqual({error, {dyno_error, interrupted}}, Result)
    end,
    as_before(Config).

the_caller_is_killed(Config) ->
    [
        begin
            {Pid, _} = measuring("timer:sleep(1).", Options, Config),
            exit(Pid, kill),
            as_before(Config)
        end
     || Options <- [
            #{budget_ms => 60_000},
            #{mode => {squeeze, #{sample_ms => 1000}}}
        ]
    ].

%% Also one that holds on to its process. That takes 5 seconds, for which it is asked politely.
the_caller_is_killed_while_a_code_hangs(Config) ->
    {Pid, _} = measuring("process_flag(trap_exit, true), receive never -> ok end.", #{}, Config),
    exit(Pid, kill),
    receive
    after 5000 -> as_before(Config)
    end.

%% The whole emulator, as by the system that runs out of memory: nobody says goodbye.
dyno_is_killed(Config) ->
    Node = proplists:get_value(node, Config),
    There = ["--node", atom_to_list(Node), "--cookie", atom_to_list(erlang:get_cookie())],
    Port = dyno_command:open(["bench", "timer:sleep(1).", "--for", "60s" | There], []),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    loaded(Node, dyno_bench_loop_1),
    [] = os:cmd("kill -KILL " ++ integer_to_list(Pid)),
    receive
        {Port, {exit_status, 137}} -> ok
    end,
    as_before(Config).

loaded(Node, Module) ->
    case erpc:call(Node, erlang, module_loaded, [Module]) of
        true ->
            ok;
        false ->
            receive
            after 20 -> loaded(Node, Module)
            end
    end.

the_time_is_over(Config) ->
    Node = proplists:get_value(node, Config),
    {error, {_, {gave_up, Node, {limit_ms, 100}}} = Reason} =
        dyno_bench_remote:run(Node, fun wait_call/0, own_module(), #{limit_ms => 100}),
    ?assertMatch({match, _}, re:run(dyno_error:format(Reason), "ended after")),
    as_before(Config).

too_much_memory(Config) ->
    Node = proplists:get_value(node, Config),
    {error, {_, {gave_up, Node, {limit_bytes, 1000, _}}}} =
        dyno_bench_remote:run(Node, fun wait_call/0, own_module(), #{limit_bytes => 1000}),
    as_before(Config).

wait() ->
    receive
        dyno_interrupt -> ok
    end.

own_module() ->
    {?MODULE, Binary, File} = code:get_object_code(?MODULE),
    [{?MODULE, File, Binary}].

wait_call() ->
    {?MODULE, wait, []}.
