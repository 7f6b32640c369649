%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_servers_SUITE).
-moduledoc "What servers do, against servers whose callbacks are known; and that nothing is left.".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_peers, [hooks/2]).

-compile([export_all, nowarn_export_all]).

-define(SERVER, """
-module(known_server).
-behaviour(gen_server).
-export([start/1, init/1, handle_call/3, handle_cast/2, handle_info/2, handle_continue/2]).
-export([terminate/2, casts/3, stamped/3, calls/3, enter/1]).
-export([suspends/1, hangs/0, register_name/2, whereis_name/1]).
whereis_name(_) -> undefined.
suspends(Pid) -> spawn(fun() -> erlang:suspend_process(Pid), timer:sleep(infinity) end).
hangs() ->
    spawn(fun() -> gen_server:start({via, known_server, slow}, known_server, [], []) end).
register_name(slow, _Pid) -> timer:sleep(infinity).
enter(Label) ->
    proc_lib:set_label(Label),
    gen_server:enter_loop(known_server, [], []).
stamped(Pid, Us, N) ->
    Now = fun() -> erlang:monotonic_time(nanosecond) end,
    [gen_server:cast(Pid, {stamped, Now(), Us}) || _ <- lists:seq(1, N)],
    ok.
casts(Pid, Message, N) -> [ok = gen_server:cast(Pid, Message) || _ <- lists:seq(1, N)], ok.
calls(Pid, Message, N) ->
    Begun = erlang:monotonic_time(microsecond),
    [gen_server:call(Pid, Message) || _ <- lists:seq(1, N)],
    erlang:monotonic_time(microsecond) - Begun.
start(State) -> gen_server:start(known_server, State, []).
init({slow, Ms}) -> timer:sleep(Ms), {ok, slow};
init(State) -> {ok, State}.
handle_call(truth, _From, State) ->
    {reply, [{What, lists:sum(Times)} || {What, [N | _] = Times} <- get(), is_integer(N)], State};
handle_call(delays, _From, State) -> {reply, lists:sort(get(delay)), State};
handle_call(median, _From, State) ->
    Times = lists:sort(get(cast)),
    %% In few that took longer, another program had the processor.
    Usual = lists:sum([Ns || Ns <- Times, Ns < 20_000]),
    {reply, {lists:nth(length(Times) div 2, Times), Usual}, State};
handle_call({busy, Us}, _From, State) -> timed(busy, fun() -> busy(Us) end), {reply, ok, State};
handle_call({sleep, Ms}, _From, State) ->
    timed(sleep, fun() -> timer:sleep(Ms) end),
    {reply, ok, State};
handle_call(crash, _From, State) -> busy(2000), error({crashed, State});
handle_call({through, Pid, N}, _From, State) ->
    spawn(fun() -> gen_server:call(Pid, {busy, 1000}) end),
    {reply, N, State};
handle_call({nested, Pid, Ms}, _From, State) ->
    timed(nested, fun() -> gen_server:call(Pid, {sleep, Ms}) end),
    {reply, ok, State};
handle_call(continue, _From, State) -> {reply, ok, State, {continue, {work, 3000}}};
handle_call(stop, _From, State) -> {stop, normal, ok, State};
handle_call(_, _From, State) -> {reply, ok, State}.
handle_cast(hold, State) -> receive go -> {noreply, State} end;
handle_cast({stamped, Sent, Us}, State) ->
    Delay = erlang:monotonic_time(nanosecond) - Sent,
    put(delay, [Delay | case get(delay) of undefined -> []; Delays -> Delays end]),
    busy(Us),
    {noreply, State};
handle_cast({busy, Us}, State) -> timed(cast, fun() -> busy(Us) end), {noreply, State};
handle_cast(_, State) -> {noreply, State}.
handle_info({timed, Pid}, State) -> Pid ! done, {noreply, State, 0};
handle_info(_, State) -> {noreply, State}.
handle_continue({work, Us}, State) -> timed(continue, fun() -> busy(Us) end), {noreply, State}.
terminate(_, _) -> timer:sleep(7).
timed(What, Do) ->
    Begun = erlang:monotonic_time(nanosecond),
    Do(),
    Ns = erlang:monotonic_time(nanosecond) - Begun,
    Before = case get(What) of undefined -> []; Times -> Times end,
    put(What, [Ns | Before]).
busy(Us) -> until(erlang:monotonic_time(microsecond) + Us).
until(End) ->
    case erlang:monotonic_time(microsecond) of
        Now when Now >= End -> ok;
        _ -> until(End)
    end.

""").

%% A stand-in for GenStage's messages and state, in a module of its name.
-define(GEN_STAGE, """
-module('Elixir.GenStage').
-behaviour(gen_server).
-export([start/2, init/1, handle_call/3, handle_cast/2, handle_info/2]).
start(Type, Other) -> gen_server:start('Elixir.GenStage', {Type, Other}, []).
init({Type, Other}) ->
    {ok, #{
        '__struct__' => 'Elixir.GenStage',
        mod => list_to_atom("Elixir.My." ++ atom_to_list(Type)),
        type => Type, buffer => {queue, 7, wheel}, other => Other, events => {queue:new(), 0}
    }}.
handle_call(asks, _From, #{other := Producer} = State) ->
    Producer ! {'$gen_producer', {self(), make_ref()}, {ask, 1000}},
    {reply, ok, State};
handle_call(_, _From, State) -> {reply, ok, State}.
handle_cast({discards, Count}, #{mod := Module} = State) ->
    _ = [
        error_logger:warning_msg("GenStage ~p has discarded ~p events", [self(), Count])
     || maybe_format_discarded(Module, Count, State)
    ],
    {noreply, State};
handle_cast(_, State) -> {noreply, State}.
maybe_format_discarded(Module, Count, State) ->
    not erlang:function_exported(Module, format_discarded, 2) orelse
        Module:format_discarded(Count, State).
handle_info({Of, _, What}, #{type := producer_consumer, events := {Queue, Asked}} = State) when
    Of =:= '$gen_producer', element(1, What) =:= ask; Of =:= '$gen_consumer', is_list(What)
->
    {Kept, Demand} =
        case What of
            {ask, More} -> {Queue, Asked + More};
            _ -> {queue:in(What, Queue), Asked}
        end,
    case queue:out(Kept) of
        {{value, _}, Left} when Demand > 0 ->
            timer:sleep(2),
            {noreply, State#{events := {Left, Demand - 1}}};
        _ ->
            {noreply, State#{events := {Kept, Demand}}}
    end;
handle_info({'$gen_producer', {To, Ref}, {ask, Demand}}, State) ->
    timer:sleep(10),
    To ! {'$gen_consumer', {self(), Ref}, lists:seq(1, Demand - 100)},
    {noreply, State};
handle_info({'$gen_consumer', _From, Events}, State) when is_list(Events) ->
    timer:sleep(2),
    {noreply, State}.

""").

suite() ->
    [{timetrap, {minutes, 2}}].

%% What dyno decides, and not what the runtime does.
newest_release_only() ->
    [
        buckets_are_those_of_the_histogram,
        blocks_that_run_out,
        a_callback_may_take_hours,
        lengths_are_told_apart,
        delays_lie_between_looks,
        a_long_callback_is_in_each_of_its_windows,
        levels_step_down_and_up,
        the_machine_is_not_charged_to_measuring,
        time_in_the_system_is_processor_time,
        choosing,
        the_busiest,
        single_calls,
        kinds_of_messages_are_bounded,
        a_busy_server_is_hooked_later,
        the_state_does_not_matter,
        delay_of_bursts,
        a_queue_of_its_own,
        short_callbacks,
        stages_of_a_module,
        what_costs_too_much_is_left,
        nothing_is_left_of_a_killed_guard
    ].

all() ->
    [{group, pure}, {group, in_a_node}].

groups() ->
    [
        {pure, [parallel], [
            buckets_are_those_of_the_histogram,
            blocks_that_run_out,
            a_callback_may_take_hours,
            lengths_are_told_apart,
            delays_lie_between_looks,
            a_long_callback_is_in_each_of_its_windows,
            a_flood_is_counted_and_sampled,
            levels_step_down_and_up,
            the_machine_is_not_charged_to_measuring
        ]},
        {in_a_node, [], [
            time_in_the_system_is_processor_time,
            schedulers_that_are_not_online,
            known_times,
            short_callbacks,
            beginnings_and_ends,
            without_hooks,
            delay_of_bursts,
            a_queue_of_its_own,
            the_state_does_not_matter,
            states_of_a_state_machine,
            handlers_of_an_event_manager,
            children_of_a_supervisor,
            stages,
            a_stage_in_the_middle,
            a_stage_throws_events_away,
            stages_of_a_module,
            choosing,
            the_busiest,
            single_calls,
            kinds_of_messages_are_bounded,
            a_busy_server_is_hooked_later,
            who_does_not_answer_may_be_idle,
            what_costs_too_much_is_left,
            nothing_is_left,
            nothing_is_left_in_a_busy_server,
            nothing_is_left_of_a_killed_guard
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

buckets_are_those_of_the_histogram(_Config) ->
    Values = lists:usort([
        max(0, (1 bsl Bits) + More)
     || Bits <- lists:seq(0, 50), More <- [-1, 0, 1, (1 bsl Bits) div 3]
    ]),
    lists:foreach(
        fun(Value) ->
            Index = dyno_agent_server_counters:index(Value),
            ?assertEqual({Value, dyno_histogram:index(Value)}, {Value, Index}),
            ?assertEqual(
                element(1, dyno_histogram:bounds(Index)),
                element(1, dyno_agent_server_counters:bounds(Index))
            )
        end,
        Values
    ).

blocks_that_run_out(_Config) ->
    Counters = dyno_agent_server_counters:new(),
    Values = [
        {1 + N rem 5, (1 bsl rand:uniform(40)) + rand:uniform(1000)}
     || N <- lists:seq(1, 20_000)
    ],
    _ = lists:foldl(
        fun({Series, Value}, Blocks) ->
            dyno_agent_server_counters:record(Counters, Series, Value, 1, Blocks)
        end,
        #{},
        Values
    ),
    #{series := Series} = dyno_agent_server_counters:read(restart, Counters),
    Counted = lists:sum([Count || Buckets <- maps:values(Series), {_, Count} <- Buckets]),
    ?assertEqual(20_000, Counted),
    ?assertEqual(#{}, maps:get(series, dyno_agent_server_counters:read(restart, Counters))).

%% All above 73 minutes are in dyno_histogram's last bucket.
a_callback_may_take_hours(_Config) ->
    Counters = dyno_agent_server_counters:new(),
    _ = lists:foldl(
        fun(Ns, Blocks) -> dyno_agent_server_counters:record(Counters, 1, Ns, 1, Blocks) end,
        #{},
        [1 bsl 41, 1 bsl 42, 10 * (1 bsl 42)]
    ),
    #{series := #{1 := Buckets}} = dyno_agent_server_counters:read(restart, Counters),
    #{count := 3} = Histogram = dyno_agent_server_counters:histogram(Buckets),
    ?assertMatch([{_, _, 1}, {_, _, 2}], dyno_histogram:to_recording(Histogram)),
    ?assert(dyno_histogram:quantile(Histogram, 0.9) >= 1 bsl 42).

lengths_are_told_apart(_Config) ->
    Counters = dyno_agent_server_counters:new(),
    Lengths = [0, 0, 1, 2, 2, 2, 3, 17, 100, 100_000],
    _ = lists:foldl(
        fun(Length, Blocks) ->
            Scaled = dyno_agent_server_counters:scaled(Length),
            dyno_agent_server_counters:record(Counters, 1, Scaled, 1, Blocks)
        end,
        #{},
        Lengths
    ),
    #{series := #{1 := Buckets}} = dyno_agent_server_counters:read(restart, Counters),
    #{buckets := Told, min := 0, max := Max} = dyno_agent_server_counters:lengths(Buckets),
    within(100_000, Max, 0.02),
    ?assertMatch([{0, 2}, {1, 1}, {2, 3}, {3, 1}, {17, 1}, {_, 1}, {_, 1}], Told).

%% A queue whose messages come and are served at known times, looked at now and then.
delays_lie_between_looks(_Config) ->
    Served = served(lists:sort([rand:uniform(2000) || _ <- lists:seq(1, 1000)]), 0),
    ?assertEqual(1000, length(Served)),
    Estimates = estimated(Served),
    True = [Begin - Arrival || {Arrival, Begin, _} <- Served],
    within(lists:sum(True) / 1000, lists:sum(Estimates) / length(Estimates), 0.2).

served([], _Free) ->
    [];
served([Arrival | Later], Free) ->
    Begin = max(Arrival, Free),
    [{Arrival, Begin, Begin + 3} | served(Later, Begin + 3)].

estimated(Served) ->
    Numbered = lists:enumerate(Served),
    {Found, _, _} = lists:foldl(
        fun({Number, {Arrival, Begin, End}}, {Done, Before, Delay}) ->
            Left = length([At || {N, {At, _, _}} <- Numbered, N > Number, At =< Begin]),
            case rand:uniform(8) of
                1 ->
                    Ended =
                        case Arrival >= Before of
                            true -> waited;
                            false -> Before
                        end,
                    {{Least, Ns, Most}, Next} =
                        dyno_agent_server_delay:received({Number, Begin, Left}, Ended, Delay),
                    ?assert(Least =< Begin - Arrival andalso Begin - Arrival =< Most),
                    ?assert(Least =< Ns andalso Ns =< Most),
                    {[Ns | Done], End, Next};
                _ ->
                    {Done, End, Delay}
            end
        end,
        {[], 0, dyno_agent_server_delay:new(0)},
        Numbered
    ),
    Found.

%% One of 2.5 s that begins in the middle of the first of four windows.
a_long_callback_is_in_each_of_its_windows(_Config) ->
    Nothing = dyno_agent_server_counters:read(go_on, none),
    Idle = #{
        level => distribution,
        elapsed_ns => 1_000_000_000,
        now => 0,
        values => Nothing,
        names => #{1 => {handle_call, none}},
        times => #{},
        running => none,
        stage => none
    },
    Runs = fun(Ns) -> Idle#{running := #{callback => ~"handle_call", ns => Ns}} end,
    Index = dyno_agent_server_counters:index(2_500_000_000),
    New = dyno_agent_server_process:new(description(), 0, {found, 0}),
    {Busy, _} = lists:mapfoldl(
        fun({Window, RanNs}, {Begun, One}) ->
            Now = Begun + 1_000_000_000,
            #{busy_ns := Ns} = dyno_agent_server_process:part(One, Window#{now := Now}),
            {Ns, {Now, dyno_agent_server_process:next(0, RanNs, Now, One)}}
        end,
        {0, dyno_agent_server_process:hook(hooked, 0, New)},
        [
            {Runs(500_000_000), 500_000_000},
            {Runs(1_500_000_000), 1_500_000_000},
            {Idle#{values := Nothing#{series := #{1 => [{Index, 1}]}}}, 0},
            {Idle, 0}
        ]
    ),
    ?assertMatch([500_000_000, 1_000_000_000, _, 0], Busy),
    within(1_000_000_000, lists:nth(3, Busy), 0.01).

description() ->
    #{
        pid => self(),
        name => ~"known",
        kind => module,
        registered => undefined,
        label => undefined,
        module => known_server,
        behaviour => gen_server,
        application => undefined,
        ancestors => [],
        system => false,
        queue => mailbox
    }.

%% The hook itself, as sys calls it: each message is counted, few are timed, and the slow ones are
%% seen, whether they were to be timed or not.
a_flood_is_counted_and_sampled(_Config) ->
    dyno_tries:hold(3, fun flood/0).

flood() ->
    Now = erlang:monotonic_time(nanosecond),
    Control = atomics:new(2, [{signed, true}]),
    ok = atomics:put(Control, 1, 1 bsl 58),
    Counters = dyno_agent_server_counters:new(),
    {_, _, Hook} = dyno_agent_server_hook:debug(self(), Counters, #{
        clock => Now - 1,
        control => Control,
        names => ets:new(names, [ordered_set]),
        asked => atomics:new(1024, [{signed, true}]),
        each => none
    }),
    {Flood, Count} = flooded(0, Now + 1_000_000_000, Hook),
    %% A queue in which more wait than a flood brings in that time, be it ten times as long.
    [self() ! waits || _ <- lists:seq(1, 20_000)],
    Last = lists:foldl(
        fun(_, Before) ->
            Slow = dyno_agent_server_hook:event(Before, {in, slow}, name),
            timer:sleep(50),
            Slept = dyno_agent_server_hook:event(Slow, {noreply, state}, name),
            {After, 1000} = flooded(0, 1000, Slept),
            After
        end,
        Flood,
        lists:seq(1, 20)
    ),
    [
        receive
            waits -> ok
        end
     || _ <- lists:seq(1, 19_900)
    ],
    %% After a pause, fewer wait.
    {Again, More} = flooded(0, erlang:monotonic_time(nanosecond) + 300_000_000, Last),
    timer:sleep(50),
    {_, 1000} = flooded(0, 1000, Again),
    [
        receive
            waits -> ok
        end
     || _ <- lists:seq(1, 100)
    ],
    #{series := Series, untimed := Untimed} = dyno_agent_server_counters:read(restart, Counters),
    Buckets = lists:append([Of || Id := Of <- Series, Id < 26]),
    ?assertEqual(Count + 20_020 + More + 1000, lists:sum([N || {_, N} <- Buckets])),
    %% Nearly all; fewer where others have the processor.
    ?assert(Untimed > 0),
    Slow = [N || {Index, N} <- Buckets, Index >= dyno_agent_server_counters:index(48_000_000)],
    %% Others may be, where the machine is busy.
    ct:log("~b of ~b not timed, slow: ~p", [Untimed, Count, Slow]),
    ?assert(lists:sum(Slow) >= 20 andalso lists:sum(Slow) =< 40).

%% So many messages, or until then.
flooded(Count, Until, Hook) when Count =:= Until ->
    {Hook, Count};
flooded(Count, Until, Hook) ->
    In = dyno_agent_server_hook:event(Hook, {in, {'$gen_cast', {put, Count}}}, name),
    Out = dyno_agent_server_hook:event(In, {noreply, state}, name),
    case Count band 1023 =:= 1023 andalso erlang:monotonic_time(nanosecond) of
        Now when is_integer(Now), abs(Until) > 1 bsl 40, Now > Until -> {Out, Count + 1};
        _ -> flooded(Count + 1, Until, Out)
    end.

levels_step_down_and_up(_Config) ->
    Calm = #{run_queue => 0, busy => 0.5, cost => 0.01},
    Dear = Calm#{cost := 0.2},
    Overloaded = Calm#{run_queue := 20, busy := 1.0},
    Seconds = fun(Count, Observation, Level) ->
        lists:foldl(
            fun(_, L) -> dyno_agent_server_level:observe(Observation, L) end,
            Level,
            lists:seq(1, Count)
        )
    end,
    At = fun dyno_agent_server_level:level/1,
    Level = dyno_agent_server_level:new(auto, 0.1, fast),
    distribution = At(Seconds(100, Calm, Level)),
    distribution = At(Seconds(2, Calm, Seconds(2, Dear, Level))),
    Lower = Seconds(3, Dear, Level),
    time = At(Lower),
    ?assertEqual(
        ~"measuring took 20.0 % of the schedulers' time, 10.0 % is allowed",
        dyno_agent_server_level:why(Lower)
    ),
    Lowest = Seconds(9, Overloaded, Lower),
    rate = At(Lowest),
    time = At(Seconds(30, Calm, Lowest)),
    Again = Seconds(60, Calm, Lowest),
    distribution = At(Again),
    none = dyno_agent_server_level:why(Again),
    rate = At(Seconds(100, Calm, dyno_agent_server_level:new(rate, 0.1, fast))).

%% Two schedulers, each busy for half of a second by the clock.
the_machine_is_not_charged_to_measuring(_Config) ->
    Before = [{1, 0, 0}, {2, 0, 0}],
    After = [{1, 700, 1000}, {2, 300, 1000}],
    Share = fun(Ms) ->
        dyno_agent_server_window:on_processor(Before, {After, Ms * 1_000_000}, 1_000_000_000)
    end,
    within(0.25, Share(240), 1.0e-9),
    %% Nobody else was there; and schedulers look for work on a processor, too.
    ?assertEqual(1.0, Share(1000)),
    ?assertEqual(1.0, Share(1900)).

%% Which is most of what it takes to read files of the system.
time_in_the_system_is_processor_time(_Config) ->
    dyno_tries:hold(3, fun reading/0).

reading() ->
    {BeforeMs, _} = erlang:statistics(runtime),
    Before = dyno_agent_os:processor_ns(),
    ok = read_until(Before + 500_000_000),
    {AfterMs, _} = erlang:statistics(runtime),
    Ns = dyno_agent_os:processor_ns() - Before,
    ct:log("~b ns, the runtime says ~b ms", [Ns, AfterMs - BeforeMs]),
    ?assert(Ns > 1_050_000 * (AfterMs - BeforeMs)).

read_until(EndNs) ->
    _ = [file:read_file("/proc/self/status", [raw]) || _ <- lists:seq(1, 100)],
    case dyno_agent_os:processor_ns() of
        Ns when Ns < EndNs -> read_until(EndNs);
        _ -> ok
    end.

%% One of two that works all of the time is a full node where the other one is not online.
schedulers_that_are_not_online(_Config) ->
    in_node(fun(Node) ->
        All = erpc:call(Node, erlang, system_flag, [schedulers_online, 1]),
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        {Agent, Servers} = attach(Node, [{module, known_server}]),
        _ = dyno_agent_servers:next(Servers),
        ok = gen_server:call(Pid, {busy, 500_000}),
        #{schedulers_busy := Busy} = dyno_agent_servers:next(Servers),
        ct:log("~b schedulers, busy ~p", [All, Busy]),
        ?assert(Busy > 0.7),
        _ = dyno_agent:detach(Agent)
    end).

known_times(_Config) ->
    dyno_tries:hold(3, fun known/0).

known() ->
    measuring([{module, known_server}], fun(Node, Servers) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        ok = hooked(Servers, Pid),
        [ok = gen_server:call(Pid, {busy, 5000}) || _ <- lists:seq(1, 20)],
        [ok = gen_server:call(Pid, {sleep, 50}) || _ <- lists:seq(1, 5)],
        ok = gen_server:call(Pid, continue),
        ok = gen_server:cast(Pid, {busy, 1000}),
        ok = gen_server:call(Pid, anything),
        #{servers := [Server]} = Window = dyno_agent_servers:next(Servers),
        ct:log("~tp", [Window]),
        #{callbacks := Callbacks, measured := hook, served := 28} = Server,
        #{count := 27} = callback(~"handle_call", Callbacks),
        #{count := 1, wall := #{sum := CastNs}} = callback(~"handle_cast", Callbacks),
        #{count := 1, wall := #{sum := ContinueNs}} = callback(~"handle_continue", Callbacks),
        #{tags := Tags} = Server,
        [#{count := 20, wall_ns := BusyNs}] =
            [Tag || #{tag := ~"busy", callback := ~"handle_call"} = Tag <- Tags],
        [#{count := 5, wall_ns := SleepNs}] = [Tag || #{tag := ~"sleep"} = Tag <- Tags],
        %% What the callbacks themselves have measured: the machine may be busy.
        Truth = maps:from_list(gen_server:call(Pid, truth)),
        ct:log("~tp", [Truth]),
        #{busy := TrueBusy, sleep := TrueSleep, cast := TrueCast, continue := TrueContinue} = Truth,
        ?assert(TrueBusy >= 99_000_000),
        within(TrueBusy, BusyNs, 0.05),
        within(TrueSleep, SleepNs, 0.05),
        within(TrueCast, CastNs, 0.05),
        within(TrueContinue, ContinueNs, 0.05),
        #{servers := [#{served := 1}]} = dyno_agent_servers:next(Servers),
        #{servers := [#{callbacks := [], served := 0}]} = dyno_agent_servers:next(Servers)
    end).

%% Within a microsecond of what the server measures itself.
short_callbacks(_Config) ->
    dyno_tries:hold(3, fun short/0).

short() ->
    measuring([{module, known_server}], fun(Node, Servers) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        ok = hooked(Servers, Pid),
        ok = erpc:call(Node, known_server, casts, [Pid, {busy, 1}, 20_000]),
        {TrueMedian, TrueNs} = gen_server:call(Pid, median),
        #{servers := [#{callbacks := Callbacks, queue_max := Longest}]} =
            dyno_agent_servers:next(Servers),
        #{count := Count, wall := #{sum := SumNs, min := Min, max := Max} = Wall} =
            callback(~"handle_cast", Callbacks),
        %% It was a flood: a call behind it that was not timed itself is taken for one of the casts.
        ?assert(Count >= 20_000 andalso Count =< 20_002),
        Median = dyno_histogram:quantile(Wall, 0.5),
        ct:log("true ~b, measured ~b; medians ~b, ~b; longest queue ~b", [
            TrueNs div 20_000, SumNs div 20_000, TrueMedian, Median, Longest
        ]),
        ?assert(Median - TrueMedian < 1000),
        ?assert(Median - TrueMedian > -100),
        ?assert(SumNs > 0.95 * TrueNs),
        ?assert(Min =< SumNs div Count andalso SumNs div Count =< Max)
    end).

beginnings_and_ends(_Config) ->
    measuring([{module, known_server}], fun(Node, Servers) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [{slow, 30}]),
        ok = seen_hooked(Servers, Pid),
        ok = gen_server:call(Pid, anything),
        ok = gen_server:call(Pid, stop),
        ok = until_ended(Servers, 1),
        #{servers := [#{state := ended, callbacks := Callbacks, reason := ~"normal"}]} =
            dyno_agent_servers:next(Servers),
        ct:log("~tp", [Callbacks]),
        #{count := 1, wall := #{sum := InitNs}} = callback(~"init", Callbacks),
        ?assert(InitNs >= 29_000_000 andalso InitNs < 29_000_000_000),
        #{count := 1, wall := #{sum := EndNs}} = callback(~"terminate", Callbacks),
        ?assert(EndNs >= 6_900_000 andalso EndNs < 6_900_000_000),
        #{count := 2, stops := 1, exceptions := 0} = callback(~"handle_call", Callbacks)
    end).

without_hooks(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        {Agent, Servers} = attach(Node, #{servers => [{module, known_server}], level => time}),
        ok = flagged(Servers, Pid),
        ?assertEqual([], hooks(Node, Pid)),
        _ = dyno_agent_servers:next(Servers),
        [ok = gen_server:call(Pid, {busy, 5000}) || _ <- lists:seq(1, 20)],
        [ok = gen_server:call(Pid, {sleep, 20}) || _ <- lists:seq(1, 5)],
        [ok = gen_server:cast(Pid, message) || _ <- lists:seq(1, 100)],
        Truth = maps:from_list(gen_server:call(Pid, truth)),
        #{level := time, rate := Rate, probe_ns := ProbeNs, servers := [Server]} =
            dyno_agent_servers:next(Servers),
        ct:log("~tp ~tp ~tp", [ProbeNs, Rate, Server]),
        #{measured := call_time, callbacks := Callbacks} = Server,
        %% How long its callbacks take by the clock is not known, and not 0.
        #{wall_ns := undefined, busy_ns := undefined} = Server,
        #{count := 26, wall := none, cpu_ns := CpuNs, words := Words} =
            callback(~"handle_call", Callbacks),
        #{count := 100} = callback(~"handle_cast", Callbacks),
        %% On the processor only: less than the wall clock says where the machine is busy.
        #{busy := BusyNs} = Truth,
        ?assert(CpuNs < 1.1 * BusyNs),
        ?assert(CpuNs > 0.3 * BusyNs),
        ?assert(Words > 0),
        #{call := RateCalls, cast := RateCasts} = Rate,
        %% Without dyno's own, of which one or two may be of the window before.
        ?assert(RateCalls >= 24, RateCalls),
        ?assert(RateCasts >= 98, RateCasts),
        ?assertExit(_, gen_server:call(Pid, crash)),
        ok = until_ended(Servers, 1),
        #{servers := [#{callbacks := Last}]} = dyno_agent_servers:next(Servers),
        #{count := 1, exceptions := 1} = callback(~"handle_call", Last),
        _ = dyno_agent:detach(Agent)
    end).

%% A thousand messages at once, five times, with pauses: 20 us each.
delay_of_bursts(_Config) ->
    dyno_tries:hold(3, fun bursts/0).

bursts() ->
    measuring([{module, known_server}], fun(Node, Servers) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        ok = hooked(Servers, Pid),
        [burst(Node, Pid) || _ <- lists:seq(1, 5)],
        Delays = gen_server:call(Pid, delays, infinity),
        #{servers := [#{delay := Histogram, delay_unknown := 0}]} =
            dyno_agent_servers:next(Servers),
        True = fun(Share) -> lists:nth(round(Share * 5000), Delays) end,
        Told = fun(Share) -> dyno_histogram:quantile(Histogram, Share) end,
        ct:log("~tp", [[{Of, True(Of), Told(Of)} || Of <- [0.5, 0.9, 0.99]]]),
        [within(True(Of), Told(Of), 0.2) || Of <- [0.5, 0.9, 0.99]]
    end).

%% As RabbitMQ's: what waits in the mailbox says nothing.
a_queue_of_its_own(_Config) ->
    measuring([{module, own_queue}], fun(Node, Servers) ->
        own_queue = dyno_peers:load(Node, """
        -module(own_queue).
        -behaviour(gen_server2).
        -export([init/1, handle_call/3, handle_cast/2]).
        init([]) -> {ok, []}.
        handle_call(_, _, State) -> {reply, ok, State}.
        handle_cast(_, State) -> {noreply, State}.

        """),
        {ok, Pid} = erpc:call(Node, gen_server, start, [own_queue, [], []]),
        ok = hooked(Servers, Pid),
        ok = gen_server:call(Pid, anything),
        #{servers := [#{served := Served} = Server]} = dyno_agent_servers:next(Servers),
        ?assert(Served >= 1),
        ?assertMatch(#{delay := none, delay_unknown := 0}, Server)
    end).

burst(Node, Pid) ->
    ok = erpc:call(Node, known_server, stamped, [Pid, 20, 1000]),
    timer:sleep(200).

%% The same round trips with a state of one and of 50,000 integers, hooked, in turns.
the_state_does_not_matter(_Config) ->
    measuring([{module, known_server}], fun(Node, Servers) ->
        {ok, Small} = erpc:call(Node, known_server, start, [[1]]),
        {ok, Large} = erpc:call(Node, known_server, start, [lists:seq(1, 50_000)]),
        ok = hooked(Servers, Small),
        ok = hooked(Servers, Large),
        Rounds = [
            {round_trips(Node, Small), round_trips(Node, Large)}
         || _ <- lists:seq(1, 20)
        ],
        {OfSmall, OfLarge} = lists:unzip(Rounds),
        ct:log("~p ~p", [lists:min(OfSmall), lists:min(OfLarge)]),
        #{servers := All} = dyno_agent_servers:next(Servers),
        [?assertEqual(40_000, Served) || #{served := Served} <- All],
        ?assert(lists:min(OfLarge) < 2 * lists:min(OfSmall))
    end).

round_trips(Node, Pid) ->
    erpc:call(Node, known_server, calls, [Pid, anything, 2000]).

states_of_a_state_machine(_Config) ->
    measuring([{behaviour, gen_statem}], fun(Node, Servers) ->
        known_machine = dyno_peers:load(Node, """
        -module(known_machine).
        -behaviour(gen_statem).
        -export([start/0, init/1, callback_mode/0, open/3, locked/3]).
        start() -> gen_statem:start(known_machine, [], []).
        callback_mode() -> [state_functions, state_enter].
        init([]) -> {ok, locked, none}.
        locked(enter, _, _) -> keep_state_and_data;
        locked({call, From}, {push, Ms}, Data) ->
            timer:sleep(10),
            {next_state, open, Data, [{reply, From, ok}, {state_timeout, Ms, lock}]};
        locked(cast, _, _) -> {keep_state_and_data, [postpone]}.
        open(enter, _, _) -> keep_state_and_data;
        open(cast, wait, _) ->
            timer:sleep(5),
            {keep_state_and_data, [{next_event, internal, more}]};
        open(internal, more, _) -> timer:sleep(15), keep_state_and_data;
        open({call, From}, crash, _) -> timer:sleep(12), error({crashed, From});
        open(state_timeout, lock, Data) -> {next_state, locked, Data}.

        """),
        {ok, Pid} = erpc:call(Node, known_machine, start, []),
        ok = hooked(Servers, Pid),
        %% Its time on the processor is known, and no event is counted twice.
        ok = dyno_leftovers:until(fun() ->
            ok = push(Pid),
            #{servers := [Server]} = dyno_agent_servers:next(Servers),
            #{callbacks := Both, cpu_ns := CpuNs} = Server,
            [] = [Event || #{name := ~"(event)"} = Event <- Both],
            is_integer(CpuNs)
        end),
        [push(Pid) || _ <- lists:seq(1, 3)],
        #{servers := [#{callbacks := Callbacks, behaviour := gen_statem} = Machine]} =
            dyno_agent_servers:next(Servers),
        ct:log("~tp", [Callbacks]),
        %% How long a postponed message waits on is not known.
        _ = [
            {_, _, undefined} = dyno_agent_server_parts:waited(0.99, Machine)
         || #{delay := #{count := _}} <- [Machine]
        ],
        #{count := 3, wall := #{min := Push}} = callback(~"locked/call", Callbacks),
        %% What was postponed came before that as well.
        #{count := 3} = callback(~"locked/cast (postponed)", Callbacks),
        #{count := 3, wall := #{min := Wait}} = callback(~"open/cast", Callbacks),
        #{count := 3, wall := #{min := More}} = callback(~"open/internal", Callbacks),
        #{count := 3} = callback(~"open/state_timeout", Callbacks),
        [
            ?assert(Ns >= 990_000 * Ms, {Ms, Ns})
         || {Ms, Ns} <- [{10, Push}, {5, Wait}, {15, More}]
        ],
        ok = gen_statem:call(Pid, {push, 60_000}),
        ?assertExit(_, gen_statem:call(Pid, crash)),
        ok = until_ended(Servers, 1),
        #{servers := [#{callbacks := Last, state := crashed}]} = dyno_agent_servers:next(Servers),
        #{count := 1, exceptions := 1, wall := #{min := Crash}} = callback(~"open/call", Last),
        ?assert(Crash >= 11_700_000)
    end).

push(Pid) ->
    ok = gen_statem:cast(Pid, wait),
    ok = gen_statem:call(Pid, {push, 20}),
    dyno_leftovers:until(fun() ->
        {State, _} = sys:get_state(Pid),
        State =:= locked
    end).

handlers_of_an_event_manager(_) ->
    Config = #{servers => [{registered, known_manager}], level => time},
    measuring(Config, fun(Node, Servers) ->
        Load = fun(Name) ->
            dyno_peers:load(Node, "-module(" ++ Name ++ ").\n" ++ """
            -behaviour(gen_event).
            -export([init/1, handle_event/2, handle_call/2]).
            init(Count) -> {ok, Count}.
            handle_event(_, Count) -> {ok, lists:sum(lists:seq(1, Count)), Count} , {ok, Count}.
            handle_call(_, Count) -> {ok, Count, Count}.

            """)
        end,
        _ = [Load(Name) || Name <- ["known_handler", "other_handler"]],
        {ok, Pid} = erpc:call(Node, gen_event, start, [{local, known_manager}]),
        ok = gen_event:add_handler(Pid, known_handler, 20_000),
        ok = gen_event:add_handler(Pid, other_handler, 10),
        Counted = fun(Name) ->
            dyno_leftovers:until(fun() ->
                ok = gen_event:sync_notify(Pid, event),
                #{servers := All} = dyno_agent_servers:read(Servers),
                lists:member(Name, [Of || #{callbacks := Cs} <- All, #{name := Of} <- Cs])
            end)
        end,
        ok = Counted(~"known_handler: handle_event"),
        ok = Counted(~"other_handler: handle_event"),
        _ = dyno_agent_servers:next(Servers),
        [ok = gen_event:sync_notify(Pid, event) || _ <- lists:seq(1, 50)],
        #{servers := [Server]} = dyno_agent_servers:next(Servers),
        ct:log("~tp", [Server]),
        #{measured := call_time, behaviour := gen_event, callbacks := Callbacks} = Server,
        #{count := 50, cpu_ns := Much} = callback(~"known_handler: handle_event", Callbacks),
        #{count := 50, cpu_ns := Little} = callback(~"other_handler: handle_event", Callbacks),
        ?assert(Much > 5 * Little),
        %% New code is measured, too.
        known_handler = Load("known_handler"),
        _ = dyno_agent_servers:next(Servers),
        ok = Counted(~"known_handler: handle_event")
    end).

children_of_a_supervisor(_Config) ->
    measuring([{registered, known_sup}, {supervisor, known_sup}], fun(Node, Servers) ->
        known_sup = dyno_peers:load(Node, """
        -module(known_sup).
        -behaviour(supervisor).
        -export([start/0, init/1, child/1]).
        start() ->
            {ok, Pid} = supervisor:start_link({local, known_sup}, known_sup, []),
            unlink(Pid),
            {ok, Pid}.
        init([]) ->
            {ok, {#{strategy => simple_one_for_one}, [
                #{id => child, start => {known_sup, child, []}, restart => temporary}
            ]}}.
        child(Ms) -> gen_server:start_link(known_server, {slow, Ms}, []).

        """),
        {ok, Pid} = erpc:call(Node, known_sup, start, []),
        ok = hooked(Servers, Pid),
        Children = [supervisor:start_child(Pid, [25]) || _ <- lists:seq(1, 4)],
        [{ok, First} | _] = Children,
        ok = seen_hooked(Servers, First),
        #{servers := All} = dyno_agent_servers:next(Servers),
        ct:log("~tp", [All]),
        ?assertEqual(5, length(All)),
        #{behaviour := supervisor, module := known_sup, callbacks := Callbacks} = server(Pid, All),
        #{count := 4, wall := #{min := Start}} = callback(~"start child", Callbacks),
        #{count := 4, wall := #{min := Call}} = callback(~"handle_call", Callbacks),
        ?assert(Start >= 24_000_000),
        %% Both within the width of a bucket.
        ?assert(Call >= 0.96 * Start),
        #{supervisor := ~"known_sup"} = server(First, All)
    end).

stages(_Config) ->
    measuring([{behaviour, gen_stage}], fun(Node, Servers) ->
        'Elixir.GenStage' = dyno_peers:load(Node, ?GEN_STAGE),
        {ok, Producer} = erpc:call(Node, 'Elixir.GenStage', start, [producer, none]),
        {ok, Consumer} = erpc:call(Node, 'Elixir.GenStage', start, [consumer, Producer]),
        ok = hooked(Servers, Producer),
        ok = hooked(Servers, Consumer),
        [asks(Consumer, Producer) || _ <- lists:seq(1, 5)],
        #{servers := All} = dyno_agent_servers:next(Servers),
        ct:log("~tp", [All]),
        #{stage := Produced, module := 'Elixir.My.producer', callbacks := ProducerCalls} =
            server(Producer, All),
        #{stage := Consumed, module := 'Elixir.My.consumer', callbacks := ConsumerCalls} =
            server(Consumer, All),
        #{
            kind := producer,
            demand_received := 5000,
            events_out := 4500,
            events_in := 0,
            outstanding := 500,
            buffered := 7,
            subscriptions := []
        } = Produced,
        #{
            kind := consumer,
            demand_asked := 5000,
            events_in := 4500,
            events_out := 0,
            demand_received := 0,
            batches := Batches,
            demand_to_event := ToEvent,
            subscriptions := [#{from := Producer, to := Consumer, events := 4500}]
        } = Consumed,
        within(900, dyno_histogram:mean(Batches), 0.02),
        #{min := Answer} = ToEvent,
        ?assert(Answer >= 9_900_000),
        #{count := 5, wall := #{min := Demand}} = callback(~"handle_demand", ProducerCalls),
        ?assert(Demand >= 9_900_000),
        #{count := 5, wall := #{min := Events}} = callback(~"handle_events", ConsumerCalls),
        %% To gen_server these are infos; none counts twice.
        ?assertEqual([], [N || #{name := ~"handle_info" = N} <- ProducerCalls ++ ConsumerCalls]),
        ?assert(Events >= 1_980_000),
        %% Demand that was not answered before is answered now.
        Producer ! {'$gen_producer', {Consumer, make_ref()}, {ask, 200}},
        ok = gen_server:call(Producer, wait),
        ok = gen_server:call(Consumer, wait),
        #{servers := Later} = dyno_agent_servers:next(Servers),
        #{stage := #{outstanding := 600}} = server(Producer, Later)
    end).

%% It keeps events until there is demand: its callback runs in the message that comes last.
a_stage_in_the_middle(_Config) ->
    measuring([{behaviour, gen_stage}], fun(Node, Servers) ->
        'Elixir.GenStage' = dyno_peers:load(Node, ?GEN_STAGE),
        {ok, Middle} = erpc:call(Node, 'Elixir.GenStage', start, [producer_consumer, none]),
        ok = hooked(Servers, Middle),
        Ask = {'$gen_producer', {self(), make_ref()}, {ask, 1}},
        Events = {'$gen_consumer', {self(), make_ref()}, [event]},
        Send = fun(Messages) ->
            lists:foreach(fun(Message) -> Middle ! Message end, Messages),
            ok = gen_server:call(Middle, wait)
        end,
        %% What it keeps is known from here on.
        ok = Send([Events, Ask]),
        _ = dyno_agent_servers:next(Servers),
        ok = Send([Events, Events, Ask, Ask, Ask, Events]),
        #{servers := [#{callbacks := Callbacks, stage := Stage}]} =
            dyno_agent_servers:next(Servers),
        ct:log("~tp", [Callbacks]),
        #{events_in := 3, demand_received := 3, kind := producer_consumer} = Stage,
        #{count := 3, wall := #{min := Run}} = callback(~"handle_events", Callbacks),
        ?assert(Run >= 1_980_000),
        #{count := 3} = callback(~"(no callback)", Callbacks),
        ?assertEqual([], [C || #{name := ~"handle_demand"} = C <- Callbacks])
    end).

%% Of one of the two, nobody is told but its own callback.
a_stage_throws_events_away(_Config) ->
    measuring([{behaviour, gen_stage}], fun(Node, Servers) ->
        'Elixir.GenStage' = dyno_peers:load(Node, ?GEN_STAGE),
        'Elixir.My.consumer' = dyno_peers:load(Node, """
        -module('Elixir.My.consumer').
        -export([format_discarded/2]).
        format_discarded(Count, _) when is_integer(Count) -> false.

        """),
        {ok, Logs} = erpc:call(Node, 'Elixir.GenStage', start, [producer, none]),
        {ok, Quiet} = erpc:call(Node, 'Elixir.GenStage', start, [consumer, Logs]),
        ok = hooked(Servers, Logs),
        ok = hooked(Servers, Quiet),
        ok = asks(Quiet, Logs),
        Discarded = fun() ->
            #{servers := [_, _] = All} = dyno_agent_servers:next(Servers),
            [
                Count
             || Pid <- [Logs, Quiet], #{stage := #{discarded := Count}} <- [server(Pid, All)]
            ]
        end,
        Discard = fun(Counts) ->
            [ok = gen_server:cast(Logs, {discards, Count}) || Count <- Counts],
            [ok = gen_server:cast(Quiet, {discards, Count + 1}) || Count <- Counts],
            ok = gen_server:call(Logs, wait),
            ok = gen_server:call(Quiet, wait)
        end,
        %% Both modules are known from the next second on.
        ok = dyno_leftovers:until(fun() ->
            ok = Discard([1]),
            [_, Known] = Discarded(),
            is_integer(Known) andalso Known > 0
        end),
        ok = dyno_leftovers:until(fun() -> Discarded() =:= [0, 0] end),
        ok = Discard([3, 4, 5]),
        Sums = fun Sum([Logged, Unlogged]) ->
            case Discarded() of
                [0, 0] -> [Logged, Unlogged];
                [A, B] -> Sum([Logged + A, Unlogged + B])
            end
        end,
        ?assertEqual([12, 15], Sums(Discarded()))
    end).

%% Only a stage itself knows its module, and tells it with its first callback.
stages_of_a_module(_Config) ->
    measuring([{module, 'Elixir.My.consumer'}], fun(Node, Servers) ->
        'Elixir.GenStage' = dyno_peers:load(Node, ?GEN_STAGE),
        'Elixir.My.consumer' = dyno_peers:load(Node, """
        -module('Elixir.My.consumer').
        -export([handle_events/3]).
        handle_events(_, _, _) -> ok.

        """),
        {ok, Producer} = erpc:call(Node, 'Elixir.GenStage', start, [producer, none]),
        {ok, Consumer} = erpc:call(Node, 'Elixir.GenStage', start, [consumer, Producer]),
        %% Both are measured from their first message on, and neither is told of before.
        ok = dyno_leftovers:until(fun() ->
            [] = pids(Servers),
            [] =/= hooks(Node, Producer) andalso [] =/= hooks(Node, Consumer)
        end),
        ok = asks(Consumer, Producer),
        #{servers := [#{pid := Consumer, module := 'Elixir.My.consumer', callbacks := Calls}]} =
            dyno_agent_servers:next(Servers),
        #{count := 1} = callback(~"handle_events", Calls),
        ok = dyno_leftovers:until(fun() -> hooks(Node, Producer) =:= [] end)
    end).

asks(Consumer, Producer) ->
    ok = gen_server:call(Consumer, asks),
    ok = gen_server:call(Producer, wait),
    ok = gen_server:call(Consumer, wait).

choosing(_Config) ->
    in_node(fun(Node) ->
        {ok, Plain} = erpc:call(Node, known_server, start, [[]]),
        {ok, Named} = erpc:call(
            Node, gen_server, start, [{local, known_name}, known_server, [], []]
        ),
        {Agent, Servers} = attach(Node, [{pid, Plain}]),
        ?assertEqual([Plain], pids(Servers)),
        #{servers := [#{name := ~"known_server", kind := module, application := undefined}]} =
            dyno_agent_servers:read(Servers),
        ok = dyno_agent_servers:change(Servers, add, [{registered, known_name}]),
        ?assertEqual(lists:sort([Plain, Named]), pids(Servers)),
        ok = hooked(Servers, Plain),
        ok = dyno_agent_servers:change(Servers, remove, [{pid, Plain}]),
        ?assertEqual([Named], pids(Servers)),
        ok = dyno_leftovers:until(fun() -> hooks(Node, Plain) =:= [] end),
        ok = dyno_leftovers:until(fun() ->
            [] =:= erpc:call(Node, trace, session_info, [Plain])
        end),
        ok = dyno_agent_servers:change(Servers, remove, [{registered, known_name}]),
        ?assertEqual([], pids(Servers)),
        %% Nothing of OTP's base nor of dyno.
        ok = dyno_agent_servers:change(Servers, add, [all]),
        ?assertEqual(lists:sort([Plain, Named]), pids(Servers)),
        ok = dyno_agent_servers:change(Servers, remove, [all]),
        ok = dyno_agent_servers:change(Servers, add, [{application, kernel}]),
        #{servers := Kernel} = dyno_agent_servers:read(Servers),
        ?assert(length(Kernel) > 10),
        ?assert(lists:member(~"kernel_sup", [Name || #{name := Name} <- Kernel])),
        %% A new one with a label; one that enters the loop by itself.
        ok = dyno_agent_servers:change(Servers, remove, [{application, kernel}]),
        ok = dyno_agent_servers:change(Servers, add, [{label, {worker, 7}}]),
        Labelled = erpc:call(Node, proc_lib, spawn, [known_server, enter, [{worker, 7}]]),
        ok = dyno_leftovers:until(fun() -> pids(Servers) =:= [Labelled] end),
        #{servers := [#{name := ~"{worker,7}", kind := label, behaviour := gen_server}]} =
            dyno_agent_servers:read(Servers),
        _ = dyno_agent:detach(Agent),
        %% The most.
        {Second, Few} = attach(Node, #{servers => [all], most => 1}),
        #{servers := [#{pid := First}], unselected := 2} = dyno_agent_servers:read(Few),
        %% One that has ended makes room at once, and is in the window besides.
        exit(First, kill),
        ok = dyno_leftovers:until(fun() ->
            #{servers := Both, unselected := Over} = dyno_agent_servers:read(Few),
            1 =:= length([Pid || #{pid := Pid, state := crashed} <- Both, Pid =:= First]) andalso
                1 =:= length([Pid || #{pid := Pid, state := alive} <- Both]) andalso Over =:= 1
        end),
        _ = dyno_agent:detach(Second)
    end).

pids(Servers) ->
    #{servers := All} = dyno_agent_servers:read(Servers),
    lists:sort([Pid || #{pid := Pid, state := alive} <- All]).

the_busiest(_Config) ->
    in_node(fun(Node) ->
        Pids = [
            begin
                {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
                Pid
            end
         || _ <- lists:seq(1, 10)
        ],
        {Agent, Servers} = attach(Node, [{busiest, 1}]),
        lists:foreach(
            fun(Busy) ->
                ok = dyno_leftovers:until(fun() ->
                    [gen_server:call(Busy, anything) || _ <- lists:seq(1, 2000)],
                    #{servers := All} = dyno_agent_servers:next(Servers),
                    lists:member(Busy, [Pid || #{pid := Pid} <- All]) andalso length(All) =< 2
                end)
            end,
            [hd(Pids), lists:last(Pids)]
        ),
        _ = dyno_agent:detach(Agent)
    end).

single_calls(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        {Agent, Servers} = attach(Node, #{
            servers => [{module, known_server}],
            level => each,
            sink => self(),
            each => #{count => 5, per_second => 3, seconds => 60}
        }),
        ok = hooked(Servers, Pid),
        [ok = gen_server:call(Pid, {sleep, 2}) || _ <- lists:seq(1, 50)],
        [ok = gen_server:cast(Pid, {large, lists:seq(1, 100_000)}) || _ <- lists:seq(1, 50)],
        Told = [
            receive
                {dyno_servers, each, One} -> One
            end
         || _ <- [1, 2, 3]
        ],
        ct:log("~tp", [Told]),
        [
            #{
                pid := Pid,
                callback := ~"handle_call",
                tag := ~"sleep",
                wall_ns := Ns,
                message := Message
            }
            | _
        ] = Told,
        ?assert(Ns >= 1_980_000),
        ?assertMatch({_, _}, binary:match(Message, ~"{sleep,2}")),
        %% Not more than five in all, however long.
        ok = later(Pid),
        ok = later(Pid),
        [ok = gen_server:cast(Pid, {small, N}) || N <- lists:seq(1, 30), ok =:= timer:sleep(100)],
        {messages, More} = process_info(self(), messages),
        ?assertEqual([], [One || {dyno_servers, each, One} <- More]),
        _ = dyno_agent:detach(Agent)
    end).

later(Pid) ->
    ok = gen_server:cast(Pid, {large, lists:seq(1, 100_000)}),
    receive
        {dyno_servers, each, #{message := Message}} -> ?assert(byte_size(Message) < 1000)
    after 100 -> later(Pid)
    end.

a_busy_server_is_hooked_later(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        ok = gen_server:cast(Pid, hold),
        {Agent, Servers} = attach(Node, [{module, known_server}]),
        ok = dyno_leftovers:until(fun() ->
            #{servers := [#{measured := By, why := Why}]} =
                dyno_agent_servers:read(Servers),
            {By, Why} =:= {call_time, ~"it has not answered sys for two seconds"}
        end),
        %% It was never idle since it was asked, and the request is not in its queue.
        #{servers := [#{busy_ns := BusyNs, busy_of_ns := BusyOfNs, queue_now := Queue}]} =
            dyno_agent_servers:read(Servers),
        ?assertEqual({BusyOfNs, 0}, {BusyNs, Queue}),
        ?assert(BusyNs > 0),
        Pid ! go,
        ok = hooked(Servers, Pid),
        ok = gen_server:call(Pid, {sleep, 10}),
        #{servers := [#{callbacks := Callbacks}]} = dyno_agent_servers:next(Servers),
        #{count := 1, wall := #{}} = callback(~"handle_call", Callbacks),
        _ = dyno_agent:detach(Agent)
    end).

%% One is suspended between two callbacks, one has not yet begun its first, one takes its time.
who_does_not_answer_may_be_idle(_Config) ->
    in_node(fun(Node) ->
        Start = fun() -> element(2, erpc:call(Node, known_server, start, [[]])) end,
        [Suspended, Busy] = [Start(), Start()],
        _ = erpc:call(Node, known_server, suspends, [Suspended]),
        _ = erpc:call(Node, known_server, hangs, []),
        _ = [gen_server:cast(Pid, hold) || Pid <- [Busy | lists:duplicate(200, Suspended)]],
        {Agent, Servers} = attach(Node, [{module, known_server}]),
        ok = dyno_leftovers:until(fun() ->
            #{servers := All} = dyno_agent_servers:read(Servers),
            length([x || #{why := ~"it has not answered sys for two seconds"} <- All]) =:= 3
        end),
        #{servers := All} = dyno_agent_servers:read(Servers),
        ?assertEqual([Busy], [Pid || #{pid := Pid, busy_ns := Ns} <- All, is_integer(Ns)]),
        %% Dyno's own monitor is no caller.
        Modules = [dyno_agent_suspect, dyno_agent_census, dyno_agent_name],
        _ = [dyno_peers:send(Node, Module) || Module <- Modules],
        ?assertMatch(
            [{Suspended, #{monitored_by := 0, queue := Queue}}] when Queue > 200,
            erpc:call(Node, dyno_agent_suspect, details, [[Suspended]])
        ),
        _ = dyno_agent:detach(Agent)
    end).

kinds_of_messages_are_bounded(_Config) ->
    measuring([{module, known_server}], fun(Node, Servers) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        ok = hooked(Servers, Pid),
        Kinds = [list_to_atom("kind" ++ integer_to_list(N)) || N <- lists:seq(1, 50)],
        _ = [gen_server:call(Pid, Kind) || Kind <- Kinds],
        #{servers := [#{tags := Tags, served := 50, callbacks := Callbacks}]} =
            dyno_agent_servers:next(Servers),
        #{count := 50} = callback(~"handle_call", Callbacks),
        ?assertEqual(21, length(Tags)),
        [#{count := 30}] = [Tag || #{tag := ~"(other)"} = Tag <- Tags]
    end).

what_costs_too_much_is_left(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        {Agent, Servers} = attach(Node, #{servers => [{module, known_server}], share => 1.0e-9}),
        ok = hooked(Servers, Pid),
        Levels = levels(Node, Pid, Servers, []),
        ct:log("~tp", [Levels]),
        ?assertMatch(
            [{distribution, none}, {time, _}, {rate, <<"measuring took ", _/binary>>}], Levels
        ),
        ?assertEqual([], hooks(Node, Pid)),
        #{servers := [#{measured := none}]} = dyno_agent_servers:next(Servers),
        _ = dyno_agent:detach(Agent)
    end).

levels(Node, Pid, Servers, Seen) ->
    _ = erpc:call(Node, known_server, calls, [Pid, anything, 1000]),
    #{level := Level, stepped_down := Why} = dyno_agent_servers:next(Servers),
    Levels = lists:keystore(Level, 1, Seen, {Level, Why}),
    case Level of
        rate -> Levels;
        _ -> levels(Node, Pid, Servers, Levels)
    end.

nothing_is_left(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        Before = dyno_leftovers:snapshot(Node),
        {Agent, Servers} = attach(Node, [{module, known_server}]),
        ok = hooked(Servers, Pid),
        ?assertMatch([_], hooks(Node, Pid)),
        _ = dyno_agent:detach(Agent),
        ?assertEqual([], hooks(Node, Pid)),
        dyno_leftovers:check(Node, Before)
    end).

%% It never answers while it is measured; then it finds the hook of a module that has gone.
nothing_is_left_in_a_busy_server(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, known_server, start, [[]]),
        Before = dyno_leftovers:snapshot(Node),
        ok = gen_server:cast(Pid, hold),
        {Agent, Servers} = attach(Node, [{module, known_server}]),
        #{servers := [#{measured := call_time, callbacks := []}]} =
            dyno_agent_servers:next(Servers),
        _ = dyno_agent:detach(Agent),
        dyno_leftovers:check(Node, Before),
        Pid ! go,
        ok = gen_server:call(Pid, anything, infinity),
        ?assertEqual([], hooks(Node, Pid)),
        ?assert(erpc:call(Node, erlang, is_process_alive, [Pid])),
        dyno_leftovers:check(Node, Before)
    end).

%% Nobody sends a message to the servers that the hooks are in.
nothing_is_left_of_a_killed_guard(_Config) ->
    in_node(fun(Node) ->
        Pids = [Pid || _ <- lists:seq(1, 20), {ok, Pid} <- [start_in(Node)]],
        Before = dyno_leftovers:snapshot(Node),
        lists:foreach(
            fun(Killed) ->
                {Agent, Servers} = attach(Node, [{module, known_server}]),
                lists:foreach(fun(Pid) -> ok = hooked(Servers, Pid) end, Pids),
                true = exit(Killed(Agent, Servers), kill),
                lists:foreach(
                    fun(Pid) ->
                        ok = dyno_leftovers:until(fun() -> hooks(Node, Pid) =:= [] end)
                    end,
                    Pids
                ),
                _ = dyno_agent:detach(Agent),
                dyno_leftovers:check(Node, Before)
            end,
            [fun(Agent, _) -> dyno_agent:guard(Agent) end, fun(_, Servers) -> Servers end]
        )
    end).

start_in(Node) -> erpc:call(Node, known_server, start, [[]]).

%% The nodes

in_node(Do) ->
    {_, Node} = Started = dyno_peers:start(),
    try
        known_server = dyno_peers:load(Node, ?SERVER),
        Do(Node)
    after
        dyno_peers:stop(Started)
    end.

measuring(Selectors, Do) ->
    in_node(fun(Node) ->
        {Agent, Servers} = attach(Node, Selectors),
        Do(Node, Servers),
        _ = dyno_agent:detach(Agent)
    end).

attach(Node, Selectors) when is_list(Selectors) ->
    attach(Node, #{servers => Selectors});
attach(Node, Config) ->
    {ok, Agent} = dyno_agent:attach(Node, #{custom => [dyno_agent_servers]}),
    {ok, Servers} = dyno_agent:start(Agent, dyno_agent_servers, Config),
    {Agent, Servers}.

%% Has the process measured from now on.
hooked(Servers, Pid) ->
    dyno_leftovers:until(fun() ->
        #{servers := All} = dyno_agent_servers:next(Servers),
        [hook] =:= [By || #{pid := P, measured := By} <- All, P =:= Pid]
    end).

%% The same, without a new window.
seen_hooked(Servers, Pid) ->
    dyno_leftovers:until(fun() ->
        #{servers := All} = dyno_agent_servers:read(Servers),
        [hook] =:= [By || #{pid := P, measured := By} <- All, P =:= Pid]
    end).

%% Its time on the processor is measured from now on.
flagged(Servers, Pid) ->
    dyno_leftovers:until(fun() ->
        _ = gen_server:call(Pid, anything),
        #{servers := All} = dyno_agent_servers:next(Servers),
        [] =/= [Ns || #{pid := P, cpu_ns := Ns} <- All, P =:= Pid, is_integer(Ns)]
    end).

until_ended(Servers, Count) ->
    dyno_leftovers:until(fun() ->
        #{servers := All} = dyno_agent_servers:read(Servers),
        Count =:= length([Pid || #{pid := Pid, state := State} <- All, State =/= alive])
    end).

server(Pid, Servers) ->
    [Server] = [S || #{pid := P} = S <- Servers, P =:= Pid],
    Server.

%% What sys has installed in a process.
callback(Name, Callbacks) ->
    [Callback] = [C || #{name := N} = C <- Callbacks, N =:= Name],
    Callback.

within(Expected, Value, Share) ->
    ?assert(abs(Value - Expected) =< Share * Expected, {Expected, Value}).
