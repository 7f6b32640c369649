%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_prometheus).
-moduledoc false.
%% Keeps totals and serves them over HTTP at /metrics with OTP's server (httpd of inets). The
%% server's processes read a table, so slow readers never delay the windows. The format is
%% Prometheus' text format 0.0.4, or OpenMetrics 1.0.

-behaviour(dyno_servers_sink).

%% OTP's records have no types.
-compile(nowarn_untyped_record).
-include_lib("inets/include/httpd.hrl").

-export([open/1, write/2, close/1, format_error/1]).
%% httpd's
-export([do/1]).
%% The formats, for tests
-export([format/2, accepted/1]).

-define(MOST_CLIENTS, 50).
-define(TIME_S, 5).
%% Slower requests are cut off.
-define(LEAST_BYTES, 10).

-type state() :: #{
    server := pid(), table := ets:table(), totals := dyno_servers_sink_totals:t()
}.
-type format() :: text | openmetrics.
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
    #mod{config_db = Config, parsed_header = Headers} = Request,
    case hd(string:split(Uri, "?")) of
        "/metrics" ->
            Accept = proplists:get_value("accept", Headers, ""),
            Format = accepted(iolist_to_binary(Accept)),
            Totals = ets:lookup_element(httpd_util:lookup(Config, ?MODULE), totals, 2),
            Servers = dyno_servers_sink_totals:servers(now_ms(), Totals),
            Body = format(Format, Servers),
            answer(Method, 200, content_type(Format), Body);
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

%% Formats

-spec format(format(), [dyno_servers_sink_totals:server()]) -> [iodata()].
format(Format, Servers) ->
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
        [family(Format, Metric), [samples(Metric, Point) || Point <- map_get(Id, Points)]]
     || #{id := Id} = Metric <- dyno_servers_metrics:metrics(), is_map_key(Id, Points)
    ] ++ [~"# EOF\n" || Format =:= openmetrics].

%% The labels of a server, as one text for all of its points.
common(Labels) ->
    iolist_to_binary(lists:join(~",", [pair(Key, Value) || {Key, Value} <- Labels])).

label(none) -> [];
label({Key, Value}) -> [~",", pair(Key, Value)].

pair(Key, Value) -> [atom_to_binary(Key), ~"=\"", escaped(Value), ~"\""].

family(text, #{prometheus := Name, kind := counter, help := Help}) ->
    [~"# HELP ", Name, ~"_total ", Help, ~"\n# TYPE ", Name, ~"_total counter\n"];
family(text, #{prometheus := Name, kind := Kind, help := Help}) ->
    [~"# HELP ", Name, ~" ", Help, ~"\n# TYPE ", Name, ~" ", atom_to_binary(Kind), ~"\n"];
family(openmetrics, #{prometheus := Name, kind := Kind, help := Help, unit := Unit}) ->
    [
        [~"# TYPE ", Name, ~" ", atom_to_binary(Kind), ~"\n"],
        [[~"# UNIT ", Name, ~" seconds\n"] || Unit =:= ns],
        [~"# HELP ", Name, ~" ", Help, ~"\n"]
    ].

samples(#{prometheus := Name, kind := histogram, unit := Unit}, {_, Labels, {Counts, Sum}}) ->
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
samples(#{prometheus := Name, kind := counter, unit := Unit}, {_, Labels, Value}) ->
    sample([Name, ~"_total"], Labels, number(Value, Unit));
samples(#{prometheus := Name, unit := Unit}, {_, Labels, Value}) ->
    sample(Name, Labels, number(Value, Unit)).

sample(Name, Labels, Value) -> [Name, ~"{", Labels, ~"} ", Value, ~"\n"].

escaped(Text) ->
    Quoted = binary:replace(Text, [~"\\", ~"\""], ~"\\", [global, {insert_replaced, 1}]),
    binary:replace(Quoted, ~"\n", ~"\\n", [global]).

number(Ns, ns) -> float_to_binary(Ns / 1.0e9, [short]);
number(Value, _) when is_integer(Value) -> integer_to_binary(Value);
number(Value, _) -> float_to_binary(Value, [short]).

content_type(text) -> ~"text/plain; version=0.0.4; charset=utf-8";
content_type(openmetrics) -> ~"application/openmetrics-text; version=1.0.0; charset=utf-8".

-doc "The format preferred by the Accept header; the text format if neither is named.".
-spec accepted(Accept :: binary()) -> format().
accepted(Accept) ->
    Ranges = [range(Range) || Range <- binary:split(Accept, ~",", [global])],
    Best = fun(Types) ->
        lists:max([0.0 | [Q || {Type, Q} <- Ranges, lists:member(Type, Types)]])
    end,
    OpenMetrics = Best([~"application/openmetrics-text"]),
    case OpenMetrics > 0 andalso OpenMetrics >= Best([~"text/plain", ~"text/*", ~"*/*"]) of
        true -> openmetrics;
        false -> text
    end.

range(Range) ->
    [Type | Parameters] = [
        string:lowercase(string:trim(Part)) || Part <- binary:split(Range, ~";", [global])
    ],
    {Type, hd([quality(Q) || <<"q=", Q/binary>> <- Parameters] ++ [1.0])}.

quality(Text) ->
    case {string:to_float(Text), string:to_integer(Text)} of
        {{Q, <<>>}, _} when is_float(Q) -> Q;
        {_, {Q, <<>>}} when is_integer(Q) -> float(Q);
        _ -> 0.0
    end.
