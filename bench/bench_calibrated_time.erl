%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_calibrated_time).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
-compile({no_auto_import, [round/1]}).

%% Readings of each cell, each by an agent with a calibration of its own, and a reading's rounds.
-define(READINGS, #{full => 15, quick => 2}).
-define(ROUNDS, #{full => 40, quick => 5}).
%% Short rounds: most are not disturbed. But each process's calls must take some microseconds, which
%% the runtime cuts times to.
-define(ROUND_NS, 500_000).
-define(PROCESS_NS, 30_000).

%% Calls of each process in a round, where they are asked for, and the measured calls in each of
%% them.
-type cell() :: {
    Ns :: pos_integer(),
    Processes :: pos_integer(),
    Calls :: pos_integer() | any,
    Made :: non_neg_integer()
}.

describe() ->
    """
    Are own times true? Functions that take about 1, 15, 200 and 1,700 ns are called by 1, 2, 64 and
    1,024 processes and measured as dyno test measures them (call_time, with what measuring itself
    adds taken out). The true time is that of a twin function that is not measured, which the same
    processes call in the same rounds and time themselves. Both are times on the wall, and what else
    the machine does is in them, so rounds are short: an agent's error is the median of 40 rounds'
    differences. Each cell is read by 15 agents, each with a calibration of its own, one cell after
    the other and then all again, for the machine has good and bad minutes. An error is given by what
    is allowed: 10 % or 20 ns, whichever is more; the result is the greatest of the cells' medians.

    Each process calls for at least 30 us in a round. The runtime cuts a process's time in a function
    to whole microseconds: of a function that a process calls for two of them and then ends, times
    are less sure, and dyno says by how much.

    Argument: NSxPROCESSES for one cell, NSxPROCESSESxCALLS to have each process call so often;
    +MADE after either for a function that calls another measured one so often itself.
    """.

-spec argument(none | string()) -> {ok, [cell()]} | {error, unicode:chardata()}.
argument(none) ->
    {ok, [{Ns, Processes, any, 0} || Ns <- [1, 15, 200, 1700], Processes <- [1, 2, 64, 1024]]};
argument(Text) ->
    {Cell, Made} =
        case string:split(Text, "+") of
            [Alone] -> {Alone, "0"};
            [Before, After] -> {Before, After}
        end,
    Words = string:split(Cell, "x", all) ++ [Made],
    Numbers = [N || Word <- Words, {N, ""} <- [string:to_integer(Word)], N >= 0],
    case {length(Words) - length(Numbers), Numbers} of
        {0, [Ns, Processes, Each]} -> {ok, [{Ns, max(1, Processes), any, Each}]};
        {0, [Ns, Processes, Calls, Each]} -> {ok, [{Ns, max(1, Processes), max(1, Calls), Each}]};
        _ -> {error, ["give NSxPROCESSES, such as 200x64, or nothing for all; not ", Text]}
    end.

measure(Cells, Effort) ->
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    try
        Readings = [
            {Cell, reading(Node, Cell, map_get(Effort, ?ROUNDS))}
         || _ <- lists:seq(1, map_get(Effort, ?READINGS)), Cell <- Cells
        ],
        bench_program:say(
            "                     ns a call           error, of what is allowed~n"
            "function  processes  true      reported  median  interval       said    raw",
            []
        ),
        Errors = [cell(Cell, [R || {C, R} <- Readings, C =:= Cell]) || Cell <- Cells],
        {Value, Interval} = lists:last(lists:sort(Errors)),
        #{
            name => "calibrated_time_error",
            value => Value,
            unit => "times",
            interval => Interval,
            goal => 1
        }
    after
        dyno_peer:stop(Node)
    end.

%% How far from nothing: of both signs.
cell({Ns, Processes, _, _}, Readings) ->
    [True, Reported, Raw, Said] = [
        dyno_stats:median([map_get(Key, R) || R <- Readings])
     || Key <- [true_ns, reported_ns, raw_ns, said]
    ],
    {Median, Interval} = bench_program:median([map_get(error, R) || R <- Readings]),
    Text =
        case Interval of
            none -> "too few";
            {From, To, _} -> io_lib:format("~5.2f to ~5.2f", [From, To])
        end,
    bench_program:say("~5b ns  ~9b  ~8.1f  ~8.1f  ~6.2f  ~-14ts ~5.2f  ~6.1f", [
        Ns, Processes, True, Reported, Median, Text, Said, Raw
    ]),
    {abs(Median), distance(Interval)}.

distance(none) -> none;
distance({Low, High, Level}) when Low =< 0, High >= 0 -> {0.0, max(-Low, High), Level};
distance({Low, High, Level}) -> {min(abs(Low), abs(High)), max(abs(Low), abs(High)), Level}.

reading(Node, {Ns, Processes, Given, Made}, Rounds) ->
    Turns =
        case {erpc:call(Node, bench_known, turns, [Ns]), Made} of
            {Alone, 0} -> Alone;
            Both -> Both
        end,
    Pids = erpc:call(Node, bench_known, start, [Processes]),
    Calls =
        case Given of
            any -> max(?PROCESS_NS, ?ROUND_NS div Processes) div (Ns + 80 * (1 + Made));
            _ -> Given
        end,
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    {ok, Counters} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => [{bench_known, known, 1} | [{bench_known, made, 0} || Made > 0]],
        measures => [call_time]
    }),
    %% As a warm-up: what the function calls is seen then.
    _ = erpc:call(Node, bench_known, round, [Pids, Turns, Calls], infinity),
    Read = [round(Node, Counters, Turns, {Pids, Calls}) || _ <- lists:seq(1, Rounds)],
    _ = dyno_agent:detach(Agent),
    ok = erpc:call(Node, bench_known, stop, [Pids]),
    [True, Off, Raw, Said] = [
        dyno_stats:median([element(N, R) || R <- Read])
     || N <- [1, 2, 3, 4]
    ],
    Allowed = max(20, True / 10),
    #{
        true_ns => True,
        reported_ns => True + Off,
        raw_ns => Raw,
        error => Off / Allowed,
        %% What dyno says that its time may be off by.
        said => Said / Allowed
    }.

round(Node, Counters, Turns, {Pids, Calls}) ->
    ok = dyno_agent_instrument:restart(Counters),
    True = erpc:call(Node, bench_known, round, [Pids, Turns, Calls], infinity),
    #{functions := Functions} = dyno_agent_call_parts:result(dyno_agent_instrument:read(Counters)),
    [Function] = [F || #{mfa := {_, known, _}} = F <- Functions],
    #{own_time_ns := Own, raw_time_ns := Raw, calls := Counted} = Function,
    {True, Own / Counted - True, Raw / Counted, map_get(uncertain_ns, Function) / Counted}.
