%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% How many of each article are left. It is asked often and answers quickly.
-module(stock).
-behaviour(gen_server).

-export([start_link/0, take/2]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link() ->
    gen_server:start_link({local, stock}, stock, [], []).

take(Article, Number) ->
    gen_server:call(stock, {take, Article, Number}).

init([]) ->
    {ok, full()}.

%% What is sold out comes again at once.
handle_call({take, Article, Number}, _From, Stock) ->
    case Stock of
        #{Article := Left} when Left >= Number ->
            {reply, taken, Stock#{Article := Left - Number}};
        #{} ->
            {reply, sold_out, maps:merge(Stock, maps:with([Article], full()))}
    end.

handle_cast(_Message, Stock) ->
    {noreply, Stock}.

full() ->
    maps:from_keys(prices:articles(), 5000).
