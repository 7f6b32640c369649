%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_deterministic).
-moduledoc false.
%% Measures costs of a call that do not depend on the machine's load: allocated words and
%% reductions, in a few short runs apart from the timed rounds.
%%
%% Words come from a trace session of its own with `call_memory` on the loop, which counts
%% allocations including collections. Reductions are measured with a heap so large that no
%% collection happens: a collection costs reductions, and its time depends on earlier work. The
%% empty loop's values are subtracted.
%%
%% Runs must agree to count as deterministic: codes that draw random numbers do not. Long calls that
%% the scheduler interrupts differ by less than ?TOLERANCE.

-export([measure/5, join/1]).
-export_type([deterministic/0, loop/0]).

-type deterministic() :: #{
    words := float(),
    words_agree := boolean(),
    reductions := float(),
    reductions_agree := boolean(),
    runs := #{words := [float(), ...], reductions := [float(), ...]}
}.

-doc "A loop's module, and a function that runs N iterations in the worker.".
-type loop() :: {module(), fun((Iterations :: pos_integer()) -> Reductions :: non_neg_integer())}.

%% Too small for a gate of 0.1 %.
-define(TOLERANCE, 0.0005).
-define(MAX_ITERATIONS, 100).
%% Fits into the worker's heap in such a run, with room to spare.
-define(MAX_WORDS, 500_000).

-spec measure(pid(), pos_integer(), Code :: loop(), Empty :: loop(), Runs :: pos_integer()) ->
    deterministic().
measure(Worker, Iterations, Code, Empty, Runs) ->
    Session = trace:session_create(?MODULE, self(), []),
    try
        1 = trace:process(Session, Worker, true, [call]),
        Run = run(Session, Worker, Code),
        N = iterations(Run, min(Iterations, ?MAX_ITERATIONS)),
        %% Counting itself takes a reduction, so the empty loop is counted as well.
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
        %% The modules are unloaded soon: their breakpoints must be gone by then.
        _ = [
            trace:function(Session, {Module, loop, 3}, false, [call_memory])
         || {Module, _} <- [Code, Empty]
        ],
        _ = trace:process(Session, Worker, false, [call]),
        trace:session_destroy(Session)
    end.

-doc "The VMs must agree as well.".
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

%% Few enough that no collection happens. The first run includes work that a code does only once.
iterations(Run, N) ->
    case Run(N) of
        {Words, _} when Words > ?MAX_WORDS -> max(1, N * ?MAX_WORDS div Words);
        {_, _} -> N
    end.

agree(Values) ->
    Least = lists:min(Values),
    lists:max(Values) - Least =< ?TOLERANCE * Least.
