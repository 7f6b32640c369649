%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_services).
-moduledoc false.
%% The node's own services: log handlers, applications, the cluster, Mnesia's log, the emulator, and
%% who else measures.

-export([checks/0]).

-import(dyno_health_look, [
    finding/4, warning_if/1, text/2, count/1, bytes/1, of_last/2, sum/2, growth/2
]).
-import(dyno_health_look, [seconds/1, span/1, waiting_in/2, last/1, enough/2, place/1]).
-import(dyno_finding_limits, [value/1]).

%% In the time of all looks.
-define(MANY_CONNECTIONS, 4).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {log_handlers, ~"log handlers", 2, fun handlers/1},
        {log_events, ~"events that are logged", 2, fun log_events/1},
        {no_log, ~"whether the node logs", 2, fun no_log/1},
        {log_files, ~"files of the log", 4, fun log_files/1},
        {applications, ~"applications", 2, fun applications/1},
        {cluster, ~"the other nodes of the cluster", 2, fun cluster/1},
        {transactions, ~"Mnesia's transactions", 2, fun transactions/1},
        {mnesia_overload, ~"Mnesia's log", 2, fun overload/1},
        {tracing, ~"who else traces", 2, fun tracing/1},
        {emulator, ~"the emulator", 2, fun emulator/1}
    ].

service(Key, Look) -> dyno_health_look:at([~"services", Key], Look).

%% Each value of a service, with the number of looks in which it is.
counted(Key, Looks) ->
    maps:groups_from_list(fun(V) -> V end, [
        V
     || L <- Looks, Of <- [service(Key, L)], is_list(Of), V <- lists:uniq(Of)
    ]).

known(Key, Looks, Findings) ->
    case service(Key, last(Looks)) of
        unknown -> {unknown, ~"not read by the dyno that looked"};
        _ -> Findings()
    end.

%% The mode changes by the millisecond; a look meets drop only if it lasts.
handlers(Looks) ->
    known(~"handlers", Looks, fun() ->
        All = counted(~"handlers", Looks),
        [
            handler(Name, Mode, length(Times), length(Looks))
         || #{~"name" := Name, ~"mode" := Mode} := Times <- All,
            Mode =:= ~"drop" orelse
                (Mode =:= ~"sync" andalso 2 * length(Times) > length(Looks) andalso
                    not is_map_key(#{~"name" => Name, ~"mode" => ~"drop"}, All))
        ]
    end).

handler(Name, Mode, Times, Looks) ->
    Does =
        case Mode of
            ~"drop" -> ~"drops events";
            _ -> ~"lets its callers wait"
        end,
    finding(warning, {log_handlers, none, 92}, {Name, none}, #{
        text => text("log handler ~ts ~ts: it writes more slowly than the node logs", [Name, Does]),
        evidence => text("Its mode was ~ts in ~b of ~b looks.", [Mode, Times, Looks]),
        why => ~"What a handler drops is in no log; who logs waits, if it does not drop.",
        advice =>
            "Now: read the most frequent events, and log less (logger:set_primary_config(level, "
            "error)). Later: mend or limit that (a filter, burst_limit_max_count); write to a "
            "file, with a short format.",
        look_closer => ~"dyno trace NODE \"logger_backend:log_allowed/3 -> caller\""
    }).

log_events(Looks) ->
    case growth(fun(L) -> maps:get(~"logged", L, unknown) end, Looks) of
        {_, _, PerS, _} ->
            Seen = maps:groups_from_list(
                fun({F, _, _}) -> F end,
                [
                    {F, N, Level}
                 || #{~"log_events" := Of} <- Looks,
                    #{~"function" := F, ~"level" := Level, ~"times" := N} <- Of
                ]
            ),
            Most = [{lists:sum([N || {_, N, _} <- Of]), hd(Of)} || _ := Of <- Seen],
            [
                logged(PerS, lists:reverse(lists:sort(Most)), Looks)
             || PerS > value(some_events_per_s)
            ];
        unknown ->
            dyno_health_look:uncounted()
    end.

logged(PerS, Most, Looks) ->
    {Such, Now} =
        case Most of
            [{_, {Function, _, Level}} | _] when Function =/= ~"" ->
                [Module | _] = string:split(Function, ~":", trailing),
                {
                    text(", most of level ~ts in ~ts", [Level, Function]),
                    text("logger:set_module_level(~ts, none) ends those of its module", [Module])
                };
            _ ->
                {~"", ~"log less (logger:set_primary_config(level, critical))"}
        end,
    Drops = lists:uniq([
        text(" Handler ~ts takes at most ~b a second, and drops the others.", [Name, Limit])
     || #{~"name" := Name, ~"most_per_s" := Limit} <- at(~"bursts", last(Looks)),
        Limit < PerS
    ]),
    Severity = warning_if(PerS > value(log_events_per_s)),
    finding(Severity, {log_events, some_events_per_s, 94}, {~"logger", PerS}, #{
        text => text("the node logs ~ts events a second~ts", [count(PerS), Such]),
        evidence => Drops,
        advice => text(
            "Now: see in the log what they say, and mend that; ~ts. Later: log a repeated failure "
            "once, with a count.",
            [Now]
        ),
        look_closer => ~"dyno trace NODE \"logger_backend:log_allowed/3 -> caller\""
    }).

no_log(Looks) ->
    known(~"logging", Looks, fun() ->
        [
            finding(warning, {no_log, none, 66}, {~"logger", none}, #{
                text => ~"the node logs nothing: its logger has no handler, or does not run",
                evidence => text("So in all ~b looks.", [length(Looks)]),
                why => ~"Crashes and errors are in no log.",
                advice =>
                    "Now: supervisor:restart_child(kernel_sup, logger_sup), then "
                    "logger:add_handlers(kernel); if that fails, restart the node when it may be "
                    "away. Later: see who removed the handlers (logger:remove_handler/1).",
                look_closer => ~"dyno top NODE"
            })
         || lists:all(fun(L) -> service(~"logging", L) =:= false end, Looks)
        ]
    end).

log_files(Looks) ->
    unwritten(~"log_files", ~"the log's file ~ts does not change, though the node logs", Looks) ++
        unwritten(
            ~"disk_logs", ~"the file of disk log ~ts does not change, though it works", Looks
        ).

%% Its process works, and the file stays as it is: it cannot be written.
unwritten(Key, Format, Looks) ->
    Names = [Name || #{~"name" := Name} <- at(Key, last(Looks))],
    [
        finding(warning, {log_files, log_file_reductions, 93}, {Name, Work}, #{
            text => text(Format, [Name]),
            evidence => text(
                "Its process did ~ts reductions, and the file had ~ts at each of ~b looks.", [
                    count(Work), bytes(Size), length(Of)
                ]
            ),
            advice =>
                "Now: see whether the disk is full, has no inodes left or is read-only (df -h, df "
                "-i, mount), and make room: logging goes on by itself. A disk log of type halt "
                "takes no more at its size (disk_log:info/1): disk_log:change_size/2. Later: limit "
                "the log's size (max_no_bytes of logger_std_h, the type wrap of disk_log), and "
                "handle the errors of disk_log.",
            look_closer => ~"dyno trace NODE \"prim_file:write/2 -> return\""
        })
     || Name <- Names,
        Of <- [[F || L <- Looks, #{~"name" := Is} = F <- at(Key, L), Is =:= Name]],
        length(Of) >= enough(4, Looks),
        [Size] <- [lists:usort([Bytes || #{~"bytes" := Bytes} <- Of])],
        Work <- [reductions(lists:last(Of)) - reductions(hd(Of))],
        Work > value(log_file_reductions)
    ].

at(Key, Look) ->
    case service(Key, Look) of
        unknown -> [];
        Of -> Of
    end.

reductions(#{~"reductions" := Reductions}) -> Reductions.

applications(Looks) ->
    known(~"applications", Looks, fun() ->
        [
            application(Name, By)
         || #{~"name" := Name, ~"needed_by" := By} := Times <- counted(~"applications", Looks),
            length(Times) =:= length(Looks)
        ] ++
            [
                starting(Name, Looks)
             || Name := Times <- counted(~"starting", Looks), length(Times) =:= length(Looks)
            ]
    end).

starting(Name, Looks) ->
    Last = last(Looks),
    {_, Place} = waiting_in([~"application_master:start_it"], Last),
    finding(warning, {applications, none, 91}, {Name, none}, #{
        text => text("the start of application ~ts has not ended", [Name]),
        evidence => text("So in all ~b looks~ts.", [
            length(Looks), [[", in ", Place] || Place =/= ~""]
        ]),
        why => ~"At boot all applications after it wait, and so does who asked for its start.",
        advice =>
            "Now: see why it waits, at the place above. Later: its start function must return, and "
            "so must init/1 of each process that its supervisors start: move what waits to "
            "handle_continue/2, with a time limit.",
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).

%% A note only: programs that start in their own way, such as RabbitMQ, leave some out on purpose.
application(Name, []) ->
    application(Name, ~"is loaded, but does not run", 5);
application(Name, By) ->
    application(Name, text("does not run, and ~ts needs it", [lists:join(", ", By)]), 48).

application(Name, Text, Weight) ->
    finding(note, {applications, none, Weight}, {Name, none}, #{
        text => text("application ~ts ~ts", [Name, Text]),
        why => ~"If it should run: calls to its processes fail with noproc.",
        advice => text(
            "If it should run: read in the log why it stopped or was not started. "
            "application:ensure_all_started(~ts) starts it.",
            [Name]
        ),
        look_closer => ~"dyno top NODE"
    }).

%% The other nodes

cluster(Looks) ->
    known(~"views", Looks, fun() ->
        Views = [Of || L <- Looks, Of <- [service(~"views", L)], is_list(Of)],
        Pending = counted(~"connections", Looks),
        [
            node(Node, text("a connection to ~ts is tried, and does not come about", [Node]), [
                text("So in ~b of ~b looks.", [length(Times), length(Looks)])
            ])
         || #{~"node" := Node, ~"state" := State} := Times <- Pending,
            State =/= ~"up",
            length(Times) >= 2
        ] ++ silent(Views) ++ flapping(Looks, lost(Views)) ++ one_sided(Views)
    end).

%% More connections than nodes that may have been started on purpose.
flapping(Looks, Lost) ->
    case growth(fun(L) -> maps:get(~"connects", L, unknown) end, Looks) of
        {First, Last, _, _} when Last - First >= ?MANY_CONNECTIONS ->
            Names = lists:uniq([Node || #{subject := Node} <- Lost]),
            Text = text(
                "connections to nodes break, or nodes come and go: ~b new ones in ~ts~ts", [
                    Last - First,
                    seconds(span(Looks)),
                    [[", such as to ", Name] || Name <- lists:sublist(Names, 1)]
                ]
            ),
            [node(hd(Names ++ [~"nodes"]), Text, [])];
        _ ->
            Lost
    end.

silent(Views) ->
    None = maps:groups_from_list(fun(N) -> N end, [
        Node
     || Of <- Views, #{~"node" := Node, ~"sees" := ~"none"} <- Of
    ]),
    [
        node(Node, text("~ts is connected, and does not answer within 0.8 s", [Node]), [
            text("In ~b of ~b looks.", [length(Times), length(Views)])
        ])
     || Node := Times <- None, length(Times) >= 2
    ].

lost(Views) ->
    Names = [[N || #{~"node" := N} <- Of] || Of <- Views],
    Last = lists:append(lists:nthtail(max(0, length(Names) - 1), Names)),
    [
        %% It may have been stopped on purpose.
        (node(Node, text("the connection to ~ts ended meanwhile", [Node]), []))#{severity := note}
     || Node <- lists:uniq(lists:append(Names)) -- Last
    ].

%% In the last two looks, since nodes connect one after the other.
one_sided(Views) when length(Views) < 2 ->
    [];
one_sided(Views) ->
    [A, B] = [missing(Of) || Of <- lists:nthtail(length(Views) - 2, Views)],
    [
        node(
            Node,
            text("~ts does not see ~ts, which this node sees", [Node, lists:join(", ", Of)]),
            ["Or it starts with connect_all false, on purpose."]
        )
     || {Node, Of} = Missing <- B, lists:member(Missing, A)
    ].

missing(View) ->
    Names = [N || #{~"node" := N} <- View],
    [
        {Node, Of}
     || #{~"node" := Node, ~"sees" := Sees} <- View,
        is_list(Sees),
        [_ | _] = Of <- [(Names -- [Node]) -- Sees]
    ].

node(Node, Text, Evidence) ->
    finding(warning, {cluster, none, 86}, {Node, none}, #{
        text => Text,
        evidence => Evidence,
        why =>
            ~"Calls and messages to a lost node wait, or are lost; global and Mnesia may split.",
        advice =>
            "Now: see whether that node runs and is overloaded (dyno doctor on it), the network "
            "and ports between (epmd 4369), the cookie, and the log of both nodes.",
        look_closer => text("dyno doctor ~ts", [Node])
    }).

transactions(Looks) ->
    Sum = fun(Key) -> sum([~"transactions", Key], Looks) end,
    case {Sum(~"trans_restarts"), Sum(~"trans_commits")} of
        {Restarts, Commits} when
            is_integer(Restarts), is_integer(Commits), Restarts > Commits, Restarts > 100
        ->
            [
                finding(
                    warning,
                    {transactions, transaction_restarts, 67},
                    {~"mnesia", Restarts / max(1, Commits)},
                    #{
                        text => text(
                            "Mnesia's transactions were restarted ~ts times, ~ts ended~ts", [
                                count(Restarts), count(Commits), lock_holder(Looks)
                            ]
                        ),
                        evidence => ~"Usually they want the same locks.",
                        advice =>
                            "Now: see which transactions run (dyno trace NODE "
                            "\"mnesia:transaction/1 -> caller\"). Later: if they want the same "
                            "locks, make one process the writer, or use dirty operations "
                            "(mnesia:dirty_update_counter/3) where that is safe.",
                        look_closer => ~"dyno trace NODE \"mnesia:transaction/1 -> caller\""
                    }
                )
            ];
        _ ->
            []
    end.

%% The same lock of the same transaction in all looks.
lock_holder(Looks) ->
    Key = fun(Of) -> maps:with([~"transaction", ~"table"], Of) end,
    All = [at(~"transaction_locks", L) || L <- Looks],
    Held = [
        text(": ~ts, in ~ts, holds a lock of table ~ts all the time", [Name, place(Stack), Table])
     || #{~"table" := Table, ~"name" := Name, ~"stack" := Stack} = Of <- lists:last(All),
        lists:all(fun(Each) -> lists:member(Key(Of), lists:map(Key, Each)) end, All)
    ],
    lists:sublist(Held, 1).

%% Critical if messages pile up behind it.
overload(Looks) ->
    Last = last(Looks),
    Queued = [
        Name
     || #{~"name" := Name, ~"queue" := Queue, ~"group" := Group} <- maps:get(~"suspects", Last, []),
        Queue > value(queue),
        string:prefix(Group, ~"disk_log") =/= nomatch orelse
            string:prefix(Name, ~"mnesia") =/= nomatch
    ],
    {Severity, Weight} =
        case Queued of
            [] -> {warning, 87};
            [_ | _] -> {critical, 101}
        end,
    [
        finding(Severity, {mnesia_overload, none, Weight}, {~"mnesia", none}, #{
            text => Text,
            evidence => text("So in ~b of ~b looks.", [length(Times), length(Looks)]),
            why => ~"Transactions wait; if its log grows, a start after a crash takes longer.",
            advice => Advice,
            look_closer => ~"dyno trace NODE \"mnesia_log:append/2 -> caller\""
        })
     || Of := Times <- counted(~"overloaded", Looks),
        length(Times) >= 2,
        {Text, Advice} <- [overloaded(Of)]
    ].

overloaded(~"mnesia_dump_log") ->
    {
        ~"Mnesia is overloaded: its log is written faster than it is dumped into the tables",
        "Now: lower the load. Later: raise dump_log_write_threshold (such as 50,000) and "
        "dump_log_time_threshold, write less often, or use ram_copies for data that may be lost."
    };
overloaded(_) ->
    {
        ~"Mnesia is overloaded: too many messages wait for its transaction manager",
        "Now: lower the load. Later: make transactions fewer and shorter, or use dirty operations "
        "if that is safe."
    }.

tracing(Looks) ->
    Names = lists:append([Of || #{~"breakpoints" := #{~"names" := Of}} <- Looks]),
    Count = lists:sum([N || #{~"breakpoints" := #{~"count" := N}} <- Looks]),
    Set = maps:keys(counted(~"tracing", Looks)),
    [
        finding(
            warning_if(Count > 0 orelse Set -- [~"dbg"] =/= []),
            {tracing, none, 68},
            {~"tracing", Count},
            #{
                text => text("this node is traced, or was left so~ts", [
                    [[": ", breakpoints(Count)] || Count > 0]
                ]),
                evidence => text("~ts", [
                    [["Such as ", lists:join(", ", Names), ". "] || Names =/= []] ++
                        [["Set: ", lists:join(", ", Set), "."] || Set =/= []]
                ]),
                why =>
                    ~"Each call of such a function costs more; its messages may fill a mailbox.",
                advice =>
                    "If no one measures now: dbg:stop(), recon_trace:clear(), an end of the "
                    "session's tracer, or erlang:trace_pattern({'_','_','_'}, false, [local]) for "
                    "each kind (call_count, call_time); the last ends the tracing of others, too.",
                look_closer => ~"dyno top NODE"
            }
        )
     || Count > 0 orelse Set =/= []
    ].

breakpoints(1) -> ~"1 function has a breakpoint";
breakpoints(Count) -> text("~ts functions have breakpoints", [count(Count)]).

emulator(Looks) ->
    Online = of_last([~"counts", ~"schedulers"], Looks),
    Processors = of_last([~"counts", ~"processors"], Looks),
    case service(~"emulator", last(Looks)) of
        #{~"type" := Type, ~"flavor" := Flavor, ~"multi_scheduling" := Multi} = Of ->
            [
                slower(Weight, Severity, Text, Advice)
             || {true, Weight, Severity, Text, Advice} <- [
                    {
                        Multi =:= ~"blocked",
                        84,
                        warning,
                        ~"one scheduler works only: multi-scheduling is blocked",
                        "erlang:system_info(multi_scheduling_blockers) names who blocks: let it "
                        "unblock."
                    },
                    {
                        is_few(Online, usable(Processors, Looks), Of),
                        44,
                        note,
                        text("~ts of ~ts schedulers are online", [
                            count(Online), count(map_get(~"all_schedulers", Of))
                        ]),
                        text("If not on purpose: erlang:system_flag(schedulers_online, ~b).", [
                            Processors
                        ])
                    },
                    {
                        Type =/= ~"opt",
                        43,
                        warning,
                        text("the emulator is a slower build, for developers (~ts)", [Type]),
                        ~"Start the node without -emu_type."
                    },
                    {
                        Flavor =/= ~"jit",
                        12,
                        note,
                        ~"the emulator has no JIT, and is slower",
                        ~"Build Erlang/OTP with a C++17 compiler on x86-64 or aarch64."
                    }
                ]
            ];
        _ ->
            {unknown, ~"not read by the dyno that looked"}
    end.

%% The emulator starts with as many schedulers as the quota has processors.
usable(Processors, Looks) ->
    Limits = [of_last([~"values", ~"os.cgroup.cpu.limit"], Looks), Processors],
    lists:min([max(1, floor(N)) || N <- Limits, is_number(N)] ++ [unknown]).

is_few(Online, Processors, #{~"all_schedulers" := All}) ->
    is_integer(Online) andalso is_integer(Processors) andalso Online < All andalso
        Online < Processors.

slower(Weight, Severity, Text, Advice) ->
    finding(Severity, {emulator, none, Weight}, {~"emulator", none}, #{
        text => Text,
        why => ~"All work of the node takes longer.",
        advice => Advice,
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).
