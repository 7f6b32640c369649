%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_remote_SUITE).
-moduledoc false.

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [has_priority, several, fails_as_erpc_does].

init_per_suite(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    [{peer, Peer}, {node, Node} | Config].

end_per_suite(Config) ->
    dyno_peers:stop(proplists:get_value(peer, Config)).

has_priority(Config) ->
    Node = proplists:get_value(node, Config),
    ?assertEqual(high, dyno_remote:call(Node, erlang, process_flag, [priority, normal])),
    ?assertEqual(high, dyno_remote:call(node(), erlang, process_flag, [priority, normal])).

several(Config) ->
    Node = proplists:get_value(node, Config),
    ?assertEqual(
        [Node, 3], dyno_remote:each(Node, [{erlang, node, []}, {erlang, length, [[a, b, c]]}])
    ).

fails_as_erpc_does(Config) ->
    Node = proplists:get_value(node, Config),
    [
        ?assertEqual(raised(erpc, Node, Call), raised(dyno_remote, Node, Call))
     || Call <- [
            {erlang, error, [wrong]},
            {erlang, throw, [wrong]},
            {erlang, exit, [wrong]},
            {erlang, hd, [[]]},
            {timer, sleep, [5000]},
            {erlang, halt, []}
        ]
    ],
    ?assertEqual(
        raised(erpc, nobody@nowhere, {erlang, node, []}),
        raised(dyno_remote, nobody@nowhere, {erlang, node, []})
    ),
    ?assertEqual({messages, []}, process_info(self(), messages)).

raised(Module, Node, {M, F, A}) ->
    try
        Module:call(Node, M, F, A, 1000)
    catch
        Class:{exception, Reason, _Stack} -> {Class, exception, Reason};
        Class:Reason -> {Class, Reason}
    end.
