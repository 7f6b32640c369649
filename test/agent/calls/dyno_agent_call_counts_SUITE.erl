%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_counts_SUITE).
-moduledoc "What is counted and what is to be read when, without a trace session.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-import(dyno_agent_call_counts, [event/2]).

-define(F, {work, f, 1}).
-define(G, {work, g, 0}).
-define(NOBODY, #{group_of => none, throttled => #{}}).

newest_release_only() -> all.

all() ->
    [
        a_module_that_is_replaced,
        a_module_that_is_replaced_too_late,
        a_loading_that_fails,
        modules_that_come,
        reads_all_throttled_first,
        callers_of_throttled_functions,
        is_never_dyno
    ].

new() ->
    {Counts, []} = event(
        {measured, work}, dyno_agent_call_counts:new([{work, '_', '_'}])
    ),
    Counts.

add(MFA, Calls, Counts) -> add(MFA, Calls, [], ?NOBODY, Counts).

add(MFA, Calls, Time, Context, Counts) ->
    Reading = #{calls => Calls, words => 0, time => Time},
    dyno_agent_call_counts:add(MFA, Reading, {Context, #{least_ns => 50}}, Counts).

result(Counts) -> dyno_agent_call_counts:result([call_count], Counts).

calls(Counts) ->
    #{functions := Functions} = result(Counts),
    lists:sort([{MFA, Calls} || #{mfa := MFA, calls := Calls} <- Functions]).

%% The old code's statistics were read before the loading ended.
a_module_that_is_replaced(_Config) ->
    {Loading, [{read_replaced, work, prepared, Before}]} = event({loading, work, prepared}, new()),
    Read = add(?F, 3, Loading),
    {Good, []} = event({was_read, work, prepared, {false, false}, Before}, Read),
    ?assertMatch(#{reloaded := [work], lost := []}, result(Good)),
    ?assertEqual([{?F, 3}], calls(Good)),
    %% A second reading in the same loading finds it ended: all calls so far are of the new code.
    {Again, [{read_replaced, work, announced, _}]} = event({loading, work, announced}, Good),
    {Late, []} = event({was_read, work, announced, {true, true}, Before}, add(?F, 2, Again)),
    ?assertMatch(#{reloaded := [work], lost := []}, result(Late)),
    ?assertEqual([{?F, 5}], calls(Late)),
    {Restarted, []} = event(restarted, Late),
    ?assertMatch(#{reloaded := [], lost := [], functions := []}, result(Restarted)).

%% What was read may be of either code, or those of the old one are gone.
a_module_that_is_replaced_too_late(_Config) ->
    {Loading, [{read_replaced, work, prepared, Before}]} = event({loading, work, prepared}, new()),
    Read = add(?F, 3, Loading),
    {Between, []} = event({was_read, work, prepared, {false, true}, Before}, Read),
    ?assertMatch(#{reloaded := [work], lost := [work], functions := []}, result(Between)),
    {After, []} = event({was_read, work, prepared, {true, true}, Before}, Read),
    ?assertMatch(#{reloaded := [work], lost := [work]}, result(After)),
    ?assertEqual([{?F, 3}], calls(After)),
    %% Of a reading without one's own doing.
    {Replaced, []} = event({replaced, [work, other]}, new()),
    ?assertMatch(#{reloaded := [], lost := [work]}, result(Replaced)).

%% Somebody only asked for the old code to be purged.
a_loading_that_fails(_Config) ->
    {Announced, [{read_replaced, work, announced, Before}]} =
        event({loading, work, announced}, new()),
    {Next, []} = event({was_read, work, announced, {false, false}, Before}, Announced),
    ?assertMatch(#{reloaded := [], lost := []}, result(Next)),
    {_, []} = event(load_ended, Next).

%% The ends of loadings do not say of which module: three are waited for.
modules_that_come(_Config) ->
    {Other, []} = event({loading, other, prepared}, new()),
    {Both, [_]} = event({loading, work, prepared}, Other),
    {One, Effects} = event(load_ended, Both),
    %% What the old code had counted since it was read is missing.
    ?assertEqual(
        [{missed, work}, {narrow, other, unmeasured}, {narrow, work, measured}], lists:sort(Effects)
    ),
    {Two, [_, _]} = event(load_ended, One),
    {Three, [_, _]} = event(load_ended, Two),
    {Four, []} = event(load_ended, Three),
    ?assertEqual(4, dyno_agent_call_counts:loads(Four)),
    ?assertEqual([work], dyno_agent_call_counts:modules(Four)).

%% All is paused, read and reset at once: what were not read would be lost.
reads_all_throttled_first(_Config) ->
    {Counts, []} = event({measured, more}, new()),
    Throttled = fun(MFA) -> #{group_of => none, throttled => #{MFA => 7}} end,
    [
        ?assertMatch({_, [{Event, [First, _]}]}, event({Event, Throttled(MFA)}, Counts))
     || Event <- [read, read_and_reset], {First, _, _} = MFA <- [?F, {more, f, 0}]
    ].

%% They are discovered by what was read, and their other calls count to their group.
callers_of_throttled_functions(_Config) ->
    [A, B] = [spawn(fun() -> ok end) || _ <- [1, 2]],
    Context = #{
        group_of => fun
            (Pid) when Pid =:= A -> {ok, 1};
            (_) -> unknown
        end,
        throttled => #{?F => 7}
    },
    {_, [{read, [work]}]} = event({read, Context}, new()),
    Time = [{A, 1, 0, 5}, {B, 1, 0, 5}],
    Read = add(?G, 0, Time, Context, add(?F, 0, Time, Context, new())),
    {Discovered, Told} = dyno_agent_call_counts:take_discovered(Read),
    ?assertEqual([{B, 7}], Discovered),
    ?assertEqual({[], Told}, dyno_agent_call_counts:take_discovered(Told)),
    #{callers := Callers} = dyno_agent_call_counts:result([call_time], Told),
    ?assertEqual(
        [{?F, 1, 1, 5500}, {?F, 7, 1, 5500}, {?G, 1, 1, 5500}, {?G, 7, 1, 5500}],
        lists:sort(Callers)
    ),
    {Asked, []} = event({callers, ?F, [A, B], Context}, new()),
    ?assertMatch({[{B, 7}], _}, dyno_agent_call_counts:take_discovered(Asked)).

is_never_dyno(_Config) ->
    All = [{'_', f, '_'}],
    ?assert(dyno_agent_call_counts:is_measured(lists, All)),
    [
        ?assertNot(dyno_agent_call_counts:is_measured(Module, All))
     || Module <- [dyno_agent_calls, trace, erts_internal, erl_tracer]
    ].
