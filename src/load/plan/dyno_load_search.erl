%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_search).
-moduledoc false.
%% Finds the highest rate at which an objective holds, by short probes. Pure.
%%
%% No single probe is decisive: luck may let a probe hold, a short stall may fail it. The search
%% keeps the probability of each rate to be the highest that holds, over a grid with steps of half
%% the precision, and updates it by Bayes' rule after each probe. A rate that holds is assumed to
%% hold in 7 of 10 probes, another in 1 of 20. The next probe is made at the rate with equally
%% likely outcomes, so probes repeat near the limit and correct a wrong probe (M. Horstein,
%% "Sequential transmission using noiseless feedback", 1963).
%%
%% Rates double until one fails; none exceeds twice the highest that held. It ends when the limit's
%% interval is no wider than the precision, and a rate within held more often than not.

-export([new/1, next/1, so_far/1, record/4]).
-export_type([search/0, options/0, outcome/0, result/0]).

-type options() :: #{
    from_per_s := number(),
    to_per_s := number(),
    confidence := number(),
    precision := number(),
    limit_ns := pos_integer()
}.

-type outcome() :: held | objective | saturated | generator.

-type tried() :: #{
    rate_per_s := number(),
    held := non_neg_integer(),
    failed := non_neg_integer(),
    why := outcome() | undefined,
    decision := held | failed | undecided
}.

-doc """
`rate_per_s` is the highest rate tried that held more often than not and is at least as likely below
the limit as above; 0 if there is none. The limit lies between `low_per_s` and `high_per_s` at the
confidence. `disturbed` counts failed probes at rates that surely hold. `stopped` is the reason of
the limit.
""".
-type result() :: #{
    rate_per_s := number(),
    low_per_s := number(),
    high_per_s := number() | undefined,
    stopped := objective | saturated | generator | highest | lowest | time | interrupted,
    confidence := float(),
    disturbed := non_neg_integer(),
    tried := [tried()]
}.

-opaque search() :: #{
    options := options(),
    %% Ascending; entry N is the probability that rate N is the limit. Number 0: no rate holds.
    rates := tuple(),
    likely := [float()],
    first := pos_integer(),
    highest := non_neg_integer(),
    tried := #{pos_integer() => tried()},
    elapsed_ns := non_neg_integer()
}.

%% The share of failed probes at a rate that holds, and of probes that hold at a rate that does not.
-define(FALSE_FAILURE, 0.3).
-define(FALSE_SUCCESS, 0.05).
%% The number of grid steps around the limit without a clear outcome.
-define(SOFT, 0.5).
-define(HALVINGS, 64).

-spec new(options()) -> search().
new(#{from_per_s := From, to_per_s := To, precision := Precision} = Options) ->
    First = min(From, To),
    Step = math:sqrt(1 + Precision),
    Below = ceil(math:log(?HALVINGS) / math:log(Step)),
    Above = floor(math:log(To / First) / math:log(Step) - 1.0e-9),
    Others = [plain(First * math:pow(Step, N)) || N <- lists:seq(-Below, Above), N =/= 0],
    Rates = lists:usort([First, To | Others]),
    #{
        options => Options,
        rates => list_to_tuple(Rates),
        likely => normal([1.0 || _ <- [none | Rates]]),
        first => length([R || R <- Rates, R =< First]),
        highest => 0,
        tried => #{},
        elapsed_ns => 0
    }.

%% Readable rates: only significant digits.
plain(Rate) ->
    Scale = math:pow(10, floor(math:log10(Rate)) - 2),
    case round(Rate / Scale) * Scale of
        Rounded when Rounded >= 100 -> round(Rounded);
        Rounded -> round(Rounded * 1.0e6) / 1.0e6
    end.

normal(Weights) ->
    Sum = lists:sum(Weights),
    [Weight / Sum || Weight <- Weights].

-spec next(search()) -> {probe, number()} | {done, result()}.
next(#{elapsed_ns := Elapsed, options := #{limit_ns := Limit}} = Search) when Elapsed >= Limit ->
    {done, result(time, Search)};
next(#{rates := Rates, tried := Tried} = Search) ->
    Last = tuple_size(Rates),
    case bounds(Search) of
        {Last, _} when map_size(Tried) > 0 ->
            {done, result(highest, Search)};
        {0, High} when High =< 1 ->
            {done, result(lowest, Search)};
        {Low, High} when High - Low =< 1 ->
            case found(Search) >= Low of
                true -> {done, result(why(Search), Search)};
                false -> {probe, element(Low, Rates)}
            end;
        _ ->
            {probe, element(most_telling(Search), Rates)}
    end.

bounds(#{likely := Likely, options := #{confidence := Confidence}}) ->
    Tail = (1 - Confidence) / 2,
    {quantile(Tail, Likely), quantile(1 - Tail, Likely)}.

quantile(Q, Likely) -> quantile(Q, Likely, 0).

quantile(_Q, [_], N) -> N;
quantile(Q, [Weight | _], N) when Weight >= Q -> N;
quantile(Q, [Weight | Weights], N) -> quantile(Q - Weight, Weights, N + 1).

most_telling(#{likely := Likely, rates := Rates, first := First, highest := Highest}) ->
    Most =
        case Highest of
            0 -> First;
            _ -> at_most(2 * element(Highest, Rates), Rates, Highest)
        end,
    max(1, min(Most, quantile(0.5, Likely))).

at_most(Rate, Rates, N) when N < tuple_size(Rates), element(N + 1, Rates) =< Rate * 1.001 ->
    at_most(Rate, Rates, N + 1);
at_most(_Rate, _Rates, N) ->
    N.

-spec record(number(), outcome(), non_neg_integer(), search()) -> search().
record(Rate, Outcome, TookNs, #{rates := Rates, likely := Likely, tried := Tried} = Search) ->
    #{elapsed_ns := Elapsed, highest := Highest} = Search,
    N = number(Rate, Rates, 1),
    Default = #{
        rate_per_s => Rate, held => 0, failed => 0, why => undefined, decision => undecided
    },
    #{held := Held, failed := Failed} = Before = maps:get(N, Tried, Default),
    {Now, IsIn, Top} =
        case Outcome of
            held ->
                {Before#{held := Held + 1}, fun(P) -> P end, max(Highest, N)};
            Why ->
                {Before#{failed := Failed + 1, why := Why}, fun(P) -> 1 - P end, Highest}
        end,
    Search#{
        likely := normal([
            Weight * IsIn(holds(Limit - N))
         || {Limit, Weight} <- lists:enumerate(0, Likely)
        ]),
        tried := Tried#{N => Now},
        highest := Top,
        elapsed_ns := Elapsed + TookNs
    }.

number(Rate, Rates, N) when element(N, Rates) == Rate -> N;
number(Rate, Rates, N) -> number(Rate, Rates, N + 1).

%% The probability that a probe holds at this number of steps below the limit.
holds(Steps) ->
    Below = 1 / (1 + math:exp(-max(-50.0, min(50.0, (Steps + 0.5) / ?SOFT)))),
    ?FALSE_SUCCESS + (1 - ?FALSE_SUCCESS - ?FALSE_FAILURE) * Below.

-doc "The result of a search that ends early.".
-spec so_far(search()) -> result().
so_far(Search) ->
    result(interrupted, Search).

result(Stopped, #{rates := Rates, tried := Tried, likely := Likely} = Search) ->
    #{options := #{confidence := Confidence}} = Search,
    {Low, High} = bounds(Search),
    Found = found(Search),
    #{
        rate_per_s => rate(Found, Rates),
        low_per_s => rate(min(Found, Low), Rates),
        high_per_s =>
            %% A generator at its limit says nothing of the target above.
            case High < tuple_size(Rates) andalso Stopped =/= generator of
                true -> rate(High + 1, Rates);
                false -> undefined
            end,
        stopped => Stopped,
        confidence => float(Confidence),
        disturbed => lists:sum([N || At := #{failed := N} <- Tried, At < Low]),
        tried => [
            Of#{decision := decision(lists:sum(lists:nthtail(N, Likely)), Confidence)}
         || {N, Of} <- lists:sort(maps:to_list(Tried))
        ]
    }.

found(#{tried := Tried, likely := Likely}) ->
    Middle = quantile(0.5, Likely),
    lists:max([
        0
        | [
            N
         || N := #{held := Held, failed := Failed} <- Tried, N =< Middle, Held > Failed
        ]
    ]).

rate(0, _Rates) -> 0;
rate(N, Rates) -> element(N, Rates).

decision(Likely, Confidence) when Likely >= Confidence -> held;
decision(Likely, Confidence) when 1 - Likely >= Confidence -> failed;
decision(_Likely, _Confidence) -> undecided.

%% The reason of the lowest failed rate above the limit.
why(#{tried := Tried, likely := Likely}) ->
    Middle = quantile(0.5, Likely),
    Failed = [{N, Why} || {N, #{why := Why}} <- lists:sort(maps:to_list(Tried)), Why =/= undefined],
    case [Why || {N, Why} <- Failed, N > Middle] of
        [Why | _] -> Why;
        [] when Failed =:= [] -> highest;
        [] -> element(2, lists:last(Failed))
    end.
