%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_system).
-moduledoc false.
%% Below the VM: the container, processors, memory, disks, the network.

-export([checks/0]).

-import(dyno_health_look, [text/2, show/2, mean/2, sum/2, of_last/2]).
-import(dyno_finding_limits, [value/1]).

-spec checks() -> [dyno_health:check()].
checks() ->
    [
        #{
            name => throttled,
            title => ~"the container's processor quota",
            finding => fun throttled/1
        },
        #{name => steal, title => ~"processors that others use", finding => fun taken/1},
        #{
            name => memory_limit,
            title => ~"the container's memory limit",
            finding => fun memory_limit/1
        },
        #{name => swap, title => ~"swapping", finding => fun swap/1},
        #{name => fragmented, title => ~"free memory in large pieces", finding => fun fragmented/1},
        #{name => pressure, title => ~"pressure on memory and disks", finding => fun pressure/1},
        #{name => disk, title => ~"disks", finding => fun disk/1},
        #{
            name => network,
            title => ~"retransmissions and full accept queues",
            finding => fun network/1
        }
    ].

throttled(Looks) ->
    case mean([~"values", ~"os.cgroup.throttled"], Looks) of
        unknown ->
            [];
        Share ->
            case Share > value(throttled) of
                true ->
                    [
                        dyno_finding:new(throttled, throttled, #{
                            subject => ~"node",
                            severity => warning,
                            value => Share,
                            weight => 110,
                            text => text(
                                "the container's processor quota held the node back ~ts of "
                                "the time",
                                [show(Share, ~"ratio")]
                            ),
                            advice =>
                                <<
                                    "Raise the quota, or start the node with fewer schedulers "
                                    "(+S) and +sbwt none."
                                >>,
                            look_closer => ~"dyno record NODE"
                        })
                    ];
                false ->
                    []
            end
    end.

taken(Looks) ->
    Steal = mean([~"values", ~"os.cpu.steal"], Looks),
    Ready = sum([~"threads", ~"normal", ~"ready_ns"], Looks),
    Cpu = sum([~"threads", ~"normal", ~"cpu_ns"], Looks),
    case {Steal, Ready, Cpu} of
        {S, _, _} when is_number(S), S > 0.05 ->
            [
                dyno_finding:new(steal, processor_taken, #{
                    subject => ~"processors",
                    severity => warning,
                    value => S,
                    weight => 40,
                    text => text("the hypervisor gives ~ts of the processors' time to others", [
                        show(S, ~"ratio")
                    ]),
                    advice => ~"Move the machine, or pay for processors of its own.",
                    look_closer => ~"dyno record NODE"
                })
            ];
        {_, R, C} when is_number(R), is_number(C), R + C > 0 ->
            Share = R / (R + C),
            case Share > value(processor_taken) andalso R > 50_000_000 of
                true ->
                    [
                        dyno_finding:new(steal, processor_taken, #{
                            subject => ~"processors",
                            severity => note,
                            value => Share,
                            weight => 10,
                            text => text(
                                "of the time in which the node's threads had work, other "
                                "programs had the processors ~ts",
                                [show(Share, ~"ratio")]
                            ),
                            advice =>
                                <<
                                    "Move the other programs, or expect all times to be longer by"
                                    " that."
                                >>,
                            look_closer => ~"dyno record NODE"
                        })
                    ];
                false ->
                    []
            end;
        _ ->
            {unknown, ~"the clocks of the threads were not read"}
    end.

memory_limit(Looks) ->
    case
        {
            of_last([~"values", ~"os.cgroup.memory.used"], Looks),
            of_last([~"values", ~"os.cgroup.memory.limit"], Looks)
        }
    of
        {Used, Limit} when is_number(Used), is_number(Limit), Used > 0.9 * Limit ->
            [
                dyno_finding:new(memory_limit, near_memory_limit, #{
                    subject => ~"memory",
                    severity => critical,
                    value => Used / Limit,
                    weight => 190,
                    text => text("the container uses ~ts of ~ts that it may have", [
                        show(Used, ~"B"), show(Limit, ~"B")
                    ]),
                    advice =>
                        <<
                            "Raise the limit, or find what holds the memory; +MMscs makes the VM "
                            "refuse earlier."
                        >>,
                    look_closer => ~"dyno record NODE"
                })
            ];
        _ ->
            []
    end.

swap(Looks) ->
    case sum([~"machine", ~"pswpin"], Looks) of
        unknown ->
            {unknown, ~"/proc/vmstat was not read"};
        N when N >= 100 ->
            [
                dyno_finding:new(swap, swapped_in, #{
                    subject => ~"memory",
                    severity => warning,
                    value => N,
                    weight => 88,
                    text => text("~ts pages were read back from swap", [show(N, ~"count")]),
                    advice =>
                        <<
                            "Take memory from other programs, or forbid swapping for the node "
                            "(MemorySwapMax=0, vm.swappiness)."
                        >>,
                    look_closer => ~"dyno record NODE"
                })
            ];
        _ ->
            []
    end.

fragmented(Looks) ->
    Free = of_last([~"machine_now", ~"MemFree"], Looks),
    Large = of_last([~"machine_now", ~"large_pages"], Looks),
    SwapUsed = of_last([~"values", ~"os.swap.used"], Looks),
    case is_number(Free) andalso is_number(Large) of
        false ->
            {unknown, ~"/proc/buddyinfo was not read"};
        true when Large < 16, Free > 1_000_000_000, SwapUsed =/= unknown, SwapUsed > 0 ->
            [
                dyno_finding:new(fragmented, large_pages, #{
                    subject => ~"memory",
                    severity => warning,
                    value => Large,
                    weight => 60,
                    text => text(
                        "~ts are free, in ~b pieces of 64 kB and more only, while ~ts are in swap",
                        [show(Free, ~"B"), Large, show(SwapUsed, ~"B")]
                    ),
                    advice =>
                        <<
                            "Raise vm.min_free_kbytes, and have the kernel compact memory "
                            "(vm.compact_memory=1)."
                        >>,
                    look_closer => ~"dyno record NODE"
                })
            ];
        true ->
            []
    end.

pressure(Looks) ->
    Us = 1000 * lists:sum([Ms || #{~"interval_ms" := Ms} <- Looks]),
    [
        dyno_finding:new(pressure, pressure, #{
            subject => Of,
            severity => warning,
            value => Share,
            weight => 58,
            text => text("all programs of the machine wait for ~ts ~ts of the time", [
                Of, show(Share, ~"ratio")
            ]),
            advice => Advice,
            look_closer => ~"dyno record NODE"
        })
     || {Of, Key, Advice} <- [
            {
                ~"memory",
                ~"pressure_memory_full",
                <<
                    "Take memory from other programs; page cache is not the cause, what is "
                    "written and locked is."
                >>
            },
            {
                ~"disks",
                ~"pressure_io_full",
                ~"See which program writes (iotop); give logs and data disks of their own."
            }
        ],
        N <- [sum([~"machine", Key], Looks)],
        is_number(N),
        Us > 0,
        Share <- [N / Us],
        Share > value(pressure)
    ].

disk(Looks) ->
    case mean([~"values", ~"os.disk.await"], Looks) of
        Ms when is_number(Ms) ->
            case Ms > value(disk_await_ms) of
                true ->
                    [
                        dyno_finding:new(disk, disk_await_ms, #{
                            subject => ~"disks",
                            severity => note,
                            value => Ms,
                            weight => 30,
                            text => text("a request to the disks takes ~ts", [show(Ms, ~"ms")]),
                            advice =>
                                <<
                                    "Write less, write in larger pieces, sync less; see which "
                                    "program writes."
                                >>,
                            look_closer => ~"dyno record NODE"
                        })
                    ];
                false ->
                    []
            end;
        unknown ->
            []
    end.

network(Looks) ->
    Overflows = sum([~"machine", ~"ListenOverflows"], Looks),
    Datagrams = sum([~"machine", ~"RcvbufErrors"], Looks),
    Lost = sum([~"machine", ~"RetransSegs"], Looks),
    Sent = sum([~"machine", ~"OutSegs"], Looks),
    [
        dyno_finding:new(network, overflows, #{
            subject => ~"network",
            severity => note,
            value => Overflows,
            weight => 62,
            text => text("an accept queue was full ~b times", [Overflows]),
            evidence => ~"Of all programs of this network namespace.",
            advice =>
                <<
                    "Accept in more processes, and raise the listen option backlog (and "
                    "net.core.somaxconn)."
                >>,
            look_closer => ~"dyno record NODE"
        })
     || is_number(Overflows), Overflows > 0
    ] ++
        [
            dyno_finding:new(network, overflows, #{
                subject => ~"datagrams",
                severity => note,
                value => Datagrams,
                weight => 59,
                text => text("~ts datagrams were dropped: a receive buffer was full", [
                    show(Datagrams, ~"count")
                ]),
                evidence => ~"Of all programs of this network namespace.",
                why => ~"Their data is lost, without an error.",
                advice =>
                    <<
                        "Receive in more processes, or with {active, N}; a larger recbuf holds "
                        "more of a burst."
                    >>,
                look_closer => ~"dyno record NODE"
            })
         || is_number(Datagrams), Datagrams > 0
        ] ++
        [
            dyno_finding:new(network, retransmits, #{
                subject => ~"network",
                severity => note,
                value => Lost / Sent,
                weight => 30,
                text => text("~ts of all segments were sent again", [show(Lost / Sent, ~"ratio")]),
                evidence => ~"Of all programs of this network namespace.",
                advice =>
                    <<
                        "See whether one peer is slow or far (ss -ti), and whether the interface "
                        "drops."
                    >>,
                look_closer => ~"dyno record NODE"
            })
         || is_number(Lost), is_number(Sent), Sent > 1000, Lost / Sent > 0.01
        ].
