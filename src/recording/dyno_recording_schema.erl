%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_schema).
-moduledoc false.
%% The format of a recording as data: objects, fields, types and meanings. dyno_recording_check
%% checks against it; `make format` writes the fields in doc/recording.md and all of
%% doc/recording.schema.json from it.
%%
%% Versions of the format: 1; 2 with labels, events and profiles of runs, roles of nodes and
%% columns, and several kinds of verdicts.

-export([version/0, objects/0, fields/1, checks/1, meaning/1]).

-export_type([object_name/0, type/0, field/0, check/0]).

-type object_name() :: atom().

-doc """
An object's name, or a type without fields: `string`, `boolean`, `integer`, `natural` (from 0),
`positive`, `number`, `json`, `any_object`. `labels`: an object of strings and numbers. `bucket`:
`[low, high, count]`. `row`: a cell for each column. `unit`: a unit of `m:dyno_unit`. `open`:
strings with known values; readers accept others unchanged.
""".
-type type() ::
    atom()
    | {list, type()}
    | {nullable, type()}
    | {one_of, [binary() | integer(), ...]}
    | {open, [binary(), ...]}
    | {either, type(), type()}.

-type field() :: {
    Name :: binary(),
    type(),
    %% An optional field may be absent; others get their default.
    required | optional | {default, null | boolean() | number() | [] | map()},
    Meaning :: binary()
}.

-type check() ::
    unique_ids | unique_roles | same_length | ascending_buckets | rows_fit_columns | samples_fit.

-define(VERSION, 2).

-spec version() -> pos_integer().
version() -> ?VERSION.

-doc "All objects, containers first.".
-spec objects() -> [object_name()].
objects() ->
    [
        document,
        parameters,
        environment,
        git,
        run,
        node,
        metric,
        histogram,
        series,
        table,
        sort,
        column,
        events,
        event,
        profile,
        profile_value,
        profile_sample,
        verdict,
        threshold,
        note
    ].

-spec meaning(object_name()) -> binary().
meaning(document) -> ~"The whole recording.";
meaning(parameters) -> ~"The options of the command. Each command adds fields of its own.";
meaning(environment) -> ~"The machine and the runtime. Unknown values are null.";
meaning(git) -> ~"The current folder's checkout.";
meaning(run) -> ~"One measurement, of a size, an input or a specification.";
meaning(node) -> ~"An Erlang node that was measured.";
meaning(metric) -> ~"A single number.";
meaning(histogram) -> ~"A distribution of values.";
meaning(series) -> ~"A value over time.";
meaning(table) -> ~"Rows that the columns describe, for programs and people.";
meaning(sort) -> ~"The order of the rows of a table.";
meaning(column) -> ~"A column of a table.";
meaning(events) -> ~"Events with their times, at most a fixed number.";
meaning(event) -> ~"One event.";
meaning(profile) -> ~"Call stacks with their costs.";
meaning(profile_value) -> ~"A value that each sample has.";
meaning(profile_sample) -> ~"A call stack and its values.";
meaning(verdict) -> ~"The result of a check.";
meaning(threshold) -> ~"The limit of a verdict and the compared value, in the same unit.";
meaning(note) -> ~"A warning or an error.".

-doc "The fields of an object; empty for other types.".
-spec fields(type()) -> [field()].
fields(document) ->
    [
        {~"format", {one_of, [~"dyno-recording"]}, required, ~"Marks a recording."},
        {~"version", {one_of, [?VERSION]}, required, ~"Of the format."},
        {
            ~"status",
            {one_of, [~"partial", ~"complete", ~"failed", ~"interrupted"]},
            required,
            ~"`partial` during the run, or if dyno died."
        },
        {
            ~"command",
            {open, [~"bench", ~"test", ~"record", ~"servers", ~"compare"]},
            required,
            ~"The command that wrote the recording."
        },
        {~"name", string, required, ~"Of the suite, or of the measured thing."},
        {~"parameters", parameters, {default, #{}}, ~"The options."},
        {~"environment", environment, {default, #{}}, ~"The machine."},
        {~"started_at", string, required, ~"ISO 8601, UTC."},
        {~"duration_ns", {nullable, natural}, {default, null}, ~"From the start to the end."},
        {~"runs", {list, run}, required, ~"In reading order."},
        {~"tables", {list, table}, {default, []}, ~"Over all runs."},
        {~"verdicts", {list, verdict}, {default, []}, ~"Of all runs."},
        {~"warnings", {list, note}, {default, []}, ~"Doubts about the numbers."},
        {~"error", {nullable, note}, {default, null}, ~"Why the status is `failed` or `partial`."},
        {
            ~"recordings",
            any_object,
            optional,
            ~"Of `compare` only: the recordings `old` and `new`, whole."
        }
    ];
fields(parameters) ->
    [
        {~"suite", {nullable, string}, optional, ~"Its file or module."},
        {~"sizes", {nullable, {list, natural}}, optional, ~"Of the runs."},
        {~"size_label", {nullable, string}, optional, ~"The meaning of sizes: Connections."},
        {~"duration_ms", {nullable, number}, optional, ~"The measured part of a run."},
        {~"warmup_ms", {nullable, number}, optional, ~"Before it."},
        {~"interval_ms", {nullable, number}, optional, ~"Between two samples of the series."},
        {~"patterns", {nullable, {list, string}}, optional, ~"The functions to measure."},
        {~"thresholds", {nullable, {list, string}}, optional, ~"As they were written."},
        {~"load", {nullable, any_object}, optional, ~"How the load was given."}
    ];
fields(environment) ->
    [
        {~"dyno_version", {nullable, string}, {default, null}, ~"Of dyno."},
        {~"otp", {nullable, string}, {default, null}, ~"Erlang/OTP, such as 29.1."},
        {~"erts", {nullable, string}, {default, null}, ~"The runtime system."},
        {~"jit", {nullable, boolean}, {default, null}, ~"True if it compiles to machine code."},
        {~"emulator_flags", {nullable, {list, string}}, {default, null}, ~"Of the emulator."},
        {~"schedulers_online", {nullable, natural}, {default, null}, ~"In use."},
        {~"schedulers", {nullable, natural}, {default, null}, ~"Of the emulator."},
        {~"dirty_cpu_schedulers", {nullable, natural}, {default, null}, ~"For long native calls."},
        {~"dirty_io_schedulers", {nullable, natural}, {default, null}, ~"For blocking calls."},
        {~"os", {nullable, string}, {default, null}, ~"The operating system."},
        {~"kernel", {nullable, string}, {default, null}, ~"Its version."},
        {~"cpu_model", {nullable, string}, {default, null}, ~"As the system names it."},
        {~"cores", {nullable, natural}, {default, null}, ~"Logical processors online."},
        {~"memory_bytes", {nullable, natural}, {default, null}, ~"Of the machine."},
        {~"hostname", {nullable, string}, {default, null}, ~"Of the machine."},
        {~"git", {nullable, git}, {default, null}, ~"Null outside of a checkout."},
        {~"time", {nullable, string}, {default, null}, ~"ISO 8601, UTC."}
    ];
fields(git) ->
    [
        {~"revision", string, required, ~"The commit."},
        {~"dirty", boolean, required, ~"True if tracked files were changed."}
    ];
fields(run) ->
    [
        {
            ~"id",
            string,
            required,
            ~"Unique in the recording, made of the labels: `100`, `sort/large`, `100#2`."
        },
        {
            ~"labels",
            labels,
            {default, #{}},
            ~"Distinguishes runs: `size`, `input`, `case`, `variant` and others."
        },
        {~"size", {nullable, natural}, {default, null}, ~"Of the problem, if there is one."},
        {~"repetition", positive, {default, 1}, ~"Of the runs with the same labels."},
        {
            ~"status",
            {one_of, [~"complete", ~"failed", ~"interrupted", ~"partial"]},
            required,
            ~"As the recording's."
        },
        {
            ~"started_at",
            {nullable, string},
            {default, null},
            ~"When the measured part began; ISO 8601, UTC."
        },
        {
            ~"duration_ns",
            {nullable, natural},
            {default, null},
            ~"Of the measured part, without the warm-up."
        },
        {~"nodes", {list, node}, {default, []}, ~"The nodes that were measured."},
        {~"metrics", {list, metric}, {default, []}, ~"Single numbers."},
        {~"histograms", {list, histogram}, {default, []}, ~"Distributions."},
        {~"series", {list, series}, {default, []}, ~"Values over time."},
        {~"tables", {list, table}, {default, []}, ~"Of this run."},
        {~"events", events, {default, #{}}, ~"Of the run."},
        {~"profiles", {list, profile}, {default, []}, ~"Time and memory by stack."},
        {~"warnings", {list, note}, {default, []}, ~"Of this run."},
        {~"error", {nullable, note}, {default, null}, ~"Why the status is `failed` or `partial`."}
    ];
fields(node) ->
    [
        {~"name", string, required, ~"Of the node."},
        {~"role", string, required, <<
            "The same in every run, and of one node in each: the name without its unique "
            "part. Series, tables, events and verdicts name the node by its role."
        >>},
        {~"otp", {nullable, string}, {default, null}, ~"As in the environment."},
        {~"erts", {nullable, string}, {default, null}, ~"As in the environment."},
        {~"schedulers_online", {nullable, natural}, {default, null}, ~"As in the environment."},
        {~"os_pid", {nullable, {either, string, natural}}, {default, null}, ~"Of the emulator."},
        {
            ~"clock_offset_ns",
            {nullable, number},
            optional,
            ~"The lead of its clock over that of dyno's node; the series are corrected."
        },
        {~"clock_error_ns", {nullable, number}, optional, ~"The error of the offset."},
        {~"joined_ms", {nullable, number}, optional, ~"The time of joining, if during the run."},
        {~"left_ms", {nullable, number}, optional, ~"The time of leaving, if during the run."}
    ];
fields(metric) ->
    [
        {~"name", string, required, ~"For programs."},
        {~"value", {nullable, number}, required, ~"Null if unknown."},
        {~"low", {nullable, number}, optional, ~"Its 95 % interval begins here."},
        {~"high", {nullable, number}, optional, ~"And ends here."},
        {~"unit", unit, required, ~"Of these three."},
        {~"count", {nullable, natural}, {default, null}, ~"The number of values behind it."},
        {~"group", {nullable, string}, {default, null}, ~"Groups related values."},
        {~"title", {nullable, string}, {default, null}, ~"For people."}
    ];
fields(histogram) ->
    [
        {~"name", string, required, ~"For programs."},
        {~"unit", unit, required, ~"Of the values."},
        {~"title", {nullable, string}, {default, null}, ~"For people."},
        {~"group", {nullable, string}, {default, null}, ~"Groups related values."},
        {~"labels", labels, {default, #{}}, ~"Distinguishes entries of one name."},
        {~"count", natural, required, ~"Of the values."},
        {~"sum", {nullable, number}, {default, null}, ~"Of the values."},
        {~"min", {nullable, number}, {default, null}, ~"The smallest value."},
        {~"max", {nullable, number}, {default, null}, ~"The largest value."},
        {~"beyond", natural, optional, ~"Further values, known to be larger: what never ended."},
        {~"scheme", {nullable, string}, {default, null}, ~"How the buckets are cut."},
        {~"buckets", {list, bucket}, required, <<
            "Ascending, without empty ones: from `low` on and below `high`. A value's relative "
            "error is at most 1 %."
        >>}
    ];
fields(series) ->
    [
        {~"name", string, required, ~"For programs."},
        {~"unit", unit, required, ~"Of the values."},
        {~"title", {nullable, string}, {default, null}, ~"For people."},
        {~"group", {nullable, string}, {default, null}, ~"Groups related values."},
        {~"node", {nullable, string}, {default, null}, ~"The role of the node."},
        {~"labels", labels, {default, #{}}, ~"Distinguishes entries of one name."},
        {
            ~"times_ms",
            {list, number},
            required,
            ~"Since the start of the measured part of the run; below 0 in the warm-up."
        },
        {~"values", {list, {nullable, number}}, required, ~"One for each time, or null."}
    ];
fields(table) ->
    [
        {~"name", string, required, ~"For programs."},
        {~"title", {nullable, string}, {default, null}, ~"For people."},
        {
            ~"node",
            {nullable, string},
            {default, null},
            ~"The role of the node; null for none, or for all together."
        },
        {~"labels", labels, {default, #{}}, ~"Distinguishes entries of one name."},
        {
            ~"derived",
            boolean,
            {default, false},
            ~"True if computed from other parts of the recording."
        },
        {~"sort", {nullable, sort}, {default, null}, ~"The order of the rows."},
        {~"columns", {list, column}, required, ~"In their order."},
        {~"rows", {list, row}, required, ~"A cell for each column, null if unknown."},
        {~"truncated", natural, {default, 0}, ~"The number of rows left out."}
    ];
fields(sort) ->
    [
        {~"column", string, required, ~"Its name."},
        {~"order", {one_of, [~"ascending", ~"descending"]}, required, ~"Nulls come last."}
    ];
fields(column) ->
    [
        {~"name", string, required, ~"For programs."},
        {~"type", {open, [~"string", ~"integer", ~"number"]}, required, ~"Of the cells."},
        {~"unit", {nullable, unit}, {default, null}, ~"Of the cells."},
        {~"title", {nullable, string}, {default, null}, ~"For people."},
        {~"help", {nullable, string}, {default, null}, ~"One sentence for people."},
        {
            ~"role",
            {nullable, {open, [~"key", ~"value", ~"low", ~"high", ~"note"]}},
            {default, null},
            <<
                "`key` tells the rows apart, `value` was measured, `low` and `high` bound a value, "
                "`note` is the rest. If null, a number is a value and a text a note; the first "
                "column is the key if it is a text and no other column is a key."
            >>
        },
        {
            ~"of",
            {nullable, string},
            {default, null},
            ~"The column whose value `low` and `high` bound."
        },
        {
            ~"better",
            {nullable, {one_of, [~"lower", ~"higher"]}},
            {default, null},
            ~"The better direction, if there is one."
        }
    ];
fields(events) ->
    [
        {~"dropped", natural, {default, 0}, ~"The number of events not kept."},
        {~"items", {list, event}, {default, []}, ~"By time."}
    ];
fields(event) ->
    [
        {~"time_ms", number, required, ~"As the times of a series."},
        {~"node", {nullable, string}, {default, null}, ~"The role of the node."},
        {~"process", {nullable, string}, {default, null}, ~"Which process of the node."},
        {~"kind", string, required, ~"For programs."},
        {~"labels", labels, {default, #{}}, ~"Distinguishes events of one kind."},
        {~"text", string, required, ~"For people."},
        {~"data", json, {default, null}, ~"For programs that know the kind."}
    ];
fields(profile) ->
    [
        {~"name", string, required, ~"For programs."},
        {~"title", {nullable, string}, {default, null}, ~"For people."},
        {~"node", {nullable, string}, {default, null}, ~"The role of the node."},
        {~"labels", labels, {default, #{}}, ~"Distinguishes entries of one name."},
        {
            ~"observations",
            {nullable, natural},
            optional,
            ~"The number of samples, if the shares have an interval."
        },
        {~"seen", {nullable, number}, optional, ~"Their share of the processor time."},
        {
            ~"scheduler",
            {nullable, number},
            optional,
            ~"The share of schedulers that ran no process, in no stack."
        },
        {~"values", {list, profile_value}, required, ~"The values of each sample."},
        {~"frames", {list, string}, required, ~"The functions, each once."},
        {~"samples", {list, profile_sample}, required, ~"Each stack once."}
    ];
fields(profile_value) ->
    [
        {~"name", string, required, ~"For programs."},
        {~"unit", unit, required, ~"Of the value."}
    ];
fields(profile_sample) ->
    [
        {
            ~"stack",
            {list, natural},
            required,
            ~"The numbers of the frames, from 0, the outermost first."
        },
        {~"values", {list, {nullable, number}}, required, ~"In the order of the profile's values."},
        {~"labels", labels, {default, #{}}, ~"Such as the process."}
    ];
fields(verdict) ->
    [
        {
            ~"kind",
            {open, [~"threshold", ~"invariant", ~"change", ~"property", ~"finding"]},
            required,
            ~"The sort of check."
        },
        {~"name", string, required, ~"The check as written, or its name."},
        {
            ~"result",
            {one_of, [~"pass", ~"fail", ~"unknown"]},
            required,
            ~"If `unknown`, `text` says why."
        },
        {~"subject", {nullable, string}, {default, null}, ~"The checked thing."},
        {~"run", {nullable, string}, {default, null}, ~"The id of the run; null for all."},
        {~"node", {nullable, string}, {default, null}, ~"The role of the node."},
        {~"text", string, required, ~"One sentence for people."},
        {~"threshold", {nullable, threshold}, {default, null}, ~"If one number is checked."},
        {~"evidence", {nullable, any_object}, {default, null}, ~"The measurements behind it."}
    ];
fields(threshold) ->
    [
        {~"metric", string, required, ~"The compared number."},
        {
            ~"operator",
            {open, [~"<", ~"<=", ~">", ~">=", ~"=="]},
            required,
            ~"Stands between the value and the limit."
        },
        {~"limit", number, required, ~"In the base unit."},
        {~"unit", unit, required, ~"Of the limit and of the value."},
        {~"value", {nullable, number}, {default, null}, ~"Null if unknown."},
        {
            ~"bound",
            {nullable, {open, [~"at_least", ~"at_most"]}},
            {default, null},
            ~"If only this end of the value is known."
        }
    ];
fields(note) ->
    [
        {~"code", string, required, ~"For programs."},
        {~"text", string, required, ~"For people."},
        {
            ~"severity",
            {open, [~"critical", ~"warning", ~"doubt", ~"note"]},
            optional,
            ~"A doubt if absent; this and the following fields as in `findings`."
        },
        {~"subject", string, optional, ~"The checked thing."},
        {~"value", number, optional, ~"The measured value."},
        {~"limit", number, optional, ~"In the same unit."},
        {~"unit", unit, optional, ~"Of both."},
        {~"evidence", string, optional, ~"The evidence."},
        {~"why", string, optional, ~"The consequence."},
        {~"advice", string, optional, ~"The advice."},
        {~"look_closer", string, optional, ~"The command of dyno that shows more."}
    ];
fields(_) ->
    [].

-spec checks(object_name()) -> [check()].
checks(document) -> [unique_ids];
checks(run) -> [unique_roles];
checks(histogram) -> [ascending_buckets];
checks(series) -> [same_length];
checks(table) -> [rows_fit_columns];
checks(profile) -> [samples_fit];
checks(_) -> [].
