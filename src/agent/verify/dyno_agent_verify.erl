%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verify).
-moduledoc """
Runs monitors on a node's processes, in partitions: each process's events in their own order, from
its start on, without hand-over.

```
trace session --> tracer     partitions, monitors (dyno_agent_partition)
                    v counts, verdicts
       this process: verdicts to the sink, faults, processes that run already
         limit (dyno_agent_event_limit): looks at what waits
```

All are linked to this process: if any is killed, nothing is left.

## Faults
* A monitor that raises an exception ends inconclusive for that process, and is counted.
* A monitor that does not return within three seconds is dropped. The tracer is killed; partitions
  have a gap, and living processes get new, partial ones.
* A killed tracer has the same effect.
* Too many waiting events: dyno_agent_event_limit.
* More than twice the memory limit: restarts all, like a killed tracer.
* After twenty faults monitoring ends; earlier counts stay available.
""".

-behaviour(dyno_agent_verifier).

-export([start/1, stop/1, info/2, terminate/1]).

-type state() :: #{
    session := dyno_agent_event_session:t() | none,
    tracer := pid(),
    limit := pid(),
    %% Events handled at the last tick, and ticks without progress.
    done := {integer(), non_neg_integer()},
    atom() => term()
}.

-define(DRAIN_S, 20).
-define(TOGETHER, 100).
%% The most restarts of the agent's own processes.
-define(MOST_FAULTS, 20).
-define(TOO_MUCH, "more than twice the memory that events may take was taken").

-spec start(dyno_agent_verifier:state()) -> state().
start(#{config := Config, choice := Choice, monitors := Monitors, verdicts := Verdicts} = Before) ->
    ok = dyno_agent_verdicts:forget(Verdicts),
    Flow = dyno_agent_event_limit:new(),
    Tracer = dyno_agent_verify_tracer:start_link(#{
        monitors => Monitors,
        options => maps:with([events], Config),
        choice => Choice,
        verdicts => Verdicts,
        flow => Flow
    }),
    Needs = [dyno_agent_monitor:needs(Monitor) || Monitor <- Monitors],
    Session = dyno_agent_event_session:open(Tracer, Needs, Choice),
    ok = dyno_agent_verify_tracer:traces(Tracer, Session),
    Limit = dyno_agent_event_limit:start_link(#{
        parent => self(),
        tracer => Tracer,
        session => Session,
        flow => Flow,
        limits => limits(Before)
    }),
    State = Before#{session => Session, tracer => Tracer, limit => Limit, done => {0, 0}},
    Running = processes(),
    case dyno_agent_process_filter:has([function, module, registered, label], Choice) of
        true -> dyno_agent_event_session:new(Session);
        false -> ok
    end,
    Missed = [
        Pid
     || Pid <- processes() -- Running, not dyno_agent_event_session:is_traced(Pid, Session)
    ],
    ok = dyno_agent_event_session:names(Session),
    ok = attach(Running ++ Missed, State),
    State.

%% Running processes: partitions are open just before tracing starts, as time counts from then.
attach(Pids, #{choice := Choice} = State) ->
    Own = maps:from_keys([self() | parts(State)], []),
    Chosen = [
        Process
     || Pid <- Pids,
        not is_map_key(Pid, Own),
        #{} = Process <- [dyno_agent_event:describe(Pid)],
        dyno_agent_process_filter:of_process(Process, Choice) =/= []
    ],
    follow(Chosen, State).

follow([], _State) ->
    ok;
follow(Processes, #{tracer := Tracer, session := Session} = State) ->
    {Some, Rest} = lists:split(min(?TOGETHER, length(Processes)), Processes),
    Now = erlang:monotonic_time(nanosecond),
    _ = dyno_agent_verify_tracer:attach(Tracer, [Process#{since_ns := Now} || Process <- Some]),
    %% Ended before tracing started.
    Ended = [Pid || #{pid := Pid} <- Some, not dyno_agent_event_session:follow(Pid, Session)],
    lists:foreach(fun(Pid) -> ok = dyno_agent_verify_tracer:cut(Tracer, Pid) end, Ended),
    follow(Rest, State).

-spec stop(state()) -> state().
stop(#{session := none} = State) ->
    State;
stop(#{session := Session, tracer := Tracer, verdicts := Verdicts} = State) ->
    ok = dyno_agent_event_session:close(Session),
    Closed = State#{session := none},
    Done = fun() -> dyno_agent_verdicts:events(Verdicts) end,
    case dyno_agent_verify_tracer:drain(Tracer, Done, ?DRAIN_S) of
        ok -> Closed;
        late -> lost(late(Closed), Closed)
    end.

late(State) ->
    case running(State) of
        [Module | _] -> ["a monitor does not return: ", atom_to_binary(Module)];
        [] -> "not all events were done when time was over"
    end.

running(#{tracer := Tracer, monitors := Monitors}) ->
    [
        Module
     || {_, Stack} <- [process_info(Tracer, current_stacktrace)],
        {Module, _, _, _} <- Stack,
        lists:member(Module, Monitors)
    ].

-spec info(term(), state()) -> state().
info(_Message, #{session := none} = State) ->
    State;
info(tick, State) ->
    limited(watched(State));
info({dyno_agent_event_limit, Limit}, #{limit := Limit} = State) ->
    restarted(?TOO_MUCH, State);
info({'EXIT', Pid, Reason}, #{tracer := Pid} = State) ->
    restarted(["the tracer", ended(Reason)], State);
info({'EXIT', Pid, Reason}, #{limit := Pid} = State) ->
    restarted(["the tracer's limit", ended(Reason)], State);
info(_Other, State) ->
    State.

ended(Reason) -> io_lib:format(" ended: ~0tP", [Reason, 8]).

%% A tracer with waiting events and no progress has a monitor that does not return.
watched(#{tracer := Tracer, verdicts := Verdicts, done := {Before, Ticks}} = State) ->
    case dyno_agent_verdicts:events(Verdicts) of
        Before ->
            IsStuck =
                Ticks + 1 >= dyno_agent_verify_tracer:stuck_s() andalso
                    process_info(Tracer, message_queue_len) > {message_queue_len, 0},
            stuck(IsStuck, State#{done := {Before, Ticks + 1}});
        Events ->
            State#{done := {Events, 0}}
    end.

stuck(IsStuck, #{monitors := Monitors} = State) when not IsStuck; Monitors =:= [] ->
    State;
stuck(true, #{tracer := Tracer, monitors := Monitors, config := Config} = State) ->
    Bad = lists:sublist(running(State), 1),
    true = exit(Tracer, kill),
    Text =
        case Bad of
            [Module] ->
                ["a monitor does not return and is not used any more: ", atom_to_binary(Module)];
            [] ->
                "monitors had no turn for too long, and begin anew: simpler properties keep up"
        end,
    Left = Monitors -- Bad,
    dyno_agent_verifier:fault(Text, State#{
        monitors := Left, choice := dyno_agent_monitor:table(Left, Config)
    }).

%% After too many faults it stays stopped; counts stay available.
restarted(Text, State) ->
    #{faults := Faults} = Lost = lost(Text, closed(State)),
    case length(Faults) >= ?MOST_FAULTS of
        true -> dyno_agent_verifier:gave_up(Lost#{session := none});
        false -> start(Lost)
    end.

lost(Text, #{verdicts := Verdicts} = State) ->
    Processes =
        case dyno_agent_verdicts:lost(Verdicts) of
            1 -> "1 process was";
            Lost -> [integer_to_binary(Lost), " processes were"]
        end,
    dyno_agent_verifier:fault([Text, "; ", Processes, " cut off"], State).

parts(#{tracer := Tracer, limit := Limit}) -> [Limit, Tracer].

closed(#{session := Session} = State) ->
    ok = dyno_agent_event_session:close(Session),
    lists:foreach(fun dyno_agent_process:kill/1, parts(State)),
    State.

%% The monitors' states and the backlog take at most twice the memory limit.
limited(State) ->
    #{bytes := Most} = limits(State),
    Bytes = lists:sum([
        Of
     || Pid <- parts(State), {memory, Of} <- [process_info(Pid, memory)]
    ]),
    case Bytes > 2 * Most of
        true -> restarted(?TOO_MUCH, State);
        false -> State
    end.

limits(#{config := Config}) ->
    maps:merge(dyno_agent_event_limit:defaults(), maps:get(limits, Config, #{})).

-spec terminate(state()) -> term().
terminate(State) -> closed(State).
