%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_findings).
-moduledoc """
The findings of a recording for the console: the worst first, each with what shows it, why it
matters, what to do, and the command that looks closer; then what was looked at, and what could not
be told.
""".

-export([format/2, lines_of/2]).

-define(INDENT, 10).
-define(WIDTH, 100).
%% Of a recording that shows more.
-define(MOST, 5).

-doc "The text, in lines of the width of the look.".
-spec format(dyno_recording:document(), dyno_report:options()) -> iodata().
format(#{~"runs" := Runs, ~"name" := Name} = Document, Look) ->
    Width = min(?WIDTH, maps:get(width, Look, 80)),
    Colour = maps:get(colour, Look, off),
    Findings = lists:append([dyno_finding:read(Run) || Run <- Runs]),
    Several = length(lists:append([Nodes || #{~"nodes" := Nodes} <- Runs])) > 1,
    Verdicts = [V || #{~"kind" := ~"finding"} = V <- maps:get(~"verdicts", Document, [])],
    [
        [Name, ": ", counted(Findings, Runs), $\n],
        [["\n", finding(Node, Finding, Several, Width, Colour)] || {Node, Finding} <- Findings],
        ["\n", looked_at(Findings, Verdicts, Width)],
        unknown(Runs, Width),
        [lines([Kind, Text], Width) || {Kind, Text} <- said(Document)],
        cost(Runs, Width)
    ].

-doc "The critical findings and the warnings of a recording that has more to show, each in lines.".
-spec lines_of(dyno_recording:document(), dyno_report:options()) -> [[binary()]].
lines_of(Document, #{width := Given, colour := Colour}) ->
    Width = min(?WIDTH, Given),
    Runs = dyno_recording:runs(Document),
    Findings = [
        F
     || Run <- Runs, {_, #{severity := Severity}} = F <- dyno_finding:read(Run), Severity =/= note
    ],
    Several = length(lists:append([Nodes || #{~"nodes" := Nodes} <- Runs])) > 1,
    [
        binary:split(
            unicode:characters_to_binary(finding(Node, Finding, Several, Width, Colour)),
            ~"\n",
            [global, trim_all]
        )
     || {Node, Finding} <- lists:sublist(Findings, ?MOST)
    ].

counted(Findings, Runs) ->
    Count = fun(Severity) ->
        length([F || {_, #{severity := S} = F} <- Findings, S =:= Severity])
    end,
    Parts = [
        several(N, Word)
     || {Severity, Word} <- [{critical, "critical finding"}, {warning, "warning"}, {note, "note"}],
        N <- [Count(Severity)],
        N > 0
    ],
    Looks = length([
        1
     || #{~"events" := #{~"items" := Items}} <- Runs, #{~"kind" := ~"look"} <- Items
    ]),
    Text =
        case Parts of
            [] when Looks < 2 -> "nothing is known";
            [] -> "nothing is wrong";
            _ -> lists:join(", ", Parts)
        end,
    case Looks of
        0 when Parts =:= [] -> Text;
        0 -> [Text, ", seen from outside"];
        _ -> [Text, io_lib:format(" (~b looks in ~ts)", [Looks, span(Runs)])]
    end.

several(1, Word) -> ["1 ", Word];
several(N, Word) -> [integer_to_binary(N), " ", Word, "s"].

span(Runs) ->
    dyno_unit:format(
        lists:max([0 | [Ns || #{~"duration_ns" := Ns} <- Runs, is_number(Ns)]]), ~"ns", 2
    ).

finding(Node, Finding, Several, Width, Colour) ->
    #{severity := Severity, text := Text, evidence := Evidence, why := Why} = Finding,
    #{advice := Advice, look_closer := Command} = Finding,
    Of =
        case Several of
            true -> [Node, ": "];
            false -> ""
        end,
    [
        head(Severity, [Of, capital(Text)], Width, Colour),
        [part("", Evidence, Width) || Evidence =/= ~""],
        [part("Why: ", Why, Width) || Why =/= ~""],
        [part("Do: ", Advice, Width) || Advice =/= ~""],
        [[lists:duplicate(?INDENT, $\s), "Look closer: ", Command, $\n] || Command =/= ~""]
    ].

head(Severity, Text, Width, Colour) ->
    [First | Rest] = wrapped(Text, Width),
    Word = string:pad(string:uppercase(atom_to_list(Severity)), ?INDENT),
    [
        [dyno_report_style:paint(Colour, style(Severity), Word), First, $\n],
        [[lists:duplicate(?INDENT, $\s), Line, $\n] || Line <- Rest]
    ].

style(critical) -> bad;
style(warning) -> doubtful;
style(note) -> dim.

part(Label, Text, Width) ->
    [[lists:duplicate(?INDENT, $\s), Line, $\n] || Line <- wrapped([Label, capital(Text)], Width)].

wrapped(Text, Width) ->
    dyno_report_text:wrap(unicode:characters_to_binary(Text), Width - ?INDENT).

%% A name keeps its spelling.
capital(Text) -> Text.

looked_at(Findings, Verdicts, Width) ->
    Known = [Title || #{~"name" := Title, ~"result" := Is} <- Verdicts, Is =/= ~"unknown"],
    Titles = lists:uniq(Known),
    Text =
        case {Findings, Titles} of
            {_, []} -> [];
            {[], _} -> ["Nothing found. Looked at: ", lists:join(", ", Titles), "."];
            {_, [_]} -> "What goes on inside the node could not be looked at.";
            _ -> ["Looked at ", integer_to_binary(length(Titles)), " things; all else is well."]
        end,
    lines(Text, Width).

%% Why it is not complete, and what stayed in the node.
said(Document) ->
    [{"Error: ", Text} || #{~"text" := Text} <- [maps:get(~"error", Document, null)]] ++
        [{"Warning: ", Text} || #{~"text" := Text} <- maps:get(~"warnings", Document, [])].

lines(Text, Width) ->
    [[Line, $\n] || Line <- dyno_report_text:wrap(unicode:characters_to_binary(Text), Width)].

unknown(Runs, Width) ->
    Texts = lists:uniq([
        Text
     || #{~"warnings" := Of} <- Runs, #{~"code" := ~"not_known", ~"text" := Text} <- Of
    ]),
    [lines(["Not known: ", lists:join("; ", Texts), "."], Width) || Texts =/= []].

cost(Runs, Width) ->
    Value = fun(Name) ->
        [
            Ns
         || Run <- Runs,
            {ok, #{~"value" := Ns}} <- [dyno_recording:metric(Run, Name)],
            is_number(Ns)
        ]
    end,
    Duration = lists:sum([Ns || #{~"duration_ns" := Ns} <- Runs, is_number(Ns)]),
    Text =
        case {Value(~"instrument.looking"), Value(~"instrument.visit")} of
            {[Looking], Visit} when Duration > 0 ->
                [
                    "Looking took about ",
                    dyno_unit:format(Looking, ~"ns"),
                    ", ",
                    dyno_unit:format(Looking / Duration, ~"ratio"),
                    " of one scheduler",
                    [[", attaching and leaving ", dyno_unit:format(Ns, ~"ns")] || Ns <- Visit],
                    "."
                ];
            _ ->
                ""
        end,
    lines(Text, Width).
