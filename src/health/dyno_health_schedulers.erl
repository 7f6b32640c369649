%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_schedulers).
-moduledoc false.
%% Schedulers: full, stuck, spinning, held by long calls, or stopped from outside.

-export([checks/0, is_taken/1]).

-import(dyno_health_look, [
    finding/4, warning_if/1, text/2, show/2, count/1, of_last/2, mean/2, least/2, sum/2
]).
-import(dyno_health_look, [known/3, suspects/1, sets/1, progresses/1, stands/1, groups/1]).
-import(dyno_health_look, [waiting_in/2, last/1, long/2, has_reports/1]).
-import(dyno_finding_limits, [value/1]).

%% Of a process in a long native call; a tenth of Erlang code's in 1 ms.
-define(NATIVE_REDUCTIONS, 20_000).
%% +sbwt long.
-define(LONG, 4).
%% By other programs, of the time of each scheduler.
-define(TAKEN, 0.3).
%% By a quota: seconds a second, of all schedulers.
-define(HELD_BACK, 0.1).
%% Of the schedulers' processors; less is only noted.
-define(SPIN, 0.2).
%% The schedulers could have run more.
-define(IDLE, 0.8).
%% Of the moments.
-define(ALWAYS, 0.8).
-define(MANY_READY, 500).
-define(NOT_READ, ~"the schedulers were not read").

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {dirty_io, ~"dirty I/O schedulers", 2, fun dirty_io/1},
        {dirty_cpu, ~"dirty CPU schedulers", 2, fun dirty_cpu/1},
        {schedulers_full, ~"normal schedulers and run queues", 2, fun full/1},
        {ready, ~"processes that wait for a scheduler that is not busy", 3, fun ready/1},
        {long_schedule, ~"long native calls", 2, fun long_schedules/1},
        {stands_still, ~"a node that stands still", 2, fun stands_still/1},
        {busy_wait, ~"busy waiting", 2, fun busy_wait/1},
        {more_schedulers, ~"schedulers against processors", 2, fun processors/1}
    ].

busy(Kind) -> [~"values", <<"vm.scheduler_utilisation.", Kind/binary>>].

busy_of(Kind, Looks) -> mean(busy(Kind), Looks).

%% Busy without processor time: waiting in system calls.
dirty_io(Looks) ->
    Values = [least(busy(~"dirty_io"), Looks), of_last([~"counts", ~"dirty_io"], Looks)],
    known(Values, ?NOT_READ, fun(Busy, Count) ->
        Cpu = sum([~"threads", ~"dirty_io", ~"cpu_ns"], Looks),
        Worked = sum([~"threads", ~"dirty_io", ~"worked_ns"], Looks),
        Waits = Cpu =:= unknown orelse Cpu < 0.2 * Worked,
        [dirty_io(Busy, Count, Cpu, Looks) || Busy > value(dirty_io_stuck), Waits]
    end).

dirty_io(Busy, Count, Cpu, Looks) ->
    Calls = [<<"prim_file:", Name/binary>> || Name <- [~"open", ~"read_", ~"write_", ~"sync_"]],
    {Waiting, Who} = waiting_in(Calls, last(Looks)),
    Running = running_in(~"prim_file:", Looks),
    Files = lists:uniq(lists:append([Of || #{~"stuck_files" := Of} <- tl(Looks)])),
    Unused = [" and hardly used a processor" || Cpu =/= unknown],
    {Severity, Does, Advice} =
        case [R || {_, _, true} = R <- Running] of
            [] ->
                Such = [[", such as at ", File] || File <- lists:sublist(Files, 1)],
                {critical, ["were busy", Unused, Such],
                    "Now: find the file that does not answer (a FIFO, NFS), and see iostat -x. "
                    "Open the other end of a FIFO. umount -f loses data: use it last. Later: keep "
                    "such files out of the node, in a port program; more of these schedulers "
                    "(+SDio) only put it off."};
            [_ | _] ->
                {warning, ~"wait for files, in calls that take long",
                    "Now: see whether the disk is slow (iostat -x): other file operations wait for "
                    "the same schedulers. Later: write less often and more at a time, and call "
                    "file:sync/1 for many writes at once."}
        end,
    Evidence =
        case {Running, Waiting} of
            {[{Name, Frame, _} | _], _} -> text(" One of them is ~ts in ~ts.", [Name, Frame]);
            {[], 0} -> ~"";
            {[], _} -> text(" Such as in ~ts.", [Who])
        end,
    finding(Severity, {dirty_io, dirty_io_stuck, 170}, {~"dirty I/O schedulers", Busy}, #{
        text => text("~b of ~b dirty I/O schedulers ~ts", [round(Busy * Count), Count, Does]),
        evidence => text("They were busy ~b % of the time~ts.~ts~ts", [
            round(100 * Busy),
            Unused,
            Evidence,
            [[" Files: ", lists:join(", ", lists:sublist(Files, 3)), "."] || Files =/= []]
        ]),
        advice => Advice,
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).

%% A process and its function, and whether it goes on.
running_in(Prefix, Looks) ->
    [
        {Name, Frame, lists:any(fun(A) -> progresses(A) =:= true end, Asked)}
     || {_, Asked} <- suspects(Looks),
        {[Frame | _], _, _} <- [stands(Asked)],
        string:prefix(Frame, Prefix) =/= nomatch,
        #{~"name" := Name} <- [lists:last(Asked)]
    ].

dirty_cpu(Looks) ->
    Queue = mean([~"values", ~"vm.run_queue.dirty_cpu"], Looks),
    Values = [busy_of(~"dirty_cpu", Looks), Queue, of_last([~"counts", ~"dirty_cpu"], Looks)],
    known(Values, ?NOT_READ, fun(Busy, Waiting, Count) ->
        [
            finding(warning, {dirty_cpu, dirty_cpu_full, 85}, {~"dirty CPU schedulers", Busy}, #{
                text => text(
                    "all ~b dirty CPU schedulers are busy (~b %), and ~ts processes wait for one", [
                        Count, round(100 * Busy), count(Waiting)
                    ]
                ),
                evidence => busiest(Looks),
                advice =>
                    "Now: take load away. Later: limit how many such calls (hashes, compression, "
                    "images) run at a time, with a pool of the size of +SDcpu; collections of "
                    "large heaps wait for the same schedulers.",
                look_closer => ~"dyno profile NODE"
            })
         || Busy > value(dirty_cpu_full), Waiting >= 1
        ]
    end).

busiest(Looks) ->
    case {dyno_health_code:busiest(Looks), dyno_health_code:busiest_group(Looks)} of
        {{_, Share, _, _}, {Group, Of, Count}} when Of > 2 * Share ->
            text("All ~ts processes of ~ts together did ~b % of all reductions.", [
                count(Count), Group, round(100 * Of)
            ]);
        {{Name, Share, Place, _}, _} when Share > 0.02 ->
            Sets = [Text || {Text, _} <- [sets(Looks)]],
            text("Busiest of those asked: ~ts, ~b % of all reductions, in ~ts.~ts", [
                Name, round(100 * Share), Place, Sets
            ]);
        _ ->
            ~""
    end.

full(Looks) ->
    Queue = mean([~"values", ~"vm.run_queue.normal"], Looks),
    Values = [busy_of(~"normal", Looks), Queue, schedulers(Looks)],
    %% A scheduler whose thread waits for a processor counts as busy, too.
    Severity = warning_if(not is_taken(Looks)),
    known(Values, ?NOT_READ, fun(Busy, Ready, Count) ->
        [
            finding(Severity, {schedulers_full, scheduler_full, 45}, {~"schedulers", Busy}, #{
                text => text(
                    "all ~b schedulers are busy (~b %), and ~ts processes are ready and wait", [
                        Count, round(100 * Busy), count(Ready)
                    ]
                ),
                evidence => busiest(Looks),
                advice =>
                    "Now: see which functions take the time (dyno profile NODE), and take load "
                    "away. Later: if the work is wanted, give the node more processors.",
                look_closer => ~"dyno profile NODE"
            })
         || Busy > value(scheduler_full), Ready > Count
        ]
    end).

schedulers(Looks) -> of_last([~"counts", ~"schedulers"], Looks).

%% How long they wait: by Little's law, how many are ready by how many are run each second.
ready(Looks) ->
    Mean = fun(Key) -> mean([~"lateness", Key], Looks) end,
    Values = [
        Mean(~"ready"),
        Mean(~"ready_share"),
        mean([~"values", ~"vm.context_switches"], Looks),
        busy_of(~"normal", Looks)
    ],
    known(Values, ?NOT_READ, fun(Ready, Share, PerS, Busy) ->
        Most = lists:max([N || #{~"lateness" := #{~"most_ready" := N}} <- Looks]),
        Ms = 1000 * Ready / max(1, PerS),
        Late = Most > ?MANY_READY andalso Ms > value(ready_ms),
        if
            Busy > ?IDLE ->
                [];
            Share > ?ALWAYS ->
                [
                    ready(none, Ready, Busy, Looks, {
                        text("about ~ts processes are ready all the time", [count(Ready)]),
                        ~"Most likely they all wait for the same scheduler.",
                        "see who starts processes with the option scheduler of spawn_opt/2 (it is "
                        "not documented), or the node with +scl false, and remove that."
                    })
                ];
            Late ->
                [
                    ready(ready_ms, Ms, Busy, Looks, {
                        text(
                            "up to ~ts processes are ready at the same moment, and wait ~ts for a "
                            "scheduler on average",
                            [count(Most), show(Ms, ~"ms")]
                        ),
                        ~"Most likely their timers, or a message to all of them, come at once.",
                        "let each begin its interval at a time of its own (rand:uniform/1 of it), "
                        "or send to them in parts."
                    })
                ];
            true ->
                []
        end
    end).

ready(Limit, Value, Busy, Looks, {Text, Why, Later}) ->
    Severity = warning_if(not is_taken(Looks)),
    finding(Severity, {ready, Limit, 47}, {~"processes", Value}, #{
        text => text("~ts, though the schedulers are busy ~b % of the time only", [
            Text, round(100 * Busy)
        ]),
        evidence => [Why, " ", busiest(Looks)],
        advice => ["Now: nothing. Later: ", Later],
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).

long_schedules(Looks) ->
    case has_reports(Looks) of
        false ->
            native(Looks);
        true ->
            Most = lists:sublist(lists:reverse(lists:sort(long(~"long_schedule", Looks))), 2),
            lists:append([long_schedule(F, Looks) || {N, _, _, _} = F <- Most, N >= 3])
    end.

%% Native functions count few reductions. With many reductions it is Erlang code or a BIF, which may
%% be late only because other programs have the processor.
long_schedule({N, Ms, Group, [Name | _]}, Looks) ->
    Counted = [R || L <- tl(Looks), #{Group := #{~"reductions" := R}} <- [groups(L)]],
    Worked = lists:sum(Counted),
    %% In a large node not all groups are counted.
    Native = Counted =/= [] andalso Worked < ?NATIVE_REDUCTIONS * N,
    Delay = delay(Looks),
    IsTaken = Delay =:= unknown orelse Delay > 0.05,
    %% To copy a large term takes few reductions, too.
    Copies = dyno_health_memory:are_copied(Looks),
    {What, Advice, Meanwhile} =
        case {Native, Counted} of
            {true, _} when Copies ->
                {~"the copy of a large term (a message, a row of a table)", give_less(), ~""};
            {true, _} ->
                {~"a native function that does not yield", native_advice(), did(Worked)};
            {false, []} ->
                {~"a native function, or a built-in one with much to do", give_less(), ~""};
            {false, _} ->
                {~"a built-in function with much to do", give_less(), did(Worked)}
        end,
    [
        finding(warning, {long_schedule, long_schedule, 95}, {Group, Ms}, #{
            text => text("a process of ~ts ran up to ~ts without a yield, ~b times; likely ~ts", [
                Group, show(Ms, ~"ms"), N, What
            ]),
            evidence => text(
                "The runtime reports such runs, one of them of ~ts.~ts A collection, or a slow "
                "machine, may look the same.",
                [Name, Meanwhile]
            ),
            advice => Advice,
            look_closer => ~"dyno profile NODE --kind cpu"
        })
     || Native orelse not IsTaken
    ].

did(Worked) ->
    text(" All processes of that function did ~ts reductions meanwhile.", [count(Worked)]).

give_less() ->
    "Now: see which function takes long (dyno profile NODE --kind cpu). Later: give it less at "
    "a time (a large term, table or message queue; all links of a process that has many).".

native_advice() ->
    "Now: see which function takes long (dyno profile NODE --kind cpu). Later: if it is native (a "
    "NIF), let it run on a dirty scheduler (ERL_NIF_DIRTY_JOB_CPU_BOUND), or in pieces of "
    "1 ms.".

%% OTP before 28 does not report native calls: schedulers are busy, with few reductions.
native(Looks) ->
    PerS = mean([~"values", ~"vm.reductions"], Looks),
    known([busy_of(~"normal", Looks), PerS, schedulers(Looks)], ?NOT_READ, fun(Busy, R, Count) ->
        Each = R / max(0.001, Busy * Count),
        Who = lists:uniq(
            [Group || {_, _, Group, _} <- long(~"long_schedule", Looks)] ++
                [
                    Group
                 || #{~"suspects" := Suspects} <- Looks,
                    #{~"native" := true, ~"group" := Group} <- Suspects
                ]
        ),
        [
            finding(
                warning,
                {long_schedule, native_reductions, 95},
                {hd(Who ++ [~"schedulers"]), Each},
                #{
                    beyond => value(native_reductions) / max(1, Each),
                    text => text(
                        "the schedulers were busy with few reductions~ts: native code, "
                        "collections, or too few processors",
                        [[[", such as in a process of ", Group] || Group <- lists:sublist(Who, 1)]]
                    ),
                    evidence => text(
                        "The schedulers are busy ~ts of the time with ~ts reductions a second; "
                        "Erlang code makes millions.~ts",
                        [
                            show(Busy, ~"ratio"),
                            count(R),
                            [
                                text(" Timers were late by up to ~ts.", [show(Late, ~"ms")])
                             || Late <- [most_late(Looks)], Late > 0
                            ]
                        ]
                    ),
                    advice => native_advice(),
                    look_closer => ~"dyno profile NODE --kind cpu"
                }
            )
         || Busy > 0.1, Each < value(native_reductions)
        ]
    end).

most_late(Looks) -> lists:max([0 | [N || #{~"lateness" := #{~"most_ms" := N}} <- tl(Looks)]]).

%% The share of time in which a scheduler's thread was ready but had no processor.
delay(Looks) ->
    Ms = lists:sum([N || #{~"interval_ms" := N} <- Looks]),
    case {sum([~"machine", ~"delay_ns"], Looks), of_last([~"counts", ~"schedulers"], Looks)} of
        {Ns, Count} when is_number(Ns), is_number(Count), Ms > 0 -> Ns / Count / (Ms * 1_000_000);
        _ -> unknown
    end.

-doc "Whether other programs have the processors or a quota holds it back: all takes longer.".
-spec is_taken([dyno_health_look:look()]) -> boolean().
is_taken(Looks) ->
    is_more(delay(Looks), ?TAKEN) orelse
        is_more(mean([~"values", ~"os.cgroup.throttled"], Looks), ?HELD_BACK).

is_more(Value, Limit) -> is_number(Value) andalso Value > Limit.

together(Looks) ->
    Ms = lists:sum([N || #{~"interval_ms" := N} <- Looks]),
    %% A look that is late itself counts a stop of its end twice.
    min(1.0, lists:sum([N || #{~"lateness" := #{~"together_ms" := N}} <- tl(Looks)]) / max(1, Ms)).

%% Native calls hold all schedulers at the same moments, too.
runs_native(Looks) ->
    case long_schedules(Looks) of
        [_ | _] = Found -> [] =/= [F || #{text := Text} = F <- Found, is_native(Text)];
        _ -> false
    end.

is_native(Text) -> binary:match(Text, [~"native function that", ~"native code"]) =/= nomatch.

%% All schedulers at the same moments: caused from outside.
stands_still(Looks) ->
    Share = together(Looks),
    Delay = delay(Looks),
    Busy = busy_of(~"normal", Looks),
    case Share > value(stands_still) andalso not runs_native(Looks) of
        %% The node's own work or other programs keep the processors: these have findings.
        true when is_number(Busy), Busy > 0.9 * Share -> [];
        true when is_number(Delay), Delay > Share / 2 -> [];
        true when Delay =:= unknown -> {unknown, ~"why it stands still cannot be told"};
        true ->
            [
                finding(critical, {stands_still, stands_still, 140}, {~"node", Share}, #{
                    text => text("the whole node stands still ~b % of the time, for up to ~ts", [
                        round(100 * Share), show(most_late(Looks), ~"ms")
                    ]),
                    evidence =>
                        "All schedulers stood still at the same moments, and its threads did not "
                        "wait for a processor. It may have been stopped: a processor quota, "
                        "SIGSTOP, a debugger, a paused virtual machine.",
                    advice =>
                        "Now: see cpu.stat of its cgroup. If nr_throttled grows, raise the quota "
                        "(docker update --cpus, limits.cpu in Kubernetes). Else look for SIGSTOP, "
                        "a debugger, or a paused host. Later: as many schedulers (+S) as the quota "
                        "has processors, and +sbwt none.",
                    look_closer => ~"dyno record NODE"
                })
            ];
        false ->
            []
    end.

busy_wait(Looks) ->
    Values = [
        mean([~"values", ~"os.vm.cpu"], Looks),
        busy_of(~"normal", Looks),
        schedulers(Looks),
        mean([~"values", ~"vm.reductions"], Looks)
    ],
    known(Values, ~"the processor time of the node was not read", fun(Cpu, Busy, Count, PerS) ->
        Dirty = [
            N * C
         || Kind <- [~"dirty_cpu", ~"dirty_io"],
            N <- [busy_of(Kind, Looks)],
            is_number(N),
            C <- [of_last([~"counts", Kind], Looks)],
            is_number(C)
        ],
        Work = max(0.001, Busy * Count + lists:sum(Dirty)),
        %% On a busy machine a thread waits for a processor also while it works, and gets little: if
        %% it makes fewer reductions than work does, or has the flag to wait actively, of the time
        %% in which it had or wanted one less must be work.
        Flag = of_last([~"machine_now", ~"busy_wait"], Looks),
        IsAsked = is_number(Flag) andalso Flag >= ?LONG,
        Wanted =
            case {delay(Looks), IsAsked orelse PerS < value(native_reductions) * Cpu} of
                {Share, true} when is_number(Share) -> Cpu + Share * Count;
                _ -> Cpu
            end,
        Verb =
            case Wanted > Cpu of
                true -> ~"wants";
                false -> ~"takes"
            end,
        [
            %% By default they wait actively for a moment after each piece of work.
            finding(
                warning_if(IsAsked orelse Wanted - Work > ?SPIN * Count),
                {busy_wait, busy_wait, 35},
                {~"schedulers", Wanted / Work},
                #{
                    text => text(
                        "the node ~ts ~ts processors, its schedulers work for ~ts: most likely "
                        "they wait actively",
                        [Verb, show(Wanted, ~"1"), show(Work, ~"1")]
                    ),
                    evidence => text("Of the time of ~b schedulers ~ts is work.~ts", [
                        Count,
                        show(Busy, ~"ratio"),
                        [text(" The node gets ~ts processors.", [show(Cpu, ~"1")]) || Wanted > Cpu]
                    ]),
                    advice =>
                        "Now: nothing. At the next start: +sbwt none +sbwtdcpu none +sbwtdio none; "
                        "it costs some latency after idle moments.",
                    look_closer => ~"dyno profile NODE --kind schedulers"
                }
            )
         || Cpu > 0.12 orelse (IsAsked andalso Cpu > 0.05), Wanted > value(busy_wait) * Work
        ]
    end).

processors(Looks) ->
    Paths = [[~"values", ~"os.cgroup.cpu.limit"], [~"counts", ~"processors"]],
    Has = lists:min([N || Path <- Paths, N <- [of_last(Path, Looks)], is_number(N)] ++ [unknown]),
    Why = ~"how many processors it may use is not known",
    known([schedulers(Looks), Has], Why, fun(Count, Most) ->
        [
            finding(
                warning_if(Count >= 2 * Most),
                {more_schedulers, processors, 25},
                {~"schedulers", Count / Most},
                #{
                    text => text("~b schedulers share ~ts processors", [Count, show(Most, ~"1")]),
                    advice => text("Now: nothing. At the next start: +S ~b.", [
                        max(1, round(Most))
                    ]),
                    look_closer => ~"dyno profile NODE --kind schedulers"
                }
            )
         || Count > max(1, Most) + 0.5
        ]
    end).
