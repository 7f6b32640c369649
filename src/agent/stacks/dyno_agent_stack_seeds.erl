%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_seeds).
-moduledoc false.
%% Which of very many processes work, and which have messages waiting: all are asked twice for their
%% reductions and their queues, which sends them no signal, and whoever made many meanwhile works.
%% Among 200,000 processes one that works a tenth of the time would be met by chance after minutes.
%%
%% A process of its own, of normal priority: it sends `{seeds, Busy, Queued, CostNative}` to the one
%% that has started it. It rests for 100 times what a pass takes: 0.2 us for each process.

-export([start_link/0]).
%% Runs in the process
-export([init/2]).

%% So many are asked, from a place that is chosen by chance.
-define(MOST, 300_000).
-define(CHUNK, 1000).
-define(FIRST_MS, 300).
-define(AGAIN_MS, 2000).
-define(REST, 100).
-define(BUSY, 400).
-define(QUEUED, 32).
%% To answer takes some.
-define(LEAST_REDUCTIONS, 100).

-doc "Starts it; it ends with the calling process, and with the agent.".
-spec start_link() -> pid().
start_link() ->
    {parent, Guard} = process_info(self(), parent),
    spawn_link(?MODULE, init, [self(), Guard]).

-spec init(pid(), pid()) -> no_return().
init(Owner, Guard) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    %% Its code is not removed before it has ended.
    true = link(Guard),
    {Before, _, _} = pass(),
    timer:sleep(?FIRST_MS),
    loop(Owner, Before).

loop(Owner, Before) ->
    {Now, Queued, Cost} = pass(),
    Made = [{Reductions - maps:get(Pid, Before, 0), Pid} || Pid := Reductions <- Now],
    Owner ! {seeds, most(?BUSY, ?LEAST_REDUCTIONS, Made), most(?QUEUED, 1, Queued), Cost},
    true = garbage_collect(),
    CostMs = erlang:convert_time_unit(Cost, native, millisecond),
    timer:sleep(max(?AGAIN_MS, ?REST * CostMs)),
    loop(Owner, Now).

most(Most, Least, Items) ->
    Enough = [Item || {Value, _} = Item <- Items, Value >= Least],
    [Pid || {_, Pid} <- lists:sublist(lists:reverse(lists:sort(Enough)), Most)].

%% What it has cost by its quickest part: others may run in between.
pass() ->
    All = lists:delete(self(), processes()),
    Some =
        case length(All) of
            Count when Count =< ?MOST ->
                All;
            Count ->
                Start = rand:uniform(Count) - 1,
                lists:sublist(lists:nthtail(Start, All) ++ All, ?MOST)
        end,
    pass(Some, #{}, [], infinity, 0).

pass([], Reductions, Queued, Quickest, Chunks) ->
    {Reductions, Queued, Chunks * max(0, Quickest)};
pass(Pids, Reductions, Queued, Quickest, Chunks) ->
    {Chunk, Rest} = lists:split(length_to(?CHUNK, Pids, 0), Pids),
    Start = erlang:monotonic_time(),
    Asked = [
        {Pid, Made, Queue}
     || Pid <- Chunk,
        [{reductions, Made}, {message_queue_len, Queue}] <-
            [process_info(Pid, [reductions, message_queue_len])]
    ],
    Took = erlang:monotonic_time() - Start,
    Next = maps:merge(Reductions, #{Pid => Made || {Pid, Made, _} <- Asked}),
    More = [{Queue, Pid} || {Pid, _, Queue} <- Asked, Queue > 0],
    pass(Rest, Next, More ++ Queued, min(Took, Quickest), Chunks + 1).

length_to(Most, [_ | Rest], N) when N < Most -> length_to(Most, Rest, N + 1);
length_to(_Most, _Rest, N) -> N.
