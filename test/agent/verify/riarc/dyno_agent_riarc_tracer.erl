%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_riarc_tracer).
-moduledoc false.
%% The process of a RIARC tracer: executes dyno_agent_riarc's effects, and runs the monitors of its
%% processes. Tracers find each other by name in a table, with their home collectors.

-export([start_root/2, init/4]).
-export_type([config/0]).

-type config() :: #{
    %% {Name, Pid, Home}.
    table := ets:table(),
    homes := tuple(),
    %% The process that tracers are linked to.
    owner := pid(),
    choice := dyno_agent_process_filter:table(module()),
    monitors := [module()],
    options := dyno_agent_partition:options(),
    verdicts := dyno_agent_verdicts:t()
}.

-record(tracer, {
    name :: dyno_agent_riarc:tracer(),
    index :: pos_integer(),
    core :: dyno_agent_riarc:t(),
    partitions :: dyno_agent_partition:t(),
    config :: config()
}).

-define(LOOK_MS, 20).

-doc "Starts the tracer of the system, with its initial processes.".
-spec start_root([pid()], config()) -> pid().
start_root(Processes, Config) ->
    start(root, 1, Config, fun() ->
        {dyno_agent_riarc:root([outside | Processes], select(Config)), []}
    end).

%% In the table before any message names it.
start(Name, Index, #{table := Table, homes := Homes} = Config, Core) ->
    Pid = spawn_opt(?MODULE, init, [Name, Index, Config, Core], [
        {message_queue_data, off_heap}, {fullsweep_after, 100}
    ]),
    true = ets:insert(Table, {Name, Pid, element(Index, Homes)}),
    Pid ! start,
    Pid.

%% By start function; a name or label is unknown at spawn.
select(#{choice := Choice}) ->
    fun(MFArgs) ->
        Process = dyno_agent_event:description(self(), {spawned, self(), MFArgs}),
        dyno_agent_process_filter:of_process(Process, Choice) =/= []
    end.

-spec init(dyno_agent_riarc:tracer(), pos_integer(), config(), fun(() -> term())) -> ok.
init(Name, Index, #{owner := Owner, monitors := Monitors, choice := Choice} = Config, Core) ->
    #{options := Options} = Config,
    true = link(Owner),
    receive
        start -> ok
    end,
    {Started, Effects} = Core(),
    loop(
        effects(Effects, #tracer{
            name = Name,
            index = Index,
            core = Started,
            partitions = dyno_agent_partition:new(Monitors, Options#{choice => Choice}),
            config = Config
        })
    ).

loop(stop) ->
    ok;
loop(#tracer{core = Core} = Tracer) ->
    receive
        Message ->
            {Next, Effects} = dyno_agent_riarc:handle(Message, Core),
            loop(effects(Effects, Tracer#tracer{core = Next}))
    after wait_ms(Tracer) -> loop(idle(Tracer))
    end.

%% Deadlines follow the events' time, or the clock while no event is coming.
wait_ms(#tracer{partitions = Partitions}) ->
    case dyno_agent_partition:next(Partitions) of
        infinity ->
            infinity;
        DeadlineNs ->
            Ns = DeadlineNs + dyno_agent_property:grace_ns() - erlang:monotonic_time(nanosecond),
            max(?LOOK_MS, Ns div 1_000_000 + 1)
    end.

idle(#tracer{core = Core, index = Index, config = #{homes := Homes}} = Tracer) ->
    Waiting = process_info(element(Index, Homes), message_queue_len),
    case dyno_agent_riarc:is_direct(Core) andalso Waiting =:= {message_queue_len, 0} of
        true -> timeouts(erlang:monotonic_time(nanosecond), Tracer);
        false -> Tracer
    end.

timeouts(NowNs, #tracer{partitions = Partitions, config = Config} = Tracer) ->
    Due = NowNs - dyno_agent_property:grace_ns(),
    {Next, Effects} = dyno_agent_partition:timeouts(Due, Partitions),
    ok = dyno_agent_verdicts:effects(Effects, map_get(verdicts, Config)),
    Tracer#tracer{partitions = Next}.

effects(Effects, Tracer) ->
    lists:foldl(fun effect/2, Tracer, Effects).

effect({analyse, outside, _Event, _TimeNs}, Tracer) ->
    Tracer;
effect({analyse, Process, Event, TimeNs}, Earlier) ->
    Tracer = timeouts(TimeNs, Earlier),
    #tracer{partitions = Partitions, config = #{verdicts := Verdicts}} = Tracer,
    {Next, Effects} = dyno_agent_partition:event(Process, Event, TimeNs, Partitions),
    ok = dyno_agent_verdicts:effects(Effects, Verdicts),
    ok = dyno_agent_verdicts:event(Verdicts),
    Tracer#tracer{partitions = Next};
effect({send, To, Message}, #tracer{config = #{table := Table}} = Tracer) ->
    case ets:lookup(Table, To) of
        [{_, Pid, _}] -> Pid ! Message;
        %% The tracer has ended, with all its processes.
        [] -> ok
    end,
    Tracer;
effect({start, Name, From}, #tracer{config = #{homes := Homes} = Config} = Tracer) ->
    Index = erlang:phash2(Name, tuple_size(Homes)) + 1,
    Core = fun() -> dyno_agent_riarc:tracer(Name, Name, From, select(Config)) end,
    _ = start(Name, Index, Config, Core),
    Tracer;
effect({preempt, Process, Former}, #tracer{name = Name, index = Index, config = Config} = Tracer) ->
    #{table := Table, homes := Homes} = Config,
    [{_, Pid, FormerHome}] = ets:lookup(Table, Former),
    ok = dyno_agent_riarc_session:take_over(
        element(Index, Homes), Process, {Name, self()}, {Former, Pid}, FormerHome
    ),
    Tracer;
effect(stop, #tracer{name = Name, core = Core, config = #{table := Table, verdicts := Verdicts}}) ->
    Broken = dyno_agent_riarc:broken(Core),
    Text = io_lib:format("riarc broke its invariants: ~0p", [Broken]),
    _ = map_size(Broken) > 0 andalso dyno_agent_verdicts:fault(Text, Verdicts),
    true = ets:delete(Table, Name),
    stop.
