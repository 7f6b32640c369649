%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sample_SUITE).
-moduledoc "How many measured calls functions make, and what these cost is taken out.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% On a busy machine one of these must be right.
-define(ATTEMPTS, 30).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        credits_who_goes_on,
        a_chain_of_tail_calls_is_one,
        returns_to_what_is_not_measured,
        exceptions_pass_several,
        per_call_by_the_sample,
        rarely_called_by_all,
        only_where_times_are_measured,
        counts_real_calls,
        overhead_of_calls_is_not_the_caller_s,
        ends_when_it_has_enough,
        new_code_counts_after_it,
        ends_with_its_owner
    ].

init_per_suite(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    bench_known = dyno_peers:load_bench(Node, bench_known),
    [{peer, Peer}, {node, Node} | Config].

end_per_suite(Config) ->
    dyno_peers:stop(proplists:get_value(peer, Config)),
    Config.

%% The pure part. Functions are written by their names.

counted(Events) ->
    Stacks = lists:foldl(
        fun
            ({call, F, Caller}, Acc) ->
                dyno_agent_call_sample:called(self(), mfa(F), mfa(Caller), Acc);
            ({return_to, F}, Acc) ->
                dyno_agent_call_sample:returned(self(), mfa(F), Acc)
        end,
        dyno_agent_call_sample:new(),
        Events
    ),
    #{F => Both || {m, F, 0} := Both <- dyno_agent_call_sample:counted(Stacks)}.

mfa(undefined) -> undefined;
mfa(Name) -> {m, Name, 0}.

credits_who_goes_on(_Config) ->
    F = [{call, f, g}, {return_to, g}],
    ?assertEqual(
        #{g => {1, 3}, f => {3, 0}},
        counted([{call, g, undefined}] ++ F ++ F ++ F ++ [{return_to, undefined}])
    ),
    %% A function that was called before sampling began.
    ?assertEqual(#{g => {0, 1}, f => {1, 0}}, counted(F)).

%% g calls a, which ends with a call of b, which ends with one of c: it is called by g all the same.
a_chain_of_tail_calls_is_one(_Config) ->
    Chain = [{call, a, g}, {call, b, g}, {call, c, g}, {return_to, g}],
    ?assertEqual(
        #{g => {1, 2}, a => {2, 2}, b => {2, 2}, c => {2, 0}},
        counted([{call, g, undefined}] ++ Chain ++ Chain)
    ),
    %% The one that has taken another's place makes the calls.
    ?assertEqual(
        #{a => {1, 1}, b => {1, 1}, f => {1, 0}},
        counted([{call, a, x}, {call, b, x}, {call, f, b}, {return_to, b}])
    ).

%% lists:map/2 calls f for g.
returns_to_what_is_not_measured(_Config) ->
    F = [{call, f, map}, {return_to, map}],
    ?assertEqual(
        #{g => {1, 3}, f => {2, 0}, h => {1, 0}},
        counted([{call, g, undefined}] ++ F ++ F ++ [{call, h, g}, {return_to, g}])
    ).

%% f, which h has called, throws to g.
exceptions_pass_several(_Config) ->
    Before = [{call, g, undefined}, {call, h, g}, {call, f, h}, {return_to, g}],
    ?assertEqual(
        #{g => {1, 2}, h => {1, 0}, f => {2, 0}},
        counted(Before ++ [{call, f, g}, {return_to, g}])
    ),
    %% It was caught in what is not measured, which has called g.
    Caught = [{call, g, x}, {call, h, g}, {call, f, h}, {return_to, x}],
    ?assertMatch(#{h := {1, 0}, g := {1, 0}}, counted(Caught)).

per_call_by_the_sample(_Config) ->
    Functions = [#{mfa => mfa(F), calls => Calls} || {F, Calls} <- [{g, 1000}, {f, 5000}]],
    Sample = #{mfa(g) => {20, 100}, mfa(f) => {100, 0}, mfa(other) => {7, 7}},
    ?assertEqual(#{mfa(g) => 5.0}, dyno_agent_call_overhead:per_call(Functions, Sample)),
    ?assertEqual(#{}, dyno_agent_call_overhead:per_call(Functions, #{})).

%% A loop that is called once: of all calls it is taken to make as many as of those that were seen.
rarely_called_by_all(_Config) ->
    Functions = [#{mfa => mfa(F), calls => Calls} || {F, Calls} <- [{g, 2}, {f, 5000}, {h, 0}]],
    Sample = #{mfa(g) => {0, 100}, mfa(f) => {100, 0}, mfa(h) => {1, 1}},
    #{{m, g, 0} := Each} = Made = dyno_agent_call_overhead:per_call(Functions, Sample),
    ?assertEqual(1, map_size(Made)),
    ?assert(abs(Each - 5002 / 101 * 100 / 2) < 0.001).

only_where_times_are_measured(_Config) ->
    none = dyno_agent_call_sample:open([], [call_count], [], 20_000),
    ?assertEqual(#{}, dyno_agent_call_sample:sample(none)),
    ?assertEqual(ok, dyno_agent_call_sample:close(none)).

%% In this node, of real calls.
counts_real_calls(_Config) ->
    {module, _} = code:ensure_loaded(dyno_callers),
    Functions = [{dyno_callers, F, 1} || F <- [loops, leaf, maps, fails]],
    Sampler = dyno_agent_call_sample:open(Functions, [call_time], [], 20_000),
    Self = self(),
    spawn_link(fun() ->
        ok = dyno_callers:loops(5),
        7 = dyno_callers:maps(7),
        ?assertError({badmatch, _}, dyno_callers:fails(3)),
        ok = dyno_callers:loops(2),
        Self ! done
    end),
    receive
        done -> ok
    end,
    Sample = dyno_agent_call_sample:sample(Sampler),
    ?assertEqual({2, 7}, map_get({dyno_callers, loops, 1}, Sample)),
    ?assertEqual({1, 7}, map_get({dyno_callers, maps, 1}, Sample)),
    ?assertEqual({1, 1}, map_get({dyno_callers, fails, 1}, Sample)),
    ?assertEqual({15, 0}, map_get({dyno_callers, leaf, 1}, Sample)),
    %% It was taken once.
    dyno_callers:loops(5),
    ?assertEqual(Sample, dyno_agent_call_sample:sample(Sampler)),
    ok = dyno_agent_call_sample:close(Sampler).

%% 1,700 ns and ten measured calls, which cost some 35 ns each in the time of who makes them.
overhead_of_calls_is_not_the_caller_s(Config) ->
    Node = proplists:get_value(node, Config),
    Work = {erpc:call(Node, bench_known, turns, [1700]), 10},
    [Pid] = Pids = erpc:call(Node, bench_known, start, [1]),
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => [{bench_known, known, 1}, {bench_known, made, 0}], measures => [call_time]
    }),
    _ = erpc:call(Node, bench_known, round, [Pids, Work, 50]),
    Rounds = [round(Node, Counters, Pid, Work) || _ <- lists:seq(1, ?ATTEMPTS)],
    _ = dyno_agent:detach(Agent),
    ok = erpc:call(Node, bench_known, stop, [Pids]),
    ct:pal("true, reported, with what the calls cost, off by: ~p", [Rounds]),
    ?assert(
        lists:any(fun({True, Own, _, Off}) -> abs(Own - True) =< True / 10 + Off end, Rounds)
    ),
    %% It would be too much, were that not taken out.
    Median = fun(I) -> dyno_stats:median([element(I, R) || R <- Rounds]) end,
    ?assert(Median(3) > Median(2)).

round(Node, Counters, Pid, Work) ->
    ok = dyno_agent_instrument:restart(Counters),
    True = erpc:call(Node, bench_known, round, [[Pid], Work, 50]),
    #{functions := Functions} = dyno_counted:read(Counters),
    %% What measuring a call costs is less certain on a busy machine, and told as such.
    [#{own_time_ns := Own, raw_time_ns := Raw, uncertain_ns := Off, calls := 50}] =
        [F || #{mfa := {_, known, _}} = F <- Functions],
    [#{overhead_ns := Leaf}] = [F || #{mfa := {_, made, _}} = F <- Functions],
    %% Less is left of both where other programs take the processor.
    {True, Own / 50, Raw / 50 - min(Leaf, (Raw - Own) / 50 / 2), Off / 50}.

%% It never follows more than it needs, nor for longer.
ends_when_it_has_enough(_Config) ->
    Sessions = length(trace:session_info(all)),
    {module, _} = code:ensure_loaded(dyno_callers),
    Functions = [{dyno_callers, loops, 1}, {dyno_callers, leaf, 1}],
    Sampler = dyno_agent_call_sample:open(Functions, [call_time], [], 20_000),
    ?assertEqual(Sessions + 1, length(trace:session_info(all))),
    Pid = spawn_link(fun Forever() ->
        dyno_callers:loops(100),
        Forever()
    end),
    dyno_suites:await(fun() -> not is_traced(Pid) end),
    %% It takes the processes' flags away first, then the breakpoints, and only then it answers.
    #{{dyno_callers, leaf, 1} := {Calls, 0}} = dyno_agent_call_sample:sample(Sampler),
    ?assertEqual([], trace:session_info({dyno_callers, leaf, 1})),
    unlink(Pid),
    exit(Pid, kill),
    ?assert(Calls > 5000 andalso Calls =< 10_000, Calls),
    ok = dyno_agent_call_sample:close(Sampler),
    ?assertEqual(Sessions, length(trace:session_info(all))).

is_traced(Pid) -> trace:session_info(Pid) =/= [].

ends_with_its_owner(_Config) ->
    Self = self(),
    Sessions = length(trace:session_info(all)),
    {Owner, Ref} = spawn_monitor(fun() ->
        Self ! {self(), dyno_agent_call_sample:open([], [call_time], [], 20_000)},
        receive
            stop -> ok
        end
    end),
    Sampler =
        receive
            {Owner, Pid} -> Pid
        end,
    exit(Owner, kill),
    receive
        {'DOWN', Ref, process, Owner, killed} -> ok
    end,
    dyno_suites:await(fun() ->
        not is_process_alive(Sampler) andalso length(trace:session_info(all)) =:= Sessions
    end).

%% In OTP 27 a session that is destroyed takes breakpoints of others with it.
new_code_counts_after_it(Config) ->
    Node = proplists:get_value(node, Config),
    {dyno_callers, Binary, File} = code:get_object_code(dyno_callers),
    {module, _} = erpc:call(Node, code, load_binary, [dyno_callers, File, Binary]),
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => [{dyno_callers, leaf, 1}], measures => [call_time]
    }),
    ok = dyno_agent_instrument:restart(Counters),
    _ = erpc:call(Node, code, purge, [dyno_callers]),
    {module, _} = erpc:call(Node, code, load_binary, [dyno_callers, File, Binary]),
    ok = erpc:call(Node, dyno_callers, loops, [5]),
    ?assertMatch(
        #{functions := [#{calls := 5}]},
        dyno_counted:read(Counters)
    ),
    _ = dyno_agent:detach(Agent).
