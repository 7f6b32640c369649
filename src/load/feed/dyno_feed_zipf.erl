%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_feed_zipf).
-moduledoc false.
%% Draws numbers of a Zipf distribution: K from 1 to Count, with a probability proportional to K to
%% the power of -Exponent.
%%
%% By rejection-inversion (W. Hörmann and G. Derflinger, 1996), without a table.

-export([new/2, sample/2]).
-export_type([t/0]).

-opaque t() :: {
    Count :: pos_integer(), Exponent :: float(), From :: float(), To :: float(), Near :: float()
}.

%% Closer to 1, the integral is the logarithm.
-define(ONE, 1.0e-9).

-spec new(pos_integer(), number()) -> t().
new(Count, Exponent0) ->
    Exponent = float(Exponent0),
    From = integral(1.5, Exponent) - 1.0,
    To = integral(Count + 0.5, Exponent),
    %% Nothing within that distance of a whole number is rejected.
    Near = 2.0 - inverse(integral(2.5, Exponent) - math:pow(2.0, -Exponent), Exponent),
    {Count, Exponent, From, To, Near}.

-spec sample(t(), rand:state()) -> {pos_integer(), rand:state()}.
sample({Count, Exponent, From, To, Near} = Zipf, Random) ->
    {Uniform, Next} = rand:uniform_s(Random),
    Area = To + Uniform * (From - To),
    X = inverse(Area, Exponent),
    K = max(1, min(Count, round(X))),
    case K - X =< Near orelse Area >= integral(K + 0.5, Exponent) - math:pow(K, -Exponent) of
        true -> {K, Next};
        false -> sample(Zipf, Next)
    end.

%% The integral of x^-Exponent from 1.
integral(X, Exponent) when abs(1.0 - Exponent) < ?ONE -> math:log(X);
integral(X, Exponent) -> (math:pow(X, 1.0 - Exponent) - 1.0) / (1.0 - Exponent).

inverse(Area, Exponent) when abs(1.0 - Exponent) < ?ONE -> math:exp(Area);
inverse(Area, Exponent) ->
    math:pow(max(0.0, 1.0 + Area * (1.0 - Exponent)), 1.0 / (1.0 - Exponent)).
