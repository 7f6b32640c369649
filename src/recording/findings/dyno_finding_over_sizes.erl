%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_over_sizes).
-moduledoc """
Finds what gets slow first, and why: the size from which response time or throughput suffers, and
the first saturated resource. Pure.

A resource is saturated beyond its limit in `m:dyno_finding_limits`; functions, memory and response
time by what they took at the smallest size.

A function without counted calls is judged by its time for each operation; imprecise times are
ignored. The throughput of a closed load is judged only if its workers grow with the size. With
repetitions each size's medians count.

Symptoms come first, then resources by the first saturated size and the factor beyond the limit; one
beyond its limit at the smallest size comes last. The first is not proven to be the cause.
""".

-export([findings/1]).

-import(dyno_recording_part, [text/2]).
-import(dyno_sizes_words, [label/1, number/1, preposition/1, times/1, with/2, with_workers/3]).
-import(dyno_sizes, [of_metric/2, of_rows/4, means/3, names/3, points/2, roles/1, values/2]).

-type measured() :: {Size :: number(), Value :: number(), Beyond :: number()}.

-type about() ::
    {Check :: atom(), Subject :: binary(), dyno_finding_limits:name(), dyno_unit:unit()}.

%% A finding, and its first size; `always` from the smallest.
-type found() :: {From :: number() | always, dyno_finding:t()}.

-type test() :: {Label :: binary(), dyno_sizes:sizes()}.

-define(LEAST_QUEUE, 3).
%% Shorter waits do not matter.
-define(LONG_WAIT_NS, 1_000_000).
-define(REAL_SHARE, 0.05).
-define(MIN_CALLS, 30).
-define(FEW_FAILED, 0.05).
%% Less memory does not matter.
-define(REAL_BYTES, 10_000_000).
-define(MOST_SIZES, 6).

-define(SEE_BELOW, ~"See which resource is saturated then, in the findings that follow.").
-define(NOT_SEEN, <<
    "Nothing that was measured is at its limit: measure more functions (--pattern) and servers "
    "(--servers)."
>>).
-define(GENERATOR, ~"The generator was the bottleneck, not the target: see the doubts.").
-define(OTHERS, ~"End the other programs, or test on a machine of its own.").
-define(DIVIDE, ~"Make its callbacks shorter, or divide its work among several processes.").

-doc "The findings over sizes; of one, on slow responses, offered loads and server processes.".
-spec findings(dyno_recording:document()) -> [dyno_finding:t()].
findings(Document) ->
    Sizes = [Sized || {Size, _} = Sized <- dyno_sizes:runs(Document), Size > 0],
    Test = {label(Document), Sizes},
    Others = dyno_finding_machine:others(Document),
    Capacities = capacities(Test, Others) ++ run_queues(Test),
    Servers = servers(Test),
    Tail = [F || Servers =:= [], F <- tails(Test, Others)],
    {Symptoms, Resources} =
        case Sizes of
            [_, _ | _] ->
                {
                    response_time(Test) ++ Tail ++ throughput(Test),
                    Capacities ++ message_queues(Test) ++ Servers ++ functions(Test) ++
                        memories(Test)
                };
            %% Causes of waiting messages, and what was offered, need no second size.
            _ ->
                Behind = throughput(Test),
                Full = [F || Behind =/= [], F <- Capacities],
                {Tail ++ Behind, Full ++ Servers}
        end,
    Advised = [{From, advised(F, Resources)} || {From, F} <- Symptoms],
    dyno_finding:in_order(by_size(Advised) ++ by_size(Resources)).

advised(#{advice := ~""} = Symptom, []) -> Symptom#{advice := ?NOT_SEEN};
advised(#{advice := ~""} = Symptom, _Resources) -> Symptom#{advice := ?SEE_BELOW};
advised(Symptom, _Resources) -> Symptom.

%% `always` is greater than any number.
-spec by_size([found()]) -> [dyno_finding:t()].
by_size(Found) ->
    [F || {_, F} <- lists:keysort(1, [{{From, -B}, F} || {From, #{beyond := B} = F} <- Found])].

-spec saturated(about(), [measured()], test(), Say) -> [found()] when
    Say :: fun((Size :: number(), Value :: number()) -> #{atom() => term()}).
saturated({Check, Subject, Limit, Unit}, Measured, {Label, _}, Say) ->
    IsBeyond = fun({_, _, Beyond}) -> Beyond >= 1 end,
    case lists:reverse(lists:takewhile(IsBeyond, lists:reverse(Measured))) of
        [{Size, Value, Beyond} | _] = Last ->
            From =
                case Last of
                    Measured -> always;
                    _ -> Size
                end,
            Fields = #{
                severity => warning,
                subject => Subject,
                beyond => Beyond,
                value => against(Limit, Beyond),
                evidence => evidence(Measured, Unit, Label)
            },
            #{text := Text} = Said = maps:merge(Fields, Say(Size, Value)),
            [{From, dyno_finding:new(Check, Limit, Said#{text := text("~ts", [Text])})}];
        [] ->
            []
    end.

%% In the limit's unit. These are lower limits.
against(Limit, Beyond) when Limit =:= linear; Limit =:= of_offered ->
    dyno_finding_limits:value(Limit) / Beyond;
against(Limit, Beyond) ->
    dyno_finding_limits:value(Limit) * Beyond.

limit(Name) -> dyno_finding_limits:value(Name).

evidence([_], _Unit, _Label) ->
    ~"";
evidence(Measured, Unit, Label) ->
    Last = lists:nthtail(max(0, length(Measured) - ?MOST_SIZES), Measured),
    Values = [
        [dyno_unit:format(Value, Unit), " ", preposition(Label), " ", number(Size)]
     || {Size, Value, _} <- Last
    ],
    text("~ts.", [lists:join(", ", Values)]).

%% Symptoms

response_time({Label, Sizes} = Test) ->
    [
        Found
     || [{First, Least} | _] = Points <- [of_metric(~"latency.p50", Sizes)],
        Least > 0,
        Found <- saturated(
            {response_time, ~"latency.p50", slower, ~"ns"},
            [{Size, V, V / Least / limit(slower)} || {Size, V} <- Points],
            Test,
            fun(Size, V) ->
                #{
                    text => text("~ts responses take ~ts times as long as ~ts ~ts: ~ts (p50)", [
                        with(Size, Label),
                        times(V / Least),
                        preposition(Label),
                        number(First),
                        dyno_unit:format(V, ~"ns")
                    ])
                }
            end
        )
    ].

%% Only occasional slowness: of the worst size. Not if a server with waiting messages is named.
tails(Test, Others) ->
    lists:sublist(lists:sort(fun is_worse/2, far(Test, Others)), 1).

is_worse({_, #{beyond := A}}, {_, #{beyond := B}}) -> A >= B.

far({Label, Sizes}, Others) ->
    [
        {Size,
            dyno_finding:new(far_tail, far_tail, #{
                severity => warning,
                subject => ~"latency.p99",
                value => P99 / P50,
                text => text(
                    "~ts the slowest 1 % of responses take ~ts or more, ~ts times the median~ts",
                    [
                        with(Size, Label),
                        dyno_unit:format(P99, ~"ns"),
                        number(round(P99 / P50)),
                        Cause
                    ]
                ),
                evidence => Evidence,
                advice => Advice
            })}
     || {Size, Runs} <- Sizes,
        Run <- [lists:last(Runs)],
        {true, P50, P99} <- [dyno_finding_tail:is_far(Run)],
        {Cause, Evidence, Advice} <- [dyno_finding_tail:cause(Run, maps:get(Size, Others, 0))]
    ].

%% Relative to the offered load; for a closed load, to the workers. Throughput counts no failures.
throughput({_, Sizes} = Test) ->
    Throughputs = of_metric(~"throughput", Sizes),
    Failed = maps:from_list(of_metric(~"errors.rate", Sizes)),
    Found =
        case of_metric(~"load.offered", Sizes) of
            [_ | _] = Offered -> offered(Throughputs, maps:from_list(Offered), Test);
            [] -> in_proportion(Throughputs, maps:from_list(of_metric(~"workers.max", Sizes)), Test)
        end,
    [{From, failed(Finding, maps:get(size(From, Sizes), Failed, 0))} || {From, Finding} <- Found].

size(always, [{Size, _} | _]) -> Size;
size(Size, _Sizes) -> Size.

%% Nothing may be saturated if the operations that failed are as many as are missing.
failed(#{text := Text, beyond := Beyond} = Finding, Share) when
    Share > 0, Beyond * (1 - Share) < 1
->
    Finding#{
        text := text("~ts: ~ts of the operations failed", [
            Text, dyno_unit:format(Share, ~"ratio")
        ]),
        advice := ~"See the table of errors: throughput counts operations that succeeded."
    };
failed(Finding, _Share) ->
    Finding.

offered(Throughputs, Offered, {Label, Sizes} = Test) ->
    Limited = maps:from_list(of_metric(~"load.generator_limited", Sizes)),
    saturated(
        {throughput, ~"throughput", of_offered, ~"1/s"},
        [
            {Size, V, map_get(Size, Offered) * limit(of_offered) / max(V, 1.0e-9)}
         || {Size, V} <- Throughputs, is_map_key(Size, Offered)
        ],
        Test,
        fun(Size, V) ->
            Rate = map_get(Size, Offered),
            Format = "~ts throughput is ~ts, ~ts of the ~ts that were offered~ts",
            Share = dyno_unit:format(V / Rate, ~"ratio"),
            Generator = [{~"", ?GENERATOR} || maps:get(Size, Limited, 0) > 0],
            Full = dyno_finding_tail:full(lists:last(proplists:get_value(Size, Sizes))),
            {Cause, Advice} = hd(Generator ++ Full ++ [{~"", ~""}]),
            #{
                text => io_lib:format(Format, [
                    with(Size, Label), rate(V), Share, rate(Rate), Cause
                ]),
                advice => Advice
            }
        end
    ).

in_proportion([{First, Least} | _] = Throughputs, Workers, {Label, _} = Test) when
    Least > 0, is_map_key(First, Workers)
->
    Before = map_get(First, Workers),
    saturated(
        {throughput, ~"throughput", linear, ~"1/s"},
        [
            {Size, V, expected(Least, map_get(Size, Workers) / Before) / max(V, 1.0e-9)}
         || {Size, V} <- Throughputs, is_map_key(Size, Workers)
        ],
        Test,
        fun(Size, V) ->
            #{Size := Now} = Workers,
            {With, Counted} = with_workers(Now, Size, Label),
            #{
                text => io_lib:format("~ts throughput is ~ts, ~ts ~ts ~ts", [
                    With, rate(V), by(V / Least, Now / Before), preposition(Counted), number(Before)
                ])
            }
        end
    );
in_proportion(_Throughputs, _Workers, _Test) ->
    [].

%% The least expected value for this multiple of workers.
expected(Least, Factor) when Factor > 1 -> Least * Factor * limit(linear);
expected(_Least, _Factor) -> 0.

by(Ratio, _Workers) when Ratio < 0.95 ->
    "less than";
by(Ratio, _Workers) when Ratio < 1.05 ->
    "no more than";
by(Ratio, Workers) ->
    [
        dyno_unit:format(round(100 * Ratio / Workers) / 100, ~"ratio"),
        " of linear scaling from that"
    ].

rate(Value) -> dyno_unit:format(Value, ~"1/s").

%% Resources

capacities({_, Sizes} = Test, Others) ->
    [
        Found
     || Node <- roles(Sizes),
        {Check, Names, Resource, Advice} <- [
            {schedulers_busy, [~"vm.scheduler_utilisation.normal"], "the schedulers of ", <<
                "Make the functions that take most of the time cheaper, or give the node more "
                "processors."
            >>},
            {dirty_cpu_busy, [~"vm.scheduler_utilisation.dirty_cpu"],
                "the dirty CPU schedulers of ", <<
                    "Long native calls and collections of large heaps fill them: have fewer at "
                    "once, or start the node with more (+SDcpu)."
                >>},
            {dirty_io_busy, [~"vm.scheduler_utilisation.dirty_io"], "the dirty IO schedulers of ",
                ~"Have fewer file operations at once, or start the node with more (+SDio)."},
            {machine_busy, [~"os.cpu.user", ~"os.cpu.system"], "the machine that runs ", <<
                "Give the load a machine of its own (--load-nodes) if it runs there, too; else "
                "make the work cheaper, or take a larger machine."
            >>}
        ],
        Found <- saturated(
            {Check, Node, busy_mean, ~"ratio"},
            [{Size, V, V / limit(busy_mean)} || {Size, V} <- means(Names, Node, Sizes)],
            Test,
            fun(Size, V) ->
                Text = [Resource, Node, is(Resource), busy(Size, V, Test)],
                taken(Check, maps:get(Size, Others, 0), #{text => Text, advice => Advice})
            end
        )
    ].

taken(machine_busy, Share, #{text := Text} = Fields) ->
    case Share > limit(others_busy) of
        true ->
            Taken = ["; other programs take at least ", dyno_unit:format(Share, ~"ratio")],
            Fields#{text := [Text, Taken], advice := ?OTHERS};
        false ->
            Fields
    end;
taken(_Check, _Share, Fields) ->
    Fields.

is("the machine" ++ _) -> " is ";
is(_Schedulers) -> " are ".

busy(Size, Value, {Label, Sizes}) ->
    [already(Size, Sizes), dyno_unit:format(Value, ~"ratio"), " busy ", with(Size, Label)].

run_queues({Label, Sizes} = Test) ->
    [
        Found
     || Node <- roles(Sizes),
        Schedulers <- [schedulers(Node, Sizes)],
        Found <- saturated(
            {run_queue, Node, runnable, ~"count"},
            [
                {Size, V, V / Schedulers / limit(runnable)}
             || {Size, V} <- means([~"vm.run_queue.normal"], Node, Sizes)
            ],
            Test,
            fun(Size, V) ->
                #{
                    text => text("~ts ~ts~.1f processes wait for the ~ts of ~ts on average", [
                        with(Size, Label),
                        already(Size, Sizes),
                        V * 1.0,
                        dyno_recording_run:place(~"schedulers", integer_to_binary(Schedulers)),
                        Node
                    ]),
                    advice =>
                        ~"Have fewer processes work at once, or give the node more processors."
                }
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

message_queues({Label, Sizes} = Test) ->
    [
        Found
     || Group <- names(~"processes", ~"group", Sizes),
        [{_, Least} | _] = Points <- [
            of_rows(~"processes", {~"group", Group}, ~"message_queue_max", Sizes)
        ],
        Found <- saturated(
            {message_queue, Group, queue_over_sizes, ~"count"},
            [
                {Size, V, V / max(?LEAST_QUEUE, limit(queue_over_sizes) * Least)}
             || {Size, V} <- Points
            ],
            Test,
            fun(Size, V) ->
                #{
                    text => text("the message queue of ~ts holds ~ts messages ~ts", [
                        Group, number(V), with(Size, Label)
                    ]),
                    value => V,
                    advice => ?DIVIDE
                }
            end
        )
    ].

%% If callbacks of servers are measured (dyno_agent_servers).
servers({_, Sizes} = Test) ->
    Responses = maps:from_list(of_metric(~"latency.p99", Sizes)),
    lists:append([
        waiting(Server, Responses, Test) ++ full(Server, Test)
     || Server <- names(~"servers", ~"server", Sizes)
    ]).

waiting(Server, Responses, {Label, Sizes} = Test) ->
    saturated(
        {server_waits, Server, wait_share, ~"ns"},
        [
            {Size, V, V / max(?LONG_WAIT_NS, limit(wait_share) * map_get(Size, Responses))}
         || {Size, V} <- of_rows(~"servers", {~"server", Server}, ~"delay", Sizes),
            is_map_key(Size, Responses)
        ],
        Test,
        fun(Size, V) ->
            {_, Runs} = lists:keyfind(Size, 1, Sizes),
            Run = lists:last(Runs),
            #{
                text => text("messages to ~ts wait ~ts ~ts until they are handled (p99)", [
                    Server, dyno_unit:format(V, ~"ns"), with(Size, Label)
                ]),
                value => V / max(1, map_get(Size, Responses)),
                evidence => text("~ts.", [doing(Server, Run)]),
                advice => shorter(Server, Run)
            }
        end
    ).

shorter(Server, Run) ->
    case dyno_finding_tail:longest([Server], Run) of
        [{Ns, Which, _, Name}] ->
            text("Make ~ts shorter (~ts, ~ts), or divide its work among several processes.", [
                Name, dyno_unit:format(Ns, ~"ns"), Which
            ]);
        [] ->
            ?DIVIDE
    end.

doing(Server, Run) ->
    [Row | _] = [
        R
     || #{~"server" := Of} = R <- dyno_recording:rows(Run, ~"servers"), Of =:= Server
    ],
    Queue = [["the queue holds up to ", number(N)] || #{~"queue_max" := N} <- [Row], is_number(N)],
    Busy = [
        [
            "the process is busy ",
            dyno_unit:format(round(Share * 100) / 100, ~"ratio"),
            " of the time"
        ]
     || Share <- busy_share(Row)
    ],
    Longest = [
        [Name, " takes ", dyno_unit:format(Ns, ~"ns"), " (", Which, ")"]
     || {Ns, Which, _, Name} <- dyno_finding_tail:longest([Server], Run)
    ],
    lists:join(", ", Longest ++ Queue ++ Busy).

full(Server, Test) ->
    Shares = fun(Run) ->
        lists:append([
            busy_share(Row)
         || #{~"server" := Of} = Row <- dyno_recording:rows(Run, ~"servers"), Of =:= Server
        ])
    end,
    {_, Sizes} = Test,
    saturated(
        {server_busy, Server, busy_mean, ~"ratio"},
        [{Size, V, V / limit(busy_mean)} || {Size, V} <- points(Shares, Sizes)],
        Test,
        fun(Size, V) ->
            #{text => [Server, " is ", busy(Size, V, Test)], advice => ?DIVIDE}
        end
    ).

busy_share(#{~"busy" := Busy, ~"processes" := N}) when is_number(Busy), N > 0 -> [Busy / N];
busy_share(_Row) -> [].

functions({Label, Sizes} = Test) ->
    [
        {From, Finding}
     || Name <- names(~"functions", ~"function", Sizes),
        {Times, Unit, Words} <- [times_of(Name, Sizes)],
        [{_, Least} | _] = Points <- [points(Times, Sizes)],
        Least > 0,
        Shares <- [maps:from_list(of_rows(~"functions", {~"function", Name}, ~"share", Sizes))],
        {From, Finding} <- saturated(
            {function_slower, Name, slower, Unit},
            [{Size, V, V / Least / limit(slower)} || {Size, V} <- Points],
            Test,
            fun(Size, V) ->
                #{
                    text => text(
                        "~ts~ts takes ~ts ~ts, ~ts times as long as ~ts ~ts, and ~ts of the time",
                        [
                            Words,
                            Name,
                            dyno_unit:format(V, ~"ns"),
                            with(Size, Label),
                            times(V / Least),
                            preposition(Label),
                            number(element(1, hd(Points))),
                            dyno_unit:format(maps:get(Size, Shares, 0), ~"ratio")
                        ]
                    ),
                    advice => <<
                        "Look for work in it that grows with the size: lists, copies, tables; "
                        "--distribution shows how long single calls take."
                    >>
                }
            end
        ),
        maps:get(From, Shares, 0) >= ?REAL_SHARE
    ].

times_of(Name, Sizes) ->
    Rows = fun(Run) ->
        [Row || #{~"function" := Of} = Row <- dyno_recording:rows(Run, ~"functions"), Of =:= Name]
    end,
    case [x || {_, Runs} <- Sizes, Run <- Runs, #{~"calls" := null} <- Rows(Run)] of
        [] ->
            {fun(Run) -> times_per_call(Rows(Run)) end, ~"ns/call", "a call of "};
        _ ->
            {fun(Run) -> times_per_operation(Rows(Run), Run) end, ~"ns", "of an operation "}
    end.

times_per_call(Rows) ->
    [
        Time
     || #{~"time_per_call" := Time, ~"calls" := Calls} = Row <- Rows,
        Calls >= ?MIN_CALLS,
        is_number(Time),
        is_sure(~"time_per_call", Row)
    ].

%% An operation that failed may not have come to the function.
times_per_operation(Rows, Run) ->
    [
        Time / Operations
     || #{~"own_time" := Time} = Row <- Rows,
        is_number(Time),
        is_sure(~"own_time", Row),
        lists:all(fun(Failed) -> Failed < ?FEW_FAILED end, values(~"errors.rate", Run)),
        Operations <- values(~"operations.count", Run),
        Operations > 0
    ].

%% With twice this uncertainty, times that differ by a factor of 1.5 may be equal.
is_sure(Name, Row) ->
    case {maps:find(<<Name/binary, "_low">>, Row), maps:find(<<Name/binary, "_high">>, Row)} of
        {{ok, Low}, {ok, High}} when is_number(Low), is_number(High) ->
            High - Low < 0.4 * map_get(Name, Row);
        {error, error} ->
            true;
        _ ->
            false
    end.

memories({_, Sizes} = Test) ->
    [
        Found
     || {Table, Key} <- [{~"processes", ~"group"}, {~"ets", ~"table"}],
        Name <- names(Table, Key, Sizes),
        Found <- memory(Name, of_rows(Table, {Key, Name}, ~"memory_max", Sizes), Test)
    ].

memory(Name, [{S0, V0}, {S1, V1} | _] = Points, {Label, _} = Test) when V1 > V0 ->
    First = (V1 - V0) / (S1 - S0),
    Steps = [
        {Size, V, max(0, V - Before) / (Size - SizeBefore) / First / limit(memory_step)}
     || {{SizeBefore, Before}, {Size, V}} <- lists:zip(lists:droplast(Points), tl(Points)),
        V > ?REAL_BYTES
    ],
    Measured = [{S0, V0, 0} | Steps],
    saturated(
        {memory_step, Name, memory_step, ~"B"},
        Measured,
        Test,
        fun(Size, V) ->
            {_, _, Beyond} = lists:keyfind(Size, 1, Measured),
            #{
                text => text("the memory of ~ts, ~ts ~ts, grows ~ts times as fast as at first", [
                    Name,
                    dyno_unit:format(V, ~"B"),
                    with(Size, Label),
                    times(Beyond * limit(memory_step))
                ]),
                advice => ~"Look for what is kept for longer, or copied more often, at that size."
            }
        end
    );
memory(_Name, _Points, _Test) ->
    [].

already(Size, [{Size, _}, _ | _]) -> "already ";
already(_Size, _Sizes) -> "".
