%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_missed_slowdowns).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% What is measured
-export([spin/1]).

-define(BUDGET_MS, 2000).
%% With the usual 3 %, a slowdown of 2 % is no difference that matters.
-define(THRESHOLD, 0.005).

describe() ->
    """
    How often dyno bench misses that one loop takes 2 % longer than another: 1,000 iterations against
    1,020. It has 2 seconds for both together, and the threshold is 0.5 %: at the usual one of 3 %
    these two are the same. Without an argument the machine is as busy as it is; with one, so many
    more programs keep processors busy.
    """.

argument(Text) -> bench_program:whole(Text, 0, {0, "busy loops"}).

measure(Loops, Effort) ->
    Trials = trials(Effort),
    Results = bench_comparison:under_load(Loops, fun() -> [trial() || _ <- lists:seq(1, Trials)] end),
    Verdicts = [V || {V, _, _, _} <- Results],
    Median = fun(N) -> dyno_stats:median([element(N, R) || R <- Results]) end,
    bench_program:say("counted   ~.3f times the reductions", [float(Median(3))]),
    bench_program:say("timed     ~.4f times the time (median), in ~b rounds (median)", [
        float(Median(2)), round(Median(4))
    ]),
    Count = fun(V) -> bench_comparison:count(Verdicts, [V]) end,
    bench_program:say("verdicts  ~b slower, ~b undecided, ~b same, ~b faster", [
        Count(V)
     || V <- [~"slower", ~"undecided", ~"same", ~"faster"]
    ]),
    #{
        name => "missed_slowdowns",
        value => bench_comparison:share(Trials - Count(~"slower"), Trials),
        unit => "%",
        goal => 10
    }.

trials(full) -> 40;
trials(quick) -> 1.

spin(0) -> done;
spin(N) -> spin(N - 1).

trial() ->
    Run = bench_comparison:run(
        [{?MODULE, spin, [1000]}, {?MODULE, spin, [1020]}],
        #{budget_ms => ?BUDGET_MS, threshold => ?THRESHOLD}
    ),
    [#{~"verdict" := Verdict, ~"ratio" := Ratio}] = bench_comparison:rows(~"comparisons", Run),
    Reductions =
        #{
            Code => R
         || #{~"code" := Code, ~"reductions_per_call" := R} <- bench_comparison:rows(~"codes", Run)
        },
    Counted =
        maps:get(~"{bench_missed_slowdowns,spin,[1020]}", Reductions) /
            maps:get(~"{bench_missed_slowdowns,spin,[1000]}", Reductions),
    {ok, #{~"value" := Rounds}} = dyno_recording:metric(Run, ~"bench.rounds"),
    {Verdict, Ratio, Counted, Rounds}.
