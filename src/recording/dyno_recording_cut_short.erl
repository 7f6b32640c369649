%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_cut_short).
-moduledoc false.
%% Marks runs that were cut short: a node was lost, or the node or dyno stood still. The status is
%% `partial`, or `failed` if no node was observed to the end. A demand that seems to hold is then
%% undecided, since the rest is unknown. Pure.

-export([ended/3, nodes/3, put/2, of_run/1, asked_ms/1, is_whole/2, verdicts/2, seen/2]).
-export_type([node_seen/0, lost/0, ending/0]).

-type node_seen() :: {node(), present | how_lost(), ObservedNs :: non_neg_integer()}.

-type how_lost() :: lost | unobserved.

-type lost() :: #{node() => {how_lost(), ObservedNs :: non_neg_integer()}}.

-type status() :: complete | partial | failed | interrupted.

-type ending() :: #{status := status(), error => #{code := binary(), text := binary()}}.

%% This share may be missing: the first and last window of a busy machine are short.
-define(MISSING, 0.2).

-doc "A run's status, and the reason if incomplete; without a requested time, of lost nodes.".
-spec ended(complete | failed | interrupted, AskedMs :: pos_integer() | undefined, [node_seen()]) ->
    ending().
ended(interrupted, _AskedMs, _Nodes) ->
    #{status => interrupted};
ended(Status, AskedMs, Nodes) ->
    Short = [Of || Of <- Nodes, is_short(AskedMs, Of)],
    ToTheEnd = [present || {_, present, Ns} <- Nodes, Ns > 0],
    case {Status, Short, ToTheEnd} of
        {complete, [], _} -> #{status => complete};
        {complete, _, [_ | _]} -> explained(partial, AskedMs, Short);
        {_, _, _} -> explained(failed, AskedMs, Short)
    end.

-spec nodes([node()], lost(), ObservedNs :: non_neg_integer()) -> [node_seen()].
nodes(Nodes, Lost, DurationNs) ->
    [
        {Node, How, Ns}
     || Node <- Nodes, {How, Ns} <- [maps:get(Node, Lost, {present, DurationNs})]
    ].

is_short(undefined, {_Node, present, Ns}) -> Ns =:= 0;
is_short(AskedMs, {_Node, present, Ns}) -> Ns < (1 - ?MISSING) * AskedMs * 1_000_000;
is_short(_AskedMs, {_Node, _Lost, _Ns}) -> true.

explained(Status, _AskedMs, []) ->
    Text = ~"measuring ended before its time; try again",
    #{status => Status, error => #{code => ~"cut_short", text => Text}};
explained(Status, AskedMs, Short) ->
    Sentences = [
        [why(Of), ": ", seen(Ns, AskedMs), " were observed"]
     || {_, _, Ns} = Of <- lists:sort(Short)
    ],
    Text = dyno_recording_part:text("~ts", [lists:join("; ", Sentences)]),
    #{status => Status, error => #{code => ~"cut_short", text => Text}}.

why({Node, lost, _}) -> ["node ", atom_to_binary(Node), " was lost"];
why({Node, unobserved, _}) -> ["what measured node ", atom_to_binary(Node), " gave up"];
why({Node, present, _}) -> ["node ", atom_to_binary(Node), ", or dyno, stood still"].

-doc "The observed time: `4 s of 12 s`.".
-spec seen(ObservedNs :: non_neg_integer(), AskedMs :: pos_integer() | undefined) ->
    unicode:chardata().
seen(0, AskedMs) when is_integer(AskedMs) -> ["0 s of ", dyno_unit:format(AskedMs, ~"ms")];
seen(Ns, undefined) -> dyno_unit:format(Ns, ~"ns");
seen(Ns, AskedMs) -> [dyno_unit:format(Ns, ~"ns"), " of ", dyno_unit:format(AskedMs, ~"ms")].

-spec put(ending(), dyno_recording:document()) -> dyno_recording:document().
put(Ending, Document) ->
    maps:fold(
        fun(Field, Value, Before) -> dyno_recording:put(Before, Field, Value) end, Document, Ending
    ).

-doc "The status of a recording's run. `partial` means a run still being written.".
-spec of_run(ending()) -> complete | failed | interrupted.
of_run(#{status := partial}) -> failed;
of_run(#{status := Status}) -> Status.

-spec asked_ms(dyno_recording:document()) -> pos_integer() | undefined.
asked_ms(#{~"parameters" := #{~"duration_ms" := Ms}}) when is_integer(Ms) -> Ms;
asked_ms(_Document) -> undefined.

-spec is_whole(Status :: atom() | binary(), AskedMs :: pos_integer() | undefined) -> boolean().
is_whole(Status, AskedMs) when is_atom(Status) -> is_whole(atom_to_binary(Status), AskedMs);
is_whole(Status, undefined) -> Status =:= ~"complete" orelse Status =:= ~"interrupted";
is_whole(Status, _AskedMs) -> Status =:= ~"complete".

-spec verdicts(IsWhole :: boolean(), [#{atom() => term()}]) -> [#{atom() => term()}].
verdicts(true, Verdicts) ->
    Verdicts;
verdicts(false, Verdicts) ->
    [
        case Verdict of
            #{result := pass, text := Text} ->
                Verdict#{
                    result := unknown,
                    text := dyno_recording_part:text("~ts, but the run was cut short", [Text])
                };
            #{} ->
                Verdict
        end
     || Verdict <- Verdicts
    ].
