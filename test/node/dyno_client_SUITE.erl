%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_client_SUITE).
-moduledoc "Clients of a node's functions, and the templates' use of them.".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(dyno_peers, [with_node/1]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [one_process, errors, ends_with_its_owner, node_goes_down, templates].

%% All calls are made by one process, and none is started.
one_process(_Config) ->
    with_node(fun(Node) ->
        {ok, Client} = dyno_client:start(Node),
        Pids = [dyno_client:call(Client, erlang, self, []) || _ <- lists:seq(1, 100)],
        ?assertEqual([Client], lists:usort(Pids)),
        ?assertEqual({ok, Client}, dyno_client:start(Node)),
        ?assertEqual([3, 2, 1], dyno_client:call(Client, lists, reverse, [[1, 2, 3]]))
    end).

errors(_Config) ->
    with_node(fun(Node) ->
        {ok, Client} = dyno_client:start(Node),
        ?assertError(badarg, dyno_client:call(Client, erlang, list_to_atom, [3])),
        ?assertError({own, [list]}, dyno_client:call(Client, erlang, error, [{own, [list]}])),
        ?assertExit(why, dyno_client:call(Client, erlang, exit, [why])),
        ?assertEqual(Client, dyno_client:call(Client, erlang, self, []))
    end).

ends_with_its_owner(_Config) ->
    with_node(fun(Node) ->
        Self = self(),
        {Owner, Ref} = spawn_monitor(fun() -> Self ! dyno_client:start(Node) end),
        Client =
            receive
                {ok, Pid} -> Pid
            end,
        ClientRef = monitor(process, Client),
        receive
            {'DOWN', Ref, process, Owner, normal} -> ok
        end,
        receive
            {'DOWN', ClientRef, process, Client, _} -> ok
        end
    end).

node_goes_down(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    {ok, Client} = dyno_client:start(Node),
    Node = dyno_client:call(Client, erlang, node, []),
    ok = dyno_peers:stop(Peer),
    %% And this process lives.
    ?assertError({dyno_client, _}, dyno_client:call(Client, erlang, node, [])).

%% What `dyno new` writes makes its calls so: with erpc each has a process of its own.
templates(_Config) ->
    Texts = [
        Text
     || Language <- [erlang, elixir],
        Project <- [none, {~"shop", [~"shop:price/1"]}],
        {ok, Text} <- [dyno_cli_new_text:text(~"suite", Language, "x_perf", Project)]
    ],
    Parts = [
        {Operation, Text}
     || Text <- Texts,
        {match, [Operation]} <- [
            re:run(Text, "operation\\(.*", [dotall, {capture, first, binary}])
        ]
    ],
    ?assertEqual(4, length(Parts)),
    _ = [
        begin
            ?assertMatch({_, _}, binary:match(Operation, ~"dyno_client")),
            ?assertEqual(nomatch, binary:match(Operation, ~"erpc"))
        end
     || {Operation, _} <- Parts
    ].
