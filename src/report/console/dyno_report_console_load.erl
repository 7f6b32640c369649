%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_load).
-moduledoc """
The console report's sections about the load where it has parts: kinds of operations and phases at
the greatest size, the probes of a search, the load nodes.
""".

-export([sections/3]).

-import(dyno_report_document, [get/2, get/3, measured/2, metric/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

-doc "The sections' lines; none for a load that is one and the same throughout.".
-spec sections([object()], binary(), dyno_report:options()) -> [[iodata()]].
sections(Runs, Label, Options) ->
    searches(Runs, Label, Options) ++
        [of_last(Name, Runs, Label, Options) || Name <- [~"operations", ~"phases", ~"load_nodes"]].

-spec of_last(binary(), [object()], binary(), options()) -> [iodata()].
of_last(Name, Runs, Label, Options) ->
    Having = [
        {get(~"size", Run, 0), Run}
     || Run <- Runs, dyno_report_document:tables(Name, Run) =/= []
    ],
    case lists:reverse(lists:keysort(1, Having)) of
        [] ->
            [];
        [{_, Run} | _] ->
            Rows = rows(Name, Run),
            {Title, Columns, Cells} = layout(Name),
            Heading = iolist_to_binary([
                Title, " at ",
                dyno_report_console_runs:place(Label, dyno_report_document:name(~"id", Run))
            ]),
            dyno_report_console_runs:section(
                Heading, Columns, [Cells(Row) || Row <- Rows], length(Rows), Options
            )
    end.

-spec rows(binary(), object()) -> [object()].
rows(Name, Run) ->
    lists:append([
        dyno_report_document:rows(Table)
     || Table <- dyno_report_document:tables(Name, Run)
    ]).

-spec layout(binary()) ->
    {binary(), [dyno_report_table:column()], fun((object()) -> [dyno_report_table:cell()])}.
layout(~"operations") ->
    Columns = [#{title => ~"operation", align => left, fit => flexible} | figure_columns()],
    {~"Operations", Columns, fun(Row) ->
        [dyno_report_document:name(~"operation", Row) | figures(Row)]
    end};
layout(~"phases") ->
    Columns = [
        #{title => ~"phase", align => left, fit => flexible},
        #{title => ~"from", align => right, fit => optional},
        #{title => ~"offered", align => right}
        | figure_columns()
    ] ++ [#{title => ~"dropped", align => right}, #{title => ~"", align => left}],
    {~"Phases", Columns, fun(Row) ->
        [
            dyno_report_document:name(~"phase", Row),
            measured(get(~"start", Row), ~"ms"),
            measured(get(~"offered", Row), ~"1/s")
            | figures(Row)
        ] ++ [measured(get(~"dropped", Row), ~"count"), state(get(~"state", Row))]
    end};
layout(~"load_nodes") ->
    Columns = [
        #{title => ~"load node", align => left, fit => flexible},
        #{title => ~"workers", align => right},
        #{title => ~"operations", align => right},
        #{title => ~"errors", align => right},
        #{title => ~"clock ahead", align => right},
        #{title => ~"+/-", align => right},
        #{title => ~"", align => left}
    ],
    {~"Load nodes", Columns, fun(Row) ->
        [
            dyno_report_document:name(~"node", Row),
            measured(get(~"workers", Row), ~"count"),
            measured(get(~"operations", Row), ~"count"),
            measured(get(~"errors", Row), ~"count"),
            measured(get(~"clock_offset", Row), ~"ns"),
            measured(get(~"clock_uncertainty", Row), ~"ns"),
            lost(get(~"lost_at", Row))
        ]
    end}.

-spec figure_columns() -> [dyno_report_table:column()].
figure_columns() ->
    [
        #{title => ~"throughput", align => right},
        #{title => ~"p50", align => right},
        #{title => ~"p99", align => right},
        #{title => ~"service p50", align => right, fit => optional},
        #{title => ~"service p99", align => right, fit => optional},
        #{title => ~"errors", align => right}
    ].

-spec figures(object()) -> [dyno_report_table:cell()].
figures(Row) ->
    [measured(get(~"throughput", Row), ~"1/s")] ++
        [
            measured(get(Key, Row), ~"ns")
         || Key <- [~"latency_p50", ~"latency_p99", ~"service_p50", ~"service_p99"]
        ] ++ [errors(get(~"errors", Row))].

-spec errors(json:decode_value()) -> dyno_report_table:cell().
errors(Count) when is_number(Count), Count > 0 -> {bad, measured(Count, ~"count")};
errors(Count) -> measured(Count, ~"count").

-spec state(json:decode_value()) -> dyno_report_table:cell().
state(~"kept") -> ~"";
state(State) when is_binary(State) -> {bad, dyno_report_text:clean(State)};
state(_) -> ~"".

-spec lost(json:decode_value()) -> dyno_report_table:cell().
lost(AtMs) when is_number(AtMs) -> {bad, <<"lost at ", (measured(AtMs, ~"ms"))/binary>>};
lost(_) -> ~"".

-spec searches([object()], binary(), options()) -> [[iodata()]].
searches(Runs, Label, Options) ->
    Found = [Run || Run <- Runs, metric(~"load.search.rate", Run) =/= null],
    Columns = [
        #{title => Label, align => right},
        #{title => ~"highest rate", align => right},
        #{title => ~"below", align => right},
        #{title => ~"probes", align => right},
        #{title => ~"why not more", align => left, fit => flexible}
    ],
    Cells = [
        [
            dyno_report_document:name(~"id", Run),
            measured(metric(~"load.search.rate", Run), ~"1/s"),
            measured(metric(~"load.search.high", Run), ~"1/s"),
            measured(probes(rows(~"probes", Run)), ~"count"),
            why(Run)
        ]
     || Run <- Found
    ],
    [
        dyno_report_console_runs:section(
            ~"Highest rate at which the objective holds", Columns, Cells, length(Cells), Options
        )
    ].

-spec probes([object()]) -> number().
probes(Rows) ->
    lists:sum([N || Row <- Rows, Key <- [~"held", ~"failed"], N <- [get(Key, Row)], is_number(N)]).

-spec why(object()) -> binary().
why(Run) ->
    Texts = [
        Text
     || Key <- [~"notes", ~"warnings"],
        #{~"code" := ~"search", ~"text" := Text} <- get(Key, Run, [])
    ],
    case Texts of
        [Text | _] -> dyno_report_text:clean(Text);
        [] -> reason(metric(~"load.search.high", Run), rows(~"probes", Run))
    end.

%% The lowest rate that did not hold says it.
-spec reason(number() | null, [object()]) -> binary().
reason(High, Rows) ->
    case [Row || Row <- Rows, get(~"rate", Row) =:= High, get(~"decision", Row) =:= ~"failed"] of
        [Row | _] -> dyno_report_document:text(~"reason", Row, ~"");
        [] -> ~"no higher rate was tried"
    end.
