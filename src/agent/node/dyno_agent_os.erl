%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_os).
-moduledoc """
Reads operating system statistics: CPU, memory, disks, network, and the VM's own process.

`difference/2` gives the values of the interval between two readings of `read/0`; `describe/0` lists
the values that this system has. The sources are `/proc` (`man 5 proc`) and, for container limits,
its cgroup (version 1 or 2) and the groups around it. A missing file or field only removes its own
values. Pressure, swapping, descriptors and TCP errors: `m:dyno_agent_os_health`.

## Meaning of the values

* `os.cpu.*`: shares of the time of all cores, with the sum 1. `user` includes niced work, `system`
  includes interrupts, and `steal` is time that the hypervisor gave to other machines.
* `os.memory.available`: memory that programs can get before the machine swaps; in a container, at
  most the rest of the memory limit.
* `os.memory.page_cache`: cached file contents, including tmpfs.
* `os.disk.await`: the mean time of a completed request, in queue and device; none without a
  request. Disks are counted once, without partitions, device mapper, RAID and loop.
* `os.network.*`: bytes over external interfaces, without those that carry them again (bridges,
  bonds, VLANs, ends of containers); `lo` is `os.network.loopback`.
* `os.vm.cpu`: processor time of this VM; 1.0 is one core. The kernel counts in steps of 10 ms.
* `os.cgroup.memory.*`: of the group that is nearest to its limit.
* `os.cgroup.cpu.limit`: the processors that the least CPU quota allows.
* `os.cgroup.throttled`: time that CPU quotas kept the container from running, as a share of the
  interval and summed over the cores.

## Cost

`read/0` reads 8 small files (13 in a container, and 5 more for each group around), in dirty I/O
schedulers, in 0.4 to 0.7 ms, of which 0.1 ms in a normal scheduler (2 cores, 9 disks, OTP 27, 29).
""".

%% Reading
-export([read/0, parse/2, processor_ns/0]).
%% What was read
-export([difference/2, describe/0, all/0]).
%% Texts of /proc
-export([lines/1, fields/1, number/1, cgroup_paths/3, throttled_ns/1]).

-export_type([raw/0, texts/0]).

-doc "Counters since the start of the machine or process, and gauges.".
-opaque raw() :: #{
    time_ns := integer(),
    %% Clock ticks by kind.
    cpu := #{binary() => non_neg_integer()},
    %% Completed requests, and their milliseconds.
    disk := {non_neg_integer(), non_neg_integer()} | none,
    counters := #{binary() => number()},
    gauges := #{binary() => number()}
}.

-type texts() :: #{Path :: binary() => Text :: binary()}.

-define(STAT, ~"/proc/stat").
-define(MEMORY, ~"/proc/meminfo").
-define(DISKS, ~"/proc/diskstats").
-define(NETWORK, ~"/proc/self/net/dev").
-define(PROCESS_STAT, ~"/proc/self/stat").
-define(PROCESS_STATUS, ~"/proc/self/status").
-define(LOAD, ~"/proc/loadavg").
-define(CGROUP, ~"/proc/self/cgroup").
-define(CGROUPS, ~"/sys/fs/cgroup").
%% By version 2 and 1 of cgroups.
-define(MEMORY_LIMIT, [~"memory.max", ~"memory.limit_in_bytes"]).
-define(MEMORY_USED, [~"memory.current", ~"memory.usage_in_bytes"]).
-define(CPU_QUOTA, [~"cpu.cfs_quota_us", ~"cpu.cfs_period_us"]).
-define(CGROUP_FILES, [
    {~"memory", [~"memory.stat" | ?MEMORY_LIMIT ++ ?MEMORY_USED]},
    {~"cpu", [~"cpu.stat", ~"cpu.max" | ?CPU_QUOTA]}
]).
%% Version 1 has a number for no limit, too.
-define(UNLIMITED, 16#1000000000000000).

%% USER_HZ: 100 for programs on every architecture for which OTP has a JIT.
-define(TICKS_PER_S, 100).

-doc "Reads this machine and this VM's process.".
-spec read() -> raw().
read() ->
    TimeNs = erlang:monotonic_time(nanosecond),
    Texts = read_files([
        ?STAT, ?MEMORY, ?DISKS, ?NETWORK, ?PROCESS_STAT, ?PROCESS_STATUS, ?LOAD, ?CGROUP
    ]),
    parse(maps:merge(Texts, read_files(cgroup_files(Texts))), TimeNs).

-doc "Makes a reading of file contents and of their monotonic time.".
-spec parse(texts(), TimeNs :: integer()) -> raw().
parse(Texts, TimeNs) ->
    Limits = cgroup_limits(Texts),
    Gauges = [
        memory(Texts, Limits), process_gauges(Texts), load(Texts), nearest(Limits), quota(Texts)
    ],
    Counters = [network(Texts), process_cpu(Texts), switches(Texts), throttled(Texts)],
    #{
        time_ns => TimeNs,
        cpu => cpu(Texts),
        disk => disks(Texts),
        counters => maps:from_list(lists:append(Counters)),
        gauges => maps:from_list(lists:append(Gauges))
    }.

-doc "The emulator's processor time, within 10 ms, with system time, which may be most of it.".
-spec processor_ns() -> non_neg_integer().
processor_ns() ->
    case process_cpu(read_files([?PROCESS_STAT])) of
        [{_, Seconds}] ->
            round(Seconds * 1_000_000_000);
        [] ->
            {Ms, _} = erlang:statistics(runtime),
            Ms * 1_000_000
    end.

-doc """
The values of the interval between two readings of the same machine.

Rates are per second; sizes and counts are of the later reading. A counter that ran backwards (a
disk or interface was removed) has no value.
""".
-spec difference(Earlier :: raw(), Later :: raw()) -> dyno_agent_vm:values().
difference(#{time_ns := Start} = Earlier, #{time_ns := End} = Later) ->
    lists:foldl(fun maps:merge/2, maps:get(gauges, Later), [
        dyno_agent_vm:rates(maps:get(counters, Earlier), maps:get(counters, Later), End - Start),
        shares(maps:get(cpu, Earlier), maps:get(cpu, Later)),
        await(Earlier, Later)
    ]).

-doc "The values of this machine, in display order.".
-spec describe() -> [dyno_agent_vm:metric()].
describe() ->
    #{cpu := Cpu, disk := Disk, counters := Counters, gauges := Gauges} = read(),
    Names = [
        [~"os.disk.await" || Disk =/= none] | [maps:keys(Of) || Of <- [Cpu, Counters, Gauges]]
    ],
    [M || #{name := Name} = M <- all(), lists:member(Name, lists:append(Names))].

-doc "All values that a system may have.".
-spec all() -> [dyno_agent_vm:metric(), ...].
all() ->
    [
        #{name => Name, unit => Unit, title => Title, group => ~"os"}
     || {Name, Unit, Title} <- [
            {~"os.cpu.user", ~"ratio", ~"CPU: user"},
            {~"os.cpu.system", ~"ratio", ~"CPU: system"},
            {~"os.cpu.iowait", ~"ratio", ~"CPU: waiting for I/O"},
            {~"os.cpu.steal", ~"ratio", ~"CPU: stolen by the hypervisor"},
            {~"os.cpu.idle", ~"ratio", ~"CPU: idle"},
            {~"os.load1", ~"1", ~"Load average of 1 minute"},
            {~"os.context_switches", ~"count/s", ~"Context switches between threads"},
            {~"os.memory.available", ~"B", ~"Memory available"},
            {~"os.memory.page_cache", ~"B", ~"Page cache"},
            {~"os.swap.used", ~"B", ~"Swap used"},
            {~"os.disk.await", ~"ms", ~"Disk: time per request"},
            {~"os.network.received", ~"B/s", ~"Network: received"},
            {~"os.network.sent", ~"B/s", ~"Network: sent"},
            {~"os.network.loopback", ~"B/s", ~"Network: over loopback"},
            {~"os.vm.cpu", ~"ratio", ~"CPU of the VM (1.0 is one core)"},
            {~"os.vm.rss", ~"B", ~"Resident memory of the VM"},
            {~"os.vm.swap", ~"B", ~"Memory of the VM in swap"},
            {~"os.vm.threads", ~"count", ~"Threads of the VM"},
            {~"os.cgroup.memory.limit", ~"B", ~"Memory limit of the container"},
            {~"os.cgroup.memory.used", ~"B", ~"Memory used of the container's limit"},
            {~"os.cgroup.cpu.limit", ~"1", ~"Processors of the container's quota"},
            {~"os.cgroup.throttled", ~"ratio", ~"Held back by the container's CPU quota"}
        ]
    ].

%% Files

read_files(Paths) ->
    #{Path => Text || Path <- Paths, {ok, Text} <- [file:read_file(Path, [raw])]}.

cgroup_files(Texts) ->
    [
        Path
     || {Controller, Files} <- ?CGROUP_FILES,
        File <- Files,
        Path <- cgroup_paths(Controller, File, text(?CGROUP, Texts))
    ].

-doc """
Paths of a controller's file in the process's group and in those around it, by the text of
`/proc/PID/cgroup`; not all exist.

Version 1 has a folder for each controller. Without a cgroup namespace a container may see its
group's path on the host, but the group's files at the root.
""".
-spec cgroup_paths(Controller :: binary(), File :: binary(), Groups :: binary()) -> [binary()].
cgroup_paths(Controller, File, Groups) ->
    [<<Folder/binary, $/, File/binary>> || Folder <- cgroup_folders(Controller, Groups)].

cgroup_folders(Controller, Groups) ->
    [
        iolist_to_binary([Root | [[$/, Name] || Name <- lists:sublist(Names, Depth)]])
     || Line <- lines(Groups),
        [_Number, Controllers, Path] <- [binary:split(Line, ~":", [global])],
        Root <- cgroup_root(Controller, binary:split(Controllers, ~",", [global])),
        Names <- [binary:split(Path, ~"/", [global, trim_all])],
        Depth <- lists:seq(length(Names), 0, -1)
    ].

cgroup_root(_Controller, [<<>>]) -> [?CGROUPS];
cgroup_root(Controller, Of) -> [<<?CGROUPS/binary, $/, C/binary>> || C <- Of, C =:= Controller].

%% A value for each group that has all of them.
of_cgroups(Controller, Texts, Read) ->
    lists:flatmap(
        fun(Folder) -> Read(fun(File) -> text(<<Folder/binary, $/, File/binary>>, Texts) end) end,
        cgroup_folders(Controller, text(?CGROUP, Texts))
    ).

numbers(Files, Text) -> lists:append([number(Text(File)) || File <- Files]).

%% Parsers: each returns the values that its text has

text(Path, Texts) -> maps:get(Path, Texts, <<>>).

%% user and nice already include the time of virtual machines.
cpu(#{?STAT := <<"cpu ", Rest/binary>>}) ->
    case integers(fields(hd(binary:split(Rest, ~"\n")))) of
        [User, Nice, System, Idle, Wait, Irq, SoftIrq, Steal | _] ->
            #{
                ~"os.cpu.user" => User + Nice,
                ~"os.cpu.system" => System + Irq + SoftIrq,
                ~"os.cpu.iowait" => Wait,
                ~"os.cpu.steal" => Steal,
                ~"os.cpu.idle" => Idle
            };
        _ ->
            #{}
    end;
cpu(_Texts) ->
    #{}.

switches(Texts) -> [{~"os.context_switches", N} || N <- value(~"ctxt", text(?STAT, Texts))].

memory(Texts, Limits) ->
    Text = text(?MEMORY, Texts),
    [
        {~"os.memory.available", min(1024 * KiB, left(Limits))}
     || KiB <- value(~"MemAvailable", Text)
    ] ++
        [
            {~"os.memory.page_cache", 1024 * (Cached + Buffers)}
         || Cached <- value(~"Cached", Text), Buffers <- value(~"Buffers", Text)
        ] ++
        [
            {~"os.swap.used", 1024 * (Total - Free)}
         || Total <- value(~"SwapTotal", Text), Free <- value(~"SwapFree", Text)
        ].

%% An atom is more than any number.
left(Limits) -> lists:min([unlimited | [max(0, Limit - Used) || {Limit, Used} <- Limits]]).

%% The kernel drops inactive file pages before an allocation fails: they do not count as used. In
%% version 1 the total is that of the group with those in it.
cgroup_limits(Texts) ->
    of_cgroups(~"memory", Texts, fun(Text) ->
        Stat = Text(~"memory.stat"),
        Inactive = hd(value(~"total_inactive_file", Stat) ++ value(~"inactive_file", Stat) ++ [0]),
        [
            {Limit, max(0, Used - Inactive)}
         || Limit <- numbers(?MEMORY_LIMIT, Text),
            Limit < ?UNLIMITED,
            Used <- numbers(?MEMORY_USED, Text)
        ]
    end).

nearest([]) ->
    [];
nearest(Limits) ->
    {_, Limit, Used} = lists:max([{U / max(1, L), L, U} || {L, U} <- Limits]),
    [{~"os.cgroup.memory.limit", Limit}, {~"os.cgroup.memory.used", Used}].

%% Version 1 has -1 for no quota.
quota(Texts) ->
    Quotas = of_cgroups(~"cpu", Texts, fun(Text) ->
        [
            Quota / Period
         || [Quota, Period] <- [
                integers(fields(Text(~"cpu.max"))), numbers(?CPU_QUOTA, Text)
            ],
            Period > 0
        ]
    end),
    [{~"os.cgroup.cpu.limit", lists:min(Quotas)} || Quotas =/= []].

throttled(Texts) ->
    Ns = of_cgroups(~"cpu", Texts, fun(Text) -> throttled_ns(Text(~"cpu.stat")) end),
    [{~"os.cgroup.throttled", lists:sum(Ns) / 1_000_000_000} || Ns =/= []].

-doc "The time that a quota held threads back, in the text of a `cpu.stat`; none if it has none.".
-spec throttled_ns(binary()) -> [non_neg_integer()].
throttled_ns(Text) ->
    [1000 * Us || Us <- value(~"throttled_usec", Text)] ++ value(~"throttled_time", Text).

process_gauges(Texts) ->
    %% In kB for any page size; stat and statm count pages.
    Text = text(?PROCESS_STATUS, Texts),
    [{~"os.vm.rss", 1024 * KiB} || KiB <- value(~"VmRSS", Text)] ++
        [{~"os.vm.swap", 1024 * KiB} || KiB <- value(~"VmSwap", Text)] ++
        [{~"os.vm.threads", Threads} || Threads <- value(~"Threads", Text)].

%% The second field, the program's name, may contain blanks and parentheses.
process_cpu(Texts) ->
    case fields(lists:last(binary:split(text(?PROCESS_STAT, Texts), ~")", [global]))) of
        [_State, _, _, _, _, _, _, _, _, _, _, User, System | _] ->
            [{~"os.vm.cpu", (U + S) / ?TICKS_PER_S} || [U, S] <- [integers([User, System])]];
        _ ->
            []
    end.

load(Texts) ->
    case string:to_float(text(?LOAD, Texts)) of
        {Load, _} when is_float(Load) -> [{~"os.load1", Load}];
        {error, _} -> []
    end.

%% Network

network(Texts) ->
    All = lists:append([interface(Line) || Line <- lines(text(?NETWORK, Texts))]),
    {Loopback, Outer} = lists:partition(fun({Name, _, _}) -> Name =:= ~"lo" end, All),
    Real =
        case [Interface || {Name, _, _} = Interface <- Outer, not carried_twice(Name)] of
            [] -> Outer;
            [_ | _] = Some -> Some
        end,
    [{~"os.network.loopback", Sent} || {_, _, Sent} <- Loopback] ++
        [
            {Name, lists:sum([element(Index, Interface) || Interface <- Real])}
         || Real =/= [], {Name, Index} <- [{~"os.network.received", 2}, {~"os.network.sent", 3}]
        ].

interface(Line) ->
    case binary:split(Line, ~":") of
        [Name, Rest] ->
            case integers(fields(Rest)) of
                [Received, _, _, _, _, _, _, _, Sent | _] -> [{string:trim(Name), Received, Sent}];
                _ -> []
            end;
        _ ->
            []
    end.

carried_twice(Name) ->
    Virtual = "^(veth|docker|br-|virbr|cni|flannel|cali|ifb|dummy|bond|team|tun|tap|wg)|[.]",
    re:run(Name, Virtual, [{capture, none}]) =:= match.

%% Disks

disks(Texts) ->
    All = lists:append([disk(fields(Line)) || Line <- lines(text(?DISKS, Texts))]),
    Names = #{Name => [] || {Name, _, _} <- All},
    case [{Count, Ms} || {Name, Count, Ms} <- All, is_disk(Name, Names)] of
        [] ->
            none;
        Disks ->
            {Counts, Times} = lists:unzip(Disks),
            {lists:sum(Counts), lists:sum(Times)}
    end.

%% Reads, writes, and from Linux 4.18 discards: completed, merged, sectors, milliseconds each.
disk([_Major, _Minor, Name | Fields]) ->
    case integers(Fields) of
        [Reads, _, _, ReadMs, Writes, _, _, WriteMs, _, _, _, Discards, _, _, DiscardMs | _] ->
            [{Name, Reads + Writes + Discards, ReadMs + WriteMs + DiscardMs}];
        [Reads, _, _, ReadMs, Writes, _, _, WriteMs | _] ->
            [{Name, Reads + Writes, ReadMs + WriteMs}];
        _ ->
            []
    end;
disk(_Fields) ->
    [].

is_disk(Name, Names) ->
    re:run(Name, "^(loop|ram|zram|dm-|md|sr|fd)", [{capture, none}]) =:= nomatch andalso
        not is_map_key(partitioned(Name), Names).

%% The disk of a possible partition: sda for sda1; nvme0n1 for nvme0n1p2, but nvme0n12 is a disk.
partitioned(Name) ->
    Stem = string:trim(Name, trailing, "0123456789"),
    Size = byte_size(Stem) - 2,
    case Stem of
        Name -> <<>>;
        <<Disk:Size/binary, Digit, $p>> when Digit >= $0, Digit =< $9 -> <<Disk/binary, Digit>>;
        _ -> Stem
    end.

%% Differences

%% The kernel documents that iowait can run backwards; a backward step counts as none.
shares(Earlier, Later) ->
    Ticks =
        #{
            Name => max(0, Ticks1 - Ticks0)
         || Name := Ticks1 <- Later, {ok, Ticks0} <- [maps:find(Name, Earlier)]
        },
    Total = lists:sum(maps:values(Ticks)),
    #{Name => Part / Total || Name := Part <- Ticks, Total > 0}.

await(#{disk := {Count0, Ms0}}, #{disk := {Count1, Ms1}}) when Count1 > Count0, Ms1 >= Ms0 ->
    #{~"os.disk.await" => (Ms1 - Ms0) / (Count1 - Count0)};
await(_Earlier, _Later) ->
    #{}.

%% Texts

-doc "The lines of a text that are not empty.".
-spec lines(binary()) -> [binary()].
lines(Text) ->
    binary:split(Text, ~"\n", [global, trim_all]).

-doc "The words of a line.".
-spec fields(binary()) -> [binary()].
fields(Line) ->
    binary:split(Line, [~" ", ~"\t", ~"\n"], [global, trim_all]).

integers(Fields) ->
    lists:append(lists:takewhile(fun(N) -> N =/= [] end, [number(Field) || Field <- Fields])).

value(Key, Text) ->
    case binary:split(<<"\n", Text/binary>>, [<<"\n", Key/binary, E>> || E <- ":\s"]) of
        [_Before, Rest] -> number(Rest);
        [_] -> []
    end.

-doc "The number that a text begins with, if any.".
-spec number(binary()) -> [non_neg_integer()].
number(<<Blank, Rest/binary>>) when Blank =:= $\s; Blank =:= $\t -> number(Rest);
number(<<Digit, _/binary>> = Text) when Digit >= $0, Digit =< $9 -> [digits(Text, 0)];
number(_Text) -> [].

digits(<<Digit, Rest/binary>>, Number) when Digit >= $0, Digit =< $9 ->
    digits(Rest, Number * 10 + Digit - $0);
digits(_Rest, Number) ->
    Number.
