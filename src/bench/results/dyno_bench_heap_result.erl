%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_heap_result).
-moduledoc false.
%% A recording's findings about the heap: the table `heaps`, which splits the time of a call, and
%% warnings if a verdict depends on the heap or a mode leaves the heap to chance. Pure.

-export([tables/2, findings/2]).

%% Approximate least time of a minor collection, if that was not measured.
-define(COLLECTION_NS, 250).
-define(MOST_SENTENCES, 3).

-spec tables([binary()], dyno_bench_engine:result()) -> [dyno_recording_table:table()].
tables(Labels, #{heaps := #{default := Default, room := Room}}) ->
    Items = [
        (dyno_bench_heap:costs({D, R}))#{code => Label, default => D, room => R}
     || {Label, D, R} <- lists:zip3(Labels, Default, Room)
    ],
    [dyno_recording_table:make(heaps(), Items) || lists:any(fun matters/1, Items)];
tables(_Labels, _Result) ->
    [].

matters(#{default := #{time_ns := Ns}, without_ns := WithoutNs}) ->
    Ns > (1 + dyno_stats_verdict:threshold()) * WithoutNs.

heaps() ->
    Time = {number, ~"ns/call"},
    Count = {number, ~"1"},
    Without = ~"Time per call without collections",
    DefaultTime = ~"Time per call with the default heap",
    Default = ~"Collections per call with the default heap",
    Room = ~"Collections per call with a large heap",
    #{
        name => ~"heaps",
        title => ~"The heap: a fresh process, and one with room",
        columns => [
            {~"code", ~"Code", string, key, code},
            {~"without_collections", Without, Time, lower, without_ns},
            {~"collection_time", ~"Time of a collection", {number, ~"ns"}, lower, collection_ns},
            {~"default_time", DefaultTime, Time, lower, [default, time_ns]},
            {~"default_collections", Default, Count, lower, [default, collections]},
            {~"room_time", ~"Time per call with a large heap", Time, lower, [room, time_ns]},
            {~"room_collections", Room, Count, lower, [room, collections]}
        ]
    }.

-doc "Verdicts that depend on the heap, and times in modes that leave the heap to the runtime.".
-spec findings([binary()], dyno_bench_engine:result()) -> [dyno_finding:t()].
findings(Labels, #{heaps := #{words := Words} = Ends}) ->
    Depending = dyno_bench_heap:depends(Ends, dyno_stats_verdict:threshold()),
    [
        dyno_bench_findings:doubt(
            heap,
            text(
                "the verdict depends on the heap: ~ts takes ~ts times as long as ~ts with room "
                "(~b words), ~ts times in a fresh process",
                [lists:nth(B, Labels), factor(Room), lists:nth(A, Labels), Words, factor(Fresh)]
            ),
            ~"Give the heap of your processes (--heap WORDS)."
        )
     || {#{a := A, b := B, ratio := Fresh}, #{ratio := Room}} <-
            lists:sublist(Depending, ?MOST_SENTENCES)
    ] ++
        [
            dyno_bench_findings:doubt(
                heap,
                text("so do ~b other verdicts", [length(Depending) - ?MOST_SENTENCES]),
                ~"See their times in the table of the heap."
            )
         || length(Depending) > ?MOST_SENTENCES
        ];
findings(Labels, #{heap := Heap, candidates := Candidates} = Result) when
    Heap =:= runtime; Heap =:= default
->
    Collected = [
        {Label, Count}
     || {Label, #{garbage_collections := Count, times_ns := TimesNs}} <-
            lists:zip(Labels, Candidates),
        Count * ?COLLECTION_NS > dyno_stats_verdict:threshold() * dyno_stats:median(TimesNs)
    ],
    Counts = [[Label, " ", dyno_unit:format(Count, ~"1")] || {Label, Count} <- Collected],
    IsTime = dyno_bench_metric:is_time(maps:get(metric, Result, time)),
    [
        dyno_bench_findings:doubt(
            heap,
            text(
                "collections are in the times (~ts a call), as many as the heap that the process "
                "came to have makes them",
                [lists:join(", ", Counts)]
            ),
            text("Leave ~ts out for a new heap in each round; --heap WORDS fixes one.", [
                left_to_chance(Result)
            ])
        )
     || Counts =/= [], IsTime
    ];
findings(_Labels, _Result) ->
    [].

%% Samples and isolated VMs draw no heap.
left_to_chance(#{heap := runtime}) -> "-d, -s, -l, -r and -i";
left_to_chance(#{fixed := true}) -> "--heap default and -d, -s, -l and -r";
left_to_chance(#{vms := _}) -> "--heap default and -i";
left_to_chance(#{heap := default}) -> "--heap default".

factor(Ratio) -> io_lib:format("~.2f", [Ratio]).

text(Format, Arguments) -> dyno_recording_part:text(Format, Arguments).
