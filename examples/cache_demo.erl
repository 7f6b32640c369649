%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Loads a cache whose one process answers all clients, in a node of its own:
%%
%%     dyno test examples/cache_demo.erl
-module(cache_demo).
-behaviour(dyno_suite).
-export([suite/0, init_run/2, init_worker/2, operation/1, end_run/1]).
-export([init/1, handle_call/3, handle_cast/2]).

suite() ->
    #{
        name => "cache",
        sizes => [1, 4, 16],
        size_label => "clients",
        duration_ms => 2000,
        patterns => ["cache_demo"],
        thresholds => ["latency.p99 < 100 ms", "errors.rate == 0 %", "rss < 500 MB"]
    }.

init_run(_Clients, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "cache"}),
    {ok, _} = erpc:call(Node, gen_server, start, [{local, cache}, cache_demo, [], []]),
    {ok, [Node], Node}.

init_worker(Id, Node) ->
    {ok, {Node, Id}}.

operation({Node, Key}) ->
    Key = gen_server:call({cache, Node}, {get, Key}),
    {ok, {Node, Key rem 1000 + 1}}.

end_run(undefined) -> ok;
end_run(Node) -> dyno_peer:stop(Node).

%% The cache, in the target

init([]) -> {ok, ets:new(cache, [])}.

handle_call({get, Key}, _From, Table) ->
    _ = ets:insert_new(Table, {Key, Key}),
    {reply, ets:lookup_element(Table, Key, 2), Table}.

handle_cast(_Request, Table) -> {noreply, Table}.
