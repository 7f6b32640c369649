%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_target).
-moduledoc false.
%% A node with monitored processes: the monitors' code there, and their runtime. The owner gets
%% {dyno_verify, Node, Message}.

-export([instrumentation/1, hold/3, peek/1, finish/1]).
-export([records_apart/2, recorded/2]).
-export([format_error/1, fault/1]).
-export_type([reason/0]).

-type reason() ::
    {no_instrumentation, atom()}
    | {other_version, node(), module()}
    | {record, node(), dyno_file:reason()}
    | {record_lost, node()}
    | {one_file, node(), node()}.

-define(RECORD_MS, 120_000).

-doc "An instrumentation: one of dyno's, or a module of dyno_agent_verifier.".
-spec instrumentation(atom()) -> dyno_error:result(module()).
%% One tracer for all processes; detectEr's name.
instrumentation(Name) when Name =:= partition; Name =:= centralised ->
    {ok, dyno_agent_verify};
%% In modules compiled with dyno_inline.
instrumentation(inline) ->
    {ok, dyno_agent_inline_verify};
instrumentation(Module) ->
    _ = code:ensure_loaded(Module),
    case erlang:function_exported(Module, info, 2) of
        true -> {ok, Module};
        false -> {error, {?MODULE, {no_instrumentation, Module}}}
    end.

-spec hold(node(), [dyno_code:object(), ...], dyno_verify:options()) ->
    dyno_error:result(dyno_target:t()).
hold(Node, Objects, Options) ->
    Recorder = [dyno_stream || is_map_key(record, Options)],
    Connection = maps:with([cookie, name], Options),
    maybe
        {ok, By} ?= instrumentation(maps:get(instrumentation, Options, partition)),
        Modules = dyno_code:closure(
            [dyno_agent_guard, dyno_agent_verifier, By] ++ Recorder ++
                dyno_verify_monitors:runtime(Objects)
        ),
        ok ?= dyno_target_node:connect(Node, Connection),
        {ok, Missing} ?= missing(Node, Objects, []),
        dyno_target:hold(
            Node, Connection#{modules => Modules, more_modules => Missing}, fun(Bare) ->
                Config = maps:with([limits, select, events], Options),
                monitored(Bare, Missing, Options, Config#{
                    instrumentation => By,
                    monitors => [Module || {Module, _, _} <- Objects],
                    sink => self()
                })
            end
        )
    end.

monitored(#{node := Node, agent := Agent} = Bare, Missing, Options, Config) ->
    %% Of this node, loaded for the duration.
    Loaded = load(Node, Missing),
    maybe
        ok ?= record(Node, Options),
        {ok, Pid} ?= dyno_agent:start(Agent, dyno_agent_verifier, Config),
        {ok, Bare#{
            verifier => Pid,
            records => is_map_key(record, Options),
            undo => fun() -> dyno_code:unload(Loaded) end
        }}
    else
        Error ->
            %% Without an entry, so an earlier file stays.
            _ = is_map_key(record, Options) andalso closed(Node),
            ok = dyno_code:unload(Loaded),
            Error
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

-doc "Nodes of one machine would write to the same file, and lose one recording.".
-spec records_apart([node(), ...], dyno_verify:options()) -> dyno_error:result().
records_apart(Nodes, #{record := _}) ->
    Hosts = maps:groups_from_list(fun host/1, Nodes),
    case [{A, B} || _ := [A, B | _] <- Hosts] of
        [] -> ok;
        [{A, B} | _] -> {error, {?MODULE, {one_file, A, B}}}
    end;
records_apart(_Nodes, _Options) ->
    ok.

host(Node) -> lists:last(string:split(atom_to_list(Node), "@")).

-doc "Closes the recorded file, and marks whether processes were cut off; an error names the loss.".
-spec recorded(dyno_target:t(), whole | cut_off) -> dyno_error:result().
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

%% The node's own modules of the same name and code stay, unless a dyno sent them.
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
                %% The sending dyno may be about to remove them.
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

-spec peek(dyno_target:t()) -> {ok, dyno_agent_verifier:summary()} | gone.
peek(Target) -> summary(fun dyno_agent_verifier:peek/1, Target).

-spec finish(dyno_target:t()) -> {ok, dyno_agent_verifier:summary()} | gone.
finish(Target) -> summary(fun dyno_agent_verifier:finish/1, Target).

summary(Call, #{node := Node, verifier := Pid}) ->
    try
        true = dyno_target_silence:is_connected(Node),
        {ok, Call(Pid)}
    catch
        error:{badmatch, false} -> gone;
        exit:_ -> gone
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_instrumentation, Name}) ->
    io_lib:format(
        "there is no instrumentation ~ts; take partition, centralised, inline, or a module of "
        "dyno_agent_verifier on the code path (--pa)",
        [Name]
    );
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
fault({no_instrumentation, _}) -> caller;
fault({other_version, _, _}) -> caller.
