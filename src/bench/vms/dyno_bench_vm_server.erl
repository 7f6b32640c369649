%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_vm_server).
-moduledoc false.
%% The server in a VM that one code has to itself: makes the code ready and then does what
%% dyno_bench_groups, in another VM, asks for: an epoch of so many iterations, and so on. The other
%% VM takes turns between its servers, so there is one request at a time. The server is found by its
%% registered name, because the VM need not be a node, and then pids mean nothing outside it.

-export([start/1, request/1]).
-export([format_error/1, fault/1]).
-export_type([order/0, ready/0, request/0, reason/0]).

-type order() :: #{
    %% Its only code is what is measured.
    measurement := dyno_bench_inputs:measurement(),
    number := pos_integer(),
    %% The module of a benchmark file, which its funs belong to.
    modules := [{module(), file:filename(), binary()}],
    options := dyno_bench_engine:options()
}.

-doc "The size of the input, if it has one, and what an iteration of the empty loop takes.".
-type ready() :: #{size := pos_integer() | undefined, loop_ns := float() | undefined}.

-doc """
How many iterations an epoch needs; to run an epoch, which gives the time of an iteration and the
metric that decides; what a call of the code returns; and what was measured in all epochs, with
these extras, after which the server ends.
""".
-type request() ::
    iterations
    | {epoch, Iterations :: pos_integer()}
    | result
    | {finish, [deterministic | side_effects]}.

-type reason() :: {server_died, term()} | no_compiler.

-doc "Makes a code ready.".
-spec start(order()) -> {ok, ready()} | {error, dyno_error:error()}.
start(#{modules := Modules} = Order) ->
    case code:ensure_loaded(compile) of
        {module, compile} ->
            _ = [ok = dyno_code:load(Module, File, Binary) || {Module, File, Binary} <- Modules],
            Caller = self(),
            Ref = make_ref(),
            {_, Monitor} = spawn_monitor(fun() -> init(Order, Caller, Ref) end),
            answer(Ref, Monitor);
        {error, _} ->
            {error, {?MODULE, no_compiler}}
    end.

-doc "Has the server do something.".
-spec request(request()) -> {ok, term()} | {error, dyno_error:error()}.
request(Request) ->
    Monitor = monitor(process, ?MODULE),
    %% Also where it has ended: then the monitor says so.
    _ = erlang:send({?MODULE, node()}, {Monitor, self(), Request}),
    answer(Monitor, Monitor).

answer(Ref, Monitor) ->
    receive
        {Ref, Answer} ->
            true = demonitor(Monitor, [flush]),
            {ok, Answer};
        {'DOWN', Monitor, process, _, {failed, Error}} ->
            {error, Error};
        {'DOWN', Monitor, process, _, Reason} ->
            {error, {?MODULE, {server_died, Reason}}}
    end.

init(#{measurement := Measurement, number := Number, options := Options}, Caller, Ref) ->
    true = register(?MODULE, self()),
    proc_lib:set_label(?MODULE),
    %% The sandbox of the set-up is linked, and killed where that does not end.
    process_flag(trap_exit, true),
    Serve = fun(Prepared, Size) ->
        Caller ! {Ref, #{size => Size, loop_ns => dyno_bench_engine:loop_ns(Prepared)}},
        serve(Prepared, #{}, {0, []})
    end,
    case dyno_bench_inputs:serve(Measurement, Number, Options, Serve) of
        ok -> ok;
        {error, Error} -> exit({failed, Error})
    end.

serve(Prepared, First, {_Iterations, Epochs} = Measured) ->
    receive
        {Ref, From, iterations} ->
            {Calibrated, Known} = dyno_bench_engine:iterations(Prepared),
            From ! {Ref, Calibrated},
            serve(Prepared, Known, Measured);
        {Ref, From, {epoch, N}} ->
            {Times, New} = dyno_bench_engine:epochs(N, Prepared),
            From ! {Ref, Times},
            serve(Prepared, First, {N, New ++ Epochs});
        {Ref, From, result} ->
            From ! {Ref, dyno_bench_prepared:result(1, Prepared)},
            serve(Prepared, First, Measured);
        {Ref, From, {finish, Extras}} ->
            Candidate = dyno_bench_engine:candidate(Measured, Extras, Prepared),
            From ! {Ref, maps:merge(Candidate, First)},
            ok
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({server_died, Reason}) ->
    io_lib:format("the process that measures in a VM of its own died: ~0tP", [Reason, 12]);
format_error(no_compiler) ->
    "the Erlang that a code is to run in has no compiler; install its development packages".

-spec fault(reason()) -> dyno_error:fault().
fault({server_died, _}) -> dyno;
fault(no_compiler) -> caller.
