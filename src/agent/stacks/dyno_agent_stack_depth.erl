%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_depth).
-moduledoc false.
%% How many frames the runtime shows of a stack (`backtrace_depth`, 8 by default) is a setting of
%% the whole node. The process of this module raises it, and sets it back when its owner ends, even
%% if that is killed. Several owners may raise it one after the other: it is set back only where it
%% still is what was set here.
%%
%% It is linked to the guard as the instruments are, so that its code is not removed before it has
%% ended.

-export([raise/0, raised/0]).
%% Runs in the process
-export([init/2]).

%% Deeper stacks are cut at their outer end.
-define(DEPTH, 64).

-doc "How many frames there are at most.".
-spec raised() -> pos_integer().
raised() -> ?DEPTH.

-doc "Raises it until the calling process ends, or the one that started it.".
-spec raise() -> ok.
raise() ->
    {parent, Guard} = process_info(self(), parent),
    proc_lib:start(?MODULE, init, [self(), Guard]).

-spec init(pid(), pid()) -> ok.
init(Owner, Guard) ->
    process_flag(trap_exit, true),
    %% Where the guard is killed nobody waits for this process before its code is removed.
    process_flag(priority, high),
    proc_lib:set_label(?MODULE),
    true = link(Guard),
    Ref = monitor(process, Owner),
    Before = erlang:system_flag(backtrace_depth, ?DEPTH),
    proc_lib:init_ack(ok),
    receive
        {'EXIT', Guard, _} -> ok;
        {'DOWN', Ref, process, Owner, _} -> ok
    end,
    case erlang:system_flag(backtrace_depth, Before) of
        ?DEPTH ->
            ok;
        Others ->
            _ = erlang:system_flag(backtrace_depth, Others),
            ok
    end.
