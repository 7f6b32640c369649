%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_schedule).
-moduledoc """
The due times of an open load's arrivals: the time of the K-th arrival, counted from 0, in
nanoseconds from the start.

An arrival is due when the integral of the curve's rate reaches its number: nothing drifts, and a
curve of whole counts gives exactly those counts. Constant rates use integers and are exact to the
nanosecond.

With `poisson` the K-th arrival is due when the integral reaches the sum of K + 1 exponentially
distributed numbers with mean 1, drawn from a seed: a Poisson process of the curve's rate, even if
changing. Random times come in order only: `stream/1`.

## Examples

```erlang
1> S = dyno_load_schedule:new({constant, 3}, 1_000_000_000, even).
2> [dyno_load_schedule:due(K, S) || K <- [0, 1, 2]].
[0,333333333,666666667]
```
""".

%% Construction
-export([new/3]).
%% Random access
-export([due/2, count/2, length_ns/1, is_random/1]).
%% Sequential access
-export([stream/1, take/2]).

-export_type([schedule/0, curve/0, pacing/0, stream/0]).

-doc """
The rate a second: constant; from one to another, linearly or in steps; a base with a peak between
two times; counts in equal intervals; or the ascending arrival times.
""".
-type curve() ::
    {constant, number()}
    | {ramp, number(), number()}
    | {steps, [number(), ...]}
    | {spike, Base :: number(), Peak :: number(), AtNs :: non_neg_integer(), ForNs :: pos_integer()}
    | {counts, [non_neg_integer()], IntervalNs :: pos_integer()}
    | {times, [non_neg_integer()]}.

-type pacing() :: even | {poisson, Seed :: integer()}.

-opaque schedule() :: #{
    length_ns := non_neg_integer(),
    pacing := pacing(),
    curve :=
        {constant, Numerator :: non_neg_integer(), Denominator :: pos_integer()}
        %% Pieces with a linear rate.
        | {segments, tuple()}
        %% 64 bits each.
        | {times, binary()}
}.

-opaque stream() :: {schedule(), rand:state(), Sum :: float()}.

-define(S, 1_000_000_000).

-doc "A schedule of a length. Recorded curves have their own length; the smaller one counts.".
-spec new(curve(), LengthNs :: pos_integer(), pacing()) -> schedule().
new({constant, Rate}, LengthNs, Pacing) ->
    {Numerator, Denominator} = fraction(Rate),
    #{length_ns => LengthNs, pacing => Pacing, curve => {constant, Numerator, Denominator}};
new({ramp, From, To}, LengthNs, Pacing) ->
    segmented([{LengthNs, From, To}], LengthNs, Pacing);
new({steps, Rates}, LengthNs, Pacing) ->
    Count = length(Rates),
    Pieces = [
        {LengthNs * N div Count - LengthNs * (N - 1) div Count, Rate, Rate}
     || {N, Rate} <- lists:enumerate(Rates)
    ],
    segmented(Pieces, LengthNs, Pacing);
new({spike, Base, Peak, AtNs, ForNs}, LengthNs, Pacing) ->
    Rest = LengthNs - AtNs - ForNs,
    segmented([{AtNs, Base, Base}, {ForNs, Peak, Peak}, {Rest, Base, Base}], LengthNs, Pacing);
new({counts, Counts, IntervalNs}, LengthNs, Pacing) ->
    #{
        length_ns => min(length(Counts) * IntervalNs, LengthNs),
        pacing => Pacing,
        curve => {segments, list_to_tuple(counted(Counts, IntervalNs, 0, 0))}
    };
new({times, Times}, LengthNs, _Pacing) ->
    Own =
        case Times of
            [] -> 0;
            _ -> lists:last(Times) + 1
        end,
    #{
        length_ns => min(Own, LengthNs),
        pacing => even,
        curve => {times, <<<<Time:64>> || Time <- Times>>}
    }.

%% 0.1 means a tenth, not the nearest double.
fraction(Rate) when Rate == trunc(Rate) -> {trunc(Rate), 1};
fraction(Rate) -> {round(Rate * ?S), ?S}.

segmented(Pieces, LengthNs, Pacing) ->
    Segments = segments([P || {Length, _, _} = P <- Pieces, Length > 0], 0, 0),
    #{length_ns => LengthNs, pacing => Pacing, curve => {segments, list_to_tuple(Segments)}}.

%% {StartNs, LengthNs, Before, Upto, FromPerS, ToPerS}: `Before` is the number of arrivals due
%% before the segment, possibly fractional, `Upto` the number at its end.
segments([], _Start, _Before) ->
    [];
segments([{Length, From, To} | Pieces], Start, Before) ->
    Upto = Before + (From + To) * Length / (2 * ?S),
    [{Start, Length, Before, Upto, From, To} | segments(Pieces, Start + Length, Upto)].

counted([], _Interval, _Start, _Before) ->
    [];
counted([Count | Counts], Interval, Start, Before) ->
    Rate = Count * ?S / Interval,
    [
        {Start, Interval, Before, Before + Count, Rate, Rate}
        | counted(Counts, Interval, Start + Interval, Before + Count)
    ].

-doc "The length of time with arrivals.".
-spec length_ns(schedule()) -> non_neg_integer().
length_ns(#{length_ns := LengthNs}) -> LengthNs.

-doc "Whether the gaps are random.".
-spec is_random(schedule()) -> boolean().
is_random(#{pacing := Pacing}) -> Pacing =/= even.

-doc "The due time of arrival K; `never` after the end. For random gaps use `stream/1`.".
-spec due(non_neg_integer(), schedule()) -> non_neg_integer() | never.
due(K, #{pacing := even, curve := {times, Times}, length_ns := LengthNs}) ->
    case Times of
        <<_:K/binary-unit:64, Due:64, _/binary>> -> within(Due, LengthNs);
        _ -> never
    end;
due(K, #{pacing := even} = Schedule) ->
    at(K, Schedule).

at(_N, #{curve := {constant, 0, _}}) ->
    never;
at(N, #{curve := {constant, Numerator, Denominator}, length_ns := LengthNs}) when is_integer(N) ->
    within((N * ?S * Denominator + Numerator div 2) div Numerator, LengthNs);
at(N, #{curve := {constant, Numerator, Denominator}, length_ns := LengthNs}) ->
    within(round(N * ?S * Denominator / Numerator), LengthNs);
at(_N, #{curve := {segments, {}}}) ->
    never;
at(N, #{curve := {segments, Segments}, length_ns := LengthNs}) ->
    Size = tuple_size(Segments),
    case element(4, element(Size, Segments)) > N of
        true -> within(in_segment(N, element(find(N, Segments, 1, Size), Segments)), LengthNs);
        false -> never
    end.

within(Due, LengthNs) when Due < LengthNs -> Due;
within(_Due, _LengthNs) -> never.

%% The first segment at whose end more than N arrivals were due.
find(_N, _Segments, Low, Low) ->
    Low;
find(N, Segments, Low, High) ->
    Middle = (Low + High) div 2,
    case element(4, element(Middle, Segments)) > N of
        true -> find(N, Segments, Low, Middle);
        false -> find(N, Segments, Middle + 1, High)
    end.

in_segment(N, {Start, Length, Before, Upto, Rate, Rate}) ->
    %% By the segment's share, not the rate: whole counts stay exact.
    Start + min(Length - 1, round((N - Before) * Length / (Upto - Before)));
in_segment(N, {Start, Length, Before, _Upto, From, To}) ->
    Behind = N - Before,
    Slope = (To - From) * ?S / Length,
    %% This form of the quadratic formula loses no digits if the slope is small.
    Root = math:sqrt(max(0.0, From * From + 2 * Slope * Behind)),
    case From + Root of
        Sum when Sum > 0 -> Start + min(Length - 1, round(2 * Behind / Sum * ?S));
        _ -> Start
    end.

-doc "The number of arrivals due before a time; the expected number for random gaps.".
-spec count(schedule(), Ns :: non_neg_integer()) -> number().
count(#{length_ns := LengthNs} = Schedule, Ns) when Ns > LengthNs ->
    count(Schedule, LengthNs);
count(#{pacing := even} = Schedule, Ns) ->
    IsDue = fun(Nth) -> due(Nth - 1, Schedule) < Ns end,
    %% `never` is greater than any number.
    Most = hd([N || N <- [1 bsl Bits || Bits <- lists:seq(0, 62)], not IsDue(N)]),
    dyno_stats_distribution:largest_rank(IsDue, 1, Most);
count(#{curve := {constant, Numerator, Denominator}}, Ns) ->
    Ns * Numerator / (Denominator * ?S);
count(#{curve := {segments, Segments}}, Ns) ->
    lists:sum([
        part_of(Ns - Start, Segment)
     || {Start, _, _, _, _, _} = Segment <- tuple_to_list(Segments), Start < Ns
    ]).

part_of(Ns, {_, Length, Before, Upto, _, _}) when Ns >= Length -> Upto - Before;
part_of(Ns, {_, Length, _, _, From, To}) -> (From + (To - From) * Ns / (2 * Length)) * Ns / ?S.

-doc "The random times in order, from the first.".
-spec stream(schedule()) -> stream().
stream(#{pacing := {poisson, Seed}} = Schedule) ->
    {Schedule, rand:seed_s(exsss, Seed), 0.0}.

-doc "The next times; fewer at the schedule's end.".
-spec take(non_neg_integer(), stream()) -> {[non_neg_integer()], stream()}.
take(Count, Stream) ->
    take(Count, Stream, []).

take(0, Stream, Taken) ->
    {lists:reverse(Taken), Stream};
take(Count, {Schedule, Random, Sum} = Stream, Taken) ->
    {Uniform, Next} = rand:uniform_s(Random),
    %% In [0, 1): the complement has a logarithm.
    Later = Sum - math:log(1.0 - Uniform),
    case at(Later, Schedule) of
        never -> {lists:reverse(Taken), Stream};
        Due -> take(Count - 1, {Schedule, Next, Later}, [Due | Taken])
    end.
