%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_extras_result).
-moduledoc false.
%% The tables of what is measured only where it is asked for: `whole`, the processes that the codes
%% make work; `profile`, the functions that take the time, and `stacks`, the samples. Pure.

-export([tables/1, columns/1, warnings/1]).

-type labelled() :: {Label :: binary(), dyno_bench_engine:arm()}.
-type table() :: #{atom() => term()}.

%% The longest tails are left out, and counted.
-define(MAX_PARTS, 200).
-define(MAX_FUNCTIONS, 300).
-define(MAX_STACKS, 1000).

-doc "The tables, for those of the codes that have the figures.".
-spec tables([labelled()]) -> [table()].
tables(Codes) ->
    whole([{Label, Whole} || {Label, #{whole := Whole}} <- Codes, is_map(Whole)]) ++
        profiles([{Label, Profile} || {Label, #{profile := Profile}} <- Codes]).

-spec whole([{binary(), dyno_bench_side_effects:whole()}]) -> [table()].
whole([]) ->
    [];
whole(Codes) ->
    Rows = [
        [
            Label, Who, atom_to_binary(Kind), Count, Reductions, OwnNs, Messages, Queue, Memory,
            Growth
        ]
     || {Label, #{parts := Parts}} <- Codes,
        #{
            who := Who,
            kind := Kind,
            count := Count,
            reductions := Reductions,
            own_ns := OwnNs,
            messages := Messages,
            queue := Queue,
            memory := Memory,
            memory_growth := Growth
        } <- Parts
    ],
    [
        table(~"whole", ~"Other processes that the codes make work", ?MAX_PARTS, Rows, [
            {~"code", ~"Code", string, undefined},
            {~"process", ~"Process", string, undefined},
            {~"kind", ~"Kind", string, undefined},
            {~"count", ~"How many; spawned: for a call", number, ~"1"},
            {~"reductions_per_call", ~"Reductions per call", number, ~"1"},
            {~"own_time_per_call", ~"Time running per call, traced", number, ~"ns/call"},
            {~"messages_per_call", ~"Messages received per call", number, ~"1"},
            {~"queue", ~"Left in mailboxes", integer, ~"count"},
            {~"memory", ~"Memory afterwards", integer, ~"B"},
            {~"memory_growth", ~"Memory gained per call", number, ~"B"}
        ])
    ].

-spec profiles([{binary(), dyno_bench_profile:profile()}]) -> [table()].
profiles([]) ->
    [];
profiles(Codes) ->
    Functions = [
        [Label, Function, Calls, OwnNs, Share, sampled(Function, Profile)]
     || {Label, #{functions := Of} = Profile} <- Codes,
        #{function := Function, calls := Calls, own_ns := OwnNs, share := Share} <-
            lists:sublist(Of, ?MAX_FUNCTIONS)
    ],
    Stacks = [
        [Label, iolist_to_binary(lists:join(~";", Stack)), Samples]
     || {Label, #{stacks := Of}} <- Codes, {Stack, Samples} <- lists:sublist(Of, ?MAX_STACKS)
    ],
    [
        table(~"profile", ~"Functions that take the time", length(Functions), Functions, [
            {~"code", ~"Code", string, undefined},
            {~"function", ~"Function", string, undefined},
            {~"calls_per_call", ~"Calls per call of the code", number, ~"1"},
            {~"own_time_per_call", ~"Own time per call of the code, traced", number, ~"ns/call"},
            {~"share", ~"Share of the own time", number, ~"ratio"},
            {~"sampled", ~"Share of the samples", number, ~"ratio"}
        ]),
        table(~"stacks", ~"Sampled stacks", length(Stacks), Stacks, [
            {~"code", ~"Code", string, undefined},
            {~"stack", ~"Stack", string, undefined},
            {~"samples", ~"Samples", integer, ~"count"}
        ])
    ].

%% In which the function is the innermost.
-spec sampled(binary(), dyno_bench_profile:profile()) -> float() | undefined.
sampled(_Function, #{samples := 0}) ->
    undefined;
sampled(Function, #{samples := All, stacks := Stacks}) ->
    lists:sum([N || {Stack, N} <- Stacks, lists:last(Stack) =:= Function]) / All.

-spec table(binary(), binary(), non_neg_integer(), [[term()]], [tuple()]) -> table().
table(Name, Title, Most, Rows, Columns) ->
    dyno_recording_table:new(Name, Title, Columns, Rows, #{most => Most}).

-doc "Further columns of a code's row: name, title, unit, value.".
-spec columns(dyno_bench_engine:arm()) ->
    [{binary(), binary(), binary(), number() | undefined}].
columns(#{whole := Whole} = Arm) ->
    Of = fun(Key) ->
        case Whole of
            #{Key := Value} -> Value;
            _ -> undefined
        end
    end,
    All =
        case {Whole, Arm} of
            {#{reductions := Others}, #{exact := #{reductions := Own}}} -> Own + Others;
            _ -> undefined
        end,
    [
        {~"whole_reductions_per_call", ~"Reductions per call, of all processes", ~"1", All},
        {~"messages_per_call", ~"Messages per call", ~"1", Of(messages)},
        {~"spawned_per_call", ~"Processes spawned per call", ~"1", Of(spawned)},
        {~"whole_collections_per_call", ~"Collections per call, of all processes", ~"1",
            Of(collections)}
    ];
columns(_) ->
    [].

-doc "What makes the figures less than they seem.".
-spec warnings([labelled()]) -> [{binary(), binary()}].
warnings(Codes) ->
    [
        {~"whole", <<Label/binary, ": its messages are too large to be traced; use smaller ones">>}
     || {Label, #{whole := overrun}} <- Codes
    ] ++
        [
            {~"whole", <<Label/binary, ": ", Note/binary>>}
         || {Label, #{whole := #{notes := Notes}}} <- Codes, Note <- Notes
        ].
