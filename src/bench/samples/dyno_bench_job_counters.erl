%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_job_counters).
-moduledoc false.
%% Where a job's workers write what they have done, and anyone reads it: one row a worker, written
%% by that worker only, once a batch of iterations. No message, and no word that two workers write
%% to.
%%
%% A row's fields belong together (so many iterations until this time), and nobody waits for a
%% writer, which may have lost its scheduler to thousands of others: a row has two copies. The
%% writer writes the one that nobody reads, and then makes the row's version the next; a reader
%% takes the copy that the version names, and reads it again where the version has changed
%% meanwhile. Rows are as long as two cache lines, so that workers don't slow each other. A row
%% stays when its worker ends, and its next worker goes on counting from there.

-export([new/1]).
%% The job's
-export([open/1, close/1, is_open/1, use/2]).
%% A worker's
-export([sharing/1, set_time/2, set_batch/3, add/3]).
%% A reader's
-export([total/1, rows/2]).
-export_type([t/0, row/0, batch/0]).

-opaque t() :: atomics:atomics_ref().

-type batch() :: #{
    iterations := non_neg_integer(),
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
-define(ROW, 16).
-define(VERSION, 1).
-define(BATCH, 2).
%% Where the copies begin, and the words of each.
-define(COPIES, 3).
-define(COPY, 4).
-define(ITERATIONS, 0).
-define(TIME, 1).
-define(REDUCTIONS, 2).
-define(COLLECTIONS, 3).
-define(GATE, 1).
-define(USED, 2).
-define(WORKERS, 3).

-doc "A counters for at most so many workers, closed.".
-spec new(pos_integer()) -> t().
new(Workers) ->
    atomics:new((Workers + 1) * ?ROW, [{signed, true}]).

-doc "Lets the workers work.".
-spec open(t()) -> ok.
open(Counters) -> atomics:put(Counters, ?GATE, 1).

-doc "Has the workers stop after their batch.".
-spec close(t()) -> ok.
close(Counters) -> atomics:put(Counters, ?GATE, 0).

-doc "Whether the workers are to work.".
-spec is_open(t()) -> boolean().
is_open(Counters) -> atomics:get(Counters, ?GATE) =:= 1.

-doc "Says that there are so many workers, in the first rows.".
-spec use(t(), non_neg_integer()) -> ok.
use(Counters, Workers) ->
    ok = atomics:put(Counters, ?WORKERS, Workers),
    atomics:put(Counters, ?USED, max(Workers, atomics:get(Counters, ?USED))).

-doc "How many workers share a scheduler.".
-spec sharing(t()) -> pos_integer().
sharing(Counters) ->
    max(1, atomics:get(Counters, ?WORKERS) div erlang:system_info(schedulers_online)).

-doc "Says that a worker begins now.".
-spec set_time(t(), pos_integer()) -> ok.
set_time(Counters, Row) ->
    _ = add(Counters, Row, #{iterations => 0, reductions => 0, collections => 0}),
    ok.

-doc "Says how many iterations the batch has that begins now.".
-spec set_batch(t(), pos_integer(), pos_integer()) -> ok.
set_batch(Counters, Row, N) ->
    atomics:put(Counters, Row * ?ROW + ?BATCH, N).

-doc "Adds a batch that has just ended; returns the time.".
-spec add(t(), pos_integer(), batch()) -> integer().
add(Counters, Row, #{iterations := N, reductions := Reductions, collections := Collections}) ->
    Version = atomics:get(Counters, Row * ?ROW + ?VERSION),
    Old = copy(Row, Version),
    New = copy(Row, Version + 1),
    TimeNs = erlang:monotonic_time(nanosecond),
    Added = fun(Field, Value) ->
        atomics:put(Counters, New + Field, atomics:get(Counters, Old + Field) + Value)
    end,
    ok = Added(?ITERATIONS, N),
    ok = Added(?REDUCTIONS, Reductions),
    ok = Added(?COLLECTIONS, Collections),
    ok = atomics:put(Counters, New + ?TIME, TimeNs),
    ok = atomics:put(Counters, Row * ?ROW + ?VERSION, Version + 1),
    TimeNs.

copy(Row, Version) ->
    Row * ?ROW + ?COPIES + (Version band 1) * ?COPY.

-doc "The iterations of all workers there have been.".
-spec total(t()) -> non_neg_integer().
total(Counters) ->
    Rows = rows(Counters, atomics:get(Counters, ?USED)),
    round(lists:sum([N || #{iterations := N} <- Rows])).

-doc "The first rows.".
-spec rows(t(), non_neg_integer()) -> [row()].
rows(Counters, Count) ->
    [row(Counters, Row) || Row <- lists:seq(1, Count)].

row(Counters, Row) ->
    Version = atomics:get(Counters, Row * ?ROW + ?VERSION),
    Copy = copy(Row, Version),
    Fields = #{
        iterations => atomics:get(Counters, Copy + ?ITERATIONS),
        time_ns => atomics:get(Counters, Copy + ?TIME),
        reductions => atomics:get(Counters, Copy + ?REDUCTIONS),
        collections => atomics:get(Counters, Copy + ?COLLECTIONS),
        batch => atomics:get(Counters, Row * ?ROW + ?BATCH)
    },
    case atomics:get(Counters, Row * ?ROW + ?VERSION) of
        Version -> Fields;
        _ -> row(Counters, Row)
    end.
