%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_samples).
-moduledoc false.
%% The sampled stacks of running processes, by group and place. Pure.
%%
%% The frames in which processes wait are learned on the way and kept over a restart. So only the
%% results distinguish bursts.

-export([new/0, restart/1, add/5, learn/2, path/1, class/2, without_line/1]).
-export([weights/1, stacks/2, dirty/2, other/1]).
-export_type([t/0, group/0, frames/0, ran/0]).

-opaque t() :: #{
    running := dyno_agent_stack_tree:t(),
    waits := #{leaf() => true}
}.

-type group() :: dyno_agent_stacks:group().

-doc "As `process_info/2` returns them, innermost first; `unseen` of an ended process.".
-type frames() :: [tuple()] | unseen.

%% The innermost frame is one line of its function.
-type leaf() :: {mfa(), Line :: non_neg_integer()}.

-define(NODES, 20_000).
-define(MOST_WAITS, 2000).

-spec new() -> t().
new() ->
    restart(#{waits => #{}}).

-spec restart(t() | #{waits := #{}}) -> t().
restart(#{waits := Waits}) ->
    #{
        running => dyno_agent_stack_tree:new(?NODES),
        waits => Waits
    }.

-type ran() :: normal | dirty.

-spec add(ran(), group(), frames(), number(), t()) -> t().
add(Ran, Group, Frames, Weight, #{running := Tree} = Samples) ->
    Path = [{Ran, Group} | path(Frames)],
    Samples#{running := dyno_agent_stack_tree:add(Path, Weight, Tree)}.

-spec class(ran(), frames()) -> dyno_agent_stack_classes:class().
class(Ran, Frames) -> class_of(Ran, lists:last(path(Frames))).

class_of(Ran, {MFA, _Line}) -> dyno_agent_stack_classes:class(Ran, MFA);
class_of(Ran, Other) -> dyno_agent_stack_classes:class(Ran, Other).

-doc "Processes wait at the end of this stack.".
-spec learn([tuple(), ...], t()) -> t().
learn([Innermost | _], #{waits := Waits} = Samples) when map_size(Waits) < ?MOST_WAITS ->
    Samples#{waits := Waits#{leaf(Innermost) => true}};
learn(_Frames, Samples) ->
    Samples.

-doc "The path of a stack, outermost first. A process without frames has not begun.".
-spec path(frames()) -> [term(), ...].
path(unseen) ->
    [unseen];
path([]) ->
    [burst];
path([{M, F, A, _} = Innermost | Outer] = Frames) ->
    Path = outer(Outer, {M, F, A}, [leaf(Innermost)]),
    case length(Frames) >= dyno_agent_stack_depth:raised() of
        true -> [deep | Path];
        false -> Path
    end.

%% Self-recursive calls are one frame.
outer([], _Inner, Path) -> Path;
outer([{M, F, A, _} | Outer], {M, F, A} = Inner, Path) -> outer(Outer, Inner, Path);
outer([{M, F, A, _} | Outer], _Inner, Path) -> outer(Outer, {M, F, A}, [{M, F, A} | Path]).

leaf({M, F, A, Location}) ->
    {{M, F, A}, proplists:get_value(line, Location, 0)}.

-spec weights(t()) -> #{dyno_agent_stack_classes:class() => number()}.
weights(#{running := Tree}) ->
    lists:foldl(
        fun({[{Ran, _Group} | Path], Weight}, Sums) ->
            Class = class_of(Ran, lists:last(Path)),
            Sums#{Class => maps:get(Class, Sums, 0) + Weight}
        end,
        #{},
        dyno_agent_stack_tree:paths(Tree)
    ).

-type factors() :: #{dyno_agent_stack_classes:class() => number()}.

-spec stacks(factors(), t()) -> [{group(), dyno_agent_stacks:stack(), number()}].
stacks(Factors, #{running := Tree, waits := Waits}) ->
    [
        {Group, Stack, Weight}
     || {Group, Stack, Weight} <- summed([
            {Group, stack(Path, Waits), Weight * factor(Ran, Path, Factors)}
         || {[{Ran, Group} | Path], Weight} <- dyno_agent_stack_tree:paths(Tree)
        ]),
        Weight > 0
    ].

factor(Ran, Path, Factors) -> maps:get(class_of(Ran, lists:last(Path)), Factors, 1).

-doc "The stacks of a dirty class, with their weights.".
-spec dirty(dyno_agent_stack_classes:class(), t()) ->
    [{group(), dyno_agent_stacks:stack(), number()}].
dirty(Class, #{running := Tree}) ->
    summed([
        {Group, without_line(Path), Weight}
     || {[{Ran, Group} | Path], Weight} <- dyno_agent_stack_tree:paths(Tree),
        class_of(Ran, lists:last(Path)) =:= Class
    ]).

summed(Stacks) ->
    Sums = lists:foldl(
        fun({Group, Stack, Weight}, Acc) ->
            Before = maps:get({Group, Stack}, Acc, 0),
            Acc#{{Group, Stack} => dyno_agent_stack_tree:plus(Before, Weight)}
        end,
        #{},
        Stacks
    ),
    [{Group, Stack, Weight} || {Group, Stack} := Weight <- Sums].

-spec without_line([term(), ...]) -> dyno_agent_stacks:stack().
without_line(Path) -> stack(Path, #{}).

stack(Path, Waits) ->
    case lists:last(Path) of
        Word when Word =:= unseen; Word =:= burst -> Path;
        {MFA, _} = Leaf when is_map_key(Leaf, Waits) -> lists:droplast(Path) ++ [MFA, burst];
        {MFA, _} -> lists:droplast(Path) ++ [MFA]
    end.

-spec other(t()) -> dyno_agent_stack_tree:weight().
other(#{running := Tree}) -> dyno_agent_stack_tree:other(Tree).
