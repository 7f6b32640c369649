%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_recording).
-moduledoc false.
%% The recording of a test: its beginning, runs, final analysis and verdicts. Saved at the
%% beginning, after each run, and during a run, so that a killed test leaves a readable one.

-export([new/1, save/2, with_run/2, save_so_far/2, finish/3, repeated/1]).
-export([format_error/1, fault/1]).

-type reason() :: {not_kept, dyno_recording_file:reason()}.

-type test() :: #{
    source := dyno_suite_source:source(),
    module := module(),
    form := module(),
    suite := dyno_suite:options(),
    options := dyno_test:options(),
    _ => _
}.

-spec new(test()) -> dyno_recording:document().
new(#{source := Source, module := Module, form := Form, suite := SuiteOptions}) ->
    #{command := Command} = Form:form(),
    As = #{
        patterns => fun dyno_agent_patterns:print/1,
        distribution => fun dyno_agent_patterns:print/1,
        servers => fun dyno_process_filter:format/1,
        thresholds => fun dyno_threshold:format/1,
        invariants => fun dyno_invariant:print/1
    },
    Lists = #{Key => [Print(Item) || Item <- map_get(Key, SuiteOptions)] || Key := Print <- As},
    Plain = maps:with(
        [duration_ms, warmup_ms, interval_ms, level, without, repeat] ++
            [budget || map_get(level, SuiteOptions) =:= budget] ++
            [profile || map_get(profile, SuiteOptions) =/= none],
        SuiteOptions
    ),
    Parameters = maps:merge(maps:merge(Plain, Lists), of_source(Source, SuiteOptions)),
    Document = dyno_recording:new(
        Command, map_get(name, SuiteOptions), Parameters, dyno_environment:collect()
    ),
    dyno_recording:add_warnings(Document, Form:warnings(Module)).

of_source({_Form, #{nodes := Nodes}}, _SuiteOptions) ->
    #{nodes => Nodes};
of_source(Source, #{load := Load} = SuiteOptions) ->
    (maps:with([sizes, size_label, seed, control], SuiteOptions))#{
        suite => source_text(Source),
        load => dyno_load_spec:describe(Load),
        order => [dyno_test_plan:id(Run) || Run <- dyno_test_plan:runs(SuiteOptions)]
    }.

source_text(Source) when is_atom(Source) -> atom_to_binary(Source);
source_text(Source) -> unicode:characters_to_binary(Source).

-doc "Writes the file, if requested; a test that cannot be saved at first does not begin.".
-spec save(dyno_recording:document(), dyno_test:options()) -> dyno_error:result().
save(Document, #{recording := Path}) ->
    written(dyno_recording_file:write(Path, Document));
save(_Document, _Options) ->
    ok.

written(ok) -> ok;
written({error, Reason}) -> {error, {?MODULE, {not_kept, Reason}}}.

-doc "A full disk may have room at the end, which reports a failure.".
-spec save_so_far(dyno_recording:document(), dyno_test:options()) -> ok.
save_so_far(Document, Options) ->
    _ = save(Document, Options),
    ok.

-spec with_run(dyno_test_run:recorded() | none, dyno_recording:document()) ->
    dyno_recording:document().
with_run(none, Document) ->
    Document;
with_run({Run, Verdicts}, Document) ->
    dyno_recording:add_verdicts(dyno_recording:add_run(Document, Run), Verdicts).

-doc "The whole recording, or an error if the suite is wrong.".
-spec finish(dyno_test_run:outcome(), dyno_recording:document(), test()) ->
    dyno_error:result(dyno_recording:document()).
finish({misuse, Error}, Document, #{options := Options}) ->
    ok = save_so_far(failed(~"suite", dyno_error:format(Error), Document), Options),
    {error, Error};
finish(Outcome, Document, #{suite := SuiteOptions, options := Options}) ->
    #{thresholds := Thresholds} = SuiteOptions,
    Final = analysed(Thresholds, sorted(with_status(Outcome, Document), SuiteOptions)),
    case save(Final, Options) of
        ok ->
            {ok, Final};
        {error, Error} ->
            %% The results are still shown, only not kept.
            {ok, failed(~"recording", dyno_error:format(Error), Final)}
    end.

analysed(Thresholds, Document) ->
    Failing = [F || {_, F} <- dyno_finding_failing:findings(Thresholds, Document)],
    Findings =
        Failing ++ dyno_finding_over_sizes:findings(Document) ++
            dyno_finding_growth:findings(Document) ++ dyno_finding_course:findings(Document) ++
            dyno_finding_machine:findings(Document),
    Sizes = length(dyno_sizes:runs(Document)),
    Analysed = dyno_recording:add_tables(
        Document,
        [dyno_finding:table(undefined, Findings) || Findings =/= [] orelse Sizes > 0] ++
            dyno_sizes_repetitions:tables(Document) ++ dyno_sizes_growth:tables(Document)
    ),
    dyno_recording:add_verdicts(
        dyno_threshold:judge(Thresholds, Analysed),
        dyno_finding_failing:verdicts(Thresholds, Analysed)
    ).

-doc "Complete recordings of one test without thresholds, as one whose sizes are repeated.".
-spec repeated([dyno_recording:document(), ...]) -> dyno_recording:document().
repeated([#{~"parameters" := Parameters} = First | _] = Documents) ->
    Numbered = [
        {Run#{~"repetition" => N}, [V || #{~"run" := Of} = V <- Verdicts, Of =:= Id]}
     || {N, #{~"verdicts" := Verdicts} = Document} <- lists:enumerate(Documents),
        #{~"id" := Id} = Run <- dyno_recording:runs(Document)
    ],
    Fields = [
        {parameters, Parameters#{~"repeat" => length(Documents)}},
        {runs, []},
        {tables, []},
        {verdicts, []},
        {warnings, lists:uniq([W || #{~"warnings" := Of} <- Documents, W <- Of])}
    ],
    Empty = lists:foldl(fun({K, V}, Acc) -> dyno_recording:put(Acc, K, V) end, First, Fields),
    Joined = lists:foldl(
        fun({Run, Verdicts}, Acc) ->
            #{~"labels" := Labels, ~"repetition" := N} = Run,
            Id = dyno_recording_run:id(Labels, N),
            with_run({Run#{~"id" := Id}, [V#{~"run" := Id} || V <- Verdicts]}, Acc)
        end,
        Empty,
        Numbered
    ),
    Sorted = dyno_test_plan:sorted(dyno_recording:runs(Joined)),
    analysed([], dyno_recording:put(Joined, runs, Sorted)).

with_status({Status, Code, Text}, Document) ->
    Ended = dyno_recording:put(Document, status, Status),
    dyno_recording:put(Ended, error, #{code => Code, text => unicode:characters_to_binary(Text)});
with_status(Status, Document) ->
    dyno_recording:put(Document, status, Status).

failed(Code, Text, Document) -> with_status({failed, Code, Text}, Document).

%% Sorted by size for readers; the parameters keep the order of execution.
sorted(Document, #{repeat := 1}) ->
    Document;
sorted(Document, _) ->
    Runs = dyno_test_plan:sorted(dyno_recording:runs(Document)),
    dyno_recording:put(Document, runs, Runs).

-spec format_error(reason()) -> unicode:chardata().
format_error({not_kept, Reason}) -> dyno_recording_file:format_error(Reason).

-spec fault(reason()) -> dyno_error:fault().
fault({not_kept, _}) -> dyno.
