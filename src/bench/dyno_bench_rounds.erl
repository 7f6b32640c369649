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

pair(A, B, Sequence, Threshold) ->
    case dyno_stats_sequence:interval(Sequence) of
        {ok, {Low, High}} ->
            #{
                a => A,
                b => B,
                ratio => math:exp(dyno_stats_sequence:median(Sequence)),
                low => math:exp(Low),
                high => math:exp(High),
                verdict => verdict(Low, High, math:log(1 + Threshold))
            };
        {error, too_few} ->
            Ratio =
                case dyno_stats_sequence:median(Sequence) of
                    undefined -> undefined;
                    Median -> math:exp(Median)
                end,
            #{a => A, b => B, ratio => Ratio, low => undefined, high => undefined,
                verdict => undecided}
    end.

%% What lies wholly on one side of no difference, and is not wholly within the threshold, is a
%% difference.
verdict(Low, High, Delta) ->
    case dyno_stats_verdict:verdict({Low, High}, Delta) of
        same -> same;
        higher -> slower;
        lower -> faster;
        undecided -> undecided
    end.
