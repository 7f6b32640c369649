%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verify).
-moduledoc """
Runs monitors on the processes of a node, in partitions: each process's events in their own order,
from its start on, with no hand-over.

```
trace session --> router --> shard 1..K    partitions, monitors (dyno_agent_partition)
                               v counts, verdicts
                  this process: verdicts to the sink, faults, processes that run already
                    limit (dyno_agent_event_limit): looks at what waits
```

With one shard there is no router. All of them are linked to this process, and the session lives as
long as they do: whoever is killed, nothing is left.

## Faults
* A monitor that raises an exception ends inconclusive for that process, and is counted.
* A monitor that does not return within `step_ms` is not used any more. Its shard is killed; the
  partitions there have a gap, and their processes, as far as they live, new ones that are partial.
* The same where a shard is killed; where the tracer is, it is the same for all shards.
* More events than may wait: dyno_agent_event_flow, dyno_agent_event_limit.
* More than twice the memory that may wait: all anew, as where the tracer is killed.
* After twenty of them nothing is monitored any more; what was counted until then is there.
""".

-behaviour(dyno_agent_verifier).
-behaviour(gen_server).

-export([start_link/1, peek/1, finish/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-type state() :: #{
    config := dyno_agent_verifier:config(),
    monitors := [module()],
    choice := dyno_agent_event_choice:t(),
    %% The mean size of an event.
    words := dyno_agent_event_limit:words(),
    verdicts := dyno_agent_verdicts:t(),
    session := dyno_agent_event_session:t() | none,
    tracer := pid() | none,
    limit := pid() | none,
    shards := #{pos_integer() => pid()},
    %% By shard, what it had done a tick ago, and since how many ticks it did no more.
    done := #{pos_integer() => {non_neg_integer(), non_neg_integer()}},
    faults := [unicode:chardata()],
    started := integer()
}.

-define(TICK_MS, 1000).
-define(STEP_MS, 3000).
-define(DRAIN_MS, 20_000).
%% So many times the agent's own processes are started again.
-define(MOST_FAULTS, 20).

-spec start_link(dyno_agent_verifier:config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-spec peek(pid()) -> dyno_agent_verifier:summary().
peek(Pid) -> gen_server:call(Pid, peek, infinity).

-spec finish(pid()) -> dyno_agent_verifier:summary().
finish(Pid) -> gen_server:call(Pid, finish, infinity).

-doc false.
-spec init(dyno_agent_verifier:config()) -> {ok, state()}.
init(#{monitors := Monitors} = Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    Shards = shard_count(Config),
    _ = erlang:send_after(?TICK_MS, self(), tick),
    State = #{
        config => Config#{shards => Shards},
        monitors => Monitors,
        choice => choice(Monitors, Config),
        words => dyno_agent_event_limit:words(),
        verdicts => dyno_agent_verdicts:new(Shards, Monitors, self()),
        session => none,
        tracer => none,
        limit => none,
        shards => #{},
        done => #{},
        faults => [],
        started => erlang:monotonic_time(nanosecond)
    },
    {ok, traced(State)}.

%% What is merged from several processes is merged in one place.
shard_count(#{monitors := Monitors} = Config) ->
    case [M || M <- Monitors, #{key := true} <- [dyno_agent_monitor:needs(M)]] of
        [_ | _] -> 1;
        %% Half of the schedulers are the system's, however slow the monitors are.
        [] -> maps:get(shards, Config, max(1, erlang:system_info(schedulers_online) div 2))
    end.

choice(Monitors, Config) ->
    dyno_agent_event_choice:new([
        {Monitor, maps:get(select, Config, map_get(select, dyno_agent_monitor:needs(Monitor)))}
     || Monitor <- Monitors
    ]).

%% All anew: shards, tracer, session.
traced(#{config := #{shards := N}, choice := Choice, monitors := Monitors} = State0) ->
    Shards = #{Index => shard(Index, State0) || Index <- lists:seq(1, N)},
    State1 = State0#{shards := Shards, done := #{}},
    Tracer = tracer(State1),
    Needs = [dyno_agent_monitor:needs(Monitor) || Monitor <- Monitors],
    Session = dyno_agent_event_session:open(Tracer, Needs, Choice),
    lists:foreach(
        fun(Pid) -> ok = dyno_agent_event_shard:traces(Pid, Session) end,
        lists:uniq([Tracer | maps:values(Shards)])
    ),
    Limit = dyno_agent_event_limit:start_link(#{
        parent => self(),
        tracer => Tracer,
        session => Session,
        pids => lists:uniq([Tracer | maps:values(Shards)]),
        words => map_get(words, State0),
        limits => limits(State0)
    }),
    State = State1#{tracer := Tracer, session := Session, limit := Limit},
    Before = processes(),
    case dyno_agent_event_choice:wants_new(Choice) of
        true -> dyno_agent_event_session:new(Session);
        false -> ok
    end,
    IsBefore = maps:from_keys(Before, []),
    Running = [
        Pid
     || Pid <- processes(),
        is_map_key(Pid, IsBefore) orelse not dyno_agent_event_session:is_traced(Pid, Session)
    ],
    ok = dyno_agent_event_session:names(Session),
    ok = attach(Running, State),
    State.

shard(Index, State) ->
    dyno_agent_event_shard:start_link(shard_config(Index, State)).

shard_config(Index, #{config := #{shards := N} = Config} = State) ->
    #{
        index => Index,
        monitors => map_get(monitors, State),
        options => maps:with([events], Config),
        choice => map_get(choice, State),
        verdicts => map_get(verdicts, State),
        limits => limits(State),
        words => map_get(words, State),
        alone => N =:= 1,
        urgent => 2 * N =< erlang:system_info(schedulers_online)
    }.

tracer(#{config := #{shards := 1}, shards := #{1 := Shard}}) ->
    Shard;
tracer(#{shards := Shards} = State) ->
    InOrder = [map_get(Index, Shards) || Index <- lists:seq(1, map_size(Shards))],
    dyno_agent_event_shard:start_router(
        (shard_config(0, State))#{shards => list_to_tuple(InOrder)}
    ).

%% Processes that run already. Their partitions are open before they are traced.
attach(Pids, #{shards := Shards, choice := Choice, session := Session} = State) ->
    Own = maps:from_keys([self() | parts(State)], []),
    Chosen = [
        Process
     || Pid <- Pids,
        not is_map_key(Pid, Own),
        #{} = Process <- [dyno_agent_event_choice:describe(Pid)],
        dyno_agent_event_choice:of_process(Process, Choice) =/= []
    ],
    BySize = maps:groups_from_list(
        fun(#{pid := Pid}) -> dyno_agent_event_shard:of_pid(Pid, map_size(Shards)) end, Chosen
    ),
    maps:foreach(
        fun(Index, Processes) ->
            Shard = map_get(Index, Shards),
            _ = dyno_agent_event_shard:attach(Shard, Processes),
            lists:foreach(
                fun(#{pid := Pid}) ->
                    case dyno_agent_event_session:follow(Pid, Session) of
                        true -> ok;
                        %% It has ended, unseen.
                        false -> dyno_agent_event_shard:cut(Shard, Pid)
                    end
                end,
                Processes
            )
        end,
        BySize
    ).

-doc false.
-spec handle_call(peek | finish, gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(peek, _From, State) ->
    {reply, summary(State), State};
handle_call(finish, _From, State) ->
    Finished = finished(State),
    {reply, summary(Finished), Finished}.

finished(#{session := none} = State) ->
    State;
finished(#{session := Session, tracer := Tracer, shards := Shards} = State) ->
    ok = dyno_agent_event_session:close(Session),
    Drained = dyno_agent_event_shard:drain(Tracer, map_size(Shards), ?DRAIN_MS),
    ok = flush(State),
    Closed = State#{session := none},
    case Drained of
        ok -> Closed;
        late -> all_lost(~"not all events were done when time was over", Closed)
    end.

%% Verdicts that the last events gave.
flush(State) ->
    receive
        {dyno_agent_verdicts, What} ->
            ok = tell(What, State),
            flush(State)
    after 0 -> ok
    end.

summary(#{verdicts := Verdicts, faults := Faults, started := Started, config := Config}) ->
    #{
        node => node(),
        duration_ns => erlang:monotonic_time(nanosecond) - Started,
        faults => lists:reverse(Faults),
        verdicts => dyno_agent_verdicts:read(Verdicts),
        properties => #{
            Module => map_get(property, dyno_agent_monitor:needs(Module))
         || Module <- map_get(monitors, Config)
        },
        more => [{~"shards", map_get(shards, Config)}]
    }.

-doc false.
-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-doc false.
-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info(tick, #{verdicts := Verdicts} = State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    ok = dyno_agent_verdicts:tick(Verdicts),
    limited(watched(State));
handle_info({dyno_agent_verdicts, What}, State) ->
    ok = tell(What, State),
    {noreply, State};
handle_info({dyno_agent_event_limit, Limit}, #{limit := Limit, session := Session} = State) when
    Session =/= none
->
    restarted("more than twice the memory that events may take was taken", State);
handle_info({'EXIT', Pid, Reason}, #{shards := Shards, tracer := Tracer, limit := Limit} = State) ->
    case [Index || Index := Shard <- Shards, Shard =:= Pid] of
        _ when map_get(session, State) =:= none -> {noreply, State};
        _ when Pid =:= Limit -> restarted(["what limits the tracer ended: ", why(Reason)], State);
        _ when Pid =:= Tracer -> restarted(["the tracer ended: ", why(Reason)], State);
        [Index] -> shard_lost(Index, ["a shard ended: ", why(Reason)], State);
        %% One of before.
        [] -> {noreply, State}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

why(Reason) -> io_lib:format("~0tP", [Reason, 8]).

%% The last verdicts come first: a process that has ended has no name any more.
tell({verdict, #{process := Process} = Report}, State) ->
    send({verdict, Report#{process := named(Process)}}, State);
tell({crashed, Module, Process, Why}, State) ->
    send({crashed, Module, named(Process), Why}, State).

named(#{pid := Pid} = Process) when node(Pid) =:= node() ->
    case process_info(Pid, [registered_name, label]) of
        [{_, Name}, {_, Label}] ->
            maps:merge(
                maps:from_list(
                    [{name, Name} || is_atom(Name), Name =/= undefined] ++
                        [{label, Label} || Label =/= undefined]
                ),
                Process
            );
        undefined ->
            Process
    end;
named(Process) ->
    Process.

send(What, #{config := #{sink := Sink}}) ->
    _ = erlang:send(Sink, {dyno_verify, node(), What}, [noconnect]),
    ok.

fault(Text, #{faults := Faults} = State) ->
    ok = send({fault, Text}, State),
    State#{faults := [Text | Faults]}.

%% Each second

%% A shard that has work and does none of it has a monitor that does not return.
watched(#{session := none} = State) ->
    State;
watched(#{shards := Shards, verdicts := Verdicts, done := Before, config := Config} = State) ->
    Most = max(1, maps:get(step_ms, Config, ?STEP_MS) div ?TICK_MS),
    Done = #{
        Index => since(dyno_agent_verdicts:events(Index, Verdicts), maps:get(Index, Before, none))
     || Index := _ <- Shards
    },
    Stuck = [
        Index
     || Index := {_, Ticks} <- Done, Ticks >= Most, is_busy(map_get(Index, Shards))
    ],
    lists:foldl(fun stuck/2, State#{done := Done}, Stuck).

since(Events, {Events, Ticks}) -> {Events, Ticks + 1};
since(Events, _) -> {Events, 0}.

is_busy(Pid) ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Waiting} -> Waiting > 0;
        undefined -> false
    end.

stuck(Index, #{shards := Shards, monitors := Monitors} = State) ->
    #{Index := Pid} = Shards,
    Running =
        case process_info(Pid, current_stacktrace) of
            {_, Stack} -> [Module || {Module, _, _, _} <- Stack, lists:member(Module, Monitors)];
            undefined -> []
        end,
    case Running of
        [] when Monitors =:= [] ->
            State;
        _ ->
            Bad = lists:sublist(Running, 1),
            true = exit(Pid, kill),
            Text = [
                "a monitor does not return and is not used any more: ",
                lists:join(", ", [atom_to_binary(Module) || Module <- Bad])
            ],
            without(Bad, fault(Text, State))
    end.

without(Bad, #{monitors := Monitors, config := Config} = State) ->
    Left = Monitors -- Bad,
    State#{monitors := Left, choice := choice(Left, Config)}.

shard_lost(Index, Text, #{config := #{shards := 1}} = State) when Index =:= 1 ->
    restarted(Text, State);
shard_lost(Index, Text, #{verdicts := Verdicts, shards := Shards, tracer := Tracer} = State) ->
    case is_enough(State) of
        true ->
            {noreply, given_up(Text, State)};
        false ->
            Lost = dyno_agent_verdicts:lost(Index, Verdicts),
            Told = fault([Text, "; ", integer_to_binary(Lost), " partitions have a gap"], State),
            Shard = shard(Index, Told),
            _ = dyno_agent_event_shard:traces(Shard, map_get(session, Told)),
            _ = dyno_agent_event_shard:replace(Tracer, Index, Shard),
            New = Told#{shards := Shards#{Index := Shard}},
            ok = dyno_agent_event_limit:watch(
                map_get(limit, New), [Tracer | maps:values(map_get(shards, New))]
            ),
            Pids = [
                Pid
             || Pid <- processes(), dyno_agent_event_shard:of_pid(Pid, map_size(Shards)) =:= Index
            ],
            ok = attach(Pids, New),
            {noreply, New}
    end.

restarted(Text, #{session := Session} = State) ->
    case is_enough(State) of
        true ->
            {noreply, given_up(Text, State)};
        false ->
            ok = dyno_agent_event_session:close(Session),
            ok = ended(parts(State)),
            {noreply, traced(all_lost(Text, State))}
    end.

%% What was counted can still be asked for.
given_up(Text, #{session := Session} = State) ->
    ok = dyno_agent_event_session:close(Session),
    ok = ended(parts(State)),
    ok = flush(State),
    Lost = all_lost(Text, State),
    ok = send(gave_up, Lost),
    Lost#{session := none}.

%% Its processes.
parts(#{tracer := Tracer, limit := Limit, shards := Shards}) ->
    lists:uniq([Limit, Tracer | maps:values(Shards)]).

is_enough(#{faults := Faults}) -> length(Faults) >= ?MOST_FAULTS.

all_lost(Text, #{verdicts := Verdicts, shards := Shards} = State) ->
    Lost = lists:sum([dyno_agent_verdicts:lost(Index, Verdicts) || Index := _ <- Shards]),
    fault([Text, "; ", integer_to_binary(Lost), " partitions have a gap"], State).

ended(Pids) ->
    lists:foreach(
        fun(Pid) ->
            Ref = monitor(process, Pid),
            true = unlink(Pid),
            true = exit(Pid, kill),
            receive
                {'DOWN', Ref, process, Pid, _} -> ok
            end,
            receive
                {'EXIT', Pid, _} -> ok
            after 0 -> ok
            end
        end,
        Pids
    ).

%% The monitors' states and what waits take no more than twice what may wait.
limited(#{session := none} = State) ->
    {noreply, State};
limited(State) ->
    #{bytes := Most} = limits(State),
    Bytes = lists:sum([
        Of
     || Pid <- parts(State), {memory, Of} <- [process_info(Pid, memory)]
    ]),
    case Bytes > 2 * Most of
        true -> restarted("more than twice the memory that events may take was taken", State);
        false -> {noreply, State}
    end.

limits(#{config := Config}) ->
    maps:merge(dyno_agent_event_flow:defaults(), maps:get(limits, Config, #{})).

-doc false.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{session := Session} = State) ->
    case Session of
        none -> ok;
        _ -> dyno_agent_event_session:close(Session)
    end,
    ended(parts(State)).
