%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_targets).
-moduledoc false.
%% The target nodes of a run: holds each (dyno_target), starts the instruments, restarts and reads
%% them together. Samples go to the attaching process.

-export([
    attach/2, warnings/1, traces/1, restart/1, peek/1, last_look/1, read/1, results/1, why/1
]).
%% Clocks
-export([aligned/2]).
-export([format_error/1, fault/1]).
-export_type([target/0, options/0, results/0, reason/0]).

-type options() :: #{
    patterns => [dyno_agent_patterns:pattern()],
    %% Of nodes with their own.
    patterns_of => #{node() => [dyno_agent_patterns:pattern()]},
    level => dyno_agent_instrument:level(),
    %% The level budget's share of the target's processor time.
    budget => float(),
    %% Functions with single calls timed.
    distribution => [dyno_agent_patterns:pattern()],
    servers => [dyno_process_filter:t()],
    %% Names of instruments switched off; of dyno's, the only ones switched on.
    without => [atom()],
    on => [atom()],
    %% Instruments besides dyno's own.
    instruments => [module()],
    interval_ms => pos_integer(),
    custom => [module()],
    %% The store of idle agents between two runs.
    idle => dyno_agent:idle(),
    keep => boolean(),
    %% Sampling of the processor: of all nodes, or of nodes that dyno has started.
    cpu => dyno_agent_stacks:cpu(),
    own_cpu => boolean(),
    cookie => atom(),
    name => atom(),
    %% The processes of a profile; further keys for the instruments' config/1.
    processes => [dyno_agent_process_filter:selector()],
    atom() => term()
}.

-type target() :: #{
    node := node(),
    agent := dyno_agent:agent(),
    %% The monitor of its guard, and the mark of its messages.
    monitor := reference(),
    ref := reference(),
    instruments := [{module(), pid()}],
    sampler := pid(),
    %% Names of instruments that are too expensive for the node, and why.
    left_out := #{slow | flagged | looked_at => [atom()]},
    facts := #{atom() => term()},
    clock := dyno_target_clock:clock(),
    shift_ms := integer(),
    metrics := [dyno_agent_vm:metric()]
}.

%% `functions` and `processes` flag each process six times a run and more, for 0.2 to 0.6 us each.
-define(MOST_FLAGGED, 250_000).
%% A look at more processes would prolong the run by seconds.
-define(MOST_LOOKED_AT, 100_000).
-define(INTERVAL_MS, 1000).
%% Of a node that is slow to attach to, breakpoints may be slow.
-define(SLOW_MS, 200).
-define(MOST_TRIES, 5).
%% Of an answer of an instrument that is not dyno's.
-define(LIMIT_MS, 5000).

-doc "The results of a node's instruments; empty if the node went down.".
-type results() :: #{
    node := node(),
    results := #{module() => dyno_agent_instrument:result()}
}.

-type reason() :: {unmatched, node(), [{dyno_agent_patterns:pattern(), {ok, string()} | none}]}.

-spec attach([node()], options()) -> dyno_error:result([target()]).
attach(Nodes, Given) ->
    All = dyno_agent_instrument:names(dyno_agent_instrument:all()),
    Defaults = #{level => discovery, patterns => [], servers => [], interval_ms => ?INTERVAL_MS},
    Options = maps:merge(Defaults#{without => All -- maps:get(on, Given, All)}, Given),
    maybe
        {ok, Selected} ?= selected(Nodes, Options),
        ForEach = Options#{servers => Selected},
        dyno_target:all(Nodes, fun(Node) -> attach_one(Node, ForEach) end)
    end.

selected([_ | _] = Nodes, #{servers := [_ | _] = Servers} = Options) ->
    maybe
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        dyno_process_filter:check(Servers, Nodes, servers)
    end;
selected(_Nodes, _Options) ->
    {ok, []}.

attach_one(Node, #{patterns := ForAll, servers := Servers} = ForEach) ->
    Patterns = maps:get(Node, maps:get(patterns_of, ForEach, #{}), ForAll),
    %% It has many modules: sent only if used.
    Instruments = [dyno_agent_servers || Servers =/= []] ++ maps:get(instruments, ForEach, []),
    Cpu = dyno_target_cpu:of_node(Node, ForEach),
    Options = Cpu#{
        patterns := Patterns,
        instruments => Instruments,
        custom =>
            maps:get(custom, ForEach, []) ++ Instruments ++
            [dyno_agent_cpu || is_map_key(cpu, Cpu)]
    },
    ForAgent = maps:with([cookie, name, custom, idle, keep], Options),
    Began = erlang:monotonic_time(millisecond),
    Equip = fun(Bare) -> equip(Bare, Options, erlang:monotonic_time(millisecond) - Began) end,
    maybe
        {error, Reason} ?= dyno_target:hold(Node, ForAgent, Equip),
        {error, own_reason(Reason)}
    end.

own_reason({dyno_agent, {failed, Node, {unmatched, Patterns}}}) ->
    {?MODULE, {unmatched, Node, Patterns}};
own_reason({dyno_agent, {failed, Node, {dyno_agent_cpu, Reason}}}) ->
    {dyno_target_cpu, {refused, Node, Reason}};
own_reason(Error) ->
    Error.

equip(#{node := Node, agent := Agent} = Bare, #{without := Asked} = Options, AttachedMs) ->
    LeftOut = left_out(Agent, Options, AttachedMs),
    Without = Asked ++ lists:append(maps:values(LeftOut)),
    ForConfig = maps:merge(#{distribution => []}, Options#{
        sink => self(),
        without := Without,
        own_node => dyno_peer:is_started(Node),
        breakpoints => not is_map_key(slow, LeftOut)
    }),
    Modules = maps:get(instruments, Options, []) ++ dyno_agent_instrument:all(),
    maybe
        {ok, Started} ?=
            dyno_agent:starting(Agent, fun(Start) -> start(Modules, ForConfig, Without, Start) end),
        #{dyno_agent_sampler := Sampler} = maps:from_list(Started),
        Clock = dyno_target_clock:measure(fun() -> dyno_agent_sampler:clock(Sampler) end),
        {ok, Bare#{
            clock => Clock,
            shift_ms => 0,
            instruments => Started,
            sampler => Sampler,
            left_out => LeftOut,
            facts => facts(Node, Clock),
            metrics => dyno_agent_sampler:describe(Sampler)
        }}
    end.

%% An explicit level other than the default applies.
left_out(Agent, #{level := budget, patterns := [_ | _], without := Without}, AttachedMs) ->
    Processes = dyno_agent:processes(Agent),
    IsSlow = dyno_remote:call(dyno_agent:node(Agent), dyno_agent_process, are_breakpoints_slow, [
        min(?MOST_TRIES, 1 + AttachedMs div ?SLOW_MS)
    ]),
    #{
        Why => Names -- Without
     || {true, Why, Names} <- [
            {IsSlow, slow, [functions, processes, servers, durations]},
            {not IsSlow andalso Processes > ?MOST_FLAGGED, flagged, [functions, processes]},
            {Processes > ?MOST_LOOKED_AT, looked_at, [health]}
        ]
    };
left_out(_Agent, _Options, _AttachedMs) ->
    #{}.

-spec warnings([target()]) -> [{Code :: binary(), Text :: binary()}].
warnings(Targets) ->
    [
        {~"left_out", text_of(Why, Node, dyno_agent:processes(Agent))}
     || #{node := Node, agent := Agent, left_out := Out} <- Targets, Why := [_ | _] <- Out
    ].

text_of(slow, Node, _Processes) ->
    dyno_recording_part:text(
        "one breakpoint takes ~ts a second or longer, as with native functions that do not "
        "yield, so functions, processes and servers are not counted; stacks say where the time "
        "goes. "
        "--level count counts calls all the same",
        [Node]
    );
text_of(flagged, Node, Processes) ->
    dyno_recording_part:text(
        "~ts has ~b processes: to flag each of them for functions and processes would cost it "
        "seconds of its processor, so both are left out; stacks say where the time goes. --level "
        "count measures calls all the same",
        [Node, Processes]
    );
text_of(looked_at, Node, Processes) ->
    dyno_recording_part:text(
        "~ts has ~b processes, so it is not looked at for findings; dyno doctor ~ts does that",
        [Node, Processes, Node]
    ).

start(Modules, Options, Without, Start) ->
    Results = at_once(
        fun(Some) -> start(Some, Options, Without, Start, []) end,
        [{Module, none} || Module <- Modules]
    ),
    case [Error || {error, _} = Error <- Results] of
        [Error | _] ->
            Error;
        [] ->
            Started = maps:from_list(lists:append([Of || {ok, Of} <- Results])),
            {ok, [{Module, Pid} || Module <- Modules, #{Module := Pid} <- [Started]]}
    end.

start([], _Options, _Without, _Start, Started) ->
    {ok, Started};
start([{Module, none} | Rest], Options, Without, Start, Started) ->
    case config(Module, Options, Without, maps:from_list(Started)) of
        off ->
            start(Rest, Options, Without, Start, Started);
        Config ->
            maybe
                {ok, Pid} ?= Start(Module, Config),
                start(Rest, Options, Without, Start, [{Module, Pid} | Started])
            end
    end.

%% A node answers a question late if native functions hold its schedulers, so each instrument is
%% asked at the same time. Those that trace, or have to do with another's process, keep their order.
at_once(Fun, Instruments) ->
    Abouts = #{Module => dyno_agent_instrument:about(Module) || {Module, _} <- Instruments},
    Needed = lists:append([Needs || _ := #{needs := Needs} <- Abouts]),
    {InOrder, Others} = lists:partition(
        fun({Module, _}) ->
            #{Module := #{traces := Traces, needs := Needs}} = Abouts,
            Traces orelse Needs =/= [] orelse lists:member(Module, Needed)
        end,
        Instruments
    ),
    Helpers = [
        spawn_monitor(dyno_agent_process:ending_with(fun() -> Fun(Some) end))
     || Some <- [InOrder | [[One] || One <- Others]], Some =/= []
    ],
    [
        receive
            {'DOWN', Ref, process, _, {value, Result}} -> Result;
            {'DOWN', Ref, process, _, Reason} -> exit(Reason)
        end
     || {_, Ref} <- Helpers
    ].

config(Module, Options, Without, Started) ->
    #{names := Names, needs := Needs, always := Always} = dyno_agent_instrument:about(Module),
    case Names -- Without of
        [] when not Always -> off;
        On ->
            ForAll = maps:merge(Options#{names => On}, maps:with(Needs, Started)),
            dyno_agent_instrument:config(Module, ForAll)
    end.

facts(Node, #{offset_ns := OffsetNs, error_ns := ErrorNs}) ->
    (dyno_target_node:facts(Node))#{
        clock_offset_ns => OffsetNs,
        clock_error_ns => ErrorNs
    }.

-doc "Sets, after a restart, the offsets of targets' times to `ZeroNs` by this node's clock.".
-spec aligned([target()], integer()) -> [target()].
aligned(Targets, ZeroNs) ->
    [
        try
            StartNs = dyno_agent_sampler:started_ns(Sampler),
            Target#{shift_ms := dyno_target_clock:shift_ms(StartNs, ZeroNs, Clock)}
        catch
            %% It went down, which a message reports.
            exit:_ -> Target
        end
     || #{sampler := Sampler, clock := Clock} = Target <- Targets
    ].

-spec traces([target()]) -> boolean().
traces(Targets) ->
    lists:any(
        fun({Module, _}) -> map_get(traces, dyno_agent_instrument:about(Module)) end,
        lists:append([Instruments || #{instruments := Instruments} <- Targets])
    ).

-doc "All instruments count from now on; `gone` if all targets went down.".
-spec restart([target()]) -> ok | gone.
restart(Targets) ->
    case lists:usort([told(restart, Target) || Target <- Targets]) of
        [gone] -> gone;
        _ -> ok
    end.

told(What, #{instruments := Instruments}) ->
    try asked(What, Instruments) of
        _ -> ok
    catch
        exit:{{nodedown, _}, _} -> gone
    end.

%% The last started first: events after the load's end do not belong to it.
asked(What, Instruments) ->
    lists:append(
        at_once(
            fun(Some) -> lists:append([still(What, Module, Pid) || {Module, Pid} <- Some]) end,
            lists:reverse(Instruments)
        )
    ).

still(What, Module, Pid) ->
    try
        [{Module, answer(What, Module, Pid)}]
    catch
        %% An instrument may have been given up, which a message reports.
        exit:{Reason, _} when not is_tuple(Reason); element(1, Reason) =/= nodedown ->
            [];
        %% It ends, and the agent continues without it, which a message reports.
        error:Reason ->
            Monitor = monitor(process, Pid),
            lists:foreach(fun(How) -> exit(Pid, How) end, [{shutdown, Reason}, kill]),
            receive
                {'DOWN', Monitor, process, Pid, _} -> []
            end
    end.

answer(What, Module, Pid) ->
    LimitMs =
        case dyno_agent_instrument:is_dynos(Module) of
            true -> infinity;
            false -> ?LIMIT_MS
        end,
    Ask = fun() -> result(What, Module, dyno_agent_instrument:ask(Module, What, Pid)) end,
    try
        erpc:call(node(), Ask, LimitMs)
    catch
        exit:{exception, {_, {_, _, _}} = Call} -> exit(Call);
        exit:{exception, Reason} -> error(Reason);
        throw:Reason -> error(Reason)
    end.

result(What, Module, Read) when What =:= read; What =:= peek ->
    #{parts := Parts} = dyno_agent_instrument:about(Module),
    {module, Parts} = code:ensure_loaded(Parts),
    case erlang:function_exported(Parts, result, 1) of
        true -> Parts:result(Read);
        false -> Read
    end;
result(_What, _Module, _Answer) ->
    ok.

-doc "Words the end of an instrument.".
-spec why(term()) -> unicode:chardata().
why({erpc, timeout}) ->
    ["the instrument had not answered after ", dyno_unit:format(?LIMIT_MS, ~"ms")];
why({exception, Reason, _}) ->
    why(Reason);
why({invalid_recording, Reason}) ->
    dyno_recording:format_error(Reason);
why(Reason) ->
    io_lib:format("the instrument failed: ~0tP", [Reason, 12]).

-doc "The results so far, of targets that may be gone soon; counting continues.".
-spec peek([target()]) -> #{node() => results()}.
peek(Targets) ->
    #{Node => Results || Target <- Targets, #{node := Node} = Results <- ask(peek, Target)}.

-doc "The load ends soon: sampling instruments sample now, not after it.".
-spec last_look([target()]) -> ok.
last_look(Targets) ->
    lists:foreach(fun(Target) -> told(last_look, Target) end, Targets).

-doc "Reads all results; of a lost or silent node, none.".
-spec read([target()]) -> [results()].
read(Targets) ->
    dyno_target_silence:during([Node || #{node := Node} <- Targets], fun() ->
        lists:append([
            case ask(read, Target) of
                [] -> [#{node => Node, results => #{}}];
                Results -> Results
            end
         || #{node := Node} = Target <- Targets
        ])
    end).

-doc "Reads all results; a node without results is lost, and has shown nothing.".
-spec results([target()]) -> {[{lost, node()}], [results()]}.
results(Targets) ->
    {Lost, Results} = lists:partition(fun(#{results := Of}) -> Of =:= #{} end, read(Targets)),
    {[{lost, Node} || #{node := Node} <- Lost], Results}.

ask(What, #{node := Node, agent := Agent, instruments := Instruments}) ->
    try
        Results = [R || dyno_target_silence:is_connected(Node), R <- asked(What, Instruments)],
        _ = Results =/= [] andalso length(Results) < length(Instruments) andalso
            dyno_agent:told(Agent),
        [#{node => Node, results => maps:from_list(Results)} || Results =/= []]
    catch
        exit:{{nodedown, _}, _} -> []
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({unmatched, Node, Patterns}) ->
    Texts = [
        case Suggestion of
            {ok, Name} ->
                io_lib:format("~ts (did you mean ~ts?)", [dyno_agent_patterns:print(P), Name]);
            none ->
                dyno_agent_patterns:print(P)
        end
     || {P, Suggestion} <- Patterns
    ],
    io_lib:format(
        "no function of ~ts matches ~ts; a pattern names what is loaded or on its code path",
        [Node, lists:join(", ", Texts)]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault({unmatched, _, _}) -> caller.
