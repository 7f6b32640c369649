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
%% Short rounds: some are not disturbed.
-define(ROUND_NS, 500_000).
%% Which of them: what is quieter is luck.
-define(QUIET, 0.1).

describe() ->
    """
    Are own times true? Functions that take about 1, 15, 200 and 1,700 ns are called by 1, 2, 64 and
    1,024 processes and measured as dyno test measures them (call_time, with what measuring itself
    adds taken out). Own times are times on the wall, so what else the machine does is in them:
    rounds are short, and of each agent's 60 the quietest tenth counts; each reported time is the
    median of 7 agents, each with a calibration of its own. The true time is that of a twin function
    that is not measured, called by turns with it and by as many processes at once as run at once,
    of the same rounds. The figure is the greatest error, by what is allowed: 10 % or
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

%% What is true is measured by turns with what is reported, with as many processes at once as run at
%% once then: two on one core take longer each, and the machine's speed changes by the second.
reading(Node, Turns, {Pids, Calls} = Callers, Rounds) ->
    AtOnce = min(length(Pids), erpc:call(Node, erlang, system_info, [schedulers_online])),
    Many = Calls * length(Pids) div AtOnce,
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_counters, #{
        patterns => [{bench_known, known, 1}], measures => [call_time]
    }),
    Read = [
        {erpc:call(Node, bench_known, twin_ns, [Turns, Many, AtOnce]),
            round(Node, Counters, Turns, Callers)}
     || _ <- lists:seq(1, Rounds)
    ],
    ok = dyno_agent:detach(Agent),
    {True, Reported} = lists:unzip(Read),
    {Own, Raw} = quiet(Reported),
    {quiet(True), Own, Raw}.

quiet(Values) ->
    lists:nth(1 + floor(?QUIET * (length(Values) - 1)), lists:sort(Values)).

round(Node, Counters, Turns, {Pids, Calls}) ->
    ok = dyno_agent_counters:restart(Counters),
    ok = erpc:call(Node, bench_known, round, [Pids, Turns, Calls], infinity),
    Figures = dyno_agent_counters:read(Counters),
    #{functions := [#{own_time_ns := Own, raw_time_ns := Raw, calls := Counted}]} =
        dyno_test_inside:corrected(Figures),
    {Own / Counted, Raw / Counted}.
