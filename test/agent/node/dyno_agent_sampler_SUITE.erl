%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_sampler_SUITE).
-moduledoc "What is asked of the sampler of a node that has no time for it.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

newest_release_only() -> all.

slow() -> [is_waited_for].

all() -> [is_waited_for].

%% For more than the five seconds that gen_server:call/2 waits: a sampler that was not restarted
%% would go on counting its times from the attachment.
is_waited_for(_Config) ->
    {ok, Sampler} = dyno_agent_instrument:start_link(dyno_agent_sampler, #{
        sink => self(), interval_ms => 60_000
    }),
    Asks = [
        fun dyno_agent_sampler:clock/1,
        fun dyno_agent_sampler:started_ns/1,
        fun dyno_agent_sampler:describe/1,
        fun dyno_agent_instrument:restart/1,
        fun dyno_agent_instrument:read/1
    ],
    ok = sys:suspend(Sampler),
    Asking = [spawn_monitor(fun() -> exit({got, Ask(Sampler)}) end) || Ask <- Asks],
    receive
        {'DOWN', _, process, _, Early} -> ct:fail(Early)
    after 5500 -> ok
    end,
    ok = sys:resume(Sampler),
    [
        receive
            {'DOWN', Ref, process, Pid, Reason} -> ?assertMatch({got, _}, Reason)
        end
     || {Pid, Ref} <- Asking
    ],
    unlink(Sampler),
    exit(Sampler, kill).
