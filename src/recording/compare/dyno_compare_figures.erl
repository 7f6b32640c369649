%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_figures).
-moduledoc false.
%% What of a recording can be compared with another's: a benchmark's codes, with a value for each
%% round; a test's metrics and functions for each size, with a value for each repetition. Pure.

-export([figures/1]).
-export_type([figure/0]).

-type figure() :: #{
    item := binary(),
    figure := binary(),
    unit := binary(),
    %% other_time: times that tell where, such as those of functions, but are no gate's matter.
    kind := time | other_time | exact | amount,
    %% Which is better.
    better := lower | higher,
    values := [number(), ...]
}.

-type object() :: dyno_recording:object().

-define(OF_CODES, [
    {~"reductions", ~"reductions_per_call"},
    {~"words", ~"words_per_call"},
    {~"messages", ~"messages_per_call"},
    {~"whole", ~"whole_reductions_per_call"}
]).

-define(METRICS, [
    {~"throughput", time, higher},
    {~"latency.mean", time, lower},
    {~"latency.p50", time, lower},
    {~"latency.p90", time, lower},
    {~"latency.p99", time, lower},
    {~"latency.p99.9", other_time, lower},
    {~"latency.max", other_time, lower},
    {~"errors.rate", amount, lower},
    {~"memory.total.max", amount, lower},
    {~"memory.processes.max", amount, lower},
    {~"memory.binary.max", amount, lower},
    {~"os.vm.rss.max", amount, lower}
]).

-doc "All figures, in the order in which they are shown.".
-spec figures(dyno_recording:document()) -> [figure()].
figures(#{~"command" := ~"bench"} = Document) ->
    Runs = dyno_recording:runs(Document),
    lists:append([codes(Run, length(Runs)) || Run <- Runs]);
figures(Document) ->
    Runs = [Run || #{~"status" := ~"complete"} = Run <- dyno_recording:runs(Document)],
    Sizes = lists:uniq([Size || #{~"size" := Size} <- Runs]),
    lists:append([
        at_size(Size, [Run || #{~"size" := Of} = Run <- Runs, Of =:= Size])
     || Size <- Sizes
    ]).

%% The same code in several runs (of several inputs) is told apart by the run.
-spec codes(object(), pos_integer()) -> [figure()].
codes(#{~"id" := Id} = Run, Runs) ->
    Item = fun
        (Code) when Runs =:= 1 -> Code;
        (Code) -> <<Code/binary, " (", Id/binary, ")">>
    end,
    Rows = [Row || Table <- dyno_recording:tables(Run, ~"codes"), Row <- rows(Table)],
    lists:append([
        [
            #{
                item => Item(Code), figure => ~"time", unit => ~"ns", kind => time,
                better => lower, values => Times
            }
            | [
                #{
                    item => Item(Code), figure => Figure, unit => Unit, kind => Kind,
                    better => lower, values => Of
                }
             || {Figure, Unit, Kind, Of} <-
                    exact([Row || #{~"code" := C} = Row <- Rows, C =:= Code]) ++
                        decisive(Code, Run)
            ]
        ]
     || #{~"labels" := #{~"code" := Code}, ~"values" := Values} <-
            dyno_recording:series(Run, ~"bench.time"),
        [_ | _] = Times <- [[Value || Value <- Values, is_number(Value)]]
    ]).

%% What differed from run to run is no exact figure.
-spec exact([object()]) -> [{binary(), binary(), exact | amount, [number(), ...]}].
exact(Rows) ->
    [
        {Figure, ~"1", Kind, [Value]}
     || Row <- Rows,
        {Figure, Column} <- ?OF_CODES,
        #{Column := Value} <- [Row],
        is_number(Value),
        Kind <- [kind(Figure, maps:get(~"inexact", Row, null))]
    ].

-spec kind(binary(), binary() | null) -> exact | amount.
kind(Figure, Inexact) when is_binary(Inexact) ->
    case binary:match(Inexact, Figure) of
        nomatch -> exact;
        _ -> amount
    end;
kind(_Figure, null) ->
    exact.

%% What decided, where that was not the time, and it is not among them.
-spec decisive(binary(), object()) -> [{binary(), binary(), time | amount, [number(), ...]}].
decisive(Code, Run) ->
    [
        {Metric, unit(Unit), Kind, Known}
     || #{~"labels" := Labels, ~"unit" := Unit, ~"values" := Values} <-
            dyno_recording:series(Run, ~"bench.value"),
        #{~"code" := C, ~"metric" := Metric} <- [Labels],
        C =:= Code,
        not lists:keymember(Metric, 1, ?OF_CODES),
        [_ | _] = Known <- [[Value || Value <- Values, is_number(Value)]],
        Kind <- [
            case Unit of
                ~"ns/call" -> time;
                _ -> amount
            end
        ]
    ].

-spec unit(binary()) -> binary().
unit(~"ns/call") -> ~"ns";
unit(Unit) when is_binary(Unit) -> Unit.

-spec at_size(integer(), [object()]) -> [figure()].
at_size(Size, Runs) ->
    Item = <<"size ", (integer_to_binary(Size))/binary>>,
    [
        #{
            item => Item, figure => Name, unit => Unit, kind => Kind, better => Better,
            values => [Value || {Value, _} <- Found]
        }
     || {Name, Kind, Better} <- ?METRICS,
        [{_, Unit} | _] = Found <- [metric(Name, Runs)]
    ] ++ functions(Item, Runs).

-spec metric(binary(), [object()]) -> [{number(), binary()}].
metric(Name, Runs) ->
    [
        {Value, Unit}
     || Run <- Runs,
        {ok, #{~"value" := Value, ~"unit" := Unit}} <- [dyno_recording:metric(Run, Name)],
        is_number(Value)
    ].

%% A function's time for each call, over all nodes that it ran on.
-spec functions(binary(), [object()]) -> [figure()].
functions(Item, Runs) ->
    Times = lists:append([
        [
            {Name, Time}
         || Table <- of_all_nodes(dyno_recording:tables(Run, ~"functions")),
            #{~"function" := Name, ~"time_per_call" := Time} <- rows(Table),
            is_number(Time),
            Time > 0
        ]
     || Run <- Runs
    ]),
    [
        #{
            item => <<Item/binary, ": ", Name/binary>>, figure => ~"time per call", unit => ~"ns",
            kind => other_time, better => lower, values => [T || {Of, T} <- Times, Of =:= Name]
        }
     || Name <- lists:uniq([Name || {Name, _} <- Times])
    ].

%% Nodes are no repetitions.
-spec of_all_nodes([object()]) -> [object()].
of_all_nodes(Tables) ->
    case [T || #{~"node" := null} = T <- Tables] of
        [] -> Tables;
        Total -> Total
    end.

-spec rows(object()) -> [object()].
rows(#{~"columns" := Columns, ~"rows" := Rows}) ->
    Names = [Name || #{~"name" := Name} <- Columns],
    [maps:from_list(lists:zip(Names, Row, trim)) || Row <- Rows].
