%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_folded).
-moduledoc """
The stacks of a recording's profiles in folded form, a line a stack: `profile;function;function 12`.
What draws flame graphs reads it: flamegraph.pl, inferno, speedscope.

They add all lines up, and the form has no units. So only the profiles of what the first one is of are
in it: a hundred processes wait a hundred seconds in each second, and would hide the processor's time.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1, stacks/1]).

-import(dyno_report_document, [get/3, name/2]).

-type object() :: dyno_report_document:object().

-doc "The lines, with the first of the profiles' values.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()} | {error, no_stacks}.
format(Document, _Options) ->
    All = [
        {Run, Profile}
     || Run <- dyno_report_document:runs(Document), Profile <- get(~"profiles", Run, [])
    ],
    Lines = [
        [size(Run, Document), title(Profile), ";", Stack, " ", number(Value), "\n"]
     || {Run, Profile} <- All,
        value(Profile) =:= value(element(2, hd(All))),
        {Stack, #{~"values" := [Value | _]}} <- stacks(Profile),
        is_number(Value)
    ],
    case Lines of
        [] -> {error, no_stacks};
        _ -> {ok, dyno_report_text:encode(Lines)}
    end.

-doc """
The samples of a profile, each with its stack: what its labels say, such as the processes, then the
functions, the outermost first.
""".
-spec stacks(object()) -> [{binary(), Sample :: object()}].
stacks(Profile) ->
    Frames = list_to_tuple([word(Frame) || Frame <- get(~"frames", Profile, [])]),
    [
        {
            iolist_to_binary(
                lists:join(
                    ~";",
                    [word(Text) || Text <- labels(Sample)] ++
                        [element(Index + 1, Frames) || Index <- Stack]
                )
            ),
            Sample
        }
     || #{~"stack" := Stack} = Sample <- get(~"samples", Profile, [])
    ].

labels(Of) ->
    Labels = get(~"labels", Of, #{}),
    [name(Key, Labels) || Key <- lists:sort(maps:keys(Labels))].

%% What the lines count.
value(Profile) ->
    case get(~"values", Profile, []) of
        [First | _] -> {name(~"name", First), get(~"unit", First, ~"1")};
        [] -> none
    end.

%% Of several runs each has its own graph.
size(Run, Document) ->
    case dyno_report_document:runs(Document) of
        [_] -> "";
        _ -> [word(dyno_report_document:place(Run, Document)), ";"]
    end.

%% What tells the profile from others: the code, the process, the node.
title(Profile) ->
    Node = [name(~"node", Profile) || get(~"node", Profile, none) =/= none],
    case labels(Profile) ++ Node of
        [] -> word(name(~"name", Profile));
        Parts -> word(iolist_to_binary(lists:join(~", ", Parts)))
    end.

%% The semicolons have a meaning.
word(Text) ->
    binary:replace(dyno_report_text:clean(Text), ~";", ~",", [global]).

number(Value) when is_integer(Value) -> integer_to_binary(Value);
number(Value) -> float_to_binary(Value, [short]).

-doc "What to do about it.".
-spec format_error(no_stacks) -> unicode:chardata().
format_error(Reason) -> dyno_report_stacks:format_error(Reason).
