%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_lives_SUITE).
-moduledoc """
Servers that begin and end, on nodes that are saturated or not: what dyno servers says of them,
against what they did.
""".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-import(dyno_truth, [rows/2, row/3, next/1]).

%% Counts in atomics what it really does: calls, nanoseconds in callbacks, crashes, processes.
-define(SERVER, """
-module(lives).
-behaviour(gen_server).
-export([start/2, start_link/2, start_bad/2, boss/1, boss/2, init/1, handle_call/3, handle_cast/2]).
-export([callback_mode/0, handle_event/4]).
-export([calls/3, loop/3, kids/2, soon_gone/3, compute/0, sees/0, traced/0, truth/1]).
truth(Name) -> [atomics:get(persistent_term:get(Name), N) || N <- [1, 2, 3, 4]].
add(Name, N, What) -> atomics:add(persistent_term:get(Name), N, What).
start(Name, Us) ->
    ok = persistent_term:put(Name, atomics:new(4, [])),
    gen_server:start({local, Name}, lives, {Name, Us}, []).
start_link(Name, Us) -> gen_server:start_link({local, Name}, lives, {Name, Us}, []).
boss(Name) ->
    ok = persistent_term:put(Name, atomics:new(4, [])),
    {ok, Boss} = supervisor:start_link(lives, {boss, Name}),
    unlink(Boss).
%% The first begins; the next ones fail in init.
boss(Name, Behaviour) ->
    ok = persistent_term:put(Name, atomics:new(4, [])),
    BossName = list_to_atom(atom_to_list(Name) ++ "_boss"),
    {ok, Boss} = supervisor:start_link({local, BossName}, lives, {boss, Name, Behaviour}),
    unlink(Boss),
    exit(whereis(Name), kill).
start_bad(Name, Behaviour) ->
    Behaviour:start_link({local, Name}, lives, {bad, Name, Behaviour}, []).
callback_mode() -> handle_event_function.
handle_event(_, _, _, _) -> keep_state_and_data.
init({boss, Name, Behaviour}) ->
    Child = #{id => only, start => {lives, start_bad, [Name, Behaviour]}},
    {ok, {#{intensity => 100000, period => 1}, [Child]}};
init({bad, Name, Behaviour}) ->
    case {atomics:add_get(persistent_term:get(Name), 1, 1), Behaviour} of
        {1, gen_server} -> {ok, state};
        {1, gen_statem} -> {ok, state, data};
        _ -> timer:sleep(5), add(Name, 3, 1), error(boom)
    end;
init({boss, Name}) ->
    Child = #{id => only, start => {lives, start_link, [Name, 1000]}},
    {ok, {#{intensity => 100000, period => 1}, [Child]}};
init({Name, Us}) -> {ok, {Name, Us}}.
handle_call(What, _From, {Name, Us} = State) ->
    Begun = erlang:monotonic_time(nanosecond),
    busy(Begun + 1000 * Us),
    ok = add(Name, 1, 1),
    ok = add(Name, 2, erlang:monotonic_time(nanosecond) - Begun),
    case What of
        crash -> ok = add(Name, 3, 1), error(boom);
        stop -> {stop, normal, ok, State};
        _ -> {reply, ok, State}
    end.
handle_cast({stop, Reason}, _State) -> {stop, Reason, normal};
handle_cast({sleep, Ms}, State) -> timer:sleep(Ms), {noreply, State}.
busy(End) -> erlang:monotonic_time(nanosecond) < End andalso busy(End).
calls(Name, EveryMs, Whats) -> spawn(fun() -> loop(Name, EveryMs, Whats) end).
loop(Name, EveryMs, [What | Whats]) ->
    try gen_server:call(Name, What, infinity) catch exit:_ -> ok end,
    timer:sleep(EveryMs),
    loop(Name, EveryMs, Whats ++ [What]).
kids(Name, N) -> spawn(fun() -> kids(Name, N, 0) end).
kids(Name, N, N) -> add(Name, 4, N);
kids(Name, N, M) ->
    spawn(fun() ->
        {ok, Kid} = gen_server:start(lives, {Name, 100}, []),
        [gen_server:call(Kid, What, infinity) || What <- [go, go, go, stop]]
    end),
    M rem 5 =:= 0 andalso timer:sleep(10),
    kids(Name, N, M + 1).
%% Each is killed in its first callback, or stops, well or not; the reason is its state.
soon_gone(Name, How, N) ->
    spawn(fun() -> [{soon_gone(Name, How), timer:sleep(5)} || _ <- lists:seq(1, N)] end).
soon_gone(Name, How) ->
    {ok, Pid} = gen_server:start(lives, {Name, 500}, []),
    ok = add(Name, 4, 1),
    gen_server:cast(Pid, {sleep, 1}),
    case How of
        kill -> exit(Pid, kill);
        Reason -> gen_server:cast(Pid, {stop, Reason})
    end.
%% For how many milliseconds callers were traced.
sees() ->
    ok = persistent_term:put(traced, atomics:new(1, [])),
    spawn_opt(fun() -> sees(erlang:monotonic_time(millisecond)) end, [{priority, max}]).
sees(Before) ->
    timer:sleep(5),
    Now = erlang:monotonic_time(millisecond),
    Names = io_lib:format("~p", [trace:session_info(all)]),
    string:find(Names, "dyno_server_wakes") =:= nomatch orelse add(traced, 1, Now - Before),
    sees(Now).
traced() -> atomics:get(persistent_term:get(traced), 1).
compute() -> lists:sum(lists:seq(1, 1000)), compute().

""").

suite() ->
    [{timetrap, {minutes, 2}}].

%% In a run of all tests the processors are taken anyway, and these take them from all others.
slow() -> [{group, beside_others}].

all() ->
    [{group, pure}, {group, in_nodes}, {group, alone}, {group, beside_others}].

groups() ->
    [
        {pure, [parallel], [
            hooks_leave_no_callback_behind,
            named_after_it_was_met,
            nothing_keeps_its_flags,
            names_that_have_no_sibling_keep_their_digits,
            a_series_keeps_its_name,
            alarms_are_thresholds,
            an_alarm_stays_while_nothing_is_known,
            nobody_waits_for_one_that_does_not_answer
        ]},
        {in_nodes, [parallel], [
            a_saturated_node,
            a_lost_hook_is_put_back,
            a_crash_loop,
            a_crash_loop_in_init,
            many_that_end_soon,
            some_that_are_killed_soon,
            alarms
        ]},
        {alone, [], [callers_are_not_traced_on_a_full_node]},
        {beside_others, [parallel], [
            a_crash_loop, a_crash_loop_in_init, many_that_end_soon, some_that_are_killed_soon
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

init_per_group(Group, Config) -> dyno_truth:beside(Group, Config).

end_per_group(_Group, Config) -> dyno_truth:alone(Config).

%% Pure

%% One that ends by its deadline is not in a callback for the rest of the time; the next one goes on
%% where it counted.
hooks_leave_no_callback_behind(_Config) ->
    Now = erlang:monotonic_time(nanosecond),
    Control = atomics:new(2, [{signed, true}]),
    Shared = #{
        clock => Now - 1,
        control => Control,
        names => ets:new(names, [ordered_set]),
        asked => atomics:new(1024, [{signed, true}]),
        each => none
    },
    Counters = dyno_agent_server_counters:new(),
    Called = fun(Hook) ->
        dyno_agent_server_hook:event(Hook, {in, {'$gen_call', {self(), tag}, get}}, name)
    end,
    Replied = fun(Hook) -> dyno_agent_server_hook:event(Hook, {noreply, state}, name) end,
    New = fun() ->
        ok = dyno_agent_server_counters:hook_begins(Counters),
        ok = atomics:put(Control, 1, 1 bsl 58),
        {_, _, Hook} = dyno_agent_server_hook:debug(self(), Counters, Shared),
        Hook
    end,
    First = Replied(Called(New())),
    ok = atomics:put(Control, 1, 0),
    %% Which messages look at the deadline is random.
    UntilDone = fun Until(Hook, N) when N > 0 ->
        case Called(Hook) of
            done -> N;
            Begun -> Until(Replied(Begun), N - 1)
        end
    end,
    Ran = 100 - UntilDone(First, 100),
    ?assertEqual(none, dyno_agent_server_counters:under_way(Counters)),
    ?assert(is_integer(dyno_agent_server_counters:time(Counters, gone))),
    _ = Replied(Called(New())),
    ?assertEqual(none, dyno_agent_server_counters:time(Counters, gone)),
    #{series := #{1 := Buckets}} = dyno_agent_server_counters:read(restart, Counters),
    ?assertEqual(2 + Ran, lists:sum([Count || {_, Count} <- Buckets])),
    ?assertEqual(#{1 => {handle_call, get}}, dyno_agent_server_names:names(self(), Shared)).

%% One that began while breakpoints were set kept them: "crashed 13 times" of none that crashed.
nothing_keeps_its_flags(_Config) ->
    Functions = [{F, A} || {{_, F, A}, _, _} <- dyno_agent_server_life:breakpoints()],
    {Before, Begins} = lists:splitwith(
        fun({F, A}) -> {F, A} =/= {init_it, 6} end, Functions
    ),
    Off = [{init_ack, 2}, {try_terminate, 3}, {name, 1}, {exit_p, 3}],
    ?assertEqual([], Off -- Before, Begins).

%% A scan meets a server that has begun and has no name yet: the news of its beginning tells it.
named_after_it_was_met(_Config) ->
    Shared = #{
        clock => erlang:monotonic_time(nanosecond) - 1,
        control => atomics:new(5, [{signed, true}]),
        names => dyno_agent_server_names:new(),
        asked => atomics:new(1024, [{signed, true}]),
        each => none
    },
    {ok, Pid} = gen_event:start(),
    Met = dyno_agent_server_set:scan(
        dyno_agent_server_set:new([{pid, Pid}], 10, Shared, fun(_, _) -> ok end)
    ),
    Name = fun(Set) ->
        [#{name := Is, kind := Kind}] = [
            Server
         || {_, #{server := Server}} <- dyno_agent_server_set:to_list(Set)
        ],
        {Kind, Is}
    end,
    ?assertEqual({module, ~"gen_event"}, Name(Met)),
    true = register(?FUNCTION_NAME, Pid),
    Birth =
        {Pid, {gen_server, gen_event, ?FUNCTION_NAME}, erlang:monotonic_time(nanosecond), unknown},
    ?assertEqual(
        {registered, ~"named_after_it_was_met"},
        Name(dyno_agent_server_set:begun(Birth, time, Met))
    ),
    ok = gen_event:stop(Pid),
    ?assertEqual(
        {registered, ~"named_after_it_was_met"},
        Name(dyno_agent_server_set:begun(Birth, time, Met))
    ).

names_that_have_no_sibling_keep_their_digits(_Config) ->
    Sums = [
        named(registered, ~"s3_uploader", ~"up"),
        named(registered, ~"s4_uploader", ~"other"),
        named(registered, ~"worker_1", ~"pool"),
        named(registered, ~"worker_22", ~"pool"),
        named(registered, ~"s2_disk_1", ~"disk"),
        named(registered, ~"s2_disk_2", ~"disk"),
        named(registered, ~"s2_disk_7", ~"disk"),
        named(label, ~"{shard,7}", ~"shard"),
        named(module, ~"MyApp.V2.Cache", ~"MyApp.V2.Cache"),
        named(module, ~"MyApp.V3.Cache", ~"MyApp.V3.Cache")
    ],
    Names = dyno_servers_names:add(Sums, dyno_servers_names:new()),
    ?assertEqual(
        [
            ~"s3_uploader",
            ~"s4_uploader",
            ~"worker_N",
            ~"worker_N",
            ~"s2_disk_N",
            ~"s2_disk_N",
            ~"s2_disk_N",
            ~"{shard,7}",
            ~"MyApp.V2.Cache",
            ~"MyApp.V3.Cache"
        ],
        [dyno_servers_names:common(Sum, Names) || Sum <- Sums]
    ).

%% Of several, the last that lives is none of its own.
a_series_keeps_its_name(_Config) ->
    Of = fun(Name) -> named(registered, Name, ~"pool") end,
    Both = dyno_servers_names:add([Of(~"w1"), Of(~"w2")], dyno_servers_names:new()),
    ?assertEqual(
        ~"wN", dyno_servers_names:common(Of(~"w1"), dyno_servers_names:add([Of(~"w1")], Both))
    ).

named(Kind, Name, Module) ->
    #{kind => Kind, labels => #{name => Name, module => Module}}.

alarms_are_thresholds(_Config) ->
    ?assertEqual({ok, #{'of' => queue, above => 1000}}, dyno_servers_watch:read("queue > 1000")),
    ?assertEqual({ok, #{'of' => busy, above => 0.9}}, dyno_servers_watch:read("busy > 90 %")),
    ?assertEqual(
        {ok, #{'of' => delay, above => 20_000_000, name => ~"orders", node => ~"shop@here"}},
        dyno_servers_watch:read("servers orders delay of shop@here > 20 ms")
    ),
    Refused = [
        dyno_error:format(Error)
     || Text <- ["queue < 3", "queue > 3 ms", "quee > 3", "servers a words > 3", "queue"],
        {error, Error} <- [dyno_servers_watch:read(Text)]
    ],
    ct:log("~tp", [Refused]),
    ?assertEqual(5, length(Refused)),
    %% As the documentation has it.
    ?assert(dyno_servers_watch:is_watch(#{'of' => queue, above => 1000})),
    ?assertNot(dyno_servers_watch:is_watch(#{'of' => length, above => 1000})).

an_alarm_stays_while_nothing_is_known(_Config) ->
    Window = fun(Queue, Busy) ->
        #{
            duration_ns => 1_000_000_000,
            nodes => [],
            servers => [
                #{
                    labels => #{name => ~"a", pid => ~"<0.1.0>", node => ~"n@h", module => ~"a"},
                    kind => registered,
                    processes => 1,
                    ended => 0,
                    alive => 1,
                    crashes => 0,
                    missed => 0,
                    measured => [hook],
                    callbacks => [],
                    reasons => [],
                    running => none,
                    queue_now => Queue,
                    queue_max => Queue,
                    queue => none,
                    delay => none,
                    delay_low => none,
                    delay_high => none,
                    delay_unknown => 0,
                    delay_missed => 0,
                    delay_method => ~"",
                    why => undefined,
                    grown => 0,
                    dirty => 0,
                    queue_lows => [0],
                    wall_ns => 0,
                    busy_ns => Busy,
                    busy_of_ns => 1_000_000_000,
                    cpu_ns => undefined,
                    cpu_of_ns => 0,
                    words => undefined,
                    asked_ns => undefined,
                    process_ns => 1_000_000_000,
                    counted_ns => 1_000_000_000,
                    untimed_ns => 0
                }
            ]
        }
    end,
    Watches = [#{'of' => busy, above => 0.5}, #{'of' => queue, above => 10, name => ~"b"}],
    {Events, _} = lists:mapfoldl(
        fun dyno_servers_watch:window/2,
        dyno_servers_watch:new(Watches),
        [Window(99, 900_000_000), Window(99, undefined), Window(0, 100_000_000)]
    ),
    ?assertMatch(
        [
            [{set, _, <<"the load of a on n@h is 90 %, above 50 %">>}],
            [],
            [{clear, _, <<"the load of a on n@h is 10 %, below its limit again">>}]
        ],
        Events
    ).

%% As one in a long call of native code.
nobody_waits_for_one_that_does_not_answer(_Config) ->
    [Silent | Others] = [
        spawn(fun() ->
            receive
                stop -> ok
            end
        end)
     || _ <- lists:seq(1, 1000)
    ],
    Ask = fun
        (Pid, Before) when Pid =:= Silent ->
            receive
                answer -> {late, Before}
            end;
        (_Pid, Before) ->
            {soon, Before + 1}
    end,
    ok = dyno_agent_process:each_beside([Silent | Others], asked, {Ask, 0}),
    %% Those that the same one asks wait with it.
    Answers = [
        receive
            {asked, _, soon} -> ok
        after 5000 -> none
        end
     || _ <- lists:seq(1, 995)
    ],
    ?assertEqual([ok], lists:usort(Answers)),
    Late = fun(Item, Done) ->
        timer:sleep(50),
        [Item | Done]
    end,
    ?assertEqual({[1], [2, 3]}, dyno_agent_process:within(1, Late, [], [1, 2, 3])),
    ?assertEqual({[2, 1], []}, dyno_agent_process:within(5000, Late, [], [1, 2])),
    [exit(Pid, kill) || Pid <- [Silent | Others]].

%% In nodes

%% Hooks stay, calls are counted, and nobody is said to be in a callback that has long returned.
a_saturated_node(_Config) ->
    in_node(fun(Node) ->
        {ok, _} = erpc:call(Node, lives, start, [stage, 10]),
        _ = erpc:call(Node, lives, calls, [stage, 20, [go]]),
        %% Its callbacks take no time.
        {ok, _} = erpc:call(Node, lives, start, [calm, 0]),
        _ = erpc:call(Node, lives, calls, [calm, 20, [go]]),
        _ = [erpc:cast(Node, lives, compute, []) || _ <- lists:seq(1, 300)],
        [Before | _] = erpc:call(Node, lives, truth, [stage]),
        Begun = erlang:monotonic_time(millisecond),
        {Document, Text} = measured(Node, #{for_ms => 3500}),
        nomatch = string:find(Text, "still in"),
        ct:log("~ts", [Text]),
        %% It waits for its turn, and not in a callback.
        Calm = row(~"servers", ~"calm", Document),
        ?assertEqual(
            [],
            [
                Busy
             || Key <- [~"busy", ~"busy_low"],
                #{Key := Busy} <- [Calm],
                is_number(Busy) andalso Busy > 0.2
            ],
            Calm
        ),
        #{~"rate" := Rate, ~"count" := Count} = row(~"servers", ~"stage", Document),
        [Calls | _] = erpc:call(Node, lives, truth, [stage]),
        ?assert(Count =< Calls, {Count, Calls}),
        %% Five or six calls a second; beside other programs one, which no window need have.
        True = 1000 * (Calls - Before) / (erlang:monotonic_time(millisecond) - Begun),
        ?assert(Rate > True / 3 - 1 andalso Rate < 1 + 3 * True, {Rate, True})
    end).

%% Somebody takes all debug functions away; then calls go on.
a_lost_hook_is_put_back(_Config) ->
    in_node(fun(Node) ->
        {ok, Pid} = erpc:call(Node, lives, start, [often, 100]),
        _ = erpc:call(Node, lives, calls, [often, 10, [go]]),
        {ok, Monitor} = dyno_servers:start(Node, #{servers => [{registered, often}]}),
        ok = dyno_servers:subscribe(Monitor),
        _ = [next(Monitor) || _ <- [1, 2]],
        ok = erpc:call(Node, sys, no_debug, [Pid]),
        ok = dyno_leftovers:until(fun() -> dyno_peers:hooks(Node, Pid) =/= [] end),
        %% These may have begun before that.
        _ = [next(Monitor) || _ <- [1, 2]],
        ok = timed_again(Monitor),
        ok = dyno_servers:stop(Monitor)
    end).

%% All of its calls, of 100 us each.
timed_again(Monitor) ->
    case next(Monitor) of
        #{servers := [#{served := Served, measured := [hook], wall_ns := WallNs}]} when
            Served > 0, WallNs > Served * 90_000
        ->
            ok;
        _ ->
            timed_again(Monitor)
    end.

%% A call of 1 ms each 5 ms, each tenth crashes.
a_crash_loop(_Config) ->
    in_node(fun(Node) ->
        true = erpc:call(Node, lives, boss, [looping]),
        _ = erpc:call(Node, lives, calls, [looping, 4, lists:duplicate(9, go) ++ [crash]]),
        Self = self(),
        Look = fun(_) ->
            [Calls, Ns | _] = erpc:call(Node, lives, truth, [looping]),
            Self ! {looked, {Calls, Ns}},
            ok
        end,
        ok = Look(before),
        {Document, Text} = measured(Node, #{for_ms => 3000, show => Look}),
        ok = Look(afterwards),
        Looks = looks(),
        {Calls, _} = lists:last(Looks),
        ct:log("~ts~n~tp", [Text, Looks]),
        %% One row.
        ?assertMatch([_], [Name || ~"looping" = Name <- names(Document)]),
        #{~"rate" := Rate, ~"busy" := Busy} = Row = row(~"servers", ~"looping", Document),
        #{~"crashes" := Crashes, ~"count" := Count} = Row,
        ?assert(Count > 30 andalso Count =< Calls, {Count, Calls}),
        %% What a call takes changes from second to second on a busy machine.
        Each = [
            Rate * (N1 - N0) / (C1 - C0) / 1.0e9
         || {{C0, N0}, {C1, N1}} <- lists:zip(lists:droplast(Looks), tl(Looks)), C1 > C0
        ],
        %% And fewer calls of a new process are timed; then that is said.
        Least =
            case Row of
                #{~"busy_low" := Low} when is_number(Low) -> 0.5;
                #{} -> 0.8
            end,
        ?assert(Busy < 1.2 * lists:max(Each), {told, Busy, true, Each}),
        ?assert(Busy > Least * lists:min(Each), {told, Busy, true, Each}),
        ?assert(abs(Count / 10 - Crashes) < 1.5 + 0.02 * Count, {Count, Crashes}),
        #{~"exceptions" := Raised} = Row,
        ?assert(Raised =:= Crashes orelse is_number(maps:get(~"exceptions_low", Row, null))),
        %% The messages that end it are messages.
        is_map_key(~"busy_low", Row) andalso is_number(map_get(~"busy_low", Row)) orelse
            ?assertMatch(
                [N] when N > 0.8 * Crashes,
                [N || #{~"message" := ~"crash", ~"count" := N} <- rows(~"messages", Document)]
            ),
        ?assertEqual(nomatch, string:find(Text, "still in")),
        ?assertEqual(nomatch, string:find(Text, "noproc"))
    end).

looks() ->
    receive
        {looked, Look} -> [Look | looks()]
    after 0 -> []
    end.

%% A supervisor restarts a child that fails in init: of each behaviour one row, with its crashes.
a_crash_loop_in_init(_Config) ->
    in_node(fun(Node) ->
        Names = [{in_init, gen_server}, {in_init_2, gen_statem}],
        _ = [true = erpc:call(Node, lives, boss, [Name, Of]) || {Name, Of} <- Names],
        Self = self(),
        Show = fun(Event) ->
            _ = [
                Self ! {crashed, Name, lists:nth(3, erpc:call(Node, lives, truth, [Name]))}
             || {window, _} <- [Event], {Name, _} <- Names
            ],
            ok
        end,
        {Document, Text} = measured(Node, #{for_ms => 3000, show => Show}),
        ct:log("~ts", [Text]),
        Crashed = [
            begin
                %% At the end of each window; the first one was under way when dyno came.
                [First | _] = Counts = crashed(Name),
                [#{~"crashes" := Crashes, ~"count" := 0}] = [
                    Row
                 || #{~"server" := Is} = Row <- rows(~"servers", Document),
                    Is =:= atom_to_binary(Name)
                ],
                True = lists:last(Counts),
                ?assert(Crashes > 10 andalso Crashes >= True - First - 2, {Crashes, Counts}),
                ?assert(Crashes =< True, {Crashes, Counts}),
                Said = [atom_to_binary(Name), ": crashed (at least )?[0-9]+ times: "],
                ?assertNotEqual(nomatch, re:run(Text, Said)),
                Crashes
            end
         || {Name, _} <- Names
        ],
        ?assertEqual([], [Name || Name <- names(Document), string:find(Name, "<") =/= nomatch]),
        %% A supervisor's message each; those to dyno's own server, five each, are not counted.
        [Run] = dyno_recording:runs(Document),
        {ok, #{~"value" := Rate}} = dyno_recording:metric(Run, ~"servers.callbacks"),
        ?assert(Rate < 100 + 2.5 * lists:sum(Crashed) / 3, {Rate, Crashed})
    end).

crashed(Name) ->
    receive
        {crashed, Name, N} -> [N | crashed(Name)]
    after 0 -> []
    end.

%% Breakpoints would stay for seconds.
callers_are_not_traced_on_a_full_node(_Config) ->
    Traced = fun(Others, ForMs) ->
        in_node(fun(Node) ->
            {ok, _} = erpc:call(Node, lives, start, [calm, 0]),
            _ = erpc:call(Node, lives, calls, [calm, 2, [go]]),
            _ = [erpc:cast(Node, lives, compute, []) || _ <- lists:seq(1, Others)],
            _ = erpc:call(Node, lives, sees, []),
            _ = measured(Node, #{for_ms => ForMs}),
            erpc:call(Node, lives, traced, [])
        end)
    end,
    Calm = Traced(0, 4000),
    ?assert(Calm > 0 andalso Calm < 3000, Calm),
    ?assertEqual(0, Traced(100, 6000)).

%% Each is called four times, for 100 us, and then ends.
many_that_end_soon(_Config) ->
    in_node(fun(Node) ->
        {ok, _} = erpc:call(Node, lives, start, [kid, 100]),
        Self = self(),
        %% To attach takes seconds where others have the processors.
        Show = fun(_) ->
            get(kids) =:= begun orelse erpc:call(Node, lives, kids, [kid, 800]),
            put(kids, begun),
            Self ! {by_then, hd(erpc:call(Node, lives, truth, [kid]))},
            ok
        end,
        {Document, Text} = measured(Node, #{for_ms => 6500, show => Show}),
        ct:log("~ts", [Text]),
        [Calls, Ns, 0, _] = erpc:call(Node, lives, truth, [kid]),
        %% By the last window.
        Least = last_by_then(0),
        ?assert(Least > 800, Least),
        #{~"count" := Count, ~"crashes" := 0} = Row = row(~"server_modules", ~"lives", Document),
        Told = Count + unseen(Document),
        %% The runtime's counts and the hook's are read one after the other.
        ?assert(Told > 0.99 * Least andalso Told < 1.01 * Calls, {Told, Least, Calls}),
        %% Where not all could be timed, that is said.
        #{~"wall" := WallNs} = Row,
        ?assert(
            (is_number(WallNs) andalso WallNs > 0.98 * Ns * Least / Calls) orelse
                string:find(Text, "lower bound") =/= nomatch
        ),
        ?assertEqual(nomatch, string:find(Text, "other processes do its work")),
        ?assertEqual(nomatch, string:find(Text, "saturates at"))
    end).

%% dyno meets most of them too late to be told why they ended.
some_that_are_killed_soon(_Config) ->
    Self = self(),
    in_node(fun(Node) ->
        Of = fun(How) ->
            {ok, _} = erpc:call(Node, lives, start, [How, 500]),
            Begun = fun() -> lists:last(erpc:call(Node, lives, truth, [How])) end,
            Show = fun(_) ->
                get(How) =:= begun orelse erpc:call(Node, lives, soon_gone, [How, How, 200]),
                put(How, begun),
                Self ! {by_then, Begun()},
                ok
            end,
            {Document, Text} = measured(Node, #{for_ms => 3000, show => Show}),
            ct:log("~ts", [Text]),
            %% On a busy machine not all have begun by then.
            ok = dyno_leftovers:until(fun() -> Begun() =:= 200 end),
            ok = gen_server:stop({How, Node}),
            #{~"crashes" := Crashes} = Row = row(~"server_modules", ~"lives", Document),
            {before_the_last(), Crashes, maps:get(~"crashes_low", Row, null), Text}
        end,
        {Killed, Crashes, Low, Text} = Of(kill),
        ?assert(Crashes >= Killed orelse Crashes =:= Low, {Killed, Crashes, Low}),
        ?assert(Crashes =< 200, Crashes),
        ?assert(
            Low =:= null orelse Low =:= 0 orelse
                string:find(Text, "crashed at least ") =/= nomatch
        ),
        {Bad, Failed, _, _} = Of(badly),
        ?assert(Failed > 0.9 * Bad andalso Failed =< 200, {Failed, Bad}),
        ?assertMatch({_, 0, null, _}, Of(normal)),
        ?assertMatch({_, 0, null, _}, Of(shutdown))
    end).

last_by_then(Before) -> lists:last([Before | by_then()]).

%% Of what the last window has, some may be under way.
before_the_last() ->
    case lists:reverse(by_then()) of
        [_, Before | _] -> Before;
        _ -> 0
    end.

by_then() ->
    receive
        {by_then, Count} -> [Count | by_then()]
    after 0 -> []
    end.

unseen(Document) ->
    #{~"warnings" := Warnings} = Document,
    Texts = [Text || #{~"code" := ~"unseen", ~"text" := Text} <- Warnings],
    lists:sum([
        binary_to_integer(N)
     || Text <- Texts,
        {match, [N]} <- [re:run(Text, "with ([0-9]+) callbacks", [{capture, [1], binary}])]
    ]).

%% A server that takes 10 ms for each of 300 messages a second.
alarms(_Config) ->
    in_node(fun(Node) ->
        {ok, _} = erpc:call(Node, lives, start, [over, 10]),
        Watches = [
            Watch
         || Text <- ["queue > 100", "delay > 100 ms", "p99 > 5 ms", "busy > 80 %"],
            {ok, Watch} <- [dyno_servers_watch:read(Text)]
        ],
        {ok, Monitor} = dyno_servers:start(Node, #{
            servers => [{registered, over}], watches => Watches
        }),
        ok = dyno_servers:subscribe(Monitor),
        _ = next(Monitor),
        _ = next(Monitor),
        _ = [gen_server:cast({over, Node}, {sleep, 10}) || _ <- lists:seq(1, 600)],
        Set = alarms(Monitor, 4, []),
        ct:log("~ts", [lists:join("\n", Set)]),
        [
            true = lists:any(fun(Text) -> string:find(Text, What) =/= nomatch end, Set)
         || What <- ["the message queue of over", "the waiting of", "the time of", "the load of"]
        ],
        ok = dyno_servers:stop(Monitor)
    end).

alarms(_Monitor, 0, Set) ->
    Set;
alarms(Monitor, Left, Set) ->
    receive
        {dyno_servers, Monitor, {alarm, set, Text}} ->
            alarms(Monitor, Left - 1, [Text | Set]);
        {dyno_servers, Monitor, #{servers := _}, _} ->
            ok = dyno_servers:ready(Monitor),
            alarms(Monitor, Left, Set)
    after 8000 -> Set
    end.

%% What is measured and printed

measured(Node, Options) ->
    {Document, Text, _} = dyno_truth:servers(Node, [{module, lives}], Options),
    {Document, Text}.

names(Document) -> [Name || #{~"server" := Name} <- rows(~"servers", Document)].

in_node(Run) -> dyno_truth:in_node(?SERVER, Run).
