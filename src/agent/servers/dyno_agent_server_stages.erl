%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_stages).
-moduledoc false.
%% The stages of GenStage of a window together: what one has received is what another has sent.
%% Pure.

-export([stages/2]).
-export_type([seen/0]).

-doc "What one stage has counted, and who its others are.".
-type seen() :: #{
    values := dyno_agent_server_counters:values(),
    peers := #{dyno_agent_server_counters:peer() => pid()},
    kind := atom(),
    buffered := non_neg_integer(),
    discarded := non_neg_integer() | undefined
}.

-doc """
Each stage's part of the window; and the demand of each that it has not answered, from that before.
""".
-spec stages(#{pid() => seen()}, Outstanding :: #{pid() => integer()}) ->
    {#{pid() => dyno_agent_servers:stage()}, #{pid() => integer()}}.
stages(Seen, Before) ->
    Stages = #{Pid => stage(Pid, One, Seen, Before) || Pid := One <- Seen},
    {Stages, #{Pid => N || Pid := #{outstanding := N} <- Stages, is_integer(N)}}.

stage(Pid, #{values := #{series := Series}} = One, Seen, Before) ->
    From = by_pid(events, One),
    Demand = by_pid(demand, One),
    Received = total(Demand),
    Out = told_by(events, Pid, maps:keys(Demand), Seen),
    (maps:with([kind, buffered, discarded], One))#{
        demand_asked => told_by(demand, Pid, maps:keys(From), Seen),
        demand_received => Received,
        events_in => total(From),
        events_out => Out,
        batches =>
            dyno_agent_server_counters:lengths(
                maps:get(dyno_agent_server_hook:batch(), Series, [])
            ),
        outstanding =>
            case Out of
                undefined -> undefined;
                _ -> max(0, maps:get(Pid, Before, 0) + Received - Out)
            end,
        demand_to_event =>
            dyno_agent_server_counters:histogram(
                maps:get(dyno_agent_server_hook:answer(), Series, [])
            ),
        subscriptions => [
            #{from => Producer, to => Pid, events => Events}
         || Producer := Events <- From, is_pid(Producer)
        ]
    }.

by_pid(What, #{values := Values, peers := Peers}) ->
    #{maps:get(Peer, Peers, others) => Count || Peer := Count <- map_get(What, Values)}.

total(Counts) -> lists:sum(maps:values(Counts)).

%% What the others have counted of this one, where all of them are measured.
told_by(What, Pid, Others, Seen) ->
    case lists:all(fun(Other) -> is_map_key(Other, Seen) end, Others) of
        true -> lists:sum([maps:get(Pid, by_pid(What, One), 0) || One <- maps:values(Seen)]);
        false -> undefined
    end.
