%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_vms).
-moduledoc false.
%% A fresh VM for each candidate, for as long as a function runs, and calls in them. What goes wrong
%% is thrown, and is the error that `attempt/1` gives.

-export([attempt/1, fail/1, with/3, call/3]).

-doc "Calls a function that uses VMs, whose exits come as messages.".
-spec attempt(fun(() -> Value)) -> {ok, Value} | {error, dyno_error:error()}.
attempt(Fun) ->
    Trapping = process_flag(trap_exit, true),
    try
        {ok, Fun()}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    after
        process_flag(trap_exit, Trapping)
    end.

-doc "Ends what `attempt/1` calls.".
-spec fail(dyno_error:error()) -> no_return().
fail(Error) ->
    throw({?MODULE, Error}).

-doc "Starts a VM for each candidate, all at the same time.".
-spec with(
    [dyno_bench_isolated:candidate(), ...],
    dyno_bench_isolated:settings(),
    fun(([dyno_bench_vm:vm(), ...]) -> Value)
) -> Value.
with(Candidates, Settings, Use) ->
    Vms = ok(dyno_bench_vm:start([spec(Candidate, Settings) || Candidate <- Candidates])),
    try
        Use(Vms)
    after
        dyno_bench_vm:stop(Vms)
    end.

spec(#{variant := Variant}, Settings) ->
    Common = maps:get(code_paths, Settings, []),
    Own = maps:get(code_paths, Variant, []),
    (maps:with([erl, flags], Variant))#{code_paths => Own ++ Common}.

-doc "Calls a function in a VM that gives `{ok, Value}` or an error.".
-spec call(dyno_bench_vm:vm(), {module(), atom(), [term()]}, timeout()) -> term().
call(Vm, {Module, Function, Arguments}, TimeoutMs) ->
    receive
        dyno_interrupt -> fail({dyno_error, interrupted})
    after 0 -> ok
    end,
    ok(ok(dyno_bench_vm:call(Vm, Module, Function, Arguments, TimeoutMs))).

ok({ok, Value}) -> Value;
ok({error, Error}) -> fail(Error).
