%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_probe).
-moduledoc false.
%% Asks a node for its full name, to find out why a connection failed.
%%
%% The port mapper (epmd) knows a node's port, but only the part of its name before the `@`. The
%% node tells its whole name before it asks for a cookie: the first steps of the distribution's
%% handshake (version 6, of OTP 23 and later). The connection is then closed; the node logs nothing
%% and keeps no connection.
%%
%% probe                                     node
%% send_name   'N' Flags Creation Name  -->
%%                                      <--  's' ok
%%                                      <--  'N' Flags Challenge Creation Name

-export([name/1, name/2]).
-export_type([problem/0]).

-doc """
* `no_epmd`: no port mapper answers.
* `not_registered`: unknown to the port mapper; these are known.
* `closed`: its port accepts no connection.
* `tls`: it requires TLS.
* `old`: it speaks an earlier version of the handshake, or refuses this one.
* `silent`: it accepts the connection and says nothing.
""".
-type problem() ::
    no_epmd | {not_registered, [string()]} | closed | tls | old | silent.

-define(TIMEOUT_MS, 3000).
-define(NAMES, 16).
-define(ALERT, 21).

-doc "The full name of a node of this machine, which may listen at only one of its addresses.".
-spec name(string()) -> {ok, node()} | {error, problem()}.
name(Name) ->
    case name(Name, "127.0.0.1") of
        {ok, Node} ->
            {ok, Node};
        {error, _} ->
            {ok, Host} = inet:gethostname(),
            name(Name, Host)
    end.

-doc "The full name of the node registered under a name at a host.".
-spec name(string(), inet:hostname()) -> {ok, node()} | {error, problem()}.
name(Name, Host) ->
    case erl_epmd:names(Host) of
        {ok, Names} ->
            case lists:keyfind(Name, 1, Names) of
                {Name, Port} -> at_port(Host, Port, 1);
                false -> {error, {not_registered, [Of || {Of, _} <- Names]}}
            end;
        {error, _} ->
            {error, no_epmd}
    end.

%% The node never forgets a probe's name, so all use the same; a few more serve concurrent probes.
at_port(Host, Port, Number) ->
    case as(Number, Host, Port) of
        {error, busy} when Number < ?NAMES -> at_port(Host, Port, Number + 1);
        {error, busy} -> {error, silent};
        Answer -> Answer
    end.

as(Number, Host, Port) ->
    %% Raw: the other side may not speak the protocol, so its first bytes are no length.
    case gen_tcp:connect(Host, Port, [binary, {active, false}, {nodelay, true}], ?TIMEOUT_MS) of
        {ok, Socket} ->
            try
                ok = gen_tcp:send(Socket, send_name(Number)),
                answer(Socket, <<>>)
            catch
                error:{badmatch, {error, _}} -> {error, old}
            after
                gen_tcp:close(Socket)
            end;
        {error, timeout} ->
            {error, silent};
        {error, _} ->
            {error, closed}
    end.

%% The flags of this runtime.
send_name(Number) ->
    Name = <<"dyno-probe-", (integer_to_binary(Number))/binary, "@probe">>,
    Flags = element(2, erts_internal:get_dflags()),
    Message = <<$N, Flags:64, 0:32, (byte_size(Name)):16, Name/binary>>,
    <<(byte_size(Message)):16, Message/binary>>.

answer(Socket, Read) ->
    case read(Read) of
        more ->
            case gen_tcp:recv(Socket, 0, ?TIMEOUT_MS) of
                {ok, More} -> answer(Socket, <<Read/binary, More/binary>>);
                {error, timeout} -> {error, silent};
                {error, _} -> {error, old}
            end;
        Answer ->
            Answer
    end.

%% TLS: a server's alert for a client without TLS.
read(<<?ALERT, 3, _/binary>>) ->
    {error, tls};
read(<<Size:16, $s, Status:(Size - 1)/binary, Rest/binary>>) ->
    case Status of
        <<"ok", _/binary>> -> challenge(Rest);
        _ when Status =:= ~"nok"; Status =:= ~"alive" -> {error, busy};
        _ -> {error, old}
    end;
read(<<_:16, Tag, _/binary>>) when Tag =/= $s ->
    {error, old};
read(_Part) ->
    more.

challenge(
    <<_:16, $N, _Flags:64, _Challenge:32, _Creation:32, Size:16, Name:Size/binary, _/binary>>
) ->
    {ok, binary_to_atom(Name)};
challenge(<<_:16, Tag, _/binary>>) when Tag =/= $N ->
    {error, old};
challenge(_Part) ->
    more.
