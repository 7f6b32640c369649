%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_gauges).
-moduledoc """
Reads a suite's own metrics in the target, each a function that gives a number.

A sampler for `m:dyno_agent_custom`; it keeps nothing between two samples, so it can begin anew after
a call that took too long.
""".

-export([init/1, sample/1]).
-export_type([gauge/0]).

-type gauge() :: #{name := binary(), call := {module(), atom(), [term()]}}.

-define(MAX_TEXT, 200).

-doc "Takes the gauges.".
-spec init([gauge()]) -> {ok, [gauge()]}.
init(Gauges) -> {ok, Gauges}.

-doc "Reads all of them, in their order.".
-spec sample([gauge()]) -> {ok, #{binary() => number() | {failed, binary()}}, [gauge()]}.
sample(Gauges) ->
    Values = #{Name => read(Name, Call) || #{name := Name, call := Call} <- Gauges},
    _ = erase(dyno_at),
    {ok, Values, Gauges}.

read(Name, {M, F, A}) ->
    put(dyno_at, Name),
    try apply(M, F, A) of
        Value when is_number(Value) -> Value;
        Other -> {failed, <<"it gave ", (short(Other))/binary, ", a number is expected">>}
    catch
        Class:Reason -> {failed, <<(atom_to_binary(Class))/binary, ":", (short(Reason))/binary>>}
    end.

short(Term) ->
    Text = io_lib:format("~0tP", [Term, 20]),
    <<_/binary>> = unicode:characters_to_binary(string:slice(Text, 0, ?MAX_TEXT)).
