%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_window_SUITE).
-moduledoc "Sums of servers, their numbers, pipelines, totals and the recording, from windows whose answers are known.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [{group, all}].

groups() ->
    [
        {all, [parallel], [
            numbers_of_a_server,
            a_manager_hides_exceptions,
            percentiles_of_a_sum_are_those_of_all,
            waiting_that_is_not_known_is_not_said,
            sums_by_what_servers_have_in_common,
            sums_over_time,
            each_callback_is_one_whichever_ran_more,
            a_stage_tells_what_it_is_later,
            sinks_get_no_pids,
            says_when_it_saturates,
            grows_if_it_does_not_come_down,
            blocked_is_what_is_not_on_a_processor,
            without_wall_time_the_processor_tells,
            busy_is_not_less_than_on_a_processor,
            what_is_not_looked_at_is_not_none,
            a_long_callback_is_named,
            names_as_the_language_writes_them,
            ranks_and_filters,
            draws_a_pipeline,
            draws_stages_of_one_name,
            names_the_bottleneck_or_none,
            a_total_is_bounded,
            a_name_that_comes_back_is_one_server,
            crashes_of_one_name_are_one_warning,
            more_findings_than_are_told,
            more_alarms_than_are_told,
            short_lives_are_shares_of_the_whole,
            processes_in_no_row_may_be_of_any,
            a_percentile_that_the_missing_may_change,
            processor_time_of_the_seldom_ones_only,
            a_lost_node_has_rates_of_its_own_time,
            warnings_come_before_notes,
            a_recording_is_valid_and_shown,
            no_more_are_missed_than_there_were,
            busy_before_the_hook_is_unknown,
            one_that_was_missed_may_be_the_longest,
            an_alarm_rings_once
        ]}
    ].

%% Terms as an agent sends them

-define(SECOND, 1_000_000_000).

window(Servers) ->
    window(0, Servers).

window(StartNs, Servers) ->
    #{
        node => 'shop@here',
        start_ns => StartNs,
        duration_ns => ?SECOND,
        level => distribution,
        asked => auto,
        stepped_down => none,
        probe_ns => 62,
        cost => 0.004,
        rate => #{call => 1000, cast => 0, info => 5, continue => 0},
        servers => Servers,
        unselected => 0,
        schedulers_busy => 0.3
    }.

server(Name, Module, Callbacks) ->
    WallNs = lists:sum([Sum || #{wall := #{sum := Sum}} <- Callbacks]),
    #{
        pid => spawn(fun() -> ok end),
        name => Name,
        kind => registered,
        module => Module,
        behaviour => gen_server,
        application => shop,
        supervisor => ~"shop_sup",
        state => alive,
        reason => undefined,
        measured => hook,
        why => undefined,
        running => none,
        callbacks => Callbacks,
        queue_now => 0,
        queue_max => 3,
        queue_low => 0,
        queue => none,
        delay => snapshot([1000, 2000]),
        delay_low => snapshot([1000, 2000]),
        delay_high => snapshot([5_001_000, 5_002_000]),
        delay_method => ~"exact",
        delay_unknown => 0,
        delay_missed => 0,
        wall_ns => WallNs,
        busy_ns => WallNs,
        busy_of_ns => ?SECOND,
        life_ns => ?SECOND,
        cpu_of_ns => ?SECOND,
        asked_ns => undefined,
        missed => 0,
        cpu_ns => WallNs div 4,
        words => 100,
        grown => 0,
        dirty => 0,
        served => lists:sum([N || #{count := N} <- Callbacks]),
        tags => [],
        stage => none
    }.

callback(Name, TimesNs) ->
    #{
        name => Name,
        count => length(TimesNs),
        missed => 0,
        exceptions => 0,
        stops => 0,
        wall => snapshot(TimesNs),
        cpu_ns => lists:sum(TimesNs) div 4,
        words => 10
    }.

snapshot(Values) ->
    Histogram = dyno_histogram:new(),
    lists:foreach(fun(Value) -> dyno_histogram:record(Histogram, Value) end, Values),
    dyno_histogram:snapshot(Histogram).

rows(Group, Servers) ->
    #{duration_ns := Ns} = Window = dyno_servers_window:new([window(Servers)]),
    [dyno_servers_row:row(Sum, Ns) || Sum <- dyno_servers_window:sums(Group, Window)].

%% Cases

numbers_of_a_server(_Config) ->
    Times = [1000 * N || N <- lists:seq(1, 100)],
    [Row] = rows(process, [server(~"orders", orders, [callback(~"handle_call", Times)])]),
    #{name := ~"orders", module := ~"orders", count := 100, min := 1000, max := 100_000} = Row,
    ?assertEqual(100.0, map_get(rate, Row)),
    ?assertEqual(50_500.0, map_get(mean, Row)),
    ?assertEqual(99_000, map_get(range, Row)),
    %% Of 1 to 100: the square root of (100 * 100 - 1) / 12.
    ?assert(abs(map_get(stdev, Row) - 28_866.07) < 0.004 * 28_866.07),
    lists:foreach(
        fun({Key, Exact}) -> ?assert(abs(map_get(Key, Row) - Exact) =< 0.008 * Exact) end,
        [{p50, 50_000}, {p90, 90_000}, {p99, 99_000}, {p999, 100_000}]
    ),
    %% 5.05 ms in a second.
    ?assert(abs(map_get(busy, Row) - 0.00505) < 1.0e-9),
    ?assert(abs(map_get(cpu, Row) - 0.0012625) < 1.0e-9),
    ?assertEqual(3, map_get(queue_max, Row)),
    %% The process's own beginning is no message.
    Callbacks = [callback(~"handle_call", Times), callback(~"init", [?SECOND])],
    [#{count := 100, max := 100_000}] = rows(process, [server(~"orders", orders, Callbacks)]).

percentiles_of_a_sum_are_those_of_all(_Config) ->
    A = server(~"a", pool, [callback(~"handle_call", lists:duplicate(90, 1000))]),
    B = server(~"b", pool, [callback(~"handle_cast", lists:duplicate(10, 1_000_000))]),
    [Row] = rows(module, [A, B]),
    #{processes := 2, count := 100, module := ~"pool"} = Row,
    ?assert(abs(map_get(p50, Row) - 1000) =< 8),
    ?assert(abs(map_get(p90, Row) - 1000) =< 8),
    ?assert(abs(map_get(p99, Row) - 1_000_000) =< 8000),
    %% What only one of them is called is not the sum's.
    ?assertNot(is_map_key(name, Row)),
    %% Busy is the mean of the two processes.
    ?assert(abs(map_get(busy, Row) - (90_000 + 10_000_000) / 2 / ?SECOND) < 1.0e-9).

waiting_that_is_not_known_is_not_said(_Config) ->
    Sum = fun(Values, Unknown) ->
        Server = server(~"a", x, []),
        Known = Server#{
            delay := snapshot([Ns + Ns div 10 || Ns <- Values]),
            delay_low := snapshot(Values),
            delay_high := snapshot([Ns + 2_000_000 || Ns <- Values]),
            delay_unknown := Unknown
        },
        #{servers := [Of]} = dyno_servers_window:new([window(0, [Known])]),
        Of
    end,
    Said = fun(Of) ->
        #{waited_p99 := {Ns, LowNs, HighNs}, delay_method := Method} =
            dyno_servers_row:row(Of, ?SECOND),
        %% Within the width of a bucket.
        Told = [is_number(Value) andalso round(Value / 100_000) || Value <- [Ns, LowNs, HighNs]],
        {list_to_tuple(Told), Method}
    end,
    ?assertEqual({{110, 100, 120}, ~"exact"}, Said(Sum([10_000_000], 0))),
    %% What it takes to be woken is not seen, and neither is a short collection.
    ?assertEqual({{false, 0, 20}, ~"exact"}, Said(Sum([20_000], 0))),
    %% A message that was missed may have waited for any time.
    ?assertEqual(
        {{false, 100, false}, ~"exact"},
        Said((Sum([10_000_000, 10_000_000], 0))#{delay_missed := 1})
    ),
    ?assertMatch({{false, 0, 20}, <<"at least: ", _/binary>>}, Said(Sum([0], 1))),
    All = dyno_servers_window:add(later, Sum([20_000, 10_000_000], 0), Sum([0], 1)),
    ?assertEqual(
        {
            {110, 100, 120},
            ~"at least: the waiting of 1 of 3 messages is not known; exact"
        },
        Said(All)
    ).

sums_by_what_servers_have_in_common(_Config) ->
    Of = fun(Name, Module) -> server(Name, Module, [callback(~"handle_call", [1000])]) end,
    Servers = [Of(~"a", x), Of(~"b", x), (Of(~"c", y))#{application := undefined}],
    Counts = fun(Group, Key) ->
        [{maps:get(Key, Row, none), map_get(count, Row)} || Row <- rows(Group, Servers)]
    end,
    ?assertEqual([{~"x", 2}, {~"y", 1}], Counts(module, module)),
    ?assertEqual([{~"none", 1}, {~"shop", 2}], Counts(application, application)),
    ?assertEqual([{~"shop_sup", 3}], Counts(supervisor, supervisor)),
    ?assertEqual([{~"shop@here", 3}], Counts(node, node)),
    ?assertEqual([{~"all", 3}], Counts(cluster, cluster)),
    ?assertEqual(3, length(Counts(process, pid))),
    %% Numbers in names tell processes of one kind apart.
    Numbered = [Of(~"worker_1", x), Of(~"worker_22", x)],
    ?assertMatch([#{name := ~"worker_N", count := 2}], rows(name, Numbered)).

sums_over_time(_Config) ->
    Server = server(~"a", x, [callback(~"handle_call", [1000, 3000])]),
    Last = Server#{
        state := crashed,
        reason := ~"badarg",
        queue_now := 7,
        queue_max := 9,
        callbacks := [callback(~"handle_cast", [5000])]
    },
    Windows = [
        dyno_servers_window:new([window(N * ?SECOND, [S])])
     || {N, S} <- [{0, Server}, {1, Server}, {2, Last}]
    ],
    Total = lists:foldl(fun dyno_servers_total:add/2, dyno_servers_total:new(), Windows),
    ?assertEqual(3 * ?SECOND, dyno_servers_total:duration_ns(Total)),
    [Sum] = dyno_servers_total:servers(Total),
    Row = dyno_servers_row:row(Sum, 3 * ?SECOND),
    #{count := 5, queue_now := 7, queue_max := 9, processes := 1, crashes := 1} = Row,
    ?assertEqual(~"badarg", map_get(reasons, Row)),
    ?assert(abs(map_get(rate, Row) - 5 / 3) < 1.0e-9),
    ?assertMatch(
        [#{callback := ~"handle_call", count := 4}, #{callback := ~"handle_cast", count := 1}],
        dyno_servers_row:callbacks(Sum, 3 * ?SECOND)
    ),
    [{~"a", [{1_000_000_000, _}, {2_000_000_000, _}, {3_000_000_000, #{queue_now := 7}}]}] =
        dyno_servers_total:points(Total).

%% Of two callbacks, one ran more in the first window, the other one in the second.
each_callback_is_one_whichever_ran_more(_Config) ->
    Of = fun(Calls, Casts) ->
        server(~"a", x, [
            callback(~"handle_call", lists:duplicate(Calls, 1000)),
            callback(~"handle_cast", lists:duplicate(Casts, 2000))
        ])
    end,
    Server = Of(3, 2),
    Windows = [
        dyno_servers_window:new([window(N * ?SECOND, [S#{pid := map_get(pid, Server)}])])
     || {N, S} <- [{0, Server}, {1, Of(1, 4)}, {2, Of(2, 1)}]
    ],
    Total = lists:foldl(fun dyno_servers_total:add/2, dyno_servers_total:new(), Windows),
    [Sum] = dyno_servers_total:servers(Total),
    Counts = [
        {Name, Count}
     || #{callback := Name, count := Count} <- dyno_servers_row:callbacks(Sum, 3 * ?SECOND)
    ],
    ?assertEqual([{~"handle_call", 6}, {~"handle_cast", 7}], lists:sort(Counts)).

a_stage_tells_what_it_is_later(_Config) ->
    Stage = stage(server(~"a", x, []), unknown, 0, 0, []),
    #{stage := Told} = stage(Stage, consumer, 0, 0, []),
    Windows = [
        dyno_servers_window:new([window(N * ?SECOND, [Stage#{stage := Of}])])
     || {N, Of} <- [{0, map_get(stage, Stage)}, {1, Told}]
    ],
    Total = lists:foldl(fun dyno_servers_total:add/2, dyno_servers_total:new(), Windows),
    ?assertMatch([#{stage := #{kind := consumer}}], dyno_servers_total:servers(Total)).

sinks_get_no_pids(_Config) ->
    Servers = [
        server(~"worker_1", pool, [callback(~"handle_call", [1000])]),
        server(~"worker_2", pool, [callback(~"handle_call", [3000])])
    ],
    {[Sum], _} = dyno_servers_window:for_sinks(
        dyno_servers_window:new([window(Servers)]), dyno_servers_names:new()
    ),
    #{labels := Labels, processes := 2, callbacks := [#{count := 2, wall := #{max := 3000}}]} = Sum,
    ?assertEqual(
        #{
            node => ~"shop@here",
            application => ~"shop",
            module => ~"pool",
            name => ~"worker_N",
            behaviour => ~"gen_server"
        },
        Labels
    ),
    ?assert(abs(map_get(busy, Sum) - 2.0e-6) < 1.0e-12).

says_when_it_saturates(_Config) ->
    At = fun(BusyNs, Change) ->
        Server = server(~"a", x, [callback(~"handle_call", lists:duplicate(10, BusyNs div 10))]),
        [Row] = rows(process, [Change(Server)]),
        said(Row)
    end,
    Same = fun(Server) -> Server end,
    ?assertEqual(~"a: saturates at 1.6 times today's rate", At(620_000_000, Same)),
    ?assertEqual(~"a: saturated: busy all of the time, at 10 /s", At(999_999_990, Same)),
    ?assertEqual(none, At(1_000_000, Same)),
    %% A server's work around short callbacks is not measured.
    Short = server(~"a", x, [callback(~"handle_call", lists:duplicate(50_000, 4_000))]),
    [OfShort] = rows(process, [Short]),
    ?assertEqual(~"a: saturates at less than 5.0 times today's rate", said(OfShort)),
    %% Times are those of buckets: their sum may be more than there was.
    [#{busy := 1.0}] = rows(process, [server(~"a", x, [callback(~"handle_call", [1_016_000_000])])]).

%% A queue that goes up and down ends anywhere.
grows_if_it_does_not_come_down(_Config) ->
    Server = server(~"a", x, [callback(~"handle_call", lists:duplicate(10, 62_000_000))]),
    Said = fun(Queues) ->
        [Sum | Sums] = [
            Of
         || {Low, Now} <- Queues,
            Of <- dyno_servers_window:sums(
                process,
                dyno_servers_window:new([
                    window([Server#{grown := 20, queue_low := Low, queue_now := Now}])
                ])
            )
        ],
        Add = fun(Later, Before) -> dyno_servers_window:add(later, Before, Later) end,
        All = lists:foldl(Add, Sum, Sums),
        said((dyno_servers_row:row(All, length(Queues) * ?SECOND))#{sum => All})
    end,
    Grows = [{20 * N, 20 * (N + 1)} || N <- lists:seq(0, 99)],
    ?assertEqual(
        ~"a: 30 /s come, 10 /s are done: its queue of 40 grows", Said(lists:sublist(Grows, 2))
    ),
    ?assertEqual(~"a: 30 /s come, 10 /s are done: its queue of 2000 grows", Said(Grows)),
    ?assertMatch(<<"a: saturates", _/binary>>, Said(lists:sublist(Grows, 1))),
    %% Also one that does not grow.
    ?assertEqual(~"a: 50 messages wait, 5 s of work at 10 /s", Said([{50, 50}])),
    ?assertMatch(<<"a: saturates", _/binary>>, Said([{0, 20}, {0, 5}, {4, 7}, {0, 40}])),
    %% It comes down between two windows only.
    ?assertMatch(
        <<"a: saturates", _/binary>>, Said([{0, 20}, {20, 40}, {15, 21}, {0, 0}, {0, 40}])
    ).

%% Five busy servers hid the one that stood still, whose busy time is unknown.
warnings_come_before_notes(_Config) ->
    Busy = [
        server(<<"busy_", (integer_to_binary(N))/binary>>, x, [
            callback(~"handle_call", [700_000_000])
        ])
     || N <- lists:seq(1, 7)
    ],
    Stuck = (server(~"stuck", y, []))#{
        busy_ns := undefined, grown := 30, queue_low := 0, queue_now := 60
    },
    Windows = [
        window(N * ?SECOND, [Stuck#{queue_low := 30 * N, queue_now := 30 * (N + 1)} | Busy])
     || N <- [0, 1, 2]
    ],
    Add = fun(Window, Total) ->
        dyno_servers_total:add(dyno_servers_window:new([Window]), Total)
    end,
    #{tables := Tables} = dyno_servers_recording:run(
        lists:foldl(Add, dyno_servers_total:new(), Windows),
        #{group => process, lost => #{}, dropped => 0, sinks => []}
    ),
    Text = iolist_to_binary(json:encode(Tables)),
    ?assertMatch({_, _}, binary:match(Text, ~"stuck: 30 /s come, 0 /s are done")).

%% Each process that crashed was a warning of its own, and only the first five were told.
crashes_of_one_name_are_one_warning(_Config) ->
    Crashed = fun(Name, Kind) ->
        (server(Name, x, [callback(~"handle_call", [1000])]))#{
            kind := Kind, state := crashed, reason := ~"boom"
        }
    end,
    Numbered = [
        Crashed(<<"worker_", (integer_to_binary(N))/binary>>, registered)
     || N <- lists:seq(1, 20)
    ],
    Window = window([Crashed(~"x", module) || _ <- lists:seq(1, 30)] ++ Numbered),
    Texts = [Text || #{severity := warning, text := Text} <- findings(Window)],
    ?assertEqual([~"x: crashed 30 times: boom", ~"worker_N: crashed 20 times: boom"], Texts).

%% The rest was left out without a word.
more_findings_than_are_told(_Config) ->
    Busy = [
        server(<<"busy_", (integer_to_binary(N))/binary>>, x, [
            callback(~"handle_call", [700_000_000])
        ])
     || N <- lists:seq(1, 12)
    ],
    Said = [Text || #{check := more, text := Text} <- findings(window(Busy))],
    ?assertEqual([~"7 more servers have a finding; the table of servers has all"], Said).

more_alarms_than_are_told(_Config) ->
    Self = self(),
    Begun = #{
        session => Self,
        show => fun(_) -> ok end,
        alarms => [],
        more_alarms => 0,
        nodes => [],
        options => #{},
        total => dyno_servers_total:new(),
        lost => #{},
        dropped => 0,
        sinks => [],
        visits => []
    },
    Alarm = {message, {dyno_servers, Self, {alarm, set, ~"the load of a is 90 %"}}},
    Add = fun(_, State) -> element(2, dyno_servers_run:handle(Alarm, [], State)) end,
    State = lists:foldl(Add, Begun, lists:seq(1, 25)),
    Ended = #{ending => #{status => complete}, lost => #{}, warnings => [], duration_ns => 1},
    #{run := Run} = dyno_servers_run:made(Ended, State),
    Read = dyno_finding:read(json:decode(iolist_to_binary(json:encode(Run)))),
    Texts = [Text || {_, #{check := alarm, text := Text}} <- Read],
    ?assertEqual({11, ~"and 15 more alarms"}, {length(Texts), lists:last(Texts)}).

findings(Window) ->
    Total = dyno_servers_total:add(dyno_servers_window:new([Window]), dyno_servers_total:new()),
    Run = dyno_servers_recording:run(Total, #{
        group => process, lost => #{}, dropped => 0, sinks => []
    }),
    [Finding || {_, Finding} <- dyno_finding:read(json:decode(iolist_to_binary(json:encode(Run))))].

%% Each lived for a millisecond and was busy for half of that, one after the other.
short_lives_are_shares_of_the_whole(_Config) ->
    Callback = (callback(~"handle_call", [400_000, 40_000, 10_000]))#{count := 4, missed := 1},
    Kid = (server(~"kid", kid, [Callback]))#{
        kind := module,
        state := ended,
        life_ns := 1_000_000,
        cpu_of_ns := 1_000_000,
        busy_of_ns := 900_000,
        missed := 1,
        tags := [
            #{tag => ~"go", callback => ~"handle_call", count => 2, wall_ns => 440_000},
            #{tag => ~"stop", callback => ~"handle_call", count => 1, wall_ns => 10_000}
        ]
    },
    Kids = [Kid#{pid := spawn(fun() -> ok end)} || _ <- lists:seq(1, 100)],
    #{servers := Sums} = dyno_servers_window:new([window(Kids)]),
    [Sum] = dyno_servers_window:group(module, Sums),
    #{busy := Busy, rate := 400.0} = dyno_servers_row:row(Sum, ?SECOND),
    ?assert(abs(Busy - 0.05) < 1.0e-6, Busy),
    %% A fourth is missed, in processes that ended: the others do not stand for it.
    #{p50 := undefined, max := undefined} = dyno_servers_row:row(Sum, ?SECOND),
    [#{p50 := undefined, missed := 100}] = dyno_servers_row:callbacks(Sum, ?SECOND),
    [#{rate := undefined, mean := undefined, missed := 100}, #{rate := undefined}] =
        dyno_servers_row:tags(Sum, ?SECOND),
    %% Of a process that goes on, the missed ones count as of the same kinds: they add up.
    [#{tag := ~"go", rate := Go}, #{tag := ~"stop", rate := Stop}] =
        dyno_servers_row:tags(Sum#{ended := 0}, ?SECOND),
    ?assert(abs(Go - 800 / 3) < 1.0e-6, Go),
    ?assert(abs(Stop - 400 / 3) < 1.0e-6, Stop),
    %% A sink gets no times of them.
    {[#{callbacks := [#{wall := none, count := 400}], delay := none}], _} =
        dyno_servers_window:for_sinks(
            dyno_servers_window:new([window(Kids)]), dyno_servers_names:new()
        ).

%% The runtime timed the first of four windows, in which few messages came.
processor_time_of_the_seldom_ones_only(_Config) ->
    Of = fun(Count, CpuOfNs) ->
        Callback = callback(~"handle_call", lists:duplicate(Count, 1000)),
        Server = server(~"a", x, [Callback]),
        case CpuOfNs of
            0 ->
                Server#{
                    callbacks := [Callback#{cpu_ns := undefined, words := undefined}],
                    cpu_ns := undefined,
                    words := undefined,
                    cpu_of_ns := 0
                };
            _ ->
                Server
        end
    end,
    Row = fun([First | _] = Servers) ->
        Windows = [
            dyno_servers_window:new([
                (window(N * ?SECOND, [S#{pid := map_get(pid, First)}]))#{
                    probe_ns := map_get(map_get(cpu_of_ns, S) > 0, #{true => 2000, false => 500}),
                    rate := #{call => map_get(served, S)}
                }
            ])
         || {N, S} <- lists:enumerate(Servers)
        ],
        Total = lists:foldl(fun dyno_servers_total:add/2, dyno_servers_total:new(), Windows),
        [Sum] = dyno_servers_total:servers(Total),
        [#{probe_ns := ProbeNs}] = dyno_servers_total:nodes(Total),
        [#{cpu_mean := PerCall, words_mean := Words}] =
            dyno_servers_row:callbacks(Sum, length(Servers) * ?SECOND),
        #{cpu := Cpu, words := All} = dyno_servers_row:row(Sum, length(Servers) * ?SECOND),
        {[is_number(Is) || Is <- [Cpu, All, PerCall, Words]], ProbeNs}
    end,
    Often = Of(3000, 0),
    {[true, true, true, true], _} = Row([Of(10, ?SECOND), Of(20, ?SECOND)]),
    {[false, false, false, false], ProbeNs} = Row([Of(10, ?SECOND), Often, Often, Often]),
    ?assert(ProbeNs > 490 andalso ProbeNs < 510, ProbeNs).

%% All that were met were timed, and as many were not met.
processes_in_no_row_may_be_of_any(_Config) ->
    Kid = (server(~"kid", kid, [callback(~"handle_call", lists:duplicate(4, 1000))]))#{
        kind := module, state := ended
    },
    Kids = [Kid#{pid := spawn(fun() -> ok end)} || _ <- lists:seq(1, 10)],
    One = server(~"stays", stays, [callback(~"handle_call", [5000])]),
    Told = fun(Calls) ->
        Window = dyno_servers_window:new([
            (window([One | Kids]))#{unseen => #{processes => Calls div 4, calls => Calls}}
        ]),
        {Sinks, _} = dyno_servers_window:for_sinks(Window, dyno_servers_names:new()),
        Rows = [
            dyno_servers_row:row(Sum, ?SECOND)
         || Sum <- dyno_servers_window:sums(module, Window)
        ],
        {
            [is_number(P50) || #{p50 := P50} <- Rows],
            [Wall =/= none || #{callbacks := [#{wall := Wall}]} <- Sinks],
            [is_number(HighNs) || #{waited_p99 := {_, _, HighNs}} <- Rows]
        }
    end,
    ?assertEqual({[true, true], [true, true], [true, true]}, Told(0)),
    ?assertEqual({[false, true], [false, true], [false, true]}, Told(40)).

%% 5 of 100 were not timed, and may have been the longest, or the shortest.
a_percentile_that_the_missing_may_change(_Config) ->
    Of = fun(State, Times) ->
        Callback = (callback(~"handle_call", Times))#{count := 100, missed := 100 - length(Times)},
        Kid = (server(~"kid", kid, [Callback]))#{kind := module, state := State},
        [Sum] = dyno_servers_window:sums(process, dyno_servers_window:new([window([Kid])])),
        #{p50 := P50, p90 := P90, p99 := P99} = dyno_servers_row:row(Sum, ?SECOND),
        [is_number(P) || P <- [P50, P90, P99]]
    end,
    Like = lists:duplicate(95, 1000),
    ?assertEqual([true, true, false], Of(ended, Like)),
    Halves = lists:duplicate(48, 100) ++ lists:duplicate(47, 1000),
    ?assertEqual([false, true, false], Of(ended, Halves)),
    ?assertEqual([true, true, true], Of(alive, Like)),
    ?assertEqual([true, true, true], Of(ended, lists:duplicate(100, 1000))),
    ?assertEqual([false, false, false], Of(ended, lists:duplicate(85, 1000))).

%% With what to do, and with the limit if it is beyond that.
said(Row) ->
    case dyno_servers_findings:of_row(Row) of
        [] ->
            none;
        [#{severity := warning, limit := Limit, advice := <<_, _/binary>>, text := Text}] when
            is_number(Limit)
        ->
            Text;
        [#{severity := note, text := Text}] ->
            Text
    end.

blocked_is_what_is_not_on_a_processor(_Config) ->
    Server = server(~"a", x, [callback(~"handle_call", [500_000_000])]),
    [Row] = rows(process, [Server#{cpu_ns := 100_000_000}]),
    ?assert(abs(map_get(blocked, Row) - 0.4) < 1.0e-9),
    %% The processor's clock may be ahead by a little.
    [Ahead] = rows(process, [Server#{cpu_ns := 500_000_100}]),
    ?assertEqual(0.0, map_get(blocked, Ahead)).

without_wall_time_the_processor_tells(_Config) ->
    Callback = (callback(~"handle_call", [400_000_000]))#{wall := none, cpu_ns := 400_000_000},
    Server = (server(~"a", x, [Callback]))#{
        wall_ns := undefined,
        busy_ns := undefined,
        cpu_ns := 400_000_000,
        measured := call_time,
        why := ~"it was busy"
    },
    Hooked = server(~"b", x, [callback(~"handle_call", [100_000_000])]),
    [A, B] = rows(process, [Server, Hooked]),
    #{busy := undefined, p99 := undefined, why := ~"it was busy", cpu := Cpu} = A,
    ?assert(abs(Cpu - 0.4) < 1.0e-9),
    ?assertEqual(none, said(A)),
    ?assertMatch([#{name := ~"a"}, #{name := ~"b"}], dyno_servers_row:ranked(busy, [B, A])).

%% It worked before it had a hook: "busy=0% cpu=50.1%", and 19.8 % of the whole time for 22.7.
busy_is_not_less_than_on_a_processor(_Config) ->
    Server = server(~"a", x, [callback(~"handle_call", [1000])]),
    [Row] = rows(process, [Server#{busy_ns := 0, busy_of_ns := 500_000_000, cpu_ns := 500_000_000}]),
    ?assertMatch(#{busy := undefined, busy_low := 0.5, blocked := undefined}, Row).

%% Who does not look at a server has not seen that it does nothing.
what_is_not_looked_at_is_not_none(_Config) ->
    Server = (server(~"a", x, []))#{measured := none, busy_ns := undefined, wall_ns := undefined},
    Idle = server(~"b", x, []),
    [A, B] = rows(process, [Server, Idle]),
    ?assertMatch({#{rate := undefined, count := undefined}, #{rate := +0.0, count := 0}}, {A, B}),
    %% And comes last.
    ?assertEqual([B, A], dyno_servers_row:ranked(exceptions, [A, B])).

a_long_callback_is_named(_Config) ->
    Running = fun(Ns) ->
        Server = server(~"a", x, []),
        [Row] = rows(process, [Server#{running := #{callback => ~"handle_call", ns => Ns}}]),
        {map_get(running, Row), said(Row)}
    end,
    ?assertEqual(
        {~"handle_call, for 1.5 s", ~"a: still in handle_call, for 1.5 s, while 0 messages wait"},
        Running(1_500_000_000)
    ),
    ?assertEqual({undefined, none}, Running(100_000_000)).

names_as_the_language_writes_them(_Config) ->
    ?assertEqual(~"Shop.Orders", dyno_agent_name:module('Elixir.Shop.Orders')),
    ?assertEqual(~"orders", dyno_agent_name:module(orders)),
    ?assertEqual(~"'my server'", dyno_agent_name:module('my server')),
    [#{name := ~"Shop.Orders", module := ~"Shop.Orders"}] =
        rows(process, [server(~"Shop.Orders", 'Elixir.Shop.Orders', [])]).

ranks_and_filters(_Config) ->
    Of = fun(Name, Ns) -> server(Name, x, [callback(~"handle_call", [Ns])]) end,
    Rows = rows(process, [Of(~"orders", 1000), Of(~"Cache", 3000), Of(~"mail", 2000)]),
    Names = fun(List) -> [Name || #{name := Name} <- List] end,
    ?assertEqual(
        [~"Cache", ~"mail", ~"orders"], Names(dyno_servers_row:ranked(busy, Rows))
    ),
    ?assertEqual(
        [~"Cache", ~"mail", ~"orders"], Names(dyno_servers_row:ranked(name, Rows))
    ),
    ?assertEqual([~"Cache"], Names([Row || Row <- Rows, dyno_servers_row:is_like("cac", Row)])),
    ?assertEqual(3, length([Row || Row <- Rows, dyno_servers_row:is_like("SHOP_S", Row)])).

%% Pipelines

stage(Server, Kind, In, Out, Edges) ->
    Server#{
        behaviour := gen_stage,
        stage := #{
            kind => Kind,
            demand_asked => In,
            demand_received => Out,
            events_in => In,
            events_out => Out,
            batches => snapshot([10]),
            outstanding => 5,
            buffered => 0,
            discarded => 0,
            demand_to_event => none,
            subscriptions => Edges
        }
    }.

pipeline(BusyNs) ->
    A = server(~"numbers", numbers, [callback(~"handle_demand", [1000])]),
    B = server(~"doubler_1", doubler, [callback(~"handle_events", [BusyNs])]),
    C = server(~"doubler_2", doubler, [callback(~"handle_events", [BusyNs])]),
    D = server(~"printer", printer, [callback(~"handle_events", [1000])]),
    Edge = fun(#{pid := From}, #{pid := To}, N) -> #{from => From, to => To, events => N} end,
    [
        stage(A, producer, 0, 100, []),
        stage(B, producer_consumer, 60, 60, [Edge(A, B, 60)]),
        stage(C, producer_consumer, 40, 40, [Edge(A, C, 40)]),
        stage(D, consumer, 100, 0, [Edge(B, D, 60), Edge(C, D, 40)])
    ].

stages(BusyNs) ->
    #{servers := Sums} = dyno_servers_window:new([window(pipeline(BusyNs))]),
    dyno_servers_pipeline:stages(Sums, ?SECOND).

draws_a_pipeline(_Config) ->
    ?assertEqual(
        [
            ~"numbers          gives 100 /s, busy 0 %",
            ~"-> doubler_N x2  gets 100 /s, busy 90 %  <- the bottleneck",
            ~"   -> printer    gets 100 /s, busy 0 %",
            ~"doubler_N holds the pipeline up: it is busy 90 % of the time"
        ],
        dyno_servers_pipeline:draw(stages(900_000_000))
    ),
    #{stage := Stage} = Server = stage(server(~"burst", x, []), producer, 0, 0, []),
    Full = dyno_servers_window:new([window([Server#{stage := Stage#{discarded := 12}}])]),
    ?assertMatch(
        [~"burst  gives 0 /s, busy 0 %, threw 12 away", _],
        dyno_servers_pipeline:draw(
            dyno_servers_pipeline:stages(dyno_servers_window:sums(process, Full), ?SECOND)
        )
    ).

%% step_1 gives to step_2: by the kind of their names both are one.
draws_stages_of_one_name(_Config) ->
    First = server(~"step_1", step, [callback(~"handle_demand", [1000])]),
    Second = server(~"step_2", step, [callback(~"handle_events", [1000])]),
    Edge = #{from => map_get(pid, First), to => map_get(pid, Second), events => 10},
    Window = dyno_servers_window:new([
        window([stage(First, producer, 0, 10, []), stage(Second, consumer, 10, 0, [Edge])])
    ]),
    Stages = dyno_servers_pipeline:stages(dyno_servers_window:sums(process, Window), ?SECOND),
    ?assertMatch(
        [<<"step_N x2  gives 10 /s", _/binary>>, <<"-> step_N  (see above)">>, _],
        dyno_servers_pipeline:draw(Stages)
    ),
    ?assertEqual(
        [#{from => ~"step_N", to => ~"step_N", rate => 10.0}], dyno_servers_pipeline:flows(Stages)
    ).

names_the_bottleneck_or_none(_Config) ->
    ?assertEqual(
        [~"doubler_N"], [N || #{name := N, bottleneck := true} <- stages(900_000_000)]
    ),
    ?assertEqual([], [N || #{name := N, bottleneck := true} <- stages(1_000_000)]),
    ?assertEqual(
        ~"No stage is at its limit: the pipeline waits for events.",
        lists:last(dyno_servers_pipeline:draw(stages(1_000_000)))
    ),
    ?assertEqual([], dyno_servers_pipeline:draw([])).

%% Totals

%% Among many that end, also if it was folded away meanwhile.
a_name_that_comes_back_is_one_server(_Config) ->
    Callbacks = [callback(~"handle_call", [1000])],
    Of = fun(Name) -> (server(Name, job, Callbacks))#{kind => module, state := ended} end,
    Named = fun(State) -> (server(~"boss", job, Callbacks))#{state := State} end,
    Add = fun({N, Servers}, Total) ->
        dyno_servers_total:add(dyno_servers_window:new([window(N * ?SECOND, Servers)]), Total)
    end,
    Many = [Of(~"job") || _ <- lists:seq(1, 60)],
    Total = lists:foldl(Add, dyno_servers_total:new(), [
        {0, [Named(crashed)]}, {1, Many}, {2, Many}, {3, [Named(alive)]}
    ]),
    Boss = [Sum || #{labels := #{name := ~"boss"}} = Sum <- dyno_servers_total:servers(Total)],
    ?assertMatch([#{crashes := 1, alive := 1}], Boss),
    %% The ended ones are one row, whatever started them.
    Others = [
        (Of(~"task"))#{supervisor => <<"sup", (integer_to_binary(N))/binary>>}
     || N <- lists:seq(1, 100)
    ],
    Folded = lists:foldl(Add, dyno_servers_total:new(), [{N, Others} || N <- [0, 1, 2]]),
    ?assertMatch(
        [_],
        [
            Sum
         || #{labels := Labels} = Sum <- dyno_servers_total:servers(Folded),
            not is_map_key(pid, Labels)
        ]
    ).

a_total_is_bounded(_Config) ->
    Callbacks = [callback(~"handle_call", [1000])],
    Ended = fun(N) ->
        Server = server(<<"job_", (integer_to_binary(N))/binary>>, job, Callbacks),
        Server#{state := ended}
    end,
    Add = fun(N, Total) ->
        Servers = [Ended(N * 100 + M) || M <- lists:seq(1, 100)],
        dyno_servers_total:add(dyno_servers_window:new([window(N * ?SECOND, Servers)]), Total)
    end,
    Total = lists:foldl(Add, dyno_servers_total:new(), lists:seq(0, 49)),
    Sums = dyno_servers_total:servers(Total),
    ?assert(length(Sums) =< 1101, length(Sums)),
    %% Nothing is lost of the sum.
    [Row] = [
        dyno_servers_row:row(Sum, 50 * ?SECOND)
     || Sum <- dyno_servers_window:group(module, Sums)
    ],
    #{count := 5000, processes := 5000} = Row,
    ?assert(length(dyno_servers_total:points(Total)) =< 40),
    Server = server(~"a", x, Callbacks),
    Long = lists:foldl(
        fun(N, Acc) ->
            dyno_servers_total:add(dyno_servers_window:new([window(N * ?SECOND, [Server])]), Acc)
        end,
        dyno_servers_total:new(),
        lists:seq(0, 1999)
    ),
    [{~"a", Points}] = dyno_servers_total:points(Long),
    ?assert(length(Points) =< 600 andalso length(Points) >= 300, length(Points)),
    ?assert(element(1, lists:last(Points)) > 1990 * ?SECOND),
    ok.

%% It removes a handler that fails: that none was seen does not mean that there was none.
a_manager_hides_exceptions(_Config) ->
    Of = fun(Behaviour) ->
        Server = (server(~"events", events, [callback(~"(message)", [1000])]))#{
            behaviour := Behaviour
        },
        [Sum] = dyno_servers_window:sums(process, dyno_servers_window:new([window([Server])])),
        #{exceptions := All} = dyno_servers_row:row(Sum, ?SECOND),
        [#{exceptions := Each}] = dyno_servers_row:callbacks(Sum, ?SECOND),
        {All, Each}
    end,
    ?assertEqual({0, 0}, Of(gen_server)),
    ?assertEqual({undefined, undefined}, Of(gen_event)).

%% Of an event manager both messages and what each handler does of them.
no_more_are_missed_than_there_were(_Config) ->
    Of = fun(Name, Count) ->
        (callback(Name, [1000]))#{wall := none, count := Count, missed := Count}
    end,
    Callbacks = [Of(~"(message)", 100), Of(~"a: handle_event", 100), Of(~"b: handle_event", 100)],
    Manager = (server(~"events", gen_event, Callbacks))#{missed := 300},
    Window = dyno_servers_window:new([window([Manager])]),
    #{warnings := Warnings} = dyno_servers_recording:run(
        dyno_servers_total:add(Window, dyno_servers_total:new()),
        #{group => process, lost => #{}, dropped => 0, sinks => []}
    ),
    [Text] = [T || {~"missed", T} <- Warnings],
    ?assertMatch({_, _}, binary:match(Text, ~": 300 of 300 callbacks"), Text).

%% Of two nodes one is lost after the first of four windows.
a_lost_node_has_rates_of_its_own_time(_Config) ->
    Server = server(~"lo", lo, [callback(~"handle_call", [100_000_000])]),
    Of = fun(Node, N) -> (window(N * ?SECOND, [Server]))#{node := Node} end,
    Windows = [[Of('a@h', 0), Of('b@h', 0)] | [[Of('b@h', N)] || N <- [1, 2, 3]]],
    Total = lists:foldl(
        fun(Sent, Acc) -> dyno_servers_total:add(dyno_servers_window:new(Sent), Acc) end,
        dyno_servers_total:new(),
        Windows
    ),
    #{tables := Tables} = dyno_servers_recording:run(Total, #{
        group => process, lost => #{}, dropped => 0, sinks => []
    }),
    [#{columns := Columns, rows := Rows}] = [T || #{name := ~"servers"} = T <- Tables],
    Cell = fun(Name, Row) ->
        hd([C || {#{name := Of1}, C} <- lists:zip(Columns, Row), Of1 =:= Name])
    end,
    ?assertEqual(
        [{~"lo of a@h", 1.0, 0.1}, {~"lo of b@h", 1.0, 0.1}],
        lists:sort([{Cell(~"server", R), Cell(~"rate", R), Cell(~"busy", R)} || R <- Rows])
    ).

%% Before there was a hook the server may have been idle.
busy_before_the_hook_is_unknown(_Config) ->
    Callback = (callback(~"handle_call", [600_000_000]))#{count := 3, missed := 2},
    Server = (server(~"s", s, [Callback]))#{missed := 2, busy_of_ns := 600_000_000},
    ?assertMatch([#{busy := 1.0, busy_low := 0.6}], rows(process, [Server])),
    ?assertMatch([#{busy_low := undefined}], rows(process, [Server#{missed := 0}])).

one_that_was_missed_may_be_the_longest(_Config) ->
    Longest = fun(Missed) ->
        Callback = callback(~"handle_call", [10_000, 30_000]),
        Server = (server(~"s", s, [Callback#{count := 2 + Missed, missed := Missed}]))#{
            missed := Missed
        },
        Total = dyno_servers_total:add(
            dyno_servers_window:new([window([Server])]), dyno_servers_total:new()
        ),
        #{tables := Tables} = dyno_servers_recording:run(Total, #{
            group => process, lost => #{}, dropped => 0, sinks => []
        }),
        [
            maps:from_list([
                {Name, Cell}
             || {#{name := Name}, Cell} <- lists:zip(Columns, Row),
                lists:member(Name, [~"max", ~"max_low"])
            ])
         || #{name := Table, columns := Columns, rows := [Row]} <- Tables,
            lists:member(Table, [~"servers", ~"callbacks"])
        ]
    end,
    [?assertMatch(#{~"max" := Ns, ~"max_low" := Ns}, Of) || Of <- [_, _] = Longest(1)],
    [?assertNot(is_map_key(~"max_low", Of)) || Of <- [_, _] = Longest(0)].

a_recording_is_valid_and_shown(_Config) ->
    Blocked = (server(~"blocked", blocker, [callback(~"handle_call", [800_000_000])]))#{
        tags := [
            #{tag => ~"get", callback => ~"handle_call", count => 1, wall_ns => 700_000_000},
            #{tag => ~"put", callback => ~"handle_call", count => 9, wall_ns => 100_000_000}
        ],
        cpu_ns := 1_000_000
    },
    Twice = [
        (server(~"pool", pool, [callback(~"handle_info", [1000])]))#{kind := module}
     || _ <- [1, 2]
    ],
    Window = dyno_servers_window:new([window([Blocked | Twice] ++ pipeline(900_000_000))]),
    Total = dyno_servers_total:add(Window, dyno_servers_total:new()),
    Run = dyno_servers_recording:run(Total, #{
        group => process,
        lost => #{},
        dropped => 2,
        sinks => [{~"statsd://x:1", #{failed => 1, dropped => 0, last => ~"no route"}}]
    }),
    Warnings = map_get(warnings, Run),
    ?assertEqual([~"sink", ~"windows_dropped"], lists:sort([Code || {Code, _} <- Warnings])),
    Ended = #{
        ending => #{status => complete}, duration_ns => 1_000_000_000, lost => #{}, warnings => []
    },
    Document = dyno_observed:document(Ended, #{
        command => servers,
        nodes => ['shop@here'],
        parameters => #{},
        environment => dyno_environment:collect(),
        facts => [#{name => 'shop@here'}],
        visits => [],
        run => maps:remove(warnings, Run),
        warnings => Warnings
    }),
    {ok, _} = dyno_recording:validate(json:decode(iolist_to_binary(json:encode(Document)))),
    [#{} = Recorded] = dyno_recording:runs(Document),
    Servers = [Name || #{~"server" := Name} <- dyno_recording:rows(Recorded, ~"servers")],
    ?assertEqual(length(lists:usort(Servers)), length(Servers)),
    ?assert(lists:member(~"blocked", Servers)),
    {ok, Text} = dyno_report:render(console, Document, #{width => 80}),
    Shown = iolist_to_binary(Text),
    Unwrapped = re:replace(Shown, "\\s+", " ", [global, {return, binary}]),
    lists:foreach(
        fun(Part) -> ?assertNotEqual({Part, nomatch}, {Part, string:find(Unwrapped, Part)}) end,
        [
            "NOTE blocked: saturates at 1.2 times today's rate",
            "blocked 79.9 %",
            "most of it in get, 700 ms each",
            "doubler_N holds the pipeline up",
            "handle_info",
            "statsd://x:1"
        ]
    ),
    [
        ?assert(dyno_report_text:width(Line) =< 80, Line)
     || Line <- binary:split(Shown, ~"\n", [global])
    ],
    lists:foreach(
        fun({Written, Result}) ->
            {ok, Threshold} = dyno_threshold:parse(Written),
            ok = dyno_threshold:check(Threshold, dyno_servers_recording:known()),
            [#{~"result" := Is}] = dyno_threshold:evaluate(Threshold, Document),
            ?assertEqual({Written, Result}, {Written, Is})
        end,
        [
            {"servers blocked p99 < 900 ms", ~"pass"},
            {"servers blocked busy < 50 %", ~"fail"},
            {"callbacks \"blocked handle_call\" max < 900 ms", ~"pass"},
            {"messages \"blocked get\" count == 1", ~"pass"},
            {"stages doubler_N busy < 50 %", ~"fail"},
            {"server_modules pool processes == 2", ~"pass"},
            {"servers.busy.max < 2", ~"pass"}
        ]
    ).

%% It ends well below the limit only.
an_alarm_rings_once(_Config) ->
    Server = server(~"a", x, []),
    Self = self(),
    Handler = binary_to_atom(
        <<"h", (integer_to_binary(erlang:unique_integer([positive])))/binary>>
    ),
    ok = logger:add_handler(Handler, ?MODULE, #{config => #{pid => Self}}),
    try
        Window = fun(Queue) ->
            dyno_servers_window:new([window([Server#{queue_now := Queue, queue_max := Queue}])])
        end,
        Watch = dyno_servers_watch:new([#{'of' => queue, above => 100}]),
        lists:foldl(
            fun({Queue, Level}, State) ->
                {Events, New} = dyno_servers_watch:window(Window(Queue), State),
                lists:foreach(fun dyno_servers_watch:tell/1, Events),
                ?assertEqual({Queue, Level}, {Queue, logged()}),
                New
            end,
            Watch,
            [
                {50, none},
                {100, none},
                {101, warning},
                {150, none},
                {90, none},
                {79, notice},
                {90, none},
                {101, warning}
            ]
        )
    after
        logger:remove_handler(Handler)
    end.

log(#{level := Level, msg := {"~ts", [<<"the message queue", _/binary>>]}}, #{
    config := #{pid := Pid}
}) ->
    Pid ! {logged, Level};
log(_, _) ->
    ok.

logged() ->
    receive
        {logged, Level} -> Level
    after 0 -> none
    end.
