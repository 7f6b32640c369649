%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_peer).
-moduledoc """
Starts a node for a suite's load, on this machine, with the suite's code paths and, in a rebar3 or
Mix project, its configuration.

The node is linked to the process that starts it. Started in `init_suite/0`, it lives as long as the
test and ends with it in any case, also when dyno is killed.

```erlang
{ok, Node} = dyno_peer:start(#{name => "shop", applications => [shop]}).
```
""".

-export([start/1, stop/1, is_started/1, format_error/1]).
-export_type([options/0, reason/0]).

-type options() :: #{
    %% The beginning of the node's name; two numbers follow.
    name => string() | binary(),
    %% The whole name without the host, instead.
    full_name => string(),
    %% Folders of beam files, after those of this node.
    code_paths => [file:filename()],
    %% More arguments for erl: ["+S", "2"].
    arguments => [string()],
    %% A program, such as ssh, that runs erl there, without this node's code paths.
    exec => {file:filename(), [string()]},
    host => string(),
    %% Started with all dependencies.
    applications => [atom()],
    %% The limit for booting; 30000.
    timeout_ms => pos_integer()
}.

-type reason() ::
    {no_distribution | no_cookie, dyno_error:error()}
    | {does_not_boot, string(), term(), [string()]}
    | {application, atom(), term()}.

-doc "Starts a node. `format_error/1` formats the error's reason.".
-spec start(options()) -> {ok, node()} | {error, {dyno_peer, reason()}}.
start(Options) ->
    Started =
        case dyno_target_node:ensure_distribution(#{}) of
            ok -> boot(Options);
            {error, Unnamed} -> {error, {no_distribution, Unnamed}}
        end,
    case Started of
        {ok, Node} -> {ok, Node};
        {error, Reason} -> {error, {?MODULE, Reason}}
    end.

boot(Options) ->
    case dyno_error:attempt(fun() -> environment(Options) end) of
        {ok, Environment} -> boot(Options, Environment);
        {error, Reason} -> {error, {no_cookie, Reason}}
    end.

boot(Options, Environment) ->
    #{name := Name, args := Listening} = Own = own(Options),
    Arguments =
        ["-connect_all", "false"] ++ Listening ++
            paths(Options) ++ configuration(Options) ++ maps:get(arguments, Options, []),
    PeerOptions = (maps:merge(Own, maps:with([exec, host], Options)))#{
        %% Not over the distribution: the node ends with this one in any case.
        connection => standard_io,
        wait_boot => maps:get(timeout_ms, Options, 30_000),
        env => Environment,
        args => Arguments
    },
    try peer:start_link(PeerOptions) of
        {ok, Peer, Node} ->
            put({?MODULE, Node}, Peer),
            persistent_term:put({?MODULE, Node}, started),
            ok = dyno_cookie:agree(Peer),
            connected(Peer, Node, Arguments, maps:get(applications, Options, []));
        {error, Reason} ->
            {error, {does_not_boot, Name, Reason, Arguments}}
    catch
        exit:Reason -> {error, {does_not_boot, Name, Reason, Arguments}}
    end.

own(#{full_name := Name}) -> (dyno_own_node:peer("", here))#{name := Name};
own(#{exec := _} = Options) -> dyno_own_node:peer(base(Options), elsewhere);
own(Options) -> dyno_own_node:peer(base(Options), here).

base(Options) -> unicode:characters_to_list(maps:get(name, Options, "target")).

environment(#{exec := _}) -> [];
environment(_Options) -> dyno_cookie:environment().

%% This node's paths without OTP's own, which the other has, and without archives.
paths(#{exec := _} = Options) ->
    lists:append([["-pa", Path] || Path <- maps:get(code_paths, Options, [])]);
paths(Options) ->
    More = maps:get(code_paths, Options, []),
    lists:append([["-pa", Path] || Path <- dyno_code:own_paths() ++ More]).

%% A project's plugin gives this node the project's configuration, meant for targets.
configuration(#{exec := _}) ->
    [];
configuration(_Options) ->
    case init:get_argument(config) of
        {ok, Files} -> lists:append([["-config", filename:absname(F)] || [F] <- Files]);
        error -> []
    end.

connected(Peer, Node, Arguments, Applications) ->
    case dyno_target_node:connect(Node, #{}) of
        ok ->
            start_applications(Peer, Node, Applications);
        {error, Reason} ->
            %% Its own commands may have ended the node: it was up when it could be controlled.
            case ends(Peer) of
                true ->
                    _ = erase({?MODULE, Node}),
                    {error, {does_not_boot, atom_to_list(Node), ended_at_once, Arguments}};
                false ->
                    fail(Peer, Node, {no_distribution, Reason})
            end
    end.

ends(Peer) ->
    Monitor = monitor(process, Peer),
    receive
        {'DOWN', Monitor, process, Peer, _} -> true
    after 1000 ->
        not demonitor(Monitor, [flush])
    end.

%% Elixir first: applications written in Elixir need it.
start_applications(Peer, Node, Applications) ->
    HasElixir =
        Applications =/= [] andalso
            erpc:call(Node, code, where_is_file, ["elixir.app"]) =/= non_existing,
    Start = fun(Application) ->
        case start_application(Application, Node) of
            {ok, _} = Started -> Started;
            {error, Reason} -> {error, {application, Application, Reason}}
        end
    end,
    case dyno_error:each(Start, [elixir || HasElixir] ++ Applications) of
        {ok, _} -> {ok, Node};
        {error, Reason} -> fail(Peer, Node, Reason)
    end.

%% Elixir sets options of its standard output at start, and ends on failure. A peer's output has
%% none: a process here accepts the options and passes on the rest.
start_application(elixir, Node) ->
    Controller = erpc:call(Node, erlang, whereis, [application_controller]),
    {group_leader, Leader} = erpc:call(Node, erlang, process_info, [Controller, group_leader]),
    Deputy = spawn_link(fun() -> stand_in_for(Leader) end),
    true = erpc:call(Node, erlang, group_leader, [Deputy, Controller]),
    Started = erpc:call(Node, application, ensure_all_started, [elixir]),
    true = erpc:call(Node, erlang, group_leader, [Leader, Controller]),
    Started;
start_application(Application, Node) ->
    erpc:call(Node, application, ensure_all_started, [Application]).

stand_in_for(Leader) ->
    receive
        {io_request, From, ReplyAs, {setopts, _}} -> From ! {io_reply, ReplyAs, ok};
        {io_request, _, _, _} = Request -> Leader ! Request;
        _Other -> ok
    end,
    stand_in_for(Leader).

fail(Peer, Node, Reason) ->
    ok = stop_peer(Peer, Node),
    {error, Reason}.

-doc "Ends a node that this process started.".
-spec stop(node()) -> ok.
stop(Node) ->
    case get({?MODULE, Node}) of
        undefined -> ok;
        Peer -> stop_peer(Peer, Node)
    end.

stop_peer(Peer, Node) ->
    _ = erase({?MODULE, Node}),
    unlink(Peer),
    try
        peer:stop(Peer)
    catch
        %% Already gone.
        exit:_ -> ok
    end.

-doc "Whether this dyno started the node, so that no other users depend on it.".
-spec is_started(node()) -> boolean().
is_started(Node) ->
    Node =:= node() orelse persistent_term:get({?MODULE, Node}, unknown) =:= started.

-spec format_error(reason()) -> unicode:chardata().
format_error({Kind, Error}) when Kind =:= no_distribution; Kind =:= no_cookie ->
    dyno_error:format(Error);
format_error({does_not_boot, Name, Reason, Arguments}) ->
    io_lib:format(
        "the node ~ts did not boot (~0tP); it was started with: erl ~ts",
        [Name, Reason, 12, lists:join(" ", without_cookie(Arguments))]
    );
format_error({application, Application, Reason}) ->
    io_lib:format("application ~ts did not start in the node: ~0tP", [Application, Reason, 12]).

%% Messages get into recordings and build logs.
without_cookie(["-setcookie", _Cookie | Rest]) -> ["-setcookie", "COOKIE" | without_cookie(Rest)];
without_cookie([Argument | Rest]) -> [Argument | without_cookie(Rest)];
without_cookie([]) -> [].
