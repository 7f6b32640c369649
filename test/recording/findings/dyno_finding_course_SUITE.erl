%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_course_SUITE).
-moduledoc "Runs whose load has other answers at the end than at the begin, or none for a while.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [drifting, steady, no_firm_verdict, behind, away].

said(Series) ->
    [
        {S, Text}
     || #{severity := S, text := Text} <- dyno_finding_course:findings(document(Series, []))
    ].

document(Series, Metrics) ->
    Count = length(element(2, hd(Series))),
    Run = #{
        id => ~"4",
        size => 4,
        status => complete,
        nodes => [#{name => ~"shop@here"}],
        metrics => Metrics,
        series => [
            #{
                name => Name,
                unit => ~"ns",
                times_ms => [200 * N || N <- lists:seq(1, Count)],
                values => Values
            }
         || {Name, Values} <- Series
        ]
    },
    New = dyno_recording:put(dyno_recording:new(test, ~"a", #{}, #{}), status, complete),
    dyno_recording:add_run(New, Run).

ms(Values) -> [1_000_000 * Value || Value <- Values].

%% A table that grows, a cache that gets warm, a stall in the second half.
drifting(_Config) ->
    Flat = lists:duplicate(16, 2),
    [
        ?assertEqual(
            [{doubt, <<"at size 4 responses took ", Text/binary>>}],
            said([{~"load.latency.p50", ms(P50)}, {~"load.latency.p99", ms(P99)}])
        )
     || {P50, P99, Text} <- [
            {lists:seq(1, 16), Flat,
                <<"3 ms in the first third of the run and 14 ms in the last (p50): all figures "
                "depend on how long it lasted">>},
            {lists:seq(16, 1, -1), Flat,
                <<"14 ms in the first third of the run and 3 ms in the last (p50): all figures "
                "depend on how long it lasted">>},
            {Flat, [3, 4, 3, 4, 3, 4, 3, 4, 90, 91, 90, 91, 90, 91, 90, 91],
                <<"3 ms in the first third of the run and 91 ms in the last (p99): all figures "
                "depend on how long it lasted">>}
        ]
    ].

%% Chance, a stall now and then, a load that changes by its plan.
steady(_Config) ->
    [
        ?assertEqual([], said(Series))
     || Series <- [
            [{~"load.latency.p50", ms([5, 4, 6, 5, 5, 4, 6, 6, 5, 4, 6, 5, 5, 4, 6, 5])}],
            [{~"load.latency.p99", ms([5, 5, 500, 5, 5, 5, 500, 5, 5, 5, 500, 5, 5, 5, 500, 5])}],
            [
                {~"load.latency.p50", ms(lists:seq(1, 16))},
                {~"load.offered", lists:seq(100, 1600, 100)}
            ]
        ]
    ].

%% A verdict that the length of the run decides is none.
no_firm_verdict(_Config) ->
    Result = fun(Text, P50) ->
        Document = document([{~"load.latency.p50", ms(P50)}], [
            #{name => ~"throughput", value => 100, unit => ~"1/s"}
            | [
                #{name => Name, value => 8_000_000, unit => ~"ns"}
             || Name <- [~"latency.p50", ~"latency.mean", ~"service.p90", ~"operation.a.latency.max"]
            ]
        ]),
        {ok, Threshold} = dyno_threshold:parse(Text),
        [#{~"result" := Is}] = dyno_threshold:evaluate(Threshold, Document),
        Is
    end,
    Rising = lists:seq(1, 16),
    [
        ?assertEqual(Expected, Result(Text, P50), {Text, P50})
     || {Expected, Text, P50} <- [
            {~"pass", "latency.p50 < 20 ms", Rising},
            {~"unknown", "latency.p50 < 10 ms", Rising},
            {~"fail", "latency.p50 < 5 ms", Rising},
            {~"unknown", "latency.p50 < 5 ms", lists:reverse(Rising)},
            {~"unknown", "latency.mean < 20 ms", Rising},
            {~"unknown", "service.p90 < 20 ms", Rising},
            {~"unknown", "operation.a.latency.max < 20 ms", Rising},
            {~"pass", "latency.mean < 50 ms", Rising},
            {~"unknown", "throughput > 50 /s", Rising},
            {~"fail", "throughput > 500 /s", Rising},
            {~"pass", "latency.p50 < 10 ms", lists:duplicate(16, 8)}
        ]
    ].

%% Of an open load whose queue grows, another finding tells; a verdict is still not firm.
behind(_Config) ->
    Said = fun(Throughput) ->
        Document = document(
            [
                {~"load.latency.p50", ms(lists:seq(1, 16))},
                {~"load.offered", lists:duplicate(16, 100)}
            ],
            [
                #{name => ~"throughput", value => Throughput, unit => ~"1/s"},
                #{name => ~"load.offered", value => 100, unit => ~"1/s"}
            ]
        ),
        [Check || #{check := Check} <- dyno_finding_course:findings(Document)]
    end,
    ?assertEqual([drift], Said(100)),
    ?assertEqual([], Said(60)).

%% Of 16 intervals of 200 ms, 5 without a success.
away(_Config) ->
    Up = lists:duplicate(5, 500),
    Throughput = Up ++ [0, 0, 0, 0, 0] ++ Up ++ [500],
    Errors = lists:duplicate(5, 0) ++ [25, 50, 50, 50, 50] ++ lists:duplicate(6, 0),
    ?assertEqual(
        [{warning, ~"at size 4 no operation succeeded for at least 1 s, 31.3 % of the run"}],
        said([{~"load.throughput", Throughput}, {~"load.errors", Errors}])
    ),
    %% Long operations, without an error; few operations.
    ?assertEqual([], said([{~"load.throughput", Throughput}])),
    ?assertEqual(
        [],
        said([{~"load.throughput", [V / 100 || V <- Throughput]}, {~"load.errors", Errors}])
    ),
    %% An open load goes on meanwhile, unless its arrivals pause, too.
    Cause = fun(Offered) ->
        Series = [{~"load.throughput", Throughput}, {~"load.offered", Offered}],
        [Run] = dyno_recording:runs(document(Series, [])),
        unicode:characters_to_binary(element(1, dyno_finding_tail:cause(Run, 0.0)))
    end,
    ?assertEqual(~": no operation succeeded for at least 1 s", Cause(lists:duplicate(16, 500))),
    ?assertEqual(~"", Cause(Throughput)).
