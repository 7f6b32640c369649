%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_failing).
-moduledoc "A critical finding if most operations fail, unless thresholds on errors exist. Pure.".

-export([findings/2, verdicts/2]).

-define(ABOUT_ERRORS, ~"(^|[.])errors?([.]| )").

-doc "A finding for each run in which more than half of the operations failed.".
-spec findings([dyno_threshold:t()], dyno_recording:document()) ->
    [{RunId :: binary(), dyno_finding:t()}].
findings(Thresholds, Document) ->
    Decided = lists:any(fun is_about_errors/1, Thresholds),
    [
        {Id,
            dyno_finding:new(failing, failing, #{
                severity => critical,
                subject => Id,
                value => Share,
                text => dyno_recording_part:text("~ts of the operations failed", [
                    dyno_unit:format(Share, ~"ratio")
                ]),
                advice => <<
                    "Mend what the table of errors names; or say with a threshold on errors.rate "
                    "how many may fail."
                >>
            })}
     || not Decided,
        #{~"id" := Id} = Run <- dyno_recording:runs(Document),
        {Share, _Unit} <- dyno_sizes:metric(~"errors.rate", Run),
        Share > dyno_finding_limits:value(failing)
    ].

-doc "A failed verdict for each.".
-spec verdicts([dyno_threshold:t()], dyno_recording:document()) -> [#{atom() => term()}].
verdicts(Thresholds, Document) ->
    [
        dyno_finding:verdict(~"most operations succeed", [Finding], #{run => Id})
     || {Id, Finding} <- findings(Thresholds, Document)
    ].

is_about_errors(Threshold) ->
    re:run(dyno_threshold:format(Threshold), ?ABOUT_ERRORS, [{capture, none}]) =:= match.
