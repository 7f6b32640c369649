%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stacks_SUITE).
-moduledoc "Stacks of what runs: where the time goes, what is not told, and that nothing is left.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

%% They take long.
newest_release_only() ->
    [
        finds_where_it_computes,
        many_idle_processes_cost_no_more,
        finds_what_runs_among_many,
        finds_processes_that_live_for_milliseconds,
        bursts_are_no_time_of_what_waits
    ].

slow() ->
    [
        many_idle_processes_cost_no_more,
        tells_what_it_costs_an_idle_node,
        finds_what_runs_among_many,
        finds_processes_that_live_for_milliseconds
    ].

all() ->
    [{group, pure}, {group, in_a_node}].

groups() ->
    [
        {pure, [parallel], [
            paths_are_summed, the_tree_is_bounded, a_budget_is_for_stacks_too
        ]},
        {in_a_node, [], [
            finds_where_it_computes,
            finds_processes_that_live_for_milliseconds,
            bursts_are_no_time_of_what_waits,
            leaves_its_own_out,
            many_idle_processes_cost_no_more,
            tells_what_it_costs_an_idle_node,
            finds_what_runs_among_many,
            the_depth_is_set_back,
            the_depth_is_set_back_when_killed,
            the_depth_of_others_stays
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    bench_phases = dyno_peers:load_bench(node(), bench_phases),
    Config.

end_per_suite(_Config) ->
    ok.

%% Pure

a_budget_is_for_stacks_too(_Config) ->
    Share = fun(Budget) ->
        #{share := Share} = dyno_agent_stack_parts:config(#{level => budget, budget => Budget}),
        Share
    end,
    ?assert(Share(0.05) =< 0.05 / 4),
    ?assert(abs(Share(0.05) - 5 * Share(0.01)) < 1.0e-9).

paths_are_summed(_Config) ->
    Tree = lists:foldl(
        fun({Path, Weight}, Acc) -> dyno_agent_stack_tree:add(Path, Weight, Acc) end,
        dyno_agent_stack_tree:new(10),
        [{[a, b], 1}, {[a], 2}, {[b], 1.5}, {[a, b], 3}, {[a, b, b], 1}]
    ),
    ?assertEqual(
        [{[a], 2}, {[a, b], 4}, {[a, b, b], 1}, {[b], 1.5}],
        lists:sort(dyno_agent_stack_tree:paths(Tree))
    ),
    ?assertEqual(0, dyno_agent_stack_tree:other(Tree)).

the_tree_is_bounded(_Config) ->
    Full = lists:foldl(
        fun(N, Acc) -> dyno_agent_stack_tree:add([a, N], 2, Acc) end,
        dyno_agent_stack_tree:new(100),
        lists:seq(1, 1000)
    ),
    ?assertEqual(99, length(dyno_agent_stack_tree:paths(Full))),
    ?assertEqual(2 * 901, dyno_agent_stack_tree:other(Full)),
    %% What has its place goes on to count.
    More = dyno_agent_stack_tree:add([a, 7], 5, Full),
    ?assert(lists:member({[a, 7], 7}, dyno_agent_stack_tree:paths(More))).

%% In a node

finds_where_it_computes(_Config) ->
    dyno_tries:hold(3, fun finds_where_it_computes_once/0).

finds_where_it_computes_once() ->
    lists:foreach(fun finds_where_it_computes_with/1, ["1", "2"]).

finds_where_it_computes_with(Schedulers) ->
    in_node(["+S", Schedulers], fun(Node, Sampler) ->
        bench_phases = dyno_peers:load_bench(Node, bench_phases),
        {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
        Pid = erpc:call(Node, bench_phases, start, []),
        _ = erpc:call(Node, bench_phases, shares, [Pid]),
        ok = dyno_agent_instrument:restart(Sampler),
        #{stacks := Stacks} = Times = sampled(Sampler, 250, 20_000),
        Truth = erpc:call(Node, bench_phases, shares, [Pid]),
        ct:log("~tp~n~tp", [Truth, maps:without([waiting], Times)]),
        Samples = [{bench_phases:phase(Stack), Weight} || {_, Stack, Weight} <- Stacks],
        All = lists:sum([Weight || {Phase, Weight} <- Samples, Phase =/= none]),
        lists:foreach(
            fun({Phase, Share}) ->
                Sampled = lists:sum([Weight || {Of, Weight} <- Samples, Of =:= Phase]) / All,
                ?assert(abs(Sampled - Share) < 0.08, {Phase, Share, Sampled})
            end,
            maps:to_list(Truth)
        ),
        %% It computes all the time: hardly a sample does not tell where.
        #{{first_call, {bench_phases, turns, 1}} := #{running := Running, burst := Burst}} = by_group(
            Stacks
        ),
        ?assert(Burst =< 0.05 * Running),
        %% One of two schedulers, or the only one.
        #{cpu_ns := CpuNs, duration_ns := DurationNs, instants := Instants} = Times,
        ?assert(CpuNs > 0.05 * DurationNs),
        ?assert(CpuNs < 1.5 * DurationNs),
        ?assert(Running > 0.8 * Instants)
    end).

finds_processes_that_live_for_milliseconds(_Config) ->
    dyno_tries:hold(3, fun finds_processes_that_live_for_milliseconds_once/0).

finds_processes_that_live_for_milliseconds_once() ->
    in_node([], fun(Node, Sampler) ->
        brief = dyno_peers:load(Node, """
        -module(brief).
        -export([start/0, next/0, work/1]).
        start() -> spawn(fun next/0).
        next() ->
            {_, Ref} = spawn_monitor(brief, work, [2_000_000]),
            receive {'DOWN', Ref, _, _, _} -> next() end.
        work(0) -> ok;
        work(N) -> work(N - 1).

        """),
        _ = erpc:call(Node, brief, start, []),
        ok = dyno_agent_instrument:restart(Sampler),
        #{stacks := Stacks, started := Started} = sampled(Sampler, 80, 5000),
        Groups = by_group(Stacks),
        #{{initial_call, {brief, work, 1}} := #{running := Running, functions := Of}} = Groups,
        #{{brief, work, 1} := Work} = Of,
        ?assert(Work > 0.9 * Running),
        All = lists:sum([N || #{running := N} <- maps:values(Groups)]),
        %% Of some the end comes before the answer, if other programs take the processors.
        ?assert(Running > 0.6 * All),
        ?assert(Started > 50)
    end).

bursts_are_no_time_of_what_waits(_Config) ->
    in_node([], fun(Node, Sampler) ->
        bursts = dyno_peers:load(Node, """
        -module(bursts).
        -export([start/0, server/0, client/1, ask/1, work/1]).
        start() ->
            Server = spawn(bursts, server, []),
            [spawn(bursts, client, [Server]) || _ <- [1, 2, 3, 4]].
        server() ->
            receive
                {From, Ref} ->
                    work(2000),
                    From ! Ref
            end,
            server().
        client(Server) ->
            ask(Server),
            client(Server).
        ask(Server) ->
            Ref = make_ref(),
            Server ! {self(), Ref},
            receive
                Ref -> ok
            end.
        work(0) -> ok;
        work(N) -> work(N - 1).

        """),
        _ = erpc:call(Node, bursts, start, []),
        ok = dyno_agent_instrument:restart(Sampler),
        %% Where a client waits has been seen by then, and what it does when it runs, often enough.
        Client = {initial_call, {bursts, client, 1}},
        #{stacks := Stacks} = sampled_until(Sampler, fun(#{stacks := Of, waiting := Waiting}) ->
            lists:keymember(Client, 2, Waiting) andalso
                lists:sum([Weight || {Group, _, Weight} <- Of, Group =:= Client]) >= 30
        end),
        Groups = by_group(Stacks),
        ct:log("~tp", [Groups]),
        #{Client := #{running := Running, burst := Burst}} = Groups,
        ?assert(Burst > 0.9 * Running),
        Functions = maps:fold(
            fun(_, #{functions := Of}, Sum) ->
                maps:merge_with(fun(_, A, B) -> A + B end, Of, Sum)
            end,
            #{},
            Groups
        ),
        All = lists:sum([N || #{running := N} <- maps:values(Groups)]),
        %% It only waits.
        ?assert(maps:get({bursts, ask, 1}, Functions, 0) < 0.05 * All),
        ?assertMatch(
            [_ | _],
            [Stack || {_, Stack, _} <- Stacks, lists:suffix([{bursts, ask, 1}, burst], Stack)]
        )
    end).

leaves_its_own_out(_Config) ->
    in_node([], fun(_Node, Sampler) ->
        #{waiting := Waiting, stacks := Stacks} = sampled(Sampler, 100, 10_000),
        Own = [
            Kind
         || Kind <- [Kind || {Kind, _, _} <- Stacks] ++ [Kind || {_, Kind, _, _} <- Waiting],
            Kind =/= other,
            dyno_agent_kind:is_own(Kind)
        ],
        ?assertEqual([], Own),
        ?assertEqual(
            [], [S || {_, S, _} <- Stacks, {M, _, _} <- S, lists:prefix("dyno", atom_to_list(M))]
        ),
        %% Those of the node wait somewhere.
        ?assertMatch([_ | _], [W || {_, {registered, code_server}, [_ | _], W} <- Waiting])
    end).

many_idle_processes_cost_no_more(_Config) ->
    dyno_tries:hold(3, fun many_idle_processes_cost_no_more_once/0).

many_idle_processes_cost_no_more_once() ->
    in_node([], fun(Node, Sampler) ->
        _ = idle(Node, 100_000),
        ok = dyno_agent_instrument:restart(Sampler),
        #{cost_ns := CostNs, duration_ns := DurationNs, started := Started} =
            sampled(Sampler, 150, 30_000),
        ct:log("~b ns of ~b", [CostNs, DurationNs]),
        ?assert(CostNs < 0.04 * DurationNs),
        %% None of those before.
        ?assert(Started < 2000)
    end).

%% Most of it is the waking of schedulers, which then spin.
tells_what_it_costs_an_idle_node(_Config) ->
    dyno_tries:hold(3, fun tells_what_it_costs_an_idle_node_once/0).

tells_what_it_costs_an_idle_node_once() ->
    lists:foreach(fun tells_what_it_costs_an_idle_node_with/1, [
        #{}, #{cpu => dyno_target_cpu:option(preferred)}
    ]).

tells_what_it_costs_an_idle_node_with(Options) ->
    in_node([], Options, fun(Node, Sampler) ->
        _ = idle(Node, 10_000),
        timer:sleep(1000),
        ok = dyno_agent_instrument:restart(Sampler),
        {Before, _} = erpc:call(Node, erlang, statistics, [runtime]),
        timer:sleep(5000),
        {After, _} = erpc:call(Node, erlang, statistics, [runtime]),
        #{cost_ns := CostNs} = dyno_agent_stack_parts:result(dyno_agent_instrument:read(Sampler)),
        ct:log("~b ns told, ~b ms used", [CostNs, After - Before]),
        ?assert(CostNs / 1.0e6 > 0.65 * (After - Before))
    end).

finds_what_runs_among_many(_Config) ->
    dyno_tries:hold(3, fun finds_what_runs_among_many_once/0).

finds_what_runs_among_many_once() ->
    in_node([], fun(Node, Sampler) ->
        _ = idle(Node, 20_000),
        bench_phases = dyno_peers:load_bench(Node, bench_phases),
        _ = erpc:call(Node, erlang, spawn, [bench_phases, loop, [1_000_000_000_000]]),
        ok = dyno_agent_instrument:restart(Sampler),
        #{stacks := Stacks, instants := Instants} = sampled(Sampler, 300, 20_000),
        Groups = by_group(Stacks),
        ct:log("~b instants: ~tp", [Instants, Groups]),
        #{{initial_call, {bench_phases, loop, 1}} := #{running := Running}} = Groups,
        %% As if all were asked each time.
        ?assert(abs(Running - Instants) < 0.2 * Instants)
    end).

%% All samples of a group, those that do not tell where, and the others by innermost function.
by_group(Stacks) ->
    Sum = fun(Of) -> lists:sum([Weight || {_, _, Weight} <- Of]) end,
    By = fun(Key, Of) ->
        maps:map(fun(_, Some) -> Sum(Some) end, maps:groups_from_list(Key, Of))
    end,
    Inmost = fun({_, Stack, _}) -> lists:last(Stack) end,
    maps:map(
        fun(_, Of) ->
            Functions = By(Inmost, [S || S <- Of, is_tuple(Inmost(S))]),
            #{
                running => Sum(Of),
                burst => Sum(Of) - lists:sum(maps:values(Functions)),
                functions => Functions
            }
        end,
        maps:groups_from_list(fun({Group, _, _}) -> Group end, Stacks)
    ).

idle(Node, Count) ->
    dyno_peers:eval(
        Node,
        lists:concat(["[spawn(timer, sleep, [infinity]) || _ <- lists:seq(1, ", Count, ")]."])
    ).

the_depth_is_set_back(_Config) ->
    {Peer, Node} = Started = dyno_peers:start(),
    try
        Usual = depth(Node),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, _} = dyno_agent:start(Agent, dyno_agent_stacks, #{}),
        ?assertEqual(dyno_agent_stack_depth:raised(), depth(Node)),
        _ = dyno_agent:detach(Agent),
        ?assertEqual(Usual, depth(Node)),
        ?assertEqual(false, erpc:call(Node, code, is_loaded, [dyno_agent_stack_depth]))
    after
        dyno_peers:stop(Started)
    end,
    ?assertNot(is_process_alive(Peer)).

the_depth_is_set_back_when_killed(_Config) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        Usual = depth(Node),
        lists:foreach(
            fun(Which) ->
                {ok, Agent} = dyno_agent:attach(Node, #{}),
                {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_stacks, #{}),
                ?assertEqual(dyno_agent_stack_depth:raised(), depth(Node)),
                case Which of
                    sampler -> exit(Sampler, kill);
                    guard -> exit(dyno_agent:guard(Agent), kill)
                end,
                _ = dyno_agent:detach(Agent),
                ?assertEqual(Usual, depth(Node))
            end,
            [sampler | lists:duplicate(4, guard)]
        )
    after
        dyno_peers:stop(Started)
    end.

the_depth_of_others_stays(_Config) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, _} = dyno_agent:start(Agent, dyno_agent_stacks, #{}),
        _ = erpc:call(Node, erlang, system_flag, [backtrace_depth, 30]),
        _ = dyno_agent:detach(Agent),
        ?assertEqual(30, depth(Node))
    after
        dyno_peers:stop(Started)
    end.

%% It is only told when it is set.
depth(Node) ->
    Depth = erpc:call(Node, erlang, system_flag, [backtrace_depth, 1]),
    1 = erpc:call(Node, erlang, system_flag, [backtrace_depth, Depth]),
    Depth.

in_node(Arguments, Do) -> in_node(Arguments, #{}, Do).

in_node(Arguments, Config, Do) ->
    {_, Node} = Started = dyno_peers:start(Arguments),
    try
        {ok, Agent} = dyno_agent:attach(Node, #{
            custom => [dyno_agent_cpu || #{cpu := _} <- [Config]]
        }),
        {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_stacks, Config),
        Do(Node, Sampler),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Started)
    end.

%% What was sampled at so many instants: on a busy machine they come less often.
sampled(Sampler, Instants, LongestMs) ->
    EndMs = erlang:monotonic_time(millisecond) + LongestMs,
    sampled_until(Sampler, fun(#{instants := N}) ->
        N >= Instants orelse erlang:monotonic_time(millisecond) > EndMs
    end).

sampled_until(Sampler, IsEnough) ->
    timer:sleep(200),
    Result = dyno_agent_stack_parts:result(dyno_agent_instrument:read(Sampler)),
    case IsEnough(Result) of
        true -> Result;
        false -> sampled_until(Sampler, IsEnough)
    end.
