%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_node_SUITE).
-moduledoc "Why a node cannot be reached, of real nodes.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        full_name,
        not_registered,
        no_epmd,
        other_name,
        cookie,
        tls,
        old,
        suspended,
        port_closed,
        own_address
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    {Peer, Node} = dyno_peers:start(["-kernel", "logger_level", "emergency"]),
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    [{peer, Peer}, {node, Node}, {name, Name}, {host, Host} | Config].

end_per_suite(Config) ->
    dyno_peers:stop({get(peer, Config), none}).

get(Key, Config) -> proplists:get_value(Key, Config).

full_name(Config) ->
    Node = get(node, Config),
    ?assertEqual({ok, Node}, dyno_target_probe:name(get(name, Config), get(host, Config))),
    %% The node has no connection of the probe's.
    ?assertEqual([], [N || N <- erpc:call(Node, erlang, nodes, [connected]), is_probe(N)]),
    ?assertEqual(ok, dyno_target_node:connect(Node, #{})).

is_probe(Node) -> lists:prefix("dyno-probe", atom_to_list(Node)).

%% The one that was probably meant is named.
not_registered(Config) ->
    Slip = list_to_atom(get(name, Config) ++ "x@" ++ get(host, Config)),
    says(Slip, #{}, ["no node", "did you mean " ++ get(name, Config) ++ "?"]).

%% A node that looks for the port mapper where there is none.
no_epmd(_Config) ->
    %% The variable would overrule the argument.
    {0, Out} = output_of("env", [
        "-u",
        "ERL_EPMD_PORT",
        "erl",
        "-noshell",
        "-sname",
        "dyno-no-epmd",
        "-dist_listen",
        "false",
        "-epmd_port",
        "1",
        "-pa",
        filename:dirname(code:which(dyno_target_node)),
        "-eval",
        "{ok, H} = inet:gethostname(), N = list_to_atom(\"shop@\" ++ H), "
        "{error, E} = dyno_target_node:connect(N, #{}), io:put_chars(dyno_error:format(E)), halt()."
    ]),
    contains(Out, ["no port mapper (epmd) answers", "epmd -names"]).

%% A short name of a node whose name is a long one.
other_name(Config) ->
    {ok, Peer, Long} = peer:start(#{
        name => peer:random_name(),
        host => "127.0.0.1",
        longnames => true,
        connection => standard_io
    }),
    [Name, _] = string:split(atom_to_list(Long), "@"),
    ?assertEqual({ok, Long}, dyno_target_probe:name(Name, get(host, Config))),
    Short = list_to_atom(Name ++ "@" ++ get(host, Config)),
    says(Short, #{}, ["is called " ++ atom_to_list(Long)]),
    says(Long, #{}, ["long name", "-name"]),
    peer:stop(Peer).

cookie(Config) ->
    Node = get(node, Config),
    true = erlang:disconnect_node(Node),
    Cookie = erlang:get_cookie(),
    says(Node, #{cookie => another}, ["cookie", "DYNO_COOKIE or --cookie"]),
    ?assertEqual(ok, dyno_target_node:connect(Node, #{cookie => Cookie})).

tls(Config) ->
    Folder = get(priv_dir, Config),
    #{server_config := Server} = public_key:pkix_test_data(#{
        server_chain => #{root => [], intermediates => [], peer => []},
        client_chain => #{root => [], intermediates => [], peer => []}
    }),
    Pem = fun(File, Entries) ->
        Path = filename:join(Folder, File),
        ok = file:write_file(Path, public_key:pem_encode(Entries)),
        Path
    end,
    {Type, Key} = proplists:get_value(key, Server),
    Options = [
        {certfile,
            Pem("cert.pem", [{'Certificate', proplists:get_value(cert, Server), not_encrypted}])},
        {keyfile, Pem("key.pem", [{Type, Key, not_encrypted}])},
        {verify, verify_none}
    ],
    File = filename:join(Folder, "dist.conf"),
    ok = file:write_file(
        File, io_lib:format("~0tp.~n", [[{server, Options}, {client, [{verify, verify_none}]}]])
    ),
    {Peer, Node} = dyno_peers:start([
        "-proto_dist", "inet_tls", "-ssl_dist_optfile", File, "-kernel", "logger_level", "emergency"
    ]),
    says(Node, #{}, ["by TLS only", "-proto_dist inet_tls"]),
    dyno_peers:stop({Peer, Node}).

%% Erlang/OTP of before 23 does not know the handshake and closes the connection; one that knows it
%% may refuse what is not in its flags.
old(Config) ->
    listening(Config, fun(_Socket) -> ok end, fun(Node) ->
        says(Node, #{}, ["too old", "dyno needs OTP 27"])
    end),
    Refuses = fun(Socket) -> ok = gen_tcp:send(Socket, <<12:16, "snot_allowed">>) end,
    listening(Config, Refuses, fun(Node) -> says(Node, #{}, ["net_kernel:allow/1"]) end),
    contains(
        dyno_target_node:format_error({otp_too_old, shop@host, "26"}), ["shop@host", "26", "27"]
    ).

%% One that this node has been connected to: its connection goes on for a minute.
suspended(_Config) ->
    {Peer, Node} = dyno_peers:start(),
    OsPid = list_to_integer(erpc:call(Node, os, getpid, [])),
    ok = dyno_target_node:connect(Node, #{}),
    dyno_escript:kill("STOP", OsPid),
    {error, {dyno_target_node, Reason}} = dyno_target_node:connect(Node, #{}),
    {no_answer, Node, emulator, Ms} = Reason,
    true = Ms < 5000,
    dyno_escript:kill("CONT", OsPid),
    dyno_peers:stop({Peer, Node}).

port_closed(Config) ->
    {ok, Listen} = gen_tcp:listen(0, []),
    {ok, Port} = inet:port(Listen),
    ok = gen_tcp:close(Listen),
    registered(Config, Port, fun(Node) -> says(Node, #{}, ["takes no connection"]) end).

%% A machine without a domain has an address by which it reaches a long name.
own_address(_Config) ->
    Script =
        "ok = dyno_target_node:ensure_distribution(#{targets => ['x@127.0.0.1'], name => own}), "
        "io:put_chars(atom_to_list(node())), halt().",
    {0, Out} = output_of("erl", [
        "-noshell", "-pa", filename:dirname(code:which(dyno_target_node)), "-eval", Script
    ]),
    ?assertEqual("own@127.0.0.1", Out).

output_of(Program, Arguments) ->
    Port = open_port({spawn_executable, os:find_executable(Program)}, [
        {args, Arguments}, exit_status, stderr_to_stdout
    ]),
    output(Port, []).

output(Port, Read) ->
    receive
        {Port, {data, Data}} -> output(Port, [Read, Data]);
        {Port, {exit_status, Status}} -> {Status, lists:flatten(Read)}
    end.

%% What listens where a node is registered, and does with each connection what it is told to.
listening(Config, Serve, Check) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}]),
    {ok, Port} = inet:port(Listen),
    Server = spawn_link(fun() -> accept(Listen, Serve) end),
    registered(Config, Port, Check),
    unlink(Server),
    exit(Server, kill),
    gen_tcp:close(Listen).

accept(Listen, Serve) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    Served = spawn_link(fun() ->
        receive
            go ->
                {ok, _} = gen_tcp:recv(Socket, 0),
                Serve(Socket),
                gen_tcp:shutdown(Socket, write)
        end
    end),
    ok = gen_tcp:controlling_process(Socket, Served),
    Served ! go,
    accept(Listen, Serve).

%% The name stays registered as long as the process that registers it, by its own connection.
registered(Config, Port, Check) ->
    Name = "dyno-fake-" ++ integer_to_list(erlang:unique_integer([positive])),
    {ok, Epmd} = gen_tcp:connect("localhost", epmd_port(), [
        binary, {active, false}, {packet, 2}
    ]),
    Size = length(Name),
    ok = gen_tcp:send(
        Epmd, <<120, Port:16, 77, 0, 6:16, 5:16, Size:16, (list_to_binary(Name))/binary, 0:16>>
    ),
    ok = inet:setopts(Epmd, [{packet, raw}]),
    {ok, <<_, 0, _/binary>>} = gen_tcp:recv(Epmd, 0),
    try
        Check(list_to_atom(Name ++ "@" ++ get(host, Config)))
    after
        gen_tcp:close(Epmd)
    end.

%% It may come from the environment.
epmd_port() ->
    case init:get_argument(epmd_port) of
        {ok, [[Port | _] | _]} -> list_to_integer(Port);
        error -> 4369
    end.

says(Node, Options, Parts) ->
    {error, Error} = dyno_target_node:connect(Node, Options),
    ?assertEqual(3, dyno_error:exit_status(Error)),
    contains(dyno_error:format(Error), Parts).

contains(Chars, Parts) ->
    Text = unicode:characters_to_list(Chars),
    [?assertMatch([_ | _], string:find(Text, Part), {Text, Part}) || Part <- Parts].
