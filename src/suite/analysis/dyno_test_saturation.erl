%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_saturation).
-moduledoc """
What gets slow first, and why: at which size the response time or the throughput bends, and which
resource does so first. Pure.

| resource | bends where |
| --- | --- |
| schedulers, dirty schedulers, processors of the machine | busy 90 % of the time and more |
| run queue | on average as many processes wait as there are schedulers |
| message queue of a kind of process | 3 messages and more, and 3 times those at the smallest size |
| function | a call takes 1.5 times what it takes at the smallest size, and it 5 % of the time |
| memory of processes, tables, binaries | a step of the size takes twice what the first step took |
| response time | the median is 1.5 times that at the smallest size |
| throughput | less than 80 % of what is in proportion; of an open load, than 95 % of the offered |

With repetitions the medians of each size count. What is so at the smallest size already comes last:
it does not bend with the size, but may well be what limits it. The order is that of the sizes; at
the same size, by how far beyond its limit a resource is. That one bends before the other is no
proof that it is the cause, but it is where to look first.
""".

-export([tables/1]).

-import(dyno_recording_part, [table/5, column/4, text/2, rows/2]).

-type point() :: {Size :: number(), Value :: number()}.

%% How far beyond its limit the value at the bend is, and the row.
-type bend() :: #{
    kind := binary(),
    name := binary(),
    unit := binary(),
    size := number(),
    from := number(),
    value := number(),
    beyond := float(),
    %% It is so at the smallest size.
    is_first := boolean(),
    text := binary()
}.

-define(FULL, 0.9).
-define(LEAST_QUEUE, 3).
-define(QUEUE_FACTOR, 3).
-define(TIME_FACTOR, 1.5).
-define(REAL_SHARE, 0.05).
-define(MIN_CALLS, 30).
-define(STEP_FACTOR, 2).
%% Less memory than that bothers nobody.
-define(REAL_BYTES, 10_000_000).
-define(IN_PROPORTION, 0.8).
-define(OF_OFFERED, 0.95).

-doc "The table `bends` of a document; none where fewer than two sizes are complete.".
-spec tables(dyno_recording:document()) -> [#{atom() => term()}].
tables(Document) ->
    Runs = [Run || #{~"status" := ~"complete"} = Run <- dyno_recording:runs(Document)],
    case lists:usort([Size || #{~"size" := Size} <- Runs, Size > 0]) of
        [_, _ | _] = Sizes ->
            BySize = [{Size, [R || #{~"size" := S} = R <- Runs, S =:= Size]} || Size <- Sizes],
            Symptoms = order(symptoms(BySize)),
            Resources = order(lists:append([
                capacities(BySize), queues(BySize), functions(BySize), memories(BySize)
            ])),
            [of_bends(Symptoms ++ Resources)];
        _ ->
            []
    end.

-spec order([bend()]) -> [bend()].
order(Bends) ->
    Key = fun
        (#{is_first := true, beyond := Beyond}) -> {infinity, -Beyond};
        (#{size := Size, beyond := Beyond}) -> {Size, -Beyond}
    end,
    [B || {_, B} <- lists:keysort(1, [{Key(B), B} || B <- Bends])].

-spec symptoms([{number(), [dyno_recording:run()]}]) -> [bend()].
symptoms(BySize) ->
    response_time(points(fun(Run) -> metric(~"latency.p50", Run) end, BySize)) ++
        throughput(BySize).

-spec response_time([point()]) -> [bend()].
response_time([{First, Least} | _] = Points) when Least > 0 ->
    Factor = fun(V) -> V / Least end,
    bend(Points, ?TIME_FACTOR, Factor, #{kind => ~"symptom", name => ~"latency.p50", unit => ~"ns"},
        fun(Size, V) ->
            text("responses take ~.1f times as long at ~ts as at ~ts: ~ts (p50)", [
                V / Least, number(Size), number(First), dyno_unit:format(V, ~"ns")
            ])
        end);
response_time(_) ->
    [].

-spec throughput([{number(), [dyno_recording:run()]}]) -> [bend()].
throughput(BySize) ->
    Offered = points(fun(Run) -> metric(~"load.offered", Run) end, BySize),
    Points = points(fun(Run) -> metric(~"throughput", Run) end, BySize),
    About = #{kind => ~"symptom", name => ~"throughput", unit => ~"1/s"},
    case {Points, Offered} of
        {_, [_ | _]} ->
            Asked = maps:from_list(Offered),
            Lacking = [{S, {V, map_get(S, Asked)}} || {S, V} <- Points, is_map_key(S, Asked)],
            lacks(Lacking, ?OF_OFFERED, About, "of what was offered");
        {[{S0, V0} | _], []} when V0 > 0 ->
            Lacking = [{S, {V, V0 * S / S0}} || {S, V} <- Points],
            lacks(Lacking, ?IN_PROPORTION, About, "of what would be in proportion to the size");
        _ ->
            []
    end.

-spec lacks([{number(), {number(), number()}}], float(), map(), string()) -> [bend()].
lacks(Lacking, Share, About, Words) ->
    Values = #{S => V || {S, {V, _}} <- Lacking},
    Missing = [{S, Expected / max(V, 1.0e-9)} || {S, {V, Expected}} <- Lacking],
    Bends = bend(Missing, 1 / Share, fun(V) -> V end, About, fun(Size, Times) ->
        text("throughput is ~ts at ~ts, ~ts ~ts", [
            dyno_unit:format(map_get(Size, Values), ~"1/s"), number(Size),
            dyno_unit:format(1 / Times, ~"ratio"), Words
        ])
    end),
    [
        B#{value := map_get(Size, Values), from := map_get(element(1, hd(Lacking)), Values)}
     || #{size := Size} = B <- Bends
    ].

%% Resources

%% A suite that starts a fresh node for each run has other names in each: targets are told apart by
%% their position, and named without what makes a name unique.
-spec capacities([{number(), [dyno_recording:run()]}]) -> [bend()].
capacities(BySize) ->
    lists:append([
        bend(
            points(fun(Run) -> means(Names, Nth, Run) end, BySize),
            ?FULL,
            fun(V) -> V end,
            #{kind => ~"resource", name => named(Name, Node), unit => ~"ratio"},
            fun(Size, V) ->
                text("~ts of ~ts busy ~ts of the time at ~ts", [
                    Words, Node, dyno_unit:format(V, ~"ratio"), number(Size)
                ])
            end
        )
     || {Nth, Node} <- nodes_of(BySize),
        {Name, Names, Words} <- [
            {~"vm.scheduler_utilisation.normal", [~"vm.scheduler_utilisation.normal"],
                "the schedulers"},
            {~"vm.scheduler_utilisation.dirty_cpu", [~"vm.scheduler_utilisation.dirty_cpu"],
                "the dirty CPU schedulers"},
            {~"vm.scheduler_utilisation.dirty_io", [~"vm.scheduler_utilisation.dirty_io"],
                "the dirty IO schedulers"},
            {~"os.cpu", [~"os.cpu.user", ~"os.cpu.system"], "the processors of the machine"}
        ]
    ]).

-spec queues([{number(), [dyno_recording:run()]}]) -> [bend()].
queues(BySize) ->
    lists:append([run_queue(Nth, Node, BySize) || {Nth, Node} <- nodes_of(BySize)]) ++
        lists:append([message_queue(G, BySize) || G <- names(~"processes", ~"group", BySize)]).

-spec run_queue(pos_integer(), binary(), [{number(), [dyno_recording:run()]}]) -> [bend()].
run_queue(Nth, Node, BySize) ->
    Schedulers = lists:max([
        1
        | [
            N
         || {_, Runs} <- BySize,
            #{~"nodes" := Nodes} <- Runs,
            length(Nodes) >= Nth,
            #{~"schedulers_online" := N} <- [lists:nth(Nth, Nodes)],
            is_integer(N)
        ]
    ]),
    bend(
        points(fun(Run) -> means([~"vm.run_queue.normal"], Nth, Run) end, BySize),
        Schedulers,
        fun(V) -> V end,
        #{kind => ~"resource", name => named(~"vm.run_queue.normal", Node), unit => ~"count"},
        fun(Size, V) ->
            text("~.1f processes wait in the run queue of ~ts, which has ~b schedulers, at ~ts", [
                V * 1.0, Node, Schedulers, number(Size)
            ])
        end
    ).

-spec message_queue(binary(), [{number(), [dyno_recording:run()]}]) -> [bend()].
message_queue(Group, BySize) ->
    Points = points(
        fun(Run) -> cells(~"processes", ~"group", Group, ~"message_queue_max", Run) end, BySize
    ),
    case Points of
        [{First, Least} | _] ->
            bend(
                Points,
                max(?LEAST_QUEUE, ?QUEUE_FACTOR * Least),
                fun(V) -> V end,
                #{
                    kind => ~"process", name => <<Group/binary, " message_queue_max">>,
                    unit => ~"count"
                },
                fun(Size, V) ->
                    text("the message queue of ~ts holds ~ts messages at ~ts, ~ts at ~ts", [
                        Group, number(V), number(Size), number(Least), number(First)
                    ])
                end
            );
        [] ->
            []
    end.

-spec functions([{number(), [dyno_recording:run()]}]) -> [bend()].
functions(BySize) ->
    lists:append([function(Name, BySize) || Name <- names(~"functions", ~"function", BySize)]).

-spec function(binary(), [{number(), [dyno_recording:run()]}]) -> [bend()].
function(Name, BySize) ->
    Points = points(
        fun(Run) ->
            [
                T
             || #{~"function" := F, ~"time_per_call" := T, ~"calls" := Calls} = Row <-
                    rows(~"functions", Run),
                F =:= Name,
                Calls >= ?MIN_CALLS,
                is_number(T),
                is_sure(Row)
            ]
        end,
        BySize
    ),
    Shares = maps:from_list(
        points(fun(Run) -> cells(~"functions", ~"function", Name, ~"share", Run) end, BySize)
    ),
    case Points of
        [{First, Least} | _] when Least > 0 ->
            Bends = bend(
                Points,
                ?TIME_FACTOR,
                fun(V) -> V / Least end,
                #{kind => ~"function", name => Name, unit => ~"ns/call"},
                fun(Size, V) ->
                    text("a call of ~ts takes ~ts at ~ts, ~.1f times that at ~ts, and ~ts of the "
                        "time", [
                        Name, dyno_unit:format(V, ~"ns"), number(Size), V / Least, number(First),
                        dyno_unit:format(maps:get(Size, Shares, 0), ~"ratio")
                    ])
                end
            ),
            [B || #{size := S} = B <- Bends, maps:get(S, Shares, 0) >= ?REAL_SHARE];
        _ ->
            []
    end.

-spec is_sure(#{binary() => term()}) -> boolean().
is_sure(#{~"own_time" := Own, ~"own_time_uncertainty" := Uncertain}) -> Uncertain * 5 < Own;
is_sure(_Row) -> true.

%% What a step of the size takes, by what the first step took.
-spec memories([{number(), [dyno_recording:run()]}]) -> [bend()].
memories(BySize) ->
    lists:append([
        memory(
            points(fun(Run) -> cells(Table, Key, Name, ~"memory_max", Run) end, BySize),
            Kind,
            Name
        )
     || {Table, Key, Kind} <- [
            {~"processes", ~"group", ~"process"}, {~"ets", ~"table", ~"ets"}
        ],
        Name <- names(Table, Key, BySize)
    ]).

-spec memory([point()], binary(), binary()) -> [bend()].
memory([{S0, V0}, {S1, V1} | _] = Points, Kind, Name) when V1 > V0 ->
    First = (V1 - V0) / (S1 - S0),
    Steps = [
        {S, max(0, V - Before) / (S - SBefore) / First}
     || {{SBefore, Before}, {S, V}} <- lists:zip(lists:droplast(Points), tl(Points)),
        V > ?REAL_BYTES
    ],
    Values = maps:from_list(Points),
    Bends = bend(
        Steps,
        ?STEP_FACTOR,
        fun(V) -> V end,
        #{kind => Kind, name => <<Name/binary, " memory_max">>, unit => ~"B"},
        fun(Size, Factor) ->
            text("the memory of ~ts, ~ts at ~ts, grows ~.1f times as fast as at first", [
                Name, dyno_unit:format(map_get(Size, Values), ~"B"), number(Size), Factor
            ])
        end
    ),
    [B#{value := map_get(S, Values), from := V0} || #{size := S} = B <- Bends];
memory(_Points, _Kind, _Name) ->
    [].

%% The first point from which on the figure is beyond its limit.
-spec bend([point()], number(), fun((number()) -> number()), map(), Words) -> [bend()] when
    Words :: fun((number(), number()) -> binary()).
bend([], _Limit, _Figure, _About, _Words) ->
    [];
bend([{_, From} | _] = Points, Limit, Figure, About, Words) ->
    Beyond = fun({_, V}) -> Figure(V) >= Limit end,
    case lists:reverse(lists:takewhile(Beyond, lists:reverse(Points))) of
        [{Size, V} | _] = Bent ->
            IsFirst = length(Bent) =:= length(Points),
            [
                About#{
                    size => Size,
                    from => From,
                    value => V,
                    beyond => Figure(V) / Limit,
                    is_first => IsFirst,
                    text => noted(IsFirst, Words(Size, V))
                }
            ];
        [] ->
            []
    end.

-spec noted(boolean(), binary()) -> binary().
noted(true, Text) -> <<Text/binary, ", the smallest size, already">>;
noted(false, Text) -> Text.

%% Values of runs

-spec points(fun((dyno_recording:run()) -> [number()]), [{number(), [dyno_recording:run()]}]) ->
    [point()].
points(Value, BySize) ->
    [
        {Size, dyno_stats:median(Values)}
     || {Size, Runs} <- BySize, [_ | _] = Values <- [lists:flatmap(Value, Runs)]
    ].

-spec metric(binary(), dyno_recording:run()) -> [number()].
metric(Name, Run) ->
    case dyno_recording:metric(Run, Name) of
        {ok, #{~"value" := Value}} when is_number(Value) -> [Value];
        _ -> []
    end.

%% The sum of the means of some series of a run's target.
-spec means([binary()], pos_integer(), dyno_recording:run()) -> [number()].
means(Names, Nth, #{~"nodes" := Nodes} = Run) when length(Nodes) >= Nth ->
    #{~"name" := Node} = lists:nth(Nth, Nodes),
    Means = [
        lists:sum(Numbers) / length(Numbers)
     || Name <- Names,
        #{~"node" := Of, ~"values" := Values} <- dyno_recording:series(Run, Name),
        Of =:= Node,
        [_ | _] = Numbers <- [[V || V <- Values, is_number(V)]]
    ],
    [lists:sum(Means) || length(Means) =:= length(Names)];
means(_Names, _Nth, _Run) ->
    [].

-spec nodes_of([{number(), [dyno_recording:run()]}]) -> [{pos_integer(), binary()}].
nodes_of(BySize) ->
    Nodes = [Of || {_, Runs} <- BySize, #{~"nodes" := [_ | _] = Of} <- Runs],
    Longest = lists:foldl(
        fun(Of, Acc) when length(Of) > length(Acc) -> Of; (_, Acc) -> Acc end, [], Nodes
    ),
    [
        {Nth, re:replace(Name, "(-[0-9]+)*@.*$", "", [unicode, {return, binary}])}
     || {Nth, #{~"name" := Name}} <- lists:enumerate(Longest)
    ].

-spec names(binary(), binary(), [{number(), [dyno_recording:run()]}]) -> [binary()].
names(Table, Key, BySize) ->
    lists:uniq([Name || {_, Runs} <- BySize, Run <- Runs, #{Key := Name} <- rows(Table, Run)]).

-spec cells(binary(), binary(), binary(), binary(), dyno_recording:run()) -> [number()].
cells(Table, Key, Name, Column, Run) ->
    [
        Value
     || #{Key := Of, Column := Value} <- rows(Table, Run), Of =:= Name, is_number(Value)
    ].

-spec named(binary(), binary()) -> binary().
named(Name, Node) -> <<Name/binary, " of ", Node/binary>>.

-spec number(number()) -> binary().
number(Value) -> text("~ts", [dyno_unit:format(Value, ~"count")]).

-spec of_bends([bend()]) -> #{atom() => term()}.
of_bends(Bends) ->
    table(
        ~"bends",
        ~"What gets slow first",
        undefined,
        [
            column(~"kind", ~"Kind", string, undefined),
            column(~"name", ~"Name", string, undefined),
            column(~"size", ~"From size", number, undefined),
            column(~"from", ~"At the smallest size", number, undefined),
            column(~"value", ~"At this size", number, undefined),
            column(~"unit", ~"Unit", string, undefined),
            column(~"text", ~"In words", string, undefined)
        ],
        [
            [map_get(Key, Bend) || Key <- [kind, name, size, from, value, unit, text]]
         || Bend <- Bends
        ]
    ).
