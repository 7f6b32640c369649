%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verify_tracer).
-moduledoc false.
%% Receives the events of the monitored processes and runs their monitors.
%%
%% A plain loop, since each event costs; the mailbox is off the heap, so that collections do not
%% walk through the backlog. It cuts processes off at the limits (dyno_agent_event_limit).
%%
%% Among thousands of ready processes the tracer runs seldom, and a larger backlog makes each event
%% dearer. So with thousands of waiting events, and a scheduler to spare, it runs with priority. If
%% that does not help, the monitors are too slow, and the system goes first.
%%
%%   turn   usual -- more than 2,000 wait --> urgent -- more than 100,000 --> hopeless
%%            ^------- fewer than 200 ----------'------------------------------'

-export([start_link/1, stuck_s/0]).
-export([attach/2, cut/2, traces/2, drain/3]).
-export([init/1]).
-export_type([config/0]).

-type config() :: #{
    monitors := [module()],
    options := dyno_agent_partition:options(),
    choice := dyno_agent_process_filter:table(module()),
    verdicts := dyno_agent_verdicts:t(),
    flow := dyno_agent_event_limit:flow()
}.

%% `never`: the system has no scheduler to spare.
-type turn() :: usual | urgent | hopeless | never.

-define(NEVER, -(1 bsl 62)).

-record(tracer, {
    core :: dyno_agent_partition:t(),
    verdicts :: dyno_agent_verdicts:t(),
    choice :: dyno_agent_process_filter:table(module()),
    %% `none` before the first event.
    session = none :: dyno_agent_event_session:t() | none,
    flow :: dyno_agent_event_limit:flow(),
    %% Processes that started before this time are cut off.
    since = ?NEVER :: integer(),
    %% The interval at which idle monitors get the time.
    idle = infinity :: timeout(),
    turn :: turn(),
    left = 0 :: non_neg_integer()
}).

-define(SAMPLE, 64).
-define(FEW, 200).
-define(MANY, 2000).
-define(TOO_MANY, 100_000).
-define(IDLE_MS, 20).
-define(STUCK_S, 3).
%% A tracer that does not answer in time has a monitor that does not return.
-define(ANSWER_MS, 5000).
-define(SPAWN_OPTIONS, [
    link, {message_queue_data, off_heap}, {min_heap_size, 10_000}, {fullsweep_after, 100}
]).

-spec start_link(config()) -> pid().
start_link(Config) ->
    Pid = proc_lib:spawn_opt(?MODULE, init, [Config], ?SPAWN_OPTIONS),
    true = is_pid(Pid),
    Pid.

-spec stuck_s() -> pos_integer().
stuck_s() -> ?STUCK_S.

-spec attach(pid(), [dyno_agent_event:process()]) -> ok | late.
attach(Tracer, Processes) ->
    ask(Tracer, {attach, Processes}).

-spec cut(pid(), pid()) -> ok.
cut(Tracer, Pid) ->
    Tracer ! {gap, Pid},
    ok.

-spec traces(pid(), dyno_agent_event_session:t()) -> ok | late.
traces(Tracer, Session) ->
    ask(Tracer, {session, Session}).

ask(Pid, What) ->
    try
        gen_server:call(Pid, What, ?ANSWER_MS)
    catch
        exit:_ -> late
    end.

-doc """
Waits until the tracer has handled all earlier events; `late` if that takes too many seconds, or if
`Done` does not change for some, because a monitor does not return.
""".
-spec drain(pid(), Done :: fun(() -> term()), pos_integer()) -> ok | late.
drain(Tracer, Done, Seconds) ->
    Alias = alias(),
    Tracer ! {drain, Alias},
    Result = drained(Alias, {Done, Done(), 0}, Seconds),
    _ = unalias(Alias),
    Result.

drained(_Alias, {_, _, Unchanged}, Seconds) when Unchanged >= ?STUCK_S; Seconds =:= 0 ->
    late;
drained(Alias, {Done, Before, Unchanged}, Seconds) ->
    receive
        {Alias, drained} -> ok
    after 1000 ->
        Next =
            case Done() of
                Before -> {Done, Before, Unchanged + 1};
                Now -> {Done, Now, 0}
            end,
        drained(Alias, Next, Seconds - 1)
    end.

-spec init(config()) -> no_return().
init(#{monitors := Monitors, choice := Choice, options := Options} = Config) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    loop(#tracer{
        core = dyno_agent_partition:new(Monitors, Options#{choice => Choice}),
        verdicts = map_get(verdicts, Config),
        choice = Choice,
        flow = map_get(flow, Config),
        idle =
            case lists:any(fun has_time/1, Monitors) of
                true -> ?IDLE_MS;
                false -> infinity
            end,
        turn =
            case erlang:system_info(schedulers_online) of
                1 -> never;
                _ -> usual
            end,
        left = ?SAMPLE
    }).

has_time(Module) ->
    dyno_agent_monitor:has_key(Module) orelse erlang:function_exported(Module, deadline, 1).

loop(#tracer{left = Left, idle = Idle} = State) ->
    receive
        Message when Left > 0 -> loop(message(Message, State#tracer{left = Left - 1}));
        Message -> loop(message(Message, sample(Message, State#tracer{left = ?SAMPLE})))
    after Idle -> loop(idle(State))
    end.

message(Message, #tracer{verdicts = Verdicts} = State) ->
    case dyno_agent_event:from_trace(Message) of
        {Pid, Event, TimeNs} ->
            New = event(Pid, Event, TimeNs, State),
            ok = dyno_agent_verdicts:event(Verdicts),
            New;
        other when element(1, Message) =:= trace_ts ->
            ok = dyno_agent_verdicts:event(Verdicts),
            State;
        other ->
            other(Message, State)
    end.

event(Pid, {spawned, _, _} = Event, TimeNs, #tracer{since = Since} = State) when TimeNs < Since ->
    cut(Pid, Event, TimeNs, State);
event(Pid, Event, TimeNs, #tracer{flow = Flow, core = Core} = State) ->
    case dyno_agent_event_limit:is_cut(Pid, Flow) of
        true -> cut(Pid, Event, TimeNs, State);
        false -> effects(dyno_agent_partition:event(Pid, Event, TimeNs, Core), State)
    end.

effects({Core, []}, State) ->
    State#tracer{core = Core};
effects({Core, Effects}, #tracer{verdicts = Verdicts} = State) ->
    ok = dyno_agent_verdicts:effects(Effects, Verdicts),
    lists:foreach(fun(Effect) -> traced(Effect, State) end, Effects),
    State#tracer{core = Core}.

traced({ignore, Pid}, #tracer{session = Session}) -> dyno_agent_event_session:ignore(Pid, Session);
traced({follow, Pid}, #tracer{session = Session}) -> dyno_agent_event_session:follow(Pid, Session);
traced(_Effect, _State) -> ok.

cut(Pid, Event, TimeNs, #tracer{core = Core, session = Session} = State) ->
    IsOpen = dyno_agent_partition:is_open(Pid, Core),
    case IsOpen orelse element(1, Event) =:= spawned of
        true -> dyno_agent_event_session:ignore(Pid, Session);
        false -> ok
    end,
    case IsOpen orelse cut_at_start(Pid, Event, State) of
        true -> effects(dyno_agent_partition:gap(Pid, TimeNs, Core), State);
        false -> State
    end.

cut_at_start(Pid, {spawned, _, _} = Event, #tracer{choice = Choice, verdicts = Verdicts}) ->
    Process = dyno_agent_event:description(Pid, Event),
    case dyno_agent_process_filter:of_process(Process, Choice) of
        [] ->
            false;
        Monitors ->
            ok = dyno_agent_verdicts:cut(Monitors, Verdicts),
            true
    end;
cut_at_start(_Pid, _Event, _State) ->
    false.

%% The size counts for events only: sample the next message instead.
sample(Message, State) when element(1, Message) =/= trace_ts ->
    State#tracer{left = 0};
sample(Message, #tracer{flow = Flow, turn = Turn} = State) ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    ok = dyno_agent_event_limit:came(?SAMPLE, Message, Flow),
    (time(Message, State))#tracer{turn = turn(Waiting, Turn)}.

turn(Waiting, usual) when Waiting > ?MANY -> prior(high, urgent);
turn(Waiting, urgent) when Waiting > ?TOO_MANY -> prior(normal, hopeless);
turn(Waiting, urgent) when Waiting < ?FEW -> prior(normal, usual);
turn(Waiting, hopeless) when Waiting < ?FEW -> usual;
turn(_Waiting, Turn) -> Turn.

prior(Priority, Turn) ->
    _ = process_flag(priority, Priority),
    Turn.

time(_Message, #tracer{idle = infinity} = State) ->
    State;
time(Message, #tracer{core = Core} = State) ->
    Ns = dyno_agent_event:time_ns(element(tuple_size(Message), Message)),
    effects(dyno_agent_partition:timeouts(Ns - dyno_agent_property:grace_ns(), Core), State).

idle(#tracer{core = Core} = State) ->
    Now = erlang:monotonic_time(nanosecond),
    Settled = effects(dyno_agent_partition:settle(Core), State),
    Due = Now - dyno_agent_property:grace_ns(),
    effects(dyno_agent_partition:timeouts(Due, Settled#tracer.core), Settled).

other({gap, Pid}, #tracer{core = Core} = State) ->
    effects(dyno_agent_partition:gap(Pid, erlang:monotonic_time(nanosecond), Core), State);
other({gap_all, TimeNs}, #tracer{core = Core, session = Session} = State) ->
    lists:foreach(
        fun(Pid) -> dyno_agent_event_session:ignore(Pid, Session) end,
        dyno_agent_partition:pids(Core)
    ),
    effects(dyno_agent_partition:gap_all(TimeNs, Core), State#tracer{since = TimeNs});
other({'$gen_call', From, {attach, Processes}}, State) ->
    Attach = fun(Process, #tracer{core = Core} = Acc) ->
        effects(dyno_agent_partition:attach(Process, Core), Acc)
    end,
    New = lists:foldl(Attach, State, Processes),
    ok = gen_server:reply(From, ok),
    New;
other({'$gen_call', From, {session, Session}}, State) ->
    ok = gen_server:reply(From, ok),
    State#tracer{session = Session};
other({drain, Alias}, #tracer{core = Core} = State) ->
    Settled = effects(dyno_agent_partition:settle(Core), State),
    Alias ! {Alias, drained},
    Settled;
other(_Message, State) ->
    State.
