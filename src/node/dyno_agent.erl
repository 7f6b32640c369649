%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent).
-moduledoc """
Puts dyno's agent into a node and removes it.

The agent's modules are sent over the distribution: the target need not have dyno. A guard there
monitors the caller of `attach/2`. When the caller or its node ends, or the allowed time or memory
is used up, every instrument ends, its trace sessions are destroyed, and the modules are removed, or
left if removal would be expensive (`detach/1`).

```
attach -> cleaner (dyno_target_cleaner: holds the name dyno_agent, removes the modules)
            guard (dyno_agent_guard: monitors the caller, limits time and memory)
              calls  processes  sampler ...   (dyno_agent_instrument)
```

The caller receives `{dyno_agent, Ref, {gave_up, Reason}}` if the agent stops by itself, and
`{dyno_agent, Ref, {without, Instruments, Reason}}` if it continues without instruments that used
too much memory or ended. The caller may monitor `guard/1`.
""".

-export([attach/2, detach/1, detach_all/1, start/3, starting/2, told/1, guard/1, node/1, ref/1]).
-export([modules/0, processes/1]).
-export([new_idle/0, release/1, leave/2]).
-export([format_error/1, fault/1]).
-export_type([agent/0, idle/0, options/0, start/0, reason/0]).

-opaque agent() :: #{
    node := node(),
    guard := pid(),
    ref := reference(),
    cleaner := dyno_target_cleaner:cleaner(),
    names := [module()],
    idle := idle() | none,
    processes := pos_integer(),
    cost := dyno_target_visit:meter()
}.

-doc "Starts an instrument, as `start/3` does.".
-type start() :: fun((module(), map()) -> {ok, pid()} | {error, dyno_error:error()}).

-doc "Agents of which only the cleaner runs: `attach/2` reuses them, `release/1` removes all.".
-opaque idle() :: ets:table().

-type options() :: #{
    %% The target's cookie; by default this node's own.
    cookie => atom(),
    %% This node's name if it is not distributed yet.
    name => atom(),
    %% The longest stay of the agent; 24 hours by default.
    limit_ms => pos_integer(),
    %% The most memory of its processes; 512 MiB by default.
    limit_bytes => pos_integer(),
    %% The modules to send instead of `modules/0`, and modules that exist only in this node.
    modules => [module()],
    more_modules => [dyno_code:object()],
    %% Modules that may appear later, removed at the end too.
    names => [module()],
    processes => pos_integer(),
    %% A guard with the interface of dyno_agent_guard, instead.
    guard => module(),
    %% More modules to send: a suite's instruments, and modules for dyno_agent_custom.
    custom => [module()],
    %% Leaves the agent idle when detached, unless `keep` is false, and reuses an idle agent.
    idle => idle(),
    keep => boolean(),
    %% Observes while another dyno may measure: for cheap reads without breakpoints.
    beside => boolean()
}.

-type reason() ::
    {node_down, node()}
    | {taken, node(), measuring | beside}
    %% A process runs modules to be removed.
    | {inside, node()}
    | {other_version, node(), module()}
    | {left_twice, node(), Modules :: pos_integer()}
    | {failed, node(), term()}.

-define(TIMEOUT_MS, 30_000).
%% Breakpoints in all functions of a busy target take this long.
-define(START_MS, 180_000).
%% The wait for a node at leaving; its cleaner needs no caller.
-define(LEAVING_MS, 2500).
%% For removing all of dyno's modules, at any cost.
-define(REMOVAL_MS, 3_600_000).
-define(LIMIT_MS, 86_400_000).

-doc "The modules that a target is sent. They call only kernel, stdlib and one another.".
-spec modules() -> [module()].
modules() ->
    %% Reading each module's calls takes milliseconds, and a test attaches many times.
    {ok, Modules} = dyno_once:value(?MODULE, fun() ->
        Instruments = dyno_agent_instrument:all(),
        All = dyno_code:closure([
            dyno_agent_guard, dyno_agent_custom, dyno_agent_polls | Instruments
        ]),
        %% Parts for recordings stay on this side.
        OurParts = [
            Parts
         || I <- Instruments, #{parts := Parts} <- [dyno_agent_instrument:about(I)], Parts =/= I
        ],
        {ok, [M || M <- All -- OurParts, not is_of_cpu(M)]}
    end),
    Modules.

%% Sent only if the processor is sampled.
is_of_cpu(Module) -> lists:prefix("dyno_agent_cpu", atom_to_list(Module)).

%% Its calls to dyno's modules outside of the agent run on this side.
with_what_they_call(Custom) ->
    [
        Module
     || Module <- dyno_code:closure(Custom),
        lists:member(Module, Custom) orelse dyno_agent_instrument:is_dynos(Module)
    ].

-doc """
Attaches to a node, this one or another.

## Cost
Some 20 ms and, in the target, a few processes and 690 kB of code. Nothing is traced yet.

## Errors
The node is down or refuses the cookie, its OTP is older than 27, or another dyno is attached.
""".
-spec attach(node(), options()) -> dyno_error:result(agent()).
attach(Node, Options) ->
    dyno_target_silence:during([Node], fun() -> attach_to(Node, Options) end).

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
        %% The node may have been restarted.
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
        limit_bytes => maps:get(limit_bytes, Options, dyno_agent_guard:limit_bytes())
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
        %% A module that exists in this very version is not sent. If dyno did not send the module,
        %% it stays at the end: it belongs to the target (this node, or one with dyno installed).
        {ok, Lacking} ?= dyno_code:missing(Node, Modules),
        {ok, Sent} ?= dyno_code:sent(Node),
        ok ?= not_others(Node, [M || {M, _, _} <- Lacking, lists:member(M, Custom -- Sent)]),
        Missing = Lacking ++ [M || Node =/= node(), M <- maps:get(more_modules, Options, [])],
        ok ?= not_left_twice(Node, [M || {M, _, _} <- Missing], Options),
        %% Modules left before are removed too, except those sent to a load node (dyno_load_nodes).
        Before = [
            M
         || M <- Sent,
            lists:member(M, Modules) orelse dyno_agent_instrument:is_dynos(M)
        ],
        Names = lists:uniq(
            Known ++ Before ++ [M || {M, _, _} <- Missing] ++ maps:get(names, Options, [])
        ),
        %% Named before sending, so that nothing is left if this process dies in between.
        ok ?= dyno_target_cleaner:modules(Cleaner, Names),
        ok ?= send(Node, Cleaner, Missing),
        {ok, Names}
    end.

%% All at once: separate loads would each wait for a turn of the code server.
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
as_reason(Node, {error, {erpc, timeout}}) ->
    {failed, Node, timeout};
as_reason(Node, Reason) ->
    {failed, Node, Reason}.

%% Another version of that name belongs to the target and stays.
not_others(Node, Modules) ->
    case dyno_code:loaded(Node, Modules) of
        {ok, []} -> ok;
        {ok, [Module | _]} -> {error, {other_version, Node, Module}};
        {error, _} = Error -> Error
    end.

%% The first other version after a left module is loaded next to it.
not_left_twice(Node, Modules, #{processes := Processes}) ->
    case dyno_code:replaced(Node, Modules) of
        {ok, Twice} ->
            case length(Twice) * Processes > dyno_target_cleaner:most_questions() of
                true -> {error, {left_twice, Node, length(Twice)}};
                false -> ok
            end;
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
Ends the agent and leaves the node, or ends its processes and sessions if the agent stays idle.
Returns the visit's cost, and remains.

Modules stay, as unused code, if the node has many processes or answers slowly, so that removal
would cost more than about a second. The next `attach/2` reuses them, and `leave/2` removes them.

## Cost
At most 2.5 s. A node that does not answer in this time finishes by itself.
""".
-spec detach(agent()) -> dyno_target_visit:t().
detach(Agent) ->
    [Visit] = detach_all([Agent]),
    Visit.

-doc "Detaches from several nodes within the same 2.5 s.".
-spec detach_all([agent()]) -> [dyno_target_visit:t()].
detach_all(Agents) ->
    {Here, Lost} = lists:partition(
        fun(#{node := Node}) -> dyno_target_silence:is_connected(Node) end, Agents
    ),
    {Idle, Leaving} = lists:partition(fun stays_idle/1, Here),
    %% The cleaners wait for the guards to end.
    Stops = [gen_server:send_request(Guard, stop) || #{guard := Guard} <- Leaving],
    Visits =
        [
            dyno_target_visit:ended(Node, Cost, 0, {error, noconnection})
         || #{node := Node, cost := Cost} <- Lost
        ] ++ [idle(Agent) || Agent <- Idle] ++
            leaving([
                {Cleaner, Of, Cost}
             || #{cleaner := Cleaner, node := Of, cost := Cost} <- Leaving
            ]),
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

-doc "A store of idle agents between two uses, for `attach/2`; of the calling process only.".
-spec new_idle() -> idle().
new_idle() ->
    ets:new(?MODULE, [private]).

-doc "Leaves the nodes of all idle agents, like `detach/1`.".
-spec release(idle()) -> [dyno_target_visit:t()].
release(Idle) ->
    Left = [
        {Cleaner, Node, dyno_target_visit:meter()}
     || {Node, Cleaner, _Names} <- ets:tab2list(Idle), dyno_target_silence:is_connected(Node)
    ],
    true = ets:delete(Idle),
    leaving(Left).

leaving(Leaving) ->
    Began = erlang:monotonic_time(millisecond),
    Answers = dyno_target_cleaner:release([Cleaner || {Cleaner, _, _} <- Leaving], ?LEAVING_MS),
    TookMs = erlang:monotonic_time(millisecond) - Began,
    [
        dyno_target_visit:ended(Node, Cost, TookMs, Answer)
     || {{_, Node, Cost}, Answer} <- lists:zip(Leaving, Answers)
    ].

-doc """
Removes the modules that `detach/1` left in a node, at any cost.

## Cost
2 to 5 us of the node's processor for each of its processes and each module: 3 minutes for 60
modules and 1,000,000 processes.
""".
-spec leave(node(), #{cookie => atom(), name => atom()}) ->
    dyno_error:result(#{modules := [module()], cpu_ms := dyno_target_cleaner:cpu_ms()}).
leave(Node, Options) ->
    maybe
        ok ?= dyno_target_node:connect(Node, maps:with([cookie, name], Options)),
        {ok, Cleaner, []} ?= take(Node, #{}),
        %% No other dyno may attach meanwhile.
        Removed =
            case take(Node, #{beside => true}) of
                {ok, Beside, []} ->
                    Done = removed(Node, Cleaner),
                    _ = dyno_target_cleaner:release([Beside], ?LEAVING_MS),
                    Done;
                Error ->
                    Error
            end,
        %% An agent that has removed the modules has ended.
        _ =
            element(1, Removed) =:= error andalso
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

-doc "Starts an instrument or a custom probe in the target, with its `config()`.".
-spec start(agent(), module(), map()) -> dyno_error:result(pid()).
start(Agent, Instrument, Config) ->
    starting(Agent, fun(Start) -> Start(Instrument, Config) end).

-doc "Starts several with a function, and measures their cost together.".
-spec starting(agent(), fun((start()) -> Result)) -> Result.
starting(#{cleaner := Cleaner, cost := Cost} = Agent, Fun) ->
    dyno_target_silence:during([?MODULE:node(Agent)], fun() ->
        dyno_target_visit:metered(Cleaner, Cost, fun() ->
            Fun(fun(Instrument, Config) -> started(Agent, Instrument, Config) end)
        end)
    end).

started(#{node := Node, guard := Guard}, Instrument, Config) ->
    try gen_server:call(Guard, {start, Instrument, Config}, ?START_MS) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, {?MODULE, {failed, Node, Reason}}}
    catch
        exit:{{nodedown, _}, _} -> {error, {?MODULE, {node_down, Node}}};
        exit:{Reason, _} -> {error, {?MODULE, {failed, Node, Reason}}}
    end.

-doc "Returns when the agent has told what ended until now.".
-spec told(agent()) -> ok.
told(#{guard := Guard}) ->
    try
        gen_server:call(Guard, told, ?TIMEOUT_MS)
    catch
        exit:_ -> ok
    end.

-doc "The agent's process in the target, to monitor.".
-spec guard(agent()) -> pid().
guard(#{guard := Guard}) -> Guard.

-doc "The agent's node.".
-spec node(agent()) -> node().
node(#{node := Node}) -> Node.

-doc "The node's number of processes at attaching.".
-spec processes(agent()) -> pos_integer().
processes(#{processes := Count}) -> Count.

-doc "The mark of the agent's messages to its caller.".
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

-doc "The caller chooses module names.".
-spec fault(reason()) -> dyno_error:fault().
fault({other_version, _, _}) -> caller;
fault({failed, _, {later_release, _, _, _}}) -> caller;
fault(_Reason) -> dyno.
