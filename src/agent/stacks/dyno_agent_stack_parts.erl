%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_parts).
-moduledoc false.
%% Sampled stacks in the recording: the profile that flame graphs are drawn of, the calls in which
%% processes wait, and warnings. Pure, and needed on the caller's side only.

-export([profiles/0, tables/0, metrics/0, warnings/2, burst/0]).

-type result() :: dyno_agent_stacks:result().

%% The rarest ones are one.
-define(MOST_STACKS, 1500).
-define(MOST_WAITING, 200).
%% A part of the samples that is worth a sentence.
-define(MUCH, 0.05).

-spec profiles() -> [dyno_agent_instrument:profile()].
profiles() ->
    [
        #{
            name => ~"stacks",
            title => ~"Processor time",
            values => [#{name => ~"time", unit => ~"ns"}],
            stacks => fun stacks/1
        },
        #{
            name => ~"reductions",
            title => ~"Reductions",
            values => [#{name => ~"reductions", unit => ~"count"}],
            stacks => fun reductions/1
        },
        #{
            name => ~"waiting_stacks",
            title => ~"Waiting processes",
            values => [
                #{name => ~"waiting", unit => ~"ns"},
                #{name => ~"messages", unit => ~"count"},
                #{name => ~"memory", unit => ~"B"}
            ],
            stacks => fun waiting_stacks/1
        }
    ].

reductions(#{reductions := Reductions, all_reductions := All}) ->
    Stacks = merged([{Group, Stack, Made} || {Group, Stack} := Made <- Reductions, Made > 0]),
    {Most, Rest} = most(?MOST_STACKS, 3, Stacks),
    Unseen =
        case All of
            none -> 0;
            _ -> All - weight(Stacks)
        end,
    [{printed(Stack), [Made], #{processes => group(Group)}} || {Group, Stack, Made} <- Most] ++
        [
            {[Frame], [Made], #{}}
         || {Frame, Made} <- [{~"(other stacks)", weight(Rest)}, {unseen(), Unseen}], Made > 0
        ].

%% Of the processes the time that they waited, of messages and memory the mean.
waiting_stacks(#{purpose := test}) ->
    [];
waiting_stacks(#{waiting := Stacks, duration_ns := DurationNs}) ->
    {Most, _} = most(?MOST_STACKS, 3, Stacks),
    [
        {printed(Stack), [round(Mean * DurationNs), round(Messages), round(Bytes)], #{
            processes => group(Group)
        }}
     || {Group, Stack, {Mean, Messages, Bytes}} <- Most
    ].

%% Each stack's part of the time that the schedulers worked.
stacks(#{stacks := Stacks, cpu_ns := CpuNs, other := Other, elsewhere := Elsewhere}) ->
    All = max(1, Other + Elsewhere + weight(Stacks)),
    Ns = fun(Weight) -> round(Weight / All * CpuNs) end,
    {Most, Rest} = most(?MOST_STACKS, 3, merged(Stacks)),
    [
        {printed(Stack), [Ns(Weight)], #{processes => group(Group)}}
     || {Group, Stack, Weight} <- Most
    ] ++ [{[~"(other stacks)"], [Ns(More)], #{}} || More <- [Other + weight(Rest)], More > 0].

weight(Stacks) -> lists:sum([Weight || {_, _, Weight} <- Stacks]).

most(Most, Position, Items) ->
    lists:split(min(Most, length(Items)), lists:reverse(lists:keysort(Position, Items))).

%% A stack that is cut at its outer end is put where a whole one has the function that it begins
%% with, the one with the greatest weight.
merged(Stacks) ->
    {Cut, Whole} = lists:partition(fun({_, Stack, _}) -> hd(Stack) =:= deep end, Stacks),
    {ByWeight, _} = most(length(Whole), 3, Whole),
    Found = [{{Group, rooted(Group, Stack, ByWeight)}, Weight} || {Group, Stack, Weight} <- Cut],
    Sums = summed([{{Group, Stack}, Weight} || {Group, Stack, Weight} <- Whole] ++ Found),
    [{Group, Stack, Weight} || {{Group, Stack}, Weight} <- Sums].

summed(Weights) ->
    Add = fun({Key, Weight}, Sums) ->
        maps:update_with(Key, fun(Before) -> Before + Weight end, Weight, Sums)
    end,
    maps:to_list(lists:foldl(Add, #{}, Weights)).

rooted(Group, [deep, First | Inner] = Stack, ByWeight) ->
    Roots = [
        Outer
     || {Of, Path, _} <- ByWeight,
        Of =:= Group,
        {Outer, [Same | _]} <- [lists:splitwith(fun(Frame) -> Frame =/= First end, Path)],
        Same =:= First
    ],
    case Roots of
        [Outer | _] -> Outer ++ [First | Inner];
        [] -> Stack
    end.

printed(Stack) -> [frame(Frame) || Frame <- Stack].

frame({_, _, _} = MFA) -> dyno_agent_name:mfa(MFA);
frame(deep) -> ~"(further out than the runtime shows)";
frame(burst) -> burst();
frame(unseen) -> ~"(ended before it could be asked)".

-doc "The innermost frame of a process that its stack shows where it waited.".
-spec burst() -> binary().
burst() -> ~"(ready to run, or ran shortly, from here)".

%% What ended before it was seen, came after it was seen last, or found no place.
unseen() -> ~"(made where no stack was seen)".

group(Group) -> element(1, dyno_agent_kind:print(Group)).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    [
        #{
            name => ~"waiting",
            title => ~"Where processes wait",
            items => fun waiting/1,
            columns => [
                {~"call", ~"Waits in", string, #{role => key}, fun({{_, Call, _}, _}) ->
                    dyno_agent_name:mfa(Call)
                end},
                {~"caller", ~"Called by", string,
                    #{role => key, help => ~"The nearest function that is not of OTP's base."}, fun
                        ({{_, _, none}, _}) -> undefined;
                        ({{_, _, Caller}, _}) -> dyno_agent_name:mfa(Caller)
                    end},
                {~"processes", ~"Processes", string, #{role => key}, fun({{Group, _, _}, _}) ->
                    group(Group)
                end},
                {~"waiting", ~"Processes waiting", {number, ~"count"},
                    #{help => ~"At one instant, in the mean; estimated from some processes."},
                    fun({_, Mean}) -> Mean end}
            ]
        }
    ].

waiting(#{waiting := []}) ->
    none;
waiting(#{waiting := Stacks}) ->
    Base = maps:from_keys(dyno_agent_patterns:base(), true),
    Calls = [
        {{Group, lists:last(Stack), caller(lists:reverse(Stack), Base)}, Mean}
     || {Group, Stack, {Mean, _, _}} <- Stacks
    ],
    {Most, _} = most(?MOST_WAITING, 2, summed(Calls)),
    Most.

caller([_Call | Outer], Base) ->
    case [MFA || {M, _, _} = MFA <- Outer, not is_map_key(M, Base)] of
        [Nearest | _] -> Nearest;
        [] -> none
    end.

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => ~"instrument.stacks",
            title => ~"What sampling stacks took of the time of one scheduler",
            unit => ~"ratio",
            group => ~"instrument",
            value => fun(Results) ->
                Shares = [
                    CostNs / max(1, DurationNs)
                 || #{cost_ns := CostNs, duration_ns := DurationNs} <- Results
                ],
                {lists:max(Shares), lists:sum([N || #{instants := N} <- Results])}
            end
        }
    ].

-spec warnings(Role :: binary(), result()) -> [dyno_agent_instrument:warning()].
warnings(Role, #{stacks := Stacks, other := Other, started := Started}) ->
    All = max(1, Other + weight(Stacks)),
    Unseen = weight([Of || {_, [unseen], _} = Of <- Stacks]),
    [
        {~"short_processes",
            "~ts of the processor time of ~ts went to processes that ended before they could be "
            "asked for their stacks (~ts were started): no stack shows what they did; the functions' own "
            "times do, where they are measured",
            [{Unseen / All, ~"ratio"}, Role, {Started, ~"count"}]}
     || Unseen > ?MUCH * All
    ] ++
        [
            {~"many_stacks",
                "~ts of the processor time of ~ts is in more different stacks than are kept: it is "
                "in no function",
                [{Other / All, ~"ratio"}, Role]}
         || Other > ?MUCH * All
        ].
