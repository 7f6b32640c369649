%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_metrics).
-moduledoc false.
%% The comparable values of a recording. A benchmark: its codes, with a value for each round. A
%% test: quality metrics, the memory of nodes, and functions, by size, with a value for each
%% repetition. Both: names in conditions, which may be thresholds' names or table cells of columns
%% with a better direction. Other commands: metrics of runs and such cells. Pure.

-export([metrics/2, change/4, code/3, functions/1, memory/0, work/0, nearest/2]).
-export([is_asked/1, is_calm/1, calm/1]).
-export_type([metric/0, names/0]).

-type metric() :: #{
    item := binary(),
    metric := binary(),
    unit := binary(),
    %% other_time: times that locate a change, such as those of functions, but decide no gate.
    kind := time | other_time | exact | amount,
    of_each := round | run,
    better := lower | higher,
    values := [number(), ...],
    %% The work of a code changes with the calls before it: no verdict holds. Of a test: its course.
    drifts => true | float(),
    %% The error of each value from its run's course; asked metrics only.
    errors => [dyno_stats_runs:error(), ...],
    %% Of times in a test: the share of the processors that other programs took.
    others => float()
}.

-type value() :: number() | undefined.

-doc "Names of metrics or columns: `latency.p95`, `processes.memory_max`.".
-type names() :: [binary()].

-define(OF_CODES, [
    {~"reductions", ~"reductions_per_call"},
    {~"words", ~"words_per_call"},
    {~"messages", ~"messages_per_call"},
    {~"whole", ~"whole_reductions_per_call"}
]).

%% Metrics that three runs can judge: a run's high percentiles come from a few operations, and its
%% mean from the highest. The recording has their courses; the quantile is that of their best parts.
-define(ASKED, #{
    ~"throughput" => {~"load.throughput", 0.95},
    ~"latency.p50" => {~"load.latency.p50", 0.05}
}).
-define(CALM, ~".calm").
%% Fewer parts of a run, or fewer operations in each, say nothing of the best.
-define(PARTS, 10).
-define(OPERATIONS, 50).

%% Metrics that decide conditions on all times come first.
-define(OF_TESTS, [
    {~"throughput", time, higher},
    {~"latency.mean", time, lower},
    {~"latency.p50", time, lower},
    {~"latency.p90", time, lower},
    {~"latency.p99", time, lower},
    {~"latency.p99.9", other_time, lower},
    {~"latency.max", other_time, lower},
    {~"errors.rate", amount, lower}
]).

-define(WORK, ~"reductions").
-define(MEMORY, ~"vm.memory.total.max").
-define(OF_NODES, [
    ?MEMORY, ~"vm.memory.processes.max", ~"vm.memory.binary.max", ~"os.vm.rss.max"
]).

-spec metrics(dyno_recording:document(), names()) -> [metric()].
metrics(#{~"command" := ~"bench"} = Document, Names) ->
    Runs = dyno_recording:runs(Document),
    Drifting = [
        Code
     || Of <- [Document | Runs],
        #{~"code" := Doubt, ~"subject" := Code} <- maps:get(~"warnings", Of, []),
        Doubt =:= ~"keeps" orelse Doubt =:= ~"drifts"
    ],
    lists:append([codes(Run, length(Runs), Drifting) || Run <- Runs]) ++ by_name(Names, Document);
metrics(#{~"command" := Command} = Document, Names) when
    Command =:= ~"test"; Command =:= ~"record"
->
    Others = dyno_finding_machine:others(Document),
    OfPlaces = lists:append([
        [
            with_course(M, Runs)
         || {Name, Kind, Better} <- ?OF_TESTS,
            Whole <- named(Name, Place, Runs),
            Metric <- [Whole#{kind := Kind, better := Better}],
            M <- [with_errors(Metric, Runs) | of_calm_parts(Metric, Runs)]
        ] ++ work(Place, Runs) ++ lists:append([named(Name, Place, Runs) || Name <- ?OF_NODES]) ++
            functions(Place, Runs)
     || {Place, Runs} <- places(Document)
    ]),
    Further = (Names -- [Name || {Name, _, _} <- ?OF_TESTS]) -- ?OF_NODES,
    [with_others(M, Others) || M <- OfPlaces ++ by_name(Further, Document)];
metrics(Document, _Names) ->
    lists:append([all(Place, Runs) || {Place, Runs} <- places(Document)]).

with_errors(#{metric := Name, values := Values} = Metric, Runs) ->
    Errors = [
        error_of(Series, Run)
     || #{Name := {Series, _}} <- [?ASKED],
        #{~"metrics" := Of} = Run <- Runs,
        #{~"name" := N} <- Of,
        N =:= Name
    ],
    case length(Errors) =:= length(Values) andalso Errors =/= [] of
        true -> Metric#{errors => Errors};
        false -> Metric
    end.

error_of(Name, Run) ->
    dyno_stats_runs:error_of([Value || {_, Value} <- dyno_finding_course:points(Name, Run)]).

%% The kernel and other programs slow each run of the same code for a while, and no two runs alike:
%% as wholes they differ by 10 %, in their best parts by 1 to 3 %.
of_calm_parts(#{metric := Name, values := Values} = Metric, Runs) ->
    Calm = [
        dyno_stats:quantile(Parts, Quantile)
     || #{Name := {Series, Quantile}} <- [?ASKED],
        Run <- Runs,
        has_calm_parts(Run),
        Parts <- [[Value || {_, Value} <- dyno_finding_course:points(Series, Run)]],
        length(Parts) >= ?PARTS
    ],
    [
        Metric#{metric := calm(Name), values := Calm}
     || length(Calm) =:= length(Values)
    ].

has_calm_parts(Run) ->
    Points = dyno_finding_course:points(~"load.throughput", Run),
    dyno_finding_course:is_even(Run) andalso length(Points) >= ?PARTS andalso
        dyno_stats:mean([Rate || {_, Rate} <- Points]) * part_s(Points) >= ?OPERATIONS.

part_s([{FirstMs, _} | _] = Points) ->
    {LastMs, _} = lists:last(Points),
    (LastMs - FirstMs) / 1000 / (length(Points) - 1).

%% Response times that change within most runs make the result depend on their length.
with_course(#{metric := Name} = Metric, Runs) ->
    Whole = hd(string:split(Name, ?CALM, trailing)),
    case dyno_stats:median([dyno_finding_course:change(Whole, Run) || Run <- Runs]) of
        Log when Log /= 0 -> Metric#{drifts => math:exp(abs(Log))};
        _ -> Metric
    end.

%% Times depend on the processors that others left.
with_others(#{item := Item, kind := Kind} = Metric, Others) when
    Kind =:= time; Kind =:= other_time
->
    Of = [Share || Size := Share <- Others, hd(string:split(Item, ": ")) =:= of_size(Size)],
    maps:merge(Metric, maps:from_list([{others, Share} || Share <- Of]));
with_others(Metric, _Others) ->
    Metric.

%% An operation's reductions: of the processes that called the measured functions, in each run.
work(Place, Runs) ->
    Values = [per_operation(Run) || Run <- Runs],
    [metric(Place, ?WORK, ~"1", amount, Values) || lists:all(fun is_float/1, Values)].

per_operation(Run) ->
    Cut = [N || #{~"truncated" := N} <- dyno_recording:tables(Run, ~"processes"), N > 0],
    Rows = dyno_recording:rows(Run, ~"processes"),
    Followed = [
        R
     || #{~"discovered" := N, ~"sampled" := N, ~"reductions" := R} <- Rows, is_integer(R)
    ],
    case dyno_recording:metric(Run, ~"operations.count") of
        {ok, #{~"value" := Count}} when
            Count > 0, Cut =:= [], Rows =/= [], length(Followed) =:= length(Rows)
        ->
            lists:sum(Followed) / Count;
        _ ->
            undefined
    end.

-doc "The metric of a test's work for each operation.".
-spec work() -> binary().
work() -> ?WORK.

-doc "Whether few runs can judge the metric, so that conditions on all times ask it.".
-spec is_asked(#{of_each := round | run, metric := binary(), _ => _}) -> boolean().
is_asked(#{of_each := round}) -> true;
is_asked(#{metric := Metric}) -> is_map_key(Metric, ?ASKED).

-doc "Whether the metric is of the best parts of runs.".
-spec is_calm(#{metric := binary(), _ => _}) -> boolean().
is_calm(#{metric := Name}) -> lists:member(Name, [calm(Of) || Of <- maps:keys(?ASKED)]).

-doc "The name of a metric in the best parts of runs.".
-spec calm(binary()) -> binary().
calm(Name) -> <<Name/binary, ?CALM/binary>>.

by_name([], _Document) ->
    [];
by_name(Names, Document) ->
    lists:append([
        lists:append([named(Name, Place, Runs) || Name <- Names]) ++
            [Cell || #{metric := Name} = Cell <- cells(Place, Runs), lists:member(Name, Names)]
     || {Place, Runs} <- places(Document)
    ]).

-spec change(metric(), {value(), value()}, {value(), value(), value()}, dyno_compare:verdict()) ->
    dyno_compare:change().
change(Metric, {Old, New}, {Ratio, Low, High}, Verdict) ->
    (maps:without([values, errors, others], Metric))#{
        old => Old, new => New, ratio => Ratio, low => Low, high => High, verdict => Verdict
    }.

-doc "The metric behind `memory` in a condition on tests.".
-spec memory() -> binary().
memory() -> ?MEMORY.

-spec nearest(binary(), dyno_recording:document()) -> [binary()].
nearest(Name, Document) ->
    Runs = dyno_recording:runs(Document),
    Of = fun(Key) -> [N || Run <- Runs, #{~"name" := N} <- maps:get(Key, Run, [])] end,
    Cells = [N || {Place, Of1} <- places(Document), #{metric := N} <- cells(Place, Of1)],
    Names = dyno_threshold_metric:names(Of(~"metrics"), Of(~"series")) ++ Cells,
    dyno_similar:closest(Name, Names).

places(Document) ->
    Runs = [Run || #{~"status" := ~"complete"} = Run <- dyno_recording:runs(Document)],
    Places = [{place(Run), Run} || Run <- Runs],
    [
        {Place, [Run || {Of, Run} <- Places, Of =:= Place]}
     || Place <- lists:uniq([Place || {Place, _} <- Places])
    ].

place(#{~"labels" := Labels, ~"size" := Size}) when
    is_integer(Size), Labels =:= #{} orelse is_map_key(~"size", Labels)
->
    of_size(Size);
place(#{~"labels" := Labels}) ->
    dyno_recording_run:id(Labels, 1).

of_size(Size) -> <<"size ", (integer_to_binary(Size))/binary>>.

-spec code(binary(), dyno_recording:run(), Runs :: non_neg_integer()) -> binary().
code(Code, _Run, 1) -> Code;
code(Code, #{~"id" := Id}, _Runs) -> <<Code/binary, " (", Id/binary, ")">>.

codes(Run, Runs, Drifting) ->
    Rows = dyno_recording:rows(Run, ~"codes"),
    lists:append([
        [
            drifting(
                lists:member(Code, Drifting),
                (metric(code(Code, Run, Runs), Name, Unit, Kind, Of))#{of_each := round}
            )
         || {Name, Unit, Kind, Of} <-
                [{~"time", ~"ns", time, Times}] ++
                    exact([Row || #{~"code" := C} = Row <- Rows, C =:= Code]) ++
                    decisive(Code, Run)
        ]
     || #{~"labels" := #{~"code" := Code}, ~"values" := Values} <-
            dyno_recording:series(Run, ~"bench.time"),
        [_ | _] = Times <- [[Value || Value <- Values, is_number(Value)]]
    ]).

drifting(false, Metric) -> Metric;
drifting(true, #{kind := exact} = Metric) -> Metric#{kind := amount, drifts => true};
drifting(true, Metric) -> Metric#{drifts => true}.

%% A value that differs between runs is not exact.
exact(Rows) ->
    [
        {Name, ~"1", exact_kind(Name, maps:get(~"inexact", Row, null)), [Value]}
     || Row <- Rows,
        {Name, Column} <- ?OF_CODES,
        #{Column := Value} <- [Row],
        is_number(Value)
    ].

exact_kind(_Name, null) ->
    exact;
exact_kind(Name, Inexact) ->
    case binary:match(Inexact, Name) of
        nomatch -> exact;
        _ -> amount
    end.

%% The deciding metric, if neither the time nor already listed.
decisive(Code, Run) ->
    [
        {Metric, Of, Kind, Numbers}
     || #{~"labels" := Labels, ~"unit" := Unit, ~"values" := Values} <-
            dyno_recording:series(Run, ~"bench.value"),
        #{~"code" := C, ~"metric" := Metric} <- [Labels],
        C =:= Code,
        not lists:keymember(Metric, 1, ?OF_CODES),
        [_ | _] = Numbers <- [[Value || Value <- Values, is_number(Value)]],
        {Of, Kind} <- [
            case Unit of
                ~"ns/call" -> {~"ns", time};
                _ -> {Unit, amount}
            end
        ]
    ].

functions(Place, Runs) ->
    Times = [
        {Name, Time}
     || Run <- Runs,
        #{~"function" := Name, ~"time_per_call" := Time} = Row <-
            dyno_recording:rows(Run, ~"functions"),
        is_number(Time),
        Time > 0,
        %% Otherwise the time is below resolution.
        maps:get(~"time_per_call_low", Row, Time) > 0
    ],
    OfEach = maps:groups_from_list(fun({Name, _}) -> Name end, fun({_, Time}) -> Time end, Times),
    [
        metric(<<Place/binary, ": ", Name/binary>>, ~"time per call", ~"ns", other_time, Of)
     || Name <- lists:uniq([Name || {Name, _} <- Times]), #{Name := Of} <- [OfEach]
    ].

-doc "A test's functions by place, with shares of the time, or calls; `whole` if not cut.".
-spec functions(dyno_recording:document()) ->
    #{Place :: binary() => #{whole := boolean(), functions := #{binary() => metric()}}}.
functions(#{~"command" := Command} = Document) when
    Command =:= ~"test"; Command =:= ~"record"
->
    #{
        Place => #{
            whole => [] =:=
                [
                    T
                 || Run <- Runs,
                    #{~"truncated" := Cut} = T <- dyno_recording:tables(Run, ~"functions"),
                    Cut > 0
                ],
            functions => presences(Place, [dyno_recording:rows(Run, ~"functions") || Run <- Runs])
        }
     || {Place, Runs} <- places(Document)
    };
functions(_Document) ->
    #{}.

presences(Place, RowsOfRuns) ->
    {Column, Title, Unit} =
        case [x || Rows <- RowsOfRuns, #{~"share" := Share} <- Rows, is_number(Share)] of
            [] -> {~"calls", ~"calls", ~"count"};
            _ -> {~"share", ~"share of time", ~"ratio"}
        end,
    Values = [
        #{Name => number(Value) || #{~"function" := Name, Column := Value} <- Rows}
     || Rows <- RowsOfRuns
    ],
    #{
        Name => metric(<<Place/binary, ": ", Name/binary>>, Title, Unit, amount, [
            maps:get(Name, Of, 0)
         || Of <- Values
        ])
     || Name <- lists:uniq(lists:append([maps:keys(Of) || Of <- Values]))
    }.

%% An untimed function is still present.
number(Value) when is_number(Value) -> Value;
number(null) -> 0.

%% All metrics and tables

all(Place, Runs) ->
    Names = lists:uniq([Name || #{~"metrics" := Of} <- Runs, #{~"name" := Name} <- Of]),
    lists:append([named(Name, Place, Runs) || Name <- Names]) ++ cells(Place, Runs).

named(Name, Place, Runs) ->
    Roles = lists:uniq([Role || #{~"nodes" := Nodes} <- Runs, #{~"role" := Role} <- Nodes]),
    OfNodes = [
        Metric
     || Role <- Roles,
        Item <- [<<Place/binary, ": ", Role/binary>>],
        Metric <- of_runs(Name, Item, Role, Runs)
    ],
    case OfNodes of
        [] -> of_runs(Name, Place, undefined, Runs);
        [Metric] -> [Metric#{item := Place}];
        _ -> OfNodes
    end.

of_runs(Name, Item, Node, Runs) ->
    Found = [
        {Value, Unit}
     || Run <- Runs,
        {Value, Unit} <- known(dyno_threshold_metric:value(Name, Node, Run))
    ],
    [
        (metric(Item, Name, Unit, kind(Unit), [Value || {Value, _} <- Found]))#{
            better := usually_better(Unit)
        }
     || [{_, Unit} | _] <- [Found]
    ].

%% A late generator lengthens response times; on the same machine that of both sides is late.
known({ok, Value, Unit}) -> [{Value, Unit}];
known({ok, Value, Unit, {unknown, Value}}) -> [{Value, Unit}];
known(_Unknown) -> [].

%% Nodes are not repetitions: a cell is of all nodes together, or of one.
cells(Place, Runs) ->
    Cells = [
        {{item(Place, Node, Tables, Keys), <<Name/binary, ".", Column/binary>>}, Of}
     || #{~"tables" := Tables} <- Runs,
        #{~"name" := Name, ~"node" := Node, ~"derived" := false} = Table <- Tables,
        Node =:= null orelse not has_total(Name, Tables),
        {Keys, Column, Of} <- table_cells(Table)
    ],
    Repetitions = maps:groups_from_list(
        fun({Id, _}) -> Id end, fun({_, {_, _, Cell}}) -> Cell end, Cells
    ),
    [
        (metric(Item, Name, unit(Unit), kind(Unit), map_get(Id, Repetitions)))#{
            better := better(Better)
        }
     || {Id = {Item, Name}, {Unit, Better, _}} <- lists:uniq(fun({Id, _}) -> Id end, Cells)
    ].

%% Columns with a better direction, in rows with distinct keys.
table_cells(#{~"columns" := Columns, ~"rows" := Rows}) ->
    [
        {Keys, Name, {Unit, Better, Cell}}
     || Row <- Rows,
        Pairs <- [lists:zip(Columns, Row)],
        [_ | _] = Keys <- [[text(Key) || {#{~"role" := ~"key"}, Key} <- Pairs]],
        {#{~"name" := Name, ~"unit" := Unit, ~"better" := Better}, Cell} <- Pairs,
        Better =/= null,
        is_number(Cell)
    ].

text(Text) when is_binary(Text) -> Text;
text(Key) -> json:encode(Key).

item(Place, Node, Tables, Keys) ->
    Several = lists:usort([Of || #{~"node" := Of} <- Tables, Of =/= null]),
    OfNode = [Node || Node =/= null, tl(Several) =/= []],
    iolist_to_binary(lists:join(": ", [Place] ++ OfNode ++ [lists:join(" ", Keys)])).

has_total(Name, Tables) ->
    [] =/= [Name || #{~"name" := Of, ~"node" := null} <- Tables, Of =:= Name].

unit(null) -> ~"1";
unit(Unit) -> Unit.

better(~"higher") -> higher;
better(_) -> lower.

usually_better(Unit) ->
    case dyno_threshold_metric:dimension(Unit) of
        Dimension when Dimension =:= rate; Dimension =:= byte_rate -> higher;
        _ -> lower
    end.

kind(Unit) ->
    case dyno_threshold_metric:dimension(unit(Unit)) of
        Dimension when Dimension =:= time; Dimension =:= time_per_call -> other_time;
        _ -> amount
    end.

metric(Item, Name, Unit, Kind, Values) ->
    #{
        item => Item,
        metric => Name,
        unit => Unit,
        kind => Kind,
        of_each => run,
        better => lower,
        values => Values
    }.
