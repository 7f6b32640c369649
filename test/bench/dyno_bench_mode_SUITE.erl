%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_mode_SUITE).
-moduledoc "The modes with real codes: samples of a time, of iterations, and concurrencies.".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_truth, [rows/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [too_few_have_no_verdict].

all() ->
    [
        continuous,
        never_two_at_once,
        state_goes_on,
        too_few_have_no_verdict,
        samples_carry_their_duration,
        cv_goes_on,
        cv_gives_up,
        timed,
        squeeze,
        thousands_of_workers,
        wrong_settings,
        ends_when_interrupted,
        leaves_nothing_behind
    ].

run(Codes, Mode) ->
    run(Codes, Mode, #{}).

run(Codes, Mode, Options) ->
    dyno_bench:run(Codes, Options#{mode => Mode}).

series(Name, Document) ->
    [Run] = dyno_recording:runs(Document),
    [Values || #{~"values" := Values} <- dyno_recording:series(Run, Name)].

codes_of_warnings(#{~"warnings" := Warnings}) ->
    [Code || #{~"code" := Code} <- Warnings].

continuous(_Config) ->
    Mode = {continuous, #{sample_ms => 5, samples => 20, warmup => 1}},
    {ok, Document} = run(["lists:seq(1, 5).", "lists:seq(1, 500)."], Mode),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)),
    [#{~"code" := ~"lists:seq(1, 5)."}, #{~"code" := ~"lists:seq(1, 500).", ~"ratio" := Ratio}] =
        rows(~"codes", Document),
    ?assert(Ratio > 2),
    ?assertMatch([#{~"verdict" := ~"slower"}], rows(~"comparisons", Document)),
    ?assertEqual([20, 20], [length(V) || V <- series(~"bench.time", Document)]),
    #{~"parameters" := #{~"mode" := ~"continuous", ~"settings" := #{~"samples" := 20}}} = Document,
    {ok, Walls} = run(["lists:seq(1, 5)."], Mode, #{metric => wall}),
    ?assertMatch([[_ | _]], series(~"bench.value", Walls)).

%% Both codes mark when they run; who finds the other's mark has seen it running.
never_two_at_once(_Config) ->
    Marks = atomics:new(2, []),
    Runner = fun(Own, Other) ->
        fun() ->
            atomics:put(Marks, Own, 1),
            Seen = atomics:get(Marks, Other),
            erlang:yield(),
            atomics:put(Marks, Own, 0),
            0 = Seen
        end
    end,
    Codes = [
        #{runner => Runner(1, 2), label => "one"},
        #{runner => Runner(2, 1), label => "other"}
    ],
    %% One worker each: two of a code would wipe each other's mark out.
    {ok, _} = run(Codes, {continuous, #{sample_ms => 20, samples => 5}}).

%% A state lives as long as its worker, from sample to sample.
state_goes_on(_Config) ->
    Newest = counters:new(2, []),
    Code = fun(Number) ->
        #{
            runner => fun(_, N) ->
                counters:put(Newest, Number, N + 1),
                N + 1
            end,
            init_runner => fun() -> 0 end,
            label => integer_to_list(Number)
        }
    end,
    {ok, Document} = run([Code(1), Code(2)], {continuous, #{sample_ms => 5, samples => 6}}),
    [
        %% Those of each sample.
        ?assert(counters:get(Newest, N) >= 5 * Iterations)
     || #{~"code" := Label, ~"iterations" := Iterations} <- rows(~"codes", Document),
        N <- [binary_to_integer(Label)]
    ].

%% Nobody asks three samples for a verdict; six may give one, and say so where they do not.
too_few_have_no_verdict(_Config) ->
    Codes = ["lists:seq(1, 9).", "lists:seq(1, 9)."],
    Verdicts = fun(Options) ->
        {ok, Document} = dyno_bench:run(Codes, Options),
        [Run] = dyno_recording:runs(Document),
        {ok, #{~"rows" := [Pair]}} = dyno_recording:table(Run, ~"comparisons"),
        [_, #{~"verdict" := Verdict}] = rows(~"codes", Document),
        {Verdict, lists:last(Pair)}
    end,
    Few = {continuous, #{sample_ms => 5, samples => 3}},
    ?assertEqual({null, null}, Verdicts(#{mode => Few})),
    ?assertEqual({null, null}, Verdicts(#{mode => {timed, #{iterations => 9, samples => 3}}})),
    ?assertEqual({null, null}, Verdicts(#{mode => Few, isolated => #{}})),
    %% Of the slower against the faster, and of the second against the first.
    {InCodes, InPair} = Verdicts(#{mode => {continuous, #{sample_ms => 5, samples => 6}}}),
    ?assert(is_binary(InCodes)),
    ?assert(is_binary(InPair)).

%% A call is longer than a sample: the sample lasts until the call is over.
samples_carry_their_duration(_Config) ->
    {ok, Document} = run(["timer:sleep(30)."], {continuous, #{sample_ms => 5, samples => 2}}),
    [Durations] = series(~"bench.sample", Document),
    ?assertEqual(2, length(Durations)),
    ?assert(lists:all(fun(Ns) -> Ns >= 30_000_000 end, Durations), Durations),
    [Times] = series(~"bench.time", Document),
    %% Other programs may have had the processor for some of it, which is told; if that is not
    %% known, there is no such series. A code that waits keeps its whole time.
    Waits =
        case series(~"bench.waiting", Document) of
            [Of] -> Of;
            [] -> [0.0, 0.0]
        end,
    ?assertEqual(
        [],
        [
            {Ns, Wait, All}
         || {Ns, Wait, All} <- lists:zip3(Times, Waits, Durations),
            Ns < 0.99 * All, abs(Ns / All + Wait - 1) > 0.1
        ]
    ).

%% Slow at first: samples are taken until the slow ones are out of the last four.
cv_goes_on(_Config) ->
    Calls = counters:new(1, []),
    Code = #{
        runner => fun() ->
            counters:add(Calls, 1, 1),
            case counters:get(Calls, 1) =< 3 of
                true -> timer:sleep(100);
                false -> timer:sleep(2)
            end
        end
    },
    Settings = #{sample_ms => 20, samples => 4},
    %% Of a time that other programs only lengthen.
    Wall = #{metric => wall},
    {ok, Without} = run([Code], {continuous, Settings}, Wall),
    [Uneven] = series(~"bench.value", Without),
    ?assert(lists:max(Uneven) > 100_000_000),
    counters:put(Calls, 1, 0),
    {ok, With} = run([Code], {continuous, Settings#{cv => 0.5}}, Wall),
    [Even] = series(~"bench.value", With),
    ?assertEqual(4, length(Even)),
    %% Either they agree, or it is said that they do not.
    Rates = [1.0e9 / Ns || Ns <- Even],
    Mean = dyno_stats:mean(Rates),
    Deviation = math:sqrt(lists:sum([(R - Mean) * (R - Mean) || R <- Rates]) / 3),
    ?assertEqual(Deviation / Mean >= 0.5, lists:member(~"cv", codes_of_warnings(With))).

cv_gives_up(_Config) ->
    {ok, Document} = run(
        ["timer:sleep(1)."], {continuous, #{sample_ms => 1, samples => 2, cv => 1.0e-9}}
    ),
    ?assert(lists:member(~"cv", codes_of_warnings(Document))).

timed(_Config) ->
    Calls = counters:new(1, []),
    Code = #{runner => fun(C) -> counters:add(C, 1, 1) end, init_runner => fun() -> Calls end},
    {ok, Document} = run([Code], {timed, #{iterations => 100, samples => 5, warmup => 2}}),
    %% No calibration: only those iterations were run, and a sample again whose clocks disagreed.
    Called = counters:get(Calls, 1),
    ?assert(Called >= 700 andalso Called rem 100 =:= 0, Called),
    ?assertMatch([#{~"iterations" := 100}], rows(~"codes", Document)),
    [Times] = series(~"bench.time", Document),
    ?assertEqual(5, length(Times)),
    {ok, _} = run(["ok."], {timed, #{iterations => 1, samples => 1}}),
    {ok, _} = run(["ok."], {timed, #{iterations => 10}}, #{concurrency => 3}).

squeeze(_Config) ->
    {ok, Document} = run(
        ["lists:seq(1, 100)."],
        {squeeze, #{sample_ms => 10, max => 3, threshold => 5}}
    ),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)),
    Rows = rows(~"concurrencies", Document),
    ?assertEqual([1, 2, 3], [C || #{~"concurrency" := C} <- Rows]),
    ?assertMatch([_], [x || #{~"verdict" := ~"best"} <- Rows]),
    [
        ?assert(Low =< T andalso T =< High)
     || #{~"throughput" := T, ~"low" := Low, ~"high" := High} <- Rows
    ],
    {ok, Text} = dyno_report_console:format(Document, #{}),
    ?assertMatch({match, _}, re:run(Text, "highest|saturates|for sure")),
    {ok, Markdown} = dyno_report:render(md, Document, #{}),
    ?assertMatch({match, [_, _, _]}, re:run(Markdown, "(?m)^\\| [123] \\|", [global])),
    {ok, Benchstat} = dyno_report:render(benchstat, Document, #{}),
    ?assertMatch({match, _}, re:run(Benchstat, "/workers=3-[0-9]+\t1\t[0-9.]+ op/s\n")),

    %% Waiting is shared without end; beside other programs that may stay open.
    {ok, Sleeping} = run(["timer:sleep(5)."], {squeeze, #{sample_ms => 20, max => 4, step => 2}}),
    [Four] = [R || #{~"concurrency" := 4} = R <- rows(~"concurrencies", Sleeping)],
    case Four of
        #{~"verdict" := ~"best", ~"against" := 2, ~"ratio_low" := Low} -> ?assert(Low > 1);
        #{~"verdict" := Open} -> ?assertEqual(~"undecided", Open)
    end.

%% They share two schedulers or some more, so that a call takes as long as all of them have turns.
thousands_of_workers(_Config) ->
    %% The most that all schedulers can do: a busy machine does less.
    OneNs = lists:min([
        element(1, timer:tc(fun() -> lists:sum(lists:seq(1, 1000)) end, nanosecond))
     || _ <- lists:seq(1, 1000)
    ]),
    Most = erlang:system_info(schedulers_online) * 1.0e9 / OneNs,
    Workers = #{concurrency => 2000, budget_ms => 200},
    Modes = [
        {continuous, #{sample_ms => 200, samples => 2}},
        {timed, #{iterations => 20, samples => 1}},
        compare
    ],
    PerSecond = [
        begin
            StartMs = erlang:monotonic_time(millisecond),
            {ok, Document} = run(["lists:sum(lists:seq(1, 1000))."], Mode, Workers),
            ?assert(erlang:monotonic_time(millisecond) - StartMs < 30_000),
            2000 * 1.0e9 / dyno_stats:median(lists:append(series(~"bench.time", Document)))
        end
     || Mode <- Modes
    ],
    %% A worker's own time, by which a crowd did 40 times as much, says nothing of all.
    ?assert(lists:max(PerSecond) < 2 * Most, {PerSecond, Most}),
    {error, Why} = run(
        ["timer:sleep(60_000)."], {continuous, #{sample_ms => 10}}, Workers#{timeout_ms => 1500}
    ),
    ?assertMatch(
        {match, _},
        re:run(dyno_error:format(Why), "after 1\\.5 s in [0-9]+ of 2000 processes; use fewer")
    ).

wrong_settings(_Config) ->
    [
        begin
            {error, Reason} = run(Codes, Mode),
            ?assertEqual(2, dyno_error:exit_status(Reason)),
            ?assert(string:length(dyno_error:format(Reason)) > 10)
        end
     || {Codes, Mode} <- [
            {["ok."], {continuous, #{sample_ms => 0}}},
            {["ok."], {continuous, #{samples => 0}}},
            {["ok."], {continuous, #{warmup => -1}}},
            {["ok."], {continuous, #{cv => 0}}},
            {["ok."], {continuous, #{cv => 0.1, samples => 1}}},
            {["ok."], {continuous, #{iterations => 1}}},
            {["ok."], {timed, #{}}},
            {["ok."], {timed, #{iterations => 0}}},
            {["ok."], {squeeze, #{min => 5, max => 2}}},
            {["ok."], {squeeze, #{step => 0}}},
            {["ok.", "ok."], {squeeze, #{}}},
            {["ok."], {squeezed, #{}}},
            {["ok."], continuous}
        ]
    ].

ends_when_interrupted(_Config) ->
    [
        begin
            {Pid, Ref} = spawn_monitor(fun() -> exit({result, run(["timer:sleep(1)."], Mode)}) end),
            dyno_bench:interrupt(Pid),
            receive
                {'DOWN', Ref, process, Pid, {result, Result}} ->
                    ?assertEqual({error, {dyno_error, interrupted}}, Result)
            end
        end
     || Mode <- [{continuous, #{sample_ms => 60_000}}, {squeeze, #{sample_ms => 60_000}}]
    ].

leaves_nothing_behind(_Config) ->
    Run = fun() ->
        {ok, _} = run(["ok.", "X = 1, X + 1."], {continuous, #{sample_ms => 1}}),
        {error, _} = run(["ok.", "error(boom)."], {continuous, #{sample_ms => 1}}),
        {ok, _} = run(["ok."], {squeeze, #{sample_ms => 1, max => 3}}),
        dyno_leftovers:until(fun() ->
            not lists:any(fun is_loop/1, dyno_agent_patterns:loaded())
        end)
    end,
    %% A number is taken again only when its last allocator has gone: all of them may be needed.
    _ = [
        list_to_atom("dyno_bench_" ++ Kind ++ integer_to_list(N) ++ End)
     || {Kind, End} <- [{"run_", ""}, {"loop_", "_1"}, {"loop_", "_2"}, {"loop_", "_empty"}],
        N <- lists:seq(1, 64)
    ],
    dyno_leftovers:nothing_after(Run, 3).

is_loop(Module) ->
    lists:prefix("dyno_bench_loop_", atom_to_list(Module)).
