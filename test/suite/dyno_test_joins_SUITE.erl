%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_joins_SUITE).
-moduledoc "What a suite's targets/1 says again and again.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [{group, joins}].

groups() ->
    [
        {joins, [parallel], [
            without_the_callback,
            tells_of_each_node_once,
            callback_raises,
            callback_returns_something_else,
            stops_at_once
        ]}
    ].

%% The callback: what the state says.
targets({count, Counter, Lists}) ->
    lists:nth(min(counters_next(Counter), length(Lists)), Lists);
targets({raise, Reason}) ->
    error(Reason);
targets(Value) ->
    Value.

counters_next(Counter) ->
    ok = counters:add(Counter, 1, 1),
    counters:get(Counter, 1).

next(Pid) ->
    receive
        {dyno_joins, Pid, Event} -> Event
    end.

without_the_callback(_Config) ->
    ?assertEqual(none, dyno_test_joins:start(lists, none, [])),
    ?assertEqual(ok, dyno_test_joins:stop(none)).

tells_of_each_node_once(_Config) ->
    Lists = [[a@h], [a@h, b@h], #{b@h => ["lists"], c@h => ["lists:seq/2"]}],
    Pid = dyno_test_joins:start(?MODULE, {count, counters:new(1, []), Lists}, [a@h]),
    ?assertEqual({joined, {b@h, default}}, next(Pid)),
    ?assertEqual({joined, {c@h, [{lists, seq, 2}]}}, next(Pid)),
    ok = dyno_test_joins:stop(Pid).

%% Once, and then it has ended.
callback_raises(_Config) ->
    Pid = dyno_test_joins:start(?MODULE, {raise, oops}, []),
    Ref = monitor(process, Pid),
    Text = ~"dyno_test_joins_SUITE:targets/1 raised error: oops",
    ?assertEqual({not_joined, Text}, next(Pid)),
    receive
        {'DOWN', Ref, process, Pid, normal} -> ok
    end,
    ?assertEqual(ok, dyno_test_joins:stop(Pid)).

callback_returns_something_else(_Config) ->
    Pid = dyno_test_joins:start(?MODULE, ok, []),
    Text =
        <<
            "dyno_test_joins_SUITE:targets/1 returned ok; a list of nodes is expected, or of "
            "{Node, Patterns}"
        >>,
    ?assertEqual({not_joined, Text}, next(Pid)),
    ok = dyno_test_joins:stop(Pid).

stops_at_once(_Config) ->
    Pid = dyno_test_joins:start(?MODULE, [a@h], []),
    self() ! {dyno_joins, Pid, {joined, {a@h, default}}},
    ok = dyno_test_joins:stop(Pid),
    ?assertNot(is_process_alive(Pid)),
    receive
        {dyno_joins, Pid, _} = Message -> ct:fail(Message)
    after 0 -> ok
    end.
