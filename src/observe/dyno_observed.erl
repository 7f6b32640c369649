%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_observed).
-moduledoc false.
%% Builds the recording of an observation from the parts that all observations have. Pure.

-export([document/2, name/1]).
-export_type([parts/0]).

-type parts() :: #{
    command := atom(),
    %% Default: the name of the nodes.
    name => binary(),
    parameters := #{atom() => term()},
    thresholds => [dyno_threshold:t()],
    %% Data of the run, and the command's own warnings.
    run := #{atom() => term()},
    warnings := [{Code :: binary(), Text :: binary()}],
    verdicts => [#{atom() => term()}],
    %% Default: the end known from the nodes.
    ended => dyno_observation:ended(),
    visits => [dyno_target_visit:t()],
    %% Set by dyno_observer.
    nodes => [node()],
    environment => term(),
    facts => [map()]
}.

-spec document(dyno_observation:ended(), parts()) -> dyno_recording:document().
document(Known, #{command := Command, parameters := Parameters, run := Run} = Parts) ->
    #{ending := Ending, duration_ns := DurationNs, warnings := OfNodes} =
        maps:get(ended, Parts, Known),
    #{nodes := Nodes, environment := Environment, facts := Facts, visits := Visits} = Parts,
    New = dyno_recording:new(
        Command,
        maps:get(name, Parts, name(Nodes)),
        maps:merge(
            Parameters,
            #{
                thresholds => [dyno_threshold:format(T) || T <- Of]
             || #{thresholds := Of} <- [Parts]
            }
        ),
        Environment
    ),
    #{~"started_at" := StartedAt} = New,
    #{metrics := Cost, warnings := Left} = dyno_target_visit:parts(Visits),
    With = dyno_recording:add_run(New, Run#{
        status => dyno_recording_cut_short:of_run(Ending),
        started_at => StartedAt,
        duration_ns => DurationNs,
        nodes => Facts,
        metrics => maps:get(metrics, Run, []) ++ Cost
    }),
    Warned = dyno_recording:add_warnings(With, map_get(warnings, Parts) ++ OfNodes ++ Left),
    Timed = dyno_recording:put(Warned, duration_ns, DurationNs),
    Ended = dyno_recording_cut_short:put(Ending, Timed),
    Judged = dyno_recording:add_verdicts(Ended, maps:get(verdicts, Parts, [])),
    dyno_threshold:judge(maps:get(thresholds, Parts, []), Judged).

-spec name([node(), ...]) -> binary().
name([First | Others]) ->
    More = [[" and ", integer_to_binary(length(Others)), " more"] || Others =/= []],
    iolist_to_binary([atom_to_binary(First), More]).
