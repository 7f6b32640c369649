%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_json).
-moduledoc """
The recording itself, as JSON on one line: for programs, and to keep.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1]).

-doc "The document as JSON, with a line end.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    {ok, [json:encode(Document), $\n]}.

-doc "Never called: every document can be shown as JSON.".
-spec format_error(term()) -> unicode:chardata().
format_error(Reason) ->
    io_lib:format("the recording cannot be shown as JSON: ~tp", [Reason]).
