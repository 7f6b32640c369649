%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_tests).
-moduledoc """
Is a test no worse than an earlier one? Pure.

The unit of replication is the run: the repetitions of a size on one side against those on the
other. The ratio of their geometric means has Welch's interval (dyno_stats_welch), which two
repetitions a side give, five make narrow. A test has many metrics, and one of twenty intervals at
95 % misses: those of response times and throughput, on which conditions decide, hold all together
at 95 % (Bonferroni), those of the functions each by itself. The verdict is that of `dyno_compare`:
slower or faster where the whole interval is beyond 3 %, the same where it is within, undecided
otherwise. Where a side has one run there is no interval, and not enough data for any verdict.
""".

-export([changes/4, comparable/2, gate/2]).

-define(LEVEL, 0.95).
-define(THRESHOLD, 0.03).
%% What changes what a test's metrics mean, besides the environment and the load.
-define(DECISIVE, [
    ~"level", ~"budget", ~"patterns", ~"distribution", ~"duration_ms", ~"warmup_ms",
    ~"interval_ms", ~"without"
]).
-define(REPEAT, "--repeat 5").

-doc "Whether the two may be compared: also measured in the same way.".
-spec comparable(Old, New) -> ok | {error, dyno_compare:reason()} when
    Old :: dyno_recording:document(), New :: dyno_recording:document().
comparable(#{~"parameters" := OldParameters} = Old, #{~"parameters" := NewParameters} = New) ->
    maybe
        ok ?= dyno_compare:comparable(Old, New),
        %% What an older dyno did not record is not known to differ.
        Both = [K || K <- ?DECISIVE, is_map_key(K, OldParameters), is_map_key(K, NewParameters)],
        case [
            {K, A, B}
         || K <- Both,
            A <- [map_get(K, OldParameters)],
            B <- [map_get(K, NewParameters)],
            A =/= B
        ] of
            [] -> ok;
            Differences -> {error, {environments, Differences}}
        end
    end.

-doc """
All that both have, by size, and also what these names are of; `Threshold` is the share that does
not matter.
""".
-spec changes(Old, New, Threshold :: float(), dyno_compare_metrics:names()) ->
    [dyno_compare:change()]
when
    Old :: dyno_recording:document(), New :: dyno_recording:document().
changes(Old, New, Threshold, Names) ->
    Pairs = dyno_compare:pairs(Old, New, Names),
    Deciding = length([x || {#{kind := time}, _} <- Pairs]),
    [
        change(A, B, max(?THRESHOLD, Threshold), level(Kind, Deciding))
     || {#{kind := Kind} = A, B} <- Pairs
    ].

level(time, Count) -> 1 - (1 - ?LEVEL) / Count;
level(_Kind, _Count) -> ?LEVEL.

change(#{values := Olds} = Metric, #{values := News}, Threshold, Level) ->
    #{kind := Kind, better := Better} = Metric,
    Old = dyno_stats:median(Olds),
    New = dyno_stats:median(News),
    Change = (maps:with([item, metric, unit, kind, better], Metric))#{old => Old, new => New},
    case dyno_stats_welch:ratio(Olds, News, Level) of
        {ok, #{ratio := Ratio, low := Low, high := High}} ->
            Verdict = dyno_stats_verdict:ratio({Low, High}, Threshold),
            Change#{
                ratio => Ratio,
                low => Low,
                high => High,
                verdict => in_words(Verdict, is_time(Kind), Better)
            };
        {error, not_positive} when Old == New ->
            Change#{ratio => 1.0, low => undefined, high => undefined, verdict => same};
        {error, _} ->
            Change#{
                ratio => ratio(Old, New), low => undefined, high => undefined, verdict => undecided
            }
    end.

ratio(Old, New) when Old > 0 -> New / Old;
ratio(_, _) -> undefined.

is_time(Kind) -> Kind =:= time orelse Kind =:= other_time.

in_words(same, _, _) -> same;
in_words(undecided, _, _) -> undecided;
in_words(higher, true, lower) -> slower;
in_words(lower, true, lower) -> faster;
in_words(higher, true, higher) -> faster;
in_words(lower, true, higher) -> slower;
in_words(higher, false, _) -> more;
in_words(lower, false, _) -> less.

-doc """
A condition as a verdict of the recording: it fails on what is beyond it, passes where nothing is,
and says so where there is not enough data to tell.
""".
-spec gate(dyno_compare_gate:t(), [dyno_compare:change()]) -> #{atom() => term()}.
gate(Condition, Changes) ->
    Failing = dyno_compare_gate:failing(Condition, Changes),
    #{result := Result} = Verdict = dyno_compare_gate:verdict(Condition, Changes, Failing),
    Judged = [C || #{kind := time} = C <- Changes],
    case [C || #{low := undefined} = C <- Judged] of
        Judged when Result =:= pass ->
            Verdict#{
                result := unknown,
                text := dyno_recording_check:text([
                    "not enough data: a verdict needs two runs of a size or more on both sides; "
                    "measure both with ", ?REPEAT
                ])
            };
        _ ->
            Verdict
    end.
