%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu_trial).
-moduledoc false.
%% Tests the sampler of processor time before use: finds the emulator's layout, then samples
%% functions of this module, on a normal and on a dirty scheduler, in processes with small heaps and
%% known stacks. Samples must show the functions, their callers and the right process.

-export([layout/1, test/2]).
-export([look/1, normal/1, dirty/1]).
-export_type([reason/0]).

-type reason() ::
    dyno_agent_cpu_layout:reason()
    %% Stacks that were right, all, and the last that was wrong.
    | {not_seen, normal | dirty, non_neg_integer(), non_neg_integer(), [
        dyno_agent_cpu_frames:frame()
    ]}
    | {trial_failed, term()}.

-define(NS, 24_000_000).
-define(ROUNDS, 25).
-define(LEAST, 3).
-define(RIGHT, 0.8).
-define(MOST_SAMPLES, 10_000).
-define(TRIES, 20).
-define(TURNS, 20_000).
-define(DEEP, 60).

-spec layout([dyno_agent_cpu_nif:range()]) ->
    {ok, dyno_agent_cpu_nif:layout()} | {error, reason()}.
layout(Code) ->
    maybe
        {ok, Seen} ?= beside(look, []),
        dyno_agent_cpu_layout:find(Seen, Code)
    end.

-doc "Whether a session finds known functions: 50 ms of processor time, at most 20 times that.".
-spec test(dyno_agent_cpu_nif:session(), dyno_agent_cpu_frames:t()) ->
    {ok, dyno_agent_cpu_frames:t()} | {error, reason()}.
test(Session, Frames) ->
    maybe
        {ok, Next} ?= tried(normal, Session, Frames, 0, [], ?ROUNDS),
        tried(dirty, Session, Next, 0, [], ?ROUNDS)
    end.

tried(Which, _Session, _Frames, Right, Wrong, 0) ->
    {error, {not_seen, Which, Right, Right + length(Wrong), lists:append(lists:sublist(Wrong, 1))}};
tried(Which, Session, Frames, Right, Wrong, Rounds) ->
    maybe
        _ = dyno_agent_cpu_nif:drain(Session, ?MOST_SAMPLES),
        {ok, Pid} ?= beside(Which, ?NS),
        Samples = dyno_agent_cpu_nif:drain(Session, ?MOST_SAMPLES),
        {Decoded, Next} = dyno_agent_cpu_frames:decode(Session, Samples, Frames),
        {New, NewWrong} = lists:partition(
            fun(Stack) -> is_right(Which, Stack) end,
            [Stack || {Of, Stack, _} <- Decoded, Of =:= Pid]
        ),
        NowRight = Right + length(New),
        NowWrong = NewWrong ++ Wrong,
        case NowRight >= ?LEAST of
            true when NowRight >= ?RIGHT * (NowRight + length(NowWrong)) -> {ok, Next};
            _ -> tried(Which, Session, Next, NowRight, NowWrong, Rounds - 1)
        end
    end.

is_right(normal, Stack) ->
    lists:suffix([{?MODULE, normal, 1}, {?MODULE, spin, 2}, {?MODULE, turns, 1}], Stack);
is_right(dirty, Stack) ->
    case lists:reverse(Stack) of
        [{library, _}, {dyno_agent_cpu_nif, compute_dirty, 1}, {?MODULE, dirty, 1} | _] -> true;
        _ -> false
    end.

%% In a short-lived process, for which the result `pid` stands, with the caller's priority.
beside(Function, Argument) ->
    Run = dyno_agent_process:ending_with(fun() -> ?MODULE:Function(Argument) end),
    {Pid, Monitor} = spawn_opt(Run, [monitor, {priority, high}]),
    receive
        {'DOWN', Monitor, process, Pid, {value, pid}} -> {ok, Pid};
        {'DOWN', Monitor, process, Pid, {value, Result}} -> {ok, Result};
        {'DOWN', Monitor, process, Pid, Reason} -> {error, {trial_failed, Reason}}
    end.

-doc "Snapshots for the layout: with a small stack, with a large one, and after a collection.".
-spec look([]) -> [{dyno_agent_cpu_layout:seen(), dyno_agent_cpu_nif:snapshot()}, ...].
look([]) ->
    Shallow = seen(?TRIES),
    Deep = deep(?DEEP, lists:seq(1, ?DEEP)),
    true = erlang:garbage_collect(),
    Collected = deep(2 * ?DEEP, [Shallow, Deep]),
    [Shallow, Deep, Collected].

deep(0, _Kept) ->
    seen(?TRIES);
deep(N, Kept) ->
    Seen = deep(N - 1, [N | Kept]),
    true = is_list(Kept),
    Seen.

seen(Tries) ->
    [{_, Heap}, {_, Stack}] = process_info(self(), [heap_size, stack_size]),
    Snapshot = dyno_agent_cpu_nif:snapshot(),
    case process_info(self(), heap_size) of
        %% A collection came between.
        {heap_size, Other} when Other =/= Heap, Tries > 0 -> seen(Tries - 1);
        _ -> {{Snapshot, Heap, Stack}, dyno_agent_cpu_nif:snapshot_dirty()}
    end.

-spec normal(non_neg_integer()) -> pid.
normal(Ns) ->
    ok = spin(Ns, erlang:monotonic_time(nanosecond)),
    pid.

spin(Ns, Start) ->
    0 = turns(?TURNS),
    case erlang:monotonic_time(nanosecond) - Start < Ns of
        true -> spin(Ns, Start);
        false -> ok
    end.

turns(0) -> 0;
turns(N) -> turns(N - 1).

-spec dirty(non_neg_integer()) -> pid.
dirty(Ns) ->
    ok = dyno_agent_cpu_nif:compute_dirty(Ns),
    pid.
