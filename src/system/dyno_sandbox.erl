%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sandbox).
-moduledoc false.
%% A process in which is done what a user's code does once: init, set-up, compiling. Each call has a
%% time limit, because the code may never end; what the code makes (tables, links) is the holder's,
%% so it is there until `stop/1`. After a call that took too long the holder is dead.

-export([start_link/0, call/3, stop/1, once/2, attempt/1]).
-export_type([failure/0]).

-type failure() ::
    {raised, error | exit | throw, term(), erlang:stacktrace()}
    | {died, term()}
    %% Milliseconds.
    | {endless, pos_integer()}
    | interrupted.

%% 2 GB: what needs more would take the machine's memory before its time is over.
-define(MAX_WORDS, 268_435_456).

-doc "Starts a holder, linked; the caller must trap exits.".
-spec start_link() -> pid().
start_link() ->
    start_link(fun() -> ok end).

-spec start_link(fun(() -> term())) -> pid().
start_link(Limit) ->
    Owner = self(),
    spawn_link(fun() ->
        proc_lib:set_label(?MODULE),
        %% What init links to may end: that is not the code's failure.
        _ = process_flag(trap_exit, true),
        _ = Limit(),
        serve(Owner)
    end).

-spec serve(pid()) -> ok.
serve(Owner) ->
    receive
        {Owner, Ref, Fun} ->
            Owner ! {Ref, attempt(Fun)},
            serve(Owner);
        {'EXIT', Owner, _} ->
            ok;
        %% What the code sends to itself stays, as it would in a process of its own.
        {Owner, stop} ->
            ok
    end.

-doc "Evaluates here.".
-spec attempt(fun(() -> Value)) -> {ok, Value} | {error, failure()}.
attempt(Fun) ->
    try
        {ok, Fun()}
    catch
        Class:Reason:Stack -> {error, {raised, Class, Reason, Stack}}
    end.

-doc "Has the holder evaluate; kills it where that takes longer, and where the user interrupts.".
-spec call(pid(), fun(() -> Value), pos_integer()) -> {ok, Value} | {error, failure()}.
call(Holder, Fun, TimeoutMs) ->
    Ref = monitor(process, Holder),
    Holder ! {self(), Ref, Fun},
    receive
        {Ref, Result} ->
            true = demonitor(Ref, [flush]),
            Result;
        {'DOWN', Ref, process, Holder, Reason} ->
            {error, {died, Reason}};
        dyno_interrupt ->
            stop(Holder),
            true = demonitor(Ref, [flush]),
            {error, interrupted}
    after TimeoutMs ->
        stop(Holder),
        true = demonitor(Ref, [flush]),
        {error, {endless, TimeoutMs}}
    end.

-doc "Ends a linked process, whatever it does, and takes its exit from the mailbox.".
-spec stop(pid()) -> ok.
stop(Holder) ->
    unlink(Holder),
    Ref = monitor(process, Holder),
    exit(Holder, kill),
    receive
        {'DOWN', Ref, process, Holder, _} -> ok
    end,
    receive
        {'EXIT', Holder, _} -> ok
    after 0 -> ok
    end.

-doc "Evaluates in a process of its own that may take so long and 2 GB: `{died, killed}` is that.".
-spec once(fun(() -> Value), pos_integer()) -> {ok, Value} | {error, failure()}.
once(Fun, TimeoutMs) ->
    Trapping = process_flag(trap_exit, true),
    Limit = #{size => ?MAX_WORDS, kill => true, error_logger => false},
    Holder = start_link(fun() -> process_flag(max_heap_size, Limit) end),
    try
        call(Holder, Fun, TimeoutMs)
    after
        stop(Holder),
        process_flag(trap_exit, Trapping)
    end.
