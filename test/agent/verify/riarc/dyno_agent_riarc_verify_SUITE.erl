%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% RIARC in a node of its own: traces are sound, also where processes that have tracers start others
%% that have, and go from session to session; nothing is left.
-module(dyno_agent_riarc_verify_SUITE).

-behaviour(dyno_agent_monitor).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

newest_release_only() -> all.

all() ->
    [each_trace_is_sound, each_trace_of_a_tree_is_sound, a_killed_tracer_is_told].

each_trace_is_sound(_Config) ->
    #{verdicts := Verdicts} = Summary = in_node(workload, 2),
    #{monitors := #{dyno_agent_workload_monitor := Monitor}} = Verdicts,
    ?assertMatch(#{processes := 2000, yes := 2000, no := 0, crashed := 0}, Monitor),
    whole(2000, Summary).

%% 20 trees of 121 processes.
each_trace_of_a_tree_is_sound(_Config) ->
    lists:foreach(
        fun(Shards) ->
            #{verdicts := #{monitors := #{?MODULE := Monitor}}} = Summary = in_node(trees, Shards),
            ?assertMatch(#{processes := 2420, yes := 2420, no := 0, crashed := 0}, Monitor),
            whole(2420, Summary)
        end,
        [1, 4]
    ).

whole(Number, #{verdicts := Verdicts, faults := []}) ->
    ?assertMatch(#{opened := Number, complete := Number, open := 0, gap := 0}, Verdicts).

a_killed_tracer_is_told(_Config) ->
    #{faults := [Fault]} = in_node(killed, 2),
    ?assertMatch({_, _}, binary:match(Fault, ~"a tracer was killed")).

%% Nothing of dyno lives in it when it is over.
in_node(Function, Shards) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io, args => lists:append([["-pa", P] || P <- code:get_path()])
    }),
    {Summary, Left} = peer:call(Peer, ?MODULE, Function, [Shards], 60_000),
    ok = peer:stop(Peer),
    ?assertEqual([], Left),
    Summary.

%% In the node

workload(Shards) ->
    verified(dyno_agent_workload_monitor, Shards, fun() ->
        #{status := complete} = dyno_workload:once(#{
            workers => 2000, requests => 10, time_ms => 500
        })
    end).

trees(Shards) ->
    verified(?MODULE, Shards, fun() ->
        Ended = [spawn_monitor(?MODULE, tree, [4, self()]) || _ <- lists:seq(1, 20)],
        lists:foreach(
            fun({_, Ref}) ->
                receive
                    {'DOWN', Ref, process, _, normal} -> ok
                end
            end,
            Ended
        ),
        %% Grandchildren live a little longer.
        lists:foreach(
            fun(_) ->
                receive
                    ended -> ok
                end
            end,
            lists:seq(1, 2420)
        )
    end).

%% Each has three below it, and five messages of its own.
tree(Depth, Owner) ->
    lists:foreach(
        fun(_) -> spawn(?MODULE, tree, [Depth - 1, Owner]) end, lists:seq(1, 3 * min(1, Depth))
    ),
    lists:foreach(
        fun(N) ->
            self() ! N,
            receive
                N -> ok
            end
        end,
        lists:seq(1, 5)
    ),
    Owner ! ended.

killed(Shards) ->
    verified(?MODULE, Shards, fun() ->
        timer:sleep(100),
        {links, Links} = process_info(get(verifier), links),
        [Root | _] = [
            Pid
         || Pid <- Links,
            is_pid(Pid),
            {_, {dyno_agent_riarc_tracer, init, 4}} <- [process_info(Pid, initial_call)]
        ],
        exit(Root, kill),
        receive
            {dyno_verify, _, {fault, _}} -> ok
        end
    end).

verified(Monitor, Shards, Run) ->
    {module, Monitor} = code:ensure_loaded(Monitor),
    Before = processes(),
    {ok, Pid} = dyno_agent_verifier:start_link(#{
        instrumentation => dyno_agent_riarc_verify,
        monitors => [Monitor],
        sink => self(),
        shards => Shards
    }),
    put(verifier, Pid),
    _ = Run(),
    #{faults := Faults} = Summary = dyno_agent_verifier:finish(Pid),
    ok = gen_server:stop(Pid),
    timer:sleep(50),
    Left = [
        process_info(P, current_stacktrace)
     || P <- processes() -- Before, is_ours(process_info(P, [dictionary, current_function]))
    ],
    {Summary#{faults := [iolist_to_binary(F) || F <- Faults]}, Left}.

is_ours([_, {_, {Module, _, _}}]) -> lists:prefix("dyno_agent_riarc", atom_to_list(Module));
is_ours(undefined) -> false.

%% The monitor of a tree's processes

needs() ->
    #{select => [{function, ?MODULE, tree, 2}], events => [send, 'receive', spawn]}.

init(_Process) -> new.

event({spawned, _, _}, _, new) -> {next, {1, 1}};
event({spawn, _, _}, _, {1, 1}) -> {next, {1, 1}};
event({send, N, _}, _, {N, Received}) when is_integer(N) -> {next, {N + 1, Received}};
event({'receive', N}, _, {Sent, N}) when Sent > N -> {next, {Sent, N + 1}};
event({send, ended, _}, _, {6, 6}) -> {next, ended};
event({exit, normal}, _, ended) -> {yes, #{step => ~"exit"}, ended};
event(Event, _, State) -> {no, #{step => ~"other", bindings => #{'E' => {Event, State}}}, State}.
