%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_parts).
-moduledoc false.
%% A window of servers in the recording of a test: the tables of servers and of their callbacks,
%% histograms, and warnings where something could not be measured. Servers of one name and module
%% are one row. Pure, and needed on the caller's side only.

-export([tables/0, metrics/0, histograms/0, warnings/2]).

-type window() :: dyno_agent_servers:window().
-type row() :: #{atom() => term()}.

%% Of which histograms are recorded: those of the callbacks that took most.
-define(MOST_HISTOGRAMS, 50).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    [
        #{
            name => ~"servers",
            title => ~"Servers",
            items => fun servers/1,
            columns => [
                {~"server", ~"Server", string, #{role => key}, fun(#{name := Name}) -> Name end},
                {~"module", ~"Module", string, #{role => key}, fun(#{module := Module}) ->
                    atom_to_binary(Module)
                end},
                {~"processes", ~"Processes", count, fun(#{processes := N}) -> N end},
                {~"served", ~"Messages", count, fun(#{served := N}) -> N end},
                {~"busy", ~"Busy", {number, ~"ratio"},
                    #{
                        better => lower,
                        help => ~"The share of the time in callbacks; the sum of several processes."
                    },
                    fun(#{busy := Busy}) -> Busy end},
                {~"cpu", ~"On the processor", ns, #{better => lower}, fun(#{cpu_ns := Ns}) ->
                    Ns
                end},
                {~"delay", ~"Wait for service, p99", ns,
                    #{
                        better => lower,
                        help => ~"From a message's arrival to the start of its callback."
                    },
                    fun(#{delay := Buckets}) -> quantile(0.99, Buckets) end},
                {~"queue_max", ~"Longest queue", count, #{better => lower}, fun
                    (#{queue_max := N}) -> N
                end},
                {~"crashes", ~"Crashes", count, #{better => lower}, fun(#{crashes := N}) -> N end}
            ],
            sort => {~"busy", descending}
        },
        #{
            name => ~"callbacks",
            title => ~"Callbacks of servers",
            items => fun callbacks/1,
            columns => [
                {~"server", ~"Server", string, #{role => key}, fun(#{name := Name}) -> Name end},
                {~"callback", ~"Callback", string, #{role => key}, fun(#{callback := Name}) ->
                    Name
                end},
                {~"calls", ~"Calls", count, fun(#{count := N}) -> N end},
                {~"exceptions", ~"Exceptions", count, #{better => lower}, fun
                    (#{exceptions := N}) -> N
                end},
                {~"time", ~"Time", ns, #{better => lower}, fun(#{sum_ns := Ns}) -> Ns end},
                {~"p50", ~"p50", ns, #{better => lower}, fun(#{buckets := Buckets}) ->
                    quantile(0.5, Buckets)
                end},
                {~"p99", ~"p99", ns, #{better => lower}, fun(#{buckets := Buckets}) ->
                    quantile(0.99, Buckets)
                end}
            ],
            sort => {~"time", descending}
        }
    ].

servers(#{servers := []}) ->
    none;
servers(#{servers := Servers, duration_ns := DurationNs}) ->
    [
        #{
            name => Name,
            module => Module,
            processes => length(Of),
            served => sum(served, Of),
            busy => sum(wall_ns, Of) / DurationNs,
            cpu_ns => sum(cpu_ns, Of),
            delay => merged([H || #{delay := #{histogram := H}} <- Of]),
            queue_max => lists:max([Max || #{queue := #{max := Max}} <- Of]),
            crashes => length([crashed || #{state := crashed} <- Of])
        }
     || {{Name, Module}, Of} <- by_name(Servers)
    ].

by_name(Servers) ->
    maps:to_list(
        maps:groups_from_list(fun(#{name := Name, module := Module}) -> {Name, Module} end, Servers)
    ).

sum(Key, Maps) ->
    lists:sum([Value || #{Key := Value} <- Maps, is_number(Value)]).

-spec callbacks(window()) -> [row()] | none.
callbacks(#{servers := Servers}) ->
    Rows = [
        #{
            name => Name,
            module => Module,
            callback => Callback,
            count => sum(count, Calls),
            exceptions => sum(exceptions, Calls),
            sum_ns => sum(sum_ns, Calls),
            buckets => merged([Wall || #{wall := Wall} <- Calls])
        }
     || {{Name, Module}, Of} <- by_name(Servers),
        {Callback, Calls} <- maps:to_list(
            maps:groups_from_list(
                fun(#{name := Callback}) -> Callback end,
                lists:append([Callbacks || #{callbacks := Callbacks} <- Of])
            )
        )
    ],
    case Rows of
        [] -> none;
        _ -> lists:sort(fun(A, B) -> map_get(sum_ns, A) >= map_get(sum_ns, B) end, Rows)
    end.

merged(Histograms) ->
    lists:foldl(
        fun dyno_agent_server_process:merge_buckets/2,
        [],
        [Buckets || #{buckets := Buckets} <- Histograms]
    ).

quantile(_Q, []) ->
    undefined;
quantile(Q, Buckets) ->
    Rank = max(1, ceil(Q * lists:sum([Count || {_, Count} <- Buckets]))),
    {Low, High} = dyno_agent_server_counters:bounds(at(Rank, Buckets)),
    (Low + High - 1) div 2.

at(Rank, [{Index, Count} | _]) when Rank =< Count -> Index;
at(Rank, [{_, Count} | Buckets]) -> at(Rank - Count, Buckets).

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => ~"instrument.servers",
            title => ~"What measuring servers took of the time of one scheduler",
            unit => ~"ratio",
            group => ~"instrument",
            value => fun(Windows) ->
                {
                    lists:max([Cost || #{cost := Cost} <- Windows]),
                    lists:sum([length(Servers) || #{servers := Servers} <- Windows])
                }
            end
        }
    ].

-spec histograms() -> [dyno_agent_instrument:histogram()].
histograms() ->
    [
        #{
            name => ~"server.callback",
            title => ~"Durations of callbacks",
            unit => ~"ns",
            group => ~"servers",
            items => fun(Window) ->
                case callbacks(Window) of
                    none ->
                        [];
                    Rows ->
                        Timed = [Row || #{buckets := [_ | _]} = Row <- Rows],
                        [histogram(Row) || Row <- lists:sublist(Timed, ?MOST_HISTOGRAMS)]
                end
            end
        }
    ].

histogram(#{name := Name, callback := Callback, buckets := Buckets}) ->
    #{sum := Sum, min := Min, max := Max} = dyno_agent_server_counters:histogram(Buckets),
    #{
        labels => #{server => Name, callback => Callback},
        count => lists:sum([Count || {_, Count} <- Buckets]),
        sum => Sum,
        min => Min,
        max => Max,
        buckets => [
            {Low, High, Count}
         || {Index, Count} <- Buckets, {Low, High} <- [dyno_agent_server_counters:bounds(Index)]
        ]
    }.

-spec warnings(Role :: binary(), window()) -> [dyno_agent_instrument:warning()].
warnings(Role, #{unselected := Unselected, stepped_down := Why} = Window) ->
    #{servers := Servers, asked := Asked, level := Level} = Window,
    Unhooked = [
        Pid
     || #{pid := Pid, measured := call_time, why_not_hook := <<_/binary>>} <- Servers
    ],
    [
        {~"servers_left_out",
            "~ts servers of ~ts are more than are measured: nothing is known of them",
            [{Unselected, ~"count"}, Role]}
     || Unselected > 0
    ] ++
        [
            {~"servers_level", "the servers of ~ts were measured at the level ~ts, not ~ts: ~ts",
                [Role, Level, Asked, Why]}
         || is_binary(Why)
        ] ++
        [
            {~"servers_without_hook",
                "~ts servers of ~ts could not measure themselves: of their callbacks only the time "
                "on the processor is known",
                [{length(Unhooked), ~"count"}, Role]}
         || Unhooked =/= []
        ].
