%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_callbacks_SUITE).
-moduledoc """
Each callback of both forms of suites that raises, returns something else, never returns, or is
linked to something that dies: what is said, whose fault it is, and that the tear-down still comes.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [{group, callbacks}].

groups() ->
    [
        {callbacks, [parallel], [
            raises,
            returns_something_else,
            never_returns,
            is_linked_to_what_dies,
            optional_ones_have_defaults,
            tear_down_is_not_interrupted,
            load_is_the_suites_or_the_callers,
            performerl_gives_its_load_itself
        ]}
    ].

init_per_testcase(_Case, Config) ->
    process_flag(trap_exit, true),
    Config.

%% The callbacks: how each is called, and what it must return.
callbacks(dyno_suite_callbacks) ->
    [
        {suite, 0, fun dyno_suite_callbacks:suite/1, ~"a map"},
        {init_suite, 0, fun dyno_suite_callbacks:init_suite/1, ~"{ok, SuiteState}"},
        {init_run, 2, fun(C) -> dyno_suite_callbacks:init_run(C, 1, state) end,
            ~"{ok, [Node], RunState}"},
        {load, 2, fun(C) -> dyno_suite_callbacks:load(C, 1, state, {closed, #{}}) end,
            ~"#{model => closed"},
        {invariants, 2, fun(C) -> dyno_test_callbacks:invariants(C, node(), 1, []) end,
            ~"a list of {Name, {M, F, A}"},
        {end_run, 1, fun(C) -> dyno_suite_callbacks:end_run(C, state, none) end, anything},
        {end_suite, 1, fun(C) -> dyno_suite_callbacks:end_suite(C, state) end, anything}
    ];
callbacks(dyno_performerl) ->
    [
        {get_test_name, 0, fun dyno_performerl:suite/1, ~"a string is expected"},
        {test_setup, 0, fun dyno_performerl:init_suite/1, ~"{ok, TestInfo}"},
        {setup_run, 1, fun(C) -> dyno_performerl:init_run(C, 1, state) end,
            ~"{run_started, [Node]}"},
        {get_invariants, 2, fun(C) -> dyno_test_callbacks:invariants(C, node(), 1, []) end,
            ~"a list of {Name, {M, F, A}"},
        {teardown_run, 1, fun(C) -> dyno_performerl:end_run(C, undefined, none) end, ~"run_ended"},
        {test_teardown, 1, fun(C) -> dyno_performerl:end_suite(C, state) end, ~"ok is expected"}
    ].

%% Each callback of a suite in which all of them do the same.
each(Does, TimeoutMs, Check) ->
    [
        begin
            Module = suite_that(Does),
            Callbacks = dyno_test_callbacks:new(Module, Form, undefined, TimeoutMs),
            Name = iolist_to_binary(io_lib:format("~s:~s/~b", [Module, Function, Arity])),
            Check(Name, Call(Callbacks), Expected),
            ok = dyno_test_callbacks:stop(Callbacks),
            unload(Module)
        end
     || Form <- [dyno_suite_callbacks, dyno_performerl],
        {Function, Arity, Call, Expected} <- callbacks(Form)
    ].

suite_that(Does) ->
    Number = erlang:unique_integer([positive]),
    Module = list_to_atom("suite_that_" ++ integer_to_list(Number)),
    Functions = lists:usort([
        {Function, Arity}
     || Form <- [dyno_suite_callbacks, dyno_performerl],
        {Function, Arity, _, _} <- callbacks(Form)
    ]),
    Text = [
        io_lib:format("-module(~s). -file(\"suite.erl\", 1). -compile(export_all). ", [Module]),
        ["act() -> ", Does, ". "],
        [
            io_lib:format("~s(~s) -> act(). ", [
                Function, lists:join(", ", lists:duplicate(Arity, "_"))
            ])
         || {Function, Arity} <- Functions
        ]
    ],
    load(Module, Text).

load(Module, Text) ->
    Forms = dyno_peers:forms(lists:flatten(Text)),
    {ok, Module, Binary} = compile:forms(Forms, [nowarn_export_all]),
    {module, Module} = code:load_binary(Module, "suite.erl", Binary),
    Module.

unload(Module) ->
    _ = [code:Do(Module) || Do <- [purge, delete, purge]],
    ok.

says(Error, Parts) ->
    dyno_suites:says(dyno_error:format(Error), Parts).

%% Cases

raises(_Config) ->
    [
        each([Class, "(oops)"], 5000, fun(Name, {error, Error}, _Expected) ->
            says(Error, [Name, iolist_to_binary(["raised ", Class, ":oops"]), ~"suite.erl:1"]),
            ?assertEqual(code, dyno_error:fault(Error))
        end)
     || Class <- ["throw", "exit", "error"]
    ].

returns_something_else(_Config) ->
    each("{something, [other]}", 5000, fun
        (_Name, Result, anything) ->
            ?assertEqual({ok, {something, [other]}}, Result);
        (Name, {error, Error}, Expected) ->
            says(Error, [Name, ~"{something,[other]}", Expected]),
            ?assertEqual(caller, dyno_error:fault(Error))
    end).

never_returns(_Config) ->
    each("receive after infinity -> ok end", 30, fun(Name, {error, Error}, _Expected) ->
        says(Error, [Name, ~"had not returned after 30 ms", ~"timeout_ms", ~"--timeout"]),
        ?assertEqual(code, dyno_error:fault(Error))
    end).

is_linked_to_what_dies(_Config) ->
    Does = "spawn_link(fun() -> exit(broken) end), receive after infinity -> ok end",
    each(Does, 5000, fun(Name, {error, Error}, _Expected) ->
        says(Error, [Name, ~"broken", ~"linked"]),
        ?assertEqual(code, dyno_error:fault(Error))
    end).

optional_ones_have_defaults(_Config) ->
    Module = load(
        lacking, "-module(lacking). -export([suite/0]). suite() -> #{sizes => [1], load => none}. "
    ),
    Callbacks = dyno_test_callbacks:new(Module, dyno_suite_callbacks, undefined, 5000),
    ?assertEqual({ok, #{sizes => [1], load => none}}, dyno_suite_callbacks:suite(Callbacks)),
    ?assertEqual({ok, undefined}, dyno_suite_callbacks:init_suite(Callbacks)),
    ?assertEqual({ok, {[], state}}, dyno_suite_callbacks:init_run(Callbacks, 3, state)),
    ?assertEqual({ok, []}, dyno_test_callbacks:invariants(Callbacks, node(), 3, [])),
    ?assertMatch({ok, _}, dyno_suite_callbacks:end_run(Callbacks, state, none)),
    ?assertMatch({ok, _}, dyno_suite_callbacks:end_suite(Callbacks, state)),
    ok = dyno_test_callbacks:stop(Callbacks),
    unload(Module).

%% A callback that is interrupted takes the suite's process along; the tear-down has another one,
%% and does not hear of a second interrupt.
tear_down_is_not_interrupted(_Config) ->
    Module = load(
        interrupted,
        "-module(interrupted). -export([init_run/2, end_run/1]). "
        "init_run(_, Test) -> Test ! {in, self()}, receive after infinity -> ok end. "
        "end_run(Test) -> Test ! {in, self()}, receive go_on -> torn_down end. "
    ),
    Callbacks = dyno_test_callbacks:new(Module, dyno_suite_callbacks, undefined, 5000),
    Test = self(),
    Helper = spawn_link(fun() ->
        receive
            {in, _} -> Test ! dyno_interrupt
        end,
        receive
            {in, Pid} ->
                Test ! dyno_interrupt,
                Pid ! go_on
        end
    end),
    {error, Error} = dyno_suite_callbacks:init_run(Callbacks, 1, Helper),
    ?assertEqual(interrupted, dyno_error:fault(Error)),
    ?assertEqual({ok, torn_down}, dyno_suite_callbacks:end_run(Callbacks, Helper, none)),
    ok = dyno_test_callbacks:stop(Callbacks),
    receive
        dyno_interrupt -> ok
    end,
    unload(Module).

load_is_the_suites_or_the_callers(_Config) ->
    Module = load(
        loading,
        "-module(loading). -export([load/2]). "
        "load(Size, Load) when is_map(Load) -> Load#{workers => Size}; load(_, Load) -> Load. "
    ),
    Callbacks = dyno_test_callbacks:new(Module, dyno_suite_callbacks, undefined, 5000),
    Load = fun(State, Override) ->
        dyno_suite_callbacks:load(Callbacks, 7, State, {open, Override})
    end,
    ?assertMatch(
        {ok, {dyno_load, #{model := closed, workers := 7}}}, Load(#{model => closed}, #{})
    ),
    ?assertMatch({ok, {dyno_load, #{model := closed, workers := 7}}}, Load(closed, #{})),
    ?assertMatch(
        {ok, {dyno_load, #{model := closed, workers := 2}}}, Load(closed, #{workers => 2})
    ),
    {error, Suite} = Load(#{model => cloesd}, #{}),
    says(Suite, [~"what loading:load/2 returned", ~"is not a load"]),
    {error, Caller} = Load(closed, #{model => closed, rate_per_s => 5}),
    says(Caller, [~"in the closed load there is no option rate_per_s"]),
    ok = dyno_test_callbacks:stop(Callbacks),
    %% Without the callback it is the option.
    Without = load(no_load, "-module(no_load). -export([suite/0]). suite() -> #{}. "),
    Others = dyno_test_callbacks:new(Without, dyno_suite_callbacks, undefined, 5000),
    ?assertMatch(
        {ok, {dyno_load, #{model := open, rate_per_s := 7}}},
        dyno_suite_callbacks:load(Others, 7, state, {open, #{}})
    ),
    {error, Option} = dyno_suite_callbacks:load(Others, 7, state, {#{model => cloesd}, #{}}),
    says(Option, [~"suite no_load: ", ~"is not a load"]),
    ok = dyno_test_callbacks:stop(Others),
    [unload(M) || M <- [Module, Without]].

performerl_gives_its_load_itself(_Config) ->
    Callbacks = dyno_test_callbacks:new(?MODULE, dyno_performerl, undefined, 5000),
    Load = fun(Override) ->
        dyno_performerl:load(Callbacks, 0, #{nodes => []}, {performerl, Override})
    end,
    ?assertMatch({ok, {dyno_performerl_load, #{}}}, Load(#{})),
    {error, Error} = Load(#{rate_per_s => 5}),
    says(Error, [~"gives its load itself", ~"--rate"]),
    ?assertEqual(caller, dyno_error:fault(Error)),
    ok = dyno_test_callbacks:stop(Callbacks).
