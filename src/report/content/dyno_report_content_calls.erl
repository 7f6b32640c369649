%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_calls).
-moduledoc """
A profile as a tree of calls: from the outermost functions down to what they call, or from the
innermost ones up to who calls them. The heaviest branches have the lines.
""".

-export([section/5]).

-import(dyno_report_document, [get/3]).

%% What is less than this share is not worth a line.
-define(LEAST, 0.005).

%% What a call is of, and below it what it was spent in.
-type tree() :: #{Frame :: binary() => {number(), tree()}}.

-doc "The tree of a profile by its first value, with so many lines.".
-spec section(
    dyno_report_document:object(), binary(), down | up, pos_integer(), Unit :: binary()
) ->
    [dyno_report_section:table()].
section(#{~"samples" := Samples} = Profile, Title, View, Most, Unit) ->
    Frames = list_to_tuple([dyno_report_text:clean(F) || F <- get(~"frames", Profile, [])]),
    Stacks = [
        {way(View, labels(Sample), [element(N + 1, Frames) || N <- Stack]), Value}
     || #{~"stack" := [_ | _] = Stack, ~"values" := [Value | _]} = Sample <- Samples,
        is_number(Value),
        Value > 0
    ],
    All = lists:sum([Value || {_, Value} <- Stacks]),
    Tree = lists:foldl(fun({Stack, Value}, Acc) -> add(Stack, Value, Acc) end, #{}, Stacks),
    Least = least(Tree, Most, ?LEAST * All),
    Rows = rows(Tree, 0, All, Least, Unit),
    dyno_report_section:table(
        Title,
        [
            #{title => heading(View), align => left, fit => flexible},
            #{title => ~"share", align => right},
            #{title => ~"", align => right, fit => optional}
        ],
        lists:sublist(Rows, Most)
    ).

heading(down) -> ~"processes, and what they call";
heading(up) -> ~"function, and who calls it".

labels(Sample) ->
    Labels = get(~"labels", Sample, #{}),
    [dyno_report_document:name(Key, Labels) || Key <- lists:sort(maps:keys(Labels))].

way(down, Labels, Stack) -> Labels ++ Stack;
way(up, Labels, Stack) -> lists:reverse(Labels ++ Stack).

-spec add([binary()], number(), tree()) -> tree().
add([], _Value, Tree) ->
    Tree;
add([Frame | Rest], Value, Tree) ->
    {Sum, Below} = maps:get(Frame, Tree, {0, #{}}),
    Tree#{Frame => {Sum + Value, add(Rest, Value, Below)}}.

%% So that the heaviest have the lines: a call is never heavier than who it is below.
least(Tree, Most, Least) ->
    case lists:reverse(lists:sort(values(Tree, Least))) of
        Values when length(Values) > Most -> lists:nth(Most, Values);
        _ -> Least
    end.

values(Tree, Least) ->
    lists:append([[Value | values(Below, Least)] || _ := {Value, Below} <- Tree, Value >= Least]).

rows(Tree, Depth, All, Least, Unit) ->
    Heavy = [{Value, Frame, Below} || Frame := {Value, Below} <- Tree, Value >= Least],
    lists:append([
        [
            [
                <<(binary:copy(~" ", Depth))/binary, Frame/binary>>,
                dyno_report_document:measured(Value / All, ~"ratio"),
                dyno_report_document:measured(Value, Unit)
            ]
            | rows(Below, Depth + 1, All, Least, Unit)
        ]
     || {Value, Frame, Below} <- lists:reverse(lists:sort(Heavy))
    ]).
