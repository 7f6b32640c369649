%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_metric).
-moduledoc """
The quantities that can decide a comparison.

| metric | for each call | from |
| --- | --- | --- |
| `time` | wall-clock time, less what other programs took | every round |
| `wall` | wall-clock time | every round |
| `cpu` | the thread's CPU time; needs the NIF of `m:dyno_clock` | every round |
| `gc` | collections of the worker's garbage | every round |
| `memory` | the worker's memory at the end of an epoch, in bytes: not for a call | every round |
| `reductions` | reductions | exact runs |
| `words` | words allocated | exact runs |
| `messages` | messages, the worker's and those of the processes that it makes work | `whole` |
| `whole` | reductions, the worker's and those of the processes that it makes work | `whole` |

Those of exact runs do not depend on the machine: a difference of 0.1 % counts.
""".

-export([names/0, kind/1, unit/1, title/1, threshold/1, is_time/1]).
-export([value/2, runs/2, pairs/2, at_least/1, least/1, missing/0]).
-export_type([name/0]).

-type name() :: time | wall | cpu | gc | memory | reductions | words | messages | whole.

%% A difference of times that does not matter; of exact figures.
-define(THRESHOLD, 0.03).
-define(EXACT, 0.001).
%% Stands for none in a ratio.
-define(NONE, 1.0e-9).

-doc "All of them.".
-spec names() -> [name(), ...].
names() -> [time, wall, cpu, gc, memory, reductions, words, messages, whole].

-doc "Where its values come from.".
-spec kind(name()) -> rounds | exact | whole.
kind(Name) when Name =:= reductions; Name =:= words -> exact;
kind(Name) when Name =:= messages; Name =:= whole -> whole;
kind(_) -> rounds.

-doc "Its unit.".
-spec unit(name()) -> binary().
unit(Name) when Name =:= time; Name =:= wall; Name =:= cpu -> ~"ns/call";
unit(words) -> ~"words/call";
unit(memory) -> ~"B";
unit(_) -> ~"1".

-doc "What the report calls it.".
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

-doc "The share below which a difference does not matter, where none is given.".
-spec threshold(name()) -> float().
threshold(Name) ->
    case kind(Name) of
        rounds -> ?THRESHOLD;
        _ -> ?EXACT
    end.

-doc "Whether more of it is slower.".
-spec is_time(name()) -> boolean().
is_time(Name) -> Name =:= time orelse Name =:= wall orelse Name =:= cpu.

-doc "Its value in the epochs of a round, one for each worker; the time is the caller's to say.".
-spec value(wall | cpu | gc | memory, [dyno_bench_worker:epoch(), ...]) -> float() | unknown.
value(cpu, [#{cpu_ns := undefined} | _]) ->
    unknown;
value(Name, Epochs) ->
    Values = [of_epoch(Name, Epoch) || Epoch <- Epochs],
    max(?NONE, lists:sum(Values) / length(Values)).

-spec of_epoch(wall | cpu | gc | memory, dyno_bench_worker:epoch()) -> number().
of_epoch(wall, #{wall_ns := Ns, iterations := N}) -> Ns / N;
of_epoch(cpu, #{cpu_ns := Ns, iterations := N}) -> Ns / N;
of_epoch(gc, #{garbage_collections := Count, iterations := N}) -> Count / N;
of_epoch(memory, #{memory := Bytes}) -> Bytes.

-doc """
How many exact runs of each of so many arms give an interval for every pair at the level: the
extremes of n paired ratios hold the median with 1 - 2^(1-n).
""".
-spec runs(Arms :: pos_integer(), Level :: float()) -> pos_integer().
runs(Arms, Level) ->
    case Arms * (Arms - 1) div 2 of
        0 -> 3;
        Pairs -> ceil(1 + math:log2(Pairs / (1 - Level)))
    end.

-doc "The pairs, by the values of each arm's runs. Where all agree, the interval is a point.".
-spec pairs([[number(), ...]], Threshold :: float()) -> [dyno_bench_rounds:pair()].
pairs(Arms, Threshold) ->
    Numbered = lists:enumerate(Arms),
    [pair(A, B, Threshold) || {N, _} = A <- Numbered, {M, _} = B <- Numbered, N < M].

-spec pair({pos_integer(), [number(), ...]}, {pos_integer(), [number(), ...]}, float()) ->
    dyno_bench_rounds:pair().
pair({A, As}, {B, Bs}, Threshold) ->
    Ratios = lists:zipwith(fun(X, Y) -> max(?NONE, Y) / max(?NONE, X) end, As, Bs),
    {Low, High} = {lists:min(Ratios), lists:max(Ratios)},
    Verdict =
        case dyno_stats_verdict:verdict({math:log(Low), math:log(High)}, math:log(1 + Threshold)) of
            same -> same;
            higher -> slower;
            lower -> faster;
            undecided -> undecided
        end,
    #{
        a => A,
        b => B,
        ratio => dyno_stats:median(Ratios),
        low => Low,
        high => High,
        verdict => Verdict
    }.

-doc "Why the CPU time is not known.".
-spec missing() -> unicode:chardata().
missing() ->
    case dyno_clock:missing() of
        {missing, Text} -> Text;
        none -> "the system does not tell; choose another --metric"
    end.

-doc "The value as it is in a ratio: none has what stands for it.".
-spec at_least(number()) -> float().
at_least(Value) -> max(?NONE, float(Value)).

-doc "The value as it is shown: what stands for none is none.".
-spec least(float()) -> float().
least(Value) when Value =< ?NONE -> 0.0;
least(Value) -> Value.
