%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_empty_benchmark).

-behaviour(bench_program).

-export([describe/0, measure/2]).
-export([counted/0]).

describe() ->
    """
    How many iterations a second dyno bench makes of a code that does nothing, with one worker. For
    comparison, a loop whose iterations a call_count breakpoint counts, as erlperf's continuous mode
    does; both by turns.
    """.

measure(none, Effort) ->
    {Rounds, BudgetMs} = settings(Effort),
    Pairs = [{iterations(BudgetMs), counted(BudgetMs)} || _ <- lists:seq(1, Rounds)],
    {Value, Interval} = bench_program:median([I || {I, _} <- Pairs]),
    {Ratio, _} = bench_program:median([I / C || {I, C} <- Pairs]),
    bench_program:say("counted   ~ts 1/s with call_count", [
        bench_program:number(dyno_stats:median([C || {_, C} <- Pairs]))
    ]),
    bench_program:say("ratio     ~.2f times as many (goal: 4)", [float(Ratio)]),
    #{name => "empty_benchmark", value => Value, unit => "1/s", interval => Interval}.

settings(full) -> {15, 300};
settings(quick) -> {1, 50}.

iterations(BudgetMs) ->
    Run = bench_comparison:run(["ok."], #{budget_ms => BudgetMs}),
    [#{~"calls_per_second" := Rate}] = bench_comparison:rows(~"codes", Run),
    Rate.

%% Calls of counted/0 a second, by the breakpoint's counter.
counted(ForMs) ->
    Session = trace:session_create(?MODULE, self(), []),
    Loop = {?MODULE, counted, 0},
    1 = trace:function(Session, Loop, true, [call_count]),
    Pid = spawn_opt(fun ?MODULE:counted/0, [{scheduler, 1}]),
    Count = fun() ->
        {call_count, N} = trace:info(Session, Loop, call_count),
        {erlang:monotonic_time(nanosecond), N}
    end,
    {Start, First} = Count(),
    receive
    after ForMs -> ok
    end,
    {End, Last} = Count(),
    exit(Pid, kill),
    trace:session_destroy(Session),
    1.0e9 * (Last - First) / (End - Start).

counted() -> counted().
