%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_callbacks).
-moduledoc false.
%% Calls a suite's callbacks in their process, knows what each must return and what stands in for
%% an optional one that is missing, and starts the process anew when a callback took it down.

-export([new/3, suite/1, init_suite/1, init_run/3, load/4, end_run/2, end_suite/2, stop/1]).
-export([timeout_ms/2, sandbox/1, call/3, optional/4, optional_of/5, tear_down/3, bad_return/5]).
-export([patterns_of/1, invariants/4]).
-export([keep_run/2, kept_run/1, keep_info/2, format_error/1]).
-export_type([callbacks/0, reason/0]).

-opaque callbacks() :: #{
    module := module(),
    %% Whose callbacks it has: dyno_suite's or performerl_load_generator's.
    form := dyno_suite_source:form(),
    sandbox := dyno_sandbox:sandbox(),
    timeout_ms := pos_integer(),
    %% Of a suite of PerformERL's.
    run := dyno_performerl:run() | undefined
}.

-type reason() ::
    {callback, dyno_sandbox:reason()}
    | interrupted
    | {bad_return, mfa(), term(), Expected :: string()}
    %% What a worker's callback did.
    | {load, dyno_error:error()}
    | {bad_suite, module(), dyno_suite:reason()}
    %% It returned what cannot be taken.
    | {bad_callback, mfa(), dyno_suite:reason()}.

-doc "Ready to call; the calling process must trap exits.".
-spec new(module(), dyno_suite_source:form(), pos_integer()) -> callbacks().
new(Module, Form, TimeoutMs) ->
    #{
        module => Module,
        form => Form,
        sandbox => dyno_sandbox:start(#{links => die, output => whereis(standard_error)}),
        timeout_ms => TimeoutMs,
        run => undefined
    }.

-doc "The process that the callbacks run in.".
-spec sandbox(callbacks()) -> dyno_sandbox:sandbox().
sandbox(#{sandbox := Sandbox}) -> Sandbox.

-doc "Keeps what the tear-down of a suite of PerformERL's needs.".
-spec keep_run(callbacks(), dyno_performerl:run() | undefined) -> callbacks().
keep_run(Callbacks, Run) -> Callbacks#{run := Run}.

-spec kept_run(callbacks()) -> dyno_performerl:run() | undefined.
kept_run(#{run := Run}) -> Run.

-doc "Keeps what start_load or stop_load gave for the tear-down.".
-spec keep_info(callbacks(), {info, term()} | none) -> callbacks().
keep_info(#{run := #{} = Run} = Callbacks, {info, Info}) -> Callbacks#{run := Run#{info => Info}};
keep_info(Callbacks, _None) -> Callbacks.

-doc "The longest that a callback may take from now on.".
-spec timeout_ms(callbacks(), pos_integer()) -> callbacks().
timeout_ms(Callbacks, TimeoutMs) ->
    Callbacks#{timeout_ms := TimeoutMs}.

-spec suite(callbacks()) -> {{ok, dyno_suite:config()} | {error, reason()}, callbacks()}.
suite(#{form := performerl} = Callbacks) ->
    dyno_performerl:suite(Callbacks);
suite(Callbacks) ->
    case call(Callbacks, suite, []) of
        {{ok, Config}, Next} when is_map(Config) -> {{ok, Config}, Next};
        {{ok, Other}, Next} -> bad_return(Next, suite, 0, Other, "a map");
        Failed -> Failed
    end.

-spec init_suite(callbacks()) -> {{ok, term()} | {error, reason()}, callbacks()}.
init_suite(#{form := performerl} = Callbacks) ->
    dyno_performerl:init_suite(Callbacks);
init_suite(Callbacks) ->
    case optional(Callbacks, init_suite, [], {ok, undefined}) of
        {{ok, {ok, State}}, Next} -> {{ok, State}, Next};
        {{ok, Other}, Next} -> bad_return(Next, init_suite, 0, Other, "{ok, SuiteState}");
        Failed -> Failed
    end.

-spec init_run(callbacks(), pos_integer(), term()) ->
    {{ok, {[node()], term()}} | {error, reason()}, callbacks()}.
init_run(#{form := performerl} = Callbacks, Size, _SuiteState) ->
    dyno_performerl:init_run(Callbacks, Size);
init_run(Callbacks, Size, SuiteState) ->
    Expected = "{ok, [Node], RunState}, with Node or {Node, Patterns}, each node once,",
    case optional(Callbacks, init_run, [Size, SuiteState], {ok, [], SuiteState}) of
        {{ok, {ok, Given, State} = Value}, Next} ->
            case dyno_suite:targets(Given) of
                {ok, Targets} ->
                    Nodes = [Node || {Node, _} <- Targets],
                    {{ok, {Nodes, State}}, Next#{patterns_of => own_patterns(Targets)}};
                error ->
                    bad_return(Next, init_run, 2, Value, Expected)
            end;
        {{ok, Other}, Next} ->
            bad_return(Next, init_run, 2, Other, Expected);
        Failed ->
            Failed
    end.

-doc "The patterns of the nodes that have their own, as the last init_run/2 named them.".
-spec patterns_of(callbacks()) -> #{node() => [dyno_agent_patterns:pattern()]}.
patterns_of(Callbacks) -> maps:get(patterns_of, Callbacks, #{}).

own_patterns(Targets) ->
    #{Node => Patterns || {Node, Patterns} <- Targets, Patterns =/= default}.

-spec load(callbacks(), pos_integer(), term(), dyno_suite:model()) ->
    {{ok, dyno_suite:load()} | {error, reason()}, callbacks()}.
load(#{module := Module} = Callbacks, Size, RunState, Default) ->
    case optional(Callbacks, load, [Size, RunState], Default) of
        {{ok, Value}, Next} ->
            case dyno_suite:load(Value, Size) of
                {ok, Load} -> {{ok, Load}, Next};
                {error, Reason} -> {{error, wrong(Module, load, Reason)}, Next}
            end;
        Failed ->
            Failed
    end.

%% Without the callback it is the option's.
wrong(Module, Function, Reason) ->
    case erlang:function_exported(Module, Function, 2) of
        true -> {bad_callback, {Module, Function, 2}, Reason};
        false -> {bad_suite, Module, Reason}
    end.

-doc "The invariants of a node at a size: the options', then the callback's.".
-spec invariants(callbacks(), node(), non_neg_integer(), [dyno_invariant:t()]) ->
    {{ok, [dyno_invariant:t()]} | {error, reason()}, callbacks()}.
invariants(#{module := Module, form := Form} = Callbacks, Node, Size, Options) ->
    Function =
        case Form of
            dyno -> invariants;
            performerl -> get_invariants
        end,
    case optional(Callbacks, Function, [Node, Size], []) of
        {{ok, Given}, Next} when length(Given) >= 0 ->
            Read = [dyno_invariant:read(Invariant) || Invariant <- Given],
            case [Reason || {error, Reason} <- Read] of
                [] ->
                    {{ok, Options ++ [Invariant || {ok, Invariant} <- Read]}, Next};
                [Reason | _] ->
                    {{error, wrong(Module, Function, {bad_invariant, Reason})}, Next}
            end;
        {{ok, Other}, Next} ->
            bad_return(Next, Function, 2, Other, "a list of {Name, {M, F, A}, Operator, Value}");
        Failed ->
            Failed
    end.

-spec end_run(callbacks(), term()) -> {{ok, term()} | {error, reason()}, callbacks()}.
end_run(#{form := performerl} = Callbacks, _RunState) ->
    dyno_performerl:end_run(Callbacks);
end_run(Callbacks, RunState) ->
    tear_down(Callbacks, end_run, RunState).

-spec end_suite(callbacks(), term()) -> {{ok, term()} | {error, reason()}, callbacks()}.
end_suite(#{form := performerl} = Callbacks, SuiteState) ->
    dyno_performerl:end_suite(Callbacks, SuiteState);
end_suite(Callbacks, SuiteState) ->
    tear_down(Callbacks, end_suite, SuiteState).

-doc "Comes whatever has happened to the process, and is not cut short by an interrupt.".
-spec tear_down(callbacks(), atom(), term()) -> {{ok, term()} | {error, reason()}, callbacks()}.
tear_down(#{sandbox := Sandbox} = Callbacks, Function, State) ->
    Alive = Callbacks#{sandbox := dyno_sandbox:revive(Sandbox)},
    optional(Alive, Function, [State], ok, make_ref()).

-doc "Ends the process, and the nodes that it started.".
-spec stop(callbacks()) -> ok.
stop(#{sandbox := Sandbox}) ->
    dyno_sandbox:stop(Sandbox).

-doc "Calls a callback, where there is one.".
-spec optional(callbacks(), atom(), [term()], term()) ->
    {{ok, term()} | {error, reason()}, callbacks()}.
optional(Callbacks, Function, Arguments, Default) ->
    optional(Callbacks, Function, Arguments, Default, dyno_interrupt).

-doc "The same of another module, in the suite's process.".
-spec optional_of(callbacks(), module(), atom(), [term()], term()) ->
    {{ok, term()} | {error, reason()}, callbacks()}.
optional_of(#{module := Suite} = Callbacks, Module, Function, Arguments, Default) ->
    {Result, Next} = optional(Callbacks#{module := Module}, Function, Arguments, Default),
    {Result, Next#{module := Suite}}.

optional(#{module := Module} = Callbacks, Function, Arguments, Default, Interrupt) ->
    case erlang:function_exported(Module, Function, length(Arguments)) of
        true -> call(Callbacks, Function, Arguments, Interrupt);
        false -> {{ok, Default}, Callbacks}
    end.

-doc "Calls a callback.".
-spec call(callbacks(), atom(), [term()]) -> {{ok, term()} | {error, reason()}, callbacks()}.
call(Callbacks, Function, Arguments) ->
    call(Callbacks, Function, Arguments, dyno_interrupt).

call(Callbacks, Function, Arguments, Interrupt) ->
    #{module := Module, sandbox := Sandbox, timeout_ms := TimeoutMs} = Callbacks,
    Call = fun() -> apply(Module, Function, Arguments) end,
    case dyno_sandbox:call(Sandbox, Call, TimeoutMs, Interrupt) of
        {ok, Value} ->
            {{ok, Value}, Callbacks};
        {error, interrupted} ->
            {{error, interrupted}, revived(Callbacks)};
        {error, Failure} ->
            Reason = {callback, {{Module, Function, length(Arguments)}, Failure}},
            {{error, Reason}, revived(Callbacks)}
    end.

%% The tear-down must still run.
revived(#{sandbox := Sandbox} = Callbacks) ->
    Callbacks#{sandbox := dyno_sandbox:revive(Sandbox)}.

-doc "What a callback returned, and what it should have.".
-spec bad_return(callbacks(), atom(), arity(), term(), string()) ->
    {{error, reason()}, callbacks()}.
bad_return(#{module := Module} = Callbacks, Function, Arity, Value, Expected) ->
    {{error, {bad_return, {Module, Function, Arity}, Value, Expected}}, Callbacks}.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({bad_return, {M, F, A}, Value, Expected}) ->
    io_lib:format("~ts:~ts/~b returned ~0tP; ~ts is expected", [M, F, A, Value, 12, Expected]);
format_error({load, Error}) ->
    dyno_error:format(Error);
format_error({bad_callback, {M, F, A}, Reason}) ->
    io_lib:format("what ~ts:~ts/~b returned: ~ts", [M, F, A, dyno_suite:format_error(Reason)]);
format_error({bad_suite, Module, Reason}) ->
    io_lib:format("suite ~ts: ~ts", [Module, dyno_suite:format_error(Reason)]);
format_error({callback, Reason}) ->
    dyno_sandbox:format_error(Reason);
format_error(interrupted) ->
    "interrupted".
