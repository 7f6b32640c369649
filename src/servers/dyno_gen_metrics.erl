%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_gen_metrics).
-moduledoc """
The clusters and pipelines of GenMetrics, over `m:dyno_servers`.

```erlang
{ok, Monitor} = dyno_gen_metrics:monitor_cluster(#{
    name => ~"demo", servers => [shop_orders, shop_cart], opts => [{statistics, true}]
}),
{ok, #{summary := Summary, stats := Stats}} = dyno_gen_metrics:next(Monitor),
ok = dyno_gen_metrics:stop(Monitor).
```

```elixir
{:ok, monitor} =
  :dyno_gen_metrics.monitor_pipeline(%{
    name: "demo", producer: [Data.Producer], consumer: [Data.Consumer],
    opts: [window_interval: 5000, statistics: :statsd]
  })
{:ok, %{summary: summary}} = :dyno_gen_metrics.next(monitor)
```

Differences to GenMetrics:

* Each callback counts once, also if it crashes, calls itself or is loaded anew. An ended process is
  in its last window and in none after it; a stage appears with its first callback.
* Times are of callbacks, not of traces, with fractions: summaries in milliseconds, `stats` in
  microseconds. A callback copies nothing, for any size of state.
* `synchronous => false` leaves calls out. `sample_rate` is accepted and ignored: measuring all
  callbacks costs less than GenMetrics' samples, and nothing needs estimates.
* `statistics => statsd` and `datadog` send to port 8125 of this machine (doc/servers-sinks.md). The
  URL of any sink is accepted instead.
* Erlang's modules work like Elixir's; `node => 'shop@host'` names another node. A monitor ends by
  `stop/1`, or with the process that started it.
""".

-export([monitor_cluster/1, monitor_pipeline/1, next/1, next/2, stop/1]).
-export([format_error/1]).
-export_type([monitor/0, cluster/0, pipeline/0, options/0, window/0, summary/0, stats/0, reason/0]).

-type cluster() :: #{
    name := unicode:chardata(),
    servers := [module(), ...],
    opts => options() | [{atom(), term()}],
    node => node()
}.

-doc "Stages by module; each of the three is optional.".
-type pipeline() :: #{
    name := unicode:chardata(),
    producer => [module()],
    producer_consumer => [module()],
    consumer => [module()],
    opts => options() | [{atom(), term()}],
    node => node()
}.

-type options() :: #{
    %% Milliseconds; 1000.
    window_interval => pos_integer(),
    %% false, true, statsd, datadog or the URL of a sink; false.
    statistics => boolean() | statsd | datadog | unicode:chardata(),
    %% Whether calls count, too; true.
    synchronous => boolean(),
    %% Above 0, up to 1.
    sample_rate => number()
}.

-opaque monitor() :: #{
    servers := dyno_servers:session(),
    monitored := cluster | pipeline,
    name := unicode:chardata(),
    modules := #{binary() => module()},
    options := options()
}.

-doc "A window: `start` in nanoseconds since 1970, `duration` in milliseconds.".
-type window() :: #{
    cluster | pipeline => unicode:chardata(),
    start := integer(),
    duration := float(),
    summary := [summary()],
    %% Empty without `statistics => true`.
    stats := [stats()]
}.

-doc """
Of a process. In a cluster: `calls`, `casts`, `infos` and `time_on_calls`, `time_on_casts`,
`time_on_infos`. In a pipeline: `callbacks`, `time_on_callbacks`, `demand` (events asked for; for
consumers received) and `events` (sent). Times are in milliseconds, `undefined` if the node was too
busy to measure them.
""".
-type summary() :: #{name := module(), pid := pid(), atom() => number() | undefined}.

-doc """
Of a process: `calls`, `casts` and `infos`, or `timings`, each with `callbacks`, `min`, `max`,
`total`, `mean`, `stdev` and `range`, in microseconds.
""".
-type stats() :: #{
    name := module(), pid := pid(), atom() => #{atom() => number() | undefined}
}.

-type reason() :: {no_modules, cluster | pipeline} | {no_map, cluster | pipeline}.

-define(CALLBACKS, [
    {calls, time_on_calls, ~"handle_call"},
    {casts, time_on_casts, ~"handle_cast"},
    {infos, time_on_infos, ~"handle_info"}
]).
-define(STAGES, [producer, producer_consumer, consumer]).

-doc "Monitors the servers with these callback modules.".
-spec monitor_cluster(cluster()) -> dyno_error:result(monitor()).
monitor_cluster(Cluster) ->
    start(cluster, [servers], Cluster).

-doc "Monitors the stages with these modules.".
-spec monitor_pipeline(pipeline()) -> dyno_error:result(monitor()).
monitor_pipeline(Pipeline) ->
    start(pipeline, ?STAGES, Pipeline).

start(Monitored, Keys, #{name := Name} = Given) ->
    Modules = lists:uniq(lists:append([maps:get(Key, Given, []) || Key <- Keys])),
    Opts = maps:get(opts, Given, []),
    maybe
        ok ?= dyno_option:known([name, opts, node | Keys], Given),
        ok ?= modules(Modules, Monitored),
        {ok, Options} ?= dyno_option:read(fields(), to_map(Opts)),
        {ok, Sinks} ?= sinks(map_get(statistics, Options)),
        {ok, Servers} ?=
            dyno_servers:start(maps:get(node, Given, node()), #{
                servers => [{module, Module} || Module <- Modules],
                interval_ms => map_get(window_interval, Options),
                sinks => Sinks
            }),
        ok = dyno_servers:subscribe(Servers),
        {ok, #{
            servers => Servers,
            monitored => Monitored,
            name => Name,
            modules => #{dyno_agent_name:module(Module) => Module || Module <- Modules},
            options => Options
        }}
    end;
start(Monitored, _Keys, _Given) ->
    {error, {?MODULE, {no_map, Monitored}}}.

modules([], Monitored) -> {error, {?MODULE, {no_modules, Monitored}}};
modules(_Modules, _Monitored) -> ok.

to_map(Options) when is_list(Options) -> maps:from_list(Options);
to_map(Options) -> Options.

fields() ->
    IsRate = fun(Rate) -> is_number(Rate) andalso Rate > 0 andalso Rate =< 1 end,
    [
        {window_interval, 1000, fun(Ms) -> is_integer(Ms) andalso Ms >= 100 end,
            "a whole number of milliseconds from 100 up"},
        {statistics, false, fun is_statistics/1,
            "true, false, statsd, datadog or the URL of a sink"},
        {synchronous, true, fun is_boolean/1, "true or false"},
        {sample_rate, 1.0, IsRate, "a number above 0 and up to 1"}
    ].

is_statistics(Atom) when is_atom(Atom) -> lists:member(Atom, [true, false, statsd, datadog]);
is_statistics(Url) -> is_binary(Url) orelse is_list(Url).

sinks(IsKept) when is_boolean(IsKept) -> {ok, []};
sinks(statsd) -> sinks(~"statsd://127.0.0.1:8125");
sinks(datadog) -> sinks(~"dogstatsd://127.0.0.1:8125");
sinks(Url) -> dyno_error:each(fun dyno_servers_sink:parse/1, [Url]).

-doc "Waits for the next window; only in the process that started the monitor.".
-spec next(monitor()) -> {ok, window()} | {error, ended}.
next(Monitor) ->
    next(Monitor, infinity).

-doc "The same, with a timeout in milliseconds.".
-spec next(monitor(), timeout()) -> {ok, window()} | {error, timeout | ended}.
next(#{servers := Servers} = Monitor, TimeoutMs) ->
    Ref = monitor(process, Servers),
    try
        receive
            {dyno_servers, Servers, #{servers := _} = Window, _Dropped} ->
                ok = dyno_servers:ready(Servers),
                {ok, window(Window, Monitor)};
            {'DOWN', Ref, process, Servers, _} ->
                {error, ended}
        after TimeoutMs -> {error, timeout}
        end
    after
        demonitor(Ref, [flush])
    end.

-doc "Ends a monitor.".
-spec stop(monitor()) -> ok.
stop(#{servers := Servers}) ->
    dyno_servers:stop(Servers).

window(#{start_ns := StartNs, duration_ns := Ns, servers := Sums}, Monitor) ->
    #{monitored := Monitored, name := Name, modules := Modules, options := Options} = Monitor,
    #{statistics := Statistics, synchronous := IsSynchronous} = Options,
    Processes = [
        {
            #{name => map_get(Module, Modules), pid => Pid},
            of_callbacks(Monitored, IsSynchronous, Sum)
        }
     || #{labels := #{module := Module}, pid := Pid} = Sum <- Sums, is_map_key(Module, Modules)
    ],
    #{
        Monitored => Name,
        start => StartNs,
        duration => Ns / 1.0e6,
        summary => [
            maps:merge(Process, summary(Monitored, Sum, Ns))
         || {Process, Sum} <- Processes
        ],
        stats => [
            maps:merge(Process, stats(Monitored, Sum, Ns))
         || Statistics =:= true, {Process, Sum} <- Processes
        ]
    }.

of_callbacks(Monitored, IsSynchronous, #{callbacks := Callbacks} = Sum) ->
    Known = [~"handle_call" || IsSynchronous] ++ callbacks(Monitored),
    Sum#{callbacks := [C || #{name := Name} = C <- Callbacks, lists:member(Name, Known)]}.

callbacks(cluster) -> [~"handle_cast", ~"handle_info"];
%% GenStage's own messages are infos.
callbacks(pipeline) -> [~"handle_cast", ~"handle_demand", ~"handle_events"].

summary(cluster, Sum, Ns) ->
    maps:from_list([
        Pair
     || {Count, Time, Callback} <- ?CALLBACKS,
        Row <- [row(Callback, Sum, Ns)],
        Pair <- [{Count, map_get(count, Row)}, {Time, scaled(map_get(wall_ns, Row), 1.0e6)}]
    ]);
summary(pipeline, #{stage := Stage} = Sum, Ns) ->
    #{count := Count, wall_ns := WallNs} = all(Sum, Ns),
    {Demand, Events} = events(Stage),
    #{
        callbacks => Count,
        time_on_callbacks => scaled(WallNs, 1.0e6),
        demand => Demand,
        events => Events
    }.

events(#{kind := producer, demand_received := Demand, events_out := Events}) -> {Demand, Events};
events(#{events_in := Came, events_out := Events}) -> {Came, Events};
events(none) -> {undefined, undefined}.

stats(cluster, Sum, Ns) ->
    #{Count => timings(row(Callback, Sum, Ns)) || {Count, _, Callback} <- ?CALLBACKS};
stats(pipeline, Sum, Ns) ->
    #{timings => timings(all(Sum, Ns))}.

timings(#{count := Count, wall_ns := WallNs} = Row) ->
    Times = maps:with([min, max, mean, stdev, range], Row),
    (maps:map(fun(_, TimeNs) -> scaled(TimeNs, 1.0e3) end, Times))#{
        callbacks => Count, total => scaled(WallNs, 1.0e3)
    }.

scaled(undefined, _By) -> undefined;
scaled(Number, By) -> Number / By.

all(Sum, Ns) ->
    of_callback([dyno_servers_window:all_callbacks(Sum)], Sum, Ns).

row(Name, #{callbacks := Callbacks} = Sum, Ns) ->
    of_callback([C || #{name := Is} = C <- Callbacks, Is =:= Name], Sum, Ns).

of_callback(Callbacks, Sum, Ns) ->
    case dyno_servers_row:callbacks(Sum#{callbacks := Callbacks}, Ns) of
        [Row] -> Row;
        [] -> #{count => 0, wall_ns => 0}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_modules, cluster}) ->
    "the cluster has no servers; give their callback modules as servers => [shop_orders]";
format_error({no_modules, pipeline}) ->
    "the pipeline has no stages; give their modules as producer, producer_consumer or consumer";
format_error({no_map, Monitored}) ->
    io_lib:format("a ~ts is a map with the key name", [Monitored]).
