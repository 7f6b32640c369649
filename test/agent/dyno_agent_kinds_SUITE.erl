%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_kinds_SUITE).
-moduledoc "What is known of processes of one kind, also where they come and go; who is left out.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        a_distribution_of_lives,
        lives_are_merged,
        watches_one_of_a_kind_now_and_then,
        watches_no_more_than_it_may,
        how_long_short_lived_processes_live,
        counts_garbage_collections,
        leaves_its_own_out
    ].

%% Pure

a_distribution_of_lives(_Config) ->
    ?assertEqual(undefined, dyno_agent_lifetimes:quantile_ns(0.5, dyno_agent_lifetimes:none())),
    Lives = lists:foldl(
        fun dyno_agent_lifetimes:add/2, dyno_agent_lifetimes:none(), lists:seq(1000, 100_000, 10)
    ),
    ?assertEqual(9901, dyno_agent_lifetimes:count(Lives)),
    lists:foreach(
        fun({Q, Exact}) ->
            Found = dyno_agent_lifetimes:quantile_ns(Q, Lives),
            ?assert(abs(Found - Exact) =< 0.1 * Exact, {Q, Found})
        end,
        [{0.1, 10_900}, {0.5, 50_500}, {0.9, 90_100}]
    ),
    %% None lasted no time at all.
    ?assert(dyno_agent_lifetimes:quantile_ns(1.0, dyno_agent_lifetimes:add(0, #{})) >= 1).

lives_are_merged(_Config) ->
    Add = fun(List) -> lists:foldl(fun dyno_agent_lifetimes:add/2, #{}, List) end,
    ?assertEqual(
        Add([10, 20, 10, 1_000_000]),
        dyno_agent_lifetimes:merge(Add([10, 20]), Add([10, 1_000_000]))
    ).

watches_one_of_a_kind_now_and_then(_Config) ->
    Now = erlang:monotonic_time(),
    Dead = dead(),
    Soon = Now + erlang:convert_time_unit(1, millisecond, native),
    Later = Now + erlang:convert_time_unit(10, millisecond, native),
    Born = [{1, Now}, {1, Soon}, {2, Soon}, {1, Later}],
    Sample = lists:foldl(
        fun({Kind, Time}, Acc) -> dyno_agent_lifetimes:born(Dead, Kind, Time, Acc) end,
        dyno_agent_lifetimes:new(),
        Born
    ),
    Rest = downs(3, Sample),
    receive
        {'DOWN', _, _, _, _} = Fourth -> error(Fourth)
    after 50 -> ok
    end,
    ?assertEqual(unknown, dyno_agent_lifetimes:ended(make_ref(), normal, Now, Rest)).

watches_no_more_than_it_may(_Config) ->
    Now = erlang:monotonic_time(),
    Living = spawn(fun() -> receive stop -> ok end end),
    Born = fun(Kinds, Acc0) ->
        lists:foldl(
            fun(Kind, Acc) -> dyno_agent_lifetimes:born(Living, Kind, Now, Acc) end, Acc0, Kinds
        )
    end,
    Full = Born(lists:seq(1, 3000), dyno_agent_lifetimes:new()),
    {monitors, Monitors} = process_info(self(), monitors),
    %% Those that live on are still watched: no place for more.
    _ = Born(lists:seq(3001, 6000), dyno_agent_lifetimes:refill(Full)),
    ?assertEqual({monitors, Monitors}, process_info(self(), monitors)),
    ?assert(length(Monitors) < 3000),
    _ = dyno_agent_lifetimes:forget(Full),
    ?assertEqual({monitors, []}, process_info(self(), monitors)),
    Living ! stop.

dead() ->
    {Pid, Ref} = spawn_monitor(fun() -> ok end),
    receive
        {'DOWN', Ref, process, Pid, _} -> Pid
    end.

downs(0, Sample) ->
    Sample;
downs(Count, Sample) ->
    receive
        {'DOWN', Ref, process, _, noproc} ->
            {ok, Ns, Rest} =
                dyno_agent_lifetimes:ended(Ref, noproc, erlang:monotonic_time(), Sample),
            ?assert(Ns >= 0),
            downs(Count - 1, Rest)
    end.

%% In a node

how_long_short_lived_processes_live(_Config) ->
    with_discovery([{dyno_kinds, work, 1}], fun(Node, Discovery) ->
        Script =
            "[begin {P, R} = spawn_monitor(dyno_kinds, live, [30]),"
            " receive {'DOWN', R, process, P, _} -> ok end end || _ <- lists:seq(1, 10)],"
            "spawn(dyno_kinds, live, [infinity]), spawn(dyno_kinds, live, [infinity]), ok.",
        ok = dyno_peers:eval(Node, Script),
        #{groups := Groups} = wait_for(12, Discovery),
        [#{discovered := 12, alive := 2, lives := Lives, looked_at := LookedAt}] = [
            G
         || #{group := {_, {dyno_kinds, live, 1}}} = G <- Groups
        ],
        %% Each of those that ended lived 30 ms at least, and all were born 5 ms apart or more.
        ?assertEqual(10, dyno_agent_lifetimes:count(Lives)),
        ?assert(dyno_agent_lifetimes:quantile_ns(0.01, Lives) >= 27_000_000),
        ?assert(LookedAt >= 2),
        %% What was before does not count.
        ok = dyno_agent_processes:restart(Discovery),
        ?assertMatch(
            [#{discovered := 2, alive := 2, looked_at := 2, lives := None}] when
                map_size(None) =:= 0,
            map_get(groups, dyno_agent_processes:read(Discovery))
        )
    end).

counts_garbage_collections(_Config) ->
    with_discovery([{dyno_kinds, work, 1}], fun(Node, Discovery) ->
        Pid = dyno_peers:eval(Node, "spawn(dyno_kinds, live, [infinity])."),
        #{groups := [_]} = wait_for(1, Discovery),
        Collect = fun(Times) ->
            _ = [erpc:call(Node, erlang, garbage_collect, [Pid, [{type, minor}]]) || _ <- Times],
            #{groups := [#{collections := N}]} = dyno_agent_processes:read(Discovery),
            N
        end,
        _ = Collect([1, 2]),
        ok = dyno_agent_processes:restart(Discovery),
        ?assertEqual(0, Collect([])),
        ?assertEqual(4, Collect([1, 2, 3, 4])),
        ?assertEqual(6, Collect([5, 6])),
        %% A major one sets the runtime's count to zero.
        true = erpc:call(Node, erlang, garbage_collect, [Pid]),
        ?assertEqual(7, Collect([]))
    end).

%% They call lists, maps and gen_server themselves, all the time.
leaves_its_own_out(_Config) ->
    Patterns = [{M, '_', '_'} || M <- [lists, maps, gen_server, dyno_kinds]],
    with_discovery(Patterns, fun(Node, Discovery) ->
        Agent = get(agent),
        {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => Patterns, measures => [call_time], discovery => Discovery
        }),
        {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_sampler, #{
            sink => self(), interval_ms => 20
        }),
        {ok, Resources} = dyno_agent:start(Agent, dyno_agent_resources, #{
            interval_ms => 20, reads => [ets, ports]
        }),
        ok = dyno_agent_calls:restart(Counters),
        ok = dyno_agent_processes:restart(Discovery),
        ok = dyno_peers:eval(Node, "spawn(dyno_kinds, live, [infinity]), ok."),
        ok = dyno_agent_sampler:read(Sampler),
        _ = dyno_agent_resources:read(Resources),
        #{callers := Callers, functions := Functions} = dyno_agent_calls:read(Counters),
        #{groups := Groups} = dyno_agent_processes:read(Discovery),
        Found = [G || #{group := G} <- Groups],
        ?assert(lists:keymember({dyno_kinds, live, 1}, 2, Found), Found),
        ?assertEqual([], [G || G <- Found, dyno_agent_kind:is_own(G)]),
        ?assertEqual([], [G || {_, G, _, _} <- Callers, is_own(G)]),
        %% The sampler's loop is a gen_server's, and nobody else's is at work here.
        ?assertEqual([], [
            C
         || #{mfa := {gen_server, handle_msg, _} = MFA} <- Functions,
            {F, {label, _}, _, _} = C <- Callers,
            F =:= MFA
        ])
    end).

is_own(other) -> false;
is_own(Kind) -> dyno_agent_kind:is_own(Kind).

with_discovery(Patterns, Test) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        dyno_kinds = dyno_peers:load(
            Node,
            "-module(dyno_kinds). -export([live/1, work/1]). "
            "work(X) -> X. "
            "live(Ms) -> dyno_kinds:work(Ms), receive stop -> ok after Ms -> ok end."
        ),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        _ = put(agent, Agent),
        {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => Patterns, interval_ms => 60_000
        }),
        Test(Node, Discovery),
        ok = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Peer)
    end.

%% First calls come as messages.
wait_for(Count, Discovery) ->
    case dyno_agent_processes:read(Discovery) of
        #{discovered := Count} = Figures -> Figures;
        _ -> wait_for(Count, Discovery)
    end.
