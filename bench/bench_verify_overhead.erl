%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_verify_overhead).
-moduledoc false.
%% What `dyno verify` makes of a system: each instrumentation against the same load without one.
%% It is a monitor of its own: one that does nothing, and one that spins for 5 us an event.

-behaviour(bench_program).
-behaviour(dyno_agent_monitor).

-export([describe/0, argument/1, measure/2]).
-export([needs/0, init/1, event/3]).

describe() ->
    """
    What monitoring makes of a system's response time, memory, processor time and duration, as multiples of
    the same load in the same rounds without monitoring. The load is `dyno workload`; the argument says
    which: low, high, burst or many (few workers with many requests), with `+check` for the check of the
    trace and 5 us an event, such as `high+check`. Each run states what became of the traces. The result is
    the response time with the instrumentation `partition`.
    """.

argument(none) -> argument("low");
argument(Text) ->
    [Name | More] = string:split(Text, "+"),
    case {lists:keyfind(Name, 1, loads()), More} of
        {{Name, Load}, []} -> {ok, {Load, none}};
        {{Name, Load}, ["check"]} -> {ok, {Load, check}};
        _ -> {error, "the loads are low, high, burst and many, and these with +check"}
    end.

loads() ->
    [
        {"low", #{shape => steady, workers => 2500, requests => 100}},
        {"high", #{shape => steady, workers => 10_000, requests => 100}},
        {"burst", #{shape => burst, workers => 10_000, requests => 100}},
        {"many", #{shape => steady, workers => 250, requests => 10_000}}
    ].

measure({Load, Check}, Effort) ->
    {Rounds, Run} =
        case Effort of
            full -> {5, Load};
            quick -> {1, Load#{time_ms => 2000, workers := map_get(workers, Load) div 5}}
        end,
    Monitors =
        case Check of
            none -> [?MODULE];
            check -> [dyno_agent_workload_monitor, ?MODULE]
        end,
    ok = persistent_term:put(?MODULE, Check),
    Ways = [none | ways()],
    Results = [
        {Way, run(Way, Run#{seed => Round}, Monitors)}
     || Round <- lists:seq(1, Rounds), Way <- in_turn(Round, Ways)
    ],
    Of = fun(Way, Key) -> median([map_get(Key, R) || {W, R} <- Results, W =:= Way]) end,
    lists:foreach(
        fun(Way) ->
            bench_program:say(
                "~-18ts response ~6.2fx  cpu ~5.2fx  peak memory ~5.2fx  duration ~5.2fx",
                [name(Way) | [Of(Way, Key) / Of(none, Key) || Key <- keys()]]
            )
        end,
        ways()
    ),
    #{
        name => "verify_overhead",
        value => Of(partition, response) / Of(none, response),
        unit => "x",
        interval => none,
        goal =>
            case Check of
                none -> 4.0;
                check -> 6.0
            end
    }.

keys() -> [response, cpu, memory, duration].

%% The default, the same with one shard, and what they are compared with.
ways() -> [partition, {partition, 1}, riarc].

in_turn(Round, Ways) ->
    {Before, After} = lists:split(Round rem length(Ways), Ways),
    After ++ Before.

name({Way, Shards}) -> io_lib:format("~ts, ~b shard", [Way, Shards]);
name(Way) -> atom_to_binary(Way).

median(Values) ->
    lists:nth((length(Values) + 1) div 2, lists:sort(Values)).

run(none, Load, _Monitors) ->
    loaded(none, Load, fun() -> ok end);
run({Way, Shards} = As, Load, Monitors) ->
    verified(As, Way, #{shards => Shards}, Load, Monitors);
run(Way, Load, Monitors) ->
    verified(Way, Way, #{}, Load, Monitors).

verified(As, Way, Config, Load, Monitors) ->
    {Verifier, Own} = dyno_verify_instrumentation:find(Way),
    {ok, Agent} = dyno_agent:attach(node(), #{modules => []}),
    {ok, Pid} = dyno_agent:start(
        Agent, Verifier, maps:merge(maps:merge(#{monitors => Monitors, sink => self()}, Config), Own)
    ),
    Result = loaded(As, Load, fun() ->
        #{verdicts := Verdicts} = Verifier:finish(Pid),
        bench_program:say("~-18ts ~0tp", [name(As), maps:without([monitors], Verdicts)]),
        [
            bench_program:say("  ~ts: ~0tp", [Module, Counts])
         || Module := Counts <- map_get(monitors, Verdicts)
        ]
    end),
    ok = dyno_agent:detach(Agent),
    Result.

%% The processor time includes what is left to do when the load is over; so does the duration.
loaded(Way, Load, Finish) ->
    erlang:garbage_collect(),
    Start = erlang:monotonic_time(nanosecond),
    {Before, _} = erlang:statistics(runtime),
    #{responses := Responses, memory_peak := Memory} = dyno_workload:once(Load),
    _ = Finish(),
    {After, _} = erlang:statistics(runtime),
    Result = #{
        response => dyno_histogram:mean(Responses),
        memory => Memory,
        cpu => After - Before,
        duration => erlang:monotonic_time(nanosecond) - Start
    },
    bench_program:say("~-18ts response ~ts ms, cpu ~b ms, peak ~b MB, ~ts s", [
        name(Way), bench_program:number(map_get(response, Result) / 1.0e6), map_get(cpu, Result),
        Memory div 1_000_000, bench_program:number(map_get(duration, Result) / 1.0e9)
    ]),
    Result.

%% The monitor that costs nothing, or 5 us an event.

needs() ->
    #{select => [{module, dyno_workload_worker}], events => [send, 'receive', exit]}.

init(_Process) -> persistent_term:get(?MODULE).

event(_Event, _TimeNs, none) ->
    {next, none};
event(_Event, _TimeNs, check) ->
    ok = until(erlang:monotonic_time(nanosecond) + 5000),
    {next, check}.

until(End) ->
    case erlang:monotonic_time(nanosecond) >= End of
        true -> ok;
        false -> until(End)
    end.
