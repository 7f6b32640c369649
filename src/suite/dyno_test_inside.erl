%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_inside).
-moduledoc false.
%% What the agents have measured inside the targets, as metrics and tables of a run: functions, who
%% calls them, processes. Pure.

-export([metrics/1, histograms/1, tables/1, corrected/1]).

-import(dyno_recording_part, [metric/6, table/5, column/4, text/2]).

-type part() :: #{atom() => term()}.

-type measured() :: #{
    samples := [dyno_test_result:sample()], figures := [dyno_targets:figures()], atom() => term()
}.

-define(LIFETIME,
    <<"From a process's first call of a measured function until its end was noticed: at most so "
        "long.">>
).

-spec metrics(measured()) -> [part()].
metrics(#{samples := Samples, figures := Figures}) ->
    Discovered = [N || #{processes := #{discovered := N}} <- Figures],
    Charges = [C || #{functions := #{self_charge_ns := C}} <- Figures, is_float(C)],
    Costs = [C || {_, _, _, C} <- Samples],
    [
        metric(
            ~"processes.discovered",
            ~"Processes that called a measured function",
            lists:sum(Discovered),
            ~"count",
            1,
            ~"processes"
        )
     || Discovered =/= []
    ] ++
        [
            metric(
                ~"instrument.charge",
                ~"What measuring adds to the time of one call, and is taken out",
                lists:max(Charges),
                ~"ns/call",
                length(Charges),
                ~"instrument"
            )
         || Charges =/= []
        ] ++
        [
            metric(
                ~"instrument.sample",
                ~"What one look at the VM and the system takes",
                lists:sum(Costs) * 1000 / length(Costs),
                ~"ns",
                length(Costs),
                ~"instrument"
            )
         || Costs =/= []
        ].

-spec tables(measured()) -> [part()].
tables(#{figures := Given}) ->
    Figures = [F#{functions := corrected(Raw)} || #{functions := Raw} = F <- Given],
    totals(Figures) ++ lists:append([
        functions_table(Node, Functions) ++ callers_table(Node, Functions) ++
            processes_table(Node, Processes) ++ ets_table(Node, Resources) ++
            ports_table(Node, Resources) ++ durations_table(Node, maps:get(durations, F, undefined))
     || #{
            node := Node,
            functions := Functions,
            processes := Processes,
            resources := Resources
        } = F <- Figures
    ]).

%% Of several nodes together, as tables of no node.
totals(Figures) ->
    Functions = [F || #{functions := #{functions := F}} <- Figures, F =/= []],
    Groups = [G || #{processes := #{groups := G}} <- Figures, G =/= []],
    case {Functions, Groups} of
        {[_, _ | _], _} ->
            Sums = #{functions => sums(mfa, lists:append(Functions)), measured_functions => 1},
            functions_table(undefined, Sums) ++ total_processes(Groups);
        _ ->
            total_processes(Groups)
    end.

total_processes([_, _ | _] = Groups) ->
    processes_table(undefined, #{groups => sums(group, lists:append(Groups))});
total_processes(_One) ->
    [].

%% Adds what has the same key; of the longest queues the longest, of charges the mean is not needed.
sums(Key, Items) ->
    maps:values(
        lists:foldl(
            fun(#{Key := Of} = Item, Acc) ->
                case Acc of
                    #{Of := Before} -> Acc#{Of := maps:merge_with(fun sum/3, Before, Item)};
                    #{} -> Acc#{Of => Item}
                end
            end,
            #{},
            Items
        )
    ).

sum(message_queue_max, A, B) -> max(A, B);
sum(lives, A, B) -> dyno_agent_lifetimes:merge(A, B);
sum(_Key, A, B) when is_number(A), is_number(B) -> A + B;
sum(_Key, A, _B) -> A.

-doc """
Takes out of all times what measuring has charged to them: for each call what an empty function is
reported to take in this node, called by as many processes. The raw times stay
(`raw_time_ns`), and what the charge may be off by joins the uncertainty.
""".
-spec corrected(dyno_agent_calls:figures() | undefined) ->
    dyno_agent_calls:figures() | undefined.
corrected(#{charge_uncertain_ns := More} = Figures) when is_float(More) ->
    #{functions := Functions, callers := Callers} = Figures,
    Charges = #{MFA => Charge || #{mfa := MFA, charge_ns := Charge} <- Functions},
    Own = fun(MFA, Raw, Calls) -> max(0, Raw - round(Calls * maps:get(MFA, Charges, 0))) end,
    Figures#{
        functions := [
            F#{
                own_time_ns := Own(MFA, Raw, Calls),
                raw_time_ns => Raw,
                uncertain_ns := Uncertain + round(Calls * More)
            }
         || #{mfa := MFA, own_time_ns := Raw, uncertain_ns := Uncertain, calls := Calls} = F <-
                Functions
        ],
        callers := [
            {MFA, Group, Calls, Own(MFA, Raw, Calls)} || {MFA, Group, Calls, Raw} <- Callers
        ]
    };
corrected(Figures) ->
    Figures.

functions_table(_Node, undefined) ->
    [];
functions_table(_Node, #{measured_functions := 0}) ->
    %% Only processes were asked for.
    [];
functions_table(Node, #{functions := []}) ->
    Columns = [column(~"function", ~"Function", string, undefined)],
    [table(~"functions", ~"Functions", Node, Columns, [])];
functions_table(Node, #{functions := [First | _] = Functions}) ->
    Total = sum_of(own_time_ns, Functions),
    HasTime = is_map_key(own_time_ns, First),
    HasWords = is_map_key(words, First),
    Columns =
        [
            column(~"function", ~"Function", string, undefined),
            column(~"calls", ~"Calls", integer, ~"count")
        ] ++
            [C || C <- time_columns(), HasTime] ++
            [C || C <- word_columns(), HasWords],
    Rows = [
        [mfa(MFA), Calls] ++ [V || V <- time_values(F, Total), HasTime] ++
            [V || V <- word_values(F), HasWords]
     || #{mfa := MFA, calls := Calls} = F <- lists:sort(fun heavier/2, Functions)
    ],
    [table(~"functions", ~"Functions", Node, Columns, Rows)].

heavier(A, B) -> weight(A) >= weight(B).

weight(F) -> {maps:get(own_time_ns, F, 0), maps:get(words, F, 0), map_get(calls, F)}.

time_columns() ->
    [
        (column(~"own_time", ~"Own time", integer, ~"ns"))#{
            help =>
                ~"Without the measured functions it called, and without what measuring it cost."
        },
        (column(~"own_time_uncertainty", <<"Own time, ±"/utf8>>, integer, ~"ns"))#{
            help =>
                <<
                    "The runtime cuts each process's time in a function to whole microseconds, and "
                    "what measuring cost is known to some nanoseconds for each call of it, and "
                    "for each measured call that it made."
                >>
        },
        column(~"time_per_call", ~"Time per call", number, ~"ns/call"),
        (column(~"share", ~"Share", number, ~"ratio"))#{
            help => ~"Of the own time of all measured functions."
        },
        (column(~"raw_time", ~"Raw time", integer, ~"ns"))#{
            help => ~"As the runtime gave it: the own time, and what measuring added to it."
        }
    ].

time_values(#{own_time_ns := Ns, uncertain_ns := Uncertain, calls := Calls} = F, Total) ->
    Raw = maps:get(raw_time_ns, F, Ns),
    [Ns, Uncertain, Ns / max(1, Calls), Ns / max(1, Total), Raw];
time_values(_Function, _Total) ->
    [].

word_columns() ->
    [
        column(~"words", ~"Words", integer, ~"words"),
        column(~"words_per_call", ~"Words per call", number, ~"words/call")
    ].

word_values(#{words := Words, calls := Calls}) -> [Words, Words / max(1, Calls)];
word_values(_Function) -> [].

callers_table(_Node, undefined) ->
    [];
callers_table(_Node, #{callers := []}) ->
    [];
callers_table(Node, #{callers := Callers}) ->
    [
        table(
            ~"callers",
            ~"Who calls what",
            Node,
            [
                column(~"function", ~"Function", string, undefined),
                column(~"processes", ~"Processes", string, undefined),
                column(~"calls", ~"Calls", integer, ~"count"),
                column(~"own_time", ~"Own time", integer, ~"ns")
            ],
            [[mfa(MFA), element(2, group(G)), Calls, Ns] || {MFA, G, Calls, Ns} <- Callers]
        )
    ].

processes_table(_Node, undefined) ->
    [];
processes_table(Node, #{groups := Groups}) ->
    Rows = [
        begin
            {Kind, Name} = group(Group),
            {Reductions, [Name, Kind, Discovered, Alive | ended(Figures) ++ looked_at(Figures)]}
        end
     || #{
            group := Group,
            discovered := Discovered,
            alive := Alive,
            reductions := Reductions
        } = Figures <- Groups
    ],
    [
        table(
            ~"processes",
            ~"Processes",
            Node,
            [
                column(~"group", ~"Group", string, undefined),
                column(~"kind", ~"Grouped by", string, undefined),
                column(~"discovered", ~"Discovered", integer, ~"count"),
                (column(~"alive", ~"Alive", integer, ~"count"))#{help => ~"At the end of the run."},
                column(~"ended", ~"Ended", integer, ~"count"),
                (column(~"lifetime_p50", ~"Lifetime, p50", integer, ~"ns"))#{
                    help => ?LIFETIME
                },
                (column(~"lifetime_p90", ~"Lifetime, p90", integer, ~"ns"))#{
                    help => ?LIFETIME
                },
                (column(~"lifetimes", ~"Lifetimes", integer, ~"count"))#{
                    help => ~"The processes of which the end was waited for: a sample of all."
                },
                (column(~"looked_at", ~"Looked at", integer, ~"count"))#{
                    help =>
                        ~"Lived until a look; of the others nothing is in memory and reductions."
                },
                column(~"memory", ~"Memory", integer, ~"B"),
                column(~"memory_max", ~"Memory, max", integer, ~"B"),
                column(~"reductions", ~"Reductions", integer, ~"count"),
                column(~"message_queue_max", ~"Longest queue", integer, ~"count"),
                (column(~"garbage_collections", ~"Collections", integer, ~"count"))#{
                    help => ~"Garbage collections, at least: those that were seen at the looks."
                }
            ],
            [Row || {_, Row} <- lists:reverse(lists:keysort(1, Rows))]
        )
    ].

%% Every process has memory: a group without any lived too shortly to be looked at.
looked_at(#{memory_max_bytes := 0, looked_at := LookedAt}) ->
    [LookedAt, undefined, undefined, undefined, undefined, undefined];
looked_at(#{
    memory_bytes := Memory,
    memory_max_bytes := MemoryMax,
    reductions := Reductions,
    message_queue_max := Queue,
    collections := Collections,
    looked_at := LookedAt
}) ->
    [LookedAt, Memory, MemoryMax, Reductions, Queue, Collections].

ended(#{discovered := Discovered, alive := Alive, lives := Lives}) ->
    [
        Discovered - Alive,
        dyno_agent_lifetimes:quantile_ns(0.5, Lives),
        dyno_agent_lifetimes:quantile_ns(0.9, Lives),
        dyno_agent_lifetimes:count(Lives)
    ].

group({registered, Name}) -> {~"registered", text("~tw", [Name])};
group({label, Label}) when is_binary(Label) -> {~"label", Label};
group({label, Label}) -> {~"label", binary:replace(text("~0tp", [Label]), ~"'_'", ~"_", [global])};
group({initial_call, MFA}) -> {~"initial_call", mfa(MFA)};
group({first_call, MFA}) -> {~"first_call", mfa(MFA)};
group(other) -> {~"other", ~"(others)"}.

mfa({M, F, A}) -> text("~tw:~tw/~b", [M, F, A]).

sum_of(Key, Functions) ->
    lists:sum([maps:get(Key, F, 0) || F <- Functions]).

%% The largest first.
ets_table(Node, #{ets := [_ | _] = Tables}) ->
    Rows = [
        {Max, [
            text("~tw", [Name]), Count, Objects, ObjectsMax, Bytes, Max, Bytes - First
        ]}
     || #{
            name := Name,
            tables := Count,
            objects := Objects,
            objects_max := ObjectsMax,
            memory_bytes := Bytes,
            memory_first_bytes := First,
            memory_max_bytes := Max
        } <- Tables
    ],
    [
        table(
            ~"ets",
            ~"ETS tables",
            Node,
            [
                column(~"table", ~"Table", string, undefined),
                column(~"tables", ~"Tables of the name", integer, ~"count"),
                column(~"objects", ~"Objects", integer, ~"count"),
                column(~"objects_max", ~"Objects, max", integer, ~"count"),
                column(~"memory", ~"Memory", integer, ~"B"),
                column(~"memory_max", ~"Memory, max", integer, ~"B"),
                column(~"memory_growth", ~"Memory, since the start", integer, ~"B")
            ],
            heaviest_first(Rows)
        )
    ];
ets_table(_Node, _Resources) ->
    [].

ports_table(Node, #{ports := [_ | _] = Ports}) ->
    Rows = [
        {In + Out, [Kind, Open, OpenMax, In, Out, QueueMax]}
     || #{
            kind := Kind,
            open := Open,
            open_max := OpenMax,
            input_bytes := In,
            output_bytes := Out,
            queue_max_bytes := QueueMax
        } <- Ports
    ],
    [
        table(
            ~"ports",
            ~"Ports and sockets",
            Node,
            [
                column(~"kind", ~"Kind", string, undefined),
                column(~"open", ~"Open", integer, ~"count"),
                column(~"open_max", ~"Open, max", integer, ~"count"),
                column(~"input", ~"Input", integer, ~"B"),
                column(~"output", ~"Output", integer, ~"B"),
                column(~"queue_max", ~"Waiting to be sent, max", integer, ~"B")
            ],
            heaviest_first(Rows)
        )
    ];
ports_table(_Node, _Resources) ->
    [].

heaviest_first(Rows) ->
    [Row || {_, Row} <- lists:reverse(lists:keysort(1, Rows))].

%% Durations of single calls

-spec histograms(measured()) -> [part()].
histograms(#{figures := Figures}) ->
    [
        #{
            name => ~"function.duration",
            title => ~"Durations of single calls",
            unit => ~"ns",
            group => ~"functions",
            labels => #{function => mfa(MFA), node => atom_to_binary(Node)},
            count => Count,
            sum => Sum,
            min => Min,
            max => Max,
            scheme => dyno_histogram:scheme(),
            buckets => [tuple_to_list(B) || B <- Buckets]
        }
     || #{node := Node, durations := Durations} <- Figures,
        is_list(Durations),
        #{
            mfa := MFA,
            count := Count,
            sum_ns := Sum,
            min_ns := Min,
            max_ns := Max,
            buckets := Buckets
        } <- Durations,
        Count > 0
    ].

durations_table(Node, [_ | _] = Durations) ->
    Rows = [
        {Sum, [
            mfa(MFA),
            Count,
            Sum / max(1, Count),
            quantile(0.5, Count, Buckets),
            quantile(0.9, Count, Buckets),
            quantile(0.99, Count, Buckets),
            case Count of
                0 -> undefined;
                _ -> Max
            end,
            atom_to_binary(Is)
        ]}
     || #{
            mfa := MFA,
            count := Count,
            sum_ns := Sum,
            max_ns := Max,
            buckets := Buckets,
            state := Is
        } <- Durations
    ],
    Time = fun(Name, Title) -> column(Name, Title, number, ~"ns") end,
    [
        table(
            ~"durations",
            ~"Durations of single calls",
            Node,
            [
                column(~"function", ~"Function", string, undefined),
                (column(~"sampled", ~"Sampled", integer, ~"count"))#{
                    help => ~"So many calls were looked at; not all of them."
                },
                Time(~"mean", ~"Mean"),
                Time(~"p50", ~"p50"),
                Time(~"p90", ~"p90"),
                Time(~"p99", ~"p99"),
                Time(~"max", ~"Max"),
                (column(~"state", ~"State", string, undefined))#{
                    help => ~"measured, or why it was given up: too_hot, never_returns, reloaded."
                }
            ],
            heaviest_first(Rows)
        )
    ];
durations_table(_Node, _Durations) ->
    [].

%% The middle of the bucket that it falls into.
quantile(_Q, 0, _Buckets) ->
    undefined;
quantile(Q, Count, Buckets) ->
    quantile(max(1, ceil(Q * Count)), Buckets).

quantile(Rank, [{Low, High, Count} | _]) when Rank =< Count -> (Low + High - 1) / 2;
quantile(Rank, [{_, _, Count} | Rest]) -> quantile(Rank - Count, Rest).
