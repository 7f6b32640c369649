%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_question).
-moduledoc false.
%% Asks one process for its stack, and tells whether the answer shows where the process ran.

-export([ask/2, ask_waiting/2, where/3, held/1]).
-export_type([answer/0]).

-type frames() :: [tuple()].

-type answer() :: gone | {ran | waits | suspended, frames(), Who :: [{term(), term()}]}.

-define(MANY_MESSAGES, 1000).

-doc """
The stack and other items of `process_info/2`, and whether the process waits at the stack's end.
""".
-spec ask(pid(), [term()]) -> answer().
ask(Pid, Items) ->
    answered(Pid, process_info(Pid, [current_stacktrace | Items])).

-doc """
Like `ask/2`, of a process that waited just before: half as many signals. In rare cases it has run
shortly meanwhile, and the stack is of that.
""".
-spec ask_waiting(pid(), [term()]) -> answer().
ask_waiting(Pid, Items) ->
    case process_info(Pid, [current_stacktrace | Items]) of
        undefined -> gone;
        %% It ends, or has not begun.
        [{current_stacktrace, []} | Who] -> {ran, [], Who};
        [{current_stacktrace, Frames} | Who] -> {still(process_info(Pid, status)), Frames, Who}
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
-doc """
Whether the process was in a dirty scheduler: from status and reductions before the question.
""".
-spec where(answer(), pid(), {Status :: term(), Reductions :: term()}) ->
    answer() | {ran, normal | dirty, frames(), Who :: [{term(), term()}]}.
where({ran, [_ | _] = Frames, Who}, Pid, {{status, Status}, Reductions}) ->
    IsDirty =
        process_info(Pid, reductions) =:= Reductions andalso
            (Status =:= running orelse dyno_agent_stack_samples:class(dirty, Frames) =:= io),
    case IsDirty of
        true -> {ran, dirty, Frames, Who};
        false -> {ran, normal, Frames, Who}
    end;
where({ran, Frames, Who}, _Pid, _Before) ->
    {ran, normal, Frames, Who};
where(Other, _Pid, _Before) ->
    Other.

%% Asking for memory takes longer if there are many messages.
-spec held(pid()) -> {Messages :: non_neg_integer(), Bytes :: non_neg_integer()}.
held(Pid) ->
    {Messages, Memory} =
        case process_info(Pid, message_queue_len) of
            {_, Few} when Few < ?MANY_MESSAGES -> {Few, process_info(Pid, memory)};
            {_, Many} -> {Many, process_info(Pid, heap_size)};
            undefined -> {0, undefined}
        end,
    Bytes =
        case Memory of
            {memory, Size} -> Size;
            {heap_size, Words} -> Words * erlang:system_info(wordsize);
            undefined -> 0
        end,
    {Messages, Bytes}.
