%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_clock).
-moduledoc """
By how much a node's clocks differ from this node's, and what that may be off by.

A node is asked for its clock some times. When the answer took T to come, its clock was read within
these T, and is taken to have been read in the middle: the error is at most T/2. The quickest answer
counts (Cristian, "Probabilistic clock synchronization", 1989).
""".

-export([measure/1, shift_ms/3]).
-export_type([clock/0, reading/0]).

-doc "A node's clocks, in nanoseconds: the monotonic one and the time of day.".
-type reading() :: {Monotonic :: integer(), System :: integer()}.

-doc """
How far ahead the node's clocks are of this node's (`monotonic_ns` means something to these two
nodes only), and the greatest error of both.
""".
-type clock() :: #{
    monotonic_ns := integer(),
    offset_ns := integer(),
    error_ns := non_neg_integer()
}.

-define(PINGS, 15).

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
        error_ns => Half
    }.

-doc """
What to add to times that a node counts from `Start`, by its own monotonic clock, so that they count
from `Zero` by this node's; both in nanoseconds.
""".
-spec shift_ms(Start :: integer(), Zero :: integer(), clock()) -> integer().
shift_ms(Start, Zero, #{monotonic_ns := Ahead}) ->
    round((Start - Ahead - Zero) / 1_000_000).
