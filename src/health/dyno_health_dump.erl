%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_dump).
-moduledoc """
Finds in a crash dump (erl_crash.dump) why a node ended, for `dyno doctor --dump`.

A dump is one moment: it shows what was large or long, not what grew. The file is read as a stream,
with bounded memory.
""".

-export([findings/1, judged/1, format_error/1, fault/1]).
-export_type([reason/0]).

-import(dyno_health_look, [finding/4, text/2, show/2, count/1, bytes/1, place/1]).
-import(dyno_finding_limits, [value/1]).

-type reason() :: {no_dump, file:filename_all()} | {unreadable, file:filename_all(), atom()}.

-define(MOST_NAMED, 3).
-define(MANY_PROCESSES, 10_000).

-doc "Reads a dump; its findings, the worst first.".
-spec findings(file:filename_all()) -> dyno_error:result([dyno_finding:t()]).
findings(Path) ->
    case dyno_health_dump_file:read(Path) of
        {ok, Reading} ->
            {ok, judged(Reading)};
        {error, no_dump} ->
            {error, {?MODULE, {no_dump, Path}}};
        {error, Reason} ->
            {error, {?MODULE, {unreadable, Path, Reason}}}
    end.

-doc "The findings of a reading. Pure.".
-spec judged(dyno_health_dump_file:reading()) -> [dyno_finding:t()].
judged(Reading) ->
    dyno_finding:ranked(
        ended(Reading) ++ cut_off(Reading) ++ queues(Reading) ++ memory(Reading) ++
            processes(Reading) ++ atoms(Reading)
    ).

%% The emulator's last words

ended(#{header := Header} = Reading) ->
    Slogan = maps:get(~"Slogan", Header, ~"no reason is given"),
    {Severity, Text, Advice} = why(Slogan, Reading),
    [
        finding(Severity, {ended, none, 300}, {~"node", none}, #{
            text => Text,
            evidence => text("Its last words: ~ts. Written ~ts~ts.", [
                Slogan, maps:get(~"Written", Header, ~"at an unknown time"), ran(Reading)
            ]),
            advice => Advice
        })
    ].

ran(#{current := [_ | _] = Pids, largest := A, longest := B}) ->
    Names = lists:uniq([name(P) || #{pid := Pid} = P <- A ++ B, lists:member(Pid, Pids)]),
    [["; then ran ", lists:join(" and ", Names)] || Names =/= []];
ran(_Reading) ->
    [].

why(Slogan, Reading) ->
    Known = [
        {
            [~"allocate", ~"no next heap size"],
            critical,
            text("the node ended because it got no more memory: it had ~ts", [
                bytes(kind(~"total", Reading))
            ]),
            "Reduce the memory named below, or give the machine (the container) more memory; "
            "max_heap_size ends one process instead of the node."
        },
        {
            [~"atom_tab", ~"atom table"],
            critical,
            ~"the node ended because its table of atoms was full",
            "Find what makes atoms (list_to_atom, binary_to_atom, binary_to_term, xmerl) of what "
            "comes from outside, and use the functions with existing in their names."
        },
        {
            [~"Kernel pid terminated"],
            critical,
            ~"the node ended because an application that it cannot be without ended",
            "Read the log before that moment: the supervisor of the application gave up (its limit "
            "of restarts) or did not start."
        },
        {
            [~"init terminating"],
            critical,
            ~"the node ended while it started",
            ~"Read the error in its last words: a file, a module or an argument may be missing."
        },
        {
            [~"SIGUSR1", ~"by user"],
            note,
            ~"the node was asked to write this dump and end",
            ~"Ask who ended it."
        }
    ],
    case [Why || {Parts, _, _, _} = Why <- Known, binary:match(Slogan, Parts) =/= nomatch] of
        [{_, Severity, Text, Advice} | _] ->
            {Severity, Text, Advice};
        [] ->
            {critical, text("the node ended: ~ts", [Slogan]),
                "Read the log before that moment. A program ends a node so with erlang:halt/1; "
                "otherwise search for these words in the issues of Erlang/OTP."}
    end.

cut_off(#{is_whole := true}) ->
    [];
cut_off(#{is_whole := false, processes := N}) ->
    [
        finding(doubt, {cut_off, none, 0}, {~"dump", none}, #{
            text => text("the dump was cut off after ~ts processes: counts are lower bounds", [
                count(N)
            ]),
            advice =>
                "Let the node write all of it: a full disk, ERL_CRASH_DUMP_BYTES, "
                "ERL_CRASH_DUMP_SECONDS, heart, or the container's end cuts it."
        })
    ].

%% Queues

queues(#{longest := Longest}) ->
    [
        finding(critical, {queue, queue, 100}, {name(Process), Queue}, #{
            text => text("~ts messages waited for ~ts~ts", [
                count(Queue), name(Process), stood(Process)
            ]),
            evidence => text("It was ~ts, and held ~ts with its messages.", [
                string:lowercase(State), bytes(Bytes)
            ]),
            advice =>
                "Let senders wait (a call instead of a cast) or drop above a limit; share the work "
                "among several processes."
        })
     || #{queue := Queue, bytes := Bytes, state := State} = Process <- lists:sublist(
            Longest, ?MOST_NAMED
        ),
        Queue > value(queue)
    ].

%% Memory

memory(#{tables := Tables, largest := Largest} = Reading) ->
    Total = max(1, kind(~"total", Reading)),
    Binary = kind(~"binary", Reading),
    Least = max(value(heap_bytes), 0.1 * Total),
    heaps(Largest, Least, Total) ++
        [
            finding(warning, {table_grows, heap_bytes, 60}, {Name, Bytes}, #{
                text => text("table ~ts had ~ts rows and ~ts, ~ts of all memory~ts", [
                    Name,
                    count(Rows),
                    bytes(Bytes),
                    show(Bytes / Total, ~"ratio"),
                    [text(", in ~b tables of that name", [N]) || N > 1]
                ]),
                advice => ~"Delete rows when what they belong to ends, or by age."
            })
         || {Bytes, Name, N, Rows} <- largest(Tables), Bytes > Least
        ] ++
        [
            finding(warning, {binaries, binary_bytes, 40}, {~"binaries", Binary}, #{
                text => text("binaries took ~ts of ~ts", [bytes(Binary), bytes(Total)]),
                advice =>
                    "Often they are held by long queues, by processes that collect seldom "
                    "(hibernate, fullsweep_after), or by small parts of large ones (binary:copy/1)."
            })
         || Binary > value(binary_bytes), Binary > 0.3 * Total
        ].

heaps(Largest, Least, Total) ->
    [
        finding(warning, {big_heap, heap_bytes, 70}, {name(Process), Bytes}, #{
            text => text("~ts had ~ts, ~ts of all memory~ts", [
                name(Process), bytes(Bytes), show(Bytes / Total, ~"ratio"), stood(Process)
            ]),
            evidence => text("It was ~ts, and had ~ts messages and ~ts links.", [
                string:lowercase(State), count(Queue), count(Links)
            ]),
            advice =>
                "If messages take it, its queue is the fault. Else its state grew, or a term was "
                "far too large; max_heap_size ends the process instead of the node."
        })
     || #{bytes := Bytes, queue := Queue} = Process <- lists:sublist(Largest, ?MOST_NAMED),
        #{state := State, links := Links} <- [Process],
        Bytes > Least
    ].

%% Many processes of one function.
processes(#{groups := Groups, processes := Count}) ->
    [
        finding(warning, {processes_grow, none, 75}, {Name, N}, #{
            text => text("~ts of ~ts processes were started as ~ts, with ~ts and ~ts messages", [
                count(N), count(Count), Name, bytes(Bytes), count(Queued)
            ]),
            advice =>
                "If that is more than the node has work, they do not end. Give what they wait for "
                "a time limit, or monitor who is to answer."
        })
     || {_, Name, N, Queued, Bytes} <- lists:sublist(
            lists:reverse(lists:sort([{N, Name, N, Q, B} || Name := {N, Q, B} <- Groups])), 1
        ),
        N > ?MANY_PROCESSES
    ].

atoms(#{atoms := {N, Limit}}) ->
    [
        finding(critical, {near_limit, table_full, 180}, {~"atoms", N / Limit}, #{
            text => text("~ts of ~ts atoms were in use", [count(N), count(Limit)]),
            advice => ~"Find what makes atoms; +t raises the limit."
        })
     || Limit > 0, N > value(table_full) * Limit
    ];
atoms(_Reading) ->
    [].

kind(Name, #{memory := Memory}) -> maps:get(Name, Memory, 0).

largest(Sums) ->
    Sorted = lists:reverse(
        lists:sort([{Bytes, Name, N, Rows} || Name := {N, Rows, Bytes} <- Sums])
    ),
    lists:sublist(Sorted, ?MOST_NAMED).

name(#{name := ~"", pid := Pid, group := Group}) -> text("~ts (~ts)", [Pid, Group]);
name(#{name := Name}) -> Name.

stood(#{stack := [_ | _] = Stack}) -> text("; it stood in ~ts", [place(Stack)]);
stood(_Process) -> ~"".

-doc false.
-spec format_error(reason()) -> unicode:chardata().
format_error({no_dump, Path}) ->
    [Path, " is no crash dump of Erlang: it does not begin with =erl_crash_dump"];
format_error({unreadable, Path, Reason}) ->
    [Path, " cannot be read: ", file:format_error(Reason)].

-doc false.
-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> caller.
