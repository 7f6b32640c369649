%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_tables).
-moduledoc false.
%% A load's tables in a recording. Pure.

-export([tables/1, specs/0]).

-spec tables(dyno_load_result:t()) -> [#{atom() => term()}].
tables(#{errors := Errors, duration_ns := DurationNs, parts := Parts} = Result) ->
    Operations = [
        {Operation, DurationNs, Snapshot}
     || {Operation, Snapshot} <- dyno_load_result:named_operations(Result)
    ],
    [
        dyno_recording_table:make(Spec, Items)
     || {Spec, [_ | _] = Items} <- [
            {errors(), Errors},
            {operations(), Operations},
            {phases(), [Part || Part <- Parts, length(Parts) > 1]},
            {probes(), maps:get(tried, maps:get(search, Result, #{}), [])},
            {load_nodes(), apart(Result)}
        ]
    ].

-spec specs() -> [dyno_recording_table:spec()].
specs() -> [errors(), operations(), phases(), probes(), load_nodes()].

apart(#{nodes := [#{node := Node}]}) when Node =:= node() -> [];
apart(#{nodes := Nodes}) -> Nodes.

errors() ->
    #{
        name => ~"errors",
        title => ~"Errors",
        columns => [
            {~"reason", ~"Reason", string, 1},
            {~"count", ~"Count", count, lower, 2},
            {~"stack", ~"The stack of one of them", string, note, 3}
        ]
    }.

operations() ->
    #{
        name => ~"operations",
        title => ~"Operations",
        columns => [
            {~"operation", ~"Operation", string, 1}
            | measured(fun({_, DurationNs, Snapshot}) -> {DurationNs, Snapshot} end)
        ]
    }.

phases() ->
    #{
        name => ~"phases",
        title => ~"Phases",
        columns => [
            {~"phase", ~"Phase", string, name},
            {~"model", ~"Model", string, model},
            {~"start", ~"Start", {integer, ~"ms"}, fun(#{start_ns := Ns}) -> Ns div 1_000_000 end},
            {~"duration", ~"Duration", {integer, ~"ms"}, fun(#{duration_ns := Ns}) ->
                Ns div 1_000_000
            end},
            {~"offered", ~"Offered", {number, ~"1/s"}, fun offered/1},
            {~"dropped", ~"Dropped", count, lower, fun dyno_load_result:dropped/1},
            {~"state", ~"State", string, fun(Part) -> state(dyno_load_verdict:of_part(Part)) end}
            | measured(fun(#{duration_ns := Ns, total := Total}) -> {Ns, Total} end)
        ]
    }.

offered(#{arrivals := undefined}) -> undefined;
offered(#{arrivals := Arrivals, duration_ns := LengthNs}) -> Arrivals * 1.0e9 / LengthNs.

state(kept) -> ~"kept";
state(saturated) -> ~"saturated";
state(generator) -> ~"generator limited".

%% The columns of some operations in a time, from their metrics; `Of` gives both.
measured(Of) ->
    Times = [~"latency.p50", ~"latency.p99", ~"latency.max", ~"service.p50", ~"service.p99"],
    [
        {Name, Title, Type, Better, fun(Item) -> measured(Value, Of(Item)) end}
     || {Name, Metric, Type, Better} <- [
            {~"count", ~"operations.count", count, higher},
            {~"throughput", ~"throughput", {number, ~"1/s"}, higher},
            {~"errors", ~"errors.count", count, lower},
            {~"errors_rate", ~"errors.rate", ratio, lower}
            | [{binary:replace(M, ~".", ~"_"), M, {number, ~"ns"}, lower} || M <- Times]
        ],
        {Found, Title, _, Value} <- dyno_load_metrics:operations(),
        Found =:= Metric
    ].

%% Without an intended start both times are the same.
measured(Value, {DurationNs, #{service := undefined, response := Response} = Snapshot}) ->
    measured(Value, {DurationNs, Snapshot#{service := Response}});
measured(Value, Measured) ->
    case Value(Measured) of
        {Number, _} when is_number(Number) -> Number;
        _ -> undefined
    end.

probes() ->
    #{
        name => ~"probes",
        title => ~"Search for the highest rate",
        columns => [
            {~"rate", ~"Rate", {number, ~"1/s"}, key, rate_per_s},
            {~"held", ~"Probes that held", count, held},
            {~"failed", ~"Probes that did not", count, failed},
            {~"decision", ~"Decision", string, decision},
            {~"reason", ~"Reason", string, fun reason/1}
        ]
    }.

reason(#{why := objective}) -> ~"the objective did not hold";
reason(#{why := saturated}) -> ~"the target was saturated";
reason(#{why := generator}) -> ~"the generator was the bottleneck";
reason(_Held) -> undefined.

load_nodes() ->
    Ahead = ~"Above 0 is ahead of dyno's clock, below is behind; starts are corrected.",
    #{
        name => ~"load_nodes",
        title => ~"Load nodes",
        columns => [
            {~"node", ~"Node", string, node},
            {~"workers", ~"Workers", count, workers},
            {~"operations", ~"Operations", count, successes},
            {~"errors", ~"Errors", count, failures},
            {~"clock_offset", ~"Clock, + ahead", ns, Ahead, offset_ns},
            {~"clock_uncertainty", <<"Clock, ±"/utf8>>, ns, uncertain_ns},
            {~"lost_at", ~"Went down at", {integer, ~"ms"}, lost_at_ms}
        ]
    }.
