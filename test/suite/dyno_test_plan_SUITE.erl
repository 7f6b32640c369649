%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_plan_SUITE).
-moduledoc "How long runs take, what is said of that, what measuring cost; without running any.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [
        how_long_a_run_takes,
        remaining_time,
        share_never_shrinks,
        a_search_may_end_at_any_time,
        progress_line,
        which_loads_run_without_instruments,
        a_cost_is_told,
        noise_is_no_cost,
        slow_operations,
        a_stall,
        a_half_is_missing,
        too_few_operations
    ].

options(More) ->
    {ok, Options} = dyno_suite:options(
        maps:merge(
            #{sizes => [1, 2], duration_ms => 10_000, warmup_ms => 500, patterns => ["lists"]}, More
        )
    ),
    Options.

load(Load) ->
    {ok, Read} = dyno_load_spec:read(Load, 4),
    Read.

%% Plan

how_long_a_run_takes(_Config) ->
    Plain = options(#{control => false}),
    {exactly, Ms} = dyno_test_plan:run_ms(Plain, load(closed)),
    ?assert(Ms >= 10_500),
    Beside = fun(Load) ->
        {Bound, Of} = dyno_test_plan:run_ms(Plain, load(Load)),
        {Bound, Of - Ms}
    end,
    ?assertEqual({exactly, 0}, Beside(#{model => open, rate_per_s => 10})),
    ?assertEqual({at_most, 0}, Beside(#{model => closed, workers => 1, iterations => 10})),
    ?assertEqual(
        {at_most, 20_000},
        Beside(#{model => search, objective => "latency.p99 < 1 s", limit_ms => 30_000})
    ),
    %% A curve ends where it ends.
    Counts = {counts, 1000, lists:duplicate(60, 5)},
    ?assertEqual({exactly, 50_000}, Beside(#{model => open, arrivals => Counts})),
    Phase = #{model => closed, workers => 1, duration_ms => 4000},
    ?assertEqual(
        {exactly, -2000}, Beside(#{model => phases, phases => [Phase, Phase]})
    ),
    %% Half a run without instruments before and after, with their warm-ups.
    {exactly, Whole} = dyno_test_plan:run_ms(options(#{}), load(closed)),
    ?assertEqual(2 * 2000 + 500 + 250, Whole - Ms).

progress(SuiteOptions, Options) ->
    Self = self(),
    Tell = dyno_test_progress:new(SuiteOptions, Options#{
        progress => fun(Progress) ->
            Self ! {told, Progress},
            ok
        end
    }),
    fun(Event, Done) ->
        ok = Tell(Event, Done, ~"1"),
        receive
            {told, Progress} -> Progress
        after 0 -> nothing
        end
    end.

remaining_time(_Config) ->
    Options = options(#{control => false}),
    {exactly, RunMs} = dyno_test_plan:run_ms(Options, load(closed)),
    Tell = progress(Options, #{}),
    ?assertMatch(
        #{remaining_ms := R, at_most := false} when R =:= 2 * RunMs, Tell({phase, set_up}, 0)
    ),
    ?assertEqual(
        nothing, Tell({load, load(#{model => closed, workers => 1, duration_ms => 3000})}, 0)
    ),
    Interval = {interval, #{throughput_per_s => 7.0}, 1000},
    ?assertMatch(
        #{phase := measure, remaining_ms := R, throughput := 7.0} when
            R =< 2 * (RunMs - 7000) andalso R > 2 * (RunMs - 7000) - 1000,
        Tell(Interval, 0)
    ),
    ?assertEqual(
        #{
            phase => warning,
            text =>
                ~"20 operations did not end with the load; dyno waits for at most 60 s (timeout_ms)"
        },
        Tell({waiting, {20, 60_000}}, 0)
    ),
    ?assertMatch(#{remaining_ms := 0, phase := end_suite}, Tell({phase, end_suite}, 2)).

%% A load that turns out to be longer, a set-up and a reading that take their time.
share_never_shrinks(_Config) ->
    Tell = progress(options(#{control => false, duration_ms => 1000}), #{}),
    Long = #{model => closed, workers => 1, duration_ms => 60_000},
    Events = [
        {phase, set_up},
        {phase, attach},
        {interval, unknown, 10},
        {load, load(Long)},
        {interval, unknown, 10},
        {phase, finish},
        {phase, tear_down}
    ],
    Shares = [
        Elapsed / max(1, Elapsed + Left)
     || Done <- [0, 1],
        Event <- Events,
        #{elapsed_ms := Elapsed, remaining_ms := Left} <- [
            begin
                %% The clock goes on.
                receive
                after 3 -> ok
                end,
                Tell(Event, Done)
            end
        ]
    ],
    ?assertEqual(12, length(Shares)),
    Steps = lists:zip(lists:droplast(Shares), tl(Shares)),
    ?assertEqual([], [Step || {Before, After} = Step <- Steps, After < Before * 0.9]).

a_search_may_end_at_any_time(_Config) ->
    Search = #{model => search, objective => "latency.p99 < 1 s"},
    Options = options(#{load => Search}),
    Tell = progress(Options, #{}),
    %% The load has its limit.
    ?assertMatch(#{remaining_ms := undefined}, Tell({phase, init_suite}, 0)),
    nothing = Tell({load, load(Search)}, 0),
    ?assertMatch(
        #{remaining_ms := R, at_most := true, text := ~"searching for the highest rate"} when
            R > 120_000,
        Tell({interval, #{throughput_per_s => undefined}, 100}, 0)
    ),
    ?assertMatch(#{remaining_ms := 0}, Tell({phase, tear_down}, 1)),
    ByCommand = progress(options(#{}), #{load => #{objective => ["latency.p99 < 1 s"]}}),
    ?assertMatch(#{remaining_ms := undefined}, ByCommand({phase, set_up}, 0)).

progress_line(_Config) ->
    Line = fun(Progress) ->
        dyno_cli_progress:line(
            maps:merge(#{phase => measure, text => ~"measuring", elapsed_ms => 60_000}, Progress),
            100
        )
    end,
    ?assertEqual(
        ~"########........  measuring  1:00 min left",
        Line(#{remaining_ms => 60_000, at_most => false})
    ),
    ?assertEqual(
        ~"measuring  at most 1:00 min left", Line(#{remaining_ms => 60_000, at_most => true})
    ),
    ?assertEqual(~"measuring", Line(#{remaining_ms => undefined, at_most => false})).

%% Runs without instruments

which_loads_run_without_instruments(_Config) ->
    IsWanted = fun(Control, Load) ->
        dyno_test_baseline_run:is_wanted(options(#{control => Control}), load(Load), true)
    end,
    Fixed = #{model => closed, workers => 2, iterations => 100},
    ?assert(IsWanted(auto, closed)),
    ?assertNot(IsWanted(auto, Fixed)),
    ?assertNot(IsWanted(auto, Fixed#{iterations := {each, 5}})),
    ?assert(IsWanted(true, Fixed)),
    ?assert(IsWanted(auto, #{model => open, rate_per_s => 5})),
    ?assertNot(IsWanted(auto, #{model => open, rate_per_s => {ramp, 5, 10}})),
    ?assertNot(IsWanted(true, #{model => search, objective => "latency.p99 < 1 s"})).

%% Intervals of 100 ms with these response times, of one worker.
half(P50s) ->
    [
        #{time_ms => Nth * 100, throughput_per_s => 1.0e9 / P, p50_ns => P}
     || {Nth, P} <- lists:enumerate(P50s)
    ].

metrics(Halves, Intervals) ->
    #{
        Name => Metric
     || #{name := Name} = Metric <- dyno_test_baseline_run:metrics(Halves, Intervals)
    }.

a_cost_is_told(_Config) ->
    Half = half([1.0e6 * P || P <- [100, 101, 99, 100]]),
    #{
        ~"instrument.response_ratio" := #{value := Ratio, low := Low, high := High},
        ~"instrument.throughput_ratio" := #{value := Rates},
        ~"uninstrumented.operations" := #{value := 8}
    } = metrics([Half, Half], half([1.0e6 * P || P <- [150, 151, 149, 150, 150, 151, 149]])),
    ?assert(abs(Ratio - 1.5) < 0.01),
    ?assert(Low > 1.4 andalso High < 1.6),
    ?assert(abs(Rates - 1 / 1.5) < 0.01),
    %% However wide the interval: that it costs is sure.
    #{~"instrument.response_ratio" := Wide} =
        Metrics = metrics(
            [half([100, 120, 80, 100]), half([90, 100, 110, 100])],
            half([400, 1200, 700, 2000, 450, 1100, 600])
        ),
    ?assertMatch(#{value := null, low := L, high := H} when L > 2 andalso H > 2 * L, Wide),
    [{~"heavy_instrument", Text}] = dyno_test_baseline_run:warnings(maps:values(Metrics)),
    ?assertMatch({_, _}, binary:match(Text, ~"take at least 3.")),
    %% Nothing holds then; the default level costs less, and where it is that already, less of it.
    ?assertEqual(nomatch, binary:match(Text, ~"hold")),
    ?assertMatch({_, _}, binary:match(Text, ~"; --level budget keeps within")),
    [{_, Budget}] = dyno_test_baseline_run:warnings([
        #{name => ~"instrument.spent", value => 0.05} | maps:values(Metrics)
    ]),
    ?assertMatch({_, _}, binary:match(Budget, ~"; a smaller --budget or fewer functions")).

noise_is_no_cost(_Config) ->
    Halves = [half([100, 900, 80, 2000]), half([3000, 150, 70, 100])],
    #{~"instrument.response_ratio" := Ratio} =
        Metrics = metrics(Halves, half([150, 900, 100, 4000, 100, 3000, 120])),
    ?assertMatch(#{value := null, low := L, high := H} when L < 1 andalso H > 1, Ratio),
    ?assertEqual([], dyno_test_baseline_run:warnings(maps:values(Metrics))).

%% Operations of 100 ms: of the slices of 80 ms every fifth one has none.
slow_operations(_Config) ->
    Slices = fun(Count) ->
        [
            case Nth rem 5 of
                0 -> #{time_ms => Nth * 80, throughput_per_s => 0.0, p50_ns => null};
                _ -> #{time_ms => Nth * 80, throughput_per_s => 12.5, p50_ns => 1.0e8}
            end
         || Nth <- lists:seq(1, Count)
        ]
    end,
    #{
        ~"instrument.response_ratio" := #{value := Response},
        ~"instrument.throughput_ratio" := #{value := Ratio, low := Low, high := High},
        ~"uninstrumented.operations" := #{value := 16},
        ~"uninstrumented.throughput" := #{value := Rate}
    } = metrics([Slices(10), Slices(10)], Slices(50)),
    ?assert(abs(Rate - 10) < 0.01, Rate),
    ?assert(abs(Ratio - 1) < 0.01, Ratio),
    ?assert(Low > 0.6 andalso High < 1.6, {Low, High}),
    ?assertEqual(1.0, Response).

%% A stall in one slice of a half: it costs a tenth of that half's throughput, and no response time.
a_stall(_Config) ->
    Half = half(lists:duplicate(10, 1.0e6)),
    Stalled = lists:map(
        fun
            (#{time_ms := 500} = Slice) -> Slice#{throughput_per_s := 0.0, p50_ns := 9.0e7};
            (Slice) -> Slice
        end,
        Half
    ),
    #{
        ~"instrument.response_ratio" := #{value := Response, high := Highest},
        ~"instrument.throughput_ratio" := #{value := Ratio, low := Low, high := High}
    } = metrics([Half, Stalled], half(lists:duplicate(50, 1.0e6))),
    ?assertEqual(1.0, Response),
    ?assertEqual(1.0, Highest),
    ?assert(abs(Ratio - 1 / 0.95) < 0.01, Ratio),
    ?assert(Low =< 1 andalso High < 1.3, {Low, High}).

%% After an interrupt there is no second half to say what drifted.
a_half_is_missing(_Config) ->
    Half = half(lists:duplicate(10, 1.0e6)),
    ?assertEqual([], dyno_test_baseline_run:metrics([Half], Half)),
    ?assertEqual([], dyno_test_baseline_run:metrics([], Half)).

too_few_operations(_Config) ->
    #{~"instrument.response_ratio" := Ratio} = metrics(
        [half([100]), half([100])], half([150, 160])
    ),
    ?assertMatch(#{value := null}, Ratio),
    ?assertNot(is_map_key(low, Ratio)).
