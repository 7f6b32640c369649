%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_group).
-moduledoc false.
%% The processes of one kind together: sums and maxima, which stay small however many processes come
%% and go. Pure.

-export([new/1, restart/2, kind/1, count/3, ran/3, ended/2, memory/2, lived/2, size/1, results/2]).
-export_type([t/0, results/0]).

-opaque t() :: #{
    group := dyno_agent_processes:group(),
    discovered := non_neg_integer(),
    sampled := non_neg_integer(),
    ended_reductions := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    memory_max_bytes := non_neg_integer(),
    message_queue_max := non_neg_integer(),
    collections := non_neg_integer(),
    lives := dyno_agent_lifetimes:lives()
}.

-type results() :: #{
    group := dyno_agent_processes:group(),
    discovered := pos_integer(),
    %% At the end.
    alive := non_neg_integer(),
    %% How many lived until they were sampled: memory, reductions, queue and collections are of
    %% these only.
    sampled := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    %% The largest sum over the group's processes in one scan.
    memory_max_bytes := non_neg_integer(),
    %% Since the restart or, for a later process, since it was discovered.
    reductions := non_neg_integer(),
    message_queue_max := non_neg_integer(),
    %% Garbage collections that the samples show: there were not fewer.
    collections := non_neg_integer(),
    %% Of some that have ended, from the call that discovered them.
    lives := dyno_agent_lifetimes:lives()
}.

-doc "A group without processes.".
-spec new(dyno_agent_processes:group()) -> t().
new(Kind) ->
    #{
        group => Kind,
        discovered => 0,
        sampled => 0,
        ended_reductions => 0,
        memory_bytes => 0,
        memory_max_bytes => 0,
        message_queue_max => 0,
        collections => 0,
        lives => dyno_agent_lifetimes:none()
    }.

-doc "Counts from now on, with so many that are alive.".
-spec restart(non_neg_integer(), t()) -> t().
restart(Alive, #{group := Kind}) -> count(Alive, Alive, new(Kind)).

-spec kind(t()) -> dyno_agent_processes:group().
kind(#{group := Kind}) -> Kind.

-doc "So many more processes, and so many more that were sampled.".
-spec count(integer(), integer(), t()) -> t().
count(More, Sampled, #{discovered := N, sampled := S} = Group) ->
    Group#{discovered := N + More, sampled := S + Sampled}.

-doc "A sample of a process that has run: its queue, and its collections since the last sample.".
-spec ran(non_neg_integer(), non_neg_integer(), t()) -> t().
ran(Queue, Collections, #{message_queue_max := Longest, collections := N} = Group) ->
    Group#{message_queue_max := max(Longest, Queue), collections := N + Collections}.

-doc "A process has ended since the last scan, after so many reductions.".
-spec ended(non_neg_integer(), t()) -> t().
ended(Reductions, #{ended_reductions := Sum} = Group) ->
    Group#{ended_reductions := Sum + Reductions}.

-doc "The memory of all its processes in one scan.".
-spec memory(non_neg_integer(), t()) -> t().
memory(Bytes, #{memory_max_bytes := Max} = Group) ->
    Group#{memory_bytes := Bytes, memory_max_bytes := max(Max, Bytes)}.

-doc "A process that was monitored has ended.".
-spec lived(non_neg_integer(), t()) -> t().
lived(Ns, #{lives := Lives} = Group) ->
    Group#{lives := dyno_agent_lifetimes:add(Ns, Lives)}.

-doc "How many processes were discovered.".
-spec size(t()) -> non_neg_integer().
size(#{discovered := N}) -> N.

-doc "What is reported, with what the processes that are alive have done.".
-spec results({Alive :: non_neg_integer(), Reductions :: non_neg_integer()}, t()) -> results().
results({Alive, Reductions}, #{ended_reductions := Before} = Group) ->
    (maps:remove(ended_reductions, Group))#{alive => Alive, reductions => Before + Reductions}.
