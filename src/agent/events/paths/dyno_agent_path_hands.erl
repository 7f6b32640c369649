%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_hands).
-moduledoc false.
%% Wakes the tracer now and then, and does its slow work.
%%
%% Waking a process costs the sender at least 5 us, which each traced call would pay if calls came
%% one by one. So the tracer is suspended while messages gather, and woken each 2 ms, or at the end
%% of this process. That is safe: the tracer is dyno's own and waits for no timeout.
%%
%% Removing a breakpoint takes up to a millisecond, removing flags waits: both happen here.

-export([start_link/1, paced/1, hide/2, release/3, echo/2]).
-export([init/2]).

-define(SLEEP_MS, 2).
%% A tracer with a larger backlog is not suspended.
-define(BEHIND, 2000).

-spec start_link(trace:session()) -> pid().
start_link(Session) -> spawn_link(?MODULE, init, [self(), Session]).

-doc "The calling tracer has handled the messages from before it was woken.".
-spec paced(pid()) -> ok.
paced(Hands) ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    tell(Hands, {paced, Waiting}).

-spec hide(pid(), mfa()) -> ok.
hide(Hands, MFA) -> tell(Hands, {hide, MFA}).

-doc "Removes flags of a process; the tracer then gets `{released, Pid, Time}`.".
-spec release(pid(), pid(), Flags :: [atom()]) -> ok.
release(Hands, Pid, Flags) -> tell(Hands, {release, Pid, Flags}).

-doc "Sends the tracer a message after all earlier requests.".
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

%% False if the tracer has ended.
suspended(Tracer) ->
    try
        erlang:suspend_process(Tracer)
    catch
        error:badarg -> false
    end.

woken(Tracer, Session) ->
    Tracer ! {?MODULE, pace, self()},
    works(Tracer, Session).

%% May take long on a busy machine: the tracer goes on meanwhile.
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
