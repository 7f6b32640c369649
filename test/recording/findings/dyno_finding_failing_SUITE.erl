%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_failing_SUITE).
-moduledoc "Tests whose operations fail: what decides, and where it is shown.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() -> [more_than_half, thresholds_on_errors, is_shown_everywhere].

init_per_suite(Config) -> dyno_suites:with_temporary(Config).

end_per_suite(Config) -> dyno_suites:without_temporary(Config).

init_per_testcase(Case, Config) -> dyno_suites:prepare(Case, Config).

end_per_testcase(_Case, _Config) -> ok.

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

%% A suite whose operations raise: each report has the reason with its stack.
is_shown_everywhere(Config) ->
    dyno_tries:hold(3, fun() -> is_shown_everywhere_once(Config) end).

is_shown_everywhere_once(Config) ->
    Source = dyno_suites:write(
        Config,
        broken,
        #{sizes => [1], duration_ms => 300, warmup_ms => 0, control => false},
        [
            "init_run(_, _) -> {ok, [], 1}.\n"
            "init_worker(_, _) -> {ok, 0}.\n"
            "operation(N) when N rem 4 =:= 0 -> receive after 1 -> {ok, N + 1} end;\n"
            "operation(N) when N rem 4 =:= 1 -> {error, busy, N + 1};\n"
            "operation(N) -> receive after 1 -> ok end, {ok, divided(N)}.\n"
            "divided(N) -> _ = 1 div (N rem 2), N + 1.\n"
        ]
    ),
    {ok, Document} = dyno_test:run(Source, #{}),
    {ok, _} = dyno_recording:validate(Document),
    [Run] = dyno_recording:runs(Document),
    Rows = dyno_recording:rows(Run, ~"errors"),
    [Stack] = [S || #{~"reason" := ~"{error,badarith}", ~"stack" := S} <- Rows],
    ?assertMatch({match, _}, re:run(Stack, ~"broken:divided/1 \\(broken.erl:[0-9]+\\)")),
    ?assertMatch([null], [S || #{~"reason" := ~"busy", ~"stack" := S} <- Rows]),
    ?assertMatch([_], [W || #{~"code" := ~"failing"} = W <- maps:get(~"warnings", Run)]),
    ?assertMatch(
        [#{~"kind" := ~"finding", ~"result" := ~"fail"}], maps:get(~"verdicts", Document)
    ),
    [
        begin
            {ok, Report} = dyno_report:render(Format, Document, #{}),
            Text = re:replace(iolist_to_binary(Report), ~"\\s+", ~" ", [global, {return, binary}]),
            ?assertNotEqual(nomatch, binary:match(Text, Said), {Format, Said, Text})
        end
     || {Format, Said} <- [
            {console, ~"in erlang:'div'/2, called from broken:divided/1 (broken.erl:"},
            {console, ~"FAIL most operations succeed 1 66"},
            {console, ~"FAILED: 1 of 1 check did not hold"},
            {console, ~"CRITICAL 66"},
            {md, ~"divided/1 (broken.erl:"},
            {junit, ~"<failure message="},
            {junit, ~"badarith} ("},
            {junit, ~"broken:divided/1 (broken.erl:"},
            {html, ~"broken:divided/1 (broken.erl:"}
        ]
    ].
