%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_cluster_SUITE).
-moduledoc "A code in several real nodes at once, monitored; nodes are lost, codes fail.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [changes_the_concurrency].

all() ->
    [
        runs_in_all,
        in_this_node,
        only_watches,
        changes_the_concurrency,
        a_node_is_lost,
        all_nodes_are_lost,
        a_code_fails,
        the_caller_is_killed,
        options,
        recordings,
        command_line
    ].

init_per_testcase(Case, Config) when
    Case =:= options; Case =:= recordings; Case =:= in_this_node
->
    Config;
init_per_testcase(_Case, Config) ->
    Peers = [dyno_peers:start(), dyno_peers:start()],
    Nodes = [Node || {_, Node} <- Peers],
    Before = [{Node, dyno_leftovers:snapshot(Node)} || Node <- Nodes],
    [{peers, Peers}, {nodes, Nodes}, {before, Before} | Config].

end_per_testcase(_Case, Config) ->
    [dyno_peers:stop(Peer) || Peer <- proplists:get_value(peers, Config, [])].

start(Options, Config) ->
    Self = self(),
    dyno_bench_cluster:start_link(
        maps:merge(
            #{
                nodes => proplists:get_value(nodes, Config),
                code => "lists:seq(1, 10).",
                interval_ms => 100,
                handler => fun(Sample) -> Self ! {sample, Sample} end
            },
            Options
        )
    ).

%% The next sample that is so.
next(Is) ->
    receive
        {sample, Sample} ->
            case Is(Sample) of
                true -> Sample;
                false -> next(Is)
            end
    end.

all_here(#{nodes := Nodes}) ->
    lists:all(fun(#{status := Status}) -> Status =:= here end, Nodes).

as_before(Config) ->
    [dyno_leftovers:check(Node, Before) || {Node, Before} <- proplists:get_value(before, Config)].

runs_in_all(Config) ->
    [A, B] = proplists:get_value(nodes, Config),
    {ok, Cluster} = start(#{concurrency => 2}, Config),
    Sample = next(fun all_here/1),
    #{per_second := Total, nodes := [#{node := A} = OfA, #{node := B} = OfB]} = Sample,
    [
        begin
            ?assert(PerSecond > 0),
            ?assertMatch(#{concurrency := 2, values := #{~"vm.memory.total" := _}}, Node)
        end
     || #{per_second := PerSecond} = Node <- [OfA, OfB]
    ],
    ?assert(abs(Total - map_get(per_second, OfA) - map_get(per_second, OfB)) < 1),
    History = dyno_bench_cluster:history(Cluster),
    ?assert(lists:member(Sample, History)),
    #{time_ms := Ms} = Sample,
    ?assertEqual([Sample], dyno_bench_cluster:history(Cluster, {Ms, Ms})),
    ok = dyno_bench_cluster:stop(Cluster),
    as_before(Config).

%% Workers come and go; values are passed on; what was counted stays counted.
in_this_node(Config) ->
    Self = self(),
    Code = #{
        init => fun() -> made end,
        init_runner => fun(made) ->
            Self ! {worker, self()},
            prepared
        end,
        runner => fun(prepared) -> timer:sleep(1) end,
        done => fun(made) -> Self ! done end
    },
    {ok, Cluster} = start(#{nodes => [node()], code => Code}, Config),
    Worker = fun() ->
        receive
            {worker, Pid} -> Pid
        end
    end,
    First = Worker(),
    Set = fun(Count) -> dyno_bench_cluster:set_concurrency(Cluster, node(), Count) end,
    ?assertMatch({error, {_, {in_node, _, {_, {concurrency, 10_001, _}}}}}, Set(10_001)),
    ok = Set(3),
    Others = [Worker(), Worker()],
    _ = next(fun(#{nodes := [#{concurrency := N}], per_second := P}) -> N =:= 3 andalso P > 0 end),
    ok = Set(1),
    ?assert(is_process_alive(First)),
    ?assertEqual([false, false], [is_process_alive(Pid) || Pid <- Others]),
    _ = next(fun(#{nodes := [#{concurrency := N}], per_second := P}) -> N =:= 1 andalso P > 0 end),
    ok = Set(0),
    _ = next(fun(#{nodes := [#{concurrency := N}]}) -> N =:= 0 end),
    ok = Set(1),
    _ = next(fun(#{per_second := P}) -> P > 0 end),
    ok = dyno_bench_cluster:stop(Cluster),
    receive
        done -> ok
    end,
    dyno_leftovers:until(fun() ->
        [] =:= [N || N <- registered(), lists:prefix("dyno_bench_run_", atom_to_list(N))]
    end).

only_watches(Config) ->
    {ok, Cluster} = dyno_bench_cluster:start_link(#{
        nodes => proplists:get_value(nodes, Config), interval_ms => 50, kept => 2
    }),
    ok = filled(Cluster),
    [#{per_second := +0.0}, #{per_second := +0.0}] = dyno_bench_cluster:history(Cluster),
    ok = dyno_bench_cluster:stop(Cluster),
    as_before(Config).

filled(Cluster) ->
    case dyno_bench_cluster:history(Cluster) of
        [_, _] ->
            ok;
        _ ->
            receive
            after 20 -> filled(Cluster)
            end
    end.

changes_the_concurrency(Config) ->
    [A, B] = proplists:get_value(nodes, Config),
    {ok, Cluster} = start(#{}, Config),
    ok = dyno_bench_cluster:set_concurrency(Cluster, B, 3),
    _ = next(fun(#{nodes := Nodes}) ->
        [{N, C} || #{node := N, concurrency := C} <- Nodes] =:= [{A, 1}, {B, 3}]
    end),
    {error, {_, {no_node, 'x@y'}}} = dyno_bench_cluster:set_concurrency(Cluster, 'x@y', 3),
    {error, {_, {in_node, A, _}}} = dyno_bench_cluster:set_concurrency(Cluster, A, -1),
    ok = dyno_bench_cluster:stop(Cluster).

a_node_is_lost(Config) ->
    [A, B] = proplists:get_value(nodes, Config),
    {ok, Cluster} = start(#{}, Config),
    _ = next(fun all_here/1),
    dyno_peers:stop(lists:keyfind(B, 2, proplists:get_value(peers, Config))),
    #{nodes := [#{node := A, per_second := PerSecond}, _]} = next(fun(#{nodes := Nodes}) ->
        [S || #{status := S} <- Nodes] =:= [here, lost]
    end),
    ?assert(PerSecond > 0),
    ok = dyno_bench_cluster:stop(Cluster),
    dyno_leftovers:check(A, proplists:get_value(A, proplists:get_value(before, Config))).

all_nodes_are_lost(Config) ->
    _ = process_flag(trap_exit, true),
    {ok, Cluster} = start(#{}, Config),
    [dyno_peers:stop(Peer) || Peer <- proplists:get_value(peers, Config)],
    receive
        {'EXIT', Cluster, {shutdown, {dyno_bench_remote, {node_lost, _}}}} -> ok
    end.

a_code_fails(Config) ->
    _ = process_flag(trap_exit, true),
    {error, {_, {in_node, _, {dyno_bench_failure, {failed, _, init, _}}}}} =
        start(#{code => #{runner => "ok.", init => "error(early)."}}, Config),
    as_before(Config),
    Late = "r(_, N) when N > 100000 -> error(late); r(_, N) -> N + 1.",
    %% It may fail before all have begun.
    Reason =
        case start(#{code => #{runner => Late, init_runner => "1."}}, Config) of
            {ok, Cluster} ->
                receive
                    {'EXIT', Cluster, {shutdown, Failed}} -> Failed
                end;
            {error, Failed} ->
                Failed
        end,
    Sentence = dyno_error:format(Reason),
    ?assertMatch({match, _}, re:run(Sentence, "the code raised error:late"), Reason),
    as_before(Config).

the_caller_is_killed(Config) ->
    Self = self(),
    Caller = spawn(fun() ->
        {ok, _} = start(#{handler => fun(Sample) -> Self ! {sample, Sample} end}, Config),
        receive
            never -> ok
        end
    end),
    _ = next(fun all_here/1),
    exit(Caller, kill),
    as_before(Config).

options(_Config) ->
    [
        begin
            {error, Reason} = dyno_bench_cluster:start_link(
                maps:merge(#{nodes => [node()]}, Options)
            ),
            ?assert(string:length(dyno_error:format(Reason)) > 20)
        end
     || Options <- [
            #{nodes => []},
            #{nodes => [a, a]},
            #{concurrency => -1},
            #{interval_ms => 1},
            #{kept => 0},
            #{intervall_ms => 100},
            #{code => "foo(."}
        ]
    ].

recordings(_Config) ->
    Node = fun(Name, Status, PerSecond) ->
        #{
            node => Name,
            status => Status,
            per_second => PerSecond,
            concurrency => 1,
            values => #{~"vm.processes" => 7}
        }
    end,
    Samples = [
        #{
            time_ms => 1000,
            per_second => 30.0,
            nodes => [Node(a@x, here, 10.0), Node(b@x, here, 20.0)]
        },
        #{
            time_ms => 2001,
            per_second => 12.0,
            nodes => [Node(a@x, here, 12.0), Node(b@x, lost, 0.0)]
        }
    ],
    Document = dyno_bench_cluster_result:document(
        complete,
        #{
            codes => [~"ok."], interval_ms => 1000, mode => cluster
        },
        Samples,
        dyno_environment:collect()
    ),
    {ok, _} = dyno_recording:validate(Document),
    [Run] = dyno_recording:runs(Document),
    ?assertMatch(
        [
            #{~"node" := ~"a", ~"times_ms" := [1000, 2001], ~"values" := [10.0, 12.0]},
            #{~"node" := ~"b", ~"values" := [20.0, null]}
        ],
        dyno_recording:series(Run, ~"bench.throughput")
    ),
    {ok, #{~"rows" := [[~"a@x", 1, 11.0, 10.0, 12.0, 2], [~"b@x", 1, 20.0 | _], [~"total" | _]]}} =
        dyno_recording:table(Run, ~"cluster"),
    ?assertMatch(
        #{
            ~"status" := ~"partial",
            ~"error" := #{~"text" := ~"node b@x was lost: 1 s were observed"}
        },
        Document
    ),
    [#{~"text" := Warning}] = map_get(~"warnings", Document),
    ?assertMatch({match, _}, re:run(Warning, "b@x was lost; the last 1 sample is")),
    {ok, Text} = dyno_report:render(console, Document, #{}),
    ?assertMatch({match, _}, re:run(Text, "node +workers +throughput")),
    {ok, Markdown} = dyno_report:render(md, Document, #{}),
    ?assertMatch(
        {match, _},
        re:run(Markdown, "\n\\| a&#64;x \\| 1 \\| 11 /s \\| 10 /s \\| 12 /s \\| 2 \\|\n")
    ),
    {ok, Benchstat} = dyno_report:render(benchstat, Document, #{}),
    ?assertMatch(
        {match, [_, _, _]},
        re:run(Benchstat, "(?m)^Benchmark_ok\\./node=[ab]-[0-9]+\t1\t[0-9.]+ op/s$", [global])
    ).

command_line(Config) ->
    dyno_tries:hold(3, fun() -> command_line_once(Config) end).

command_line_once(Config) ->
    [A, B] = [atom_to_list(Node) || Node <- proplists:get_value(nodes, Config)],
    Folder = proplists:get_value(priv_dir, Config),
    File = filename:join(Folder, "cluster.json"),
    Line = ["bench", "lists:seq(1, 10).", "--cookie", atom_to_list(erlang:get_cookie())],
    {0, Out} = dyno_command:run(
        Line ++ ["--node", A, "--node", B, "--for", "1s", "-o", File]
    ),
    ?assertMatch({match, _}, re:run(Out, "Nodes\n +node +workers"), Out),
    [
        ?assertMatch({match, _}, re:run(Out, ["Z?.* ", Name, " +[12] .*/s"]), Out)
     || Name <- [A, B, "total"]
    ],
    {ok, #{~"parameters" := #{~"mode" := ~"cluster"}}} = dyno_recording_file:read(File),
    as_before(Config),
    Server = dyno_command:start(#{folder => Folder, environment => []}),
    [
        begin
            {2, _, Wrong} = dyno_command:ask(Server, Folder, Line ++ More),
            ?assertMatch({match, _}, re:run(Wrong, Expected), Wrong)
        end
     || {More, Expected} <- [
            {["--node", A, "--node", B, "-q"], "--squeeze is for one --node"},
            {["--node", A, "--node", B, "ok."], "one code"},
            {["--node", A, "--watch"], "no option --watch; dyno record NODE --watch"},
            {["--node", A, "--log", "x"], "no option --log; 2>> FILE adds"},
            {["--node", A, "--node", "@b"], "such as shop@host"}
        ]
    ],
    dyno_command:stop(Server).
