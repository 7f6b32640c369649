%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_seeds).
-moduledoc false.
%% Finds the working processes among very many, and those with waiting messages: asks all twice for
%% reductions and queue lengths, which sends no signal; many reductions mean work. Random samples of
%% 200,000 processes would take minutes to meet one that works a tenth of the time.
%%
%% A process of its own, of normal priority: it sends `{seeds, Busy, Queued, CostNative}` to its
%% parent, and rests for 100 times the duration of a pass: 0.2 us a process, 0.7 us if it has not
%% run for long. Beside the sampler of the processor, which sees what works, it asks for queues
%% only, and rests for 10,000 times.

-export([start_link/1]).
%% Runs in the process
-export([init/3]).

%% Processes asked in a pass, from a random place.
-define(MOST, 300_000).
-define(CHUNK, 1000).
-define(FIRST_MS, 300).
-define(AGAIN_MS, 2000).
-define(REST, 100).
-define(REST_OF_QUEUES, 10_000).
-define(BUSY, 400).
-define(QUEUED, 32).
%% Answering takes some reductions.
-define(LEAST_REDUCTIONS, 100).

-doc "Starts the process, which ends with the calling one and with the agent.".
-spec start_link(busy_and_queued | queued) -> pid().
start_link(What) ->
    {parent, Guard} = process_info(self(), parent),
    spawn_link(?MODULE, init, [self(), Guard, What]).

-spec init(pid(), pid(), busy_and_queued | queued) -> no_return().
init(Owner, Guard, What) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    %% The code stays until this process has ended.
    true = link(Guard),
    case What of
        busy_and_queued -> loop(Owner, {none, table()});
        queued -> queues(Owner)
    end.

queues(Owner) ->
    {#{queued := Queued, cost := Cost}, none} = pass(start(), none),
    told(Owner, [], Queued, Cost, ?REST_OF_QUEUES),
    queues(Owner).

told(Owner, Busy, Queued, Cost, Rest) ->
    Owner ! {seeds, [Pid || {_, Pid} <- Busy], [Pid || {_, Pid} <- Queued], Cost},
    timer:sleep(max(?AGAIN_MS, erlang:convert_time_unit(Rest * Cost, native, millisecond))).

%% Reductions of the last pass are of its processes; of very many, each second one begins elsewhere.
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
    told(Owner, Busy, Queued, Cost, ?REST),
    loop(Owner, {Start, Last}).

%% Outside of the heap: a collection of 300,000 pids takes a scheduler 20 ms and more.
table() -> ets:new(?MODULE, [private]).

start() -> ?MOST * (rand:uniform(1 + (erlang:system_info(process_count) - 1) div ?MOST) - 1).

%% The cost of a part is the median, with its part of the list: others may run in between.
pass(Start, Before) ->
    Place = skip(Start, dyno_agent_process_list:first()),
    Now =
        case Before of
            none -> none;
            _ -> table()
        end,
    Sums = #{busy => [], queued => [], asked => 0, took => []},
    #{took := Took} = Passed = parts(Place, {Before, Now}, Sums),
    _ = [ets:delete(Before) || Before =/= none],
    Parts = length(Took),
    {Passed#{cost => Parts * lists:nth((Parts + 1) div 2, lists:sort(Took))}, Now}.

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
    Start = erlang:monotonic_time(),
    {Pids, Next} = dyno_agent_process_list:next(?CHUNK, Place),
    #{took := Took} = Passed = part(lists:delete(self(), Pids), Tables, Sums),
    Times = [erlang:monotonic_time() - Start | Took],
    true = erlang:yield(),
    parts(Next, Tables, Passed#{took := Times}).

part(Pids, {none, none}, Sums) ->
    #{queued := Before, asked := Asked} = Sums,
    Queued = [
        {Queue, Pid}
     || Pid <- Pids, {message_queue_len, Queue} <- [process_info(Pid, message_queue_len)], Queue > 0
    ],
    Sums#{
        queued := most(?QUEUED, 1, Queued, Before),
        asked := Asked + length(Pids)
    };
part(Pids, {Before, Now}, Sums) ->
    #{busy := Busy, queued := Queued, asked := Asked} = Sums,
    Found = [
        {Pid, Reductions, Queue}
     || Pid <- Pids,
        [{reductions, Reductions}, {message_queue_len, Queue}] <-
            [process_info(Pid, [reductions, message_queue_len])]
    ],
    Made = [
        {Reductions - ets:lookup_element(Before, Pid, 2, 0), Pid}
     || {Pid, Reductions, _} <- Found
    ],
    true = ets:insert(Now, [{Pid, Reductions} || {Pid, Reductions, _} <- Found]),
    Sums#{
        busy := most(?BUSY, ?LEAST_REDUCTIONS, Made, Busy),
        queued := most(?QUEUED, 1, [{Queue, Pid} || {Pid, _, Queue} <- Found], Queued),
        asked := Asked + length(Pids)
    }.

most(Most, Least, Items, Before) ->
    Enough = [Item || {Value, _} = Item <- Items, Value >= Least],
    lists:sublist(lists:reverse(lists:sort(Enough ++ Before)), Most).
