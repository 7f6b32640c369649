%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_kinds_SUITE).
-moduledoc """
The kinds of loads without a target: think times, iterations, phases, kinds of operations, feeds,
searches, pools that grow. What is counted must be what the load says; times only have to lie on the
right side, so that a busy machine cannot fail a test.

This module is also the suite whose operations are made; the run state is a map of funs.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() -> [{group, waiting}, {group, working}].

%% Those that mostly wait run side by side; those that keep a processor busy would be in their way.
groups() ->
    [
        {waiting, [parallel], [
            think_time_is_waited,
            phases_have_results_of_their_own,
            a_recorded_curve,
            poisson_counts_what_is_due,
            a_ramp_is_kept,
            a_stalled_target_stalls_no_arrivals,
            a_pool_grows_no_further,
            added_workers_rest,
            a_later_phase_grows_to_its_own_limit,
            no_more_are_prepared_than_there_may_be,
            a_pool_that_cannot_grow,
            search_finds_nothing
        ]},
        {working, [], [
            iterations_in_all,
            iterations_of_each,
            kinds_by_weight,
            an_arrival_costs_little,
            search_finds_the_limit,
            search_names_the_generator,
            feeds_end_a_load
        ]}
    ].

%% The suite's callbacks

init_worker(Id, #{init := Init}) -> Init(Id);
init_worker(Id, State) -> {ok, {Id, State}}.

operation({_Id, #{operation := Operation}} = State) ->
    Operation(State),
    {ok, State};
operation(State) ->
    {ok, State}.

operation(Kind, {_Id, #{kind := Operation}} = State) ->
    case Operation(Kind) of
        ok -> {ok, State};
        {error, Reason} -> {error, Reason, State};
        Other -> Other
    end.

%% Running

run(Load, Options, RunState) ->
    {ok, Read} = dyno_load_spec:read(Load, 1),
    {ok, Pid} = dyno_load:start_link(
        maps:merge(
            #{
                sink => self(),
                module => ?MODULE,
                run_state => RunState,
                load => Read,
                duration_ms => 200,
                warmup_ms => 0,
                interval_ms => 50,
                timeout_ms => 5000
            },
            Options
        )
    ),
    Events = dyno_load_SUITE:events(Pid),
    case lists:last(Events) of
        {ended, Result} ->
            Result#{events => Events};
        {failed, Text} ->
            {failed, Text}
    end.

successes(#{total := #{successes := Count}}) -> Count.

pause(Ms) ->
    receive
    after Ms -> ok
    end.

%% Closed

think_time_is_waited(_Config) ->
    Result = run(
        #{model => closed, workers => 4, think_time_ms => 50}, #{duration_ms => 300}, #{}
    ),
    Count = successes(Result),
    ?assert(Count =< 4 * 6),
    ?assert(Count >= 4).

iterations_in_all(_Config) ->
    Started = erlang:monotonic_time(millisecond),
    Result = run(
        #{model => closed, workers => 7, iterations => 1000}, #{duration_ms => 50_000}, #{}
    ),
    ?assertEqual(1000, successes(Result)),
    %% It does not wait for the end of its duration.
    ?assert(erlang:monotonic_time(millisecond) - Started < 20_000),
    #{duration_ns := DurationNs} = Result,
    ?assert(DurationNs < 20_000_000_000).

%% The warm-up is not limited, and not counted.
iterations_of_each(_Config) ->
    Counts = counters:new(5, []),
    Operation = fun({Id, _}) -> counters:add(Counts, Id, 1) end,
    Load = #{model => closed, workers => 5, iterations => {each, 20}},
    ?assertEqual(
        100, successes(run(Load, #{duration_ms => 30_000}, #{operation => Operation}))
    ),
    ?assertEqual([20, 20, 20, 20, 20], [counters:get(Counts, Id) || Id <- lists:seq(1, 5)]),
    ?assertEqual(
        100, successes(run(Load, #{duration_ms => 30_000, warmup_ms => 100}, #{}))
    ).

%% Phases

phases_have_results_of_their_own(_Config) ->
    Load = #{
        model => phases,
        phases => [
            #{name => "few", model => open, rate_per_s => 100, duration_ms => 200},
            #{
                name => "some",
                model => closed,
                workers => 3,
                iterations => {each, 5},
                duration_ms => 100
            },
            #{name => "many", model => open, rate_per_s => {steps, [200, 600]}, duration_ms => 200}
        ]
    },
    Result = run(Load, #{}, #{}),
    #{parts := [Few, Some, Many], total := Total, duration_ns := DurationNs} = Result,
    ?assertMatch(#{name := ~"few", arrivals := 20, start_ns := 0}, Few),
    ?assertMatch(#{name := ~"some", arrivals := undefined, start_ns := 200_000_000}, Some),
    ?assertMatch(#{name := ~"many", arrivals := 80, start_ns := 300_000_000}, Many),
    ?assertEqual(500_000_000, DurationNs),
    %% All of the iterations, unless a busy machine takes the 100 ms.
    ?assert(successes(Some) =< 15),
    lists:foreach(
        fun(#{arrivals := Due} = Part) -> ?assert(successes(Part) =< Due) end, [Few, Many]
    ),
    %% The whole is the sum of its parts, to the last bucket.
    ?assertEqual(
        successes(Few) + successes(Some) + successes(Many), map_get(successes, Total)
    ),
    Merged = lists:foldl(
        fun dyno_histogram:merge/2,
        dyno_histogram:empty(),
        [R || #{total := #{response := R}} <- [Few, Some, Many]]
    ),
    ?assertEqual(Merged, map_get(response, Total)).

a_recorded_curve(_Config) ->
    Load = #{model => open, arrivals => {counts, 50, [5, 0, 20, 1]}},
    Result = run(Load, #{duration_ms => 50}, #{}),
    %% As long as the curve is, not as the test says.
    ?assertMatch(#{duration_ns := 200_000_000, parts := [#{arrivals := 26}]}, Result),
    ?assert(successes(Result) >= 20),
    Times = #{model => open, arrivals => {times_ms, [5000, 5010, 5100]}},
    ?assertMatch(#{parts := [#{arrivals := 3}]}, run(Times, #{}, #{})).

poisson_counts_what_is_due(_Config) ->
    Load = #{model => open, rate_per_s => 1000, arrivals => poisson},
    #{parts := [#{arrivals := One}]} = run(Load, #{seed => 5}, #{}),
    #{parts := [#{arrivals := Again}]} = run(Load, #{seed => 5}, #{}),
    #{parts := [#{arrivals := Other}]} = run(Load, #{seed => 6}, #{}),
    ?assert(is_integer(One)),
    ?assertEqual(One, Again),
    %% 200 are expected: four standard deviations.
    ?assert(abs(One - 200) < 57),
    ?assertNotEqual(One, Other).

a_ramp_is_kept(_Config) ->
    Load = #{model => open, rate_per_s => {ramp, 0, 1000}},
    Result = run(Load, #{duration_ms => 400, interval_ms => 100}, #{}),
    #{events := Events, parts := [#{arrivals := 200}]} = Result,
    Offered = [Rate || {interval, #{offered_per_s := Rate}} <- Events],
    ?assert(length(Offered) >= 1),
    %% Offered is what the schedule says, whatever the machine is busy with; the interval after a
    %% late one is short, and one arrival more or less shows.
    Steps = lists:zip(lists:droplast(Offered), tl(Offered)),
    ?assertEqual([], [{A, B} || {A, B} <- Steps, B < A - 100]),
    %% On a busy machine there may be one interval only.
    ?assert(Steps =:= [] orelse lists:last(Offered) > 500, Offered).

%% Kinds

kinds_by_weight(_Config) ->
    Seen = counters:new(2, []),
    Kind = fun
        (read) ->
            counters:add(Seen, 1, 1);
        (write) ->
            counters:add(Seen, 2, 1),
            {error, full}
    end,
    Load = #{
        model => closed, workers => 3, iterations => 10_000, operations => #{read => 9, write => 1}
    },
    Result = run(Load, #{duration_ms => 30_000}, #{kind => Kind}),
    #{operations := #{read := Reads, write := Writes}, errors := Errors} = Result,
    ?assertEqual(counters:get(Seen, 1), map_get(successes, Reads)),
    ?assertEqual(counters:get(Seen, 2), map_get(failures, Writes)),
    ?assertEqual(0, map_get(failures, Reads)),
    ?assertEqual(10_000, map_get(successes, Reads) + map_get(failures, Writes)),
    %% Five standard deviations of 30.
    ?assert(abs(map_get(failures, Writes) - 1000) < 150),
    Failed = map_get(failures, Writes),
    ?assertMatch([{~"full", Failed, undefined}], Errors).

%% Pools

%% The target stops for 300 ms, and every operation that is under way with it. What is due in that
%% time begins nevertheless, in workers that are started for it.
a_stalled_target_stalls_no_arrivals(_Config) ->
    dyno_suites:one_of(3, fun() ->
        Gate = ets:new(gate, [public, {read_concurrency, true}]),
        Begun = counters:new(1, []),
        Operation = fun(_) ->
            counters:add(Begun, 1, 1),
            through(Gate)
        end,
        Self = self(),
        Stopper = spawn_link(fun() ->
            receive
                go -> ok
            end,
            pause(100),
            true = ets:insert(Gate, {closed}),
            Before = counters:get(Begun, 1),
            pause(300),
            During = counters:get(Begun, 1) - Before,
            true = ets:delete(Gate, closed),
            Self ! {during, During}
        end),
        Stopper ! go,
        Load = #{model => open, rate_per_s => 400, workers => 10, max_workers => 2000},
        Result = run(Load, #{duration_ms => 600}, #{operation => Operation}),
        #{workers := Workers, parts := [#{arrivals := 240}], total := #{response := Response}} =
            Result,
        During =
            receive
                {during, N} -> N
            end,
        ct:pal("~b began while nothing ended, of 120; ~b workers", [During, Workers]),
        %% Ten could without more workers.
        During > 60 andalso Workers > 60 andalso successes(Result) >= 230 andalso
            dyno_histogram:quantile(Response, 1.0) > 200_000_000
    end).

through(Gate) ->
    case ets:member(Gate, closed) of
        true ->
            pause(5),
            through(Gate);
        false ->
            ok
    end.

%% In processor time, which a busy machine does not change much: at most 20 us are 50,000 arrivals a
%% second on one core. A node with one scheduler is asked for more than it can.
an_arrival_costs_little(_Config) ->
    dyno_tries:hold(3, fun an_arrival_costs_little_once/0).

an_arrival_costs_little_once() ->
    {ok, Node} = dyno_peer:start(#{arguments => ["+S", "1:1"]}),
    Costs = [erpc:call(Node, ?MODULE, cost_ns, [Workers]) || Workers <- [4, 100]],
    ok = dyno_peer:stop(Node),
    ct:pal("an arrival costs ~tp ns of processor time with 4 and with 100 workers", [Costs]),
    [?assert(Cost < 20_000) || Cost <- Costs].

cost_ns(Workers) ->
    process_flag(trap_exit, true),
    {Before, _} = erlang:statistics(runtime),
    Load = #{model => open, rate_per_s => 10_000_000, workers => Workers},
    #{total := #{started := Started}} = run(Load, #{duration_ms => 200}, #{}),
    {After, _} = erlang:statistics(runtime),
    (After - Before) * 1.0e6 / max(1, Started).

a_pool_grows_no_further(_Config) ->
    Load = #{model => open, rate_per_s => 1000, workers => 2, max_workers => 30},
    %% On a busy machine a pause takes some milliseconds more.
    Result = run(Load, #{duration_ms => 1000}, #{operation => fun(_) -> pause(200) end}),
    #{workers := Workers, parts := [Part], total := #{queued := Queued}} = Result,
    ?assertEqual(30, Workers),
    ?assert(successes(Result) =< 30 * 6),
    ?assert(Queued > 0),
    %% The pauses do not wait for each other.
    ?assertEqual(generator, dyno_load_verdict:of_part(Part)).

%% Whom it could not prepare in the warm-up nobody takes the place of: that would be one too many.
no_more_are_prepared_than_there_may_be(_Config) ->
    Prepared = counters:new(1, [atomics]),
    Init = fun(Id) ->
        ok = counters:add(Prepared, 1, 1),
        Id =/= 7 orelse error(no_connection),
        {ok, {Id, #{operation => fun(_) -> pause(20) end}}}
    end,
    Load = #{model => open, rate_per_s => 2000, workers => 2, max_workers => 20},
    #{workers := Workers} = run(Load, #{warmup_ms => 300, duration_ms => 1000}, #{init => Init}),
    ?assertEqual({19, 20}, {Workers, counters:get(Prepared, 1)}).

a_pool_that_cannot_grow(_Config) ->
    Init = fun
        (Id) when Id =< 3 -> {ok, {Id, #{operation => fun(_) -> pause(50) end}}};
        (_) -> error(too_many_connections)
    end,
    Load = #{model => open, rate_per_s => 500, workers => 3, max_workers => 100},
    %% On a busy machine the pool may not grow within 200 ms.
    #{notes := [{not_grown, Text}], workers := Workers} = run(
        Load, #{duration_ms => 1000}, #{init => Init}
    ),
    ?assertNotEqual(nomatch, binary:match(Text, ~"too_many_connections")),
    ?assertEqual(3, Workers).

%% The first 200 operations need 100 workers, and those after them hardly one: so many go on. They
%% come back for the next time.
added_workers_rest(_Config) ->
    dyno_suites:one_of(3, fun() ->
        Ids = ets:new(ids, [public, duplicate_bag]),
        Begun = counters:new(1, [atomics]),
        Operation = fun({Id, _}) ->
            ok = counters:add(Begun, 1, 1),
            N = counters:get(Begun, 1),
            true = ets:insert(Ids, {N div 200, Id}),
            N div 200 rem 3 =:= 0 andalso pause(100)
        end,
        Load = #{model => open, rate_per_s => 1000, workers => 2, max_workers => 500},
        #{workers := Most} = run(Load, #{duration_ms => 1000}, #{operation => Operation}),
        [_, _, Resting, Back, _] = [
            length(lists:usort([Id || {_, Id} <- ets:lookup(Ids, Part)]))
         || Part <- lists:seq(0, 4)
        ],
        ct:pal("~b workers after the first moment, ~b of ~b in the next", [Resting, Back, Most]),
        Resting < 40 andalso Back > 60
    end).

%% After a phase that added many: those whose number is beyond the limit take no part.
a_later_phase_grows_to_its_own_limit(_Config) ->
    Ids = ets:new(ids, [public]),
    Phase = #{model => open, rate_per_s => 1000, workers => 2},
    Load = #{
        model => phases,
        phases => [
            Phase#{name => "many", max_workers => 300, operations => #{many => 1}},
            Phase#{name => "few", max_workers => 20, operations => #{few => 1}}
        ]
    },
    Init = fun(Id) ->
        Operation = fun
            (few) ->
                true = ets:insert(Ids, {Id}),
                pause(50);
            (many) ->
                pause(200)
        end,
        {ok, {Id, #{kind => Operation}}}
    end,
    #{workers := Most} = run(Load, #{duration_ms => 1200}, #{init => Init}),
    ?assert(Most > 100, Most),
    %% On a busy machine some may still be in an operation of the first phase.
    Grown = [Id || {Id} <- ets:tab2list(Ids)],
    ?assert(lists:max(Grown) =< 20 andalso length(Grown) > 10, Grown).

%% Search

search(Objective, Options) ->
    maps:merge(
        #{
            model => search,
            objective => Objective,
            from_per_s => 50,
            probe_ms => 100,
            precision => 0.5
        },
        Options
    ).

%% Two workers with at least 10 ms each: no more than 200 a second, on any machine.
search_finds_the_limit(_Config) ->
    Load = search("latency.p50 < 10 s", #{workers => 2, limit_ms => 20_000}),
    Result = run(Load, #{}, #{operation => fun(_) -> pause(10) end}),
    #{search := #{rate_per_s := Rate, stopped := Stopped, tried := Tried} = Found} = Result,
    ct:pal("~tp", [Found]),
    ?assert(Rate =< 210),
    ?assert(lists:member(Stopped, [saturated, generator, time])),
    %% Nothing is found by one probe or two.
    ?assert(lists:sum([H + F || #{held := H, failed := F} <- Tried]) >= 6, Tried).

search_finds_nothing(_Config) ->
    Load = search(["latency.p99 < 1 ns", "errors.rate == 0 %"], #{probe_ms => 50}),
    Result = run(Load, #{}, #{}),
    ?assertMatch(#{search := #{rate_per_s := 0, stopped := lowest}}, Result).

%% Workers that have nothing to do, and too much: it can only be the generator.
search_names_the_generator(_Config) ->
    dyno_tries:hold(3, fun search_names_the_generator_once/0).

search_names_the_generator_once() ->
    Load = search("latency.p50 < 10 s", #{
        workers => 4,
        max_workers => 4,
        from_per_s => 20_000_000,
        to_per_s => 40_000_000,
        probe_ms => 100,
        limit_ms => 500
    }),
    #{search := #{rate_per_s := Rate, tried := Tried}} = run(Load, #{}, #{}),
    ?assert(Rate < 20_000_000),
    ?assertMatch(#{why := generator, held := 0}, lists:last(Tried)).

%% Feeds

feeds(Spec) ->
    {ok, Feeds} = dyno_feed:read(Spec),
    Feeds.

feeds_end_a_load(_Config) ->
    Taken = ets:new(taken, [public, duplicate_bag]),
    Operation = fun(_) -> true = ets:insert(Taken, {dyno_feed:next(job)}) end,
    Feeds = feeds(#{job => #{from => lists:seq(1, 500), order => sequence}}),
    Result = run(
        #{model => closed, workers => 8},
        #{duration_ms => 30_000, feeds => Feeds},
        #{operation => Operation}
    ),
    ?assertEqual(500, successes(Result)),
    ?assertEqual([{feed_ended, job}], map_get(notes, Result)),
    ?assertEqual(lists:seq(1, 500), lists:sort([J || {J} <- ets:tab2list(Taken)])).
