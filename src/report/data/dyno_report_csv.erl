%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_csv).
-moduledoc """
The figures of a recording as comma-separated values (RFC 4180), for spreadsheets and data frames.

One line a figure: a metric is one line, a row of a table one line for each of its figures. Numbers
are as in the recording, unrounded, with their unit in a column of its own.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1]).

-import(dyno_report_document, [get/2, get/3]).

-type object() :: dyno_report_document:object().

-define(HEAD, [
    ~"run", ~"size", ~"repetition", ~"node", ~"table", ~"row", ~"item", ~"figure", ~"value", ~"unit"
]).

-doc "The figures, with a line of headings first.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    Runs = [
        [metrics(Run), custom(Run), tables(Of, Run)]
     || Run <- get(~"runs", Document, []),
        Of <- [[get(Key, Run) || Key <- [~"id", ~"size", ~"repetition"]]]
    ],
    Lines = lists:append(lists:append(Runs)) ++ tables([null, null, null], Document),
    {ok, [line(Fields) || Fields <- [?HEAD | Lines ++ verdicts(Document)]]}.

-doc "Never called: every document can be shown as CSV.".
-spec format_error(term()) -> unicode:chardata().
format_error(Reason) ->
    io_lib:format("the recording cannot be shown as CSV: ~tp", [Reason]).

-spec metrics(object()) -> [[json:decode_value()]].
metrics(Run) ->
    Place = [get(Key, Run) || Key <- [~"id", ~"size", ~"repetition"]],
    [
        Place ++
            [null, ~"metrics", null, null] ++
            [get(Key, Metric) || Key <- [~"name", ~"value", ~"unit"]]
     || Metric <- get(~"metrics", Run, [])
    ].

%% A suite's own metrics; the other series stay in the recording.
-spec custom(object()) -> [[json:decode_value()]].
custom(Run) ->
    Place = [get(Key, Run) || Key <- [~"id", ~"size", ~"repetition"]],
    [
        Place ++ [Node, ~"custom", null, Name, Figure, Value, Unit]
     || {Name, Node, _, Unit, Values} <- dyno_report_console_custom:metrics([Run]),
        {Figure, Value} <- [
            {~"mean", lists:sum(Values) / length(Values)},
            {~"min", lists:min(Values)},
            {~"max", lists:max(Values)},
            {~"last", lists:last(Values)}
        ]
    ].

%% The first column says what a row is about; the others are its figures.
-spec tables([json:decode_value()], object()) -> [[json:decode_value()]].
tables(Place, Holder) ->
    [
        Place ++
            [get(~"node", Table), get(~"name", Table), Number, Item] ++
            [get(~"name", Column), Value, get(~"unit", Column)]
     || Table <- get(~"tables", Holder, []),
        {Number, [Item | Values]} <- lists:enumerate(get(~"rows", Table, [])),
        {Column, Value} <- lists:zip(columns(Table), Values, trim),
        Value =/= null
    ].

-spec columns(object()) -> [object()].
columns(Table) ->
    case get(~"columns", Table, []) of
        [] -> [];
        [_ | Figures] -> Figures
    end.

-spec verdicts(object()) -> [[json:decode_value()]].
verdicts(Document) ->
    [
        [get(~"run", Verdict), null, null, null, ~"verdicts", Number, get(~"name", Verdict), Key] ++
            [Value, Unit]
     || {Number, Verdict} <- lists:enumerate(get(~"verdicts", Document, [])),
        Threshold <- [get(~"threshold", Verdict, #{})],
        {Key, Value, Unit} <- [
            {~"value", get(~"value", Threshold), get(~"unit", Threshold)},
            {~"result", get(~"result", Verdict), null}
        ],
        Value =/= null
    ].

-spec line([json:decode_value()]) -> iolist().
line(Fields) ->
    [lists:join($,, [field(Field) || Field <- Fields]), "\r\n"].

-spec field(json:decode_value()) -> iodata().
field(null) ->
    ~"";
field(Text) when is_binary(Text) ->
    case binary:match(Text, [~",", ~"\"", ~"\r", ~"\n"]) of
        nomatch -> Text;
        _ -> [$", binary:replace(Text, ~"\"", ~"\"\"", [global]), $"]
    end;
field(Value) ->
    json:encode(Value).
