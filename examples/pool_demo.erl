%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(pool_demo).
-moduledoc """
A pool of gen_servers behind one gen_server that lends them out: what gives in first?

Four servers compress a page for each request; 1 to 64 clients borrow one, use it, and give
it back. The report shows the queue of waiting clients where it is, and whether the lender takes
longer the more clients there are.

    dyno test examples/pool_demo.erl -o pool.html
""".

-behaviour(dyno_suite).
-behaviour(gen_server).

-export([suite/0, init_run/2, init_worker/2, operation/1, end_run/1]).
-export([init/1, handle_call/3, handle_cast/2]).
%% Run in the target node.
-export([compress/1]).

-define(SERVERS, 4).

suite() ->
    #{
        name => "pool",
        sizes => [1, 4, 16, 64],
        size_label => "clients",
        duration_ms => 2000,
        patterns => ["pool_demo", "gen_server", "queue", "zlib"],
        thresholds => [
            "errors.rate == 0 %",
            "latency.p99 < 500 ms",
            "process pool message_queue_max < 1000"
        ]
    }.

init_run(_Clients, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "pool"}),
    {ok, _Lender} = erpc:call(Node, gen_server, start, [{local, pool}, ?MODULE, lender, []]),
    {ok, [Node], {pool, Node}}.

init_worker(_Id, Pool) ->
    {ok, Pool}.

operation(Pool) ->
    Server = gen_server:call(Pool, borrow),
    Compressed = gen_server:call(Server, compress),
    ok = gen_server:cast(Pool, {give_back, Server}),
    true = is_binary(Compressed),
    {ok, Pool}.

end_run(undefined) -> ok;
end_run({pool, Node}) -> dyno_peer:stop(Node).

%% The lender and its servers, in the target

init(lender) ->
    Servers = [
        element(2, gen_server:start_link(?MODULE, server, []))
     || _ <- lists:seq(1, ?SERVERS)
    ],
    {ok, {Servers, queue:new()}};
init(server) ->
    {ok, iolist_to_binary([[integer_to_list(N * N), $\s] || N <- lists:seq(1, 500)])}.

handle_call(borrow, _From, {[Server | Servers], Waiting}) ->
    {reply, Server, {Servers, Waiting}};
handle_call(borrow, From, {[], Waiting}) ->
    {noreply, {[], queue:in(From, Waiting)}};
handle_call(compress, _From, Page) ->
    {reply, compress(Page), Page}.

handle_cast({give_back, Server}, {Servers, Waiting}) ->
    case queue:out(Waiting) of
        {{value, From}, Rest} ->
            gen_server:reply(From, Server),
            {noreply, {Servers, Rest}};
        {empty, _} ->
            {noreply, {[Server | Servers], Waiting}}
    end.

compress(Page) ->
    zlib:compress(Page).
