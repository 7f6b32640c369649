%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_keeper).
-moduledoc false.
%% Keeps the name of a job's module for as long as the job lives, and takes the module away when the
%% job has ended, in whichever way. There are only so many names, which are also the keepers'
%% registered names: a node that runs thousands of jobs gets no more atoms or code by them.

-compile(warn_missing_spec_all).

-export([lease/0]).

-define(NAMES, 64).

-doc "A name for a module of the calling process.".
-spec lease() -> {ok, module()} | {error, {too_many_jobs, pos_integer()}}.
lease() ->
    Job = self(),
    {Keeper, Ref} = spawn_monitor(fun() -> keep(Job) end),
    receive
        {Keeper, leased, Name} ->
            true = demonitor(Ref, [flush]),
            {ok, Name};
        {'DOWN', Ref, process, Keeper, _} ->
            {error, {too_many_jobs, ?NAMES}}
    end.

-spec keep(pid()) -> ok.
keep(Job) ->
    proc_lib:set_label(?MODULE),
    Ref = monitor(process, Job),
    case register_free(1) of
        {ok, Name} ->
            Job ! {self(), leased, Name},
            receive
                {'DOWN', Ref, process, Job, _} -> unload(Name)
            end;
        none ->
            ok
    end.

-spec register_free(pos_integer()) -> {ok, module()} | none.
register_free(N) when N > ?NAMES ->
    none;
register_free(N) ->
    Name = list_to_atom("dyno_bench_job_" ++ integer_to_list(N)),
    try register(Name, self()) of
        true -> {ok, Name}
    catch
        error:badarg -> register_free(N + 1)
    end.

%% Whoever still runs it is a process that the code has started: it ends with its code.
-spec unload(module()) -> ok.
unload(Name) ->
    _ = code:purge(Name),
    _ = code:delete(Name),
    _ = code:purge(Name),
    ok.
