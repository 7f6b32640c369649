%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_instrument).
-moduledoc """
The behaviour of an instrument: what measures one thing in a target.

An instrument is one module, used in two places. In the target `c:start_link/1` starts its process,
`c:restart/1` has it count from now on, and `c:read/1` returns what it has counted. On the caller's
side `c:tables/0`, `c:metrics/0`, `c:series/0`, `c:histograms/0`, `c:profiles/0` and `c:warnings/2`
describe, as data, how that result is recorded. From there on console, page, CSV, thresholds and
comparison show it like everything else.

dyno's own are listed in `all/0`; a suite names more in its option `instruments` (doc/instruments.md
has an example).

```
caller                                        target
about/0, config/1  -- start_link(Config) -->  process, linked to dyno_agent_guard
                   -- restart(Pid) -------->  counts from now on: the load is warm
                   -- read(Pid) ----------->  result
tables/0, ... <--------------- result ------
```

The module runs in the target: it may call kernel, stdlib and dyno's modules of `src/agent/` only.
""".

-export([all/0, about/1, names/1, missing/1]).
-export_type([about/0, options/0, level/0, result/0, table/0, column/0, metric/0, series/0]).
-export_type([histogram/0, profile/0, event/0, warning/0]).

-doc """
* `names`: what `--without` calls it. One that measures several things has several names.
* `needs`: instruments whose process it works with; its configuration has them by their module,
  where they run.
* `always`: it runs also where all of its names are switched off; it then measures nothing.
* `traces`: it slows the functions that it measures, so that a run without instruments is worth
  while.
* `parts`: another module describes how results are recorded, which need not go to the target.
""".
-type about() :: #{
    names := [atom(), ...],
    needs => [module()],
    always => boolean(),
    traces => boolean(),
    parts => module()
}.

-doc "The options of a test, from which an instrument makes its configuration.".
-type options() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    level := level(),
    %% Of the level budget: the share of the target's processor time that measuring may take.
    budget => float(),
    %% Whether dyno started the node: only then calls are timed where that was not asked for.
    own_node => boolean(),
    %% Functions whose single calls are timed.
    distribution := [dyno_agent_patterns:pattern()],
    interval_ms := pos_integer(),
    %% The instrument's names that are not switched off.
    names := [atom()],
    %% The process that samples are sent to.
    sink := pid(),
    atom() => term()
}.

-doc """
How deep to look into the targets: `budget` (calls, own time, processes, at a limited cost), `off`
(VM and system only), `count` (calls), `discovery` (processes only), `time` (each call timed, and
processes), `memory` (calls, words, processes), `all`.
""".
-type level() :: budget | off | count | discovery | time | memory | all.

-doc "What `c:read/1` gives.".
-type result() :: term().

-type item() :: term().

-doc "A column of a table; see dyno_recording_table.".
-type column() :: tuple().

-doc """
A table of each node, of the rows that `items` finds in a result: `none` where there is no such
table. `total` gives the items of several nodes together.
""".
-type table() :: #{
    name := binary(),
    title := binary(),
    columns := [column()],
    items := fun((result()) -> [item()] | none),
    total => fun(([result(), ...]) -> [item()] | none),
    sort => {binary(), ascending | descending}
}.

-doc "A number of the run, from the results of all nodes; `none` where there is none.".
-type metric() :: #{
    name := binary(),
    title := binary(),
    unit := binary(),
    group := binary(),
    value := fun(([result(), ...]) -> {number(), Count :: non_neg_integer()} | none)
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
Call stacks of each node, the outermost function first, each once with the same labels; and what was
spent in each, in the order of `values`. `observed`: of how many samples, and of which share of the
processor time, if that is known.
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

-doc """
What happened, or was looked at, at a time of the run; `data` has a form in JSON, for programs that
know the kind.
""".
-type event() :: #{time_ms := number(), kind := binary(), text := binary(), data => term()}.

-doc "What makes the numbers less believable; of the arguments `{Value, Unit}` is a quantity.".
-type warning() :: {Code :: binary(), io:format(), [term() | {number(), Unit :: binary()}]}.

-callback about() -> about().

-doc "The configuration for `c:start_link/1`; `off` where the options ask for nothing of it.".
-callback config(options()) -> map() | off.

-doc """
Starts its process, in the target. A process that traps exits gets the exit signal `shutdown` and
has two seconds to end; any other ends with the agent at once.
""".
-callback start_link(Config :: map()) -> gen_server:start_ret().

-doc "Counts from now on.".
-callback restart(pid()) -> ok.

-doc """
The load ends in a moment: the process samples now, and what it sees later says nothing of the load.
Not called where a load ends earlier than it was to.
""".
-callback last_look(pid()) -> ok.

-doc "What was counted; the load is over.".
-callback read(pid()) -> result().

-doc "What was counted until now, while counting goes on; `c:read/1` where it is not exported.".
-callback peek(pid()) -> result().

-doc "On the caller's side: what the instrument has read, as a result; the same if it is not exported.".
-callback result(term()) -> result().
-callback tables() -> [table()].
-callback metrics() -> [metric()].
-callback series() -> [series()].
-callback histograms() -> [histogram()].
-callback profiles() -> [profile()].
-callback events(result()) -> [event()].
-doc "Of a target, which sentences name by its role.".
-callback warnings(Role :: binary(), result()) -> [warning()].

-optional_callbacks([
    last_look/1, peek/1, result/1, tables/0, metrics/0, series/0, histograms/0, profiles/0,
    events/1, warnings/2
]).

-doc """
dyno's own instruments, in the order in which they are started. They are restarted and read in the
reverse order: so the calls are read first, before anything else runs after the end of the load, and
restarted before the processes, which they report to. The durations come before the calls: their
breakpoints must be the older ones (dyno_agent_durations).
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

-doc "What an instrument says of itself, complete.".
-spec about(module()) -> about().
about(Module) ->
    Defaults = #{needs => [], always => false, traces => false, parts => Module},
    maps:merge(Defaults, Module:about()).

-doc "All that can be switched off by itself.".
-spec names([module()]) -> [atom()].
names(Modules) ->
    lists:append([Names || Module <- Modules, #{names := Names} <- [about(Module)]]).

-doc "The callbacks that a module has to have and does not.".
-spec missing(module()) -> [{atom(), arity()}].
missing(Module) ->
    Exports = Module:module_info(exports),
    [{about, 0}, {config, 1}, {start_link, 1}, {restart, 1}, {read, 1}] -- Exports.
