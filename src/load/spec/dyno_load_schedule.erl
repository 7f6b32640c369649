%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_schedule).
-moduledoc """
When the arrivals of an open load are due: the time of the K-th arrival, counted from 0, in
nanoseconds from the start.

An arrival is due at the first moment at which the curve's rate, summed up since the start, reaches
its number: so nothing drifts, however long the load lasts, and a curve of whole counts gives just
those counts. Constant rates are calculated with integers and are exact to the nanosecond.

With `poisson` the gaps are random: the K-th arrival is due where the sum reaches the sum of K + 1
exponentially distributed numbers with the mean 1, drawn from a seed. That is a Poisson process
of the curve's rate, also of one that changes. Such times come in order only: `stream/1`.

## Examples

```erlang
1> S = dyno_load_schedule:new({constant, 3}, 1_000_000_000, even).
2> [dyno_load_schedule:due(K, S) || K <- [0, 1, 2]].
[0,333333333,666666667]
```
""".

%% Making
-export([new/3]).
%% Asking
-export([due/2, count/2, length_ns/1, is_random/1]).
%% In order
-export([stream/1, take/2]).

-export_type([schedule/0, curve/0, pacing/0, stream/0]).

-doc """
How the rate runs, arrivals a second: constant; from one rate to another, evenly over the whole
length; in steps of equal length; a base rate, and a peak from one time for another; counts of
arrivals in intervals of equal length; the times of the arrivals themselves, ascending.
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
        %% Pieces in which the rate runs in a straight line.
        | {segments, tuple()}
        %% 64 bits each.
        | {times, binary()}
}.

-opaque stream() :: {schedule(), rand:state(), Sum :: float()}.

-define(S, 1_000_000_000).

-doc "A schedule of a length. Recorded curves have their own; the smaller counts.".
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

%% 0.1 means a tenth, and not the double next to it.
fraction(Rate) when Rate == trunc(Rate) -> {trunc(Rate), 1};
fraction(Rate) -> {round(Rate * ?S), ?S}.

segmented(Pieces, LengthNs, Pacing) ->
    Segments = segments([P || {Length, _, _} = P <- Pieces, Length > 0], 0, 0),
    #{length_ns => LengthNs, pacing => Pacing, curve => {segments, list_to_tuple(Segments)}}.

%% {StartNs, LengthNs, Before, Upto, FromPerS, ToPerS}: `Before` is how many arrivals are due before
%% it, which need not be a whole number, `Upto` how many at its end.
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

-doc "How long arrivals come.".
-spec length_ns(schedule()) -> non_neg_integer().
length_ns(#{length_ns := LengthNs}) -> LengthNs.

-doc "Whether the gaps are random.".
-spec is_random(schedule()) -> boolean().
is_random(#{pacing := Pacing}) -> Pacing =/= even.

-doc "When arrival K is due; `never` after the end. Not for random gaps: see `stream/1`.".
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
    %% By the share of the segment, not by the rate: whole counts are then exact.
    Start + min(Length - 1, round((N - Before) * Length / (Upto - Before)));
in_segment(N, {Start, Length, Before, _Upto, From, To}) ->
    Behind = N - Before,
    Slope = (To - From) * ?S / Length,
    %% The form of the quadratic formula that loses no digits where the slope is small.
    Root = math:sqrt(max(0.0, From * From + 2 * Slope * Behind)),
    case From + Root of
        Sum when Sum > 0 -> Start + min(Length - 1, round(2 * Behind / Sum * ?S));
        _ -> Start
    end.

-doc """
How many arrivals are due before a time; with random gaps, how many are to be expected.
""".
-spec count(schedule(), Ns :: non_neg_integer()) -> number().
count(#{length_ns := LengthNs} = Schedule, Ns) when Ns > LengthNs ->
    count(Schedule, LengthNs);
count(#{pacing := even} = Schedule, Ns) ->
    Near = trunc(sum(Schedule, Ns)),
    exact(max(0, Near - 2), Schedule, Ns);
count(Schedule, Ns) ->
    sum(Schedule, Ns).

%% Rounding may put the sum one off: the arrivals themselves decide.
exact(K, Schedule, Ns) ->
    case due(K, Schedule) of
        Due when is_integer(Due), Due < Ns -> exact(K + 1, Schedule, Ns);
        _ -> K
    end.

sum(#{curve := {constant, Numerator, Denominator}}, Ns) ->
    Ns * Numerator / (Denominator * ?S);
sum(#{curve := {times, Times}}, Ns) ->
    before(Ns, Times, 0, byte_size(Times) div 8);
sum(#{curve := {segments, Segments}}, Ns) ->
    lists:sum([
        part_of(Ns - Start, Segment)
     || {Start, _, _, _, _, _} = Segment <- tuple_to_list(Segments), Start < Ns
    ]).

part_of(Ns, {_, Length, Before, Upto, _, _}) when Ns >= Length -> Upto - Before;
part_of(Ns, {_, Length, _, _, From, To}) ->
    (From + (To - From) * Ns / (2 * Length)) * Ns / ?S.

before(_Ns, _Times, Low, Low) ->
    Low;
before(Ns, Times, Low, High) ->
    Middle = (Low + High) div 2,
    case Times of
        <<_:Middle/binary-unit:64, Due:64, _/binary>> when Due < Ns ->
            before(Ns, Times, Middle + 1, High);
        _ ->
            before(Ns, Times, Low, Middle)
    end.

-doc "The times of random gaps in order, from the first one on.".
-spec stream(schedule()) -> stream().
stream(#{pacing := {poisson, Seed}} = Schedule) ->
    {Schedule, rand:seed_s(exsss, Seed), 0.0}.

-doc "The next so many times; fewer where the schedule ends.".
-spec take(non_neg_integer(), stream()) -> {[non_neg_integer()], stream()}.
take(Count, Stream) ->
    take(Count, Stream, []).

take(0, Stream, Taken) ->
    {lists:reverse(Taken), Stream};
take(Count, {Schedule, Random, Sum} = Stream, Taken) ->
    {Uniform, Next} = rand:uniform_s(Random),
    %% From 0 up to, and without, 1: its complement has a logarithm.
    Later = Sum - math:log(1.0 - Uniform),
    case at(Later, Schedule) of
        never -> {lists:reverse(Taken), Stream};
        Due -> take(Count - 1, {Schedule, Next, Later}, [Due | Taken])
    end.
