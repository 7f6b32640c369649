%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_extras).
-moduledoc false.
%% What is measured of the codes after the rounds, where it is asked for, and the verdicts where it
%% is not a figure of the rounds that decides.

-export([extras/2, measure/3, decided/2, values/2]).

-type extra() :: {whole, Runs :: pos_integer()} | profile.

-doc "What is to be measured besides; some metrics need it.".
-spec extras(dyno_bench_engine:options(), Arms :: pos_integer()) -> [extra()].
extras(#{extent := _}, _Arms) ->
    [];
extras(#{level := Level} = Options, Arms) ->
    Given = maps:get(extras, Options, []),
    Whole =
        lists:member(whole, Given) orelse
            dyno_bench_metric:kind(maps:get(metric, Options, time)) =:= whole,
    [{whole, dyno_bench_metric:runs(Arms, Level)} || Whole] ++
        [profile || lists:member(profile, Given)].

-doc """
Adds to a code's figures what was measured. One at a time in a node: they look at all processes,
have breakpoints in all functions, and set how deep the node's stacks are shown.
""".
-spec measure([extra()], dyno_bench_side_effects:subject(), dyno_bench_engine:arm()) ->
    dyno_bench_engine:arm().
measure([], _Subject, Arm) ->
    Arm;
measure(Extras, #{iterate := Iterate} = Subject, Arm) ->
    dyno_bench_slots:alone(
        fun() -> lists:foldl(fun(Extra, Of) -> extra(Extra, Subject, Of) end, Arm, Extras) end,
        %% An epoch throws where there is an interrupt.
        fun() -> Iterate(0) end
    ).

-spec extra(extra(), dyno_bench_side_effects:subject(), dyno_bench_engine:arm()) ->
    dyno_bench_engine:arm().
extra({whole, Runs}, Subject, Arm) ->
    case dyno_bench_side_effects:measure(Subject, Runs) of
        {ok, Whole} -> Arm#{whole => Whole};
        {error, overrun} -> Arm#{whole => overrun}
    end;
extra(profile, Subject, #{times_ns := Times, iterations := Iterations} = Arm) ->
    Ns = max(1, round(dyno_stats:median(Times) * Iterations)),
    Arm#{profile => dyno_bench_profile:measure({Subject, Ns})}.

-doc "The result with the verdicts by the metric.".
-spec decided(dyno_bench_engine:result(), dyno_bench_engine:options()) ->
    dyno_bench_engine:result().
decided(#{arms := Arms, metric := Metric} = Result, #{threshold := Threshold}) ->
    case dyno_bench_metric:kind(Metric) of
        rounds ->
            Result;
        _ ->
            Values = [values(Metric, Arm) || Arm <- Arms],
            Pairs = dyno_bench_metric:pairs(Values, Threshold),
            Result#{
                arms := [Arm#{values => Of} || {Arm, Of} <- lists:zip(Arms, Values)],
                pairs := Pairs,
                decided := [] =:= [x || #{verdict := undecided} <- Pairs]
            }
    end.

-doc "The values of a metric that is not one of rounds, by run.".
-spec values(dyno_bench_metric:name(), dyno_bench_engine:arm()) -> [float(), ...].
values(Metric, #{exact := #{runs := Runs}}) when Metric =:= words; Metric =:= reductions ->
    map_get(Metric, Runs);
values(messages, #{whole := #{runs := #{messages := Of}}}) ->
    Of;
values(whole, #{whole := #{runs := #{reductions := Of}}, exact := #{reductions := Own}}) ->
    [max(0.0, Own + Others) || Others <- Of].
