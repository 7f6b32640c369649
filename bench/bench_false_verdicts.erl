%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_false_verdicts).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(CODE, "lists:sort([5, 2, 9, 1, self(), 4, 8, 3, 7, 6]).").

describe() ->
    """
    How often dyno bench calls a code slower or faster than itself (an A/A comparison) while two
    other programs keep processors busy; or as many programs as the argument says. Each trial
    has 300 ms to measure. With the argument isolated:GROUPS each trial has so many groups of two
    fresh VMs, and any difference counts, not only one that matters. Up to 5 % of the trials may.
    """.

argument("isolated:" ++ Groups) ->
    case bench_program:whole(Groups, 8, {6, "groups"}) of
        {ok, Number} -> {ok, {isolated, Number}};
        Error -> Error
    end;
argument(Text) ->
    case bench_program:whole(Text, 2, {0, "busy loops"}) of
        {ok, Loops} -> {ok, {loops, Loops}};
        Error -> Error
    end.

measure({What, Number}, Effort) ->
    {Loops, Options, Trials} = trials(What, Number, Effort),
    Found = bench_comparison:under_load(Loops, fun() ->
        [bench_comparison:verdict(?CODE, ?CODE, Options) || _ <- lists:seq(1, Trials)]
    end),
    Count = fun(V) -> bench_comparison:count([Verdict || {Verdict, _} <- Found], [V]) end,
    Ratios = [abs(Ratio - 1) * 100 || {_, Ratio} <- Found],
    bench_program:say("trials    ~b, ~b busy loops besides", [Trials, Loops]),
    bench_program:say("verdicts  ~b same, ~b undecided, ~b slower, ~b faster", [
        Count(V)
     || V <- [~"same", ~"undecided", ~"slower", ~"faster"]
    ]),
    bench_program:say("ratios    off 1 by ~.2f % in the median, ~.2f % at most", [
        dyno_stats:median(Ratios), float(lists:max(Ratios))
    ]),
    #{
        name => lists:concat(["false_verdicts_" | ["isolated_" || What =:= isolated]] ++ [Number]),
        value => bench_comparison:share(Count(~"slower") + Count(~"faster"), Trials),
        unit => "%",
        goal => 5
    }.

trials(loops, Loops, full) -> {Loops, #{budget_ms => 300}, 200};
trials(loops, Loops, quick) -> {Loops, #{budget_ms => 300}, 3};
trials(isolated, Groups, full) -> {0, isolated(Groups), 40};
trials(isolated, Groups, quick) -> {0, isolated(Groups), 1}.

isolated(Groups) -> #{isolated => #{vms => Groups}, threshold => 0.0001}.
