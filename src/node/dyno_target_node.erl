%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_node).
-moduledoc false.
%% Connects this node to a target, as a hidden node, and finds the reason of a failure: no port
%% mapper (epmd), no such node, a long name given short or the reverse, another cookie, only TLS, or
%% too old an Erlang/OTP. Each message says what to type.
%%
%% A hidden node is in no `nodes/0` and not passed on: a measurement does not change the cluster.

-export([connect/2, ensure_distribution/1, facts/1, facts_of/1, format_error/1, fault/1]).
-export_type([options/0, reason/0]).

-type options() :: #{
    %% The target's cookie; by default this node's own.
    cookie => atom(),
    %% This node's name if unnamed.
    name => atom(),
    %% Whether a node without a name yet stays out of the target's nodes/0; true.
    hidden => boolean(),
    %% This node's targets. If all are on this machine, it listens on the loopback address.
    targets => [node()],
    %% Nodes that will connect to nodes started by this one.
    others => [node()]
}.

-type reason() ::
    {unknown_host, node(), Host :: string()}
    | {name_form, node(), shortnames | longnames}
    | {node_down, node(), Others :: [string()]}
    | {other_name, node(), Is :: node()}
    | {otp_too_old, node(), Release :: string() | unknown}
    %% The part that did not answer, and the time waited.
    | {no_answer, node(), emulator | processes | connection, Ms :: pos_integer()}
    | {no_cookie, node(), Why :: unicode:chardata()}
    | {no_long_name | host_down | port_closed | refused, node()}
    | {needs_tls | not_over_tls | no_tls, node()}.

%% The default of kernel's net_setuptime.
-define(SETUP_S, 7).
-define(TIMEOUT_MS, 30_000).

-spec connect(node() | [node()], options()) -> dyno_error:result().
connect([], _Options) ->
    ok;
connect([Node | Nodes] = All, Options) ->
    maybe
        ok ?= connect(Node, maps:merge(#{targets => All}, Options)),
        connect(Nodes, Options)
    end;
connect(Node, _Options) when Node =:= node() ->
    ok;
connect(Node, Options) ->
    maybe
        ok ?= ensure_distribution(maps:merge(#{targets => [Node]}, Options)),
        set_cookie(Node, Options),
        {_, true} ?= timer:tc(fun() -> net_kernel:hidden_connect_node(Node) end, millisecond),
        ok ?= answers(Node),
        check_release(Node)
    else
        {error, _} = Error -> Error;
        {TookMs, _} -> {error, {?MODULE, why_not(Node, TookMs)}}
    end.

%% An old connection may be to a node suspended meanwhile.
answers(Node) ->
    case timer:tc(fun() -> dyno_target_silence:answers(Node) end, millisecond) of
        {_, true} -> ok;
        {Ms, false} -> {error, {?MODULE, {no_answer, Node, emulator, Ms}}}
    end.

%% An error of the call is left to the first real call.
check_release(Node) ->
    try
        Release = dyno_remote:call(Node, erlang, system_info, [otp_release], ?TIMEOUT_MS),
        case dyno_version:is_supported(Release) of
            true -> ok;
            false -> {error, {?MODULE, {otp_too_old, Node, Release}}}
        end
    catch
        error:{erpc, _} -> {error, {?MODULE, no_answer(Node)}}
    end.

%% A node's emulator answers some questions without its processes.
no_answer(Node) ->
    What =
        case dyno_target_silence:is_connected(Node) andalso dyno_target_silence:answers(Node) of
            true -> processes;
            false -> emulator
        end,
    {no_answer, Node, What, ?TIMEOUT_MS}.

set_cookie(Node, #{cookie := Cookie}) -> erlang:set_cookie(Node, Cookie);
set_cookie(_Node, _Options) -> true.

-doc "Makes this node a hidden node of the network, with long names if the first target has one.".
-spec ensure_distribution(options()) -> dyno_error:result().
ensure_distribution(Options) ->
    Targets = maps:get(targets, Options, []),
    case {is_alive(), net_kernel:longnames(), Targets} of
        {false, _, _} ->
            start(Options, Targets);
        {true, IsLong, [Target | _]} when is_boolean(IsLong) ->
            case {IsLong, name_domain(Target)} of
                {true, shortnames} -> {error, {?MODULE, {name_form, Target, longnames}}};
                {false, longnames} -> {error, {?MODULE, {name_form, Target, shortnames}}};
                _ -> ok
            end;
        {true, _, _} ->
            ok
    end.

%% A long name's host has a dot.
name_domain(Node) ->
    {_, Host} = parts(Node),
    case lists:member($., Host) of
        true -> longnames;
        false -> shortnames
    end.

parts(Node) ->
    case string:split(atom_to_list(Node), "@") of
        [Name, Host] -> {Name, Host};
        [Name] -> {Name, ""}
    end.

start(Options, Targets) ->
    Target = hd(Targets ++ [maps:get(name, Options, '')]),
    Domain = name_domain(Target),
    Named =
        case Options of
            #{name := Name} -> #{name => with_host(Name, Target, Domain)};
            #{} -> host(Target, Domain)
        end,
    IsHidden = maps:get(hidden, Options, true),
    Started = dyno_own_node:start(Named#{
        domain => Domain, hidden => IsHidden, listens => listens(Options, IsHidden, Named)
    }),
    case Started of
        ok -> ok;
        {error, {dyno_own_node, {no_distribution, _}} = Why} -> not_started(Why, Target, Domain);
        {error, _} -> Started
    end.

%% Others reach a visible node by its host's name.
listens(Options, IsHidden, Named) ->
    All = maps:get(targets, Options, []) ++ maps:get(others, Options, []),
    IsFound =
        case {IsHidden, Named} of
            {true, _} -> true;
            {false, #{name := Name}} -> dyno_own_node:loopback(element(2, parts(Name)));
            {false, _} -> false
        end,
    case IsFound andalso lists:all(fun dyno_own_node:is_here/1, All) of
        true -> loopback;
        false -> everywhere
    end.

not_started(Why, Target, Domain) ->
    case {resolved(Target), host(Target, Domain)} of
        {{error, Host}, _} -> {error, {?MODULE, {unknown_host, Target, Host}}};
        {ok, #{host := _}} -> {error, Why};
        {ok, _} when Domain =:= longnames -> {error, {?MODULE, {no_long_name, Target}}};
        {ok, _} -> {error, Why}
    end.

resolved(Node) ->
    {_, Host} = parts(Node),
    Found = [inet:getaddr(Host, Family) || Family <- [inet, inet6]],
    case Host =:= "" orelse lists:keymember(ok, 1, Found) of
        true -> ok;
        false -> {error, Host}
    end.

with_host(Name, Target, Domain) ->
    case {parts(Name), host(Target, Domain)} of
        {{Short, ""}, #{host := Host}} -> list_to_atom(Short ++ "@" ++ Host);
        _ -> Name
    end.

%% A target known by the loopback address knows this node by it too. Few machines have a domain
%% name; the address from which this one reaches the target is a host with dots too.
host(Target, Domain) ->
    {_, Host} = parts(Target),
    maybe
        [_ | _] ?= Host,
        false ?= dyno_own_node:loopback(Host),
        longnames ?= Domain,
        {ok, Address} ?= address_towards(Host),
        #{host => Address}
    else
        true -> #{host => Host};
        _ -> #{}
    end.

%% Nothing is sent: a connected datagram socket knows its own address.
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

%% Another cookie is refused at once; a stopped node says nothing.
why_not(Node, TookMs) ->
    SetupMs = 1000 * application:get_env(kernel, net_setuptime, ?SETUP_S),
    {Name, Host} = parts(Node),
    case {dyno_target_probe:name(Name, Host), is_tls()} of
        {{ok, Node}, _} when TookMs >= SetupMs -> {no_answer, Node, connection, SetupMs};
        {{ok, Node}, true} ->
            {no_tls, Node};
        {{ok, Node}, false} ->
            refused(Node);
        {{ok, Other}, _} ->
            {other_name, Node, Other};
        {{error, {not_registered, Names}}, _} ->
            %% dyno's own nodes are no targets.
            {node_down, Node, [Of || Of <- Names, not dyno_own_node:is_ours(Of)]};
        {{error, no_epmd}, _} ->
            case resolved(Node) of
                ok -> {host_down, Node};
                {error, Unknown} -> {unknown_host, Node, Unknown}
            end;
        %% One side refused the other's certificates.
        {{error, tls}, true} ->
            {not_over_tls, Node};
        {{error, tls}, false} ->
            {needs_tls, Node};
        {{error, old}, _} ->
            {otp_too_old, Node, unknown};
        {{error, silent}, _} ->
            {no_answer, Node, connection, SetupMs};
        {{error, closed}, _} ->
            {port_closed, Node}
    end.

%% A given cookie is set for this node only.
refused(Node) ->
    case {dyno_cookie:missing(), erlang:get_cookie(Node) =:= erlang:get_cookie()} of
        {{ok, Why}, true} -> {no_cookie, Node, Why};
        _ -> {refused, Node}
    end.

is_tls() ->
    case init:get_argument(proto_dist) of
        {ok, [[Protocol | _] | _]} -> lists:prefix("inet_tls", Protocol);
        _ -> false
    end.

-doc "A node's part in a recording, from OTP functions that every node has.".
-spec facts(node()) -> #{atom() => node() | binary() | pos_integer()}.
facts(Node) ->
    Items = [otp_release, version, schedulers_online],
    [Release, Version, Schedulers, OsPid] = dyno_remote:each(
        Node, [{erlang, system_info, [Item]} || Item <- Items] ++ [{os, getpid, []}]
    ),
    #{
        name => Node,
        otp => list_to_binary(Release),
        erts => list_to_binary(Version),
        schedulers_online => Schedulers,
        os_pid => list_to_binary(OsPid)
    }.

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
        [Node, erlang:system_info(otp_release), dyno_version:least_otp()]
    );
format_error({otp_too_old, Node, Release}) ->
    io_lib:format(
        "node ~ts runs Erlang/OTP ~ts; dyno needs OTP ~b or later in the target, "
        "which is where trace sessions came",
        [Node, Release, dyno_version:least_otp()]
    );
format_error({no_cookie, Node, Why}) ->
    io_lib:format(
        "node ~ts is running but refuses the connection, and this user has no cookie (~ts); give "
        "the node's in the environment as DYNO_COOKIE (erlang:get_cookie() in its shell shows it)",
        [Node, Why]
    );
format_error({no_answer, Node, What, Ms}) ->
    io_lib:format(unanswered(What), [Node, dyno_unit:format(Ms, ~"ms")]);
format_error({Kind, Node}) ->
    io_lib:format(sentence(Kind), [Node]).

%% A stopped node and one with busy schedulers look the same from here.
unanswered(connection) ->
    "~ts is registered at its host, but did not answer the connection within ~ts; dyno cannot tell "
    "why from here: see at its host whether its emulator runs or is stopped, then try again";
unanswered(emulator) ->
    "~ts is connected, but its emulator did not answer within ~ts; dyno cannot tell why from here: "
    "see at its host whether the emulator runs or is stopped, and whether the network is whole";
unanswered(processes) ->
    "the emulator of ~ts answers, but its processes did not answer a call within ~ts; try again "
    "when the node has less to do".

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
    "(DYNO_COOKIE)";
sentence(refused) ->
    "node ~ts is running but refuses the connection: its cookie is another one; give it with "
    "DYNO_COOKIE or --cookie (erlang:get_cookie() in its shell shows it)".

others(_Name, []) ->
    ", nor any other";
others(Name, Others) ->
    Listed = lists:join(", ", lists:sort(Others)),
    case dyno_similar:nearest(Name, Others) of
        {ok, Nearest} -> ["; did you mean ", Nearest, "? The nodes registered there: ", Listed];
        none -> ["; the nodes registered there: ", Listed]
    end.

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
