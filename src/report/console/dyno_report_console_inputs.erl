%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_inputs).
-moduledoc """
The console report's sections about a benchmark with several inputs: the time of each code with each
input, or whatever decided, and how both time and words grow.
""".

-export([sections/3]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

-doc "What decided, how the best is called, and its value in a row.".
-type decisive() :: {Title :: binary(), Best :: binary(), fun((object()) -> binary())}.

-doc "A table for each case with several inputs, and the growth.".
-spec sections(dyno_report:document(), decisive(), options()) -> [[iodata()]].
sections(Document, Decisive, Options) ->
    Runs = get(~"runs", Document, []),
    [
        matrix({Case, Decisive}, [Run || Run <- Runs, label(~"case", Run) =:= Case], Options)
     || Case <- lists:uniq([label(~"case", Run) || Run <- Runs])
    ] ++ [growth(Document, Options)].

label(Name, Run) ->
    get(Name, get(~"labels", Run, #{}), ~"").

%% A row a code, in the order in which the first input has them; a column an input.
-spec matrix({binary(), decisive()}, [object()], options()) -> [iodata()].
matrix(_Case, [_], _Options) ->
    [];
matrix({Case, {What, Best, Value}}, Runs, Options) ->
    Inputs = [{dyno_report_text:clean(label(~"input", Run)), codes(Run)} || Run <- Runs],
    [{_, First} | _] = Inputs,
    Columns = [
        #{title => ~"code", align => left, fit => flexible}
        | [#{title => Input, align => right} || {Input, _} <- Inputs]
    ],
    Rows = [
        [
            dyno_report_document:name(~"code", Row)
            | [cell(get(~"code", Row), Codes, Value) || {_, Codes} <- Inputs]
        ]
     || Row <- First
    ],
    Text = <<What/binary, " per call, and times the ", Best/binary, ", by input">>,
    Title =
        case dyno_report_text:clean(Case) of
            ~"" -> string:titlecase(Text);
            Name -> <<Name/binary, ": ", Text/binary>>
        end,
    dyno_report_console_runs:section(Title, Columns, Rows, length(Rows), Options).

-spec codes(object()) -> [object()].
codes(Run) ->
    lists:append([
        dyno_report_document:rows(Table)
     || Table <- dyno_report_document:tables(~"codes", Run)
    ]).

-spec cell(json:decode_value(), [object()], fun((object()) -> binary())) ->
    dyno_report_table:cell().
cell(Code, Rows, Value) ->
    case [Row || #{~"code" := C} = Row <- Rows, C =:= Code] of
        [Row | _] -> judged(Value(Row), Row);
        [] -> ~"-"
    end.

-spec judged(binary(), object()) -> dyno_report_table:cell().
judged(Time, Row) ->
    case {get(~"verdict", Row), get(~"ratio", Row)} of
        {Worse, Ratio} when is_number(Ratio), (Worse =:= ~"slower" orelse Worse =:= ~"more") ->
            Factor = float_to_binary(float(Ratio), [{decimals, 2}]),
            {bad, <<Time/binary, " (", Factor/binary, ")">>};
        {~"undecided", _} ->
            {doubtful, <<Time/binary, " (not decided)">>};
        {~"same", _} ->
            <<Time/binary, " (same)">>;
        {_, _} ->
            Time
    end.

-spec growth(object(), options()) -> [iodata()].
growth(Document, Options) ->
    Rows = lists:append([
        dyno_report_document:rows(Table)
     || Table <- dyno_report_document:tables(~"growth", Document)
    ]),
    Columns = [
        #{title => ~"code", align => left, fit => flexible},
        #{title => ~"", align => left},
        #{title => ~"with the size of the input", align => left},
        #{title => ~"from smallest to largest", align => right, fit => optional}
    ],
    Cells = [
        [
            dyno_report_document:name(~"name", Row),
            what(get(~"kind", Row)),
            dyno_report_document:name(~"text", Row),
            <<(shown(~"smallest", Row))/binary, " to ", (shown(~"largest", Row))/binary>>
        ]
     || Row <- Rows
    ],
    dyno_report_console_runs:section(~"Growth", Columns, Cells, length(Cells), Options).

-spec what(json:decode_value()) -> binary().
what(~"words") -> ~"words";
what(_) -> ~"time".

-spec shown(binary(), object()) -> binary().
shown(Name, Row) ->
    case get(~"unit", Row) of
        ~"ns/call" -> measured(get(Name, Row), ~"ns");
        _ -> measured(get(Name, Row), ~"1")
    end.
