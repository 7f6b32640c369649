%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_target).
-moduledoc """
The console report's sections about tables and ports, what bends first as the size grows, and how
sure the figures are: the repetitions of each size, and what measuring cost.
""".

-export([sections/2]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

%% Without its name a ratio of 1.0 is nothing to read.
%% Less memory than that is not worth a line.
-define(REAL_BYTES, 1_000_000).
-define(SHOWN, [~"throughput", ~"latency.p50", ~"latency.p99"]).

-doc "The sections' lines, in the order in which they are read.".
-spec sections(dyno_report:document(), dyno_report:options()) -> [[iodata()]].
sections(Document, Options) ->
    [
        resources(~"durations", Document, Options),
        resources(~"ets", Document, Options),
        resources(~"ports", Document, Options),
        repetitions(Document, Options),
        cost(Document, Options),
        bends(Document, Options)
    ].

%% Where the load was greatest; what is small and does not change is left to the recording.
-spec resources(binary(), object(), options()) -> [iodata()].
resources(Name, Document, #{top := Top} = Options) ->
    Runs = lists:keysort(1, [
        {get(~"size", Run, 0), Run}
     || Run <- get(~"runs", Document, []), dyno_report_document:tables(Name, Run) =/= []
    ]),
    case lists:reverse(Runs) of
        [] ->
            [];
        [{_, Run} | _] ->
            {Title, Columns, Cells, Counts} = resource(Name),
            Rows = [
                Row
             || Table <- dyno_report_document:tables(Name, Run),
                Row <- dyno_report_document:rows(Table),
                Counts(Row)
            ],
            Label = dyno_report_console_runs:size_label(Document),
            Id = dyno_report_document:name(~"id", Run),
            At = [Title, " at ", dyno_report_console_runs:place(Label, Id)],
            Shown = [Cells(Row) || Row <- lists:sublist(Rows, Top)],
            dyno_report_console_runs:section(
                iolist_to_binary(At), Columns, Shown, length(Rows), Options
            )
    end.

-spec resource(binary()) ->
    {
        binary(),
        [dyno_report_table:column()],
        fun((object()) -> [binary()]),
        fun((object()) -> boolean())
    }.
resource(~"ets") ->
    Columns = [
        #{title => ~"table", align => left, fit => flexible}
        | [
            #{title => T, align => right}
         || T <- [~"tables", ~"objects", ~"most", ~"memory", ~"since the start"]
        ]
    ],
    Cells = fun(Row) ->
        [
            dyno_report_document:name(~"table", Row)
            | [
                measured(get(Key, Row), Unit)
             || {Key, Unit} <- [
                    {~"tables", ~"count"}, {~"objects", ~"count"}, {~"objects_max", ~"count"},
                    {~"memory", ~"B"}, {~"memory_growth", ~"B"}
                ]
            ]
        ]
    end,
    Counts = fun(Row) ->
        number(~"memory_max", Row) > ?REAL_BYTES orelse
            abs(number(~"memory_growth", Row)) > ?REAL_BYTES div 10
    end,
    {~"ETS tables", Columns, Cells, Counts};
resource(~"durations") ->
    Columns = [
        #{title => ~"function", align => left, fit => flexible}
        | [#{title => T, align => right} || T <- [~"sampled", ~"p50", ~"p90", ~"p99", ~"max"]]
    ] ++ [#{title => ~"", align => left}],
    Cells = fun(Row) ->
        [dyno_report_document:name(~"function", Row), measured(get(~"sampled", Row), ~"count")] ++
            [measured(get(Key, Row), ~"ns") || Key <- [~"p50", ~"p90", ~"p99", ~"max"]] ++
            [given_up(get(~"state", Row))]
    end,
    {~"Durations of single calls", Columns, Cells, fun(_Row) -> true end};
resource(~"ports") ->
    Columns = [
        #{title => ~"port", align => left, fit => flexible}
        | [
            #{title => T, align => right}
         || T <- [~"open", ~"most", ~"input", ~"output", ~"waiting, most"]
        ]
    ],
    Cells = fun(Row) ->
        [
            dyno_report_document:name(~"kind", Row)
            | [
                measured(get(Key, Row), Unit)
             || {Key, Unit} <- [
                    {~"open", ~"count"}, {~"open_max", ~"count"}, {~"input", ~"B"},
                    {~"output", ~"B"}, {~"queue_max", ~"B"}
                ]
            ]
        ]
    end,
    Counts = fun(Row) -> number(~"input", Row) + number(~"output", Row) > 0 end,
    {~"Ports and sockets", Columns, Cells, Counts}.

-spec given_up(json:decode_value()) -> binary().
given_up(~"too_hot") -> ~"given up: called too often";
given_up(~"never_returns") -> ~"given up: does not return";
given_up(~"reloaded") -> ~"given up: its module was loaded again";
given_up(_) -> ~"".

-spec number(binary(), object()) -> number().
number(Key, Row) ->
    case get(Key, Row) of
        Number when is_number(Number) -> Number;
        _ -> 0
    end.

%% In sentences: what one notices, then what bends, the first first.
-spec bends(object(), options()) -> [iodata()].
bends(Document, #{colour := Colour, width := Width, top := Top}) ->
    case dyno_report_document:tables(~"bends", Document) of
        [] ->
            [];
        [Table | _] ->
            Rows = dyno_report_document:rows(Table),
            {Symptoms, Resources} = lists:partition(
                fun(Row) -> get(~"kind", Row) =:= ~"symptom" end, Rows
            ),
            Numbered = [
                <<(integer_to_binary(N))/binary, ". ", (in_words(Row))/binary>>
             || {N, Row} <- lists:enumerate(lists:sublist(Resources, Top))
            ],
            Lines = [in_words(Row) || Row <- Symptoms] ++ Numbered ++ verdict(Symptoms, Resources),
            [
                dyno_report_style:paint(Colour, title, "What gets slow first")
                | [
                    [Indent, Line]
                 || Text <- Lines,
                    {Nth, Line} <- lists:enumerate(dyno_report_text:wrap(Text, max(20, Width - 5))),
                    Indent <- [indent(Nth)]
                ]
            ]
    end.

%% What goes on in the next line stands behind the number.
-spec indent(pos_integer()) -> string().
indent(1) -> "  ";
indent(_) -> "     ".

-spec in_words(object()) -> binary().
in_words(Row) -> dyno_report_document:text(~"text", Row, ~"-").

-spec verdict([object()], [object()]) -> [binary()].
verdict([], []) -> [~"nothing bends: response times and throughput follow the size"];
verdict([_ | _], []) -> [~"nothing that was measured inside bends with it"];
verdict(_, _) -> [].

-spec repetitions(object(), options()) -> [iodata()].
repetitions(Document, Options) ->
    Rows = [
        Row
     || Table <- dyno_report_document:tables(~"repetitions", Document),
        Row <- dyno_report_document:rows(Table)
    ],
    Sizes = lists:usort([get(~"size", Row) || Row <- Rows]),
    Columns = [
        #{title => dyno_report_console_runs:size_label(Document), align => right},
        #{title => ~"runs", align => right}
        | lists:append([
            [#{title => Name, align => right}, #{title => ~"", align => left}]
         || Name <- [~"throughput", ~"p50", ~"p99"]
        ])
    ],
    Cells = [
        [measured(Size, ~"count"), runs(Of) | lists:append([figure(Name, Of) || Name <- ?SHOWN])]
     || Size <- Sizes,
        Of <- [[Row || Row <- Rows, get(~"size", Row) =:= Size]]
    ],
    section(~"Over the repetitions, with 95 % intervals", Columns, Cells, Options).

-spec runs([object()]) -> binary().
runs(Rows) ->
    measured(lists:max([0 | [N || #{~"repetitions" := N} <- Rows]]), ~"count").

-spec figure(binary(), [object()]) -> [binary()].
figure(Name, Rows) ->
    case [Row || #{~"metric" := M} = Row <- Rows, M =:= Name] of
        [#{~"unit" := Unit} = Row | _] ->
            [measured(get(~"mean", Row), Unit), between(get(~"low", Row), get(~"high", Row), Unit)];
        [] ->
            [~"-", ~""]
    end.

-spec between(json:decode_value(), json:decode_value(), binary()) -> binary().
between(Low, High, Unit) when is_number(Low), is_number(High) ->
    <<"(", (measured(Low, Unit))/binary, " to ", (measured(High, Unit))/binary, ")">>;
between(_Low, _High, _Unit) ->
    ~"".

%% One row a size: a ratio each, and between what it lies.
-spec cost(object(), options()) -> [iodata()].
cost(Document, Options) ->
    Columns = [
        #{title => dyno_report_console_runs:size_label(Document), align => right},
        #{title => ~"response time", align => right},
        #{title => ~"", align => left},
        #{title => ~"throughput", align => right},
        #{title => ~"", align => left},
        #{title => ~"operations without", align => right},
        #{title => ~"per call", align => right, fit => optional}
    ],
    Cells = [
        [dyno_report_document:name(~"id", Run)] ++ ratio(~"instrument.response_ratio", Run) ++
            ratio(~"instrument.throughput_ratio", Run) ++
            [
                measured(dyno_report_document:metric(~"control.operations", Run), ~"count"),
                measured(dyno_report_document:metric(~"instrument.charge", Run), ~"ns")
            ]
     || Run <- get(~"runs", Document, []), metric(~"instrument.response_ratio", Run) =/= []
    ],
    section(~"What measuring cost, against runs without it", Columns, Cells, Options).

-spec metric(binary(), object()) -> [object()].
metric(Name, Run) ->
    [Metric || #{~"name" := N} = Metric <- get(~"metrics", Run, []), N =:= Name].

-spec ratio(binary(), object()) -> [binary()].
ratio(Name, Run) ->
    case metric(Name, Run) of
        [#{~"value" := null, ~"low" := Low}] when is_number(Low) ->
            [~"-", ~"too noisy to tell"];
        [#{~"value" := null}] ->
            [~"-", ~"too few operations to tell"];
        [#{~"value" := Value, ~"low" := Low, ~"high" := High}] when is_number(Low) ->
            [times(Value), <<"(", (times(Low))/binary, " to ", (times(High))/binary, ")">>];
        [#{~"value" := Value}] ->
            [times(Value), ~""];
        [] ->
            [~"-", ~""]
    end.

-spec times(json:decode_value()) -> binary().
times(Value) when is_number(Value) ->
    <<"x", (float_to_binary(Value * 1.0, [{decimals, 2}]))/binary>>;
times(_) ->
    ~"-".

-spec section(binary(), [dyno_report_table:column()], [[binary()]], options()) -> [iodata()].
section(Title, Columns, Cells, Options) ->
    dyno_report_console_runs:section(Title, Columns, Cells, length(Cells), Options).
