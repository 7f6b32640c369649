%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_counters).
-moduledoc false.
%% The counters of one server process, an atomics of 35 kB that the instrument reads and resets:
%%
%%   single numbers   the callback under way, the longest queue, ...
%%   looks            of another process at the queue, since a callback began or ended
%%   directory        the power of two and the series of each block, in order of first use
%%   blocks           of 32 counters, for the 32 parts of a power of two
%%   coarse           a counter for each power of two of each series, if the blocks run out
%%
%% A series is a number from 1 to 32: a callback with a kind of message, or a fixed one of
%% dyno_agent_server_hook. A bucket is four of dyno_histogram's, 3 % wide. Only the process adds and
%% only the instrument subtracts, so nothing is lost between two windows.

-export([new/0, begin_callback/3, end_callback/3, record/5, add/3, put/3, get/2]).
-export([skip/1, stand_for_skipped/1, scaled/1, hook_ends/2, state/1, seen/2]).
%% The instrument's
-export([under_way/1, hook_begins/1, time/2, blocks/1, ask/3, see/3]).
-export([read/2, histogram/1, lengths/1, index/1, bounds/1]).
-export_type([t/0, blocks/0, series/0, peer/0, values/0, histogram/0]).

-type t() :: atomics:atomics_ref().
-type series() :: 1..32.

-type blocks() :: #{non_neg_integer() => pos_integer()}.

-type number_name() ::
    queue_max
    | coarse
    | buffered
    | skipped
    | untimed
    | first
    | gone
    | dirty
    | {events | demand, peer()}.

-doc "Another stage of GenStage, numbered as met; the last number is all others.".
-type peer() :: 1..20.

-type values() :: #{
    series := #{series() => [{Index :: non_neg_integer(), Count :: pos_integer()}]},
    queue_max := non_neg_integer(),
    untimed := non_neg_integer(),
    %% How often the process was seen in a dirty scheduler.
    dirty := non_neg_integer(),
    events := #{peer() => pos_integer()},
    demand := #{peer() => pos_integer()}
}.

-doc "A snapshot of dyno_histogram; none if nothing was counted.".
-type histogram() ::
    none
    | #{
        count := pos_integer(),
        buckets := [{non_neg_integer(), pos_integer()}, ...],
        sum := non_neg_integer(),
        min := non_neg_integer(),
        max := non_neg_integer()
    }.

-define(BEGUN, 1).
-define(USED, 2).
%% The looks at the queue: the state in which they are, their number, and when one was begun.
-define(LOOKED, 50).
-define(LOOKS, 51).
-define(ASKED, 54).
-define(MOST_LOOKS, 64).
-define(QUEUE_BITS, 20).
-define(QUEUE_MASK, (1 bsl ?QUEUE_BITS - 1)).
-define(PEERS, 20).
-define(DIRECTORY, 64).
-define(BLOCKS, 96).
-define(BLOCK_SIZE, 32).
-define(FIRST_BLOCK, (?DIRECTORY + ?BLOCKS)).
-define(POWERS, 37).
-define(POWER_BITS, 6).
-define(SERIES, 32).
-define(CALLBACKS, 25).
-define(COARSE, (?FIRST_BLOCK + ?BLOCKS * ?BLOCK_SIZE - ?POWERS)).
-define(FIRST_LOOK, (?COARSE + ?POWERS * (?SERIES + 1))).
-define(SIZE, (?FIRST_LOOK + ?MOST_LOOKS)).
-define(SERIES_BITS, 6).
-define(SERIES_MASK, (1 bsl ?SERIES_BITS - 1)).

-define(SCALE, 16).

-define(BITS, 7).
-define(OVERFLOW_FROM, (1 bsl 42)).
-define(OVERFLOW, ((34 bsl ?BITS) + (2 bsl ?BITS))).

-spec new() -> t().
new() -> atomics:new(?SIZE, [{signed, true}]).

-spec begin_callback(t(), pos_integer(), series()) -> ok.
begin_callback(Counters, SinceBase, Series) ->
    atomics:put(Counters, ?BEGUN, SinceBase bsl ?SERIES_BITS bor Series).

-spec end_callback(t(), pos_integer(), series()) -> ok.
end_callback(Counters, SinceBase, Series) ->
    atomics:put(Counters, ?BEGUN, -(SinceBase bsl ?SERIES_BITS bor Series)).

-spec under_way(t() | none) -> {begun | ended, SinceBase :: pos_integer(), series()} | none.
under_way(none) ->
    none;
under_way(Counters) ->
    case atomics:get(Counters, ?BEGUN) of
        0 -> none;
        Word when Word > 0 -> {begun, Word bsr ?SERIES_BITS, Word band ?SERIES_MASK};
        Word -> {ended, -Word bsr ?SERIES_BITS, -Word band ?SERIES_MASK}
    end.

-spec hook_ends(t(), SinceBase :: pos_integer()) -> ok.
hook_ends(Counters, SinceBase) ->
    ok = atomics:put(Counters, ?BEGUN, 0),
    put(Counters, gone, SinceBase).

-spec hook_begins(t()) -> ok.
hook_begins(Counters) ->
    ok = atomics:put(Counters, ?BEGUN, 0),
    ok = put(Counters, first, 0),
    put(Counters, gone, 0).

-doc "When the hook got its first message, or ended.".
-spec time(t() | none, first | gone) -> none | SinceBase :: pos_integer().
time(none, _What) ->
    none;
time(Counters, What) ->
    case get(Counters, What) of
        0 -> none;
        SinceBase -> SinceBase
    end.

-doc "Since when a callback runs, or, as a negative number, none does.".
-spec state(t()) -> SinceBase :: integer().
state(Counters) ->
    case under_way(Counters) of
        {begun, Since, _} -> Since;
        {ended, Since, _} -> -Since;
        none -> 0
    end.

-doc "Asks a process for its queue; `asked` if another process waits for its answer already.".
-spec ask(t(), State :: integer(), SinceBase :: pos_integer()) -> ok | asked.
ask(Counters, State, At) ->
    case atomics:compare_exchange(Counters, ?ASKED, 0, At) of
        ok ->
            _ = [
                ok = atomics:put(Counters, Position, Value)
             || atomics:get(Counters, ?LOOKED) =/= State,
                {Position, Value} <- [{?LOOKS, 0}, {?LOOKED, State}]
            ],
            ok;
        _ ->
            asked
    end.

-doc "Keeps the answer, if the state is still the same.".
-spec see(t(), State :: integer(), {SinceBase :: pos_integer(), Queue :: non_neg_integer()}) -> ok.
see(Counters, State, {At, Queue}) ->
    Look = (At div 1000) bsl ?QUEUE_BITS bor min(Queue, ?QUEUE_MASK),
    _ = [ok = keep(Counters, Look, atomics:get(Counters, ?LOOKS)) || state(Counters) =:= State],
    atomics:put(Counters, ?ASKED, 0).

%% Of equal lengths the first and the last look are kept; of too many those that are far apart.
keep(Counters, Look, ?MOST_LOOKS) ->
    Newest = [look(Counters, N) || N <- lists:seq(?MOST_LOOKS - 1, 0, -1)],
    Kept = dyno_agent_server_delay:spaced(Newest, fun(Of) -> Of bsr ?QUEUE_BITS end),
    Count = length(Kept),
    _ = [
        ok = atomics:put(Counters, ?FIRST_LOOK + Count - N, Of)
     || {N, Of} <- lists:enumerate(Kept)
    ],
    keep(Counters, Look, Count);
keep(Counters, Look, Count) ->
    Length = Look band ?QUEUE_MASK,
    Is = [look(Counters, N) band ?QUEUE_MASK =:= Length || N <- [Count - 2, Count - 1], N >= 0],
    Kept =
        case Is of
            [true, true] -> Count - 1;
            _ -> Count
        end,
    ok = atomics:put(Counters, ?FIRST_LOOK + Kept, Look),
    atomics:put(Counters, ?LOOKS, Kept + 1).

look(Counters, N) -> atomics:get(Counters, ?FIRST_LOOK + N).

-doc "The looks in this state, in order, and the time of an unanswered question.".
-spec seen(t(), State :: integer()) -> {Asked, [{At, Queue}]} when
    Asked :: none | pos_integer(),
    At :: pos_integer(),
    Queue :: non_neg_integer().
seen(Counters, State) ->
    case atomics:get(Counters, ?LOOKED) of
        State ->
            Asked =
                case atomics:get(Counters, ?ASKED) of
                    0 -> none;
                    At -> At
                end,
            Looks = [look(Counters, N) || N <- lists:seq(0, atomics:get(Counters, ?LOOKS) - 1)],
            {Asked, [
                {(Look bsr ?QUEUE_BITS) * 1000, Look band ?QUEUE_MASK}
             || Look <- lists:usort(Looks)
            ]};
        _ ->
            {none, []}
    end.

-spec blocks(t()) -> blocks().
blocks(Counters) ->
    #{
        atomics:get(Counters, ?DIRECTORY + N) => ?FIRST_BLOCK + N * ?BLOCK_SIZE
     || N <- lists:seq(0, atomics:get(Counters, ?USED) - 1)
    }.

-spec add(t(), number_name(), integer()) -> ok.
add(Counters, Name, Amount) -> atomics:add(Counters, number(Name), Amount).

-spec put(t(), number_name(), integer()) -> ok.
put(Counters, Name, Value) -> atomics:put(Counters, number(Name), Value).

-spec get(t(), number_name()) -> integer().
get(Counters, Name) -> atomics:get(Counters, number(Name)).

number(queue_max) -> 4;
number(coarse) -> 6;
number(buffered) -> 7;
number(skipped) -> 48;
number(untimed) -> 49;
number(first) -> 55;
number(gone) -> 3;
number(dirty) -> 56;
number({events, Peer}) -> 7 + Peer;
number({demand, Peer}) -> 27 + Peer.

-doc "Counts a message that is not timed; returns the number of messages that none stands for yet.".
-spec skip(t()) -> integer().
skip(Counters) -> atomics:add_get(Counters, number(skipped), 1).

-doc "The weight of a timed message: itself and the skipped ones before.".
-spec stand_for_skipped(t()) -> pos_integer().
stand_for_skipped(Counters) ->
    case atomics:exchange(Counters, number(skipped), 0) of
        Count when Count > 0 ->
            ok = add(Counters, untimed, Count - 1),
            Count;
        Taken ->
            %% The instrument has just counted one: subtract 1 later.
            ok = add(Counters, skipped, Taken - 1),
            1
    end.

-spec record(t(), series(), integer(), pos_integer(), blocks()) -> blocks().
record(Counters, Series, Value, Count, Blocks) ->
    Index = index(max(0, Value)),
    Key = Series bsl ?POWER_BITS bor (Index bsr ?BITS),
    case Blocks of
        #{Key := Block} ->
            ok = atomics:add(Counters, Block + part(Index), Count),
            Blocks;
        #{} ->
            record_new(Counters, Key, Index, Count, Blocks)
    end.

part(Index) -> (Index band (1 bsl ?BITS - 1)) bsr 2.

record_new(Counters, Key, Index, Count, Blocks) when map_size(Blocks) < ?BLOCKS ->
    Used = map_size(Blocks),
    Block = ?FIRST_BLOCK + Used * ?BLOCK_SIZE,
    ok = atomics:put(Counters, Block + part(Index), Count),
    ok = atomics:put(Counters, ?DIRECTORY + Used, Key),
    %% The instrument sees the block from now on.
    ok = atomics:put(Counters, ?USED, Used + 1),
    Blocks#{Key => Block};
record_new(Counters, Key, Index, Count, Blocks) ->
    Series = Key bsr ?POWER_BITS,
    ok = atomics:add(Counters, number(coarse), Count),
    ok = atomics:add(Counters, ?COARSE + Series * ?POWERS + (Index bsr ?BITS), Count),
    Blocks.

-spec read(restart | go_on, t() | none) -> values().
read(_How, none) ->
    Numbers = maps:from_keys([queue_max, untimed, dirty], 0),
    Numbers#{series => #{}, events => #{}, demand => #{}};
read(How, Counters) ->
    Read = fun(Position) -> read(How, Counters, Position) end,
    Values = values(Counters, Read),
    case {with_skipped(Read(number(skipped)), Values), How} of
        {{Left, All}, restart} when Left =/= 0 ->
            ok = add(Counters, skipped, Left),
            All;
        {{_, All}, _} ->
            All
    end.

read(go_on, Counters, Position) ->
    atomics:get(Counters, Position);
read(restart, Counters, Position) ->
    case atomics:get(Counters, Position) of
        0 -> 0;
        _ -> atomics:exchange(Counters, Position, 0)
    end.

%% The few skipped messages that no timed one stands for yet are spread like the others.
with_skipped(Count, #{series := Series, untimed := Untimed} = Values) when Count > 0 ->
    Counts = [{N, Id, Index} || Id := Buckets <- Series, Id =< ?CALLBACKS, {Index, N} <- Buckets],
    case Counts of
        [] ->
            {Count, Values};
        _ ->
            {N, Id, Index} = lists:max(Counts),
            Buckets = lists:keyreplace(Index, 1, map_get(Id, Series), {Index, N + Count}),
            {0, Values#{series := Series#{Id := Buckets}, untimed := Untimed + Count}}
    end;
with_skipped(Count, Values) ->
    {Count, Values}.

values(Counters, Read) ->
    Fine = [
        {Key bsr ?POWER_BITS, {bucket(Key band (1 bsl ?POWER_BITS - 1), Part), Count}}
     || N <- lists:seq(0, atomics:get(Counters, ?USED) - 1),
        Key <- [atomics:get(Counters, ?DIRECTORY + N)],
        Part <- lists:seq(0, ?BLOCK_SIZE - 1),
        Count <- [Read(?FIRST_BLOCK + N * ?BLOCK_SIZE + Part)],
        Count > 0
    ],
    BySeries = maps:groups_from_list(
        fun({Series, _}) -> Series end, fun({_, Bucket}) -> Bucket end, Fine ++ coarse(Read)
    ),
    Numbers = #{Name => Read(number(Name)) || Name <- [queue_max, untimed, dirty]},
    Numbers#{
        series => maps:map(fun(_, Buckets) -> lists:sort(Buckets) end, BySeries),
        events => peers(events, Read),
        demand => peers(demand, Read)
    }.

%% A message that did not wait counts as 0; no real value is 1 to 3 ns.
bucket(0, 0) -> 0;
bucket(Power, Part) -> min(?OVERFLOW, (Power bsl ?BITS) + 4 * Part + 2).

coarse(Read) ->
    case Read(number(coarse)) of
        0 ->
            [];
        _ ->
            [
                {Series, {bucket(Power, ?BLOCK_SIZE div 2), Count}}
             || Series <- lists:seq(1, ?SERIES),
                Power <- lists:seq(0, ?POWERS - 1),
                Count <- [Read(?COARSE + Series * ?POWERS + Power)],
                Count > 0
            ]
    end.

peers(What, Read) ->
    #{
        Peer => Count
     || Peer <- lists:seq(1, ?PEERS), Count <- [Read(number({What, Peer}))], Count > 0
    }.

-doc "A histogram of buckets of four: its sum is within 1.6 %, its extremes are within 3 %.".
-spec histogram([{non_neg_integer(), pos_integer()}]) -> histogram().
histogram([]) ->
    none;
histogram([{Lowest, _} | _] = Buckets) ->
    {Highest, _} = lists:last(Buckets),
    {Min, _} = bounds(max(0, Lowest - 2)),
    {_, End} = bounds(Highest + 1),
    #{
        count => lists:sum([Count || {_, Count} <- Buckets]),
        buckets => Buckets,
        sum => lists:sum([Count * middle(bounds(Index)) || {Index, Count} <- Buckets]),
        min => Min,
        max => End - 1
    }.

-doc "Scales a length for recording, so that short lengths stay distinct.".
-spec scaled(non_neg_integer()) -> non_neg_integer().
scaled(Length) when is_integer(Length) -> Length * ?SCALE.

-spec lengths([{non_neg_integer(), pos_integer()}]) -> histogram().
lengths([]) ->
    none;
lengths(Scaled) ->
    Lengths = [{length_of(bounds(Index)), Count} || {Index, Count} <- Scaled],
    #{
        count => lists:sum([Count || {_, Count} <- Lengths]),
        buckets => together([{index(Length), Count} || {Length, Count} <- Lengths]),
        sum => lists:sum([Length * Count || {Length, Count} <- Lengths]),
        min => element(1, hd(Lengths)),
        max => element(1, lists:last(Lengths))
    }.

together([{Index, A}, {Index, B} | Buckets]) -> together([{Index, A + B} | Buckets]);
together([Bucket | Buckets]) -> [Bucket | together(Buckets)];
together([]) -> [].

length_of({Low, High}) -> ((Low + High) bsr 1) div ?SCALE.

middle({Low, High}) -> (Low + High - 1) bsr 1.

%% As in dyno_histogram, which does not run on the node; a test compares them.

-spec index(non_neg_integer()) -> non_neg_integer().
index(Value) when Value < 1 bsl 8 -> Value;
index(Value) when Value < ?OVERFLOW_FROM -> shifted(Value, shift(Value));
index(_Value) -> ?OVERFLOW.

shifted(Value, Shift) -> (Value bsr Shift) + (Shift bsl ?BITS).

%% To 8 bits. Most callbacks take less than a millisecond, so small values come first.
shift(V) when V < 1 bsl 12 -> shift_12(V);
shift(V) when V < 1 bsl 16 -> shift_12(V bsr 4) + 4;
shift(V) when V < 1 bsl 20 -> shift_12(V bsr 8) + 8;
shift(V) -> shift(V bsr 12) + 12.

shift_12(V) when V < 1 bsl 9 -> 1;
shift_12(V) when V < 1 bsl 10 -> 2;
shift_12(V) when V < 1 bsl 11 -> 3;
shift_12(_V) -> 4.

-spec bounds(non_neg_integer()) -> {non_neg_integer(), pos_integer()}.
bounds(Index) when Index < (2 bsl ?BITS) ->
    {Index, Index + 1};
bounds(Index) ->
    Shift = (Index bsr ?BITS) - 1,
    Mantissa = Index - (Shift bsl ?BITS),
    {Mantissa bsl Shift, (Mantissa + 1) bsl Shift}.
