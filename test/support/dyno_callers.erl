%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_callers).
-moduledoc "Functions that call `leaf/1`, each in its way. Loops are in functions of their own.".

-export([loops/1, maps/1, fails/1, works/1, leaf/1]).

-doc "By itself, so often.".
-spec loops(non_neg_integer()) -> ok.
loops(0) -> ok;
loops(N) -> looped(N).

looped(0) ->
    ok;
looped(N) ->
    _ = ?MODULE:leaf(N),
    looped(N - 1).

-doc "By `lists:map/2`.".
-spec maps(non_neg_integer()) -> non_neg_integer().
maps(N) ->
    length(lists:map(fun(I) -> ?MODULE:leaf(I) end, lists:seq(1, N))).

-doc "Once, and fails then.".
-spec fails(integer()) -> no_return().
fails(N) ->
    N = 1 + ?MODULE:leaf(N),
    ok.

-doc "So often, and works for about a millisecond after each.".
-spec works(non_neg_integer()) -> ok.
works(0) ->
    ok;
works(N) ->
    _ = ?MODULE:leaf(N),
    work_until(erlang:monotonic_time(microsecond) + 1000),
    works(N - 1).

work_until(Us) ->
    case erlang:monotonic_time(microsecond) >= Us of
        true -> ok;
        false -> work_until(Us)
    end.

-doc "Gives what it is given.".
-spec leaf(Term) -> Term.
leaf(Term) -> Term.
