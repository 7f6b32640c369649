%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_times_SUITE).
-moduledoc "What stacks, windows and counts say of functions, together.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(SECOND, 1_000_000_000).
-define(SERVER, {registered, server}).
-define(LOOP, {registered, loop}).

suite() ->
    [{timetrap, {minutes, 2}}].

newest_release_only() -> all.

all() ->
    [
        windows_stand_for_all_the_time,
        by_counts_where_there_are_some,
        by_work_where_hardly_anything_was_counted,
        not_more_than_there_was,
        stacks_say_it_of_groups_that_compute,
        windows_of_groups_that_burst,
        both,
        the_innermost_measured_function,
        few_samples_say_nothing,
        intervals,
        one_window_says_nothing_of_calls,
        what_was_counted_exactly,
        what_is_not_counted
    ].

%% 10 windows of 100 ms in 10 s, and a tenth of the work.
input() ->
    #{
        duration_ns => 10 * ?SECOND,
        worked_ns => 20 * ?SECOND,
        reductions => 60_000_000,
        exact => #{},
        left_out => #{},
        windows => #{
            count => 10, ns => ?SECOND, reductions => 6_000_000, callers => [],
            uncertain_ns => #{}, errors => #{}, typical => #{}
        },
        stacks => none,
        measured => fun({M, _, _}) -> M =:= m end
    }.

windows(Callers, #{windows := Windows} = Input) -> Input#{windows := Windows#{callers := Callers}}.

stacks(CpuNs, Stacks, Input) -> Input#{stacks := #{cpu_ns => CpuNs, stacks => Stacks}}.

functions(Input) ->
    {Functions, _} = dyno_agent_call_times:combine(Input),
    #{MFA => F || #{mfa := MFA} = F <- Functions}.

windows_stand_for_all_the_time(_Config) ->
    Input = windows(
        [{{m, f, 1}, ?SERVER, 100, 7 * 1_000_000}, {{m, g, 1}, ?SERVER, 50, 1000}], input()
    ),
    {Functions, Callers} = dyno_agent_call_times:combine(Input),
    ?assertMatch(
        [
            #{mfa := {m, f, 1}, calls := 1000, counted := estimated, own_time_ns := 70_000_000,
                time_from := windows},
            #{mfa := {m, g, 1}, calls := 500, own_time_ns := 10_000}
        ],
        lists:sort(fun(#{mfa := A}, #{mfa := B}) -> A =< B end, Functions)
    ),
    ?assertEqual(
        [{{m, f, 1}, ?SERVER, 1000, 70_000_000}, {{m, g, 1}, ?SERVER, 500, 10_000}],
        lists:sort(Callers)
    ).

%% In the windows less is done than between them: 100 calls of 2,000, not of 1,000.
by_counts_where_there_are_some(_Config) ->
    Input = windows(
        [{{m, f, 1}, ?SERVER, 100, 1_000_000}, {{m, g, 1}, ?SERVER, 30, 500_000}], input()
    ),
    ?assertMatch(
        #{
            {m, f, 1} := #{calls := 2000, counted := exact, own_time_ns := 20_000_000},
            {m, g, 1} := #{calls := 600, counted := estimated, own_time_ns := 10_000_000}
        },
        functions(Input#{exact := #{{m, f, 1} => 2000}})
    ).

%% As seen with one connection to Cowboy: of 12,415 requests the windows saw 40, as they saw three
%% calls of a function that was called 30 times. That is a matter of luck; what the node did is not.
by_work_where_hardly_anything_was_counted(_Config) ->
    Input = windows(
        [{{m, f, 1}, ?SERVER, 3, 1_000_000}, {{m, g, 1}, ?SERVER, 40, 500_000}], input()
    ),
    #{windows := Windows} = Input,
    ?assertMatch(
        #{{m, g, 1} := #{calls := 12_000, own_time_ns := 150_000_000}},
        functions(Input#{
            exact := #{{m, f, 1} => 30}, windows := Windows#{reductions := 200_000}
        })
    ).

not_more_than_there_was(_Config) ->
    Input = windows([{{m, f, 1}, ?SERVER, 100, ?SECOND}], input()),
    #{{m, f, 1} := #{own_time_ns := Ns}} =
        functions(Input#{exact := #{{m, f, 1} => 1_000_000}, worked_ns := 3 * ?SECOND}),
    ?assertEqual(3 * ?SECOND, Ns).

%% 8 s of the processor, 80 % of the samples; in the windows a tiny function seems to take most.
stacks_say_it_of_groups_that_compute(_Config) ->
    Input = stacks(
        8 * ?SECOND,
        [
            {?LOOP, [{m, run, 0}, {m, loop, 1}], 600},
            {?LOOP, [{m, run, 0}, {m, tiny, 1}], 200},
            {{registered, other}, [{x, y, 0}], 200}
        ],
        windows(
            [{{m, loop, 1}, ?LOOP, 10, 1000}, {{m, tiny, 1}, ?LOOP, 100_000, ?SECOND div 2}],
            input()
        )
    ),
    #{{m, loop, 1} := Loop, {m, tiny, 1} := Tiny} = functions(Input),
    ?assertMatch(#{own_time_ns := 4_800_000_000, time_from := stacks}, Loop),
    ?assertMatch(#{own_time_ns := 1_600_000_000, time_from := stacks}, Tiny),
    %% Poisson: 600 samples are known by 8 %.
    #{own_time_low_ns := Low, own_time_high_ns := High} = Loop,
    ?assert(abs((High - Low) / 2 / 4_800_000_000 - 1.96 / math:sqrt(600)) < 0.001).

windows_of_groups_that_burst(_Config) ->
    Input = stacks(
        2 * ?SECOND,
        [{?SERVER, [{gen_server, loop, 7}, burst], 300}, {?SERVER, [{m, f, 1}], 20}],
        windows(
            [{{m, f, 1}, ?SERVER, 100, 70_000_000}, {{m, g, 1}, ?SERVER, 100, 30_000_000}],
            input()
        )
    ),
    ?assertMatch(
        #{
            {m, f, 1} := #{own_time_ns := 700_000_000, time_from := windows},
            {m, g, 1} := #{own_time_ns := 300_000_000, time_from := windows}
        },
        functions(Input)
    ).

both(_Config) ->
    Input = stacks(
        2 * ?SECOND,
        [{?LOOP, [{m, f, 1}], 100}, {?SERVER, [{gen_server, loop, 7}, burst], 100}],
        windows([{{m, f, 1}, ?SERVER, 100, 50_000_000}, {{m, f, 1}, ?LOOP, 9, 9}], input())
    ),
    ?assertMatch(
        #{{m, f, 1} := #{own_time_ns := 1_500_000_000, time_from := both}}, functions(Input)
    ),
    {_, Callers} = dyno_agent_call_times:combine(Input),
    ?assertMatch(
        [{{m, f, 1}, ?LOOP, _, 1_000_000_000}, {{m, f, 1}, ?SERVER, 1000, 500_000_000}],
        lists:sort(Callers)
    ).

%% What a function calls that is not measured is in its time; what no measured one calls is in none.
the_innermost_measured_function(_Config) ->
    Input = stacks(
        4 * ?SECOND,
        [
            {?LOOP, [deep, {m, outer, 0}, {m, inner, 0}, {lists, seq, 2}], 300},
            {?LOOP, [{init, start, 0}], 100}
        ],
        input()
    ),
    ?assertMatch(
        #{{m, inner, 0} := #{own_time_ns := 3_000_000_000}} = All when map_size(All) =:= 1,
        functions(Input)
    ).

few_samples_say_nothing(_Config) ->
    Input = stacks(
        ?SECOND, [{?LOOP, [{m, f, 1}], 7}], windows([{{m, f, 1}, ?LOOP, 10, 1000}], input())
    ),
    ?assertMatch(#{{m, f, 1} := #{own_time_ns := 10_000, time_from := windows}}, functions(Input)).

%% The spread between windows counts; few windows say little; windows that fill the time all.
intervals(_Config) ->
    Input = windows([{{m, f, 1}, ?SERVER, 1_000_000, 7_000_000}], input()),
    #{windows := Windows} = Input,
    Width = fun(More, Of) ->
        #{{m, f, 1} := #{own_time_low_ns := Low, own_time_high_ns := High, own_time_ns := Ns}} =
            functions(Of#{windows := maps:merge(Windows, More)}),
        ?assert(Low =< Ns andalso Ns =< High),
        (High - Ns) / Ns
    end,
    Spread = #{errors => #{{m, f, 1} => {0.1, 0.1, 0.0}}},
    %% Of the number of calls and of what one takes.
    ?assert(Width(Spread, Input) > 0.2 * math:sqrt(2)),
    ?assert(Width(Spread, Input) < 0.25 * math:sqrt(2)),
    ?assert(Width(Spread#{count => 2}, Input) > 1),
    ?assert(Width(#{}, Input) < 0.01),
    ?assert(Width(Spread, Input#{duration_ns := ?SECOND}) < 1.0e-6),
    %% What other programs took does not become less by more windows.
    Starved = #{errors => #{{m, f, 1} => {0.0, 0.0, 0.25}}},
    [?assert(abs(Width(Starved#{count => Count}, Input) - 0.25) < 0.01) || Count <- [5, 50]],
    %% What measuring adds is uncertain in the same way each time.
    ?assert(abs(Width(#{uncertain_ns => #{{m, f, 1} => 3_500_000}}, Input) - 0.5) < 0.01).

%% As seen with Cowboy: one window in five seconds, by which 2.4 million calls were told of 50,000.
one_window_says_nothing_of_calls(_Config) ->
    Input = windows([{{m, f, 1}, ?SERVER, 100_000, 7_000_000}], input()),
    #{windows := Windows} = Input,
    #{{m, f, 1} := F} = functions(Input#{windows := Windows#{count := 1}}),
    ?assertMatch(#{counted := no, own_time_ns := 70_000_000, own_time_low_ns := 0}, F),
    ?assertNot(is_map_key(calls, F)),
    ?assert(map_get(own_time_high_ns, F) > 700_000_000),
    %% It was nearly all of the time.
    ?assertMatch(
        #{{m, f, 1} := #{counted := estimated}},
        functions(Input#{duration_ns := ?SECOND + 1_000_000, windows := Windows#{count := 1}})
    ).

what_was_counted_exactly(_Config) ->
    Exact = #{{m, seldom, 1} => 3, {m, never, 1} => 0},
    All = functions((input())#{exact := Exact}),
    ?assertEqual(#{{m, seldom, 1} => #{mfa => {m, seldom, 1}, calls => 3, counted => exact}}, All).

%% Not how often a function was called that windows have left out, and roughly how often a loop did.
what_is_not_counted(_Config) ->
    Input = windows([{{m, f, 1}, ?SERVER, 100, 1000}], input()),
    #{{m, f, 1} := F} = functions(Input#{left_out := #{{m, f, 1} => []}}),
    ?assertMatch(#{counted := no}, F),
    ?assertNot(is_map_key(calls, F)),
    Loop = stacks(
        ?SECOND, [{?LOOP, [{m, f, 1}], 100}], windows([{{m, f, 1}, ?LOOP, 10_000, 1000}], input())
    ),
    #{{m, f, 1} := #{calls := Calls, calls_low := Low, calls_high := High}} = functions(Loop),
    ?assert(Low * 1.9 < Calls andalso High > 1.9 * Calls).
