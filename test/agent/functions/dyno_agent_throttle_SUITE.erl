%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_throttle_SUITE).
-moduledoc "Processes of a kind that comes often are discovered without a message of each.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(MFA, {dyno_quick, begun, 1}).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [{group, pure}, {group, node}].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

groups() ->
    [
        {pure, [parallel], [
            presumes_one_group,
            asks_one_of_twenty,
            throttles_a_thousand_in_a_second,
            subscribes_again_where_processes_are_rare,
            estimates_by_numbers,
            throttles_earlier_where_messages_cost_too_much,
            subscribes_again_to_a_new_module
        ]},
        {node, [parallel], [
            discovers_all_without_their_messages,
            notices_another_kind
        ]}
    ].

%% Pure

presumes_one_group(_Config) ->
    ?assertMatch({ask, _}, first_call(0, dyno_agent_throttle:new())),
    ?assertMatch({ask, _}, first_call(0, learned(19))),
    ?assertMatch({presume, 7, _}, first_call(0, learned(21))).

asks_one_of_twenty(_Config) ->
    {Asked, _} = lists:foldl(
        fun(N, {Acc, Throttle}) ->
            case first_call(N, Throttle) of
                {ask, T} -> {Acc + 1, dyno_agent_throttle:learn(?MFA, gone, 7, T)};
                {presume, 7, T} -> {Acc, T}
            end
        end,
        {0, learned(20)},
        lists:seq(1, 200)
    ),
    ?assertEqual(10, Asked).

throttles_a_thousand_in_a_second(_Config) ->
    %% Those that are asked do not count.
    Two = [N div 2 || N <- lists:seq(1, 3000)],
    ?assertMatch([Ms] when Ms > 500 andalso Ms < 600, throttled_at(Two)),
    ?assertEqual([], throttled_at(lists:seq(1, 5000))),
    %% A burst after rare ones.
    Rare = [N * 10 || N <- lists:seq(1, 500)],
    ?assertMatch([9000], throttled_at(Rare ++ lists:duplicate(2000, 9000))).

%% At which of these times, in milliseconds, a function is throttled.
throttled_at(TimesMs) ->
    {Found, _} = lists:foldl(
        fun(Ms, {Acc, Throttle}) ->
            case first_call(Ms, Throttle) of
                {ask, T} -> {Acc, dyno_agent_throttle:learn(?MFA, gone, 7, T)};
                {presume, 7, T} -> {Acc, T};
                {throttle, 7, T} -> {[Ms | Acc], T}
            end
        end,
        {[], dyno_agent_throttle:limit(1000, learned(50))},
        TimesMs
    ),
    lists:reverse(Found).

subscribes_again_where_processes_are_rare(_Config) ->
    Throttle = throttled(),
    ?assertEqual(#{?MFA => 7}, dyno_agent_throttle:throttled(Throttle)),
    %% Five in a window of ten that is a second after the last one, by numbers that are 1,000
    %% further.
    {#{7 := 1000}, Still} = window(1000, 2001, 5, Throttle),
    ?assertEqual(#{?MFA => 7}, dyno_agent_throttle:throttled(Still)),
    {#{7 := 95}, Rare} = window(2000, 2101, 5, Still),
    ?assertEqual(#{}, dyno_agent_throttle:throttled(Rare)),
    %% None came: so many had come before that.
    {#{7 := 300}, Ended} = dyno_agent_throttle:closed(native(2000), 2305, opened(Still)),
    ?assertEqual(#{}, dyno_agent_throttle:throttled(Ended)).

%% One of three numbers is of its processes, as the windows show.
estimates_by_numbers(_Config) ->
    First = lists:foldl(fun(N, T) -> seen(1000 + 3 * N, T) end, throttled(), lists:seq(1, 40)),
    {Begun, Closed} = dyno_agent_throttle:closed(native(10), 1200, First),
    ?assertEqual(#{7 => 1}, Begun),
    Second = lists:foldl(fun(N, T) -> seen(4120 + 3 * N, T) end, opened(Closed), lists:seq(1, 40)),
    {#{7 := Silent}, Next} = dyno_agent_throttle:closed(native(500), 4300, Second),
    ?assert(abs(Silent - 1000) =< 2, Silent),
    {#{7 := Rest}, Settled} = dyno_agent_throttle:settled(native(600), 4240 + 300, Next),
    ?assert(abs(Rest - 100) =< 1, Rest),
    ?assertMatch({#{7 := 0}, _}, dyno_agent_throttle:settled(native(600), 4240 + 300, Settled)),
    %% Those of a window that is open are known, and who is older than it says nothing.
    Open = seen(
        17, lists:foldl(fun(N, T) -> seen(4840 + 3 * N, T) end, opened(Settled), [1, 2, 3])
    ),
    {#{7 := InWindow}, _} = dyno_agent_throttle:settled(native(700), 4849 + 30, Open),
    ?assert(abs(InWindow - 110) =< 2, InWindow).

throttles_earlier_where_messages_cost_too_much(_Config) ->
    Throttle = throttled(dyno_agent_throttle:limit(10, learned(21))),
    {_, Still} = window(1000, 1006, 5, Throttle),
    ?assertEqual(#{?MFA => 7}, dyno_agent_throttle:throttled(Still)),
    {_, Rare} = window(3000, 1012, 2, Still),
    ?assertEqual(#{}, dyno_agent_throttle:throttled(Rare)).

subscribes_again_to_a_new_module(_Config) ->
    Release = fun(Module) ->
        dyno_agent_throttle:release(fun({M, _, _}) -> M =:= Module end, throttled())
    end,
    ?assertEqual(#{}, dyno_agent_throttle:throttled(Release(dyno_quick))),
    ?assertEqual(#{?MFA => 7}, dyno_agent_throttle:throttled(Release(lists))).

new() -> dyno_agent_throttle:new().

times(0, _Fun, Acc) -> Acc;
times(N, Fun, Acc) -> times(N - 1, Fun, Fun(Acc)).

learned(Times) ->
    Learn = fun(T) -> dyno_agent_throttle:learn(?MFA, {initial_call, {m, f, 0}}, 7, T) end,
    times(Times, Learn, new()).

first_call(Ms, Throttle) -> first_call(Ms, Ms, Throttle).

first_call(Ms, Number, Throttle) ->
    dyno_agent_throttle:first_call(?MFA, Number, native(Ms), Throttle).

native(Ms) -> erlang:convert_time_unit(Ms, millisecond, native).

throttled() -> throttled(dyno_agent_throttle:limit(1000, learned(21))).

%% By a process with the number 1000.
throttled(Throttle) ->
    case first_call(0, 1000, Throttle) of
        {ask, Next} -> throttled(dyno_agent_throttle:learn(?MFA, gone, 7, Next));
        {presume, 7, Next} -> throttled(Next);
        {throttle, 7, Next} -> Next
    end.

seen(Number, Throttle) ->
    case first_call(0, Number, Throttle) of
        {ask, Next} -> dyno_agent_throttle:learn(?MFA, gone, 7, Next);
        {presume, 7, Next} -> Next
    end.

opened(Throttle) -> dyno_agent_throttle:opened(Throttle).

%% So many with the numbers from one on.
window(Ms, From, Count, Throttle) ->
    Seen = lists:foldl(fun seen/2, opened(Throttle), lists:seq(From, From + Count - 1)),
    dyno_agent_throttle:closed(native(Ms), From + Count, Seen).

%% In a node

%% Each makes two calls and ends, some 10,000 a second. Subscribed, each is a message; half of them
%% is allowed here: a window takes longer on a busy machine.
discovers_all_without_their_messages(_Config) ->
    with_instruments(fun(Node, Processes, Calls) ->
        ok = until_throttled(Node, Processes),
        restart(Processes, Calls),
        ready = start_counting(Node),
        ok = dyno_peers:eval(Node, twenties("live", "", 20_000, 1)),
        Messages = counted(Node, Processes),
        ct:pal("~b messages of 20,000 processes", [Messages]),
        ?assert(Messages < 10_000, Messages),
        #{callers := Callers, functions := Functions} = dyno_counted:read(Calls),
        #{groups := Groups, discovered := Discovered} = dyno_agent_process_parts:result(
            dyno_agent_instrument:read(Processes)
        ),
        %% How many there are is an estimate then.
        ?assert(abs(Discovered - 20_000) < 2000, Discovered),
        OfGroup = lists:sum([N || #{group := {_, ?MFA}, discovered := N} <- Groups]),
        ?assertEqual(Discovered, OfGroup),
        %% Also of those that sent no message it is known who called the second function.
        ?assertEqual([20_000], [N || #{mfa := {_, ended, 0}, calls := N} <- Functions]),
        ?assertEqual([], [C || {{dyno_quick, _, _}, other, _, _} = C <- Callers])
    end).

%% The function is the same, but these have a label. When the next reading shows it, the function is
%% throttled no longer, and from then on each is known by its label.
notices_another_kind(_Config) ->
    with_instruments(fun(Node, Processes, _Calls) ->
        ok = until_throttled(Node, Processes),
        ok = until_subscribed(Node, Processes),
        Before = labelled(Processes),
        Script = "[spawn(dyno_quick, named, [infinity]) || _ <- lists:seq(1, 100)].",
        _ = dyno_peers:eval(Node, Script),
        ?assertEqual(Before + 100, labelled(Processes, Before + 100))
    end).

until_throttled(Node, Processes) ->
    ok = many(Node, 2000),
    case throttled(Node, Processes) of
        [?MFA] -> ok;
        [] -> until_throttled(Node, Processes)
    end.

until_subscribed(Node, Processes) ->
    ok = dyno_peers:eval(Node, twenties("named", "1", 500, 0)),
    case throttled(Node, Processes) of
        [] -> ok;
        [?MFA] -> until_subscribed(Node, Processes)
    end.

throttled(Node, Processes) ->
    Table = dyno_agent_processes:table(Processes),
    maps:keys(erpc:call(Node, dyno_agent_process_table, throttled, [Table])).

%% First calls come as messages.
labelled(Processes, Count) ->
    case labelled(Processes) of
        Fewer when Fewer < Count -> labelled(Processes, Count);
        Labelled -> Labelled
    end.

labelled(Processes) ->
    #{groups := Groups} = dyno_agent_process_parts:result(dyno_agent_instrument:read(Processes)),
    lists:sum([N || #{group := {label, another}, discovered := N} <- Groups]).

%% As dyno_targets does.
restart(Processes, Calls) ->
    ok = dyno_agent_instrument:restart(Calls),
    ok = dyno_agent_instrument:restart(Processes).

%% Counts the messages of first calls.
start_counting(Node) ->
    Script =
        "Self = self(),"
        "[Agent] = [P || P <- processes(), proc_lib:get_label(P) =:= dyno_agent_processes],"
        "spawn(fun() -> register(counter, self()), 1 = erlang:trace(Agent, true, ['receive']),"
        "  Self ! ready,"
        "  Loop = fun Loop(N) -> receive"
        "    {trace, _, 'receive', {trace_ts, _, call, _, _}} -> Loop(N + 1);"
        "    {ask, From} -> From ! {counted, N}; _ -> Loop(N) end end, Loop(0) end),"
        "receive ready -> ready end.",
    dyno_peers:eval(Node, Script).

counted(Node, Processes) ->
    %% All that was sent before this is in the counter's queue.
    _ = dyno_agent_processes:table(Processes),
    {counter, Node} ! {ask, self()},
    receive
        {counted, N} -> N
    end.

many(Node, Count) ->
    dyno_peers:eval(Node, twenties("live", "", Count, 0)).

%% Twenty at a time, and a pause after each twenty.
twenties(Function, Arguments, Count, PauseMs) ->
    lists:flatten(
        io_lib:format(
            "Wait = fun Wait(0) -> ok; Wait(N) ->"
            " receive {'DOWN', _, _, _, _} -> Wait(N - 1) end end,"
            "[begin [spawn_monitor(dyno_quick, ~s, [~s]) || _ <- lists:seq(1, 20)], Wait(20),"
            " receive after ~b -> ok end end || _ <- lists:seq(1, ~b)], ok.",
            [Function, Arguments, PauseMs, Count div 20]
        )
    ).

with_instruments(Test) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        dyno_quick = dyno_peers:load(
            Node,
            "-module(dyno_quick). -export([live/0, stay/0, named/1, begun/1, ended/0]). "
            "begun(X) -> X. "
            "ended() -> ok. "
            "live() -> dyno_quick:begun(1), dyno_quick:ended(). "
            "stay() -> dyno_quick:begun(1), "
            "  receive {P, here} -> P ! {self(), here} end, receive stop -> ok end. "
            "named(Ms) -> proc_lib:set_label(another), dyno_quick:begun(1), "
            "  receive after Ms -> ok end."
        ),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        Patterns = [{dyno_quick, begun, 1}, {dyno_quick, ended, 0}],
        {ok, Processes} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => Patterns, interval_ms => 60_000
        }),
        {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => Patterns, measures => [call_time], processes => Processes
        }),
        Test(Node, Processes, Calls),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Peer)
    end.
