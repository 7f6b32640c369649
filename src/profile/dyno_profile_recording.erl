%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_recording).
-moduledoc false.
%% A profile as a recording, with a table of functions for thresholds and comparisons. Pure.

-export([parts/1, known/0]).

-spec parts(dyno_profile:state()) -> dyno_observed:parts().
parts(#{targets := Targets, samples := Samples, results := Results} = State) ->
    #{options := #{nodes := Nodes, kind := Kind} = Options} = State,
    Parameters = #{
        nodes => Nodes,
        kind => Kind,
        targets => [dyno_process_filter:format(T) || T <- maps:get(targets, Options, [all])],
        duration_ms => maps:get(for_ms, Options, undefined),
        inside =>
            case Options of
                #{inside := Function} -> dyno_agent_patterns:print(Function);
                #{} -> undefined
            end,
        count => maps:get(count, Options, undefined),
        without => [dyno_agent_patterns:print(P) || P <- maps:get(not_traced, Options, [])]
    },
    Found = dyno_target_results:parts(
        Targets, lists:reverse(Samples), maps:values(Results), undefined
    ),
    #{profiles := Profiles, tables := Tables, warnings := Said} =
        Parts =
        case lists:member(Kind, [time, count, memory]) of
            true -> dyno_profile_exact:parts(Found, Kind);
            false -> Found
        end,
    Functions = dyno_profile_functions:tables(Profiles),
    #{
        command => profile,
        name => maps:get(named, Options, dyno_observed:name(Nodes)),
        parameters => Parameters,
        thresholds => maps:get(thresholds, Options, []),
        run => (maps:remove(warnings, Parts))#{tables => Functions ++ Tables},
        warnings => dyno_profile_functions:warnings(Functions) ++ Said
    }.

-spec known() -> dyno_threshold:known().
known() ->
    Known = dyno_target_results:known([
        dyno_agent_schedulers, dyno_agent_path_profile | dyno_agent_instrument:all()
    ]),
    #{tables := Tables} = Known,
    Known#{tables := [dyno_profile_functions:spec(), dyno_profile_exact:spec() | Tables]}.
