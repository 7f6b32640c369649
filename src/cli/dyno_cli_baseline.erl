%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_baseline).
-moduledoc false.
%% `--baseline` and `--fail-if`: checks for regressions against an earlier recording.
%%
%% Without conditions, a test fails if slower by more than 10 %: response times and throughput of
%% every size, by the interval over the repetitions.
%%
%% A benchmark that meets a condition is measured once more, because two runs differ by chance; it
%% fails only on metrics that meet the condition both times. Without a baseline, `--fail-if`
%% compares the revisions of `--rev` or several `--erl` or `--erl-flags` with the first of them.
%% Each is measured in many VMs: once is enough.

-export([options/2, read/2, checked/2, judge/3, against/3, format_error/1]).
-export_type([command/0, gate/0, reason/0]).

-type command() :: test | record | bench | none.

-doc "The earlier recording, or the first variant, and the conditions.".
-opaque gate() ::
    none
    | #{
        command := command(),
        baseline := dyno_recording:document() | first_variant,
        conditions := [dyno_compare_gate:t()],
        options := dyno_compare:options()
    }.

-type reason() :: nothing_to_compare_with | no_common_label | no_common_size.

-type measure() :: fun(
    () ->
        {ok, dyno_recording:document()}
        | {error, term()}
        | {crashed, term()}
        | {interrupted, term()}
).

%% Five repetitions on a quiet machine can detect it.
-define(NO_WORSE, ~"slower > 10%").

-spec options(Baseline :: string(), FailIf :: string()) -> [dyno_cli_option:row()].
options(Baseline, FailIf) ->
    [
        {"--baseline FILE", Baseline},
        {"--fail-if CONDITION", FailIf ++ "; repeatable",
            {many, {custom, fun condition/1, "a condition"}}}
    ].

condition(Text) ->
    dyno_error:tagged(dyno_threshold, dyno_compare_gate:parse(Text)).

-spec read(command(), dyno_cli_command:values()) -> dyno_error:result(gate()).
read(Command, #{baseline := Path} = Values) ->
    maybe
        {ok, Baseline} ?= dyno_error:tagged(dyno_recording_file, dyno_recording_file:read(Path)),
        #{conditions := Conditions} = Gate = gate(Command, Baseline, Values),
        ok ?= checked(Conditions, [Baseline]),
        in_baseline(same_place(Gate))
    end;
read(bench, #{fail_if := _} = Values) ->
    Several = [x || Key <- [erl, erl_flags], length(maps:get(Key, Values, [])) > 1],
    case is_map_key(rev, Values) orelse Several =/= [] of
        true -> {ok, gate(bench, first_variant, Values)};
        false -> {error, {?MODULE, nothing_to_compare_with}}
    end;
%% The command judges (dyno_cli_against).
read(test, #{against := _}) ->
    {ok, none};
read(_Kind, #{fail_if := _}) ->
    {error, {?MODULE, nothing_to_compare_with}};
read(_Kind, _Values) ->
    {ok, none}.

gate(Command, Baseline, Values) ->
    {ok, NoWorse} = dyno_compare_gate:parse(?NO_WORSE),
    Given = maps:get(fail_if, Values, [NoWorse || Command =:= test]),
    Metric = atom_to_binary(maps:get(metric, Values, time)),
    #{
        command => Command,
        baseline => Baseline,
        conditions => [dyno_compare_gate:of_metric(Condition, Metric) || Condition <- Given],
        %% A test's options of that name are no shares.
        options => maps:filter(fun(_, Value) -> is_float(Value) end, maps:with([threshold], Values))
    }.

-doc "Whether one of these recordings has the conditions' metrics.".
-spec checked([dyno_compare_gate:t()], [dyno_recording:document(), ...]) -> dyno_error:result().
checked(Conditions, Documents) ->
    case [Reason || C <- Conditions, {error, Reason} <- [dyno_compare_gate:check(C, Documents)]] of
        [] -> ok;
        [Reason | _] -> {error, {dyno_threshold, Reason}}
    end.

in_baseline({error, Error}) -> {error, {dyno_cli_option, {in_option, "--baseline", Error}}};
in_baseline(Good) -> Good.

same_place(#{command := Command, baseline := Baseline, options := Options} = Gate) ->
    #{~"parameters" := Parameters} = Baseline,
    Now0 = dyno_recording:new(Command, ~"now", Parameters, dyno_environment:collect()),
    Now = dyno_recording:put(Now0, status, complete),
    case dyno_compare:comparable(Baseline, Now, all) of
        ok ->
            {ok, Gate};
        {error, {environments, _} = Reason} ->
            case is_exact(Gate) andalso dyno_compare:comparable(Baseline, Now, exact) of
                ok -> {ok, Gate#{options := Options#{metrics => exact}}};
                false -> {error, {dyno_compare, Reason}};
                {error, Exact} -> {error, {dyno_compare, Exact}}
            end;
        {error, Reason} ->
            {error, {dyno_compare, Reason}}
    end.

is_exact(#{command := bench, conditions := [_ | _] = Conditions}) ->
    lists:all(fun dyno_compare_gate:is_exact/1, Conditions);
is_exact(_Gate) ->
    false.

-doc "The recording, compared, with a verdict for each condition; `Measure` measures once more.".
-spec judge(gate(), dyno_recording:document(), measure()) ->
    dyno_error:result(dyno_recording:document()) | {crashed, term()} | {interrupted, term()}.
judge(none, Document, _Measure) ->
    {ok, Document};
judge(_Gate, #{~"status" := Status} = Document, _Measure) when Status =/= ~"complete" ->
    %% Its own status is worse.
    {ok, Document};
judge(#{conditions := Conditions} = Gate, Document, Measure) ->
    maybe
        {ok, Changes} ?= in_baseline(changes(Gate, Document)),
        Failing = [dyno_compare_gate:failing(C, Changes) || C <- Conditions],
        case {Gate, lists:append(Failing)} of
            {#{command := bench, baseline := #{}}, [_ | _]} -> confirm(Gate, Failing, Measure);
            _ -> {ok, judged(Gate, Changes, Failing, Document)}
        end
    end.

-doc "Judges a test by one whose runs were measured in turn with its own.".
-spec against(Old, New, dyno_cli_command:values()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()}
when
    Old :: dyno_recording:document(), New :: dyno_recording:document().
against(Old, New, Values) ->
    #{options := Options, conditions := Conditions} = Gate = gate(test, Old, Values),
    Paired = Gate#{options := Options#{runs => paired}},
    maybe
        {ok, Changes} ?= changes(Paired, New),
        Failing = [dyno_compare_gate:failing(C, Changes) || C <- Conditions],
        {ok, judged(Paired, Changes, Failing, New)}
    end.

changes(#{baseline := first_variant, options := Options}, Document) ->
    case dyno_compare_variants:changes(Document, Options) of
        {ok, Changes} -> {ok, Changes};
        {error, nothing_in_common} -> {error, {?MODULE, no_common_label}}
    end;
changes(#{command := Command, baseline := Baseline, conditions := Conditions} = Gate, Document) ->
    #{options := Given} = Gate,
    Options = Given#{names => dyno_compare_gate:names(Conditions)},
    Comparable = dyno_compare:comparable(Baseline, Document, maps:get(metrics, Options, all)),
    maybe
        ok ?= dyno_error:tagged(dyno_compare, Comparable),
        case dyno_compare:changes({Baseline, Document}, Options) of
            [] when Command =:= bench -> {error, {?MODULE, no_common_label}};
            [] -> {error, {?MODULE, no_common_size}};
            Changes -> {ok, Changes}
        end
    end.

confirm(#{conditions := Conditions} = Gate, First, Measure) ->
    dyno_cli_terminal:note("dyno: a condition of --fail-if holds; measuring once more to confirm"),
    maybe
        {ok, Document} ?= Measure(),
        {ok, Changes} ?= in_baseline(changes(Gate, Document)),
        Failing = [
            [Change || Change <- dyno_compare_gate:failing(C, Changes), is_among(Change, Earlier)]
         || {C, Earlier} <- lists:zip(Conditions, First)
        ],
        Warning =
            {~"confirmed", <<
                "a condition held at the first measurement; this is the second; a condition "
                "fails if both held"
            >>},
        {ok, judged(Gate, Changes, Failing, dyno_recording:add_warnings(Document, [Warning]))}
    end.

is_among(#{item := Item, metric := Metric}, Changes) ->
    lists:any(fun(#{item := I, metric := M}) -> I =:= Item andalso M =:= Metric end, Changes).

judged(#{conditions := Conditions} = Gate, Changes, Failing, Document) ->
    Verdicts = [
        dyno_compare_gate:verdict(C, Changes, Of)
     || {C, Of} <- lists:zip(Conditions, Failing)
    ],
    Warnings =
        case Gate of
            #{baseline := #{}} -> dyno_compare:warnings(Changes, []);
            #{} -> []
        end,
    Compared = dyno_recording:add_tables(Document, [dyno_compare:table(Changes)]),
    dyno_recording:add_warnings(dyno_recording:add_verdicts(Compared, Verdicts), Warnings).

-spec format_error(reason()) -> unicode:chardata().
format_error(nothing_to_compare_with) ->
    "--fail-if compares with a recording, given by --baseline FILE, or with a revision, given by "
    "--against in dyno test and --rev in dyno bench";
format_error(no_common_label) ->
    "no code is known to be the same one in both; give each a --label of its own";
format_error(no_common_size) ->
    "the recordings have no size in common; run the sizes of the earlier one (--sizes)".
