%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_callbacks).
-moduledoc false.
%% Calls a suite's callbacks in their process, knows what each must return and what stands in for
%% an optional one that is missing, and starts the process anew when a callback took it down.

-export([new/2, suite/1, init_suite/1, init_run/3, load/4, end_run/2, end_suite/2, stop/1]).
-export([timeout_ms/2, format_error/1]).
-export_type([callbacks/0, reason/0]).

-opaque callbacks() :: #{
    module := module(),
    present := [{atom(), arity()}],
    caller := dyno_suite_caller:caller(),
    timeout_ms := pos_integer()
}.

-type reason() ::
    dyno_suite_caller:reason()
    | {bad_return, mfa(), term(), Expected :: string()}
    | {bad_suite, module(), dyno_suite:reason()}.

-doc "Ready to call; the calling process must trap exits.".
-spec new(module(), pos_integer()) -> callbacks().
new(Module, TimeoutMs) ->
    #{present := Present} = dyno_suite:callbacks(Module),
    #{
        module => Module,
        present => Present,
        caller => dyno_suite_caller:start(),
        timeout_ms => TimeoutMs
    }.

-doc "The longest that a callback may take from now on.".
-spec timeout_ms(callbacks(), pos_integer()) -> callbacks().
timeout_ms(Callbacks, TimeoutMs) ->
    Callbacks#{timeout_ms := TimeoutMs}.

-spec suite(callbacks()) -> {{ok, dyno_suite:config()} | {error, reason()}, callbacks()}.
suite(Callbacks) ->
    case call(Callbacks, suite, [], dyno_interrupt) of
        {{ok, Config}, Next} when is_map(Config) -> {{ok, Config}, Next};
        {{ok, Other}, Next} -> bad_return(Next, suite, 0, Other, "a map");
        Failed -> Failed
    end.

-spec init_suite(callbacks()) -> {{ok, term()} | {error, reason()}, callbacks()}.
init_suite(Callbacks) ->
    case optional(Callbacks, init_suite, [], {ok, undefined}) of
        {{ok, {ok, State}}, Next} -> {{ok, State}, Next};
        {{ok, Other}, Next} -> bad_return(Next, init_suite, 0, Other, "{ok, SuiteState}");
        Failed -> Failed
    end.

-spec init_run(callbacks(), pos_integer(), term()) ->
    {{ok, {[node()], term()}} | {error, reason()}, callbacks()}.
init_run(Callbacks, Size, SuiteState) ->
    Expected = "{ok, [Node], RunState}",
    case optional(Callbacks, init_run, [Size, SuiteState], {ok, [], SuiteState}) of
        {{ok, {ok, Nodes, State} = Value}, Next} when is_list(Nodes) ->
            case lists:all(fun is_atom/1, Nodes) of
                true -> {{ok, {Nodes, State}}, Next};
                false -> bad_return(Next, init_run, 2, Value, Expected)
            end;
        {{ok, Other}, Next} ->
            bad_return(Next, init_run, 2, Other, Expected);
        Failed ->
            Failed
    end.

-spec load(callbacks(), pos_integer(), term(), dyno_suite:model()) ->
    {{ok, dyno_suite:load()} | {error, reason()}, callbacks()}.
load(#{module := Module} = Callbacks, Size, RunState, Default) ->
    case optional(Callbacks, load, [Size, RunState], Default) of
        {{ok, Value}, Next} ->
            case dyno_suite:load(Value, Size) of
                {ok, Load} -> {{ok, Load}, Next};
                {error, Reason} -> {{error, {bad_suite, Module, Reason}}, Next}
            end;
        Failed ->
            Failed
    end.

-spec end_run(callbacks(), term()) -> {{ok, term()} | {error, reason()}, callbacks()}.
end_run(Callbacks, RunState) ->
    tear_down(Callbacks, end_run, RunState).

-spec end_suite(callbacks(), term()) -> {{ok, term()} | {error, reason()}, callbacks()}.
end_suite(Callbacks, SuiteState) ->
    tear_down(Callbacks, end_suite, SuiteState).

%% Comes whatever has happened to the process, and is not cut short by an interrupt.
tear_down(#{caller := Caller} = Callbacks, Function, State) ->
    Alive = Callbacks#{caller := dyno_suite_caller:revive(Caller)},
    optional(Alive, Function, [State], ok, make_ref()).

-doc "Ends the process, and the nodes that it started.".
-spec stop(callbacks()) -> ok.
stop(#{caller := Caller}) ->
    dyno_suite_caller:stop(Caller).

optional(Callbacks, Function, Arguments, Default) ->
    optional(Callbacks, Function, Arguments, Default, dyno_interrupt).

optional(#{present := Present} = Callbacks, Function, Arguments, Default, Interrupt) ->
    case lists:member({Function, length(Arguments)}, Present) of
        true -> call(Callbacks, Function, Arguments, Interrupt);
        false -> {{ok, Default}, Callbacks}
    end.

call(Callbacks, Function, Arguments, Interrupt) ->
    #{module := Module, caller := Caller, timeout_ms := TimeoutMs} = Callbacks,
    case dyno_suite_caller:call(Caller, {Module, Function, Arguments}, TimeoutMs, Interrupt) of
        {ok, Value} ->
            {{ok, Value}, Callbacks};
        {error, {raised, _, _, _, _}} = Error ->
            {Error, Callbacks};
        {error, _} = Error ->
            %% The process is dead, and the tear-down must still run.
            {Error, Callbacks#{caller := dyno_suite_caller:start()}}
    end.

bad_return(#{module := Module} = Callbacks, Function, Arity, Value, Expected) ->
    {{error, {bad_return, {Module, Function, Arity}, Value, Expected}}, Callbacks}.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({bad_return, {M, F, A}, Value, Expected}) ->
    io_lib:format("~ts:~ts/~b returned ~0tP; ~ts is expected", [M, F, A, Value, 12, Expected]);
format_error({bad_suite, Module, Reason}) ->
    io_lib:format("suite ~ts: ~ts", [Module, dyno_suite:format_error(Reason)]);
format_error(Reason) ->
    dyno_suite_caller:format_error(Reason).
