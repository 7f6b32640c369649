%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_result_SUITE).
-moduledoc """
What a load measured, merged and put into words: metrics, histograms, tables, and whether the load
was kept. All from recorders that are filled here.
""".

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

-define(MS, 1_000_000).

suite() ->
    [{timetrap, {minutes, 1}}].

all() -> [{group, all}].

groups() ->
    [
        {all, [parallel], [
            pools_are_merged_without_a_loss,
            intervals_sum_up,
            failing_operations,
            a_closed_load,
            operations_of_unknown_end,
            an_open_load,
            kinds_and_phases,
            what_never_ended_is_slow_in_tables,
            a_search,
            load_nodes,
            without_a_result,
            an_interrupted_load,
            verdicts,
            warnings,
            a_run_of_a_recording
        ]}
    ].

%% Results

%% A snapshot of a recorder with operations of these milliseconds.
snapshot(Model, TimesMs) -> snapshot(Model, TimesMs, #{}).

snapshot(Model, TimesMs, Options) ->
    Recorder = dyno_load_recorder:new(Model, 0, 1 bsl 60),
    [
        begin
            ok = dyno_load_recorder:started(Recorder),
            ok = dyno_load_recorder:success(Recorder, 0, 0, round(Ms * ?MS))
        end
     || Ms <- TimesMs
    ],
    [
        begin
            ok = dyno_load_recorder:started(Recorder),
            ok = dyno_load_recorder:failure(Recorder, refused, [])
        end
     || _ <- lists:seq(1, maps:get(failures, Options, 0))
    ],
    [
        ok = dyno_load_recorder:schedule_lag(Recorder, round(Ms * ?MS))
     || Ms <- maps:get(lags_ms, Options, [])
    ],
    [ok = dyno_load_recorder:queued(Recorder) || _ <- lists:seq(1, maps:get(queued, Options, 0))],
    [ok = dyno_load_recorder:started(Recorder) || _ <- lists:seq(1, maps:get(endless, Options, 0))],
    Snapshot = dyno_load_recorder:snapshot(Recorder),
    ok = dyno_load_recorder:delete(Recorder),
    Snapshot.

pool(Parts) ->
    #{
        parts => Parts,
        errors => [],
        arrivals => [undefined || _ <- Parts],
        workers => 2,
        ready => 2,
        under_way => 0,
        ending => 0,
        run_queue => 0.5
    }.

round_of(Load) -> round_of(Load, 1000).

round_of(Load, DurationMs) ->
    {ok, Read} = dyno_load_spec:read(Load, 1),
    dyno_load_part:parts(Read, #{duration_ms => DurationMs, seed => 1}).

result(Round, Pools) -> result(Round, Pools, #{}).

result(Round, Pools, More) ->
    Merged = dyno_load_result:merge(Round, Pools),
    Node = #{node => node(), place => local, offset_ns => 0, uncertain_ns => 0},
    Result = Merged#{
        duration_ns => lists:sum([Ns || #{duration_ns := Ns} <- Round]),
        seed => 1,
        notes => [],
        not_ended => [],
        nodes => [dyno_load_result:node_of(Node, hd(Pools), undefined)]
    },
    maps:merge(Result, More).

closed() -> #{model => closed, workers => 2}.

open(Rate) -> #{model => open, rate_per_s => Rate, workers => 2, max_workers => 10}.

recorded(Result) -> dyno_load_result:to_recording(Result, []).

metrics(Result) ->
    #{metrics := Metrics} = recorded(Result),
    #{Name => Value || #{name := Name, value := Value} <- Metrics}.

table(Name, Result) ->
    #{tables := Tables} = recorded(Result),
    [#{columns := Columns, rows := Rows}] = [T || #{name := N} = T <- Tables, N =:= Name],
    Names = [N || #{name := N} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

names(Key, Result) -> [Name || #{name := Name} <- map_get(Key, recorded(Result))].

warnings_of(Result) -> dyno_load_verdict:warnings(Result).

%% Merging

%% However the operations are shared by pools: the whole has each of them once.
pools_are_merged_without_a_loss(_Config) ->
    dyno_property:holds(
        ?FORALL(
            {A, B, C},
            {times(), times(), times()},
            begin
                [Part] = round_of(open(100)),
                Pools = [pool([#{undefined => snapshot(open, Ms)}]) || Ms <- [A, B, C]],
                #{total := Total, workers := 6, parts := [#{total := Total}]} =
                    dyno_load_result:merge([Part], Pools),
                Total =:= snapshot(open, A ++ B ++ C)
            end
        ),
        50
    ).

times() -> proper_types:list(proper_types:float(0.001, 5000.0)).

intervals_sum_up(_Config) ->
    dyno_property:holds(
        ?FORALL(
            {A, B},
            {times(), times()},
            begin
                First = snapshot(closed, A),
                Both = snapshot(closed, A ++ B),
                Seconds = 1_000_000_000,
                None = dyno_load_recorder:empty(),
                #{throughput_per_s := One} =
                    dyno_load_result:interval(Seconds, Seconds, None, First, null),
                #{throughput_per_s := Two, time_ms := 2000, p50_ns := P50} =
                    dyno_load_result:interval(2 * Seconds, Seconds, First, Both, null),
                {round(One), round(Two)} =:= {length(A), length(B)} andalso
                    (P50 =:= null) =:= (B =:= [])
            end
        ),
        50
    ).

%% Metrics and tables

a_closed_load(_Config) ->
    Snapshot = snapshot(closed, [10, 20, 30, 40], #{failures => 1}),
    Result = result(round_of(closed(), 2000), [pool([#{undefined => Snapshot}])], #{
        errors => [{~"refused", 1, undefined}]
    }),
    Metrics = metrics(Result),
    ?assertMatch(
        #{
            ~"throughput" := 2.0,
            ~"operations.count" := 4,
            ~"errors.count" := 1,
            ~"errors.rate" := 0.2,
            ~"workers.max" := 2,
            ~"latency.max" := 40_000_000
        },
        Metrics
    ),
    %% What only open loads and load nodes have.
    ?assertEqual([], [N || N <- maps:keys(Metrics), string:prefix(N, "load.") =/= nomatch]),
    ?assertEqual([], [N || N <- maps:keys(Metrics), string:prefix(N, "service") =/= nomatch]),
    ?assertEqual([~"latency"], names(histograms, Result)),
    ?assertEqual([~"errors"], names(tables, Result)),
    ?assertMatch([#{~"reason" := ~"refused", ~"count" := 1}], table(~"errors", Result)).

%% Whether what never ended failed is not known: 0 to 5 of 100. Neither is, of a closed load, the
%% share of those that did not begin, as their workers were not prepared again.
operations_of_unknown_end(_Config) ->
    Decided = fun(Snapshot, Texts) ->
        Result = result(round_of(closed(), 2000), [pool([#{undefined => Snapshot}])]),
        #{metrics := Metrics} = recorded(Result),
        Document = dyno_recording:add_run(dyno_recording:new(test, ~"a", #{}, #{}), #{
            id => ~"1", size => 1, status => complete, metrics => Metrics
        }),
        Verdicts = [
            dyno_threshold:evaluate(dyno_error:ok(dyno_threshold:parse(Text)), Document)
         || Text <- Texts
        ],
        {
            #{Name => {Low, High} || #{name := Name, low := Low, high := High} <- Metrics},
            [Is || [#{~"result" := Is}] <- Verdicts]
        }
    end,
    ?assertEqual(
        {
            #{~"errors.rate" => {0.0, 0.05}, ~"errors.count" => {0.0, 5.0}},
            [~"unknown", ~"unknown", ~"pass", ~"fail"]
        },
        Decided(snapshot(closed, lists:duplicate(95, 10), #{endless => 5}), [
            "errors.rate < 1 %", "errors.rate == 0 %", "errors.rate < 6 %", "errors.count > 6"
        ])
    ),
    Away = snapshot(closed, lists:duplicate(99, 10), #{failures => 1}),
    ?assertEqual(
        {#{~"errors.rate" => {0.01, null}}, [~"unknown", ~"fail", ~"pass"]},
        Decided(Away#{not_prepared := 9}, [
            "errors.rate < 2 %", "errors.rate < 0.5 %", "errors.count < 2"
        ])
    ).

%% More than 1 in 100 makes what was measured less believable; each reason says where it came from.
failing_operations(_Config) ->
    Warned = fun(Failures, Errors) ->
        Snapshot = snapshot(closed, lists:duplicate(100, 10), #{failures => Failures}),
        Result = result(round_of(closed(), 2000), [pool([#{undefined => Snapshot}])], #{
            errors => Errors
        }),
        [Text || {~"failing", Text} <- dyno_load_verdict:warnings(Result)]
    end,
    ?assertEqual([], Warned(1, [{~"refused", 1, undefined}])),
    ?assertEqual(
        [
            <<
                "50 % of the operations failed (100 of 200), most often for {error,oops} (90) in "
                "errs:get/1 (errs.erl:12), called from errs:operation/1 (errs.erl:8); busy (10)"
            >>
        ],
        Warned(100, [
            {~"{error,oops}", 90, ~"errs:get/1 (errs.erl:12)\nerrs:operation/1 (errs.erl:8)"},
            {~"busy", 10, undefined}
        ])
    ),
    %% One stack of each reason, whoever had it.
    ?assertEqual(
        [{~"a", 5, ~"m:f/1"}, {~"b", 1, undefined}],
        dyno_load_recorder:merge_errors([
            [{~"a", 2, undefined}, {~"b", 1, undefined}], [{~"a", 3, ~"m:f/1"}]
        ])
    ).

an_open_load(_Config) ->
    Options = #{lags_ms => [0.1, 2], queued => 3},
    Snapshot = snapshot(open, lists:duplicate(60, 5), Options),
    Result = result(round_of(open(100)), [pool([#{undefined => Snapshot}])]),
    ?assertMatch(
        #{
            ~"load.offered" := 100,
            ~"load.achieved" := 60.0,
            ~"load.achieved_share" := 0.6,
            ~"load.dropped" := 40,
            ~"load.queued" := 3,
            ~"load.lagged" := 1,
            ~"load.saturated" := 1,
            ~"load.schedule_lag.p99" := _,
            ~"service.p50" := _
        },
        metrics(Result)
    ),
    ?assertEqual([~"latency", ~"service", ~"load.schedule_lag"], names(histograms, Result)).

kinds_and_phases(_Config) ->
    Phases = [(closed())#{name => "warm up", duration_ms => 500}, open(10)],
    Read = snapshot(closed, [1, 1], #{failures => 2}),
    Write = snapshot(open, [7, 7, 7]),
    Pool = pool([#{read => Read}, #{read => snapshot(open, []), write => Write}]),
    Result = result(round_of(#{model => phases, phases => Phases}), [Pool]),
    ?assertMatch(
        #{
            ~"operations.count" := 5,
            ~"operation.read.errors.count" := 2,
            ~"operation.write.operations.count" := 3,
            ~"phase.warm_up.throughput" := 4.0,
            ~"phase.phase_2.operations.count" := 3
        },
        metrics(Result)
    ),
    ?assertMatch(
        [
            #{~"operation" := ~"read", ~"count" := 2, ~"errors" := 2, ~"errors_rate" := 0.5},
            #{~"operation" := ~"write", ~"count" := 3, ~"errors" := 0}
        ],
        table(~"operations", Result)
    ),
    ?assertMatch(
        [
            #{
                ~"phase" := ~"warm up",
                ~"model" := ~"closed",
                ~"start" := 0,
                ~"duration" := 500,
                ~"offered" := undefined,
                ~"dropped" := undefined,
                ~"state" := ~"kept"
            },
            #{
                ~"phase" := ~"phase 2",
                ~"model" := ~"open",
                ~"start" := 500,
                ~"offered" := 10.0,
                ~"dropped" := 2,
                ~"state" := ~"generator limited"
            }
        ],
        table(~"phases", Result)
    ),
    ?assert(lists:member(~"operation.write.latency", names(histograms, Result))).

%% Of 100 operations three never end: nobody knows the 99th, the metrics' and the tables'.
what_never_ended_is_slow_in_tables(_Config) ->
    [Part] = round_of(open(100)),
    Read = snapshot(open, lists:seq(1, 97), #{endless => 3}),
    Result = result([Part], [pool([#{read => Read, write => snapshot(open, [1])}])]),
    #{~"operation.read.latency.p99" := null, ~"operation.write.latency.p99" := _} =
        metrics(Result),
    [
        #{~"latency_p99" := P99, ~"latency_max" := Max, ~"latency_p50" := P50},
        #{~"latency_p99" := Ms}
    ] =
        table(~"operations", Result),
    ?assertMatch({undefined, undefined}, {P99, Max}),
    ?assert(P50 > 49 * ?MS),
    ?assert(Ms > 0).

a_search(_Config) ->
    Searched = fun Searched(S) ->
        case dyno_load_search:next(S) of
            {done, Result} ->
                Result;
            {probe, Rate} when Rate =< 100 ->
                Searched(dyno_load_search:record(Rate, held, 1, S));
            {probe, Rate} ->
                Searched(dyno_load_search:record(Rate, saturated, 1, S))
        end
    end,
    #{rate_per_s := 100, high_per_s := High} =
        Found = Searched(
            dyno_load_search:new(#{
                from_per_s => 100,
                to_per_s => 1000,
                confidence => 0.9,
                precision => 1.0,
                limit_ns => 99
            })
        ),
    Probe = fun(Rate, Count) ->
        Snapshot = snapshot(open, lists:duplicate(Count, 3)),
        {Rate, dyno_load_result:merge(round_of(open(Rate)), [pool([#{undefined => Snapshot}])])}
    end,
    Probes = [Probe(High, 20), Probe(High, 30), Probe(100, 90), Probe(100, 100)],
    Base = result(round_of(open(200)), [pool([#{undefined => snapshot(open, [])}])]),
    Result = dyno_load_result:of_search(Found, Probes, Base),
    ?assertMatch(
        #{
            ~"load.search.rate" := 100,
            ~"load.search.high" := High,
            %% Of the two probes at that rate.
            ~"operations.count" := 190,
            ~"throughput" := 95.0
        },
        metrics(Result)
    ),
    Rows = table(~"probes", Result),
    ?assertMatch([_], [R || #{~"rate" := 100, ~"decision" := ~"held"} = R <- Rows]),
    [#{~"reason" := ~"the target was saturated"} | _] = [R || #{~"failed" := N} = R <- Rows, N > 0],
    #{metrics := Metrics} = recorded(Result),
    [#{low := Low, high := High}] = [M || #{name := ~"load.search.rate"} = M <- Metrics],
    ?assert(Low =< 100),
    %% What a machine that is busy with something else makes of it is said.
    ?assertMatch(
        [
            {~"search_disturbed", <<"9 of ", _/binary>>},
            {~"search_busy", <<"the machine", _/binary>>}
        ],
        [
            W
         || {<<"search_", _/binary>>, _} = W <- dyno_load_verdict:warnings(Result#{
                search := Found#{disturbed := 9}, busy_below := 0.97
            })
        ]
    ),
    %% On a machine that others keep busy, a probe that fails is no bound, also if none held.
    BusyProbe = fun(Rate, Count, Busy) ->
        {Rate, Merged} = Probe(Rate, Count),
        {Rate, Merged#{busy => Busy}}
    end,
    Beside = fun(Of, Busy) ->
        Tried = [BusyProbe(High, 20, 0.99), BusyProbe(100, 90, 0.9), BusyProbe(5, 5, Busy)],
        #{search := #{high_per_s := Most}} = dyno_load_result:of_search(Of, Tried, Base),
        Most
    end,
    ?assertEqual(undefined, Beside(Found, 0.9)),
    ?assertEqual(High, Beside(Found, 0.3)),
    ?assertEqual(undefined, Beside(Found#{rate_per_s := 0}, 0.9)),
    ?assertEqual(High, Beside(Found#{rate_per_s := 0}, 0.3)),
    %% That a search ends at a limit is its point.
    ?assertEqual([~"few_operations"], [Code || {Code, _} <- warnings_of(Result)]).

load_nodes(_Config) ->
    Snapshot = pool([#{undefined => snapshot(closed, [1, 2])}]),
    Node = fun(Name, LostAtMs) ->
        Pool = #{node => Name, place => remote, offset_ns => 5, uncertain_ns => 2},
        dyno_load_result:node_of(Pool, Snapshot, LostAtMs)
    end,
    Result = result(round_of(closed()), [Snapshot, Snapshot], #{
        nodes => [Node('a@host', undefined), Node('b@host', 1500)]
    }),
    ?assertMatch(#{~"load.nodes" := 2, ~"load.nodes_lost" := 1}, metrics(Result)),
    ?assertMatch(
        [
            #{~"node" := ~"a@host", ~"workers" := 2, ~"operations" := 2, ~"lost_at" := undefined},
            #{~"node" := ~"b@host", ~"clock_offset" := 5, ~"lost_at" := 1500}
        ],
        table(~"load_nodes", Result)
    ),
    {_, Text} = lists:keyfind(~"load_node_lost", 1, warnings_of(Result)),
    contains(Text, [~"b@host", ~"1.5 s"]).

contains(Text, Parts) ->
    [?assertNotEqual(nomatch, binary:match(Text, Part), Text) || Part <- Parts].

%% Of a load that tells nothing, or nothing yet: its course.
without_a_result(_Config) ->
    Interval = #{
        time_ms => 100,
        throughput_per_s => 5.0,
        errors_per_s => 0.0,
        offered_per_s => null,
        p50_ns => null,
        p99_ns => null,
        max_ns => null
    },
    ?assertMatch(
        #{metrics := [], histograms := [], tables := [], warnings := [], series := []},
        dyno_load_result:to_recording(none, [])
    ),
    #{series := Series} = dyno_load_result:to_recording(none, [Interval]),
    ?assertNot(lists:member(~"load.offered", [N || #{name := N} <- Series])),
    #{series := [#{name := ~"load.offered", values := [7.0]} | _]} =
        dyno_load_result:to_recording(none, [Interval#{offered_per_s := 7.0}]).

%% Nobody can say whether its parts came about.
an_interrupted_load(_Config) ->
    Pool = pool([#{undefined => snapshot(open, [1, 2])}]),
    Result = result(round_of(open(100)), [Pool], #{parts => [], under_way => 3}),
    ?assertMatch(#{~"operations.count" := 2}, metrics(Result)),
    ?assertNot(is_map_key(~"load.offered", metrics(Result))),
    ?assertEqual([], warnings_of(Result)).

%% Verdicts

verdict(Load, Snapshot) ->
    #{parts := [Part]} = Result = result(round_of(Load), [pool([#{undefined => Snapshot}])]),
    Codes = [Code || {Code, _} <- warnings_of(Result)],
    {dyno_load_verdict:of_part(Part), Codes -- [~"few_operations"]}.

verdicts(_Config) ->
    Times = fun(Count, Ms) -> lists:duplicate(Count, Ms) end,
    Lags = fun(Ms) -> #{lags_ms => lists:duplicate(100, Ms)} end,
    [
        ?assertEqual(Expected, verdict(Load, Snapshot))
     || {Expected, Load, Snapshot} <- [
            {{kept, []}, closed(), snapshot(closed, Times(3, 10))},
            {{kept, []}, open(100), snapshot(open, Times(100, 5))},
            %% 99 % is enough.
            {{kept, []}, open(100), snapshot(open, Times(98, 5))},
            %% Its two workers were busy for all of the second, and operations waited for others.
            {{saturated, [~"saturated"]}, open(100), snapshot(open, [10 | Times(49, 40)])},
            %% Its two workers hang.
            {{saturated, [~"saturated"]}, open(100), snapshot(open, [], #{endless => 2})},
            %% No operation waited: more workers may do more.
            {{generator, [~"generator_limited"]}, open(100), snapshot(open, Times(50, 40))},
            %% They had the time.
            {{generator, [~"generator_limited"]}, open(100), snapshot(open, Times(50, 4))},
            %% All began, but late beside what they took.
            {{generator, [~"generator_lag"]}, open(100), snapshot(open, Times(100, 5), Lags(3))},
            {{kept, [~"generator_lag"]}, open(100), snapshot(open, Times(100, 15), Lags(3))},
            {{kept, []}, open(100), snapshot(open, Times(100, 5), Lags(0.5))}
        ]
    ].

%% Each with what it says; of a load without any of it, none.
warnings(_Config) ->
    Pool = pool([#{undefined => snapshot(closed, lists:duplicate(1000, 1))}]),
    Apart = #{
        node => 'a@host',
        offset_ns => 0,
        uncertain_ns => 0,
        successes => 0,
        failures => 0,
        workers => 1,
        lost_at_ms => undefined
    },
    Interrupted = dyno_load_search:so_far(
        dyno_load_search:new(#{
            from_per_s => 10, to_per_s => 20, confidence => 0.9, precision => 0.1, limit_ns => 9
        })
    ),
    [
        begin
            Found = warnings_of(result(round_of(closed()), [Pool], More)),
            ?assertEqual(length([Parts || Parts =/= []]), length(Found), {More, Found}),
            [contains(<<Code/binary, ": ", Text/binary>>, Parts) || {Code, Text} <- Found]
        end
     || {More, Parts} <- [
            {#{}, []},
            {#{total => snapshot(closed, [1, 2])}, [~"few_operations: 2 operations"]},
            {#{total => snapshot(closed, [])}, []},
            {#{under_way => 3}, [~"unfinished: 3 operations"]},
            {
                #{
                    total => (snapshot(closed, lists:duplicate(1000, 1)))#{not_prepared := 9},
                    errors => [{~"init_worker/2: no", 9, undefined}]
                },
                [~"not_prepared: after failed operations, workers could not be prepared again 9 "]
            },
            {#{not_ended => [~"no"]}, [~"end_worker: no"]},
            {#{not_ended => [~"no", ~"no", ~"no"]}, [~"end_worker: no (and 2 more workers)"]},
            {#{notes => [{feed_ended, users}]}, [~"feed_ended: feed users"]},
            {#{notes => [{not_grown, ~"why"}]}, [~"workers_not_grown", ~"why"]},
            {#{run_queue => 5.0, nodes => [Apart]}, [~"generator_full", ~"5.0 processes"]},
            {#{run_queue => 5.0}, []},
            {#{search => Interrupted}, [~"search: the search was interrupted", ~"no rate"]},
            {
                #{search => Interrupted#{stopped := time, rate_per_s := 10}},
                [~"limit_ms", ~"not known better than from"]
            }
        ]
    ].

%% What comes of it is what a recording takes.
a_run_of_a_recording(_Config) ->
    Pool = pool([#{read => snapshot(open, [1, 2], #{lags_ms => [1]})}]),
    Parts = recorded(result(round_of(open(3)), [Pool], #{errors => [{~"no", 1, undefined}]})),
    Document = dyno_recording:new(~"test", ~"t", #{}, #{}),
    Run = maps:merge(
        #{
            status => complete,
            error => undefined,
            started_at => dyno_environment:now_utc(),
            duration_ns => 1000 * ?MS,
            repetition => 1,
            size => 1,
            labels => #{size => 1},
            nodes => []
        },
        Parts
    ),
    ?assertMatch({ok, _}, dyno_recording:validate(dyno_recording:add_run(Document, Run))).
