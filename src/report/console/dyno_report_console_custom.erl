%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_custom).
-moduledoc """
The console report's sections about what a suite brings along: its own metrics, the results of its
agents at the greatest load, its invariants.
""".

-export([sections/2, is_invariant/1, metrics/1, value/1]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().
-type cell() :: dyno_report_table:cell().

-doc "The sections' lines, in the order in which they are read.".
-spec sections(dyno_report:document(), options()) -> [[iodata()]].
sections(Document, Options) ->
    Runs = [Run || Run <- get(~"runs", Document, []), is_map(Run)],
    [
        metrics(Runs, Document, Options),
        agents(Runs, Document, Options),
        invariants(Runs, Document, Options)
    ].

-doc "Whether a verdict is that of an invariant.".
-spec is_invariant(object()) -> boolean().
is_invariant(Verdict) ->
    get(~"kind", Verdict) =:= ~"invariant".

-doc "A suite's own metrics: name, node and run, unit, and their values.".
-spec metrics([object()]) ->
    [{binary(), json:decode_value(), Run :: object(), binary(), [number(), ...]}].
metrics(Runs) ->
    Found = [
        {Name, get(~"node", Series), Run, get(~"unit", Series, ~"1"), Values}
     || Run <- Runs,
        #{~"group" := ~"custom", ~"name" := Name} = Series <- get(~"series", Run, []),
        [_ | _] = Values <- [[V || V <- get(~"values", Series, []), is_number(V)]]
    ],
    %% A metric's sizes stand together.
    [
        Of
     || Name <- lists:uniq([Name || {Name, _, _, _, _} <- Found]), {Is, _, _, _, _} = Of <- Found,
        Is =:= Name
    ].

-spec metrics([object()], object(), options()) -> [iodata()].
metrics(Runs, Document, #{top := Top} = Options) ->
    Columns = [
        #{title => ~"metric", align => left, fit => flexible},
        #{title => dyno_report_console_runs:size_label(Document), align => right},
        #{title => ~"mean", align => right},
        #{title => ~"lowest", align => right, fit => optional},
        #{title => ~"highest", align => right},
        #{title => ~"last", align => right, fit => optional}
    ],
    Many = lists:any(fun(Run) -> length(get(~"nodes", Run, [])) > 1 end, Runs),
    Rows = [
        [
            named(Name, Node, Many),
            id(Run),
            measured(lists:sum(Values) / length(Values), Unit),
            measured(lists:min(Values), Unit),
            measured(lists:max(Values), Unit),
            measured(lists:last(Values), Unit)
        ]
     || {Name, Node, Run, Unit, Values} <- metrics(Runs)
    ],
    Shown = lists:sublist(Rows, 3 * Top),
    Title = ~"Metrics of the suite",
    dyno_report_console_runs:section(Title, Columns, Shown, length(Rows), Options).

-spec named(binary(), json:decode_value(), boolean()) -> binary().
named(Name, Node, true) when is_binary(Node) ->
    dyno_report_text:clean(<<Name/binary, " of ", Node/binary>>);
named(Name, _Node, _Many) ->
    dyno_report_text:clean(Name).

%% Of the run with the greatest size that has some; the last of its repetitions.
-spec agents([object()], object(), options()) -> [iodata()].
agents(Runs, Document, #{top := Top} = Options) ->
    Having = [
        {get(~"size", Run, 0), Run}
     || Run <- Runs, dyno_report_document:tables(~"agents", Run) =/= []
    ],
    case lists:reverse(lists:keysort(1, Having)) of
        [] ->
            [];
        [{_, Run} | _] ->
            Tables = dyno_report_document:tables(~"agents", Run),
            Many = length(Tables) > 1,
            Rows = [
                [
                    named(dyno_report_document:name(~"agent", Row), get(~"node", Table), Many),
                    dyno_report_document:name(~"item", Row),
                    value(Row)
                ]
             || Table <- Tables, Row <- dyno_report_document:rows(Table)
            ],
            Columns = [
                #{title => ~"agent", align => left},
                #{title => ~"item", align => left},
                #{title => ~"value", align => left, fit => flexible}
            ],
            Label = dyno_report_console_runs:size_label(Document),
            Place = dyno_report_console_runs:place(Label, id(Run)),
            Title = iolist_to_binary(["Results of custom agents at ", Place]),
            Shown = lists:sublist(Rows, 3 * Top),
            dyno_report_console_runs:section(Title, Columns, Shown, length(Rows), Options)
    end.

-doc "The value of a row of the table `agents`.".
-spec value(object()) -> binary().
value(#{~"value" := Value} = Row) when is_number(Value) ->
    Unit =
        case get(~"unit", Row) of
            Text when is_binary(Text) -> Text;
            _ -> ~"1"
        end,
    measured(Value, Unit);
value(Row) ->
    dyno_report_document:name(~"text", Row).

-spec invariants([object()], object(), options()) -> [iodata()].
invariants(Runs, Document, Options) ->
    All = [
        {get(~"invariant", Row), id(Run), Row}
     || Run <- Runs,
        Table <- dyno_report_document:tables(~"invariants", Run),
        Row <- dyno_report_document:rows(Table)
    ],
    Columns = [
        #{title => ~"result", align => left},
        #{title => ~"invariant", align => left},
        #{title => ~"what must hold", align => left, fit => flexible},
        #{title => ~"checks", align => right, fit => optional},
        #{title => ~"violated", align => right},
        #{title => ~"first after", align => right},
        #{title => ~"for", align => right},
        #{title => ~"value", align => right},
        #{title => dyno_report_console_runs:size_label(Document), align => right}
    ],
    Rows = lists:append([
        rows([{Id, Row} || {Of, Id, Row} <- All, Of =:= Name])
     || Name <- lists:uniq([Name || {Name, _, _} <- All])
    ]),
    Reasons = lists:uniq([
        ["  ", dyno_report_document:name(~"invariant", Row), " could not be checked: ",
            dyno_report_text:clean(Why)]
     || {_, _, #{~"why" := Why} = Row} <- All, is_binary(Why)
    ]),
    Table = dyno_report_console_runs:section(~"Invariants", Columns, Rows, length(Rows), Options),
    Table ++ [Line || Line <- Reasons, Table =/= []].

%% One that held everywhere is one row.
-spec rows([{binary(), object()}]) -> [[cell()]].
rows([_, _ | _] = Of) ->
    case [Row || {_, #{~"result" := ~"pass"} = Row} <- Of] of
        Passed when length(Passed) =:= length(Of) ->
            %% What must hold may be another at each size.
            Checks = lists:sum([get(~"checks", Row, 0) || Row <- Passed]),
            [row(~"all", (lists:last(Passed))#{~"checks" => Checks})];
        _ ->
            [row(Id, Row) || {Id, Row} <- Of]
    end;
rows(Of) ->
    [row(Id, Row) || {Id, Row} <- Of].

-spec row(binary(), object()) -> [cell()].
row(Id, Row) ->
    [
        result(get(~"result", Row)),
        dyno_report_document:name(~"invariant", Row),
        dyno_report_document:name(~"expression", Row),
        measured(get(~"checks", Row), ~"count"),
        measured(get(~"violations", Row), ~"count"),
        measured(get(~"first", Row), ~"ms"),
        measured(get(~"violated", Row), ~"ms"),
        text(get(~"value", Row)),
        Id
    ].

-spec text(json:decode_value()) -> binary().
text(Text) when is_binary(Text) -> dyno_report_text:clean(Text);
text(_) -> ~"-".

-spec result(json:decode_value()) -> cell().
result(~"pass") -> {good, ~"PASS"};
result(~"fail") -> {bad, ~"FAIL"};
result(_) -> {doubtful, ~"UNKNOWN"}.

-spec id(object()) -> binary().
id(Run) ->
    dyno_report_document:name(~"id", Run).
