%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_own_node).
-moduledoc false.
%% Names this Erlang, and the nodes that it starts.
%%
%% A node never forgets another's name, so names come from a small fixed set: a target measured a
%% thousand times learns at most 64. The port mapper (epmd) knows the free names.
%%
%% If all of dyno's nodes are on this machine, it listens only on the loopback address. The port
%% mapper starts as in `erl -sname`, for the whole machine, or at `ERL_EPMD_ADDRESS`.

-export([start/1, is_ours/1, is_here/1, loopback/1, peer/2, format_error/1, fault/1]).
-export_type([options/0, reason/0]).

-type options() :: #{
    domain := shortnames | longnames,
    %% By default one of `dyno1` to `dyno64`, with the host, if given.
    name => atom(),
    host => string(),
    hidden := boolean(),
    listens := loopback | everywhere
}.

-type reason() ::
    {name_taken, atom()}
    | {names_taken, pos_integer()}
    | {no_epmd, string()}
    | {no_distribution, term()}.

-define(NAMES, 64).
%% More than any load has.
-define(PEERS, 256).
-define(LOOPBACK, {127, 0, 0, 1}).
-define(EPMD_MS, 10_000).
-define(EPMD_PAUSE_MS, 20).

-doc "Names this Erlang. If no port mapper answers, starts one and waits for its answer.".
-spec start(options()) -> dyno_error:result().
start(Options) ->
    maybe
        ok ?= dyno_cookie:prepare(),
        ok = start_epmd(),
        ok = listen(Options),
        named(names(Options), Options)
    end.

names(#{name := Name}) ->
    [Name];
names(Options) ->
    At =
        case Options of
            #{host := Host} -> "@" ++ Host;
            #{} -> ""
        end,
    [list_to_atom(Name ++ At) || Name <- free("dyno")].

%% By number, so that the first names are reused.
free(Prefix) ->
    All = [Prefix ++ integer_to_list(N) || N <- lists:seq(1, ?NAMES)],
    All -- registered_names().

registered_names() ->
    case erl_epmd:names(?LOOPBACK) of
        {ok, Registered} -> [Name || {Name, _Port} <- Registered];
        {error, _} -> []
    end.

named([], _Options) ->
    {error, {?MODULE, {names_taken, ?NAMES}}};
named([Name | Names], #{domain := Domain, hidden := Hidden} = Options) ->
    How = #{name_domain => Domain, hidden => Hidden, dist_listen => true},
    case quietly(fun() -> net_kernel:start(Name, How) end) of
        {ok, _} ->
            ok;
        {error, Reason} ->
            case {is_taken(Name), Options} of
                %% Taken by another dyno just now.
                {true, #{name := _}} -> {error, {?MODULE, {name_taken, Name}}};
                {true, _} -> named(Names, Options);
                {false, _} -> {error, {?MODULE, {no_distribution, Reason}}};
                {not_known, _} -> {error, {?MODULE, {no_epmd, epmd_port()}}}
            end
    end.

is_taken(Name) ->
    case erl_epmd:names(?LOOPBACK) of
        {ok, Registered} -> lists:keymember(short(Name), 1, Registered);
        {error, _} -> not_known
    end.

short(Name) -> hd(string:split(atom_to_list(Name), "@")).

epmd_port() ->
    case init:get_argument(epmd_port) of
        {ok, [[Port | _] | _]} -> Port;
        _ -> "4369"
    end.

%% Reports of OTP's own processes say less than the error.
quietly(Start) ->
    Filter = fun(_Event, _) ->
        case get('$ancestors') of
            [net_sup | _] -> stop;
            [kernel_sup | _] -> stop;
            _ -> ignore
        end
    end,
    _ = logger:add_primary_filter(?MODULE, {Filter, []}),
    try
        Start()
    after
        _ = logger:remove_primary_filter(?MODULE)
    end.

%% The user's setting stays. A node reads it when it begins to listen.
listen(#{listens := Where}) ->
    case {Where, application:get_env(kernel, inet_dist_use_interface), protocol()} of
        {loopback, undefined, "inet_" ++ _} ->
            application:set_env(kernel, inet_dist_use_interface, ?LOOPBACK);
        _ ->
            ok
    end.

protocol() ->
    case init:get_argument(proto_dist) of
        {ok, [[Protocol | _] | _]} -> Protocol;
        _ -> "inet_tcp"
    end.

start_epmd() ->
    case init:get_argument(start_epmd) of
        {ok, [["false" | _] | _]} -> ok;
        _ -> start_epmd(erl_epmd:names(?LOOPBACK))
    end.

start_epmd({ok, _}) ->
    ok;
start_epmd({error, _}) ->
    Root = code:root_dir(),
    Erts = "erts-" ++ erlang:system_info(version),
    Path = lists:join(":", [filename:join([Root, Erts, "bin"]), filename:join(Root, "bin")]),
    case os:find_executable("epmd", lists:append(Path)) of
        false ->
            ok;
        %% A second port mapper ends by itself.
        Epmd ->
            Port = open_port({spawn_executable, Epmd}, [{args, ["-daemon"]}, exit_status, hide]),
            EndMs = erlang:monotonic_time(millisecond) + ?EPMD_MS,
            receive
                {Port, {exit_status, _}} -> ok
            after ?EPMD_MS -> port_close(Port)
            end,
            answers(EndMs)
    end.

%% The daemon begins to listen after the program has ended.
answers(EndMs) ->
    case {erl_epmd:names(?LOOPBACK), erlang:monotonic_time(millisecond) < EndMs} of
        {{error, _}, true} ->
            receive
            after ?EPMD_PAUSE_MS -> answers(EndMs)
            end;
        _ ->
            ok
    end.

-doc "Whether a registered name is one of dyno's own, which are no targets.".
-spec is_ours(string()) -> boolean().
is_ours(Name) ->
    re:run(Name, "^dyno\\d+$", [{capture, none}]) =:= match.

-spec is_here(node()) -> boolean().
is_here(Node) ->
    case {string:split(atom_to_list(Node), "@"), inet:gethostname()} of
        {[_, Host], {ok, Host}} -> true;
        {[_, Host], _} -> is_own(inet:getaddr(Host, inet));
        _ -> true
    end.

is_own({ok, {127, _, _, _}}) ->
    true;
is_own({ok, Address}) ->
    {ok, Interfaces} = inet:getifaddrs(),
    lists:member({addr, Address}, lists:append([Options || {_, Options} <- Interfaces]));
is_own({error, _}) ->
    false.

-doc "Whether a host's name means the loopback address, used by others on this machine.".
-spec loopback(string()) -> boolean().
loopback(Host) ->
    case inet:getaddr(Host, inet) of
        {ok, {127, _, _, _}} -> true;
        _ -> false
    end.

-doc """
Options of `m:peer` for a node to start: its name, and on this machine its host and arguments of
`erl` to listen like this node.

The name contains a number of this node, so that no other dyno starts a node of the same name; then
a number of its own.
""".
-spec peer(string(), here | elsewhere) ->
    #{name := string(), longnames := boolean(), args := [string()], host => string()}.
peer(Base, Where) ->
    [Own, Host] = string:split(atom_to_list(node()), "@"),
    Name = peer_name([Base, $-, number(Own, Where)]),
    IsLong = net_kernel:longnames() =:= true,
    Options = #{name => Name, longnames => IsLong, args => []},
    case {Where, application:get_env(kernel, inet_dist_use_interface)} of
        {elsewhere, _} ->
            Options;
        {here, {ok, {127, _, _, _}}} ->
            Arguments = ["-kernel", "inet_dist_use_interface", "{127,0,0,1}"],
            Options#{host => local_host(IsLong), args := Arguments};
        {here, _} ->
            Options#{host => Host}
    end.

%% 7 for dyno7, a large number for other names. Another machine may have a dyno7 too.
number("dyno" ++ Number = Own, here) ->
    case is_ours(Own) of
        true -> Number;
        false -> number(node())
    end;
number(_Own, _Where) ->
    number(node()).

number(Node) -> integer_to_list(?NAMES + 1 + erlang:phash2(Node)).

local_host(true) -> "127.0.0.1";
local_host(false) -> "localhost".

%% Not the first free number but the next one: a node that has just ended may still be registered.
peer_name(Prefix) ->
    {ok, Counter} = dyno_once:value(?MODULE, fun() -> {ok, atomics:new(1, [])} end),
    Number = 1 + (atomics:add_get(Counter, 1, 1) - 1) rem ?PEERS,
    Name = lists:flatten([Prefix, $-, integer_to_list(Number)]),
    case lists:member(Name, registered_names()) of
        true -> peer_name(Prefix);
        false -> Name
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({name_taken, Name}) ->
    io_lib:format(
        "another node of this machine is called ~ts; give this one another name with --name",
        [short(Name)]
    );
format_error({names_taken, Count}) ->
    io_lib:format(
        "all ~b names of dyno's nodes (dyno1, dyno2, ...) are taken on this machine; give this one "
        "another name with --name",
        [Count]
    );
format_error({no_epmd, Port}) ->
    io_lib:format(
        "the port mapper of Erlang nodes (epmd) does not answer at port ~ts of this machine; see "
        "what \"epmd -names\" says, or start it by \"epmd -daemon\"",
        [Port]
    );
format_error({no_distribution, Reason}) ->
    io_lib:format(
        "this Erlang could not become a node (~0tP); see whether \"erl -sname dyno\" starts one, "
        "and give another name with --name",
        [Reason, 8]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
