%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_joins).
-moduledoc false.
%% The targets of a run, which may join and leave while it goes on.
%%
%% Where a suite has targets/1, a process calls it every second and tells the run of nodes that it
%% has not named before. A node that leaves takes its readings with it; where there are several
%% targets, all are therefore read now and then, and what was read last is kept of those that leave.

%% The process
-export([start/3, stop/1]).
%% The targets; pure
-export([new/2, present/1, all/1, aligned/2, joined/3, left/3, without/2]).
-export([is_due/2, read/3, readings_of_left/1]).

-export_type([t/0]).

-opaque t() :: #{
    present := [dyno_targets:target()],
    %% With those that have left, as the recording names them.
    all := [dyno_targets:target()],
    read := #{node() => dyno_targets:results()},
    read_ms := integer(),
    left := [dyno_targets:results()]
}.

-define(EVERY_MS, 1000).
%% The most that a node may take with it.
-define(READ_EVERY_MS, 2000).

-doc """
Starts the process, linked to the caller, where the suite has targets/1. The caller receives
`{dyno_joins, Pid, {joined, [Target]}}` and, once at the most,
`{dyno_joins, Pid, {not_joined, Text}}`.
""".
-spec start(module(), term(), [node()]) -> pid() | none.
start(Module, RunState, Nodes) ->
    case erlang:function_exported(Module, targets, 1) of
        true ->
            Owner = self(),
            spawn_link(fun() ->
                proc_lib:set_label(?MODULE),
                poll(Module, RunState, Owner, Nodes)
            end);
        false ->
            none
    end.

-doc "Ends it; nothing of it comes any more.".
-spec stop(pid() | none) -> ok.
stop(none) ->
    ok;
stop(Pid) ->
    unlink(Pid),
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive
        {'DOWN', Ref, process, Pid, _} -> flush(Pid)
    end.

flush(Pid) ->
    receive
        {dyno_joins, Pid, _} -> flush(Pid);
        {'EXIT', Pid, _} -> flush(Pid)
    after 0 -> ok
    end.

poll(Module, RunState, Owner, Nodes) ->
    receive
    after ?EVERY_MS -> ok
    end,
    case called(Module, RunState) of
        {ok, Targets} ->
            case [T || {Node, _} = T <- Targets, not lists:member(Node, Nodes)] of
                [] ->
                    poll(Module, RunState, Owner, Nodes);
                New ->
                    Owner ! {dyno_joins, self(), {joined, New}},
                    poll(Module, RunState, Owner, Nodes ++ [Node || {Node, _} <- New])
            end;
        {error, Text} ->
            %% Once: it would say the same every second.
            Owner ! {dyno_joins, self(), {not_joined, Text}},
            ok
    end.

called(Module, RunState) ->
    try Module:targets(RunState) of
        Value ->
            case dyno_suite:targets(Value) of
                {ok, Targets} ->
                    {ok, Targets};
                error ->
                    Format = "~ts:targets/1 returned ~0tP; a list of nodes is expected, or of "
                        "{Node, Patterns}",
                    {error, dyno_recording_part:text(Format, [Module, Value, 12])}
            end
    catch
        Class:Reason ->
            Format = "~ts:targets/1 raised ~ts: ~0tP",
            {error, dyno_recording_part:text(Format, [Module, Class, Reason, 12])}
    end.

-doc "The targets that a run begins with.".
-spec new([dyno_targets:target()], NowMs :: integer()) -> t().
new(Targets, NowMs) ->
    #{present => Targets, all => Targets, read => #{}, read_ms => NowMs, left => []}.

-doc "The targets that are there.".
-spec present(t()) -> [dyno_targets:target()].
present(#{present := Present}) -> Present.

-doc "All that were there at some time.".
-spec all(t()) -> [dyno_targets:target()].
all(#{all := All}) -> All.

-doc "The same targets, with their times brought to those of this node.".
-spec aligned([dyno_targets:target()], t()) -> t().
aligned(Targets, #{all := All} = Joins) ->
    ByNode = #{Node => Target || #{node := Node} = Target <- Targets},
    Joins#{present := Targets, all := [maps:get(N, ByNode, T) || #{node := N} = T <- All]}.

-doc "With targets that joined so many milliseconds after the run's start, or before it.".
-spec joined([dyno_targets:target()], InRunMs :: integer() | undefined, t()) -> t().
joined(Targets, InRunMs, #{present := Present, all := All} = Joins) ->
    New = [with_fact(joined_ms, InRunMs, Target) || Target <- Targets],
    Joins#{present := Present ++ New, all := All ++ New}.

with_fact(_Key, undefined, Target) -> Target;
with_fact(Key, InRunMs, Target) -> dyno_targets:fact(Key, InRunMs, Target).

-doc "Without a target that left; what was read of it last is kept.".
-spec left(node(), InRunMs :: integer(), t()) -> t().
left(Node, InRunMs, #{all := All, read := Read, left := Left} = Joins) ->
    Marked = [
        case Target of
            #{node := Node} -> dyno_targets:fact(left_ms, InRunMs, Target);
            #{} -> Target
        end
     || Target <- All
    ],
    without(Node, Joins#{all := Marked, left := [F || Of := F <- Read, Of =:= Node] ++ Left}).

-doc "Without a target that is not there any more, for a run that ends.".
-spec without(node(), t()) -> t().
without(Node, #{present := Present} = Joins) ->
    Joins#{present := [T || #{node := Of} = T <- Present, Of =/= Node]}.

-doc "Whether it is time to read the targets. A single one ends the run when it leaves.".
-spec is_due(NowMs :: integer(), t()) -> boolean().
is_due(NowMs, #{present := [_, _ | _], read_ms := ReadMs}) -> NowMs - ReadMs >= ?READ_EVERY_MS;
is_due(_NowMs, _Joins) -> false.

-doc "Keeps what was read.".
-spec read(#{node() => dyno_targets:results()}, NowMs :: integer(), t()) -> t().
read(New, NowMs, #{read := Read} = Joins) ->
    Joins#{read := maps:merge(Read, New), read_ms := NowMs}.

-doc "What was read last of the targets that have left.".
-spec readings_of_left(t()) -> [dyno_targets:results()].
readings_of_left(#{left := Left}) -> Left.
