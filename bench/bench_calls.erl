%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_calls).
-moduledoc """
What runs in the measured node of the programs about discovery: processes that call a function.
""".

%% Called by the programs, in the measured node
-export([start/1, start_calling/2, call_all/0, wait_for/2, own_ns/1]).
-export([calls_per_epoch/1, epochs/2, epochs_with_breakpoint/2]).
%% What is traced
-export([leaf/1]).

-define(CALLERS, {?MODULE, callers}).
-define(SCHEDULER, 1).
%% How many of the processes have an epoch, one after another.
-define(SAMPLED, 256).
%% How often the table of discovered processes is read.
-define(POLL_MS, 1).

-doc """
Starts processes that wait to be told to call. They stay on one scheduler's thread, the only one
whose clocks can tell what the operating system took away (`dyno_clock`).
""".
-spec start(pos_integer()) -> ok.
start(Count) ->
    keep([spawn_opt(fun wait/0, [{scheduler, ?SCHEDULER}]) || _ <- lists:seq(1, Count)]).

-doc "Starts processes that call once in so many milliseconds, for as long as they live.".
-spec start_calling(pos_integer(), pos_integer()) -> ok.
start_calling(Count, EveryMs) ->
    %% Spread over the period, as processes that have nothing to do with one another are.
    keep([
        spawn(fun() -> call_every(I * EveryMs div Count, EveryMs) end)
     || I <- lists:seq(0, Count - 1)
    ]).

keep(Pids) ->
    persistent_term:put(?CALLERS, list_to_tuple(Pids)).

callers() ->
    tuple_to_list(persistent_term:get(?CALLERS)).

wait() ->
    receive
        {call, From, Count} ->
            Before = dyno_clock:thread(),
            call(Count),
            After = dyno_clock:thread(),
            From ! {called, self(), own_ns(dyno_clock:difference(Before, After))},
            wait()
    end.

-doc "Without what other programs took.".
-spec own_ns(#{wall_ns := integer(), wait_ns := integer() | undefined, _ => _}) -> integer().
own_ns(#{wall_ns := Wall, wait_ns := undefined}) -> Wall;
own_ns(#{wall_ns := Wall, wait_ns := Wait}) -> Wall - Wait.

call(0) ->
    ok;
call(Count) ->
    _ = ?MODULE:leaf(Count),
    call(Count - 1).

call_every(AfterMs, EveryMs) ->
    receive
    after AfterMs ->
        _ = ?MODULE:leaf(AfterMs),
        call_every(EveryMs, EveryMs)
    end.

-doc "Has every process call once; returns when all have.".
-spec call_all() -> ok.
call_all() ->
    lists:foreach(fun(P) -> _ = called(P, 1) end, callers()).

called(Pid, Count) ->
    Pid ! {call, self(), Count},
    receive
        {called, Pid, Ns} -> Ns
    end.

-doc "So many calls that they take a process at least this long.".
-spec calls_per_epoch(pos_integer()) -> pos_integer().
calls_per_epoch(LeastNs) ->
    calls_per_epoch(1000, LeastNs).

calls_per_epoch(Calls, LeastNs) ->
    Shortest = lists:min([called(hd(callers()), Calls) || _ <- lists:seq(1, 5)]),
    case Shortest >= LeastNs of
        true -> Calls;
        false -> calls_per_epoch(2 * Calls, LeastNs)
    end.

-doc """
The time of a call, in nanoseconds, in each of so many epochs: one after another, each in another
process out of all, at equal distances.
""".
-spec epochs(pos_integer(), pos_integer()) -> [float()].
epochs(Count, Calls) ->
    Callers = persistent_term:get(?CALLERS),
    Sampled = min(?SAMPLED, tuple_size(Callers)),
    Stride = tuple_size(Callers) div Sampled,
    [
        called(element(1 + (Epoch rem Sampled) * Stride, Callers), Calls) / Calls
     || Epoch <- lists:seq(0, Count - 1)
    ].

-doc """
The same with a breakpoint on the function, but with no process traced: what the runtime itself
takes for any breakpoint, whoever set it.
""".
-spec epochs_with_breakpoint(pos_integer(), pos_integer()) -> [float()].
epochs_with_breakpoint(Count, Calls) ->
    Session = trace:session_create(?MODULE, self(), []),
    1 = trace:function(Session, {?MODULE, leaf, 1}, true, [local]),
    Times = epochs(Count, Calls),
    true = trace:session_destroy(Session),
    Times.

-doc "Waits until the instrument's table has so many processes; gives how many it has.".
-spec wait_for(dyno_agent_process_table:t(), pos_integer()) -> pos_integer().
wait_for(Table, Count) ->
    process_flag(priority, high),
    wait_longer(Table, Count).

wait_longer(Table, Count) ->
    case map_size(dyno_agent_process_table:groups(Table)) of
        Size when Size >= Count ->
            Size;
        _ ->
            receive
            after ?POLL_MS -> wait_longer(Table, Count)
            end
    end.

-doc "Does nothing, so that only the tracing is seen: gives back what it is given.".
-spec leaf(Term) -> Term.
leaf(Term) -> Term.
