%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_prometheus).
-moduledoc false.
%% Keeps totals, and answers whoever reads them over HTTP at /metrics, with OTP's own server (httpd
%% of inets), whose processes read them from a table: slow readers never hold up the windows.

-behaviour(dyno_servers_sink).

%% OTP's own records have no types.
-compile(nowarn_untyped_record).
-include_lib("inets/include/httpd.hrl").

-export([open/1, write/2, close/1, format_error/1]).
%% httpd's
-export([do/1]).

-define(MOST_CLIENTS, 50).
-define(TIME_S, 5).
%% Whoever sends a request more slowly is cut off.
-define(LEAST_BYTES, 10).

-type state() :: #{
    server := pid(), table := ets:table(), totals := dyno_servers_sink_totals:t()
}.
-type reason() :: {listen, Where :: binary(), term()}.

-spec open(dyno_servers_sink:config()) ->
    {ok, binary(), state()} | {error, dyno_error:error()}.
open(#{host := Host, port := Wanted}) ->
    maybe
        {ok, Family, Address} ?= dyno_servers_sink_url:resolve(Host),
        {ok, Port} ?= free(Family, Address, Wanted),
        {ok, _} = application:ensure_all_started(inets),
        Totals = dyno_servers_sink_totals:new(),
        Table = ets:new(?MODULE, [{read_concurrency, true}]),
        true = ets:insert(Table, {totals, Totals}),
        {ok, Server} ?= serve(Family, Address, Port, Table),
        {ok, <<"http://", (at(Family, Host, Port))/binary, "/metrics">>, #{
            server => Server, table => Table, totals => Totals
        }}
    end.

%% httpd would say it in the log and not in a word.
free(Family, Address, Port) ->
    case gen_tcp:listen(Port, [Family, {ip, Address}, {reuseaddr, true}]) of
        {ok, Socket} ->
            Free = inet:port(Socket),
            ok = gen_tcp:close(Socket),
            Free;
        {error, Why} ->
            {error, {?MODULE, {listen, at(Family, inet:ntoa(Address), Port), Why}}}
    end.

serve(Family, Address, Port, Table) ->
    Options = [
        {ipfamily, Family},
        {bind_address, Address},
        {port, Port},
        {server_name, "dyno"},
        {server_root, "."},
        {document_root, "."},
        {modules, [?MODULE]},
        {keep_alive_timeout, ?TIME_S},
        {max_clients, ?MOST_CLIENTS},
        {minimum_bytes_per_second, ?LEAST_BYTES},
        {?MODULE, Table}
    ],
    case inets:start(httpd, Options, stand_alone) of
        {ok, Server} -> {ok, Server};
        {error, Why} -> {error, {?MODULE, {listen, at(Family, inet:ntoa(Address), Port), Why}}}
    end.

at(inet6, Host, Port) -> dyno_recording_part:text("[~ts]:~b", [Host, Port]);
at(inet, Host, Port) -> dyno_recording_part:text("~ts:~b", [Host, Port]).

-spec write([dyno_servers_sum:sum()], state()) -> {dyno_servers_sink:written(), state()}.
write(Sums, #{table := Table, totals := Totals} = State) ->
    {Written, Added} = dyno_servers_sink_totals:add(Sums, now_ms(), Totals),
    true = ets:insert(Table, {totals, Added}),
    {Written, State#{totals := Added}}.

now_ms() ->
    erlang:monotonic_time(millisecond).

-spec close(state()) -> ok.
close(#{server := Server}) ->
    Ref = monitor(process, Server),
    true = unlink(Server),
    true = exit(Server, shutdown),
    receive
        {'DOWN', Ref, process, Server, _} -> ok
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({listen, Where, eaddrinuse}) ->
    ["another program listens at ", Where, " already; give another port"];
format_error({listen, Where, Reason}) when is_atom(Reason) ->
    ["nothing can listen at ", Where, ": ", inet:format_error(Reason)];
format_error({listen, Where, Reason}) ->
    io_lib:format("nothing can listen at ~ts: ~0tP", [Where, Reason, 12]).

-spec do(#mod{}) -> {proceed, [term()]}.
do(#mod{method = Method, request_uri = Uri} = Request) when Method =:= "GET"; Method =:= "HEAD" ->
    case hd(string:split(Uri, "?")) of
        "/metrics" ->
            Format = dyno_servers_exposition:accepted(accept(Request)),
            [{totals, Totals}] = ets:lookup(table(Request), totals),
            Servers = dyno_servers_sink_totals:servers(now_ms(), Totals),
            Body = dyno_servers_exposition:format(Format, Servers),
            answer(Method, 200, dyno_servers_exposition:content_type(Format), Body);
        _ ->
            answer(Method, 404, ~"text/plain", ~"The metrics are at /metrics.\n")
    end;
do(#mod{method = Method}) ->
    answer(Method, 405, ~"text/plain", ~"Only GET and HEAD are answered.\n").

table(#mod{config_db = Config}) -> httpd_util:lookup(Config, ?MODULE).

accept(#mod{parsed_header = Headers}) ->
    iolist_to_binary(proplists:get_value("accept", Headers, "")).

answer(Method, Status, Type, Body) ->
    Head = [
        {code, Status},
        {content_type, binary_to_list(Type)},
        {content_length, integer_to_list(iolist_size(Body))}
    ],
    Sent =
        case Method of
            "HEAD" -> nobody;
            _ -> Body
        end,
    {proceed, [{response, {response, Head, Sent}}]}.
