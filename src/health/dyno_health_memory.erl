%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_memory).
-moduledoc false.
%% Memory: growing tables, memory held but unused, garbage.

-export([checks/0]).

-import(dyno_health_look, [text/2, show/2, seconds/1, of_last/2, mean/2]).

-define(SOON_S, 3600).

-spec checks() -> [dyno_health:check()].
checks() ->
    [
        #{name => table_grows, title => ~"ETS tables that grow", finding => fun tables/1},
        #{name => memory_grows, title => ~"growth of memory", finding => fun grows/1},
        #{name => held, title => ~"memory held and not used", finding => fun held/1},
        #{name => big_heap, title => ~"large heaps", finding => fun heaps/1},
        #{name => binaries, title => ~"binaries", finding => fun binaries/1},
        #{name => garbage, title => ~"copying and garbage", finding => fun garbage/1}
    ].

tables(Looks) ->
    Names = lists:uniq([Name || #{~"tables" := Of} <- Looks, #{~"name" := Name} <- Of]),
    [
        table(Name, Growth, Looks)
     || Name <- Names,
        %% Mnesia's own tables come and go with its transactions.
        string:prefix(Name, ~"mnesia_") =:= nomatch,
        {_, _, PerS, true} = Growth <- [
            dyno_health_look:growth(fun(L) -> rows(Name, L) end, Looks)
        ],
        length(Looks) >= 3,
        PerS > dyno_finding_limits:value(rows_per_s)
    ].

rows(Name, #{~"tables" := Tables}) ->
    case [N || #{~"name" := Of, ~"objects" := N} <- Tables, Of =:= Name] of
        [N | _] -> N;
        [] -> unknown
    end.

table(Name, {First, Last, PerS, _}, Looks) ->
    Bytes = dyno_health_look:growth(
        fun(#{~"tables" := Of}) ->
            hd([B || #{~"name" := N, ~"bytes" := B} <- Of, N =:= Name] ++ [unknown])
        end,
        Looks
    ),
    Memory =
        case Bytes of
            {_, B, BytesPerS, _} ->
                text(", ~ts, ~ts more each second", [show(B, ~"B"), show(round(BytesPerS), ~"B")]);
            unknown ->
                ~""
        end,
    dyno_finding:new(table_grows, rows_per_s, #{
        subject => Name,
        severity => warning,
        value => PerS,
        weight => 60,
        text => text(
            "table ~ts grows by ~ts rows a second~ts", [Name, show(PerS, ~"count"), Memory]
        ),
        evidence => text("From ~ts to ~ts rows in ~ts, more at each of ~b looks.", [
            show(First, ~"count"),
            show(Last, ~"count"),
            seconds(dyno_health_look:span_s(Looks)),
            length(Looks)
        ]),
        advice =>
            <<
                "Delete rows when what they are of ends (monitor the process), or by age. If "
                "users come at this rate just now, it is no fault."
            >>,
        look_closer => ~"dyno trace NODE \"ets:insert/2 -> caller\""
    }).

grows(Looks) ->
    case
        dyno_health_look:growth(
            fun node_bytes/1, Looks
        )
    of
        {First, Last, PerS, true} when length(Looks) >= 4 ->
            case PerS > dyno_finding_limits:value(memory_per_s) of
                true ->
                    [
                        dyno_finding:new(memory_grows, memory_per_s, #{
                            subject => ~"memory",
                            severity => full_soon(PerS, Looks),
                            value => PerS,
                            weight => 30,
                            text => text("memory grows by ~ts a second, most of it ~ts~ts", [
                                show(round(PerS), ~"B"), kind(Looks), of_whom(kind(Looks), Looks)
                            ]),
                            evidence => text("From ~ts to ~ts in ~ts, more at each look.~ts", [
                                show(First, ~"B"),
                                show(Last, ~"B"),
                                seconds(dyno_health_look:span_s(tl(Looks))),
                                until_full(Last, PerS, Looks)
                            ]),
                            advice =>
                                <<
                                    "See which of the other findings grows with it; dyno record "
                                    "names the processes and tables that take most."
                                >>,
                            look_closer => ~"dyno record NODE"
                        })
                    ];
                false ->
                    []
            end;
        unknown ->
            {unknown, ~"memory was not read"};
        _ ->
            []
    end.

%% Without the memory of the look itself.
node_bytes(Look) ->
    case dyno_health_look:at([~"values", ~"vm.memory.total"], Look) of
        Bytes when is_number(Bytes) -> Bytes - maps:get(~"own_bytes", Look, 0);
        unknown -> unknown
    end.

kind(Looks) ->
    Kinds = [
        {PerS, Kind}
     || Kind <- [~"processes", ~"binary", ~"ets", ~"code", ~"atom"],
        {_, _, PerS, _} <- [
            dyno_health_look:growth(
                fun(L) -> dyno_health_look:at([~"values", <<"vm.memory.", Kind/binary>>], L) end,
                Looks
            )
        ]
    ],
    case lists:reverse(lists:sort(Kinds)) of
        [{_, Kind} | _] -> Kind;
        [] -> ~"of an unknown class"
    end.

of_whom(~"binary", Looks) ->
    case of_last([~"values", ~"vm.memory.binary"], Looks) of
        Binary when is_number(Binary) -> holders(Binary, dyno_health_look:last(Looks));
        unknown -> ~""
    end;
of_whom(_Kind, _Looks) ->
    ~"".

%% Ten seconds of growth may be arriving users.
full_soon(PerS, Looks) ->
    case of_last([~"values", ~"os.memory.available"], Looks) of
        Bytes when is_number(Bytes), Bytes / PerS < ?SOON_S -> warning;
        _ -> note
    end.

until_full(_Last, PerS, Looks) ->
    case of_last([~"values", ~"os.memory.available"], Looks) of
        Bytes when is_number(Bytes), PerS > 0 ->
            text(" ~ts are left: ~ts.", [show(Bytes, ~"B"), seconds(Bytes / PerS)]);
        _ ->
            ~""
    end.

held(Looks) ->
    Rss = of_last([~"values", ~"os.vm.rss"], Looks),
    Total = of_last([~"values", ~"vm.memory.total"], Looks),
    case is_number(Rss) andalso is_number(Total) of
        false ->
            {unknown, ~"resident memory was not read"};
        true ->
            Share = Rss / max(1, Total),
            case
                Share > dyno_finding_limits:value(held_share) andalso
                    Rss - Total > dyno_finding_limits:value(held_bytes)
            of
                true -> [held(Rss, Total, Looks)];
                false -> []
            end
    end.

held(Rss, Total, Looks) ->
    Worst = lists:reverse(
        lists:sort([
            {Held - Used, Name, Held, Used}
         || #{~"name" := Name, ~"held_bytes" := Held, ~"used_bytes" := Used} <- dyno_health_look:at(
                [~"allocators"], dyno_health_look:last(Looks)
            )
        ])
    ),
    Evidence =
        case Worst of
            [{_, Name, Held, Used} | _] ->
                text("Allocator ~ts holds ~ts and uses ~ts of it (~b %).", [
                    Name, show(Held, ~"B"), show(Used, ~"B"), round(100 * Used / Held)
                ]);
            [] ->
                ~""
        end,
    dyno_finding:new(held, held_share, #{
        subject => ~"memory",
        severity => warning,
        value => Rss / Total,
        weight => 55,
        text => text("the node holds ~ts of the machine's memory and uses ~ts", [
            show(Rss, ~"B"), show(Total, ~"B")
        ]),
        evidence => Evidence,
        advice =>
            <<
                "It is left of a peak, in carriers that a few blocks keep. A restart frees it; "
                "against the next one: lower the peak, or try +MHacul de and +MHas aoffcbf for "
                "the allocator named."
            >>,
        look_closer => ~"dyno record NODE"
    }).

heaps(Looks) ->
    Limit = dyno_finding_limits:value(heap_bytes),
    [
        dyno_finding:new(big_heap, heap_bytes, #{
            subject => Name,
            severity =>
                case Bytes > 10 * Limit of
                    true -> warning;
                    false -> note
                end,
            value => Bytes,
            weight => 20,
            text => text("~ts has a heap of ~ts", [Name, show(Bytes, ~"B")]),
            evidence =>
                case dyno_health_look:stands(Asked) of
                    {Stack, _, _} -> text("It stands in ~ts.", [dyno_health_look:place(Stack)]);
                    unknown -> ~""
                end,
            advice =>
                <<
                    "If most of it is garbage: hibernate the process, or set fullsweep_after. If "
                    "it is state: keep it in ETS, or share it among processes."
                >>,
            look_closer => text("dyno profile NODE \"~ts\"", [Pid])
        })
     || {Pid, Asked} <- dyno_health_look:suspects(Looks),
        #{~"heap_bytes" := Bytes, ~"name" := Name, ~"last" := true} <- [lists:last(Asked)],
        Bytes > Limit
    ].

binaries(Looks) ->
    Binary = of_last([~"values", ~"vm.memory.binary"], Looks),
    Total = of_last([~"values", ~"vm.memory.total"], Looks),
    case is_number(Binary) andalso is_number(Total) of
        false ->
            {unknown, ~"memory was not read"};
        true ->
            case Binary > dyno_finding_limits:value(binary_bytes) andalso Binary > 0.3 * Total of
                true ->
                    Holders = holders(Binary, dyno_health_look:last(Looks)),
                    [
                        dyno_finding:new(binaries, binary_bytes, #{
                            subject => ~"binaries",
                            severity => severity(Holders),
                            value => Binary,
                            weight => 40,
                            text => text("binaries take ~ts of ~ts~ts", [
                                show(Binary, ~"B"), show(Total, ~"B"), Holders
                            ]),
                            evidence => ~"",
                            advice =>
                                <<
                                    "If nobody needs them: they are held by processes that "
                                    "collect seldom (hibernate, fullsweep_after) or by small "
                                    "parts of large ones (binary:copy/1 before keeping a part)."
                                >>,
                            look_closer => ~"dyno record NODE"
                        })
                    ];
                false ->
                    []
            end
    end.

severity(~"") -> note;
severity(_) -> warning.

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
        {Bytes * All / max(1, Asked), Group}
     || #{~"group" := Group, ~"bytes" := Bytes} <- Groups
    ],
    case {lists:reverse(lists:sort(Parts)), lists:reverse(lists:sort(Held))} of
        {[{Times, Name} | _], _} ->
            text(
                ": rows of table ~ts are parts of binaries ~b times their size, which they keep", [
                    Name, round(Times)
                ]
            );
        {[], [{Bytes, Group} | _]} when Bytes > 0.3 * Binary ->
            text(": processes of ~ts, which wait, refer to most", [Group]);
        _ ->
            ~""
    end;
holders(_Binary, _Look) ->
    ~"".

garbage(Looks) ->
    PerS = mean([~"values", ~"reclaimed"], Looks),
    Reductions = mean([~"values", ~"vm.reductions"], Looks),
    case is_number(PerS) andalso is_number(Reductions) of
        false ->
            {unknown, ~"collections were not read"};
        true ->
            %% Erlang code makes 2 to 15 bytes of garbage for each reduction, copying 100 and more.
            Each = PerS / max(1, Reductions),
            case
                PerS > dyno_finding_limits:value(garbage_bytes_per_s) andalso
                    Each > dyno_finding_limits:value(garbage_bytes_each)
            of
                true -> [garbage(PerS, Each, Looks)];
                false -> []
            end
    end.

garbage(PerS, Each, Looks) ->
    Tables = lists:reverse(
        lists:sort([
            {Bytes div Objects, Name, Objects}
         || #{~"name" := Name, ~"objects" := Objects, ~"bytes" := Bytes} <- dyno_health_look:at(
                [~"tables"], dyno_health_look:last(Looks)
            ),
            Objects > 0,
            Bytes div Objects > dyno_finding_limits:value(object_bytes),
            not lists:member(Name, [~"logger", ~"code", ~"code_names", ~"ac_tab"])
        ])
    ),
    Busy = dyno_health_code:busiest(Looks),
    {Subject, Evidence, Advice, Closer} =
        case {Tables, Busy} of
            {[{Size, Name, Objects} | _], _} ->
                {Name,
                    text("Table ~ts has ~ts of ~ts each: each lookup copies one. ~ts", [
                        Name, objects(Objects), show(Size, ~"B"), who(Busy)
                    ]),
                    <<
                        "Keep a large term that seldom changes in persistent_term, or cut it into"
                        " rows and look up the one that is needed."
                    >>,
                    ~"dyno trace NODE \"ets:lookup/2 -> caller\""};
            {[], {Who, _, _, _}} ->
                {Who, who(Busy),
                    <<
                        "See what it sends or looks up: large terms in messages are copied to each"
                        " receiver (send a key, or keep them in ETS or persistent_term)."
                    >>,
                    ~"dyno profile NODE --kind memory"};
            {[], none} ->
                {
                    ~"garbage",
                    ~"",
                    ~"See which functions make it.",
                    ~"dyno profile NODE --kind memory"
                }
        end,
    dyno_finding:new(garbage, garbage_bytes_per_s, #{
        subject => Subject,
        severity => warning,
        value => PerS,
        weight => 50,
        text => text(
            "terms of ~ts a second are copied and collected again: ~ts for each reduction, "
            "usual are 2 to 15",
            [
                show(round(PerS), ~"B"), show(round(Each), ~"B")
            ]
        ),
        evidence => Evidence,
        advice => Advice,
        look_closer => Closer
    }).

objects(1) -> ~"1 object";
objects(N) -> text("~ts objects", [show(N, ~"count")]).

who(none) ->
    ~"";
who({Name, Share, Place, _}) ->
    text("Of the processes that were asked ~ts works most (~b % of all reductions), in ~ts.", [
        Name, round(100 * Share), Place
    ]).
