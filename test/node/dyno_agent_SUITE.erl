%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_SUITE).
-moduledoc "The agent in real nodes: what it measures, and that nothing is left of it.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() ->
    [
        hundred_thousand_short_lived_processes,
        lets_calls_return_before_it_goes
    ].

newest_release_only() ->
    [
        measures_where_heaps_are_limited,
        reads_by_itself_where_nobody_discovers,
        gives_up_at_its_limits,
        stays_idle_no_longer_than_its_caller,
        stays_idle_between_two_uses,
        says_that_a_stopped_target_does_not_answer,
        goes_on_without_an_instrument,
        counts_once_where_patterns_overlap,
        refuses_a_second_dyno,
        groups_processes,
        reports_an_instrument_that_dies,
        looks_a_last_time,
        replaces_an_older_agent,
        names_patterns_that_match_nothing,
        refuses_a_node_that_is_down
    ].

all() ->
    [
        {group, attaching},
        {group, counting},
        attach_here,
        caller_ends,
        caller_node_ends,
        caller_ends_while_attaching,
        counts_calls_time_and_memory,
        counts_after_a_reload,
        lets_calls_return_before_it_goes,
        counts_no_calls_of_its_own,
        {group, stopped},
        hundred_thousand_short_lived_processes,
        looks_on_while_processes_die
    ].

%% Each case has a node of its own.
groups() ->
    [
        {stopped, [], [
            says_that_a_stopped_target_does_not_answer,
            goes_soon_after_a_stop
        ]},
        {attaching, [parallel], [
            attach_and_detach,
            stays_idle_between_two_uses,
            stays_idle_no_longer_than_its_caller,
            refuses_a_node_that_is_down,
            refuses_a_second_dyno,
            measures_where_heaps_are_limited,
            replaces_an_older_agent,
            gives_up_at_its_limits,
            goes_on_without_an_instrument,
            starts_at_the_same_time,
            reports_an_instrument_that_dies
        ]},
        {counting, [parallel], [
            names_patterns_that_match_nothing,
            measures_modules_loaded_later,
            counts_once_where_patterns_overlap,
            reads_by_itself_where_nobody_discovers,
            groups_processes,
            works_beside_other_tracers,
            samples,
            looks_a_last_time
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(Config) ->
    Config.

init_per_testcase(_Case, Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    {module, dyno_work} = {module, dyno_peers:load(Node, work_source("1"))},
    [{peer, Peer}, {node, Node}, {before, dyno_leftovers:snapshot(Node)} | Config].

end_per_testcase(_Case, Config) ->
    %% Every case is also a test of what is left.
    Result =
        case proplists:get_value(tc_status, Config) of
            ok -> leftovers(Config);
            _ -> ok
        end,
    dyno_peers:stop(proplists:get_value(peer, Config)),
    case Result of
        ok -> ok;
        Other -> {fail, Other}
    end.

leftovers(Config) ->
    try
        dyno_leftovers:check(node_of(Config), proplists:get_value(before, Config))
    catch
        Class:Reason -> {Class, Reason}
    end.

node_of(Config) ->
    proplists:get_value(node, Config).

%% A module with functions of which everything is known beforehand. Its name begins with dyno so
%% that the snapshots see it, too.
work_source(Version) ->
    "-module(dyno_work). -export([leaf/1, call/1, list/1, version/0, serve/0, spin/1]). "
    "leaf(X) -> X. "
    "call(0) -> ok; call(N) -> dyno_work:leaf(N), call(N - 1). "
    "list(N) -> lists:seq(1, N). "
    "spin(Us) -> spin_until(erlang:monotonic_time(microsecond) + Us). "
    "spin_until(T) -> case erlang:monotonic_time(microsecond) >= T of true -> ok; "
    "  false -> spin_until(T) end. "
    "serve() -> receive {call, From, N} -> call(N), From ! done, serve(); stop -> ok end. "
    "version() -> " ++ Version ++ ".".

later_source() ->
    "-module(dyno_later). -export([f/0, g/0]). f() -> ok. g() -> ok.".

attach(Config) ->
    {ok, Agent} = dyno_agent:attach(node_of(Config), #{}),
    Agent.

counters(Agent, Patterns, Measures) ->
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => Patterns, measures => Measures
    }),
    Counters.

calls(MFA, #{functions := Functions}) ->
    lists:sum([C || #{mfa := F, calls := C} <- Functions, F =:= MFA]).

%% Cases

attach_and_detach(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    ?assertEqual(Node, dyno_agent:node(Agent)),
    ?assert(lists:member(dyno_agent, erpc:call(Node, erlang, registered, []))),
    ?assertEqual([], erpc:call(Node, erlang, nodes, [])),
    _ = dyno_agent:detach(Agent),
    ok = dyno_leftovers:check(Node, proplists:get_value(before, Config)),
    %% And again.
    _ = dyno_agent:detach(attach(Config)).

attach_here(_Config) ->
    Loaded = [M || M <- dyno_agent:modules(), code:ensure_loaded(M) =:= {module, M}],
    {ok, Agent} = dyno_agent:attach(node(), #{}),
    _ = dyno_agent:detach(Agent),
    %% Our own modules are not taken away from ourselves.
    ?assertEqual(Loaded, [M || M <- dyno_agent:modules(), erlang:module_loaded(M)]),
    ?assertEqual([], dyno_leftovers:in(node())).

%% Detached, it has neither processes nor sessions, but keeps its modules and its name until
%% `release/1`.
stays_idle_between_two_uses(Config) ->
    Node = node_of(Config),
    Idle = dyno_agent:new_idle(),
    Attach = fun() ->
        {ok, Agent} = dyno_agent:attach(Node, #{idle => Idle}),
        Agent
    end,
    Cleaner = fun() -> erpc:call(Node, erlang, whereis, [dyno_agent]) end,
    First = Attach(),
    Waiting = Cleaner(),
    Counters = counters(First, [{dyno_work, leaf, 1}], [call_time]),
    Guard = dyno_agent:guard(First),
    _ = dyno_agent:detach(First),
    Alive = fun(Pid) -> erpc:call(Node, erlang, is_process_alive, [Pid]) end,
    ?assertEqual([false, false, true], [Alive(P) || P <- [Guard, Counters, Waiting]]),
    ?assertEqual([], erpc:call(Node, trace, session_info, [{dyno_work, leaf, 1}])),
    Second = Attach(),
    ?assertEqual(Waiting, Cleaner()),
    Again = counters(Second, [{dyno_work, leaf, 1}], [call_time]),
    ok = dyno_agent_instrument:restart(Again),
    ok = erpc:call(Node, dyno_work, call, [10]),
    ?assertEqual(10, calls({dyno_work, leaf, 1}, dyno_counted:read(Again))),
    _ = dyno_agent:detach(Second),
    %% Another caller is told that it is there.
    ?assertEqual({error, {dyno_agent, {taken, Node, measuring}}}, dyno_agent:attach(Node, #{})),
    _ = dyno_agent:release(Idle),
    ok = dyno_leftovers:check(Node, proplists:get_value(before, Config)).

%% A guard that gives up, while the agent is not idle, takes everything along; so does the caller.
stays_idle_no_longer_than_its_caller(Config) ->
    Node = node_of(Config),
    Self = self(),
    {Caller, Monitor} = spawn_monitor(fun() ->
        Idle = dyno_agent:new_idle(),
        {ok, First} = dyno_agent:attach(Node, #{idle => Idle}),
        exit(dyno_agent:guard(First), kill),
        ok = dyno_leftovers:until(fun() ->
            erpc:call(Node, erlang, whereis, [dyno_agent]) =:= undefined
        end),
        _ = dyno_agent:detach(First),
        {ok, Second} = dyno_agent:attach(Node, #{idle => Idle}),
        _ = dyno_agent:detach(Second),
        Self ! idle,
        receive
            never -> ok
        end
    end),
    receive
        idle -> ok;
        {'DOWN', Monitor, process, Caller, Reason} -> ct:fail(Reason)
    end,
    ?assert(is_pid(erpc:call(Node, erlang, whereis, [dyno_agent]))),
    exit(Caller, kill),
    ok = dyno_leftovers:until(fun() ->
        erpc:call(Node, erlang, whereis, [dyno_agent]) =:= undefined
    end),
    ok = dyno_leftovers:check(Node, proplists:get_value(before, Config)).

refuses_a_node_that_is_down(_Config) ->
    [_, Host] = string:split(atom_to_list(node()), "@"),
    Node = list_to_atom("dyno-nobody@" ++ Host),
    {error, {dyno_target_node, {node_down, Node, [_ | _]}} = Error} = dyno_agent:attach(Node, #{}),
    ?assertMatch({match, _}, re:run(dyno_error:format(Error), "no node dyno-nobody is registered")),
    ?assertEqual(dyno, dyno_error:fault(Error)).

says_that_a_stopped_target_does_not_answer(Config) ->
    Node = node_of(Config),
    OsPid = erpc:call(Node, os, getpid, []),
    true = erlang:disconnect_node(Node),
    ok = application:set_env(kernel, net_setuptime, 1),
    try
        ok = dyno_escript:kill("STOP", list_to_integer(OsPid)),
        {error, {dyno_target_node, {no_answer, Node, connection, 1000}} = Error} =
            dyno_agent:attach(Node, #{}),
        ?assertMatch({match, _}, re:run(dyno_error:format(Error), "dyno cannot tell why from here"))
    after
        ok = dyno_escript:kill("CONT", list_to_integer(OsPid)),
        application:unset_env(kernel, net_setuptime),
        connected(Node)
    end.

%% It has attempts to get through first that were given up meanwhile.
connected(Node) ->
    net_kernel:connect_node(Node) orelse connected(Node).

%% The caller ends while the target is stopped: the agent goes when it goes on.
goes_soon_after_a_stop(Config) ->
    Node = node_of(Config),
    OsPid = erpc:call(Node, os, getpid, []),
    Paths = [P || P <- code:get_path(), string:find(P, "dyno") =/= nomatch],
    {_, Caller} = Peer = dyno_peers:start(["-pa" | Paths]),
    ok = dyno_peers:eval(
        Caller,
        lists:flatten(
            io_lib:format(
                "Self = self(), spawn(fun() ->"
                "  {ok, Agent} = dyno_agent:attach(~0p, #{}),"
                "  {ok, _} = dyno_agent:start(Agent, dyno_agent_calls,"
                "    #{patterns => [{lists, '_', '_'}], measures => [call_time]}),"
                "  Self ! attached, receive never -> ok end end),"
                "receive attached -> ok end.",
                [Node]
            )
        )
    ),
    ok = dyno_escript:kill("STOP", list_to_integer(OsPid)),
    ok = dyno_peers:stop(Peer),
    ok = dyno_escript:kill("CONT", list_to_integer(OsPid)),
    Start = erlang:monotonic_time(millisecond),
    dyno_leftovers:check(Node, proplists:get_value(before, Config)),
    TookMs = erlang:monotonic_time(millisecond) - Start,
    ct:pal("gone after ~b ms", [TookMs]),
    ?assert(TookMs < 15_000, TookMs).

%% A heap of 200,000 words is enough to boot, and less than the agent needs.
measures_where_heaps_are_limited(_Config) ->
    {_, Node} = Peer = dyno_peers:start(["+hmax", "200000", "+hmaxk", "true"]),
    dyno_work = dyno_peers:load(Node, work_source("1")),
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    Patterns = [{'_', '_', '_'}],
    {ok, Processes} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => Patterns, interval_ms => 100
    }),
    {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => Patterns, measures => [call_time], processes => Processes
    }),
    ok = dyno_agent_instrument:restart(Calls),
    Script =
        "Start = fun Start(0) -> ok; Start(N) -> spawn(dyno_work, call, [1]), Start(N - 1) end,"
        "Start(30_000).",
    ok = dyno_peers:eval(Node, Script),
    ?assertEqual(30_000, calls({dyno_work, leaf, 1}, dyno_counted:read(Calls))),
    _ = dyno_agent_process_parts:result(dyno_agent_instrument:read(Processes)),
    %% What does the same at the level `budget` may take what it needs, too.
    {ok, Budget} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => [{dyno_work, '_', '_'}], budget => 0.05
    }),
    ?assertMatch(
        {max_heap_size, #{size := 0}},
        erpc:call(Node, erlang, process_info, [Budget, max_heap_size])
    ),
    _ = dyno_agent:detach(Agent),
    dyno_peers:stop(Peer).

refuses_a_second_dyno(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    Other = in_process(fun() -> dyno_agent:attach(Node, #{}) end),
    ?assertEqual({error, {dyno_agent, {taken, Node, measuring}}}, Other),
    %% The first one is none the worse.
    Counters = counters(Agent, [{dyno_work, leaf, 1}], [call_count]),
    erpc:call(Node, dyno_work, call, [10]),
    ?assertEqual(10, calls({dyno_work, leaf, 1}, dyno_counted:read(Counters))),
    _ = dyno_agent:detach(Agent),
    {error, {_, {taken, _, _}} = Error} = Other,
    ?assertMatch({match, _}, re:run(dyno_error:format(Error), "another dyno")).

in_process(Fun) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({result, Fun()}) end),
    receive
        {'DOWN', Ref, process, Pid, {result, Result}} -> Result
    end.

replaces_an_older_agent(Config) ->
    Node = node_of(Config),
    Old = "-module(dyno_agent_guard). -export([start/1]). start(_) -> {error, i_am_old}.",
    dyno_agent_guard = dyno_peers:load(Node, Old),
    Agent = attach(Config),
    {_, Binary, _} = code:get_object_code(dyno_agent_guard),
    {ok, {dyno_agent_guard, Md5}} = beam_lib:md5(Binary),
    ?assertEqual(
        Md5,
        erpc:call(Node, dyno_agent_guard, module_info, [md5])
    ),
    _ = dyno_agent:detach(Agent).

caller_ends(Config) ->
    Node = node_of(Config),
    Self = self(),
    {Caller, Ref} = spawn_monitor(fun() ->
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        _ = counters(Agent, [{dyno_work, '_', '_'}], [call_time]),
        {ok, _} = dyno_agent:start(Agent, dyno_agent_processes, #{
            patterns => [{dyno_work, '_', '_'}], interval_ms => 100
        }),
        {ok, _} = dyno_agent:start(Agent, dyno_agent_sampler, #{sink => self(), interval_ms => 50}),
        Self ! ready,
        receive
        after infinity -> ok
        end
    end),
    receive
        ready -> ok;
        {'DOWN', Ref, process, Caller, Reason} -> ct:fail(Reason)
    end,
    ?assertNotEqual([], dyno_leftovers:in(Node)),
    exit(Caller, kill).

caller_node_ends(Config) ->
    Node = node_of(Config),
    %% The caller's node has dyno and is killed outright.
    {_, CallerNode} = Caller = dyno_peers:start(["-pa", filename:join(code:lib_dir(dyno), "ebin")]),
    Self = self(),
    {?MODULE, Binary, File} = code:get_object_code(?MODULE),
    {module, _} = erpc:call(CallerNode, code, load_binary, [?MODULE, File, Binary]),
    spawn(CallerNode, fun() ->
        {ok, Agent} = dyno_agent:attach(Node, #{}),
        {ok, _} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => [{dyno_work, '_', '_'}], measures => [call_time]
        }),
        Self ! ready,
        receive
        after infinity -> ok
        end
    end),
    receive
        ready -> ok
    end,
    ?assertNotEqual([], dyno_leftovers:in(Node)),
    _ = os:cmd("kill -9 " ++ erpc:call(CallerNode, os, getpid, [])),
    dyno_leftovers:check(Node, proplists:get_value(before, Config)),
    dyno_peers:stop(Caller).

caller_ends_while_attaching(Config) ->
    Node = node_of(Config),
    Before = proplists:get_value(before, Config),
    %% Killed at twenty moments of the first 20 ms.
    lists:foreach(
        fun(Ms) ->
            Caller = spawn(fun() -> dyno_agent:attach(Node, #{}) end),
            receive
            after Ms -> exit(Caller, kill)
            end,
            dyno_leftovers:check(Node, Before)
        end,
        lists:seq(1, 20)
    ).

counts_calls_time_and_memory(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    Measures = [call_time, call_memory],
    Counters = counters(Agent, [{dyno_work, '_', '_'}], Measures),
    erpc:call(Node, dyno_work, call, [17]),
    ok = dyno_agent_instrument:restart(Counters),
    erpc:call(Node, dyno_work, call, [1000]),
    {SpunUs, ok} = erpc:call(Node, timer, tc, [dyno_work, spin, [100_000]]),
    erpc:call(Node, dyno_work, list, [1000]),
    #{functions := Functions} = Result = dyno_counted:read(Counters),
    ?assertEqual(1000, calls({dyno_work, leaf, 1}, Result)),
    ?assertEqual(1001, calls({dyno_work, call, 1}, Result)),
    ?assertEqual(1, calls({dyno_work, list, 1}, Result)),
    [#{raw_time_ns := SpinNs, own_time_ns := OwnNs}] = [
        F
     || #{mfa := {_, spin_until, 1}} = F <- Functions
    ],
    %% 100 ms of spinning, of which other processes may have had a part.
    ?assert(SpinNs > 2_000_000),
    ?assert(SpinNs < 1100 * SpunUs),
    ?assert(OwnNs < SpinNs),
    [#{words := Words}] = [F || #{mfa := {_, list, 1}} = F <- Functions],
    ?assert(Words >= 2000),
    _ = dyno_agent:detach(Agent).

names_patterns_that_match_nothing(Config) ->
    Agent = attach(Config),
    Start = fun(Pattern) ->
        dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => [{dyno_work, '_', '_'}, Pattern], measures => [call_time]
        })
    end,
    ?assertMatch(
        {error,
            {dyno_agent, {failed, _, {unmatched, [{{dyno_worc, '_', '_'}, {ok, "dyno_work"}}]}}}},
        Start({dyno_worc, '_', '_'})
    ),
    ?assertMatch(
        {error, {dyno_agent, {failed, _, {unmatched, [{{dyno_work, leav, 1}, {ok, "leaf/1"}}]}}}},
        Start({dyno_work, leav, 1})
    ),
    ?assertMatch(
        {error, {dyno_agent, {failed, _, {unmatched, [{{application, kernl}, {ok, "kernel"}}]}}}},
        Start({application, kernl})
    ),
    _ = dyno_agent:detach(Agent).

measures_modules_loaded_later(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    %% One is on the code path and not loaded yet, the other is not asked for.
    Folder = proplists:get_value(priv_dir, Config),
    ok = dyno_peers:save(Folder, later_source()),
    true = erpc:call(Node, code, add_patha, [Folder]),
    Counters = counters(Agent, [{dyno_later, f, '_'}, {dyno_work, '_', '_'}], [call_time]),
    other = dyno_peers:load(Node, "-module(other). -export([f/0]). f() -> ok."),
    _ = [erpc:call(Node, dyno_later, F, []) || F <- [f, f, f, g, g]],
    erpc:call(Node, other, f, []),
    Result = dyno_counted:read(Counters),
    ?assertEqual(3, calls({dyno_later, f, 0}, Result)),
    ?assertEqual(0, calls({dyno_later, g, 0}, Result)),
    ?assertEqual(0, calls({other, f, 0}, Result)),
    %% What was not asked for has no breakpoint for long.
    Sessions = fun(MFA) -> erpc:call(Node, trace, session_info, [MFA]) end,
    dyno_leftovers:until(fun() ->
        timer:sleep(50),
        Sessions({dyno_later, g, 0}) =:= [] andalso Sessions({other, f, 0}) =:= []
    end),
    _ = dyno_agent:detach(Agent),
    _ = [erpc:call(Node, code, Do, [dyno_later]) || Do <- [delete, purge]].

%% What the old code has counted is gone, and that is said.
counts_after_a_reload(Config) ->
    Node = node_of(Config),
    Agent = attach(Config),
    Counters = counters(Agent, [{dyno_work, '_', '_'}], [call_time]),
    erpc:call(Node, dyno_work, call, [100]),
    dyno_work = dyno_peers:load(Node, work_source("2")),
    erpc:call(Node, dyno_work, call, [7]),
    timer:sleep(700),
    erpc:call(Node, dyno_work, call, [3]),
    #{functions := Functions} = dyno_counted:read(Counters),
    [#{calls := Calls, counted := at_least}] =
        [F || #{mfa := {dyno_work, leaf, 1}} = F <- Functions],
    %% Those before are there, if they were read in time.
    ?assert(Calls =:= 110 orelse Calls =:= 10, Calls),
    _ = dyno_agent:detach(Agent),
    erpc:call(Node, code, purge, [dyno_work]).

%% Did the sessions end while processes are in a measured function, the emulator would crash here.
lets_calls_return_before_it_goes(_Config) ->
    {ok, Peer, Node} = peer:start(#{
        name => peer:random_name(),
        connection => standard_io,
        args => ["-setcookie", atom_to_list(erlang:get_cookie()), "-pa" | code:get_path()]
    }),
    try
        ?assertEqual(survived, erpc:call(Node, dyno_stayers, survive, []))
    after
        dyno_peers:stop({Peer, Node})
    end.

counts_once_where_patterns_overlap(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    Patterns = [{dyno_work, '_', '_'}, {dyno_work, leaf, 1}, {dyno_work, leaf, '_'}],
    Counters = counters(Agent, Patterns, [call_time, call_count]),
    erpc:call(Node, dyno_work, call, [10]),
    Result = dyno_counted:read(Counters),
    ?assertEqual(10, calls({dyno_work, leaf, 1}, Result)),
    _ = dyno_agent:detach(Agent).

%% A sampler that is told to hurry, and what reads tables and ports, call these modules all the
%% time.
counts_no_calls_of_its_own(Config) ->
    Agent = attach(Config),
    Modules = [lists, maps, ets, gen_server, proc_lib, erlang],
    Counters = counters(Agent, [{M, '_', '_'} || M <- Modules], [call_count]),
    {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_sampler, #{
        sink => self(), interval_ms => 10, reads => [vm, os]
    }),
    {ok, _} = dyno_agent:start(Agent, dyno_agent_resources, #{
        interval_ms => 20, reads => [ets, ports]
    }),
    ok = dyno_agent_instrument:restart(Counters),
    Work = fun() ->
        [erpc:call(node_of(Config), dyno_work, list, [5]) || _ <- lists:seq(1, 100)],
        [
            receive
                {dyno_sample, Sampler, _, _, _} -> ok
            end
         || _ <- lists:seq(1, 30)
        ]
    end,
    Server = fun(#{functions := Functions}) ->
        lists:sum([C || #{mfa := {gen_server, _, _}, calls := C} <- Functions])
    end,
    _ = Work(),
    Peeked = dyno_counted:peek(Counters),
    %% The runtime system itself may call it, once in a while.
    Peeks = calls({lists, seq, 2}, Peeked),
    ?assert(Peeks >= 100 andalso Peeks < 105, Peeks),
    %% Counting goes on meanwhile.
    ?assert(Server(Peeked) < 100, Server(Peeked)),
    _ = Work(),
    Read = dyno_counted:read(Counters),
    Reads = calls({lists, seq, 2}, Read),
    ?assert(Reads >= 200 andalso Reads < 210, Reads),
    ?assert(Server(Read) < 60, Server(Read)),
    %% A reading has all that was counted until then.
    ?assertEqual(Reads, calls({lists, seq, 2}, dyno_counted:read(Counters))),
    _ = dyno_agent:detach(Agent).

%% Or the runtime's statistics would grow with each process that ever was.
reads_by_itself_where_nobody_discovers(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    Counters = counters(Agent, [{dyno_work, '_', '_'}], [call_time]),
    ok = dyno_peers:eval(
        Node, "[spawn(dyno_work, call, [1]) || _ <- lists:seq(1, 11_000)], timer:sleep(100)."
    ),
    dyno_leftovers:until(fun() ->
        timer:sleep(100),
        map_get(gaps_ns, sys:get_state(Counters)) > 0
    end),
    ?assertEqual(11_000, calls({dyno_work, leaf, 1}, dyno_counted:read(Counters))),
    _ = dyno_agent:detach(Agent).

%% Twenty batches of a look, of which all are dead: what knows them shrinks on the way.
looks_on_while_processes_die(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => [{dyno_work, leaf, 1}], interval_ms => 60_000
    }),
    Pids = dyno_peers:eval(
        Node,
        "Self = self(),"
        "Pids = [spawn(dyno_work, serve, []) || _ <- lists:seq(1, 10_000)],"
        "[Pid ! {call, Self, 1} || Pid <- Pids], [receive done -> ok end || _ <- Pids], Pids."
    ),
    #{discovered := 10_000} = dyno_agent_process_parts:result(
        dyno_agent_instrument:read(Discovery)
    ),
    Monitors = [monitor(process, Pid) || Pid <- Pids],
    [exit(Pid, kill) || Pid <- Pids],
    [
        receive
            {'DOWN', Monitor, process, _, _} -> ok
        end
     || Monitor <- Monitors
    ],
    #{discovered := 10_000} = dyno_agent_process_parts:result(
        dyno_agent_instrument:read(Discovery)
    ),
    _ = dyno_agent:detach(Agent).

groups_processes(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    Patterns = [{dyno_work, leaf, 1}],
    {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => Patterns, interval_ms => 1000
    }),
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => Patterns, measures => [call_time], processes => Discovery
    }),
    Script =
        "Self = self(),"
        "Work = fun(Prepare) -> spawn(fun() -> Prepare(), dyno_work:leaf(1), Self ! done,"
        "  receive stop -> ok end end) end,"
        "Pids = [Work(fun() -> register(the_one, self()) end),"
        "  Work(fun() -> proc_lib:set_label({conn, 1}) end),"
        "  Work(fun() -> proc_lib:set_label({conn, 2}) end),"
        "  Work(fun() -> proc_lib:set_label(\"line 17\") end),"
        "  proc_lib:spawn(dyno_work, serve, []),"
        "  Work(fun() -> ok end)],"
        "lists:nth(5, Pids) ! {call, self(), 1},"
        "[receive done -> ok end || _ <- Pids], Pids.",
    Pids = dyno_peers:eval(Node, Script),
    #{groups := Groups} = dyno_agent_process_parts:result(dyno_agent_instrument:read(Discovery)),
    ?assertEqual(
        lists:sort([
            {{registered, the_one}, 1},
            {{label, {conn, '_'}}, 2},
            {{label, ~"line _"}, 1},
            {{initial_call, {dyno_work, serve, 0}}, 1},
            {{first_call, {dyno_work, leaf, 1}}, 1}
        ]),
        lists:sort([{G, N} || #{group := G, discovered := N} <- Groups])
    ),
    #{callers := Callers} = dyno_counted:read(Counters),
    ?assertEqual(
        [{{label, {conn, '_'}}, 2}],
        [{G, N} || {{dyno_work, leaf, 1}, G, N, _} <- Callers, G =:= {label, {conn, '_'}}]
    ),
    _ = [P ! stop || P <- Pids],
    _ = dyno_agent:detach(Agent).

hundred_thousand_short_lived_processes(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    Patterns = [{dyno_work, '_', '_'}],
    {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => Patterns, interval_ms => 100
    }),
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => Patterns, measures => [call_time], processes => Discovery
    }),
    %% Never more than a hundred at a time.
    Script =
        "Wait = fun Wait(0) -> ok; Wait(N) -> receive {'DOWN', _, _, _, _} -> Wait(N - 1) end end,"
        "[begin [spawn_monitor(dyno_work, call, [3]) || _ <- lists:seq(1, 100)], Wait(100) end"
        " || _ <- lists:seq(1, 1000)], ok.",
    ok = dyno_peers:eval(Node, Script),
    MemoryBefore = used(Node),
    %% Once more: what is kept does not grow with the processes.
    ok = dyno_agent_instrument:restart(Counters),
    ok = dyno_agent_instrument:restart(Discovery),
    ok = dyno_peers:eval(Node, Script),
    Result = dyno_counted:read(Counters),
    #{groups := Groups} = dyno_agent_process_parts:result(dyno_agent_instrument:read(Discovery)),
    Ours = [
        N
     || #{group := {_, {dyno_work, call, 1}}, discovered := N} <- Groups
    ],
    %% How many send no message is estimated.
    ?assert(abs(lists:sum(Ours) - 100_000) < 10_000, Ours),
    Leaf = calls({dyno_work, leaf, 1}, Result),
    ?assertEqual(300_000, Leaf),
    %% While the rows are read nothing is timed.
    #{off_by := OffBy} = Result,
    ?assert(OffBy < 0.5),
    %% By process it would be some 30 MB.
    Grown = used(Node) - MemoryBefore,
    ct:pal("~b calls of 300000, off by ~p, memory grown by ~b bytes", [Leaf, OffBy, Grown]),
    ?assert(Grown < 10_000_000),
    _ = dyno_agent:detach(Agent).

%% Without the garbage: of that there may be much on a busy machine.
used(Node) ->
    dyno_peers:eval(Node, "[garbage_collect(P) || P <- processes()], erlang:memory(total).").

works_beside_other_tracers(Config) ->
    Agent = attach(Config),
    Node = node_of(Config),
    Counters = counters(Agent, [{dyno_work, '_', '_'}], [call_time]),
    {ok, Discovery} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => [{dyno_work, '_', '_'}], interval_ms => 100
    }),
    %% The target's own: dbg with messages, and call_time of the legacy session, on the same
    %% functions and processes.
    Script =
        "Self = self(),"
        "{ok, _} = dbg:tracer(process, {fun(M, A) -> Self ! M, A end, []}),"
        "Worker = spawn(fun() -> receive go -> dyno_work:call(10), Self ! worked end end),"
        "{ok, _} = dbg:p(Worker, [call]),"
        "{ok, _} = dbg:tpl(dyno_work, leaf, 1, []),"
        "erlang:trace(Worker, true, [call]),"
        "1 = erlang:trace_pattern({dyno_work, call, 1}, true, [call_time]),"
        "Worker ! go, receive worked -> ok end,"
        "Count = fun Count(N) -> receive"
        "  {trace, Worker, call, {dyno_work, leaf, _}} -> Count(N + 1)"
        "  after 500 -> N end end,"
        "Seen = Count(0),"
        "{call_time, [{_, Calls, _, _}]} = erlang:trace_info({dyno_work, call, 1}, call_time),"
        "dbg:stop(), erlang:trace_pattern({dyno_work, '_', '_'}, false, [local, call_time]),"
        "{Seen, Calls}.",
    ?assertEqual({10, 11}, dyno_peers:eval(Node, Script)),
    ?assertEqual(10, calls({dyno_work, leaf, 1}, dyno_counted:read(Counters))),
    %% dbg asks the module for its functions: that is a process, too.
    #{groups := Groups} = dyno_agent_process_parts:result(dyno_agent_instrument:read(Discovery)),
    ?assert(lists:member({first_call, {dyno_work, call, 1}}, [G || #{group := G} <- Groups])),
    _ = dyno_agent:detach(Agent).

samples(Config) ->
    Agent = attach(Config),
    {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_sampler, #{
        sink => self(), interval_ms => 50
    }),
    Take = fun() ->
        receive
            {dyno_sample, Sampler, TimeMs, Statistics, CostUs} -> {TimeMs, Statistics, CostUs}
        end
    end,
    {_, Statistics, CostUs} = Take(),
    {T2, _, _} = Take(),
    ?assert(T2 >= 50),
    ?assert(CostUs > 0),
    #{~"vm.processes" := Processes, ~"vm.memory.total" := Memory} = Statistics,
    ?assert(Processes > 30),
    ?assert(Memory > 10_000_000),
    #{~"os.vm.rss" := Rss} = Statistics,
    ?assert(Rss > 10_000_000),
    ok = dyno_agent_instrument:restart(Sampler),
    ok = dyno_agent_instrument:read(Sampler),
    _ = dyno_agent:detach(Agent).

%% What comes between the end of the load and the reading is not the load's: but for the bytes that
%% were carried until then.
looks_a_last_time(Config) ->
    Node = node_of(Config),
    Agent = attach(Config),
    {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_sampler, #{
        sink => self(), interval_ms => 100_000
    }),
    {ok, Resources} = dyno_agent:start(Agent, dyno_agent_resources, #{
        interval_ms => 100_000, reads => [ets, ports]
    }),
    Looked = fun() ->
        #{ets := Tables, ports := Ports} = dyno_agent_instrument:read(Resources),
        {
            [N || #{name := looked_at, objects_max := N} <- Tables],
            lists:sum([Bytes || #{input_bytes := Bytes} <- Ports])
        }
    end,
    dyno_peers:eval(
        Node, "ets:new(looked_at, [named_table, public, {heir, whereis(init), x}]), ok."
    ),
    ok = dyno_agent_instrument:restart(Sampler),
    ok = dyno_agent_instrument:restart(Resources),
    true = erpc:call(Node, ets, insert, [looked_at, {during, 1}]),
    ok = dyno_agent_sampler:last_look(Sampler),
    ok = dyno_agent_resources:last_look(Resources),
    {_, Before} = Looked(),
    true = erpc:call(Node, ets, insert, [looked_at, [{N, binary:copy(~"x", 1000)} || N <- [1, 2]]]),
    {Objects, After} = Looked(),
    ?assertEqual([1], Objects),
    ?assert(After > Before + 2000, {Before, After}),
    ok = dyno_agent_instrument:read(Sampler),
    Samples = fun Samples(Count) ->
        receive
            {dyno_sample, Sampler, _, _, _} -> Samples(Count + 1)
        after 0 -> Count
        end
    end,
    ?assertEqual(1, Samples(0)),
    %% Where nobody asked for one, the reading is the last look.
    ok = dyno_agent_instrument:restart(Sampler),
    ok = dyno_agent_instrument:restart(Resources),
    true = erpc:call(Node, ets, insert, [looked_at, {more, 1}]),
    ?assertMatch({[4], _}, Looked()),
    ok = dyno_agent_instrument:read(Sampler),
    ?assertEqual(1, Samples(0)),
    %% Rates over a moment would be chance: soon after another sample there is none.
    ok = dyno_agent_instrument:restart(Sampler),
    #{timer := Timer} = sys:get_state(Sampler),
    Sampler ! {timeout, Timer, sample},
    ok = dyno_agent_sampler:last_look(Sampler),
    ok = dyno_agent_instrument:read(Sampler),
    ?assertEqual(1, Samples(0)),
    true = erpc:call(Node, ets, delete, [looked_at]),
    _ = dyno_agent:detach(Agent).

gives_up_at_its_limits(Config) ->
    {ok, Agent} = dyno_agent:attach(node_of(Config), #{limit_ms => 200}),
    Ref = dyno_agent:ref(Agent),
    %% The limit may be reached before the counters have begun.
    _ = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => [{dyno_work, '_', '_'}], measures => [call_time]
    }),
    receive
        {dyno_agent, Ref, {gave_up, {limit_ms, 200}}} -> ok
    end,
    dyno_leftovers:check(node_of(Config), proplists:get_value(before, Config)),
    {ok, Small} = dyno_agent:attach(node_of(Config), #{limit_bytes => 1000}),
    SmallRef = dyno_agent:ref(Small),
    receive
        {dyno_agent, SmallRef, {gave_up, {limit_bytes, 1000, _}}} -> ok
    end,
    _ = dyno_agent:detach(Small).

%% The others go on, but for those that need it.
goes_on_without_an_instrument(Config) ->
    Node = node_of(Config),
    {ok, Agent} = dyno_agent:attach(Node, #{limit_bytes => 10_000_000}),
    Ref = dyno_agent:ref(Agent),
    Patterns = [{dyno_work, '_', '_'}],
    {ok, Processes} = dyno_agent:start(Agent, dyno_agent_processes, #{
        patterns => Patterns, interval_ms => 100
    }),
    {ok, Calls} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => Patterns, measures => [call_time], processes => Processes
    }),
    {ok, Resources} = dyno_agent:start(Agent, dyno_agent_resources, #{
        interval_ms => 1000, reads => [ets]
    }),
    %% It does not get to its mailbox, which fills.
    ok = sys:suspend(Processes),
    Monitors = [monitor(process, P) || P <- [Processes, Calls]],
    _ = [Processes ! lists:seq(1, 100_000) || _ <- lists:seq(1, 20)],
    receive
        {dyno_agent, Ref, {without, Given, {limit_bytes, 10_000_000, _}}} ->
            ?assertEqual([dyno_agent_calls, dyno_agent_processes], lists:sort(Given))
    end,
    _ = [
        receive
            {'DOWN', M, process, _, _} -> ok
        end
     || M <- Monitors
    ],
    ?assertMatch(#{}, dyno_agent_instrument:read(Resources)),
    _ = dyno_agent:detach(Agent).

%% Native functions that hold the schedulers let each wait for seconds: three took three times that.
starts_at_the_same_time(Config) ->
    Agent = attach(Config),
    begins_late = dyno_peers:load(
        node_of(Config),
        "-module(begins_late). -export([init/1, handle_call/3]). "
        "init(bad) -> {error, bad}; init(_) -> timer:sleep(1000), {ok, none}. "
        "handle_call(_, _, State) -> {reply, ok, State}."
    ),
    Began = erlang:monotonic_time(millisecond),
    Starts = [
        spawn_monitor(fun() -> exit(dyno_agent:start(Agent, begins_late, How)) end)
     || How <- [good, good, bad, good]
    ],
    Answers = [
        receive
            {'DOWN', Ref, process, _, Answer} -> element(1, Answer)
        end
     || {_, Ref} <- Starts
    ],
    ?assertEqual([ok, ok, error, ok], Answers),
    ?assert(erlang:monotonic_time(millisecond) - Began < 2500),
    _ = dyno_agent:detach(Agent).

reports_an_instrument_that_dies(Config) ->
    Agent = attach(Config),
    Ref = dyno_agent:ref(Agent),
    Counters = counters(Agent, [{dyno_work, '_', '_'}], [call_time]),
    exit(Counters, kill),
    receive
        {dyno_agent, Ref, {without, [dyno_agent_calls], killed}} -> ok
    end,
    _ = dyno_agent:detach(Agent).
