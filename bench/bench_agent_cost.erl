%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_agent_cost).

-behaviour(bench_program).

-export([describe/0, measure/2]).

-define(LEVEL, time).
-define(PATTERN, {bench_calls, leaf, 1}).
%% No sample comes while memory is measured.
-define(NO_SAMPLE_MS, 3_600_000).
-define(SAMPLE_MS, 10).

describe() ->
    """
    What dyno's agent costs a node: how long attaching and detaching take (nothing traced), what one
    sample of the VM and the operating system costs, how much code is sent, and how much memory
    code, processes and tables take with counters, discovery and sampler at work. The result is the
    time of attaching and detaching together.
    """.

measure(none, Effort) ->
    #{rounds := Rounds, samples := Samples} = settings(Effort),
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    %% The pattern must name something that is loaded.
    {module, _} = erpc:call(Node, code, ensure_loaded, [bench_calls]),
    Times = [attach_and_detach(Node) || _ <- lists:seq(0, Rounds)],
    %% The first also loads what OTP itself needs for it.
    [{FirstAttach, FirstDetach} | Later] = [{ms(A), ms(D)} || {A, D} <- Times],
    {Attach, Detach} = lists:unzip(Later),
    memory(Node),
    samples(Node, Samples),
    ok = dyno_peer:stop(Node),
    bench_program:say("rounds    ~b; attach ~ts ms, detach ~ts ms; the first ~ts and ~ts ms", [
        Rounds
        | [
            bench_program:number(Ms)
         || Ms <- [dyno_stats:median(Attach), dyno_stats:median(Detach), FirstAttach, FirstDetach]
        ]
    ]),
    {Value, Interval} = bench_program:median([A + D || {A, D} <- Later]),
    #{name => "agent_cost", value => Value, unit => "ms", interval => Interval}.

settings(full) -> #{rounds => 30, samples => 200};
settings(quick) -> #{rounds => 6, samples => 20}.

attach_and_detach(Node) ->
    Start = erlang:monotonic_time(),
    {ok, Agent} = dyno_agent:attach(Node, #{}),
    Attached = erlang:monotonic_time(),
    _ = dyno_agent:detach(Agent),
    {Attached - Start, erlang:monotonic_time() - Attached}.

ms(Native) ->
    erlang:convert_time_unit(Native, native, nanosecond) / 1.0e6.

memory(Node) ->
    Sent = lists:sum([
        byte_size(Chunk)
     || {_, Code, _} <- dyno_code:objects(dyno_agent:modules()),
        {ok, _, Chunks} <- [beam_lib:all_chunks(Code)],
        {Id, Chunk} <- Chunks,
        %% These are left here (dyno_code).
        not lists:member(Id, ["Dbgi", "Docs"])
    ]),
    %% OTP's own modules that are loaded for it stay in the node: they are not counted.
    ok = bench_program:detach(attach(Node, ?NO_SAMPLE_MS)),
    Before = memory_of_code(Node),
    Targets = attach(Node, ?NO_SAMPLE_MS),
    Code = memory_of_code(Node) - Before,
    [#{agent := Agent}] = Targets,
    {Processes, Tables} = erpc:call(Node, bench_agent_memory, of_agent, [dyno_agent:guard(Agent)]),
    ok = bench_program:detach(Targets),
    Left = memory_of_code(Node) - Before,
    bench_program:say("code      ~b kB sent, ~b kB in the node, ~b kB after detaching", [
        kb(B)
     || B <- [Sent, Code, Left]
    ]),
    bench_program:say("memory    processes ~b kB, tables ~b kB", [kb(Processes), kb(Tables)]).

attach(Node, IntervalMs) ->
    {ok, Targets} = dyno_targets:attach([Node], #{
        patterns => [?PATTERN], level => ?LEVEL, interval_ms => IntervalMs, without => []
    }),
    Targets.

memory_of_code(Node) ->
    erpc:call(Node, erlang, memory, [code]).

kb(Bytes) ->
    (Bytes + 500) div 1000.

samples(Node, Count) ->
    Targets = attach(Node, ?SAMPLE_MS),
    ok = dyno_targets:restart(Targets),
    Us = [
        receive
            {dyno_sample, _Sampler, _TimeMs, _Values, CostUs} -> CostUs
        end
     || _ <- lists:seq(1, Count)
    ],
    ok = bench_program:detach(Targets),
    {Value, Interval} = bench_program:median(Us),
    bench_program:say("a sample  ~ts us, ~ts; ~b samples", [
        bench_program:number(Value), bench_program:interval_text(Interval, "us"), Count
    ]).
