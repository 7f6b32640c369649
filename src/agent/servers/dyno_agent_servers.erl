%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_servers).
-moduledoc """
Measures the callbacks of server processes: gen_server, gen_statem, gen_event, supervisor and
GenStage, Erlang's and Elixir's.

```
dyno_agent_process_filter      which processes?      dyno_agent_server_life   init, end, crashes
dyno_agent_server_set          those measured        dyno_agent_server_level  how much of it?
dyno_agent_server_breakpoints  call_time, call_count dyno_agent_server_probe  what does it cost?
dyno_agent_server_hook         in each of them      dyno_agent_server_end    how did it end?
   | dyno_agent_server_delay
   v counts into
dyno_agent_server_counters     --- next/1 ------->   dyno_agent_server_process, _window
```

A process measures itself in a debug function of sys: no message is sent, nothing is copied. If a
process does not answer sys within two seconds, call_time measures the process, as it does event
managers. Hooks end by themselves some seconds after this process, and with the agent.

## Cost
About 300 ns a callback (`probe_ns`: as measured on the node), 35 kB a process.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1]).
-export([restart/1, read/1, next/1, change/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, ask_stacks/2]).
-export_type([config/0, level/0, window/0, server/0, callback/0, stage/0]).
-export_type([running/0]).

-type level() :: auto | rate | time | distribution | each.

-type config() :: #{
    servers := [dyno_agent_process_filter:selector()],
    level => level(),
    %% The most processes measured; 1,000.
    most => pos_integer(),
    %% For the level each: calls in all, calls a second, and the time limit.
    each => #{count => pos_integer(), per_second => pos_integer(), seconds => pos_integer()},
    %% Gets single calls.
    sink => pid(),
    %% The share of all schedulers' time that measuring may take; 0.1.
    share => float()
}.

-doc "The measurements since the last `next/1` or `restart/1`.".
-type window() :: #{
    node := node(),
    %% System time of the node, since 1970.
    start_ns := integer(),
    duration_ns := pos_integer(),
    level := level(),
    asked := level(),
    stepped_down := none | binary(),
    %% What measuring adds to a callback; and its share of one scheduler, with this process.
    probe_ns := non_neg_integer(),
    cost := float(),
    %% Whether all beginnings and ends of servers were followed.
    followed := boolean(),
    %% Of all gen_servers of the node.
    rate := #{call | cast | info | continue => non_neg_integer()},
    servers := [server()],
    %% Selected processes beyond the limit.
    unselected := non_neg_integer(),
    %% Processes that ended and are no servers here: gone before being asked, or without room.
    unseen := #{processes := non_neg_integer(), calls := non_neg_integer()},
    schedulers_busy := float()
}.

-doc "A map, of which these values need words; others are as `dyno_agent_process_filter` has them.".
-type server() :: #{
    state := alive | dyno_agent_server_end:how(),
    measured := hook | call_time | none,
    callbacks := [callback()],
    stage := stage() | none,
    %% The lengths at the beginning of callbacks; and the change of the length.
    queue := dyno_agent_server_counters:histogram(),
    grown := integer() | undefined,
    %% The delay of messages behind others, 0 if these found the server idle, or if it is not
    %% known (`delay_unknown`); `delay_low`, `delay_high`: their bounds.
    delay := dyno_agent_server_counters:histogram(),
    delay_low := dyno_agent_server_counters:histogram(),
    delay_high := dyno_agent_server_counters:histogram(),
    delay_unknown := non_neg_integer(),
    %% Messages without a delay: served before there was a hook.
    delay_missed := non_neg_integer(),
    %% Messages that found the server idle: traced ones, the number of all, all upper bounds.
    woken := dyno_agent_server_counters:histogram(),
    woken_of := non_neg_integer(),
    woken_high := dyno_agent_server_counters:histogram(),
    wall_ns := non_neg_integer() | undefined,
    %% Like `wall_ns`, with callbacks under way at the end, not at the beginning; and the time it
    %% is a part of. If greater than `wall_ns`, the hook missed callbacks.
    busy_ns := integer() | undefined,
    busy_of_ns := non_neg_integer(),
    %% In this window; and the time in which the processor time was taken.
    life_ns := pos_integer(),
    cpu_of_ns := non_neg_integer(),
    %% The wait of dyno's own message for sys.
    asked_ns := non_neg_integer() | undefined,
    %% Callbacks counted and not timed, before there was a hook.
    missed := non_neg_integer(),
    %% How often a callback was seen in a dirty scheduler, where `cpu_ns` is an upper bound.
    dirty := non_neg_integer(),
    atom() => term()
}.

-type running() :: #{callback := binary(), ns := non_neg_integer()}.

-type callback() :: #{
    name := binary(),
    count := non_neg_integer(),
    missed := non_neg_integer(),
    exceptions := non_neg_integer(),
    stops := non_neg_integer(),
    wall := dyno_agent_server_counters:histogram(),
    cpu_ns := non_neg_integer() | undefined,
    words := integer() | undefined
}.

-doc "A stage of GenStage; what only an unmeasured stage knows is undefined.".
-type stage() :: #{
    kind := producer | producer_consumer | consumer | unknown,
    demand_asked := non_neg_integer() | undefined,
    demand_received := non_neg_integer(),
    events_in := non_neg_integer(),
    events_out := non_neg_integer() | undefined,
    batches := dyno_agent_server_counters:histogram(),
    %% Demand received and unanswered.
    outstanding := non_neg_integer() | undefined,
    buffered := non_neg_integer(),
    %% Thrown away by a full buffer; undefined if this version of GenStage is unknown.
    discarded := non_neg_integer() | undefined,
    %% From a consumer's last demand to the next events.
    demand_to_event := dyno_agent_server_counters:histogram(),
    subscriptions := [#{from := pid(), to := pid(), events := non_neg_integer()}]
}.

%% Made in init/1 and begin_window/2.
-type state() :: #{atom() => term()}.

-define(MOST, 1000).
-define(SHARE, 0.1).
-define(SHORT_NS, 100_000_000).
-define(TICK_MS, 1000).
%% Ticks between two questions to event managers for their handlers.
-define(HANDLERS_TICKS, 10).
-define(LOOKS, 10).
-define(LOOK_MS, 25).
-define(EACH, #{count => 100, per_second => 10, seconds => 60}).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [servers], parts => dyno_agent_server_parts}.

-spec config(dyno_agent_instrument:options()) -> config() | off.
config(#{servers := [_ | _] = Selectors, sink := Sink}) -> #{servers => Selectors, sink => Sink};
config(_Options) -> off.

-spec restart(pid()) -> ok.
restart(Pid) ->
    _ = next(Pid),
    ok.

-doc "The window until now, which goes on.".
-spec read(pid()) -> window().
read(Pid) -> gen_server:call(Pid, read, infinity).

-doc "The window until now; begins a new one.".
-spec next(pid()) -> window().
next(Pid) -> gen_server:call(Pid, next, infinity).

-doc "Selects more processes, or fewer.".
-spec change(pid(), add | remove, [dyno_agent_process_filter:selector()]) -> ok.
change(Pid, How, Selectors) -> gen_server:call(Pid, {How, Selectors}, infinity).

-spec init(config()) -> {ok, state()}.
init(#{servers := Selectors} = Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    _ = erlang:system_flag(scheduler_wall_time, true),
    Asked = maps:get(level, Config, auto),
    Shared = #{
        clock => now_ns() - 1,
        control => atomics:new(5, [{signed, true}]),
        names => dyno_agent_server_names:new(),
        asked => atomics:new(1024, [{signed, true}]),
        each =>
            case Config of
                #{level := each, sink := _} -> self();
                #{} -> none
            end
    },
    Heart = dyno_agent_server_heart:start(Shared),
    Times = dyno_agent_server_breakpoints:open(),
    Speed = dyno_agent_server_breakpoints:speed(Times),
    Probes = #{
        hook => dyno_agent_server_probe:hook_ns(Shared),
        look => dyno_agent_server_probe:look_ns(Shared),
        flag => dyno_agent_server_probe:flag_ns(Times)
    },
    {_, _, Zero} = dyno_agent_server_breakpoints:read(restart, true, Times),
    _ = erlang:send_after(?TICK_MS, self(), tick),
    Limits = maps:merge(?EACH, maps:get(each, Config, #{})),
    Flag = fun(Flags) ->
        fun(Pid, How) -> dyno_agent_server_breakpoints:flag(Flags, Pid, How, Times) end
    end,
    State = #{
        config => Config,
        shared => Shared,
        heart => Heart,
        set => dyno_agent_server_set:new(
            Selectors, maps:get(most, Config, ?MOST), Shared, Flag([call])
        ),
        times => Zero,
        life => dyno_agent_server_life:open(Speed),
        managers => dyno_agent_server_managers:new(Flag([running, monotonic_timestamp])),
        level => dyno_agent_server_level:new(Asked, maps:get(share, Config, ?SHARE), Speed),
        probes => Probes,
        each => #{
            left => map_get(count, Limits),
            per_second => map_get(per_second, Limits),
            until => now_ns() + 1_000_000_000 * map_get(seconds, Limits)
        },
        ticks => 0,
        begun => false,
        silent => [],
        unknown => #{},
        outstanding => #{},
        second => online(schedulers()),
        share => 0.0,
        spent => {0.0, 0}
    },
    {ok, begin_window(now_ns(), refilled(with_stages(scan(busiest(State)))))}.

%% Reading dominates a window hardly longer than a reading: short windows are judged together.
spent(Cost, DurationNs, #{spent := {TookNs, Ns}} = State) ->
    case {TookNs + Cost * DurationNs, Ns + DurationNs} of
        {_, All} = Spent when All < ?SHORT_NS ->
            State#{spent := Spent};
        {Took, All} ->
            Share = Took / All / erlang:system_info(schedulers_online),
            State#{share := Share, spent := {0.0, 0}}
    end.

%% A window begins when the last one was read: what is done while it is read counts, too.
begin_window(At, State) ->
    State#{
        started => At,
        started_system => At + erlang:time_offset(nanosecond),
        schedulers => schedulers(),
        processor_ns => dyno_agent_os:processor_ns(),
        own_ns => 0,
        own_served => #{info => 0}
    }.

-spec handle_call(
    read | next | {add | remove, [dyno_agent_process_filter:selector()]},
    gen_server:from(),
    state()
) ->
    {reply, term(), state()}.
handle_call(read, _From, State) ->
    Scanned = scan(State),
    {Window, _} = window(go_on, Scanned),
    {reply, Window, Scanned};
handle_call(next, _From, State) ->
    #{set := Set} = Scanned = scan_due(all, State),
    {Window, Read} = window(restart, Scanned),
    #{servers := Servers, duration_ns := DurationNs, cost := Cost} = Window,
    Rates = #{Pid => Served * 1.0e9 / DurationNs || #{pid := Pid, served := Served} <- Servers},
    Running = #{Pid => Ns || #{pid := Pid, running := #{ns := Ns}} <- Servers},
    At = map_get(started, State) + DurationNs,
    Next = dyno_agent_server_set:next(Rates, Running, {At, map_get(silent, Read)}, Set),
    {reply, Window, busiest(begin_window(At, (spent(Cost, DurationNs, Read))#{set := Next}))};
handle_call({add, More}, _From, #{set := Set} = State) ->
    {reply, ok, busiest(State#{set := dyno_agent_server_set:select(More, Set)})};
handle_call({remove, Less}, _From, #{set := Set} = State) ->
    {reply, ok, State#{set := dyno_agent_server_set:unselect(Less, Set)}}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info(Message, #{own_served := #{info := N} = Served} = State) ->
    informed(Message, State#{own_served := Served#{info := N + 1}}).

informed(tick, State) ->
    Before = now_ns(),
    _ = erlang:send_after(?TICK_MS, self(), tick),
    #{own_ns := OwnNs} = Ticked = tick(State),
    HeartNs = dyno_agent_server_heart:took_ns(map_get(shared, State)),
    {noreply, Ticked#{own_ns := OwnNs + now_ns() - Before + HeartNs}};
informed({{dyno_agent_server_set, described}, Pid, Server}, #{set := Set} = State) ->
    #{level := Level} = State,
    Described = dyno_agent_server_set:described(Pid, Server, Set),
    Now = dyno_agent_server_level:level(Level),
    {noreply, State#{set := dyno_agent_server_set:adjust(Now, Described)}};
informed({{dyno_agent_server_set, Pid, Hook}, ok}, #{set := Set} = State) ->
    {noreply, State#{set := dyno_agent_server_set:answered(Pid, Hook, Set)}};
informed({{?MODULE, handlers}, Modules}, #{times := Times} = State) when is_list(Modules) ->
    {noreply, State#{times := dyno_agent_server_breakpoints:handlers(Modules, Times)}};
informed({'DOWN', Monitor, process, Pid, Reason}, #{set := Set, life := Before} = State) ->
    {Ending, Life} = dyno_agent_server_life:ending(Pid, Before),
    Ended = dyno_agent_server_set:down(Pid, Monitor, {Reason, Ending}, Set),
    {noreply, State#{set := Ended, life := Life}};
informed({dyno_agent_server_hook, Pid, Series, Text, Ns}, #{each := Each} = State) ->
    #{config := #{sink := Sink}, set := Set} = State,
    #{left := Left} = Each,
    At = erlang:system_time(nanosecond),
    More = #{node => node(), message => Text, wall_ns => Ns, at_ns => At},
    _ = [
        erlang:send(Sink, {dyno_servers, each, maps:merge(Call, More)}, [noconnect])
     || Call <- dyno_agent_server_set:call(Pid, Series, Set)
    ],
    {noreply, State#{each := Each#{left := max(0, Left - 1)}}};
informed({dyno_agent_server_wakes, Woken, Casts}, #{set := Set, own_served := Served} = State) ->
    Own = Served#{cast => maps:get(cast, Served, 0) + Casts},
    {noreply, State#{set := dyno_agent_server_set:woken(Woken, Set), own_served := Own}};
informed({'EXIT', _From, Reason}, State) ->
    {stop, Reason, State};
informed({trace_ts, _, How, _, _} = Event, #{managers := Managers} = State) when
    How =:= in; How =:= out
->
    {noreply, State#{managers := dyno_agent_server_managers:event(Event, Managers)}};
informed(Event, #{life := Before} = State) when element(1, Event) =:= trace_ts ->
    case dyno_agent_server_life:event(Event, Before) of
        {begins, Birth, Life} ->
            #{set := Set, level := Level} = State,
            Now = dyno_agent_server_level:level(Level),
            Begun = dyno_agent_server_set:begun(Birth, Now, Set),
            {noreply, State#{set := Begun, life := Life, begun := true}};
        {none, Life} ->
            {noreply, State#{life := Life}}
    end;
informed(_Other, State) ->
    {noreply, State}.

%% Hooks end with their deadline; processes that answer at once end them now.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{shared := #{control := Control} = Shared, heart := Heart} = State) ->
    #{times := Times, life := Life} = State,
    ok = dyno_agent_process:kill(Heart),
    ok = atomics:put(Control, 1, -1),
    ok = dyno_agent_server_breakpoints:close(Times),
    ok = dyno_agent_server_life:close(Life),
    dyno_agent_server_names:unhook_all(Shared).

%% Each second

tick(#{life := Life, managers := Managers, ticks := Ticks} = State) ->
    Ticked = State#{
        life := dyno_agent_server_life:tick(Life),
        managers := dyno_agent_server_managers:tick(Managers),
        ticks := Ticks + 1
    },
    Scanned = scan_due(unhooked, Ticked),
    ok = ask_for_handlers(Scanned),
    #{set := Set} = Levelled = refilled(levelled(with_stages(Scanned))),
    Levelled#{set := dyno_agent_server_set:hooked_again(Set)}.

with_stages(#{set := Set, life := Life} = State) ->
    Modules = dyno_agent_server_set:stage_modules(Set),
    State#{life := dyno_agent_server_life:stages(Modules, Life)}.

scan(#{set := Set} = State) -> adjusted(all, dyno_agent_server_set:scan(Set), State).

scan_due(Queues, #{set := Set} = State) ->
    adjusted(Queues, dyno_agent_server_set:scan_due(Set), State).

adjusted(Queues, Set, #{level := Level, times := Times, managers := Managers} = State) ->
    Now = dyno_agent_server_level:level(Level),
    Scanned = dyno_agent_server_set:sample_queues(Queues, Set),
    Timed = [Pid || Now =/= rate, Pid <- dyno_agent_server_set:managers(Scanned)],
    State#{
        managers := dyno_agent_server_managers:follow(Timed, Managers),
        times := dyno_agent_server_breakpoints:births(
            dyno_agent_server_set:births(Now, Set), Times
        ),
        set := dyno_agent_server_set:adjust(Now, Scanned)
    }.

busiest(#{set := Set} = State) ->
    State#{set := dyno_agent_server_set:busiest(Set)}.

%% Handlers are user code, which may be loaded anew later: only on request.
ask_for_handlers(#{config := #{level := time}, ticks := Ticks, set := Set}) when
    Ticks rem ?HANDLERS_TICKS =:= 1
->
    lists:foreach(
        fun(Pid) -> Pid ! {self(), {self(), {?MODULE, handlers}}, get_modules} end,
        dyno_agent_server_set:managers(Set)
    ),
    %% A busy manager does not answer, but its stack shows a handler. Nothing here waits for it.
    _ = [spawn(?MODULE, ask_stacks, [self(), Pid]) || Pid <- dyno_agent_server_set:managers(Set)],
    ok;
ask_for_handlers(_State) ->
    ok.

-doc false.
-spec ask_stacks(pid(), pid()) -> ok.
ask_stacks(Agent, Pid) ->
    lists:foreach(
        fun(_) ->
            _ =
                case process_info(Pid, current_stacktrace) of
                    {current_stacktrace, Stack} -> Agent ! {{?MODULE, handlers}, handlers(Stack)};
                    undefined -> gone
                end,
            timer:sleep(?LOOK_MS)
        end,
        lists:seq(1, ?LOOKS)
    ).

handlers([{Module, Function, 2, _}, {gen_event, server_update, _, _} | _]) when
    Function =:= handle_event; Function =:= handle_info
->
    [Module];
handlers([_ | Stack]) ->
    handlers(Stack);
handlers([]) ->
    [].

levelled(#{level := Before, second := Schedulers, share := Share} = State) ->
    Now = online(schedulers()),
    Observation = #{
        run_queue => erlang:statistics(total_run_queue_lengths) / length(Now),
        busy => dyno_agent_server_window:busy(Schedulers, Now),
        cost => Share
    },
    Level = dyno_agent_server_level:observe(Observation, Before),
    Changed = dyno_agent_server_level:level(Level) =/= dyno_agent_server_level:level(Before),
    Next = State#{level := Level, second := Now},
    case Changed of
        %% The cost of the new level is unknown before the next window.
        true -> Next#{share := 0.0, spent := {0.0, 0}};
        false -> Next
    end.

refilled(#{each := Each, shared := #{control := Control}} = State) ->
    #{left := Left, per_second := PerSecond, until := Until} = Each,
    Calls =
        case now_ns() < Until of
            true -> min(PerSecond, Left);
            false -> 0
        end,
    ok = atomics:put(Control, 2, Calls),
    State.

%% Windows

window(How, #{started := Started, config := Config, level := Level, probes := Probes} = State) ->
    #{set := Set, times := Times, life := Was, schedulers := Before} = State,
    {Discarded, Followed, Life} = dyno_agent_server_life:window(How, Was),
    Begun = now_ns(),
    {Busy, Managers} = dyno_agent_server_managers:busy(How, Begun, map_get(managers, State)),
    #{begun := HasBegun, own_served := OwnServed} = State,
    Flagged =
        HasBegun orelse dyno_agent_server_set:is_flagged(Set) orelse
            not dyno_agent_server_life:is_open(Life),
    {Rate, TimesNow, Taken} = dyno_agent_server_breakpoints:read(How, Flagged, Times),
    %% The news of a process's beginning may come after its times were taken.
    #{unknown := Earlier} = State,
    TimesOf = dyno_agent_server_breakpoints:add(Earlier, TimesNow),
    Unknown = dyno_agent_server_set:unknown(TimesNow, Set),
    Now = dyno_agent_server_level:level(Level),
    Context = maps:with([shared, probes, outstanding], State),
    #{
        servers := Servers, probed_ns := ProbedNs, outstanding := Outstanding, silent := Silent
    } =
        dyno_agent_server_window:make(
            How,
            Context#{
                times => TimesOf,
                level => Now,
                discarded => Discarded,
                managers => Busy,
                elapsed_ns => Begun - Started,
                now => Begun
            },
            Set
        ),
    Duration = max(1, Begun - Started),
    Schedulers = schedulers(),
    %% Only the clock measures this process's time. This process has priority, so only other
    %% programs of the machine take the processor away for long.
    ProcessorNs = dyno_agent_os:processor_ns() - map_get(processor_ns, State),
    OnProcessor =
        dyno_agent_server_window:on_processor(Before, {Schedulers, ProcessorNs}, Duration),
    Own = (map_get(own_ns, State) + now_ns() - Begun) * OnProcessor,
    Window = #{
        node => node(),
        start_ns => map_get(started_system, State),
        duration_ns => Duration,
        level => Now,
        asked => maps:get(level, Config, auto),
        stepped_down => dyno_agent_server_level:why(Level),
        followed => Followed,
        probe_ns => probe_ns(Now, Probes, {ProbedNs, Servers}),
        cost => (ProbedNs + Own) / Duration,
        %% Without the messages to this server.
        rate => #{Of => max(0, N - maps:get(Of, OwnServed, 0)) || Of := N <- Rate},
        servers => Servers,
        unselected => dyno_agent_server_set:unselected(Set),
        unseen => dyno_agent_server_set:unseen(last(How, TimesOf, Earlier), Set),
        schedulers_busy => dyno_agent_server_window:busy(online(Before), online(Schedulers))
    },
    {Window, State#{
        times := Taken,
        begun := false,
        life := Life,
        managers := Managers,
        outstanding := Outstanding,
        silent := Silent,
        unknown := Unknown
    }}.

%% No window follows a reading, so nothing more comes to be known.
last(go_on, TimesOf, _Earlier) -> TimesOf;
last(restart, _TimesOf, Earlier) -> Earlier.

%% The average, or as with few messages.
probe_ns(Level, Probes, {ProbedNs, Servers}) ->
    case {Level, lists:sum([Served || #{served := Served} <- Servers]), Probes} of
        {rate, _, _} -> 0;
        {_, Served, _} when Served > 0 -> ProbedNs div Served;
        {time, 0, #{flag := FlagNs}} -> FlagNs;
        {_, 0, #{hook := HookNs, look := LookNs, flag := FlagNs}} -> HookNs + LookNs + FlagNs
    end.

%% With the dirty schedulers, which take processor time, too.
schedulers() ->
    lists:sort(erlang:statistics(scheduler_wall_time)).

%% Offline schedulers do no work: with them a full node would look half full.
online(Schedulers) ->
    Online = erlang:system_info(schedulers_online),
    [Of || {Id, _, _} = Of <- Schedulers, Id =< Online].

now_ns() -> erlang:monotonic_time(nanosecond).
