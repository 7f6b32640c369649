%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_clock).
-moduledoc false.
%% The difference between a node's clocks and this node's, and its error.
%%
%% A node is asked repeatedly for its clock. If the answer took T, the clock is assumed to have been
%% read in the middle: the error is at most T/2. The quickest answer counts (Cristian,
%% "Probabilistic clock synchronization", 1989).

-export([measure/1, shift_ms/3]).
-export_type([clock/0, reading/0]).

-doc "A node's clocks, in nanoseconds: the monotonic one and the time of day.".
-type reading() :: {Monotonic :: integer(), System :: integer()}.

-doc "The lead of a node's clocks (`monotonic_ns` for these two nodes only), and their error.".
-type clock() :: #{
    monotonic_ns := integer(),
    offset_ns := integer(),
    error_ns := non_neg_integer()
}.

-define(PINGS, 15).

-spec measure(Read :: fun(() -> reading())) -> clock().
measure(Read) ->
    hd(
        lists:sort(
            fun(#{error_ns := A}, #{error_ns := B}) -> A =< B end,
            [once(Read) || _ <- lists:seq(1, ?PINGS)]
        )
    ).

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

-doc "From times since `Start` by a node's clock to times since `Zero` by this one's, in ns.".
-spec shift_ms(Start :: integer(), Zero :: integer(), clock()) -> integer().
shift_ms(Start, Zero, #{monotonic_ns := Ahead}) ->
    round((Start - Ahead - Zero) / 1_000_000).
