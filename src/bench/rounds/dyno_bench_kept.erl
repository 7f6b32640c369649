%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_kept).
-moduledoc false.
%% Measures the memory that calls of a code leave behind: live words of the worker's heap, messages
%% in its queue, tables, large binaries, atoms, processes. If each call adds some, its time depends
%% on the length of the measurement. The worker's words are exact. The rest is counted for the whole
%% node, so a few kilobytes may belong to another process.

-export([measure/2, run/1]).
-export_type([kept/0]).

-type kept() :: #{heap := integer(), node := integer()}.

-define(TIMES, 3).
%% Less may belong to another process.
-define(LEAST_OF_NODE, 16_384).
%% At least, without their contents.
-define(MESSAGE_WORDS, 5).
-define(PROCESS_BYTES, 2_600).

-doc "Bytes left behind per call, the least of several runs, as the first may make a table.".
-spec measure(fun((pos_integer()) -> kept()), Calls :: pos_integer()) -> float().
measure(Run, Calls) ->
    Runs = [Run(Calls) || _ <- lists:seq(1, ?TIMES)],
    Heap = lists:min([Bytes || #{heap := Bytes} <- Runs]),
    Node =
        case lists:min([Bytes || #{node := Bytes} <- Runs]) - of_others(Run, Calls) of
            Few when Few < ?LEAST_OF_NODE -> 0;
            Bytes -> Bytes
        end,
    Each = (max(0, Heap) + Node) / Calls,
    case Each >= erlang:system_info(wordsize) of
        true -> Each;
        false -> 0.0
    end.

%% On a busy machine other processes keep some, too, in a run: as much with one call.
of_others(_Run, 1) -> 0;
of_others(Run, _Calls) -> lists:max([0 | [map_get(node, Run(1)) || _ <- lists:seq(1, ?TIMES)]]).

-spec run(fun(() -> term())) -> {ok, kept()} | {error, dyno_sandbox:failure()}.
run(Calls) ->
    {HeapBefore, NodeBefore} = held(),
    maybe
        {ok, _} ?= dyno_sandbox:attempt(Calls),
        {HeapAfter, NodeAfter} = held(),
        {ok, #{heap => HeapAfter - HeapBefore, node => NodeAfter - NodeBefore}}
    end.

held() ->
    true = garbage_collect(),
    {garbage_collection_info, Info} = process_info(self(), garbage_collection_info),
    {message_queue_len, Messages} = process_info(self(), message_queue_len),
    %% Words that survived: `heap_size` has the free ones, too, while the process itself asks.
    Live = proplists:get_value(recent_size, Info),
    Node =
        lists:sum([Bytes || {_, Bytes} <- erlang:memory([ets, binary, atom_used])]) +
            ?PROCESS_BYTES * erlang:system_info(process_count),
    {(Live + ?MESSAGE_WORDS * Messages) * erlang:system_info(wordsize), Node}.
