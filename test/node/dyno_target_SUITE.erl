%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_SUITE).
-moduledoc "A node is held while what is needed runs there, and left whatever goes wrong.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        all_or_none,
        a_node_that_ends_meanwhile,
        what_is_said,
        what_is_to_be_undone,
        slow_breakpoints
    ].

init_per_testcase(_Case, Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    [{peers, [dyno_peers:start(), dyno_peers:start()]} | Config].

end_per_testcase(_Case, Config) ->
    lists:foreach(fun dyno_peers:stop/1, proplists:get_value(peers, Config)).

nodes_of(Config) -> [Node || {_, Node} <- proplists:get_value(peers, Config)].

held(Bare) -> {ok, Bare}.

all_or_none(Config) ->
    [A, B] = nodes_of(Config),
    Refused = fun
        (#{node := Node}) when Node =:= B -> {error, {?MODULE, refused}};
        (Bare) -> {ok, Bare}
    end,
    Hold = fun(Node) -> dyno_target:hold(Node, #{}, Refused) end,
    ?assertEqual({error, {?MODULE, refused}}, dyno_target:all([A, B], Hold)),
    %% Both are free again.
    {ok, [_, _] = Targets} =
        dyno_target:all([A, B], fun(Node) -> dyno_target:hold(Node, #{}, fun held/1) end),
    [_, _] = dyno_target:leave(Targets).

a_node_that_ends_meanwhile(Config) ->
    [A, _] = nodes_of(Config),
    Equip = fun(#{node := Node}) ->
        _ = erpc:call(Node, erlang, halt, []),
        error(not_reached)
    end,
    ?assertEqual(
        {error, {dyno_agent, {node_down, A}}}, dyno_target:hold(A, #{}, Equip)
    ).

what_is_said(Config) ->
    [A, B] = nodes_of(Config),
    {ok, #{ref := Ref} = Target} = dyno_target:hold(A, #{}, fun held/1),
    {ok, Other} = dyno_target:hold(B, #{limit_ms => 200}, fun held/1),
    Targets = [Target, Other],
    none = dyno_target:event({dyno_agent, make_ref(), {gave_up, why}}, Targets),
    none = dyno_target:event(something_else, Targets),
    {without, Target, [m], why} =
        dyno_target:event({dyno_agent, Ref, {without, [m], why}}, Targets),
    ?assertMatch({gave_up, #{node := B}, {limit_ms, 200}}, next(Targets)),
    ok = erpc:cast(A, erlang, halt, []),
    {lost, Lost, noconnection} = until_lost(A, Targets),
    ?assertEqual(Target, Lost),
    [_, _] = dyno_target:leave(Targets).

next(Targets) ->
    receive
        Message ->
            case dyno_target:event(Message, Targets) of
                none -> next(Targets);
                Event -> Event
            end
    end.

until_lost(Node, Targets) ->
    case next(Targets) of
        {lost, #{node := Node}, _} = Lost -> Lost;
        _ -> until_lost(Node, Targets)
    end.

what_is_to_be_undone(Config) ->
    [A, _] = nodes_of(Config),
    Self = self(),
    Undo = fun() ->
        Self ! undone,
        ok
    end,
    {ok, Target} = dyno_target:hold(A, #{}, fun(Bare) -> {ok, Bare#{undo => Undo}} end),
    [_] = dyno_target:leave([Target]),
    receive
        undone -> ok
    after 0 -> ct:fail(not_undone)
    end.

%% Both schedulers sleep in a native function, again and again: a breakpoint takes seconds, and a
%% record that set all of its own took half a minute more.
slow_breakpoints(_Config) ->
    {_, Node} = Peer = dyno_peers:start(["+S", "2:2"]),
    {module, dyno_agent_process} = dyno_peers:send(Node, dyno_agent_process),
    held = dyno_peers:load(
        Node,
        "-module(held). -export([are_slow/0, loop/1]). "
        "are_slow() -> _ = erts_debug:set_internal_state(available_internal_state, true), "
        "  Before = dyno_agent_process:are_breakpoints_slow(3), "
        "  _ = [spawn(held, loop, [8]) || _ <- [1, 2]], "
        "  {Before, dyno_agent_process:are_breakpoints_slow(3)}. "
        "loop(0) -> ok; "
        "loop(N) -> erts_debug:set_internal_state(sleep, 600), timer:sleep(20), loop(N - 1). "
    ),
    ?assertEqual({false, true}, erpc:call(Node, held, are_slow, [])),
    dyno_peers:stop(Peer).
