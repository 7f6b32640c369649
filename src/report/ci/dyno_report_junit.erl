%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_junit).
-moduledoc """
The decisions of a recording as JUnit XML, which CI systems show as tests.

Each verdict of a threshold or `--fail-if`, each pair of compared codes and each line of a
comparison is a test case. Only a verdict can fail; undecided pairs and pairs without a verdict are
skipped. An incomplete recording and a verdict without a value are errors.
""".

-behaviour(dyno_report).

-export([format/2]).

-import(dyno_report_document, [get/2, get/3, name/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    Cases = dyno_report_document:verdicts(Document) ++ pairs(Document) ++ changes(Document),
    Suite = name(~"name", Document),
    Class = ["dyno.", name(~"command", Document), ".", Suite],
    Counts = [
        {"tests", integer_to_list(length(Cases))},
        {"failures", counted(fail, Cases)},
        {"errors", counted(error, Cases)},
        {"skipped", counted(skipped, Cases)},
        {"time", seconds(Document)}
    ],
    Started = [{"timestamp", Text} || #{~"started_at" := Text} <- [Document], is_binary(Text)],
    {ok,
        dyno_report_text:encode([
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
            ["<testsuites", attributes([{"name", "dyno"} | Counts]), ">\n"],
            ["  <testsuite", attributes([{"name", Suite} | Counts ++ Started]), ">\n"],
            [testcase(Class, Case) || Case <- Cases],
            [
                ["    <system-out>", lists:map(fun escape/1, Said), "</system-out>\n"]
             || [_ | _] = Said <- [findings(Document) ++ failures(Document)]
            ],
            "  </testsuite>\n</testsuites>\n"
        ])}.

counted(Outcome, Cases) ->
    integer_to_list(length([Name || {Name, Of, _} <- Cases, Of =:= Outcome])).

seconds(Document) ->
    case get(~"duration_ns", Document) of
        Ns when is_number(Ns) -> float_to_list(Ns / 1.0e9, [{decimals, 3}]);
        _ -> "0"
    end.

findings(Document) ->
    [
        [string:uppercase(atom_to_list(Severity)), " ", dyno_report_findings:sentence(Finding), " "]
     || #{severity := Severity} = Finding <- dyno_report_findings:shown(Document)
    ].

failures(Document) ->
    [
        [name(~"reason", Row), " (", name(~"count", Row), " times): ", name(~"stack", Row), ". "]
     || Row <- dyno_report_content_tables:rows(~"errors", Document)
    ].

%% Cases

pairs(Document) ->
    [
        decided(
            [name(~"a", Row), " against ", name(~"b", Row)],
            Row,
            [ratio_of(get(~"parameters", Document, #{})), number(~"ratio", Row), interval(Row)]
        )
     || Row <- dyno_report_content_tables:rows(~"comparisons", Document)
    ].

ratio_of(Parameters) ->
    case dyno_report_document:text(~"metric", Parameters, ~"time") of
        ~"time" -> "the ratio of the times is ";
        Metric -> ["the ratio (", Metric, ") is "]
    end.

changes(Document) ->
    [
        decided(
            [name(~"item", Row), ": ", name(~"metric", Row)],
            Row,
            io_lib:format("~ts before, ~ts now, ratio ~ts~ts", [
                dyno_report_document:measured(get(~"old", Row), get(~"unit", Row, ~"1")),
                dyno_report_document:measured(get(~"new", Row), get(~"unit", Row, ~"1")),
                number(~"ratio", Row),
                interval(Row)
            ])
        )
     || Row <- dyno_report_content_tables:rows(~"changes", Document)
    ].

decided(Name, Row, Text) ->
    Verdict = name(~"verdict", Row),
    case Verdict of
        ~"undecided" -> {Name, skipped, ["not decided yet: ", Text]};
        ~"unknown" -> {Name, skipped, ["not known, the doubts say why: ", Text]};
        ~"one_run" -> {Name, skipped, ["no verdict, there is one run: ", Text]};
        _ -> {Name, pass, [Verdict, ": ", Text]}
    end.

number(Key, Row) ->
    case get(Key, Row) of
        Value when is_number(Value) -> float_to_binary(float(Value), [{decimals, 3}]);
        _ -> "not known"
    end.

interval(#{~"low" := Low, ~"high" := High} = Row) when is_number(Low), is_number(High) ->
    [" (", number(~"low", Row), " .. ", number(~"high", Row), ")"];
interval(_) ->
    "".

%% XML

testcase(Class, {Name, Outcome, Text}) ->
    Head = ["    <testcase", attributes([{"classname", Class}, {"name", Name}, {"time", "0"}])],
    Message = attributes([{"message", Text}]),
    case Outcome of
        pass when Text =:= "" -> [Head, "/>\n"];
        pass -> [Head, "><system-out>", escape(Text), "</system-out></testcase>\n"];
        fail -> [Head, "><failure", Message, ">", escape(Text), "</failure></testcase>\n"];
        error -> [Head, "><error", Message, ">", escape(Text), "</error></testcase>\n"];
        skipped -> [Head, "><skipped", Message, "/></testcase>\n"]
    end.

attributes(Pairs) ->
    [[" ", Name, "=\"", escape(Value), "\""] || {Name, Value} <- Pairs].

escape(Text) ->
    [escaped(Char) || Char <- unicode:characters_to_list(dyno_report_text:encode(Text))].

%% XML 1.0 has no form for control characters, not even escaped.
escaped($&) -> "&amp;";
escaped($<) -> "&lt;";
escaped($>) -> "&gt;";
escaped($") -> "&quot;";
escaped(Char) when Char =:= $\n; Char =:= $\t -> $\s;
escaped(Char) when Char < 16#20; Char =:= 16#FFFE; Char =:= 16#FFFF -> $?;
escaped(Char) -> Char.
