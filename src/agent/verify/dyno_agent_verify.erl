%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verify).
-moduledoc """
Runs monitors on a node's processes, in partitions: each process's events in their own order, from
its start on, without hand-over.

```
trace session --> router --> shard 1..K    partitions, monitors (dyno_agent_partition)
                               v counts, verdicts
                  this process: verdicts to the sink, faults, processes that run already
                    limit (dyno_agent_event_limit): looks at what waits
```

With one shard there is no router. All are linked to this process: if any is killed, nothing is
left.

## Faults
* A monitor that raises an exception ends inconclusive for that process, and is counted.
* A monitor that does not return within three seconds is dropped. Its shard is killed; partitions
  there have a gap, and their living processes get new, partial ones.
* A killed shard has the same effect; a killed tracer has it for all shards.
* Too many waiting events: dyno_agent_event_flow, dyno_agent_event_limit.
* More than twice the memory limit: restarts all, like a killed tracer.
* After twenty faults monitoring ends; earlier counts stay available.
""".

-behaviour(dyno_agent_verifier).

-export([shards/1, start/1, stop/1, info/2, terminate/1]).

-type state() :: #{
    %% The mean size of an event.
    words := dyno_agent_event_limit:words(),
    session := dyno_agent_event_session:t() | none,
    tracer := pid(),
    limit := pid(),
    shards := #{pos_integer() => pid()},
    %% By shard: events handled at the last tick, and ticks without progress.
    done := #{pos_integer() => {non_neg_integer(), non_neg_integer()}},
    atom() => term()
}.

-define(DRAIN_S, 20).
-define(TOGETHER, 100).
%% The most restarts of the agent's own processes.
-define(MOST_FAULTS, 20).
-define(TOO_MUCH, "more than twice the memory that events may take was taken").

%% Monitors with keys merge the events of several processes, in one shard.
-spec shards(dyno_agent_verifier:config()) -> pos_integer().
shards(#{monitors := Monitors} = Config) ->
    case lists:any(fun dyno_agent_monitor:has_key/1, Monitors) of
        true -> 1;
        %% Half of the schedulers stay free, however slow the monitors are.
        false -> maps:get(shards, Config, max(1, erlang:system_info(schedulers_online) div 2))
    end.

-spec start(dyno_agent_verifier:state()) -> state().
start(#{config := #{shards := N}, choice := Choice, monitors := Monitors} = Before) ->
    ok = dyno_agent_verdicts:forget(map_get(verdicts, Before)),
    Words = dyno_agent_event_limit:words(),
    Shards = #{Index => shard(Index, Words, Before) || Index <- lists:seq(1, N)},
    Tracer = tracer(Shards, Words, Before),
    Pids = lists:uniq([Tracer | maps:values(Shards)]),
    Needs = [dyno_agent_monitor:needs(Monitor) || Monitor <- Monitors],
    Session = dyno_agent_event_session:open(Tracer, Needs, Choice),
    lists:foreach(fun(Pid) -> ok = dyno_agent_event_shard:traces(Pid, Session) end, Pids),
    Limit = dyno_agent_event_limit:start_link(#{
        parent => self(),
        tracer => Tracer,
        session => Session,
        pids => Pids,
        words => Words,
        limits => limits(Before)
    }),
    State = Before#{
        words => Words,
        session => Session,
        tracer => Tracer,
        limit => Limit,
        shards => Shards,
        done => #{}
    },
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

shard(Index, Words, State) ->
    dyno_agent_event_shard:start_link(shard_config(Index, Words, State)).

shard_config(Index, Words, #{config := #{shards := N} = Config} = State) ->
    (maps:with([monitors, choice, verdicts], State))#{
        index => Index,
        options => maps:with([events], Config),
        limits => limits(State),
        words => Words,
        alone => N =:= 1,
        urgent => 2 * N =< erlang:system_info(schedulers_online)
    }.

tracer(#{1 := Shard} = Shards, _Words, _State) when map_size(Shards) =:= 1 ->
    Shard;
tracer(Shards, Words, State) ->
    InOrder = [map_get(Index, Shards) || Index <- lists:seq(1, map_size(Shards))],
    dyno_agent_event_shard:start_link(
        (shard_config(0, Words, State))#{shards => list_to_tuple(InOrder)}
    ).

%% Running processes: partitions are open before tracing starts, just before, as time counts from
%% then.
attach(Pids, #{shards := Shards, choice := Choice} = State) ->
    Own = maps:from_keys([self() | parts(State)], []),
    Chosen = [
        Process
     || Pid <- Pids,
        not is_map_key(Pid, Own),
        #{} = Process <- [dyno_agent_event:describe(Pid)],
        dyno_agent_process_filter:of_process(Process, Choice) =/= []
    ],
    BySize = maps:groups_from_list(
        fun(#{pid := Pid}) -> dyno_agent_event_shard:of_pid(Pid, map_size(Shards)) end, Chosen
    ),
    maps:foreach(fun(Index, Of) -> follow(Of, map_get(Index, Shards), State) end, BySize).

follow([], _Shard, _State) ->
    ok;
follow(Processes, Shard, #{session := Session} = State) ->
    {Some, Rest} = lists:split(min(?TOGETHER, length(Processes)), Processes),
    Now = erlang:monotonic_time(nanosecond),
    _ = dyno_agent_event_shard:attach(Shard, [Process#{since_ns := Now} || Process <- Some]),
    %% Ended before tracing started.
    Ended = [Pid || #{pid := Pid} <- Some, not dyno_agent_event_session:follow(Pid, Session)],
    lists:foreach(fun(Pid) -> ok = dyno_agent_event_shard:cut(Shard, Pid) end, Ended),
    follow(Rest, Shard, State).

-spec stop(state()) -> state().
stop(#{session := none} = State) ->
    State;
stop(#{session := Session, tracer := Tracer, shards := Shards} = State) ->
    ok = dyno_agent_event_session:close(Session),
    Closed = State#{session := none},
    Done = fun() -> done(State) end,
    case dyno_agent_event_shard:drain(Tracer, map_size(Shards), Done, ?DRAIN_S) of
        ok -> Closed;
        late -> all_lost(late(Closed), Closed)
    end.

late(#{shards := Shards} = State) ->
    case lists:append([running(Shard, State) || _ := Shard <- Shards]) of
        [Module | _] -> ["a monitor does not return: ", atom_to_binary(Module)];
        [] -> "not all events were done when time was over"
    end.

running(Shard, #{monitors := Monitors}) ->
    [
        Module
     || {_, Stack} <- [process_info(Shard, current_stacktrace)],
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
info({'EXIT', Pid, Reason}, #{shards := Shards, tracer := Tracer, limit := Limit} = State) ->
    Ended = fun(What) -> io_lib:format("~ts ended: ~0tP", [What, Reason, 8]) end,
    case [Index || Index := Shard <- Shards, Shard =:= Pid] of
        _ when Pid =:= Limit -> restarted(Ended("the tracer's limit"), State);
        _ when Pid =:= Tracer -> restarted(Ended("the tracer"), State);
        [Index] -> shard_lost(Index, Ended("a shard"), State);
        %% An earlier process.
        [] -> State
    end;
info(_Other, State) ->
    State.

%% A shard with waiting events and no progress has a monitor that does not return.
watched(#{shards := Shards, done := Before} = State) ->
    Done = #{
        Index => since(Events, maps:get(Index, Before, none)) || Index := Events <- done(State)
    },
    Stuck = [
        Index
     || Index := {_, Ticks} <- Done,
        Ticks >= dyno_agent_event_shard:stuck_s(),
        {_, Waiting} <- [process_info(map_get(Index, Shards), message_queue_len)],
        Waiting > 0
    ],
    lists:foldl(fun stuck/2, State#{done := Done}, Stuck).

done(#{shards := Shards, verdicts := Verdicts}) ->
    #{Index => dyno_agent_verdicts:events(Index, Verdicts) || Index := _ <- Shards}.

since(Events, {Events, Ticks}) -> {Events, Ticks + 1};
since(Events, _) -> {Events, 0}.

stuck(_Index, #{monitors := []} = State) ->
    State;
stuck(Index, #{shards := Shards, monitors := Monitors, config := Config} = State) ->
    #{Index := Pid} = Shards,
    Bad = lists:sublist(running(Pid, State), 1),
    true = exit(Pid, kill),
    Text =
        case Bad of
            [Module] ->
                ["a monitor does not return and is not used any more: ", atom_to_binary(Module)];
            [] ->
                "monitors had no turn for too long, and begin anew: more shards, or simpler "
                "properties, keep up"
        end,
    Left = Monitors -- Bad,
    dyno_agent_verifier:fault(Text, State#{
        monitors := Left, choice := dyno_agent_monitor:table(Left, Config)
    }).

shard_lost(Index, Text, #{tracer := Tracer, limit := Limit, words := Words} = State) ->
    case is_enough(State) of
        true ->
            restarted(Text, State);
        false ->
            #{shards := Shards, session := Session} = Told = lost([Index], Text, State),
            Shard = shard(Index, Words, Told),
            _ = dyno_agent_event_shard:traces(Shard, Session),
            _ = dyno_agent_event_shard:replace(Tracer, Index, Shard),
            New = Shards#{Index := Shard},
            ok = dyno_agent_event_limit:watch(Limit, [Tracer | maps:values(New)]),
            Pids = [
                Pid
             || Pid <- processes(), dyno_agent_event_shard:of_pid(Pid, map_size(New)) =:= Index
            ],
            Again = Told#{shards := New},
            ok = attach(Pids, Again),
            Again
    end.

%% After too many faults it stays stopped; counts stay available.
restarted(Text, State) ->
    Lost = all_lost(Text, ended(State)),
    case is_enough(State) of
        true -> dyno_agent_verifier:gave_up(Lost#{session := none});
        false -> start(Lost)
    end.

is_enough(#{faults := Faults}) -> length(Faults) >= ?MOST_FAULTS.

all_lost(Text, #{shards := Shards} = State) ->
    lost(maps:keys(Shards), Text, State).

lost(Indexes, Text, #{verdicts := Verdicts} = State) ->
    Lost = lists:sum([dyno_agent_verdicts:lost(Index, Verdicts) || Index <- Indexes]),
    Processes =
        case Lost of
            1 -> "1 process was";
            _ -> [integer_to_binary(Lost), " processes were"]
        end,
    Gaps = [Text, "; ", Processes, " cut off"],
    dyno_agent_verifier:fault(Gaps, State).

parts(#{tracer := Tracer, limit := Limit, shards := Shards}) ->
    lists:uniq([Limit, Tracer | maps:values(Shards)]).

ended(#{session := Session} = State) ->
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
    maps:merge(dyno_agent_event_flow:defaults(), maps:get(limits, Config, #{})).

-spec terminate(state()) -> term().
terminate(State) -> ended(State).
