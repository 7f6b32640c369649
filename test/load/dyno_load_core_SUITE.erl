%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_core_SUITE).
-moduledoc """
What a load does next, with a clock of its own: pools, timers and the caller are played here, so
that hours take no time and every order of events can be had.
""".

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

-define(MS, 1_000_000).

suite() ->
    [{timetrap, {minutes, 1}}].

all() -> [{group, all}].

groups() ->
    [
        {all, [parallel], [
            phases_in_their_order,
            a_search_in_its_order,
            every_load_ends,
            intervals_follow_each_other,
            the_end_is_told_before,
            a_load_ends_early_with_nothing_left,
            an_open_load_does_not_end_early,
            operations_that_hang,
            operations_that_are_awaited,
            workers_that_are_not_ready,
            workers_that_cannot_end,
            the_local_pool_is_lost,
            a_load_node_is_lost,
            a_load_node_is_lost_in_a_search,
            nobody_waits_for_a_lost_load_node,
            the_last_load_node_is_lost,
            a_pool_fails,
            an_interrupt,
            an_interrupted_search,
            what_comes_too_late_changes_nothing,
            rounds_are_on_each_node_s_clock
        ]}
    ].

%% The world around the core

-doc """
Plays a load to its end: gives the events that the caller was told with their times, the phases, and
the answers. `pools`: how many milliseconds each takes to prepare its workers, to go through a round
after the round's end (before it, where that is negative), and to close, or never. `lose` and
`interrupt`: a pool that goes down, and the caller's question for the result, in a phase.
""".
play(Load, World) ->
    Core = dyno_load_core:new(options(Load, World)),
    Default = #{pools => [#{}], lose => none, interrupt => none, offsets_ns => [], extra => []},
    #{pools := Pools} = Played = maps:merge(Default, World),
    Started = [
        {Id, #{
            node => node_of(Id, Pools),
            place => place(Pools),
            offset_ns => Id * 1000,
            uncertain_ns => 10
        }}
     || {Id, _} <- lists:enumerate(Pools)
    ],
    World0 = #{
        core => Core,
        now => 0,
        %% {At, Event}, and the timers by name.
        queue => [{0, {started, Started}} | map_get(extra, Played)],
        timers => #{},
        pools => maps:from_list(lists:enumerate(Pools)),
        lose => map_get(lose, Played),
        interrupt => map_get(interrupt, Played),
        rate_limit => maps:get(rate_limit, Played, 500),
        round => [],
        rounds => [],
        phases => [preparing],
        told => [],
        replies => []
    },
    Ready = [{Ms, {pool, Id, ready}} || {Id, Ms} <- each(prepare_ms, 1, Pools)],
    go_on(later(Ready, World0), 20_000).

options(Load, World) ->
    {ok, Read} = dyno_load_spec:read(Load, 1),
    maps:merge(
        #{
            sink => self(),
            module => ?MODULE,
            run_state => none,
            load => Read,
            duration_ms => 1000,
            warmup_ms => 200,
            interval_ms => 100,
            timeout_ms => 5000,
            operations => undefined,
            seed => 1
        },
        maps:get(options, World, #{})
    ).

node_of(Id, [_, _ | _]) -> list_to_atom("load" ++ integer_to_list(Id) ++ "@host");
node_of(_Id, [_]) -> node().

place([_, _ | _]) -> remote;
place([_]) -> local.

each(Key, Default, Pools) ->
    [
        {Id, Ms}
     || {Id, Pool} <- lists:enumerate(Pools),
        Ms <- [maps:get(Key, Pool, Default)],
        Ms =/= never
    ].

later(Events, #{now := Now, queue := Queue} = World) ->
    World#{queue := Queue ++ [{Now + Ms * ?MS, Event} || {Ms, Event} <- Events]}.

go_on(World, 0) ->
    summary(World#{phases := [endless | map_get(phases, World)]});
go_on(#{queue := Queue, timers := Timers} = World, Steps) ->
    case lists:keysort(1, Queue ++ [{At, {fires, Timer}} || Timer := At <- Timers]) of
        [] ->
            summary(World);
        [{At, {fires, Timer}} | _] ->
            Fired = World#{timers := maps:remove(Timer, Timers), now := At},
            go_on(happen({timeout, Timer}, Fired), Steps - 1);
        [{At, Event} = Next | _] ->
            go_on(happen(Event, World#{queue := Queue -- [Next], now := At}), Steps - 1)
    end.

happen(Event, #{core := Core, now := Now, phases := Phases} = World) ->
    {Next, Effects} = dyno_load_core:event(Event, Now, Core),
    Phase = dyno_load_core:phase(Next),
    Done = lists:foldl(fun effect/2, World#{core := Next}, Effects),
    case Phases of
        [Phase | _] -> Done;
        _ -> entered(Phase, Done#{phases := [Phase | Phases]})
    end.

entered(Phase, World) ->
    strike(lose, Phase, fun(What) -> What end, strike(interrupt, Phase, fun ask/1, World)).

ask(_) -> {result, caller}.

%% The first time that the phase is there.
strike(Key, Phase, Event, World) ->
    case World of
        #{Key := {Phase, What}} -> later([{1, Event(What)}], World#{Key := none});
        #{} -> World
    end.

effect({tell, warm = Event}, World) ->
    later([{5, measure}], told(Event, World));
effect({tell, {finished, _} = Event}, World) ->
    later([{5, close}], told(Event, World));
effect({tell, Event}, World) ->
    told(Event, World);
effect({reply, From, Result}, #{replies := Replies} = World) ->
    World#{replies := [{From, Result} | Replies]};
effect({timer, Timer, At}, #{timers := Timers} = World) ->
    World#{timers := Timers#{Timer => At}};
effect({round, Id, Number, Round}, #{rounds := Rounds, pools := Pools, now := Now} = World) ->
    {_, _, Finish} = lists:last(Round),
    Done =
        case maps:get(after_round_ms, map_get(Id, Pools), 1) of
            never -> [];
            Ms -> [{max(0, (Finish - Id * 1000 - Now) div ?MS + Ms), {pool, Id, {done, Number}}}]
        end,
    later(Done, World#{round := [Part || {Part, _, _} <- Round], rounds := [{Id, Round} | Rounds]});
effect({snapshot, Id, Ref}, #{pools := Pools} = World) ->
    case maps:get(snapshot_ms, map_get(Id, Pools), 1) of
        never -> World;
        Ms -> later([{Ms, {pool, Id, {snapshot, Ref, snapshot(Id, World)}}}], World)
    end;
effect({close, Id}, #{pools := Pools} = World) ->
    case maps:get(close_ms, map_get(Id, Pools), 1) of
        never -> World;
        Ms -> later([{Ms, {pool, Id, closed}}], World)
    end;
effect(stop, #{queue := _} = World) ->
    World#{queue := [], timers := #{}}.

told(Event, #{told := Told, now := Now} = World) ->
    World#{told := [{Now, Event} | Told]}.

%% A target that takes so many operations a second, shared by the pools.
snapshot(Id, #{round := Round, rate_limit := Limit, pools := Pools} = World) ->
    #{Id := Pool} = Pools,
    Count = map_size(Pools),
    #{
        parts => [
            #{undefined => operations(min(rate(Part), Limit) * seconds(Part) / Count)}
         || Part <- Round
        ],
        errors => [],
        arrivals => [undefined || _ <- Round],
        workers => 3,
        ready => ready(Pool, World),
        under_way => maps:get(under_way, Pool, 0),
        ending => maps:get(ending, Pool, 0),
        run_queue => 0.0
    }.

ready(#{prepare_ms := never}, _World) -> 0;
ready(_Pool, _World) -> 3.

rate(#{rate_per_s := Rate}) -> Rate;
rate(_Part) -> 100.

seconds(#{duration_ns := Ns}) -> Ns / 1.0e9.

operations(Number) ->
    N = round(Number),
    (dyno_load_recorder:empty())#{successes := N, in_time := N, started := N}.

summary(#{phases := Phases, told := Told, replies := Replies, rounds := Rounds, now := Now}) ->
    #{
        phases => lists:reverse(Phases),
        told => lists:reverse(Told),
        events => [Event || {_, Event} <- lists:reverse(Told)],
        replies => Replies,
        rounds => lists:reverse(Rounds),
        ended_ms => Now div ?MS
    }.

closed() -> #{model => closed, workers => 3}.

open(Rate) -> #{model => open, rate_per_s => Rate, workers => 3}.

search() -> search(#{}).

search(More) ->
    maps:merge(
        #{
            model => search,
            objective => "errors.rate < 50 %",
            from_per_s => 100,
            probe_ms => 100,
            precision => 0.5
        },
        More
    ).

names(Events) ->
    [
        case Event of
            _ when is_atom(Event) -> Event;
            _ -> element(1, Event)
        end
     || Event <- Events
    ].

result(#{events := Events}) ->
    {ended, Result} = lists:last(Events),
    Result.

failure(#{events := Events}) ->
    {failed, Error} = lists:last(Events),
    unicode:characters_to_binary(dyno_error:format(Error)).

%% Phases

phases_in_their_order(_Config) ->
    Phases = [preparing, warming, warm, measuring, draining, finished, closing, ended],
    [
        begin
            #{phases := Gone, events := Events} = play(Load, #{}),
            ?assertEqual(Phases, Gone),
            ?assertEqual(
                [warm, started, interval, ending, finished, ended], lists:uniq(names(Events))
            )
        end
     || Load <- [closed(), open(100), #{model => phases, phases => [closed(), open(5)]}]
    ],
    #{phases := Without} = play(closed(), #{options => #{warmup_ms => 0}}),
    ?assertEqual(Phases -- [warming], Without).

a_search_in_its_order(_Config) ->
    #{phases := Phases, events := Events} = Played = play(search(), #{}),
    ?assertMatch([preparing, warming, warm, probing, judging, probing | _], Phases),
    {Probes, [finished, closing, ended]} = lists:split(length(Phases) - 3, Phases),
    Judged = length([P || P <- Probes, P =:= judging]),
    ?assertEqual(Judged, length([P || P <- Probes, P =:= probing])),
    %% Each probe is an interval, with the rate that was tried.
    Offered = [Rate || {interval, #{offered_per_s := Rate}} <- Events],
    ?assertEqual(Judged, length(Offered)),
    #{search := #{rate_per_s := Found, high_per_s := High, stopped := saturated}} = result(Played),
    %% Of what is due 1 in 100 may be missing.
    ?assert(Found =< 506 andalso High > 500, {Found, High}),
    ?assert(lists:member(float(Found), Offered)).

%% Whatever the pools do, and whoever is lost when: the load ends, or says why it failed; what the
%% caller is told comes in order, and nothing comes after the end.
every_load_ends(_Config) ->
    Pool = ?LET(
        {Prepare, Round, Close, Snapshot},
        {
            time([never, 1, 50]),
            time([never, -300, 1, 900]),
            time([never, 1, 50]),
            proper_types:oneof([1, 20, 300])
        },
        #{
            prepare_ms => Prepare,
            after_round_ms => Round,
            close_ms => Close,
            snapshot_ms => Snapshot
        }
    ),
    Phase = proper_types:oneof([
        preparing, warming, warm, measuring, draining, probing, judging, finished, closing
    ]),
    Reason = proper_types:oneof([noconnection, normal, badarg]),
    Lose = proper_types:oneof([
        none,
        ?LET({P, Id, R}, {Phase, proper_types:integer(1, 3), Reason}, {P, {down, Id, R}})
    ]),
    Interrupt = proper_types:oneof([none, ?LET(P, Phase, {P, ask})]),
    Load = proper_types:oneof([
        closed(),
        open(50),
        search(),
        (closed())#{iterations => 10},
        #{model => phases, phases => [closed(), open(5)]}
    ]),
    dyno_property:holds(
        ?FORALL(
            {L, Pools, Lost, Interrupted},
            {
                Load,
                ?LET(
                    {First, Others},
                    {Pool, proper_types:resize(2, proper_types:list(Pool))},
                    [First | Others]
                ),
                Lose,
                Interrupt
            },
            begin
                World = #{pools => Pools, lose => Lost, interrupt => Interrupted},
                Played = play(L, World),
                ?WHENFAIL(ct:pal("~tp", [Played]), is_sound(Played))
            end
        ),
        1500
    ).

%% A time, mostly a short one.
time([Never | Times]) ->
    proper_types:frequency([{1, Never}, {4, proper_types:oneof(Times)}]).

is_sound(#{phases := Phases, events := Events, replies := Replies}) ->
    Last = lists:last(Phases),
    Names = names(Events),
    lists:member(Last, [ended, failed]) andalso
        lists:last(Names) =:= Last andalso
        follows(
            lists:uniq(lists:droplast(Names)) -- [ending], [warm, started, interval, finished]
        ) andalso
        length([told || ending <- Names]) =< 1 andalso
        lists:all(fun({_, Reply}) -> Reply =:= none orelse is_map(Reply) end, Replies) andalso
        all_steps_allowed(Phases).

%% The one list is the beginning of the other, but for intervals that there may not be.
follows([], _) -> true;
follows([Name | Names], [Name | Order]) -> follows(Names, Order);
follows(Names, [interval | Order]) -> follows(Names, Order);
follows(_, _) -> false.

all_steps_allowed(Phases) ->
    Steps = #{
        preparing => [warming, warm],
        warming => [warm],
        warm => [measuring, probing],
        measuring => [draining],
        draining => [finished],
        probing => [judging],
        judging => [probing, finished],
        finished => [closing],
        closing => [ended]
    },
    lists:all(
        fun({From, To}) -> lists:member(To, [failed | map_get(From, Steps)]) end,
        lists:zip(lists:droplast(Phases), tl(Phases))
    ).

%% Intervals

%% A second in ten intervals, each with its rate, the last one at the end.
intervals_follow_each_other(_Config) ->
    #{told := Told} = Played = play(open(100), #{}),
    Intervals = [I || {_, {interval, I}} <- Told],
    ?assertEqual(lists:seq(100, 1000, 100), [T || #{time_ms := T} <- Intervals]),
    ?assert(lists:all(fun(#{offered_per_s := R}) -> abs(R - 100) < 0.01 end, Intervals)),
    ?assertMatch(#{duration_ns := 1_000_000_000, parts := [#{arrivals := 100}]}, result(Played)),
    [{finished, 1_000_000_000}] = [Event || {_, {finished, _} = Event} <- Told].

%% The caller is told a moment before, so that it can look once more; of what ends early, at once.
the_end_is_told_before(_Config) ->
    Told = fun(Load, World) ->
        #{told := Told} = play(Load, World),
        [{AtNs, Begun}] = [{At, Ends} || {At, {ending, Ends}} <- Told],
        {(Begun - AtNs) div ?MS, [N || {At, {N, _}} <- Told, N =:= finished, At < AtNs]}
    end,
    ?assertEqual({50, []}, Told(open(100), #{})),
    ?assertEqual({20, []}, Told(closed(), #{options => #{duration_ms => 200}})),
    ?assertEqual({0, []}, Told(closed(), #{pools => [#{after_round_ms => -700}]})).

a_load_ends_early_with_nothing_left(_Config) ->
    Early = [#{after_round_ms => -700}],
    #{ended_ms := EndedMs} = Played = play(closed(), #{pools => Early}),
    ?assert(EndedMs < 600),
    #{duration_ns := DurationNs} = result(Played),
    ?assert(abs(DurationNs - 300 * ?MS) < 10 * ?MS),
    %% An open load only where a feed has no more items.
    FeedEnded = [{200 * ?MS, {pool, 1, {feed_ended, users}}}],
    Fed = play(open(10), #{pools => Early, extra => FeedEnded}),
    ?assertMatch(#{notes := [{feed_ended, users}]}, result(Fed)),
    ?assert(map_get(ended_ms, Fed) < 1000).

an_open_load_does_not_end_early(_Config) ->
    Played = play(open(10), #{pools => [#{after_round_ms => -100}]}),
    ?assertMatch(#{duration_ns := 1_000_000_000}, result(Played)).

%% Time-outs

%% The warm-up, and the measured part, wait a second for operations that do not end.
operations_that_hang(_Config) ->
    #{phases := Phases, told := Told} = play(closed(), #{pools => [#{after_round_ms => never}]}),
    ?assertEqual(
        [preparing, warming, warm, measuring, draining, finished, closing, ended], Phases
    ),
    [WarmMs, StartedMs, FinishedMs] = [
        At div ?MS
     || {At, Event} <- Told, lists:member(hd(names([Event])), [warm, started, finished])
    ],
    ?assertEqual(1206, WarmMs),
    ?assertEqual(2010, FinishedMs - StartedMs + 5).

%% Who waits is told for how long, unless all end soon.
operations_that_are_awaited(_Config) ->
    Waiting = fun(Pool) ->
        #{told := Told} = play(closed(), #{pools => [Pool]}),
        [{At div ?MS, What} || {At, {waiting, What}} <- Told]
    end,
    #{ended_ms := EndedMs} = play(closed(), #{pools => [#{close_ms => never, under_way => 3}]}),
    ?assertEqual([{EndedMs - 4000, {3, 5000}}], Waiting(#{close_ms => never, under_way => 3})),
    ?assertEqual([], Waiting(#{close_ms => never, ending => 2})),
    ?assertEqual([], Waiting(#{close_ms => 500, under_way => 3})).

workers_that_are_not_ready(_Config) ->
    Played = play(closed(), #{pools => [#{}, #{prepare_ms => never}]}),
    ?assertEqual([preparing, failed], map_get(phases, Played)),
    ?assertEqual(5001, map_get(ended_ms, Played)),
    contains(failure(Played), [~"3 of 3 workers", ~"after 5 s", ~"timeout_ms"]).

workers_that_cannot_end(_Config) ->
    Played = play(closed(), #{pools => [#{close_ms => never, ending => 2}]}),
    #{not_ended := [Text]} = result(Played),
    contains(Text, [~"end_worker/1", ~"in 2 workers after 5 s"]).

contains(Text, Parts) ->
    [?assertNotEqual(nomatch, binary:match(Text, Part), Text) || Part <- Parts].

%% Losses

-define(BEFORE, [preparing, warming, warm]).
-define(SINCE, [measuring, draining, finished, closing]).

lose(Phase, Load, Count, Reason) ->
    Slow = #{after_round_ms => 10, prepare_ms => 10, close_ms => 10},
    play(Load, #{
        pools => lists:duplicate(Count, Slow),
        lose => {Phase, {down, 1, Reason}},
        %% What is there from the first moment on.
        extra => [{1, {down, 1, Reason}} || Phase =:= preparing]
    }).

the_local_pool_is_lost(_Config) ->
    [
        contains(failure(lose(Phase, closed(), 1, killed)), [~"a worker of", ~"killed"])
     || Phase <- ?BEFORE ++ ?SINCE
    ].

a_load_node_is_lost(_Config) ->
    [
        contains(failure(lose(Phase, closed(), 3, noconnection)), [
            ~"load node load1@host went down before the measured part"
        ])
     || Phase <- ?BEFORE
    ],
    [
        begin
            Result = result(lose(Phase, closed(), 3, noconnection)),
            #{nodes := Nodes, duration_ns := 1_000_000_000} = Result,
            [#{node := 'load1@host'}] = [N || #{lost_at_ms := At} = N <- Nodes, At =/= undefined],
            ?assertEqual(3, length(Nodes)),
            ?assertMatch(
                [{~"load_node_lost", _}],
                [W || {~"load_node_lost", _} = W <- dyno_load_verdict:warnings(Result)]
            )
        end
     || Phase <- ?SINCE
    ].

%% What it did in earlier probes is none of the later ones', in which two thirds of the load begin:
%% no rate is kept from then on.
a_load_node_is_lost_in_a_search(_Config) ->
    [
        begin
            Load = search(#{from_per_s => 400, probe_ms => 1000}),
            #{search := #{rate_per_s := Rate}, nodes := Nodes} =
                result(lose(Phase, Load, 3, noconnection)),
            ?assertEqual(Phase =:= finished orelse Phase =:= closing, Rate > 0, {Phase, Rate}),
            ?assertEqual(1, length([N || #{lost_at_ms := At} = N <- Nodes, At =/= undefined]))
        end
     || Phase <- [probing, judging, finished, closing]
    ].

%% It was the last one that was not through: the next phase begins at once, and not when the timer
%% fires.
nobody_waits_for_a_lost_load_node(_Config) ->
    [
        begin
            #{phases := Phases, ended_ms := EndedMs} = play(closed(), #{
                options => #{warmup_ms => 0},
                pools => [Hanging, #{}],
                lose => {Phase, {down, 1, noconnection}}
            }),
            ?assertEqual(ended, lists:last(Phases)),
            ?assert(EndedMs < 1500, {Phase, EndedMs})
        end
     || {Phase, Hanging} <- [
            {draining, #{after_round_ms => never}},
            {closing, #{close_ms => never}}
        ]
    ].

the_last_load_node_is_lost(_Config) ->
    [
        begin
            Both = play(closed(), #{
                pools => [#{after_round_ms => 10}, #{after_round_ms => 10}],
                lose => {Phase, {down, 1, noconnection}},
                extra => [{700 * ?MS, {down, 2, noconnection}}]
            }),
            contains(failure(Both), [~"load node load", ~"no other is left"])
        end
     || Phase <- [measuring]
    ].

a_pool_fails(_Config) ->
    [
        contains(failure(lose(Phase, closed(), 2, {badarg, here})), [
            ~"the generator failed in load node load1@host", ~"badarg"
        ])
     || Phase <- ?BEFORE ++ ?SINCE
    ].

%% Interrupts

%% Before the measured part there is no result; in it, one without its unfinished parts; after it,
%% the whole.
an_interrupt(_Config) ->
    Reply = fun(Phase) ->
        Slow = #{after_round_ms => 10, prepare_ms => 10, close_ms => 10},
        World = #{pools => [Slow, Slow], interrupt => {Phase, ask}},
        #{replies := [{caller, Result}]} = play(open(100), World),
        Result
    end,
    [?assertEqual(none, Reply(Phase)) || Phase <- [warming, warm]],
    [
        ?assertMatch(#{parts := [], total := #{started := 100}, nodes := [_, _]}, Reply(Phase))
     || Phase <- [measuring, draining]
    ],
    [?assertMatch(#{parts := [#{arrivals := 100}]}, Reply(Phase)) || Phase <- [finished, closing]].

an_interrupted_search(_Config) ->
    #{replies := [{caller, none}]} = play(search(), #{interrupt => {probing, ask}}),
    #{replies := [{caller, Result}]} = play(search(), #{
        interrupt => {never, ask}, extra => [{500 * ?MS, {result, caller}}]
    }),
    ?assertMatch(
        #{search := #{stopped := interrupted, tried := [#{rate_per_s := 100} | _]}, workers := 3},
        Result
    ).

what_comes_too_late_changes_nothing(_Config) ->
    #{events := Expected} = play(closed(), #{}),
    Late = [
        {At * ?MS, Event}
     || At <- [230, 700],
        Event <- [
            {started, []},
            close,
            {timeout, close},
            {timeout, prepare},
            {timeout, grace},
            {pool, 1, closed},
            {pool, 1, {snapshot, 99, none}},
            {pool, 7, {done, 1}},
            %% An operation of the warm-up that took long.
            {pool, 1, {done, 1}},
            {down, 7, noconnection}
        ]
    ],
    #{events := Events} = play(closed(), #{extra => Late}),
    ?assertEqual(names(Expected), names(Events)).

rounds_are_on_each_node_s_clock(_Config) ->
    #{rounds := Rounds} = play(closed(), #{pools => [#{}, #{}]}),
    [{1, [{_, From1, To1}]}, {2, [{_, From2, To2}]} | _] = Rounds,
    ?assertEqual({1000, 1000}, {From2 - From1, To2 - To1}).
