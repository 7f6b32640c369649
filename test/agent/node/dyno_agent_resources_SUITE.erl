%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_resources_SUITE).
-moduledoc "Ports and sockets are called by what is at their other end.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [ports_have_names, sockets_have_names].

%% A server at a number that somebody chose: its own end, those it accepted, those that go to it.
%% Numbers that the system chose are not told, because they are others the next time.
ports_have_names(_Config) ->
    {Listening, Number} = listen([]),
    Connect = fun(To) -> {ok, _} = gen_tcp:connect({127, 0, 0, 1}, To, [{active, false}]) end,
    {ok, Client} = Connect(Number),
    {ok, Accepted} = gen_tcp:accept(Listening),
    {ok, Chosen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, ByTheSystem} = inet:port(Chosen),
    {ok, _} = Connect(ByTheSystem),
    Cat = open_port({spawn, "/bin/cat -u"}, []),
    Named = integer_to_binary(Number),
    {ok, Pid} = dyno_agent_instrument:start_link(dyno_agent_resources, #{
        interval_ms => 60_000, reads => [ports]
    }),
    ok = gen_tcp:send(Client, ~"abcdef"),
    {ok, ~"abcdef"} = gen_tcp:recv(Accepted, 6),
    Kinds = kinds(Pid),
    ?assertMatch(#{open := 1}, map_get(<<"tcp open at ", Named/binary>>, Kinds)),
    ?assertMatch(
        #{open := 1, output_bytes := 6}, map_get(<<"tcp to 127.0.0.1:", Named/binary>>, Kinds)
    ),
    ?assertMatch(
        #{open := 1, input_bytes := 6}, map_get(<<"tcp accepted at ", Named/binary>>, Kinds)
    ),
    ?assertMatch(#{open := N} when N >= 1, map_get(~"tcp with 127.0.0.1", Kinds)),
    ?assertMatch(#{open := N} when N >= 1, map_get(~"tcp, open", Kinds)),
    ?assertMatch(#{open := 1}, map_get(~"cat", Kinds)),
    ?assertMatch(#{open := 1}, map_get(~"forker, which starts programs", Kinds)),
    ?assertEqual([], [K || K := _ <- Kinds, lists:member(K, [~"1", ~"tcp_inet", ~"forker"])]),
    true = port_close(Cat).

sockets_have_names(_Config) ->
    {Listening, Number} = listen([{inet_backend, socket}]),
    {ok, _Client} = gen_tcp:connect({127, 0, 0, 1}, Number, [{inet_backend, socket}]),
    {ok, _Accepted} = gen_tcp:accept(Listening),
    {ok, Pid} = dyno_agent_instrument:start_link(dyno_agent_resources, #{
        interval_ms => 60_000, reads => [ports]
    }),
    Kinds = kinds(Pid),
    [
        ?assertMatch(#{Kind := #{open := 1}}, Kinds)
     || Text <- ["open at ", "accepted at ", "to 127.0.0.1:"],
        Kind <- [iolist_to_binary(["socket, tcp ", Text, integer_to_binary(Number)])]
    ].

%% At a number below those that the system gives.
listen(Options) ->
    case gen_tcp:listen(20_000 + rand:uniform(9_999), Options ++ [binary, {active, false}]) of
        {ok, Socket} ->
            {ok, Number} = inet:port(Socket),
            {Socket, Number};
        {error, eaddrinuse} ->
            listen(Options)
    end.

kinds(Pid) ->
    #{Kind => Of || #{kind := Kind} = Of <- map_get(ports, dyno_agent_instrument:read(Pid))}.
