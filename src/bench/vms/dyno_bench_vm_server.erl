%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_vm_server).
-moduledoc false.
%% The test stand in a VM that has one code to itself: makes the code ready and then does what
%% dyno_bench_isolated, in another VM, asks for: an epoch of so many iterations, and so on. The
%% other VM takes turns between its stands, so there is one request at a time. The stand is found by
%% its registered name, because the VM need not be a node, and then pids mean nothing outside it.

-export([run/3, start/1, iterations/0, epoch/1, result/0, finish/1]).
-export_type([order/0, ready/0, reason/0]).

-type order() :: #{
    %% Its only code is what is measured.
    measurement := dyno_bench_inputs:measurement(),
    number := pos_integer(),
    %% The module of a benchmark file, which its funs belong to.
    modules := [{module(), file:filename(), binary()}],
    options := dyno_bench_engine:options()
}.

-doc "The size of the input, where it has one, and what an iteration of the empty loop takes.".
-type ready() :: #{size := pos_integer() | undefined, loop_ns := float() | undefined}.

-type reason() :: dyno_bench_inputs:reason() | {stand_died, term()} | no_compiler.

-doc "Measures a code in one of erlperf's modes.".
-spec run(dyno_bench_mode:checked(), dyno_bench_code:code(), dyno_bench_engine:options()) ->
    {ok, map()} | {error, reason()}.
run(Mode, Code, Options) ->
    case dyno_bench_mode:run(Mode, [Code], Options) of
        {ok, Result} -> {ok, Result};
        {error, Reason} -> {error, dyno_bench_undefined:said(Reason)}
    end.

-doc "Makes a code ready.".
-spec start(order()) -> {ok, ready()} | {error, reason()}.
start(#{modules := Modules} = Order) ->
    case code:ensure_loaded(compile) of
        {module, compile} ->
            lists:foreach(
                fun({Module, File, Binary}) ->
                    ok = dyno_code:load(Module, File, Binary)
                end,
                Modules
            ),
            Self = self(),
            Ref = make_ref(),
            {Pid, Monitor} = spawn_monitor(fun() -> stand(Order, Self, Ref) end),
            answer(Ref, Monitor, Pid);
        {error, _} ->
            {error, no_compiler}
    end.

-doc "How many iterations an epoch needs.".
-spec iterations() -> {ok, pos_integer()} | {error, reason()}.
iterations() ->
    call(iterations).

-doc "Runs so many iterations; the time of one, and the metric that decides.".
-spec epoch(pos_integer()) -> {ok, {TimeNs :: float(), Value :: float()}} | {error, reason()}.
epoch(N) ->
    call({epoch, N}).

-doc "What a call of the code returns.".
-spec result() -> {ok, term()} | {error, reason()}.
result() ->
    call(result).

-doc "The figures of all epochs, and what is wanted besides. The stand ends.".
-spec finish([exact | whole | profile]) -> {ok, dyno_bench_engine:arm()} | {error, reason()}.
finish(Wanted) ->
    call({finish, Wanted}).

-spec call(term()) -> {ok, term()} | {error, reason()}.
call(Request) ->
    Ref = make_ref(),
    Monitor = monitor(process, ?MODULE),
    case whereis(?MODULE) of
        undefined ->
            {error, {stand_died, noproc}};
        Pid ->
            Pid ! {Ref, self(), Request},
            answer(Ref, Monitor, Pid)
    end.

-spec answer(reference(), reference(), pid()) -> {ok, term()} | {error, reason()}.
answer(Ref, Monitor, _Pid) ->
    receive
        {Ref, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, _, {failed, Reason}} ->
            {error, Reason};
        {'DOWN', Monitor, process, _, Reason} ->
            {error, {stand_died, Reason}}
    end.

-spec stand(order(), pid(), reference()) -> ok.
stand(#{measurement := Measurement, number := Number, options := Options}, Caller, Ref) ->
    true = register(?MODULE, self()),
    proc_lib:set_label(?MODULE),
    Serve = fun(Stand, Size) ->
        Ready = #{size => Size, loop_ns => dyno_bench_engine:loop_ns(Stand)},
        Caller ! {Ref, {ok, Ready}},
        serve(Stand, 0, [])
    end,
    case dyno_bench_inputs:serve(Measurement, Number, Options, Serve) of
        ok -> ok;
        {error, Reason} -> exit({failed, dyno_bench_undefined:said(Reason)})
    end.

-spec serve(dyno_bench_engine:stand(), non_neg_integer(), [dyno_bench_worker:epoch()]) -> ok.
serve(Stand, N, Epochs) ->
    receive
        {Ref, From, iterations} ->
            From ! {Ref, {ok, dyno_bench_engine:iterations(Stand)}},
            serve(Stand, N, Epochs);
        {Ref, From, {epoch, Iterations}} ->
            {TimeNs, Value, New} = dyno_bench_engine:epochs(Stand, Iterations),
            From ! {Ref, {ok, {TimeNs, Value}}},
            serve(Stand, Iterations, New ++ Epochs);
        {Ref, From, result} ->
            From ! {Ref, {ok, dyno_bench_engine:result(Stand)}},
            serve(Stand, N, Epochs);
        {Ref, From, {finish, Wanted}} ->
            From ! {Ref, {ok, dyno_bench_engine:arm(Stand, {N, Epochs}, Wanted)}},
            ok
    end.
