%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_jsonl).
-moduledoc """
The recording itself as lines of JSON, which can be appended to and read one by one.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1]).

-doc "The first line, then those of the runs.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    {ok, [dyno_recording_lines:first(Document), dyno_recording_lines:rest(Document, #{})]}.

-doc "Never called: every document can be shown as lines.".
-spec format_error(term()) -> unicode:chardata().
format_error(Reason) ->
    io_lib:format("the recording cannot be shown as lines: ~tp", [Reason]).
