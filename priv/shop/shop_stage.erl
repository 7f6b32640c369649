%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% A stage of the pipeline: packing, invoices or mail. Each takes an order from the one before and
%% passes it on.
-module(shop_stage).
-behaviour(gen_server).

-export([start_link/1, pass/2]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link(Name) ->
    gen_server:start_link({local, Name}, shop_stage, Name, []).

pass(Name, Order) ->
    gen_server:cast(Name, {order, Order}).

init(Name) ->
    {ok, Name}.

handle_call(_Request, _From, Name) ->
    {reply, ignored, Name}.

handle_cast({order, Order}, Name) ->
    ok = work(Name, Order),
    {noreply, Name}.

%% Two milliseconds for each order: the slowest server of the shop.
work(packing, Order) ->
    timer:sleep(2),
    pass(invoices, Order);
%% Out of paper each 3,000 orders: it crashes, and is started again.
work(invoices, #{id := Id}) when Id rem 3000 =:= 0 ->
    error(out_of_paper);
work(invoices, #{id := Id, article := Article, number := Number} = Order) ->
    Text = io_lib:format("Invoice ~b: ~b times ~ts", [Id, Number, Article]),
    pass(mail, Order#{invoice => unicode:characters_to_binary(Text)});
%% The post is away for two seconds, and then has much to carry.
work(mail, #{id := Id}) when Id rem 2000 =:= 0 ->
    timer:sleep(2000);
work(mail, #{invoice := Invoice}) ->
    _ = erlang:md5(Invoice),
    ok.
