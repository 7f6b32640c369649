%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_seeds).
-moduledoc false.
%% The processes among very many that work, and those that have messages waiting: all are asked twice
%% for their reductions and their queues, which sends them no signal; those that made many meanwhile
%% work. Of 200,000 processes one that works a tenth of the time would be met by chance after minutes.
%%
%% A process of its own, of normal priority: it sends `{seeds, Busy, Queued, CostNative}` to the one
%% that has started it. It rests for 100 times what a pass takes: 0.2 us for each process.

-export([start_link/0]).
%% Runs in the process
-export([init/2]).

%% So many are asked in a pass, from a place that is chosen by chance.
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
    loop(Owner, {none, table()}).

%% Reductions since the last pass are known of the processes that it asked: of very many, each second
%% pass begins anew, elsewhere.
loop(Owner, {Known, Before}) ->
    Start = start(),
    First =
        case Start of
            Known ->
                Before;
            _ ->
                true = ets:delete(Before),
                {_, Table} = pass(Start, table()),
                timer:sleep(?FIRST_MS),
                Table
        end,
    {#{busy := Busy, queued := Queued, cost := Cost}, Last} = pass(Start, First),
    Owner ! {seeds, [Pid || {_, Pid} <- Busy], [Pid || {_, Pid} <- Queued], Cost},
    CostMs = erlang:convert_time_unit(Cost, native, millisecond),
    timer:sleep(max(?AGAIN_MS, ?REST * CostMs)),
    loop(Owner, {Start, Last}).

%% Outside of the heap: a collection of 300,000 pids takes a scheduler for 20 ms and more.
table() -> ets:new(?MODULE, [private]).

start() -> ?MOST * (rand:uniform(1 + (erlang:system_info(process_count) - 1) div ?MOST) - 1).

%% Its cost by the quickest of its parts: others may run in between.
pass(Start, Before) ->
    Place = skip(Start, dyno_agent_process_list:first()),
    Now = table(),
    Sums = #{busy => [], queued => [], asked => 0, quickest => infinity, parts => 0},
    #{quickest := Quickest, parts := Parts} = Passed = parts(Place, {Before, Now}, Sums),
    true = ets:delete(Before),
    {Passed#{cost => Parts * max(0, Quickest)}, Now}.

skip(0, Place) ->
    Place;
skip(Left, Place) ->
    case dyno_agent_process_list:next(min(?CHUNK, Left), Place) of
        {_, none} -> dyno_agent_process_list:first();
        {Pids, Next} -> skip(Left - length(Pids), Next)
    end.

parts(none, _Tables, Sums) ->
    Sums;
parts(_Place, _Tables, #{asked := Asked} = Sums) when Asked >= ?MOST -> Sums;
parts(Place, Tables, Sums) ->
    {Pids, Next} = dyno_agent_process_list:next(?CHUNK, Place),
    Passed = part(lists:delete(self(), Pids), Tables, Sums),
    true = erlang:yield(),
    parts(Next, Tables, Passed).

part(Pids, {Before, Now}, Sums) ->
    #{busy := Busy, queued := Queued, asked := Asked, quickest := Quickest, parts := Parts} = Sums,
    Start = erlang:monotonic_time(),
    Found = [
        {Pid, Reductions, Queue}
     || Pid <- Pids,
        [{reductions, Reductions}, {message_queue_len, Queue}] <-
            [process_info(Pid, [reductions, message_queue_len])]
    ],
    Took = erlang:monotonic_time() - Start,
    Made = [
        {Reductions - ets:lookup_element(Before, Pid, 2, 0), Pid}
     || {Pid, Reductions, _} <- Found
    ],
    true = ets:insert(Now, [{Pid, Reductions} || {Pid, Reductions, _} <- Found]),
    Sums#{
        busy := most(?BUSY, ?LEAST_REDUCTIONS, Made, Busy),
        queued := most(?QUEUED, 1, [{Queue, Pid} || {Pid, _, Queue} <- Found], Queued),
        asked := Asked + length(Pids),
        quickest := min(Took, Quickest),
        parts := Parts + 1
    }.

most(Most, Least, Items, Before) ->
    Enough = [Item || {Value, _} = Item <- Items, Value >= Least],
    lists:sublist(lists:reverse(lists:sort(Enough ++ Before)), Most).
