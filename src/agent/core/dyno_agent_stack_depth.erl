%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_depth).
-moduledoc false.
%% Raises the number of frames that the runtime shows of a stack (`backtrace_depth`, 8 by default),
%% a setting of the whole node. This process restores it when its owner ends, even if killed.
%% Several owners may raise the depth in turn: a process restores only its own value.
%%
%% The process is linked to the guard like the instruments, so its code stays until it has ended.

-export([raise/0, raised/0]).
%% Runs in the process
-export([init/2]).

%% Deeper stacks are cut at their outer end.
-define(DEPTH, 64).

-spec raised() -> pos_integer().
raised() -> ?DEPTH.

-doc "Raises the depth until the calling process or its parent ends.".
-spec raise() -> ok.
raise() ->
    {parent, Guard} = process_info(self(), parent),
    proc_lib:start(?MODULE, init, [self(), Guard]).

-spec init(pid(), pid()) -> ok.
init(Owner, Guard) ->
    process_flag(trap_exit, true),
    %% If the guard is killed, nothing waits for this process before its code is removed.
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
