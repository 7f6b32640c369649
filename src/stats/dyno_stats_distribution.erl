%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_distribution).
-moduledoc """
Probability distributions for the intervals and tests.

Logarithms avoid overflow and underflow with thousands of observations. `binomial_cdf/3` is accurate
to about 12 digits for 1,000 trials and to 9 for 1,000,000.

## Examples

```erlang
1> round(math:exp(dyno_stats_distribution:log_gamma(6))).
120
2> dyno_stats_distribution:count_cdf(0, [1, 1, 1]).
0.16666666666666666
```
""".

%% Special functions
-export([log_gamma/1, log_beta/2, incomplete_beta/3]).
%% Distributions
-export([binomial_cdf/3, normal_cdf/1, count_cdf/2]).
%% Order statistics
-export([largest_rank/3]).

%% Convergence of a continued fraction.
-define(EPSILON, 1.0e-15).
%% Replaces a zero divisor (Lentz's method).
-define(TINY, 1.0e-300).
%% Up to this many fair trials the outcomes are counted, in one-word integers.
-define(SUMMED, 60).
%% Up to this many points `count_cdf/2` counts; above, it uses the normal approximation.
-define(COUNTED, 30).

-doc """
The logarithm of the gamma function, for positive arguments: Stirling's series (Abramowitz and
Stegun, 6.1.41) from 12 upwards, below by the recurrence gamma(x + 1) = x * gamma(x).
""".
-spec log_gamma(X :: number()) -> float().
log_gamma(X) when X > 0 ->
    log_gamma(float(X), 1.0).

log_gamma(X, Product) when X < 12 ->
    log_gamma(X + 1, Product * X);
log_gamma(X, Product) ->
    Square = 1 / (X * X),
    Series = polynomial(Square, [
        1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156
    ]),
    (X - 0.5) * math:log(X) - X + 0.5 * math:log(2 * math:pi()) + Series / X - math:log(Product).

polynomial(X, Coefficients) ->
    lists:foldr(fun(Coefficient, Sum) -> Coefficient + X * Sum end, 0.0, Coefficients).

-doc "The logarithm of the beta function, for positive arguments.".
-spec log_beta(A :: number(), B :: number()) -> float().
log_beta(A, B) ->
    log_gamma(A) + log_gamma(B) - log_gamma(A + B).

-doc """
The regularised incomplete beta function I_x(a, b): its continued fraction (Digital Library of
Mathematical Functions, 8.17.22) by Lentz's method, on the fast converging side of the mean.
""".
-spec incomplete_beta(X :: number(), A :: number(), B :: number()) -> float().
incomplete_beta(X, A, B) when X >= 0, X =< 1, A > 0, B > 0 ->
    if
        X == 0 -> 0.0;
        X == 1 -> 1.0;
        X =< (A + 1) / (A + B + 2) -> beta_fraction(X, A, B);
        true -> 1 - beta_fraction(1 - X, B, A)
    end.

beta_fraction(X, A, B) ->
    Log = A * math:log(X) + B * math:log(1 - X) - log_beta(A, B) - math:log(A),
    D = 1 / not_zero(1 - (A + B) * X / (A + 1)),
    math:exp(Log) * lentz(1, X, A, B, 1.0, D, D).

lentz(M, X, A, B, C0, D0, Value0) ->
    Even = M * (B - M) * X / ((A + 2 * M - 1) * (A + 2 * M)),
    D1 = 1 / not_zero(1 + Even * D0),
    C1 = not_zero(1 + Even / C0),
    Odd = -(A + M) * (A + B + M) * X / ((A + 2 * M) * (A + 2 * M + 1)),
    D2 = 1 / not_zero(1 + Odd * D1),
    C2 = not_zero(1 + Odd / C1),
    Value = Value0 * D1 * C1 * D2 * C2,
    case abs(D2 * C2 - 1) < ?EPSILON of
        true -> Value;
        false -> lentz(M + 1, X, A, B, C2, D2, Value)
    end.

not_zero(X) when abs(X) < ?TINY -> ?TINY;
not_zero(X) -> X.

-doc """
The probability of at most `K` successes in `N` independent trials with probability `P` (by the
incomplete beta function: Abramowitz and Stegun, 26.5.24; fair trials up to 60 are counted).
""".
-spec binomial_cdf(K :: integer(), N :: non_neg_integer(), P :: number()) -> float().
binomial_cdf(K, _, _) when K < 0 -> 0.0;
binomial_cdf(K, N, _) when K >= N -> 1.0;
binomial_cdf(K, N, 0.5) when N =< ?SUMMED -> fair_sum(K, N, 0, 1, 0) / (1 bsl N);
binomial_cdf(K, N, P) when P >= 0, P =< 1 -> incomplete_beta(1 - P, N - K, K + 1).

fair_sum(K, _, K, Coefficient, Sum) ->
    Sum + Coefficient;
fair_sum(K, N, I, Coefficient, Sum) ->
    fair_sum(K, N, I + 1, Coefficient * (N - I) div (I + 1), Sum + Coefficient).

-doc "The probability that a standard normal variable is at most `Z`.".
-spec normal_cdf(Z :: number()) -> float().
normal_cdf(Z) ->
    0.5 * math:erfc(-Z / math:sqrt(2)).

-doc """
The probability that at most `K` pairs of points from different groups are in descending order, if
all orders of the values are equally likely. `Groups` has the size of each group of points with
equal abscissa. Groups of one give the distribution of Kendall's statistic (Kendall, "A new measure
of rank correlation", 1938), two groups that of Mann and Whitney.

Up to 30 points it is exact: the generating function of the orders is the Gaussian multinomial
coefficient (Andrews, "The theory of partitions", section 3.4). Above, it is the normal
approximation with the variance of Sen (1968) and a continuity correction.
""".
-spec count_cdf(K :: integer(), Groups :: [pos_integer(), ...]) -> float().
count_cdf(K, _) when K < 0 ->
    0.0;
count_cdf(K, Groups) ->
    Points = lists:sum(Groups),
    Pairs = pairs(Points) - lists:sum([pairs(Size) || Size <- Groups]),
    if
        K >= Pairs -> 1.0;
        Points =< ?COUNTED -> counted_cdf(K, Points, Pairs, Groups);
        true -> approximate_cdf(K, Points, Pairs, Groups)
    end.

pairs(Size) ->
    Size * (Size - 1) div 2.

%% The distribution is symmetric: the shorter tail is counted.
counted_cdf(K, Points, Pairs, Groups) when 2 * K >= Pairs ->
    1 - counted_cdf(Pairs - K - 1, Points, Pairs, Groups);
counted_cdf(K, _, _, _) when K < 0 ->
    0.0;
counted_cdf(K, Points, _, Groups) ->
    One = [1 | lists:duplicate(K, 0)],
    Numerator = lists:foldl(fun times/2, One, lists:seq(2, Points)),
    Factors = [Factor || Size <- Groups, Factor <- lists:seq(1, Size)],
    %% The numerator's own factor 1 - q cancels one of the groups'.
    Orders = lists:foldl(fun divided_by/2, Numerator, tl(lists:sort(Factors))),
    All = lists:foldl(fun(Size, N) -> N div factorial(Size) end, factorial(Points), Groups),
    lists:sum(Orders) / All.

%% Power series in q as lists of their first coefficients: multiplied and divided by 1 - q^M.

times(M, Series) ->
    Shifted = lists:sublist(lists:duplicate(M, 0) ++ Series, length(Series)),
    lists:zipwith(fun(A, B) -> A - B end, Series, Shifted).

%% Each coefficient is its own plus the divided one M places before.
divided_by(M, Series) ->
    lists:reverse(
        lists:foldl(fun(A, Done) -> [A + before(M, Done) | Done] end, [], Series)
    ).

before(M, Done) when length(Done) < M -> 0;
before(M, Done) -> lists:nth(M, Done).

factorial(0) -> 1;
factorial(N) -> N * factorial(N - 1).

approximate_cdf(K, Points, Pairs, Groups) ->
    Ties = lists:sum([kendall_term(Size) || Size <- Groups]),
    %% For the number of descending pairs; Kendall's S counts each twice.
    Deviation = math:sqrt((kendall_term(Points) - Ties) / 72),
    normal_cdf((K + 0.5 - Pairs / 2) / Deviation).

kendall_term(Size) ->
    Size * (Size - 1) * (2 * Size + 5).

-doc """
The largest rank `K` from `From` to `To` with `Holds(K)`, or `From - 1` if there is none. `Holds`
must be true up to some rank and false above; it is called about log2(To - From) times.
""".
-spec largest_rank(Holds, From :: integer(), To :: integer()) -> integer() when
    Holds :: fun((integer()) -> boolean()).
largest_rank(_, From, To) when is_integer(From), From > To ->
    From - 1;
largest_rank(Holds, From, To) when is_integer(From), is_integer(To) ->
    Middle = (From + To) div 2,
    case Holds(Middle) of
        true -> largest_rank(Holds, Middle + 1, To);
        false -> largest_rank(Holds, From, Middle - 1)
    end.
