%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_budget_SUITE).
-moduledoc "What is counted, timed and discovered by within a budget, and what is told of it then.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

newest_release_only() -> all.

all() ->
    [
        times_what_fits,
        times_nothing_unasked,
        times_no_storm,
        closes_what_fits_no_more,
        leaves_a_few_out,
        counts_the_least_called,
        estimates_by_what_is_counted,
        counts_again_now_and_then,
        discovers_by_what_names_groups,
        tells_exact_times,
        tells_times_by_samples,
        tells_what_was_hardly_met,
        tells_lower_bounds_of_bursts,
        takes_waiting_out,
        adds_what_was_not_timed
    ].

f(N) -> {m, list_to_atom("f" ++ integer_to_list(N)), 1}.

look(Calls, More) ->
    maps:merge(
        #{ns => 500_000_000, calls => Calls, busy_ns => 1.0e9, births => 0, discoverers => []}, More
    ).

looked(Calls, More, Plan) -> dyno_agent_call_budget:looked(look(Calls, More), Plan).

new() -> dyno_agent_call_budget:new(0.06, true, 500).

times_what_fits(_Config) ->
    %% Without a call there is nothing to be timed.
    ?assertNot(dyno_agent_call_budget:is_timed(looked(#{f(1) => 0}, #{}, new()))),
    Few = looked(#{f(1) => 1000, f(2) => 10}, #{}, new()),
    ?assert(dyno_agent_call_budget:is_timed(Few)),
    ?assert(dyno_agent_call_budget:spent(Few) < 0.02),
    ?assertNot(dyno_agent_call_budget:is_timed(looked(#{f(1) => 50_000}, #{}, new()))).

times_nothing_unasked(_Config) ->
    Plan = looked(#{f(1) => 100}, #{}, dyno_agent_call_budget:new(0.06, false, 500)),
    ?assertNot(dyno_agent_call_budget:is_timed(Plan)).

%% Each process has rows, which are read.
times_no_storm(_Config) ->
    Calls = #{f(N) => 1500 || N <- lists:seq(1, 10)},
    ?assert(dyno_agent_call_budget:is_timed(looked(Calls, #{}, new()))),
    ?assertNot(dyno_agent_call_budget:is_timed(looked(Calls, #{births => 10_000}, new()))).

closes_what_fits_no_more(_Config) ->
    Open = looked(#{f(1) => 1000}, #{}, new()),
    Closed = looked(#{f(1) => 80_000}, #{}, Open),
    ?assertNot(dyno_agent_call_budget:is_timed(Closed)),
    Seldom = looked(#{f(1) => 1000}, #{}, Closed),
    ?assertNot(dyno_agent_call_budget:is_timed(Seldom)),
    Again = looked(#{f(1) => 1000}, #{}, dyno_agent_call_budget:restart(Seldom)),
    ?assert(dyno_agent_call_budget:is_timed(Again)).

leaves_a_few_out(_Config) ->
    Plan = looked(#{f(1) => 1000, f(2) => 5_000_000}, #{}, new()),
    ?assertEqual([f(2)], dyno_agent_call_budget:uncounted(Plan)),
    ?assert(dyno_agent_call_budget:is_timed(Plan)),
    Many = maps:merge(#{f(1) => 1000}, #{f(N) => 5_000_000 || N <- lists:seq(2, 9)}),
    ?assertNot(dyno_agent_call_budget:is_timed(looked(Many, #{}, new()))).

%% 2 % of a second are 166,000 calls a second.
counts_the_least_called(_Config) ->
    Calls = #{f(N) => 20_000 * N || N <- lists:seq(1, 9)},
    Plan = looked(Calls, #{}, new()),
    ?assertEqual(
        lists:sort([f(N) || N <- lists:seq(3, 9)]),
        lists:sort(dyno_agent_call_budget:uncounted(Plan))
    ).

estimates_by_what_is_counted(_Config) ->
    Calls = #{f(1) => 20_000, f(2) => 40_000, f(3) => 80_000},
    Plan = looked(Calls, #{}, new()),
    #{{m, f3, 1} := {All, Low, High}} =
        dyno_agent_call_budget:estimates(#{f(1) => 2000, f(2) => 4000}, Plan),
    ?assert(abs(All - 8000) < 0.001),
    ?assert(Low > 7500 andalso Low < All andalso High < 8500 andalso High > All),
    %% If one of these is left out, too, the ratio is to the others, as it was then.
    Fewer = looked(#{f(1) => 20_000, f(2) => 70_000}, #{}, Plan),
    #{{m, f3, 1} := {Of, _, _}} = dyno_agent_call_budget:estimates(#{f(1) => 1000}, Fewer),
    ?assert(abs(Of - 1000 * 80 / 20) < 0.001),
    %% By next to nothing nothing is told.
    ?assertMatch(
        #{{m, f3, 1} := unknown}, dyno_agent_call_budget:estimates(#{f(1) => 7, f(2) => 1}, Plan)
    ).

%% What was left out is counted again when its last count has been paid for, and the ratio is that
%% of these looks. f(3) costs ten times the budget's third.
counts_again_now_and_then(_Config) ->
    Calls = #{f(1) => 20_000, f(2) => 40_000},
    First = looked(Calls#{f(3) => 800_000}, #{}, new()),
    ?assertEqual([], dyno_agent_call_budget:recounted(First)),
    Waits = fun Waits(N, Plan) ->
        case dyno_agent_call_budget:recounted(Plan) of
            [] -> Waits(N + 1, looked(Calls, #{}, Plan));
            Functions -> {N, Functions, Plan}
        end
    end,
    {4, [Left], Due} = Waits(0, First),
    ?assertEqual(f(3), Left),
    Again = looked(Calls#{Left => 400_000}, #{}, Due),
    #{Left := {Estimate, Low, High}} = dyno_agent_call_budget:estimates(Calls, Again),
    ?assert(abs(Estimate - 400_000) < 1),
    ?assert(Low > 0.97 * Estimate andalso High < 1.03 * Estimate),
    %% It costs half as much now.
    ?assertMatch({3, _, _}, Waits(0, Again)).

discovers_by_what_names_groups(_Config) ->
    Calls = #{f(1) => 30_000, f(2) => 35_000, f(3) => 100},
    Named = looked(Calls, #{discoverers => [f(1)]}, new()),
    ?assertNot(lists:member(f(1), dyno_agent_call_budget:undiscovered(Named))),
    ?assertEqual([f(2), f(1)] -- [f(1)], dyno_agent_call_budget:undiscovered(Named)),
    ?assert(dyno_agent_call_budget:first_calls(Named) > 100).

%% The results

input(More) ->
    maps:merge(
        #{
            calls => #{}, estimates => #{}, timed => none, stacks => none
        },
        More
    ).

combined(More) ->
    #{stacks := Stacks} = Input = input(More),
    Sums =
        case Stacks of
            none -> none;
            _ -> dyno_agent_call_samples:sums(Stacks, fun({M, _, _}) -> M =:= m end)
        end,
    {Functions, Rows} = dyno_agent_call_times:combine(Input#{sampled => Sums}),
    {#{MFA => F || #{mfa := MFA} = F <- Functions}, Rows}.

timed(MFA, Calls, Ns) ->
    #{
        mfa => MFA, calls => Calls, own_time_ns => Ns, raw_time_ns => Ns, uncertain_ns => Ns div 100
    }.

stacks(Stacks) -> #{cpu_ns => 1_000_000_000, stacks => Stacks, other => 0}.

tells_exact_times(_Config) ->
    Timed = #{functions => [timed(f(1), 50, 5000)], callers => [{f(1), a, 50, 5000}]},
    Stacks = stacks([{a, [f(2)], 1000}]),
    {#{{m, f1, 1} := One} = All, [_]} = combined(#{
        calls => #{f(1) => 100, f(2) => 0}, timed => Timed, stacks => Stacks
    }),
    ?assertEqual(1, map_size(All)),
    %% Half of the calls were not timed.
    ?assertMatch(
        #{calls := 100, counted := exact, own_time_ns := 10_000, time_from := calls}, One
    ),
    #{own_time_low_ns := Low, own_time_high_ns := High} = One,
    ?assert(Low < 9000 andalso High > 11_000).

tells_times_by_samples(_Config) ->
    Stacks = stacks([{a, [f(1), f(2)], 600}, {a, [f(1)], 300}, {b, [{x, g, 0}], 100}]),
    {Functions, Rows} = combined(#{
        calls => #{f(1) => 10, f(3) => 5},
        estimates => #{f(2) => {1.0e6, 9.0e5, 1.1e6}},
        stacks => Stacks
    }),
    #{{m, f1, 1} := One, {m, f2, 1} := Two, {m, f3, 1} := Three} = Functions,
    ?assertMatch(
        #{own_time_ns := 300_000_000, total_time_ns := 900_000_000, time_from := samples}, One
    ),
    ?assertMatch(#{own_time_ns := 600_000_000, counted := estimated, calls := 1_000_000}, Two),
    #{own_time_low_ns := Low, own_time_high_ns := High} = Two,
    ?assert(Low > 560_000_000 andalso High < 640_000_000, {Low, High}),
    %% Called, and met by no sample.
    ?assertMatch(#{own_time_ns := 0, own_time_high_ns := Most} when Most < 5_000_000, Three),
    ?assertEqual(900_000_000, lists:sum([Ns || {_, a, undefined, Ns} <- Rows])).

tells_what_was_hardly_met(_Config) ->
    {Functions, _} = combined(#{calls => #{f(1) => 10}, stacks => stacks([{a, [f(2)], 9}])}),
    ?assertNot(is_map_key(own_time_ns, map_get(f(1), Functions))).

%% Processes that ran shortly may have been anywhere.
tells_lower_bounds_of_bursts(_Config) ->
    Stacks = stacks([{a, [f(1)], 500}, {b, [f(2), burst], 500}]),
    {#{{m, f1, 1} := One}, _} = combined(#{calls => #{f(1) => 10}, stacks => Stacks}),
    #{own_time_ns := Own, own_time_low_ns := Low, own_time_high_ns := High} = One,
    ?assertEqual(500_000_000, Own),
    ?assert(Low > 450_000_000 andalso High >= 1_000_000_000, {Low, High}),
    %% Then all calls but those of a few functions are the better source.
    {#{{m, f1, 1} := Timed}, _} = combined(#{
        calls => #{f(1) => 10},
        estimates => #{f(2) => unknown},
        stacks => Stacks,
        timed => #{functions => [timed(f(1), 10, 1000)], callers => []}
    }),
    ?assertMatch(#{own_time_ns := 1000, time_from := calls}, Timed).

takes_waiting_out(_Config) ->
    Rows = #{functions => [timed(f(1), 10, 1000)], callers => [{f(1), a, 10, 1000}]},
    Times = fun(ReadyNs) -> #{normal => #{worked_ns => 1000, cpu_ns => 0, ready_ns => ReadyNs}} end,
    ?assertMatch(
        #{functions := [#{own_time_ns := 700, uncertain_ns := 220}], callers := [{_, a, 10, 700}]},
        dyno_agent_call_times:without_waiting(Times(300), Rows)
    ),
    ?assertEqual(Rows, dyno_agent_call_times:without_waiting(Times(0), Rows)),
    ?assertEqual(Rows, dyno_agent_call_times:without_waiting(#{}, Rows)).

adds_what_was_not_timed(_Config) ->
    Rows = #{functions => [(timed(f(1), 50, 5000))#{words => 10}], callers => []},
    #{functions := [One, Two]} = dyno_agent_call_times:each_call(
        #{f(1) => 100, f(2) => 7, f(3) => 0}, Rows
    ),
    ?assertMatch(#{calls := 100, own_time_ns := 10_000, words := 20}, One),
    ?assertEqual(#{mfa => f(2), calls => 7}, Two).
