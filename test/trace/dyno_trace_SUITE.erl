%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_SUITE).
-moduledoc "dyno trace: what it shows of a node, when it stops, and that nothing is left there.".

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-compile([export_all, nowarn_export_all]).

-define(SHOP, """
-module(shop).
-export([start/0, order/2, price/1, work/1, flood/0, busy/1, loop/0]).
start() -> register(shop, spawn(shop, loop, [])).
loop() ->
    receive
        {order, From, What, N} -> From ! {ok, catch order(What, N)}, shop:loop();
        {flood, Times} -> busy(Times), shop:loop()
    end.
order(What, N) when N > 0 -> price(What) * N;
order(What, N) -> error({none, What, N}).
price(apple) -> 3;
price(_) -> work(0), 7.
work(N) -> N + 1.
flood() -> spawn(shop, busy, [infinity]).
busy(0) -> ok;
busy(infinity) -> work(1), busy(infinity);
busy(N) -> work(N), busy(N - 1).

""").

suite() -> [{timetrap, {minutes, 2}}].

each_release() -> [calls_as_lines, whoever_goes].

all() ->
    [
        calls_as_lines,
        a_tree,
        messages,
        functions_that_are_not_there,
        added_and_removed,
        latency_and_arguments,
        two_nodes,
        limits_stop_it,
        whoever_goes,
        a_file,
        the_command,
        a_file_that_is_not_kept
    ].

init_per_testcase(_Case, Config) ->
    {Peer, Node} = dyno_peers:start(),
    shop = dyno_peers:load(Node, ?SHOP),
    true = erpc:call(Node, shop, start, []),
    [{peer, {Peer, Node}}, {node, Node} | Config].

end_per_testcase(_Case, Config) ->
    ok = dyno_disk:unmount(disk(Config)),
    dyno_peers:stop(proplists:get_value(peer, Config)).

calls_as_lines(Config) ->
    Node = proplists:get_value(node, Config),
    Before = dyno_leftovers:snapshot(Node),
    Lines = lines(
        Node, ["shop:order(_, N) when N =/= 5 -> return, caller"], #{count => 2}, fun() ->
            [order(Node, What, N) || {What, N} <- [{pear, 2}, {apple, 5}, {plum, 0}]]
        end
    ),
    ?assertMatch([_, _, _, _], Lines),
    [First, Caller, Second, Caller] = Lines,
    ?assertMatch(
        {match, _}, re:run(First, "> shop  shop:order\\(pear, 2\\) -> 14  [0-9.]+ [nu]s$")
    ),
    ?assertMatch(
        {match, _}, re:run(Second, "shop:order\\(plum, 0\\) \\*\\* error:\\{none,plum,0\\}  ")
    ),
    ?assertMatch({match, _}, re:run(Caller, "from shop:loop/0")),
    dyno_leftovers:check(Node, Before).

a_tree(Config) ->
    Node = proplists:get_value(node, Config),
    Lines = lines(
        Node, ["shop:order", "shop:price", "shop:work"], #{tree => true, count => 3}, fun() ->
            order(Node, pear, 2)
        end
    ),
    ?assertMatch(
        [
            [~"  shop:order(pear, 2)"],
            [~"    shop:price(pear)"],
            [~"      shop:work(0) -> 1"],
            [~"    shop:price/1 -> 7"],
            [~"  shop:order/2 -> 14"]
        ],
        [captured(Line, "> shop(.*?)(?:  [0-9.]+ [num]s)?$") || Line <- Lines]
    ).

captured(Line, Regexp) ->
    {match, Found} = re:run(Line, Regexp, [{capture, all_but_first, binary}]),
    Found.

messages(Config) ->
    Node = proplists:get_value(node, Config),
    Patterns = ["receive({order, _, What, _}) when What =/= plum", "send({ok, _})"],
    Options = #{processes => [~"shop"], count => 2},
    Lines = lines(Node, Patterns, Options, fun() ->
        order(Node, plum, 1),
        order(Node, pear, 3)
    end),
    ?assertMatch([_, _], Lines),
    ?assertMatch({match, _}, re:run(hd(Lines), "sends \\{ok,7\\} to <")),
    ?assertMatch({match, _}, re:run(lists:last(Lines), "gets \\{order,<.*>,pear,3\\}$")).

functions_that_are_not_there(Config) ->
    Node = proplists:get_value(node, Config),
    [
        begin
            {error, Error} = dyno_trace:start([Node], [Pattern], #{}),
            Text = unicode:characters_to_binary(dyno_error:format(Error)),
            ?assertEqual(2, dyno_error:exit_status(Error)),
            [?assertMatch({_, _}, binary:match(Text, Part), Text) || Part <- Parts]
        end
     || {Pattern, Parts} <- [
            {"shp:order/2", [~"no module shp", ~"did you mean shop?"]},
            {"shop:ordr/2", [~"shop:ordr/2", ~"did you mean shop:order?"]},
            {"shop:order/3", [~"no shop:order/3", ~"it has shop:order/2"]},
            {"erlang:element/2", [~"erlang:element/2 can't be traced"]}
        ]
    ],
    ?assertMatch(
        {error, {dyno_process_filter, _}},
        dyno_trace:start([Node], ["shop:order"], #{processes => [~"nobody"]})
    ),
    ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end).

added_and_removed(Config) ->
    Node = proplists:get_value(node, Config),
    {ok, Trace} = start([Node], ["shop:order"], #{}),
    order(Node, apple, 1),
    ?assertMatch(#{function := ~"shop:order/2"}, next()),
    ok = dyno_trace:add(Trace, "shop:price -> return"),
    ?assertMatch({error, {dyno_trace_pattern, _}}, dyno_trace:add(Trace, "shop:")),
    ?assertMatch({error, {dyno_trace_target, _}}, dyno_trace:add(Trace, "shop:prize")),
    order(Node, apple, 1),
    ?assertMatch(
        [#{function := ~"shop:order/2"}, #{call := ~"shop:price(apple)"}, #{value := ~"3"}],
        [next(), next(), next()]
    ),
    ok = dyno_trace:remove(Trace, "shop:order"),
    ?assertMatch({error, {dyno_trace, {no_pattern, _}}}, dyno_trace:remove(Trace, "shop:order")),
    order(Node, apple, 1),
    ?assertMatch(#{event := call, function := ~"shop:price/1"}, next()),
    {ok, [#{event := stopped, reason := #{limit := stopped}, count := 4}]} = dyno_trace:stop(Trace),
    ?assertEqual({error, {dyno_trace, ended}}, dyno_trace:stop(Trace)).

latency_and_arguments(Config) ->
    Node = proplists:get_value(node, Config),
    Busy = erpc:call(Node, shop, flood, []),
    %% Beside other programs many calls come until the breakpoints are removed.
    Spinning = dyno_truth:spin(),
    {ok, Timed} = start([Node], ["shop:work/1"], #{what => latency, for_ms => 60_000}),
    try sampled_second() of
        #{count := Count} ->
            %% Hundreds of thousands of calls a second, of which 500 of each fifth of a second are
            %% traced.
            ?assert(Count >= 499 andalso Count =< 2600, Count),
            {ok, _} = dyno_trace:stop(Timed),
            [All] = [Of || #{event := latency, of_what := all, functions := [Of]} <- shown()],
            #{p50 := P50, p99 := P99, below := Below, bars := [[First, _] | _]} = All,
            ?assert(P50 =:= null orelse (P50 < 20_000 andalso P50 =< P99), All),
            ?assert(Below > 0 andalso First >= Below, All);
        %% So busy a machine that 64 MiB of events were waiting.
        {ended, #{limit := bytes}} ->
            ok
    after
        dyno_truth:calm(Spinning)
    end,
    true = erpc:call(Node, erlang, exit, [Busy, kill]),
    {ok, Trace} = start([Node], ["shop:order"], #{what => {argument, 2}, for_ms => 60_000}),
    [order(Node, apple, N) || N <- [7, 7, 7, 8]],
    {ok, _} = dyno_trace:stop(Trace),
    [#{values := Values}] = [Item || #{event := argument, of_what := all} = Item <- shown()],
    ?assertEqual([[3, ~"7"], [1, ~"8"]], Values).

%% The first one: on a busy machine the node may have no turn for a second.
sampled_second() ->
    case next() of
        #{event := latency, of_what := second, sampled := true, functions := [Of]} -> Of;
        #{event := latency} -> sampled_second();
        #{event := stopped, reason := Reason} -> {ended, Reason}
    end.

%% In the order of their times, whichever node they are of.
two_nodes(Config) ->
    {Peer, Other} = dyno_peers:start(),
    shop = dyno_peers:load(Other, ?SHOP),
    true = erpc:call(Other, shop, start, []),
    Nodes = [proplists:get_value(node, Config), Other],
    {ok, Trace} = start(Nodes, ["shop:order"], #{count => 6}),
    [order(Node, apple, N) || N <- [1, 2, 3], Node <- Nodes],
    {ok, Ended} = dyno_trace:await(Trace),
    ?assertEqual(2, length(Ended)),
    Calls = [{Node, At} || #{event := call, node := Node, at := At} <- shown()],
    ?assertEqual(Calls, lists:keysort(2, Calls)),
    ?assertEqual([3, 3], [length([x || {N, _} <- Calls, N =:= atom_to_binary(Of)]) || Of <- Nodes]),
    dyno_peers:stop({Peer, Other}).

%% After each reason to stop no function has a breakpoint, and a function that is called all the
%% time is as quick as before.
limits_stop_it(Config) ->
    Node = proplists:get_value(node, Config),
    Before = dyno_leftovers:snapshot(Node),
    _ = erpc:call(Node, shop, flood, []),
    [
        begin
            {ok, Trace} = start([Node], [Pattern], Options),
            {ok, [#{reason := #{limit := Why}}]} = dyno_trace:await(Trace),
            _ = shown(),
            ?assertEqual({Pattern, Reason}, {Pattern, Why}),
            untouched(Node)
        end
     || Many <- [1_000_000],
        {Reason, Pattern, Options} <- [
            {count, "shop:work/1", #{count => 5, queue => Many}},
            {count, "shop:work/1 -> return, stack", #{count => 5, queue => Many}},
            {for_ms, "shop:price/1", #{for_ms => 100}},
            {rate, "shop:work/1", #{count => Many, rate => 1000, queue => Many}},
            {open, "shop:busy/1 -> return", #{count => Many, rate => 10_000_000, queue => Many}},
            {queue, "_:_ -> return", #{count => Many, rate => 10_000_000}},
            {bytes, "shop:busy/1", #{
                count => Many, rate => 10_000_000, queue => Many, bytes => 1
            }}
        ]
    ],
    dyno_leftovers:check(Node, Before).

untouched(Node) ->
    ?assertEqual([], breakpoints(Node)),
    ?assertEqual([], [S || {S, _} <- erpc:call(Node, trace, session_info, [all]), S =/= legacy]).

%% The functions of the node that have one in any session.
breakpoints(Node) ->
    dyno_peers:eval(
        Node,
        "[{M, F, A} || {M, _} <- code:all_loaded(), {F, A} <- erlang:get_module_info(M, "
        "functions), trace:session_info({M, F, A}) =/= []]."
    ).

whoever_goes(Config) ->
    {Peer, Node} = proplists:get_value(peer, Config),
    Before = dyno_leftovers:snapshot(Node),
    Options = #{count => 1_000_000},
    Gone = fun(Do) ->
        {ok, Trace} = start([Node], ["shop:work/1", "shop:price/1"], Options),
        ?assertNotEqual([], breakpoints(Node)),
        Ref = monitor(process, Trace),
        Do(Trace),
        receive
            {'DOWN', Ref, process, Trace, _} -> ok
        end,
        dyno_leftovers:check(Node, Before),
        untouched(Node)
    end,
    %% The process that traces; the tracer; the watchdog; all of the agent.
    Gone(fun(Trace) -> exit(Trace, kill) end),
    [
        Gone(fun(_) -> true = erpc:call(Node, erlang, exit, [labelled(Node, Label), kill]) end)
     || Label <- [dyno_agent_event_tracer, dyno_agent_event_watchdog, dyno_agent_guard]
    ],
    %% The connection.
    Gone(fun(_) -> peer:call(Peer, erlang, disconnect_node, [node()]) end),
    %% The one who started it.
    {Owner, Ref} = spawn_monitor(fun() ->
        {ok, _} = start([Node], ["shop:work/1"], Options),
        exit(started)
    end),
    receive
        {'DOWN', Ref, process, Owner, started} -> ok
    end,
    dyno_leftovers:check(Node, Before),
    untouched(Node).

labelled(Node, Label) ->
    [Pid] = [
        P
     || P <- erpc:call(Node, erlang, processes, []),
        erpc:call(Node, proc_lib, get_label, [P]) =:= Label
    ],
    Pid.

%% Read again it is shown as it was.
a_file(Config) ->
    Node = proplists:get_value(node, Config),
    Items = items([Node], ["shop:order -> return"], #{count => 2}, fun() ->
        order(Node, "pé", 2),
        order(Node, #{a => self()}, 0)
    end),
    File = filename:join(proplists:get_value(priv_dir, Config), "calls.jsonl"),
    ok = file:write_file(File, [dyno_trace_lines:encode(Item) || Item <- [header | Items]]),
    {ok, Read} = dyno_trace:replay(File, fun(Item, Acc) -> [Item | Acc] end, []),
    ?assertEqual(as_lines(Items), as_lines(lists:reverse(Read))),
    [
        begin
            ok = file:write_file(File, [dyno_trace_lines:encode(header), Lines]),
            {error, Error} = dyno_trace:replay(File, fun(_, Acc) -> Acc end, []),
            Text = iolist_to_binary(dyno_error:format(Error)),
            ?assertMatch({_, _}, binary:match(Text, At), Text)
        end
     || {Lines, At} <- [
            {[~"{\"event\": \"later\"}\n", ~"x\n"], ~"line 3"},
            %% Something is missing, or of another kind.
            {~"{\"event\": \"call\"}\n", ~"line 2"},
            {
                ~"{\"event\":\"send\",\"at\":\"1\",\"node\":\"a\",\"pid\":\"p\",\"message\":\"m\",\"to\":\"t\"}\n",
                ~"line 2"
            },
            {~"{\"event\":\"stopped\",\"node\":\"a\",\"reason\":7}\n", ~"line 2"},
            {~"{\"event\":\"stopped\",\"node\":\"a\",\"reason\":{\"limit\":\"rate\"}}\n", ~"line 2"}
        ]
    ].

the_command(Config) ->
    Node = proplists:get_value(node, Config),
    File = filename:join(proplists:get_value(priv_dir, Config), "command.jsonl"),
    Self = self(),
    Caller = spawn_link(fun() -> orders(Node, Self) end),
    Arguments = [
        "trace",
        atom_to_list(Node),
        "shop:order/2 -> return",
        "--count",
        "2",
        "-o",
        File,
        "--cookie",
        atom_to_list(erlang:get_cookie())
    ],
    {0, Output} = dyno_command:run(Arguments),
    true = unlink(Caller),
    exit(Caller, kill),
    ?assertMatch({match, [_, _]}, re:run(Output, "shop:order\\(apple, 2\\) -> 6", [global])),
    %% It has arguments.
    {ok, #file_info{mode = Mode}} = file:read_file_info(File),
    ?assertEqual(8#600, Mode band 8#777),
    {0, Again} = dyno_command:run(["trace", "--replay", File]),
    ?assertEqual(Output, Again).

disk(Config) -> filename:join(proplists:get_value(priv_dir, Config), "disk").

%% What fits is there, and can be shown.
a_file_that_is_not_kept(Config) ->
    case dyno_disk:mount(disk(Config), 64) of
        ok ->
            Node = proplists:get_value(node, Config),
            File = filename:join(disk(Config), "calls.jsonl"),
            Caller = spawn_link(fun() -> floods(Node) end),
            {3, Output} = dyno_command:run([
                "trace",
                atom_to_list(Node),
                "shop:work/1",
                "--count",
                "1500",
                "-o",
                File,
                "--cookie",
                atom_to_list(erlang:get_cookie())
            ]),
            true = unlink(Caller),
            exit(Caller, kill),
            {match, [Kept, Entries]} = re:run(
                Output,
                "calls.jsonl: the disk is full.*; ([0-9]+) of ([0-9]+) entries",
                [{capture, all_but_first, binary}]
            ),
            %% With the first line and the last one.
            ?assertEqual(1502, binary_to_integer(Entries)),
            {ok, Read} = dyno_trace:replay(File, fun(_, Count) -> Count + 1 end, 0),
            ?assertEqual(binary_to_integer(Kept), Read + 1),
            ?assert(Read > 100);
        Skip ->
            Skip
    end.

%% Fewer at once than may wait in the node.
floods(Node) ->
    {shop, Node} ! {flood, 20},
    timer:sleep(20),
    floods(Node).

orders(Node, Test) ->
    order(Node, apple, 2),
    timer:sleep(20),
    orders(Node, Test).

%% What is shown

order(Node, What, N) ->
    {shop, Node} ! {order, self(), What, N},
    receive
        {ok, _} -> ok
    end.

start(Nodes, Patterns, Options) ->
    Self = self(),
    dyno_trace:start(Nodes, Patterns, Options#{show => fun(Item) -> Self ! {item, Item} end}).

items(Nodes, Patterns, Options) ->
    items(Nodes, Patterns, Options, fun() -> ok end).

items(Nodes, Patterns, Options, Do) ->
    {ok, Trace} = start(Nodes, Patterns, Options),
    _ = Do(),
    {ok, _} = dyno_trace:await(Trace),
    shown().

next() ->
    receive
        {item, Item} -> Item
    end.

shown() ->
    receive
        {item, Item} -> [Item | shown()]
    after 0 -> []
    end.

lines(Node, Patterns, Options, Do) ->
    as_lines(items([Node], Patterns, Options, Do), Options).

as_lines(Items) -> as_lines(Items, #{}).

as_lines(Items, Options) ->
    Print = dyno_trace_text:printer(maps:with([tree], Options), fun(Lines) -> Lines end),
    [
        string:trim(unicode:characters_to_binary(Line), trailing, "\n")
     || Item <- Items, Line <- Print(Item)
    ].
