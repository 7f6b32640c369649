%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_observation).
-moduledoc false.
%% Decides what happens to observed nodes, for every command that observes nodes. Pure:
%% dyno_observer carries out the effects.
%%
%%   lost, gave_up             -> leave the node; after the last node, finish
%%   time, stop, interrupted   -> finish
%%
%% A node counts as observed until its last sign of life, however late its loss is noticed.

-export([new/2, event/2, ended/2]).
-export_type([t/0, event/0, effect/0, ended/0]).

-opaque t() :: #{
    nodes := [node()],
    %% Nodes that are not present, or that were observed for another time.
    known := #{node() => {present | lost | unobserved, ObservedNs :: non_neg_integer()}},
    asked_ms := pos_integer() | undefined,
    status := observing | complete | interrupted | failed,
    seen := #{node() => non_neg_integer()},
    warnings := [{Code :: binary(), Text :: binary()}]
}.

-type event() ::
    {seen, node(), AtNs :: non_neg_integer()}
    | {lost, node()}
    | {gave_up, node(), Why :: unicode:chardata()}
    | {without, node(), [module()], Why :: unicode:chardata()}
    %% Final state of a node, and the time for which it was observed.
    | {present | lost, node(), ObservedNs :: non_neg_integer()}
    %% One node was left; these nodes remain.
    | {left, [node()]}
    | {warning, Code :: binary(), unicode:chardata()}
    %% The time is over, enough was seen, or a process that observation needs has ended.
    | time
    | stop
    | interrupted
    | failed.

-type effect() :: {leave, node(), how_lost(), Why :: unicode:chardata()} | finish.

-type how_lost() :: {lost | unobserved, ObservedNs :: non_neg_integer()}.

-type ended() :: #{
    ending := dyno_recording_cut_short:ending(),
    duration_ns := non_neg_integer(),
    lost := dyno_recording_cut_short:lost(),
    warnings := [{Code :: binary(), Text :: binary()}]
}.

-doc "Without a time, observation continues until an interrupt.".
-spec new([node()], AskedMs :: pos_integer() | undefined) -> t().
new(Nodes, AskedMs) ->
    #{
        nodes => Nodes,
        known => #{},
        asked_ms => AskedMs,
        status => observing,
        seen => #{},
        warnings => []
    }.

-spec event(event(), t()) -> {t(), [effect()]}.
event({seen, Node, AtNs}, #{seen := Seen} = State) ->
    {State#{seen := Seen#{Node => AtNs}}, []};
event({lost, Node}, State) ->
    Why = ["node ", atom_to_binary(Node), " was lost"],
    left(Node, lost, Why, State);
event({gave_up, Node, Why}, State) ->
    Text = ["what measured node ", atom_to_binary(Node), " gave up: ", Why],
    left(Node, unobserved, Text, warned(~"gave_up", Text, State));
event({without, Node, Instruments, Why}, State) ->
    Text = io_lib:format("~ts went on without ~0tp: ~ts", [Node, Instruments, Why]),
    {Unobserved, _} = left(Node, unobserved, Text, warned(~"without", Text, State)),
    {Unobserved, []};
event({How, Node, Ns}, #{known := Known} = State) when How =:= present; How =:= lost ->
    {State#{known := Known#{Node => {How, Ns}}}, []};
event({left, []}, State) ->
    finish(failed, State);
event({left, _Others}, State) ->
    {State, []};
event({warning, Code, Text}, State) ->
    {warned(Code, Text, State), []};
event(time, State) ->
    finish(complete, State);
event(stop, #{status := observing} = State) ->
    finish(complete, State#{asked_ms := undefined});
event(stop, State) ->
    {State, []};
event(Status, State) ->
    finish(Status, State).

left(Node, How, Why, #{known := Known, seen := Seen} = State) ->
    Lost = {How, maps:get(Node, Seen, 0)},
    {State#{known := Known#{Node => Lost}}, [{leave, Node, Lost, Why}]}.

warned(Code, Text, #{warnings := Warnings} = State) ->
    State#{warnings := [{Code, dyno_recording_part:text("~ts", [Text])} | Warnings]}.

%% Only the first reason to finish counts.
finish(Status, #{status := observing} = State) -> {State#{status := Status}, [finish]};
finish(_Status, State) -> {State, []}.

-spec ended(DurationNs :: non_neg_integer(), t()) -> ended().
ended(DurationNs, #{nodes := Nodes, known := Known, asked_ms := AskedMs} = State) ->
    #{status := Status, warnings := Warnings} = State,
    Seen = dyno_recording_cut_short:nodes(Nodes, Known, DurationNs),
    Ending = dyno_recording_cut_short:ended(Status, AskedMs, Seen),
    %% The error of an interrupted observation does not name lost nodes.
    Lost = [
        {
            ~"node_lost",
            dyno_recording_part:text("node ~ts was lost after ~ts", [
                Node, dyno_unit:format(Ns, ~"ns")
            ])
        }
     || not is_map_key(error, Ending), Node := {lost, Ns} <- Known
    ],
    #{
        ending => Ending,
        duration_ns => DurationNs,
        lost => #{Node => Of || Node := {How, _} = Of <- Known, How =/= present},
        warnings => lists:reverse(Warnings, Lost)
    }.
