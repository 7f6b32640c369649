%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_outside).
-moduledoc """
Finds out from the operating system why a node of this machine does not answer: the port mapper
knows the node's port, the port its process, and `/proc` the state of the process's threads.

Nodes on another machine or of another user are not visible.
""".

-export([findings/1, read/1, judged/2]).
-export_type([seen/0]).

-import(dyno_agent_os, [lines/1, fields/1, number/1, cgroup_paths/3]).
-import(dyno_health_look, [finding/4, text/2]).

-type thread() :: #{
    name := binary(),
    %% R, S, D, T, as in ps.
    state := binary(),
    %% The thread's system call; none if running or not visible.
    call := non_neg_integer() | none,
    %% The share of the time in which it had a processor, or was ready and waited for one.
    cpu := float()
}.

-type seen() :: #{
    pid := binary(),
    threads := [thread()],
    fds := non_neg_integer(),
    fds_limit := pos_integer() | unlimited,
    %% Seconds a second in which a quota held threads back, the sum over processors.
    throttled := float() | unknown
}.

-define(WINDOW_MS, 1000).
-define(TICKS_PER_S, 100).
-define(FUTEX, 202).
-define(DESCRIPTORS, 0.98).
-define(SPINNING, 0.9).
-define(HELD_BACK, 0.3).
-define(STUCK, 0.5).
%% System calls in which a scheduler's thread waits for work.
-define(IDLE_CALLS, [?FUTEX, 232, 281, 7, 271]).

-doc "A node's findings, or why the node is not visible. Takes a second.".
-spec findings(node()) -> {ok, [dyno_finding:t()]} | {unseen, Why :: binary()}.
findings(Node) ->
    maybe
        {ok, Pid} ?= process(Node),
        {ok, Seen} ?= read(Pid),
        {ok, judged(Node, Seen)}
    end.

process(Node) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    {ok, Here} = inet:gethostname(),
    maybe
        true ?= hd(string:split(Host, ".")) =:= Here orelse
            lists:member(Host, ["localhost", "127.0.0.1"]),
        {ok, Names} ?= erl_epmd:names(),
        {Name, Port} ?= lists:keyfind(Name, 1, Names),
        [Inode | _] ?= inodes(Port),
        [Pid | _] ?= [Of || Of <- folder("/proc"), is_pid_folder(Of), has_socket(Of, Inode)],
        {ok, unicode:characters_to_binary(Pid)}
    else
        _ ->
            {unseen, ~"its process cannot be seen: it is on another machine, or of another user"}
    end.

is_pid_folder(Name) -> lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Name).

folder(Path) ->
    case file:list_dir(Path) of
        {ok, Names} -> Names;
        {error, _} -> []
    end.

content(Path) ->
    case file:read_file(Path) of
        {ok, Text} -> Text;
        {error, _} -> ~""
    end.

%% State 0A listens; the local address ends with the port in hexadecimal.
inodes(Port) ->
    End = iolist_to_binary(io_lib:format(":~4.16.0B", [Port])),
    [
        Inode
     || File <- ["/proc/net/tcp", "/proc/net/tcp6"],
        Line <- lines(content(File)),
        [_, Local, _, ~"0A", _, _, _, _, _, Inode | _] <- [fields(Line)],
        binary:longest_common_suffix([Local, End]) =:= byte_size(End)
    ].

has_socket(Pid, Inode) ->
    Link = "socket:[" ++ binary_to_list(Inode) ++ "]",
    Folder = filename:join(["/proc", Pid, "fd"]),
    lists:any(
        fun(Fd) -> file:read_link(filename:join(Folder, Fd)) =:= {ok, Link} end, folder(Folder)
    ).

-doc "The activity of a process and its threads within a second.".
-spec read(binary()) -> {ok, seen()} | {unseen, binary()}.
read(Pid) ->
    Folder = filename:join("/proc", binary_to_list(Pid)),
    Before = ticks(Folder),
    Throttled = throttled(Folder),
    ok = timer:sleep(?WINDOW_MS),
    After = ticks(Folder),
    case map_size(After) of
        0 ->
            {unseen, ~"its process has ended"};
        _ ->
            {ok, #{
                pid => Pid,
                threads => [
                    #{
                        name => Name,
                        state => State,
                        call => call(filename:join([Folder, "task", Id, "syscall"])),
                        cpu => (Ns - element(3, maps:get(Id, Before, {Name, State, Ns}))) /
                            ?WINDOW_MS / 1_000_000
                    }
                 || Id := {Name, State, Ns} <- After
                ],
                fds => length(folder(filename:join(Folder, "fd"))),
                fds_limit => fds_limit(content(filename:join(Folder, "limits"))),
                throttled => share(Throttled, throttled(Folder))
            }}
    end.

ticks(Folder) ->
    maps:from_list([
        {Id, {Name, State, wanted_ns(Folder, Id, [User, System])}}
     || Id <- folder(filename:join(Folder, "task")),
        [Head, Tail] <- [
            string:split(content(filename:join([Folder, "task", Id, "stat"])), ~")", trailing)
        ],
        [_, Name] <- [string:split(Head, ~"(")],
        [State, _, _, _, _, _, _, _, _, _, _, User, System | _] <- [fields(Tail)]
    ]).

wanted_ns(Folder, Id, Ticks) ->
    case fields(content(filename:join([Folder, "task", Id, "schedstat"]))) of
        [Ran, Waited, _] ->
            binary_to_integer(Ran) + binary_to_integer(Waited);
        _ ->
            lists:sum([binary_to_integer(N) || N <- Ticks]) * 1_000_000_000 div ?TICKS_PER_S
    end.

call(Path) -> hd(number(content(Path)) ++ [none]).

fds_limit(Text) ->
    Limits = [N || <<"Max open files", Rest/binary>> <- lines(Text), N <- number(Rest)],
    hd(Limits ++ [unlimited]).

share(BeforeUs, AfterUs) when is_integer(BeforeUs), is_integer(AfterUs) ->
    (AfterUs - BeforeUs) / 1000 / ?WINDOW_MS;
share(_Before, _After) ->
    unknown.

throttled(Folder) ->
    Groups = content(filename:join(Folder, "cgroup")),
    Paths = cgroup_paths(~"cpu", ~"cpu.stat", Groups),
    case lists:flatmap(fun(P) -> dyno_agent_os:throttled_ns(content(P)) end, Paths) of
        [] -> unknown;
        Ns -> lists:sum(Ns) div 1000
    end.

-doc "The findings from these readings. Pure.".
-spec judged(node(), seen()) -> [dyno_finding:t()].
judged(Node, #{pid := Pid, threads := Threads} = Seen) ->
    Of = fun(Prefix) ->
        [T || #{name := Name} = T <- Threads, string:prefix(Name, Prefix) =/= nomatch]
    end,
    Found =
        stopped(Seen) ++ descriptors(Seen) ++ dirty_io(Pid, Of(~"erts_dios_")) ++
            spinning(Pid, Of(~"erts_sched_")) ++ held(Seen),
    dyno_finding:ranked([
        finding(critical, {Check, Name, 200}, {~"node", Value}, #{
            limit => Limit,
            beyond => Value / Limit,
            text => text("~ts does not answer~ts", [Node, Text]),
            evidence => text("Seen from outside, of process ~ts of this machine.", [Pid]),
            advice => Advice
        })
     || {Check, Name, Value, Limit, Text, Advice} <- Found
    ]).

%% Limits are higher than those of a node that answers.

stopped(#{pid := Pid, threads := Threads}) ->
    Stopped = length([T || #{state := State} = T <- Threads, State =:= ~"T" orelse State =:= ~"t"]),
    [
        {stopped, none, Stopped, 1, ~": its emulator is stopped (a signal, or a debugger)",
            text("Now: if no debugger has stopped it, kill -CONT ~ts lets it go on.", [Pid])}
     || Stopped > 0
    ].

descriptors(#{fds := Fds, fds_limit := Limit}) when
    is_integer(Limit), Fds >= ?DESCRIPTORS * Limit
->
    %% While they are counted, others may come.
    Used = min(Fds, Limit),
    Text = text(": ~b of ~b descriptors are in use, and few are left", [Used, Limit]),
    [
        {near_limit, table_full, Fds / Limit, ?DESCRIPTORS, Text,
            "Now: end clients, or take it out of the load balancer. Later: ulimit -n (LimitNOFILE "
            "of systemd) raises the limit at the next start."}
    ];
descriptors(_Seen) ->
    [].

dirty_io(Pid, Threads) ->
    Stuck = [
        Call
     || #{call := Call, cpu := Cpu, state := State} <- Threads,
        Cpu < 0.1,
        (is_integer(Call) andalso not lists:member(Call, ?IDLE_CALLS)) orelse State =:= ~"D"
    ],
    Share = length(Stuck) / max(1, length(Threads)),
    Verb =
        case Stuck of
            [_] -> ~"waits";
            _ -> ~"wait"
        end,
    Text = text("~b of ~b dirty I/O schedulers ~ts in a system call~ts", [
        length(Stuck), length(Threads), Verb, name(Stuck)
    ]),
    Advice = text(
        "Now: see its files (ls -l /proc/~ts/fd): one may not answer (a FIFO, NFS). Open the other "
        "end of a FIFO. umount -f loses data: use it last.",
        [Pid]
    ),
    case Stuck of
        _ when Share >= ?STUCK ->
            [{dirty_io, dirty_io_stuck, Share, ?STUCK, [": ", Text], Advice}];
        [_ | _] ->
            Waits = ["; ", Text, ": that may be why, or not"],
            [{dirty_io, none, length(Stuck), 1, Waits, Advice}];
        [] ->
            []
    end.

%% Of x86-64.
name(Calls) ->
    Names = #{
        257 => ~"open",
        2 => ~"open",
        0 => ~"read",
        1 => ~"write",
        17 => ~"read",
        18 => ~"write",
        74 => ~"fsync",
        75 => ~"fdatasync",
        262 => ~"stat"
    },
    case lists:uniq([Name || Call <- Calls, {ok, Name} <- [maps:find(Call, Names)]]) of
        [] -> ~"";
        Known -> [", ", lists:join(" or ", Known)]
    end.

spinning(Pid, Threads) ->
    Least = lists:min([1.0 | [Cpu || #{cpu := Cpu} <- Threads]]),
    Text = text(": all ~b schedulers ran, or waited for a processor", [length(Threads)]),
    Advice = text(
        "Now: see top, and take load away. A function that does not yield may keep them (a NIF, a "
        "regular expression, a huge term), or processes of priority high or max. Last: kill -USR1 "
        "~ts ends the node, and writes a large dump.",
        [Pid]
    ),
    [
        {schedulers_full, scheduler_full, Least, ?SPINNING, Text, Advice}
     || Threads =/= [], Least > ?SPINNING
    ].

held(#{throttled := Share}) when is_float(Share), Share > ?HELD_BACK ->
    Text = text(
        " in time: its quota held threads back for ~.1f s of a second, summed over processors", [
            Share
        ]
    ),
    [{throttled, throttled, Share, ?HELD_BACK, Text, ~"Now: raise the container's quota."}];
held(_Seen) ->
    [].
