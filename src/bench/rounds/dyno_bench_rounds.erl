%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_rounds).
-moduledoc """
Plans a comparison and decides when it is answered. Pure.

The arms are measured in rounds, each once a round, so that what disturbs the machine for longer
than a round disturbs all of them: the round is the unit, and what counts is the ratio within it
(nanobench's `compare`; E1 in our notes: sequential measurement calls identical codes different in
24 to 55 % of the cases, rounds in 4 %). The order is a cyclic shift, drawn at random; two arms
change sides each round (ABBA).

Each pair's logarithm of the ratio has a confidence sequence (dyno_stats_sequence), with the level
shared between the pairs (Bonferroni), so that one may look after every round and stop when all
pairs are decided.
""".

-export([new/1, order/1, add/2, is_decided/1, pairs/1, rounds/1, values/2]).
-export([judged/3]).
-export([fixed_pairs/1, least/2, more/2]).
-export_type([t/0, options/0, pair/0]).

-type arm() :: pos_integer().

-type options() :: #{
    arms := pos_integer(),
    %% A difference of less than this share does not matter.
    threshold := float(),
    level := float(),
    seed => integer()
}.

-type pair() :: #{
    a := arm(),
    b := arm(),
    %% Time of b by time of a: the median over the rounds, and its interval.
    ratio := float() | undefined,
    low := float() | undefined,
    high := float() | undefined,
    %% Of b against a.
    verdict := slower | faster | same | undecided
}.

-opaque t() :: #{
    options := options(),
    random := rand:state(),
    rounds := non_neg_integer(),
    previous := [arm()],
    %% Newest first.
    values := #{arm() => [float()]},
    sequences := #{{arm(), arm()} => dyno_stats_sequence:t()}
}.

-doc "A comparison with no rounds yet.".
-spec new(options()) -> t().
new(#{arms := Arms, level := Level} = Options) ->
    Pairs = [{A, B} || A <- lists:seq(1, Arms), B <- lists:seq(A + 1, Arms)],
    Each = 1 - (1 - Level) / max(1, length(Pairs)),
    Random =
        case Options of
            #{seed := Seed} -> rand:seed_s(exsss, Seed);
            #{} -> rand:seed_s(exsss)
        end,
    #{
        options => Options,
        random => Random,
        rounds => 0,
        previous => [],
        values => maps:from_keys(lists:seq(1, Arms), []),
        sequences => #{P => dyno_stats_sequence:new(#{level => Each}) || P <- Pairs}
    }.

-doc "The order of the next round.".
-spec order(t()) -> {[arm()], t()}.
order(#{options := #{arms := 2}, previous := [_, _] = Previous, rounds := Rounds} = State) when
    Rounds rem 2 =:= 1
->
    %% AB is followed by BA, BA by AB.
    Order = lists:reverse(Previous),
    {Order, State#{previous := Order}};
order(#{options := #{arms := Arms}, random := Random} = State) ->
    {Shift, Next} = rand:uniform_s(Arms, Random),
    {Before, After} = lists:split(Shift - 1, lists:seq(1, Arms)),
    Order = After ++ Before,
    {Order, State#{random := Next, previous := Order}}.

-doc "Adds a round: the time of each arm, more than 0.".
-spec add(#{arm() => float()}, t()) -> t().
add(Times, #{rounds := Rounds, values := Values, sequences := Sequences} = State) ->
    State#{
        rounds := Rounds + 1,
        values := #{Arm => [map_get(Arm, Times) | Old] || Arm := Old <- Values},
        sequences := #{
            {A, B} => dyno_stats_sequence:add(
                math:log(map_get(B, Times) / map_get(A, Times)), Sequence
            )
         || {A, B} := Sequence <- Sequences
        }
    }.

-doc "How many rounds there were.".
-spec rounds(t()) -> non_neg_integer().
rounds(#{rounds := Rounds}) -> Rounds.

-doc "The times of an arm, in the order of the rounds.".
-spec values(arm(), t()) -> [float()].
values(Arm, #{values := Values}) -> lists:reverse(map_get(Arm, Values)).

-doc "Whether every pair has its verdict.".
-spec is_decided(t()) -> boolean().
is_decided(State) ->
    lists:all(fun(#{verdict := Verdict}) -> Verdict =/= undecided end, pairs(State)).

-doc "Every pair, as it stands.".
-spec pairs(t()) -> [pair()].
pairs(#{sequences := Sequences, options := #{threshold := Threshold}}) ->
    [
        pair(A, B, Sequence, Threshold)
     || {{A, B}, Sequence} <- lists:sort(maps:to_list(Sequences))
    ].

-doc """
Every pair, where the number of rounds was fixed beforehand: who looks only once has narrower
intervals than who looks after every round, and needs fewer rounds for one.
""".
-spec fixed_pairs(t()) -> [pair()].
fixed_pairs(#{sequences := Sequences, options := Options} = State) ->
    #{threshold := Threshold, level := Level} = Options,
    Each = 1 - (1 - Level) / max(1, map_size(Sequences)),
    [
        judged(Pair, fixed(Pair, Each, State), Threshold)
     || Pair <- lists:sort(maps:keys(Sequences))
    ].

fixed({A, B}, Each, State) ->
    Logs = lists:zipwith(
        fun(OfA, OfB) -> math:log(OfB / OfA) end, values(A, State), values(B, State)
    ),
    Interval =
        case dyno_stats_interval:median(Logs, Each) of
            {ok, {Low, High, _}} -> {ok, {Low, High}};
            {error, too_few} -> {error, too_few}
        end,
    {dyno_stats:median(Logs), Interval}.

-doc "How few rounds, fixed beforehand, give an interval for every pair of so many arms.".
-spec least(Arms :: pos_integer(), Level :: float()) -> pos_integer().
least(Arms, Level) ->
    ceil(1 + math:log2(max(1, Arms * (Arms - 1) div 2) / (1 - Level))).

-doc """
By what factor there should be more rounds for a pair that is not decided: an interval's width goes
with their root. At most 100: then the true difference is about the threshold, and nothing helps.
""".
-spec more(pair(), Threshold :: float()) -> float() | unknown.
more(#{ratio := Ratio, low := Low, high := High}, Threshold) when
    is_float(Ratio), is_float(Low), is_float(High)
->
    Half = (math:log(High) - math:log(Low)) / 2,
    %% From the estimate to the nearer edge of the threshold.
    Distance = abs(abs(math:log(Ratio)) - math:log(1 + Threshold)),
    min(100.0, max(1.5, math:pow(Half / max(1.0e-6, Distance), 2)));
more(_Pair, _Threshold) ->
    unknown.

pair(A, B, Sequence, Threshold) ->
    Interval = dyno_stats_sequence:interval(Sequence),
    judged({A, B}, {dyno_stats_sequence:median(Sequence), Interval}, Threshold).

-doc "A pair, from the median of the logarithms of its ratios and their interval.".
-spec judged(
    {arm(), arm()},
    {Median :: float() | undefined, {ok, {Low :: number(), High :: number()}} | {error, too_few}},
    Threshold :: float()
) -> pair().
judged({A, B}, {Median, {ok, {Low, High}}}, Threshold) ->
    #{
        a => A,
        b => B,
        ratio => math:exp(Median),
        low => math:exp(Low),
        high => math:exp(High),
        verdict => verdict(Low, High, math:log(1 + Threshold))
    };
judged({A, B}, {Median, {error, too_few}}, _Threshold) ->
    Ratio =
        case Median of
            undefined -> undefined;
            _ -> math:exp(Median)
        end,
    #{a => A, b => B, ratio => Ratio, low => undefined, high => undefined, verdict => undecided}.

%% What lies wholly on one side of no difference, and is not wholly within the threshold, is a
%% difference.
verdict(Low, High, Delta) ->
    case dyno_stats_verdict:verdict({Low, High}, Delta) of
        same -> same;
        higher -> slower;
        lower -> faster;
        undecided -> undecided
    end.
