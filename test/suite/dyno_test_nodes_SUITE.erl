%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_nodes_SUITE).
-moduledoc "Systems of several nodes: patterns of their own, joining, leaving, clocks, totals.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [a_node_leaves, clocks].

all() ->
    [
        own_patterns,
        totals,
        a_node_leaves,
        a_node_ends_in_the_restart,
        a_node_joins,
        targets_gone_wrong,
        clocks,
        clock_of_a_stranger
    ].

init_per_suite(Config) ->
    dyno_suites:with_temporary(Config).

end_per_suite(Config) ->
    dyno_suites:without_temporary(Config).

init_per_testcase(Case, Config) ->
    Peers = [dyno_peers:start(), dyno_peers:start()],
    [target_work = dyno_suites:target(Node) || {_, Node} <- Peers],
    [{peers, Peers}, {nodes, [Node || {_, Node} <- Peers]} | dyno_suites:prepare(Case, Config)].

end_per_testcase(_Case, Config) ->
    lists:foreach(fun dyno_peers:stop/1, proplists:get_value(peers, Config)).

short(Options) ->
    maps:merge(
        #{
            sizes => [1],
            duration_ms => 500,
            warmup_ms => 0,
            interval_ms => 100,
            control => false,
            patterns => ["target_work"],
            level => time
        },
        Options
    ).

run(Config, Name, Options, Callbacks) ->
    Source = dyno_suites:write(Config, Name, short(Options), Callbacks),
    {ok, Document} = dyno_test:run(Source, #{}),
    ?assertMatch(#{~"status" := ~"complete", ~"error" := null}, Document),
    [Run] = dyno_recording:runs(Document),
    {Run, Document}.

%% Calls leaf/1 in one node and warm/0 in the other.
both(First, Second) ->
    io_lib:format(
        "operation(S) -> _ = (catch erpc:call(~0tp, target_work, leaf, [1])),~n"
        "    _ = (catch erpc:call(~0tp, target_work, warm, [])), {ok, S}.~n",
        [First, Second]
    ).

functions(Run, Node) ->
    lists:sort([F || #{~"function" := F} <- dyno_suites:table(Run, ~"functions", Node)]).

own_patterns(Config) ->
    [First, Second] = proplists:get_value(nodes, Config),
    lists:foreach(
        fun({Name, Targets}) ->
            {Run, _} = run(Config, Name, #{}, [
                io_lib:format("init_run(_, _) -> {ok, ~0tp, none}.~n", [Targets]),
                both(First, Second)
            ]),
            ?assertEqual([~"target_work:leaf/1"], functions(Run, First)),
            ?assertEqual([~"target_work:warm/0"], functions(Run, Second)),
            ?assertMatch([_], dyno_suites:table(Run, ~"functions", Second))
        end,
        [
            {listed, [{First, ["target_work:leaf/1"]}, Second]},
            {mapped, #{First => ["target_work:leaf/1"], Second => ["target_work:warm/0"]}}
        ]
    ).

%% Of all nodes together, beside those of each.
totals(Config) ->
    [First, Second] = proplists:get_value(nodes, Config),
    {Run, _} = run(Config, totals, #{}, [
        io_lib:format("init_run(_, _) -> {ok, ~0tp, none}.~n", [[First, Second]]),
        io_lib:format(
            "operation(S) -> [erpc:call(N, target_work, leaf, [1]) || N <- ~0tp], {ok, S}.~n",
            [[First, Second]]
        )
    ]),
    Calls = fun(Node) ->
        [C] = [
            C
         || #{~"columns" := _, ~"node" := Of} = T <- dyno_recording:tables(Run, ~"functions"),
            Of =:= Node,
            #{~"calls" := C} <- rows(T)
        ],
        C
    end,
    Each = [Calls(dyno_suites:role(Run, N)) || N <- [First, Second]],
    ?assertEqual(lists:sum(Each), Calls(null)),
    ?assert(lists:min(Each) > 0),
    ?assertMatch([_], [T || #{~"node" := null} = T <- dyno_recording:tables(Run, ~"processes")]).

rows(#{~"columns" := Columns, ~"rows" := Rows}) ->
    Names = [N || #{~"name" := N} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

%% It leaves after two seconds; the run goes on, and the measurement until then is kept.
a_node_leaves(Config) ->
    dyno_tries:hold(3, fun() -> a_node_leaves_once(Config) end).

a_node_leaves_once(Config) ->
    [First, Second] = proplists:get_value(nodes, Config),
    Invariants = ["alive: erlang:is_alive() == true"],
    Options = #{duration_ms => 3200, invariants => Invariants},
    {Run, #{~"verdicts" := Verdicts}} = run(Config, leaving, Options, [
        io_lib:format("init_run(_, _) -> {ok, ~0tp, none}.~n", [[First, Second]]),
        io_lib:format(
            "init_worker(_, _) -> {ok, erlang:monotonic_time(millisecond)}.~n"
            "operation(T0) ->~n"
            "    _ = erpc:call(~0tp, target_work, leaf, [1]),~n"
            "    case erlang:monotonic_time(millisecond) - T0 of~n"
            "        Ms when Ms < 2400 -> _ = erpc:call(~0tp, target_work, warm, []);~n"
            "        _ -> erpc:cast(~0tp, erlang, halt, [0])~n"
            "    end, {ok, T0}.~n",
            [First, Second, Second]
        )
    ]),
    [Warning] = [T || #{~"code" := ~"node_left", ~"text" := T} <- maps:get(~"warnings", Run)],
    ?assertMatch({_, _}, binary:match(Warning, atom_to_binary(Second))),
    [#{~"name" := _} = Remaining, #{~"left_ms" := LeftMs}] = maps:get(~"nodes", Run),
    ?assertNot(is_map_key(~"left_ms", Remaining)),
    ?assert(LeftMs > 1000 andalso LeftMs =< 3200),
    [#{~"calls" := Calls}] = dyno_suites:table(Run, ~"functions", Second),
    ?assert(Calls > 0),
    Last = fun(Node) ->
        [Times] = [
            T
         || #{~"times_ms" := T, ~"node" := N} <- dyno_recording:series(Run, ~"vm.memory.total"),
            N =:= dyno_suites:role(Run, Node)
        ],
        lists:last(Times)
    end,
    ?assert(Last(Second) =< LeftMs + 200),
    ?assert(Last(First) > 2800),
    %% It held until then, and the rest is not known.
    [Held] = [R || #{~"node" := N, ~"result" := R} <- Verdicts, N =:= dyno_suites:role(Run, First)],
    [{Unknown, Why}] = [
        {R, T}
     || #{~"node" := N, ~"result" := R, ~"text" := T} <- Verdicts,
        N =:= dyno_suites:role(Run, Second)
    ],
    ?assertEqual({~"pass", ~"unknown"}, {Held, Unknown}),
    ?assertMatch({_, _}, binary:match(Why, ~"was lost")).

%% The instruments of one node can not count anew; those of the other do, and the load begins.
a_node_ends_in_the_restart(Config) ->
    [First, Second] = proplists:get_value(nodes, Config),
    Instrument = filename:join(proplists:get_value(work, Config), "ends.erl"),
    ok = file:write_file(
        Instrument,
        io_lib:format(
            "-module(ends).~n-behaviour(dyno_agent_instrument).~n"
            "-export([about/0, config/1, start_link/1, restart/1, read/1]).~n"
            "about() -> #{names => [ends]}.~n"
            "config(#{interval_ms := Ms}) -> #{ms => Ms}.~n"
            "start_link(#{ms := Ms}) -> dyno_agent_readings:start_link(Ms, fun() -> 1 end).~n"
            "read(Pid) -> dyno_agent_readings:read(Pid).~n"
            "restart(Pid) ->~n"
            "    node(Pid) =:= ~0tp andalso (catch erpc:call(node(Pid), erlang, halt, [0])),~n"
            "    dyno_agent_readings:restart(Pid).~n",
            [First]
        )
    ),
    {Run, _} = run(Config, ending, #{instruments => [Instrument]}, [
        io_lib:format("init_run(_, _) -> {ok, ~0tp, none}.~n", [[First, Second]]),
        both(Second, Second)
    ]),
    [Warning] = [T || #{~"code" := ~"node_left", ~"text" := T} <- maps:get(~"warnings", Run)],
    ?assertMatch({_, _}, binary:match(Warning, atom_to_binary(First))),
    [#{~"calls" := Calls} | _] = dyno_suites:table(Run, ~"functions", Second),
    ?assert(Calls > 0).

%% It is named by targets/1 a while after the start.
a_node_joins(Config) ->
    dyno_tries:hold(3, fun() -> a_node_joins_once(Config) end).

a_node_joins_once(Config) ->
    [First, Second] = proplists:get_value(nodes, Config),
    Metrics = [{"custom.processes", count, {erlang, system_info, [process_count]}}],
    {Run, _} = run(Config, joining, #{duration_ms => 3000, metrics => Metrics}, [
        io_lib:format(
            "init_run(_, _) -> {ok, ~0tp, erlang:monotonic_time(millisecond)}.~n"
            "targets(T0) -> case erlang:monotonic_time(millisecond) - T0 of~n"
            "    Ms when Ms < 500 -> ~0tp;~n"
            "    _ -> [~0tp, {~0tp, [\"target_work:warm/0\"]}] end.~n",
            [[First], [First], First, Second]
        ),
        both(First, Second)
    ]),
    [_, #{~"name" := Joined, ~"joined_ms" := JoinedMs}] = maps:get(~"nodes", Run),
    ?assertEqual(atom_to_binary(Second), Joined),
    ?assert(JoinedMs > 300 andalso JoinedMs < 3000),
    ?assertEqual([~"target_work:warm/0"], functions(Run, Second)),
    [Times] = [
        T
     || #{~"times_ms" := T, ~"node" := N} <- dyno_recording:series(Run, ~"vm.memory.total"),
        N =:= dyno_suites:role(Run, Second)
    ],
    %% Its times count from the start of the run, too.
    ?assert(hd(Times) > JoinedMs - 50),
    ?assert(lists:last(Times) < 5000),
    %% Those of the suite's own metric, too: its first sample is taken at once.
    [Custom] = [
        T
     || #{~"times_ms" := T, ~"node" := N} <- dyno_recording:series(Run, ~"custom.processes"),
        N =:= dyno_suites:role(Run, Second)
    ],
    ?assert(hd(Custom) >= JoinedMs - 50 andalso hd(Custom) =< hd(Times)),
    ?assert(lists:last(Custom) =< lists:last(Times) + 500).

%% It does not spoil the run, and is said; dyno_test_joins_SUITE has a targets/1 that is wrong.
targets_gone_wrong(Config) ->
    [First, Second] = proplists:get_value(nodes, Config),
    {Run, _} = run(Config, nowhere, #{duration_ms => 1300}, [
        io_lib:format("init_run(_, _) -> {ok, ~0tp, none}.~n", [[First]]),
        "targets(_) -> ['nobody@nowhere'].\n",
        both(First, Second)
    ]),
    [Text] = [T || #{~"code" := ~"node_joined", ~"text" := T} <- maps:get(~"warnings", Run)],
    ?assertMatch({_, _}, binary:match(Text, ~"is not measured")).

clocks(Config) ->
    [First, Second] = proplists:get_value(nodes, Config),
    {Run, _} = run(Config, clocked, #{}, [
        io_lib:format("init_run(_, _) -> {ok, ~0tp, none}.~n", [[First, Second]]),
        both(First, Second)
    ]),
    [
        begin
            ?assert(Error > 0 andalso Error < 1_000_000_000),
            %% The same machine: the same time of day, as far as one can see.
            ?assert(abs(Offset) =< Error + 50_000_000)
        end
     || #{~"clock_offset_ns" := Offset, ~"clock_error_ns" := Error} <- maps:get(~"nodes", Run)
    ],
    ?assertMatch([#{~"clock_offset_ns" := _}, #{~"clock_offset_ns" := _}], maps:get(~"nodes", Run)).

%% How far a clock is ahead is measured within the error that the measurement states.
clock_of_a_stranger(_Config) ->
    Ahead = 3_600_000_000_000,
    Behind = -5_000_000_000,
    Clock =
        #{error_ns := Error} = dyno_target_clock:measure(fun() ->
            {erlang:monotonic_time(nanosecond) + Ahead, erlang:system_time(nanosecond) + Behind}
        end),
    #{monotonic_ns := Monotonic, offset_ns := Offset} = Clock,
    ?assert(abs(Monotonic - Ahead) =< Error),
    %% The two clocks are not read at the same moment.
    ?assert(abs(Offset - Behind) =< Error + 5_000_000),
    Now = erlang:monotonic_time(nanosecond),
    %% What began 2 s after the start by the node's clock is moved by 2 s.
    Shift = dyno_target_clock:shift_ms(Now + 2_000_000_000 + Monotonic, Now, Clock),
    ?assertEqual(2000, Shift).
