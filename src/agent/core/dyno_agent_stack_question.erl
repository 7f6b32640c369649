%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_question).
-moduledoc false.
%% Asks one process for its stack, and tells whether the answer shows where the process ran.

-export([ask/2, ask_waiting/2, where/3, held/1, waits_for_the_system/1]).
-export_type([answer/0]).

-type frames() :: [tuple()].

-type answer() :: gone | {ran | waits | suspended, frames(), Who :: [{term(), term()}]}.

-type held() :: {Messages :: non_neg_integer(), Bytes :: non_neg_integer()}.

-define(MANY_MESSAGES, 1000).
-define(IO, [prim_file, prim_tty, prim_net, prim_socket]).

-doc "The stack, items of `process_info/2`, and whether the process waits at the stack's end.".
-spec ask(pid(), [term()]) -> answer().
ask(Pid, Items) ->
    answered(Pid, process_info(Pid, [current_stacktrace | Items])).

-doc "`ask/2` and `held/1` of a process that just waited, in one signal; rarely, it has run since.".
-spec ask_waiting(pid(), [term()]) -> {answer(), held()}.
ask_waiting(Pid, Items) ->
    {Messages, Item} = to_hold(Pid),
    case process_info(Pid, [Item, current_stacktrace | Items]) of
        undefined ->
            {gone, {Messages, 0}};
        %% It ends, or has not begun.
        [Memory, {current_stacktrace, []} | Who] ->
            {{ran, [], Who}, {Messages, bytes(Memory)}};
        [Memory, {current_stacktrace, Frames} | Who] ->
            {{still(process_info(Pid, status)), Frames, Who}, {Messages, bytes(Memory)}}
    end.

still({status, waiting}) -> waits;
still({status, suspended}) -> suspended;
still(_) -> ran.

answered(_Pid, undefined) ->
    gone;
answered(Pid, [{current_stacktrace, Frames} | Who]) ->
    case process_info(Pid, status) of
        {status, waiting} ->
            case process_info(Pid, current_stacktrace) of
                {current_stacktrace, [Same | _]} when Same =:= hd(Frames) -> {waits, Frames, Who};
                _ -> {ran, Frames, Who}
            end;
        {status, suspended} ->
            {suspended, Frames, Who};
        _ ->
            {ran, Frames, Who}
    end.

%% For a process in a dirty scheduler, or waiting for one, another process answers: the reductions
%% are unchanged. Another ready process may have none, too.
-doc "Whether it was in a dirty scheduler, by status and reductions before the question.".
-spec where(answer(), pid(), {Status :: term(), Reductions :: term()}) ->
    answer() | {ran, normal | dirty, frames(), Who :: [{term(), term()}]}.
where({ran, [_ | _] = Frames, Who}, Pid, {{status, Status}, Reductions}) ->
    IsDirty =
        process_info(Pid, reductions) =:= Reductions andalso
            (Status =:= running orelse waits_for_the_system(hd(Frames))),
    case IsDirty of
        true -> {ran, dirty, Frames, Who};
        false -> {ran, normal, Frames, Who}
    end;
where({ran, Frames, Who}, _Pid, _Before) ->
    {ran, normal, Frames, Who};
where(Other, _Pid, _Before) ->
    Other.

-doc "Whether OTP's functions of this module wait for the system in a dirty scheduler.".
-spec waits_for_the_system(tuple()) -> boolean().
waits_for_the_system(Frame) -> lists:member(element(1, Frame), ?IO).

-spec held(pid()) -> held().
held(Pid) ->
    {Messages, Item} = to_hold(Pid),
    {Messages, bytes(process_info(Pid, Item))}.

%% Asking for memory takes longer if there are many messages.
to_hold(Pid) ->
    case process_info(Pid, message_queue_len) of
        {_, Few} when Few < ?MANY_MESSAGES -> {Few, memory};
        {_, Many} -> {Many, heap_size};
        undefined -> {0, heap_size}
    end.

bytes({memory, Size}) -> Size;
bytes({heap_size, Words}) -> Words * erlang:system_info(wordsize);
bytes(undefined) -> 0.
