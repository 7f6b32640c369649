%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_tables).
-moduledoc false.
%% The load's tables in the recording: errors, kinds of operations, phases, probes, load nodes.
%% Pure.

-export([tables/1]).

-import(dyno_recording_part, [table/5, column/4]).

-type part() :: #{atom() => term()}.

-doc "The tables of a run.".
-spec tables(dyno_load_result:t()) -> [part()].
tables(#{errors := Errors, duration_ns := DurationNs} = Result) ->
    errors(Errors) ++ operations(DurationNs, Result) ++ phases(Result) ++ probes(Result) ++
        load_nodes(Result).

errors([]) ->
    [];
errors(Errors) ->
    [
        table(
            ~"errors",
            ~"Errors",
            undefined,
            [
                column(~"reason", ~"Reason", string, undefined),
                column(~"count", ~"Count", integer, ~"count")
            ],
            [[Reason, Count] || {Reason, Count} <- Errors]
        )
    ].

operations(DurationNs, #{kinds := Kinds}) ->
    Rows = [
        [atom_to_binary(Kind) | figures(DurationNs, Snapshot)]
     || {Kind, Snapshot} <- lists:sort(maps:to_list(Kinds)), Kind =/= undefined
    ],
    [
        table(
            ~"operations",
            ~"Operations",
            undefined,
            [column(~"operation", ~"Operation", string, undefined) | columns()],
            Rows
        )
     || Rows =/= []
    ].

columns() ->
    [
        column(~"count", ~"Operations", integer, ~"count"),
        column(~"throughput", ~"Throughput", number, ~"1/s"),
        column(~"errors", ~"Errors", integer, ~"count"),
        column(~"errors_rate", ~"Share of errors", number, ~"ratio"),
        column(~"latency_p50", ~"Response time, p50", number, ~"ns"),
        column(~"latency_p99", ~"Response time, p99", number, ~"ns"),
        column(~"latency_max", ~"Response time, max", number, ~"ns"),
        column(~"service_p50", ~"Service time, p50", number, ~"ns"),
        column(~"service_p99", ~"Service time, p99", number, ~"ns")
    ].

figures(DurationNs, #{response := Response, successes := Ok, failures := Failed} = Snapshot) ->
    #{service := Service, in_time := InTime} = Snapshot,
    [
        Ok,
        InTime * 1.0e9 / max(1, DurationNs),
        Failed,
        Failed / max(1, Ok + Failed),
        dyno_histogram:quantile(Response, 0.5),
        dyno_histogram:quantile(Response, 0.99),
        dyno_histogram:quantile(Response, 1.0)
        %% Without an intended start both are the same.
        | [dyno_histogram:quantile(either(Service, Response), Q) || Q <- [0.5, 0.99]]
    ].

either(undefined, Response) -> Response;
either(Service, _Response) -> Service.

phases(#{parts := [_, _ | _] = Parts}) ->
    Rows = [
        [
            Name,
            Model,
            Start div 1_000_000,
            Length div 1_000_000,
            offered(Asked, Length),
            dropped(Asked, Total),
            word(dyno_load_verdict:of_part(Part))
            | figures(Length, Total)
        ]
     || #{
            name := Name,
            model := Model,
            start_ns := Start,
            duration_ns := Length,
            asked := Asked,
            total := Total
        } = Part <- Parts
    ],
    [
        table(
            ~"phases",
            ~"Phases",
            undefined,
            [
                column(~"phase", ~"Phase", string, undefined),
                column(~"model", ~"Model", string, undefined),
                column(~"start", ~"Start", integer, ~"ms"),
                column(~"duration", ~"Duration", integer, ~"ms"),
                column(~"offered", ~"Offered", number, ~"1/s"),
                column(~"dropped", ~"Dropped", integer, ~"count"),
                column(~"state", ~"State", string, undefined)
                | columns()
            ],
            Rows
        )
    ];
phases(_Report) ->
    [].

offered(undefined, _Length) -> undefined;
offered(Asked, Length) -> Asked * 1.0e9 / Length.

dropped(undefined, _Total) -> undefined;
dropped(Asked, #{started := Started}) -> max(0, round(Asked) - Started).

word(kept) -> ~"kept";
word(saturated) -> ~"saturated";
word(generator) -> ~"generator limited".

probes(#{search := #{tried := Tried}}) ->
    [
        table(
            ~"probes",
            ~"Search for the highest rate",
            undefined,
            [
                column(~"rate", ~"Rate", number, ~"1/s"),
                column(~"held", ~"Probes that held", integer, ~"count"),
                column(~"failed", ~"Probes that did not", integer, ~"count"),
                column(~"decision", ~"Decision", string, undefined),
                column(~"reason", ~"Reason", string, undefined)
            ],
            [
                [Rate, Held, Failed, Decision, reason(Decision, Why)]
             || #{
                    rate_per_s := Rate,
                    held := Held,
                    failed := Failed,
                    decision := Decision,
                    why := Why
                } <- Tried
            ]
        )
    ];
probes(_Report) ->
    [].

reason(failed, objective) -> ~"the objective did not hold";
reason(failed, saturated) -> ~"the target was saturated";
reason(failed, generator) -> ~"the generator was the bottleneck";
reason(_Decision, _Why) -> undefined.

load_nodes(#{nodes := [#{node := Node}]}) when Node =:= node() ->
    [];
load_nodes(#{nodes := Nodes}) ->
    [
        table(
            ~"load_nodes",
            ~"Load nodes",
            undefined,
            [
                column(~"node", ~"Node", string, undefined),
                column(~"workers", ~"Workers", integer, ~"count"),
                column(~"operations", ~"Operations", integer, ~"count"),
                column(~"errors", ~"Errors", integer, ~"count"),
                (column(~"clock_offset", ~"Clock ahead by", integer, ~"ns"))#{
                    help => ~"Of dyno's own monotonic clock; starts are corrected by it."
                },
                column(~"clock_uncertainty", <<"Clock, ±"/utf8>>, integer, ~"ns"),
                column(~"lost_at", ~"Went down at", integer, ~"ms")
            ],
            [
                [Node, Workers, Ok, Failed, Offset, Uncertain, LostAt]
             || #{
                    node := Node,
                    workers := Workers,
                    successes := Ok,
                    failures := Failed,
                    offset_ns := Offset,
                    uncertain_ns := Uncertain,
                    lost_at_ms := LostAt
                } <- Nodes
            ]
        )
    ].
