%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite).
-moduledoc """
The behaviour of a performance test: the load, its sizes, and the measurements.

Only `suite/0` and `operation/1` are required. A whole suite:

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
    dyno_client:start(Node).

operation(Client) ->
    {ok, _} = dyno_client:call(Client, my_cache, get, [key]),
    {ok, Client}.
```

The order of calls: `init_suite`; for each size `init_run`, `load`, in each worker `init_worker`,
repeated `operation`, `end_worker`, then `end_run`; finally `end_suite`. `end_run` and `end_suite`
are called after failures too.

`suite`, `init_suite`, `init_run`, `load`, `end_run` and `end_suite` run in one process that lives
as long as the test, and so do processes linked to it. Their output goes to standard error.

In Elixir, `use :dyno_suite` takes the options that `suite/0` returns:

```elixir
defmodule Cache do
  use :dyno_suite, sizes: [1, 10], patterns: ["MyApp.Cache"], thresholds: ["latency.p99 < 5 ms"]

  def init_run(_size, _suite_state) do
    {:ok, node} = :dyno_peer.start(%{applications: [:my_app]})
    {:ok, [node], node}
  end

  def init_worker(_id, node), do: :dyno_client.start(node)

  def operation(client) do
    :dyno_client.call(client, MyApp.Cache, :get, [:key])
    {:ok, client}
  end
end
```
""".

-export([options/1, keys/0, profiles/0, missing/1, misspelt/1, targets/1, format_error/1]).
%% For Elixir
-export(['__info__'/1, 'MACRO-__using__'/2]).
-export_type([config/0, options/0, load/0, model/0, target/0, reason/0]).

%% 200 hours: timers end at 49 days.
-define(MOST_MS, 720_000_000).

-type config() :: #{
    name => string() | binary(),
    %% One run each, in this order; positive integers.
    sizes := [pos_integer()],
    %% The unit of a size: "connections", "requests/s", "queues".
    size_label => string() | binary(),
    %% The measured part of a run; 5000.
    duration_ms => pos_integer(),
    %% The loaded but unmeasured time before; 500.
    warmup_ms => non_neg_integer(),
    %% The sampling interval of the VM, the system and processes; 1000.
    interval_ms => pos_integer(),
    %% The functions of the targets to measure; see dyno_agent_patterns. [].
    patterns => [dyno_agent_patterns:pattern() | string() | binary()],
    %% Required conditions; see dyno_threshold. [].
    thresholds => [string() | binary()],
    %% The level of measurements in the targets; by default budget.
    level => dyno_agent_instrument:level(),
    %% For the level budget: the share of a target's processor time for measuring; 0.05.
    budget => float(),
    %% An additional profile: sample, of stacks, also of waiting processes; cpu, by samples of the
    %% processor; or schedulers; none.
    profile => sample | cpu | schedulers,
    %% Functions with single calls timed, for the distribution of their times; [].
    distribution => [dyno_agent_patterns:pattern() | string() | binary()],
    %% Instruments switched off at any level, by name: functions, processes, stacks, servers, vm,
    %% os, ets, ports, durations, or one of the suite's own; [].
    without => [atom()],
    %% The number of runs of each size; 1. From 2 on the order is random.
    repeat => pos_integer(),
    %% The seed of all random choices, of the order and the load; the default is drawn and recorded.
    seed => non_neg_integer(),
    %% Whether short untraced runs precede and follow each run, to tell the cost of measuring; auto:
    %% if functions or processes are measured.
    control => boolean() | auto,
    %% The load without load/2; closed. With none there is no operation either.
    load => model() | load(),
    %% Kinds of operations with relative weights; operation/2.
    operations => dyno_load_spec:operations(),
    %% The data of operations; see dyno_feed. #{}.
    feeds => #{atom() => dyno_feed:spec()},
    %% The nodes that generate the load: a number to start here, or a list; default this node.
    load_nodes => pos_integer() | [dyno_load_nodes:spec()],
    %% The limit of a callback other than the load's own; 60000.
    timeout_ms => pos_integer(),
    %% Conditions checked continuously in the targets; see dyno_invariant. [].
    invariants => [dyno_invariant:source()],
    %% The interval of invariant checks; 100.
    invariant_interval_ms => pos_integer(),
    %% Functions in the targets that return a number, as {Name, Unit, {M, F, A}}. [].
    metrics => [
        {atom() | string() | binary(), atom() | string() | binary(), {module(), atom(), [term()]}}
        | #{atom() => term()}
    ],
    %% Modules, or their files, that run in the targets; see dyno_suite_agent. [].
    agents => [module() | string() | binary()],
    %% Server processes with measured callbacks, such as "orders", "app:shop" or "all"; [].
    servers => [dyno_process_filter:t() | string() | binary()],
    %% Modules, or their files, of further instruments; see dyno_agent_instrument. [].
    instruments => [module() | string() | binary()]
}.

%% none: the targets do their own work, without operations. performerl: the suite's callbacks give
%% the load (dyno_performerl).
-type model() :: closed | open | none | performerl.

-doc """
A load. Closed: each worker begins its next operation when the last one has ended. Open: operations
arrive at a rate even if earlier ones have not ended, and response time counts from the intended
start, so that a stalled target cannot hide (coordinated omission). Phases: several loads in
sequence. Search: the highest rate at which an objective holds. doc/suites.md has all keys.
""".
-type load() :: dyno_load_spec:load() | #{model := none | performerl}.

-doc "A complete, checked config: like `config()`, with these differences.".
-type options() :: #{
    name := binary(),
    size_label := binary(),
    patterns := [dyno_agent_patterns:pattern()],
    distribution := [dyno_agent_patterns:pattern()],
    thresholds := [dyno_threshold:t()],
    profile := none | sample | cpu | schedulers,
    seed := non_neg_integer() | undefined,
    operations := dyno_load_spec:operations() | undefined,
    feeds := [dyno_feed:feed()],
    load_nodes := [dyno_load_nodes:spec()],
    invariants := [dyno_invariant:t()],
    metrics := [dyno_custom_metric:metric()],
    atom() => term()
}.

-type reason() ::
    {budget_without_level, dyno_agent_instrument:level()}
    %% Another module refuses a value.
    | {refused, dyno_error:error()}
    | not_a_map.

-doc "The test's description. Called once, first.".
-callback suite() -> config().

-doc "Sets up the state shared by all runs.".
-callback init_suite() -> {ok, SuiteState :: term()}.

-doc """
Sets up a run; returns the target nodes, or none. A node may have its own patterns: `[{Node,
Patterns}]`, or a map.
""".
-callback init_run(Size :: pos_integer(), SuiteState :: term()) ->
    {ok, Targets :: targets(), RunState :: term()}.

-doc "All target nodes, asked every second under load; new nodes are attached.".
-callback targets(RunState :: term()) -> targets().

-doc "The load of a run, if not of Size workers or operations a second.".
-callback load(Size :: pos_integer(), RunState :: term()) -> load().

-doc "Conditions in a target at a size, besides the option `invariants`.".
-callback invariants(node(), Size :: pos_integer()) -> [dyno_invariant:source()].

-doc "Prepares a worker in its own process, for example opens its connection.".
-callback init_worker(Id :: pos_integer(), RunState :: term()) -> {ok, WorkerState :: term()}.

-doc """
One operation, timed from call to return. An exception is an error; the worker then starts again
with `init_worker/2`.
""".
-callback operation(WorkerState :: term()) ->
    {ok, WorkerState :: term()} | {error, Reason :: term(), WorkerState :: term()}.

-doc "One operation of a kind, if `operations` names several.".
-callback operation(Kind :: atom(), WorkerState :: term()) ->
    {ok, WorkerState :: term()} | {error, Reason :: term(), WorkerState :: term()}.

-doc "Ends one worker.".
-callback end_worker(WorkerState :: term()) -> term().

-doc "Ends one run; after a failed set-up with `undefined`.".
-callback end_run(RunState :: term() | undefined) -> term().

-doc "Ends the state shared by all runs.".
-callback end_suite(SuiteState :: term() | undefined) -> term().

-optional_callbacks([
    init_suite/0,
    init_run/2,
    targets/1,
    load/2,
    invariants/2,
    init_worker/2,
    operation/1,
    operation/2,
    end_worker/1,
    end_run/1,
    end_suite/1
]).

-doc "A module's missing callbacks.".
-spec missing(module()) -> [{atom(), arity()}].
missing(Module) ->
    Exports = Module:module_info(exports),
    Mandatory = ?MODULE:behaviour_info(callbacks) -- ?MODULE:behaviour_info(optional_callbacks),
    %% One of both is enough.
    Operation = [
        {operation, 1}
     || not lists:member({operation, 1}, Exports), not lists:member({operation, 2}, Exports)
    ],
    (Mandatory -- Exports) ++ Operation.

-doc "Exports that resemble a missing optional callback: another arity, or a slip in the name.".
-spec misspelt(module()) -> [{Is :: {atom(), arity()}, Callback :: {atom(), arity()}}].
misspelt(Module) ->
    Exports = Module:module_info(exports),
    Absent = ?MODULE:behaviour_info(callbacks) -- Exports,
    [
        {Export, hd(Near)}
     || Export <- Exports -- ?MODULE:behaviour_info(callbacks),
        [_ | _] = Near <- [[Callback || Callback <- Absent, resembles(Export, Callback)]]
    ].

resembles({Name, _}, {Name, _}) ->
    true;
resembles({Name, Arity}, {Callback, Arity}) ->
    dyno_similar:is_slip(atom_to_list(Name), atom_to_list(Callback));
resembles(_, _) ->
    false.

-doc "Checks a config and adds defaults.".
-spec options(config()) -> {ok, options()} | {error, reason()}.
options(Given) when is_map(Given) ->
    Config = with_called(Given),
    case dyno_option:read(fields(Config), Config) of
        {ok, Options} -> with_level(Options, Config);
        {error, Error} -> {error, {refused, Error}}
    end;
options(_Other) ->
    {error, not_a_map}.

-doc "The names of all options.".
-spec keys() -> [atom(), ...].
keys() -> [Key || {Key, _, _, _} <- fields(#{})].

%% A threshold on a function of the target is an invariant.
with_called(#{thresholds := Texts} = Config) when length(Texts) > 0 ->
    case lists:partition(fun dyno_invariant:is_call/1, Texts) of
        {[], _} ->
            Config;
        {Called, Others} ->
            Invariants = maps:get(invariants, Config, []),
            Config#{thresholds := Others, invariants => Called ++ Invariants}
    end;
with_called(Config) ->
    Config.

with_level(#{level := Level}, #{budget := _}) when Level =/= budget ->
    {error, {budget_without_level, Level}};
with_level(Options, _Config) ->
    {ok, Options}.

-doc "The kinds of profiles of a test; other kinds are levels.".
-spec profiles() -> [sample | cpu | schedulers, ...].
profiles() -> [sample, cpu, schedulers].

%% Key, default, reader, accepted values. PerformERL allows a size of 0.
fields(#{load := performerl}) ->
    Sizes = {sizes, mandatory, list(integer(0)), "a list of integers, 0 or more"},
    lists:keyreplace(sizes, 1, fields(#{}), Sizes);
fields(_Config) ->
    Text = fun dyno_option:text/1,
    Levels = [budget, off, count, discovery, time, memory, all],
    [
        {name, ~"test", Text, "text"},
        {sizes, mandatory, list(integer(1)), "a list of positive integers"},
        {size_label, ~"size", Text, "text"},
        {duration_ms, 5000, within(1, ?MOST_MS), "milliseconds from 1 to 720000000 (200 h)"},
        {warmup_ms, 500, within(0, ?MOST_MS), "milliseconds from 0 to 720000000 (200 h)"},
        {interval_ms, 1000, within(10, ?MOST_MS), "milliseconds from 10 to 720000000 (200 h)"},
        {patterns, [], fun patterns/1, "a list of patterns"},
        {thresholds, [], fun thresholds/1, "a list of texts such as \"latency.p99 < 20 ms\""},
        {level, budget, one_of(Levels), "budget, off, count, discovery, time, memory or all"},
        {budget, dyno_agent_call_budget:default(), fun share/1,
            "a share above 0 and below 1, such as 0.05,"},
        {profile, none, one_of(profiles()), "sample, cpu or schedulers"},
        {distribution, [], fun patterns/1, "a list of patterns"},
        {without, [], fun names/1, "a list of names of instruments"},
        {repeat, 1, within(1, 10_000), "a whole number from 1 to 10000"},
        {seed, undefined, integer(0), "an integer, 0 or more"},
        {control, auto, one_of([true, false, auto]), "true, false or auto"},
        {load, closed, fun model/1, "closed, open or none"},
        {operations, undefined, fun dyno_load_spec:is_operations/1,
            "a map from operations (atoms) to weights above 0"},
        {feeds, [], by(dyno_feed, fun dyno_feed:read/1), "a map"},
        {load_nodes, [], by(dyno_load_nodes, fun dyno_load_nodes:read/1), "a number or a list"},
        {timeout_ms, 60_000, within(1, ?MOST_MS), "milliseconds from 1 to 720000000 (200 h)"},
        {invariants, [], items(no_character(by(dyno_invariant, fun dyno_invariant:read/1))),
            "a list of {Name, {M, F, A}, Operator, Value}"},
        {invariant_interval_ms, 100, within(10, ?MOST_MS),
            "milliseconds from 10 to 720000000 (200 h)"},
        {metrics, [], items(no_character(by(dyno_custom_metric, fun dyno_custom_metric:metric/1))),
            "a list of {Name, Unit, {M, F, A}}"},
        {agents, [], fun modules/1, "a list of modules or of their files"},
        {servers, [], items(no_character(fun server/1)), "a list of servers such as \"app:shop\""},
        {instruments, [], fun modules/1, "a list of modules or of their files"}
    ].

integer(Least) -> fun(N) -> is_integer(N) andalso N >= Least end.

within(Least, Most) -> fun(N) -> is_integer(N) andalso N >= Least andalso N =< Most end.

share(Share) -> is_float(Share) andalso Share > 0 andalso Share < 1.

one_of(Values) -> fun(Value) -> lists:member(Value, Values) end.

%% Another module reads the value, and formats its errors.
by(Module, Read) ->
    fun(Value) ->
        case Read(Value) of
            {error, {Module, _}} = Error -> Error;
            Result -> dyno_error:tagged(Module, Result)
        end
    end.

%% At least one item.
list(Read) ->
    fun
        ([_ | _] = List) -> (items(Read))(List);
        (_) -> error
    end.

%% An invalid item, such as a character of a text outside of a list, is an error of the whole
%% option. length/1 as a guard refuses improper lists.
items(Read) ->
    fun
        (List) when length(List) >= 0 ->
            dyno_error:each(fun(Item) -> dyno_option:value(Read, Item) end, List);
        (_) ->
            error
    end.

no_character(Read) ->
    fun(Item) -> not is_integer(Item) andalso Read(Item) end.

patterns(Patterns) ->
    (items(fun pattern/1))(Patterns).

pattern(Text) when is_list(Text); is_binary(Text) ->
    parsed(Text, by(dyno_agent_patterns, fun dyno_agent_patterns:parse/1));
pattern(Character) when is_integer(Character) ->
    false;
pattern(Pattern) ->
    case dyno_agent_patterns:validate(Pattern) of
        ok -> true;
        {error, Reason} -> {error, {dyno_agent_patterns, Reason}}
    end.

%% A term was already read.
server(Text) when is_list(Text); is_binary(Text) ->
    Parse = fun(Chars) -> dyno_process_filter:parse(Chars, servers) end,
    parsed(Text, by(dyno_process_filter, Parse));
server(Selector) ->
    try
        is_binary(dyno_process_filter:format(Selector))
    catch
        error:_ -> false
    end.

thresholds(Thresholds) ->
    Parse = by(dyno_threshold, fun dyno_threshold:parse/1),
    (items(fun(Text) -> parsed(Text, Parse) end))(Thresholds).

parsed(Chars, Parse) ->
    maybe
        {ok, Text} ?= dyno_option:text(Chars),
        Parse(Text)
    end.

%% Names are checked once the suite's own instruments are loaded.
names(Names) ->
    maybe
        {ok, Good} ?= (items(fun is_atom/1))(Names),
        {ok, lists:usort(Good)}
    end.

modules(Modules) ->
    IsSource = fun(Source) -> is_atom(Source) orelse dyno_option:text(Source) =/= error end,
    (items(IsSource))(Modules).

model(#{model := _} = Load) ->
    case dyno_load_spec:read(Load, 1) of
        {ok, _} -> {ok, Load};
        {error, Reason} -> {error, {dyno_load_spec, Reason}}
    end;
model(Model) ->
    (one_of([closed, open, none, performerl]))(Model).

-type targets() ::
    [node() | {node(), [dyno_agent_patterns:pattern() | string() | binary()]}]
    | #{node() => [dyno_agent_patterns:pattern() | string() | binary()]}.

-doc "A target node, and its functions to measure; by default the test's.".
-type target() :: {node(), [dyno_agent_patterns:pattern()] | default}.

-doc "Reads the targets of `init_run/2` and `targets/1`; no node may appear twice.".
-spec targets(term()) -> {ok, [target()]} | error.
targets(Map) when is_map(Map) ->
    targets(maps:to_list(Map));
targets(List) ->
    maybe
        {ok, Targets} ?= (items(fun target/1))(List),
        Targets ?= lists:uniq(fun({Node, _}) -> Node end, Targets),
        {ok, Targets}
    else
        _ -> error
    end.

target({Node, Patterns}) when is_atom(Node) ->
    maybe
        {ok, Read} ?= patterns(Patterns),
        {ok, {Node, Read}}
    end;
target(Node) when is_atom(Node) ->
    {ok, {Node, default}};
target(_Other) ->
    error.

-spec format_error(reason()) -> unicode:chardata().
format_error({budget_without_level, Level}) ->
    io_lib:format(
        "a budget is of the level budget, and the level is ~ts; leave out one of the two", [Level]
    );
format_error({refused, Error}) ->
    dyno_error:format(Error);
format_error(not_a_map) ->
    "suite/0 must return a map".

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(macros) -> [{'__using__', 1}];
'__info__'(_Other) -> [].

-doc false.
%% The expansion of `use :dyno_suite, Options`: the behaviour, and suite/0 if there are options. The
%% context keeps Elixir from asking for an impossible @impl.
-spec 'MACRO-__using__'(term(), term()) -> term().
'MACRO-__using__'(_Caller, Options) ->
    Behaviour = {'@', [], [{behaviour, [], [?MODULE]}]},
    case Options of
        [] ->
            Behaviour;
        _ ->
            Map = {{'.', [], [maps, from_list]}, [], [Options]},
            Suite = {def, [{context, ?MODULE}], [{suite, [{context, ?MODULE}], []}, [{do, Map}]]},
            {'__block__', [], [Behaviour, Suite]}
    end.
