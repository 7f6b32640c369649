%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_row).
-moduledoc """
The numbers of a sum, as people read them: rates, percentiles, how busy, and when it will saturate.
Pure.

Wall time is what callbacks take; a part of it they run on a processor, the rest they are blocked:
in calls to others, in `timer:sleep/1`, or preempted. A server is busy while a callback runs. It
saturates when it is busy all of the time, so one that is busy for 62 % does at 1.6 times its rate.
""".

-export([row/2, callbacks/2, tags/2, ranked/2, keys/0, is_like/2]).
-export([quantile/2]).
-export_type([row/0, key/0]).

-doc "A number is `undefined` where the level does not tell it.".
-type row() :: #{atom() => number() | binary() | undefined}.

-doc "What rows are ordered by.".
-type key() :: busy | rate | p99 | max | queue | delay | cpu | words | exceptions | name.

-doc "The numbers of a sum over a time.".
-spec row(dyno_servers_window:sum(), DurationNs :: non_neg_integer()) -> row().
row(Sum, DurationNs) ->
    #{labels := Labels, busy_ns := BusyNs, cpu_ns := CpuNs} = Sum,
    #{busy_of_ns := BusyOfNs, cpu_of_ns := CpuOfNs} = Sum,
    #{callbacks := Callbacks, queue := Queue} = Sum,
    Same = maps:with(
        [
            processes, wall_ns, cpu_ns, words, crashes, alive, missed, queue_now, queue_max,
            delay_unknown, why
        ],
        Sum
    ),
    #{measured := Measured} = Sum,
    Counted = counted_ns(Sum, DurationNs),
    Numbers = known(Measured, callback(dyno_servers_window:all_callbacks(Sum), Counted)),
    Row = (maps:merge(Labels, maps:merge(Same, Numbers)))#{
        busy => dyno_servers_window:share(BusyNs, BusyOfNs),
        cpu => dyno_servers_window:share(CpuNs, CpuOfNs),
        blocked => blocked({BusyNs, BusyOfNs}, {CpuNs, CpuOfNs}),
        queue_p50 => quantile(0.5, Queue),
        queue_p99 => quantile(0.99, Queue),
        waited_p50 => dyno_agent_server_parts:waited(0.5, Sum),
        waited_p90 => dyno_agent_server_parts:waited(0.9, Sum),
        waited_p99 => dyno_agent_server_parts:waited(0.99, Sum),
        delay_method => delay_method(Sum),
        running => running(map_get(running, Sum)),
        exceptions => lists:sum([N || #{exceptions := N} <- Callbacks]),
        reasons => joined(map_get(reasons, Sum)),
        arrival_rate => rate(map_get(arrived, Sum), Counted),
        measured => joined(lists:sort([atom_to_binary(M) || M <- Measured]))
    },
    Row#{service_rate => service_rate(Row), saturates_at => saturates_at(Row)}.

delay_method(#{delay := #{count := Count}, delay_unknown := Unknown} = Sum) when Unknown > 0 ->
    text("at least: the waiting of ~b of ~b messages is not known; ~ts", [
        Unknown, Count, map_get(delay_method, Sum)
    ]);
delay_method(#{delay_method := Method}) ->
    Method.

%% The part of the time in which its callbacks were counted: at the level rate none are, and a
%% server that was busy when dyno came had no hook yet.
counted_ns(#{counted_ns := CountedNs, process_ns := ProcessNs}, DurationNs) when
    CountedNs > 0, CountedNs < ProcessNs
->
    max(1, round(DurationNs * CountedNs / ProcessNs));
counted_ns(_Sum, DurationNs) ->
    DurationNs.

%% Nothing was looked at, so that none was seen.
known([none], Numbers) -> Numbers#{count := undefined, rate := undefined};
known(_Measured, Numbers) -> Numbers.

-doc "A row for each callback of a sum.".
-spec callbacks(dyno_servers_window:sum(), DurationNs :: non_neg_integer()) -> [row()].
callbacks(#{callbacks := Callbacks, labels := Labels} = Sum, DurationNs) ->
    [
        (maps:merge(Same, callback(Callback, counted_ns(Sum, DurationNs))))#{
            callback => Name, wall_ns => wall(Callback)
        }
     || #{name := Name, count := Count} = Callback <- Callbacks,
        Count > 0,
        Same <- [maps:merge(Labels, maps:with([exceptions, stops, cpu_ns, words], Callback))]
    ].

-doc "A row for each kind of message of a sum.".
-spec tags(dyno_servers_window:sum(), DurationNs :: non_neg_integer()) -> [row()].
tags(#{tags := Tags, labels := Labels} = Sum, DurationNs) ->
    %% Only the hook tells them apart.
    CountedNs = counted_ns(Sum#{counted_ns := map_get(busy_of_ns, Sum)}, DurationNs),
    [
        maps:merge(Labels, Tag#{rate => rate(Count, CountedNs), mean => WallNs / Count})
     || #{count := Count, wall_ns := WallNs} = Tag <- Tags, Count > 0
    ].

wall(#{wall := none}) -> undefined;
wall(#{wall := #{sum := SumNs}}) -> SumNs.

callback(#{count := Count, cpu_ns := CpuNs, words := Words} = Callback, DurationNs) ->
    maps:merge(times(Callback), #{
        count => Count,
        rate => rate(Count, DurationNs),
        cpu_mean => mean(CpuNs, Count),
        words_mean => mean(Words, Count)
    }).

times(#{wall := #{min := Min, max := Max} = Wall}) ->
    #{
        mean => dyno_histogram:mean(Wall),
        stdev => deviation(Wall),
        min => Min,
        max => Max,
        range => Max - Min,
        p50 => quantile(0.5, Wall),
        p90 => quantile(0.9, Wall),
        p99 => quantile(0.99, Wall),
        p999 => quantile(0.999, Wall)
    };
times(_) ->
    #{Key => undefined || Key <- [mean, stdev, min, max, range, p50, p90, p99, p999]}.

deviation(#{count := Count} = Wall) ->
    Mean = dyno_histogram:mean(Wall),
    Squares = [
        N * math:pow((Low + High - 1) / 2, 2)
     || {Low, High, N} <- dyno_histogram:to_recording(Wall)
    ],
    math:sqrt(max(0.0, lists:sum(Squares) / Count - Mean * Mean)).

-doc "Of a histogram, where there is one.".
-spec quantile(Share :: float(), dyno_servers_window:histogram()) ->
    non_neg_integer() | undefined.
quantile(_Share, none) -> undefined;
quantile(Share, Histogram) -> dyno_histogram:quantile(Histogram, Share).

mean(undefined, _Count) -> undefined;
mean(_Sum, 0) -> undefined;
mean(Sum, Count) -> Sum / Count.

%% Of one that runs for long only, because each is running in most of its windows.
running(#{callback := Name, ns := Ns}) ->
    case Ns >= dyno_finding_limits:value(long_callback) of
        true -> text("~ts, for ~ts", [Name, dyno_unit:format(Ns, ~"ns")]);
        false -> undefined
    end;
running(none) ->
    undefined.

%% Two clocks: the processor's may be ahead by a little.
blocked({BusyNs, BusyOfNs}, {CpuNs, CpuOfNs}) when is_number(BusyNs), is_number(CpuNs) ->
    max(0.0, BusyNs / max(1, BusyOfNs) - CpuNs / max(1, CpuOfNs));
blocked(_, _) ->
    undefined.

rate(undefined, _DurationNs) -> undefined;
rate(Count, DurationNs) -> Count * 1.0e9 / max(1, DurationNs).

joined([]) -> undefined;
joined(Texts) -> iolist_to_binary(lists:join(", ", Texts)).

%% Of all its processes, each busy all of the time.
service_rate(#{alive := Alive, mean := Mean, processes := Processes}) when
    is_number(Mean), Mean > 0, Alive > 0
->
    Processes * 1.0e9 / Mean;
service_rate(_) ->
    undefined.

%% What has ended saturates no more.
saturates_at(#{alive := 0}) ->
    undefined;
saturates_at(#{busy := Busy, count := Count}) when is_number(Busy), Busy > 0, Count > 0 ->
    max(1.0, 1 / Busy);
saturates_at(_) ->
    undefined.

text(Format, Arguments) -> dyno_recording_part:text(Format, Arguments).

-doc "All keys.".
-spec keys() -> [key(), ...].
keys() -> [busy, rate, p99, max, queue, delay, cpu, words, exceptions, name].

-doc "The rows, those first that have the most of it; by name from A to Z.".
-spec ranked(key(), [Row]) -> [Row] when Row :: #{atom() => term()}.
ranked(name, Rows) ->
    lists:sort(fun(A, B) -> maps:get(name, A, ~"") =< maps:get(name, B, ~"") end, Rows);
ranked(Key, Rows) ->
    Value = fun(Row) -> {value(Key, Row), value(rate, Row)} end,
    Ranked = lists:sort(fun({A, _}, {B, _}) -> A >= B end, [{Value(Row), Row} || Row <- Rows]),
    [Row || {_, Row} <- Ranked].

value(Key, Row) ->
    Columns = #{queue => queue_now, delay => waited_p99, cpu => cpu},
    case maps:get(maps:get(Key, Columns, Key), Row, undefined) of
        {_, LowNs, _} when is_number(LowNs) -> LowNs;
        Number when is_number(Number) -> Number;
        %% Without wall time, the processor's is the best that is known of it.
        _ when Key =:= busy -> value(cpu, Row);
        _ -> -1
    end.

-doc "Whether a text is in a row's name, module, application or supervisor.".
-spec is_like(unicode:chardata(), row()) -> boolean().
is_like(Text, Row) ->
    Names = maps:with([name, module, application, supervisor, pid, node], Row),
    Is = fun(Name) -> string:find(string:lowercase(Name), string:lowercase(Text)) =/= nomatch end,
    lists:any(Is, maps:values(Names)).
