%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Three servers in one module, for the tests; `dyno demo` has a larger shop.
%%
%% An order takes 5 ms of a processor, and every fifth one waits 50 ms for the bank instead: so
%% orders is busy for a third of the time, and for most of that it is blocked. Twenty mails come at
%% once and wait for one another. The stock is asked so seldom and answers so quickly that it is
%% idle.
-module(shop_servers).
-behaviour(gen_server).

-export([start/0, stop/0]).
-export([init/1, handle_call/3, handle_cast/2]).

start() ->
    lists:foreach(
        fun(Name) -> {ok, _} = gen_server:start({local, Name}, ?MODULE, Name, []) end,
        [stock, orders, mail]
    ),
    Customers = spawn(fun() -> customers(1) end),
    true = register(customers, Customers),
    ok.

stop() ->
    exit(whereis(customers), kill),
    lists:foreach(fun gen_server:stop/1, [stock, orders, mail]).

customers(Number) ->
    in_stock = gen_server:call(stock, {article, Number}),
    [gen_server:cast(mail, {send, Mail}) || Mail <- lists:seq(1, 20)],
    Kind =
        case Number rem 5 of
            0 -> by_card;
            _ -> on_account
        end,
    ordered = gen_server:call(orders, {Kind, Number}),
    timer:sleep(20),
    customers(Number + 1).

init(Name) ->
    {ok, Name}.

handle_call({article, _Number}, _From, State) ->
    {reply, in_stock, State};
handle_call({by_card, _Number}, _From, State) ->
    timer:sleep(50),
    {reply, ordered, State};
handle_call({on_account, _Number}, _From, State) ->
    work_until(erlang:monotonic_time(millisecond) + 5),
    {reply, ordered, State}.

handle_cast({send, _Mail}, State) ->
    {noreply, State}.

work_until(Ms) ->
    case erlang:monotonic_time(millisecond) < Ms of
        true -> work_until(Ms);
        false -> ok
    end.
