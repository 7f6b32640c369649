%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_row).
-moduledoc """
The figures of a sum: rates, percentiles, busy shares, and the rate of saturation. Pure.

Wall time is the duration of callbacks: running on a processor, or blocked in calls to others, in
`timer:sleep/1`, or preempted. A server is busy while a callback runs, and saturated if busy all the
time: one that is 62 % busy saturates at 1.6 times its rate.
""".

-export([row/2, callbacks/2, tags/2, ranked/2, keys/0, is_like/2]).
-export([quantile/2]).
-export_type([row/0, key/0]).

-doc "A number is `undefined` if not measured at the level.".
-type row() :: #{
    atom() => number() | binary() | undefined | dyno_agent_server_parts:waited()
}.

-doc "The sort keys of rows.".
-type key() :: busy | rate | p99 | max | queue | delay | cpu | words | exceptions | crashes | name.

%% A window may be a little longer than the lives in it.
-define(WHOLE, 0.9).
%% Both clocks are off by a little.
-define(MOST_OFF, 1.03).
-define(LEAST_OFF, 0.005).

-doc "The figures of a sum over a time.".
-spec row(dyno_servers_window:sum(), DurationNs :: non_neg_integer()) -> row().
row(Sum, DurationNs) ->
    #{labels := Labels, busy_ns := BusyNs, cpu_ns := CpuNs} = Sum,
    #{busy_of_ns := BusyOfNs, cpu_of_ns := CpuOfNs} = Sum,
    #{callbacks := Callbacks, queue := Queue} = Sum,
    Same = maps:with(
        [
            processes,
            wall_ns,
            crashes,
            ends_unknown,
            alive,
            missed,
            queue_now,
            queue_max,
            delay_unknown,
            why
        ],
        Sum
    ),
    #{measured := Measured} = Sum,
    Counted = counted_ns(Sum, DurationNs),
    All = dyno_servers_window:all_callbacks(Sum#{
        callbacks := dyno_servers_window:known_cpu(Sum)
    }),
    Numbers = known(Measured, callback(All, Sum, Counted)),
    Lived = lived(Sum, DurationNs),
    Share = fun(Ns, OfNs) -> of_life(dyno_servers_window:share(Ns, OfNs), Lived) end,
    OnCpu = Share(CpuNs, CpuOfNs),
    Busy = busy(Share(BusyNs, BusyOfNs), OnCpu),
    Cpu = cpu(Sum, #{
        cpu => OnCpu,
        cpu_ns => CpuNs,
        blocked => blocked(Busy, OnCpu),
        words => map_get(words, Sum)
    }),
    #{delay_missed := Missed, process_ns := LivedNs} = Sum,
    Waits = Sum#{missed := Missed + dyno_servers_window:unseen(Sum)},
    Row = (maps:merge(maps:merge(Labels, Cpu), maps:merge(Same, Numbers)))#{
        busy => Busy,
        busy_low => busy_low(Busy, Share(BusyNs, max(BusyOfNs, LivedNs)), Sum, Cpu),
        queue_p50 => quantile(0.5, Queue),
        queue_p99 => quantile(0.99, Queue),
        waited_p50 => dyno_agent_server_parts:waited(0.5, Waits),
        waited_p90 => dyno_agent_server_parts:waited(0.9, Waits),
        waited_p99 => dyno_agent_server_parts:waited(0.99, Waits),
        delay_method => delay_method(Sum),
        running => running(map_get(running, Sum)),
        exceptions => exceptions(Labels, lists:sum([N || #{exceptions := N} <- Callbacks])),
        reasons => joined(map_get(reasons, Sum)),
        arrival_rate => arrivals(map_get(rate, Numbers), map_get(grown, Sum), DurationNs),
        measured => joined(lists:sort([atom_to_binary(M) || M <- Measured]))
    },
    Row#{service_rate => service_rate(All, Sum), saturates_at => saturates_at(Row)}.

%% Messages are done in the time in which they are counted, and the queue grows all of the time.
arrivals(Rate, Grown, DurationNs) when is_number(Rate), is_number(Grown) ->
    max(0.0, Rate + rate(Grown, DurationNs));
arrivals(_Rate, _Grown, _DurationNs) ->
    undefined.

%% Without wall time, the processor time is the best known. Before there was a hook, a server that
%% was busy since may have been idle.
busy_low(undefined, _OfLife, _Sum, #{cpu := Cpu}) -> Cpu;
busy_low(_Busy, OfLife, #{missed := Missed}, _Cpu) when Missed > 0 -> OfLife;
busy_low(_Busy, _OfLife, _Sum, _Cpu) -> undefined.

%% A server that was busiest before it had a hook: its wall time says less than its processor time.
busy(Busy, OnCpu) when is_number(Busy), is_number(OnCpu), OnCpu > ?MOST_OFF * Busy + ?LEAST_OFF ->
    undefined;
busy(Busy, _OnCpu) ->
    Busy.

%% A call in a dirty scheduler may wait for the system.
cpu(Sum, #{cpu := Cpu, cpu_ns := Ns, blocked := Blocked} = Known) ->
    case {dyno_servers_window:is_timed(Sum), dyno_servers_window:is_dirty(Sum)} of
        {false, _} ->
            #{Key => undefined || Key := _ <- Known};
        {true, false} ->
            Known;
        {true, true} ->
            Known#{
                cpu => undefined,
                cpu_high => Cpu,
                cpu_ns => undefined,
                cpu_ns_high => Ns,
                blocked => undefined,
                blocked_low => Blocked
            }
    end.

delay_method(#{delay := #{count := Count}, delay_unknown := Unknown} = Sum) when Unknown > 0 ->
    text("at least: the waiting of ~b of ~b messages is not known; ~ts", [
        Unknown, Count, map_get(delay_method, Sum)
    ]);
delay_method(#{delay_method := Method}) ->
    Method.

%% The time in which its callbacks were counted: never at the level rate, nor before a hook.
counted_ns(#{counted_ns := CountedNs, process_ns := ProcessNs}, DurationNs) when
    CountedNs > 0, CountedNs < ProcessNs
->
    max(1, round(DurationNs * CountedNs / ProcessNs));
counted_ns(_Sum, DurationNs) ->
    DurationNs.

%% An event manager removes a handler that fails, and goes on.
exceptions(#{behaviour := ~"gen_event"}, 0) -> undefined;
exceptions(_Labels, Count) -> Count.

%% Not measured: unknown, not 0.
known([none], Numbers) -> Numbers#{count := undefined, rate := undefined};
known(true, _Biased) -> undefined;
known(_Measured, Known) -> Known.

-doc "A row for each callback of a sum.".
-spec callbacks(dyno_servers_window:sum(), DurationNs :: non_neg_integer()) -> [row()].
callbacks(#{labels := Labels} = Sum, DurationNs) ->
    [
        (maps:merge(Same, callback(Callback, Sum, counted_ns(Sum, DurationNs))))#{
            callback => Name,
            wall_ns => wall(Callback),
            missed => dyno_servers_window:untimed(Callback),
            exceptions => exceptions(Labels, map_get(exceptions, Callback))
        }
     || #{name := Name, count := Count} = Callback <- dyno_servers_window:known_cpu(Sum),
        Count > 0,
        Same <- [maps:merge(Labels, maps:with([stops, cpu_ns, words], Callback))]
    ].

-doc "A row for each kind of message of a sum.".
-spec tags(dyno_servers_window:sum(), DurationNs :: non_neg_integer()) -> [row()].
tags(#{tags := Tags, labels := Labels, callbacks := Callbacks} = Sum, DurationNs) ->
    Counted = counted_ns(Sum, DurationNs),
    [
        maps:merge(Labels, Tag#{
            rate => known(IsBiased, rate(N * All / Timed, Counted)),
            mean => known(IsBiased, WallNs / N),
            missed => All - Timed
        })
     || #{callback := Of, count := N, wall_ns := WallNs} = Tag <- Tags,
        N > 0,
        #{name := Name, count := All} = Callback <- Callbacks,
        Name =:= Of,
        %% The missed ones count as of the same kinds, of which the rarest may not be here.
        Timed <- [All - dyno_servers_window:untimed(Callback)],
        Timed > 0,
        IsBiased <- [dyno_servers_window:is_biased(Callback, Sum)]
    ].

wall(#{wall := none}) -> undefined;
wall(#{wall := #{sum := SumNs}}) -> SumNs.

callback(#{count := Count, cpu_ns := CpuNs, words := Words} = Callback, Sum, DurationNs) ->
    IsBiased = dyno_servers_window:is_biased(Callback, Sum),
    Missing = dyno_servers_window:missing(Callback, Sum),
    maps:merge(times(known(IsBiased, Callback), Missing), #{
        count => Count,
        rate => rate(Count, DurationNs),
        cpu_mean => mean(CpuNs, Count),
        words_mean => mean(Words, Count)
    }).

times(#{wall := #{min := Min, max := Max} = Wall}, Missing) ->
    Quantile = fun(Share) -> surely(Share, Missing, Wall) end,
    #{
        mean => dyno_histogram:mean(Wall),
        stdev => deviation(Wall),
        min => Min,
        max => Max,
        range => Max - Min,
        p50 => Quantile(0.5),
        p90 => Quantile(0.9),
        p99 => Quantile(0.99),
        p999 => Quantile(0.999)
    };
times(_, _) ->
    #{Key => undefined || Key <- [mean, stdev, min, max, range, p50, p90, p99, p999]}.

%% The missing ones may all be shorter, or longer.
surely(Share, Missing, #{count := Count} = Wall) ->
    {Least, Most} = dyno_agent_server_parts:ranks(Share, Count, Missing),
    Low = dyno_histogram:quantile(Wall, Least / Count),
    High = dyno_histogram:quantile(Wall, min(1, Most / Count)),
    case dyno_agent_server_parts:is_near({Low, High}, Most =< Count) of
        true -> quantile(Share, Wall);
        false -> undefined
    end.

deviation(#{count := Count} = Wall) ->
    Mean = dyno_histogram:mean(Wall),
    Squares = [
        N * math:pow((Low + High - 1) / 2, 2)
     || {Low, High, N} <- dyno_histogram:to_recording(Wall)
    ],
    math:sqrt(max(0.0, lists:sum(Squares) / Count - Mean * Mean)).

-doc "A quantile of a histogram, if there is one.".
-spec quantile(Share :: float(), dyno_servers_window:histogram()) ->
    non_neg_integer() | undefined.
quantile(_Share, none) -> undefined;
quantile(Share, Histogram) -> dyno_histogram:quantile(Histogram, Share).

mean(undefined, _Count) -> undefined;
mean(_Sum, 0) -> undefined;
mean(Sum, Count) -> Sum / Count.

%% Long calls only, since each server is running in most of its windows.
running(#{callback := Name, ns := Ns}) ->
    case Ns >= dyno_finding_limits:value(long_callback) of
        true -> text("~ts, for ~ts", [Name, dyno_unit:format(Ns, ~"ns")]);
        false -> undefined
    end;
running(none) ->
    undefined.

%% Like rates, shares are of the whole time, unless more than one process lived in it on average.
lived(#{process_ns := Ns}, DurationNs) when Ns < ?WHOLE * DurationNs ->
    Ns / DurationNs;
lived(_Sum, _DurationNs) ->
    1.

of_life(undefined, _Lived) -> undefined;
of_life(Share, Lived) -> Share * Lived.

%% Two clocks: the processor's may be ahead a little.
blocked(Busy, Cpu) when is_number(Busy), is_number(Cpu) -> max(0.0, Busy - Cpu);
blocked(_, _) -> undefined.

rate(Count, DurationNs) -> Count * 1.0e9 / max(1, DurationNs).

joined([]) -> undefined;
joined(Texts) -> iolist_to_binary(lists:join(", ", Texts)).

service_rate(#{count := Count, missed := Missed, wall := #{sum := Ns}}, Sum) when
    Count > Missed, Ns > 0, map_get(alive, Sum) > 0
->
    map_get(processes, Sum) * (Count - Missed) * 1.0e9 / Ns;
service_rate(_, _) ->
    undefined.

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

-doc "Sorts rows, the greatest value first; names from A to Z.".
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
        _ when Key =:= busy -> value(busy_low, Row);
        _ -> -1
    end.

-doc "Whether a row's name, module, application or supervisor contains a text.".
-spec is_like(unicode:chardata(), row()) -> boolean().
is_like(Text, Row) ->
    Names = maps:with([name, module, application, supervisor, pid, node], Row),
    Is = fun(Name) -> string:find(string:lowercase(Name), string:lowercase(Text)) =/= nomatch end,
    lists:any(Is, maps:values(Names)).
