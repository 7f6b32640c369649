%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite_callbacks).
-moduledoc false.
%% The callbacks of dyno_suite: required results, and substitutes for missing optional ones.

-behaviour(dyno_test_callbacks).

-export([form/0, warnings/1, connection/1]).
-export([suite/1, init_suite/1, init_run/3, load/4, end_run/3, end_suite/2]).

-import(dyno_test_callbacks, [call/3, optional/4, tear_down/3, read/4]).

-type callbacks() :: dyno_test_callbacks:t().

-spec form() -> dyno_test_callbacks:form().
form() ->
    #{command => test, set_up => "init_run/2", invariants => invariants, unmatched => refuse}.

-doc "Functions that resemble callbacks: nothing calls or reports them otherwise.".
-spec warnings(module()) -> [{binary(), binary()}].
warnings(Module) ->
    Format = "~ts is not called: the callback is ~ts/~b",
    [
        {~"misspelt_callback", dyno_recording_part:text(Format, [Named, G, B])}
     || {{F, A}, {G, B}} <- dyno_suite:misspelt(Module),
        Named <- [dyno_agent_name:mfa({Module, F, A})]
    ].

-spec connection(dyno_target_node:options()) -> dyno_error:result().
connection(Options) ->
    dyno_target_node:ensure_distribution(Options).

-spec suite(callbacks()) -> dyno_test_callbacks:result(dyno_suite:config()).
suite(Callbacks) ->
    maybe
        {ok, Config} ?=
            read(call(Callbacks, suite, []), {Callbacks, suite, 0}, fun config/1, "a map"),
        with_operation(Config, Callbacks)
    end.

config(Config) when is_map(Config) -> {ok, Config};
config(_Other) -> error.

%% Without a load there are no operations.
with_operation(#{load := none} = Config, _Callbacks) ->
    {ok, Config};
with_operation(Config, Callbacks) ->
    Module = dyno_test_callbacks:module(Callbacks),
    case dyno_suite:missing(Module) of
        [] ->
            {ok, Config};
        Missing ->
            Lacks = {missing_callbacks, suite, Module, dyno_suite, Missing},
            {error, {dyno_suite_source, Lacks}}
    end.

-spec init_suite(callbacks()) -> dyno_test_callbacks:result(term()).
init_suite(Callbacks) ->
    Result = optional(Callbacks, init_suite, [], {ok, undefined}),
    read(Result, {Callbacks, init_suite, 0}, fun state/1, "{ok, SuiteState}").

state({ok, State}) -> {ok, State};
state(_Other) -> error.

-spec init_run(callbacks(), pos_integer(), term()) ->
    dyno_test_callbacks:result({[dyno_suite:target()], term()}).
init_run(Callbacks, Size, SuiteState) ->
    Result = optional(Callbacks, init_run, [Size, SuiteState], {ok, [], SuiteState}),
    Expected = "{ok, [Node], RunState}, with Node or {Node, Patterns}, each node once,",
    read(Result, {Callbacks, init_run, 2}, fun run/1, Expected).

run({ok, Nodes, State}) ->
    maybe
        {ok, Targets} ?= dyno_suite:targets(Nodes),
        {ok, {Targets, State}}
    end;
run(_Other) ->
    error.

-spec load(callbacks(), pos_integer(), term(), {
    dyno_suite:model() | dyno_suite:load(), dyno_load_spec:override()
}) -> dyno_test_callbacks:result({module(), dyno_suite:load()}).
load(Callbacks, Size, RunState, {Default, Override}) ->
    maybe
        {ok, Returned} ?= optional(Callbacks, load, [Size, RunState], Default),
        {load, true} ?= {load, Returned =/= none},
        {suite, {ok, Load}} ?= {suite, dyno_load_spec:read(Returned, Size)},
        {caller, {ok, Overridden}} ?= {caller, dyno_load_spec:override(Load, Override, Size)},
        {ok, {dyno_load, Overridden}}
    else
        {error, _} = Error ->
            Error;
        {load, false} when Override =:= #{} -> {ok, {none, #{model => none}}};
        {load, false} ->
            {error, {dyno_load_spec, no_load}};
        {suite, {error, Reason}} ->
            dyno_test_callbacks:wrong(Callbacks, load, {dyno_load_spec, Reason});
        {caller, {error, Reason}} ->
            {error, {dyno_load_spec, Reason}}
    end.

-doc "Called with `undefined` after a failed set-up.".
-spec end_run(callbacks(), term(), dyno_test_callbacks:info()) ->
    dyno_test_callbacks:result(term()).
end_run(Callbacks, RunState, _Info) ->
    tear_down(Callbacks, end_run, RunState).

-spec end_suite(callbacks(), term()) -> dyno_test_callbacks:result(term()).
end_suite(Callbacks, SuiteState) ->
    tear_down(Callbacks, end_suite, SuiteState).
