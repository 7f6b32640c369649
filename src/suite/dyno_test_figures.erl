%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_figures).
-moduledoc false.
%% Makes one run of the recording out of what was measured. Pure.

-export([run/1]).
-export_type([measured/0]).

-import(dyno_recording_part, [series/7, text/2]).

-type measured() :: #{
    size := pos_integer(),
    repetition := pos_integer(),
    id := binary(),
    status := complete | failed | interrupted | partial,
    started_at := binary(),
    duration_ns := non_neg_integer(),
    load := dyno_suite:load() | undefined,
    interval_ms := pos_integer(),
    targets := [dyno_targets:target()],
    intervals := [dyno_load:interval()],
    samples := [
        {node(), TimeMs :: integer(), #{binary() => number()}, CostUs :: non_neg_integer()}
    ],
    snapshot := dyno_load_recorder:snapshot() | undefined,
    %% Where the load came to its end.
    report => dyno_load_result:report(),
    errors := [{binary(), pos_integer()}],
    in_flight := non_neg_integer(),
    %% What workers could not end.
    not_ended := [binary()],
    figures := [dyno_targets:figures()],
    %% Of the control run: none, the half before, or both.
    control := [dyno_test_baseline_run:half()],
    error := {Code :: binary(), Text :: binary()} | undefined
}.

%% Counts that may be off by more than this share are said to be.
-define(INEXACT, 0.002).

-doc "The run, as doc/recording.md has it.".
-spec run(measured()) -> #{atom() => term()}.
run(Measured) ->
    Cost = dyno_test_baseline_run:metrics(map_get(control, Measured), map_get(intervals, Measured)),
    Warnings = warnings(Measured) ++ dyno_test_baseline_run:warnings(Cost),
    #{
        id => map_get(id, Measured),
        size => map_get(size, Measured),
        repetition => map_get(repetition, Measured),
        status => map_get(status, Measured),
        started_at => map_get(started_at, Measured),
        duration_ns => map_get(duration_ns, Measured),
        nodes => [Facts || #{facts := Facts} <- map_get(targets, Measured)],
        metrics =>
            dyno_load_figures:metrics(Measured) ++ dyno_test_inside:metrics(Measured) ++ Cost,
        histograms =>
            dyno_load_figures:histograms(Measured) ++ dyno_test_inside:histograms(Measured),
        series => dyno_load_figures:series(Measured) ++ sampled_series(Measured),
        tables => dyno_load_figures:tables(Measured) ++ dyno_test_inside:tables(Measured),
        warnings => [#{code => C, text => T} || {C, T} <- Warnings],
        error => note(map_get(error, Measured))
    }.

note(undefined) -> undefined;
note({Code, Text}) -> #{code => Code, text => Text}.

%% VM and system

sampled_series(#{targets := Targets, samples := Samples}) ->
    lists:append([
        node_series(Node, Metrics, [{T, F} || {N, T, F, _} <- Samples, N =:= Node])
     || #{node := Node, metrics := Metrics} <- Targets
    ]).

node_series(_Node, _Metrics, []) ->
    [];
node_series(Node, Metrics, Samples) ->
    Times = [T || {T, _} <- Samples],
    [
        series(Name, Unit, Group, Title, Node, Times, [
            maps:get(Name, Figures, undefined)
         || {_, Figures} <- Samples
        ])
     || #{name := Name, unit := Unit, title := Title, group := Group} <- Metrics
    ].

%% What makes the numbers less believable

warnings(Measured) ->
    lists:append([
        dyno_load_figures:warnings(Measured),
        noisy_machine(Measured),
        lists:flatmap(fun inside_warnings/1, map_get(figures, Measured))
    ]).

noisy_machine(#{samples := Samples}) ->
    Steal = [S || {_, _, #{~"os.cpu.steal" := S}, _} <- Samples],
    case Steal of
        [_ | _] ->
            case lists:sum(Steal) / length(Steal) of
                Mean when Mean > 0.02 ->
                    Text = "the hypervisor took ~ts of the processor time: "
                        "compare with other runs with care",
                    [{~"steal", text(Text, [dyno_unit:format(Mean, ~"ratio")])}];
                _ ->
                    []
            end;
        [] ->
            []
    end.

inside_warnings(#{node := Node, functions := Functions, processes := Processes}) ->
    [
        {~"lost_figures",
            text("~ts of ~ts: replaced before its figures could be read; some calls are missing", [
                M, Node
            ])}
     || #{lost := Lost} <- [Functions], M <- Lost
    ] ++
        [
            {~"reloaded", text(
                    "~ts of ~ts was loaded again during the run; its calls within the milliseconds "
                    "around it may be missing or count twice; do not load it once more before the "
                    "processes that ran it have ended: to trace them then can crash the emulator "
                    "(doc/architecture.md, Traps of the runtime)",
                    [M, Node]
                )}
         || #{reloaded := Reloaded} <- [Functions], M <- Reloaded
        ] ++
        [
            {~"cut_times",
                text(
                    "own times of ~ts may be off by ~ts of ~ts: the runtime cuts each process's "
                    "time in a function to whole microseconds, and these processes are short-lived",
                    [Node, dyno_unit:format(Uncertain, ~"ns"), dyno_unit:format(Own, ~"ns")]
                )}
         || #{functions := All} <- [Functions],
            {Uncertain, Own} <- [{sum_of(uncertain_ns, All), sum_of(own_time_ns, All)}],
            Uncertain * 10 > Own
        ] ++
        [
            {~"inexact_counts",
                text(
                    "calls in ~ts may be off by ~ts: it starts so many processes that the figures "
                    "had to be taken in while they were counted",
                    [Node, dyno_unit:format(OffBy, ~"ratio")]
                )}
         || #{off_by := OffBy} <- [Functions], OffBy > ?INEXACT
        ] ++
        [
            {~"processes_truncated",
                text("more processes in ~ts than are followed: the later ones are missing", [Node])}
         || #{truncated := true} <- [Processes]
        ].

sum_of(Key, Functions) ->
    lists:sum([maps:get(Key, F, 0) || F <- Functions]).
