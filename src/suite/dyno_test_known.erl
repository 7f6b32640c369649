%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_known).
-moduledoc false.
%% The names of all that a test will measure: thresholds on others are refused before it. Pure.

-export([known/2, instruments/2]).

-spec instruments(dyno_suite:options(), dyno_test_custom:loaded()) -> [module()].
instruments(#{profile := Profile}, Custom) ->
    [dyno_agent_schedulers || Profile =:= schedulers] ++ dyno_test_custom:instruments(Custom).

-spec known(dyno_suite:options(), dyno_test_custom:loaded()) -> dyno_threshold:known().
known(#{metrics := Metrics, servers := Servers} = Options, Custom) ->
    Instruments =
        [dyno_agent_servers || Servers =/= []] ++ instruments(Options, Custom) ++
            dyno_agent_instrument:all(),
    Parts = [
        dyno_load_result:known(),
        dyno_performerl_load:known(),
        dyno_test_baseline_run:known(),
        dyno_target_results:known(Instruments),
        dyno_custom_metric:known(Metrics, dyno_test_custom:modules(Custom)),
        #{
            tables => [dyno_invariant:spec()],
            summaries => [
                dyno_sizes_growth:spec(), dyno_sizes_repetitions:spec(), dyno_finding:spec()
            ]
        }
    ],
    lists:foldl(
        fun(Part, All) -> maps:merge_with(fun(_, A, B) -> A ++ B end, All, Part) end, #{}, Parts
    ).
