%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% OTLP over HTTP to a collector that this suite plays with a socket, and events of `telemetry`. The
%% protocol's own schema, and the library, read them in dyno_servers_receivers_SUITE.
-module(dyno_servers_otlp_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(dyno_servers_sums, [server/0, server/1, stage/0]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        the_message_is_complete,
        totals_and_deltas,
        headers_are_taken_from_the_environment,
        what_a_collector_refuses_is_counted,
        a_collector_that_is_not_there,
        a_collector_that_is_silent,
        telemetry_events,
        telemetry_that_is_absent
    ].

the_message_is_complete(_Config) ->
    Other = server(#{node => ~"other@10.0.0.2"}),
    {Sink, Socket} = start("", ""),
    ok = dyno_servers_sink:send(Sink, [server(), stage(), Other]),
    {~"POST /v1/metrics", Headers, Message} = post(Socket, ~"200 OK", ~"{}"),
    ?assertMatch(#{~"content-type" := ~"application/json"}, Headers),
    #{~"resourceMetrics" := [Second, First]} = Message,
    ?assertEqual(
        [
            #{~"service.name" => ~"other", ~"service.instance.id" => ~"other@10.0.0.2"},
            #{
                ~"service.name" => ~"shop", ~"service.instance.id" => ~"shop@10.0.0.1"
            }
        ],
        [attributes(Resource) || #{~"resource" := Resource} <- [Second, First]]
    ),
    #{~"scopeMetrics" := [#{~"scope" := Scope, ~"metrics" := Metrics}]} = First,
    ?assertEqual(#{~"name" => ~"dyno", ~"version" => dyno_version:version()}, Scope),
    [
        #{
            ~"unit" := ~"s",
            ~"histogram" := #{
                ~"aggregationTemporality" := 2,
                ~"dataPoints" := Durations
            }
        }
    ] = named(~"beam.callback.duration", Metrics),
    [Duration] = [
        Point
     || Point <- Durations, #{~"code.function" := ~"handle_call"} <- [attributes(Point)]
    ],
    ?assertEqual(
        #{
            ~"beam.application" => ~"shop",
            ~"code.namespace" => ~"Shop.Orders",
            ~"beam.process.name" => ~"orders",
            ~"beam.behaviour" => ~"gen_server",
            ~"code.function" => ~"handle_call"
        },
        attributes(Duration)
    ),
    #{
        ~"startTimeUnixNano" := ~"1790000000000000000",
        ~"timeUnixNano" := ~"1790000010000000000",
        ~"count" := ~"1000",
        ~"sum" := 0.5005,
        ~"bucketCounts" := Buckets,
        ~"explicitBounds" := Bounds
    } = Duration,
    ?assertEqual(length(Bounds) + 1, length(Buckets)),
    ?assertEqual({1.0e-6, 10.0}, {hd(Bounds), lists:last(Bounds)}),
    ?assertEqual(1000, lists:sum([binary_to_integer(Bucket) || Bucket <- Buckets])),
    ?assertMatch(
        [
            #{
                ~"unit" := ~"{call}",
                ~"sum" := #{~"isMonotonic" := true, ~"dataPoints" := [_, _, _]}
            }
        ],
        named(~"beam.callback.calls", Metrics)
    ),
    [#{~"gauge" := Queue}] = named(~"beam.process.message_queue.length", Metrics),
    ?assertMatch(#{~"dataPoints" := [#{~"asInt" := ~"7"}, #{~"asInt" := ~"7"}]}, Queue),
    ?assertNot(is_map_key(~"aggregationTemporality", Queue)),
    ?assertMatch(
        [#{~"gauge" := #{~"dataPoints" := [#{~"asDouble" := 0.05005}]}}],
        named(~"beam.process.busy", Metrics)
    ),
    stop(Sink, Socket).

totals_and_deltas(_Config) ->
    Calls = fun(Query) ->
        {Sink, Socket} = start("", Query),
        Sum = server(),
        #{start_ns := StartNs, duration_ns := Ns} = Sum,
        Posts = [
            begin
                ok = dyno_servers_sink:send(Sink, [Sum#{start_ns := StartNs + N * Ns}]),
                {_, _, #{~"resourceMetrics" := [#{~"scopeMetrics" := [#{~"metrics" := Metrics}]}]}} =
                    post(Socket, ~"200 OK", ~"{\"partialSuccess\":{}}"),
                [#{~"sum" := #{~"dataPoints" := Points, ~"aggregationTemporality" := Kind}}] =
                    named(~"beam.callback.calls", Metrics),
                [
                    #{~"asInt" := Count, ~"startTimeUnixNano" := Since, ~"timeUnixNano" := Until}
                ] = [P || P <- Points, #{~"code.function" := ~"handle_call"} <- [attributes(P)]],
                {Kind, Count, binary_to_integer(Since) - StartNs,
                    binary_to_integer(Until) - StartNs}
            end
         || N <- [0, 1]
        ],
        stop(Sink, Socket),
        Posts
    end,
    S = 1_000_000_000,
    ?assertEqual([{2, ~"1000", 0, 10 * S}, {2, ~"2000", 0, 20 * S}], Calls("")),
    ?assertEqual(
        [{1, ~"1000", 0, 10 * S}, {1, ~"1000", 10 * S, 20 * S}], Calls("?temporality=delta")
    ).

headers_are_taken_from_the_environment(_Config) ->
    true = os:putenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a=b, x-org = c%20d"),
    try
        {Sink, Socket} = start("/otlp/v1/metrics", ""),
        ok = dyno_servers_sink:send(Sink, [server()]),
        {~"POST /otlp/v1/metrics", Headers, _} = post(Socket, ~"200 OK", ~"{}"),
        ?assertMatch(#{~"api-key" := ~"a=b", ~"x-org" := ~"c d"}, Headers),
        stop(Sink, Socket),
        true = os:putenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key"),
        {ok, Config} = dyno_servers_sink:parse("otlp+http://127.0.0.1"),
        {error, Error} = dyno_servers_sink:start_link(Config),
        ?assertEqual(
            "OTEL_EXPORTER_OTLP_HEADERS has \"api-key\"; KEY=VALUE,KEY=VALUE is accepted",
            lists:flatten(dyno_error:format(Error))
        )
    after
        os:unsetenv("OTEL_EXPORTER_OTLP_HEADERS")
    end.

what_a_collector_refuses_is_counted(_Config) ->
    {Sink, Socket} = start("", ""),
    Answer = fun(Status, Body) ->
        ok = dyno_servers_sink:send(Sink, [server()]),
        {_, _, _} = post(Socket, Status, Body)
    end,
    Answer(~"503 Service Unavailable", ~""),
    failures(Sink, 1, ~"the collector answered with HTTP status 503"),
    Answer(
        ~"200 OK", ~"{\"partialSuccess\":{\"rejectedDataPoints\":\"3\",\"errorMessage\":\"old\"}}"
    ),
    failures(Sink, 4, ~"the collector rejected data points: old"),
    Answer(~"200 OK", ~"no json"),
    Answer(~"202 Accepted", ~""),
    Answer(~"404 Not Found", ~"x"),
    failures(Sink, 5, ~"the collector answered with HTTP status 404"),
    stop(Sink, Socket).

a_collector_that_is_not_there(_Config) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    {ok, Config} = dyno_servers_sink:parse(io_lib:format("otlp+http://127.0.0.1:~b", [Port])),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    ok = dyno_servers_sink:send(Sink, [server()]),
    failures(Sink, 1, ~"the collector cannot be reached: econnrefused"),
    ok = dyno_servers_sink:stop(Sink),
    {ok, Nowhere} = dyno_servers_sink:parse("otlp+https://no-such-host.invalid"),
    {error, Error} = dyno_servers_sink:start_link(Nowhere),
    ?assertMatch(
        "there is no host no-such-host.invalid: " ++ _, lists:flatten(dyno_error:format(Error))
    ).

%% It holds up windows, which are dropped and counted, and never the sender.
a_collector_that_is_silent(_Config) ->
    {Sink, Socket} = start("", ""),
    [ok = dyno_servers_sink:send(Sink, [server()]) || _ <- lists:seq(1, 20)],
    ?assertMatch(#{failed := 0, dropped := 12}, dyno_servers_sink:failures(Sink)),
    {ok, Connection} = gen_tcp:accept(Socket),
    failures(Sink, 1, ~"the collector did not answer: timeout"),
    ok = gen_tcp:close(Socket),
    ok = gen_tcp:close(Connection),
    ok = dyno_servers_sink:stop(Sink).

telemetry_events(_Config) ->
    Events = dyno_servers_telemetry:events(server()),
    Window = #{window_start_ns => 1_790_000_000_000_000_000, window_ns => 10_000_000_000},
    Labels = Window#{
        node => ~"shop@10.0.0.1",
        application => ~"shop",
        module => ~"Shop.Orders",
        name => ~"orders",
        behaviour => ~"gen_server"
    },
    [{Call, Metadata}, {Info, _}] = [{M, L} || {[dyno, servers, callback], M, L} <- Events],
    ?assertEqual(Labels#{callback => ~"handle_call"}, Metadata),
    ?assertMatch(
        #{
            calls := 1000,
            exceptions := 2,
            stops := 0,
            cpu := 123_456_789,
            allocated := 4_321,
            duration_count := 1000,
            duration_max := 1_000_000,
            duration_mean := 500_500.0
        },
        Call
    ),
    [
        ?assert(abs(map_get(Key, Call) - Exact) =< 0.004 * Exact, {Key, Call})
     || {Key, Exact} <- [
            {duration_p50, 500_000},
            {duration_p90, 900_000},
            {duration_p99, 990_000},
            {duration_p999, 999_000}
        ]
    ],
    ?assertEqual(#{calls => 3, exceptions => 0, stops => 1}, Info),
    [{Process, Labels}] = [{M, L} || {[dyno, servers, process], M, L} <- Events],
    ?assertMatch(
        #{
            count := 2,
            crashes := 1,
            busy := 0.05005,
            message_queue_length := 7,
            message_queue_max := 250,
            message_queue_delay_count := 2,
            message_queue_delay_max := 1_900_000_000
        },
        Process
    ),
    [Stage] = [
        M
     || {[dyno, servers, gen_stage], M, _} <- dyno_servers_telemetry:events(stage())
    ],
    ?assertMatch(
        #{
            demand_in := 500,
            events_in := 0,
            events_out := 480,
            discarded := 3,
            outstanding := 20,
            buffered := 0,
            batch_count := 48,
            batch_p99 := 10
        },
        Stage
    ),
    ?assertNot(is_map_key(demand_out, Stage)).

telemetry_that_is_absent(_Config) ->
    case application:load(telemetry) of
        {error, {"no such file or directory", _}} ->
            {ok, Config} = dyno_servers_sink:parse("telemetry"),
            {error, Error} = dyno_servers_sink:start_link(Config),
            ?assertMatch(
                "the library telemetry is not on the code path of this node" ++ _,
                lists:flatten(dyno_error:format(Error))
            );
        _ ->
            {skip, "this node has telemetry"}
    end.

failures(Sink, Failed, Last) ->
    case dyno_servers_sink:failures(Sink) of
        #{failed := Failed, last := Is} ->
            ?assertEqual(Last, Is);
        #{failed := Fewer} when Fewer < Failed ->
            receive
            after 5 -> failures(Sink, Failed, Last)
            end
    end.

start(Path, Query) ->
    {ok, Socket} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Port} = inet:port(Socket),
    {ok, Config} = dyno_servers_sink:parse(
        io_lib:format("otlp+http://127.0.0.1:~b~s~s", [Port, Path, Query])
    ),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    {Sink, Socket}.

stop(Sink, Socket) ->
    ok = dyno_servers_sink:stop(Sink),
    ok = gen_tcp:close(Socket).

%% Takes a post and answers it.
post(Listening, Status, Body) ->
    {ok, Socket} = gen_tcp:accept(Listening),
    {Head, Start} = head(Socket, ~""),
    [Request | Lines] = binary:split(Head, ~"\r\n", [global]),
    Headers =
        #{
            string:lowercase(Key) => string:trim(Value)
         || Line <- Lines, [Key, Value] <- [binary:split(Line, ~":")]
        },
    Length = binary_to_integer(map_get(~"content-length", Headers)),
    Content =
        case Length - byte_size(Start) of
            0 ->
                Start;
            Missing ->
                {ok, Rest} = gen_tcp:recv(Socket, Missing),
                <<Start/binary, Rest/binary>>
        end,
    ok = gen_tcp:send(Socket, [
        [~"HTTP/1.1 ", Status, ~"\r\nConnection: close\r\nContent-Length: "],
        [integer_to_binary(byte_size(Body)), ~"\r\n\r\n", Body]
    ]),
    ok = gen_tcp:close(Socket),
    [Verb, Path, _] = binary:split(Request, ~" ", [global]),
    {<<Verb/binary, " ", Path/binary>>, Headers, json:decode(Content)}.

head(Socket, Sofar) ->
    case binary:split(Sofar, ~"\r\n\r\n") of
        [Head, Start] ->
            {Head, Start};
        [_] ->
            {ok, More} = gen_tcp:recv(Socket, 0),
            head(Socket, <<Sofar/binary, More/binary>>)
    end.

named(Name, Metrics) ->
    [Metric || #{~"name" := Is} = Metric <- Metrics, Is =:= Name].

attributes(#{~"attributes" := Attributes}) ->
    #{Key => Value || #{~"key" := Key, ~"value" := #{~"stringValue" := Value}} <- Attributes}.
