%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_csv).
-moduledoc """
The measurements as comma-separated values (RFC 4180), for spreadsheets and data frames.

One line for each value: of a metric, and of each value and note of a table's row, with its keys as
the item. Numbers are unrounded, with the unit in its own column. Further series give their mean,
lowest, highest and last value.

Spreadsheets run a text that begins with `=`, `+`, `-` or `@` as a formula. Such texts get a leading
`'`, except numbers.
""".

-behaviour(dyno_report).

-export([format/2]).

-import(dyno_report_document, [get/2, get/3]).

-define(HEAD, [
    ~"run", ~"size", ~"repetition", ~"node", ~"table", ~"row", ~"item", ~"field", ~"value", ~"unit"
]).

-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    Lines =
        lists:append([
            metrics(Run) ++ series(Run, Document) ++ tables(place(Run), Run) ++ events(Run) ++
                profiles(Run)
         || Run <- dyno_recording:runs(Document)
        ]) ++ tables([null, null, null], Document) ++ verdicts(Document),
    {ok, [line(Fields) || Fields <- [?HEAD | Lines]]}.

place(Run) ->
    [get(Key, Run) || Key <- [~"id", ~"size", ~"repetition"]].

metrics(Run) ->
    [
        place(Run) ++ [null, ~"metrics", null, Name, Field, Value, get(~"unit", Metric)]
     || #{~"name" := Name} = Metric <- get(~"metrics", Run, []),
        Field <- [~"value", ~"low", ~"high"],
        Value <- [get(Field, Metric)],
        Value =/= null orelse Field =:= ~"value"
    ].

series(Run, Document) ->
    [
        place(Run) ++
            [get(~"node", Series), ~"series", null, get(~"name", Series)] ++
            [Field, Value, get(~"unit", Series)]
     || Series <- dyno_report_content_parts:others(~"series", Run, Document),
        [_ | _] = Values <- [[V || V <- get(~"values", Series, []), is_number(V)]],
        {Field, Value} <- [
            {~"mean", dyno_stats:mean(Values)},
            {~"lowest", lists:min(Values)},
            {~"highest", lists:max(Values)},
            {~"last", lists:last(Values)}
        ]
    ].

tables(Place, Holder) ->
    [
        Place ++
            [get(~"node", Table), get(~"name", Table), Number, item(Keys, Row)] ++
            [Name, Value, dyno_report_document:unit(Column, Row)]
     || Table <- get(~"tables", Holder, []),
        {Keys, Others} <- [
            lists:partition(
                fun(#{~"role" := Role}) -> Role =:= ~"key" end, get(~"columns", Table)
            )
        ],
        {Number, Row} <- lists:enumerate(dyno_recording:rows(Table)),
        #{~"name" := Name} = Column <- Others,
        Value <- [get(Name, Row)],
        Value =/= null
    ].

item([], _Row) ->
    null;
item([#{~"name" := Name}], Row) ->
    get(Name, Row);
item(Keys, Row) ->
    iolist_to_binary(
        lists:join(~", ", [dyno_report_document:text(Name, Row, ~"") || #{~"name" := Name} <- Keys])
    ).

events(Run) ->
    [
        place(Run) ++
            [get(~"node", Event), ~"events", Number, get(~"kind", Event)] ++ [Field, Value, Unit]
     || {Number, Event} <- lists:enumerate(get(~"items", get(~"events", Run, #{}), [])),
        {Field, Unit} <- [{~"time", ~"ms"}, {~"process", null}, {~"text", null}],
        Value <- [get(maps:get(Field, #{~"time" => ~"time_ms"}, Field), Event)],
        Value =/= null
    ].

profiles(Run) ->
    [
        place(Run) ++
            [get(~"node", Profile), get(~"name", Profile), Number, Stack, Name, Value, Unit]
     || Profile <- get(~"profiles", Run, []),
        {Number, {Stack, Values}} <- lists:enumerate(dyno_report_folded:stacks(Profile)),
        {#{~"name" := Name, ~"unit" := Unit}, Value} <- lists:zip(
            get(~"values", Profile, []), Values
        ),
        Value =/= null
    ].

verdicts(Document) ->
    [
        [get(~"run", Verdict), null, null, get(~"node", Verdict), ~"verdicts", Number] ++
            [get(~"name", Verdict), Field, Value, Unit]
     || {Number, Verdict} <- lists:enumerate(get(~"verdicts", Document, [])),
        Threshold <- [dyno_report_document:threshold(Verdict)],
        {Field, Value, Unit} <- [
            {~"value", get(~"value", Threshold), get(~"unit", Threshold)},
            {~"result", get(~"result", Verdict), null}
        ],
        Value =/= null
    ].

line(Fields) ->
    [lists:join($,, [field(Field) || Field <- Fields]), "\r\n"].

field(null) ->
    ~"";
field(Text) when is_binary(Text) ->
    quoted(guarded(Text));
field(Value) ->
    quoted(iolist_to_binary(dyno_text:json(Value))).

quoted(Text) ->
    case binary:match(Text, [~",", ~"\"", ~"\r", ~"\n"]) of
        nomatch -> Text;
        _ -> [$", binary:replace(Text, ~"\"", ~"\"\"", [global]), $"]
    end.

%% Also the wide forms of the four, and tabs and line ends, which some readers skip.
guarded(<<First/utf8, _/binary>> = Text) when
    First =:= $=;
    First =:= $+;
    First =:= $-;
    First =:= $@;
    First =:= $\t;
    First =:= $\n;
    First =:= 16#FF1D;
    First =:= 16#FF0B;
    First =:= 16#FF0D;
    First =:= 16#FF20
->
    case
        re:run(Text, ~"^[-+]?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$", [
            dollar_endonly, {capture, none}
        ])
    of
        match -> Text;
        nomatch -> <<"'", Text/binary>>
    end;
guarded(Text) ->
    Text.
