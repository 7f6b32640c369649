%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_polls).
-moduledoc """
Calls functions at an interval, for a suite's metrics (numbers) and invariants (comparisons): a
sampler for `m:dyno_agent_custom`, restartable because it has no state.
""".

-export([init/1, sample/1]).
-export_type([metric/0, invariant/0, checked/0]).

-type metric() :: #{name := binary(), call := call()}.

-type invariant() :: #{
    name := binary(),
    call := call(),
    operator := '==' | '/=' | '=:=' | '=/=' | '<' | '=<' | '>' | '>=',
    value := term()
}.

-type call() :: {module(), atom(), [term()]}.

-doc "A value is a text of at most 200 characters; a number also itself.".
-type checked() :: holds | {violated, binary(), number() | undefined} | {failed, binary()}.

-define(MAX_TEXT, 200).

-doc "Takes the calls; prepares nothing.".
-spec init([metric() | invariant()]) -> {ok, [metric() | invariant()]}.
init(Polls) -> {ok, Polls}.

-doc "Calls them in order.".
-spec sample(Polls) -> {ok, [{Name :: binary(), checked() | number()}], Polls} when
    Polls :: [metric() | invariant()].
sample(Polls) ->
    Results = [{Name, poll(Poll)} || #{name := Name} = Poll <- Polls],
    _ = erase(dyno_at),
    {ok, Results, Polls}.

poll(#{name := Name, call := {M, F, A}} = Poll) ->
    %% dyno_agent_custom shows this name if the call does not return.
    put(dyno_at, Name),
    try apply(M, F, A) of
        Value -> result(Value, Poll)
    catch
        error:undef ->
            Called = dyno_agent_name:mfa({M, F, A}),
            {failed, text("~ts, or a function it calls, does not exist", [Called])};
        Class:Reason ->
            {failed, text("~tw:~ts", [Class, short(Reason)])}
    end.

result(Value, #{operator := Operator, value := Expected}) ->
    case erlang:Operator(Value, Expected) of
        true -> holds;
        false when is_number(Value) -> {violated, short(Value), Value};
        false -> {violated, short(Value), undefined}
    end;
result(Value, _Metric) when is_number(Value) ->
    Value;
result(Value, _Metric) ->
    {failed, text("it gave ~ts, a number is expected", [short(Value)])}.

short(Term) ->
    string:slice(text("~0tP", [Term, 20]), 0, ?MAX_TEXT).

text(Format, Arguments) ->
    <<_/binary>> = unicode:characters_to_binary(io_lib:format(Format, Arguments)).
