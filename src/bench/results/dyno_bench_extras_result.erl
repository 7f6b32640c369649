%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_extras_result).
-moduledoc false.
%% The tables `single_calls`, of their times, and `side_effects`, work of other processes. Pure.

-export([tables/1, columns/1, findings/1]).

-type labelled() :: {Label :: binary(), dyno_bench_engine:candidate()}.

%% Further processes are left out, and counted.
-define(MAX_PARTS, 200).

-spec tables([labelled()]) -> [dyno_recording_table:table()].
tables(Codes) ->
    Parts = [
        Part#{code => Label}
     || {Label, #{side_effects := #{parts := Parts}}} <- Codes, Part <- Parts
    ],
    Calls = [Of#{code => Label} || {Label, #{single_calls := Of}} <- Codes],
    [dyno_recording_table:make(single_calls(), Calls) || Calls =/= []] ++
        [
            dyno_recording_table:make(side_effects(), Parts, #{most => ?MAX_PARTS})
         || [x || {_, #{side_effects := #{}}} <- Codes] =/= []
        ].

single_calls() ->
    #{
        name => ~"single_calls",
        title => ~"Single calls",
        columns => [
            {~"code", ~"Code", string, key, code},
            {~"calls", ~"Calls timed", count, note, calls},
            {~"min", ~"Shortest", ns, min_ns},
            {~"median", ~"Median", ns, median_ns},
            {~"p99", ~"99th percentile", ns, p99_ns},
            {~"max", ~"Longest", ns, max_ns},
            {~"deviation", ~"Standard deviation by the mean", ratio, deviation}
        ]
    }.

side_effects() ->
    Number = {number, ~"1"},
    PerCall = {number, ~"ns/call"},
    #{
        name => ~"side_effects",
        title => ~"Other processes that the codes make work",
        columns => [
            {~"code", ~"Code", string, key, code},
            {~"process", ~"Process", string, key, who},
            {~"kind", ~"Kind", string, kind},
            {~"count", ~"How many; spawned: for a call", Number, count},
            {~"reductions_per_call", ~"Reductions per call", Number, lower, reductions},
            {~"own_time_per_call", ~"Time running per call, traced", PerCall, lower, own_ns},
            {~"messages_per_call", ~"Messages received per call", Number, lower, messages},
            {~"queue", ~"Left in mailboxes", count, lower, queue},
            {~"memory", ~"Memory afterwards", bytes, lower, memory},
            {~"memory_growth", ~"Memory gained per call", {number, ~"B"}, lower, memory_growth}
        ]
    }.

-spec columns(dyno_bench_engine:candidate()) ->
    [{binary(), binary(), fun((dyno_bench_engine:candidate()) -> number() | undefined)}].
columns(#{side_effects := _}) ->
    Of = fun(Key) ->
        fun
            (#{side_effects := #{Key := Value}}) -> Value;
            (_Candidate) -> undefined
        end
    end,
    All = fun
        (#{side_effects := #{reductions := Others}, deterministic := #{reductions := Own}}) ->
            Own + Others;
        (_Candidate) ->
            undefined
    end,
    [
        {~"whole_reductions_per_call", ~"Reductions per call, of all processes", All},
        {~"messages_per_call", ~"Messages per call", Of(messages)},
        {~"spawned_per_call", ~"Processes spawned per call", Of(spawned)},
        {~"whole_collections_per_call", ~"Collections per call, of all processes", Of(collections)}
    ];
columns(_Candidate) ->
    [].

-spec findings([labelled()]) -> [dyno_finding:t()].
findings(Codes) ->
    Overrun = ~"its messages are too large to be traced; use smaller ones",
    [
        dyno_bench_findings:doubt(side_effects, <<Label/binary, ": ", Note/binary>>, ~"")
     || {Label, #{side_effects := SideEffects}} <- Codes,
        Note <-
            case SideEffects of
                overrun -> [Overrun];
                #{notes := Notes} -> Notes
            end
    ].
