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

-type thread() :: #{
    name := binary(),
    %% R, S, D, T, as in ps.
    state := binary(),
    %% The thread's system call; none if running or not visible.
    call := non_neg_integer() | none,
    %% Of one processor, since the last reading.
    cpu := float()
}.

-type seen() :: #{
    pid := binary(),
    threads := [thread()],
    fds := non_neg_integer(),
    fds_limit := pos_integer() | unlimited,
    %% The share of the time in which a quota held it back; unknown without cgroup v2.
    throttled := float() | unknown
}.

-define(WINDOW_MS, 1000).
-define(TICKS_PER_S, 100).
-define(FUTEX, 202).
%% System calls in which a scheduler's thread waits for work.
-define(IDLE_CALLS, [?FUTEX, 232, 281, 7, 271]).

-doc "A node's findings, or why the node is not visible. Takes a second.".
-spec findings(node()) -> {ok, [dyno_finding:t()]} | {unseen, Why :: binary()}.
findings(Node) ->
    maybe
        {ok, Pid} ?= process(Node),
        {ok, Seen} ?= read(Pid),
        {ok, judged(Node, Seen)}
    else
        {unseen, _} = Unseen -> Unseen
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
            {unseen, <<
                "its process cannot be seen from here: it is on another machine, or of "
                "another user"
            >>}
    end.

is_pid_folder(Name) -> lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Name).

folder(Path) ->
    case file:list_dir(Path) of
        {ok, Names} -> Names;
        {error, _} -> []
    end.

text(Path) ->
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
        Line <- binary:split(text(File), ~"\n", [global, trim_all]),
        [_, Local, _, ~"0A", _, _, _, _, _, Inode | _] <- [fields(Line)],
        binary:longest_common_suffix([Local, End]) =:= byte_size(End)
    ].

fields(Line) -> binary:split(Line, [~" ", ~"\t", ~"\n"], [global, trim_all]).

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
                        cpu => (Ticks - element(3, maps:get(Id, Before, {Name, State, Ticks}))) *
                            1000 /
                            ?TICKS_PER_S / ?WINDOW_MS
                    }
                 || Id := {Name, State, Ticks} <- After
                ],
                fds => length(folder(filename:join(Folder, "fd"))),
                fds_limit => fds_limit(text(filename:join(Folder, "limits"))),
                throttled => share(Throttled, throttled(Folder))
            }}
    end.

ticks(Folder) ->
    maps:from_list([
        {Id, {Name, State, binary_to_integer(User) + binary_to_integer(System)}}
     || Id <- folder(filename:join(Folder, "task")),
        [Head, Tail] <- [
            string:split(text(filename:join([Folder, "task", Id, "stat"])), ~")", trailing)
        ],
        [_, Name] <- [string:split(Head, ~"(")],
        [State, _, _, _, _, _, _, _, _, _, _, User, System | _] <- [fields(Tail)]
    ]).

call(Path) ->
    case string:to_integer(text(Path)) of
        {Number, _} when is_integer(Number), Number >= 0 -> Number;
        _ -> none
    end.

fds_limit(Text) ->
    case re:run(Text, "Max open files +([0-9]+)", [{capture, all_but_first, binary}]) of
        {match, [Number]} -> binary_to_integer(Number);
        nomatch -> unlimited
    end.

share(BeforeUs, AfterUs) when is_integer(BeforeUs), is_integer(AfterUs) ->
    (AfterUs - BeforeUs) / 1000 / ?WINDOW_MS;
share(_Before, _After) ->
    unknown.

throttled(Folder) ->
    Us = [
        binary_to_integer(Us)
     || <<"0::", Path/binary>> <- binary:split(text(filename:join(Folder, "cgroup")), ~"\n", [
            global
        ]),
        {match, [Us]} <- [
            re:run(
                text(<<"/sys/fs/cgroup", Path/binary, "/cpu.stat">>), "throttled_usec ([0-9]+)",
                [{capture, all_but_first, binary}]
            )
        ]
    ],
    case Us of
        [Sum | _] -> Sum;
        [] -> unknown
    end.

-doc "The findings from these readings. Pure.".
-spec judged(node(), seen()) -> [dyno_finding:t()].
judged(Node, #{threads := Threads} = Seen) ->
    Of = fun(Prefix) ->
        [T || #{name := Name} = T <- Threads, string:prefix(Name, Prefix) =/= nomatch]
    end,
    dyno_finding:ranked(
        stopped(Node, Seen) ++ descriptors(Node, Seen) ++ dirty_io(Node, Of(~"erts_dios_"), Seen) ++
            spinning(Node, Of(~"erts_sched_"), Seen) ++ held(Node, Seen)
    ).

finding(Check, Limit, Value, Pid, Text, Advice) ->
    dyno_finding:new(Check, Limit, #{
        subject => ~"node",
        severity => critical,
        value => Value,
        weight => 200,
        text => Text,
        evidence => dyno_recording_part:text(
            "Seen from outside, of process ~ts of this machine.", [Pid]
        ),
        advice => Advice
    }).

stopped(Node, #{pid := Pid, threads := Threads}) ->
    Stopped = length([T || #{state := State} = T <- Threads, State =:= ~"T" orelse State =:= ~"t"]),
    [
        finding(
            stopped,
            none,
            Stopped,
            Pid,
            dyno_recording_part:text(
                "~ts does not answer: its emulator is stopped (a signal, or a debugger)", [Node]
            ),
            dyno_recording_part:text("kill -CONT ~ts lets it go on, if nobody debugs it.", [Pid])
        )
     || Stopped > 0
    ].

descriptors(Node, #{pid := Pid, fds := Fds, fds_limit := Limit}) when
    is_integer(Limit), Fds >= 0.98 * Limit
->
    [
        finding(
            near_limit,
            table_full,
            Fds / Limit,
            Pid,
            dyno_recording_part:text(
                "~ts does not answer: ~b of ~b descriptors are in use, so it accepts no connection",
                [Node, Fds, Limit]
            ),
            <<
                "Close what nobody uses; ulimit -n (LimitNOFILE of systemd) raises the limit at "
                "the next start."
            >>
        )
    ];
descriptors(_Node, _Seen) ->
    [].

dirty_io(Node, Threads, #{pid := Pid}) ->
    Stuck = [
        Call
     || #{call := Call, cpu := Cpu, state := State} <- Threads,
        Cpu < 0.1,
        (is_integer(Call) andalso not lists:member(Call, ?IDLE_CALLS)) orelse State =:= ~"D"
    ],
    [
        finding(
            dirty_io,
            dirty_io_stuck,
            length(Stuck) / length(Threads),
            Pid,
            dyno_recording_part:text(
                "~ts does not answer: ~b of ~b dirty I/O schedulers wait in a system call~ts", [
                    Node, length(Stuck), length(Threads), name(Stuck)
                ]
            ),
            <<
                "Find the file that does not answer (a FIFO, NFS, a full disk), and unblock or "
                "unmount it."
            >>
        )
     || Threads =/= [], length(Stuck) * 2 >= length(Threads)
    ].

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

spinning(Node, Threads, #{pid := Pid}) ->
    Busy = [Cpu || #{cpu := Cpu} <- Threads, Cpu > 0.9],
    [
        finding(
            schedulers_full,
            scheduler_full,
            length(Busy) / length(Threads),
            Pid,
            dyno_recording_part:text(
                "~ts does not answer: all ~b schedulers work without a pause", [
                    Node, length(Threads)
                ]
            ),
            <<
                "A function that does not yield keeps them (a NIF, a regular expression, a huge "
                "term), or there is far too much work; take load from the node, or have it write "
                "a crash dump (kill -USR1) and end."
            >>
        )
     || Threads =/= [], length(Busy) =:= length(Threads)
    ].

held(Node, #{pid := Pid, throttled := Share}) when is_float(Share), Share > 0.3 ->
    [
        finding(
            throttled,
            throttled,
            Share,
            Pid,
            dyno_recording_part:text(
                "~ts does not answer in time: its processor quota holds it back ~ts of the time", [
                    Node, dyno_unit:format(Share, ~"ratio")
                ]
            ),
            ~"Raise the container's quota."
        )
    ];
held(_Node, _Seen) ->
    [].
