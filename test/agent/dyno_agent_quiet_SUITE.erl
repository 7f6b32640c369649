%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_quiet_SUITE).
-moduledoc "Processes of a kind that comes often are found without a message of each.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(MFA, {dyno_quick, begun, 1}).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        is_sure_of_one_kind,
        is_sure_where_all_were_gone,
        is_not_sure_of_various_kinds,
        asks_one_of_many_again,
        often_is_many_in_a_short_time,
        rare_calls_are_heard_again,
        calls_of_another_kind_are_heard_again,
        finds_all_without_their_messages,
        knows_whom_it_has_not_heard_at_a_restart,
        notices_another_kind
    ].

%% Pure

is_sure_of_one_kind(_Config) ->
    ?assertEqual(unknown, dyno_agent_revealed:kind(?MFA, dyno_agent_revealed:new())),
    ?assertEqual({seen, 7}, dyno_agent_revealed:kind(?MFA, learned(19))),
    ?assertEqual({sure, 7}, dyno_agent_revealed:kind(?MFA, learned(20))).

is_sure_where_all_were_gone(_Config) ->
    Late = fun(_, Acc) -> dyno_agent_revealed:too_late(?MFA, 3, Acc) end,
    Gone = lists:foldl(Late, dyno_agent_revealed:new(), lists:seq(1, 20)),
    ?assertEqual({sure, 3}, dyno_agent_revealed:kind(?MFA, Gone)),
    %% One that can still say what it is knows better.
    Said = dyno_agent_revealed:learn(?MFA, {initial_call, {m, f, 0}}, 7, Gone),
    ?assertEqual({seen, 7}, dyno_agent_revealed:kind(?MFA, Said)).

is_not_sure_of_various_kinds(_Config) ->
    lists:foreach(
        fun({Group, Id}) ->
            Various = dyno_agent_revealed:learn(?MFA, Group, Id, learned(100)),
            ?assertEqual(unknown, dyno_agent_revealed:kind(?MFA, Various)),
            Late = dyno_agent_revealed:too_late(?MFA, 7, Various),
            ?assertEqual(unknown, dyno_agent_revealed:kind(?MFA, Late))
        end,
        [{{initial_call, {m, g, 0}}, 8}, {{label, worker}, 9}]
    ).

asks_one_of_many_again(_Config) ->
    Often = fun(N, Acc) -> element(2, dyno_agent_revealed:often(?MFA, N, Acc)) end,
    Many = lists:foldl(Often, learned(20), lists:seq(1, 20)),
    ?assertEqual({seen, 7}, dyno_agent_revealed:kind(?MFA, Many)),
    lists:foreach(
        fun(Asked) -> ?assertEqual({sure, 7}, dyno_agent_revealed:kind(?MFA, Asked)) end,
        [
            dyno_agent_revealed:learn(?MFA, {initial_call, {m, f, 0}}, 7, Many),
            dyno_agent_revealed:too_late(?MFA, 7, Many)
        ]
    ).

often_is_many_in_a_short_time(_Config) ->
    ?assertEqual([20, 40, 60], often(seq(1, 60, 1))),
    %% A hundred a second are not often.
    ?assertEqual([], often(seq(1, 300, 10))),
    %% A burst after rare ones is noticed within two rounds.
    ?assertMatch([_ | _], often(seq(1, 19, 10) ++ [500 + N || N <- seq(1, 40, 1)])).

seq(From, Count, Step) -> [From + N * Step || N <- lists:seq(0, Count - 1)].

%% At which of these times, in milliseconds, a call counts as often.
often(TimesMs) ->
    {Found, _} = lists:foldl(
        fun(Ms, {Acc, Revealed}) ->
            Time = erlang:convert_time_unit(Ms, millisecond, native),
            case dyno_agent_revealed:often(?MFA, Time, Revealed) of
                {true, Next} -> {[Ms | Acc], Next};
                {false, Next} -> {Acc, Next}
            end
        end,
        {[], learned(50)},
        TimesMs
    ),
    lists:reverse(Found).

rare_calls_are_heard_again(_Config) ->
    Quiet = dyno_agent_revealed:quieten(?MFA, learned(50)),
    ?assertEqual(#{?MFA => 7}, dyno_agent_revealed:quiet(Quiet)),
    Rows = [{self(), 7} || _ <- lists:seq(1, 10)],
    {[], Still} = dyno_agent_revealed:listen(dyno_agent_revealed:found(Rows, Quiet)),
    ?assertEqual(#{?MFA => 7}, dyno_agent_revealed:quiet(Still)),
    %% Those before do not count again.
    {[?MFA], Rare} = dyno_agent_revealed:listen(dyno_agent_revealed:found(tl(Rows), Still)),
    ?assertEqual(#{}, dyno_agent_revealed:quiet(Rare)).

calls_of_another_kind_are_heard_again(_Config) ->
    Rows = [{self(), 7} || _ <- lists:seq(1, 1000)],
    Quiet = dyno_agent_revealed:quieten(?MFA, learned(50)),
    {[], Heard} = dyno_agent_revealed:listen(dyno_agent_revealed:found(Rows, Quiet)),
    %% Some are asked, though it was sure.
    ?assertEqual({seen, 7}, dyno_agent_revealed:kind(?MFA, Heard)),
    Other = dyno_agent_revealed:learn(?MFA, {label, other}, 8, Heard),
    ?assertMatch(
        {[?MFA], _}, dyno_agent_revealed:listen(dyno_agent_revealed:found(Rows, Other))
    ).

learned(Times) ->
    lists:foldl(
        fun(_, Acc) -> dyno_agent_revealed:learn(?MFA, {initial_call, {m, f, 0}}, 7, Acc) end,
        dyno_agent_revealed:new(),
        lists:seq(1, Times)
    ).

%% In a node

%% Each has made two calls and is gone. Heard, each is a message; half of them is allowed here:
%% quiet calls are heard for less than a tenth of the time, but for longer on a busy machine.
finds_all_without_their_messages(_Config) ->
    with_instruments(fun(Node, Discovery, Counters) ->
        ok = many(Node, 20_000),
        ok = dyno_agent_processes:restart(Discovery),
        ok = dyno_agent_calls:restart(Counters),
        ?assertEqual([?MFA], quiet(Discovery)),
        ready = start_counting(Node),
        ok = many(Node, 30_000),
        Messages = counted(Node, Discovery),
        ct:pal("~b messages of 30,000 processes", [Messages]),
        ?assert(Messages < 15_000, Messages),
        #{callers := Callers, functions := Functions, off_by := OffBy} =
            dyno_agent_calls:read(Counters),
        #{groups := Groups, discovered := Discovered} = dyno_agent_processes:read(Discovery),
        ?assertEqual(30_000, Discovered),
        ?assertEqual(30_000, lists:sum([N || #{group := {_, ?MFA}, discovered := N} <- Groups])),
        %% Also those that were never heard are known to be of that kind in what they called.
        [Calls] = [N || #{mfa := {dyno_quick, ended, 0}, calls := N} <- Functions],
        ?assert(abs(Calls - 30_000) =< 30_000 * (OffBy + 0.002), {Calls, OffBy}),
        ?assertEqual([], [C || {{dyno_quick, _, _}, other, _, _} = C <- Callers])
    end).

%% It is born between two questions for births, and lives on: at the restart it is there.
knows_whom_it_has_not_heard_at_a_restart(_Config) ->
    with_instruments(fun(Node, Discovery, Counters) ->
        ok = many(Node, 20_000),
        ?assertEqual([?MFA], quiet(Discovery)),
        Script = "[spawn(dyno_quick, stay, []) || _ <- lists:seq(1, 100)].",
        Pids = dyno_peers:eval(Node, Script),
        _ = [P ! {self(), here} || P <- Pids],
        _ = [receive {P, here} -> ok end || P <- Pids],
        ok = dyno_agent_processes:restart(Discovery),
        ok = dyno_agent_calls:restart(Counters),
        #{groups := Groups} = dyno_agent_processes:read(Discovery),
        ?assertEqual(100, lists:sum([N || #{alive := N} <- Groups])),
        _ = [P ! stop || P <- Pids]
    end).

%% The first calls are the same, but these have a name.
notices_another_kind(_Config) ->
    with_instruments(fun(Node, Discovery, _Counters) ->
        ok = many(Node, 20_000),
        ?assertEqual([?MFA], quiet(Discovery)),
        Script =
            "Loop = fun Loop(0) -> ok; Loop(N) ->"
            " {P, R} = spawn_monitor(dyno_quick, named, []),"
            " receive {'DOWN', R, process, P, _} -> Loop(N - 1) end end, Loop(1500).",
        ok = dyno_peers:eval(Node, Script),
        #{groups := Groups} = dyno_agent_processes:read(Discovery),
        [Named] = [N || #{group := {label, another}, discovered := N} <- Groups],
        ct:pal("~b of 1,500 known by their label", [Named]),
        ?assert(Named > 500, Named),
        ?assertEqual([], quiet(Discovery))
    end).

quiet(Discovery) ->
    #{hearing := Hearing} = sys:get_state(Discovery),
    dyno_agent_hearing:quiet_calls(Hearing).

%% Counts the messages of first calls that the discovery gets.
start_counting(Node) ->
    Script =
        "Self = self(),"
        "[Discovery] = [P || P <- processes(), proc_lib:get_label(P) =:= dyno_agent_processes],"
        "spawn(fun() -> register(heard, self()), 1 = erlang:trace(Discovery, true, ['receive']),"
        "  Self ! ready,"
        "  Loop = fun Loop(N) -> receive"
        "    {trace, _, 'receive', {trace_ts, _, call, _, _}} -> Loop(N + 1);"
        "    {ask, From} -> From ! {heard, N}; _ -> Loop(N) end end, Loop(0) end),"
        "receive ready -> ready end.",
    dyno_peers:eval(Node, Script).

counted(Node, Discovery) ->
    %% All that was sent before this is in the counter's queue.
    _ = sys:get_state(Discovery),
    {heard, Node} ! {ask, self()},
    receive
        {heard, N} -> N
    end.

many(Node, Count) ->
    Script =
        "Wait = fun Wait(0) -> ok; Wait(N) -> receive {'DOWN', _, _, _, _} -> Wait(N - 1) end end,"
        "[begin [spawn_monitor(dyno_quick, live, []) || _ <- lists:seq(1, 20)], Wait(20) end"
        " || _ <- lists:seq(1, " ++ integer_to_list(Count div 20) ++ ")], ok.",
    dyno_peers:eval(Node, Script).

with_instruments(Test) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        dyno_quick = dyno_peers:load(
            Node,
            "-module(dyno_quick). -export([live/0, stay/0, named/0, begun/1, ended/0]). "
            "begun(X) -> X. "
            "ended() -> ok. "
            "live() -> dyno_quick:begun(1), dyno_quick:ended(). "
            "stay() -> dyno_quick:begun(1), "
            "  receive {P, here} -> P ! {self(), here} end, receive stop -> ok end. "
            "named() -> proc_lib:set_label(another), dyno_quick:begun(1), "
            "  receive after 1 -> ok end."
        ),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        Patterns = [{dyno_quick, begun, 1}, {dyno_quick, ended, 0}],
        {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => Patterns, interval_ms => 60_000
        }),
        {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => Patterns, measures => [call_time], discovery => Discovery
        }),
        Test(Node, Discovery, Counters),
        ok = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Peer)
    end.
