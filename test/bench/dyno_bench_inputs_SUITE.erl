%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_inputs_SUITE).
-moduledoc "Codes that are compared with several inputs.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        a_run_for_each_input,
        words_grow_as_they_must,
        sizes_are_names_or_values,
        all_codes_get_the_same_value,
        a_code_may_prepare_its_input,
        the_console_shows_codes_by_inputs,
        the_command_line_takes_inputs,
        inputs_may_be_funs,
        what_cannot_be
    ].

run(Codes, Inputs) ->
    dyno_bench:run(Codes, #{inputs => Inputs, budget_ms => 100}).

rows(Table) ->
    #{~"columns" := Columns, ~"rows" := Rows} = Table,
    Names = [N || #{~"name" := N} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

growth(Document) ->
    #{{Kind, Name} => Row || #{~"kind" := Kind, ~"name" := Name} = Row <- growth_rows(Document)}.

growth_rows(Document) ->
    case dyno_recording:table(Document, ~"growth") of
        {ok, Table} -> rows(Table);
        error -> []
    end.

sizes(Document) ->
    [{Id, Size} || #{~"id" := Id, ~"size" := Size} <- dyno_recording:runs(Document)].

-define(SEQ, "r(N) -> lists:seq(1, N).").
-define(PAIRS, "r(N) -> [{A, B} || A <- lists:seq(1, N), B <- lists:seq(1, N)].").

a_run_for_each_input(_Config) ->
    {ok, Document} = run(
        [?SEQ, ?PAIRS], [{few, "3."}, {"many", {erlang, abs, [-30]}}, {~"most", 60}]
    ),
    ?assertEqual([{~"few", 3}, {~"many", 30}, {~"most", 60}], sizes(Document)),
    ?assertMatch({ok, Document}, dyno_recording:validate(Document)),
    ?assertEqual(~"complete", maps:get(~"status", Document)),
    #{~"parameters" := #{~"codes" := [_, _]}} = Document,
    ?assertEqual(
        [~"few", ~"many", ~"most"],
        [I || #{~"labels" := #{~"input" := I}} <- dyno_recording:runs(Document)]
    ),
    [
        begin
            {ok, Codes} = dyno_recording:table(Run, ~"codes"),
            ?assertMatch(
                [
                    #{~"code" := ~"r(N) -> lists:seq(1, N).", ~"verdict" := ~"fastest"},
                    #{~"ratio" := R}
                ] when
                    R > 1.5,
                rows(Codes)
            )
        end
     || Run <- dyno_recording:runs(Document)
    ].

%% Words are deterministic, so the exponents are, but for the smaller terms.
words_grow_as_they_must(_Config) ->
    {ok, Document} = run([?SEQ, ?PAIRS], [{N, N} || N <- [20, 40, 80, 160]]),
    #{
        {~"words", ~"r(N) -> lists:seq(1, N)."} := #{~"exponent" := Linear, ~"points" := 4},
        {~"words", ~"r(N) -> [{A, B} || A <- lists:seq(1, N), B <- lists:seq(1, N)]."} := Square,
        {~"code", ~"r(N) -> lists:seq(1, N)."} := #{~"unit" := ~"ns/call"}
    } = growth(Document),
    ?assert(abs(Linear - 1) < 1.0e-9),
    ?assert(abs(maps:get(~"exponent", Square) - 2) < 0.1),
    ?assertMatch(<<"grows as n^2.0", _/binary>>, maps:get(~"text", Square)).

sizes_are_names_or_values(_Config) ->
    Sizes = fun(Inputs) ->
        {ok, Document} = run(["r(X) -> {X, X}."], Inputs),
        {[Size || {_, Size} <- sizes(Document)], growth_rows(Document) =/= []}
    end,
    ?assertEqual({[10, 20], true}, Sizes([{10, "lists:seq(1, 3)."}, {"20", "7."}])),
    ?assertEqual({[7, 9], true}, Sizes([{a, "7."}, {10, "9."}])),
    ?assertEqual({[null, null], false}, Sizes([{a, "[1]."}, {b, "9."}])),
    ?assertEqual({[null, null], false}, Sizes([{a, "0."}, {b, "9."}])).

all_codes_get_the_same_value(_Config) ->
    Self = self(),
    Code = fun(Name) ->
        #{
            runner => fun(X) -> X end,
            init_runner => fun(X) ->
                Self ! {Name, X},
                X
            end
        }
    end,
    {ok, _} = run([Code(a), Code(b)], [{random, "make_ref()."}]),
    Value =
        receive
            {a, A} -> A
        end,
    receive
        {b, B} -> ?assertEqual(Value, B)
    end.

a_code_may_prepare_its_input(_Config) ->
    Code = #{runner => "r(L) -> lists:reverse(L).", init_runner => "i(N) -> lists:seq(1, N)."},
    {ok, Document} = run([Code], [{N, N} || N <- [10, 100]]),
    [#{~"smallest" := Smallest, ~"largest" := Largest}] =
        [Row || {~"words", _} := Row <- growth(Document)],
    ?assertEqual({20.0, 200.0}, {Smallest, Largest}).

the_console_shows_codes_by_inputs(_Config) ->
    {ok, Document} = run([?SEQ, ?PAIRS], [{N, N} || N <- [20, 40, 80]]),
    {ok, Text} = dyno_report_console:format(Document, #{width => 120}),
    Lines = string:split(unicode:characters_to_list(Text), "\n", all),
    [_ | [Heads | _]] = lists:dropwhile(
        fun(Line) -> string:prefix(Line, "Time per call, and times the fastest") =:= nomatch end,
        Lines
    ),
    ?assertEqual(["code", "20", "40", "80"], string:lexemes(Heads, " ")),
    {ok, Words} = dyno_bench:run(["r(N) -> lists:seq(1, N)", "r(N) -> lists:seq(0, N)"], #{
        budget_ms => 1, metric => words, inputs => [{N, N} || N <- [9, 19]]
    }),
    {ok, InWords} = dyno_report_console:format(Words, #{}),
    Table =
        "Words per call, and times the least, by input\n.*\n"
        ".* 18 +38\n.* 20 \\(1\\.11\\) +40 \\(1\\.05\\)\n",
    ?assertMatch({match, _}, re:run(InWords, Table)),
    ?assertMatch({match, _}, re:run(Text, ~"words +1\\.00 ")),
    ?assertMatch({match, _}, re:run(Text, ~"words +(1\\.9|2\\.0)")).

the_command_line_takes_inputs(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "inputs.json"),
    Run = fun(Inputs) ->
        dyno_command:run(
            ["bench", "r(X) -> {X, X}.", "--for", "50ms", "-o", File] ++
                lists:append([["--input", Input] || Input <- Inputs])
        )
    end,
    ?assertMatch({2, <<"dyno: --input takes NAME=CODE", _/binary>>}, Run(["n"])),
    ?assertMatch({2, <<"dyno: the input n: line 1", _/binary>>}, Run(["n=foo("])),
    ?assertMatch({1, <<"dyno: the input n raised error:boom", _/binary>>}, Run(["n=error(boom)"])),
    {0, _} = Run(["n=1 + 9", "m=lists:max([20])."]),
    {ok, Document} = dyno_recording_file:read(File),
    ?assertEqual([{~"n", 10}, {~"m", 20}], sizes(Document)).

what_cannot_be(_Config) ->
    Cases = [
        {["ok."], [{a, "1."}], 2, "takes no argument"},
        {["r(X) -> X.", "ok."], [{a, "1."}], 2, "code 2 takes no argument"},
        {["foo(."], [{a, "1."}], 2, "code 1: line 1"},
        {["r(X) -> X."], [{a, "1."}, {"a", "2."}], 2, "two inputs have the name a"},
        {["r(X) -> X."], [{a, "foo(."}], 2, "the input a: line 1"},
        {["r(X) -> X."], [{a, "error(boom)."}], 1, "the input a raised error:boom"},
        {["r(X) -> X."], [a], 2, "is not \\{Name, Code\\}"},
        {[#{runner => "r(X) -> X.", init => "1."}], [{a, "1."}], 2, "leave one out"},
        {["r(X) -> hd(X)."], [{a, "[1]."}, {b, "[]."}], 1, "with b: .* raised error:badarg"}
    ],
    lists:foreach(
        fun({Codes, Inputs, Status, Expected}) ->
            {error, Reason} = run(Codes, Inputs),
            Text = unicode:characters_to_list(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Text, Expected), Text),
            ?assertEqual(Status, dyno_error:exit_status(Reason))
        end,
        Cases
    ),
    ?assertEqual(
        [], [
            M
         || M <- dyno_agent_patterns:loaded(), lists:prefix("dyno_bench_input_", atom_to_list(M))
        ]
    ).

%% A fun of an input is code of a module that must be there as long.
inputs_may_be_funs(_Config) ->
    {ok, Document} = run(["r(F) -> F(1)."], [{a, "fun(X) -> {X} end."}, {b, "fun(X) -> [X] end."}]),
    ?assertMatch([_, _], dyno_recording:runs(Document)).
