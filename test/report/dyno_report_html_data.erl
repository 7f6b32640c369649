%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html_data).
-moduledoc false.

%% A recording like those of `dyno test`, for the report's tests: made up, but always the same.
%% Three sizes; latencies that grow with the size and fail a threshold at the largest; a warm-up;
%% values that are not known; Erlang, Elixir and Unicode names; names that would be markup if the
%% page let them; and an instrument that the page does not know.

-export([document/0, several/0]).

-define(NODE, ~"cowboy@127.0.0.1").
-define(SECONDS, 60).
-define(WARMUP_SECONDS, 5).

document() ->
    {ok, Document} = dyno_recording:validate(written()),
    Document.

written() ->
    #{
        ~"format" => ~"dyno-recording",
        ~"version" => 2,
        ~"status" => ~"complete",
        ~"command" => ~"test",
        ~"name" => ~"Cowboy answering HTTP requests",
        ~"parameters" => #{
            ~"suite" => ~"examples/cowboy_suite.erl",
            ~"sizes" => sizes(),
            ~"size_label" => ~"Connections",
            ~"duration_ms" => 60000,
            ~"warmup_ms" => 5000,
            ~"interval_ms" => 1000,
            ~"patterns" => [~"cowboy_*:_/_", ~"ranch_*:_/_"],
            ~"thresholds" => [~"latency.p99 < 20 ms", ~"errors.rate < 0.1 %"],
            ~"load" => #{~"kind" => ~"closed", ~"workers" => ~"size"}
        },
        ~"environment" => environment(),
        ~"started_at" => ~"2026-11-21T08:00:12Z",
        ~"duration_ns" => 213_400_000_000,
        ~"runs" => [run(Size) || Size <- sizes()],
        ~"tables" => [growth()],
        ~"verdicts" => lists:append([verdicts(Size) || Size <- sizes()]),
        ~"warnings" => [
            text(~"noisy_machine", <<"Something else kept it busy: ", (hostile())/binary>>)
        ],
        ~"error" => null
    }.

%% The same with repetitions, two nodes, and verdicts over all runs.
several() ->
    #{~"runs" := Runs, ~"verdicts" := Verdicts} = Document = document(),
    Document#{
        ~"runs" := [repeat(Run, Repetition) || Run <- Runs, Repetition <- [1, 2, 3]],
        ~"verdicts" := [Verdict#{~"run" := null} || Verdict <- Verdicts]
    }.

repeat(#{~"id" := Id, ~"tables" := Tables} = Run, Repetition) ->
    Run#{
        ~"id" := <<Id/binary, "#", (integer_to_binary(Repetition))/binary>>,
        ~"repetition" := Repetition,
        ~"nodes" := [],
        ~"series" := [],
        ~"tables" := [on(Node, Table) || Node <- [~"a@host", ~"b@host"], Table <- Tables]
    }.

%% The second node has one row less, so that the nodes can be told apart.
on(~"b@host", #{~"rows" := [_ | Rows]} = Table) -> Table#{~"node" := ~"b@host", ~"rows" := Rows};
on(Node, Table) -> Table#{~"node" := Node}.

sizes() -> [100, 1000, 10000].

hostile() -> ~"</script><img src=x onerror=alert(1)><!--<script>".

unicode() -> ~"'größe_模块':'zählen_🐎'/2".

environment() ->
    #{
        ~"dyno_version" => ~"0.1.0",
        ~"otp" => ~"29.1",
        ~"erts" => ~"17.1",
        ~"jit" => true,
        ~"emulator_flags" => [~"+sbwt", ~"none"],
        ~"schedulers_online" => 8,
        ~"schedulers" => 8,
        ~"dirty_cpu_schedulers" => 8,
        ~"dirty_io_schedulers" => 10,
        ~"os" => ~"Linux",
        ~"kernel" => ~"6.1.0-28-amd64",
        ~"cpu_model" => ~"AMD EPYC 7763",
        ~"cores" => 8,
        ~"memory_bytes" => 33_567_223_808,
        ~"hostname" => ~"bench-07",
        ~"git" => #{~"revision" => ~"c475982", ~"dirty" => false},
        ~"time" => ~"2026-11-21T08:00:12Z"
    }.

run(Size) ->
    Id = integer_to_binary(Size),
    #{
        ~"id" => Id,
        ~"size" => Size,
        ~"repetition" => 1,
        ~"status" => ~"complete",
        ~"started_at" => ~"2026-11-21T08:00:20Z",
        ~"duration_ns" => ?SECONDS * 1_000_000_000,
        ~"nodes" => [
            #{
                ~"name" => ?NODE,
                ~"role" => ?NODE,
                ~"otp" => ~"29.1",
                ~"erts" => ~"17.1",
                ~"schedulers_online" => 4,
                ~"os_pid" => ~"4711",
                ~"clock_offset_ns" => -3_200_000_000,
                ~"clock_error_ns" => 41_000
            }
        ],
        ~"metrics" => metrics(Size),
        ~"histograms" => [histogram(Size)],
        ~"series" => series(Size),
        ~"tables" =>
            [
                functions(Size),
                callers(Size),
                processes(Size),
                errors(Size),
                invariants(Size),
                unknown_table()
            ],
        ~"warnings" => [
            text(~"load_late", ~"The load generator was late by 1.2 ms at its 99th percentile.")
         || Size =:= 10000
        ],
        ~"error" => null
    }.

%% Latencies, in nanoseconds: the median and how far the tail reaches.
median(Size) -> round(310_000 * math:pow(Size / 100, 0.62)).

latency(Size) ->
    Median = median(Size),
    #{
        ~"p50" => Median,
        ~"p90" => round(Median * 1.9),
        ~"p99" => round(Median * 4.4),
        ~"p99.9" => round(Median * 9.1),
        ~"max" => round(Median * 22.5)
    }.

throughput(Size) -> 31_000 * Size / (Size + 90).

metrics(Size) ->
    Operations = round(throughput(Size) * ?SECONDS),
    #{~"p99" := P99} = Latency = latency(Size),
    Errors = failures(Size),
    [
        metric(~"throughput", ~"Throughput", throughput(Size), ~"1/s", Operations),
        metric(~"operations.count", ~"Operations", Operations, ~"count", null),
        metric(~"errors.count", ~"Errors", Errors, ~"count", null),
        metric(~"errors.rate", ~"Share of errors", Errors / Operations, ~"ratio", Operations)
    ] ++
        [
            metric(
                <<"latency.", Part/binary>>,
                <<"Latency ", Part/binary>>,
                maps:get(Part, Latency),
                ~"ns",
                Operations
            )
         || Part <- [~"p50", ~"p90", ~"p99", ~"p99.9", ~"max"]
        ] ++
        [
            metric(~"load.schedule_lag.p99", ~"Schedule lag p99", P99 div 90, ~"ns", Operations),
            metric(~"service.unknown", ~"Never measured", null, ~"ns", null),
            metric(~"furlongs", ~"Unknown unit", 12.5, ~"furlong", null),
            (metric(~"shop.depth", ~"Depth of the tree", Size * 2.5, ~"count", null))#{
                ~"group" := ~"custom"
            },
            (metric(~"gpu.power", ~"Power", Size + 0.5, ~"W", null))#{~"group" := ~"gpu"},
            %% The cost of measuring is known at one size, and not at the others.
            cost(~"instrument.response_ratio", Size),
            cost(~"instrument.throughput_ratio", Size),
            (metric(~"instrument.spent", ~"Spent", 0.031, ~"ratio", null))#{
                ~"group" := ~"instrument"
            },
            (metric(~"uninstrumented.operations", ~"Without", 1234, ~"count", null))#{
                ~"group" := ~"instrument"
            }
        ].

cost(Name, Size) ->
    {Value, Low, High} =
        case Size of
            100 -> {1.25, 1.2, 1.3};
            1000 -> {null, 0.2, 460.5};
            _ -> {null, null, null}
        end,
    (metric(Name, ~"With by without", Value, ~"ratio", null))#{
        ~"group" := ~"instrument", ~"low" => Low, ~"high" => High
    }.

metric(Name, Title, Value, Unit, Count) ->
    #{
        ~"name" => Name,
        ~"title" => Title,
        ~"value" => Value,
        ~"unit" => Unit,
        ~"count" => Count,
        ~"group" => ~"load"
    }.

%% A log-normal bulk with a thin second hump, in log-linear buckets of 1/64.
histogram(Size) ->
    Median = median(Size),
    Counts = [
        {Low, High, round(2.0e6 * (High - Low) / Low * density(Low, Median))}
     || {Low, High} <- buckets(Median div 4, Median * 22)
    ],
    Buckets = [[Low, High, Count] || {Low, High, Count} <- Counts, Count > 0],
    #{
        ~"name" => ~"latency",
        ~"unit" => ~"ns",
        ~"title" => ~"Response time",
        ~"group" => ~"load",
        ~"labels" => #{},
        ~"count" => lists:sum([Count || [_, _, Count] <- Buckets]),
        ~"sum" => lists:sum([(Low + High) div 2 * Count || [Low, High, Count] <- Buckets]),
        ~"min" => hd(hd(Buckets)),
        ~"max" => lists:nth(2, lists:last(Buckets)) - 1,
        ~"scheme" => ~"dyno-log-linear-7",
        ~"buckets" => Buckets
    }.

density(Value, Median) ->
    bell(Value, Median, 0.42) + 0.02 * bell(Value, Median * 7, 0.3).

bell(Value, Median, Spread) ->
    Distance = math:log(Value / Median) / Spread,
    math:exp(-Distance * Distance / 2).

buckets(Low, End) when Low >= End -> [];
buckets(Low, End) ->
    High = Low + max(1, (1 bsl trunc(math:log2(Low))) div 64),
    [{Low, High} | buckets(High, End)].

%% Series

series(Size) ->
    P50 = median(Size),
    Load = throughput(Size),
    Busy = min(0.97, 0.2 + Load / 45_000),
    Work = [
        {~"load.throughput", ~"1/s", ~"load", ~"Throughput", Load, 0.05},
        {~"load.offered", ~"1/s", ~"load", ~"Asked", Load * 1.1, 0.001},
        {~"shop.baskets", ~"count", ~"custom", ~"Open baskets", Size * 3, 0.2},
        {~"load.errors", ~"count/s", ~"load", ~"Errors", failures(Size) / ?SECONDS, 0.9},
        {~"load.latency.p50", ~"ns", ~"load", ~"Latency p50", P50, 0.08},
        {~"load.latency.p99", ~"ns", ~"load", ~"Latency p99", P50 * 4.4, 0.25},
        {~"load.latency.max", ~"ns", ~"load", ~"Latency max", P50 * 12, 0.6},
        {~"vm.scheduler_utilisation.normal", ~"ratio", ~"vm", ~"Normal", Busy, 0.05},
        {~"vm.scheduler_utilisation.dirty_cpu", ~"ratio", ~"vm", ~"Dirty CPU", 0.02, 0.5},
        {~"vm.scheduler_utilisation.dirty_io", ~"ratio", ~"vm", ~"Dirty IO", 0.004, 0.5},
        {~"vm.run_queue.normal", ~"count", ~"vm", ~"Normal", Size / 400, 0.8},
        {~"vm.run_queue.dirty_cpu", ~"count", ~"vm", ~"Dirty CPU", 0.4, 0.9},
        {~"vm.reductions", ~"count/s", ~"vm", ~"Reductions", Load * 5400, 0.06},
        {~"vm.garbage_collections", ~"count/s", ~"vm", ~"Garbage collections", Load * 1.8, 0.1},
        {~"vm.context_switches", ~"count/s", ~"vm", ~"Context switches", Load * 6.1, 0.08},
        {~"vm.processes", ~"count", ~"vm", ~"Processes", Size * 2 + 140, 0.002},
        {~"vm.ports", ~"count", ~"vm", ~"Ports", Size + 12, 0.002},
        {~"vm.io.input", ~"B/s", ~"vm", ~"Input", Load * 220, 0.07},
        {~"vm.io.output", ~"B/s", ~"vm", ~"Output", Load * 410, 0.07},
        {~"os.cpu.user", ~"ratio", ~"os", ~"User", Busy * 0.6, 0.06},
        {~"os.cpu.system", ~"ratio", ~"os", ~"System", Busy * 0.25, 0.1},
        {~"os.cpu.iowait", ~"ratio", ~"os", ~"Waiting for IO", 0.01, 0.6},
        {~"os.cpu.steal", ~"ratio", ~"os", ~"Stolen", 0.015, 0.9},
        {~"os.memory.available", ~"B", ~"os", ~"Available", 21.0e9, 0.004},
        {~"os.memory.page_cache", ~"B", ~"os", ~"Page cache", 6.4e9, 0.002},
        {~"os.network.received", ~"B/s", ~"os", ~"Received", Load * 260, 0.07},
        {~"os.network.sent", ~"B/s", ~"os", ~"Sent", Load * 470, 0.07},
        {~"os.vm.rss", ~"B", ~"os", ~"Resident memory of the VM", 160.0e6 + Size * 9.0e3, 0.01}
    ],
    [
        series(Name, Unit, Group, Title, walk(Mean, Spread))
     || {Name, Unit, Group, Title, Mean, Spread} <- Work
    ] ++
        [
            series(<<"vm.memory.", Title/binary>>, ~"B", ~"vm", Title, [
                memory(Kind, Size, Second)
             || Second <- seconds()
            ])
         || Kind <- [total, processes, system, atom, binary, code, ets],
            Title <- [atom_to_binary(Kind)]
        ] ++
        [
            %% An instrument that this version's page has never heard of, with a gap.
            series(~"gpu.units.busy", ~"ratio", ~"gpu", ~"Busy units", gap(walk(0.4, 0.3))),
            series(~"gpu.units.waiting", ~"ratio", ~"gpu", ~"Waiting units", gap(walk(0.1, 0.3))),
            series(~"gpu.temperature", ~"degC", ~"gpu", hostile(), walk(61, 0.05))
        ].

seconds() -> lists:seq(-?WARMUP_SECONDS, ?SECONDS).

series(Name, Unit, Group, Title, Values) ->
    #{
        ~"name" => Name,
        ~"unit" => Unit,
        ~"group" => Group,
        ~"title" => Title,
        ~"node" => node_of(Group),
        ~"labels" => #{},
        ~"times_ms" => [Second * 1000 || Second <- seconds()],
        ~"values" => Values
    }.

node_of(~"load") -> null;
node_of(_) -> ?NODE.

%% Around the mean, always the same: two waves of different length, and a start that warms up.
walk(Mean, Spread) ->
    [
        Mean * warm(Second) *
            (1 + Spread * (0.6 * math:sin(Second * 0.7) + 0.4 * math:sin(Second * 2.9 + Mean)))
     || Second <- seconds()
    ].

warm(Second) when Second < 0 -> 0.4 + 0.6 * (1 + Second / ?WARMUP_SECONDS);
warm(_) -> 1.0.

gap(Values) ->
    {Before, [_, _, _ | After]} = lists:split(20, Values),
    Before ++ [null, null, null | After].

memory(processes, Size, Second) ->
    31_000_000 + Size * 5200 + saw(Second) * 160_000;
memory(binary, Size, Second) ->
    6_000_000 + Size * 900 + saw(Second) * 90_000;
memory(ets, Size, _) ->
    1_900_000 + Size * 40;
memory(code, _, _) ->
    14_300_000;
memory(atom, _, _) ->
    550_000;
memory(system, Size, Second) ->
    21_500_000 + lists:sum([memory(Kind, Size, Second) || Kind <- [binary, ets, code, atom]]);
memory(total, Size, Second) ->
    memory(processes, Size, Second) + memory(system, Size, Second).

saw(Second) -> (Second + ?WARMUP_SECONDS) rem 13.

%% Tables

functions(Size) ->
    Calls = round(throughput(Size) * ?SECONDS),
    Growing = Size / 100,
    Known = [
        {~"cowboy_http:parse_header/3", 6.1, 780},
        {~"cowboy_http:loop/1", 3.0, 1420},
        {~"cow_http:parse_headers/1", 1.0, 2310},
        {~"cowboy_router:match/3", 1.0, 960 * math:pow(Growing, 0.93)},
        {~"ranch_conns_sup:loop/4", 0.02, 5200 * math:pow(Growing, 0.88)},
        {~"cowboy_req:reply/4", 1.0, 640},
        {~"cowboy_stream:make_error_log/5", 0.0, null},
        {~"'Elixir.Shop.Basket':empty?/1", 0.5, 310},
        {~"'Elixir.Shop.Basket':\"total!\"/2", 0.5, 1290},
        {unicode(), 0.25, 450},
        {hostile(), 0.01, 99}
    ],
    Many = [
        {iolist_to_binary(io_lib:format("app_module_~b:function/~b", [I, I rem 5])), 1 / I, 40 + I}
     || I <- lists:seq(1, 240)
    ],
    Timed = [{Name, round(Calls * Part), Each} || {Name, Part, Each} <- Known ++ Many],
    Total = lists:sum([Count * Each || {_, Count, Each} <- Timed, is_number(Each)]),
    table(
        ~"functions",
        ~"Functions",
        ?NODE,
        [
            column(~"function", ~"Function", ~"string", null, ~"The function measured."),
            column(~"calls", ~"Calls", ~"integer", ~"count", ~"How often it was called."),
            column(~"counted", ~"Counted", ~"string", null, ~"How."),
            column(~"own_time", ~"Own time", ~"integer", ~"ns", ~"Time in it alone."),
            bound(~"low", ~"own_time", ~"ns"),
            bound(~"high", ~"own_time", ~"ns"),
            column(~"time_per_call", ~"Per call", ~"number", ~"ns/call", ~"Own time of one call."),
            column(~"share", ~"Share", ~"number", ~"ratio", ~"Of all own time."),
            column(~"words_per_call", ~"Words per call", ~"number", ~"words/call", ~"Allocated.")
        ],
        [function(Name, Count, Each, Total) || {Name, Count, Each} <- Timed],
        17
    ).

bound(Role, Of, Unit) ->
    (column(<<Of/binary, "_", Role/binary>>, Role, ~"integer", Unit, ~"A bound."))#{
        ~"role" => Role, ~"of" => Of
    }.

function(Name, Count, null, _Total) ->
    [Name, Count, ~"exact", null, null, null, null, null, null];
function(~"cow_http:parse_headers/1" = Name, Count, Each, Total) ->
    [Name, Count, ~"estimated" | times(Count * Each, Each, Total)];
function(~"cowboy_http:loop/1" = Name, Count, Each, Total) ->
    [Name, null, ~"not counted" | times(Count * Each, Each, Total)];
function(Name, Count, Each, Total) ->
    [Name, Count, ~"exact" | times(Count * Each, Each, Total)].

times(Own, Each, Total) ->
    [round(Own), round(Own * 0.9), round(Own * 1.2), float(Each), Own / Total, Each / 11].

callers(Size) ->
    table(
        ~"callers",
        ~"Callers",
        ?NODE,
        [
            column(~"function", ~"Function", ~"string", null, ~"The function called."),
            column(
                ~"processes", ~"Processes", ~"string", null, ~"The kind of process that called it."
            ),
            column(~"calls", ~"Calls", ~"integer", ~"count", ~"How often."),
            column(~"own_time", ~"Own time", ~"integer", ~"ns", ~"Time in it.")
        ],
        [
            [~"cowboy_http:parse_header/3", ~"cowboy_clear", Size * 900, Size * 702_000],
            [~"ranch_conns_sup:loop/4", ~"ranch_conns_sup", Size * 3, null]
        ],
        0
    ).

processes(Size) ->
    table(
        ~"processes",
        ~"Processes",
        ?NODE,
        [
            column(~"group", ~"Group", ~"string", null, ~"Registered name, label or initial call."),
            column(~"kind", ~"Kind", ~"string", null, ~"Where the group's name comes from."),
            column(~"discovered", ~"Discovered", ~"integer", ~"count", ~"Processes seen."),
            column(~"alive", ~"Alive", ~"integer", ~"count", ~"Of them at the end."),
            column(~"memory", ~"Memory", ~"integer", ~"B", ~"Sum at the last sample."),
            column(~"memory_max", ~"Memory, largest", ~"integer", ~"B", ~"Largest sum."),
            column(~"reductions", ~"Reductions", ~"integer", ~"count", ~"Sum."),
            column(~"message_queue_max", ~"Longest queue", ~"integer", ~"count", ~"Messages."),
            column(~"lifetime_p50", ~"Lifetime, p50", ~"integer", ~"ns", ~"At most."),
            column(~"lifetime_p90", ~"Lifetime, p90", ~"integer", ~"ns", ~"At most."),
            column(~"garbage_collections", ~"Collections", ~"integer", ~"count", ~"At least.")
        ],
        [
            [
                ~"cowboy_clear:connection_process/4",
                ~"initial_call",
                Size,
                Size,
                Size * 14_200,
                Size * 17_900,
                Size * 81_000,
                3,
                21_700_000,
                103_000_000,
                Size * 12
            ],
            [~"ranch_conns_sup", ~"registered", 4, 4, 91_000, 130_000, Size * 410, 12] ++
                [null, null, null],
            [~"'Elixir.Shop.Basket'", ~"label", 12, 11, 240_300, 611_000, 9_120_331, null] ++
                [null, null, 17],
            [hostile(), ~"first_call", 1, 0, null, 2_900, 1_204, 0, 21_700_000, 21_700_000, null]
        ],
        0
    ).

failures(10000) -> 2_140;
failures(_) -> 0.

errors(10000) ->
    errors_table([[~"timeout", 2_011], [~"{closed,before_reply}", 128], [hostile(), 1]]);
errors(_) ->
    errors_table([]).

errors_table(Rows) ->
    table(
        ~"errors",
        ~"Errors",
        null,
        [
            column(~"reason", ~"Reason", ~"string", null, ~"What the operation gave."),
            column(~"count", ~"Count", ~"integer", ~"count", ~"How often.")
        ],
        Rows,
        0
    ).

invariants(Size) ->
    table(
        ~"invariants",
        ~"Invariants",
        ?NODE,
        [
            column(~"invariant", ~"Invariant", ~"string", null, ~""),
            column(~"expression", ~"Condition", ~"string", null, ~""),
            column(~"result", ~"Result", ~"string", null, ~""),
            column(~"violations", ~"Violations", ~"integer", ~"count", ~""),
            column(~"first", ~"First", ~"number", ~"ms", ~"")
        ],
        [
            [hostile(), ~"shop:baskets() =< 1000", ~"fail", 3, Size / 10],
            [~"no orphans", ~"shop:orphans() =:= 0", ~"pass", 0, null]
        ],
        0
    ).

unknown_table() ->
    table(
        ~"gpu_kernels",
        ~"GPU kernels",
        null,
        [
            column(~"kernel", ~"Kernel", ~"string", null, ~""),
            column(~"runs", ~"Runs", ~"integer", ~"count", ~""),
            column(~"sure", ~"Sure", ~"boolean", null, ~"")
        ],
        [[~"matmul", 12, true], [~"softmax", 4, null]],
        0
    ).

growth() ->
    table(
        ~"growth",
        ~"Growth",
        null,
        [
            column(~"kind", ~"Kind", ~"string", null, ~"What grows."),
            column(~"name", ~"Name", ~"string", null, ~"Which."),
            column(~"unit", ~"Unit", ~"string", null, ~"Its unit."),
            column(
                ~"exponent", ~"Exponent", ~"number", ~"1", ~"It grows as the size to this power."
            ),
            column(~"low", ~"Low", ~"number", ~"1", ~"Lower end of the interval."),
            column(~"high", ~"High", ~"number", ~"1", ~"Upper end of the interval."),
            column(~"points", ~"Points", ~"integer", ~"count", ~"Sizes that have a value."),
            column(~"text", ~"In words", ~"string", null, ~"")
        ],
        [
            [~"function", ~"cowboy_router:match/3", ~"ns/call", 0.93, 0.88, 0.97, 3, ~"as n^0.93"],
            [~"function", ~"ranch_conns_sup:loop/4", ~"ns/call", 0.88, 0.8, 0.95, 3, ~"as n^0.88"],
            [~"metric", ~"latency.p99", ~"ns", 0.62, 0.6, 0.64, 3, ~"grows as n^0.62"],
            [~"function", ~"cowboy_http:loop/1", ~"ns/call", 0.0, null, null, 3, ~"does not grow"]
        ],
        0
    ).

table(Name, Title, Node, Columns, Rows, Truncated) ->
    #{
        ~"name" => Name,
        ~"title" => Title,
        ~"node" => Node,
        ~"columns" => Columns,
        ~"rows" => Rows,
        ~"truncated" => Truncated
    }.

column(Name, Title, Type, Unit, Help) ->
    #{~"name" => Name, ~"title" => Title, ~"type" => Type, ~"unit" => Unit, ~"help" => Help}.

verdicts(Size) ->
    #{~"p99" := P99} = latency(Size),
    Rate = failures(Size) / round(throughput(Size) * ?SECONDS),
    [
        verdict(Size, ~"latency.p99 < 20 ms", ~"latency.p99", 20_000_000, ~"ns", P99),
        verdict(Size, ~"errors.rate < 0.1 %", ~"errors.rate", 0.001, ~"ratio", Rate),
        at_least(
            verdict(
                Size,
                ~"memory.total < 512 MB",
                ~"memory.total",
                512_000_000,
                ~"B",
                memory(total, Size, ?SECONDS)
            )
        ),
        verdict(Size, ~"os.swap.used < 1 MB", ~"os.swap.used.max", 1_000_000, ~"B", null)
    ].

verdict(Size, Name, Metric, Limit, Unit, Value) ->
    #{
        ~"kind" => ~"threshold",
        ~"name" => Name,
        ~"subject" => Metric,
        ~"threshold" => #{
            ~"metric" => Metric,
            ~"operator" => ~"<",
            ~"limit" => Limit,
            ~"unit" => Unit,
            ~"value" => Value
        },
        ~"run" => integer_to_binary(Size),
        ~"result" => result(Value, Limit),
        ~"text" => <<Name/binary, " at ", (integer_to_binary(Size))/binary>>
    }.

at_least(#{~"threshold" := Threshold} = Verdict) ->
    Verdict#{~"threshold" := Threshold#{~"bound" => ~"at_least"}}.

result(null, _) -> ~"unknown";
result(Value, Limit) when Value < Limit -> ~"pass";
result(_, _) -> ~"fail".

text(Code, Text) -> #{~"code" => Code, ~"text" => Text}.
