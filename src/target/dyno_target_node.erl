%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_node).
-moduledoc """
Connects this node to a target, as a hidden node, and says in one reason why it could not.

A hidden node is not passed on to the target's other nodes and is not in its `nodes/0`, so a
measurement does not change the cluster.
""".

-export([connect/2, ensure_distribution/1, facts/1, format_error/1, fault/1]).
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
    | {no_long_name, node()}
    | {unknown_host, node(), Host :: string()}
    | {name_form, node(), shortnames | longnames}
    | {node_down, node()}
    | {host_down, node()}
    | {refused, node()}
    | {no_answer, node(), Ms :: pos_integer()}.

%% What kernel's net_setuptime is by default.
-define(SETUP_S, 7).

-doc """
Connects to a node; starts this node's distribution first where there is none.
""".
-spec connect(node(), options()) -> ok | {error, dyno_error:error()}.
connect(Node, _Options) when Node =:= node() ->
    ok;
connect(Node, Options) ->
    case ensure_distribution(Options#{target => Node}) of
        ok ->
            set_cookie(Node, Options),
            Start = erlang:monotonic_time(millisecond),
            case net_kernel:hidden_connect_node(Node) of
                true ->
                    ok;
                _ ->
                    TookMs = erlang:monotonic_time(millisecond) - Start,
                    {error, {?MODULE, why_not(Node, TookMs)}}
            end;
        {error, _} = Error ->
            Error
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
    [_, Host] = string:split(atom_to_list(Target) ++ "@", "@"),
    case lists:member($., Host) of
        true -> longnames;
        false -> shortnames
    end;
name_domain(_Options) ->
    any.

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
    HasHost = lists:member($@, atom_to_list(Name)),
    case resolved(Target) of
        {error, Host} -> {unknown_host, Target, Host};
        ok when Domain =:= longnames, not HasHost -> {no_long_name, Target};
        ok -> {no_distribution, Reason}
    end.

resolved(Node) ->
    case string:split(atom_to_list(Node), "@") of
        [_, Host] ->
            Found = [inet:getaddr(Host, Family) || Family <- [inet, inet6]],
            case lists:keymember(ok, 1, Found) of
                true -> ok;
                false -> {error, Host}
            end;
        _ ->
            ok
    end.

%% A machine without a domain name of its own can still speak to 127.0.0.1 and the like.
with_host(Name, #{target := Target}, longnames) ->
    case {string:find(atom_to_list(Name), "@"), string:split(atom_to_list(Target), "@")} of
        {nomatch, [_, "127.0.0.1" = Host]} -> list_to_atom(atom_to_list(Name) ++ "@" ++ Host);
        _ -> Name
    end;
with_host(Name, _Options, _Domain) ->
    Name.

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

%% The port mapper tells a node that is not running from one that refuses the connection. Who has
%% another cookie says so at once.
why_not(Node, TookMs) ->
    SetupMs = 1000 * application:get_env(kernel, net_setuptime, ?SETUP_S),
    [Name, Host] = string:split(atom_to_list(Node) ++ "@", "@"),
    case erl_epmd:names(string:trim(Host, trailing, "@")) of
        {ok, Names} ->
            case lists:keymember(Name, 1, Names) of
                true when TookMs >= SetupMs -> {no_answer, Node, SetupMs};
                true -> {refused, Node};
                false -> {node_down, Node}
            end;
        {error, _} ->
            case resolved(Node) of
                ok -> {host_down, Node};
                {error, Unknown} -> {unknown_host, Node, Unknown}
            end
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

-doc "One sentence for a reason.".
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
format_error({no_long_name, Node}) ->
    io_lib:format(
        "~ts has a long name, and this machine has no name with a domain for a node of its own; "
        "give it one with --name, such as --name dyno@127.0.0.1",
        [Node]
    );
format_error({name_form, Node, shortnames}) ->
    io_lib:format("~ts has a long name and this node a short one; start it with -name", [Node]);
format_error({name_form, Node, longnames}) ->
    io_lib:format("~ts has a short name and this node a long one; start it with -sname", [Node]);
format_error({node_down, Node}) ->
    io_lib:format(
        "node ~ts is not running: its host answers, but has no node of that name", [Node]
    );
format_error({host_down, Node}) ->
    io_lib:format("node ~ts is not running: no port mapper (epmd) answers at its host", [Node]);
format_error({no_answer, Node, Ms}) ->
    io_lib:format(
        "node ~ts is running but did not answer within ~b ms: it is stopped, or processes of priority "
        "high or max take all its schedulers; try again when it has a moment",
        [Node, Ms]
    );
format_error({refused, Node}) ->
    io_lib:format(
        "node ~ts is running but refuses the connection: its cookie is another one; "
        "give it with --cookie",
        [Node]
    ).

-doc "A node that cannot be reached is the target's fault.".
-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
