%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_memory).
-moduledoc false.
%% Memory: growing tables, memory held but unused, garbage.

-export([checks/0, are_copied/1]).

-import(dyno_health_look, [
    finding/4, warning_if/1, text/2, show/2, count/1, bytes/1, seconds/1, at/2
]).
-import(dyno_health_look, [of_last/2, mean/2, growth/2, known/3, suspects/1, span/1]).
-import(dyno_health_look, [place_of/1, stack/1, last/1, latest/2, has_long_queue/1]).
-import(dyno_finding_limits, [value/1]).

-define(SOON_S, 3600).
%% Many heaps, each larger than a process needs that holds little.
-define(MANY, 100).
-define(IDLE_BYTES, 50_000).
%% Of the memory that is left.
-define(WASTED, 0.1).
%% Collections of a process in the time of all looks.
-define(HARDLY, 10).
%% A runtime at rest has 20 MB there, such as its program.
-define(OUTSIDE_BYTES, 40_000_000).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {table_grows, ~"ETS tables that grow", 3, fun tables/1},
        {memory_grows, ~"growth of memory", 4, fun grows/1},
        {held, ~"memory held and not used", 2, fun held/1},
        {big_heap, ~"large heaps", 2, fun heaps/1},
        {idle_heaps, ~"heaps of processes that wait", 2, fun idle_heaps/1},
        {binaries, ~"binaries", 2, fun binaries/1},
        {atom_memory, ~"memory of atoms", 2, fun atoms/1},
        {garbage, ~"copying and garbage", 2, fun garbage/1}
    ].

tables(Looks) ->
    Names = lists:uniq([Name || #{~"tables" := Of} <- Looks, #{~"name" := Name} <- Of]),
    [
        table(Name, Growth, Looks)
     || Name <- Names,
        %% Mnesia's own tables come and go with its transactions.
        string:prefix(Name, ~"mnesia_") =:= nomatch,
        %% It grows while modules are loaded.
        Name =/= ~"code_server",
        {_, _, PerS, true} = Growth <- [growth(fun(L) -> rows(Name, L) end, Looks)],
        PerS > value(rows_per_s)
    ] ++ [Finding || Name <- Names, Finding <- kept_rows(Name, Looks)].

%% Its memory grows in each look, and its rows do not: deleted ones may be kept.
kept_rows(Name, Looks) ->
    [
        finding(warning, {table_grows, kept_bytes_per_s, 61}, {Name, PerS}, #{
            text => text("table ~ts grows by ~ts a second, and by few or no rows~ts", [
                Name, bytes(round(PerS)), Why
            ]),
            evidence => text("~ts now, in ~ts rows.", [
                bytes(Last), show(rows(Name, last(Looks)), ~"count")
            ]),
            advice =>
                "Now: see whether that process ends its traversal. End the process only if its "
                "state may be lost. Later: fix a table for one traversal only; ets:foldl/3 does it "
                "itself.",
            look_closer => ~"dyno trace NODE \"ets:safe_fixtable/2 -> caller\""
        })
     || [_ | _] = Why <- [fixed(Name, Looks)],
        {_, Last, PerS, true} <- [growth(fun(L) -> bytes(Name, L) end, Looks)],
        PerS > value(kept_bytes_per_s),
        {_, _, RowsPerS, _} <- [growth(fun(L) -> rows(Name, L) end, Looks)],
        RowsPerS =< value(rows_per_s)
    ].

rows(Name, #{~"tables" := Tables}) ->
    hd([N || #{~"name" := Of, ~"objects" := N} <- Tables, Of =:= Name] ++ [unknown]).

bytes(Name, #{~"tables" := Tables}) ->
    hd([B || #{~"name" := Of, ~"bytes" := B} <- Tables, Of =:= Name] ++ [unknown]).

table(Name, {First, Last, PerS, _}, Looks) ->
    Bytes = growth(fun(L) -> bytes(Name, L) end, Looks),
    Memory =
        case Bytes of
            {_, B, BytesPerS, _} ->
                text(", ~ts, ~ts more each second", [bytes(B), bytes(round(BytesPerS))]);
            unknown ->
                ~""
        end,
    finding(warning, {table_grows, rows_per_s, 60}, {Name, PerS}, #{
        text => text("table ~ts grows by ~ts rows a second~ts", [Name, count(PerS), Memory]),
        evidence => text("From ~ts to ~ts rows in ~ts, more at each of ~b looks.", [
            count(First), count(Last), seconds(span(Looks)), length(Looks)
        ]),
        advice =>
            "Now: see whether the load rises (new users): then growth is normal. Only if memory "
            "runs short, delete rows that you know are old; of a Mnesia table only in a "
            "transaction (mnesia:delete/1). Later: delete a row when its process or session ends "
            "(monitor it), or by age.",
        look_closer => ~"dyno trace NODE \"ets:insert/2 -> caller\""
    }).

grows(Looks) ->
    case growth(fun node_bytes/1, Looks) of
        unknown ->
            {unknown, ~"memory was not read"};
        {First, Last, PerS, Each} ->
            [
                finding(
                    full_soon(PerS, Looks), {memory_grows, memory_per_s, 30}, {~"memory", PerS}, #{
                        text => text(
                            "memory grows by ~ts a second; the largest part is ~ts~ts~ts", [
                                bytes(round(PerS)),
                                kind(Looks),
                                of_whom(kind(Looks), Looks),
                                until_full(PerS, Looks)
                            ]
                        ),
                        evidence => text("From ~ts to ~ts in ~ts, more at each look.", [
                            bytes(First), bytes(Last), seconds((Last - First) / PerS)
                        ]),
                        advice =>
                            "Now: see who takes most: dyno top shows processes, dyno record "
                            "tables, too. While the load rises (new users), growth is normal.",
                        look_closer => ~"dyno record NODE"
                    }
                )
             || Each, PerS > value(memory_per_s)
            ] ++ outside(Looks)
    end.

%% Resident memory that no allocator of the runtime holds. These may hold pages never touched.
outside(Looks) ->
    Rss = fun(Look) -> at([~"values", ~"os.vm.rss"], Look) end,
    Outside = fun(Look) ->
        Held = lists:sum([N || #{~"held_bytes" := N} <- maps:get(~"allocators", Look, [])]),
        case Rss(Look) of
            Bytes when is_number(Bytes), Held > 0 -> max(0, Bytes - Held);
            _ -> unknown
        end
    end,
    case {growth(Outside, Looks), growth(Rss, Looks), growth(fun node_bytes/1, Looks)} of
        {{First, Last, PerS, true}, {_, _, All, true}, {_, _, Used, _}} ->
            [
                finding(warning, {memory_grows, memory_per_s, 58}, {~"native code", PerS}, #{
                    text => text(
                        "memory outside of the runtime grows by ~ts a second, to ~ts: most likely "
                        "native code (a NIF, driver or library) does not free it",
                        [bytes(round(PerS)), bytes(Last)]
                    ),
                    evidence => text("~ts at the first look, and more at each.", [bytes(First)]),
                    advice => outside_advice(),
                    look_closer => ~"dyno profile NODE --kind cpu"
                })
             || min(PerS, All - max(0, Used)) > value(memory_per_s), Last > ?OUTSIDE_BYTES
            ];
        _ ->
            []
    end.

outside_advice() ->
    "Now: see /proc/PID/smaps_rollup: stacks and mapped files count, too. Later: see which NIF, "
    "driver or library allocates memory of its own (malloc).".

%% Without the memory of the look itself.
node_bytes(Look) ->
    case at([~"values", ~"vm.memory.total"], Look) of
        Bytes when is_number(Bytes) -> Bytes - maps:get(~"own_bytes", Look, 0);
        unknown -> unknown
    end.

kind(Looks) ->
    Kinds = [
        {PerS, Kind}
     || Kind <- [~"processes", ~"binary", ~"ets", ~"code", ~"atom"],
        Path <- [[~"values", <<"vm.memory.", Kind/binary>>]],
        {_, _, PerS, _} <- [growth(fun(L) -> at(Path, L) end, Looks)]
    ],
    case lists:reverse(lists:sort(Kinds)) of
        [{_, Kind} | _] -> Kind;
        [] -> ~"of an unknown class"
    end.

of_whom(~"binary", Looks) ->
    case of_last([~"values", ~"vm.memory.binary"], Looks) of
        Binary when is_number(Binary) -> holders(Binary, last(Looks));
        unknown -> ~""
    end;
of_whom(~"ets", Looks) ->
    Names = [Name || #{~"name" := Name} <- of_last([~"tables"], Looks)],
    Grown = [
        {PerS, Name}
     || Name <- Names,
        {_, _, PerS, _} <- [growth(fun(L) -> bytes(Name, L) end, Looks)]
    ],
    case lists:reverse(lists:sort(Grown)) of
        [{PerS, Name} | _] when PerS > 0 -> [text(": table ~ts", [Name]), fixed(Name, Looks)];
        _ -> ~""
    end;
of_whom(_Kind, _Looks) ->
    ~"".

fixed(Name, Looks) ->
    [
        text("; ~ts keeps it fixed (ets:safe_fixtable/2): deleted rows may stay", [By])
     || #{~"name" := Of, ~"fixed_by" := By} <- of_last([~"tables"], Looks), Of =:= Name
    ].

%% Ten seconds of growth may be arriving users.
full_soon(PerS, Looks) ->
    case of_last([~"values", ~"os.memory.available"], Looks) of
        Bytes when is_number(Bytes), Bytes / PerS < ?SOON_S -> warning;
        _ -> note
    end.

until_full(PerS, Looks) ->
    [
        text("; at this rate the ~ts left last ~ts", [bytes(Bytes), seconds(Bytes / PerS)])
     || Bytes <- [of_last([~"values", ~"os.memory.available"], Looks)], is_number(Bytes)
    ].

held(Looks) ->
    Of = fun(Look) ->
        [at([~"values", Name], Look) || Name <- [~"os.vm.rss", ~"vm.memory.total"]]
    end,
    [Before, Now] = [Of(Look) || Look <- latest(2, Looks)],
    known(Now, ~"resident memory was not read", fun(Rss, Total) ->
        Cause = holds(Rss - Total, Rss, is_steady(Rss, hd(Before)), Looks),
        [
            finding(Severity, {held, held_share, 55}, {~"memory", Rss / max(1, Total)}, #{
                text => text("the node holds ~ts of the machine's memory and uses ~ts", [
                    bytes(Rss), bytes(Total)
                ]),
                evidence => Evidence,
                advice => Advice,
                look_closer => ~"dyno record NODE"
            })
         || is_held(Now), is_held(Before), {Severity, Evidence, Advice} <- Cause
        ]
    end).

%% In two looks: a collection of a large heap holds memory for a moment.
is_held([Rss, Total]) when is_number(Rss), is_number(Total) ->
    Rss > value(held_share) * max(1, Total) andalso Rss - Total > value(held_bytes);
is_held(_Unknown) ->
    true.

is_steady(Now, Before) when is_number(Before) -> abs(Now - Before) < 0.1 * Now;
is_steady(_Now, unknown) -> false.

%% Outside of the allocators, such as of native code. Else it was read in the middle of a change.
holds(Bytes, Rss, IsSteady, Looks) ->
    All = [
        {Held - Used, Name, Held, Used}
     || #{~"name" := Name, ~"held_bytes" := Held, ~"used_bytes" := Used} <- of_last(
            [~"allocators"], Looks
        )
    ],
    AllHeld = lists:sum([Held || {_, _, Held, _} <- All]),
    case lists:sum([Free || {Free, _, _, _} <- All]) > Bytes / 2 of
        true ->
            [kept(lists:max(All))];
        %% They did not answer in time.
        false when AllHeld =:= 0 ->
            [];
        false ->
            [
                {warning,
                    text("The runtime's allocators hold ~ts: the rest is outside of them.", [
                        bytes(AllHeld)
                    ]),
                    outside_advice()}
             || IsSteady, Rss - AllHeld > Bytes / 2
            ]
    end.

%% The cache is of use while large heaps are made again and again.
kept({_, ~"segment_cache", Held, _}) ->
    {note,
        text("~ts of it were heaps: the runtime keeps freed segments to use them again.", [
            bytes(Held)
        ]),
        "Now: nothing, if the machine has memory enough. Later: smaller heaps, or +MMmcs 0, "
        "which gives segments back at once."};
kept({_, Name, Held, Used}) ->
    {warning,
        text("Most of that is held by allocator ~ts, which uses ~ts (~b %).", [
            Name, bytes(Used), round(100 * Used / Held)
        ]),
        "Now: nothing: it may be left of a peak, and is used again at the next one. Only if the "
        "machine needs it, restart the node at a quiet time. Later: lower the peak (fewer "
        "processes at once)."}.

heaps(Looks) ->
    Limit = value(heap_bytes),
    [
        finding(warning_if(Bytes > 10 * Limit), {big_heap, heap_bytes, 20}, {Name, Bytes}, #{
            text => text("~ts has a heap of ~ts~ts", [Name, bytes(Bytes), stack(Asked)]),
            evidence => text("It stands in ~ts.", [place_of(Asked)]),
            advice =>
                case stack(Asked) of
                    "" ->
                        "Now: only if free memory exceeds this heap: "
                        "erlang:garbage_collect(Pid). The process stops meanwhile. Later: if "
                        "the heap became small, hibernate the process or set fullsweep_after; "
                        "else keep its state in ETS, or share it among processes.";
                    _ ->
                        dyno_health_look:unwinding()
                end,
            look_closer => text("dyno profile NODE \"~ts\"", [Pid])
        })
     || {Pid, Asked} <- suspects(Looks),
        #{~"heap_bytes" := Bytes, ~"name" := Name, ~"last" := true} <- [lists:last(Asked)],
        Bytes > Limit,
        not dyno_health_queues:is_formatting(Asked)
    ].

%% Whether they are of use shows only a collection.
idle_heaps(Looks) ->
    [
        idle_heaps(Group, Count, Bytes / N, Survived / Bytes, Looks)
     || #{~"waiting" := All, ~"groups" := Groups} <- [of_last([~"binaries"], Looks)],
        Asked <- [lists:sum([N || #{~"processes" := N} <- Groups])],
        #{~"group" := Group, ~"processes" := N, ~"heap_bytes" := Bytes} = G <- Groups,
        #{~"survived_bytes" := Survived} <- [G],
        Count <- [N * All div Asked],
        Count > ?MANY,
        Bytes > ?IDLE_BYTES * N,
        Total <- [of_last([~"values", ~"vm.memory.total"], Looks)],
        is_number(Total),
        Bytes / N * Count > max(value(idle_heaps), 0.3 * Total)
    ].

idle_heaps(Group, Count, Each, Survived, Looks) ->
    Left = of_last([~"values", ~"os.memory.available"], Looks),
    IsMuch = is_number(Left) andalso Count * Each * (1 - Survived) > ?WASTED * Left,
    finding(warning_if(IsMuch), {idle_heaps, idle_heaps, 41}, {Group, Count * Each}, #{
        text => text("about ~ts processes of ~ts, which wait, have heaps of ~ts, ~ts each", [
            count(Count), Group, bytes(round(Count * Each)), bytes(round(Each))
        ]),
        evidence => text("At their last collections at most ~b % of it was used, by a sample.", [
            round(100 * Survived)
        ]),
        why => ~"A process that waits collects nothing: its garbage stays until it works again.",
        advice =>
            "Now: erlang:garbage_collect(Pid) of one of them shows how much is garbage; of all, it "
            "frees that, and each stops meanwhile. Later: if they hold little, hibernate them "
            "(the option hibernate_after), or do large work in a process that ends.",
        look_closer => ~"dyno top NODE"
    }).

atoms(Looks) ->
    known([of_last([~"values", ~"vm.memory.atom"], Looks)], ~"memory was not read", fun(Bytes) ->
        [
            finding(note, {atom_memory, atom_bytes, 38}, {~"atoms", Bytes}, #{
                text => text("~ts atoms take ~ts", [
                    show(hd(of_last([~"counts", ~"atoms"], Looks)), ~"count"), bytes(Bytes)
                ]),
                evidence => dyno_health_capacity:newest_atoms(Looks),
                advice =>
                    "Now: nothing. Later: keep data from outside as binaries, or use "
                    "binary_to_existing_atom/1. Only a restart frees atoms.",
                look_closer => ~"dyno trace NODE \"erlang:binary_to_atom/2 -> caller\""
            })
         || Bytes > value(atom_bytes)
        ]
    end).

binaries(Looks) ->
    Names = [~"vm.memory.binary", ~"vm.memory.total"],
    Values = [of_last([~"values", Name], Looks) || Name <- Names],
    known(Values, ~"memory was not read", fun(Binary, Total) ->
        Holders = holders(Binary, last(Looks)),
        [
            finding(
                case Holders of
                    ~"" -> note;
                    _ -> warning
                end,
                {binaries, binary_bytes, 40},
                {~"binaries", Binary},
                #{
                    text => text("binaries take ~ts of ~ts~ts", [
                        bytes(Binary), bytes(Total), Holders
                    ]),
                    advice => release(Holders),
                    look_closer => ~"dyno record NODE"
                }
            )
         || Binary > value(binary_bytes),
            Binary > 0.3 * Total,
            %% Else messages may hold them.
            Holders =/= ~"" orelse not has_long_queue(map_get(~"suspects", last(Looks)))
        ]
    end).

release(<<": rows", _/binary>>) ->
    ~"Now: nothing. Later: binary:copy/1 before insert.";
release(~"") ->
    "Now: nothing. Later: hibernate processes that collect seldom, or set fullsweep_after; "
    "binary:copy/1 before a small part of a large binary is kept.";
release(_Processes) ->
    "Now: erlang:garbage_collect(Pid) of these processes frees their garbage; each stops "
    "meanwhile. Later: hibernate those that collect seldom, or set fullsweep_after; "
    "binary:copy/1 before a small part of a large binary is kept.".

holders(Binary, #{~"binaries" := #{~"groups" := Groups, ~"tables" := Tables} = Of}) ->
    Parts = [
        {Kept / Own, Name}
     || #{~"name" := Name, ~"own_bytes" := Own, ~"kept_bytes" := Kept} <- Tables,
        Own > 0,
        Kept > 8 * Own
    ],
    Asked = lists:sum([N || #{~"processes" := N} <- Groups]),
    #{~"waiting" := All} = Of,
    Held = [
        {Bytes * Times, Group}
     || {Times, Some} <- [{All / max(1, Asked), Groups}, {1, maps:get(~"named", Of, [])}],
        #{~"group" := Group, ~"bytes" := Bytes} <- Some
    ],
    case {lists:reverse(lists:sort(Parts)), lists:reverse(lists:sort(Held))} of
        {[{Times, Name} | _], _} ->
            text(
                ": rows of table ~ts are parts of binaries ~b times their size, which they keep", [
                    Name, round(Times)
                ]
            );
        {[], [{Bytes, Group} | _]} when Bytes > 0.3 * Binary ->
            text(": processes of ~ts, which wait, refer to about ~b %, by a sample", [
                Group, min(100, round(100 * Bytes / Binary))
            ]);
        _ ->
            ~""
    end;
holders(_Binary, _Look) ->
    ~"".

-doc "Whether so much is collected for the work done that large terms are copied.".
-spec are_copied([dyno_health_look:look()]) -> boolean().
are_copied(Looks) ->
    case garbage(Looks) of
        [_ | _] -> true;
        _ -> false
    end.

%% Erlang code makes up to 60 bytes of garbage for each reduction, copying more than 100.
garbage(Looks) ->
    Values = [mean([~"values", Name], Looks) || Name <- [~"reclaimed", ~"vm.reductions"]],
    known(Values, ~"collections were not read", fun(PerS, Reductions) ->
        Each = PerS / max(1, Reductions),
        [
            garbage(PerS, Each, Looks)
         || PerS > value(garbage_bytes_per_s), Each > value(garbage_bytes_each)
        ]
    end).

garbage(PerS, Each, Looks) ->
    Tables = lists:reverse(
        lists:sort([
            {Bytes div Objects, Name, Objects}
         || #{~"name" := Name, ~"objects" := Objects, ~"bytes" := Bytes} <- at(
                [~"tables"], last(Looks)
            ),
            Objects > 0,
            Bytes div Objects > value(object_bytes),
            not lists:member(Name, [~"logger", ~"code", ~"code_names", ~"ac_tab"])
        ])
    ),
    Busy = dyno_health_code:busiest(Looks),
    Works = dyno_health_code:who_works(Looks),
    Senders =
        #{
            Pid => length(N) > 2 andalso lists:max(N) - lists:min(N) =< ?HARDLY
         || {Pid, Asked} <- suspects(Looks), N <- [[C || #{~"minor_gcs" := C} <- Asked]]
        },
    {Subject, Sends, Evidence, Advice, Closer} =
        case {Tables, Busy} of
            {_, {Who, _, _, Pid}} when map_get(Pid, Senders) ->
                {Who, [", most likely of messages from ", Who],
                    [Works, " Its own heap is hardly collected: its terms are in others."],
                    "Now: nothing. Later: send a key or a part of the term; or keep it once, in "
                    "persistent_term or as a binary, which is not copied.", [
                        "dyno profile NODE \"", Pid, "\""
                    ]};
            {[{Size, Name, Objects} | _], _} ->
                {Name, "",
                    text("Table ~ts has ~ts, of ~ts on average. ~ts", [
                        Name, objects(Objects), bytes(Size), Works
                    ]),
                    text(
                        "Now: see whether lookups of large objects in table ~ts are the cause "
                        "(dyno trace of ets:lookup/2). Later: if so, keep a large term that seldom "
                        "changes in persistent_term, or cut it into rows and look up the one that "
                        "is needed.",
                        [Name]
                    ),
                    ~"dyno trace NODE \"ets:lookup/2 -> caller\""};
            {[], {Who, _, _, _}} ->
                {Who, "", Works,
                    "Now: see whether it makes, sends or looks up large terms (dyno profile --kind "
                    "memory). Later: send a key or a part of such a term; or keep it once, in "
                    "persistent_term or as a binary, which is not copied.",
                    ~"dyno profile NODE --kind memory"};
            {[], none} ->
                {
                    ~"garbage",
                    "",
                    ~"",
                    ~"Now: nothing. Later: see which functions make it.",
                    ~"dyno profile NODE --kind memory"
                }
        end,
    finding(warning, {garbage, garbage_bytes_per_s, 50}, {Subject, PerS}, #{
        text => text(
            "collections free ~ts of terms a second~ts, ~ts for each reduction (call); usual are "
            "up to 60 B",
            [bytes(round(PerS)), Sends, bytes(round(Each))]
        ),
        evidence => Evidence,
        advice => Advice,
        look_closer => Closer
    }).

objects(1) -> ~"1 object";
objects(N) -> text("~ts objects", [count(N)]).
