%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% What the sinks send, read by those that it is for: StatsD's server, Prometheus' exporter for
%% StatsD (which reads DogStatsD's tags and packed values), Prometheus itself, its parsers for
%% Python, the schema of OTLP, the decoder of OpenTelemetry's collector, and the library
%% `telemetry`. They are brought into _build/receivers, and a case is skipped where one cannot be
%% had.
-module(dyno_servers_receivers_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(dyno_servers_sums, [server/0, server/1, stage/0]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        statsd_server,
        statsd_exporter,
        dogstatsd_exporter,
        dogstatsd_exporter_by_a_unix_socket,
        prometheus_scrapes,
        prometheus_parsers_for_python,
        otlp_schema,
        otlp_collectors_decoder,
        telemetry_library
    ].

slow() -> all().

init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(inets),
    Folder = filename:join([dyno_project:root(), "_build", "receivers"]),
    ok = filelib:ensure_path(Folder),
    [{folder, Folder} | Config].

end_per_suite(_Config) ->
    ok.

%% Its own management port gives what it has; a backend of ours says it as JSON.
statsd_server(Config) ->
    Server = npm("statsd", Config),
    [Udp, Management] = [free_port(Kind) || Kind <- [udp, tcp]],
    Backend = file(Config, "backend.js", [
        "exports.init = function (started, config, events) {\n"
        "  events.on('flush', function (time, metrics) {\n"
        "    console.log('FLUSH ' + JSON.stringify({counters: metrics.counters,\n"
        "      gauges: metrics.gauges, timers: metrics.timer_data,\n"
        "      bad: metrics.counters['statsd.bad_lines_seen']}));\n"
        "  });\n"
        "  return true;\n"
        "};\n"
    ]),
    Settings = file(
        Config,
        "statsd.js",
        io_lib:format(
            "{port: ~b, address: '127.0.0.1', mgmt_port: ~b, mgmt_address: '127.0.0.1',\n"
            " flushInterval: 300, deleteIdleStats: true, percentThreshold: [50, 90, 99],\n"
            " backends: ['~ts']}\n",
            [Udp, Management, Backend]
        )
    ),
    Port = run("node", [filename:join(Server, "stats.js"), Settings]),
    ok = listens(Management),
    %% Right after a flush, so that all comes before the next one.
    #{} = flushed(Port, #{}, fun(_) -> true end),
    Sums = [server(), stage()],
    #{failed := 0} = send(io_lib:format("statsd://127.0.0.1:~b", [Udp]), Sums),
    Orders = ~"otp.shop_10-0-0-1.Shop-Orders.orders.",
    Duration = <<Orders/binary, "handle_call.duration">>,
    Feed = ~"otp.shop_10-0-0-1.Shop-Feed.feed.",
    #{counters := Counters, gauges := Gauges, timers := Timers} = flushed(Port, #{}, fun
        (#{timers := #{Duration := #{~"count" := Count}}, counters := #{} = Counters}) ->
            Count >= 1000 andalso is_map_key(<<Feed/binary, "gen_stage.discarded">>, Counters);
        (#{}) ->
            false
    end),
    ?assertEqual(0, maps:get(~"statsd.bad_lines_seen", Counters, 0)),
    [
        ?assertEqual({Name, Value}, {Name, maps:get(<<Of/binary, Name/binary>>, Counters, none)})
     || {Of, Name, Value} <- [
            {Orders, ~"handle_call.calls", 1000},
            {Orders, ~"handle_call.cpu", 123.456789},
            {Orders, ~"handle_info.calls", 3},
            {Orders, ~"process.crashes", 1},
            {Feed, ~"gen_stage.events.out", 480},
            {Feed, ~"gen_stage.discarded", 3}
        ]
    ],
    ?assertEqual(7, map_get(<<Orders/binary, "process.message_queue.length">>, Gauges)),
    ?assertEqual(0.05005, map_get(<<Orders/binary, "process.busy">>, Gauges)),
    Times = map_get(Duration, Timers),
    ?assert(abs(map_get(~"count", Times) - 1000) < 1.0e-6, Times),
    %% 1 us to 1 ms.
    [
        ?assert(abs(map_get(Key, Times) - Ms) < 0.02, {Key, Times})
     || {Key, Ms} <- [
            {~"mean", 0.5},
            {~"median", 0.5},
            {~"upper_90", 0.9},
            {~"upper_99", 0.99},
            {~"lower", 0.0}
        ]
    ],
    ?assertEqual(1, map_get(<<Duration/binary, ".max">>, Gauges)),
    stop(Port).

%% Adds up flushes until all has come.
flushed(Port, Sofar, IsAll) ->
    receive
        {Port, {data, {eol, <<"FLUSH ", Json/binary>>}}} ->
            #{~"counters" := C, ~"gauges" := G, ~"timers" := T} = json:decode(Json),
            Add = fun(_, A, B) -> A + B end,
            Flush = #{
                counters => maps:merge_with(Add, maps:get(counters, Sofar, #{}), C),
                gauges => maps:merge(maps:get(gauges, Sofar, #{}), G),
                timers => maps:merge_with(
                    fun(_, #{~"count" := N} = A, #{~"count" := M} = B) ->
                        (maps:merge(A, B))#{~"count" := N + M}
                    end,
                    maps:get(timers, Sofar, #{}),
                    maps:filter(fun(_, V) -> is_map_key(~"count", V) end, T)
                )
            },
            case IsAll(Flush) of
                true -> Flush;
                false -> flushed(Port, Flush, IsAll)
            end;
        {Port, {data, _}} ->
            flushed(Port, Sofar, IsAll)
    end.

statsd_exporter(Config) ->
    {Port, Udp, Web} = exporter(Config),
    Sums = [server(), stage()],
    #{failed := 0} = send(io_lib:format("statsd://127.0.0.1:~b", [Udp]), Sums),
    Start = "otp_shop_10_0_0_1_Shop_Orders_orders_handle_call_",
    Metrics = exported(Web, [Start, "duration_count"], 1000.0),
    ?assertEqual(1000.0, exact([Start, "calls"], Metrics)),
    %% The exporter takes ms as what they are, and writes seconds.
    ?assert(abs(exact([Start, "duration_sum"], Metrics) - 0.5005) < 0.5005 * 0.005),
    ?assert(abs(exact([Start, "cpu"], Metrics) - 123.456789) < 1.0e-9),
    no_errors(Metrics),
    stop(Port).

dogstatsd_exporter(Config) ->
    {Port, Udp, Web} = exporter(Config),
    Sums = [server(), stage()],
    dogstatsd(io_lib:format("dogstatsd://127.0.0.1:~b?tags=env:live", [Udp]), Sums, Web),
    stop(Port).

dogstatsd_exporter_by_a_unix_socket(Config) ->
    Path = "/tmp/dyno-receivers-" ++ os:getpid() ++ ".sock",
    {Port, _, Web} = exporter(Config, ["--statsd.listen-unixgram=" ++ Path]),
    ok = until(fun() -> filelib:last_modified(Path) =/= 0 andalso ok end),
    try
        dogstatsd(
            "dogstatsd+unix:" ++ Path ++ "?tags=env:live", [server(), stage()], Web
        )
    after
        _ = file:delete(Path)
    end,
    stop(Port).

dogstatsd(Url, Sums, Web) ->
    #{failed := 0} = send(Url, Sums),
    Tags =
        "{application=\"shop\",behaviour=\"gen_server\",callback=\"handle_call\",env=\"live\","
        "module=\"Shop.Orders\",name=\"orders\",node=\"shop_10.0.0.1\"}",
    Metrics = exported(Web, ["otp_callback_duration_count", Tags], 1000.0),
    ?assertEqual(1000.0, exact(["otp_callback_calls", Tags], Metrics)),
    Sum = exact(["otp_callback_duration_sum", Tags], Metrics),
    ?assert(abs(Sum - 500.5) < 500.5 * 0.005, Sum),
    Stage =
        "{application=\"shop\",behaviour=\"gen_stage\",direction=\"out\",env=\"live\","
        "module=\"Shop.Feed\",name=\"feed\",node=\"shop_10.0.0.1\"}",
    ?assertEqual(480.0, exact(["otp_gen_stage_events", Stage], Metrics)),
    no_errors(Metrics).

exporter(Config) ->
    exporter(Config, []).

exporter(Config, Arguments) ->
    Program = go("github.com/prometheus/statsd_exporter@v0.31.0", Config),
    [Udp, Web] = [free_port(Kind) || Kind <- [udp, tcp]],
    Port = run(Program, [
        io_lib:format("--statsd.listen-udp=127.0.0.1:~b", [Udp]),
        "--statsd.listen-tcp=",
        io_lib:format("--web.listen-address=127.0.0.1:~b", [Web])
        | Arguments
    ]),
    ok = listens(Web),
    {Port, Udp, Web}.

%% All metrics as soon as this one is there.
exported(Web, Name, Value) ->
    until(fun() ->
        {200, Text} = get(Web, "/metrics"),
        Metrics = maps:from_list([
            {Key, number(Number)}
         || Line <- binary:split(Text, ~"\n", [global, trim_all]),
            binary:first(Line) =/= $#,
            [Key, Number] <- [split_last(Line)]
        ]),
        maps:get(iolist_to_binary(Name), Metrics, none) =:= Value andalso Metrics
    end).

split_last(Line) ->
    {At, 1} = lists:last(binary:matches(Line, ~" ")),
    <<Key:At/binary, " ", Number/binary>> = Line,
    [Key, Number].

number(Text) ->
    case {string:to_float(Text), string:to_integer(Text)} of
        {{Float, ~""}, _} ->
            Float;
        {_, {Integer, ~""}} ->
            float(Integer);
        {_, {Integer, <<"e", Exponent/binary>>}} ->
            binary_to_float(iolist_to_binary(io_lib:format("~b.0e~ts", [Integer, Exponent])));
        _ ->
            Text
    end.

exact(Name, Metrics) ->
    map_get(iolist_to_binary(Name), Metrics).

no_errors(Metrics) ->
    Errors = [
        Metric
     || <<"statsd_exporter_", Rest/binary>> = Name := Count <- Metrics,
        binary:match(Rest, [~"error", ~"_conflict"]) =/= nomatch,
        Count /= 0,
        Metric <- [{Name, Count}]
    ],
    ?assertEqual([], Errors).

prometheus_scrapes(Config) ->
    {Sink, Address} = prometheus_sink([server(), stage()]),
    #{host := Host, port := Scraped} = uri_string:parse(Address),
    {Port, Web} = prometheus(
        Config,
        io_lib:format(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            "  - job_name: dyno\n"
            "    static_configs: [{targets: ['~ts:~b']}]\n",
            [Host, Scraped]
        )
    ),
    Call = "{module=\"Shop.Orders\",callback=\"handle_call\"}",
    %% A second window.
    ?assertEqual([1000.0], queried(Web, ["otp_callbacks_total", Call])),
    ok = dyno_servers_sink:send(Sink, [server()]),
    ok = until(fun() -> query(Web, ["otp_callbacks_total", Call]) =:= [2000.0] andalso ok end),
    {200, Targets} = get(Web, "/api/v1/targets"),
    #{~"data" := #{~"activeTargets" := [Target]}} = json:decode(Targets),
    ?assertMatch(#{~"health" := ~"up", ~"lastError" := ~""}, Target),
    [Median] = query(Web, [
        "histogram_quantile(0.5, otp_callback_duration_seconds_bucket", Call, ")"
    ]),
    ?assert(abs(Median - 5.0e-4) =< 0.02e-4, Median),
    ?assertEqual([480.0], query(Web, "gen_stage_events_total{direction=\"out\"}")),
    %% The other server is not in the second window, and may be forgotten by now.
    ?assertMatch([7.0 | _], query(Web, "otp_process_message_queue_length")),
    {200, Metadata} = get(Web, "/api/v1/metadata"),
    #{~"data" := #{~"otp_callback_duration_seconds" := [Family]}} = json:decode(Metadata),
    ?assertMatch(#{~"type" := ~"histogram"}, Family),
    stop(Port),
    ok = dyno_servers_sink:stop(Sink).

prometheus(Config, Scrape) ->
    Program = debian("prometheus"),
    Web = free_port(tcp),
    Settings = file(Config, io_lib:format("prometheus-~b.yml", [Web]), Scrape),
    Data = filename:join(proplists:get_value(priv_dir, Config), io_lib:format("data-~b", [Web])),
    Port = run(Program, [
        ["--config.file=", Settings],
        ["--storage.tsdb.path=", Data],
        io_lib:format("--web.listen-address=127.0.0.1:~b", [Web])
    ]),
    ok = listens(Web),
    ok = until(fun() -> element(1, get(Web, "/-/ready")) =:= 200 andalso ok end),
    {Port, Web}.

queried(Web, Query) ->
    until(fun() ->
        case query(Web, Query) of
            [] -> false;
            Values -> Values
        end
    end).

query(Web, Query) ->
    Path = "/api/v1/query?" ++ uri_string:compose_query([{"query", lists:flatten(Query)}]),
    {200, Answer} = get(Web, Path),
    #{~"status" := ~"success", ~"data" := #{~"result" := Results}} = json:decode(Answer),
    [number(Value) || #{~"value" := [_, Value]} <- Results].

prometheus_parsers_for_python(Config) ->
    Python = python(["prometheus-client"], Config),
    {Sink, Address} = prometheus_sink([
        server(#{name => ~"a\\b\"c\nd{e=\"f\",g}é"}), stage()
    ]),
    Program =
        "import sys, json, urllib.request\n"
        "from prometheus_client.parser import text_string_to_metric_families as text\n"
        "body = urllib.request.urlopen(sys.argv[1]).read().decode('utf-8')\n"
        "print(json.dumps([{'name': f.name, 'type': f.type,\n"
        "                   'samples': [[s.name, s.labels, s.value] for s in f.samples]}\n"
        "                  for f in text(body)]))\n",
    Text = output(Python, ["-c", Program, Address]),
    Families = json:decode(Text),
    Samples = samples(Families),
    ?assert(length(Samples) > 80),
    ?assertMatch(
        [1000.0],
        [
            Value
         || {
                ~"otp_callbacks_total",
                #{~"callback" := ~"handle_call", ~"behaviour" := ~"gen_server"} = Labels,
                Value
            } <- Samples,
            map_get(~"name", Labels) =:= ~"a\\b\"c\nd{e=\"f\",g}é"
        ]
    ),
    ?assertEqual(
        [~"histogram"],
        [
            Type
         || #{~"name" := ~"otp_callback_duration_seconds", ~"type" := Type} <- Families
        ]
    ),
    ok = dyno_servers_sink:stop(Sink).

samples(Families) ->
    lists:sort([
        {Name, Labels, float(Value)}
     || #{~"samples" := Samples} <- Families, [Name, Labels, Value] <- Samples
    ]).

otlp_schema(Config) ->
    Python = python(["opentelemetry-proto"], Config),
    File = message(Config),
    Program =
        "import sys, json\n"
        "from google.protobuf import json_format\n"
        "from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import *\n"
        "request = json_format.Parse(open(sys.argv[1]).read(), ExportMetricsServiceRequest())\n"
        "scope = request.resource_metrics[0].scope_metrics[0]\n"
        "for m in scope.metrics:\n"
        "    for p in m.histogram.data_points:\n"
        "        assert len(p.bucket_counts) == len(p.explicit_bounds) + 1, m.name\n"
        "        assert sum(p.bucket_counts) == p.count, m.name\n"
        "        assert list(p.explicit_bounds) == sorted(p.explicit_bounds), m.name\n"
        "    for p in list(m.histogram.data_points) + list(m.sum.data_points):\n"
        "        assert 0 < p.start_time_unix_nano < p.time_unix_nano, m.name\n"
        "print(json.dumps({m.name: [m.WhichOneof('data'), m.unit] for m in scope.metrics}))\n",
    Metrics = json:decode(output(Python, ["-c", Program, File])),
    ?assertMatch(
        #{
            ~"beam.callback.duration" := [~"histogram", ~"s"],
            ~"beam.callback.calls" := [~"sum", ~"{call}"],
            ~"beam.process.message_queue.length" := [~"gauge", ~"{message}"],
            ~"beam.gen_stage.demand" := [~"sum", ~"{event}"]
        },
        Metrics
    ),
    ?assertEqual(20 - 1, map_size(Metrics)).

%% It is stricter than protobuf's own.
otlp_collectors_decoder(Config) ->
    Folder = filename:join(proplists:get_value(folder, Config), "pdata"),
    ok = filelib:ensure_path(Folder),
    ok = file:write_file(
        filename:join(Folder, "main.go"),
        "package main\n"
        "import (\"fmt\"; \"os\"; \"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp\")\n"
        "func main() {\n"
        "    text, _ := os.ReadFile(os.Args[1])\n"
        "    request := pmetricotlp.NewExportRequest()\n"
        "    if err := request.UnmarshalJSON(text); err != nil { panic(err) }\n"
        "    fmt.Print(request.Metrics().MetricCount(), \" \",\n"
        "        request.Metrics().DataPointCount())\n"
        "}\n"
    ),
    Go = [
        "cd " ++ Folder ++
            " && { [ -f go.mod ] || go mod init dyno.test/pdata; } && "
            "go get go.opentelemetry.io/collector/pdata@v1.50.0 && go build -o pdata ."
    ],
    Program = filename:join(Folder, "pdata"),
    ok = brought(Program, "sh", ["-c" | Go]),
    {0, Said} = output_of(Program, [message(Config)]),
    ?assertEqual(~"19 32", Said).

message(Config) ->
    {_, Totals} = dyno_servers_sink_totals:add(
        [server(), stage()], 0, dyno_servers_sink_totals:new()
    ),
    Message = dyno_servers_otlp:message(dyno_servers_sink_totals:servers(0, Totals), cumulative),
    file(Config, "message.json", Message).

%% Where it is on the code path: it is a package of Hex, which is no registry of every machine.
telemetry_library(_Config) ->
    case application:load(telemetry) of
        {error, {"no such file or directory", _}} ->
            {skip, "the library telemetry is not on the code path; set ERL_LIBS"};
        _ ->
            {ok, Config} = dyno_servers_sink:parse("telemetry"),
            {ok, Sink} = dyno_servers_sink:start_link(Config),
            Library = telemetry,
            Events = dyno_servers_telemetry:events(server()),
            ok = Library:attach_many(
                ?MODULE,
                lists:usort([Name || {Name, _, _} <- Events]),
                fun(Name, Measurements, Metadata, Pid) -> Pid ! {Name, Measurements, Metadata} end,
                self()
            ),
            ok = dyno_servers_sink:send(Sink, [server()]),
            ok = dyno_servers_sink:stop(Sink),
            [
                receive
                    Event -> ok
                end
             || Event <- Events
            ],
            ok = Library:detach(?MODULE)
    end.

%% Programs

npm(Name, Config) ->
    Folder = filename:join(proplists:get_value(folder, Config), "npm"),
    Module = filename:join([Folder, "node_modules", Name]),
    ok = filelib:ensure_path(Folder),
    _ = brought(Module, "npm", [
        "install", "--prefix", Folder, "--no-audit", "--omit=optional", Name
    ]),
    Module.

go(Module, Config) ->
    Folder = proplists:get_value(folder, Config),
    Program = filename:join(Folder, hd(string:split(filename:basename(Module), "@"))),
    _ = brought(Program, "env", ["GOBIN=" ++ Folder, "go", "install", Module]),
    Program.

python(Packages, Config) ->
    Folder = filename:join(proplists:get_value(folder, Config), "python"),
    Python = filename:join([Folder, "bin", "python"]),
    _ = brought(Python, "python3", ["-m", "venv", Folder]),
    case output_of(Python, ["-m", "pip", "install", "--quiet" | Packages]) of
        {0, _} -> Python;
        {_, Said} -> throw({skip, ["pip has no ", lists:join(" ", Packages), ": ", tail(Said)]})
    end.

%% A program of the same name in a package of Debian.
debian(Name) ->
    Script = filename:join([dyno_project:root(), "scripts", "otp"]),
    case output_of(Script, ["package", "29", Name]) of
        {0, Said} ->
            Folder = lists:last(binary:split(Said, ~"\n", [global, trim_all])),
            filename:join([unicode:characters_to_list(Folder), "usr", "bin", Name]);
        {_, Said} ->
            throw({skip, [Name, " cannot be had: ", tail(Said)]})
    end.

brought(File, Program, Arguments) ->
    case filelib:is_file(File) of
        true ->
            ok;
        false ->
            case output_of(Program, Arguments) of
                {0, _} -> ok;
                {_, Said} -> throw({skip, [Program, " brings nothing: ", tail(Said)]})
            end
    end.

tail(Said) ->
    lists:last([~"" | binary:split(Said, ~"\n", [global, trim_all])]).

output(Program, Arguments) ->
    {0, Said} = output_of(Program, Arguments),
    Said.

output_of(Program, Arguments) ->
    case os:find_executable(Program) of
        false ->
            throw({skip, ["there is no ", Program]});
        Path ->
            dyno_command:output(
                open_port({spawn_executable, Path}, [
                    {args, Arguments}, binary, exit_status, stderr_to_stdout
                ])
            )
    end.

%% It ends when the port is closed, also when this process is killed.
run(Program, Arguments) ->
    case os:find_executable(Program) of
        false ->
            throw({skip, ["there is no ", Program]});
        Path ->
            open_port({spawn_executable, "/bin/sh"}, [
                {args, [
                    "-c",
                    "\"$@\" </dev/null & pid=$!; cat >/dev/null; kill -9 $pid",
                    "sh",
                    Path
                    | [unicode:characters_to_list(Argument) || Argument <- Arguments]
                ]},
                {line, 1_000_000},
                binary,
                stderr_to_stdout
            ])
    end.

stop(Port) ->
    true = port_close(Port).

file(Config, Name, Content) ->
    File = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = file:write_file(File, Content),
    File.

free_port(udp) ->
    {ok, Socket} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_udp:close(Socket),
    Port;
free_port(tcp) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

listens(Port) ->
    until(fun() ->
        case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
            {ok, Socket} -> gen_tcp:close(Socket);
            {error, _} -> false
        end
    end).

until(Fun) ->
    case Fun() of
        false ->
            receive
            after 50 -> until(Fun)
            end;
        Value ->
            Value
    end.

get(Port, Path) ->
    Url = lists:flatten(io_lib:format("http://127.0.0.1:~b~ts", [Port, Path])),
    {ok, {{_, Status, _}, _, Body}} = httpc:request(get, {Url, []}, [], [{body_format, binary}]),
    {Status, Body}.

%% Sinks

send(Url, Sums) ->
    {ok, Config} = dyno_servers_sink:parse(Url),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    ok = dyno_servers_sink:send(Sink, Sums),
    Failures = written(Sink),
    ok = dyno_servers_sink:stop(Sink),
    Failures.

%% A call comes after what was sent before.
written(#{pid := Pid} = Sink) ->
    _ = sys:get_state(Pid),
    dyno_servers_sink:failures(Sink).

prometheus_sink(Sums) ->
    {ok, Config} = dyno_servers_sink:parse("prometheus://127.0.0.1:0"),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    ok = dyno_servers_sink:send(Sink, Sums),
    _ = written(Sink),
    {Sink, dyno_servers_sink:address(Sink)}.
