%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% A small shop to look into while it runs: `dyno demo` starts it in a node of its own.
%%
%% Twenty customers order over HTTP, about 200 times a second. An order asks `prices`, `stock` and
%% `orders`, and then goes through a pipeline: `packing`, `invoices`, `mail`. There is something to
%% find: `packing` is busy for most of the time without a processor, `orders` takes most of the
%% processor's time and now and then waits for the bank, `mail` pauses while its queue grows, and
%% one customer in a hundred wants a unicorn.
-module(shop).
-behaviour(application).
-behaviour(supervisor).

-export([order/2]).
-export([start/2, stop/1, init/1]).

%% Orders a number of an article.
order(Article, Number) ->
    Price = prices:of_article(Article),
    case stock:take(Article, Number) of
        taken ->
            Order = orders:place(Article, Number, Price * Number),
            shop_stage:pass(packing, Order),
            {ok, Price * Number};
        sold_out ->
            {error, sold_out}
    end.

start(normal, []) ->
    supervisor:start_link({local, shop_sup}, shop, []).

stop(_State) ->
    ok.

init([]) ->
    Servers = [child(Name, Name, []) || Name <- [prices, stock, orders]],
    Stages = [child(Name, shop_stage, [Name]) || Name <- [mail, invoices, packing]],
    Customers = [child({customer, N}, shop_customer, [N]) || N <- lists:seq(1, 20)],
    Children = Servers ++ Stages ++ [child(http, shop_http, [])] ++ Customers,
    {ok, {#{intensity => 20, period => 10}, Children}}.

child(Id, Module, Arguments) ->
    #{id => Id, start => {Module, start_link, Arguments}, shutdown => 1000}.
