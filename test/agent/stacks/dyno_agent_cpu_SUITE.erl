%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu_SUITE).
-moduledoc """
Samples of the processor: the shares are right, the sampler refuses with a reason rather than
guesses, and nothing is left in a node, however it ends.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(WORD, 8).

suite() ->
    [{timetrap, {minutes, 2}}].

newest_release_only() ->
    [
        comparisons_count_for_the_function_that_compares,
        large_collections_count_for_the_function_that_goes_on,
        a_profile_says_what_its_shares_may_be_off_by,
        match_specifications_count_for_their_process,
        a_folder_that_others_can_change_is_left_alone,
        without_a_library_processes_are_asked
    ].

%% doc/measurements.md has a longer one.
slow() -> [a_node_under_stress_lives_on].

all() ->
    [{group, pure}, {group, in_a_node}].

groups() ->
    [
        {pure, [parallel], [
            a_place_that_is_the_only_one_is_found,
            several_places_are_refused,
            a_refusal_shows_a_wrong_stack,
            other_emulators_are_refused,
            code_is_what_is_of_no_file,
            stacks_keep_both_ends
        ]},
        {in_a_node, [], [
            shares_are_those_of_the_clock,
            comparisons_count_for_the_function_that_compares,
            large_collections_count_for_the_function_that_goes_on,
            short_processes_and_bifs_are_named,
            shares_by_ticks_are_doubted_on_an_idle_node,
            match_specifications_count_for_their_process,
            timed_calls_add_no_function,
            a_saturated_node_is_sampled,
            a_second_sampler_is_refused,
            without_a_library_processes_are_asked,
            a_library_that_does_not_load_is_refused,
            a_folder_that_others_can_change_is_left_alone,
            a_profile_says_what_its_shares_may_be_off_by,
            nothing_is_left,
            nothing_is_left_when_it_is_killed,
            a_node_under_stress_lives_on
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    case {dyno_agent_cpu_layout:supported(), dyno_target_cpu:option(required)} of
        {ok, #{library := <<_/binary>>}} ->
            bench_cases = dyno_peers:load_bench(node(), bench_cases),
            Config;
        Other ->
            {skip, Other}
    end.

end_per_suite(_Config) ->
    ok.

%% The layout

%% A process at 1000 with four words; its heap of 40 words at 8000, its stack of 10 words.
a_place_that_is_the_only_one_is_found(_Config) ->
    Seen = seen([1, 8000, 8240, 8320], [0, 0, 501, 0], [{3, [0, 1000]}, {5, [7, 7]}]),
    ?assertEqual({error, {not_found, stack}}, dyno_agent_cpu_layout:find([Seen], [{500, 600}])),
    Right = seen([1, 8000, 8240, 8320], [0, 0, 504, 0], [{3, [0, 1000]}, {5, [7, 7]}]),
    ?assertEqual(
        {ok, {3, 8, 8, 16, 24, -1}}, dyno_agent_cpu_layout:find([Right, Right], [{500, 600}])
    ),
    %% Where it goes on is code, and not a function's name (an atom); another process is further on.
    Next = seen(
        [1, 8000, 8240, 8320, 512, 520, 528], [0, 0, 504, 0, 16#a344b, 16#4955, 9], [{3, [0, 1000]}]
    ),
    ?assertEqual(
        {ok, {3, 8, 8, 16, 24, 40}}, dyno_agent_cpu_layout:find([Next, Next], [{500, 600}])
    ).

several_places_are_refused(_Config) ->
    Words = [1, 8000, 8240, 8320],
    Targets = [0, 0, 504, 0],
    Find = fun(Seen) -> dyno_agent_cpu_layout:find(Seen, [{500, 600}]) end,
    Twice = seen(Words, Targets, [{3, [0, 1000]}, {5, [1000]}]),
    ?assertEqual({error, {several, running_process}}, Find([Twice])),
    %% One of them is wrong in another state.
    Once = seen(Words, Targets, [{3, [0, 1000]}, {5, [7]}]),
    ?assertMatch({ok, {3, 8, _, _, _, _}}, Find([Twice, Once])),
    None = seen(Words, Targets, [{5, [7]}]),
    ?assertEqual({error, {not_found, running_process}}, Find([Once, None])),
    {{{P, 1, W, T, Bytes, Keys}, Heap, Stack}, Dirty} = Once,
    ?assertEqual(
        {error, not_the_process}, Find([{{{P, 0, W, T, Bytes, Keys}, Heap, Stack}, Dirty}])
    ),
    ?assertEqual(
        {error, no_reading}, Find([{{{P, 0, <<>>, <<>>, Bytes, Keys}, Heap, Stack}, Dirty}])
    ),
    ?assertEqual(
        {error, no_alternate_stack}, Find([{{{P, 1, W, T, 0, Keys}, Heap, Stack}, Dirty}])
    ).

seen(Words, Targets, Keys) ->
    Snapshot = {1000, 1, words(Words), words(Targets), 13_504, [{K, words(W)} || {K, W} <- Keys]},
    {{Snapshot, 40, 10}, Snapshot}.

words(Words) -> <<<<Word:64/native>> || Word <- Words>>.

a_refusal_shows_a_wrong_stack(_Config) ->
    Wrong = [{m, f, 1}, {library, ~"[libx.so]"}],
    Text = unicode:characters_to_list(dyno_target_cpu:text({not_seen, dirty, 1, 9, Wrong})),
    ?assertMatch({match, _}, re:run(Text, "9 samples.* 1 were right.*libx"), Text).

other_emulators_are_refused(_Config) ->
    Supported = fun dyno_agent_cpu_layout:supported/3,
    Linux = {unix, linux},
    ?assertEqual(ok, Supported(jit, Linux, "x86_64-pc-linux-gnu")),
    lists:foreach(
        fun({What, Answer}) ->
            ?assertEqual({error, {not_supported, What}}, Answer),
            Text = unicode:characters_to_list(dyno_target_cpu:text({not_supported, What})),
            ?assertMatch({match, _}, re:run(Text, "not supported on"), Text)
        end,
        [
            {emulator, Supported(emu, Linux, "x86_64-pc-linux-gnu")},
            {machine, Supported(jit, Linux, "aarch64-unknown-linux-gnu")},
            {libc, Supported(jit, Linux, "x86_64-alpine-linux-musl")},
            {system, Supported(jit, {unix, darwin}, "x86_64-apple-darwin23")}
        ]
    ).

code_is_what_is_of_no_file(_Config) ->
    Text =
        ~"""
        1000-2000 r-xp 00000000 fd:00 12   /usr/lib/erlang/beam.smp
        2000-3000 r--p 00000000 fd:00 12   /usr/lib/erlang/beam.smp
        4000-5000 r-xp 00000000 00:00 0
        5000-6000 rwxp 00000000 00:00 0
        7000-8000 r-xs 00000000 00:01 9    /memfd:vmem (deleted)
        a000-b000 r-xp 00000000 00:18 3    /dev/shm/shm-id-1 (deleted)
        c000-d000 r-xp 00000000 00:18 4    /dev/shm/dyno-12/dyno_cpu_nif.so (deleted)
        9000-a000 r-xp 00000000 00:00 0    [vdso]
        """,
    #{code := Code} = Maps = dyno_agent_cpu_maps:parse(Text),
    ?assertEqual([{16#4000, 16#6000}, {16#7000, 16#8000}, {16#a000, 16#b000}], Code),
    ?assertEqual(~"[dyno_cpu_nif.so]", dyno_agent_cpu_maps:library(16#c000, Maps)),
    ?assertEqual(~"[beam.smp]", dyno_agent_cpu_maps:library(16#1fff, Maps)),
    ?assertEqual(~"[vdso]", dyno_agent_cpu_maps:library(16#9000, Maps)),
    ?assertEqual(~"[unknown]", dyno_agent_cpu_maps:library(16#2000, Maps)).

stacks_keep_both_ends(_Config) ->
    Name = fun
        (0) -> unknown;
        (Address) -> {m, list_to_atom("f" ++ integer_to_list((Address + 1) div 10)), 0}
    end,
    F = fun(Number) -> {m, list_to_atom("f" ++ integer_to_list(Number)), 0} end,
    Leaf = fun(_Return, _Pc) -> [{library, ~"[libx.so]"}] end,
    Path = fun(Where, Pc, Inner, Outer, HasGap) ->
        dyno_agent_cpu_frames:path({0, self(), Where, Pc, 1, Inner, Outer, HasGap}, Name, Leaf)
    end,
    ?assertEqual([F(1), F(2), F(3)], Path(jit, 30, [20, 10], [], false)),
    ?assertEqual([F(1), deep, F(2), F(3)], Path(jit, 30, [20], [10], true)),
    ?assertEqual([F(1), F(2)], Path(jit, 20, [20, 20], [20, 10], true)),
    ?assertEqual([F(1), {library, ~"[libx.so]"}], Path(native, 99, [10], [], false)),
    %% C that a function called itself; and C that code without a name called.
    Library = {library, ~"[libx.so]"},
    ?assertEqual([F(1), F(2), Library], Path(20, 99, [10], [], false)),
    ?assertEqual([F(1), Library], Path(1, 99, [10], [], false)),
    ?assertEqual([nameless], Path(jit, 0, [], [], false)),
    ?assertEqual(
        [scheduler],
        dyno_agent_cpu_frames:path({0, none, native, 99, 1, [], [], false}, Name, Leaf)
    ),
    %% Beyond the end of a stack that was moved there may be anything.
    Moved = fun
        (49) -> {erts_beamasm, normal_exit, 0};
        (Address) -> Name(Address)
    end,
    ?assertEqual(
        [F(1), F(2), Library],
        dyno_agent_cpu_frames:path(
            {0, self(), 21, 99, 1, [10, 50, 30], [], true}, Moved, fun(_, _) -> [Library] end
        )
    ).

%% In a node

shares_are_those_of_the_clock(_Config) -> shares_of(mixed).

%% They run in C, whose caller's stack is in a register.
comparisons_count_for_the_function_that_compares(_Config) -> shares_of(sorts).

shares_of(Kind) ->
    on_node(bench_cases:quiet(), required, fun(Node, Sampler, _Agent) ->
        Pid = erpc:call(Node, bench_cases, start, [Kind]),
        timer:sleep(300),
        dyno_tries:hold(3, fun() ->
            ok = dyno_agent_instrument:restart(Sampler),
            _ = erpc:call(Node, bench_cases, times, []),
            #{stacks := Stacks} = Result = sampled(Sampler, 500, 12_000),
            Times = erpc:call(Node, bench_cases, times, []),
            {Worst, Shares} = bench_cases:differences(Times, Stacks),
            ct:log("~p~n~p", [Shares, maps:without([stacks, waiting], Result)]),
            %% Chance alone: 4 points of 500 samples.
            ?assert(Worst < 8, {Worst, Shares})
        end),
        true = exit(Pid, kill)
    end).

%% A dirty scheduler collects; it moves the stack before it tells the ends of the new heap.
large_collections_count_for_the_function_that_goes_on(_Config) ->
    on_node(required, fun(Node, Sampler, _Agent) ->
        Pid = erpc:call(Node, bench_cases, start, [grows]),
        timer:sleep(300),
        ok = dyno_agent_instrument:restart(Sampler),
        #{stacks := Stacks} = sampled(Sampler, 300, 10_000),
        true = exit(Pid, kill),
        Weights = [
            {lists:member({bench_cases, grow, 2}, Stack), Weight}
         || {_, Stack, Weight} <- Stacks
        ],
        All = lists:sum([Weight || {_, Weight} <- Weights]),
        Known = lists:sum([Weight || {true, Weight} <- Weights]),
        %% Without: 0.66.
        ?assert(Known > 0.9 * All, {Known, All, Stacks})
    end).

short_processes_and_bifs_are_named(_Config) ->
    on_node(required, fun(Node, Sampler, _Agent) ->
        Pid = erpc:call(Node, bench_cases, start, [short]),
        timer:sleep(300),
        ok = dyno_agent_instrument:restart(Sampler),
        #{stacks := Stacks} = sampled(Sampler, 200, 10_000),
        true = exit(Pid, kill),
        Frames = lists:usort(lists:append([Stack || {_, Stack, _} <- Stacks])),
        ?assert(lists:member({crypto, hash_nif, 2}, Frames), Frames),
        ?assertMatch([_ | _], [N || {library, <<"[libcrypto", N/binary>>} <- Frames], Frames),
        %% They have ended by the time they are asked.
        Requests = [Weight || {{_, {bench_cases, _, _}}, _, Weight} <- Stacks],
        All = [Weight || {_, _, Weight} <- Stacks],
        ?assert(lists:sum(Requests) > 0.7 * lists:sum(All), Stacks)
    end).

shares_by_ticks_are_doubted_on_an_idle_node(_Config) ->
    Profile = (config(required))#{purpose => profile},
    on_node(Profile, fun(Node, Sampler, _Agent) ->
        {ok, _} = erpc:call(Node, timer, apply_interval, [5, lists, seq, [1, 20_000]]),
        ok = dyno_agent_instrument:restart(Sampler),
        ?assert(lists:member(~"ticks", codes(sampled(Sampler, 20, 10_000)))),
        _ = [spawn(Node, bench_cases, loop, [1_000_000_000_000]) || _ <- [1, 2]],
        ok = dyno_agent_instrument:restart(Sampler),
        ?assertNot(lists:member(~"ticks", codes(sampled(Sampler, 200, 10_000))))
    end).

codes(Result) -> [element(1, Of) || Of <- dyno_agent_stack_parts:warnings(~"node", Result)].

%% They run in a process of the emulator's own. The schedulers do not spin here, so that nothing
%% else is without a process.
match_specifications_count_for_their_process(_Config) ->
    Quiet = ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"],
    on_node(Quiet, required, fun(Node, Sampler, _Agent) ->
        Pid = erpc:call(Node, bench_cases, start, [matches]),
        timer:sleep(300),
        ok = dyno_agent_instrument:restart(Sampler),
        #{cpu := #{scheduler := Scheduler}, stacks := Stacks} = sampled(Sampler, 200, 10_000),
        true = exit(Pid, kill),
        ?assert(Scheduler < 0.15, Scheduler),
        ?assertMatch([_ | _], [x || {_, Stack, _} <- Stacks, lists:member({ets, select, 2}, Stack)])
    end).

%% A timed call keeps the function timed before it on the stack: sort/1, behind increment/1.
timed_calls_add_no_function(_Config) ->
    on_node(required, fun(Node, Sampler, Agent) ->
        {ok, _} = dyno_agent:start(Agent, dyno_agent_calls, #{
            patterns => [{bench_cases, sort, 1}, {bench_cases, quicksort, 1}],
            measures => [call_time]
        }),
        Pid = erpc:call(Node, bench_cases, start, [five]),
        timer:sleep(300),
        ok = dyno_agent_instrument:restart(Sampler),
        #{stacks := Stacks} = sampled(Sampler, 400, 10_000),
        true = exit(Pid, kill),
        Has = fun(Function, Stack) -> lists:member({bench_cases, Function, 1}, Stack) end,
        Sorting = [Stack || {_, Stack, _} <- Stacks, Has(quicksort, Stack)],
        ?assertMatch([_ | _], Sorting),
        ?assertEqual([], [Stack || Stack <- Sorting, Has(increment, Stack)])
    end).

%% The trial gets a scheduler beside 300 processes that compute.
a_saturated_node_is_sampled(_Config) ->
    {_, Node} = Started = dyno_peers:start([]),
    bench_cases = dyno_peers:load_bench(Node, bench_cases),
    _ = [spawn(Node, bench_cases, loop, [1_000_000_000_000]) || _ <- lists:seq(1, 300)],
    {ok, Agent} = attach(Node),
    {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_stacks, config(required)),
    #{stacks := Stacks} = sampled(Sampler, 50, 30_000),
    ?assertMatch([_ | _], [x || {_, Stack, _} <- Stacks, {_, loop, 1} <- Stack]),
    dyno_peers:stop(Started).

a_second_sampler_is_refused(_Config) ->
    on_node(required, fun(Node, _Sampler, Agent) ->
        ?assertEqual(
            {error, {dyno_agent, {failed, Node, {dyno_agent_cpu, signal_in_use}}}},
            dyno_agent:start(Agent, dyno_agent_stacks, config(required))
        ),
        %% And the first one goes on.
        ?assertMatch([_ | _], timers(Node))
    end).

without_a_library_processes_are_asked(_Config) ->
    Without = #{cpu => #{library => none, use => preferred}},
    on_node(Without, fun(Node, Sampler, _Agent) ->
        #{cpu := Cpu} = Result = dyno_agent_stack_parts:result(dyno_agent_instrument:read(Sampler)),
        ?assertEqual({refused, no_library}, Cpu),
        ?assertMatch(
            [_], [x || {~"cpu_refused", _, _} <- dyno_agent_stack_parts:warnings(~"n", Result)]
        ),
        ?assertEqual([], timers(Node))
    end).

a_library_that_does_not_load_is_refused(_Config) ->
    {_, Node} = Started = dyno_peers:start([]),
    Options = #{
        patterns => [],
        level => discovery,
        servers => [],
        without => [functions, processes],
        interval_ms => 1000,
        cpu => #{library => ~"no library", use => required}
    },
    {error, {dyno_target_cpu, {refused, Node, {not_loaded, _}}} = Error} =
        dyno_targets:attach([Node], Options),
    Text = unicode:characters_to_list(dyno_error:format(Error)),
    ?assertMatch({match, _}, re:run(Text, "cannot be sampled: .* cannot be loaded"), Text),
    ?assertEqual(3, dyno_error:exit_status(Error)),
    ?assertEqual(untouched(), traces(Node)),
    dyno_peers:stop(Started).

a_profile_says_what_its_shares_may_be_off_by(_Config) ->
    {ok, Recording} = dyno_profile:run([], #{eval => ~"lists:seq(1, 100_000)", for_ms => 1500}),
    #{~"parameters" := #{~"kind" := ~"cpu"}} = Recording,
    [#{~"profiles" := [Profile | _], ~"tables" := [Table | _]}] = dyno_recording:runs(Recording),
    #{~"observations" := Count, ~"seen" := Seen, ~"scheduler" := _} = Profile,
    ?assert(Count > 20, Count),
    ?assert(Seen > 0.5, Seen),
    [#{~"own" := Own, ~"own_low" := Low, ~"own_high" := High} | _] = dyno_recording:rows(Table),
    ?assertEqual({Low, High}, dyno_stats_interval:share(Own, Count)),
    {ok, Console} = dyno_report_console:format(Recording, #{charset => ascii}),
    Text = unicode:characters_to_binary(Console),
    ?assertMatch({match, _}, re:run(Text, "functions, [0-9]+ samples, .* of it seen"), Text),
    %% How many there are depends on what else the machine does.
    ?assertMatch({match, _}, re:run(Text, "(% +\\+/-|<) [0-9.]+ "), Text).

nothing_is_left(_Config) ->
    {_, Node} = Started = dyno_peers:start([]),
    Before = traces(Node),
    ?assertEqual(untouched(), Before),
    {ok, Agent} = attach(Node),
    {ok, _} = dyno_agent:start(Agent, dyno_agent_stacks, config(required)),
    ?assertMatch(#{signal := caught, timers := [_ | _], folders := []}, traces(Node)),
    %% A machine that is very busy has modules left.
    _ = [dyno_agent:leave(Node, #{}) || #{left := Left} <- [dyno_agent:detach(Agent)], Left =/= 0],
    ok = until(fun() -> traces(Node) =:= Before end),
    ?assertEqual([], [M || {M, _} <- erpc:call(Node, code, all_loaded, []), is_ours(M)]),
    dyno_peers:stop(Started).

nothing_is_left_when_it_is_killed(_Config) ->
    on_node(required, fun(Node, Sampler, _Agent) ->
        {links, Links} = erpc:call(Node, erlang, process_info, [Sampler, links]),
        [Cpu] = [
            Pid
         || Pid <- Links,
            {label, dyno_agent_cpu} <- [erpc:call(Node, erlang, process_info, [Pid, label])]
        ],
        Monitor = monitor(process, Cpu),
        true = exit(Cpu, kill),
        receive
            {'DOWN', Monitor, process, Cpu, killed} -> ok
        end,
        ok = until(fun() ->
            #{signal := Signal, timers := Timers} = traces(Node),
            {Signal, Timers} =:= {default, []}
        end)
    end).

%% By hand: DYNO_STRESS_S=60 rebar3 ct ... --case a_node_under_stress_lives_on.
a_node_under_stress_lives_on(_Config) ->
    Seconds = list_to_integer(os:getenv("DYNO_STRESS_S", "10")),
    _ = ct:timetrap({seconds, Seconds + 60}),
    {_, Node} = Started = dyno_peers:start([]),
    {module, dyno_stress} = dyno_peers:send(Node, dyno_stress),
    ok = net_kernel:monitor_nodes(true),
    {ok, Agent} = attach(Node),
    Before = erpc:call(Node, erlang, memory, [total]),
    Pid = erpc:call(Node, dyno_stress, start, []),
    EndMs = erlang:monotonic_time(millisecond) + 1000 * Seconds,
    {Starts, Samples} = started_and_ended(Agent, EndMs, 0, 0),
    ct:pal("OTP ~s, ~b s: ~b starts, ~b samples, ~p", [
        erlang:system_info(otp_release),
        Seconds,
        Starts,
        Samples,
        erpc:call(Node, dyno_stress, counts, [])
    ]),
    true = exit(Pid, kill),
    ok = until(fun() ->
        #{signal := Signal, timers := Timers} = traces(Node),
        {Signal, Timers} =:= {default, []}
    end),
    %% The modules of the compiler stay: 7 MB.
    ok = until(fun() -> erpc:call(Node, erlang, memory, [total]) < Before + 40_000_000 end),
    ct:pal("~b kB before, ~b after", [
        Kb div 1000
     || Kb <- [Before, erpc:call(Node, erlang, memory, [total])]
    ]),
    _ = dyno_agent:detach(Agent),
    receive
        {nodedown, Node} -> ct:fail(node_died)
    after 0 -> ok
    end,
    dyno_peers:stop(Started).

started_and_ended(Agent, EndMs, Starts, Samples) ->
    case erlang:monotonic_time(millisecond) < EndMs of
        false ->
            {Starts, Samples};
        true ->
            {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_stacks, config(preferred)),
            timer:sleep(rand:uniform(300)),
            Count =
                case dyno_agent_stack_parts:result(dyno_agent_instrument:read(Sampler)) of
                    #{cpu := #{samples := N}} ->
                        N;
                    #{cpu := {refused, Reason}} ->
                        ct:log("refused: ~p", [Reason]),
                        0
                end,
            Monitor = monitor(process, Sampler),
            How = lists:nth(rand:uniform(2), [kill, shutdown]),
            true = exit(Sampler, How),
            receive
                {'DOWN', Monitor, process, Sampler, _} -> ok
            end,
            started_and_ended(Agent, EndMs, Starts + 1, Samples + Count)
    end.

%% Somebody could put another library there before it is loaded.
a_folder_that_others_can_change_is_left_alone(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "open"),
    ok = file:make_dir(Folder),
    ok = file:change_mode(Folder, 8#777),
    ok = file:change_time(Folder, {{2020, 1, 1}, {0, 0, 0}}),
    {_, Node} = Started = dyno_peers:start([]),
    true = erpc:call(Node, os, putenv, ["TMPDIR", Folder]),
    {ok, Agent} = attach(Node),
    Sampled = dyno_agent:start(Agent, dyno_agent_stacks, config(required)),
    ?assertMatch({ok, _}, Sampled),
    ?assertEqual({{2020, 1, 1}, {0, 0, 0}}, filelib:last_modified(Folder)),
    _ = dyno_agent:detach(Agent),
    dyno_peers:stop(Started).

on_node(Use, Do) -> on_node([], Use, Do).

on_node(Arguments, Use, Do) ->
    {_, Node} = Started = dyno_peers:start(Arguments),
    try
        bench_cases = dyno_peers:load_bench(Node, bench_cases),
        {ok, _} = erpc:call(Node, application, ensure_all_started, [crypto]),
        {ok, Agent} = attach(Node),
        {ok, Sampler} = dyno_agent:start(Agent, dyno_agent_stacks, config(Use)),
        Do(Node, Sampler, Agent),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peers:stop(Started)
    end.

attach(Node) -> dyno_agent:attach(Node, #{custom => [dyno_agent_cpu]}).

config(Use) when is_atom(Use) -> #{cpu => dyno_target_cpu:option(Use)};
config(Config) -> Config.

is_ours(Module) -> lists:prefix("dyno_agent", atom_to_list(Module)).

untouched() -> #{signal => default, timers => [], folders => [], library => []}.

%% What it may leave in a node.
traces(Node) ->
    {ok, Status} = erpc:call(Node, file, read_file, ["/proc/self/status"]),
    {ok, Maps} = erpc:call(Node, file, read_file, ["/proc/self/maps"]),
    Mask = fun(Name) ->
        {match, [Digits]} = re:run(Status, Name ++ ":\\s+([0-9a-f]+)", [{capture, [1], binary}]),
        %% SIGPROF is 27.
        (binary_to_integer(Digits, 16) bsr 26) band 1
    end,
    #{
        signal =>
            case {Mask("SigCgt"), Mask("SigIgn")} of
                {1, 0} -> caught;
                {0, 1} -> ignored;
                {0, 0} -> default
            end,
        timers => timers(Node),
        folders => [
            Folder
         || Parent <- [
                "/tmp", "/var/tmp", "/dev/shm", erpc:call(Node, os, getenv, ["TMPDIR", "/tmp"])
            ],
            Folder <- filelib:wildcard(Parent ++ "/dyno-*/dyno_cpu_nif*")
        ],
        library => [x || re:run(Maps, "dyno_cpu_nif") =/= nomatch]
    }.

timers(Node) ->
    {ok, Text} = erpc:call(Node, file, read_file, ["/proc/self/timers"]),
    [Line || <<"ID:", Line/binary>> <- binary:split(Text, ~"\n", [global])].

until(Is) ->
    case Is() of
        true ->
            ok;
        false ->
            timer:sleep(20),
            until(Is)
    end.

%% So many samples: a busy machine gives fewer in the same time.
sampled(Sampler, Least, LongestMs) ->
    timer:sleep(250),
    case dyno_agent_stack_parts:result(dyno_agent_instrument:read(Sampler)) of
        #{cpu := #{samples := Count}} = Result when Count >= Least; LongestMs =< 0 -> Result;
        _ -> sampled(Sampler, Least, LongestMs - 250)
    end.
