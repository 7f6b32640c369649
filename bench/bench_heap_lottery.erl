%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_heap_lottery).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(SIZES, [100, 150, 200, 250, 300, 400]).

describe() ->
    """
    What dyno bench says that lists:sum(lists:seq(1, N)) takes for six N, which is work in
    proportion to N. In a fresh process 150 takes longer than 250, because of the heap that it
    settles at. The result is the farthest that the time of an element is from the median of all
    six. With an argument (default, or a number of words) the heap is fixed, as --heap does.
    """.

argument("default") -> {ok, default};
argument(Text) -> bench_program:whole(Text, drawn, {1, "words, or default"}).

measure(Heap, Effort) ->
    Times = times(Heap, Effort),
    [
        bench_program:say("N = ~b   ~s ns, ~.2f for each element", [
            N, bench_program:number(Ns), Ns / N
        ])
     || {N, Ns} <- Times
    ],
    PerElement = [Ns / N || {N, Ns} <- Times],
    Median = dyno_stats:median(PerElement),
    #{
        name => "heap_lottery",
        value => 100 * lists:max([abs(Ns / Median - 1) || Ns <- PerElement]),
        unit => "%",
        goal => 15
    }.

times(Heap, Effort) ->
    Codes = [
        #{
            runner => lists:flatten(io_lib:format("lists:sum(lists:seq(1, ~b)).", [N])),
            label => integer_to_list(N)
        }
     || N <- ?SIZES
    ],
    Fixed = maps:from_list([{heap, Heap} || Heap =/= drawn]),
    Run = bench_comparison:run(Codes, Fixed#{budget_ms => budget_ms(Effort)}),
    lists:sort([
        {binary_to_integer(N), Ns}
     || #{~"code" := N, ~"time_per_call" := Ns} <- bench_comparison:rows(~"codes", Run)
    ]).

budget_ms(full) -> 6000;
budget_ms(quick) -> 300.
