%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_calibration).
-moduledoc false.
%% How many iterations an epoch needs: it must be long against reading the clocks at its edges,
%% which takes 20 us. What others took of the wall time is measured to within a time slice of theirs
%% only, so a short epoch may seem to have had no time at all; how much more is needed is never
%% inferred from that alone, or epochs would last a hundred times as long, and there would be few
%% rounds.

-export([iterations/1, first/1, iterations/2, balance/2, net_ns/1, least_ns/1, is_believable/1]).
-export_type([calibrated/0, timed/0]).

-define(EPOCH_NS, 2_000_000).
%% Some turns of the scheduler, so that workers run at once and not one after the other.
-define(LEAST_NS, 200_000).
%% With so many workers for each scheduler they run one after the other whatever is done, each
%% within its turn; longer ones would take the node a second for each epoch of 10,000 workers.
-define(MANY, 20).
-define(LEAST_OF_MANY_NS, 50_000).
-define(MAX_ITERATIONS, 1_000_000_000).
%% What a slow code's epochs may take, to have as many iterations as a fast one's.
-define(LONG_NS, 40_000_000).
%% The same of very many workers, in times of what it needs itself.
-define(LONG_OF_MANY, 4).
%% The most that others are believed to have taken of an epoch, as a factor.
-define(DISTURBED, 8).

%% What the thread computes around an epoch while the clocks are read, and the share by which the
%% clocks of an epoch may contradict each other.
-define(EDGES_NS, 30_000).
-define(AGREE, 0.97).

-type epoch() :: #{
    wall_ns := non_neg_integer(), wait_ns := non_neg_integer() | undefined, _ => _
}.

-doc "What epochs of so many iterations took.".
-opaque timed() :: {
    {NetNs :: pos_integer(), WallNs :: pos_integer()},
    NeededNs :: pos_integer(),
    EpochNs :: pos_integer()
}.

-doc "How many iterations an epoch has, and how long it takes with the workers' starts and ends.".
-type calibrated() :: {Iterations :: pos_integer(), EpochNs :: pos_integer()}.

-doc "Measures with more and more iterations, until they are enough.".
-spec iterations(Epochs :: fun((pos_integer()) -> [epoch(), ...])) -> calibrated().
iterations(Epochs) ->
    {_, First} = first(Epochs),
    iterations(Epochs, First).

-doc "Measures one iteration: the first call of the code.".
-spec first(Epochs :: fun((pos_integer()) -> [epoch(), ...])) -> {[epoch(), ...], timed()}.
first(Epochs) -> timed(Epochs, 1).

-doc "Goes on from the first iteration.".
-spec iterations(Epochs :: fun((pos_integer()) -> [epoch(), ...]), timed()) -> calibrated().
iterations(Epochs, First) ->
    enough(fun(N) -> element(2, timed(Epochs, N)) end, 1, First).

timed(Epochs, N) ->
    StartNs = erlang:monotonic_time(nanosecond),
    Measured = Epochs(N),
    ElapsedNs = erlang:monotonic_time(nanosecond) - StartNs,
    EpochNs = lists:max([1, ElapsedNs | [Ns || #{wall_ns := Ns} <- Measured]]),
    {Measured, {ordinary(Measured), needed_ns(length(Measured)), EpochNs}}.

-doc """
As many iterations for each of several codes as the fastest needs; a slow code would take too long
with them, and gets fewer: at that length it makes no difference. An epoch of very many workers is
long because of their number, and that of each so short that it does: the heap has to grow anew.
""".
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

%% Twice in a row: the first may have been disturbed, and the first call of a code loads modules or
%% starts what it needs, which has taken 20,000 times as long as the calls after it.
enough(Epochs, N, Timed) ->
    case Timed of
        %% The worker in the middle of so many tells enough.
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

%% An epoch of thousands of workers is long enough with less of each.
needed_ns(Workers) ->
    case for_each_scheduler(Workers) of
        Crowded when Crowded >= ?MANY -> ?LEAST_OF_MANY_NS;
        Crowded -> max(?LEAST_NS, ?EPOCH_NS div Crowded)
    end.

for_each_scheduler(Workers) -> max(1, Workers div erlang:system_info(schedulers_online)).

%% Of the worker that has had the least time. Where there are more workers than processors, the
%% first may be done before the last begins: of the one in the middle.
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

-doc "The time of an epoch, less what others took of it.".
-spec net_ns(epoch()) -> pos_integer().
net_ns(#{wall_ns := Wall, wait_ns := Wait}) when is_integer(Wait) -> max(1, Wall - Wait);
net_ns(#{wall_ns := Wall}) -> max(1, Wall).

-doc "What an epoch took at least, also where its clocks contradict each other.".
-spec least_ns(epoch()) -> pos_integer().
least_ns(#{cpu_ns := Cpu} = Epoch) when is_integer(Cpu) -> max(net_ns(Epoch), Cpu - ?EDGES_NS);
least_ns(Epoch) -> net_ns(Epoch).

-doc """
Whether the clocks of an epoch agree. The wall clock and the thread's own clocks are not read at one
instant: if another program gets the processor between the two, its time counts as waiting, but not
as time of the epoch. Then less is left than the thread has computed, or nothing at all.
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
