%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_known).
-moduledoc """
Functions of which the time is known, called by so many processes: what runs in the measured node of
`calibrated_time`, and of the test of the same.
""".

%% Called in the measured node
-export([start/1, stop/1, round/3, true_ns/2, turns/1]).
%% What is measured
-export([known/1, twin/1, empty/1, made/0, made_twin/0]).
-export_type([work/0]).

-doc "Turns of a loop; or these and so many calls of another function, which is measured as well.".
-type work() :: non_neg_integer() | {non_neg_integer(), Made :: pos_integer()}.

-define(ROUNDS, 30).
-define(CALLS, 2000).
%% Reductions, of the 4,000 that a process has.
-define(SLICE, 3000).
%% What is called of one function before it is the other's turn: the machine's speed changes within
%% milliseconds.
-define(PART_NS, 10_000).
-define(PART_CALLS, 100).

-doc "Starts processes that call.".
-spec start(pos_integer()) -> [pid()].
start(Count) ->
    [spawn(fun caller/0) || _ <- lists:seq(1, Count)].

-spec stop([pid()]) -> ok.
stop(Pids) ->
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, Pids).

-doc """
Has each process call the function so often, and its twin by turns. What a call of the twin took, in
nanoseconds: the mean over the processes, each by its own clock.
""".
-spec round([pid()], work(), pos_integer()) -> float().
round(Pids, Turns, Calls) ->
    Part = max(1, lists:min([Calls, ?PART_CALLS, ?PART_NS div (reductions(Turns) + 10)])),
    %% A process that has used its slice is interrupted, by another where there is one (also where
    %% two processes have two schedulers: on a busy machine one may do the work of both). That would
    %% count.
    Twice = max(1, min(Part, ?SLICE div (2 * (reductions(Turns) + 10)))),
    _ = [Pid ! {call, self(), Turns, {Calls, Part, Twice}} || Pid <- Pids],
    Twins = [
        receive
            {called, Pid, TwinNs} -> TwinNs
        end
     || Pid <- Pids
    ],
    lists:sum(Twins) / length(Twins).

reductions({Turns, Made}) -> Turns + 2 * Made;
reductions(Turns) -> Turns.

caller() ->
    receive
        {call, From, Turns, {Calls, Part, Twice}} ->
            %% What a process has just been woken to do takes longer.
            call_empty(Turns, 10),
            call_twin(Turns, 1),
            From ! {called, self(), by_turns(Turns, Calls, Part, Twice, {0, 0})},
            caller()
    end.

by_turns(_Turns, 0, _Part, Twice, {Ns, Parts}) ->
    Ns / Parts / Twice;
by_turns(Turns, Calls, Part, Twice, {Ns, Parts}) ->
    Now = min(Calls, Part),
    call_known(Turns, Now),
    erlang:yield(),
    Twin = took_ns(fun() -> call_twin(Turns, Twice) end),
    Empty = took_ns(fun() -> call_empty(Turns, Twice) end),
    by_turns(Turns, Calls - Now, Part, Twice, {Ns + Twin - Empty, Parts + 1}).

-doc """
What a call of the function takes, in nanoseconds: the least of many rounds with its twin, which is
never measured, without what calling an empty function in the same loop takes.
""".
-spec true_ns(non_neg_integer(), pos_integer()) -> float().
true_ns(Turns, Calls) ->
    least_ns(fun() -> call_twin(Turns, Calls) end, Calls) -
        least_ns(fun() -> call_empty(Turns, Calls) end, Calls).

least_ns(Do, Calls) ->
    lists:min([once_ns(Do, Calls) || _ <- lists:seq(1, ?ROUNDS)]).

once_ns(Do, Calls) ->
    took_ns(Do) / Calls.

took_ns(Do) ->
    Start = erlang:monotonic_time(),
    Do(),
    erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond).

-doc "How many turns the function makes in so many nanoseconds.".
-spec turns(pos_integer()) -> non_neg_integer().
turns(Ns) when Ns < 5 ->
    0;
turns(Ns) ->
    Many = 1000,
    round(Ns / (true_ns(Many, ?CALLS div 10) / Many)).

call_known(_Turns, 0) ->
    ok;
call_known(Turns, Calls) ->
    _ = ?MODULE:known(Turns),
    call_known(Turns, Calls - 1).

call_twin(_Turns, 0) ->
    ok;
call_twin(Turns, Calls) ->
    _ = ?MODULE:twin(Turns),
    call_twin(Turns, Calls - 1).

call_empty(_Turns, 0) ->
    ok;
call_empty(Turns, Calls) ->
    _ = ?MODULE:empty(Turns),
    call_empty(Turns, Calls - 1).

-doc "Takes time in proportion to its argument.".
-spec known(work()) -> ok.
known({Turns, Made}) ->
    make(Made),
    turn(Turns);
known(Turns) ->
    turn(Turns).

-doc "The same.".
-spec twin(work()) -> ok.
twin({Turns, Made}) ->
    make_twin(Made),
    turn(Turns);
twin(Turns) ->
    turn(Turns).

make(0) ->
    ok;
make(Left) ->
    _ = ?MODULE:made(),
    make(Left - 1).

make_twin(0) ->
    ok;
make_twin(Left) ->
    _ = ?MODULE:made_twin(),
    make_twin(Left - 1).

-doc "What a function calls that makes calls.".
-spec made() -> ok.
made() -> ok.

-doc "The same.".
-spec made_twin() -> ok.
made_twin() -> ok.

turn(0) -> ok;
turn(Turns) -> turn(Turns - 1).

-doc "Takes none.".
-spec empty(work()) -> ok.
empty(_Turns) -> ok.
