%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_interruptible).
-moduledoc "Measures in a process of its own, which the caller interrupts.".

-export([call/2]).

-doc """
Calls a function in a process that gets each `dyno_interrupt` of the caller, and each `stop` from a
user who has seen enough. If the caller ends, the process is interrupted or killed.
""".
-spec call(interrupt | kill, fun(() -> Result)) -> {ok, Result} | {crashed, Reason :: term()}.
call(AtEnd, Fun) ->
    Caller = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        watch(Caller, self(), AtEnd),
        Caller ! {?MODULE, self(), Fun()}
    end),
    wait(Pid, Ref).

wait(Pid, Ref) ->
    receive
        Signal when Signal =:= dyno_interrupt; Signal =:= stop ->
            Pid ! Signal,
            wait(Pid, Ref);
        {?MODULE, Pid, Result} ->
            %% The process is gone before the next measurement.
            receive
                {'DOWN', Ref, process, Pid, _} -> {ok, Result}
            end;
        {'DOWN', Ref, process, Pid, Reason} ->
            {crashed, Reason}
    end.

watch(Caller, Measuring, AtEnd) ->
    _ = spawn(fun() ->
        CallerRef = monitor(process, Caller),
        MeasuringRef = monitor(process, Measuring),
        receive
            {'DOWN', CallerRef, process, Caller, _} when AtEnd =:= kill -> exit(Measuring, kill);
            {'DOWN', CallerRef, process, Caller, _} -> Measuring ! dyno_interrupt;
            {'DOWN', MeasuringRef, process, Measuring, _} -> ok
        end
    end),
    ok.
