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
        many_idle_processes_cost_no_more, finds_what_runs_among_many,
        finds_processes_that_live_for_milliseconds, bursts_are_no_time_of_what_waits
    ].

slow() -> [many_idle_processes_cost_no_more, finds_what_runs_among_many].

all() ->
    [{group, pure}, {group, in_a_node}].

groups() ->
    [
        {pure, [parallel], [
            paths_are_summed, the_tree_is_bounded, reductions_are_those_since_the_last_time,
            reductions_go_by_speed_and_time, a_budget_is_for_stacks_too
        ]},
        {in_a_node, [], [
            finds_where_it_computes,
            finds_where_reductions_are_made,
            finds_processes_that_live_for_milliseconds,
            bursts_are_no_time_of_what_waits,
            leaves_its_own_out,
            many_idle_processes_cost_no_more,
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
        #{share := Share} = dyno_agent_stacks:config(#{level => budget, budget => Budget}),
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

reductions_are_those_since_the_last_time(_Config) ->
    Since = fun(Pid, Reductions, T) -> dyno_agent_stack_reductions:since(Pid, Reductions, T) end,
    Old = spawn(fun() -> receive after infinity -> ok end end),
    {reductions, Before} = process_info(Old, reductions),
    Begun = dyno_agent_stack_reductions:new(),
    {Made, Once} = Since(Old, Before + 1000, Begun),
    ?assert(Made =< 1000),
    ?assertMatch({500, _}, Since(Old, Before + 1500, Once)),
    %% Of one that began since, all.
    New = spawn(fun() -> ok end),
    {70, Twice} = Since(New, 70, Once),
    ?assertMatch({30, _}, Since(New, 100, Twice)),
    %% Those that have ended do not stay, and those that live are not forgotten.
    Many = lists:foldl(
        fun(N, T) ->
            {N, Next} = Since(list_to_pid(lists:concat(["<0.", 200_000_000 + N, ".0>"])), N, T),
            Next
        end,
        Once,
        lists:seq(1, 35_000)
    ),
    ?assert(erts_debug:flat_size(Many) < 100_000),
    ?assertMatch({500, _}, Since(Old, Before + 1500, Many)),
    exit(Old, kill).

reductions_go_by_speed_and_time(_Config) ->
    Made = fun(Stacks) ->
        Of = dyno_agent_stack_reductions:by_stack(Stacks),
        #{Name => map_get({other, Stack}, Of) || {_, [{Name, _, _} | _] = Stack, _} <- Stacks}
    end,
    [A, B, C] = [{F, f, 0} || F <- [a, b, c]],
    %% Seen as often, and ten times as fast; who was not asked again is as fast as the others.
    ?assertEqual(
        #{a => 10_000, b => 1000, c => 5500},
        Made([
            {other, [A], [5, 500, 100, 100]},
            {other, [B], [5, 16_000, 10, 100]},
            {other, [C], [5, 0, 0, 0]}
        ])
    ),
    %% Without a speed, and where it is not known where they ran: what was made since the last time.
    ?assertEqual(
        #{a => 7, b => 8, c => 400},
        Made([
            {other, [A], [1, 7, 0, 0]},
            {other, [B], [3, 8, 0, 0]},
            {other, [C, burst], [2, 400, 1, 9]}
        ])
    ).

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
        ok = dyno_agent_stacks:restart(Sampler),
        #{stacks := Stacks, groups := Groups} = Times = sampled(Sampler, 400, 20_000),
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
        #{{first_call, {bench_phases, turns, 1}} := #{running := Running, burst := Burst}} = Groups,
        ?assert(Burst =< 0.05 * Running),
        %% One of two schedulers, or the only one.
        #{cpu_ns := CpuNs, duration_ns := DurationNs, instants := Instants} = Times,
        ?assert(CpuNs > 0.05 * DurationNs),
        ?assert(CpuNs < 1.5 * DurationNs),
        ?assert(Running > 0.8 * Instants)
    end).

%% Two functions have half of the time each, one after the other, more often than instants are; and
%% one of them has nearly all reductions.
finds_where_reductions_are_made(_Config) ->
    dyno_tries:hold(3, fun finds_where_reductions_are_made_once/0).

finds_where_reductions_are_made_once() ->
    in_node([], #{purpose => profile}, fun(Node, Sampler) ->
        made = dyno_peers:load(Node, """
        -module(made).
        -export([start/0, turns/2, begun/0, loops/1, bumps/1]).
        start() -> spawn(made, turns, [begun(), begun()]).
        turns(Loops, Bumps) ->
            receive
                {ask, From, Ref} -> From ! {Ref, {Loops, Bumps}}
            after 0 -> ok
            end,
            turns(phase(fun loops/1, Loops), phase(fun bumps/1, Bumps)).
        begun() -> {0, 0}.
        phase(Does, {Time, Reductions}) ->
            {reductions, Before} = process_info(self(), reductions),
            Start = erlang:monotonic_time(millisecond),
            Does(Start + 5),
            {reductions, After} = process_info(self(), reductions),
            {Time + erlang:monotonic_time(millisecond) - Start, Reductions + After - Before}.
        loops(End) ->
            1 = loop(10000),
            case erlang:monotonic_time(millisecond) < End of
                true -> loops(End);
                false -> ok
            end.
        loop(1) -> 1;
        loop(N) -> loop(N - 1).
        bumps(End) ->
            erlang:bump_reductions(1000),
            case erlang:monotonic_time(millisecond) < End of
                true -> bumps(End);
                false -> ok
            end.

        """),
        Pid = erpc:call(Node, made, start, []),
        ok = dyno_agent_stacks:restart(Sampler),
        Before = made(Pid),
        timer:sleep(3000),
        #{reductions := Made, all_reductions := All} = Result = sampled(Sampler, 40, 15_000),
        After = made(Pid),
        {Loops, Bumps} = {since(1, Before, After), since(2, Before, After)},
        Of = fun(Function) ->
            lists:sum([N || {_, Stack} := N <- Made, lists:member({made, Function, 1}, Stack)])
        end,
        {SeenLoops, SeenBumps} = {Of(loops), Of(bumps)},
        ct:log("~p ~p ~p ~p ~p", [Loops, Bumps, SeenLoops, SeenBumps, maps:remove(waiting, Result)]),
        {TimeShare, Share} = {share(element(1, Bumps), element(1, Loops)),
            share(element(2, Bumps), element(2, Loops))},
        Seen = share(SeenBumps, SeenLoops),
        ?assert(Share > TimeShare + 0.25, {Share, TimeShare}),
        %% On a busy machine hardly an answer comes soon enough to tell a speed.
        ?assert(Seen > TimeShare - 0.1, {Seen, Share, TimeShare}),
        ?assert(lists:sum(maps:values(Made)) =< All),
        ?assert(SeenLoops + SeenBumps > 0.5 * (element(2, Loops) + element(2, Bumps)))
    end).

made(Pid) ->
    Ref = make_ref(),
    Pid ! {ask, self(), Ref},
    receive
        {Ref, Made} -> Made
    end.

since(Which, Before, After) ->
    {{TimeBefore, ReductionsBefore}, {Time, Reductions}} =
        {element(Which, Before), element(Which, After)},
    {Time - TimeBefore, Reductions - ReductionsBefore}.

share(Part, Other) -> Part / max(1, Part + Other).

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
        ok = dyno_agent_stacks:restart(Sampler),
        #{groups := Groups, started := Started} = sampled(Sampler, 300, 10_000),
        #{{initial_call, {brief, work, 1}} := #{running := Running, functions := Of}} = Groups,
        #{{brief, work, 1} := Work} = Of,
        ?assert(Work > 0.9 * Running),
        All = lists:sum([N || #{running := N} <- maps:values(Groups)]),
        ?assert(Running > 0.9 * All),
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
        ok = dyno_agent_stacks:restart(Sampler),
        #{groups := Groups, stacks := Stacks} = sampled(Sampler, 300, 10_000),
        ct:log("~tp", [Groups]),
        #{{initial_call, {bursts, client, 1}} := #{running := Running, burst := Burst}} = Groups,
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
        #{groups := Groups, waiting := Waiting, stacks := Stacks} = sampled(Sampler, 100, 10_000),
        Own = [
            Kind
         || Kind <- maps:keys(Groups) ++ [Kind || {_, Kind, _, _} <- Waiting],
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
    in_node([], fun(Node, Sampler) ->
        _ = idle(Node, 100_000),
        ok = dyno_agent_stacks:restart(Sampler),
        #{cost_ns := CostNs, duration_ns := DurationNs, started := Started} =
            sampled(Sampler, 150, 30_000),
        ct:log("~b ns of ~b", [CostNs, DurationNs]),
        ?assert(CostNs < 0.03 * DurationNs),
        ?assert(Started < 200)
    end).

finds_what_runs_among_many(_Config) ->
    dyno_tries:hold(3, fun finds_what_runs_among_many_once/0).

finds_what_runs_among_many_once() ->
    in_node([], fun(Node, Sampler) ->
        _ = idle(Node, 20_000),
        bench_phases = dyno_peers:load_bench(Node, bench_phases),
        _ = erpc:call(Node, erlang, spawn, [bench_phases, loop, [1_000_000_000_000]]),
        ok = dyno_agent_stacks:restart(Sampler),
        #{groups := Groups, instants := Instants} = sampled(Sampler, 300, 20_000),
        ct:log("~b instants: ~tp", [Instants, Groups]),
        #{{initial_call, {bench_phases, loop, 1}} := #{running := Running}} = Groups,
        %% As if all were asked each time.
        ?assert(abs(Running - Instants) < 0.2 * Instants)
    end).

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
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_stacks, Config),
        Do(Node, Sampler),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Started)
    end.

%% What was sampled at so many instants: on a busy machine they come less often.
sampled(Sampler, Instants, LongestMs) ->
    timer:sleep(200),
    case dyno_agent_stacks:read(Sampler) of
        #{instants := N} = Result when N >= Instants; LongestMs =< 0 -> Result;
        _ -> sampled(Sampler, Instants, LongestMs - 200)
    end.
