%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_style).
-moduledoc false.
%% The one module for colour: meanings in, ANSI escape sequences (ECMA-48 SGR) out. Only the eight
%% colours of every terminal are used, never as the only sign of a meaning.
%%
%% Callers name a text's meaning. Only the eight colours of every terminal are used, and colour is
%% never the only sign of a meaning.

-export([paint/3]).

-export_type([colour/0, style/0]).

-type colour() :: on | off.

-type style() :: plain | title | header | dim | good | bad | doubtful.

-spec paint(colour(), style(), iodata()) -> iodata().
paint(off, _Style, Text) -> Text;
paint(on, plain, Text) -> Text;
paint(on, Style, Text) -> ["\e[", code(Style), $m, Text, "\e[0m"].

code(title) -> "1";
code(header) -> "4";
code(dim) -> "2";
code(good) -> "32";
code(bad) -> "1;31";
code(doubtful) -> "33".
