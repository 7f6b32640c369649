%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_search).
-moduledoc """
Finds the highest rate at which an objective holds, by short probes: which rate is tried next, when
a rate is decided, and when the search is over. Pure.

A single probe decides nothing. Probes are repeated at a rate until those that held lead those
that did not, or the other way round, by so many that the wrong decision is less likely than
1 - confidence: Wald's sequential test between a rate that holds in 4 of 5 probes and one that
fails in 4 of 5 (a lead of 2 is a confidence of 0.94, one of 3 of 0.98). A rate that stays undecided
lies at the edge and counts as failed.

Rates are doubled from the first one until one fails (halved, where the first one does), then the
gap is halved on a logarithmic scale until it is narrower than the precision.
""".

-export([new/1, next/1, so_far/1, record/4]).
-export_type([search/0, options/0, outcome/0, result/0]).

-type options() :: #{
    from_per_s := number(),
    to_per_s := number(),
    confidence := number(),
    precision := number(),
    limit_ns := pos_integer()
}.

-doc "What a probe showed: the objective held, or why it did not.".
-type outcome() :: held | objective | saturated | generator.

-type tried() :: #{
    rate_per_s := number(),
    held := non_neg_integer(),
    failed := non_neg_integer(),
    %% The last reason of a probe that failed.
    why := outcome() | undefined,
    decision := held | failed | undecided
}.

-doc """
`rate_per_s` is the highest rate that was decided to hold, 0 where none was, and the limit lies
between it and `high_per_s`. `stopped` says why it was no higher: the objective did not hold, the
target was saturated, the generator was at its own limit, the highest rate allowed holds, not even
the lowest one does, the time was over, or it was interrupted.
""".
-type result() :: #{
    rate_per_s := number(),
    high_per_s := number() | undefined,
    stopped := objective | saturated | generator | highest | lowest | time | interrupted,
    confidence := float(),
    tried := [tried()]
}.

-opaque search() :: #{
    options := options(),
    lead := pos_integer(),
    rate := number(),
    now := tried(),
    low := number() | undefined,
    high := tried() | undefined,
    tried := [tried()],
    elapsed_ns := non_neg_integer()
}.

%% Between these two rates of success the test decides.
-define(HOLDS, 0.8).
%% So far below the first rate the search gives up.
-define(HALVINGS, 64).

-doc "A search that has not begun.".
-spec new(options()) -> search().
new(#{from_per_s := From, to_per_s := To, confidence := Confidence} = Options) ->
    Rate = min(From, To),
    #{
        options => Options,
        lead => max(
            2, ceil(math:log(Confidence / (1 - Confidence)) / math:log(?HOLDS / (1 - ?HOLDS)))
        ),
        rate => Rate,
        now => untried(Rate),
        low => undefined,
        high => undefined,
        tried => [],
        elapsed_ns => 0
    }.

untried(Rate) ->
    #{rate_per_s => Rate, held => 0, failed => 0, why => undefined, decision => undecided}.

-doc "The rate of the next probe, or what was found.".
-spec next(search()) -> {probe, number()} | {done, result()}.
next(#{elapsed_ns := Elapsed, options := #{limit_ns := Limit}} = Search) when Elapsed >= Limit ->
    {done, result(time, Search)};
next(#{rate := 0, low := undefined} = Search) ->
    {done, result(lowest, Search)};
next(#{rate := 0, high := undefined} = Search) ->
    {done, result(highest, Search)};
next(#{rate := 0, high := #{why := Why}} = Search) ->
    {done, result(Why, Search)};
next(#{rate := Rate}) ->
    {probe, Rate}.

-doc "What is known of a search that ends early.".
-spec so_far(search()) -> result().
so_far(Search) ->
    result(interrupted, Search).

result(Stopped, #{low := Low, high := High, tried := Tried, now := Now, lead := Lead}) ->
    Odds = math:pow(?HOLDS / (1 - ?HOLDS), Lead),
    #{
        rate_per_s =>
            case Low of
                undefined -> 0;
                _ -> Low
            end,
        high_per_s =>
            case High of
                undefined -> undefined;
                #{rate_per_s := Rate} -> Rate
            end,
        stopped => Stopped,
        confidence => Odds / (1 + Odds),
        tried => lists:reverse([T || #{held := H, failed := F} = T <- [Now], H + F > 0] ++ Tried)
    }.

-doc "Takes in a probe's outcome, and how long it took.".
-spec record(number(), outcome(), non_neg_integer(), search()) -> search().
record(Rate, Outcome, TookNs, #{rate := Rate, elapsed_ns := Elapsed, lead := Lead} = Search) ->
    #{now := #{held := Held, failed := Failed} = Now} = Search,
    Next =
        case Outcome of
            held -> Now#{held := Held + 1};
            Why -> Now#{failed := Failed + 1, why := Why}
        end,
    decide(Next, Lead, Search#{elapsed_ns := Elapsed + TookNs}).

decide(#{held := Held, failed := Failed} = Now, Lead, Search) when Held - Failed >= Lead ->
    decided(Now#{decision := held}, Search);
decide(#{held := Held, failed := Failed} = Now, Lead, Search) when Failed - Held >= Lead ->
    decided(Now#{decision := failed}, Search);
decide(#{held := Held, failed := Failed} = Now, Lead, Search) when Held + Failed >= 3 * Lead ->
    decided(Now#{decision := failed}, Search);
decide(Now, _Lead, Search) ->
    Search#{now := Now}.

decided(#{rate_per_s := Rate, decision := Decision} = Now, #{tried := Tried} = Search) ->
    Bounded =
        case Decision of
            held -> Search#{low := Rate};
            failed -> Search#{high := Now}
        end,
    Next = rate(Bounded),
    Bounded#{rate := Next, now := untried(Next), tried := [Now | Tried]}.

%% The next rate; 0 where there is none.
rate(#{low := Low, high := undefined, options := #{to_per_s := To}}) when Low >= To -> 0;
rate(#{low := Low, high := undefined, options := #{to_per_s := To}}) -> min(To, 2 * Low);
rate(#{low := undefined, high := #{rate_per_s := High}, options := #{from_per_s := From}}) ->
    case High / 2 of
        Half when Half * ?HALVINGS < From -> 0;
        Half -> Half
    end;
rate(#{low := Low, high := #{rate_per_s := High}, options := #{precision := Precision}}) ->
    case High =< Low * (1 + Precision) of
        true -> 0;
        false -> round_to_3(math:sqrt(Low * High), Low, High)
    end.

%% People read these rates: no more digits than matter.
round_to_3(Rate, Low, High) ->
    Scale = math:pow(10, floor(math:log10(Rate)) - 2),
    case round(Rate / Scale) * Scale of
        Rounded when Rounded > Low, Rounded < High -> plain(Rounded);
        _ -> Rate
    end.

plain(Rate) when Rate >= 100 -> round(Rate);
plain(Rate) -> Rate.
