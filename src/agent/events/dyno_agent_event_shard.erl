%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_shard).
-moduledoc false.
%% Runs the monitors of a share of the processes, behind a router if there are several shards.
%%
%%   session -> router -- hash of the pid --> shard 1..K        session -> shard
%%
%% Both are plain loops, since each event costs; the mailbox is off the heap, so that collections do
%% not walk through the backlog. Both cut processes off at the limits (dyno_agent_event_flow); the
%% router counts events sent to the shards and not handled yet.
%%
%% Among thousands of ready processes a shard runs seldom, and a larger backlog makes each event
%% dearer. So with thousands of waiting events, and schedulers to spare, the shard runs with
%% priority. If that does not help, the monitors are too slow, and the system goes first.
%%
%%   turn   usual -- more than 2,000 wait --> urgent -- more than 100,000 --> hopeless
%%            ^------- fewer than 200 ----------'------------------------------'

-export([start_link/1, of_pid/2, stuck_s/0]).
-export([attach/2, cut/2, traces/2, replace/3, drain/4]).
-export([init_shard/1, init_router/1]).
-export_type([config/0]).

-type config() :: #{
    index := pos_integer(),
    monitors := [module()],
    options := dyno_agent_partition:options(),
    choice := dyno_agent_process_filter:table(module()),
    verdicts := dyno_agent_verdicts:t(),
    limits := dyno_agent_event_flow:limits(),
    words := dyno_agent_event_limit:words(),
    %% The router's shards.
    shards => tuple(),
    alone => boolean(),
    %% Whether the system has schedulers to spare.
    urgent => boolean()
}.

%% `never`: the system has no scheduler to spare.
-type turn() :: usual | urgent | hopeless | never.

-define(NEVER, -(1 bsl 62)).

-record(shard, {
    index :: pos_integer(),
    core :: dyno_agent_partition:t(),
    verdicts :: dyno_agent_verdicts:t(),
    choice :: dyno_agent_process_filter:table(module()),
    %% `none` before the first event.
    session = none :: dyno_agent_event_session:t() | none,
    %% `none` behind a router.
    flow = none :: dyno_agent_event_flow:t() | none,
    words :: dyno_agent_event_limit:words(),
    %% Processes that started before this time are cut off.
    since = ?NEVER :: integer(),
    %% The interval at which idle monitors get the time.
    idle = infinity :: timeout(),
    turn :: turn(),
    left = 0 :: non_neg_integer()
}).

-record(router, {
    shards :: tuple(),
    size :: pos_integer(),
    sent :: counters:counters_ref(),
    %% Events handled by a shard when it joined.
    flow :: tuple(),
    words :: dyno_agent_event_limit:words(),
    verdicts :: dyno_agent_verdicts:t(),
    choice :: dyno_agent_process_filter:table(module()),
    session = none :: dyno_agent_event_session:t() | none,
    %% Cut processes that their shards know of.
    cut = #{} :: #{pid() => []},
    turn :: turn(),
    left = 0 :: non_neg_integer()
}).

-define(SAMPLE, 64).
-define(FEW, 200).
-define(MANY, 2000).
-define(TOO_MANY, 100_000).
-define(IDLE_MS, 20).
-define(MOST_CUT, 100_000).
-define(STUCK_S, 3).
%% A shard that does not answer in time has a monitor that does not return.
-define(ANSWER_MS, 5000).
-define(SPAWN_OPTIONS, [
    link, {message_queue_data, off_heap}, {min_heap_size, 10_000}, {fullsweep_after, 100}
]).

-spec start_link(config()) -> pid().
start_link(Config) ->
    Function =
        case Config of
            #{shards := _} -> init_router;
            #{} -> init_shard
        end,
    Pid = proc_lib:spawn_opt(?MODULE, Function, [Config], ?SPAWN_OPTIONS),
    true = is_pid(Pid),
    Pid.

-spec stuck_s() -> pos_integer().
stuck_s() -> ?STUCK_S.

-spec of_pid(pid(), pos_integer()) -> pos_integer().
of_pid(Pid, Shards) -> erlang:phash2(Pid, Shards) + 1.

-spec attach(pid(), [dyno_agent_event:process()]) -> ok | late.
attach(Shard, Processes) ->
    ask(Shard, {attach, Processes}).

-spec cut(pid(), pid()) -> ok.
cut(Shard, Pid) ->
    Shard ! {gap, Pid},
    ok.

-spec traces(pid(), dyno_agent_event_session:t()) -> ok | late.
traces(Pid, Session) ->
    ask(Pid, {session, Session}).

-spec replace(pid(), pos_integer(), pid()) -> ok | late.
replace(Router, Index, Shard) ->
    ask(Router, {shard, Index, Shard}).

ask(Pid, What) ->
    try
        gen_server:call(Pid, What, ?ANSWER_MS)
    catch
        exit:_ -> late
    end.

-doc """
Waits until the tracer's shards have handled all earlier events; `late` if that takes too many
seconds, or if `Done` does not change for some, because a monitor does not return.
""".
-spec drain(pid(), pos_integer(), Done :: fun(() -> term()), pos_integer()) -> ok | late.
drain(Tracer, Shards, Done, Seconds) ->
    Alias = alias(),
    Tracer ! {drain, Alias, 1},
    Result = drained(lists:seq(1, Shards), Alias, {Done, Done(), 0}, Seconds),
    _ = unalias(Alias),
    Result.

drained([], _Alias, _Progress, _Seconds) ->
    ok;
drained(_Left, _Alias, {_, _, Unchanged}, Seconds) when Unchanged >= ?STUCK_S; Seconds =:= 0 ->
    late;
drained(Left, Alias, {Done, Before, Unchanged} = Progress, Seconds) ->
    receive
        {Alias, drained, Index} -> drained(lists:delete(Index, Left), Alias, Progress, Seconds)
    after 1000 ->
        Next =
            case Done() of
                Before -> {Done, Before, Unchanged + 1};
                Now -> {Done, Now, 0}
            end,
        drained(Left, Alias, Next, Seconds - 1)
    end.

%% A shard

-spec init_shard(config()) -> no_return().
init_shard(#{index := Index, monitors := Monitors, choice := Choice} = Config) ->
    proc_lib:set_label({?MODULE, Index}),
    ok = dyno_agent_process:unlimited(),
    #{options := Options, verdicts := Verdicts, limits := Limits} = Config,
    shard(#shard{
        index = Index,
        core = dyno_agent_partition:new(Monitors, Options#{choice => Choice}),
        verdicts = Verdicts,
        choice = Choice,
        flow =
            case Config of
                #{alone := true} -> dyno_agent_event_flow:new(Limits);
                #{} -> none
            end,
        words = map_get(words, Config),
        idle =
            case lists:any(fun has_time/1, Monitors) of
                true -> ?IDLE_MS;
                false -> infinity
            end,
        turn = turn(Config),
        left = ?SAMPLE
    }).

has_time(Module) ->
    dyno_agent_monitor:has_key(Module) orelse erlang:function_exported(Module, deadline, 1).

shard(#shard{left = Left, idle = Idle} = State) ->
    receive
        Message when Left > 0 -> shard(message(Message, State#shard{left = Left - 1}));
        Message -> shard(message(Message, sample(Message, State#shard{left = ?SAMPLE})))
    after Idle -> shard(idle(State))
    end.

message(Message, #shard{index = Index, verdicts = Verdicts} = State) ->
    case dyno_agent_event:from_trace(Message) of
        {Pid, Event, TimeNs} ->
            New = event(Pid, Event, TimeNs, State),
            ok = dyno_agent_verdicts:event(Index, Verdicts),
            New;
        other when element(1, Message) =:= trace_ts ->
            ok = dyno_agent_verdicts:event(Index, Verdicts),
            State;
        other ->
            other(Message, State)
    end.

event(Pid, {spawned, _, _} = Event, TimeNs, #shard{since = Since} = State) when TimeNs < Since ->
    cut(Pid, Event, TimeNs, State);
event(Pid, Event, TimeNs, #shard{flow = none} = State) ->
    step(Pid, Event, TimeNs, State);
event(Pid, Event, TimeNs, #shard{flow = Flow} = State) ->
    case dyno_agent_event_flow:is_cut(Pid, Flow) of
        true -> cut(Pid, Event, TimeNs, State);
        false -> step(Pid, Event, TimeNs, State)
    end.

step(Pid, Event, TimeNs, #shard{core = Core} = State) ->
    effects(dyno_agent_partition:event(Pid, Event, TimeNs, Core), State).

effects({Core, []}, State) ->
    State#shard{core = Core};
effects({Core, Effects}, #shard{index = Index, verdicts = Verdicts} = State) ->
    ok = dyno_agent_verdicts:effects(Effects, Index, Verdicts),
    lists:foreach(fun(Effect) -> traced(Effect, State) end, Effects),
    State#shard{core = Core}.

traced({ignore, Pid}, #shard{session = Session}) -> dyno_agent_event_session:ignore(Pid, Session);
traced({follow, Pid}, #shard{session = Session}) -> dyno_agent_event_session:follow(Pid, Session);
traced(_Effect, _State) -> ok.

cut(Pid, Event, TimeNs, #shard{core = Core, session = Session} = State) ->
    #shard{index = Index, verdicts = Verdicts, choice = Choice} = State,
    IsOpen = dyno_agent_partition:is_open(Pid, Core),
    case IsOpen orelse element(1, Event) =:= spawned of
        true -> dyno_agent_event_session:ignore(Pid, Session);
        false -> ok
    end,
    case IsOpen orelse cut_at_start(Pid, Event, Choice, Index, Verdicts) of
        true -> effects(dyno_agent_partition:gap(Pid, TimeNs, Core), State);
        false -> State
    end.

cut_at_start(Pid, {spawned, _, _} = Event, Choice, Index, Verdicts) ->
    Process = dyno_agent_event:description(Pid, Event),
    case dyno_agent_process_filter:of_process(Process, Choice) of
        [] ->
            false;
        Monitors ->
            ok = dyno_agent_verdicts:cut(Monitors, Index, Verdicts),
            true
    end;
cut_at_start(_Pid, _Event, _Choice, _Index, _Verdicts) ->
    false.

%% The size counts for events only: sample the next message instead.
sample(Message, State) when element(1, Message) =/= trace_ts ->
    State#shard{left = 0};
sample(Message, #shard{flow = Flow, turn = Turn} = State) ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    Timed = (time(Message, State))#shard{turn = turn(Waiting, Turn)},
    case Flow of
        none ->
            Timed;
        _ ->
            New = dyno_agent_event_flow:sample(Waiting, Message, ?SAMPLE, Flow),
            ok = atomics:put(State#shard.words, 1, dyno_agent_event_flow:words(New)),
            Timed#shard{flow = New}
    end.

turn(#{urgent := true}) -> usual;
turn(#{}) -> never.

turn(Waiting, usual) when Waiting > ?MANY -> prior(high, urgent);
turn(Waiting, urgent) when Waiting > ?TOO_MANY -> prior(normal, hopeless);
turn(Waiting, urgent) when Waiting < ?FEW -> prior(normal, usual);
turn(Waiting, hopeless) when Waiting < ?FEW -> usual;
turn(_Waiting, Turn) -> Turn.

prior(Priority, Turn) ->
    _ = process_flag(priority, Priority),
    Turn.

time(_Message, #shard{idle = infinity} = State) ->
    State;
time(Message, #shard{core = Core} = State) ->
    Ns = dyno_agent_event:time_ns(element(tuple_size(Message), Message)),
    effects(dyno_agent_partition:timeouts(Ns - dyno_agent_property:grace_ns(), Core), State).

idle(#shard{core = Core} = State) ->
    Now = erlang:monotonic_time(nanosecond),
    Settled = effects(dyno_agent_partition:settle(Core), State),
    Due = Now - dyno_agent_property:grace_ns(),
    effects(dyno_agent_partition:timeouts(Due, Settled#shard.core), Settled).

other({gap, Pid}, #shard{core = Core} = State) ->
    effects(dyno_agent_partition:gap(Pid, erlang:monotonic_time(nanosecond), Core), State);
other({gap_all, TimeNs}, #shard{core = Core, session = Session} = State) ->
    lists:foreach(
        fun(Pid) -> dyno_agent_event_session:ignore(Pid, Session) end,
        dyno_agent_partition:pids(Core)
    ),
    effects(dyno_agent_partition:gap_all(TimeNs, Core), State#shard{since = TimeNs});
other({'$gen_call', From, {attach, Processes}}, State) ->
    Attach = fun(Process, #shard{core = Core} = Acc) ->
        effects(dyno_agent_partition:attach(Process, Core), Acc)
    end,
    New = lists:foldl(Attach, State, Processes),
    ok = gen_server:reply(From, ok),
    New;
other({'$gen_call', From, {session, Session}}, State) ->
    ok = gen_server:reply(From, ok),
    State#shard{session = Session};
other({drain, Alias, Index}, #shard{core = Core} = State) ->
    Settled = effects(dyno_agent_partition:settle(Core), State),
    Alias ! {Alias, drained, Index},
    Settled;
other(_Message, State) ->
    State.

%% The router

-spec init_router(config()) -> no_return().
init_router(Config) ->
    #{shards := Shards, verdicts := Verdicts, limits := Limits, choice := Choice} = Config,
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    Size = tuple_size(Shards),
    router(#router{
        shards = Shards,
        size = Size,
        sent = counters:new(Size, [atomics]),
        flow = erlang:make_tuple(Size, dyno_agent_event_flow:new(Limits)),
        verdicts = Verdicts,
        words = map_get(words, Config),
        choice = Choice,
        turn = turn(Config),
        left = ?SAMPLE
    }).

router(#router{left = Left} = State) ->
    receive
        Message when Left > 0 -> router(route(Message, State#router{left = Left - 1}));
        Message -> router(route(Message, watch(Message, State#router{left = ?SAMPLE})))
    end.

route(Message, #router{size = Size, flow = Flow} = State) when element(1, Message) =:= trace_ts ->
    Pid = element(2, Message),
    Index = of_pid(Pid, Size),
    case dyno_agent_event_flow:is_cut(Pid, element(Index, Flow)) of
        true ->
            cut_off(Pid, Index, Message, State);
        false ->
            element(Index, State#router.shards) ! Message,
            ok = counters:add(State#router.sent, Index, 1),
            State
    end;
route({'$gen_call', From, {session, Session}}, State) ->
    ok = gen_server:reply(From, ok),
    State#router{session = Session};
route({'$gen_call', From, {shard, Index, Pid}}, #router{shards = Shards, sent = Sent} = State) ->
    %% Events sent to the previous shard are lost.
    Done = dyno_agent_verdicts:events(Index, State#router.verdicts),
    ok = counters:put(Sent, Index, Done),
    ok = gen_server:reply(From, ok),
    State#router{shards = setelement(Index, Shards, Pid)};
route({drain, Alias, _}, #router{shards = Shards} = State) ->
    %% The drain follows all events, in each shard too.
    lists:foreach(
        fun({Index, Shard}) -> Shard ! {drain, Alias, Index} end,
        lists:enumerate(tuple_to_list(Shards))
    ),
    State;
route({gap_all, _} = Message, #router{shards = Shards} = State) ->
    lists:foreach(fun(Shard) -> Shard ! Message end, tuple_to_list(Shards)),
    State;
route(_Message, State) ->
    State.

cut_off(Pid, _Index, _Message, #router{cut = Cut} = State) when is_map_key(Pid, Cut) ->
    State;
cut_off(Pid, Index, Message, #router{cut = Cut, shards = Shards} = State) ->
    #router{choice = Choice, verdicts = Verdicts, session = Session} = State,
    ok = dyno_agent_event_session:ignore(Pid, Session),
    _ =
        case dyno_agent_event:from_trace(Message) of
            {Pid, {spawned, _, _} = Event, _} ->
                cut_at_start(Pid, Event, Choice, Index, Verdicts);
            _ ->
                element(Index, Shards) ! {gap, Pid}
        end,
    %% A forgotten process is cut again, which has no effect.
    case map_size(Cut) >= ?MOST_CUT of
        true -> State#router{cut = #{Pid => []}};
        false -> State#router{cut = Cut#{Pid => []}}
    end.

watch(Message, State) when element(1, Message) =/= trace_ts ->
    State#router{left = 0};
watch(Message, #router{size = Size, sent = Sent, flow = Flow} = State) ->
    #router{verdicts = Verdicts, turn = Turn} = State,
    {message_queue_len, Here} = process_info(self(), message_queue_len),
    New = list_to_tuple([
        dyno_agent_event_flow:sample(
            Here + Size * (counters:get(Sent, Index) - dyno_agent_verdicts:events(Index, Verdicts)),
            Message,
            ?SAMPLE,
            Of
        )
     || {Index, Of} <- lists:enumerate(tuple_to_list(Flow))
    ]),
    ok = atomics:put(State#router.words, 1, dyno_agent_event_flow:words(element(1, New))),
    State#router{flow = New, turn = turn(Here, Turn)}.
