%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_tail_calls_SUITE).
-moduledoc "Time below functions that end in a call, in a program of which the shares are known.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 3}}].

newest_release_only() -> [shares_below_tail_calls].

all() ->
    [
        reads_calls,
        who_was_between,
        shares_below_tail_calls
    ].

%% A call by name, by a module that only the run tells, and of a fun; with and without a tail.
reads_calls(_Config) ->
    {ok, known, Beam} = compile:forms(
        dyno_peers:forms(
            "-module(known). -export([a/2]). "
            "a(M, F) -> M:step(1), F(), lists:max([M]), b(M). "
            "b(M) -> _ = c(M), M:last(). "
            "c(F) -> F(). "
        )
    ),
    ?assertMatch(
        #{
            {known, a, 2} := #{
                calls := [unknown, {'_', step, 1}, {lists, max, 1}], tail_calls := [{known, b, 1}]
            },
            {known, b, 1} := #{calls := [{known, c, 1}], tail_calls := [{'_', last, 0}]},
            {known, c, 1} := #{calls := [], tail_calls := [unknown]}
        },
        dyno_agent_code_calls:decoded(Beam)
    ),
    ?assertEqual(unknown, dyno_agent_code_calls:decoded(~"no beam")).

%% `caller` and `one`, `two`, `three` are measured, `works` is not. One and two end in a call of it:
%% one by its name, two in a module that only the run tells.
-define(CALLER, """
-module(tails_caller).

-export([start/0, times/1, run/2, itself/2, turns/1]).

start() ->
    Times = counters:new(2, []),
    persistent_term:put(tails_caller, Times),
    spawn(tails_caller, turns, [Times]).

times(Ix) -> counters:get(persistent_term:get(tails_caller), Ix).

run(Module, N) ->
    ok = Module:step(N),
    N.

itself(Module, N) ->
    ok = Module:step(N),
    ok = tails_works:spin(N),
    N.

turns(Times) ->
    Start = erlang:monotonic_time(),
    _ = run(tails_one, 300_000),
    Between = erlang:monotonic_time(),
    _ = run(tails_two, 900_000),
    End = erlang:monotonic_time(),
    ok = counters:add(Times, 1, Between - Start),
    ok = counters:add(Times, 2, End - Between),
    turns(Times).

""").
-define(ONE, """
-module(tails_one).

-export([step/1]).

step(N) -> tails_works:spin(N).

""").
-define(TWO, """
-module(tails_two).

-export([step/1]).

step(N) -> (module()):turn(N).

module() -> list_to_existing_atom("tails_works").

""").
-define(WORKS, """
-module(tails_works).

-export([spin/1, turn/1]).

spin(0) -> ok;
spin(N) -> spin(N - 1).

turn(0) -> ok;
turn(N) -> turn(N - 1).

""").
-define(MEASURED, [tails_caller, tails_one, tails_two]).

who_was_between(Config) ->
    Folder = saved(Config),
    true = code:add_patha(Folder),
    [{module, M} = code:ensure_loaded(M) || M <- [tails_works | ?MEASURED]],
    [One, Two] = [{M, step, 1} || M <- [tails_one, tails_two]],
    Run = {tails_caller, run, 2},
    Spin = {tails_works, spin, 1},
    ?assertEqual([Run, One, Spin], between([Run, Spin], [One, Two])),
    Turn = {tails_works, turn, 1},
    ?assertEqual([Run, Two, Turn], between([Run, Turn], [One, Two])),
    %% It was not called, calls what is above itself, or that is measured itself.
    ?assertEqual([Run, Spin], between([Run, Spin], [Two])),
    Itself = {tails_caller, itself, 2},
    ?assertEqual([Itself, Spin], between([Itself, Spin], [One, Two])),
    ?assertEqual([Run, One], between([Run, One], [One, Two])),
    %% Nothing that was called leads there.
    ?assertEqual([Run, {lists, map, 2}], between([Run, {lists, map, 2}], [One, Two])),
    %% Frames that are no functions stay.
    ?assertEqual([deep, Run, One, Spin, burst], between([deep, Run, Spin, burst], [One])),
    %% A second one that may have been there.
    ok = dyno_peers:save(Folder, lists:flatten(string:replace(?ONE, "tails_one", "tails_three"))),
    {module, tails_three} = code:ensure_loaded(tails_three),
    ?assertEqual([Run, Spin], between([Run, Spin], [One, {tails_three, step, 1}])),
    _ = [{code:purge(M), code:delete(M)} || M <- [tails_works, tails_three | ?MEASURED]],
    true = code:del_path(Folder).

between(Path, Called) ->
    IsMeasured = fun({M, _, _}) -> lists:member(M, [tails_three | ?MEASURED]) end,
    What = #{measured => IsMeasured, called => Called, node => node()},
    _ = erase({dyno_agent_tail_calls, node()}),
    [{g, Found, 1}] = dyno_agent_tail_calls:inserted([{g, Path, 1}], What),
    Found.

saved(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "tails"),
    ok = filelib:ensure_path(Folder),
    [ok = dyno_peers:save(Folder, Source) || Source <- [?CALLER, ?ONE, ?TWO, ?WORKS]],
    Folder.

shares_below_tail_calls(Config) ->
    Folder = saved(Config),
    dyno_tries:hold(3, fun() -> shares_below_tail_calls_once(Folder) end).

shares_below_tail_calls_once(Folder) ->
    {_, Node} = Started = dyno_peers:start(["-pa", Folder]),
    try
        Patterns = [{M, '_', '_'} || M <- ?MEASURED],
        [{module, M} = erpc:call(Node, code, ensure_loaded, [M]) || M <- [tails_works | ?MEASURED]],
        _ = erpc:call(Node, tails_caller, start, []),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, Stacks} = dyno_agent:start(Agent, dyno_agent_stacks, #{}),
        {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => Patterns, budget => 0.05, may_time => false, stacks => Stacks
        }),
        ok = dyno_agent_instrument:restart(Calls),
        ok = dyno_agent_instrument:restart(Stacks),
        Took = fun() -> [erpc:call(Node, tails_caller, times, [Ix]) || Ix <- [1, 2]] end,
        Before = Took(),
        timer:sleep(2500),
        After = Took(),
        #{functions := Functions} = dyno_counted:read(Calls),
        _ = dyno_agent:detach(Agent),
        [One, Two] = lists:zipwith(fun erlang:'-'/2, After, Before),
        All = lists:sum([Ns || #{own_time_ns := Ns} <- Functions]),
        Shares = #{MFA => Ns / All || #{mfa := MFA, own_time_ns := Ns} <- Functions},
        ct:log("~p, ~p: ~tp", [One, Two, Shares]),
        #{{tails_one, step, 1} := First, {tails_two, step, 1} := Second} = Shares,
        ?assert(abs(First - One / (One + Two)) < 0.05, {First, One, Two}),
        ?assert(abs(Second - Two / (One + Two)) < 0.05, {Second, One, Two})
    after
        dyno_peers:stop(Started)
    end.
