%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_node).
-moduledoc """
Connects this node to a target, as a hidden node, and says in one reason why it could not.

Why not is one of these: its host has no port mapper (epmd), no such node runs there, its name is
long and was given short or the other way round, its cookie is another one, it takes connections by
TLS only, or its Erlang/OTP is too old. Each sentence says what to type.

A hidden node is not passed on to the target's other nodes and is not in its `nodes/0`, so a
measurement does not change the cluster.
""".

-export([connect/2, ensure_distribution/1, facts/1, facts_of/1, format_error/1, fault/1]).
-export_type([options/0, reason/0]).

-type options() :: #{
    %% The cookie to show the target; by default this node's own.
    cookie => atom(),
    %% This node's name where it has none yet.
    name => atom(),
    %% Whether this node, where it has no name yet, keeps out of the target's nodes/0; true.
    hidden => boolean()
}.

-type reason() ::
    {no_distribution, term()}
    | {unknown_host, node(), Host :: string()}
    | {name_form, node(), shortnames | longnames}
    | {node_down, node(), Others :: [string()]}
    | {other_name, node(), Is :: node()}
    | {otp_too_old, node(), Release :: string() | unknown}
    | {no_answer, node(), Ms :: pos_integer()}
    | {no_long_name | host_down | port_closed | refused, node()}
    | {needs_tls | not_over_tls | no_tls, node()}.

%% What kernel's net_setuptime is by default.
-define(SETUP_S, 7).
%% Of Erlang/OTP: trace sessions came with it.
-define(FLOOR, 27).
-define(TIMEOUT_MS, 30_000).

-doc """
Connects to a node, or to all of several; starts this node's distribution first where there is
none.
""".
-spec connect(node() | [node()], options()) -> ok | {error, dyno_error:error()}.
connect([], _Options) ->
    ok;
connect([Node | Nodes], Options) ->
    maybe
        ok ?= connect(Node, Options),
        connect(Nodes, Options)
    end;
connect(Node, _Options) when Node =:= node() ->
    ok;
connect(Node, Options) ->
    maybe
        ok ?= ensure_distribution(Options#{target => Node}),
        set_cookie(Node, Options),
        {_, true} ?= timer:tc(fun() -> net_kernel:hidden_connect_node(Node) end, millisecond),
        check_release(Node)
    else
        {error, _} = Error -> Error;
        {TookMs, _} -> {error, {?MODULE, why_not(Node, TookMs)}}
    end.

%% An error of the call is for the first one who calls it in earnest.
check_release(Node) ->
    try
        Release = erpc:call(Node, erlang, system_info, [otp_release], ?TIMEOUT_MS),
        case string:to_integer(Release) of
            {Number, _} when is_integer(Number), Number >= ?FLOOR -> ok;
            _ -> {error, {?MODULE, {otp_too_old, Node, Release}}}
        end
    catch
        error:{erpc, _} -> {error, {?MODULE, {no_answer, Node, ?TIMEOUT_MS}}}
    end.

set_cookie(Node, #{cookie := Cookie}) -> erlang:set_cookie(Node, Cookie);
set_cookie(_Node, _Options) -> true.

-doc """
Makes this node a hidden one of the network, with long names where the target has one.
""".
-spec ensure_distribution(#{
    target => node(), cookie => atom(), name => atom(), hidden => boolean()
}) ->
    ok | {error, dyno_error:error()}.
ensure_distribution(Options) ->
    Domain = name_domain(Options),
    case {is_alive(), net_kernel:longnames()} of
        {true, true} when Domain =:= shortnames ->
            {error, {?MODULE, {name_form, map_get(target, Options), longnames}}};
        {true, false} when Domain =:= longnames ->
            {error, {?MODULE, {name_form, map_get(target, Options), shortnames}}};
        {true, _} ->
            ok;
        {false, _} ->
            start(Options, Domain)
    end.

%% A long name's host has a dot in it.
name_domain(#{target := Target}) ->
    {_, Host} = parts(Target),
    case lists:member($., Host) of
        true -> longnames;
        false -> shortnames
    end;
name_domain(_Options) ->
    any.

parts(Node) ->
    case string:split(atom_to_list(Node), "@") of
        [Name, Host] -> {Name, Host};
        [Name] -> {Name, ""}
    end.

start(Options, any) ->
    start(Options, name_domain(#{target => maps:get(name, Options, '')}));
start(Options, Domain) ->
    Default = list_to_atom("dyno-" ++ os:getpid()),
    Name = with_host(maps:get(name, Options, Default), Options, Domain),
    start_epmd(),
    Hidden = maps:get(hidden, Options, true),
    case net_kernel:start(Name, #{name_domain => Domain, hidden => Hidden, dist_listen => true}) of
        {ok, _} -> ok;
        {error, Reason} -> {error, {?MODULE, not_started(Reason, Name, Domain, Options)}}
    end.

not_started(Reason, Name, Domain, Options) ->
    Target = maps:get(target, Options, Name),
    case {resolved(Target), parts(Name)} of
        {{error, Host}, _} -> {unknown_host, Target, Host};
        {ok, {_, ""}} when Domain =:= longnames -> {no_long_name, Target};
        {ok, _} -> {no_distribution, Reason}
    end.

resolved(Node) ->
    {_, Host} = parts(Node),
    Found = [inet:getaddr(Host, Family) || Family <- [inet, inet6]],
    case Host =:= "" orelse lists:keymember(ok, 1, Found) of
        true -> ok;
        false -> {error, Host}
    end.

%% Few machines have a domain name; the address from which this one reaches the target is a host
%% with dots as well.
with_host(Name, #{target := Target}, longnames) ->
    maybe
        {_, ""} ?= parts(Name),
        {_, [_ | _] = Host} ?= parts(Target),
        {ok, Address} ?= address_towards(Host),
        list_to_atom(atom_to_list(Name) ++ "@" ++ Address)
    else
        _ -> Name
    end;
with_host(Name, _Options, _Domain) ->
    Name.

%% Nothing is sent: a datagram socket that is connected knows its own address.
address_towards(Host) ->
    maybe
        {ok, Theirs} ?= inet:getaddr(Host, inet),
        {ok, Socket} ?= gen_udp:open(0, [inet]),
        Connected = gen_udp:connect(Socket, Theirs, 9),
        Named = inet:sockname(Socket),
        ok = gen_udp:close(Socket),
        ok ?= Connected,
        {ok, {Ours, _}} ?= Named,
        {ok, inet:ntoa(Ours)}
    end.

%% net_kernel starts no port mapper, `erl -sname` does; a second one ends by itself.
start_epmd() ->
    Root = code:root_dir(),
    Version = erlang:system_info(version),
    Paths = [filename:join([Root, "erts-" ++ Version, "bin"]), filename:join(Root, "bin")],
    Found = [os:find_executable("epmd", Path) || Path <- Paths],
    case lists:filter(fun is_list/1, Found) of
        [Epmd | _] -> run(Epmd, ["-daemon"]);
        [] -> ok
    end.

run(Program, Arguments) ->
    Port = open_port({spawn_executable, Program}, [{args, Arguments}, exit_status, hide]),
    receive
        {Port, {exit_status, _}} -> ok
    after 5000 ->
        true = port_close(Port),
        ok
    end.

%% Who has another cookie says so at once; a node that is stopped says nothing.
why_not(Node, TookMs) ->
    SetupMs = 1000 * application:get_env(kernel, net_setuptime, ?SETUP_S),
    {Name, Host} = parts(Node),
    case {dyno_target_probe:name(Name, Host), is_tls()} of
        {{ok, Node}, _} when TookMs >= SetupMs -> {no_answer, Node, SetupMs};
        {{ok, Node}, true} -> {no_tls, Node};
        {{ok, Node}, false} -> {refused, Node};
        {{ok, Other}, _} -> {other_name, Node, Other};
        {{error, {not_registered, Names}}, _} ->
            %% Those of dyno's own are no targets.
            {node_down, Node, [Of || Of <- Names, not lists:prefix("dyno-", Of)]};
        {{error, no_epmd}, _} ->
            case resolved(Node) of
                ok -> {host_down, Node};
                {error, Unknown} -> {unknown_host, Node, Unknown}
            end;
        %% Its certificates were not accepted, or ours.
        {{error, tls}, true} -> {not_over_tls, Node};
        {{error, tls}, false} -> {needs_tls, Node};
        {{error, old}, _} -> {otp_too_old, Node, unknown};
        {{error, silent}, _} -> {no_answer, Node, SetupMs};
        {{error, closed}, _} -> {port_closed, Node}
    end.

is_tls() ->
    case init:get_argument(proto_dist) of
        {ok, [[Protocol | _] | _]} -> lists:prefix("inet_tls", Protocol);
        _ -> false
    end.

-doc "A node's part in a recording, by functions of OTP, which every node has.".
-spec facts(node()) -> #{atom() => node() | binary() | pos_integer()}.
facts(Node) ->
    Info = fun(Item) -> erpc:call(Node, erlang, system_info, [Item]) end,
    #{
        name => Node,
        otp => list_to_binary(Info(otp_release)),
        erts => list_to_binary(Info(version)),
        schedulers_online => Info(schedulers_online),
        os_pid => list_to_binary(erpc:call(Node, os, getpid, []))
    }.

-doc "Those of several nodes; of one that is lost its name.".
-spec facts_of([node()]) -> [#{atom() => node() | binary() | pos_integer()}].
facts_of(Nodes) ->
    [
        try
            facts(Node)
        catch
            error:{erpc, _} -> #{name => Node}
        end
     || Node <- Nodes
    ].

-spec format_error(reason()) -> unicode:chardata().
format_error({no_distribution, Reason}) ->
    io_lib:format(
        "this node could not start its distribution (~0tP); where another node has its name, "
        "give it one with --name",
        [Reason, 8]
    );
format_error({unknown_host, Node, Host}) ->
    io_lib:format(
        "no address is known for ~ts, the host of ~ts; look whether its name is right and resolves "
        "here",
        [Host, Node]
    );
format_error({name_form, Node, Ours}) ->
    {Theirs, Own, Example} =
        case Ours of
            shortnames -> {"long", "short", "dyno@127.0.0.1"};
            longnames -> {"short", "long", "dyno"}
        end,
    io_lib:format(
        "~ts has a ~ts name and this node (~ts) a ~ts one; give dyno a ~ts one with --name, such "
        "as --name ~ts",
        [Node, Theirs, node(), Own, Theirs, Example]
    );
format_error({other_name, Node, Is}) ->
    io_lib:format(
        "the node that is registered as ~ts is called ~ts; give it that name: ~ts",
        [element(1, parts(Node)), Is, Is]
    );
format_error({node_down, Node, Others}) ->
    {Name, Host} = parts(Node),
    io_lib:format("no node ~ts is registered at ~ts~ts", [Name, Host, others(Name, Others)]);
format_error({otp_too_old, Node, unknown}) ->
    io_lib:format(
        "~ts refuses this node: its Erlang/OTP is too old to speak with OTP ~ts (dyno needs OTP ~b "
        "or later in the target, which is where trace sessions came), or net_kernel:allow/1 lets "
        "only others in",
        [Node, erlang:system_info(otp_release), ?FLOOR]
    );
format_error({otp_too_old, Node, Release}) ->
    io_lib:format(
        "node ~ts runs Erlang/OTP ~ts; dyno needs OTP ~b or later in the target, "
        "which is where trace sessions came",
        [Node, Release, ?FLOOR]
    );
format_error({no_answer, Node, Ms}) ->
    io_lib:format(
        "node ~ts is running but did not answer within ~ts: it is stopped, or processes of "
        "priority high or max take all its schedulers; try again when it has a moment",
        [Node, dyno_unit:format(Ms, ~"ms")]
    );
format_error({Kind, Node}) ->
    io_lib:format(sentence(Kind), [Node]).

sentence(no_long_name) ->
    "~ts has a long name, and this machine has no name with a domain for a node of its own; "
    "give it one with --name, such as --name dyno@127.0.0.1";
sentence(host_down) ->
    "no port mapper (epmd) answers at the host of ~ts: no Erlang node with a name runs there, "
    "or port 4369 is closed to this machine; \"epmd -names\" typed there lists its nodes";
sentence(port_closed) ->
    "~ts is registered at its host, but takes no connection: it has just ended, or a firewall "
    "closes its port to this machine (inet_dist_listen_min and _max of kernel say which port)";
sentence(needs_tls) ->
    "~ts takes connections by TLS only; give this node the same flags: "
    "ERL_FLAGS=\"-proto_dist inet_tls -ssl_dist_optfile FILE\" dyno ...";
sentence(no_tls) ->
    "~ts takes connections without TLS, and this node makes them with it; leave -proto_dist "
    "out of its flags";
sentence(not_over_tls) ->
    "~ts takes connections by TLS, but not this one: see whether the certificates in "
    "-ssl_dist_optfile are of the same authority, and whether the cookie is the same "
    "(--cookie)";
sentence(refused) ->
    "node ~ts is running but refuses the connection: its cookie is another one; give it with "
    "--cookie or DYNO_COOKIE (erlang:get_cookie() in its shell shows it)".

others(_Name, []) ->
    ", nor any other";
others(Name, Others) ->
    Listed = lists:join(", ", lists:sort(Others)),
    case dyno_similar:nearest(Name, Others) of
        {ok, Nearest} -> ["; did you mean ", Nearest, "? The nodes registered there: ", Listed];
        none -> ["; the nodes registered there: ", Listed]
    end.

-doc "A node that cannot be reached is the target's fault.".
-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
