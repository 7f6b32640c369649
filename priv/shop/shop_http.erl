%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% The shop's door: HTTP on 127.0.0.1, a process for each connection. GET /order/book/3 orders.
-module(shop_http).
-behaviour(gen_server).

-export([start_link/0, port/0]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link() ->
    gen_server:start_link({local, shop_http}, shop_http, [], []).

port() ->
    gen_server:call(shop_http, port).

init([]) ->
    Options = [binary, {ip, {127, 0, 0, 1}}, {active, false}, {packet, http_bin}, {nodelay, true}],
    {ok, Listener} = gen_tcp:listen(0, Options),
    _ = spawn_link(fun() -> accept(Listener) end),
    {ok, Listener}.

handle_call(port, _From, Listener) ->
    {ok, Port} = inet:port(Listener),
    {reply, Port, Listener}.

handle_cast(_Message, Listener) ->
    {noreply, Listener}.

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Connection = proc_lib:spawn(fun() ->
        receive
            go -> connected(Socket)
        end
    end),
    ok = gen_tcp:controlling_process(Socket, Connection),
    Connection ! go,
    accept(Listener).

connected(Socket) ->
    {ok, {_Address, Port}} = inet:peername(Socket),
    ok = proc_lib:set_label({http, Port}),
    serve(Socket).

serve(Socket) ->
    case request(Socket, none) of
        {ok, Path} ->
            {Status, Text} = answer(binary:split(Path, ~"/", [global])),
            Head = ["HTTP/1.1 ", Status, "\r\ncontent-length: ", integer_to_list(byte_size(Text))],
            _ = gen_tcp:send(Socket, [Head, "\r\n\r\n", Text]),
            serve(Socket);
        closed ->
            gen_tcp:close(Socket)
    end.

request(Socket, Path) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_request, _Method, {abs_path, Asked}, _Version}} -> request(Socket, Asked);
        {ok, {http_header, _, _, _, _}} -> request(Socket, Path);
        {ok, http_eoh} when is_binary(Path) -> {ok, Path};
        _ -> closed
    end.

answer([~"", ~"order", Article, Number]) ->
    try shop:order(binary_to_existing_atom(Article), binary_to_integer(Number)) of
        {ok, Price} -> {"200 OK", <<(integer_to_binary(Price))/binary, " euros\n">>};
        {error, sold_out} -> {"409 Conflict", ~"sold out\n"}
    catch
        error:_ -> {"404 Not Found", ~"no such article\n"}
    end;
answer(_Path) ->
    {"404 Not Found", ~"GET /order/book/3 orders three books\n"}.
