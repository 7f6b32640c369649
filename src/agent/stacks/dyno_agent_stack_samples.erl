%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_samples).
-moduledoc false.
%% What was sampled: stacks of processes that ran, and of those that waited, by groups. Pure.
%%
%% Which frames processes wait in is learned on the way, and stays known over a restart. So only the
%% results tell which of the samples are bursts.

-export([new/0, restart/1, add/5, learn/2, asked_waiting/1]).
-export([groups/1, stacks/1, reductions/1, waiting/1, other/1, running/1]).
-export_type([waiting/0, weight/0]).
-export_type([t/0, group/0, frames/0]).

-opaque t() :: #{
    running := dyno_agent_stack_tree:t(),
    waiting := dyno_agent_stack_tree:t(),
    %% At how many instants those that wait were asked.
    asked := non_neg_integer(),
    %% In which processes wait.
    waits := #{leaf() => true}
}.

-type group() :: dyno_agent_stacks:group().

-doc "As `process_info/2` gives them, the innermost first; `unseen` of a process that had ended.".
-type frames() :: [tuple()] | unseen.

%% The innermost frame is one line of its function.
-type leaf() :: {mfa(), Line :: non_neg_integer()}.

-define(NODES, 20_000).
-define(WAITING_NODES, 5000).
-define(MOST_WAITS, 2000).

-doc "Nothing was sampled.".
-spec new() -> t().
new() ->
    restart(#{waits => #{}}).

-doc "Begins anew.".
-spec restart(t() | #{waits := #{}}) -> t().
restart(#{waits := Waits}) ->
    #{
        running => dyno_agent_stack_tree:new(?NODES),
        waiting => dyno_agent_stack_tree:new(?WAITING_NODES),
        asked => 0,
        waits => Waits
    }.

-doc "For how many a process counts that ran; where reductions are wanted, what is known of these.".
-type weight() :: number() | dyno_agent_stack_reductions:known().

-doc """
A process of a group ran; or so many of them wait, and have so many messages, and so many bytes.
""".
-spec add(running | waiting, group(), frames(), weight(), t()) -> t().
add(Did, Group, Frames, Weight, Samples) ->
    Tree = map_get(Did, Samples),
    Samples#{Did := dyno_agent_stack_tree:add([Group | path(Frames)], Weight, Tree)}.

-doc "Processes wait where this stack ends.".
-spec learn([tuple(), ...], t()) -> t().
learn([Innermost | _], #{waits := Waits} = Samples) when map_size(Waits) < ?MOST_WAITS ->
    Samples#{waits := Waits#{leaf(Innermost) => true}};
learn(_Frames, Samples) ->
    Samples.

-doc "Processes that wait were asked at one more instant.".
-spec asked_waiting(t()) -> t().
asked_waiting(#{asked := Asked} = Samples) ->
    Samples#{asked := Asked + 1}.

%% The outermost first.
path(None) when None =:= unseen; None =:= [] ->
    [unseen];
path([{M, F, A, _} = Innermost | Outer] = Frames) ->
    Path = outer(Outer, {M, F, A}, [leaf(Innermost)]),
    case length(Frames) >= dyno_agent_stack_depth:raised() of
        true -> [deep | Path];
        false -> Path
    end.

%% A function that calls itself is one frame.
outer([], _Inner, Path) -> Path;
outer([{M, F, A, _} | Outer], {M, F, A} = Inner, Path) -> outer(Outer, Inner, Path);
outer([{M, F, A, _} | Outer], _Inner, Path) -> outer(Outer, {M, F, A}, [{M, F, A} | Path]).

leaf({M, F, A, Location}) ->
    {{M, F, A}, proplists:get_value(line, Location, 0)}.

-doc "The samples of those that ran, by group and innermost function.".
-spec groups(t()) -> #{group() => dyno_agent_stacks:group_times()}.
groups(Samples) ->
    lists:foldl(fun count/2, #{}, stacks(Samples)).

count({Group, Stack, Weight}, Groups) ->
    New = #{running => 0, burst => 0, functions => #{}},
    #{running := Running} = Of = maps:get(Group, Groups, New),
    Groups#{Group => counted(lists:last(Stack), Weight, Of#{running := Running + Weight})}.

counted({_, _, _} = MFA, Weight, #{functions := Functions} = Of) ->
    Of#{functions := Functions#{MFA => maps:get(MFA, Functions, 0) + Weight}};
counted(_BurstOrUnseen, Weight, #{burst := Burst} = Of) ->
    Of#{burst := Burst + Weight}.

-doc "The stacks of those that ran.".
-spec stacks(t()) -> [{group(), dyno_agent_stacks:stack(), number()}].
stacks(Samples) ->
    [{Group, Stack, running(Weight)} || {Group, Stack, Weight} <- running_stacks(Samples)].

running_stacks(#{running := Tree, waits := Waits}) ->
    summed([
        {Group, stack(Path, Waits), Weight}
     || {[Group | Path], Weight} <- dyno_agent_stack_tree:paths(Tree)
    ]).

-doc "For how many.".
-spec running(weight()) -> number().
running([Weight | _]) -> Weight;
running(Weight) -> Weight.

-doc "The reductions made in the stacks of those that ran, where these are known.".
-spec reductions(t()) -> #{{group(), dyno_agent_stacks:stack()} => non_neg_integer()}.
reductions(Samples) ->
    dyno_agent_stack_reductions:by_stack([Of || {_, _, [_ | _]} = Of <- running_stacks(Samples)]).

-doc "What waits in a stack: processes, their messages and their bytes; in the mean.".
-type waiting() :: {float(), Messages :: float(), Bytes :: float()}.

-doc "The stacks of those that wait.".
-spec waiting(t()) -> [{group(), dyno_agent_stacks:stack(), waiting()}].
waiting(#{waiting := Tree, asked := Asked}) ->
    Sums = summed([
        {Group, stack(Path, #{}), Weights}
     || {[Group | Path], Weights} <- dyno_agent_stack_tree:paths(Tree)
    ]),
    [
        {Group, Stack, list_to_tuple([Sum / Asked || Sum <- Weights])}
     || {Group, Stack, Weights} <- Sums
    ].

%% Lines no longer tell stacks apart.
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

stack(Path, Waits) ->
    case lists:last(Path) of
        unseen -> Path;
        {MFA, _} = Leaf when is_map_key(Leaf, Waits) -> lists:droplast(Path) ++ [MFA, burst];
        {MFA, _} -> lists:droplast(Path) ++ [MFA]
    end.

-doc "The weight of the stacks of those that ran that found no place.".
-spec other(t()) -> number().
other(#{running := Tree}) ->
    running(dyno_agent_stack_tree:other(Tree)).
