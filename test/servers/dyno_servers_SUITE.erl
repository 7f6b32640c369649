%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_SUITE).
-moduledoc "Monitors of servers in real nodes: what is known of them is what they report.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

each_release() -> [windows_keep_to_the_clock].

all() ->
    [{group, all}].

groups() ->
    [
        {all, [], [
            windows_keep_to_the_clock,
            nodes_are_put_together,
            a_lost_node_comes_back,
            monitors_share_an_agent,
            servers_are_added_and_removed,
            a_subscriber_that_is_slow,
            bad_input_is_a_sentence,
            a_recording_keeps_what_was_measured,
            an_interrupt_keeps_what_was_measured,
            a_node_silent_at_the_end_is_lost,
            an_alarm_is_set_and_cleared,
            single_messages_at_the_command_line,
            the_example_at_the_command_line,
            a_pipeline_is_drawn
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

-define(SERVER,
    "\n"
    "-module(dyno_shop).\n"
    "-behaviour(gen_server).\n"
    "-export([start/1, init/1, handle_call/3, handle_cast/2, handle_info/2]).\n"
    "\n"
    "start(Name) -> {ok, Pid} = gen_server:start({local, Name}, dyno_shop, [], []), Pid.\n"
    "\n"
    "init([]) -> {ok, 0}.\n"
    "\n"
    "handle_call(spin, _, S) -> spin(erlang:monotonic_time(microsecond) + 5000), {reply, ok, S};\n"
    "handle_call(sleep, _, S) -> timer:sleep(50), {reply, ok, S};\n"
    "handle_call(quick, _, S) -> {reply, ok, S}.\n"
    "\n"
    "handle_cast({sleep, Ms}, S) -> timer:sleep(Ms), {noreply, S};\n"
    "handle_cast(crash, _) -> exit(oops).\n"
    "\n"
    "handle_info(_, S) -> {noreply, S}.\n"
    "\n"
    "spin(Until) ->\n"
    "    case erlang:monotonic_time(microsecond) < Until of\n"
    "        true -> spin(Until);\n"
    "        false -> ok\n"
    "    end.\n"
).

with_node(Work) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        _ = dyno_peers:load(Node, ?SERVER),
        _ = start(Node, orders),
        Work(Node)
    after
        dyno_peers:stop(Peer)
    end.

start(Node, Name) ->
    erpc:call(Node, dyno_shop, start, [Name]).

call(Node, Name, Requests) ->
    lists:foreach(fun(Request) -> ok = gen_server:call({Name, Node}, Request) end, Requests).

selector(Module) -> [{module, Module}].

%% With a window of this time, and until the instrument has come into the processes.
monitor_of(Nodes, Options) ->
    {ok, Monitor} = dyno_servers:start(Nodes, maps:merge(#{interval_ms => 500}, Options)),
    ok = dyno_servers:subscribe(Monitor),
    Monitor.

%% Windows until one of them, the sums of all.
until(Monitor, Is) ->
    until(Monitor, Is, dyno_servers_total:new(), erlang:monotonic_time(millisecond) + 30_000).

until(Monitor, Is, Total, EndsMs) ->
    receive
        {dyno_servers, Monitor, #{servers := _} = Window, _} ->
            ok = dyno_servers:ready(Monitor),
            New = dyno_servers_total:add(Window, Total),
            case Is(New, Window) of
                true -> New;
                false -> until(Monitor, Is, New, EndsMs)
            end
    after max(0, EndsMs - erlang:monotonic_time(millisecond)) ->
        ct:fail({not_seen, rows(Total)})
    end.

rows(Total) ->
    Ns = dyno_servers_total:duration_ns(Total),
    #{
        map_get(name, Row) => Row
     || Sum <- dyno_servers_total:servers(Total), Row <- [dyno_servers_row:row(Sum, Ns)]
    }.

handled(Name, N) ->
    fun(Total, _) ->
        case rows(Total) of
            #{Name := #{count := Count}} -> Count >= N;
            #{} -> false
        end
    end.

is_hooked(Name) ->
    fun(Total, _) ->
        case rows(Total) of
            #{Name := #{measured := Measured}} -> string:find(Measured, "hook") =/= nomatch;
            #{} -> false
        end
    end.

%% Cases

windows_keep_to_the_clock(_Config) ->
    dyno_tries:hold(3, fun windows_by_the_clock/0).

windows_by_the_clock() ->
    with_node(fun(Node) ->
        Monitor = monitor_of([Node], #{servers => selector(dyno_shop), interval_ms => 300}),
        Windows = [
            receive
                {dyno_servers, Monitor, #{} = Window, 0} ->
                    ok = dyno_servers:ready(Monitor),
                    Window
            after 20_000 -> error(no_window)
            end
         || _ <- lists:seq(1, 5)
        ],
        %% The first one begins in the middle of one; the next where it ends.
        Ends = [Start + Duration || #{start_ns := Start, duration_ns := Duration} <- Windows],
        Starts = [Start || #{start_ns := Start} <- Windows],
        [
            ?assert(abs(Start - End) < 50_000_000, {Start, End})
         || {End, Start} <- lists:zip(lists:droplast(Ends), tl(Starts))
        ],
        %% A window may be late, but begins no other grid.
        Late = [End rem 300_000_000 || End <- Ends],
        ?assert(lists:min(Late) < 100_000_000, Late),
        ok = dyno_servers:stop(Monitor)
    end).

nodes_are_put_together(_Config) ->
    with_node(fun(A) ->
        with_node(fun(B) ->
            Monitor = monitor_of([A, B], #{servers => selector(dyno_shop)}),
            #{nodes := Nodes} = dyno_servers:about(Monitor),
            ?assertEqual(lists:sort([A, B]), lists:sort(Nodes)),
            Both = fun(Total, #{nodes := Of}) ->
                length(Of) =:= 2 andalso length(dyno_servers_total:servers(Total)) =:= 2
            end,
            Total = until(Monitor, Both),
            [Sum] = dyno_servers_window:group(module, dyno_servers_total:servers(Total)),
            ?assertMatch(#{processes := 2, labels := #{module := ~"dyno_shop"}}, Sum),
            ok = dyno_servers:stop(Monitor)
        end)
    end).

a_lost_node_comes_back(_Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Name = peer:random_name(),
    Start = fun() ->
        {ok, Peer, Node} = peer:start(#{
            name => Name,
            connection => standard_io,
            args => ["-setcookie", atom_to_list(erlang:get_cookie())]
        }),
        _ = dyno_peers:load(Node, ?SERVER),
        _ = start(Node, orders),
        {Peer, Node}
    end,
    {First, Node} = Start(),
    Monitor = monitor_of([Node], #{servers => selector(dyno_shop)}),
    _ = until(Monitor, fun(_, #{servers := Servers}) -> Servers =/= [] end),
    peer:stop(First),
    receive
        {dyno_servers, Monitor, {lost, Node, Error}} ->
            Sentence = unicode:characters_to_binary(dyno_error:format(Error)),
            ?assertNotEqual(nomatch, string:find(Sentence, atom_to_list(Node)))
    after 20_000 -> ct:fail(not_lost)
    end,
    {Second, Node} = Start(),
    receive
        {dyno_servers, Monitor, {back, Node}} -> ok
    after 30_000 -> ct:fail(not_back)
    end,
    _ = until(Monitor, fun(_, #{servers := Servers}) -> Servers =/= [] end),
    ok = dyno_servers:stop(Monitor),
    peer:stop(Second).

monitors_share_an_agent(_Config) ->
    with_node(fun(Node) ->
        _ = start(Node, cache),
        Orders = monitor_of([Node], #{servers => [{registered, orders}]}),
        Cache = monitor_of([Node], #{servers => [{registered, cache}]}),
        Names = fun(#{servers := Servers}) ->
            lists:sort([Name || #{labels := #{name := Name}} <- Servers])
        end,
        _ = until(Cache, fun(_, Window) -> Names(Window) =:= [~"cache"] end),
        _ = until(Orders, fun(_, Window) -> Names(Window) =:= [~"orders"] end),
        Known = [Monitor || {Monitor, [Of], _} <- dyno_servers:list(), Of =:= Node],
        ?assertEqual(lists:sort([Orders, Cache]), lists:sort(Known)),
        {error, Error} = dyno_servers:start([Node], #{interval_ms => 700}),
        ?assertMatch(
            {_, _}, binary:match(iolist_to_binary(dyno_error:format(Error)), ~"every 500 ms")
        ),
        %% The other one goes on.
        ok = dyno_servers:stop(Orders),
        _ = until(Cache, fun(_, Window) -> Names(Window) =:= [~"cache"] end),
        ok = dyno_servers:stop(Cache)
    end).

servers_are_added_and_removed(_Config) ->
    with_node(fun(Node) ->
        _ = start(Node, cache),
        Monitor = monitor_of([Node], #{servers => [{registered, orders}]}),
        Names = fun(#{servers := Servers}) ->
            lists:sort([Name || #{labels := #{name := Name}} <- Servers])
        end,
        ok = dyno_servers:add(Monitor, [{registered, cache}]),
        _ = until(Monitor, fun(_, Window) -> Names(Window) =:= [~"cache", ~"orders"] end),
        #{servers := [~"name:orders", ~"name:cache"]} = dyno_servers:about(Monitor),
        ok = dyno_servers:remove(Monitor, [{registered, orders}]),
        _ = until(Monitor, fun(_, Window) -> Names(Window) =:= [~"cache"] end),
        %% In Elixir such a name need not be that of a module.
        _ = start(Node, 'Elixir.Shop.Imports'),
        ok = dyno_servers:add(Monitor, [~"Shop.Imports"]),
        _ = until(Monitor, fun(_, Window) -> lists:member(~"Shop.Imports", Names(Window)) end),
        ok = dyno_servers:remove(Monitor, [{registered, 'Elixir.Shop.Imports'}]),
        %% One that is started later is taken in.
        ok = dyno_servers:add(Monitor, [{module, dyno_shop}]),
        _ = start(Node, mail),
        _ = until(Monitor, fun(_, Window) -> lists:member(~"mail", Names(Window)) end),
        {error, _} = dyno_servers:add(Monitor, [{registered, nobody}]),
        ok = dyno_servers:stop(Monitor)
    end).

a_subscriber_that_is_slow(_Config) ->
    with_node(fun(Node) ->
        {ok, Monitor} = dyno_servers:start(Node, #{
            servers => selector(dyno_shop), interval_ms => 100
        }),
        ok = dyno_servers:subscribe(Monitor, 2),
        receive
            {dyno_servers, Monitor, _, 0} -> ok
        end,
        %% Two wait, the others are dropped.
        timer:sleep(1500),
        {messages, []} = process_info(self(), messages),
        ok = dyno_servers:ready(Monitor),
        receive
            {dyno_servers, Monitor, _, Dropped} -> ?assert(Dropped > 2, Dropped)
        end,
        ok = dyno_servers:stop(Monitor)
    end).

wait_for(Is, LeftMs) ->
    case Is() of
        true ->
            ok;
        false when LeftMs > 0 ->
            timer:sleep(100),
            wait_for(Is, LeftMs - 100)
    end.

bad_input_is_a_sentence(_Config) ->
    with_node(fun(Node) ->
        lists:foreach(
            fun({Options, Part}) ->
                {error, Error} = dyno_servers:start([Node], Options),
                Sentence = unicode:characters_to_binary(dyno_error:format(Error)),
                ?assertMatch({_, {_, _}}, {Sentence, binary:match(Sentence, Part)}),
                ?assertEqual(2, dyno_error:exit_status(Error))
            end,
            [
                {#{servers => [{name, ~"ordrs"}]}, ~"did you mean orders?"},
                {#{servers => [{name, ~"lists"}]}, ~"no callbacks"},
                {#{servers => [~"busiest:x"]}, ~"busiest:20"},
                {#{servers => [{module, dyno_shopp}]}, ~"did you mean dyno_shop?"},
                {#{servers => [{application, nope}]}, ~"not started"},
                {#{servers => [{supervisor, kernel_sub}]}, ~"did you mean kernel_sup?"},
                {#{servers => [{process, "<0.99999.0>"}]}, ~"<0.99999.0>"},
                {#{interval_ms => -5}, ~"from 100 up"},
                {#{level => deep}, ~"distribution"},
                {#{watches => [#{'of' => queu, above => 9}]}, ~"queue, busy, p99 or delay"},
                {#{intervall => 5}, ~"did you mean interval_ms?"}
            ]
        ),
        {error, Down} = dyno_servers:start('nobody@nowhere', #{}),
        ?assertEqual(3, dyno_error:exit_status(Down)),
        %% Nothing stays after an error.
        ?assertEqual([], [M || {M, Of, _} <- dyno_servers:list(), lists:member(Node, Of)])
    end).

a_recording_keeps_what_was_measured(_Config) ->
    with_node(fun(Node) ->
        Caller = spawn_link(fun() -> busy(Node) end),
        {ok, Threshold} = dyno_threshold:parse("servers orders count > 5"),
        {ok, Document} = dyno_servers_run:run([Node], #{
            servers => [~"module:dyno_shop"],
            for_ms => 2500,
            interval_ms => 500,
            level => distribution,
            thresholds => [Threshold]
        }),
        unlink(Caller),
        exit(Caller, kill),
        #{~"status" := ~"complete", ~"verdicts" := [#{~"result" := ~"pass"}]} = Document,
        #{~"duration_ns" := Ns} = Document,
        ?assert(Ns > 1_500_000_000 andalso Ns < 25_000_000_000, Ns),
        [Run] = dyno_recording:runs(Document),
        [#{~"server" := ~"orders", ~"exceptions" := 0}] = dyno_recording:rows(Run, ~"servers"),
        [#{~"values" := [_, _ | _]}] = dyno_recording:series(Run, ~"servers.rate"),
        {ok, #{~"count" := N}} = dyno_recording:histogram(Run, ~"servers.callback"),
        ?assert(N > 5, N)
    end).

busy(Node) ->
    ok = gen_server:call({orders, Node}, quick),
    timer:sleep(10),
    busy(Node).

an_interrupt_keeps_what_was_measured(_Config) ->
    with_node(fun(Node) ->
        {Pid, Ref} = with_a_window(Node),
        Pid ! dyno_interrupt,
        receive
            {'DOWN', Ref, process, Pid, {ok, #{~"status" := Status} = Document}} ->
                ?assertEqual(~"interrupted", Status),
                [Run] = dyno_recording:runs(Document),
                [#{~"server" := ~"orders"}] = dyno_recording:rows(Run, ~"servers")
        end
    end).

%% A run until interrupted, after its first window.
with_a_window(Node) ->
    Self = self(),
    Run = spawn_monitor(fun() ->
        exit(
            dyno_servers_run:run([Node], #{
                servers => selector(dyno_shop),
                show => fun(Event) ->
                    Self ! {shown, Event},
                    ok
                end
            })
        )
    end),
    receive
        {shown, {window, _}} -> Run
    end.

%% Its connection stays, and on a busy machine no watch has the time to find the silence.
a_node_silent_at_the_end_is_lost(_Config) ->
    with_node(fun(Node) ->
        OsPid = list_to_integer(erpc:call(Node, os, getpid, [])),
        {Pid, Ref} = with_a_window(Node),
        Watches = [P || P <- processes(), proc_lib:get_label(P) =:= dyno_target_silence],
        ?assertNotEqual([], Watches),
        lists:foreach(fun erlang:suspend_process/1, Watches),
        dyno_escript:kill("STOP", OsPid),
        Pid ! stop,
        %% Leaving a node that says nothing has its own time.
        timer:sleep(6000),
        dyno_escript:kill("CONT", OsPid),
        receive
            {'DOWN', Ref, process, Pid, {ok, #{~"status" := Status, ~"error" := Error}}} ->
                #{~"text" := Text} = Error,
                ?assertEqual(~"failed", Status),
                ?assertMatch({_, _}, binary:match(Text, ~" was lost"))
        end
    end).

%% In a node with sasl that watches itself: set above the limit, kept between the limit and four
%% fifths of it, cleared below them.
an_alarm_is_set_and_cleared(_Config) ->
    with_node(fun(Node) ->
        ok = erpc:call(Node, code, add_pathsz, [code:get_path()]),
        {ok, _} = erpc:call(Node, application, ensure_all_started, [sasl]),
        Self = self(),
        _ = spawn(Node, fun() ->
            {ok, Monitor} = dyno_servers:start(node(), #{
                servers => selector(dyno_shop),
                interval_ms => 100,
                watches => [#{'of' => queue, above => 100}]
            }),
            Self ! {watches, self()},
            receive
                stop -> dyno_servers:stop(Monitor)
            end
        end),
        Watcher =
            receive
                {watches, Pid} -> Pid
            end,
        Alarms = fun() ->
            [
                {Of, Text}
             || {{dyno_servers, Of, _, _}, Text} <- erpc:call(Node, alarm_handler, get_alarms, [])
            ]
        end,
        Server = {orders, Node},
        ?assertEqual([], Alarms()),
        %% While it sleeps 90 wait: below the limit, so nothing rings.
        Wait = fun(Count) ->
            [ok = gen_server:cast(Server, {sleep, 0}) || _ <- lists:seq(1, Count)]
        end,
        ok = gen_server:cast(Server, {sleep, 1500}),
        _ = Wait(90),
        ok = gen_server:call(Server, quick),
        ?assertEqual([], Alarms()),
        %% 130, of which 41 are taken before it sleeps again: 89 wait, which keeps the alarm.
        ok = gen_server:cast(Server, {sleep, 1500}),
        _ = Wait(40),
        ok = gen_server:cast(Server, {sleep, 1500}),
        _ = Wait(89),
        wait_for(fun() -> [] =/= Alarms() end, 20_000),
        [{queue, Text}] = Alarms(),
        ?assertMatch({_, _}, binary:match(Text, ~"the message queue of orders")),
        Length = fun() ->
            {message_queue_len, N} = erpc:call(Node, fun() ->
                process_info(whereis(orders), message_queue_len)
            end),
            N
        end,
        wait_for(fun() -> Length() =< 90 end, 20_000),
        timer:sleep(300),
        Kept = Alarms(),
        _ = [?assertMatch([_], Kept) || Length() > 80],
        wait_for(fun() -> [] =:= Alarms() end, 20_000),
        Watcher ! stop
    end).

%% Of those asked for, with their messages, and the reason for the end.
single_messages_at_the_command_line(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "each.json"),
    with_node(fun(Node) ->
        Caller = spawn_link(fun() -> busy(Node) end),
        {0, Output} = dyno_command:run([
            "servers",
            atom_to_list(Node),
            "orders",
            "--each",
            "5",
            "--for",
            "20s",
            "--cookie",
            atom_to_list(erlang:get_cookie()),
            "-o",
            File
        ]),
        unlink(Caller),
        exit(Caller, kill),
        ct:log("~ts", [Output]),
        Lines = [
            Line
         || Line <- binary:split(Output, ~"\n", [global]),
            binary:match(Line, ~"Z orders handle_call quick ") =/= nomatch
        ],
        ?assertEqual(5, length(Lines)),
        [?assertMatch({_, _}, binary:match(Line, ~"s quick")) || Line <- Lines],
        ?assertMatch({_, _}, binary:match(Output, ~"callbacks were shown; that is all"))
    end).

%% As doc/servers.md shows it.
the_example_at_the_command_line(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        Source = filename:join([dyno_project:root(), "examples", "shop_servers.erl"]),
        {ok, Module, Binary} = compile:file(Source, [binary]),
        {module, Module} = erpc:call(Node, code, load_binary, [Module, Source, Binary]),
        ok = erpc:call(Node, Module, start, []),
        Folder = filename:join(proplists:get_value(priv_dir, Config), "example"),
        ok = filelib:ensure_path(Folder),
        Json = filename:join(Folder, "shop.json"),
        Page = filename:join(Folder, "shop.html"),
        Csv = filename:join(Folder, "shop.csv"),
        Arguments = [
            "servers",
            atom_to_list(Node),
            "shop_servers",
            "--for",
            "4s",
            "--detail",
            "distribution",
            "--cookie",
            atom_to_list(erlang:get_cookie()),
            "-o",
            Json,
            "-o",
            Page,
            "-o",
            Csv
        ],
        {0, Output} = dyno_command:run(
            Arguments ++ ["--threshold", "servers orders busy <= 100 %"]
        ),
        [
            ?assertMatch({Part, {_, _}}, {Part, binary:match(Output, Part)})
         || Part <- [
                ~" orders rate=",
                ~"Servers by load",
                ~"detail distribution",
                ~"by_card",
                ~"saturates at",
                ~"PASSED"
            ]
        ],
        {ok, Document} = dyno_recording_file:read(Json),
        [Run] = dyno_recording:runs(Document),
        #{
            ~"orders" := #{~"busy" := Busy, ~"count" := Orders, ~"max" := Max},
            ~"mail" := #{~"count" := Mails, ~"queue_max" := Queue},
            ~"stock" := #{~"count" := Stock}
        } = #{Name => Row || #{~"server" := Name} = Row <- dyno_recording:rows(Run, ~"servers")},
        ?assert(Busy > 0.1 andalso Busy =< 1, Busy),
        ?assert(Max >= 50_000_000, Max),
        %% Each customer's visit, but those at the ends.
        ?assert(abs(Orders - Stock) =< 10, {Orders, Stock}),
        ?assert(abs(Mails - 20 * Orders) =< 220, {Mails, Orders}),
        ?assert(Queue =< 200, Queue),
        [?assert(filelib:file_size(File) > 1000, File) || File <- [Page, Csv]],
        {1, Failed} = dyno_command:run(
            Arguments ++ ["--threshold", "servers orders max < 10 ms", "-q"]
        ),
        ?assertMatch({_, _}, binary:match(Failed, ~"servers orders max < 10 ms")),
        ok = by_other_commands(atom_to_list(Node), filename:join(Folder, "profile.html"))
    after
        dyno_peers:stop(Peer)
    end.

%% As doc/examples.md says.
by_other_commands(Node, Page) ->
    Cookie = ["--cookie", atom_to_list(erlang:get_cookie())],
    {0, Calls} = dyno_command:run(
        ["trace", Node, "shop_servers:handle_call/3 -> return", "--count", "3" | Cookie]
    ),
    ?assertMatch(
        {match, [_, _, _]},
        re:run(Calls, ~"shop_servers:handle_call\\(.*\\) -> \\{reply,", [global])
    ),
    {0, Profile} = dyno_command:run(["profile", Node, "orders", "--for", "2s", "-o", Page | Cookie]),
    ?assertMatch({_, _}, binary:match(Profile, ~"shop_servers:")),
    ?assert(filelib:file_size(Page) > 1000),
    ok.

%% A stand-in for GenStage's messages and state, in a module of its name: a consumer that takes 8 ms
%% for each batch of 10, and a producer that has always more.
a_pipeline_is_drawn(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        _ = dyno_peers:load(
            Node,
            "\n"
            "-module('Elixir.GenStage').\n"
            "-behaviour(gen_server).\n"
            "-export([start/3, init/1, handle_call/3, handle_cast/2, handle_info/2]).\n"
            "\n"
            "start(Name, Type, Other) ->\n"
            "    gen_server:start({local, Name}, 'Elixir.GenStage', {Type, Other}, []).\n"
            "\n"
            "init({Type, Other}) ->\n"
            "    self() ! ask,\n"
            "    {ok, #{\n"
            "        '__struct__' => 'Elixir.GenStage', mod => list_to_atom(\"Elixir.My.\" ++ atom_to_list(Type)),\n"
            "        type => Type, buffer => {queue, 0, wheel}, other => Other\n"
            "    }}.\n"
            "\n"
            "handle_call(_, _From, State) -> {reply, ok, State}.\n"
            "\n"
            "handle_cast(_, State) -> {noreply, State}.\n"
            "\n"
            "handle_info(ask, #{type := consumer, other := Producer} = State) ->\n"
            "    Producer ! {'$gen_producer', {self(), make_ref()}, {ask, 10}},\n"
            "    {noreply, State};\n"
            "handle_info(ask, State) ->\n"
            "    {noreply, State};\n"
            "handle_info({'$gen_producer', {To, Ref}, {ask, Demand}}, State) ->\n"
            "    To ! {'$gen_consumer', {self(), Ref}, lists:seq(1, Demand)},\n"
            "    {noreply, State};\n"
            "handle_info({'$gen_consumer', {From, Ref}, Events}, State) when is_list(Events) ->\n"
            "    timer:sleep(8),\n"
            "    From ! {'$gen_producer', {self(), Ref}, {ask, length(Events)}},\n"
            "    {noreply, State}.\n"
        ),
        Start = fun(Name, Type, Other) ->
            {ok, Pid} = erpc:call(Node, 'Elixir.GenStage', start, [Name, Type, Other]),
            Pid
        end,
        Producer = Start(numbers, producer, none),
        _ = Start(printer, consumer, Producer),
        Monitor = monitor_of([Node], #{
            servers => [{behaviour, gen_stage}], level => distribution
        }),
        _ = until(Monitor, is_hooked(~"printer")),
        Drawn = fun(_Total, #{servers := Servers, duration_ns := Ns}) ->
            case dyno_servers_pipeline:draw(dyno_servers_pipeline:stages(Servers, Ns)) of
                [<<"numbers ", _/binary>>, <<"-> printer ", Printer/binary>>, Said] ->
                    binary:match(Printer, ~"the bottleneck") =/= nomatch andalso
                        string:prefix(Said, "printer holds the pipeline up") =/= nomatch;
                _ ->
                    false
            end
        end,
        _ = until(Monitor, Drawn),
        ok = dyno_servers:stop(Monitor)
    after
        dyno_peers:stop(Peer)
    end.
