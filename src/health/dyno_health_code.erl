%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_code).
-moduledoc false.
%% Costs of the program: restarts, the code server, timers, persistent terms.

-export([checks/0, busiest/1, who_works/1, busiest_group/1]).

-import(dyno_health_look, [finding/4, text/2, show/2, count/1, seconds/1, of_last/2, mean/2]).
-import(dyno_health_look, [growth/2]).
-import(dyno_health_look, [known/3, suspects/1, span/1, sets/1, place_of/1, groups/1]).
-import(dyno_health_look, [waiting_in/2, last/1, enough/2, grouped/1]).
-import(dyno_finding_limits, [value/1]).

%% Reductions of the code server. A search for a module that is missing takes hundreds.
-define(IDLE_PER_S, 50).
-define(ASKED_PER_S, 100_000).
%% Cowboy at full load did 236 for each.
-define(REDUCTIONS_PER_TIMER, 100).
-define(POLLS, 12).
-define(MANY_POLL, 100).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {restarts, ~"workers that are restarted", 2, fun restarts/1},
        {code_server, ~"calls of the code server", 2, fun code_server/1},
        {reloads, ~"modules that are loaded again", 2, fun reloads/1},
        {resolver, ~"name resolution", 2, fun resolver/1},
        {disk_logs, ~"calls of disk logs", 2, fun disk_logs/1},
        {printing, ~"processes that print", 2, fun printing/1},
        {timers, ~"the timer server", 2, fun timers/1},
        {timers_set, ~"timers that are set", 2, fun timers_set/1},
        {persistent_terms, ~"changes of persistent terms", 2, fun terms/1},
        {monitors, ~"monitors", 2, fun monitors/1},
        {spawns, ~"processes that are started", 2, fun spawns/1},
        {wakes, ~"processes that wake up often", 2, fun wakes/1}
    ].

-spec busiest([dyno_health_look:look()]) ->
    {Name :: binary(), Share :: float(), Place :: binary(), Pid :: binary()} | none.
busiest(Looks) ->
    Seconds = lists:sum([Ms || #{~"interval_ms" := Ms} <- Looks]) / 1000,
    PerS = mean([~"values", ~"vm.reductions"], Looks),
    All =
        case PerS of
            unknown -> 0;
            _ -> Seconds * PerS
        end,
    Worked = [
        {lists:sum([R || #{~"reductions" := R} <- Asked, is_number(R)]), Pid, Asked}
     || {Pid, Asked} <- suspects(Looks)
    ],
    case lists:reverse(lists:keysort(1, Worked)) of
        [{N, Pid, Asked} | _] when N > 0, All > 0 ->
            #{~"name" := Name} = lists:last(Asked),
            {Name, min(1.0, N / All), place_of(Asked), Pid};
        _ ->
            none
    end.

-doc "The busiest process, in a sentence.".
-spec who_works([dyno_health_look:look()]) -> binary().
who_works(Looks) ->
    case busiest(Looks) of
        none ->
            ~"";
        {_, Share, _, _} when Share < 0.01 ->
            ~"";
        {Name, Share, Place, _} ->
            text("Of those that were asked ~ts works most (~b % of all reductions), in ~ts.", [
                Name, round(100 * Share), Place
            ])
    end.

-doc "The function whose processes work most, their share, and their number; not of a large node.".
-spec busiest_group([dyno_health_look:look()]) ->
    {Group :: binary(), Share :: float(), Count :: pos_integer()} | none.
busiest_group(Looks) ->
    Worked = [
        {G, {R, N}}
     || #{~"processes" := #{~"every" := 1}} = L <- tl(Looks),
        G := #{~"reductions" := R, ~"count" := N} <- groups(L)
    ],
    Sums = [
        {lists:sum([R || {R, _} <- Of]), G, element(2, hd(Of))}
     || G := Of <- grouped(Worked)
    ],
    %% Those that ended meanwhile worked, too.
    PerS = mean([~"values", ~"vm.reductions"], Looks),
    Known = lists:sum([N || {N, _, _} <- Sums]),
    All = lists:max([Known | [span(Looks) * PerS || is_number(PerS)]]),
    case lists:max([none | Sums]) of
        {R, Group, Count} when R > 0 -> {Group, R / All, Count};
        _ -> none
    end.

%% Both replaced names and replaced children must be seen twice.
restarts([_, _]) ->
    {unknown, dyno_health_look:too_few()};
restarts(Looks) ->
    Replaced = grouped(
        [{{name, N}, replaced} || #{~"names" := Of} <- Looks, N <- Of] ++
            [{{children, S}, C} || #{~"children" := Of} <- Looks, #{~"supervisor" := S} = C <- Of]
    ),
    [restarted(Of, Times, Looks) || Of := Times <- Replaced, length(Times) >= 2].

restarted({Kind, Name}, Times, Looks) ->
    {Count, Text, Evidence, Otherwise} = replaced(Kind, Name, Times),
    Restarts = since_first(Looks),
    %% Temporary children that end are not restarted: others are started in their place.
    Severity =
        case Restarts of
            N when is_integer(N), N > 0, 2 * N >= Count -> critical;
            N when is_integer(N) -> Otherwise;
            _NotCounted -> warning
        end,
    finding(Severity, {restarts, restarts, 105}, {Name, length(Times)}, #{
        text => text("~ts at ~b of ~b looks", [Text, length(Times), length(Looks) - 1]),
        evidence => [Evidence, by_supervisors(Restarts)],
        advice =>
            case Severity of
                note ->
                    ~"Nothing, if they are temporary and end when their work is done.";
                _ ->
                    "Now: if it crashes, read why in the log, or by dyno trace NODE "
                    "proc_lib:crash_report/4, and mend that. supervisor:terminate_child/2 also "
                    "stops what a child serves. Later: let it start without the missing part, and "
                    "try again at growing intervals."
            end,
        look_closer => ~"dyno trace NODE proc_lib:crash_report/4"
    }).

since_first(Looks) ->
    case growth(fun(L) -> maps:get(~"restarts", L, unknown) end, Looks) of
        {First, Last, _, _} -> Last - First;
        unknown -> unknown
    end.

replaced(name, Name, Times) ->
    {
        length(Times),
        text("~ts was another process", [Name]),
        ~"The name has another pid than at the look before.",
        warning
    };
replaced(children, Name, Times) ->
    [Replaced, All] = [[N || #{Key := N} <- Times] || Key <- [~"replaced", ~"children"]],
    Newest = lists:sublist([Of || #{~"newest" := [Of | _]} <- Times], 1),
    {
        lists:sum(Replaced),
        text("up to ~b of ~b children of ~ts were other processes", [
            lists:max(Replaced), lists:max(All), Name
        ]),
        [~"Its limit of restarts is not reached." | [newest(Of) || Of <- Newest]],
        note
    }.

newest(<<"supervisor:", _/binary>> = Of) ->
    [
        newest([Of]),
        " That is a supervisor, which ends if its own limit is reached: see its children."
    ];
newest(Of) ->
    [" One of them runs ", Of, "."].

by_supervisors(N) when is_integer(N), N > 0 ->
    text(" Supervisors of the node restarted children ~ts times meanwhile.", [count(N)]);
by_supervisors(0) ->
    ~" No supervisor of the node restarted a child meanwhile.";
by_supervisors(_NotCounted) ->
    ~"".

callers(Check, Limit, Functions, Subject, Text, Advice, Looks) ->
    Counts = [
        {max(N, queue(Subject, L)), Who}
     || L <- tl(Looks), {N, Who} <- [waiting_in(Functions, L)]
    ],
    Mean = lists:sum([N || {N, _} <- Counts]) / length(Counts),
    Who = [[", such as in ", W] || W <- lists:sublist([W || {_, W} <- Counts, W =/= ~""], 1)],
    [
        finding(warning, {Check, Limit, 73}, {Subject, Mean}, #{
            text => text("~ts processes wait for ~ts~ts", [count(Mean), Text, Who]),
            evidence => text("At the looks: ~ts.", [
                lists:join(", ", [integer_to_binary(N) || {N, _} <- Counts])
            ]),
            advice => Advice,
            look_closer => ~"dyno profile NODE --kind schedulers"
        })
     || Mean >= value(Limit)
    ].

%% Each caller has one message there.
queue(Name, #{~"suspects" := Suspects}) ->
    lists:max([0 | [Queue || #{~"name" := Of, ~"queue" := Queue} <- Suspects, Of =:= Name]]).

code_server(Looks) ->
    PerS = mean_per_s(~"code_server", tl(Looks)),
    Modules = lists:usort([of_last([~"counts", ~"modules"], [L]) || L <- Looks]),
    {Advice, Hanging} =
        case PerS < ?IDLE_PER_S of
            true -> {hanging_code(), hanging(last(Looks))};
            false -> {asked_often(), sought(Looks)}
        end,
    Waiting = callers(
        code_server,
        code_callers,
        [~"code_server:call/1"],
        ~"code_server",
        text("the code server~ts", [Hanging]),
        Advice,
        Looks
    ),
    case Waiting of
        [_ | _] ->
            Waiting;
        [] ->
            [
                code_work(PerS, Looks)
             || PerS > ?ASKED_PER_S, length(Modules) =:= 1, reloads(Looks) =:= []
            ]
    end.

%% The module that is not there.
sought(Looks) ->
    Missing = [
        {M, N}
     || #{~"reloads" := Of} <- Looks,
        #{~"is_missing" := true, ~"module" := M, ~"times" := N} <- Of
    ],
    Sums = [{lists:sum([N || {Of, N} <- Missing, Of =:= M]), M} || {M, _} <- Missing],
    case lists:max([none | Sums]) of
        {_, Module} -> text(", which looks for module ~ts in vain", [Module]);
        none -> ~""
    end.

hanging(Look) ->
    case waiting_in([~"code_server:'-"], Look) of
        {0, _} -> ~", which loads nothing meanwhile";
        {_, ~""} -> ~", which waits for an on_load function";
        {_, Function} -> text(", which waits for the on_load function in ~ts", [Function])
    end.

code_work(PerS, Looks) ->
    Sought = sought(Looks),
    finding(warning, {code_server, none, 73}, {~"code_server", PerS}, #{
        text => text("the code server~ts is asked all the time, though no module is loaded", [
            [Sought, [$, || Sought =/= ~""]]
        ]),
        evidence => text("It did ~ts reductions a second.", [count(PerS)]),
        advice => asked_often(),
        look_closer => ~"dyno trace NODE \"code:ensure_loaded/1 -> caller\""
    }).

asked_often() ->
    "Now: find who asks (dyno trace NODE \"code:ensure_loaded/1 -> caller\"). Later: ask once and "
    "keep the answer; a missing module is searched in all folders each time. -mode "
    "embedded also ends it, but only for a release that loads all its modules.".

hanging_code() ->
    "Now: see process_info(whereis(code_server), current_stacktrace). If it is in a file "
    "operation, a folder of the code path may not answer (NFS). Else an on_load function may "
    "hang. Later: let no on_load function wait for others.".

%% More often than a deploy loads them.
reloads(Looks) ->
    case loaded_again(Looks) of
        [] -> loads(Looks);
        Again -> Again
    end.

%% Before each look, and none is new.
loads(Looks) ->
    Names = [M || #{~"reloads" := Of} <- Looks, #{~"module" := M} = R <- Of, not is_missing(R)],
    case growth(fun(L) -> maps:get(~"loads", L, unknown) end, Looks) of
        {First, Last, _, true} ->
            [
                reload(Name, Last - First, #{
                    text => text(
                        "modules are loaded again and again, ~b times in ~ts, and none is new", [
                            Last - First, seconds(span(Looks))
                        ]
                    ),
                    evidence => [["Such as ", Of, "."] || Of <- lists:sublist(Names, 1)]
                })
             || length(Looks) >= enough(4, Looks),
                [_] <- [lists:usort([of_last([~"counts", ~"modules"], [L]) || L <- tl(Looks)])],
                Name <- lists:sublist(Names ++ [~"code_server"], 1)
            ];
        _ ->
            []
    end.

is_missing(Of) -> maps:get(~"is_missing", Of, false).

reload(Subject, Times, Fields) ->
    finding(warning, {reloads, reloads, 94}, {Subject, Times}, Fields#{
        advice =>
            "Now: see who loads it (dyno trace NODE \"code_server:call/1 -> caller\"): it may be a "
            "reloader for developers, or code that is generated for data. Later: load once; keep "
            "changing data in ETS.",
        look_closer => ~"dyno trace NODE \"code_server:call/1 -> caller\""
    }).

loaded_again(Looks) ->
    All = maps:groups_from_list(
        fun(#{~"module" := Module}) -> Module end,
        [R || #{~"reloads" := Of} <- Looks, R <- Of, not is_missing(R)]
    ),
    [
        reload(Module, Times, #{
            text => text("module ~ts is loaded again and again, ~ts times a second", [
                Module, show(lists:sum([N || #{~"per_s" := N} <- Of]) / length(Of), ~"1")
            ]),
            evidence => text("So in ~b of ~b looks.", [length(Of), length(Looks)])
        })
     || Module := Of <- All,
        Times <- [lists:sum([N || #{~"times" := N} <- Of])],
        Times >= value(reloads)
    ].

resolver(Looks) ->
    callers(
        resolver,
        name_service_callers,
        [~"inet_gethost_native:getit/", ~"inet_res:"],
        ~"resolver",
        ~"host names",
        "Now: see how long a name takes: time getent hosts NAME. Later: keep connections open, use "
        "a resolver nearby, or raise kernel's gethost_poolsize (4).",
        Looks
    ).

disk_logs(Looks) ->
    callers(
        disk_logs,
        disk_log_callers,
        [~"disk_log:monitor_request/2"],
        ~"disk_log",
        ~"a disk log to write",
        "Now: see whether the disk is slow (iostat -x). Later: log without waiting "
        "(disk_log:balog/2, alog/2), or let one process collect terms and write many at once "
        "(disk_log:blog_terms/2).",
        Looks
    ).

%% Usually their group leader prints, or a file's process.
printing(Looks) ->
    Printers = [
        To
     || #{~"calls" := Of} <- Looks,
        #{~"in" := <<"io:", _/binary>>, ~"to_name" := To} <- Of,
        %% A moment before or after, it opens the file that they write.
        To =/= ~"file_server_2"
    ],
    Counts = [{length([P || P <- Printers, P =:= Of]), Of} || Of <- lists:uniq(Printers)],
    {_, Name} = lists:max([{0, ~"user"} | Counts]),
    callers(
        printing,
        printing_callers,
        [~"io:execute_request/", ~"io:wait_io_mon_reply/"],
        Name,
        text("output of ~ts", [Name]),
        "Now: see whether that process still answers (a group leader that does not hangs all who "
        "print), and whether a terminal or pipe is slow; print less. Later: use logger, which "
        "waits only if it is late; open files with raw and delayed_write.",
        Looks
    ).

%% Since OTP 25 each interval that starts a process has its own loop.
timers(Looks) ->
    Rows = of_table(~"timer", Looks),
    Share = busy_share(~"timer_server", Looks),
    Loops = lists:sum([
        N
     || {Name, #{~"count" := N}} <- maps:to_list(groups(last(Looks))),
        string:prefix(Name, ~"timer:interval_loop") =/= nomatch
    ]),
    PerS = mean_per_s(~"spawned", Looks),
    if
        Loops > 500 ->
            [timer(Loops, ~"intervals of the module timer run", Share, PerS, Looks)];
        Rows > 500, Share > 0.05; Share > 0.2 ->
            Exist = ~"timers of the module timer exist, all set by timer_server",
            [timer(Rows, Exist, Share, PerS, Looks)];
        true ->
            []
    end.

timer(Count, Exist, Share, PerS, Looks) ->
    finding(warning, {timers, intervals, 130}, {~"timer", Count}, #{
        text => text("~ts ~ts; ~ts processes a second are started", [
            count(Count), Exist, count(PerS)
        ]),
        evidence => iolist_to_binary(
            [
                text("timer_server does ~ts of all work. ", [show(min(1.0, Share), ~"ratio")])
             || Share > 0.01
            ] ++ [started(Looks), intervals(Looks)]
        ),
        advice =>
            "Now: nothing. Later: use erlang:send_after/3 or erlang:start_timer/3, which need no "
            "process, or let one process do many small tasks at each tick.",
        look_closer => ~"dyno profile NODE"
    }).

intervals(Looks) ->
    case of_last([~"intervals"], Looks) of
        [_ | _] = Of ->
            [" They run ", lists:join(", ", lists:sublist(Of, 3)), "."];
        _ ->
            ~""
    end.

mean_per_s(Key, Looks) ->
    Ms = lists:sum([N || #{~"interval_ms" := N} <- Looks]),
    1000 * lists:sum([N || #{Key := N} <- Looks]) / max(1, Ms).

%% More in each look, and several of each process.
monitors(Looks) ->
    [
        finding(warning, {monitors, same_monitors, 63}, {Name, Last}, #{
            text => text("~ts has ~ts monitors of ~ts, more at each look", [
                Name, count(Last), processes(Of)
            ]),
            evidence => text("~ts of them at the first look.", [count(First)]),
            advice =>
                "Now: see who monitors (dyno trace NODE \"erlang:monitor/2 -> caller\"). Later: "
                "monitor each process once, and demonitor it (option flush) if it is not needed "
                "any more.",
            look_closer => ~"dyno trace NODE \"erlang:monitor/2 -> caller\""
        })
     || {_, Asked} <- suspects(Looks),
        [First, _ | _] = Counts <- [[N || #{~"monitors" := N} <- Asked]],
        Last <- [lists:last(Counts)],
        Last > value(same_monitors),
        length(Counts) >= enough(3, Looks),
        Counts =:= lists:usort(Counts),
        #{~"name" := Name, ~"monitored" := Of} <- [lists:last(Asked)],
        Of * 2 < Last
    ].

processes(1) -> ~"one process";
processes(N) -> text("~ts processes", [count(N)]).

spawns(Looks) ->
    PerS = mean_per_s(~"spawned", Looks),
    [
        finding(note, {spawns, spawns_per_s, 35}, {~"processes", PerS}, #{
            text => text("~ts processes are started a second", [count(PerS)]),
            evidence => [[["Such as of ", Of, ". "] || Of <- most_started(Looks)], started(Looks)],
            advice =>
                ~"Now: nothing. Later: if a task takes less than 10 us, let a process do several.",
            look_closer => ~"dyno record NODE"
        })
     || PerS > value(spawns_per_s), timers(Looks) =:= []
    ].

%% The function with most new processes at the looks.
most_started(Looks) ->
    New = [{N, Of} || L <- tl(Looks), Of := #{~"started" := N} <- groups(L), Of =/= ~"(ended)"],
    [Of || {N, Of} <- lists:sublist(lists:reverse(lists:sort(New)), 1), N > 0].

%% A process that polls does less at each waking than one that serves a message.
wakes(Looks) ->
    Values = [mean([~"values", N], Looks) || N <- [~"vm.context_switches", ~"vm.reductions"]],
    known(Values, ~"the schedulers were not read", fun(PerS, Reductions) ->
        [
            finding(note, {wakes, wakes, 37}, {Group, PerS}, #{
                text => text("processes wake up ~ts times a second, and do little each time", [
                    count(PerS)
                ]),
                evidence => text("~ts reductions for each; ~ts of ~ts do ~b % of all. ~ts", [
                    show(Reductions / PerS, ~"1"),
                    processes(Count),
                    Group,
                    round(100 * Share),
                    started(Looks)
                ]),
                advice =>
                    "Now: nothing. Later: let them wait for a message in place of a short time "
                    "(receive ... after); if they must poll, let one process poll for all.",
                look_closer => ~"dyno profile NODE --kind schedulers"
            })
         || PerS > value(wakes),
            Reductions < ?POLLS * PerS,
            {Group, Share, Count} <- [busiest_group(Looks)],
            Share > 0.5,
            %% Two that talk to each other wake up as often.
            Count > ?MANY_POLL
        ]
    end).

of_table(Name, Looks) ->
    hd([N || #{~"name" := Of, ~"objects" := N} <- of_last([~"tables"], Looks), Of =:= Name] ++ [0]).

busy_share(Name, Looks) ->
    Seconds = lists:sum([Ms || #{~"interval_ms" := Ms} <- Looks]) / 1000,
    case mean([~"values", ~"vm.reductions"], Looks) of
        PerS when is_number(PerS), PerS > 0, Seconds > 0 ->
            Of = [
                R
             || {_, Asked} <- suspects(Looks),
                #{~"name" := Is, ~"reductions" := R} <- Asked,
                Is =:= Name,
                is_number(R)
            ],
            lists:sum(Of) / (Seconds * PerS);
        _ ->
            0
    end.

started(Looks) ->
    Busy = of_last([~"values", ~"vm.scheduler_utilisation.normal"], Looks),
    case Busy of
        N when is_number(N) ->
            text("The schedulers are busy ~ts of the time.", [show(N, ~"ratio")]);
        unknown ->
            ~""
    end.

%% Most of the node's work: other work takes hundreds of reductions and more for each timer.
timers_set(Looks) ->
    %% In windows of some looks: one may have a burst, or none of all.
    Counts = [N || #{~"often" := #{~"timers" := N}} <- Looks, is_number(N)],
    PerS = lists:sum(Counts) / max(1, length(Counts)),
    Who =
        case sets(Looks) of
            none -> ~"";
            {Text, _} -> Text
        end,
    known([mean([~"values", ~"vm.reductions"], Looks)], ~"work was not read", fun(Reductions) ->
        [
            finding(warning, {timers_set, timers_set, 65}, {~"timers", PerS}, #{
                text => text("processes set ~ts timers a second, and do little else", [
                    count(PerS)
                ]),
                evidence => text("The node does ~ts reductions for each.~ts", [
                    count(Reductions / PerS), Who
                ]),
                advice =>
                    "Now: nothing. Later: keep a running timer, and see at its end whether it is "
                    "still wanted, instead of a new one for each message; let one timer serve all "
                    "that is due at about the same time.",
                look_closer => ~"dyno trace NODE \"erlang:send_after/3 -> caller\""
            })
         || PerS > value(timers_set), Reductions < ?REDUCTIONS_PER_TIMER * PerS
        ]
    end).

%% The collector of persistent terms is a process of the runtime; it works for purged modules, too.
terms(Looks) ->
    Of = [
        R
     || {_, Asked} <- suspects(Looks),
        #{~"group" := ~"erts_literal_area_collector:start/0", ~"reductions" := R} <- Asked,
        is_number(R)
    ],
    PerS = lists:sum(Of) / max(1, span(Looks)),
    case growth(fun(L) -> maps:get(~"term_changes", L, unknown) end, Looks) of
        {_, _, Changes, _} -> [changing(PerS, Changes) || PerS > value(copies_per_s), Changes > 0];
        unknown -> dyno_health_look:uncounted()
    end.

changing(PerS, Changes) ->
    finding(warning, {persistent_terms, copies_per_s, 64}, {~"persistent_term", PerS}, #{
        text =>
            "persistent terms change while the node works: at each replaced or erased term all "
            "heaps are scanned",
        evidence => text(
            "They were changed ~ts times a second; the collector of literals did ~ts reductions a "
            "second.",
            [show(Changes, ~"1"), count(PerS)]
        ),
        advice =>
            "Now: see who changes them (the command below). Later: keep changing data in ETS "
            "(read_concurrency); persistent_term is for data that changes at a deploy.",
        look_closer => ~"dyno trace NODE \"persistent_term:put/2 -> caller\""
    }).
