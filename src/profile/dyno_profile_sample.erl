%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_sample).
-moduledoc false.
%% The kind `sample`: the stacks of what runs, at random instants (dyno_agent_stacks).

-behaviour(dyno_profile_kind).

-export([instruments/1, parts/2]).

%% If the stacks say of less of the processor time what it went to, the reader is told what does.
-define(ENOUGH, 0.7).
%% Warnings that then say the same.
-define(COVERED, [~"short_processes", ~"processor_time_not_seen"]).

-spec instruments(dyno_profile:options()) -> {ok, dyno_profile_kind:instruments()}.
instruments(_Options) -> {ok, #{on => [stacks, vm, os]}}.

-spec parts(dyno_target_results:parts(), dyno_profile:options()) -> dyno_target_results:parts().
parts(#{profiles := Profiles, warnings := Warnings} = Parts, _Options) ->
    case lists:append([unseen(P) || #{name := ~"stacks"} = P <- Profiles]) of
        [] -> Parts;
        Unseen -> Parts#{warnings := Unseen ++ [W || {Code, _} = W <- Warnings, is_other(Code)]}
    end.

is_other(Code) -> not lists:member(Code, ?COVERED).

unseen(#{frames := Frames, samples := Samples, node := Node}) ->
    Names = list_to_tuple(Frames),
    Weight = fun(Of) -> lists:sum([Value || #{values := [Value | _]} <- Of]) end,
    Seen = Weight([
        Sample
     || #{stack := Stack} = Sample <- Samples,
        dyno_agent_stack_parts:is_seen(element(lists:last(Stack) + 1, Names))
    ]),
    Share = Seen / max(1, Weight(Samples)),
    [
        {~"bursts",
            dyno_recording_part:text(
                "the stacks show what ~ts of the processor time of ~ts went to; the rest went to "
                "processes that ran too shortly to be asked. dyno profile ~ts --kind cpu sees it, by "
                "native code that it loads into the node",
                [dyno_unit:format(Share, ~"ratio"), Node, Node]
            )}
     || Share < ?ENOUGH
    ].
