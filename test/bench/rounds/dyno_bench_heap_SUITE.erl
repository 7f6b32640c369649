%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_heap_SUITE).
-moduledoc "The heap and the place of the loop's code, which are drawn and do not decide.".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_truth, [rows/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        sizes_cover_the_range,
        very_many_workers_have_small_heaps,
        what_decides_says_whether_it_is_drawn,
        a_collection_has_its_price,
        a_verdict_that_depends_on_the_heap,
        a_heap_left_to_the_runtime_is_said,
        times_grow_with_the_work,
        the_heap_can_be_fixed,
        modes_agree_with_the_same_heap,
        reductions_mean_the_same,
        whose_calls_per_second,
        the_loop_has_many_places,
        long_code_has_few_places
    ].

options(More) ->
    maps:merge(#{concurrency => 1, budget_ms => 1000, threshold => 0.03, level => 0.95}, More).

%% Any ten rounds in a row have each part of the range.
sizes_cover_the_range(_Config) ->
    [
        begin
            Words = dyno_bench_heap:sequence(options(#{seed => Seed})),
            Sizes = [Words(Round) || Round <- lists:seq(From, From + 9)],
            ?assert(lists:all(fun(W) -> W >= 233 andalso W =< 50_000 end, Sizes)),
            Range = math:log(50_001 / 233),
            Fifths = lists:usort([trunc(5 * math:log(W / 233) / Range) || W <- Sizes]),
            ?assertEqual([0, 1, 2, 3, 4], Fifths)
        end
     || Seed <- lists:seq(1, 20), From <- [1, 50, 1000]
    ],
    %% By a seed they are the same, without one they begin anywhere.
    Of = fun(Options) -> (dyno_bench_heap:sequence(Options))(1) end,
    ?assertEqual(Of(options(#{seed => 7})), Of(options(#{seed => 7}))),
    ?assertMatch([_, _ | _], lists:usort([Of(options(#{})) || _ <- lists:seq(1, 20)])).

very_many_workers_have_small_heaps(_Config) ->
    Words = dyno_bench_heap:sequence(options(#{concurrency => 10_000})),
    ?assert(lists:max([Words(Round) || Round <- lists:seq(1, 100)]) =< 2000).

what_decides_says_whether_it_is_drawn(_Config) ->
    Of = fun(More) -> dyno_bench_heap:of_options(options(More)) end,
    ?assertEqual(drawn, Of(#{})),
    ?assertEqual(drawn, Of(#{metric => cpu})),
    ?assertEqual(runtime, Of(#{metric => memory})),
    ?assertEqual(runtime, Of(#{fixed => #{iterations => 1, samples => 1, warmup => 0}})),
    ?assertEqual(default, Of(#{heap => default})),
    ?assertEqual(1000, Of(#{heap => 1000, metric => gc})).

a_collection_has_its_price(_Config) ->
    Times = fun(Ns, Count) -> #{time_ns => Ns, collections => Count} end,
    ?assertEqual(
        #{without_ns => 100.0, collection_ns => 400.0},
        dyno_bench_heap:costs({Times(500.0, 1.0), Times(140.0, 0.1)})
    ),
    %% As many with room as without: nothing is known of one.
    ?assertEqual(
        #{without_ns => 140.0, collection_ns => undefined},
        dyno_bench_heap:costs({Times(150.0, 0.1), Times(140.0, 0.1)})
    ).

pair(Ratio, Verdict) ->
    #{a => 1, b => 2, ratio => Ratio, low => Ratio, high => Ratio, verdict => Verdict}.

a_verdict_that_depends_on_the_heap(_Config) ->
    Ends = fun(Default, Room) ->
        Times = [#{time_ns => 100.0, collections => 0.1}, #{time_ns => 200.0, collections => 0.1}],
        #{
            words => 50_000,
            default => Times,
            room => Times,
            pairs => #{default => [Default], room => [Room]}
        }
    end,
    Said = fun(Default, Room) ->
        dyno_bench_heap_result:findings([~"short", ~"long"], #{heaps => Ends(Default, Room)})
    end,
    [#{text := Text, advice := <<"Give the heap", _/binary>>}] = Said(
        pair(0.9, faster), pair(1.5, slower)
    ),
    ?assertEqual(
        <<
            "the verdict depends on the heap: long takes 1.50 times as long as short with room "
            "(50000 words), 0.90 times in a fresh process"
        >>,
        Text
    ),
    %% With many codes the first ones are said.
    Many = lists:duplicate(10, pair(0.9, faster)),
    #{pairs := Pairs} = Of = Ends(pair(0.9, faster), pair(1.5, slower)),
    Ten = Of#{pairs := Pairs#{default := Many, room := lists:duplicate(10, pair(1.5, slower))}},
    Texts = [
        T
     || #{check := heap, text := T} <- dyno_bench_heap_result:findings([~"short", ~"long"], #{
            heaps => Ten
        })
    ],
    ?assertEqual(4, length(Texts)),
    ?assertMatch({match, _}, re:run(lists:last(Texts), "^so do 7 other verdicts")),
    ?assertEqual([], Said(pair(1.4, slower), pair(1.5, slower))),
    ?assertEqual([], Said(pair(1.02, same), pair(1.04, slower))),
    ?assertEqual([], Said(pair(0.9, undecided), pair(1.5, slower))).

a_heap_left_to_the_runtime_is_said(_Config) ->
    Said = fun(Heap, TimeNs, Collections) ->
        Candidate = #{times_ns => [TimeNs], garbage_collections => Collections},
        Result = #{heap => Heap, candidates => [Candidate]},
        dyno_bench_heap_result:findings([~"code"], Result)
    end,
    [#{check := heap, text := Text, advice := Advice}] = Said(runtime, 500.0, 0.5),
    ?assertMatch({match, _}, re:run(Text, ~"code 0.5 a call")),
    ?assertMatch({match, _}, re:run(Advice, ~"--heap WORDS")),
    ?assertEqual([], Said(runtime, 5000.0, 0.1)),
    [#{advice := Default}] = Said(default, 500.0, 0.5),
    ?assertMatch({match, _}, re:run(Default, ~"Leave --heap default out for a new heap")),
    %% Samples and VMs of their own would not draw it either.
    Apart = fun(Way) ->
        Candidate = #{times_ns => [500.0], garbage_collections => 0.5},
        Result = Way#{heap => default, candidates => [Candidate]},
        [#{advice := Which}] = dyno_bench_heap_result:findings([~"code"], Result),
        Which
    end,
    ?assertMatch(
        {match, _}, re:run(Apart(#{fixed => true}), ~"--heap default and -d, -s, -l and -r")
    ),
    ?assertMatch({match, _}, re:run(Apart(#{vms => 8}), ~"--heap default and -i out")),
    ?assertEqual([], Said(10_000, 500.0, 0.5)),
    ?assertEqual([], Said(drawn, 500.0, 0.5)).

%% In a fresh process the first takes longer than the second, by the size at which its heap settles.
times_grow_with_the_work(_Config) ->
    Codes = ["lists:sum(lists:seq(1, 150)).", "lists:sum(lists:seq(1, 250))."],
    {ok, Document} = dyno_bench:run(Codes, #{budget_ms => 10_000}),
    [#{~"ratio" := Ratio, ~"verdict" := Verdict}] = rows(~"comparisons", Document),
    ?assertEqual(~"slower", Verdict),
    ?assert(Ratio > 1.3),
    [#{~"code" := ~"lists:sum(lists:seq(1, 150)).", ~"without_collections" := Ns} = Of | _] =
        rows(~"heaps", Document),
    #{~"default_time" := FreshNs, ~"default_collections" := Many, ~"room_collections" := Few} = Of,
    ?assert(FreshNs > Ns),
    ?assert(Many > 10 * Few).

the_heap_can_be_fixed(_Config) ->
    Parameter = fun(Options) ->
        {ok, Document} = dyno_bench:run(["lists:seq(1, 100)."], Options#{budget_ms => 20}),
        #{~"parameters" := #{~"heap" := Heap}} = Document,
        Heap
    end,
    ?assertEqual(~"drawn", Parameter(#{})),
    ?assertEqual(~"default", Parameter(#{heap => default})),
    ?assertEqual(20_000, Parameter(#{heap => 20_000})),
    {error, {dyno_option, _} = Error} = dyno_bench:run(["ok."], #{heap => 0}),
    ?assertMatch({match, _}, re:run(dyno_error:format(Error), "heap")),
    %% The words have an effect: as many collections as such a heap makes.
    Collections = fun(Heap) ->
        {ok, Document} = dyno_bench:run(["lists:seq(1, 100)."], #{budget_ms => 50, heap => Heap}),
        [#{~"collections_per_call" := Count}] = rows(~"codes", Document),
        Count
    end,
    ?assert(Collections(1000) > 5 * Collections(50_000)),
    Sampled = fun(Heap) ->
        Mode = {continuous, #{sample_ms => 20, samples => 2}},
        {ok, Document} = dyno_bench:run(["lists:seq(1, 100)."], #{mode => Mode, heap => Heap}),
        [#{~"collections_per_call" := Count}] = rows(~"codes", Document),
        Count
    end,
    ?assert(Sampled(1000) > 5 * Sampled(50_000)).

modes_agree_with_the_same_heap(_Config) ->
    Ratio = fun(Options) ->
        Codes = ["lists:seq(1, 60).", "lists:seq(1, 100)."],
        {ok, Document} = dyno_bench:run(Codes, Options#{heap => 10_000}),
        [#{~"ratio" := Of}] = rows(~"comparisons", Document),
        Of
    end,
    Ratios = [
        Ratio(#{budget_ms => 1000}),
        Ratio(#{mode => {continuous, #{sample_ms => 50, samples => 8}}}),
        Ratio(#{mode => {timed, #{iterations => 20_000, samples => 8}}})
    ],
    ct:log("~p", [Ratios]),
    %% Each by its own heap gave 0.7 to 1.5.
    ?assert(lists:min(Ratios) > 1.1),
    ?assert(lists:max(Ratios) < 4).

reductions_mean_the_same(_Config) ->
    Continuous = #{mode => {continuous, #{sample_ms => 20, samples => 3}}},
    Timed = #{mode => {timed, #{iterations => 10, samples => 3}}},
    [
        ?assertMatch({2.0, _}, reductions("timer:sleep(1).", Options), Options)
     || Options <- [#{budget_ms => 20}, Timed]
    ],
    %% Samples of a time include collections, of which a small one takes five.
    {Slept, Collections} = reductions("timer:sleep(1).", Continuous),
    ?assert(Slept >= 2 andalso Slept < 3 + 5 * Collections, {Slept, Collections}),
    %% An empty call takes none.
    [
        ?assertMatch({Of, _} when Of < 0.001, reductions("ok.", Options), Options)
     || Options <- [#{budget_ms => 20}, Continuous, Timed]
    ],
    {Own, _} = reductions("lists:seq(1, 100).", #{budget_ms => 20}),
    {With, _} = reductions("lists:seq(1, 100).", Continuous),
    ?assert(With >= Own andalso With < 1.3 * Own, {Own, With}).

%% With the collections of a call.
reductions(Code, Options) ->
    case dyno_bench:run([Code], Options) of
        {ok, Document} ->
            [#{~"reductions_per_call" := Of, ~"collections_per_call" := Collections}] =
                rows(~"codes", Document),
            {Of, Collections};
        %% The machine is too busy at this moment.
        {error, {dyno_bench_engine, {clocks, _, _}}} ->
            reductions(Code, Options)
    end.

whose_calls_per_second(_Config) ->
    Options = #{budget_ms => 100, concurrency => 2},
    {ok, Document} = dyno_bench:run(["lists:seq(1, 10)."], Options),
    [#{~"calls_per_second" := Rate, ~"time_per_call" := Ns}] = rows(~"codes", Document),
    ?assert(abs(Rate * Ns / 1.0e9 - 2) < 0.001),
    [Run] = dyno_recording:runs(Document),
    {ok, #{~"columns" := Columns}} = dyno_recording:table(Run, ~"codes"),
    [Title] = [T || #{~"name" := ~"calls_per_second", ~"title" := T} <- Columns],
    ?assertEqual(~"Calls per second, all 2 processes", Title),
    {ok, Text} = dyno_report:render(console, Document, #{}),
    ?assertMatch({match, _}, re:run(Text, ~"per second, all")).

compiled(Code) ->
    {ok, Parsed} = dyno_bench_code:read(Code),
    {ok, #{module := Module, binary := Binary} = Compiled} =
        dyno_bench_code:compile(dyno_bench_loop_1, Parsed, #{}),
    {module, Module} = code:load_binary(Module, "dyno_bench_loop_1", Binary),
    Compiled.

%% Each copy of the loop does the same. The gaps between them are the same for identical codes, so
%% that these lie alike.
the_loop_has_many_places(_Config) ->
    Code = #{runner => "r(Start, Last) -> Start + Last.", init_runner => "5."},
    #{module := Module, constants := Constants, places := Places} = compiled(Code),
    ?assertEqual(8, Places),
    [
        begin
            ?assertEqual(25, Module:loop(4, Constants, 5, Place)),
            ?assertEqual(105, Module:resume(1, Constants, 5, 100, Place))
        end
     || Place <- lists:seq(1, Places)
    ],
    ?assertEqual(25, Module:loop(4, Constants, 5)),
    {ok, Parsed} = dyno_bench_code:read(Code),
    Sizes = [byte_size(map_get(binary, compiled(Code))) || _ <- lists:seq(1, 5)],
    ?assertMatch([_], lists:usort(Sizes)),
    %% Who wants to see the loop sees one.
    Source = unicode:characters_to_binary(dyno_bench_code:source(Parsed)),
    ?assertEqual(nomatch, re:run(Source, "repeat_2|gap_")).

long_code_has_few_places(_Config) ->
    Long = lists:flatten(["[", lists:join(", ", ["self()" || _ <- lists:seq(1, 800)]), "]."]),
    #{places := Places} = compiled(Long),
    ?assert(Places =< 3).

end_per_testcase(_Case, _Config) ->
    _ = code:purge(dyno_bench_loop_1),
    _ = code:delete(dyno_bench_loop_1),
    _ = code:purge(dyno_bench_loop_1),
    ok.
