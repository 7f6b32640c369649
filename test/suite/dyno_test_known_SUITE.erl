%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_known_SUITE).
-moduledoc """
Which thresholds are refused before a test runs, with which sentence, and which are not, because
somebody may measure what they name. That all that is measured is known is checked where tests run
(`dyno_suites:all_is_known/1`).
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [
        other_kinds,
        what_nobody_measures,
        what_can_be_decided,
        agents_may_sample_anything,
        own_metrics,
        own_instruments,
        units_are_known,
        objectives_of_a_search,
        nothing_is_run
    ].

init_per_suite(Config) -> dyno_suites:with_temporary(Config).

end_per_suite(Config) -> dyno_suites:without_temporary(Config).

init_per_testcase(Case, Config) -> dyno_suites:prepare(Case, Config).

end_per_testcase(_Case, Config) -> Config.

known() -> dyno_suites:with_known(#{}, fun(Known) -> Known end).

check(Text, Known) ->
    {ok, Threshold} = dyno_threshold:parse(Text),
    dyno_threshold:check(Threshold, Known).

%% Each: a sentence with these words, the threshold, and a caret below the place.
refused(Rows, Known) ->
    [
        begin
            {error, Reason} = check(Text, Known),
            [Sentence, Quoted, Caret] = string:split(
                dyno_threshold:format_error(Reason), "\n", all
            ),
            ?assertNotEqual({Sentence, nomatch}, {Sentence, string:find(Sentence, Words)}),
            ?assertEqual(unicode:characters_to_binary(["  ", Text]), Quoted),
            ?assertEqual({Text, Position + 2}, {Text, string:length(Caret) - 1})
        end
     || {Text, Position, Words} <- Rows
    ].

accepted(Texts, Known) ->
    [?assertEqual({Text, ok}, {Text, check(Text, Known)}) || Text <- Texts].

other_kinds(_Config) ->
    Time = "but a time is measured; the limit needs ns, us, ",
    refused(
        [
            {"latency.p99 < 5 MB", 14, ["this is a size in bytes, ", Time]},
            {"latency.p99 < 20", 14, ["this is a plain number, ", Time]},
            {"latency < 5 MB", 10, Time},
            {"operation.read.latency.p99 < 5 MB", 29, Time},
            {"phase.up.service.max of n at 3 < 5 %", 33, Time},
            {"errors.rate < 5 ms", 14, "a ratio is measured; the limit needs %, or no unit"},
            {"throughput > 5 %", 13, "a rate is measured"},
            {"memory.total < 3", 15, "a size in bytes is measured; the limit needs B, kB"},
            {"vm.memory.total.mean < 5 ms", 23, "a size in bytes is measured"},
            {"cpu < 5 MB", 6, "a ratio is measured"},
            {"disk.await < 5 MB", 13, Time},
            {"run_queue < 5 ms", 12, "a plain number is measured; the limit needs no unit, or"},
            {"io.input > 5 MB", 11, "a rate in bytes is measured"},
            {"load.start_time < 5 MB", 18, Time},
            {"instrument.overhead < 5 MB", 22,
                "a time per call is measured; the limit needs ns, us"},
            {"function m:f/1 calls < 5 ms", 23, "this is a time, but a plain number is measured"},
            {"function m:f/1 words < 5 ms", 23, "a size in words is measured"},
            {"process \"a b\" memory of n < 5 %", 28, "a size in bytes is measured"},
            {"operations read latency_p99 < 5 MB", 30, Time},
            {"growth latency.p99 < 1 ms", 21, "a plain number is measured"},
            {"repetitions latency.p99 < 1 ms", 26, "a plain number is measured"}
        ],
        known()
    ).

what_nobody_measures(_Config) ->
    refused(
        [
            {"latncy.p99 < 5 ms", 0, "there is no metric latncy.p99; the closest are latency.p99"},
            {"latency.p980 < 5 ms", 0,
                "there is no metric latency.p980; the closest are latency.p9"},
            {"throughput.p95 > 5", 0,
                "there is no metric throughput.p95; the closest are throughput"},
            {"phase.up.latency.p95 < 5 ms", 0, "there is no metric phase.up.latency.p95"},
            {"latency.p95 < 5 MB", 14, "this is a size in bytes, but a time is measured"},
            {"memory.totl < 5", 0, "there is no metric memory.totl; the closest are memory.total"},
            {"vm.memory.totl < 5 MB", 0, "the closest are vm.memory.total"},
            {"memory.totl < 5 MB", 0, "memory.total"},
            {"functio m:f/1 calls < 5", 0, "there is no table functio; the closest are functions"},
            {"grwth m:f/1 < 1.2", 0, "there is no table grwth; the closest are growth"},
            {"function m:f/1 speed < 1", 15,
                "the table function has no field speed; it has calls, own_time, "},
            {"process p size < 1 MB", 10, "the table process has no field size; it has discovered"},
            {"process \"a b\" group < 1", 14, "has no field group"},
            {"process p < 1", 10, "a field of the table process is expected, one of discovered, "},
            {"growth m:f/1 exponent < 1", 13, "the table growth is over all runs"}
        ],
        known()
    ).

what_can_be_decided(_Config) ->
    accepted(
        [
            "latency.p99 < 20 ms",
            "latency < 20 ms",
            "latency.p99 > 0",
            "errors.rate < 0.001",
            "latency.p95 < 20 ms",
            "service.p99.95 < 20 ms",
            "operation.a.b.latency.p75 < 1 s",
            "throughput > 10 k/s",
            "operation.a.b.throughput > 5",
            "phase.up.errors.count == 0",
            "vm.memory.total.mean < 5 MB",
            "memory.total of store at 3 < 5 MB",
            "cpu.max < 90 %",
            "run_queue.dirty_io < 3",
            "os.cgroup.throttled < 1 %",
            "load.throughput.min > 3",
            "function m:f/1 time_per_call < 5 us",
            "function m:f/1 words_per_call < 20",
            "callers m:f/1 calls < 5",
            "ets t memory_growth < 5 MB",
            "port \"tcp to 10.0.0.5:5432\" input < 5 MB",
            "durations m:f/1 p99 < 5 ms",
            "processes p lifetime_p50 < 1 s",
            "growth m:f/1 < 1.2",
            "invariants i violations == 0",
            "findings critical < 1",
            "probes 100 rate > 1"
        ],
        known()
    ).

%% An agent says what it samples while it runs, but cannot take dyno's own names.
agents_may_sample_anything(_Config) ->
    Known = dyno_custom_metric:known([], [latency]),
    All = (known())#{reserved => map_get(reserved, Known)},
    accepted(["mailbox.longest < 5", "memory.total < 3", "latency.samples > 5"], All),
    refused([{"service.pp < 5 ms", 0, "no metric"}, {"vm.memory.total < 3", 18, "a size"}], All).

own_metrics(_Config) ->
    Metric = {"orders.open", count, {orders, open, []}},
    dyno_suites:with_known(#{metrics => [Metric]}, fun(Known) ->
        accepted(["orders.open < 5", "orders.open.mean < 5"], Known),
        refused(
            [
                {"orders.open < 5 ms", 14, "a plain number is measured"},
                {"orders.opn < 5", 0, "the closest are orders.open"}
            ],
            Known
        )
    end).

own_instruments(_Config) ->
    File = filename:join([dyno_project:root(), "examples", "queue_length.erl"]),
    dyno_suites:with_known(#{instruments => [File]}, fun(Known) ->
        accepted(["queue.longest < 5", "queue.length.mean < 5", "queue shop longest < 5"], Known),
        refused(
            [
                {"queue.longest < 5 ms", 16, "a plain number is measured"},
                {"queue shop shortest < 5", 11, "the table queue has no field shortest; it has l"}
            ],
            Known
        )
    end),
    refused([{"queue.longest < 5", 0, "there is no metric queue.longest"}], known()).

%% A reader takes units that it does not know as they are, so nothing else finds one mistyped.
units_are_known(_Config) ->
    #{metrics := Metrics, series := Series, tables := Tables, summaries := Summaries} = known(),
    Of =
        [{Name, Unit} || #{name := Name, unit := Unit} <- Metrics ++ Series] ++
            [
                {{Table, Name}, Unit}
             || #{name := Table} = Spec <- Tables ++ Summaries,
                #{name := Name, unit := Unit} <- dyno_recording_table:columns(Spec),
                Unit =/= undefined
            ],
    ?assert(length(Of) > 100),
    ?assertEqual([], [Wrong || {_, Unit} = Wrong <- Of, not lists:member(Unit, dyno_unit:units())]).

objectives_of_a_search(_Config) ->
    [
        ?assertEqual({Text, Expected}, {Text, objective(Text)})
     || {Text, Expected} <- [
            {"latency.p99 < 5 ms", ok},
            {"operation.read.errors.rate < 1 %", ok},
            {"load.achieved_share > 99 %", ok},
            {"latency.p99 < 5 MB", search_objective},
            {"latency.p95 < 5 ms", ok},
            {"latency.p980 < 5 ms", search_metric},
            {"load.search.rate > 5", search_metric},
            {"vm.memory.total < 5 MB", search_metric},
            {"process p memory < 5 MB", search_metric},
            {"latency.p99 at 10 < 5 ms", search_metric}
        ]
    ].

objective(Text) ->
    case dyno_load_spec:read(#{model => search, objective => Text}, 1) of
        {ok, _} -> ok;
        {error, {What, _}} -> What
    end.

%% Neither the suite's threshold nor the caller's; nothing of the suite is called but suite/0, and
%% no recording is begun.
nothing_is_run(Config) ->
    File = filename:join(proplists:get_value(work, Config), "none.json"),
    Callbacks = "init_suite() -> mark(begun), {ok, none}.\noperation(S) -> {ok, S}.\n",
    Write = fun(Name, Thresholds) ->
        dyno_suites:write(Config, Name, #{sizes => [1], thresholds => Thresholds}, Callbacks)
    end,
    [
        begin
            {error, Error} = dyno_test:run(Source, Options#{recording => File}),
            Text = unicode:characters_to_binary(dyno_error:format(Error)),
            ?assertMatch({0, _}, binary:match(Text, Begin), Text),
            ?assertEqual(2, dyno_error:exit_status(Error)),
            ?assertEqual([], dyno_suites:marks(Config)),
            ?assertNot(filelib:is_file(File))
        end
     || {Source, Options, Begin} <- [
            {
                Write(sized, ["throughput > 1", "memory.total < 3"]),
                #{},
                ~"suite sized: \"memory.total < 3\", column 16: this is a plain number"
            },
            {
                Write(fine, ["throughput > 1"]),
                #{thresholds => ["latency.q98 < 5 ms"]},
                ~"\"latency.q98 < 5 ms\", column 1: there is no metric latency.q98"
            }
        ]
    ].
