%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_joins).
-moduledoc false.
%% Adds nodes to a run: a process calls the suite's targets/1 every second, and sends new nodes.

-export([start/3, stop/1]).

-define(EVERY_MS, 1000).

-doc """
Starts the process, linked to the caller, if the suite has targets/1. The caller receives
`{dyno_joins, Pid, {joined, Target}}` and, at most once, `{dyno_joins, Pid, {not_joined, Text}}`.
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

-spec stop(pid() | none) -> ok.
stop(none) ->
    ok;
stop(Pid) ->
    ok = dyno_sandbox:kill(Pid),
    flush(Pid).

flush(Pid) ->
    receive
        {dyno_joins, Pid, _} -> flush(Pid)
    after 0 -> ok
    end.

poll(Module, RunState, Owner, Nodes) ->
    receive
    after ?EVERY_MS -> ok
    end,
    case called(Module, RunState) of
        {ok, Targets} ->
            New = [T || {Node, _} = T <- Targets, not lists:member(Node, Nodes)],
            lists:foreach(fun(T) -> Owner ! {dyno_joins, self(), {joined, T}} end, New),
            poll(Module, RunState, Owner, Nodes ++ [Node || {Node, _} <- New]);
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
                    Format =
                        "~ts:targets/1 returned ~0tP; a list of nodes is expected, or of "
                        "{Node, Patterns}",
                    {error, dyno_recording_part:text(Format, [Module, Value, 12])}
            end
    catch
        Class:Reason ->
            Format = "~ts:targets/1 raised ~ts: ~0tP",
            {error, dyno_recording_part:text(Format, [Module, Class, Reason, 12])}
    end.
