%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_exposition).
-moduledoc false.
%% Totals as Prometheus reads them: its text format 0.0.4, and OpenMetrics 1.0. Pure.

-export([format/2, content_type/1, accepted/1]).
-export_type([format/0]).

-type format() :: text | openmetrics.

-doc "All metrics, each with all of its points.".
-spec format(format(), [dyno_servers_sink_totals:server()]) -> [iodata()].
format(Format, Servers) ->
    Points = maps:groups_from_list(
        fun({Id, _, _}) -> Id end,
        [
            {Id, [Common | label(Label)], Value}
         || #{labels := Labels, points := Points} <- Servers,
            Common <- [common(dyno_servers_metrics:ordered(Labels))],
            {Id, Label, Value} <- Points
        ]
    ),
    [
        [family(Format, Metric), [samples(Metric, Point) || Point <- map_get(Id, Points)]]
     || #{id := Id} = Metric <- dyno_servers_metrics:metrics(), is_map_key(Id, Points)
    ] ++ [~"# EOF\n" || Format =:= openmetrics].

%% Those of a server, as one text for all of its points.
common(Labels) ->
    iolist_to_binary(lists:join(~",", [pair(Key, Value) || {Key, Value} <- Labels])).

label(none) -> [];
label({Key, Value}) -> [~",", pair(Key, Value)].

pair(Key, Value) -> [atom_to_binary(Key), ~"=\"", escaped(Value), ~"\""].

family(text, #{prometheus := Name, kind := counter, help := Help}) ->
    [~"# HELP ", Name, ~"_total ", Help, ~"\n# TYPE ", Name, ~"_total counter\n"];
family(text, #{prometheus := Name, kind := Kind, help := Help}) ->
    [~"# HELP ", Name, ~" ", Help, ~"\n# TYPE ", Name, ~" ", atom_to_binary(Kind), ~"\n"];
family(openmetrics, #{prometheus := Name, kind := Kind, help := Help, unit := Unit}) ->
    [
        [~"# TYPE ", Name, ~" ", atom_to_binary(Kind), ~"\n"],
        [[~"# UNIT ", Name, ~" seconds\n"] || Unit =:= ns],
        [~"# HELP ", Name, ~" ", Help, ~"\n"]
    ].

samples(#{prometheus := Name, kind := histogram, unit := Unit}, {_, Labels, {Counts, Sum}}) ->
    Bounds = [Bound || {_, Bound} <- dyno_servers_metrics:bounds(Unit)] ++ [~"+Inf"],
    Bucket = iolist_to_binary([Name, ~"_bucket{", Labels, ~",le=\""]),
    {Lines, Count} = lists:mapfoldl(
        fun({Bound, N}, Sofar) ->
            {[Bucket, Bound, ~"\"} ", integer_to_binary(Sofar + N), ~"\n"], Sofar + N}
        end,
        0,
        lists:zip(Bounds, Counts)
    ),
    [
        Lines,
        sample([Name, ~"_sum"], Labels, number(Sum, Unit)),
        sample([Name, ~"_count"], Labels, integer_to_binary(Count))
    ];
samples(#{prometheus := Name, kind := counter, unit := Unit}, {_, Labels, Value}) ->
    sample([Name, ~"_total"], Labels, number(Value, Unit));
samples(#{prometheus := Name, unit := Unit}, {_, Labels, Value}) ->
    sample(Name, Labels, number(Value, Unit)).

sample(Name, Labels, Value) -> [Name, ~"{", Labels, ~"} ", Value, ~"\n"].

escaped(Text) ->
    Quoted = binary:replace(Text, [~"\\", ~"\""], ~"\\", [global, {insert_replaced, 1}]),
    binary:replace(Quoted, ~"\n", ~"\\n", [global]).

number(Ns, ns) -> float_to_binary(Ns / 1.0e9, [short]);
number(Value, _) when is_integer(Value) -> integer_to_binary(Value);
number(Value, _) -> float_to_binary(Value, [short]).

-doc "What a format is called over HTTP.".
-spec content_type(format()) -> binary().
content_type(text) -> ~"text/plain; version=0.0.4; charset=utf-8";
content_type(openmetrics) -> ~"application/openmetrics-text; version=1.0.0; charset=utf-8".

-doc "The format that the header Accept prefers; the text format where it names none of the two.".
-spec accepted(Accept :: binary()) -> format().
accepted(Accept) ->
    Ranges = [range(Range) || Range <- binary:split(Accept, ~",", [global])],
    Best = fun(Types) ->
        lists:max([0.0 | [Q || {Type, Q} <- Ranges, lists:member(Type, Types)]])
    end,
    OpenMetrics = Best([~"application/openmetrics-text"]),
    case OpenMetrics > 0 andalso OpenMetrics >= Best([~"text/plain", ~"text/*", ~"*/*"]) of
        true -> openmetrics;
        false -> text
    end.

range(Range) ->
    [Type | Parameters] = [
        string:lowercase(string:trim(Part)) || Part <- binary:split(Range, ~";", [global])
    ],
    {Type, hd([quality(Q) || <<"q=", Q/binary>> <- Parameters] ++ [1.0])}.

quality(Text) ->
    case {string:to_float(Text), string:to_integer(Text)} of
        {{Q, <<>>}, _} when is_float(Q) -> Q;
        {_, {Q, <<>>}} when is_integer(Q) -> float(Q);
        _ -> 0.0
    end.
