%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_inline_verify).
-moduledoc """
Runs monitors in the processes themselves, where their modules were woven with `m:dyno_inline`. With
`stop => true` a process that is about to break a property exits instead.

Nothing is traced and nothing waits. A monitor that is slow slows its process, one that never
returns stops it; a process that is killed has no `exit`. Deadlines are not watched.
""".

-behaviour(dyno_agent_verifier).

-export([shards/1, start/1, stop/1, info/2, terminate/1]).

-spec shards(dyno_agent_verifier:config()) -> 1.
shards(_Config) -> 1.

-spec start(dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
start(#{config := Config, monitors := Monitors, choice := Choice} = State) ->
    Options = maps:with([events], Config),
    ok = dyno_agent_inline:start(#{
        partitions => dyno_agent_partition:new(Monitors, Options#{choice => Choice}),
        verdicts => map_get(verdicts, State),
        stop => maps:get(stop, Config, false)
    }),
    Keyed = ~"inline has no monitors with keys; use partition",
    case lists:any(fun dyno_agent_monitor:has_key/1, Monitors) of
        true -> dyno_agent_verifier:fault(Keyed, State);
        false -> State
    end.

-spec stop(dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
stop(State) ->
    ok = dyno_agent_inline:stop(),
    State.

-spec info(term(), dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
info(_Message, State) -> State.

-spec terminate(dyno_agent_verifier:state()) -> ok.
terminate(_State) -> dyno_agent_inline:stop().
