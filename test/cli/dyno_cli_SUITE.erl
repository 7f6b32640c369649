%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_SUITE).
-moduledoc """
The escript as its users meet it: built by rebar3, run as a process of the system.

Only `dyno_test` is a double, so that each ending can be had at will; the fixture is shown by the
real report and read by the real reader.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

each_release() -> [statuses, interrupt, interrupt_at_boot, vm_killed, terminal, errors_come_first].

all() ->
    [{group, arguments}, {group, endings}, {group, signals}, {group, terminal}].

groups() ->
    [
        {arguments, [], [
            help,
            help_is_whole,
            help_fits_two_screens,
            renamed_are_gone,
            completion,
            man,
            bad_input,
            text_from_elsewhere,
            options,
            report_command,
            compare,
            baseline,
            linked
        ]},
        {endings, [], [
            statuses,
            outputs,
            planted_files,
            crash,
            suite_output,
            quiet,
            progress_lines,
            unwritable,
            reader_gone,
            disk_full,
            device_full,
            ended_by_what_it_ran,
            ended_in_another_vm
        ]},
        {signals, [], [
            interrupt, hangup_ignored, second_interrupt, interrupt_at_boot, vm_killed, other_shells
        ]},
        {terminal, [], [terminal, narrow, errors_come_first, no_colour]}
    ].

init_per_suite(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    %% Spaces and quotes in the path must not matter.
    Escript = dyno_escript:build(filename:join([Folder, "it's a folder", "dyno"])),
    Built = [{escript, Escript}, {double, double(Folder)} | Config],
    Options = #{folder => Folder, environment => environment(Built)},
    [{server, dyno_command:start(Options)} | Built].

end_per_suite(Config) ->
    dyno_command:stop(proplists:get_value(server, Config)).

init_per_testcase(Case, Config) ->
    Work = filename:join([proplists:get_value(priv_dir, Config), "work", atom_to_list(Case)]),
    ok = filelib:ensure_path(Work),
    [{work, Work} | Config].

end_per_testcase(_Case, _Config) -> ok.

%% Arguments

help(Config) ->
    [
        begin
            {0, Out, ~""} = served(Config, Arguments),
            ?assertMatch({_, _}, binary:match(Out, Part), {Arguments, Part}),
            Lines = binary:split(Out, ~"\n", [global]),
            ?assertEqual([], [Line || Line <- Lines, dyno_report_text:width(Line) > 80])
        end
     || {Arguments, Part} <- [
            {["--help"], ~"Exit status"},
            {["-h"], ~"Commands"},
            {["help"], ~"Commands"},
            {["help", "test"], ~"--threshold"},
            {["help", "man"], ~"Commands"},
            {["test", "--help"], ~"Examples"},
            {["report", "-h"], ~"RECORDING"},
            {["compare", "-h"], ~"--fail-if"},
            {["bench", "-h"], ~"--baseline"},
            {["new", "-h"], ~"--elixir"},
            {["--version"], ~"dyno 0"},
            {["version"], ~"dyno 0"},
            {["--color=always", "--help"], ~"\e["}
        ]
    ].

%% bash itself is asked, as when a user presses Tab; fish and zsh where they are installed.
completion(Config) ->
    Scripts = [
        begin
            {0, Text, ~""} = served(Config, ["completion", Shell]),
            File = filename:join(proplists:get_value(work, Config), Shell),
            ok = file:write_file(File, Text),
            {Shell, File}
        end
     || Shell <- dyno_cli_completion:shells()
    ],
    [
        ?assertEqual("", os:cmd(Program ++ " -n " ++ File), Shell)
     || {Shell, File} <- Scripts, Program <- [os:find_executable(Shell)], Program =/= false
    ],
    Bash = proplists:get_value("bash", Scripts),
    Complete = fun(Words) ->
        Array = lists:join(" ", [["'", Word, "'"] || Word <- Words]),
        Line = [
            "bash -c '. \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _dyno; "
            "echo ${COMPREPLY[@]}' ",
            Bash,
            " ",
            Array
        ],
        string:lexemes(os:cmd(lists:flatten(Line)), " \n")
    end,
    ?assertEqual(["bench"], Complete(["dyno", "be"])),
    ?assertEqual(["--metric"], Complete(["dyno", "bench", "--metr"])),
    ?assert(lists:member("words", Complete(["dyno", "bench", "--metric", ""]))),
    ?assertEqual(["benchmark"], Complete(["dyno", "new", "b"])),
    ?assertEqual([], Complete(["dyno", "report", "x"])).

%% Whatever is typed, or stands in a file, it does not steer the terminal.
text_from_elsewhere(Config) ->
    Text = "a\e[2J\r\x{9B}b\x{202E}c\x{2028}",
    Trace = filename:join(proplists:get_value(work, Config), "trace.jsonl"),
    Item = #{
        ~"event" => ~"call",
        ~"at" => 1,
        ~"node" => ~"a@b",
        ~"pid" => ~"<0.1.0>",
        ~"depth" => 0,
        ~"id" => 0,
        ~"name" => list_to_binary(["\e[2J", <<16#202E/utf8>>]),
        ~"function" => ~"m:f/1",
        ~"call" => unicode:characters_to_binary(["m:f(", Text, ")"])
    },
    ok = file:write_file(Trace, [
        json:encode(#{~"format" => ~"dyno trace 1"}),
        $\n,
        json:encode(Item),
        $\n
    ]),
    [
        begin
            {_, Out, Error} = served(Config, Arguments),
            Shown = re:replace([Out, Error], "[\\n\\t]", "", [global]),
            ?assertEqual(nomatch, dyno_text_SUITE:misleading(Shown), {Arguments, Out, Error}),
            hd(Arguments) =/= "report" orelse
                ?assertNotEqual(nomatch, string:find(Error, ~B"\x{202E}c\x{2028}"), Error)
        end
     || Arguments <- [
            [Text],
            [Text ++ "@host"],
            ["report", Text],
            ["compare", Text, Text],
            ["bench", Text],
            ["servers", Text],
            ["servers", Text ++ "@127.0.0.1"],
            ["trace", Text],
            ["trace", "a@b", Text],
            ["profile", "--eval", Text],
            ["new", Text, Text],
            ["verify", Text, "a@b"],
            ["workload", Text],
            ["help", Text],
            ["bench", "1", "--for", Text],
            ["trace", "--replay", Trace],
            ["trace", "--replay", Trace, "--format", "json"]
        ]
    ].

%% Every option of every command is in it; no line is taken for a request of roff's by mistake.
man(Config) ->
    {0, Text, ~""} = served(Config, ["man"]),
    Lines = binary:split(Text, ~"\n", [global]),
    [
        ?assert(
            lists:member(
                <<"\\fB", (binary:replace(Usage, ~"-", ~"\\-", [global]))/binary, "\\fR">>, Lines
            ),
            Usage
        )
     || {_, Module, _} <- dyno_commands:all(),
        Row <- dyno_cli_command:rows(Module:command()),
        Usage <- [list_to_binary(element(1, Row))]
    ],
    Requests = [
        hd(binary:split(Line, ~" "))
     || <<C, _/binary>> = Line <- Lines, C =:= $. orelse C =:= $'
    ],
    ?assertEqual(
        [~".B", ~".I", ~".PP", ~".RE", ~".RS", ~".SH", ~".SS", ~".TH", ~".TP", ~".fi", ~".nf"],
        lists:usort(Requests)
    ).

%% Every row is an option that argparse takes, with a name and a key of its own, and every example
%% is a command line that dyno takes.
help_is_whole(_Config) ->
    [
        begin
            Command = Module:command(),
            Arguments = dyno_cli_command:arguments(Command),
            Long = [Name || #{long := Name} <- Arguments],
            ?assertEqual([], Long -- lists:uniq(Long), Module),
            ?assert(is_list(argparse:validate(#{arguments => Arguments}))),
            [
                ?assertMatch({ok, _}, parsed(Line), Line)
             || {Line, _} <- dyno_cli_command:examples(Command)
            ]
        end
     || {_, Module, _} <- dyno_commands:all()
    ].

%% --help of each command in 48 lines of 80 columns; --help-all has each option.
help_fits_two_screens(_Config) ->
    Look = (dyno_cli_terminal:file_look())#{width => 80},
    [
        begin
            Lines = string:split(
                unicode:characters_to_list(dyno_cli_help:command(C, Look)), "\n", all
            ),
            ?assert(length(Lines) - 1 =< 48, {Name, length(Lines) - 1}),
            ?assertEqual(
                [], [Line || Line <- Lines, length(Line) > 80, not is_example(Line)], Name
            ),
            Full = unicode:characters_to_binary(dyno_cli_help:full(C, Look)),
            [
                ?assertMatch({_, _}, binary:match(Full, list_to_binary(element(1, Row))), Row)
             || Row <- dyno_cli_command:rows(Module:command())
            ]
        end
     || {Name, Module, _} = C <- dyno_commands:all()
    ].

%% A line to copy is not wrapped.
is_example(Line) -> lists:prefix("  dyno ", Line).

%% What was renamed is no option any more.
renamed_are_gone(_Config) ->
    [
        begin
            {ok, Module} = dyno_commands:module(Command),
            Is = [dyno_cli_option:long(Row) || Row <- dyno_cli_command:rows(Module:command())],
            ?assertNot(lists:member(Option, Is), {Command, Option})
        end
     || {Command, Option, _} <- dyno_cli_usage:renamed()
    ].

%% Files need not be there.
parsed(Line) ->
    ["dyno", Name | Words] = dyno_documents:words(Line),
    {ok, Module} = dyno_commands:module(Name),
    Command = Module:command(),
    Arguments = #{arguments => dyno_cli_command:arguments(Command)},
    {ok, Given, _, _} = argparse:parse(Words, Arguments, #{progname => dyno}),
    dyno_cli_option:read(dyno_cli_command:rows(Command), maps:without([output, pa], Given)).

%% Each: exit status 2, nothing on standard output, one line that names what is wrong and accepted.
bad_input(Config) ->
    [
        begin
            {Status, Out, Error} = served(Config, Arguments),
            ?assertEqual({2, ~""}, {Status, Out}, Arguments),
            ?assertMatch(<<"dyno: ", _/binary>>, Error),
            ?assertEqual(1, length(binary:matches(Error, ~"\n")), Error),
            [?assertMatch({_, _}, binary:match(Error, Part), {Error, Part}) || Part <- Parts]
        end
     || {Arguments, Parts} <- [
            {["tset", "x"], [~"\"tset\"", ~"did you mean test?"]},
            {["servers", "a@b", "--cookie", lists:duplicate(256, $c)], [~"--cookie: a cookie (also"]},
            {["servers", "a@b", "--name", lists:duplicate(256, $n)], [~"up to 255 bytes"]},
            {["xyzzy"], [
                ~"\"xyzzy\"", ~"record, report, servers, test, top, trace, verify, workload, help"
            ]},
            {["--foo"], [~"--foo"]},
            {["--verison"], [~"did you mean --version?"]},
            {["bench", "ok", "--color"], [~"always, never or auto"]},
            {["completion", "csh"], [~"bash, zsh, fish"]},
            {["new", "suit", "x"], [~"did you mean suite?"]},
            {["test", "x.erl", "--repeat", "999999999999"], [~"from 1 to 10000, not"]},
            {["record", "a@b", "--repeat", "999999999999"], [~"from 1 to 10000, not"]},
            {["bench", "1", "-s", "999999999999"], [~"from 1 to 1000000, not"]},
            {["bench", "1", "-d", "999999999999"], [~"from 1 to 720000000, not"]},
            {["bench", "1", "--for", "99999999h"], [~"up to 200h"]},
            {["trace", "a@b", "m:f", "--for", "99999999h"], [~"up to 200h"]},
            {["profile", "a@b", "--for", "99999999h"], [~"up to 200h"]},
            {["profile"], [~"NODE", ~"--eval"]},
            {["profile", "a@b", "--eval", "1"], [~"one of them"]},
            {["profile", "a@b", "--kind", "smaple"], [~"did you mean sample?"]},
            {["profile", "sh op"], [~"shop@host"]},
            {["profile", "a@b", "busiest:3"], [~"names none of the processes"]},
            {["profile", "--eval", "lists:sort(["], [~"at column"]},
            {["help", "tset"], [~"did you mean test?"]},
            {["test"], [~"SUITE"]},
            {["test", "x", "--sises", "1"], [~"--sises", ~"did you mean --sizes?"]},
            {["test", "x", "--sises=1"], [~"--sises", ~"did you mean --sizes?"]},
            {["test", "x", "--qqqqqq"], [~"--qqqqqq", ~"dyno test --help"]},
            {["test", "x", "y"], [~"\"y\"", ~"SUITE"]},
            {["test", "x", "--sizes"], [~"--sizes N,N"]},
            {["test", "x", "--sizes", "1,0"], [~"--sizes", ~"\"1,0\"", ~"from 1 up"]},
            {["test", "x", "--sizes", "ten"], [~"\"ten\""]},
            {["test", "x", "--for", "10"], [~"--for", ~"\"10\"", ~"10s"]},
            {["test", "x", "--for", "0s"], [~"above 0"]},
            {["test", "x", "--warmup", "1 fortnight"], [~"--warmup"]},
            {["test", "x", "--interval", ""], [~"--interval"]},
            {["test", "x", "--level", "tiem"], [~"did you mean time?"]},
            {["test", "x", "--budget", "5"], [
                ~"--budget takes a share above 0 % and below 100 %, such as 3%, not \"5\""
            ]},
            {
                ["test", "x", "--format", "pdf"],
                [
                    ~"console, json, jsonl, html, csv, md, junit, benchstat, github, gitlab, folded",
                    ~"speedscope, pprof or callgrind"
                ]
            },
            {["test", "x", "-o", "a.pdf"], [~"a.pdf", ~".html"]},
            {["test", "x", "-o", "no/no/a.json"], [~"no/no", ~"create the folder"]},
            {["bench", "ok", "-o", "no/a.json"], [~"there is no folder no", ~"create the folder"]},
            {["test", "bad"], [~"the suite bad"]},
            {["servers"], [~"NODE"]},
            {["servers", "sh op"], [~"\"sh op\"", ~"shop@host"]},
            {["record", "shop@host", "@"], [~"\"@\"", ~"shop@host"]},
            {["record", "shop@host", "--for", "5"], [~"--for", ~"10s"]},
            {["servers", "a@host", "busiest:x"], [~"busiest:x", ~"busiest:20"]},
            {["servers", "a@host", "--sink", "x"], [~"--sink", ~"statsd://"]},
            {["servers", "a@host", "--interval", "10ms"], [~"--interval", ~"100ms"]},
            {["trace"], [~"NODE", ~"--replay"]},
            {["trace", "a@host"], [~"PATTERN", ~"my_mod:my_fun/2"]},
            {["trace", "a@host", "x:y", "--latency", "--tree"], [~"--tree", ~"--latency"]},
            {["trace", "a@host", "x:y", "--above", "x"], [~"--above", ~"10ms"]},
            {["trace", "--replay", "missing.jsonl"], [~"missing.jsonl"]},
            {["test", "x", "--duration", "10s"], [
                ~"dyno test has no option --duration; use --for TIME"
            ]},
            {["test", "x", "--for=1s", "--no-control"], [~"use --without control"]},
            {["bench", "1", "--threshold", "3%"], [~"--threshold takes a whole", ~"--tolerance 3%"]},
            {["servers", "a@b", "--level=time"], [~"use --detail DETAIL"]},
            {["report"], [~"RECORDING"]},
            {["report", "missing.json"], [~"missing.json"]}
        ]
    ],
    {2, ~"", Overview} = served(Config, []),
    ?assertMatch({_, _}, binary:match(Overview, ~"Commands")).

options(Config) ->
    ok = file:make_dir(filename:join(proplists:get_value(work, Config), "x y")),
    Arguments =
        ["test", "options", "--sizes", "1, 20", "--for", "1.5s", "--warmup", "200ms"] ++
            ["--interval=1s", "--pattern", "a:_/_", "--pattern", "b:c/1", "--level", "count"] ++
            ["--threshold", "latency.p99 < 20 ms", "--pa", "x y", "--name", "n", "--cookie", "c"] ++
            ["-o", "kept.json", "-o", "seen.txt", "--format", "json"],
    {0, Out, _} = served(Config, Arguments),
    #{~"name" := Name} = json:decode(Out),
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Name) ++ "."),
    {ok, Given} = erl_parse:parse_term(Tokens),
    ?assertEqual(
        #{
            sizes => ~"[1,20]",
            duration_ms => ~"1500",
            warmup_ms => ~"200",
            interval_ms => ~"1000",
            patterns => ~"[\"a:_/_\",\"b:c/1\"]",
            thresholds => ~"[\"latency.p99 < 20 ms\"]",
            level => ~"count",
            code_paths => ~"[\"x y\"]",
            name => ~"n",
            cookie => ~"c",
            recording => ~"<<\"kept.json\">>"
        },
        Given
    ),
    {ok, [_, _, _]} = file:list_dir(proplists:get_value(work, Config)).

compare(Config) ->
    Old = changed(Config, "old.json", fun dyno_repetitions:thrice/1),
    New = changed(Config, Old, "new.json", fun(#{~"runs" := Runs} = Document) ->
        Slower = fun
            (#{~"name" := ~"latency.p50", ~"value" := Value} = M) -> M#{~"value" := Value * 2};
            (M) -> M
        end,
        Document#{
            ~"runs" := [R#{~"metrics" := lists:map(Slower, Ms)} || #{~"metrics" := Ms} = R <- Runs]
        }
    end),
    {0, Text, ~""} = served(Config, ["compare", Old, New]),
    ?assertMatch({_, _}, binary:match(Text, ~"slower")),
    {0, _, ~""} = served(Config, ["compare", Old, Old, "--fail-if", "slower > 5%"]),
    {1, Failed, ~""} = served(Config, [
        "compare", Old, New, "--fail-if", "slower > 5%", "-o", "c.xml", "--format", "md"
    ]),
    ?assertMatch({_, _}, binary:match(Failed, ~"| FAIL | slower &gt; 5% |")),
    {ok, Xml} = file:read_file(filename:join(proplists:get_value(work, Config), "c.xml")),
    ?assertMatch({_, _}, binary:match(Xml, ~"failures=\"1\"")),
    {0, _, ~""} = served(Config, ["compare", Old, New, "--fail-if", "slower > 150%"]),
    {2, ~"", Bad} = served(Config, ["compare", Old, New, "--fail-if", "slower < 5%"]),
    ?assertMatch({_, _}, binary:match(Bad, ~"column 8: > is expected")),
    {2, ~"", Unknown} = served(Config, ["compare", Old, New, "--fail-if", "latncy.p50 > 5%"]),
    ?assertMatch({_, _}, binary:match(Unknown, ~"the closest are latency.p50")),
    %% One run of a size gives no verdict, and so opens no gate.
    {1, Once, ~""} = served(Config, ["compare", fixture(), fixture(), "--fail-if", "slower > 5%"]),
    ?assertMatch({_, _}, binary:match(Once, ~"UNKNOWN  slower > 5%")),
    ?assertEqual(nomatch, binary:match(Once, ~"not decided")),
    Other = changed(Config, "other.json", fun(#{~"environment" := E} = Document) ->
        Document#{~"environment" := E#{~"otp" := ~"27.0"}}
    end),
    {2, ~"", Refused} = served(Config, ["compare", Old, Other]),
    ?assertMatch({_, _}, binary:match(Refused, ~"otp was 29.1 and is 27.0")),
    {0, Forced, ~""} = served(Config, ["compare", Old, Other, "--force"]),
    ?assertMatch({_, _}, binary:match(Forced, ~"compared by force")),
    {2, ~"", _} = served(Config, ["compare", Old, "not_there.json"]).

%% Forty times the work is slower on the busiest machine; three times as slow is not the same code.
baseline(Config) ->
    dyno_tries:hold(3, fun() -> baseline_once(Config) end).

baseline_once(Config) ->
    Bench = fun(Code, More) ->
        served(Config, ["bench", Code, "--label", "a", "--for", "300ms" | More])
    end,
    {0, _, ~""} = Bench("lists:seq(1, 10).", ["-o", "base.json"]),
    Gate = [
        "--baseline", "base.json", "--fail-if", "slower > 200%", "--fail-if", "reductions > 1%"
    ],
    {1, Failed, Note} = Bench("lists:seq(1, 400).", Gate),
    ?assertMatch({_, _}, binary:match(Failed, ~"FAIL    slower > 200%")),
    ?assertMatch({_, _}, binary:match(Failed, ~"FAIL    reductions > 1%")),
    ?assertMatch({_, _}, binary:match(Note, ~"measuring once more")),
    {0, Passed, _} = Bench(
        "lists:seq(1, 10).", ["--baseline", "base.json", "--fail-if", "slower > 200%"]
    ),
    ?assertMatch({_, _}, binary:match(Passed, ~"PASS")),
    Base = filename:join(proplists:get_value(work, Config), "base.json"),
    _ = changed(Config, Base, "other.json", fun(#{~"environment" := E} = Document) ->
        Document#{~"environment" := E#{~"schedulers_online" := 77}}
    end),
    {2, ~"", Refused} = Bench("1.", ["--baseline", "other.json"]),
    ?assertMatch({_, _}, binary:match(Refused, ~"schedulers_online was 77")),
    {2, ~"", _} = Bench("1.", ["--fail-if", "slower > 5%"]),
    {2, ~"", _} = Bench("1.", ["--baseline", "base.json", "--fail-if", "slow"]),
    {2, ~"", _} = Bench("1.", ["--baseline", fixture()]).

changed(Config, Name, Fun) -> changed(Config, fixture(), Name, Fun).

changed(Config, From, Name, Fun) ->
    {ok, Bytes} = file:read_file(From),
    Path = filename:join(proplists:get_value(work, Config), Name),
    ok = file:write_file(Path, json:encode(Fun(json:decode(Bytes)))),
    Path.

%% A link to the program has nothing beside it: the clocks' library is beside the program itself.
linked(Config) ->
    Escript = proplists:get_value(escript, Config),
    Library = "nif-" ++ erlang:system_info(nif_version) ++ "/dyno_clock_nif.so",
    Beside = filename:join([filename:dirname(Escript), "priv", Library]),
    ok = filelib:ensure_dir(Beside),
    Link = filename:join(proplists:get_value(work, Config), "dyno"),
    ok = file:make_symlink(Escript, Link),
    case file:copy(filename:join(code:priv_dir(dyno), Library), Beside) of
        {ok, _} ->
            Arguments = ["bench", "ok.", "--for", "50ms", "-o", "x.json"],
            {Status, Out, Errors} =
                dyno([{escript, Link} | proplists:delete(escript, Config)], Arguments),
            ?assertEqual({0, nomatch}, {Status, binary:match(Out, ~"wall clock")}, Errors);
        {error, enoent} ->
            {skip, "the NIF was not built: run make with a C compiler installed"}
    end.

report_command(Config) ->
    Fixture = fixture(),
    {0, Out, ~""} = served(Config, ["report", Fixture]),
    ?assertMatch(<<"cowboy_http: complete", _/binary>>, Out),
    {0, Json, ~""} = served(Config, ["report", Fixture, "--format", "json"]),
    {ok, Bytes} = file:read_file(Fixture),
    ?assertEqual(json:decode(Bytes), json:decode(Json)),
    {0, ~"", ~""} = served(Config, ["report", Fixture, "-o", "a.txt"]),
    {ok, Out} = file:read_file(filename:join(proplists:get_value(work, Config), "a.txt")),
    Broken = filename:join(proplists:get_value(work, Config), "broken.json"),
    ok = file:write_file(Broken, ~"{\"format\": \"dyno-rec"),
    {2, ~"", Error} = served(Config, ["report", Broken]),
    ?assertMatch({_, _}, binary:match(Error, ~"broken.json")).

%% Endings

statuses(Config) ->
    [
        begin
            {Status, Out, _} = served(Config, ["test", Suite, "--full"]),
            ?assertEqual({Suite, Expected}, {Suite, Status}),
            Last = lists:last(binary:split(Out, ~"\n", [global, trim])),
            ?assertMatch({0, _}, binary:match(Last, Word), {Suite, Last})
        end
     || {Suite, Expected, Word} <- [
            {"pass", 0, ~"PASSED"},
            {"fail", 1, ~"FAILED"},
            {"unknown", 1, ~"FAILED"},
            {"failed", 3, ~"COULD NOT FINISH: the target node went away"}
        ]
    ],
    {3, ~"", ~"dyno: the target is down\n"} = served(Config, ["test", "down"]),
    %% Without the report, standard error says what did not hold.
    {1, _, Error} = served(Config, ["test", "fail", "--format", "json"]),
    ?assertMatch({_, _}, binary:match(Error, ~"disk.await < 5 ms")).

outputs(Config) ->
    Work = proplists:get_value(work, Config),
    {0, _, Note} = served(Config, ["test", "pass"]),
    [Default] = filelib:wildcard("dyno-results/pass-*T*.json", Work),
    ?assertEqual(<<"dyno: the recording is in ", (list_to_binary(Default))/binary, "\n">>, Note),
    {0, Again, ~""} = served(Config, ["report", Default]),
    {0, Out, ~""} = served(Config, [
        "test", "pass", "--full", "-o", "a.json", "-o", "a.txt", "-o", "b.txt"
    ]),
    ?assertEqual(Again, Out),
    ?assertEqual({ok, Out}, file:read_file(filename:join(Work, "a.txt"))),
    ?assertEqual({ok, Out}, file:read_file(filename:join(Work, "b.txt"))),
    ?assertEqual(["a.json"], filelib:wildcard("*.json", Work)),
    %% Nobody adds it to a repository by mistake.
    ?assertEqual({ok, ~"*\n"}, file:read_file(filename:join(Work, "dyno-results/.gitignore"))),
    {0, Short, _} = served(Config, ["test", "pass", "-o", "a.json"]),
    ?assertMatch(
        {_, _}, binary:match(Short, ~"The rest: --full, dyno report RECORDING, or a page:")
    ),
    {0, WithPage, _} = served(Config, ["test", "pass", "-o", "a.json", "-o", "a.html"]),
    ?assertMatch({_, _}, binary:match(WithPage, ~"The rest: --full")),
    ?assertMatch({_, _}, binary:match(WithPage, ~"or the page a.html\n")).

%% As another user could who foresees the pid: in the folder for the modules of VMs, a link to what
%% then was overwritten.
planted_files(Config) ->
    Work = proplists:get_value(work, Config),
    Temporary = filename:join(Work, "tmp"),
    ok = filelib:ensure_path(Temporary),
    ok = file:write_file(filename:join(Work, "victim"), ~"victim"),
    Plant =
        "mkdir tmp/dyno-$$-bench tmp/dyno-2026-results && "
        "ln -s ../../victim tmp/dyno-$$-bench/dyno_bench_vm_server.beam && "
        "ln -s ../victim tmp/dyno-$$-vm-1 && echo $$ > pid && exec \"$0\" \"$@\"",
    Escript = filename:join([code:root_dir(), "bin", "escript"]),
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, [
            "-c",
            Plant,
            Escript,
            proplists:get_value(escript, Config),
            "bench",
            "-i",
            "ok",
            "--samples",
            "1",
            "--duration",
            "10"
        ]},
        {cd, Work},
        {env, [{"TMPDIR", Temporary} | environment(Config)]},
        exit_status,
        binary,
        stderr_to_stdout
    ]),
    ?assertMatch({0, _}, dyno_command:output(Port)),
    {ok, Pid} = file:read_file(filename:join(Work, "pid")),
    Folder = "dyno-" ++ string:trim(binary_to_list(Pid)),
    {ok, Left} = file:list_dir_all(Temporary),
    ?assertEqual(
        lists:sort(["dyno-2026-results", Folder ++ "-bench", Folder ++ "-vm-1"]), lists:sort(Left)
    ),
    ?assertEqual(
        {ok, ["dyno_bench_vm_server.beam"]},
        file:list_dir_all(filename:join(Temporary, Folder ++ "-bench"))
    ),
    ?assertEqual({ok, ~"victim"}, file:read_file(filename:join(Work, "victim"))).

crash(Config) ->
    Work = proplists:get_value(work, Config),
    {3, ~"", Error} = dyno(Config, ["test", "crash"], [{"TMPDIR", Work}]),
    ?assertEqual(1, length(binary:matches(Error, ~"\n"))),
    [File] = filelib:wildcard("dyno-crash-*.txt", Work),
    ?assertMatch({_, _}, binary:match(Error, list_to_binary(File))),
    {ok, Details} = file:read_file(filename:join(Work, File)),
    ?assertMatch({_, _}, binary:match(Details, ~"double_crashed")),
    {3, ~"", Shown} = dyno(Config, ["test", "crash"], [{"DYNO_DEBUG", "1"}]),
    ?assertMatch({_, _}, binary:match(Shown, ~"dyno_test:run/2")).

suite_output(Config) ->
    {0, Out, Error} = served(Config, ["test", "print", "--format", "json"]),
    ?assertMatch(#{}, json:decode(Out)),
    ?assertMatch({0, _}, binary:match(Error, ~"the suite prints this")).

quiet(Config) ->
    {0, ~"", ~""} = served(Config, ["test", "progress", "-q"]),
    {0, Json, ~""} = served(Config, ["test", "progress", "-q", "--format", "json"]),
    ?assertMatch(#{}, json:decode(Json)).

progress_lines(Config) ->
    {0, _, Few} = served(Config, ["test", "progress", "-o", "x.json"]),
    ?assertEqual(~"dyno: warning: the clock jumped\n", Few),
    {0, _, All} = served(Config, ["test", "progress", "-v", "-o", "x.json"]),
    ?assertEqual(1, length(binary:matches(All, ~"size 10: load"))),
    ?assertMatch({_, _}, binary:match(All, ~"9121 /s  15 s left")),
    ?assertEqual(nomatch, binary:match(All, [~"\r", ~"\e"])).

%% Root may write anywhere but into a full device.
unwritable(Config) ->
    {Status, _, Error} = served(Config, ["test", "pass", "-o", "/proc/x.json"]),
    ?assertEqual(2, Status),
    ?assertMatch({_, _}, binary:match(Error, ~"/proc/x.json: cannot be written")).

%% The path is right: it is the machine that cannot. Known before anything is measured.
disk_full(Config) ->
    Disk = filename:join(proplists:get_value(work, Config), "disk"),
    case dyno_disk:mount(Disk, 64) of
        ok ->
            try
                ok = dyno_disk:fill(Disk),
                [
                    begin
                        {Status, Out, Error} = served(Config, Arguments ++ ["-o", "disk/x.json"]),
                        ?assertEqual({3, ~""}, {Status, Out}, Error),
                        ?assertMatch({_, _}, binary:match(Error, ~"disk/x.json: the disk is full"))
                    end
                 || Arguments <- [["bench", "ok"], ["test", "pass"], ["report", fixture()]]
                ]
            after
                dyno_disk:unmount(Disk)
            end;
        Skip ->
            Skip
    end.

%% As in `dyno report ... | head -c 10`: enough output that the pipe cannot hold it all.
reader_gone(Config) ->
    {ok, Bytes} = file:read_file(fixture()),
    #{~"warnings" := [Warning]} = Document = json:decode(Bytes),
    Long = Warning#{~"text" := binary:copy(~"long ", 100_000)},
    Path = filename:join(proplists:get_value(work, Config), "long.json"),
    ok = file:write_file(Path, json:encode(Document#{~"warnings" := [Long]})),
    Line = "\"$0\" report long.json --format json 2>err | head -c 10; cat err",
    Arguments = ["-c", Line, proplists:get_value(escript, Config)],
    Work = proplists:get_value(work, Config),
    {0, Out} = command("/bin/sh", Arguments, Work, environment(Config)),
    ?assertEqual(10, byte_size(Out), Out).

%% The report is what a user wants: where it is lost, all was in vain.
device_full(Config) ->
    Escript = proplists:get_value(escript, Config),
    Work = proplists:get_value(work, Config),
    [
        begin
            Line = "\"$0\" " ++ Arguments ++ " 2>&1 >/dev/full",
            {Status, Out} = command(
                "/bin/sh", ["-c", Line, Escript], Work, environment(Config)
            ),
            Said = binary:matches(Out, ~"dyno: standard output: no space left on device\n"),
            ?assertMatch({3, [{0, _}]}, {Status, Said}, Out)
        end
     || {ok, _} <- [file:read_file_info("/dev/full")],
        Arguments <- [
            "bench 'lists:seq(1, 9)' -d 5 -r basic",
            "bench 'lists:seq(1, 9)' --for 20ms --format html",
            "--version",
            "report " ++ fixture(),
            "bench --help"
        ]
    ].

%% CI would be green: the status that the code gives must not become dyno's.
ended_by_what_it_ran(Config) ->
    [
        begin
            {Status, Out, Error} = dyno(Config, ["bench", Code, "--for", "5s"]),
            ?assertEqual({Code, 3, ~""}, {Code, Status, Out}),
            ?assertMatch({_, _}, binary:match(Error, ~"halt() or init:stop()"), {Code, Error}),
            ?assertEqual(1, length(binary:matches(Error, ~"\n")), Error)
        end
     || Code <- [
            "halt(0, [{flush, false}])", "init:stop()"
        ]
    ],
    {3, _, Killed} = dyno(Config, ["bench", "os:cmd(\"kill -KILL \" ++ os:getpid())"]),
    ?assertMatch({_, _}, binary:match(Killed, ~"Erlang VM was killed (status 137)")),
    %% Programs that the code starts are not asked for the mark.
    {0, _, _} = dyno(Config, ["bench", "false = os:getenv(\"DYNO_MARKED\")", "--for", "5ms"]).

%% There it is the code that failed.
ended_in_another_vm(Config) ->
    [
        begin
            {Status, Out, Error} = dyno(Config, ["bench", Code, "-i", "--vms", "6"]),
            ?assertEqual({1, ~""}, {Status, Out}, Error),
            ?assertMatch({_, _}, binary:match(Error, ~"look whether the code calls halt()"), Error)
        end
     || Code <- ["halt(0)", "init:stop(), timer:sleep(1000)"]
    ].

%% Signals

interrupt(Config) ->
    [
        begin
            Port = start(Config, ["test", "stop", "-v", "-o", "x.json"], []),
            Pid = await_error(Config, Port, ~"waiting for an interrupt"),
            kill(Signal, Pid),
            {130, Out} = dyno_command:output(Port),
            ?assertMatch({_, _}, binary:match(Out, ~"INTERRUPTED")),
            ?assert(filelib:is_regular(filename:join(proplists:get_value(work, Config), "x.json")))
        end
     || Signal <- ["TERM", "HUP" | ["INT" || not ignored(2)]]
    ].

%% What was started with nohup outlives its terminal.
hangup_ignored(Config) ->
    Port = start(Config, ["test", "stop", "-v"], [], "trap '' HUP; "),
    Pid = await_error(Config, Port, ~"waiting for an interrupt"),
    ?assertEqual([true, true], [ignored(1, P) || P <- [Pid, await_child(Pid)]]),
    kill("TERM", Pid),
    {130, _} = dyno_command:output(Port).

second_interrupt(Config) ->
    Port = start(Config, ["test", "deaf", "-v"], []),
    Pid = await_error(Config, Port, ~"deaf"),
    kill("TERM", Pid),
    _ = await_error(Config, Port, ~"interrupt again"),
    %% Signals that come close together are one interrupt: repeat until it is a second one.
    {130, _} = insist(Port, Pid).

interrupt_at_boot(Config) ->
    Port = start(Config, ["test", "stop"], []),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    await_child(Pid),
    kill("TERM", Pid),
    {130, _} = dyno_command:output(Port).

vm_killed(Config) ->
    Port = start(Config, ["test", "deaf", "-v"], []),
    Pid = await_error(Config, Port, ~"deaf"),
    kill("KILL", await_child(Pid)),
    {3, _} = dyno_command:output(Port),
    ?assertMatch({_, _}, binary:match(errors(Config), ~"Erlang VM was killed")).

other_shells(Config) ->
    Escript = proplists:get_value(escript, Config),
    [
        begin
            {Status, Out} = command(Program, Arguments, "/", environment(Config)),
            ?assertEqual({Name, 0}, {Name, Status}),
            ?assertMatch(<<"dyno ", _/binary>>, Out),
            ?assertEqual(1, length(binary:matches(Out, ~"\n")), Out)
        end
     || {Name, Flags} <- [{"dash", []}, {"bash", []}, {"bash", ["--posix"]}, {"escript", []}],
        Program <- [os:find_executable(Name)],
        is_list(Program),
        Arguments <- [Flags ++ [Escript, "--version"]]
    ].

%% Terminal

terminal(Config) ->
    Out = on_terminal(Config, "test progress -o x.json", [{"NO_COLOR", false}]),
    ?assertMatch({_, _}, binary:match(Out, ~"\r\e[K[2/3]")),
    ?assertMatch({_, _}, binary:match(Out, ~"\e[32mPASS")),
    %% The line is erased before anything else is written.
    ?assertMatch({_, _}, binary:match(Out, ~"\r\e[Kdyno: warning")),
    Plain = re:replace(Out, "\e\\[[0-9;]*[mK]", "", [global, {return, binary}]),
    Lines = binary:split(Plain, [~"\r", ~"\n"], [global]),
    ?assertEqual([], [Line || Line <- Lines, dyno_report_text:width(Line) > 70]).

%% A line that is broken cannot be erased.
narrow(Config) ->
    Out = on_terminal(Config, "test progress -o x.json", [], 27),
    [Progress | _] = binary:split(Out, ~"dyno: warning"),
    Lines = binary:split(Progress, [~"\r\e[K", ~"\n"], [global]),
    ?assertEqual([], [Line || Line <- Lines, dyno_report_text:width(Line) > 26]).

%% What is written to standard error is there before standard output goes on, also if it is read
%% late: else a progress line is erased with the result behind it.
errors_come_first(_Config) ->
    Code =
        "dyno_cli_terminal:write_error(lists:duplicate(100000, $x)), "
        "dyno_cli_terminal:print(\"result\n\"), halt()",
    Line = [
        "(erl -noshell -pa '",
        filename:dirname(code:which(dyno_cli_terminal)),
        "' -eval '",
        Code,
        "' 2>&1 >&3 | (sleep 0.5; echo read >&3; cat >/dev/null)) 3>&1"
    ],
    ?assertEqual("read\nresult\n", os:cmd(lists:flatten(Line))).

no_colour(Config) ->
    [
        begin
            Out = on_terminal(Config, "report " ++ fixture(), Environment),
            ?assertMatch({_, _}, binary:match(Out, ~"PASS")),
            ?assertEqual(nomatch, binary:match(Out, ~"\e["), Environment)
        end
     || Environment <- [[{"NO_COLOR", "1"}], [{"NO_COLOR", false}, {"TERM", "dumb"}]]
    ].

%% Helpers

double(Folder) ->
    Source = filename:join([Folder, "double", "dyno_test.erl"]),
    ok = filelib:ensure_dir(Source),
    {ok, _} = file:copy(data("dyno_test.double"), Source),
    {ok, dyno_test, Beam} = compile:file(Source, [binary]),
    Base = filename:rootname(Source),
    ok = file:write_file(Base ++ ".beam", Beam),
    Base.

fixture() -> data("recording.json").

data(Name) -> dyno_project:data(?MODULE, Name).

%% The same code without an emulator for each line: where only what is read and said matters.
served(Config, Arguments) ->
    dyno_command:ask(
        proplists:get_value(server, Config), proplists:get_value(work, Config), Arguments
    ).

%% The double is loaded before dyno looks for dyno_test.
environment(Config) ->
    Double = proplists:get_value(double, Config),
    Load = lists:flatten(io_lib:format("-eval code:load_abs(~w)", [Double])),
    [{"ERL_AFLAGS", Load}, {"DYNO_DOUBLE_RECORDING", fixture()}, {"DYNO_DEBUG", false}].

dyno(Config, Arguments) -> dyno(Config, Arguments, []).

dyno(Config, Arguments, Environment) ->
    Port = start(Config, Arguments, Environment),
    {Status, Out} = dyno_command:output(Port),
    {Status, Out, errors(Config)}.

start(Config, Arguments, Environment) ->
    start(Config, Arguments, Environment, "").

start(Config, Arguments, Environment, Before) ->
    Work = proplists:get_value(work, Config),
    %% What an earlier one said must not be taken for this one's.
    _ = file:delete(filename:join(Work, "../stderr")),
    Escript = proplists:get_value(escript, Config),
    Shell = ["-c", Before ++ "exec \"$0\" \"$@\" 2>../stderr", Escript | Arguments],
    open_port({spawn_executable, "/bin/sh"}, [
        {args, Shell},
        {cd, Work},
        {env, environment(Config) ++ Environment},
        exit_status,
        binary,
        use_stdio
    ]).

errors(Config) ->
    case file:read_file(filename:join(proplists:get_value(work, Config), "../stderr")) of
        {ok, Bytes} -> Bytes;
        {error, enoent} -> ~""
    end.

command(Program, Arguments, Folder, Environment) ->
    Port = open_port({spawn_executable, Program}, [
        {args, Arguments}, {cd, Folder}, {env, Environment}, exit_status, binary, stderr_to_stdout
    ]),
    {Status, Out} = dyno_command:output(Port),
    Status =:= 0 orelse ct:pal("~ts ~tp: ~b~n~ts", [Program, Arguments, Status, Out]),
    {Status, Out}.

%% Standard error is a file here: no event tells of its growth, so it is read until it has the text.
await_error(Config, Port, Text) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    dyno_suites:await(fun() -> binary:match(errors(Config), Text) =/= nomatch end),
    Pid.

%% The shell's child that has become the emulator, or is about to.
%% Linux may leave a child out of one reading of the list.
await_child(Pid) ->
    case programs(Pid) of
        [Child | _] ->
            Child;
        [] ->
            receive
            after 1 -> await_child(Pid)
            end
    end.

programs(Pid) ->
    [
        Child
     || {ok, Text} <- [file:read_file(io_lib:format("/proc/~b/task/~b/children", [Pid, Pid]))],
        Child <- [binary_to_integer(C) || C <- string:lexemes(Text, " \n")],
        {ok, Program} <- [file:read_file(io_lib:format("/proc/~b/comm", [Child]))],
        lists:member(string:trim(Program), [~"escript", ~"erl", ~"erlexec", ~"beam.smp"])
    ].

insist(Port, Pid) ->
    receive
        {Port, {exit_status, Status}} -> {Status, ~""};
        {Port, {data, _}} -> insist(Port, Pid)
    after 200 ->
        kill("TERM", Pid),
        insist(Port, Pid)
    end.

kill(Signal, Pid) ->
    _ = os:cmd("kill -" ++ Signal ++ " " ++ integer_to_list(Pid)),
    ok.

%% A signal that whoever started us ignores cannot be caught by a shell (POSIX, trap).
ignored(Signal) -> ignored(Signal, "self").

ignored(Signal, Pid) ->
    {ok, Status} = file:read_file(lists:concat(["/proc/", Pid, "/status"])),
    {match, [Mask]} = re:run(Status, "SigIgn:\\s*([0-9a-f]+)", [{capture, [1], binary}]),
    (binary_to_integer(Mask, 16) bsr (Signal - 1)) band 1 =:= 1.

on_terminal(Config, Arguments, Environment) ->
    on_terminal(Config, Arguments, Environment, 70).

on_terminal(Config, Arguments, Environment, Columns) ->
    Script = os:find_executable("script"),
    true = is_list(Script),
    Quoted = string:replace(proplists:get_value(escript, Config), "'", "'\\''", all),
    Line = lists:flatten(["stty cols ", integer_to_list(Columns), "; '", Quoted, "' ", Arguments]),
    All = environment(Config) ++ [{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}] ++ Environment,
    Work = proplists:get_value(work, Config),
    Last = maps:to_list(maps:from_list(All)),
    {0, Out} = command(Script, ["-qec", Line, "/dev/null"], Work, Last),
    Out.
