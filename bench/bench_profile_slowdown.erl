%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_profile_slowdown).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% Called in the measured node
-export([compiler/1, compiled/1, prepared/1]).

-define(GOAL_TIMES, 1.03).
-define(PROFILERS, [sample, time, calls, eprof, tprof, fprof]).

describe() ->
    """
    A node with two schedulers compiles the abstract code of a module of OTP, the argument (queue
    by default), over and over in one process, without a profiler and then with each of dyno's and
    OTP's, by turns. Of each: the time of a compilation by that without, the median over the
    rounds, of the quickest one of a turn; and what its result takes on disk, of fprof the trace of
    one compilation. The result is the slowdown by --kind sample.
    """.

argument(none) -> {ok, queue};
argument(Text) -> {ok, list_to_atom(Text)}.

measure(Module, Effort) ->
    #{rounds := Rounds, turn_ms := TurnMs} = settings(Effort),
    {ok, Node} = dyno_peer:start(#{
        name => "slowed", arguments => ["+S", "2", "+sbwt", "none", "+sbwtdcpu", "none"]
    }),
    Forms = erpc:call(Node, ?MODULE, prepared, [Module]),
    Compiler = spawn_link(Node, ?MODULE, compiler, [Forms]),
    true = erpc:call(Node, erlang, register, [compiler_job, Compiler]),
    _ = turn(none, TurnMs, {Node, Compiler}),
    All = [
        begin
            {Without, _} = turn(none, TurnMs, {Node, Compiler}),
            [
                {Profiler, Us / Without, Bytes}
             || Profiler <- ?PROFILERS,
                {Us, Bytes} <- [turn(Profiler, TurnMs, {Node, Compiler})]
            ]
        end
     || _ <- lists:seq(1, Rounds)
    ],
    true = unlink(Compiler),
    ok = dyno_peer:stop(Node),
    Slowed =
        #{
            Profiler => report(Profiler, [
                {Times, Bytes}
             || Of <- All, {P, Times, Bytes} <- Of, P =:= Profiler
            ])
         || Profiler <- ?PROFILERS
        },
    #{
        name => "profile_slowdown_" ++ atom_to_list(Module),
        value => map_get(sample, Slowed),
        unit => "times",
        goal => ?GOAL_TIMES
    }.

settings(full) -> #{rounds => 5, turn_ms => 3000};
settings(quick) -> #{rounds => 1, turn_ms => 1500}.

report(Profiler, Turns) ->
    Times = dyno_stats:median([Of || {Of, _} <- Turns]),
    bench_program:say("~-7s ~8.3f times as long (~ts), ~10w bytes on disk", [
        Profiler,
        Times,
        lists:join(", ", [io_lib:format("~.2f", [Of]) || {Of, _} <- Turns]),
        round(dyno_stats:median([Bytes || {_, Bytes} <- Turns]))
    ]),
    Times.

%% The quickest compilation, and the bytes.
turn(none, TurnMs, Measured) ->
    {compilations(TurnMs, Measured), 0};
turn(Kind, TurnMs, {Node, _} = Measured) when Kind =:= sample; Kind =:= time; Kind =:= calls ->
    Self = self(),
    Pid = spawn_link(fun() ->
        {ok, Recording} = dyno_profile:run([Node], #{
            kind => Kind, targets => [{name, ~"compiler_job"}], for_ms => 600_000
        }),
        Self ! {recorded, iolist_size(dyno_recording_json:encode(Recording))}
    end),
    %% It takes a moment until it is there, and until what is too short is left out.
    timer:sleep(2500),
    Us = compilations(TurnMs, Measured),
    Pid ! stop,
    receive
        {recorded, Bytes} -> {Us, Bytes}
    end;
turn(Profiler, TurnMs, {Node, Compiler} = Measured) ->
    ok = erpc:call(Node, bench_profilers, start, [Profiler, [Compiler]]),
    Us =
        case Profiler of
            fprof -> compilation(Compiler);
            _ -> compilations(TurnMs, Measured)
        end,
    {Us, erpc:call(Node, bench_profilers, stop, [Profiler])}.

compilations(TurnMs, {_, Compiler}) ->
    compilations_until(erlang:monotonic_time(millisecond) + TurnMs, Compiler, infinity).

compilations_until(End, Compiler, Least) ->
    Us = min(Least, compilation(Compiler)),
    case erlang:monotonic_time(millisecond) < End of
        true -> compilations_until(End, Compiler, Us);
        false -> Us
    end.

compilation(Compiler) ->
    Compiler ! {compile, self()},
    receive
        {compiled, Us} -> Us
    end.

%% In the measured node

prepared(Module) ->
    {ok, {Module, [{abstract_code, {raw_abstract_v1, Forms}}]}} =
        beam_lib:chunks(code:which(Module), [abstract_code]),
    _ = application:load(compiler),
    {ok, Modules} = application:get_key(compiler, modules),
    ok = code:ensure_modules_loaded(Modules),
    {ok, _, _} = compiled(Forms),
    Forms.

compiler(Forms) ->
    receive
        {compile, From} ->
            Start = erlang:monotonic_time(microsecond),
            {ok, _, _} = compiled(Forms),
            From ! {compiled, erlang:monotonic_time(microsecond) - Start}
    end,
    compiler(Forms).

compiled(Forms) -> compile:forms(Forms, [binary, no_spawn_compiler_process]).
