%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_modules).
-moduledoc false.
%% The modules of ours that another VM needs to measure, and where it finds them.

-export([to_measure/0, folder/0, forget/0]).

-define(WRITTEN, {?MODULE, folder}).

%% Where calls begin. The plan that a benchmark file gives has funs of the module that reads it.
-define(ROOTS, [
    dyno_bench_vm_server,
    dyno_bench_remote_guard,
    dyno_bench_member,
    dyno_bench_mode,
    dyno_bench_inputs,
    dyno_bench_file
]).

-doc "All of ours that a measurement calls, directly or not.".
-spec to_measure() -> [module(), ...].
to_measure() ->
    dyno_code:closure(?ROOTS).

-doc """
A folder for the code path of a VM on this machine. Where dyno is an escript its modules are written
there, once; `forget/0` removes them, and the shell that started dyno does where it was killed.
""".
-spec folder() -> file:filename_all().
folder() ->
    {_, _, File} = code:get_object_code(?MODULE),
    Folder = filename:absname(filename:dirname(File)),
    case filelib:is_dir(Folder) of
        true -> Folder;
        false -> written(persistent_term:get(?WRITTEN, none))
    end.

written(none) ->
    Name = io_lib:format("dyno-~ts-bench", [os:getpid()]),
    Folder = filename:join(os:getenv("TMPDIR", "/tmp"), lists:flatten(Name)),
    ok = filelib:ensure_path(Folder),
    ok = dyno_code:write(Folder, dyno_code:objects(to_measure())),
    persistent_term:put(?WRITTEN, Folder),
    Folder;
written(Folder) ->
    Folder.

-doc "Removes what `folder/0` has written.".
-spec forget() -> ok.
forget() ->
    case persistent_term:get(?WRITTEN, none) of
        none ->
            ok;
        Folder ->
            _ = file:del_dir_r(Folder),
            _ = persistent_term:erase(?WRITTEN),
            ok
    end.
