%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_formats_SUITE).
-moduledoc "CSV, Markdown, JUnit XML and benchstat text, read back by rules of their own formats.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        csv_of_test,
        csv_of_bench,
        csv_quotes,
        markdown,
        markdown_escapes,
        junit_of_test,
        junit_of_bench,
        junit_hostile,
        junit_failed,
        benchstat_of_bench,
        benchstat_of_test,
        benchstat_refuses,
        endings
    ].

%% CSV

csv_of_test(_Config) ->
    [Head | Rows] = csv(render(csv, recording())),
    [?assertEqual(length(Head), length(Row), Row) || Row <- Rows],
    Values = [
        {Run, Item, Field, Value, Unit}
     || [Run, _, _, _, _, _, Item, Field, Value, Unit] <- Rows
    ],
    ?assert(lists:member({~"1", ~"throughput", ~"value", ~"1934.2", ~"1/s"}, Values)),
    ?assert(
        lists:member(
            {~"1", ~"cowboy_http:parse_header_name/4", ~"calls", ~"58026", ~"count"}, Values
        )
    ),
    Metrics = lists:append([Of || #{~"metrics" := Of} <- dyno_recording:runs(recording())]),
    ?assertEqual(length(Metrics), length([x || [_, _, _, _, ~"metrics" | _] <- Rows])).

csv_of_bench(_Config) ->
    [_ | Rows] = csv(render(csv, bench([~"a.", ~"b."]))),
    ?assertMatch(
        [~"100.0"],
        [V || [_, _, _, _, ~"codes", _, ~"a.", ~"time_per_call", V, ~"ns/call"] <- Rows]
    ).

csv_quotes(_Config) ->
    Label = ~"f(\"x,y\"),\n \"z\".",
    [_ | Rows] = csv(render(csv, bench([Label, ~"b."]))),
    ?assertMatch(
        [~"100.0"], [V || [_, _, _, _, ~"codes", _, L, ~"time_per_call", V, _] <- Rows, L =:= Label]
    ).

%% A reader of its own: RFC 4180, rule by rule.
csv(Text) -> csv(Text, <<>>, [], []).

csv(<<>>, <<>>, [], Lines) ->
    lists:reverse(Lines);
csv(<<$", Rest/binary>>, <<>>, Fields, Lines) ->
    quoted(Rest, <<>>, Fields, Lines);
csv(<<$,, Rest/binary>>, Field, Fields, Lines) ->
    csv(Rest, <<>>, [Field | Fields], Lines);
csv(<<"\r\n", Rest/binary>>, Field, Fields, Lines) ->
    csv(Rest, <<>>, [], [lists:reverse(Fields, [Field]) | Lines]);
csv(<<Char, Rest/binary>>, Field, Fields, Lines) when Char =/= $", Char =/= $\r, Char =/= $\n ->
    csv(Rest, <<Field/binary, Char>>, Fields, Lines).

quoted(<<"\"\"", Rest/binary>>, Field, Fields, Lines) ->
    quoted(Rest, <<Field/binary, $">>, Fields, Lines);
quoted(<<"\",", Rest/binary>>, Field, Fields, Lines) ->
    csv(Rest, <<>>, [Field | Fields], Lines);
quoted(<<"\"\r\n", Rest/binary>>, Field, Fields, Lines) ->
    csv(Rest, <<>>, [], [lists:reverse(Fields, [Field]) | Lines]);
quoted(<<Char, Rest/binary>>, Field, Fields, Lines) when Char =/= $" ->
    quoted(Rest, <<Field/binary, Char>>, Fields, Lines).

%% Markdown

markdown(_Config) ->
    Test = render(md, recording()),
    [
        ?assertMatch({_, _}, binary:match(Test, Part), Part)
     || Part <- [
            ~"### cowboy\\_http", ~"| FAIL | latency.p99 &lt; 20 ms", ~"**Load**", ~"24.4 ms"
        ]
    ],
    Bench = render(md, bench([~"a.", ~"b."])),
    ?assertMatch({_, _}, binary:match(Bench, ~"| b. | 200 ns | 2.00 | 1.900 .. 2.10 | slower |")),
    ?assertEqual(nomatch, binary:match(Bench, ~"**Load**")).

%% A row keeps its cells, nobody is mentioned, nothing is a tag or an address.
markdown_escapes(_Config) ->
    Label = ~"a || <b> @erlang #1 `x` http://e.org\n\n# y",
    Text = render(md, bench([Label, ~"b."])),
    [Row] = [Line || Line <- binary:split(Text, ~"\n", [global]), has(Line, ~"100 ns")],
    ?assertEqual(7, length(re:split(Row, ~"(?<!\\\\)\\|")) - 1),
    [?assertEqual(nomatch, binary:match(Row, Part), Part) || Part <- [~"<", ~"@", ~"://", ~" #"]].

has(Text, Part) -> binary:match(Text, Part) =/= nomatch.

%% JUnit

junit_of_test(_Config) ->
    Xml = xml(render(junit, recording())),
    Cases = xmerl_xpath:string("//testcase", Xml),
    ?assertEqual(
        length(Cases), list_to_integer(text(xmerl_xpath:string("/testsuites/@tests", Xml)))
    ),
    ?assertMatch([_], xmerl_xpath:string("//testcase/failure", Xml)),
    ?assertEqual("1", text(xmerl_xpath:string("//testsuite/@failures", Xml))),
    ?assertEqual(
        "latency.p99 < 20 ms (run 100)",
        text(xmerl_xpath:string("//testcase[failure]/@name", Xml))
    ),
    ?assertEqual(
        "latency.p99 is 24.4 ms at size 100, limit < 20 ms",
        text(xmerl_xpath:string("//failure/@message", Xml))
    ),
    ?assertMatch([_], xmerl_xpath:string("//testcase/error", Xml)).

junit_of_bench(_Config) ->
    Xml = xml(render(junit, bench([~"a.", ~"b."]))),
    ?assertEqual(
        "b. against a.",
        text(xmerl_xpath:string("//testcase[system-out]/@name", Xml))
    ),
    ?assertEqual([], xmerl_xpath:string("//failure", Xml)),
    Undecided = xml(render(junit, bench([~"a.", ~"b."], ~"undecided"))),
    ?assertMatch([_], xmerl_xpath:string("//testcase/skipped", Undecided)).

junit_hostile(_Config) ->
    Label = <<"]]> & <x y=\"'\"> ", 0, 1, 27, 16#EF, 16#BF, 16#BE, "\x{1F600}"/utf8>>,
    Xml = xml(render(junit, bench([Label, ~"b."]))),
    ?assertMatch([_, _], xmerl_xpath:string("//testcase", Xml)).

junit_failed(_Config) ->
    Error = #{~"code" => ~"x", ~"text" => ~"the node went away"},
    Xml = xml(render(junit, (recording())#{~"status" := ~"failed", ~"error" := Error})),
    ?assertEqual(
        "failed: the node went away",
        text(xmerl_xpath:string("//testcase[@name='completed']/error/@message", Xml))
    ).

xml(Text) ->
    {Xml, []} = xmerl_scan:string(binary_to_list(Text), [{quiet, true}]),
    Xml.

%% Without the header, whose records the compiler's flags refuse: #xmlAttribute.value.
text([Attribute]) when element(1, Attribute) =:= xmlAttribute -> element(9, Attribute).

%% benchstat

%% x/perf/benchfmt: "Benchmark" and no small letter, then iterations, then pairs of value and unit.
benchstat_of_bench(_Config) ->
    Lines = results(render(benchstat, bench([~"lists:seq(1, 9).", ~"B."]))),
    ?assertEqual(14, length(Lines)),
    Times = [Time || [~"Benchmark_lists:seq(1,_9).-4", ~"1000", Time, ~"ns/op" | _] <- Lines],
    ?assertEqual(7, length(Times)),
    ?assertEqual(~"100.0", hd(lists:sort(Times))),
    ?assertEqual(7, length([x || [~"BenchmarkB.-4", ~"1000", _, ~"ns/op" | _] <- Lines])).

benchstat_of_test(_Config) ->
    Lines = results(render(benchstat, recording())),
    ?assertEqual(3, length(Lines)),
    [?assertEqual(0, length(Line) rem 2, Line) || Line <- Lines],
    ?assertMatch(
        [[~"Benchmark_cowboy_http/size=1-2", ~"19342", ~"481000", ~"p50-ns" | _] | _], Lines
    ).

results(Text) ->
    [
        string:lexemes(Line, " \t")
     || Line <- binary:split(Text, ~"\n", [global, trim]),
        re:run(Line, "^[a-z]+: ", [{capture, none}]) =:= nomatch
    ].

benchstat_refuses(_Config) ->
    {error, Reason} = dyno_report:render(benchstat, (recording())#{~"runs" := []}, #{}),
    ?assertMatch(
        {_, _}, binary:match(iolist_to_binary(dyno_report:format_error(Reason)), ~"dyno bench")
    ).

endings(_Config) ->
    [
        ?assertEqual({ok, Format}, dyno_report:format_of_file(File))
     || {Format, File} <- [{csv, "a.csv"}, {md, "a.MD"}, {junit, "a.xml"}, {console, "a.txt"}]
    ],
    ?assertEqual({ok, benchstat}, dyno_report:format_of_name(~"benchstat")).

%% Recordings

render(Format, Document) ->
    {ok, Report} = dyno_report:render(Format, Document, #{}),
    iolist_to_binary(Report).

recording() ->
    Path = filename:join([dyno_project:root(), "test/cli/dyno_cli_SUITE_data/recording.json"]),
    {ok, Document} = dyno_recording_file:read(Path),
    Document.

bench(Labels) -> bench(Labels, ~"slower").

bench([A, B], Verdict) ->
    Names = fun(Of) ->
        [
            #{name => Name, type => Type, unit => Unit, role => Role}
         || {Name, Type, Unit} <- Of,
            Role <- [maps:get(Name, #{code => key, verdict => note}, value)]
        ]
    end,
    Document = dyno_recording:new(bench, ~"2 codes", #{}, #{schedulers_online => 4}),
    Codes = Names([
        {code, string, undefined},
        {time_per_call, number, ~"ns/call"},
        {ratio, number, ~"1"},
        {ratio_low, number, ~"1"},
        {ratio_high, number, ~"1"},
        {verdict, string, undefined},
        {reductions_per_call, number, ~"1"},
        {iterations, integer, ~"count"}
    ]),
    Pairs = Names([
        {a, string, undefined},
        {b, string, undefined},
        {ratio, number, ~"1"},
        {low, number, ~"1"},
        {high, number, ~"1"},
        {verdict, string, undefined}
    ]),
    Run = #{
        id => ~"1",
        size => 1,
        status => complete,
        series => [
            #{
                name => ~"bench.time",
                group => bench,
                unit => ~"ns/call",
                labels => #{code => Label},
                times_ms => lists:seq(1, 7),
                values => [Time + N || N <- lists:seq(0, 6)]
            }
         || {Label, Time} <- [{A, 100.0}, {B, 200.0}]
        ],
        tables => [
            #{
                name => codes,
                columns => Codes,
                rows => [
                    [A, 100.0, 1.0, null, null, ~"fastest", 10.0, 1000],
                    [B, 200.0, 2.0, 1.9, 2.1, Verdict, 20.0, 1000]
                ]
            },
            #{name => comparisons, columns => Pairs, rows => [[B, A, 2.0, 1.9, 2.1, Verdict]]}
        ]
    },
    dyno_recording:put(dyno_recording:add_run(Document, Run), status, complete).
