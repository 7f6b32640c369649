%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_lateness).
-moduledoc false.
%% One process on each of up to 8 schedulers wakes every 20 ms and records its delay. A delay on one
%% scheduler shows a long native call, on all at once a stop of the whole VM. It also counts the
%% processes that wait for a scheduler then.
%%
%% Cost: a waking each time, for each scheduler 0.2 % on an idle node.

-export([start_link/0, read/1, wakings/2, loop/3]).
-export_type([late/0]).

-type late() :: #{
    %% The longest stall of a probe.
    most_ms := non_neg_integer(),
    %% Common stall of all schedulers.
    together_ms := non_neg_integer(),
    %% Processes ready to run: mean and most, and the share of wakings with more than schedulers.
    ready := number(),
    most_ready := non_neg_integer(),
    ready_share := number()
}.

-define(EVERY_MS, 20).
-define(LATE_MS, 20).
-define(MOST, 8).
-define(MOST_STALLS, 500).

-spec start_link() -> [pid()].
start_link() ->
    Self = self(),
    [
        %% An undocumented option: without it all probes would be on one scheduler.
        apply(erlang, spawn_opt, [
            ?MODULE, loop, [Self, [], []], [link, {priority, high}, {scheduler, Number}]
        ])
     || Number <- lists:seq(1, min(?MOST, erlang:system_info(schedulers_online)))
    ].

-doc "Delays since the last reading; a probe that cannot answer is late itself.".
-spec read([pid()]) -> late().
read(Probes) ->
    Refs = [{monitor(process, Probe), Probe} || Probe <- Probes],
    _ = [Probe ! {read, self(), Ref} || {Ref, Probe} <- Refs],
    {All, Counts} = lists:unzip([answer(Ref) || {Ref, _} <- Refs]),
    Lengths = [End - Start || {Start, End} <- lists:append(All)],
    Ready = lists:append(Counts),
    Times = max(1, length(Ready)),
    Schedulers = erlang:system_info(schedulers_online),
    #{
        most_ms => lists:max([0 | Lengths]),
        together_ms => together(All),
        ready => lists:sum(Ready) / Times,
        most_ready => lists:max([0 | Ready]),
        ready_share => length([N || N <- Ready, N > Schedulers]) / Times
    }.

-doc "How often the probes woke in this time.".
-spec wakings([pid()], Ms :: non_neg_integer()) -> non_neg_integer().
wakings(Probes, Ms) -> length(Probes) * Ms div ?EVERY_MS.

answer(Ref) ->
    receive
        {Ref, Seen} ->
            true = demonitor(Ref, [flush]),
            Seen;
        {'DOWN', Ref, process, _, _} ->
            {[], []}
    after 1000 ->
        true = demonitor(Ref, [flush]),
        Now = erlang:monotonic_time(millisecond),
        {[{Now - 1000, Now}], []}
    end.

together([]) ->
    0;
together([First | Others]) ->
    %% A stop begins half an interval before a probe is late, on average.
    Before = ?EVERY_MS div 2,
    lists:sum([End - Start + Before || {Start, End} <- lists:foldl(fun common/2, First, Others)]).

common(A, B) ->
    [
        {max(S1, S2), min(E1, E2)}
     || {S1, E1} <- A, {S2, E2} <- B, min(E1, E2) > max(S1, S2)
    ].

-spec loop(pid(), [{Start :: integer(), End :: integer()}], [non_neg_integer()]) -> no_return().
loop(Parent, Stalls, Ready) ->
    Before = erlang:monotonic_time(millisecond),
    receive
        {read, From, Ref} ->
            From ! {Ref, {lists:reverse(Stalls), Ready}},
            loop(Parent, [], [])
    after ?EVERY_MS ->
        Now = erlang:monotonic_time(millisecond),
        Late = Now - Before - ?EVERY_MS >= ?LATE_MS andalso length(Stalls) < ?MOST_STALLS,
        Counts = lists:sublist([erlang:statistics(total_run_queue_lengths) | Ready], ?MOST_STALLS),
        loop(Parent, [{Before + ?EVERY_MS, Now} || Late] ++ Stalls, Counts)
    end.
