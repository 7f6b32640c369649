%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_history).
-moduledoc """
Changes in a recording against earlier recordings of the same thing in the same place. Pure.

Two recordings differ even with the same code, which the rounds of a benchmark or the seconds of a
run do not show: intervals from them claim false changes. So each recording is one value, and the
new value is compared with a prediction interval from the earlier ones (`dyno_stats_welch:next/3`).
All judgements together hold at 95 %: 1 recording of 20 of unchanged code may show a false change.

Metrics independent of the machine are compared with the last recording only. With fewer than three
earlier recordings, the repetitions of a test are compared, if any.
""".

-export([changes/2, most/0]).

-type metric() :: dyno_compare_metrics:metric().

%% Recordings needed to know the spread.
-define(LEAST, 3).
-define(MOST, 10).
-define(LEVEL, (dyno_stats_interval:level())).
-define(PARTS_OF_MEMORY, [~"vm.memory.processes.max", ~"vm.memory.binary.max"]).

-doc "The number of useful earlier recordings.".
-spec most() -> pos_integer().
most() -> ?MOST.

-doc "The changes of the new recording against the earlier recordings, the latest first.".
-spec changes(Earlier :: [dyno_recording:document(), ...], New :: dyno_recording:document()) ->
    [dyno_compare:change()].
changes([Last | _] = Earlier, New) ->
    Exact = dyno_compare:changes({Last, New}, #{metrics => exact}),
    Calm = [Of || Of <- Earlier, is_calm(Of)],
    Random =
        case length(Calm) < ?LEAST of
            true -> by_repetitions(Last, New);
            false -> by_recordings(lists:sublist(Calm, ?MOST), New)
        end,
    [
        Change
     || #{verdict := Verdict} = Change <- Random ++ Exact,
        lists:member(Verdict, [slower, faster, more, less])
    ].

%% Other programs change times; memory may be compared.
is_calm(Document) ->
    not lists:any(
        fun dyno_finding_machine:is_beyond/1, maps:values(dyno_finding_machine:others(Document))
    ).

by_repetitions(Last, New) ->
    [C || #{of_each := run, kind := K} = C <- dyno_compare:changes({Last, New}, #{}), K =/= exact].

by_recordings(Earlier, New) ->
    Known = [values(Of) || Of <- Earlier],
    Pairs = [
        {[map_get(Key, Of) || Of <- Known], Metric}
     || #{item := Item, metric := Name} = Metric <- judged(New),
        Key <- [{Item, Name}],
        lists:all(fun(Of) -> is_map_key(Key, Of) end, Known)
    ],
    Level = 1 - (1 - ?LEVEL) / max(1, length(Pairs)),
    [change(Olds, Metric, Level) || {Olds, Metric} <- Pairs].

values(Document) ->
    #{{Item, Name} => value(Of) || #{item := Item, metric := Name} = Of <- judged(Document)}.

%% 0 has no logarithm: use thresholds. Of memory only the total: parts of a few kB come and go.
judged(Document) ->
    IsCalm = is_calm(Document),
    [
        Metric
     || #{kind := Kind, metric := Name} = Metric <- dyno_compare_metrics:metrics(Document, []),
        (Kind =:= time andalso IsCalm) orelse Kind =:= amount,
        not is_map_key(drifts, Metric),
        not lists:member(Name, ?PARTS_OF_MEMORY),
        Value <- [value(Metric)],
        is_float(Value) andalso Value > 0
    ].

-spec value(metric()) -> float() | undefined.
value(#{values := Values}) -> dyno_stats:median(Values).

change(Olds, #{kind := Kind, better := Better} = Metric, Level) ->
    New = value(Metric),
    {ok, #{ratio := Ratio, low := Low, high := High}} = dyno_stats_welch:next(Olds, New, Level),
    Verdict = dyno_stats_verdict:ratio({Low, High}, dyno_stats_verdict:threshold()),
    dyno_compare_metrics:change(
        Metric,
        {New / Ratio, New},
        {Ratio, Low, High},
        dyno_compare_repetitions:in_words(Verdict, Kind, Better)
    ).
