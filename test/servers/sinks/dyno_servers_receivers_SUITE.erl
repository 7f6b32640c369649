%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% What the sinks send, read by those that it is for: Prometheus' parsers for Python, the schema of
%% OTLP, the decoder of OpenTelemetry's collector, and the library `telemetry`. They are brought
%% into _build/receivers, and a case is skipped where one cannot be had.
-module(dyno_servers_receivers_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(dyno_servers_sums, [server/0, server/1, stage/0]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
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

python(Packages, Config) ->
    Folder = filename:join(proplists:get_value(folder, Config), "python"),
    Python = filename:join([Folder, "bin", "python"]),
    _ = brought(Python, "python3", ["-m", "venv", Folder]),
    case output_of(Python, ["-m", "pip", "install", "--quiet" | Packages]) of
        {0, _} -> Python;
        {_, Said} -> throw({skip, ["pip has no ", lists:join(" ", Packages), ": ", tail(Said)]})
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

file(Config, Name, Content) ->
    File = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = file:write_file(File, Content),
    File.

%% Sinks

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
