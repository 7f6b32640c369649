%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_findings).
-moduledoc false.
%% Findings about servers: saturated now, or soon, crashed, or not doing the work at all. Pure.

-export([tables/3, of_row/1, unseen/1]).

-import(dyno_recording_part, [text/2]).

%% Schedulers this busy do some work.
-define(WORK, 0.2).
%% Below this, the rate of saturation is not of interest.
-define(WORTH_SAYING, 0.1).
%% The least waiting messages of a growing queue.
-define(GROWS_BY, 10).
%% The least windows.
-define(GROWS_OVER, 2).
%% A smaller bound tells enough.
-define(LOOSE_NS, 5_000_000).
-define(MOST, 5).
%% Receiving a message and replying take some microseconds beside a callback.
-define(SHORT_NS, 20_000).

-define(DIVIDE, ~"Make its callbacks shorter, or divide its work among several processes.").

-spec tables(dyno_servers_total:t(), [dyno_servers_row:row()], Alarms :: [binary()]) ->
    [dyno_recording_table:table()].
tables(Total, Rows, Alarms) ->
    Servers = dyno_servers_total:servers(Total),
    Set = [dyno_finding:new(alarm, none, #{severity => warning, text => T}) || T <- Alarms],
    [dyno_finding:table(undefined, dyno_finding:in_order(Set)) || Set =/= []] ++
        [
            dyno_finding:table(Name, dyno_finding:in_order(of_node(OfNode, Of, ItsRows, Ns)))
         || #{node := Node, duration_ns := Ns} = OfNode <- dyno_servers_total:nodes(Total),
            Name <- [atom_to_binary(Node)],
            Of <- [[S || #{labels := #{node := In}} = S <- Servers, In =:= Name]],
            ItsRows <- [[Row || #{node := In} = Row <- Rows, In =:= Name]]
        ].

of_node(OfNode, Servers, Rows, DurationNs) ->
    Busy = lists:flatmap(fun of_row/1, dyno_servers_row:ranked(busy, Rows)),
    {Warnings, Notes} = lists:partition(fun(#{severity := Is}) -> Is =:= warning end, Busy),
    %% Processes of one name and module are one line, however many ended.
    ByName = [
        (dyno_servers_row:row(Sum, DurationNs))#{sum => Sum}
     || #{crashes := N} = Sum <- dyno_servers_window:group(name, Servers), N > 0
    ],
    Crashed = [crashed(Row) || Row <- dyno_servers_row:ranked(crashes, ByName)],
    first(Warnings ++ Notes) ++ first(Crashed) ++ others(OfNode, Servers) ++
        loose(Rows) ++ often(Rows) ++
        [
            dyno_finding:new(level, none, #{
                severity => note,
                text => text("measured at ~ts", [dyno_servers_recording:level(OfNode)])
            })
        ].

first(Findings) when length(Findings) =< ?MOST ->
    Findings;
first(Findings) ->
    {First, [#{severity := Severity} | _] = Rest} = lists:split(?MOST, Findings),
    Text = text("~b more servers have a finding; the table of servers has all", [length(Rest)]),
    First ++ [dyno_finding:new(more, none, #{severity => Severity, text => Text})].

%% Of few messages, the looks at a queue do not tell when they came.
loose(Rows) ->
    Names = [
        Name
     || #{name := Name, waited_p99 := {undefined, _, Ns}} <- Rows, is_integer(Ns), Ns > ?LOOSE_NS
    ],
    [
        dyno_finding:new(waits, none, #{
            severity => note,
            text => text(
                "how long messages to ~ts~ts waited has only an upper bound (<): they came between "
                "two looks at the queue, and may have come at any time between",
                [hd(Names), [[" and ", number(N), " more"] || N <- [length(Names) - 1], N > 0]]
            )
        })
     || Names =/= []
    ].

%% The runtime times only the others, beside the hook.
often(Rows) ->
    case [Name || #{name := Name, sum := Sum} <- Rows, not dyno_servers_window:is_timed(Sum)] of
        [] ->
            [];
        [Name | More] ->
            Text = text(
                "how long ~ts~ts ran on a processor is not known: of servers that are called this "
                "often only the wall time is measured",
                [Name, [[" and ", number(N), " more"] || N <- [length(More)], N > 0]]
            ),
            [dyno_finding:new(often, none, #{severity => note, text => Text})]
    end.

-doc "The finding that a server is saturated, or its rate at saturation, if of interest.".
-spec of_row(dyno_servers_row:row()) -> [dyno_finding:t()].
of_row(#{alive := 0}) ->
    [];
of_row(#{running := <<Running/binary>>, queue_now := Queue} = Row) ->
    Text = text("still in ~ts, while ~ts", [Running, waiting(Queue)]),
    [finding(long_callback, long_callback, warning, Text, #{}, Row)];
of_row(#{arrival_rate := Arrivals, rate := Rate, queue_now := Queue} = Row) when
    is_number(Arrivals), Queue >= ?GROWS_BY
->
    Behind = Arrivals / max(Rate, 1.0e-9),
    case Behind > dyno_finding_limits:value(server_behind) andalso grows(Row) of
        true ->
            Text = text("~ts come, ~ts are done: its queue of ~ts grows", [
                dyno_unit:format(Arrivals, ~"1/s"), dyno_unit:format(Rate, ~"1/s"), number(Queue)
            ]),
            [finding(behind, server_behind, warning, Text, #{value => Behind}, Row)];
        false ->
            backlog(Row)
    end;
of_row(Row) ->
    busy(Row).

%% Also if the queue does not grow.
backlog(#{rate := Rate, queue_now := Queue} = Row) when is_number(Rate) ->
    WaitNs = Queue * 1.0e9 / max(Rate, 1.0e-9),
    case WaitNs >= dyno_finding_limits:value(server_backlog) of
        true when Rate > 0 ->
            Text = text("~ts, ~ts of work at ~ts", [
                waiting(Queue), dyno_unit:format(WaitNs, ~"ns"), dyno_unit:format(Rate, ~"1/s")
            ]),
            [finding(backlog, server_backlog, warning, Text, #{value => WaitNs}, Row)];
        true ->
            Text = text("~ts, and none was done", [waiting(Queue)]),
            Advice = ~"Find where it hangs: a profile shows its stack, and what it waits for.",
            [finding(backlog, server_backlog, warning, Text, #{advice => Advice}, Row)];
        false ->
            busy(Row)
    end;
backlog(Row) ->
    busy(Row).

%% A queue that comes down again does not grow, however the time ended.
grows(#{sum := #{queue_lows := Lows}}) when length(Lows) >= ?GROWS_OVER ->
    {Early, Late} = lists:split(length(Lows) div 2, Lows),
    lists:min(Late) - lists:min(Early) >= ?GROWS_BY;
grows(_Row) ->
    false.

busy(#{busy_low := Least} = Row) when is_number(Least) ->
    Times = hd([1 / Least || is_number(map_get(busy, Row)), Least > 0] ++ [undefined]),
    full(Row#{busy := Least, saturates_at := Times});
busy(Row) ->
    full(Row).

full(#{busy := Busy, rate := Rate, saturates_at := Times} = Row) when
    is_number(Busy), Busy >= ?WORTH_SAYING
->
    case Busy >= dyno_finding_limits:value(server_full) of
        true ->
            Text = text("saturated: busy all of the time, at ~ts", [
                dyno_unit:format(Rate, ~"1/s")
            ]),
            [finding(saturated, server_full, warning, Text, #{value => Busy}, Row)];
        false when is_number(Times) ->
            Scale = hd([100 || Times < 1.1] ++ [10]),
            Text = text("saturates at ~ts~ts times today's rate", [
                [~"less than " || saturates_before(Row)],
                float_to_binary(floor(Times * Scale) / Scale, [{decimals, 2}, compact])
            ]),
            [finding(saturates, server_full, note, Text, #{value => Busy, advice => ~""}, Row)];
        false ->
            []
    end;
full(_Row) ->
    [].

%% Not all callbacks were timed; or they are short, and a server's work around them counts.
is_at_least(Row) -> is_number(maps:get(busy_low, Row, undefined)).

saturates_before(#{mean := Mean}) when is_number(Mean), Mean < ?SHORT_NS -> true;
saturates_before(Row) -> is_at_least(Row).

crashed(#{crashes := Crashes, sum := #{ends_unknown := Unknown}} = Row) ->
    AtLeast = [~"at least " || Unknown > 0],
    Text = text("crashed ~ts~ts: ~ts", [AtLeast, times(Crashes), maps:get(reasons, Row, ~"")]),
    Advice = ~"Read its crash reports in the log of the node; its callers fail, too.",
    finding(crashes, restarts, warning, Text, #{value => Crashes, advice => Advice}, Row).

finding(Check, Limit, Severity, Text, Fields, #{name := Name, node := Node} = Row) ->
    Given = #{
        severity => Severity,
        subject => Name,
        text => text("~ts: ~ts", [Name, Text]),
        evidence => details(Row),
        advice => ?DIVIDE,
        look_closer => text("~ts", [
            [["dyno profile ", Node, " \"", Of, "\""] || Of <- operand(Name, Row)]
        ])
    },
    dyno_finding:new(Check, Limit, maps:merge(Given, Fields)).

%% A command takes only unique local names and modules, of what is there.
operand(_Name, #{alive := 0}) ->
    [];
operand(_Name, #{processes := N, module := Module}) when N > 1 ->
    [Module];
operand(_Name, #{sum := #{kind := Kind}, pid := Pid}) when Kind =:= named; Kind =:= label ->
    [Pid];
operand(Name, Row) ->
    case binary:match(Name, ~" ") of
        nomatch -> [Name];
        _ -> [Pid || #{pid := Pid} <- [Row]]
    end.

waiting(1) -> ~"1 message waits";
waiting(Queue) -> [number(Queue), " messages wait"].

times(1) -> "once";
times(N) -> [number(N), " times"].

number(N) -> dyno_unit:format(N, ~"count").

details(Row) ->
    Least = maps:get(busy_low, Row, undefined),
    Known = maps:merge(Row, #{busy => B || B <- [Least], is_number(B)}),
    Parts =
        [
            [Before, dyno_unit:format(Value, Unit)]
         || {Key, Worth, Before, Unit} <- [
                {busy, 0.0, ["busy ", [~"at least " || is_at_least(Row)]], ~"ratio"},
                {blocked, 0.2, "blocked ", ~"ratio"},
                {queue_max, 2, "longest queue ", ~"count"}
            ],
            #{Key := Value} <- [Known],
            is_number(Value),
            Value >= Worth
        ] ++ waits(Row) ++ most(maps:get(tags, maps:get(sum, Row, #{}), [])),
    text("~ts", [[[string:titlecase(text("~ts.", [lists:join(", ", Parts)]))] || Parts =/= []]]).

waits(#{waited_p99 := {Ns, _, HighNs}}) when is_number(Ns) ->
    AtLeast = [~"at least " || HighNs =:= undefined],
    [["messages wait ", AtLeast, dyno_unit:format(Ns, ~"ns"), " at the p99"]];
waits(_Row) ->
    [].

%% The kind of message with at least half of the time, if there are several.
most([_, _ | _] = Tags) ->
    All = lists:sum([Ns || #{wall_ns := Ns} <- Tags]),
    [
        ["most of it in ", Kind, ", ", dyno_unit:format(Ns / Count, ~"ns"), " each"]
     || #{wall_ns := Ns, count := Count, tag := Kind} <- Tags, Count > 0, 2 * Ns > All
    ];
most(_OneKind) ->
    [].

%% Servers that do not do the work: in Cowboy, connections are no servers. Unknown if half measured.
others(#{node := Node, schedulers_busy := Busy, duration_ns := Ns} = OfNode, Servers) ->
    [
        dyno_finding:new(others, none, #{
            severity => note,
            value => Busy,
            unit => ~"ratio",
            text => text(
                "its schedulers were busy for ~ts of the time, and these servers for ~ts of one: "
                "other processes do its work",
                [dyno_unit:format(Busy, ~"ratio"), dyno_unit:format(OfServers, ~"ratio")]
            ),
            advice => ~"See with a profile which processes and functions do it.",
            look_closer => text("dyno profile ~ts", [Node])
        })
     || Busy >= ?WORK,
        is_mostly_counted(Servers),
        unseen(OfNode) =:= 0,
        OfServers <- [lists:sum([in_callbacks(S) || S <- Servers]) / max(1, Ns)],
        OfServers < Busy / 10
    ].

is_mostly_counted(Servers) ->
    Sum = fun(Key) -> lists:sum([map_get(Key, Server) || Server <- Servers]) end,
    2 * Sum(counted_ns) >= Sum(process_ns).

-spec unseen(dyno_servers_window:of_node()) -> non_neg_integer().
unseen(OfNode) -> maps:get(calls, maps:get(unseen, OfNode, #{}), 0).

%% Assumes that the unmeasured time was like the measured.
in_callbacks(#{process_ns := ProcessNs} = Sum) ->
    #{busy_ns := BusyNs, busy_of_ns := BusyOfNs, cpu_ns := CpuNs, cpu_of_ns := CpuOfNs} = Sum,
    Pairs = [{BusyNs, BusyOfNs}, {CpuNs, CpuOfNs}],
    Shares = [Ns / OfNs || {Ns, OfNs} <- Pairs, is_integer(Ns), OfNs > 0],
    ProcessNs * lists:max([0.0 | Shares]).
