%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_statsd).
-moduledoc false.
%% Sends lines of StatsD or DogStatsD to a UDP port or to a Unix socket.

-behaviour(dyno_servers_sink).

-export([open/1, write/2, close/1, format_error/1]).

%% So many at once, then a pause: a receiver's UDP socket takes about 100 datagrams, and says
%% nothing of those that it lost.
-define(BURST, 16).
-define(PAUSE_MS, 1).
%% A Unix socket takes ten, and says that it is full. So long a receiver is waited for in a window.
-define(MOST_PAUSES, 1_000).

-type state() :: #{
    socket := gen_udp:socket(),
    to := connected | {local, binary()},
    form := dyno_servers_sink:config()
}.
-type reason() :: {socket, inet:posix()} | {send, inet:posix()} | too_long.

-spec open(dyno_servers_sink:config()) ->
    {ok, binary(), state()} | {error, dyno_error:error()}.
open(#{kind := Kind, path := Path} = Form) ->
    case gen_udp:open(0, [local, binary, {active, false}]) of
        {ok, Socket} ->
            {ok, <<(atom_to_binary(Kind))/binary, "+unix:", Path/binary>>, #{
                socket => Socket, to => {local, Path}, form => Form
            }};
        {error, Reason} ->
            {error, {?MODULE, {socket, Reason}}}
    end;
open(#{kind := Kind, host := Host, port := Port} = Form) ->
    maybe
        {ok, Family, Address} ?= dyno_servers_sink_url:resolve(Host),
        {ok, Socket} ?= gen_udp:open(0, [Family, binary, {active, false}]),
        %% Connected, it hears that nobody listens.
        ok ?= gen_udp:connect(Socket, Address, Port),
        Where = unicode:characters_to_binary(io_lib:format("~ts://~ts:~b", [Kind, Host, Port])),
        {ok, Where, #{socket => Socket, to => connected, form => Form}}
    else
        {error, {_, _} = Error} -> {error, Error};
        {error, Reason} -> {error, {?MODULE, {socket, Reason}}}
    end.

-spec write([dyno_servers_sum:sum()], state()) -> {dyno_servers_sink:written(), state()}.
write(Sums, #{form := Form} = State) ->
    Lines = dyno_servers_statsd_lines:lines(Sums, Form),
    {TooLong, Datagrams} = dyno_servers_statsd_lines:datagrams(Lines),
    Why =
        case TooLong of
            0 -> none;
            _ -> {?MODULE, too_long}
        end,
    {send(lists:enumerate(Datagrams), ?MOST_PAUSES, {TooLong, Why}, State), State}.

send([], _Pauses, Written, _State) ->
    Written;
send([{Nth, Datagram} | Rest] = Datagrams, Pauses, {Failed, _} = Written, State) ->
    case send(Datagram, State) of
        ok ->
            _ = [timer:sleep(?PAUSE_MS) || Nth rem ?BURST =:= 0],
            send(Rest, Pauses, Written, State);
        {error, eagain} when Pauses > 0 ->
            timer:sleep(?PAUSE_MS),
            send(Datagrams, Pauses - 1, Written, State);
        {error, Why} ->
            send(Rest, Pauses, {Failed + 1, {?MODULE, {send, Why}}}, State)
    end.

send(Datagram, #{socket := Socket, to := connected}) -> gen_udp:send(Socket, Datagram);
send(Datagram, #{socket := Socket, to := Local}) -> gen_udp:send(Socket, Local, Datagram).

-spec close(state()) -> ok.
close(#{socket := Socket}) ->
    gen_udp:close(Socket).

-spec format_error(reason()) -> unicode:chardata().
format_error({socket, Reason}) ->
    io_lib:format("no socket could be opened: ~ts", [inet:format_error(Reason)]);
format_error({send, Reason}) ->
    io_lib:format("a datagram could not be sent: ~ts", [inet:format_error(Reason)]);
format_error(too_long) ->
    "a line would be longer than a datagram; its tags or its prefix are too long".
