%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_growth).
-moduledoc false.
%% How something grows with a size, as a row of a table `growth`: the exponent with its interval,
%% and the values at both ends. Tests and benchmarks have such tables.

-export([fit/4, columns/0]).
-export_type([growth/0]).

-type growth() :: #{
    kind := binary(),
    name := binary(),
    unit := binary(),
    exponent := float(),
    low := float() | undefined,
    high := float() | undefined,
    points := pos_integer(),
    smallest := number(),
    largest := number(),
    text := binary()
}.

-doc "The growth of some points; none where they have no law: zeros, or a single size.".
-spec fit(binary(), binary(), binary(), [{Size :: number(), Value :: number()}]) -> [growth()].
fit(Kind, Name, Unit, Points) ->
    case dyno_stats_growth:fit(Points) of
        {ok, #{exponent := Exponent, low := Low, high := High, points := Count} = Fit} ->
            Sizes = [Size || {Size, _} <- Points],
            [
                #{
                    kind => Kind,
                    name => Name,
                    unit => Unit,
                    exponent => Exponent,
                    low => Low,
                    high => High,
                    points => Count,
                    smallest => median_at(lists:min(Sizes), Points),
                    largest => median_at(lists:max(Sizes), Points),
                    text => dyno_stats_growth:describe(Fit)
                }
            ];
        {error, _} ->
            []
    end.

median_at(Size, Points) ->
    dyno_stats:median([Value || {At, Value} <- Points, At =:= Size]).

-doc "The columns of a table of growths.".
-spec columns() -> [dyno_recording_table:column()].
columns() ->
    [
        {atom_to_binary(Key), Title, Type, Properties, fun(Growth) -> map_get(Key, Growth) end}
     || {Key, Title, Type, Properties} <- [
            {kind, ~"Kind", string, #{role => key}},
            {name, ~"Name", string, #{role => key}},
            {unit, ~"Unit", string, #{}},
            {exponent, ~"Exponent", number, #{}},
            {low, ~"Low", number, #{role => low, 'of' => ~"exponent"}},
            {high, ~"High", number, #{role => high, 'of' => ~"exponent"}},
            {points, ~"Points", integer, #{role => note}},
            {smallest, ~"At the smallest size", number, #{}},
            {largest, ~"At the largest size", number, #{}},
            {text, ~"In words", string, #{}}
        ]
    ].
