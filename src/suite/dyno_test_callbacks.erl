%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_callbacks).
-moduledoc false.
%% Calls a suite's callbacks in a process of their own, so that what a set-up is linked to lives as
%% long as the test. Which callbacks there are depends on the form of the suite: a module with this
%% behaviour brings each form's to what a test works with (dyno_suite_callbacks, dyno_performerl).

-export([new/4, with_timeout_ms/2, stop/1]).
-export([module/1, given/1, invariants/4]).
%% For the forms, and for others that call functions of the suite or of its modules
-export([call/3, call/5, optional/4, optional_of/5, tear_down/3, bad_return/5, wrong/3]).
-export([format_error/1, fault/1]).

-export_type([t/0, form/0, reason/0, result/1, info/0]).

-opaque t() :: #{
    module := module(),
    form := module(),
    %% Of a test without a suite: what its form needs.
    given := term(),
    sandbox := dyno_sandbox:sandbox(),
    timeout_ms := pos_integer()
}.

-doc "What a test must know of suites of a form.".
-type form() :: #{
    %% What the recording says that it is of. `record` is one of nodes that run, without sizes.
    command := test | record,
    %% The function that names the targets, for messages.
    set_up => string(),
    invariants := atom(),
    %% A pattern that matches nothing is refused, or left out with a warning.
    unmatched := refuse | leave_out
}.

-type result(Value) :: {ok, Value} | {error, dyno_error:error()}.

-doc "What the load gave for the tear-down.".
-type info() :: none | {info, term()}.

-type reason() ::
    {bad_return, mfa(), term(), Expected :: string()}
    %% What a callback returned cannot be taken.
    | {returned, mfa(), dyno_error:error()}
    | {suite, module(), dyno_error:error()}.

-callback form() -> form().

-doc "What makes a suite of this form suspect.".
-callback warnings(module()) -> [{Code :: binary(), Text :: binary()}].

-doc "Gives this node the name and the cookie that a suite expects.".
-callback connection(dyno_target_node:options()) ->
    ok | {error, dyno_error:error()}.

-doc "The test's description.".
-callback suite(t()) -> result(dyno_suite:config()).

-callback init_suite(t()) -> result(SuiteState :: term()).

-callback init_run(t(), Size :: non_neg_integer(), SuiteState :: term()) ->
    result({[dyno_suite:target()], RunState :: term()}).

-doc "A load, and the source that gives it; `Default` is the suite's option.".
-callback load(t(), Size :: non_neg_integer(), RunState :: term(), {
    Default :: dyno_suite:model() | dyno_suite:load(), dyno_load_spec:override()
}) -> result({Source :: module(), dyno_suite:load()}).

-callback end_run(t(), RunState :: term() | undefined, info()) -> result(term()).

-callback end_suite(t(), SuiteState :: term() | undefined) -> result(term()).

-doc "Ready to call; the calling process must trap exits. `Given` is what a form works with.".
-spec new(module(), module(), Given :: term(), pos_integer()) -> t().
new(Module, Form, Given, TimeoutMs) ->
    #{
        module => Module,
        form => Form,
        given => Given,
        sandbox => dyno_sandbox:start(#{links => die, output => whereis(standard_error)}),
        timeout_ms => TimeoutMs
    }.

-doc "The longest that a callback may take from now on.".
-spec with_timeout_ms(t(), pos_integer()) -> t().
with_timeout_ms(Callbacks, TimeoutMs) ->
    Callbacks#{timeout_ms := TimeoutMs}.

-doc "Ends the process, and the nodes that it started.".
-spec stop(t()) -> ok.
stop(#{sandbox := Sandbox}) ->
    dyno_sandbox:stop(Sandbox).

-spec module(t()) -> module().
module(#{module := Module}) -> Module.

-spec given(t()) -> term().
given(#{given := Given}) -> Given.

-doc "The invariants of a node at a size: the options', then the callback's.".
-spec invariants(t(), node(), non_neg_integer(), [dyno_invariant:t()]) ->
    result([dyno_invariant:t()]).
invariants(#{form := Form} = Callbacks, Node, Size, Options) ->
    #{invariants := Function} = Form:form(),
    case optional(Callbacks, Function, [Node, Size], []) of
        {ok, Returned} when length(Returned) >= 0 ->
            case dyno_error:each(fun dyno_invariant:read/1, Returned) of
                {ok, Invariants} -> {ok, Options ++ Invariants};
                {error, Reason} -> wrong(Callbacks, Function, {dyno_invariant, Reason})
            end;
        {ok, Other} ->
            Expected = "a list of {Name, {M, F, A}, Operator, Value}",
            bad_return(Callbacks, Function, 2, Other, Expected);
        {error, _} = Error ->
            Error
    end.

-doc "Calls a callback.".
-spec call(t(), atom(), [term()]) -> result(term()).
call(#{timeout_ms := TimeoutMs} = Callbacks, Function, Arguments) ->
    call(Callbacks, Function, Arguments, TimeoutMs, dyno_interrupt).

-doc """
Calls a callback that may take so long; the message `Interrupt` ends it. A callback that is ended
takes the process along: what is called after that runs in a process of its own.
""".
-spec call(t(), atom(), [term()], pos_integer(), Interrupt :: term()) -> result(term()).
call(#{module := Module, sandbox := Sandbox}, Function, Arguments, TimeoutMs, Interrupt) ->
    Call = fun() -> apply(Module, Function, Arguments) end,
    case dyno_sandbox:call(Sandbox, Call, TimeoutMs, Interrupt) of
        {ok, Value} -> {ok, Value};
        {error, interrupted} -> {error, {dyno_error, interrupted}};
        {error, Failure} ->
            {error, {dyno_sandbox, {{Module, Function, length(Arguments)}, Failure}}}
    end.

-doc "Calls a callback where there is one.".
-spec optional(t(), atom(), [term()], Default :: term()) -> result(term()).
optional(#{module := Module} = Callbacks, Function, Arguments, Default) ->
    case erlang:function_exported(Module, Function, length(Arguments)) of
        true -> call(Callbacks, Function, Arguments);
        false -> {ok, Default}
    end.

-doc "The same of another module, in the suite's process.".
-spec optional_of(t(), module(), atom(), [term()], Default :: term()) -> result(term()).
optional_of(Callbacks, Module, Function, Arguments, Default) ->
    optional(Callbacks#{module := Module}, Function, Arguments, Default).

-doc "Comes whatever has happened to the process, and is not cut short by an interrupt.".
-spec tear_down(t(), atom(), term()) -> result(term()).
tear_down(#{module := Module, sandbox := Sandbox} = Callbacks, Function, State) ->
    #{timeout_ms := TimeoutMs} = Callbacks,
    case {erlang:function_exported(Module, Function, 1), dyno_sandbox:is_alive(Sandbox)} of
        {false, _} ->
            {ok, ok};
        {true, true} ->
            call(Callbacks, Function, [State], TimeoutMs, make_ref());
        {true, false} ->
            New = new(Module, map_get(form, Callbacks), undefined, TimeoutMs),
            Result = call(New, Function, [State], TimeoutMs, make_ref()),
            ok = stop(New),
            Result
    end.

-doc "What a callback returned, and what it should have.".
-spec bad_return(t(), atom(), arity(), term(), string()) -> {error, dyno_error:error()}.
bad_return(#{module := Module}, Function, Arity, Value, Expected) ->
    {error, {?MODULE, {bad_return, {Module, Function, Arity}, Value, Expected}}}.

-doc """
What a callback returned cannot be taken. Where the suite does not have the callback, an option
stands in for it, and is wrong.
""".
-spec wrong(t(), atom(), dyno_error:error()) -> {error, dyno_error:error()}.
wrong(#{module := Module}, Function, Error) ->
    case erlang:function_exported(Module, Function, 2) of
        true -> {error, {?MODULE, {returned, {Module, Function, 2}, Error}}};
        false -> {error, {?MODULE, {suite, Module, Error}}}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_return, {M, F, A}, {error, _} = Value, _Expected}) ->
    io_lib:format("~ts returned ~0tP", [dyno_agent_name:mfa({M, F, A}), Value, 12]);
format_error({bad_return, {M, F, A}, Value, Expected}) ->
    Format = "~ts returned ~0tP; ~ts is expected",
    io_lib:format(Format, [dyno_agent_name:mfa({M, F, A}), Value, 12, Expected]);
format_error({returned, {M, F, A}, Error}) ->
    ["what ", dyno_agent_name:mfa({M, F, A}), " returned: ", dyno_error:format(Error)];
format_error({suite, Module, Error}) ->
    ["suite ", dyno_agent_name:module(Module), ": ", dyno_error:format(Error)].

-doc "A callback that says that it could not do its work has failed; what else it returns is wrong.".
-spec fault(reason()) -> dyno_error:fault().
fault({bad_return, _, {error, _}, _}) -> dyno;
fault(_) -> caller.
