%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console).
-moduledoc """
The recording as text: the configuration, the sections of `m:dyno_report_content`, and the verdict
as last line. Without `full` only the answer: the verdict, problems, the load, five functions and
servers, and doubts. Missing values are left out or shown as `-`.
""".

-behaviour(dyno_report).

-export([format/2]).

-import(dyno_report_document, [get/2, text/3]).

-define(DEFAULTS, #{colour => off, width => 100, charset => unicode, top => 10, full => true}).
-define(FEW, 5).
-define(FEW_RUNS, 8).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(#{~"command" := ~"doctor"} = Document, Given) ->
    Options = maps:merge(?DEFAULTS, Given),
    {ok, encoded(dyno_report_text:encode(dyno_report_doctor:format(Document, Options)), Options)};
format(Document, Given) ->
    Options = maps:merge(?DEFAULTS, Given),
    Blocks =
        case Options of
            #{full := true} -> full(Document, Options);
            #{full := false} -> answer(Document, Options)
        end,
    Text = lists:join($\n, [[[Line, $\n] || Line <- Lines] || [_ | _] = Lines <- Blocks]),
    {ok, encoded(dyno_report_text:encode(Text), Options)}.

full(Document, Options) ->
    Sections =
        dyno_report_findings:first(Document, Options) ++
            [Section || {_, Section} <- dyno_report_content:sections(Document, Options)] ++
            dyno_report_content_verdicts:sections(Document) ++
            dyno_report_findings:others(Document, Options),
    [[title(Document, Options) | environment(Document, Options)]] ++
        [dyno_report_section:lines(Section, Options) || Section <- Sections] ++
        [conclusion(Document, Options)].

answer(Document, Options) ->
    Sections =
        dyno_report_findings:first(Document, Options) ++
            [few(S) || S <- dyno_report_content:answer(Document, Options#{top := ?FEW})] ++
            dyno_report_findings:others(Document, Options) ++
            dyno_report_content_verdicts:sections(Document),
    [[title(Document, Options) | conclusion(Document, Options)]] ++
        [dyno_report_section:lines(Section, Options) || Section <- Sections] ++
        [[dyno_report_style:paint(map_get(colour, Options), dim, rest(Options))]].

rest(#{page := Path}) ->
    <<"The rest: --full, dyno report RECORDING, or the page ",
        (unicode:characters_to_binary(Path))/binary>>;
rest(_Options) ->
    ~"The rest: --full, dyno report RECORDING, or a page: -o FILE.html.".

few(#{rows := Rows, hidden := Hidden} = Section) ->
    First = lists:sublist(Rows, ?FEW_RUNS),
    Section#{rows := First, hidden := Hidden + length(Rows) - length(First)};
few(Section) ->
    Section.

encoded(Text, #{charset := unicode}) -> Text;
encoded(Text, #{charset := ascii}) -> <<<<(ascii(Char))>> || <<Char/utf8>> <= Text>>.

ascii(Char) when Char < 128 -> Char;
ascii(_) -> $?.

title(Document, #{colour := Colour}) ->
    [
        dyno_report_style:paint(Colour, title, text(~"name", Document, ~"(no name)")),
        ": ",
        status(Document, Colour),
        runs(length(dyno_recording:runs(Document))),
        duration(get(~"duration_ns", Document))
    ].

environment(Document, #{colour := Colour, width := Width}) ->
    Facts = dyno_report_content:environment(Document),
    Lines = dyno_report_text:wrap_parts(Facts, ~",", Width),
    [dyno_report_style:paint(Colour, dim, Line) || Line <- Lines].

status(Document, Colour) ->
    Status = text(~"status", Document, ~"unknown"),
    Style = maps:get(Status, #{~"failed" => bad, ~"complete" => plain}, doubtful),
    dyno_report_style:paint(Colour, Style, Status).

%% A comparison has no runs.
runs(0) -> "";
runs(1) -> ", 1 run";
runs(Count) -> [", ", integer_to_binary(Count), " runs"].

duration(Ns) when is_number(Ns) -> [" in ", dyno_unit:format(Ns, ~"ns")];
duration(_) -> "".

%% The last line is the outcome. A benchmark's answer is that of its codes.
conclusion(#{~"command" := Command}, _Options) when Command =:= ~"bench"; Command =:= ~"compare" ->
    [];
conclusion(Document, #{colour := Colour, width := Width}) ->
    {Style, Word, Text} = dyno_report_content_verdicts:conclusion(Document),
    [First | Rest] = dyno_report_text:wrap(<<Word/binary, ": ", Text/binary>>, Width),
    Size = byte_size(Word),
    <<Word:Size/binary, Behind/binary>> = First,
    [[dyno_report_style:paint(Colour, Style, Word), Behind] | Rest].
