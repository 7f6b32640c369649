%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_job_counters).
-moduledoc false.
%% Where a job's workers write what they have done, and anyone reads it: one row a worker, written
%% by that worker only, once a batch of iterations. No message, and no word that two workers write
%% to.
%%
%% A row's fields belong together (so many iterations until this time): the writer makes the row's
%% version odd before and even after it writes, and a reader takes a row only if the version was
%% even and the same before and after (a sequence lock; Lameter, "Effective synchronization on
%% Linux/NUMA systems", 2005). A row is as long as a cache line, so that workers don't slow each
%% other. A row stays when its worker ends, and its next worker goes on counting from there.

-export([new/1, capacity/1]).
%% The job's
-export([open/1, close/1, is_open/1, use/2]).
%% A worker's
-export([set_time/2, set_batch/3, add/3]).
%% A reader's
-export([total/1, rows/2]).
-export_type([t/0, row/0, batch/0]).

-opaque t() :: atomics:atomics_ref().

-type batch() :: #{
    iterations := pos_integer(),
    reductions := non_neg_integer(),
    collections := non_neg_integer()
}.

-doc "What a worker had done at the end of its last batch.".
-type row() :: #{
    iterations := non_neg_integer(),
    time_ns := integer(),
    reductions := non_neg_integer(),
    collections := non_neg_integer(),
    %% The iterations of the batch that it is in.
    batch := non_neg_integer()
}.

%% The words of a row, and of the header, which takes the place of row 0.
-define(ROW, 8).
-define(VERSION, 1).
-define(ITERATIONS, 2).
-define(TIME, 3).
-define(REDUCTIONS, 4).
-define(COLLECTIONS, 5).
-define(BATCH, 6).
-define(GATE, 1).
-define(USED, 2).

-doc "A counters for at most so many workers, closed.".
-spec new(pos_integer()) -> t().
new(Workers) ->
    atomics:new((Workers + 1) * ?ROW, [{signed, true}]).

-doc "For how many workers it has rows.".
-spec capacity(t()) -> pos_integer().
capacity(Counters) ->
    map_get(size, atomics:info(Counters)) div ?ROW - 1.

-doc "Lets the workers work.".
-spec open(t()) -> ok.
open(Counters) -> atomics:put(Counters, ?GATE, 1).

-doc "Has the workers stop after their batch.".
-spec close(t()) -> ok.
close(Counters) -> atomics:put(Counters, ?GATE, 0).

-doc "Whether the workers are to work.".
-spec is_open(t()) -> boolean().
is_open(Counters) -> atomics:get(Counters, ?GATE) =:= 1.

-doc "Says that the rows up to this one are in use, or were.".
-spec use(t(), pos_integer()) -> ok.
use(Counters, Row) ->
    atomics:put(Counters, ?USED, max(Row, atomics:get(Counters, ?USED))).

-doc "Says that a worker begins now.".
-spec set_time(t(), pos_integer()) -> ok.
set_time(Counters, Row) ->
    Base = Row * ?ROW,
    %% A worker that was killed while it wrote has left an odd version.
    Version = atomics:get(Counters, Base + ?VERSION) bor 1,
    ok = atomics:put(Counters, Base + ?VERSION, Version),
    ok = atomics:put(Counters, Base + ?TIME, erlang:monotonic_time(nanosecond)),
    atomics:put(Counters, Base + ?VERSION, Version + 1).

-doc "Says how many iterations the batch has that begins now.".
-spec set_batch(t(), pos_integer(), pos_integer()) -> ok.
set_batch(Counters, Row, N) ->
    atomics:put(Counters, Row * ?ROW + ?BATCH, N).

-doc "Adds a batch that has just ended; returns the time.".
-spec add(t(), pos_integer(), batch()) -> integer().
add(Counters, Row, #{iterations := N, reductions := Reductions, collections := Collections}) ->
    Base = Row * ?ROW,
    TimeNs = erlang:monotonic_time(nanosecond),
    ok = atomics:add(Counters, Base + ?VERSION, 1),
    ok = atomics:add(Counters, Base + ?ITERATIONS, N),
    ok = atomics:put(Counters, Base + ?TIME, TimeNs),
    ok = atomics:add(Counters, Base + ?REDUCTIONS, Reductions),
    ok = atomics:add(Counters, Base + ?COLLECTIONS, Collections),
    ok = atomics:add(Counters, Base + ?VERSION, 1),
    TimeNs.

-doc "The iterations of all workers there have been.".
-spec total(t()) -> non_neg_integer().
total(Counters) ->
    total(Counters, atomics:get(Counters, ?USED), 0).

total(_Board, 0, Sum) ->
    Sum;
total(Counters, Row, Sum) ->
    total(Counters, Row - 1, Sum + atomics:get(Counters, Row * ?ROW + ?ITERATIONS)).

-doc "The first rows.".
-spec rows(t(), non_neg_integer()) -> [row()].
rows(Counters, Count) ->
    rows(Counters, lists:seq(1, Count), #{}).

%% A writer may have lost its scheduler: all of those are waited for together, because one of
%% thousands has its turn again only after all others.
rows(_Counters, [], Read) ->
    [Row || {_, Row} <- lists:sort(maps:to_list(Read))];
rows(Counters, Numbers, Read) ->
    Now = #{Number => Row || Number <- Numbers, {ok, Row} <- [row(Counters, Number * ?ROW)]},
    case [Number || Number <- Numbers, not is_map_key(Number, Now)] of
        [] ->
            rows(Counters, [], maps:merge(Read, Now));
        Written ->
            true = erlang:yield(),
            rows(Counters, Written, maps:merge(Read, Now))
    end.

row(Counters, Base) ->
    Version = atomics:get(Counters, Base + ?VERSION),
    Row = #{
        iterations => atomics:get(Counters, Base + ?ITERATIONS),
        time_ns => atomics:get(Counters, Base + ?TIME),
        reductions => atomics:get(Counters, Base + ?REDUCTIONS),
        collections => atomics:get(Counters, Base + ?COLLECTIONS),
        batch => atomics:get(Counters, Base + ?BATCH)
    },
    case Version rem 2 =:= 0 andalso atomics:get(Counters, Base + ?VERSION) =:= Version of
        true -> {ok, Row};
        false -> written
    end.
