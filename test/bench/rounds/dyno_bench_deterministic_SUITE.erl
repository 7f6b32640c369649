%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_deterministic_SUITE).
-moduledoc "The words and reductions of a call, of codes for which both follow from the source.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        known_words,
        words_of_each_form,
        the_same_each_time,
        garbage_does_not_matter,
        says_what_varies,
        slow_codes_are_called_a_few_times,
        a_code_that_fails_late,
        leaves_no_session
    ].

rows(Codes) ->
    {ok, Document} = dyno_bench:run(Codes, #{budget_ms => 20}),
    [Run] = dyno_recording:runs(Document),
    {ok, #{~"columns" := Columns, ~"rows" := Rows}} = dyno_recording:table(Run, ~"codes"),
    Names = [N || #{~"name" := N} <- Columns],
    maps:from_list([
        {maps:get(~"code", Row), Row}
     || Row <- [maps:from_list(lists:zip(Names, R)) || R <- Rows]
    ]).

words(Code) ->
    [#{~"words_per_call" := Words, ~"inexact" := null}] = maps:values(rows([Code])),
    Words.

known_words(_Config) ->
    Cases = [
        {"ok.", 0},
        %% The first element is not known to the compiler: three cells of two words.
        {"[self(), 2, 3].", 2},
        {"[self(), 2 | [self()]].", 6},
        {"{self(), self()}.", 3},
        {"lists:seq(1, 100).", 200},
        {"lists:seq(1, 20000).", 40_000},
        %% A float has two words, and its result is a tuple of it.
        {"{erlang:float(erlang:system_info(schedulers))}.", 4}
    ],
    [?assertEqual({Code, float(Words)}, {Code, words(Code)}) || {Code, Words} <- Cases],
    %% A binary of up to 64 bytes is on the heap: a header, its size, its bytes.
    Binary = fun(Bytes) ->
        #{runner => "r(B) -> binary:copy(B).", init_runner => {binary, copy, [~"x", Bytes]}}
    end,
    ?assertEqual(2.0 + 64 / 8, words(Binary(64))),
    %% A larger one is elsewhere, and a reference to it is not larger for a larger one.
    ?assertEqual(words(Binary(1000)), words(Binary(100_000))),
    ?assert(words(Binary(1000)) < 12).

words_of_each_form(_Config) ->
    Forms = [
        "lists:seq(1, 100).",
        "r() -> lists:seq(1, 100).",
        {lists, seq, [1, 100]},
        fun() -> lists:seq(1, 100) end,
        #{runner => "r(N) -> lists:seq(1, N).", init_runner => "100."},
        #{runner => fun(N) -> lists:seq(1, N) end, init_runner => "100."}
    ],
    [?assertEqual(200.0, words(Form), Form) || Form <- Forms].

the_same_each_time(_Config) ->
    Codes = ["lists:sort(lists:seq(1, 50)).", "maps:from_list([{self(), 1}, {2, self()}])."],
    Deterministic = fun() ->
        #{
            Code => maps:with([~"words_per_call", ~"reductions_per_call", ~"inexact"], Row)
         || Code := Row <- rows(Codes)
        }
    end,
    ?assertEqual(Deterministic(), Deterministic()).

%% Reductions of a collection are none of the call's.
garbage_does_not_matter(_Config) ->
    #{
        ~"lists:seq(1, 1000)." := #{~"reductions_per_call" := Of1000},
        ~"lists:seq(1, 2000)." := #{~"reductions_per_call" := Of2000}
    } = rows(["lists:seq(1, 1000).", "lists:seq(1, 2000)."]),
    Of3000 = maps:get(
        ~"reductions_per_call", maps:get(~"lists:seq(1, 3000).", rows(["lists:seq(1, 3000)."]))
    ),
    ?assert(Of1000 > 100),
    ?assertEqual(Of2000 - Of1000, Of3000 - Of2000).

says_what_varies(_Config) ->
    [Row] = maps:values(rows(["lists:seq(1, rand:uniform(1000))."])),
    ?assertMatch(#{~"inexact" := ~"reductions, words"}, Row),
    #{~"words_per_call" := Words} = Row,
    ?assert(Words > 500),
    ?assert(Words < 1500).

slow_codes_are_called_a_few_times(_Config) ->
    Counter = counters:new(1, []),
    Code = #{
        runner => "r(C) -> counters:add(C, 1, 1), timer:sleep(40), [self()].",
        init_runner => fun() -> Counter end
    },
    [#{~"words_per_call" := Words}] = maps:values(rows([Code])),
    ?assert(Words >= 2),
    %% Two or three to calibrate, six rounds of one or two calls, four for the words.
    ?assert(counters:get(Counter, 1) =< 30).

a_code_that_fails_late(_Config) ->
    Code = #{
        runner =>
            "r(C) -> counters:add(C, 1, 1), timer:sleep(3),"
            " case counters:get(C, 1) of N when N > 2 -> error(late); _ -> ok end.",
        init_runner => "counters:new(1, [])."
    },
    ?assertMatch(
        {error, {_, {failed, _, run, {raised, error, late, _}}}},
        dyno_bench:run([Code], #{budget_ms => 1})
    ).

leaves_no_session(_Config) ->
    Count = fun() -> length(trace:session_info(all)) end,
    Before = Count(),
    _ = rows(["ok."]),
    {error, _} = dyno_bench:run(["ok.", "error(boom)."], #{budget_ms => 1}),
    ?assertEqual(Before, Count()).
