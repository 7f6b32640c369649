%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_plan_SUITE).
-moduledoc "What windows time, when they come, and which breakpoints stay.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(MS, 1_000_000).
-define(CALL_NS, 150).
-define(BUSY_NS, 1_000_000_000).

suite() ->
    [{timetrap, {minutes, 2}}].

newest_release_only() -> all.

all() ->
    [
        the_first_window_times_everything,
        then_the_modules_that_were_called,
        leaves_out_what_is_hot_and_tiny,
        keeps_what_is_hot_and_long,
        as_long_as_some_calls_take,
        sets_last_what_is_called_most,
        a_window_costs_its_share,
        an_idle_node_is_looked_at_again_soon,
        counts_what_is_called_seldom,
        counts_one_also_of_a_load_that_has_just_begun,
        counts_one_again,
        learns_from_counts_that_a_loop_is_quicker,
        every_process_is_discovered,
        keeps_the_names_of_groups,
        limits_messages
    ].

plan() -> dyno_agent_call_plan:new(0.05).

window(Calls) -> window(Calls, [maps:keys(Calls)]).

window(Calls, Processes) ->
    #{
        ns => 20 * ?MS,
        flagging_ns => 2 * ?MS,
        changes => 10,
        calls => Calls,
        processes => Processes,
        call_ns => ?CALL_NS,
        busy_ns => ?BUSY_NS
    }.

look(Rates) -> look(Rates, []).
look(Rates, Discoverers) ->
    #{rates => Rates, discoverers => Discoverers, busy_ns => ?BUSY_NS}.

took(Calls) -> dyno_agent_call_plan:took(window(Calls), plan()).

took_more(Times, Calls, Plan) ->
    lists:foldl(
        fun(_, P) -> dyno_agent_call_plan:took(window(Calls), P) end, Plan, lists:seq(1, Times)
    ).

the_first_window_times_everything(_Config) ->
    ?assertEqual(
        #{modules => [a, b], functions => [], without => [], ms => 10},
        dyno_agent_call_plan:next([a, b], plan())
    ),
    %% One without calls shows nothing.
    ?assertMatch(#{modules := [a, b]}, dyno_agent_call_plan:next([a, b], took(#{}))).

then_the_modules_that_were_called(_Config) ->
    Called = #{{b, f, 1} => {10, 5000}},
    Once = took(Called),
    %% One window may have missed some.
    ?assertMatch(#{modules := [a, b]}, dyno_agent_call_plan:next([a, b], Once)),
    Plan = took_more(3, Called, Once),
    ?assertMatch(#{modules := [b], without := []}, dyno_agent_call_plan:next([a, b], Plan)),
    %% Now and then all of them again.
    Often = took_more(4, Called, Plan),
    ?assertMatch(#{modules := [a, b]}, dyno_agent_call_plan:next([a, b], Often)).

%% 10,000 calls of 80 ns, of which measuring takes 75.
leaves_out_what_is_hot_and_tiny(_Config) ->
    Plan = took(#{{m, tiny, 1} => {10_000, 800_000}, {m, long, 1} => {10, 5 * ?MS}}),
    ?assertEqual([{m, tiny, 1}], maps:keys(dyno_agent_call_plan:left_out(Plan))),
    %% The others are set one by one, but where all modules are tried.
    ?assertMatch(
        #{modules := [], functions := [{m, long, 1}], without := []},
        dyno_agent_call_plan:next([m], took_more(3, #{{m, long, 1} => {10, 5 * ?MS}}, Plan))
    ),
    Eight = took_more(7, #{{m, long, 1} => {10, 5 * ?MS}}, Plan),
    ?assertMatch(
        #{modules := [n], functions := [{m, long, 1}]}, dyno_agent_call_plan:next([m, n], Eight)
    ),
    %% Seldom as a whole, too, for until it is left out again what is tiny costs something.
    ?assertMatch(
        #{modules := [m], functions := [], without := [{m, tiny, 1}]},
        dyno_agent_call_plan:next([m], took_more(24, #{{m, long, 1} => {10, 5 * ?MS}}, Eight))
    ),
    ?assertEqual({[m], [{m, tiny, 1}]}, dyno_agent_call_plan:active(Plan)).

keeps_what_is_hot_and_long(_Config) ->
    ?assertEqual(
        #{}, dyno_agent_call_plan:left_out(took(#{{m, f, 1} => {10_000, 10 * ?MS}}))
    ),
    %% A few calls don't say how long they take, and tiny ones that are few don't matter.
    ?assertEqual(#{}, dyno_agent_call_plan:left_out(took(#{{m, f, 1} => {40, 3000}}))),
    Seldom = took(#{{m, f, 1} => {100, 8000}, {m, long, 1} => {10, 5 * ?MS}}),
    ?assertEqual(#{}, dyno_agent_call_plan:left_out(Seldom)).

%% As in Cowboy on a busy machine: 40 us to send, and many short calls beside.
as_long_as_some_calls_take(_Config) ->
    Ms = fun(Calls) -> map_get(ms, dyno_agent_call_plan:next([m], took(Calls))) end,
    ?assertEqual(2, Ms(#{{m, send, 2} => {300, 12 * ?MS}, {m, f, 1} => {3000, 3 * ?MS}})),
    %% 30 calls of 0.5 ms, and of 2 ms; more than 100 ms no window is.
    ?assertEqual(15, Ms(#{{m, slow, 1} => {20, 10 * ?MS}})),
    ?assertEqual(60, Ms(#{{m, slow, 1} => {5, 10 * ?MS}, {m, f, 1} => {10, 10_000}})),
    ?assertEqual(100, Ms(#{{m, slow, 1} => {1, 10 * ?MS}})),
    %% As much as the changes of the code cost, which are few beside 150 calls in a millisecond.
    ?assertEqual(18, Ms(#{{m, slow, 1} => {10, 15 * ?MS}, {m, f, 1} => {13_000, 5 * ?MS}})).

sets_last_what_is_called_most(_Config) ->
    Plan = took(#{{a, f, 1} => {900, ?MS}, {b, f, 1} => {1, ?MS}, {c, f, 1} => {1000, ?MS}}),
    ?assertMatch(#{modules := [d, b, a, c]}, dyno_agent_call_plan:next([a, b, c, d], Plan)).

%% A third of 5 % of one scheduler: what a window has cost is 1.67 % of the time until the next.
a_window_costs_its_share(_Config) ->
    Plan = took(#{{m, f, 1} => {10_000, 10 * ?MS}}),
    Share = dyno_agent_call_plan:cost_ns(Plan) / ?MS / dyno_agent_call_plan:wait_ms(0.5, Plan),
    ?assert(abs(Share - 0.05 / 3) < 0.0002),
    %% At random, the mean of which is that.
    Longest = dyno_agent_call_plan:wait_ms(1.0, Plan),
    Shortest = dyno_agent_call_plan:wait_ms(0.0, Plan),
    ?assert(abs(Longest - 3 * Shortest) =< 3),
    %% More than was worked in it a window cannot have cost.
    Busy = took(#{{m, f, 1} => {1_000_000_000, 20 * ?MS}}),
    ?assert(dyno_agent_call_plan:cost_ns(Busy) =< (2 + 10 * 0.15 + 20) * ?MS).

an_idle_node_is_looked_at_again_soon(_Config) ->
    Idle = dyno_agent_call_plan:took((window(#{}))#{changes := 5000, busy_ns := 0}, plan()),
    ?assert(dyno_agent_call_plan:wait_ms(1.0, Idle) =< 750).

%% Of 20 calls in 20 ms 1,000 a second; what fits is counted from the rarest on.
counts_what_is_called_seldom(_Config) ->
    Calls = #{{m, list_to_atom("f" ++ integer_to_list(N)), 0} => {20 * N, 100_000 * N}
     || N <- lists:seq(1, 50)},
    Plan = dyno_agent_call_plan:looked(look(#{}), took(Calls)),
    Uncounted = dyno_agent_call_plan:uncounted(Plan),
    Rates = [20 * N / 20 / ?MS || N <- lists:seq(1, 50) -- [number(F) || F := _ <- Uncounted]],
    %% A sixth of the budget, at 120 ns a call; and the one that is called most.
    [Most | Seldom] = lists:reverse(lists:sort(Rates)),
    ?assertEqual(50 / ?MS, Most),
    ?assert(lists:sum(Seldom) * 120 =< 0.05 / 6),
    ?assert((lists:sum(Seldom) + 2 * lists:max(Seldom)) * 120 > 0.05 / 6),
    ?assertNot(is_map_key({m, f1, 0}, Uncounted)),
    ?assert(is_map_key({m, f49, 0}, Uncounted)).

%% A window is full of a load of 17,000 requests a second, before which the node had nothing to do.
counts_one_also_of_a_load_that_has_just_begun(_Config) ->
    Calls = #{{m, F, 0} => {340, 3 * ?MS} || F <- [f, g, h, i]},
    Begun = (look(#{MFA => 0.4 / ?MS || MFA := _ <- Calls}))#{busy_ns := 30 * ?MS},
    Plan = dyno_agent_call_plan:looked(Begun, took(Calls)),
    ?assert(map_size(dyno_agent_call_plan:uncounted(Plan)) < map_size(Calls)),
    Full = (look(#{MFA => 17 / ?MS || MFA := _ <- Calls}))#{busy_ns := 1000 * ?MS},
    Later = dyno_agent_call_plan:looked(Full, Plan),
    ?assert(map_size(dyno_agent_call_plan:uncounted(Later)) < map_size(Calls)).

%% All were too many for what the node did; now that it does more one may be counted, and stays.
counts_one_again(_Config) ->
    Calls = #{{m, F, 0} => {340, 3 * ?MS} || F <- [f, g, h, i]},
    Rates = #{MFA => 20 / ?MS || MFA := _ <- Calls},
    None = dyno_agent_call_plan:looked((look(Rates))#{busy_ns := 100 * ?MS}, took(Calls)),
    ?assertEqual(Calls, maps:with(maps:keys(dyno_agent_call_plan:uncounted(None)), Calls)),
    One = dyno_agent_call_plan:looked((look(Rates))#{busy_ns := 1000 * ?MS}, None),
    Counted = maps:keys(Calls) -- maps:keys(dyno_agent_call_plan:uncounted(One)),
    ?assertMatch([_], Counted),
    [F] = Counted,
    Still = dyno_agent_call_plan:looked((look(#{F => 10 / ?MS}))#{busy_ns := 2000 * ?MS}, One),
    ?assertEqual(Counted, maps:keys(Calls) -- maps:keys(dyno_agent_call_plan:uncounted(Still))).

number({m, Name, 0}) -> list_to_integer(tl(atom_to_list(Name))).

%% In a window a loop makes few turns, because each is timed.
learns_from_counts_that_a_loop_is_quicker(_Config) ->
    Plan = took(#{{m, loop, 1} => {100, 10 * ?MS}}),
    ?assertEqual(#{}, dyno_agent_call_plan:uncounted(dyno_agent_call_plan:looked(look(#{}), Plan))),
    Quick = dyno_agent_call_plan:looked(look(#{{m, loop, 1} => 0.001}), Plan),
    ?assertEqual([{m, loop, 1}], maps:keys(dyno_agent_call_plan:uncounted(Quick))),
    ?assertEqual([{m, loop, 1}], maps:keys(dyno_agent_call_plan:undiscovered(Quick))),
    %% Also of one that no window has met.
    Unseen = dyno_agent_call_plan:looked(look(#{{m, other, 1} => 0.001}), Plan),
    ?assertEqual([{m, other, 1}], maps:keys(dyno_agent_call_plan:uncounted(Unseen))).

%% All functions are called as often, and together far too often.
every_process_is_discovered(_Config) ->
    Calls = #{{M, F, 0} => {500, 3 * ?MS} || M <- [a, b, c], F <- [f, g, h, i]},
    Processes = [[{M, F, 0} || F <- [f, g, h, i]] || M <- [a, b, c]],
    Took = dyno_agent_call_plan:took(window(Calls, Processes), plan()),
    Plan = dyno_agent_call_plan:looked(look(#{}), Took),
    Undiscovered = dyno_agent_call_plan:undiscovered(Plan),
    ?assert(map_size(Undiscovered) > 0),
    [?assertMatch([_ | _], Called -- maps:keys(Undiscovered)) || Called <- Processes].

keeps_the_names_of_groups(_Config) ->
    Calls = #{{m, F, 0} => {500, 3 * ?MS} || F <- [f, g, h, i]},
    Plan = dyno_agent_call_plan:looked(look(#{}, [{m, i, 0}]), took(Calls)),
    ?assertNot(is_map_key({m, i, 0}, dyno_agent_call_plan:undiscovered(Plan))),
    %% But not where it alone would cost too much.
    Hot = dyno_agent_call_plan:looked(look(#{{m, i, 0} => 0.01}, [{m, i, 0}]), took(Calls)),
    ?assert(is_map_key({m, i, 0}, dyno_agent_call_plan:undiscovered(Hot))).

limits_messages(_Config) ->
    Plan = dyno_agent_call_plan:looked(look(#{}), plan()),
    ?assert(dyno_agent_call_plan:first_calls(Plan) * 20_000 =< 0.05 / 6 * ?BUSY_NS * 1.01),
    Idle = dyno_agent_call_plan:looked((look(#{}))#{busy_ns := 0}, plan()),
    ?assertEqual(1, dyno_agent_call_plan:first_calls(Idle)).
