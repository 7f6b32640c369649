%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_concurrency_search).
-moduledoc false.
%% Searches for the concurrency with the highest throughput, and decides which to measure next.
%% Pure.
%%
%% The search begins with the lowest concurrency and increases by the step. Each concurrency is
%% measured in rounds with the best so far, in turn (ABBA), so that disturbances affect both. It
%% becomes the best if the whole interval of their throughput ratio is above 1
%% (dyno_bench_comparison). So the result is the lowest concurrency that no higher one has beaten.
%% The search ends after too many concurrencies in a row without a gain.
%%
%% The search looks after the first number of rounds, then after twice and four times that number,
%% and stops when the answer is clear. The three looks share the error probability (Bonferroni).

-export([new/1, next/1, add/2, outcome/1]).
-export_type([t/0, options/0, outcome/0, step/0]).

-type concurrency() :: pos_integer().

-type options() :: #{
    min := concurrency(),
    max := concurrency(),
    step := pos_integer(),
    %% Concurrencies in a row without a gain.
    threshold := pos_integer(),
    %% Rounds of each concurrency before the first look.
    samples := pos_integer(),
    level := float()
}.

-doc "The result for a concurrency: its throughput divided by that of the best before.".
-type step() :: #{
    concurrency := concurrency(),
    against := concurrency(),
    ratio := float(),
    low := float(),
    high := float(),
    %% `undecided`: a gain is possible.
    verdict := gain | same | loss | undecided
}.

-type outcome() :: #{
    best := concurrency(),
    steps := [step()],
    %% Throughputs by concurrency, in the order of measurement.
    values := #{concurrency() => [float()]}
}.

-opaque t() :: #{
    options := options(),
    best := concurrency(),
    %% Compared with the best; none if there is only one concurrency.
    candidate := concurrency() | none | over,
    %% Of the two compared concurrencies, newest first.
    rounds := [#{concurrency() => float()}],
    %% In a row.
    without_gain := non_neg_integer(),
    %% Newest first.
    steps := [step()],
    values := #{concurrency() => [float()]}
}.

%% The looks, as multiples of the first look's rounds.
-define(LOOKS, [1, 2, 4]).
%% A gain that is certainly smaller counts as none.
-define(WORTH, 1.05).

-spec new(options()) -> t().
new(#{min := Min} = Options) ->
    #{
        options => Options,
        best => Min,
        candidate => following(Min, Options),
        rounds => [],
        without_gain => 0,
        steps => [],
        values => #{}
    }.

%% 1, 10, 20, ... if the step is 10, like erlperf.
following(Concurrency, #{step := Step, max := Max}) ->
    case (Concurrency + Step) div Step * Step of
        Next when Next =< Max -> Next;
        _ -> none
    end.

-doc "The concurrencies to measure now, in this order, or `done`.".
-spec next(t()) -> {round, [concurrency(), ...]} | done.
next(#{candidate := over}) ->
    done;
next(#{candidate := none, best := Best}) ->
    {round, [Best]};
next(#{candidate := Candidate, best := Best, rounds := Rounds}) ->
    case length(Rounds) rem 2 of
        0 -> {round, [Best, Candidate]};
        1 -> {round, [Candidate, Best]}
    end.

-spec add(#{concurrency() => float()}, t()) -> t().
add(Round, #{rounds := Rounds, values := Values, options := #{samples := Samples}} = State) ->
    NewState = State#{
        rounds := [Round | Rounds],
        values := maps:merge(Values, #{C => maps:get(C, Values, []) ++ [V] || C := V <- Round})
    },
    Count = length(Rounds) + 1,
    case lists:member(Count, [Times * Samples || Times <- ?LOOKS]) of
        true -> looked(Count =:= lists:last(?LOOKS) * Samples, NewState);
        false -> NewState
    end.

looked(_IsLast, #{candidate := none} = State) ->
    State#{candidate := over};
looked(IsLast, #{candidate := Candidate, best := Best} = State) ->
    #{rounds := Rounds, options := #{level := Level}} = State,
    Values = [[map_get(C, Round) || Round <- Rounds] || C <- [Best, Candidate]],
    Looks = #{level => Level, threshold => ?WORTH - 1, looks => length(?LOOKS)},
    [#{low := Low, high := High} = Pair] = dyno_bench_comparison:pairs(Values, Looks),
    case IsLast orelse Low > 1 orelse High < ?WORTH of
        true ->
            Step = (maps:with([ratio, low, high], Pair))#{
                concurrency => Candidate, against => Best, verdict => verdict(Low, High)
            },
            decided(Step, State);
        false ->
            State
    end.

decided(#{concurrency := Candidate} = Step, #{steps := Steps, without_gain := Without} = State) ->
    #{options := #{threshold := Threshold}} = State,
    NewState = State#{rounds := [], steps := [Step | Steps]},
    case Step of
        #{verdict := gain} ->
            onwards(Candidate, NewState#{best := Candidate, without_gain := 0});
        _ when Without + 1 >= Threshold ->
            NewState#{candidate := over};
        _ ->
            onwards(Candidate, NewState#{without_gain := Without + 1})
    end.

onwards(Candidate, #{options := Options} = State) ->
    case following(Candidate, Options) of
        none -> State#{candidate := over};
        Next -> State#{candidate := Next}
    end.

verdict(Low, _High) when Low > 1 -> gain;
verdict(_Low, High) when High < 1 -> loss;
verdict(_Low, High) when High < ?WORTH -> same;
verdict(_Low, _High) -> undecided.

-doc "The result so far.".
-spec outcome(t()) -> outcome().
outcome(#{best := Best, steps := Steps, values := Values}) ->
    #{best => Best, steps => lists:reverse(Steps), values => Values}.
