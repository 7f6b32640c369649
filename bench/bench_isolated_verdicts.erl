%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_isolated_verdicts).
-moduledoc false.
%% How often identical codes in VMs of their own are called different.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(CODE, "lists:sort([5, 2, 9, 1, self(), 4, 8, 3, 7, 6]).").
%% Any difference counts, not only one that matters.
-define(THRESHOLD, 0.0001).

describe() ->
    """
    How often dyno bench -i calls a code slower or faster than itself, where any difference counts:
    each trial has 8 groups of two fresh VMs, or as many groups as the argument says. The result is the
    share of such trials; up to 5 % of them may.
    """.

argument(none) ->
    {ok, 8};
argument(Text) ->
    case string:to_integer(Text) of
        {N, ""} when N >= 6 -> {ok, N};
        _ -> {error, ["the argument is a number of groups, at least 6, not ", Text]}
    end.

measure(Groups, Effort) ->
    Trials = trials(Effort),
    Found = [trial(Groups) || _ <- lists:seq(1, Trials)],
    Different = [V || {V, _} <- Found, V =/= ~"undecided", V =/= ~"same"],
    Ratios = [abs(Ratio - 1) * 100 || {_, Ratio} <- Found],
    bench_program:say("trials    ~b, of ~b groups", [Trials, Groups]),
    bench_program:say("ratios    off 1 by ~.2f % in the median, ~.2f % at most", [
        float(dyno_stats:median(Ratios)), lists:max(Ratios)
    ]),
    #{
        name => "isolated_verdicts_" ++ integer_to_list(Groups),
        value => bench_comparison:share(length(Different), Trials),
        unit => "%",
        interval => none,
        goal => 5
    }.

trials(full) -> 40;
trials(quick) -> 1.

trial(Groups) ->
    Run = bench_comparison:run([?CODE, ?CODE], #{
        isolated => #{vms => Groups}, threshold => ?THRESHOLD
    }),
    [#{~"verdict" := Verdict, ~"ratio" := Ratio}] = bench_comparison:rows(~"comparisons", Run),
    {Verdict, Ratio}.
