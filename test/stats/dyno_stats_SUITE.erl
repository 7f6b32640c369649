%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_SUITE).
-moduledoc false.

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-import(proper_types, [float/0, float/2, integer/0, integer/2, list/1, non_empty/1, oneof/1]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        doctests,
        known_quantiles,
        known_centres,
        empty_and_single,
        quantile_is_naive_quantile,
        follow_shift_and_scale,
        estimate_normal_parameters,
        log_gamma_table,
        log_gamma_of_integers,
        binomial_is_naive,
        binomial_of_many_trials,
        incomplete_beta_identities,
        normal_table,
        kendall_and_mann_whitney_tables,
        counts_are_naive,
        counts_meet_the_approximation,
        counts_are_symmetric,
        largest_rank_is_naive
    ].

%% ct_doctest came with OTP 29.
doctest_of(Module) ->
    case code:ensure_loaded(ct_doctest) of
        {module, _} -> passed(ct_doctest:module(Module));
        {error, _} -> {skip, "ct_doctest needs OTP 29"}
    end.

passed(ok) -> ok;
%% How many functions have no example of their own.
passed({comment, _}) -> ok.

doctests(_) ->
    Modules = [
        dyno_stats,
        dyno_stats_distribution,
        dyno_stats_interval,
        dyno_stats_runs,
        dyno_stats_sequence,
        dyno_stats_verdict,
        dyno_stats_growth
    ],
    hd([doctest_of(Module) || Module <- Modules]).

%% Estimators

%% R: quantile(c(15, 20, 35, 40, 50), type = 7), and the 1 to 10 of its help page.
known_quantiles(_) ->
    Five = [35, 20, 15, 50, 40],
    [
        ?assertEqual(Want, dyno_stats:quantile(Five, Q))
     || {Q, Want} <- [{0, 15.0}, {0.25, 20.0}, {0.4, 29.0}, {0.5, 35.0}, {0.75, 40.0}, {1, 50.0}]
    ],
    Ten = lists:seq(1, 10),
    [
        ?assert(abs(dyno_stats:quantile(Ten, Q) - Want) < 1.0e-12)
     || {Q, Want} <- [{0.25, 3.25}, {0.5, 5.5}, {0.75, 7.75}, {0.9, 9.1}, {0.99, 9.91}]
    ],
    ?assertError(function_clause, dyno_stats:quantile(Ten, 1.1)).

known_centres(_) ->
    ?assertEqual(2.0, dyno_stats:median([1, 1, 2, 2, 4, 6, 9])),
    ?assertEqual(2.5, dyno_stats:median([4, 1, 3, 2])),
    ?assertEqual(2.5, dyno_stats:mean([4, 1, 3, 2])),
    ?assertEqual(0.5, dyno_stats:variation([1, 2, 3])).

empty_and_single(_) ->
    [?assertEqual(undefined, dyno_stats:F([])) || F <- [median, mean]],
    ?assertEqual(undefined, dyno_stats:variation([7])),
    ?assertEqual(undefined, dyno_stats:quantile([], 0.9)),
    [?assertEqual(7.0, dyno_stats:F([7])) || F <- [median, mean]].

quantile_is_naive_quantile(_) ->
    check(
        ?FORALL({Values, Q}, {sample(), float(0.0, 1.0)}, begin
            Got = dyno_stats:quantile(Values, Q),
            Sorted = lists:sort(Values),
            H = (length(Values) - 1) * Q + 1,
            Low = lists:nth(floor(H), Sorted),
            High = lists:nth(min(length(Values), floor(H) + 1), Sorted),
            near(Got, Low + (H - floor(H)) * (High - Low)) andalso Got >= hd(Sorted) andalso
                Got =< lists:last(Sorted)
        end)
    ).

follow_shift_and_scale(_) ->
    check(
        ?FORALL({Values, Shift, Scale}, {list_of_two(), integer(-1000, 1000), integer(1, 50)}, begin
            Moved = [Scale * V + Shift || V <- Values],
            lists:all(
                fun(F) -> near(dyno_stats:F(Moved), Scale * dyno_stats:F(Values) + Shift) end,
                [median, mean]
            )
        end)
    ).

estimate_normal_parameters(_) ->
    Values = [10 + 2 * Z || Z <- normals(3, 4000)],
    [?assert(abs(dyno_stats:F(Values) - 10) < 0.1) || F <- [mean, median]].

%% Distributions

%% Abramowitz and Stegun, tables 6.1 and 6.4, and closed forms.
log_gamma_table(_) ->
    Pi = math:pi(),
    [
        ?assert(close(dyno_stats_distribution:log_gamma(X), Want, 1.0e-14))
     || {X, Want} <- [
            {0.5, math:log(Pi) / 2},
            {1, 0.0},
            {1.5, math:log(math:sqrt(Pi) / 2)},
            {2, 0.0},
            {10, math:log(362880)},
            {100, 359.1342053695754},
            {0.001, 6.907178885383853},
            {1.0e6, 12815504.569147611}
        ]
    ],
    ?assertError(function_clause, dyno_stats_distribution:log_gamma(0)).

log_gamma_of_integers(_) ->
    lists:foldl(
        fun(N, Factorial) ->
            ?assert(close(dyno_stats_distribution:log_gamma(N), math:log(Factorial), 1.0e-14)),
            Factorial * N
        end,
        1,
        lists:seq(1, 160)
    ).

%% Against sums of integers: no rounding but the last.
binomial_is_naive(_) ->
    check(
        ?FORALL(
            {N, K, A, B},
            {integer(0, 150), integer(-1, 152), integer(1, 30), integer(1, 30)},
            begin
                Terms = [
                    choose(N, I) * power(A, I) * power(B, N - I)
                 || I <- lists:seq(0, min(K, N))
                ],
                Want = lists:sum(Terms) / power(A + B, N),
                Got = dyno_stats_distribution:binomial_cdf(K, N, A / (A + B)),
                abs(Got - Want) < 1.0e-12 andalso
                    (Want < 1.0e-200 orelse abs(Got / Want - 1) < 1.0e-10)
            end
        )
    ).

binomial_of_many_trials(_) ->
    %% Symmetric, and normal within the known error of the approximation (Berry and Esseen).
    lists:foreach(
        fun(N) ->
            K = N div 2 - round(math:sqrt(N)),
            Low = dyno_stats_distribution:binomial_cdf(K, N, 0.5),
            High = dyno_stats_distribution:binomial_cdf(N - K - 1, N, 0.5),
            ?assert(abs(Low + High - 1) < 1.0e-8),
            Z = (K + 0.5 - N / 2) / math:sqrt(N / 4),
            ?assert(abs(Low - dyno_stats_distribution:normal_cdf(Z)) < 0.4 / math:sqrt(N))
        end,
        [61, 100, 1000, 10_000, 1_000_000]
    ).

incomplete_beta_identities(_) ->
    check(
        ?FORALL({X, A, B}, {float(0.0, 1.0), float(0.1, 80.0), float(0.1, 80.0)}, begin
            I = dyno_stats_distribution:incomplete_beta(X, A, B),
            Mirrored = 1 - dyno_stats_distribution:incomplete_beta(1 - X, B, A),
            I >= 0 andalso I =< 1 andalso abs(I - Mirrored) < 1.0e-10
        end)
    ),
    [
        ?assert(close(dyno_stats_distribution:incomplete_beta(X, A, 1), math:pow(X, A), 1.0e-12))
     || X <- [0.1, 0.5, 0.9], A <- [0.5, 1, 3, 20]
    ],
    ?assertEqual(0.0, dyno_stats_distribution:incomplete_beta(0, 2, 3)),
    ?assertEqual(1.0, dyno_stats_distribution:incomplete_beta(1, 2, 3)).

normal_table(_) ->
    [
        ?assert(abs(dyno_stats_distribution:normal_cdf(Z) - Want) < 5.0e-5)
     || {Z, Want} <- [{0, 0.5}, {1, 0.8413}, {1.645, 0.9500}, {1.96, 0.9750}, {-2.5758, 0.0050}]
    ].

%% Upper tails as printed: Hollander and Wolfe, "Nonparametric statistical methods"
%% (Kendall's K = pairs - 2 * descending), and of Mann and Whitney's U.
kendall_and_mann_whitney_tables(_) ->
    [
        begin
            Descending = (N * (N - 1) div 2 - K) div 2,
            Got = dyno_stats_distribution:count_cdf(Descending, lists:duplicate(N, 1)),
            ?assertEqual(Want, round(1000 * Got))
        end
     || {N, K, Want} <- [
            {4, 4, 167},
            {4, 6, 42},
            {5, 8, 42},
            {5, 10, 8},
            {6, 11, 28},
            {7, 13, 35},
            {8, 16, 31},
            {9, 18, 38},
            {10, 21, 36},
            {10, 23, 23},
            {10, 25, 14}
        ]
    ],
    [
        ?assert(
            close(dyno_stats_distribution:count_cdf(U, [M, N]), Ways / choose(M + N, M), 1.0e-12)
        )
     || {M, N, U, Ways} <- [{5, 5, 0, 1}, {5, 5, 2, 4}, {5, 5, 4, 12}, {3, 4, 1, 2}, {3, 3, 8, 19}]
    ].

%% All orders of up to six points, counted one by one.
counts_are_naive(_) ->
    [
        begin
            Marks = lists:append([lists:duplicate(S, I) || {I, S} <- lists:enumerate(Groups)]),
            Orders = permutations(lists:seq(1, length(Marks))),
            Counts = [descending(lists:zip(Marks, Order)) || Order <- Orders],
            [
                ?assert(
                    close(
                        dyno_stats_distribution:count_cdf(K, Groups),
                        length([C || C <- Counts, C =< K]) / length(Orders),
                        1.0e-12
                    )
                )
             || K <- lists:seq(-1, 16)
            ]
        end
     || Groups <- [
            [1], [1, 1], [2, 2], [1, 1, 1, 1, 1], [2, 2, 2], [1, 3, 2], [4, 1, 1], [5], [3, 3]
        ]
    ].

counts_meet_the_approximation(_) ->
    %% 30 points are counted, 31 approximated: one more point moves the quantile but little.
    [
        begin
            Exact = dyno_stats_distribution:count_cdf(K30, Thirty),
            More = dyno_stats_distribution:count_cdf(K31, [1 | Thirty]),
            ?assert(abs(Exact - More) < 0.01)
        end
     || {Thirty, K30, K31} <- [
            {lists:duplicate(30, 1), at(435, 0.4), at(465, 0.4)},
            {lists:duplicate(10, 3), at(405, 0.4), at(435, 0.4)}
        ]
    ].

%% As likely descending as ascending, counted or approximated.
counts_are_symmetric(_) ->
    [
        begin
            Tail = dyno_stats_distribution:count_cdf(K, Groups),
            Rest = dyno_stats_distribution:count_cdf(Pairs - K - 1, Groups),
            ?assert(abs(Tail + Rest - 1) < 1.0e-12),
            ?assert(Tail =< dyno_stats_distribution:count_cdf(K + 1, Groups))
        end
     || {Groups, Pairs} <- [
            {lists:duplicate(12, 1), 66}, {lists:duplicate(40, 1), 780}, {[20, 20], 400}
        ],
        K <- [0, 7, Pairs div 3, Pairs div 2, Pairs - 2]
    ].

largest_rank_is_naive(_) ->
    check(
        ?FORALL({From, To, Border}, {integer(-5, 5), integer(-5, 40), integer(-10, 45)}, begin
            Want = max(From - 1, min(To, Border)),
            Got = dyno_stats_distribution:largest_rank(fun(R) -> R =< Border end, From, To),
            Got =:= Want orelse (From > To andalso Got =:= From - 1)
        end)
    ).

%% Generators and naive versions

sample() ->
    non_empty(list(number())).

%% Repeated values and wild ones.
number() ->
    oneof([integer(-5, 5), integer(), float(-1.0e6, 1.0e6), float()]).

list_of_two() ->
    ?LET({A, List}, {integer(), non_empty(list(integer()))}, [A | List]).

normals(Seed, Count) ->
    {Values, _} = lists:mapfoldl(
        fun(_, State) -> rand:normal_s(State) end, rand:seed_s(exsss, Seed), lists:seq(1, Count)
    ),
    Values.

near(Got, Want) ->
    close(Got, Want, 1.0e-9).

close(Got, Want, Tolerance) ->
    abs(Got - Want) =< Tolerance * max(1, abs(Want)).

choose(N, K) -> factorial(N) div (factorial(K) * factorial(N - K)).

factorial(N) -> lists:foldl(fun erlang:'*'/2, 1, lists:seq(1, N)).

power(_, 0) -> 1;
power(Base, N) -> Base * power(Base, N - 1).

permutations([]) -> [[]];
permutations(List) -> [[X | Rest] || X <- List, Rest <- permutations(List -- [X])].

descending(Points) ->
    length([x || {G, Y} <- Points, {H, Z} <- Points, G < H, Y > Z]).

at(Pairs, Share) ->
    round(Pairs * Share).

check(Property) ->
    dyno_property:holds(Property, 300).
