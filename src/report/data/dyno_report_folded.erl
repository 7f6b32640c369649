%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_folded).
-moduledoc """
The sampled stacks of a benchmark in folded form, a line a stack: `code;function;function 12`. What
draws flame graphs reads it: flamegraph.pl, inferno, speedscope.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1]).

-import(dyno_report_document, [get/2, get/3]).

-doc "The lines, the most frequent stack of each code first.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()} | {error, no_stacks}.
format(Document, _Options) ->
    Rows = [
        Row
     || Run <- get(~"runs", Document, []),
        Table <- dyno_report_document:tables(~"stacks", Run),
        Row <- dyno_report_document:rows(Table),
        is_integer(get(~"samples", Row))
    ],
    case Rows of
        [] -> {error, no_stacks};
        _ -> {ok, dyno_report_text:encode([line(Row) || Row <- Rows])}
    end.

%% The last space and the semicolons have a meaning.
-spec line(dyno_report_document:object()) -> unicode:chardata().
line(Row) ->
    Code = binary:replace(dyno_report_document:name(~"code", Row), ~";", ~",", [global]),
    Stack = dyno_report_document:name(~"stack", Row),
    [Code, ";", Stack, " ", integer_to_binary(get(~"samples", Row)), "\n"].

-doc "What to do about it.".
-spec format_error(no_stacks) -> unicode:chardata().
format_error(no_stacks) ->
    "there are no stacks in the recording; measure with dyno bench --profile".
