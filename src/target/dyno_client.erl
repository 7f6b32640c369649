%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_client).
-moduledoc """
A client of a system's functions: one process in the target that makes one call after the other, like
the process that a web server has for a connection.

```erlang
init_worker(_Id, Node) ->
    dyno_client:start(Node).

operation(Client) ->
    Price = dyno_client:call(Client, shop, price, [10]),
    true = is_integer(Price),
    {ok, Client}.
```

`erpc:call/4` starts a process in the target for each call, which no real client does, and the report
is full of these processes. If real clients use `gen_server:call({Name, Node}, Request)` or a socket,
do that in `operation/1`, and leave this module alone.

The target needs no code of dyno.
""".

-export([start/1, call/4]).
-export_type([client/0]).

-doc "The process in the target.".
-type client() :: pid().

-doc """
Starts a client in a node. It ends with the calling process, and with this node. A process has one
client in a node: if it has one already, as after an operation that failed, it gets that.
""".
-spec start(node()) -> {ok, client()}.
start(Node) ->
    maybe
        {Keeper, Client} ?= get({?MODULE, Node}),
        true ?= is_process_alive(Keeper),
        {ok, Client}
    else
        _ -> started(Node)
    end.

started(Node) ->
    Owner = self(),
    Ref = make_ref(),
    Keeper = spawn(fun() -> keep(Node, Owner, Ref) end),
    Monitor = monitor(process, Keeper),
    receive
        {Ref, Client} ->
            true = demonitor(Monitor, [flush]),
            _ = put({?MODULE, Node}, {Keeper, Client}),
            {ok, Client};
        {'DOWN', Monitor, process, Keeper, Reason} ->
            error({?MODULE, Reason})
    end.

%% The link ends the client if this node goes. It must not be the owner's: a target that goes down is
%% an error of a call, and an owner that ends normally would leave the client behind.
%%
%% The client is a server of the same kind as `rex`, which each node has for `rpc:block_call/4`: it
%% makes the call itself, where others start a process.
keep(Node, Owner, Ref) ->
    process_flag(trap_exit, true),
    OwnerRef = monitor(process, Owner),
    Client = proc_lib:spawn_link(Node, gen_server, enter_loop, [rpc, [], #{}]),
    Owner ! {Ref, Client},
    receive
        {'DOWN', OwnerRef, process, Owner, _} -> exit(Client, kill);
        {'EXIT', Client, _} -> ok
    end.

-doc """
Has the client call a function, and gives what it returns or throws. An error or an exit there is
raised here.

## Errors
`{dyno_client, Reason}` is raised if the client has ended: the node is gone, or the call was killed.
""".
-spec call(client(), module(), atom(), [term()]) -> term().
call(Client, Module, Function, Arguments) ->
    %% With the target's own group leader, as other processes there: or what is logged and printed
    %% would come here.
    Request = {block_call, Module, Function, Arguments, user},
    try gen_server:call(Client, Request, infinity) of
        {badrpc, {'EXIT', {Reason, [{_, _, _, _} | _] = Stack}}} -> erlang:raise(error, Reason, Stack);
        {badrpc, {'EXIT', Reason}} -> exit(Reason);
        Value -> Value
    catch
        exit:{Reason, {gen_server, call, _}} -> error({?MODULE, Reason})
    end.
