%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_node).
-moduledoc "A recording of a running node: two looks of doctor's, memory that grows, a pipeline.".

-export([document/0]).

document() ->
    Start = dyno_recording:new(record, ~"shop@host", #{}, #{otp => ~"29.1", hostname => ~"host"}),
    dyno_recording:put(dyno_recording:add_run(Start, run()), status, complete).

run() ->
    #{
        id => ~"1",
        status => complete,
        nodes => [#{name => ~"shop@host", role => ~"shop"}],
        metrics => [],
        histograms => [],
        series => [
            series(~"vm.scheduler_utilisation.normal", ~"ratio", [0.2, 0.4, 0.6]),
            series(~"vm.run_queue.normal", ~"count", [0, 2, 4]),
            series(~"vm.memory.total", ~"B", [80_000_000, 90_000_000, 100_000_000]),
            series(~"vm.memory.binary", ~"B", [20_000_000, 30_000_000, 40_000_000])
        ],
        tables => [
            table(~"servers", [{~"server", string}, {~"busy", float}, {~"queue_max", integer}], [
                [~"writer", 0.97, 1200], [~"source", 0.02, 0], [~"idle", 0.0, 0]
            ]),
            table(
                ~"stages",
                [{~"stage", string}, {~"busy", float}, {~"processes", integer}, {~"note", string}],
                [
                    [~"source", 0.02, 1, null],
                    [~"parser_N", 0.5, 4, null],
                    [~"writer", 0.97, 1, ~"bottleneck"]
                ]
            ),
            table(~"flows", [{~"from", string}, {~"to", string}, {~"rate", float}], [
                [~"source", ~"parser_N", 2000.0], [~"parser_N", ~"writer", 1500.0]
            ]),
            table(~"pipeline", [{~"line", integer}, {~"text", string}], [
                [1, ~"source"], [2, ~"writer holds the pipeline up: it is busy 97 % of the time"]
            ])
        ],
        events => #{dropped => 0, items => [look(0, 100, 0), look(2000, 950, 5000)]}
    }.

series(Name, Unit, Values) ->
    #{
        name => Name,
        title => Name,
        group => ~"vm",
        unit => Unit,
        node => ~"shop",
        times_ms => [0, 1000, 2000],
        values => Values
    }.

table(Name, Columns, Rows) ->
    #{
        name => Name,
        title => Name,
        columns => [#{name => Column, title => Column, type => Type} || {Column, Type} <- Columns],
        rows => Rows
    }.

look(Ms, Ports, Reductions) ->
    #{
        time_ms => Ms,
        kind => ~"look",
        node => ~"shop",
        text => ~"what the node was like",
        data => #{
            time_ms => Ms,
            interval_ms => Ms,
            counts => #{ports => [Ports, 1000], processes => [10, 1000]},
            groups => [
                #{group => ~"shop:init/1", count => 40, reductions => 3 * Reductions},
                #{group => ~"conn:init/1", count => 1, reductions => Reductions}
            ],
            calls => [
                #{from => ~"<0.1.0>", to => ~"<0.3.0>", from_name => ~"a", to_name => ~"stock"},
                #{from => ~"<0.2.0>", to => ~"<0.3.0>", from_name => ~"b", to_name => ~"stock"}
            ],
            suspects => [
                #{
                    pid => ~"<0.3.0>",
                    name => ~"stock",
                    queue => 1500,
                    stacks => [#{count => 9, stack => [~"timer:sleep/1"]}]
                }
            ]
        }
    }.
