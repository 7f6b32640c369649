%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_custom_SUITE).
-moduledoc """
What a suite brings along for its targets: invariants, metrics of its own, custom agents of both
forms. They do what they say, their mistakes are told in a sentence, and nothing of them stays.
""".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_suites, [says/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

newest_release_only() -> all.

slow() -> [sampling_agent_fails].

all() ->
    [
        invariants_are_read,
        invariants_are_printed,
        histories_add_up,
        invariant_is_violated,
        invariants_of_node_and_size,
        invariant_that_cannot_be_checked,
        invariant_that_hangs,
        threshold_on_a_function,
        metrics_of_the_suite,
        metrics_that_are_none,
        results_become_rows,
        sampling_agent,
        sampling_agent_fails,
        performerl_agents,
        agents_that_are_none,
        agent_of_another_version,
        nothing_stays_when_dyno_dies
    ].

init_per_suite(Config) ->
    dyno_suites:with_target(Config).

end_per_suite(Config) ->
    dyno_suites:without_target(Config).

init_per_testcase(Case, Config) ->
    Before = dyno_suites:snapshot(proplists:get_value(node, Config)),
    [{before, Before} | dyno_suites:prepare(Case, Config)].

end_per_testcase(_Case, Config) ->
    dyno_suites:if_passed(Config, fun() ->
        dyno_suites:clean(Config, proplists:get_value(before, Config)),
        Node = proplists:get_value(node, Config),
        ?assertEqual(false, erpc:call(Node, erlang, module_loaded, [an_agent]))
    end).

node_of(Config) -> proplists:get_value(node, Config).

%% A suite with one worker that calls the target every few milliseconds.
write(Config, Name, Options) ->
    write(Config, Name, Options, "").

write(Config, Name, Options, More) ->
    Node = node_of(Config),
    All = maps:merge(
        #{
            sizes => [1],
            duration_ms => 400,
            warmup_ms => 0,
            interval_ms => 50,
            control => false
        },
        Options
    ),
    dyno_suites:write(Config, Name, All, [
        dyno_suites:on_target(Node), dyno_suites:one_call(pause, 2), More
    ]).

agent(Config, Name, Text) ->
    Path = filename:join(proplists:get_value(work, Config), atom_to_list(Name) ++ ".erl"),
    Head = io_lib:format("-module(~w).~n-compile([export_all, nowarn_export_all]).~n", [Name]),
    ok = file:write_file(Path, [Head, Text]),
    Path.

complete({ok, Document}) ->
    {ok, _} = dyno_recording:validate(Document),
    ?assertMatch(#{~"status" := ~"complete"}, Document),
    dyno_recording:runs(Document).

refused({error, Reason}, Parts) ->
    says(dyno_error:format(Reason), Parts),
    ?assertEqual(2, dyno_error:exit_status(Reason)).

failed({ok, Document}, Parts) ->
    {ok, _} = dyno_recording:validate(Document),
    ?assertMatch(#{~"status" := ~"failed"}, Document),
    says(dyno_suites:error_text(Document), Parts).

warning(Run, Code) ->
    case [T || #{~"code" := C, ~"text" := T} <- maps:get(~"warnings", Run), C =:= Code] of
        [Text | _] -> Text;
        [] -> ct:fail({Code, maps:get(~"warnings", Run)})
    end.

verdicts({ok, #{~"verdicts" := Verdicts}}, Name) ->
    [V || #{~"name" := N} = V <- Verdicts, N =:= Name].

%% Invariants

invariants_are_read(_Config) ->
    Read = fun(Source) ->
        {ok, #{name := Name, call := Call, operator := Operator, value := Value}} =
            dyno_invariant:read(Source),
        {Name, Call, Operator, Value}
    end,
    ?assertEqual({~"a", {m, f, [1]}, '=<', 2}, Read({a, {m, f, [1]}, '=<', 2})),
    ?assertEqual({~"a b", {m, f, []}, '=/=', x}, Read({"a b", {m, f, []}, '=/=', x})),
    Memory = {~"memory", {erlang, memory, [total]}, '=<', 500},
    ?assertEqual(
        {~"memory", {erlang, memory, [total]}, '=<', 500_000_000},
        Read("memory: erlang:memory(total) =< 500 MB")
    ),
    ?assertEqual({~"s", {m, f, []}, '<', 0.05}, Read("s: m:f() < 5%")),
    ?assertEqual({~"t", {m, f, []}, '==', "5 ms"}, Read("t: m:f() == \"5 ms\"")),
    ?assertEqual(Memory, Read("memory: erlang:memory(total) =< 500")),
    ?assertEqual(Memory, Read(~"memory: erlang:memory(total) <= 500")),
    ?assertEqual(
        {~"m:f([{1,\"x\"}]) > -1", {m, f, [[{1, "x"}]]}, '>', -1}, Read("m:f([{1,\"x\"}]) > -1")
    ),
    ?assertEqual({~"e", {'Elixir.A', get, []}, '==', nil}, Read("e: 'Elixir.A':get() == nil")),
    [
        ?assertMatch({_, _, O, 1}, Read(["m:f() ", atom_to_list(O), " 1"]))
     || O <- ['==', '/=', '=:=', '=/=', '<', '=<', '>', '>=']
    ],
    [
        begin
            {error, Reason} = dyno_invariant:read(Source),
            says(dyno_invariant:format_error(Reason), [~"NAME: module"])
        end
     || Source <- [
            "",
            "memory",
            "m:f(",
            "m:f()",
            "m:f() + 1",
            "f() < 1",
            "m:f(X) < 1",
            "m:f() < g()",
            "m:f() < 5 parsecs",
            "a: m:f() < 1, m:f() < 2",
            <<255>>,
            [-1],
            {a, {m, f, []}, '<<', 1},
            {a, {m, f, []}, '<'},
            {1, {m, f, []}, '<', 1},
            {a, {m, f, 0}, '<', 1},
            nothing
        ]
    ].

invariants_are_printed(_Config) ->
    [
        begin
            {ok, Read} = dyno_invariant:read(Text),
            ?assertEqual(Text, dyno_invariant:print(Read)),
            ?assertEqual({ok, Read}, dyno_invariant:read(dyno_invariant:print(Read)))
        end
     || Text <- [
            ~"a: m:f(1, \"x\") =< 3", ~"b: 'Elixir.A':f() == {a,[b]}", ~"c: m:f() =/= undefined"
        ]
    ].

histories_add_up(_Config) ->
    {ok, Invariant} = dyno_invariant:read("x: m:f() =< 10"),
    Add = fun(Steps) ->
        lists:foldl(
            fun({T, Result}, History) -> dyno_invariant:add(T, Result, History) end,
            dyno_invariant:new(Invariant),
            Steps
        )
    end,
    Row = fun(Steps) ->
        #{columns := Columns, rows := [Row]} = dyno_invariant:table(node(), [Add(Steps)]),
        maps:from_list(lists:zip([N || #{name := N} <- Columns], Row))
    end,
    Bad = fun(N) -> {violated, integer_to_binary(N), N} end,
    ?assertMatch(
        #{
            ~"result" := ~"pass",
            ~"checks" := 2,
            ~"violations" := 0,
            ~"first" := undefined,
            ~"violated" := undefined
        },
        Row([{0, holds}, {10, holds}])
    ),
    %% Twice, for 10 and 20 ms; the second one until the end.
    Twice = [{0, holds}, {10, Bad(11)}, {20, holds}, {30, Bad(12)}, {40, Bad(13)}, {50, Bad(14)}],
    ?assertMatch(
        #{
            ~"result" := ~"fail",
            ~"checks" := 6,
            ~"violations" := 4,
            ~"first" := 10,
            ~"violated" := 30,
            ~"longest" := 20,
            ~"value" := ~"11"
        },
        Row(Twice)
    ),
    #{result := fail, evidence := #{value := 11, checks := 6, violations := 4}, text := Text} =
        dyno_invariant:verdict(Add(Twice), #{run => ~"5", size => 5, node => 'a@b'}),
    says(Text, [~"x was violated at size 5 in a@b", ~"11", ~"after 10 ms", ~"4 of 6", ~"30 ms"]),
    %% Of a recording of running nodes, and without a name.
    {ok, Unnamed} = dyno_invariant:read("m:f() =< 10"),
    Once = dyno_invariant:add(0, Bad(11), dyno_invariant:new(Unnamed)),
    ?assertMatch(
        #{text := <<"m:f() =< 10 was violated in a@b: 11; first", _/binary>>},
        dyno_invariant:verdict(Once, #{run => ~"1", node => 'a@b'})
    ),
    ?assertMatch(
        #{~"result" := ~"unknown", ~"checks" := 0, ~"why" := ~"why"}, Row([{0, {failed, ~"why"}}])
    ),
    ?assertMatch(#{~"result" := ~"unknown", ~"checks" := 0}, Row([])),
    ?assertMatch(
        #{~"result" := ~"unknown", ~"checks" := 1, ~"failures" := 1},
        Row([{0, holds}, {1, {failed, ~"why"}}])
    ),
    ?assertMatch(
        #{~"result" := ~"fail"}, Row([{0, Bad(11)}, {1, {failed, ~"why"}}])
    ).

%% The value is wrong for a while in the middle of the run.
invariant_is_violated(Config) ->
    dyno_tries:hold(3, fun() -> invariant_is_violated_once(Config) end).

invariant_is_violated_once(Config) ->
    Node = node_of(Config),
    ok = dyno_peers:eval(Node, "persistent_term:put(flag, 0)."),
    Options = #{
        sizes => [1],
        duration_ms => 1500,
        warmup_ms => 0,
        interval_ms => 100,
        control => false,
        invariant_interval_ms => 10,
        invariants => [
            {flag, {persistent_term, get, [flag]}, '==', 0},
            "alive: erlang:is_alive() == true"
        ]
    },
    Source = dyno_suites:write(Config, flagged, Options, [
        dyno_suites:on_target(Node),
        "init_worker(_, Node) -> {ok, {first, Node}}.\n"
        "operation({first, Node}) -> spawn(fun() -> timer:sleep(300), flag(Node, 7),\n"
        "    timer:sleep(500), flag(Node, 0) end), {ok, {other, Node}};\n"
        "operation({other, _} = S) -> timer:sleep(2), {ok, S}.\n"
        "flag(Node, N) -> erpc:call(Node, persistent_term, put, [flag, N]).\n"
    ]),
    Result = dyno_test:run(Source, #{}),
    [Run] = complete(Result),
    Text = dyno_suites:role(Run, Node),
    ?assertMatch([#{~"result" := ~"pass", ~"kind" := ~"invariant"}], verdicts(Result, ~"alive")),
    [#{~"result" := ~"fail", ~"evidence" := #{~"value" := 7}, ~"text" := Why, ~"node" := Text}] =
        verdicts(Result, ~"flag"),
    ct:pal("~ts", [Why]),
    says(Why, [~"flag was violated at size 1", ~"7 where persistent_term:get(flag) == 0"]),
    [Row] = [R || #{~"invariant" := ~"flag"} = R <- dyno_suites:table(Run, ~"invariants", Node)],
    #{~"checks" := Checks, ~"violations" := Violations, ~"first" := First, ~"violated" := For} =
        Row,
    ?assert(Violations > 0 andalso Violations < Checks, Row),
    ?assert(First > 0, Row),
    %% 500 ms of 1500, on a machine that may be busy.
    ?assert(For > 50, Row).

invariants_of_node_and_size(Config) ->
    Source = write(
        Config,
        sized,
        #{sizes => [1, 2], duration_ms => 200},
        "invariants(Node, Size) ->\n"
        "  [{lists:concat([\"at \", Size]), {erlang, node, []}, '==', Node},\n"
        "   {half, {erlang, abs, [Size]}, '=<', 1}].\n"
    ),
    Result = dyno_test:run(Source, #{invariants => ["asked: erlang:abs(-3) =:= 3"]}),
    [_, _] = complete(Result),
    ?assertMatch([#{~"result" := ~"pass", ~"run" := ~"1"}], verdicts(Result, ~"at 1")),
    ?assertMatch([#{~"result" := ~"pass", ~"run" := ~"2"}], verdicts(Result, ~"at 2")),
    ?assertMatch([#{~"result" := ~"pass"}, #{~"result" := ~"fail"}], verdicts(Result, ~"half")),
    ?assertMatch([#{~"result" := ~"pass"}, #{~"result" := ~"pass"}], verdicts(Result, ~"asked")),
    Bad = write(Config, wrongly_sized, #{}, "invariants(_, _) -> [{a, b, c}].\n"),
    refused(dyno_test:run(Bad, #{}), [~"wrongly_sized", ~"is not an invariant"]),
    Other = write(Config, not_sized, #{}, "invariants(_, _) -> none.\n"),
    refused(dyno_test:run(Other, #{}), [~"not_sized:invariants/2", ~"none", ~"a list"]),
    refused(dyno_test:run(Source, #{invariants => ["nonsense"]}), [~"\"nonsense\""]).

invariant_that_cannot_be_checked(Config) ->
    Source = write(Config, unchecked, #{
        invariants => [
            {nowhere, {no_such_module, f, []}, '==', 1}, {huge, {erlang, 'bsl', [1, 5000]}, '<', 1}
        ]
    }),
    Result = dyno_test:run(Source, #{}),
    _ = complete(Result),
    %% No recording can hold the number.
    ?assertMatch(
        [#{~"result" := ~"fail", ~"evidence" := #{~"value" := null}}], verdicts(Result, ~"huge")
    ),
    [#{~"result" := ~"unknown", ~"text" := Text}] = verdicts(Result, ~"nowhere"),
    says(Text, [~"never checked", ~"does not exist"]).

invariant_that_hangs(Config) ->
    Source = write(Config, hanging, #{
        timeout_ms => 400,
        invariants => [
            {fine, {erlang, abs, [1]}, '==', 1}, {stuck, {timer, sleep, [infinity]}, '==', ok}
        ]
    }),
    Result = dyno_test:run(Source, #{}),
    _ = complete(Result),
    [#{~"result" := ~"unknown", ~"text" := Text}] = verdicts(Result, ~"stuck"),
    says(Text, [~"never checked", ~"stuck had not returned after 400 ms"]).

threshold_on_a_function(Config) ->
    Source = write(Config, called, #{
        duration_ms => 200,
        thresholds => ["erlang:abs(-3) == 3", "throughput > 0 /s"],
        invariants => ["mine: erlang:memory(total) < 1 TB"]
    }),
    Result = dyno_test:run(Source, #{}),
    _ = complete(Result),
    ?assertMatch(
        [#{~"result" := ~"pass", ~"kind" := ~"invariant"}], verdicts(Result, ~"erlang:abs(-3) == 3")
    ),
    ?assertMatch([#{~"result" := ~"pass"}], verdicts(Result, ~"mine")),
    ?assertMatch([#{~"result" := ~"pass"}], verdicts(Result, ~"throughput > 0 /s")),
    %% Those of the caller replace the suite's thresholds, not its invariants.
    Asked = dyno_test:run(Source, #{thresholds => ["erlang:memory(total) < 1 kB"]}),
    ?assertMatch(
        [#{~"result" := ~"fail"}], verdicts(Asked, ~"erlang:memory(total) < 1 kB")
    ),
    ?assertMatch([#{~"result" := ~"pass"}], verdicts(Asked, ~"mine")),
    ?assertEqual([], verdicts(Asked, ~"erlang:abs(-3) == 3")),
    %% The sentence names the place of the fault.
    lists:foreach(
        fun({Text, Column, Why}) ->
            {error, Reason} = dyno_invariant:read(Text),
            Place = iolist_to_binary(["column ", integer_to_list(Column), ": "]),
            says(dyno_invariant:format_error(Reason), [Place, Why])
        end,
        [
            {"m:f(1) <", 9, ~"something is missing"},
            {"m:f( < 1", 6, ~"syntax error before"},
            {"m:f(1", 4, ~"( is not closed"},
            {"m:f(1)", 7, ~"a comparison is expected"},
            {"m:f(1) + 2", 8, ~"a comparison is expected"},
            {"a: m:f(X) < 2", 8, ~"a term is expected"},
            {"a: f(1) < 2", 4, ~"a call is expected"},
            {"m:f(1) < g()", 10, ~"a term is expected"},
            {"m:f(1) < 2 3", 12, ~"syntax error before: 3"},
            {"m:f(1) < 5 mz", 12, ~"there is no unit mz"},
            {"m:f(1) < 5,6", 12, ~"one comparison"},
            {"größe: m:f(1)", 14, ~"a comparison is expected"}
        ]
    ),
    refused(dyno_test:run(Source, #{thresholds => ["m:f( < 1"]}), [~"column 6: syntax error before"]).

%% Metrics

metrics_of_the_suite(Config) ->
    Node = node_of(Config),
    Source = write(Config, measured, #{
        metrics => [
            {"answer.value", ms, {erlang, abs, [-42]}},
            #{
                name => atoms,
                unit => "count",
                title => "Atoms",
                call => {erlang, system_info, [atom_count]}
            },
            {huge, count, {erlang, 'bsl', [1, 5000]}},
            {missing, count, {no_such_module, f, []}},
            {texts, count, {erlang, node, []}}
        ],
        thresholds => ["answer.value == 42 ms", "atoms.max < 1", "answer.value.min > 41 ms"]
    }),
    Result = dyno_test:run(Source, #{}),
    [Run] = complete(Result),
    [#{~"values" := Values, ~"times_ms" := Times, ~"unit" := ~"ms", ~"group" := ~"custom"}] =
        dyno_recording:series(Run, ~"answer.value"),
    ?assertEqual([42], lists:usort(Values)),
    ?assert(length(Times) >= 2),
    ?assertEqual(Times, lists:sort(Times)),
    Text = dyno_suites:role(Run, Node),
    ?assertMatch(
        [#{~"title" := ~"Atoms", ~"node" := Text}], dyno_recording:series(Run, ~"atoms")
    ),
    ?assertMatch([#{~"result" := ~"pass"}], verdicts(Result, ~"answer.value == 42 ms")),
    ?assertMatch([#{~"result" := ~"pass"}], verdicts(Result, ~"answer.value.min > 41 ms")),
    ?assertMatch([#{~"result" := ~"fail"}], verdicts(Result, ~"atoms.max < 1")),
    ?assertEqual([], dyno_recording:series(Run, ~"missing")),
    Texts = [T || #{~"code" := ~"metric_failed", ~"text" := T} <- maps:get(~"warnings", Run)],
    [Huge, Missing, NoNumber] = Texts,
    says(Huge, [~"huge of", ~"a number up to 1.0e100 is expected"]),
    says(Missing, [~"missing of", ~"no_such_module:f/0", ~"does not exist"]),
    says(NoNumber, [~"texts of", ~"a number is expected"]).

metrics_that_are_none(_Config) ->
    [
        begin
            {error, Reason} = dyno_suite:options(#{sizes => [1], metrics => Metrics}),
            says(dyno_suite:format_error(Reason), Parts)
        end
     || {Metrics, Parts} <- [
            {[{"vm.memory.total", count, {m, f, []}}], [~"vm.memory.total", ~"another word"]},
            {[{"queue length", count, {m, f, []}}], [~"queue length", ~"letters"]},
            {[{queue, parsecs, {m, f, []}}], [~"parsecs", ~"count"]},
            {[{queue, {m, f, []}}], [~"is not a metric", ~"{Name, Unit"]},
            {[{queue, count, {m, f, 1}}], [~"is not a metric"]},
            {"queue", [~"metrics is"]}
        ]
    ].

results_become_rows(_Config) ->
    Rows = fun(Term) ->
        #{rows := Rows} = dyno_custom_metric:table(n@h, [{an_agent, Term}]),
        [{Item, Value, Unit, Text} || [~"an_agent", Item, Value, Unit, Text] <- Rows]
    end,
    N = undefined,
    ?assertEqual([{~"", 3, N, N}], Rows(3)),
    ?assertEqual([{~"", N, N, ~"done"}], Rows("done")),
    ?assertEqual(
        [{~"a", 1, ~"ms", N}, {~"b", N, N, ~"x"}], lists:sort(Rows(#{a => {1, ms}, b => x}))
    ),
    ?assertEqual([{~"a.b", 1.5, N, N}], Rows([{a, #{"b" => 1.5}}])),
    ?assertEqual([{~"1", 7, N, N}, {~"2", N, N, ~"{a,b}"}], Rows([7, {a, b}])),
    ?assertEqual([{~"", N, N, ~"[]"}], Rows([])),
    ?assertEqual(1000, length(Rows(lists:seq(1, 9000)))),
    ?assertEqual([{~"1", 10, N, N}, {~"2", 100, N, N}], Rows([10, 100])),
    [{_, _, _, Long}] = Rows(lists:duplicate(100_000, $a)),
    ?assert(byte_size(Long) =< 500),
    %% What is no text, no list and no map.
    ?assertMatch([{_, _, _, _}], Rows([1 | 2])),
    ?assertMatch([{_, _, _, _}], Rows(<<255, 254>>)),
    ?assertMatch([{_, _, _, _}], Rows(self())).

%% Agents

sampling_agent(Config) ->
    Node = node_of(Config),
    agent(
        Config,
        an_agent,
        "metrics() -> [#{name => \"agent.samples\", unit => count, title => \"Samples\"}].\n"
        "config(Node, Size) -> {Node, Size}.\n"
        "init({Node, Size}) when Node =:= node() ->\n"
        "    true = register(an_agent, self()), {ok, {Size, 0}}.\n"
        "sample({Size, N}) ->\n"
        "  {ok, #{\"agent.samples\" => N, 'agent.size' => {Size, count}}, {Size, N + 1}}.\n"
        "results({Size, N}) -> #{size => Size, samples => N, share => {0.5, ratio}}.\n"
        "terminate(_) -> persistent_term:put(an_agent, terminated).\n"
    ),
    %% Beside the suite, wherever dyno runs.
    Source = write(Config, sampled, #{
        agents => ["an_agent.erl"],
        duration_ms => 1000,
        thresholds => ["agent.size == 1", "an_agent.samples > 1", "an_agent.share == 50 %"]
    }),
    Result = dyno_test:run(Source, #{}),
    [Run] = complete(Result),
    [#{~"values" := Values, ~"title" := ~"Samples"}] = dyno_recording:series(Run, ~"agent.samples"),
    ?assertEqual(lists:seq(0, length(Values) - 1), Values),
    Rows = dyno_suites:table(Run, ~"custom_agents", Node),
    ?assertMatch(
        [
            #{~"agent" := ~"an_agent", ~"value" := 1}
        ],
        [R || #{~"item" := ~"size"} = R <- Rows]
    ),
    %% Some may have come after the load: a busy machine ends the agent late.
    [#{~"value" := Samples}] = [R || #{~"item" := ~"samples"} = R <- Rows],
    ?assert(Samples >= length(Values), {Samples, length(Values)}),
    [
        ?assertMatch([#{~"result" := ~"pass"}], verdicts(Result, T), T)
     || T <- [~"agent.size == 1", ~"an_agent.samples > 1", ~"an_agent.share == 50 %"]
    ],
    ?assertEqual(terminated, erpc:call(Node, persistent_term, get, [an_agent, none])),
    true = erpc:call(Node, persistent_term, erase, [an_agent]),
    ?assertEqual(undefined, erpc:call(Node, erlang, whereis, [an_agent])).

%% dyno_agent_custom_SUITE has what its code may do wrong; here is what that means for a run.
sampling_agent_fails(Config) ->
    Source = write(Config, with_agent, #{timeout_ms => 400}),
    Run = fun(Text) -> dyno_test:run(Source, #{agents => [agent(Config, an_agent, Text)]}) end,
    Init = "init(_) -> {ok, 0}.\n",
    Sample = "sample(S) -> {ok, #{}, S}.\n",
    failed(Run(["init(_) -> {error, closed}.\n", Sample]), [
        ~"an_agent did not start", ~"init/1 returned {error,closed}"
    ]),
    failed(Run([Init, Sample, "config(_, _) -> throw(oops).\n"]), [~"an_agent:config/2", ~"oops"]),
    failed(Run([Init, Sample, "metrics() -> [nothing].\n"]), [~"metrics/0", ~"nothing"]),
    failed(Run([Init, Sample, "results(_) -> error(oops).\n"]), [~"no results", ~"oops"]),
    failed(Run([Init, "sample(_) -> timer:sleep(infinity).\n"]), [~"sample/1", ~"400 ms"]),
    failed(Run([Init, "sample(S) -> {ok, #{\"vm.x\" => 1}, S}.\n"]), [~"vm.x", ~"another word"]),
    [Ignored] = complete(Run(["init(_) -> ignore.\n", Sample])),
    says(warning(Ignored, ~"agent_ignored"), [~"an_agent", ~"ignore"]),
    [Some] = complete(
        Run([
            Init,
            "sample(S) when S rem 2 =:= 0 -> {ok, #{even => S}, S + 1};\n"
            "sample(S) -> put(dyno_at, none), {odd, S}.\n"
        ])
    ),
    says(warning(Some, ~"sample_failed"), [~"sample/1 returned {odd,1}"]).

performerl_agent(Prefix, Callbacks) ->
    Default = [
        {get_config,
            "get_config(Node, Module, Size) -> #{node => Node, module => Module, size => Size}.\n"},
        {
            process_results,
            "process_results(Node, {Size, _}) -> [{node, Node}, {double, 2 * Size}].\n"
        },
        {start,
            "start(#{node := Node, size := Size}) when Node =:= node() ->\n"
            "  Pid = spawn(fun() -> process_flag(trap_exit, true), serve(Size) end),\n"
            "  true = register(?MODULE, Pid), {ok, Pid}.\n"
            "serve(Size) -> receive {get, From} -> From ! {?MODULE, Size};\n"
            "  crash -> exit(crashed); _ -> serve(Size) end.\n"},
        {get_results_and_stop,
            "get_results_and_stop() -> ?MODULE ! {get, self()},\n"
            "  receive {?MODULE, Size} -> {ok, {Size, self()}} end.\n"}
    ],
    [Prefix | [proplists:get_value(Name, Callbacks, Text) || {Name, Text} <- Default]].

%% Three of them, where PerformERL takes two at most.
performerl_agents(Config) ->
    Node = node_of(Config),
    Names = [an_agent, second_agent, third_agent],
    Paths = [
        agent(Config, Name, performerl_agent("-behaviour(performerl_custom_agent).\n", []))
     || Name <- Names
    ],
    Source = write(Config, with_agents, #{sizes => [1, 4], duration_ms => 200}),
    Result = dyno_test:run(Source, #{agents => Paths}),
    [_, Run] = complete(Result),
    Rows = dyno_suites:table(Run, ~"custom_agents", Node),
    Text = atom_to_binary(Node),
    [
        begin
            Of = atom_to_binary(Name),
            ?assertMatch(
                [#{~"text" := Text}],
                [R || #{~"agent" := A, ~"item" := ~"node"} = R <- Rows, A =:= Of]
            ),
            ?assertEqual(8, dyno_suites:value(Run, <<Of/binary, ".double">>)),
            ?assertEqual(undefined, erpc:call(Node, erlang, whereis, [Name])),
            ?assertEqual(false, erpc:call(Node, erlang, module_loaded, [Name]))
        end
     || Name <- Names
    ].

agents_that_are_none(Config) ->
    Source = write(Config, with_agent, #{}),
    Run = fun(Agents) -> dyno_test:run(Source, #{agents => Agents}) end,
    refused(Run(["no/such/agent.erl"]), [~"custom agent no/such/agent.erl", ~"there is no file"]),
    refused(Run([agent(Config, an_agent, "init(_) -> {ok, 1}.\n")]), [~"an_agent", ~"sample/1"]),
    refused(
        Run([agent(Config, an_agent, "start(_) -> ok. get_results_and_stop() -> ok.\n")]),
        [~"get_config/3", ~"process_results/2", ~"performerl_custom_agent"]
    ),
    refused(Run([agent(Config, an_agent, "init(\n")]), [~"an_agent.erl:", ~"does not compile"]).

%% The target's own module of that name stays what it is.
agent_of_another_version(Config) ->
    Node = node_of(Config),
    Own = dyno_peers:load(Node, "-module(own_module). -export([mine/0]). mine() -> true."),
    Text = "init(_) -> {ok, 1}.\nsample(S) -> {ok, #{}, S}.\n",
    Source = write(Config, with_agent, #{}),
    Result = dyno_test:run(Source, #{agents => [agent(Config, own_module, Text)]}),
    failed(Result, [~"another module own_module", ~"not replaced"]),
    ?assert(erpc:call(Node, Own, mine, [])),
    [erpc:call(Node, code, F, [Own]) || F <- [purge, delete, purge]].

%% Also processes that trap exits and are linked to nobody.
nothing_stays_when_dyno_dies(Config) ->
    Node = node_of(Config),
    Source = write(Config, endless, #{duration_ms => 600_000}),
    Agent = agent(Config, an_agent, performerl_agent("", [])),
    {Caller, Monitor} = spawn_monitor(fun() -> dyno_test:run(Source, #{agents => [Agent]}) end),
    dyno_suites:await(fun() -> is_pid(erpc:call(Node, erlang, whereis, [an_agent])) end),
    Pid = erpc:call(Node, erlang, whereis, [an_agent]),
    exit(Caller, kill),
    receive
        {'DOWN', Monitor, process, Caller, killed} -> ok
    end,
    dyno_suites:await(fun() -> not erpc:call(Node, erlang, is_process_alive, [Pid]) end),
    dyno_suites:await(fun() -> not erpc:call(Node, erlang, module_loaded, [an_agent]) end),
    dyno_suites:await(fun() -> code:is_loaded(endless) =:= false end),
    dyno_suites:await(fun() -> code:is_loaded(an_agent) =:= false end),
    %% Of each module the folder goes after its code.
    dyno_suites:await(fun() -> file:list_dir(proplists:get_value(tmp, Config)) =:= {ok, []} end).
