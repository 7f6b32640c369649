%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_slots).
-moduledoc false.
%% Allocates limited resources of a node, and takes them back when their owner releases them or
%% ends: the number in the names of a run's modules, and the exclusive lock of measurements of the
%% whole node. So concurrent runs do not unload each other's code, and thousands of runs create no
%% further atoms or modules.
%%
%% Each slot has an allocator, registered by its name, which unloads the slot's modules at the end.

-export([acquire_run/0, run_number/1, release/1, module/3, most_codes/0, exclusively/1]).
-export([format_error/1, fault/1]).
-export_type([slot/0, reason/0]).

-opaque slot() :: {pid(), pos_integer()}.

-type reason() :: {too_many_runs, pos_integer()}.

-define(RUNS, 64).
-define(LOCK, dyno_bench_exclusive).

-doc "Holds until it is released or the calling process ends.".
-spec acquire_run() -> {ok, slot()} | {error, {?MODULE, reason()}}.
acquire_run() ->
    case acquire(runs) of
        {ok, Slot} -> {ok, Slot};
        none -> {error, {?MODULE, {too_many_runs, ?RUNS}}}
    end.

-spec run_number(slot()) -> pos_integer().
run_number({_Allocator, Number}) -> Number.

-doc "Processes that run the run's modules must not call this.".
-spec release(slot()) -> ok.
release({Allocator, _Number}) ->
    Ref = monitor(process, Allocator),
    Allocator ! {release, self()},
    receive
        {'DOWN', Ref, process, Allocator, _} -> ok
    end.

-doc "An interrupt also ends the wait for the lock.".
-spec exclusively(fun(() -> Value)) -> Value.
exclusively(Fun) ->
    case acquire(lock) of
        {ok, Slot} ->
            try
                Fun()
            after
                release(Slot)
            end;
        none ->
            Ref = monitor(process, ?LOCK),
            receive
                {'DOWN', Ref, process, _, _} ->
                    ok;
                dyno_interrupt ->
                    true = demonitor(Ref, [flush]),
                    dyno_error:fail({dyno_error, interrupted})
            end,
            exclusively(Fun)
    end.

-doc "Each pair of codes has its own interval: with more codes none would ever be decided.".
-spec most_codes() -> pos_integer().
most_codes() -> 20.

-doc "Without a number in a VM that has only one run.".
-spec module(loop | input, pos_integer() | empty, #{run => pos_integer(), _ => _}) -> module().
module(Kind, Which, Options) ->
    Run = [[integer_to_list(Run), "_"] || #{run := Run} <- [Options]],
    list_to_atom(lists:flatten(io_lib:format("dyno_bench_~s_~s~w", [Kind, Run, Which]))).

acquire(Kind) ->
    Owner = self(),
    {Allocator, Ref} = spawn_monitor(fun() -> allocate(Kind, Owner) end),
    receive
        {Allocator, acquired, Number} ->
            true = demonitor(Ref, [flush]),
            {ok, {Allocator, Number}};
        {'DOWN', Ref, process, Allocator, _} ->
            none
    end.

allocate(Kind, Owner) ->
    proc_lib:set_label(?MODULE),
    Ref = monitor(process, Owner),
    case register_free(names(Kind), 1) of
        {ok, Number} ->
            Owner ! {self(), acquired, Number},
            receive
                {'DOWN', Ref, process, Owner, _} -> ok;
                {release, Owner} -> ok
            end,
            %% Only processes of the code can still run the modules: unloading kills them.
            dyno_code:unload(modules(Kind, Number));
        none ->
            ok
    end.

register_free({_Name, Most}, N) when N > Most ->
    none;
register_free({Name, _} = Names, N) ->
    try register(Name(N), self()) of
        true -> {ok, N}
    catch
        error:badarg -> register_free(Names, N + 1)
    end.

names(runs) -> {fun(N) -> list_to_atom("dyno_bench_run_" ++ integer_to_list(N)) end, ?RUNS};
names(lock) -> {fun(1) -> ?LOCK end, 1}.

modules(lock, _Number) ->
    [];
modules(runs, Number) ->
    Pattern = io_lib:format("^dyno_bench_(loop|input)_~b_", [Number]),
    [M || {M, _} <- code:all_loaded(), re:run(atom_to_list(M), Pattern, [unicode]) =/= nomatch].

-spec format_error(reason()) -> unicode:chardata().
format_error({too_many_runs, Max}) ->
    io_lib:format(
        "~b measurements and jobs run in this node already; wait until one has ended, or stop one",
        [Max]
    ).

-spec fault(reason()) -> dyno.
fault(_) -> dyno.
