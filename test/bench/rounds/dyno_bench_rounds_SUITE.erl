%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_rounds_SUITE).
-moduledoc "The planner of comparisons, on seeded synthetic clocks.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(TRIALS, 200).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        a_fixed_number_of_rounds,
        two_change_sides,
        each_has_each_place,
        nothing_is_decided_too_early,
        identical_codes_are_not_called_different,
        a_real_difference_is_found,
        a_difference_below_the_threshold_does_not_matter,
        noise_that_hits_a_round_cancels,
        epochs_are_long_enough_and_not_much_longer,
        slow_codes_have_few_iterations,
        as_many_rounds_as_a_verdict_needs,
        what_drifts_comes_to_an_end,
        no_group_short_of_a_verdict,
        what_came_before_an_interrupt
    ].

new(Candidates, Seed) ->
    dyno_bench_rounds:new(Candidates, #{threshold => 0.03, level => 0.95, seed => Seed}).

two_change_sides(_Config) ->
    {Orders, _} = orders(new(2, 1), 100),
    Firsts = [hd(Order) || Order <- Orders],
    %% ABBA or BAAB: in each two rounds each is first once.
    ?assert(lists:all(fun([X, Y]) -> X =/= Y end, by_two(Firsts))),
    ?assert(lists:member(1, Firsts)).

by_two([]) -> [];
by_two([X, Y | Rest]) -> [[X, Y] | by_two(Rest)].

orders(State, N) ->
    lists:mapfoldl(
        fun(_, Acc) ->
            {Order, Next} = dyno_bench_rounds:order(Acc),
            {Order, dyno_bench_rounds:add(maps:from_keys(Order, 1.0), Next)}
        end,
        State,
        lists:seq(1, N)
    ).

each_has_each_place(_Config) ->
    {Orders, _} = orders(new(5, 2), 2000),
    [?assertEqual([1, 2, 3, 4, 5], lists:sort(Order)) || Order <- Orders],
    [
        begin
            Share = length([x || Order <- Orders, lists:nth(Place, Order) =:= Candidate]) / 2000,
            ?assert(abs(Share - 0.2) < 0.04)
        end
     || Candidate <- [1, 3, 5], Place <- [1, 3, 5]
    ].

nothing_is_decided_too_early(_Config) ->
    State = lists:foldl(
        fun(_, Acc) -> dyno_bench_rounds:add(#{1 => 1.0, 2 => 5.0}, Acc) end,
        new(2, 3),
        lists:seq(1, 5)
    ),
    ?assertNot(dyno_bench_rounds:is_decided(State)),
    ?assertMatch([#{verdict := undecided, low := undefined}], dyno_bench_rounds:pairs(State)).

%% A noisy machine: a slow drift, a disturbance that may hit a whole round, and one that hits an
%% epoch. Heavy tails.
clock(Factors, Random0, Round) ->
    Drift = 1 + 0.2 * math:sin(Round / 17),
    {Hit, Random1} = tail(0.1, Random0),
    maps:fold(
        fun(Candidate, Factor, {Times, Random}) ->
            {Own, Next} = tail(0.01, Random),
            {Times#{Candidate => 100 * Factor * Drift * Hit * Own}, Next}
        end,
        {#{}, Random1},
        Factors
    ).

%% At least 1, often near it, sometimes far.
tail(Scale, Random) ->
    {U, Next} = rand:uniform_real_s(Random),
    {1 + Scale * (math:pow(U, -0.5) - 1), Next}.

%% Runs rounds until decided or over; the verdict.
trial(Factors, Seed, MaxRounds) ->
    trial(Factors, new(map_size(Factors), Seed), rand:seed_s(exsss, {Seed, 7, 7}), 1, MaxRounds).

trial(Factors, State, Random, Round, MaxRounds) ->
    case Round > MaxRounds orelse dyno_bench_rounds:is_decided(State) of
        true ->
            [#{verdict := Verdict} | _] = dyno_bench_rounds:pairs(State),
            Verdict;
        false ->
            {Times, Next} = clock(Factors, Random, Round),
            trial(Factors, dyno_bench_rounds:add(Times, State), Next, Round + 1, MaxRounds)
    end.

verdicts(Factors, MaxRounds) ->
    [trial(Factors, Seed, MaxRounds) || Seed <- lists:seq(1, ?TRIALS)].

count(Verdict, Verdicts) -> length([V || V <- Verdicts, V =:= Verdict]).

identical_codes_are_not_called_different(_Config) ->
    Verdicts = verdicts(#{1 => 1.0, 2 => 1.0}, 400),
    Different = count(slower, Verdicts) + count(faster, Verdicts),
    ct:pal("of ~b: ~b different, ~b same", [?TRIALS, Different, count(same, Verdicts)]),
    ?assert(Different =< ?TRIALS * 0.05),
    ?assert(count(same, Verdicts) > ?TRIALS * 0.9).

a_real_difference_is_found(_Config) ->
    Verdicts = verdicts(#{1 => 1.0, 2 => 1.06}, 400),
    ?assert(count(slower, Verdicts) >= ?TRIALS * 0.9),
    ?assertEqual(0, count(faster, Verdicts)).

a_difference_below_the_threshold_does_not_matter(_Config) ->
    Verdicts = verdicts(#{1 => 1.0, 2 => 1.01}, 400),
    ?assert(count(same, Verdicts) > ?TRIALS * 0.9),
    ?assertEqual(0, count(faster, Verdicts)).

%% Rounds ten times as slow as others: the ratio does not see it.
noise_that_hits_a_round_cancels(_Config) ->
    State = lists:foldl(
        fun(Round, Acc) ->
            Slow = 1 + 9 * (Round rem 3),
            dyno_bench_rounds:add(#{1 => 100.0 * Slow, 2 => 200.0 * Slow}, Acc)
        end,
        new(2, 4),
        lists:seq(1, 30)
    ),
    [#{ratio := Ratio, low := Low, high := High}] = dyno_bench_rounds:pairs(State),
    [?assert(abs(R - 2) < 1.0e-9) || R <- [Ratio, Low, High]].

%% Five rounds never decide, however clear they are; six can.
a_fixed_number_of_rounds(_Config) ->
    Of = fun(Rounds, Ratio) ->
        lists:foldl(
            fun(N, State) ->
                dyno_bench_rounds:add(#{1 => 100.0 + N, 2 => (100.0 + N) * Ratio}, State)
            end,
            dyno_bench_rounds:new(2, #{threshold => 0.03, level => 0.95}),
            lists:seq(1, Rounds)
        )
    end,
    ?assertEqual(6, dyno_bench_comparison:least_rounds(2, 0.95)),
    ?assertEqual(9, dyno_bench_comparison:least_rounds(5, 0.95)),
    ?assertMatch(
        [#{verdict := undecided, low := undefined}], dyno_bench_rounds:fixed_pairs(Of(5, 2.0))
    ),
    ?assertMatch([#{verdict := slower}], dyno_bench_rounds:fixed_pairs(Of(6, 2.0))),
    ?assertMatch([#{verdict := faster}], dyno_bench_rounds:fixed_pairs(Of(6, 0.5))),
    ?assertMatch([#{verdict := same}], dyno_bench_rounds:fixed_pairs(Of(6, 1.01))),
    Wide = #{a => 1, b => 2, ratio => 1.1, low => 0.9, high => 1.3, verdict => undecided},
    Narrow = Wide#{low := 1.02, high := 1.18},
    More = fun(Pair) -> dyno_bench_comparison:more_rounds(Pair, 0.03) end,
    ?assert(More(Wide) > More(Narrow)),
    ?assertEqual(100.0, dyno_bench_comparison:more_rounds(Wide#{ratio := 1.03}, 0.03)),
    ?assertEqual(undefined, dyno_bench_comparison:more_rounds(Wide#{low := undefined}, 0.03)).

%% A call of 2400 ns. In a third of the epochs somebody else seems to have had all of the time, or
%% has had ten times as much as the code.
epochs_are_long_enough_and_not_much_longer(_Config) ->
    _ = rand:seed(exsss, 1),
    Epoch = fun(N) ->
        Ns = N * 2400,
        Others =
            case rand:uniform(6) of
                1 -> #{wall_ns => Ns, wait_ns => Ns};
                2 -> #{wall_ns => 11 * Ns, wait_ns => 10 * Ns};
                _ -> #{wall_ns => Ns, wait_ns => 0}
            end,
        [Others]
    end,
    Needed = fun(Of) -> element(1, dyno_bench_calibration:iterations(Of)) end,
    Found = [Needed(Epoch) || _ <- lists:seq(1, ?TRIALS)],
    ?assert(lists:min(Found) * 2400 >= 2_000_000),
    ?assert(lists:max(Found) * 2400 =< 60_000_000, lists:max(Found)),
    %% Without noise, and where the clock does not tell what others took.
    Alone = fun(N) -> [#{wall_ns => N * 10, wait_ns => undefined}] end,
    Iterations = Needed(Alone),
    ?assert(Iterations >= 200_000 andalso Iterations =< 300_000, Iterations),
    %% A call that is long by itself; and what it took says how long a round will be.
    Calls = counters:new(1, []),
    Slow = fun(N) ->
        ok = counters:add(Calls, 1, N),
        [#{wall_ns => N * 50_000_000, wait_ns => 0}]
    end,
    ?assertEqual({1, 50_000_000}, dyno_bench_calibration:iterations(Slow)),
    ?assertEqual(2, counters:get(Calls, 1)),
    %% One that is long only the first time, because it loads a module.
    First = counters:new(1, []),
    Loading = fun(N) ->
        ok = counters:add(First, 1, 1),
        Ns =
            case counters:get(First, 1) of
                1 -> 40_000_000;
                _ -> N * 1000
            end,
        [#{wall_ns => Ns, wait_ns => 0}]
    end,
    ?assert(Needed(Loading) >= 2000),
    %% Of many workers one may be done before the others begin.
    Crowd = fun(N) ->
        [#{wall_ns => Ns, wait_ns => 0} || Ns <- [1 | [N * 100_000 || _ <- "many workers here"]]]
    end,
    ?assert(Needed(Crowd) < 100).

%% As many as the fastest needs, but an epoch of a slow code is not far longer for that.
slow_codes_have_few_iterations(_Config) ->
    [
        ?assertEqual(Expected, dyno_bench_calibration:balance(#{a => A, b => B}, 2), {A, B})
     || {A, B, Expected} <- [
            %% 15 ns and 1.75 us
            {{150_000, 2_250_000}, {1300, 2_275_000}, #{
                a => {150_000, 2_250_000}, b => {22_857, 39_999_750}
            }},
            %% 1 ms and 100 ms
            {{2, 2_200_000}, {1, 100_000_000}, #{a => {2, 2_200_000}, b => {1, 100_000_000}}},
            {{20, 3_000_000}, {10, 3_000_000}, #{a => {20, 3_000_000}, b => {20, 6_000_000}}}
        ]
    ],
    %% Of 10,000 workers each needs 25 us for an iteration, and the heap's growth besides.
    ?assertEqual(
        #{a => {4, 1_000_000_000}, b => {4, 1_200_000_000}, c => {4, 100_000_000_000}},
        dyno_bench_calibration:balance(
            #{a => {2, 500_000_000}, b => {4, 1_200_000_000}, c => {1, 25_000_000_000}}, 10_000
        )
    ).

as_many_rounds_as_a_verdict_needs(_Config) ->
    Plan = fun(Candidates, RoundMs, BudgetMs) ->
        dyno_bench_plan:plan({Candidates, 0.95}, {RoundMs, BudgetMs})
    end,
    [
        ?assertEqual(Expected, Plan(Candidates, RoundMs, BudgetMs), {Candidates, RoundMs})
     || {Expected, Candidates, RoundMs, BudgetMs} <- [
            %% Many: one looks after each.
            {{until_decided, 2000, 11}, 2, 50.0, 2000},
            {{until_decided, 3000, 14}, 3, 50.0, 3000},
            %% Few: as many as fit.
            {{fixed, 20}, 2, 100.0, 2000},
            {{fixed, 6}, 2, 333.0, 2000},
            %% Fewer than a verdict needs: that many.
            {{fixed, 6}, 2, 600.0, 2000},
            {{fixed, 6}, 1, 60_000.0, 2000},
            {{fixed, 7}, 3, 900.0, 3000}
        ]
    ],
    %% What it promises: with so many rounds every pair has an interval, looked at once or always.
    [
        begin
            Pairs = length(dyno_bench_comparison:candidates(Candidates)),
            Rounds = dyno_bench_comparison:least_rounds(Candidates, 0.95),
            ?assertMatch([_ | _], with_interval(fixed_pairs, Candidates, Rounds)),
            ?assertEqual(Pairs, length(with_interval(fixed_pairs, Candidates, Rounds))),
            {until_decided, _, Least} = Plan(Candidates, 0.1, 10_000),
            ?assertEqual(Pairs, length(with_interval(pairs, Candidates, Least)))
        end
     || Candidates <- [2, 3, 5, 20]
    ].

with_interval(Function, Candidates, Rounds) ->
    Add = fun(_, State) ->
        dyno_bench_rounds:add(#{N => float(N) || N <- lists:seq(1, Candidates)}, State)
    end,
    State = lists:foldl(Add, new(Candidates, 1), lists:seq(1, Rounds)),
    [Low || #{low := Low} <- dyno_bench_rounds:Function(State), is_float(Low)].

%% VMs of their own: the time may be over, but not before the first look, which gives intervals.
no_group_short_of_a_verdict(_Config) ->
    Options = #{level => 0.95, budget_ms => 5000, limit_ms => 25_000, isolated => #{}},
    ?assertEqual([8, 16, 32], dyno_bench_groups:looks(2, Options)),
    ?assertEqual([9, 16, 32], dyno_bench_groups:looks(3, Options)),
    ?assertEqual([15, 16, 32], dyno_bench_groups:looks(20, Options)),
    ?assertEqual([3], dyno_bench_groups:looks(20, Options#{isolated := #{vms => 3}})),
    [
        ?assertEqual(Expected, dyno_bench_plan:is_over({Count, Ms}, 8, Options), {Count, Ms})
     || {Expected, Count, Ms} <- [
            {false, 0, 6000},
            {false, 3, 4000},
            {false, 6, 8000},
            {false, 7, 9000},
            {true, 8, 10_000},
            %% They would take ten times as long.
            {true, 1, 6000},
            {false, 2, 6000},
            {true, 7, 24_000}
        ]
    ],
    ?assertNot(dyno_bench_plan:is_over({7, 90_000}, 8, Options#{limit_ms := infinity})).

%% A code whose calls take longer and longer does not go on until it has its rounds.
what_drifts_comes_to_an_end(_Config) ->
    NowMs = fun() -> erlang:monotonic_time(millisecond) end,
    StartMs = NowMs(),
    Measure = fun(_Number, Round) ->
        timer:sleep(10 * Round),
        {float(Round), Round}
    end,
    New = dyno_bench_rounds:new(2, #{threshold => 0.03, level => 0.95}),
    {Rounds, State} = dyno_bench_rounds:measure(
        Measure, {decided_until_ms, StartMs + 20, 100, StartMs + 200}, New
    ),
    ?assert(length(Rounds) < 20),
    ?assertMatch([#{verdict := undecided}], dyno_bench_rounds:pairs(State)).

what_came_before_an_interrupt(_Config) ->
    Self = self(),
    Calls = counters:new(1, []),
    Measure = fun(_Number, _Round) ->
        ok = counters:add(Calls, 1, 1),
        case counters:get(Calls, 1) of
            8 -> throw({somebody, {dyno_error, interrupted}});
            N -> {float(N), N}
        end
    end,
    New = dyno_bench_rounds:new(2, #{
        threshold => 0.03, level => 0.95, progress => fun(P) -> Self ! {told, P} end
    }),
    {Rounds, State} = dyno_bench_rounds:measure(Measure, {rounds, 9}, New),
    ?assertEqual({3, interrupted}, {length(Rounds), dyno_bench_rounds:status(State)}),
    ?assertEqual(3, length(dyno_bench_rounds:values(1, State))),
    %% It is not told of each of the short ones.
    receive
        {told, Told} -> ?assertEqual(#{round => 1, rounds => 9}, Told)
    after 0 -> ct:fail(no_progress)
    end,
    ?assertMatch({[], _}, dyno_bench_rounds:measure(Measure, {rounds, 9}, State)).
