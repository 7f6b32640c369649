%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_mistakes_SUITE).
-moduledoc """
What users get wrong: each mistake is one sentence with the right status, and leaves nothing behind.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [much_source].

all() ->
    [
        without_a_locale,
        at_the_command_line,
        codes_and_inputs,
        the_place_of_a_syntax_error,
        in_files,
        from_the_shell,
        failures_in_all_modes,
        much_source
    ].

init_per_suite(Config) -> dyno_command:with_server(Config).

end_per_suite(Config) -> dyno_command:without_server(Config).

init_per_testcase(_Case, Config) ->
    [{before, state()} | Config].

end_per_testcase(_Case, Config) ->
    settled(proplists:get_value(before, Config), 100).

%% Processes and modules that a comparison makes, sessions, and names.
state() ->
    #{
        modules => [
            M
         || M <- dyno_agent_patterns:loaded(),
            lists:prefix("dyno_bench_", atom_to_list(M)),
            code:is_loaded(M) =/= {file, code:which(M)}
        ],
        sessions => [N || {N, _} <- trace:session_info(all), N =/= default],
        processes => [
            {P, L}
         || P <- processes(),
            {label, L} <- [process_info(P, label)],
            is_atom(L),
            lists:prefix("dyno", atom_to_list(L))
        ],
        registered => lists:sort(registered())
    }.

settled(Before, Tries) ->
    case state() of
        Before -> ok;
        After when Tries =:= 0 -> ct:fail({Before, After});
        _ -> receive
            after 20 -> settled(Before, Tries - 1)
            end
    end.

%% One line that begins with dyno: and neither a dump nor a stack.
dyno(Config, Arguments) ->
    {Status, ~"", Text} = dyno_command:bench(Config, Arguments),
    ?assertMatch(<<"dyno: ", _/binary>>, Text, Arguments),
    ?assertNotMatch({_, _}, binary:match(Text, [~"crash", ~"{file,", ~"Erlang has"]), Text),
    {Status, Text}.

%% As in many containers.
without_a_locale(_Config) ->
    Source = unicode:characters_to_binary("length(\"\x{e5}\x{df}\x{1f600}\", \"\")"),
    {2, Text} = dyno_command:run(["bench", Source], [{"LC_ALL", "C"}]),
    ?assertMatch({_, _}, binary:match(Text, [Source]), Text).

at_the_command_line(Config) ->
    [
        begin
            {Status, Text} = dyno(Config, Arguments),
            ?assertEqual(Expected, Status, {Arguments, Text}),
            ?assertMatch({match, _}, re:run(Text, Pattern), {Arguments, Text}),
            ?assertEqual(1, length(binary:matches(Text, ~"\n")), Text)
        end
     || {Expected, Pattern, Arguments} <- [
            {2, "no function lists:sorr/1; did you mean lists:sort/1", ["lists:sorr([])."]},
            {2, "is no file .lookups.calls.; give one", ["lookups.calls"]},
            {
                2,
                "--fail-if compares with a recording, .* with a revision",
                ["ok", "--fail-if", "slower > 5%"]
            },
            {1, "raised error:boom", ["error(boom)."]},
            {1, "init had not ended", ["ok.", "--init", "receive a -> b end.", "--timeout", "2s"]},
            {1, "input n raised error:boom", ["r(X) -> X.", "--input", "n=error(boom)"]},
            {
                3,
                "no address is known for nohost.invalid, the host of",
                ["ok.", "--node", "a@nohost.invalid"]
            },
            {3, "no address is known for no-such-host", ["ok.", "--node", "a@no-such-host"]},
            {2, "--concurrency takes .* not \"-1\"", ["ok.", "-c", "-1"]},
            {2, "--samples takes .* not \"-3\"", ["ok.", "--samples=-3"]},
            {2, "--baseline|/no/such", ["ok.", "--baseline", "/no/such.json"]},
            {2, "given 1 time for 2 codes; name all", ["ok.", "a.", "--label", "a"]},
            {2, "there is only 1 code", ["ok.", "--label", "a", "--label", "b"]},
            {2, "a folder", ["ok.", "--baseline", "/"]}
        ]
    ],
    {2, NoText} = dyno_command:run(["bench", <<"ok", 255>>]),
    ?assertMatch({match, _}, re:run(NoText, "is not UTF-8 text: the part after \"ok\"")).

the_place_of_a_syntax_error(Config) ->
    [
        begin
            {2, Sentence} = dyno(Config, Arguments),
            ?assertMatch({match, _}, re:run(Sentence, Pattern), Sentence),
            ?assertEqual(3, length(binary:matches(Sentence, ~"\n")), Sentence)
        end
     || {Pattern, Arguments} <- [
            {"column 1: function fo/1 undefined\n  fo\\(1\\)\n  \\^", ["fo(1)"]},
            {"column 1: variable 'X' is unbound\n", ["X"]},
            {"column 14: the code is not complete", ["lists:sort([]"]}
        ]
    ],
    {2, Text} = dyno(Config, ["lists:seq(1, 2),\nlists:sort([1)."]),
    [First, Line, Caret | _] = binary:split(Text, ~"\n", [global, trim]),
    ?assertMatch({match, _}, re:run(First, "line 2, column 14: ")),
    ?assertEqual(~"  lists:sort([1).", Line),
    ?assertEqual(byte_size(~"               ^"), byte_size(Caret)),
    ?assertEqual(~"^", string:trim(Caret)).

file(Config, Text) ->
    Name = "mistake_" ++ integer_to_list(erlang:unique_integer([positive])),
    Path = filename:join(proplists:get_value(priv_dir, Config), Name ++ ".erl"),
    ok = file:write_file(Path, ["-module(", Name, ").\n-export([benchmarks/0]).\n", Text]),
    Path.

%% A parse transform that never ends stands for all that happens while a file is compiled.
in_files(Config) ->
    Priv = proplists:get_value(priv_dir, Config),
    ok = file:write_file(
        filename:join(Priv, "endless_transform.erl"),
        "-module(endless_transform).\n-export([parse_transform/2]).\n"
        "parse_transform(_, _) -> receive never -> [] end.\n"
    ),
    {ok, _} = compile:file(filename:join(Priv, "endless_transform.erl"), [{outdir, Priv}]),
    true = code:add_patha(Priv),
    dyno_parallel:each(
        fun({Status, Pattern, Text}) ->
            {error, Reason} = dyno_bench:run_file(file(Config, Text), limit(Pattern)),
            Sentence = unicode:characters_to_list(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Sentence, Pattern), Sentence),
            ?assertEqual(Status, dyno_error:exit_status(Reason), Sentence)
        end,
        [
            {2, "was not compiled after [0-9.]+ m?s",
                "-compile({parse_transform, endless_transform}).\nbenchmarks() -> []."},
            {2, "erl:3:.*syntax error", "benchmarks( -> []."},
            {
                1,
                "benchmarks/0 had not ended after [0-9.]+ m?s",
                "benchmarks() -> receive a -> b end."
            },
            {1, "benchmarks/0 raised exit:boom", "benchmarks() -> exit(boom)."},
            {1, "set: setup had not ended after [0-9.]+ m?s",
                "benchmarks() -> [#{name => set, codes => #{a => fun(X) -> X end},\n"
                "setup => fun() -> receive a -> b end end}]."},
            {1, "its process died in setup: killed",
                "benchmarks() -> [#{name => set, codes => #{a => fun(X) -> X end},\n"
                "setup => fun() -> exit(self(), kill), receive a -> b end end}]."},
            {1, "teardown had not ended",
                "benchmarks() -> [#{name => set, codes => #{a => fun(X) -> X end},\n"
                "setup => fun() -> ok end, teardown => fun(_) -> receive a -> b end end}]."},
            {1, "with set: .*had not ended after [0-9.]+ m?s",
                "benchmarks() ->\n"
                "[#{name => set, codes => #{a => fun() -> receive a -> b end end}}]."}
        ],
        4
    ),
    true = code:del_path(Priv),
    dyno_code:unload(endless_transform).

%% On a busy machine the compiler alone may take that long: only what never ends is given up.
limit(Pattern) ->
    case re:run(Pattern, "not ended|not compiled") of
        {match, _} -> #{timeout_ms => 5000};
        nomatch -> #{timeout_ms => 60_000}
    end.

codes_and_inputs(_Config) ->
    Endless = "receive a -> b end.",
    Late =
        "r(C) -> counters:add(C, 1, 1), "
        "case counters:get(C, 1) of 50000 -> error(late); _ -> ok end.",
    dyno_parallel:each(
        fun({Expected, Pattern, Code, Options}) ->
            {error, Error} = dyno_bench:run([Code], maps:merge(Options, limit(Pattern))),
            Sentence = dyno_error:format(Error),
            ?assertMatch({match, _}, re:run(Sentence, Pattern), Sentence),
            ?assertEqual(Expected, dyno_error:exit_status(Error), Sentence)
        end,
        [
            {2, "no module listz; did you mean lists", "listz:sort([]).", #{}},
            {2, "lists:sort/0; there is lists:sort/1, lists:sort/2", "lists:sort().", #{}},
            {2, "arity 3", "r(A, B, C) -> A.", #{}},
            {2, "init_runner must give", "r(X) -> X.", #{}},
            {2, "init must give", #{runner => "ok.", init_runner => "r(X) -> X."}, #{}},
            {1, "raised error:late", #{runner => Late, init_runner => "counters:new(1, [])."}, #{}},
            {1, "its process died", "exit(self(), kill), receive after 9000 -> ok end.", #{}},
            {1, "had not ended after [0-9.]+ m?s", Endless, #{}},
            {1, "init_runner had not ended", #{runner => "ok.", init_runner => Endless}, #{}},
            {1, "input n had not ended", "r(X) -> X.", #{inputs => [{"n", Endless}]}}
        ],
        5
    ).

from_the_shell(_Config) ->
    [
        begin
            {error, Reason} = dyno:bench(Codes, Options#{timeout_ms => 2000}),
            Sentence = dyno:format_error(Reason),
            ?assertMatch({match, _}, re:run(Sentence, Pattern), Sentence)
        end
     || {Pattern, Codes, Options} <- [
            {"no code", [], #{}},
            {"21 codes; at most 20", lists:duplicate(21, "ok."), #{}},
            {"is no code", [ok], #{}},
            {"has no runner", [#{init => "ok."}], #{}},
            {"no part of a code", [#{runner => "ok.", inti => "ok."}], #{}},
            {"arity 3", [fun(A, _, _) -> A end], #{}},
            {"no function lists:sorr/1", [{lists, sorr, [[]]}], #{}},
            {"concurrency is 0", ["ok."], #{concurrency => 0}},
            {"budget_ms is -1", ["ok."], #{budget_ms => -1}},
            {"threshold is 3", ["ok."], #{threshold => 3}},
            {"done takes an argument", [#{runner => "ok.", done => "d(X) -> X."}], #{}},
            {
                "its process died in init",
                [#{runner => "ok.", init => "exit(self(), kill), receive a -> b end."}],
                #{}
            }
        ]
    ].

failures_in_all_modes(_Config) ->
    Endless = "receive never -> ok end.",
    dyno_parallel:each(
        fun({Mode, {Code, Pattern}}) ->
            %% Long enough to be compiled on a busy machine.
            {error, Error} = dyno_bench:run([Code], #{mode => Mode, timeout_ms => 3000}),
            Sentence = dyno_error:format(Error),
            ?assertMatch({match, _}, re:run(Sentence, Pattern), {Mode, Sentence}),
            ?assertEqual(1, dyno_error:exit_status(Error))
        end,
        [
            {Mode, Failing}
         || Mode <- [
                compare,
                {timed, #{iterations => 1}},
                {continuous, #{sample_ms => 10}},
                {squeeze, #{sample_ms => 10}}
            ],
            Failing <- [
                {Endless, "had not ended"},
                {#{runner => "ok.", init => Endless}, "init had not ended"},
                {#{runner => "ok.", init_runner => Endless}, "init_runner had not ended"},
                {"exit(shutdown).", "raised exit:shutdown"}
            ]
        ],
        6
    ),
    {error, {_, {undefined, _, <<"there is no function lists:sorr/1", _/binary>>}}} =
        dyno_bench:run(["lists:sorr([])."], #{mode => {continuous, #{sample_ms => 10}}}).

much_source(_Config) ->
    Text = [$[, lists:join($,, lists:duplicate(5_000_000, $1)), "]."],
    {error, Long} = dyno_bench:run([iolist_to_binary(Text)], #{}),
    ?assertMatch({match, _}, re:run(dyno_error:format(Long), "10000002 bytes of source")),
    %% The compiler is given up, and with it what it had allocated.
    {error, Endless} = dyno_bench:run([endless()], #{timeout_ms => 100}),
    ?assertMatch({match, _}, re:run(dyno_error:format(Endless), "not compiled after 100 ms")),
    ?assertEqual(2, dyno_error:exit_status(Endless)).

%% Half a megabyte of calls takes seconds to compile.
endless() ->
    iolist_to_binary(
        [[["lists:seq(1, ", integer_to_binary(N), "), "] || N <- lists:seq(1, 20_000)], "ok."]
    ).
