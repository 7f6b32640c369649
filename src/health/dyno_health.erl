%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health).
-moduledoc """
The checks of `dyno doctor`, as data: each is a pure function over the looks at a node
(`dyno_agent_look`), in the form that a recording holds, so that live and from a recording the
findings are the same.

A check gives its findings, none if all is well, or `{unknown, Reason}` if the looks lack what it
needs.
""".

-export([checks/0, examined/2]).
-export_type([check/0, outcome/0]).

-type check() :: #{
    name := atom(),
    %% What is looked at, for people.
    title := binary(),
    finding := fun(([dyno_health_look:look(), ...]) -> [dyno_finding:t()] | {unknown, binary()})
}.

-type outcome() :: {check(), [dyno_finding:t()] | {unknown, binary()}}.

-doc "All checks, in the order in which they are told.".
-spec checks() -> [check()].
checks() ->
    lists:append([
        dyno_health_waits:checks(),
        dyno_health_queues:checks(),
        dyno_health_memory:checks(),
        dyno_health_schedulers:checks(),
        dyno_health_limits:checks(),
        dyno_health_system:checks(),
        dyno_health_code:checks()
    ]).

-doc "What the checks say of a node, whose name goes into the commands that they advise.".
-spec examined(binary(), [dyno_health_look:look()]) -> [outcome()].
examined(_Node, Looks) when length(Looks) < 2 ->
    [{Check, {unknown, ~"the node was looked at less than twice"}} || Check <- checks()];
examined(Node, Looks) ->
    [
        {Check, of_node(Node, Finding(Looks))}
     || #{finding := Finding} = Check <- checks()
    ].

of_node(Node, Findings) when is_list(Findings) ->
    [
        Finding#{look_closer := binary:replace(Command, ~"NODE", Node)}
     || #{look_closer := Command} = Finding <- Findings
    ];
of_node(_Node, Unknown) ->
    Unknown.
