%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_queues).
-moduledoc false.
%% Growing queues, and processes kept from their queues.

-export([checks/0]).

-import(dyno_health_waits, [edges/1, names/1, cycle/1, short/2, is_registrar/1]).
-import(dyno_health_look, [text/2, show/2, seconds/1, is_one_of/2]).
-import(dyno_finding_limits, [value/1]).

-define(SENDING, [
    ~"prim_inet:send/4",
    ~"prim_inet:send_recv_reply/2",
    ~"prim_inet:send/3",
    ~"gen_tcp:send/2",
    ~"gen_tcp_socket:send/2",
    ~"socket:send/4",
    ~"prim_socket:send/4"
]).

-define(FORMATTING, [
    ~"io_lib_pretty:", ~"io_lib_format:", ~"io_lib:write", ~"io_lib:string", ~"logger_formatter:"
]).
-define(CRASHING, [
    ~"proc_lib:crash_report",
    ~"proc_lib:format",
    ~"proc_lib:do_format",
    ~"proc_lib:exit_p",
    ~"gen_server:error_info",
    ~"gen_server:terminate",
    ~"gen_statem:error_info",
    ~"gen_statem:terminate"
]).

-spec checks() -> [dyno_health:check()].
checks() ->
    [
        #{name => queue, title => ~"queues that do not drain", finding => fun queues/1},
        #{
            name => stuck,
            title => ~"processes that wait while messages wait",
            finding => fun stuck/1
        },
        #{name => bottleneck, title => ~"one busy server", finding => fun bottlenecks/1},
        #{name => suspended, title => ~"suspended senders", finding => fun suspended/1},
        #{name => full_socket, title => ~"sockets that are not read", finding => fun sockets/1}
    ].

queues(Looks) ->
    [
        Finding
     || {Pid, Asked} <- dyno_health_look:suspects(Looks),
        #{~"last" := true} <- [lists:last(Asked)],
        %% These have more specific findings.
        not is_sending(Asked),
        not is_suspended(Asked, Looks),
        Finding <- queue(Pid, Asked, Looks)
    ].

%% Of the user's code, as the beams of these modules say.
searching(Looks) ->
    maps:get(~"searching", dyno_health_look:last(Looks), []).

%% A process that ends, or is in a native function, does not answer in the last look.
queue(Pid, Asked, Looks) ->
    case [A || #{~"queue" := Queue} = A <- Asked, is_integer(Queue)] of
        [_, _ | _] = Answered ->
            #{~"queue" := Queue} = lists:last(Answered),
            [F || Queue >= value(growing_queue), F <- queue(Pid, Queue, Asked, Answered, Looks)];
        _ ->
            []
    end.

queue(Pid, Queue, Asked, Answered, Looks) ->
    Queued = fun(Look) -> queue_in(Pid, Look) end,
    {_, _, _, Each} = dyno_health_look:growth(Queued, Looks),
    %% An earlier burst is no growth.
    {_, _, PerS, _} =
        case dyno_health_look:growth(Queued, dyno_health_look:latest(3, Looks)) of
            unknown -> dyno_health_look:growth(Queued, Looks);
            Of -> Of
        end,
    IsLong = Queue > value(queue),
    HasFallen = has_fallen([Q || Look <- Looks, Q <- [Queued(Look)], is_integer(Q)]),
    Long = fun(Severity, Judged) ->
        long({Pid, Queue, PerS}, {Asked, Answered}, searching(Looks), Severity, Judged)
    end,
    DrainsS =
        case PerS < 0 of
            true -> Queue / -PerS;
            false -> infinity
        end,
    case {IsLong, DrainsS} of
        %% It was shorter meanwhile: bursts come and are drained.
        {true, infinity} when HasFallen -> [Long(note, {queue, Queue})];
        {true, infinity} ->
            [Long(critical, {queue, Queue})];
        {true, S} ->
            case S > value(queue_drains_s) of
                true -> [Long(critical, {queue_drains_s, S})];
                false -> [Long(note, {queue, Queue})]
            end;
        {false, infinity} when Each ->
            [Long(warning, {queue_per_s, PerS}) || PerS > value(queue_per_s)];
        {false, _} ->
            []
    end.

%% Of few long queues all are suspects: a process that is none has no queue.
queue_in(Pid, #{~"suspects" := Suspects}) ->
    Queues = [{Of, maps:get(~"queue", S, null)} || #{~"pid" := Of} = S <- Suspects],
    case [Queue || {Of, Queue} <- Queues, Of =:= Pid] of
        [null | _] -> unknown;
        [Queue | _] -> Queue;
        [] when length(Queues) < 8 -> 0;
        [] -> unknown
    end.

%% To less than half of an earlier length.
has_fallen(Queues) ->
    {_, HasFallen} = lists:foldl(
        fun(Queue, {Most, Has}) -> {max(Most, Queue), Has orelse 2 * Queue < Most} end,
        {0, false},
        Queues
    ),
    HasFallen.

long({Pid, Queue, PerS}, {Asked, Answered}, Searching, Severity, {Limit, Value}) ->
    Name = name(Answered),
    Forecast =
        case Severity of
            note when PerS > -1 -> ~"it was shorter meanwhile, and comes and goes";
            _ -> forecast(Queue, PerS)
        end,
    {Cause, Advice} = cause(Asked, Answered, Searching),
    dyno_finding:new(queue, Limit, #{
        subject => Name,
        severity => Severity,
        value => Value,
        weight => 100,
        text => text("~ts messages wait for ~ts: ~ts", [
            show(Queue, ~"count"), Name, Forecast
        ]),
        evidence => text("~ts ~ts", [queues_seen(Answered), Cause]),
        advice => Advice,
        look_closer => text("dyno servers NODE \"~ts\"", [short(Pid, Name)])
    }).

forecast(_Queue, PerS) when PerS >= 1 ->
    text("~ts more each second, so it never drains at this load", [show(round(PerS), ~"count")]);
forecast(_Queue, PerS) when PerS >= -1 ->
    ~"it does not become shorter";
forecast(Queue, PerS) ->
    text("~ts fewer each second, it is drained in ~ts", [
        show(round(-PerS), ~"count"), seconds(Queue / -PerS)
    ]).

queues_seen(Asked) ->
    Queues = [dyno_unit:format(Q, ~"count") || #{~"queue" := Q} <- Asked],
    text("At the looks ~ts waited.", [lists:join(", ", Queues)]).

%% The owner's place explains the cause and the advice.
cause(All, Asked, Searching) ->
    case {dyno_health_look:stands(Asked), formats(All), [I || #{~"inspects" := I} <- Asked]} of
        {_, {Share, Frame, Why}, _} when Share >= 0.2 ->
            {
                text(
                    "In ~b % of stack samples it formats terms, such as in ~ts: ~ts",
                    [
                        round(100 * Share), Frame, Why
                    ]
                ),
                <<
                    "Now: see whether the log has its crash; if it has, and memory runs short, "
                    "exit(Pid, kill) ends it without a report. Later: bound the queue (drop, or "
                    "let senders "
                    "wait), so that a crash stays small; a lower chars_limit of the formatter "
                    "helps, too."
                >>
            };
        {_, _, [_ | _] = Inspections} ->
            #{~"item" := Item, ~"per_s" := PerS} = lists:last(Inspections),
            {
                text(
                    "It calls process_info(self(), ~ts) ~ts times a second; for messages, memory "
                    "or total_heap_size that takes longer, the longer its queue is.",
                    [Item, show(PerS, ~"count")]
                ),
                <<
                    "Now: stop the senders until it is drained, or end this process, if a "
                    "supervisor restarts it and its state and messages may be lost. Later: ask for "
                    "message_queue_len only, or once in 100 messages."
                >>
            };
        {{[<<"sys:suspend_loop", _/binary>> | _], _, _}, _, _} ->
            {~"It takes no message: sys:suspend/1 was called for it.", resume()};
        {{[Top | _] = Stack, Share, Looks}, _, _} ->
            Stands = text("In ~b of ~b stack samples it stood in ~ts", [
                round(Share * Looks), Looks, dyno_health_look:place(Stack)
            ]),
            %% A receive of the user's that waits takes none of these messages.
            Waits = length([S || #{~"status" := ~"waiting"} = S <- Asked]),
            Own = [F || F <- Searching, Waits * 2 =< length(Asked)],
            case Share >= 0.3 andalso lists:member(Top, dyno_health_receives:of_otp() ++ Own) of
                true ->
                    {
                        text("~ts, which searches the whole mailbox at each call.", [Stands]),
                        <<
                            "Now: stop the senders until it is drained, or end this process, if a "
                            "supervisor restarts it and its state and messages may be lost. Later: "
                            "make this call in a process of "
                            "its own, whose mailbox is empty (in a receive of your own: match a "
                            "reference made right before the request is sent), and bound the "
                            "queue: a call instead of a cast, or drop above a limit."
                        >>
                    };
                false ->
                    others(Top, Stands, Asked)
            end;
        _ ->
            {~"It is not known where it stands.", general()}
    end.

others(Top, Stands, Asked) ->
    #{~"queue" := Queue} = Last = lists:last(Asked),
    Waits = [S || #{~"status" := ~"waiting"} = S <- Asked],
    case maps:get(~"monitored_by", Last, 0) of
        _ when length(Waits) * 2 > length(Asked) ->
            case dyno_health_look:is_system(Top) of
                false ->
                    {
                        text("~ts, waiting: this receive does not take them.", [Stands]),
                        <<
                            "Now: end this process, if a supervisor restarts it and its state and "
                            "messages may be lost. Later: let the main loop take all messages; in "
                            "a wait for one answer use a time limit, and drop nothing. Late "
                            "answers of calls stay away if they are made with an alias."
                        >>
                    };
                true ->
                    stale(maps:get(~"monitored_by", Last, 0), Queue, Stands)
            end;
        Callers ->
            stale(Callers, Queue, Stands)
    end.

who_wait(1) -> ~"one process monitors";
who_wait(Callers) -> [show(Callers, ~"count"), ~" processes monitor"].

stale(Callers, Queue, Stands) when Callers > 0, Queue > 3 * Callers ->
    {
        text(
            "~ts. Only ~ts it, as callers do: if these are calls, ~b % of them have no caller "
            "any more.",
            [Stands, who_wait(Callers), round(100 * (Queue - Callers) / Queue)]
        ),
        <<
            "Now: end this process, if a supervisor restarts it and its state and messages may be "
            "lost. Later: put a deadline into each request and drop those that are late; serve the "
            "newest first, or refuse above a limit. Longer time limits of callers, and tries "
            "again, make it worse."
        >>
    };
stale(_Callers, _Queue, Stands) ->
    {text("~ts.", [Stands]), general()}.

%% The share of looks in which it formats, where, and why.
formats(Asked) ->
    All = lists:sum([N || #{~"looks" := N} <- Asked]),
    Found = [
        {N, Stack}
     || #{~"stacks" := Of} <- Asked,
        #{~"stack" := Stack, ~"count" := N} <- Of,
        lists:any(fun(F) -> is_one_of(F, ?FORMATTING ++ ?CRASHING) end, Stack)
    ],
    Crashes = lists:any(
        fun(F) -> is_one_of(F, ?CRASHING) end, lists:append([S || {_, S} <- Found])
    ),
    {
        lists:sum([N || {N, _} <- Found]) / max(1, All),
        hd([hd(Stack) || {_, Stack} <- lists:reverse(lists:sort(Found))] ++ [~""]),
        case Crashes of
            true -> ~"it has crashed, and its crash report holds the mailbox.";
            false -> ~"if it has crashed, its crash report holds the mailbox."
        end
    }.

resume() ->
    <<
        "Now: see whether an upgrade or sys:replace_state/2 runs; only if not, sys:resume/1 lets "
        "it go on. Later: see who suspended it: a debugger, or a release upgrade that did not end."
    >>.

general() ->
    <<
        "Now: lower the load; or end this process, if a supervisor restarts it and its state and "
        "messages may be lost (never one of kernel: the node would end). Later: let senders wait "
        "(a call instead of a cast) or drop above a limit; share the work among several "
        "processes; shorten its callback."
    >>.

name(Asked) ->
    #{~"name" := Name, ~"pid" := Pid} = lists:last(Asked),
    case Name of
        ~"" -> Pid;
        _ -> Name
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
        #{~"last" := true, ~"queue" := Queue} <- [lists:last(Asked)],
        lists:all(fun is_stuck/1, Asked),
        {Stack, Share, _} <- [dyno_health_look:stands(Asked)],
        Share > 0.9,
        not is_sending(Asked),
        not lists:member(Pid, cycle(Calls)),
        %% Some OTP processes keep a message for later.
        Queue > 5 orelse not lists:all(fun dyno_health_look:is_system/1, Stack),
        %% The process of global that takes its lock.
        not is_registrar(Stack)
    ].

is_stuck(#{~"queue" := Queue, ~"status" := ~"waiting"} = Asked) when Queue > 0 ->
    dyno_health_look:progresses(Asked) =/= true;
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
            case {[F || F <- Stack, string:prefix(F, ~"logger_std_h:") =/= nomatch], Own} of
                {[_ | _], _} ->
                    <<
                        "Now: see where the log goes: a pipe or terminal without a reader, or a "
                        "disk that does not answer. Read it, or mend the disk. Later: log to a "
                        "local file."
                    >>;
                {[], [<<"sys:suspend_loop", _/binary>> | _]} ->
                    resume();
                {[], _} when hd(Stack) =:= ~"timer:sleep/1" ->
                    <<
                        "Now: nothing while it sleeps. Later: use erlang:send_after/3, not "
                        "timer:sleep/1."
                    >>;
                {[], []} ->
                    ~"Now: see for which answer it waits. Later: give the call a time limit.";
                {[], _} ->
                    <<
                        "Now: see why it waits (the command below). Later: if it waits for an "
                        "answer, give the wait a time limit; if it is its main loop, let that take "
                        "all messages."
                    >>
            end,
        look_closer => text("dyno profile NODE \"~ts\" --kind schedulers", [short(Pid, Name)])
    }).

%% The longest of each group.
bottlenecks(Looks) ->
    Found = [
        {Group, -lists:min(Queues), bottleneck(Pid, Asked, lists:min(Queues), Stack)}
     || {Pid, Asked} <- dyno_health_look:suspects(Looks),
        length(Asked) >= length(Looks) - 1,
        length(Asked) >= 3,
        Queues <- [[Q || #{~"queue" := Q} <- Asked]],
        lists:min(Queues) >= value(bottleneck),
        lists:max(Queues) =< value(queue),
        not lists:member(Pid, cycle(edges(dyno_health_look:last(Looks)))),
        lists:all(fun is_never_idle/1, Asked),
        2 * length([A || A <- Asked, dyno_health_look:progresses(A) =:= false]) < length(Asked),
        not is_suspended(Asked, Looks),
        {Stack, _, _} <- [dyno_health_look:stands(Asked)],
        %% A check of its own.
        name(Asked) =/= ~"code_server",
        not is_registrar(Stack),
        %% Its queue is found.
        not takes_none(Asked, Stack) orelse queue(Pid, Asked, Looks) =:= [],
        #{~"group" := Group} <- [lists:last(Asked)]
    ],
    [Finding || {_, _, Finding} <- lists:ukeysort(1, lists:sort(Found))].

%% It waits in a receive of its own, which takes none of the messages.
takes_none(_Asked, [<<"sys:suspend_loop", _/binary>> | _]) ->
    true;
takes_none(Asked, [Top | _]) ->
    2 * length([S || #{~"status" := ~"waiting"} = S <- Asked]) > length(Asked) andalso
        not dyno_health_look:is_system(Top);
takes_none(_Asked, []) ->
    false.

%% With messages in its queue a server that waits, and goes on, waits inside a callback.
is_never_idle(#{~"status" := ~"waiting"} = Asked) ->
    case dyno_health_look:stands([Asked]) of
        {[Top | _], _, _} -> not is_loop(Top);
        _ -> false
    end;
is_never_idle(_Asked) ->
    true.

is_loop(Top) ->
    is_one_of(Top, [
        ~"gen_server:loop", ~"gen_statem:loop", ~"gen_event:fetch_msg", ~"gen_event:loop"
    ]).

bottleneck(Pid, Asked, Least, Stack) ->
    Name = name(Asked),
    dyno_finding:new(bottleneck, bottleneck, #{
        subject => Name,
        severity => warning,
        value => Least,
        weight => 72,
        text => text(
            "~ts was busy at each look, and ~ts messages or more waited for it", [
                Name, show(Least, ~"count")
            ]
        ),
        evidence => text("~ts It stood most often in ~ts.", [
            queues_seen(Asked), dyno_health_look:place(Stack)
        ]),
        advice =>
            <<
                "Now: lower the load on it. Later: share its work among several processes, make "
                "its callback shorter (let a process of its own wait for the disk, the network or "
                "another server), or let readers read from ETS without it."
            >>,
        look_closer => text("dyno servers NODE \"~ts\"", [short(Pid, Name)])
    }).

%% Suspended

is_suspended(Asked, Looks) ->
    Times = length([S || #{~"status" := ~"suspended"} = S <- Asked]),
    Ports = lists:append([P || #{~"ports" := P} <- Asked]),
    Times >= 2 andalso Times * 2 >= length(Looks) andalso
        %% Some functions (persistent_term:put/2) suspend their caller for a moment.
        (Ports =/= [] orelse full_links(Looks) =/= [] orelse
            not lists:any(fun(S) -> dyno_health_look:progresses(S) =:= true end, Asked)).

is_sending(Asked) ->
    case dyno_health_look:stands(Asked) of
        {[Top | _], Share, _} -> lists:member(Top, ?SENDING) andalso Share >= 0.5;
        _ -> false
    end.

suspended(Looks) ->
    [
        suspended_at(Asked, lists:append([P || #{~"ports" := P} <- Asked]), full_links(Looks))
     || {_, Asked} <- dyno_health_look:suspects(Looks),
        #{~"last" := true} <- [lists:last(Asked)],
        is_suspended(Asked, Looks)
    ].

full_links(Looks) -> lists:uniq(lists:append([Of || #{~"full_links" := Of} <- Looks])).

suspended_at(Asked, Ports, Links) ->
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
                        ~"" -> text("the program \"~ts\"", [Port]);
                        _ -> text("the connection to ~ts", [Peer])
                    end,
                {
                    text("~ts does not read: ~ts wait to be written", [Of, show(Bytes, ~"B")]),
                    <<
                        "Now: see whether the other side still reads; to end it closes the port, "
                        "and loses the waiting messages. Later: write to it from a process of its "
                        "own, or with nosuspend, and drop above a limit."
                    >>
                };
            [] when Links =/= [] ->
                {
                    text(
                        "the link to ~ts is full: that node or the network takes less than is sent",
                        [
                            lists:join(" and ", Links)
                        ]
                    ),
                    <<
                        "Now: see whether that node is stopped or overloaded (dyno doctor on it), "
                        "and the network between; erlang:disconnect_node/1 is the last step: its "
                        "calls fail, and global and Mnesia see a lost node. "
                        "Later: +zdbbl lets more wait before senders are suspended."
                    >>
                };
            [] ->
                {
                    <<
                        "a port or a link to another node is full, or a process called "
                        "erlang:suspend_process/1"
                    >>,
                    <<
                        "Now: dyno doctor on each connected node: one may read slowly. A debugger "
                        "suspends processes, too. Later: a larger +zdbbl lets more wait."
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

%% A process in a send for half the looks.
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
                text("~ts (~ts are not taken)", [P, show(B, ~"B")]);
            _ ->
                ~"a socket that is not known here"
        end,
    dyno_finding:new(full_socket, suspended, #{
        subject => Name,
        severity => critical,
        value => Queue,
        weight => 150,
        text => text("~ts waits in a send to ~ts: most likely that side does not read", [
            Name, Peer
        ]),
        evidence => text("In ~b of ~b stack samples it stood in ~ts; ~ts messages wait for it.", [
            round(Share * N), N, dyno_health_look:place(Stack), show(Queue, ~"count")
        ]),
        advice =>
            <<
                "Now: if it does not go on, close this connection only (as root: ss -K dst ADDRESS "
                "dport = PORT). Later: set the options "
                "send_timeout and send_timeout_close, or give each socket a process of its own; "
                "drop messages that a slow client does not take."
            >>,
        look_closer => ~"dyno record NODE"
    }).
