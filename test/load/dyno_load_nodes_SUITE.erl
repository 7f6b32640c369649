%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_nodes_SUITE).
-moduledoc """
Loads that other nodes generate: started here, by a program that stands for ssh, and running
already; what they measure is merged exactly, and one that dies does not end the run.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() -> [two_nodes_share_a_load].

all() -> [{group, nodes}].

groups() ->
    [
        {nodes, [parallel], [
            two_nodes_share_a_load,
            arrivals_are_shared_exactly,
            workers_and_iterations_are_shared,
            clocks_are_compared,
            with_a_long_name,
            by_a_program_like_ssh,
            a_program_that_fails,
            a_node_that_runs,
            a_node_that_dies,
            the_last_node_dies,
            nodes_that_are_not_there,
            mistakes
        ]}
    ].

%% What they do has been tried by the others and by the tests of the command line.
slow() -> [with_a_long_name, by_a_program_like_ssh, a_node_that_dies].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    dyno_suites:prepare(?MODULE, dyno_suites:with_temporary(Config)).

end_per_suite(Config) ->
    dyno_suites:without_temporary(Config).

%% The suite's callbacks, which run in the load nodes

init_worker(Id, Gatherer) -> {ok, {Id, Gatherer}}.

operation({Id, none} = State) ->
    _ = Id,
    {ok, State};
operation({Id, Gatherer} = State) ->
    Gatherer ! {done, Id, node()},
    {ok, State}.

start(Load, Nodes, RunState) ->
    start(Load, Nodes, RunState, #{}).

start(Load, Nodes, RunState, Options) ->
    {ok, Read} = dyno_load_spec:read(Load, 1),
    {ok, Pid} = dyno_load:start_link(
        maps:merge(
            #{
                sink => self(),
                module => ?MODULE,
                run_state => RunState,
                load => Read,
                load_nodes => Nodes,
                duration_ms => 200,
                warmup_ms => 20,
                interval_ms => 50,
                timeout_ms => 20_000
            },
            Options
        )
    ),
    Pid.

run(Load, Nodes, RunState) ->
    result(start(Load, Nodes, RunState)).

result(Pid) ->
    process_flag(trap_exit, true),
    Events = dyno_load_SUITE:events(Pid),
    case lists:last(Events) of
        {ended, Result} ->
            Result;
        {failed, Text} ->
            {failed, Text}
    end.

gathered() ->
    receive
        {done, Id, Node} -> [{Id, Node} | gathered()]
    after 0 -> []
    end.

two_nodes_share_a_load(_Config) ->
    Load = #{model => closed, workers => 6, iterations => {each, 50}},
    Result = result(start(Load, [{peer, 2}], self(), #{warmup_ms => 0, duration_ms => 30_000})),
    #{total := #{successes := 300, response := Response}, nodes := [A, B]} = Result,
    %% Every operation that was made is in the merged result, and nothing else.
    Done = gathered(),
    ?assertEqual(300, length(Done)),
    ?assertEqual(300, map_get(count, Response)),
    ?assertMatch({#{successes := 150, workers := 3}, #{successes := 150, workers := 3}}, {A, B}),
    ?assertEqual([1, 2, 3, 4, 5, 6], lists:usort([Id || {Id, _} <- Done])),
    ?assertEqual(2, length(lists:usort([N || {_, N} <- Done]))),
    ?assertNot(lists:member(node(), [N || {_, N} <- Done])),
    gone([map_get(node, N) || N <- [A, B]]).

gone(Nodes) ->
    [dyno_suites:await(fun() -> net_adm:ping(Node) =:= pang end) || Node <- Nodes].

%% Each arrival of the one schedule begins in one of the nodes: with random gaps, too.
arrivals_are_shared_exactly(_Config) ->
    Load = #{model => open, rate_per_s => 400, arrivals => poisson, workers => 20},
    #{parts := [#{arrivals := Arrivals}], total := #{started := Started}, nodes := Nodes} =
        run(Load, [{peer, 2}], none),
    ?assert(Started =< Arrivals),
    ct:pal("~b of ~b, ~tp", [Started, Arrivals, Nodes]),
    %% Neither has more than half of them, a busy machine may have kept some from beginning.
    [?assert(Ok =< Arrivals div 2 + 1) || #{successes := Ok} <- Nodes].

workers_and_iterations_are_shared(_Config) ->
    Load = #{model => closed, workers => 3, iterations => 101},
    Result = result(start(Load, [{peer, 2}], none, #{duration_ms => 30_000})),
    #{total := #{successes := 101}, nodes := Nodes} = Result,
    ?assertEqual([50, 51], lists:sort([Ok || #{successes := Ok} <- Nodes])),
    ?assertEqual([1, 2], lists:sort([W || #{workers := W} <- Nodes])).

%% On one machine both clocks are read at the same time, whatever they begin with.
clocks_are_compared(_Config) ->
    {ok, Node} = dyno_peer:start(#{}),
    {Offset, Uncertain} = dyno_load_nodes:clock(Node),
    ?assertEqual({0, 0}, dyno_load_nodes:clock(node())),
    %% By the one clock that the machine's nodes have in common.
    Common = fun() ->
        erlang:monotonic_time(nanosecond) - erlang:system_time(nanosecond)
    end,
    Expected = erpc:call(Node, Common) - Common(),
    ct:pal("offset ~b, by the system's time ~b, +- ~b ns", [Offset, Expected, Uncertain]),
    ?assert(abs(Offset - Expected) =< Uncertain + 20_000_000),
    ok = dyno_peer:stop(Node).

%% dyno's node has one, and so have the target's and the load's: on a machine without a domain.
with_a_long_name(Config) ->
    File = filename:join(proplists:get_value(work, Config), "long.json"),
    Name = "dyno_long_" ++ os:getpid() ++ "@127.0.0.1",
    {0, _} = dyno_command:run([
        "test",
        filename:join([dyno_project:root(), "examples", "cache_demo.erl"]),
        "--sizes",
        "1",
        "--for",
        "300ms",
        "--warmup",
        "100ms",
        "--load-nodes",
        "1",
        "--without",
        "control",
        "--threshold",
        "latency.p99 < 10 s",
        "--name",
        Name,
        "-o",
        File
    ]),
    {ok, #{~"runs" := [Run]}} = dyno_recording_file:read(File),
    [#{~"node" := Node}] = dyno_suites:table(Run, ~"load_nodes", any),
    ?assertMatch({_, _}, binary:match(Node, ~"@127.0.0.1")).

%% No sshd here: a program that takes ssh's arguments and starts what they say on this machine.
ssh(Config, Name, Line) ->
    Script = filename:join(proplists:get_value(work, Config), Name),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    ok = file:write_file(Script, ["#!/bin/sh\n", io_lib:format(Line, [Erl])]),
    ok = file:change_mode(Script, 8#755),
    Script.

by_a_program_like_ssh(Config) ->
    Log = filename:join(proplists:get_value(work, Config), "arguments"),
    Script = ssh(
        Config,
        "fake_ssh",
        "echo \"$@\" > " ++ Log ++
            "\nwhile [ \"$1\" != erl ]; do shift; done; shift\n"
            "exec ~ts \"$@\"\n"
    ),
    [_, Host] = string:split(atom_to_list(node()), "@"),
    Load = #{model => closed, workers => 2, iterations => 100},
    Spec = {ssh, "someone@" ++ Host, #{program => Script}},
    #{total := #{successes := 100}, nodes := [#{node := Node}]} =
        result(start(Load, [Spec], none, #{duration_ms => 30_000})),
    ?assertMatch({match, _}, re:run(atom_to_list(Node), "^dyno_load.*@" ++ Host)),
    {ok, Arguments} = file:read_file(Log),
    ?assertMatch(
        {0, _},
        binary:match(Arguments, iolist_to_binary(["-o BatchMode=yes someone@", Host, " erl"]))
    ),
    %% Everybody on both machines can read them.
    ?assertEqual(nomatch, binary:match(Arguments, atom_to_binary(erlang:get_cookie()))),
    %% Folders of this machine are not named on the other.
    ?assertEqual(nomatch, binary:match(Arguments, ~"-pa")),
    gone([Node]).

a_program_that_fails(Config) ->
    Script = ssh(Config, "failing_ssh", "echo permission denied >&2; exit 255 # ~ts\n"),
    Load = #{model => closed, workers => 2},
    {failed, Text} = run(Load, [{ssh, "nowhere", #{program => Script}}], none),
    contains(Text, [~"no load node could be started", ~"nowhere", ~"did not boot"]),
    {failed, None} = run(Load, [{ssh, "nowhere", #{program => "no_such_ssh"}}], none),
    contains(None, [~"no program no_such_ssh"]),
    %% The tests' node has a short name.
    {failed, Dotted} = run(Load, [{ssh, "me@10.0.0.5", #{program => Script}}], none),
    contains(Dotted, [~"no load node on 10.0.0.5", ~"--name"]).

contains(Text, Parts) ->
    [?assertNotEqual(nomatch, binary:match(Text, Part), Text) || Part <- Parts].

a_node_that_runs(_Config) ->
    {ok, Node} = dyno_peer:start(#{}),
    Load = #{model => closed, workers => 2, iterations => 100},
    #{total := #{successes := 100}, nodes := [#{node := Node}]} =
        result(start(Load, [Node], none, #{duration_ms => 30_000})),
    %% It stays.
    ?assertEqual(pong, net_adm:ping(Node)),
    ok = dyno_peer:stop(Node).

a_node_that_dies(_Config) ->
    Load = #{model => closed, workers => 4, think_time_ms => 5},
    Pid = start(Load, [{peer, 2}], self(), #{duration_ms => 1000}),
    Victim = after_some(Pid),
    true = erpc:cast(Victim, erlang, halt, [0]) =:= ok,
    Result = result(Pid),
    #{nodes := Nodes, total := #{successes := All}, duration_ns := 1_000_000_000} = Result,
    [#{node := Victim, lost_at_ms := AtMs, successes := Kept}] =
        [N || #{lost_at_ms := At} = N <- Nodes, At =/= undefined],
    [#{successes := Others}] = [N || #{lost_at_ms := undefined} = N <- Nodes],
    ?assert(AtMs >= 0),
    ?assert(Others > 0),
    ?assertEqual(All, Kept + Others),
    [Text] = [T || {~"load_node_lost", T} <- dyno_load_verdict:warnings(Result)],
    contains(Text, [atom_to_binary(Victim), ~"went down"]).

%% Lets the load go on until a node has shown what it did.
after_some(Pid) ->
    receive
        {dyno_load, Pid, warm} ->
            ok = dyno_load_source:measure(Pid),
            after_some(Pid);
        {dyno_load, Pid, {interval, #{throughput_per_s := T}}} when T > 0 ->
            receive
                {done, 1, Node} -> Node
            end;
        {dyno_load, Pid, _} ->
            after_some(Pid)
    end.

the_last_node_dies(_Config) ->
    Load = #{model => closed, workers => 2, think_time_ms => 5},
    Pid = start(Load, [{peer, 1}], self(), #{duration_ms => 5000}),
    Victim = after_some(Pid),
    ok = erpc:cast(Victim, erlang, halt, [0]),
    {failed, Text} = result(Pid),
    contains(Text, [atom_to_binary(Victim), ~"no other is left"]).

nodes_that_are_not_there(_Config) ->
    [_, Host] = string:split(atom_to_list(node()), "@"),
    Node = list_to_atom("not_there@" ++ Host),
    {failed, Text} = run(#{model => closed, workers => 2}, [Node], none),
    contains(Text, [~"load node", ~"no node not_there is registered at"]).

mistakes(_Config) ->
    [
        begin
            {error, Reason} = dyno_load_nodes:read(Spec),
            contains(unicode:characters_to_binary(dyno_load_nodes:format_error(Reason)), [
                ~"load_nodes", ~"{peer, N}", ~"{ssh, Host}"
            ])
        end
     || Spec <- [0, local, [{peer, 0}], [no_host], [{ssh, 5}], [{peer, #{name => "x"}}], "host"]
    ],
    ?assertEqual({ok, [{peer, 3}]}, dyno_load_nodes:read(3)).
