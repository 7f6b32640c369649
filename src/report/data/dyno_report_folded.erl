%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_folded).
-moduledoc """
Stacks in folded form, a line a stack: `profile;function;function 12`, for flamegraph.pl, inferno,
speedscope. Readers add all lines up, so only profiles of the first one's kind are written.
""".

-behaviour(dyno_report).

-export([format/2, stacks/1]).

-import(dyno_report_document, [get/3, name/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> dyno_error:result(iodata()).
format(Document, _Options) ->
    All = [
        {Run, Profile}
     || Run <- dyno_recording:runs(Document), Profile <- get(~"profiles", Run, [])
    ],
    Lines = [
        [size(Run, Document), title(Profile), ";", Stack, " ", number(Value), "\n"]
     || {Run, Profile} <- All,
        value(Profile) =:= value(element(2, hd(All))),
        {Stack, [Value | _]} <- stacks(Profile),
        is_number(Value)
    ],
    case Lines of
        [] -> {error, {dyno_report_stacks, no_stacks}};
        _ -> {ok, dyno_report_text:encode(Lines)}
    end.

-doc "The stacks of a profile's samples, labels first, with their values.".
-spec stacks(dyno_report_document:object()) -> [{binary(), [json:decode_value()]}].
stacks(Profile) ->
    [
        {iolist_to_binary(lists:join(~";", lists:map(fun word/1, Labels ++ Stack))), Values}
     || {Labels, Stack, Values} <- dyno_report_stacks:samples(Profile)
    ].

value(Profile) ->
    case get(~"values", Profile, []) of
        [First | _] -> {name(~"name", First), get(~"unit", First, ~"1")};
        [] -> none
    end.

%% Each of several runs has its own graph.
size(Run, Document) ->
    [[word(Place), ";"] || Place <- dyno_report_document:places(Run, Document)].

title(Profile) ->
    Node = [name(~"node", Profile) || get(~"node", Profile, none) =/= none],
    case dyno_report_stacks:labels(Profile) ++ Node of
        [] -> word(name(~"name", Profile));
        Parts -> word(iolist_to_binary(lists:join(~", ", Parts)))
    end.

%% Semicolons separate frames.
word(Text) ->
    binary:replace(Text, ~";", ~",", [global]).

number(Value) when is_integer(Value) -> integer_to_binary(Value);
number(Value) -> float_to_binary(Value, [short]).
