%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_github).
-moduledoc """
The decisions of a recording as GitHub workflow commands, which become annotations of a step.

An error for a failed or undecided condition and for an incomplete recording; a warning for each
finding and doubt; a notice as summary.
""".

-behaviour(dyno_report).

-export([format/2]).

-import(dyno_report_document, [name/2]).

%% GitHub shows ten of each kind for a step.
-define(MOST, 10).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    Name = name(~"name", Document),
    Errors = [
        {[Name, ": ", Title], Text}
     || {Title, Result, Text} <- dyno_report_document:verdicts(Document), Result =/= pass
    ],
    Warnings = [
        {Name, dyno_report_findings:sentence(Finding)}
     || #{severity := Severity} = Finding <- dyno_report_findings:shown(Document),
        Severity =/= note
    ],
    {_Style, _Word, Summary} = dyno_report_content_verdicts:conclusion(Document),
    Lines =
        [command("error", Of) || Of <- lists:sublist(Errors, ?MOST)] ++
            [command("warning", Of) || Of <- lists:sublist(Warnings, ?MOST)] ++
            [command("notice", {Name, Summary})],
    {ok, dyno_report_text:encode(Lines)}.

command(Command, {Title, Text}) ->
    Of = escaped(Title, [{~":", ~"%3A"}, {~",", ~"%2C"}]),
    io_lib:format("::~ts title=~ts::~ts~n", [Command, Of, escaped(Text, [])]).

%% As @actions/core does.
escaped(Text, More) ->
    lists:foldl(
        fun({From, To}, Of) -> binary:replace(Of, From, To, [global]) end,
        dyno_report_text:encode(Text),
        [{~"%", ~"%25"}, {~"\r", ~"%0D"}, {~"\n", ~"%0A"} | More]
    ).
