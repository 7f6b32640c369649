%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_process_filter_SUITE).
-moduledoc "Which processes a text means, in the caller and in a node.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(LONG, binary:copy(~"x", 256)).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        reads_and_prints,
        refuses,
        reads_in_a_fresh_node,
        finds_names_in_nodes,
        chooses_processes,
        new_ones,
        waits_for_no_process
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

reads_and_prints(_Config) ->
    lists:foreach(
        fun({Text, Filter}) ->
            ?assertEqual({Text, {ok, Filter}}, {Text, dyno_process_filter:parse(Text, servers)}),
            ?assertEqual(Text, dyno_process_filter:format(Filter))
        end,
        [
            {~"all", all},
            {~"new", new},
            {~"busiest:20", {busiest, 20}},
            {~"orders", {name, ~"orders"}},
            {~"Shop.Orders", {name, ~"Shop.Orders"}},
            {~"module:Shop.Orders", {module, 'Elixir.Shop.Orders'}},
            {~"name:orders", {registered, orders}},
            {~"app:shop", {application, shop}},
            {~"sup:shop_sup", {supervisor, shop_sup}},
            {~"gen_statem", {behaviour, gen_statem}},
            {~"label:{worker,1}", {label, {worker, 1}}},
            {~"<0.12.3>", {process, "<0.12.3>"}}
        ]
    ),
    ?assertEqual({ok, all}, dyno_process_filter:parse(~"everything", processes)),
    ?assertEqual({ok, {label, ~"a:b c"}}, dyno_process_filter:parse(~"label:a:b c", processes)).

refuses(_Config) ->
    [
        ?assertMatch({Text, {error, _}}, {Text, dyno_process_filter:parse(Text, Things)})
     || Things <- [servers, processes],
        Text <- [
            ~"",
            ~"busiest:0",
            ~"busiest:many",
            ~"color:red",
            ~"<0.1>",
            ~"app:",
            ~"label:",
            ?LONG,
            <<"app:", (?LONG)/binary>>
        ]
    ],
    {error, {Module, Reason}} = dyno_process_filter:parse(~"busiest:20", processes),
    Text = unicode:characters_to_binary(Module:format_error(Reason)),
    ?assertMatch({_, _}, binary:match(Text, ~"\"busiest:20\" names none of the processes")).

%% No code that knows their atoms is loaded there.
reads_in_a_fresh_node(_Config) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io, args => lists:append([["-pa", P] || P <- code:get_path()])
    }),
    Read = peer:call(Peer, dyno_process_filter, parse, [~"gen_stage", servers]),
    ok = peer:stop(Peer),
    ?assertEqual({ok, {behaviour, gen_stage}}, Read).

%% A bare name: the process and the module, else the application.
finds_names_in_nodes(_Config) ->
    in_nodes(fun(Nodes) ->
        Check = fun(Text, Things) -> dyno_process_filter:check([Text], Nodes, Things) end,
        lists:foreach(
            fun({Text, Things, Selectors}) ->
                ?assertEqual({Text, {ok, Selectors}}, {Text, Check(Text, Things)})
            end,
            [
                {~"all", processes, []},
                {~"all", servers, [all]},
                {~"new", processes, [new]},
                {~"kernel_sup", processes, [{registered, kernel_sup}]},
                {~"code_server", processes, [{registered, code_server}, {module, code_server}]},
                {~"lists", processes, [{module, lists}]},
                {~"stdlib", processes, [{application, stdlib}]},
                {~"stdlib", servers, [{application, stdlib}]},
                {~"kernel", servers, [{module, kernel}]},
                {~"app:kernel", servers, [{application, kernel}]},
                {~"sup:kernel_sup", servers, [{supervisor, kernel_sup}]}
            ]
        ),
        lists:foreach(
            fun({Text, Things, Parts}) ->
                {error, {dyno_process_filter, Reason}} = Check(Text, Things),
                Shown = unicode:characters_to_binary(dyno_process_filter:format_error(Reason)),
                [?assertMatch({_, _}, binary:match(Shown, Part), Shown) || Part <- Parts]
            end,
            [
                {~"lists", servers, [~"lists", ~"no callbacks"]},
                {~"kernel_sub", processes, [~"did you mean kernel_sup?", ~"NAME@HOST"]},
                {~"app:kernal", servers, [~"did you mean kernel?"]},
                {~"name:nobody", servers, [~"no process nobody"]},
                {~"<0.999999.0>", servers, [~"<0.999999.0>"]}
            ]
        )
    end).

in_nodes(Test) ->
    Peers = [dyno_peers:start([]) || _ <- [1, 2]],
    try
        Test([Node || {_, Node} <- Peers])
    after
        [dyno_peers:stop(Peer) || Peer <- Peers]
    end.

%% Each by itself, of processes that serve and others.
chooses_processes(_Config) ->
    Self = self(),
    Named = spawn_link(fun() -> ready(Self, fun() -> register(filter_named, self()) end) end),
    Labelled = spawn_link(fun() -> ready(Self, fun() -> proc_lib:set_label({job, 7}) end) end),
    Below = proc_lib:spawn_link(fun() -> ready(Self, fun() -> ok end) end),
    [
        receive
            {ready, Pid} -> ok
        end
     || Pid <- [Named, Labelled, Below]
    ],
    Server = whereis(global_name_server),
    All = [Named, Labelled, Below, Server],
    Chosen = fun(Selectors) ->
        Filter = dyno_agent_process_filter:new(Selectors),
        [Pid || Pid <- All, dyno_agent_process_filter:is_chosen(Pid, Filter)]
    end,
    lists:foreach(
        fun({Selectors, Pids}) ->
            ?assertEqual({Selectors, Pids}, {Selectors, Chosen(Selectors)})
        end,
        [
            {[], All},
            {[{registered, filter_named}], [Named]},
            {[{registered, nobody}], []},
            {[{pid, Below}], [Below]},
            {[{label, {job, 7}}], [Labelled]},
            {[{module, ?MODULE}], [Named, Labelled, Below]},
            {[{module, global}], [Server]},
            {[{application, kernel}], [Server]},
            {[{supervisor, self()}], [Below]},
            {[{supervisor, kernel_sup}], [Server]},
            {[{behaviour, gen_server}], []},
            {[{label, {job, 7}}, {pid, Below}, {registered, filter_named}], [Named, Labelled, Below]}
        ]
    ),
    [exit(unlink_first(Pid), kill) || Pid <- [Named, Labelled, Below]],
    ok = dyno_leftovers:until(fun() -> not is_process_alive(Below) end),
    ?assertEqual([], Chosen([{application, stdlib}])),
    ?assertEqual([Server], Chosen([{module, ?MODULE}, {application, kernel}])).

unlink_first(Pid) ->
    true = unlink(Pid),
    Pid.

ready(Parent, Prepare) ->
    _ = Prepare(),
    Parent ! {ready, self()},
    receive
        stop -> ok
    end.

new_ones(_Config) ->
    Wait = fun() ->
        receive
            stop -> ok
        end
    end,
    Old = spawn_link(Wait),
    Filter = dyno_agent_process_filter:new([new, {registered, init}]),
    New = spawn_link(Wait),
    Meant = dyno_agent_process_filter:running(Filter),
    ?assert(lists:member(New, Meant)),
    ?assert(lists:member(whereis(init), Meant)),
    ?assertNot(lists:member(Old, Meant)),
    Rest = dyno_agent_process_filter:remove([new], Filter),
    ?assertEqual([whereis(init)], dyno_agent_process_filter:running(Rest)),
    ?assertEqual([], dyno_agent_process_filter:running(dyno_agent_process_filter:none())).

%% A suspended process answers no signal: what needs none is known all the same.
waits_for_no_process(_Config) ->
    Pid = spawn_link(fun() ->
        receive
            stop -> ok
        end
    end),
    true = erlang:suspend_process(Pid),
    Selectors = [{registered, filter_nobody}, {pid, self()}, {application, no_application}, new],
    Filter = dyno_agent_process_filter:new(Selectors),
    {Us, Is} = timer:tc(fun() ->
        [dyno_agent_process_filter:is_chosen(Pid, Filter) || _ <- lists:seq(1, 1000)]
    end),
    true = erlang:resume_process(Pid),
    ?assertEqual([false], lists:usort(Is)),
    ct:log("~b ns a process", [Us]),
    ?assert(Us < 1_000_000, Us).
