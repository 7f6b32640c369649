%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_system).
-moduledoc false.
%% Below the VM: the container, processors, memory, disks, the network.

-export([checks/0]).

-import(dyno_health_look, [finding/4, text/2, show/2, count/1, bytes/1, of_last/2, mean/2, sum/2]).
-import(dyno_health_look, [known/3, waiting_in/2, last/1]).
-import(dyno_finding_limits, [value/1]).

%% Of the processors, by a hypervisor.
-define(MUCH, 0.2).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {throttled, ~"the container's processor quota", 2, fun throttled/1},
        {steal, ~"processors that others use", 2, fun taken/1},
        {memory_limit, ~"the container's memory limit", 2, fun memory_limit/1},
        {swap, ~"swapping", 2, fun swap/1},
        {fragmented, ~"free memory in large pieces", 2, fun fragmented/1},
        {pressure, ~"pressure on memory and disks", 2, fun pressure/1},
        {disk, ~"disks", 2, fun disk/1},
        {network, ~"retransmissions and full accept queues", 2, fun network/1},
        {accept_queue, ~"connections that no process accepts", 3, fun accept_queues/1},
        {left_open, ~"connections that only the other side has closed", 3, fun left_open/1}
    ].

%% Without a container there is no such value: nothing is wrong.
throttled(Looks) ->
    [
        finding(warning, {throttled, throttled, 110}, {~"node", Share}, #{
            text => text(
                "the container's processor quota held threads back for ~.2f s of each second, "
                "summed over processors",
                [Share]
            ),
            why => ~"Their work stands still meanwhile.",
            advice =>
                "Now: raise the quota (docker update --cpus, limits.cpu in Kubernetes). Later: "
                "fewer schedulers (+S), and +sbwt none, at the next start."
        })
     || Share <- [mean([~"values", ~"os.cgroup.throttled"], Looks)],
        is_number(Share),
        Share > value(throttled)
    ].

taken(Looks) ->
    Steal = mean([~"values", ~"os.cpu.steal"], Looks),
    case is_number(Steal) andalso Steal > value(steal) of
        true ->
            [
                finding(stolen(Steal), {steal, steal, 40}, {~"processors", Steal}, #{
                    text => text("the hypervisor gives ~ts of the processors' time to others", [
                        show(Steal, ~"ratio")
                    ]),
                    advice =>
                        ~"Now: nothing. Later: move the machine, or pay for processors of its own."
                })
            ];
        false ->
            Ready = sum([~"threads", ~"normal", ~"ready_ns"], Looks),
            Cpu = sum([~"threads", ~"normal", ~"cpu_ns"], Looks),
            known([Ready, Cpu], ~"the clocks of the threads were not read", fun(R, C) ->
                %% Threads that a quota holds back are ready, too.
                lists:append([taken(R, C) || [] =:= throttled(Looks)])
            end)
    end.

%% The node is not to blame.
stolen(Steal) when Steal > ?MUCH -> warning;
stolen(_Steal) -> note.

taken(Ready, Cpu) ->
    Share = Ready / max(1, Ready + Cpu),
    [
        finding(note, {steal, processor_taken, 10}, {~"processors", Share}, #{
            text => text(
                "the node's threads waited for a processor for ~ts of the time in which they had "
                "work",
                [show(Share, ~"ratio")]
            ),
            advice =>
                "Now: see who has the processors (top). Later: if other programs do, move them, or "
                "expect all times to be longer by that."
        })
     || Share > value(processor_taken), Ready > 50_000_000
    ].

memory_limit(Looks) ->
    Of = fun(Name) -> of_last([~"values", <<"os.cgroup.memory.", Name/binary>>], Looks) end,
    [
        finding(critical, {memory_limit, near_memory_limit, 190}, {~"memory", Used / Limit}, #{
            text => text("the container uses ~ts of ~ts that it may have", [
                bytes(Used), bytes(Limit)
            ]),
            advice =>
                "Now: raise the limit (docker update --memory), before the kernel ends the node, "
                "or take load away. Later: with +MMscs (default +MMsco true) the VM ends with a "
                "dump, before the kernel kills it."
        })
     || {Used, Limit} <- [{Of(~"used"), Of(~"limit")}],
        is_number(Used) andalso is_number(Limit),
        Used > value(near_memory_limit) * Limit
    ].

swap(Looks) ->
    Pages = sum([~"machine", ~"pswpin"], Looks),
    known([Pages], ~"/proc/vmstat was not read", fun(N) ->
        [
            finding(warning, {swap, swapped_in, 88}, {~"memory", N}, #{
                text => text("the machine read ~ts pages back from swap~ts", [
                    count(N), of_node(of_last([~"values", ~"os.vm.swap"], Looks))
                ]),
                why =>
                    ~"A collection touches the whole heap: it waits for pages in swap.",
                advice =>
                    "Now: see whose pages they are (VmSwap in /proc/PID/status); give the node, or "
                    "its container, more memory, or take load away. Later: forbid swapping for the "
                    "node (MemorySwapMax=0, vm.swappiness)."
            })
         || N >= value(swapped_in)
        ]
    end).

of_node(Bytes) when is_number(Bytes) -> [~"; of this node ", bytes(Bytes), ~" are in swap"];
of_node(unknown) -> ~", of any program".

fragmented(Looks) ->
    Values = [of_last([~"machine_now", Key], Looks) || Key <- [~"MemFree", ~"large_pages"]],
    Swapped = of_last([~"values", ~"os.swap.used"], Looks),
    known(Values, ~"/proc/buddyinfo was not read", fun(Free, Large) ->
        [
            finding(warning, {fragmented, large_pages, 60}, {~"memory", Large}, #{
                beyond => value(large_pages) / max(1, Large),
                text => text(
                    "~ts are free, but only ~b free pieces have 64 kB or more, and ~ts are in swap",
                    [bytes(Free), Large, bytes(Swapped)]
                ),
                advice =>
                    "Now: only if answers are late: vm.compact_memory=1 has the kernel compact "
                    "memory. It takes processors, and delays programs meanwhile. Later: raise "
                    "vm.min_free_kbytes a little: that memory is lost to programs."
            })
         || Large < value(large_pages), Free > 1_000_000_000, is_number(Swapped), Swapped > 0
        ]
    end).

pressure(Looks) ->
    Us = 1000 * lists:sum([Ms || #{~"interval_ms" := Ms} <- Looks]),
    [
        finding(warning, {pressure, pressure, 58}, {Of, Share}, #{
            text => text("all programs of the machine wait for ~ts ~ts of the time", [
                Of, show(Share, ~"ratio")
            ]),
            advice => Advice
        })
     || {Of, Key, Advice} <- [
            {
                ~"memory",
                ~"pressure_memory_full",
                ~"Now: see which program takes memory (ps, top). Later: move it, or add memory."
            },
            {
                ~"disks",
                ~"pressure_io_full",
                "Now: see which program reads or writes (iotop). Later: give logs and data disks "
                "of their own."
            }
        ],
        N <- [sum([~"machine", Key], Looks)],
        is_number(N),
        Us > 0,
        Share <- [N / Us],
        Share > value(pressure)
    ].

disk(Looks) ->
    [
        finding(note, {disk, disk_await_ms, 30}, {~"disks", Ms}, #{
            text => text("a request to the disks takes ~ts on average", [show(Ms, ~"ms")]),
            advice =>
                "Now: see which program reads or writes (iotop). Later: write less, in larger "
                "pieces, and sync less."
        })
     || Ms <- [mean([~"values", ~"os.disk.await"], Looks)],
        is_number(Ms),
        Ms > value(disk_await_ms)
    ].

network(Looks) ->
    Of = fun(Name) -> sum([~"machine", Name], Looks) end,
    Full = [
        {overflows, 62, ~"network", N, ~"", text("an accept queue was full ~b times", [N]),
            "Now: ss -ltn shows which (Recv-Q above Send-Q). Later: accept in more processes, and "
            "raise the listen option backlog (and net.core.somaxconn)."}
     || N <- [Of(~"ListenOverflows")], is_number(N), N > 0
    ],
    Dropped = [
        {overflows, 59, ~"datagrams", N, ~"Their data is lost, without an error.",
            text("~ts datagrams were dropped: a receive buffer was full", [count(N)]),
            "Now: nothing. Later: receive in more processes, or with {active, N}; a larger recbuf "
            "holds more of a burst."}
     || N <- [Of(~"RcvbufErrors")], is_number(N), N > 0
    ],
    Again = [
        {retransmits, 30, ~"network", Lost / Sent,
            ~"A lost segment may delay its connection by 200 ms and more.",
            text("~ts of all segments were sent again", [show(Lost / Sent, ~"ratio")]),
            "Now: see whether one peer is slow or far (ss -ti), and whether the interface drops "
            "packets (ip -s link)."}
     || {Lost, Sent} <- [{Of(~"RetransSegs"), Of(~"OutSegs")}],
        is_number(Lost) andalso is_number(Sent),
        Sent > 1000,
        Lost > value(retransmits) * Sent
    ],
    [
        finding(note, {network, Limit, Weight}, {Subject, Value}, #{
            text => Text,
            why => Why,
            evidence => ~"Of all programs of this network namespace.",
            advice => Advice,
            look_closer => ~"dyno record NODE"
        })
     || {Limit, Weight, Subject, Value, Why, Text, Advice} <- Full ++ Dropped ++ Again
    ].

%% At each look. At most one acceptor is late in a server that accepts as fast as clients connect.
accept_queues(Looks) ->
    [
        finding(warning, {accept_queue, accept_queue, 89}, {text("port ~b", [Port]), Least}, #{
            text => text("~ts connections or more wait at port ~b to be accepted, at each look", [
                count(Least), Port
            ]),
            evidence => accepting(last(Looks)),
            advice =>
                "Now: see what the processes do that should accept. Later: let "
                "another process do the TLS handshake and all else with the new connection, with a "
                "time limit; accept in more processes.",
            look_closer => ~"dyno profile NODE --kind schedulers"
        })
     || {Port, Least} <- at_each_look(~"accept_queues", Looks), Least >= value(accept_queue)
    ].

at_each_look(Key, Looks) ->
    Each = [#{P => N || #{~"port" := P, ~"waiting" := N} <- Of} || #{Key := Of} <- Looks],
    [
        {Port, lists:min([maps:get(Port, Of, 0) || Of <- Each])}
     || [First | _] <- [Each], Port := _ <- First
    ].

%% The same ones at two looks each time.
left_open(Looks) ->
    [
        finding(warning, {left_open, left_open, 64}, {text("port ~b", [Port]), Least}, #{
            text => text(
                "~ts connections or more of port ~b were closed by the other side, and stay open "
                "here (CLOSE_WAIT)",
                [count(Least), Port]
            ),
            evidence => ~"They were so at each look.",
            advice =>
                "Now: nothing. Later: a process closes its socket (gen_tcp:close/1) when a read "
                "returns {error, closed}; one that does not read ({active, false}) learns of the "
                "end only by a read: give it a time limit.",
            look_closer => ~"dyno record NODE"
        })
     || {Port, Least} <- at_each_look(~"left_open", tl(Looks)), Least >= value(left_open)
    ].

accepting(Look) ->
    case waiting_in([~"ssl:handshake/", ~"ssl_gen_statem:handshake/"], Look) of
        {0, _} -> ~"";
        {N, ~""} -> text("~b processes wait in TLS handshakes.", [N]);
        {N, Place} -> text("~b processes wait in TLS handshakes, such as in ~ts.", [N, Place])
    end.
