%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_saturation).
-moduledoc """
What gets slow first, and why: from which size on the response time or the throughput suffers, and
which resource is saturated first. Pure.

| what | is saturated where |
| --- | --- |
| schedulers, dirty schedulers, processors of the machine | busy 90 % of the time and more |
| run queue | on average as many processes wait as there are schedulers |
| message queue of a kind of process | 3 messages and more, and 3 times those at the smallest size |
| server process | messages wait, at the p99, for 1 ms and more and 30 % of the response time; or it is busy 90 % of the time |
| function | a call takes 1.5 times what it takes at the smallest size, and it 5 % of the time |
| memory of processes, tables, binaries | a step of the size takes twice what the first step took |
| response time | the median is 1.5 times that at the smallest size; or the p99 is 10 ms or more and 20 times the median, at any size (`m:dyno_test_tail`) |
| throughput | less than 80 % of what is in proportion to the workers; of an open load, than 95 % of the offered |

Of a function whose calls are not counted it is the time in an operation, and times that are not
known well enough count for nothing. Where the workers of a closed load do not become more with the
size, nothing is said of the throughput. With repetitions the medians of each size count. What is
beyond its limit at the smallest size already comes last: it does not grow with the size, but may
well be what limits the system. The order is that of the sizes; at the same size, by how far beyond
its limit a resource is. That one resource is saturated before another is no proof that it is the
cause, but it is where to look first.
""".

-export([tables/1, spec/0]).

-import(dyno_recording_part, [text/2]).

%% A size, the value there, and how far that is beyond its limit: 1 is the limit.
-type measured() :: {Size :: number(), Value :: number(), Beyond :: number()}.

-type about() :: {Kind :: binary(), Name :: binary(), Unit :: binary()}.

-type saturation() :: #{
    about := about(),
    size := number(),
    %% At the smallest size, and at that size.
    from := number(),
    value := number(),
    beyond := number(),
    %% It is so at the smallest size already.
    is_first := boolean(),
    text := binary()
}.

-define(FULL, 0.9).
-define(LEAST_QUEUE, 3).
-define(QUEUE_FACTOR, 3).
-define(TIME_FACTOR, 1.5).
%% Less waiting bothers nobody; so large a part of the response time explains it.
-define(LONG_WAIT_NS, 1_000_000).
-define(SHARE_OF_RESPONSE, 0.3).
-define(REAL_SHARE, 0.05).
-define(MIN_CALLS, 30).
-define(STEP_FACTOR, 2).
%% Less memory than that bothers nobody.
-define(REAL_BYTES, 10_000_000).
-define(IN_PROPORTION, 0.8).
-define(OF_OFFERED, 0.95).

-doc """
The table `saturation` of a document; of one size alone only server processes are in it, and none
where no size is complete.
""".
-spec tables(dyno_recording:document()) -> [dyno_recording_table:table()].
tables(Document) ->
    Label = label(Document),
    case [Sized || {Size, _} = Sized <- dyno_test_sizes:runs(Document), Size > 0] of
        [_, _ | _] = Sizes ->
            Symptoms =
                response_time(Label, Sizes) ++ tail(Label, Sizes) ++ throughput(Label, Sizes),
            Resources =
                capacities(Label, Sizes) ++ run_queues(Label, Sizes) ++
                    message_queues(Label, Sizes) ++ servers(Label, Sizes) ++
                    functions(Label, Sizes) ++ memories(Label, Sizes),
            [dyno_recording_table:make(spec(), order(Symptoms) ++ order(Resources))];
        %% What makes messages wait needs no other size to compare with.
        OneOrNone ->
            Found = tail(Label, OneOrNone) ++ order(servers(Label, OneOrNone)),
            [dyno_recording_table:make(spec(), Found) || Found =/= []]
    end.

-doc "What that table is.".
-spec spec() -> dyno_recording_table:spec().
spec() ->
    Text = fun(Name, Title, Role, Cell) -> {Name, Title, string, #{role => Role}, Cell} end,
    #{
        name => ~"saturation",
        title => ~"What gets slow first",
        derived => true,
        columns => [
            Text(~"kind", ~"Kind", key, fun(#{about := {Kind, _, _}}) -> Kind end),
            Text(~"name", ~"Name", key, fun(#{about := {_, Name, _}}) -> Name end),
            {~"size", ~"From size", number, fun(#{size := Size}) -> Size end},
            {~"from", ~"At the smallest size", number, fun(#{from := From}) -> From end},
            {~"value", ~"At this size", number, fun(#{value := Value}) -> Value end},
            Text(~"unit", ~"Unit", note, fun(#{about := {_, _, Unit}}) -> Unit end),
            Text(~"text", ~"In words", note, fun(#{text := Words}) -> Words end)
        ]
    }.

-spec order([saturation()]) -> [saturation()].
order(Saturations) ->
    Key = fun
        (#{is_first := true, beyond := Beyond}) -> {infinity, -Beyond};
        (#{size := Size, beyond := Beyond}) -> {Size, -Beyond}
    end,
    [S || {_, S} <- lists:keysort(1, [{Key(S), S} || S <- Saturations])].

%% From the size on from which all values are beyond the limit.
-spec saturated(about(), [measured()], Words) -> [saturation()] when
    Words :: fun((Size :: number(), Value :: number(), Beyond :: number()) -> binary()).
saturated(About, Measured, Words) ->
    IsBeyond = fun({_, _, Beyond}) -> Beyond >= 1 end,
    case lists:reverse(lists:takewhile(IsBeyond, lists:reverse(Measured))) of
        [{Size, Value, Beyond} | _] = Last ->
            [
                #{
                    about => About,
                    size => Size,
                    from => element(2, hd(Measured)),
                    value => Value,
                    beyond => Beyond,
                    is_first => Last =:= Measured,
                    text => Words(Size, Value, Beyond)
                }
            ];
        [] ->
            []
    end.

%% Symptoms

response_time(Label, Sizes) ->
    [
        Saturation
     || [{First, Least} | _] = Points <- [of_metric(~"latency.p50", Sizes)],
        Least > 0,
        Saturation <- saturated(
            {~"symptom", ~"latency.p50", ~"ns"},
            [{Size, V, V / Least / ?TIME_FACTOR} || {Size, V} <- Points],
            fun(Size, V, _) ->
                sentence("~ts responses take ~.1f times as long as ~ts ~ts: ~ts (p50)", [
                    with(Size, Label), V / Least, preposition(Label), number(First),
                    dyno_unit:format(V, ~"ns")
                ])
            end
        )
    ].

%% Slow only now and then: at each size by itself. A server whose messages wait is named below.
tail(Label, Sizes) ->
    case servers(Label, Sizes) of
        [] -> tails(Label, Sizes);
        _ -> []
    end.

tails(Label, Sizes) ->
    [
        #{
            about => {~"symptom", ~"latency.p99", ~"ns"},
            size => Size,
            from => P50,
            value => P99,
            beyond => P99 / P50,
            is_first => Size =:= element(1, hd(Sizes)),
            text => sentence("~ts the slowest 1 % of responses take ~ts or more, ~ts times the " ++
                "median: ~ts", [
                with(Size, Label), dyno_unit:format(P99, ~"ns"), number(round(P99 / P50)),
                dyno_test_tail:cause(Run)
            ])
        }
     || {Size, Runs} <- Sizes,
        Run <- [lists:last(Runs)],
        {true, P50, P99} <- [dyno_test_tail:is_far(Run)]
    ].

%% By what is offered; of a closed load, by the workers.
throughput(Label, Sizes) ->
    Throughputs = of_metric(~"throughput", Sizes),
    case of_metric(~"load.offered", Sizes) of
        [_ | _] = Offered -> offered(Throughputs, maps:from_list(Offered), Label);
        [] -> in_proportion(Throughputs, maps:from_list(of_metric(~"workers.max", Sizes)), Label)
    end.

offered(Throughputs, Offered, Label) ->
    saturated(
        {~"symptom", ~"throughput", ~"1/s"},
        [
            {Size, V, map_get(Size, Offered) * ?OF_OFFERED / max(V, 1.0e-9)}
         || {Size, V} <- Throughputs, is_map_key(Size, Offered)
        ],
        fun(Size, V, _) ->
            Rate = map_get(Size, Offered),
            sentence("~ts throughput is ~ts, ~ts of the ~ts that were offered", [
                with(Size, Label), rate(V), dyno_unit:format(V / Rate, ~"ratio"), rate(Rate)
            ])
        end
    ).

in_proportion([{First, Least} | _] = Throughputs, Workers, Label) when
    Least > 0, is_map_key(First, Workers)
->
    Before = map_get(First, Workers),
    saturated(
        {~"symptom", ~"throughput", ~"1/s"},
        [
            {Size, V, expected(Least, map_get(Size, Workers) / Before) / max(V, 1.0e-9)}
         || {Size, V} <- Throughputs, is_map_key(Size, Workers)
        ],
        fun(Size, V, _) ->
            #{Size := Now} = Workers,
            {With, Counted} = with_workers(Now, Size, Label),
            sentence("~ts throughput is ~ts, ~ts ~ts ~ts", [
                With, rate(V), by(V / Least, Now / Before), preposition(Counted), number(Before)
            ])
        end
    );
in_proportion(_Throughputs, _Workers, _Label) ->
    [].

%% The least that may be expected, where there are so many times the workers.
expected(Least, Factor) when Factor > 1 -> Least * Factor * ?IN_PROPORTION;
expected(_Least, _Factor) -> 0.

by(Ratio, _Workers) when Ratio < 0.95 ->
    "less than that";
by(Ratio, _Workers) when Ratio < 1.05 ->
    "no more than that";
by(Ratio, Workers) ->
    Share =
        case Ratio / Workers of
            Half when Half > 0.48, Half < 0.52 -> ~"half";
            Other -> dyno_unit:format(Other, ~"ratio")
        end,
    [Share, " of ", number(Workers), " times that"].

rate(Value) -> dyno_unit:format(Value, ~"1/s").

%% Resources

capacities(Label, Sizes) ->
    [
        Saturation
     || Node <- roles(Sizes),
        {Name, Names, Words} <- [
            {~"vm.scheduler_utilisation.normal", [~"vm.scheduler_utilisation.normal"],
                "the schedulers of ~ts are ~ts~ts busy ~ts"},
            {~"vm.scheduler_utilisation.dirty_cpu", [~"vm.scheduler_utilisation.dirty_cpu"],
                "the dirty CPU schedulers of ~ts are ~ts~ts busy ~ts"},
            {~"vm.scheduler_utilisation.dirty_io", [~"vm.scheduler_utilisation.dirty_io"],
                "the dirty IO schedulers of ~ts are ~ts~ts busy ~ts"},
            {~"os.cpu", [~"os.cpu.user", ~"os.cpu.system"],
                "the machine that runs ~ts is ~ts~ts busy ~ts"}
        ],
        Saturation <- saturated(
            {~"resource", of_node(Name, Node), ~"ratio"},
            [{Size, V, V / ?FULL} || {Size, V} <- means(Names, Node, Sizes)],
            fun(Size, V, _) ->
                sentence(Words, [
                    Node, already(Size, Sizes), dyno_unit:format(V, ~"ratio"), with(Size, Label)
                ])
            end
        )
    ].

run_queues(Label, Sizes) ->
    Name = ~"vm.run_queue.normal",
    [
        Saturation
     || Node <- roles(Sizes),
        Schedulers <- [schedulers(Node, Sizes)],
        Saturation <- saturated(
            {~"resource", of_node(Name, Node), ~"count"},
            [{Size, V, V / Schedulers} || {Size, V} <- means([Name], Node, Sizes)],
            fun(Size, V, _) ->
                sentence("~ts ~ts~.1f processes wait for the ~ts of ~ts on average", [
                    with(Size, Label), already(Size, Sizes), V * 1.0,
                    dyno_recording_run:place(~"schedulers", integer_to_binary(Schedulers)), Node
                ])
            end
        )
    ].

schedulers(Node, Sizes) ->
    Counts = [
        Count
     || {_, Runs} <- Sizes,
        #{~"nodes" := Nodes} <- Runs,
        #{~"role" := Role, ~"schedulers_online" := Count} <- Nodes,
        Role =:= Node,
        is_integer(Count)
    ],
    lists:max([1 | Counts]).

message_queues(Label, Sizes) ->
    Column = ~"message_queue_max",
    [
        Saturation
     || Group <- names(~"processes", ~"group", Sizes),
        [{First, Least} | _] = Points <- [of_rows(~"processes", {~"group", Group}, Column, Sizes)],
        Saturation <- saturated(
            {~"process", <<Group/binary, " ", Column/binary>>, ~"count"},
            [{Size, V, V / max(?LEAST_QUEUE, ?QUEUE_FACTOR * Least)} || {Size, V} <- Points],
            fun(Size, V, _) ->
                sentence("the message queue of ~ts holds ~ts messages ~ts, ~ts ~ts ~ts", [
                    Group, number(V), with(Size, Label), number(Least), preposition(Label),
                    number(First)
                ])
            end
        )
    ].

%% Where callbacks of servers are measured (dyno_agent_servers).
servers(Label, Sizes) ->
    Responses = maps:from_list(of_metric(~"latency.p99", Sizes)),
    lists:append([
        waiting(Server, Responses, Label, Sizes) ++ busy(Server, Label, Sizes)
     || Server <- names(~"servers", ~"server", Sizes)
    ]).

waiting(Server, Responses, Label, Sizes) ->
    saturated(
        {~"server", <<Server/binary, " delay">>, ~"ns"},
        [
            {Size, V, V / max(?LONG_WAIT_NS, ?SHARE_OF_RESPONSE * map_get(Size, Responses))}
         || {Size, V} <- of_rows(~"servers", {~"server", Server}, ~"delay", Sizes),
            is_map_key(Size, Responses)
        ],
        fun(Size, V, _) ->
            {_, Runs} = lists:keyfind(Size, 1, Sizes),
            sentence("messages to ~ts wait ~ts ~ts until they are handled (p99): ~ts", [
                Server, dyno_unit:format(V, ~"ns"), with(Size, Label), why(Server, lists:last(Runs))
            ])
        end
    ).

why(Server, Run) ->
    Servers = dyno_recording:rows(Run, ~"servers"),
    [Row | _] = [R || #{~"server" := Of} = R <- Servers, Of =:= Server],
    Callbacks = [
        {P99, Name}
     || #{~"server" := Of, ~"callback" := Name, ~"p99" := P99} <-
            dyno_recording:rows(Run, ~"callbacks"),
        Of =:= Server,
        is_number(P99)
    ],
    Longest = [
        ["its ", Name, " takes ", dyno_unit:format(P99, ~"ns")]
     || Callbacks =/= [], {P99, Name} <- [lists:max(Callbacks)]
    ],
    Queue = [["its queue holds up to ", number(N)] || #{~"queue_max" := N} <- [Row], is_number(N)],
    Busy = [
        ["it is busy ", dyno_unit:format(round(Share * 100) / 100, ~"ratio"), " of the time"]
     || Share <- busy_share(Row)
    ],
    lists:join(", ", Longest ++ Queue ++ Busy).

busy(Server, Label, Sizes) ->
    Shares = fun(Run) ->
        lists:append([
            busy_share(Row)
         || #{~"server" := Of} = Row <- dyno_recording:rows(Run, ~"servers"), Of =:= Server
        ])
    end,
    saturated(
        {~"server", <<Server/binary, " busy">>, ~"ratio"},
        [{Size, V, V / ?FULL} || {Size, V} <- points(Shares, Sizes)],
        fun(Size, V, _) ->
            sentence("~ts is ~tsbusy ~ts ~ts, and can hardly handle more messages", [
                Server, already(Size, Sizes), dyno_unit:format(V, ~"ratio"), with(Size, Label)
            ])
        end
    ).

%% Of each of its processes.
busy_share(#{~"busy" := Busy, ~"processes" := N}) when is_number(Busy), N > 0 -> [Busy / N];
busy_share(_Row) -> [].

functions(Label, Sizes) ->
    [
        Saturation
     || Name <- names(~"functions", ~"function", Sizes),
        {Times, Unit, Words} <- [times(Name, Sizes)],
        [{First, Least} | _] = Points <- [points(Times, Sizes)],
        Least > 0,
        Shares <- [maps:from_list(of_rows(~"functions", {~"function", Name}, ~"share", Sizes))],
        #{size := From} = Saturation <- saturated(
            {~"function", Name, Unit},
            [{Size, V, V / Least / ?TIME_FACTOR} || {Size, V} <- Points],
            fun(Size, V, _) ->
                sentence(
                    Words ++ " ~ts takes ~ts ~ts, ~.1f times that ~ts ~ts, and ~ts of the time",
                    [
                        Name, dyno_unit:format(V, ~"ns"), with(Size, Label), V / Least,
                        preposition(Label), number(First),
                        dyno_unit:format(maps:get(Size, Shares, 0), ~"ratio")
                    ]
                )
            end
        ),
        maps:get(From, Shares, 0) >= ?REAL_SHARE
    ].

%% The time of a call or, where calls are not counted at all sizes, that for an operation.
times(Name, Sizes) ->
    Rows = fun(Run) ->
        [Row || #{~"function" := Of} = Row <- dyno_recording:rows(Run, ~"functions"), Of =:= Name]
    end,
    case [x || {_, Runs} <- Sizes, Run <- Runs, #{~"calls" := null} <- Rows(Run)] of
        [] ->
            {fun(Run) -> times_per_call(Rows(Run)) end, ~"ns/call", "a call of"};
        _ ->
            {fun(Run) -> times_per_operation(Rows(Run), Run) end, ~"ns", "of an operation"}
    end.

times_per_call(Rows) ->
    [
        Time
     || #{~"time_per_call" := Time, ~"calls" := Calls} = Row <- Rows,
        Calls >= ?MIN_CALLS,
        is_number(Time),
        is_sure(~"time_per_call", Row)
    ].

times_per_operation(Rows, Run) ->
    [
        Time / Operations
     || #{~"own_time" := Time} = Row <- Rows,
        is_number(Time),
        is_sure(~"own_time", Row),
        Operations <- metric(~"operations.count", Run),
        Operations > 0
    ].

%% Twice as uncertain, and times of which one is ?TIME_FACTOR times the other may be the same.
is_sure(Name, Row) ->
    case {maps:find(<<Name/binary, "_low">>, Row), maps:find(<<Name/binary, "_high">>, Row)} of
        {{ok, Low}, {ok, High}} when is_number(Low), is_number(High) ->
            High - Low < 0.4 * map_get(Name, Row);
        {error, error} ->
            true;
        _ ->
            false
    end.

%% What a step of the size takes, by what the first step took.
memories(Label, Sizes) ->
    [
        Saturation
     || {Table, Key, Kind} <- [
            {~"processes", ~"group", ~"process"}, {~"ets", ~"table", ~"ets"}
        ],
        Name <- names(Table, Key, Sizes),
        Saturation <- memory(
            Kind, Name, Label, of_rows(Table, {Key, Name}, ~"memory_max", Sizes)
        )
    ].

memory(Kind, Name, Label, [{S0, V0}, {S1, V1} | _] = Points) when V1 > V0 ->
    First = (V1 - V0) / (S1 - S0),
    Steps = [
        {Size, V, max(0, V - Before) / (Size - SizeBefore) / First / ?STEP_FACTOR}
     || {{SizeBefore, Before}, {Size, V}} <- lists:zip(lists:droplast(Points), tl(Points)),
        V > ?REAL_BYTES
    ],
    saturated(
        {Kind, <<Name/binary, " memory_max">>, ~"B"},
        [{S0, V0, 0} | Steps],
        fun(Size, V, Beyond) ->
            sentence("the memory of ~ts, ~ts ~ts, grows ~.1f times as fast as at first", [
                Name, dyno_unit:format(V, ~"B"), with(Size, Label), Beyond * ?STEP_FACTOR
            ])
        end
    );
memory(_Kind, _Name, _Label, _Points) ->
    [].

%% Words

label(#{~"parameters" := #{~"size_label" := Label}}) when is_binary(Label) -> Label;
label(_Document) -> ~"size".

%% With 4 connections; at 4 requests/s; at size 4.
with(Size, Label) ->
    [preposition(Label), " ", dyno_recording_run:place(Label, number(Size))].

preposition(Label) ->
    case Label =:= ~"size" orelse binary:match(Label, ~"/") =/= nomatch of
        true -> "at";
        false -> "with"
    end.

%% As a rule the workers are what the size counts.
with_workers(Workers, Size, Label) when Workers == Size, Label =/= ~"size" ->
    {with(Size, Label), Label};
with_workers(Workers, Size, _Label) when Workers == Size ->
    {with(Workers, ~"workers"), ~"workers"};
with_workers(Workers, Size, Label) ->
    Place = dyno_recording_run:place(Label, number(Size)),
    {[with(Workers, ~"workers"), " (", Place, ")"], ~"workers"}.

already(Size, [{Size, _} | _]) -> "already ";
already(_Size, _Sizes) -> "".

sentence(Format, Arguments) ->
    <<First/utf8, Rest/binary>> = text(Format, Arguments),
    <<(string:titlecase(<<First/utf8>>))/binary, Rest/binary, ".">>.

%% Values

metric(Name, Run) ->
    [Value || {Value, _Unit} <- dyno_test_sizes:metric(Name, Run)].

of_metric(Name, Sizes) ->
    points(fun(Run) -> metric(Name, Run) end, Sizes).

of_rows(Table, {Key, Name}, Column, Sizes) ->
    Cells = fun(Run) ->
        [
            Value
         || #{Key := Of, Column := Value} <- dyno_recording:rows(Run, Table),
            Of =:= Name,
            is_number(Value)
        ]
    end,
    points(Cells, Sizes).

%% The median of a value over the repetitions, where a size has it.
points(Value, Sizes) ->
    [
        {Size, dyno_stats:median(Values)}
     || {Size, Runs} <- Sizes, [_ | _] = Values <- [lists:flatmap(Value, Runs)]
    ].

%% What the rows of a table are called, over all runs.
names(Table, Key, Sizes) ->
    lists:uniq([
        Name
     || {_, Runs} <- Sizes, Run <- Runs, #{Key := Name} <- dyno_recording:rows(Run, Table)
    ]).

%% The sum of the means of some series of a target, where a run has all of them.
means(Names, Node, Sizes) ->
    points(
        fun(Run) ->
            Means = [
                Mean
             || Name <- Names,
                {Of, Mean, _} <- dyno_test_sizes:series(mean, Name, Run),
                Of =:= Node
            ],
            [lists:sum(Means) || length(Means) =:= length(Names)]
        end,
        Sizes
    ).

%% Nodes have the same roles in all runs.
roles(Sizes) ->
    lists:uniq([
        Role || {_, Runs} <- Sizes, #{~"nodes" := Nodes} <- Runs, #{~"role" := Role} <- Nodes
    ]).

of_node(Name, Node) -> <<Name/binary, " of ", Node/binary>>.

number(Value) -> text("~ts", [dyno_unit:format(Value, ~"count")]).
