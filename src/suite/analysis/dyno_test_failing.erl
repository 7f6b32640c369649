%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_failing).
-moduledoc """
A test in which most operations fail does not pass, whatever else it measured: what it says of
times is about the few that did not. Why they failed the run's warnings say. Where a threshold is
about errors, that decides instead. Pure.
""".

-export([verdicts/2]).

%% As a metric, in the metrics of kinds and phases, and as the table of reasons.
-define(ABOUT_ERRORS, ~"(^|[.])errors?([.]| )").
-define(MOST, 0.5).

-doc "A failed verdict for each run in which more than half of the operations failed.".
-spec verdicts([dyno_threshold:t()], dyno_recording:document()) -> [#{atom() => term()}].
verdicts(Thresholds, Document) ->
    Decided = lists:any(fun is_about_errors/1, Thresholds),
    [
        #{
            kind => demand,
            name => ~"most operations succeed",
            run => Id,
            result => fail,
            text => dyno_recording_part:text(
                "~ts failed; allow it with a threshold on errors.rate",
                [dyno_unit:format(Share, ~"ratio")]
            )
        }
     || not Decided,
        #{~"id" := Id} = Run <- dyno_recording:runs(Document),
        {Share, _Unit} <- dyno_test_sizes:metric(~"errors.rate", Run),
        Share > ?MOST
    ].

is_about_errors(Threshold) ->
    re:run(dyno_threshold:format(Threshold), ?ABOUT_ERRORS, [{capture, none}]) =:= match.
