%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_processes).
-moduledoc false.
%% Single processes: too high a priority, a heap or links that grow, hibernation without a rest, and
%% scans of whole tables.

-export([checks/0]).

-import(dyno_health_look, [text/2, show/2, seconds/1, of_last/2, mean/2]).
-import(dyno_finding_limits, [value/1]).

-define(DAY_S, 86_400).
%% Of a process that hibernates without a rest.
-define(WORKS_PER_S, 20_000).
%% Below it grows as caches do at the start.
-define(HEAP_BYTES, 10_000_000).
-define(TIMER_BYTES, 160).
-define(PROCESS_BYTES, 1000).

-spec checks() -> [dyno_health:check()].
checks() ->
    [
        #{name => priority, title => ~"processes of high priority", finding => fun priorities/1},
        #{name => heap_grows, title => ~"heaps that grow", finding => fun heaps/1},
        #{name => links, title => ~"links", finding => fun links/1},
        #{
            name => many_timers,
            title => ~"timers, monitors and links of all processes",
            finding => fun timers/1
        },
        #{name => hibernation, title => ~"hibernation", finding => fun hibernations/1},
        #{name => table_scans, title => ~"scans of whole tables", finding => fun scans/1}
    ].

%% Those that were suspects in most looks, with their reductions of all looks.
lasting(Looks) ->
    [
        {Pid, Asked, lists:sum([R || #{~"reductions" := R} <- Asked, is_number(R)])}
     || {Pid, Asked} <- dyno_health_look:suspects(Looks),
        length(Asked) >= 3,
        #{~"last" := true} <- [lists:last(Asked)]
    ].

span(Looks) -> max(0.001, dyno_health_look:span_s(Looks)).

name(Asked) ->
    #{~"name" := Name} = lists:last(Asked),
    Name.

place(Asked) ->
    case dyno_health_look:stands(Asked) of
        {Stack, _, _} -> dyno_health_look:place(Stack);
        unknown -> ~"a place that is not known"
    end.

priorities(Looks) ->
    [
        dyno_finding:new(priority, one_process, #{
            subject => name(Asked),
            severity => warning,
            weight => 96,
            text => text(
                "~ts works all the time at priority ~ts: processes of normal priority wait for it",
                [
                    name(Asked), Priority
                ]
            ),
            evidence => text("It did ~ts reductions a second, most often in ~ts.", [
                show(R / span(Looks), ~"count"), place(Asked)
            ]),
            advice =>
                <<
                    "Give it normal priority (process_flag(priority, normal)), or have it wait "
                    "between its tasks; high and max are for short work."
                >>,
            look_closer => text("dyno profile NODE \"~ts\"", [Pid])
        })
     || {Pid, Asked, R} <- lasting(Looks),
        #{~"priority" := Priority} <- [lists:last(Asked)],
        Priority =:= ~"high" orelse Priority =:= ~"max",
        [] =:= [S || #{~"status" := ~"waiting"} = S <- Asked],
        R / span(Looks) > value(busy_reductions)
    ].

%% A collection makes a heap smaller: it must not be so in any look.
heaps(Looks) ->
    [
        heap(Pid, Asked, First, Last, PerS, Looks)
     || {Pid, Asked, _} <- lasting(Looks),
        [First, _, _ | _] = Sizes <- [[B || #{~"heap_bytes" := B} <- Asked]],
        Sizes =:= lists:sort(Sizes),
        Last <- [lists:last(Sizes)],
        PerS <- [(Last - First) / span(Looks)],
        PerS > value(heap_per_s),
        Last > ?HEAP_BYTES,
        Last > 1.2 * First
    ].

heap(Pid, Asked, First, Last, PerS, Looks) ->
    {Severity, Left} =
        case of_last([~"values", ~"os.memory.available"], Looks) of
            Bytes when is_number(Bytes), Bytes / PerS < ?DAY_S ->
                {warning, text(" At this rate it takes the memory that is left, ~ts, in ~ts.", [
                    show(Bytes, ~"B"), seconds(Bytes / PerS)
                ])};
            _ ->
                {note, ~""}
        end,
    dyno_finding:new(heap_grows, heap_per_s, #{
        subject => name(Asked),
        severity => Severity,
        value => PerS,
        weight => 62,
        text => text("the heap of ~ts grows by ~ts a second, to ~ts", [
            name(Asked), show(round(PerS), ~"B"), show(Last, ~"B")
        ]),
        evidence => text("From ~ts, and smaller in no look. It stands in ~ts.~ts", [
            show(First, ~"B"), place(Asked), Left
        ]),
        advice => keeps(Asked),
        look_closer => text("dyno profile NODE \"~ts\" --kind memory", [Pid])
    }).

keeps(Asked) ->
    case dyno_health_look:stands(Asked) of
        {[<<"gen_statem:", _/binary>> | _], _, _} ->
            <<
                "See whether its state has an event postponed that no later state takes: postponed "
                "events stay in its heap. Else its data grows: bound it."
            >>;
        _ ->
            ~"Bound its state: remove what is done or old, or keep it in ETS or on disk."
    end.

links(Looks) ->
    [
        dyno_finding:new(links, monitors, #{
            subject => name(Asked),
            severity => warning,
            value => Last,
            weight => 63,
            text => text("~ts has ~ts links, and more at each look", [
                name(Asked), show(Last, ~"count")
            ]),
            evidence => text("~ts at the first look.", [show(First, ~"count")]),
            advice =>
                <<
                    "See whether the linked processes and ports end; if it ends itself, all of "
                    "them do."
                >>,
            look_closer => ~"dyno top NODE"
        })
     || {_, Asked, _} <- lasting(Looks),
        [First, _ | _] = Counts <- [[N || #{~"links" := N} <- Asked]],
        Last <- [lists:last(Counts)],
        Last > value(monitors),
        Counts =:= lists:usort(Counts)
    ].

%% The runtime counts timers, monitors and links by no function, but keeps them, processes and
%% messages in blocks of fixed sizes.
timers(Looks) ->
    case dyno_health_look:growth(fun small/1, Looks) of
        {First, Last, PerS, Each} ->
            Grows = Each andalso length(Looks) >= 4 andalso PerS > value(timers_per_s),
            Queued = [
                Q
             || L <- Looks, #{~"queue" := Q} <- maps:get(~"suspects", L), Q > value(queue)
            ],
            [
                dyno_finding:new(many_timers, many_timers, #{
                    subject => ~"timers",
                    severity =>
                        case Grows of
                            true -> warning;
                            false -> note
                        end,
                    value => Last,
                    weight => 56,
                    text => text("about ~ts timers, monitors or links exist~ts", [
                        show(round(Last), ~"count"),
                        [text(", ~ts more each second", [show(PerS, ~"count")]) || Grows]
                    ]),
                    evidence => text("~ts at the first look, by the memory that they take.", [
                        show(round(First), ~"count")
                    ]),
                    advice =>
                        <<
                            "Cancel a timer that is not needed any more (erlang:cancel_timer/1); "
                            "one timer for all that a process has to do later is enough. Demonitor "
                            "what has answered."
                        >>,
                    look_closer => ~"dyno trace NODE \"erlang:start_timer/3 -> caller\""
                })
             || Queued =:= [], Grows orelse Last > value(many_timers)
            ];
        unknown ->
            {unknown, ~"memory was not read"}
    end.

small(#{~"allocators" := Of, ~"counts" := #{~"processes" := [Processes, _]}}) ->
    case [Bytes || #{~"name" := ~"fix_alloc", ~"used_bytes" := Bytes} <- Of] of
        [Bytes] -> max(0, Bytes - ?PROCESS_BYTES * Processes) / ?TIMER_BYTES;
        [] -> unknown
    end;
small(_Look) ->
    unknown.

%% Each hibernation is a collection of the whole heap. A hibernating process has no stack.
hibernations(Looks) ->
    Found = [
        {R / span(Looks), Asked}
     || {_, Asked, R} <- lasting(Looks),
        R / span(Looks) > ?WORKS_PER_S,
        hibernating(Asked) > 0.3
    ],
    PerS = lists:sum([R || {R, _} <- Found]),
    case {Found, mean([~"values", ~"vm.reductions"], Looks)} of
        {[{_, Asked} | _], All} when is_number(All), PerS > 0.2 * All ->
            Stacks = [S || #{~"stacks" := Of} <- Asked, #{~"stack" := [_ | _] = S} <- Of],
            [
                dyno_finding:new(hibernation, none, #{
                    subject => name(Asked),
                    severity => warning,
                    value => PerS,
                    weight => 57,
                    text => text("~ts hibernates again and again, without a rest", [name(Asked)]),
                    evidence => text("~b of the busiest processes do~ts.", [
                        length(Found),
                        [
                            [", and stand in ", dyno_health_look:place(S)]
                         || S <- lists:sublist(Stacks, 1)
                        ]
                    ]),
                    why =>
                        ~"Each time its whole heap is collected and made small, and grows again.",
                    advice =>
                        <<
                            "Hibernate after some seconds without a message only (the option "
                            "hibernate_after of gen_server and gen_statem)."
                        >>,
                    look_closer => ~"dyno profile NODE --kind memory"
                })
            ];
        _ ->
            []
    end.

hibernating(Asked) ->
    All = lists:sum([N || #{~"looks" := N} <- Asked]),
    lists:sum([N || #{~"stacks" := Of} <- Asked, #{~"stack" := [], ~"count" := N} <- Of]) /
        max(1, All).

scans(Looks) ->
    Found = [
        {Rows * N, Scan, Asked}
     || {_, Asked, _} <- lasting(Looks),
        [Scan | _] = All <- [[S || #{~"scans" := S} <- Asked]],
        N <- [lists:sum([P || #{~"per_s" := P} <- All]) / length(Asked)],
        #{~"rows" := Rows} <- [Scan],
        length(All) >= 2
    ],
    PerS = lists:sum([Each || {Each, _, _} <- Found]),
    case lists:reverse(lists:sort(Found)) of
        [{_, Scan, Asked} | _] -> [scan(PerS, Scan, Asked) || PerS > value(scanned_per_s)];
        [] -> []
    end.

scan(PerS, #{~"function" := Function, ~"table" := Table, ~"rows" := Rows}, Asked) ->
    dyno_finding:new(table_scans, scanned_per_s, #{
        subject => Table,
        severity => warning,
        value => PerS,
        weight => 69,
        text => text(
            "~ts reads all ~ts rows of table ~ts, so often that ~ts rows a second are read", [
                Function, show(Rows, ~"count"), Table, show(PerS, ~"count")
            ]
        ),
        evidence => text("Such as ~ts, in ~ts.", [name(Asked), place(Asked)]),
        advice =>
            <<
                "Bind the key in the pattern, or the first part of the key of an ordered_set; or "
                "keep an index in a second table, or a count in a counter."
            >>,
        look_closer => text("dyno trace NODE \"~ts -> caller\"", [Function])
    }).
