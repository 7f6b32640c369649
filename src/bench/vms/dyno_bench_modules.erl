%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_modules).
-moduledoc false.
%% The modules of ours that another VM needs to measure, and where it finds them.

-export([to_measure/0, folder/0, written/2, forget/0, format_error/1, fault/1]).
-export_type([reason/0]).

-type reason() :: {not_written, file:filename_all(), file:posix()}.

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
-spec folder() -> {ok, file:filename_all()} | {error, {?MODULE, reason()}}.
folder() ->
    {_, _, File} = code:get_object_code(?MODULE),
    Folder = filename:absname(filename:dirname(File)),
    case {filelib:is_dir(Folder), persistent_term:get(?WRITTEN, none)} of
        {true, _} -> {ok, Folder};
        {false, none} -> written(os:getenv("TMPDIR", "/tmp"), dyno_code:objects(to_measure()));
        {false, Written} -> {ok, Written}
    end.

-doc "Writes modules to a new folder in this one.".
-spec written(file:filename_all(), [dyno_code:object()]) ->
    {ok, file:filename_all()} | {error, {?MODULE, reason()}}.
written(Temporary, Objects) ->
    Name = io_lib:format("dyno-~ts-bench", [os:getpid()]),
    Folder = filename:join(Temporary, lists:flatten(Name)),
    maybe
        ok ?= filelib:ensure_path(Folder),
        ok ?= dyno_code:write(Folder, Objects),
        persistent_term:put(?WRITTEN, Folder),
        {ok, Folder}
    else
        {error, Posix} ->
            _ = file:del_dir_r(Folder),
            {error, {?MODULE, {not_written, Folder, Posix}}}
    end.

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

-spec format_error(reason()) -> unicode:chardata().
format_error({not_written, Folder, Posix}) ->
    io_lib:format(
        "dyno's modules, which VMs of their own need, could not be written to ~ts: ~ts; set TMPDIR "
        "to a folder with room for 2 MB",
        [Folder, file:format_error(Posix)]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
