%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%
%% A suite in the form of PerformERL: the ten callbacks of performerl_load_generator, which starts
%% its own node. It runs as it is:
%%
%%     dyno test examples/orders_performerl.erl
%%
%% A shop keeps its orders in a list, and each new order looks through all of them for its number.
%% So the time per call of take/2 grows with the number of orders, which the growth table shows.
-module(orders_performerl).

-behaviour(performerl_load_generator).

-export([get_test_name/0, get_test_sizes/0, get_load_duration/0, get_trace_patterns/0]).
-export([test_setup/0, setup_run/1, start_load/2, stop_load/1, teardown_run/1, test_teardown/1]).
-export([get_invariants/2]).
%% What runs in the shop's node.
-export([open/1, shop/1, take/2]).

get_test_name() -> "Orders of a shop".

get_test_sizes() -> {number_of_orders, [10, 100, 1000]}.

get_load_duration() -> 2000.

get_trace_patterns() -> [{?MODULE, take, '_'}, {?MODULE, shop, '_'}].

%% Checked while the load is on, in each node; dyno fails the test where one does not hold.
get_invariants(_Node, _Size) ->
    [{the_shop_is_open, {erlang, whereis, [shop]}, '/=', undefined}].

test_setup() -> {ok, none}.

setup_run(Size) ->
    Name = "orders_" ++ os:getpid() ++ "@127.0.0.1",
    Node = list_to_atom(Name),
    Cookie = atom_to_list(erlang:get_cookie()),
    [] = os:cmd("erl -detached -name " ++ Name ++ " -setcookie " ++ Cookie),
    pong = ping(Node, 100),
    ok = performerl_lib:inject_module(?MODULE, Node),
    ok = rpc:call(Node, ?MODULE, open, [Size]),
    {run_started, [Node]}.

ping(_Node, 0) ->
    pang;
ping(Node, Tries) ->
    case net_adm:ping(Node) of
        pong ->
            pong;
        pang ->
            timer:sleep(100),
            ping(Node, Tries - 1)
    end.

start_load([Node], Size) ->
    Customers = [spawn_link(fun() -> customer(Node, Size) end) || _ <- lists:seq(1, 2)],
    {load_started, {Node, Customers}}.

customer(Node, Size) ->
    {shop, Node} ! {order, self(), rand:uniform(2 * Size)},
    receive
        taken -> timer:sleep(1)
    end,
    customer(Node, Size).

stop_load({Node, Customers}) ->
    lists:foreach(
        fun(Customer) ->
            unlink(Customer),
            exit(Customer, kill)
        end,
        Customers
    ),
    {load_stopped, Node}.

teardown_run(Node) ->
    ok = rpc:call(Node, init, stop, []),
    pang = gone(Node, 100),
    run_ended.

gone(_Node, 0) ->
    pong;
gone(Node, Tries) ->
    case net_adm:ping(Node) of
        pang ->
            pang;
        pong ->
            timer:sleep(100),
            gone(Node, Tries - 1)
    end.

test_teardown(none) -> ok.

%% In the shop's node

open(Size) ->
    Shop = spawn(?MODULE, shop, [lists:seq(1, Size)]),
    true = register(shop, Shop),
    ok.

shop(Orders) ->
    receive
        {order, Customer, Number} ->
            Next = take(Number, Orders),
            Customer ! taken,
            ?MODULE:shop(Next)
    end.

%% As many orders as before.
take(Number, Orders) ->
    case lists:member(Number, Orders) of
        true -> Orders;
        false -> [Number | lists:droplast(Orders)]
    end.
