%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_queues).
-moduledoc false.
%% Growing queues, and processes kept from their queues.

-export([checks/0, is_formatting/1]).

-import(dyno_health_waits, [edges/1, names/1, cycle/1, short/2, is_registrar/1]).
-import(dyno_health_senders, [is_suspended/2, is_sending/1]).
-import(dyno_health_look, [finding/4, text/2, count/1, bytes/1, seconds/1, is_one_of/2]).
-import(dyno_health_look, [suspects/1, name/1, progresses/1, stands/1, place/1, is_system/1]).
-import(dyno_health_look, [growth/2, last/1, latest/2, enough/2, grouped/1]).
-import(dyno_finding_limits, [value/1]).

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

%% Of the samples of a process.
-define(FORMATS, 0.2).
%% A write takes more.
-define(WRITE_REDUCTIONS, 1000).
-define(LONG_QUEUE, 1000).
%% Of a mailbox, in the time between two looks.
-define(SEARCHES, 10).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {queue, ~"queues that do not drain", 2, fun queues/1},
        {stuck, ~"processes that wait while messages wait", 2, fun stuck/1},
        {bottleneck, ~"one busy server", 3, fun bottlenecks/1}
    ].

queues(Looks) ->
    [
        Finding
     || {Pid, Asked} <- suspects(Looks),
        #{~"last" := true} <- [lists:last(Asked)],
        %% These have more specific findings.
        not is_sending(Asked),
        not is_suspended(Asked, Looks),
        Finding <- queue(Pid, Asked, Looks)
    ] ++ dying(Looks).

%% Seen once with a long queue or a large heap while it formats terms: one of each name.
dying(Looks) ->
    Found = [
        {name(Known), Known, Of}
     || {_, Asked} <- suspects(Looks),
        Known <- [[A || #{~"queue" := Q} = A <- Asked, is_integer(Q)]],
        Of <- formatted(Known),
        is_formatting(Known)
    ],
    [
        begin
            {Cause, Advice} = cause(Known, Known, {[], []}, []),
            finding(Severity, {queue, Limit, 106}, {Name, Value}, #{
                text => text("~ts formats terms, such as a crash report, ~ts", [Name, Meanwhile]),
                evidence => Cause,
                advice => Advice,
                look_closer => ~"dyno trace NODE proc_lib:crash_report/4"
            })
        end
     || {Name, Known, {Severity, Limit, Value, Meanwhile}} <- lists:ukeysort(1, Found)
    ].

formatted([]) ->
    [];
formatted([_ | More] = Known) ->
    #{~"queue" := Queue, ~"heap_bytes" := Bytes} = lists:last(Known),
    Limit = value(heap_bytes),
    case Queue > value(queue) of
        true when More =:= [] ->
            [{critical, queue, Queue, text("while ~ts messages wait", [count(Queue)])}];
        false when Bytes > Limit ->
            [{warning, heap_bytes, Bytes, text("with a heap of ~ts", [bytes(Bytes)])}];
        _ ->
            []
    end.

%% Of the user's code, by beams: receives for one certain message, and for some messages.
receives(Looks) ->
    {maps:get(~"searching", last(Looks), []), maps:get(~"selecting", last(Looks), [])}.

%% A process that ends, or is in a native function, does not answer in the last look.
queue(Pid, Asked, Looks) ->
    case [A || #{~"queue" := Queue} = A <- Asked, is_integer(Queue)] of
        [_, _ | _] = Answered ->
            #{~"queue" := Queue} = lists:last(Answered),
            case Queue >= value(growing_queue) of
                true -> queue(Pid, Queue, Asked, Answered, Looks);
                false -> bursts(Pid, Answered, Looks)
            end;
        _ ->
            []
    end.

%% Between the looks, and worked off soon.
bursts(Pid, Answered, Looks) ->
    Most = lists:max([0 | lists:append([queues_in(Pid, Look) || Look <- Looks])]),
    [
        finding(note, {queue, queue, 49}, {name(Answered), Most}, #{
            text => text("at times ~ts messages or more wait for ~ts, and are worked off soon", [
                count(Most), name(Answered)
            ]),
            evidence => queues_seen(Answered),
            advice =>
                "Nothing, if it works in batches. If they come by timers of one moment, let each "
                "begin at a time of its own.",
            look_closer => text("dyno servers NODE \"~ts\"", [short(Pid, name(Answered))])
        })
     || Most > value(queue)
    ].

queue(Pid, Queue, Asked, Answered, Looks) ->
    Queued = fun(Look) -> queue_in(Pid, Look) end,
    {_, _, _, Each} = growth(Queued, Looks),
    %% An earlier burst is no growth.
    {_, _, PerS, _} =
        case growth(Queued, latest(3, Looks)) of
            unknown -> growth(Queued, Looks);
            Of -> Of
        end,
    IsLong = Queue > value(queue),
    InLooks = [Of || Look <- Looks, [_ | _] = Of <- [queues_in(Pid, Look)]],
    Comes = has_fallen(lists:append(InLooks)) andalso has_risen(InLooks),
    DrainedS = value(queue_drains_s),
    DrainsS =
        case PerS < 0 of
            true -> Queue / -PerS;
            false -> infinity
        end,
    Long = fun(Severity, Judged) ->
        long({Pid, Queue, PerS, Comes}, {Asked, Answered}, Looks, Severity, Judged)
    end,
    case {IsLong, DrainsS} of
        %% It was shorter meanwhile: bursts are drained. Atoms are more than numbers.
        {true, S} when Comes; S =< DrainedS ->
            [Long(note, {queue, Queue})];
        {true, infinity} ->
            [Long(critical, {queue, Queue})];
        {true, S} ->
            [Long(critical, {queue_drains_s, S})];
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

%% In the interval before it and in the look.
queues_in(Pid, #{~"suspects" := Suspects} = Look) ->
    lists:append([Of || #{~"pid" := Is, ~"queues" := Of} <- Suspects, Is =:= Pid]) ++
        [Queue || Queue <- [queue_in(Pid, Look)], is_integer(Queue)].

%% To more than twice the least before.
has_risen([First | Queues]) ->
    {_, HasRisen} = lists:foldl(
        fun(Of, {Least, Has}) ->
            {lists:min([Least | Of]), Has orelse lists:max(Of) > 2 * Least}
        end,
        {lists:min(First), false},
        Queues
    ),
    HasRisen.

%% To less than half of an earlier length.
has_fallen(Queues) ->
    {_, HasFallen} = lists:foldl(
        fun(Queue, {Most, Has}) -> {max(Most, Queue), Has orelse 2 * Queue < Most} end,
        {0, false},
        Queues
    ),
    HasFallen.

long({Pid, Queue, PerS, Comes}, {Asked, Answered}, Looks, Severity, {Limit, Value}) ->
    Name = name(Answered),
    Forecast =
        case Comes of
            true -> ~"it was shorter meanwhile, and comes and goes";
            false -> forecast(Queue, PerS)
        end,
    WaitsFor = [
        maps:get(To, names(Looks), To)
     || {From, To} <- edges(last(Looks)), From =:= Pid
    ],
    {Cause, Advice} = cause(Asked, Answered, receives(Looks), WaitsFor),
    finding(Severity, {queue, Limit, 100}, {Name, Value}, #{
        text => text("~ts messages wait for ~ts: ~ts", [count(Queue), Name, Forecast]),
        evidence => text("~ts ~ts", [queues_seen(Answered), Cause]),
        advice =>
            case Comes of
                true -> ~"Nothing, if it works in batches, or takes longer at times.";
                false -> Advice
            end,
        look_closer => text("dyno servers NODE \"~ts\"", [short(Pid, Name)])
    }).

forecast(_Queue, PerS) when PerS >= 1 ->
    text("~ts more each second, so it never drains at this load", [count(round(PerS))]);
forecast(_Queue, PerS) when PerS >= -1 ->
    ~"it does not become shorter";
forecast(Queue, PerS) ->
    text("~ts fewer each second, it is drained in ~ts", [
        count(round(-PerS)), seconds(Queue / -PerS)
    ]).

queues_seen(Asked) ->
    Queues = [dyno_unit:format(Q, ~"count") || #{~"queue" := Q} <- Asked],
    text("At the looks ~ts waited.", [lists:join(", ", Queues)]).

%% The owner's place explains the cause and the advice.
cause(All, Asked, {Searching, Selecting}, WaitsFor) ->
    case {stands(Asked), formats(All), [I || #{~"inspects" := I} <- Asked]} of
        {_, {Share, Frame, Why}, _} when Share >= ?FORMATS ->
            {
                text("In ~b % of stack samples it formats terms, such as in ~ts: ~ts", [
                    round(100 * Share), Frame, Why
                ]),
                "Now: see whether the log has its crash; if it has, and memory runs short, "
                "exit(Pid, kill) ends it without a report. Later: mend the crash; bound the queue "
                "and keep a large state in ETS, so that a report stays small (format_status/1 "
                "leaves parts out; a lower chars_limit of the log's formatter helps, too)."
            };
        {_, _, [_ | _] = Inspections} ->
            #{~"item" := Item, ~"per_s" := PerS} = lists:last(Inspections),
            {
                text(
                    "It calls process_info(self(), ~ts) ~ts times a second; for messages, memory "
                    "or total_heap_size that takes longer, the longer its queue is.",
                    [Item, count(PerS)]
                ),
                "Now: stop the senders until it is drained, or end this process, if a supervisor "
                "restarts it and its state and messages may be lost. Later: ask for "
                "message_queue_len only, or once in 100 messages."
            };
        {{[<<"sys:suspend_loop", _/binary>> | _], _, _}, _, _} ->
            {~"It takes no message: sys:suspend/1 was called for it.", resume()};
        {{[Top | _] = Stack, Share, Looks}, _, _} ->
            Stands = text("In ~b of ~b stack samples it stood in ~ts", [
                round(Share * Looks), Looks, place(Stack)
            ]),
            IsOwn = lists:member(Top, Searching),
            IsSelecting = lists:member(Top, Selecting),
            IsWaiting = is_waiting(Asked, IsOwn orelse IsSelecting),
            Searches =
                (IsOwn andalso not IsWaiting) orelse
                    lists:member(Top, dyno_health_receives:of_otp()),
            case Share >= 0.3 andalso Searches of
                false when WaitsFor =/= [] ->
                    {
                        text("~ts, and waits for ~ts.", [Stands, hd(WaitsFor)]),
                        "Now: see why that process does not answer (dyno servers). Later: let this "
                        "one not wait for it: a process of its own for such calls, with a time "
                        "limit; drop messages above a limit."
                    };
                true ->
                    {
                        text("~ts, which searches the whole mailbox at each call.", [Stands]),
                        "Now: stop the senders until it is drained, or end this process, if a "
                        "supervisor restarts it and its state and messages may be lost. Later: "
                        "make this call in a process of its own, whose mailbox is empty (in a "
                        "receive of your own: match a reference made right before the request is "
                        "sent), and bound the queue: a call instead of a cast, or drop above a "
                        "limit."
                    };
                false when IsSelecting, not IsWaiting ->
                    Selects =
                        ", whose receive takes only some messages: it searches the mailbox if "
                        "others wait before these",
                    others(Top, [Stands, Selects], IsWaiting, Asked);
                false ->
                    others(Top, Stands, IsWaiting, Asked)
            end;
        _ ->
            {~"It is not known where it stands.", general()}
    end.

%% A search takes a reduction for each message. A receive that takes none of them is woken by each
%% new one, and looks at that one only.
is_waiting(Asked, IsReceive) ->
    Waits = [
        A
     || #{~"status" := Status, ~"queue" := Queue} = A <- Asked,
        Status =:= ~"waiting" orelse
            (IsReceive andalso maps:get(~"reductions", A, unknown) < ?SEARCHES * Queue)
    ],
    length(Waits) * 2 > length(Asked).

others(Top, Stands, IsWaiting, Asked) ->
    #{~"queue" := Queue, ~"group" := Group} = Last = lists:last(Asked),
    case IsWaiting andalso not is_system(Top) of
        true ->
            {
                text("~ts, waiting: this receive does not take them.", [Stands]),
                "Now: end this process, if a supervisor restarts it and its state and messages may "
                "be lost. Later: let the main loop take all messages; in a wait for one answer use "
                "a time limit, and drop nothing. Late answers of calls stay away if they are made "
                "with an alias."
            };
        %% Log events are no calls.
        false when Group =:= ~"logger_olp:init/1" ->
            stale(0, Queue, Stands);
        false ->
            stale(maps:get(~"monitored_by", Last, 0), Queue, Stands)
    end.

who_wait(1) -> ~"one process monitors";
who_wait(Callers) -> [count(Callers), ~" processes monitor"].

stale(Callers, Queue, Stands) when Callers > 0, Queue > 3 * Callers ->
    {
        text(
            "~ts. Only ~ts it, as callers do: if these are calls, ~b % of them have no caller any "
            "more.",
            [Stands, who_wait(Callers), round(100 * (Queue - Callers) / Queue)]
        ),
        "Now: end this process, if a supervisor restarts it and its state and messages may be "
        "lost. Later: put a deadline into each request and drop those that are late; serve the "
        "newest first, or refuse above a limit. Longer time limits of callers, and tries again, "
        "make it worse."
    };
stale(_Callers, _Queue, Stands) ->
    {text("~ts.", [Stands]), general()}.

-doc "Whether a process formats terms, such as its crash report.".
-spec is_formatting([dyno_recording:object()]) -> boolean().
is_formatting(Asked) -> element(1, formats(Asked)) >= ?FORMATS.

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
            true -> ~"it has crashed, and its crash report holds its state and mailbox.";
            false -> ~"if it has crashed, its crash report holds its state and mailbox."
        end
    }.

resume() ->
    "Now: see whether an upgrade or sys:replace_state/2 runs; only if not, sys:resume/1 lets "
    "it go on. Later: see who suspended it: a debugger, or a release upgrade that did not end.".

general() ->
    "Now: lower the load; or end this process, if a supervisor restarts it and its state and "
    "messages may be lost (never one of kernel: the node would end). Later: let senders wait (a "
    "call instead of a cast, {active, once} of a socket) or drop above a limit; share the work "
    "among several processes; shorten its callback.".

%% Messages wait and none is taken: it waits for something else. One for each place.
stuck(Looks) ->
    Calls = edges(last(Looks)),
    Found = [
        {Stack, {Queue, Pid, Asked}}
     || {Pid, Asked} <- suspects(Looks),
        length(Asked) >= 2,
        #{~"last" := true, ~"queue" := Queue} <- [lists:last(Asked)],
        {Stack, Share, _} <- [stands(Asked)],
        lists:all(fun(A) -> is_stuck(A, Stack) end, Asked),
        Share > 0.9,
        not is_sending(Asked),
        not lists:member(Pid, cycle(Calls)),
        %% Some OTP processes keep a message for later.
        Queue > 5 orelse not lists:all(fun dyno_health_look:is_system/1, Stack),
        %% The process of global that takes its lock.
        not is_registrar(Stack)
    ],
    [
        stuck_at(Pid, Asked, Stack, length(Others), [
            maps:get(To, names(Looks), To)
         || {From, To} <- Calls, From =:= Pid
        ])
     || Stack := Of <- grouped(Found), [{_, Pid, Asked} | Others] <- [lists:reverse(lists:sort(Of))]
    ].

%% To look at a long queue takes more reductions than a callback.
is_stuck(#{~"queue" := Queue, ~"status" := ~"waiting"} = Asked, Stack) when
    Queue > 0, Queue =< ?LONG_QUEUE
->
    progresses(Asked) =/= true orelse
        (writes_log(Stack) andalso map_get(~"reductions", Asked) < ?WRITE_REDUCTIONS);
is_stuck(_, _Stack) ->
    false.

writes_log(Stack) -> lists:any(fun(F) -> is_one_of(F, [~"logger_std_h:"]) end, Stack).

stuck_at(Pid, Asked, Stack, Others, For) ->
    Name = name(Asked),
    #{~"queue" := Queue, ~"time_ms" := Last} = lists:last(Asked),
    #{~"time_ms" := First} = hd(Asked),
    Own = [F || F <- Stack, not is_system(F)],
    IsSuspended = [] =/= [F || F <- Stack, is_one_of(F, [~"sys:suspend_loop"])],
    Waits = ["waits in ", place(Stack), [[" for ", W] || W <- lists:sublist(For, 1)]],
    {Does, Weight} =
        case writes_log(Stack) of
            %% Before the events that it does not write.
            true -> {Waits, 95};
            %% Before those who wait for it.
            false when IsSuspended -> {~"is suspended by sys:suspend/1", 91};
            false -> {Waits, 80}
        end,
    finding(warning, {stuck, queue_stuck, Weight}, {Name, Queue}, #{
        text => text("~ts ~ts, while ~ts of its messages wait", [Name, Does, count(Queue)]),
        evidence => text("It did nothing else for the last ~ts.~ts", [
            seconds((Last - First) / 1000),
            [text(" In the same place are ~b others, or more.", [Others]) || Others > 0]
        ]),
        advice =>
            case {writes_log(Stack), Own} of
                _ when IsSuspended ->
                    resume();
                {true, _} ->
                    "Now: see where the log goes: a pipe or terminal without a reader, or a disk "
                    "that does not answer. Read it, or mend the disk. Later: log to a "
                    "local file.";
                {false, _} when hd(Stack) =:= ~"timer:sleep/1" ->
                    "Now: nothing while it sleeps. Later: use erlang:send_after/3, not "
                    "timer:sleep/1.";
                {false, []} ->
                    ~"Now: see for which answer it waits. Later: give the call a time limit.";
                {false, _} ->
                    "Now: see why it waits (the command below). Later: if it waits for an answer, "
                    "give the wait a time limit; if it is its main loop, let that take all "
                    "messages."
            end,
        look_closer => text("dyno profile NODE \"~ts\" --kind schedulers", [short(Pid, Name)])
    }).

%% The longest of each group.
bottlenecks(Looks) ->
    Found = [
        {Group, -lists:min(Queues), bottleneck(Pid, Asked, lists:min(Queues), Stack)}
     || {Pid, Asked} <- suspects(Looks),
        length(Asked) >= length(Looks) - 1,
        length(Asked) >= enough(3, Looks),
        [_ | _] = Queues <- [[Q || #{~"queue" := Q} <- Asked]],
        %% Also between the looks.
        lists:min(Queues ++ lists:append([Of || #{~"queues" := Of} <- Asked])) >= value(bottleneck),
        lists:max(Queues) =< value(queue),
        not lists:member(Pid, cycle(edges(last(Looks)))),
        2 * length([A || A <- Asked, progresses(A) =:= false]) < length(Asked),
        not is_suspended(Asked, Looks),
        {Stack, _, _} <- [stands(Asked)],
        %% A check of its own.
        name(Asked) =/= ~"code_server",
        not is_registrar(Stack),
        not writes_log(Stack),
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
        not is_system(Top);
takes_none(_Asked, []) ->
    false.

bottleneck(Pid, Asked, Least, Stack) ->
    Name = name(Asked),
    finding(warning, {bottleneck, bottleneck, 72}, {Name, Least}, #{
        text => text("~ts was busy at each look, and ~ts messages or more waited for it", [
            Name, count(Least)
        ]),
        evidence => text("~ts It stood most often in ~ts.", [queues_seen(Asked), place(Stack)]),
        advice => relieved(Stack),
        look_closer => text("dyno servers NODE \"~ts\"", [short(Pid, Name)])
    }).

relieved([<<"proc_lib:sync_start", _/binary>> | _]) ->
    "Now: see why its children take long to start. Later: a supervisor starts one child at a time, "
    "and waits for its init/1: let that return at once, and do the rest in handle_continue/2; or "
    "use several supervisors.";
relieved([<<"prim_file:", _/binary>>, <<"dets", _/binary>> | _]) ->
    dets();
relieved([<<"dets", _/binary>> | _]) ->
    dets();
relieved([<<"prim_file:", _/binary>> | _]) ->
    "Now: lower the load on it. Later: ask once and keep the answer; with the option raw "
    "file:open/2 and file:read_file_info/2 pass by the file server.";
relieved(_Stack) ->
    "Now: lower the load on it. Later: share its work among several processes, make its callback "
    "shorter (let a process of its own wait for the disk, the network or another server), or let "
    "readers read from ETS without it.".

dets() ->
    "Now: lower the load on it. Later: sync a dets table seldom (auto_save), write many rows in "
    "one call, and look rows up by their key; or keep the table in ETS, and save it now and then.".
