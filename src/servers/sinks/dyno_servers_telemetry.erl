%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_telemetry).
-moduledoc false.
%% Emits events of the library `telemetry`, if this node has it. Each window has one `[dyno,
%% servers, callback]` a callback, one `[dyno, servers, process]` and, for stages, one `[dyno,
%% servers, gen_stage]`. Handlers run in the sink's process.

-behaviour(dyno_servers_sink).

-export([open/1, write/2, close/1, format_error/1]).
%% For tests of the form.
-export([events/1]).

-type event() :: {[atom(), ...], #{atom() => number()}, #{atom() => term()}}.
-type reason() :: {absent, term()}.

-spec open(dyno_servers_sink:config()) -> {ok, binary(), none} | {error, {?MODULE, reason()}}.
open(_Config) ->
    case application:ensure_all_started(telemetry) of
        {ok, _} -> {ok, ~"telemetry, [dyno, servers, ...]", none};
        {error, Reason} -> {error, {?MODULE, {absent, Reason}}}
    end.

-spec write([dyno_servers_window:sum()], none) -> {dyno_servers_sink:written(), none}.
write(Sums, none) ->
    %% dyno does not depend on it.
    Telemetry = telemetry,
    ok = lists:foreach(
        fun({Name, Measurements, Metadata}) -> Telemetry:execute(Name, Measurements, Metadata) end,
        lists:flatmap(fun events/1, Sums)
    ),
    {{0, none}, none}.

-spec close(none) -> ok.
close(none) ->
    ok.

-spec format_error(reason()) -> unicode:chardata().
format_error({absent, {telemetry, {"no such file or directory", _}}}) ->
    "the library telemetry is not on the code path of this node; it is meant for dyno:servers/2";
format_error({absent, Reason}) ->
    io_lib:format("the library telemetry does not start in this node: ~0tP", [Reason, 8]).

-spec events(dyno_servers_window:sum()) -> [event()].
events(#{start_ns := StartNs, duration_ns := DurationNs} = Sum) ->
    Metadata = (dyno_servers_metrics:labels(Sum))#{
        window_start_ns => StartNs, window_ns => DurationNs
    },
    Groups = maps:groups_from_list(
        fun
            ({_, {callback, Name}, _}) -> {callback, #{callback => Name}};
            ({#{id := <<"process.", _/binary>>}, _, _}) -> {process, #{}};
            ({#{id := <<"gen_stage.", _/binary>>}, _, _}) -> {gen_stage, #{}}
        end,
        dyno_servers_metrics:points(Sum)
    ),
    [
        {
            [dyno, servers, Group],
            maps:from_list(lists:flatmap(fun measurements/1, Points)),
            maps:merge(Metadata, Label)
        }
     || {Group, Label} := Points <- maps:iterator(Groups, ordered)
    ].

%% The names are those of the metrics, which are few.
measurements({#{id := Id}, Label, Value}) ->
    [_Group | Parts] = binary:split(Id, ~".", [global]),
    Name = Parts ++ [Direction || {direction, Direction} <- [Label]],
    [{measurement(Name ++ Of), Number} || {Of, Number} <- numbers(Value)].

measurement(Parts) -> binary_to_atom(iolist_to_binary(lists:join(~"_", Parts))).

numbers(#{count := Count, max := Max} = Snapshot) ->
    Quantiles = [{~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}, {~"p999", 0.999}],
    [
        {[~"count"], Count},
        {[~"mean"], dyno_histogram:mean(Snapshot)},
        {[~"max"], Max}
        | [{[Name], dyno_histogram:quantile(Snapshot, Q)} || {Name, Q} <- Quantiles]
    ];
numbers(Number) ->
    [{[], Number}].
