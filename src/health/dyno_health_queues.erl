%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_queues).
-moduledoc false.
%% Queues, and who waits for whom.

-export([checks/0]).

-import(dyno_health_look, [text/2, show/2, seconds/1]).

%% Receives that search the mailbox: the reference or pid that they wait for was made before.
-define(SEARCHING, [
    ~"disk_log:monitor_request/2",
    ~"proc_lib:sync_start/2",
    ~"proc_lib:sync_start_link/2",
    ~"prim_inet:recv0/3",
    ~"prim_inet:recv0/2",
    ~"prim_inet:accept0/4",
    ~"prim_inet:connect0/5",
    ~"prim_inet:close_port/2",
    ~"code_server:call/1",
    ~"mnesia_tm:rec/2",
    ~"mnesia_tm:rec/0",
    ~"mnesia_tm:rec_all/4",
    ~"mnesia_tm:rec_acc_pre_commit/9",
    ~"mnesia_locker:receive_wlocks/4",
    ~"mnesia_locker:l_req_rec/2",
    ~"inet_gethost_native:getit/2",
    ~"ssl_gen_statem:call/2"
]).
-define(SENDING, [
    ~"prim_inet:send/4",
    ~"prim_inet:send_recv_reply/2",
    ~"prim_inet:send/3",
    ~"gen_tcp:send/2",
    ~"gen_tcp_socket:send/2",
    ~"socket:send/4",
    ~"prim_socket:send/4"
]).
-define(IN_CALL, [~"gen:do_call/4"]).
-define(MOST_NAMED, 3).

-spec checks() -> [dyno_health:check()].
checks() ->
    [
        #{name => call_cycle, title => ~"calls that wait for each other", finding => fun cycles/1},
        #{name => queue, title => ~"queues that do not drain", finding => fun queues/1},
        #{
            name => stuck,
            title => ~"processes that wait while messages wait",
            finding => fun stuck/1
        },
        #{name => suspended, title => ~"suspended senders", finding => fun suspended/1},
        #{name => full_socket, title => ~"sockets that are not read", finding => fun sockets/1},
        #{
            name => waited_for,
            title => ~"one server that all wait for",
            finding => fun waited_for/1
        },
        #{name => global_lock, title => ~"global's locks", finding => fun locks/1},
        #{name => logger, title => ~"processes that wait to log", finding => fun logger_callers/1}
    ].

%% A queue of each process that is long at the end, or grows in each look with its owner not free.
queues(Looks) ->
    [
        Finding
     || {Pid, Asked} <- dyno_health_look:suspects(Looks),
        #{~"last" := true, ~"queue" := Queue} <- [lists:last(Asked)],
        %% These have findings that say more.
        not is_sending(Asked),
        not is_suspended(Asked, Looks),
        Finding <- queue(Pid, Queue, Asked, Looks)
    ].

queue(_Pid, Queue, Asked, _Looks) when Queue < 100; length(Asked) < 2 -> [];
queue(Pid, Queue, Asked, Looks) ->
    Queued = fun(Look) -> queue_in(Pid, Look) end,
    {_, _, _, Each} = dyno_health_look:growth(Queued, Looks),
    %% A burst before is no growth.
    {_, _, PerS, _} =
        case dyno_health_look:growth(Queued, dyno_health_look:latest(3, Looks)) of
            unknown -> dyno_health_look:growth(Queued, Looks);
            Of -> Of
        end,
    Long = Queue > dyno_finding_limits:value(queue),
    DrainsS =
        case PerS < 0 of
            true -> Queue / -PerS;
            false -> infinity
        end,
    case {Long, DrainsS} of
        {true, infinity} -> [long(Pid, Queue, PerS, Asked, critical)];
        {true, S} -> slow(Pid, Queue, PerS, S, Asked);
        {false, infinity} when Each, PerS > 10 -> [long(Pid, Queue, PerS, Asked, warning)];
        {false, _} -> []
    end.

queue_in(Pid, #{~"suspects" := Suspects}) ->
    case [Queue || #{~"pid" := Of, ~"queue" := Queue} <- Suspects, Of =:= Pid] of
        [Queue | _] -> Queue;
        [] -> unknown
    end.

slow(Pid, Queue, PerS, DrainsS, Asked) ->
    case DrainsS > dyno_finding_limits:value(queue_drains_s) of
        true -> [long(Pid, Queue, PerS, Asked, critical)];
        false -> [(long(Pid, Queue, PerS, Asked, note))]
    end.

long(Pid, Queue, PerS, Asked, Severity) ->
    Name = name(Asked),
    {Cause, Advice} = cause(Asked),
    dyno_finding:new(queue, queue, #{
        subject => Name,
        severity => Severity,
        value => Queue,
        weight => 100,
        text => text("~ts messages wait for ~ts: ~ts", [
            show(Queue, ~"count"), Name, forecast(Queue, PerS)
        ]),
        evidence => text("~ts ~ts", [queues_seen(Asked), Cause]),
        advice => Advice,
        look_closer => text("dyno servers NODE \"~ts\"", [short(Pid, Name)])
    }).

forecast(_Queue, PerS) when PerS >= 1 ->
    text("~ts more each second, it never drains at this load", [show(round(PerS), ~"count")]);
forecast(_Queue, PerS) when PerS >= -1 ->
    ~"it does not become shorter";
forecast(Queue, PerS) ->
    text("~ts fewer each second, it is drained in ~ts", [
        show(round(-PerS), ~"count"), seconds(Queue / -PerS)
    ]).

queues_seen(Asked) ->
    Queues = [dyno_unit:format(Q, ~"count") || #{~"queue" := Q} <- Asked],
    text("At the looks ~ts waited.", [lists:join(", ", Queues)]).

%% Where the owner stands says why, and what to do.
cause(Asked) ->
    case {dyno_health_look:stands(Asked), formats(Asked), [I || #{~"inspects" := I} <- Asked]} of
        {{Stack, _, _}, Share, _} when Share >= 0.2 ->
            {
                text(
                    "In ~b % of all looks it formats terms for the log, such as in ~ts: "
                    "its crash report holds the mailbox.",
                    [round(100 * Share), dyno_health_look:place(Stack)]
                ),
                <<
                    "Read its error in the log. Bound the queue (drop, or let senders wait), so "
                    "that a crash stays small; a lower chars_limit of the logger's formatter "
                    "helps, too."
                >>
            };
        {_, _, [_ | _] = Inspections} ->
            #{~"item" := Item, ~"per_s" := PerS} = lists:last(Inspections),
            {
                text(
                    "It calls process_info(self(), ~ts) ~ts a second, which takes longer, the "
                    "longer its queue is.",
                    [Item, show(PerS, ~"count")]
                ),
                ~"Ask for message_queue_len only, or at each hundredth message."
            };
        {{[Top | _] = Stack, Share, Looks}, _, _} ->
            Stands = text("In ~b of ~b looks it stood in ~ts", [
                round(Share * Looks), Looks, dyno_health_look:place(Stack)
            ]),
            case Share >= 0.3 andalso lists:member(Top, ?SEARCHING) of
                true ->
                    {
                        text("~ts, which searches the whole mailbox at each call.", [Stands]),
                        <<
                            "Make this call in a process of its own, whose mailbox is empty; "
                            "until then let senders wait (a call instead of a cast) or drop "
                            "messages above a limit."
                        >>
                    };
                false ->
                    {text("~ts.", [Stands]), general()}
            end;
        _ ->
            {~"It is not known where it stands.", general()}
    end.

%% The share of the looks in which it made text of terms.
formats(Asked) ->
    All = lists:sum([N || #{~"looks" := N} <- Asked]),
    Formats = lists:sum([
        N
     || #{~"stacks" := Of} <- Asked,
        #{~"stack" := Stack, ~"count" := N} <- Of,
        lists:any(fun is_formatting/1, Stack)
    ]),
    Formats / max(1, All).

is_formatting(Frame) ->
    lists:any(fun(Part) -> string:prefix(Frame, Part) =/= nomatch end, [
        ~"proc_lib:crash_report",
        ~"proc_lib:format",
        ~"gen_server:error_info",
        ~"io_lib_pretty:",
        ~"io_lib_format:",
        ~"gen_server:terminate",
        ~"logger_formatter:"
    ]).

general() ->
    <<
        "Let senders wait (a call instead of a cast) or drop above a limit; share the work among "
        "several processes; make what its callback does shorter."
    >>.

name(Asked) ->
    #{~"name" := Name, ~"pid" := Pid} = lists:last(Asked),
    case Name of
        ~"" -> Pid;
        _ -> Name
    end.

%% A name that a command takes.
short(Pid, Name) ->
    case binary:match(Name, ~" ") of
        nomatch -> Name;
        _ -> Pid
    end.

%% Messages wait, and the process neither runs nor takes one: it waits for something else.
stuck(Looks) ->
    Calls = edges(dyno_health_look:last(Looks)),
    [
        stuck_at(Pid, Asked, Stack, [
            maps:get(To, names(Looks), To)
         || {From, To} <- Calls, From =:= Pid
        ])
     || {Pid, Asked} <- dyno_health_look:suspects(Looks),
        length(Asked) >= 2,
        #{~"last" := true} <- [lists:last(Asked)],
        lists:all(fun is_stuck/1, Asked),
        {Stack, Share, _} <- [dyno_health_look:stands(Asked)],
        Share > 0.9,
        not is_sending(Asked),
        not lists:member(Pid, cycle(Calls)),
        %% The process of global's that takes its lock.
        not lists:member(~"global:loop_the_registrar/0", Stack)
    ].

is_stuck(#{~"queue" := Queue, ~"status" := ~"waiting"} = Asked) when Queue > 0 ->
    %% The asking itself costs it some.
    case maps:get(~"reductions", Asked, ~"unknown") of
        N when is_integer(N) -> N < 2000;
        _ -> true
    end;
is_stuck(_) ->
    false.

stuck_at(Pid, Asked, Stack, For) ->
    Name = name(Asked),
    #{~"queue" := Queue, ~"time_ms" := Last} = lists:last(Asked),
    #{~"time_ms" := First} = hd(Asked),
    Own = [F || F <- Stack, not dyno_health_look:is_system(F)],
    dyno_finding:new(stuck, queue_stuck, #{
        subject => Name,
        severity => warning,
        value => Queue,
        weight => 80,
        text => text("~ts waits in ~ts~ts, while ~ts of its messages wait", [
            Name,
            dyno_health_look:place(Stack),
            [[" for ", Whom] || Whom <- lists:sublist(For, 1)],
            show(Queue, ~"count")
        ]),
        evidence => text("It did nothing else for the last ~ts.", [seconds((Last - First) / 1000)]),
        advice =>
            case Own of
                [] ->
                    ~"See for which answer it waits; give the call a time limit.";
                _ ->
                    <<
                        "If it is a receive of its own: no clause takes these messages; add one "
                        "that drops them. If it waits for an answer: give the wait a time limit."
                    >>
            end,
        look_closer => text("dyno trace NODE --process \"~ts\"", [short(Pid, Name)])
    }).

%% Calls

edges(#{~"calls" := Calls}) ->
    lists:uniq([
        {From, To}
     || #{~"from" := From, ~"to" := To} <- Calls, From =/= To
    ]);
edges(_) ->
    [].

names(Looks) ->
    maps:from_list([
        Pair
     || #{~"calls" := Calls} <- Looks,
        #{~"from" := F, ~"from_name" := FN, ~"to" := T, ~"to_name" := TN} <- Calls,
        Pair <- [{F, FN}, {T, TN}]
    ]).

%% The same cycle at two looks, one after the other.
cycles(Looks) ->
    Each = [cycle(edges(Look)) || Look <- Looks],
    case lists:reverse([C || {C, C} <- lists:zip(lists:droplast(Each), tl(Each)), C =/= []]) of
        [] ->
            [];
        [Cycle | _] ->
            Names = names(Looks),
            Named = [maps:get(Pid, Names, Pid) || Pid <- Cycle],
            Waiting = length([
                F
             || {F, T} <- edges(dyno_health_look:last(Looks)),
                lists:member(T, Cycle),
                not lists:member(F, Cycle)
            ]),
            Chain = lists:join(", ", [
                text("~ts waits for ~ts", [A, B])
             || {A, B} <- lists:zip(Named, tl(Named) ++ [hd(Named)])
            ]),
            [
                dyno_finding:new(call_cycle, cycle, #{
                    subject => hd(Named),
                    severity => critical,
                    value => length(Cycle),
                    weight => 200,
                    text => text("calls wait for each other: ~ts", [Chain]),
                    evidence => text("Seen in ~b of ~b looks; ~b more processes wait for these.", [
                        length([C || C <- Each, C =:= Cycle]), length(Each), Waiting
                    ]),
                    advice =>
                        <<
                            "Make one of the two calls a cast, or ask from a third process; give "
                            "calls a time limit. To free them now, end one of the processes."
                        >>,
                    look_closer => text("dyno profile NODE \"~ts\" --kind schedulers", [
                        short(hd(Cycle), hd(Named))
                    ])
                })
            ]
    end.

%% Follows the edges from each; a caller waits for one process only.
cycle(Edges) ->
    Next = maps:from_list(Edges),
    Found = [C || {From, _} <- Edges, C <- [follow(From, Next, [])], C =/= []],
    case lists:sort(Found) of
        [First | _] -> First;
        [] -> []
    end.

follow(Pid, Next, Path) ->
    case lists:member(Pid, Path) of
        true ->
            Cycle = lists:reverse(Path),
            case hd(Cycle) of
                Pid -> Cycle;
                _ -> []
            end;
        false ->
            case Next of
                #{Pid := To} -> follow(To, Next, [Pid | Path]);
                #{} -> []
            end
    end.

%% The same callers in two looks wait for one.
waited_for(Looks) ->
    case lists:reverse(Looks) of
        [Last, Before | _] ->
            Same = [E || E <- edges(Last), lists:member(E, edges(Before))],
            Groups = maps:groups_from_list(
                fun({_, To}) -> To end, fun({From, _}) -> From end, Same
            ),
            InCycle = lists:append([cycle(edges(L)) || L <- [Last, Before]]),
            Limit = dyno_finding_limits:value(waiting_callers),
            Names = names(Looks),
            [
                waited(maps:get(To, Names, To), To, length(From), Last, Looks)
             || To := From <- Groups,
                length(From) >= Limit,
                not lists:member(To, InCycle),
                has_worked_little(To, Looks)
            ];
        _ ->
            []
    end.

%% One that answers has other callers at each look, or the same again: it works.
has_worked_little(Pid, Looks) ->
    Worked = [
        R
     || {Of, Asked} <- dyno_health_look:suspects(Looks),
        Of =:= Pid,
        #{~"reductions" := R} <- Asked,
        is_integer(R),
        R > 20_000
    ],
    Worked =:= [].

waited(Name, Pid, Count, _Last, Looks) ->
    Where =
        case [A || {Of, A} <- dyno_health_look:suspects(Looks), Of =:= Pid] of
            [Asked | _] ->
                case dyno_health_look:stands(Asked) of
                    {Stack, _, _} -> text("It stands in ~ts.", [dyno_health_look:place(Stack)]);
                    unknown -> ~""
                end;
            [] ->
                ~""
        end,
    dyno_finding:new(waited_for, waiting_callers, #{
        subject => Name,
        severity => warning,
        value => Count,
        weight => 90,
        text => text("~b processes wait in a call to ~ts, the same as one look before", [
            Count, Name
        ]),
        evidence => Where,
        advice =>
            <<
                "See what it waits for itself, or what its callback does so long; give calls a "
                "time limit."
            >>,
        look_closer => text("dyno servers NODE \"~ts\"", [short(Pid, Name)])
    }).

%% Suspended

is_suspended(Asked, Looks) ->
    Times = length([S || #{~"status" := ~"suspended"} = S <- Asked]),
    Times >= 2 andalso Times * 2 >= length(Looks).

is_sending(Asked) ->
    case dyno_health_look:stands(Asked) of
        {[Top | _], Share, _} -> lists:member(Top, ?SENDING) andalso Share >= 0.5;
        _ -> false
    end.

suspended(Looks) ->
    [
        suspended_at(Asked, lists:append([P || #{~"ports" := P} <- Asked]))
     || {_, Asked} <- dyno_health_look:suspects(Looks),
        #{~"last" := true} <- [lists:last(Asked)],
        is_suspended(Asked, Looks)
    ].

suspended_at(Asked, Ports) ->
    Name = name(Asked),
    #{~"queue" := Queue} = lists:last(Asked),
    {Stack, _, _} =
        case dyno_health_look:stands(Asked) of
            unknown -> {[], 0.0, 0};
            Stands -> Stands
        end,
    Times = length([S || #{~"status" := ~"suspended"} = S <- Asked]),
    {What, Advice} =
        case lists:reverse(Ports) of
            [#{~"name" := Port, ~"peer" := Peer, ~"queue_bytes" := Bytes} | _] ->
                Of =
                    case Peer of
                        ~"" -> text("the program ~ts", [Port]);
                        _ -> text("the connection to ~ts", [Peer])
                    end,
                {
                    text("~ts does not read: ~ts wait to be written", [Of, show(Bytes, ~"B")]),
                    <<
                        "Have the other side read, or end it and close the port; write to it from"
                        " a process of its own, or with nosuspend, and drop above a limit."
                    >>
                };
            [] ->
                {
                    <<
                        "a port or a link to another node is full, or somebody called "
                        "erlang:suspend_process/1"
                    >>,
                    <<
                        "See whether a connected node reads slowly (a larger +zdbbl lets more "
                        "wait); a debugger suspends processes, too."
                    >>
                }
        end,
    dyno_finding:new(suspended, suspended, #{
        subject => Name,
        severity => critical,
        value => Times,
        weight => 150,
        text => text("~ts is suspended: ~ts", [Name, What]),
        evidence => text("Suspended in ~b of ~b looks, in ~ts; ~ts messages wait for it.", [
            Times, length(Asked), dyno_health_look:place(Stack), show(Queue, ~"count")
        ]),
        advice => Advice,
        look_closer => ~"dyno record NODE"
    }).

%% A process that stands in a send for half the looks.
sockets(Looks) ->
    [
        socket_at(Asked, Stack, Share, N, Full)
     || {_, Asked} <- dyno_health_look:suspects(Looks),
        length(Asked) >= 2,
        #{~"last" := true} <- [lists:last(Asked)],
        is_sending(Asked),
        {Stack, Share, N} <- [dyno_health_look:stands(Asked)],
        Full <- [lists:append([Ports || #{~"ports" := Ports} <- Asked])]
    ].

socket_at(Asked, Stack, Share, N, Full) ->
    Name = name(Asked),
    #{~"queue" := Queue} = lists:last(Asked),
    Peer =
        case lists:reverse(Full) of
            [#{~"peer" := P, ~"queue_bytes" := B} | _] when P =/= ~"" ->
                text("~ts, with ~ts that are not taken", [P, show(B, ~"B")]);
            _ ->
                ~"a socket that is not known here"
        end,
    dyno_finding:new(full_socket, suspended, #{
        subject => Name,
        severity => critical,
        value => Queue,
        weight => 150,
        text => text("~ts waits to send to a client that does not read: ~ts", [Name, Peer]),
        evidence => text("In ~b of ~b looks it stood in ~ts; ~ts messages wait for it.", [
            round(Share * N), N, dyno_health_look:place(Stack), show(Queue, ~"count")
        ]),
        advice =>
            <<
                "Set the option send_timeout (with send_timeout_close), or give each socket a "
                "process of its own; drop what a slow client does not take."
            >>,
        look_closer => ~"dyno record NODE"
    }).

locks(Looks) ->
    Waiting = [element(1, waits_for_global(Look)) || Look <- Looks],
    Holders = [
        {Resource, Holder}
     || #{~"resource" := Resource, ~"holders" := Of} <- at(~"locks", dyno_health_look:last(Looks)),
        #{~"pid" := Holder} <- Of
    ],
    Before = [
        {Resource, Holder}
     || #{~"resource" := Resource, ~"holders" := Of} <- at(~"locks", hd(Looks)),
        #{~"pid" := Holder} <- Of
    ],
    [
        lock(Resource, Holder, lists:min(Waiting), dyno_health_look:last(Looks), Looks)
     || {Resource, Holder} = Held <- Holders, lists:member(Held, Before), lists:max(Waiting) > 0
    ].

at(Key, Look) -> maps:get(Key, Look, []).

waits_for_global(Look) ->
    dyno_health_look:waiting_in(
        [
            ~"gen:register_name/1",
            ~"global:random_sleep/1",
            ~"global:trans/4",
            ~"global:set_lock/3",
            ~"global:register_name/3",
            ~"global:re_register_name/3",
            ~"global:set_lock1/3"
        ],
        Look
    ).

lock(Resource, Holder, Waiting, Last, Looks) ->
    [#{~"name" := Name, ~"stack" := Stack} | _] = [
        H
     || #{~"holders" := Of} <- at(~"locks", Last), #{~"pid" := Pid} = H <- Of, Pid =:= Holder
    ],
    dyno_finding:new(global_lock, lock_waiters, #{
        subject => Resource,
        severity => critical,
        value => Waiting,
        weight => 160,
        text => text(
            "global's lock ~ts is held by ~ts, which stands in ~ts; ~b processes wait for it", [
                Resource, Name, dyno_health_look:place(Stack), Waiting
            ]
        ),
        evidence => text("The same holder for at least ~ts.", [
            seconds(dyno_health_look:span_s(Looks))
        ]),
        advice => text(
            "End ~ts if it does not come back; hold such locks for a moment only. For many "
            "names use pg or a registry of one node.",
            [Name]
        ),
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).

logger_callers(Looks) ->
    Counts = [
        dyno_health_look:waiting_in([~"logger_olp:call/2", ~"logger_olp:do_load/3"], L)
     || L <- tl(Looks)
    ],
    Least = lists:min([N || {N, _} <- Counts]),
    {_, Who} = lists:last(Counts),
    case Least >= dyno_finding_limits:value(log_callers) of
        true ->
            [
                dyno_finding:new(logger, log_callers, #{
                    subject => ~"logger",
                    severity => critical,
                    value => Least,
                    weight => 120,
                    text => text("~b processes wait to log, such as in ~ts", [Least, Who]),
                    evidence =>
                        <<
                            "The handler makes its callers wait (mode sync): it writes more "
                            "slowly than the node logs."
                        >>,
                    advice =>
                        <<
                            "Log less; let the handler drop (drop_mode_qlen, burst_limit_enable);"
                            " write to a file, not to a pipe that is read slowly."
                        >>,
                    look_closer => ~"dyno trace NODE logger_olp:call/2 -> caller"
                })
            ];
        false ->
            []
    end.
