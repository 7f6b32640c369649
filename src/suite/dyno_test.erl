%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test).
-moduledoc """
Runs a performance test: loads a system at growing sizes, measures its responses and activity, and
returns a recording with verdicts.

```erlang
{ok, Recording} = dyno_test:run("cache.erl", #{sizes => [1, 10, 100]}).
```

A suite is a module with the behaviour `dyno_suite`. The recording is saved during the test, so a
killed test leaves a readable one.
""".

-export([run/2, keys/0, interrupt/1, format_error/1, fault/1]).
-export_type([options/0, progress/0, reason/0]).

-doc """
The caller's options. These override a suite's own (`t:dyno_suite:config/0`): `sizes`,
`duration_ms`, `warmup_ms`, `interval_ms`, `patterns`, `thresholds`, `level`, `budget`, `profile`,
`distribution`, `servers`, `without`, `repeat`, `seed`, `control`, `timeout_ms` and `load_nodes`.
These are added to the suite's: `invariants`, `agents` and `instruments`. Further options:
""".
-type options() :: #{
    %% Overrides of the suite's load.
    load => dyno_load_spec:override(),
    %% More folders of beam files.
    code_paths => [file:filename()],
    %% The targets' cookie, and this node's name if unnamed.
    cookie => atom(),
    name => atom(),
    %% The growing recording's file.
    recording => file:filename(),
    progress => fun((progress()) -> ok),
    %% Called with each sample of a target's virtual machine and system.
    watch => fun((node(), #{binary() => number()}) -> ok),
    atom() => term()
}.

-type progress() :: dyno_test_progress:progress().

-type reason() ::
    {crashed, term()}
    | {suite, dyno_error:error()}.

%% The limit of suite/0, which sets the limits of other callbacks.
-define(SUITE_MS, 60_000).
%% Options of a suite that a caller cannot replace, and those that a caller adds to.
-define(OF_SUITES, [name, size_label, load, operations, feeds, metrics, invariant_interval_ms]).
-define(MORE, [invariants, agents, instruments]).
-define(OWN, [load, code_paths, cookie, name, recording, progress, watch]).
%% Modules called by every test before its first operation. Others are loaded on demand.
-define(NEEDED_SOON, [
    dyno_test_plan,
    dyno_test_recording,
    dyno_load_spec,
    dyno_recording_run,
    json,
    dyno_environment,
    dyno_recording_check,
    dyno_recording,
    dyno_recording_file,
    dyno_recording_lines,
    dyno_recording_json,
    dyno_agent,
    dyno_test_runner,
    dyno_targets,
    dyno_test_result,
    dyno_test_run,
    dyno_load,
    dyno_load_core,
    dyno_load_recorder,
    dyno_histogram,
    dyno_load_pool,
    dyno_load_worker
]).

-doc """
Runs a suite, a file or a module. Returns after all tear-downs.

The recording's status: `complete` (even if a threshold fails: see the verdicts), `failed`, or
`interrupted`.

## Errors
Nothing was measured, because the suite, an option, or the recording's file is wrong: `dyno_error`
has the reason and the responsible side.
""".
-spec run(dyno_suite_source:source(), options()) -> dyno_error:result(dyno_recording:document()).
run(Source, Options) ->
    Measure = fun() ->
        process_flag(trap_exit, true),
        proc_lib:set_label(?MODULE),
        main(Source, Options)
    end,
    %% If the caller has ended, the test ends in good order.
    case dyno_interruptible:call(interrupt, Measure) of
        {ok, Result} -> Result;
        {crashed, _} = Crashed -> {error, {?MODULE, Crashed}}
    end.

-doc "The names of all options.".
-spec keys() -> [atom()].
keys() -> instead() ++ ?MORE ++ ?OWN.

%% These replace the suite's.
instead() -> dyno_suite:keys() -- (?OF_SUITES ++ ?MORE).

-doc "Ends the test of a process, which tears down and returns the results so far.".
-spec interrupt(pid()) -> ok.
interrupt(Pid) ->
    Pid ! dyno_interrupt,
    ok.

main(Source, Options) ->
    maybe
        ok ?= dyno_option:known(keys(), Options),
        loaded(Source, Options)
    end.

loaded(Source, Options) ->
    %% While the suite compiles, a second processor is idle.
    _ = spawn(code, ensure_modules_loaded, [?NEEDED_SOON]),
    dyno_code:with_paths(maps:get(code_paths, Options, []), fun() ->
        case dyno_suite_source:load(Source) of
            {ok, Loaded} ->
                try
                    with_suite(Source, Loaded, Options)
                after
                    dyno_suite_source:forget(Loaded)
                end;
            {error, Reason} ->
                {error, {dyno_suite_source, Reason}}
        end
    end).

with_suite(Source, #{module := Module, form := Form}, Options) ->
    Callbacks = dyno_test_callbacks:new(
        Module, Form, given(Source), maps:get(timeout_ms, Options, ?SUITE_MS)
    ),
    try
        maybe
            {ok, Config} ?= suite(Form, Callbacks),
            {ok, #{timeout_ms := TimeoutMs} = SuiteOptions} ?=
                suite_options(Source, Module, Config, Options),
            with_custom(#{
                source => Source,
                module => Module,
                form => Form,
                callbacks => dyno_test_callbacks:with_timeout_ms(Callbacks, TimeoutMs),
                suite => SuiteOptions,
                options => Options
            })
        end
    after
        dyno_test_callbacks:stop(Callbacks)
    end.

given({_Form, Given}) -> Given;
given(_Source) -> undefined.

suite(Form, Callbacks) ->
    maybe
        {error, Error} ?= Form:suite(Callbacks),
        {error, {?MODULE, {suite, Error}}}
    end.

%% The suite's own first, so that errors name the right place.
suite_options(Source, Module, Config, Options) ->
    WithSizes = maps:merge(maps:with([sizes], Options), Config),
    maybe
        {suite, {ok, _}} ?= {suite, dyno_suite:options(WithSizes)},
        Lists =
            #{
                Key => maps:get(Key, Config, []) ++ More
             || Key := More <- maps:with(?MORE, Options)
            },
        Overrides = maps:merge(maps:with(instead(), Options), Lists),
        Kept = maps:without(one_level(Overrides), Config),
        Named = maps:merge(#{name => dyno_agent_name:module(Module)}, maps:merge(Kept, Overrides)),
        {options, {ok, Read}} ?= {options, dyno_suite:options(Named)},
        %% One seed for all random choices.
        {ok, beside(Source, Read#{seed := dyno_test_plan:seed(Read)})}
    else
        {options, {error, Reason}} ->
            {error, {dyno_suite, Reason}};
        {suite, {error, Reason}} ->
            {error, {dyno_test_callbacks, {suite, Module, {dyno_suite, Reason}}}}
    end.

%% A level overrides the suite's budget, and a budget its level.
one_level(#{level := Level}) when Level =/= budget -> [budget];
one_level(#{budget := _}) -> [level];
one_level(#{}) -> [].

%% A suite names files relative to itself.
beside(Source, SuiteOptions) when is_atom(Source); is_tuple(Source) ->
    SuiteOptions;
beside(Source, #{feeds := Feeds} = SuiteOptions) ->
    SuiteOptions#{feeds := dyno_feed:beside(Feeds, filename:dirname(Source))}.

with_custom(#{source := Source, form := Form, suite := SuiteOptions, options := Options} = Test) ->
    maybe
        {ok, Custom} ?= dyno_test_custom:load(SuiteOptions, Source),
        try
            maybe
                #{load_nodes := LoadNodes} = SuiteOptions,
                Others = dyno_load_nodes:named(LoadNodes),
                ok ?= Form:connection((maps:with([name, cookie], Options))#{others => Others}),
                ok ?= check_thresholds(Test, Custom),
                Document = dyno_test_recording:new(Test),
                ok ?= dyno_test_recording:save(Document, Options),
                attached(Test#{custom => Custom}, Document)
            end
        after
            dyno_test_custom:forget(Custom)
        end
    end.

check_thresholds(#{suite := #{thresholds := []}}, _Custom) ->
    ok;
check_thresholds(#{module := Module, suite := SuiteOptions, options := Options}, Custom) ->
    #{thresholds := Thresholds} = SuiteOptions,
    Known = dyno_test_known:known(SuiteOptions, Custom),
    case {dyno_threshold:check_all(Thresholds, Known), Options} of
        {{error, Error}, #{thresholds := _}} -> {error, Error};
        {{error, Error}, #{}} -> {error, {dyno_test_callbacks, {suite, Module, Error}}};
        {ok, _} -> ok
    end.

%% Removing the agent costs the node time. A reused node keeps the agent, idle, until the last run;
%% a node that ends with its run ends the agent too.
attached(Test, Document) ->
    Idle = dyno_agent:new_idle(),
    try
        measured(Test#{idle => Idle}, Document)
    after
        _ = dyno_agent:release(Idle)
    end.

measured(#{form := Form, callbacks := Callbacks, suite := SuiteOptions} = Test, Document) ->
    Start = erlang:monotonic_time(),
    Progress = dyno_test_progress:new(SuiteOptions, map_get(options, Test)),
    Progress({phase, init_suite}, 0, undefined),
    {Outcome, Measured, SuiteState} =
        case Form:init_suite(Callbacks) of
            {ok, State} ->
                Plan = dyno_test_plan:runs(SuiteOptions),
                {Result, Last} = runs(Plan, State, Document, Test#{progress => Progress}),
                {Result, Last, State};
            {error, Error} ->
                {dyno_test_run:failure(~"callback", Error), Document, undefined}
        end,
    Progress({phase, end_suite}, length(dyno_recording:runs(Measured)), undefined),
    Ended = Form:end_suite(Callbacks, SuiteState),
    DurationNs = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond),
    Timed = dyno_recording:put(Measured, duration_ns, DurationNs),
    dyno_test_recording:finish(with_end(Outcome, Ended), Timed, Test).

%% The first failure counts.
with_end(complete, {error, Error}) -> dyno_test_run:failure(~"callback", Error);
with_end(Outcome, _Ended) -> Outcome.

runs([], _SuiteState, Document, _Test) ->
    {complete, Document};
runs([Which | Rest], SuiteState, Document, #{options := Options} = Test) ->
    {Outcome, Recorded} =
        dyno_test_runner:run(Which, SuiteState, context(Which, Rest =/= [], Document, Test)),
    Added = dyno_test_recording:with_run(Recorded, Document),
    case Outcome of
        complete ->
            ok = dyno_test_recording:save_so_far(Added, Options),
            runs(Rest, SuiteState, Added, Test);
        _ ->
            {Outcome, Added}
    end.

context(Which, KeepAgents, Document, Test) ->
    #{suite := SuiteOptions, options := Options, idle := Idle, progress := Progress} = Test,
    Done = length(dyno_recording:runs(Document)),
    Id = dyno_test_plan:id(Which),
    (maps:with([form, callbacks, module, custom], Test))#{
        options => SuiteOptions,
        override => maps:get(load, Options, #{}),
        connection => (maps:with([cookie, name], Options))#{idle => Idle, keep => KeepAgents},
        tell => fun
            ({partial, Recorded}) ->
                dyno_test_recording:save_so_far(
                    dyno_test_recording:with_run(Recorded, Document), Options
                );
            ({sample, Node, Values}) ->
                (maps:get(watch, Options, fun(_, _) -> ok end))(Node, Values);
            (Event) ->
                Progress(Event, Done, Id)
        end
    }.

-spec format_error(reason()) -> unicode:chardata().
format_error({suite, Error}) ->
    dyno_error:format(Error);
format_error({crashed, Reason}) ->
    io_lib:format("dyno itself failed: ~0tP", [Reason, 20]).

-spec fault(reason()) -> dyno_error:fault().
fault({suite, Error}) ->
    %% suite/0 only describes the test: if it fails, the suite is wrong.
    case dyno_error:fault(Error) of
        interrupted -> interrupted;
        _ -> caller
    end;
fault({crashed, _}) ->
    dyno.
