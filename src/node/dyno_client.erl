%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_client).
-moduledoc """
A client of a system's functions: one process in the target that makes calls in sequence, like the
process of a web server's connection.

```erlang
init_worker(_Id, Node) ->
    dyno_client:start(Node).

operation(Client) ->
    Price = dyno_client:call(Client, shop, price, [10]),
    true = is_integer(Price),
    {ok, Client}.
```

`erpc:call/4` starts a process in the target for each call, unlike real clients, and fills the
report with these processes. If real clients use `gen_server:call({Name, Node}, Request)` or a
socket, do so in `operation/1` instead of using this module.

The target needs no code of dyno.
""".

-export([start/1, call/4]).
-export_type([client/0]).

-type client() :: pid().

-doc """
Starts a client in a node. The client ends with the calling process, and with this node. A process
has one client in a node, and gets an existing one again, for example after a failed operation.
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

%% The link ends the client if this node goes down. It must not be to the owner: a target that goes
%% down is an error of a call, and an owner that ends normally would leave the client behind.
%%
%% A server like `rex` of `rpc:block_call/4`: it makes the call itself, in no new process.
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
Calls a function in the client; returns or throws its result. An error or exit there is raised here.

## Errors
`{dyno_client, Reason}` is raised if the client has ended: the node is gone, or the call was killed.
""".
-spec call(client(), module(), atom(), [term()]) -> term().
call(Client, Module, Function, Arguments) ->
    %% With the target's own group leader: otherwise logs and prints would come here.
    Request = {block_call, Module, Function, Arguments, user},
    try gen_server:call(Client, Request, infinity) of
        {badrpc, {'EXIT', {Reason, [{_, _, _, _} | _] = Stack}}} ->
            erlang:raise(error, Reason, Stack);
        {badrpc, {'EXIT', Reason}} ->
            exit(Reason);
        Value ->
            Value
    catch
        exit:{Reason, {gen_server, call, _}} -> error({?MODULE, Reason})
    end.
