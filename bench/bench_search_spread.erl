%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_search_spread).
-moduledoc false.
%% Whether a search gives the same answer twice: of a server whose limit is known, and of work that
%% takes the processors.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
-export([init_worker/2, operation/1]).

%% What the server can do in a second.
-define(LIMIT, 2000).

describe() ->
    """
    The highest rate that ten searches find for a server that can do 2,000 operations a second, by
    the clock and whatever the machine does: the highest answer by the lowest. With the argument
    `loops`, beside two programs that take what the processors have. With the argument `work`, of
    operations that take the processors, and memory, with the workers that a load has by default.
    """.

argument(none) -> {ok, {turns, 0}};
argument("loops") -> {ok, {turns, 2}};
argument("work") -> {ok, {work, 0}};
argument(_) -> {error, "the argument is loops or work"}.

measure({Operation, Count}, Effort) ->
    Loops = [loop() || _ <- lists:seq(1, Count)],
    Found = [search(Operation) || _ <- lists:seq(1, searches(Operation, Effort))],
    lists:foreach(fun(Pid) -> os:cmd("kill " ++ integer_to_list(Pid)) end, Loops),
    Rates = lists:sort([Rate || #{rate_per_s := Rate} <- Found]),
    bench_program:say("found ~w", [Rates]),
    [
        bench_program:say("median ~.3f of the limit", [
            element(1, bench_program:median([Rate / ?LIMIT || Rate <- Rates]))
        ])
     || Operation =:= turns
    ],
    Spread = lists:last(Rates) / max(1, hd(Rates)),
    #{name => "search_spread", value => Spread, unit => "ratio", goal => 1.3}.

searches(turns, full) -> 10;
searches(work, full) -> 5;
searches(_, quick) -> 1.

%% Ends by itself, too.
loop() ->
    Port = open_port({spawn_executable, os:find_executable("timeout")}, [
        {args, ["900", os:find_executable("sh"), "-c", "while :; do :; done"]}
    ]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    Pid.

search(Operation) ->
    Objective = #{model => search, objective => "latency.p99 < 20 ms"},
    {ok, Load} = dyno_load_spec:read(maps:merge(Objective, load(Operation)), 1),
    Next = atomics:new(1, [{signed, true}]),
    ok = atomics:put(Next, 1, erlang:monotonic_time(nanosecond)),
    {ok, Pid} = dyno_load:start_link(#{
        sink => self(),
        module => ?MODULE,
        run_state => {Operation, Next},
        load => Load,
        duration_ms => 1000,
        warmup_ms => 0,
        interval_ms => 1000,
        timeout_ms => 5000
    }),
    #{search := Found} = bench_load:ended(Pid),
    ok = dyno_load_source:stop(Pid),
    Found.

load(turns) -> #{from_per_s => 100, to_per_s => 100_000, probe_ms => 300, workers => 100};
load(work) -> #{}.

init_worker(_Id, State) -> {ok, State}.

operation({work, _} = State) ->
    _ = lists:sum([math:sqrt(N) || N <- lists:seq(1, 10_000)]),
    {ok, State};
%% Each operation takes its turn; who comes before it waits.
operation({turns, Next} = State) ->
    Now = erlang:monotonic_time(nanosecond),
    case turn(Next, Now) - Now of
        WaitNs when WaitNs > 1_000_000 ->
            receive
            after WaitNs div 1_000_000 -> {ok, State}
            end;
        _ ->
            {ok, State}
    end.

%% Turns of the last 10 ms that nobody took are not lost: it was not the server who was late.
turn(Next, Now) ->
    Before = atomics:get(Next, 1),
    Turn = max(Before, Now - 10_000_000),
    case atomics:compare_exchange(Next, 1, Before, Turn + 1_000_000_000 div ?LIMIT) of
        ok -> Turn;
        _ -> turn(Next, Now)
    end.
