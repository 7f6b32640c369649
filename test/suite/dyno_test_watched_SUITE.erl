%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_watched_SUITE).
-moduledoc "What is said of a process of a kind, from sums over those that were followed.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() ->
    [
        means,
        what_was_missed_widens,
        few_reductions_are_only_bounded,
        work_in_the_last_span,
        rare_work_is_only_bounded,
        what_may_have_been_widens,
        says_why_not,
        nodes_are_merged,
        in_a_test,
        as_text
    ].

init_per_testcase(in_a_test = Case, Config) ->
    Started = dyno_suites:with_target(Config),
    Before = dyno_suites:snapshot(proplists:get_value(node, Started)),
    [{before, Before} | dyno_suites:prepare(Case, Started)];
init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(in_a_test, Config) ->
    try
        dyno_suites:clean(Config, proplists:get_value(before, Config))
    after
        dyno_suites:without_target(Config)
    end;
end_per_testcase(_Case, _Config) ->
    ok.

%% Each slot of 10 processes that stand for 5 each, lived 20 ms, held 3,000 bytes and did 200,000
%% reductions.
slot() ->
    #{
        processes => 10,
        weight => 50,
        unseen => 0,
        outlived => 0,
        life_ns => 50 * 20_000_000,
        missed_ns => 50 * 100_000,
        seen_ns => 50 * 20_000_000,
        bytes_ns => 50 * 20_000_000 * 3000,
        reductions => 50 * 200_000,
        tail => 0,
        tail_most => 0,
        last_ns => 50 * 2_000_000,
        last_worked_ns => 50 * 500_000,
        last_idle_ns => 50 * 1_500_000,
        lost_ns => 0,
        perhaps_ns => 0,
        worked => 50 * 100_000,
        worked_most => 50 * 200_000,
        worked_ns => 50 * 1_000_000,
        looks => 30
    }.

figures(Slots) ->
    figures(Slots, 0).

figures(Slots, Pending) ->
    dyno_test_watched:figures(#{slots => Slots, pending => Pending}).

slots(Change) -> [maps:merge(slot(), Change) || _ <- lists:seq(1, 10)].

means(_Config) ->
    %% The second kind of slot has processes that live three times as long and hold twice as much:
    %% memory goes by time, reductions by process.
    Long = (slot())#{
        seen_ns := 50 * 60_000_000,
        life_ns := 50 * 60_000_000,
        bytes_ns := 50 * 60_000_000 * 6000,
        reductions := 50 * 300_000
    },
    #{watched := 200, state := measured, memory := Memory, reductions := {Did, Least, Most}} =
        figures(lists:append(lists:duplicate(10, [slot(), Long]))),
    {Bytes, Low, High} = Memory,
    ?assert(abs(Bytes - (3000 * 20 + 6000 * 60) / 80) < 0.001, Bytes),
    ?assert(Low < Bytes andalso Bytes < High),
    ?assert(abs(Did - 250_000) < 0.001, Did),
    ?assert(Least < Did - 1000, Least),
    ?assert(Most > Did + 4000, Most).

%% A tenth of the time: it may have held nothing then.
what_was_missed_widens(_Config) ->
    #{memory := {Bytes, Low, High}} = figures(slots(#{missed_ns => 50 * 20_000_000 div 9})),
    ?assert(abs(Bytes - 3000) < 0.001, Bytes),
    ?assert(abs(Low - (0.9 * 3000 - 200)) < 1, Low),
    ?assert(abs(High - 1.1 * 3000) < 1, High).

few_reductions_are_only_bounded(_Config) ->
    #{memory := {_, _, _}, reductions := {undefined, Least, Most}} =
        figures(slots(#{reductions => 50 * 2000})),
    ?assert(Least =< 2000),
    ?assert(Most >= 6000 andalso Most < 20_000, Most).

%% Of a fifth of the time after the last exact reading no answer came: at the kind's speed, of 0.1 a
%% nanosecond, that is 50,000.
work_in_the_last_span(_Config) ->
    #{reductions := {Did, _, _}} = figures(slots(#{tail => 50 * 100_000, lost_ns => 50 * 500_000})),
    ?assert(abs(Did - 350_000) < 0.001, Did).

%% Nobody was ever seen at work, and 100 looks stand for 2 ms each: it may be 60 us of the fastest
%% loop.
rare_work_is_only_bounded(_Config) ->
    #{reductions := {undefined, Least, Most}} =
        figures(slots(#{reductions => 50 * 20_000, worked => 0, worked_ns => 0})),
    ?assert(Least =< 20_000),
    ?assert(abs(Most - (20_000 + 4000 + 60_000)) < 100, Most).

what_may_have_been_widens(_Config) ->
    Tail = #{tail => 50 * 20_000, tail_most => 50 * 20_000},
    #{reductions := {Did, _, High}} = figures(slots(Tail)),
    #{reductions := {Did, _, Queued}} = figures(slots(Tail#{tail_most := 50 * 50_000})),
    ?assert(abs(Queued - High - 1.5 * 30_000) < 1, {High, Queued}),
    %% At the most, the kind does 0.2 a nanosecond, and is at work for a half.
    #{reductions := {Did, _, Late}} = figures(slots(Tail#{perhaps_ns => 50 * 100_000})),
    ?assert(abs(Late - High - 10_000) < 1, {High, Late}).

says_why_not(_Config) ->
    Slots = slots(#{}),
    ?assertMatch(#{state := none, watched := 0, memory := undefined}, figures([])),
    ?assertMatch(#{state := too_few, reductions := undefined}, figures(lists:sublist(Slots, 4))),
    ?assertMatch(#{state := too_few}, figures(slots(#{processes => 1}))),
    ?assertMatch(#{state := too_short, memory := undefined}, figures(slots(#{unseen => 6}))),
    ?assertMatch(#{state := too_short}, figures(slots(#{missed_ns => 50 * 6_000_000}))),
    ?assertMatch(#{state := measured}, figures(slots(#{unseen => 4}), 50)),
    ?assertMatch(#{state := too_long}, figures(Slots, 60)),
    ?assertMatch(#{state := too_long}, figures(slots(#{outlived => 6}))).

nodes_are_merged(_Config) ->
    Half = #{slots => slots(#{}), pending => 3},
    ?assertMatch(
        #{slots := [_ | _] = Slots, pending := 6} when length(Slots) =:= 20,
        dyno_test_watched:merge(Half, Half)
    ).

%% The processes that erpc starts in the target, which wait for 20 ms and end.
in_a_test(Config) ->
    Source = dyno_suites:write(
        Config,
        watched,
        #{
            sizes => [2], duration_ms => 4000, warmup_ms => 500, control => false,
            patterns => ["target_work:pause/1"]
        },
        [
            dyno_suites:on_target(proplists:get_value(node, Config)),
            "operation(Node) -> ok = erpc:call(Node, target_work, pause, [20]), {ok, Node}.\n"
        ]
    ),
    {ok, Document} = dyno_test:run(Source, #{}),
    [Run] = dyno_recording:runs(Document),
    [Row] = dyno_suites:table(Run, ~"processes", any),
    #{
        ~"group" := Group, ~"each_state" := ~"measured", ~"watched" := Watched,
        ~"memory_each" := Bytes, ~"memory_each_low" := Low, ~"memory_each_high" := High,
        ~"reductions_each" := null, ~"reductions_each_low" := _, ~"reductions_each_high" := Most
    } = Row,
    ?assert(Watched >= 20, Row),
    %% An empty process takes 2.6 kB, and erpc's is a little more.
    ?assert(Low =< Bytes andalso Bytes =< High, Row),
    ?assert(Bytes > 2000 andalso Bytes < 20_000, Row),
    ?assert(Most >= 4000, Row),
    Verdict = fun(Limit) ->
        {ok, Threshold} = dyno_threshold:parse(["process '", Group, "' memory_each < ", Limit]),
        [#{~"result" := Result}] = dyno_threshold:evaluate(Threshold, Document),
        Result
    end,
    ?assertEqual({~"pass", ~"fail"}, {Verdict("1 MB"), Verdict("1 kB")}).

%% Where most were not looked at in passing, what one of them takes, or why that is not known.
as_text(_Config) ->
    Row = fun(Name, Looked, Each) ->
        [Name, 1000, 10, Looked, 50_000, 70_000, 3 | Each]
    end,
    Names = [
        ~"group", ~"discovered", ~"alive", ~"looked_at", ~"memory", ~"reductions",
        ~"message_queue_max", ~"memory_each", ~"reductions_each", ~"reductions_each_high",
        ~"each_state"
    ],
    Table = #{
        ~"name" => ~"processes",
        ~"node" => null,
        ~"columns" => [#{~"name" => Name} || Name <- Names],
        ~"rows" => [
            Row(~"stays", 900, [1234, 5678, 9999, ~"measured"]),
            Row(~"goes", 20, [2900, 60_000, 66_000, ~"measured"]),
            Row(~"idles", 20, [2900, null, 4300, ~"measured"]),
            Row(~"flashes", 20, [null, null, null, ~"too_short"]),
            Row(~"seldom", 20, [null, null, null, ~"too_few"]),
            Row(~"lasts", 20, [null, null, null, ~"too_long"]),
            Row(~"older", 20, [null, null, null, null])
        ]
    },
    Document = #{~"runs" => [#{~"id" => ~"1", ~"size" => 1, ~"tables" => [Table]}]},
    {ok, Text} = dyno_report:render(console, Document, #{}),
    Line = fun(Name) ->
        [Found] = [
            L
         || L <- string:split(iolist_to_binary(Text), "\n", all), string:find(L, Name) =/= nomatch
        ],
        Found
    end,
    lists:foreach(
        fun({Name, Shown}) ->
            ?assertMatch({_, _}, binary:match(Line(Name), Shown), {Line(Name), Shown})
        end,
        [
            {~"stays", ~"50 kB"}, {~"stays", ~"70 k"},
            {~"goes", ~"2.9 kB each"}, {~"goes", ~"60 k each"},
            {~"idles", ~"under 4300 each"}, {~"flashes", ~"not seen"}, {~"seldom", ~"too few"},
            {~"lasts", ~"not ended"}, {~"older", ~" - "}
        ]
    ),
    ?assertEqual(nomatch, binary:match(Line(~"stays"), ~"each")).
