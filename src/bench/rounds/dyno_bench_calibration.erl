%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_calibration).
-moduledoc false.
%% Finds the iterations of an epoch. An epoch must be long compared with reading the clocks at its
%% edges (20 us). Waiting for other programs is known only to within one of their time slices, so a
%% short epoch may seem to have had no time at all. That alone never lengthens epochs: they would
%% last a hundred times as long, and few rounds would fit.

-export([iterations/1, first/1, iterations/2, balance/2, net_ns/1, least_ns/1, is_believable/1]).
-export([idle/1]).
-export_type([calibrated/0, timed/0]).

-define(EPOCH_NS, 2_000_000).
%% Some turns of the scheduler, so that workers run at once and not one after the other.
-define(LEAST_NS, 200_000).
%% With this many workers per scheduler, workers run one after the other, each within its turn.
%% Longer epochs of 10,000 workers would take a second each.
-define(MANY, 20).
-define(LEAST_OF_MANY_NS, 50_000).
-define(MAX_ITERATIONS, 1_000_000_000).
-define(LONG_NS, 40_000_000).
%% With very many workers: the largest factor for a slow code's iterations.
-define(LONG_OF_MANY, 4).
%% The largest factor by which other programs are assumed to lengthen an epoch.
-define(DISTURBED, 8).

%% Time for reading the clocks around an epoch, and the share by which these may disagree.
-define(EDGES_NS, 30_000).
-define(AGREE, 0.97).
%% A thread that neither computes nor waits for a processor has nothing to do: its code waits for
%% another process, a program, a lock or a file. Codes that only compute have less than 1 %.
-define(IDLE, 0.05).

-type epoch() :: #{
    wall_ns := non_neg_integer(), wait_ns := non_neg_integer() | undefined, _ => _
}.

-opaque timed() :: {
    {NetNs :: pos_integer(), WallNs :: pos_integer()},
    NeededNs :: pos_integer(),
    EpochNs :: pos_integer()
}.

-doc "The time includes the workers' starts and ends.".
-type calibrated() :: {Iterations :: pos_integer(), EpochNs :: pos_integer()}.

-spec iterations(Epochs :: fun((pos_integer()) -> [epoch(), ...])) -> calibrated().
iterations(Epochs) ->
    {_, First} = first(Epochs),
    iterations(Epochs, First).

-spec first(Epochs :: fun((pos_integer()) -> [epoch(), ...])) -> {[epoch(), ...], timed()}.
first(Epochs) -> timed(Epochs, 1).

-spec iterations(Epochs :: fun((pos_integer()) -> [epoch(), ...]), timed()) -> calibrated().
iterations(Epochs, First) ->
    enough(fun(N) -> element(2, timed(Epochs, N)) end, 1, First).

timed(Epochs, N) ->
    StartNs = erlang:monotonic_time(nanosecond),
    Measured = Epochs(N),
    ElapsedNs = erlang:monotonic_time(nanosecond) - StartNs,
    EpochNs = lists:max([1, ElapsedNs | [Ns || #{wall_ns := Ns} <- Measured]]),
    {Measured, {ordinary(Measured), needed_ns(length(Measured)), EpochNs}}.

-doc "Gives slow codes the iterations of the fastest; with many workers the number matters more.".
-spec balance(#{Code => calibrated()}, Workers :: pos_integer()) -> #{Code => calibrated()}.
balance(Needed, Workers) ->
    Most = lists:max([N || _ := {N, _} <- Needed]),
    Times =
        case for_each_scheduler(Workers) >= ?MANY of
            true -> ?LONG_OF_MANY;
            false -> 1
        end,
    #{
        Code => with_iterations(min(Most, max(Times * N, N * ?LONG_NS div EpochNs)), Calibrated)
     || Code := {N, EpochNs} = Calibrated <- Needed
    }.

with_iterations(New, {N, EpochNs}) ->
    {New, max(1, EpochNs * New div N)}.

%% Must be long enough twice in a row. A code's first call loads modules or starts processes, which
%% has taken 20,000 times as long as later calls.
enough(Epochs, N, Timed) ->
    case Timed of
        %% The median worker.
        {{Ns, _}, ?LEAST_OF_MANY_NS, EpochNs} when 2 * Ns >= ?LEAST_OF_MANY_NS ->
            {N, EpochNs};
        {{Ns, _}, NeededNs, _} when Ns >= NeededNs ->
            case Epochs(N) of
                {{Again, _}, _, EpochNs} when Again >= NeededNs -> {N, EpochNs};
                Short -> grown(Epochs, N, Short)
            end;
        Short ->
            grown(Epochs, N, Short)
    end.

needed_ns(Workers) ->
    case for_each_scheduler(Workers) of
        Crowded when Crowded >= ?MANY -> ?LEAST_OF_MANY_NS;
        Crowded -> max(?LEAST_NS, ?EPOCH_NS div Crowded)
    end.

for_each_scheduler(Workers) -> max(1, Workers div erlang:system_info(schedulers_online)).

%% The worker with the least time, or of more workers than processors the median one.
ordinary(Epochs) ->
    Sorted = lists:sort([{net_ns(E), max(1, map_get(wall_ns, E))} || E <- Epochs]),
    case length(Sorted) > erlang:system_info(schedulers_online) of
        true -> lists:nth((length(Sorted) + 1) div 2, Sorted);
        false -> hd(Sorted)
    end.

grown(_Epochs, N, {_, _, EpochNs}) when N >= ?MAX_ITERATIONS ->
    {N, EpochNs};
grown(Epochs, N, {{Ns, WallNs}, NeededNs, _}) ->
    Believed = max(Ns, WallNs / ?DISTURBED),
    Enough = max(ceil(N * 1.2), ceil(N * NeededNs * 1.2 / Believed)),
    More = min(?MAX_ITERATIONS, max(N + 1, min(Enough, N * 100))),
    enough(Epochs, More, Epochs(More)).

-doc """
Without waiting for other programs. All of the time if the code itself waits: its thread's wait for
a processor may then be the work for which the code waits, by another thread or program.
""".
-spec net_ns(epoch()) -> pos_integer().
net_ns(#{wall_ns := Wall} = Epoch) ->
    case idle([Epoch]) of
        {waits, _} when Wall > ?EDGES_NS -> Wall;
        _ -> without_wait_ns(Epoch)
    end.

without_wait_ns(#{wall_ns := Wall, wait_ns := Wait}) when is_integer(Wait) -> max(1, Wall - Wait);
without_wait_ns(#{wall_ns := Wall}) -> max(1, Wall).

-doc "A lower bound of an epoch's time, even if its clocks disagree.".
-spec least_ns(epoch()) -> pos_integer().
least_ns(#{cpu_ns := Cpu} = Epoch) when is_integer(Cpu) ->
    max(without_wait_ns(Epoch), Cpu - ?EDGES_NS);
least_ns(Epoch) ->
    without_wait_ns(Epoch).

-doc "Whether a code waits, by the share of its time in which its thread had nothing to do.".
-spec idle([epoch()]) -> {waits | computes, Share :: float()} | unknown.
idle(Epochs) ->
    Known = [
        {Wall - Wait, Cpu}
     || #{wall_ns := Wall, wait_ns := Wait, cpu_ns := Cpu} <- Epochs,
        is_integer(Wait),
        is_integer(Cpu)
    ],
    Own = lists:sum([Ns || {Ns, _} <- Known]),
    case Own - lists:sum([Cpu || {_, Cpu} <- Known]) of
        _ when Own =< 0 -> unknown;
        Idle when Idle > ?IDLE * Own -> {waits, Idle / Own};
        Idle -> {computes, max(0, Idle) / Own}
    end.

-doc """
Whether the clocks of an epoch agree. The wall clock and the thread's clocks are not read at the
same instant. If another program gets the processor in between, its time counts as waiting but not
as epoch time. The rest is then less than the thread's CPU time, or nothing.
""".
-spec is_believable(epoch()) -> boolean().
is_believable(#{wall_ns := Wall, wait_ns := Wait} = Epoch) when is_integer(Wait), Wait > 0 ->
    case Epoch of
        _ when Wait >= Wall -> false;
        #{cpu_ns := Cpu} when is_integer(Cpu) -> Wall - Wait >= ?AGREE * (Cpu - ?EDGES_NS);
        #{} -> true
    end;
is_believable(_Epoch) ->
    true.
