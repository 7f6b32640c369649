%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_load).
-moduledoc "Gives a load of operations that do nothing with dyno's generator.".

-export([run/2, ended/1, operation/1]).

-doc "What the generator itself measured in a load of so many milliseconds.".
-spec run(dyno_load_spec:load(), pos_integer()) -> dyno_load_recorder:snapshot().
run(Load, DurationMs) ->
    {ok, Pid} = dyno_load:start_link(#{
        sink => self(),
        module => ?MODULE,
        run_state => none,
        load => Load,
        duration_ms => DurationMs,
        warmup_ms => 200,
        interval_ms => DurationMs,
        timeout_ms => 5000
    }),
    #{total := Total, errors := [], under_way := 0} = ended(Pid),
    Total.

-doc "Lets a load run until it has ended: what it measured.".
-spec ended(pid()) -> dyno_load_result:t().
ended(Pid) ->
    receive
        {dyno_load, Pid, warm} ->
            ok = dyno_load_source:measure(Pid),
            ended(Pid);
        {dyno_load, Pid, {finished, _}} ->
            ok = dyno_load_source:close(Pid),
            ended(Pid);
        {dyno_load, Pid, {ended, Result}} ->
            Result;
        {dyno_load, Pid, {failed, Reason}} ->
            error({load_failed, Reason});
        {dyno_load, Pid, _} ->
            ended(Pid)
    end.

-doc "Does nothing.".
-spec operation(State) -> {ok, State}.
operation(State) -> {ok, State}.
