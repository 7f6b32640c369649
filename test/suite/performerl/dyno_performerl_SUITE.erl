%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_performerl_SUITE).
-moduledoc """
Suites in PerformERL's form run as they are, and their mistakes are told in a sentence.

They run in an Erlang of their own that has no name yet, as in the program: with the name and the
cookie that such suites expect, long names among them.
""".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_suites, [says/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() -> [example_runs].

slow() -> [default_name_and_cookie].

all() ->
    [
        example_runs,
        default_name_and_cookie,
        helpers_are_there,
        messages_stay_for_later_callbacks,
        load_runs_already,
        load_was_not_started,
        load_ends_early,
        start_load_takes_long,
        nothing_was_called,
        some_patterns_match_nothing,
        no_pattern_matches,
        size_zero,
        callback_returns_something_else,
        tear_down_fails,
        callbacks_are_missing,
        interrupted_in_start_load
    ].

init_per_suite(Config) ->
    %% The Erlang that dyno runs in; then a target, with long names and a cookie of its own.
    {ok, Peer, _} = peer:start(#{
        connection => standard_io, args => ["-pa" | [P || P <- code:get_path(), filelib:is_dir(P)]]
    }),
    Name = list_to_atom("performerl_" ++ os:getpid() ++ "@127.0.0.1"),
    {ok, TargetPeer, Target} = peer:start(#{
        name => "target_" ++ os:getpid(),
        host => "127.0.0.1",
        longnames => true,
        connection => standard_io,
        args => ["-setcookie", "performerl"]
    }),
    {target_work, Binary} = dyno_suites:compiled(),
    {module, _} = peer:call(TargetPeer, code, load_binary, [target_work, "test", Binary]),
    [{peer, Peer}, {name, Name}, {target_peer, TargetPeer}, {target, Target} | Config].

end_per_suite(Config) ->
    peer:stop(proplists:get_value(peer, Config)),
    peer:stop(proplists:get_value(target_peer, Config)),
    os:unsetenv("TMPDIR"),
    Config.

init_per_testcase(Case, Config) ->
    Prepared = dyno_suites:prepare(Case, Config),
    true = call(Config, os, putenv, ["TMPDIR", proplists:get_value(tmp, Prepared)]),
    Prepared.

%% Nothing is left, in the temporary folder, the target, or the Erlang that dyno ran in.
end_per_testcase(_Case, Config) ->
    case proplists:get_value(tc_status, Config) of
        ok ->
            Peer = proplists:get_value(target_peer, Config),
            Left = [
                M
             || {M, _} <- peer:call(Peer, code, all_loaded, []),
                lists:prefix("dyno", atom_to_list(M))
            ],
            Helpers = call(Config, code, is_loaded, [performerl_lib]),
            Folder = file:list_dir(proplists:get_value(tmp, Config)),
            case {Left, Helpers, Folder} of
                {[], false, {ok, []}} -> ok;
                Other -> {fail, {left, Other}}
            end;
        _ ->
            ok
    end.

call(Config, Module, Function, Arguments) ->
    peer:call(proplists:get_value(peer, Config), Module, Function, Arguments, 60_000).

run(Config, Source, Options) ->
    Name = proplists:get_value(name, Config),
    call(Config, dyno_test, run, [Source, maps:merge(#{name => Name, interval_ms => 50}, Options)]).

%% A suite of which some callbacks are others.
write(Config, Name, Others) ->
    Target = proplists:get_value(target, Config),
    Default = [
        {get_test_name, "get_test_name() -> \"A test\".\n"},
        {get_test_sizes, "get_test_sizes() -> {number_of_things, [3]}.\n"},
        {get_load_duration, "get_load_duration() -> 200.\n"},
        {get_trace_patterns, "get_trace_patterns() -> [{target_work, '_', '_'}].\n"},
        {test_setup, "test_setup() -> mark(test_setup), {ok, test_info}.\n"},
        {setup_run,
            io_lib:format("setup_run(Size) -> mark({setup_run, Size}), {run_started, [~0tp]}.~n", [
                Target
            ])},
        {start_load,
            "start_load([Node], Size) ->\n"
            "    [ok = rpc:call(Node, target_work, leaves, [3]) || _ <- lists:seq(1, Size)],\n"
            "    {load_started, started}.\n"},
        {stop_load, "stop_load(Info) -> mark({stop_load, Info}), {load_stopped, stopped}.\n"},
        {teardown_run, "teardown_run(Info) -> mark({teardown_run, Info}), run_ended.\n"},
        {test_teardown, "test_teardown(Info) -> mark({test_teardown, Info}), ok.\n"}
    ],
    Texts = [proplists:get_value(Callback, Others, Text) || {Callback, Text} <- Default],
    Helpers = [Text || {helper, Text} <- Others],
    Path = dyno_suites:write(Config, Name, none, [Texts, Helpers]),
    {ok, Source} = file:read_file(Path),
    ok = file:write_file(
        Path,
        string:replace(Source, "-behaviour(dyno_suite)", "-behaviour(performerl_load_generator)")
    ),
    _ = file:delete(filename:join(proplists:get_value(work, Config), "marks")),
    Path.

complete(Document) ->
    {ok, _} = dyno_recording:validate(Document),
    ?assertMatch(#{~"status" := ~"complete"}, Document),
    _ = dyno_suites:all_is_known(Document),
    dyno_recording:runs(Document).

warning(Run, Code) ->
    case [T || #{~"code" := C, ~"text" := T} <- maps:get(~"warnings", Run), C =:= Code] of
        [Text] -> Text;
        Other -> ct:fail({Code, Other, maps:get(~"warnings", Run)})
    end.

failed(Document, Parts) ->
    {ok, _} = dyno_recording:validate(Document),
    ?assertMatch(#{~"status" := ~"failed"}, Document),
    says(dyno_suites:error_text(Document), Parts).

calls(Run, Function) ->
    [
        N
     || #{~"function" := F, ~"calls" := N} <- dyno_suites:table(Run, ~"functions", any),
        F =:= Function
    ].

%% Runs

example_runs(Config) ->
    Example = filename:join([dyno_project:root(), "examples", "orders_performerl.erl"]),
    {ok, Document} = run(Config, Example, #{sizes => [10, 300], duration_ms => 700}),
    [Ten, Many] = complete(Document),
    ?assertMatch(#{~"name" := ~"Orders of a shop"}, Document),
    ?assertMatch(#{~"size_label" := ~"number of orders"}, maps:get(~"parameters", Document)),
    [
        begin
            ?assertMatch([N] when N > 0, calls(Run, ~"orders_performerl:take/2")),
            ?assertMatch([#{~"group" := ~"shop"}], dyno_suites:table(Run, ~"processes", any)),
            ?assertMatch([_ | _], dyno_recording:series(Run, ~"vm.memory.total")),
            ?assert(dyno_suites:value(Run, ~"load.start_time") > 0),
            ?assert(maps:get(~"duration_ns", Run) >= 700_000_000),
            %% What it does not tell is missing, and is not 0.
            [
                ?assertEqual(error, dyno_recording:metric(Run, Name))
             || Name <- [~"throughput", ~"latency.p99", ~"errors.count", ~"operations.count"]
            ],
            ?assertEqual([], maps:get(~"histograms", Run)),
            says(warning(Run, ~"no_operations_told"), [~"response times", ~"missing"])
        end
     || Run <- [Ten, Many]
    ],
    %% Its get_invariants/2 was checked.
    ?assertMatch(
        [#{~"result" := ~"pass"}, #{~"result" := ~"pass"}],
        [V || #{~"name" := ~"the_shop_is_open"} = V <- maps:get(~"verdicts", Document)]
    ),
    %% The reader of the report sees the same.
    {ok, Shown} = dyno_report_console:format(Document, #{}),
    Text = iolist_to_binary(Shown),
    ?assertNotEqual(nomatch, binary:match(Text, ~"start_load took")),
    ?assertEqual(nomatch, binary:match(Text, ~"throughput  ")).

%% The name is always the same, and another run of these tests may have it just now: so these nodes
%% have a port mapper of their own.
default_name_and_cookie(Config) ->
    Epmd = integer_to_list(free_port()),
    Common = #{connection => standard_io, env => [{"ERL_EPMD_PORT", Epmd}]},
    Paths = ["-pa" | [P || P <- code:get_path(), filelib:is_dir(P)]],
    {ok, Peer, _} = peer:start(Common#{args => Paths}),
    {ok, TargetPeer, Target} = peer:start(Common#{
        name => "target",
        host => "127.0.0.1",
        longnames => true,
        args => ["-setcookie", "performerl"]
    }),
    try
        {target_work, Binary} = dyno_suites:compiled(),
        {module, _} = peer:call(TargetPeer, code, load_binary, [target_work, "test", Binary]),
        Source = write([{target, Target} | Config], named, [
            {start_load,
                "start_load([Node], _) -> mark({node(), erlang:get_cookie(), node_type()}),\n"
                "    ok = rpc:call(Node, target_work, leaves, [3]), {load_started, i}.\n"
                "node_type() -> lists:member(hd(nodes()), nodes(visible)).\n"}
        ]),
        Run = fun(Source1) -> peer:call(Peer, dyno_test, run, [Source1, #{}], 60_000) end,
        {ok, Document} = Run(Source),
        _ = complete(Document),
        Seen = {'performerl@127.0.0.1', performerl, true},
        ?assert(lists:member(Seen, dyno_suites:marks(Config))),
        %% While that one has the name, another cannot have it.
        {ok, Second, _} = peer:start(Common#{args => Paths}),
        {error, {dyno_own_node, _} = Reason} =
            peer:call(Second, dyno_test, run, [Source, #{}], 60_000),
        peer:stop(Second),
        says(dyno_error:format(Reason), [~"--name"])
    after
        peer:stop(Peer),
        peer:stop(TargetPeer),
        os:cmd("epmd -port " ++ Epmd ++ " -kill")
    end.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

helpers_are_there(Config) ->
    Source = write(Config, helped, [
        {setup_run,
            io_lib:format(
                "setup_run(_) -> Node = ~0tp,\n"
                "    ok = performerl_lib:inject_module(?MODULE, Node),\n"
                "    Path = proplists:get_value(source, ?MODULE:module_info(compile)),\n"
                "    {ok, ?MODULE, Binary} = compile:file(Path, [binary]),\n"
                "    ok = performerl_lib:inject_binary(?MODULE, Binary, Node),\n"
                "    ok = performerl_lib:inject_mod(?MODULE, Node),\n"
                "    7 = performerl_lib:rpc(Node, \"X = 3, X + 4.\"),\n"
                "    ok = performerl_lib:sleep_progress(20),\n"
                "    {{_, _, _}, {_, _, _}} = performerl_lib:get_timestamp(),\n"
                "    Date = performerl_lib:format_date({{2026, 1, 2}, {3, 4, 5}}),\n"
                "    \"02-01-2026.03:04:05\" = lists:flatten(Date),\n"
                "    {run_started, [Node]}.\n",
                [proplists:get_value(target, Config)]
            )},
        {teardown_run,
            io_lib:format(
                "teardown_run(_) ->\n"
                "    [rpc:call(~0tp, code, F, [?MODULE]) || F <- [purge, delete, purge]],\n"
                "    run_ended.\n",
                [proplists:get_value(target, Config)]
            )}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    _ = complete(Document).

messages_stay_for_later_callbacks(Config) ->
    Source = write(Config, talks, [
        {start_load,
            "start_load([Node], _) -> Self = self(),\n"
            "    spawn_link(fun() ->\n"
            "        ok = rpc:call(Node, target_work, leaves, [3]), Self ! done end),\n"
            "    {load_started, self()}.\n"},
        {stop_load,
            "stop_load(Self) when Self =:= self() -> receive done -> {load_stopped, done} end.\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    _ = complete(Document),
    ?assert(lists:member({teardown_run, done}, dyno_suites:marks(Config))).

load_runs_already(Config) ->
    Source = write(Config, already, [
        {start_load,
            "start_load([Node], _) -> Pid = spawn_link(fun() -> working(Node) end),\n"
            "    {already_started, Pid}.\n"
            "working(Node) -> ok = rpc:call(Node, target_work, leaves, [3]),\n"
            "    receive stop -> ok after 5 -> working(Node) end.\n"},
        {stop_load, "stop_load(Pid) when is_pid(Pid) -> Pid ! stop, {load_stopped, stopped}.\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    [Run] = complete(Document),
    ?assertMatch([N] when N >= 3, calls(Run, ~"target_work:leaf/1")),
    ?assertEqual(
        [test_setup, {setup_run, 3}, {teardown_run, stopped}, {test_teardown, test_info}],
        dyno_suites:marks(Config)
    ).

load_was_not_started(Config) ->
    Source = write(Config, not_started, [
        {stop_load, "stop_load(_) -> {error, not_started}.\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    [Run] = complete(Document),
    says(warning(Run, ~"not_started"), [~"stop_load/1", ~"{error, not_started}"]),
    ?assert(lists:member({teardown_run, started}, dyno_suites:marks(Config))).

load_ends_early(Config) ->
    Source = write(Config, early, [
        {get_load_duration, "get_load_duration() -> 1500.\n"},
        {start_load,
            "start_load([Node], _) -> ok = rpc:call(Node, target_work, leaves, [3]),\n"
            "    {already_started, spawn(fun() -> timer:sleep(20), exit(tired) end)}.\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    [Run] = complete(Document),
    says(warning(Run, ~"early_end"), [~"start_load/2", ~"1.5 s", ~"tired"]).

start_load_takes_long(Config) ->
    Source = write(Config, long, [
        {start_load,
            "start_load([Node], _) -> ok = rpc:call(Node, target_work, leaves, [3]),\n"
            "    timer:sleep(400), {load_started, started}.\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    [Run] = complete(Document),
    says(warning(Run, ~"long_start"), [~"start_load/2", ~"200 ms"]),
    ?assert(maps:get(~"duration_ns", Run) >= 400_000_000).

nothing_was_called(Config) ->
    Source = write(Config, idle, [{start_load, "start_load(_, _) -> {load_started, started}.\n"}]),
    {ok, Document} = run(Config, Source, #{}),
    failed(Document, [~"none of the", ~"that idle has measured", ~"missed the targets"]),
    [#{~"status" := ~"failed"}] = dyno_recording:runs(Document),
    ?assert(lists:member({teardown_run, stopped}, dyno_suites:marks(Config))).

some_patterns_match_nothing(Config) ->
    Source = write(Config, partly, [
        {get_trace_patterns,
            "get_trace_patterns() -> [{target_work, leaf, 1}, {target_wrok, '_', '_'}].\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    [Run] = complete(Document),
    says(warning(Run, ~"unmatched"), [~"target_wrok", ~"did you mean target_work"]),
    ?assertMatch([_], calls(Run, ~"target_work:leaf/1")).

no_pattern_matches(Config) ->
    Source = write(Config, nowhere, [
        {get_trace_patterns, "get_trace_patterns() -> [{target_wrok, '_', '_'}].\n"}
    ]),
    {error, Reason} = run(Config, Source, #{}),
    says(dyno_error:format(Reason), [~"target_wrok", ~"did you mean target_work"]),
    ?assertEqual(2, dyno_error:exit_status(Reason)),
    ?assertMatch(
        [test_setup, {setup_run, 3}, {teardown_run, undefined}, {test_teardown, _}],
        dyno_suites:marks(Config)
    ).

size_zero(Config) ->
    Source = write(Config, zero, [
        {get_test_sizes, "get_test_sizes() -> {things, [0, 2]}.\n"},
        {start_load,
            "start_load([Node], _) -> ok = rpc:call(Node, target_work, leaves, [3]),\n"
            "    {load_started, started}.\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    ?assertMatch([#{~"size" := 0}, #{~"size" := 2}], complete(Document)).

%% Mistakes

%% The callback, its arguments, what the test then is, and which marks are left.
mistakes() ->
    Done = {test_teardown, test_info},
    Before = [test_setup, {setup_run, 3}],
    [
        {get_test_name, "", refused, []},
        {get_test_sizes, "", refused, []},
        {get_load_duration, "", refused, []},
        {get_trace_patterns, "", refused, []},
        {test_setup, "", failed, [{test_teardown, undefined}]},
        {setup_run, "_", failed, [test_setup, {teardown_run, undefined}, Done]},
        {start_load, "_, _", failed, Before ++ [{teardown_run, undefined}, Done]},
        {stop_load, "_", failed, Before ++ [{teardown_run, started}, Done]},
        {teardown_run, "_", failed, Before ++ [{stop_load, started}, Done]},
        {test_teardown, "_", failed, Before ++ [{stop_load, started}, {teardown_run, stopped}]}
    ].

expected(get_test_name) -> ~"a string";
expected(get_test_sizes) -> ~"{Label, [Size]}";
expected(get_load_duration) -> ~"milliseconds";
expected(get_trace_patterns) -> ~"{Module, Function, Arity}";
expected(test_setup) -> ~"{ok, TestInfo}";
expected(setup_run) -> ~"{run_started, [Node]}";
expected(start_load) -> ~"{already_started, Pid}";
expected(stop_load) -> ~"{error, not_started}";
expected(teardown_run) -> ~"run_ended";
expected(test_teardown) -> ~"ok is expected".

named(Callback, Arguments) ->
    Arity = length(string:lexemes(Arguments, ", ")),
    iolist_to_binary(io_lib:format("~s/~b", [Callback, Arity])).

%% dyno_test_callbacks_SUITE has those that are called alike.
callback_returns_something_else(Config) ->
    [
        begin
            Text = io_lib:format("~s(~s) -> {something, other}.~n", [Callback, Arguments]),
            Name = list_to_atom(lists:concat([Callback, "_returns"])),
            Kept = filename:join(proplists:get_value(work, Config), "kept.json"),
            Source = write(Config, Name, [{Callback, Text}]),
            {error, Reason} = run(Config, Source, #{recording => Kept}),
            says(dyno_error:format(Reason), [
                named(Callback, Arguments), ~"{something,other}", expected(Callback)
            ]),
            ?assertEqual(2, dyno_error:exit_status(Reason)),
            ?assertEqual({Name, Marks}, {Name, dyno_suites:marks(Config)}),
            case What of
                refused ->
                    ok;
                failed ->
                    {ok, Document} = dyno_recording_file:read(Kept),
                    failed(Document, [named(Callback, Arguments)])
            end
        end
     || {Callback, Arguments, What, Marks} <- mistakes(),
        lists:member(Callback, [get_test_sizes, setup_run, start_load, stop_load, teardown_run])
    ].

%% As in PerformERL, the nodes are then stopped.
tear_down_fails(Config) ->
    Source = write(Config, untidy, [
        {setup_run,
            "setup_run(_) -> Name = \"untidy_\" ++ os:getpid() ++ \"@127.0.0.1\",\n"
            "    Cookie = atom_to_list(erlang:get_cookie()),\n"
            "    os:cmd(\"erl -detached -name \" ++ Name ++ \" -setcookie \" ++ Cookie),\n"
            "    Node = list_to_atom(Name), up(Node), mark(up), {run_started, [Node]}.\n"
            "up(Node) -> case net_adm:ping(Node) of pong -> ok;\n"
            "    pang -> timer:sleep(50), up(Node) end.\n"},
        {get_trace_patterns, "get_trace_patterns() -> [{string, to_upper, 1}].\n"},
        {start_load,
            "start_load([Node], _) -> \"A\" = rpc:call(Node, string, to_upper, [\"a\"]),\n"
            "    {load_started, started}.\n"},
        {teardown_run, "teardown_run(_) -> error(oops).\n"}
    ]),
    {ok, Document} = run(Config, Source, #{}),
    failed(Document, [~"teardown_run/1", ~"oops"]),
    Name = "untidy_" ++ call(Config, os, getpid, []),
    dyno_suites:await(fun() ->
        {ok, Names} = erl_epmd:names("127.0.0.1"),
        not lists:keymember(Name, 1, Names)
    end).

callbacks_are_missing(Config) ->
    Path = filename:join(proplists:get_value(work, Config), "few.erl"),
    ok = file:write_file(
        Path,
        "-module(few).\n-behaviour(performerl_load_generator).\n-export([get_test_name/0]).\n"
        "get_test_name() -> \"few\".\n"
    ),
    {error, Reason} = run(Config, Path, #{}),
    says(dyno_error:format(Reason), [
        ~"few.erl", ~"start_load/2", ~"performerl_load_generator"
    ]),
    ?assertEqual(2, dyno_error:exit_status(Reason)).

interrupted_in_start_load(Config) ->
    Source = write(Config, never_starts, [
        {start_load, "start_load(_, _) -> mark(begun), timer:sleep(infinity).\n"}
    ]),
    Self = self(),
    Options = #{name => proplists:get_value(name, Config), interval_ms => 50},
    Peer = proplists:get_value(peer, Config),
    {Caller, Monitor} = spawn_monitor(fun() ->
        Runner = peer:call(Peer, erlang, spawn, [
            dyno_performerl_SUITE, keep_result, [Source, Options]
        ]),
        Self ! {runner, Runner},
        await_result(Peer)
    end),
    Running =
        receive
            {runner, Runner} -> Runner
        end,
    dyno_suites:await_mark(Config, begun),
    ok = peer:call(Peer, dyno_test, interrupt, [Running]),
    receive
        {'DOWN', Monitor, process, Caller, {result, {ok, Document}}} ->
            ?assertMatch(#{~"status" := ~"interrupted"}, Document)
    end,
    ?assertEqual(
        [test_setup, {setup_run, 3}, begun, {teardown_run, undefined}, {test_teardown, test_info}],
        dyno_suites:marks(Config)
    ).

%% In the Erlang that dyno runs in.
keep_result(Source, Options) ->
    persistent_term:put(?MODULE, dyno_test:run(Source, Options)).

await_result(Peer) ->
    case peer:call(Peer, persistent_term, get, [?MODULE, none]) of
        none ->
            receive
            after 20 -> await_result(Peer)
            end;
        Result ->
            _ = peer:call(Peer, persistent_term, erase, [?MODULE]),
            exit({result, Result})
    end.
