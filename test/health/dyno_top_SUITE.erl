%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_top_SUITE).
-moduledoc "`dyno top` on real nodes: who stands out is seen; it may look while another measures.".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_peers, [with_node/1]).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

slow() -> [many_processes, many_tables].

all() -> [{group, nodes}].

groups() ->
    [
        {nodes, [parallel], [
            sees_who_stands_out,
            an_idle_node,
            sees_other_views,
            memory_is_known,
            many_processes,
            many_tables,
            beside_another,
            lines_and_data,
            keys_of_a_terminal
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) -> ok.

%% Works, is full, waits for another.
-define(SYSTEM,
    "Start = fun(Name, Fun) -> register(Name, spawn(Fun)) end,"
    "Start(hog, fun() -> (fun Busy(N) -> Busy(N + 1) end)(0) end),"
    "Start(full, fun() -> receive never -> ok end end),"
    "[full ! N || N <- lists:seq(1, 1500)],"
    "Start(asker, fun() -> gen_server:call(full, question, infinity) end),"
    "[spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, 300)], ok."
).

looked(Nodes, Asks) ->
    {ok, Looking} = dyno_top:open(Nodes, #{}),
    {Readings, Last} = lists:mapfoldl(
        fun(Ask, L) ->
            timer:sleep(200),
            dyno_top:reading(
                hd(Nodes),
                maps:merge(
                    #{view => processes, most => 60, filter => ~"", sort => reductions}, Ask
                ),
                L
            )
        end,
        Looking,
        Asks
    ),
    {Readings, Last}.

sees_who_stands_out(_Config) ->
    with_node(fun(Node) ->
        ok = dyno_peers:eval(Node, ?SYSTEM),
        Asks = [
            #{}, #{}, #{sort => queue}, #{filter => ~"full"}, #{filter => ~"ask", sort => memory}
        ],
        {[_First, Busy, Queues, Full, Asker], Looking} = looked([Node], Asks),
        ?assertMatch(#{rows := [#{name := ~"hog", reductions := R} | _]} when R > 100_000, Busy),
        ?assertMatch(
            #{rows := [#{name := ~"full", queue := 1501, memory := unknown, growth := 0} | _]},
            Queues
        ),
        ?assertMatch(#{rows := [#{name := ~"full"}]}, Full),
        ?assertMatch(
            #{rows := [#{name := ~"asker", at := ~"gen:do_call/4", waits_for := ~"full"}]}, Asker
        ),
        #{groups := Groups, processes := Count, share := 1.0, values := Values} = Busy,
        ?assertMatch([_], [G || #{count := N} = G <- Groups, N >= 300]),
        ?assert(Count > 300),
        ?assert(map_get(~"vm.scheduler_utilisation.normal", Values) > 0.3),
        %% dyno's own are not the node's.
        ?assertEqual([], [N || #{name := <<"dyno_", _/binary>> = N} <- maps:get(rows, Busy)]),
        receive
            {findings, Node, {Found, Share}} when Share > 0 ->
                %% Its queue does not grow: of the checks that find something, one is of the
                %% processor.
                ?assert(is_list(Found))
        after 20_000 -> ct:fail(no_findings)
        end,
        Pid = erpc:call(Node, erlang, whereis, [asker]),
        #{answered := true, name := ~"asker", stack := [_ | _], monitors := [~"full"]} =
            Detail = dyno_top:detail(Node, Pid, Looking),
        ?assertMatch(#{monitor_count := 1, dictionary := Keys} when is_list(Keys), Detail),
        %% A server is asked; not one in a long call, with a long queue, or of no behaviour.
        State = fun(Name) ->
            dyno_top:state(Node, erpc:call(Node, erlang, whereis, [Name]), Looking)
        end,
        ?assertMatch({ok, [<<"{state,", _/binary>> | _]}, State(net_kernel)),
        [
            ?assertMatch({error, <<"not asked", _/binary>>}, State(Name))
         || Name <- [full, asker, init]
        ],
        ?assertEqual(
            {message_queue_len, 1501},
            erpc:call(Node, erlang, process_info, [
                erpc:call(Node, erlang, whereis, [full]), message_queue_len
            ])
        ),
        true = exit(Pid, kill),
        ?assertMatch(#{ended := true}, dyno_top:detail(Node, Pid, Looking)),
        ?assertEqual({error, ~"it has ended"}, dyno_top:state(Node, Pid, Looking)),
        _ = dyno_top:close(Looking),
        ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end)
    end).

%% Its processes are all shown, and none of dyno's.
an_idle_node(_Config) ->
    with_node(fun(Node) ->
        {[_, #{rows := Rows}], Looking} = looked([Node], [#{most => 200}, #{most => 200}]),
        Cleaner = erpc:call(Node, erlang, whereis, [dyno_agent_beside]),
        ?assert(is_pid(Cleaner)),
        ?assertMatch([_ | _], [R || #{name := ~"init"} = R <- Rows]),
        ?assertEqual([], [R || #{pid := Pid} = R <- Rows, Pid =:= Cleaner]),
        ?assertEqual(
            [], [N || #{name := N} <- Rows, binary:match(N, ~"dyno_agent") =/= nomatch]
        ),
        _ = dyno_top:close(Looking)
    end).

%% Shown rows are asked; of the others a part in each reading. A long queue is not asked, and no 0.
memory_is_known(_Config) ->
    with_node(fun(Node) ->
        ok = dyno_peers:eval(Node, ?SYSTEM),
        Few = #{sort => reductions, most => 5},
        {Readings, Looking} = looked([Node], [Few || _ <- lists:seq(1, 12)] ++ [#{sort => memory}]),
        _ = dyno_top:close(Looking),
        ?assertMatch(#{rows := [_, _, _, _, _]}, lists:last(lists:droplast(Readings))),
        [
            ?assert(is_integer(M))
         || #{rows := Rows} <- Readings, #{name := N, memory := M} <- Rows, N =/= ~"full"
        ],
        #{rows := All, groups := Groups} = lists:last(Readings),
        ?assertEqual([], [M || #{name := ~"full", memory := M} <- All, M =/= unknown]),
        Many = [M || #{count := N, memory := M} <- Groups, N >= 300],
        [?assert(is_integer(M) andalso M > 300 * 1000, M) || M <- Many],
        ?assertMatch([_], Many)
    end).

-define(OTHERS,
    "{ok, _} = application:ensure_all_started(mnesia),"
    "{atomic, ok} = mnesia:create_table(accounts, []),"
    "{atomic, ok} = mnesia:transaction(fun() -> mnesia:write({accounts, 1, 2}) end),"
    "spawn(fun() ->"
    "    ets:new(sessions, [named_table, public]), register(keeper, self()),"
    "    receive never -> ok end "
    "end),"
    "{ok, L} = gen_tcp:listen(0, []), {ok, N} = inet:port(L),"
    "{ok, C} = gen_tcp:connect({127, 0, 0, 1}, N, []), {ok, S} = gen_tcp:accept(L),"
    "inet:setopts(S, [{active, true}]),"
    "[gen_tcp:controlling_process(P, whereis(init)) || P <- [L, C, S]],"
    "Send = spawn(fun() -> register(sender, self()), receive {go, P} -> port_command(P, <<0:80000>>) end,"
    "    (fun Add(I) -> ets:insert(sessions, {I}), timer:sleep(1), Add(I + 1) end)(1) end),"
    "persistent_term:put(connection, {Send, C}), ok."
).

sees_other_views(_Config) ->
    with_node(fun(Node) ->
        ok = dyno_peers:eval(Node, ?OTHERS),
        {_, Other} = Beside = dyno_peers:start(),
        true = erpc:call(Node, net_kernel, connect_node, [Other]),
        Views = [
            {ets, bytes},
            {ets, bytes},
            {mnesia, bytes},
            {mnesia, bytes},
            {ports, input},
            {memory, held},
            {nodes, output},
            {applications, count},
            {supervisors, children},
            {supervisors, children},
            {processes, reductions}
        ],
        {Send, Connection} = erpc:call(Node, persistent_term, get, [connection]),
        Send ! {go, Connection},
        {Readings, Looking} = looked([Node], [#{view => V, sort => S} || {V, S} <- Views]),
        [_, Ets, _, Mnesia, Ports, Memory, Nodes, Applications, _, Supervisors, Processes] =
            Readings,
        ?assertMatch(
            #{kind := ~"set, public", owner := <<"keeper", _/binary>>, objects := N, growth := G} when
                N > 0 andalso G > 50,
            named(~"sessions", Ets)
        ),
        ?assertMatch(#{view := ets, share := 1.0, groups := [_ | _]}, Ets),
        ?assertMatch(
            #{storage := ~"memory", copies := 1, objects := 1}, named(~"accounts", Mnesia)
        ),
        ?assertMatch(#{notes := [<<"transactions a second: 0 committed", _/binary>>]}, Mnesia),
        #{rows := Open} = Ports,
        ?assert(
            length([P || #{name := <<"tcp", _/binary>>, at := _, owner := _} = P <- Open]) >= 2,
            Open
        ),
        ?assertMatch(
            #{held := Held, used := Used} when Held >= Used, named(~"eheap_alloc", Memory)
        ),
        ?assertMatch(#{group := ~"visible", waiting := 0}, named(atom_to_binary(Other), Nodes)),
        ?assertMatch(#{count := Count} when Count > 5, named(~"kernel", Applications)),
        ?assertMatch(#{application := ~"kernel", started := 0}, named(~"kernel_sup", Supervisors)),
        ?assertMatch(#{rows := [_ | _]}, Processes),
        %% An application opens as its processes.
        {#{rows := OfMnesia}, Again} = dyno_top:reading(
            Node,
            #{view => processes, sort => memory, most => 60, filter => ~"app:mnesia"},
            Looking
        ),
        ?assert(lists:member(~"mnesia_sup", [Name || #{name := Name} <- OfMnesia])),
        ?assert(not lists:member(~"init", [Name || #{name := Name} <- OfMnesia])),
        _ = dyno_top:close(Again),
        dyno_peers:stop(Beside),
        ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end)
    end).

named(Name, #{rows := Rows}) ->
    hd([Row || #{name := Of} = Row <- Rows, Of =:= Name] ++ [{none, Name, Rows}]).

%% Each reading has another part, and the largest stays.
many_tables(_Config) ->
    with_node(fun(Node) ->
        ok = dyno_peers:eval(
            Node,
            "spawn(fun() -> [ets:new(small, []) || _ <- lists:seq(1, 12000)],"
            " T = ets:new(big, [named_table]), ets:insert(T, [{N} || N <- lists:seq(1, 5000)]),"
            " [ets:new(small, []) || _ <- lists:seq(1, 12000)], register(ready, self()),"
            " receive never -> ok end end),"
            "(fun Wait() -> case whereis(ready) of undefined -> timer:sleep(5), Wait(); _ -> ok end end)()."
        ),
        {Readings, Looking} = looked(
            [Node], lists:duplicate(14, #{view => ets, sort => bytes, most => 20})
        ),
        _ = dyno_top:close(Looking),
        #{share := Share, count := Count, groups := Groups} = lists:last(Readings),
        ?assert(Share < 0.5, Share),
        ?assert(Count > 24_000),
        [Small] = [N || #{name := ~"small", count := N} <- Groups],
        ?assert(abs(Small - 24_000) < 3000, Small),
        Seen = [I || {I, #{rows := [#{name := ~"big"} | _]}} <- lists:enumerate(Readings)],
        ?assertMatch([_ | _], Seen),
        ?assertEqual(lists:seq(hd(Seen), length(Readings)), Seen)
    end).

%% Parts are read in turn, and who stood out stays.
many_processes(_Config) ->
    with_node(fun(Node) ->
        ok = dyno_peers:eval(
            Node,
            "[spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, 45000)],"
            "Full = spawn(fun() -> receive never -> ok end end), [Full ! N || N <- lists:seq(1, 2000)],"
            "register(hog, spawn(fun() -> (fun Busy(N) -> Busy(N + 1) end)(0) end)), ok."
        ),
        {Readings, Looking} = looked([Node], lists:duplicate(22, #{})),
        _ = dyno_top:close(Looking),
        ?assertMatch([#{longest_queue := {at_least, _}} | _], Readings),
        ?assertMatch(#{longest_queue := {exact, 2000}}, lists:last(Readings)),
        #{share := Share} = lists:last(Readings),
        ?assert(Share < 0.6, Share),
        Seen = [N || {N, #{rows := [#{name := ~"hog"} | _]}} <- lists:enumerate(Readings)],
        ?assertMatch([_, _ | _], Seen),
        %% From when it was met on.
        ?assertEqual(lists:seq(hd(Seen), length(Readings)), Seen),
        [#{count := Estimate} | _] = [
            G
         || #{groups := Groups} <- [lists:last(Readings)], #{count := C} = G <- Groups, C > 10_000
        ],
        ?assert(abs(Estimate - 45_000) < 9000, Estimate)
    end).

beside_another(_Config) ->
    with_node(fun(Node) ->
        {ok, Measuring} = dyno_agent:attach(Node, #{}),
        {[_, Reading], Looking} = looked([Node], [#{}, #{}]),
        ?assertMatch(#{rows := [_ | _]}, Reading),
        {error, Taken} = dyno_top:open([Node], #{}),
        ?assertMatch(
            {_, _},
            binary:match(
                dyno_report_text:encode(dyno_error:format(Taken)), ~"another dyno looks at"
            )
        ),
        %% Whoever leaves first takes nothing from the other.
        #{left := Left} = dyno_agent:detach(Measuring),
        ?assert(Left > 20),
        {Again, Last} = dyno_top:reading(
            Node, #{view => processes, most => 5, filter => ~"", sort => queue}, Looking
        ),
        ?assertMatch(#{rows := [_ | _]}, Again),
        _ = dyno_top:close(Last),
        {ok, Next} = dyno_agent:attach(Node, #{}),
        _ = dyno_agent:detach(Next),
        ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end)
    end).

lines_and_data(Config) ->
    with_node(fun(Node) ->
        Folder = proplists:get_value(priv_dir, Config),
        Server = dyno_command:start(#{folder => Folder, environment => []}),
        Arguments = [
            "top",
            atom_to_list(Node),
            "--interval",
            "300ms",
            "--count",
            "2",
            "--cookie",
            atom_to_list(erlang:get_cookie())
        ],
        {0, Lines, _} = dyno_command:ask(Server, Folder, Arguments),
        ?assertMatch([<<_, _/binary>>, <<_, _/binary>>, ~""], binary:split(Lines, ~"\n", [global])),
        {0, Data, _} = dyno_command:ask(Server, Folder, Arguments ++ ["--format", "json"]),
        [_First, Second, ~""] = binary:split(Data, ~"\n", [global]),
        #{~"nodes" := [#{~"top" := [_ | _], ~"limits" := #{~"atoms" := _}}]} = json:decode(Second),
        dyno_command:stop(Server)
    end).

%% A real terminal, 24 lines of 80 characters. Before OTP 28 a key needs Enter.
keys_of_a_terminal(Config) ->
    with_node(fun(Node) ->
        ok = dyno_peers:eval(Node, ?SYSTEM),
        Work = proplists:get_value(priv_dir, Config),
        Escript = dyno_escript:build(filename:join(Work, "dyno")),
        Line = lists:flatten(
            io_lib:format("stty rows 24 cols 80; exec '~ts' top ~ts --interval 300ms", [
                Escript, Node
            ])
        ),
        Port = open_port({spawn_executable, os:find_executable("script")}, [
            {args, ["-qec", Line, "/dev/null"]},
            {cd, Work},
            {env, [{"DYNO_COOKIE", atom_to_list(erlang:get_cookie())}, {"TERM", "xterm"}]},
            exit_status,
            binary
        ]),
        {os_pid, Script} = erlang:port_info(Port, os_pid),
        try
            keys_in(Port)
        after
            [dyno_escript:kill("KILL", P) || P <- dyno_escript:descendants(Script) ++ [Script]]
        end
    end).

keys_in(Port) ->
    _ = until(Port, ~"hog"),
    Enter =
        case list_to_integer(erlang:system_info(otp_release)) of
            Release when Release >= 28 -> "";
            _ -> "\n"
        end,
    port_command(Port, "u" ++ Enter),
    _ = until(Port, ~"queue*"),
    port_command(Port, "g" ++ Enter),
    _ = until(Port, ~"processes started with"),
    port_command(Port, "q" ++ Enter),
    Rest = until(Port, exit),
    %% The terminal is as before.
    ?assertMatch({_, _}, binary:match(Rest, ~"\e[?1049l")).

until(Port, What) -> until(Port, What, ~"").

until(Port, What, Before) ->
    receive
        {Port, {data, Data}} ->
            Text = <<Before/binary, Data/binary>>,
            case What =/= exit andalso binary:match(Text, What) =/= nomatch of
                true -> Text;
                false -> until(Port, What, Text)
            end;
        {Port, {exit_status, 0}} when What =:= exit ->
            Before
    after 30_000 ->
        ct:fail({What, Before})
    end.
