%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_vm_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        every_described_value_is_read,
        utilisation_needs_enabling,
        offline_schedulers_do_not_count,
        waiting_processes_show_in_the_run_queue,
        gauges_follow_what_is_there,
        rates_follow_what_happens,
        an_empty_interval_has_no_rates,
        reading_makes_no_atoms
    ].

%% A node of its own: others' processes and tables must not disturb the counts.
init_per_testcase(Case, Config) ->
    {ok, Peer, _Node} = peer:start_link(#{
        connection => standard_io,
        args => ["-pa" | code:get_path()] ++ flags(Case)
    }),
    [{peer, Peer} | Config].

flags(offline_schedulers_do_not_count) -> ["+S", "2:1"];
flags(waiting_processes_show_in_the_run_queue) -> ["+S", "1:1"];
flags(_) -> ["+S", "2:2"].

end_per_testcase(_Case, Config) ->
    peer:stop(?config(peer, Config)).

in_peer(Config, Function, Arguments) ->
    peer:call(?config(peer, Config), ?MODULE, Function, Arguments, 60_000).

every_described_value_is_read(Config) ->
    all_described(in_peer(Config, two_readings, [])),
    all_described(two_readings()).

all_described({Before, After}) ->
    Values = dyno_agent_vm:difference(Before, After),
    Described = dyno_agent_vm:describe(),
    ?assertEqual(
        lists:sort([Name || #{name := Name} <- Described]), lists:sort(maps:keys(Values))
    ),
    Units = [~"ratio", ~"count", ~"B", ~"count/s", ~"B/s"],
    [?assert(lists:member(Unit, Units)) || #{unit := Unit} <- Described],
    [?assert(is_number(Value) andalso Value >= 0) || Value <- maps:values(Values)],
    ?assert(map_get(~"vm.memory.total", Values) > map_get(~"vm.memory.processes", Values)),
    [
        ?assert(Value =< 1)
     || <<"vm.scheduler_utilisation.", _/binary>> := Value <- Values
    ].

utilisation_needs_enabling(Config) ->
    Values = in_peer(Config, read_without_enabling, []),
    ?assertNot(is_map_key(~"vm.scheduler_utilisation.normal", Values)),
    ?assert(is_map_key(~"vm.reductions", Values)).

%% One of two schedulers is online and busy: were both counted, a half would be the most.
offline_schedulers_do_not_count(Config) ->
    ?assert(in_peer(Config, utilisation_when_busy, []) > 0.6).

waiting_processes_show_in_the_run_queue(Config) ->
    ?assert(in_peer(Config, run_queue_behind, [20]) >= 18).

gauges_follow_what_is_there(Config) ->
    {Before, After} = in_peer(Config, gauges_grow, []),
    Grown = fun(Name) -> map_get(Name, After) - map_get(Name, Before) end,
    ?assert(Grown(~"vm.processes") >= 100),
    ?assert(Grown(~"vm.ets_tables") >= 50),
    ?assert(Grown(~"vm.atoms") >= 200),
    ?assert(Grown(~"vm.ports") >= 1),
    %% 20 MB were made; others' garbage may have been collected meanwhile.
    ?assert(Grown(~"vm.memory.binary") >= 15_000_000),
    ?assert(Grown(~"vm.memory.ets") >= 1_000_000),
    ?assert(Grown(~"vm.memory.total") >= 15_000_000).

rates_follow_what_happens(Config) ->
    {Seconds, Values} = in_peer(Config, rates_rise, []),
    Amount = fun(Name) -> map_get(Name, Values) * Seconds end,
    %% The interval was measured around the readings, so these are upper bounds of the truth.
    ?assert(Amount(~"vm.garbage_collections") >= 500),
    ?assert(Amount(~"vm.context_switches") >= 1000),
    ?assert(Amount(~"vm.reductions") >= 1_000_000),
    ?assert(Amount(~"vm.io.output") >= 10_000),
    ?assert(Amount(~"vm.io.input") >= 10_000).

an_empty_interval_has_no_rates(_Config) ->
    Raw = dyno_agent_vm:read(),
    Values = dyno_agent_vm:difference(Raw, Raw),
    ?assertNot(is_map_key(~"vm.reductions", Values)),
    ?assert(is_map_key(~"vm.processes", Values)).

reading_makes_no_atoms(Config) ->
    ?assertEqual(0, in_peer(Config, atoms_made, [])).

%% Run in the other node

two_readings() ->
    ok = dyno_agent_vm:enable(),
    Before = dyno_agent_vm:read(),
    work(1_000_000),
    {Before, dyno_agent_vm:read()}.

read_without_enabling() ->
    Before = dyno_agent_vm:read(),
    dyno_agent_vm:difference(Before, dyno_agent_vm:read()).

%% Measures until the schedulers show as busy; the test's time limit ends a vain search.
utilisation_when_busy() ->
    ok = dyno_agent_vm:enable(),
    _ = spawn_link(fun spin/0),
    busy(dyno_agent_vm:read()).

busy(Before) ->
    work(5_000_000),
    After = dyno_agent_vm:read(),
    case dyno_agent_vm:difference(Before, After) of
        #{~"vm.scheduler_utilisation.normal" := Busy} when Busy > 0.6 -> Busy;
        #{} -> busy(After)
    end.

%% With one scheduler, whoever reads keeps all others waiting.
run_queue_behind(Workers) ->
    [spawn_link(fun spin/0) || _ <- lists:seq(1, Workers)],
    Raw = dyno_agent_vm:read(),
    map_get(~"vm.run_queue.normal", dyno_agent_vm:difference(Raw, Raw)).

gauges_grow() ->
    Before = dyno_agent_vm:read(),
    [
        spawn_link(fun() ->
            receive
                stop -> ok
            end
        end)
     || _ <- lists:seq(1, 100)
    ],
    Tables = [ets:new(table, [public]) || _ <- lists:seq(1, 50)],
    true = ets:insert(hd(Tables), [{N, lists:seq(1, 20)} || N <- lists:seq(1, 10_000)]),
    Names = [<<"a_test_atom_", (integer_to_binary(N))/binary>> || N <- lists:seq(1, 200)],
    _ = [binary_to_atom(Name) || Name <- Names],
    _Port = open_port({spawn, "cat"}, []),
    %% In a table, where no garbage collection takes it.
    true = ets:insert(lists:last(Tables), {binary, binary:copy(<<0>>, 20_000_000)}),
    After = dyno_agent_vm:read(),
    {dyno_agent_vm:difference(Before, Before), dyno_agent_vm:difference(Before, After)}.

rates_rise() ->
    Start = erlang:monotonic_time(nanosecond),
    Before = dyno_agent_vm:read(),
    [true = erlang:garbage_collect() || _ <- lists:seq(1, 500)],
    Echo = spawn_link(fun echo/0),
    [ok = ping(Echo) || _ <- lists:seq(1, 1000)],
    work(10_000_000),
    Port = open_port({spawn, "cat"}, [binary]),
    true = port_command(Port, binary:copy(~"x", 10_000)),
    ok = receive_bytes(Port, 10_000),
    After = dyno_agent_vm:read(),
    End = erlang:monotonic_time(nanosecond),
    {(End - Start) / 1.0e9, dyno_agent_vm:difference(Before, After)}.

atoms_made() ->
    ok = dyno_agent_vm:enable(),
    {Before, After} = {dyno_agent_vm:read(), dyno_agent_vm:read()},
    Values = dyno_agent_vm:difference(Before, After),
    Atoms = erlang:system_info(atom_count),
    [dyno_agent_vm:difference(Before, dyno_agent_vm:read()) || _ <- lists:seq(1, 100)],
    true = map_size(Values) > 0,
    erlang:system_info(atom_count) - Atoms.

spin() ->
    work(1_000_000),
    spin().

work(0) -> ok;
work(N) -> work(N - 1).

echo() ->
    receive
        {ping, From} -> From ! pong
    end,
    echo().

ping(Echo) ->
    Echo ! {ping, self()},
    receive
        pong -> ok
    end.

receive_bytes(_Port, Left) when Left =< 0 ->
    ok;
receive_bytes(Port, Left) ->
    receive
        {Port, {data, Data}} -> receive_bytes(Port, Left - byte_size(Data))
    end.
