%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_cluster_result).
-moduledoc false.
%% A recording of a cluster: each node's throughput and VM state, and the table `cluster`. Pure.

-export([document/4]).

-doc "Oldest sample first. doc/recording.md describes `Parameters`.".
-spec document(
    complete | interrupted, #{atom() => term()}, [dyno_bench_cluster:sample()], term()
) -> dyno_recording:document().
document(Status, #{codes := [Label]} = Parameters, Samples, Environment) ->
    #{interval_ms := IntervalMs} = Parameters,
    TimesMs = times_ms(Samples, IntervalMs),
    Nodes = [
        {Name, [S || #{nodes := Nodes} <- Samples, #{node := Node} = S <- Nodes, Node =:= Name]}
     || Name <- lists:uniq([Node || #{nodes := Nodes} <- Samples, #{node := Node} <- Nodes])
    ],
    Totals = [PerSecond || #{per_second := PerSecond} <- Samples],
    DurationNs = lists:max([0 | TimesMs]) * 1_000_000,
    Lost =
        #{
            Name => {lost, IntervalMs * 1_000_000 * length([x || #{status := here} <- Of])}
         || {Name, [_ | _] = Of} <- Nodes, #{status := lost} <- [lists:last(Of)]
        },
    Seen = dyno_recording_cut_short:nodes([Name || {Name, _} <- Nodes], Lost, DurationNs),
    Ending = dyno_recording_cut_short:ended(Status, undefined, Seen),
    Run = #{
        status => dyno_recording_cut_short:of_run(Ending),
        duration_ns => DurationNs,
        nodes => [#{name => atom_to_binary(Name)} || {Name, _} <- Nodes],
        metrics => [
            dyno_recording_part:metric(
                ~"throughput", ~"Throughput of all nodes", Median, ~"1/s", length(Samples), ~"bench"
            )
         || Median <- [dyno_stats:median(Totals)], is_number(Median)
        ],
        series => lists:append([series(Node, Label, TimesMs) || Node <- Nodes]),
        tables => [table(Nodes, Totals)]
    },
    Document = dyno_bench_result:ended(
        dyno_recording:new(bench, Label, Parameters, Environment),
        [Run],
        DurationNs,
        lists:append([findings(Node) || Node <- Nodes])
    ),
    dyno_recording_cut_short:put(Ending, Document).

%% Since the start, which is an interval before the first sample.
times_ms([], _IntervalMs) ->
    [];
times_ms([#{time_ms := First} | _] = Samples, IntervalMs) ->
    [Ms - First + IntervalMs || #{time_ms := Ms} <- Samples].

series({Name, Samples}, Label, TimesMs) ->
    Title = <<"Throughput in ", (atom_to_binary(Name))/binary>>,
    %% An interval without a node's report is unknown.
    Rates = [
        case Sample of
            #{status := here, per_second := PerSecond} -> PerSecond;
            _ -> undefined
        end
     || Sample <- Samples
    ],
    Throughput = dyno_recording_part:series(
        ~"bench.throughput", ~"1/s", ~"bench", Title, Name, TimesMs, Rates
    ),
    [
        Throughput#{labels := #{code => Label}}
        | [
            Metric#{
                node => Name,
                times_ms => TimesMs,
                values => [maps:get(Key, Values, undefined) || #{values := Values} <- Samples]
            }
         || #{name := Key} = Metric <- dyno_agent_vm:describe()
        ]
    ].

table(Nodes, Totals) ->
    Items = [
        #{
            node => Name,
            workers => lists:last([0 | [C || #{status := here, concurrency := C} <- Samples]]),
            rates => [P || #{status := here, per_second := P} <- Samples]
        }
     || {Name, Samples} <- Nodes
    ],
    Total = [
        #{
            node => ~"total",
            workers => lists:sum([Workers || #{workers := Workers} <- Items]),
            rates => Totals
        }
     || length(Items) > 1
    ],
    dyno_recording_table:make(spec(), Items ++ Total).

spec() ->
    Rates = fun(Of) ->
        fun
            (#{rates := []}) -> undefined;
            (#{rates := Rates}) -> Of(Rates)
        end
    end,
    Rate = {number, ~"1/s"},
    #{
        name => ~"cluster",
        title => ~"Cluster",
        columns => [
            {~"node", ~"Node", string, node},
            {~"workers", ~"Workers", count, workers},
            {~"throughput", ~"Throughput, median", Rate, higher, Rates(fun dyno_stats:median/1)},
            {~"lowest", ~"Lowest", Rate, higher, Rates(fun lists:min/1)},
            {~"highest", ~"Highest", Rate, higher, Rates(fun lists:max/1)},
            {~"samples", ~"Samples", count, fun(#{rates := Of}) -> length(Of) end}
        ]
    }.

findings({Name, Samples}) ->
    case {[x || #{status := lost} <- Samples], [x || #{status := late} <- Samples]} of
        {[_ | _] = Lost, _} ->
            Text = "the connection to ~ts was lost; the last ~b samples are incomplete",
            [doubt(lost, Text, [Name, length(Lost)])];
        {[], [_ | _] = Late} ->
            Text = "~ts reported nothing in ~b of ~b intervals",
            [doubt(late, Text, [Name, length(Late), length(Samples)])];
        {[], []} ->
            []
    end.

doubt(Check, Format, Arguments) ->
    dyno_bench_findings:doubt(Check, dyno_recording_part:text(Format, Arguments), <<
        "Look at the node and the network; the throughput of all lacks this node."
    >>).
