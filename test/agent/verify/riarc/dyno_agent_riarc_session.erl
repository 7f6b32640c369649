%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_riarc_session).
-moduledoc false.
%% The process of a collector, and the tracer of its trace session: executes
%% dyno_agent_riarc_collector's effects.

-export([start_link/0, traces/3, take_over/5, init/0]).
-export([follow_tree/2]).

-define(LATER_MS, 10).

-record(session, {
    handle :: dyno_agent_event_session:t(),
    core :: dyno_agent_riarc_collector:t(),
    outside :: boolean()
}).

-spec start_link() -> pid().
start_link() ->
    Pid = proc_lib:spawn_opt(?MODULE, init, [], [
        link, {message_queue_data, off_heap}, {min_heap_size, 10_000}, {fullsweep_after, 100}
    ]),
    true = is_pid(Pid),
    Pid.

-doc """
Sets its session and the tracers of the initial processes; if it traces all new processes, also
dyno's own, and the tracer of those that other nodes start.
""".
-spec traces(pid(), dyno_agent_event_session:t(), {Tracers, Own :: [pid()], Outside}) -> ok when
    Tracers :: #{pid() => dyno_agent_riarc_collector:tracer()},
    Outside :: dyno_agent_riarc_collector:tracer() | none.
traces(Pid, Session, Begin) ->
    Pid ! {session, Session, Begin},
    ok.

-doc "Takes a process from a tracer of any home to one of this home.".
-spec take_over(Home :: pid(), pid(), New, Former, FormerHome :: pid()) -> ok when
    New :: dyno_agent_riarc_collector:tracer(),
    Former :: dyno_agent_riarc_collector:tracer().
take_over(Home, Process, New, Former, FormerHome) ->
    Home ! {take_over, Process, New, Former, FormerHome},
    ok.

-spec init() -> no_return().
init() ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    receive
        {session, Session, {Tracers, Own, Outside}} ->
            loop(#session{
                handle = Session,
                core = dyno_agent_riarc_collector:new(Tracers, Own, Outside),
                outside = Outside =/= none
            })
    end.

loop(Session) ->
    receive
        Message -> loop(message(Message, Session))
    end.

message({trace_ts, Process, getting_linked, Helper, _}, Session) ->
    core({mark, Process, Helper}, Session);
message(Message, Session) when element(1, Message) =:= trace_ts ->
    case dyno_agent_event:from_trace(Message) of
        {Process, {spawned, Parent, MFArgs} = Event, TimeNs} when
            Session#session.outside, node(Parent) =/= node()
        ->
            Known = core({from_outside, Process, MFArgs, TimeNs}, Session),
            core({event, Process, Event, TimeNs}, Known);
        {Process, Event, TimeNs} ->
            core({event, Process, Event, TimeNs}, Session);
        other ->
            Session
    end;
message({settle, Process, Parent}, Session) ->
    core({settle, Process, Parent, is_process_alive(Parent)}, Session);
message({take_over, Process, New, Former, Home}, Session) when Home =:= self() ->
    core({preempt, Process, New, Former}, Session);
message({take_over, Process, New, Former, Home}, #session{handle = Handle} = Session) ->
    case follow_tree(Process, Handle) of
        true ->
            Helper = spawn(fun() -> mark(Process, New, Former, Home) end),
            core({arrive, Process, New, Helper}, Session);
        false ->
            %% The process has ended: the other session has all its events.
            Home ! {leave, Process, New, Former, none, none},
            Session
    end;
message({leave, Process, New, Former, Helper, Ref}, Session) ->
    Left = core({leave, Process, New, Former, Helper}, Session),
    case Helper of
        none -> ok;
        _ -> Helper ! Ref
    end,
    Left;
message({'DOWN', _, process, Process, _}, Session) ->
    core({ended, Process}, Session);
message(_Other, Session) ->
    Session.

%% No other process knows the helper, so it cannot be killed while linked.
mark(Process, New, Former, Home) ->
    Ref = monitor(process, Home),
    Home ! {leave, Process, New, Former, self(), Ref},
    receive
        Ref ->
            try
                true = link(Process),
                true = unlink(Process)
            catch
                %% The process has ended: its exit is the mark.
                error:noproc -> true
            end;
        {'DOWN', Ref, process, Home, _} ->
            ok
    end.

core(Message, #session{core = Core} = Session) ->
    {Next, Effects} = dyno_agent_riarc_collector:handle(Message, Core),
    lists:foreach(fun(Effect) -> effect(Effect, Session) end, Effects),
    Session#session{core = Next}.

effect({tell, {_, Tracer}, Message}, _Session) ->
    Tracer ! Message,
    ok;
effect({settle, Process, Parent, now}, _Session) ->
    self() ! {settle, Process, Parent},
    ok;
effect({settle, Process, Parent, later}, _Session) ->
    _ = erlang:send_after(?LATER_MS, self(), {settle, Process, Parent}),
    ok;
effect({off, Process}, #session{handle = Handle}) ->
    ok = dyno_agent_event_session:ignore(Process, Handle),
    _ = monitor(process, Process),
    ok.

-doc "Traces a process and its later descendants; false if it has ended.".
-spec follow_tree(pid(), dyno_agent_event_session:t()) -> boolean().
follow_tree(Process, #{flags := Flags} = Handle) ->
    dyno_agent_event_session:follow(Process, Handle#{flags := [set_on_spawn | Flags]}).
