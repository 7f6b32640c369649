%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_result).
-moduledoc false.
%% Collects a run's measurements, and makes a run of the recording. All measuring modules add their
%% data here; only this module knows the representation. Pure.

-export([new/2, add/2, failure/2, run/3]).
-export_type([t/0, told/0, status/0]).

-import(dyno_recording_part, [text/2]).

-type part() :: #{atom() => term()}.

-type status() ::
    complete | interrupted | partial | failed | {failed | partial, binary(), binary()}.

-opaque t() :: #{
    about := about(),
    model := atom(),
    duration_ns := non_neg_integer(),
    %% The load's, the last interval first.
    intervals := [dyno_load_source:interval()],
    load := dyno_load_result:t() | none,
    targets := [dyno_targets:target()],
    %% The last sample first.
    samples := [dyno_target_results:sample()],
    readings := [dyno_targets:results()],
    %% Of the run without instruments: none, the first half, or both.
    baseline := [dyno_test_baseline_run:half()],
    parts := #{metrics | series | tables | warnings := [part()]},
    verdicts := [part()]
}.

-type about() :: #{
    id := binary(),
    size => non_neg_integer(),
    repetition := pos_integer(),
    started_at := binary()
}.

-spec new(about(), Model :: atom()) -> t().
new(About, Model) ->
    #{
        about => About,
        model => Model,
        duration_ns => 0,
        intervals => [],
        load => none,
        targets => [],
        samples => [],
        readings => [],
        baseline => [],
        parts => maps:from_keys([metrics, series, tables, warnings], []),
        verdicts => []
    }.

-type told() ::
    %% The measured part begins: the zero of series' times.
    {started, MonotonicMs :: integer()}
    %% The length of the measured part so far.
    | {duration_ns, non_neg_integer()}
    | {interval, dyno_load_source:interval() | unknown}
    %% The load's result; none if its operations are unknown.
    | {load, dyno_load_result:t() | none}
    | {sample, dyno_target_results:sample()}
    %% The targets, including lost ones, and their instruments' results.
    | {targets, [dyno_targets:target()]}
    | {readings, [dyno_targets:results()]}
    | {baseline, dyno_test_baseline_run:half()}
    | {metrics, [part()]}
    | {warning, {Code :: binary(), Text :: binary()}}
    %% Results of custom probes. Verdicts belong to the recording: `run/3` returns them separately.
    | {custom, dyno_test_custom:parts()}.

-spec add(told(), t()) -> t().
add({started, NowMs}, #{about := About} = Result) ->
    SystemMs = NowMs + erlang:time_offset(millisecond),
    At = calendar:system_time_to_rfc3339(SystemMs, [{unit, millisecond}, {offset, "Z"}]),
    Result#{about := About#{started_at := list_to_binary(At)}};
add({interval, unknown}, Result) ->
    Result;
add({interval, Interval}, #{intervals := Intervals} = Result) ->
    Result#{intervals := [Interval | Intervals]};
add({load, none}, Result) ->
    Result;
add({load, #{duration_ns := Ns} = Load}, Result) ->
    Result#{load := Load, duration_ns := Ns};
add({sample, Sample}, #{samples := Samples} = Result) ->
    Result#{samples := [Sample | Samples]};
add({baseline, Half}, #{baseline := Halves} = Result) ->
    Result#{baseline := Halves ++ [Half]};
add({metrics, Metrics}, Result) ->
    add(metrics, Metrics, Result);
add({warning, Warning}, Result) ->
    warnings([Warning], Result);
add({custom, #{warnings := Warnings, verdicts := More} = Parts}, #{verdicts := Before} = Result) ->
    maps:fold(
        fun add/3,
        warnings(Warnings, Result#{verdicts := Before ++ More}),
        maps:with([metrics, series, tables], Parts)
    );
add({Key, Value}, Result) when Key =:= duration_ns; Key =:= targets; Key =:= readings ->
    Result#{Key := Value}.

warnings(Warnings, Result) ->
    add(warnings, [dyno_recording_part:note(Warning) || Warning <- Warnings], Result).

add(Key, New, #{parts := Parts} = Result) ->
    #{Key := Before} = Parts,
    Result#{parts := Parts#{Key := Before ++ New}}.

-doc """
A complete run that measured nothing has failed: no operation succeeded, or with dyno's load none of
the measured functions was called.
""".
-spec failure(module(), t()) -> none | {Code :: binary(), Text :: binary()}.
failure(_Module, #{model := none}) ->
    none;
failure(Module, #{load := none, readings := Readings}) ->
    case not_called(Readings) of
        0 ->
            none;
        Count ->
            Text =
                "none of the ~b functions that ~ts has measured was called while its load was "
                "given: the load missed the targets, or was over before",
            {~"no_operations", text(Text, [Count, Module])}
    end;
failure(Module, #{load := #{total := #{successes := 0, failures := 0}}} = Result) ->
    #{duration_ns := DurationNs} = Result,
    Text =
        "no operation ended within the run: ~ts had not returned after ~ts; give it a longer "
        "duration_ms",
    Duration = dyno_unit:format(round(DurationNs / 1.0e6), ~"ms"),
    {~"no_operations", text(Text, [operation(Module), Duration])};
failure(_Module, _Result) ->
    none.

%% The number of measured functions, if none was called.
not_called(Readings) ->
    Counted = [Calls || #{results := #{dyno_agent_calls := Calls}} <- Readings],
    case [F || #{functions := Functions} <- Counted, F <- Functions] of
        [] -> lists:sum([N || #{measured_functions := N} <- Counted]);
        _ -> 0
    end.

%% Otherwise readers would miss them.
not_called_warnings(Readings) ->
    case not_called(Readings) of
        0 ->
            Text =
                "no measured function was called: no module that the patterns name was loaded; see "
                "whether the load calls them",
            [{~"not_called", text(Text, [])} || is_none_loaded(Readings)];
        Count ->
            Text =
                "no measured function was called: of ~b functions that the patterns name none was "
                "seen; see whether they name the code that does the work",
            [{~"not_called", text(Text, [Count])}]
    end.

%% A module is loaded at its first call. At the level discovery only processes show calls.
is_none_loaded(Readings) ->
    Counted = [Of || #{results := #{dyno_agent_calls := #{functions := Of}}} <- Readings],
    Calling = [
        x
     || #{results := #{dyno_agent_processes := #{discovered := N}}} <- Readings, N > 0
    ],
    Counted =/= [] andalso lists:append(Counted) =:= [] andalso Calling =:= [].

operation(Module) ->
    Arity =
        case erlang:function_exported(Module, operation, 1) of
            true -> 1;
            false -> 2
        end,
    dyno_agent_name:mfa({Module, operation, Arity}).

-doc "The run, as in doc/recording.md, without samples after the load, and its verdicts.".
-spec run(status(), EndsMs :: integer() | undefined, t()) -> {Run :: part(), Verdicts :: [part()]}.
run(Status, EndsMs, #{about := About, parts := Parts, verdicts := Verdicts} = Result) ->
    #{load := LoadResult, samples := Samples, baseline := Halves} = Result,
    #{targets := Targets, readings := Readings} = Result,
    Intervals = lists:reverse(map_get(intervals, Result)),
    NotCalled = not_called_warnings(Readings),
    Seen = dyno_target_results:parts(Targets, lists:reverse(Samples), Readings, EndsMs),
    Load = dyno_load_result:to_recording(LoadResult, Intervals),
    Cost = dyno_test_baseline_run:metrics(Halves, Intervals),
    Instruments = map_get(metrics, Seen) ++ Cost,
    Own = #{
        metrics => map_get(metrics, Load) ++ Instruments,
        series => map_get(series, Load) ++ map_get(series, Seen),
        tables => map_get(tables, Load) ++ map_get(tables, Seen),
        warnings => map_get(warnings, Load) ++
            [
                dyno_recording_part:note(Warning)
             || Warning <-
                    NotCalled ++ map_get(warnings, Seen) ++
                        dyno_test_baseline_run:warnings(Instruments),
                %% The general warning covers each target's.
                NotCalled =:= [] orelse element(1, Warning) =/= ~"nothing_called"
            ]
    },
    Run = maps:merge_with(fun(_, First, Others) -> First ++ Others end, Own, Parts),
    {
        (maps:merge(About, Run))#{
            labels => maps:with([size], About),
            status => name(Status),
            error => error_of(Status),
            duration_ns => map_get(duration_ns, Result),
            nodes => [Facts || #{facts := Facts} <- Targets],
            histograms => map_get(histograms, Load) ++ map_get(histograms, Seen),
            profiles => map_get(profiles, Seen),
            events => map_get(events, Seen)
        },
        Verdicts
    }.

name({Status, _, _}) -> Status;
name(Status) -> Status.

error_of({_, Code, Text}) -> #{code => Code, text => Text};
error_of(_Status) -> undefined.
