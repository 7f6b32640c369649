%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_tests_SUITE).
-moduledoc "No worse than an earlier test: slower, the same, undecided, and not enough data.".

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([slower/1, the_same/1, faster/1, undecided/1, not_enough_data/1, one_side_alone/1]).
-export([throughput_counts_the_other_way/1, other_conditions/1, false_alarms/1, command_line/1]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        slower,
        the_same,
        faster,
        undecided,
        not_enough_data,
        one_side_alone,
        throughput_counts_the_other_way,
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

%% Worse in the mean, and as well by chance.
undecided(_Config) ->
    {Verdict, #{result := Result, text := Text}} = judged([10.0, 13.0, 9.0], [11.0, 15.0, 9.5]),
    ?assertEqual({undecided, pass}, {Verdict, Result}),
    ?assertMatch({_, _}, binary:match(Text, ~"1 are not decided")).

%% However much it differs.
not_enough_data(_Config) ->
    {Verdict, #{result := Result, text := Text}} = judged([10.0], [100.0]),
    ?assertEqual({undecided, unknown}, {Verdict, Result}),
    ?assertMatch({_, _}, binary:match(Text, ~"not enough data")),
    ?assertMatch({_, _}, binary:match(Text, ~"--repeat 5")).

one_side_alone(_Config) ->
    ?assertMatch({undecided, #{result := unknown}}, judged([10.0, 10.1, 9.9], [10.0])).

throughput_counts_the_other_way(_Config) ->
    Old = document([#{~"throughput" => V} || V <- [1000, 1010, 990]]),
    New = document([#{~"throughput" => V} || V <- [800, 805, 795]]),
    [#{verdict := Verdict, metric := ~"throughput"}] =
        dyno_compare_tests:changes(Old, New, 0.0, []),
    ?assertEqual(slower, Verdict).

other_conditions(_Config) ->
    Old = document([#{~"latency.p50" => 1}]),
    #{~"parameters" := Parameters} = Old,
    ?assertEqual(ok, dyno_compare_tests:comparable(Old, Old)),
    Other = Old#{~"parameters" := Parameters#{~"level" => ~"all"}},
    {error, Reason} = dyno_compare_tests:comparable(Old, Other),
    Text = unicode:characters_to_binary(dyno_compare:format_error(Reason)),
    ?assertMatch({_, _}, binary:match(Text, ~"level was time and is all")),
    %% A recording of an older dyno does not know its level.
    Older = Old#{~"parameters" := maps:remove(~"level", Parameters)},
    ?assertEqual(ok, dyno_compare_tests:comparable(Older, Other)).

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
    {ok, Condition} = dyno_compare_gate:parse("slower > 3%"),
    Failed = [
        x
     || _ <- lists:seq(1, 400),
        #{result := fail} <- [
            dyno_compare_tests:gate(Condition, dyno_compare_tests:changes(Draw(), Draw(), 0.0, []))
        ]
    ],
    ?assert(length(Failed) < 20).

%% By the program: 0 where it is no worse, 1 where it is, or nobody can tell, 2 for a baseline that
%% does not fit.
command_line(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Suite = filename:join(Folder, "pausing.erl"),
    ok = file:write_file(Suite, [
        "-module(pausing).\n-behaviour(dyno_suite).\n-export([suite/0, operation/1]).\n"
        "suite() -> #{sizes => [1], duration_ms => 300, warmup_ms => 0}.\n"
        "operation(S) -> receive after ms() -> {ok, S} end.\n"
        "ms() -> list_to_integer(os:getenv(\"PAUSING_MS\", \"20\")).\n"
    ]),
    Earlier = filename:join(Folder, "earlier.json"),
    Run = fun(Ms, Arguments) ->
        true = os:putenv("PAUSING_MS", integer_to_list(Ms)),
        Written = filename:join(Folder, "now.json"),
        {Status, Output} = dyno_command:run(["test", Suite, "-q", "-o", Written | Arguments]),
        ct:log("~ts", [Output]),
        {Status, Written}
    end,
    {0, First} = Run(20, ["--repeat", "4"]),
    {ok, _} = file:copy(First, Earlier),
    {1, Written} = Run(60, ["--repeat", "4", "--baseline", Earlier]),
    {ok, Document} = dyno_recording_file:read(Written),
    ?assertMatch([_], dyno_recording:tables(Document, ~"changes")),
    ?assertMatch(
        [#{~"result" := ~"fail", ~"name" := ~"slower > 3%"}], maps:get(~"verdicts", Document)
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
    ?assertMatch({2, _}, Run(20, ["--baseline", Earlier, "--fail-if", "sluggish"])),
    true = os:unsetenv("PAUSING_MS").

%% Milliseconds of each repetition, before and now.
judged(Olds, News) ->
    Of = fun(Values) -> document([#{~"latency.p50" => V * 1.0e6} || V <- Values]) end,
    Changes = [#{verdict := Verdict}] = dyno_compare_tests:changes(Of(Olds), Of(News), 0.0, []),
    {ok, Condition} = dyno_compare_gate:parse("slower > 3%"),
    {Verdict, dyno_compare_tests:gate(Condition, Changes)}.

document(Repetitions) ->
    Empty = dyno_recording:new(test, ~"test", #{level => ~"time"}, #{}),
    Complete = dyno_recording:put(Empty, status, complete),
    lists:foldl(
        fun({N, Metrics}, Acc) ->
            dyno_recording:add_run(Acc, #{
                id => integer_to_binary(N),
                size => 4,
                repetition => N,
                status => complete,
                metrics => [
                    #{name => Name, value => Value, unit => unit(Name)}
                 || Name := Value <- Metrics
                ]
            })
        end,
        Complete,
        lists:enumerate(Repetitions)
    ).

unit(~"throughput") -> ~"1/s";
unit(_) -> ~"ns".
