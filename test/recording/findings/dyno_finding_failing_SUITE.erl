%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_failing_SUITE).
-moduledoc "Tests whose operations fail: what decides.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() -> [more_than_half, thresholds_on_errors].

document(Rates) ->
    Empty = dyno_recording:new(test, ~"failing", #{}, #{}),
    lists:foldl(
        fun({Size, Rate}, Acc) ->
            dyno_recording:add_run(Acc, #{
                id => integer_to_binary(Size),
                size => Size,
                status => complete,
                metrics => [#{name => ~"errors.rate", value => Rate, unit => ~"ratio"}]
            })
        end,
        Empty,
        lists:enumerate(Rates)
    ).

verdicts(Thresholds, Rates) ->
    Read = [T || Text <- Thresholds, {ok, T} <- [dyno_threshold:parse(Text)]],
    dyno_finding_failing:verdicts(Read, document(Rates)).

more_than_half(_Config) ->
    ?assertEqual([], verdicts([], [0.0, 0.5])),
    [#{run := ~"2", result := fail, text := Text}] = verdicts(["latency.p99 < 1 s"], [0.1, 0.51]),
    ?assertEqual(~"51 % of the operations failed", Text),
    [{~"2", #{severity := critical, limit := 0.5, advice := Advice}}] =
        dyno_finding_failing:findings([], document([0.1, 0.51])),
    ?assertMatch({_, _}, binary:match(Advice, ~"a threshold on errors.rate")).

%% Who says how many may fail has decided.
thresholds_on_errors(_Config) ->
    [
        ?assertEqual([], verdicts([Threshold], [0.9]), Threshold)
     || Threshold <- [
            "errors.rate < 95 %",
            "errors.count < 100",
            "operation.read.errors.rate < 1 %",
            "load.errors.max < 5",
            "errors busy count < 5"
        ]
    ],
    %% Names that have it in them are about something else.
    ?assertMatch([_], verdicts(["function my_errors:handle/1 calls < 5"], [0.9])).
