%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_callbacks).
-moduledoc false.
%% Calls a suite's callbacks in their own process, so that processes linked in a set-up live as long
%% as the test. A module with this behaviour adapts each form of suite (dyno_suite_callbacks,
%% dyno_performerl).

-export([new/4, with_timeout_ms/2, stop/1]).
-export([module/1, given/1, invariants/4]).
%% For the forms, and for other callers of the suite's modules
-export([call/3, call/5, optional/4, optional_of/5, tear_down/3, bad_return/5, wrong/3, read/4]).
-export([format_error/1, fault/1]).

-export_type([t/0, form/0, reason/0, result/1, info/0]).

-opaque t() :: #{
    module := module(),
    form := module(),
    %% For a test without a suite: its form's data.
    given := term(),
    sandbox := dyno_sandbox:sandbox(),
    timeout_ms := pos_integer()
}.

-type form() :: #{
    %% The recording's command. `record` is of running nodes, without sizes.
    command := test | record,
    %% The function that returns the targets, for messages.
    set_up => string(),
    invariants := atom(),
    %% Whether a pattern without a match is refused, or left out with a warning.
    unmatched := refuse | leave_out
}.

-type result(Value) :: {ok, Value} | {error, dyno_error:error()}.

-type info() :: none | {info, term()}.

-type reason() ::
    {bad_return, mfa(), term(), Expected :: string()}
    %% A callback's invalid result.
    | {returned, mfa(), dyno_error:error()}
    | {suite, module(), dyno_error:error()}.

-callback form() -> form().

-doc "Doubts about a suite of this form.".
-callback warnings(module()) -> [{Code :: binary(), Text :: binary()}].

-doc "Sets this node's name and cookie as a suite expects.".
-callback connection(dyno_target_node:options()) -> dyno_error:result().

-callback suite(t()) -> result(dyno_suite:config()).

-callback init_suite(t()) -> result(SuiteState :: term()).

-callback init_run(t(), Size :: non_neg_integer(), SuiteState :: term()) ->
    result({[dyno_suite:target()], RunState :: term()}).

-doc "A load and its source, or `none`; `Default` is the suite's option.".
-callback load(t(), Size :: non_neg_integer(), RunState :: term(), {
    Default :: dyno_suite:model() | dyno_suite:load(), dyno_load_spec:override()
}) -> result({Source :: module(), dyno_suite:load()}).

-callback end_run(t(), RunState :: term() | undefined, info()) -> result(term()).

-callback end_suite(t(), SuiteState :: term() | undefined) -> result(term()).

-doc "Prepares calls; the calling process must trap exits. `Given` is the form's data.".
-spec new(module(), module(), Given :: term(), pos_integer()) -> t().
new(Module, Form, Given, TimeoutMs) ->
    #{
        module => Module,
        form => Form,
        given => Given,
        sandbox => dyno_sandbox:start(#{links => die, output => whereis(standard_error)}),
        timeout_ms => TimeoutMs
    }.

-spec with_timeout_ms(t(), pos_integer()) -> t().
with_timeout_ms(Callbacks, TimeoutMs) ->
    Callbacks#{timeout_ms := TimeoutMs}.

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

-spec call(t(), atom(), [term()]) -> result(term()).
call(#{timeout_ms := TimeoutMs} = Callbacks, Function, Arguments) ->
    call(Callbacks, Function, Arguments, TimeoutMs, dyno_interrupt).

-doc "Calls a callback with a time limit; `Interrupt` ends it, and its process.".
-spec call(t(), atom(), [term()], pos_integer(), Interrupt :: term()) -> result(term()).
call(#{module := Module, sandbox := Sandbox}, Function, Arguments, TimeoutMs, Interrupt) ->
    Call = fun() -> apply(Module, Function, Arguments) end,
    case dyno_sandbox:call(Sandbox, Call, TimeoutMs, Interrupt) of
        {ok, Value} ->
            {ok, Value};
        {error, interrupted} ->
            {error, {dyno_error, interrupted}};
        {error, Failure} ->
            {error, {dyno_sandbox, {{Module, Function, length(Arguments)}, Failure}}}
    end.

-spec optional(t(), atom(), [term()], Default :: term()) -> result(term()).
optional(#{module := Module} = Callbacks, Function, Arguments, Default) ->
    case erlang:function_exported(Module, Function, length(Arguments)) of
        true -> call(Callbacks, Function, Arguments);
        false -> {ok, Default}
    end.

-doc "Calls another module's callback if exported, in the suite's process.".
-spec optional_of(t(), module(), atom(), [term()], Default :: term()) -> result(term()).
optional_of(Callbacks, Module, Function, Arguments, Default) ->
    optional(Callbacks#{module := Module}, Function, Arguments, Default).

-doc "Tears down, in any state of the process, and without interrupts.".
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

-doc "What a reader takes from the result of a callback.".
-spec read(result(term()), {t(), atom(), arity()}, Read, Expected :: string()) ->
    result(Part)
when
    Read :: fun((term()) -> {ok, Part} | error).
read({ok, Value}, {Callbacks, Function, Arity}, Read, Expected) ->
    case Read(Value) of
        {ok, Part} -> {ok, Part};
        error -> bad_return(Callbacks, Function, Arity, Value, Expected)
    end;
read({error, _} = Error, _Callback, _Read, _Expected) ->
    Error.

-spec bad_return(t(), atom(), arity(), term(), string()) -> {error, dyno_error:error()}.
bad_return(#{module := Module}, Function, Arity, Value, Expected) ->
    {error, {?MODULE, {bad_return, {Module, Function, Arity}, Value, Expected}}}.

-doc "The error of an invalid result; without the callback, of the option instead.".
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

-doc "A callback that reports an error has failed; any other result is wrong.".
-spec fault(reason()) -> dyno_error:fault().
fault({bad_return, _, {error, _}, _}) -> dyno;
fault(_) -> caller.
