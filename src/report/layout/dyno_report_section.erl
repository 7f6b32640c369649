%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_section).
-moduledoc false.
%% A section of a report: a title with a table, paragraphs, or findings.
%%
%% A report's content is computed once, as sections (`m:dyno_report_content`); the console and
%% Markdown only write them differently.

-export([table/3, table/4, text/2, findings/3, word/1, lines/2]).

-export_type([section/0, table/0, text/0, findings/0, column/1, look/0]).

%% The width of the severity before a finding.
-define(MARGIN, 10).

-type section() :: table() | text() | findings().

-type table() :: #{
    title := binary(),
    columns := [dyno_report_table:column()],
    rows := [[dyno_report_table:cell()], ...],
    hidden := non_neg_integer()
}.

-doc "Paragraphs; the title `none` continues the section before.".
-type text() :: #{title := binary() | none, paragraphs := [binary(), ...]}.

-type findings() :: #{
    title := binary() | none,
    findings := [dyno_report_findings:shown(), ...],
    hidden := non_neg_integer()
}.

-doc "A column: title, alignment, and a cell for an item.".
-type column(Item) :: {Title :: binary(), look(), fun((Item) -> dyno_report_table:cell())}.

-doc """
Names may be shortened to fit, and sentences broken into lines; `note` (left-aligned) and `optional`
(numbers, right-aligned) may be left out.
""".
-type look() :: name | sentence | word | note | number | optional.

-doc "A table section with a row for each item; none without items.".
-spec table(binary(), [column(Item)], [Item]) -> [table()].
table(Title, Columns, Items) ->
    table(Title, Columns, Items, length(Items)).

-doc "Like `table/3`, with at most this number of items.".
-spec table(binary(), [column(Item)], [Item], non_neg_integer()) -> [table()].
table(_Title, _Columns, [], _Total) ->
    [];
table(Title, Columns, Items, Total) ->
    [
        #{
            title => Title,
            columns => [(look(Look))#{title => Heading} || {Heading, Look, _} <- Columns],
            rows => [[Show(Item) || {_, _, Show} <- Columns] || Item <- Items],
            hidden => Total - length(Items)
        }
    ].

look(name) -> #{align => left, fit => flexible};
look(sentence) -> #{align => left, fit => sentence};
look(word) -> #{align => left};
look(note) -> #{align => left, fit => optional};
look(number) -> #{align => right};
look(optional) -> #{align => right, fit => optional}.

-doc "A section of paragraphs; none without paragraphs.".
-spec text(binary() | none, [binary()]) -> [text()].
text(_Title, []) -> [];
text(Title, Paragraphs) -> [#{title => Title, paragraphs => Paragraphs}].

-doc "A section of the first findings, up to a number; none without findings.".
-spec findings(binary() | none, [dyno_report_findings:shown()], non_neg_integer()) -> [findings()].
findings(_Title, [], _Total) ->
    [];
findings(Title, Findings, Total) ->
    [#{title => Title, findings => Findings, hidden => Total - length(Findings)}].

-spec word(json:decode_value()) -> dyno_report_table:cell().
word(~"pass") ->
    {good, ~"PASS"};
word(~"fail") ->
    {bad, ~"FAIL"};
word(~"unknown") ->
    {doubtful, ~"UNKNOWN"};
word(~"best") ->
    {good, ~"best"};
word(~"undecided") ->
    {doubtful, ~"not decided"};
word(~"one_run") ->
    ~"one run";
word(Worse) when Worse =:= ~"slower"; Worse =:= ~"more" -> {bad, Worse};
word(Usual) when
    Usual =:= ~"fastest"; Usual =:= ~"least"; Usual =:= ~"kept"; Usual =:= ~"measured"
->
    ~"";
word(~"called_too_often") ->
    ~"given up: called too often";
word(~"never_returns") ->
    ~"given up: does not return";
word(~"reloaded") ->
    ~"given up: its module was loaded again";
word(Text) when is_binary(Text) -> dyno_text:clean(Text);
word(_) ->
    ~"".

-spec lines(section(), dyno_report:options()) -> [iodata()].
lines(#{columns := Columns, rows := Rows, hidden := Hidden} = Section, Options) ->
    Layout = (maps:with([width, colour, charset], Options))#{indent => 2},
    heading(Section, Options) ++
        dyno_report_table:lines(Columns, Rows, Layout) ++
        more(Hidden, Options);
lines(#{title := Title, findings := Findings, hidden := Hidden} = Section, Options) ->
    %% Findings of several lines are separated.
    Apart = [~"" || Title =:= none],
    Lines = lists:append(lists:join(Apart, [finding(Finding, Options) || Finding <- Findings])),
    case Title of
        none -> Lines;
        _ -> heading(Section, Options) ++ [["  ", Line] || Line <- Lines] ++ more(Hidden, Options)
    end;
lines(#{title := none, paragraphs := Paragraphs}, #{width := Width}) ->
    lists:append([dyno_report_text:wrap(Text, Width) || Text <- Paragraphs]);
lines(#{paragraphs := Paragraphs} = Section, Options) ->
    heading(Section, Options) ++ lists:append([paragraph(Text, Options) || Text <- Paragraphs]).

finding(#{severity := Severity, text := Text, lines := Lines}, #{colour := Colour} = Options) ->
    Width = map_get(width, Options) - ?MARGIN - 2,
    Word = string:pad(string:uppercase(atom_to_list(Severity)), ?MARGIN),
    {First, Rest} =
        case dyno_report_text:wrap(Text, Width) of
            [] -> {~"", []};
            [Begin | More] -> {Begin, More}
        end,
    Behind = Rest ++ lists:append([wrapped(Label, Of, Width) || {Label, Of} <- Lines]),
    [
        [dyno_report_style:paint(Colour, style(Severity), Word), First]
        | [[lists:duplicate(?MARGIN, $\s), Line] || Line <- Behind]
    ].

wrapped(~"Look closer", Command, _Width) -> [[~"Look closer: ", Command]];
wrapped(~"", Text, Width) -> dyno_report_text:wrap(Text, Width);
wrapped(Label, Text, Width) -> dyno_report_text:wrap(<<Label/binary, ": ", Text/binary>>, Width).

style(critical) -> bad;
style(note) -> dim;
style(_) -> doubtful.

heading(#{title := Title}, #{width := Width, charset := Charset, colour := Colour}) ->
    [dyno_report_style:paint(Colour, title, dyno_report_text:shorten(Title, Width, Charset))].

more(0, _Options) ->
    [];
more(Hidden, #{colour := Colour}) ->
    Text = ["  and ", dyno_unit:format(Hidden, ~"count"), " more in the recording"],
    [dyno_report_style:paint(Colour, dim, Text)].

paragraph(Text, #{width := Width}) ->
    Behind =
        case re:run(Text, ~"^[0-9]+\\. ", [{capture, none}]) of
            match -> 5;
            nomatch -> 2
        end,
    case dyno_report_text:wrap(Text, max(20, Width - Behind)) of
        [] -> [];
        [First | Rest] -> [["  ", First] | [[lists:duplicate(Behind, $\s), Line] || Line <- Rest]]
    end.
