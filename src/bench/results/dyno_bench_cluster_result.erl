%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_cluster_result).
-moduledoc false.
%% Makes a recording of what a cluster did: for each node the throughput and the VM's figures over
%% the time, and the table `cluster`. Pure.

-export([document/3]).

-doc "The recording of samples, the oldest first; `Parameters` as in doc/recording.md.".
-spec document(#{atom() => term()}, [dyno_bench_cluster:sample()], Environment :: term()) ->
    dyno_recording:document().
document(#{codes := [Label]} = Parameters, Samples, Environment) ->
    #{interval_ms := IntervalMs} = Parameters,
    Times = times_ms(Samples, IntervalMs),
    Names = lists:uniq([Node || #{nodes := Nodes} <- Samples, #{node := Node} <- Nodes]),
    DurationNs = lists:max([0 | Times]) * 1_000_000,
    Run = #{
        size => length(Names),
        status => complete,
        duration_ns => DurationNs,
        nodes => [#{name => atom_to_binary(Name)} || Name <- Names],
        metrics => [
            #{
                name => ~"throughput",
                title => ~"Throughput of all nodes",
                value => Median,
                unit => ~"1/s",
                count => length(Samples),
                group => ~"bench"
            }
         || Median <- [dyno_stats:median([P || #{per_second := P} <- Samples])], is_number(Median)
        ],
        series => lists:append([series(Name, Label, Samples, Times) || Name <- Names]),
        tables => [table(Names, Samples)]
    },
    Document0 = dyno_recording:new(bench, Label, Parameters, Environment),
    Document1 = dyno_recording:add_run(Document0, Run),
    Document2 = dyno_recording:put(Document1, duration_ns, DurationNs),
    Document3 = dyno_recording:add_warnings(
        Document2, lists:append([lost(N, Samples) || N <- Names])
    ),
    dyno_recording:put(Document3, status, complete).

%% Since the start, an interval before the first.
-spec times_ms([dyno_bench_cluster:sample()], pos_integer()) -> [integer()].
times_ms([], _IntervalMs) -> [];
times_ms([#{time_ms := First} | _] = Samples, IntervalMs) ->
    [Ms - First + IntervalMs || #{time_ms := Ms} <- Samples].

-spec of_node(node(), [dyno_bench_cluster:sample()]) -> [dyno_bench_cluster:node_sample()].
of_node(Name, Samples) ->
    [S || #{nodes := Nodes} <- Samples, #{node := Node} = S <- Nodes, Node =:= Name].

-spec series(node(), binary(), [dyno_bench_cluster:sample()], [integer()]) -> [map()].
series(Name, Label, Samples, Times) ->
    Own = of_node(Name, Samples),
    Of = fun(Metric, Labels, Values) ->
        Metric#{node => atom_to_binary(Name), labels => Labels, times_ms => Times, values => Values}
    end,
    Throughput = #{
        name => ~"bench.throughput",
        title => <<"Throughput in ", (atom_to_binary(Name))/binary>>,
        unit => ~"1/s",
        group => ~"bench"
    },
    [
        Of(Throughput, #{code => Label}, [rate(S) || S <- Own])
        | [
            Of(Metric, #{}, [maps:get(Key, Values, undefined) || #{values := Values} <- Own])
         || #{name := Key} = Metric <- dyno_agent_vm:describe()
        ]
    ].

%% Nothing is known of an interval in which a node said nothing.
-spec rate(dyno_bench_cluster:node_sample()) -> float() | undefined.
rate(#{status := here, per_second := PerSecond}) -> PerSecond;
rate(_) -> undefined.

-spec table([node()], [dyno_bench_cluster:sample()]) -> map().
table(Names, Samples) ->
    Columns = [
        {~"node", ~"Node", string, undefined},
        {~"workers", ~"Workers", integer, ~"count"},
        {~"throughput", ~"Throughput, median", number, ~"1/s"},
        {~"lowest", ~"Lowest", number, ~"1/s"},
        {~"highest", ~"Highest", number, ~"1/s"},
        {~"samples", ~"Samples", integer, ~"count"}
    ],
    Rows = [node_row(Name, of_node(Name, Samples)) || Name <- Names],
    All = [P || #{per_second := P} <- Samples],
    Total = [
        [~"total", lists:sum([W || [_, W | _] <- Rows]) | spread(All)]
     || [_, _ | _] <- [Rows]
    ],
    dyno_recording_table:new(~"cluster", ~"Cluster", Columns, Rows ++ Total).

-spec node_row(node(), [dyno_bench_cluster:node_sample()]) -> [term()].
node_row(Name, Samples) ->
    Workers = [C || #{status := here, concurrency := C} <- Samples],
    [
        atom_to_binary(Name),
        lists:last([0 | Workers])
        | spread([P || #{status := here, per_second := P} <- Samples])
    ].

-spec spread([float()]) -> [term()].
spread([]) -> [undefined, undefined, undefined, 0];
spread(Values) -> [dyno_stats:median(Values), lists:min(Values), lists:max(Values), length(Values)].

-spec lost(node(), [dyno_bench_cluster:sample()]) -> [{binary(), binary()}].
lost(Name, Samples) ->
    Own = of_node(Name, Samples),
    Text = fun(Format, Arguments) -> unicode:characters_to_binary(
        io_lib:format(Format, Arguments)
    ) end,
    case {[x || #{status := lost} <- Own], [x || #{status := late} <- Own]} of
        {[_ | _] = Lost, _} ->
            [
                {
                    ~"lost",
                    Text(
                        "the connection to ~ts was lost; the last ~b samples are without it",
                        [Name, length(Lost)]
                    )
                }
            ];
        {[], [_ | _] = Late} ->
            [
                {
                    ~"late",
                    Text(
                        "~ts reported nothing in ~b of ~b intervals",
                        [Name, length(Late), length(Own)]
                    )
                }
            ];
        {[], []} ->
            []
    end.
