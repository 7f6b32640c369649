%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_workload_times).
-moduledoc false.
%% The start times of a synthetic system's workers, and their numbers of requests: BenchCRV's models
%% (Aceto, Attard, Francalanza, Ingolfsdottir: "On Benchmarking for Concurrent Runtime
%% Verification", FASE 2021), drawn from a seed.
%%
%%   steady   a homogeneous Poisson process, given that all workers start within the time: uniform
%%   pulse    normal, the mean at half of the time, spread by `spread_ms`
%%   burst    log-normal, its mean at half of the time, pinched by `pinch_ms`
%%
%% Times outside the loading time are drawn again.

-export([draw/1]).
-export_type([shape/0, options/0]).

-type shape() :: steady | pulse | burst.

-type options() :: #{
    shape := shape(),
    workers := pos_integer(),
    requests := pos_integer(),
    time_ms := pos_integer(),
    spread_ms := pos_integer(),
    pinch_ms := pos_integer(),
    seed := integer(),
    atom() => term()
}.

%% BenchCRV's standard deviation of a worker's number of requests, relative to the mean.
-define(BATCH_DEVIATION, 0.02).

-doc "Each worker's start after the first possible start, in order, and its requests.".
-spec draw(options()) -> [{StartNs :: non_neg_integer(), Requests :: pos_integer()}].
draw(#{workers := Workers, requests := Requests, seed := Seed} = Options) ->
    One = time(Options),
    {Times, Random} = lists:mapfoldl(
        fun(_, State) -> One(State) end, rand:seed_s(exsss, Seed), lists:seq(1, Workers)
    ),
    {Drawn, _} = lists:mapfoldl(
        fun(TimeMs, State) ->
            {Normal, Next} = rand:normal_s(State),
            Batch = max(1, round(Requests * (1 + ?BATCH_DEVIATION * Normal))),
            {{round(TimeMs * 1.0e6), Batch}, Next}
        end,
        Random,
        lists:sort(Times)
    ),
    Drawn.

time(#{shape := steady, time_ms := Time}) ->
    fun(State) ->
        {Uniform, Next} = rand:uniform_s(State),
        {Uniform * Time, Next}
    end;
time(#{shape := pulse, time_ms := Time, spread_ms := Spread}) ->
    within(Time, fun(Normal) -> Time / 2 + Spread * Normal end);
time(#{shape := burst, time_ms := Time, pinch_ms := Pinch}) ->
    Mean = Time / 2,
    Mu = math:log(Mean * Mean / math:sqrt(Pinch * Pinch + Mean * Mean)),
    Sigma = math:sqrt(math:log(1 + Pinch * Pinch / (Mean * Mean))),
    within(Time, fun(Normal) -> math:exp(min(700.0, Mu + Sigma * Normal)) end).

within(Time, Of) ->
    fun(State) -> within(Time, Of, rand:normal_s(State)) end.

within(Time, Of, {Normal, State}) ->
    case Of(Normal) of
        Drawn when Drawn >= 0, Drawn =< Time -> {Drawn, State};
        _ -> within(Time, Of, rand:normal_s(State))
    end.
