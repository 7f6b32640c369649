%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sizes_growth).
-moduledoc """
Fits the growth of a test's measurements with the size: functions' time for each call, calls for
each operation (`calls/op`, if growing; for uncounted calls `time/op`), memory, processes, tables,
ports, and the run's metrics, each with its exponent and interval (dyno_stats_growth). Certain and
important growth comes first. Mostly guessed values have no exponent.

Growth is extrapolated to ten times the largest size by the fitted law, valid until a resource is
saturated. The interval is that of the exponent, not of the law.
""".

-export([tables/1, spec/0]).

-import(dyno_recording_growth, [fit/4]).

%% With fewer calls at a size, a time for each call depends on chance.
-define(MIN_CALLS, 30).
%% A function with a smaller share of the time at the largest size does not matter yet.
-define(REAL_SHARE, 0.01).
%% A function called more and more often will matter: its smallest listed share.
-define(SMALL_SHARE, 0.001).
%% The largest relative error of a time: an exponent from guesses would be a guess.
-define(MAX_UNCERTAINTY, 0.5).
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
%% Table, column of names, kind, columns with their units.
-define(TABLES, [
    {~"processes", ~"group", ~"process", [
        {~"memory_max", ~"B"}, {~"reductions", ~"count"}, {~"message_queue_max", ~"count"}
    ]},
    {~"ets", ~"table", ~"ets", [{~"memory_max", ~"B"}, {~"objects_max", ~"count"}]},
    {~"ports", ~"kind", ~"port", [{~"open_max", ~"count"}, {~"queue_max", ~"B"}]}
]).
%% The factor of the extrapolation.
-define(FARTHER, 10).
%% A less certain exponent is useless at this distance.
-define(WIDEST, 2).
-define(MOST_ROWS, 500).
-define(NOT_OF_ALL, [
    share, extrapolated_size, extrapolated, extrapolated_low, extrapolated_high
]).

-doc "The table `growth` of a document; none with fewer than two complete sizes.".
-spec tables(dyno_recording:document()) -> [dyno_recording_table:table()].
tables(Document) ->
    case dyno_sizes:runs(Document) of
        [_, _ | _] = Sizes ->
            {Largest, AtLargest} = lists:last(Sizes),
            Shares =
                #{
                    Function => Share
                 || Run <- AtLargest,
                    #{~"function" := Function, ~"share" := Share} <-
                        dyno_recording:rows(Run, ~"functions")
                },
            {Clear, Others} = lists:partition(
                fun matters/1,
                metrics(Sizes) ++ times_per_call(Shares, Sizes) ++
                    per_operation({fun calls/1, ~" calls/op", ~"count"}, Shares, Sizes) ++
                    per_operation({fun times/1, ~" time/op", ~"ns"}, Shares, Sizes)
            ),
            Steepest = fun(#{exponent := A}, #{exponent := B}) -> A > B end,
            Growths =
                lists:sort(Steepest, Clear) ++ Others ++
                    lists:append([of_table(Table, Sizes) || Table <- ?TABLES]),
            [
                dyno_recording_table:make(spec(), [
                    maps:merge(maps:from_keys(?NOT_OF_ALL, undefined), extrapolated(G, Largest))
                 || G <- Growths
                ])
            ];
        _ ->
            []
    end.

-doc "The description of this table.".
-spec spec() -> dyno_recording_table:spec().
spec() ->
    Size = ~"Extrapolated to the size",
    Of = ~"extrapolated",
    Low = ~"Extrapolated, from",
    #{
        name => ~"growth",
        title => ~"Growth with the size",
        derived => true,
        columns => dyno_recording_growth:columns() ++
            [
                {~"share", ~"Share at the largest size", ratio, share},
                {~"extrapolated_size", Size, integer, note, extrapolated_size},
                {Of, ~"Extrapolated, not measured", number, extrapolated},
                {~"extrapolated_low", Low, number, {low, Of}, extrapolated_low},
                {~"extrapolated_high", ~"Extrapolated, to", number, {high, Of}, extrapolated_high}
            ]
    }.

%% Two sizes give no interval: then no growth is certain.
matters(#{low := Low} = Growth) ->
    is_number(Low) andalso Low > 0 andalso maps:get(share, Growth, 1) >= ?REAL_SHARE.

extrapolated(#{exponent := Exponent, low := Low, high := High} = Growth, Largest) when
    is_number(Low), abs(Exponent) < 10, abs(Low) < 10, abs(High) < 10, High - Low =< ?WIDEST
->
    At = fun(E) -> map_get(largest, Growth) * math:pow(?FARTHER, E) end,
    Growth#{
        extrapolated_size => Largest * ?FARTHER,
        extrapolated => At(Exponent),
        extrapolated_low => At(Low),
        extrapolated_high => At(High)
    };
extrapolated(Growth, _Largest) ->
    Growth.

%% Metrics, and series of the first target

metrics(Sizes) ->
    [
        Growth
     || Name <- ?METRICS,
        Growth <- grown(Name, fun(Run) -> dyno_sizes:metric(Name, Run) end, Sizes)
    ] ++
        [
            Growth
         || {Name, Of} <- ?SERIES ++ [{Name, max} || Name <- custom(Sizes)],
            Growth <- grown(
                <<Name/binary, ".", (atom_to_binary(Of))/binary>>,
                fun(Run) ->
                    First = lists:sublist(dyno_sizes:series(Of, Name, Run), 1),
                    [{Value, Unit} || {_Node, Value, Unit} <- First]
                end,
                Sizes
            )
        ].

custom(Sizes) ->
    lists:usort([
        Name
     || {_, Runs} <- Sizes,
        #{~"series" := Series} <- Runs,
        #{~"group" := ~"custom", ~"name" := Name} <- Series
    ]).

grown(Name, Values, Sizes) ->
    case [{Size, V, Unit} || {Size, Runs} <- Sizes, Run <- Runs, {V, Unit} <- Values(Run)] of
        [{_, _, Unit} | _] = Points ->
            fit(~"metric", Name, Unit, [{Size, V} || {Size, V, _} <- Points]);
        [] ->
            []
    end.

of_table({Table, Key, Kind, Columns}, Sizes) ->
    Points = collected([
        {{Name, Column}, {Size, Value}}
     || {Size, Runs} <- Sizes,
        Run <- Runs,
        {Name, Column} := Value <- sums(Table, Key, Columns, Run)
    ]),
    Units = maps:from_list(Columns),
    Growths = [
        {lists:max([V || {_, V} <- Of]), Growth}
     || {Name, Column} := Of <- Points,
        Growth <- fit(Kind, <<Name/binary, " ", Column/binary>>, map_get(Column, Units), Of)
    ],
    lists:sublist(greatest_first(Growths), ?MOST_ROWS).

sums(Table, Key, Columns, Run) ->
    maps:map(
        fun(_, Values) -> lists:sum(Values) end,
        collected([
            {{Name, Column}, Value}
         || #{Key := Name} = Row <- dyno_recording:rows(Run, Table),
            {Column, _Unit} <- Columns,
            {ok, Value} <- [maps:find(Column, Row)],
            is_number(Value)
        ])
    ).

collected(Pairs) ->
    maps:groups_from_list(fun({Key, _}) -> Key end, fun({_, Value}) -> Value end, Pairs).

greatest_first(Weighted) ->
    [Item || {_, Item} <- lists:reverse(lists:keysort(1, Weighted))].

%% Functions of all nodes together

times_per_call(Shares, Sizes) ->
    Points = collected([
        {Function, {Own, {Size, Time, {Low, High}}}}
     || {Size, Runs} <- Sizes,
        Run <- Runs,
        #{
            ~"function" := Function,
            ~"calls" := Calls,
            ~"own_time" := Own,
            ~"time_per_call" := Time,
            ~"time_per_call_low" := Low,
            ~"time_per_call_high" := High
        } <- dyno_recording:rows(Run, ~"functions"),
        is_number(Calls),
        Calls >= ?MIN_CALLS,
        is_number(Low),
        Low > 0,
        is_number(High),
        High - Low < 2 * ?MAX_UNCERTAINTY * Time
    ]),
    greatest_first([
        {lists:sum(Owns), Growth#{share => maps:get(Function, Shares, 0.0)}}
     || Function := Of <- Points,
        {Owns, Times} <- [lists:unzip(Of)],
        Growth <- fit(~"function", Function, ~"ns/call", Times)
    ]).

%% A function may be called more often with the size for the same operation: only certain growth
%% counts. Each run gives a point for all nodes; no call counts as half a call.
per_operation({Of, Suffix, Unit}, Shares, Sizes) ->
    Measured = [
        {Size, Operations, Of(Run)}
     || {Size, Runs} <- Sizes,
        Run <- Runs,
        {Operations, _Unit} <- dyno_sizes:metric(~"operations.count", Run),
        Operations > 0
    ],
    Functions = lists:usort(lists:append([maps:keys(Values) || {_, _, {_, Values}} <- Measured])),
    greatest_first([
        {Share, Growth#{share => Share}}
     || Function <- Functions,
        Share <- [maps:get(Function, Shares, 0.0)],
        is_number(Share),
        Share >= ?SMALL_SHARE,
        #{low := Low} = Growth <- fit(~"function", <<Function/binary, Suffix/binary>>, Unit, [
            {Size, Each(Value), {Each(Least), Each(Most)}}
         || {Size, Operations, {Whole, Values}} <- Measured,
            {Value, Least, Most} <- [maps:get(Function, Values, {0, 0, 0})],
            Each <- [fun(N) -> max(N, 0.5) / Operations end],
            Whole orelse Value > 0
        ]),
        is_number(Low),
        Low > 0
    ]).

%% The known times of functions with uncounted calls.
times(Run) ->
    Rows = [
        {Function, {Own, Low, High}}
     || #{
            ~"function" := Function,
            ~"counted" := ~"not counted",
            ~"own_time" := Own,
            ~"own_time_low" := Low,
            ~"own_time_high" := High
        } <- dyno_recording:rows(Run, ~"functions"),
        is_number(Low),
        Low > 0,
        High - Low < 2 * ?MAX_UNCERTAINTY * Own
    ],
    {false, summed(Rows)}.

%% The calls by function with their bounds, and whether these are all; unknown without counts.
calls(Run) ->
    Tables = dyno_recording:tables(Run, ~"functions"),
    Cut = [T || T <- Tables, maps:get(~"truncated", T, 0) > 0],
    Calls = [
        {Function, {Count, maps:get(~"calls_low", Row, null), maps:get(~"calls_high", Row, null)}}
     || #{~"function" := Function, ~"calls" := Count} = Row <-
            dyno_recording:rows(Run, ~"functions")
    ],
    {Tables =/= [] andalso Cut =:= [], summed(Calls)}.

summed(Pairs) ->
    maps:map(fun(_, Values) -> sum(Values, {0, 0, 0}) end, collected(Pairs)).

sum([], Sum) -> Sum;
sum([{null, _, _} | _], _Sum) -> unknown;
sum([{N, null, _} | Rest], Sum) -> sum([{N, N, N} | Rest], Sum);
sum([{N, L, H} | Rest], {Ns, Ls, Hs}) -> sum(Rest, {Ns + N, Ls + L, Hs + H}).
