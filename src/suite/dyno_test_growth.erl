%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_growth).
-moduledoc """
Says how each figure of a test grows with the size: the functions' time per call and the run's
metrics, each with its exponent and interval (dyno_stats_growth). What surely grows and matters comes
first.
""".

-export([tables/1]).

%% With fewer calls at a size a time per call is chance.
-define(MIN_CALLS, 30).
%% A function that takes less of the time at the largest size does not matter yet.
-define(REAL_SHARE, 0.01).
%% An exponent from guesses would be a guess.
-define(MAX_UNCERTAINTY, 0.2).
-define(METRICS, [
    ~"throughput",
    ~"latency.p50",
    ~"latency.p99",
    ~"service.p50",
    ~"processes.discovered"
]).
-define(SERIES, [~"vm.memory.total", ~"vm.memory.processes", ~"vm.processes", ~"os.vm.rss"]).

-doc "The table `growth` of a document; none where fewer than two sizes are complete.".
-spec tables(dyno_recording:document()) -> [#{atom() => term()}].
tables(Document) ->
    Runs = [R || #{~"status" := ~"complete"} = R <- dyno_recording:runs(Document)],
    case lists:usort([Size || #{~"size" := Size} <- Runs]) of
        [_, _ | _] ->
            Metrics = [Row ++ [undefined] || Row <- metric_rows(Runs) ++ series_rows(Runs)],
            {Clear, Others} = lists:partition(fun matters/1, Metrics ++ function_rows(Runs)),
            [table(lists:reverse(lists:sort(fun less_growth/2, Clear)) ++ Others)];
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
        row(~"metric", <<Name/binary, ".max">>, Runs, fun(Run) -> series_max(Run, Name) end)
     || Name <- ?SERIES
    ]).

%% Of the first target.
series_max(Run, Name) ->
    case dyno_recording:series(Run, Name) of
        [#{~"values" := Values, ~"unit" := Unit} | _] ->
            case [V || V <- Values, is_number(V)] of
                [] -> [];
                Numbers -> [{lists:max(Numbers), Unit}]
            end;
        [] ->
            []
    end.

function_rows(Runs) ->
    ByFunction = lists:foldl(fun add_functions/2, #{}, Runs),
    Shares = shares(Runs),
    Rows = [
        {Weight, fitted(~"function", Name, ~"ns/call", Points), maps:get(Name, Shares, 0.0)}
     || Name := {Weight, Points} <- ByFunction
    ],
    [Row ++ [Share] || {_, [Row], Share} <- lists:reverse(lists:keysort(1, Rows))].

matters([_Kind, _Name, _Unit, _Exponent, Low, _High, _Count, _Smallest, _Largest, _Text, Share]) ->
    %% Two sizes give no interval.
    is_number(Low) andalso Low > 0 andalso (Share =:= undefined orelse Share >= ?REAL_SHARE).

less_growth([_, _, _, A | _], [_, _, _, B | _]) -> A =< B.

%% Of the own time of all measured functions at the largest size.
shares(Runs) ->
    Largest = lists:max([Size || #{~"size" := Size} <- Runs]),
    Rows = lists:append([
        rows(Table)
     || #{~"size" := Size} = Run <- Runs,
        Size =:= Largest,
        Table <- dyno_recording:tables(Run, ~"functions")
    ]),
    #{F => Share || #{~"function" := F, ~"share" := Share} <- Rows}.

%% Functions of all nodes: the same code in two nodes is two points of one size.
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
        lists:flatmap(fun rows/1, dyno_recording:tables(Run, ~"functions"))
    ).

rows(#{~"columns" := Columns, ~"rows" := Rows}) ->
    Names = [Name || #{~"name" := Name} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

row(Kind, Name, Runs, Value) ->
    Points = [{Size, V, Unit} || #{~"size" := Size} = Run <- Runs, {V, Unit} <- Value(Run)],
    case Points of
        [{_, _, Unit} | _] -> fitted(Kind, Name, Unit, [{S, V} || {S, V, _} <- Points]);
        [] -> []
    end.

fitted(Kind, Name, Unit, Points) ->
    case dyno_stats_growth:fit(Points) of
        {ok, #{exponent := Exponent, low := Low, high := High, points := Count} = Fit} ->
            Sorted = lists:keysort(1, Points),
            {_, Smallest} = hd(Sorted),
            {_, Largest} = lists:last(Sorted),
            Text = dyno_stats_growth:describe(Fit),
            [[Kind, Name, Unit, Exponent, Low, High, Count, Smallest, Largest, Text]];
        {error, _} ->
            []
    end.

table(Rows) ->
    #{
        name => ~"growth",
        title => ~"Growth with the size",
        node => undefined,
        columns => [
            #{name => Name, title => Title, type => Type, unit => Unit}
         || {Name, Title, Type, Unit} <- [
                {~"kind", ~"Kind", string, undefined},
                {~"name", ~"Name", string, undefined},
                {~"unit", ~"Unit", string, undefined},
                {~"exponent", ~"Exponent", number, undefined},
                {~"low", ~"Low", number, undefined},
                {~"high", ~"High", number, undefined},
                {~"points", ~"Points", integer, undefined},
                {~"smallest", ~"At the smallest size", number, undefined},
                {~"largest", ~"At the largest size", number, undefined},
                {~"text", ~"In words", string, undefined},
                {~"share", ~"Share at the largest size", number, ~"ratio"}
            ]
        ],
        rows => Rows,
        truncated => 0
    }.
