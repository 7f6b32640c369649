%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_reductions).
-moduledoc false.
%% Which processes made how many reductions, which the runtime counts, and in which stacks, which it
%% does not. Known are those that a process has made since it was seen last; so their sum is. But in
%% the milliseconds from one instant to the next it goes through many functions. So some are asked
%% again at once, for how fast they make reductions where they were seen; the sum of a group is for
%% its stacks by this speed times how often each was seen.
%%
%% Who ran shortly and waits tells no speed: where it was seen, it gets what it made since the last
%% time. What all have made together the runtime counts, too.
%%
%% All processes are asked once, at the beginning, so that whoever is not known later is younger. At
%% more than ?BEGINNING of them nobody is asked: then what a process did before it is seen first is
%% of no stack.

-export([new/0, since/3, all/1, by_stack/1]).
-export_type([t/0, known/0]).

-opaque t() :: #{
    last := #{pid() => Reductions :: non_neg_integer()},
    %% Whether those that are not known have begun since.
    others_are_new := boolean(),
    %% Until the beginning, of all processes and of dyno's own.
    node := non_neg_integer(),
    own := #{pid() => non_neg_integer()}
}.

-doc """
Of a stack: how often it was seen, what its processes had made since the last time, and what they
made in which time when they were asked again.
""".
-type known() :: [number()].

-define(BEGINNING, 2000).
-define(MOST, 10_000).

-doc "Begins with what the processes have done until now.".
-spec new() -> t().
new() ->
    Few = erlang:system_info(process_count) =< ?BEGINNING,
    #{
        last =>
            case Few of
                true -> of_each(processes() -- [self()]);
                false -> #{}
            end,
        others_are_new => Few,
        node => of_node(),
        own => own()
    }.

-doc "What a process that has made so many did since it was seen last; 0 where that is not known.".
-spec since(pid(), Reductions :: non_neg_integer(), t()) -> {non_neg_integer(), t()}.
since(Pid, Reductions, #{last := Last, others_are_new := OthersAreNew} = T) ->
    Since =
        case Last of
            #{Pid := Before} -> Reductions - Before;
            #{} when OthersAreNew -> Reductions;
            #{} -> 0
        end,
    {Since, bounded(T#{last := Last#{Pid => Reductions}})}.

%% Those that have ended make room. Where that is not much all are forgotten.
bounded(#{last := Last} = T) when map_size(Last) =< ?MOST ->
    T;
bounded(#{last := Last} = T) ->
    case maps:filter(fun(Pid, _) -> is_process_alive(Pid) end, Last) of
        Alive when map_size(Alive) =< ?MOST div 2 -> T#{last := Alive};
        _ -> T#{last := #{}, others_are_new := false}
    end.

-doc "What was made in each stack.".
-spec by_stack([{Group, Stack, known()}]) -> #{{Group, Stack} => non_neg_integer()} when
    Group :: dyno_agent_stacks:group(), Stack :: dyno_agent_stacks:stack().
by_stack(Stacks) ->
    Classes = maps:groups_from_list(
        fun({Group, Stack, _}) -> {Group, lists:last(Stack) =:= burst} end, Stacks
    ),
    #{Key => Made || {_, IsBurst} := Of <- Classes, {Key, Made} <- made(IsBurst, Of)}.

made(IsBurst, Stacks) ->
    [Made, InTime, Time] = [
        lists:sum([lists:nth(N, Known) || {_, _, Known} <- Stacks])
     || N <- [2, 3, 4]
    ],
    case IsBurst orelse InTime =:= 0 of
        true ->
            [{{Group, Stack}, Since} || {Group, Stack, [_, Since, _, _]} <- Stacks];
        false ->
            %% One that was not asked again is as fast as the others.
            Parts = [
                {{Group, Stack},
                    case Known of
                        [Seen, _, _, 0] -> Seen * InTime / Time;
                        [Seen, _, Of, Took] -> Seen * Of / Took
                    end}
             || {Group, Stack, Known} <- Stacks
            ],
            All = lists:sum([Part || {_, Part} <- Parts]),
            [{Key, round(Made * Part / All)} || {Key, Part} <- Parts, All > 0]
    end.

-doc "What all processes but dyno's own did since the beginning.".
-spec all(t()) -> number().
all(#{node := Before, own := OwnBefore}) ->
    Own = lists:sum([Now - maps:get(Pid, OwnBefore, 0) || Pid := Now <- own()]),
    max(0, of_node() - Before - Own).

of_node() ->
    {Reductions, _} = erlang:statistics(reductions),
    Reductions.

%% The guard and its instruments.
own() -> of_each([self() | dyno_agent_process:others()]).

of_each(Pids) ->
    #{Pid => Of || Pid <- Pids, {reductions, Of} <- [process_info(Pid, reductions)]}.
