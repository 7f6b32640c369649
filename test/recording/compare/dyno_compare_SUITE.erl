%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_SUITE).
-moduledoc "Recordings compared: verdicts, what may not be compared, and the conditions of a gate.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        same_twice,
        slowdown,
        floor,
        swapped,
        too_few_rounds,
        false_verdicts,
        exact_reductions,
        codes_that_drift,
        of_test,
        zeros,
        matched_by_label,
        environments,
        commands,
        incomplete,
        nothing_in_common,
        valid_document,
        conditions,
        bad_conditions,
        gate,
        any_metric,
        any_command,
        gate_without_metrics
    ].

%% Verdicts

same_twice(_Config) ->
    Bench = bench([{~"a", around(100, 0.01), 10}]),
    ?assertMatch(#{verdict := same, ratio := 1.0}, time(~"a", changes(Bench, Bench))).

slowdown(_Config) ->
    Old = bench([{~"a", around(100, 0.01), 10}]),
    New = bench([{~"a", around(110, 0.01), 10}]),
    #{verdict := slower, ratio := Ratio, low := Low, high := High} = time(~"a", changes(Old, New)),
    ?assert(Low < Ratio andalso Ratio < High),
    ?assert(abs(Ratio - 1.1) < 0.001).

%% A threshold of 1 % does not make 2 % between two runs of the VM a difference.
floor(_Config) ->
    Old = bench([{~"a", around(100, 0.0001), 10}]),
    New = bench([{~"a", around(102, 0.0001), 10}]),
    ?assertMatch(#{verdict := same}, time(~"a", changes(Old, New, #{threshold => 0.01}))),
    Further = bench([{~"a", around(106, 0.0001), 10}]),
    ?assertMatch(#{verdict := slower}, time(~"a", changes(Old, Further, #{threshold => 0.01}))),
    ?assertMatch(#{verdict := same}, time(~"a", changes(Old, Further, #{threshold => 0.1}))).

swapped(_Config) ->
    Old = bench([{~"a", around(100, 0.02), 10}]),
    New = bench([{~"a", around(130, 0.02), 10}]),
    #{verdict := slower, low := Low} = time(~"a", changes(Old, New)),
    #{verdict := faster, high := High} = time(~"a", changes(New, Old)),
    ?assert(abs(Low * High - 1) < 1.0e-9).

too_few_rounds(_Config) ->
    Old = bench([{~"a", [100, 101, 102], 10}]),
    New = bench([{~"a", [200, 201, 202], 10}]),
    ?assertMatch(#{verdict := undecided, low := undefined}, time(~"a", changes(Old, New))).

%% The same distribution 400 times: the interval misses 1 in at most 5 %, and hardly ever a verdict.
false_verdicts(_Config) ->
    {Verdicts, _} = lists:mapfoldl(
        fun(_, Random0) ->
            {Olds, Random1} = noisy(15, Random0),
            {News, Random2} = noisy(15, Random1),
            Change = time(~"a", changes(bench([{~"a", Olds, 1}]), bench([{~"a", News, 1}]))),
            {Change, Random2}
        end,
        rand:seed_s(exsss, 42),
        lists:seq(1, 400)
    ),
    Missed = length([x || #{low := Low, high := High} <- Verdicts, Low > 1 orelse High < 1]),
    ?assert(Missed =< 20, Missed),
    False = length([x || #{verdict := V} <- Verdicts, V =:= slower orelse V =:= faster]),
    ?assert(False =< 4, False).

noisy(Count, Random) ->
    lists:mapfoldl(
        fun(_, State) ->
            {Normal, Next} = rand:normal_s(State),
            {100 * math:exp(0.1 * Normal), Next}
        end,
        Random,
        lists:seq(1, Count)
    ).

%% One that keeps something or takes longer and longer, on one side or both.
codes_that_drift(_Config) ->
    Old = bench([{~"a", around(100, 0.01), 1000}, {~"b", around(100, 0.01), 1000}]),
    New = bench([{~"a", around(130, 0.01), 1100}, {~"b", around(100, 0.01), 1000}]),
    Doubted = fun(Document, Code) ->
        Note = dyno_finding:note(
            dyno_finding:new(Code, none, #{severity => doubt, subject => ~"a", text => ~"It grows."})
        ),
        dyno_recording:add_warnings(Document, [Note])
    end,
    [
        begin
            Changes = changes(A, B),
            ?assertEqual(
                [{~"time", undecided}, {~"reductions", undecided}],
                [{M, V} || #{item := ~"a", metric := M, verdict := V} <- Changes]
            ),
            ?assertEqual([same, same], [V || #{item := ~"b", verdict := V} <- Changes]),
            ?assertMatch([_], [W || {~"drifts", W} <- dyno_compare:warnings(Changes, [])]),
            {ok, Gate} = dyno_compare_gate:parse("slower > 10%"),
            Failing = dyno_compare_gate:failing(Gate, Changes),
            #{result := Result, text := Text} = dyno_compare_gate:verdict(Gate, Changes, Failing),
            ?assertEqual(unknown, Result),
            ?assertMatch({_, _}, binary:match(Text, ~"depends on how long it is measured"))
        end
     || {A, B} <- [
            {Doubted(Old, keeps), New}, {Old, Doubted(New, drifts)}, {Doubted(Old, drifts), New}
        ]
    ],
    %% What only the first call does is in neither.
    ?assertMatch(#{verdict := slower}, time(~"a", changes(Doubted(Old, first_call), New))).

exact_reductions(_Config) ->
    Verdict = fun(Old, New) ->
        [V] = [
            V
         || #{metric := ~"reductions", verdict := V} <-
                changes(bench([{~"a", [100], Old}]), bench([{~"a", [100], New}]))
        ],
        V
    end,
    ?assertEqual(same, Verdict(1000, 1000.9)),
    ?assertEqual(more, Verdict(1000, 1001.1)),
    ?assertEqual(less, Verdict(1001.1, 1000)),
    ?assertEqual(more, Verdict(0, 1)),
    ?assertEqual(less, Verdict(1, 0)).

of_test(_Config) ->
    Old = dyno_repetitions:thrice(recording()),
    New = scaled(~"throughput", 0.8, scaled(~"latency.p99", 1.5, Old)),
    Changes = changes(Old, New),
    Find = fun(Item, Metric) ->
        [Change] = [C || #{item := I, metric := F} = C <- Changes, I =:= Item, F =:= Metric],
        Change
    end,
    #{verdict := slower, ratio := Ratio} = Find(~"size 100", ~"throughput"),
    ?assert(abs(Ratio - 0.8) < 1.0e-9),
    ?assertMatch(#{verdict := slower, kind := time}, Find(~"size 10", ~"latency.p99")),
    ?assertMatch(#{verdict := same}, Find(~"size 10", ~"latency.p50")),
    ?assertMatch(#{verdict := faster}, hd(changes(New, Old))),
    ?assertMatch(
        #{verdict := same, unit := ~"ns"},
        Find(~"size 1: cowboy_http:parse_header_name/4", ~"time per call")
    ).

zeros(_Config) ->
    Old = five_times(recording()),
    #{~"runs" := [Run | _]} = Old,
    {ok, #{~"value" := Zero}} = dyno_recording:metric(Run, ~"errors.rate"),
    ?assertEqual(0, round(Zero)),
    WithErrors = put_metric(~"errors.rate", 0.1, Old),
    Rate = fun(Changes) ->
        [C || #{item := ~"size 1", metric := ~"errors.rate"} = C <- Changes]
    end,
    [Errors] = Rate(changes(Old, WithErrors)),
    ?assertMatch(#{verdict := more, ratio := undefined}, Errors),
    [Gone] = Rate(changes(WithErrors, Old)),
    ?assertMatch(#{verdict := less}, Gone).

%% What only one of them has comes first.
matched_by_label(_Config) ->
    Old = bench([{~"a", around(100, 0.01), 1}, {~"b", around(100, 0.01), 1}]),
    New = bench([{~"c", around(100, 0.01), 1}, {~"a", around(300, 0.01), 1}]),
    Changes = changes(Old, New),
    ?assertEqual(
        [{~"b", gone}, {~"c", new}, {~"a", slower}, {~"a", same}],
        [{Item, Verdict} || #{item := Item, verdict := Verdict} <- Changes]
    ),
    ?assertMatch([#{old := 100.0, new := undefined}, #{new := 100.0} | _], Changes).

%% What may not be compared

environments(_Config) ->
    Old = bench([{~"a", around(100, 0.01), 1}]),
    New = environment(~"otp", ~"27.1", environment(~"hostname", ~"other", Old)),
    {error, {environments, [{~"otp", ~"29.1", ~"27.1"}]} = Reason} = dyno_compare:compare(
        Old, New, #{}
    ),
    Sentence = unicode:characters_to_binary(dyno_compare:format_error(Reason)),
    ?assertMatch({_, _}, binary:match(Sentence, ~"otp was 29.1 and is 27.1")),
    {ok, Forced} = dyno_compare:compare(Old, New, #{incomparable => warn}),
    ?assertMatch(
        [_], [x || #{~"code" := ~"environments"} <- map_get(~"warnings", Forced)]
    ),
    Parameters = #{~"concurrency" => 2},
    ?assertMatch(
        {error, {environments, [{~"concurrency", null, 2}]}},
        dyno_compare:comparable(Old, Old#{~"parameters" := Parameters}, all)
    ).

commands(_Config) ->
    Bench = bench([{~"a", [1], 1}]),
    ?assertEqual(
        {error, {commands, ~"bench", ~"test"}}, dyno_compare:compare(Bench, recording(), #{})
    ),
    {ok, Compared} = dyno_compare:compare(Bench, Bench, #{}),
    ?assertMatch({error, {commands, _, _}}, dyno_compare:compare(Compared, Compared, #{})).

incomplete(_Config) ->
    Bench = bench([{~"a", [1], 1}]),
    Partial = Bench#{~"status" := ~"partial"},
    ?assertEqual(
        {error, {not_complete, old, ~"partial"}}, dyno_compare:compare(Partial, Bench, #{})
    ),
    ?assertEqual(
        {error, {not_complete, new, ~"partial"}}, dyno_compare:compare(Bench, Partial, #{})
    ).

nothing_in_common(_Config) ->
    ?assertEqual(
        {error, nothing_in_common},
        dyno_compare:compare(bench([{~"a", [1], 1}]), bench([{~"b", [1], 1}]), #{})
    ).

valid_document(_Config) ->
    Old = bench([{~"a", around(100, 0.01), 1}]),
    {ok, Document} = dyno_compare:compare(Old, Old, #{}),
    {ok, Again} = dyno_recording:validate(json:decode(iolist_to_binary(json:encode(Document)))),
    ?assertEqual(Document, Again).

%% Conditions

conditions(_Config) ->
    [
        ?assertMatch({{ok, _}, Text}, {dyno_compare_gate:parse(Text), Text})
     || Text <- [
            "slower > 5%",
            "  slower>5 %",
            ~"faster > 0.5%",
            "reductions   >  0.1%  ",
            "latency.p99.9 > 5%"
        ]
    ].

bad_conditions(_Config) ->
    [
        begin
            {error, {_, Position, Problem} = Reason} = dyno_compare_gate:parse(Text),
            ?assertEqual({At, What}, {Position, kind(Problem)}, Text),
            ?assert(is_binary(dyno_threshold:format_error(Reason)))
        end
     || {Text, At, What} <- [
            {"", 0, subject_expected},
            {"foo:bar(1) <", 3, subject_expected},
            {"< 5%", 0, subject_expected},
            {"slow > 5%", 0, unknown_metric},
            {"slower5 > 5%", 0, unknown_metric},
            {"slower", 6, operator},
            {"slower 5 > 5%", 0, unknown_table},
            {"slower < 5%", 7, operator},
            {"slower >= 5%", 7, operator},
            {"slower > ", 9, number_expected},
            {"slower > 5", 9, limit},
            {"slower > 5 ms", 9, wrong_dimension},
            {"slower > -5%", 9, limit},
            {"latency.p99 > 5", 14, limit},
            {"slower > 5% or so", 10, unknown_unit},
            {"process a memory > 5%", 0, unknown_table},
            {"memory.total of a > 5%", 13, not_here},
            {"slower at 5 > 5%", 7, not_here},
            {<<255>>, 0, not_utf8}
        ]
    ],
    {error, Slip} = dyno_compare_gate:parse("slowr > 5%"),
    ?assertMatch({_, _}, binary:match(dyno_threshold:format_error(Slip), ~"closest are slower")).

kind(Problem) when is_tuple(Problem) -> element(1, Problem);
kind(Problem) -> Problem.

gate(_Config) ->
    Old = bench([{~"a", around(100, 0.001), 10}, {~"b", around(100, 0.001), 10}]),
    New = bench([{~"a", around(110, 0.001), 10}, {~"b", around(120, 0.001), 10.02}]),
    Changes = changes(Old, New),
    Result = fun(Text) ->
        {ok, Condition} = dyno_compare_gate:parse(Text),
        Failing = dyno_compare_gate:failing(Condition, Changes),
        #{result := R, text := Words} = dyno_compare_gate:verdict(Condition, Changes, Failing),
        ?assert(is_binary(Words)),
        {R, [Item || #{item := Item} <- Failing]}
    end,
    ?assertEqual({fail, [~"b", ~"a"]}, Result("slower > 5%")),
    ?assertEqual({fail, [~"b"]}, Result("slower > 15%")),
    ?assertEqual({pass, []}, Result("slower > 25%")),
    ?assertEqual({pass, []}, Result("faster > 5%")),
    ?assertEqual({fail, [~"b"]}, Result("reductions > 0.1%")),
    ?assertEqual({pass, []}, Result("reductions > 0.3%")).

%% Metrics and columns are compared where a condition names them; which way is worse follows from
%% their units and from what a column says.
any_metric(_Config) ->
    Old = measured(test, 100, 1000, 50),
    New = measured(test, 150, 800, 40),
    Named = fun(Names) ->
        [
            {Item, Metric, Verdict}
         || #{item := Item, metric := Metric, verdict := Verdict} <-
                changes(Old, New, #{names => Names})
        ]
    end,
    ?assertEqual([], Named([])),
    ?assertEqual([{~"size 10", ~"custom.wait", slower}], Named([~"custom.wait"])),
    ?assertEqual(
        [
            {~"size 10: a x", ~"queues.longest", more},
            {~"size 10: a x", ~"queues.served", less},
            {~"size 10: b y", ~"queues.longest", same},
            {~"size 10: b y", ~"queues.served", same}
        ],
        Named([~"queues.longest", ~"queues.served", ~"queues.note"])
    ),
    Result = fun(Text) ->
        {ok, Condition} = dyno_compare_gate:parse(Text),
        Changes = changes(Old, New, #{names => dyno_compare_gate:names([Condition])}),
        Failing = dyno_compare_gate:failing(Condition, Changes),
        #{result := R} = dyno_compare_gate:verdict(Condition, Changes, Failing),
        R
    end,
    ?assertEqual(fail, Result("custom.wait > 10%")),
    ?assertEqual(pass, Result("custom.wait > 60%")),
    ?assertEqual(fail, Result("custom.rate > 10%")),
    ?assertEqual(fail, Result("queues.longest > 10%")),
    ?assertEqual(fail, Result("queues.served > 10%")),
    ?assertEqual(pass, Result("queues.served > 30%")),
    ?assertEqual(unknown, Result("queues.length > 10%")).

%% Of a command that nobody knows all is compared; the runs are told apart by their labels.
any_command(_Config) ->
    Changes = changes(measured(watch, 100, 1000, 50), measured(watch, 150, 1000, 50)),
    ?assertEqual(
        [
            {~"10", ~"custom.rate", same},
            {~"10", ~"custom.wait", slower},
            {~"10: a x", ~"queues.longest", more},
            {~"10: a x", ~"queues.served", same},
            {~"10: b y", ~"queues.longest", same},
            {~"10: b y", ~"queues.served", same}
        ],
        lists:sort([{Item, M, V} || #{item := Item, metric := M, verdict := V} <- Changes])
    ),
    {ok, Compared} = dyno_compare:compare(
        measured(watch, 1, 1, 1), measured(watch, 2, 1, 1), #{}
    ),
    ?assertEqual(
        {error, {commands, ~"compare", ~"compare"}}, dyno_compare:compare(Compared, Compared, #{})
    ).

measured(Command, Wait, Served, Rate) ->
    Queues = dyno_recording_table:make(
        #{
            name => ~"queues",
            title => ~"Queues",
            columns => [
                {~"zone", ~"Zone", string, #{role => key}, fun({Zone, _, _, _}) -> Zone end},
                {~"queue", ~"Queue", string, #{role => key}, fun({_, Queue, _, _}) -> Queue end},
                {~"longest", ~"Longest", count, #{better => lower}, fun({_, _, N, _}) -> N end},
                {~"served", ~"Served", count, #{better => higher}, fun({_, _, _, N}) -> N end},
                {~"note", ~"Note", count, fun({_, _, N, _}) -> N end}
            ]
        },
        [{~"a", ~"x", Wait, Served}, {~"b", ~"y", 7, 7}]
    ),
    Labels =
        case Command of
            test -> #{size => 10};
            _ -> #{input => ~"10"}
        end,
    Run = #{
        labels => Labels,
        size => 10,
        status => complete,
        metrics => [
            #{name => ~"custom.wait", value => Wait, unit => ms},
            #{name => ~"custom.rate", value => Rate, unit => ~"1/s"}
        ],
        tables => [Queues]
    },
    Document = dyno_recording:add_run(dyno_recording:new(Command, ~"queues", #{}, #{}), Run),
    dyno_repetitions:thrice(dyno_recording:put(Document, status, complete)).

gate_without_metrics(_Config) ->
    {ok, Condition} = dyno_compare_gate:parse("reductions > 1%"),
    ?assertMatch(
        #{result := unknown},
        dyno_compare_gate:verdict(Condition, changes(recording(), recording()), [])
    ).

%% Recordings

five_times(#{~"runs" := Runs} = Document) ->
    Document#{~"runs" := [Run || Run <- Runs, _ <- lists:seq(1, 5)]}.

changes(Old, New) -> changes(Old, New, #{}).

changes(Old, New, Options) -> dyno_compare:changes({Old, New}, Options).

time(Item, Changes) ->
    [Change] = [C || #{item := I, metric := ~"time"} = C <- Changes, I =:= Item],
    Change.

%% 15 values; the median is the centre.
around(Centre, Share) -> [Centre * (1 + Share * N / 7) || N <- lists:seq(-7, 7)].

bench(Codes) ->
    Document = dyno_recording:new(bench, ~"codes", #{}, #{otp => ~"29.1", cpu_model => ~"x"}),
    Columns = [
        #{name => ~"code", type => string}, #{name => ~"reductions_per_call", type => number}
    ],
    Run = #{
        id => ~"1",
        size => 1,
        status => complete,
        series => [
            #{
                name => ~"bench.time",
                unit => ~"ns/call",
                labels => #{code => Label},
                times_ms => lists:seq(1, length(Times)),
                values => Times
            }
         || {Label, Times, _} <- Codes
        ],
        tables => [
            #{name => codes, columns => Columns, rows => [[L, Exact] || {L, _, Exact} <- Codes]}
        ]
    },
    dyno_recording:put(dyno_recording:add_run(Document, Run), status, complete).

recording() ->
    Path = filename:join([dyno_project:root(), "test/cli/dyno_cli_SUITE_data/recording.json"]),
    {ok, Document} = dyno_recording_file:read(Path),
    Document.

environment(Field, Value, #{~"environment" := Environment} = Document) ->
    Document#{~"environment" := Environment#{Field => Value}}.

scaled(Name, Factor, Document) -> metrics(Name, fun(Value) -> Value * Factor end, Document).

put_metric(Name, Value, Document) -> metrics(Name, fun(_) -> Value end, Document).

metrics(Name, Fun, #{~"runs" := Runs} = Document) ->
    Change = fun
        (#{~"name" := Of, ~"value" := Value} = Metric) when Of =:= Name ->
            Metric#{~"value" := Fun(Value)};
        (Metric) ->
            Metric
    end,
    Document#{
        ~"runs" := [
            Run#{~"metrics" := lists:map(Change, Metrics)}
         || #{~"metrics" := Metrics} = Run <- Runs
        ]
    }.
