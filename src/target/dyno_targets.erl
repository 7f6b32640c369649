%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_targets).
-moduledoc false.
%% The agents in a run's target nodes, started, restarted, read and removed together. The process
%% that attaches is the one that the agents watch and that their samples go to.

-export([attach/2, traces/1, restart/1, peek/1, read/1, detach/1, fact/3]).
%% What is measured at a level
-export([measures/1, discovers/1]).
-export([of_guard/2, of_ref/2, of_sampler/2]).
%% Their clocks
-export([aligned/2]).
-export([format_error/1]).
-export_type([target/0, options/0, figures/0, reason/0]).

-type options() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    %% Of nodes that have their own.
    patterns_of => #{node() => [dyno_agent_patterns:pattern()]},
    level := dyno_suite:level(),
    %% Of which the durations of calls are wanted.
    distribution => [dyno_agent_patterns:pattern()],
    without := [dyno_suite:instrument()],
    interval_ms := pos_integer(),
    %% Modules of custom agents.
    guests => [module()],
    %% Where agents rest between two runs.
    stays => dyno_agent:stays(),
    cookie => atom(),
    name => atom()
}.

-type target() :: #{
    node := node(),
    agent := dyno_agent:agent(),
    monitor := reference(),
    sampler := pid(),
    counters := pid() | undefined,
    discovery := pid() | undefined,
    resources := pid() | undefined,
    durations := pid() | undefined,
    %% For the recording.
    facts := #{atom() => term()},
    clock := dyno_target_clock:clock(),
    %% What its times are to be moved by.
    shift_ms := integer(),
    metrics := [dyno_agent_vm:metric()]
}.

-type figures() :: #{
    node := node(),
    functions := dyno_agent_calls:figures() | undefined,
    processes := dyno_agent_processes:figures() | undefined,
    resources := dyno_agent_resources:figures() | undefined,
    durations := dyno_agent_durations:figures() | undefined
}.

-type reason() ::
    dyno_agent:reason()
    | {unmatched, node(), [{dyno_agent_patterns:pattern(), {ok, string()} | none}]}.

-doc "Attaches to all nodes, or to none.".
-spec attach([node()], options()) -> {ok, [target()]} | {error, reason()}.
attach(Nodes, Options) ->
    attach(Nodes, Options, []).

attach([], _Options, Targets) ->
    {ok, lists:reverse(Targets)};
attach([Node | Rest], Options, Targets) ->
    case attach_one(Node, Options) of
        {ok, Target} ->
            attach(Rest, Options, [Target | Targets]);
        {error, _} = Error ->
            detach(Targets),
            Error
    end.

attach_one(Node, #{patterns := Patterns} = Given) ->
    Own = maps:get(Node, maps:get(patterns_of, Given, #{}), Patterns),
    Options = Given#{patterns := Own},
    case dyno_agent:attach(Node, maps:with([cookie, name, guests, stays], Options)) of
        {ok, Agent} ->
            try equip(Agent, Options) of
                {ok, Target} ->
                    {ok, Target};
                {error, Reason} ->
                    _ = dyno_agent:detach(Agent),
                    {error, plain(Node, Reason)}
            catch
                %% It went down in the middle.
                Class:Reason when Class =:= exit; Reason =:= {erpc, noconnection} ->
                    _ = dyno_agent:detach(Agent),
                    {error, {node_down, Node}}
            end;
        {error, _} = Error ->
            Error
    end.

plain(Node, {failed, Node, {unmatched, Patterns}}) -> {unmatched, Node, Patterns};
plain(_Node, Reason) -> Reason.

equip(Agent, #{patterns := Patterns, level := Level, interval_ms := IntervalMs} = Options) ->
    #{without := Without} = Options,
    Has = fun(Instrument) -> not lists:member(Instrument, Without) end,
    Node = dyno_agent:node(Agent),
    Monitor = monitor(process, dyno_agent:guard(Agent)),
    maybe
        {ok, Discovery} ?=
            optional(
                Patterns =/= [] andalso discovers(Level) andalso Has(processes),
                Agent,
                dyno_agent_processes,
                #{patterns => Patterns, interval_ms => IntervalMs}
            ),
        %% Before the counters: see there.
        {ok, Durations} ?= durations(maps:get(distribution, Options, []), Agent),
        {ok, Counters} ?=
            optional(
                Patterns =/= [] andalso Level =/= off andalso Has(functions),
                Agent,
                dyno_agent_calls,
                counters_config(Patterns, Level, Discovery)
            ),
        {ok, Resources} ?=
            optional(Has(ets) orelse Has(ports), Agent, dyno_agent_resources, #{
                interval_ms => IntervalMs, reads => [R || R <- [ets, ports], Has(R)]
            }),
        {ok, Sampler} ?=
            dyno_agent:start(Agent, dyno_agent_sampler, #{
                sink => self(),
                interval_ms => IntervalMs,
                reads => [R || R <- [vm, os], Has(R)]
            }),
        Clock = dyno_target_clock:measure(fun() -> dyno_agent_sampler:clock(Sampler) end),
        {ok, #{
            node => Node,
            clock => Clock,
            shift_ms => 0,
            agent => Agent,
            monitor => Monitor,
            sampler => Sampler,
            counters => Counters,
            discovery => Discovery,
            resources => Resources,
            durations => Durations,
            facts => facts(Node, Clock),
            metrics => dyno_agent_sampler:describe(Sampler)
        }}
    end.

durations(Patterns, Agent) ->
    optional(Patterns =/= [], Agent, dyno_agent_durations, #{patterns => Patterns}).

optional(false, _Agent, _Instrument, _Config) -> {ok, undefined};
optional(true, Agent, Instrument, Config) -> dyno_agent:start(Agent, Instrument, Config).

counters_config(Patterns, Level, undefined) ->
    #{patterns => Patterns, measures => measures(Level)};
counters_config(Patterns, Level, Discovery) ->
    (counters_config(Patterns, Level, undefined))#{discovery => Discovery}.

facts(Node, #{offset_ns := OffsetNs, error_ns := ErrorNs}) ->
    Info = fun(Item) -> erpc:call(Node, erlang, system_info, [Item]) end,
    #{
        name => Node,
        otp => list_to_binary(Info(otp_release)),
        erts => list_to_binary(Info(version)),
        schedulers_online => Info(schedulers_online),
        os_pid => list_to_binary(erpc:call(Node, os, getpid, [])),
        clock_offset_ns => OffsetNs,
        clock_error_ns => ErrorNs
    }.

-doc "Adds a fact to a target: when it joined, when it left.".
-spec fact(atom(), term(), target()) -> target().
fact(Key, Value, #{facts := Facts} = Target) ->
    Target#{facts := Facts#{Key => Value}}.

-doc """
The targets with what brings their times to those that count from `ZeroNs` on this node's monotonic
clock; to be called after a restart.
""".
-spec aligned([target()], integer()) -> [target()].
aligned(Targets, ZeroNs) ->
    [
        try
            StartNs = dyno_agent_sampler:started_ns(Sampler),
            Target#{shift_ms := dyno_target_clock:shift_ms(StartNs, ZeroNs, Clock)}
        catch
            %% That it went down is the next message.
            exit:_ -> Target
        end
     || #{sampler := Sampler, clock := Clock} = Target <- Targets
    ].

-doc "What the call counters measure at a level.".
-spec measures(dyno_suite:level()) -> [dyno_agent_calls:measure()].
measures(off) -> [];
measures(discovery) -> [];
measures(count) -> [call_count];
measures(time) -> [call_time];
measures(memory) -> [call_memory];
measures(all) -> [call_time, call_memory].

-doc "Whether processes are discovered at a level.".
-spec discovers(dyno_suite:level()) -> boolean().
discovers(Level) -> not lists:member(Level, [off, count]).

-doc "Whether anything in the targets is traced.".
-spec traces([target()]) -> boolean().
traces(Targets) ->
    lists:any(
        fun(#{counters := Counters, discovery := Discovery, durations := Durations}) ->
            is_pid(Counters) orelse is_pid(Discovery) orelse is_pid(Durations)
        end,
        Targets
    ).

-doc "All figures count from now on; `gone` where a target went down.".
-spec restart([target()]) -> ok | gone.
restart(Targets) ->
    try
        lists:foreach(fun restart_one/1, Targets)
    catch
        exit:_ -> gone
    end.

restart_one(#{sampler := Sampler, counters := Counters, discovery := Discovery} = Target) ->
    #{resources := Resources, durations := Durations} = Target,
    ok = dyno_agent_sampler:restart(Sampler),
    _ = [dyno_agent_durations:restart(Durations) || is_pid(Durations)],
    _ = [dyno_agent_resources:restart(Resources) || is_pid(Resources)],
    _ = [dyno_agent_processes:restart(Discovery) || is_pid(Discovery)],
    _ = [dyno_agent_calls:restart(Counters) || is_pid(Counters)],
    ok.

-doc "The figures until now, of targets that may be gone soon; they go on counting.".
-spec peek([target()]) -> #{node() => figures()}.
peek(Targets) ->
    maps:from_list(lists:append([peek_one(Target) || Target <- Targets])).

peek_one(#{node := Node} = Target) ->
    #{counters := Counters, discovery := Discovery, resources := Resources} = Target,
    #{durations := Durations} = Target,
    try
        [
            {Node, #{
                node => Node,
                functions => optionally(fun dyno_agent_calls:peek/1, Counters),
                processes => optionally(fun dyno_agent_processes:read/1, Discovery),
                resources => optionally(fun dyno_agent_resources:read/1, Resources),
                durations => optionally(fun dyno_agent_durations:read/1, Durations)
            }}
        ]
    catch
        exit:_ -> []
    end.

-doc "Takes a last sample and reads all figures; of a node that is gone, none.".
-spec read([target()]) -> [figures()].
read(Targets) ->
    [read_one(Target) || Target <- Targets].

read_one(#{node := Node} = Target) ->
    #{sampler := Sampler, counters := Counters, discovery := Discovery} = Target,
    #{resources := Resources, durations := Durations} = Target,
    try
        %% The calls first: what comes after the end of the load does not belong to them.
        Functions = optionally(fun dyno_agent_calls:read/1, Counters),
        ok = dyno_agent_sampler:last(Sampler),
        #{
            node => Node,
            functions => Functions,
            processes => optionally(fun dyno_agent_processes:read/1, Discovery),
            resources => optionally(fun dyno_agent_resources:read/1, Resources),
            durations => optionally(fun dyno_agent_durations:read/1, Durations)
        }
    catch
        exit:_ ->
            None = maps:from_keys([functions, processes, resources, durations], undefined),
            None#{node => Node}
    end.

optionally(_Read, undefined) -> undefined;
optionally(Read, Instrument) -> Read(Instrument).

-doc "Ends all agents; also of nodes that are gone.".
-spec detach([target()]) -> ok.
detach(Targets) ->
    lists:foreach(
        fun(#{agent := Agent, monitor := Monitor}) ->
            demonitor(Monitor, [flush]),
            dyno_agent:detach(Agent)
        end,
        Targets
    ).

-doc "The target whose agent has this monitor.".
-spec of_guard(reference(), [target()]) -> {ok, target()} | error.
of_guard(Monitor, Targets) ->
    first([T || #{monitor := M} = T <- Targets, M =:= Monitor]).

-doc "The target whose agent marks its messages with this.".
-spec of_ref(reference(), [target()]) -> {ok, target()} | error.
of_ref(Ref, Targets) ->
    first([T || #{agent := Agent} = T <- Targets, dyno_agent:ref(Agent) =:= Ref]).

-doc "The target with this sampler.".
-spec of_sampler(pid(), [target()]) -> {ok, target()} | error.
of_sampler(Pid, Targets) ->
    first([T || #{sampler := Sampler} = T <- Targets, Sampler =:= Pid]).

first([Target | _]) -> {ok, Target};
first([]) -> error.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({unmatched, Node, Patterns}) ->
    Texts = [
        case Suggestion of
            {ok, Name} ->
                io_lib:format("~ts (did you mean ~ts?)", [dyno_agent_patterns:print(P), Name]);
            none ->
                dyno_agent_patterns:print(P)
        end
     || {P, Suggestion} <- Patterns
    ],
    io_lib:format(
        "no function of ~ts matches ~ts; a pattern names what is loaded or on its code path",
        [Node, lists:join(", ", Texts)]
    );
format_error(Reason) ->
    dyno_agent:format_error(Reason).
