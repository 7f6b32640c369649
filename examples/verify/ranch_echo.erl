%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(ranch_echo).
-moduledoc """
A protocol of Ranch that sends each line back, with a fault planted: the line `twice` comes back
twice, and `lost` not at all.

    dyno verify examples/verify/ranch_echo.dyno shop@host

tells which connection did, while it is loaded in the node `shop@host` with `ranch_echo:start()`.
""".

-behaviour(ranch_protocol).

-export([start/0, start_link/3, serve/3]).

%% Gives the port that it listens on.
start() ->
    {ok, _} = application:ensure_all_started(ranch),
    Options = #{socket_opts => [{ip, {127, 0, 0, 1}}, {port, 0}]},
    {ok, _} = ranch:start_listener(?MODULE, ranch_tcp, Options, ?MODULE, []),
    ranch:get_port(?MODULE).

start_link(Ref, Transport, Options) ->
    {ok, spawn_link(?MODULE, serve, [Ref, Transport, Options])}.

serve(Ref, Transport, _Options) ->
    {ok, Socket} = ranch:handshake(Ref),
    ok = Transport:setopts(Socket, [{packet, line}]),
    lines(Socket, Transport).

lines(Socket, Transport) ->
    ok = Transport:setopts(Socket, [{active, once}]),
    receive
        {tcp, Socket, Line} ->
            [ok = Transport:send(Socket, Answer) || Answer <- answers(Line)],
            lines(Socket, Transport);
        {tcp_closed, Socket} ->
            ok
    end.

answers(<<"lost\n">>) -> [];
answers(<<"twice\n">> = Line) -> [Line, Line];
answers(Line) -> [Line].
