%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health).
-moduledoc """
The checks of `dyno doctor`, as data. Each check is a pure function over the looks at a node
(`dyno_agent_look`) in a recording's form, so live and recorded looks give the same findings. A
check returns its findings, or `{unknown, Reason}` if the looks lack data. Limits:
`m:dyno_finding_limits`.
""".

-export([checks/0, examined/2, across/1]).
-export_type([check/0, row/0, outcome/0]).

-type check() :: #{
    name := atom(),
    title := binary(),
    %% How many looks it needs.
    looks := pos_integer(),
    finding := finds()
}.

-doc "A check in a table of its module: name, title, looks, finding.".
-type row() :: {atom(), binary(), Looks :: pos_integer(), finds()}.

-type finds() ::
    fun(([dyno_health_look:look(), ...]) -> [dyno_finding:t()] | {unknown, binary()}).

-type outcome() :: {check(), [dyno_finding:t()] | {unknown, binary()}}.

-doc "All checks, in order.".
-spec checks() -> [check()].
checks() ->
    [
        #{name => Name, title => Title, looks => Looks, finding => Finding}
     || {Name, Title, Looks, Finding} <- lists:append([
            dyno_health_waits:checks(),
            dyno_health_queues:checks(),
            dyno_health_senders:checks(),
            dyno_health_memory:checks(),
            dyno_health_schedulers:checks(),
            dyno_health_capacity:checks(),
            dyno_health_system:checks(),
            dyno_health_code:checks(),
            dyno_health_processes:checks(),
            dyno_health_collections:checks(),
            dyno_health_services:checks()
        ])
    ].

-doc "The results of all checks for a node; advised commands contain its name.".
-spec examined(binary(), [dyno_health_look:look()]) -> [outcome()].
examined(_Node, Looks) when length(Looks) < 2 ->
    [{Check, {unknown, ~"the node was looked at less than twice"}} || Check <- checks()];
examined(Node, Looks) ->
    [{Check, one(Node, Check, Looks)} || Check <- checks()].

one(Node, #{finding := Finding, looks := Least}, Looks) ->
    case length(Looks) >= dyno_health_look:enough(Least, Looks) of
        true -> of_node(Node, Finding(Looks));
        false -> {unknown, dyno_health_look:too_few()}
    end.

-doc "What only the looks at several nodes together show: the result, and at which node.".
-spec across([{Node :: binary(), [dyno_health_look:look()]}]) -> [{Node :: binary(), outcome()}].
across([_, _ | _] = Nodes) ->
    [Check | _] = checks(),
    [
        {Node, {Check, of_node(Node, [Finding])}}
     || {Node, Finding} <- dyno_health_waits:across(Nodes)
    ];
across(_One) ->
    [].

of_node(Node, Findings) when is_list(Findings) ->
    Of = fun(Text) -> binary:replace(Text, ~"NODE", Node, [global]) end,
    [
        F#{look_closer := Of(Command), advice := Of(Advice)}
     || #{look_closer := Command, advice := Advice} = F <- Findings
    ];
of_node(_Node, Unknown) ->
    Unknown.
