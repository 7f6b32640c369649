%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_heap).
-moduledoc false.
%% Chooses the heap size for measuring codes.
%%
%% A process with the runtime's smallest heap settles, by chance, at a size that collects four times
%% per call or once in four calls: `lists:sum(lists:seq(1, N))` then takes longer with N = 150 than
%% with N = 250. So each round draws one size for all codes (Curtsinger and Berger, "Stabilizer",
%% ASPLOS 2013). After the rounds, measurements with the least and the largest heap show the cost of
%% a collection, and whether the verdict depends on the heap.

-export([of_options/1, of_samples/1, sequence/1, typical/1, measure/4, costs/1, depends/2]).
-export_type([heap/0, times/0, ends/0]).

-doc "Drawn each round, fixed by the user, or the runtime's in a mode that draws none.".
-type heap() :: drawn | dyno_bench_worker:heap() | runtime.

-type times() :: #{time_ns := float(), collections := float()}.

-type ends() :: #{
    words := pos_integer(),
    default := [times(), ...],
    room := [times(), ...],
    pairs := #{default := [dyno_bench_comparison:pair()], room := [dyno_bench_comparison:pair()]}
}.

%% Words. The first is the runtime's default.
-define(LEAST, 233).
-define(MOST, 50_000).
-define(MOST_TOGETHER, 20_000_000).
%% Each size moves on by this share of the range, and wraps around: rounds cover it evenly.
-define(GOLDEN, 0.6180339887498949).

-define(ROUNDS, 9).
-define(SHARE, 0.15).
-define(FEW, 0.0005).

-doc "How the heap is chosen. Only times measured in one process draw a size.".
-spec of_options(dyno_bench_engine:options()) -> heap().
of_options(#{heap := Heap}) ->
    Heap;
of_options(#{fixed := _}) ->
    runtime;
of_options(Options) ->
    case dyno_bench_metric:is_time(maps:get(metric, Options, time)) of
        true -> drawn;
        false -> runtime
    end.

-spec of_samples(heap()) -> heap().
of_samples(drawn) -> runtime;
of_samples(Heap) -> Heap.

most(#{concurrency := Concurrency}) ->
    max(2 * ?LEAST, min(?MOST, ?MOST_TOGETHER div Concurrency)).

-doc "Words by round. A drawn sequence begins at random.".
-spec sequence(dyno_bench_engine:options()) ->
    fun((Round :: pos_integer()) -> dyno_bench_worker:heap()).
sequence(Options) ->
    Start =
        case Options of
            #{seed := Seed} -> element(1, rand:uniform_s(rand:seed_s(exsss, Seed)));
            #{} -> rand:uniform()
        end,
    fun(Round) ->
        Position = Start + Round * ?GOLDEN,
        at(Position - trunc(Position), Options)
    end.

-spec typical(dyno_bench_engine:options()) -> dyno_bench_worker:heap().
typical(Options) -> at(0.5, Options).

%% Each order of magnitude takes an equal share from 0 to 1.
at(Position, Options) ->
    case of_options(Options) of
        drawn -> round(?LEAST * math:pow(most(Options) / ?LEAST, Position));
        runtime -> default;
        Fixed -> Fixed
    end.

-doc "Not if their epochs are too long.".
-spec measure(
    Candidates :: pos_integer(),
    RoundNs :: number(),
    fun((dyno_bench_comparison:candidate(), dyno_bench_worker:heap()) -> times()),
    dyno_bench_engine:options()
) -> ends() | none.
measure(Candidates, RoundNs, Epochs, #{budget_ms := BudgetMs, level := Level} = Options) ->
    Needed = dyno_bench_comparison:least_rounds(Candidates, 1 - (1 - Level) / 2),
    case min(max(?ROUNDS, Needed), trunc(?SHARE * BudgetMs * 1.0e6 / (2 * RoundNs))) of
        0 ->
            none;
        Count ->
            Words = most(Options),
            {Default, DefaultPairs} = rounds(Candidates, Count, default, Epochs, Options),
            {Room, RoomPairs} = rounds(Candidates, Count, Words, Epochs, Options),
            #{
                words => Words,
                default => Default,
                room => Room,
                pairs => #{default => DefaultPairs, room => RoomPairs}
            }
    end.

rounds(Candidates, Count, Heap, Epochs, Options) ->
    New = dyno_bench_rounds:new(Candidates, Options#{looks => 2}),
    Measure = fun(Candidate, _Round) ->
        #{time_ns := TimeNs} = Times = Epochs(Candidate, Heap),
        {TimeNs, Times}
    end,
    {Rounds, Last} = dyno_bench_rounds:measure(Measure, {rounds, Count}, New),
    ok = dyno_bench_rounds:completed(Last),
    {[together(N, Rounds) || N <- lists:seq(1, Candidates)], dyno_bench_rounds:fixed_pairs(Last)}.

%% Collections of other processes are counted too: the least count is the closest.
together(Candidate, Rounds) ->
    Of = [map_get(Candidate, Round) || Round <- Rounds],
    #{
        time_ns => dyno_stats:median([Ns || #{time_ns := Ns} <- Of]),
        collections => float(lists:min([Count || #{collections := Count} <- Of]))
    }.

-spec costs({Default :: times(), Room :: times()}) ->
    #{without_ns := float(), collection_ns := float() | undefined}.
costs({#{time_ns := Ns, collections := Count}, #{time_ns := RoomNs, collections := RoomCount}}) when
    Count - RoomCount > ?FEW, Ns > RoomNs
->
    CollectionNs = (Ns - RoomNs) / (Count - RoomCount),
    #{without_ns => max(0.0, RoomNs - RoomCount * CollectionNs), collection_ns => CollectionNs};
costs({_, #{time_ns := RoomNs}}) ->
    #{without_ns => RoomNs, collection_ns => undefined}.

-doc "Pairs whose verdict differs between a fresh process and a large heap: both verdicts of each.".
-spec depends(ends(), Threshold :: float()) ->
    [{dyno_bench_comparison:pair(), dyno_bench_comparison:pair()}].
depends(#{pairs := #{default := Default, room := Room}}, Threshold) ->
    [
        Both
     || {#{verdict := V, ratio := A}, #{verdict := W, ratio := B}} = Both <-
            lists:zip(Default, Room),
        V =/= undecided,
        W =/= undecided,
        V =/= W,
        %% Only if the difference matters.
        abs(math:log(A / B)) > math:log(1 + Threshold)
    ].
