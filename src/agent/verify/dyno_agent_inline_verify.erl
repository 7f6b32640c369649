%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_inline_verify).
-moduledoc false.
%% Runs monitors in the monitored processes, whose modules were woven with `dyno_inline`. With
%% `stop` a process that is about to break a property exits instead.
%%
%% There are no traces and no queues. A slow monitor slows its process, one that never returns stops
%% it; a killed process has no `exit`. Another process checks deadlines, without an exit.

-behaviour(dyno_agent_verifier).

-export([start/1, stop/1, info/2, terminate/1]).
-export([watch/1]).

-define(WATCH_MS, 20).

-spec start(dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
start(#{config := Config, monitors := Monitors, choice := Choice} = State) ->
    Options = maps:with([events], Config),
    HasTime = lists:any(fun(M) -> erlang:function_exported(M, deadline, 1) end, Monitors),
    Keyed = [M || M <- Monitors, dyno_agent_monitor:has_key(M)],
    Inline = #{
        partitions => dyno_agent_partition:new(Monitors -- Keyed, Options#{choice => Choice}),
        verdicts => map_get(verdicts, State),
        stop => maps:get(stop, Config, false),
        due =>
            case HasTime of
                true -> ets:new(?MODULE, [public, {write_concurrency, true}]);
                false -> none
            end
    },
    ok = dyno_agent_inline:start(Inline),
    Watch = [proc_lib:spawn_link(?MODULE, watch, [Inline]) || HasTime],
    New = State#{inline => Inline, watch => Watch},
    case Keyed of
        [] ->
            New;
        _ ->
            %% Nothing passes that is not monitored.
            ok = dyno_agent_verdicts:count(
                [{unsure, M, unsupported} || M <- Keyed], map_get(verdicts, State)
            ),
            dyno_agent_verifier:fault(~"inline has no monitors with keys; use partition", New)
    end.

-spec watch(map()) -> no_return().
watch(Inline) ->
    timer:sleep(?WATCH_MS),
    ok = dyno_agent_inline:late(Inline),
    watch(Inline).

-spec stop(dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
stop(#{inline := #{due := Due} = Inline} = State) ->
    ok = dyno_agent_inline:stop(),
    _ = Due =/= none andalso dyno_agent_inline:late(Inline),
    %% No deadline is left.
    State#{inline := Inline#{due := none}}.

-spec info(term(), dyno_agent_verifier:state()) -> dyno_agent_verifier:state().
info(_Message, State) -> State.

-spec terminate(dyno_agent_verifier:state()) -> ok.
terminate(#{watch := Watch}) ->
    ok = dyno_agent_inline:stop(),
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, Watch).
