%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite).
-moduledoc """
The behaviour of a performance test: what to load, how, at which sizes, and what to look at.

Only `suite/0` and `operation/1` must be there. A whole suite:

```erlang
-module(cache).
-behaviour(dyno_suite).
-export([suite/0, init_run/2, init_worker/2, operation/1]).

suite() ->
    #{
        name => "cache",
        sizes => [1, 10, 100],
        duration_ms => 5000,
        patterns => [{my_cache, '_', '_'}],
        thresholds => ["latency.p99 < 5 ms", "errors.rate < 0.1 %"]
    }.

init_run(_Size, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "cache", applications => [my_cache]}),
    {ok, [Node], Node}.

init_worker(_Id, Node) ->
    {ok, Node}.

operation(Node) ->
    {ok, _} = erpc:call(Node, my_cache, get, [key]),
    {ok, Node}.
```

The order of the calls: `init_suite`; then for each size `init_run`, `load`, in each worker
`init_worker`, `operation` again and again, `end_worker`, then `end_run`; at last `end_suite`.
`end_run` and `end_suite` are called also when something before them failed.

`suite`, `init_suite`, `init_run`, `load`, `end_run` and `end_suite` run in one process that lives
as long as the test, so what they link to lives as long. What they print goes to standard error.
""".

-export([options/1, callbacks/1, measures/1, discovers/1, load/2]).
-export([format_error/1]).
-export_type([config/0, options/0, load/0, model/0, level/0, reason/0]).

-doc "What `suite/0` returns.".
-type config() :: #{
    %% Names the test in reports and file names.
    name => string() | binary(),
    %% One run each, in this order; positive integers.
    sizes := [pos_integer()],
    %% What a size counts: "connections", "requests/s", "queues".
    size_label => string() | binary(),
    %% The measured part of a run; 5000.
    duration_ms => pos_integer(),
    %% Loaded but not measured, before it; 500.
    warmup_ms => non_neg_integer(),
    %% How often the VM, the system and the processes are looked at; 1000.
    interval_ms => pos_integer(),
    %% Which functions of the targets to measure; see dyno_agent_patterns. [].
    patterns => [dyno_agent_patterns:pattern() | string() | binary()],
    %% What must hold; see dyno_threshold. [].
    thresholds => [string() | binary()],
    %% What to measure inside; time.
    level => level(),
    %% The load where there is no load/2; closed.
    load => model(),
    %% The longest that a callback may take, the load's own aside; 60000.
    timeout_ms => pos_integer()
}.

-doc """
How deep to look into the targets: `off` (VM and system only), `count` (calls), `discovery`
(processes only), `time` (calls, own time, processes), `memory` (calls, words, processes), `all`.
""".
-type level() :: off | count | discovery | time | memory | all.

-type model() :: closed | open.

-doc """
A load. Closed: each worker begins its next operation when the last one has ended. Open: operations
arrive at a constant rate whether or not the earlier ones have ended, and their response time counts
from the intended start, so that a stalled target can't hide (coordinated omission).
""".
-type load() ::
    #{model := closed, workers := pos_integer()}
    | #{
        model := open,
        rate_per_s := number(),
        %% How many operations may be under way at once; what arrives while all are busy waits.
        workers => pos_integer()
    }.

-doc "A config with every key, read and checked.".
-type options() :: #{
    name := binary(),
    sizes := [pos_integer(), ...],
    size_label := binary(),
    duration_ms := pos_integer(),
    warmup_ms := non_neg_integer(),
    interval_ms := pos_integer(),
    patterns := [dyno_agent_patterns:pattern()],
    thresholds := [dyno_threshold:t()],
    level := level(),
    load := model(),
    timeout_ms := pos_integer()
}.

-type reason() ::
    {bad_option, Key :: atom(), Value :: term(), Accepted :: string()}
    | {unknown_option, atom(), [atom()]}
    | {missing_option, atom()}
    | {bad_pattern, dyno_agent_patterns:reason()}
    | {bad_threshold, dyno_threshold:reason()}
    | {bad_load, term()}
    | not_a_map.

-doc "The test's description. Called once, before everything else.".
-callback suite() -> config().

-doc "Sets up what all runs share.".
-callback init_suite() -> {ok, SuiteState :: term()}.

-doc "Sets up one run; names the nodes to look into, or none.".
-callback init_run(Size :: pos_integer(), SuiteState :: term()) ->
    {ok, Targets :: [node()], RunState :: term()}.

-doc "The load of a run, where it is not one of Size workers or operations a second.".
-callback load(Size :: pos_integer(), RunState :: term()) -> load().

-doc "Prepares one worker, in its own process: opens its connection.".
-callback init_worker(Id :: pos_integer(), RunState :: term()) -> {ok, WorkerState :: term()}.

-doc """
One operation, timed from call to return. An exception counts as an error by its reason, and the
worker begins anew with `init_worker/2`.
""".
-callback operation(WorkerState :: term()) ->
    {ok, WorkerState :: term()} | {error, Reason :: term(), WorkerState :: term()}.

-doc "Ends one worker.".
-callback end_worker(WorkerState :: term()) -> term().

-doc "Takes down one run. Called also where its set-up failed, with `undefined` then.".
-callback end_run(RunState :: term() | undefined) -> term().

-doc "Takes down what all runs shared.".
-callback end_suite(SuiteState :: term() | undefined) -> term().

-optional_callbacks([
    init_suite/0,
    init_run/2,
    load/2,
    init_worker/2,
    end_worker/1,
    end_run/1,
    end_suite/1
]).

-define(OPEN_WORKERS, 100).

-doc "The callbacks that a module lacks, and those that it may have.".
-spec callbacks(module()) -> #{missing := [{atom(), arity()}], present := [{atom(), arity()}]}.
callbacks(Module) ->
    Exports = Module:module_info(exports),
    All = ?MODULE:behaviour_info(callbacks),
    Mandatory = All -- ?MODULE:behaviour_info(optional_callbacks),
    #{missing => Mandatory -- Exports, present => [C || C <- All, lists:member(C, Exports)]}.

-doc "Checks a config and fills in what it leaves out.".
-spec options(config()) -> {ok, options()} | {error, reason()}.
options(Config) when is_map(Config) ->
    case maps:keys(Config) -- [Key || {Key, _, _, _} <- fields()] of
        [] -> options(fields(), Config, #{});
        [Unknown | _] -> {error, {unknown_option, Unknown, [K || {K, _, _, _} <- fields()]}}
    end;
options(_Other) ->
    {error, not_a_map}.

options([], _Config, Options) ->
    {ok, Options};
options([{Key, Default, Read, Accepted} | Fields], Config, Options) ->
    case {Config, Default} of
        {#{Key := Value}, _} ->
            case Read(Value) of
                {ok, Good} -> options(Fields, Config, Options#{Key => Good});
                {error, Reason} -> {error, Reason};
                error -> {error, {bad_option, Key, Value, Accepted}}
            end;
        {_, mandatory} ->
            {error, {missing_option, Key}};
        {_, _} ->
            options(Fields, Config, Options#{Key => Default})
    end.

fields() ->
    [
        {name, ~"test", fun text/1, "text"},
        {sizes, mandatory, fun sizes/1, "a list of positive integers"},
        {size_label, ~"size", fun text/1, "text"},
        {duration_ms, 5000, fun positive/1, "a positive integer of milliseconds"},
        {warmup_ms, 500, fun not_negative/1, "an integer of milliseconds, 0 or more"},
        {interval_ms, 1000, fun interval/1, "an integer of milliseconds, 10 or more"},
        {patterns, [], fun patterns/1, "a list of patterns"},
        {thresholds, [], fun thresholds/1, "a list of texts such as \"latency.p99 < 20 ms\""},
        {level, time, fun level/1, "off, count, discovery, time, memory or all"},
        {load, closed, fun model/1, "closed or open"},
        {timeout_ms, 60_000, fun positive/1, "a positive integer of milliseconds"}
    ].

text(Text) when is_binary(Text); is_list(Text) ->
    try unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary), Binary =/= <<>> -> {ok, Binary};
        _ -> error
    catch
        error:badarg -> error
    end;
text(_Other) ->
    error.

%% length/1 as a guard refuses improper lists.
sizes(Sizes) when length(Sizes) > 0 ->
    case lists:all(fun(S) -> is_integer(S) andalso S > 0 end, Sizes) of
        true -> {ok, Sizes};
        false -> error
    end;
sizes(_Other) ->
    error.

positive(N) when is_integer(N), N > 0 -> {ok, N};
positive(_Other) -> error.

not_negative(N) when is_integer(N), N >= 0 -> {ok, N};
not_negative(_Other) -> error.

interval(N) when is_integer(N), N >= 10 -> {ok, N};
interval(_Other) -> error.

level(Level) ->
    member(Level, [off, count, discovery, time, memory, all]).

model(Model) ->
    member(Model, [closed, open]).

member(Value, Values) ->
    case lists:member(Value, Values) of
        true -> {ok, Value};
        false -> error
    end.

patterns(List) when length(List) >= 0 ->
    each(List, fun pattern/1, bad_pattern);
patterns(_Other) ->
    error.

pattern(Text) when is_list(Text); is_binary(Text) ->
    parsed(Text, fun dyno_agent_patterns:parse/1);
pattern(Character) when is_integer(Character) ->
    error;
pattern(Pattern) ->
    case dyno_agent_patterns:validate(Pattern) of
        ok -> {ok, Pattern};
        {error, _} = Error -> Error
    end.

thresholds(List) when length(List) >= 0 ->
    each(List, fun(Text) -> parsed(Text, fun dyno_threshold:parse/1) end, bad_threshold);
thresholds(_Other) ->
    error.

parsed(Chars, Parse) ->
    case text(Chars) of
        {ok, Text} -> Parse(Text);
        error -> error
    end.

%% What is no item at all, such as a character of a text that should have been in a list, is the
%% whole option's mistake.
each(List, Read, Tag) ->
    Results = [Read(Item) || Item <- List],
    case [Result || Result <- Results, Result =:= error orelse element(1, Result) =:= error] of
        [] -> {ok, [Good || {ok, Good} <- Results]};
        [error | _] -> error;
        [{error, Reason} | _] -> {error, {Tag, Reason}}
    end.

-doc "What the call counters measure at a level.".
-spec measures(level()) -> [dyno_agent_counters:measure()].
measures(off) -> [];
measures(discovery) -> [];
measures(count) -> [call_count];
measures(time) -> [call_time];
measures(memory) -> [call_memory];
measures(all) -> [call_time, call_memory].

-doc "Whether processes are discovered at a level.".
-spec discovers(level()) -> boolean().
discovers(Level) -> not lists:member(Level, [off, count]).

-doc "Reads what `load/2` returned, or a model and a size.".
-spec load(term(), pos_integer()) -> {ok, load()} | {error, reason()}.
load(closed, Size) ->
    {ok, #{model => closed, workers => Size}};
load(open, Size) ->
    {ok, #{model => open, rate_per_s => Size, workers => ?OPEN_WORKERS}};
load(#{model := closed, workers := N} = Load, _Size) when
    is_integer(N), N > 0, map_size(Load) =:= 2
->
    {ok, Load};
load(#{model := open, rate_per_s := Rate} = Load, _Size) when is_number(Rate), Rate > 0 ->
    case Load of
        #{workers := N} when is_integer(N), N > 0, map_size(Load) =:= 3 -> {ok, Load};
        #{} when map_size(Load) =:= 2 -> {ok, Load#{workers => ?OPEN_WORKERS}};
        #{} -> {error, {bad_load, Load}}
    end;
load(Other, _Size) ->
    {error, {bad_load, Other}}.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({bad_option, Key, Value, Accepted}) ->
    io_lib:format("~ts is ~0tP; ~ts is accepted", [Key, Value, 12, Accepted]);
format_error({unknown_option, Key, Known}) ->
    Names = lists:join(", ", [atom_to_list(K) || K <- Known]),
    io_lib:format("~0tp is not a key of suite/0; accepted are ~ts", [Key, Names]);
format_error({missing_option, Key}) ->
    io_lib:format("suite/0 must give ~ts", [Key]);
format_error({bad_pattern, Reason}) ->
    dyno_agent_patterns:format_error(Reason);
format_error({bad_threshold, Reason}) ->
    dyno_threshold:format_error(Reason);
format_error({bad_load, Load}) ->
    io_lib:format(
        "~0tP is not a load; accepted are #{model => closed, workers => N} and "
        "#{model => open, rate_per_s => R, workers => N}",
        [Load, 12]
    );
format_error(not_a_map) ->
    "suite/0 must return a map".
