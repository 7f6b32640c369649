%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_window).
-moduledoc false.
%% The window until now: reads or resets the counters of all measured processes and joins them with
%% the runtime's counts. Events received by one stage of GenStage are those sent by another.

-export([make/3, busy/2, on_processor/3]).
-export_type([context/0, part/0, probes/0]).

-type context() :: #{
    shared := dyno_agent_server_hook:shared(),
    times := dyno_agent_server_breakpoints:times(),
    level := dyno_agent_servers:level(),
    elapsed_ns := non_neg_integer(),
    now := integer(),
    probes := probes(),
    outstanding := #{pid() => integer()},
    discarded := #{pid() => non_neg_integer()} | unknown,
    managers := #{pid() => dyno_agent_server_managers:busy()}
}.

-doc "What a callback costs with the hook, with a close look, and timed by the runtime.".
-type probes() :: #{
    hook := non_neg_integer(), look := non_neg_integer(), flag := non_neg_integer()
}.

-type part() :: #{
    servers := [dyno_agent_servers:server()],
    %% Processes that were called and whose hooks counted nothing.
    silent := [pid()],
    probed_ns := non_neg_integer(),
    outstanding := #{pid() => integer()}
}.

%% A second.
-define(LOOKS, 2000).
%% Of the processor time of the node.
-define(PRECISION_NS, 10_000_000).

-doc "The servers' part of the window; `restart` resets it.".
-spec make(restart | go_on, context(), dyno_agent_server_set:t()) -> part().
make(How, #{shared := Shared, times := Times, managers := Managers} = Context, Set) ->
    Read = [
        {Pid, One, dyno_agent_server_counters:read(How, Counters)}
     || {Pid, #{counters := Counters} = One} <- dyno_agent_server_set:to_list(Set)
    ],
    Stages = stages(Read, Context),
    Parts = [
        {One, Measured, dyno_agent_server_process:part(One, Measured)}
     || {Pid, One, Values} <- Read,
        Measured <- [
            Context#{
                values => Values,
                names => dyno_agent_server_names:names(Pid, Shared),
                times := maps:get(Pid, Times, #{}),
                running => dyno_agent_server_set:running(Pid, Set),
                stage => maps:get(Pid, Stages, none),
                manager => maps:get(Pid, Managers, {undefined, 0})
            }
        ]
    ],
    #{
        servers => [Server || {_, _, Server} <- Parts],
        silent => [
            Pid
         || {One, Measured, #{pid := Pid}} <- Parts,
            dyno_agent_server_process:is_silent(One, Measured)
        ],
        probed_ns => lists:sum([
            probed_ns(One, Server, Values, Context)
         || {One, #{values := Values}, Server} <- Parts
        ]),
        outstanding => #{Pid => N || Pid := #{outstanding := N} <- Stages, is_integer(N)}
    }.

%% Untimed messages take the hook a third; some 2,000 messages a second get a close look.
probed_ns(One, #{served := Served}, #{untimed := Untimed}, Context) ->
    #{probes := #{hook := HookNs, look := LookNs, flag := FlagNs}, elapsed_ns := Ns} = Context,
    #{hook := Hook, flagged := Flagged} = One,
    Timed = max(0, Served - Untimed),
    Looks = min(Served, ?LOOKS * Ns div 1_000_000_000),
    lists:sum([(Timed + Untimed div 3) * HookNs + Looks * LookNs || Hook =:= hooked]) +
        lists:sum([Served * FlagNs || Flagged]).

%% Stages

stages(Read, #{shared := Shared} = Context) ->
    Seen =
        #{
            Pid => {Values, Counters, dyno_agent_server_names:peers(Pid, Shared)}
         || {Pid, #{server := #{behaviour := gen_stage}, counters := Counters}, Values} <- Read,
            Counters =/= none
        },
    #{Pid => stage(Pid, One, Seen, Context) || Pid := One <- Seen}.

stage(Pid, {Values, Counters, {_Peers, _Module, Kind}} = One, Seen, Context) ->
    #{outstanding := Before, discarded := Discarded} = Context,
    From = by_pid(events, One),
    Demand = by_pid(demand, One),
    Received = lists:sum(maps:values(Demand)),
    Out = told_by(events, Pid, maps:keys(Demand), Seen),
    #{
        kind => Kind,
        buffered => dyno_agent_server_counters:get(Counters, buffered),
        discarded =>
            case Discarded of
                unknown -> undefined;
                #{} -> maps:get(Pid, Discarded, 0)
            end,
        demand_asked => told_by(demand, Pid, maps:keys(From), Seen),
        demand_received => Received,
        events_in => lists:sum(maps:values(From)),
        events_out => Out,
        batches =>
            dyno_agent_server_counters:lengths(dyno_agent_server_hook:buckets(batch, Values)),
        outstanding =>
            case Out of
                undefined -> undefined;
                _ -> max(0, maps:get(Pid, Before, 0) + Received - Out)
            end,
        demand_to_event =>
            dyno_agent_server_counters:histogram(dyno_agent_server_hook:buckets(answer, Values)),
        subscriptions => [
            #{from => Producer, to => Pid, events => Events}
         || Producer := Events <- From, is_pid(Producer)
        ]
    }.

by_pid(What, {Values, _Counters, {Peers, _Module, _Kind}}) ->
    #{maps:get(Peer, Peers, others) => Count || Peer := Count <- map_get(What, Values)}.

%% The counts of this stage by the others, if all of them are measured.
told_by(What, Pid, Others, Seen) ->
    case lists:all(fun(Other) -> is_map_key(Other, Seen) end, Others) of
        true -> lists:sum([maps:get(Pid, by_pid(What, One), 0) || One <- maps:values(Seen)]);
        false -> undefined
    end.

%% The node

-spec busy([tuple()], [tuple()]) -> float().
busy(Before, After) when length(Before) =:= length(After) ->
    Pairs = [{A - A0, T - T0} || {{_, A0, T0}, {_, A, T}} <- lists:zip(Before, After)],
    {Active, Total} = lists:unzip(Pairs),
    lists:sum(Active) / max(1, lists:sum(Total));
busy(_Before, _After) ->
    0.0.

-doc "The share of busy time, over `Ns`, in which no other program had the processors.".
-spec on_processor(
    Before :: [tuple()], {[tuple()], ProcessorNs :: integer()}, Ns :: pos_integer()
) -> float().
on_processor(Before, {After, ProcessorNs}, Ns) ->
    Busy = busy(Before, After) * length(After) * Ns,
    min(1.0, (ProcessorNs + ?PRECISION_NS) / max(1.0, Busy)).
