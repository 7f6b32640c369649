%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_large_recording).
-moduledoc false.

%% A recording as large as a report must bear: made up, always the same, and in everything but its
%% values like those of `dyno test`. The samples are shared out over the sizes; every size has all
%% the functions, and its share of the processes.

-export([document/0]).

-define(NODE, ~"target@host").
-define(SIZES, [10, 100, 1000]).
-define(FUNCTIONS, 5000).
-define(GROUPS, 3333).
-define(SAMPLES, 1200).
-define(SERIES, [
    {load, ~"throughput", ~"1/s", 4.0e4},
    {load, ~"errors", ~"count/s", 3.0},
    {load, ~"latency.p50", ~"ns", 1.2e6},
    {load, ~"latency.p99", ~"ns", 9.1e6},
    {load, ~"latency.max", ~"ns", 4.4e7},
    {vm, ~"scheduler_utilisation.normal", ~"ratio", 0.7},
    {vm, ~"scheduler_utilisation.dirty_cpu", ~"ratio", 0.1},
    {vm, ~"scheduler_utilisation.dirty_io", ~"ratio", 0.05},
    {vm, ~"run_queue.normal", ~"count", 60},
    {vm, ~"run_queue.dirty_cpu", ~"count", 3},
    {vm, ~"run_queue.dirty_io", ~"count", 2},
    {vm, ~"memory.total", ~"B", 9_000_000_000},
    {vm, ~"memory.processes", ~"B", 5_000_000_000},
    {vm, ~"memory.system", ~"B", 4_000_000_000},
    {vm, ~"memory.atom", ~"B", 3_500_000},
    {vm, ~"memory.binary", ~"B", 1_500_000_000},
    {vm, ~"memory.code", ~"B", 79_000_000},
    {vm, ~"memory.ets", ~"B", 1_600_000_000},
    {vm, ~"reductions", ~"count/s", 9.0e8},
    {vm, ~"garbage_collections", ~"count/s", 19000.0},
    {vm, ~"context_switches", ~"count/s", 26000.0},
    {vm, ~"processes", ~"count", 120_000},
    {vm, ~"ports", ~"count", 9000},
    {vm, ~"atoms", ~"count", 130_000},
    {vm, ~"ets_tables", ~"count", 800},
    {vm, ~"io.input", ~"B/s", 2.2e8},
    {vm, ~"io.output", ~"B/s", 8.8e8},
    {os, ~"cpu.user", ~"ratio", 0.6},
    {os, ~"cpu.system", ~"ratio", 0.3},
    {os, ~"cpu.iowait", ~"ratio", 0.05},
    {os, ~"cpu.steal", ~"ratio", 0.02},
    {os, ~"cpu.idle", ~"ratio", 0.3},
    {os, ~"load1", ~"1", 12.0},
    {os, ~"context_switches", ~"count/s", 23000.0},
    {os, ~"memory.available", ~"B", 23_000_000_000},
    {os, ~"memory.page_cache", ~"B", 1_600_000_000},
    {os, ~"swap.used", ~"B", 1000},
    {os, ~"disk.await", ~"ms", 0.8},
    {os, ~"network.received", ~"B/s", 1.0e8},
    {os, ~"network.sent", ~"B/s", 1.0e8},
    {os, ~"vm.cpu", ~"ratio", 6.5},
    {os, ~"vm.rss", ~"B", 9_600_000_000},
    {os, ~"vm.threads", ~"count", 60}
]).

-doc "A recording of 5,000 functions, 10,000 processes and 3,600 samples.".
-spec document() -> dyno_recording:document().
document() ->
    Runs = lists:enumerate(?SIZES),
    _ = rand:seed(exsss, {1, 2, 3}),
    {ok, Document} = dyno_recording:validate(#{
        ~"format" => ~"dyno-recording",
        ~"version" => 2,
        ~"status" => ~"complete",
        ~"command" => ~"test",
        ~"name" => ~"A large system",
        ~"parameters" => #{~"sizes" => ?SIZES, ~"size_label" => ~"Connections"},
        ~"environment" => #{~"otp" => ~"29.1", ~"hostname" => ~"large", ~"cores" => 64},
        ~"started_at" => ~"2026-11-21T08:00:12Z",
        ~"duration_ns" => 3_700_000_000_000,
        ~"runs" => [run(Place, Size) || {Place, Size} <- Runs],
        ~"tables" => [growth(?FUNCTIONS)],
        ~"verdicts" => [],
        ~"warnings" => [],
        ~"error" => null
    }),
    Document.

run(Place, Size) ->
    #{
        ~"id" => integer_to_binary(Size),
        ~"size" => Size,
        ~"repetition" => 1,
        ~"status" => ~"complete",
        ~"started_at" => null,
        ~"duration_ns" => 1_200_000_000_000,
        ~"nodes" => [
            #{~"name" => ?NODE, ~"role" => ?NODE, ~"otp" => ~"29.1", ~"schedulers_online" => 64}
        ],
        ~"metrics" => [
            metric(~"throughput", ~"1/s", 40000.0 / Place),
            metric(~"operations.count", ~"count", 48_000_000 div Place),
            metric(~"latency.p50", ~"ns", 900_000 * Place),
            metric(~"latency.p99", ~"ns", 9_000_000 * Place)
        ],
        ~"histograms" => [],
        ~"series" => [series(Of, ?SAMPLES) || Of <- ?SERIES],
        ~"tables" => [
            functions(?FUNCTIONS),
            callers(?FUNCTIONS, ?GROUPS),
            processes(Place, ?GROUPS)
        ],
        ~"warnings" => [],
        ~"error" => null
    }.

metric(Name, Unit, Value) ->
    #{
        ~"name" => Name,
        ~"title" => Name,
        ~"value" => Value,
        ~"unit" => Unit,
        ~"count" => null,
        ~"group" => ~"load"
    }.

series({Group, Name, Unit, Scale}, Samples) ->
    Prefix = atom_to_binary(Group),
    #{
        ~"name" => <<Prefix/binary, ".", Name/binary>>,
        ~"title" => Name,
        ~"unit" => Unit,
        ~"group" => Prefix,
        ~"node" => ?NODE,
        ~"labels" => #{},
        ~"times_ms" => [N * 1000 + N rem 7 || N <- lists:seq(1, Samples)],
        ~"values" => [value(Scale) || _ <- lists:seq(1, Samples)]
    }.

value(Scale) when is_float(Scale) -> Scale * (0.5 + rand:uniform() / 2);
value(Scale) -> Scale - rand:uniform(max(1, Scale div 3)).

functions(Count) ->
    table(
        ~"functions",
        [
            {~"function", ~"string", null},
            {~"calls", ~"integer", ~"count"},
            {~"own_time", ~"integer", ~"ns"},
            {~"own_time_uncertainty", ~"integer", ~"ns"},
            {~"time_per_call", ~"number", ~"ns/call"},
            {~"share", ~"number", ~"ratio"}
        ],
        [
            [function(N), 9_000_000 div N, 88_000_000_000 div N, 0, value(900.0), 0.1 / N]
         || N <- lists:seq(1, Count)
        ]
    ).

function(N) ->
    iolist_to_binary(
        io_lib:format("some_application_module_~b:handle_something/~b", [N div 20, N rem 20])
    ).

%% Two kinds of process call each function.
callers(Functions, Groups) ->
    table(
        ~"callers",
        [
            {~"function", ~"string", null},
            {~"processes", ~"string", null},
            {~"calls", ~"integer", ~"count"},
            {~"own_time", ~"integer", ~"ns"}
        ],
        [
            [function(N), group((N * Of) rem Groups + 1), 4_500_000 div N, 44_000_000_000 div N]
         || N <- lists:seq(1, Functions), Of <- [1, 7]
        ]
    ).

processes(Place, Groups) ->
    table(
        ~"processes",
        [
            {~"group", ~"string", null},
            {~"kind", ~"string", null},
            {~"discovered", ~"integer", ~"count"},
            {~"alive", ~"integer", ~"count"},
            {~"memory", ~"integer", ~"B"},
            {~"memory_max", ~"integer", ~"B"},
            {~"reductions", ~"integer", ~"count"},
            {~"message_queue_max", ~"integer", ~"count"}
        ],
        [
            [
                group(N),
                ~"registered",
                1,
                1,
                400_000 * Place + N,
                900_000 * Place + N,
                7_000_000 div N,
                N rem 99
            ]
         || N <- lists:seq(1, Groups)
        ]
    ).

group(N) ->
    <<"registered_worker_process_", (integer_to_binary(N))/binary>>.

growth(Functions) ->
    table(
        ~"growth",
        [
            {~"kind", ~"string", null},
            {~"name", ~"string", null},
            {~"unit", ~"string", null},
            {~"exponent", ~"number", null},
            {~"low", ~"number", null},
            {~"high", ~"number", null},
            {~"points", ~"integer", null},
            {~"smallest", ~"number", null},
            {~"largest", ~"number", null},
            {~"text", ~"string", null},
            {~"share", ~"number", ~"ratio"}
        ],
        [
            [
                ~"metric",
                Metric,
                ~"ns",
                0.5,
                0.4,
                0.6,
                3,
                1.0e6,
                1.0e7,
                ~"grows as n^0.5 (0.4 to 0.6, 92 % sure)",
                null
            ]
         || Metric <- [~"latency.p50", ~"latency.p99"]
        ] ++
            [
                [
                    ~"function",
                    function(N),
                    ~"ns/call",
                    2 - N / Functions,
                    0.5,
                    2.5,
                    3,
                    100.0,
                    1000.0 * N,
                    ~"grows as n^1.2 (0.5 to 2.5, 92 % sure)",
                    0.1 / N
                ]
             || N <- lists:seq(1, Functions)
            ]
    ).

table(Name, Columns, Rows) ->
    #{
        ~"name" => Name,
        ~"title" => string:titlecase(Name),
        ~"node" => ?NODE,
        ~"columns" => [
            #{~"name" => C, ~"title" => C, ~"type" => Type, ~"unit" => Unit, ~"help" => ~""}
         || {C, Type, Unit} <- Columns
        ],
        ~"rows" => Rows,
        ~"truncated" => 0
    }.
