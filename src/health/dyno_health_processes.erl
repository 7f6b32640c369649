%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_processes).
-moduledoc false.
%% Single processes: a wrong priority, a heap or links that grow, scans of whole tables.

-export([checks/0]).

-import(dyno_health_look, [
    finding/4, warning_if/1, text/2, show/2, count/1, bytes/1, seconds/1, of_last/2
]).
-import(dyno_health_look, [mean/2, sum/2, growth/2, known/3, suspects/1, lasting/1, span/1]).
-import(dyno_health_look, [name/1, place_of/1, stack/1, has_long_queue/1, sets/1, stands/1]).
-import(dyno_health_look, [enough/2, is_system/1, is_one_of/2, grouped/1]).
-import(dyno_health_collections, [hibernating/1]).
-import(dyno_finding_limits, [value/1]).

-define(DAY_S, 86_400).
%% Below it grows as caches do at the start.
-define(HEAP_BYTES, 10_000_000).
-define(TIMER_BYTES, 160).
%% From one write to the next, of a process that does hardly anything else.
-define(GAP_US, 50).
-define(PROCESS_BYTES, 1000).
-define(TABLE_BYTES, 100).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {priority, ~"processes of high or low priority", 3, fun priorities/1},
        {one_process, ~"processes that never wait", 3, fun never_waiting/1},
        {heap_grows, ~"heaps that grow", 3, fun heaps/1},
        {links, ~"links", 3, fun links/1},
        {many_timers, ~"timers, monitors and links of all processes", 4, fun timers/1},
        {table_scans, ~"scans of whole tables", 3, fun scans/1},
        {lists_processes, ~"lists of all processes", 3, fun listings/1},
        {list_searches, ~"searches of long lists", 2, fun searches/1},
        {hot_table, ~"tables that many write", 2, fun hot_tables/1},
        {dictionary, ~"process dictionaries", 2, fun dictionaries/1},
        {children, ~"supervisors that list their children", 2, fun listing/1},
        {programs, ~"programs that are started", 4, fun programs/1}
    ].

%% One of high priority that does not wait keeps its scheduler. If all schedulers are full, any that
%% works keeps others from them, and one of priority low gets few turns.
priorities(Looks) ->
    Busy = mean([~"values", ~"vm.scheduler_utilisation.normal"], Looks),
    IsFull = is_number(Busy) andalso Busy > value(scheduler_full),
    All = [
        {Priority, Group, Asked}
     || {_, Asked} <- suspects(Looks),
        #{~"priority" := Priority, ~"group" := Group} <- [lists:last(Asked)]
    ],
    High = [
        {Group, {R, Priority, Asked}}
     || {Priority, Group, Asked} <- All,
        Priority =:= ~"high" orelse Priority =:= ~"max",
        (IsFull andalso not is_system(Group)) orelse never_waits(Asked, Looks),
        R <- [lists:sum([N || #{~"reductions" := N} <- Asked, is_number(N)])]
    ],
    [
        high(Group, PerS, Of)
     || Group := Of <- grouped(High),
        PerS <- [lists:sum([R || {R, _, _} <- Of]) / span(Looks)],
        PerS > value(busy_reductions)
    ] ++ [low(Asked) || {~"low", _, Asked} <- All, IsFull, most_queued(Asked) > 0].

never_waits(Asked, Looks) ->
    length(Asked) >= enough(3, Looks) andalso
        [] =:= [S || #{~"status" := ~"waiting"} = S <- Asked].

most_queued(Asked) -> lists:max([0 | [Queue || #{~"queue" := Queue} <- Asked]]).

high(Group, PerS, Of) ->
    {_, Priority, Asked} = lists:max(Of),
    {Who, Works} =
        case Of of
            [_] -> {name(Asked), ~"works"};
            _ -> {text("processes of ~ts", [Group]), ~"work"}
        end,
    finding(warning, {priority, busy_reductions, 96}, {Who, PerS}, #{
        text => text("~ts ~ts at priority ~ts: others wait for a scheduler", [
            Who, Works, Priority
        ]),
        evidence => text("About ~ts reductions a second, most often in ~ts.", [
            count(PerS), place_of(Asked)
        ]),
        advice => [
            normal(), ", or let it wait between its tasks; high and max are for short work."
        ],
        look_closer => text("dyno profile NODE \"~ts\"", [map_get(~"pid", hd(Asked))])
    }).

low(Asked) ->
    Queues = [Queue || #{~"queue" := Queue} <- Asked],
    Times = length([Queue || Queue <- Queues, Queue > 0]),
    finding(
        warning_if(Times > 1), {priority, queue_stuck, 98}, {name(Asked), most_queued(Asked)}, #{
            text => text(
                "~ts has priority low, and messages wait for it: others have all schedulers", [
                    name(Asked)
                ]
            ),
            evidence => text("At the looks ~ts waited. It stands in ~ts.", [
                lists:join(", ", [count(Queue) || Queue <- Queues]), place_of(Asked)
            ]),
            why => ~"It gets about one turn in eight of those that have normal priority.",
            advice => [normal(), "; low is for work that nothing waits for."],
            look_closer => ~"dyno profile NODE"
        }
    ).

normal() ->
    "Now: of a gen_server or gen_statem, sys:replace_state(Pid, fun(S) -> process_flag(priority, "
    "normal), S end) changes it. Later: give it normal priority".

%% By the reductions that a busy scheduler makes.
never_waiting(Looks) ->
    Values = [
        mean([~"values", ~"vm.scheduler_utilisation.normal"], Looks),
        of_last([~"counts", ~"schedulers"], Looks),
        mean([~"values", ~"vm.reductions"], Looks)
    ],
    known(Values, ~"the schedulers were not read", fun(Busy, Count, PerS) ->
        [
            finding(note, {one_process, one_process, 36}, {name(Asked), min(1.0, Share)}, #{
                text => text("~ts works without a pause, and takes a scheduler", [name(Asked)]),
                evidence => text("It stands most often in ~ts.", [place_of(Asked)]),
                advice =>
                    "Now: see whether its loop ends. Later: if the work is wanted, share it among "
                    "several processes.",
                look_closer => text("dyno profile NODE \"~ts\"", [Pid])
            })
         || {Pid, Asked, R} <- lasting(Looks),
            [] =:= [S || #{~"status" := ~"waiting"} = S <- Asked],
            hibernating(Asked) < 0.3,
            not has_long_queue(Asked),
            #{~"priority" := ~"normal"} <- [lists:last(Asked)],
            Share <- [R / span(Looks) * Busy * Count / max(1, PerS)],
            Share > value(one_process)
        ]
    end).

%% A collection makes a heap smaller: it must not be so in any look.
heaps(Looks) ->
    [
        Finding
     || {Pid, Asked, _} <- lasting(Looks),
        not has_long_queue(Asked),
        not dyno_health_queues:is_formatting(Asked),
        [_ | _] = Sizes <- [[B || #{~"heap_bytes" := B} <- Asked]],
        Finding <-
            case Sizes =:= lists:sort(Sizes) of
                true -> always_more(Pid, Asked, Sizes, Looks);
                false -> postponing(Pid, Asked, Sizes, Looks)
            end
    ].

always_more(Pid, Asked, [First | _] = Sizes, Looks) ->
    Last = lists:last(Sizes),
    PerS = (Last - First) / span(Looks),
    [
        heap(Pid, Asked, First, Last, PerS, Looks)
     || length(lists:usort(Sizes)) >= enough(3, Looks),
        PerS > value(heap_per_s),
        Last > ?HEAP_BYTES,
        Last > 1.2 * First
    ].

%% The heap of a gen_statem, of which a collection may take a part: the least of two looks grows.
postponing(Pid, Asked, [A, B, _, _ | _] = Sizes, Looks) ->
    [Y, Z | _] = lists:reverse(Sizes),
    {First, Last} = {min(A, B), min(Y, Z)},
    PerS = (Last - First) / span(Looks),
    [
        finding(note, {heap_grows, postponed_per_s, 62}, {name(Asked), PerS}, #{
            text => text(
                "the heap of ~ts grows by ~ts a second, though no message waits: it may postpone "
                "events",
                [name(Asked), bytes(round(PerS))]
            ),
            evidence => text("From ~ts to ~ts. It stands in ~ts.", [
                bytes(First), bytes(Last), Top
            ]),
            advice => ["Now: nothing. Later: ", keeps(Asked)],
            look_closer => text("dyno servers NODE \"~ts\"", [
                dyno_health_waits:short(Pid, name(Asked))
            ])
        })
     || {[<<"gen_statem:loop", _/binary>> = Top | _], _, _} <- [stands(Asked)],
        PerS > value(postponed_per_s),
        Last > ?HEAP_BYTES / 2,
        Last > 1.2 * First
    ];
postponing(_Pid, _Asked, _Sizes, _Looks) ->
    [].

heap(Pid, Asked, First, Last, PerS, Looks) ->
    {Severity, Left} =
        case of_last([~"values", ~"os.memory.available"], Looks) of
            Bytes when is_number(Bytes), Bytes / PerS < ?DAY_S ->
                {warning,
                    text("; at this rate it takes the ~ts of memory left in ~ts", [
                        bytes(Bytes), seconds(Bytes / PerS)
                    ])};
            _ ->
                {note, ~""}
        end,
    finding(Severity, {heap_grows, heap_per_s, 62}, {name(Asked), PerS}, #{
        text => text("the heap of ~ts grows by ~ts a second, to ~ts~ts~ts", [
            name(Asked), bytes(round(PerS)), bytes(Last), stack(Asked), Left
        ]),
        evidence => text("From ~ts, and smaller in no look. It stands in ~ts.", [
            bytes(First), place_of(Asked)
        ]),
        advice =>
            case stack(Asked) of
                "" -> [keeps_now(Severity), " Later: ", keeps(Asked)];
                _ -> dyno_health_look:unwinding()
            end,
        look_closer => text("dyno profile NODE \"~ts\" --kind memory", [Pid])
    }).

keeps_now(note) ->
    ~"Now: nothing.";
keeps_now(warning) ->
    "Now: restart it only if less memory is left than you need: its state and queue are "
    "lost.".

keeps(Asked) ->
    case stands(Asked) of
        {[<<"gen_statem:", _/binary>> | _], _, _} ->
            "see whether an event is postponed that no later state takes: postponed events "
            "stay in its heap. Else bound its data.";
        _ ->
            ~"bound its state: remove data that is done or old, or keep it in ETS or on disk."
    end.

links(Looks) ->
    [
        finding(warning, {links, monitors, 63}, {name(Asked), Last}, #{
            text => text("~ts has ~ts links, and more at each look", [name(Asked), count(Last)]),
            evidence => text("~ts at the first look.", [count(First)]),
            advice =>
                "Now: see whether the linked processes and ports end; if it crashes, those that do "
                "not trap exits end.",
            look_closer => ~"dyno top NODE"
        })
     || {_, Asked, _} <- lasting(Looks),
        [First, _ | _] = Counts <- [[N || #{~"links" := N} <- Asked]],
        Last <- [lists:last(Counts)],
        Last > value(monitors),
        Counts =:= lists:usort(Counts)
    ].

%% The runtime keeps timers, monitors and links in blocks of fixed sizes, without functions.
timers(Looks) ->
    case growth(fun small/1, Looks) of
        {First, Last, PerS, Each} ->
            Grows = Each andalso PerS > value(timers_per_s),
            {Limit, Value} =
                case Last > value(many_timers) of
                    true -> {many_timers, Last};
                    false -> {timers_per_s, PerS}
                end,
            {Who, Setter} =
                case sets(Looks) of
                    none -> {~"", ~"erlang:send_after/3"};
                    Sets -> Sets
                end,
            Queued = [
                Q
             || L <- Looks, #{~"queue" := Q} <- maps:get(~"suspects", L), Q > value(queue)
            ],
            [
                finding(warning_if(Grows), {many_timers, Limit, 56}, {~"timers", Value}, #{
                    text => text("about ~ts timers, monitors or links exist~ts", [
                        count(round(Last)),
                        [text(", ~ts more each second", [count(PerS)]) || Grows]
                    ]),
                    evidence => text(
                        "~ts at the first look, by the memory that they take.~ts", [
                            count(round(First)), Who
                        ]
                    ),
                    advice =>
                        "Now: nothing. Later: cancel a timer that is not needed any more "
                        "(erlang:cancel_timer/1); one timer for all that a process has to do "
                        "later is enough. Demonitor a process that has answered.",
                    look_closer => text("dyno trace NODE \"~ts -> caller\"", [Setter])
                })
             || Queued =:= [], Grows orelse Last > value(many_timers)
            ];
        unknown ->
            {unknown, ~"memory was not read"}
    end.

small(#{~"allocators" := Of, ~"counts" := Counts}) ->
    #{~"processes" := [Processes, _], ~"tables" := [Tables, _]} = Counts,
    Others = ?PROCESS_BYTES * Processes + ?TABLE_BYTES * Tables,
    case [Bytes || #{~"name" := ~"fix_alloc", ~"used_bytes" := Bytes} <- Of] of
        [Bytes] -> max(0, Bytes - Others) / ?TIMER_BYTES;
        [] -> unknown
    end;
small(_Look) ->
    unknown.

%% Functions that may read a whole table are counted, and some of their calls seen. A node that is
%% too busy for that shows some of them as places.
scans(Looks) ->
    Seen = [Of || #{~"scans" := Of} <- Looks, Of =/= []],
    Rows = [{Share * N, S} || #{~"rows" := N, ~"share" := Share} = S <- lists:append(Seen)],
    case {growth(fun(L) -> maps:get(~"scanned", L, unknown) end, Looks), folds(Looks)} of
        {{_, _, PerS, _}, _} when Seen =/= [] ->
            Each = lists:sum([N || {N, _} <- Rows]) / length(Seen),
            {_, Scan} = lists:max(Rows),
            [scan(Each * PerS, Scan) || Each * PerS > value(scanned_per_s)];
        {_, [_ | _] = Folds} ->
            Folds;
        {unknown, []} ->
            dyno_health_look:uncounted();
        _ ->
            []
    end.

scan(PerS, #{~"function" := Function, ~"table" := Table, ~"rows" := Rows, ~"caller" := Caller}) ->
    scanned(scanned_per_s, {Table, PerS}, Function, #{
        text => text("~ts scans table ~ts (~ts rows)", [Function, Table, count(Rows)]),
        evidence => text("About ~ts rows a second are read so~ts.", [
            count(PerS), [[", such as by ", Caller] || Caller =/= ~""]
        ])
    }).

scanned(Limit, Subject, Function, Fields) ->
    finding(warning, {table_scans, Limit, 69}, Subject, Fields#{
        advice =>
            "Now: nothing. Later: bind the key in the pattern, or the first part of the key of an "
            "ordered_set; or keep an index in a second table, or a count in a counter.",
        look_closer => text("dyno trace NODE \"~ts -> caller\"", [Function])
    }).

%% Where the processes of the busiest function stand in most samples.
folds(Looks) ->
    Samples = [
        {Top, N}
     || {Group, Work, _} <- [dyno_health_code:busiest_group(Looks)],
        Work > 0.2,
        {_, Asked} <- suspects(Looks),
        #{~"group" := Of, ~"stacks" := Stacks} <- Asked,
        Of =:= Group,
        #{~"stack" := [Top | _], ~"count" := N} <- Stacks
    ],
    Folds = [{N, Top} || {Top, N} <- Samples, is_one_of(Top, [~"ets:do_fold", ~"ets:tab2list/"])],
    [
        scanned(none, {Top, none}, Top, #{
            text => text("the busiest processes read whole tables, in ~ts", [Top]),
            evidence => text("They stand there in ~b % of their samples.", [round(100 * Share)])
        })
     || Folds =/= [],
        Share <- [lists:sum([N || {N, _} <- Folds]) / lists:sum([N || {_, N} <- Samples])],
        Share > 0.5,
        {_, Top} <- [lists:max(Folds)]
    ].

%% To look at each of them, most likely.
listings(Looks) ->
    Callers = [{N, Who} || #{~"listings" := Of} <- Looks, #{~"caller" := Who, ~"times" := N} <- Of],
    Count = of_last([~"processes", ~"count"], Looks),
    case {growth(fun(L) -> maps:get(~"listed", L, unknown) end, Looks), Callers} of
        {unknown, _} ->
            dyno_health_look:uncounted();
        {{_, _, PerS, _}, [_ | _]} when is_number(Count) ->
            {_, Who} = lists:max(Callers),
            [
                finding(warning, {lists_processes, listed_per_s, 69}, {Who, PerS * Count}, #{
                    text => text("~ts lists all ~ts processes ~ts times a second", [
                        Who, count(Count), show(PerS, ~"1")
                    ]),
                    evidence => dyno_health_code:who_works(Looks),
                    advice =>
                        "Now: nothing. Later: list them seldom, ask only for "
                        "cheap keys (message_queue_len, reductions), and one list for all "
                        "(process_info(Pid, [Key, ...])); keep an own table of the processes "
                        "wanted.",
                    look_closer => ~"dyno trace NODE \"erlang:processes/0 -> caller\""
                })
             || PerS * Count > value(listed_per_s)
            ];
        _ ->
            []
    end.

%% In windows of a part of a second.
searches(Looks) ->
    Seen = [Of || #{~"searches" := [_ | _] = Of} <- Looks],
    Found = grouped([
        {{F, Caller}, {1000 * N / Ms, Longest}}
     || #{~"function" := F, ~"caller" := Caller, ~"elements" := N, ~"ms" := Ms} = S <- lists:append(
            Seen
        ),
        #{~"longest" := Longest} <- [S]
    ]),
    [
        finding(warning, {list_searches, searched_per_s, 68}, {Caller, PerS}, #{
            text => text("~ts searches lists of up to ~ts elements, by ~ts", [
                Caller, count(Longest), F
            ]),
            evidence => text("The lists of a second have ~ts elements or more.", [count(PerS)]),
            advice =>
                "Now: nothing. Later: keep such data in a map, or in an ETS table, and look it up "
                "by its key; a search takes longer with each element.",
            look_closer => text("dyno trace NODE \"~ts -> caller\"", [F])
        })
     || {F, Caller} := Of <- Found,
        PerS <- [lists:sum([N || {N, _} <- Of]) / length(Seen)],
        Longest <- [lists:max([N || {_, N} <- Of])],
        PerS > value(searched_per_s)
    ].

%% Busy processes that write one table: a thread that waits for a lock gives its processor up.
hot_tables(Looks) ->
    Values = [
        mean([~"values", ~"vm.scheduler_utilisation.normal"], Looks),
        of_last([~"counts", ~"schedulers"], Looks)
    ],
    Found = [
        {Table, {Pid, Name, Gap}}
     || #{~"suspects" := Suspects} <- Looks,
        #{~"pid" := Pid, ~"name" := Name, ~"writes" := Writes} <- Suspects,
        #{~"table" := Table, ~"gap_us" := Gap, ~"locks" := true} <- [Writes],
        Gap < ?GAP_US
    ],
    Tables = grouped(Found),
    known(Values, ~"the schedulers were not read", fun(Busy, Count) ->
        Hot = [
            hot_table(Table, Writers, Writes)
         || Busy > 0.7,
            Table := Writes <- Tables,
            Writers <- [length(lists:ukeysort(1, Writes))],
            Writers >= value(writers)
        ],
        case {Hot, sum([~"threads", ~"normal", ~"slices"], Looks)} of
            {[], Slices} when is_number(Slices), Busy > 0.98 ->
                PerS = Slices / span(Looks) / Count,
                [lock(PerS, Looks) || PerS > value(yields)];
            _ ->
                Hot
        end
    end).

hot_table(Table, Writers, [{_, Name, Gap} | _]) ->
    writers(writers, Writers, Table, #{
        text => text(
            "~b busy processes write table ~ts, such as ~ts every ~ts us; with one lock they "
            "exclude each other",
            [Writers, Table, Name, show(Gap, ~"1")]
        )
    }).

lock(PerS, Looks) ->
    writers(yields, PerS, ~"schedulers", #{
        text => text(
            "each scheduler gave up its processor ~ts times a second: most likely threads wait for "
            "a lock, such as of an ETS table",
            [count(PerS)]
        ),
        evidence => dyno_health_code:who_works(Looks),
        why => ~"If so, more schedulers or processes make no more writes, and each takes longer."
    }).

writers(Limit, Value, Subject, Fields) ->
    finding(warning, {hot_table, Limit, 70}, {Subject, Value}, Fields#{
        advice =>
            "Now: nothing. Later: create the table with {write_concurrency, auto}; count with "
            "counters or atomics instead of one row, keep rows of one key apart, or collect writes "
            "in each process.",
        look_closer => ~"dyno trace NODE \"ets:insert/2 -> caller\""
    }).

%% The table of a dictionary is neither heap nor link.
dictionaries(Looks) ->
    [
        finding(warning, {dictionary, dictionary, 61}, {name(Asked), Keys}, #{
            text => text("~ts has a process dictionary for about ~ts keys, and a heap of ~ts", [
                name(Asked), count(Keys), bytes(Bytes)
            ]),
            evidence => text("It stands in ~ts.", [place_of(Asked)]),
            advice =>
                "Now: nothing. Later: keep such data in ETS, or in the state of the process with a "
                "bound; remove keys that are done (erase/1).",
            look_closer => ~"dyno trace NODE \"erlang:put/2 -> caller\""
        })
     || {_, Asked} <- suspects(Looks),
        #{~"last" := true, ~"dictionary" := Keys, ~"heap_bytes" := Bytes} <- [lists:last(Asked)],
        Keys >= value(dictionary)
    ].

%% Starts and restarts wait meanwhile. An idle supervisor stands in its loop.
listing(Looks) ->
    [
        finding(warning, {children, none, 97}, {name(Asked), Share}, #{
            text => text("~ts lists its children all the time, because a caller asks", [
                name(Asked)
            ]),
            evidence => text("~b % of its stack samples are in that.", [round(100 * Share)]),
            why => ~"It starts and restarts no child meanwhile, and each answer copies the list.",
            advice =>
                "Now: find who asks (dyno trace of supervisor:which_children/1 and "
                "supervisor:count_children/1). Later: do not ask a large supervisor again and "
                "again: keep a counter, a pg group or an ETS table of the children.",
            look_closer => ~"dyno trace NODE \"supervisor:which_children/1 -> caller\""
        })
     || {_, [_, _ | _] = Asked} <- suspects(Looks),
        #{~"last" := true, ~"group" := <<"supervisor:", _/binary>>} <- [lists:last(Asked)],
        Share <- [lists_children(Asked)],
        Share > 0.5
    ].

lists_children(Asked) ->
    All = [{Stack, N} || #{~"stacks" := Of} <- Asked, #{~"stack" := Stack, ~"count" := N} <- Of],
    lists:sum([N || {Stack, N} <- All, is_listing(Stack)]) /
        max(1, lists:sum([N || {_, N} <- All])).

is_listing(Stack) ->
    lists:member(~"supervisor:handle_call/3", Stack) andalso
        not lists:any(
            fun(Frame) -> binary:match(Frame, [~"start", ~"terminate", ~"delete"]) =/= nomatch end,
            Stack
        ).

%% Sockets of the inet driver are ports, too: the newest that are seen must be programs.
programs(Looks) ->
    Made = [
        {1000 * Ports / Ms, Names}
     || #{~"programs" := #{~"ports" := Ports, ~"names" := Names}, ~"interval_ms" := Ms} <-
            dyno_health_look:intervals(Looks)
    ],
    Rates = [PerS || {PerS, _} <- Made],
    [
        finding(warning, {programs, programs_per_s, 98}, {Name, lists:min(Rates)}, #{
            text => text("~ts ports a second are made, such as for ~ts", [
                count(lists:sum(Rates) / length(Rates)), Name
            ]),
            evidence => text("~ts a second or more before each look; sockets may be among them.", [
                show(trunc(lists:min(Rates)), ~"count")
            ]),
            advice =>
                "Now: find who makes them (dyno trace NODE \"erlang:open_port/2 -> caller\"). "
                "Later: keep one program running in place of os:cmd/1 for each request. If it is "
                "started again because it ends, let a pause grow between the starts.",
            look_closer => ~"dyno trace NODE \"erlang:open_port/2 -> caller\""
        })
     || Rates =/= [],
        lists:min(Rates) > value(programs_per_s),
        [Name | _] <- [lists:append([Names || {_, Names} <- Made])]
    ].
