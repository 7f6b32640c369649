%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_verify).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% In the emulator of a run.
-export([once/2, needs/0, init/1, event/3, ended/1]).

-behaviour(dyno_agent_monitor).

-define(WAYS, [baseline, partition, centralised, riarc, inline]).
-define(GOAL, 4.0).
-define(ROUNDS, 3).
-define(MOST_MS, 380_000).
-compile({no_auto_import, [round/1]}).

describe() ->
    "Response time, CPU time, memory and duration of a synthetic system under each instrumentation,\n"
    "over those of the same system without monitors. Argument: steady2500, steady10000, burst10000 or\n"
    "messages250, with the suffix +5us for monitors that take 5 us an event. The median of three rounds,\n"
    "or of as many as there is time for in six minutes.".

argument(none) -> argument("steady2500");
argument(Text) ->
    {Load, Work} =
        case string:split(Text, "+") of
            [Only] -> {Only, 0};
            [Before, "5us"] -> {Before, 5000};
            _ -> {Text, 0}
        end,
    Loads = #{
        "steady2500" => #{workers => 2500},
        "steady10000" => #{workers => 10_000},
        "burst10000" => #{workers => 10_000, shape => burst},
        "messages250" => #{workers => 250, requests => 10_000}
    },
    case Loads of
        #{Load := Options} -> {ok, {Options, Work}};
        #{} -> {error, ["no such load: ", Text]}
    end.

measure({Options, Work}, Effort) ->
    Results =
        case Effort of
            full -> rounds(Options, Work, 1, erlang:monotonic_time(millisecond));
            quick -> round(Options#{workers => 100, requests => 20, time_ms => 300}, Work)
        end,
    bench_program:say("rounds    ~b", [length(Results) div length(?WAYS)]),
    Of = fun(Way, Key) ->
        dyno_stats:median([map_get(Key, Result) || {W, Result} <- Results, W =:= Way])
    end,
    lists:foreach(
        fun(Way) ->
            bench_program:say("~-12s ~s; checked ~b whole, ~b broken, ~b cut", [
                Way,
                lists:join(", ", [
                    io_lib:format("~s ~.3g (~.2fx)", [
                        Title, Of(Way, Key) / Unit, Of(Way, Key) / max(1, Of(baseline, Key))
                    ])
                 || {Title, Key, Unit} <- [
                        {"response us", response, 1.0e3}, {"cpu s", cpu, 1.0e3},
                        {"peak MB", peak, 1.0e6}, {"run s", duration, 1.0e9}
                    ]
                ]),
                trunc(Of(Way, yes)),
                trunc(Of(Way, no)),
                trunc(Of(Way, gap))
            ])
        end,
        ?WAYS
    ),
    #{
        name => "response_time_under_partition",
        value => Of(partition, response) / Of(baseline, response),
        unit => "times",
        goal => ?GOAL
    }.

%% Three, or as many as there is time for; at least one.
rounds(Load, Work, Number, Begun) ->
    Results = round(Load, Work),
    TookMs = erlang:monotonic_time(millisecond) - Begun,
    case Number < ?ROUNDS andalso TookMs * (Number + 1) div Number < ?MOST_MS of
        true -> Results ++ rounds(Load, Work, Number + 1, Begun);
        false -> Results
    end.

round(Load, Work) -> [{Way, in_emulator(Way, Load, Work)} || Way <- ?WAYS].

in_emulator(Way, Load, Work) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io,
        args => ["+sbwt", "none" | lists:append([["-pa", P] || P <- dyno_code:own_paths()])]
    }),
    Result = peer:call(Peer, ?MODULE, once, [Way, {Load, Work}], 300_000),
    ok = peer:stop(Peer),
    Result.

once(Way, {Load, Work}) ->
    persistent_term:put(?MODULE, Work),
    Stop = started(Way),
    {_, _} = erlang:statistics(runtime),
    #{responses := Responses, memory_peak := Peak, duration_ns := Duration} =
        dyno_workload:once(Load),
    Verdicts = Stop(),
    {_, Cpu} = erlang:statistics(runtime),
    Verdicts#{
        response => dyno_histogram:mean(Responses), peak => Peak, duration => Duration, cpu => Cpu
    }.

started(baseline) ->
    fun() -> #{yes => 0, no => 0, gap => 0} end;
started(Way) ->
    Way =:= inline andalso weave(),
    {Way, Config} = lists:keyfind(Way, 1, dyno_verify_target:instrumentations()),
    {ok, Pid} = dyno_agent_verifier:start_link(Config#{monitors => [?MODULE], sink => self()}),
    fun() ->
        timer:sleep(100),
        #{verdicts := #{monitors := #{?MODULE := Of}, gap := Gap, cut := Cut}} =
            dyno_agent_verifier:finish(Pid),
        (maps:with([yes, no], Of))#{gap => Gap + Cut}
    end.

weave() ->
    lists:foreach(
        fun(Module) ->
            Source = proplists:get_value(source, Module:module_info(compile)),
            {ok, Module, Beam} = compile:file(Source, [binary, {parse_transform, dyno_inline}]),
            _ = code:delete(Module),
            _ = code:purge(Module),
            {module, Module} = code:load_binary(Module, Source, Beam)
        end,
        [dyno_workload_master, dyno_workload_worker]
    ),
    true.

%% The monitor: the worker's numbers are complete and in order, and some work more.

needs() -> dyno_agent_workload_monitor:needs().

init(Process) -> dyno_agent_workload_monitor:init(Process).

event(Event, TimeNs, State) ->
    case persistent_term:get(?MODULE) of
        0 -> ok;
        Ns -> spin(erlang:monotonic_time(nanosecond) + Ns)
    end,
    dyno_agent_workload_monitor:event(Event, TimeNs, State).

ended(_State) -> none.

spin(Until) ->
    case erlang:monotonic_time(nanosecond) < Until of
        true -> spin(Until);
        false -> ok
    end.
