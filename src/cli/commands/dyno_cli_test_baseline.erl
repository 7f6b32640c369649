%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_test_baseline).
-moduledoc """
`--baseline` and `--fail-if` of `dyno test`: is it no worse than an earlier recording?

Without `--fail-if` it must not be slower by 3 % and more: response times and throughput of every
size, by the interval over the repetitions.
""".

-export([arguments/0, parse/1, judge/2]).

-export_type([plan/0]).

-doc "The earlier recording and the conditions; or none.".
-opaque plan() :: none | {dyno_recording:document(), [dyno_compare_gate:t(), ...]}.

-define(NO_WORSE, ~"slower > 3%").

-doc "The options.".
-spec arguments() -> [argparse:argument()].
arguments() ->
    dyno_cli_bench_baseline:arguments(
        "an earlier recording (.json), made at the same place: it must not be slower now; both "
        "tests need --repeat",
        "with --baseline, what must not be: slower > 5% or faster > 5% (default: slower > 3%); may "
        "be given more than once"
    ).

-doc "Reads the baseline and the conditions, before anything is measured.".
-spec parse(argparse:arg_map()) -> {ok, plan()} | {error, unicode:chardata()}.
parse(#{baseline := Path} = Values) ->
    maybe
        {ok, Conditions} ?= worded(
            dyno_compare_gate,
            dyno_compare_gate:parse_all(maps:get(fail_if, Values, [?NO_WORSE]))
        ),
        {ok, Baseline} ?= worded(dyno_recording_file, dyno_recording_file:read(Path)),
        ok ?= same_place(Baseline),
        {ok, {Baseline, Conditions}}
    end;
parse(#{fail_if := _}) ->
    {error, "--fail-if compares with a recording; give it with --baseline FILE"};
parse(_) ->
    {ok, none}.

%% What the environment and the command rule out is known before the measurement.
-spec same_place(dyno_recording:document()) -> ok | {error, unicode:chardata()}.
same_place(#{~"parameters" := Parameters} = Baseline) ->
    Now = dyno_recording:new(test, ~"now", Parameters, dyno_environment:collect()),
    case dyno_compare:comparable(Baseline, dyno_recording:put(Now, status, complete)) of
        ok -> ok;
        {error, Reason} -> {error, ["--baseline: ", dyno_compare:format_error(Reason)]}
    end.

-spec worded(module(), {ok, Value} | {error, term()}) ->
    {ok, Value} | {error, unicode:chardata()}.
worded(_Module, {ok, Value}) -> {ok, Value};
worded(Module, {error, Reason}) -> {error, Module:format_error(Reason)}.

-doc "The recording with the comparison and a verdict for each condition.".
-spec judge(plan(), dyno_recording:document()) ->
    {ok, dyno_recording:document()} | {error, unicode:chardata()}.
judge(none, Document) ->
    {ok, Document};
judge(_Plan, #{~"status" := Status} = Document) when Status =/= ~"complete" ->
    %% It has a worse word to say.
    {ok, Document};
judge({Baseline, Conditions}, Document) ->
    case dyno_compare_tests:comparable(Baseline, Document) of
        ok ->
            judge(Conditions, dyno_compare_tests:changes(Baseline, Document, 0.0), Document);
        {error, Reason} ->
            {error, ["--baseline: ", dyno_compare:format_error(Reason)]}
    end.

-spec judge([dyno_compare_gate:t()], [dyno_compare:change()], dyno_recording:document()) ->
    {ok, dyno_recording:document()} | {error, unicode:chardata()}.
judge(_Conditions, [], _Document) ->
    {error, [
        "--baseline: the recordings have no size in common; run the sizes of the earlier one "
        "(--sizes)"
    ]};
judge(Conditions, Changes, Document0) ->
    Document1 = dyno_recording:add_tables(Document0, [dyno_compare:table(Changes)]),
    {ok,
        dyno_recording:add_verdicts(Document1, [
            dyno_compare_tests:gate(C, Changes)
         || C <- Conditions
        ])}.
