%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_extras).
-moduledoc false.
%% Measures the codes' extras after the rounds; computes verdicts by metrics that need no rounds.

-export([extras/2, measure/3, decided/2, values/2]).

-type extra() :: {side_effects, Runs :: pos_integer()}.

-spec extras(dyno_bench_engine:options(), Candidates :: pos_integer()) -> [extra()].
extras(#{fixed := _}, _Candidates) ->
    [];
extras(#{level := Level} = Options, Candidates) ->
    Requested = maps:get(extras, Options, []),
    SideEffects =
        lists:member(side_effects, Requested) orelse
            dyno_bench_metric:kind(maps:get(metric, Options, time)) =:= side_effects,
    [{side_effects, dyno_bench_metric:runs(Candidates, Level)} || SideEffects].

-doc "Adds extras to a candidate, of one code of a node at a time: they look at all processes.".
-spec measure([extra()], dyno_bench_side_effects:subject(), dyno_bench_engine:candidate()) ->
    dyno_bench_engine:candidate().
measure([], _Subject, Candidate) ->
    Candidate;
measure([{side_effects, Runs}], Subject, Candidate) ->
    dyno_bench_slots:exclusively(fun() ->
        Candidate#{side_effects => dyno_bench_side_effects:measure(Subject, Runs)}
    end).

-spec decided(dyno_bench_engine:result(), dyno_bench_engine:options()) ->
    dyno_bench_engine:result().
decided(#{candidates := Candidates, metric := Metric} = Result, Options) ->
    case dyno_bench_metric:kind(Metric) of
        rounds ->
            Result;
        _ ->
            Values = [values(Metric, Candidate) || Candidate <- Candidates],
            Compared = [[dyno_bench_metric:at_least(V) || V <- Of] || Of <- Values],
            Result#{
                candidates := [C#{values => Of} || {C, Of} <- lists:zip(Candidates, Values)],
                pairs := dyno_bench_comparison:pairs(Compared, Options)
            }
    end.

-spec values(dyno_bench_metric:name(), dyno_bench_engine:candidate()) -> [float(), ...].
values(Metric, #{deterministic := #{runs := Runs}}) when Metric =:= words; Metric =:= reductions ->
    map_get(Metric, Runs);
values(messages, #{side_effects := #{runs := #{messages := Of}}}) ->
    Of;
values(whole, #{side_effects := #{runs := #{reductions := Of}}} = Candidate) ->
    #{deterministic := #{reductions := Own}} = Candidate,
    [max(0.0, Own + Others) || Others <- Of].
