%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_joins).
-moduledoc false.
%% Nodes that join and leave while a run goes on.
%%
%% Where a suite has targets/1, it is called every second, in a process of its own, and the run is
%% told of nodes that were not named before: `{dyno_members, Pid, {joined, [target()]}}`, or once
%% `{dyno_members, Pid, {failed, Text}}`. A node that leaves takes its figures with it; so where
%% there are several, they are asked for now and then.

%% The process
-export([watch/3, stop/1]).
%% What it means for a run
-export([none_gone/0, gone/1, left/3, joined/3, peek/1, warned/3]).

-export_type([gone/0, run/0]).

-doc "The figures of targets that may leave, with the time, and those of the ones that left.".
-type gone() :: #{
    peeked := #{node() => dyno_targets:results()},
    peeked_ms := integer(),
    left := [dyno_targets:results()]
}.

-doc "What of a run's state is read and changed here.".
-type run() :: #{
    targets := [dyno_targets:target()],
    %% With those that have left.
    all := [dyno_targets:target()],
    gone := gone(),
    result := dyno_test_result:t(),
    wanted := dyno_targets:options(),
    atom() => term()
}.

-define(EVERY_MS, 1000).
%% How much of its figures a node may take with it.
-define(PEEK_MS, 2000).

-doc "Starts watching where the suite has targets/1; linked to the caller.".
-spec watch(module(), term(), [node()]) -> pid() | none.
watch(Module, RunState, Known) ->
    case erlang:function_exported(Module, targets, 1) of
        true ->
            Owner = self(),
            spawn_link(fun() ->
                proc_lib:set_label(?MODULE),
                look({Module, RunState}, Owner, Known)
            end);
        false ->
            none
    end.

-doc "Ends it.".
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

-spec flush(pid()) -> ok.
flush(Pid) ->
    receive
        {dyno_members, Pid, _} -> flush(Pid);
        {'EXIT', Pid, _} -> flush(Pid)
    after 0 -> ok
    end.

-spec look({module(), term()}, pid(), [node()]) -> ok.
look({Module, RunState} = Suite, Owner, Known) ->
    receive
    after ?EVERY_MS -> ok
    end,
    case named(Module, RunState) of
        {ok, Targets} ->
            case [T || {Node, _} = T <- Targets, not lists:member(Node, Known)] of
                [] ->
                    look(Suite, Owner, Known);
                New ->
                    Owner ! {dyno_members, self(), {joined, New}},
                    look(Suite, Owner, Known ++ [Node || {Node, _} <- New])
            end;
        {error, Text} ->
            %% Once: it would say the same every second.
            Owner ! {dyno_members, self(), {failed, Text}},
            ok
    end.

-spec named(module(), term()) -> {ok, [dyno_suite:target()]} | {error, binary()}.
named(Module, RunState) ->
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
            {error,
                dyno_recording_part:text("~ts:targets/1 raised ~ts: ~0tP", [Module, Class, Reason, 12])}
    end.

-doc "Nothing has left yet.".
-spec none_gone() -> gone().
none_gone() ->
    #{peeked => #{}, peeked_ms => erlang:monotonic_time(millisecond), left => []}.

-doc "The last figures of the targets that have left.".
-spec gone(run()) -> [dyno_targets:results()].
gone(#{gone := #{left := Left}}) -> Left.

-doc "Goes on without a target, which keeps the figures that it was last asked for.".
-spec left(dyno_targets:target(), InRunMs :: integer() | undefined, run()) -> run().
left(#{node := Node} = Target, InRunMs, State) ->
    #{targets := Targets, gone := Gone, all := All} = State,
    #{peeked := Peeked, left := Left} = Gone,
    ok = dyno_targets:detach([Target]),
    LeftMs =
        case InRunMs of
            undefined -> 0;
            _ -> InRunMs
        end,
    Text = "node ~ts left after ~ts; its figures are those until then",
    warned(
        ~"node_left",
        dyno_recording_part:text(Text, [Node, dyno_unit:format(LeftMs, ~"ms")]),
        State#{
            targets := [T || #{node := Of} = T <- Targets, Of =/= Node],
            guests := dyno_target_custom:left(Node, map_get(guests, State)),
            gone := Gone#{left := [F || Of := F <- Peeked, Of =:= Node] ++ Left},
            all := [marked(T, Node, LeftMs) || T <- All]
        }
    ).

-spec marked(dyno_targets:target(), node(), integer()) -> dyno_targets:target().
marked(#{node := Node} = Target, Node, LeftMs) -> dyno_targets:fact(left_ms, LeftMs, Target);
marked(Target, _Node, _LeftMs) -> Target.

-doc """
Attaches to nodes that were named while the load works; they count from now on. The run began at
`ZeroNs` on this node's monotonic clock, or has not yet.
""".
-spec joined([dyno_suite:target()], ZeroNs :: integer() | undefined, run()) -> run().
joined(New, ZeroNs, State) ->
    lists:foldl(fun(Target, Acc) -> join(Target, ZeroNs, Acc) end, State, New).

-spec join(dyno_suite:target(), integer() | undefined, run()) -> run().
join({Node, Patterns}, ZeroNs, #{wanted := Wanted} = State) ->
    Own = #{Node => Patterns || Patterns =/= default},
    case dyno_targets:attach([Node], Wanted#{patterns_of => Own}) of
        {ok, Attached} ->
            #{targets := Targets, all := All} = State,
            Joined = begun(ZeroNs, Attached),
            State#{
                guests := guests(Joined, ZeroNs, State),
                targets := Targets ++ Joined,
                all := All ++ Joined
            };
        {error, Reason} ->
            Why = dyno_targets:format_error(Reason),
            Text = dyno_recording_part:text("a node that joined is not measured: ~ts", [Why]),
            warned(~"node_joined", Text, State)
    end.

%% The suite's own code comes to them as well.
-spec guests([dyno_targets:target()], integer() | undefined, run()) -> dyno_target_custom:t().
guests(Joined, ZeroNs, #{guests := Guests, context := Context, callbacks := Callbacks} = State) ->
    #{which := {Size, _}} = State,
    With = (maps:with([agents, options, module], Context))#{callbacks => Callbacks},
    dyno_target_custom:joined(Joined, Size, With, ZeroNs, Guests).

%% Before the run has begun it begins with the others.
-spec begun(integer() | undefined, [dyno_targets:target()]) -> [dyno_targets:target()].
begun(undefined, Attached) ->
    Attached;
begun(ZeroNs, Attached) ->
    %% Where it is gone again, that is the next message.
    _ = dyno_targets:restart(Attached),
    InRunMs = (erlang:monotonic_time(nanosecond) - ZeroNs) div 1_000_000,
    [
        dyno_targets:fact(joined_ms, InRunMs, Target)
     || Target <- dyno_targets:aligned(Attached, ZeroNs)
    ].

-doc """
Asks targets that may leave for their figures. Where there is one, the run ends with it, and its
figures are lost.
""".
-spec peek(run()) -> run().
peek(#{targets := [_, _ | _] = Targets, gone := Gone} = State) ->
    #{peeked := Peeked, peeked_ms := At} = Gone,
    case erlang:monotonic_time(millisecond) of
        Now when Now - At >= ?PEEK_MS ->
            New = maps:merge(Peeked, dyno_targets:peek(Targets)),
            State#{gone := Gone#{peeked := New, peeked_ms := erlang:monotonic_time(millisecond)}};
        _ ->
            State
    end;
peek(State) ->
    State.

-doc "A warning of the run.".
-spec warned(binary(), binary(), run()) -> run().
warned(Code, Text, #{result := Result} = State) ->
    State#{result := dyno_test_result:warning({Code, Text}, Result)}.
