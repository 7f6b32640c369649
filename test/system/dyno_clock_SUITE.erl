%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_clock_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [{group, with_nif}, {group, without_nif}, {group, this_node}].

groups() ->
    Both = [edges_have_every_field, wall_time_passes, missing_is_said, an_edge_is_cheap],
    [
        {with_nif, [],
            Both ++
                [
                    processor_time_is_measured,
                    waiting_takes_no_processor_time,
                    lost_processor_time_is_seen,
                    two_threads_are_not_compared
                ]},
        {without_nif, [], Both ++ [a_broken_library_is_no_error]},
        {this_node, [], [it_works_as_it_was_built]}
    ].

init_per_group(with_nif, Config) ->
    Priv = code:priv_dir(dyno),
    Nif = filename:join(["nif-" ++ erlang:system_info(nif_version), "dyno_clock_nif.so"]),
    case filelib:is_regular(filename:join(Priv, Nif)) of
        true -> [{available, true}, {priv, Priv} | Config];
        false -> {skip, "the NIF was not built: run make with a C compiler installed"}
    end;
init_per_group(without_nif, Config) ->
    [{available, false}, {priv, ""} | Config];
init_per_group(this_node, Config) ->
    Config.

end_per_group(_Group, _Config) ->
    ok.

%% A node in which no application dyno is on the path, so that the variable alone decides.
init_per_testcase(a_broken_library_is_no_error = Case, Config) ->
    Priv = filename:join(?config(priv_dir, Config), "broken"),
    File = filename:join(["nif-" ++ erlang:system_info(nif_version), "dyno_clock_nif.so"]),
    ok = filelib:ensure_dir(filename:join(Priv, File)),
    ok = file:write_file(filename:join(Priv, File), "not a library"),
    start(Case, [{priv, Priv} | proplists:delete(priv, Config)]);
init_per_testcase(it_works_as_it_was_built, Config) ->
    Config;
init_per_testcase(Case, Config) ->
    start(Case, Config).

start(Case, Config) ->
    Schedulers = integer_to_list(schedulers(Case)),
    {ok, Peer, _Node} = peer:start_link(#{
        connection => standard_io,
        env => [{"DYNO_PRIV", ?config(priv, Config)}],
        args => ["+S", Schedulers ++ ":" ++ Schedulers]
    }),
    _ = [load(Peer, Module) || Module <- [dyno_clock, ?MODULE]],
    [{peer, Peer} | Config].

load(Peer, Module) ->
    {Module, Binary, File} = code:get_object_code(Module),
    {module, Module} = peer:call(Peer, code, load_binary, [Module, File, Binary]).

%% Twice as many busy threads as the machine has cores.
schedulers(lost_processor_time_is_seen) ->
    min(1024, 2 * max(2, erlang:system_info(logical_processors)));
schedulers(_) ->
    2.

end_per_testcase(it_works_as_it_was_built, _Config) ->
    ok;
end_per_testcase(_Case, Config) ->
    peer:stop(?config(peer, Config)).

in_peer(Config, Module, Function, Arguments) ->
    peer:call(?config(peer, Config), Module, Function, Arguments, 60_000).

edges_have_every_field(Config) ->
    Edge = in_peer(Config, dyno_clock, thread, []),
    #{wall_ns := Wall, scheduler := Scheduler} = Edge,
    ?assert(is_integer(Wall)),
    ?assert(Scheduler >= 1),
    Own = [thread, cpu_ns, wait_ns],
    ?assertEqual(lists:sort([wall_ns, scheduler | Own]), lists:sort(maps:keys(Edge))),
    case ?config(available, Config) of
        true ->
            %% Whether there is a waiting time is the kernel's affair.
            [?assert(is_integer(map_get(Key, Edge)), Key) || Key <- [thread, cpu_ns]];
        false ->
            [?assertEqual(undefined, map_get(Key, Edge)) || Key <- Own]
    end.

wall_time_passes(Config) ->
    Interval = in_peer(Config, ?MODULE, idle_for, [20]),
    ?assert(map_get(wall_ns, Interval) >= 20_000_000),
    case ?config(available, Config) of
        true -> ?assert(is_integer(map_get(cpu_ns, Interval)));
        false -> ?assertEqual([undefined], lists:usort(maps:values(maps:remove(wall_ns, Interval))))
    end.

missing_is_said(Config) ->
    ?assertEqual(?config(available, Config), in_peer(Config, dyno_clock, available, [])),
    case {?config(available, Config), in_peer(Config, dyno_clock, missing, [])} of
        {true, Answer} ->
            ?assertEqual(none, Answer);
        {false, {missing, Text}} ->
            Sentence = unicode:characters_to_binary(Text),
            ?assertMatch({_, _}, binary:match(Sentence, ~"run make")),
            ?assertMatch({_, _}, binary:match(Sentence, ~"dyno_clock_nif.so"))
    end.

processor_time_is_measured(Config) ->
    #{cpu_ns := Cpu, wall_ns := Wall} = in_peer(Config, ?MODULE, work_for, [50_000_000]),
    ?assert(Cpu >= 50_000_000),
    ?assert(Cpu =< Wall + Wall div 100, {Cpu, Wall}).

waiting_takes_no_processor_time(Config) ->
    #{cpu_ns := Cpu, wall_ns := Wall} = in_peer(Config, ?MODULE, idle_for, [200]),
    ?assert(Cpu < Wall div 2, {Cpu, Wall}).

lost_processor_time_is_seen(Config) ->
    case in_peer(Config, ?MODULE, compete, []) of
        no_waiting_time ->
            {skip, "this system does not tell a thread's waiting time"};
        #{wait_ns := Wait, cpu_ns := Cpu, wall_ns := Wall} ->
            ?assert(Wait >= 20_000_000),
            ?assert(Cpu < Wall)
    end.

two_threads_are_not_compared(Config) ->
    #{thread := Thread, wall_ns := Wall} = Edge = in_peer(Config, dyno_clock, thread, []),
    Other = Edge#{thread := Thread + 1, wall_ns := Wall + 5},
    ?assertMatch(
        #{wall_ns := 5, cpu_ns := undefined, wait_ns := undefined},
        dyno_clock:difference(Edge, Other)
    ),
    ?assertMatch(#{wall_ns := 0, cpu_ns := 0}, dyno_clock:difference(Edge, Edge)).

%% The bound is the style guide's for a NIF that is not dirty; busy machines are slower than it.
an_edge_is_cheap(Config) ->
    Us = in_peer(Config, ?MODULE, microseconds_an_edge, []),
    ct:pal("dyno_clock:thread/0 takes ~.2f us (median), available: ~p", [
        Us, ?config(available, Config)
    ]),
    ?assert(Us < 100).

a_broken_library_is_no_error(Config) ->
    ?assertNot(in_peer(Config, dyno_clock, available, [])),
    {missing, Text} = in_peer(Config, dyno_clock, missing, []),
    ?assertMatch({_, _}, binary:match(unicode:characters_to_binary(Text), ~"does not load")).

%% Here the application's own priv folder decides, as for every user.
it_works_as_it_was_built(_Config) ->
    File = filename:join([
        code:priv_dir(dyno), "nif-" ++ erlang:system_info(nif_version), "dyno_clock_nif.so"
    ]),
    Built = filelib:is_regular(File),
    ?assertEqual(Built, dyno_clock:available()),
    ?assertEqual(Built, dyno_clock:missing() =:= none),
    #{cpu_ns := Cpu, wall_ns := Wall} = idle_for(1),
    ?assert(Wall >= 1_000_000),
    ?assertEqual(Built, is_integer(Cpu)).

%% Run in the other node, on one scheduler: the clocks are those of its thread

work_for(CpuNs) ->
    on_one_scheduler(fun() ->
        Before = dyno_clock:thread(),
        work_until(Before, fun(#{cpu_ns := Cpu}) -> Cpu >= CpuNs end)
    end).

idle_for(Ms) ->
    on_one_scheduler(fun() ->
        Before = dyno_clock:thread(),
        receive
        after Ms -> dyno_clock:difference(Before, dyno_clock:thread())
        end
    end).

%% All schedulers compute; the first of them tells when it has waited for 20 ms in all.
compete() ->
    _ = [
        spawn_opt(fun spin/0, [link, {scheduler, Scheduler}])
     || Scheduler <- lists:seq(2, erlang:system_info(schedulers_online))
    ],
    on_one_scheduler(fun() ->
        case dyno_clock:thread() of
            #{wait_ns := undefined} ->
                no_waiting_time;
            Before ->
                work_until(Before, fun(#{wait_ns := Wait}) -> Wait >= 20_000_000 end)
        end
    end).

microseconds_an_edge() ->
    on_one_scheduler(fun() ->
        Times = [
            element(1, timer:tc(fun edges/0, nanosecond)) / 100_000
         || _ <- lists:seq(1, 51)
        ],
        lists:nth(26, lists:sort(Times))
    end).

edges() ->
    _ = [dyno_clock:thread() || _ <- lists:seq(1, 100)],
    ok.

work_until(Before, Enough) ->
    work(100_000),
    Interval = dyno_clock:difference(Before, dyno_clock:thread()),
    case Enough(Interval) of
        true -> Interval;
        false -> work_until(Before, Enough)
    end.

on_one_scheduler(Fun) ->
    Self = self(),
    Pid = spawn_opt(fun() -> Self ! {self(), Fun()} end, [link, {scheduler, 1}]),
    receive
        {Pid, Result} -> Result
    end.

spin() ->
    work(100_000),
    spin().

work(0) -> ok;
work(N) -> work(N - 1).
