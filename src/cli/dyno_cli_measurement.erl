%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_measurement).
-moduledoc """
The common work of commands that make a recording.

The measurement runs in its own process, so that this one can draw progress and take interrupts. The
first interrupt asks the measurement to end with the results so far; the second ends dyno. Then the
recording is compared with `--baseline` and written to files and standard output. Its status and
verdicts give the exit status.

```erlang
run(#{node := Node} = Values) ->
    Job = #{keep => Node, measure => fun(Context) -> dyno_servers:run(Node, Context) end},
    dyno_cli_measurement:run(Job, Values).
```
""".

-export([options/0, options_of_tests/0, kept/0, run/2]).
-export_type([job/0, context/0]).

-type job() :: #{
    %% Must end with its results when its process receives `dyno_interrupt`.
    measure := fun((context()) -> {ok, dyno_recording:document()} | {error, dyno_error:error()}),
    %% Keeps the recording without a named file too, in a file with this prefix.
    keep => dyno_cli_results:name(),
    %% The recording's writer: the measurement, as it grows, or this module at the end.
    writer => measurement,
    gate => dyno_cli_baseline:command(),
    print => fun((dyno_recording:document()) -> 0 | 3)
}.

-type context() :: #{
    progress := fun((dyno_cli_progress:progress()) -> ok),
    recording := file:filename_all() | none
}.

-type plan() :: #{
    job := job(),
    format := dyno_report:format() | none,
    outputs := [dyno_cli_output:output()],
    look := dyno_report:options(),
    recording := file:filename_all() | none,
    %% Whether the user named the file.
    path_from := user | dyno,
    progress := dyno_cli_progress:mode()
}.

-doc "The options for reports and files.".
-spec options() -> [dyno_cli_option:row()].
options() ->
    dyno_cli_output:options(" (default: console)", kept()) ++
        [
            {"-q, --quiet", "only the requested report"},
            {"-v, --verbose",
                "more on standard error: a line for each phase without a terminal, too"}
        ].

-doc "The help's text of the default file.".
-spec kept() -> string().
kept() ->
    ". Without a .json or .jsonl the recording goes to _build/dyno (in a project) or dyno-results".

-doc "These options, for commands with long reports.".
-spec options_of_tests() -> [dyno_cli_option:row()].
options_of_tests() ->
    options() ++
        [{"--full", "the whole report on standard output, not only 30 lines"}].

-doc "Measures, compares, reports; returns the exit status.".
-spec run(job(), dyno_cli_command:values()) -> dyno_error:exit_status().
run(Job, Values) ->
    Plan = plan(Job, Values),
    maybe
        {ok, Gate} ?= dyno_cli_baseline:read(maps:get(gate, Job, none), Values),
        {ok, Document} ?= measured(Plan),
        Again = fun() -> measured(Plan) end,
        finish(dyno_cli_baseline:judge(Gate, Document, Again), Document, Plan)
    else
        {interrupted, Result} -> interrupted(Result, Plan);
        Error -> refused(Error)
    end.

%% A target that did not answer was cut off: the cause is the interrupt, not a failure.
interrupted({ok, #{~"status" := ~"failed"} = Document}, Plan) ->
    Stopped = maps:remove(~"error", Document),
    finish({ok, dyno_recording:put(Stopped, status, interrupted)}, Document, Plan);
interrupted({ok, Document}, Plan) ->
    finish({ok, Document}, Document, Plan);
interrupted({crashed, _} = Crash, _Plan) ->
    _ = dyno_cli_crash:debugging() andalso refused(Crash),
    dyno_cli_terminal:complain("stopped before there was anything to show"),
    130;
interrupted(Error, _Plan) ->
    _ = refused(Error),
    130.

-spec plan(job(), dyno_cli_command:values()) -> plan().
plan(Job, Values) ->
    Outputs = maps:get(output, Values, []),
    Default =
        case is_map_key(print, Job) orelse is_map_key(quiet, Values) of
            true -> none;
            false -> console
        end,
    Plan = #{
        job => Job,
        format => maps:get(format, Values, Default),
        outputs => Outputs,
        recording => none,
        path_from => user,
        progress => progress_mode(Values),
        look => maps:merge(
            #{page => Path || {html, Path} <- lists:reverse(Outputs)},
            (maps:with([view], Values))#{full => maps:get(full, Values, not is_test(Job))}
        )
    },
    %% Lines are written during the measurement.
    Recordings = [{K, Path} || Kind <- [jsonl, json], {K, Path} <- Outputs, K =:= Kind],
    case {Job, Recordings} of
        {#{keep := _}, [{_, Path} = Recording | _]} ->
            Plan#{recording := Path, outputs := lists:delete(Recording, Outputs)};
        {#{keep := Name}, []} ->
            recorded_in(dyno_cli_results:new_path(Name), Plan);
        {#{}, _} ->
            Plan
    end.

%% The default file may fail without an error.
recorded_in(Path, Plan) ->
    case dyno_file:writable(Path) of
        ok ->
            Plan#{recording := Path, path_from := dyno};
        {error, Reason} ->
            Why = dyno_file:format_error(Reason),
            dyno_cli_terminal:note(["dyno: no recording is kept: ", Why]),
            Plan
    end.

is_test(#{gate := Gate}) -> Gate =:= test orelse Gate =:= record;
is_test(_Job) -> false.

progress_mode(#{quiet := true}) ->
    silent;
progress_mode(Values) ->
    case {dyno_cli_terminal:is_terminal(standard_error), Values} of
        {true, _} -> redrawn;
        {false, #{verbose := true}} -> lines;
        {false, _} -> seldom
    end.

%% The measurement

measured(#{job := #{measure := Measure}, recording := Recording, progress := Mode}) ->
    Self = self(),
    Report = fun(Event) ->
        Self ! {progress, Event},
        ok
    end,
    {Pid, Monitor} = spawn_monitor(fun() ->
        %% Output of measured code must not get into a report on standard output.
        _ = [group_leader(Error, self()) || Error <- [whereis(standard_error)], is_pid(Error)],
        Self ! {finished, self(), Measure(#{progress => Report, recording => Recording})}
    end),
    ok = dyno_cli_interrupt:subscribe(),
    {Result, Shown} = await(Pid, Monitor, dyno_cli_progress:new(Mode)),
    ok = dyno_cli_interrupt:measured(),
    _ = dyno_cli_progress:clear(Shown),
    Result.

await(Pid, Monitor, Progress) ->
    receive
        {progress, Event} ->
            await(Pid, Monitor, dyno_cli_progress:show(Event, Progress));
        dyno_interrupt ->
            Pid ! dyno_interrupt,
            Cleared = dyno_cli_progress:clear(Progress),
            Note = "dyno: stopping; interrupt again to stop at once",
            _ = [dyno_cli_terminal:note(Note) || not dyno_cli_terminal:unread()],
            {Result, Shown} = await(Pid, Monitor, Cleared),
            {{interrupted, Result}, Shown};
        {finished, Pid, Result} ->
            true = demonitor(Monitor, [flush]),
            {Result, Progress};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {{crashed, Reason}, Progress}
    end.

refused({error, _} = Error) ->
    dyno_cli_command:refused(Error);
refused({crashed, {Reason, [_ | _] = Stack}}) ->
    dyno_cli_crash:report(exit, Reason, [Frame || Frame <- Stack, is_tuple(Frame)]);
refused({crashed, Reason}) ->
    dyno_cli_crash:report(exit, Reason, []).

%% The results

finish({ok, Gated}, Document, Plan) ->
    Judged = since_last(Gated, Plan),
    Kept = keep(Judged, Document, Plan),
    dyno_cli_exit_status:after_output(
        dyno_cli_exit_status:of_recording(Judged), max(Kept, show(Judged, Kept, Plan))
    );
finish({interrupted, Result}, _Document, Plan) ->
    interrupted(Result, Plan);
finish(Error, Document, Plan) ->
    Kept = keep(Document, Document, Plan),
    _ = show(Document, Kept, Plan),
    refused(Error).

%% A user who names files compares by name.
since_last(Document, #{path_from := dyno, recording := Path}) ->
    dyno_cli_results:since_last(Path, Document);
since_last(Document, _Plan) ->
    Document.

keep(_Judged, _Document, #{recording := none}) ->
    0;
keep(Document, Document, #{job := #{writer := measurement}}) ->
    0;
keep(Judged, _Document, #{recording := Path}) ->
    case dyno_recording_file:write(Path, Judged) of
        ok ->
            0;
        {error, Reason} ->
            dyno_cli_terminal:complain(dyno_recording_file:format_error(Reason)),
            3
    end.

show(Document, Kept, #{job := Job, format := Format, outputs := Outputs, look := Look} = Plan) ->
    Delivered = dyno_cli_output:deliver(Document, Format, Outputs, Look),
    Printed =
        case Job of
            #{print := Print} -> Print(Document);
            #{} -> 0
        end,
    mention(Document, Plan),
    case Plan of
        #{path_from := dyno, progress := Mode, recording := Path} when
            Mode =/= silent, Kept =:= 0, Delivered =:= 0
        ->
            dyno_cli_terminal:note(["dyno: the recording is in ", Path]);
        #{} ->
            ok
    end,
    max(Delivered, Printed).

%% Without a console report, standard error has the problems; for a benchmark its error.
mention(Document, #{format := console, job := #{gate := bench}}) ->
    complain(errors(Document) ++ verdicts(Document));
mention(_Document, #{format := console}) ->
    ok;
mention(Document, #{progress := Mode}) ->
    Findings = [
        [atom_to_binary(Severity), ": ", dyno_report_findings:sentence(Finding)]
     || Mode =/= silent,
        #{severity := Severity} = Finding <- dyno_report_findings:shown(Document),
        Severity =/= note
    ],
    complain(Findings ++ errors(Document) ++ verdicts(Document)).

errors(Document) ->
    [Text || #{~"text" := Text} <- [maps:get(~"error", Document, null)]].

complain(Sentences) ->
    lists:foreach(fun dyno_cli_terminal:complain/1, Sentences).

verdicts(Document) ->
    [
        [Name, ": ", Text]
     || #{~"name" := Name, ~"text" := Text} <- dyno_cli_exit_status:not_passed(Document)
    ].
