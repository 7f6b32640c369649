%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_sampler_SUITE).
-moduledoc "What is asked of the sampler of a node that has no time for it.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

newest_release_only() -> all.

all() -> [is_waited_for].

%% Without a time limit: a sampler that was not restarted would count its times from the attachment.
is_waited_for(_Config) ->
    {ok, Sampler} = dyno_agent_instrument:start_link(dyno_agent_sampler, #{
        sink => self(), interval_ms => 60_000
    }),
    Session = trace:session_create(?MODULE, self(), []),
    _ = trace:function(Session, {gen_server, call, '_'}, true, []),
    [
        begin
            {Asks, Ref} = spawn_monitor(fun() ->
                receive
                    go -> Ask(Sampler)
                end
            end),
            1 = trace:process(Session, Asks, true, [call]),
            Asks ! go,
            receive
                {trace, Asks, call, {gen_server, call, Arguments}} ->
                    ?assertMatch([Sampler, _, infinity], Arguments)
            end,
            receive
                {'DOWN', Ref, process, Asks, Why} -> ?assertEqual(normal, Why)
            end
        end
     || Ask <- [
            fun dyno_agent_sampler:clock/1,
            fun dyno_agent_sampler:started_ns/1,
            fun dyno_agent_sampler:describe/1,
            fun dyno_agent_instrument:restart/1,
            fun dyno_agent_instrument:read/1
        ]
    ],
    true = trace:session_destroy(Session),
    unlink(Sampler),
    exit(Sampler, kill).
