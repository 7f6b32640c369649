%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_loads_SUITE).
-moduledoc """
What dyno test says of loads whose answer is known: throughput of slow operations, the cause of a
stall, the highest rate, and how often a gate is right.
""".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(MS, 1_000_000).

%% A server that stands still for 300 ms of each 1.2 s. Workers rest: others need the processors.
-define(STALLS, """
-module(stalls).
-behaviour(gen_server).
-behaviour(dyno_suite).
-export([start/0, init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export([suite/0, init_run/2, init_worker/2, operation/1, end_run/1]).
start() -> {ok, _} = gen_server:start({local, stalls}, stalls, [], []), ok.
init([]) -> erlang:send_after(900, self(), stall), {ok, 0}.
handle_call(work, _From, N) -> {reply, N, N + 1}.
handle_cast(_, N) -> {noreply, N}.
handle_info(stall, N) -> timer:sleep(300), erlang:send_after(900, self(), stall), {noreply, N}.
suite() ->
    #{sizes => [100], duration_ms => 4000, warmup_ms => 300, control => false,
      patterns => ["stalls"]}.
init_run(_, _) ->
    Here = filename:dirname(code:which(?MODULE)),
    {ok, Node} = dyno_peer:start(#{name => "truth_stalls", code_paths => [Here]}),
    ok = erpc:call(Node, stalls, start, []),
    {ok, [Node], Node}.
init_worker(_, Node) -> {ok, {stalls, Node}}.
operation(Server) -> _ = gen_server:call(Server, work), timer:sleep(1), {ok, Server}.
end_run(undefined) -> ok;
end_run(Node) -> dyno_peer:stop(Node).

""").
-define(SLOW_SUITE, """
-module(slow_suite).
-behaviour(dyno_suite).
-export([suite/0, operation/1, load/2]).
suite() -> #{sizes => [10, 20], duration_ms => 2000, warmup_ms => 200}.
load(Size, _) -> #{model => open, rate_per_s => Size}.
operation(S) -> timer:sleep(500), {ok, S}.

""").

suite() ->
    [{timetrap, {minutes, 2}}].

%% In a run of all tests the processors are taken anyway, and these take them from all others.
slow() -> [{group, beside_others}, gates_are_right, a_search_has_the_limit_of_its_objective].

all() ->
    [{group, pure}, {group, real}, {group, beside_others}].

groups() ->
    [
        {pure, [parallel], [
            gates_are_right,
            intervals_hold,
            throughput_by_arrival,
            throughput_of_a_queue_that_grows,
            probes_of_a_queue_that_grows,
            what_never_ended_is_slow,
            a_search_has_the_capacity,
            a_generator_is_no_capacity,
            a_search_has_the_limit_of_its_objective,
            a_closed_load_that_stood_still
        ]},
        {real, [parallel], [slow_operations, a_stall_has_a_cause, a_closed_load]},
        {beside_others, [parallel], [slow_operations, a_stall_has_a_cause]}
    ].

init_per_group(Group, Config) -> dyno_truth:beside(Group, Config).

end_per_group(_Group, Config) -> dyno_truth:alone(Config).

%% Gates

%% Three runs a side of 16 blocks, as noisy as on a calm machine.
gates_are_right(_Config) ->
    _ = rand:seed(exsss, {27, 1, 1}),
    Judged = fun(Factor) ->
        [gate(sides(Factor, 0.015, 0.05)) || _ <- lists:seq(1, 200)]
    end,
    ?assert(count(pass, Judged(1.0)) >= 190),
    ?assert(count(fail, Judged(1.3)) >= 180),
    ?assert(count(pass, Judged(1.12)) =< 20),
    %% However noisy it is.
    Noisy = [gate(sides(1.3, 0.3, 0.5)) || _ <- lists:seq(1, 200)],
    ?assert(count(pass, Noisy) =< 10).

%% With and without a difference between runs that the blocks do not show, each end of the interval
%% holds at about 95 %.
intervals_hold(_Config) ->
    _ = rand:seed(exsss, {27, 1, 2}),
    [
        begin
            Intervals = [
                begin
                    {Olds, News} = sides(1.0, Between, Within),
                    {ok, Interval} = dyno_stats_runs:ratio(known(Olds), known(News), 0.9),
                    Interval
                end
             || _ <- lists:seq(1, 1000)
            ],
            Missed = length([x || #{low := Low, high := High} <- Intervals, Low > 1 orelse High < 1]),
            ?assert(Missed < 140, {Between, Within, Missed})
        end
     || {Between, Within} <- [{0.0, 0.1}, {0.02, 0.08}, {0.1, 0.1}]
    ].

sides(Factor, Between, Within) ->
    {[a_run(1.0, Between, Within) || _ <- [1, 2, 3]], [
        a_run(Factor, Between, Within)
     || _ <- [1, 2, 3]
    ]}.

a_run(Mean, Between, Within) ->
    Of = Mean * math:exp(Between * rand:normal()),
    Blocks = [max(0.01, Of * (1 + Within * rand:normal())) || _ <- lists:seq(1, 16)],
    {lists:sum(Blocks) / 16, Blocks}.

known(Runs) -> [{Value, dyno_stats_runs:error_of(Blocks)} || {Value, Blocks} <- Runs].

%% By the whole way: recordings, changes, the condition.
gate({Olds, News}) ->
    Changes = dyno_compare:changes({document(Olds), document(News)}, #{}),
    {ok, Condition} = dyno_compare_gate:parse("slower > 10%"),
    Failing = dyno_compare_gate:failing(Condition, Changes),
    #{result := Result} = dyno_compare_gate:verdict(Condition, Changes, Failing),
    [#{high := High}] = Changes,
    ?assert(Result =/= pass orelse High =< 1.1),
    Result.

document(Runs) ->
    Empty = dyno_recording:new(test, ~"test", #{}, #{}),
    lists:foldl(
        fun({N, {Value, Blocks}}, Document) ->
            Times = [60 * T || T <- lists:seq(1, length(Blocks))],
            dyno_recording:add_run(Document, #{
                id => integer_to_binary(N),
                size => 2,
                repetition => N,
                status => complete,
                metrics => [#{name => ~"latency.p50", value => Value * ?MS, unit => ns}],
                series => [
                    #{
                        name => ~"load.latency.p50",
                        unit => ns,
                        times_ms => Times,
                        values => [B * ?MS || B <- Blocks]
                    }
                ]
            })
        end,
        dyno_recording:put(Empty, status, complete),
        lists:enumerate(Runs)
    ).

count(What, Results) -> length([Result || Result <- Results, Result =:= What]).

%% Throughput

%% Ten a second of 500 ms are ten a second, in 3 s from a standing start.
throughput_by_arrival(_Config) ->
    Steady = recorded(3000, [{At, At + 500} || At <- lists:seq(0, 2900, 100)]),
    ?assertEqual(10.0, dyno_load_recorder:per_s(Steady, 3000 * ?MS)),
    %% Those of 2 s do not all end while anybody looks: what could end did.
    Slow = recorded(3000, [
        {At,
            case At + 2000 =< 3900 of
                true -> At + 2000;
                false -> never
            end}
     || At <- lists:seq(0, 2900, 100)
    ]),
    PerS = dyno_load_recorder:per_s(Slow, 3000 * ?MS),
    ?assert(PerS > 9.5 andalso PerS < 11.5, PerS).

%% 2,200 and 3,000 a second for a server that does 2,000.
throughput_of_a_queue_that_grows(_Config) ->
    [
        begin
            PerS = dyno_load_recorder:per_s(queue(Offered, 2000, 3000), 3000 * ?MS),
            ?assert(abs(PerS - min(Offered, 2000)) < 20, {Offered, PerS})
        end
     || Offered <- [1000, 1900, 2020, 2200, 3000]
    ],
    %% Of 450 a second for a server that does 60 all end, within 23 s; of 10 of 5 s each, too.
    PerS = dyno_load_recorder:per_s(queue(450, 60, 3000, 30_000), 3000 * ?MS),
    ?assert(abs(PerS - 60) < 1, PerS),
    Steady = recorded(3000, [{At, At + 5000} || At <- lists:seq(0, 2900, 100)]),
    ?assertEqual(10.0, dyno_load_recorder:per_s(Steady, 3000 * ?MS)).

%% Of a hundred operations of 1 to 97 ms, three more never end: p95 is the 97.85th of a hundred.
what_never_ended_is_slow(_Config) ->
    Snapshot = recorded(1000, [
        {
            N * 5,
            case N =< 97 of
                true -> N * 6;
                false -> never
            end
        }
     || N <- lists:seq(1, 100)
    ]),
    ?assertEqual(3, dyno_load_recorder:endless(Snapshot)),
    Part = #{
        name => ~"1",
        model => open,
        start_ns => 0,
        duration_ns => 1000 * ?MS,
        arrivals => 100,
        rate_per_s => 100,
        schedule => undefined,
        workers => 3,
        operations => #{},
        total => Snapshot
    },
    Outcome = fun(Text) ->
        {ok, Threshold} = dyno_threshold:parse(Text),
        dyno_load_metrics:outcome([Threshold], Part)
    end,
    %% The 95th of the hundred took 95 ms, and nobody knows the 99th.
    ?assertEqual(held, Outcome("latency.p95 < 97 ms")),
    ?assertEqual(objective, Outcome("latency.p95 < 94 ms")),
    ?assertEqual(held, Outcome("latency.p94 < 97 ms")),
    ?assertNotEqual(held, Outcome("latency.p99 < 1 min")),
    ?assertNotEqual(held, Outcome("latency.p98.5 < 1 min")),
    ?assertNotEqual(held, Outcome("latency.max < 1 min")),
    ?assertNotEqual(held, Outcome("latency.mean < 1 min")).

%% A probe of one second is too short for 2,100 a second to take 100 ms.
probes_of_a_queue_that_grows(_Config) ->
    [
        ?assertEqual(
            Grows, dyno_load_recorder:is_growing(queue(Offered, 2000, 1000), 1000 * ?MS), Offered
        )
     || {Offered, Grows} <- [{1000, false}, {1900, false}, {2040, true}, {2100, true}, {2300, true}]
    ].

%% Operations that arrive evenly and are served one after the other.
queue(Offered, Capacity, LengthMs) -> queue(Offered, Capacity, LengthMs, 1000).

queue(Offered, Capacity, LengthMs, DrainMs) ->
    {Operations, _} = lists:mapfoldl(
        fun(N, Free) ->
            At = N * 1000 / Offered,
            End = max(At, Free) + 1000 / Capacity,
            {
                {At,
                    case End < LengthMs + DrainMs of
                        true -> End;
                        false -> never
                    end},
                End
            }
        end,
        0,
        lists:seq(0, round(Offered * LengthMs / 1000) - 1)
    ),
    recorded(LengthMs, Operations).

recorded(LengthMs, Operations) ->
    Recorder = dyno_load_recorder:new(open, 0, LengthMs * ?MS),
    [
        begin
            ok = dyno_load_recorder:started(Recorder),
            End =:= never orelse
                dyno_load_recorder:success(
                    Recorder, round(At * ?MS), round(At * ?MS), round(End * ?MS)
                )
        end
     || {At, End} <- Operations
    ],
    Snapshot = dyno_load_recorder:snapshot(Recorder),
    ok = dyno_load_recorder:delete(Recorder),
    Snapshot.

%% Searches

%% Probes hold at rates below 2,000 four times of five, and above it one time of fifty.
a_search_has_the_capacity(_Config) ->
    _ = rand:seed(exsss, {27, 1, 3}),
    Found = [
        searched(
            dyno_load_search:new(#{
                from_per_s => 100,
                to_per_s => 100_000,
                confidence => 0.9,
                precision => 0.1,
                limit_ns => 1_000_000_000 * ?MS
            })
        )
     || _ <- lists:seq(1, 100)
    ],
    Has = [x || #{low_per_s := Low, high_per_s := High} <- Found, Low =< 2000, High >= 2000],
    ?assert(length(Has) >= 85, length(Has)),
    [
        ?assertMatch([{Held, Failed}] when Held > Failed, [
            {Held, Failed}
         || #{rate_per_s := R, held := Held, failed := Failed} <- Tried, R == Rate
        ])
     || #{rate_per_s := Rate, tried := Tried} <- Found
    ].

%% Above 500 a second the generator has no processor left: what the target can do is not known.
a_generator_is_no_capacity(_Config) ->
    Search = dyno_load_search:new(#{
        from_per_s => 100,
        to_per_s => 100_000,
        confidence => 0.9,
        precision => 0.1,
        limit_ns => 1_000_000_000 * ?MS
    }),
    Found = #{rate_per_s := Rate} = searched_until(Search, fun(R) -> R =< 500 end, generator),
    ?assertMatch(#{stopped := generator, high_per_s := undefined}, Found),
    Empty = dyno_load_recorder:empty(),
    Metrics = dyno_load_metrics:metrics(#{
        total => Empty, parts => [], operations => #{}, workers => 1, nodes => [], search => Found
    }),
    Run = #{id => ~"1", size => 1, status => complete, metrics => Metrics},
    Document = dyno_recording:document(#{runs => [Run], tables => []}),
    Result = fun(Text) ->
        {ok, Threshold} = dyno_threshold:parse(Text),
        [#{~"result" := Is}] = dyno_threshold:evaluate(Threshold, Document),
        Is
    end,
    ?assert(Rate > 400 andalso Rate < 600, Rate),
    ?assertEqual(~"pass", Result("load.search.rate > 300 /s")),
    ?assertEqual(~"unknown", Result("load.search.rate > 1500 /s")),
    ?assertEqual(~"fail", Result("load.search.rate < 300 /s")).

%% A server that serves 2,000 in a second exactly, arrivals by chance, and probes of 4 s: the
%% highest rate at which p99 is at most 50 ms is that at which half of the probes hold.
a_search_has_the_limit_of_its_objective(_Config) ->
    _ = rand:seed(exsss, {27, 1, 4}),
    Holds = fun(Rate) -> queue_p99(Rate, 4.0) =< 0.05 end,
    Half = [
        Rate
     || Rate <- lists:seq(1700, 2040, 20),
        length([x || _ <- lists:seq(1, 20), Holds(Rate)]) >= 10
    ],
    Limit = lists:max(Half),
    ?assert(abs(Limit - 2000) =< 40, Limit),
    Found = [
        searched(
            dyno_load_search:new(#{
                from_per_s => 500,
                to_per_s => 100_000,
                confidence => 0.9,
                precision => 0.03,
                limit_ns => 1_000_000_000 * ?MS
            }),
            Holds
        )
     || _ <- lists:seq(1, 20)
    ],
    Has = [x || #{low_per_s := Low, high_per_s := High} <- Found, Low =< Limit + 20, High >= Limit],
    ct:log("limit ~p, found ~p", [Limit, [maps:with([low_per_s, high_per_s], F) || F <- Found]]),
    ?assert(length(Has) >= 16, length(Has)).

%% Of the times that requests take in a queue with one server, which takes 500 us for each.
queue_p99(Rate, Seconds) ->
    Took = lists:sort(queue_times(round(Rate * Seconds), Rate, 0.0)),
    lists:nth(max(1, round(0.99 * length(Took))), Took).

queue_times(0, _Rate, _Waits) ->
    [];
queue_times(Left, Rate, Waits) ->
    Gap = -math:log(1 - rand:uniform()) / Rate,
    Now = max(0.0, Waits - Gap),
    [Now + 0.0005 | queue_times(Left - 1, Rate, Now + 0.0005)].

searched(Search) ->
    Chance = fun
        (Rate) when Rate =< 2000 -> 0.8;
        (_Rate) -> 0.02
    end,
    searched(Search, fun(Rate) -> rand:uniform() < Chance(Rate) end).

searched(Search, Holds) -> searched_until(Search, Holds, saturated).

searched_until(Search, Holds, Else) ->
    case dyno_load_search:next(Search) of
        {done, Result} ->
            Result;
        {probe, Rate} ->
            Outcome =
                case Holds(Rate) of
                    true -> held;
                    false -> Else
                end,
            searched_until(dyno_load_search:record(Rate, Outcome, ?MS, Search), Holds, Else)
    end.

%% Closed loads

%% Four workers, of which each waits 600 ms of 3.6 s: who comes at a rate has a p99 of 564 ms.
a_closed_load_that_stood_still(_Config) ->
    Stall = fun(At) -> [{At + N, At + 600 * ?MS + N} || N <- [0, 1, 2, 3]] end,
    Slow = Stall(3000 * ?MS) ++ Stall(6600 * ?MS) ++ [{0, 150 * ?MS}],
    Gaps = dyno_load_standstill:gaps(Slow, 4),
    ?assertEqual([600, 600], [round(Gap / ?MS) || Gap <- Gaps]),
    {ok, P99} = dyno_load_standstill:open_quantile(0.99, Gaps, 7200 * ?MS),
    ?assertEqual(564, round(P99 / ?MS)),
    %% One worker that went on, and nothing stood still.
    ?assertEqual([], dyno_load_standstill:gaps(Slow, 5)),
    ?assertEqual(none, dyno_load_standstill:open_quantile(0.99, [50 * ?MS], 7200 * ?MS)).

%% Real runs

slow_operations(Config) ->
    Arguments = ["--threshold", "throughput > 9.9 /s", "--level", "off"],
    {0, Output} = tested(Config, slow_suite, ?SLOW_SUITE, Arguments),
    ?assertEqual(nomatch, string:find(Output, "were offered")),
    ?assertEqual(nomatch, string:find(Output, "FAIL")),
    ?assertMatch({match, _}, re:run(Output, "10 +10 /s +10 /s")),
    ?assertMatch({match, _}, re:run(Output, "20 +20 /s +20 /s")).

a_stall_has_a_cause(Config) ->
    {0, Output} = tested(Config, stalls, ?STALLS, ["--rate", "100"]),
    Plain = re:replace(Output, "\\s+", " ", [global, {return, list}]),
    ?assertMatch({match, _}, re:run(Plain, "slowest 1 % of responses take [0-9.]+ ms or more")),
    Cause = "stalls waits in timer:sleep/1, called by stalls:handle_info/2",
    ?assertNotEqual(nomatch, string:find(Plain, Cause), Plain).

a_closed_load(Config) ->
    {0, Output} = tested(Config, stalls, ?STALLS, ["--workers", "4"]),
    Plain = re:replace(Output, "\\s+", " ", [global, {return, list}]),
    ?assertMatch({match, _}, re:run(Plain, "no operation ended for 3[0-9.]+ ms"), Plain),
    ?assertMatch({match, _}, re:run(Plain, "would have had a p99 of about [23][0-9.]+ ms"), Plain).

tested(Config, Suite, Source, Arguments) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Folder = filename:join(?config(priv_dir, Config), Unique),
    ok = file:make_dir(Folder),
    File = filename:join(Folder, atom_to_list(Suite) ++ ".erl"),
    ok = file:write_file(
        File, string:replace(Source, "truth_stalls", "truth_stalls_" ++ Unique)
    ),
    Recording = filename:join(Folder, "recording.json"),
    Result = {_, Output} = dyno_command:run(["test", File, "-o", Recording | Arguments]),
    ct:log("~ts", [Output]),
    Result.
