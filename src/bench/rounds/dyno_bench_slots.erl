%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_slots).
-moduledoc false.
%% Keeps names of modules for as long as somebody needs them, and takes the modules away when that
%% has ended, in whichever way: the name of a job's module, or the number in the names of all that a
%% run loads, so that runs in one node, at the same time, do not take each other's code away. There
%% are only so many of both, which are also the keepers' registered names: a node that runs
%% thousands gets no more atoms or code by them. And the one permission of a node to look at all of
%% it, which is kept in the same way.

-export([lease/0, lease_run/0, run_number/1, release/1, module/3, alone/2]).
-export_type([lease/0, reason/0]).

-doc "The number of a run, and who keeps it.".
-opaque lease() :: {pid(), pos_integer()}.

-type reason() :: {too_many_jobs | too_many_runs, pos_integer()}.

-define(JOBS, 64).
-define(RUNS, 16).
-define(ALONE, dyno_bench_alone).

-type kind() :: jobs | runs | alone.

-doc "A name for a module of the calling process.".
-spec lease() -> {ok, module()} | {error, reason()}.
lease() ->
    case kept(jobs) of
        {ok, _Keeper, Name, _Number} -> {ok, Name};
        none -> {error, {too_many_jobs, ?JOBS}}
    end.

-doc "A number for the modules of a run, until it is released or the calling process ends.".
-spec lease_run() -> {ok, lease()} | {error, reason()}.
lease_run() ->
    case kept(runs) of
        {ok, Keeper, _Name, Number} -> {ok, {Keeper, Number}};
        none -> {error, {too_many_runs, ?RUNS}}
    end.

-doc "The number of a run.".
-spec run_number(lease()) -> pos_integer().
run_number({_Keeper, Number}) -> Number.

-doc "Takes the modules of a run away; not for a process that runs them.".
-spec release(lease()) -> ok.
release({Keeper, _Number}) ->
    Ref = monitor(process, Keeper),
    Keeper ! {release, self()},
    receive
        {'DOWN', Ref, process, Keeper, _} -> ok
    end.

-doc """
Calls a function when no other process of this node is in one that was called so. An interrupt is
not kept waiting: then `Interrupted` is called, which throws.
""".
-spec alone(fun(() -> Value), Interrupted :: fun(() -> term())) -> Value.
alone(Fun, Interrupted) ->
    case kept(alone) of
        {ok, Keeper, _Name, Number} ->
            try
                Fun()
            after
                release({Keeper, Number})
            end;
        none ->
            Ref = monitor(process, ?ALONE),
            receive
                {'DOWN', Ref, process, _, _} ->
                    ok;
                dyno_interrupt ->
                    true = demonitor(Ref, [flush]),
                    self() ! dyno_interrupt,
                    Interrupted()
            end,
            alone(Fun, Interrupted)
    end.

-doc "The name of a module of a run; in a VM that has only one run, without a number.".
-spec module(arm | input, pos_integer() | loop, #{run => pos_integer(), _ => _}) -> module().
module(Kind, Which, Options) ->
    Run = [[integer_to_list(Run), "_"] || #{run := Run} <- [Options]],
    list_to_atom(lists:flatten(io_lib:format("dyno_bench_~s_~s~w", [Kind, Run, Which]))).

-spec kept(kind()) -> {ok, pid(), atom(), pos_integer()} | none.
kept(Kind) ->
    Owner = self(),
    {Keeper, Ref} = spawn_monitor(fun() -> keep(Kind, Owner) end),
    receive
        {Keeper, leased, Name, Number} ->
            true = demonitor(Ref, [flush]),
            {ok, Keeper, Name, Number};
        {'DOWN', Ref, process, Keeper, _} ->
            none
    end.

-spec keep(kind(), pid()) -> ok.
keep(Kind, Owner) ->
    proc_lib:set_label(?MODULE),
    Ref = monitor(process, Owner),
    case register_free(Kind, 1) of
        {ok, Name, Number} ->
            Owner ! {self(), leased, Name, Number},
            receive
                {'DOWN', Ref, process, Owner, _} -> ok;
                {release, Owner} -> ok
            end,
            dyno_code:unload(modules(Kind, Name, Number));
        none ->
            ok
    end.

-spec register_free(kind(), pos_integer()) -> {ok, atom(), pos_integer()} | none.
register_free(jobs, N) when N > ?JOBS ->
    none;
register_free(runs, N) when N > ?RUNS ->
    none;
register_free(alone, N) when N > 1 ->
    none;
register_free(Kind, N) ->
    Name = name(Kind, N),
    try register(Name, self()) of
        true -> {ok, Name, N}
    catch
        error:badarg -> register_free(Kind, N + 1)
    end.

-spec name(kind(), pos_integer()) -> atom().
name(jobs, N) -> list_to_atom("dyno_bench_job_" ++ integer_to_list(N));
name(runs, N) -> list_to_atom("dyno_bench_run_" ++ integer_to_list(N));
name(alone, 1) -> ?ALONE.

-spec modules(kind(), atom(), pos_integer()) -> [module()].
modules(jobs, Name, _Number) ->
    [Name];
modules(alone, _Name, _Number) ->
    [];
modules(runs, _Name, Number) ->
    Prefixes = [
        lists:flatten(io_lib:format("dyno_bench_~s_~b_", [Kind, Number])) || Kind <- [arm, input]
    ],
    [
        Module
     || Module <- erlang:loaded(),
        Prefix <- Prefixes,
        lists:prefix(Prefix, atom_to_list(Module))
    ].
