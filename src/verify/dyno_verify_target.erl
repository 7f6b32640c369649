%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_target).
-moduledoc false.
%% A node whose processes are monitored: the agent there, the monitors' code, and what runs them. It
%% ends with the process that attaches it, which gets {dyno_verify, Node, Message} and, where the
%% agent ends, the message of the monitor `t:target/0` has.

-export([instrumentations/0, attach/3, peek/1, finish/1, detach/1]).
-export([records_apart/2, recorded/2]).
-export([format_error/1, fault/1]).
-export_type([target/0, reason/0]).

-type target() :: #{
    node := node(),
    agent := dyno_agent:agent(),
    monitor := reference(),
    ref := reference(),
    %% Once it runs.
    verifier => pid(),
    %% Of this node, loaded for as long as it lasts.
    loaded := [module()],
    records := boolean()
}.

-type reason() ::
    {other_version, node(), module()}
    | {record, node(), dyno_file:reason()}
    | {record_lost, node()}
    | {one_file, node(), node()}.

-define(RECORD_MS, 120_000).

-doc "How events come to monitors, by name: what is special in the configuration of the verifier.".
-spec instrumentations() -> [{atom(), #{instrumentation := module(), atom() => term()}}, ...].
instrumentations() ->
    [
        %% Events are routed by process to the shards.
        {partition, #{instrumentation => dyno_agent_verify}},
        %% One tracer that tells the processes apart.
        {centralised, #{instrumentation => dyno_agent_verify, shards => 1}},
        %% A tracer for each process that has monitors, which hand processes over to each other.
        {riarc, #{instrumentation => dyno_agent_riarc_verify}},
        %% In modules that dyno_inline wove.
        {inline, #{instrumentation => dyno_agent_inline_verify}}
    ].

-doc "Attaches to a node, and monitors.".
-spec attach(node(), [dyno_code:object(), ...], dyno_verify:options()) ->
    {ok, target()} | {error, dyno_error:error()}.
attach(Node, Objects, Options) ->
    Name = maps:get(instrumentation, Options, partition),
    {Name, #{instrumentation := By} = Special} = lists:keyfind(Name, 1, instrumentations()),
    Config = maps:merge(maps:with([limits, select, shards, events], Options), Special),
    Recorder = [dyno_stream || is_map_key(record, Options)],
    Modules = dyno_code:closure(
        [dyno_agent_guard, dyno_agent_verifier, By] ++ Recorder ++
            dyno_verify_monitors:runtime(Objects)
    ),
    maybe
        ok ?= dyno_target_node:connect(Node, maps:with([cookie, name], Options)),
        {ok, Missing} ?= missing(Node, Objects, []),
        {ok, Agent} ?=
            dyno_agent:attach(Node, (maps:with([cookie, name], Options))#{
                modules => Modules, more_modules => Missing
            }),
        Loaded = load(Node, Missing),
        Target = #{
            node => Node,
            agent => Agent,
            monitor => monitor(process, dyno_agent:guard(Agent)),
            ref => dyno_agent:ref(Agent),
            loaded => Loaded,
            records => is_map_key(record, Options)
        },
        Monitors = [Module || {Module, _, _} <- Objects],
        maybe
            ok ?= record(Node, Options),
            {ok, Pid} ?=
                dyno_agent:start(Agent, dyno_agent_verifier, Config#{
                    monitors => Monitors, sink => self()
                }),
            {ok, Target#{verifier => Pid}}
        else
            Error ->
                %% Without an entry: a former file stays as it is.
                _ = is_map_key(record, Options) andalso closed(Node),
                _ = detach([Target]),
                Error
        end
    end.

record(Node, #{record := File}) ->
    Options = #{
        owner => self(), name => dyno_agent_recorder, header => dyno_agent_recorder:header()
    },
    case erpc:call(Node, dyno_stream, open, [File, Options], ?RECORD_MS) of
        {ok, _} -> ok;
        {error, Reason} -> {error, {?MODULE, {record, Node, Reason}}}
    end;
record(_Node, _Options) ->
    ok.

-doc "Nodes of one machine would write to the same file, and one of them in vain.".
-spec records_apart([node(), ...], dyno_verify:options()) -> ok | {error, dyno_error:error()}.
records_apart(Nodes, #{record := _}) ->
    Hosts = maps:groups_from_list(fun host/1, Nodes),
    case [{A, B} || _ := [A, B | _] <- Hosts] of
        [] -> ok;
        [{A, B} | _] -> {error, {?MODULE, {one_file, A, B}}}
    end;
records_apart(_Nodes, _Options) ->
    ok.

host(Node) -> lists:last(string:split(atom_to_list(Node), "@")).

-doc """
Closes the file that is recorded to, if there is one, and says in it whether processes were cut off;
an error tells what is not kept.
""".
-spec recorded(target(), whole | cut_off) -> ok | {error, dyno_error:error()}.
recorded(#{records := false}, _Whole) ->
    ok;
recorded(#{node := Node}, Whole) ->
    try
        true = dyno_target_silence:is_connected(Node),
        _ = erpc:call(Node, dyno_agent_recorder, ended, [Whole], ?RECORD_MS),
        closed(Node)
    of
        ok -> ok;
        {error, Reason} -> {error, {?MODULE, {record, Node, Reason}}}
    catch
        _:_ -> {error, {?MODULE, {record_lost, Node}}}
    end.

closed(Node) ->
    try
        erpc:call(Node, dyno_stream, close, [dyno_agent_recorder], ?RECORD_MS)
    catch
        exit:{exception, {noproc, _}} -> ok
    end.

%% What the node has of the same name and code is its own, and stays, unless a dyno sent it.
missing(_Node, [], Missing) ->
    {ok, lists:reverse(Missing)};
missing(Node, [{Module, Binary, _} = Object | Objects], Missing) ->
    {ok, {Module, Md5}} = beam_lib:md5(Binary),
    case dyno_code:loaded(Node, [Module]) of
        {ok, []} ->
            missing(Node, Objects, [Object | Missing]);
        {ok, [Module]} ->
            maybe
                {ok, Sent} ?= dyno_code:sent(Node),
                %% The dyno that sent it may be about to remove it.
                false ?= lists:member(Module, Sent),
                Md5 ?= erpc:call(Node, erlang, get_module_info, [Module, md5]),
                missing(Node, Objects, Missing)
            else
                true -> missing(Node, Objects, [Object | Missing]);
                {error, Reason} -> {error, {dyno_code, Reason}};
                _Other -> {error, {?MODULE, {other_version, Node, Module}}}
            end;
        {error, Reason} ->
            {error, {dyno_code, Reason}}
    end.

load(Node, Objects) ->
    Own = [Object || Node =:= node(), Object <- Objects],
    lists:foreach(fun({Module, Binary, File}) -> dyno_code:load(Module, File, Binary) end, Own),
    [Module || {Module, _, _} <- Own].

-doc "What was counted until now.".
-spec peek(target()) -> {ok, dyno_agent_verifier:summary()} | gone.
peek(Target) -> summary(fun dyno_agent_verifier:peek/1, Target).

-doc "Monitors no more; what was counted.".
-spec finish(target()) -> {ok, dyno_agent_verifier:summary()} | gone.
finish(Target) -> summary(fun dyno_agent_verifier:finish/1, Target).

summary(Call, #{node := Node, verifier := Pid}) ->
    try
        true = dyno_target_silence:is_connected(Node),
        {ok, Call(Pid)}
    catch
        error:{badmatch, false} -> gone;
        exit:_ -> gone
    end.

-doc "Leaves the nodes.".
-spec detach([target()]) -> [dyno_target_visit:t()].
detach(Targets) ->
    lists:foreach(fun(#{monitor := Monitor}) -> demonitor(Monitor, [flush]) end, Targets),
    Visits = dyno_agent:detach_all([Agent || #{agent := Agent} <- Targets]),
    lists:foreach(fun(#{loaded := Loaded}) -> ok = dyno_code:unload(Loaded) end, Targets),
    Visits.

-spec format_error(reason()) -> unicode:chardata().
format_error({other_version, Node, Module}) ->
    io_lib:format(
        "~ts has another module ~ts already, which is not replaced; give the monitor another name",
        [Node, Module]
    );
format_error({record, Node, Reason}) ->
    [atom_to_list(Node), ": ", dyno_file:format_error(Reason)];
format_error({one_file, A, B}) ->
    io_lib:format(
        "~ts and ~ts are on one machine, where --record names one file; record one node at a time",
        [A, B]
    );
format_error({record_lost, Node}) ->
    [atom_to_list(Node), ": the file of --record may lack its end: it could not be closed there"].

-spec fault(reason()) -> dyno_error:fault().
fault({record, _, Reason}) -> dyno_file:fault(Reason);
fault({record_lost, _}) -> dyno;
fault({one_file, _, _}) -> caller;
fault({other_version, _, _}) -> caller.
