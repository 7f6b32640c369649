%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_json).
-moduledoc "The recording itself, as JSON on one line: for programs and archives.".

-behaviour(dyno_report).

-export([format/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    {ok, [dyno_text:json(Document), $\n]}.
