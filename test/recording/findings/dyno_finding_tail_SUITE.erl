%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_tail_SUITE).
-moduledoc "Who waits inside a call, if some responses take far longer than the median.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [dyno_itself_is_no_cause, other_programs, a_call_that_computes, a_full_server].

%% The target is in dyno's own node: the load's workers wait for it, and more of them.
dyno_itself_is_no_cause(_Config) ->
    Columns = [
        {~"call", ~"Waits in", string, key, 1},
        {~"caller", ~"Called by", string, key, 2},
        {~"processes", ~"Processes", string, key, 3},
        {~"waiting", ~"Waiting", {number, ~"count"}, 4}
    ],
    Worker = ~"dyno_load_worker:serve/2",
    Table = dyno_recording_table:make(
        #{name => ~"waiting", title => ~"Processes that wait", columns => Columns},
        [
            {~"dyno_load_worker:serve/2", undefined, Worker, 21.9},
            {~"stalls:operation/1", ~"dyno_load_worker:one/7", Worker, 10.2},
            {~"stalls:loop/0", undefined, ~"stalls", 0.83},
            {~"timer:sleep/1", ~"stalls:loop/0", ~"stalls", 0.17}
        ]
    ),
    Run = #{id => ~"1", size => 1, status => complete, tables => [Table]},
    Document = dyno_recording:add_run(dyno_recording:new(test, ~"a", #{}, #{}), Run),
    {Cause, _, _} = dyno_finding_tail:cause(hd(dyno_recording:runs(Document)), 0.9),
    Text = unicode:characters_to_binary(Cause),
    ?assertMatch({_, _}, binary:match(Text, ~": stalls waits in timer:sleep/1, called by stalls:")),
    ?assertEqual(nomatch, binary:match(Text, ~"dyno_load_worker")).

%% If no process is seen to wait, work may wait for a processor.
other_programs(_Config) ->
    Said = fun(Share) ->
        {Cause, _, Advice} = dyno_finding_tail:cause(#{}, Share),
        {unicode:characters_to_binary(Cause), Advice}
    end,
    {Busy, End} = Said(0.9),
    ?assertEqual(~": other programs took at least 90 % of the processors", Busy),
    ?assertMatch({0, _}, binary:match(End, ~"End the other programs")),
    ?assertMatch({~"", <<"Measure the servers", _/binary>>}, Said(0.1)).

%% A rare call that computes is the cause, though other programs take the processors, too.
a_call_that_computes(_Config) ->
    Columns = [
        {~"function", ~"Function", string, key, 1},
        {~"calls", ~"Calls", count, 2},
        {~"total_time_low", ~"Total, from", {number, ~"ns"}, 3}
    ],
    Cause = fun(Calls) ->
        Functions = [
            {~"s:handle_call/3", 900, 900_000}, {~"s:handle_info/2", Calls, 711_000_000}
        ],
        Run = run([table(~"functions", Columns, Functions)], [
            {~"latency.p50", 250_000, ~"ns"},
            {~"latency.p99", 673_000_000, ~"ns"},
            {~"operations.count", 900, ~"count"}
        ]),
        unicode:characters_to_binary(element(1, dyno_finding_tail:cause(Run, 0.6)))
    end,
    ?assertEqual(
        ~": a call of s:handle_info/2 takes 237 ms of processor time or more", Cause(3)
    ),
    ?assertMatch(<<": other programs took", _/binary>>, Cause(900)),
    ?assertMatch(<<": other programs took", _/binary>>, Cause(0)).

%% A server that nearly always waits inside a call is why no more is done.
a_full_server(_Config) ->
    Columns = [
        {~"call", ~"Waits in", string, key, 1},
        {~"caller", ~"Called by", string, key, 2},
        {~"processes", ~"Processes", string, key, 3},
        {~"waiting", ~"Waiting", {number, ~"count"}, 4}
    ],
    Full = fun(Waiting) ->
        Rows = [
            {~"gen_server:loop/5", undefined, ~"cap", 1 - Waiting},
            {~"timer:sleep/1", ~"cap:handle_call/3", ~"cap", Waiting}
        ],
        [Text || {Text, _} <- dyno_finding_tail:full(run([table(~"waiting", Columns, Rows)], []))]
    end,
    [Text] = Full(0.9),
    ?assertMatch({0, _}, binary:match(Text, ~": cap waits in timer:sleep/1, called by cap:handle_call")),
    ?assertEqual([], Full(0.2)).

table(Name, Columns, Rows) ->
    dyno_recording_table:make(#{name => Name, title => Name, columns => Columns}, Rows).

run(Tables, Metrics) ->
    Run = #{
        id => ~"1",
        size => 1,
        status => complete,
        tables => Tables,
        metrics => [#{name => Name, value => V, unit => Unit} || {Name, V, Unit} <- Metrics]
    },
    hd(dyno_recording:runs(dyno_recording:add_run(dyno_recording:new(test, ~"a", #{}, #{}), Run))).
