%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test).
-moduledoc """
Runs a performance test: loads a system at growing sizes, measures it from outside and inside, and
gives one recording with its verdicts.

```erlang
{ok, Recording} = dyno_test:run("cache.erl", #{sizes => [1, 10, 100]}).
```

A suite is a module with the behaviour `dyno_suite`. While a test runs its recording is saved, so
that a test that is killed leaves a readable one.
""".

-export([run/2, interrupt/1, format_error/1, exit_status/1]).
-export_type([options/0, progress/0, reason/0]).

-doc "What a caller may set; what is left out is the suite's.".
-type options() :: #{
    sizes => [pos_integer()],
    duration_ms => pos_integer(),
    warmup_ms => non_neg_integer(),
    interval_ms => pos_integer(),
    patterns => [string() | binary()],
    thresholds => [string() | binary()],
    level => dyno_suite:level(),
    timeout_ms => pos_integer(),
    %% These two come to the suite's own.
    invariants => [dyno_invariant:given()],
    agents => [dyno_suite_source:source()],
    distribution => [string() | binary()],
    without => [dyno_suite:instrument()],
    repeat => pos_integer(),
    seed => non_neg_integer(),
    control => boolean() | auto,
    %% What the load is instead of the suite's, and where it is generated.
    load => dyno_load_spec:override(),
    load_nodes => [dyno_load_nodes:spec()],
    %% More folders of beam files.
    code_paths => [file:filename()],
    %% The cookie to show targets, and this node's name where it has none.
    cookie => atom(),
    name => atom(),
    %% Where the recording is saved as it grows.
    recording => file:filename(),
    progress => fun((progress()) -> ok)
}.

-type progress() :: dyno_test_progress:progress().

-type reason() ::
    {source, dyno_suite_source:reason()}
    | {suite, module(), dyno_suite:reason()}
    | {option, dyno_suite:reason()}
    | {callback, dyno_test_callbacks:reason()}
    | {target, dyno_targets:reason()}
    | {agents, dyno_target_custom:reason()}
    | {recording, dyno_recording_file:reason()}
    | {connection, dyno_target_node:reason()}
    | {crashed, term()}
    | interrupted.

%% How long suite/0 may take, which is to say how long others may.
-define(SUITE_MS, 60_000).

-doc """
Runs a suite, given as a file or a module. Returns when everything is taken down again.

The status in the recording says how it went: `complete` (also where a threshold does not hold:
see its verdicts), `failed`, or `interrupted`.

## Errors
Nothing was measured, because the suite, an option, or the place of the recording is wrong:
`format_error/1` says what, `exit_status/1` whose fault it is.
""".
-spec run(dyno_suite_source:source(), options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
run(Source, Options) ->
    Caller = self(),
    Tag = make_ref(),
    {Pid, Ref} = spawn_monitor(fun() ->
        process_flag(trap_exit, true),
        proc_lib:set_label(?MODULE),
        watch_caller(Caller),
        Caller ! {Tag, main(Source, Options)}
    end),
    wait(Tag, Pid, Ref).

wait(Tag, Pid, Ref) ->
    receive
        dyno_interrupt ->
            Pid ! dyno_interrupt,
            wait(Tag, Pid, Ref);
        {Tag, Result} ->
            ended(Pid, Ref, Result);
        {'DOWN', Ref, process, Pid, Reason} ->
            {error, {crashed, Reason}}
    end.

%% Whoever runs the next test finds this one gone.
ended(Pid, Ref, Result) ->
    receive
        {'DOWN', Ref, process, Pid, _} -> Result
    end.

%% Nobody waits for the result any more: end in good order.
watch_caller(Caller) ->
    Self = self(),
    _ = spawn(fun() ->
        CallerRef = monitor(process, Caller),
        SelfRef = monitor(process, Self),
        receive
            {'DOWN', CallerRef, process, Caller, _} -> Self ! dyno_interrupt;
            {'DOWN', SelfRef, process, Self, _} -> ok
        end
    end),
    ok.

-doc "Ends the test that a process runs: it takes down, and returns what was measured until now.".
-spec interrupt(pid()) -> ok.
interrupt(Pid) ->
    Pid ! dyno_interrupt,
    ok.

main(Source, Options) ->
    dyno_code:with_paths(maps:get(code_paths, Options, []), fun() ->
        case dyno_suite_source:load(Source) of
            {ok, #{module := Module, form := Form} = Loaded} ->
                try
                    with_suite(Source, Module, Form, Options)
                after
                    dyno_suite_source:forget(Loaded)
                end;
            {error, Reason} ->
                {error, {source, Reason}}
        end
    end).

with_suite(Source, Module, Form, Options) ->
    Callbacks0 = dyno_test_callbacks:new(Module, Form, maps:get(timeout_ms, Options, ?SUITE_MS)),
    case dyno_test_callbacks:suite(Callbacks0) of
        {{ok, Config}, Callbacks} ->
            Result =
                maybe
                    {ok, Checked} ?= suite_options(Module, Config, Options),
                    SuiteOptions = beside(Source, Checked),
                    {ok, Agents} ?= agents(SuiteOptions, Source),
                    ok ?= connection(Form, Options),
                    Document = dyno_recording:add_warnings(
                        new_document(Source, SuiteOptions, Options), misspelt(Module, Form)
                    ),
                    ok ?= first_save(Document, Options),
                    Timed = dyno_test_callbacks:timeout_ms(
                        Callbacks, map_get(timeout_ms, SuiteOptions)
                    ),
                    {run, Timed, SuiteOptions, Agents, Document}
                end,
            case Result of
                {run, Ready, Read, Guests, Started} ->
                    try
                        test(Ready, Module, Read, Started, Options#{agents => Guests})
                    after
                        dyno_target_custom:forget(Guests)
                    end;
                {error, _} = Error ->
                    dyno_test_callbacks:stop(Callbacks),
                    Error
            end;
        {{error, Reason}, Callbacks} ->
            dyno_test_callbacks:stop(Callbacks),
            {error, {callback, Reason}}
    end.

%% Nothing calls them, and nothing else would tell.
misspelt(_Module, performerl) ->
    [];
misspelt(Module, dyno) ->
    [
        {misspelt_callback,
            io_lib:format("~ts:~ts/~b is not called: the callback is ~ts/~b", [Module, F, A, G, B])}
     || {{F, A}, {G, B}} <- dyno_suite:misspelt(Module)
    ].

agents(#{agents := Sources}, Suite) ->
    case dyno_target_custom:load(Sources, Suite) of
        {ok, Agents} -> {ok, Agents};
        {error, Reason} -> {error, {agents, Reason}}
    end.

%% Each for itself first, so that the message names the right place.
suite_options(Module, Config, Options) ->
    Keys = [
        sizes, duration_ms, warmup_ms, interval_ms, patterns, thresholds, level, distribution,
        without, repeat,
        seed, control, timeout_ms, load_nodes
    ],
    Given = maps:merge(maps:with(Keys, Options), #{
        Key => listed(Key, Config) ++ More
     || Key := More <- maps:with([invariants, agents], Options)
    }),
    case dyno_suite:options(Config) of
        {ok, _} ->
            case dyno_suite:options(maps:merge(Config, Given)) of
                {ok, Read} -> {ok, seeded(named(Module, Config, Read))};
                {error, Reason} -> {error, {option, Reason}}
            end;
        {error, {missing_option, sizes}} when is_map_key(sizes, Given) ->
            case dyno_suite:options(maps:merge(Config, Given)) of
                {ok, Read} -> {ok, seeded(named(Module, Config, Read))};
                {error, Reason} -> {error, {suite, Module, Reason}}
            end;
        {error, Reason} ->
            {error, {suite, Module, Reason}}
    end.

listed(Key, Config) ->
    case Config of
        #{Key := List} when is_list(List) -> List;
        #{} -> []
    end.

named(_Module, #{name := _}, Options) -> Options;
named(Module, _Config, Options) -> Options#{name := atom_to_binary(Module)}.

%% What is drawn is drawn once.
seeded(Options) ->
    Options#{seed := dyno_test_plan:seed(Options)}.

connection(Form, Options) ->
    Given = maps:with([name, cookie], Options),
    Connected =
        case Form of
            dyno -> dyno_target_node:ensure_distribution(Given);
            performerl -> dyno_performerl:connection(Given)
        end,
    case Connected of
        ok -> ok;
        {error, Reason} -> {error, {connection, Reason}}
    end.

new_document(Source, SuiteOptions, _Options) ->
    #{patterns := Patterns, thresholds := Thresholds} = SuiteOptions,
    Shown = maps:with([sizes, size_label, duration_ms, warmup_ms, interval_ms], SuiteOptions),
    Parameters = Shown#{
        suite => source_text(Source),
        patterns => [dyno_agent_patterns:print(P) || P <- Patterns],
        thresholds => [dyno_threshold:format(T) || T <- Thresholds],
        load => dyno_load_spec:describe(map_get(load, SuiteOptions)),
        level => map_get(level, SuiteOptions),
        distribution => [
            dyno_agent_patterns:print(P)
         || P <- map_get(distribution, SuiteOptions)
        ],
        without => map_get(without, SuiteOptions),
        repeat => map_get(repeat, SuiteOptions),
        seed => map_get(seed, SuiteOptions),
        control => map_get(control, SuiteOptions),
        invariants => [
            dyno_invariant:print(Invariant) || Invariant <- map_get(invariants, SuiteOptions)
        ],
        order => [dyno_test_plan:id(Run) || Run <- dyno_test_plan:runs(SuiteOptions)]
    },
    dyno_recording:new(test, map_get(name, SuiteOptions), Parameters, dyno_environment:collect()).

%% A suite names files as they lie beside it.
beside(Source, SuiteOptions) when is_atom(Source) ->
    SuiteOptions;
beside(Source, #{feeds := Feeds} = SuiteOptions) ->
    SuiteOptions#{feeds := dyno_feed:beside(Feeds, filename:dirname(Source))}.

source_text(Source) when is_atom(Source) -> atom_to_binary(Source);
source_text(Source) -> unicode:characters_to_binary(Source).

first_save(Document, #{recording := Path}) ->
    maybe
        ok ?= writable(Path),
        save(Document, Path)
    end;
first_save(_Document, _Options) ->
    ok.

writable(Path) ->
    case dyno_recording_file:writable(Path) of
        ok -> ok;
        {error, Reason} -> {error, {recording, Reason}}
    end.

save(Document, Path) ->
    case dyno_recording_file:write(Path, Document) of
        ok -> ok;
        {error, Reason} -> {error, {recording, Reason}}
    end.

%% To remove the agent from a node costs time there. A node that is used again keeps it until the
%% test's end, at rest; one that ends with its run takes it along.
test(Callbacks, Module, SuiteOptions, Document, Options) ->
    Stays = dyno_agent:stays(),
    try
        test(Callbacks, Module, SuiteOptions, Document, Options, Stays)
    after
        dyno_agent:leave(Stays)
    end.

test(Callbacks0, Module, SuiteOptions, Document0, Options, Stays) ->
    Start = erlang:monotonic_time(),
    Progress = dyno_test_progress:new(SuiteOptions, Options),
    Progress({phase, init_suite}, 0, undefined),
    {Outcome, Document1, Callbacks1, SuiteState} =
        case dyno_test_callbacks:init_suite(Callbacks0) of
            {{ok, State}, Next} ->
                Context = #{
                    options => SuiteOptions,
                    module => Module,
                    override => maps:get(load, Options, #{}),
                    agents => map_get(agents, Options),
                    connection => (maps:with([cookie, name], Options))#{stays => Stays}
                },
                {Result, Doc, Last} = runs(
                    dyno_test_plan:runs(SuiteOptions), {Next, State}, Context, Document0, Options,
                    Progress
                ),
                {Result, Doc, Last, State};
            {{error, Reason}, Next} ->
                {suite_failed(Reason), Document0, Next, undefined}
        end,
    Progress({phase, end_suite}, length(dyno_recording:runs(Document1)), undefined),
    {Ended, Callbacks2} = dyno_test_callbacks:end_suite(Callbacks1, SuiteState),
    dyno_test_callbacks:stop(Callbacks2),
    DurationNs = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond),
    finish(with_end(Outcome, Ended), dyno_recording:put(Document1, duration_ns, DurationNs),
        SuiteOptions, Options).

suite_failed(interrupted) -> interrupted;
suite_failed({bad_return, _, _, _} = Reason) -> {misuse, Reason};
suite_failed(Reason) ->
    {failed, ~"callback", unicode:characters_to_binary(dyno_test_callbacks:format_error(Reason))}.

with_end(complete, {error, Reason}) -> suite_failed(Reason);
with_end(Outcome, _Ended) -> Outcome.

runs([], {Callbacks, _State}, _Context, Document, _Options, _Progress) ->
    {complete, Document, Callbacks};
runs([Which | Rest], {Callbacks, State}, Context0, Document, Options, Progress) ->
    Done = length(dyno_recording:runs(Document)),
    Context = Context0#{watch => watcher(Which, Done, Document, Options, Progress)},
    case dyno_test_run:run(Which, {Callbacks, State}, Context) of
        {complete, Run, Next} ->
            Added = with_run(Document, Run),
            _ = save_as_it_grows(Added, Options),
            runs(Rest, {Next, State}, Context0, Added, Options, Progress);
        {Outcome, undefined, Next} ->
            {Outcome, Document, Next};
        {Outcome, Run, Next} ->
            {Outcome, with_run(Document, Run), Next}
    end.

with_run(Document, {Run, Verdicts}) ->
    dyno_recording:add_verdicts(dyno_recording:add_run(Document, Run), Verdicts).

watcher(Which, Done, Document, Options, Progress) ->
    Id = dyno_test_plan:id(Which),
    fun
        ({partial, Run}) ->
            _ = save_as_it_grows(with_run(Document, Run), Options),
            ok;
        (Event) ->
            Progress(Event, Done, Id)
    end.

%% A disk that is full now may have room at the end; the end says so if not.
save_as_it_grows(Document, #{recording := Path}) -> save(Document, Path);
save_as_it_grows(_Document, _Options) -> ok.

finish({misuse, Reason}, Document, _SuiteOptions, Options) ->
    Text = misuse_text(Reason),
    _ = save_as_it_grows(failed_document(~"suite", Text, Document), Options),
    case Reason of
        {unmatched, _, _} -> {error, {target, Reason}};
        _ -> {error, {callback, Reason}}
    end;
finish(Outcome, Document0, SuiteOptions, Options) ->
    Document1 =
        case Outcome of
            complete -> dyno_recording:put(Document0, status, complete);
            interrupted -> dyno_recording:put(Document0, status, interrupted);
            {failed, Code, Text} -> failed_document(Code, Text, Document0)
        end,
    Sorted = in_order(Document1, SuiteOptions),
    Document2 = dyno_recording:add_tables(
        Sorted,
        dyno_test_saturation:tables(Sorted) ++ dyno_test_repetitions:tables(Sorted) ++
            dyno_test_growth:tables(Sorted)
    ),
    Verdicts = lists:append([
        dyno_threshold:evaluate(T, Document2)
     || T <- map_get(thresholds, SuiteOptions)
    ]),
    Final = dyno_recording:add_verdicts(Document2, Verdicts),
    case save_as_it_grows(Final, Options) of
        ok ->
            {ok, Final};
        {error, {recording, Reason}} ->
            %% What was measured is still shown; it is only not kept.
            {ok, failed_document(~"recording", dyno_recording_file:format_error(Reason), Final)}
    end.

%% Read by size; the parameters keep the order in which they ran.
in_order(Document, #{repeat := 1}) -> Document;
in_order(Document, _) ->
    Runs = dyno_test_plan:sorted(dyno_recording:runs(Document)),
    dyno_recording:put(Document, runs, Runs).

failed_document(Code, Text, Document) ->
    Failed = dyno_recording:put(Document, status, failed),
    dyno_recording:put(Failed, error, #{code => Code, text => unicode:characters_to_binary(Text)}).

misuse_text({unmatched, _, _} = Reason) -> dyno_targets:format_error(Reason);
misuse_text(Reason) -> dyno_test_callbacks:format_error(Reason).

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({source, Reason}) ->
    dyno_suite_source:format_error(Reason);
format_error({suite, Module, Reason}) ->
    io_lib:format("suite ~ts: ~ts", [Module, dyno_suite:format_error(Reason)]);
format_error({option, Reason}) ->
    dyno_suite:format_error(Reason);
format_error({callback, Reason}) ->
    dyno_test_callbacks:format_error(Reason);
format_error({target, Reason}) ->
    dyno_targets:format_error(Reason);
format_error({agents, Reason}) ->
    dyno_target_custom:format_error(Reason);
format_error({recording, Reason}) ->
    dyno_recording_file:format_error(Reason);
format_error({connection, Reason}) ->
    dyno_target_node:format_error(Reason);
format_error({crashed, Reason}) ->
    io_lib:format("dyno itself failed: ~0tP", [Reason, 20]);
format_error(interrupted) ->
    "interrupted before anything was measured".

-doc "Whose fault an error is: 2 the caller's, 3 dyno's or the target's, 130 interrupted.".
-spec exit_status({error, reason()}) -> 2 | 3 | 130.
exit_status({error, interrupted}) -> 130;
exit_status({error, {callback, interrupted}}) -> 130;
exit_status({error, {Kind, _}}) when Kind =:= crashed; Kind =:= connection -> 3;
exit_status({error, {recording, _}}) -> 3;
%% Elixir is missing; the file may be good.
exit_status({error, {source, {elixir, _, no_elixir}}}) -> 3;
exit_status({error, {source, {elixir, _, {old_elixir, _}}}}) -> 3;
exit_status({error, _}) -> 2.
