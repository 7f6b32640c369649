%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_processes_SUITE).
-moduledoc "What is known of processes of one kind, also where they come and go; who is left out.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [{group, all}].

groups() ->
    [
        {all, [parallel], [
            a_distribution_of_lives,
            lives_are_merged,
            an_estimate_is_marked,
            times_one_of_a_group_now_and_then,
            times_no_more_than_it_may,
            a_life_ends_when_it_is_noticed,
            nobody_says_what_is_called_too_often,
            how_long_short_lived_processes_live,
            leaves_its_own_out,
            counts_none_of_its_own
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

%% Pure

a_distribution_of_lives(_Config) ->
    ?assertEqual(undefined, dyno_agent_process_parts:quantile_ns(0.5, lives([]), 0)),
    Lives = lives(lists:seq(1000, 100_000, 10)),
    ?assertEqual(9901, dyno_agent_event_histogram:count(Lives)),
    lists:foreach(
        fun({Q, Exact}) ->
            Found = dyno_agent_process_parts:quantile_ns(Q, Lives, 0),
            ?assert(abs(Found - Exact) =< 0.01 * Exact, {Q, Found})
        end,
        [{0.1, 10_900}, {0.5, 50_500}, {0.9, 90_100}]
    ),
    %% If as many live on, the median is the longest of those that have ended.
    ?assert(abs(dyno_agent_process_parts:quantile_ns(0.5, Lives, 9900) - 100_000) < 1000),
    ?assertEqual(undefined, dyno_agent_process_parts:quantile_ns(0.5, Lives, 9910)).

lives_are_merged(_Config) ->
    ?assertEqual(
        lives([10, 20, 10, 1_000_000]),
        dyno_agent_event_histogram:merge(lives([10, 20]), lives([10, 1_000_000]))
    ).

%% The rows say `estimated`; the metric has what was counted as its lower bound.
an_estimate_is_marked(_Config) ->
    [#{name := ~"processes.discovered", value := Value}] = dyno_agent_process_parts:metrics(),
    Of = fun(How, All, Unseen) ->
        #{discovers => How, discovered => All, groups => [#{unseen => N} || N <- Unseen]}
    end,
    ?assertEqual({12, 1}, Value([Of(yes, 5, [0]), Of(yes, 7, [])])),
    ?assertEqual({12, 1, {at_least, 8}}, Value([Of(yes, 5, [0, 4]), Of(yes, 7, [])])),
    ?assertEqual({12, 1, {at_least, 12}}, Value([Of(yes, 5, [0]), Of(in_part, 7, [])])),
    ?assertEqual({12, 1, {at_least, 12}}, Value([Of(gave_up, 12, [])])),
    %% As thresholds and formats read it.
    Metric = dyno_recording_part:metric(~"n", ~"n", 12, ~"count", 1, ~"processes"),
    Run = dyno_recording:add_run(dyno_recording:new(weather, ~"a", #{}, #{}), #{
        id => ~"1", status => complete, metrics => [Metric#{low => 8, high => null}]
    }),
    Document = dyno_recording:put(Run, status, complete),
    Result = fun(Text) ->
        {ok, Threshold} = dyno_threshold:parse(Text),
        [#{~"result" := Is}] = dyno_threshold:evaluate(Threshold, Document),
        Is
    end,
    ?assertEqual(
        [~"fail", ~"unknown", ~"pass", ~"unknown"],
        [Result(Text) || Text <- ["n < 8", "n < 100", "n > 7", "n > 10"]]
    ),
    {ok, Console} = dyno_report:render(console, Document, #{}),
    ?assertMatch({match, _}, re:run(Console, "12 \\(8 or more\\)")),
    {ok, Csv} = dyno_report:render(csv, Document, #{}),
    ?assertMatch({match, _}, re:run(Csv, "n,low,8,count")).

lives(Times) ->
    lists:foldl(
        fun dyno_agent_event_histogram:record/2, dyno_agent_event_histogram:new(), Times
    ).

times_one_of_a_group_now_and_then(_Config) ->
    Ms = erlang:convert_time_unit(1, millisecond, native),
    {Chosen, _} = chosen([{1, 0}, {1, Ms}, {2, Ms}, {1, 10 * Ms}]),
    ?assertEqual([{1, 0}, {2, Ms}, {1, 10 * Ms}], Chosen).

%% Those that live on are still monitored: there is no place for more.
times_no_more_than_it_may(_Config) ->
    {Chosen, Full} = chosen([{Id, 0} || Id <- lists:seq(1, 3000)]),
    ?assertEqual(2000, length(Chosen)),
    ?assertNot(dyno_agent_lifetimes:is_wanted(3000, 0, Full)),
    {[Ref | _] = Refs, Empty} = dyno_agent_lifetimes:forget(Full),
    ?assertEqual(2000, length(Refs)),
    ?assertEqual(unknown, dyno_agent_lifetimes:ended(Ref, normal, 1, Empty)),
    {ok, _, Less} = dyno_agent_lifetimes:ended(Ref, normal, 1, Full),
    ?assert(dyno_agent_lifetimes:is_wanted(3000, 0, Less)).

chosen(Times) ->
    lists:foldl(
        fun({Id, Time}, {Acc, Sample}) ->
            case dyno_agent_lifetimes:is_wanted(Id, Time, Sample) of
                true ->
                    Next = dyno_agent_lifetimes:monitored(make_ref(), Id, Time, Time, Sample),
                    {Acc ++ [{Id, Time}], Next};
                false ->
                    {Acc, Sample}
            end
        end,
        {[], dyno_agent_lifetimes:new()},
        Times
    ).

%% One that had ended before it could be monitored lived for as long as it took to notice.
a_life_ends_when_it_is_noticed(_Config) ->
    Ms = erlang:convert_time_unit(1, millisecond, native),
    Ref = make_ref(),
    Sample = dyno_agent_lifetimes:monitored(Ref, 1, 0, 2 * Ms, dyno_agent_lifetimes:new()),
    ?assertMatch({ok, 9_000_000, _}, dyno_agent_lifetimes:ended(Ref, normal, 9 * Ms, Sample)),
    ?assertMatch({ok, 2_000_000, _}, dyno_agent_lifetimes:ended(Ref, noproc, 9 * Ms, Sample)).

%% A breakpoint of the discovery that stays in a loop makes it several times slower; those who find
%% out which ones these are are the functions' instrument.
nobody_says_what_is_called_too_often(_Config) ->
    Config = fun(Level, Without) ->
        dyno_agent_process_parts:config(#{
            patterns => [{m, '_', '_'}], level => Level, without => Without, interval_ms => 1000
        })
    end,
    ?assertEqual(off, Config(budget, [functions])),
    ?assertMatch(#{interval_ms := 1000}, Config(budget, [vm])),
    ?assertMatch(#{interval_ms := 1000}, Config(discovery, [functions])).

%% In a node

how_long_short_lived_processes_live(_Config) ->
    with_discovery([{dyno_kinds, work, 1}], fun(Node, Discovery) ->
        Script =
            "[begin {P, R} = spawn_monitor(dyno_kinds, live, [30]),"
            " receive {'DOWN', R, process, P, _} -> ok end end || _ <- lists:seq(1, 10)],"
            "spawn(dyno_kinds, live, [infinity]), spawn(dyno_kinds, live, [infinity]), ok.",
        ok = dyno_peers:eval(Node, Script),
        #{groups := Groups} = wait_for(12, Discovery),
        [#{discovered := 12, alive := 2, lives := Lives, sampled := Sampled}] = [
            G
         || #{group := {_, {dyno_kinds, live, 1}}} = G <- Groups
        ],
        %% Each of those that ended lived 30 ms at least, and all were born 5 ms apart or more.
        ?assertEqual(10, dyno_agent_event_histogram:count(Lives)),
        ?assert(dyno_agent_process_parts:quantile_ns(0.01, Lives, 0) >= 27_000_000),
        ?assert(Sampled >= 2),
        %% What was before does not count.
        ok = dyno_agent_instrument:restart(Discovery),
        ?assertMatch(
            [#{discovered := 2, alive := 2, sampled := 2, lives := #{count := 0}}],
            map_get(groups, dyno_agent_process_parts:result(dyno_agent_instrument:read(Discovery)))
        )
    end).

%% They call lists, maps and gen_server themselves, all the time.
%% Each look for new processes starts one.
counts_none_of_its_own(_Config) ->
    with_discovery([{dyno_kinds, '_', '_'}], fun(Node, _Discovery) ->
        Started = dyno_peers:eval(Node, """
        Caller = self(),
        spawn(fun() ->
            Before = dyno_agent_process:started_by_others(),
            [dyno_agent_process:newest() || _ <- lists:seq(1, 1000)],
            Caller ! {started, dyno_agent_process:started_by_others() - Before}
        end),
        receive {started, N} -> N end.
        """),
        ?assert(Started < 500, Started)
    end).

leaves_its_own_out(_Config) ->
    Patterns = [{M, '_', '_'} || M <- [lists, maps, gen_server, dyno_kinds]],
    with_discovery(Patterns, fun(Node, Discovery) ->
        Agent = get(agent),
        {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => Patterns, measures => [call_time], processes => Discovery
        }),
        {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_sampler, #{
            sink => self(), interval_ms => 20
        }),
        {ok, Resources} = dyno_agent:start(Agent, dyno_agent_resources, #{
            interval_ms => 20, reads => [ets, ports]
        }),
        ok = dyno_agent_instrument:restart(Counters),
        ok = dyno_agent_instrument:restart(Discovery),
        ok = dyno_peers:eval(Node, "spawn(dyno_kinds, live, [infinity]), ok."),
        ok = dyno_agent_instrument:read(Sampler),
        _ = dyno_agent_instrument:read(Resources),
        #{callers := Callers, functions := Functions} = dyno_counted:read(Counters),
        #{groups := Groups} = dyno_agent_process_parts:result(
            dyno_agent_instrument:read(Discovery)
        ),
        Found = [G || #{group := G} <- Groups],
        ?assert(lists:keymember({dyno_kinds, live, 1}, 2, Found), Found),
        ?assertEqual([], [G || G <- Found, dyno_agent_kind:is_own(G)]),
        ?assertEqual([], [G || {_, G, _, _} <- Callers, is_own(G)]),
        %% The sampler's loop is a gen_server's, and nobody else's is at work here.
        ?assertEqual([], [
            C
         || #{mfa := {gen_server, handle_msg, _} = MFA} <- Functions,
            {F, {label, _}, _, _} = C <- Callers,
            F =:= MFA
        ])
    end).

is_own(other) -> false;
is_own(Kind) -> dyno_agent_kind:is_own(Kind).

with_discovery(Patterns, Test) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        dyno_kinds = dyno_peers:load(
            Node,
            "-module(dyno_kinds). -export([live/1, work/1]). "
            "work(X) -> X. "
            "live(Ms) -> dyno_kinds:work(Ms), receive stop -> ok after Ms -> ok end."
        ),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        _ = put(agent, Agent),
        {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => Patterns, interval_ms => 60_000
        }),
        Test(Node, Discovery),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Peer)
    end.

%% First calls come as messages.
wait_for(Count, Discovery) ->
    case dyno_agent_process_parts:result(dyno_agent_instrument:read(Discovery)) of
        #{discovered := Count} = Results -> Results;
        _ -> wait_for(Count, Discovery)
    end.
