%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console).
-moduledoc """
The recording as text that people read: what was run, what `m:dyno_report_content` shows of it, and
the verdict as the last line.

Whatever a recording lacks (a partial one lacks much) is left out or shown as `-`; a section
without rows is not shown.
""".

-behaviour(dyno_report).

-export([format/2]).

-import(dyno_report_document, [get/2, text/3]).

-define(DEFAULTS, #{colour => off, width => 100, charset => unicode, top => 10}).

-doc "The report's lines in UTF-8.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, Given) ->
    Options = maps:merge(?DEFAULTS, Given),
    Sections =
        [Section || {_, Section} <- dyno_report_content:sections(Document, Options)] ++
            dyno_report_content_verdicts:sections(Document) ++
            dyno_report_content_verdicts:warnings(Document),
    Blocks =
        [heading(Document, Options)] ++
            [dyno_report_section:lines(Section, Options) || Section <- Sections] ++
            [conclusion(Document, Options)],
    Text = lists:join($\n, [[[Line, $\n] || Line <- Lines] || [_ | _] = Lines <- Blocks]),
    {ok, encoded(dyno_report_text:encode(Text), Options)}.

encoded(Text, #{charset := unicode}) -> Text;
encoded(Text, #{charset := ascii}) -> <<<<(ascii(Char))>> || <<Char/utf8>> <= Text>>.

ascii(Char) when Char < 128 -> Char;
ascii(_) -> $?.

heading(Document, #{colour := Colour, width := Width}) ->
    Title = [
        dyno_report_style:paint(Colour, title, text(~"name", Document, ~"(no name)")),
        ": ",
        status(Document, Colour),
        runs(length(dyno_report_document:runs(Document))),
        duration(get(~"duration_ns", Document))
    ],
    Facts = dyno_report_content:environment(Document),
    Lines = dyno_report_text:wrap_parts(Facts, ~",", Width),
    [Title | [dyno_report_style:paint(Colour, dim, Line) || Line <- Lines]].

status(Document, Colour) ->
    Status = text(~"status", Document, ~"unknown"),
    Style = maps:get(Status, #{~"failed" => bad, ~"complete" => plain}, doubtful),
    dyno_report_style:paint(Colour, Style, Status).

%% A comparison ran nothing.
runs(0) -> "";
runs(1) -> ", 1 run";
runs(Count) -> [", ", integer_to_binary(Count), " runs"].

duration(Ns) when is_number(Ns) -> [" in ", dyno_unit:format(Ns, ~"ns")];
duration(_) -> "".

%% The last thing read: one line that says how it ended. A benchmark's answer is that of its codes.
conclusion(#{~"command" := Command}, _Options) when Command =:= ~"bench"; Command =:= ~"compare" ->
    [];
conclusion(Document, #{colour := Colour, width := Width}) ->
    {Style, Word, Text} = dyno_report_content_verdicts:conclusion(Document),
    [First | Rest] = dyno_report_text:wrap(<<Word/binary, ": ", Text/binary>>, Width),
    Size = byte_size(Word),
    <<Word:Size/binary, Behind/binary>> = First,
    [[dyno_report_style:paint(Colour, Style, Word), Behind] | Rest].
