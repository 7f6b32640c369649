%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_os_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        a_current_machine,
        every_value_can_be_had,
        an_old_kernel,
        a_container_with_limits,
        a_container_of_the_first_version,
        a_container_seen_from_its_host,
        a_container_without_a_limit,
        no_proc_at_all,
        broken_files_never_crash,
        counters_that_run_backwards,
        an_empty_interval_has_no_rates,
        disks_count_once,
        interfaces_count_once,
        description_matches_this_machine,
        the_processor_time_of_this_vm,
        no_file_server,
        reading_makes_no_atoms,
        reading_is_cheap
    ].

%% Known machines

a_current_machine(_Config) ->
    %% Two seconds between the two.
    Values = between(current_machine(0), current_machine(1), 2_000_000_000),
    %% 200 ticks: 110 user and 10 niced, 20 + 4 + 6 system and interrupts, 20 waiting, 10 stolen.
    equal(
        #{
            ~"os.cpu.user" => 0.6,
            ~"os.cpu.system" => 0.15,
            ~"os.cpu.iowait" => 0.1,
            ~"os.cpu.steal" => 0.05,
            ~"os.cpu.idle" => 0.1,
            ~"os.context_switches" => 25_000.0,
            ~"os.load1" => 1.52,
            ~"os.memory.available" => 12_000_000 * 1024,
            ~"os.memory.page_cache" => (3_500_000 + 250_000) * 1024,
            ~"os.swap.used" => 48_000 * 1024,
            %% 30 reads in 60 ms, 60 writes in 240 ms, 10 discards in 0 ms.
            ~"os.disk.await" => 3.0,
            ~"os.network.received" => 500_000.0,
            ~"os.network.sent" => 250_000.0,
            ~"os.network.loopback" => 1_000.0,
            ~"os.vm.cpu" => 1.25,
            ~"os.vm.rss" => 250_000 * 1024,
            ~"os.vm.swap" => 80 * 1024,
            ~"os.vm.threads" => 23
        },
        Values
    ).

%% A name that describe/0 does not know would be shown nowhere; and the other way round.
every_value_can_be_had(_Config) ->
    Texts = maps:merge(current_machine(0), container(~"0::/\n", ~"/sys/fs/cgroup")),
    Later = maps:merge(current_machine(1), container(~"0::/\n", ~"/sys/fs/cgroup")),
    Values = between(Texts, Later, 1_000_000_000),
    ?assertEqual(
        lists:sort([Name || #{name := Name} <- dyno_agent_os:all()]), lists:sort(maps:keys(Values))
    ).

%% Linux before 4.18 has 11 fields of a disk, and older ones no MemAvailable and no blank behind the
%% colon of an interface: what is missing has no value, all else has.
an_old_kernel(_Config) ->
    Texts = fun(N) ->
        #{
            ~"/proc/stat" => text([
                ["cpu  ", fields([100 + 50 * N, 0, 0, 50 + 40 * N, 10 * N, 0, 0, 0])],
                "ctxt 1000"
            ]),
            ~"/proc/meminfo" => text([
                "MemTotal:   1000 kB",
                "MemFree:    100 kB",
                "Buffers:    20 kB",
                "Cached:     300 kB"
            ]),
            ~"/proc/diskstats" => text([
                ["   8    0 sda ", fields([10 + 10 * N, 0, 0, 40 + 70 * N, 5, 0, 0, 5, 0, 0, 0])],
                %% A partition with four fields.
                "   8    1 sda1 100 200 300 400"
            ]),
            ~"/proc/self/net/dev" => text([
                "Inter-|   Receive                        |  Transmit",
                " face |bytes packets errs drop fifo frame compressed multicast|bytes packets",
                [
                    "  eth0:4294967296 1 0 0 0 0 0 0 ",
                    integer_to_list(1000 + 500 * N),
                    " 1 0 0 0 0 0 0"
                ]
            ])
        }
    end,
    equal(
        #{
            ~"os.cpu.user" => 0.5,
            ~"os.cpu.system" => 0.0,
            ~"os.cpu.iowait" => 0.1,
            ~"os.cpu.idle" => 0.4,
            ~"os.context_switches" => 0.0,
            ~"os.cpu.steal" => 0.0,
            ~"os.memory.page_cache" => 320 * 1024,
            ~"os.disk.await" => 7.0,
            ~"os.network.received" => 0.0,
            ~"os.network.sent" => 500.0
        },
        between(Texts(0), Texts(1), 1_000_000_000)
    ).

a_container_with_limits(_Config) ->
    Texts = maps:merge(current_machine(0), container(~"0::/\n", ~"/sys/fs/cgroup")),
    limits_hold(Texts).

%% Without a namespace the path is the host's; the files are there, or at the root.
a_container_seen_from_its_host(_Config) ->
    Group = ~"12:memory:/other\n0::/system.slice/docker-1f.scope\n",
    Folder = ~"/sys/fs/cgroup/system.slice/docker-1f.scope",
    limits_hold(maps:merge(current_machine(0), container(Group, Folder))),
    limits_hold(maps:merge(current_machine(0), container(Group, ~"/sys/fs/cgroup"))).

%% The group has no limits, or wider ones than the groups around it.
a_group_within_others(_Config) ->
    Around = container(~"0::/shop.slice/web/node\n", ~"/sys/fs/cgroup/shop.slice"),
    Own = fun(File) -> <<"/sys/fs/cgroup/shop.slice/web/node/", File/binary>> end,
    Texts = maps:merge(current_machine(0), Around),
    limits_hold(Texts#{Own(~"memory.max") => ~"max\n", Own(~"cpu.max") => ~"max 100000\n"}),
    limits_hold(Texts#{
        Own(~"memory.max") => ~"900000000\n",
        Own(~"memory.current") => ~"390000000\n",
        Own(~"cpu.max") => ~"170000 100000\n",
        Own(~"cpu.stat") => text(["nr_throttled 0", "throttled_usec 0"])
    }),
    First = (current_machine(0))#{
        ~"/proc/self/cgroup" => ~"1:cpu:/shop/web\n",
        ~"/sys/fs/cgroup/cpu/shop/web/cpu.cfs_quota_us" => ~"-1\n",
        ~"/sys/fs/cgroup/cpu/shop/web/cpu.cfs_period_us" => ~"100000\n",
        ~"/sys/fs/cgroup/cpu/shop/cpu.cfs_quota_us" => ~"30000\n",
        ~"/sys/fs/cgroup/cpu/shop/cpu.cfs_period_us" => ~"100000\n"
    },
    ?assertMatch(#{~"os.cgroup.cpu.limit" := 0.3}, between(First, First, 1_000_000_000)).

%% Each controller of version 1 has a folder of its own, and a number for no limit.
a_container_of_the_first_version(_Config) ->
    Group = ~"4:memory:/docker/1f\n2:cpuacct:/\n1:cpu,other:/docker/1f\n0::/\n",
    Texts = (current_machine(0))#{
        ~"/proc/self/cgroup" => Group,
        ~"/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes" => ~"512000000\n",
        ~"/sys/fs/cgroup/memory/docker/1f/memory.usage_in_bytes" => ~"400000000\n",
        ~"/sys/fs/cgroup/memory/docker/1f/memory.stat" => text([
            "inactive_file 7", "total_inactive_file 100000000"
        ]),
        ~"/sys/fs/cgroup/cpu/cpu.stat" => text(["nr_throttled 3", "throttled_time 5000000"]),
        ~"/sys/fs/cgroup/cpu/cpu.cfs_quota_us" => ~"30000\n",
        ~"/sys/fs/cgroup/cpu/cpu.cfs_period_us" => ~"20000\n"
    },
    limits_hold(Texts),
    None = Texts#{
        ~"/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes" := ~"9223372036854771712\n",
        ~"/sys/fs/cgroup/cpu/cpu.cfs_quota_us" := ~"-1\n"
    },
    Values = between(None, None, 1_000_000_000),
    [] = [Name || <<"os.cgroup.", Of/binary>> = Name <- maps:keys(Values), Of =/= ~"throttled"].

limits_hold(Texts) ->
    Throttled = maps:map(
        fun(Path, Text) ->
            case filename:basename(Path) of
                ~"cpu.stat" -> binary:replace(Text, ~" 5000", ~" 255000");
                _ -> Text
            end
        end,
        Texts
    ),
    Values = between(Texts, Throttled, 1_000_000_000),
    equal(
        #{
            ~"os.cgroup.memory.limit" => 512_000_000,
            ~"os.cgroup.memory.used" => 300_000_000,
            ~"os.memory.available" => 212_000_000,
            ~"os.cgroup.cpu.limit" => 1.5,
            ~"os.cgroup.throttled" => 0.25
        },
        maps:with(
            [
                ~"os.cgroup.memory.limit",
                ~"os.cgroup.memory.used",
                ~"os.memory.available",
                ~"os.cgroup.cpu.limit",
                ~"os.cgroup.throttled"
            ],
            Values
        )
    ).

a_container_without_a_limit(_Config) ->
    Container = container(~"0::/\n", ~"/sys/fs/cgroup"),
    Texts = maps:merge(current_machine(0), Container#{~"/sys/fs/cgroup/memory.max" := ~"max\n"}),
    Values = between(Texts, Texts, 1_000_000_000),
    ?assertNot(is_map_key(~"os.cgroup.memory.limit", Values)),
    ?assertEqual(12_000_000 * 1024, map_get(~"os.memory.available", Values)).

%% Bad input

no_proc_at_all(_Config) ->
    ?assertEqual(#{}, between(#{}, #{}, 1_000_000_000)).

broken_files_never_crash(_Config) ->
    Whole = current_machine(0),
    [
        begin
            Cut = binary:part(Text, 0, Length),
            Values = between(Whole#{Path := Cut}, Whole#{Path := Cut}, 1_000_000_000),
            ?assert(lists:all(fun is_number/1, maps:values(Values)))
        end
     || Path := Text <- Whole, Length <- lists:seq(0, byte_size(Text))
    ].

counters_that_run_backwards(_Config) ->
    Values = between(current_machine(1), current_machine(0), 1_000_000_000),
    [
        ?assertNot(is_map_key(Name, Values))
     || Name <- [~"os.network.received", ~"os.disk.await", ~"os.vm.cpu", ~"os.cpu.user"]
    ],
    ?assert(is_map_key(~"os.memory.available", Values)).

an_empty_interval_has_no_rates(_Config) ->
    Values = between(current_machine(0), current_machine(1), 0),
    ?assertNot(is_map_key(~"os.network.received", Values)),
    ?assert(is_map_key(~"os.vm.rss", Values)).

%% What counts

disks_count_once(_Config) ->
    Disk = fun(Name, Count, Ms) ->
        [" 8 0 ", Name, " ", fields([Count, 0, 0, Ms, 0, 0, 0, 0, 0, 0, 0])]
    end,
    Texts = fun(N) ->
        #{
            ~"/proc/diskstats" => text([
                Disk(Name, Count * N, Ms * N)
             || {Name, Count, Ms} <- [
                    {"sda", 10, 10},
                    {"sda1", 10, 10_000},
                    {"sda12", 10, 10_000},
                    {"nvme0n1", 10, 20},
                    {"nvme0n1p3", 10, 10_000},
                    {"nvme0n11", 10, 30},
                    {"mmcblk0", 10, 40},
                    {"mmcblk0p1", 10, 10_000},
                    {"vdb1", 10, 50},
                    {"dm-0", 10, 10_000},
                    {"md127", 10, 10_000},
                    {"loop3", 10, 10_000},
                    {"zram0", 10, 10_000},
                    {"sr0", 10, 10_000}
                ]
            ])
        }
    end,
    %% vdb1 counts: a container may be shown a partition without its disk.
    equal(#{~"os.disk.await" => 3.0}, between(Texts(1), Texts(2), 1_000_000_000)),
    equal(#{}, between(Texts(1), Texts(1), 1_000_000_000)).

interfaces_count_once(_Config) ->
    Line = fun({Name, Bytes}) -> [Name, ": ", fields([Bytes | lists:duplicate(15, 7)])] end,
    Texts = fun(Interfaces) ->
        #{~"/proc/self/net/dev" => text([Line(Interface) || Interface <- Interfaces])}
    end,
    Once = [{"lo", 5}, {"eth0", 100}, {"enp3s0", 20}],
    Twice = [
        {"docker0", 1}, {"veth12ab", 1}, {"br-0a", 1}, {"eth0.100", 1}, {"bond0", 1}, {"ifb1", 1}
    ],
    Received = fun(Interfaces) ->
        Zero = [{Name, 0} || {Name, _} <- Interfaces],
        Values = between(Texts(Zero), Texts(Interfaces), 1_000_000_000),
        map_get(~"os.network.received", Values)
    end,
    ?assertEqual(120.0, float(Received(Once ++ Twice))),
    %% Where there is nothing else, they are all there is.
    ?assertEqual(6.0, float(Received(Twice))).

%% This machine

description_matches_this_machine(_Config) ->
    {Values, _} = measured(fun() -> spin_ms(100) end),
    Shares = [Share || <<"os.cpu.", _/binary>> := Share <- Values],
    ?assert(Shares =:= [] orelse abs(lists:sum(Shares) - 1) < 1.0e-9),
    Names = [Name || #{name := Name} <- dyno_agent_os:describe()],
    %% Without a completed disk request in the interval, its time is not to be had.
    ?assertEqual([], maps:keys(maps:without(Names, Values))),
    ?assertEqual([], (Names -- maps:keys(Values)) -- [~"os.disk.await"]),
    [
        ?assertMatch(#{unit := <<_, _/binary>>, title := <<_, _/binary>>, group := ~"os"}, Metric)
     || Metric <- dyno_agent_os:describe()
    ].

%% A scheduler was busy for as long as the work took on the processor, which the VM itself tells.
the_processor_time_of_this_vm(_Config) ->
    only_with_proc(fun() ->
        _ = erlang:statistics(runtime),
        {Values, Seconds} = measured(fun() -> spin_ms(1000) end),
        {_, RuntimeMs} = erlang:statistics(runtime),
        %% Both are read from the same counters, a little apart: 20 ms and a hundredth of slack.
        Measured = map_get(~"os.vm.cpu", Values) * Seconds * 1000,
        ?assert(abs(Measured - RuntimeMs) < 60 + RuntimeMs / 20, {Measured, RuntimeMs})
    end).

no_file_server(_Config) ->
    ?assert(asks_file_server(fun() -> file:read_file("/proc/stat") end)),
    ?assertNot(asks_file_server(fun dyno_agent_os:read/0)).

asks_file_server(Action) ->
    Server = whereis(file_server_2),
    Self = self(),
    Session = trace:session_create(?MODULE, Self, []),
    1 = trace:process(Session, Server, true, ['receive']),
    _ = Action(),
    Delivered = trace:delivered(Session, Server),
    ok =
        receive
            {trace_delivered, Server, Delivered} -> ok
        end,
    true = trace:session_destroy(Session),
    receive
        {trace, Server, 'receive', {'$gen_call', {Self, _}, _}} -> true
    after 0 -> false
    end.

reading_makes_no_atoms(_Config) ->
    Raw = dyno_agent_os:read(),
    _ = dyno_agent_os:difference(Raw, dyno_agent_os:read()),
    Atoms = erlang:system_info(atom_count),
    [dyno_agent_os:difference(Raw, dyno_agent_os:read()) || _ <- lists:seq(1, 20)],
    ?assertEqual(Atoms, erlang:system_info(atom_count)).

%% The bound is generous, for busy machines: it is there to catch a file that is costly to read.
reading_is_cheap(_Config) ->
    Times = [element(1, timer:tc(fun dyno_agent_os:read/0)) || _ <- lists:seq(1, 101)],
    Us = lists:nth(51, lists:sort(Times)),
    ct:pal("dyno_agent_os:read/0 takes ~b us (median)", [Us]),
    ?assert(Us < 20_000).

%% Helpers

only_with_proc(Test) ->
    case filelib:is_regular("/proc/self/stat") of
        true -> Test();
        false -> {skip, "this system has no /proc"}
    end.

between(Earlier, Later, DurationNs) ->
    dyno_agent_os:difference(
        dyno_agent_os:parse(Earlier, -5), dyno_agent_os:parse(Later, DurationNs - 5)
    ).

measured(Work) ->
    Start = erlang:monotonic_time(nanosecond),
    Before = dyno_agent_os:read(),
    Work(),
    After = dyno_agent_os:read(),
    {
        dyno_agent_os:difference(Before, After),
        (erlang:monotonic_time(nanosecond) - Start) / 1.0e9
    }.

spin_ms(Ms) ->
    spin_until(erlang:monotonic_time(millisecond) + Ms).

spin_until(End) ->
    _ = lists:sum(lists:seq(1, 10_000)),
    case erlang:monotonic_time(millisecond) < End of
        true -> spin_until(End);
        false -> ok
    end.

equal(Expected, Values) ->
    ?assertEqual(lists:sort(maps:keys(Expected)), lists:sort(maps:keys(Values))),
    [
        ?assert(abs(Value - map_get(Name, Values)) =< 1.0e-9 * abs(Value), {Name, Values})
     || Name := Value <- Expected
    ].

fields(Numbers) ->
    lists:join(" ", [integer_to_list(Number) || Number <- Numbers]).

%% The first numbers, and N times more.
later(N, First, More) ->
    Numbers = fun(Text) -> [list_to_integer(W) || W <- string:lexemes(Text, " ")] end,
    fields(lists:zipwith(fun(A, B) -> A + N * B end, Numbers(First), Numbers(More))).

text(Lines) ->
    iolist_to_binary([[Line, $\n] || Line <- Lines]).

%% Linux 6.1, the second of two readings when N is 1.
current_machine(N) ->
    #{
        ~"/proc/stat" => text([
            [
                "cpu  ",
                later(
                    N, "1000 50 300 9000 40 0 12 3 700 0", "110 10 20 20 20 4 6 10 60 0"
                )
            ],
            "cpu0 999 0 0 0 0 0 0 0 0 0",
            "intr 212718 0 0 33",
            ["ctxt ", integer_to_list(519092 + 50_000 * N)],
            "btime 1795247317",
            "softirq 153829 0 18091"
        ]),
        ~"/proc/meminfo" => text([
            "MemTotal:       16384000 kB",
            "MemFree:         1000000 kB",
            "MemAvailable:   12000000 kB",
            "Buffers:          250000 kB",
            "Cached:          3500000 kB",
            "SwapCached:         1000 kB",
            "SwapTotal:       2048000 kB",
            "SwapFree:        2000000 kB"
        ]),
        ~"/proc/diskstats" => text([
            [
                " 259       0 nvme0n1 ",
                later(
                    N,
                    "500 1 2 700 900 3 4 800 0 5 6 0 0 0 0 1 2",
                    "30 0 0 60 60 0 0 240 0 0 0 10 0 0 0 0 0"
                )
            ],
            [" 259       1 nvme0n1p1 ", fields([N * 1000 || _ <- lists:seq(1, 17)])],
            [" 253       0 dm-0 ", fields([N * 1000 || _ <- lists:seq(1, 17)])]
        ]),
        ~"/proc/self/net/dev" => text([
            "Inter-|   Receive                                                |  Transmit",
            " face |bytes packets errs drop fifo frame compressed multicast|bytes packets",
            ["    lo: ", fields([N * 2000, 29, 0, 0, 0, 0, 0, 0, N * 2000, 29, 0, 0, 0, 0, 0, 0])],
            [
                "enp3s0: ",
                later(
                    N,
                    "365908071 8082 0 0 0 0 0 0 343024 4389 0 0 0 0 0 0",
                    "1000000 0 0 0 0 0 0 0 500000 0 0 0 0 0 0 0"
                )
            ]
        ]),
        ~"/proc/self/stat" => text([
            [
                "8031 (my (odd) 9 beam) S ",
                fields([8021, 8021, 6035, 0, -1, 4194304, 96, 0, 1, 0]),
                " ",
                fields([100 + 200 * N, 30 + 50 * N]),
                " 0 0 20 0 23 0 101993 3133440 329"
            ]
        ]),
        ~"/proc/self/status" => text([
            "Name:\tbeam.smp",
            "VmHWM:\t  300000 kB",
            "VmRSS:\t  250000 kB",
            "VmSwap:\t      80 kB",
            "RssAnon:\t     112 kB",
            "Threads:\t23"
        ]),
        ~"/proc/loadavg" => ~"1.52 0.80 0.33 2/310 8319\n",
        ~"/proc/self/cgroup" => ~"0::/user.slice\n"
    }.

container(Group, Folder) ->
    In = fun(File) -> <<Folder/binary, $/, File/binary>> end,
    #{
        ~"/proc/self/cgroup" => Group,
        In(~"memory.max") => ~"512000000\n",
        In(~"memory.current") => ~"400000000\n",
        In(~"memory.stat") => text(["anon 250000000", "file 150000000", "inactive_file 100000000"]),
        In(~"cpu.max") => ~"150000 100000\n",
        In(~"cpu.stat") => text([
            "usage_usec 900", "user_usec 700", "nr_throttled 3", "throttled_usec 5000"
        ])
    }.
