%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_agent_memory).
-moduledoc "Adds up, in the measured node, the memory of an agent's processes and tables.".

-export([of_agent/1, collected/1, whole/0]).

-doc "The bytes of the processes and of their tables: the janitor, the guard and its instruments.".
-spec of_agent(Guard :: pid()) -> {Processes :: pos_integer(), Tables :: non_neg_integer()}.
of_agent(Guard) ->
    Pids = pids(Guard),
    Words = [ets:info(T, memory) || T <- ets:all(), lists:member(ets:info(T, owner), Pids)],
    {
        lists:sum([element(2, process_info(P, memory)) || P <- Pids]),
        lists:sum(Words) * erlang:system_info(wordsize)
    }.

pids(Guard) ->
    {links, Links} = process_info(Guard, links),
    [whereis(dyno_agent), Guard | [P || P <- Links, is_pid(P)]].

-doc "The same, without the garbage.".
-spec collected(Guard :: pid()) -> {Processes :: pos_integer(), Tables :: non_neg_integer()}.
collected(Guard) ->
    _ = [garbage_collect(P) || P <- pids(Guard)],
    of_agent(Guard).

-doc "The bytes that the whole node uses, without the garbage.".
-spec whole() -> pos_integer().
whole() ->
    _ = [garbage_collect(P) || P <- processes()],
    erlang:memory(total).
