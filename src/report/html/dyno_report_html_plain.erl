%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html_plain).
-moduledoc false.

%% The report without any script: what a browser shows where scripts are off (summary/1), and the
%% whole page where dyno was built without its page (page/2). Every text of the recording goes
%% through escape/1. Values are shown as recorded, with their unit; series and histograms, which
%% need a chart to be seen whole, by their key figures.

-export([page/2, summary/1, title/1, escape/1]).

-type object() :: #{binary() => json:decode_value()}.

-doc "The whole page, with a notice at its top that says why it has no charts.".
-spec page(dyno_report:document(), Notice :: string()) -> iolist().
page(Document, Notice) ->
    [
        ~"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
        ~"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ",
        ~"base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'\">\n",
        ~"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
        ~"<link rel=\"icon\" href=\"data:,\">\n",
        [~"<title>", title(Document), ~"</title>\n<style>", style(), ~"</style>\n"],
        [~"</head>\n<body>\n<p class=\"notice\">This page has no charts: ", escape(Notice)],
        [~"</p>\n", summary(Document), environment(Document)],
        section(~"Over all runs", [table(Table) || Table <- objects(~"tables", Document)]),
        [run(Document, Run) || Run <- objects(~"runs", Document)],
        compared(object(~"recordings", Document)),
        ~"</body>\n</html>\n"
    ].

-doc "The page's title.".
-spec title(dyno_report:document()) -> iolist().
title(Document) ->
    [escape(text(~"name", Document, ~"Unnamed")), ~" – dyno"].

-doc "The name, the status, the verdicts, warnings and single figures.".
-spec summary(dyno_report:document()) -> iolist().
summary(Document) ->
    [
        [~"<h1>", escape(text(~"name", Document, ~"Unnamed")), ~"</h1>\n"],
        [~"<p>Status: ", escape(text(~"status", Document, ~"unknown"))],
        [started(Document), ~"</p>\n"],
        messages(Document),
        verdicts(text(~"command", Document, ~""), objects(~"verdicts", Document)),
        figures(text(~"command", Document, ~""), objects(~"runs", Document))
    ].

-doc "Text that means itself inside an element or a quoted attribute.".
-spec escape(unicode:chardata()) -> binary().
escape(Text) ->
    Binary = unicode:characters_to_binary(Text),
    binary:replace(Binary, [~"&", ~"<", ~">", ~"\"", ~"'"], fun entity/1, [global]).

-spec entity(binary()) -> binary().
entity(~"&") -> ~"&amp;";
entity(~"<") -> ~"&lt;";
entity(~">") -> ~"&gt;";
entity(~"\"") -> ~"&quot;";
entity(~"'") -> ~"&#39;".

%% Summary

-spec started(object()) -> iolist().
started(Document) ->
    case text(~"started_at", Document, ~"") of
        ~"" -> [];
        Time -> [~", started ", escape(Time)]
    end.

-spec messages(object()) -> iolist().
messages(Holder) ->
    Errors = [Error || #{} = Error <- [maps:get(~"error", Holder, null)]],
    Items =
        [[~"Error: ", coded(Error)] || Error <- Errors] ++
            [[~"Warning: ", coded(Warning)] || Warning <- objects(~"warnings", Holder)],
    [[~"<ul>\n", [[~"<li>", Item, ~"</li>\n"] || Item <- Items], ~"</ul>\n"] || Items =/= []].

-spec coded(object()) -> binary().
coded(Item) ->
    escape(text(~"text", Item, text(~"code", Item, ~"unknown"))).

%% Only a test must have thresholds, and only it and a benchmark have runs.
-spec verdicts(Command :: binary(), [object()]) -> iodata().
verdicts(Command, []) when Command =:= ~"bench"; Command =:= ~"compare" ->
    [];
verdicts(_Command, []) ->
    ~"<p>The suite sets no thresholds.</p>\n";
verdicts(_Command, Verdicts) ->
    Head = [~"Threshold", ~"Run", ~"Measured", ~"Result"],
    [~"<h2>Verdict</h2>\n", rows(Head, [verdict(Verdict) || Verdict <- Verdicts])].

-spec verdict(object()) -> [iodata()].
verdict(Verdict) ->
    [
        escape(text(~"name", Verdict, ~"")),
        escape(text(~"run", Verdict, ~"overall")),
        field(~"value", Verdict),
        escape(text(~"result", Verdict, ~"unknown"))
    ].

-spec figures(Command :: binary(), [object()]) -> iodata().
figures(~"compare", []) ->
    [];
figures(_Command, []) ->
    ~"<p>No run was finished, so there are no figures.</p>\n";
figures(_Command, Runs) ->
    ByRun = [metrics(Run) || Run <- Runs],
    Names = names([text(~"name", M, ~"") || Run <- Runs, M <- objects(~"metrics", Run)]),
    Head = [~"Figure" | [run_title(Run) || Run <- Runs]],
    Rows = [[escape(Name) | [maps:get(Name, Of, ~"–") || Of <- ByRun]] || Name <- Names],
    [~"<h2>Figures</h2>\n", rows(Head, Rows)].

-spec metrics(Run :: object()) -> #{binary() => iodata()}.
metrics(Run) ->
    #{text(~"name", M, ~"") => [field(~"value", M), interval(M)] || M <- objects(~"metrics", Run)}.

-spec interval(object()) -> iolist().
interval(#{~"low" := Low, ~"high" := High} = Metric) when is_number(Low), is_number(High) ->
    [~" (", field(~"low", Metric), ~" to ", field(~"high", Metric), ~")"];
interval(_) ->
    [].

%% Each name once, in the order in which they first appear.
-spec names([binary()]) -> [binary()].
names(Names) ->
    {Unique, _} = lists:foldl(fun name/2, {[], #{}}, Names),
    lists:reverse(Unique).

-spec name(binary(), {[binary()], #{binary() => true}}) -> {[binary()], #{binary() => true}}.
name(Name, {Unique, Seen}) when is_map_key(Name, Seen) -> {Unique, Seen};
name(Name, {Unique, Seen}) -> {[Name | Unique], Seen#{Name => true}}.

-spec environment(object()) -> iolist().
environment(Document) ->
    Pairs = pairs(~"environment", Document) ++ pairs(~"parameters", Document),
    Rows = [[escape(Key), escape(as_text(Value))] || {Key, Value} <- Pairs],
    section(~"Environment and parameters", rows([~"Name", ~"Value"], Rows)).

-spec pairs(binary(), object()) -> [{binary(), json:decode_value()}].
pairs(Key, Document) ->
    lists:sort(maps:to_list(object(Key, Document))).

-spec as_text(json:decode_value()) -> iodata().
as_text(Value) when is_binary(Value) -> Value;
as_text(null) -> ~"–";
as_text(Value) -> json:encode(Value).

%% One run

-spec run(object(), Run :: object()) -> iolist().
run(Document, Run) ->
    Label = text(~"size_label", object(~"parameters", Document), ~"Size"),
    section([escape(Label), ~" ", run_title(Run)], [
        messages(Run),
        [table(Table) || Table <- objects(~"tables", Run)],
        histograms(objects(~"histograms", Run)),
        series(objects(~"series", Run))
    ]).

-spec run_title(object()) -> binary().
run_title(Run) ->
    escape(text(~"id", Run, ~"?")).

-spec table(object()) -> iolist().
table(Table) ->
    Columns = objects(~"columns", Table),
    Units = [maps:get(~"unit", Column, null) || Column <- Columns],
    Head = [escape(shown_name(Column)) || Column <- Columns],
    Rows = [cells(Row, Units) || Row <- list_of(~"rows", Table), is_list(Row)],
    [
        [~"<h3>", escape(shown_name(Table)), node_of(Table), ~"</h3>\n"],
        rows(Head, Rows),
        truncated(maps:get(~"truncated", Table, 0))
    ].

-spec truncated(json:decode_value()) -> iolist().
truncated(Rows) when is_integer(Rows), Rows > 0 ->
    [~"<p>", integer_to_binary(Rows), ~" more rows were left out of the recording.</p>\n"];
truncated(_) ->
    [].

-spec node_of(object()) -> iolist().
node_of(Item) ->
    case text(~"node", Item, ~"") of
        ~"" -> [];
        Node -> [~" on ", escape(Node)]
    end.

%% A row may be shorter or longer than the columns if another version wrote it.
-spec cells([json:decode_value()], Units :: [json:decode_value()]) -> [iodata()].
cells([Value | Row], [Unit | Units]) -> [value(Value, Unit) | cells(Row, Units)];
cells([Value | Row], []) -> [value(Value, null) | cells(Row, [])];
cells([], _) -> [].

-spec histograms([object()]) -> iolist().
histograms([]) ->
    [];
histograms(Histograms) ->
    Head = [~"Name", ~"Count", ~"Least", ~"p50", ~"p90", ~"p99", ~"p99.9", ~"Greatest"],
    [~"<h3>Distributions</h3>\n", rows(Head, [histogram(H) || H <- Histograms])].

-spec histogram(object()) -> [iodata()].
histogram(Histogram) ->
    Unit = maps:get(~"unit", Histogram, null),
    Quantiles = [value(quantile(Q, Histogram), Unit) || Q <- [0.5, 0.9, 0.99, 0.999]],
    [
        escape(shown_name(Histogram)),
        value(maps:get(~"count", Histogram, null), null),
        field(~"min", Histogram)
    ] ++ Quantiles ++ [field(~"max", Histogram)].

%% The middle of the bucket that holds it, as on the page with charts.
-spec quantile(float(), object()) -> float() | null.
quantile(Q, Histogram) ->
    Buckets = [{Low, High, N} || [Low, High, N] <- list_of(~"buckets", Histogram), is_number(N)],
    Wanted = Q * lists:sum([N || {_, _, N} <- Buckets]),
    reached(Buckets, Wanted).

-spec reached([{number(), number(), number()}], number()) -> float() | null.
reached([{Low, High, N} | _], Wanted) when N >= Wanted -> (Low + High) / 2;
reached([{_, _, N} | Buckets], Wanted) -> reached(Buckets, Wanted - N);
reached([], _) -> null.

-spec series([object()]) -> iolist().
series([]) ->
    [];
series(All) ->
    Head = [~"Name", ~"Node", ~"Values", ~"Least", ~"Median", ~"Mean", ~"Greatest", ~"Last"],
    [~"<h3>Over time</h3>\n", rows(Head, [series_row(Series) || Series <- All])].

-spec series_row(object()) -> [iodata()].
series_row(Series) ->
    Unit = maps:get(~"unit", Series, null),
    Values = [Value || Value <- list_of(~"values", Series), is_number(Value)],
    [
        escape(shown_name(Series)),
        escape(text(~"node", Series, ~"")),
        integer_to_binary(length(Values))
        | [value(Figure, Unit) || Figure <- key_figures(Values)]
    ].

-spec key_figures([number()]) -> [number() | null].
key_figures([]) ->
    [null, null, null, null, null];
key_figures(Values) ->
    Mean = lists:sum(Values) / length(Values),
    Median = dyno_stats:median(Values),
    [lists:min(Values), Median, Mean, lists:max(Values), lists:last(Values)].

%% Two recordings

%% What differed around them, then the runs of both.
-spec compared(Recordings :: object()) -> iolist().
compared(#{~"old" := #{} = Old, ~"new" := #{} = New}) ->
    [
        section(~"Where they were made", differences(Old, New)),
        [
            [~"<h2>", Title, ~": ", escape(text(~"name", Of, ~"Unnamed")), started(Of), ~"</h2>\n",
                figures(text(~"command", Of, ~""), objects(~"runs", Of)),
                [run(Of, Run) || Run <- objects(~"runs", Of)]]
         || {Title, Of} <- [{~"Old", Old}, {~"New", New}]
        ]
    ];
compared(_) ->
    [].

-spec differences(Old :: object(), New :: object()) -> iodata().
differences(Old, New) ->
    Rows = [
        [escape(Key), escape(as_text(Was)), escape(as_text(Is))]
     || Part <- [~"environment", ~"parameters"],
        {OldPart, NewPart} <- [{object(Part, Old), object(Part, New)}],
        Key <- lists:usort(maps:keys(OldPart) ++ maps:keys(NewPart)),
        {Was, Is} <- [{maps:get(Key, OldPart, null), maps:get(Key, NewPart, null)}],
        Was =/= Is
    ],
    rows([~"Name", ~"Old", ~"New"], Rows).

%% Elements

-spec section(Title :: iodata(), Content :: iodata()) -> iolist().
section(Title, Content) -> [~"<h2>", Title, ~"</h2>\n", Content].

-spec rows(Head :: [iodata()], Rows :: [[iodata()]]) -> iodata().
rows(_Head, []) ->
    ~"<p>Nothing was recorded.</p>\n";
rows(Head, Rows) ->
    [
        ~"<table>\n<thead><tr>",
        [[~"<th>", Cell, ~"</th>"] || Cell <- Head],
        ~"</tr></thead>\n<tbody>\n",
        [[~"<tr>", [[~"<td>", Cell, ~"</td>"] || Cell <- Row], ~"</tr>\n"] || Row <- Rows],
        ~"</tbody>\n</table>\n"
    ].

-spec field(binary(), object()) -> iodata().
field(Key, Item) ->
    value(maps:get(Key, Item, null), maps:get(~"unit", Item, null)).

-spec value(json:decode_value(), Unit :: json:decode_value()) -> iodata().
value(Value, Unit) when is_number(Value) -> [number(Value), unit(Unit)];
value(Value, _Unit) -> escape(as_text(Value)).

-spec number(number()) -> binary().
number(Value) when is_integer(Value) -> integer_to_binary(Value);
number(Value) when abs(Value) < 1.0e-3; abs(Value) > 1.0e15 -> float_to_binary(Value, [short]);
number(Value) -> float_to_binary(Value, [{decimals, 3}, compact]).

-spec unit(json:decode_value()) -> iolist().
unit(Unit) when is_binary(Unit), Unit =/= ~"1", Unit =/= ~"count" -> [~" ", escape(Unit)];
unit(_) -> [].

%% The recording's parts; what is missing or of another shape is empty.

-spec shown_name(object()) -> binary().
shown_name(Item) ->
    text(~"title", Item, text(~"name", Item, ~"unnamed")).

-spec text(binary(), object(), binary()) -> binary().
text(Key, Object, Default) ->
    case Object of
        #{Key := Text} when is_binary(Text) -> Text;
        #{} -> Default
    end.

-spec object(binary(), object()) -> object().
object(Key, Object) ->
    case Object of
        #{Key := #{} = Inner} -> Inner;
        #{} -> #{}
    end.

-spec list_of(binary(), object()) -> [json:decode_value()].
list_of(Key, Object) ->
    case Object of
        #{Key := List} when is_list(List) -> List;
        #{} -> []
    end.

-spec objects(binary(), object()) -> [object()].
objects(Key, Object) ->
    [Item || #{} = Item <- list_of(Key, Object)].

-spec style() -> binary().
style() ->
    ~"""
    :root { color-scheme: light dark; }
    body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
    body { font: 15px/1.5 system-ui, sans-serif; }
    table { display: block; overflow-x: auto; border-collapse: collapse; font-size: 14px; }
    th, td { padding: 0.25rem 0.8rem; border-bottom: 1px solid #8884; text-align: left; }
    td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
    .notice { padding: 0.8rem 1rem; border-left: 4px solid #a87900; background: #a8790022; }
    """.
