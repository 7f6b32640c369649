%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_schedule_SUITE).
-moduledoc """
When arrivals are due: exactly where the rate, summed up, reaches their number, for any curve and
after any time.
""".

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

-define(S, 1_000_000_000).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        constant_is_exact,
        a_constant_rate_never_drifts,
        fractions,
        ramps_reach_their_sum,
        steps_have_their_counts,
        a_spike,
        counts_are_kept,
        times_are_kept,
        order_and_count_agree,
        poisson_is_reproducible,
        poisson_has_the_rate_and_the_spread,
        poisson_follows_a_ramp,
        a_stream_goes_on,
        random_times_by_number
    ].

check(Property) ->
    dyno_property:holds(Property, 200).

new(Curve, LengthNs) -> dyno_load_schedule:new(Curve, LengthNs, even).

due(K, Schedule) -> dyno_load_schedule:due(K, Schedule).

%% K seconds divided by the rate, to the nearest nanosecond, however large K is.
constant_is_exact(_Config) ->
    check(
        ?FORALL(
            {Rate, K},
            {proper_types:integer(1, 1_000_000), proper_types:integer(0, 1_000_000_000_000)},
            begin
                Due = due(K, new({constant, Rate}, 1 bsl 80)),
                abs(Due * Rate - K * ?S) * 2 =< Rate
            end
        )
    ).

%% A whole number of seconds has a whole number of arrivals.
a_constant_rate_never_drifts(_Config) ->
    Schedule = new({constant, 3}, 1 bsl 80),
    [
        ?assertEqual(Hours * 3600 * ?S, due(Hours * 3600 * 3, Schedule))
     || Hours <- [1, 24, 24 * 365]
    ].

fractions(_Config) ->
    Schedule = new({constant, 2.5}, 10 * ?S),
    ?assertEqual([0, 400_000_000, 800_000_000], [due(K, Schedule) || K <- [0, 1, 2]]),
    ?assertEqual(25, dyno_load_schedule:count(Schedule, 10 * ?S)),
    ?assertEqual(never, due(25, Schedule)),
    %% 0.1 is not a whole number of anything in binary: exact all the same.
    Tenth = new({constant, 0.1}, 1 bsl 80),
    ?assertEqual(10_000_000 * ?S, due(1_000_000, Tenth)).

%% At arrival K's time the area under the ramp is K.
ramps_reach_their_sum(_Config) ->
    check(
        ?FORALL(
            {From, To, Ms, Share},
            {
                proper_types:integer(0, 100_000),
                proper_types:integer(0, 100_000),
                proper_types:integer(50, 100_000),
                proper_types:float(0.0, 0.999)
            },
            begin
                Length = Ms * 1_000_000,
                Schedule = new({ramp, From, To}, Length),
                All = (From + To) * Length / (2 * ?S),
                K = trunc(All * Share),
                case due(K, Schedule) of
                    never ->
                        K >= All;
                    Ns ->
                        T = Ns / ?S,
                        Area = From * T + (To - From) * T * T / (2 * Length / ?S),
                        %% A nanosecond of the highest rate, and what doubles lose.
                        abs(Area - K) =< max(From, To) / ?S + K * 1.0e-9
                end
            end
        )
    ).

steps_have_their_counts(_Config) ->
    Schedule = new({steps, [10, 0, 30]}, 3 * ?S),
    Dues = all(Schedule),
    ?assertEqual(40, length(Dues)),
    ?assertEqual(10, length([D || D <- Dues, D < ?S])),
    ?assertEqual(30, length([D || D <- Dues, D >= 2 * ?S])),
    ?assertEqual([0, 100_000_000], lists:sublist(Dues, 2)),
    ?assertEqual(2 * ?S, lists:nth(11, Dues)).

a_spike(_Config) ->
    Dues = all(new({spike, 10, 1000, ?S, ?S div 2}, 3 * ?S)),
    ?assertEqual(10, length([D || D <- Dues, D < ?S])),
    ?assertEqual(500, length([D || D <- Dues, D >= ?S, D < 3 * ?S div 2])),
    ?assertEqual(15, length([D || D <- Dues, D >= 3 * ?S div 2])).

%% Every interval has just the arrivals that were counted in it.
counts_are_kept(_Config) ->
    check(
        ?FORALL(
            {Counts, Ms},
            {
                proper_types:non_empty(proper_types:list(proper_types:integer(0, 50))),
                proper_types:integer(1, 5000)
            },
            begin
                Interval = Ms * 1_000_000,
                Schedule = new({counts, Counts, Interval}, 1 bsl 62),
                Dues = all(Schedule),
                Found = [
                    length([D || D <- Dues, D div Interval =:= Nth])
                 || Nth <- lists:seq(0, length(Counts) - 1)
                ],
                Found =:= Counts andalso
                    dyno_load_schedule:length_ns(Schedule) =:= length(Counts) * Interval
            end
        )
    ).

times_are_kept(_Config) ->
    check(
        ?FORALL(
            Times0,
            proper_types:list(proper_types:integer(0, 10 * ?S)),
            begin
                Times = lists:sort(Times0),
                all(new({times, Times}, 1 bsl 62)) =:= Times
            end
        )
    ),
    ?assertEqual([0, 5], all(new({times, [0, 5, 10]}, 10))).

all(Schedule) ->
    case dyno_load_schedule:is_random(Schedule) of
        true ->
            {Dues, _} = dyno_load_schedule:take(1_000_000, dyno_load_schedule:stream(Schedule)),
            Dues;
        false ->
            [due(K, Schedule) || K <- lists:seq(0, number(0, Schedule) - 1)]
    end.

number(K, Schedule) ->
    case due(K, Schedule) of
        never -> K;
        _ -> number(K + 1, Schedule)
    end.

curve() ->
    Rate = proper_types:integer(0, 500),
    proper_types:oneof([
        {constant, proper_types:integer(1, 500)},
        {ramp, proper_types:integer(1, 500), Rate},
        ?LET(Rates, proper_types:non_empty(proper_types:list(Rate)), {steps, Rates}),
        {spike, Rate, proper_types:integer(1, 500), 200_000_000, 100_000_000},
        ?LET(Rates, proper_types:non_empty(proper_types:list(Rate)), {counts, Rates, 10_000_000})
    ]).

%% Times ascend, none is due after the end, and count/2 tells how many came before a time.
order_and_count_agree(_Config) ->
    check(
        ?FORALL(
            {Curve, Share},
            {curve(), proper_types:float(0.0, 1.0)},
            begin
                Schedule = new(Curve, ?S),
                Length = dyno_load_schedule:length_ns(Schedule),
                Dues = all(Schedule),
                At = trunc(Length * Share),
                lists:sort(Dues) =:= Dues andalso
                    lists:all(fun(D) -> D < Length end, Dues) andalso
                    due(length(Dues), Schedule) =:= never andalso
                    dyno_load_schedule:count(Schedule, At) =:= length([D || D <- Dues, D < At])
            end
        )
    ).

poisson(Curve, Seed, LengthNs) ->
    all(dyno_load_schedule:new(Curve, LengthNs, {poisson, Seed})).

poisson_is_reproducible(_Config) ->
    One = poisson({constant, 1000}, 1, ?S),
    ?assertEqual(One, poisson({constant, 1000}, 1, ?S)),
    ?assertNotEqual(One, poisson({constant, 1000}, 2, ?S)),
    ?assertEqual(One, lists:sort(One)).

%% Of a Poisson process the count's variance is its mean, and so is the gaps' standard deviation
%% theirs. Seeds are fixed: no chance here.
poisson_has_the_rate_and_the_spread(_Config) ->
    Dues = poisson({constant, 1000}, 42, 100 * ?S),
    Count = length(Dues),
    %% Four standard deviations of 316.
    ?assert(abs(Count - 100_000) < 1300),
    Gaps = lists:zipwith(fun(A, B) -> B - A end, lists:droplast(Dues), tl(Dues)),
    Mean = lists:sum(Gaps) / length(Gaps),
    Deviation = math:sqrt(lists:sum([(G - Mean) * (G - Mean) || G <- Gaps]) / length(Gaps)),
    ?assert(abs(Deviation / Mean - 1) < 0.02),
    Seconds = [length([D || D <- Dues, D div ?S =:= S]) || S <- lists:seq(0, 99)],
    Variance = lists:sum([(C - 1000) * (C - 1000) || C <- Seconds]) / 100,
    ?assert(Variance > 600 andalso Variance < 1600).

poisson_follows_a_ramp(_Config) ->
    Dues = poisson({ramp, 0, 2000}, 7, 10 * ?S),
    First = length([D || D <- Dues, D < 5 * ?S]),
    %% A quarter of the area: 2,500 of 10,000.
    ?assert(abs(First - 2500) < 200),
    ?assert(abs(length(Dues) - 10_000) < 400).

a_stream_goes_on(_Config) ->
    Schedule = dyno_load_schedule:new({ramp, 10, 90}, 2 * ?S, {poisson, 5}),
    {First, Rest} = dyno_load_schedule:take(30, dyno_load_schedule:stream(Schedule)),
    {Second, _} = dyno_load_schedule:take(1000, Rest),
    ?assertEqual(all(Schedule), First ++ Second).

%% Workers ask for random times by number; they get the stream's, and know the end.
random_times_by_number(_Config) ->
    Schedule = dyno_load_schedule:new({constant, 20_000}, ?S, {poisson, 3}),
    Expected = all(Schedule),
    Claimed = atomics:new(1, []),
    Times = dyno_load_schedule_ahead:start_link(Schedule, fun() -> atomics:get(Claimed, 1) end),
    Found = [
        begin
            atomics:put(Claimed, 1, K),
            dyno_load_schedule_ahead:due(K, Times)
        end
     || K <- lists:seq(0, length(Expected) - 1)
    ],
    ?assertEqual(Expected, Found),
    ?assertEqual(never, dyno_load_schedule_ahead:due(length(Expected), Times)),
    ?assertEqual(length(Expected), dyno_load_schedule_ahead:total(Times)),
    ok = dyno_load_schedule_ahead:stop(Times).
