%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_identical_codes).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% What is measured
-export([loop/1]).

-define(LOOP, "bench_identical_codes:loop(10)").
%% Each is compared with itself in a block, which the compiler takes away.
-define(ONE_LINERS, [
    ?LOOP,
    "bench_identical_codes:loop(25)",
    "ok",
    "self()",
    "{self(), a, b}",
    "[self()]",
    "#{a => self()}",
    "make_ref()",
    "erlang:monotonic_time()",
    "os:system_time()",
    "erlang:phash2({a, 1})",
    "erlang:unique_integer()",
    "length([1, 2, 3])",
    "lists:seq(1, 10)",
    "lists:seq(1, 100)",
    "lists:sum([1, 2, 3])",
    "lists:sum(lists:seq(1, 100))",
    "lists:reverse([1, 2, 3, 4])",
    "lists:reverse(lists:seq(1, 50))",
    "lists:sort([3, 1, 2])",
    "lists:member(c, [a, b, c])",
    "lists:keyfind(b, 1, [{a, 1}, {b, 2}])",
    "lists:map(fun(X) -> X + 1 end, [1, 2, 3])",
    "[X * 2 || X <- [1, 2, 3, 4]]",
    "lists:foldl(fun(X, Sum) -> X + Sum end, 0, [1, 2, 3])",
    "lists:zip([1, 2], [a, b])",
    "maps:get(a, #{a => 1})",
    "maps:put(b, 2, #{a => 1})",
    "maps:from_list([{a, 1}, {b, 2}])",
    "maps:to_list(#{a => 1, b => 2})",
    "maps:keys(#{a => 1, b => 2})",
    "binary:split(<<\"a,b\">>, <<\",\">>)",
    "integer_to_binary(12345)",
    "binary_to_integer(<<\"12345\">>)",
    "integer_to_list(12345)",
    "atom_to_binary(abc)",
    "list_to_binary([\"ab\", <<\"cd\">>])",
    "term_to_binary({a, 1})",
    "string:uppercase(<<\"abc\">>)",
    "math:sqrt(2.0)",
    "rand:uniform()",
    "ets:info(ac_tab, size)",
    "get(a)"
]).

describe() ->
    """
    How often dyno bench calls a short code slower or faster than the same code: 43 everyday ones,
    two of them a module's countdown loop, each against itself in a block, in turn. The argument is
    the way to measure: compare, concurrent (-c 2), continuous (-d) or timed (-l); without one,
    compare. loop:N compares the countdown alone, N times. (-i: false_verdicts isolated:8.)
    """.

argument(none) ->
    {ok, {compare, all}};
argument("loop:" ++ Count) ->
    case bench_program:whole(Count, 1, {1, "trials"}) of
        {ok, N} -> {ok, {compare, {loop, N}}};
        Error -> Error
    end;
argument(Way) ->
    case lists:member(Way, ["compare", "concurrent", "continuous", "timed"]) of
        true ->
            {ok, {list_to_atom(Way), all}};
        false ->
            Ways = "compare, concurrent, continuous, timed or loop:N",
            {error, ["the argument is ", Ways, ", not ", Way]}
    end.

measure({Way, What}, Effort) ->
    Codes = codes(What, Effort),
    Options = options(Way, Effort),
    Trials = [
        {Code, bench_comparison:verdict(Code ++ ".", "begin " ++ Code ++ " end.", Options)}
     || Code <- Codes
    ],
    Wrong = [
        {Code, Ratio}
     || {Code, {Verdict, Ratio}} <- Trials, Verdict =:= ~"slower" orelse Verdict =:= ~"faster"
    ],
    [bench_program:say("wrong     ~ts: ~.3f times", [Code, Ratio]) || {Code, Ratio} <- Wrong],
    Count = fun(V) -> bench_comparison:count([W || {_, {W, _}} <- Trials], [V]) end,
    bench_program:say("verdicts  ~b same, ~b undecided, ~b different, of ~b", [
        Count(~"same"), Count(~"undecided"), length(Wrong), length(Trials)
    ]),
    #{
        name => "identical_codes_" ++ atom_to_list(Way),
        value => bench_comparison:share(length(Wrong), length(Trials)),
        unit => "%",
        goal => 5
    }.

codes({loop, Count}, _Effort) -> lists:duplicate(Count, ?LOOP);
codes(all, full) -> lists:append(lists:duplicate(6, ?ONE_LINERS));
codes(all, quick) -> [?LOOP].

loop(0) -> ok;
loop(N) -> loop(N - 1).

options(compare, full) ->
    #{budget_ms => 1000};
options(compare, quick) ->
    #{budget_ms => 100};
options(concurrent, Effort) ->
    (options(compare, Effort))#{concurrency => 2};
options(continuous, Effort) ->
    #{mode => {continuous, #{sample_ms => sample_ms(Effort), samples => 10}}};
options(timed, Effort) ->
    #{mode => {timed, #{iterations => 1000 * sample_ms(Effort), samples => 10}}}.

sample_ms(full) -> 50;
sample_ms(quick) -> 5.
