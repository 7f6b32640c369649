%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_concurrency_search_SUITE).
-moduledoc "The search for the best concurrency, on machines that are functions with noise.".

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        finds_the_knee,
        ends_at_max,
        one_concurrency_only,
        steps_like_erlperf,
        the_best_not_the_last,
        noise_is_no_gain,
        more_but_not_surely,
        the_best_has_most_in_the_table,
        measures_in_turn,
        invariants
    ].

options() ->
    #{min => 1, max => 64, step => 1, threshold => 3, samples => 8, level => 0.95}.

%% Measures what the search wants to know until it ends.
search(Throughput, Options) ->
    search_on(dyno_bench_concurrency_search:new(Options), Throughput, 0).

search_on(Search, Throughput, Rounds) ->
    case dyno_bench_concurrency_search:next(Search) of
        done ->
            (dyno_bench_concurrency_search:outcome(Search))#{rounds => Rounds};
        {round, Concurrencies} ->
            Round = #{C => Throughput(C) || C <- Concurrencies},
            search_on(dyno_bench_concurrency_search:add(Round, Search), Throughput, Rounds + 1)
    end.

%% As fast as there are processors; the noise, in shares, is the test's.
saturating(Processors, Noise) ->
    fun(C) -> 1.0e6 * min(C, Processors) * (1 + Noise * (rand:uniform() - 0.5)) end.

finds_the_knee(_Config) ->
    _ = rand:seed(exsss, 1),
    [
        begin
            Outcome = search(saturating(Processors, 0.1), options()),
            ?assertMatch(#{best := Processors}, Outcome),
            #{values := Values, steps := Steps} = Outcome,
            %% Three without a gain, and no more.
            ?assertEqual(lists:seq(1, Processors + 3), lists:sort(maps:keys(Values))),
            ?assertEqual(Processors + 2, length(Steps)),
            ?assertEqual(
                lists:duplicate(Processors - 1, gain),
                [V || #{verdict := V} <- lists:sublist(Steps, Processors - 1)]
            )
        end
     || Processors <- [1, 2, 5, 8]
    ].

ends_at_max(_Config) ->
    #{best := 4} = search(saturating(100, 0.0), (options())#{max := 4}).

one_concurrency_only(_Config) ->
    Outcome = search(saturating(4, 0.1), (options())#{min := 3, max := 3}),
    ?assertMatch(#{best := 3, steps := [], rounds := 8}, Outcome),
    ?assertEqual([3], maps:keys(map_get(values, Outcome))).

steps_like_erlperf(_Config) ->
    #{values := Values} = search(saturating(100, 0.0), (options())#{step := 10, max := 35}),
    ?assertEqual([1, 10, 20, 30], lists:sort(maps:keys(Values))).

%% erlperf gives the last where the maximum is reached first.
the_best_not_the_last(_Config) ->
    Falling = fun(C) -> 33.0 / C end,
    Outcome = search(Falling, (options())#{max := 3, threshold := 5}),
    ?assertMatch(#{best := 1}, Outcome),
    ?assertMatch([#{verdict := loss, against := 1}, #{verdict := loss}], map_get(steps, Outcome)).

%% A flat curve with much noise: 8 rounds at 95 % err upwards in less than 2.5 % of the steps.
noise_is_no_gain(_Config) ->
    _ = rand:seed(exsss, 2),
    Flat = fun(_) -> 1.0e6 * (1 + 0.4 * (rand:uniform() - 0.5)) end,
    Steps = lists:append([
        map_get(steps, search(Flat, (options())#{max := 4}))
     || _ <- lists:seq(1, 300)
    ]),
    False = length([gain || #{verdict := gain} <- Steps]),
    ct:pal("~b of ~b", [False, length(Steps)]),
    ?assert(length(Steps) > 800),
    ?assert(False / length(Steps) < 0.025).

%% More in the middle, but not surely: that is neither a gain nor the same.
more_but_not_surely(_Config) ->
    Feed = fun Feed(Search, Round) ->
        case dyno_bench_concurrency_search:next(Search) of
            {round, [_, _]} when Round =< 32 ->
                Two =
                    case Round rem 8 < 5 of
                        true -> 27.0;
                        false -> 16.0
                    end,
                Feed(
                    dyno_bench_concurrency_search:add(#{1 => 20.0, 2 => Two}, Search),
                    Round + 1
                );
            _ ->
                dyno_bench_concurrency_search:outcome(Search)
        end
    end,
    Outcome = Feed(dyno_bench_concurrency_search:new((options())#{max := 2}), 1),
    ?assertMatch(
        #{best := 1, steps := [#{concurrency := 2, ratio := Ratio, verdict := undecided}]} when
            Ratio > 1.3,
        Outcome
    ).

measures_in_turn(_Config) ->
    First = dyno_bench_concurrency_search:new(options()),
    {round, [1, 2]} = dyno_bench_concurrency_search:next(First),
    Second = dyno_bench_concurrency_search:add(#{1 => 1.0, 2 => 2.0}, First),
    {round, [2, 1]} = dyno_bench_concurrency_search:next(Second).

invariants(_Config) ->
    dyno_property:holds(prop_invariants(), 200).

prop_invariants() ->
    ?FORALL(
        {Min, More, Step, Threshold, Seed, Processors},
        {
            proper_types:range(1, 9),
            proper_types:range(0, 30),
            proper_types:range(1, 7),
            proper_types:range(1, 4),
            proper_types:integer(),
            proper_types:range(1, 20)
        },
        begin
            _ = rand:seed(exsss, Seed),
            Max = Min + More,
            Options = (options())#{min := Min, max := Max, step := Step, threshold := Threshold},
            Outcome = search(saturating(Processors, 0.5), Options),
            #{best := Best, steps := Steps, values := Values} = Outcome,
            Without = length(
                lists:takewhile(
                    fun(#{verdict := V}) -> V =/= gain end, lists:reverse(Steps)
                )
            ),
            lists:member(Best, maps:keys(Values)) andalso
                lists:all(fun(C) -> C >= Min andalso C =< Max end, maps:keys(Values)) andalso
                lists:all(fun(L) -> length(L) >= 8 end, maps:values(Values)) andalso
                Without =< Threshold andalso
                [Best || #{verdict := gain} <- Steps] =:=
                    [Best || #{verdict := gain, concurrency := C} <- Steps, C =< Best]
        end
    ).

%% The machine becomes slower all the time: the median of what two workers gave, while they were
%% compared with more, is less than that of one worker at the beginning.
the_best_has_most_in_the_table(_Config) ->
    Clock = counters:new(1, []),
    Slower = fun(C) ->
        ok = counters:add(Clock, 1, 1),
        1.0e6 * (1 + 0.1 * (min(C, 2) - 1)) * math:pow(0.99, counters:get(Clock, 1))
    end,
    Search = search(Slower, options()),
    #{best := 2, values := #{1 := Ones, 2 := Twos} = Values} =
        Outcome = maps:remove(rounds, Search),
    ?assert(dyno_stats:median(Ones) > dyno_stats:median(Twos)),
    Document = dyno_bench_curve:document(
        #{},
        #{
            status => complete,
            candidates => [#{label => ~"f()", form => inline, constant => false, warnings => []}],
            outcome => Outcome,
            ends_ms => #{C => lists:seq(1, length(Of)) || C := Of <- Values},
            duration_ms => 1000
        },
        #{}
    ),
    #{~"runs" := [#{~"tables" := [#{~"rows" := [[1, One | _], [2, Two | _] | _]}]}]} = Document,
    ?assert(Two > One, {One, Two}).
