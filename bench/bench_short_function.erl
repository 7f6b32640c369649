%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_short_function).
-moduledoc false.
%% How far what dyno says of a function of some 20 ns is from what a loop written by hand takes.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(TERM, {some, [term, 1], ~"binary"}).

describe() ->
    """
    How much the time that dyno bench reports for a call of erlang:phash2/1, some tens of nanoseconds,
    differs from that of a loop which was written by hand and compiled. Both by turns; the
    figure is the median of the ratios less 1, without its sign.
    """.

argument(none) -> {ok, none};
argument(_) -> {error, "there is no argument; there is --quick"}.

measure(none, Effort) ->
    {Rounds, BudgetMs} = extent(Effort),
    Pairs = [{reported(BudgetMs), by_hand(BudgetMs)} || _ <- lists:seq(1, Rounds)],
    Of = fun(N) -> dyno_stats:median([element(N, P) || P <- Pairs]) end,
    {Ratio, Interval} = bench_program:median([R / H || {R, H} <- Pairs], 0.95),
    bench_program:say("reported  ~.3f ns (median of ~b)", [Of(1), Rounds]),
    bench_program:say("by hand   ~.3f ns", [Of(2)]),
    bench_program:say("ratio     ~.4f, ~ts", [Ratio, ratio_interval(Interval)]),
    #{
        name => "short_function",
        value => 100 * abs(Ratio - 1),
        unit => "%",
        interval => none,
        goal => 2
    }.

ratio_interval(none) -> "too few rounds for an interval";
ratio_interval({Low, High, _}) -> io_lib:format("between ~.4f and ~.4f", [Low, High]).

extent(full) -> {21, 300};
extent(quick) -> {1, 50}.

reported(BudgetMs) ->
    Run = bench_comparison:run(
        [#{runner => "r(X) -> erlang:phash2(X).", init_runner => fun() -> ?TERM end}],
        #{budget_ms => BudgetMs}
    ),
    [#{~"time_per_call" := Ns}] = bench_comparison:rows(~"codes", Run),
    Ns.

%% The median of epochs of some 2 ms, less the waiting, in a process like dyno's.
by_hand(BudgetMs) ->
    Self = self(),
    Worker = spawn_opt(
        fun() ->
            N = 50_000,
            Epochs = max(3, round(BudgetMs / 2)),
            Self ! {self(), dyno_stats:median([epoch(N) || _ <- lists:seq(1, Epochs)])}
        end,
        [link, {scheduler, 1}]
    ),
    receive
        {Worker, Ns} -> Ns
    end.

epoch(N) ->
    true = garbage_collect(),
    Before = dyno_clock:thread(),
    _ = loop(N, ?TERM, 0),
    #{wall_ns := Wall, wait_ns := Wait} = dyno_clock:difference(Before, dyno_clock:thread()),
    case Wait of
        undefined -> Wall / N;
        _ -> (Wall - Wait) / N
    end.

loop(0, _Term, Last) -> Last;
loop(N, Term, _) -> loop(N - 1, Term, erlang:phash2(Term)).
