%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_vm_server).
-moduledoc false.
%% The server in a VM that one code has to itself: makes the code ready and then does what
%% dyno_bench_groups, in another VM, asks for: an epoch of so many iterations, and so on. The other
%% VM takes turns between its servers, so there is one request at a time. The server is found by its
%% registered name, because the VM need not be a node, and then pids mean nothing outside it.

-export([run/3, start/1, iterations/0, epoch/1, result/0, finish/1]).
-export([format_error/1, fault/1]).
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

-type reason() :: {server_died, term()} | no_compiler.

-doc "Measures a code in one of erlperf's modes.".
-spec run(dyno_bench_mode:checked(), dyno_bench_code:code(), dyno_bench_engine:options()) ->
    {ok, map()} | {error, dyno_error:error()}.
run(Mode, Code, Options) ->
    dyno_bench_mode:run(Mode, [Code], Options).

-doc "Makes a code ready.".
-spec start(order()) -> {ok, ready()} | {error, dyno_error:error()}.
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
            {Pid, Monitor} = spawn_monitor(fun() -> init(Order, Self, Ref) end),
            answer(Ref, Monitor, Pid);
        {error, _} ->
            {error, {?MODULE, no_compiler}}
    end.

-doc "How many iterations an epoch needs.".
-spec iterations() -> {ok, pos_integer()} | {error, dyno_error:error()}.
iterations() ->
    call(iterations).

-doc "Runs so many iterations; the time of one, and the metric that decides.".
-spec epoch(pos_integer()) ->
    {ok, {TimeNs :: float(), Value :: float()}} | {error, dyno_error:error()}.
epoch(N) ->
    call({epoch, N}).

-doc "What a call of the code returns.".
-spec result() -> {ok, term()} | {error, dyno_error:error()}.
result() ->
    call(result).

-doc "What was measured in all epochs, with these extras. The server ends.".
-spec finish([deterministic | side_effects | profile]) ->
    {ok, dyno_bench_engine:candidate()} | {error, dyno_error:error()}.
finish(Extras) ->
    call({finish, Extras}).

call(Request) ->
    Ref = make_ref(),
    Monitor = monitor(process, ?MODULE),
    case whereis(?MODULE) of
        undefined ->
            {error, {?MODULE, {server_died, noproc}}};
        Pid ->
            Pid ! {Ref, self(), Request},
            answer(Ref, Monitor, Pid)
    end.

answer(Ref, Monitor, _Pid) ->
    receive
        {Ref, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, _, {failed, Error}} ->
            {error, Error};
        {'DOWN', Monitor, process, _, Reason} ->
            {error, {?MODULE, {server_died, Reason}}}
    end.

init(#{measurement := Measurement, number := Number, options := Options}, Caller, Ref) ->
    true = register(?MODULE, self()),
    proc_lib:set_label(?MODULE),
    Serve = fun(Prepared, Size) ->
        Ready = #{size => Size, loop_ns => dyno_bench_engine:loop_ns(Prepared)},
        Caller ! {Ref, {ok, Ready}},
        serve(Prepared, 0, [])
    end,
    case dyno_bench_inputs:serve(Measurement, Number, Options, Serve) of
        ok -> ok;
        {error, Error} -> exit({failed, Error})
    end.

serve(Prepared, N, Epochs) ->
    receive
        {Ref, From, iterations} ->
            From ! {Ref, {ok, dyno_bench_engine:iterations(Prepared)}},
            serve(Prepared, N, Epochs);
        {Ref, From, {epoch, Iterations}} ->
            {TimeNs, Value, New} = dyno_bench_engine:epochs(Iterations, Prepared),
            From ! {Ref, {ok, {TimeNs, Value}}},
            serve(Prepared, Iterations, New ++ Epochs);
        {Ref, From, result} ->
            From ! {Ref, {ok, dyno_bench_prepared:result(1, Prepared)}},
            serve(Prepared, N, Epochs);
        {Ref, From, {finish, Extras}} ->
            From ! {Ref, {ok, dyno_bench_engine:candidate({N, Epochs}, Extras, Prepared)}},
            ok
    end.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({server_died, Reason}) ->
    io_lib:format("the process that measures in a VM of its own died: ~0tP", [Reason, 12]);
format_error(no_compiler) ->
    "the Erlang that a code is to run in has no compiler; install its development packages".

-doc "Whose fault it is.".
-spec fault(reason()) -> dyno_error:fault().
fault({server_died, _}) -> dyno;
fault(no_compiler) -> caller.
