%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(http_demo).
-moduledoc """
Loads a real web server with 1 to 64 connections, and measures every function and process of it.

The server is Cowboy, in a node of its own, over loopback. Where Cowboy is not to be had it is
OTP's httpd, and says so on standard error; everything else is the same.

    dyno test examples/http_demo.erl -o http.html
""".

-behaviour(dyno_suite).

-export([suite/0, init_run/2, init_worker/2, operation/1, end_worker/1, end_run/1]).
%% Runs in the target node.
-export([serve/0]).
%% The handlers of Cowboy and of httpd.
-export([init/2, do/1]).

-define(REQUEST, <<"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n">>).
-define(BODY, <<"Hello from the target.\n">>).
-define(TIMEOUT_MS, 5000).

suite() ->
    #{
        name => "http-" ++ atom_to_list(server()),
        sizes => [1, 4, 16, 64],
        size_label => "connections",
        duration_ms => 4000,
        warmup_ms => 1000,
        interval_ms => 500,
        patterns => patterns(server()),
        thresholds => [
            "latency.p99 < 500 ms",
            "errors.rate < 0.1 %",
            "memory.total < 512 MB",
            "growth vm.memory.total.max < 1.0"
        ]
    }.

%% One Erlang process accepts, one serves a connection, one a request: all of Cowboy's.
patterns(cowboy) -> ["app:cowboy", "app:ranch", "app:cowlib"];
patterns(httpd) -> ["app:inets"].

server() ->
    case code:which(cowboy) of
        non_existing -> httpd;
        _ -> cowboy
    end.

%% A fresh node for each size: no run inherits the garbage of another.
init_run(_Connections, _SuiteState) ->
    case server() of
        httpd -> io:format("http_demo: Cowboy is not to be had here; OTP's httpd serves instead~n");
        cowboy -> ok
    end,
    {ok, Node} = dyno_peer:start(#{name => atom_to_list(server())}),
    {ok, Port} = erpc:call(Node, ?MODULE, serve, []),
    {ok, [Node], #{node => Node, port => Port}}.

end_run(#{node := Node}) ->
    dyno_peer:stop(Node);
end_run(undefined) ->
    ok.

%% In the target

serve() ->
    serve(server()).

serve(cowboy) ->
    {ok, _} = application:ensure_all_started(cowboy),
    Routes = cowboy_router:compile([{'_', [{"/", ?MODULE, []}]}]),
    Options = #{env => #{dispatch => Routes}, max_keepalive => infinity},
    {ok, _} = cowboy:start_clear(?MODULE, [{ip, {127, 0, 0, 1}}, {port, 0}], Options),
    {ok, ranch:get_port(?MODULE)};
serve(httpd) ->
    {ok, _} = application:ensure_all_started(inets),
    {ok, Pid} = inets:start(httpd, [
        {port, 0},
        {bind_address, {127, 0, 0, 1}},
        {server_name, "localhost"},
        {server_root, "/"},
        {document_root, "/"},
        %% Without it every answer waits 40 ms for the client's delayed acknowledgement: httpd sends
        %% head and body one by one. dyno's first recording of it showed just that.
        {socket_type, {ip_comm, [{nodelay, true}]}},
        {keep_alive, true},
        {max_keep_alive_request, 1_000_000_000},
        {modules, [?MODULE]}
    ]),
    {ok, proplists:get_value(port, httpd:info(Pid))}.

init(Request, State) ->
    {ok, cowboy_req:reply(200, #{}, ?BODY, Request), State}.

do(_ModData) ->
    Length = integer_to_list(byte_size(?BODY)),
    Head = [{code, 200}, {content_length, Length}],
    {proceed, [{response, {response, Head, [binary_to_list(?BODY)]}}]}.

%% The load: each worker has a connection that it keeps

init_worker(_Id, #{port := Port}) ->
    gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {nodelay, true}], ?TIMEOUT_MS).

operation(Socket) ->
    ok = gen_tcp:send(Socket, ?REQUEST),
    case response(Socket, <<>>) of
        200 -> {ok, Socket};
        Status -> {error, {status, Status}, Socket}
    end.

end_worker(Socket) ->
    gen_tcp:close(Socket).

response(Socket, Received) ->
    {ok, More} = gen_tcp:recv(Socket, 0, ?TIMEOUT_MS),
    All = <<Received/binary, More/binary>>,
    case binary:split(All, <<"\r\n\r\n">>) of
        [Head, Body] ->
            <<"HTTP/1.", _, " ", Status:3/binary, _/binary>> = Head,
            body(Socket, length_of(Head) - byte_size(Body)),
            binary_to_integer(Status);
        [_] ->
            response(Socket, All)
    end.

body(_Socket, 0) ->
    ok;
body(Socket, Left) ->
    {ok, _} = gen_tcp:recv(Socket, Left, ?TIMEOUT_MS),
    ok.

length_of(Head) ->
    {match, [Length]} =
        re:run(Head, <<"content-length: *([0-9]+)">>, [caseless, {capture, all_but_first, binary}]),
    binary_to_integer(Length).
