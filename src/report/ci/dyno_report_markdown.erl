%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_markdown).
-moduledoc "A recording as Markdown for a pull request; names cannot format, mention or link.".

-behaviour(dyno_report).

-export([format/2]).

-import(dyno_report_document, [get/2, name/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, Options) ->
    Sections = dyno_report_content:sections(Document, maps:merge(#{top => 10}, Options)),
    {Summary, Details} = lists:partition(fun({Weight, _}) -> Weight =:= summary end, Sections),
    Blocks =
        [heading(Document), failure(Document)] ++
            sections(dyno_report_content_verdicts:sections(Document)) ++
            sections(dyno_report_findings:first(Document, #{})) ++
            sections([Section || {_, Section} <- Summary]) ++
            sections(dyno_report_findings:others(Document, #{})) ++
            details(sections([Section || {_, Section} <- Details]), Summary),
    {ok, dyno_report_text:encode(lists:join("\n", [Block || Block <- Blocks, Block =/= []]))}.

heading(Document) ->
    Facts = dyno_report_content:environment(Document),
    [
        ["### ", escape(name(~"name", Document)), ": ", escape(name(~"status", Document)), "\n"],
        [["\n", lists:join(", ", [escape(Fact) || Fact <- Facts]), "\n"] || Facts =/= []]
    ].

failure(Document) ->
    case get(~"error", Document) of
        #{~"text" := Text} when is_binary(Text) -> ["**", escape(Text), "**\n"];
        _ -> []
    end.

%% If there is nothing else, nothing is folded.
details([], _Summary) ->
    [];
details(Details, []) ->
    Details;
details(Details, _Summary) ->
    ["<details><summary>Details</summary>\n"] ++ Details ++ ["</details>\n"].

sections(Sections) ->
    lists:map(fun section/1, Sections).

section(#{title := Title, findings := Findings, hidden := Hidden}) ->
    [
        ["**", escape(Title), "**\n\n"],
        [
            io_lib:format("- ~ts ~ts~n", [
                string:uppercase(atom_to_list(Severity)),
                escape(dyno_report_findings:sentence(Finding))
            ])
         || #{severity := Severity} = Finding <- Findings
        ],
        more(Hidden)
    ];
section(#{title := none, paragraphs := Paragraphs}) ->
    lists:join("\n", [[escape(Text), "\n"] || Text <- Paragraphs]);
section(#{title := Title, paragraphs := Paragraphs}) ->
    ["**", escape(Title), "**\n\n", [["- ", escape(Text), "\n"] || Text <- Paragraphs]];
section(#{title := Title, columns := Columns, rows := Rows, hidden := Hidden}) ->
    Texts = [[text(Cell) || Cell <- Row] || Row <- Rows],
    %% Drops columns that are empty in every row.
    Shown = [
        lists:any(fun(Row) -> not lists:member(lists:nth(Index, Row), [~"", ~"-"]) end, Texts)
     || Index <- lists:seq(1, length(Columns))
    ],
    Kept = fun(Cells) -> [Cell || {Cell, true} <- lists:zip(Cells, Shown)] end,
    [
        ["**", escape(Title), "**\n\n"],
        line([escape(map_get(title, Column)) || Column <- Kept(Columns)]),
        line([rule(map_get(align, Column)) || Column <- Kept(Columns)]),
        [line([escape(Text) || Text <- Kept(Row)]) || Row <- Texts],
        more(Hidden)
    ].

more(0) -> [];
more(Hidden) -> ["\nand ", integer_to_binary(Hidden), " more in the recording\n"].

text({bar, _}) -> ~"";
text({_Style, Text}) -> Text;
text(Text) -> Text.

line(Cells) ->
    ["| ", lists:join(" | ", Cells), " |\n"].

rule(left) -> ":--";
rule(right) -> "--:".

%% `@` and `#` as entities: after a backslash they would still mention a person or an issue.
escape(Text) ->
    Characters = [escaped(C) || C <- unicode:characters_to_list(dyno_text:clean(Text))],
    %% Otherwise addresses become links.
    string:replace(unicode:characters_to_binary(Characters), "://", "&#58;//", all).

escaped($<) ->
    "&lt;";
escaped($>) ->
    "&gt;";
escaped($&) ->
    "&amp;";
escaped($@) ->
    "&#64;";
escaped($#) ->
    "&#35;";
escaped(Char) when
    Char =:= $\\;
    Char =:= $`;
    Char =:= $*;
    Char =:= $_;
    Char =:= ${;
    Char =:= $};
    Char =:= $[;
    Char =:= $];
    Char =:= $|;
    Char =:= $~;
    Char =:= $$
->
    [$\\, Char];
escaped(Char) ->
    Char.
