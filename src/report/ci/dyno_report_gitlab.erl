%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_gitlab).
-moduledoc """
The decisions of a recording as a GitLab Code Quality report (`artifacts:reports:codequality`). Each
failed or undecided condition is an issue, with a fingerprint to recognise it again.
""".

-behaviour(dyno_report).

-export([format/2]).

-import(dyno_report_document, [get/3, name/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    Name = name(~"name", Document),
    Failed = [
        issue({Name, path(Document)}, Title, Result, Text)
     || {Title, Result, Text} <- dyno_report_document:verdicts(Document), Result =/= pass
    ],
    {ok, [json:encode(Failed), $\n]}.

issue({Name, Path}, Title, Result, Text) ->
    Check = dyno_report_text:encode(Title),
    #{
        description => dyno_report_text:encode([Name, ": ", Title, ": ", Text]),
        check_name => <<"dyno: ", Check/binary>>,
        fingerprint => binary:encode_hex(erlang:md5([Name, 0, Check]), lowercase),
        severity =>
            case Result of
                fail -> ~"major";
                error -> ~"critical"
            end,
        location => #{path => Path, lines => #{'begin' => 1}}
    }.

%% A path is required; expressions on the command line have none.
path(Document) ->
    Parameters = get(~"parameters", Document, #{}),
    hd([P || Of <- [Parameters, Document], P <- paths(Of)] ++ [~"dyno"]).

paths(Of) ->
    [
        Text
     || Key <- [~"path", ~"name"],
        Text <- [get(Key, Of, null)],
        is_binary(Text),
        filename:extension(Text) =:= ~".erl"
    ].
