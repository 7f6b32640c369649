%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(two_nodes_demo).
-moduledoc """
A system of two nodes that talk to each other: a shop that reserves each order's articles in a
warehouse. Both are measured at once, each with patterns of its own, and the report shows
functions and processes of each.

The size is the number of articles in an order. The shop asks for one article after the other, so
an order takes as many round trips as it has articles. The growth table says so: reserve/2 takes no
longer, but its calls for each operation (`calls/op`) grow with exponent 1, and the response time
with them.

    dyno test examples/two_nodes_demo.erl -o two_nodes.html
""".

-behaviour(dyno_suite).
-behaviour(gen_server).

-export([suite/0, init_run/2, load/2, init_worker/2, operation/1, end_run/1]).
-export([init/1, handle_call/3, handle_cast/2]).
%% Run in the targets.
-export([order/2]).

-define(CLIENTS, 2).
-define(ARTICLES, 1000).

suite() ->
    #{
        name => "two-nodes",
        sizes => [1, 4, 16, 64],
        size_label => "articles",
        duration_ms => 2000,
        thresholds => [
            "errors.rate == 0 %",
            "growth latency.p50 < 1.5"
        ]
    }.

init_run(Articles, _SuiteState) ->
    {ok, Shop} = dyno_peer:start(#{name => "shop"}),
    {ok, Warehouse} = dyno_peer:start(#{name => "warehouse"}),
    {ok, _} = erpc:call(Warehouse, gen_server, start, [{local, stock}, ?MODULE, [], []]),
    pong = erpc:call(Shop, net_adm, ping, [Warehouse]),
    %% Of each node what it is there for.
    Targets = [
        {Shop, ["two_nodes_demo:order", "two_nodes_demo:reserve_there", "gen_server:call/2"]},
        {Warehouse, ["two_nodes_demo:handle_call", "two_nodes_demo:reserve", "gen_server"]}
    ],
    {ok, Targets, #{shop => Shop, warehouse => Warehouse, articles => Articles}}.

%% The order grows, not the number of clients.
load(_Articles, _System) ->
    #{model => closed, workers => ?CLIENTS}.

init_worker(_Id, #{shop := Shop} = System) ->
    {ok, Client} = dyno_client:start(Shop),
    {ok, System#{client => Client}}.

operation(#{client := Client, warehouse := Warehouse, articles := Count} = Worker) ->
    Articles = [rand:uniform(?ARTICLES) || _ <- lists:seq(1, Count)],
    ok = dyno_client:call(Client, ?MODULE, order, [Warehouse, Articles]),
    {ok, Worker}.

end_run(undefined) ->
    ok;
end_run(#{shop := Shop, warehouse := Warehouse}) ->
    ok = dyno_peer:stop(Shop),
    dyno_peer:stop(Warehouse).

%% In the shop

order(Warehouse, Articles) ->
    lists:foreach(fun(Article) -> ok = reserve_there(Warehouse, Article) end, Articles).

reserve_there(Warehouse, Article) ->
    gen_server:call({stock, Warehouse}, {reserve, Article}).

%% In the warehouse

init([]) ->
    {ok, #{Article => 0 || Article <- lists:seq(1, ?ARTICLES)}}.

handle_call({reserve, Article}, _From, Stock) ->
    {reply, ok, reserve(Article, Stock)}.

handle_cast(_Request, Stock) ->
    {noreply, Stock}.

reserve(Article, Stock) ->
    maps:update_with(Article, fun(Reserved) -> Reserved + 1 end, Stock).
