%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_repetitions_SUITE).
-moduledoc "No worse than an earlier test: slower, the same, undecided, and not enough data.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

slow() -> [false_alarms].

init_per_suite(Config) -> dyno_command:with_server(Config).

end_per_suite(Config) -> dyno_command:without_server(Config).

all() ->
    [
        slower,
        the_same,
        faster,
        undecided,
        high_percentiles,
        calm_parts,
        drifting_runs,
        needed_repetitions,
        work,
        not_enough_data,
        one_side_alone,
        throughput_counts_the_other_way,
        zeros,
        families,
        memory,
        new_and_gone,
        known_names,
        other_conditions,
        false_alarms,
        command_line
    ].

slower(_Config) ->
    {Verdict, Gate} = judged([10.0, 10.1, 9.9, 10.0, 10.1], [12.0, 12.2, 11.9, 12.0, 12.1]),
    ?assertEqual(slower, Verdict),
    ?assertMatch(#{result := fail}, Gate),
    #{text := Text} = Gate,
    ?assertMatch({_, _}, binary:match(Text, ~"size 4: latency.p50 was 10 ms and is 12 ms")).

the_same(_Config) ->
    ?assertMatch(
        {same, #{result := pass}},
        judged([10.0, 10.05, 9.95, 10.0, 10.02], [10.03, 10.0, 9.97, 10.0, 10.04])
    ).

faster(_Config) ->
    ?assertMatch({faster, #{result := pass}}, judged([10.0, 10.1, 9.9], [7.0, 7.1, 6.9])).

%% The gate does not open on an interval that reaches over the limit, wherever the estimate is.
undecided(_Config) ->
    {Verdict, #{result := Result, text := Text}} = judged([10.0, 13.0, 9.0], [11.0, 15.0, 9.5]),
    ?assertEqual({undecided, unknown}, {Verdict, Result}),
    ?assertMatch({_, _}, binary:match(Text, ~"a difference of 10.2 %, and may be ")),
    ?assertMatch({match, _}, re:run(Text, "only a difference of [0-9.]+ % could have been seen")),
    ?assertMatch({undecided, #{result := unknown}}, judged([10.0, 13.0, 9.0], [10.2, 13.1, 9.0])),
    ?assertMatch({undecided, #{result := unknown}}, judged([11.0, 15.0, 9.5], [10.0, 13.0, 9.0])),
    %% What passes says which difference would not have.
    {_, #{result := pass, text := Passed}} = judged([10.0, 10.1, 9.9], [10.05, 10.1, 10.0]),
    Seen = "nothing is beyond it in latency.p50; a difference of [0-9.]+ % would have been seen",
    ?assertMatch({match, _}, re:run(Passed, Seen)).

%% A high percentile that three runs cannot tell keeps no gate shut, and does not pass either; one
%% that is surely beyond fails it.
high_percentiles(_Config) ->
    Of = fun(P50s, P99s) ->
        document([
            #{~"latency.p50" => A, ~"latency.p99" => B}
         || {A, B} <- lists:zip(P50s, P99s)
        ])
    end,
    Old = Of([10.0, 10.1, 9.9], [20.0, 35.0, 90.0]),
    Same = Of([10.0, 10.1, 9.95], [100.0, 25.0, 30.0]),
    #{result := pass, text := Text} = gate("slower > 10%", changes(Old, Same, [])),
    ?assertMatch({_, _}, binary:match(Text, ~"latency.p99 cannot be told from so few runs")),
    ?assertMatch(
        #{result := unknown}, gate("latency.p99 > 10%", changes(Old, Same, [~"latency.p99"]))
    ),
    Worse = Of([10.0, 10.1, 9.95], [9000.0, 8000.0, 9500.0]),
    ?assertMatch(#{result := fail}, gate("slower > 10%", changes(Old, Worse, []))).

%% Whole runs of the same code differ by a fifth, by what slows some of their parts. Their best parts
%% do not, and tell a code that is slower by 30 %.
calm_parts(_Config) ->
    Gate = fun(Olds, News) -> gate("slower > 10%", changes(document(Olds), document(News), [])) end,
    Slowed = fun(Us, Parts) -> with_parts(Parts ++ lists:duplicate(20 - length(Parts), Us)) end,
    Of = fun(Us) ->
        [Slowed(Us, []), Slowed(Us * 1.01, [2 * Us || _ <- lists:seq(1, 12)]), Slowed(Us, [3 * Us])]
    end,
    #{result := pass, text := Text} = Gate(Of(300), lists:reverse(Of(303))),
    [
        ?assertMatch({_, _}, binary:match(Text, Words), Text)
     || Words <- [
            ~"in throughput.calm and latency.p50.calm; a difference of ",
            ~"; whole runs differ too much, so a slowdown that comes and goes may not be seen",
            ~"; throughput and latency.p50 cannot be told from so few runs"
        ]
    ],
    ?assertMatch(#{result := fail}, Gate(Of(300), Of(390))),
    %% An interval of the best parts that reaches over the limit.
    Wide = [Slowed(Us, []) || Us <- [300, 330, 270]],
    ?assertMatch(#{result := unknown}, Gate(Wide, Wide)),
    %% The best parts are as before, and whole runs are surely worse: half of each is slow now.
    Half = [Slowed(300, [F * 340 || _ <- lists:seq(1, 15)]) || F <- [1, 1.2, 1.35]],
    ?assertMatch(#{result := unknown}, Gate([Slowed(300, []) || _ <- [1, 2, 3]], Half)),
    %% No gate opens beside a measured change beyond its limit, however uncertain.
    Some = [Slowed(300, [F * 340 || _ <- lists:seq(1, 9)]) || F <- [1, 1.1, 2.2]],
    ?assertMatch(#{result := unknown}, Gate([Slowed(300, []) || _ <- [1, 2, 3]], Some)),
    %% Parts of few operations say nothing of the best.
    Few = [(with_parts(lists:duplicate(20, 10_000)))#{~"throughput" => V} || V <- [100, 99, 101]],
    Changes = changes(document(Few), document(Few), []),
    ?assertNot(lists:any(fun dyno_compare_metrics:is_calm/1, Changes)).

%% The ratio of runs whose response times change depends on their length; one of three that changes
%% is the machine's.
drifting_runs(_Config) ->
    Rising = with_parts([300 + 20 * N || N <- lists:seq(1, 20)]),
    Flat = with_parts(lists:duplicate(20, 500)),
    Three = fun(Run) -> document([Run, Run, Run]) end,
    Gate = fun(Old, New) -> gate("slower > 10%", changes(Old, New, [])) end,
    #{result := unknown, text := Text} = Gate(Three(Rising), Three(Rising)),
    ?assertMatch({_, _}, binary:match(Text, ~"but response times changed within runs"), Text),
    ?assertMatch(#{result := unknown}, Gate(Three(Flat), Three(Rising))),
    ?assertMatch(#{result := pass}, Gate(Three(Flat), document([Flat, Rising, Flat]))),
    %% Ten times as slow at any time.
    Slow = with_parts([3000 + 200 * N || N <- lists:seq(1, 20)]),
    ?assertMatch(#{result := fail}, Gate(Three(Rising), Three(Slow))),
    {ok, Compared} = dyno_compare:compare(Three(Rising), Three(Rising), #{}),
    ?assertMatch([~"course"], [Code || #{~"code" := Code} <- maps:get(~"warnings", Compared)]),
    %% Of an open load throughput is that of the arrivals.
    #{series := [Throughput | _] = Series} = Rising,
    Offered = Throughput#{name := ~"load.offered", values := lists:duplicate(20, 2000)},
    Open = Rising#{series := [Offered | Series]},
    [Whole] = [C || #{metric := ~"throughput"} = C <- changes(Three(Open), Three(Open), [])],
    ?assertNot(is_map_key(drifts, Whole)).

%% A run of two workers with these response times (in us) in its parts of 100 ms.
with_parts(Times) ->
    Rates = [2.0e6 / Us || Us <- Times],
    Series = fun(Name, Unit, Values) ->
        #{
            name => Name,
            unit => Unit,
            times_ms => [100 * N || {N, _} <- lists:enumerate(Values)],
            values => Values
        }
    end,
    #{
        ~"throughput" => dyno_stats:mean(Rates),
        ~"latency.p50" => 1000 * dyno_stats:median(Times),
        series => [
            Series(~"load.throughput", ~"1/s", Rates),
            Series(~"load.latency.p50", ~"ns", [1000 * Us || Us <- Times])
        ]
    }.

%% A verdict in doubt names the repetitions of which three of four pass unchanged code, and more pass
%% no slower code.
needed_repetitions(_Config) ->
    _ = rand:seed(exsss, {27, 4, 1}),
    Side = fun(Factor, N) -> [Factor * math:exp(0.08 * rand:normal()) || _ <- lists:seq(1, N)] end,
    Gate = fun(Factor, N) ->
        Of = fun(Values) -> document([#{~"latency.p50" => 1.0e6 * V} || V <- Values]) end,
        gate("slower > 10%", changes(Of(Side(1.0, N)), Of(Side(Factor, N)), []))
    end,
    Named = [
        binary_to_integer(N)
     || #{result := unknown, text := Text} <- [Gate(1.0, 3) || _ <- lists:seq(1, 40)],
        {match, [N]} <- [re:run(Text, "--repeat ([0-9]+)", [{capture, all_but_first, binary}])]
    ],
    ?assert(length(Named) > 10, Named),
    Repetitions = round(dyno_stats:median(Named)),
    Results = fun(Factor) ->
        [R || _ <- lists:seq(1, 40), #{result := R} <- [Gate(Factor, Repetitions)]]
    end,
    ?assert(length([pass || pass <- Results(1.0)]) >= 30, {Named, Repetitions}),
    ?assert(length([pass || pass <- Results(1.15)]) =< 4),
    %% What no sensible number decides.
    {_, #{text := Wild}} = judged([10.0, 30.0, 5.0], [10.0, 31.0, 5.5]),
    ?assertMatch({_, _}, binary:match(Wild, ~"100 repetitions would not decide")),
    %% An end of the interval beyond 0 %.
    #{text := Strict} = gate(
        "slower > 0%",
        changes(
            document([#{~"latency.p50" => 100.0} || _ <- [1, 2, 3]]),
            document([#{~"latency.p50" => 101.0} || _ <- [1, 2, 3]]),
            []
        )
    ),
    ?assertMatch({_, _}, binary:match(Strict, ~"a difference of 1 %")).

%% An operation's reductions do not depend on the machine, which is slower here: they decide their own
%% condition, and are told where one on times shuts.
work(_Config) ->
    Run = fun(Us, Reductions, More) ->
        Row = [~"shop", 2, maps:get(sampled, More, 2), Reductions],
        #{
            ~"latency.p50" => Us * 1.0e3,
            ~"operations.count" => 1000,
            tables => [
                #{
                    name => processes,
                    truncated => maps:get(truncated, More, 0),
                    columns => [
                        #{name => 'group', type => string, role => key},
                        #{name => discovered, type => integer, unit => count},
                        #{name => sampled, type => integer, unit => count},
                        #{name => reductions, type => integer, unit => count}
                    ],
                    rows => [Row]
                }
            ]
        }
    end,
    Side = fun(Times, Reductions, More) ->
        document([Run(Us, R, More) || {Us, R} <- lists:zip(Times, Reductions)])
    end,
    Work = [50_000_000, 50_000_100, 50_000_050],
    Old = Side([500, 505, 495], Work, #{}),
    Slower = changes(Old, Side([700, 707, 702], Work, #{}), []),
    ?assertMatch([#{verdict := same, ratio := 1.0}], [
        C
     || #{metric := ~"reductions"} = C <- Slower
    ]),
    #{result := fail, text := Text} = gate("slower > 10%", Slower),
    ?assertMatch({_, _}, binary:match(Text, ~"as many reductions as before: the machine may be")),
    ?assertMatch(#{result := pass}, gate("reductions > 1%", Slower)),
    More = changes(Old, Side([600, 800, 500], [R * 13 div 10 || R <- Work], #{}), []),
    #{result := unknown, text := Doubt} = gate("slower > 10%", More),
    ?assertMatch({_, _}, binary:match(Doubt, ~"takes 1.3 times the reductions; measure both")),
    ?assertMatch(#{result := fail}, gate("reductions > 20%", More)),
    %% Times are as before, on a machine that is faster now.
    Hidden = changes(Old, Side([500, 505, 495], [R * 13 div 10 || R <- Work], #{}), []),
    #{result := unknown, text := Faster} = gate("slower > 10%", Hidden),
    ?assertMatch({_, _}, binary:match(Faster, ~"takes 1.3 times the reductions: the machine may")),
    ?assertMatch(#{result := pass}, gate("slower > 40%", Hidden)),
    %% Processes that nobody followed to their end, or that were left out.
    [
        begin
            Partly = changes(Old, Side([500, 505, 495], Work, Of), []),
            ?assertEqual([], [C || #{metric := ~"reductions"} = C <- Partly]),
            ?assertMatch(#{result := unknown}, gate("reductions > 20%", Partly))
        end
     || Of <- [#{sampled => 1}, #{truncated => 1}]
    ].

%% However much it differs, or little.
not_enough_data(_Config) ->
    {Verdict, #{result := Result, text := Text}} = judged([10.0], [100.0]),
    ?assertEqual({one_run, unknown}, {Verdict, Result}),
    ?assertMatch({_, _}, binary:match(Text, ~"not enough data")),
    ?assertMatch({_, _}, binary:match(Text, ~"--repeat 5")),
    ?assertMatch({one_run, #{result := unknown}}, judged([10.0], [10.0])).

one_side_alone(_Config) ->
    ?assertMatch({one_run, #{result := unknown}}, judged([10.0, 10.1, 9.9], [10.0])).

throughput_counts_the_other_way(_Config) ->
    Old = document([#{~"throughput" => V} || V <- [1000, 1010, 990]]),
    New = document([#{~"throughput" => V} || V <- [800, 805, 795]]),
    [#{verdict := Verdict, metric := ~"throughput"}] = changes(Old, New, []),
    ?assertEqual(slower, Verdict),
    %% No percentage says how much less nothing is.
    None = document([#{~"throughput" => 0} || _ <- [1, 2, 3]]),
    #{result := fail, text := Text} = gate("slower > 10%", changes(Old, None, [])),
    ?assertMatch({match, _}, re:run(Text, "throughput was 1[0 k]+/s and is 0 /s"), Text),
    ?assertEqual(nomatch, binary:match(Text, ~"a difference of")).

%% What can be 0 is judged by order, where chance would seldom bring it about.
zeros(_Config) ->
    Rates = fun(Values) -> document([#{~"errors.rate" => V} || V <- Values]) end,
    Judged = fun(Olds, News) ->
        [#{verdict := Verdict}] = Changes = changes(Rates(Olds), Rates(News), []),
        #{result := Result} = gate("errors.rate > 5%", Changes),
        {Verdict, Result}
    end,
    ?assertEqual({more, fail}, Judged([0, 0, 0, 0], [0.1, 0.2, 0.1, 0.3])),
    ?assertEqual({less, pass}, Judged([0.1, 0.2, 0.1, 0.3], [0, 0, 0, 0])),
    %% Three above three come by chance in one of ten.
    ?assertEqual({undecided, unknown}, Judged([0, 0, 0], [0.1, 0.2, 0.1])),
    ?assertEqual({undecided, unknown}, Judged([0, 0, 0.1, 0], [0, 0, 0, 0.2])),
    ?assertEqual({same, pass}, Judged([0, 0], [0, 0])).

%% Ten times as many metrics that one condition decides on make each interval wider, so that all
%% hold together; those of other conditions do not.
families(_Config) ->
    Values = [[10.0, 10.3, 9.7], [10.1, 10.2, 9.9]],
    Width = fun(Names) ->
        [Old, New] = [document([#{N => V || N <- Names} || V <- Of]) || Of <- Values],
        [Of | _] = [C || #{metric := ~"latency.p50"} = C <- changes(Old, New, [])],
        #{low := Low, high := High} = Of,
        High / Low
    end,
    Alone = Width([~"latency.p50"]),
    ?assertEqual(Alone, Width([~"latency.p50", ~"latency.p99.9", ~"errors.rate"])),
    %% Throughput and the median ask the same question.
    ?assertEqual(Alone, Width([~"latency.p50", ~"latency.p90", ~"throughput"])).

%% Of each node that was measured, in the measured part.
memory(_Config) ->
    Old = with_memory([[30, 31, 30], [30, 30, 31], [31, 30, 30]], #{}),
    New = with_memory([[60, 61, 60], [60, 60, 61], [61, 60, 60]], #{}),
    [#{item := ~"size 4: a", old := Bytes} = A, #{item := ~"size 4: b"} = B] = [
        C
     || #{metric := ~"vm.memory.total.max"} = C <- changes(Old, New, [])
    ],
    ?assertMatch({#{verdict := more, unit := ~"B"}, #{verdict := same}}, {A, B}),
    ?assertEqual(31, round(Bytes)),
    ?assertMatch(#{result := fail}, gate("memory > 5%", changes(Old, New, []))),
    ?assertMatch(#{result := pass}, gate("memory > 5%", changes(New, Old, []))),
    Named = changes(Old, New, [~"memory.total"]),
    ?assertMatch(#{result := fail}, gate("memory.total > 5%", Named)).

%% A function that takes a large part of the time now and was never called before; so little a part
%% that nobody minds; calls, where nobody timed them; a table that was cut.
new_and_gone(_Config) ->
    Functions = fun(Rows, Cut) ->
        document([#{~"latency.p50" => 10.0 + N / 1000} || N <- [1, 2]], #{
            tables => [functions(Rows, Cut)]
        })
    end,
    Old = Functions([[~"m:f/1", 10, 1.0]], 0),
    New = Functions([[~"m:f/1", 10, 0.1], [~"lists:sort/1", 9, 0.72], [~"m:g/0", 1, 0.009]], 0),
    Presence = fun(A, B) -> [C || #{kind := presence} = C <- changes(A, B, [])] end,
    Item = ~"size 4: lists:sort/1",
    ?assertMatch(
        [#{item := Item, verdict := new, old := 0, new := 0.72, metric := ~"share of time"}],
        Presence(Old, New)
    ),
    ?assertMatch([#{item := Item, verdict := gone, old := 0.72, new := 0}], Presence(New, Old)),
    ?assertMatch(#{kind := presence}, hd(changes(Old, New, []))),
    Cut = Functions([[~"m:f/1", 10, 1.0]], 3),
    ?assertMatch([#{old := undefined}], Presence(Cut, New)),
    Counted = Functions([[~"m:f/1", 10, null], [~"m:h/0", 4, null]], 0),
    Fewer = Functions([[~"m:f/1", 9, null]], 0),
    ?assertMatch([#{old := Four, new := 0, metric := ~"calls"}] when Four == 4, Presence(Counted, Fewer)),
    %% One that was not timed is not gone.
    Untimed = Functions([[~"m:f/1", 10, 1.0], [~"lists:sort/1", 9, null]], 0),
    ?assertEqual([], Presence(Untimed, New)),
    %% As of all rows, the value is the mean of the runs, also if one lacks the function.
    Shares = fun(Of) ->
        document([
            #{
                ~"latency.p50" => 10.0 + N / 1000,
                tables => [functions([[~"m:f/1", 10, 1.0] | Rows], 0)]
            }
         || {N, Rows} <- lists:enumerate(Of)
        ])
    end,
    Often = Shares([[[~"m:g/0", 1, Share]] || Share <- [0.1, 0.2, 0.8]]),
    Once = Shares([[[~"m:g/0", 1, 0.6]], [], []]),
    Never = Shares([[], [], []]),
    [#{old := Geometric, new := 0}] = Presence(Often, Never),
    ?assert(abs(Geometric - 0.252) < 0.001, Geometric),
    [#{new := Mean}] = Presence(Never, Once),
    ?assert(abs(Mean - 0.2) < 0.001, Mean),
    ?assertMatch(
        #{title := ~"Comparison of the runs' means"},
        dyno_compare:table(changes(Never, Once, []))
    ),
    %% It is said whatever a gate decides, and decides none.
    ?assertMatch(#{result := pass}, gate("slower > 5%", changes(Old, New, []))),
    [
        begin
            {ok, Compared} = dyno_compare:compare(Old, New, #{}),
            {ok, Report} = dyno_report:render(Format, Compared, #{}),
            ?assertMatch({_, _}, binary:match(iolist_to_binary(Report), ~"lists:sort/1"), Format)
        end
     || Format <- [console, md, junit, csv]
    ].

%% Conditions on what neither recording has are refused before anything is measured.
known_names(_Config) ->
    Metric = #{name => ~"latency.p99", value => 5, unit => ns},
    Old = with_memory([[30, 31, 30]], #{metrics => [Metric]}),
    Checked = fun(Text) ->
        {ok, Condition} = dyno_compare_gate:parse(Text),
        case dyno_compare_gate:check(Condition, [Old]) of
            ok -> ok;
            {error, Reason} -> dyno_threshold:format_error(Reason)
        end
    end,
    [
        ?assertEqual(ok, Checked(Text))
     || Text <- [
            "latency.p99 > 5%", "memory.total > 5%", "vm.memory.total.last > 5%", "memory > 1%"
        ]
    ],
    Words = Checked("latncy.p99 > 5%"),
    ?assertMatch(
        {match, _}, re:run(Words, "there is no metric latncy.p99; the closest are latency.p99")
    ),
    {error, {_, 0, Hint}} = dyno_compare_gate:parse("latency.p(95) > 5%"),
    ?assertEqual({percentile_in_brackets, ~"latency.p95"}, Hint).

other_conditions(_Config) ->
    Old = document([#{~"latency.p50" => 1}]),
    #{~"parameters" := Parameters} = Old,
    ?assertEqual(ok, dyno_compare:comparable(Old, Old, all)),
    Other = Old#{~"parameters" := Parameters#{~"level" => ~"all"}},
    {error, Reason} = dyno_compare:comparable(Old, Other, all),
    Text = unicode:characters_to_binary(dyno_compare:format_error(Reason)),
    ?assertMatch({_, _}, binary:match(Text, ~"level was time and is all")),
    %% A recording of an older dyno does not know its level.
    Older = Old#{~"parameters" := maps:remove(~"level", Parameters)},
    ?assertEqual(ok, dyno_compare:comparable(Older, Other, all)).

%% The same system twice, five repetitions each, as they differ on a busy machine, with five
%% metrics: less than one test in twenty fails for no reason.
false_alarms(_Config) ->
    _ = rand:seed(exsss, 5),
    Names = [<<"latency.", Q/binary>> || Q <- [~"mean", ~"p50", ~"p90", ~"p99"]] ++ [~"throughput"],
    Draw = fun() ->
        document([
            #{Name => 10 * math:exp(0.08 * rand:normal()) || Name <- Names}
         || _ <- lists:seq(1, 5)
        ])
    end,
    Failed = [
        x
     || _ <- lists:seq(1, 400),
        #{result := fail} <- [gate("slower > 3%", changes(Draw(), Draw(), []))]
    ],
    ?assert(length(Failed) < 20).

%% By the program: 0 where it is no worse, 1 where it is, or nobody can tell, 2 for a baseline that
%% does not fit.
command_line(Config) ->
    dyno_tries:hold(3, fun() -> command_line_once(Config) end).

command_line_once(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Suite = filename:join(Folder, "pausing.erl"),
    Pause = filename:join(Folder, "pause"),
    ok = file:write_file(
        Suite,
        io_lib:format(
            "-module(pausing).\n-behaviour(dyno_suite).\n"
            "-export([suite/0, init_worker/2, operation/1]).\n"
            "suite() -> #{sizes => [1], duration_ms => 300, warmup_ms => 0}.\n"
            "init_worker(_, _) -> {ok, [Ms]} = file:consult(~0tp), {ok, Ms}.\n"
            "operation(Ms) -> receive after Ms -> {ok, Ms} end.\n",
            [Pause]
        )
    ),
    Earlier = filename:join(Folder, "earlier.json"),
    Run = fun(Ms, Arguments) ->
        ok = file:write_file(Pause, io_lib:format("~b.~n", [Ms])),
        Written = filename:join(Folder, "now.json"),
        {Status, Output} = dyno_command:asked(
            Config, ["test", Suite, "-q", "-o", Written | Arguments]
        ),
        ct:log("~ts", [Output]),
        {Status, Written}
    end,
    {0, First} = Run(20, ["--repeat", "4"]),
    {ok, _} = file:copy(First, Earlier),
    {1, Written} = Run(60, ["--repeat", "4", "--baseline", Earlier]),
    {ok, Document} = dyno_recording_file:read(Written),
    ?assertMatch([_], dyno_recording:tables(Document, ~"changes")),
    ?assertMatch(
        [#{~"result" := ~"fail", ~"name" := ~"slower > 10%"}], maps:get(~"verdicts", Document)
    ),
    [
        begin
            {ok, Report} = dyno_report:render(Format, Document, #{}),
            ?assertMatch({_, _}, binary:match(iolist_to_binary(Report), ~"slower"), Format)
        end
     || Format <- [console, md, junit]
    ],
    ?assertMatch({0, _}, Run(2, ["--repeat", "4", "--baseline", Earlier])),
    {1, Once} = Run(20, ["--baseline", Earlier]),
    {ok, Single} = dyno_recording_file:read(Once),
    ?assertMatch([#{~"result" := ~"unknown"}], maps:get(~"verdicts", Single)),
    ?assertMatch({2, _}, Run(20, ["--baseline", Earlier, "--level", "all"])),
    ?assertMatch({2, _}, Run(20, ["--baseline", filename:join(Folder, "none.json")])),
    ?assertMatch({2, _}, Run(20, ["--fail-if", "slower > 5%"])),
    ?assertMatch({2, _}, Run(20, ["--baseline", Earlier, "--fail-if", "sluggish"])).

%% Milliseconds of each repetition, before and now.
judged(Olds, News) ->
    Of = fun(Values) -> document([#{~"latency.p50" => V * 1.0e6} || V <- Values]) end,
    Changes = [#{verdict := Verdict}] = changes(Of(Olds), Of(News), []),
    {Verdict, gate("slower > 3%", Changes)}.

gate(Text, Changes) ->
    {ok, Condition} = dyno_compare_gate:parse(Text),
    Failing = dyno_compare_gate:failing(Condition, Changes),
    dyno_compare_gate:verdict(Condition, Changes, Failing).

changes(Old, New, Names) -> dyno_compare:changes({Old, New}, #{names => Names}).

%% A node `a` with these values in each repetition, and a node `b` that stays as it is.
with_memory(Repetitions, More) ->
    Series = fun(Node, Values) ->
        #{
            name => ~"vm.memory.total",
            unit => ~"B",
            node => Node,
            times_ms => [-1000 | [1000 * N || N <- lists:seq(1, length(Values))]],
            %% The warm-up does not count.
            values => [999 | Values]
        }
    end,
    document(
        [
            #{series => [Series(~"a", Values), Series(~"b", [50, 51, 50])]}
         || Values <- Repetitions
        ],
        More#{nodes => [#{name => ~"a"}, #{name => ~"b"}]}
    ).

functions(Rows, Cut) ->
    #{
        name => functions,
        truncated => Cut,
        columns => [
            #{name => function, type => string, role => key},
            #{name => calls, type => integer, unit => count},
            #{name => share, type => number, unit => ratio}
        ],
        rows => Rows
    }.

document(Repetitions) -> document(Repetitions, #{}).

document(Repetitions, Parts) ->
    Empty = dyno_recording:new(test, ~"test", #{level => ~"time"}, #{}),
    Complete = dyno_recording:put(Empty, status, complete),
    lists:foldl(
        fun({N, Metrics}, Acc) ->
            Run = #{
                id => integer_to_binary(N),
                size => 4,
                repetition => N,
                status => complete,
                metrics => [
                    #{name => Name, value => Value, unit => unit(Name)}
                 || Name := Value <- Metrics, is_binary(Name)
                ]
            },
            Own = maps:with([series, tables], Metrics),
            dyno_recording:add_run(Acc, maps:merge(maps:merge(Run, Own), Parts))
        end,
        Complete,
        lists:enumerate(Repetitions)
    ).

unit(~"throughput") -> ~"1/s";
unit(~"errors.rate") -> ~"ratio";
unit(~"operations.count") -> ~"count";
unit(_) -> ~"ns".
