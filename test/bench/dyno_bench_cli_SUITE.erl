%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_cli_SUITE).
-moduledoc "erlperf's command lines, and the shell's API.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [erlperf_lines, ten_thousand_processes].

all() ->
    [
        erlperf_lines,
        columns,
        bad_lines,
        values,
        monitor_lines,
        code_paths,
        squeeze,
        ten_thousand_processes,
        recording_too,
        help,
        from_the_shell
    ].

init_per_suite(Config) -> dyno_command:with_server(Config).

end_per_suite(Config) -> dyno_command:without_server(Config).

%% {Status, Standard output, Standard error}
dyno(Config, Arguments) -> dyno_command:bench(Config, Arguments).

%% The shape of erlperf's documentation's examples, with shorter samples.
erlperf_lines(Config) ->
    Short = ["-d", "5", "-r", "basic"],
    dyno_parallel:each(
        fun({Codes, Arguments}) ->
            {Status, Out, Error} = dyno(Config, Arguments),
            ?assertEqual(0, Status, {Arguments, Error}),
            [Head | Rows] = binary:split(Out, ~"\n", [global, trim]),
            ?assertMatch({match, _}, re:run(Head, "^Code +\\|\\| +QPS +Time( +Rel)?$"), Out),
            ?assertEqual(Codes, length(Rows), Out)
        end,
        [
            {1, ["rand:uniform()." | Short]},
            {1, ["rand:uniform().", "-c", "2" | Short]},
            {2, [
                "rand:uniform().",
                "crypto:strong_rand_bytes(2).",
                "--samples",
                "4",
                "--warmup",
                "1"
                | Short
            ]},
            {2, [
                "r(_, S) -> {_, N} = rand:uniform_s(S), N.",
                "--init_runner",
                "rand:seed(exsss).",
                "r() -> rand:uniform()."
                | Short
            ]},
            {1, [
                "pg:join(scope, group, self()), pg:leave(scope, group, self()).",
                "--init",
                "pg:start_link(scope).",
                "--done",
                "gen_server:stop(scope)."
                | Short
            ]},
            {2, ["{rand, uniform, []}", "rand:uniform().", "-l", "10K", "-r", "basic"]},
            {2, [
                "run(1) -> ok.",
                "--init_runner",
                "1.",
                "run(2) -> ok.",
                "--init_runner",
                "2."
                | Short
            ]},
            {1, [
                "runner(X) -> timer:sleep(X).",
                "--init_runner_all",
                "1.",
                "--label",
                "x"
                | Short
            ]},
            {1, ["rand:uniform().", "-s", "1" | Short]},
            {1, ["rand:uniform().", "-l", "1", "-c", "2", "-w", "1", "-r", "basic"]},
            {1, ["string:length(\"żółw\")." | Short]},
            {1, ["rand:uniform().", "--cv", "10" | Short]}
        ],
        4
    ).

columns(Config) ->
    {0, Out, _} = dyno(
        Config, ["lists:seq(1, 9).", "lists:seq(1, 99).", "-d", "5", "-r", "extended"]
    ),
    [Head, First, Second] = binary:split(Out, ~"\n", [global, trim]),
    ?assertEqual(
        [~"Code", ~"||", ~"Samples", ~"Avg", ~"StdDev", ~"Median", ~"P99", ~"Iteration", ~"Rel"],
        re:split(Head, " +", [trim])
    ),
    ?assertMatch({match, _}, re:run(First, "^lists:seq\\(1, 9\\)\\. +1 +3 .* 100%$"), Out),
    ?assertMatch({match, _}, re:run(Second, "^lists:seq\\(1, 99\\)\\. +1 +3 .* [0-9]+%$"), Out),
    {0, Full, _} = dyno(Config, ["rand:uniform().", "-l", "1K", "-r", "full"]),
    ?assertMatch({match, _}, re:run(Full, "^OS : .*\nCPU: .*\nVM : Erlang/OTP .*\n\nCode +\\|\\|")).

%% Each: exit status 2, nothing on standard output, one line.
bad_lines(Config) ->
    [
        begin
            {Status, Out, Error} = dyno(Config, Arguments),
            ?assertEqual({2, ~""}, {Status, Out}, {Arguments, Error}),
            ?assertMatch(<<"dyno: ", _/binary>>, Error),
            ?assertEqual(1, length(binary:matches(Error, ~"\n")), Error),
            ?assertMatch({match, _}, re:run(Error, Expected), {Arguments, Error})
        end
     || {Arguments, Expected} <- [
            {["ok.", "-c", "0"], "--concurrency"},
            {["ok.", "ok.", "-q"], "one code"},
            {["ok.", "-q", "--min", "5", "--max", "2"], "above max"},
            {["ok.", "-l", "10X"], "10M.*10X"},
            {["ok.", "-r", "foo"], "basic, extended or full"},
            {["ok.", "-pa", "/nonexistent"], "folder that is there"}
        ]
    ].

%% The same without a process for each.
values(_Config) ->
    Parse = fun(Texts, Codes) ->
        case dyno_command:values("bench", Texts) of
            {ok, Values} -> dyno_cli_bench_mode:mode(Values, Codes);
            {error, _} = Error -> Error
        end
    end,
    Mode = fun(Values) ->
        {ok, Options} = Parse(Values, 1),
        maps:get(mode, Options, compare)
    end,
    ?assertEqual(compare, Mode(#{})),
    ?assertEqual(compare, Mode(#{concurrency => ~"3", tolerance => ~"5%"})),
    ?assertEqual(
        {continuous, #{sample_ms => 100, samples => 20}},
        Mode(#{duration => ~"100", samples => ~"20"})
    ),
    ?assertEqual({continuous, #{}}, Mode(#{report => ~"full"})),
    ?assertEqual({continuous, #{cv => 0.05}}, Mode(#{cv => ~"0.05"})),
    [
        ?assertEqual({timed, #{iterations => N}}, Mode(#{loop => Text}))
     || {Text, N} <- [{~"1", 1}, {~"10K", 10_000}, {~"10M", 10_000_000}, {~"2G", 2_000_000_000}]
    ],
    ?assertEqual(
        {squeeze, #{min => 2, max => 8, step => 2, threshold => 1}},
        Mode(#{squeeze => true, min => ~"2", max => ~"8", step => ~"2", threshold => ~"1"})
    ),
    {ok, #{threshold := 0.05}} = Parse(#{tolerance => ~"5%"}, 2),
    [
        begin
            {error, Reason} = Parse(Values, 1),
            Text = unicode:characters_to_binary(dyno_error:format(Reason)),
            ?assertNotMatch({_, _}, binary:match(Text, ~"\n"), Text),
            ?assert(byte_size(Text) > 20)
        end
     || Values <- [
            #{duration => ~"0"},
            #{duration => ~"1.5"},
            #{duration => ~"-1"},
            #{samples => ~"0"},
            #{warmup => ~"-1"},
            #{cv => ~"0"},
            #{cv => ~"-1.0"},
            #{cv => ~"x"},
            #{loop => ~"0"},
            #{loop => ~"-1M"},
            #{loop => ~"M"},
            #{loop => ~"1MB"},
            #{loop => ~"1.5"},
            #{concurrency => ~"-1"},
            #{concurrency => ~"two"},
            #{concurrency => ~"10001"},
            #{min => ~"1"},
            #{max => ~"1"},
            #{step => ~"1"},
            #{threshold => ~"3"},
            #{squeeze => true, threshold => ~"3%"},
            #{squeeze => true, tolerance => ~"3%"},
            #{squeeze => true, threshold => ~"0"},
            #{squeeze => true, concurrency => ~"2"},
            #{squeeze => true, loop => ~"1"},
            #{squeeze => true, cv => ~"0.1"},
            #{squeeze => true, step => ~"0"},
            #{squeeze => true, max => ~"99999999"},
            #{loop => ~"1", duration => ~"1"},
            #{loop => ~"1", cv => ~"0.1"},
            #{cv => ~"0.1", samples => ~"1"},
            #{duration => ~"1", for => ~"1s"},
            #{report => ~"full", format => ~"json"}
        ]
    ].

monitor_lines(Config) ->
    {0, Out, Error} = dyno(
        Config, ["rand:uniform().", "-v", "-d", "1200", "-s", "1", "-r", "basic"]
    ),
    ?assertMatch({match, _}, re:run(Error, "Sched +DCPU +DIO +Procs +Ports +ETS +Mem Total")),
    ?assertMatch({match, _}, re:run(Error, "\n2[0-9]{3}-[0-9-]+T[0-9:]+\\S+ +[0-9]+\\.[0-9]{2} ")),
    %% The loop that was compiled, as source.
    Loop = ">>> rand:uniform\\(\\)\\.\n.*repeat\\(Dyno_N - 1.*rand:uniform\\(\\).*<<<",
    ?assertMatch({match, _}, re:run(Error, Loop, [dotall])),
    %% Standard output has the table alone.
    ?assertMatch([_, _], binary:split(Out, ~"\n", [global, trim])).

code_paths(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "own"),
    ok = filelib:ensure_path(Folder),
    {ok, own_code, Beam} = compile:forms([
        {attribute, 1, module, own_code},
        {attribute, 1, export, [{f, 0}]},
        {function, 1, f, 0, [{clause, 1, [], [], [{atom, 1, ok}]}]}
    ]),
    ok = file:write_file(filename:join(Folder, "own_code.beam"), Beam),
    Code = ["own_code:f().", "-l", "10", "-r", "basic"],
    {2, ~"", _} = dyno(Config, Code),
    {0, _, _} = dyno(Config, Code ++ ["-pa", Folder]).

squeeze(Config) ->
    %% Within 10 ms another program's turn would decide.
    Line = ["timer:sleep(2).", "--squeeze", "-d", "50", "--max", "2"],
    File = filename:join(proplists:get_value(priv_dir, Config), "curve.json"),
    {0, Out, _} = dyno(Config, Line ++ ["-o", File]),
    %% When the samples were taken, not their numbers.
    {ok, Document} = dyno_recording_file:read(File),
    [Run] = dyno_recording:runs(Document),
    Times = lists:append([
        Ms
     || #{~"times_ms" := Ms, ~"values" := Of} <- dyno_recording:series(Run, ~"bench.throughput"),
        length(Ms) =:= length(Of)
    ]),
    ?assertEqual(length(Times), length(lists:usort(Times))),
    ?assert(lists:max(Times) - lists:min(Times) >= 10 * (length(Times) - 1), Times),
    ?assertMatch({match, _}, re:run(Out, "workers +throughput")),
    ?assertMatch({match, _}, re:run(Out, "highest with 2 workers"), Out),
    {0, Table, _} = dyno(Config, Line ++ ["-r", "basic"]),
    ?assertMatch(
        {match, _}, re:run(Table, "^Code +\\|\\| +QPS +Time\ntimer:sleep\\(2\\)\\. +2 "), Table
    ).

%% Each has its turn, what all did together counts, and two names for one code are no two codes.
ten_thousand_processes(Config) ->
    Codes = ["lists:sum(lists:seq(1, 1000)).", "begin lists:sum(lists:seq(1, 1000)) end."],
    File = filename:join(proplists:get_value(priv_dir, Config), "crowd.json"),
    dyno_tries:hold(3, fun() ->
        Begin = erlang:monotonic_time(second),
        {0, Out, _} = dyno(Config, Codes ++ ["-c", "10000", "--for", "4s", "-o", File]),
        %% As many rounds as a verdict needs may take longer, which is said.
        ?assert(erlang:monotonic_time(second) - Begin < 60, Out),
        {ok, Document} = dyno_recording_file:read(File),
        [Run] = dyno_recording:runs(Document),
        Rows = dyno_suites:table(Run, ~"codes", any),
        Ratios = [Ratio || #{~"ratio" := Ratio} <- Rows, is_number(Ratio)],
        ct:pal("~p~n~ts", [Ratios, Out]),
        ?assertEqual([], [Row || #{~"verdict" := ~"slower"} = Row <- Rows], Out),
        ?assert(lists:all(fun(Ratio) -> Ratio > 0.6 andalso Ratio < 1.6 end, Ratios), Out)
    end).

recording_too(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "samples.json"),
    {0, _, _} = dyno(Config, ["rand:uniform().", "-d", "5", "-r", "basic", "-o", File]),
    {ok, #{~"parameters" := #{~"mode" := ~"continuous"}}} = dyno_recording_file:read(File).

help(Config) ->
    {0, Out, ~""} = dyno(Config, ["--help-all"]),
    [
        ?assertMatch({_, _}, binary:match(Out, Option), Option)
     || Option <- [~"-q, --squeeze", ~"--pa FOLDER", ~"-l, --loop N", ~"-v, --verbose", ~"--cv X"]
    ].

from_the_shell(_Config) ->
    {ok, #{~"command" := ~"bench", ~"status" := ~"complete"}} =
        dyno:bench("rand:uniform().", #{budget_ms => 20}),
    {ok, #{~"parameters" := #{~"codes" := [_, _]}}} =
        dyno:bench([fun() -> lists:seq(1, 9) end, {lists, seq, [1, 9]}], #{budget_ms => 20}),
    {ok, #{~"parameters" := #{~"codes" := [~"{lists,seq,[1,9]}"]}}} = dyno:bench(
        lists, seq, [1, 9]
    ),
    {ok, #{~"parameters" := #{~"mode" := ~"squeeze"}}} =
        dyno:bench("timer:sleep(1).", #{}, #{max => 2, sample_ms => 5}),
    {error, Reason} = dyno:bench("foo("),
    ?assertMatch({_, _}, binary:match(dyno:format_error(Reason), ~"foo(")).
