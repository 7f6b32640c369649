%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_waiting_SUITE).
-moduledoc """
How long messages wait, and how many callbacks there are, of servers that are blocked or
are event managers: what dyno servers says of them, against what they did.
""".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-import(dyno_truth, [rows/2, row/3, near/3, next/1]).

%% A server that keeps how long each message waited, by the clock of who sent it; and an event
%% manager with two handlers that count.
-define(SERVER, """
-module(waits).
-export([start/1, collects/2, init/1, handle_call/3, handle_cast/2, handle_event/2]).
-export([blocked/2, late/3, sends/1, every/3, manager/2, done/0]).
start(State) -> gen_server:start({local, waits}, waits, {server, State}, []).
collects(Pid, EveryMs) ->
    spawn(fun() -> every(EveryMs, 1, fun() -> erlang:garbage_collect(Pid) end) end).
init({server, State}) -> {ok, {State, []}};
init(Handler) -> {ok, Handler}.
handle_call(waited, _From, {_, Waited} = State) -> {reply, Waited, State}.
handle_cast({sleep, Ms}, State) -> timer:sleep(Ms), {noreply, State};
handle_cast({sent, At}, {State, Waited}) ->
    Now = erlang:monotonic_time(nanosecond),
    {noreply, {State, [{Now + erlang:time_offset(nanosecond), Now - At} | Waited]}}.
handle_event(_, {N, Us} = Handler) ->
    busy(erlang:monotonic_time(microsecond) + Us),
    counters:add(persistent_term:get(waits), N, 1),
    {ok, Handler};
handle_event(_, asleep) ->
    Begun = erlang:monotonic_time(nanosecond),
    timer:sleep(3),
    counters:add(persistent_term:get(waits), 4, erlang:monotonic_time(nanosecond) - Begun),
    {ok, asleep}.
busy(End) -> erlang:monotonic_time(microsecond) < End andalso busy(End).
%% Asleep for so long of each second, at 100 messages a second.
blocked(Ms, EveryMs) ->
    spawn(fun() -> every(EveryMs, 1, fun() -> gen_server:cast(waits, {sleep, Ms}) end) end),
    sends(10).
late(Ms, AfterMs, Count) ->
    spawn(fun() ->
        every(1200, 1, fun() ->
            gen_server:cast(waits, {sleep, Ms}),
            timer:sleep(AfterMs),
            [
                gen_server:cast(waits, {sent, erlang:monotonic_time(nanosecond)})
             || _ <- lists:seq(1, Count)
            ]
        end)
    end).
sends(Ms) ->
    spawn(fun() ->
        every(Ms, 1, fun() -> gen_server:cast(waits, {sent, erlang:monotonic_time(nanosecond)}) end)
    end).
every(Ms, N, Do) -> every(erlang:monotonic_time(millisecond), Ms, N, Do).
every(Begun, Ms, N, Do) ->
    Left = Begun + Ms * N - erlang:monotonic_time(millisecond),
    Left > 0 andalso timer:sleep(Left),
    Do(),
    every(Begun, Ms, N + 1, Do).
manager(Us, EveryMs) ->
    ok = persistent_term:put(waits, counters:new(4, [])),
    Self = self(),
    spawn(fun() ->
        {ok, Pid} = gen_event:start({local, manager}),
        ok = gen_event:add_handler(Pid, waits, {1, Us}),
        ok = gen_event:add_handler(Pid, {waits, other}, {2, 10}),
        Self ! begun,
        every(EveryMs, 1, fun() ->
            gen_event:notify(Pid, event),
            counters:add(persistent_term:get(waits), 3, 1)
        end)
    end),
    receive begun -> ok end.
done() -> [counters:get(persistent_term:get(waits), N) || N <- [1, 2, 3, 4]].

""").

suite() ->
    [{timetrap, {minutes, 2}}].

%% In a run of all tests the processors are taken anyway, and these take them from all others.
slow() -> [{group, beside_others}].

all() ->
    [{group, pure}, {group, in_nodes}, {group, beside_others}].

groups() ->
    [
        {pure, [parallel], [
            messages_are_spread_between_looks,
            after_a_pause_they_have_just_come,
            a_callback_is_looked_into,
            the_bounds_of_a_long_wait,
            looks_of_another_process,
            one_that_finds_it_idle_wakes_it,
            those_traced_stand_for_all_that_woke_it,
            few_traced_say_nothing_of_the_longest
        ]},
        {in_nodes, [parallel], [
            a_blocked_server,
            messages_at_the_end_of_a_sleep,
            a_server_in_a_collection,
            a_callback_at_the_end_of_windows,
            an_event_manager,
            a_full_event_manager
        ]},
        {beside_others, [parallel], [a_blocked_server, messages_at_the_end_of_a_sleep]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

init_per_group(Group, Config) -> dyno_truth:beside(Group, Config).

end_per_group(_Group, Config) -> dyno_truth:alone(Config).

%% Pure

%% A message each 10 ms, none of which is served for 500 ms.
messages_are_spread_between_looks(_Config) ->
    First = woken_at_0(),
    {Told, _} = lists:mapfoldl(
        fun(Number, Looks) ->
            {{_, Ns, _}, Next} = dyno_agent_server_delay:received(
                {Number + 1, 500, 50 - Number}, 500, Looks
            ),
            {Ns, Next}
        end,
        First,
        lists:seq(1, 50)
    ),
    True = [500 - 10 * Number + 5 || Number <- lists:seq(1, 50)],
    ?assertEqual([], [Pair || {A, B} = Pair <- lists:zip(Told, True), abs(A - B) > 1]).

%% After a pause those that wait have just come.
after_a_pause_they_have_just_come(_Config) ->
    Idle = dyno_agent_server_delay:woken({2, 1000, 9}, woken_at_0()),
    %% But they may have come in the pause, since the last message.
    ?assertMatch({{5, 5, 1005}, _}, dyno_agent_server_delay:received({7, 1005, 4}, 1004, Idle)).

woken_at_0() ->
    New = dyno_agent_server_delay:new(0),
    {{0, 0, 0}, Looks} = dyno_agent_server_delay:received({1, 0, 0}, waited, New),
    Looks.

%% 50 messages come at once, 400 ms after the callback began; a look at an answer to the callback is
%% corrected by the next one.
a_callback_is_looked_into(_Config) ->
    Looks = [{Ms, Queue} || {Ms, Queue} <- [{100, 0}, {150, 1}, {200, 0}, {395, 0}, {405, 50}]],
    Known = dyno_agent_server_delay:stood(2, Looks, woken_at_0()),
    ?assertMatch({{95, 105, 105}, _}, dyno_agent_server_delay:received({2, 500, 49}, 500, Known)),
    ?assertMatch({{96, 96, 106}, _}, dyno_agent_server_delay:received({51, 501, 0}, 501, Known)).

%% The old looks of many are far apart, but not in comparison with how long ago they were.
the_bounds_of_a_long_wait(_Config) ->
    {{LeastNs, Ns, MostNs}, _} = lists:foldl(
        fun(Number, {_, Known}) ->
            Now = 1000 + 12 * Number,
            dyno_agent_server_delay:received({Number, Now, Now div 8 - Number}, Now, Known)
        end,
        {none, dyno_agent_server_delay:new(0)},
        lists:seq(1, 2000)
    ),
    near(1000 + 12 * 2000 - 8 * 2000, Ns, 0.01),
    ?assert(LeastNs =< Ns andalso Ns =< MostNs andalso MostNs < 1.15 * LeastNs).

%% Of looks of equal length the first and last are kept, and of too many those that are far apart.
looks_of_another_process(_Config) ->
    Counters = dyno_agent_server_counters:new(),
    ok = dyno_agent_server_counters:begin_callback(Counters, 1000, 1),
    State = dyno_agent_server_counters:state(Counters),
    Look = fun(Ms, Queue) ->
        ok = dyno_agent_server_counters:ask(Counters, State, Ms),
        asked = dyno_agent_server_counters:ask(Counters, State, Ms),
        dyno_agent_server_counters:see(Counters, State, {1_000_000 * Ms, Queue})
    end,
    [Look(Ms, 0) || Ms <- lists:seq(1, 100)],
    ?assertEqual(
        {none, [{1_000_000, 0}, {100_000_000, 0}]},
        dyno_agent_server_counters:seen(Counters, State)
    ),
    [Look(Ms, Ms) || Ms <- lists:seq(101, 1000)],
    {none, Looks} = dyno_agent_server_counters:seen(Counters, State),
    {LastMs, Last} = lists:last(Looks),
    ?assert(length(Looks) =< 64 andalso length(Looks) >= 20),
    ?assertEqual({1_000_000_000, 1000}, {LastMs, Last}),
    %% The next state has none of them.
    ok = dyno_agent_server_counters:end_callback(Counters, 2000, 1),
    Next = dyno_agent_server_counters:state(Counters),
    ?assertEqual({none, []}, dyno_agent_server_counters:seen(Counters, Next)),
    ok = dyno_agent_server_counters:ask(Counters, State, 3000),
    ok = dyno_agent_server_counters:see(Counters, State, {3000, 7}),
    ?assertEqual({none, []}, dyno_agent_server_counters:seen(Counters, Next)).

%% A message wakes the server if no callback runs, and none waits. In the second part the call comes
%% from another node, or the one that was asleep took a plain message.
one_that_finds_it_idle_wakes_it(_Config) ->
    Pid = self(),
    Part = fun(N, Events) -> [{0, none, N} | [{At, Pid, Event} || {At, Event} <- Events]] end,
    First = Part(1, [
        {0, idle},
        {1000, {sent, cast}},
        {1030, {begins, cast}},
        {1035, {sent, call}},
        {9000, ends},
        {9001, {begins, call}},
        {9500, ends},
        {200_000, {sent, call}},
        {200_040, {begins, call}}
    ]),
    Paired = fun(Second) -> dyno_agent_server_wakes:paired(First ++ Part(2, Second)) end,
    ?assertEqual(#{Pid => {[40, 30], 2}}, Paired([])),
    ?assertEqual(#{Pid => {[40, 30], 2}}, Paired([{0, idle}, {100_000, {begins, call}}])),
    Cast = [{0, idle}, {100_000, {sent, cast}}],
    ?assertEqual(#{Pid => {[7], 1}}, Paired(Cast ++ [{100_007, {begins, cast}}])),
    ?assertEqual(#{Pid => {[40, 30], 2}}, Paired(Cast ++ [{100_007, {begins, info}}])).

%% 75 of 100 found it idle, of which 20 were traced; the others waited for 100 ms.
those_traced_stand_for_all_that_woke_it(_Config) ->
    Index = fun dyno_agent_server_counters:index/1,
    {Zero, Ms, Long} = {{0, 75}, {Index(4_000_000), 75}, {Index(100_000_000), 25}},
    Waits = #{
        delay => #{buckets => [Zero, Long]},
        delay_low => #{buckets => [Zero, Long]},
        delay_high => #{buckets => [Ms, Long]},
        woken => #{buckets => [{Index(Us * 1000), 1} || Us <- lists:seq(21, 40)]},
        woken_of => 20,
        woken_high => #{buckets => [Ms]},
        missed => 0
    },
    Us = fun(Ns) -> round(Ns / 1000) end,
    {undefined, Low, High} = dyno_agent_server_parts:waited(0.5, Waits),
    %% 30 to 38 us by chance, and what tracing may be wrong by.
    ?assertMatch({23, 49}, {Us(Low), Us(High)}),
    ?assertMatch({Ns, Ns, Ns} when Ns > 99_000_000, dyno_agent_server_parts:waited(0.9, Waits)),
    %% Of too many it was not seen how long they waited.
    {undefined, 0, Most} = dyno_agent_server_parts:waited(0.5, Waits#{woken_of := 40}),
    near(4_000_000, Most, 0.01),
    ?assertMatch({undefined, 0, Most}, dyno_agent_server_parts:waited(0.5, Waits#{woken := none})).

%% One in 50 of those that found it idle waited for 2 ms, the others for 20 us, and few were traced.
few_traced_say_nothing_of_the_longest(_Config) ->
    Index = fun dyno_agent_server_counters:index/1,
    Waits = fun(Traced, Long) ->
        #{
            delay => #{buckets => [{0, 1000}]},
            delay_low => #{buckets => [{0, 1000}]},
            delay_high => #{buckets => [{Index(7_000_000), 1000}]},
            woken => #{
                buckets => [{Index(20_000), Traced - Long}] ++
                    [{Index(2_000_000), Long} || Long > 0]
            },
            woken_of => Traced,
            woken_high => #{buckets => [{Index(7_000_000), 1000}]},
            missed => 0
        }
    end,
    Waited = fun(Traced, Long) -> dyno_agent_server_parts:waited(0.99, Waits(Traced, Long)) end,
    [
        begin
            {Told, Low, High} = Waited(Traced, Long),
            ?assertEqual(undefined, Told, {Traced, Long}),
            ?assert(Low =< 2_000_000 andalso High > 6_900_000, {Low, High})
        end
     || {Traced, Long} <- [{60, 0}, {120, 0}, {200, 1}, {200, 2}]
    ],
    ?assertMatch({_, Low, High} when Low > 1_400_000 andalso High < 2_800_000, Waited(800, 16)),
    ?assertMatch({_, Low, High} when Low > 14_000 andalso High < 30_000, Waited(1000, 0)).

%% In nodes

%% Asleep 300 ms of each 1.2 s. A sleep cut by the end of the time moves the p90.
a_blocked_server(_Config) ->
    dyno_tries:hold(3, fun a_blocked_server_once/0).

a_blocked_server_once() ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, waits, start, [[]]),
        _ = erpc:call(Node, waits, blocked, [300, 1200]),
        {Row, Text, True} = waited(Node, Pid, #{
            for_ms => 5000, thresholds => thresholds(["p50 < 1 s", "p99 < 100 ms"])
        }),
        %% Most find the server idle, and wait until it runs: some 20 us, or more beside others.
        #{~"delay_p50_low" := Low, ~"delay_p50_high" := High} = Row,
        ?assert(Low =< True(0.5) andalso True(0.5) =< High, {True(0.5), Low, High}),
        ?assertNotEqual(nomatch, re:run(Text, "PASS servers waits delay_p50 < 1 s")),
        Keys = [{0.9, ~"delay_p90"}, {0.99, ~"delay_p99"}],
        IsKnown = [is_near(True(Of), Key, Row) || {Of, Key} <- Keys],
        lists:all(fun(Is) -> Is end, IsKnown) andalso
            begin
                Waits = "messages wait (at least )?(2|3)[0-9.]+ ms",
                ?assertNotEqual(nomatch, re:run(Text, Waits)),
                ?assertNotEqual(nomatch, re:run(Text, "FAIL servers waits delay_p99 < 100 ms"))
            end
    end).

%% Beside other programs only bounds may be known.
is_near(True, Key, Row) ->
    case map_get(Key, Row) of
        null ->
            [Low, High] = [
                maps:get(<<Key/binary, End/binary>>, Row, null)
             || End <- [~"_low", ~"_high"]
            ],
            ?assert(Low =:= null orelse Low =< 1.1 * True, {Low, True}),
            ?assert(High =:= null orelse True =< 1.1 * High, {True, High}),
            false;
        Told ->
            near(True, Told, 0.1),
            true
    end.

%% Asleep 400 ms of each 1.2 s; 60 messages come in the last 80 ms of that.
messages_at_the_end_of_a_sleep(_Config) ->
    dyno_tries:hold(3, fun messages_at_the_end_of_a_sleep_once/0).

messages_at_the_end_of_a_sleep_once() ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, waits, start, [[]]),
        _ = erpc:call(Node, waits, late, [400, 320, 60]),
        {Row, _, True} = waited(Node, Pid, #{for_ms => 5000}),
        [
            begin
                #{<<Key/binary, "_low">> := Low, <<Key/binary, "_high">> := High} = Row,
                ?assert(Low =< 1.05 * True(Of) andalso True(Of) =< 1.05 * High),
                Told = map_get(Key, Row),
                ?assert(Told =:= null orelse abs(Told - True(Of)) < 0.2 * True(Of))
            end
         || {Of, Key} <- [{0.5, ~"delay_p50"}, {0.9, ~"delay_p90"}, {0.99, ~"delay_p99"}]
        ]
    end).

%% It does nothing, and is made to collect a large heap over and over: no callback runs meanwhile.
%% On a busy machine dyno may be late for a look, so the bounds are farther apart.
a_server_in_a_collection(_Config) ->
    dyno_tries:hold(3, fun a_server_in_a_collection_once/0).

a_server_in_a_collection_once() ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, waits, start, [lists:seq(1, 10_000_000)]),
        _ = erpc:call(Node, waits, sends, [5]),
        _ = erpc:call(Node, waits, collects, [Pid, 700]),
        {Row, _, True} = waited(Node, Pid, #{for_ms => 4000}),
        %% Between callbacks, and so none of their processor time.
        #{~"cpu" := Cpu, ~"busy" := Busy} = Row,
        ?assert(Cpu < 2 * Busy + 0.01, {Cpu, Busy}),
        #{~"delay_p99" := P99, ~"delay_p99_high" := High} = Row,
        ?assert(High =:= null orelse True(0.99) =< 1.2 * High),
        ?assert(P99 =:= null orelse P99 > True(0.99) / 3)
    end).

thresholds(Texts) ->
    [
        Threshold
     || Text <- Texts,
        {ok, Threshold} <- [dyno_threshold:parse("servers waits delay_" ++ Text)]
    ].

%% The row, the text, and how long its messages have waited in the time that was measured.
waited(Node, Pid, Options) ->
    {Document, Text, {From, Until}} = dyno_truth:servers(Node, [{module, waits}], Options),
    Waited = lists:sort([
        Ns
     || {At, Ns} <- gen_server:call(Pid, waited, infinity), At >= From, At =< Until
    ]),
    True = fun(Share) -> lists:nth(ceil(Share * length(Waited)), Waited) end,
    Row = row(~"servers", ~"waits", Document),
    Told = maps:filter(fun(Key, _) -> string:prefix(Key, "delay") =/= nomatch end, Row),
    ct:log("~ts~n~tp", [Text, {[True(Share) || Share <- [0.5, 0.9, 0.99]], Told}]),
    {Row, Text, True}.

%% Each takes 700 ms: one is under way at the end of most windows.
a_callback_at_the_end_of_windows(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, waits, start, [[]]),
        {ok, Monitor} = dyno_servers:start(Node, #{servers => [{module, waits}]}),
        ok = dyno_servers:subscribe(Monitor),
        _ = [next(Monitor) || _ <- [1, 2]],
        [gen_server:cast(Pid, {sleep, 700}) || _ <- lists:seq(1, 5)],
        Counts = [
            Count
         || _ <- lists:seq(1, 5),
            #{servers := [#{callbacks := Callbacks}]} <- [next(Monitor)],
            #{name := ~"handle_cast", count := Count} <- Callbacks
        ],
        ct:log("~tp", [Counts]),
        ?assertEqual(5, lists:sum(Counts)),
        ok = dyno_servers:stop(Monitor)
    end).

%% 100 events a second for two handlers: 100 messages a second.
an_event_manager(_Config) ->
    in_node(fun(Node) ->
        ok = erpc:call(Node, waits, manager, [100, 10]),
        ok = erpc:call(Node, gen_event, add_handler, [manager, {waits, asleep}, asleep]),
        Begun = erlang:monotonic_time(nanosecond),
        [A0, _, _, Asleep0] = erpc:call(Node, waits, done, []),
        {Document, Text, _} = dyno_truth:servers(Node, [all], #{for_ms => 4000}),
        [A1, _, _, Asleep1] = erpc:call(Node, waits, done, []),
        PerS = 1.0e9 / (erlang:monotonic_time(nanosecond) - Begun),
        ct:log("~ts", [Text]),
        #{~"rate" := Rate} = Told = row(~"servers", ~"manager", Document),
        near((A1 - A0) * PerS, Rate, 0.15),
        %% Asleep in one handler, and 110 us in the others.
        is_busy(((Asleep1 - Asleep0) / 1.0e9 + (A1 - A0) * 110.0e-6) * PerS, Told, 0.3),
        %% Handlers are code that may be loaded anew: they are timed only if that is asked for.
        ?assertEqual([~"(message)"], [
            Name
         || #{~"callback" := Name} <- rows(~"callbacks", Document)
        ]),
        ?assertEqual(nomatch, string:find(Text, "other processes do its work"))
    end).

%% If a part of the time was missed, only a lower bound is known.
is_busy(True, #{~"busy" := null, ~"busy_low" := Low}, Share) ->
    ?assert(Low > True / 2 andalso Low =< True * (1 + Share), {told, Low, true, True});
is_busy(True, #{~"busy" := Busy}, Share) ->
    near(True, Busy, Share).

%% It gets 200 events a second and needs 10 ms for each: its handlers cannot be asked.
a_full_event_manager(_Config) ->
    in_node(fun(Node) ->
        ok = erpc:call(Node, waits, manager, [10_000, 5]),
        timer:sleep(300),
        Begun = erlang:monotonic_time(nanosecond),
        [A0, _, C0, _] = erpc:call(Node, waits, done, []),
        {Document, Text, _} = dyno_truth:servers(Node, [all], #{for_ms => 5000, level => time}),
        [A1, _, C1, _] = erpc:call(Node, waits, done, []),
        PerS = 1.0e9 / (erlang:monotonic_time(nanosecond) - Begun),
        ct:log("~ts~n~tp", [Text, {(A1 - A0) * PerS, (C1 - C0) * PerS}]),
        Told = row(~"servers", ~"manager", Document),
        #{~"rate" := Rate, ~"arrival_rate" := Arrivals} = Told,
        is_busy(1, Told, 0.05),
        near((A1 - A0) * PerS, Rate, 0.25),
        near((C1 - C0) * PerS, Arrivals, 0.25),
        [_ | _] = [
            Row
         || #{~"callback" := ~"waits: handle_event"} = Row <- rows(~"callbacks", Document)
        ],
        ?assertNotEqual(nomatch, string:find(Text, "its queue of")),
        ?assertEqual(nomatch, string:find(Text, "other processes do its work"))
    end).

in_node(Run) -> dyno_truth:in_node(?SERVER, Run).
