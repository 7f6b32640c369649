%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_sample).
-moduledoc false.
%% The kind `sample`: the stacks of what runs, at random instants (dyno_agent_stacks).

-behaviour(dyno_profile_kind).

-export([instruments/1, parts/2]).

%% From here on the stacks leave open what the processes did.
-define(MUCH, 0.3).

-spec instruments(dyno_profile:options()) -> {ok, dyno_profile_kind:instruments()}.
instruments(_Options) -> {ok, #{on => [stacks, vm, os]}}.

-spec parts(dyno_target_results:parts(), dyno_profile:options()) -> dyno_target_results:parts().
parts(#{profiles := Profiles, warnings := Warnings} = Parts, _Options) ->
    Parts#{warnings := Warnings ++ lists:append([bursts(P) || #{name := ~"stacks"} = P <- Profiles])}.

bursts(#{frames := Frames, samples := Samples, node := Node}) ->
    Burst = dyno_agent_stack_parts:burst(),
    Names = list_to_tuple(Frames),
    Weight = fun(Of) -> lists:sum([Value || #{values := [Value | _]} <- Of]) end,
    Short = Weight([
        Sample
     || #{stack := Stack} = Sample <- Samples, element(lists:last(Stack) + 1, Names) =:= Burst
    ]),
    [
        {~"bursts",
            dyno_recording_part:text(
                "~ts of the processor time of ~ts went to processes that ran too shortly for their "
                "stacks to show what they did, or that were ready and got no processor: the stacks "
                "show where these waited; --kind time, or --kind calls of a few of them, tells what "
                "they did",
                [dyno_unit:format(Short / Weight(Samples), ~"ratio"), Node]
            )}
     || Short > ?MUCH * Weight(Samples)
    ].
