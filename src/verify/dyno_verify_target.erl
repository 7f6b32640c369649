%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_target).
-moduledoc false.
%% A node whose processes are monitored: the agent there, the monitors' code, and what runs them. It
%% ends with the process that attaches it, which gets {dyno_verify, Node, Message} and, where the
%% agent ends, the message of the monitor `t:target/0` has.

-export([attach/3, peek/1, finish/1, detach/1, format_error/1]).
-export_type([target/0, options/0, reason/0]).

-type target() :: #{
    node := node(),
    agent := dyno_agent:agent(),
    monitor := reference(),
    ref := reference(),
    %% Once it runs.
    verifier => {module(), pid()},
    %% Of this node, loaded for as long as it lasts.
    loaded := [module()]
}.

-type options() :: #{
    instrumentation => atom(),
    limits => dyno_agent_event_flow:limits(),
    select => [dyno_agent_monitor:selector()],
    shards => pos_integer(),
    events => non_neg_integer(),
    cookie => atom(),
    name => atom()
}.

-type reason() :: {other_version, node(), module()}.

-define(CALL_MS, 120_000).

-doc "Attaches to a node, and monitors.".
-spec attach(node(), [dyno_code:object(), ...], options()) ->
    {ok, target()} | {error, dyno_error:error()}.
attach(Node, Objects, Options) ->
    {Verifier, Config} = dyno_verify_instrumentation:find(
        maps:get(instrumentation, Options, hd(dyno_verify_instrumentation:names()))
    ),
    Modules = dyno_code:closure(
        [dyno_agent_guard, Verifier | dyno_verify_monitors:runtime(Objects)]
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
            loaded => Loaded
        },
        start(Verifier, Target, maps:merge(maps:merge(#{
            monitors => [Module || {Module, _, _} <- Objects],
            sink => self()
        }, maps:with([limits, select, shards, events], Options)), Config))
    end.

start(Verifier, #{agent := Agent} = Target, Config) ->
    case dyno_agent:start(Agent, Verifier, Config) of
        {ok, Pid} ->
            {ok, Target#{verifier => {Verifier, Pid}}};
        Error ->
            detach(Target),
            Error
    end.

%% What the node has of the same name and code is its own, and stays.
missing(_Node, [], Missing) ->
    {ok, lists:reverse(Missing)};
missing(Node, [{Module, Binary, _} = Object | Objects], Missing) ->
    {ok, {Module, Md5}} = beam_lib:md5(Binary),
    case dyno_code:loaded(Node, [Module]) of
        {ok, []} ->
            missing(Node, Objects, [Object | Missing]);
        {ok, [Module]} ->
            case erpc:call(Node, erlang, get_module_info, [Module, md5]) of
                Md5 -> missing(Node, Objects, Missing);
                _ -> {error, {?MODULE, {other_version, Node, Module}}}
            end;
        {error, Reason} ->
            {error, {dyno_code, Reason}}
    end.

load(Node, Objects) when Node =:= node() ->
    lists:map(
        fun({Module, Binary, File}) ->
            ok = dyno_code:load(Module, File, Binary),
            Module
        end,
        Objects
    );
load(_Node, _Objects) ->
    [].

-doc "What was counted until now.".
-spec peek(target()) -> {ok, dyno_agent_verifier:summary()} | gone.
peek(Target) -> call(peek, Target).

-doc "Monitors no more; what was counted.".
-spec finish(target()) -> {ok, dyno_agent_verifier:summary()} | gone.
finish(Target) -> call(finish, Target).

call(Function, #{node := Node, verifier := {Module, Pid}}) ->
    try
        {ok, erpc:call(Node, Module, Function, [Pid], ?CALL_MS)}
    catch
        _:_ -> gone
    end.

-doc "Leaves the node; returns when nothing is left there.".
-spec detach(target()) -> ok.
detach(#{agent := Agent, monitor := Monitor, loaded := Loaded}) ->
    true = demonitor(Monitor, [flush]),
    _ = dyno_agent:detach(Agent),
    dyno_code:unload(Loaded).

-spec format_error(reason()) -> unicode:chardata().
format_error({other_version, Node, Module}) ->
    io_lib:format(
        "~ts has another module ~ts already, which is not replaced; give the monitor another name",
        [Node, Module]
    ).
