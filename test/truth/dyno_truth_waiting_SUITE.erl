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

%% A server that keeps how long each message waited, by the clock of who sent it; and an event manager
%% with two handlers that count.
-define(SERVER, """
-module(waits).
-export([start/1, stop/1, init/1, handle_call/3, handle_cast/2, handle_event/2]).
-export([blocked/2, every/3, manager/2, done/0]).
start(State) -> gen_server:start({local, waits}, waits, {server, State}, []).
stop(Load) -> exit(Load, kill).
init({server, State}) -> {ok, {State, []}};
init(Handler) -> {ok, Handler}.
handle_call(waited, _From, {State, Waited}) -> {reply, lists:sort(Waited), {State, []}};
handle_call({sleep, Ms}, _From, State) -> timer:sleep(Ms), {reply, ok, State};
handle_call(forget, _From, {State, _}) -> {reply, ok, {State, []}}.
handle_cast({sleep, Ms}, State) -> timer:sleep(Ms), {noreply, State};
handle_cast({sent, At}, {State, Waited}) ->
    {noreply, {State, [erlang:monotonic_time(nanosecond) - At | Waited]}}.
handle_event(_, {N, Us} = Handler) ->
    busy(erlang:monotonic_time(microsecond) + Us),
    counters:add(persistent_term:get(waits), N, 1),
    {ok, Handler}.
busy(End) -> erlang:monotonic_time(microsecond) < End andalso busy(End).
%% Asleep for so long of each second, at 100 messages a second.
blocked(Ms, EveryMs) ->
    spawn(fun() -> every(EveryMs, 1, fun() -> gen_server:cast(waits, {sleep, Ms}) end) end),
    sends(10).
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
    ok = persistent_term:put(waits, counters:new(3, [])),
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
done() -> [counters:get(persistent_term:get(waits), N) || N <- [1, 2, 3]].

""").

suite() ->
    [{timetrap, {minutes, 2}}].

%% In a run of all tests the processors are taken anyway, and these take them from all others.
slow() -> [{group, beside_others}].

all() ->
    [{group, pure}, {group, in_nodes}, {group, beside_others}].

groups() ->
    [
        {pure, [parallel], [messages_are_spread_between_looks, after_a_pause_they_have_just_come]},
        {in_nodes, [parallel], [
            a_blocked_server, a_callback_at_the_end_of_windows, an_event_manager, a_full_event_manager
        ]},
        {beside_others, [parallel], [a_blocked_server]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

%% Both processors are taken by other programs.
init_per_group(beside_others, Config) ->
    Spinner = {spawn_executable, "/bin/sh"},
    Ports = [
        open_port(Spinner, [{args, ["-c", "(while :; do :; done) & read x; kill $!"]}])
     || _ <- [1, 2]
    ],
    Holder = spawn(fun() -> receive stop -> [port_close(Port) || Port <- Ports] end end),
    [port_connect(Port, Holder) || Port <- Ports],
    [unlink(Port) || Port <- Ports],
    [{spinners, Holder} | Config];
init_per_group(_Group, Config) ->
    Config.

end_per_group(beside_others, Config) ->
    ?config(spinners, Config) ! stop;
end_per_group(_Group, _Config) ->
    ok.

%% Pure

%% A message each 10 ms, none of which is served for 500 ms.
messages_are_spread_between_looks(_Config) ->
    {0, 0, First} = dyno_agent_server_delay:received({1, 0, 0}, waited, dyno_agent_server_delay:new(0)),
    {Told, _} = lists:mapfoldl(
        fun(Number, Looks) ->
            {Ns, _, Next} = dyno_agent_server_delay:received({Number + 1, 500, 50 - Number}, 500, Looks),
            {Ns, Next}
        end,
        First,
        lists:seq(1, 50)
    ),
    True = [500 - 10 * Number + 5 || Number <- lists:seq(1, 50)],
    ?assertEqual([], [Pair || {A, B} = Pair <- lists:zip(Told, True), abs(A - B) > 1]).

%% After a pause those that wait have just come.
after_a_pause_they_have_just_come(_Config) ->
    New = dyno_agent_server_delay:new(0),
    {0, 0, Looks} = dyno_agent_server_delay:received({1, 0, 0}, waited, New),
    Idle = dyno_agent_server_delay:woken({2, 1000, 9}, Looks),
    ?assertMatch({5, _, _}, dyno_agent_server_delay:received({7, 1005, 4}, 1004, Idle)).

%% In nodes

%% Asleep 300 ms of each 1.2 s.
a_blocked_server(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, waits, start, [[]]),
        _ = erpc:call(Node, waits, blocked, [300, 1200]),
        ok = gen_server:call(Pid, forget),
        {Document, Text} = measured(Node, [{module, waits}], 5000),
        Waited = gen_server:call(Pid, waited),
        True = fun(Share) -> lists:nth(ceil(Share * length(Waited)), Waited) end,
        #{~"delay_p90" := P90, ~"delay_p99" := P99} = server(~"waits", Document),
        ct:log("~ts~n~tp", [Text, {{True(0.5), True(0.9), True(0.99)}, {P90, P99}}]),
        %% The truth is of a time that is longer by attaching and leaving: the p90 moves with it.
        near(True(0.9), P90, 0.35),
        near(True(0.99), P99, 0.15),
        ?assertNotEqual(nomatch, re:run(Text, "messages wait (at least )?(2|3)[0-9.]+ ms"))
    end).

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

next(Monitor) ->
    receive
        {dyno_servers, Monitor, #{servers := _} = Window, _} ->
            ok = dyno_servers:ready(Monitor),
            Window
    end.

%% 100 events a second for two handlers: 100 messages a second.
an_event_manager(_Config) ->
    in_node(fun(Node) ->
        ok = erpc:call(Node, waits, manager, [100, 10]),
        Begun = erlang:monotonic_time(nanosecond),
        [A0, _, _] = erpc:call(Node, waits, done, []),
        {Document, Text} = measured(Node, [all], 4000),
        [A1, _, _] = erpc:call(Node, waits, done, []),
        PerS = 1.0e9 / (erlang:monotonic_time(nanosecond) - Begun),
        ct:log("~ts", [Text]),
        #{~"rate" := Rate} = server(~"manager", Document),
        near((A1 - A0) * PerS, Rate, 0.15),
        ?assertEqual(nomatch, string:find(Text, "other processes do its work"))
    end).

%% It gets 200 events a second and needs 10 ms for each: its handlers cannot be asked.
a_full_event_manager(_Config) ->
    in_node(fun(Node) ->
        ok = erpc:call(Node, waits, manager, [10_000, 5]),
        timer:sleep(300),
        Begun = erlang:monotonic_time(nanosecond),
        [A0, _, C0] = erpc:call(Node, waits, done, []),
        {Document, Text} = measured(Node, [all], 5000),
        [A1, _, C1] = erpc:call(Node, waits, done, []),
        PerS = 1.0e9 / (erlang:monotonic_time(nanosecond) - Begun),
        ct:log("~ts~n~tp", [Text, {(A1 - A0) * PerS, (C1 - C0) * PerS}]),
        #{~"rate" := Rate, ~"arrival_rate" := Arrivals} = server(~"manager", Document),
        near((A1 - A0) * PerS, Rate, 0.25),
        near((C1 - C0) * PerS, Arrivals, 0.25),
        [_ | _] = [Row || #{~"callback" := ~"waits: handle_event"} = Row <- rows(~"callbacks", Document)],
        ?assertNotEqual(nomatch, string:find(Text, "its queue of")),
        ?assertEqual(nomatch, string:find(Text, "other processes do its work"))
    end).

%% What is measured and printed

measured(Node, Selectors, ForMs) ->
    {ok, Document} = dyno_servers_run:run([Node], #{servers => Selectors, for_ms => ForMs}),
    {ok, Text} = dyno_report:render(console, Document, #{width => 100}),
    Flat = re:replace(unicode:characters_to_binary(Text), "\\s+", " ", [global, {return, binary}]),
    {Document, Flat}.

rows(Table, Document) ->
    [Run] = dyno_recording:runs(Document),
    dyno_recording:rows(Run, Table).

server(Name, Document) ->
    [Row] = [R || #{~"server" := Is} = R <- rows(~"servers", Document), Is =:= Name],
    Row.

near(True, Told, Share) ->
    ?assert(abs(Told - True) =< Share * True, {told, Told, true, True}).

in_node(Run) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        waits = dyno_peers:load(Node, ?SERVER),
        ok = erpc:call(Node, logger, set_primary_config, [level, none]),
        Run(Node)
    after
        dyno_peers:stop(Peer)
    end.
