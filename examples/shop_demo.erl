%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Loads a shop as its customers do: some browsing at first, then ever more of them, then a sale.
%% Nine of ten operations read an article, one orders it; customers come from a CSV file, articles
%% from a distribution as people choose them, a few far more often than most.
%%
%%     dyno test examples/shop_demo.erl
%%     dyno test examples/shop_demo.erl --load-nodes 1
%%     dyno test examples/shop_demo.erl --search "operation.order.latency.p99 < 20 ms"
-module(shop_demo).
-behaviour(dyno_suite).
-export([suite/0, init_suite/0, init_run/2, load/2, operation/2, end_run/1]).
-export([init/1, handle_call/3, handle_cast/2]).

suite() ->
    #{
        name => "shop",
        sizes => [1, 5],
        size_label => "shops' worth",
        duration_ms => 3000,
        patterns => ["shop_demo:handle_call/3"],
        operations => #{read => 9, order => 1},
        feeds => #{
            customer => {csv, "customers.csv"},
            article => {zipf, 10_000, 1.1}
        },
        thresholds => [
            "errors.rate == 0 %",
            "operation.read.latency.p99 < 100 ms",
            "operation.order.latency.p99 < 200 ms",
            "phase.sale.latency.p99 < 200 ms"
        ]
    }.

load(Size, _Node) ->
    #{
        model => phases,
        phases => [
            #{
                name => "browsing",
                model => closed,
                workers => 2 * Size,
                think_time_ms => {exponential, 5}
            },
            #{name => "rush", model => open, rate_per_s => {ramp, 100 * Size, 500 * Size}},
            #{name => "sale", model => open, rate_per_s => 500 * Size, arrivals => poisson}
        ]
    }.

operation(read, Node) ->
    {ok, _} = gen_server:call({shop, Node}, {read, dyno_feed:next(article)}),
    {ok, Node};
operation(order, Node) ->
    #{~"name" := Name, ~"city" := City} = dyno_feed:next(customer),
    {ok, _} = gen_server:call({shop, Node}, {order, dyno_feed:next(article), {Name, City}}),
    {ok, Node}.

init_suite() ->
    {ok, Node} = dyno_peer:start(#{name => "shop"}),
    {ok, _} = erpc:call(Node, gen_server, start, [{local, shop}, shop_demo, [], []]),
    {ok, Node}.

init_run(_Size, Node) ->
    {ok, [Node], Node}.

end_run(_Node) -> ok.

%% The shop, in the target

init([]) -> {ok, #{orders => 0, articles => #{}}}.

handle_call({read, Article}, _From, #{articles := Articles} = Shop) ->
    {reply, {ok, maps:get(Article, Articles, 0)}, Shop};
handle_call({order, Article, _Customer}, _From, #{orders := Orders, articles := Articles} = Shop) ->
    Sold = maps:update_with(Article, fun(N) -> N + 1 end, 1, Articles),
    {reply, {ok, Orders + 1}, Shop#{orders := Orders + 1, articles := Sold}}.

handle_cast(_Request, Shop) -> {noreply, Shop}.
