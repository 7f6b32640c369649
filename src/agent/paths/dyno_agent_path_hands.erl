%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_hands).
-moduledoc false.
%% Has the tracer work now and then, and does for it what takes long.
%%
%% To wake a process costs who sends to it 5 us and more: each traced call would pay that wherever
%% calls come one by one. So the tracer sleeps, suspended, while messages gather, and is woken by
%% this process each two milliseconds. It is dyno's own and waits for no timeout, so nothing is lost
%% by suspending it. When this process ends the tracer goes on by itself.
%%
%% To take a breakpoint away takes up to a millisecond, to take a process's flags away may have to
%% wait for the process: this process does it, meanwhile.

-export([start_link/1, paced/1, hide/2, release/3, echo/2]).
-export([init/2]).

-define(SLEEP_MS, 2).
%% A tracer that has more to do than this goes on.
-define(BEHIND, 2000).

-doc "Starts it, for the calling tracer and its session.".
-spec start_link(trace:session()) -> pid().
start_link(Session) -> spawn_link(?MODULE, init, [self(), Session]).

-doc "The calling tracer has seen what came before it was woken.".
-spec paced(pid()) -> ok.
paced(Hands) ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    tell(Hands, {paced, Waiting}).

-doc "No call of a function shall be traced any more.".
-spec hide(pid(), mfa()) -> ok.
hide(Hands, MFA) -> tell(Hands, {hide, MFA}).

-doc "A process shall not be traced any more; `{released, Pid, Time}` tells that it is not.".
-spec release(pid(), pid(), Flags :: [atom()]) -> ok.
release(Hands, Pid, Flags) -> tell(Hands, {release, Pid, Flags}).

-doc "Sends the tracer a message when all is done that it was told before.".
-spec echo(pid(), term()) -> ok.
echo(Hands, Message) -> tell(Hands, {echo, Message}).

tell(Hands, What) ->
    Hands ! {?MODULE, What},
    ok.

-spec init(pid(), trace:session()) -> no_return().
init(Tracer, Session) ->
    process_flag(priority, high),
    proc_lib:set_label(?MODULE),
    _ = monitor(process, Tracer),
    loop(Tracer, Session, 0).

%% A tracer that is behind goes on.
loop(Tracer, Session, Waiting) when Waiting > ?BEHIND ->
    loop(Tracer, Session, woken(Tracer, Session));
loop(Tracer, Session, _Waiting) ->
    case suspended(Tracer) of
        true ->
            timer:sleep(?SLEEP_MS),
            true = erlang:resume_process(Tracer),
            loop(Tracer, Session, woken(Tracer, Session));
        false ->
            exit(normal)
    end.

%% False where it has ended.
suspended(Tracer) ->
    try
        erlang:suspend_process(Tracer)
    catch
        error:badarg -> false
    end.

woken(Tracer, Session) ->
    Tracer ! {?MODULE, pace, self()},
    works(Tracer, Session).

%% It may take long on a busy machine: the tracer goes on meanwhile.
works(Tracer, Session) ->
    receive
        {?MODULE, {hide, MFA}} ->
            _ = try_on(fun() -> trace:function(Session, MFA, false, [local]) end),
            works(Tracer, Session);
        {?MODULE, {release, Pid, Flags}} ->
            _ = try_on(fun() -> trace:process(Session, Pid, false, Flags) end),
            Tracer ! {released, Pid, erlang:monotonic_time()},
            works(Tracer, Session);
        {?MODULE, {echo, Message}} ->
            Tracer ! Message,
            works(Tracer, Session);
        {?MODULE, {paced, Waiting}} ->
            Waiting;
        {'DOWN', _, process, Tracer, _} ->
            exit(normal)
    end.

%% The session or the process may be gone.
try_on(Fun) ->
    try
        Fun()
    catch
        error:badarg -> 0
    end.
