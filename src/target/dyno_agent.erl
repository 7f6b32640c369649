%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent).
-moduledoc """
Puts dyno's agent into a node and takes it out again.

The agent's modules are sent over the distribution, so the target need not have dyno. One process
there monitors the one that called `attach/2`: when that ends, or its node, or the time or memory
that was allowed is over, every instrument ends, its trace sessions are destroyed, and the modules
are removed, or left if removing them would be dear (`detach/1`).

```
attach -> cleaner (dyno_target_cleaner: holds the name dyno_agent, removes the modules)
            guard (dyno_agent_guard: monitors the caller, limits time and memory)
              calls  processes  sampler ...   (dyno_agent_instrument)
```

The caller receives `{dyno_agent, Ref, {gave_up, Reason}}` when the agent stops by itself,
`{dyno_agent, Ref, {without, Instruments, Reason}}` when it goes on without instruments that took
too much memory or have ended, and may monitor `guard/1`.
""".

-export([attach/2, detach/1, detach_all/1, start/3, guard/1, node/1, ref/1, modules/0]).
-export([processes/1]).
-export([new_idle/0, release/1, leave/2]).
-export([format_error/1, fault/1]).
-export_type([agent/0, idle/0, options/0, reason/0]).

-doc "An attached agent.".
-opaque agent() :: #{
    node := node(),
    guard := pid(),
    ref := reference(),
    cleaner := dyno_target_cleaner:cleaner(),
    %% What the cleaner will remove.
    names := [module()],
    idle := idle() | none,
    processes := pos_integer(),
    cost := dyno_target_visit:meter()
}.

-doc """
Agents that are detached but were left in their nodes, with nothing that runs but the cleaner. The
next `attach/2` to such a node goes on with its agent; `release/1` removes them all.
""".
-opaque idle() :: ets:table().

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
    more_modules => [dyno_code:object()],
    %% Modules that may come to be there, which are removed at the end as well.
    names => [module()],
    %% How many processes the node has.
    processes => pos_integer(),
    %% What limits the agent in place of dyno_agent_guard, and answers as it does.
    guard => module(),
    %% Modules that are not dyno's, loaded here, to be sent as well: instruments of a suite, and
    %% what dyno_agent_custom is to run.
    custom => [module()],
    %% Has the agent stay idle when it is detached, unless `keep` is false, and goes on with one that
    %% is idle.
    idle => idle(),
    keep => boolean(),
    %% Looks on while another dyno may measure: for what asks little, and sets no breakpoint.
    beside => boolean()
}.

-type reason() ::
    {node_down, node()}
    | {taken, node(), measuring | beside}
    %% A process runs what was to be removed.
    | {inside, node()}
    | {other_version, node(), module()}
    | {left_twice, node(), Modules :: pos_integer()}
    | {failed, node(), term()}.

-define(TIMEOUT_MS, 30_000).
%% Breakpoints in all functions of a busy target take that long.
-define(START_MS, 180_000).
%% How long dyno waits for a node that it leaves; its cleaner needs no caller.
-define(LEAVING_MS, 2500).
%% Of all that dyno left there, at any cost.
-define(REMOVAL_MS, 3_600_000).
%% Processes times modules to be purged.
-define(MOST_QUESTIONS, 150_000).
-define(LIMIT_MS, 86_400_000).
-define(LIMIT_BYTES, 536_870_912).

-doc "The modules that a target is sent. They call kernel and stdlib and one another only.".
-spec modules() -> [module()].
modules() ->
    %% Reading what each module calls takes milliseconds, and a test attaches many times.
    {ok, Modules} = dyno_once:value(?MODULE, fun() ->
        Instruments = dyno_agent_instrument:all(),
        All = dyno_code:closure([
            dyno_agent_guard, dyno_agent_custom, dyno_agent_polls | Instruments
        ]),
        %% How results are recorded is said on this side.
        OurParts = [
            Parts
         || I <- Instruments, #{parts := Parts} <- [dyno_agent_instrument:about(I)], Parts =/= I
        ],
        {ok, [M || M <- All -- OurParts, not is_of_cpu(M)]}
    end),
    Modules.

%% Sent only if the processor is to be sampled.
is_of_cpu(Module) -> lists:prefix("dyno_agent_cpu", atom_to_list(Module)).

%% What it calls of dyno's outside of the agent it calls on this side.
with_what_they_call(Custom) ->
    [
        Module
     || Module <- dyno_code:closure(Custom),
        lists:member(Module, Custom) orelse lists:prefix("dyno_agent_", atom_to_list(Module))
    ].

-doc """
Attaches to a node, this one or another.

## Cost
Some 20 ms and, in the target, a few processes and 690 kB of code. Nothing is traced yet.

## Errors
The node is down or refuses the cookie, its OTP is older than 27, or another dyno is attached.
""".
-spec attach(node(), options()) -> {ok, agent()} | {error, dyno_error:error()}.
attach(Node, Options) ->
    dyno_target_silence:during(Node, fun() -> attach_to(Node, Options) end).

attach_to(Node, Options) ->
    maybe
        ok ?= dyno_target_node:connect(Node, maps:with([cookie, name], Options)),
        {ok, Processes} ?= dyno_target_room:check(Node),
        {ok, Cleaner, Names} ?= take(Node, Options),
        {ok, _} ?= bring(Node, {Cleaner, Names}, Options#{processes => Processes})
    else
        {error, {Module, _}} = Error when
            Module =:= dyno_target_node; Module =:= dyno_target_room; Module =:= ?MODULE
        ->
            Error;
        {error, Reason} ->
            {error, {?MODULE, Reason}}
    end.

take(Node, #{idle := Idle} = Options) ->
    maybe
        [{Node, Cleaner, Names}] ?= ets:take(Idle, Node),
        %% The node may have been started anew.
        ok ?= dyno_target_cleaner:modules(Cleaner, Names),
        {ok, Cleaner, Names}
    else
        _ -> take(Node, maps:remove(idle, Options))
    end;
take(Node, Options) ->
    Place =
        case Options of
            #{beside := true} -> beside;
            #{} -> measuring
        end,
    case dyno_target_cleaner:start(Node, self(), Place, ?TIMEOUT_MS) of
        {ok, Cleaner} -> {ok, Cleaner, []};
        {error, taken} -> {error, {taken, Node, Place}};
        {error, Reason} -> {error, {failed, Node, Reason}}
    end.

bring(Node, {Cleaner, Known}, Options) ->
    Ref = make_ref(),
    Cost = dyno_target_visit:meter(),
    GuardOptions = #{
        caller => self(),
        ref => Ref,
        limit_ms => maps:get(limit_ms, Options, ?LIMIT_MS),
        limit_bytes => maps:get(limit_bytes, Options, ?LIMIT_BYTES)
    },
    Bring = fun() ->
        maybe
            {ok, Names} ?= load(Node, {Cleaner, Known}, Options),
            GuardModule = maps:get(guard, Options, dyno_agent_guard),
            {ok, Guard} ?= start_guard(Node, GuardModule, GuardOptions),
            ok = dyno_target_cleaner:guard(Cleaner, Guard),
            {ok, #{
                node => Node,
                guard => Guard,
                ref => Ref,
                cleaner => Cleaner,
                names => Names,
                idle => idle_in(Options),
                processes => map_get(processes, Options),
                cost => Cost
            }}
        end
    end,
    case dyno_target_visit:metered(Cleaner, Cost, Bring) of
        {ok, Agent} ->
            {ok, Agent};
        {error, Reason} ->
            _ = dyno_target_cleaner:release([Cleaner], ?LEAVING_MS),
            {error, as_reason(Node, Reason)}
    end.

idle_in(#{keep := false}) -> none;
idle_in(Options) -> maps:get(idle, Options, none).

load(Node, {Cleaner, Known}, Options) ->
    Custom = maps:get(custom, Options, []),
    Own =
        case Options of
            #{modules := Of} -> Of;
            #{} -> modules()
        end,
    Modules = lists:uniq(Own ++ with_what_they_call(Custom)),
    maybe
        %% A module that is already there in this very version is not sent. If dyno did not send it
        %% it is left alone, also at the end: it is the target's own (this node, or one that has
        %% dyno installed).
        {ok, Lacking} ?= dyno_code:missing(Node, Modules),
        {ok, Sent} ?= dyno_code:sent(Node),
        ok ?= not_others(Node, [M || {M, _, _} <- Lacking, lists:member(M, Custom -- Sent)]),
        Missing = Lacking ++ [M || Node =/= node(), M <- maps:get(more_modules, Options, [])],
        ok ?= not_left_twice(Node, [M || {M, _, _} <- Missing], Options),
        %% What was left before goes, too; but not what a load node was sent (dyno_load_nodes).
        Before = [
            M
         || M <- Sent,
            lists:member(M, Modules) orelse lists:prefix("dyno_agent_", atom_to_list(M))
        ],
        Names = lists:uniq(
            Known ++ Before ++ [M || {M, _, _} <- Missing] ++ maps:get(names, Options, [])
        ),
        %% Named before they are sent, so that nothing is left if we die in between.
        ok ?= dyno_target_cleaner:modules(Cleaner, Names),
        ok ?= send(Node, Cleaner, Missing),
        {ok, Names}
    end.

%% All at once: one by one, each would wait for a turn of the code server.
send(Node, Cleaner, Missing) ->
    case dyno_target_cleaner:load(Cleaner, dyno_code:packed(Missing)) of
        ok -> ok;
        {error, _} -> dyno_code:send(Node, Missing)
    end.

as_reason(_Node, {Kind, _, _} = Reason) when
    Kind =:= failed; Kind =:= other_version; Kind =:= left_twice; Kind =:= taken
->
    Reason;
as_reason(_Node, {Kind, _} = Reason) when Kind =:= node_down; Kind =:= inside -> Reason;
as_reason(Node, {error, {erpc, timeout}}) -> {failed, Node, timeout};
as_reason(Node, Reason) -> {failed, Node, Reason}.

%% What the target has of that name in another version is its own, and stays.
not_others(Node, Modules) ->
    case dyno_code:loaded(Node, Modules) of
        {ok, []} -> ok;
        {ok, [Module | _]} -> {error, {other_version, Node, Module}};
        {error, _} = Error -> Error
    end.

%% The first other version that comes after one that was left is loaded beside it.
not_left_twice(Node, Modules, #{processes := Processes}) ->
    case dyno_code:replaced(Node, Modules) of
        {ok, Twice} when length(Twice) * Processes > ?MOST_QUESTIONS ->
            {error, {left_twice, Node, length(Twice)}};
        {ok, _Few} ->
            ok;
        {error, _} = Error ->
            Error
    end.

start_guard(Node, Module, Options) ->
    try
        dyno_remote:call(Node, Module, start, [Options], ?TIMEOUT_MS)
    catch
        error:{erpc, noconnection} -> {error, {node_down, Node}};
        error:{erpc, timeout} -> {error, {failed, Node, timeout}};
        Class:Reason -> {error, {failed, Node, {Class, Reason}}}
    end.

-doc """
Ends the agent and leaves the node, or, if the agent is to stay idle, ends its processes and
sessions. Says what the visit cost, and what was left.

Modules are left, as code that nobody runs, if the node has so many processes, or answers so slowly,
that removing them would cost it more than about a second. The next `attach/2` uses them again, and
`leave/2` removes them.

## Cost
At most 2.5 s. A node that does not answer within this time finishes by itself.
""".
-spec detach(agent()) -> dyno_target_visit:t().
detach(Agent) ->
    [Visit] = detach_all([Agent]),
    Visit.

-doc "As `detach/1`, from several nodes within the same 2.5 s.".
-spec detach_all([agent()]) -> [dyno_target_visit:t()].
detach_all(Agents) ->
    {Here, Lost} = lists:partition(
        fun(#{node := Node}) -> dyno_target_silence:is_connected(Node) end, Agents
    ),
    {Idle, Leaving} = lists:partition(fun stays_idle/1, Here),
    %% The cleaners wait for the guards' ends.
    Stops = [gen_server:send_request(Guard, stop) || #{guard := Guard} <- Leaving],
    Visits = [
        dyno_target_visit:ended(Node, Cost, 0, {error, noconnection})
     || #{node := Node, cost := Cost} <- Lost
    ] ++ [idle(Agent) || Agent <- Idle] ++
        release([{Cleaner, Of, Cost} || #{cleaner := Cleaner, node := Of, cost := Cost} <- Leaving]),
    _ = [gen_server:receive_response(Stop, 0) || Stop <- Stops],
    Visits.

stays_idle(#{idle := none}) -> false;
stays_idle(#{cleaner := Cleaner}) -> dyno_target_cleaner:idle(Cleaner) =:= ok.

idle(#{node := Node, guard := Guard, cleaner := Cleaner, names := Names} = Agent) ->
    #{idle := Idle, cost := Cost} = Agent,
    ok = stop(Guard),
    true = ets:insert(Idle, {Node, Cleaner, Names}),
    dyno_target_visit:idle(Node, Cost).

stop(Guard) ->
    try
        gen_server:call(Guard, stop, ?TIMEOUT_MS)
    catch
        %% It ended by itself; the cleaner knows.
        exit:_ -> ok
    end.

-doc "Where agents are kept between two uses, for `attach/2`; of the calling process only.".
-spec new_idle() -> idle().
new_idle() ->
    ets:new(?MODULE, [private]).

-doc "Leaves the nodes of the idle agents that are still there, as `detach/1` does.".
-spec release(idle()) -> [dyno_target_visit:t()].
release(Idle) when not is_list(Idle) ->
    Left = [
        {Cleaner, Node, dyno_target_visit:meter()}
     || {Node, Cleaner, _Names} <- ets:tab2list(Idle), dyno_target_silence:is_connected(Node)
    ],
    true = ets:delete(Idle),
    release(Left);
release(Leaving) ->
    Began = erlang:monotonic_time(millisecond),
    Answers = dyno_target_cleaner:release([Cleaner || {Cleaner, _, _} <- Leaving], ?LEAVING_MS),
    TookMs = erlang:monotonic_time(millisecond) - Began,
    [
        dyno_target_visit:ended(Node, Cost, TookMs, Answer)
     || {{_, Node, Cost}, Answer} <- lists:zip(Leaving, Answers)
    ].

-doc """
Removes the modules that `detach/1` left in a node, whatever that costs.

## Cost
2 to 5 us of the node's processor for each of its processes and each module: 3 minutes for 60
modules and 1,000,000 processes.
""".
-spec leave(node(), #{cookie => atom(), name => atom()}) ->
    {ok, #{modules := [module()], cpu_ms := dyno_target_cleaner:cpu_ms()}}
    | {error, dyno_error:error()}.
leave(Node, Options) ->
    maybe
        ok ?= dyno_target_node:connect(Node, maps:with([cookie, name], Options)),
        {ok, Cleaner, []} ?= take(Node, #{}),
        %% Nobody may look on meanwhile.
        Removed =
            case take(Node, #{beside => true}) of
                {ok, Beside, []} ->
                    Done = removed(Node, Cleaner),
                    _ = dyno_target_cleaner:release([Beside], ?LEAVING_MS),
                    Done;
                Error ->
                    Error
            end,
        %% One that has removed the modules has ended.
        _ = element(1, Removed) =:= error andalso
            dyno_target_cleaner:release([Cleaner], ?LEAVING_MS),
        {ok, _} ?= Removed
    else
        {error, {dyno_target_node, _}} = NoNode -> NoNode;
        {error, Reason} -> {error, {?MODULE, as_reason(Node, Reason)}}
    end.

removed(Node, Cleaner) ->
    maybe
        {ok, Sent} ?= dyno_code:sent(Node),
        ok ?= dyno_target_cleaner:modules(Cleaner, Sent),
        case dyno_target_cleaner:remove(Cleaner, ?REMOVAL_MS) of
            {ok, #{inside := true}} -> {error, {inside, Node}};
            {ok, #{cpu_ms := CpuMs}} -> {ok, #{modules => Sent, cpu_ms => CpuMs}};
            Other -> Other
        end
    end.

-doc """
Starts an instrument (`m:dyno_agent_instrument`) or a custom probe (`dyno_agent_custom`) in the
target, with the configuration that its `config()` type says.
""".
-spec start(agent(), module(), map()) -> {ok, pid()} | {error, dyno_error:error()}.
start(#{cleaner := Cleaner, cost := Cost} = Agent, Instrument, Config) ->
    dyno_target_silence:during(?MODULE:node(Agent), fun() ->
        dyno_target_visit:metered(Cleaner, Cost, fun() -> started(Agent, Instrument, Config) end)
    end).

started(#{node := Node, guard := Guard}, Instrument, Config) ->
    try gen_server:call(Guard, {start, Instrument, Config}, ?START_MS) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, {?MODULE, {failed, Node, Reason}}}
    catch
        exit:{{nodedown, _}, _} -> {error, {?MODULE, {node_down, Node}}};
        exit:{Reason, _} -> {error, {?MODULE, {failed, Node, Reason}}}
    end.

-doc "The agent's process in the target, to monitor.".
-spec guard(agent()) -> pid().
guard(#{guard := Guard}) -> Guard.

-doc "The node the agent is in.".
-spec node(agent()) -> node().
node(#{node := Node}) -> Node.

-doc "How many processes the node had when the agent came.".
-spec processes(agent()) -> pos_integer().
processes(#{processes := Count}) -> Count.

-doc "What marks the agent's messages to its caller.".
-spec ref(agent()) -> reference().
ref(#{ref := Ref}) -> Ref.

-spec format_error(reason()) -> unicode:chardata().
format_error({node_down, Node}) ->
    io_lib:format("node ~ts is not running any more, or the connection to it was lost", [Node]);
format_error({inside, Node}) ->
    io_lib:format(
        "a process of ~ts is still in a monitor that is woven into it, and would be killed; try "
        "again when it has returned",
        [Node]
    );
format_error({taken, Node, measuring}) ->
    io_lib:format("another dyno is attached to ~ts; wait until it has ended", [Node]);
format_error({taken, Node, beside}) ->
    io_lib:format("another dyno looks at ~ts; wait until it has ended", [Node]);
format_error({other_version, Node, Module}) ->
    io_lib:format(
        "~ts has another module ~ts already, which is not replaced; give the custom agent another "
        "name",
        [Node, Module]
    );
format_error({left_twice, Node, Modules}) ->
    io_lib:format(
        "~b modules of other versions of dyno are in ~ts, and replacing them would cost it much "
        "processor time; remove them at a quiet hour: dyno leave ~ts",
        [Modules, Node, Node]
    );
format_error({failed, Node, timeout}) ->
    io_lib:format(
        "~ts did not answer the agent in time; measure fewer functions, or try again when it has "
        "less to do",
        [Node]
    );
format_error({failed, _, {later_release, _, _, _}} = Reason) ->
    dyno_code:format_error(Reason);
format_error({failed, Node, Reason}) ->
    io_lib:format("the agent could not work in ~ts: ~0tP", [Node, Reason, 15]).

-doc "A module's name is the caller's choice.".
-spec fault(reason()) -> dyno_error:fault().
fault({other_version, _, _}) -> caller;
fault({failed, _, {later_release, _, _, _}}) -> caller;
fault(_Reason) -> dyno.
