%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_gates).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(CONDITIONS, [
    "slower > 5%", "slower > 10%", "slower > 50%", "reductions > 10%", "memory > 5%"
]).
%% What an answer sorts where it is slower: it then takes about three times as long.
-define(LENGTH, 1000).

describe() ->
    """
    How often `dyno test --baseline` fails a test of the same code (A/A), and passes one whose server
    sorts a list for each answer, with three repetitions a side, or as many as the argument says.
    Each recording is compared with the next one. FAIL on the same code is the error; UNKNOWN means
    that the repetitions differ too much, here and now, for what the condition asks.
    """.

argument(Text) -> bench_program:whole(Text, 3, {2, "repetitions"}).

measure(Repetitions, Effort) ->
    #{same := Same, slower := Slower} = Counts = counts(Effort),
    Recording = fun(Length) ->
        true = bench_gate_suite:sorted(Length),
        {ok, Document} = dyno_test:run(bench_gate_suite, #{
            repeat => Repetitions, duration_ms => map_get(duration_ms, Counts)
        }),
        Document
    end,
    Alike = [Recording(0) || _ <- lists:seq(1, Same + 1)],
    Pairs = lists:zip(lists:droplast(Alike), tl(Alike)),
    bench_program:say("spread    throughput differs by ~b % from repetition to repetition", [
        round(100 * dyno_stats:median([spread(Document) || Document <- Alike]))
    ]),
    Worse = [{Recording(0), Recording(?LENGTH)} || _ <- lists:seq(1, Slower)],
    lists:foreach(fun(Text) -> say(Text, "the same", results(Text, Pairs)) end, ?CONDITIONS),
    lists:foreach(fun(Text) -> say(Text, "slower", results(Text, Worse)) end, ?CONDITIONS),
    bench_program:say("slower    throughput ~s times as high, ~b of ~b name lists:sort/1 first", [
        bench_program:number(dyno_stats:median([ratio(Pair) || Pair <- Worse])),
        length([x || Pair <- Worse, is_sort_first(Pair)]),
        Slower
    ]),
    False = [x || Pair <- Pairs, lists:any(fun(T) -> result(T, Pair) =:= fail end, ?CONDITIONS)],
    #{
        name => "gates_" ++ integer_to_list(Repetitions),
        value => bench_comparison:share(length(False), Same),
        unit => "%",
        goal => 5
    }.

counts(full) -> #{same => 20, slower => 10, duration_ms => 500};
counts(quick) -> #{same => 1, slower => 1, duration_ms => 100}.

say(Text, Which, Results) ->
    Count = fun(Result) -> length([x || R <- Results, R =:= Result]) end,
    bench_program:say("~-16s code ~-8s: ~b FAIL, ~b UNKNOWN, ~b PASS", [
        Text, Which, Count(fail), Count(unknown), Count(pass)
    ]).

results(Text, Pairs) ->
    [result(Text, Pair) || Pair <- Pairs].

result(Text, Pair) ->
    {ok, Condition} = dyno_compare_gate:parse(Text),
    Changes = dyno_compare:changes(Pair, #{}),
    Failing = dyno_compare_gate:failing(Condition, Changes),
    #{result := Result} = dyno_compare_gate:verdict(Condition, Changes, Failing),
    Result.

is_sort_first(Pair) ->
    case dyno_compare:changes(Pair, #{}) of
        [#{verdict := new, item := Item} | _] -> binary:match(Item, ~"lists:sort/1") =/= nomatch;
        _ -> false
    end.

ratio(Pair) ->
    [#{ratio := Ratio}] = [C || #{metric := ~"throughput"} = C <- dyno_compare:changes(Pair, #{})],
    Ratio.

%% The standard deviation of the logarithms.
spread(Document) ->
    Logs = [
        math:log(Value)
     || Run <- dyno_recording:runs(Document),
        {ok, #{~"value" := Value}} <- [dyno_recording:metric(Run, ~"throughput")]
    ],
    Mean = dyno_stats:mean(Logs),
    math:sqrt(lists:sum([(L - Mean) * (L - Mean) || L <- Logs]) / (length(Logs) - 1)).
