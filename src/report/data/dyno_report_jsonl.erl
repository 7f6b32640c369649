%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_jsonl).
-moduledoc "The recording itself as lines of JSON, to append and read one by one.".

-behaviour(dyno_report).

-export([format/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    {ok, [dyno_recording_lines:first(Document), dyno_recording_lines:rest(Document, #{})]}.
