%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold_SUITE).
-moduledoc false.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-import(proper_types, [list/1, oneof/1, range/2]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        every_operator,
        metrics_in_human_units,
        percentiles,
        never_rounded_to_the_limit,
        series_and_aggregates,
        short_forms,
        nodes,
        sizes,
        functions,
        processes,
        growth,
        findings,
        summary_with_a_number_as_key,
        unknown_names_the_closest,
        unknown_when_not_measured,
        values_with_intervals,
        unknown_when_units_differ,
        units_nobody_knows,
        any_table,
        points_at_what_is_wrong,
        verdicts_fit_a_recording,
        reads_what_it_prints,
        any_text_is_answered,
        operations_that_never_started
    ].

%% A recording with two sizes and two nodes

recording() ->
    New = dyno_recording:put(dyno_recording:new(test, ~"echo", #{}, #{}), status, complete),
    Runs = lists:foldl(fun(R, D) -> dyno_recording:add_run(D, R) end, New, [
        run(~"10", 10, 5_000_000), run(~"100", 100, 13_201_920)
    ]),
    dyno_recording:add_tables(Runs, [
        #{
            name => growth,
            columns => [
                #{name => kind, type => string, role => key},
                #{name => name, type => string, role => key},
                #{name => exponent, type => number}
            ],
            rows => [
                [~"function", ~"m:quadratic/1", 1.9],
                [~"metric", ~"latency.p99", 0.42],
                [~"function", ~"m:once/0", null]
            ]
        }
    ]).

run(Id, Size, P99) ->
    #{
        id => Id,
        size => Size,
        status => complete,
        nodes => [#{name => ~"server@host"}, #{name => ~"store@host"}],
        metrics => [
            #{name => ~"latency.p99", value => P99, unit => ns},
            #{name => ~"errors.rate", value => 0.0005, unit => ratio},
            #{name => ~"throughput", value => 12_345.6, unit => ~"1/s"},
            #{name => ~"service.p50", value => null, unit => ns},
            #{name => ~"my.gauge", value => 3, unit => ms},
            #{name => ~"custom.max", value => 7, unit => count},
            #{name => ~"my.furlongs", value => 3.5, unit => furlongs}
        ],
        %% 1 to 1,000 ms, a bucket a millisecond.
        histograms => [
            histogram(~"latency", #{}, 1, 1_000_000),
            histogram(~"labelled", #{node => ~"server@host"}, 1, 1_000_000),
            (histogram(~"empty", #{}, 1, 1))#{count := 0, buckets := []}
        ],
        series => [
            series(~"vm.memory.total", ~"B", ~"store@host", [9_000_000, 9_500_000, 9_100_000]),
            series(~"vm.memory.total", ~"B", ~"server@host", [40_000_000, 60_000_000, 50_000_000]),
            series(~"vm.run_queue.normal", count, ~"server@host", [1, undefined, 5]),
            series(~"vm.scheduler_utilisation.normal", ratio, ~"server@host", [0.25, 0.5, 0.75]),
            series(~"os.vm.cpu", ratio, ~"server@host", [0.5, 1.5, 1.0]),
            series(~"os.disk.await", ms, undefined, [1, 2, 4]),
            series(~"vm.ports", count, ~"server@host", [undefined, undefined, undefined])
        ],
        tables => [
            functions(~"store@host", [[~"m:slow/2", 7, 900, 128.5, 0.1]]),
            functions(~"server@host", [
                [~"m:slow/2", 1_000, 25_000_000, 25_000.0, 0.75],
                [~"'my mod':f/0", 1, 10, 10.0, 0.25],
                [~"m:loaded_late/0", null, null, null, null]
            ]),
            #{
                name => processes,
                node => ~"server@host",
                columns => [
                    #{name => group, type => string},
                    #{name => memory_max, type => integer, unit => ~"B"},
                    #{name => alive, type => integer}
                ],
                rows => [[~"listener sup", 4_500_000, 3], [~"worker:init/1", 100, 0]]
            },
            #{
                name => queues,
                columns => [
                    #{name => zone, type => string, role => key},
                    #{name => queue, type => anything, role => key},
                    #{name => longest, type => integer, unit => count, role => value},
                    #{name => share, type => number, unit => ratio}
                ],
                rows => [[~"eu", ~"orders", 7, 0.75], [~"us", 12, 3, 0.25]]
            },
            #{
                name => sampled,
                columns => [
                    #{name => function, type => string, role => key},
                    #{name => calls, type => integer, unit => count, role => value},
                    #{name => counted, type => string, role => note},
                    #{name => share, type => number, unit => ratio, role => value},
                    #{name => low, type => number, unit => ratio, role => low, 'of' => share},
                    #{name => high, type => number, unit => ratio, role => high, 'of' => share}
                ],
                rows => [
                    [~"m:sure/0", 5, ~"exact", 0.1, 0.08, 0.13],
                    [~"m:guessed/0", null, ~"not counted", 0.1, 0, 0.3],
                    [~"m:plain/0", 5, ~"exact", 0.1, null, null],
                    [~"m:least/0", 5, ~"exact", 0.1, 0.1, null],
                    [~"m:most/0", 5, ~"exact", null, null, 0.1],
                    [~"m:between/0", 5, ~"exact", null, 0.05, 0.1]
                ]
            }
        ]
    }.

histogram(Name, Labels, Each, Width) ->
    #{
        name => Name,
        unit => ns,
        labels => Labels,
        count => 1_000 * Each,
        min => Width + 3,
        max => 1_000 * Width,
        buckets => [[N * Width, (N + 1) * Width, Each] || N <- lists:seq(1, 1_000)]
    }.

%% The first point is warm-up, and larger than all.
series(Name, Unit, Node, Values) ->
    #{
        name => Name,
        unit => Unit,
        node => Node,
        times_ms => [-1000, 0, 1000, 2000],
        values => [999_000_000 | Values]
    }.

functions(Node, Rows) ->
    Columns = [
        #{name => function, type => string},
        #{name => calls, type => integer, unit => count},
        #{name => own_time, type => integer, unit => ns},
        #{name => time_per_call, type => number, unit => ~"ns/call"},
        #{name => share, type => number, unit => ratio}
    ],
    #{name => functions, node => Node, columns => Columns, rows => Rows}.

verdicts(Text) ->
    {ok, Threshold} = dyno_threshold:parse(Text),
    dyno_threshold:evaluate(Threshold, recording()).

at_100(Text) ->
    [Verdict] = verdicts(Text),
    Verdict.

check(Expected) ->
    [
        begin
            #{~"result" := Found, ~"threshold" := #{~"value" := FoundValue}} =
                Verdict = at_100(Text),
            ?assertEqual({Text, Result, true, Verdict}, {Text, Found, FoundValue == Value, Verdict})
        end
     || {Text, Result, Value} <- Expected
    ].

every_operator(_) ->
    check([
        {"latency.p99 at 100 < 13201920 ns", ~"fail", 13_201_920},
        {"latency.p99 at 100 < 13201921 ns", ~"pass", 13_201_920},
        {"latency.p99 at 100 <= 13201920 ns", ~"pass", 13_201_920},
        {"latency.p99 at 100 > 13201920 ns", ~"fail", 13_201_920},
        {"latency.p99 at 100 > 13.2 ms", ~"pass", 13_201_920},
        {"latency.p99 at 100 >= 13201920 ns", ~"pass", 13_201_920},
        {"latency.p99 at 100 == 13.20192 ms", ~"pass", 13_201_920},
        {"latency.p99 at 100 == 13 ms", ~"fail", 13_201_920},
        {"latency.p99 at 100<20ms", ~"pass", 13_201_920}
    ]).

metrics_in_human_units(_) ->
    [Small, Large] = verdicts("latency.p99 < 10 ms"),
    ?assertMatch(
        #{
            ~"kind" := ~"threshold",
            ~"name" := ~"latency.p99 < 10 ms",
            ~"subject" := ~"latency.p99",
            ~"threshold" := #{
                ~"metric" := ~"latency.p99",
                ~"operator" := ~"<",
                ~"limit" := 10_000_000,
                ~"unit" := ~"ns",
                ~"value" := 5_000_000
            },
            ~"run" := ~"10",
            ~"result" := ~"pass",
            ~"text" := ~"latency.p99 is 5 ms at size 10, limit < 10 ms"
        },
        Small
    ),
    ?assertMatch(
        #{
            ~"run" := ~"100",
            ~"result" := ~"fail",
            ~"text" := ~"latency.p99 is 13.2 ms at size 100, limit < 10 ms"
        },
        Large
    ),
    check([
        {"errors.rate at 10 < 0.1 %", ~"pass", 0.0005},
        {"errors.rate at 10 < 0.0001", ~"fail", 0.0005},
        {"throughput at 10 > 10 k/s", ~"pass", 12_345.6},
        {"throughput at 10 > 12345", ~"pass", 12_345.6},
        %% recorded in ms, compared in ns
        {"my.gauge at 10 < 3.1 ms", ~"pass", 3_000_000}
    ]).

%% Of what is recorded by its metric that; any other is the middle of its bucket, within the values.
percentiles(_) ->
    check([
        {"latency.p95 at 10 < 1 s", ~"pass", 950_500_000},
        {"latency.p95 at 10 < 950 ms", ~"fail", 950_500_000},
        {"latency.p50.05 at 10 < 1 s", ~"pass", 501_500_000},
        {"latency.p0 at 10 < 1 s", ~"pass", 1_500_000},
        {"latency.p99.999 at 10 <= 1 s", ~"pass", 1_000_000_000},
        {"latency.p99 at 10 < 6 ms", ~"pass", 5_000_000},
        {"empty.p95 at 10 < 1 s", ~"unknown", null},
        {"labelled.p95 at 10 < 1 s", ~"unknown", null},
        {"latency.p100 at 10 < 1 s", ~"unknown", null},
        {"latency.p95 of server at 10 < 1 s", ~"unknown", null}
    ]).

never_rounded_to_the_limit(_) ->
    #{~"text" := Text} = at_100("latency.p99 at 100 < 13.2 ms"),
    ?assertEqual(~"latency.p99 is 13.202 ms at size 100, limit < 13.2 ms", Text).

series_and_aggregates(_) ->
    check([
        {"vm.memory.total.max at 10 <= 60 MB", ~"pass", 60_000_000},
        {"vm.memory.total.min at 10 <= 60 MB", ~"pass", 40_000_000},
        {"vm.memory.total.mean at 10 == 50 MB", ~"pass", 50_000_000},
        {"vm.memory.total.last at 10 == 50 MB", ~"pass", 50_000_000},
        {"vm.memory.total at 10 == 60 MB", ~"pass", 60_000_000},
        {"vm.run_queue.normal.mean at 10 == 3", ~"pass", 3},
        {"os.disk.await at 10 < 4.5 ms", ~"pass", 4_000_000}
    ]).

short_forms(_) ->
    check([
        {"memory.total at 10 < 512 MB", ~"pass", 60_000_000},
        {"memory.total.min at 10 < 512 MB", ~"pass", 40_000_000},
        {"run_queue at 10 < 4", ~"fail", 5},
        {"run_queue.normal.min at 10 < 4", ~"pass", 1},
        {"scheduler_utilisation at 10 < 60 %", ~"pass", 0.5},
        {"cpu at 10 <= 100 %", ~"pass", 1.0},
        {"cpu.max at 10 <= 100 %", ~"fail", 1.5},
        {"disk.await at 10 < 1 s", ~"pass", 4_000_000},
        {"custom at 10 < 8", ~"pass", 7}
    ]).

nodes(_) ->
    check([
        {"memory.total of store at 10 < 10 MB", ~"pass", 9_500_000},
        {"memory.total of store@host at 10 < 10 MB", ~"pass", 9_500_000},
        {"memory.total of server at 10 < 10 MB", ~"fail", 60_000_000},
        {"function m:slow/2 calls of store at 10 < 10", ~"pass", 7},
        {"memory.total of sto at 10 < 10 MB", ~"unknown", null}
    ]).

sizes(_) ->
    ?assertMatch([#{~"run" := ~"10"}, #{~"run" := ~"100"}], verdicts("throughput > 1")),
    ?assertMatch([#{~"run" := ~"100"}], verdicts("throughput at 100 > 1")),
    [#{~"run" := null, ~"result" := ~"unknown", ~"text" := Text}] = verdicts("throughput at 7 > 1"),
    ?assertEqual(
        ~"throughput is not known: there is no run of size 7, the sizes are 10, 100", Text
    ),
    {ok, Threshold} = dyno_threshold:parse("throughput > 1"),
    Empty = dyno_recording:new(test, ~"echo", #{}, #{}),
    ?assertMatch(
        [#{~"result" := ~"unknown", ~"run" := null}], dyno_threshold:evaluate(Threshold, Empty)
    ).

functions(_) ->
    check([
        {"function m:slow/2 time_per_call at 10 < 20 us", ~"fail", 25_000},
        {"function m:slow/2 time_per_call at 10 < 30 us/call", ~"pass", 25_000},
        {"function m:slow/2 calls at 10 == 1 k", ~"pass", 1_000},
        {"function m:slow/2 share at 10 < 80 %", ~"pass", 0.75},
        {"function m:slow/2 own_time at 10 < 1 s", ~"pass", 25_000_000},
        {"function 'my mod':f/0 calls at 10 == 1", ~"pass", 1}
    ]),
    #{~"text" := Text} = at_100("function m:slow/2 time_per_call at 100 < 20 us"),
    ?assertEqual(
        ~"function m:slow/2 time_per_call is 25 us/call at size 100, limit < 20 us", Text
    ).

processes(_) ->
    check([
        {"process \"listener sup\" memory_max at 10 < 5 MB", ~"pass", 4_500_000},
        {"process worker:init/1 alive at 10 == 0", ~"pass", 0},
        {"process worker:init/1 memory at 10 < 1 MB", ~"unknown", null}
    ]).

growth(_) ->
    check([
        {"growth m:quadratic/1 < 1.2", ~"fail", 1.9},
        {"growth latency.p99 <= 1.1", ~"pass", 0.42},
        {"growth m:once/0 <= 1.1", ~"unknown", null},
        {"growth m:quadratc/1 < 1.2", ~"unknown", null}
    ]),
    ?assertMatch(#{~"run" := null}, at_100("growth latency.p99 <= 1.1")),
    %% Measured, but not well enough for an exponent: that is what is said.
    #{~"result" := ~"unknown", ~"text" := Told} = at_100("growth m:slow/2 < 1.2"),
    ?assertMatch({_, _}, binary:match(Told, ~"known well enough at less than two sizes")).

%% They would have been the slowest: a percentile of the others is a lower bound. If the generator
%% was the bottleneck, the target's is not known, and it may do more operations than were begun. A
%% late generator lengthens response times.
operations_that_never_started(_) ->
    Result = fun(Text, Saturated, Limited) ->
        #{metrics := Metrics} = Run = run(~"10", 10, 5_000_000),
        Phases = [
            #{name => ~"load.saturated", value => Saturated, unit => count},
            #{name => ~"load.generator_limited", value => Limited, unit => count},
            #{name => ~"operation.buy.latency.p99", value => 5_000_000, unit => ns},
            #{name => ~"phase.at_peak.throughput", value => 100, unit => ~"1/s"}
        ],
        State = fun
            (1, 1) -> ~"generator limited";
            (0, 1) -> ~"generator limited";
            (1, 0) -> ~"saturated";
            (0, 0) -> ~"kept"
        end,
        Table = dyno_recording_table:make(
            #{
                name => ~"phases",
                title => ~"Phases",
                columns => [
                    {~"phase", ~"Phase", string, 1},
                    {~"dropped", ~"Dropped", count, 2},
                    {~"state", ~"State", string, 3}
                ]
            },
            [{~"at peak", 7 * Saturated, State(Saturated, Limited)}]
        ),
        New = dyno_recording:put(dyno_recording:new(test, ~"a", #{}, #{}), status, complete),
        {ok, Threshold} = dyno_threshold:parse(Text),
        [#{~"result" := Is}] = dyno_threshold:evaluate(
            Threshold,
            dyno_recording:add_run(New, Run#{metrics := Phases ++ Metrics, tables => [Table]})
        ),
        Is
    end,
    [
        ?assertEqual(
            Expected, [Result(Text, S, L) || {S, L} <- [{0, 0}, {1, 0}, {1, 1}, {0, 1}]], Text
        )
     || {Text, Expected} <- [
            {"latency.p99 < 10 ms", [~"pass", ~"unknown", ~"unknown", ~"pass"]},
            {"latency.p99 < 1 ms", [~"fail", ~"fail", ~"unknown", ~"unknown"]},
            {"operation.buy.latency.p99 < 10 ms", [~"pass", ~"unknown", ~"unknown", ~"pass"]},
            {"throughput > 10 /s", [~"pass", ~"pass", ~"pass", ~"pass"]},
            {"throughput > 1 M/s", [~"fail", ~"fail", ~"unknown", ~"fail"]},
            {"phase.at_peak.throughput > 200 /s", [~"fail", ~"fail", ~"unknown", ~"fail"]}
        ]
    ],
    %% A late generator is no excuse for more than it was late: at most 2 ms.
    Late = fun(Text) ->
        #{metrics := Metrics, histograms := Histograms} = Run = run(~"10", 10, 5_000_000),
        Limited = #{name => ~"load.generator_limited", value => 1, unit => count},
        Lags = histogram(~"load.schedule_lag", #{}, 1, 2_000),
        New = dyno_recording:put(dyno_recording:new(test, ~"a", #{}, #{}), status, complete),
        {ok, Threshold} = dyno_threshold:parse(Text),
        [#{~"result" := Is}] = dyno_threshold:evaluate(
            Threshold,
            dyno_recording:add_run(New, Run#{
                metrics := [Limited | Metrics], histograms := [Lags | Histograms]
            })
        ),
        Is
    end,
    ?assertEqual(
        [~"fail", ~"unknown", ~"pass"],
        [Late(["latency.p99 < ", Limit]) || Limit <- ["0.9 ms", "3 ms", "10 ms"]]
    ),
    %% A search that the generator ended: the rate may be higher.
    Searched = fun(High) ->
        #{metrics := Metrics} = Run = run(~"10", 10, 5_000_000),
        Rate = #{
            name => ~"load.search.rate", value => 900, unit => ~"1/s", low => 900, high => High
        },
        New = dyno_recording:put(dyno_recording:new(test, ~"a", #{}, #{}), status, complete),
        {ok, Threshold} = dyno_threshold:parse("throughput > 1 M/s"),
        [#{~"result" := Is}] = dyno_threshold:evaluate(
            Threshold, dyno_recording:add_run(New, Run#{metrics := [Rate | Metrics]})
        ),
        Is
    end,
    ?assertEqual([~"unknown", ~"fail"], [Searched(null), Searched(1100)]).

findings(_) ->
    Found = fun(Severities) ->
        dyno_finding:table(undefined, [
            dyno_finding:new(queue, queue, #{severity => S, value => 7000, text => ~"It is long."})
         || S <- Severities
        ])
    end,
    [Run] = dyno_recording:runs(
        dyno_recording:add_run(dyno_recording:new(record, ~"a", #{}, #{}), #{
            id => ~"1", status => complete, tables => [Found([warning, note])]
        })
    ),
    With = fun(Tables, Runs) ->
        Whole = dyno_recording:put(dyno_recording:new(record, ~"a", #{}, #{}), status, complete),
        dyno_recording:add_tables(Whole#{~"runs" => Runs}, Tables)
    end,
    Result = fun(Text, Document) ->
        {ok, Threshold} = dyno_threshold:parse(Text),
        [#{~"result" := Is}] = dyno_threshold:evaluate(Threshold, Document),
        Is
    end,
    Both = With([Found([critical, warning])], [Run]),
    [
        ?assertEqual(Expected, Result(Text, Both), Text)
     || {Text, Expected} <- [
            {"findings critical == 0", ~"fail"},
            {"findings critical <= 1", ~"pass"},
            {"findings warning == 2", ~"pass"},
            {"findings doubt == 0", ~"pass"},
            {"findings all == 4", ~"pass"}
        ]
    ],
    %% Nothing found is not the same as nothing looked for.
    ?assertEqual(~"pass", Result("findings all == 0", With([Found([])], []))),
    ?assertEqual(~"unknown", Result("findings all == 0", With([], []))),
    %% Later findings: the verdict is made again, the others stay.
    {ok, Threshold} = dyno_threshold:parse("findings warning == 1"),
    {ok, Other} = dyno_threshold:parse("latency.p99 < 1 h"),
    Judged = dyno_threshold:judge([Threshold, Other], With([], dyno_recording:runs(recording()))),
    Verdicts = fun(#{~"verdicts" := Of}) -> lists:sort([R || #{~"result" := R} <- Of]) end,
    ?assertEqual([~"pass", ~"pass", ~"unknown"], Verdicts(Judged)),
    Later = dyno_recording:add_tables(Judged, [Found([warning])]),
    ?assertEqual(
        [~"pass", ~"pass", ~"pass"], Verdicts(dyno_threshold:judge_findings(Later))
    ),
    Known = #{summaries => [dyno_finding:spec()]},
    {ok, Slip} = dyno_threshold:parse("findings critcal == 0"),
    {error, Reason} = dyno_threshold:check(Slip, Known),
    Refused = dyno_threshold:format_error(Reason),
    ?assertMatch({match, _}, re:run(Refused, "column 10: .* one of critical, warning")),
    ?assertEqual(ok, dyno_threshold:check(Threshold, Known)).

%% A column that tells rows apart is not what they are compared by, though it be a number.
summary_with_a_number_as_key(_) ->
    Document = dyno_recording:add_tables(recording(), [
        #{
            name => repetitions,
            columns => [
                #{name => size, type => integer, role => key},
                #{name => metric, type => string, role => key},
                #{name => mean, type => number}
            ],
            rows => [[10, ~"throughput", 5.0]]
        }
    ]),
    {ok, Threshold} = dyno_threshold:parse("repetitions \"10 throughput\" < 6"),
    ?assertMatch(
        [#{~"result" := ~"pass", ~"threshold" := #{~"value" := 5.0}}],
        dyno_threshold:evaluate(Threshold, Document)
    ).

unknown_names_the_closest(_) ->
    Expected = [
        {"latncy.p99 at 10 < 1 ms", ~"latency.p99"},
        {"memory.totl at 10 < 1 MB", ~"memory.total"},
        {"function m:slw/2 calls at 10 < 1", ~"m:slow/2"},
        {"process listener alive at 10 < 1", ~"listener sup"},
        {"growth latency.p9 < 1", ~"latency.p99"}
    ],
    [
        begin
            #{~"result" := Result, ~"threshold" := #{~"value" := null}, ~"text" := Told} =
                at_100(Text),
            ?assertEqual(~"unknown", Result),
            ?assertNotEqual({Told, nomatch}, {Told, string:find(Told, Name)})
        end
     || {Text, Name} <- Expected
    ].

unknown_when_not_measured(_) ->
    Expected = [
        "service.p50 at 10 < 1 ms",
        "ports at 10 < 10",
        "function m:loaded_late/0 calls at 10 < 1",
        "function m:slow/2 words at 10 < 1"
    ],
    [
        begin
            #{~"result" := Result, ~"text" := Told} = at_100(Text),
            ?assertEqual({Told, ~"unknown"}, {Told, Result}),
            ?assertNotEqual({Told, nomatch}, {Told, string:find(Told, "not measured")})
        end
     || Text <- Expected
    ],
    %% Its name is right, so no other name is offered.
    Told = fun(Text, Status, Rate, Count) ->
        Errors = #{name => ~"errors.rate", value => Rate, unit => ratio, count => Count},
        Run = #{id => ~"4", size => 4, status => Status, metrics => [Errors || Count =/= none]},
        {ok, Threshold} = dyno_threshold:parse(Text),
        New = dyno_recording:new(test, ~"a", #{}, #{}),
        [#{~"result" := ~"unknown", ~"threshold" := #{~"value" := null}, ~"text" := Said}] =
            dyno_threshold:evaluate(Threshold, dyno_recording:add_run(New, Run)),
        Said
    end,
    NotKnown = ~"latency.p99 is not known at size 4: ",
    Limit = "latency.p99 < 100 ms",
    ?assertEqual(<<NotKnown/binary, "no operation succeeded">>, Told(Limit, complete, 1, 9)),
    %% Of no operation no share failed.
    ?assertEqual(<<NotKnown/binary, "no operation ended">>, Told(Limit, failed, 0, 0)),
    ?assertEqual(
        ~"errors.rate is not known at size 4: no operation ended",
        Told("errors.rate < 1 %", complete, 0, 0)
    ),
    ?assertEqual(
        <<NotKnown/binary, "it was not measured (the run is failed)">>,
        Told(Limit, failed, none, none)
    ).

%% The kind of a suite's own metric is only known from the recording.
%% A limit within what the value may be: decided by the value where that is told well enough.
values_with_intervals(_) ->
    Text = fun(Threshold) ->
        #{~"result" := Result, ~"text" := Text} = at_100(Threshold ++ " at 10 < 12 %"),
        {Result, Text}
    end,
    check([
        {"sampled m:sure/0 share at 10 < 5 %", ~"fail", 0.1},
        {"sampled m:sure/0 share at 10 < 9 %", ~"fail", 0.1},
        {"sampled m:sure/0 share at 10 < 12 %", ~"pass", 0.1},
        {"sampled m:plain/0 share at 10 < 12 %", ~"pass", 0.1},
        {"sampled m:guessed/0 share at 10 < 12 %", ~"unknown", 0.1},
        {"sampled m:guessed/0 share at 10 < 5 %", ~"unknown", 0.1},
        {"sampled m:guessed/0 share at 10 < 40 %", ~"pass", 0.1},
        {"sampled m:guessed/0 calls at 10 < 5", ~"unknown", null},
        %% Of which one end is known, or no value.
        {"sampled m:least/0 share at 10 < 12 %", ~"unknown", 0.1},
        {"sampled m:least/0 share at 10 < 9 %", ~"fail", 0.1},
        {"sampled m:least/0 share at 10 <= 10 %", ~"unknown", 0.1},
        {"sampled m:least/0 share at 10 > 9 %", ~"pass", 0.1},
        {"sampled m:least/0 share at 10 > 12 %", ~"unknown", 0.1},
        {"sampled m:least/0 share at 10 == 9 %", ~"fail", 0.1},
        {"sampled m:least/0 share at 10 == 10 %", ~"unknown", 0.1},
        {"sampled m:most/0 share at 10 < 12 %", ~"pass", 0.1},
        {"sampled m:most/0 share at 10 < 10 %", ~"unknown", 0.1},
        {"sampled m:most/0 share at 10 > 12 %", ~"fail", 0.1},
        {"sampled m:most/0 share at 10 == 12 %", ~"fail", 0.1},
        {"sampled m:between/0 share at 10 < 4 %", ~"fail", 0.1},
        {"sampled m:between/0 share at 10 < 7 %", ~"unknown", 0.1},
        {"sampled m:between/0 share at 10 > 4 %", ~"pass", 0.1}
    ]),
    ?assertEqual(
        {~"unknown", ~"sampled m:least/0 share is at least 10 % at size 10, limit < 12 %"},
        Text("sampled m:least/0 share")
    ),
    ?assertEqual(
        {~"pass", <<
            "sampled m:sure/0 share is 10 % at size 10, limit < 12 %; 8 % to 13 % is "
            "possible"
        >>},
        Text("sampled m:sure/0 share")
    ),
    ?assertEqual(
        {~"unknown", <<
            "sampled m:guessed/0 share is 10 % at size 10, limit < 12 %, but anything from 0 % "
            "to 30 % is possible: measure longer (--for), at the level budget; a "
            "profile, with --kind cpu"
        >>},
        Text("sampled m:guessed/0 share")
    ),
    #{~"text" := NotCounted} = at_100("sampled m:guessed/0 calls at 10 < 5"),
    ?assertMatch({_, _}, binary:match(NotCounted, ~": its calls were not counted, which would")).

unknown_when_units_differ(_) ->
    #{~"result" := ~"unknown", ~"threshold" := #{~"value" := 3_000_000}, ~"text" := Text} =
        at_100("my.gauge at 10 < 5 MB"),
    ?assertEqual(
        <<
            "my.gauge is 3 ms at size 10, which cannot be compared with 5 MB: "
            "the limit needs ns, us, ms, s, min or h"
        >>,
        Text
    ).

%% Of a unit that nobody knows, numbers are compared.
units_nobody_knows(_) ->
    check([{"my.furlongs at 10 < 4", ~"pass", 3.5}, {"my.furlongs at 10 < 3", ~"fail", 3.5}]),
    #{~"text" := Text} = at_100("my.furlongs at 10 < 3 ms"),
    ?assertNotEqual(nomatch, string:find(Text, "my.furlongs is 3.5 furlongs at size 10, which")).

%% Whatever the table: in the singular, by one key or by all, by a key that is a number.
any_table(_) ->
    check([
        {"queue \"eu orders\" longest at 10 < 10", ~"pass", 7},
        {"queues orders longest at 10 < 5", ~"fail", 7},
        {"queues 12 longest at 10 < 5", ~"pass", 3},
        {"queues 12 share at 10 < 50 %", ~"pass", 0.25},
        {"queues 13 longest at 10 < 5", ~"unknown", null},
        {"batches orders longest at 10 < 5", ~"unknown", null}
    ]),
    [
        begin
            #{~"text" := Told} = at_100(Text),
            ?assertNotEqual({Told, nomatch}, {Told, string:find(Told, Words)})
        end
     || {Text, Words} <- [
            {"queues order longest at 10 < 5", "no such row in the table queues; the closest are "},
            {"queues orders long at 10 < 5", "long was not measured for it; the closest are long"},
            {"ques orders longest at 10 < 5", "no table ques; the closest are queues"},
            {"queues orders longest of x at 10 < 5", "in the table queues at node x"}
        ]
    ].

points_at_what_is_wrong(_) ->
    Expected = [
        {"", 0, "a metric is expected"},
        {"< 5 ms", 0, "a metric is expected"},
        {"latency.p99", 11, "an operator is expected, one of < <= > >= =="},
        {"latency.p99  ", 11, "an operator is expected"},
        {"latency.p99 20 ms", 17, "an operator is expected"},
        {"latency.p99 => 20 ms", 12, "an operator is expected"},
        {"latency.p99 != 20 ms", 12, "an operator is expected"},
        {"latency.p99 <", 13, "a number is expected"},
        {"latency.p99 < fast", 14, "a number is expected"},
        {"latency.p99 < 20 MBB", 17, "there is no unit MBB; did you mean MB?"},
        {"latency.p99 < 20 parsecs", 17, "there is no unit parsecs; units are such as ms, MB"},
        {"latency.p(95) < 20 ms", 0, "a percentile is written without brackets: latency.p95"},
        {"p(99.9) < 20 ms", 0, "a percentile is written without brackets: latency.p99.9"},
        {"latency.p99 < 1e99 ms", 14, "the number is too large"},
        {"latency.p99 at < 5 ms", 15, "a size is expected after \"at\""},
        {"latency.p99 at ten < 5 ms", 15, "a size is expected, a whole number"},
        {"latency.p99 of", 14, "the name of a node is expected"},
        {"function", 8, "an operator is expected"},
        {"m:f/1 calls < 1", 1, "the name of a metric is expected"},
        {"function m:f/1 calls more < 1", 21, "an operator is expected"},
        {"process \"a b memory < 1 MB", 8, "the quote that opens here is not closed"},
        {"growth m:f/1 at 10 < 1", 13, "a row of growth without a field is over all runs"},
        {"\x{b5}\x{b5} < 1 x", 7, "there is no unit x"}
    ],
    [
        begin
            {error, {_, Found, _} = Reason} = dyno_threshold:parse(Text),
            ?assertEqual({Text, Position}, {Text, Found}),
            [Sentence, Quoted, Caret] = string:split(
                dyno_threshold:format_error(Reason), "\n", all
            ),
            ?assertNotEqual({Sentence, nomatch}, {Sentence, string:find(Sentence, Words)}),
            ?assertEqual(unicode:characters_to_binary(["  ", Text]), Quoted),
            ?assertEqual(Position + 2, string:length(Caret) - 1)
        end
     || {Text, Position, Words} <- Expected
    ],
    {error, NotText} = dyno_threshold:parse(<<255>>),
    ?assert(is_binary(dyno_threshold:format_error(NotText))).

verdicts_fit_a_recording(_) ->
    Texts = [
        "latency.p99 < 20 ms",
        "growth latency.p99 < 1",
        "nothing < 1",
        "my.gauge < 5 MB",
        "process \"listener sup\" memory_max < 5 MB",
        "throughput at 7 > 1",
        "memory.total < 1 GiB",
        "my.furlongs < 1 ms"
    ],
    Verdicts = lists:append([verdicts(Text) || Text <- Texts]),
    #{~"verdicts" := Verdicts} = dyno_recording:add_verdicts(recording(), Verdicts).

reads_what_it_prints(_) ->
    Property = ?FORALL(
        Words,
        threshold(),
        begin
            Text = unicode:characters_to_binary(Words),
            {ok, Threshold} = dyno_threshold:parse(Text),
            Printed = dyno_threshold:format(Threshold),
            ?WHENFAIL(
                ct:pal("~ts~n~ts~n~p", [Text, Printed, Threshold]),
                {ok, Threshold} =:= dyno_threshold:parse(Printed) andalso
                    Printed =:= dyno_threshold:format(Threshold)
            )
        end
    ),
    dyno_property:holds(Property, 500).

threshold() ->
    Function = oneof(["m:f/1", "'a b':'c<d'/2", "erlang:+/2", "lists:'-map/2-lc$^0/1-0-'/1"]),
    Time = oneof(["latency.p99", "service.p50", ["function ", Function, " time_per_call"]]),
    Size = oneof([
        "memory.total", "os.vm.rss.mean", "process \"a < b\" memory", "process 'x y' memory_max"
    ]),
    Where = oneof(["", " of a", " of a@b at 10", " at 0", "\tat 10  of 'n o'", " of \"x y\""]),
    Space = oneof(["", " ", "  "]),
    Growth = ["growth ", oneof([Function, "latency.p99"])],
    TimeUnit = oneof(["ns", "us", "\x{b5}s", "m"]),
    SizeUnit = oneof(["B", "kB", "GiB"]),
    oneof([
        [Time, Where, Space, operator(), Space, digits(), Space, TimeUnit],
        [Size, Where, Space, operator(), Space, digits(), Space, SizeUnit, Space],
        [Growth, Space, operator(), Space, digits()],
        ["my.own", Where, Space, operator(), Space, digits(), oneof(["", " %", " M/s", "e3 words"])]
    ]).

operator() ->
    oneof(["<", "<=", ">", ">=", "=="]).

digits() ->
    ?LET(
        {Whole, Fraction},
        {range(0, 100_000), range(0, 999)},
        oneof([integer_to_list(Whole), io_lib:format("~b.~b", [Whole, Fraction])])
    ).

%% Whatever is typed, there is a threshold or a reason with a place inside the text.
any_text_is_answered(_) ->
    Piece = oneof([
        "latency.p99",
        "growth",
        "function",
        "process",
        "m:f/1",
        "calls",
        "of",
        "at",
        "<",
        "<=",
        "=",
        "20",
        "ms",
        "%",
        "'",
        "\"",
        " ",
        " ",
        " ",
        "\x{b5}",
        "1e5",
        "1e500",
        ".",
        "\n",
        "\0",
        [integer_to_list(12)]
    ]),
    Property = ?FORALL(
        Pieces,
        list(Piece),
        case dyno_threshold:parse(Pieces) of
            {ok, Threshold} ->
                [_ | _] = dyno_threshold:evaluate(Threshold, recording()),
                true;
            {error, {Text, Position, _} = Reason} ->
                is_binary(dyno_threshold:format_error(Reason)) andalso
                    Position =< string:length(Text)
        end
    ),
    dyno_property:holds(Property, 1000).
