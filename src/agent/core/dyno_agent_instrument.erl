%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_instrument).
-moduledoc """
The behaviour of instruments: an instrument measures one thing in a target.

An instrument is one module with two sides. In the target `c:start_link/1`, `c:restart/1` and
`c:read/1` measure; without them the module is a gen_server that takes the calls `restart` and
`read`. On the caller's side `c:tables/0`, `c:metrics/0`, `c:series/0`,
`c:histograms/0`, `c:profiles/0` and `c:warnings/2` describe the recording of the result, as data
for console, page, CSV, thresholds and comparison.

`all/0` lists dyno's instruments; a suite names more in its option `instruments`
(doc/instruments.md).

```
caller                                        target
about/0, config/1  -- start_link(Config) -->  process, linked to dyno_agent_guard
                   -- restart(Pid) -------->  counts from now on: the load is warm
                   -- read(Pid) ----------->  result
tables/0, ... <--------------- result ------
```

The module may call only kernel, stdlib and dyno's modules of `src/agent/`.
""".

-export([all/0, about/1, config/2, names/1, named/1]).
-export([is_dynos/1, missing/1]).
-export([start_link/2, start/2, ask/3, restart/1, read/1]).
-export_type([about/0, options/0, level/0, result/0, table/0, column/0, metric/0, series/0]).
-export_type([histogram/0, profile/0, event/0, warning/0]).

-doc """
* `names`: its names for `--without`, one for each thing that it measures.
* `needs`: instruments whose process it uses; its configuration has their pids by module, if they
  run.
* `always`: it also runs with all of its names switched off, without measuring.
* `vital`: the agent gives up if it ends.
* `traces`: it slows the functions that it measures, so that a run without instruments is useful.
* `parts`: another module describes the recording, and stays out of the target; for
  instruments of dyno it may have `c:config/1`.
""".
-type about() :: #{
    names := [atom(), ...],
    needs => [module()],
    always => boolean(),
    vital => boolean(),
    traces => boolean(),
    parts => module()
}.

-type options() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    level := level(),
    %% For the level budget: the share of the target's processor time for measuring.
    budget => float(),
    %% Whether dyno started the node: only then calls are timed without being asked for.
    own_node => boolean(),
    %% Functions whose calls are timed singly.
    distribution := [dyno_agent_patterns:pattern()],
    interval_ms := pos_integer(),
    %% The instrument's names that are not switched off.
    names := [atom()],
    %% The receiver of samples.
    sink := pid(),
    atom() => term()
}.

-doc """
How much to measure in the targets: `budget` (calls, own time, processes, at a limited cost), `off`
(VM and system only), `count` (calls), `discovery` (processes only), `time` (each call timed, and
processes), `memory` (calls, words, processes), `all`.
""".
-type level() :: budget | off | count | discovery | time | memory | all.

-type result() :: term().

-type item() :: term().

-type column() :: tuple().

-doc "A table of each node: a result's rows, or `none`; `total` merges the items of several nodes.".
-type table() :: #{
    name := binary(),
    title := binary(),
    columns := [column()],
    items := fun((result()) -> [item()] | none),
    total => fun(([result(), ...]) -> [item()] | none),
    sort => {binary(), ascending | descending}
}.

-doc "A number of the run, from the results of all nodes, or `none`.".
-type metric() :: #{
    name := binary(),
    title := binary(),
    unit := binary(),
    group := binary(),
    %% With `at_least`, the number is an estimate; the lower bound is known.
    value := fun(
        ([result(), ...]) ->
            {number(), Count :: non_neg_integer()}
            | {number(), Count :: non_neg_integer(), {at_least, number()}}
            | none
    )
}.

-doc "A line over time of each node; milliseconds since the restart, by the target's clock.".
-type series() :: #{
    name := binary(),
    title := binary(),
    unit := binary(),
    group := binary(),
    points := fun((result()) -> [{TimeMs :: number(), number() | undefined}])
}.

-doc "Histograms of each node, with the buckets of dyno_histogram.".
-type histogram() :: #{
    name := binary(),
    title := binary(),
    unit := binary(),
    group := binary(),
    items := fun((result()) -> [#{labels := #{atom() => binary()}, atom() => term()}])
}.

-doc """
Unique call stacks of each node, outermost function first, and their costs in the order of `values`.
`observed`: the number of samples and their share of the processor time, if known.
""".
-type profile() :: #{
    name := binary(),
    title := binary(),
    values := [#{name := binary(), unit := binary()}, ...],
    observed => fun(
        (result()) -> #{
            observations => non_neg_integer(), seen => float(), scheduler => float()
        }
    ),
    stacks := fun((result()) -> [{[binary(), ...], [number(), ...], #{atom() => binary()}}])
}.

-doc "An event during the run; `data` has a JSON form for programs that know the kind.".
-type event() :: #{time_ms := number(), kind := binary(), text := binary(), data => term()}.

-doc "A reason to trust the numbers less, and a remedy; `{Value, Unit}` is a quantity.".
-type warning() ::
    {Code :: binary(), io:format(), [term() | {number(), Unit :: binary()}]}
    | {Code :: binary(), io:format(), [term() | {number(), Unit :: binary()}], Advice :: binary()}.

-callback about() -> about().

-doc "The configuration for `c:start_link/1`; `off` if the options need nothing of it.".
-callback config(options()) -> map() | off.

-doc """
Starts its process in the target. A process that traps exits gets the exit signal `shutdown` and has
two seconds to end; others end with the agent at once.
""".
-callback start_link(Config :: map()) -> gen_server:start_ret().

-doc "Counts from now on.".
-callback restart(pid()) -> ok.

-doc "Takes a last sample just before the end of the load; not called if the load ends early.".
-callback last_look(pid()) -> ok.

-doc "The counts, after the load.".
-callback read(pid()) -> result().

-doc "The counts until now, during the load; by default `c:read/1`.".
-callback peek(pid()) -> result().

-doc "Makes a result of the read data, on the caller's side; by default the data.".
-callback result(term()) -> result().
-callback tables() -> [table()].
-callback metrics() -> [metric()].
-callback series() -> [series()].
-callback histograms() -> [histogram()].
-callback profiles() -> [profile()].
-callback events(result()) -> [event()].
-doc "For a target with this role in the sentences.".
-callback warnings(Role :: binary(), result()) -> [warning()].

-optional_callbacks([
    config/1,
    start_link/1,
    restart/1,
    read/1,
    last_look/1,
    peek/1,
    result/1,
    tables/0,
    metrics/0,
    series/0,
    histograms/0,
    profiles/0,
    events/1,
    warnings/2
]).

-doc """
dyno's own, in starting order; restarts and reads are in reverse order, calls right after the load.
Durations start before calls: their breakpoints must be older (dyno_agent_durations).
""".
-spec all() -> [module()].
all() ->
    [
        dyno_agent_resources,
        dyno_agent_durations,
        dyno_agent_processes,
        dyno_agent_sampler,
        dyno_agent_stacks,
        dyno_agent_calls
    ].

-doc "An instrument's `about/0`, with defaults.".
-spec about(module()) -> about().
about(Module) ->
    Defaults = #{
        needs => [], always => false, vital => false, traces => false, parts => Module
    },
    maps:merge(Defaults, Module:about()).

-doc "An instrument's configuration, by the module itself or by that of its parts.".
-spec config(module(), options()) -> map() | off.
config(Module, Options) -> (configures(Module)):config(Options).

configures(Module) ->
    #{parts := Parts} = about(Module),
    case has(Parts, config) of
        true -> Parts;
        false -> Module
    end.

-doc "Every name that can be switched off.".
-spec names([module()]) -> [atom()].
names(Modules) ->
    lists:append([Names || Module <- Modules, #{names := Names} <- [about(Module)]]).

-doc "These names as text.".
-spec named([module()]) -> unicode:chardata().
named(Modules) ->
    lists:join(" and ", [atom_to_list(Name) || Name <- lists:sort(names(Modules))]).

-doc "Others are a suite's own: their code may fail.".
-spec is_dynos(module()) -> boolean().
is_dynos(Module) -> lists:prefix("dyno_agent_", atom_to_list(Module)).

-doc "The required callbacks that a module lacks.".
-spec missing(module()) -> [{atom(), arity()}].
missing(Module) ->
    Exports = Module:module_info(exports),
    Process = [
        Callback
     || Callback <- [{start_link, 1}, {restart, 1}, {read, 1}],
        not lists:member({handle_call, 3}, Exports)
    ],
    [{about, 0}, {config, 1} | Process] -- Exports.

-doc "Starts an instrument, or another process of dyno, in the target.".
-spec start_link(module(), map()) -> gen_server:start_ret().
start_link(Module, Config) ->
    case has(Module, start_link) of
        true -> Module:start_link(Config);
        false -> dyno_agent_process:start_link(Module, Config)
    end.

-doc "Starts one without waiting for its beginning, if the module leaves the start to dyno.".
-spec start(module(), map()) -> {starting, pid()} | gen_server:start_ret().
start(Module, Config) ->
    case has(Module, start_link) of
        true -> Module:start_link(Config);
        false -> {starting, dyno_agent_process:start(Module, Config)}
    end.

-doc "Asks an instrument's process, by the module's callback if there is one.".
-spec ask(module(), restart | read | peek | last_look, pid()) -> ok | result().
ask(Module, What, Pid) ->
    case has(Module, What) orelse What of
        true -> Module:What(Pid);
        last_look -> ok;
        peek -> ask(Module, read, Pid);
        _ -> gen_server:call(Pid, What, infinity)
    end.

has(Module, Callback) ->
    _ = code:ensure_loaded(Module),
    erlang:function_exported(Module, Callback, 1).

-doc "`c:restart/1` of dyno's own.".
-spec restart(pid()) -> ok.
restart(Pid) -> gen_server:call(Pid, restart, infinity).

-doc "`c:read/1` of dyno's own.".
-spec read(pid()) -> result().
read(Pid) -> gen_server:call(Pid, read, infinity).
