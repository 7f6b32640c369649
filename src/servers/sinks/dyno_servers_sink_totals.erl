%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_sink_totals).
-moduledoc false.
%% Sums windows up, for receivers of counters and histograms that only grow. Servers and points of
%% each are bounded. Servers without a point for five minutes are forgotten, gauges after three
%% windows. Pure: the caller gives the time.

-export([new/0, add/3, servers/2, format_error/1]).
-export_type([t/0, server/0, point/0, reason/0]).

-opaque t() :: #{dyno_servers_metrics:labels() => kept()}.

-type kept() :: #{
    %% By the node's clock, since 1970: start of the first window, end of the last one.
    since_ns := integer(),
    until_ns := integer(),
    added_ms := integer(),
    fresh_ms := non_neg_integer(),
    points := #{
        {Id :: binary(), dyno_servers_metrics:label()} => {dyno_servers_metrics:metric(), value()}
    }
}.

-type value() :: number() | {Counts :: [non_neg_integer(), ...], Sum :: number()}.

-type server() :: #{
    labels := dyno_servers_metrics:labels(),
    since_ns := integer(),
    until_ns := integer(),
    points := [point()]
}.

-doc "A histogram's counts are by the buckets of `dyno_servers_metrics:bounds/1`, not cumulative.".
-type point() :: {Id :: binary(), dyno_servers_metrics:label(), value()}.

-type reason() :: too_many.

-define(MOST_SERVERS, 1_000).
-define(MOST_POINTS, 1_000).
-define(FORGOTTEN_MS, 300_000).
-define(FRESH_WINDOWS, 3).

-spec new() -> t().
new() ->
    #{}.

-doc "Adds a window; returns the servers and points left out beyond the limits.".
-spec add([dyno_servers_window:sum()], NowMs :: integer(), t()) ->
    {dyno_servers_sink:written(), t()}.
add(Sums, NowMs, Totals) ->
    Remembered = maps:filter(
        fun(_, #{added_ms := AddedMs}) -> NowMs - AddedMs =< ?FORGOTTEN_MS end, Totals
    ),
    {LeftOut, Added} = lists:foldl(
        fun(Sum, {Left, All}) ->
            Labels = dyno_servers_metrics:labels(Sum),
            case server(Labels, Sum, All) of
                full ->
                    {Left + 1, All};
                Server ->
                    {More, Kept} = add_sum(Sum, NowMs, Server),
                    {Left + More, All#{Labels => Kept}}
            end
        end,
        {0, Remembered},
        Sums
    ),
    {{LeftOut, why(LeftOut)}, Added}.

why(0) -> none;
why(_) -> {?MODULE, too_many}.

server(Labels, #{start_ns := StartNs}, Totals) ->
    case Totals of
        #{Labels := Server} -> Server;
        #{} when map_size(Totals) < ?MOST_SERVERS -> #{since_ns => StartNs, points => #{}};
        #{} -> full
    end.

add_sum(#{start_ns := StartNs, duration_ns := Ns} = Sum, NowMs, #{points := Points} = Server) ->
    {LeftOut, Added} = lists:foldl(
        fun({#{id := Id, type := Type} = Metric, Label, Value}, {Left, All}) ->
            Key = {Id, Label},
            New = kept(Metric, Value),
            case All of
                #{Key := {_, Old}} -> {Left, All#{Key := {Metric, plus(Type, Old, New)}}};
                #{} when map_size(All) < ?MOST_POINTS -> {Left, All#{Key => {Metric, New}}};
                #{} -> {Left + 1, All}
            end
        end,
        {0, Points},
        dyno_servers_metrics:points(Sum)
    ),
    {LeftOut, Server#{
        until_ns => StartNs + Ns,
        added_ms => NowMs,
        fresh_ms => ?FRESH_WINDOWS * Ns div 1_000_000,
        points := Added
    }}.

kept(#{type := histogram, unit := Unit}, #{sum := Sum} = Snapshot) ->
    {dyno_servers_metrics:counts(Snapshot, Unit), Sum};
kept(_Metric, Value) ->
    Value.

plus(gauge, _Old, New) ->
    New;
plus(counter, Old, New) ->
    Old + New;
plus(histogram, {Counts, Sum}, {More, Plus}) ->
    {lists:zipwith(fun(A, B) -> A + B end, Counts, More), Sum + Plus}.

-spec servers(NowMs :: integer(), t()) -> [server()].
servers(NowMs, Totals) ->
    [
        #{
            labels => Labels,
            since_ns => SinceNs,
            until_ns => UntilNs,
            points => [
                {Id, Label, Value}
             || {Id, Label} := {#{type := Type}, Value} <- maps:iterator(Points, ordered),
                Type =/= gauge orelse NowMs - AddedMs =< FreshMs
            ]
        }
     || Labels := Server <- maps:iterator(Totals, ordered),
        #{since_ns := SinceNs, until_ns := UntilNs, added_ms := AddedMs} <- [Server],
        #{fresh_ms := FreshMs, points := Points} <- [Server],
        NowMs - AddedMs =< ?FORGOTTEN_MS
    ].

-spec format_error(reason()) -> unicode:chardata().
format_error(too_many) ->
    io_lib:format("more than ~b servers, or ~b points of one server, would be kept", [
        ?MOST_SERVERS, ?MOST_POINTS
    ]).
