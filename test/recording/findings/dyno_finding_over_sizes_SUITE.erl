%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_over_sizes_SUITE).
-moduledoc "What gets slow first, in systems made so that one resource does.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        nothing,
        a_queue,
        schedulers,
        a_function,
        open_load,
        a_failing_load,
        the_load_does_not_grow,
        medians,
        sentences,
        one_size,
        a_server,
        a_full_server
    ].

%% Twice the workers, twice the throughput, the same response times; the report says so.
nothing(_Config) ->
    ?assertEqual([], saturations(fun(_Size) -> #{} end)),
    Document = document([run(S, 1, #{}) || S <- [1, 2]]),
    Said = fun(Of) ->
        {ok, Text} = dyno_report:render(console, Of, #{}),
        binary:match(iolist_to_binary(Text), ~"None: responses take hardly longer")
    end,
    ?assertEqual(nomatch, Said(Document)),
    ?assertMatch(
        {_, _}, Said(dyno_recording:add_tables(Document, [dyno_finding:table(undefined, [])]))
    ).

%% One process that all wait for: its queue grows first, then the schedulers are full as well.
a_queue(_Config) ->
    Saturations = saturations(fun(Size) ->
        #{
            throughput => 1000 * min(Size, 4),
            p50 => 1_000_000 * max(1, Size / 4),
            queue => max(0, Size - 4),
            utilisation => min(1.0, Size / 16)
        }
    end),
    ?assertMatch(
        [
            {throughput, ~"throughput", 8},
            {response_time, ~"latency.p50", 8},
            {message_queue, ~"db", 8},
            {schedulers_busy, ~"shop", 16}
        ],
        Saturations
    ).

schedulers(_Config) ->
    Saturations = saturations(fun(Size) ->
        #{
            throughput => 1000 * min(Size, 8),
            p50 => 1_000_000 * max(1, Size / 8),
            utilisation => min(0.99, Size / 8),
            run_queue => max(0, Size - 8)
        }
    end),
    ?assertEqual(
        [schedulers_busy, run_queue],
        [Check || {Check, ~"shop", _} <- Saturations]
    ).

%% Only where it takes some of the time.
a_function(_Config) ->
    Slower = fun(Size) -> 100 * Size end,
    ?assertMatch(
        [{function_slower, ~"shop:find/1", 2}],
        saturations(fun(Size) -> #{time_per_call => Slower(Size), share => 0.3} end)
    ),
    ?assertMatch([], saturations(fun(Size) -> #{time_per_call => Slower(Size), share => 0.01} end)),
    %% Nor where the times may as well be the same.
    Off = fun(By) ->
        saturations(fun(Size) -> #{time_per_call => Slower(Size), share => 0.3, off => By} end)
    end,
    ?assertMatch([_], Off(0.15)),
    ?assertEqual([], Off(0.25)),
    ?assertEqual([], Off(unknown)),
    %% Whose calls are too many to count, by the time that it takes of an operation.
    NotCounted = fun(Size) -> #{time_per_call => Slower(Size), share => 0.3, calls => null} end,
    ?assertMatch([{function_slower, ~"shop:find/1", 2}], saturations(NotCounted)),
    Document = document([run(S, 1, NotCounted(S)) || S <- [1, 2, 4]]),
    [#{text := Text, evidence := Evidence}] = dyno_finding_over_sizes:findings(Document),
    ?assertEqual(
        <<
            "of an operation shop:find/1 takes 200 ns at size 2, 2.0 times as long as at 1, and 30 % "
            "of the time"
        >>,
        Text
    ),
    ?assertEqual(~"100 ns at 1, 200 ns at 2, 400 ns at 4.", Evidence),
    %% Operations that failed may not have called it.
    Failing = fun(S) -> (NotCounted(S))#{failed => 0.4} end,
    ?assertEqual([], saturations(Failing)).

open_load(_Config) ->
    ?assertMatch(
        [{throughput, ~"throughput", 8}],
        saturations(fun(Size) ->
            #{offered => 1000 * Size, throughput => min(1000 * Size, 7000)}
        end)
    ).

%% Operations that failed are missing from the throughput: that is not saturation.
a_failing_load(_Config) ->
    Said = fun(Ok) ->
        [{Text, Advice}] = [
            {Text, Advice}
         || #{check := throughput, text := Text, advice := Advice} <- dyno_finding_over_sizes:findings(
                document([
                    run(S, 1, #{offered => 100 * S, throughput => Ok * 100 * S, failed => 0.3})
                 || S <- [1, 2]
                ])
            )
        ],
        {Text, Advice}
    end,
    {Text, Advice} = Said(0.7),
    ?assertMatch({_, _}, binary:match(Text, ~"were offered: 30 % of the operations failed")),
    ?assertMatch({0, _}, binary:match(Advice, ~"See the table of errors")),
    {Slow, Other} = Said(0.4),
    ?assertEqual(nomatch, binary:match(Slow, ~"failed")),
    ?assertEqual(nomatch, binary:match(Other, ~"errors")).

%% A size that counts keys says nothing of how much throughput there should be.
the_load_does_not_grow(_Config) ->
    ?assertEqual([], saturations(fun(Size) -> #{workers => 4, throughput => 40_000 + Size} end)),
    %% By the workers, not by the size: 4, 8, 16, 32 and 64 of them.
    ?assertEqual(
        [], saturations(fun(Size) -> #{workers => 4 * Size, throughput => 900 * Size} end)
    ),
    ?assertMatch(
        [{throughput, ~"throughput", 8}],
        saturations(fun(Size) -> #{workers => 4 * Size, throughput => 1000 * min(4, Size)} end)
    ).

%% A repetition that went wrong decides nothing.
medians(_Config) ->
    Values = fun
        (4, 2) -> #{p50 => 9_000_000};
        (_, _) -> #{}
    end,
    Document = document([run(S, R, Values(S, R)) || S <- [1, 2, 4, 8], R <- [1, 2, 3]]),
    ?assertEqual([], dyno_finding_over_sizes:findings(Document)).

sentences(_Config) ->
    Said = fun(Label, Values) ->
        Document = dyno_recording:new(test, ~"saturation", #{size_label => Label}, #{}),
        Runs = [run(S, 1, Values(S)) || S <- [1, 4]],
        Findings = dyno_finding_over_sizes:findings(
            lists:foldl(fun(Run, Acc) -> dyno_recording:add_run(Acc, Run) end, Document, Runs)
        ),
        [{Text, Value} || #{text := Text, value := Value} <- Findings]
    end,
    ?assertMatch(
        [
            {
                ~"with 4 connections throughput is 12.6 k/s, 50 % of linear scaling from that with 1",
                0.5
            },
            {~"the schedulers of shop are already 97.5 % busy with 1 connection", 0.975}
        ],
        Said(~"connections", fun(Size) ->
            #{throughput => map_get(Size, #{1 => 6300, 4 => 12_600}), utilisation => 0.975}
        end)
    ),
    ?assertMatch(
        [
            {~"with 16 workers (4 keys) throughput is 2000 /s, less than with 4", _},
            {~"with 4 keys 66.4 processes wait for the 4 schedulers of shop on average", 16.6}
        ],
        Said(~"keys", fun(Size) ->
            #{
                workers => 4 * Size,
                throughput => 3000 div Size + 1250,
                run_queue => map_get(Size, #{1 => 0, 4 => 66.4})
            }
        end)
    ),
    ?assertMatch(
        [{~"at 4 requests/s throughput is 3 /s, 75 % of the 4 /s that were offered", 0.75}],
        Said(~"requests/s", fun(Size) ->
            #{offered => Size, throughput => min(Size, 3)}
        end)
    ).

one_size(_Config) ->
    ?assertEqual([], dyno_finding_over_sizes:findings(document([run(1, 1, #{})]))).

%% Of one size, too: messages wait for longer than a third of the response time.
a_server(_Config) ->
    Given = #{p99 => 306_000_000, busy => 0.25, processes => 1},
    Said = fun(DelayNs) ->
        dyno_finding_over_sizes:findings(document([run(1000, 1, Given#{delay => DelayNs})]))
    end,
    [#{text := Waits, evidence := Doing}] = Said(290_000_000),
    ?assertEqual(~"messages to store wait 290 ms at size 1000 until they are handled (p99)", Waits),
    ?assertEqual(
        <<
            "handle_info takes 500 ms (p99), the queue holds up to 498, the process is busy 25 % of "
            "the time."
        >>,
        Doing
    ),
    %% If that explains little, the longest callback is still named.
    [#{check := far_tail, text := Tail}] = Said(50_000_000),
    Named = ~"the longest callback is handle_info of store: 500 ms",
    ?assertMatch({_, _}, binary:match(Tail, <<Named/binary, " (p99)">>)),
    %% One that ran too seldom for a p99, too.
    Few = run(1000, 1, Given#{delay => 50_000_000, info_p99 => null}),
    [#{text := Seldom}] = dyno_finding_over_sizes:findings(document([Few])),
    ?assertMatch({_, _}, binary:match(Seldom, <<Named/binary, " (the longest)">>)).

a_full_server(_Config) ->
    Saturations = saturations(fun(Size) ->
        #{p99 => 1_000_000, delay => 0, busy => min(2.0, Size / 4), processes => 2}
    end),
    ?assertEqual([{server_busy, ~"store", 8}], Saturations).

saturations(Values) ->
    Document = document([run(S, 1, Values(S)) || S <- [1, 2, 4, 8, 16]]),
    [
        {Check, Subject, from(Text)}
     || #{check := Check, subject := Subject, text := Text} <-
            dyno_finding_over_sizes:findings(Document)
    ].

%% At size 8; with 8 workers; with 32 workers (size 8).
from(Text) ->
    [Size | _] = [
        Size
     || Words <- ["size ([0-9]+)", "with ([0-9]+)"],
        {match, [Size]} <- [re:run(Text, Words, [{capture, all_but_first, binary}])]
    ],
    binary_to_integer(Size).

document(Runs) ->
    Empty = dyno_recording:new(test, ~"saturation", #{}, #{}),
    lists:foldl(fun(Run, Acc) -> dyno_recording:add_run(Acc, Run) end, Empty, Runs).

%% A run whose node has another name than that of any other.
run(Size, Repetition, Given) ->
    Values = maps:merge(
        #{
            throughput => 1000 * Size,
            p50 => 1_000_000,
            queue => 1,
            utilisation => 0.1,
            run_queue => 0,
            time_per_call => 100,
            off => 0,
            share => 0.5
        },
        Given
    ),
    Value = fun(Key) -> map_get(Key, Values) end,
    Id = iolist_to_binary(io_lib:format("~b#~b", [Size, Repetition])),
    Node = iolist_to_binary(io_lib:format("shop-~b-~b@host", [Size, Repetition])),
    #{
        id => Id,
        size => Size,
        repetition => Repetition,
        status => complete,
        nodes => [#{name => Node, schedulers_online => 4}],
        metrics =>
            [
                metric(~"throughput", Value(throughput), ~"1/s"),
                metric(~"operations.count", 1000, ~"count"),
                metric(~"workers.max", maps:get(workers, Values, Size), ~"count"),
                metric(~"latency.p50", Value(p50), ~"ns")
            ] ++
            [metric(~"errors.rate", Failed, ~"ratio") || #{failed := Failed} <- [Values]] ++
            [metric(~"load.offered", Offered, ~"1/s") || #{offered := Offered} <- [Values]] ++
            [metric(~"latency.p99", P99, ~"ns") || #{p99 := P99} <- [Values]],
        series => [
            series(~"vm.scheduler_utilisation.normal", Node, ~"ratio", Value(utilisation)),
            series(~"vm.run_queue.normal", Node, ~"count", Value(run_queue))
        ],
        tables => [
            table(~"processes", [{~"group", string}, {~"message_queue_max", number}], [
                [~"db", Value(queue)]
            ]),
            table(
                ~"functions",
                [
                    {~"function", string},
                    {~"calls", number},
                    {~"own_time", number},
                    {~"own_time_low", number},
                    {~"own_time_high", number},
                    {~"time_per_call", number},
                    {~"time_per_call_low", number},
                    {~"time_per_call_high", number},
                    {~"share", number}
                ],
                [
                    function(maps:get(calls, Values, 1000), Value(time_per_call), Value(off)) ++
                        [Value(share)]
                ]
            )
        ] ++ servers(Values)
    }.

servers(#{delay := DelayNs, busy := Busy, processes := N} = Values) ->
    [
        table(
            ~"servers",
            [
                {~"server", string},
                {~"delay", number},
                {~"busy", number},
                {~"processes", number},
                {~"queue_max", number}
            ],
            [[~"store", DelayNs, Busy, N, 498]]
        ),
        table(
            ~"callbacks",
            [{~"server", string}, {~"callback", string}, {~"p99", number}, {~"max", number}],
            [
                [~"store", ~"handle_call", 4000, 5000],
                [~"store", ~"handle_info", maps:get(info_p99, Values, 500_000_000), 500_000_000]
            ]
        )
    ];
servers(_Values) ->
    [].

%% Its time may be off by that share; where calls are not counted, a call's time is not known.
function(Calls, PerCall, Off) ->
    Bounds = fun
        (null) -> [null, null, null];
        (Value) when Off =:= unknown -> [Value, null, null];
        (Value) -> [Value, Value * (1 - Off), Value * (1 + Off)]
    end,
    Time =
        case Calls of
            null -> null;
            _ -> PerCall
        end,
    [~"shop:find/1", Calls] ++ Bounds(1000 * PerCall) ++ Bounds(Time).

metric(Name, Value, Unit) ->
    #{name => Name, value => Value, unit => Unit}.

series(Name, Node, Unit, Value) ->
    #{name => Name, node => Node, unit => Unit, times_ms => [0, 100], values => [Value, Value]}.

table(Name, Columns, Rows) ->
    #{name => Name, rows => Rows, columns => [#{name => N, type => T} || {N, T} <- Columns]}.
