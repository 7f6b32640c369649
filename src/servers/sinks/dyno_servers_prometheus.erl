%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_prometheus).
-moduledoc false.
%% Keeps totals and serves them over HTTP at /metrics with OTP's server (httpd of inets). The
%% server's processes read a table, so slow readers never delay the windows. The format is
%% Prometheus' text format 0.0.4.

-behaviour(dyno_servers_sink).

%% OTP's records have no types.
-compile(nowarn_untyped_record).
-include_lib("inets/include/httpd.hrl").

-export([open/1, write/2, close/1, format_error/1]).
%% httpd's
-export([do/1]).
%% The format, for tests
-export([format/1]).

-define(MOST_CLIENTS, 50).
-define(TIME_S, 5).
%% Slower requests are cut off.
-define(LEAST_BYTES, 10).

-type state() :: #{
    server := pid(), table := ets:table(), totals := dyno_servers_sink_totals:t()
}.
-type reason() :: {listen, Where :: binary(), term()}.

-spec open(dyno_servers_sink:config()) ->
    {ok, binary(), state()} | {error, dyno_error:error()}.
open(#{host := Host, port := Wanted}) ->
    maybe
        {ok, Family, Address} ?= dyno_servers_sinks:resolve(Host),
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

%% httpd would only log this error.
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

-spec write([dyno_servers_window:sum()], state()) -> {dyno_servers_sink:written(), state()}.
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
            Table = httpd_util:lookup(Request#mod.config_db, ?MODULE),
            Totals = ets:lookup_element(Table, totals, 2),
            Body = format(dyno_servers_sink_totals:servers(now_ms(), Totals)),
            answer(Method, 200, ~"text/plain; version=0.0.4; charset=utf-8", Body);
        _ ->
            answer(Method, 404, ~"text/plain", ~"The metrics are at /metrics.\n")
    end;
do(#mod{method = Method}) ->
    answer(Method, 405, ~"text/plain", ~"Only GET and HEAD are answered.\n").

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

%% The format

-spec format([dyno_servers_sink_totals:server()]) -> [iodata()].
format(Servers) ->
    Points = maps:groups_from_list(
        fun({Id, _, _}) -> Id end,
        [
            {Id, [Common | label(Label)], Value}
         || #{labels := Labels, points := Points} <- Servers,
            Common <- [common(dyno_servers_metrics:ordered(Labels))],
            {Id, Label, Value} <- Points
        ]
    ),
    [
        [family(Metric), [samples(Metric, Point) || Point <- map_get(Id, Points)]]
     || #{id := Id} = Metric <- dyno_servers_metrics:metrics(), is_map_key(Id, Points)
    ].

%% The labels of a server, as one text for all of its points.
common(Labels) ->
    iolist_to_binary(lists:join(~",", [pair(Key, Value) || {Key, Value} <- Labels])).

label(none) -> [];
label({Key, Value}) -> [~",", pair(Key, Value)].

pair(Key, Value) -> [atom_to_binary(Key), ~"=\"", escaped(Value), ~"\""].

family(#{type := Type, help := Help} = Metric) ->
    Name = name(Metric),
    [~"# HELP ", Name, ~" ", Help, ~"\n# TYPE ", Name, ~" ", atom_to_binary(Type), ~"\n"].

name(#{prometheus := Name, type := counter}) -> [Name, ~"_total"];
name(#{prometheus := Name}) -> Name.

samples(#{prometheus := Name, type := histogram, unit := Unit}, {_, Labels, {Counts, Sum}}) ->
    Bounds = [Bound || {_, Bound} <- dyno_servers_metrics:bounds(Unit)] ++ [~"+Inf"],
    Bucket = iolist_to_binary([Name, ~"_bucket{", Labels, ~",le=\""]),
    {Lines, Count} = lists:mapfoldl(
        fun({Bound, N}, Sofar) ->
            {[Bucket, Bound, ~"\"} ", integer_to_binary(Sofar + N), ~"\n"], Sofar + N}
        end,
        0,
        lists:zip(Bounds, Counts)
    ),
    [
        Lines,
        sample([Name, ~"_sum"], Labels, number(Sum, Unit)),
        sample([Name, ~"_count"], Labels, integer_to_binary(Count))
    ];
samples(#{unit := Unit} = Metric, {_, Labels, Value}) ->
    sample(name(Metric), Labels, number(Value, Unit)).

sample(Name, Labels, Value) -> [Name, ~"{", Labels, ~"} ", Value, ~"\n"].

escaped(Text) ->
    Quoted = binary:replace(Text, [~"\\", ~"\""], ~"\\", [global, {insert_replaced, 1}]),
    binary:replace(Quoted, ~"\n", ~"\\n", [global]).

number(Ns, ns) -> float_to_binary(Ns / 1.0e9, [short]);
number(Value, _) when is_integer(Value) -> integer_to_binary(Value);
number(Value, _) -> float_to_binary(Value, [short]).
