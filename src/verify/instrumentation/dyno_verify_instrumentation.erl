%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_instrumentation).
-moduledoc """
How events come to monitors. An instrumentation is a module of the behaviour `m:dyno_agent_verifier`
that runs in the target, and what is special in its configuration.
""".

-export([names/0, find/1]).

-doc "Their names; the first one is the default.".
-spec names() -> [atom(), ...].
names() -> [Name || {Name, _, _} <- all()].

-doc "The module that runs in the target, and its configuration.".
-spec find(atom()) -> {module(), #{atom() => term()}}.
find(Name) ->
    {Name, Module, Config} = lists:keyfind(Name, 1, all()),
    {Module, Config}.

all() ->
    [
        %% Events are routed by process to the shards.
        {partition, dyno_agent_verify, #{}},
        %% One tracer that tells the processes apart.
        {centralised, dyno_agent_verify, #{shards => 1}},
        %% A tracer for each process that has monitors, which hand processes over to each other.
        {riarc, dyno_agent_riarc_verify, #{}},
        %% In modules that dyno_inline wove.
        {inline, dyno_agent_inline_verify, #{}}
    ].
