%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent).
-moduledoc """
Puts dyno's agent into a node and takes it out again, leaving nothing behind.

The agent's modules are sent over the distribution, so the target need not have dyno. One process
there watches the one that called `attach/2`: when that ends, or its node, or the time or memory
that was allowed is over, every instrument ends, its trace sessions are destroyed, and the modules
are removed.

```
attach -> janitor (holds the name dyno_agent, removes the modules)
            guard (watches the caller, time and memory)
              counters  discovery  sampler ...
```

The caller receives `{dyno_agent, Ref, {gave_up, Reason}}` when the agent stops by itself, and may
monitor `guard/1`.
""".


-export([attach/2, detach/1, stays/0, leave/1, start/3, guard/1, node/1, ref/1, modules/0]).
-export([format_error/1]).
-export_type([agent/0, stays/0, options/0, reason/0]).

-doc "An attached agent.".
-opaque agent() :: #{
    node := node(),
    guard := pid(),
    ref := reference(),
    janitor := dyno_target_cleaner:janitor(),
    %% What the janitor will remove.
    names := [module()],
    stays := stays() | none
}.

-doc """
Agents that rest: detached, with nothing that runs but the janitor. The next `attach/2` to the node
goes on with it; `leave/1` removes them.
""".
-opaque stays() :: ets:table().

-type options() :: #{
    %% The cookie to show the target; by default this node's own.
    cookie => atom(),
    %% This node's name where it is not distributed yet.
    name => atom(),
    %% The longest that the agent may stay; 24 hours by default.
    limit_ms => pos_integer(),
    %% The most memory that its processes may take; 512 MiB by default.
    limit_bytes => pos_integer(),
    %% What is sent in place of `modules/0`, and modules that are nowhere but in this node.
    modules => [module()],
    more_modules => [{module(), binary(), file:filename()}],
    %% Modules that may come to be there, which are removed at the end as well.
    names => [module()],
    %% What watches the caller, time and memory in place of dyno_agent_guard, and answers as it
    %% does.
    guard => module(),
    %% More modules to send, loaded here: what dyno_agent_custom is to run.
    guests => [module()],
    %% Has the agent rest when it is detached, and goes on with one that does.
    stays => stays()
}.

-type reason() ::
    dyno_target_node:reason()
    | {otp_too_old, node(), string()}
    | {taken, node()}
    | {other_version, node(), module()}
    | {failed, node(), term()}.

-define(FLOOR, 27).
-define(TIMEOUT_MS, 30_000).
%% To take a module away the runtime asks each process whether it runs it: with 100,000 processes
%% and all of the agent's modules that takes seconds, on a busy machine a minute.
-define(REMOVAL_MS, 300_000).
-define(LIMIT_MS, 86_400_000).
-define(LIMIT_BYTES, 536_870_912).

-doc "The modules that a target is sent. They call kernel and stdlib and one another only.".
-spec modules() -> [module()].
modules() ->
    [
        dyno_agent_call_sessions,
        dyno_agent_calibration,
        dyno_agent_overhead,
        dyno_agent_checks,
        dyno_agent_calls,
        dyno_agent_processes,
        dyno_agent_gauges,
        dyno_agent_durations,
        dyno_agent_first_calls,
        dyno_agent_group,
        dyno_agent_guard,
        dyno_agent_custom,
        dyno_agent_os,
        dyno_agent_call_sample,
        dyno_agent_self_calls,
        dyno_agent_patterns,
        dyno_agent_process,
        dyno_agent_resources,
        dyno_agent_discovery,
        dyno_agent_process_table,
        dyno_agent_throttle,
        dyno_agent_sampler,
        dyno_agent_kind,
        dyno_agent_lifetimes,
        dyno_agent_call_sums,
        dyno_agent_vm
    ].

-doc """
Attaches to a node, this one or another.

## Cost
About 10 ms and, in the target, a few processes and 200 kB of code. Nothing is traced yet.

## Errors
The node is down or refuses the cookie, its OTP is older than 27, or another dyno is attached.
""".
-spec attach(node(), options()) -> {ok, agent()} | {error, reason()}.
attach(Node, Options) ->
    maybe
        ok ?= dyno_target_node:connect(Node, maps:with([cookie, name], Options)),
        ok ?= check_release(Node),
        {ok, Janitor, Names} ?= take(Node, Options),
        settle(Node, {Janitor, Names}, Options)
    end.

check_release(Node) ->
    case remote(Node, erlang, system_info, [otp_release]) of
        {ok, Release} ->
            case string:to_integer(Release) of
                {Number, _} when is_integer(Number), Number >= ?FLOOR -> ok;
                _ -> {error, {otp_too_old, Node, Release}}
            end;
        {error, _} = Error ->
            Error
    end.

take(Node, #{stays := Stays} = Options) ->
    case ets:take(Stays, Node) of
        [{Node, Janitor, Names}] ->
            %% The node may have been started anew.
            case dyno_target_cleaner:modules(Janitor, Names) of
                ok -> {ok, Janitor, Names};
                {error, _} -> take(Node, Options)
            end;
        [] ->
            take(Node, maps:remove(stays, Options))
    end;
take(Node, _Options) ->
    case dyno_target_cleaner:start(Node, self(), ?TIMEOUT_MS) of
        {ok, Janitor} -> {ok, Janitor, []};
        {error, taken} -> {error, {taken, Node}};
        {error, Reason} -> {error, {failed, Node, Reason}}
    end.

settle(Node, {Janitor, Known}, Options) ->
    Ref = make_ref(),
    GuardOptions = #{
        caller => self(),
        ref => Ref,
        limit_ms => maps:get(limit_ms, Options, ?LIMIT_MS),
        limit_bytes => maps:get(limit_bytes, Options, ?LIMIT_BYTES)
    },
    maybe
        Guests = maps:get(guests, Options, []),
        %% A module that is already there in this very version is left alone, also at the end: it is
        %% the target's own (this node, or one that has dyno installed).
        {ok, Lacking} ?= dyno_code:missing(Node, maps:get(modules, Options, modules()) ++ Guests),
        ok ?= not_others(Node, [M || {M, _, _} <- Lacking, lists:member(M, Guests)]),
        Missing = Lacking ++ [M || Node =/= node(), M <- maps:get(more_modules, Options, [])],
        Names = lists:uniq(
            Known ++ [M || {M, _, _} <- Missing] ++ maps:get(names, Options, [])
        ),
        %% Named before they are sent, so that nothing is left if we die in between.
        ok ?= dyno_target_cleaner:modules(Janitor, Names),
        ok ?= dyno_code:send(Node, Missing),
        GuardModule = maps:get(guard, Options, dyno_agent_guard),
        {ok, {ok, Guard}} ?= remote(Node, GuardModule, start, [GuardOptions]),
        ok = dyno_target_cleaner:guard(Janitor, Guard),
        {ok, #{
            node => Node,
            guard => Guard,
            ref => Ref,
            janitor => Janitor,
            names => Names,
            stays => maps:get(stays, Options, none)
        }}
    else
        {error, Reason} ->
            _ = dyno_target_cleaner:release(Janitor, ?TIMEOUT_MS),
            {error, as_reason(Node, Reason)};
        {ok, {error, Reason}} ->
            _ = dyno_target_cleaner:release(Janitor, ?TIMEOUT_MS),
            {error, {failed, Node, Reason}}
    end.

as_reason(_Node, {failed, _, _} = Reason) -> Reason;
as_reason(_Node, {other_version, _, _} = Reason) -> Reason;
as_reason(_Node, {node_down, _} = Reason) -> Reason;
as_reason(Node, Reason) -> {failed, Node, Reason}.

%% What the target has of that name in another version is its own, and stays.
not_others(Node, Modules) ->
    case dyno_code:loaded(Node, Modules) of
        {ok, []} -> ok;
        {ok, [Module | _]} -> {error, {other_version, Node, Module}};
        {error, _} = Error -> Error
    end.

remote(Node, Module, Function, Arguments) ->
    try
        {ok, erpc:call(Node, Module, Function, Arguments, ?TIMEOUT_MS)}
    catch
        error:{erpc, noconnection} -> {error, {node_down, Node}};
        Class:Reason -> {error, {failed, Node, {Class, Reason}}}
    end.

-doc """
Ends the agent; returns when its processes, sessions and modules are gone, or, where it is to rest,
its processes and sessions.

## Cost
To remove the modules the runtime asks each process, for each of them: seconds where there are
100,000.
""".
-spec detach(agent()) -> ok | {error, reason()}.
detach(#{node := Node, guard := Guard, janitor := Janitor, names := Names, stays := Stays}) ->
    case Stays =/= none andalso dyno_target_cleaner:rest(Janitor) =:= ok of
        true ->
            ok = stop(Guard),
            true = ets:insert(Stays, {Node, Janitor, Names}),
            ok;
        false ->
            ok = stop(Guard),
            remove(Node, Janitor)
    end.

stop(Guard) ->
    try
        gen_server:call(Guard, stop, ?TIMEOUT_MS)
    catch
        %% It ended by itself; the janitor knows.
        exit:_ -> ok
    end.

-doc "Where agents can rest between two uses, for `attach/2`; of the calling process only.".
-spec stays() -> stays().
stays() ->
    ets:new(?MODULE, [private]).

-doc "Removes the agents that rest, where the node is still there; returns when they are gone.".
-spec leave(stays()) -> ok.
leave(Stays) ->
    Here = [node() | nodes(connected)],
    lists:foreach(
        fun({Node, Janitor, _Names}) -> remove(Node, Janitor) end,
        [Stay || {Node, _, _} = Stay <- ets:tab2list(Stays), lists:member(Node, Here)]
    ),
    true = ets:delete(Stays),
    ok.

remove(Node, Janitor) ->
    case dyno_target_cleaner:release(Janitor, ?REMOVAL_MS) of
        ok -> ok;
        %% The guard's end was enough for it.
        {error, Ended} when Ended =:= noproc; Ended =:= normal -> ok;
        {error, noconnection} -> {error, {node_down, Node}};
        {error, Reason} -> {error, {failed, Node, Reason}}
    end.

-doc """
Starts an instrument in the target: `dyno_agent_calls`, `dyno_agent_processes`,
`dyno_agent_durations`, `dyno_agent_resources`, `dyno_agent_sampler` or `dyno_agent_custom`, each
with the configuration that its `config()` type says.
""".
-spec start
    (agent(), dyno_agent_calls, dyno_agent_calls:config()) -> {ok, pid()} | {error, reason()};
    (agent(), dyno_agent_processes, dyno_agent_processes:config()) ->
        {ok, pid()} | {error, reason()};
    (agent(), dyno_agent_durations, dyno_agent_durations:config()) ->
        {ok, pid()} | {error, reason()};
    (agent(), dyno_agent_resources, dyno_agent_resources:config()) ->
        {ok, pid()} | {error, reason()};
    (agent(), dyno_agent_sampler, dyno_agent_sampler:config()) -> {ok, pid()} | {error, reason()};
    (agent(), dyno_agent_custom, dyno_agent_custom:config()) -> {ok, pid()} | {error, reason()}.
start(#{node := Node, guard := Guard}, Instrument, Config) ->
    try gen_server:call(Guard, {start, Instrument, Config}, ?TIMEOUT_MS) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, {failed, Node, Reason}}
    catch
        exit:{{nodedown, _}, _} -> {error, {node_down, Node}};
        exit:{Reason, _} -> {error, {failed, Node, Reason}}
    end.

-doc "The agent's process in the target, to monitor.".
-spec guard(agent()) -> pid().
guard(#{guard := Guard}) -> Guard.

-doc "The node the agent is in.".
-spec node(agent()) -> node().
node(#{node := Node}) -> Node.

-doc "What marks the agent's messages to its caller.".
-spec ref(agent()) -> reference().
ref(#{ref := Ref}) -> Ref.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({otp_too_old, Node, Release}) ->
    io_lib:format(
        "node ~ts runs Erlang/OTP ~ts; dyno needs OTP ~b or later in the target, "
        "which is where trace sessions came",
        [Node, Release, ?FLOOR]
    );
format_error({taken, Node}) ->
    io_lib:format(
        "another dyno is attached to ~ts; wait until it has ended",
        [Node]
    );
format_error({other_version, Node, Module}) ->
    io_lib:format(
        "~ts has another module ~ts already, which is not replaced; give the custom agent another "
        "name",
        [Node, Module]
    );
format_error({failed, Node, Reason}) ->
    io_lib:format("the agent could not work in ~ts: ~0tP", [Node, Reason, 15]);
format_error(Reason) ->
    dyno_target_node:format_error(Reason).
