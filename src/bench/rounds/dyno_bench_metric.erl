%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_metric).
-moduledoc false.
%% The metrics that can decide a comparison; doc/bench.md explains each.

-export([names/0, kind/1, unit/1, title/1, threshold/1, is_time/1]).
-export([value/2, runs/2, at_least/1, least/1, missing/0]).
-export_type([name/0]).

-type name() :: time | wall | cpu | gc | memory | reductions | words | messages | whole.

%% Negligible difference of deterministic metrics.
-define(DETERMINISTIC, 0.001).
%% Replaces 0 in a ratio.
-define(NONE, 1.0e-9).

-spec names() -> [name(), ...].
names() -> [time, wall, cpu, gc, memory, reductions, words, messages, whole].

-spec kind(name()) -> rounds | deterministic | side_effects.
kind(Name) when Name =:= reductions; Name =:= words -> deterministic;
kind(Name) when Name =:= messages; Name =:= whole -> side_effects;
kind(_) -> rounds.

-spec unit(name()) -> binary().
unit(Name) when Name =:= time; Name =:= wall; Name =:= cpu -> ~"ns/call";
unit(words) -> ~"words/call";
unit(memory) -> ~"B";
unit(_) -> ~"1".

-spec title(name()) -> binary().
title(time) -> ~"Time per call";
title(wall) -> ~"Wall-clock time per call";
title(cpu) -> ~"CPU time per call";
title(gc) -> ~"Collections per call";
title(memory) -> ~"Memory of the process";
title(reductions) -> ~"Reductions per call";
title(words) -> ~"Words per call";
title(messages) -> ~"Messages per call";
title(whole) -> ~"Reductions per call, of all processes".

-doc "The default share below which a difference does not matter.".
-spec threshold(name()) -> float().
threshold(Name) ->
    case kind(Name) of
        rounds -> dyno_stats_verdict:threshold();
        _ -> ?DETERMINISTIC
    end.

-doc "Whether a higher value means slower.".
-spec is_time(name()) -> boolean().
is_time(Name) -> Name =:= time orelse Name =:= wall orelse Name =:= cpu.

-doc "The value in the epochs of a round, one per worker. The caller computes `time` itself.".
-spec value(wall | cpu | gc | memory, [dyno_bench_worker:epoch(), ...]) -> float() | undefined.
value(cpu, [#{cpu_ns := undefined} | _]) ->
    undefined;
value(Name, Epochs) ->
    Values = [of_epoch(Name, Epoch) || Epoch <- Epochs],
    max(?NONE, lists:sum(Values) / length(Values)).

of_epoch(wall, #{wall_ns := Ns, iterations := N}) -> Ns / N;
of_epoch(cpu, #{cpu_ns := Ns, iterations := N}) -> Ns / N;
of_epoch(gc, #{garbage_collections := Count, iterations := N}) -> Count / N;
of_epoch(memory, #{memory := Bytes}) -> Bytes.

-doc "Deterministic runs per candidate that give every pair an interval at the level.".
-spec runs(Candidates :: pos_integer(), Level :: float()) -> pos_integer().
runs(1, _Level) -> 3;
runs(Candidates, Level) -> dyno_bench_comparison:least_rounds(Candidates, Level).

-doc "Why the CPU time is not known.".
-spec missing() -> unicode:chardata().
missing() ->
    case dyno_clock:missing() of
        {missing, Text} -> Text;
        none -> "the system does not tell; choose another --metric"
    end.

-doc "The value in a ratio: 0 becomes a tiny number.".
-spec at_least(number()) -> float().
at_least(Value) -> max(?NONE, float(Value)).

-doc "Undoes `at_least/1` for display.".
-spec least(float()) -> float().
least(Value) when Value =< ?NONE -> 0.0;
least(Value) -> Value.
