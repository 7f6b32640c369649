%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_vm).
-moduledoc """
Reads statistics of the Erlang VM: schedulers, run queues, memory, collections. `describe/0` lists
every value with unit and title.

## Cost

A reading takes 90 to 150 us (2 schedulers, OTP 27 and 29), most of it in four calls that ask every
scheduler; nothing walks over processes, ports or tables. A scheduler answers between two processes:
a NIF that does not yield delays a reading. Rates stay right: every reading carries its time.
""".

%% Reading
-export([enable/0, read/0]).
%% What was read
-export([difference/2, rates/3, describe/0]).

-export_type([raw/0, values/0, metric/0]).

-doc "Counters since the start of the VM, and gauges.".
-opaque raw() :: #{
    time_ns := integer(),
    schedulers := times(),
    counters := #{binary() => non_neg_integer()},
    gauges := #{binary() => non_neg_integer()}
}.

-doc "Values by name, in the units of `describe/0`. Unavailable values are left out.".
-type values() :: #{Name :: binary() => number()}.

-doc "A value's fields in a series of doc/recording.md.".
-type metric() :: #{name := binary(), unit := binary(), title := binary(), group := binary()}.

%% Active and total time of the online schedulers of a kind, in the runtime's unit.
-type times() :: #{normal | dirty_cpu | dirty_io => {non_neg_integer(), non_neg_integer()}}.

-define(MEMORY, [total, processes, system, atom, binary, code, ets]).

-doc "Makes the runtime measure scheduler utilisation while the calling process lives.".
-spec enable() -> ok.
enable() ->
    _ = erlang:system_flag(scheduler_wall_time, true),
    ok.

-doc "Takes one reading of this node.".
-spec read() -> raw().
read() ->
    {{input, Input}, {output, Output}} = erlang:statistics(io),
    {Reductions, _} = erlang:statistics(reductions),
    {Collections, _, _} = erlang:statistics(garbage_collection),
    {Switches, _} = erlang:statistics(context_switches),
    #{
        time_ns => erlang:monotonic_time(nanosecond),
        schedulers => scheduler_times(),
        counters => #{
            ~"vm.reductions" => Reductions,
            ~"vm.garbage_collections" => Collections,
            ~"vm.context_switches" => Switches,
            ~"vm.io.input" => Input,
            ~"vm.io.output" => Output
        },
        gauges => gauges()
    }.

-doc """
The values of the interval between two readings of the same node.

Rates are per second, utilisations are shares of the interval; queues, sizes and counts are of the
later reading.
""".
-spec difference(Earlier :: raw(), Later :: raw()) -> values().
difference(#{time_ns := Start} = Earlier, #{time_ns := End} = Later) ->
    Rates = rates(maps:get(counters, Earlier), maps:get(counters, Later), End - Start),
    Busy = utilisation(maps:get(schedulers, Earlier), maps:get(schedulers, Later)),
    maps:merge(maps:get(gauges, Later), maps:merge(Rates, Busy)).

-doc "Every possible value, in display order.".
-spec describe() -> [metric()].
describe() ->
    [
        #{name => Name, unit => Unit, title => Title, group => ~"vm"}
     || {Name, Unit, Title} <- [
            {~"vm.scheduler_utilisation.normal", ~"ratio", ~"Scheduler utilisation"},
            {~"vm.scheduler_utilisation.dirty_cpu", ~"ratio", ~"Dirty CPU scheduler utilisation"},
            {~"vm.scheduler_utilisation.dirty_io", ~"ratio", ~"Dirty IO scheduler utilisation"},
            {~"vm.run_queue.normal", ~"count", ~"Run queue"},
            {~"vm.run_queue.dirty_cpu", ~"count", ~"Dirty CPU run queue"},
            {~"vm.run_queue.dirty_io", ~"count", ~"Dirty IO run queue"},
            {~"vm.memory.total", ~"B", ~"Memory"},
            {~"vm.memory.processes", ~"B", ~"Memory of processes"},
            {~"vm.memory.system", ~"B", ~"Memory of the runtime system"},
            {~"vm.memory.atom", ~"B", ~"Memory of atoms"},
            {~"vm.memory.binary", ~"B", ~"Memory of binaries"},
            {~"vm.memory.code", ~"B", ~"Memory of code"},
            {~"vm.memory.ets", ~"B", ~"Memory of ETS tables"},
            {~"vm.reductions", ~"count/s", ~"Reductions"},
            {~"vm.garbage_collections", ~"count/s", ~"Garbage collections"},
            {~"vm.context_switches", ~"count/s", ~"Context switches between processes"},
            {~"vm.processes", ~"count", ~"Processes"},
            {~"vm.ports", ~"count", ~"Ports"},
            {~"vm.atoms", ~"count", ~"Atoms"},
            {~"vm.ets_tables", ~"count", ~"ETS tables"},
            {~"vm.io.input", ~"B/s", ~"Input through ports"},
            {~"vm.io.output", ~"B/s", ~"Output through ports"}
        ]
    ].

%% Reading

gauges() ->
    {Normal, DirtyCpu, DirtyIo} = run_queues(erlang:statistics(run_queue_lengths_all), 0),
    maps:merge(
        #{
            ~"vm.run_queue.normal" => Normal,
            ~"vm.run_queue.dirty_cpu" => DirtyCpu,
            ~"vm.run_queue.dirty_io" => DirtyIo,
            ~"vm.processes" => erlang:system_info(process_count),
            ~"vm.ports" => erlang:system_info(port_count),
            ~"vm.atoms" => erlang:system_info(atom_count),
            ~"vm.ets_tables" => erlang:system_info(ets_count)
        },
        #{
            <<"vm.memory.", (atom_to_binary(Kind))/binary>> => Bytes
         || {Kind, Bytes} <- erlang:memory(), lists:member(Kind, ?MEMORY)
        }
    ).

%% The normal schedulers' queues come first; the last two are the dirty schedulers'.
run_queues([DirtyCpu, DirtyIo], Normal) -> {Normal, DirtyCpu, DirtyIo};
run_queues([Length | Lengths], Normal) -> run_queues(Lengths, Normal + Length).

scheduler_times() ->
    case erlang:statistics(scheduler_wall_time_all) of
        undefined ->
            #{};
        Times ->
            #{
                Kind => {lists:sum([A || {_, A, _} <- Of]), lists:sum([T || {_, _, T} <- Of])}
             || Kind := {First, Last} <- scheduler_limits(),
                Of <- [[Time || {Id, _, _} = Time <- Times, Id >= First, Id =< Last]]
            }
    end.

%% Normal, dirty CPU, dirty I/O schedulers; without offline ones, which would look idle.
scheduler_limits() ->
    Normal = erlang:system_info(schedulers),
    Dirty = Normal + erlang:system_info(dirty_cpu_schedulers),
    #{
        normal => {1, erlang:system_info(schedulers_online)},
        dirty_cpu => {Normal + 1, Normal + erlang:system_info(dirty_cpu_schedulers_online)},
        dirty_io => {Dirty + 1, Dirty + erlang:system_info(dirty_io_schedulers)}
    }.

%% Differences

-doc "Growth of counters per second; a counter that ran backwards has no value.".
-spec rates(Counters, Counters, DurationNs :: integer()) -> values() when
    Counters :: #{binary() => number()}.
rates(_Earlier, _Later, DurationNs) when DurationNs =< 0 ->
    #{};
rates(Earlier, Later, DurationNs) ->
    #{
        Name => (Value1 - Value0) * 1_000_000_000 / DurationNs
     || Name := Value1 <- Later, {ok, Value0} <- [maps:find(Name, Earlier)], Value1 >= Value0
    }.

utilisation(Earlier, Later) ->
    #{
        <<"vm.scheduler_utilisation.", (atom_to_binary(Kind))/binary>> =>
            min(1.0, (Active1 - Active0) / (Total1 - Total0))
     || Kind := {Active1, Total1} <- Later,
        {ok, {Active0, Total0}} <- [maps:find(Kind, Earlier)],
        %% Schedulers going off or on line make the sums run backwards.
        Total1 > Total0,
        Active1 >= Active0
    }.
