%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% A customer: orders something over HTTP, thinks for a tenth of a second, and orders again.
-module(shop_customer).

-export([start_link/1, init/1]).

start_link(Number) ->
    {ok, proc_lib:spawn_link(shop_customer, init, [Number])}.

init(Number) ->
    ok = proc_lib:set_label({customer, Number}),
    Options = [binary, {active, false}, {packet, line}, {nodelay, true}],
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, shop_http:port(), Options),
    shop(Socket).

shop(Socket) ->
    timer:sleep(40 + rand:uniform(120)),
    Number = integer_to_list(rand:uniform(9)),
    ok = gen_tcp:send(Socket, ["GET /order/", wanted(), $/, Number, " HTTP/1.1\r\n\r\n"]),
    %% The status, the length, an empty line and the answer.
    [{ok, _Status}, {ok, _}, {ok, _}, {ok, _}] = [gen_tcp:recv(Socket, 0) || _ <- [1, 2, 3, 4]],
    shop(Socket).

wanted() ->
    case rand:uniform(100) of
        1 -> "unicorn";
        N -> atom_to_list(lists:nth(N rem 5 + 1, prices:articles()))
    end.
