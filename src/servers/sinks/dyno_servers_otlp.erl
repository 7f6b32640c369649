%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_otlp).
-moduledoc false.
%% Posts metrics to an OpenTelemetry collector: OTLP over HTTP, as JSON. A post has the totals since
%% the first window or, with delta temporality, those of one window.

-behaviour(dyno_servers_sink).

-export([open/1, write/2, close/1, format_error/1]).
%% For tests of the form.
-export([message/2]).

-define(TIME_MS, 5_000).
-define(CONNECT_MS, 2_000).
%% HTTP headers, as for any exporter: KEY=VALUE,KEY=VALUE.
-define(HEADERS, "OTEL_EXPORTER_OTLP_HEADERS").

-type state() :: #{
    url := string(),
    headers := [{string(), string()}],
    options := [term()],
    temporality := cumulative | delta,
    totals := dyno_servers_sink_totals:t()
}.
-type reason() ::
    {application, atom(), term()}
    | {headers, string()}
    | {status, pos_integer()}
    | {rejected, binary()}
    | {post, term()}.

-spec open(dyno_servers_sink:config()) ->
    {ok, binary(), state()} | {error, dyno_error:error()}.
open(#{protocol := Scheme, host := Host, port := Port, path := Path, temporality := Temporality}) ->
    Url = uri_string:recompose(#{
        scheme => atom_to_binary(Scheme), host => Host, port => Port, path => Path
    }),
    maybe
        {ok, _, _} ?= dyno_servers_sinks:resolve(Host),
        ok ?= start([inets | [ssl || Scheme =:= https]]),
        {ok, Headers} ?= headers(os:getenv(?HEADERS, "")),
        {ok, Url, #{
            url => unicode:characters_to_list(Url),
            headers => Headers,
            options => [{ssl, httpc:ssl_verify_host_options(true)} || Scheme =:= https],
            temporality => Temporality,
            totals => dyno_servers_sink_totals:new()
        }}
    end.

start(Applications) ->
    case application:ensure_all_started(Applications) of
        {ok, _} -> ok;
        {error, {Application, Reason}} -> {error, {?MODULE, {application, Application, Reason}}}
    end.

headers(Text) ->
    Pairs = [string:split(Pair, "=") || Pair <- string:lexemes(Text, ",")],
    case [hd(Pair) || Pair <- Pairs, length(Pair) =/= 2] of
        [] ->
            {ok, [
                {string:trim(Key), uri_string:percent_decode(string:trim(Value))}
             || [Key, Value] <- Pairs
            ]};
        [Bad | _] ->
            {error, {?MODULE, {headers, Bad}}}
    end.

-spec write([dyno_servers_window:sum()], state()) -> {dyno_servers_sink:written(), state()}.
write(Sums, #{temporality := Temporality, totals := Totals} = State) ->
    NowMs = erlang:monotonic_time(millisecond),
    {{LeftOut, Why}, Added} = dyno_servers_sink_totals:add(Sums, NowMs, Totals),
    Servers = dyno_servers_sink_totals:servers(NowMs, Added),
    Kept =
        case Temporality of
            cumulative -> State#{totals := Added};
            delta -> State
        end,
    case post(message(Servers, Temporality), State) of
        ok -> {{LeftOut, Why}, Kept};
        {error, {rejected, Count, Text}} -> {{LeftOut + Count, {?MODULE, {rejected, Text}}}, Kept};
        {error, Reason} -> {{LeftOut + 1, {?MODULE, Reason}}, Kept}
    end.

post(Body, #{url := Url, headers := Headers, options := Options}) ->
    Request = {Url, Headers, "application/json", iolist_to_binary(Body)},
    Limits = [{timeout, ?TIME_MS}, {connect_timeout, ?CONNECT_MS}, {autoredirect, false}],
    case httpc:request(post, Request, Limits ++ Options, [{body_format, binary}]) of
        {ok, {{_, Status, _}, _, Answer}} when Status >= 200, Status < 300 -> taken(Answer);
        {ok, {{_, Status, _}, _, _}} -> {error, {status, Status}};
        {error, Reason} -> {error, {post, Reason}}
    end.

%% A collector may accept a part only.
taken(Answer) ->
    try json:decode(Answer) of
        #{~"partialSuccess" := #{~"rejectedDataPoints" := Rejected} = Part} ->
            case integer(Rejected) of
                0 -> ok;
                Count -> {error, {rejected, Count, maps:get(~"errorMessage", Part, ~"")}}
            end;
        _ ->
            ok
    catch
        error:_ -> ok
    end.

integer(Number) when is_integer(Number) -> Number;
integer(Text) -> binary_to_integer(Text).

-spec close(state()) -> ok.
close(_State) ->
    ok.

-spec format_error(reason()) -> unicode:chardata().
format_error({application, Application, Reason}) ->
    io_lib:format("OTP's application ~ts, which posts need, does not start: ~0tP", [
        Application, Reason, 12
    ]);
format_error({headers, Bad}) ->
    io_lib:format(?HEADERS " has \"~ts\"; KEY=VALUE,KEY=VALUE is accepted", [Bad]);
format_error({status, Status}) ->
    io_lib:format("the collector answered with HTTP status ~b", [Status]);
format_error({rejected, Text}) ->
    io_lib:format("the collector rejected data points: ~ts", [Text]);
format_error({post, {failed_connect, Reasons}}) ->
    Why = [Posix || {Family, _, Posix} <- Reasons, Family =:= inet orelse Family =:= inet6],
    io_lib:format("the collector cannot be reached: ~0tP", [hd(Why ++ [Reasons]), 12]);
format_error({post, Reason}) ->
    io_lib:format("the collector did not answer: ~0tP", [Reason, 12]).

-spec message([dyno_servers_sink_totals:server()], cumulative | delta) -> iodata().
message(Servers, Temporality) ->
    ByNode = maps:groups_from_list(
        fun(#{labels := Labels}) -> maps:get(node, Labels, ~"unknown") end, Servers
    ),
    encoded(#{
        resourceMetrics => [
            #{
                resource => #{attributes => resource(Node)},
                scopeMetrics => [
                    #{
                        scope => #{name => ~"dyno", version => dyno_version:version()},
                        metrics => metrics(OfNode, Temporality)
                    }
                ]
            }
         || Node := OfNode <- maps:iterator(ByNode, ordered)
        ]
    }).

%% Common parts of points are encoded once.
encoded(Term) ->
    json:encode(Term, fun
        ({encoded, Json}, _Encode) -> Json;
        (Other, Encode) -> json:encode_value(Other, Encode)
    end).

resource(Node) ->
    [
        attribute(~"service.name", hd(binary:split(Node, ~"@"))),
        attribute(~"service.instance.id", Node)
    ].

metrics(Servers, Temporality) ->
    Points = maps:groups_from_list(
        fun({Id, _, _}) -> Id end,
        [
            {Id, Value, Common#{attributes => {encoded, [$[, Attributes, label(Label), $]]}}}
         || #{labels := Labels, points := Of} = Server <- Servers,
            Attributes <- [attributes(maps:remove(node, Labels))],
            Common <- [common(Server)],
            {Id, Label, Value} <- Of
        ]
    ),
    [
        metric(Metric, map_get(Id, Points), Temporality)
     || #{id := Id} = Metric <- dyno_servers_metrics:metrics(), is_map_key(Id, Points)
    ].

common(#{since_ns := SinceNs, until_ns := UntilNs}) ->
    #{
        startTimeUnixNano => integer_to_binary(SinceNs),
        timeUnixNano => integer_to_binary(UntilNs)
    }.

attributes(Labels) ->
    iolist_to_binary(
        lists:join($,, [named(Label) || Label <- dyno_servers_metrics:ordered(Labels)])
    ).

label(none) -> [];
label(Label) -> [$,, named(Label)].

named({Key, Value}) -> json:encode(attribute(attribute_name(Key), Value)).

metric(#{id := Id, type := Type, unit := Unit, help := Help} = Metric, Points, Temporality) ->
    Doubles = [double(Bound, Unit) || {Bound, _} <- dyno_servers_metrics:bounds(Unit)],
    Bounds = {encoded, json:encode(Doubles)},
    Data = #{
        dataPoints => [
            maps:merge(value(Metric, Value, Bounds), Common)
         || {_Id, Value, Common} <- Points
        ]
    },
    Described = #{name => <<"beam.", Id/binary>>, description => Help, unit => unit(Unit)},
    %% The numbers of the protocol's enumeration.
    Since = Data#{aggregationTemporality => map_get(Temporality, #{delta => 1, cumulative => 2})},
    case Type of
        gauge -> Described#{gauge => Data};
        counter -> Described#{sum => Since#{isMonotonic => true}};
        histogram -> Described#{histogram => Since}
    end.

unit(ns) -> ~"s";
unit(Unit) -> Unit.

%% 64-bit integers are strings in this JSON.
value(#{type := histogram, unit := Unit}, {Counts, Sum}, Bounds) ->
    #{
        count => integer_to_binary(lists:sum(Counts)),
        sum => double(Sum, Unit),
        bucketCounts =>
            {encoded, [$[, lists:join($,, [[$", integer_to_binary(N), $"] || N <- Counts]), $]]},
        explicitBounds => Bounds
    };
value(#{unit := Unit}, Value, _Bounds) when is_integer(Value), Unit =/= ns ->
    #{asInt => integer_to_binary(Value)};
value(#{unit := Unit}, Value, _Bounds) ->
    #{asDouble => double(Value, Unit)}.

double(Ns, ns) -> Ns / 1.0e9;
double(Value, _) -> float(Value).

attribute_name(application) -> ~"beam.application";
attribute_name(module) -> ~"code.namespace";
attribute_name(name) -> ~"beam.process.name";
attribute_name(behaviour) -> ~"beam.behaviour";
attribute_name(callback) -> ~"code.function";
attribute_name(direction) -> ~"beam.direction".

attribute(Key, Value) ->
    #{key => Key, value => #{stringValue => Value}}.
