%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_histogram).
-moduledoc """
Keeps a whole distribution in bounded memory, recorded by many processes at once.

The buckets are log-linear, as in Gil Tene's HdrHistogram: every power of two has 128 buckets of
equal width (7 bits). A bucket is at most 1/128 (0.78 %) of its values wide, its middle at most 0.4
% from any of them. Values below 256 have a bucket each; those from 2^42 on (73 minutes in
nanoseconds) share the overflow bucket. Minimum, maximum and sum are exact.

Recording uses `m:counters` and `m:atomics`, without owner or messages. A `t:snapshot/0` is a plain
map, to send, store, merge and subtract.

## Examples

```erlang
1> H = dyno_histogram:new(), [dyno_histogram:record(H, V) || V <- [3, 1, 2]].
[ok,ok,ok]
2> dyno_histogram:quantile(dyno_histogram:snapshot(H), 0.5).
2
```

`record/2` reads one atomic and adds to two counters: 85 to 100 ns on an AMD EPYC, 60 ns more in the
bucket of `min` or `max`. Each scheduler has its own cache lines, in 37 kB of memory a scheduler.
`snapshot/1` reads all 4,609 buckets: about 0.1 ms with two schedulers.
""".

%% Recording
-export([new/0, record/2, snapshot/1]).
%% Calculating with snapshots
-export([empty/0, merge/2, subtract/2]).
%% Asking a snapshot
-export([quantile/2, mean/1, to_recording/1]).
%% The buckets
-export([index/1, bounds/1, scheme/0]).

-define(BITS, 7).
%% The shift of values with 42 bits.
-define(OVERFLOW_FROM, (1 bsl 42)).
-define(OVERFLOW, ((34 bsl ?BITS) + (2 bsl ?BITS))).
-define(LARGEST, 16#7FFFFFFFFFFFFFFF).

%% Positions in the counters: a bucket's index + 1, then the sum.
-define(SUM, (?OVERFLOW + 2)).
%% Positions in the atomics.
-define(MIN, 1).
-define(MAX, 2).
%% The buckets of min and max in one word.
-define(INNER, 3).
-define(INDEX_BITS, 13).
-define(INDEX_MASK, ((1 bsl ?INDEX_BITS) - 1)).

-doc "A histogram that any process of its node can record into.".
-opaque t() :: {Counts :: counters:counters_ref(), Extremes :: atomics:atomics_ref()}.

-doc "A value that fits a signed 64-bit counter.".
-type value() :: 0..?LARGEST.

-doc "A bucket's number, from 0, ascending with the values.".
-type index() :: 0..?OVERFLOW.

-doc "The values until a moment; without any, `min` and `max` are `undefined`.".
-type snapshot() :: #{
    count := non_neg_integer(),
    sum := non_neg_integer(),
    min := value() | undefined,
    max := value() | undefined,
    buckets := buckets()
}.
-type buckets() :: [{index(), pos_integer()}].

-export_type([t/0, value/0, index/0, snapshot/0]).

-doc "An empty histogram.".
-spec new() -> t().
new() ->
    Extremes = atomics:new(3, [{signed, true}]),
    ok = atomics:put(Extremes, ?MIN, ?LARGEST),
    ok = atomics:put(Extremes, ?MAX, 0),
    ok = atomics:put(Extremes, ?INNER, inner(?OVERFLOW, 0)),
    {counters:new(?SUM, [write_concurrency]), Extremes}.

-doc """
Records a value. See Cost above.

A negative value, or one above 2^63 - 1, is an error of the caller.
""".
-spec record(t(), value()) -> ok.
record({Counts, Extremes}, Value) when
    is_integer(Value), Value >= 0, Value =< ?LARGEST
->
    Index = index(Value),
    %% The extremes first, for readers that see the count. An atomic costs a memory barrier, so one
    %% word gives the buckets between which nothing can be extreme.
    case atomics:get(Extremes, ?INNER) of
        Inner when Index > Inner bsr ?INDEX_BITS, Index < Inner band ?INDEX_MASK -> ok;
        Inner -> widen(Extremes, Value, Inner)
    end,
    ok = counters:add(Counts, Index + 1, 1),
    counters:add(Counts, ?SUM, Value).

-doc """
The values so far.

A snapshot taken after a message was received includes all values that the sender recorded before.
During recording, a snapshot may have a value's count and not yet its part of the sum.
""".
-spec snapshot(t()) -> snapshot().
snapshot({Counts, Extremes}) ->
    Buckets = read_buckets(Counts, ?OVERFLOW, []),
    Sum = counters:get(Counts, ?SUM),
    Min = atomics:get(Extremes, ?MIN),
    Max = atomics:get(Extremes, ?MAX),
    case Buckets of
        [] -> empty();
        _ -> #{count => total(Buckets), sum => Sum, min => Min, max => Max, buckets => Buckets}
    end.

-doc "The snapshot of an empty histogram, the neutral element of `merge/2`.".
-spec empty() -> snapshot().
empty() ->
    #{count => 0, sum => 0, min => undefined, max => undefined, buckets => []}.

-doc "Merges two snapshots, as if one histogram had recorded the values of both.".
-spec merge(snapshot(), snapshot()) -> snapshot().
merge(#{count := 0}, B) ->
    B;
merge(A, #{count := 0}) ->
    A;
merge(A, B) ->
    #{
        count => maps:get(count, A) + maps:get(count, B),
        sum => maps:get(sum, A) + maps:get(sum, B),
        min => min(maps:get(min, A), maps:get(min, B)),
        max => max(maps:get(max, A), maps:get(max, B)),
        buckets => add_buckets(maps:get(buckets, A), maps:get(buckets, B))
    }.

-doc """
The values between two snapshots of one histogram.

Counts and sum are exact. `min` and `max` are exact if they lie beyond those of the earlier
snapshot; otherwise they are bounds of the outermost buckets, within 0.8 %. An earlier snapshot that
is not part of the later one is an error of the caller (`badarg`).
""".
-spec subtract(Later :: snapshot(), Earlier :: snapshot()) -> snapshot().
subtract(Later, #{count := 0}) ->
    Later;
subtract(#{sum := SumLater} = Later, #{sum := SumEarlier} = Earlier) ->
    case subtract_buckets(maps:get(buckets, Later), maps:get(buckets, Earlier)) of
        [] ->
            empty();
        [{Lowest, _} | _] = Buckets ->
            {Highest, _} = lists:last(Buckets),
            #{
                count => total(Buckets),
                sum => max(0, SumLater - SumEarlier),
                min => interval_min(Lowest, Later, Earlier),
                max => interval_max(Highest, Later, Earlier),
                buckets => Buckets
            };
        not_contained ->
            error(badarg, [Later, Earlier])
    end.

-doc """
The value of rank `ceil(Q * count)`, with `Q` from 0 to 1 (nearest rank; definition 1 of Hyndman and
Fan, 1996): the middle of its bucket, within the recorded range. The relative error is at most 0.4
%, in the overflow bucket unknown; the first and last rank give the exact `min` and `max`.
""".
-spec quantile(snapshot(), Q :: number()) -> value() | undefined.
quantile(#{count := 0}, Q) when Q >= 0, Q =< 1 ->
    undefined;
quantile(#{count := Count, min := Min, max := Max, buckets := Buckets}, Q) when Q >= 0, Q =< 1 ->
    %% 0.07 * 100 is 7.000000000000001 in binary: that is rank 7, not 8.
    case ceil(Q * Count * (1 - 1.0e-14)) of
        Rank when Rank =< 1 -> Min;
        Rank when Rank >= Count -> Max;
        Rank -> min(Max, max(Min, middle(at_rank(Rank, Buckets))))
    end.

-doc "The exact arithmetic mean, not by buckets.".
-spec mean(snapshot()) -> float() | undefined.
mean(#{count := 0}) ->
    undefined;
mean(#{count := Count, sum := Sum}) ->
    Sum / Count.

-doc "The recording's buckets, `Low` inclusive, `High` exclusive; overflow ends at the maximum.".
-spec to_recording(snapshot()) ->
    [{Low :: non_neg_integer(), High :: pos_integer(), Count :: pos_integer()}].
to_recording(#{max := Max, buckets := Buckets}) ->
    [to_recording(bounds(Index), Index, Count, Max) || {Index, Count} <- Buckets].

-doc "The bucket of a value.".
-spec index(value()) -> index().
index(Value) when is_integer(Value), Value >= 0 ->
    %% The nested guards give the JIT the range, so that it omits checks for large integers.
    if
        Value < ?OVERFLOW_FROM -> index_32(Value);
        true -> ?OVERFLOW
    end.

-doc "The bounds of a bucket: `Low` inclusive, `High` exclusive.".
-spec bounds(index()) -> {Low :: non_neg_integer(), High :: pos_integer()}.
bounds(Index) when Index >= 0, Index < (2 bsl ?BITS) ->
    {Index, Index + 1};
bounds(?OVERFLOW) ->
    {?OVERFLOW_FROM, ?LARGEST + 1};
bounds(Index) when Index < ?OVERFLOW ->
    Shift = (Index bsr ?BITS) - 1,
    Mantissa = Index - (Shift bsl ?BITS),
    {Mantissa bsl Shift, (Mantissa + 1) bsl Shift}.

-doc "The name of this bucket scheme in recordings.".
-spec scheme() -> binary().
scheme() ->
    ~"dyno-log-linear-7".

%% The index is Shift * 128 + (Value bsr Shift), with the least Shift that leaves 8 bits, found by
%% halving, as the BEAM cannot count bits: a step by K applies if at least 8 + K bits are left.

index_32(Value) when Value >= 1 bsl 39 -> index_16(Value bsr 32, 32 bsl ?BITS);
index_32(Value) -> index_16(Value, 0).

index_16(Value, Base) when Value >= 1 bsl 23 -> index_8(Value bsr 16, Base + (16 bsl ?BITS));
index_16(Value, Base) -> index_8(Value, Base).

index_8(Value, Base) when Value >= 1 bsl 15 -> index_4(Value bsr 8, Base + (8 bsl ?BITS));
index_8(Value, Base) -> index_4(Value, Base).

index_4(Value, Base) when Value >= 1 bsl 11 -> index_2(Value bsr 4, Base + (4 bsl ?BITS));
index_4(Value, Base) -> index_2(Value, Base).

index_2(Value, Base) when Value >= 1 bsl 9 -> index_1(Value bsr 2, Base + (2 bsl ?BITS));
index_2(Value, Base) -> index_1(Value, Base).

index_1(Value, Base) when Value >= 1 bsl 8 -> (Value bsr 1) + Base + (1 bsl ?BITS);
index_1(Value, Base) -> Value + Base.

%% A late write by another process makes the word too narrow; the next visit corrects it.
widen(Extremes, Value, Inner) ->
    Min = extreme(Extremes, ?MIN, Value, atomics:get(Extremes, ?MIN)),
    Max = extreme(Extremes, ?MAX, Value, atomics:get(Extremes, ?MAX)),
    case inner(index(Min), index(Max)) of
        Inner -> ok;
        Wider -> atomics:put(Extremes, ?INNER, Wider)
    end.

inner(MinIndex, MaxIndex) ->
    (MinIndex bsl ?INDEX_BITS) bor MaxIndex.

%% If another process moved the extreme meanwhile, try again while this value is still more extreme.
extreme(Extremes, At, Value, Before) when
    At =:= ?MIN, Value < Before; At =:= ?MAX, Value > Before
->
    case atomics:compare_exchange(Extremes, At, Before, Value) of
        ok -> Value;
        Now -> extreme(Extremes, At, Value, Now)
    end;
extreme(_, _, _, Before) ->
    Before.

read_buckets(_, -1, Buckets) ->
    Buckets;
read_buckets(Counts, Index, Buckets) ->
    case counters:get(Counts, Index + 1) of
        0 -> read_buckets(Counts, Index - 1, Buckets);
        Count -> read_buckets(Counts, Index - 1, [{Index, Count} | Buckets])
    end.

total(Buckets) -> lists:sum([Count || {_, Count} <- Buckets]).

add_buckets([{I, A} | As], [{I, B} | Bs]) -> [{I, A + B} | add_buckets(As, Bs)];
add_buckets([{I, _} = A | As], [{J, _} | _] = Bs) when I < J -> [A | add_buckets(As, Bs)];
add_buckets([_ | _] = As, [B | Bs]) -> [B | add_buckets(As, Bs)];
add_buckets([], Bs) -> Bs;
add_buckets(As, []) -> As.

subtract_buckets(As, Bs) ->
    subtract_buckets(As, Bs, []).

subtract_buckets(As, [], Done) ->
    lists:reverse(Done, As);
subtract_buckets([{I, N} | As], [{I, N} | Bs], Done) ->
    subtract_buckets(As, Bs, Done);
subtract_buckets([{I, A} | As], [{I, B} | Bs], Done) when A > B ->
    subtract_buckets(As, Bs, [{I, A - B} | Done]);
subtract_buckets([{I, _} = A | As], [{J, _} | _] = Bs, Done) when I < J ->
    subtract_buckets(As, Bs, [A | Done]);
subtract_buckets(_, _, _) ->
    not_contained.

interval_min(_, #{min := Later}, #{min := Earlier}) when Later < Earlier -> Later;
interval_min(Lowest, #{min := Later}, _) when is_integer(Later) ->
    max(Later, element(1, bounds(Lowest))).

interval_max(_, #{max := Later}, #{max := Earlier}) when is_integer(Later), Later > Earlier ->
    Later;
interval_max(Highest, #{max := Later}, _) when is_integer(Later) ->
    min(Later, element(2, bounds(Highest)) - 1).

at_rank(Rank, [{Index, Count} | _]) when Rank =< Count -> Index;
at_rank(Rank, [{_, Count} | Buckets]) -> at_rank(Rank - Count, Buckets).

%% The overflow bucket has no useful middle: the result is max.
middle(Index) ->
    {Low, High} = bounds(Index),
    (Low + High - 1) bsr 1.

to_recording({Low, _}, ?OVERFLOW, Count, Max) -> {Low, Max + 1, Count};
to_recording({Low, High}, _, Count, _) -> {Low, High, Count}.
