%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_calls).
-moduledoc "A profile as a tree of its heaviest calls, from the outermost or the innermost on.".

-export([section/5]).

-import(dyno_report_document, [measured/2]).

%% A smaller share is not shown.
-define(LEAST, 0.005).

-type tree() :: #{Frame :: binary() => {number(), tree()}}.

-doc "The tree of a profile's first value, with a number of lines.".
-spec section(
    dyno_report_document:object(), binary(), down | up, pos_integer(), Unit :: binary()
) ->
    [dyno_report_section:table()].
section(Profile, Title, View, Most, Unit) ->
    Stacks = [
        {way(View, Labels ++ Stack), Value}
     || {Labels, Stack, [Value | _]} <- dyno_report_stacks:samples(Profile),
        is_number(Value),
        Value > 0
    ],
    All = lists:sum([Value || {_, Value} <- Stacks]),
    Tree = lists:foldl(fun({Stack, Value}, Acc) -> add(Stack, Value, Acc) end, #{}, Stacks),
    Lines = lines(Tree, 0, least(Tree, Most, ?LEAST * All)),
    dyno_report_section:table(
        Title,
        [
            {heading(View), name, fun({Line, _}) -> Line end},
            {~"share", number, fun({_, Value}) -> measured(Value / All, ~"ratio") end},
            {~"", optional, fun({_, Value}) -> measured(Value, Unit) end}
        ],
        lists:sublist(Lines, Most)
    ).

heading(down) -> ~"processes, and what they call";
heading(up) -> ~"function, and who calls it".

way(down, Path) -> Path;
way(up, Path) -> lists:reverse(Path).

-spec add([binary()], number(), tree()) -> tree().
add([], _Value, Tree) ->
    Tree;
add([Frame | Rest], Value, Tree) ->
    {Sum, Below} = maps:get(Frame, Tree, {0, #{}}),
    Tree#{Frame => {Sum + Value, add(Rest, Value, Below)}}.

%% The least value shown. A call is never heavier than its parent, so this keeps whole branches.
least(Tree, Most, Least) ->
    case lists:reverse(lists:sort([Value || {_, Value} <- lines(Tree, 0, Least)])) of
        Values when length(Values) > Most -> lists:nth(Most, Values);
        _ -> Least
    end.

lines(Tree, Depth, Least) ->
    Heavy = [{Value, Frame, Below} || Frame := {Value, Below} <- Tree, Value >= Least],
    lists:append([
        [
            {<<(binary:copy(~" ", Depth))/binary, Frame/binary>>, Value}
            | lines(Below, Depth + 1, Least)
        ]
     || {Value, Frame, Below} <- lists:reverse(lists:sort(Heavy))
    ]).
