%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_calibration).
-moduledoc false.
%% How many iterations an epoch needs: it must be long against reading the clocks at its edges,
%% which takes 20 us. What others took of the wall time is measured to within a time slice of theirs
%% only, so a short epoch may seem to have had no time at all; how much more is needed is never
%% inferred from that alone, or epochs would last a hundred times as long, and there would be few
%% rounds.

-export([iterations/1, balance/1, net_ns/1]).

-define(EPOCH_NS, 2_000_000).
-define(MAX_ITERATIONS, 1_000_000_000).
%% The most that others are believed to have taken of an epoch, as a factor.
-define(DISTURBED, 8).

-type epoch() :: #{
    wall_ns := non_neg_integer(), wait_ns := non_neg_integer() | undefined, _ => _
}.

-doc "Measures with more and more iterations, until they are enough.".
-spec iterations(Epochs :: fun((pos_integer()) -> [epoch(), ...])) -> pos_integer().
iterations(Epochs) ->
    enough(Epochs, 1).

-doc """
As many iterations for each of several codes as the fastest needs; a slow code would take too long
with them, and gets fewer: at that length it makes no difference.
""".
-spec balance(#{Code => pos_integer()}) -> #{Code => pos_integer()}.
balance(Needed) ->
    Most = lists:max(maps:values(Needed)),
    #{Code => min(Most, 20 * N) || Code := N <- Needed}.

%% Twice in a row: the first may have been disturbed.
enough(Epochs, N) ->
    case least(Epochs(N)) of
        {Ns, _} when Ns >= ?EPOCH_NS ->
            case least(Epochs(N)) of
                {Again, _} when Again >= ?EPOCH_NS -> N;
                Short -> grown(Epochs, N, Short)
            end;
        Short ->
            grown(Epochs, N, Short)
    end.

%% Of the worker that has had the least time.
least(Epochs) ->
    lists:min([{net_ns(E), max(1, map_get(wall_ns, E))} || E <- Epochs]).

grown(_Epochs, N, _Short) when N >= ?MAX_ITERATIONS ->
    N;
grown(Epochs, N, {Ns, WallNs}) ->
    Believed = max(Ns, WallNs / ?DISTURBED),
    Enough = max(ceil(N * 1.2), ceil(N * ?EPOCH_NS * 1.2 / Believed)),
    enough(Epochs, min(?MAX_ITERATIONS, max(N + 1, min(Enough, N * 100)))).

-doc "The time of an epoch, less what others took of it.".
-spec net_ns(epoch()) -> pos_integer().
net_ns(#{wall_ns := Wall, wait_ns := Wait}) when is_integer(Wait) -> max(1, Wall - Wait);
net_ns(#{wall_ns := Wall}) -> max(1, Wall).
