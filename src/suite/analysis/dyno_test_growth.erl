%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_growth).
-moduledoc """
Says how each figure of a test grows with the size: the functions' time per call, how often they are
called for an operation (`calls/op`, where that grows), what processes, tables and ports take, and
the run's metrics, each with its exponent and interval (dyno_stats_growth). What surely grows and
matters comes first.

What grows is also said for ten times the largest size: an extrapolation of the measured law, which
holds as long as nothing else bends. Its interval is that of the exponent, not of the law.
""".

-export([tables/1]).

%% With fewer calls at a size a time per call is chance.
-define(MIN_CALLS, 30).
%% A function that takes less of the time at the largest size does not matter yet.
-define(REAL_SHARE, 0.01).
%% But what is called ever more often will: it is listed from here on.
-define(SMALL_SHARE, 0.001).
%% An exponent from guesses would be a guess.
-define(MAX_UNCERTAINTY, 0.2).
-define(METRICS, [
    ~"throughput",
    ~"latency.p50",
    ~"latency.p99",
    ~"service.p50",
    %% Of a suite in PerformERL's form.
    ~"load.start_time",
    ~"processes.discovered"
]).
-define(SERIES, [
    {~"vm.memory.total", max},
    {~"vm.memory.processes", max},
    {~"vm.memory.binary", max},
    {~"vm.memory.ets", max},
    {~"vm.processes", max},
    {~"vm.ports", max},
    {~"vm.run_queue.normal", mean},
    {~"vm.scheduler_utilisation.normal", mean},
    {~"vm.reductions", mean},
    {~"vm.garbage_collections", mean},
    {~"vm.context_switches", mean},
    {~"os.vm.rss", max},
    {~"os.vm.cpu", mean}
]).
%% table, the column with the name, kind, figures with their units
-define(TABLES, [
    {~"processes", ~"group", ~"process", [
        {~"memory_max", ~"B"}, {~"reductions", ~"count"}, {~"message_queue_max", ~"count"}
    ]},
    {~"ets", ~"table", ~"ets", [{~"memory_max", ~"B"}, {~"objects_max", ~"count"}]},
    {~"ports", ~"kind", ~"port", [{~"open_max", ~"count"}, {~"queue_max", ~"B"}]}
]).
%% How far a law is carried on.
-define(FARTHER, 10).
%% An exponent of which no more is known says nothing so far away.
-define(WIDEST, 2).
%% So many rows of a kind, the greatest first.
-define(MOST_ROWS, 500).

-doc "The table `growth` of a document; none where fewer than two sizes are complete.".
-spec tables(dyno_recording:document()) -> [#{atom() => term()}].
tables(Document) ->
    Runs = [R || #{~"status" := ~"complete"} = R <- dyno_recording:runs(Document)],
    case lists:usort([Size || #{~"size" := Size} <- Runs]) of
        [_, _ | _] ->
            Metrics = [Row ++ [undefined] || Row <- metric_rows(Runs) ++ series_rows(Runs)],
            Operations = operation_rows(Runs),
            Tables = [Row ++ [undefined] || Of <- ?TABLES, Row <- table_rows(Of, Runs)],
            {Clear, Others} = lists:partition(
                fun matters/1, Metrics ++ function_rows(Runs) ++ Operations
            ),
            Sorted = lists:reverse(lists:sort(fun less_growth/2, Clear)) ++ Others ++ Tables,
            Largest = lists:max([Size || #{~"size" := Size} <- Runs]),
            [table([Row ++ extrapolated(Row, Largest) || Row <- Sorted])];
        _ ->
            []
    end.

metric_rows(Runs) ->
    lists:append([
        row(~"metric", Name, Runs, fun(Run) -> metric(Run, Name) end)
     || Name <- ?METRICS
    ]).

metric(Run, Name) ->
    case dyno_recording:metric(Run, Name) of
        {ok, #{~"value" := Value, ~"unit" := Unit}} when is_number(Value) -> [{Value, Unit}];
        _ -> []
    end.

series_rows(Runs) ->
    lists:append([
        row(~"metric", <<Name/binary, ".", (atom_to_binary(Of))/binary>>, Runs, fun(Run) ->
            of_series(Of, Run, Name)
        end)
     || {Name, Of} <- ?SERIES ++ [{Name, max} || Name <- custom(Runs)]
    ]).

%% A suite's own metrics.
custom(Runs) ->
    lists:usort([
        Name || Run <- Runs, #{~"group" := ~"custom", ~"name" := Name} <- maps:get(~"series", Run)
    ]).

%% Of the first target.
of_series(Of, Run, Name) ->
    case dyno_recording:series(Run, Name) of
        [#{~"values" := Values, ~"unit" := Unit} | _] ->
            case [V || V <- Values, is_number(V)] of
                [] -> [];
                Numbers when Of =:= max -> [{lists:max(Numbers), Unit}];
                Numbers when Of =:= mean -> [{lists:sum(Numbers) / length(Numbers), Unit}]
            end;
        [] ->
            []
    end.

%% Groups of processes, tables, kinds of ports: over all nodes, what has the same name together.
table_rows({Table, Key, Kind, Figures}, Runs) ->
    Points = lists:foldl(
        fun(#{~"size" := Size} = Run, Acc) ->
            maps:fold(
                fun(Name, Value, A) ->
                    maps:update_with(Name, fun(Ps) -> [{Size, Value} | Ps] end, [{Size, Value}], A)
                end,
                Acc,
                summed(Table, Key, [F || {F, _} <- Figures], Run)
            )
        end,
        #{},
        Runs
    ),
    Units = maps:from_list(Figures),
    Rows = [
        {lists:max([V || {_, V} <- Ps]), Row}
     || {Name, Figure} := Ps <- Points,
        Row <- fitted(Kind, <<Name/binary, " ", Figure/binary>>, map_get(Figure, Units), Ps)
    ],
    [Row || {_, Row} <- lists:sublist(lists:reverse(lists:keysort(1, Rows)), ?MOST_ROWS)].

summed(Table, Key, Figures, Run) ->
    lists:foldl(
        fun({Name, Value}, Acc) -> maps:update_with(Name, fun(V) -> V + Value end, Value, Acc) end,
        #{},
        [
            {{Name, Figure}, Value}
         || #{Key := Name} = Row <- dyno_recording_part:rows(Table, Run),
            Figure <- Figures,
            {ok, Value} <- [maps:find(Figure, Row)],
            is_number(Value)
        ]
    ).

%% Ten times the largest size by the law that was fitted, from the value there.
extrapolated([_, _, _, Exponent, Low, High, _, _, Value | _], Largest) when is_number(Low) ->
    At = fun(E) -> Value * math:pow(?FARTHER, E) end,
    case abs(Exponent) < 10 andalso abs(Low) < 10 andalso abs(High) < 10 of
        true when High - Low =< ?WIDEST ->
            [Largest * ?FARTHER, At(Exponent), At(Low), At(High)];
        _ ->
            [undefined, undefined, undefined, undefined]
    end;
extrapolated(_Row, _Largest) ->
    [undefined, undefined, undefined, undefined].

function_rows(Runs) ->
    ByFunction = lists:foldl(fun add_functions/2, #{}, Runs),
    Shares = shares(Runs),
    Rows = [
        {Weight, fitted(~"function", Name, ~"ns/call", Points), maps:get(Name, Shares, 0.0)}
     || Name := {Weight, Points} <- ByFunction
    ],
    [Row ++ [Share] || {_, [Row], Share} <- lists:reverse(lists:keysort(1, Rows))].

%% A function may take no longer with the size, and yet be called more often for the same operation:
%% only what surely is. Each run gives one point for all nodes; no call counts as half a call, so
%% that a function that begins to be called has an exponent, and rather too small a one.
operation_rows(Runs) ->
    Counted = [
        {Size, Operations, calls(Run)}
     || #{~"size" := Size} = Run <- Runs,
        {Operations, _Unit} <- metric(Run, ~"operations.count"),
        Operations > 0
    ],
    Shares = shares(Runs),
    Names = lists:usort(lists:append([maps:keys(Calls) || {_, _, {_, Calls}} <- Counted])),
    Rows = [
        {Share, fitted(~"function", <<Name/binary, " calls/op">>, ~"count", Points)}
     || Name <- Names,
        Share <- [maps:get(Name, Shares, 0.0)],
        is_number(Share), Share >= ?SMALL_SHARE,
        Points <- [[
            {Size, max(Number, 0.5) / Operations}
         || {Size, Operations, {Whole, Calls}} <- Counted,
            Number <- [maps:get(Name, Calls, 0)],
            Whole orelse Number > 0
        ]]
    ],
    [
        Row ++ [Share]
     || {Share, [Row]} <- lists:reverse(lists:keysort(1, Rows)), is_number(lists:nth(5, Row)),
        lists:nth(5, Row) > 0
    ].

%% Whether it is all of them, and the calls by function.
calls(Run) ->
    Tables = dyno_recording:tables(Run, ~"functions"),
    {
        Tables =/= [] andalso lists:all(fun(T) -> maps:get(~"truncated", T, 0) =:= 0 end, Tables),
        lists:foldl(
            fun({F, N}, Acc) -> maps:update_with(F, fun(M) -> M + N end, N, Acc) end,
            #{},
            [
                {F, N}
             || #{~"function" := F, ~"calls" := N} <- dyno_recording_part:rows(~"functions", Run),
                is_number(N)
            ]
        )
    }.

matters([_Kind, _Name, _Unit, _Exponent, Low, _High, _Count, _Smallest, _Largest, _Text, Share]) ->
    %% Two sizes give no interval.
    is_number(Low) andalso Low > 0 andalso (Share =:= undefined orelse Share >= ?REAL_SHARE).

less_growth([_, _, _, A | _], [_, _, _, B | _]) -> A =< B.

%% Of the own time of all measured functions at the largest size.
shares(Runs) ->
    Largest = lists:max([Size || #{~"size" := Size} <- Runs]),
    Rows = lists:append([
        dyno_recording_part:rows(~"functions", Run)
     || #{~"size" := Size} = Run <- Runs, Size =:= Largest
    ]),
    #{F => Share || #{~"function" := F, ~"share" := Share} <- Rows}.

%% Functions of all nodes together.
add_functions(#{~"size" := Size} = Run, Acc0) ->
    lists:foldl(
        fun(Row, Acc) ->
            case Row of
                #{
                    ~"function" := F,
                    ~"calls" := Calls,
                    ~"time_per_call" := T,
                    ~"own_time" := Own,
                    ~"own_time_uncertainty" := Uncertain
                } when Calls >= ?MIN_CALLS, Uncertain < Own * ?MAX_UNCERTAINTY ->
                    maps:update_with(
                        F,
                        fun({W, Points}) -> {W + Own, [{Size, T} | Points]} end,
                        {Own, [{Size, T}]},
                        Acc
                    );
                #{} ->
                    Acc
            end
        end,
        Acc0,
        dyno_recording_part:rows(~"functions", Run)
    ).

row(Kind, Name, Runs, Value) ->
    Points = [{Size, V, Unit} || #{~"size" := Size} = Run <- Runs, {V, Unit} <- Value(Run)],
    case Points of
        [{_, _, Unit} | _] -> fitted(Kind, Name, Unit, [{S, V} || {S, V, _} <- Points]);
        [] -> []
    end.

fitted(Kind, Name, Unit, Points) ->
    case dyno_stats_growth:fit(Points) of
        {ok, #{exponent := Exponent, low := Low, high := High, points := Count} = Fit} ->
            Sizes = [Size || {Size, _} <- Points],
            Smallest = median_at(lists:min(Sizes), Points),
            Largest = median_at(lists:max(Sizes), Points),
            Text = dyno_stats_growth:describe(Fit),
            [[Kind, Name, Unit, Exponent, Low, High, Count, Smallest, Largest, Text]];
        {error, _} ->
            []
    end.

median_at(Size, Points) ->
    dyno_stats:median([V || {S, V} <- Points, S =:= Size]).

table(Rows) ->
    Columns = [
        {~"share", ~"Share at the largest size", number, ~"ratio"},
        {~"extrapolated_size", ~"Extrapolated to the size", integer, undefined},
        {~"extrapolated", ~"Extrapolated, not measured", number, undefined},
        {~"extrapolated_low", ~"Extrapolated, from", number, undefined},
        {~"extrapolated_high", ~"Extrapolated, to", number, undefined}
    ],
    dyno_recording_table:new(
        ~"growth", ~"Growth with the size", dyno_recording_table:growth_columns() ++ Columns, Rows
    ).
