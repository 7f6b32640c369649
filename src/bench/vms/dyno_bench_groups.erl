%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_groups).
-moduledoc false.
%% What groups of fresh VMs, one VM for each arm, say together: see dyno_bench_isolated. Pure.

-export([result/4, pairs/4]).
-export_type([group/0]).

-type by_arm() :: #{pos_integer() => float()}.

-type group() :: #{
    times := by_arm(),
    %% Of what decides.
    values := by_arm(),
    %% Of each arm.
    figures := [dyno_bench_engine:arm(), ...],
    duration_ms := non_neg_integer()
}.

-type options() :: #{
    level := float(), threshold := float(), metric => dyno_bench_metric:name(), _ => _
}.

-doc "The result of so many arms, without the empty loop's time.".
-spec result(Arms :: pos_integer(), Looks :: pos_integer(), options(), [group(), ...]) ->
    #{atom() => term()}.
result(Arms, Looks, Options, Groups) ->
    Metric = maps:get(metric, Options, time),
    Values = fun(N) -> [map_get(N, Of) || #{values := Of} <- Groups] end,
    Times = fun(N) -> [map_get(N, Of) || #{times := Of} <- Groups] end,
    Pairs = pairs(Arms, Values, Looks, Options),
    Figures = fun(N) ->
        figures(Arms, Times(N), [lists:nth(N, F) || #{figures := F} <- Groups], Groups)
    end,
    #{
        metric => Metric,
        arms => [
            case Metric of
                time -> Figures(N);
                _ -> (Figures(N))#{values => Values(N)}
            end
         || N <- lists:seq(1, Arms)
        ],
        pairs => Pairs,
        rounds => length(Groups),
        vms => length(Groups),
        decided => lists:all(fun(#{verdict := V}) -> V =/= undecided end, Pairs)
    }.

-doc """
What the groups say of each pair of arms: `Values` gives an arm's time in each group, `Looks` is how
often it may be looked at before it ends.
""".
-spec pairs(
    Arms :: pos_integer(),
    Values :: fun((pos_integer()) -> [float()]),
    Looks :: pos_integer(),
    options()
) -> [dyno_bench_rounds:pair()].
pairs(Count, Values, Looks, #{level := Level, threshold := Threshold}) ->
    All = [{A, B} || A <- lists:seq(1, Count), B <- lists:seq(A + 1, Count)],
    Each = 1 - (1 - Level) / (Looks * max(1, length(All))),
    [
        begin
            Logs = lists:zipwith(
                fun(TimeA, TimeB) -> math:log(TimeB / TimeA) end, Values(A), Values(B)
            ),
            Interval =
                case dyno_stats_interval:median(Logs, Each) of
                    {ok, {Low, High, _}} -> {ok, {Low, High}};
                    {error, too_few} -> {error, too_few}
                end,
            dyno_bench_rounds:judged({A, B}, {dyno_stats:median(Logs), Interval}, Threshold)
        end
     || {A, B} <- All
    ].

-spec figures(pos_integer(), [float()], [map(), ...], [map()]) -> map().
figures(Arms, Times, [First | _] = Each, Groups) ->
    Mean = fun(Key) -> dyno_stats:mean([V || #{Key := V} <- Each, is_number(V)]) end,
    First#{
        exact => dyno_bench_exact:together([Exact || #{exact := Exact} <- Each]),
        times_ns := Times,
        %% Its share of the time.
        durations_ns => [Ms * 1_000_000 div Arms || #{duration_ms := Ms} <- Groups],
        reductions := Mean(reductions),
        garbage_collections := Mean(garbage_collections),
        waiting := waiting(Each)
    }.

-spec waiting([map()]) -> float() | undefined.
waiting(Each) ->
    case [W || #{waiting := W} <- Each, is_number(W)] of
        [] -> undefined;
        Known -> dyno_stats:mean(Known)
    end.
