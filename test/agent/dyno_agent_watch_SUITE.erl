%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_watch_SUITE).
-moduledoc """
Which processes are followed, and what is said of what they hold and do against the truth, which the
processes tell themselves when they end.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        each_of_a_burst_counts_the_same,
        has_a_limit,
        leaves_out_the_young,
        slots_stay_few,
        what_waiting_processes_take,
        short_and_long_lives_in_one_kind,
        work_before_the_end,
        what_cannot_be_seen,
        those_that_live_on
    ].

%% Choosing. The processes have long ended: all are unseen.

%% Two every 100 ms, 10 us apart: to take the first one that comes would always be the same one.
each_of_a_burst_counts_the_same(_Config) ->
    _ = rand:seed(exsss, 3),
    Births = [
        {Which, native(100_000 * Pair + After)}
     || Pair <- lists:seq(1, 3000), {Which, After} <- [{1, 0}, {2, 10}]
    ],
    Watch = choose(Births, dyno_agent_watch:new(0)),
    %% The weights of both are those of all births.
    {First, Second} = {weight(1, Watch), weight(2, Watch)},
    ?assert(abs(First + Second - 6000) < 10, {First, Second}),
    ?assert(abs(First - Second) < 300, {First, Second}),
    ok = dyno_agent_watch:stop(Watch).

choose(Births, Watch) ->
    Dead = dead(),
    lists:foldl(
        fun({Which, Time}, Acc) ->
            case dyno_agent_watch:chosen(7, Time, Acc) of
                {true, Next} ->
                    Started = dyno_agent_watch:watch(Dead, 7, Time, undefined, Next),
                    receive
                        {dyno_watched, Watcher, Dead, _, {unseen, _}} ->
                            Result = {0, {unseen, 0}},
                            dyno_agent_watch:watched(Watcher, Result, Which, Started)
                    end;
                {false, Next} ->
                    Next
            end
        end,
        Watch,
        Births
    ).

weight(Kind, Watch) ->
    #{Kind := #{slots := Slots}} = dyno_agent_watch:figures(native(600_000_000), Watch),
    lists:sum([W || #{weight := W} <- Slots]).

%% However many are born and live on: no more than that are watched.
has_a_limit(_Config) ->
    Living = spawn(fun() -> receive stop -> ok end end),
    Watch = lists:foldl(
        fun(N, Acc) ->
            case dyno_agent_watch:chosen(N, native(N), Acc) of
                {true, Next} -> dyno_agent_watch:watch(Living, N, native(N), undefined, Next);
                {false, Next} -> Next
            end
        end,
        dyno_agent_watch:new(0),
        lists:seq(1, 1000)
    ),
    {monitored_by, Watchers} = wait(fun() ->
        {monitored_by, L} = process_info(Living, monitored_by),
        length(L) >= 32 andalso {monitored_by, L}
    end),
    ?assertEqual(32, length(Watchers)),
    ok = dyno_agent_watch:stop(Watch),
    [] = wait(fun() -> process_info(Living, monitored_by) =:= {monitored_by, []} andalso [] end),
    Living ! stop.

wait(Test) ->
    case Test() of
        false ->
            timer:sleep(10),
            wait(Test);
        Done ->
            Done
    end.

%% Where lives take 2 s, of those born in the last two seconds only some can have ended.
leaves_out_the_young(_Config) ->
    Watch = lists:foldl(
        fun(Ms, Acc) -> lived(Ms, 2000, Acc) end,
        dyno_agent_watch:new(0),
        lists:seq(0, 9900, 100)
    ),
    #{1 := #{slots := Slots}} = dyno_agent_watch:figures(native(10_000_000), Watch),
    Count = lists:sum([N || #{processes := N} <- Slots]),
    ?assert(Count >= 78 andalso Count =< 81, Count),
    ok = dyno_agent_watch:stop(Watch).

slots_stay_few(_Config) ->
    Watch = lists:foldl(
        fun(S, Acc) -> lived(S * 1000, 10, Acc) end, dyno_agent_watch:new(0), lists:seq(1, 3600)
    ),
    #{1 := #{slots := Slots}} = dyno_agent_watch:figures(native(3_700_000_000), Watch),
    ?assert(length(Slots) =< 64, length(Slots)),
    ?assertEqual(3600, lists:sum([N || #{processes := N} <- Slots])),
    ok = dyno_agent_watch:stop(Watch).

lived(BornMs, LifeMs, Watch) ->
    {true, Next} = dyno_agent_watch:chosen(1, native(BornMs * 1000), Watch),
    Dead = dead(),
    Started = dyno_agent_watch:watch(Dead, 1, native(BornMs * 1000), undefined, Next),
    receive
        {dyno_watched, Watcher, Dead, Awake, _} ->
            Result = {unseen, LifeMs * 1_000_000},
            dyno_agent_watch:watched(Watcher, {Awake, Result}, unknown, Started)
    end.

dead() ->
    {Pid, Ref} = spawn_monitor(fun() -> ok end),
    receive
        {'DOWN', Ref, process, Pid, _} -> Pid
    end.

native(Us) -> erlang:convert_time_unit(Us, microsecond, native).

%% Against the truth, in a node. 25 a second for 6 seconds.

what_waiting_processes_take(_Config) ->
    {#{state := measured} = Figures, Truth} = measure("[{wait, 50, 5000, 3000000}]"),
    compare(Figures, Truth, 0.7).

%% Memory goes by time, reductions by process: a sample of those that live at some instant would
%% have the long ones nearly ten times as often, and take them to do a fifth of what they do.
short_and_long_lives_in_one_kind(_Config) ->
    Kinds = "[{wait, 20, 100, 4000000}, {wait, 200, 20000, 100000}]",
    {#{state := measured} = Figures, Truth} = measure(Kinds),
    compare(Figures, Truth, 0.25).

%% 10 ms of work at the end of 40: most of it comes after the last exact reading.
work_before_the_end(_Config) ->
    {#{state := measured, reductions := {_, Low, High}}, {_, Did}} =
        measure("[{work, 40, 100, 3000000}]"),
    ?assert(Low =< Did andalso Did =< High, {Low, Did, High}).

%% They have ended before anybody hears of them: that is what is said.
what_cannot_be_seen(_Config) ->
    {Figures, _} = measure("[{wait, 0, 10, 100}]"),
    ?assertMatch(#{state := too_short, memory := undefined, reductions := undefined}, Figures).

those_that_live_on(_Config) ->
    {Figures, _} = measure("[{wait, 60000, 10, 100}]"),
    ?assertMatch(#{state := too_long, memory := undefined, reductions := undefined}, Figures).

%% Where others take the processors the reductions' interval may be too wide for a value, and its
%% upper end anything: how wide it is in quiet, dyno_test_watched_SUITE tells.
compare(#{memory := Memory} = Figures, {TrueBytes, TrueReductions}, Part) ->
    #{reductions := {_, Least, Most}} = Figures,
    {Bytes, Low, High} = Memory,
    ?assert(abs(Bytes / TrueBytes - 1) < 0.25, {Bytes, TrueBytes}),
    %% One interval in twenty misses, by a little.
    ?assert(Low =< 1.1 * TrueBytes andalso 0.9 * TrueBytes =< High, {Memory, TrueBytes}),
    ?assert(Least =< TrueReductions, {Least, TrueReductions}),
    ?assert(Least > Part * TrueReductions, {Least, TrueReductions}),
    ?assert(Most >= TrueReductions, {Most, TrueReductions}).

%% The kinds come by turns. What they tell of themselves when they end: bytes by time, reductions.
measure(Kinds) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        dyno_lives = dyno_peers:load(Node, source()),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => [{dyno_lives, mark, 1}], interval_ms => 1000
        }),
        ok = dyno_agent_processes:restart(Discovery),
        {Count, Did, Bytes, Time} = dyno_peers:eval(
            Node, "dyno_lives:many(" ++ Kinds ++ ", 150, 40)."
        ),
        #{groups := Groups} = dyno_agent_processes:read(Discovery),
        ok = dyno_agent:detach(Agent),
        %% Where all had ended before they could be asked, it is the call that names the kind.
        [Watched] = [W || #{group := {_, {dyno_lives, _, _}}, watched := W} <- Groups],
        {dyno_test_watched:figures(Watched), {Bytes / max(1, Time), Did / max(1, Count)}}
    after
        dyno_peers:stop(Peer)
    end.

source() ->
    "-module(dyno_lives). -export([mark/1, life/4, many/3]). "
    "mark(X) -> X. "
    "many(Kinds, Count, Ms) -> "
    "  C = counters:new(4, []), persistent_term:put(dyno_lives, C), "
    "  [begin {How, Life, Words, Work} = lists:nth(1 + N rem length(Kinds), Kinds), "
    "   spawn(dyno_lives, life, [How, Life, Words, Work]), receive after Ms -> ok end end "
    "   || N <- lists:seq(1, Count)], "
    "  list_to_tuple([counters:get(C, I) || I <- [1, 2, 3, 4]]). "
    "life(How, Ms, Words, Work) -> "
    "  Began = erlang:monotonic_time(microsecond), mark(1), Held = lists:seq(1, Words), "
    "  act(How, Ms, Work), "
    "  [{reductions, R}, {memory, M}] = process_info(self(), [reductions, memory]), "
    "  Us = erlang:monotonic_time(microsecond) - Began, "
    "  [counters:add(persistent_term:get(dyno_lives), I, V) "
    "   || {I, V} <- [{1, 1}, {2, R}, {3, M * Us}, {4, Us}]], "
    "  length(Held). "
    "act(wait, Ms, Work) -> burn(Work), pause(Ms); "
    "act(work, Ms, Work) -> pause(Ms), burn(Work). "
    "pause(0) -> ok; "
    "pause(Ms) -> receive never -> ok after Ms -> ok end. "
    "burn(0) -> ok; "
    "burn(N) -> burn(N - 1). ".
