%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_runs).
-moduledoc """
The console report's sections about the runs: the load at each size, the virtual machine and the
machine under it at each size, and functions, processes and errors where the load was greatest.
""".

-export([sections/2, section/5, size_label/1, place/2]).

-import(dyno_report_document, [get/2, get/3, measured/2, metric/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().
-type column() :: dyno_report_table:column().
-type cell() :: dyno_report_table:cell().

-doc "The sections' lines, in the order in which they are read.".
-spec sections(dyno_report:document(), dyno_report:options()) -> [[iodata()]].
sections(Document, Options) ->
    Runs = [Run || Run <- get(~"runs", Document, []), is_map(Run)],
    Label = size_label(Document),
    [load(Runs, Label, Options)] ++
        dyno_report_console_load:sections(Runs, Label, Options) ++
        [errors(Runs, Label, Options)] ++
        machines(Runs, Label, Options) ++
        of_largest(~"functions", Runs, Label, Options) ++
        of_largest(~"processes", Runs, Label, Options).

-doc "What the sizes are called: `size`, or as the suite says.".
-spec size_label(dyno_report:document()) -> binary().
size_label(Document) ->
    dyno_report_document:text(~"size_label", get(~"parameters", Document, #{}), ~"size").

-doc "A titled table, or nothing where it has no rows; says how many rows are not shown.".
-spec section(
    binary(),
    [dyno_report_table:column()],
    [[dyno_report_table:cell()]],
    non_neg_integer(),
    dyno_report:options()
) -> [iodata()].
section(_Title, _Columns, [], _Total, _Options) ->
    [];
section(Title, Columns, Rows, Total, #{colour := Colour, width := Width, charset := Charset}) ->
    Layout = #{width => Width, indent => 2, colour => Colour, charset => Charset},
    Lines = dyno_report_table:lines(Columns, Rows, Layout),
    Heading = dyno_report_text:shorten(Title, Width, Charset),
    More =
        case Total - length(Rows) of
            0 ->
                [];
            Hidden ->
                Text = ["  and ", measured(Hidden, ~"count"), " more in the recording"],
                [dyno_report_style:paint(Colour, dim, Text)]
        end,
    [dyno_report_style:paint(Colour, title, Heading) | Lines] ++ More.

-spec load([object()], binary(), options()) -> [iodata()].
load(Runs, Label, Options) ->
    case lists:any(fun(Run) -> metric(~"load.start_time", Run) =/= null end, Runs) of
        true -> untold_load(Runs, Label, Options);
        false -> told_load(Runs, Label, Options)
    end.

%% A suite of PerformERL's gives its load itself, and tells nothing of its operations.
-spec untold_load([object()], binary(), options()) -> [iodata()].
untold_load(Runs, Label, Options) ->
    Columns = [
        #{title => Label, align => right},
        #{title => ~"measured for", align => right},
        #{title => ~"start_load took", align => right},
        #{title => ~"stop_load took", align => right},
        #{title => ~"", align => left}
    ],
    Rows = [
        [
            id(Run),
            measured(get(~"duration_ns", Run), ~"ns"),
            measured(metric(~"load.start_time", Run), ~"ns"),
            measured(metric(~"load.stop_time", Run), ~"ns"),
            status_cell(get(~"status", Run), saturation(Run))
        ]
     || Run <- Runs
    ],
    section(~"Load, given by the suite itself", Columns, Rows, length(Rows), Options).

-spec told_load([object()], binary(), options()) -> [iodata()].
told_load(Runs, Label, Options) ->
    Open = lists:any(fun(Run) -> metric(~"load.offered", Run) =/= null end, Runs),
    Columns =
        [#{title => Label, align => right}] ++
            [#{title => ~"offered", align => right} || Open] ++
            [#{title => ~"throughput", align => right}] ++
            [
                #{title => Title, align => right, fit => Fit}
             || {Title, _, Fit} <- quantiles()
            ] ++
            [#{title => ~"service p99", align => right, fit => optional} || Open] ++
            [#{title => ~"errors", align => right}] ++
            [#{title => ~"dropped", align => right} || Open] ++
            [#{title => ~"", align => left}],
    Rows = [load_row(Run, Open) || Run <- Runs],
    section(~"Load", Columns, Rows, length(Rows), Options).

-spec quantiles() -> [{binary(), binary(), fixed | optional}].
quantiles() ->
    [
        {~"p50", ~"latency.p50", fixed},
        {~"p90", ~"latency.p90", optional},
        {~"p99", ~"latency.p99", fixed},
        {~"p99.9", ~"latency.p99.9", optional},
        {~"max", ~"latency.max", optional}
    ].

-spec load_row(object(), boolean()) -> [cell()].
load_row(Run, Open) ->
    [id(Run)] ++
        [measured(metric(~"load.offered", Run), ~"1/s") || Open] ++
        [measured(metric(~"throughput", Run), ~"1/s")] ++
        [measured(metric(Name, Run), ~"ns") || {_, Name, _} <- quantiles()] ++
        [measured(metric(~"service.p99", Run), ~"ns") || Open] ++
        [error_cell(metric(~"errors.count", Run), metric(~"errors.rate", Run))] ++
        [dropped_cell(metric(~"load.dropped", Run)) || Open] ++
        [status_cell(get(~"status", Run), saturation(Run))].

-spec error_cell(number() | null, number() | null) -> cell().
error_cell(Count, _Rate) when not is_number(Count) -> ~"-";
error_cell(Count, _Rate) when Count == 0 -> ~"0";
error_cell(Count, Rate) when is_number(Rate) ->
    {bad, <<(measured(Count, ~"count"))/binary, " (", (measured(Rate, ~"ratio"))/binary, ")">>};
error_cell(Count, _Rate) ->
    {bad, measured(Count, ~"count")}.

-spec dropped_cell(number() | null) -> cell().
dropped_cell(Count) when is_number(Count), Count > 0 -> {bad, measured(Count, ~"count")};
dropped_cell(Count) -> measured(Count, ~"count").

%% A complete run needs no word, where its load came about.
-spec status_cell(json:decode_value(), binary()) -> cell().
status_cell(~"complete", ~"") -> ~"";
status_cell(~"complete", Word) -> {bad, Word};
status_cell(~"failed", _) -> {bad, ~"failed"};
status_cell(Status, _) when is_binary(Status) -> {doubtful, dyno_report_text:clean(Status)};
status_cell(_, _) -> ~"".

-spec saturation(object()) -> binary().
saturation(Run) ->
    case {metric(~"load.generator_limited", Run), metric(~"load.saturated", Run)} of
        {Parts, _} when is_number(Parts), Parts > 0 -> ~"generator limited";
        {_, Parts} when is_number(Parts), Parts > 0 -> ~"saturated";
        _ -> ~""
    end.

-spec errors([object()], binary(), options()) -> [iodata()].
errors(Runs, Label, #{top := Top} = Options) ->
    All = [
        [id(Run), dyno_report_document:name(~"reason", Row), measured(get(~"count", Row), ~"count")]
     || Run <- Runs,
        Table <- dyno_report_document:tables(~"errors", Run),
        Row <- dyno_report_document:rows(Table)
    ],
    Columns = [
        #{title => Label, align => right},
        #{title => ~"reason", align => left, fit => flexible},
        #{title => ~"count", align => right}
    ],
    section(~"Errors", Columns, lists:sublist(All, Top), length(All), Options).

%% One section a target, so that the columns stay few. A suite that starts a fresh node for each
%% run has other names in each: the first target of all runs is one section, the second the next.
-spec machines([object()], binary(), options()) -> [[iodata()]].
machines(Runs, Label, Options) ->
    Nodes = [{Run, dyno_report_document:nodes(Run)} || Run <- Runs],
    Most = lists:max([0 | [length(Names) || {_, Names} <- Nodes]]),
    [
        machine(
            [{Run, lists:nth(Nth, Names)} || {Run, Names} <- Nodes, length(Names) >= Nth],
            Most,
            Label,
            Options
        )
     || Nth <- lists:seq(1, Most)
    ].

-spec machine([{object(), binary() | null}], pos_integer(), binary(), options()) -> [iodata()].
machine(Runs, Targets, Label, Options) ->
    Columns = [
        #{title => Label, align => right},
        #{title => ~"utilisation", align => right},
        #{title => ~"run queue", align => right},
        #{title => ~"memory", align => right},
        #{title => ~"RSS", align => right, fit => optional},
        #{title => ~"processes", align => right, fit => optional},
        #{title => ~"CPU of machine", align => right, fit => optional},
        #{title => ~"I/O wait", align => right, fit => optional},
        #{title => ~"steal", align => right, fit => optional}
    ],
    Rows = [
        Row
     || {Run, Node} <- Runs, Row <- [machine_row(Run, Node)], lists:any(fun known/1, tl(Row))
    ],
    Title =
        case {Targets, lists:last(Runs)} of
            {1, _} -> ~"Virtual machine and machine";
            {_, {_, null}} -> ~"Machine";
            {_, {_, Node}} -> <<"Virtual machine of ", (dyno_report_text:clean(Node))/binary>>
        end,
    section(Title, Columns, Rows, length(Rows), Options).

-spec machine_row(object(), binary() | null) -> [cell()].
machine_row(Run, Node) ->
    Values = fun(Name) -> dyno_report_document:values(Name, Node, Run) end,
    Cpu = sums(Values(~"os.cpu.user"), Values(~"os.cpu.system")),
    [
        id(Run),
        measured(mean(Values(~"vm.scheduler_utilisation.normal")), ~"ratio"),
        measured(highest(Values(~"vm.run_queue.normal")), ~"count"),
        measured(highest(Values(~"vm.memory.total")), ~"B"),
        measured(highest(Values(~"os.vm.rss")), ~"B"),
        measured(highest(Values(~"vm.processes")), ~"count"),
        measured(mean(Cpu), ~"ratio"),
        measured(mean(Values(~"os.cpu.iowait")), ~"ratio"),
        measured(mean(Values(~"os.cpu.steal")), ~"ratio")
    ].

-spec known(cell()) -> boolean().
known(Cell) -> Cell =/= ~"-".

-spec sums([number()], [number()]) -> [number()].
sums(As, Bs) -> lists:zipwith(fun(A, B) -> A + B end, As, Bs, trim).

-spec mean([number()]) -> float() | null.
mean([]) -> null;
mean(Values) -> lists:sum(Values) / length(Values).

-spec highest([number()]) -> number() | null.
highest([]) -> null;
highest(Values) -> lists:max(Values).

%% The run of the greatest size that has the table; the last of its repetitions.
-spec of_largest(binary(), [object()], binary(), options()) -> [[iodata()]].
of_largest(Name, Runs, Label, Options) ->
    Having = [Run || Run <- Runs, has_rows(dyno_report_document:tables(Name, Run))],
    case lists:reverse(lists:keysort(1, [{get(~"size", Run, 0), Run} || Run <- Having])) of
        [] ->
            [];
        [{_, Run} | _] ->
            Tables = dyno_report_document:tables(Name, Run),
            [ranking(Name, Table, length(Tables), Run, Label, Options) || Table <- Tables]
    end.

-spec has_rows([object()]) -> boolean().
has_rows(Tables) ->
    lists:any(fun(Table) -> get(~"rows", Table, []) =/= [] end, Tables).

-spec ranking(binary(), object(), pos_integer(), object(), binary(), options()) -> [iodata()].
ranking(Name, Table, Tables, Run, Label, #{top := Top} = Options) ->
    {Title, Key, Columns, Cells} = ranking(Name, Options),
    Rows = lists:sort(
        fun(A, B) -> number(Key, A) >= number(Key, B) end,
        dyno_report_document:rows(Table)
    ),
    Of =
        case get(~"node", Table) of
            Node when is_binary(Node), Tables > 1 -> [" of ", dyno_report_text:clean(Node)];
            _ -> ""
        end,
    Heading = iolist_to_binary([Title, Of, " at ", place(Label, id(Run))]),
    Total = length(Rows) + get(~"truncated", Table, 0),
    section(Heading, Columns, [Cells(Row) || Row <- lists:sublist(Rows, Top)], Total, Options).

-doc "A run in a heading, by what sizes are called and its id: `16 clients`, `size 16`.".
-spec place(binary(), binary()) -> [iodata(), ...].
place(~"size", Id) -> [~"size ", Id];
%% As suites of PerformERL call it.
place(<<"number of ", What/binary>>, Id) -> place(What, Id);
place(Label, ~"1") -> [~"1 ", singular(Label)];
place(Label, <<"1#", _/binary>> = Id) -> [Id, ~" ", singular(Label)];
place(Label, Id) -> [Id, ~" ", Label].

%% Of a plural as English forms it; what is no plural stays.
-spec singular(binary()) -> iodata().
singular(Label) ->
    Rules = [{"ies$", "y"}, {"(ss|x|ch|sh)es$", "\\1"}, {"([^s/])s$", "\\1"}],
    lists:foldl(
        fun({Plural, Singular}, Text) ->
            re:replace(Text, Plural, Singular, [unicode, {return, binary}])
        end,
        Label,
        Rules
    ).

-spec ranking(binary(), options()) -> {binary(), binary(), [column()], fun((object()) -> [cell()])}.
ranking(~"functions", #{charset := Charset}) ->
    Columns = [
        #{title => ~"function", align => left, fit => flexible},
        #{title => ~"calls", align => right},
        #{title => ~"own time", align => right},
        #{title => ~"per call", align => right},
        #{title => ~"share", align => right},
        #{title => ~"", align => left, fit => optional}
    ],
    Cells = fun(Row) ->
        [
            dyno_report_document:name(~"function", Row),
            measured(get(~"calls", Row), ~"count"),
            measured(get(~"own_time", Row), ~"ns"),
            measured(get(~"time_per_call", Row), ~"ns"),
            measured(get(~"share", Row), ~"ratio"),
            {dim, bar(get(~"share", Row), Charset)}
        ]
    end,
    {~"Functions by own time", ~"own_time", Columns, Cells};
ranking(~"processes", _Options) ->
    Columns = [
        #{title => ~"group", align => left, fit => flexible},
        #{title => ~"seen", align => right},
        #{title => ~"alive", align => right},
        #{title => ~"lifetime", align => right, fit => optional},
        #{title => ~"memory", align => right},
        #{title => ~"most", align => right, fit => optional},
        #{title => ~"reductions", align => right},
        #{title => ~"longest queue", align => right, fit => optional},
        #{title => ~"collections", align => right, fit => optional}
    ],
    Cells = fun(Row) ->
        [
            dyno_report_document:name(~"group", Row),
            measured(get(~"discovered", Row), ~"count"),
            measured(get(~"alive", Row), ~"count"),
            where_known(get(~"lifetime_p50", Row), ~"ns"),
            if_sampled(~"memory", ~"B", Row),
            measured(get(~"memory_max", Row), ~"B"),
            if_sampled(~"reductions", ~"count", Row),
            measured(get(~"message_queue_max", Row), ~"count"),
            where_known(get(~"garbage_collections", Row), ~"count")
        ]
    end,
    {~"Processes by reductions", ~"reductions", Columns, Cells}.

%% Where most processes came and went between two samples, a sum would be of few.
-spec if_sampled(binary(), binary(), object()) -> cell().
if_sampled(Name, Unit, Row) ->
    {Sampled, All} = {get(~"sampled", Row), get(~"discovered", Row)},
    case is_number(Sampled) andalso is_number(All) andalso 2 * Sampled < All of
        true -> {dim, ~"not sampled"};
        false -> measured(get(Name, Row), Unit)
    end.

%% Of processes that live on there is no lifetime, and in older recordings of none.
-spec where_known(json:decode_value(), binary()) -> binary().
where_known(null, _Unit) -> ~"";
where_known(Value, Unit) -> measured(Value, Unit).

%% 20 columns are 100 %, in eighths of a column where the characters are to be had.
-spec bar(json:decode_value(), dyno_report_text:charset()) -> binary().
bar(Share, unicode) when is_number(Share), Share > 0 ->
    Eighths = max(1, min(160, round(Share * 160))),
    Full = binary:copy(~"█", Eighths div 8),
    case Eighths rem 8 of
        0 -> Full;
        Rest -> <<Full/binary, (16#2590 - Rest)/utf8>>
    end;
bar(Share, ascii) when is_number(Share), Share > 0 ->
    binary:copy(~"#", min(20, round(Share * 20)));
bar(_Share, _Charset) ->
    ~"".

%% Repetitions are told apart by the run's id; a size that ran once is its number.
-spec id(object()) -> binary().
id(Run) ->
    dyno_report_document:name(~"id", Run).

-spec number(binary(), object()) -> number().
number(Key, Row) ->
    case get(Key, Row) of
        Number when is_number(Number) -> Number;
        _ -> -1
    end.
