%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_doctor_SUITE).
-moduledoc """
Sick nodes, each with a known illness, and a healthy one: which finding comes first, and what it
says. All are looked at at the same time.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

each_release() -> [names_the_illness, counts_between_traces].

all() ->
    [
        names_the_illness,
        watches_a_node_that_restarts,
        names_more_illnesses,
        names_further_illnesses,
        names_last_illnesses,
        names_what_fills_a_node,
        setters_of_timers,
        long_runs,
        counts_processes,
        heaps_of_idle_processes,
        counts_between_traces,
        a_stopped_node,
        a_server_of_another_node,
        a_saturated_node,
        writers_of_a_table
    ].

slow() ->
    all() -- [names_the_illness, writers_of_a_table, a_stopped_node, a_server_of_another_node].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) -> ok.

names_the_illness(_Config) -> named(cases()).

names_more_illnesses(_Config) -> named(more_cases()).

names_further_illnesses(_Config) -> named(further_cases()).

names_last_illnesses(_Config) -> named(last_cases()).

names_what_fills_a_node(_Config) -> named(full_cases()).

%% Sends the changes to the calling process.
watcher(Node) ->
    Self = self(),
    spawn_monitor(fun() ->
        Tell = fun(Changes) ->
            _ = [Self ! Change || Change <- Changes],
            ok
        end,
        exit({ended, dyno_doctor:run([Node], #{for_ms => 5000, watch => Tell})})
    end).

%% A process with a queue that it never reads.
lazy(Node) ->
    ill(
        Node,
        "start() -> register(lazy, self()), _ = [self() ! {job, I} || I <- lists:seq(1, 5000)], "
        "receive stop -> ok end. "
    ).

%% Its findings are told anew, and once more when they are gone.
watches_a_node_that_restarts(_Config) ->
    Name = peer:random_name(),
    Cookie = atom_to_list(erlang:get_cookie()),
    Start = fun() ->
        {ok, Peer, Node} = peer:start(#{
            name => Name, connection => standard_io, args => ["-setcookie", Cookie]
        }),
        lazy(Node),
        {Peer, Node}
    end,
    {_, Node} = First = Start(),
    {Watcher, Ref} = watcher(Node),
    Found = fun() ->
        receive
            {found, Node, #{check := queue, subject := ~"lazy"}} -> ok;
            {'DOWN', Ref, process, Watcher, Why} -> ct:fail(Why)
        end
    end,
    ok = Found(),
    dyno_peers:stop(First),
    receive
        {lost, Node, _} -> ok
    end,
    Second = Start(),
    try
        receive
            {back, Node} -> ok
        end,
        ok = Found(),
        _ = erpc:call(Node, erlang, send, [lazy, stop]),
        receive
            {gone, Node, #{check := queue}, AfterMs} -> ?assert(AfterMs >= 5000)
        end,
        Watcher ! dyno_interrupt,
        receive
            {'DOWN', Ref, process, Watcher, {ended, {ok, Document}}} ->
                ?assertMatch(#{~"status" := ~"interrupted", ~"verdicts" := []}, Document)
        end
    after
        dyno_peers:stop(Second)
    end.

%% One write right after the other, in a table whose writers exclude each other, and in one whose
%% writers do so only for one key.
writers_of_a_table(_Config) ->
    Writers = fun(Options, Key) ->
        Table = ets:new(hits, [public | Options]),
        Write = fun Write(N) ->
            _ = [ets:insert(Table, {Key(I), N}) || I <- lists:seq(1, 200)],
            timer:sleep(1),
            Write(N + 1)
        end,
        [spawn_link(fun() -> Write(0) end) || _ <- [1, 2]]
    end,
    Each = fun(I) -> {self(), I} end,
    Same = fun(_) -> hits end,
    Free = {write_concurrency, true},
    [
        begin
            #{A := #{writes := Of}, B := #{writes := #{locks := Locks}}} =
                dyno_agent_some_calls:tables([A, B]),
            ?assertMatch(#{table := ~"hits", locks := Locks, gap_us := Us} when Us < 50, Of),
            [
                begin
                    unlink(P),
                    exit(P, kill)
                end
             || P <- [A, B]
            ]
        end
     || {Locks, [A, B]} <- [
            {true, Writers([], Each)}, {true, Writers([Free], Same)}, {false, Writers([Free], Each)}
        ]
    ],
    ok.

%% Also one that waits for most of the time.
setters_of_timers(_Config) ->
    Lease = spawn_link(fun Set() ->
        _ = [erlang:send_after(60_000, self(), expired) || _ <- lists:seq(1, 10)],
        timer:sleep(1),
        Set()
    end),
    ?assertMatch(
        #{Lease := #{sets := #{function := ~"erlang:send_after/3", per_s := PerS}}} when PerS > 20,
        dyno_agent_some_calls:setters([Lease, self()])
    ),
    %% Of all processes; not known if the machine is too busy to count within a second.
    case dyno_agent_some_calls:often() of
        #{timers := AllPerS} -> ?assert(AllPerS > 20, AllPerS);
        Late -> ?assertEqual(#{}, Late)
    end,
    unlink(Lease),
    exit(Lease, kill).

%% Copying a large message takes long, without a pause.
long_runs(_Config) ->
    Copies = spawn_link(fun() ->
        Large = lists:seq(1, 4_000_000),
        (fun Copy() ->
            self() ! Large,
            receive
                _ -> Copy()
            end
        end)()
    end),
    ok = seen_running(Copies),
    unlink(Copies),
    exit(Copies, kill).

seen_running(Pid) ->
    case dyno_agent_some_calls:long_runs() of
        #{Pid := Ms} when Ms >= 20 -> ok;
        #{} -> seen_running(Pid)
    end.

%% The end of a session that traces does not end the counts of later looks.
counts_between_traces(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        ill(
            Node,
            "start() -> persistent_term:put(failed, counters:new(1, [])), "
            "  spawn(sick, busy, [lists:seq(1, 1000)]), fail(). "
            "fail() -> try exit(no) catch exit:_ -> counted() end, timer:sleep(5), fail(). "
            "counted() -> counters:add(persistent_term:get(failed), 1, 1). "
            "busy(L) -> ets:info(none), _ = lists:sum(L), busy(L). "
        ),
        Read = "counters:get(persistent_term:get(failed), 1).",
        Failed = fun() -> dyno_peers:eval(Node, Read) end,
        Before = Failed(),
        {ok, #{~"runs" := [Run]}} = dyno_doctor:run([Node], #{for_ms => 5000}),
        True = Failed() - Before,
        #{~"events" := #{~"items" := Items}} = Run,
        Exits = [N || #{~"kind" := ~"look", ~"data" := #{~"exits" := N}} <- Items],
        %% Those before the first and after the last look are not told.
        ?assert(lists:last(Exits) > True / 2, {Exits, True})
    after
        dyno_peers:stop(Peer)
    end.

%% What they made at their start is garbage.
heaps_of_idle_processes(_Config) ->
    Pids = [
        spawn_link(fun() ->
            _ = [length(lists:seq(1, 9000)) || _ <- lists:seq(1, 9)],
            idles()
        end)
     || _ <- lists:seq(1, 3)
    ],
    Idle = fun Idle() ->
        case [P || P <- Pids, process_info(P, status) =/= {status, waiting}] of
            [] -> dyno_agent_suspect:holders(Pids);
            _ -> Idle()
        end
    end,
    [#{processes := 3, heap_bytes := Bytes, survived_bytes := Survived}] = Idle(),
    ?assert(Bytes > 3 * 100_000),
    ?assert(Survived < Bytes / 2, {Survived, Bytes}),
    _ = [end_of(P) || P <- Pids].

%% Of idle processes nothing is written anew; those that begin and end are counted.
counts_processes(_Config) ->
    Start = fun(N) -> [spawn_link(?MODULE, idles, []) || _ <- lists:seq(1, N)] end,
    Take = fun(Seen) ->
        {#{groups := Groups}, Next} = dyno_agent_census:take([], Seen),
        [Group] = [G || #{group := ~"dyno_doctor_SUITE:idles/0"} = G <- Groups],
        {maps:with([count, started, ended], Group), Next}
    end,
    {Ending, Staying} = lists:split(20, Start(50)),
    {First, One} = Take(dyno_agent_census:new()),
    {Second, Two} = Take(One),
    _ = [end_of(P) || P <- Ending],
    New = Start(30),
    {Third, Three} = Take(Two),
    _ = [end_of(P) || P <- Staying],
    {Fourth, _} = Take(Three),
    ?assertEqual(
        [
            #{count => 50, started => 50, ended => 0},
            #{count => 50, started => 0, ended => 0},
            #{count => 60, started => 30, ended => 20},
            #{count => 30, started => 0, ended => 30}
        ],
        [First, Second, Third, Fourth]
    ),
    _ = [end_of(P) || P <- New].

idles() ->
    receive
        never -> ok
    end.

end_of(Pid) ->
    Ref = monitor(process, Pid),
    unlink(Pid),
    exit(Pid, kill),
    receive
        {'DOWN', Ref, process, Pid, _} -> ok
    end.

%% It does not answer, and is seen from outside.
a_stopped_node(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    Pid = erpc:call(Node, os, getpid, []),
    try
        _ = os:cmd("kill -STOP " ++ Pid),
        {ok, #{~"runs" := [Run]}} = dyno_doctor:run([Node], #{for_ms => 5000}),
        ?assertMatch([{_, #{check := stopped}} | _], dyno_finding:read(Run))
    after
        _ = os:cmd("kill -CONT " ++ Pid),
        dyno_peers:stop(Peer)
    end.

%% For whom a process waits there, has its node in its name.
a_server_of_another_node(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        Self = self(),
        sick = dyno_peers:load(
            Node,
            "-module(sick). -export([start/1]). "
            "start(To) -> register(stock, self()), To ! ready, timer:sleep(infinity). "
        ),
        _ = erpc:call(Node, erlang, spawn, [sick, start, [Self]]),
        receive
            ready -> ok
        end,
        Caller = spawn_link(fun() -> gen:call({stock, Node}, '$gen_call', ask, infinity) end),
        Name = iolist_to_binary(io_lib:format("stock at ~ts", [Node])),
        ?assertMatch([#{to_name := Name}], called(Caller)),
        unlink(Caller),
        exit(Caller, kill)
    after
        dyno_peers:stop(Peer)
    end.

called(Caller) ->
    case dyno_agent_suspect:calls(dyno_agent_suspect:functions([Caller])) of
        [] ->
            receive
            after 10 -> called(Caller)
            end;
        Calls ->
            Calls
    end.

%% More processes compute than there are schedulers: no question may wait for all of them.
a_saturated_node(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        ill(
            Node,
            "start() -> [spawn(sick, work, [0]) || _ <- lists:seq(1, 1000)]. "
            "work(N) -> work(N + 1). "
        ),
        Start = erlang:monotonic_time(millisecond),
        {ok, #{~"runs" := [Run]}} = dyno_doctor:run([Node], #{for_ms => 5000}),
        TookMs = erlang:monotonic_time(millisecond) - Start,
        ct:pal("doctor took ~b ms", [TookMs]),
        ?assert(TookMs < 30_000, TookMs),
        ?assertMatch([_ | _], [F || {_, #{check := schedulers_full} = F} <- dyno_finding:read(Run)])
    after
        dyno_peers:stop(Peer)
    end.

named(Cases) ->
    Peers = [dyno_peers:start() || _ <- Cases],
    try
        Nodes = [Node || {_, Node} <- Peers],
        _ = [ill(Node, Source) || {Node, {Source, _, _}} <- lists:zip(Nodes, Cases)],
        {ok, #{~"runs" := [Run]} = Document} = dyno_doctor:run(Nodes, #{for_ms => 5000}),
        Findings = dyno_finding:read(Run),
        Roles =
            #{
                binary_to_atom(Name) => Role
             || #{~"nodes" := Of} <- [Run], #{~"name" := Name, ~"role" := Role} <- Of
            },
        {ok, Report} = dyno_report:render(console, Document, #{}),
        Lines = iolist_to_binary(Report),
        Text = re:replace(Lines, "\\s+", " ", [global, unicode, {return, binary}]),
        [
            begin
                Of = [F || {Role, F} <- Findings, Role =:= map_get(Node, Roles)],
                found(Check, Part, Of, Text)
            end
         || {Node, {_, Check, Part}} <- lists:zip(Nodes, Cases)
        ],
        %% The same again from what was recorded.
        Decoded = json:decode(iolist_to_binary(json:encode(Document))),
        ?assertEqual(Document, dyno_doctor:again(Document)),
        ?assertEqual(maps:get(~"runs", Document), maps:get(~"runs", dyno_doctor:again(Decoded)))
    after
        lists:foreach(fun dyno_peers:stop/1, Peers)
    end.

%% A busy machine is worth a note.
found(none, _Part, Findings, _Text) ->
    ?assertEqual([], [F || #{severity := Severity} = F <- Findings, Severity =/= note]);
found(Check, Part, Findings, Text) ->
    Two = lists:sublist(Findings, 2),
    First = lists:sublist([F || #{check := Of} = F <- Two, Of =:= Check], 1),
    ?assertMatch([#{severity := Severity}] when Severity =/= note, First, {Check, Findings}),
    [#{text := Sentence}] = First,
    ?assertMatch({_, _}, binary:match(Sentence, Part), Sentence),
    ?assertMatch({_, _}, binary:match(Text, Sentence), Text).

ill(Node, Source) ->
    sick = dyno_peers:load(
        Node, "-module(sick). -compile([export_all, nowarn_export_all]). " ++ Source
    ),
    _ = erpc:call(Node, erlang, spawn, [sick, start, []]),
    ok.

cases() ->
    [
        {
            "start() -> [spawn(sick, idle, []) || _ <- lists:seq(1, 500)], register(web, "
            "self()), web(0). "
            "idle() -> timer:sleep(infinity). "
            "web(N) -> _ = lists:seq(1, 1000), timer:sleep(5), web(N + 1). ",
            none,
            ~""
        },
        {
            "start() -> spawn(sick, server, [a, b]), spawn(sick, server, [b, a]), "
            "timer:sleep(300), "
            "  gen:call(a, '$gen_call', {ask, 1}, infinity). "
            "server(Name, Other) -> register(Name, self()), serve(Other). "
            "serve(Other) -> receive {'$gen_call', _, _} -> gen:call(Other, '$gen_call', "
            "{ask, 2}, infinity) end. ",
            call_cycle,
            ~"waits for"
        },
        {
            "start() -> {ok, L} = gen_tcp:listen(0, [binary, {active, false}, {packet, 4}]), "
            "{ok, P} = inet:port(L), "
            "  spawn(fun() -> {ok, S} = gen_tcp:accept(L), echo(S) end), "
            "  spawn(fun() -> register(client, self()), {ok, S} = "
            "gen_tcp:connect(\"127.0.0.1\", P, [binary, {active, false}, {packet, 4}]), "
            "client(S) end), "
            "  timer:sleep(500), [client ! {set, I} || I <- lists:seq(1, 150000)], feed(). "
            "feed() -> [client ! {set, I} || I <- lists:seq(1, 100)], timer:sleep(10), feed(). "
            "echo(S) -> {ok, _} = gen_tcp:recv(S, 0), ok = gen_tcp:send(S, <<\"OK\">>), echo(S). "
            "client(S) -> receive {set, _} -> ok = gen_tcp:send(S, <<\"SET\">>), {ok, _} = "
            "gen_tcp:recv(S, 0), client(S) end. ",
            queue,
            ~"messages wait for client"
        },
        {
            "start() -> [spawn(sick, request, []) || _ <- lists:seq(1, 20)], "
            "timer:sleep(100), start(). "
            "request() -> receive answer -> ok end. ",
            processes_grow,
            ~"more processes of sick:request/0"
        }
    ].

more_cases() ->
    [
        {
            "start() -> register(pay, spawn(sick, serve, [])), [spawn(sick, ask, []) || _ <- "
            "lists:seq(1, 20)]. "
            "serve() -> receive {Who, Ref} -> timer:sleep(20), Who ! Ref, serve() end. "
            "ask() -> Ref = make_ref(), pay ! {self(), Ref}, receive Ref -> ask() end. ",
            bottleneck,
            ~"pay was busy at each look"
        },
        {
            "start() -> ets:new(online, [named_table, public]), "
            "  [ets:insert(online, {I, I rem 100}) || I <- lists:seq(1, 100000)], scan(). "
            "scan() -> _ = ets:match(online, {'$1', 7}), timer:sleep(20), scan(). ",
            table_scans,
            ~"scans table online (100 k rows)"
        },
        {
            "start() -> _ = erlang:trace_pattern({lists, seq, 2}, true, [call_count]), "
            "timer:sleep(infinity). ",
            tracing,
            ~"1 function has a breakpoint"
        },
        {
            "start() -> _ = list_to_atom(\"x\" ++ integer_to_list(erlang:unique_integer())), "
            "timer:sleep(3), start(). ",
            atoms_grow,
            ~"new atoms a second"
        },
        {
            "start() -> P = open_port({spawn, \"sleep 60\"}, [binary, stream]), "
            "  register(converter, self()), feed(P). "
            "feed(P) -> port_command(P, binary:copy(<<\"i\">>, 20000)), timer:sleep(10), feed(P). ",
            suspended,
            ~"the program \"sleep 60\" does not read"
        },
        {
            "start() -> ets:new(sessions, [named_table, public]), add(1). "
            "add(N) -> [ets:insert(sessions, {N, I, self()}) || I <- [1]], timer:sleep(2), "
            "add(N + 1). ",
            table_grows,
            ~"table sessions grows"
        },
        {
            "start() -> process_flag(trap_exit, true), keep(). "
            "keep() -> P = spawn_link(sick, web, []), receive {'EXIT', P, _} -> "
            "timer:sleep(1), keep() end. "
            "web() -> register(web, self()), timer:sleep(200), exit(econnrefused). ",
            restarts,
            ~"web was another process"
        },
        {
            "start() -> S = self(), spawn(fun() -> late(S) end), register(client, self()), "
            "client(). "
            "client() -> receive {mine, _} -> client() after 50 -> client() end. "
            "late(P) -> [P ! {reply, I} || I <- lists:seq(1, 10)], timer:sleep(10), late(P). ",
            queue,
            ~"messages wait for client"
        },
        {
            "start() -> [ets:new(x, [public]) || _ <- lists:seq(1, 5)], timer:sleep(20), start(). ",
            counts_grow,
            ~"more ETS tables"
        },
        {
            "start() -> spawn(fun() -> global:trans({job, self()}, fun() -> "
            "timer:sleep(infinity) end) end), "
            "  timer:sleep(200), "
            "  [spawn(fun() -> global:trans({job, self()}, fun() -> ok end) end) || _ <- "
            "lists:seq(1, 9)], "
            "  timer:sleep(infinity). ",
            global_lock,
            ~"global's lock job is held"
        }
    ].

further_cases() ->
    [
        {
            "start() -> register(session_store, self()), "
            "  [put({session, I}, I) || I <- lists:seq(1, 300000)], keep(0). "
            "keep(N) -> put(last, N), timer:sleep(5), keep(N + 1). ",
            dictionary,
            ~"session_store has a process dictionary"
        },
        {
            "start() -> {ok, M, B} = compile:forms([{attribute, 1, module, rules}]), load(M, B). "
            "load(M, B) -> code:purge(M), {module, M} = code:load_binary(M, \"rules\", B), "
            "  timer:sleep(20), load(M, B). ",
            reloads,
            ~"module rules is loaded again and again"
        },
        %% Small parts of large messages, kept.
        {
            "start() -> Rs = [spawn(sick, router, [[]]) || _ <- lists:seq(1, 100)], feed(Rs, 1). "
            "feed(Rs, N) when N =< 20 -> "
            "  [R ! {frame, binary:copy(<<N>>, 100000)} || R <- Rs], timer:sleep(20), feed(Rs, N + 1); "
            "feed(_, _) -> timer:sleep(infinity). "
            "router(Heads) -> receive {frame, <<H:100/binary, _/binary>>} -> router([H | Heads]) end. ",
            binaries,
            ~"sick:router/1"
        },
        %% Each request sets a timer of an hour, and cancels none.
        {
            "start() -> P = spawn(fun() -> timer:sleep(infinity) end), set(P). "
            "set(P) -> [erlang:start_timer(3600000, P, expired) || _ <- lists:seq(1, 50)], "
            "  timer:sleep(10), set(P). ",
            many_timers,
            ~"more each second"
        },
        %% Connections that nobody closes.
        {
            "start() -> {ok, L} = gen_tcp:listen(0, [{active, false}]), {ok, P} = inet:port(L), "
            "  spawn(fun() -> accept(L, []) end), connect(P, []). "
            "accept(L, Ss) -> {ok, S} = gen_tcp:accept(L), accept(L, [S | Ss]). "
            "connect(P, Ss) -> {ok, S} = gen_tcp:connect(\"127.0.0.1\", P, []), "
            "  timer:sleep(25), connect(P, [S | Ss]). ",
            counts_grow,
            %% Ports or descriptors, whose limit is nearer.
            ~"each second: more are opened than closed"
        },
        %% A supervisor's own parent is none of its children.
        {
            "start() -> {ok, _} = supervisor:start_link({local, shop_sup}, sick, []), "
            "  timer:sleep(infinity). "
            "init([]) -> {ok, {#{intensity => 100, period => 1}, "
            "  [#{id => web, start => {sick, web, []}}]}}. "
            "web() -> {ok, spawn_link(fun() -> timer:sleep(200), exit(econnrefused) end)}. ",
            restarts,
            ~"up to 1 of 1 children"
        },
        {
            "start() -> Self = self(), spawn(fun() -> Self ! sessions(self()), drain() end), "
            "  receive S -> keep(S) end. "
            "sessions(Self) -> S = trace:session_create(left, Self, []), "
            "  _ = trace:function(S, {lists, seq, 2}, true, [local]), S. "
            "drain() -> receive _ -> drain() end. "
            "keep(S) -> timer:sleep(100), keep(S). ",
            tracing,
            ~"this node is traced, or was left so"
        },
        %% Calls that are counted, and then traced for a moment.
        {
            "start() -> [spawn(sick, charge, []) || _ <- lists:seq(1, 20)]. "
            "charge() -> try gen_server:call(billing, charge) catch exit:_ -> ok end, "
            "  timer:sleep(20), charge(). ",
            failures,
            ~"calls to billing fail: it is not there"
        },
        {
            "start() -> register(price, self()), price(lists:seq(1, 1000000)). "
            "price(All) -> garbage_collect(), timer:sleep(5), price(All). ",
            collecting,
            ~"price collects its heap"
        },
        {
            "start() -> register(db, spawn(fun() -> timer:sleep(infinity) end)), "
            "  register(gateway, self()), "
            "  [monitor(process, db) || _ <- lists:seq(1, 5000)], ask(0). "
            "ask(N) -> [monitor(process, db) || _ <- lists:seq(1, 20)], timer:sleep(10), "
            "  ask(N + 1). ",
            monitors,
            ~"monitors of one process, more at each look"
        },
        %% A worker that takes a batch each second.
        {
            "start() -> W = spawn(fun batch/0), register(batcher, W), feed(W). "
            "batch() -> timer:sleep(1000), take(), batch(). "
            "take() -> receive {job, _} -> take() after 0 -> ok end. "
            "feed(W) -> [W ! {job, I} || I <- lists:seq(1, 30)], timer:sleep(10), feed(W). ",
            none,
            ~""
        },
        %% Its child does not end.
        {
            "start() -> {ok, S} = supervisor:start_link({local, shop_sup}, sick, []), unlink(S), "
            "  exit(S, shutdown), timer:sleep(infinity). "
            "init([]) -> {ok, {#{}, [#{id => drain, shutdown => infinity, "
            "  start => {sick, drain, []}}]}}. "
            "drain() -> {ok, spawn_link(fun() -> register(drain, self()), "
            "  process_flag(trap_exit, true), wait() end)}. "
            "wait() -> receive never -> ok end. ",
            ends,
            ~"shop_sup waits for the end of its child drain"
        },
        %% A socket that is no port, and whose other side does not read.
        {
            "start() -> O = [{inet_backend, socket}, binary, {active, false}], "
            "  {ok, L} = gen_tcp:listen(0, O), {ok, {_, P}} = inet:sockname(L), Self = self(), "
            "  spawn(fun() -> {ok, S} = gen_tcp:connect(\"127.0.0.1\", P, O), hold(S) end), "
            "  {ok, S} = gen_tcp:accept(L), register(broadcaster, Self), "
            "  spawn(fun() -> feed(Self) end), send(S). "
            "hold(S) -> receive never -> S end. "
            "feed(To) -> To ! binary:copy(<<\"x\">>, 20000), timer:sleep(5), feed(To). "
            "send(S) -> receive News -> ok = gen_tcp:send(S, News), send(S) end. ",
            full_socket,
            ~"broadcaster waits in a send to 127.0.0.1:"
        },
        {
            "start() -> G = spawn(fun() -> register(shell, self()), receive never -> ok end end), "
            "  [spawn(fun() -> group_leader(G, self()), io:format(\"~p~n\", [I]) end) "
            "   || I <- lists:seq(1, 30)]. ",
            waited_for,
            ~"30 processes wait in a call to shell"
        }
    ].

last_cases() ->
    [
        {
            "start() -> [spawn(sick, name, [I]) || I <- lists:seq(1, 60)]. "
            "name(I) -> global:register_name({session, I}, self()), timer:sleep(5), "
            "  global:unregister_name({session, I}), name(I). ",
            global_lock,
            ~"global"
        },
        {
            "start() -> {ok, L} = gen_tcp:listen(0, [{active, false}, {backlog, 50}]), "
            "  {ok, P} = inet:port(L), "
            "  [{ok, _} = gen_tcp:connect(\"127.0.0.1\", P, []) || _ <- lists:seq(1, 20)], "
            "  timer:sleep(infinity). ",
            accept_queue,
            ~"20 connections or more wait at port"
        },
        {
            "start() -> {ok, S} = supervisor:start_link({local, shop_sup}, sick, []), unlink(S), "
            "  [{ok, _} = supervisor:start_child(S, []) || _ <- lists:seq(1, 20)], "
            "  exit(S, shutdown), timer:sleep(infinity). "
            "init([]) -> {ok, {#{strategy => simple_one_for_one}, "
            "  [#{id => cart, shutdown => infinity, start => {sick, cart, []}}]}}. "
            "cart() -> {ok, spawn_link(fun() -> process_flag(trap_exit, true), "
            "  receive never -> ok end end)}. ",
            ends,
            ~"shop_sup waits for the end of its children"
        },
        {
            "start() -> persistent_term:put(limit, 0), [spawn(sick, idle, []) || _ <- "
            "lists:seq(1, 5000)], limit(1). "
            "idle() -> receive never -> ok end. "
            "limit(N) -> persistent_term:put(limit, {N}), timer:sleep(20), limit(N + 1). ",
            persistent_terms,
            ~"persistent terms change"
        }
    ].

full_cases() ->
    [
        {
            "start() -> ets:new(orders, [named_table, public]), "
            "  [ets:insert(orders, {I, open}) || I <- lists:seq(1, 100000)], "
            "  [spawn(sick, open, []) || _ <- lists:seq(1, 8)], timer:sleep(infinity). "
            "open() -> ets:foldl(fun(_, N) -> N + 1 end, 0, orders), open(). ",
            table_scans,
            %% Or, if the machine is too busy to count calls, "read whole tables".
            ~" table"
        },
        {
            "start() -> register(quota, spawn(sick, quota, [])), "
            "  [spawn(sick, work, [0]) || _ <- lists:seq(1, 6)], "
            "  [spawn(sick, ask, []) || _ <- lists:seq(1, 20)]. "
            "work(N) -> work(N + 1). "
            "quota() -> process_flag(priority, low), take(). "
            "take() -> receive {P, R} -> _ = lists:sum(lists:seq(1, 20000)), P ! R, take() end. "
            "ask() -> R = make_ref(), quota ! {self(), R}, receive R -> ask() end. ",
            priority,
            ~"quota has priority low, and messages wait"
        }
    ].
