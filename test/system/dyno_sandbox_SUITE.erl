%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sandbox_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [
        keeps_what_the_code_makes,
        returns_what_is_raised,
        ends_what_takes_too_long,
        ends_when_interrupted,
        dies_or_survives_with_what_is_linked,
        says_why_it_had_died,
        serves_any_process,
        stops_what_is_linked,
        limits_memory,
        needs_no_output,
        restores_the_caller,
        words_failures
    ].

init_per_testcase(_Case, Config) ->
    process_flag(trap_exit, true),
    Config.

keeps_what_the_code_makes(_Config) ->
    Sandbox = dyno_sandbox:start(#{}),
    {ok, Table} = dyno_sandbox:call(Sandbox, fun() -> ets:new(made, []) end, 1000),
    %% What the code sends to itself, a later call may receive.
    {ok, _} = dyno_sandbox:call(Sandbox, fun() -> self() ! sent end, 1000),
    ?assertEqual(
        {ok, sent},
        dyno_sandbox:call(
            Sandbox,
            fun() ->
                receive
                    M -> M
                end
            end,
            1000
        )
    ),
    ?assertNotEqual(undefined, ets:info(Table)),
    ok = dyno_sandbox:stop(Sandbox),
    ?assertEqual(undefined, ets:info(Table)),
    nothing_received().

returns_what_is_raised(_Config) ->
    Sandbox = dyno_sandbox:start(#{}),
    Raise = fun() -> error(bad) end,
    {error, {raised, error, bad, [_ | _]}} = dyno_sandbox:call(Sandbox, Raise, 1000),
    {error, {raised, throw, up, _}} = dyno_sandbox:call(Sandbox, fun() -> throw(up) end, 1000),
    ?assertEqual({ok, 1}, dyno_sandbox:call(Sandbox, fun() -> 1 end, 1000)),
    ok = dyno_sandbox:stop(Sandbox).

ends_what_takes_too_long(_Config) ->
    Sandbox = dyno_sandbox:start(#{}),
    {ok, Pid} = dyno_sandbox:call(Sandbox, fun() -> self() end, 1000),
    ?assertEqual({error, {timeout, 20}}, dyno_sandbox:call(Sandbox, fun sleep/0, 20)),
    ?assertNot(is_process_alive(Pid)),
    ?assertEqual({error, {died, killed}}, dyno_sandbox:call(Sandbox, fun() -> 1 end, 1000)),
    ok = dyno_sandbox:stop(Sandbox),
    nothing_received().

ends_when_interrupted(_Config) ->
    Sandbox = dyno_sandbox:start(#{}),
    self() ! dyno_interrupt,
    %% A tear-down has an interrupt of its own: the user's does not end it.
    ?assertEqual({ok, 1}, dyno_sandbox:call(Sandbox, fun() -> 1 end, 1000, make_ref())),
    ?assertEqual({error, interrupted}, dyno_sandbox:call(Sandbox, fun sleep/0, 10_000)),
    ok = dyno_sandbox:stop(Sandbox),
    nothing_received().

dies_or_survives_with_what_is_linked(_Config) ->
    LinkAndDie = fun() ->
        Linked = spawn_link(fun() -> exit(broken) end),
        Ref = monitor(process, Linked),
        receive
            {'DOWN', Ref, process, Linked, _} -> survived
        end
    end,
    Surviving = dyno_sandbox:start(#{}),
    ?assertEqual({ok, survived}, dyno_sandbox:call(Surviving, LinkAndDie, 1000)),
    ok = dyno_sandbox:stop(Surviving),
    Dying = dyno_sandbox:start(#{links => die}),
    ?assertEqual({error, {died, broken}}, dyno_sandbox:call(Dying, LinkAndDie, 1000)),
    ok = dyno_sandbox:stop(Dying),
    nothing_received().

says_why_it_had_died(_Config) ->
    Sandbox = dyno_sandbox:start(#{links => die}),
    {ok, Pid} = dyno_sandbox:call(Sandbox, fun() -> self() end, 1000),
    exit(Pid, broken),
    receive
        {'EXIT', Pid, broken} -> ok
    end,
    ?assertEqual({error, {died, broken}}, dyno_sandbox:call(Sandbox, fun() -> 1 end, 1000)),
    ok = dyno_sandbox:stop(Sandbox).

serves_any_process(_Config) ->
    Sandbox = dyno_sandbox:start(#{}),
    Self = self(),
    spawn_link(fun() -> Self ! dyno_sandbox:call(Sandbox, fun() -> 1 end, 1000) end),
    receive
        Answer -> ?assertEqual({ok, 1}, Answer)
    end,
    ok = dyno_sandbox:stop(Sandbox).

stops_what_is_linked(_Config) ->
    Sandbox = dyno_sandbox:start(#{}),
    {ok, Linked} = dyno_sandbox:call(Sandbox, fun() -> spawn_link(fun sleep/0) end, 1000),
    Ref = monitor(process, Linked),
    ok = dyno_sandbox:stop(Sandbox),
    receive
        {'DOWN', Ref, process, Linked, Reason} -> ?assertEqual(shutdown, Reason)
    end.

limits_memory(_Config) ->
    Sandbox = dyno_sandbox:start(#{max_bytes => 1_000_000}),
    Allocate = fun() -> length(lists:seq(1, 10_000_000)) end,
    ?assertEqual({error, {died, killed}}, dyno_sandbox:call(Sandbox, Allocate, 10_000)),
    ok = dyno_sandbox:stop(Sandbox).

%% The process of standard error may have ended.
needs_no_output(_Config) ->
    Sandbox = dyno_sandbox:start(#{output => undefined}),
    ?assertEqual({ok, group_leader()}, dyno_sandbox:call(Sandbox, fun group_leader/0, 1000)),
    ok = dyno_sandbox:stop(Sandbox).

restores_the_caller(_Config) ->
    process_flag(trap_exit, false),
    ?assertEqual({ok, 1}, dyno_sandbox:once(fun() -> 1 end, 1000)),
    Die = fun() -> exit(self(), kill) end,
    ?assertEqual({error, {died, killed}}, dyno_sandbox:once(Die, 1000)),
    ?assertEqual({trap_exit, false}, process_info(self(), trap_exit)).

words_failures(_Config) ->
    MFA = {?MODULE, init_suite, 0},
    Place = [{?MODULE, init_suite, 0, [{file, "a_suite.erl"}, {line, 7}]}],
    Undefined = fun(Module) -> {raised, error, undef, [{Module, call, [1], []} | Place]} end,
    [
        ?assertEqual(
            unicode:characters_to_binary(Expected),
            unicode:characters_to_binary(dyno_sandbox:format_error({MFA, Failure}))
        )
     || {Failure, Expected} <- [
            {
                {raised, error, bad, Place},
                "dyno_sandbox_SUITE:init_suite/0 raised error:bad at a_suite.erl:7"
            },
            {{raised, exit, bad, []}, "dyno_sandbox_SUITE:init_suite/0 raised exit:bad"},
            {
                {raised, error, {badmatch, {error, "no disk"}}, Place},
                "dyno_sandbox_SUITE:init_suite/0 failed at a_suite.erl:7: no disk"
            },
            {
                {raised, error, {badmatch, {error, {dyno_similar, odd}}}, Place},
                "dyno_sandbox_SUITE:init_suite/0 failed at a_suite.erl:7: {dyno_similar,odd}"
            },
            {
                {raised, error, {badmatch, {error, {dyno_file, {not_a_file, "/x"}}}}, Place},
                "dyno_sandbox_SUITE:init_suite/0 failed at a_suite.erl:7: /x: this is not a "
                "regular file; give the path of a file to write"
            },
            {
                Undefined(lists),
                "dyno_sandbox_SUITE:init_suite/0 called lists:call/1 at a_suite.erl:7, which that "
                "module does not have"
            },
            {
                Undefined(no_such_module),
                "dyno_sandbox_SUITE:init_suite/0 called no_such_module:call/1 at a_suite.erl:7, "
                "which is not there: no module no_such_module is on the code path; give its "
                "folder with --pa"
            },
            {
                {timeout, 20},
                "dyno_sandbox_SUITE:init_suite/0 had not returned after 20 ms; raise timeout_ms "
                "in suite/0, or give --timeout, if it needs longer"
            },
            {
                {died, killed},
                "the process of dyno_sandbox_SUITE:init_suite/0 ended: killed; a linked process "
                "died"
            },
            {interrupted, "interrupted"}
        ]
    ].

sleep() ->
    receive
    after infinity -> ok
    end.

nothing_received() ->
    receive
        Message -> ct:fail({received, Message})
    after 0 -> ok
    end.
