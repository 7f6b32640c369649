%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_file_SUITE).
-moduledoc "Benchmark files: what they can say, and what is said when they say it wrongly.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        the_example_runs,
        sets_up_once_for_all_codes,
        takes_down_whatever_happens,
        wrong_results_are_not_measured,
        options_win_over_cases,
        a_file_may_use_all_forms,
        errors_name_file_and_line,
        the_command_line_takes_a_file,
        leaves_no_module
    ].

the_example_runs(_Config) ->
    Path = filename:join([dyno_project:root(), "examples", "sorting_bench.erl"]),
    {ok, Document} = dyno_bench:run_file(Path, #{budget_ms => 400}),
    ?assertMatch({ok, Document}, dyno_recording:validate(Document)),
    ?assertMatch(
        #{~"name" := ~"sorting_bench.erl", ~"command" := ~"bench", ~"status" := ~"complete"},
        Document
    ),
    Runs = [{Id, Size} || #{~"id" := Id, ~"size" := Size} <- dyno_recording:runs(Document)],
    ?assertEqual(
        [{~"sort/10", 10}, {~"sort/100", 100}, {~"sort/1000", 1000}, {~"find", null}], Runs
    ),
    [
        begin
            {ok, #{~"rows" := Rows}} = dyno_recording:table(Run, ~"codes"),
            ?assertEqual(
                case Id of
                    ~"find" -> 2;
                    _ -> 3
                end,
                length(Rows)
            )
        end
     || #{~"id" := Id} = Run <- dyno_recording:runs(Document)
    ],
    {ok, #{~"rows" := Growth}} = dyno_recording:table(Document, ~"growth"),
    [[_, _, _, Exponent | _]] = [R || [~"words", ~"sort: insertion" | _] = R <- Growth],
    ?assert(abs(Exponent - 2) < 0.3),
    {ok, Text} = dyno_report_console:format(Document, #{}),
    ?assertMatch({match, _}, re:run(Text, ~"sort: time per call")),
    ?assertNotMatch({match, _}, re:run(Text, ~"find: time per call")).

%% A file of a module with a name of its own each.
file(Config, Benchmarks, More) ->
    Module = "dyno_file_" ++ integer_to_list(erlang:unique_integer([positive])),
    Path = filename:join(proplists:get_value(priv_dir, Config), Module ++ ".erl"),
    ok = file:write_file(
        Path,
        unicode:characters_to_binary([
            "-module(",
            Module,
            ").\n"
            "-behaviour(dyno_bench_file).\n"
            "-export([benchmarks/0]).\n"
            "benchmarks() ->\n    ",
            Benchmarks,
            ".\n",
            More
        ])
    ),
    Path.

run(Config, Benchmarks) ->
    dyno_bench:run_file(file(Config, Benchmarks, ""), #{budget_ms => 20}).

log(Fun) ->
    _ = ets:new(?MODULE, [named_table, public, duplicate_bag]),
    try
        Result = Fun(),
        {Result, [Entry || {_, Entry} <- lists:keysort(1, ets:tab2list(?MODULE))]}
    after
        ets:delete(?MODULE)
    end.

note(Entry) ->
    ets:insert(?MODULE, {erlang:unique_integer([monotonic]), Entry}).

sets_up_once_for_all_codes(Config) ->
    Cases =
        "[#{name => c, inputs => [3, {four, fun() -> 4 end}],\n"
        "   setup => fun(N) -> dyno_bench_file_SUITE:note({setup, N}), make_ref() end,\n"
        "   teardown => fun(Ref) -> dyno_bench_file_SUITE:note({teardown, Ref}) end,\n"
        "   check => fun(Ref, Result) ->\n"
        "       dyno_bench_file_SUITE:note({check, Ref}), Ref =:= Result end,\n"
        "   codes => #{a => fun(Ref) -> Ref end, b => \"r(Ref) -> Ref.\"}}]",
    {{ok, _}, Log} = log(fun() -> run(Config, Cases) end),
    [{setup, 3}, {check, A}, {check, A}, {teardown, A} | Second] = Log,
    [{setup, 4}, {check, B}, {check, B}, {teardown, B}] = Second,
    ?assertNotEqual(A, B).

takes_down_whatever_happens(Config) ->
    Case = fun(Code) ->
        "[#{name => c, setup => fun() -> 1 end,\n"
        "   teardown => fun(X) -> dyno_bench_file_SUITE:note({teardown, X}) end,\n"
        "   codes => #{a => " ++ Code ++ "}}]"
    end,
    {{error, _}, [{teardown, 1}]} = log(
        fun() -> run(Config, Case("fun(_) -> error(boom) end")) end
    ),
    {{error, _}, [{teardown, 1}]} = log(fun() -> run(Config, Case("\"foo(.\"")) end).

wrong_results_are_not_measured(Config) ->
    Same =
        "[#{name => c, check => same, codes => [{a, fun() -> 1 end}, "
        "{b, fun() -> dyno_bench_file_SUITE:note(b), 2 end}]}]",
    {{error, Reason}, Log} = log(fun() -> run(Config, Same) end),
    %% Called once, for the check.
    ?assertEqual([b], Log),
    ?assertEqual(1, dyno_error:exit_status(Reason)),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Reason), "a and b do not give the same: 1 and 2")
    ),
    {error, Wrong} = run(
        Config, "[#{name => c, check => fun(_, R) -> R > 1 end, codes => #{a => fun() -> 1 end}}]"
    ),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Wrong), "a gives 1, which does not pass the check")
    ).

options_win_over_cases(Config) ->
    Self = self(),
    persistent_term:put(?MODULE, Self),
    Path = file(
        Config,
        "[#{name => c, concurrency => 3, codes => #{a => #{runner => \"r(X) -> X.\",\n"
        "  init_runner => fun() -> persistent_term:get(dyno_bench_file_SUITE) ! worker end}}}]",
        ""
    ),
    {ok, _} = dyno_bench:run_file(Path, #{budget_ms => 20}),
    ?assertEqual(3, workers(0)),
    {ok, _} = dyno_bench:run_file(Path, #{budget_ms => 20, concurrency => 2}),
    ?assertEqual(2, workers(0)).

workers(N) ->
    receive
        worker -> workers(N + 1)
    after 0 -> N
    end.

a_file_may_use_all_forms(Config) ->
    {ok, Document} = run(
        Config,
        "[#{name => \"żółw\", codes => [{\"text\", \"lists:seq(1, 9).\"}, "
        "{\"mfa\", {lists, seq, [1, 9]}},\n"
        "   {\"map\", #{runner => fun(N) -> lists:seq(1, N) end,\n"
        "             init_runner => fun() -> 9 end}}],\n"
        "   check => same, threshold => 0.1}]"
    ),
    [#{~"id" := ~"żółw"} = Run] = dyno_recording:runs(Document),
    {ok, #{~"rows" := Rows}} = dyno_recording:table(Run, ~"codes"),
    ?assertEqual([~"map", ~"mfa", ~"text"], lists:sort([Label || [Label | _] <- Rows])).

errors_name_file_and_line(Config) ->
    Cases = [
        {"[#{name => c}", ":4|:5", 2, "syntax error"},
        {"[#{name => c}]", ":4", 2, "there are no codes"},
        {"[]", ":4", 2, "not a list of cases"},
        {"[17]", ":4", 2, "case 1: this is no map"},
        {"[#{name => c, codes => #{}}]", ":4", 2, "c: codes is no map"},
        {"[#{name => c, codes => #{a => \"foo(.\"}}]", ":4", 2, "line 1, column 5"},
        {"[#{name => c, codes => #{a => \"ok.\"}, inputs => [1]}]", ":4", 2, "takes no argument"},
        {"[#{name => c, codes => #{a => \"ok.\"}, input => [1]}]", ":4", 2,
            "no option input; did you mean inputs"},
        {"[#{name => c, codes => #{a => \"ok.\"}, setup => fun(X) -> X end}]", ":4", 2, "arity 0"},
        {
            "[#{name => c, codes => #{a => \"ok.\"}, teardown => fun(X) -> X end}]",
            ":4",
            2,
            "none without a setup"
        },
        {"[#{name => c, codes => #{a => \"ok.\"}, check => equal}]", ":4", 2,
            "check is equal; same, or a function"},
        {"[#{name => c, codes => #{a => \"ok.\"}, threshold => 3}]", ":4", 2, "threshold"},
        {
            "[#{name => c, codes => #{a => \"ok.\"}}, #{name => \"c\", codes => #{a => \"ok.\"}}]",
            ":4",
            2,
            "two cases"
        },
        {"begin\n error(boom) end", ":6", 1, "benchmarks/0 raised error:boom"},
        {
            "[#{name => c, codes => #{a => fun() ->\n\n error(boom) end}}]",
            ":7",
            1,
            "raised error:boom"
        },
        {
            "[#{name => c, codes => #{a => \"ok.\"}, setup => fun() ->\n error(boom) end}]",
            ":6",
            1,
            "setup raised error:boom"
        }
    ],
    lists:foreach(
        fun({Benchmarks, Line, Status, Expected}) ->
            {error, Reason} = run(Config, Benchmarks),
            Text = unicode:characters_to_list(dyno_error:format(Reason)),
            ?assertMatch(
                {match, _}, re:run(Text, "dyno_file_[0-9]+\\.erl(" ++ Line ++ ")[:0-9]*: "), Text
            ),
            ?assertMatch({match, _}, re:run(Text, Expected), Text),
            ?assertEqual(Status, dyno_error:exit_status(Reason), Text)
        end,
        Cases
    ),
    %% Where there is no line.
    Missing = filename:join(proplists:get_value(priv_dir, Config), "none.erl"),
    {error, None} = dyno_bench:run_file(Missing, #{}),
    ?assertMatch({match, _}, re:run(dyno_error:format(None), "none.erl: no such file")),
    Taken = filename:join(proplists:get_value(priv_dir, Config), "lists.erl"),
    ok = file:write_file(Taken, "-module(lists).\n-export([benchmarks/0]).\nbenchmarks() -> [].\n"),
    {error, Lists} = dyno_bench:run_file(Taken, #{}),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Lists), "there is a module lists already")
    ),
    Without = filename:join(proplists:get_value(priv_dir, Config), "dyno_file_without.erl"),
    ok = file:write_file(Without, "-module(dyno_file_without).\n"),
    {error, No} = dyno_bench:run_file(Without, #{}),
    ?assertMatch({match, _}, re:run(dyno_error:format(No), "does not export benchmarks/0")).

the_command_line_takes_a_file(Config) ->
    Path = file(Config, "[#{name => c, codes => #{a => \"self().\"}}]", ""),
    Output = filename:join(proplists:get_value(priv_dir, Config), "file.json"),
    Run = fun(More) -> dyno_command:run(["bench", Path, "--for", "20ms", "-o", Output | More]) end,
    {0, _} = Run([]),
    {ok, Document} = dyno_recording_file:read(Output),
    ?assertMatch([#{~"id" := ~"c"}], dyno_recording:runs(Document)),
    ?assertMatch({2, <<"dyno: a file of benchmarks is measured alone", _/binary>>}, Run(["ok."])),
    ?assertMatch(
        {2, <<"dyno: --input can't be given with a file", _/binary>>}, Run(["--input", "a=1"])
    ),
    ?assertMatch({2, <<"dyno: --init_all can't be given", _/binary>>}, Run(["--init_all", "1."])).

leaves_no_module(Config) ->
    Ours = fun() ->
        [M || {M, _} <- code:all_loaded(), re:run(atom_to_list(M), "^dyno_file_[0-9]") =/= nomatch]
    end,
    {ok, _} = run(Config, "[#{name => c, codes => #{a => fun() -> self() end}}]"),
    {error, _} = run(Config, "[#{name => c, codes => #{a => fun() -> error(boom) end}}]"),
    {error, _} = run(Config, "[17]"),
    ?assertEqual([], Ours()).
