%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_deterministic).
-moduledoc false.
%% What a call takes that does not depend on the machine's mood: the words that a call allocates
%% and its reductions. They are taken apart from the timed rounds, in a few short runs.
%%
%% Words come from a trace session of its own with `call_memory` on the loop: the runtime counts
%% what a process allocates between the loop's call and its return, collections included. Reductions
%% are taken with a heap so large that nothing is collected, because a collection costs reductions,
%% too, and when it comes depends on what was there before. The empty loop's are subtracted.
%%
%% Whether it is deterministic is seen, not assumed: runs must agree. Those of codes that draw
%% random numbers do not; those whose long calls the scheduler interrupts differ by less than
%% ?TOLERANCE.

-export([measure/5, join/1]).
-export_type([deterministic/0, loop/0]).

-doc "What a call takes, and whether all runs agreed on it.".
-type deterministic() :: #{
    words := float(),
    words_agree := boolean(),
    reductions := float(),
    reductions_agree := boolean(),
    %% Of each run.
    runs := #{words := [float(), ...], reductions := [float(), ...]}
}.

-doc "A loop's module; runs so many iterations of it in the worker, returns their reductions.".
-type loop() :: {module(), fun((Iterations :: pos_integer()) -> Reductions :: non_neg_integer())}.

%% A gate of 0.1 % must not see it.
-define(TOLERANCE, 0.0005).
-define(MAX_ITERATIONS, 100).
%% What fits into the heap that the worker has in such a run, with room for more.
-define(MAX_WORDS, 500_000).

-doc """
Measures a code's loop in the process `Worker`, and the empty loop, in so many runs; `Iterations` of
the code last for an epoch.
""".
-spec measure(pid(), pos_integer(), Code :: loop(), Empty :: loop(), Runs :: pos_integer()) ->
    deterministic().
measure(Worker, Iterations, Code, Empty, Runs) ->
    Session = trace:session_create(?MODULE, self(), []),
    try
        1 = trace:process(Session, Worker, true, [call]),
        Run = run(Session, Worker, Code),
        N = iterations(Run, min(Iterations, ?MAX_ITERATIONS)),
        %% The empty one is counted as well, because to be counted takes a reduction.
        {_, Base} = (run(Session, Worker, Empty))(N),
        {Words, Reductions} = lists:unzip([Run(N) || _ <- lists:seq(1, Runs)]),
        #{
            words => dyno_stats:median(Words) / N,
            words_agree => agree(Words),
            reductions => (dyno_stats:median(Reductions) - Base) / N,
            reductions_agree => agree(Reductions),
            runs => #{
                words => [W / N || W <- Words],
                reductions => [(R - Base) / N || R <- Reductions]
            }
        }
    after
        %% The modules are unloaded soon: no breakpoint may be on its way out then.
        _ = [
            trace:function(Session, {Module, loop, 3}, false, [call_memory])
         || {Module, _} <- [Code, Empty]
        ],
        _ = trace:process(Session, Worker, false, [call]),
        trace:session_destroy(Session)
    end.

-doc "The same of a code in several VMs, which must agree as well.".
-spec join([deterministic(), ...]) -> deterministic().
join([Only]) ->
    Only;
join(Each) ->
    Of = fun(Key) -> [map_get(Key, Deterministic) || Deterministic <- Each] end,
    Agree = fun(Key, Flag) -> agree(Of(Key)) andalso lists:all(fun(Is) -> Is end, Of(Flag)) end,
    Runs = fun(Key) -> lists:append([map_get(Key, R) || R <- Of(runs)]) end,
    #{
        words => dyno_stats:median(Of(words)),
        words_agree => Agree(words, words_agree),
        reductions => dyno_stats:median(Of(reductions)),
        reductions_agree => Agree(reductions, reductions_agree),
        runs => #{words => Runs(words), reductions => Runs(reductions)}
    }.

run(Session, Worker, {Module, Iterate}) ->
    Loop = {Module, loop, 3},
    1 = trace:function(Session, Loop, true, [call_memory]),
    fun(N) ->
        1 = trace:function(Session, Loop, restart, [call_memory]),
        Reductions = Iterate(N),
        {words(trace:info(Session, Loop, call_memory), Worker), Reductions}
    end.

words({call_memory, PerProcess}, Worker) ->
    lists:sum([Words || {Pid, _Calls, Words} <- PerProcess, Pid =:= Worker]).

%% So few that nothing is collected. The first run also does what a code does only the first time.
iterations(Run, N) ->
    case Run(N) of
        {Words, _} when Words > ?MAX_WORDS -> max(1, N * ?MAX_WORDS div Words);
        {_, _} -> N
    end.

agree(Values) ->
    Least = lists:min(Values),
    lists:max(Values) - Least =< ?TOLERANCE * Least.
