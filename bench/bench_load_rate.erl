%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_load_rate).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

%% A rate is kept when so much of it came about, and in time.
-define(KEPT, 0.99).
-define(LATE_NS, 1_000_000).
-define(FIRST_PER_S, 10_000).
-define(GOAL_PER_S, 50_000).
-define(TIMEOUT_MS, 60_000).
%% The rates that are tried around the limit are so far apart.
-define(STEP, 1.1).

describe() ->
    """
    The highest rate that dyno's open load keeps on one core of this machine (in a node with one
    scheduler) with an operation that does nothing, and 16 workers, or as many as the argument says.
    A rate is kept when 99 % of the
    arrivals were served within the run, and half of them within a millisecond of when they were
    due. The rate is doubled until it is not kept twice in a row, and then approached in steps of
    10 %.
    """.

argument(Text) -> bench_program:whole(Text, 16, {1, "workers"}).

measure(Workers, Effort) ->
    {Searches, DurationMs} = settings(Effort),
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io,
        args => ["+S", "1:1" | lists:append([["-pa", Path] || Path <- dyno_code:own_paths()])]
    }),
    %% Something else may have had the processors: a second try.
    Keeps = fun(Rate) ->
        keeps(Peer, Rate, Workers, DurationMs) orelse keeps(Peer, Rate, Workers, DurationMs)
    end,
    Rates = [highest(?FIRST_PER_S, Keeps) || _ <- lists:seq(1, Searches)],
    ok = peer:stop(Peer),
    {Value, Interval} = bench_program:median(Rates),
    bench_program:say("searches  ~b with ~b workers, each rate tried for ~b ms", [
        Searches, Workers, DurationMs
    ]),
    #{
        name => "load_rate",
        value => Value,
        unit => "1/s",
        interval => Interval,
        least => ?GOAL_PER_S
    }.

settings(full) -> {6, 500};
settings(quick) -> {1, 100}.

highest(Rate, Keeps) ->
    case Keeps(Rate) of
        true -> highest(2 * Rate, Keeps);
        false -> between(Rate / 2, Rate, Keeps)
    end.

between(Kept, Lost, _Keeps) when Lost / Kept =< ?STEP ->
    Kept;
between(Kept, Lost, Keeps) ->
    Rate = math:sqrt(Kept * Lost),
    case Keeps(Rate) of
        true -> between(Rate, Lost, Keeps);
        false -> between(Kept, Rate, Keeps)
    end.

keeps(Peer, Rate, Workers, DurationMs) ->
    Load = #{model => open, workers => Workers, rate_per_s => Rate},
    #{successes := Count, response := Response} =
        peer:call(Peer, bench_load, run, [Load, DurationMs], ?TIMEOUT_MS),
    Count >= ?KEPT * Rate * DurationMs / 1000 andalso
        dyno_histogram:quantile(Response, 0.5) =< ?LATE_NS.
