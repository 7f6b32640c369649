%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_checks).
-moduledoc """
Checks a suite's invariants in the target: calls a function, compares what it gives with a value.

A sampler for `m:dyno_agent_custom`; it keeps nothing between two samples, so it can begin anew after
a call that took too long.
""".

-export([init/1, sample/1]).
-export_type([check/0, result/0]).

-type check() :: #{
    name := binary(),
    call := {module(), atom(), [term()]},
    operator := '==' | '/=' | '=:=' | '=/=' | '<' | '=<' | '>' | '>=',
    value := term()
}.

-doc "A value is a text of at most 200 characters; a number also itself.".
-type result() :: holds | {violated, binary(), number() | undefined} | {failed, binary()}.

-define(MAX_TEXT, 200).

-doc "Takes the checks.".
-spec init([check()]) -> {ok, [check()]}.
init(Checks) -> {ok, Checks}.

-doc "Checks all of them, in their order.".
-spec sample([check()]) -> {ok, [result()], [check()]}.
sample(Checks) ->
    Results = [check(Check) || Check <- Checks],
    _ = erase(dyno_at),
    {ok, Results, Checks}.

check(#{name := Name, call := {M, F, A}, operator := Operator, value := Expected}) ->
    put(dyno_at, Name),
    try apply(M, F, A) of
        Value ->
            case erlang:Operator(Value, Expected) of
                true -> holds;
                false -> {violated, short(Value), number(Value)}
            end
    catch
        error:undef ->
            Text = io_lib:format("~tw:~tw/~b, or what it calls, does not exist", [M, F, length(A)]),
            {failed, <<(unicode:characters_to_binary(Text))/binary>>};
        Class:Reason -> {failed, <<(atom_to_binary(Class))/binary, ":", (short(Reason))/binary>>}
    end.

number(Value) when is_number(Value) -> Value;
number(_Value) -> undefined.

short(Term) ->
    Text = io_lib:format("~0tP", [Term, 20]),
    <<_/binary>> = unicode:characters_to_binary(string:slice(Text, 0, ?MAX_TEXT)).
