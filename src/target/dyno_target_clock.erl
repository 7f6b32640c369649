%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_clock).
-moduledoc """
By how much a node's clocks differ from this node's, and what that may be off by.

A node is asked for its clock some times. When the answer took T to come, its clock was read within
these T, and is taken to have been read in the middle: the error is at most T/2. The quickest answer
counts (Cristian, "Probabilistic clock synchronization", 1989).

What the clocks drift apart during a run, some microseconds a second, is what a later measurement
shows beside the first: at the run's end, and now and then before, since a node may leave. Where
that is more than both may be off by, times in between are corrected in proportion.
""".

-export([measure/1, shift_ms/3]).
-export([drift/2, better/2, is_due/3, straight_ms/3]).

-export_type([clock/0, reading/0, drift/0]).

-doc "A node's clocks, in nanoseconds: the monotonic one and the time of day.".
-type reading() :: {Monotonic :: integer(), System :: integer()}.

-doc """
How far ahead the node's clocks are of this node's (`monotonic_ns` means something to these two
nodes only), and the greatest error of both.
""".
-type clock() :: #{
    monotonic_ns := integer(),
    offset_ns := integer(),
    error_ns := non_neg_integer(),
    %% When, on this node's monotonic clock.
    at_ns := integer()
}.

-doc """
By how many millionths the node's monotonic clock runs faster than this node's, what that may be off
by, and between which measurements. Where it is no more than its error it may be nothing.
""".
-type drift() :: #{
    ppm := float(), error_ppm := float(), since_ns := integer(), until_ns := integer()
}.

-define(PINGS, 15).
%% Until then no drift is more than its error.
-define(FIRST_AGAIN_NS, 2_000_000_000).
-define(LONGEST_NS, 30_000_000_000).

-doc "Asks for the clock, which `Read` does, and computes the differences.".
-spec measure(Read :: fun(() -> reading())) -> clock().
measure(Read) ->
    hd(lists:sort(
        fun(#{error_ns := A}, #{error_ns := B}) -> A =< B end,
        [once(Read) || _ <- lists:seq(1, ?PINGS)]
    )).

-spec once(fun(() -> reading())) -> clock().
once(Read) ->
    Before = erlang:monotonic_time(nanosecond),
    SystemBefore = erlang:system_time(nanosecond),
    {Monotonic, System} = Read(),
    After = erlang:monotonic_time(nanosecond),
    Half = (After - Before + 1) div 2,
    #{
        monotonic_ns => Monotonic - (Before + Half),
        offset_ns => System - (SystemBefore + Half),
        error_ns => Half,
        at_ns => Before + Half
    }.

-doc """
What to add to times that a node counts from `Start`, by its own monotonic clock, so that they count
from `Zero` by this node's; both in nanoseconds.
""".
-spec shift_ms(Start :: integer(), Zero :: integer(), clock()) -> integer().
shift_ms(Start, Zero, #{monotonic_ns := Ahead}) ->
    round((Start - Ahead - Zero) / 1_000_000).

-doc "What two measurements of a node's clocks show of their pace.".
-spec drift(clock(), clock()) -> drift().
drift(#{at_ns := Since} = First, #{at_ns := Until} = Last) ->
    #{monotonic_ns := A, error_ns := ErrorA} = First,
    #{monotonic_ns := B, error_ns := ErrorB} = Last,
    Length = max(1, Until - Since),
    #{
        ppm => 1.0e6 * (B - A) / Length,
        error_ppm => 1.0e6 * (ErrorA + ErrorB) / Length,
        since_ns => Since,
        until_ns => Until
    }.

-doc "Of what an earlier measurement showed and what a later one does, the less uncertain one.".
-spec better(drift() | none, drift()) -> drift().
better(#{error_ppm := Error} = Old, #{error_ppm := More, until_ns := Until}) when Error < More ->
    Old#{until_ns := Until};
better(_Old, New) ->
    New.

-doc """
Whether it is time to measure again: when the last measurement is as old as it was young, and every
half minute at the latest. So one that leaves was measured for half of its time at least.
""".
-spec is_due(NowNs :: integer(), clock(), drift() | none) -> boolean().
is_due(NowNs, #{at_ns := AtNs}, none) ->
    NowNs - AtNs >= ?FIRST_AGAIN_NS;
is_due(NowNs, _Clock, #{since_ns := Since, until_ns := Until}) ->
    NowNs - Until >= min(Until - Since, ?LONGEST_NS).

-doc """
A time of a node, in milliseconds since `Zero` by its clock as it was measured first, by this node's
clock; `Zero` is on this node's monotonic clock, in nanoseconds.
""".
-spec straight_ms(number(), Zero :: integer(), drift()) -> number().
straight_ms(TimeMs, Zero, #{ppm := Ppm, error_ppm := Error, since_ns := Since}) when
    abs(Ppm) > Error
->
    TimeMs - round(Ppm / 1.0e6 * ((Zero - Since) / 1.0e6 + TimeMs));
straight_ms(TimeMs, _Zero, _Drift) ->
    TimeMs.
