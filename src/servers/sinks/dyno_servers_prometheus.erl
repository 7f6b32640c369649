%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_prometheus).
-moduledoc false.
%% Keeps totals, and answers whoever reads them over HTTP at /metrics.
%%
%% A few processes wait for connections. Each reads the totals from a table and writes them in the
%% form that was asked for, so that slow readers never hold up the windows; while all of the processes
%% are taken, connections wait in the socket's backlog. A connection is for one answer and has five
%% seconds.

-behaviour(dyno_servers_sink).

-export([open/1, write/2, close/1, format_error/1]).

-define(ACCEPTORS, 4).
-define(TIME_MS, 5_000).
-define(MOST_HEADERS, 100).
-define(PAUSE_MS, 100).

-type state() :: #{
    socket := gen_tcp:socket(),
    acceptors := [pid()],
    table := ets:table(),
    totals := dyno_servers_sink_totals:t()
}.
-type reason() :: {listen, Where :: binary(), inet:posix() | system_limit}.

-spec open(dyno_servers_sink:config()) ->
    {ok, binary(), state()} | {error, dyno_error:error()}.
open(#{host := Host, port := Port}) ->
    maybe
        {ok, Family, Address} ?= dyno_servers_sink_url:resolve(Host),
        {ok, Socket} ?= listen(Family, Address, Port),
        {ok, Listens} = inet:port(Socket),
        Totals = dyno_servers_sink_totals:new(),
        Table = ets:new(?MODULE, [{read_concurrency, true}]),
        true = ets:insert(Table, {totals, Totals}),
        Accept = fun() -> accept(Socket, Table) end,
        {ok, <<"http://", (at(Family, Host, Listens))/binary, "/metrics">>, #{
            socket => Socket,
            acceptors => [spawn_link(Accept) || _ <- lists:seq(1, ?ACCEPTORS)],
            table => Table,
            totals => Totals
        }}
    end.

listen(Family, Address, Port) ->
    Options = [
        Family,
        binary,
        {ip, Address},
        {packet, http_bin},
        {active, false},
        {reuseaddr, true},
        {backlog, 128},
        {send_timeout, ?TIME_MS}
    ],
    case gen_tcp:listen(Port, Options) of
        {ok, Socket} -> {ok, Socket};
        {error, Why} -> {error, {?MODULE, {listen, at(Family, inet:ntoa(Address), Port), Why}}}
    end.

at(inet6, Host, Port) -> unicode:characters_to_binary(io_lib:format("[~ts]:~b", [Host, Port]));
at(inet, Host, Port) -> unicode:characters_to_binary(io_lib:format("~ts:~b", [Host, Port])).

-spec write([dyno_servers_sink:sum()], state()) -> {dyno_servers_sink:written(), state()}.
write(Sums, #{table := Table, totals := Totals} = State) ->
    {Written, Added} = dyno_servers_sink_totals:add(Sums, now_ms(), Totals),
    true = ets:insert(Table, {totals, Added}),
    {Written, State#{totals := Added}}.

now_ms() ->
    erlang:monotonic_time(millisecond).

-spec close(state()) -> ok.
close(#{socket := Socket, acceptors := Acceptors}) ->
    ok = lists:foreach(fun(Acceptor) -> exit(Acceptor, kill) end, Acceptors),
    gen_tcp:close(Socket).

-spec format_error(reason()) -> unicode:chardata().
format_error({listen, Where, eaddrinuse}) ->
    ["another program listens at ", Where, " already; give another port"];
format_error({listen, Where, Reason}) ->
    ["nothing can listen at ", Where, ": ", inet:format_error(Reason)].

%% The processes that wait for connections

-spec accept(gen_tcp:socket(), ets:table()) -> ok.
accept(Socket, Table) ->
    case gen_tcp:accept(Socket) of
        {ok, Connection} ->
            Deadline = now_ms() + ?TIME_MS,
            _ =
                case request(Connection, Deadline) of
                    {ok, Request} -> gen_tcp:send(Connection, answer(Request, Table));
                    closed -> closed
                end,
            ok = gen_tcp:close(Connection),
            accept(Socket, Table);
        {error, closed} ->
            ok;
        {error, _} ->
            %% Without a file descriptor, say.
            timer:sleep(?PAUSE_MS),
            accept(Socket, Table)
    end.

request(Connection, Deadline) ->
    case receive_line(Connection, Deadline) of
        {http_request, Method, {abs_path, Path}, _} ->
            headers(Connection, Deadline, ?MOST_HEADERS, {Method, Path, ~""});
        {http_request, _, _, _} ->
            {ok, bad};
        {http_error, _} ->
            {ok, bad};
        closed ->
            closed
    end.

headers(_Connection, _Deadline, 0, _Request) ->
    {ok, bad};
headers(Connection, Deadline, Most, {Method, Path, Accept} = Request) ->
    case receive_line(Connection, Deadline) of
        http_eoh -> {ok, Request};
        {http_header, _, 'Accept', _, More} ->
            Both = <<Accept/binary, ",", More/binary>>,
            headers(Connection, Deadline, Most - 1, {Method, Path, Both});
        {http_header, _, _, _, _} -> headers(Connection, Deadline, Most - 1, Request);
        {http_error, _} -> {ok, bad};
        closed -> closed
    end.

receive_line(Connection, Deadline) ->
    case gen_tcp:recv(Connection, 0, max(0, Deadline - now_ms())) of
        {ok, Line} -> Line;
        {error, _} -> closed
    end.

answer({Method, Path, Accept}, Table) when Method =:= 'GET'; Method =:= 'HEAD' ->
    case hd(binary:split(Path, ~"?")) of
        ~"/metrics" ->
            Format = dyno_servers_exposition:accepted(Accept),
            [{totals, Totals}] = ets:lookup(Table, totals),
            Servers = dyno_servers_sink_totals:servers(now_ms(), Totals),
            Body = dyno_servers_exposition:format(Format, Servers),
            answer(Method, ~"200 OK", dyno_servers_exposition:content_type(Format), Body);
        _ ->
            plain(Method, ~"404 Not Found", ~"The metrics are at /metrics.\n")
    end;
answer({Method, _, _}, _Table) ->
    plain(Method, ~"405 Method Not Allowed", ~"Only GET and HEAD are answered.\n");
answer(bad, _Table) ->
    plain('GET', ~"400 Bad Request", ~"This is no request that could be read.\n").

plain(Method, Status, Text) ->
    answer(Method, Status, ~"text/plain; charset=utf-8", Text).

answer(Method, Status, Type, Body) ->
    [
        [~"HTTP/1.1 ", Status, ~"\r\nContent-Type: ", Type],
        [~"\r\nContent-Length: ", integer_to_binary(iolist_size(Body))],
        [~"\r\nAllow: GET, HEAD" || Status =:= ~"405 Method Not Allowed"],
        ~"\r\nConnection: close\r\n\r\n",
        [Body || Method =/= 'HEAD']
    ].
