%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_window).
-moduledoc false.
%% The window until now: reads the counters of all measured processes, or takes away what is in
%% them, and puts it together with what the runtime has counted.

-export([make/3, busy/2, on_processor/3]).
-export_type([context/0, part/0]).

-type context() :: #{
    shared := dyno_agent_server_hook:shared(),
    %% By their process: what the runtime has counted.
    times := dyno_agent_server_breakpoints:times(),
    level := dyno_agent_servers:level(),
    probes := #{hook := non_neg_integer(), flag := non_neg_integer()},
    outstanding := #{pid() => integer()},
    %% Events that stages threw away.
    discarded := #{pid() => non_neg_integer()} | unknown
}.

-type part() :: #{
    servers := [dyno_agent_servers:server()],
    %% What measuring has added to the callbacks.
    probed_ns := non_neg_integer(),
    outstanding := #{pid() => integer()}
}.

%% Of the processor time of the node.
-define(PRECISION_NS, 10_000_000).
-define(BUSY, ~"it has not answered sys for two seconds").
-define(NOT_YET, ~"it has not answered sys yet").
-define(MANAGER, ~"event managers tell sys nothing of the end of a callback").

-doc "What the window says of the servers; `restart` takes it away.".
-spec make(restart | go_on, context(), dyno_agent_server_set:t()) -> part().
make(How, #{outstanding := Before} = Context, Set) ->
    Read = [{Pid, One, values(How, One)} || {Pid, One} <- dyno_agent_server_set:to_list(Set)],
    Seen = maps:from_list([
        {Pid, seen(Pid, Counters, Values, Context)}
     || {Pid, #{server := #{behaviour := gen_stage}, counters := Counters}, Values} <- Read,
        Counters =/= none
    ]),
    {Stages, Outstanding} = dyno_agent_server_stages:stages(Seen, Before),
    Servers = [
        (server(Pid, One, Values, Stages, Context))#{
            under_way => dyno_agent_server_set:under_way(Pid, Set)
        }
     || {Pid, One, Values} <- Read
    ],
    #{
        servers => Servers,
        probed_ns => lists:sum([
            probed_ns(One, Served, Untimed, Context)
         || {{_, One, #{untimed := Untimed}}, #{served := Served}} <- lists:zip(Read, Servers)
        ]),
        outstanding => Outstanding
    }.

values(_How, #{counters := none}) -> dyno_agent_server_counters:none();
values(restart, #{counters := Counters}) -> dyno_agent_server_counters:take(Counters);
values(go_on, #{counters := Counters}) -> dyno_agent_server_counters:look(Counters).

seen(Pid, Counters, Values, #{shared := Shared, discarded := Discarded}) ->
    {Peers, Stage} = dyno_agent_server_hook:peers(Pid, Shared),
    #{
        values => Values,
        peers => Peers,
        kind =>
            case Stage of
                unknown -> unknown;
                {_Module, Kind} -> Kind
            end,
        buffered => dyno_agent_server_counters:get(Counters, buffered),
        discarded =>
            case Discarded of
                unknown -> undefined;
                #{} -> maps:get(Pid, Discarded, 0)
            end
    }.

server(Pid, One, Values, Stages, Context) ->
    #{shared := Shared, times := AllTimes, level := Level} = Context,
    Times = maps:get(Pid, AllTimes, #{}),
    {By, Why} = by(One, Level),
    dyno_agent_server_process:part(
        One,
        #{
            values => Values,
            names => dyno_agent_server_hook:names(Pid, Shared),
            times => Times,
            by => By,
            why_not_hook => Why
        },
        maps:get(Pid, Stages, none)
    ).

by(#{hook := hooked}, _Level) -> {hook, undefined};
by(_NoHook, rate) -> {none, undefined};
by(#{flagged := true} = One, _Level) -> {call_time, why(One)};
by(One, _Level) -> {none, why(One)}.

why(#{hook := asked}) -> ?NOT_YET;
why(#{hook := busy}) -> ?BUSY;
why(#{server := #{behaviour := gen_event}}) -> ?MANAGER;
why(_One) -> undefined.

%% A message that is not timed takes the hook a third of what another takes.
probed_ns(#{hook := Hook, flagged := Flagged}, Served, Untimed, #{probes := Probes}) ->
    #{hook := HookNs, flag := FlagNs} = Probes,
    Timed = max(0, Served - Untimed),
    lists:sum([(Timed + Untimed div 3) * HookNs || Hook =:= hooked]) +
        lists:sum([Served * FlagNs || Flagged]).

-doc "The busy share of the schedulers between two readings.".
-spec busy([tuple()], [tuple()]) -> float().
busy(Before, After) when length(Before) =:= length(After) ->
    Pairs = [{A - A0, T - T0} || {{_, A0, T0}, {_, A, T}} <- lists:zip(Before, After)],
    lists:sum([Active || {Active, _} <- Pairs]) / max(1, lists:sum([Total || {_, Total} <- Pairs]));
busy(_Before, _After) ->
    0.0.

-doc """
How much of the time that the schedulers were busy, by the clock, they were on a processor: less
than 1 where other programs of the machine had it. Between two readings, so many nanoseconds apart.
""".
-spec on_processor(
    Before :: [tuple()], {[tuple()], ProcessorNs :: integer()}, Ns :: pos_integer()
) -> float().
on_processor(Before, {After, ProcessorNs}, Ns) ->
    Busy = busy(Before, After) * length(After) * Ns,
    min(1.0, (ProcessorNs + ?PRECISION_NS) / max(1.0, Busy)).
