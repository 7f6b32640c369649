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

%% The columns of some operations in a time; `Of` gives both.
measured(Of) ->
    [
        {Name, Title, Type, Better, fun(Item) ->
            {DurationNs, Snapshot} = Of(Item),
            Value(DurationNs, Snapshot)
        end}
     || {Name, Title, Type, Better, Value} <- [
            {~"count", ~"Operations", count, higher, fun(_, #{successes := Ok}) -> Ok end},
            {~"throughput", ~"Throughput", {number, ~"1/s"}, higher, fun(Ns, Snapshot) ->
                dyno_load_recorder:per_s(Snapshot, Ns)
            end},
            {~"errors", ~"Errors", count, lower, fun(_, #{failures := Failed}) -> Failed end},
            {~"errors_rate", ~"Share of errors", ratio, lower, fun error_rate/2},
            time(~"latency_p50", ~"Response time, p50", response, 0.5),
            time(~"latency_p99", ~"Response time, p99", response, 0.99),
            time(~"latency_max", ~"Response time, max", response, 1.0),
            time(~"service_p50", ~"Service time, p50", service, 0.5),
            time(~"service_p99", ~"Service time, p99", service, 0.99)
        ]
    ].

error_rate(_Ns, #{successes := Ok, failures := Failed}) -> Failed / max(1, Ok + Failed).

time(Name, Title, Key, Quantile) ->
    {Name, Title, {number, ~"ns"}, lower, fun(_, Snapshot) ->
        dyno_histogram:quantile(histogram(Key, Snapshot), Quantile)
    end}.

%% Without an intended start both are the same.
histogram(service, #{service := undefined, response := Response}) -> Response;
histogram(Key, Snapshot) -> map_get(Key, Snapshot).

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
