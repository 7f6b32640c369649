%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_peer).
-moduledoc """
Starts a node for a suite to load, on this machine, with the suite's code paths.

The node is linked to the process that starts it: called from `init_suite/0` it lives as long as the
test, and it ends with it however the test ends, also when dyno itself is killed.

```erlang
{ok, Node} = dyno_peer:start(#{name => "shop", applications => [shop]}).
```
""".

-export([start/1, stop/1, format_error/1]).
-export_type([options/0, reason/0]).

-type options() :: #{
    %% Begins the node's name; the rest makes it unique.
    name => string(),
    %% Folders of beam files, after those of this node.
    code_paths => [file:filename()],
    %% More arguments for erl: ["+S", "2"].
    arguments => [string()],
    %% Started with all they need.
    applications => [atom()],
    %% How long it may take to boot; 30000.
    timeout_ms => pos_integer()
}.

-type reason() ::
    {no_distribution, dyno_agent_link:reason()}
    | {does_not_boot, string(), term(), [string()]}
    | {application, atom(), term()}.

-doc "Starts a node; `error({dyno_peer, Reason})` is never raised, the reason is returned.".
-spec start(options()) -> {ok, node()} | {error, reason()}.
start(Options) ->
    case dyno_agent_link:ensure_distribution(#{}) of
        ok -> boot(Options);
        {error, Reason} -> {error, {no_distribution, Reason}}
    end.

boot(Options) ->
    Name = peer:random_name(maps:get(name, Options, "target")),
    Arguments =
        ["-setcookie", atom_to_list(erlang:get_cookie()), "-connect_all", "false"] ++
            paths(Options) ++ maps:get(arguments, Options, []),
    PeerOptions = #{
        name => Name,
        %% Not over the distribution: the node ends when this one does, however that happens.
        connection => standard_io,
        wait_boot => maps:get(timeout_ms, Options, 30_000),
        longnames => net_kernel:longnames() =:= true,
        args => Arguments
    },
    try peer:start_link(PeerOptions) of
        {ok, Peer, Node} ->
            put({?MODULE, Node}, Peer),
            connected(Peer, Node, maps:get(applications, Options, []));
        {error, Reason} ->
            {error, {does_not_boot, Name, Reason, Arguments}}
    catch
        exit:Reason -> {error, {does_not_boot, Name, Reason, Arguments}}
    end.

%% This node's paths without OTP's own, which the other has, and without archives.
paths(Options) ->
    Root = code:root_dir(),
    Ours = [
        filename:absname(Path)
     || Path <- code:get_path(),
        is_list(Path),
        Path =/= ".",
        not lists:prefix(Root, Path),
        filelib:is_dir(Path)
    ],
    lists:append([["-pa", Path] || Path <- Ours ++ maps:get(code_paths, Options, [])]).

connected(Peer, Node, Applications) ->
    case dyno_agent_link:connect(Node, #{}) of
        ok -> with_applications(Peer, Node, Applications);
        {error, Reason} -> fail(Peer, Node, {no_distribution, Reason})
    end.

with_applications(_Peer, Node, []) ->
    {ok, Node};
with_applications(Peer, Node, [Application | Rest]) ->
    case erpc:call(Node, application, ensure_all_started, [Application]) of
        {ok, _} -> with_applications(Peer, Node, Rest);
        {error, Reason} -> fail(Peer, Node, {application, Application, Reason})
    end.

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
        %% It is gone already.
        exit:_ -> ok
    end.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({no_distribution, Reason}) ->
    dyno_agent_link:format_error(Reason);
format_error({does_not_boot, Name, Reason, Arguments}) ->
    io_lib:format(
        "the node ~ts did not boot (~0tP); it was started with: erl ~ts",
        [Name, Reason, 12, lists:join(" ", Arguments)]
    );
format_error({application, Application, Reason}) ->
    io_lib:format("application ~ts did not start in the node: ~0tP", [Application, Reason, 12]).
