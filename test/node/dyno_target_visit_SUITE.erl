%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_visit_SUITE).
-moduledoc "Into large, busy and nearly full nodes, and out again: what it costs and what stays.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 3}}].

slow() ->
    [replaces_what_another_version_left, a_million_processes].

newest_release_only() ->
    [
        killed_in_a_large_node,
        leaves_a_large_node_at_once,
        leaves_several_nodes_together,
        waits_for_a_stopped_node_shortly,
        says_at_once_that_it_is_gone,
        makes_no_atoms_later,
        needs_atoms,
        needs_processes,
        needs_ports
    ].

all() ->
    [
        {group, nodes},
        leaves_a_large_node_at_once,
        replaces_what_another_version_left,
        killed_in_a_large_node,
        leaves_a_busy_node,
        flags_one_by_one,
        a_million_processes
    ].

groups() ->
    [
        {nodes, [parallel], [
            leaves_nothing_in_a_small_node,
            needs_atoms,
            needs_processes,
            needs_ports,
            makes_no_atoms_later,
            leaves_several_nodes_together,
            waits_for_a_stopped_node_shortly,
            says_at_once_that_it_is_gone
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(Config) ->
    Config.

with_node(Arguments, Test) ->
    {_, Node} = Peer = dyno_peers:start(Arguments),
    try
        Test(Node)
    after
        dyno_peers:stop(Peer)
    end.

spawn_idle(Node, Count) ->
    Script =
        "Keep = spawn(fun Keep() -> receive never -> Keep() end end),"
        "Idle = fun() -> monitor(process, Keep), receive _ -> ok end end,"
        "Start = fun Start(0) -> ok; Start(N) -> spawn(Idle), Start(N - 1) end,"
        "Start(" ++ integer_to_list(Count) ++ "), Keep.",
    dyno_peers:eval(Node, Script).

sent(Node) ->
    {ok, Modules} = dyno_code:sent(Node),
    lists:sort(Modules).

attach(Node) ->
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, _} = dyno_agent:start(Agent, dyno_agent_stacks, #{interval_ms => 100}),
    Agent.

count(Node, Item) ->
    erpc:call(Node, erlang, system_info, [Item]).

leaves_nothing_in_a_small_node(_Config) ->
    with_node([], fun(Node) ->
        Before = dyno_leftovers:snapshot(Node),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        ?assert(length(sent(Node)) > 20),
        #{left := Left, leaving_ms := _} = dyno_agent:detach(Agent),
        %% A machine that is very busy gives no answer in time.
        ?assert(Left =:= 0 orelse Left =:= unknown),
        ok = dyno_leftovers:check(Node, Before)
    end).

%% To purge one module asks each process: with 100,000 and all modules that took 26 s and more.
leaves_a_large_node_at_once(_Config) ->
    with_node([], fun(Node) ->
        Keep = spawn_idle(Node, 100_000),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        Modules = sent(Node),
        #{left := Left, cpu_ms := CpuMs, leaving_ms := LeavingMs} = dyno_agent:detach(Agent),
        ?assertEqual(length(Modules), Left),
        ?assert(LeavingMs < 10_000),
        %% A machine that is very busy gives no answer in time.
        ?assert(CpuMs =:= unknown orelse CpuMs < 1000),
        ?assertEqual([], dyno_leftovers:in(Node)),
        %% They are there, and are not sent again.
        Atoms = count(Node, atom_count),
        Md5 = fun() -> [erpc:call(Node, M, module_info, [md5]) || M <- Modules] end,
        Codes = Md5(),
        {ok, Again} = dyno_agent:attach(Node, #{}),
        ?assertEqual([], [M || M <- Modules, erpc:call(Node, erlang, check_old_code, [M])]),
        #{left := Left} = dyno_agent:detach(Again),
        ?assertEqual({Atoms, Codes, Modules}, {count(Node, atom_count), Md5(), sent(Node)}),
        {ok, Third} = dyno_agent:attach(Node, #{}),
        {ok, _} = dyno_agent:start(Third, dyno_agent_calls, #{
            patterns => [{lists, seq, 2}], measures => [call_time]
        }),
        #{cpu_ms := SessionCpuMs} = dyno_agent:detach(Third),
        %% After a trace session the runtime visits all processes: that is of the cost, and over.
        Reductions = reductions_of_sweeper(Node),
        timer:sleep(300),
        ?assert(SessionCpuMs =:= unknown orelse Reductions =:= reductions_of_sweeper(Node)),
        ?assert(SessionCpuMs =:= unknown orelse SessionCpuMs >= 50),
        %% The user has them removed; that is quick once the processes are gone.
        true = exit(Keep, kill),
        ok = dyno_leftovers:until(fun() -> count(Node, process_count) < 1000 end),
        {ok, #{modules := Removed}} = dyno_agent:leave(Node, #{}),
        ?assertEqual({[], []}, {Modules -- Removed, sent(Node)}),
        ?assertEqual(0, dyno_cli_leave:run(#{node => [atom_to_binary(Node)]}))
    end).

reductions_of_sweeper(Node) ->
    [Reductions] = [
        R
     || Pid <- lists:sublist(erpc:call(Node, erlang, processes, []), 30),
        {initial_call, {erts_trace_cleaner, _, _}} <- [
            erpc:call(Node, erlang, process_info, [Pid, initial_call])
        ],
        {reductions, R} <- [erpc:call(Node, erlang, process_info, [Pid, reductions])]
    ],
    Reductions.

%% Once: the old code stays beside the new one, since nothing is purged. Twice would be dear.
replaces_what_another_version_left(_Config) ->
    with_node([], fun(Node) ->
        _ = spawn_idle(Node, 100_000),
        {ok, First} = dyno_agent:attach(Node, #{}),
        _ = dyno_agent:detach(First),
        Some = [dyno_agent_guard, dyno_agent_patterns, dyno_agent_kind],
        ok = dyno_code:send(Node, [older(Module) || Module <- Some]),
        %% One version that was left, and another one: as in a node that two dynos have visited.
        {error, {dyno_agent, {left_twice, Node, 3}} = Error} = dyno_agent:attach(Node, #{}),
        ?assertMatch(
            {match, _}, re:run(dyno_error:format(Error), "dyno leave " ++ atom_to_list(Node))
        ),
        ?assertEqual([], dyno_leftovers:in(Node)),
        [_ = erpc:call(Node, code, purge, [Module]) || Module <- Some],
        {ok, Second} = dyno_agent:attach(Node, #{}),
        #{left := Left} = dyno_agent:detach(Second),
        ?assertEqual(length(sent(Node)), Left)
    end).

older(Module) ->
    Text = io_lib:format("-module(~s). -export([older/0]). older() -> ok. ", [Module]),
    {ok, Module, Binary} = compile:forms(dyno_peers:forms(lists:flatten(Text)), []),
    {Module, Binary, "older"}.

killed_in_a_large_node(_Config) ->
    with_node([], fun(Node) ->
        _ = spawn_idle(Node, 100_000),
        Self = self(),
        {Caller, Monitor} = spawn_monitor(fun() ->
            _ = attach(Node),
            Self ! attached,
            receive
                never -> ok
            end
        end),
        receive
            attached -> ok;
            {'DOWN', Monitor, process, Caller, Reason} -> ct:fail(Reason)
        end,
        exit(Caller, kill),
        ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end),
        ?assert(length(sent(Node)) > 20),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        _ = dyno_agent:detach(Agent)
    end).

%% The code server waits for its turn a dozen times for each module, so they stay.
leaves_a_busy_node(_Config) ->
    with_node([], fun(Node) ->
        ok = dyno_peers:eval(
            Node,
            "Busy = fun Busy(N) -> Busy(N + 1) end,"
            "lists:foreach(fun(_) -> spawn(fun() -> Busy(0) end) end, lists:seq(1, 1000))."
        ),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        ?assertMatch(
            #{left := Left, leaving_ms := Ms} when Left > 0 andalso Ms < 5000,
            dyno_agent:detach(Agent)
        ),
        %% The next one does not wait for what the last one still does.
        Began = erlang:monotonic_time(millisecond),
        {ok, Again} = dyno_agent:attach(Node, #{}),
        AttachedMs = erlang:monotonic_time(millisecond) - Began,
        ?assert(AttachedMs < 10_000, AttachedMs),
        _ = dyno_agent:detach(Again)
    end).

%% The same processes have the flag as with `all`, also those that start later, and no other.
flags_one_by_one(_Config) ->
    with_node([], fun(Node) ->
        Keep = spawn_idle(Node, 11_000),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {Flagged, Later, Cleared} = dyno_peers:eval(
            Node,
            "Session = trace:session_create(flags, self(), []),"
            "Other = spawn(fun() -> receive never -> ok end end),"
            "true = dyno_agent_flags:all(Session, true, [call]) > 11_000,"
            "New = spawn(fun() -> receive never -> ok end end),"
            "Of = fun(Pid) -> {flags, Flags} = trace:info(Session, Pid, flags), Flags end,"
            "Before = {Of(Other), Of(New)},"
            "true = dyno_agent_flags:all(Session, false, [call]) > 11_000,"
            "After = {Of(Other), Of(New), Of(spawn(fun() -> receive never -> ok end end))},"
            "{element(1, Before), element(2, Before), After}."
        ),
        ?assertEqual({[call], [call], {[], [], []}}, {Flagged, Later, Cleared}),
        true = exit(Keep, kill),
        _ = dyno_agent:detach(Agent)
    end).

%% What dyno needs

needs_atoms(_Config) ->
    with_node(["+t", "16000"], fun(Node) -> refused(Node, atoms, "\\+t") end).

needs_processes(_Config) ->
    with_node(["+P", "1024"], fun(Node) ->
        _ = spawn_idle(Node, count(Node, process_limit) - count(Node, process_count) - 30),
        refused(Node, processes, "\\+P")
    end).

needs_ports(_Config) ->
    with_node(["+Q", "1024"], fun(Node) ->
        Free = count(Node, port_limit) - count(Node, port_count),
        _ = dyno_peers:eval(
            Node,
            lists:flatten(
                io_lib:format(
                    "Self = self(), spawn(fun() -> [open_port({spawn_driver, \"ram_file_drv\"}, "
                    "[]) || _ <- lists:seq(1, ~b)], Self ! opened, receive never -> ok end end), "
                    "receive opened -> ok end.",
                    [Free - 2]
                )
            )
        ),
        refused(Node, ports, "\\+Q")
    end).

%% Before anything is touched.
refused(Node, What, Flag) ->
    Before = dyno_leftovers:snapshot(Node),
    Atoms = count(Node, atom_count),
    {error, {dyno_target_room, {short, Node, What, Left, Needed}} = Error} =
        dyno_agent:attach(Node, #{}),
    ?assert(Left < Needed),
    ?assertMatch({match, _}, re:run(dyno_error:format(Error), Flag)),
    ?assertEqual(dyno, dyno_error:fault(Error)),
    %% The name of the limit.
    ?assert(count(Node, atom_count) =< Atoms + 1),
    ok = dyno_leftovers:check(Node, Before).

makes_no_atoms_later(_Config) ->
    with_node([], fun(Node) ->
        Visit = fun() ->
            Agent = attach(Node),
            _ = dyno_agent:detach(Agent)
        end,
        Visit(),
        Atoms = count(Node, atom_count),
        _ = [Visit() || _ <- lists:seq(1, 5)],
        ?assertEqual(Atoms, count(Node, atom_count))
    end).

%% Stopped

waits_for_a_stopped_node_shortly(_Config) ->
    with_node([], fun(Node) ->
        OsPid = erpc:call(Node, os, getpid, []),
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        ok = dyno_escript:kill("STOP", list_to_integer(OsPid)),
        try
            #{left := unknown, leaving_ms := Ms} = Visit = dyno_agent:detach(Agent),
            ?assert(Ms < 5000),
            [Text] = dyno_target_visit:texts(Visit),
            ?assertMatch({match, _}, re:run(Text, "did not answer"))
        after
            dyno_escript:kill("CONT", list_to_integer(OsPid))
        end
    end).

%% An agent that was to stay idle, and ended before.
says_at_once_that_it_is_gone(_Config) ->
    with_node([], fun(Node) ->
        {ok, Agent} = dyno_agent:attach(Node, #{idle => dyno_agent:new_idle()}),
        Guard = dyno_agent:guard(Agent),
        Monitor = monitor(process, Guard),
        exit(Guard, kill),
        receive
            {'DOWN', Monitor, process, Guard, _} -> ok
        end,
        Began = erlang:monotonic_time(millisecond),
        _ = dyno_agent:detach(Agent),
        ?assert(erlang:monotonic_time(millisecond) - Began < 6000)
    end).

leaves_several_nodes_together(_Config) ->
    Peers = [dyno_peers:start() || _ <- [1, 2, 3]],
    Agents = [attach(Node) || {_, Node} <- Peers],
    Pids = [erpc:call(Node, os, getpid, []) || {_, Node} <- Peers],
    _ = [dyno_escript:kill("STOP", list_to_integer(Pid)) || Pid <- Pids],
    Began = erlang:monotonic_time(millisecond),
    try
        Visits = dyno_agent:detach_all(Agents),
        ?assertEqual([unknown, unknown, unknown], [Left || #{left := Left} <- Visits]),
        %% Not one after the other, each of which is waited for 2.5 s.
        ?assert(erlang:monotonic_time(millisecond) - Began < 7000)
    after
        _ = [dyno_escript:kill("CONT", list_to_integer(Pid)) || Pid <- Pids],
        lists:foreach(fun dyno_peers:stop/1, Peers)
    end.

%% At most 1 s of the node's processors for all that `dyno record` does to come and go. How late
%% timers are `make bench` says, on a machine that does nothing else.
a_million_processes(_Config) ->
    with_node(["+P", "2000000"], fun(Node) ->
        _ = spawn_idle(Node, 1_000_000),
        {ok, Targets} = dyno_targets:attach([Node], #{
            patterns => [{lists, '_', '_'}],
            level => budget,
            budget => 0.05,
            servers => [<<"all">>],
            without => [],
            interval_ms => 1000
        }),
        %% Of functions and processes, and of the look at its health.
        ?assertMatch([{~"left_out", _}, {~"left_out", _}], dyno_targets:warnings(Targets)),
        ok = dyno_targets:restart(Targets),
        [#{left := Left, cpu_ms := CpuMs, leaving_ms := LeavingMs}] = dyno_target:leave(Targets),
        ct:pal("left ~b modules in ~b ms, for ~p ms of processor", [Left, LeavingMs, CpuMs]),
        ?assert(Left > 0),
        %% Some 1.6 us of it each process, by the runtime at the end of a trace session.
        ?assert(LeavingMs < 10_000),
        ?assert(CpuMs =:= unknown orelse CpuMs < 3500)
    end).
