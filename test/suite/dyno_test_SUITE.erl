%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_SUITE).
-moduledoc "Whole tests of real nodes: is what the recording says what happened?".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() ->
    [
        levels,
        calls_and_times_are_right,
        durations
    ].

all() ->
    [
        closed_load,
        warm_up_is_left_out,
        levels,
        within_a_budget,
        calls_and_times_are_right,
        options_override_the_suite,
        level_or_budget,
        node_of_the_suite,
        without_instruments,
        without,
        repetitions,
        durations
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
        dyno_suites:clean(Config, proplists:get_value(before, Config))
    end).

%% Short, without warm-up, always with instruments.
short(Options) ->
    maps:merge(
        #{sizes => [1], duration_ms => 300, warmup_ms => 0, interval_ms => 100, control => false},
        Options
    ).

complete(Config, Name, Options, Callbacks) ->
    Document = ends(Config, Name, Options, Callbacks),
    ?assertMatch(#{~"status" := ~"complete", ~"error" := null}, Document),
    Document.

%% What is returned is what is kept, and a good recording.
ends(Config, Name, Options, Callbacks) ->
    Source = dyno_suites:write(Config, Name, Options, Callbacks),
    File = filename:join(proplists:get_value(work, Config), "kept.json"),
    {ok, Document} = dyno_test:run(Source, #{recording => File}),
    {ok, Read} = dyno_recording_file:read(File),
    ?assertEqual(dyno_recording:validate(Document), {ok, Read}),
    _ = dyno_suites:all_is_known(Read),
    Read.

on_target(Config) ->
    dyno_suites:on_target(proplists:get_value(node, Config)).

only_run(Document) ->
    [Run] = dyno_recording:runs(Document),
    Run.

%% Cases

closed_load(Config) ->
    Node = proplists:get_value(node, Config),
    Document = complete(
        Config,
        closed_load,
        short(#{name => "closed", sizes => [1, 3], patterns => ["target_work"], level => time}),
        [on_target(Config), dyno_suites:one_call(leaves, 5)]
    ),
    ?assertMatch(#{~"name" := ~"closed", ~"command" := ~"test"}, Document),
    Runs = dyno_recording:runs(Document),
    ?assertEqual([{1, ~"1"}, {3, ~"3"}], [{S, I} || #{~"size" := S, ~"id" := I} <- Runs]),
    lists:foreach(
        fun(Run) ->
            Value = fun(Name) -> dyno_suites:value(Run, Name) end,
            Operations = Value(~"operations.count"),
            ?assert(Operations > 0),
            ?assertEqual(0, Value(~"errors.count")),
            Seconds = maps:get(~"duration_ns", Run) / 1.0e9,
            %% One of each worker may have ended after the time.
            InTime = Value(~"throughput") * Seconds,
            ?assert(InTime < 1.01 * Operations, {InTime, Operations}),
            ?assert(InTime > 0.99 * Operations - map_get(~"size", Run), {InTime, Operations}),
            Quantiles = [Value(<<"latency.", Q/binary>>) || Q <- [~"p50", ~"p90", ~"p99", ~"max"]],
            ?assertEqual(lists:sort(Quantiles), Quantiles),
            ?assert(hd(Quantiles) > 0),
            {ok, Histogram} = dyno_recording:histogram(Run, ~"latency"),
            #{~"count" := Count, ~"buckets" := Buckets} = Histogram,
            ?assertEqual(Operations, Count),
            ?assertEqual(Operations, lists:sum([N || [_, _, N] <- Buckets])),
            Named = atom_to_binary(Node),
            ?assertMatch([#{~"name" := Named}], maps:get(~"nodes", Run)),
            ?assertMatch([_ | _], dyno_recording:series(Run, ~"vm.memory.total")),
            ?assertMatch([_ | _], dyno_recording:series(Run, ~"load.throughput")),
            ?assertMatch([_ | _], dyno_suites:table(Run, ~"processes", Node)),
            Functions = dyno_suites:table(Run, ~"functions", Node),
            [#{~"calls" := Leaf, ~"share" := Share}] = [
                F
             || #{~"function" := ~"target_work:leaf/1"} = F <- Functions
            ],
            %% No call of an operation is missed, none of another time is counted.
            ?assert(abs(Leaf / (5 * Operations) - 1) < 0.01),
            %% It does nothing: without what measuring adds, nothing or next to nothing is left.
            ?assert(Share >= 0 andalso Share =< 1)
        end,
        Runs
    ),
    ?assertEqual(
        [{init_run, 1}, {end_run, Node}, {init_run, 3}, {end_run, Node}],
        dyno_suites:marks(Config)
    ).

%% Everything goes wrong for the first 200 ms, and calls what is not called later.
warm_up_is_left_out(Config) ->
    Node = proplists:get_value(node, Config),
    Document = complete(
        Config,
        warming,
        short(#{warmup_ms => 400, patterns => ["target_work"]}),
        [
            on_target(Config),
            "init_worker(_, Node) -> {ok, {Node, erlang:monotonic_time(millisecond)}}.\n"
            "operation({Node, T0} = State) ->\n"
            "    case erlang:monotonic_time(millisecond) - T0 of\n"
            "        Ms when Ms < 200 ->\n"
            "            erpc:call(Node, target_work, warm, []), {error, cold, State};\n"
            "        _ -> erpc:call(Node, target_work, leaf, [1]), {ok, State}\n"
            "    end.\n"
        ]
    ),
    Run = only_run(Document),
    ?assertEqual(0, dyno_suites:value(Run, ~"errors.count")),
    Functions = dyno_suites:table(Run, ~"functions", Node),
    Calls = maps:from_list([{F, C} || #{~"function" := F, ~"calls" := C} <- Functions]),
    ?assert(map_get(~"target_work:leaf/1", Calls) > 0),
    ?assertEqual(0, maps:get(~"target_work:warm/0", Calls, 0)),
    [#{~"times_ms" := Times} | _] = dyno_recording:series(Run, ~"vm.processes"),
    ?assert(lists:all(fun(T) -> T >= 0 end, Times)).

levels(Config) ->
    Node = proplists:get_value(node, Config),
    Callbacks = [on_target(Config), dyno_suites:one_call(leaves, 3)],
    Source = dyno_suites:write(
        Config, levels, short(#{patterns => ["target_work"], duration_ms => 200}), Callbacks
    ),
    Columns = fun(Name, Run) ->
        [C || #{~"columns" := Cs} <- dyno_recording:tables(Run, Name), #{~"name" := C} <- Cs]
    end,
    Calls = [~"calls"],
    Time =
        [
            <<Name/binary, Bound/binary>>
         || Name <- [~"own_time", ~"time_per_call", ~"share"], Bound <- [~"", ~"_low", ~"_high"]
        ] ++ [~"raw_time"],
    Words = [~"words", ~"words_per_call"],
    lists:foreach(
        fun({Level, Functions, Processes}) ->
            {ok, Document} = dyno_test:run(Source, #{level => Level}),
            ?assertMatch(#{~"status" := ~"complete"}, Document, Level),
            Run = only_run(Document),
            ?assertEqual(
                {Level, Functions}, {Level, Columns(~"functions", Run) -- [~"function", ~"note"]}
            ),
            Found = dyno_suites:table(Run, ~"processes", Node),
            ?assertEqual({Level, Processes}, {Level, Found =/= []}),
            Codes = [Code || #{~"code" := Code} <- maps:get(~"warnings", Run)],
            ?assertNot(lists:member(~"not_called", Codes), {Level, Codes}),
            %% The VM is sampled in any case.
            ?assertMatch([_ | _], dyno_recording:series(Run, ~"vm.memory.total")),
            [
                ?assert(C > 0)
             || #{~"function" := ~"target_work:leaf/1", ~"calls" := C} <-
                    dyno_suites:table(Run, ~"functions", Node)
            ]
        end,
        [
            {off, [], false},
            {count, Calls, false},
            {discovery, [], true},
            {time, Calls ++ Time, true},
            {memory, Calls ++ Words, true},
            {all, Calls ++ Time ++ Words, true}
        ]
    ).

%% What a test does by default: `spin` takes nearly all of the time, `leaf` next to nothing, and
%% both say what their times may be off by.
within_a_budget(Config) ->
    Node = proplists:get_value(node, Config),
    Document = complete(
        Config,
        budgeted,
        short(#{patterns => ["target_work"], duration_ms => 2000, warmup_ms => 500}),
        [
            on_target(Config),
            "operation(Node) -> ok = erpc:call(Node, target_work, spin, [5000]),\n"
            "    ok = erpc:call(Node, target_work, leaves, [3]), {ok, Node}.\n"
        ]
    ),
    ?assertMatch(#{~"level" := ~"budget", ~"budget" := 0.05}, map_get(~"parameters", Document)),
    Run = only_run(Document),
    Spent = dyno_suites:value(Run, ~"instrument.spent"),
    ?assert(Spent > 0),
    Functions = dyno_suites:table(Run, ~"functions", Node),
    ct:pal("spent ~p~n~tp", [Spent, Functions]),
    Spins = [F || #{~"function" := <<"target_work:spin", _/binary>>} = F <- Functions],
    ?assert(lists:sum([Share || #{~"share" := Share} <- Spins, is_number(Share)]) > 0.9),
    [
        begin
            ?assert(Low =< Ns andalso Ns =< High),
            ?assertMatch(#{~"time_from" := <<_/binary>>, ~"counted" := <<_/binary>>}, F)
        end
     || #{~"own_time" := Ns, ~"own_time_low" := Low, ~"own_time_high" := High} = F <- Spins,
        is_number(Ns)
    ],
    ?assertMatch([_ | _], dyno_suites:table(Run, ~"processes", Node)),
    {ok, Text} = dyno_report:render(console, Document, #{}),
    ?assertMatch({match, _}, re:run(Text, "target_work:spin.*(\\+/- [0-9]+ %|< )")),
    ?assertMatch({match, _}, re:run(Text, "Cost of measuring\n.*to measure calls")).

%% The calls come when the counters certainly count: not in the first half second, and none is under
%% way at the end.
calls_and_times_are_right(Config) ->
    Node = proplists:get_value(node, Config),
    Document = complete(
        Config,
        exact,
        short(#{duration_ms => 1800, patterns => ["target_work"], level => all}),
        [
            on_target(Config),
            "init_worker(_, Node) -> {ok, {Node, 0}}.\n"
            "operation({Node, 0}) -> target(Node, pause, 500), {ok, {Node, 1}};\n"
            "operation({Node, N}) when N =< 100 -> target(Node, leaves, 20), {ok, {Node, N + 1}};\n"
            "operation({Node, 101}) -> target(Node, spin, 50000), {ok, {Node, 102}};\n"
            "operation({Node, N}) -> target(Node, pause, 1800), {ok, {Node, N}}.\n"
            "target(Node, F, A) -> ok = erpc:call(Node, target_work, F, [A]).\n"
        ]
    ),
    Run = only_run(Document),
    Functions = maps:from_list([
        {F, Row}
     || #{~"function" := F} = Row <- dyno_suites:table(Run, ~"functions", Node)
    ]),
    ?assertMatch(#{~"calls" := 2000}, map_get(~"target_work:leaf/1", Functions)),
    ?assertMatch(#{~"calls" := 2100}, map_get(~"target_work:leaves/1", Functions)),
    %% Half of it and more is what measuring adds.
    #{~"own_time" := OwnNs, ~"raw_time" := RawNs} = map_get(
        ~"target_work:spin_until/1", Functions
    ),
    ?assert(RawNs >= 25_000_000),
    ?assert(RawNs =< 200_000_000),
    ?assert(OwnNs > 1_000_000),
    ?assert(OwnNs < RawNs),
    %% The operation that was under way at the end is counted by when it started, too.
    ?assertEqual(103, dyno_suites:value(Run, ~"operations.count")),
    ?assert(dyno_suites:value(Run, ~"latency.max") > 1_700_000_000),
    Shares = lists:sum([S || #{~"share" := S} <- maps:values(Functions)]),
    ?assert(abs(Shares - 1.0) < 0.001).

options_override_the_suite(Config) ->
    Source = dyno_suites:write(
        Config,
        overridden,
        #{
            sizes => [1000],
            duration_ms => 60_000,
            warmup_ms => 60_000,
            patterns => ["no_such_module"],
            thresholds => ["latency.p50 < 1 ns"]
        },
        [on_target(Config), dyno_suites:one_call(leaf, 1)]
    ),
    {ok, Document} = dyno_test:run(Source, #{
        sizes => [2, 3],
        duration_ms => 200,
        warmup_ms => 10,
        interval_ms => 50,
        level => count,
        patterns => ["target_work:leaf/1"],
        thresholds => ["latency.p50 < 1 min"]
    }),
    ?assertMatch(#{~"status" := ~"complete"}, Document),
    ?assertEqual([2, 3], [S || #{~"size" := S} <- dyno_recording:runs(Document)]),
    ?assertMatch(
        #{
            ~"sizes" := [2, 3],
            ~"duration_ms" := 200,
            ~"warmup_ms" := 10,
            ~"interval_ms" := 50,
            ~"patterns" := [~"target_work:leaf/1"]
        },
        maps:get(~"parameters", Document)
    ),
    ?assertMatch(
        [#{~"result" := ~"pass"}, #{~"result" := ~"pass"}], maps:get(~"verdicts", Document)
    ),
    %% A suite may leave the sizes to its caller.
    Sizeless = dyno_suites:write(Config, sizeless, #{warmup_ms => 0}, "operation(S) -> {ok, S}.\n"),
    {ok, #{~"status" := ~"complete"}} = dyno_test:run(
        Sizeless, #{sizes => [1], duration_ms => 1000}
    ),
    {error, Reason} = dyno_test:run(Sizeless, #{}),
    ?assertMatch({_, _}, binary:match(text(Reason), ~"sizes is missing")).

%% Who asks for a level does not mean the suite's budget, nor the other way round.
level_or_budget(Config) ->
    Recorded = fun({Suite, Options}) ->
        Source = dyno_suites:write(
            Config,
            budgeted,
            maps:merge(#{sizes => [1], warmup_ms => 0, duration_ms => 50}, Suite),
            "operation(S) -> {ok, S}.\n"
        ),
        case dyno_test:run(Source, Options) of
            {ok, #{~"parameters" := #{~"level" := Level} = Parameters}} ->
                {Level, maps:get(~"budget", Parameters, none)};
            {error, Reason} ->
                text(Reason)
        end
    end,
    Timed = #{level => time},
    Small = #{budget => 0.02},
    [
        ?assertEqual({Given, Expected}, {Given, Recorded(Given)})
     || {Given, Expected} <- [
            {{#{}, #{}}, {~"budget", 0.05}},
            {{#{}, Small}, {~"budget", 0.02}},
            {{Small, #{}}, {~"budget", 0.02}},
            {{Small, #{level => budget}}, {~"budget", 0.02}},
            {{Small, Timed}, {~"time", none}},
            {{Timed, Small}, {~"budget", 0.02}}
        ]
    ],
    Both = Recorded({#{}, maps:merge(Timed, Small)}),
    ?assertMatch({0, _}, binary:match(Both, ~"a budget is of the level budget")).

text(Reason) ->
    unicode:characters_to_binary(dyno_error:format(Reason)).

%% The suite's own module is in the node that it starts, and can be measured there.
node_of_the_suite(Config) ->
    Document = complete(
        Config,
        own_node,
        short(#{sizes => [1, 2], patterns => ["own_node:work/1"]}),
        "init_suite() -> dyno_peer:start(#{name => \"own\", applications => [inets]}).\n"
        "init_run(_, Node) -> mark(Node), {ok, [Node], Node}.\n"
        "operation(Node) -> 7 = erpc:call(Node, own_node, work, [7]), {ok, Node}.\n"
        "work(X) -> X.\n"
        "end_suite(Node) -> mark(lists:keymember(inets, 1,\n"
        "    erpc:call(Node, application, which_applications, []))).\n"
    ),
    [Node, Node, true] = dyno_suites:marks(Config),
    [
        ?assertMatch([#{~"calls" := N}] when N > 0, dyno_suites:table(Run, ~"functions", Node))
     || Run <- dyno_recording:runs(Document)
    ],
    %% It went with the test.
    dyno_suites:await(fun() -> not net_kernel:hidden_connect_node(Node) end).

%% A function that is called a lot: measuring it costs much, which the run says with its interval.
without_instruments(Config) ->
    Node = proplists:get_value(node, Config),
    Document = complete(
        Config,
        compared,
        short(#{
            duration_ms => 1500, patterns => ["target_work"], level => all, control => auto
        }),
        [on_target(Config), dyno_suites:one_call(leaves, 20_000)]
    ),
    Run = only_run(Document),
    Metric = fun(Name) ->
        case dyno_recording:metric(Run, Name) of
            {ok, Metric} -> Metric;
            error -> none
        end
    end,
    Warnings = [W || #{~"code" := ~"heavy_instrument"} = W <- maps:get(~"warnings", Run)],
    %% An untraced call takes some ns, a measured one some 90. What else the machine does may make
    %% it too noisy for a ratio, or give it too little time for any interval, or for any operation.
    Without = Metric(~"uninstrumented.latency.p50"),
    #{~"value" := WithNs} = Metric(~"latency.p50"),
    Without =:= none orelse ?assert(map_get(~"value", Without) < WithNs, {Without, WithNs}),
    case Metric(~"instrument.response_ratio") of
        #{~"value" := Ratio, ~"low" := Low, ~"high" := High, ~"unit" := ~"ratio"} ->
            ?assert(Ratio =:= null orelse (Low =< Ratio andalso Ratio =< High)),
            ?assert(High > 2),
            ?assertEqual(Low > 1.5, length(Warnings) =:= 1);
        #{~"value" := null, ~"count" := Count} ->
            ?assert(min(Count, map_get(~"count", Without)) < 7, {Count, Without}),
            ?assertEqual([], Warnings);
        none ->
            ?assertEqual({none, []}, {Without, Warnings})
    end,
    case Metric(~"instrument.throughput_ratio") of
        #{~"value" := Throughput, ~"low" := From, ~"high" := To} ->
            ?assert(Throughput =:= null orelse (From =< Throughput andalso Throughput =< To));
        #{~"value" := null} ->
            ok;
        none ->
            ok
    end,
    %% Its operations are not among the measured ones.
    Operations = dyno_suites:value(Run, ~"operations.count"),
    [Calls] = [
        C
     || #{~"function" := ~"target_work:leaf/1", ~"calls" := C} <-
            dyno_suites:table(Run, ~"functions", Node)
    ],
    ?assert(abs(Calls / (20_000 * Operations) - 1) < 0.01),
    {ok, Text} = dyno_report:render(console, Document, #{}),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(Text), ~"Cost of measuring")).

without(Config) ->
    Node = proplists:get_value(node, Config),
    Callbacks = [on_target(Config), dyno_suites:one_call(leaves, 3)],
    Source = dyno_suites:write(
        Config, without, short(#{patterns => ["target_work"], duration_ms => 500}), Callbacks
    ),
    lists:foreach(
        fun({Without, Missing}) ->
            {ok, Document} = dyno_test:run(Source, #{without => Without}),
            ?assertMatch(#{~"status" := ~"complete"}, Document),
            Run = only_run(Document),
            Has = #{
                functions => dyno_suites:table(Run, ~"functions", Node) =/= [],
                processes => dyno_suites:table(Run, ~"processes", Node) =/= [],
                vm => dyno_recording:series(Run, ~"vm.memory.total") =/= [],
                os => dyno_recording:series(Run, ~"os.load1") =/= [],
                ets => dyno_suites:table(Run, ~"ets", Node) =/= [],
                ports => dyno_suites:table(Run, ~"ports", Node) =/= []
            },
            ?assertEqual(Missing, lists:sort([I || I := false <- Has]))
        end,
        %% Each without those that it could be mistaken for; within a budget processes need
        %% functions.
        [
            {[ets, functions, vm], [ets, functions, processes, vm]},
            {[os, ports, processes], [os, ports, processes]}
        ]
    ),
    {error, Reason} = dyno_test:run(Source, #{without => [port]}),
    ?assertMatch({_, _}, binary:match(text(Reason), ~"did you mean ports?")).

%% Every size as often as the others, in an order that its seed repeats.
repetitions(Config) ->
    Callbacks = [on_target(Config), dyno_suites:one_call(leaf, 1)],
    Source = dyno_suites:write(
        Config, repeated, short(#{sizes => [1, 2], duration_ms => 300, repeat => 3}), Callbacks
    ),
    {ok, Document} = dyno_test:run(Source, #{}),
    Runs = dyno_recording:runs(Document),
    ?assertEqual(
        [{S, R} || S <- [1, 2], R <- [1, 2, 3]],
        [{S, R} || #{~"size" := S, ~"repetition" := R} <- Runs]
    ),
    ?assertEqual([~"1", ~"1#2", ~"1#3"], [I || #{~"size" := 1, ~"id" := I} <- Runs]),
    #{~"seed" := Seed, ~"order" := Order} = maps:get(~"parameters", Document),
    Started = #{I => At || #{~"id" := I, ~"started_at" := At} <- Runs},
    Starts = [map_get(I, Started) || I <- Order],
    ?assertEqual(lists:sort(Starts), Starts),
    Rows = dyno_suites:table(Document, ~"repetitions", any),
    [#{~"repetitions" := 3, ~"mean" := Mean, ~"low" := Low, ~"high" := High}] = [
        Row
     || #{~"size" := 2, ~"metric" := ~"throughput"} = Row <- Rows
    ],
    ?assert(Low =< Mean andalso Mean =< High),
    Options = #{sizes => [1, 2], repeat => 3, seed => Seed},
    ?assertEqual(Order, [dyno_test_plan:id(R) || R <- dyno_test_plan:runs(Options)]),
    Orders = [
        dyno_test_plan:runs(Options#{sizes := [1, 2, 3], seed := S})
     || S <- lists:seq(1, 20)
    ],
    ?assert(length(lists:usort(Orders)) > 10),
    {ok, Text} = dyno_report:render(console, Document, #{}),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(Text), ~"Over the repetitions")).

%% Most calls take 2 ms, some 20 ms; leaves/1, which goes on and on, is given up before its stack
%% has grown.
durations(Config) ->
    Node = proplists:get_value(node, Config),
    Document = complete(
        Config,
        lasting,
        short(#{
            duration_ms => 2500,
            distribution => ["target_work:spin/1", "target_work:leaves/1", "target_work:pause/1"]
        }),
        [
            on_target(Config),
            "init_worker(_, Node) -> {ok, {Node, 1}}.\n"
            "operation({Node, N}) ->\n"
            "    Ms = case N rem 10 of 0 -> 20; _ -> 2 end,\n"
            "    ok = erpc:call(Node, target_work, pause, [Ms]),\n"
            "    [ok = erpc:call(Node, target_work, leaves, [1_000_000]) || N =:= 100],\n"
            "    {ok, {Node, N + 1}}.\n"
        ]
    ),
    Run = only_run(Document),
    Rows = dyno_suites:table(Run, ~"durations", Node),
    [
        #{
            ~"p50" := P50,
            ~"p90" := _,
            ~"p99" := P99,
            ~"sampled" := Sampled,
            ~"state" := ~"measured"
        }
    ] = [
        R
     || #{~"function" := ~"target_work:pause/1"} = R <- Rows
    ],
    Operations = dyno_suites:value(Run, ~"operations.count"),
    ?assert(Sampled > 30 andalso Sampled =< Operations + 1),
    ?assert(P50 >= 1_900_000 andalso P50 < 15_000_000),
    ?assert(P99 >= 19_000_000),
    [#{~"count" := Sampled, ~"buckets" := Buckets}] = [
        H
     || #{~"name" := ~"function.duration", ~"labels" := #{~"function" := F}} = H <-
            maps:get(~"histograms", Run),
        F =:= ~"target_work:pause/1"
    ],
    ?assertEqual(Sampled, lists:sum([N || [_, _, N] <- Buckets])),
    %% Nobody called spin/1. leaves/1 calls itself a million times before it returns.
    ?assertMatch(
        [#{~"state" := ~"never_returns"}],
        [R || #{~"function" := ~"target_work:leaves/1"} = R <- Rows]
    ),
    ?assertEqual(2, length(Rows)),
    {ok, Text} = dyno_report:render(console, Document, #{}),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(Text), ~"given up: does not return")).
