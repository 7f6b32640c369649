%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_style).
-moduledoc """
Colour, the one place of it: meanings in, ANSI escape sequences (ECMA-48 SGR) out.

Callers name what a text means; only the eight colours every terminal has are used, and never as
the only bearer of a meaning.
""".

-export([paint/3]).

-export_type([colour/0, style/0]).

-doc "Whether escape sequences are wanted.".
-type colour() :: on | off.

-doc "What a text means.".
-type style() :: plain | title | header | dim | good | bad | doubtful.

-doc "The text in that style; unchanged where colour is off.".
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
