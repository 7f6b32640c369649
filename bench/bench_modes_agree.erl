%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_modes_agree).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

describe() ->
    """
    How many times as long lists:seq(1, 100) takes as lists:seq(1, 60) by a comparison, by samples
    of a time (-d) and by samples of so many iterations (-l), by turns. With the same heap (--heap,
    10,000 words or as many as the argument says) all should give the same; the result is how far
    the greatest and the least of these ratios are apart. Shown besides: what each gives when the
    heap is left to it.
    """.

argument(Text) -> bench_program:whole(Text, 10_000, {1, "words"}).

measure(Words, Effort) ->
    {Rounds, SampleMs} = settings(Effort),
    Ways = ways(SampleMs),
    Found = [
        {Name, Heap, ratio(maps:merge(Options, Fixed))}
     || _ <- lists:seq(1, Rounds),
        {Name, Options} <- Ways,
        {Heap, Fixed} <- [{same, #{heap => Words}}, {own, #{}}]
    ],
    Median = fun(Name, Heap) ->
        dyno_stats:median([Ratio || {N, H, Ratio} <- Found, N =:= Name, H =:= Heap])
    end,
    Same = [
        begin
            bench_program:say("~-10s ~.3f times with ~b words, ~.3f with its own heap", [
                Name, Median(Name, same), Words, Median(Name, own)
            ]),
            Median(Name, same)
        end
     || {Name, _} <- Ways
    ],
    #{
        name => "modes_agree",
        value => 100 * (lists:max(Same) / lists:min(Same) - 1),
        unit => "%",
        goal => 10
    }.

settings(full) -> {5, 100};
settings(quick) -> {1, 5}.

ways(SampleMs) ->
    [
        {"compare", #{budget_ms => 20 * SampleMs}},
        {"continuous", #{mode => {continuous, #{sample_ms => SampleMs, samples => 10}}}},
        {"timed", #{mode => {timed, #{iterations => 2000 * SampleMs, samples => 10}}}}
    ].

ratio(Options) ->
    {_, Ratio} = bench_comparison:verdict("lists:seq(1, 60).", "lists:seq(1, 100).", Options),
    Ratio.
