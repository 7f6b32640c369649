%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% The price of each article, in an ETS table that everybody reads. Each second a price changes, and
%% the catalogue is made anew, which takes some 30 ms.
-module(prices).
-behaviour(gen_server).

-export([start_link/0, of_article/1, articles/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

start_link() ->
    gen_server:start_link({local, prices}, prices, [], []).

of_article(Article) ->
    case ets:lookup(prices, Article) of
        [{Article, Price}] -> Price;
        [] -> error({unknown_article, Article})
    end.

articles() ->
    [apple, book, chair, lamp, table].

init([]) ->
    prices = ets:new(prices, [named_table, protected, {read_concurrency, true}]),
    lists:foreach(fun change/1, articles()),
    {ok, _} = timer:send_interval(1000, change),
    {ok, none}.

handle_call(_Request, _From, State) ->
    {reply, ignored, State}.

handle_cast(_Message, State) ->
    {noreply, State}.

handle_info(change, State) ->
    change(lists:nth(rand:uniform(length(articles())), articles())),
    ok = catalogue(300),
    {noreply, State}.

catalogue(Pages) ->
    _ = lists:usort([Page * Line || Page <- lists:seq(1, Pages), Line <- lists:seq(1, Pages)]),
    ok.

change(Article) ->
    ets:insert(prices, {Article, 10 + rand:uniform(90)}).
