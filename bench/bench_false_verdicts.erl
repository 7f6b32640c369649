%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_false_verdicts).
-moduledoc false.
%% How often identical codes are called different on a busy machine.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(CODE, "lists:sort([5, 2, 9, 1, self(), 4, 8, 3, 7, 6]).").
-define(BUDGET_MS, 300).

describe() ->
    """
    How often dyno bench calls a code slower or faster than itself (an A/A comparison) while two
    other programs keep processors busy; or as many programs as the argument says. Each trial
    has 300 ms to measure.
    """.

argument(none) ->
    {ok, 2};
argument(Text) ->
    case string:to_integer(Text) of
        {N, ""} when N >= 0 -> {ok, N};
        _ -> {error, ["the argument is a number of busy loops, not ", Text]}
    end.

measure(Loops, Effort) ->
    Trials = trials(Effort),
    Verdicts = bench_comparison:under_load(Loops, fun() -> [verdict() || _ <- lists:seq(1, Trials)] end),
    Count = fun(V) -> bench_comparison:count(Verdicts, [V]) end,
    False = Count(~"slower") + Count(~"faster"),
    bench_program:say("trials    ~b, ~b busy loops besides", [Trials, Loops]),
    bench_program:say("verdicts  ~b same, ~b undecided, ~b slower, ~b faster", [
        Count(V) || V <- [~"same", ~"undecided", ~"slower", ~"faster"]
    ]),
    #{
        name => "false_verdicts_" ++ integer_to_list(Loops),
        value => bench_comparison:share(False, Trials),
        unit => "%",
        interval => none,
        goal => 5
    }.

trials(full) -> 200;
trials(quick) -> 3.

verdict() ->
    Run = bench_comparison:run([?CODE, ?CODE], #{budget_ms => ?BUDGET_MS}),
    [#{~"verdict" := Verdict}] = bench_comparison:rows(~"comparisons", Run),
    Verdict.
