%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_histogram).
-moduledoc false.
%% A histogram of times in nanoseconds, as a term. A bucket is at most 1 % of its values wide: seven
%% bits behind the first, as in dyno_histogram. Pure.

-export([new/0, record/2, merge/2, count/1, read/1, quantile/2]).
-export_type([t/0, result/0]).

-opaque t() :: #{
    count := non_neg_integer(),
    sum_ns := non_neg_integer(),
    min_ns := non_neg_integer() | infinity,
    max_ns := non_neg_integer(),
    buckets := #{non_neg_integer() => pos_integer()}
}.

-doc "Ascending buckets: from, to (exclusive), count.".
-type result() :: #{
    count := non_neg_integer(),
    sum_ns := non_neg_integer(),
    min_ns := non_neg_integer(),
    max_ns := non_neg_integer(),
    buckets := [{non_neg_integer(), pos_integer(), pos_integer()}]
}.

-define(BITS, 8).

-spec new() -> t().
new() ->
    #{count => 0, sum_ns => 0, min_ns => infinity, max_ns => 0, buckets => #{}}.

-spec record(non_neg_integer(), t()) -> t().
record(Ns, #{count := Count, sum_ns := Sum, min_ns := Min, max_ns := Max, buckets := Buckets}) ->
    Width = width(Ns),
    Low = Ns div Width * Width,
    #{
        count => Count + 1,
        sum_ns => Sum + Ns,
        %% An atom is more than any number.
        min_ns => min(Ns, Min),
        max_ns => max(Ns, Max),
        buckets => maps:update_with(Low, fun(N) -> N + 1 end, 1, Buckets)
    }.

-spec merge(t(), t()) -> t().
merge(A, B) ->
    Sum = fun(_, M, N) -> M + N end,
    maps:merge_with(
        fun
            (min_ns, M, N) -> min(M, N);
            (max_ns, M, N) -> max(M, N);
            (buckets, M, N) -> maps:merge_with(Sum, M, N);
            (_, M, N) -> M + N
        end,
        A,
        B
    ).

-spec count(t()) -> non_neg_integer().
count(#{count := Count}) -> Count.

width(Ns) when Ns < 1 bsl ?BITS -> 1;
width(Ns) -> 1 bsl (bits(Ns, 0) - ?BITS).

bits(0, Bits) -> Bits;
bits(N, Bits) -> bits(N bsr 1, Bits + 1).

-spec read(t()) -> result().
read(#{min_ns := Min, max_ns := Max, buckets := Buckets} = Histogram) ->
    Sorted = lists:sort(maps:to_list(Buckets)),
    Histogram#{
        min_ns := min(Min, Max), buckets := [{Low, Low + width(Low), N} || {Low, N} <- Sorted]
    }.

-doc "The middle of the quantile's bucket, within the recorded range.".
-spec quantile(float(), result()) -> number() | undefined.
quantile(_Q, #{count := 0}) ->
    undefined;
quantile(Q, #{count := Count, min_ns := Min, max_ns := Max, buckets := Buckets}) ->
    max(Min, min(Max, at_rank(max(1, ceil(Q * Count)), Buckets))).

at_rank(Rank, [{Low, High, Count} | _]) when Rank =< Count -> (Low + High - 1) / 2;
at_rank(Rank, [{_, _, Count} | Rest]) -> at_rank(Rank - Count, Rest).
