%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_history).
-moduledoc """
What changed in a recording against the earlier ones of the same thing at the same place. Pure.

Two recordings differ also where the code does not: the machine is slower for a minute, the VM's
memory lies elsewhere. The rounds of a benchmark, or the seconds of a run, do not show it, and an
interval made of them claims a change again and again. So each recording is one value, whatever is
in it, and the earlier ones say how far values are apart where nothing changed: the new one is
judged by the interval in which the next of them would lie (`dyno_stats_welch:next/3`). All that is
judged holds together at 95 %: 1 recording of 20 of unchanged code may claim something.

Metrics that no machine changes are compared with the last recording alone. Where there are fewer
than three earlier ones, the repetitions of a test are compared, if it has any.
""".

-export([changes/2, most/0]).

-type metric() :: dyno_compare_metrics:metric().

%% So many recordings say how far values are apart.
-define(LEAST, 3).
-define(MOST, 10).
-define(LEVEL, (dyno_stats_interval:level())).
-define(PARTS_OF_MEMORY, [~"vm.memory.processes.max", ~"vm.memory.binary.max"]).
%% As of all comparisons of times.
-define(THRESHOLD, 0.03).

-doc "How many earlier recordings are of use.".
-spec most() -> pos_integer().
most() -> ?MOST.

-doc "What is judged to have changed, of the new one against the earlier ones, the latest first.".
-spec changes(Earlier :: [dyno_recording:document(), ...], New :: dyno_recording:document()) ->
    [dyno_compare:change()].
changes([Last | _] = Earlier, New) ->
    Exact = dyno_compare:changes({Last, New}, #{metrics => exact}),
    Others =
        case length(Earlier) < ?LEAST of
            true -> by_repetitions(Last, New);
            false -> by_recordings(lists:sublist(Earlier, ?MOST), New)
        end,
    [
        Change
     || #{verdict := Verdict} = Change <- Others ++ Exact,
        lists:member(Verdict, [slower, faster, more, less])
    ].

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

%% What is 0 has no logarithm, such as the share of errors: thresholds are for that. Of memory all
%% of it: parts of it are a few kB that come and go.
judged(Document) ->
    [
        Metric
     || #{kind := Kind, metric := Name} = Metric <- dyno_compare_metrics:metrics(Document, []),
        Kind =:= time orelse Kind =:= amount,
        not lists:member(Name, ?PARTS_OF_MEMORY),
        Value <- [value(Metric)],
        is_float(Value) andalso Value > 0
    ].

-spec value(metric()) -> float() | undefined.
value(#{values := Values}) -> dyno_stats:median(Values).

change(Olds, #{kind := Kind, better := Better} = Metric, Level) ->
    New = value(Metric),
    {ok, #{ratio := Ratio, low := Low, high := High}} = dyno_stats_welch:next(Olds, New, Level),
    Verdict = dyno_stats_verdict:ratio({Low, High}, ?THRESHOLD),
    dyno_compare_metrics:change(
        Metric,
        {New / Ratio, New},
        {Ratio, Low, High},
        dyno_compare_repetitions:in_words(Verdict, Kind, Better)
    ).
