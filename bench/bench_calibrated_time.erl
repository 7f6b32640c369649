%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_calibrated_time).
-moduledoc false.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
-compile({no_auto_import, [round/1]}).

%% Agents attached, each with a calibration of its own, and the rounds that each is read after.
-define(AGENTS, #{full => 7, quick => 2}).
-define(ROUNDS, #{full => 60, quick => 5}).
%% Short rounds: most are not disturbed.
-define(ROUND_NS, 500_000).

describe() ->
    """
    Are own times true? Functions that take about 1, 15, 200 and 1,700 ns are called by 1, 2, 64 and
    1,024 processes and measured as dyno test measures them (call_time, with what measuring itself
    adds taken out). The true time is that of a twin function that is not measured, which the same
    processes call in the same rounds and time themselves. Both are times on the wall, and what else
    the machine does is in them, so rounds are short: an agent's error is the median of 60 rounds'
    differences, and what is reported here is the median of 7 agents, each with a calibration of its
    own. The figure is the greatest error, by what is allowed: 10 % or
    20 ns, whichever is more.
    """.

argument(none) -> {ok, none};
argument(Text) -> {error, ["there is no argument, and not ", Text]}.

measure(none, Effort) ->
    ok = dyno_agent_link:ensure_distribution(#{}),
    {ok, Peer, Node} = peer:start(#{
        name => peer:random_name(),
        connection => standard_io,
        args => ["-setcookie", atom_to_list(erlang:get_cookie()), "-pa" | code:get_path()]
    }),
    try
        bench_program:say("function  processes  true      reported  raw       error, of the allowed", []),
        Errors = [
            cell(Node, Ns, Processes, Effort)
         || Ns <- [1, 15, 200, 1700], Processes <- [1, 2, 64, 1024]
        ],
        #{
            name => "calibrated_time_error",
            value => lists:max(Errors),
            unit => "times",
            interval => none,
            goal => 1
        }
    after
        peer:stop(Peer)
    end.

cell(Node, Ns, Processes, Effort) ->
    Turns = erpc:call(Node, bench_known, turns, [Ns]),
    Pids = erpc:call(Node, bench_known, start, [Processes]),
    %% A process's calls take microseconds, which the runtime cuts times to.
    Least = max(5, 2000 div (Ns + 80)),
    Calls = max(Least, ?ROUND_NS div (Ns + 80) div Processes),
    Readings = [
        reading(Node, Turns, {Pids, Calls}, map_get(Effort, ?ROUNDS))
     || _ <- lists:seq(1, map_get(Effort, ?AGENTS))
    ],
    ok = erpc:call(Node, bench_known, stop, [Pids]),
    [True, Reported, Raw] = [
        dyno_stats:median([element(I, R) || R <- Readings])
     || I <- [1, 2, 3]
    ],
    Error = abs(Reported - True) / max(20, True / 10),
    bench_program:say("~5b ns  ~9b  ~8.1f  ~8.1f  ~8.1f  ~8.2f", [
        Ns, Processes, True, Reported, Raw, Error
    ]),
    Error.

reading(Node, Turns, Callers, Rounds) ->
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_counters, #{
        patterns => [{bench_known, known, 1}], measures => [call_time]
    }),
    Read = [round(Node, Counters, Turns, Callers) || _ <- lists:seq(1, Rounds)],
    ok = dyno_agent:detach(Agent),
    True = dyno_stats:median([T || {T, _, _} <- Read]),
    Error = dyno_stats:median([Own - T || {T, Own, _} <- Read]),
    {True, True + Error, dyno_stats:median([Raw || {_, _, Raw} <- Read])}.

round(Node, Counters, Turns, {Pids, Calls}) ->
    ok = dyno_agent_counters:restart(Counters),
    True = erpc:call(Node, bench_known, round, [Pids, Turns, Calls], infinity),
    Figures = dyno_agent_counters:read(Counters),
    #{functions := [#{own_time_ns := Own, raw_time_ns := Raw, calls := Counted}]} =
        dyno_test_inside:corrected(Figures),
    {True, Own / Counted, Raw / Counted}.
