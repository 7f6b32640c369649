%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_growth).
-moduledoc false.
%% Growth with a size, as a row of a table `growth`: the exponent, and the values at both ends.

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

-type point() ::
    {Size :: number(), number()}
    | {Size :: number(), number(), {Low :: number(), High :: number()}}.

-spec fit(binary(), binary(), binary(), [point()]) -> [growth()].
fit(Kind, Name, Unit, Points) ->
    Sizes = [element(1, Point) || Point <- Points],
    At = fun(Size) ->
        [dyno_stats:median(Of) || Of <- by_bound([P || P <- Points, element(1, P) =:= Size])]
    end,
    case dyno_stats_growth:fit([{element(1, P), element(2, P)} || P <- Points]) of
        {ok, Plain} ->
            [First | _] = Firsts = At(lists:min(Sizes)),
            [Last | _] = Lasts = At(lists:max(Sizes)),
            Fit = widened(Plain, Firsts, Lasts),
            [
                (maps:with([exponent, low, high, points], Fit))#{
                    kind => Kind,
                    name => Name,
                    unit => Unit,
                    smallest => First,
                    largest => Last,
                    text => dyno_stats_growth:describe(Fit)
                }
            ];
        {error, _} ->
            []
    end.

%% Values, and the ends of their intervals if all have them.
by_bound([{_, _, _} | _] = Points) ->
    [[V || {_, V, _} <- Points], [L || {_, _, {L, _}} <- Points], [H || {_, _, {_, H}} <- Points]];
by_bound(Points) ->
    [[V || {_, V} <- Points]].

%% The values may lie anywhere in their intervals, and so may the slope from first to last.
widened(#{low := Low, high := High} = Fit, [_, L1, H1], [_, L2, H2]) when is_float(Low) ->
    #{smallest := Smallest, largest := Largest} = Fit,
    Slope = fun(From, To) -> math:log(To / From) / math:log(Largest / Smallest) end,
    Fit#{low := min(Low, Slope(H1, L2)), high := max(High, Slope(L1, H2))};
widened(Fit, _Firsts, _Lasts) ->
    Fit.

-spec columns() -> [dyno_recording_table:column()].
columns() ->
    [
        {~"kind", ~"Kind", string, key, kind},
        {~"name", ~"Name", string, key, name},
        {~"unit", ~"Unit", string, unit},
        {~"exponent", ~"Exponent", number, exponent},
        {~"low", ~"Low", number, {low, ~"exponent"}, low},
        {~"high", ~"High", number, {high, ~"exponent"}, high},
        {~"points", ~"Points", integer, note, points},
        {~"smallest", ~"At the smallest size", number, smallest},
        {~"largest", ~"At the largest size", number, largest},
        {~"text", ~"In words", string, text}
    ].
