%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_vm_server).
-moduledoc false.
%% The server in a VM that measures one code: prepares the code, then serves one request at a time
%% of dyno_bench_groups in another VM. The server has a registered name because pids mean nothing
%% between VMs that are not nodes.

-export([start/1, request/1]).
-export([format_error/1, fault/1]).
-export_type([order/0, ready/0, request/0, reason/0]).

-type order() :: #{
    measurement := dyno_bench_inputs:measurement(),
    number := pos_integer(),
    %% The module of a benchmark file; funs of the plan belong to this module.
    modules := [{module(), file:filename(), binary()}],
    options := dyno_bench_engine:options()
}.

-type ready() :: #{size := pos_integer() | undefined, loop_ns := float() | undefined}.

-doc """
Returns, in order: the iterations that an epoch needs; an epoch's time per iteration and deciding
metric; the result of one call; and the data of all epochs with these extras, after which the server
ends.
""".
-type request() ::
    iterations
    | {epoch, Iterations :: pos_integer()}
    | result
    | {finish, [deterministic | side_effects]}.

-type reason() :: {server_died, term()} | no_compiler.

-spec start(order()) -> dyno_error:result(ready()).
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

-spec request(request()) -> dyno_error:result(term()).
request(Request) ->
    Monitor = monitor(process, ?MODULE),
    %% If the server has already ended, the monitor reports that.
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
    %% The set-up's sandbox is linked, and killed if necessary.
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
            serve(Prepared, First, {N, Epochs ++ New});
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
