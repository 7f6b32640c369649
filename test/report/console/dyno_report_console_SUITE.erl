%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_SUITE).
-moduledoc "The console report: its whole text, its width, colour, and what a recording may lack.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        golden,
        fits_width,
        plain_without_colour,
        colour_changes_no_text,
        ascii,
        hostile_names,
        sentences_are_not_cut,
        bare_recordings,
        endings,
        registry,
        write_is_whole,
        fresh_nodes,
        alike_warnings,
        holding_thresholds,
        clocks,
        places,
        uncertain_functions,
        shares_of_two_samples,
        shares_of_no_function,
        cost_of_a_budget,
        words_where_codes_differ,
        sentences_of_many_codes,
        an_interrupted_squeeze,
        fewer_may_give_more,
        a_gain_that_is_not_sure
    ].

%% After a wanted change: copy the new text, which the failure names, over the golden file.
golden(Config) ->
    Text = render(recording(), #{}),
    New = filename:join(proplists:get_value(priv_dir, Config), "report.txt"),
    ok = file:write_file(New, Text),
    {ok, Golden} = file:read_file(data("report.txt")),
    case Text =:= Golden of
        true -> ok;
        false -> ct:fail("the report differs from the golden file; the new one is ~ts", [New])
    end.

fits_width(_Config) ->
    Document = recording(),
    [
        ?assert(dyno_report_text:width(Line) =< Width, {Width, Line})
     || Width <- [60, 72, 80, 100, 120],
        Charset <- [unicode, ascii],
        Line <- lines(render(Document, #{width => Width, charset => Charset}))
    ].

plain_without_colour(_Config) ->
    ?assertEqual(nomatch, binary:match(render(recording(), #{}), ~"\e")).

colour_changes_no_text(_Config) ->
    Document = recording(),
    Coloured = render(Document, #{colour => on}),
    ?assertMatch({_, _}, binary:match(Coloured, ~"\e[1;31mFAIL\e[0m")),
    Stripped = re:replace(Coloured, "\e\\[[0-9;]*m", "", [global, {return, binary}]),
    ?assertEqual(render(Document, #{}), Stripped).

ascii(_Config) ->
    Text = render(recording(), #{charset => ascii}),
    ?assertEqual([], [B || <<B>> <= Text, B > 126 orelse B < 32, B =/= $\n]).

hostile_names(_Config) ->
    Document = recording(),
    Name = <<"a\e[2J\nb", 16#FF, "\x{202E}c"/utf8>>,
    {ok, Report} = dyno_report:render(console, Document#{~"name" := Name}, #{}),
    Text = iolist_to_binary(Report),
    ?assertMatch(<<"a\\x{1B}[2J", _/binary>>, Text),
    ?assertEqual(~"日…本", dyno_report_text:shorten(~"日日本本本", 5, unicode)),
    ?assertEqual(4, dyno_report_text:width(~"日本")).

%% A reason that is cut says nothing.
sentences_are_not_cut(_Config) ->
    Why = ~"the monitor of <0.99.0> did not answer within 5 s, so 3 of 40 events were not seen",
    Verdict = #{
        ~"name" => ~"replied", ~"kind" => ~"property", ~"result" => ~"unknown", ~"text" => Why
    },
    Text = render((recording())#{~"verdicts" := [Verdict]}, #{width => 72}),
    Flat = re:replace(Text, "\\s+", " ", [global, {return, binary}]),
    ?assertNotEqual(nomatch, string:find(Flat, Why), Text).

%% What an interrupted writer left must still be shown.
bare_recordings(_Config) ->
    New = dyno_recording:new(test, ~"made", #{}, #{}),
    Bare = [
        New,
        dyno_recording:add_run(New, #{status => partial}),
        (recording())#{~"status" := ~"partial", ~"verdicts" := [], ~"duration_ns" := null}
    ],
    [?assertMatch(<<_, _/binary>>, render(Document, #{})) || Document <- Bare].

endings(_Config) ->
    Document = recording(),
    Verdict = fun(Name, Result) -> #{~"name" => Name, ~"result" => Result, ~"value" => null} end,
    Pass = Verdict(~"a", ~"pass"),
    Ending = fun(Changes) -> lists:last(lines(render(maps:merge(Document, Changes), #{}))) end,
    ?assertEqual(~"DONE: no thresholds were set", Ending(#{~"verdicts" => []})),
    ?assertEqual(~"PASSED: the threshold holds", Ending(#{~"verdicts" => [Pass, Pass]})),
    ?assertEqual(
        ~"FAILED: 1 of 2 thresholds did not hold",
        Ending(#{~"verdicts" => [Pass, Verdict(~"b", ~"pass"), Verdict(~"b", ~"fail")]})
    ),
    ?assertEqual(
        ~"FAILED: 1 of 2 thresholds could not be evaluated, so the test does not pass",
        Ending(#{~"verdicts" => [Pass, Verdict(~"b", ~"unknown")]})
    ),
    Change = fun(Name, Result) -> (Verdict(Name, Result))#{~"kind" => ~"change"} end,
    ?assertEqual(
        ~"PASSED: nothing changed that must not",
        Ending(#{~"verdicts" => [Change(~"slower > 5%", ~"pass")]})
    ),
    ?assertEqual(
        ~"FAILED: 1 of 2 unwanted changes happened",
        Ending(#{~"verdicts" => [Change(~"slower > 5%", ~"fail"), Change(~"gc > 5%", ~"pass")]})
    ),
    Error = #{~"code" => ~"x", ~"text" => ~"the node went away"},
    ?assertEqual(
        ~"COULD NOT FINISH: the node went away",
        Ending(#{~"status" => ~"failed", ~"error" => Error, ~"verdicts" => [Pass]})
    ),
    ?assertEqual(
        ~"COULD NOT FINISH: the node went away; 1 threshold had failed by then",
        Ending(#{
            ~"status" => ~"failed", ~"error" => Error, ~"verdicts" => [Pass, Verdict(~"b", ~"fail")]
        })
    ),
    ?assertMatch(<<"INTERRUPTED: ", _/binary>>, Ending(#{~"status" => ~"interrupted"})).

registry(_Config) ->
    ?assertEqual({ok, console}, dyno_report:format_of_file("a.TXT")),
    ?assertEqual({ok, json}, dyno_report:format_of_file(~"b/a.json")),
    {error, Extension} = dyno_report:format_of_file("a.pdf"),
    ?assertMatch({_, _}, binary:match(sentence(Extension), ~".txt, .json, .jsonl, .html")),
    {error, Name} = dyno_report:format_of_name(~"pdf"),
    ?assertMatch({_, _}, binary:match(sentence(Name), ~"console, json, jsonl, html")),
    {ok, Json} = dyno_report:render(json, #{~"a" => 1}, #{}),
    ?assertEqual(~"{\"a\":1}\n", iolist_to_binary(Json)).

write_is_whole(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Path = filename:join(Folder, "whole.txt"),
    ok = dyno_file:write(Path, ["a", ~"b"]),
    ?assertEqual({ok, ~"ab"}, file:read_file(Path)),
    {error, NoFolder} = dyno_file:write(filename:join([Folder, "no", "x.txt"]), "x"),
    ?assertMatch({_, _}, binary:match(sentence(NoFolder), ~"there is no folder")),
    {error, IsFolder} = dyno_file:write(Folder, "x"),
    ?assertMatch({_, _}, binary:match(sentence(IsFolder), ~"not a regular file")),
    ?assertEqual([], filelib:wildcard(".*.tmp", Folder)).

%% A node of another name for each run has the same role, and one table.
fresh_nodes(_Config) ->
    Document = recording(),
    Fresh = [
        begin
            Name = <<"target-", Id/binary, "@host">>,
            Run#{
                ~"nodes" := [#{~"name" => Name, ~"role" => ~"target"}],
                ~"series" := [S#{~"node" := ~"target"} || S <- Series]
            }
        end
     || #{~"id" := Id, ~"series" := Series} = Run <- maps:get(~"runs", Document)
    ],
    Section = fun(Text) ->
        [_, From] = binary:split(Text, ~"Virtual machine and machine\n"),
        hd(binary:split(From, ~"\n\n"))
    end,
    Table = Section(render(Document#{~"runs" := Fresh}, #{})),
    ?assertEqual(Section(render(Document, #{})), Table),
    ?assertEqual(1 + length(Fresh), length(lines(Table))).

alike_warnings(_Config) ->
    #{~"runs" := Runs} = Document = recording(),
    Warning = fun(Text) -> #{~"code" => ~"cut", ~"text" => Text} end,
    Warned = [
        Run#{~"warnings" := [Warning(<<"off by ", Id/binary>>)]}
     || #{~"id" := Id} = Run <- Runs
    ],
    Text = render(Document#{~"runs" := Warned, ~"warnings" := []}, #{}),
    ?assertMatch(
        {_, _}, binary:match(Text, ~"at 100 workers (and much the same at 1, 10): off by 100\n")
    ),
    ?assertEqual(1, length(binary:matches(Text, ~"off by"))).

places(_Config) ->
    [
        ?assertEqual(
            Said,
            dyno_report_document:place(
                #{~"id" => Id, ~"size" => 1}, #{~"parameters" => #{~"size_label" => Label}}
            ),
            {Label, Id}
        )
     || {Label, Id, Said} <- [
            {~"size", ~"16", ~"size 16"},
            {~"clients", ~"16", ~"16 clients"},
            {~"clients", ~"1", ~"1 client"},
            {~"queries", ~"1#2", ~"1#2 query"},
            {~"processes", ~"1", ~"1 process"},
            {~"requests/s", ~"1", ~"1 requests/s"},
            {~"number of requests", ~"10", ~"10 requests"}
        ]
    ].

%% A line for each clock that is off by more than it may be off by and than a millisecond.
clocks(_Config) ->
    #{~"runs" := [Run | _]} = Document = recording(),
    Node = fun(Name, Offset, Error) ->
        #{~"name" => Name, ~"clock_offset_ns" => Offset, ~"clock_error_ns" => Error}
    end,
    With = fun(Nodes) ->
        Lines = lines(render(Document#{~"runs" := [Run#{~"nodes" := Nodes}]}, #{})),
        [L || L <- Lines, binary:match(L, [~"Clocks of the", ~"@clocks"]) =/= nomatch]
    end,
    ?assertEqual(
        [
            ~"Clocks of the targets, against dyno's",
            ~"  a@clocks: 3.2 s ahead (+/- 41 us)",
            ~"  b@clocks: 2 ms behind (+/- 41 us)"
        ],
        With([Node(~"a@clocks", 3_200_000_000, 41_000), Node(~"b@clocks", -2_000_000, 41_000)])
    ),
    ?assertEqual(
        [],
        With([
            Node(~"a@clocks", 900_000, 41_000),
            Node(~"b@clocks", 2_000_000, 3_000_000),
            #{~"name" => ~"c@clocks"}
        ])
    ).

%% Limits from above and from below: the value nearest to the limit is the worst.
holding_thresholds(_Config) ->
    Verdict = fun(Name, Value, Run, Result) ->
        #{
            ~"kind" => ~"threshold",
            ~"name" => Name,
            ~"run" => Run,
            ~"result" => Result,
            ~"threshold" => #{~"value" => Value, ~"limit" => 10, ~"unit" => ~"count"}
        }
    end,
    Verdicts = [
        Verdict(~"a < 10", 3, ~"1", ~"pass"),
        Verdict(~"b > 10", 99, ~"1", ~"pass"),
        Verdict(~"c < 10", 4, ~"1", ~"pass"),
        Verdict(~"a < 10", 7, ~"10", ~"pass"),
        Verdict(~"b > 10", 12, ~"10", ~"pass"),
        Verdict(~"c < 10", 14, ~"10", ~"fail")
    ],
    Text = render((recording())#{~"verdicts" := Verdicts}, #{}),
    [_, Section] = binary:split(Text, ~"Thresholds\n"),
    Rows = [string:lexemes(Row, " ") || Row <- lists:sublist(tl(lines(Section)), 4)],
    ?assertEqual(
        [
            [~"PASS", ~"a", ~"<", ~"10", ~"7", ~"worst", ~"of", ~"2,", ~"at", ~"10"],
            [~"PASS", ~"b", ~">", ~"10", ~"12", ~"worst", ~"of", ~"2,", ~"at", ~"10"],
            [~"PASS", ~"c", ~"<", ~"10", ~"4", ~"1"],
            [~"FAIL", ~"c", ~"<", ~"10", ~"14", ~"10"]
        ],
        Rows
    ).

sentence(Reason) ->
    unicode:characters_to_binary(dyno_report:format_error(Reason)).

render(Document, Options) ->
    {ok, Text} = dyno_report:render(console, Document, Options),
    iolist_to_binary(Text).

lines(Text) ->
    binary:split(Text, ~"\n", [global, trim]).

recording() ->
    {ok, Bytes} = file:read_file(data("recording.json")),
    json:decode(Bytes).

data(Name) ->
    dyno_project:data(?MODULE, Name).

%% Times of functions with what they may be off by; calls that are estimated, or not counted.
uncertain_functions(_Config) ->
    Columns = [
        #{name => ~"function", title => ~"Function", type => string, role => key},
        value(~"calls", ~"Calls", integer, ~"count"),
        #{name => ~"counted", title => ~"Counted", type => string, role => note}
        | lists:append([
            [
                value(Name, Title, number, Unit),
                bound(Name, low, Unit),
                bound(Name, high, Unit)
            ]
         || {Name, Title, Unit} <- [
                {~"own_time", ~"Own time", ~"ns"}, {~"share", ~"Share", ~"ratio"}
            ]
        ])
    ],
    Rows = [
        [~"m:f/1", 65_900, ~"exact", 1.84e9, 1.7e9, 1.99e9, 0.5, 0.46, 0.54],
        [~"m:g/1", 24_100, ~"estimated", 1.0e9, 0.8e9, 1.3e9, 0.3, 0.25, 0.38],
        [~"m:h/1", null, ~"not counted", 0.5e9, 0.5e9, 0.5e9, 0.2, 0.2, 0.2],
        [~"m:i/1", 1, ~"exact", 3.0e6, 0, 11.0e6, 0.001, 0, 0.003],
        [~"m:j/1", 1, ~"exact", 0, 0, 11.0e6, 0, 0, 0.003],
        %% The times of the others are not known.
        [~"m:k/1", 1, ~"exact", 1.0e6, 1.0e6, 1.0e6, 0.269, 0.001, 0.3],
        [~"m:l/1", 1, ~"exact", 1.0e6, 1.0e6, 1.0e6, 0.8, 0.34, 1.0],
        [~"m:m/1", 1, ~"exact", 1.0e6, 1.0e6, 1.0e6, 0.8, 0.001, 1.0]
    ],
    ?assertEqual(
        [
            ~"function        calls      own              share",
            ~"m:f/1          65.9 k   1.84 s   +/- 8 %     50 %",
            ~"m:g/1         ~24.1 k      1 s  +/- 25 %     30 %",
            ~"m:h/1     not counted   500 ms               20 %",
            ~"m:k/1               1     1 ms             < 30 %",
            ~"m:l/1               1     1 ms             > 34 %",
            ~"m:m/1               1     1 ms                  -",
            ~"m:i/1               1  < 11 ms            < 0.3 %",
            ~"m:j/1               1  < 11 ms            < 0.3 %"
        ],
        [
            re:replace(Line, "^  |(?<=0 %) +#*$", "", [global, {return, binary}])
         || Line <- section(
                ~"Functions",
                of_run(#{
                    tables => [#{name => ~"functions", columns => Columns, rows => Rows}]
                })
            )
        ]
    ).

%% Both show the same function: that may have all of the time, and a third of it.
shares_of_two_samples(_Config) ->
    Profile = #{
        name => ~"profile",
        values => [#{name => ~"time", unit => ~"ns"}],
        observations => 2,
        frames => [~"m:f/1"],
        samples => [#{stack => [0], values => [1.0e9]}]
    },
    ?assertEqual(
        [
            ~"  function      time     share  with callees",
            ~"  m:f/1     > 342 ms  > 34.2 %      > 34.2 %"
        ],
        section(~"profile", of_run(#{profiles => [Profile]}))
    ).

%% Time whose function is not known has no rank, no bar and no interval.
shares_of_no_function(_Config) ->
    Profile = #{
        name => ~"profile",
        values => [#{name => ~"time", unit => ~"ns"}],
        observations => 1000,
        frames => [~"m:f/1", ~"(not seen)"],
        samples => [
            #{stack => [0], values => [0.4e9]}, #{stack => [0, 1], values => [0.6e9]}
        ]
    },
    ?assertEqual(
        [
            ~"  function        time   share           with callees",
            ~"  m:f/1         400 ms    40 %  +/- 3.1        > 37 %  ########",
            ~"  (not seen)  < 630 ms  < 63 %                 < 63 %"
        ],
        section(~"profile", of_run(#{profiles => [Profile]}))
    ).

value(Name, Title, Type, Unit) ->
    #{name => Name, title => Title, type => Type, unit => Unit, role => value}.

bound(Of, Role, Unit) ->
    #{
        name => <<Of/binary, "_", (atom_to_binary(Role))/binary>>,
        title => Of,
        type => number,
        unit => Unit,
        role => Role,
        'of' => Of
    }.

%% Without a run that is not measured there is still what the budget was spent on.
cost_of_a_budget(_Config) ->
    Metric = fun(Name, Value, Unit) -> #{name => Name, value => Value, unit => Unit} end,
    Spent = [
        Metric(~"instrument.spent", 0.031, ~"ratio"),
        Metric(~"instrument.stacks", 0.012, ~"ratio"),
        Metric(~"instrument.overhead", 50, ~"ns/call")
    ],
    ?assertEqual(
        [
            ~"  size  to measure calls, reckoned  to sample stacks",
            ~"     4                       3.1 %             1.2 %"
        ],
        section(~"Cost of measuring", of_run(#{metrics => Spent}))
    ).

of_run(Parts) ->
    Empty = dyno_recording:new(test, ~"made", #{}, #{}),
    dyno_recording:add_run(Empty, Parts#{id => ~"4", size => 4, status => complete}).

section(Title, Document) ->
    Lines = lines(render(Document, #{charset => ascii})),
    [_ | Rest] = lists:dropwhile(
        fun(Line) -> string:prefix(Line, Title) =:= nomatch end, Lines
    ),
    lists:takewhile(fun(Line) -> Line =/= ~"" end, Rest).

%% A benchmark's only table.
bench(Parameters, Table, Names, Rows) ->
    Columns = [#{~"name" => Name} || Name <- Names],
    Run = #{
        ~"id" => ~"1",
        ~"tables" => [#{~"name" => Table, ~"columns" => Columns, ~"rows" => Rows}]
    },
    #{~"status" => ~"complete", ~"parameters" => Parameters, ~"runs" => [Run]}.

text(Sections) ->
    Options = #{width => 100, colour => off, charset => unicode},
    Lines = [dyno_report_section:lines(Section, Options) || Section <- Sections],
    unicode:characters_to_binary(lists:join($\n, lists:append(Lines))).

codes(Words) ->
    Names = [
        ~"code",
        ~"time_per_call",
        ~"low",
        ~"high",
        ~"calls_per_second",
        ~"ratio",
        ~"ratio_low",
        ~"ratio_high",
        ~"verdict",
        ~"reductions_per_call",
        ~"words_per_call"
    ],
    Verdicts = [~"fastest" | lists:duplicate(length(Words) - 1, ~"same")],
    Rows = [
        [
            <<"lists:seq(1, 100000), ", (integer_to_binary(N))/binary>>,
            100.5,
            90.5,
            110.5,
            1.0e7,
            1.01,
            0.99,
            1.02,
            Verdict,
            17.25,
            Of
        ]
     || {N, Of, Verdict} <- lists:zip3(lists:seq(1, length(Words)), Words, Verdicts)
    ],
    text(dyno_report_content_bench:codes(bench(#{}, ~"codes", Names, Rows))).

%% Also in a pipe, which has 100 columns; what they do not differ in gives way.
words_where_codes_differ(_Config) ->
    ?assertMatch({match, _}, re:run(codes([18, 36]), "verdict +words\n")),
    ?assertEqual(nomatch, binary:match(codes([18, 36]), ~"reductions")),
    ?assertEqual(nomatch, binary:match(codes([18, 18]), ~"words")).

%% One for each of the next three; the table has the others' verdicts.
sentences_of_many_codes(_Config) ->
    Sentences = fun(Codes) ->
        length(binary:matches(codes(lists:duplicate(Codes, 18)), ~"No difference"))
    end,
    ?assertEqual([1, 3, 3, 3], [Sentences(Codes) || Codes <- [2, 4, 5, 20]]).

an_interrupted_squeeze(_Config) ->
    Names = [~"concurrency", ~"throughput", ~"verdict"],
    With = fun(OfTwo) ->
        Rows = [[1, 4.73e6, ~"best"], [2, OfTwo, null]],
        Document = (bench(#{}, ~"concurrencies", Names, Rows))#{~"status" => ~"interrupted"},
        Said = text(dyno_report_content_bench:concurrency(Document)),
        binary:replace(Said, ~"\n", ~" ")
    end,
    Least = ~"It was interrupted. Until then the throughput was highest with 1 worker: 4.73 M/s.",
    ?assertEqual(<<Least/binary, " 2 gave 10.2 M/s, not compared yet.">>, With(10.2e6)),
    ?assertEqual(Least, With(4.0e6)).

%% It was compared with another than the best, and may be better than both.
fewer_may_give_more(_Config) ->
    Names = [~"concurrency", ~"throughput", ~"ratio", ~"ratio_low", ~"ratio_high", ~"verdict"],
    Said = fun(OfTwo) ->
        Rows = [
            [1, 283.0, null, null, null, null],
            [2, OfTwo, 1.8, 0.9, 2.5, ~"undecided"],
            [3, 419.0, 1.48, 1.4, 1.6, ~"best"]
        ],
        Document = bench(#{}, ~"concurrencies", Names, Rows),
        binary:replace(
            text(dyno_report_content_bench:concurrency(Document)), ~"\n", ~" ", [global]
        )
    end,
    Doubt =
        ~" 2 may give more, not surely: 520 /s; longer samples (-d) or more of them (-s) would tell.",
    ?assertMatch({_, _}, binary:match(Said(520.0), Doubt)),
    ?assertEqual(nomatch, binary:match(Said(277.0), ~"not surely")).

a_gain_that_is_not_sure(_Config) ->
    Names = [~"concurrency", ~"throughput", ~"ratio", ~"ratio_low", ~"ratio_high", ~"verdict"],
    Said = fun(OfFour) ->
        Rows = [
            [1, 12.1e6, null, null, null, null],
            [2, 20.3e6, 1.67, 1.5, 1.8, ~"best"],
            [3, 20.1e6, 0.99, 0.9, 1.04, ~"same"],
            [4, 27.5e6 | OfFour]
        ],
        text(dyno_report_content_bench:concurrency(bench(#{}, ~"concurrencies", Names, Rows)))
    end,
    ?assertMatch(
        <<"2 workers give 20.3 M/s for sure; 4 give more, not surely: 1.350 times as much (0.950",
            _/binary>>,
        Said([1.35, 0.95, 1.6, ~"undecided"])
    ),
    ?assertEqual(
        ~"It saturates at 2 workers: 20.3 M/s. With 3, 4 it was not shown to be higher.",
        Said([1.01, 0.95, 1.04, ~"same"])
    ).
