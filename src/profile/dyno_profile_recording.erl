%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_recording).
-moduledoc false.
%% A profile as a recording: what the instruments gave, and of each profile the table of its
%% functions, by which thresholds and comparisons go. Pure.

-export([document/6, known/0]).

-doc "The recording.".
-spec document([node(), ...], dyno_profile:options(), Environment, module(), Ended, Results) ->
    dyno_recording:document()
when
    Environment :: term(),
    Ended :: map(),
    Results :: [dyno_targets:results()].
document([First | Others], Options, Environment, Kind, Ended, Results) ->
    #{targets := Targets, samples := Samples, duration_ns := DurationNs, facts := Facts} = Ended,
    #{ending := Ending, warnings := Warnings} = Ended,
    Thresholds = maps:get(thresholds, Options, []),
    Parameters = #{
        nodes => [First | Others],
        kind => maps:get(kind, Options, sample),
        targets => [dyno_process_filter:format(T) || T <- maps:get(targets, Options, [all])],
        duration_ms => maps:get(for_ms, Options, undefined),
        inside =>
            case Options of
                #{inside := Function} -> dyno_agent_patterns:print(Function);
                #{} -> undefined
            end,
        count => maps:get(count, Options, undefined),
        without => [dyno_agent_patterns:print(P) || P <- maps:get(not_traced, Options, [])],
        thresholds => [dyno_threshold:format(T) || T <- Thresholds]
    },
    More = [[" and ", integer_to_binary(length(Others)), " more"] || Others =/= []],
    Name = maps:get(named, Options, iolist_to_binary([atom_to_binary(First), More])),
    New = dyno_recording:new(profile, Name, Parameters, Environment),
    #{~"started_at" := StartedAt} = New,
    Found = dyno_target_results:parts(Targets, Samples, Results, undefined),
    #{profiles := Profiles, tables := Tables, warnings := Said, metrics := Metrics} =
        Parts = with_parts(Kind, Found, Options),
    #{metrics := Cost, warnings := Left} = dyno_target_visit:parts(maps:get(visits, Ended, [])),
    Functions = dyno_profile_functions:tables(Profiles),
    Run = (maps:without([warnings], Parts))#{
        status => dyno_recording_observed:of_run(Ending),
        started_at => StartedAt,
        duration_ns => DurationNs,
        nodes => Facts,
        metrics => Metrics ++ Cost,
        tables => Functions ++ Tables
    },
    With = dyno_recording:add_run(New, Run),
    Few = dyno_profile_functions:warnings(Functions),
    Warned = dyno_recording:add_warnings(With, Few ++ Said ++ lists:reverse(Warnings) ++ Left),
    Timed = dyno_recording:put(Warned, duration_ns, DurationNs),
    dyno_threshold:judge(Thresholds, dyno_recording_observed:put(Ending, Timed)).

with_parts(Kind, Found, Options) ->
    case erlang:function_exported(Kind, parts, 2) of
        true -> Kind:parts(Found, Options);
        false -> Found
    end.

-doc "What such a recording may have, for thresholds.".
-spec known() -> dyno_threshold:known().
known() ->
    Known = dyno_target_results:known([
        dyno_agent_schedulers, dyno_agent_path_profile | dyno_agent_instrument:all()
    ]),
    #{tables := Tables} = Known,
    Known#{tables := [dyno_profile_functions:spec(), dyno_profile_exact:spec() | Tables]}.
