%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_short_function).

-behaviour(bench_program).

-export([describe/0, measure/2]).
%% What is measured
-export([repeat/3]).

%% Calls of the loop that was written by hand, which are one call for dyno.
-define(CALLS, 1000).
-define(TERM, {a}).

describe() ->
    """
    How much the time that dyno bench reports for a call of erlang:phash2/1, some 20 nanoseconds,
    differs from that in a loop of 1,000 calls which was written by hand and compiled. Both are
    measured in the same rounds; the result is the median over the rounds of their ratio, less 1 and
    without its sign.
    """.

measure(none, Effort) ->
    Rounds = lists:append([rounds() || _ <- lists:seq(1, runs(Effort))]),
    Of = fun(N) -> dyno_stats:median([element(N, R) || R <- Rounds]) end,
    {Ratio, Interval} = bench_program:median([Reported / ByHand || {Reported, ByHand} <- Rounds]),
    bench_program:say("reported  ~.3f ns (median of ~b rounds)", [Of(1), length(Rounds)]),
    bench_program:say("by hand   ~.3f ns", [Of(2)]),
    bench_program:say("ratio     ~.4f, ~ts", [Ratio, ratio_interval(Interval)]),
    #{
        name => "short_function",
        value => 100 * abs(Ratio - 1),
        unit => "%",
        goal => 2
    }.

ratio_interval(none) -> "too few rounds for an interval";
ratio_interval({Low, High, _}) -> io_lib:format("between ~.4f and ~.4f", [Low, High]).

runs(full) -> 30;
runs(quick) -> 1.

%% Of each round, the nanoseconds of a call in dyno's loop and in the other.
rounds() ->
    Term = fun() -> ?TERM end,
    Run = bench_comparison:run(
        [
            #{label => "reported", runner => "r(X) -> erlang:phash2(X).", init_runner => Term},
            #{
                label => "by hand",
                runner => "r(X) -> bench_short_function:repeat(1000, X, 0).",
                init_runner => Term
            }
        ],
        #{budget_ms => 500}
    ),
    [Reported, ByHand] = [
        Values
     || Label <- [~"reported", ~"by hand"],
        #{~"labels" := #{~"code" := L}, ~"values" := Values} <-
            dyno_recording:series(Run, ~"bench.time"),
        L =:= Label
    ],
    lists:zip(Reported, [Ns / ?CALLS || Ns <- ByHand]).

repeat(0, _Term, Last) -> Last;
repeat(N, Term, _) -> repeat(N - 1, Term, erlang:phash2(Term)).
