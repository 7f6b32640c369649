%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Takes orders, one at a time. For each it sorts the last 4,000, which takes most of the shop's
%% processor time; each 400th is paid by card, and the bank takes 40 ms.
-module(orders).
-behaviour(gen_server).

-export([start_link/0, place/3]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link() ->
    gen_server:start_link({local, orders}, orders, [], []).

%% Gives the order with its number.
place(Article, Number, Price) ->
    gen_server:call(orders, {order, Article, Number, Price}).

init([]) ->
    {ok, {1, [10 + rand:uniform(500) || _ <- lists:seq(1, 4000)]}}.

handle_call({order, Article, Number, Price}, _From, {Id, Last}) ->
    ok = pay(Id, Price),
    Prices = [Price | lists:droplast(Last)],
    Order = #{id => Id, article => Article, number => Number, is_dear => Price > median(Prices)},
    {reply, Order, {Id + 1, Prices}}.

handle_cast(_Message, State) ->
    {noreply, State}.

pay(Id, _Price) when Id rem 400 =:= 0 ->
    timer:sleep(40);
pay(_Id, _Price) ->
    ok.

median(Prices) ->
    lists:nth(length(Prices) div 2 + 1, lists:sort(Prices)).
