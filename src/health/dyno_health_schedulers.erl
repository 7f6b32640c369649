%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_schedulers).
-moduledoc false.
%% Schedulers: full, stuck, spinning, held by long calls, or stopped from outside.

-export([checks/0]).

-import(dyno_health_look, [text/2, show/2, mean/2, least/2, of_last/2, sum/2]).
-import(dyno_finding_limits, [value/1]).

%% Of a process in a long native call; a tenth of Erlang code's in 1 ms.
-define(NATIVE_REDUCTIONS, 20_000).
%% Of a busy scheduler: Erlang code makes 2 million and more, even if other programs take the
%% processor.
-define(REDUCTIONS_PER_S, 300_000).

-spec checks() -> [dyno_health:check()].
checks() ->
    [
        #{name => dirty_io, title => ~"dirty I/O schedulers", finding => fun dirty_io/1},
        #{name => dirty_cpu, title => ~"dirty CPU schedulers", finding => fun dirty_cpu/1},
        #{
            name => schedulers_full,
            title => ~"normal schedulers and run queues",
            finding => fun full/1
        },
        #{name => long_schedule, title => ~"long native calls", finding => fun long_schedules/1},
        #{name => long_gc, title => ~"long collections", finding => fun long_gcs/1},
        #{
            name => stands_still,
            title => ~"a node that stands still",
            finding => fun stands_still/1
        },
        #{name => busy_wait, title => ~"busy waiting", finding => fun busy_wait/1},
        #{
            name => more_schedulers,
            title => ~"schedulers against processors",
            finding => fun processors/1
        }
    ].

busy(Kind) -> [~"values", <<"vm.scheduler_utilisation.", Kind/binary>>].

%% Busy without processor time: waiting in system calls.
dirty_io(Looks) ->
    Busy = least(busy(~"dirty_io"), Looks),
    Count = of_last([~"counts", ~"dirty_io"], Looks),
    Cpu = sum([~"threads", ~"dirty_io", ~"cpu_ns"], Looks),
    Worked = sum([~"threads", ~"dirty_io", ~"worked_ns"], Looks),
    case is_number(Busy) andalso is_number(Count) of
        false ->
            {unknown, ~"the schedulers were not read"};
        true ->
            Waits = Cpu =:= unknown orelse Cpu < 0.2 * Worked,
            case Busy > value(dirty_io_stuck) andalso Waits of
                true -> [dirty_io(Busy, Count, Looks)];
                false -> []
            end
    end.

dirty_io(Busy, Count, Looks) ->
    {Waiting, Who} = dyno_health_look:waiting_in(
        [
            ~"prim_file:open_nif/2",
            ~"prim_file:open/2",
            ~"prim_file:read_nif/2",
            ~"prim_file:write_nif/2",
            ~"prim_file:sync_nif/2"
        ],
        dyno_health_look:last(Looks)
    ),
    Running = running_in(~"prim_file:", Looks),
    Evidence =
        case {Running, Waiting} of
            {[{Name, Frame} | _], _} -> text(" One of them is ~ts in ~ts.", [Name, Frame]);
            {[], 0} -> ~"";
            {[], _} -> text(" Such as in ~ts.", [Who])
        end,
    dyno_finding:new(dirty_io, dirty_io_stuck, #{
        subject => ~"dirty I/O schedulers",
        severity => critical,
        value => Busy,
        weight => 170,
        text => text("~b of ~b dirty I/O schedulers sit in a system call that does not return", [
            round(Busy * Count), Count
        ]),
        evidence => text("They were busy ~b % of the time and hardly used a processor.~ts", [
            round(100 * Busy), Evidence
        ]),
        advice =>
            <<
                "Find the file that does not answer (a FIFO without a reader or writer, NFS, a "
                "full disk) and unblock or unmount it; more of these schedulers (+SDio) only put "
                "it off."
            >>,
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).

running_in(Prefix, Looks) ->
    [
        {Name, Frame}
     || {_, Asked} <- dyno_health_look:suspects(Looks),
        {[Frame | _], _, _} <- [dyno_health_look:stands(Asked)],
        string:prefix(Frame, Prefix) =/= nomatch,
        #{~"name" := Name} <- [lists:last(Asked)]
    ].

dirty_cpu(Looks) ->
    Queue = mean([~"values", ~"vm.run_queue.dirty_cpu"], Looks),
    case mean(busy(~"dirty_cpu"), Looks) of
        unknown ->
            {unknown, ~"the schedulers were not read"};
        Busy ->
            case Busy > value(dirty_cpu_full) andalso is_number(Queue) andalso Queue >= 1 of
                true ->
                    Count = of_last([~"counts", ~"dirty_cpu"], Looks),
                    [
                        dyno_finding:new(dirty_cpu, dirty_cpu_full, #{
                            subject => ~"dirty CPU schedulers",
                            severity => warning,
                            value => Busy,
                            weight => 85,
                            text => text(
                                "all ~b dirty CPU schedulers are busy (~b %), and ~ts "
                                "processes wait for one",
                                [Count, round(100 * Busy), show(Queue, ~"count")]
                            ),
                            evidence => busiest(Looks),
                            advice =>
                                <<
                                    "Limit how many such calls (hashes, compression, images) run "
                                    "at a time, with a pool of the size of +SDcpu; collections of"
                                    " large heaps wait for the same schedulers."
                                >>,
                            look_closer => ~"dyno profile NODE"
                        })
                    ];
                false ->
                    []
            end
    end.

busiest(Looks) ->
    case dyno_health_code:busiest(Looks) of
        {Name, Share, Place, _} when Share > 0.02 ->
            text("Busiest of those asked: ~ts, ~b % of all reductions, in ~ts.", [
                Name, round(100 * Share), Place
            ]);
        _ ->
            ~""
    end.

full(Looks) ->
    Busy = mean(busy(~"normal"), Looks),
    Queue = mean([~"values", ~"vm.run_queue.normal"], Looks),
    Count = of_last([~"counts", ~"schedulers"], Looks),
    case is_number(Busy) andalso is_number(Queue) andalso is_number(Count) of
        false ->
            {unknown, ~"the schedulers were not read"};
        true ->
            case Busy > value(scheduler_full) andalso Queue > Count of
                true ->
                    [
                        dyno_finding:new(schedulers_full, scheduler_full, #{
                            subject => ~"schedulers",
                            severity => warning,
                            value => Busy,
                            weight => 45,
                            text => text(
                                "all ~b schedulers are busy (~b %), and ~ts processes are "
                                "ready and wait",
                                [Count, round(100 * Busy), show(Queue, ~"count")]
                            ),
                            evidence => busiest(Looks),
                            advice =>
                                <<
                                    "See which functions take the time; if the work is wanted, "
                                    "give the node more processors, or less of it."
                                >>,
                            look_closer => ~"dyno profile NODE"
                        })
                    ];
                false ->
                    []
            end
    end.

long(Kind, Looks) ->
    maps:to_list(
        maps:groups_from_list(
            fun(#{~"group" := Group}) -> Group end,
            %% One that has ended may have been dyno's own.
            [
                L
             || #{~"long" := All} <- Looks,
                #{~"kind" := Of, ~"group" := Group} = L <- All,
                Of =:= Kind,
                Group =/= ~"(ended)"
            ]
        )
    ).

long_schedules(Looks) ->
    Found = lists:reverse(
        lists:sort([
            {
                lists:sum([N || #{~"count" := N} <- Of]),
                lists:max([Ms || #{~"most_ms" := Ms} <- Of]),
                Group,
                Of
            }
         || {Group, Of} <- long(~"long_schedule", Looks),
            string:prefix(Group, ~"dyno_agent_") =:= nomatch
        ])
    ),
    case dyno_health_look:at([~"counts", ~"reports"], dyno_health_look:last(Looks)) of
        false ->
            native(Looks);
        _ ->
            lists:append([
                long_schedule(F, Looks)
             || {N, _, _, _} = F <- lists:sublist(Found, 2), N >= 3
            ])
    end.

%% Native functions count few reductions. With many reductions it is Erlang code or a BIF, which may
%% be late only because other programs have the processor.
long_schedule({N, Ms, Group, [#{~"process" := Name} | _]}, Looks) ->
    Worked = lists:sum([
        R
     || L <- tl(Looks), #{Group := #{~"reductions" := R}} <- [dyno_health_look:groups(L)]
    ]),
    Native = Worked < ?NATIVE_REDUCTIONS * N,
    Delay = delay(Looks),
    IsTaken = Delay =:= unknown orelse Delay > 0.05,
    {What, Advice} =
        case Native of
            true ->
                {
                    ~"a native function that does not yield",
                    <<
                        "Let the native function (NIF) run on a dirty scheduler "
                        "(ERL_NIF_DIRTY_JOB_CPU_BOUND), or in pieces of 1 ms."
                    >>
                };
            false ->
                {
                    ~"a built-in function with much to do",
                    <<
                        "See which function takes long; give it less at a time (a large term, "
                        "table or message queue)."
                    >>
                }
        end,
    [
        dyno_finding:new(long_schedule, long_schedule, #{
            subject => Group,
            severity => warning,
            value => Ms,
            weight => 95,
            text => text(
                "a process of ~ts keeps a normal scheduler for up to ~ts, ~b times: ~ts", [
                    Group, show(Ms, ~"ms"), N, What
                ]
            ),
            evidence => text(
                "The runtime reports it, such as of ~ts, which did ~ts reductions meanwhile.",
                [Name, show(Worked, ~"count")]
            ),
            advice => Advice,
            look_closer => ~"dyno profile NODE"
        })
     || Native orelse not IsTaken
    ].

%% OTP before 28 does not report native calls: schedulers are busy, with few reductions.
native(Looks) ->
    Busy = mean(busy(~"normal"), Looks),
    PerS = mean([~"values", ~"vm.reductions"], Looks),
    Count = of_last([~"counts", ~"schedulers"], Looks),
    case is_number(Busy) andalso is_number(PerS) andalso is_number(Count) of
        false ->
            {unknown, ~"the schedulers were not read"};
        true when Busy > 0.1, PerS < ?REDUCTIONS_PER_S * Busy * Count ->
            Most = lists:max([0 | [Ms || #{~"lateness" := #{~"most_ms" := Ms}} <- tl(Looks)]]),
            Who = lists:uniq([
                Group
             || #{~"suspects" := Suspects} <- Looks,
                #{~"native" := true, ~"group" := Group} <- Suspects
            ]),
            Named =
                case Who of
                    [Group | _] -> [", such as a process of ", Group];
                    [] -> ""
                end,
            [
                dyno_finding:new(long_schedule, late_ms, #{
                    subject => hd(Who ++ [~"schedulers"]),
                    severity => warning,
                    value => Most,
                    weight => 95,
                    text => text("native functions keep the normal schedulers for up to ~ts~ts", [
                        show(Most, ~"ms"), Named
                    ]),
                    evidence => text(
                        "The schedulers are busy ~ts of the time with ~ts reductions a "
                        "second; Erlang code makes millions.",
                        [show(Busy, ~"ratio"), show(PerS, ~"count")]
                    ),
                    advice =>
                        <<
                            "Let the native function (NIF) run on a dirty scheduler "
                            "(ERL_NIF_DIRTY_JOB_CPU_BOUND), or in pieces of 1 ms."
                        >>,
                    look_closer => ~"dyno profile NODE"
                })
            ];
        true ->
            []
    end.

long_gcs(Looks) ->
    case dyno_health_look:at([~"counts", ~"reports"], dyno_health_look:last(Looks)) of
        false ->
            {unknown, ~"before OTP 28 the runtime does not report it to dyno alone"};
        _ ->
            [
                dyno_finding:new(long_gc, long_gc, #{
                    subject => Name,
                    severity =>
                        if
                            Most < 500 -> note;
                            true -> warning
                        end,
                    value => Most,
                    weight => 65,
                    text => text(
                        "~ts stands still for up to ~ts while its heap is collected, ~b times", [
                            one_of(Name, Of), show(Most, ~"ms"), N
                        ]
                    ),
                    evidence => ~"",
                    advice =>
                        <<
                            "Keep large state in ETS, or share it among processes; messages that "
                            "are large terms count, too."
                        >>,
                    look_closer => ~"dyno profile NODE --kind memory"
                })
             || {Name, Of} <- long(~"long_gc", Looks),
                string:prefix(Name, ~"dyno_agent_") =:= nomatch,
                N <- [lists:sum([C || #{~"count" := C} <- Of])],
                Most <- [lists:max([Ms || #{~"most_ms" := Ms} <- Of])],
                Most >= value(long_gc)
            ]
    end.

one_of(Group, Of) ->
    case lists:uniq([Process || #{~"process" := Process} <- Of]) of
        [Process] -> Process;
        _ -> text("a process of ~ts", [Group])
    end.

%% The share of time in which a scheduler's thread was ready but had no processor.
delay(Looks) ->
    Ms = lists:sum([N || #{~"interval_ms" := N} <- Looks]),
    case {sum([~"machine", ~"delay_ns"], Looks), of_last([~"counts", ~"schedulers"], Looks)} of
        {Ns, Count} when is_number(Ns), is_number(Count), Ms > 0 -> Ns / Count / (Ms * 1_000_000);
        _ -> unknown
    end.

together(Looks) ->
    Ms = lists:sum([N || #{~"interval_ms" := N} <- Looks]),
    %% A look that is late itself counts a stop of its end twice.
    min(1.0, lists:sum([N || #{~"lateness" := #{~"together_ms" := N}} <- tl(Looks)]) / max(1, Ms)).

%% All schedulers at the same moments: caused from outside.
stands_still(Looks) ->
    Most = lists:max([0 | [N || #{~"lateness" := #{~"most_ms" := N}} <- tl(Looks)]]),
    Count = lists:sum([N || #{~"lateness" := #{~"count" := N}} <- tl(Looks)]),
    Share = together(Looks),
    Delay = delay(Looks),
    Busy = mean(busy(~"normal"), Looks),
    case Share > value(stands_still) of
        %% The node's own work or other programs keep the processors: these have findings.
        true when is_number(Busy), Busy > 0.9 * Share -> [];
        true when is_number(Delay), Delay > Share / 2 -> [];
        true when Delay =:= unknown -> {unknown, ~"why it stands still cannot be told"};
        true ->
            [
                dyno_finding:new(stands_still, stands_still, #{
                    subject => ~"node",
                    severity => critical,
                    value => Share,
                    weight => 140,
                    text => text("the whole node stands still ~b % of the time, for up to ~ts", [
                        round(100 * Share), show(Most, ~"ms")
                    ]),
                    evidence => text(
                        "All schedulers at the same moments, ~b times, and its threads did "
                        "not wait for a processor: it was stopped (a processor quota, "
                        "SIGSTOP, a debugger, a paused virtual machine).",
                        [Count]
                    ),
                    advice =>
                        <<
                            "Raise the container's processor quota, or start the node with fewer "
                            "schedulers (+S) and +sbwt none; see who stops it."
                        >>,
                    look_closer => ~"dyno record NODE"
                })
            ];
        false ->
            []
    end.

busy_wait(Looks) ->
    Count = of_last([~"counts", ~"schedulers"], Looks),
    Busy = mean(busy(~"normal"), Looks),
    case {mean([~"values", ~"os.vm.cpu"], Looks), is_number(Busy) andalso is_number(Count)} of
        {Cpu, true} when is_number(Cpu) ->
            Dirty = [
                N * C
             || {K, C0} <- [{~"dirty_cpu", ~"dirty_cpu"}, {~"dirty_io", ~"dirty_io"}],
                N <- [mean(busy(K), Looks)],
                is_number(N),
                C <- [of_last([~"counts", C0], Looks)],
                is_number(C)
            ],
            Work = max(0.001, Busy * Count + lists:sum(Dirty)),
            case Cpu > 0.12 andalso Cpu > value(busy_wait) * Work of
                true ->
                    [
                        dyno_finding:new(busy_wait, busy_wait, #{
                            subject => ~"schedulers",
                            severity => warning,
                            value => Cpu / Work,
                            weight => 35,
                            text => text(
                                "the schedulers use ~ts processors and work for ~ts: they "
                                "wait actively",
                                [show(Cpu, ~"1"), show(Work, ~"1")]
                            ),
                            evidence => text("Of the time of ~b schedulers ~ts is work.", [
                                Count, show(Busy, ~"ratio")
                            ]),
                            advice =>
                                <<
                                    "Start the node with +sbwt none +sbwtdcpu none +sbwtdio none;"
                                    " it costs some latency after idle moments only."
                                >>,
                            look_closer => ~"dyno profile NODE --kind schedulers"
                        })
                    ];
                false ->
                    []
            end;
        _ ->
            {unknown, ~"the processor time of the node was not read"}
    end.

processors(Looks) ->
    Schedulers = of_last([~"counts", ~"schedulers"], Looks),
    Quota = of_last([~"machine_now", ~"cpu_quota"], Looks),
    Available = of_last([~"counts", ~"processors"], Looks),
    Has =
        case [N || N <- [Quota, Available], is_number(N)] of
            [] -> unknown;
            Some -> lists:min(Some)
        end,
    case is_number(Schedulers) andalso is_number(Has) of
        false ->
            {unknown, ~"how many processors it may use is not known"};
        true ->
            case Schedulers > Has + 0.5 of
                true ->
                    [
                        dyno_finding:new(more_schedulers, processors, #{
                            subject => ~"schedulers",
                            severity =>
                                if
                                    Schedulers >= 2 * Has -> warning;
                                    true -> note
                                end,
                            value => Schedulers / Has,
                            weight => 25,
                            text => text("~b schedulers share ~ts processors", [
                                Schedulers, show(Has, ~"1")
                            ]),
                            evidence => ~"",
                            advice => text("Start the node with +S ~b.", [max(1, round(Has))]),
                            look_closer => ~"dyno profile NODE --kind schedulers"
                        })
                    ];
                false ->
                    []
            end
    end.
