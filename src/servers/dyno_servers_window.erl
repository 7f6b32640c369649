%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_window).
-moduledoc """
What the servers of some nodes did in one window, and sums of it: by process, name, module,
supervisor, application, node, or of all nodes together. Pure.

A window begins and ends at whole multiples of the interval by the clock, so that those of several
nodes belong together; `start_ns` and `duration_ns` say when it really began and how long it was.
""".

-export([new/1, sums/2, for_sinks/1, groups/0, group/2]).
-export_type([window/0, of_node/0, group/0]).

-doc "A window of one or more nodes.".
-type window() :: #{
    start_ns := integer(),
    duration_ns := non_neg_integer(),
    nodes := [of_node()],
    %% Each process by itself.
    servers := [dyno_servers_sum:sum()]
}.

-doc """
What a node's window was measured with, and what that cost: all that `t:dyno_agent_servers:window/0`
has but the servers.
""".
-type of_node() :: #{node := node(), level := atom(), atom() => term()}.

-doc "What processes are summed by.".
-type group() :: process | name | module | supervisor | application | behaviour | node | cluster.

-doc "All groups.".
-spec groups() -> [group(), ...].
groups() -> [process, name, module, supervisor, application, behaviour, node, cluster].

-doc "The window of what the agents of some nodes sent.".
-spec new([map(), ...]) -> window().
new(Sent) ->
    #{
        start_ns => lists:min([StartNs || #{start_ns := StartNs} <- Sent]),
        duration_ns => lists:max([DurationNs || #{duration_ns := DurationNs} <- Sent]),
        nodes => [maps:remove(servers, OfNode) || OfNode <- Sent],
        servers => [
            dyno_servers_sum:of_server(Server, OfNode)
         || #{servers := Servers} = OfNode <- Sent, Server <- Servers
        ]
    }.

-doc "The sums of a window.".
-spec sums(group(), window()) -> [dyno_servers_sum:sum()].
sums(Group, #{servers := Servers}) ->
    group(Group, Servers).

-doc "Processes summed by what they have in common.".
-spec group(group() | sink, [dyno_servers_sum:sum()]) -> [dyno_servers_sum:sum()].
group(process, Servers) ->
    Servers;
group(Group, Servers) ->
    Add = fun(Server, Sum) -> dyno_servers_sum:add(process, Sum, Server) end,
    Keyed = maps:groups_from_list(fun(#{labels := Labels}) -> key(Group, Labels) end, Servers),
    [
        with_key(Group, Key, lists:foldl(Add, First, Rest))
     || Key := [First | Rest] <- maps:iterator(Keyed, ordered)
    ].

key(cluster, _Labels) ->
    ~"all";
key(name, #{name := Name}) ->
    dyno_servers_sum:kind(Name);
key(sink, #{name := Name} = Labels) ->
    (maps:with([node, application, module, behaviour], Labels))#{
        name => dyno_servers_sum:kind(Name)
    };
key(Group, Labels) ->
    maps:get(Group, Labels, ~"none").

%% What it is grouped by is known of a sum in any case.
with_key(sink, Labels, Sum) -> Sum#{labels := Labels};
with_key(Group, Key, #{labels := Labels} = Sum) -> Sum#{labels := Labels#{Group => Key}}.

-doc """
The sums that sinks get: by name and module within a node, without process identifiers, whose number
has no limit.
""".
-spec for_sinks(window()) -> [map()].
for_sinks(#{servers := Servers}) ->
    [
        Sum#{busy => dyno_servers_row:share(BusyNs, ProcessNs)}
     || #{busy_ns := BusyNs, process_ns := ProcessNs} = Sum <- group(sink, Servers)
    ].
